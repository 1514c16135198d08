"""The real OpenAI SDK against the real server over a scripted node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest

from ringleader.api.auth import FixedKeys
from ringleader.errors import (
    BadRequest,
    Busy,
    ContextTooLong,
    ModelDoesNotFit,
    ModelLoading,
    OurFault,
    RingLost,
    UnknownModel,
)
from ringleader.values import CallEnded, CallStarted, Finished, TextDelta, TokenLogprob
from tests.api.scripted import CALLS, MODEL, NOW, USAGE, WEATHER, ScriptedNode, served

ASK: Any = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}


@asynccontextmanager
async def sdk(node: ScriptedNode, *, key: str = "any", **options: Any) -> AsyncIterator[openai.AsyncOpenAI]:
    async with served(node, **options) as server:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0, timeout=5) as client:
            yield client


async def test_an_answer_arrives_whole() -> None:
    async with sdk(ScriptedNode()) as client:
        answer = await client.chat.completions.create(**ASK)
    assert answer.choices[0].message.content == "Hello ☀"
    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 18


async def test_a_stream_accumulates_to_the_message_of_the_whole_answer() -> None:
    async with sdk(ScriptedNode(CALLS)) as client:
        async with client.chat.completions.stream(**ASK, tools=[WEATHER, NOW]) as stream:
            kinds = [event.type async for event in stream]
            streamed = (await stream.get_final_completion()).choices[0]
    async with sdk(ScriptedNode(CALLS)) as client:
        whole = (await client.chat.completions.create(**ASK, tools=[WEATHER, NOW])).choices[0]
    assert "tool_calls.function.arguments.delta" in kinds
    for choice in (streamed, whole):
        assert choice.finish_reason == "tool_calls"
        assert choice.message.role == "assistant"
        assert choice.message.content is None
        assert choice.message.reasoning_content == "hm"  # type: ignore[attr-defined] # the SDK keeps extra fields
        calls = choice.message.tool_calls or []
        assert [(call.type, call.function.name, call.function.arguments) for call in calls] == [
            ("function", "get_weather", '{"city": "Oslo"}'),
            ("function", "now", "{}"),
        ]
        assert len({call.id for call in calls}) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_the_sdk_comes_again_by_itself_when_the_queue_is_full_or_the_model_is_loading(stream: bool) -> None:
    node = ScriptedNode()
    node.refusals = [Busy("256 wait", retry_after_s=0.2), ModelLoading("40% is there", retry_after_s=0.2)]
    async with sdk(node) as client:
        answer: Any = await client.with_options(max_retries=2).chat.completions.create(**ASK, stream=stream)
        if stream:
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in answer if chunk.choices])
        else:
            text = answer.choices[0].message.content
    assert text == "Hello ☀"


@pytest.mark.parametrize(
    ("refuse", "kind", "status", "after"),
    [
        (Busy("256 requests wait or run", retry_after_s=12.0), openai.RateLimitError, 429, "12"),
        (Busy("256 requests wait at the head"), openai.RateLimitError, 429, "2"),
        (ModelLoading("40% is there, about 8 s more", retry_after_s=7.2), openai.InternalServerError, 503, "8"),
    ],
)
async def test_who_is_to_come_again_is_told_when(
    refuse: Busy | ModelLoading, kind: type[openai.APIStatusError], status: int, after: str
) -> None:
    async with sdk(ScriptedNode(refuse=refuse)) as client:
        with pytest.raises(kind) as caught:
            await client.chat.completions.create(**ASK)
    assert (caught.value.status_code, caught.value.response.headers["retry-after"]) == (status, after)
    assert (caught.value.code, caught.value.response.headers["x-should-retry"]) == (refuse.code, "true")
    assert str(refuse) in caught.value.message


@pytest.mark.parametrize(
    ("fields", "priority", "tier"),
    [
        ({}, 0, None),
        ({"service_tier": "auto"}, 0, "default"),
        ({"service_tier": "flex"}, 1, "flex"),
        ({"service_tier": "priority"}, -1, "priority"),
        ({"service_tier": "flex", "extra_body": {"priority": -5}}, -5, "flex"),
        ({"extra_body": {"priority": 7}}, 7, None),
    ],
)
async def test_priority_and_service_tier_say_who_goes_first(
    fields: dict[str, Any], priority: int, tier: str | None
) -> None:
    node = ScriptedNode()
    async with sdk(node) as client:
        answer = await client.chat.completions.create(**ASK, **fields)
    assert (node.requests[0].priority, answer.service_tier) == (priority, tier)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"priority": "high"}, "invalid_type"),
        ({"priority": 1001}, "integer_above_max_value"),
        ({"service_tier": "gold"}, "invalid_value"),
    ],
)
async def test_a_priority_that_is_none_is_refused_by_name(fields: dict[str, Any], code: str) -> None:
    async with sdk(ScriptedNode()) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.chat.completions.create(**ASK, extra_body=fields)
    assert (caught.value.param, caught.value.code) == (next(iter(fields)), code)


async def test_usage_comes_last_and_only_when_it_was_asked_for() -> None:
    async with sdk(ScriptedNode()) as client:
        stream = await client.chat.completions.create(**ASK, stream=True, stream_options={"include_usage": True})
        chunks = [chunk async for chunk in stream]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 18
    assert all(chunk.usage is None and chunk.choices for chunk in chunks[:-1])


async def test_a_length_finish_raises_what_the_sdk_promises() -> None:
    strict: Any = {"type": "function", "function": {**WEATHER["function"], "strict": True}}
    async with sdk(ScriptedNode([CallStarted(0, "now"), CallEnded(0), Finished("length", USAGE)])) as client:
        with pytest.raises(openai.LengthFinishReasonError):
            async with client.chat.completions.stream(**ASK, tools=[strict]) as stream:
                async for _ in stream:
                    pass


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "raised", "code"),
    [
        (BadRequest("no", param="tool_choice", code="unknown_tool"), openai.BadRequestError, "unknown_tool"),
        (ContextTooLong("long", param="messages"), openai.BadRequestError, "context_length_exceeded"),
        (UnknownModel("who"), openai.NotFoundError, "model_not_found"),
        (Busy("full"), openai.RateLimitError, "busy"),
        (RingLost("gone"), openai.InternalServerError, "ring_lost"),
        (ModelDoesNotFit("big"), openai.InternalServerError, "model_does_not_fit"),
        (OurFault("secret"), openai.InternalServerError, "internal_error"),
        (KeyError("secret"), openai.InternalServerError, "internal_error"),
    ],
)
async def test_a_refusal_raises_the_sdks_own_exception(
    fault: Exception, raised: type[openai.APIStatusError], code: str, stream: bool
) -> None:
    async with sdk(ScriptedNode(refuse=fault)) as client:
        with pytest.raises(raised) as caught:
            await client.chat.completions.create(**ASK, stream=stream)
        assert caught.value.code == code
        assert "secret" not in str(caught.value)


async def test_a_ring_lost_before_the_first_delta_is_still_an_http_error() -> None:
    async with sdk(ScriptedNode([RingLost("gone")])) as client:
        with pytest.raises(openai.InternalServerError) as caught:
            await client.chat.completions.create(**ASK, stream=True)
    assert caught.value.status_code == 503


async def test_a_ring_lost_amid_the_stream_raises_an_api_error() -> None:
    node = ScriptedNode([TextDelta("once"), RingLost("mac-mini is gone")])
    seen = []
    async with sdk(node) as client:
        with pytest.raises(openai.APIError, match="mac-mini is gone"):
            async for chunk in await client.chat.completions.create(**ASK, stream=True):
                seen.append(chunk.choices[0].delta.content)
    assert "once" in seen
    assert node.deltas.closings == 1


async def test_a_stream_left_in_the_middle_closes_the_deltas_within_a_second() -> None:
    node = ScriptedNode([TextDelta("once"), asyncio.Event()])
    async with sdk(node) as client:
        stream = await client.chat.completions.create(**ASK, stream=True)
        assert (await anext(stream)).choices[0].delta.role == "assistant"
        await stream.close()
        async with asyncio.timeout(1):
            await node.deltas.closed.wait()
    assert node.deltas.cancelled
    assert node.deltas.closings == 1


async def test_keep_alives_do_not_disturb_a_stream() -> None:
    go = asyncio.Event()
    node = ScriptedNode([TextDelta("a"), go, TextDelta("b"), Finished("stop", USAGE)])
    async with sdk(node, keep_alive_s=0.01) as client:
        stream = await client.chat.completions.create(**ASK, stream=True)
        text = (await anext(stream)).choices[0].delta.content or ""
        asyncio.get_running_loop().call_later(0.1, go.set)
        async for chunk in stream:
            text += chunk.choices[0].delta.content or ""
    assert text == "ab"


async def test_models_are_listed_and_found_by_ids_with_slashes() -> None:
    async with sdk(ScriptedNode()) as client:
        ids = [model.id async for model in client.models.list()]
        assert ids[0] == MODEL
        for model in ids:
            assert (await client.models.retrieve(model)).id == model
        with pytest.raises(openai.NotFoundError) as caught:
            await client.models.retrieve("org/none")
        assert caught.value.code == "model_not_found"


async def test_a_key_is_wanted_where_one_is_set() -> None:
    async with sdk(ScriptedNode(), key="wrong", keys=FixedKeys("right")) as client:
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(**ASK)
    async with sdk(ScriptedNode(), key="right", keys=FixedKeys("right")) as client:
        assert (await client.chat.completions.create(**ASK)).choices


async def test_logprobs_have_openais_shape() -> None:
    text = TextDelta("Hié", logprobs=(TokenLogprob(1, -0.5, ((1, -0.5), (2, float("-inf")))), TokenLogprob(3, 0.0)))
    for stream in (False, True):
        async with sdk(ScriptedNode([text, Finished("stop", USAGE)])) as client:
            if stream:
                parts = await client.chat.completions.create(**ASK, logprobs=True, top_logprobs=2, stream=True)
                choices = [chunk.choices[0] async for chunk in parts]
                found = next(choice.logprobs for choice in choices if choice.logprobs)
            else:
                answer = await client.chat.completions.create(**ASK, logprobs=True, top_logprobs=2)
                found = answer.choices[0].logprobs
        assert found is not None
        assert found.content is not None
        first, second = found.content
        assert (first.token, first.bytes, first.logprob) == ("Hi", [72, 105], -0.5)
        assert (first.top_logprobs[1].token, first.top_logprobs[1].bytes) == (" \\xe2", [32, 0xE2])
        assert first.top_logprobs[1].logprob == -9999.0
        assert second.bytes == list("é".encode())
