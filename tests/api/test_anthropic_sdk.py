"""The real Anthropic SDK against the real server over a scripted node, and raw streams by the rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anthropic
import pytest

from ringleader.api.auth import FixedKeys
from ringleader.errors import BadRequest, Busy, ContextTooLong, OurFault, RingLost, UnknownModel
from ringleader.values import ArgumentsDelta, CallEnded, CallStarted, ChatRequest, Finished, ReasoningDelta, TextDelta
from tests.api.anthropic_rules import checked, read_events
from tests.api.scripted import CALLS, HELLO, MODEL, USAGE, ScriptedNode, served

ASK: Any = {"model": MODEL, "max_tokens": 7, "messages": [{"role": "user", "content": "hi"}]}
TOOLS: Any = [
    {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}},
    {"name": "now", "input_schema": {"type": "object"}},
]
THINK: Any = {"type": "adaptive"}


class Counting:
    """As `Tokenizing`, as far as the door of messages needs it."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    async def prompt_ids(self, request: ChatRequest) -> tuple[int, ...]:
        self.requests.append(request)
        return tuple(range(42))


@asynccontextmanager
async def sdk(node: ScriptedNode, *, key: str = "any", **options: Any) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with served(node, **options) as server:
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key=key, max_retries=0, timeout=5) as client:
            yield client


@asynccontextmanager
async def http(node: ScriptedNode, **options: Any) -> AsyncIterator[aiohttp.ClientSession]:
    async with served(node, **options) as server:
        async with aiohttp.ClientSession(server.url, timeout=aiohttp.ClientTimeout(total=10)) as session:
            yield session


async def test_a_message_arrives_whole() -> None:
    async with sdk(ScriptedNode()) as client:
        message = await client.messages.create(**ASK)
    assert [block.model_dump(exclude_none=True) for block in message.content] == [{"type": "text", "text": "Hello ☀"}]
    assert message.stop_reason == "end_turn"
    assert (message.usage.input_tokens, message.usage.output_tokens) == (11, 7)
    assert (message._request_id or "").startswith("req_")


async def test_a_stream_accumulates_to_the_whole_message() -> None:
    async with sdk(ScriptedNode(CALLS)) as client:
        async with client.messages.stream(**ASK, tools=TOOLS, thinking=THINK) as stream:
            kinds = [event.type async for event in stream]
            streamed = await stream.get_final_message()
    async with sdk(ScriptedNode(CALLS)) as client:
        whole = await client.messages.create(**ASK, tools=TOOLS, thinking=THINK)
    assert {"thinking", "signature", "input_json"} <= set(kinds)
    for message in (streamed, whole):
        thinking, weather, now = message.content
        assert (thinking.type, weather.type, now.type) == ("thinking", "tool_use", "tool_use")
        assert thinking.thinking == "hm"
        assert (weather.name, weather.input, now.input) == ("get_weather", {"city": "Oslo"}, {})
        assert message.stop_reason == "tool_use"
        assert message.usage.output_tokens == 7


async def test_the_raw_stream_obeys_the_rules_and_has_its_ids_and_warnings() -> None:
    async with http(ScriptedNode(CALLS, warnings=("tools[0].function.parameters: x",))) as session:
        async with session.post("/v1/messages?beta=true", json={**ASK, "stream": True}) as response:
            text = await response.text()
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            assert response.headers["request-id"] == response.headers["x-request-id"]
            assert "tools.0.input_schema: x" in response.headers["Warning"]
    assert checked(read_events(text))["stop_reason"] == "tool_use"
    assert "[DONE]" not in text


async def test_tools_of_anthropics_servers_are_told_of_and_the_others_keep_their_places() -> None:
    tools = [{"type": "web_search_20250305", "name": "web_search"}, {"name": "now", "input_schema": {}}]
    place = "tools[0].function.parameters"
    for stream in (False, True):
        async with http(ScriptedNode(warnings=(f"{place}: x",))) as session:
            async with session.post("/v1/messages", json={**ASK, "tools": tools, "stream": stream}) as response:
                assert response.status == 200
                told = response.headers["Warning"]
        assert "tools.0 'web_search_20250305'" in told
        assert "tools.1.input_schema: x" in told
    async with http(ScriptedNode(refuse=BadRequest(f"Invalid '{place}'", param=place))) as session:
        async with session.post("/v1/messages", json={**ASK, "tools": tools}) as response:
            message = (await response.json())["error"]["message"]
    assert message == "tools.1.input_schema: Invalid 'tools.1.input_schema'"


async def test_silence_is_filled_with_pings_after_the_message_began() -> None:
    go = asyncio.Event()
    async with http(ScriptedNode([go, TextDelta("a"), Finished("stop", USAGE)]), keep_alive_s=0.01) as session:
        async with session.post("/v1/messages", json={**ASK, "stream": True}) as response:
            assert await response.content.readline() == b"event: message_start\n"
            await response.content.readuntil(b"event: ping\n")
            go.set()
            assert (await response.text()).rstrip().endswith('{"type":"message_stop"}')


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "raised", "type_"),
    [
        (BadRequest("no", param="tool_choice"), anthropic.BadRequestError, "invalid_request_error"),
        (ContextTooLong("long"), anthropic.BadRequestError, "invalid_request_error"),
        (UnknownModel("who"), anthropic.NotFoundError, "not_found_error"),
        (Busy("full"), anthropic.RateLimitError, "rate_limit_error"),
        (RingLost("gone"), anthropic.APIStatusError, "overloaded_error"),
        (OurFault("secret"), anthropic.InternalServerError, "api_error"),
        (KeyError("secret"), anthropic.InternalServerError, "api_error"),
    ],
)
async def test_a_refusal_raises_the_sdks_own_exception(
    fault: Exception, raised: type[anthropic.APIStatusError], type_: str, stream: bool
) -> None:
    async with sdk(ScriptedNode(refuse=fault)) as client:
        with pytest.raises(raised) as caught:
            await client.messages.create(**ASK, stream=stream)
    body: Any = caught.value.body
    assert body["error"]["type"] == type_
    assert body["request_id"] == caught.value.request_id
    assert "secret" not in str(body)


async def test_a_ring_lost_amid_the_stream_is_an_error_event_and_no_end() -> None:
    for fault, type_ in ((RingLost("mac-mini is gone"), "overloaded_error"), (KeyError("secret"), "api_error")):
        async with http(ScriptedNode([TextDelta("once"), fault])) as session:
            async with session.post("/v1/messages", json={**ASK, "stream": True}) as response:
                events = read_events(await response.text())
        assert events[-1]["type"] == "error"
        assert events[-1]["error"]["type"] == type_
        assert events[-1]["request_id"].startswith("req_")
        assert "secret" not in str(events[-1])
    async with sdk(ScriptedNode([TextDelta("once"), RingLost("mac-mini is gone")])) as client:
        with pytest.raises(anthropic.APIStatusError, match="mac-mini is gone"):
            async for _ in await client.messages.create(**ASK, stream=True):
                pass


async def test_a_stream_left_in_the_middle_closes_the_deltas() -> None:
    node = ScriptedNode([TextDelta("once"), asyncio.Event()])
    async with sdk(node) as client:
        stream = await client.messages.create(**ASK, stream=True)
        assert (await anext(stream)).type == "message_start"
        await stream.close()
        async with asyncio.timeout(2):
            await node.deltas.closed.wait()
    assert node.deltas.cancelled


async def test_what_is_wrong_with_the_body_is_told_in_anthropics_shape() -> None:
    async with http(ScriptedNode()) as session:
        for raw, words in (
            (b"{", "We could not parse"),
            (b'{"model": "m"}', "messages: Field required"),
            (b'{"model": "m", "messages": [{"role": "user", "content": "a"}]}', "max_tokens: Field required"),
        ):
            async with session.post("/v1/messages", data=raw) as response:
                body = await response.json()
                assert response.status == 400
            assert body["type"] == "error"
            assert body["error"]["message"].startswith(words)
        async with session.get("/v1/messages") as response:
            assert response.status == 405
            assert (await response.json())["error"]["type"] == "invalid_request_error"
        async with session.get("/v1/models/none", headers={"anthropic-version": "2023-06-01"}) as response:
            assert (await response.json())["error"]["type"] == "not_found_error"


async def test_either_header_carries_the_key() -> None:
    async with sdk(ScriptedNode(), key="wrong", keys=FixedKeys("right")) as client:
        with pytest.raises(anthropic.AuthenticationError):
            await client.messages.create(**ASK)
    async with sdk(ScriptedNode(), key="right", keys=FixedKeys("right")) as client:
        assert (await client.messages.create(**ASK)).content
    async with http(ScriptedNode(), keys=FixedKeys("right")) as session:
        headers = {"Authorization": "Bearer right"}
        async with session.post("/v1/messages", json=ASK, headers=headers) as response:
            assert response.status == 200
        async with session.post("/v1/messages", json=ASK) as response:
            assert (await response.json())["error"]["type"] == "authentication_error"


async def test_tokens_are_counted_without_an_answer() -> None:
    counting: Any = Counting()
    node = ScriptedNode()
    async with sdk(node, tokenizing=counting) as client:
        found = await client.messages.count_tokens(
            model=MODEL, messages=ASK["messages"], system="be kind", tools=TOOLS, thinking=THINK
        )
    assert found.input_tokens == 42
    assert not node.requests
    assert [len(request.tools) for request in counting.requests] == [2]


async def test_models_are_listed_in_anthropics_shape_to_its_clients_only() -> None:
    async with sdk(ScriptedNode()) as client:
        ids = [model.id async for model in client.models.list(limit=1)]
        assert ids[0] == MODEL
        assert len(ids) == 3
        assert (await client.models.retrieve("org/big")).display_name == "org/big"
    async with http(ScriptedNode()) as session:
        async with session.get("/v1/models") as response:
            assert (await response.json())["object"] == "list"
        async with session.head("/") as response:
            assert response.status == 200


async def test_a_stop_sequence_is_named() -> None:
    node = ScriptedNode([TextDelta("a"), Finished("stop", USAGE, stopped_by="END")])
    async with sdk(node) as client:
        message = await client.messages.create(**ASK, stop_sequences=["END"])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")


async def test_thinking_that_was_not_asked_for_does_not_come_before_the_text() -> None:
    deltas = [ReasoningDelta("hm"), TextDelta("so"), Finished("stop", USAGE)]
    async with sdk(ScriptedNode(deltas)) as client:
        message = await client.messages.create(**ASK)
    assert [block.type for block in message.content] == ["text"]


async def test_the_sdks_tool_runner_goes_on_without_a_conversation_that_the_server_keeps() -> None:
    ran: list[str] = []

    @anthropic.beta_async_tool
    async def get_weather(city: str) -> str:
        """The weather.

        Args:
            city: where
        """
        ran.append(city)
        return "sunny"

    calls = (CallStarted(0, "get_weather"), ArgumentsDelta(0, '{"city": "Oslo"}'), CallEnded(0))
    node = ScriptedNode((*calls, Finished("tool_calls", USAGE)), HELLO)
    async with sdk(node) as client:
        last = await client.beta.messages.tool_runner(**ASK, tools=[get_weather]).until_done()
    assert ran == ["Oslo"]
    assert last.content[0].type == "text"
    assert [message.role for message in node.requests[1].messages] == ["user", "assistant", "tool"]


async def test_a_conversation_that_the_server_should_keep_is_refused_as_the_sdks_understand_it() -> None:
    async with http(ScriptedNode()) as session:
        async with session.post("/v1/messages?beta=true", json={**ASK, "thread": {"type": "create"}}) as response:
            assert response.status == 400
            error = (await response.json())["error"]
    assert error["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
    assert error["message"].startswith("thread: ")
