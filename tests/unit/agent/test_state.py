"""A step's state as JSON: whatever it has come to, it comes back the same."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from ringleader.agent.completions import Call, Tokens
from ringleader.agent.outcome import Bounds, Outcome
from ringleader.agent.state import CallState, LoopState, restore, save
from ringleader.agent.steps import Step
from ringleader.errors import BadRequest

CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "a", "arguments": "{}"}}],
}
FULL = LoopState(
    Step("do ☀", "check", "checker", 2, ("a", "b"), {"tool_choice": {"type": "tool", "name": "a"}, "x": [1, None]}),
    {"type": "function", "function": {"name": "a"}},
    ({"role": "user", "content": "do ☀"}, CALLED),
    phase="deciding",
    turn=3,
    calls_made=4,
    tokens=Tokens(10, 20),
    used_s=1.5,
    calls=(
        CallState(Call("c", "a", "{}"), "asked", note="[again]\n"),
        CallState(Call("d", "b", "{"), "done", "", "no", "x"),
    ),
    alike={"0f": 2},
    permitted=("b",),
    outcome=Outcome("backend_failed", "half", "why", "code"),
)


def test_a_state_comes_back_from_json_as_it_was() -> None:
    assert restore(json.loads(json.dumps(save(FULL, 0.0)))) == FULL


def test_the_clock_of_another_process_does_not_go_on() -> None:
    running = dataclasses.replace(FULL, since=100.0)
    assert restore(save(running, 107.0)) == dataclasses.replace(FULL, used_s=8.5, since=None)


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 2},
        {"turn": "many"},
        {"phase": "flying"},
        {"step": None},
        {"calls": [1]},
        {"messages": []},
        {"messages": ["x"]},
        {"messages": [{"content": "x"}]},
        {"messages": [{"role": "user", "content": 5}]},
        {"messages": [CALLED | {"tool_calls": [{"id": "c"}]}]},
        {"messages": [CALLED | {"tool_calls": None}]},
    ],
)
def test_a_damaged_state_is_refused_with_the_place(damage: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match=r"saved state"):
        restore({**save(FULL, 0.0), **damage})


def test_an_end_is_good_only_when_there_is_an_answer() -> None:
    assert Outcome("answered", "x", "").ok
    assert not Outcome("cut", "x", "").ok


@pytest.mark.parametrize("field", ["turns_max", "tokens_max", "wall_s", "answer_tokens_max", "calls_alike_max"])
def test_a_bound_of_nothing_is_refused_by_its_name(field: str) -> None:
    with pytest.raises(BadRequest, match=field):
        Bounds(**{field: 0})
    for value in (float("nan"), float("inf")):
        with pytest.raises(BadRequest, match=field):
            Bounds(**{field: value})
    with pytest.raises(BadRequest, match="calls_max"):
        Bounds(calls_max=-1)


def test_a_step_says_what_it_is_missing() -> None:
    with pytest.raises(BadRequest, match="empty prompt"):
        Step("  ")
    with pytest.raises(BadRequest, match="tier"):
        Step("x", tier=-1)
    with pytest.raises(BadRequest, match="the prompt of a step holds half a character"):
        Step("x \udcff")
    with pytest.raises(BadRequest, match="the role of a step holds half a character"):
        Step("x", role="\ud800")
