"""The loop's laws, heard and ordered without a clock, a backend or a tool that runs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringleader.agent import events
from ringleader.agent.completions import Completion, Tokens
from ringleader.agent.contracts import build_tool_contracts
from ringleader.agent.loop import INTERRUPTED, Loop, fingerprint, ignored
from ringleader.agent.moves import (
    Abort,
    AskApproval,
    AskModel,
    CallFinished,
    CancelAsked,
    Decided,
    Heard,
    ModelAnswered,
    ModelFailed,
    Order,
    RunCall,
    Started,
    Tell,
    TimeRanOut,
    Wake,
)
from ringleader.agent.outcome import Bounds, Outcome
from ringleader.agent.state import LoopState
from ringleader.agent.steps import Step
from tests.unit.agent.acting import REGISTRY, called, said, step


class Game:
    """A loop, its state and a clock; `hear` plays one move."""

    def __init__(self, of: Step, bounds: Bounds | None = None) -> None:
        _, bound, choice = build_tool_contracts(of.tier, of.tools, of.tool_choice, registry=REGISTRY)
        self.loop = Loop(bound, bounds or Bounds())
        self.state = LoopState(of, choice, of.messages)
        self.now = 100.0
        self.told: list[Any] = []

    def hear(self, heard: Heard, after_s: float = 0.0) -> list[Order]:
        self.now += after_s
        self.state, orders = self.loop.step(self.state, heard, self.now)
        self.told += [order.event for order in orders if isinstance(order, Tell)]
        return [order for order in orders if not isinstance(order, Tell)]

    def start(self) -> AskModel:
        return asked(self.hear(Started()))

    def answer(self, completion: Any) -> list[Order]:
        return self.hear(ModelAnswered(completion))

    def finish(self, *ids: str) -> list[Order]:
        """These calls come back well."""
        orders: list[Order] = []
        for each in ids:
            orders = self.hear(CallFinished(each, "fine"))
        return orders

    @property
    def outcome(self) -> Outcome:
        assert self.state.outcome is not None
        return self.state.outcome

    @property
    def results(self) -> list[str]:
        return [message["content"] for message in self.state.messages if message["role"] == "tool"]


def asked(orders: list[Order]) -> AskModel:
    (found,) = [order for order in orders if isinstance(order, AskModel)]
    return found


def ran(orders: list[Order]) -> list[str]:
    return [order.id for order in orders if isinstance(order, RunCall)]


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        ("look", {"type": "function", "function": {"name": "look"}}),
        ({"type": "tool", "name": "look"}, {"type": "function", "function": {"name": "look"}}),
        ("any", "required"),
        ("required", "required"),
    ],
)
def test_a_forced_choice_holds_for_the_first_turn_and_later_ones_are_auto(choice: Any, wire: Any) -> None:
    game = Game(step(choice))
    assert game.start().tool_choice == wire
    game.answer(called(("look", {"where": "a"})))
    assert asked(game.finish("c0")).tool_choice == "auto"
    game.answer(called(("look", {"where": "b"}), start=1))
    assert asked(game.finish("c1")).tool_choice == "auto"
    game.answer(said("it is there"))
    assert (game.outcome.kind, game.outcome.text, game.outcome.ok) == ("answered", "it is there", True)


def test_the_history_that_the_model_reads_has_each_call_and_its_result() -> None:
    game = Game(step(instructions="Be brief."))
    assert game.start().messages == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "do it"},
    )
    game.answer(called(("look", {"where": "a"}), ("look", {"where": "b"})))
    game.hear(CallFinished("c1", "second"))
    again = asked(game.hear(CallFinished("c0", "first")))
    assert [message.get("tool_call_id") for message in again.messages[-2:]] == ["c0", "c1"]
    assert [message["content"] for message in again.messages[-2:]] == ["first", "second"]
    assert [call["id"] for call in again.messages[-3]["tool_calls"]] == ["c0", "c1"]


def test_parallel_calls_run_at_once_and_the_model_waits_for_all() -> None:
    game = Game(step())
    game.start()
    assert ran(game.answer(called(("look", {"where": "a"}), ("look", {"where": "b"})))) == ["c0", "c1"]
    assert game.finish("c1") == []
    assert asked(game.finish("c0"))


@pytest.mark.parametrize(
    ("call", "failure", "words"),
    [
        (("lokk", {}), "unknown_tool", "There are: look, fail, hang, write, ring_bell"),
        (("look", "{broken"), "bad_arguments", "not JSON"),
        (("look", {"where": 1, "what": 2}), "bad_arguments", "what"),
    ],
)
def test_a_call_that_cannot_run_goes_back_to_the_model_as_an_error(call: Any, failure: str, words: str) -> None:
    game = Game(step())
    game.start()
    again = asked(game.answer(called(call)))
    assert words in again.messages[-1]["content"]
    assert again.messages[-1]["is_error"] is True
    (ended,) = [event for event in game.told if isinstance(event, events.CallEnded)]
    assert ended.failure == failure


def test_a_failed_call_is_marked_for_the_model_and_a_good_one_is_not() -> None:
    game = Game(step())
    game.start()
    game.answer(called(("fail", {"why": "x"}), ("look", {"where": "a"})))
    game.hear(CallFinished("c0", "could not: x", "failed"))
    again = asked(game.finish("c1"))
    assert [message.get("is_error") for message in again.messages[-2:]] == [True, None]


def test_tools_outside_the_steps_set_are_unknown_to_it() -> None:
    game = Game(step(tools=["look"]))
    game.start()
    assert "There are: look." in asked(game.answer(called(("write", {"text": "x"})))).messages[-1]["content"]


def test_ids_that_a_server_uses_again_are_told_apart() -> None:
    game = Game(step())
    game.start()
    game.answer(called(("look", {"where": "a"})))
    game.finish("c0")
    assert ran(game.answer(called(("look", {"where": "b"})))) == ["c0_t2"]
    game.hear(CallFinished("c0", "of the turn before"))
    again = asked(game.hear(CallFinished("c0_t2", "now")))
    assert [message["tool_call_id"] for message in again.messages if message["role"] == "tool"] == ["c0", "c0_t2"]


def test_an_answer_of_nothing_is_told_as_such_and_not_as_earlier_words() -> None:
    game = Game(step())
    game.start()
    game.answer(dataclasses.replace(called(("look", {"where": "a"})), content="let me see"))
    game.finish("c0")
    game.answer(said(""))
    assert (game.outcome.text, game.outcome.message) == ("", "answered, with an empty text")


# ---------------------------------------------------------------- bounds


def test_a_model_that_always_calls_ends_at_the_bound_on_turns() -> None:
    game = Game(step(), Bounds(turns_max=3))
    game.start()
    for turn in range(3):
        game.answer(called(("look", {"where": str(turn)}), start=turn))
        game.finish(f"c{turn}")
    assert game.outcome.kind == "turns_max"
    assert "3 turns" in game.outcome.message
    assert len(game.results) == 3
    assert not game.outcome.ok


def test_calls_over_the_bound_are_not_run_and_the_step_ends() -> None:
    game = Game(step(), Bounds(calls_max=1))
    game.start()
    assert ran(game.answer(called(("look", {"where": "a"}), ("look", {"where": "b"})))) == ["c0"]
    game.finish("c0")
    assert game.outcome.kind == "calls_max"
    assert game.results == ["fine", "not run: the limit of 1 tool calls is reached"]


def test_the_bound_on_tokens_ends_the_step_and_limits_each_answer() -> None:
    game = Game(step(), Bounds(tokens_max=40, answer_tokens_max=30))
    assert game.start().max_tokens == 30
    game.answer(called(("look", {"where": "a"})))
    assert asked(game.finish("c0")).max_tokens == 25
    game.answer(called(("look", {"where": "b"}), tokens=Tokens(20, 5), start=1))
    game.finish("c1")
    assert game.outcome.kind == "tokens_max"
    assert game.state.tokens == Tokens(30, 10)


def test_wall_time_ends_a_turn_and_a_call_and_leaves_no_call_open() -> None:
    game = Game(step(), Bounds(wall_s=10))
    assert Wake(10) in game.hear(Started())
    assert Wake(6) in game.hear(ModelAnswered(called(("look", {"where": "a"}))), after_s=4)
    assert Abort() in game.hear(TimeRanOut(), after_s=6)
    assert game.outcome.kind == "wall_max"
    assert game.results == [INTERRUPTED]


def test_a_timer_that_comes_too_early_is_set_again() -> None:
    game = Game(step(), Bounds(wall_s=10))
    game.start()
    assert game.hear(TimeRanOut(), after_s=4) == [Wake(6)]


def test_a_backend_without_counts_is_warned_of_once() -> None:
    game = Game(step())
    game.start()
    game.answer(called(("look", {"where": "a"}), tokens=None))
    game.finish("c0")
    game.answer(called(("look", {"where": "b"}), tokens=None, start=1))
    assert len([event for event in game.told if isinstance(event, events.Warned)]) == 1


@pytest.mark.parametrize(("finish", "kind"), [("length", "cut"), ("content_filter", "filtered")])
def test_an_answer_that_is_not_whole_is_no_good_end(finish: str, kind: str) -> None:
    game = Game(step())
    game.start()
    game.answer(said("half", finish))
    assert (game.outcome.kind, game.outcome.text, game.outcome.ok) == (kind, "half", False)


@pytest.mark.parametrize(
    ("bounds", "written", "kind", "words"),
    [
        (Bounds(answer_tokens_max=30), 30, "cut", "cut at 30 tokens, the bound on one turn (answer_tokens_max)"),
        (Bounds(answer_tokens_max=30), 7, "cut", "cut at 7 tokens by the model's own limit"),
        (Bounds(answer_tokens_max=30), None, "cut", "cut at 30 tokens, the bound on one turn"),
        (Bounds(tokens_max=20), 20, "tokens_max", "cut at the 20 tokens that were left (tokens_max is 20)"),
    ],
)
def test_a_cut_answer_says_by_which_bound_and_its_turn_is_asked_for_again(
    bounds: Bounds, written: int | None, kind: str, words: str
) -> None:
    game = Game(step(), bounds)
    game.start()
    game.answer(Completion("half", (), "length", None if written is None else Tokens(0, written)))
    assert (game.outcome.kind, game.outcome.text) == (kind, "half")
    assert words in game.outcome.message
    assert game.told[-1].turns == 1
    game.loop = Loop(tuple(REGISTRY), Bounds())
    again = game.start()
    assert (len(again.messages), game.state.turn) == (1, 1)


def test_a_call_that_broke_off_at_the_bound_is_told_as_such_to_the_model_and_to_people() -> None:
    game = Game(step(), Bounds(answer_tokens_max=30))
    game.start()
    broken = Completion("", called(("look", '{"whe')).calls, "length", Tokens(1, 30))
    (again,) = (order for order in game.answer(broken) if isinstance(order, AskModel))
    assert "Your turn was cut at 30 tokens" in again.messages[-1]["content"]
    (warned,) = (event for event in game.told if isinstance(event, events.Warned))
    assert warned.text == "turn 1 was cut at 30 tokens, the bound on one turn (answer_tokens_max)"


# ---------------------------------------------------------------- repeats


def test_equal_calls_are_told_to_the_model_and_end_the_step_when_they_go_on() -> None:
    game = Game(step(), Bounds(calls_alike_max=2))
    game.start()
    game.answer(called(("look", {"where": "a"})))
    game.finish("c0")
    game.answer(called(("look", '{ "where":"a"}'), start=1))
    game.finish("c1")
    assert game.results == [
        "fine",
        "[You have made this same call once before. Use its result, or go another way.]\nfine",
    ]
    assert ran(game.answer(called(("look", {"where": "a"}), start=2))) == []
    assert game.outcome.kind == "repeated"
    assert "not run" in game.results[-1]


def test_equal_calls_are_equal_however_their_json_is_written() -> None:
    one, two, three = called(("look", '{"a": 1, "b": 2}'), ("look", '{"b":2,"a":1}'), ("look", '{"a": 1}')).calls
    assert fingerprint(one) == fingerprint(two) != fingerprint(three)


# ---------------------------------------------------------------- a choice that was not kept


@pytest.mark.parametrize(
    ("choice", "turn"),
    [
        ("look", said()),
        ("look", called(("fail", {"why": "x"}))),
        ("required", said()),
        ("none", called(("look", {"where": "a"}))),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"name": "look"}]}, called(("fail", {"why": "x"}))),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"name": "look"}]}, said()),
    ],
)
def test_a_first_turn_against_the_choice_ends_the_step_and_runs_nothing(choice: Any, turn: Any) -> None:
    game = Game(step(choice))
    game.start()
    assert ran(game.answer(turn)) == []
    assert game.outcome.kind == "choice_ignored"
    assert not game.outcome.ok
    assert all("not run" in result for result in game.results)


def test_a_forced_turn_that_was_cut_says_why_there_is_no_call() -> None:
    choice = {"type": "function", "function": {"name": "look"}}
    assert "cut at the bound" in ignored(choice, said("", "length"))


def test_none_forbids_calls_in_the_first_turn_and_text_ends_the_step() -> None:
    game = Game(step("none"))
    assert game.start().tool_choice == "none"
    game.answer(said("no tools needed"))
    assert game.outcome.ok


# ---------------------------------------------------------------- approval


def test_a_call_whose_tool_is_gone_when_somebody_allows_it_is_told_as_such() -> None:
    game = Game(step())
    game.start()
    game.answer(called(("ring_bell", {})))
    game.loop = Loop((), Bounds())
    again = asked(game.hear(Decided({"c0": True})))
    assert again.messages[-1]["content"] == "there is no tool named 'ring_bell'. There are: none."


def test_a_call_that_writes_waits_for_a_yes_and_the_clock_stands_still() -> None:
    game = Game(step(), Bounds(wall_s=10))
    game.start()
    orders = game.hear(ModelAnswered(called(("write", {"text": "x"}), ("look", {"where": "a"}))), after_s=3)
    (approval,) = [order for order in orders if isinstance(order, AskApproval)]
    assert [call.name for call in approval.calls] == ["write"]
    assert ran(orders) == []
    assert game.hear(TimeRanOut(), after_s=1000) == []
    orders = game.hear(Decided({"c0": True}), after_s=1000)
    assert ran(orders) == ["c0", "c1"]
    assert Wake(7) in orders


def test_a_no_goes_to_the_model_with_its_reason() -> None:
    game = Game(step())
    game.start()
    game.answer(called(("write", {"text": "x"})))
    again = asked(game.hear(Decided({}, "not today")))
    assert "not allowed: not today" in again.messages[-1]["content"]
    assert again.messages[-1]["is_error"] is True


def test_once_asks_once_and_always_asks_again() -> None:
    game = Game(step())
    game.start()
    game.answer(called(("ring_bell", {}), ("write", {"text": "x"})))
    game.hear(Decided({"c0": True, "c1": True}))
    game.finish("c0", "c1")
    orders = game.answer(called(("ring_bell", {}), ("write", {"text": "y"}), start=2))
    (approval,) = [order for order in orders if isinstance(order, AskApproval)]
    assert [call.name for call in approval.calls] == ["write"]


# ---------------------------------------------------------------- ends, and going on


def test_cancelling_ends_the_turn_and_the_same_turn_is_asked_again_later() -> None:
    game = Game(step("look"))
    game.start()
    assert Abort() in game.hear(CancelAsked())
    assert game.outcome.kind == "cancelled"
    assert game.start().tool_choice == {"type": "function", "function": {"name": "look"}}
    assert game.state.turn == 1


def test_a_backend_that_fails_ends_the_step_with_its_words_and_the_turn_can_be_asked_again() -> None:
    game = Game(step("look"))
    game.start()
    game.hear(ModelFailed("backend_busy", "too many"))
    assert (game.outcome.kind, game.outcome.code, game.outcome.message) == (
        "backend_failed",
        "backend_busy",
        "too many",
    )
    assert game.start().tool_choice == {"type": "function", "function": {"name": "look"}}


def test_a_step_that_ended_at_a_bound_goes_on_with_a_wider_one() -> None:
    game = Game(step(), Bounds(turns_max=1))
    game.start()
    game.answer(called(("look", {"where": "a"})))
    game.finish("c0")
    assert game.outcome.kind == "turns_max"
    game.loop = Loop([REGISTRY["look"]], Bounds(turns_max=2))
    assert game.start().tool_choice == "auto"
    game.answer(said())
    assert game.outcome.ok


def test_an_answered_step_does_not_begin_again() -> None:
    game = Game(step())
    game.start()
    game.answer(said("done"))
    assert game.hear(Started()) == []
    assert game.outcome.text == "done"


def test_what_comes_too_late_changes_nothing() -> None:
    game = Game(step())
    game.start()
    game.hear(CancelAsked())
    ended = game.state
    for late in (ModelAnswered(said()), ModelFailed("x", "y"), CallFinished("c0", "z"), Decided({}), TimeRanOut()):
        assert game.hear(late) == []
        assert game.state == ended


MOVES = st.lists(
    st.one_of(
        st.just("answer"),
        st.lists(st.sampled_from(["look", "fail", "write", "ring_bell", "nobody"]), min_size=1, max_size=3),
        st.sampled_from(["finish", "fail", "allow", "deny", "cancel", "time", "start", "broken"]),
    ),
    max_size=40,
)


@given(MOVES, st.sampled_from(["auto", "look", "any", "none"]))
def test_whatever_happens_no_bound_is_passed_and_no_ended_history_has_an_open_call(moves: Any, choice: str) -> None:
    game = Game(step(choice), Bounds(turns_max=4, calls_max=5, wall_s=50, tokens_max=200))
    game.hear(Started())
    for number, move in enumerate(moves):
        play(game, move, number)
        state = game.state
        assert state.turn <= 4
        assert sum(call.standing == "running" for call in state.calls) <= 5
        if state.phase == "ended":
            assert state.outcome is not None
            assert open_calls(state) == []
    choices = [event.tool_choice for event in game.told if isinstance(event, events.TurnStarted) and event.turn > 1]
    assert set(choices) <= {"auto"}


def play(game: Game, move: Any, number: int) -> None:
    open_ids = [call.call.id for call in game.state.calls if call.standing == "running"]
    asked_ids = {call.call.id: move == "allow" for call in game.state.calls if call.standing == "asked"}
    if isinstance(move, list):
        arguments: dict[str, Any] = {"look": {"where": "a"}, "fail": {"why": "b"}, "write": {"text": "c"}}
        game.answer(called(*((name, arguments.get(name, {})) for name in move), start=number * 10))
    elif move in ("finish", "fail"):
        for each in open_ids[:1]:
            game.hear(CallFinished(each, move, "failed" if move == "fail" else None), after_s=1)
    elif move in ("allow", "deny"):
        game.hear(Decided(asked_ids), after_s=1)
    else:
        heard: dict[str, Heard] = {
            "answer": ModelAnswered(said()),
            "cancel": CancelAsked(),
            "time": TimeRanOut(),
            "start": Started(),
            "broken": ModelFailed("x", "y"),
        }
        if move != "start" or game.state.phase == "ended":
            game.hear(heard[move], after_s=1)


def open_calls(state: LoopState) -> list[str]:
    made = [call["id"] for message in state.messages for call in message.get("tool_calls", [])]
    answered = [message["tool_call_id"] for message in state.messages if message["role"] == "tool"]
    return [each for each in made if made.count(each) != answered.count(each)]


def test_a_state_is_never_changed_in_place() -> None:
    game = Game(step())
    before = dataclasses.replace(game.state)
    first = game.state
    game.start()
    assert first == before
