"""Runs a model's chat template: jinja2 in its sandbox, with the few extras that chat templates expect.

A template comes with the weights from a stranger: it reaches no attribute of Python's own and writes no more
than a bound. Not the immutable sandbox: some models' templates append to lists.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment

from ringleader.values import Json

OUTPUT_CHARS_MAX = 16_000_000  # some four million tokens: above any context, below any harm
TEMPLATES_MAX = 64

# What a template's own code can raise, its messages' shape being ours and its expressions its own.
FAULTS = (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class TemplateFault(Exception):
    """The template refused what it was given, or failed on it. Holds its reason."""


def expand(template: str, context: dict[str, Json], today: datetime.date | None = None) -> str:
    """The template's text for these variables. `today` is what `strftime_now` formats, where it is given.

    Raises:
        TemplateFault: the template raised, does not parse, or wrote too much.
    """
    if today is not None:
        context = {**context, "strftime_now": today.strftime}
    written = 0
    pieces: list[str] = []
    try:
        for piece in _compiled(template).generate(context):
            written += len(piece)
            if written > OUTPUT_CHARS_MAX:
                raise TemplateFault(f"it writes more than {OUTPUT_CHARS_MAX} characters")
            pieces.append(piece)
    except FAULTS as error:
        raise TemplateFault(str(error) or type(error).__name__) from error
    return "".join(pieces)


@lru_cache(maxsize=TEMPLATES_MAX)
def variables(template: str) -> frozenset[str]:
    """The names that the template takes from outside; none of a template that does not parse."""
    try:
        return frozenset(find_undeclared_variables(_environment().parse(template)))
    except (jinja2.TemplateError, RecursionError):
        return frozenset()


@lru_cache(maxsize=TEMPLATES_MAX)
def _compiled(template: str) -> jinja2.Template:
    return _environment().from_string(template)


@lru_cache(maxsize=1)
def _environment() -> SandboxedEnvironment:
    made = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation])
    made.filters["tojson"] = _to_json
    made.globals["raise_exception"] = _raise
    return made


class _Sandbox(SandboxedEnvironment):
    """Also refuses `'a' * 10**9`: output is bounded as it is written, not inside one expression."""

    intercepted_binops = frozenset(["*", "**"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        for some, times in ((left, right), (right, left)):
            repeats = operator == "*" and isinstance(some, str | list | tuple) and isinstance(times, int)
            if repeats and len(some) * times > OUTPUT_CHARS_MAX:
                raise SecurityError("a repetition is too long")
        if operator == "**" and (abs(right) > 64 or abs(left) > 2**64):
            raise SecurityError("a power is too large")
        return super().call_binop(context, operator, left, right)


class _Generation(Extension):
    """`{% generation %}` marks, for training, what an assistant said. Here it is only its body."""

    tags = {"generation"}  # noqa: RUF012  jinja2 reads this attribute of the class as it is

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _to_json(
    value: Json,
    indent: int | None = None,
    ensure_ascii: bool = False,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Unlike jinja2's own: no HTML escapes, keys in the order in which they came, and what `map` gives is a list."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
        default=_list_of,
    )


def _list_of(value: Any) -> list[Any]:
    if isinstance(value, Iterator):
        return list(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _raise(message: str) -> None:
    raise jinja2.TemplateRuntimeError(message)
