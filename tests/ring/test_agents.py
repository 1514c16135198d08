"""Agents on a real ring of two shards: verify before you reason. AGENT_RUNS=100 makes the proof of the sample."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ringleader.agent import events
from ringleader.agent.backends.anthropic import AnthropicBackend
from ringleader.agent.backends.contracts import Backend
from ringleader.agent.backends.openai import OpenAIBackend
from ringleader.agent.backends.ring import RingBackend
from ringleader.agent.outcome import Bounds
from ringleader.agent.runner import StepRun
from ringleader.agent.steps import Step
from ringleader.agent.tools.verify_fact import verify_fact
from tests.ring.cluster import Cluster

pytestmark = [pytest.mark.ring, pytest.mark.timeout(1800)]

RUNS = int(os.environ.get("AGENT_RUNS", "5"))
NAMED = {"type": "function", "function": {"name": "verify_fact"}}
TASKS = (
    "Evidence: The lighthouse at Cape Wrath was built in 1828. Claim: it was built in 1828. Is it so?",
    "What is your name?",
    "Tell me a story about a fox.",
    "Evidence: revenue rose by 12.5 % to 3,400 euros. Did revenue fall?",
    "Do not call any tool. Only say hello.",
    "ありがとう ☀ 'quoted' \"words\" \\ and <tags> {braces}",
)
AT_ONCE = 16
BOUNDS = Bounds(turns_max=3, answer_tokens_max=24, wall_s=3000)  # many at once on a busy machine


@pytest.fixture(scope="module")
def cluster(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("agents")) as cluster:
        layers = ("--layers", "a=0-14,b=15-29")
        cluster.start_master("a", "--model", str(smollm), "--nodes", "2", *layers)
        cluster.start_follower("b")
        assert len(cluster.wait_ready()) == 2
        yield cluster


async def happened(backend: Backend, step: Step, bounds: Bounds = BOUNDS, **options: Any) -> tuple[StepRun, list[Any]]:
    run = StepRun(step, backend, bounds=bounds, **options)
    return run, [event async for event in run.events()]


def verifying(task: str) -> Step:
    return Step(task, role="checker", tier=1, tools=("verify_fact",), metadata={"tool_choice": "verify_fact"})


async def test_the_first_turn_verifies_with_valid_arguments_and_later_turns_are_free(cluster: Cluster) -> None:
    """Several at once, as a ring is used; random, so that each run is another one."""
    ring = RingBackend(url=cluster.api)
    gate = asyncio.Semaphore(AT_ONCE)
    ends: Counter[str] = Counter()

    async def one(number: int) -> None:
        async with gate:
            run, told = await happened(ring, verifying(TASKS[number % len(TASKS)]), temperature=1.0)
        assert_verified_first(run, told)
        ends[str(run.outcome and run.outcome.kind)] += 1
        print(f"{ends.total()} of {RUNS}: {dict(ends)}", flush=True)

    async with asyncio.TaskGroup() as group:
        for number in range(RUNS):
            group.create_task(one(number))
    await ring.close()
    assert ends.total() == RUNS


def assert_verified_first(run: StepRun, told: list[Any]) -> None:
    turns = [event for event in told if isinstance(event, events.TurnStarted)]
    first = next(event for event in told if isinstance(event, events.TurnEnded))
    (call,) = first.calls
    assert call.name == "verify_fact"
    verify_fact.read(call.arguments)  # raises when they are not what the tool takes
    result = next(event for event in told if isinstance(event, events.CallEnded))
    assert result.failure is None
    assert json.loads(result.text)["verdict"] in ("supported", "unsupported")
    assert [turn.tool_choice for turn in turns] == [NAMED, *["auto"] * (len(turns) - 1)]
    assert len(turns) >= 2
    assert run.outcome is not None
    assert run.outcome.kind in ("answered", "cut", "turns_max", "repeated"), run.outcome


async def test_the_ring_is_the_same_to_every_sdk(cluster: Cluster) -> None:
    openai = OpenAIBackend("smollm2-135m", url=f"{cluster.api}/v1", api_key="any")
    anthropic = AnthropicBackend("smollm2-135m", url=cluster.api, api_key="any")
    bounds = Bounds(turns_max=1, answer_tokens_max=40)

    async def one(backend: Backend, choice: str) -> None:
        step = Step("Is it so?", tools=("verify_fact",), metadata={"tool_choice": choice})
        run, told = await happened(backend, step, bounds)
        first = next(event for event in told if isinstance(event, events.TurnEnded))
        assert bool(first.calls) == (choice != "none"), (backend, choice, first)
        assert run.outcome is not None
        assert run.outcome.kind != "choice_ignored"
        assert first.tokens is not None
        assert first.tokens.prompt > 0

    async with asyncio.TaskGroup() as group:
        for backend in (openai, anthropic):
            for choice in ("verify_fact", "none"):
                group.create_task(one(backend, choice))
    await openai.close()
    await anthropic.close()
