"""One llguidance grammar per request: reasoning, free text and calls in the model's own form.

What the request's choice forbids, the grammar makes impossible; it never falls back to free text in silence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from llguidance import LLMatcher

from ringleader.errors import BadRequest
from ringleader.language.call_rules import callables
from ringleader.language.content import ContentRule, patterned_content
from ringleader.language.dialects.dialect import CallRule, Dialect, Opens, Reasoning, Shape, Thinking, raw_rule
from ringleader.language.dialects.lexemes import ANYTHING, containing, literal, until
from ringleader.language.enforcement import Check
from ringleader.language.outgrowth import Probe
from ringleader.language.schema import sentence
from ringleader.language.tool_choice import ToolChoice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Tool

# Between reasoning and a forced call; bounded, so that no model loops in it.
GAP = "GAP: /[ \\n]{1,4}/"
# What separates calls may also end them: a model that writes it must not be held to a further call.
TAIL = 'TAIL: "\\n"'
NEWLINE = "\n"


@dataclass(frozen=True, slots=True)
class Grammar:
    """`text` is what `LLMatcher` takes; `warnings` says what of the schemas it does not enforce.

    `checks` are what calls must match when they are whole, by the tool's name; `patterned` are the places in the
    request of what may outgrow the engine at some text.
    """

    text: str
    warnings: tuple[str, ...] = ()
    checks: Mapping[str, Check] = field(default_factory=dict)
    patterned: tuple[str, ...] = ()


def build(
    dialect: Dialect,
    tools: Sequence[Tool],
    choice: ToolChoice,
    tokenizer: Tokenizer,
    *,
    reasoning: Reasoning = "possible",
    content: ContentRule | None = None,
) -> Grammar | None:
    """The grammar of a whole answer, or None for a request without tools and of free text: nothing constrains it.

    `reasoning` says where the prompt leaves the model; `content` what text must be, where there is any.
    Compiled once here, so that what the tail gets is known to compile.

    Raises:
        BadRequest: a schema that cannot be used, or enforced where that is strictly wanted; names its place.
    """
    if not tools and content is None:
        return None
    probe = Probe(tokenizer.grammar_view)
    called = callables(tools, choice, probe)
    rules, raw = called.rules, called.raw
    shape = Shape(None if content is None else content.schema, tuple(tool.name for tool in raw))
    own = dialect.answer(rules, shape, choice, reasoning)
    lark = _answer(dialect, rules, shape, choice, reasoning) if own is None else own
    text = _text(lark, raw)
    matcher = LLMatcher(tokenizer.grammar_view, text, log_level=0)
    matcher.compute_bitmask()
    if choice.mode == "required" and matcher.consume_tokens(matcher.compute_ff_tokens()) and not matcher.is_stopped():
        matcher.compute_bitmask()  # the first mask that the tail makes, after what is forced
    if matcher.is_error():
        reason = matcher.get_error().split("\n")[0]
        raise BadRequest(
            f"the tools cannot be enforced together: {sentence(reason)} Send fewer or simpler tools.", param="tools"
        )
    warnings, patterned = called.warnings, called.patterned
    if content is not None:
        warnings += content.warnings
        patterned += patterned_content(content, probe)
    return Grammar(text, warnings, called.checks, patterned)


def _text(lark: str, raw: Sequence[Tool]) -> str:
    """What the engine takes: the answer's grammar, and beside it those that clients brought."""
    grammars = [{"lark_grammar": lark}]
    for n, tool in enumerate(raw):
        assert tool.grammar is not None
        grammars.append({"name": raw_rule(n).removeprefix("@"), "lark_grammar": tool.grammar.definition})
    return json.dumps({"grammars": grammars})


# ---------------------------------------------------------------- the answer around them


def _answer(dialect: Dialect, rules: Sequence[CallRule], shape: Shape, choice: ToolChoice, reasoning: Reasoning) -> str:
    lines = [dialect.grammar(rules, max(1, choice.least), choice.most)] if rules else []
    tail = " TAIL?" if choice.most > 1 else ""
    rests = {0: f"calls_rest{tail}"} if rules else {}
    lines += [TAIL] if tail and rules else []
    if shape.raw:
        # A client's grammar may take any text, the closing marker's too: only the answer's end ends such a call.
        bodies = [f"{json.dumps(f'{name}{NEWLINE}')} {raw_rule(n)}" for n, name in enumerate(shape.raw)]
        lines += [f"raw_rest: {' | '.join(bodies)}"]
        rests[0] = f"({rests[0]} | raw_rest)" if rules else "raw_rest"
    if rules:
        rests |= {n: f"calls_rest_{n}{tail}" for n in range(1, len(dialect.opens))}
    thinking = dialect.thinking
    if choice.mode == "required":
        raw = f"{dialect.opens[0].marker.lark} raw_rest"
        forced = f"(calls{tail} | {raw})" if rules and shape.raw else raw if shape.raw else f"calls{tail}"
        return "\n".join([*_thought(thinking, reasoning, "forced", required=True), f"forced: {forced}", *lines])
    if shape.content is not None:
        lines += [f"content: %json {shape.content}", *_start_of_content(dialect, choice, rests)]
        return "\n".join([*_thought(thinking, reasoning, "answer", required=True), *lines])
    heads = dict(dialect.heads(rules))
    heads |= {f"{dialect.opens[0].marker.text}{name}{NEWLINE}": raw_rule(n) for n, name in enumerate(shape.raw)}
    lines += _start_of_answer(dialect, choice, reasoning, rests, heads)
    return "\n".join([*_thought(thinking, reasoning, "answer", required=False), *lines])


def _thought(thinking: Thinking | None, reasoning: Reasoning, then: str, *, required: bool) -> list[str]:
    """The start: reasoning where there may be some, then `then`. An answer that forces nothing may end in it."""
    gap, gaps = ("GAP? ", [GAP]) if required else ("", [])
    if thinking is None or reasoning == "over" or (reasoning == "possible" and not thinking.expected):
        return [f"start: {then}"]
    closing, lines = until("reasoning", thinking.close)
    if reasoning == "possible":
        lead = f"{json.dumps(thinking.lead)}? " if thinking.lead else ""
        skipped = f"{thinking.close.lark} {gap}" if thinking.declines else ""
        ways = [f"think {gap}{then}", then, *([skipped + then] if skipped else [])]
        return [f"start: {' | '.join(ways)}", f"think: {lead}{thinking.open.lark} {closing}", *gaps, *lines]
    if required:
        return [f"start: {closing} {gap}{then}", *gaps, *lines]
    unended = f"UNENDED: /{ANYTHING}/"
    if thinking.close.lead is None:
        unended += f" & ~{containing(thinking.close.text)}"
    return [f"start: UNENDED | {closing} {then}", unended, *lines]


def _start_of_content(dialect: Dialect, choice: ToolChoice, rests: Mapping[int, str]) -> list[str]:
    """Text of a form, or calls: no other text stands beside either."""
    ways = [_framed(dialect, "content")]
    if choice.mode == "auto":
        ways += [f"{dialect.opens[n].marker.lark} {rest}" for n, rest in rests.items()]
    return [f"answer: {' | '.join(ways)}"]


def _start_of_answer(
    dialect: Dialect, choice: ToolChoice, reasoning: Reasoning, rests: Mapping[int, str], heads: Mapping[str, str]
) -> list[str]:
    """Free text, then perhaps calls. A marker that is plain text can only be written as the begin of a call:
    the lazy lexeme ends at its first appearance, and the other one does not contain it at all."""
    bars = {opens: f" & ~{_barred(opens, heads)}" for opens in dialect.opens if _is_barred(opens, choice)}
    thinking, early = dialect.thinking, ""
    if thinking is not None and thinking.expected and reasoning == "possible" and thinking.open.lead is None:
        early = f" & ~/\\s*{literal(thinking.open.text)}{ANYTHING}/"
    text = _framed(dialect, "TEXT")
    ways, lines = [text], [f"TEXT: /{ANYTHING}/{''.join(bars.values())}{early}"]
    for n, rest in rests.items() if choice.mode == "auto" else ():
        opens = dialect.opens[n]
        if opens.marker.lead == "":
            ways.append(f"{f'({text})?' if dialect.around else text} {opens.marker.lark} {rest}")
        elif opens.then:
            for k, (head, after) in enumerate(heads.items()):
                lines.append(f"lead_{n}_{k}[lazy]: /\\s*{literal(head)}/")
                ways.append(f"lead_{n}_{k} {after}")
        elif opens.first:
            lines.append(f"lead_{n}[lazy]: /\\s*{literal(opens.marker.text)}/")
            ways.append(f"lead_{n} {rest}")
        else:
            others = "".join(bar for other, bar in bars.items() if other is not opens and not _overlaps(other, opens))
            leading, more = until(f"lead_{n}", opens.marker, others + early)
            lines += more
            ways.append(f"{leading} {rest}")
    return [f"answer: {' | '.join(ways)}", *lines]


def _framed(dialect: Dialect, rule: str) -> str:
    """The rule of visible text, in what the family writes around it."""
    if not dialect.around:
        return rule
    before, after = dialect.around
    return f"{before.lark} {rule} {after.lark}"


def _overlaps(one: Opens, other: Opens) -> bool:
    return one.marker.text in other.marker.text or other.marker.text in one.marker.text


def _is_barred(opens: Opens, choice: ToolChoice) -> bool:
    """Whether free text must not contain it. One that is a special token cannot be in text anyway; one that is
    a part of a call's own text does no harm where nothing is called."""
    return opens.marker.lead != "" and (choice.mode == "auto" or opens.first or not opens.kept)


def _barred(opens: Opens, heads: Mapping[str, str]) -> str:
    if opens.then:
        begins = [f"{literal(opens.marker.text)}{opens.then}", *map(literal, heads)]
        return f"/\\s*({'|'.join(begins)}){ANYTHING}/"
    if opens.first:
        return f"/\\s*{literal(opens.marker.text)}{ANYTHING}/"
    return containing(opens.marker.text)
