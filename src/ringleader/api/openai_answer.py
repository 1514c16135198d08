"""Deltas of one or several choices to Chat Completions' objects: chunks for a stream, else one completion. Pure.

Both say the same: what a client puts together from the chunks is the message that the completion holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ringleader.api.openai_calls import CallForm
from ringleader.api.priority import served_tier
from ringleader.values import (
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
    choices: int = 1
    calls: CallForm = field(default_factory=CallForm)
    service_tier: str | None = None  # told where it was asked for

    def around(self, kind: str, choices: list[Json]) -> dict[str, Json]:
        """An object of `kind` with these choices."""
        tier = {} if self.service_tier is None else {"service_tier": served_tier(self.service_tier)}
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
            **tier,
        }


class Chunks:
    """One answer's `chat.completion.chunk` objects. Feed it every delta of a choice in order, choices as they come."""

    def __init__(self, envelope: Envelope, *, include_usage: bool) -> None:
        self._envelope = envelope
        self._include_usage = include_usage
        self._choices = [_ChoiceChunks(envelope, index) for index in range(envelope.choices)]
        self._usages: dict[int, Usage] = {}

    @property
    def complete(self) -> bool:
        """Every choice has finished."""
        return len(self._usages) == len(self._choices)

    def begin(self) -> Iterator[dict[str, Json]]:
        """Nothing: the first delta's chunk has the role."""
        return iter(())

    def of(self, index: int, delta: Delta) -> Iterator[dict[str, Json]]:
        """The chunks that `delta` of choice `index` makes; perhaps none.

        OpenAI's SDK takes a choice only after those of a lower index: whichever speaks first, they begin in order.
        """
        begun = [choice for earlier in self._choices[:index] for choice in earlier.begin()]
        for choice in [*begun, *self._choices[index].of(delta)]:
            yield self._wrap([choice])
        if isinstance(delta, Finished):
            self._usages[index] = delta.usage
            if self.complete and self._include_usage:
                yield {**self._envelope.around("chat.completion.chunk", []), "usage": usage_body(self._usages)}

    def _wrap(self, choices: list[Json]) -> dict[str, Json]:
        chunk = self._envelope.around("chat.completion.chunk", choices)
        return {**chunk, "usage": None} if self._include_usage else chunk


class _ChoiceChunks:
    """The `choices` entries of one choice's chunks."""

    def __init__(self, envelope: Envelope, index: int) -> None:
        self._envelope = envelope
        self._index = index
        self._calls = envelope.calls.writer()
        self._role_sent = False
        self._content_sent = False

    def begin(self) -> Iterator[Json]:
        """The role alone, unless it was sent."""
        if not self._role_sent:
            yield self._choice({})

    def of(self, delta: Delta) -> Iterator[Json]:
        match delta:
            case TextDelta(text=text, logprobs=logprobs):
                if text or logprobs:
                    yield from self._text(text, logprobs)
            case ReasoningDelta(text=text):
                if text:
                    yield self._choice({"reasoning_content": text})
            case Finished(reason=reason):
                if not self._content_sent:
                    yield from self.begin() if self._envelope.calls.forced else [self._choice({"content": ""})]
                told = self._envelope.calls.finish if reason == "tool_calls" else reason
                yield {"index": self._index, "delta": {}, "logprobs": None, "finish_reason": told}
            case _:
                piece = self._calls.piece(delta)
                if piece is not None:
                    self._content_sent = True  # null is the content of a message of calls only
                    yield self._choice(piece)

    def _text(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> Iterator[Json]:
        if not self._role_sent:
            yield self._choice({"content": ""})
        self._content_sent = True
        yield self._choice({"content": text}, logprobs)

    def _choice(self, delta: dict[str, Json], logprobs: tuple[TokenLogprob, ...] = ()) -> Json:
        if not self._role_sent:
            self._role_sent = True
            delta = {"role": "assistant", "content": None, "refusal": None, **delta}
        spelled = logprobs_body(logprobs, self._envelope.spell) if logprobs else None
        return {"index": self._index, "delta": delta, "logprobs": spelled, "finish_reason": None}


class Completion:
    """One answer's `chat.completion` object. Feed it every delta of a choice in order, then ask for the `body`."""

    def __init__(self, envelope: Envelope) -> None:
        self._envelope = envelope
        self._choices = [_Choice(envelope) for _ in range(envelope.choices)]

    @property
    def complete(self) -> bool:
        """Every choice has finished."""
        return all(choice.finished is not None for choice in self._choices)

    def add(self, index: int, delta: Delta) -> None:
        """Take in one delta of choice `index`."""
        self._choices[index].add(delta)

    def body(self) -> dict[str, Json]:
        """The whole object, once it is `complete`."""
        usages = {n: choice.finished.usage for n, choice in enumerate(self._choices) if choice.finished}
        choices = [choice.body(n) for n, choice in enumerate(self._choices)]
        return {**self._envelope.around("chat.completion", choices), "usage": usage_body(usages)}


class _Choice:
    """One choice's message, as far as it has come."""

    def __init__(self, envelope: Envelope) -> None:
        self.finished: Finished | None = None
        self._envelope = envelope
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._calls = envelope.calls.collector()

    def add(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text, logprobs=logprobs):
                self._text.append(text)
                self._logprobs.extend(logprobs)
            case ReasoningDelta(text=text):
                self._reasoning.append(text)
            case Finished():
                self.finished = delta
            case _:
                self._calls.add(delta)

    def body(self, index: int) -> Json:
        assert self.finished is not None
        reason = self.finished.reason
        return {
            "index": index,
            "message": self._message(),
            "logprobs": logprobs_body(tuple(self._logprobs), self._envelope.spell) if self._envelope.logprobs else None,
            "finish_reason": self._envelope.calls.finish if reason == "tool_calls" else reason,
        }

    def _message(self) -> dict[str, Json]:
        text, calls = "".join(self._text), self._calls.fields()
        message: dict[str, Json] = {
            "role": "assistant",
            "content": text or (None if calls or self._envelope.calls.forced else ""),
            "refusal": None,
        }
        if reasoning := "".join(self._reasoning):
            message["reasoning_content"] = reasoning
        return {**message, **calls}


def usage_body(usages: Mapping[int, Usage]) -> dict[str, Json]:
    """OpenAI's usage object over all choices, and what they cost the ring under `ringleader`.

    They share one prompt, which counts once, and as cached where none computed it; what was generated is summed.
    """
    prompt = usages[0]
    completion = sum(usage.completion_tokens for usage in usages.values())
    accepted = sum(usage.accepted_tokens for usage in usages.values())
    return {
        "prompt_tokens": prompt.prompt_tokens,
        "completion_tokens": completion,
        "total_tokens": prompt.prompt_tokens + completion,
        "prompt_tokens_details": {"cached_tokens": min(usage.cached_tokens for usage in usages.values())},
        "completion_tokens_details": {
            "reasoning_tokens": sum(usage.reasoning_tokens for usage in usages.values()),
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": sum(usage.drafted_tokens for usage in usages.values()) - accepted,
        },
        "ringleader": {
            "passes": sum(usage.passes for usage in usages.values()),
            "forced_tokens": sum(usage.forced_tokens for usage in usages.values()),
            "opening_tokens": prompt.opening_tokens,
        },
    }


def logprobs_body(logprobs: tuple[TokenLogprob, ...], spell: Spell) -> dict[str, Json]:
    """OpenAI's logprobs object."""
    content = [
        {**spelled_out(each.token, each.logprob, spell), "top_logprobs": [spelled_out(*top, spell) for top in each.top]}
        for each in logprobs
    ]
    return {"content": content, "refusal": None}


def spelled_out(token: int, logprob: float, spell: Spell) -> dict[str, Json]:
    """One token with its text, bytes and logprob."""
    raw = spell(token)
    shown = max(logprob, LOGPROB_MIN) if not math.isnan(logprob) else LOGPROB_MIN
    # A token may be a part of a character: its text then shows the bytes, as OpenAI's does.
    return {"token": raw.decode("utf-8", "backslashreplace"), "logprob": min(shown, 0.0), "bytes": list(raw)}
