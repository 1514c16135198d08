"""What comes back from each backend: one canonical dict, whole or streamed, typed faults when nothing good comes."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from ringleader.agent.backends.contracts import Piece
from ringleader.agent.backends.faults import (
    BackendBusy,
    BackendDenied,
    BackendFailed,
    BackendGarbled,
    BackendRefused,
)
from ringleader.agent.completions import Tokens, read_completion
from ringleader.errors import ContextTooLong, NodeUnreachable
from tests.unit.agent.backends.doors import NAMES, at_stub, opened, turn
from tests.unit.agent.backends.recorded import STREAMED, WHOLE, chunk, sse
from tests.unit.agent.backends.stub import CALLED, KEY, SAID, Refusal, served

ASK = [{"role": "user", "content": "Is it so?"}]
SCHEMA = {"type": "object", "properties": {"claim": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": n, "parameters": SCHEMA}} for n in ("verify_fact", "now")]
BOTH_WAYS = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
ALL = pytest.mark.parametrize("backend", NAMES)


@ALL
@BOTH_WAYS
async def test_text_comes_as_the_canonical_dict(backend: str, streamed: bool) -> None:
    async with at_stub(backend, SAID) as (door, _):
        answer, pieces = await turn(door, streamed, ASK)
    assert answer == {
        "content": "Oslo is cold.",
        "reasoning": None,
        "tool_calls": [],
        "finish_reason": "stop",
        "usage": answer["usage"],
        "model": "the-model-that-answered",
    }
    used = answer["usage"]
    assert (used["prompt_tokens"], used["completion_tokens"], used["total_tokens"]) == (11, 7, 18)
    assert "".join(piece.text for piece in pieces) == ("Oslo is cold." if streamed else "")


@ALL
@BOTH_WAYS
async def test_calls_and_reasoning_come_as_the_canonical_dict(backend: str, streamed: bool) -> None:
    async with at_stub(backend, CALLED) as (door, _):
        answer, pieces = await turn(door, streamed, ASK, TOOLS)
    read = read_completion(answer, backend)
    assert [(call.id, call.name, call.arguments) for call in read.calls] == [
        ("call_a", "verify_fact", '{"claim": "x"}'),
        ("call_b", "now", "{}"),
    ]
    assert (read.finish, read.reasoning, read.content) == ("tool_calls", "look first", "")
    assert "".join(p.text for p in pieces if p == Piece("reasoning", p.text)) == ("look first" if streamed else "")


@ALL
@BOTH_WAYS
async def test_the_providers_full_shapes_are_read(backend: str, streamed: bool) -> None:
    body = STREAMED[backend] if streamed else json.dumps(WHOLE[backend])
    async with at_stub(backend, Refusal(200, body)) as (door, _):
        answer, _ = await turn(door, streamed, ASK, TOOLS)
    read = read_completion(answer, backend)
    (call,) = read.calls
    assert (call.id, call.name, json.loads(call.arguments)) == ("call_9rT", "verify_fact", {"claim": "x"})
    assert (read.finish, read.content, read.tokens) == ("tool_calls", "", Tokens(82, 17))


@ALL
@BOTH_WAYS
async def test_an_answer_that_was_cut_by_the_limit_says_so(backend: str, streamed: bool) -> None:
    async with at_stub(backend, {"content": "Oslo", "finish_reason": "length"}) as (door, _):
        answer, _ = await turn(door, streamed, ASK)
    assert answer["finish_reason"] == "length"


FAULTS: list[tuple[Any, type[Exception], str]] = [
    (Refusal(401), BackendDenied, "API_KEY|GITHUB_TOKEN"),
    (Refusal(403), BackendDenied, "403"),
    (Refusal(404, '{"error": {"message": "no such deployment"}}'), BackendRefused, "no such deployment"),
    (Refusal(410, "<html>gone</html>"), BackendRefused, "410"),
    (Refusal(429), BackendBusy, "Wait, or ask for less"),
    (Refusal(429, headers={"retry-after": "9999"}), BackendBusy, "It asks to wait 9,999 s"),
    (
        Refusal(401, f'{{"error": {{"message": "the key {KEY} is wrong"}}}}'),
        BackendDenied,
        "the key .the credential. is",
    ),
    (Refusal(500, '{"error": {"message": "an accident"}}'), BackendFailed, "an accident"),
    (Refusal(503, "<html>" + "x" * 5000), BackendFailed, "503"),
    (
        Refusal(400, '{"error": {"message": "m", "code": "context_length_exceeded"}}'),
        ContextTooLong,
        "Give the step less",
    ),
]


@ALL
@BOTH_WAYS
@pytest.mark.parametrize(("refusal", "fault", "words"), FAULTS, ids=[f"{f[0].status}" for f in FAULTS])
async def test_a_refusal_is_a_typed_fault_in_the_providers_words(
    backend: str, streamed: bool, refusal: Refusal, fault: type[Exception], words: str
) -> None:
    async with at_stub(backend, refusal) as (door, _):
        with pytest.raises(fault, match=words) as caught:
            await turn(door, streamed, ASK)
    assert backend in str(caught.value)
    assert KEY not in str(caught.value)
    assert len(str(caught.value)) < 1200


@ALL
@pytest.mark.parametrize("status", [429, 500])
async def test_what_may_pass_is_tried_again(backend: str, status: int) -> None:
    soon = {"retry-after-ms": "1"}
    async with at_stub(backend, Refusal(status, headers=soon), SAID, retries_max=1) as (door, stub):
        answer = await door.complete_chat(ASK)
    assert answer["content"] == "Oslo is cold."
    assert len(stub.seen) == 2


@ALL
@pytest.mark.parametrize(
    "body", ["<html>welcome</html>", "{}", '{"choices": []}', '{"choices": [{"index": 0}]}', '{"a": ']
)
async def test_an_answer_that_is_none_is_garbled(backend: str, body: str) -> None:
    async with at_stub(backend, Refusal(200, body)) as (door, _):
        with pytest.raises(BackendGarbled, match=backend):
            await door.complete_chat(ASK)


@ALL
async def test_a_stream_that_breaks_off_is_a_failure_and_no_short_answer(backend: str) -> None:
    async with at_stub(backend, SAID | {"cut": True}) as (door, _):
        with pytest.raises(BackendFailed, match="in the middle"):
            await turn(door, True, ASK)


VERIFY = {"name": "verify_fact", "arguments": '{"claim": "x"}'}


def parts(*calls: Any) -> str:
    return sse(*(chunk({"tool_calls": [call]}) for call in calls), chunk({}, "tool_calls"))


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        (parts({"index": 0, "function": VERIFY}), [("call_0", VERIFY)]),
        (parts({"index": 0, "id": "a", "function": VERIFY}, {"index": 5, "id": "b", "function": VERIFY}), "ab"),
        (parts({"id": "a", "function": VERIFY}, {"id": "b", "function": VERIFY}), "ab"),
        (
            parts(*({"index": n, "id": "a", "function": VERIFY} for n in (0, 1))),
            [("a_0", VERIFY), ("a_1", VERIFY)],
        ),
        (
            parts({"id": "a", "function": VERIFY | {"arguments": '{"claim"'}}, {"function": {"arguments": ': "x"}'}}),
            "a",
        ),
        (parts({"index": 0, "id": "a", "function": VERIFY | {"arguments": {"claim": "x"}}}), "a"),
        (parts({"index": 0, "id": "a\udc00", "function": VERIFY}), [("a\ufffd", VERIFY)]),
    ],
    ids=["no id", "gap", "no index", "one id twice", "no index, in pieces", "an object", "half a character"],
)
async def test_calls_that_servers_spell_loosely_are_read(body: str, calls: Any) -> None:
    async with at_stub("openai", Refusal(200, body)) as (door, _):
        answer, _ = await turn(door, True, ASK, TOOLS)
    wanted = [(each, VERIFY) for each in calls] if isinstance(calls, str) else calls
    read = read_completion(answer, "openai")
    assert [(c.id, {"name": c.name, "arguments": c.arguments}) for c in read.calls] == wanted


def blocks(*events: Any) -> str:
    return sse({"type": "message_start", "message": {"usage": {}}}, *events, named=True, done=False)


GARBLED = [
    ("openai", sse(chunk({"content": 5}), chunk({}, "stop"))),
    ("openai", sse(chunk({"tool_calls": [None]}))),
    ("openai", parts({"index": 0, "function": {"name": 5}})),
    ("openai", sse({"choices": [None]})),
    ("openai", "data: {oops\n\n"),
    ("openai", "data: [DONE]\n\n"),
    ("openai", "<html>welcome</html>"),
    ("anthropic", blocks({"type": "content_block_start", "index": 0, "content_block": None})),
    ("anthropic", blocks({"type": "content_block_delta", "index": 0, "delta": None})),
    ("anthropic", blocks({"type": "content_block_delta", "index": 0, "delta": {"text": 5}})),
    ("anthropic", sse({"type": "message_stop"}, named=True, done=False)),
    ("anthropic", "<html>welcome</html>"),
]


@pytest.mark.parametrize(("backend", "body"), GARBLED)
async def test_a_stream_that_is_none_of_the_protocol_is_garbled(backend: str, body: str) -> None:
    async with at_stub(backend, Refusal(200, body)) as (door, _):
        with pytest.raises(BackendGarbled, match=backend):
            await turn(door, True, ASK)


async def test_an_overload_that_is_told_in_a_stream_is_busy_and_no_status() -> None:
    body = blocks({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    async with at_stub("anthropic", Refusal(200, body)) as (door, _):
        with pytest.raises(BackendBusy, match="in the middle of its answer: Overloaded"):
            await turn(door, True, ASK)


@ALL
async def test_nobody_at_the_address_is_told_as_such(backend: str) -> None:
    async with served(SAID) as stub:
        url = stub.url
    door = opened(backend, url)
    with pytest.raises(NodeUnreachable, match=backend):
        await door.complete_chat(ASK)
    await door.close()


@ALL
async def test_no_credential_stands_in_a_repr(backend: str) -> None:
    async with at_stub(backend, SAID) as (door, _):
        assert KEY not in repr(door)
        assert backend in repr(door)


@ALL
@BOTH_WAYS
async def test_no_credential_is_logged_even_when_everything_is(
    backend: str, streamed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with at_stub(backend, Refusal(500, headers={"retry-after-ms": "1"}), SAID, retries_max=1) as (door, _):
        await turn(door, streamed, ASK, TOOLS)
    assert len(caplog.records) > 3, "the SDKs log at this level"
    assert KEY not in caplog.text
    assert all(KEY not in str(record.__dict__) for record in caplog.records if record.name.startswith("ringleader"))


async def test_the_ring_takes_the_model_that_is_loaded_when_none_is_named() -> None:
    async with at_stub("ring", SAID, model="") as (door, stub):
        await door.complete_chat(ASK)
        await door.complete_chat(ASK)
    assert [seen.path for seen in stub.seen] == ["/v1/models", "/v1/chat/completions", "/v1/chat/completions"]
    assert stub.seen[1].body["model"] == "the-loaded"
    assert door.model == "the-loaded"


@ALL
async def test_cancelling_a_turn_ends_its_request(backend: str) -> None:
    async with at_stub(backend, SAID) as (door, _):
        asked = asyncio.create_task(door.complete_chat(ASK))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
