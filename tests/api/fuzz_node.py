"""A node for the fuzz: it composes real prompts, then plays a script that any ring may play, breaks and all."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ringleader.api.contracts import Caller, PullStep
from ringleader.errors import Busy, ContextTooLong, ModelFault, NodeUnreachable, OurFault, RingLost
from ringleader.language.prompt import Voice, compose, voice
from ringleader.values import (
    Answer,
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    ChatRequest,
    Delta,
    Finished,
    ModelId,
    TextDelta,
    TokenLogprob,
    Tool,
)
from tests.api.scripted import ScriptedDeltas, ScriptedNode, Step
from tests.api.scripted_library import ScriptedLibrary
from tests.unit.language.vocabulary import CHATML, THINKING, tokenizer_with

SILENCE_S = 0.004  # longer than the fuzzed server keeps silent
CONTEXT = 4096
SECRET = "sk-secret"  # stands in every unforeseen exception, and may not leave the process
TAGS = ("<tool_call>", "</tool_call>", "<think>", "</think>")

Break = Literal["lost", "busy", "long", "model", "far", "ours", "bug", "silent"]
BREAKS: Mapping[Break, Callable[[], Exception]] = {
    "lost": lambda: RingLost("a shard died; send the request again"),
    "busy": lambda: Busy("the queue is full"),
    "long": lambda: ContextTooLong("the prompt is too long"),
    "model": lambda: ModelFault("its files are broken"),
    "far": lambda: NodeUnreachable("no node answers"),
    "ours": lambda: OurFault(SECRET),
    "bug": lambda: KeyError(SECRET),
}
VOICES: Mapping[str, Callable[[], Voice]] = {
    "plain": lambda: voice(tokenizer_with([], CHATML), CONTEXT),
    "marked": lambda: voice(tokenizer_with(TAGS, CHATML), CONTEXT),
    "thinking": lambda: voice(tokenizer_with(TAGS, THINKING), CONTEXT),
}


@dataclass(frozen=True)
class Script:
    """What the node does: `refuses` instead of answering; `breaks` after so many deltas in that way."""

    deltas: tuple[Delta, ...]
    voice: str = "plain"
    refuses: Break | None = None
    breaks: tuple[int, Break] | None = None

    @property
    def faulty(self) -> bool:
        """Whether the node fails at anything, so that a status of its fault is right."""
        return self.refuses is not None or (self.breaks is not None and self.breaks[1] != "silent")


class FuzzNode(ScriptedNode):
    """Plays its script anew for every request that has a prompt. `given` are the answers so far."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.given: list[ScriptedDeltas] = []
        self._script = script
        self._voice = VOICES[script.voice]()

    async def answer(self, request: ChatRequest) -> Answer:
        """As a node would: what is wrong with the request is said before anything else."""
        prompt = await asyncio.to_thread(compose, self._voice, replace(request, max_tokens=None))
        if self._script.refuses is not None:
            raise BREAKS[self._script.refuses]()
        steps: list[Step] = list(fitting(self._script.deltas, request))
        if self._script.breaks is not None:
            at, how = self._script.breaks
            steps.insert(min(at, len(steps)), _silence() if how == "silent" else BREAKS[how]())
        deltas = ScriptedDeltas(steps)
        self.given.append(deltas)
        return Answer(request.model, deltas, prompt.warnings, len(prompt.ids))

    def token_bytes(self, model: ModelId, token: int) -> bytes:
        """Sometimes half a character."""
        return (b"a", "é".encode(), b"\xe2")[token % 3]


def fitting(deltas: Sequence[Delta], request: ChatRequest) -> Sequence[Delta]:
    """The script as far as a ring keeps to the request: calls of its tools only, logprobs where they are asked for."""
    made: list[Delta] = []
    names = itertools.cycle(request.tools or [Tool("")])
    for delta in deltas:
        if isinstance(delta, CallStarted | ArgumentsDelta | CallEnded) and not request.tools:
            continue
        if isinstance(delta, CallStarted):
            delta = replace(delta, name=next(names).name)
        if isinstance(delta, TextDelta) and request.top_logprobs is not None:
            top = tuple((token, -1.0 - token) for token in range(request.top_logprobs))
            delta = replace(delta, logprobs=tuple(TokenLogprob(each, -0.5, top) for each in range(len(delta.text))))
        if isinstance(delta, Finished) and not request.tools and delta.reason == "tool_calls":
            delta = replace(delta, reason="stop")
        made.append(delta)
    return made


def _silence() -> asyncio.Event:
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(SILENCE_S, event.set)
    return event


class FuzzLibrary(ScriptedLibrary):
    """Pulls that may break as answers do."""

    def __init__(self, script: Script) -> None:
        super().__init__(thinks=script.voice == "thinking")
        self._script = script

    async def pull(self, reference: str) -> AsyncGenerator[PullStep, None]:
        """Some steps, and a break after them."""
        if self._script.refuses is not None:
            raise BREAKS[self._script.refuses]()
        yield PullStep("look up x")
        yield PullStep("fetch x", 5, 10)
        if self._script.faulty and self._script.breaks is not None:
            raise BREAKS[self._script.breaks[1]]()


class Letters:
    """As `Tokenizing`: a model whose tokens are characters."""

    async def prompt_ids(self, request: ChatRequest) -> tuple[int, ...]:
        """Of the texts alone."""
        return tuple(ord(char) for message in request.messages for char in message.content or "")

    async def encode(self, model: ModelId, text: str, *, framed: bool) -> tuple[int, ...]:
        """One id a character."""
        return ((0,) if framed else ()) + tuple(map(ord, text))

    async def decode(self, model: ModelId, tokens: tuple[int, ...]) -> tuple[str, ...]:
        """One character an id."""
        return tuple(chr(token % 0xD800) for token in tokens)

    async def join(self, model: ModelId, tokens: tuple[int, ...]) -> str:
        """All of them."""
        return "".join(await self.decode(model, tokens))

    async def context_max(self, model: ModelId) -> int:
        """As composed prompts have it."""
        return CONTEXT


class FuzzKeys:
    """Two keys, or none asked for; the second may have one answer at a time."""

    def __init__(self, *, asks: bool) -> None:
        self.asks = asks

    def caller(self, key: str) -> Caller | None:
        """Whose it is."""
        return {"key-1": Caller("one"), "key-2": Caller("two", 1)}.get(key)
