"""SDKs of the npm world, over scripted answers where a ring adds nothing, and each on a real ring."""

from __future__ import annotations

import asyncio
import json
import shutil
from asyncio.subprocess import PIPE
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ringleader.errors import RingLost
from ringleader.values import ArgumentsDelta, CallEnded, CallStarted, Delta, Finished, TextDelta
from tests.api.scripted import CALLS, HELLO, MODEL, USAGE, ScriptedNode, Step, served
from tests.clients.npm import NODE, ROOT, needs_npm
from tests.ring.cluster import Cluster
from tests.ring.conftest import smollm

__all__ = ["smollm"]
pytestmark = needs_npm

HERE = Path(__file__).parent
DEADLINE_S = 120.0
PLACE: tuple[Delta, ...] = (TextDelta('{"city":"Oslo",'), TextDelta('"days":2}'), Finished("stop", USAGE))
OSLO: tuple[Delta, ...] = (
    CallStarted(0, "get_weather"),
    ArgumentsDelta(0, '{"city": '),
    ArgumentsDelta(0, '"Oslo"}'),
    CallEnded(0),
    Finished("tool_calls", USAGE),
)
CUT: tuple[Step, ...] = (TextDelta("Hel"), RingLost("a machine is gone"))
BOTH: Any = [["get_weather", {"city": "Oslo"}], ["now", {}]]
SAID = "Hello ☀"


async def seen(client: str, case: str, url: str) -> Any:
    """What `client`'s SDK saw of one case. It runs where its packages are: Node looks for them beside the file."""
    script = await asyncio.to_thread(shutil.copy, HERE / f"{client}.mjs", ROOT)
    process = await asyncio.create_subprocess_exec(
        str(NODE), str(script), case, url, MODEL, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(DEADLINE_S):
            out, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, errors.decode(errors="replace")[-3000:]
    return json.loads(out)


async def scripted(client: str, case: str, *steps: Sequence[Step]) -> tuple[Any, ScriptedNode]:
    """What it saw of scripted answers, and the node that was asked."""
    node = ScriptedNode(*steps)
    async with served(node) as server:
        return await seen(client, case, server.url), node


# ---------------------------------------------------------------- whole and streamed


async def test_openais_chat_is_the_same_whole_and_streamed() -> None:
    told, _ = await scripted("openai", "chat", HELLO, HELLO)
    assert (told["whole"], told["streamed"]) == (SAID, SAID)
    assert told["usage"]["completion_tokens"] == USAGE.completion_tokens


async def test_openais_responses_are_the_same_whole_and_streamed() -> None:
    told, _ = await scripted("openai", "responses", HELLO, HELLO)
    assert (told["whole"], told["streamed"]) == (SAID, SAID)
    assert told["ends"] == ["response.created", "response.completed"]


async def test_anthropics_messages_are_the_same_whole_and_streamed() -> None:
    told, _ = await scripted("anthropic", "messages", HELLO, HELLO)
    assert told == {"whole": SAID, "streamed": SAID, "told": SAID, "reason": "end_turn"}


async def test_vercels_text_is_the_same_whole_and_streamed() -> None:
    told, _ = await scripted("vercel", "text", HELLO, HELLO)
    assert (told["whole"], told["streamed"], told["reason"]) == (SAID, SAID, "stop")
    assert told["usage"]["outputTokens"] == USAGE.completion_tokens


@pytest.mark.parametrize(
    ("client", "case", "reason"), [("openai", "chat_calls", "tool_calls"), ("anthropic", "calls", "tool_use")]
)
async def test_forced_calls_in_parallel_are_the_same_whole_and_streamed(client: str, case: str, reason: str) -> None:
    told, node = await scripted(client, case, CALLS, CALLS)
    assert told == {"whole": BOTH, "streamed": BOTH, "reason": reason}
    assert [tool.name for tool in node.requests[0].tools] == ["get_weather", "now"]


# ---------------------------------------------------------------- loops of two turns


@pytest.mark.parametrize(
    ("client", "case"),
    [("openai", "chat_loop"), ("anthropic", "runner"), ("vercel", "loop"), ("vercel", "stream_loop")],
)
async def test_the_sdks_own_loop_runs_the_tool_and_hears_the_answer(client: str, case: str) -> None:
    told, node = await scripted(client, case, OSLO, HELLO)
    assert (told["said"], told["ran"]) == (SAID, [{"city": "Oslo"}])
    called, result = node.requests[1].messages[-2:]
    assert called.tool_calls[0].id == result.tool_call_id
    assert "sunny" in (result.content or "")


async def test_vercels_steps_end_by_their_reasons_and_its_stream_tells_of_calls() -> None:
    told, node = await scripted("vercel", "stream_loop", OSLO, HELLO)
    assert told["steps"] == ["tool-calls", "stop"]
    assert {"tool-input-start", "tool-input-delta", "tool-call", "tool-result", "text-delta"} <= set(told["kinds"])
    assert node.requests[0].tool_choice == {"type": "function", "function": {"name": "get_weather"}}


# ---------------------------------------------------------------- forms


@pytest.mark.parametrize(
    ("client", "case"), [("openai", "chat_form"), ("openai", "responses_form"), ("vercel", "form")]
)
async def test_a_form_of_zods_arrives_as_a_schema_and_its_answer_parses(client: str, case: str) -> None:
    told, node = await scripted(client, case, PLACE)
    assert told == {"city": "Oslo", "days": 2}
    content = node.requests[0].content
    assert content is not None
    assert content.kind == "json_schema"


async def test_anthropics_form_of_zods_arrives_as_a_schema_and_its_answer_parses() -> None:
    told, node = await scripted("anthropic", "form", (TextDelta('{"city":"Oslo"}'), Finished("stop", USAGE)))
    assert told == {"city": "Oslo"}
    assert node.requests[0].content is not None


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("client", "case", "expected"),
    [
        ("openai", "cut", {"said": "Hel", "kind": "APIError"}),
        ("anthropic", "cut", {"said": "Hel", "type": "overloaded_error"}),
        ("vercel", "cut", {"said": "Hel"}),
    ],
)
async def test_a_stream_that_is_cut_is_an_error_of_the_sdk(client: str, case: str, expected: Any) -> None:
    told, _ = await scripted(client, case, CUT)
    assert {key: told[key] for key in expected} == expected
    if client == "vercel":
        assert "a machine is gone" in told["failed"]


async def test_a_response_that_is_cut_does_not_complete() -> None:
    told, _ = await scripted("openai", "cut_response", CUT)
    assert "response.output_text.delta" in told["kinds"]
    assert "response.completed" not in told["kinds"]
    assert told.get("kind") or told["kinds"][-1] in ("error", "response.failed")


# ---------------------------------------------------------------- a real ring


@pytest.fixture(scope="module")
def ring(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API of a node with the embedded model in two shards."""
    with Cluster(tmp_path_factory.mktemp("sdks")) as cluster:
        cluster.start_master("a", "--model", str(smollm), "--shards", "2", "--context", "2048")
        cluster.wait_ready()
        yield cluster.api


@pytest.mark.ring
@pytest.mark.parametrize(("client", "case"), [("openai", "responses_loop"), ("anthropic", "loop")])
async def test_a_ring_calls_the_tool_that_is_forced_and_goes_on_with_its_result(
    ring: str, client: str, case: str
) -> None:
    told = await seen(client, case, ring)
    ((name, given),) = told["calls"]
    assert (name, list(given)) == ("get_weather", ["city"])
    assert len(given["city"]) <= 20
    assert told["said"]
    assert told["longer"] != 0


@pytest.mark.ring
async def test_a_ring_runs_vercels_loop(ring: str) -> None:
    told = await seen("vercel", "stream_loop", ring)
    assert [list(given) for given in told["ran"]] == [["city"]]
    assert told["steps"][0] == "tool-calls"
    assert told["said"]


@pytest.mark.ring
@pytest.mark.parametrize("case", ["chat_form", "responses_form"])
async def test_a_ring_keeps_the_form_of_zods(ring: str, case: str) -> None:
    told = await seen("openai", case, ring)
    assert len(told["city"]) <= 20
    assert 1 <= told["days"] <= 9


@pytest.mark.ring
@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("openai", {"kind": "BadRequestError", "status": 400, "param": "tool_choice"}),
        ("anthropic", {"kind": "BadRequestError", "status": 400, "type": "invalid_request_error"}),
        ("vercel", {"kind": "AI_APICallError", "status": 400}),
    ],
)
async def test_a_ring_refuses_what_is_wrong_with_the_sdks_own_error(ring: str, client: str, expected: Any) -> None:
    told = await seen(client, "refused", ring)
    assert {key: told[key] for key in expected} == expected
    assert ("get_weather" in told["said"]) == (client != "vercel")
