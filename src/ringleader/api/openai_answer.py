"""Deltas to Chat Completions' objects: chunks for a stream, one completion otherwise. Pure.

Both say the same: what a client puts together from the chunks is the message that the completion holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ringleader.api.ids import new_id
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
    Usage,
)

LOGPROB_MIN = -9999.0  # what OpenAI writes for a probability of zero; JSON has no infinity
Spell = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Envelope:
    """What all objects of one answer share. `created` in Unix seconds; `logprobs` whether they were asked for."""

    id: str
    created: int
    model: str
    fingerprint: str
    logprobs: bool
    spell: Spell  # a token's bytes

    def around(self, kind: str, choices: list[Json]) -> dict[str, Json]:
        """An object of `kind` with these choices."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
        }


class Chunks:
    """One answer's `chat.completion.chunk` objects. Feed it every delta in order."""

    def __init__(self, envelope: Envelope, *, include_usage: bool) -> None:
        self._envelope = envelope
        self._include_usage = include_usage
        self._role_sent = False
        self._content_sent = False
        self._unargued: set[int] = set()  # calls whose arguments have not begun

    def of(self, delta: Delta) -> Iterator[dict[str, Json]]:
        """The chunks that `delta` makes; perhaps none."""
        match delta:
            case TextDelta(text=text, logprobs=logprobs):
                if text or logprobs:
                    yield from self._text(text, logprobs)
            case ReasoningDelta(text=text):
                if text:
                    yield self._chunk({"reasoning_content": text})
            case CallStarted(index=index, name=name):
                self._unargued.add(index)
                self._content_sent = True  # null is the content of a message of calls only
                yield self._chunk({"tool_calls": [_opened(index, name)]})
            case ArgumentsDelta(index=index, text=text):
                if text:
                    self._unargued.discard(index)
                    yield self._chunk({"tool_calls": [_more(index, text)]})
            case CallEnded(index=index):
                if index in self._unargued:
                    yield self._chunk({"tool_calls": [_more(index, "{}")]})
            case Finished(reason=reason, usage=usage):
                yield from self._finish(reason, usage)

    def _text(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> Iterator[dict[str, Json]]:
        if not self._role_sent:
            yield self._chunk({"content": ""})
        self._content_sent = True
        yield self._chunk({"content": text}, logprobs)

    def _finish(self, reason: str, usage: Usage) -> Iterator[dict[str, Json]]:
        if not self._content_sent:
            yield self._chunk({"content": ""})
        yield self._wrap([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}])
        if self._include_usage:
            yield {**self._envelope.around("chat.completion.chunk", []), "usage": usage_body(usage)}

    def _chunk(self, delta: dict[str, Json], logprobs: tuple[TokenLogprob, ...] = ()) -> dict[str, Json]:
        if not self._role_sent:
            self._role_sent = True
            delta = {"role": "assistant", "content": None, "refusal": None, **delta}
        spelled = logprobs_body(logprobs, self._envelope.spell) if logprobs else None
        return self._wrap([{"index": 0, "delta": delta, "logprobs": spelled, "finish_reason": None}])

    def _wrap(self, choices: list[Json]) -> dict[str, Json]:
        chunk = self._envelope.around("chat.completion.chunk", choices)
        return {**chunk, "usage": None} if self._include_usage else chunk


@dataclass(slots=True)
class _Call:
    name: str
    pieces: list[str] = field(default_factory=list)
    ended: bool = False


class Completion:
    """One answer's `chat.completion` object. Feed it every delta in order, then ask for the `body`."""

    def __init__(self, envelope: Envelope) -> None:
        self._envelope = envelope
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._calls: dict[int, _Call] = {}

    def add(self, delta: Delta) -> None:
        """Take in one delta that is not the last."""
        match delta:
            case TextDelta(text=text, logprobs=logprobs):
                self._text.append(text)
                self._logprobs.extend(logprobs)
            case ReasoningDelta(text=text):
                self._reasoning.append(text)
            case CallStarted(index=index, name=name):
                self._calls[index] = _Call(name)
            case ArgumentsDelta(index=index, text=text):
                self._calls[index].pieces.append(text)
            case CallEnded(index=index):
                self._calls[index].ended = True

    def body(self, finished: Finished) -> dict[str, Json]:
        """The whole object."""
        spelled = logprobs_body(tuple(self._logprobs), self._envelope.spell) if self._envelope.logprobs else None
        choice = {"index": 0, "message": self._message(), "logprobs": spelled, "finish_reason": finished.reason}
        return {**self._envelope.around("chat.completion", [choice]), "usage": usage_body(finished.usage)}

    def _message(self) -> dict[str, Json]:
        text = "".join(self._text)
        message: dict[str, Json] = {
            "role": "assistant",
            "content": text or (None if self._calls else ""),
            "refusal": None,
        }
        if reasoning := "".join(self._reasoning):
            message["reasoning_content"] = reasoning
        if self._calls:
            message["tool_calls"] = [_called(call) for _, call in sorted(self._calls.items())]
        return message


def usage_body(usage: Usage) -> dict[str, Json]:
    """OpenAI's usage object, and what the answer cost the ring under `ringleader`."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "ringleader": {
            "passes": usage.passes,
            "forced_tokens": usage.forced_tokens,
            "opening_tokens": usage.opening_tokens,
        },
    }


def logprobs_body(logprobs: tuple[TokenLogprob, ...], spell: Spell) -> dict[str, Json]:
    """OpenAI's logprobs object."""
    content = [
        {**_spelled(each.token, each.logprob, spell), "top_logprobs": [_spelled(*top, spell) for top in each.top]}
        for each in logprobs
    ]
    return {"content": content, "refusal": None}


def _spelled(token: int, logprob: float, spell: Spell) -> dict[str, Json]:
    raw = spell(token)
    shown = max(logprob, LOGPROB_MIN) if not math.isnan(logprob) else LOGPROB_MIN
    # A token may be a part of a character: its text then shows the bytes, as OpenAI's does.
    return {"token": raw.decode("utf-8", "backslashreplace"), "logprob": min(shown, 0.0), "bytes": list(raw)}


def _opened(index: int, name: str) -> dict[str, Json]:
    return {"index": index, "id": new_id("call_"), "type": "function", "function": {"name": name, "arguments": ""}}


def _more(index: int, text: str) -> dict[str, Json]:
    return {"index": index, "function": {"arguments": text}}


def _called(call: _Call) -> dict[str, Json]:
    """A call that was cut short keeps what there is of its arguments: the finish reason says so."""
    arguments = "".join(call.pieces) or ("{}" if call.ended else "")
    return {"id": new_id("call_"), "type": "function", "function": {"name": call.name, "arguments": arguments}}
