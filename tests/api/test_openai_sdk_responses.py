"""The real OpenAI SDK's Responses against the real server over a scripted node, with a real store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pydantic
import pytest

from ringleader.api.contracts import Caller
from ringleader.errors import Busy, ContextTooLong, OurFault, RingLost
from ringleader.node.response_store import SqliteResponses
from ringleader.values import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    ChatRequest,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
)
from tests.api.response_rules import check_stream
from tests.api.scripted import CALLS, HELLO, MODEL, USAGE, ScriptedNode, served

ASK: Any = {"model": MODEL, "input": "hi"}
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}
NOW: Any = {"type": "function", "name": "now", "parameters": None, "strict": None}
PATCH: Any = {
    "type": "custom",
    "name": "apply_patch",
    "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'},
}
PATCHED: tuple[Delta, ...] = (
    CallStarted(0, "apply_patch"),
    ArgumentsDelta(0, "ab"),
    ArgumentsDelta(0, "c\n"),
    CallEnded(0),
    Finished("tool_calls", USAGE),
)


@asynccontextmanager
async def sdk(node: ScriptedNode, state: Path | None = None, **options: Any) -> AsyncIterator[openai.AsyncOpenAI]:
    store = None if state is None else SqliteResponses(state / "responses.sqlite")
    async with served(node, responses=store, **options) as server:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0, timeout=5) as client:
            yield client
    if store is not None:
        await store.close()


async def raw_stream(client: openai.AsyncOpenAI, **fields: Any) -> str:
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{client.base_url}responses", json={**ASK, **fields, "stream": True}) as response:
            assert response.status == 200
            assert response.headers["x-request-id"].startswith("req_")
            return await response.text()


async def test_an_answer_arrives_whole() -> None:
    async with sdk(ScriptedNode()) as client:
        response = await client.responses.create(**ASK, instructions="be kind", metadata={"a": "b"})
    assert response.output_text == "Hello ☀"
    assert (response.status, response.instructions, response.metadata) == ("completed", "be kind", {"a": "b"})
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.total_tokens) == (11, 7, 18)
    assert response.usage.output_tokens_details.reasoning_tokens == 2


async def test_instructions_stand_before_the_input_as_the_systems() -> None:
    node = ScriptedNode()
    async with sdk(node) as client:
        await client.responses.create(**ASK, instructions="be kind", max_output_tokens=9, temperature=0.5)
    (asked,) = node.requests
    assert [(message.role, message.content) for message in asked.messages] == [("system", "be kind"), ("user", "hi")]
    assert (asked.max_tokens, asked.sampling.temperature) == (9, 0.5)


async def test_a_stream_keeps_the_rules_and_the_sdk_puts_it_together() -> None:
    async with sdk(ScriptedNode(CALLS, CALLS)) as client:
        check_stream(await raw_stream(client, tools=[WEATHER, NOW]))
        async with client.responses.stream(**ASK, tools=[WEATHER, NOW]) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_response()
    assert "response.function_call_arguments.delta" in kinds
    thought, first, second = final.output
    assert thought.type == "reasoning"
    assert thought.content is not None
    assert thought.content[0].text == "hm"
    assert first.type == second.type == "function_call"
    assert (first.name, first.arguments) == ("get_weather", '{"city": "Oslo"}')
    assert (second.name, second.arguments) == ("now", "{}")
    assert first.call_id != second.call_id


async def test_text_streams_as_it_comes() -> None:
    async with sdk(ScriptedNode()) as client:
        async with client.responses.stream(**ASK) as stream:
            pieces = [event.delta async for event in stream if event.type == "response.output_text.delta"]
            assert (await stream.get_final_response()).output_text == "Hello ☀"
    assert pieces == ["Hel", "lo ☀"]


async def test_a_custom_tools_input_streams_and_goes_back_as_it_came() -> None:
    node = ScriptedNode(PATCHED, PATCHED, HELLO)
    choice: Any = {"type": "custom", "name": "apply_patch"}
    async with sdk(node) as client:
        events = check_stream(await raw_stream(client, tools=[PATCH], tool_choice=choice))
        answer = await client.responses.create(**ASK, tools=[PATCH], tool_choice=choice)
        (call,) = answer.output
        assert call.type == "custom_tool_call"
        assert (call.name, call.input) == ("apply_patch", "abc\n")
        result: Any = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "done"}
        turns: Any = [{"role": "user", "content": "hi"}, call.model_dump(), result]
        await client.responses.create(model=MODEL, input=turns, tools=[PATCH], store=False)
    assert [each["delta"] for each in events if each["type"].endswith("input.delta")] == ["ab", "c\n"]
    tool = node.requests[0].tools[0]
    assert (tool.kind, tool.grammar and tool.grammar.syntax) == ("custom", "lark")
    _, called, gave = node.requests[2].messages
    assert (called.tool_calls[0].kind, called.tool_calls[0].arguments) == ("custom", "abc\n")
    assert (gave.role, gave.content, gave.tool_call_id) == ("tool", "done", call.call_id)


class Capital(pydantic.BaseModel):
    city: str


async def test_an_answer_is_parsed_into_the_clients_own_model() -> None:
    steps: list[Delta] = [ReasoningDelta("hm"), TextDelta('{"city": "Oslo"}'), Finished("stop", USAGE)]
    node = ScriptedNode(steps, steps)
    async with sdk(node) as client:
        answer = await client.responses.parse(**ASK, text_format=Capital)
        async with client.responses.stream(**ASK, text_format=Capital) as stream:
            streamed = await stream.get_final_response()
    assert answer.output_parsed == streamed.output_parsed == Capital(city="Oslo")
    for asked in node.requests:
        assert asked.content is not None
        assert (asked.content.kind, asked.content.name, asked.content.strict) == ("json_schema", "Capital", True)


async def test_two_turns_go_on_by_the_id_of_the_first(tmp_path: Path) -> None:
    node = ScriptedNode(CALLS, HELLO, HELLO)
    async with sdk(node, tmp_path) as client:
        first = await client.responses.create(**ASK, tools=[WEATHER, NOW], instructions="once")
        outputs: Any = [
            {"type": "function_call_output", "call_id": item.call_id, "output": item.name}
            for item in first.output
            if item.type == "function_call"
        ]
        second = await client.responses.create(model=MODEL, input=outputs, previous_response_id=first.id)
    async with sdk(node, tmp_path) as client:  # another run of the node
        await client.responses.create(model=MODEL, input="and?", previous_response_id=second.id)
    assert second.previous_response_id == first.id
    assert [message.role for message in node.requests[1].messages] == ["user", "assistant", "tool", "tool"]
    turns = node.requests[2].messages
    assert [message.role for message in turns] == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert turns[1].reasoning == "hm"
    assert [call.arguments for call in turns[1].tool_calls] == ['{"city": "Oslo"}', "{}"]
    assert (turns[4].content, turns[5].content) == ("Hello ☀", "and?")


async def test_a_stream_is_stored_before_its_end_is_told(tmp_path: Path) -> None:
    async with sdk(ScriptedNode(), tmp_path) as client:
        async for event in await client.responses.create(**ASK, stream=True):
            if event.type == "response.completed":
                kept = await client.responses.retrieve(event.response.id)
                assert kept.output_text == "Hello ☀"


async def test_what_is_stored_is_listed_and_deleted(tmp_path: Path) -> None:
    async with sdk(ScriptedNode(HELLO, HELLO), tmp_path) as client:
        turns: Any = [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ]
        answer = await client.responses.create(model=MODEL, input=turns)
        page = await client.responses.input_items.list(answer.id, limit=2)
        items = [item async for item in page]
        assert [item.content[0].text for item in items] == ["c", "b", "a"]  # type: ignore[union-attr] # all are messages
        assert all(item.id for item in items)
        assert await client.responses.retrieve(answer.id) == answer
        with pytest.raises(openai.BadRequestError, match="only background responses"):
            await client.responses.cancel(answer.id)
        await client.responses.delete(answer.id)
        for gone in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
            with pytest.raises(openai.NotFoundError):
                await gone(answer.id)
        with pytest.raises(openai.BadRequestError) as caught:
            await client.responses.create(**ASK, previous_response_id=answer.id)
    assert (caught.value.param, caught.value.code) == ("previous_response_id", "previous_response_not_found")


async def test_what_is_not_to_be_stored_is_not(tmp_path: Path) -> None:
    async with sdk(ScriptedNode(), tmp_path) as client:
        answer = await client.responses.create(**ASK, store=False)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(answer.id)


async def test_stored_items_may_be_named_by_their_ids(tmp_path: Path) -> None:
    node = ScriptedNode(HELLO, HELLO)
    async with sdk(node, tmp_path) as client:
        answer = await client.responses.create(**ASK)
        again: Any = [{"type": "item_reference", "id": answer.output[0].id}, {"role": "user", "content": "more"}]
        await client.responses.create(model=MODEL, input=again)
        with pytest.raises(openai.BadRequestError, match="not found"):
            await client.responses.create(model=MODEL, input=[{"type": "item_reference", "id": "msg_x"}])
    assert [message.content for message in node.requests[1].messages] == ["Hello ☀", "more"]


async def test_reasoning_is_carried_back_in_its_sealed_form() -> None:
    node = ScriptedNode(CALLS, HELLO)
    async with sdk(node) as client:
        first = await client.responses.create(
            **ASK, tools=[WEATHER, NOW], store=False, include=["reasoning.encrypted_content"]
        )
        items: list[Any] = [{"role": "user", "content": "hi"}]
        for item in first.output:
            items.append(item.model_dump(exclude={"content"}, exclude_none=True))
            if item.type == "function_call":
                items.append({"type": "function_call_output", "call_id": item.call_id, "output": "x"})
        await client.responses.create(model=MODEL, input=items, tools=[WEATHER, NOW], store=False)
    assert [message.reasoning for message in node.requests[1].messages] == [None, "hm", None, None, None]


async def test_logprobs_come_with_the_text_where_they_are_included() -> None:
    scored: list[Delta] = [
        TextDelta("Hi", logprobs=(TokenLogprob(1, -0.5, ((1, -0.5), (3, -1.0))),)),
        Finished("stop", USAGE),
    ]
    node = ScriptedNode(scored, scored)
    ask: Any = {**ASK, "include": ["message.output_text.logprobs"], "top_logprobs": 2}
    async with sdk(node) as client:
        whole = await client.responses.create(**ask)
        events = check_stream(await raw_stream(client, **ask))
    assert node.requests[0].top_logprobs == 2
    (logprob,) = whole.output[0].content[0].logprobs  # type: ignore[union-attr,misc] # a message with one text
    assert (logprob.token, logprob.logprob, [each.token for each in logprob.top_logprobs]) == ("Hi", -0.5, ["Hi", "é"])
    (delta,) = [event for event in events if event["type"] == "response.output_text.delta"]
    assert delta["logprobs"][0]["token"] == "Hi"


@pytest.mark.parametrize(
    ("fault", "raised", "code"),
    [
        (ContextTooLong("long", param="messages"), openai.BadRequestError, "context_length_exceeded"),
        (Busy("full"), openai.RateLimitError, "busy"),
        (OurFault("secret"), openai.InternalServerError, "internal_error"),
    ],
)
async def test_a_refusal_raises_the_sdks_own_exception(
    fault: Exception, raised: type[openai.APIStatusError], code: str
) -> None:
    async with sdk(ScriptedNode(refuse=fault)) as client:
        for stream in (False, True):
            with pytest.raises(raised) as caught:
                await client.responses.create(**ASK, stream=stream)
            assert caught.value.code == code
            assert "secret" not in str(caught.value)
            assert caught.value.param in (None, "input")


async def test_a_stream_that_fails_raises_and_ends_in_a_failed_response() -> None:
    steps = [TextDelta("Hel"), RingLost("gone")]
    async with sdk(ScriptedNode(steps, steps)) as client:
        events = check_stream(await raw_stream(client))
        with pytest.raises(openai.APIError, match="gone"):
            async for _ in await client.responses.create(**ASK, stream=True):
                pass
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hel"


async def test_an_answer_whose_client_leaves_is_cancelled() -> None:
    node = ScriptedNode([TextDelta("a"), asyncio.Event()])
    async with sdk(node) as client:
        stream = await client.responses.create(**ASK, stream=True)
        await anext(aiter(stream))
        await stream.close()
        async with asyncio.timeout(5):
            await node.deltas.closed.wait()


class Small(ScriptedNode):
    """Takes three messages at most."""

    async def answer(self, request: ChatRequest) -> Any:
        if len(request.messages) > 3:
            raise ContextTooLong("long", param="messages")
        return await super().answer(request)


async def test_a_conversation_that_is_too_long_loses_its_oldest_turns_if_it_may() -> None:
    node = Small()
    turns: Any = [{"role": role, "content": f"{role} {n}"} for n in range(5) for role in ("user", "assistant")]
    turns += [{"role": "user", "content": "now"}]
    async with sdk(node) as client:
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(model=MODEL, input=turns, instructions="be kind")
        await client.responses.create(model=MODEL, input=turns, instructions="be kind", truncation="auto")
    assert [message.content for message in node.requests[-1].messages] == ["be kind", "assistant 4", "now"]


async def test_a_node_that_keeps_no_responses_says_so() -> None:
    async with sdk(ScriptedNode()) as client:
        answer = await client.responses.create(**ASK)
        assert answer.model_dump()["store"] is False
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(answer.id)
        with pytest.raises(openai.BadRequestError, match="keeps no responses") as caught:
            await client.responses.create(**ASK, previous_response_id=answer.id)
    assert caught.value.param == "previous_response_id"


class TwoKeys:
    """The keys are their holders' names."""

    asks = True

    def caller(self, key: str) -> Caller | None:
        return Caller(key) if key in ("ann", "bob") else None


async def test_what_one_keys_holder_stored_is_not_anothers(tmp_path: Path) -> None:
    async with sdk(ScriptedNode(HELLO, HELLO, HELLO), tmp_path, keys=TwoKeys()) as any_client:
        ann, bob = (any_client.with_options(api_key=name) for name in ("ann", "bob"))
        kept = await ann.responses.create(**ASK)
        for call in (
            bob.responses.retrieve,
            bob.responses.delete,
            bob.responses.cancel,
            bob.responses.input_items.list,
        ):
            with pytest.raises(openai.NotFoundError):
                await call(kept.id)
        with pytest.raises(openai.BadRequestError, match="not found"):
            await bob.responses.create(**ASK, previous_response_id=kept.id)
        with pytest.raises(openai.BadRequestError, match="not found"):
            await bob.responses.create(model=MODEL, input=[{"type": "item_reference", "id": kept.output[0].id}])
        await ann.responses.create(**ASK, previous_response_id=kept.id)
        assert await ann.responses.retrieve(kept.id) == kept


async def test_a_conversation_goes_on_after_a_call_that_was_cut(tmp_path: Path) -> None:
    cut: list[Delta] = [TextDelta("so"), CallStarted(0, "now"), ArgumentsDelta(0, '{"a'), Finished("length", USAGE)]
    node = ScriptedNode(cut, HELLO)
    async with sdk(node, tmp_path) as client:
        first = await client.responses.create(**ASK, tools=[NOW])
        assert first.status == "incomplete"
        await client.responses.create(model=MODEL, input="go on", previous_response_id=first.id, tools=[NOW])
    assert [message.content for message in node.requests[1].messages] == ["hi", "so", "go on"]
    assert not any(message.tool_calls for message in node.requests[1].messages)


async def test_hosted_tools_are_told_of_in_a_header_and_the_others_keep_their_places() -> None:
    tools: Any = [{"type": "web_search"}, NOW]
    for stream in (False, True):
        async with sdk(ScriptedNode(HELLO, warnings=("tools[0].function.parameters: x",))) as client:
            raw = await client.responses.with_raw_response.create(**ASK, tools=tools, stream=stream)
        told = raw.headers["Warning"]
        assert "tools[0] 'web_search'" in told
        assert "tools[1].parameters: x" in told
