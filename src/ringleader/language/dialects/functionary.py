"""Functionary 3.1's calls: a tag that names the tool around the JSON of its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import BlockReader, CallRule, Dialect, Opens, marker, several
from ringleader.language.dialects.marked_call import MarkedForm, MarkedReader
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Functionary(Dialect):
    """`<function=f>{...}</function>`, repeated."""

    form: MarkedForm

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        begin = self.opens[0].marker.lark
        return "\n".join(
            [
                f"calls: {begin} calls_rest",
                f"calls_rest: one {several('more', '', least, most)}",
                f"more: {begin} one",
                self.form.rules("one", calls),
            ]
        )

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return MarkedReader(self.form)


def functionary(tokenizer: Tokenizer) -> Functionary:
    """The dialect for this vocabulary."""
    begin, end = marker(tokenizer, "<function="), marker(tokenizer, "</function>")
    form = MarkedForm(begin=begin, middle=marker(tokenizer, ">"), end=end, close=None, opened=True)
    return Functionary(name="functionary", opens=(Opens(begin),), markers=(end,), form=form)
