"""A step driven to its end by a scripted backend and real tools: concurrency, faults, rest, cancelling, going on."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from ringleader.agent import events
from ringleader.agent.backends.faults import BackendBusy
from ringleader.agent.contracts import Registry, tool
from ringleader.agent.loop import INTERRUPTED
from ringleader.agent.outcome import Bounds
from ringleader.agent.runner import StepRun
from ringleader.agent.state import restore
from ringleader.errors import BadRequest, ContractFault
from tests.unit.agent.acting import REGISTRY, Scripted, called, said, step

NAMED = {"type": "function", "function": {"name": "look"}}


def run_of(backend: Any, of: Any = None, **options: Any) -> StepRun:
    return StepRun(of or step(), backend, registry=REGISTRY, **options)


async def all_events(run: StepRun) -> list[Any]:
    async with asyncio.timeout(10):
        return [event async for event in run.events()]


async def test_a_step_calls_reads_and_answers_and_tells_of_each_move() -> None:
    backend = Scripted(called(("look", {"where": "a"})), said("it is there"))
    run = run_of(backend, step("look", tools=["look"]))
    told = await all_events(run)
    assert [type(event).__name__ for event in told] == [
        *("StepStarted", "TurnStarted", "TextCame", "TurnEnded", "CallStarted", "CallEnded"),
        *("TurnStarted", "TextCame", "TextCame", "TextCame", "TurnEnded", "StepEnded"),
    ]
    assert [asked["tool_choice"] for asked in backend.asked] == [NAMED, "auto"]
    assert [tool["function"]["name"] for tool in backend.asked[1]["tools"]] == ["look"]
    assert backend.asked[1]["messages"][-1]["content"] == "seen a"
    assert told[-1].outcome == run.outcome
    assert run.outcome is not None
    assert run.outcome.text == "it is there"
    for event in told:
        json.dumps(events.as_json(event))


async def test_parallel_calls_run_at_the_same_time() -> None:
    both, met = asyncio.Event(), []

    @tool(tier=0)
    async def meet(who: str) -> str:
        """Waits for the other."""
        met.append(who)
        if len(met) == 2:
            both.set()
        await both.wait()
        return "met"

    backend = Scripted(called(("meet", {"who": "a"}), ("meet", {"who": "b"})), said())
    await all_events(StepRun(step(), backend, registry=Registry([meet])))
    assert sorted(met) == ["a", "b"]


async def test_errors_and_timeouts_of_tools_go_back_to_the_model() -> None:
    backend = Scripted(called(("fail", {"why": "rain"}), ("hang", {}), ("nobody", {})), said("I see"))
    run = run_of(backend)
    await all_events(run)
    results = [m["content"] for m in backend.asked[1]["messages"] if m["role"] == "tool"]
    assert "could not: rain" in results[0]
    assert "given up after" in results[1]
    assert "no tool named 'nobody'" in results[2]
    assert run.outcome is not None
    assert run.outcome.ok


async def test_a_backend_that_always_calls_ends_at_the_bound_with_a_clear_result() -> None:
    backend = Scripted(*(called(("look", {"where": str(n)}), start=n) for n in range(99)))
    run = run_of(backend, step("look"), bounds=Bounds(turns_max=5))
    await all_events(run)
    assert run.outcome is not None
    assert run.outcome.kind == "turns_max"
    assert run.outcome.message == "stopped after 5 turns (turns_max): the model was still calling tools"
    assert len(backend.asked) == 5


async def test_wall_time_cancels_the_turn_that_hangs() -> None:
    backend = Scripted(asyncio.Event())
    run = run_of(backend, bounds=Bounds(wall_s=0.05))
    await all_events(run)
    assert run.outcome is not None
    assert run.outcome.kind == "wall_max"
    assert backend.cancelled


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (BackendBusy("slow down"), "backend_busy"),
        (KeyError("a bug"), "internal_error"),
        ({"content": 7}, "backend_garbled"),
        ({"tool_calls": [{"function": {}}]}, "backend_garbled"),
    ],
)
async def test_a_backend_that_fails_ends_the_step_in_order(broken: Any, code: str) -> None:
    run = run_of(Scripted(broken))
    told = await all_events(run)
    assert run.outcome is not None
    assert (run.outcome.kind, run.outcome.code) == ("backend_failed", code)
    assert isinstance(told[-1], events.StepEnded)


async def test_a_forced_tool_that_is_not_in_the_steps_set_fails_before_anything_is_asked() -> None:
    backend = Scripted(said())
    with pytest.raises(ContractFault, match=r"write.*look"):
        run_of(backend, step("write", tools=["look"]))
    with pytest.raises(ValueError, match="tier"):
        run_of(backend, step("write", tools=["look", "write"], tier=0))
    assert backend.asked == []


async def test_without_a_backend_a_step_cannot_be_made() -> None:
    with pytest.raises(BadRequest, match="AGENTIC_EK_PROVIDER"):
        StepRun(step(), None, registry=REGISTRY)


# ---------------------------------------------------------------- approval


async def test_who_approves_is_asked_and_a_no_reaches_the_model() -> None:
    asked: list[Any] = []

    async def approve(calls: Any) -> dict[str, bool]:
        asked.append([call.name for call in calls])
        return {"c0": True, "c1": False}

    backend = Scripted(called(("write", {"text": "a"}), ("write", {"text": "b"})), said())
    await all_events(run_of(backend, approve=approve))
    assert asked == [["write", "write"]]
    results = [m["content"] for m in backend.asked[1]["messages"] if m["role"] == "tool"]
    assert results[0] == "wrote a"
    assert "not allowed" in results[1]


async def test_without_anybody_to_ask_a_step_rests_and_goes_on_from_its_saved_state() -> None:
    first = run_of(Scripted(called(("write", {"text": "a"}))), step("write"))
    told = await all_events(first)
    assert first.resting
    assert first.outcome is None
    assert isinstance(told[-1], events.StepEnded)
    assert told[-1].outcome is None
    state = restore(json.loads(json.dumps(first.saved)))

    async def approve(calls: Any) -> dict[str, bool]:
        return {call.id: True for call in calls}

    backend = Scripted(said("written"))
    second = run_of(backend, state, approve=approve)
    await all_events(second)
    assert [asked["tool_choice"] for asked in backend.asked] == ["auto"]
    assert backend.asked[0]["messages"][-1]["content"] == "wrote a"
    assert second.outcome is not None
    assert second.outcome.text == "written"
    assert second.state.calls_made == 1


async def test_whoever_cannot_be_asked_has_said_no() -> None:
    async def approve(calls: Any) -> dict[str, bool]:
        raise EOFError

    backend = Scripted(called(("write", {"text": "a"})), said())
    run = run_of(backend, approve=approve)
    await all_events(run)
    assert "nobody could be asked" in backend.asked[1]["messages"][-1]["content"]
    assert run.outcome is not None
    assert run.outcome.ok


# ---------------------------------------------------------------- cancelling, and going on


async def test_cancel_ends_a_turn_in_order_and_the_state_goes_on() -> None:
    backend = Scripted(asyncio.Event())
    run = run_of(backend, step("look"))
    task = asyncio.create_task(all_events(run))
    await backend.waiting.wait()
    run.cancel()
    await task
    assert run.outcome is not None
    assert run.outcome.kind == "cancelled"
    assert backend.cancelled
    later = Scripted(called(("look", {"where": "a"})), said())
    again = run_of(later, restore(run.saved))
    await all_events(again)
    assert later.asked[0]["tool_choice"] == NAMED
    assert again.outcome is not None
    assert again.outcome.ok


async def test_leaving_the_events_early_ends_what_runs() -> None:
    backend = Scripted(asyncio.Event())
    run = run_of(backend)
    async for event in run.events():
        if isinstance(event, events.TurnStarted):
            await backend.waiting.wait()
            break
    async with asyncio.timeout(5):
        while run.outcome is None:  # noqa: ASYNC110 - the generator is closed by the event loop, soon
            await asyncio.sleep(0)
    assert backend.cancelled
    assert run.outcome.kind == "cancelled"


async def test_a_process_that_dies_under_a_call_goes_on_with_a_call_of_unknown_effect() -> None:
    kept: list[Any] = []
    stuck = asyncio.Event()

    @tool(tier=0)
    async def slow() -> str:
        """Slow."""
        stuck.set()
        await asyncio.Event().wait()
        return ""

    registry = Registry([slow])
    run = StepRun(step(), Scripted(called(("slow", {}))), registry=registry, keep=kept.append)
    task = asyncio.create_task(run.drive())
    await stuck.wait()
    died = json.loads(json.dumps(kept[-1]))  # what is on disk at this moment
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    backend = Scripted(said())
    again = StepRun(restore(died), backend, registry=registry)
    await all_events(again)
    assert backend.asked[0]["messages"][-1]["content"] == INTERRUPTED


async def test_a_slow_watcher_holds_the_step_up_and_loses_nothing() -> None:
    backend = Scripted(said(" ".join("x" * 1000)))
    run = run_of(backend)
    seen = 0
    async for event in run.events():
        seen += isinstance(event, events.TextCame)
        await asyncio.sleep(0)
    assert seen == 1000


# ---------------------------------------------------------------- a provider that takes no choice


async def test_a_choice_that_cannot_be_passed_on_is_warned_of_once_and_left_to_the_model(
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend = Scripted(called(("write", {"text": "a"})), said("done"), supports_tool_choice=False)

    async def approve(calls: Any) -> dict[str, bool]:
        return {call.id: True for call in calls}

    with caplog.at_level(logging.WARNING):
        run = run_of(backend, step("look", name="check"), approve=approve)
        told = await all_events(run)
    warnings = [record.getMessage() for record in caplog.records if "tool_choice" in record.getMessage()]
    assert len(warnings) == 1
    assert "'check'" in warnings[0]
    assert "'look'" in warnings[0]
    assert [event.text for event in told if isinstance(event, events.Warned)] == warnings
    assert [asked["tool_choice"] for asked in backend.asked] == ["auto", "auto"]
    assert run.outcome is not None
    assert run.outcome.ok


async def test_a_saved_step_that_goes_on_with_such_a_provider_is_warned_of_too() -> None:
    stopped = run_of(Scripted(BackendBusy("slow down")), step("look"))
    await all_events(stopped)
    backend = Scripted(said("done"), supports_tool_choice=False)
    run = run_of(backend, restore(stopped.saved))
    told = await all_events(run)
    assert [event.text for event in told if isinstance(event, events.Warned)]
    assert run.outcome is not None
    assert run.outcome.ok
