"""OpenAI's own SDK against a real ring of two nodes: what is asked for arrives, what is wrong touches no shard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import openai
import pytest

from tests.ring.cluster import Cluster

pytestmark = pytest.mark.ring

MODEL = "smollm2-135m"
CONTEXT = 2048
VOCABULARY = 49152
END_TOKENS = ("0", "2")
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 30},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
CLOCK = {
    "type": "object",
    "properties": {"zone": {"enum": ["UTC", "CET"]}},
    "required": ["zone"],
    "additionalProperties": False,
}
SCHEMAS: dict[str, Any] = {"get_weather": WEATHER, "now": CLOCK}
NAMED = {"type": "function", "function": {"name": "get_weather"}}


def tools(*names: str) -> list[Any]:
    return [
        {"type": "function", "function": {"name": name, "description": name, "parameters": SCHEMAS[name]}}
        for name in names
    ]


def said(text: str, **fields: Any) -> Any:
    """A request of one user turn; greedy and short unless `fields` say otherwise."""
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": 24,
    } | fields


@pytest.fixture(scope="module")
def cluster(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("serving")) as cluster:
        layers = ("--layers", "a=0-10,b=11-29")
        cluster.start_master("a", "--model", str(smollm), "--nodes", "2", *layers, "--context", str(CONTEXT))
        cluster.start_follower("b")
        cluster.wait_ready()
        yield cluster


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{cluster.api}/v1", api_key="any", max_retries=0, timeout=60) as client:
        yield client


async def whole(client: openai.AsyncOpenAI, request: Any) -> Any:
    return await client.chat.completions.create(**request)


async def text_of(client: openai.AsyncOpenAI, request: Any) -> str:
    return str((await whole(client, request)).choices[0].message.content)


async def streamed(client: openai.AsyncOpenAI, request: Any) -> list[Any]:
    return [chunk async for chunk in await client.chat.completions.create(**request, stream=True)]


def joined(chunks: list[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def joined_calls(chunks: list[Any]) -> list[tuple[str, str]]:
    """(name, arguments) of each call, put together as clients do it."""
    calls: dict[int, tuple[str, str]] = {}
    for chunk in chunks:
        for part in chunk.choices[0].delta.tool_calls or []:
            name, arguments = calls.get(part.index, ("", ""))
            calls[part.index] = (name + (part.function.name or ""), arguments + (part.function.arguments or ""))
    return list(calls.values())


def check_call(name: str, arguments: str) -> None:
    jsonschema.validate(json.loads(arguments), SCHEMAS[name])


# ---------------------------------------------------------------- tool calls


@pytest.mark.parametrize("choice", [NAMED, "required"], ids=["named", "required"])
@pytest.mark.parametrize("temperature", [0, 1.3])
async def test_a_forced_call_arrives_and_validates_streamed_and_not(
    client: openai.AsyncOpenAI, choice: Any, temperature: float
) -> None:
    request = said(
        "What is your name?",
        tools=tools("get_weather", "now"),
        tool_choice=choice,
        parallel_tool_calls=False,
        max_tokens=120,
        temperature=temperature,
        seed=5,
    )
    answer, chunks = await asyncio.gather(whole(client, request), streamed(client, request))
    (call,) = answer.choices[0].message.tool_calls
    check_call(call.function.name, call.function.arguments)
    if choice is NAMED:
        assert call.function.name == "get_weather"
    assert joined_calls(chunks) == [(call.function.name, call.function.arguments)]
    assert chunks[-1].choices[0].finish_reason == answer.choices[0].finish_reason
    assert answer.usage.ringleader["passes"] < answer.usage.completion_tokens + 2


async def test_none_gives_text_and_auto_gives_text_or_a_valid_call(client: openai.AsyncOpenAI) -> None:
    for choice in ("none", "auto"):
        request = said("Say hello.", tools=tools("get_weather", "now"), tool_choice=choice, max_tokens=60)
        message = (await whole(client, request)).choices[0].message
        if choice == "none":
            assert message.tool_calls is None
        assert message.content or message.tool_calls
        for call in message.tool_calls or []:
            check_call(call.function.name, call.function.arguments)


# ---------------------------------------------------------------- ends


async def test_a_stop_string_ends_the_answer_and_no_part_of_it_leaks(client: openai.AsyncOpenAI) -> None:
    text = await text_of(client, said("Tell me a story."))
    middle = len(text) // 2
    stop = text[middle - 4 : middle + 4]
    request = said("Tell me a story.", stop=[stop, "never said"])
    answer, chunks = await asyncio.gather(whole(client, request), streamed(client, request))
    assert answer.choices[0].message.content == text[: text.index(stop)] == joined(chunks)
    assert answer.choices[0].finish_reason == chunks[-1].choices[0].finish_reason == "stop"


async def test_max_tokens_of_one_gives_one_token(client: openai.AsyncOpenAI) -> None:
    answer = await whole(client, said("Hello", max_tokens=1))
    assert answer.usage.completion_tokens == 1
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.content


async def test_usage_adds_up_and_comes_last_in_a_stream_that_asked_for_it(client: openai.AsyncOpenAI) -> None:
    request = said("Hello", max_tokens=5)
    usage = (await whole(client, request)).usage
    assert usage.completion_tokens == 5
    assert usage.prompt_tokens > 5
    assert usage.total_tokens == usage.prompt_tokens + 5
    chunks = await streamed(client, request | {"stream_options": {"include_usage": True}})
    assert chunks[-1].choices == []
    assert chunks[-1].usage == usage
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert [chunk.choices[0].delta.role for chunk in chunks[:-1]].count("assistant") == 1


# ---------------------------------------------------------------- sampling


async def test_a_seed_gives_the_same_text_alone_and_among_others(client: openai.AsyncOpenAI) -> None:
    request = said("Once upon a time", temperature=1.0, seed=11)
    first = await text_of(client, request)
    others = [text_of(client, said("Once upon a time", temperature=1.0, seed=seed)) for seed in (1, 2, 3)]
    again, *different = await asyncio.gather(text_of(client, request), *others)
    assert again == first
    assert len({first, *different}) == 4


async def test_greedy_text_is_the_same_streamed_and_not(client: openai.AsyncOpenAI) -> None:
    request = said("Count to ten.")
    chunks = await streamed(client, request)
    assert joined(chunks) == await text_of(client, request) != ""


async def test_logprobs_are_those_of_the_tokens_of_the_text(client: openai.AsyncOpenAI) -> None:
    answer = await whole(client, said("Hello", max_tokens=6, logprobs=True, top_logprobs=3))
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == 6
    assert b"".join(bytes(token.bytes) for token in tokens).decode() == answer.choices[0].message.content
    for token in tokens:
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].token == token.token, "greedy takes the likeliest"
        assert 0 >= token.top_logprobs[0].logprob >= token.top_logprobs[1].logprob >= token.top_logprobs[2].logprob
        assert token.logprob == token.top_logprobs[0].logprob


async def test_a_logit_bias_forbids_a_token_and_a_top_k_beyond_the_vocabulary_is_none(
    client: openai.AsyncOpenAI,
) -> None:
    request = said("Hello", logprobs=True, top_logprobs=0, max_tokens=4)
    plain = await whole(client, request)
    wide = said("Hello", temperature=1.0, seed=3)
    assert await text_of(client, wide | {"extra_body": {"top_k": VOCABULARY + 7}}) == await text_of(client, wide)
    biased = await whole(client, request | {"logit_bias": {str(VOCABULARY - 1): 100}})
    assert biased.choices[0].logprobs.content[0].token != plain.choices[0].logprobs.content[0].token


# ---------------------------------------------------------------- long prompts, many streams


async def test_a_prompt_of_several_frames_is_read_whole(client: openai.AsyncOpenAI) -> None:
    story = "The lamp was lit and the sea was calm. " * 150
    answer = await whole(client, said(f"{story}\nWhat was lit?", max_tokens=8))
    assert answer.usage.prompt_tokens > 1500
    assert answer.usage.completion_tokens <= 8
    assert answer.usage.ringleader["passes"] > 3, "of the story alone; its answer may take fewer than it has tokens"


async def test_three_streams_at_once_all_move_on(client: openai.AsyncOpenAI) -> None:
    order: list[int] = []

    async def listen(number: int) -> None:
        request = said(f"Tell me story {number}.", logit_bias=dict.fromkeys(END_TOKENS, -100))
        async for chunk in await client.chat.completions.create(**request, stream=True):
            if chunk.choices[0].delta.content:
                order.append(number)

    await asyncio.gather(*(listen(number) for number in range(3)))
    for number in range(3):
        first = order.index(number)
        assert first < len(order) - 1 - order[::-1].index((number + 1) % 3), "it waited for another's end"
    assert min(order.count(number) for number in range(3)) > 10


# ---------------------------------------------------------------- bad requests

UNENFORCEABLE = {"type": "object", "properties": {"x": {"type": "string", "pattern": "("}}, "required": ["x"]}
ORPHAN = [{"role": "user", "content": "hi"}, {"role": "tool", "tool_call_id": "c1", "content": "12"}]
BAD: dict[str, tuple[dict[str, Any], int, str | None, str | None]] = {
    "unknown model": ({"model": "gpt-9"}, 404, "model", "model_not_found"),
    "unknown tool": (
        {"tools": tools("now"), "tool_choice": {"type": "function", "function": {"name": "get_wether"}}},
        400,
        "tool_choice",
        None,
    ),
    "required without tools": ({"tool_choice": "required"}, 400, "tool_choice", None),
    "unenforceable schema": (
        {
            "tools": [{"type": "function", "function": {"name": "f", "parameters": UNENFORCEABLE}}],
            "tool_choice": "required",
        },
        400,
        "tools[0].function.parameters",
        None,
    ),
    "too long": (
        {"messages": [{"role": "user", "content": "word " * (CONTEXT + 50)}]},
        400,
        "messages",
        "context_length_exceeded",
    ),
    "max_tokens 0": ({"max_tokens": 0}, 400, "max_tokens", None),
    "max_tokens negative": ({"max_tokens": -5}, 400, "max_tokens", None),
    "result without call": ({"messages": ORPHAN}, 400, "messages[1].role", None),
    "token outside the vocabulary": ({"logit_bias": {str(VOCABULARY): 1}}, 400, "logit_bias", None),
}


def counters(cluster: Cluster) -> Any:
    """What the master counts; unchanged by a request that no shard heard of."""
    view = cluster.view()
    return view["rings"][0]["served_requests"], view["rings"][0]["served_tokens"], view["queue"], view["events"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("case", BAD)
async def test_a_bad_request_is_refused_by_name_before_any_shard_hears_of_it(
    cluster: Cluster, client: openai.AsyncOpenAI, case: str, stream: bool
) -> None:
    fields, status, param, code = BAD[case]
    before = counters(cluster)
    with pytest.raises(openai.APIStatusError) as caught:
        await client.chat.completions.create(**said("hi", **fields), stream=stream)
    error = caught.value
    assert (error.status_code, error.type, error.param) == (status, "invalid_request_error", param), error.message
    assert code in (None, error.code)
    assert counters(cluster) == before


async def test_a_body_that_is_not_json_is_refused(cluster: Cluster) -> None:
    before = counters(cluster)
    async with aiohttp.ClientSession() as session:
        for body in (b"", b"{", b"[1]", b'"text"', b"\xff\xfe"):
            headers = {"Content-Type": "application/json"}
            async with session.post(f"{cluster.api}/v1/chat/completions", data=body, headers=headers) as answer:
                assert answer.status == 400
                assert (await answer.json())["error"]["type"] == "invalid_request_error"
    assert counters(cluster) == before
