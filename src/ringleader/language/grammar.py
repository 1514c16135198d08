"""One llguidance grammar per request: reasoning, free text and calls in the model's own form.

What the request's choice forbids, the grammar makes impossible; it never falls back to free text in silence.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from llguidance import LLMatcher

from ringleader.errors import BadRequest
from ringleader.language.dialects.dialect import CallRule, Dialect, Marker
from ringleader.language.schema import Verdict, closed, grammar_text, invalid, judge
from ringleader.language.tool_choice import ToolChoice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Tool

ANYTHING = "(?s:.*)"  # in llguidance no regex matches a special token, so a marker that is one stays impossible


@dataclass(frozen=True, slots=True)
class Grammar:
    """`text` is what `LLMatcher` takes; `warnings` says what of the schemas it does not enforce."""

    text: str
    warnings: tuple[str, ...] = ()


def build(
    dialect: Dialect,
    tools: Sequence[Tool],
    choice: ToolChoice,
    tokenizer: Tokenizer,
    *,
    thinking_open: bool = False,
) -> Grammar | None:
    """The grammar of a whole answer, or None for a request without tools, which nothing constrains.

    `thinking_open` says that the prompt ends inside the model's reasoning; a forced choice must not (the
    prompt then closes it). Compiled once here, so that what the tail gets is known to compile.

    Raises:
        BadRequest: a schema that cannot be enforced, of a tool that is forced or strict.
    """
    if not tools:
        return None
    rules, warnings = _rules_of_calls(tools, choice)
    lines = [_start(dialect, choice, thinking_open)]
    if rules:
        more = _more(dialect, choice)
        lines += [f"calls: call {more}", f"calls_rest: call_rest {more}", dialect.call_rules(rules)]
    text = str(LLMatcher.grammar_from_lark("\n".join(lines)))
    matcher = LLMatcher(tokenizer.grammar_view, text, log_level=0)
    matcher.compute_bitmask()
    if matcher.is_error():
        reason = matcher.get_error().split("\n")[0][:200]
        raise BadRequest(
            f"the tools cannot be enforced together: {reason}. Send fewer or simpler tools.", param="tools"
        )
    return Grammar(text, warnings)


# ---------------------------------------------------------------- the tools


def _rules_of_calls(tools: Sequence[Tool], choice: ToolChoice) -> tuple[list[CallRule], tuple[str, ...]]:
    rules: list[CallRule] = []
    warnings: list[str] = []
    for index, tool in enumerate(tools):
        if tool.name in choice.permitted and tool.name not in {rule.name for rule in rules}:
            text, warning = _schema_text(tool, index, forced=choice.mode == "required")
            rules.append(CallRule(tool.name, text))
            warnings += [warning] if warning else []
    return rules, tuple(warnings)


def _schema_text(tool: Tool, index: int, *, forced: bool) -> tuple[str, str | None]:
    """The enforced schema, leniently where that is allowed, with a warning that says what is left out."""
    param = f"tools[{index}].function.parameters"
    try:
        schema = closed(tool.parameters)
    except ValueError as reason:
        raise invalid(tool.name, param, str(reason)) from None
    text = grammar_text(schema, lenient=False)
    verdict = judge(text)
    if verdict.error is None:
        return text, _warning(param, verdict)
    lenient_text = grammar_text(schema, lenient=True)
    lenient = judge(lenient_text)
    if forced or tool.strict or lenient.error is not None:
        raise invalid(tool.name, param, f"{verdict.error} {_advice(lenient)}")
    return lenient_text, _warning(param, lenient)


def _advice(lenient: Verdict) -> str:
    if lenient.error is not None:
        return "Correct the schema."
    return (
        "Take that out of the schema, or leave tool_choice at 'auto' without 'strict': "
        "it is then enforced as far as it can be."
    )


def _warning(param: str, verdict: Verdict) -> str | None:
    return f"{param} is not wholly enforced: {'; '.join(verdict.warnings)}" if verdict.warnings else None


# ---------------------------------------------------------------- the answer around them


def _start(dialect: Dialect, choice: ToolChoice, thinking_open: bool) -> str:
    if choice.mode == "required":
        return "start: calls"
    answer = _answer_with_calls(dialect) if choice.mode == "auto" else _answer_without_calls(dialect)
    if thinking_open:
        return f"{_open_reasoning(dialect.think_close)}\n{answer}"
    if dialect.thinks and dialect.think_open.token is not None and dialect.think_close.token is not None:
        think = f"think: {dialect.think_open.lark} /{ANYTHING}/ {dialect.think_close.lark}"
        return f"start: think? answer\n{think}\n{answer}"
    return f"start: answer\n{answer}"


def _answer_with_calls(dialect: Dialect) -> str:
    """Free text, then perhaps calls. A marker that is plain text can only be written as the begin of a call:
    the lazy lexeme ends at its first appearance, and the other one does not contain it at all."""
    marker = dialect.call_open
    if marker.token is not None:
        return f"answer: TEXT calls?\nTEXT: /{ANYTHING}/"
    lead = f"lead[lazy]: /{ANYTHING}{_regex(marker.text)}/"
    return f"answer: TEXT | lead calls_rest\nTEXT: {_without(marker)}\n{lead}"


def _answer_without_calls(dialect: Dialect) -> str:
    marker = dialect.call_open
    return f"answer: TEXT\nTEXT: {f'/{ANYTHING}/' if marker.token is not None else _without(marker)}"


def _open_reasoning(close: Marker) -> str:
    """Reasoning that the prompt began. The model may also end within it."""
    if close.token is not None:
        return f"start: /{ANYTHING}/ ({close.lark} answer)?"
    reasoning = f"reasoning[lazy]: /{ANYTHING}{_regex(close.text)}/"
    return f"start: UNENDED | reasoning answer\nUNENDED: {_without(close)}\n{reasoning}"


def _more(dialect: Dialect, choice: ToolChoice) -> str:
    """Up to so many further calls: the bound ends a model that calls for ever."""
    return f"({json.dumps(dialect.separator())} call){{0,{choice.most - 1}}}" if choice.most > 1 else ""


def _without(marker: Marker) -> str:
    inside = _regex(marker.text)
    return f"/{ANYTHING}/ & ~/{ANYTHING}{inside}{ANYTHING}/"


def _regex(text: str) -> str:
    """`text` as a literal in a lark regex. `<` and `>` stay bare: escaped, they would mean word boundaries."""
    return "".join("\\" + char if char in r"\.^$*+?()[]{}|/-" else char for char in text)
