"""A request on its way from the node that took it in to the master, and its answer on the way back, as JSON.

Shapes: {"request", "today", "opened", "words"} there; {"opened": warnings, "prompt_tokens"}, then {"part"}... and
perhaps {"error"} back. A stream that ends before the answer's last delta means that the master is lost.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import TypeAdapter

from ringleader import errors
from ringleader.errors import CallerFault, MasterMoved, OurFault, PeerFault, RingleaderError, RingLost
from ringleader.net.ring import Tokens
from ringleader.node.answer import Closable, Opened
from ringleader.node.reading import Part, SoFar
from ringleader.values import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    ChatRequest,
    Delta,
    Finished,
    Json,
    ModelId,
    ReasoningDelta,
    TextDelta,
)

SPELLINGS_MAX = 65_536  # tokens whose bytes are remembered, of all models: some megabytes

_REQUEST = TypeAdapter(ChatRequest)
_WORD = TypeAdapter(Tokens)
_DELTAS: dict[str, TypeAdapter[Any]] = {
    kind.__name__: TypeAdapter(kind)
    for kind in (TextDelta, ReasoningDelta, CallStarted, ArgumentsDelta, CallEnded, Finished)
}

Open = Callable[[ChatRequest, SoFar], Awaitable[Opened]]
Spell = Callable[[ModelId, int], bytes]


class Answers(Protocol):
    """What comes back of one call. It raises MasterMoved when the master is lost under it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def __anext__(self) -> bytes: ...

    def cancel(self) -> None:
        """Hang up: the master cancels the request. Harmless at any time."""
        ...


Call = Callable[[bytes], Answers]


# ---------------------------------------------------------------- the master's end


class RelayDesk:
    """Answers what other nodes took in. `open` and `spell` are the desk's."""

    def __init__(self, open_: Open, spell: Spell) -> None:
        self._open = open_
        self._spell = spell

    async def answer(self, asked: bytes) -> AsyncGenerator[bytes, None]:
        """Serve one call, to the end of the answer or of the caller."""
        try:
            request, so_far = _asked(asked)
            opened = await self._open(request, so_far)
        except RingleaderError as error:
            yield _pack({"error": _error_out(error)})
            return
        try:
            yield _pack({"opened": list(opened.warnings), "prompt_tokens": opened.prompt_tokens})
            async for part in opened.parts:
                yield _pack({"part": self._part_out(part, request)})
        except RingleaderError as error:
            yield _pack({"error": _error_out(error)})
        finally:
            await opened.parts.aclose()

    def _part_out(self, part: Part, request: ChatRequest) -> Json:
        word = None if part.word is None else _WORD.dump_python(part.word, mode="json")
        deltas = [
            [type(each).__name__, _DELTAS[type(each).__name__].dump_python(each, mode="json")] for each in part.deltas
        ]
        spelled = {}
        if request.top_logprobs is not None:
            spelled = {str(token): self._spell(request.model, token).hex() for token in _named(part)}
        return {"word": word, "deltas": deltas, "spelled": spelled}


def _named(part: Part) -> set[int]:
    """The tokens whose bytes the API will ask for."""
    listed = [each for delta in part.deltas if isinstance(delta, TextDelta) for each in delta.logprobs]
    return {token for each in listed for token in (each.token, *(other for other, _ in each.top))}


def _asked(asked: bytes) -> tuple[ChatRequest, SoFar]:
    try:
        said = json.loads(asked)
        request = _REQUEST.validate_python(said["request"])
        words = [_WORD.validate_python(word) for word in said["words"]]
        today = datetime.date.fromisoformat(said["today"])
        return request, SoFar(today, bool(said["opened"]), words, bool(said.get("patient")))
    except (ValueError, KeyError, TypeError) as error:
        raise OurFault(f"a relayed request cannot be read: {error}") from error


# ---------------------------------------------------------------- the other end


@dataclass(slots=True)
class RelaySource:
    """Another node's desk. `call` sends one message there; `spellings` are the tokens that came with answers."""

    call: Call
    spellings: dict[tuple[ModelId, int], bytes]

    async def open(self, request: ChatRequest, so_far: SoFar) -> Opened:
        """As `Desk.open`."""
        asked = {
            "request": _REQUEST.dump_python(request, mode="json"),
            "today": so_far.today.isoformat(),
            "opened": so_far.opened,
            "patient": so_far.patient,
            "words": [_WORD.dump_python(word, mode="json") for word in so_far.words],
        }
        answers = self.call(_pack(asked))
        try:
            first = await anext(aiter(answers), None)
            if first is None:
                raise MasterMoved(f"the master took the request for {request.model} and said nothing")
            said = json.loads(first)
            if "error" in said:
                raise _error_in(said["error"])
        except BaseException:  # the client may leave while the ring still loads
            answers.cancel()
            raise
        parts = Closable(self._parts(request, answers), answers.cancel)
        return Opened(request.model, parts, tuple(said["opened"]), said["prompt_tokens"])

    async def _parts(self, request: ChatRequest, answers: Answers) -> AsyncGenerator[Part, None]:
        async for message in answers:
            said = json.loads(message)
            if "error" in said:
                raise _error_in(said["error"])
            part = self._part_in(said["part"], request.model)
            yield part
            if part.deltas and isinstance(part.deltas[-1], Finished):
                return
        raise MasterMoved(f"the master ended its answer of {request.model} before it was whole")

    def _part_in(self, said: Json, model: ModelId) -> Part:
        for token, spelled in said["spelled"].items():
            if len(self.spellings) >= SPELLINGS_MAX:
                del self.spellings[next(iter(self.spellings))]
            self.spellings[model, int(token)] = bytes.fromhex(spelled)
        word = None if said["word"] is None else _WORD.validate_python(said["word"])
        deltas: list[Delta] = [_DELTAS[kind].validate_python(value) for kind, value in said["deltas"]]
        return Part(word, tuple(deltas))

    def token_bytes(self, model: ModelId, token: int) -> bytes:
        """The bytes of one token: they came with the part that named it."""
        return self.spellings[model, token]


# ---------------------------------------------------------------- errors, and messages


def _error_out(error: RingleaderError) -> Json:
    said = {"kind": type(error).__name__, "text": str(error), "code": error.code, "resumable": error.resumable}
    if isinstance(error, CallerFault):
        said["param"] = error.param
    if isinstance(error, PeerFault) and error.retry_after_s is not None:
        said["retry_after_s"] = error.retry_after_s
    return said


def _error_in(said: Json) -> RingleaderError:
    kind = getattr(errors, said["kind"], OurFault)
    if not (isinstance(kind, type) and issubclass(kind, RingleaderError)):
        kind = OurFault
    if issubclass(kind, CallerFault):
        return kind(said["text"], param=said.get("param"), code=said["code"])
    if issubclass(kind, RingLost):
        return kind(said["text"], resumable=said["resumable"])
    if issubclass(kind, PeerFault):
        return kind(said["text"], retry_after_s=said.get("retry_after_s"))
    return kind(said["text"])


def _pack(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
