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
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace

from ringleader.cluster.messages import Event, PlanWish, RequestArrived, RequestCancelled, RequestEnded
from ringleader.errors import BadRequest, NodeUnreachable, OurFault, RingleaderError, RingLost
from ringleader.language.enforcement import Check, violation
from ringleader.language.outgrowth import CODE
from ringleader.language.prompt import Prompt, Voice, compose, parser
from ringleader.language.schema import sentence
from ringleader.language.stream import StreamParser
from ringleader.net.ring import RingClient, Tokens
from ringleader.node.shelf import Entry, Shelf
from ringleader.node.telemetry import RingMeter
from ringleader.values import (
    Answer,
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    ChatRequest,
    Delta,
    Finished,
    FinishReason,
    ModelId,
    ReasoningDelta,
    RequestId,
    SlotSpec,
    TextDelta,
    Usage,
)

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
    spec: SlotSpec
    started: asyncio.Future[None]
    news: asyncio.Queue[Tokens | RingleaderError] = field(default_factory=asyncio.Queue)

    def fail(self, error: RingleaderError) -> None:
        """End it with an error: before its start for whoever waits there, later for whoever reads."""
        if not self.started.done():
            self.started.set_exception(error)
        self.news.put_nowait(error)


class Desk:
    """Takes requests in (the API's Answerer) and connects them with what the cluster decides about them."""

    def __init__(
        self, shelf: Shelf, tell: Callable[[Event], None], wish: PlanWish, nodes_missing: Callable[[], int] = lambda: 0
    ) -> None:
        self._shelf = shelf
        self._tell = tell
        self._wish = wish
        self._nodes_missing = nodes_missing
        self._jobs: dict[RequestId, Job] = {}
        self._numbers = itertools.count(1)
        self._run = secrets.token_hex(4)  # ids differ between runs of the node
        self.meters: dict[ModelId, RingMeter] = {}
        self.followers = True

    async def answer(self, request: ChatRequest) -> Answer:
        """Accept `request`: everything that can be wrong with it is raised here, before a shard is touched.

        Raises CallerFault, ModelFault, and PeerFault when no ring can be had for it.
        """
        entry = await self._shelf.entry(request.model)
        _check_bias(request, entry.voice.tokenizer.vocab_size)
        today = datetime.date.today()
        prompt = await asyncio.to_thread(compose, entry.voice, replace(request, max_tokens=None), today)
        if missing := self._nodes_missing():
            raise NodeUnreachable(
                f"this node still waits for {missing} more to join (--nodes) before it loads {request.model}; "
                "send the request again when they are here"
            )
        job = self._job(request, entry, prompt)
        self._jobs[job.request] = job
        deadline = time.monotonic() + REQUEST_DEADLINE_S
        self._tell(RequestArrived(job.request, entry.costs, self._wish, deadline))
        try:
            await job.started
        except BaseException:  # the client may leave while the ring still loads
            self._drop(job)
            raise
        deltas = Deltas(self._deltas(request, job), lambda: self._drop(job))
        return Answer(request.model, deltas, prompt.warnings)

    def _job(self, request: ChatRequest, entry: Entry, prompt: Prompt) -> Job:
        spec = specified(entry.voice, request, prompt, followers=self.followers)
        name = RequestId(f"{self._run}-{next(self._numbers)}")
        return Job(name, entry, prompt, spec, asyncio.get_running_loop().create_future())

    async def _deltas(self, request: ChatRequest, job: Job) -> AsyncIterator[Delta]:
        reader = parser(job.entry.voice, job.prompt, request)
        meter = self.meters.setdefault(request.model, RingMeter())
        usage = Usage(prompt_tokens=len(job.prompt.ids), opening_tokens=len(job.prompt.opening))
        whole = _Whole(job.prompt)
        for delta in reader.open(job.prompt.opening):
            await whole.add(delta)
            yield delta
        finish: FinishReason | None = None
        while finish is None:
            news = await job.news.get()
            if isinstance(news, RingleaderError):
                raise news
            for delta in reader.feed(news.tokens, news.logprobs):
                usage = _reasoned(usage, delta)
                await whole.add(delta)
                yield delta
            meter.count(len(news.tokens), news.passes - usage.passes)
            usage = _counted(usage, news)
            finish = _finish(news, reader)
        for delta in reader.finish(finish):
            await whole.add(delta)
            yield delta
        meter.requests += 1
        reason = reader.finish_reason(finish)
        warnings = await whole.warnings() if reason == "stop" and not reader.stopped else ()
        yield Finished(reason, usage, warnings)

    def _drop(self, job: Job) -> None:
        """Nobody reads this request any more; if it still runs, it is cancelled everywhere."""
        if self._jobs.pop(job.request, None) is not None:
            self._tell(RequestCancelled(job.request))

    # ------------------------------------------------------------ what the cluster decided, what the ring said

    def dispatch(self, request: RequestId, ring: RingClient) -> None:
        """Hand the request to the ring. Raises RingLost when its head is gone."""
        if (job := self._jobs.get(request)) is not None:
            ring.submit(request, job.prompt.ids, job.spec)
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
            job.fail(_fault(job, tokens.error))
        else:
            job.news.put_nowait(tokens)

    def token_bytes(self, model: ModelId, token: int) -> bytes:
        """The bytes of one token, for logprobs."""
        return self._shelf.known(model).voice.tokenizer.token_bytes(token)


def _fault(job: Job, error: str) -> RingleaderError:
    """The tail's error. The engine's own limits show only where a text meets them: such a pattern is the client's."""
    if not any(reason in error for reason in _OUTGROWN):
        return OurFault(f"request {job.request}: {error}")
    places = job.prompt.patterned or (("tools",) if job.prompt.choice.permitted else ("response_format",))
    return BadRequest(
        f"A pattern or grammar in {' or '.join(places[:PLACES_MAX])} outgrew what can be enforced, at a text that this "
        "answer came to. Make it simpler: smaller repetitions, none inside another, fewer wildcards.",
        param=places[0] if len(places) == 1 else places[0].split("[")[0].split(".")[0],
        code=CODE,
    )


def specified(voice: Voice, request: ChatRequest, prompt: Prompt, *, followers: bool = True) -> SlotSpec:
    """What the ring is told of a request, which may not outgrow the model's context."""
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
    )


class Deltas:
    """The deltas with a close that works even when nobody ever asked for the first one."""

    def __init__(self, inner: AsyncIterator[Delta], on_close: Callable[[], None]) -> None:
        self._inner = inner
        self._on_close = on_close

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self

    async def __anext__(self) -> Delta:
        return await anext(self._inner)

    async def aclose(self) -> None:
        """Stop reading; cancels the request unless it has ended."""
        self._on_close()
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


class _Whole:
    """Keeps what must be checked when it is whole: each call of some tools, and a text of some forms.

    A call that fails ends the answer with an error, since a client would run it. A text that fails is told of.
    """

    def __init__(self, prompt: Prompt) -> None:
        self._checks = prompt.checks
        self._text = prompt.content.check if prompt.content is not None else None
        self._pieces: list[str] = []
        self._calls: dict[int, tuple[Check, list[str]]] = {}

    async def add(self, delta: Delta) -> None:
        """Take an answer's next delta. Raises BadRequest when it ends a call that breaks its schema."""
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
                if found is not None:
                    raise _broken_call(check, found)

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


def _finish(news: Tokens, reader: StreamParser) -> FinishReason | None:
    if reader.stopped:
        return "stop"
    if news.finish == "stop" or news.finish == "length":
        return news.finish
    return None


def _counted(usage: Usage, news: Tokens) -> Usage:
    return replace(
        usage,
        completion_tokens=usage.completion_tokens + len(news.tokens),
        forced_tokens=usage.forced_tokens + max(0, len(news.tokens) - 1),
        passes=news.passes,
    )


def _reasoned(usage: Usage, delta: Delta) -> Usage:
    if not isinstance(delta, ReasoningDelta):
        return usage
    return replace(usage, reasoning_tokens=usage.reasoning_tokens + len(delta.tokens))
