"""Shapes a conversation for one chat template: what the template cannot show is written in a way it can.

What it can show is found by asking it: small conversations are rendered once per template, and a turn whose
text does not appear (or that is refused) is not supported. Nothing here guesses from a template's source.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from ringleader.language.dialects.history import TAGGED, History
from ringleader.language.recursion import deeper_than
from ringleader.language.sandbox import TemplateFault, expand
from ringleader.language.schema import DEPTH_MAX, NO_ARGUMENTS
from ringleader.values import Json, Message, Tool

Turn = dict[str, Json]

SYSTEM, LATER, USER, AGAIN = "sysprobe71", "sysprobe72", "userprobe73", "userprobe74"
NAME, VALUE, RESULT = "nameprobe75", "valueprobe76", "resultprobe77"
PROBE_DAY = datetime.date(2024, 1, 1)  # some templates fail without a date
TRAITS_MAX = 64


@dataclass(frozen=True, slots=True)
class Traits:
    """What a template shows. `system_late`: a system turn that is not the first. `repeats`: two turns of one
    role in a row. `tools`: the list of tools. `calls`: calls and results of the history; `many_calls`: several
    in one turn. `any_id`: call ids of any shape (some insist on nine letters and digits). `none_as_list`: wants
    an empty list, not None, where there are no tools."""

    system: bool
    system_late: bool
    repeats: bool
    tools: bool
    calls: bool
    many_calls: bool
    any_id: bool
    none_as_list: bool


def shaped(
    template: str,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    special: tuple[str, str],
    history: History = TAGGED,
) -> tuple[list[Turn], list[Json] | None]:
    """The turns and the list of tools to hand to the template. `special` is the text of its BOS and EOS tokens."""
    traits = probe(template, *special)
    described = [_tool(tool) for tool in tools]
    turns = [_turn(message) for message in _in_call_order(messages)]
    if not traits.calls:
        turns = [_calls_as_text(turn, history) for turn in turns]
        turns = _merged(turns, lambda turn: "tool_results" in turn)
    else:
        if history.ids != "any":
            by_turn = history.ids == "indexed_by_turn"
            turns = _with_ids(turns, lambda name, n: f"functions.{name}:{n}", by_turn=by_turn)
        elif not traits.any_id:
            turns = _with_ids(turns, lambda _, n: f"call{n:05d}")
        turns = turns if traits.many_calls else _one_call_each(turns)
    if described and not traits.tools:
        turns.insert(0, {"role": "system", "content": history.describe(described)})
        if len(turns) > 1 and turns[1]["role"] == "system":  # the client's own words come first
            turns[0]["content"] = _joined(turns.pop(1)["content"], turns[0]["content"])
    turns = _systems_placed(turns, traits)
    if not traits.repeats:
        turns = _merged(turns, lambda turn: turn["role"] in {"user", "assistant"})
    for turn in turns:
        turn.pop("tool_results", None)
    return turns, described if described and traits.tools else [] if traits.none_as_list else None


# ---------------------------------------------------------------- values to what templates read


def _tool(tool: Tool) -> Json:
    parameters = tool.parameters or NO_ARGUMENTS
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(parameters)},
    }


def _turn(message: Message) -> Turn:
    turn: Turn = {"role": message.role, "content": message.content or ""}
    if message.reasoning:
        turn["reasoning_content"] = message.reasoning
    if message.tool_calls:
        turn["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _arguments(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        turn["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        turn["name"] = message.name
    return turn


def _arguments(text: str) -> Json:
    """The object that templates iterate over; the raw text where it is none."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) and not deeper_than(value, DEPTH_MAX) else text


def _in_call_order(messages: Sequence[Message]) -> list[Message]:
    """Results in the order of their calls, each with its tool's name: some templates pair them by place."""
    ordered: list[Message] = []
    order: dict[str, tuple[int, str]] = {}
    run = 0  # where the run of results at the end of `ordered` begins
    for message in messages:
        if message.role != "tool":
            order = {call.id: (n, call.name) for n, call in enumerate(message.tool_calls)}
            ordered.append(message)
            run = len(ordered)
            continue
        name = message.name or order.get(message.tool_call_id or "", (0, None))[1]
        ordered.append(Message("tool", message.content, tool_call_id=message.tool_call_id, name=name))
        ordered[run:] = sorted(ordered[run:], key=lambda m: order.get(m.tool_call_id or "", (len(order), ""))[0])
    return ordered


# ---------------------------------------------------------------- what the template cannot show


def _calls_as_text(turn: Turn, history: History) -> Turn:
    if turn["role"] == "tool":
        return {"role": "user", "content": history.write_result(turn["content"]), "tool_results": True}
    if "tool_calls" not in turn:
        return turn
    calls = (call["function"] for call in turn["tool_calls"])
    written = "\n".join(history.write_call(call["name"], call["arguments"]) for call in calls)
    rest = {key: value for key, value in turn.items() if key != "tool_calls"}
    return {**rest, "content": f"{turn['content']}\n{written}" if turn["content"] else written}


def _systems_placed(turns: list[Turn], traits: Traits) -> list[Turn]:
    """System turns where the template shows them: in place, all at the front, or in the first user turn."""
    systems = [turn for turn in turns if turn["role"] == "system"]
    late = any(turn["role"] == "system" for turn in turns[1:])
    if not systems or (traits.system and (traits.system_late or not late)):
        return turns
    text = "\n\n".join(turn["content"] for turn in systems if turn["content"])
    others = [turn for turn in turns if turn["role"] != "system"]
    if traits.system:
        return [{"role": "system", "content": text}, *others]
    for n, turn in enumerate(others):
        if turn["role"] == "user":
            others[n] = {**turn, "content": _joined(text, turn["content"])}
            return others
    return [{"role": "user", "content": text}, *others]


def _merged(turns: list[Turn], may_merge: Callable[[Turn], bool]) -> list[Turn]:
    merged: list[Turn] = []
    for turn in turns:
        last = merged[-1] if merged else None
        if last is None or last["role"] != turn["role"] or not (may_merge(last) and may_merge(turn)):
            merged.append(turn)
            continue
        between = "\n" if "tool_results" in turn else "\n\n"
        last = {**last, **turn, "content": between.join(t["content"] for t in (last, turn) if t["content"])}
        if calls := [*merged[-1].get("tool_calls", ()), *turn.get("tool_calls", ())]:
            last["tool_calls"] = calls
        merged[-1] = last
    return merged


def _with_ids(turns: list[Turn], shape: Callable[[str, int], str], *, by_turn: bool = False) -> list[Turn]:
    """Ids made by `shape` from a call's name and its number in the conversation, the same for its result."""
    given: dict[str, str] = {}
    calls = 0
    for turn in turns:
        calls = 0 if by_turn and turn.get("tool_calls") else calls
        for call in turn.get("tool_calls", ()):
            given[call["id"]] = call["id"] = shape(call["function"]["name"], calls)
            calls += 1
        if "tool_call_id" in turn:
            turn["tool_call_id"] = given.get(turn["tool_call_id"], turn["tool_call_id"])
    return turns


def _one_call_each(turns: list[Turn]) -> list[Turn]:
    """Calls made together as if they had been made one after the other, each followed by its result."""
    split: list[Turn] = []
    moved: set[str] = set()
    for n, turn in enumerate(turns):
        calls = turn.get("tool_calls", ())
        if len(calls) < 2:
            split += [] if turn.get("tool_call_id") in moved else [turn]
            continue
        results = list(takewhile(lambda t: t["role"] == "tool", turns[n + 1 :]))
        for k, call in enumerate(calls):
            split.append({**turn, "content": turn["content"] if k == 0 else "", "tool_calls": [call]})
            split += [result for result in results if result.get("tool_call_id") == call["id"]]
            moved.add(call["id"])
    return split


def _joined(first: str, second: str) -> str:
    return f"{first}\n\n{second}" if first and second else first or second


# ---------------------------------------------------------------- asking the template


@lru_cache(maxsize=TRAITS_MAX)
def probe(template: str, bos_token: str, eos_token: str) -> Traits:
    """What `template` shows, found by rendering a handful of small conversations."""

    def shows(turns: list[Turn], wanted: Sequence[str], tools: list[Json] | None = None) -> bool:
        context = {"messages": turns, "tools": tools, "bos_token": bos_token, "eos_token": eos_token}
        try:
            text = expand(template, {**context, "add_generation_prompt": True}, PROBE_DAY)
        except TemplateFault:
            return False
        return all(word in text for word in wanted)

    user: Turn = {"role": "user", "content": USER}
    system: Turn = {"role": "system", "content": SYSTEM}
    later: Turn = {"role": "system", "content": LATER}
    again: Turn = {"role": "user", "content": AGAIN}
    answer: Turn = {"role": "assistant", "content": VALUE}
    tool = _tool(Tool(NAME, "probe", {"type": "object", "properties": {"key": {"type": "string"}}}))
    none: list[Json] | None = None if shows([user], (USER,)) else []
    any_id = shows(_call_turns("call_probe123456"), (NAME, VALUE, RESULT), [tool])
    repeats = shows([user, again], (USER, AGAIN), none) and shows([user, answer, answer, again], (USER, AGAIN), none)
    return Traits(
        system=shows([system, user], (SYSTEM, USER), none),
        system_late=shows([system, user, answer, later, again], (SYSTEM, LATER, AGAIN), none),
        repeats=repeats,
        tools=shows([user], (NAME,), [tool]),
        calls=any_id or shows(_call_turns("abcdef123"), (NAME, VALUE, RESULT), [tool]),
        many_calls=shows(_call_turns("abcdef123", "abcdef124"), (f"{VALUE}1",), [tool]),
        any_id=any_id,
        none_as_list=none is not None and shows([user], (USER,), none),
    )


def _call_turns(*ids: str) -> list[Turn]:
    """A question, a call for each id (the last one's value ends in its number), and their results."""
    calls: list[Json] = [
        {"id": id_, "type": "function", "function": {"name": NAME, "arguments": {"key": f"{VALUE}{n or ''}"}}}
        for n, id_ in enumerate(ids)
    ]
    results: list[Turn] = [{"role": "tool", "content": RESULT, "tool_call_id": id_, "name": NAME} for id_ in ids]
    return [{"role": "user", "content": USER}, {"role": "assistant", "content": "", "tool_calls": calls}, *results]
