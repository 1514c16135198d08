"""Deltas to OpenAI's `text_completion` objects: chunks for a stream, else one. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ringleader.api.openai_answer import Spell, spelled_out
from ringleader.values import Delta, Finished, Json, TextDelta, TokenLogprob, Usage


@dataclass(frozen=True, slots=True)
class CompletionFrame:
    """What all objects of one answer share. `echoed` is what each prompt's text begins with, "" for nothing."""

    id: str
    created: int
    model: str
    fingerprint: str
    choices: int  # of each prompt
    echoed: Sequence[str]
    logprobs: bool
    spell: Spell

    @property
    def total(self) -> int:
        """How many choices there are of all prompts."""
        return self.choices * len(self.echoed)

    def around(self, choices: list[Json]) -> dict[str, Json]:
        """An object with these choices."""
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
        }


@dataclass(slots=True)
class _Text:
    """One choice's text so far."""

    pieces: list[str] = field(default_factory=list)
    scored: list[TokenLogprob] = field(default_factory=list)
    finished: Finished | None = None
    begun: bool = False
    told: int = 0  # characters of it, for the offsets of tokens


class Continuations:
    """One answer's objects, of all its choices. As `serving.Writer` it streams, as `serving.Collector` it collects."""

    def __init__(self, frame: CompletionFrame, *, include_usage: bool = False) -> None:
        self._frame = frame
        self._include_usage = include_usage
        self._texts = [_Text() for _ in range(frame.total)]

    @property
    def complete(self) -> bool:
        """Every choice has finished."""
        return all(text.finished is not None for text in self._texts)

    def begin(self) -> Iterator[Json]:
        """Nothing."""
        return iter(())

    def of(self, index: int, delta: Delta) -> Iterator[Json]:
        """The chunks that `delta` of choice `index` makes."""
        text = self._texts[index]
        echoed = "" if text.begun else self._frame.echoed[index // self._frame.choices]
        self.add(index, delta)
        if isinstance(delta, TextDelta) and (delta.text or delta.logprobs or echoed):
            text.begun = True
            yield self._chunk(index, echoed + delta.text, delta.logprobs, None)
        elif isinstance(delta, Finished):
            yield self._chunk(index, echoed, (), delta.reason)
            if self.complete and self._include_usage:
                yield {**self._frame.around([]), "usage": self._usage()}

    def add(self, index: int, delta: Delta) -> None:
        """Take in one delta of choice `index`."""
        text = self._texts[index]
        if isinstance(delta, TextDelta):
            text.pieces.append(delta.text)
            text.scored.extend(delta.logprobs)
        elif isinstance(delta, Finished):
            text.finished = delta

    def body(self) -> dict[str, Json]:
        """The whole object, once it is `complete`."""
        choices = []
        for index, text in enumerate(self._texts):
            assert text.finished is not None
            whole = self._frame.echoed[index // self._frame.choices] + "".join(text.pieces)
            choices.append(self._choice(index, whole, tuple(text.scored), text.finished.reason))
        return {**self._frame.around(choices), "usage": self._usage()}

    def _chunk(self, index: int, text: str, scored: tuple[TokenLogprob, ...], reason: str | None) -> Json:
        chunk = self._frame.around([self._choice(index, text, scored, reason)])
        return {**chunk, "usage": None} if self._include_usage else chunk

    def _choice(self, index: int, text: str, scored: tuple[TokenLogprob, ...], reason: str | None) -> Json:
        logprobs = self._scores(self._texts[index], scored) if self._frame.logprobs else None
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}

    def _scores(self, told: _Text, scored: tuple[TokenLogprob, ...]) -> Json:
        spelled = [spelled_out(each.token, each.logprob, self._frame.spell) for each in scored]
        tops = [
            {each["token"]: each["logprob"] for each in (spelled_out(*top, self._frame.spell) for top in token.top)}
            for token in scored
        ]
        offsets = []
        for each in spelled:
            offsets.append(told.told)
            told.told += len(bytes(each["bytes"]).decode("utf-8", "ignore"))
        return {
            "tokens": [each["token"] for each in spelled],
            "token_logprobs": [each["logprob"] for each in spelled],
            "top_logprobs": tops,
            "text_offset": offsets,
        }

    def _usage(self) -> dict[str, Json]:
        """A prompt counts once however often it is continued."""
        usages: list[Usage] = [text.finished.usage for text in self._texts if text.finished is not None]
        prompts = sum(usage.prompt_tokens for usage in usages[:: self._frame.choices])
        generated = sum(usage.completion_tokens for usage in usages)
        each = [usages[at : at + self._frame.choices] for at in range(0, len(usages), self._frame.choices)]
        cached = sum(min(usage.cached_tokens for usage in choices) for choices in each)
        return {
            "prompt_tokens": prompts,
            "completion_tokens": generated,
            "total_tokens": prompts + generated,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
