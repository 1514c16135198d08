"""The loop of one step, as a pure method: what it hears becomes a new state and orders. It does nothing itself.

Its laws: the choice of tools holds for the first turn and every later one is auto; whatever a call comes to goes
back to the model as its result; every end leaves a history without an open call; no bound is passed.

    new -> asking <-> calling        asking -> ended: answered, or a bound, or a fault
             ^  \\-> deciding -> calling, once somebody has said yes or no
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import assert_never

from ringleader.agent import events
from ringleader.agent.arguments import BadArguments
from ringleader.agent.completions import Call, Completion, Tokens
from ringleader.agent.contracts import ToolContract
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
from ringleader.agent.outcome import RESUMABLE, Bounds, Outcome, OutcomeKind
from ringleader.agent.state import CallState, LoopState
from ringleader.values import Json

Stepped = tuple[LoopState, tuple[Order, ...]]

INTERRUPTED = "this call was interrupted; whether it has taken effect is not known"


class Loop:
    """`tools` are the bound ones of the step; `bounds` may be wider than those that a saved state ended by."""

    def __init__(self, tools: Sequence[ToolContract], bounds: Bounds) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._bounds = bounds

    def step(self, state: LoopState, heard: Heard, now: float) -> Stepped:
        """The state after `heard` and what is to be done about it. `now` is in seconds, by a clock that only grows."""
        match heard:
            case Started():
                return self._started(state, now)
            case CancelAsked():
                return self._stopped(state, "cancelled", "cancelled", now)
            case TimeRanOut():
                return self._time_ran_out(state, now)
            case ModelAnswered(completion) if state.phase == "asking":
                return self._answered(state, completion, now)
            case ModelFailed(code, message) if state.phase == "asking":
                unasked = dataclasses.replace(state, turn=state.turn - 1)
                return self._ended(unasked, "backend_failed", message, now, code=code)
            case Decided() if state.phase == "deciding":
                return self._decided(state, heard, now)
            case CallFinished() if state.phase == "calling":
                return self._call_finished(state, heard, now)
            case ModelAnswered() | ModelFailed() | Decided() | CallFinished():
                return state, ()  # it comes too late: the step has gone on without it
            case _:
                assert_never(heard)

    # ------------------------------------------------------------ beginning, and going on

    def _started(self, state: LoopState, now: float) -> Stepped:
        told = Tell(
            events.StepStarted(
                state.step.name, state.step.role, state.step.tier, tuple(self._tools), state.choice, state.turn
            )
        )
        if state.phase == "ended" and (state.outcome is None or state.outcome.kind not in RESUMABLE):
            return state, (told, Tell(self._ending(state, now)))
        running = dataclasses.replace(state, since=now, outcome=None)
        if state.phase == "deciding":
            after, orders = self._ask_somebody(running, now)
        elif state.phase == "calling":  # the process died under its calls
            after, orders = self._called(self._interrupted(running), now)
        elif state.phase == "asking":  # it died under the model's turn, which is asked for again
            after, orders = self._ask(dataclasses.replace(running, turn=state.turn - 1), now)
        else:
            after, orders = self._ask(_uncut(dataclasses.replace(running, alike={})), now)
        return after, (told, *orders)

    def _ask(self, state: LoopState, now: float) -> Stepped:
        bounds = self._bounds
        left_s = bounds.wall_s - state.elapsed_s(now)
        if state.turn >= bounds.turns_max:
            message = f"stopped after {state.turn} turns (turns_max): the model was still calling tools"
            return self._ended(state, "turns_max", message, now)
        if self._left_tokens(state) <= 0:
            message = f"stopped at {state.tokens.total:,} tokens (tokens_max is {bounds.tokens_max:,})"
            return self._ended(state, "tokens_max", message, now)
        if left_s <= 0:
            return self._ended(state, "wall_max", self._out_of_time(), now)
        asking = dataclasses.replace(state, phase="asking", turn=state.turn + 1, calls=())
        choice = state.choice if asking.turn == 1 else "auto"
        orders = (
            Tell(events.TurnStarted(asking.turn, choice)),
            Wake(left_s),
            AskModel(state.messages, choice, min(bounds.answer_tokens_max, self._left_tokens(state))),
        )
        return asking, orders

    def _left_tokens(self, state: LoopState) -> int:
        return self._bounds.tokens_max - state.tokens.total

    # ------------------------------------------------------------ a turn of the model

    def _answered(self, state: LoopState, given: Completion, now: float) -> Stepped:
        completion = dataclasses.replace(given, calls=distinct(given.calls, state))
        cost = completion.tokens or Tokens()
        ended = events.TurnEnded(
            state.turn, completion.content, completion.calls, completion.finish, completion.tokens, completion.model
        )
        told: list[Order] = [Tell(ended)]
        if completion.tokens is None and state.turn == 1:
            told.append(Tell(events.Warned("the backend tells no token counts, so tokens_max cannot be kept")))
        heard = dataclasses.replace(
            state, tokens=state.tokens + cost, messages=(*state.messages, completion.as_message())
        )
        fault = ignored(state.choice, completion) if state.turn == 1 else ""
        by, cut = self._cut(state, completion) if completion.finish == "length" else ("cut", "")
        if fault:
            closed = self._closed(self._noted(heard, completion.calls), "this call was not asked for, and not run")
            after, orders = self._ended(closed, "choice_ignored", fault, now)
        elif completion.calls:
            if cut:
                told.append(Tell(events.Warned(f"turn {state.turn} was cut {cut}")))
            after, orders = self._calls(heard, completion.calls, now, cut)
        elif cut:
            after, orders = self._ended(heard, by, f"the answer was cut {cut}", now)
        elif completion.finish == "content_filter":
            after, orders = self._ended(heard, "filtered", "the provider withheld the answer (content_filter)", now)
        else:
            message = "answered" if completion.content.strip() else "answered, with an empty text"
            after, orders = self._ended(heard, "answered", message, now)
        return after, (*told, *orders)

    def _cut(self, before: LoopState, completion: Completion) -> tuple[OutcomeKind, str]:
        """By which bound a turn was cut, and the words for it."""
        most, left = self._bounds.answer_tokens_max, self._left_tokens(before)
        written = completion.tokens.completion if completion.tokens else None
        if written is not None and written < min(most, left):
            return "cut", f"at {written:,} tokens by the model's own limit (answer_tokens_max is {most:,})"
        if left < most:
            return "tokens_max", f"at the {left:,} tokens that were left (tokens_max is {self._bounds.tokens_max:,})"
        return "cut", f"at {most:,} tokens, the bound on one turn (answer_tokens_max)"

    def _noted(self, state: LoopState, calls: Sequence[Call]) -> LoopState:
        return dataclasses.replace(state, calls=tuple(CallState(call, "ready") for call in calls))

    def _calls(self, state: LoopState, calls: Sequence[Call], now: float, cut: str) -> Stepped:
        """Each call gets its standing: done at once where it cannot run, asked where somebody must allow it.

        `cut` says where the turn was cut, if it was: the model is told with what became of the call that broke off.
        """
        alike = dict(state.alike)
        judged = []
        for number, call in enumerate(calls, state.calls_made + 1):
            mark = fingerprint(call)
            alike[mark] = alike.get(mark, 0) + 1
            seen = self._judged(state, call, number, alike[mark])
            if cut and seen.failure == "bad_arguments":
                seen = seen.done(f"{seen.result} Your turn was cut {cut}: write less at once.", seen.failure)
            judged.append(seen)
        asked = any(call.standing == "asked" for call in judged)
        counted = dataclasses.replace(
            state, calls=tuple(judged), calls_made=state.calls_made + len(calls), alike=alike, phase="calling"
        )
        refused = tuple(Tell(_call_ended(call)) for call in judged if call.standing == "done")
        after, orders = self._ask_somebody(counted, now) if asked else self._run(counted, now)
        return after, (*refused, *orders)

    def _judged(self, state: LoopState, call: Call, number: int, times: int) -> CallState:
        seen = CallState(call, "ready")
        if number > self._bounds.calls_max:
            return seen.done(f"not run: the limit of {self._bounds.calls_max} tool calls is reached", "limit")
        if times > self._bounds.calls_alike_max:
            return seen.done(f"not run: this same call was made {_often(times - 1)} before", "repeated")
        tool = self._tools.get(call.name)
        if tool is None:
            return seen.done(self._unknown(call.name), "unknown_tool")
        try:
            tool.read(call.arguments)
        except BadArguments as wrong:
            return seen.done(str(wrong), "bad_arguments")
        if times > 1:
            note = f"[You have made this same call {_often(times - 1)} before. Use its result, or go another way.]\n"
            seen = dataclasses.replace(seen, note=note)
        asks = tool.approval == "always" or (tool.approval == "once" and call.name not in state.permitted)
        return dataclasses.replace(seen, standing="asked") if asks else seen

    def _unknown(self, name: str) -> str:
        return f"there is no tool named {name[:100]!r}. There are: {', '.join(self._tools) or 'none'}."

    # ------------------------------------------------------------ approval

    def _ask_somebody(self, state: LoopState, now: float) -> Stepped:
        asked = tuple(call.call for call in state.calls if call.standing == "asked")
        waiting = dataclasses.replace(state.resting(now), phase="deciding")
        return waiting, (Tell(events.ApprovalWanted(asked)), AskApproval(asked))

    def _decided(self, state: LoopState, decided: Decided, now: float) -> Stepped:
        """What nobody said yes to is a no."""
        why = f": {decided.reason}" if decided.reason else ""
        calls, permitted, told = [], list(state.permitted), []
        for each in state.calls:
            if each.standing != "asked":
                calls.append(each)
            elif each.call.name not in self._tools:  # the step goes on without a tool that it had when it came to rest
                calls.append(each.done(self._unknown(each.call.name), "unknown_tool"))
                told.append(Tell(_call_ended(calls[-1])))
            elif decided.allowed.get(each.call.id):
                calls.append(dataclasses.replace(each, standing="ready"))
                permitted.append(each.call.name)
            else:
                calls.append(each.done(f"this call was not allowed{why}. Go on without it.", "denied"))
                told.append(Tell(_call_ended(calls[-1])))
        running = dataclasses.replace(
            state, calls=tuple(calls), permitted=tuple(dict.fromkeys(permitted)), phase="calling", since=now
        )
        after, orders = self._run(running, now)
        return after, (*told, *orders)

    # ------------------------------------------------------------ calls

    def _run(self, state: LoopState, now: float) -> Stepped:
        ready = [each.call for each in state.calls if each.standing == "ready"]
        if not ready:
            return self._called(state, now)
        calls = tuple(
            dataclasses.replace(each, standing="running") if each.standing == "ready" else each for each in state.calls
        )
        orders: list[Order] = [Wake(self._bounds.wall_s - state.elapsed_s(now))]
        for call in ready:
            orders += [
                Tell(events.CallStarted(call.id, call.name, call.arguments)),
                RunCall(call.id, call.name, call.arguments),
            ]
        return dataclasses.replace(state, calls=calls), tuple(orders)

    def _call_finished(self, state: LoopState, finished: CallFinished, now: float) -> Stepped:
        calls, told = [], []
        for each in state.calls:
            if each.call.id == finished.id and each.standing == "running":
                each = each.done(finished.text, finished.failure)
                told.append(Tell(_call_ended(each, finished.took_s)))
            calls.append(each)
        after = dataclasses.replace(state, calls=tuple(calls))
        if any(each.standing == "running" for each in calls):
            return after, tuple(told)
        going, orders = self._called(after, now)
        return going, (*told, *orders)

    def _called(self, state: LoopState, now: float) -> Stepped:
        """Every call of the turn has its result: they go into the history, and the model is asked again."""
        failures = {each.failure for each in state.calls}
        answered = self._closed(state, "")
        if "repeated" in failures:
            often = self._bounds.calls_alike_max
            message = f"stopped: the model made the same call more than {often} times (calls_alike_max)"
            return self._ended(answered, "repeated", message, now)
        if "limit" in failures:
            message = f"stopped at {self._bounds.calls_max} tool calls (calls_max): the model asked for more"
            return self._ended(answered, "calls_max", message, now)
        return self._ask(answered, now)

    # ------------------------------------------------------------ ends

    def _time_ran_out(self, state: LoopState, now: float) -> Stepped:
        """A timer of before a rest may come too early; nobody's time runs while a person decides."""
        if state.phase not in ("asking", "calling"):
            return state, ()
        left_s = self._bounds.wall_s - state.elapsed_s(now)
        if left_s > 0:
            return state, (Wake(left_s),)
        return self._stopped(state, "wall_max", self._out_of_time(), now)

    def _stopped(self, state: LoopState, kind: OutcomeKind, message: str, now: float) -> Stepped:
        if state.phase == "ended":
            return state, ()
        whole = self._closed(self._interrupted(state), "not run: the step was stopped")
        rewound = dataclasses.replace(whole, turn=state.turn - 1) if state.phase == "asking" else whole
        after, orders = self._ended(rewound, kind, message, now)
        return after, (Abort(), *orders)

    def _interrupted(self, state: LoopState) -> LoopState:
        calls = (each.done(INTERRUPTED, "interrupted") if each.standing == "running" else each for each in state.calls)
        return dataclasses.replace(state, calls=tuple(calls))

    def _closed(self, state: LoopState, why_not: str) -> LoopState:
        """With every call's result in the history; `why_not` is that of calls which have none."""
        whole = (each if each.standing == "done" else each.done(why_not, "not_run") for each in state.calls)
        results = tuple(each.as_message() for each in whole)
        return dataclasses.replace(state, messages=(*state.messages, *results), calls=())

    def _ended(self, state: LoopState, kind: OutcomeKind, message: str, now: float, *, code: str = "") -> Stepped:
        outcome = Outcome(kind, state.text, message, code)
        ended = dataclasses.replace(state.resting(now), phase="ended", outcome=outcome)
        return ended, (Tell(self._ending(ended, now)),)

    def _ending(self, state: LoopState, now: float) -> events.StepEnded:
        return events.StepEnded(
            state.step.name, state.outcome, state.turn, state.calls_made, state.tokens, state.elapsed_s(now)
        )

    def _out_of_time(self) -> str:
        return f"stopped after {self._bounds.wall_s:g} s (wall_s)"


def distinct(calls: Sequence[Call], state: LoopState) -> tuple[Call, ...]:
    """With ids that no earlier turn has used: some servers count from 0 in each turn, and others refuse the history."""
    used = {call["id"] for message in state.messages for call in message.get("tool_calls") or ()}
    return tuple(
        dataclasses.replace(call, id=f"{call.id}_t{state.turn}") if call.id in used else call for call in calls
    )


def _uncut(state: LoopState) -> LoopState:
    """Without the answer that was cut: its turn is asked for again, and no history ends with the model's own words."""
    if state.messages[-1]["role"] != "assistant":
        return state
    return dataclasses.replace(state, messages=state.messages[:-1], turn=state.turn - 1)


def ignored(choice: Json, completion: Completion) -> str:
    """What the first turn did against the choice, for people; "" when it kept to it."""
    called = [call.name for call in (*completion.calls, *completion.made)]
    cut = " (it was cut at the bound on its tokens)" if completion.finish == "length" else ""
    if choice == "none":
        return f"the choice was none, but the model called {', '.join(called)}" if called else ""
    if choice == "required":
        return "" if called else f"a call was required, but the model made none{cut}"
    if not isinstance(choice, Mapping):
        return ""
    if choice["type"] == "function":
        wanted = choice["function"]["name"]
        return "" if called and set(called) == {wanted} else f"{wanted} was forced, but the model {_did(called)}{cut}"
    allowed = [each["function"]["name"] for each in choice["allowed_tools"]["tools"]]
    if choice["allowed_tools"]["mode"] == "required" and not called:
        return f"a call of {' or '.join(allowed)} was required, but the model made none{cut}"
    return (
        "" if set(called) <= set(allowed) else f"only {', '.join(allowed)} were allowed, but the model {_did(called)}"
    )


def _did(called: Sequence[str]) -> str:
    return f"called {', '.join(called)}" if called else "called nothing"


def fingerprint(call: Call) -> str:
    """The same for calls that mean the same: name and arguments, however the JSON is written."""
    try:
        arguments = json.dumps(json.loads(call.arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        arguments = call.arguments
    return hashlib.sha256(f"{call.name} {arguments}".encode(errors="surrogatepass")).hexdigest()[:32]


def _often(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def _call_ended(each: CallState, took_s: float = 0.0) -> events.CallEnded:
    return events.CallEnded(each.call.id, each.call.name, each.result, each.failure, took_s)
