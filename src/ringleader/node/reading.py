"""Reads what the ring says of one answer: tokens to deltas, what was used, and whether what is whole is valid.

An answer may be read by several nodes in turn: whoever goes on with it is told what the ring had said before.
"""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import dataclass, field, replace

from ringleader.errors import BadRequest, RingleaderError
from ringleader.language.enforcement import Check, violation
from ringleader.language.prompt import Prompt, Voice, parser
from ringleader.language.schema import sentence
from ringleader.language.stream import StreamParser
from ringleader.net.ring import Tokens
from ringleader.values import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    ChatRequest,
    Delta,
    Finished,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    Usage,
)


@dataclass(slots=True)
class SoFar:
    """What a client has of an answer: on what day its prompt was written, and what the ring said, in order.

    `opened`: it also has what the opening alone gives. Grows with each part that is delivered. `patient`: it was lost
    before, and waits now however long its model takes to come back.
    """

    today: datetime.date
    opened: bool = False
    words: list[Tokens] = field(default_factory=list)
    patient: bool = False

    def ids(self) -> tuple[int, ...]:
        """All tokens of the answer until now."""
        return tuple(token for word in self.words for token in word.tokens)

    def add(self, part: Part) -> None:
        """`part` is delivered."""
        self.opened = True
        if part.word is not None:
            self.words.append(part.word)


@dataclass(frozen=True, slots=True)
class Part:
    """Deltas, and the word of the ring that they came of: None for those of the opening and of the end."""

    word: Tokens | None
    deltas: tuple[Delta, ...]


class Reading:
    """One answer. `over` is how it ended, once its last word was read; `passes` how many it took until now."""

    def __init__(self, voice: Voice, prompt: Prompt, request: ChatRequest, so_far: SoFar) -> None:
        self.over: FinishReason | None = None
        self.passes = 0
        self._usage = Usage(prompt_tokens=len(prompt.ids), opening_tokens=len(prompt.opening))
        self._uncounted: list[Tokens] = []  # words that `usage` does not have yet
        self._parser = parser(voice, prompt, request)
        self._opening = prompt.opening
        self._whole = _Whole(prompt)
        self._before = self.usage  # what other rings spent on it
        self._so_far = so_far

    @property
    def usage(self) -> Usage:
        """What was used until now. Counted when it is asked for: at each token it would be a copy for nobody."""
        for word in self._uncounted:
            self._usage = _counted(self._usage, word)
        if self._uncounted:
            self._uncounted.clear()
            # What came behind a stop string is no part of the answer.
            self._usage = replace(self._usage, completion_tokens=self._parser.taken)
        return self._usage

    async def open(self) -> Part | None:
        """Read the opening and what is known already; gives what the client does not have of it, if anything."""
        deltas = self._parser.open(self._opening)
        for delta in deltas:
            await self._whole.add(delta)
        had, words = self._so_far.opened, list(self._so_far.words)
        for word in words:
            await self._read(word)
        self._before = self.usage
        return Part(None, tuple(deltas)) if deltas and not had else None

    async def read(self, word: Tokens) -> tuple[Part, RingleaderError | None]:
        """Read the ring's next word. An error ends the answer after the part's deltas."""
        before = self._before
        if before.passes:
            word = replace(
                word,
                passes=word.passes + before.passes,
                drafted=word.drafted + before.drafted_tokens,
                accepted=word.accepted + before.accepted_tokens,
            )
        return await self._read(word)

    async def _read(self, word: Tokens) -> tuple[Part, RingleaderError | None]:
        deltas: list[Delta] = []
        for delta in self._parser.feed(word.tokens, word.logprobs):
            if isinstance(delta, ReasoningDelta):
                self._usage = _reasoned(self._usage, delta)
            if (fault := await self._whole.add(delta)) is not None:
                return Part(word, tuple(deltas)), fault
            deltas.append(delta)
        self._uncounted.append(word)
        self.passes = word.passes
        self.over = _finish(word, self._parser)
        return Part(word, tuple(deltas)), None

    async def close(self) -> tuple[Part, RingleaderError | None]:
        """The last part, when the answer is `over`: what was held back, and `Finished`."""
        assert self.over is not None
        deltas: list[Delta] = []
        for delta in self._parser.finish(self.over):
            if (fault := await self._whole.add(delta)) is not None:
                return Part(None, tuple(deltas)), fault
            deltas.append(delta)
        reason = self._parser.finish_reason(self.over)
        ended = reason == "stop" and not self._parser.stopped
        warnings = await self._whole.warnings() if ended else ()
        return Part(None, (*deltas, Finished(reason, self.usage, warnings, self._parser.stopped_by))), None


class _Whole:
    """Keeps what must be checked when it is whole: each call of some tools, and a text of some forms.

    A call that fails ends the answer with an error, since a client would run it. A text that fails is told of.
    """

    def __init__(self, prompt: Prompt) -> None:
        self._checks = prompt.checks
        self._text = prompt.content.check if prompt.content is not None else None
        self._pieces: list[str] = []
        self._calls: dict[int, tuple[Check, list[str]]] = {}

    async def add(self, delta: Delta) -> BadRequest | None:
        """Take an answer's next delta. Gives what is wrong with the call that it ends, if it breaks its schema."""
        match delta:
            case TextDelta(text=text) if self._text is not None:
                self._pieces.append(text)
            case CallStarted(index=index, name=name) if name in self._checks:
                self._calls[index] = (self._checks[name], [])
            case ArgumentsDelta(index=index, text=text) if index in self._calls:
                self._calls[index][1].append(text)
            case CallEnded(index=index) if index in self._calls:
                check, pieces = self._calls.pop(index)
                found = await asyncio.to_thread(violation, check, "".join(pieces))
                return None if found is None else _broken_call(check, found)
        return None

    async def warnings(self) -> tuple[str, ...]:
        """What the client should be warned of in the text, which is whole."""
        found = await asyncio.to_thread(violation, self._text, "".join(self._pieces))
        return () if found is None else (found,)


def _broken_call(check: Check, found: str) -> BadRequest:
    return BadRequest(
        f"{sentence(found[0].upper() + found[1:])} A part of that schema cannot be enforced while the model writes, "
        "only checked (the Warning header names it). Send the request again, with another seed if you set one, or "
        "take that part out of the schema.",
        param=check.param,
        code="invalid_tool_call",
    )


def _finish(word: Tokens, reader: StreamParser) -> FinishReason | None:
    if reader.stopped:
        return "stop"
    if word.finish == "stop" or word.finish == "length":
        return word.finish
    return None


def _counted(usage: Usage, word: Tokens) -> Usage:
    return replace(
        usage,
        forced_tokens=usage.forced_tokens + max(0, len(word.tokens) - word.drawn),
        passes=word.passes,
        drafted_tokens=word.drafted,
        accepted_tokens=word.accepted,
        cached_tokens=usage.cached_tokens if usage.passes else word.cached,  # of a resumed answer: as it began
        shard_s=word.shard_s or usage.shard_s,  # of a resumed answer: as it ended
    )


def _reasoned(usage: Usage, delta: ReasoningDelta) -> Usage:
    return replace(usage, reasoning_tokens=usage.reasoning_tokens + len(delta.tokens))
