"""Literals in, JSON out, at every cut; what is no literal is refused."""

from __future__ import annotations

import json

import pytest

from ringleader.language.dialects.dialect import Marker
from ringleader.language.dialects.literal_reader import LiteralReader

PLAIN = Marker('<|"|>', None, ('<|"|>',))
TOKEN = Marker('<|"|>', 7, (7,))


def read(text: str, close: str = ")", quote: Marker | None = None, *, barewords: bool = False) -> str | None:
    """The JSON text, or None where the reader broke."""
    reader = LiteralReader(close, quote, barewords=barewords)
    found = "".join(map(reader.push, text))
    return found if reader.done and not reader.broken else None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (")", {}),
        ("a=1)", {"a": 1}),
        ('a=\'it\\\'s\', b="say \\"x\\"")', {"a": "it's", "b": 'say "x"'}),
        (
            "a=True, b=False, c=None, d=true, e=false, f=null)",
            dict(zip("abcdef", [True, False, None] * 2, strict=True)),
        ),
        ("a=-1.5e3, b=1_000, c=.5, d=0x10)", {"a": -1500.0, "b": 1000, "c": 0.5, "d": 16}),
        ("a=[1, [2, 'x',], {}], b={'k': {\"l\": [None]}},)", {"a": [1, [2, "x"], {}], "b": {"k": {"l": [None]}}}),
        (" a = 1 ,\n b = [ ] )", {"a": 1, "b": []}),
        ("a='\\n\\t\\\\ \\x41\\u00e9\\U0001F422 \\d \\/', b='äö\n')", {"a": "\n\t\\ Aé🐢 \\d /", "b": "äö\n"}),
        ("a='\\ud83d\\udc22')", {"a": "🐢"}),
        ("a='), b=(', b=')')", {"a": "), b=(", "b": ")"}),
        ('"a b"=1, c-d=2)', {"a b": 1, "c-d": 2}),
    ],
)
def test_python_is_read_as_the_json_that_it_means(text: str, value: object) -> None:
    found = read(text)
    assert found is not None
    assert json.loads(found) == value


@pytest.mark.parametrize(
    "text",
    ["'x')", "a=Paris)", "a=f('x'))", "a=1]", "a=[1)", "a=)", "a)", "a=1 b=2)", "a=1e999x)", "a=(1, 2))"],
)
def test_what_is_no_argument_list_breaks(text: str) -> None:
    assert read(text) is None


def test_raw_strings_take_anything_up_to_their_quote() -> None:
    text = 'a:<|"|>x", \'{}<|" \\n<|"|>,b:{c:<|"|><|"|>,d:[<|"|>y<|"|>,true]}}'
    found = read(text, "}", quote=PLAIN)
    assert found is not None
    assert json.loads(found) == {"a": 'x", \'{}<|" \\n', "b": {"c": "", "d": ["y", True]}}


def test_a_quote_that_is_a_token_is_text_when_it_is_spelled() -> None:
    reader = LiteralReader("}", TOKEN)
    pieces = [*map(reader.push, "a:"), reader.meet(TOKEN), *map(reader.push, 'see <|"|> there'), reader.meet(TOKEN)]
    pieces += map(reader.push, "}")
    assert json.loads("".join(pieces)) == {"a": 'see <|"|> there'}
    assert reader.done


def test_a_token_in_a_wrong_place_breaks() -> None:
    for before in ("", "a", "a:1,b:2"):
        reader = LiteralReader("}", TOKEN)
        for char in before:
            reader.push(char)
        reader.meet(TOKEN)
        assert reader.broken == (before != "")


def test_bare_words_are_strings_only_where_they_may_be() -> None:
    assert read("a:New York,b:3}", "}") is None
    found = read("a:New York,b:3}", "}", barewords=True)
    assert found is not None
    assert json.loads(found) == {"a": "New York", "b": 3}


def test_strings_stream() -> None:
    reader = LiteralReader(")")
    pieces = [piece for char in "a='abcdef'" if (piece := reader.push(char))]
    assert pieces[-7:] == ["a", "b", "c", "d", "e", "f", '"']
