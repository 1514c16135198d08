"""What the shared suite must know of a family: a vocabulary, a template, and calls written in its own form.

Families stand in modules named `families_*.py`, each with a list `FAMILIES`; the suite finds them all.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from ringleader.language.prompt import Voice, voice
from ringleader.tokenizer import Tokenizer
from tests.unit.language.vocabulary import CHATML, tokenizer_with

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Family:
    """`write` is the text of calls in the family's own form, special tokens as their text, without any end token.

    `template` must make `dialect` the detected one. `thought` is reasoning as the family writes it before its
    answer ("" for none), `said` its way to write plain text, `separate_text` text and then calls in one answer.
    `markup` are texts that must stay text inside values; `many` says whether one answer may hold several calls.
    `talks` says whether text may stand before calls. `endings` help a random walk out of what has no end of its own.
    """

    label: str
    dialect: str
    write: Callable[[Sequence[Call]], str]
    special: tuple[str, ...] = ()
    template: str = CHATML
    ends: tuple[str, ...] = ("<|im_end|>",)
    thought: Callable[[str], str] | None = None
    said: Callable[[str], str] = field(default=lambda text: text)
    joined: Callable[[str, str], str] = field(default=lambda text, calls: f"{text}\n{calls}")
    talks: bool = True
    markup: tuple[str, ...] = ()
    many: bool = True
    endings: tuple[str, ...] = ("</think>",)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return tokenizer_with(self.special, self.template, self.ends)

    @cached_property
    def voice(self) -> Voice:
        return voice(self.tokenizer, 8192)


def written(arguments: object) -> str:
    return json.dumps(arguments, ensure_ascii=False)


def thought_in_tags(text: str) -> str:
    return f"<think>\n{text}\n</think>\n\n"


def all_families() -> list[Family]:
    """Those of every `families_*` module beside this one."""
    package = __name__.rpartition(".")[0]
    names = [found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)])]
    modules = [import_module(f"{package}.{name}") for name in names if name.startswith("families_")]
    return [family for module in modules for family in module.FAMILIES]
