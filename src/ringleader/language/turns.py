"""Shapes a conversation for one chat template: what the template cannot show is written in a way it can.

What it can show is known from `traits`: the template was asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import takewhile

from ringleader.language.dialects.history import TAGGED, History
from ringleader.language.recursion import deeper_than
from ringleader.language.schema import DEPTH_MAX
from ringleader.language.tool_listing import as_json, listing
from ringleader.language.traits import Traits, Turn, probe
from ringleader.values import Json, Message, Tool

REASONING = "reasoning"  # our own key, until the template's is known
BROKEN = "arguments"  # holds what should have been arguments and was no object
FILLER = ""  # said by nobody: for templates that want somebody to speak

# One escape of a JSON string at a time, so that an escaped backslash never pairs with what follows it.
_PAIR = r"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(rf"\\(?:{_PAIR}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{{2}})|.)", re.DOTALL)


def shaped(
    template: str,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    special: tuple[str, str],
    history: History = TAGGED,
    *,
    list_tools: bool = True,
) -> tuple[list[Turn], list[Json] | None]:
    """The turns and the list of tools to hand to the template. `special` is the text of its BOS and EOS tokens.

    With `list_tools` false the tools are described in the system turn, whatever the template says it can list.
    """
    traits = probe(template, *special)
    turns = [_turn(message) for message in _in_call_order(messages)]
    turns = _with_calls_shown(turns, traits, history)
    listed: list[Json] | None = [] if traits.none_as_list else None
    told = history.describe([as_json(tool) for tool in tools]) if tools else ""
    if tools and traits.tools and list_tools:
        found = listing(template, tools, special, plain_parameters=traits.plain_parameters)
        listed, told = list(found.listed), found.text
    if told:
        turns.insert(0, {"role": "system", "content": told})
        if len(turns) > 1 and turns[1]["role"] == "system":  # the client's own words come first
            turns[0]["content"] = _joined(turns.pop(1)["content"], turns[0]["content"])
    turns = _systems_placed(turns, traits)
    if not traits.repeats:
        turns = _merged(turns, lambda turn: turn["role"] in {"user", "assistant"})
    turns = _in_known_order([made for turn in turns for made in _shown_apart(turn, traits)], traits)
    for turn in turns:
        turn.pop("tool_results", None)
    return turns, listed


# ---------------------------------------------------------------- values to what templates read


def _turn(message: Message) -> Turn:
    turn: Turn = {"role": message.role, "content": message.content or ""}
    if message.reasoning:
        turn[REASONING] = message.reasoning
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
    """The object that templates iterate over; the raw text where it is none. Half a character, which JSON can spell
    and no tokenizer takes, becomes U+FFFD."""
    if not text.strip():
        return {}
    try:
        value = json.loads(_ESCAPE.sub(lambda found: r"\ufffd" if found["lone"] else found[0], text))
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


def _with_calls_shown(turns: list[Turn], traits: Traits, history: History) -> list[Turn]:
    """Calls and results in the template's own form, or as text where it has none."""
    if not traits.calls:
        texts = [_as_text(turn, history, results=not traits.results) for turn in turns]
        return _merged(texts, lambda turn: "tool_results" in turn)
    if history.ids != "any":
        by_turn = history.ids == "indexed_by_turn"
        turns = _with_ids(turns, lambda name, n: f"functions.{name}:{n}", by_turn=by_turn)
    elif not traits.any_id:
        turns = _with_ids(turns, lambda _, n: f"call{n:05d}")
    return turns if traits.many_calls else _one_call_each(turns)


def _as_text(turn: Turn, history: History, *, results: bool) -> Turn:
    """A turn with its calls as text; with `results`, a result as a turn of the user."""
    if turn["role"] == "tool" and results:
        return {"role": "user", "content": history.write_result(turn["content"]), "tool_results": True}
    if "tool_calls" not in turn:
        return turn
    calls = (call["function"] for call in turn["tool_calls"])
    written = history.write_calls([(call["name"], _object(call["arguments"])) for call in calls])
    rest = {key: value for key, value in turn.items() if key != "tool_calls"}
    return {**rest, "content": f"{turn['content']}\n{written}" if turn["content"] else written}


def _systems_placed(turns: list[Turn], traits: Traits) -> list[Turn]:
    """System turns where the template shows them: in place, all at the front, or in a user turn."""
    systems = [turn for turn in turns if turn["role"] == "system"]
    others = [turn for turn in turns if turn["role"] != "system"]
    users = [n for n, turn in enumerate(others) if turn["role"] == "user"]
    if not systems or (not users and traits.system and traits.system_alone):
        return turns
    text = "\n\n".join(turn["content"] for turn in systems if turn["content"])
    if not users:
        return [{"role": "user", "content": text}, *others]
    if not traits.system:
        return _put_before(others, users[0], text)
    if traits.calls and not traits.system_in_loop and others[-1]["role"] == "tool":
        return _put_before(others, users[-1], text)  # where such templates write it in a turn without tools
    if traits.system_late or all(turn["role"] != "system" for turn in turns[1:]):
        return turns
    return [{"role": "system", "content": text}, *others]


def _put_before(turns: list[Turn], index: int, text: str) -> list[Turn]:
    """The text in that turn, before its own."""
    turns[index] = {**turns[index], "content": _joined(text, turns[index]["content"])}
    return turns


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
            first = {} if k == 0 else {"content": ""}
            split.append({**turn, **first, "tool_calls": [call]})
            if k > 0:
                split[-1].pop(REASONING, None)
            split += [result for result in results if result.get("tool_call_id") == call["id"]]
            moved.add(call["id"])
    return split


def _joined(first: str, second: str) -> str:
    return f"{first}\n\n{second}" if first and second else first or second


# ---------------------------------------------------------------- the form in which it is shown


def _shown_apart(turn: Turn, traits: Traits) -> list[Turn]:
    """The turn under the keys and in the types that the template reads; as two where it shows no text beside calls.
    Reasoning that it shows under no key is left out: such models are not shown their own."""
    turn = dict(turn)
    reasoning = turn.pop(REASONING, "")
    if "tool_calls" not in turn:
        return [{**turn, traits.reasoning: reasoning} if reasoning and traits.reasoning else turn]
    said: list[Turn] = []
    if turn["content"] and not traits.call_text:
        if traits.call_after_text:
            said = [{"role": turn["role"], "content": turn["content"]}]
        elif traits.reasoning:  # a plan, as those who show no other text call it
            reasoning = _joined(reasoning, turn["content"])
        turn["content"] = ""
    elif turn["content"] and reasoning and traits.reasoning and not traits.reasoning_beside_text:
        reasoning, turn["content"] = _joined(reasoning, turn["content"]), ""
    if not turn["content"] and not traits.empty_content:
        turn["content"] = None
    if reasoning and traits.reasoning:
        turn[traits.reasoning] = reasoning
    turn["tool_calls"] = [_typed(call, traits) for call in turn["tool_calls"]]
    return [*said, turn]


def _typed(call: Json, traits: Traits) -> Json:
    """The call with its arguments as the object or the text that the template wants."""
    arguments = call["function"]["arguments"]
    if not traits.any_arguments:
        arguments = _object(arguments)
    if not traits.object_arguments and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return {**call, "function": {**call["function"], "arguments": arguments}}


def _object(arguments: Json) -> Json:
    return {BROKEN: arguments} if isinstance(arguments, str) else arguments


def _in_known_order(turns: list[Turn], traits: Traits) -> list[Turn]:
    """With an empty turn where the template wants the other side to speak first."""
    found: list[Turn] = []
    for turn in turns:
        last = next((turn for turn in reversed(found) if turn["role"] != "system"), None)
        if last is None and turn["role"] == "assistant" and not traits.assistant_first:
            found.append({"role": "user", "content": FILLER})
        used = last is not None and (last["role"] == "tool" or "tool_calls" in last)
        if used and turn["role"] == "user" and not traits.user_after_result:
            found.append({"role": "assistant", "content": FILLER})
        found.append(turn)
    return found
