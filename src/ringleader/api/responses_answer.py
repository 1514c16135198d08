"""Deltas of one answer to the events of a Responses stream, and to its one response object. Pure but for ids and time.

Laws: sequence numbers count from 0; an item is added, told and done before the next is; what the last event holds is
what the events before it told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ringleader.api.error_forms import OPENAI
from ringleader.api.fault_table import Fault
from ringleader.api.responses_body import ResponseFrame
from ringleader.api.responses_history import SHELL
from ringleader.api.responses_output import CallOutput, Event, MessageOutput, OutputItem, ReasoningOutput, ShellOutput
from ringleader.values import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    Json,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
)

_ERROR_CODES = {"busy": "rate_limit_exceeded"}


class ResponseEvents:
    """One answer's events. Feed it every delta in order; `final` is the response once it is `complete`."""

    def __init__(self, frame: ResponseFrame, now: Callable[[], float]) -> None:
        self.final: dict[str, Json] | None = None
        self._frame = frame
        self._now = now
        self._number = 0
        self._done: list[dict[str, Json]] = []
        self._item: OutputItem | None = None
        self._wholly = False  # the open item is a call, and it has ended

    @property
    def complete(self) -> bool:
        """The answer is over."""
        return self.final is not None

    def begin(self) -> Iterator[Event]:
        """What is said before anything has come."""
        for kind in ("response.created", "response.in_progress"):
            yield self._numbered({"type": kind, "response": self._frame.body("in_progress", [])})

    def of(self, index: int, delta: Delta) -> Iterator[Event]:
        """The events that `delta` makes; perhaps none. There is one choice."""
        for event in self._of(delta):
            yield self._numbered(event)

    def add(self, index: int, delta: Delta) -> None:
        """The same for an answer that is told whole."""
        for _ in self._of(delta):
            pass

    def failed(self, fault: Fault, request_id: str) -> Iterator[Event]:
        """The end of a stream that went wrong: OpenAI's error event, in both its shapes, and the response."""
        nested = OPENAI.body(fault, request_id)
        flat = {"code": fault.code, "message": fault.message, "param": fault.param}
        yield self._numbered({"type": "error", **flat, **nested})
        code = fault.code if fault.kind == "invalid" else _ERROR_CODES.get(fault.kind, "server_error")
        told = {"code": code, "message": fault.message}
        self.final = self._frame.body("failed", [*self._done, *self._open_body()], error=told)
        yield self._numbered({"type": "response.failed", "response": self.final})

    # ------------------------------------------------------------ deltas

    def _of(self, delta: Delta) -> Iterator[Event]:
        match delta:
            case TextDelta(text=text, logprobs=logprobs):
                if text or logprobs:
                    yield from self._text(text, logprobs)
            case ReasoningDelta(text=text):
                if text:
                    yield from self._reasoning(text)
            case CallStarted(name=name):
                yield from self._open(self._call(name))
            case ArgumentsDelta(text=text):
                assert isinstance(self._item, CallOutput | ShellOutput)
                if text:
                    yield from self._located(self._item.more(text))
            case CallEnded():
                self._wholly = True
                yield from self._close("completed")
            case Finished():
                yield from self._finish(delta)

    def _text(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> Iterator[Event]:
        if not isinstance(self._item, MessageOutput):
            yield from self._open(MessageOutput(self._frame.spell))
        assert isinstance(self._item, MessageOutput)
        yield from self._located(self._item.more(text, logprobs))

    def _reasoning(self, text: str) -> Iterator[Event]:
        if not isinstance(self._item, ReasoningOutput):
            asked = self._frame.asked
            yield from self._open(ReasoningOutput(summarised=asked.summarised, sealed=self._frame.sealed))
        assert isinstance(self._item, ReasoningOutput)
        yield from self._located(self._item.more(text))

    def _call(self, name: str) -> CallOutput | ShellOutput:
        if name == SHELL and self._frame.asked.has_shell:
            return ShellOutput()
        custom = name in self._frame.asked.calls.custom
        own, namespace = self._frame.asked.tools.origins.get(name, (name, None))
        return CallOutput(own, custom=custom, namespace=namespace)

    def _finish(self, finished: Finished) -> Iterator[Event]:
        cut = finished.reason == "length"
        silent = self._item is None or isinstance(self._item, ReasoningOutput)
        if silent and not cut and all(each["type"] == "reasoning" for each in self._done):
            yield from self._open(MessageOutput(self._frame.spell))  # it said nothing, which is a message too
        if self._item is not None:
            yield from self._close("incomplete" if cut else "completed")
        self.final = self._frame.body(
            "incomplete" if cut else "completed",
            self._done,
            usage=finished.usage,
            completed_at=None if cut else int(self._now()),
            incomplete="max_output_tokens" if cut else None,
        )
        yield {"type": "response.incomplete" if cut else "response.completed", "response": self.final}

    # ------------------------------------------------------------ items

    def _open(self, item: OutputItem) -> Iterator[Event]:
        if self._item is not None:
            yield from self._close("completed")
        self._item, self._wholly = item, False
        yield from self._located([{"type": "response.output_item.added", "item": item.body("in_progress")}])
        yield from self._located(item.begin())

    def _close(self, status: str) -> Iterator[Event]:
        item = self._item
        assert item is not None
        if isinstance(item, CallOutput | ShellOutput) and not self._wholly:
            status = "incomplete"
        yield from self._located(item.end(whole=status == "completed"))
        body = item.body(status)
        yield from self._located([{"type": "response.output_item.done", "item": body}])
        self._done.append(body)
        self._item = None

    def _open_body(self) -> list[dict[str, Json]]:
        return [] if self._item is None else [self._item.body("incomplete")]

    def _located(self, events: Iterator[Event] | list[Event]) -> Iterator[Event]:
        for event in events:
            yield {**event, "output_index": len(self._done)}

    def _numbered(self, event: Event) -> Event:
        number, self._number = self._number, self._number + 1
        return {**event, "sequence_number": number}
