"""Calls as Chat Completions writes them: tool calls of both kinds, or one function call as in older days. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from ringleader.api.ids import new_id
from ringleader.values import ArgumentsDelta, CallEnded, CallStarted, Delta, Json


@dataclass(frozen=True, slots=True)
class CallForm:
    """How this client reads calls. `custom`: the tools whose calls carry an input instead of arguments.

    `legacy`: the one call is a `function_call`. `finish`: the finish reason of an answer that calls. `forced`: a call
    was wanted, and an answer that was cut before it has no text, not an empty one.
    """

    custom: frozenset[str] = frozenset()
    legacy: bool = False
    finish: str = "tool_calls"
    forced: bool = False

    def writer(self) -> CallWriter:
        """For one choice's chunks."""
        return CallWriter(self)

    def collector(self) -> CallCollector:
        """For one choice's message."""
        return CallCollector(self)

    def opened(self, index: int, name: str) -> dict[str, Json]:
        """The delta that begins a call: all that is known of it, once."""
        if self.legacy:
            return {"function_call": {"name": name, "arguments": ""}}
        return {"tool_calls": [{"index": index, **self.call(name, "")}]}

    def more(self, index: int, name: str, text: str) -> dict[str, Json]:
        """The delta that goes on with it."""
        if self.legacy:
            return {"function_call": {"arguments": text}}
        kind, key = ("custom", "input") if name in self.custom else ("function", "arguments")
        return {"tool_calls": [{"index": index, kind: {key: text}}]}

    def call(self, name: str, text: str) -> dict[str, Json]:
        """A call with an id of its own."""
        if name in self.custom:
            return {"id": new_id("call_"), "type": "custom", "custom": {"name": name, "input": text}}
        return {"id": new_id("call_"), "type": "function", "function": {"name": name, "arguments": text}}


class CallWriter:
    """Deltas about calls to the `delta` objects of chunks."""

    def __init__(self, form: CallForm) -> None:
        self._form = form
        self._names: dict[int, str] = {}
        self._unargued: set[int] = set()  # calls whose arguments have not begun

    def piece(self, delta: Delta) -> dict[str, Json] | None:
        """The object for `delta`, or None where it adds nothing."""
        match delta:
            case CallStarted(index=index, name=name):
                self._names[index] = name
                if name not in self._form.custom:
                    self._unargued.add(index)
                return self._form.opened(index, name)
            case ArgumentsDelta(index=index, text=text) if text:
                self._unargued.discard(index)
                return self._form.more(index, self._names[index], text)
            case CallEnded(index=index) if index in self._unargued:
                return self._form.more(index, self._names[index], "{}")
        return None


@dataclass(slots=True)
class _Call:
    name: str
    pieces: list[str] = field(default_factory=list)
    ended: bool = False


class CallCollector:
    """Deltas about calls to the fields of a message."""

    def __init__(self, form: CallForm) -> None:
        self._form = form
        self._calls: dict[int, _Call] = {}

    def add(self, delta: Delta) -> None:
        """Take in one delta; those that are not about calls change nothing."""
        match delta:
            case CallStarted(index=index, name=name):
                self._calls[index] = _Call(name)
            case ArgumentsDelta(index=index, text=text):
                self._calls[index].pieces.append(text)
            case CallEnded(index=index):
                self._calls[index].ended = True

    def fields(self) -> dict[str, Json]:
        """`tool_calls`, or `function_call`; nothing at all where there was no call."""
        calls = [(call.name, self._text(call)) for _, call in sorted(self._calls.items())]
        if not calls:
            return {}
        if self._form.legacy:
            name, text = calls[0]
            return {"function_call": {"name": name, "arguments": text}}
        return {"tool_calls": [self._form.call(name, text) for name, text in calls]}

    def _text(self, call: _Call) -> str:
        """A call that was cut short keeps what there is of its arguments: the finish reason says so."""
        empty = "{}" if call.ended and call.name not in self._form.custom else ""
        return "".join(call.pieces) or empty
