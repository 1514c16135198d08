"""Faults of streamed calls and finish reasons (ST and FR of the public log), as tests of this server."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from ringleader.values import ArgumentsDelta
from tests.conformance import chunk_rules
from tests.conformance.matrix import FULL
from tests.conformance.saying import FAMILIES, PLAIN, SOME, door, hear
from tests.conformance.serving import NOTE, NOW, WEATHER, MadeUpNode, asked, client_of, named, served
from tests.conformance.test_checklist import THINKING, ask, calls_of, node, says
from tests.unit.language.dialects.family import Family

TWO = [("get_weather", {"city": "Oslo", "days": 3}), ("now", {})]
TOOLS = [WEATHER, NOW, NOTE]
MANY = [family for family in SOME if family.many]


async def stream_of(made: MadeUpNode, **fields: Any) -> list[str]:
    """The `data:` lines of a streamed answer."""
    async with served(made) as server, aiohttp.ClientSession() as session:
        body = {**asked(**fields), "stream": True}
        async with session.post(f"{server.url}/v1/chat/completions", json=body) as answer:
            text = await answer.text()
            assert answer.status == 200, text
    return [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]


async def both(made: MadeUpNode, **fields: Any) -> tuple[chunk_rules.Choice, Any]:
    """The same answer streamed and whole."""
    (streamed,) = chunk_rules.check(await stream_of(made, **fields))
    return streamed, await ask(made, **fields)


# ---------------------------------------------------------------- the rules, over answers of all kinds


@pytest.mark.parametrize("kind", ["random", "calls for ever", "markers", "prose"])
@pytest.mark.parametrize("choice", ["auto", "required", "none", "now"])
@pytest.mark.parametrize("family", [PLAIN, THINKING, FAMILIES["qwen_xml"], FAMILIES["harmony"]], ids=lambda f: f.label)
async def test_every_stream_keeps_the_rules_and_says_what_the_whole_answer_says(
    family: Family, choice: str, kind: str
) -> None:
    streamed, whole = await both(node(family, kind), tools=TOOLS, tool_choice=choice, max_tokens=150)
    message = whole.message
    assert (streamed.content or None) == (message.content or None)
    assert streamed.reasoning == getattr(message, "reasoning_content", "")
    assert streamed.finish == whole.finish_reason
    calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or []]
    assert [(call["name"], call["arguments"] or "{}") for call in streamed.calls] == calls


@pytest.mark.parametrize("choices", [1, 3])
async def test_st05_usage_is_the_same_in_both_ways_and_counts_reasoning(choices: int) -> None:
    made = node(THINKING)
    fields = {"tools": TOOLS, "tool_choice": "required", "n": choices}
    lines = await stream_of(made, **fields, stream_options={"include_usage": True})
    chunk_rules.check(lines, choices=choices, usage=True)
    usage = json.loads(lines[-2])["usage"]
    async with client_of(made) as client:
        whole = (await client.chat.completions.create(**asked(**fields))).usage
    assert whole is not None
    assert usage == json.loads(whole.to_json())


# ---------------------------------------------------------------- calls in pieces


@pytest.mark.parametrize("family", MANY, ids=lambda family: family.label)
def test_st03_st06_st10_two_calls_are_two_however_they_come(family: Family) -> None:
    for calls in (TWO, [("now", {}), ("now", {})]):
        heard = hear(family.write(calls), family)
        assert [(name, json.loads(arguments)) for name, arguments in heard.calls] == calls
        assert heard.finish == "tool_calls"


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_st05_st07_no_brace_is_lost_wherever_the_answer_is_cut(family: Family) -> None:
    ids = family.tokenizer.encode(family.write([("note", {"text": "a"})]))
    whole = hear(ids, family)
    assert [json.loads(arguments) for _, arguments in whole.calls] == [{"text": "a"}]


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_st08_a_call_without_arguments_has_an_empty_object(family: Family) -> None:
    assert hear(family.write([("now", {})]), family).calls == [("now", "{}")]


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_st11_a_long_argument_comes_in_many_pieces(family: Family) -> None:
    heard = hear(family.write([("note", {"text": "words and words. " * 120})]), family)
    ids = family.tokenizer.encode(family.write([("note", {"text": "words and words. " * 120})]))
    assert len(ids) > 100
    assert heard.calls
    one_by_one = [delta for delta in heard.deltas if isinstance(delta, ArgumentsDelta)]
    assert len(one_by_one) > 20


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_st14_tc20_no_character_is_split_and_twenty_thousand_arrive(family: Family) -> None:
    for text in ("ÄÖÜ 🐢 日本", "👩‍👩‍👧 é̂ \U0001f1f3\U0001f1f4", "🐢日 'q' ≥\n" * (2300 if FULL else 50)):
        heard = hear(family.write([("note", {"text": text})]), family)
        assert [json.loads(arguments)["text"] for _, arguments in heard.calls] == [text]
    assert not FULL or len(text) >= 20_000


async def test_st15_what_follows_a_call_is_the_same_in_both_ways() -> None:
    made = says(PLAIN.write([("now", {})]))
    streamed, whole = await both(made, tools=TOOLS, tool_choice="auto")
    assert [call["name"] for call in streamed.calls] == ["now"]
    assert (streamed.content, whole.message.content) == ("", None)
    after = hear(PLAIN.write([("now", {})]) + "\nDone.", constrained=False)
    assert (after.text.strip(), after.calls) == ("Done.", [("now", "{}")])


@pytest.mark.parametrize("family", [each for each in SOME if each.talks], ids=lambda family: family.label)
def test_st18_text_and_calls_do_not_overlap(family: Family) -> None:
    heard = hear(family.joined("Let me see.", family.write([("now", {})])), family)
    assert (heard.text, heard.calls) == ("Let me see.", [("now", "{}")])


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_st19_a_stop_string_does_not_cut_a_call(family: Family) -> None:
    text = "one\n\ntwo STOP three"
    heard = hear(family.write([("note", {"text": text})]), family, stop=("\n\n", "STOP", "}", ">"))
    assert [json.loads(arguments)["text"] for _, arguments in heard.calls] == [text]
    assert heard.finish == "tool_calls"


async def test_st24_two_choices_do_not_share_a_parser() -> None:
    lines = await stream_of(node(), tools=TOOLS, tool_choice="required", n=2)
    first, second = chunk_rules.check(lines, choices=2)
    assert first.calls
    assert second.calls
    assert not {call["id"] for call in first.calls} & {call["id"] for call in second.calls}


def test_st25_two_answers_read_in_turn_do_not_touch_each_other() -> None:
    alone = [hear(PLAIN.write([call])).calls for call in TWO]
    family = FAMILIES["json_tags, thinking"]
    assert family.thought is not None
    hear(family.thought("hm") + family.write([TWO[0]]), family)
    assert [hear(PLAIN.write([call])).calls for call in TWO] == alone


# ---------------------------------------------------------------- how an answer ended


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", ["required", "auto", named("now")], ids=json.dumps)
async def test_fr01_fr02_a_call_is_what_the_answer_ended_with_in_every_mode(choice: Any, stream: bool) -> None:
    made = says(PLAIN.write([("now", {})]))
    fields = {"tools": TOOLS, "tool_choice": choice, "parallel_tool_calls": False}
    if stream:
        (found,) = chunk_rules.check(await stream_of(made, **fields))
        assert found.finish == "tool_calls"
    else:
        whole = await ask(made, **fields)
        assert (whole.finish_reason, len(calls_of(whole))) == ("tool_calls", 1)


@pytest.mark.parametrize("family", SOME, ids=lambda family: family.label)
def test_fr03_a_call_that_the_budget_cut_says_length(family: Family) -> None:
    ids = family.tokenizer.encode(family.write([("note", {"text": "a long text " * 30})]))
    heard = hear(ids[: len(ids) // 2], family, reason="length")
    assert (heard.finish, heard.calls, heard.text) == ("length", [], "")


def test_fr05_arguments_in_the_history_that_are_no_json_are_no_error() -> None:
    broken = {"id": "call_123456789", "type": "function", "function": {"name": "note", "arguments": '{"a": '}}
    for family in FAMILIES.values():
        prompt = door(
            family,
            tools=[NOTE],
            messages=[
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": None, "tool_calls": [broken]},
                {"role": "tool", "tool_call_id": "call_123456789", "content": "error"},
            ],
        )
        assert prompt.ids


def test_fr07_harmonys_end_of_a_call_makes_a_call() -> None:
    family = FAMILIES["harmony"]
    heard = hear(family.write([("now", {})]) + "<|call|>", family)
    assert (heard.calls, heard.finish) == ([("now", "{}")], "tool_calls")
