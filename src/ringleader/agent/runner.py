"""Drives a step's loop: puts its orders to a backend and to tools, and tells what happens.

Every `if` about the step is the loop's.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing

from ringleader.agent.backends.contracts import Backend, Piece
from ringleader.agent.backends.faults import BackendGarbled
from ringleader.agent.completions import Call, Completion, read_completion
from ringleader.agent.contracts import Registry, build_tool_contracts
from ringleader.agent.delegated import VARIABLE, provider_of_environment
from ringleader.agent.events import Event, ReasoningCame, StepEnded, TextCame, Warned
from ringleader.agent.loop import Loop
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
from ringleader.agent.state import LoopState, save
from ringleader.agent.steps import Step
from ringleader.errors import BadRequest, RingleaderError
from ringleader.values import Json

EVENTS_WAITING_MAX = 256  # a watcher that is slower makes the step wait for it

log = logging.getLogger(__name__)

Teller = Callable[[Event], Awaitable[None]]
Approver = Callable[[Sequence[Call]], Awaitable[Mapping[str, bool]]]
Keeper = Callable[[dict[str, Json]], None]


async def tell_nobody(event: Event) -> None:
    """For steps that nobody watches."""


class StepRun:
    """One step, from its beginning or from a saved state, to its end or to its next rest.

    `approve` is asked about calls that need a yes; without it the step rests (`resting`), and its `saved` state goes on
    later. `keep` is given the state after every move. A provider that AGENTIC_EK_PROVIDER names takes the place of
    `backend`.
    """

    def __init__(
        self,
        step: Step | LoopState,
        backend: Backend | None = None,
        *,
        registry: Registry | None = None,
        bounds: Bounds | None = None,
        approve: Approver | None = None,
        keep: Keeper | None = None,
        temperature: float | None = None,
    ) -> None:
        """Raises ContractFault (a ValueError) for tools that nobody has, or a choice that is not among the step's."""
        own = step if isinstance(step, Step) else step.step
        chosen = provider_of_environment() or backend
        if chosen is None:
            raise BadRequest(f"step {own.name!r} needs a backend (or {VARIABLE})", param="backend")
        self._backend: Backend = chosen
        self._schemas, bound, choice = build_tool_contracts(own.tier, own.tools, own.tool_choice, registry=registry)
        if isinstance(step, LoopState) and step.choice not in ("auto", choice):
            raise BadRequest(f"the saved state of step {own.name!r} is damaged: its choice is not the step's own")
        self._tools = {tool.name: tool for tool in bound}
        self._loop = Loop(bound, bounds or Bounds())
        self._approve, self._keep, self._temperature = approve, keep, temperature
        self._inbox: asyncio.Queue[Heard] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self.resting = False
        self.state = step if isinstance(step, LoopState) else LoopState(own, choice, own.messages)
        self._unkept = self._unkept_choice()
        if self._unkept:
            self.state = dataclasses.replace(self.state, choice="auto")

    def _unkept_choice(self) -> str:
        """What is to be said when the choice cannot be passed on; "" when it can, or when its turn is over."""
        if self.state.choice == "auto" or self.state.turn > 0 or self._backend.supports_tool_choice:
            return ""
        step = self.state.step
        return (
            f"step {step.name!r} asks for tool_choice {step.tool_choice!r}, but the provider {self._backend.name} "
            "does not declare supports_tool_choice; which tools are called is left to the model"
        )

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None while it runs or rests."""
        return self.state.outcome

    @property
    def ending(self) -> StepEnded:
        """The last event, also of a step that was cancelled and could tell nobody any more."""
        state = self.state
        used_s = state.elapsed_s(time.monotonic())
        return StepEnded(state.step.name, state.outcome, state.turn, state.calls_made, state.tokens, used_s)

    @property
    def saved(self) -> dict[str, Json]:
        """The state as JSON; `state.restore` reads it."""
        return save(self.state, time.monotonic())

    def cancel(self) -> None:
        """End the step in order; what it had is kept. From the loop's own thread only."""
        self._inbox.put_nowait(CancelAsked())

    async def events(self) -> AsyncGenerator[Event]:
        """Runs the step and gives what happens, as it happens. Closing this early cancels the step."""
        waiting: asyncio.Queue[Event | None] = asyncio.Queue(EVENTS_WAITING_MAX)
        work = asyncio.create_task(self.drive(waiting.put))
        work.add_done_callback(lambda _: None if waiting.full() else waiting.put_nowait(None))
        try:
            while not (work.done() and waiting.empty()):
                if (event := await waiting.get()) is not None:
                    yield event
            await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def drive(self, tell: Teller = tell_nobody) -> LoopState:
        """Runs the step; the state in which it ended or rests. Cancelling saves it as cancelled."""
        if self._unkept:
            log.warning("%s", self._unkept)
            await tell(Warned(self._unkept))
        heard: Heard = Started()
        self.resting = False
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    for order in self._moved(heard):
                        await self._perform(order, group, tell)
                    if self.state.phase == "ended" or self.resting:
                        break
                    heard = await self._inbox.get()
                self._stop()
        except asyncio.CancelledError:
            self._moved(CancelAsked())
            raise
        finally:
            self._stop()
        return self.state

    def _moved(self, heard: Heard) -> tuple[Order, ...]:
        self.state, orders = self._loop.step(self.state, heard, time.monotonic())
        if self._keep is not None:
            self._keep(self.saved)
        return orders

    async def _perform(self, order: Order, group: asyncio.TaskGroup, tell: Teller) -> None:
        match order:
            case Tell(event):
                await tell(event)
            case AskModel():
                self._begin(group, self._ask(order, tell))
            case RunCall():
                self._begin(group, self._call(order))
            case AskApproval(calls):
                await self._ask_somebody(calls, group, tell)
            case Wake(after_s):
                self._set_timer(after_s)
            case Abort():
                self._stop()

    def _begin(self, group: asyncio.TaskGroup, work: Awaitable[None]) -> None:
        async def run() -> None:
            await work

        task = group.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _set_timer(self, after_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, after_s), self._inbox.put_nowait, TimeRanOut())

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in tuple(self._tasks):
            task.cancel()

    async def _ask(self, order: AskModel, tell: Teller) -> None:
        try:
            heard: Heard = ModelAnswered(await self._turn(order, tell))
        except RingleaderError as fault:
            heard = ModelFailed(fault.code, str(fault))
        except Exception as error:  # the root of a task: the step ends in order, and the log has it all
            log.exception("the backend %s broke", self._backend.name)
            heard = ModelFailed("internal_error", f"{self._backend.name} broke: {type(error).__name__}: {error}")
        self._inbox.put_nowait(heard)

    async def _turn(self, order: AskModel, tell: Teller) -> Completion:
        asked = self._backend.stream_chat(
            order.messages,
            self._schemas,
            order.tool_choice,
            max_tokens=order.max_tokens,
            temperature=self._temperature,
        )
        async with aclosing(asked) as pieces:
            async for piece in pieces:
                if isinstance(piece, Piece):
                    await tell(TextCame(piece.text) if piece.kind == "text" else ReasoningCame(piece.text))
                else:
                    return read_completion(piece.completion, self._backend.name)
        raise BackendGarbled(f"{self._backend.name} gave no whole turn")

    async def _call(self, order: RunCall) -> None:
        began = time.monotonic()
        result = await self._tools[order.name].call(order.arguments)
        self._inbox.put_nowait(CallFinished(order.id, result.text, result.failure, time.monotonic() - began))

    async def _ask_somebody(self, calls: Sequence[Call], group: asyncio.TaskGroup, tell: Teller) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._approve is None:
            self.resting = True
            await tell(self.ending)
            return
        self._begin(group, self._decide(self._approve, calls))

    async def _decide(self, approve: Approver, calls: Sequence[Call]) -> None:
        try:
            decided = Decided(await approve(calls))
        except Exception:
            log.exception("nobody could be asked about %s", ", ".join(call.name for call in calls))
            decided = Decided({}, "nobody could be asked")
        self._inbox.put_nowait(decided)
