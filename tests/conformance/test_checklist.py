"""The checklist's rows of forced choice (TC) that one client can see, over the real API, desk, tail and SDK.

What every dialect must do is in test_forced_matrix.py; here the dialect is one that is common.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from ringleader.values import SlotSpec
from tests.conformance.serving import (
    NOTE,
    NOW,
    PING,
    SCHEMAS,
    WEATHER,
    MadeUpNode,
    allowed,
    asked,
    client_of,
    function,
    named,
    random_mind,
)
from tests.conformance.tastes import KINDS, Logits, noise, scripted, taste
from tests.unit.language.dialects.family import Family, all_families

FAMILIES = {family.label: family for family in all_families()}
PLAIN = FAMILIES["json_tags"]
THINKING = FAMILIES["json_tags, thinking"]
TOOLS = [WEATHER, NOW, NOTE]


def node(family: Family = PLAIN, kind: str = "random") -> MadeUpNode:
    """A node whose model has this taste."""

    def mind(spec: SlotSpec) -> Logits:
        return taste(kind, family.tokenizer, family.voice.dialect, spec.sampling.seed).logits

    return MadeUpNode(family.voice, mind)


def says(text: str, family: Family = PLAIN) -> MadeUpNode:
    """A node whose model wants to write just this after whatever is forced."""
    ids = family.tokenizer.encode(text)

    def mind(spec: SlotSpec) -> Logits:
        opening = node_.prompts[-1][len(node_.prompts[-1]) - spec.opening_tokens :] if spec.opening_tokens else ()
        assert tuple(ids[: len(opening)]) == tuple(opening)
        return scripted(family.tokenizer, ids[len(opening) :])

    node_ = MadeUpNode(family.voice, mind)
    return node_


async def ask(made: MadeUpNode, **fields: Any) -> Any:
    """The first choice of the answer, from OpenAI's SDK."""
    async with client_of(made) as client:
        answer = await client.chat.completions.create(**asked(**fields))
    return answer.choices[0]


def calls_of(choice: Any) -> list[tuple[str, Any]]:
    """Names and decoded arguments; they were held to their schemas."""
    found = [(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or []]
    for name, arguments in found:
        jsonschema.validate(arguments, SCHEMAS[name])
    return found


def names(calls: Sequence[tuple[str, Any]]) -> list[str]:
    return [name for name, _ in calls]


# ---------------------------------------------------------------- how many calls, and of what


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [256, 4096])
async def test_tc01_required_is_a_valid_call_and_no_text_though_the_prompt_asks_not_to(kind: str, budget: int) -> None:
    choice = await ask(node(kind=kind), tools=TOOLS, tool_choice="required", max_tokens=budget)
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert set(names(calls_of(choice))) <= {"get_weather", "now", "note"}
    assert calls_of(choice)


@pytest.mark.parametrize("kind", ["random", "unknown tool", "prose", "end"])
async def test_tc02_tc03_a_named_tool_is_the_only_one_and_is_called_once(kind: str) -> None:
    for tool in ("get_weather", "now"):
        choice = await ask(node(kind=kind), tools=TOOLS, tool_choice=named(tool))
        assert names(calls_of(choice)) == [tool]
        assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize("kind", ["calls for ever", "markers", "random"])
async def test_tc04_one_call_and_then_the_end_where_calls_may_not_be_parallel(kind: str) -> None:
    for choice in ("required", "auto"):
        made = node(kind=kind)
        answer = await ask(made, tools=TOOLS, tool_choice=choice, parallel_tool_calls=False)
        assert len(calls_of(answer)) == 1 or (choice == "auto" and not calls_of(answer))


async def test_tc05_several_calls_are_possible_and_bounded() -> None:
    three = "\n".join(PLAIN.write([("get_weather", {"city": city, "days": 1})]) for city in ("Oslo", "Rome", "Lima"))
    choice = await ask(says(three), tools=TOOLS, tool_choice="required")
    assert [arguments["city"] for _, arguments in calls_of(choice)] == ["Oslo", "Rome", "Lima"]
    endless = await ask(node(kind="calls for ever"), tools=[NOW], tool_choice="required", max_tokens=4000)
    assert 2 <= len(calls_of(endless)) <= 16
    assert endless.finish_reason == "tool_calls"


@pytest.mark.parametrize("kind", ["calls for ever", "markers", "random"])
async def test_tc06_none_is_text_without_markers_whatever_the_model_wants(kind: str) -> None:
    choice = await ask(node(kind=kind), tools=TOOLS, tool_choice="none", max_tokens=60)
    assert choice.message.tool_calls is None
    assert choice.finish_reason in ("stop", "length")
    told = await ask(says("Use get_weather, I would say."), tools=TOOLS, tool_choice="none")
    assert (told.message.content, told.finish_reason) == ("Use get_weather, I would say.", "stop")


async def test_tc07_a_subset_is_kept_to_and_leaves_the_prompt_as_it_is() -> None:
    made = node(kind="unknown tool")
    forced = await ask(made, tools=TOOLS, tool_choice=allowed("required", "now"))
    assert set(names(calls_of(forced))) == {"now"}
    made = says("OK")
    free = await ask(made, tools=TOOLS, tool_choice=allowed("auto", "now"))
    assert (free.message.content, free.message.tool_calls) == ("OK", None)
    restricted = made.prompts[-1]
    await ask(made, tools=TOOLS)
    assert made.prompts[-1] == restricted, "a kept prefix of the prompt stays usable"


async def test_tc11_a_function_of_old_is_called_in_the_old_form() -> None:
    functions = [tool["function"] for tool in TOOLS]
    choice = await ask(node(), functions=functions, function_call={"name": "now"})
    assert choice.finish_reason == "function_call"
    assert (choice.message.function_call.name, choice.message.function_call.arguments) == ("now", "{}")


# ---------------------------------------------------------------- reasoning


@pytest.mark.parametrize("label", [label for label, family in FAMILIES.items() if family.thought is not None])
async def test_tc12_tc13_a_model_that_thinks_for_ever_still_calls(label: str) -> None:
    family = FAMILIES[label]
    choice = await ask(node(family, "thinks for ever"), tools=TOOLS, tool_choice=named("get_weather"), max_tokens=200)
    assert names(calls_of(choice)) == ["get_weather"]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    thought = getattr(choice.message, "reasoning_content", "")
    assert "<think>" not in thought
    assert "</think>" not in thought


async def test_tc12_what_was_thought_before_a_forced_call_is_kept() -> None:
    assert THINKING.thought is not None
    answer = THINKING.thought("3 days, I think.") + THINKING.write([("now", {})])
    choice = await ask(says(answer, THINKING), tools=TOOLS, tool_choice="required")
    assert choice.message.reasoning_content == "3 days, I think."
    assert calls_of(choice) == [("now", {})]


# ---------------------------------------------------------------- sampling, batches, repetition


@pytest.mark.parametrize(
    "knobs",
    [
        {"temperature": 0},
        {"temperature": 1.5},
        {"extra_body": {"top_k": 1}},
        {"extra_body": {"repetition_penalty": 1.3}},
        {"frequency_penalty": 2, "presence_penalty": -2},
        {"logit_bias": {str(PLAIN.tokenizer.token_id("<tool_call>")): -100}},
        {"logit_bias": {str(PLAIN.tokenizer.eos_ids[0]): 100}},
    ],
    ids=str,
)
async def test_tc14_no_knob_of_sampling_breaks_a_forced_call(knobs: dict[str, Any]) -> None:
    choice = await ask(node(), tools=TOOLS, tool_choice="required", **knobs)
    assert calls_of(choice)
    assert choice.finish_reason == "tool_calls"


async def test_tc15_forced_followers_change_no_token_of_a_call() -> None:
    told = []
    for followers in (True, False):
        made = node()
        made.desk.followers = followers
        told.append(calls_of(await ask(made, tools=TOOLS, tool_choice="required", temperature=0)))
    assert told[0] == told[1]


async def test_tc17_sixteen_requests_at_once_keep_their_tools_apart() -> None:
    made = MadeUpNode(PLAIN.voice, random_mind(PLAIN.voice))
    tools = [
        function(f"tool_{n}", {"type": "object", "properties": {"n": {"const": n}}, "required": ["n"]})
        for n in range(16)
    ]
    async with client_of(made) as client:
        wishes = [asked(tools=[tool], tool_choice="required", parallel_tool_calls=False, seed=7) for tool in tools]
        answers = await asyncio.gather(*(client.chat.completions.create(**wish) for wish in wishes))
    for n, answer in enumerate(answers):
        (call,) = answer.choices[0].message.tool_calls or []
        assert (call.function.name, json.loads(call.function.arguments)) == (f"tool_{n}", {"n": n})


async def test_tc18_the_same_request_gives_the_same_call_again() -> None:
    made = node()
    first, second = [calls_of(await ask(made, tools=TOOLS, tool_choice="required", seed=9)) for _ in range(2)]
    assert first == second
    other = calls_of(await ask(made, tools=TOOLS, tool_choice="required", seed=10))
    assert other != first


@pytest.mark.parametrize("stream", [False, True])
async def test_tc25_three_choices_are_three_independent_calls(stream: bool) -> None:
    async with client_of(node()) as client:
        if stream:
            async with client.chat.completions.stream(**asked(tools=TOOLS, tool_choice="required", n=3)) as events:
                async for _ in events:
                    pass
                answer: Any = await events.get_final_completion()
        else:
            answer = await client.chat.completions.create(**asked(tools=TOOLS, tool_choice="required", n=3))
    assert [choice.finish_reason for choice in answer.choices] == ["tool_calls"] * 3
    found = [calls_of(choice) for choice in answer.choices]
    assert all(found)
    assert len({json.dumps(calls) for calls in found}) > 1
    ids = [call.id for choice in answer.choices for call in choice.message.tool_calls]
    assert len(set(ids)) == len(ids)


async def test_tc27_a_client_that_leaves_in_the_middle_of_a_call_frees_it_and_disturbs_nobody() -> None:
    made = node(kind="prose")
    async with client_of(made) as client:
        for _ in range(3):
            wish = asked(tools=[NOTE], tool_choice="required", max_tokens=4000)
            stream = await client.chat.completions.create(**wish, stream=True)
            assert (await anext(stream)).choices
            await stream.close()
            async with asyncio.timeout(5):
                await made.cancelled.get()
        assert not made.running
        answer = await client.chat.completions.create(**asked(tools=[PING], tool_choice="required"))
    assert calls_of(answer.choices[0])


# ---------------------------------------------------------------- tools of every kind and number


@pytest.mark.parametrize(
    ("syntax", "definition", "pattern"),
    [
        ("regex", r"\d{4}-[01]\d-[0-3]\d", r"\d{4}-[01]\d-[0-3]\d"),
        ("lark", 'start: "go " ("left" | "right")', "go (left|right)"),
    ],
)
async def test_tc19_the_input_of_a_custom_tool_follows_its_grammar(syntax: str, definition: str, pattern: str) -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    tool = {"type": "custom", "custom": {"name": "move", "format": grammar}}
    for kind in ("random", "prose", "end"):
        choice = await ask(node(kind=kind), tools=[tool], tool_choice="required", parallel_tool_calls=False)
        (call,) = choice.message.tool_calls
        assert (call.type, call.custom.name) == ("custom", "move")
        assert re.fullmatch(pattern, call.custom.input)


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}, {"type": "object", "properties": {}}])
async def test_tc21_a_tool_without_parameters_is_called_with_an_object(parameters: Any) -> None:
    for tool in (
        function("ping_all", parameters),
        {"type": "function", "function": {"name": "ping_all", "parameters": parameters}},
    ):
        choice = await ask(node(kind="end"), tools=[tool], tool_choice="required", parallel_tool_calls=False)
        (call,) = choice.message.tool_calls
        assert isinstance(json.loads(call.function.arguments), dict)


@pytest.mark.parametrize(("count", "within_s"), [(1, 1), (20, 1), (128, 2), (400, 4)])
async def test_tc22_four_hundred_tools_are_read_at_once_and_the_last_can_be_named(count: int, within_s: float) -> None:
    tools = [
        function(f"tool_{n}", WEATHER["function"]["parameters"], description="Weather. " * 8) for n in range(count)
    ]
    made = MadeUpNode(replace(PLAIN.voice, context_max=200_000), lambda spec: noise(PLAIN.tokenizer, 1))
    begun = time.perf_counter()
    for choice_ in (named(tools[-1]["function"]["name"]), "required"):
        choice = await ask(made, tools=tools, tool_choice=choice_, parallel_tool_calls=False)
        (call,) = choice.message.tool_calls
        jsonschema.validate(json.loads(call.function.arguments), WEATHER["function"]["parameters"])
    assert call.function.name in {tool["function"]["name"] for tool in tools}
    assert time.perf_counter() - begun < within_s * 5, "measured: a fifth of this on two cores; CI may be busy"


async def test_tc23_names_of_every_legal_form_are_told_apart() -> None:
    listed = ["get", "get_all", "get-all", "9lives", "_", "G" * 64, "get_all_of_it"]
    tools = [function(name, {"type": "object", "properties": {}}) for name in listed]
    for name in listed:
        for kind in ("random", "unknown tool"):
            choice = await ask(node(kind=kind), tools=tools, tool_choice=named(name))
            assert [call.function.name for call in choice.message.tool_calls] == [name]


@pytest.mark.parametrize("budget", [1, 2, 3])
async def test_tc24_a_budget_that_no_call_fits_says_length(budget: int) -> None:
    choice = await ask(node(kind="end"), tools=TOOLS, tool_choice="required", max_tokens=budget)
    assert choice.finish_reason == "length"
    assert not choice.message.content


# ---------------------------------------------------------------- text of a form beside tools


async def test_tc26_text_of_a_form_and_tools_give_one_or_the_other() -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}
    for seed in range(6):
        choice = await ask(node(), tools=TOOLS, response_format=form, seed=seed, max_tokens=300)
        if not calls_of(choice):
            jsonschema.validate(json.loads(choice.message.content), schema)
        forced = await ask(node(), tools=TOOLS, response_format=form, seed=seed, tool_choice="required")
        assert calls_of(forced)
        assert forced.message.content is None
