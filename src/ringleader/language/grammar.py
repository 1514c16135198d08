"""One llguidance grammar per request: reasoning, free text and calls in the model's own form.

What the request's choice forbids, the grammar makes impossible; it never falls back to free text in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llguidance import LLMatcher

from ringleader.errors import BadRequest
from ringleader.language.dialects.dialect import CallRule, Dialect, Opens, Reasoning, Thinking
from ringleader.language.dialects.lexemes import ANYTHING, containing, literal, until
from ringleader.language.schema import Verdict, closed, grammar_text, invalid, judge
from ringleader.language.tool_choice import ToolChoice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Tool

# Between reasoning and a forced call; bounded, so that no model loops in it.
GAP = "GAP: /[ \\n]{1,4}/"


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
    reasoning: Reasoning = "possible",
) -> Grammar | None:
    """The grammar of a whole answer, or None for a request without tools, which nothing constrains.

    `reasoning` says where the prompt leaves the model. Compiled once here, so that what the tail gets is
    known to compile.

    Raises:
        BadRequest: a schema that cannot be enforced, of a tool that is forced or strict.
    """
    if not tools:
        return None
    rules, warnings = _rules_of_calls(tools, choice)
    lark = dialect.answer(rules, choice, reasoning) or _answer(dialect, rules, choice, reasoning)
    text = str(LLMatcher.grammar_from_lark(lark))
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
            rule, warning = _call_rule(tool, index, forced=choice.mode == "required")
            rules.append(rule)
            warnings += [warning] if warning else []
    return rules, tuple(warnings)


def _call_rule(tool: Tool, index: int, *, forced: bool) -> tuple[CallRule, str | None]:
    """The enforced schema, leniently where that is allowed, with a warning that says what is left out."""
    param = f"tools[{index}].function.parameters"
    try:
        schema = closed(tool.parameters)
    except ValueError as reason:
        raise invalid(tool.name, param, str(reason)) from None
    text = grammar_text(schema, lenient=False)
    verdict = judge(text)
    if verdict.error is None:
        return CallRule(tool.name, text, schema), _warning(param, verdict)
    lenient_text = grammar_text(schema, lenient=True)
    lenient = judge(lenient_text)
    if forced or tool.strict or lenient.error is not None:
        raise invalid(tool.name, param, f"{verdict.error} {_advice(lenient)}")
    return CallRule(tool.name, lenient_text, schema, lenient=True), _warning(param, lenient)


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


def _answer(dialect: Dialect, rules: Sequence[CallRule], choice: ToolChoice, reasoning: Reasoning) -> str:
    lines = [dialect.grammar(rules, max(1, choice.least), choice.most)] if rules else []
    thinking = dialect.thinking
    if choice.mode == "required":
        return "\n".join([*_thought(thinking, reasoning, "calls", required=True), *lines])
    lines += _start_of_answer(dialect, choice, reasoning)
    return "\n".join([*_thought(thinking, reasoning, "answer", required=False), *lines])


def _thought(thinking: Thinking | None, reasoning: Reasoning, then: str, *, required: bool) -> list[str]:
    """The start: reasoning where there may be some, then `then`. An answer that forces nothing may end in it."""
    gap, gaps = ("GAP? ", [GAP]) if required else ("", [])
    if thinking is None or reasoning == "over" or (reasoning == "possible" and not thinking.expected):
        return [f"start: {then}"]
    closing, lines = until("reasoning", thinking.close)
    if reasoning == "possible":
        return [f"start: think {gap}{then} | {then}", f"think: {thinking.open.lark} {closing}", *gaps, *lines]
    if required:
        return [f"start: {closing} {gap}{then}", *gaps, *lines]
    unended = f"UNENDED: /{ANYTHING}/"
    if thinking.close.lead is None:
        unended += f" & ~{containing(thinking.close.text)}"
    return [f"start: UNENDED | {closing} {then}", unended, *lines]


def _start_of_answer(dialect: Dialect, choice: ToolChoice, reasoning: Reasoning) -> list[str]:
    """Free text, then perhaps calls. A marker that is plain text can only be written as the begin of a call:
    the lazy lexeme ends at its first appearance, and the other one does not contain it at all."""
    bars = {opens: f" & ~{_barred(opens)}" for opens in dialect.opens if _is_barred(opens, choice)}
    thinking, early = dialect.thinking, ""
    if thinking is not None and thinking.expected and reasoning == "possible" and thinking.open.lead is None:
        early = f" & ~/\\s*{literal(thinking.open.text)}{ANYTHING}/"
    ways, lines = ["TEXT"], [f"TEXT: /{ANYTHING}/{''.join(bars.values())}{early}"]
    for n, opens in enumerate(dialect.opens if choice.mode == "auto" else ()):
        rest = f"calls_rest_{n}" if n else "calls_rest"
        if opens.marker.lead == "":
            ways.append(f"TEXT {opens.marker.lark} {rest}")
        elif opens.first:
            lines.append(f"lead_{n}: /\\s*{literal(opens.marker.text)}/")
            ways.append(f"lead_{n} {rest}")
        else:
            others = "".join(bar for other, bar in bars.items() if other is not opens and not _overlaps(other, opens))
            leading, more = until(f"lead_{n}", opens.marker, others + early)
            lines += more
            ways.append(f"{leading} {rest}")
    return [f"answer: {' | '.join(ways)}", *lines]


def _overlaps(one: Opens, other: Opens) -> bool:
    return one.marker.text in other.marker.text or other.marker.text in one.marker.text


def _is_barred(opens: Opens, choice: ToolChoice) -> bool:
    """Whether free text must not contain it. One that is a special token cannot be in text anyway; one that is
    a part of a call's own text does no harm where nothing is called."""
    return opens.marker.lead != "" and (choice.mode == "auto" or opens.first or not opens.kept)


def _barred(opens: Opens) -> str:
    if opens.first:
        return f"/\\s*{literal(opens.marker.text)}{ANYTHING}/"
    return containing(opens.marker.text)
