"""From a checked request to the deltas of its answer: the main path of the product, top to bottom.

Runs on the master. What may be wrong with a request is found in `answer`, before any shard hears of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from ringleader.cluster.messages import Event, PlanWish, RequestArrived, RequestCancelled, RequestEnded
from ringleader.errors import BadRequest, Busy, ContextTooLong, NodeUnreachable, OurFault, RingleaderError, RingLost
from ringleader.language.outgrowth import CODE
from ringleader.language.prompt import Prompt, Voice, compose
from ringleader.net.ring import RingClient, Tokens
from ringleader.node.reading import Part, Reading, SoFar
from ringleader.node.shelf import Entry, Shelf
from ringleader.node.telemetry import RingMeter
from ringleader.values import ChatRequest, ModelId, RequestId, SlotSpec

T = TypeVar("T")

THINK_RESERVE_MAX = 256  # tokens kept for what is demanded after reasoning: a call with some text in it
PLACES_MAX = 4  # in a message
REQUEST_DEADLINE_S = 3600.0  # from arrival to the last token; a book takes minutes, a forgotten request for ever

# The engine's stop reasons. On lines of their own, which no client's grammar, quoted below them, can write.
_OUTGROWN = ("\nStop: LexerTooComplex", "\nStop: ParserTooComplex")


@dataclass(slots=True)
class Job:
    """One request under way. `news` holds tokens, or the error that ended it."""

    request: RequestId
    entry: Entry
    prompt: Prompt
    ids: tuple[int, ...]  # the prompt's, and those of the answer that came before
    spec: SlotSpec
    started: asyncio.Future[None]
    priority: int = 0
    tokens_asked: int | None = None  # for the answer; None: as many as there is room for
    news: asyncio.Queue[Tokens | RingleaderError] = field(default_factory=asyncio.Queue)

    def fail(self, error: RingleaderError) -> None:
        """End it with an error: before its start for whoever waits there, later for whoever reads."""
        if not self.started.done():
            self.started.set_exception(error)
        self.news.put_nowait(error)


@dataclass(frozen=True, slots=True)
class Opened:
    """An accepted request: its answer's parts, which must be closed. `warnings` are known before the first part."""

    model: ModelId
    parts: Closable[Part]
    warnings: tuple[str, ...]
    prompt_tokens: int = 0


class Desk:
    """Takes requests in and connects them with what the cluster decides about them."""

    def __init__(
        self,
        shelf: Shelf,
        tell: Callable[[Event], None],
        wish: PlanWish,
        nodes_missing: Callable[[], int] = lambda: 0,
        loading_wait_s: float = REQUEST_DEADLINE_S,
        fitted: Callable[[PlanWish, Entry], PlanWish] = lambda wish, _: wish,
    ) -> None:
        self._shelf = shelf
        self._tell = tell
        self._wish = wish
        self._nodes_missing = nodes_missing
        self._loading_wait_s = loading_wait_s
        self._fitted = fitted
        self._jobs: dict[RequestId, Job] = {}
        self._numbers = itertools.count(1)
        self._run = secrets.token_hex(4)  # ids differ between runs of the node
        self.meters: dict[ModelId, RingMeter] = {}
        self.followers = True

    async def open(self, request: ChatRequest, so_far: SoFar | None = None) -> Opened:
        """Accept `request`: everything that can be wrong with it is raised here, before a shard is touched.

        With `so_far` the answer goes on where another ring left it. Raises CallerFault, ModelFault, and PeerFault
        when no ring can be had for it.
        """
        so_far = so_far or SoFar(datetime.date.today())
        entry = await self._shelf.entry(request.model)
        _check_bias(request, entry.voice.tokenizer.vocab_size)
        prompt = await asyncio.to_thread(compose, entry.voice, replace(request, max_tokens=None), so_far.today)
        if missing := self._nodes_missing():
            raise NodeUnreachable(
                f"this node still waits for {missing} more to join (--nodes) before it loads {request.model}; "
                "send the request again when they are here"
            )
        reading = Reading(entry.voice, prompt, request, so_far)
        first = await reading.open()
        if reading.over is not None:  # all was said, but not all was heard
            parts = Closable(self._parts(first, reading, None), lambda: None)
            return Opened(request.model, parts, prompt.warnings, len(prompt.ids))
        expected = await asyncio.to_thread(entry.voice.tokenizer.encode, request.prediction)
        job = self._job(request, entry, prompt, so_far.ids(), tuple(expected))
        self._jobs[job.request] = job
        now = time.monotonic()
        until = None if so_far.patient or so_far.words else now + self._loading_wait_s
        wish = self._fitted(self._wish, entry)
        arrived = RequestArrived(
            job.request, entry.costs, wish, now + REQUEST_DEADLINE_S, entry.reference, wait_until=until
        )
        self._tell(arrived)
        try:
            await job.started
        except BaseException:  # the client may leave while the ring still loads
            self._drop(job)
            raise
        parts = Closable(self._parts(first, reading, job), lambda: self._drop(job))
        return Opened(request.model, parts, prompt.warnings, len(prompt.ids))

    def _job(
        self, request: ChatRequest, entry: Entry, prompt: Prompt, came: tuple[int, ...], expected: tuple[int, ...]
    ) -> Job:
        spec = specified(entry.voice, request, prompt, followers=self.followers, resumed=len(came), prediction=expected)
        name = RequestId(f"{self._run}-{next(self._numbers)}")
        ids, started = (*prompt.ids, *came), asyncio.get_running_loop().create_future()
        return Job(name, entry, prompt, ids, spec, started, request.priority, request.max_tokens)

    async def _parts(self, first: Part | None, reading: Reading, job: Job | None) -> AsyncIterator[Part]:
        if first is not None:
            yield first
        if job is not None:
            meter = self.meters.setdefault(job.entry.model, RingMeter())
            while reading.over is None:
                news = await job.news.get()
                if isinstance(news, RingleaderError):
                    raise news
                passes = reading.passes
                part, fault = await reading.read(news)
                meter.count(len(news.tokens), reading.passes - passes)
                meter.kept_tokens = news.kept_tokens
                yield part
                if fault is not None:
                    raise fault
            meter.ended(reading.usage.prompt_tokens, reading.usage.cached_tokens)
        part, fault = await reading.close()
        yield part
        if fault is not None:
            raise fault

    def _drop(self, job: Job) -> None:
        """Nobody reads this request any more; if it still runs, it is cancelled everywhere."""
        if self._jobs.pop(job.request, None) is not None:
            self._tell(RequestCancelled(job.request))

    # ------------------------------------------------------------ what the cluster decided, what the ring said

    def dispatch(self, request: RequestId, ring: RingClient) -> None:
        """Hand the request to the ring. Raises RingLost when its head is gone."""
        if (job := self._jobs.get(request)) is not None:
            try:
                spec = _fitted(job, ring)
            except ContextTooLong as error:
                job.fail(error)
                return
            ring.submit(request, job.ids, spec, job.priority)
            if not job.started.done():
                job.started.set_result(None)

    def fail(self, request: RequestId, error: RingleaderError) -> None:
        """The cluster ended the request."""
        if (job := self._jobs.pop(request, None)) is not None:
            job.fail(error)

    def close(self) -> None:
        """This node stops: whoever still waits is told."""
        for request in list(self._jobs):
            self.fail(request, RingLost(f"request {request}: this node was told to stop"))

    def tokens(self, request: RequestId, tokens: Tokens) -> None:
        """The head reported. Of a request that was dropped: nothing."""
        job = self._jobs.get(request)
        if job is None:
            return
        if tokens.finish:
            del self._jobs[request]
            self._tell(RequestEnded(request))
        if tokens.finish == "error":
            job.fail(_fault(job, tokens))
        else:
            job.news.put_nowait(tokens)

    def token_bytes(self, model: ModelId, token: int) -> bytes:
        """The bytes of one token, for logprobs."""
        return self._shelf.known(model).voice.tokenizer.token_bytes(token)


def _fault(job: Job, tokens: Tokens) -> RingleaderError:
    """The ring's error. The engine's own limits show only where a text meets them: such a pattern is the client's."""
    error = tokens.error
    if tokens.fault == "busy":
        return Busy(error)
    if tokens.fault == "too_long":
        return ContextTooLong(error, param="max_tokens")
    if not any(reason in error for reason in _OUTGROWN):
        return OurFault(f"request {job.request}: {error}")
    places = job.prompt.patterned or (("tools",) if job.prompt.choice.permitted else ("response_format",))
    return BadRequest(
        f"A pattern or grammar in {' or '.join(places[:PLACES_MAX])} outgrew what can be enforced, at a text that this "
        "answer came to. Make it simpler: smaller repetitions, none inside another, fewer wildcards.",
        param=places[0] if len(places) == 1 else places[0].split("[")[0].split(".")[0],
        code=CODE,
    )


def _fitted(job: Job, ring: RingClient) -> SlotSpec:
    """What the ring is told, within what its plan has memory for. Raises ContextTooLong, with the numbers."""
    room = job.entry.voice.context_max if ring.whole is None else ring.whole.kv_tokens
    prompt, wanted = job.spec.prompt_tokens, job.spec.max_tokens
    if prompt + wanted <= room:
        return job.spec
    if job.tokens_asked is None and prompt + job.spec.resumed_tokens < room:
        return replace(job.spec, max_tokens=room - prompt)
    raise ContextTooLong(
        f"{job.entry.model} is loaded with memory for {room} tokens. However, you requested {prompt + wanted} tokens "
        f"({prompt} in the messages, {wanted} in the completion). Please reduce the length of the messages or "
        "completion, or load the model with a larger --context.",
        param="messages" if prompt >= room else "max_tokens",
    )


def specified(
    voice: Voice,
    request: ChatRequest,
    prompt: Prompt,
    *,
    followers: bool = True,
    resumed: int = 0,
    prediction: tuple[int, ...] = (),
) -> SlotSpec:
    """What the ring is told of a request, which may not outgrow the model's context.

    `resumed` tokens of the answer came before; `prediction` are those that the client expects.
    """
    room = voice.context_max - len(prompt.ids)
    max_tokens = min(request.max_tokens or room, room)
    return SlotSpec(
        sampling=request.sampling,
        max_tokens=max_tokens,
        prompt_tokens=len(prompt.ids),
        opening_tokens=len(prompt.opening),
        grammar=prompt.grammar or "",
        top_logprobs=request.top_logprobs,
        followers=followers,
        demanded=prompt.demanded,
        think_close=voice.think_close,
        think_reserve=min(THINK_RESERVE_MAX, max_tokens // 2),
        resumed_tokens=resumed,
        prediction=prediction[:max_tokens],
    )


class Closable(Generic[T]):
    """A stream with a close that works even when nobody ever asked for its first item."""

    def __init__(self, inner: AsyncIterator[T], on_close: Callable[[], None]) -> None:
        self._inner = inner
        self._on_close = on_close

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    def __anext__(self) -> Awaitable[T]:
        return self._inner.__anext__()

    def cancel(self) -> None:
        """End what the stream is read from, unless it has ended."""
        self._on_close()

    async def aclose(self) -> None:
        """Stop reading; cancels the request unless it has ended."""
        self.cancel()
        close = getattr(self._inner, "aclose", None)
        if close is not None:
            with contextlib.suppress(RuntimeError):  # it is being iterated by a task that is being cancelled
                await close()


def _check_bias(request: ChatRequest, vocabulary: int) -> None:
    """The one field whose range only the model knows; the tail would index its logits with it."""
    for token, _ in request.sampling.logit_bias:
        if not 0 <= token < vocabulary:
            raise BadRequest(
                f"Invalid key in 'logit_bias': {token}. The token ids of {request.model} are 0 to {vocabulary - 1}.",
                param="logit_bias",
            )
