"""The application over real sockets, spoken to without any SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from ringleader.api.auth import FixedKeys
from ringleader.errors import BadRequest, Busy, OurFault, RingLost
from ringleader.values import Answer, ArgumentsDelta, CallEnded, CallStarted, ChatRequest, Finished, TextDelta
from tests.api.scripted import HELLO, NOW, USAGE, ScriptedNode, Step, body, served

CHAT = "/v1/chat/completions"


@asynccontextmanager
async def http(node: ScriptedNode, **options: Any) -> AsyncIterator[aiohttp.ClientSession]:
    async with served(node, **options) as server:
        timeout = aiohttp.ClientTimeout(total=10)
        async with aiohttp.ClientSession(server.url, timeout=timeout) as session:
            yield session


class FullAfterOne(ScriptedNode):
    """Takes one request, and has no room for a second."""

    async def answer(self, request: ChatRequest) -> Answer:
        if self.requests:
            raise Busy("full")
        return await super().answer(request)


async def error_of(response: aiohttp.ClientResponse) -> dict[str, Any]:
    error = (await response.json())["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert response.headers["x-request-id"].startswith("req_")
    return dict(error)


async def test_a_stream_is_events_that_end_in_done() -> None:
    async with http(ScriptedNode(warnings=('say "hi"\r\nSet-Cookie: no é',))) as session:
        async with session.post(CHAT, json=body(stream=True)) as response:
            text = await response.text()
            assert response.status == 200
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            assert response.headers["Cache-Control"] == "no-cache"
            assert "Set-Cookie" not in response.headers
            assert response.headers["Warning"].startswith("299 ringleader \"say 'hi'  Set-Cookie")
    events = text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(json.loads(event.removeprefix("data: "))["choices"] for event in events[:-2])


async def test_an_error_amid_a_stream_is_its_last_event_and_done_is_not_said() -> None:
    for fault, message in ((RingLost("gone"), "gone"), (KeyError("secret"), "error of its own")):
        async with http(ScriptedNode([TextDelta("a"), fault])) as session:
            async with session.post(CHAT, json=body(stream=True)) as response:
                last = (await response.text()).strip().split("\n\n")[-1]
        error = json.loads(last.removeprefix("data: "))["error"]
        assert message in error["message"]
        assert set(error) == {"message", "type", "param", "code"}


async def test_silence_before_the_first_delta_is_kept_alive() -> None:
    go = asyncio.Event()
    async with http(ScriptedNode([go, *HELLO]), keep_alive_s=0.01) as session:
        async with session.post(CHAT, json=body(stream=True)) as response:
            assert await response.content.readline() == b": keep-alive\n"
            go.set()
            assert (await response.text()).rstrip().endswith("data: [DONE]")


async def test_a_client_that_leaves_before_the_answer_cancels_it() -> None:
    for stream in (False, True):
        node = ScriptedNode(hold=asyncio.Event())
        async with http(node) as session:
            asked = asyncio.create_task(session.post(CHAT, json=body(stream=stream)))
            await node.arrived.wait()
            asked.cancel()
            async with asyncio.timeout(1):
                await node.abandoned.wait()


async def test_a_client_that_leaves_a_whole_answer_closes_the_deltas() -> None:
    never = asyncio.Event()
    node = ScriptedNode([TextDelta("a"), never])
    async with http(node) as session:
        asked = asyncio.create_task(session.post(CHAT, json=body()))
        await node.arrived.wait()
        await node.deltas.waiting.wait()
        asked.cancel()
        async with asyncio.timeout(1):
            await node.deltas.closed.wait()
    assert node.deltas.closings == 1


async def test_a_client_that_does_not_read_holds_the_node_back() -> None:
    node = ScriptedNode([TextDelta("x" * 100_000)] * 500)
    async with served(node) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
        payload = json.dumps(body(stream=True)).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(payload)}\r\n\r\n"
        writer.write(head.encode() + payload)
        await reader.readline()
        seen = -1
        while node.deltas.pulled != seen:
            seen = node.deltas.pulled
            await asyncio.sleep(0.05)
        assert node.deltas.pulled < 400
        writer.transport.abort()
        async with asyncio.timeout(1):
            await node.deltas.closed.wait()


async def test_stopping_the_server_closes_open_answers() -> None:
    node = ScriptedNode([TextDelta("a"), asyncio.Event()])
    async with served(node) as server:
        async with aiohttp.ClientSession() as session:
            response = await session.post(server.url + CHAT, json=body(stream=True))
            await response.content.readline()
            await server.close()
            assert node.deltas.closings == 1
            response.close()


async def test_paths_methods_and_sizes_are_refused_in_shape() -> None:
    async with http(ScriptedNode(), body_bytes_max=1000) as session:
        async with session.get("/v1/nothing") as response:
            assert (response.status, (await error_of(response))["code"]) == (404, "unknown_url")
        async with session.get(CHAT) as response:
            assert (response.status, (await error_of(response))["code"]) == (405, "method_not_allowed")
            assert "POST" in response.headers["Allow"]
        async with session.post(CHAT, json=body(user="x" * 2000)) as response:
            assert (response.status, (await error_of(response))["code"]) == (413, "request_too_large")
        async with session.post(CHAT, data=b"{") as response:
            assert (response.status, (await error_of(response))["code"]) == (400, "invalid_json")
        async with session.post(CHAT, json=body()) as response:
            assert response.status == 200


async def test_a_body_that_is_not_compressed_as_it_says_is_the_callers_fault() -> None:
    async with http(ScriptedNode()) as session:
        async with session.post(CHAT, data=b"no gzip", headers={"Content-Encoding": "gzip"}) as response:
            assert (response.status, (await error_of(response))["code"]) == (400, "invalid_body")


async def test_busy_says_when_to_come_back_and_bugs_say_nothing() -> None:
    async with http(ScriptedNode(refuse=Busy("full"))) as session:
        async with session.post(CHAT, json=body()) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "2")
            assert (await error_of(response))["message"] == "full"
    async with http(ScriptedNode(refuse=OurFault("secret"))) as session:
        async with session.post(CHAT, json=body()) as response:
            assert response.status == 500
            assert response.headers["x-request-id"] in (await error_of(response))["message"]


async def test_pages_of_strangers_are_kept_out_of_loopback_only() -> None:
    stranger = {"Origin": "https://evil.example"}
    async with http(ScriptedNode()) as session:
        async with session.post(CHAT, json=body(), headers=stranger) as response:
            assert (response.status, (await error_of(response))["code"]) == (403, "forbidden_origin")
        async with session.get("/v1/cluster", headers={"Host": "evil.example"}) as response:
            assert response.status == 403
    async with http(ScriptedNode(), loopback_only=False, keys=FixedKeys("k")) as session:
        async with session.get("/v1/models", headers={**stranger, "Authorization": "Bearer k"}) as response:
            assert response.status == 200


async def test_a_key_guards_all_but_health() -> None:
    async with http(ScriptedNode(), keys=FixedKeys("k")) as session:
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "k"}, {"Authorization": "Bearer \xff"}):
            async with session.get("/v1/models", headers=headers) as response:
                assert (response.status, (await error_of(response))["code"]) == (401, "invalid_api_key")
        async with session.get("/health") as response:
            assert response.status == 200


async def test_health_the_picture_and_the_welcome() -> None:
    node = ScriptedNode()
    async with http(node) as session:
        async with session.get("/health") as response:
            assert (response.status, await response.json()) == (200, {"status": "ok"})
        node.status = "starting"
        async with session.get("/health") as response:
            assert response.status == 503
        async with session.get("/v1/cluster") as response:
            assert await response.json() == node.picture
        async with session.get("/") as response:
            text = await response.text()
            assert "Ringleader" in text
            assert f"{response.url.origin()}/v1" in text
            assert text.count("\n") == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_the_server_still_answers_after_any_failure(stream: bool) -> None:
    async with served(ScriptedNode([CallStarted(0, "f"), CallEnded(0), Finished("tool_calls", USAGE)])) as server:
        async with aiohttp.ClientSession(server.url) as session:
            for bad in (b"", b"[]", b'{"model": 1}', json.dumps(body(n=9)).encode()):
                async with session.post(CHAT, data=bad) as response:
                    assert response.status == 400
            async with session.post(CHAT, json=body(stream=stream)) as response:
                assert response.status == 200
                assert b"tool_calls" in await response.read()


async def test_a_late_warning_is_a_header_of_a_whole_answer_and_a_comment_of_a_stream() -> None:
    steps: list[Step] = [TextDelta("{}"), Finished("stop", USAGE, ('it is no "x"\r\ndata: 1',))]
    async with http(ScriptedNode(steps, warnings=("early",))) as session:
        async with session.post(CHAT, json=body()) as response:
            assert response.headers["Warning"] == '299 ringleader "early", 299 ringleader "it is no \'x\'  data: 1"'
    async with http(ScriptedNode(steps, warnings=("early",))) as session:
        async with session.post(CHAT, json=body(stream=True)) as response:
            assert response.headers["Warning"] == '299 ringleader "early"'
            events = (await response.text()).split("\n\n")
    assert events[-4] == ': warning: it is no "x"  data: 1'
    assert '"finish_reason":"stop"' in events[-3]


@pytest.mark.parametrize("legacy", [False, True])
async def test_a_call_that_turns_out_wrong_is_a_400_or_the_streams_last_event(legacy: bool) -> None:
    place = "tools[0].function.parameters"
    fault = BadRequest(f"The call of 'f' does not match {place}.", param=place, code="invalid_tool_call")
    steps: list[Step] = [CallStarted(0, "f"), ArgumentsDelta(0, "{}"), fault]
    asked = body(functions=[{"name": "f"}]) if legacy else body(tools=[{"type": "function", "function": {"name": "f"}}])
    async with http(ScriptedNode(steps, warnings=(f"{place} is checked",))) as session:
        async with session.post(CHAT, json=asked) as response:
            assert response.status == 400
            whole = await error_of(response)
    async with http(ScriptedNode(steps, warnings=(f"{place} is checked",))) as session:
        async with session.post(CHAT, json=asked | {"stream": True}) as response:
            told = "functions[0].parameters" if legacy else place
            assert response.headers["Warning"] == f'299 ringleader "{told} is checked"'
            last = (await response.text()).strip().split("\n\n")[-1]
    assert json.loads(last.removeprefix("data: "))["error"] == whole
    said = "functions[0].parameters" if legacy else place
    assert (whole["param"], whole["code"]) == (said, "invalid_tool_call")
    assert whole["message"] == f"The call of 'f' does not match {said}."


async def test_one_choices_error_is_the_streams_last_event_and_closes_all() -> None:
    node = ScriptedNode([TextDelta("a"), asyncio.Event()], [TextDelta("b"), RingLost("gone")], [asyncio.Event()])
    async with http(node) as session:
        async with session.post(CHAT, json=body(stream=True, n=3)) as response:
            last = (await response.text()).strip().split("\n\n")[-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "ring_lost"
    assert [each.closings for each in (node.deltas, *node.others)] == [1, 1, 1]


async def test_a_choice_that_is_refused_fails_the_whole_answer() -> None:
    async with http(FullAfterOne([TextDelta("a"), asyncio.Event()])) as session:
        async with session.post(CHAT, json=body(n=2)) as response:
            assert (response.status, (await error_of(response))["code"]) == (429, "busy")


async def test_a_client_that_leaves_cancels_the_choices_that_wait_for_a_ring_too() -> None:
    node = ScriptedNode([TextDelta("a"), asyncio.Event()], [asyncio.Event()])
    async with http(node) as session:
        asked = asyncio.create_task(session.post(CHAT, json=body(n=2)))
        await node.deltas.waiting.wait()
        await node.others[0].waiting.wait()
        asked.cancel()
        async with asyncio.timeout(1):
            await node.deltas.closed.wait()
            await node.others[0].closed.wait()


@pytest.mark.parametrize(
    ("fields", "setting", "told"),
    [
        (
            {"tools": [NOW], "tool_choice": {"type": "function", "function": {"name": "now"}}},
            "tool_calls",
            "tool_calls",
        ),
        ({"tools": [NOW], "tool_choice": {"type": "function", "function": {"name": "now"}}}, "stop", "stop"),
        ({"tools": [NOW], "tool_choice": "now"}, "stop", "stop"),
        ({"tools": [NOW], "tool_choice": "required"}, "stop", "tool_calls"),
        ({"functions": [{"name": "now"}], "function_call": {"name": "now"}}, "tool_calls", "function_call"),
        ({"functions": [{"name": "now"}], "function_call": {"name": "now"}}, "stop", "stop"),
        ({"functions": [{"name": "now"}]}, "stop", "function_call"),
    ],
)
async def test_what_a_named_choice_finishes_with_is_a_setting(fields: dict[str, Any], setting: str, told: str) -> None:
    steps: list[Step] = [CallStarted(0, "now"), CallEnded(0), Finished("tool_calls", USAGE)]
    async with http(ScriptedNode(steps), named_finish_reason=setting) as session:
        async with session.post(CHAT, json=body(**fields)) as response:
            assert (await response.json())["choices"][0]["finish_reason"] == told


async def test_a_refusal_speaks_of_functions_to_a_client_of_functions() -> None:
    fault = BadRequest("tool_choice names 'x'", param="tool_choice", code="unknown_tool")
    async with http(ScriptedNode(refuse=fault)) as session:
        async with session.post(CHAT, json=body(functions=[{"name": "f"}], function_call={"name": "x"})) as response:
            assert response.status == 400
            error = await error_of(response)
    assert (error["param"], error["code"]) == ("function_call", "unknown_tool")


@pytest.mark.parametrize("expectation", ["100-continue", "something"])
async def test_what_a_client_expects_beside_an_answer_is_no_fault(expectation: str) -> None:
    async with http(ScriptedNode()) as session:
        async with session.post(CHAT, json=body(), headers={"Expect": expectation}) as response:
            assert response.status == 200
