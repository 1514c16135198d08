"""Picks the next tokens of slots at the tail: bias, penalties, grammar mask, draw, forced followers, drafts.

The mask comes after everything that moves logits, so that no bias or penalty can bring back a token that
the grammar refuses. What one slot's sampler cannot do costs that slot alone. Drafts change no token: each is drawn as
it would have been without, and what was computed after the first that is not the draw is left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.sample_utils import (
    make_frequency_penalty,
    make_presence_penalty,
    make_repetition_penalty,
)

from ringleader.shard.closing import Closer
from ringleader.shard.drawing import drawn, legal_tokens, masked
from ringleader.shard.lookup import DRAFTS_MAX, Lookup
from ringleader.shard.steering import Steering
from ringleader.values import Finish, Sampling, SlotSpec, TokenLogprob

FOLLOWERS_MAX = 512  # forced tokens returned with one sampled token; the rest comes with the next
WHOLE_HISTORY = 1 << 30
GRAMMAR_DEADLINE_S = 60.0  # it is compiled while the prompt is computed, in a second at most

log = logging.getLogger("ringleader.shard")


@dataclass(frozen=True, slots=True)
class Picked:
    """Sampled tokens, `drawn` of them, each followed by what it forces; `logprobs` empty or one for each.

    `drafts` are what may come next.
    """

    tokens: tuple[int, ...] = ()
    finish: Finish = ""
    error: str = ""
    logprobs: tuple[TokenLogprob, ...] = field(default=())
    drawn: int = 0
    drafts: tuple[int, ...] = ()

    def then(self, other: Picked) -> Picked:
        """This, and what was picked after it."""
        logprobs = (*self.logprobs, *other.logprobs)
        return Picked((*self.tokens, *other.tokens), other.finish, other.error, logprobs, self.drawn + other.drawn)


class Sampler:
    """Samples for one slot. `matcher` resolves to a `llguidance.LLMatcher`, or None without grammar.

    Without a `closer`, an answer that meets the end of its budget is cut wherever it stands. With `drafts`, and unless
    the request wants none, it guesses what comes next.
    """

    def __init__(
        self,
        spec: SlotSpec,
        matcher: Future[Any] | None,
        eos_ids: frozenset[int],
        closer: Future[Closer] | None = None,
        drafts: bool = False,
    ) -> None:
        self._spec = spec
        self._lookup = Lookup(spec.prompt_tokens, spec.prediction) if drafts and spec.drafts else None
        self._pending = matcher
        self._matcher: Any = None
        self._eos = eos_ids
        self._closer = closer
        self._steering: Steering | None = None
        self._history: list[int] = []  # the prompt, then what was returned

    def extend_prompt(self, tokens: tuple[int, ...]) -> None:
        """Remember what is fed, in order: the prompt (penalties and the grammar's opening read it), then what an
        earlier ring had answered."""
        known = self._spec.prompt_tokens + self._spec.resumed_tokens
        self._remember(tokens[: max(0, known - len(self._history))])

    def _remember(self, tokens: Sequence[int]) -> None:
        self._history.extend(tokens)
        if self._lookup is not None:
            self._lookup.extend(tokens)

    def taken(self, start: int, stop: int) -> tuple[int, ...]:
        """Tokens `start` to `stop` of the prompt and the answer after it."""
        return tuple(self._history[start:stop])

    @property
    def generated(self) -> int:
        """Tokens returned so far, followers and end token included."""
        return max(0, len(self._history) - self._spec.prompt_tokens)

    @property
    def matcher(self) -> Any:
        """The grammar's state; None without grammar, or before `begin`."""
        return self._matcher

    @property
    def sampling(self) -> Sampling:
        return self._spec.sampling

    @property
    def position(self) -> int:
        """Tokens before the next draw."""
        return len(self._history)

    def goes_on(self) -> bool:
        """Whether more than one token is left of the budget."""
        return self.generated + 1 < self._spec.max_tokens

    def pick(self, logits: Any, meanwhile: Callable[[], None] = lambda: None) -> Picked:
        """Sample after `logits` [vocabulary]; see `pick_rows`."""
        return pick_rows([self], logits[None], meanwhile)[0]

    def begin(self) -> str:
        """Wait for the grammar, if it is not here yet; what is wrong with it, or nothing."""
        return "" if self._pending is None else self._start_grammar()

    def _start_grammar(self) -> str:
        assert self._pending is not None
        self._matcher, self._pending = self._pending.result(timeout=GRAMMAR_DEADLINE_S), None
        spec = self._spec
        opening = self._history[spec.prompt_tokens - spec.opening_tokens : spec.prompt_tokens]
        if self._matcher.is_error():
            return f"the grammar does not compile here: {self._matcher.get_error()}"
        if opening and not self._matcher.consume_tokens(opening):
            return "the opening does not begin the grammar"
        if self._closer is not None:
            self._steering = Steering(self._closer.result(timeout=GRAMMAR_DEADLINE_S), spec, self._matcher)
        return self._go_again()

    def _go_again(self) -> str:
        """Take what an earlier ring had answered as it was taken there: grammar and steering stand as they stood."""
        begin = self._spec.prompt_tokens
        resumed, at = self._history[begin : begin + self._spec.resumed_tokens], 0
        while at < len(resumed):
            if self._steering is not None:
                self._steering.choose(self._matcher, resumed[at], self._spec.max_tokens - at)
            if not self._matcher.consume_token(resumed[at]):
                return "what was answered before does not follow the grammar"
            followers = self._followers()
            if resumed[at + 1 : at + 1 + len(followers)] != followers:
                return "what was answered before lacks a forced token"
            at += 1 + len(followers)
        return ""

    @property
    def moves(self) -> bool:
        """Whether bias or penalties move this slot's logits."""
        s = self._spec.sampling
        return bool(s.logit_bias or s.repetition_penalty != 1.0 or s.presence_penalty or s.frequency_penalty)

    def moved(self, rows: Any, ahead: tuple[int, ...] = ()) -> Any:
        """Logits [1, vocabulary] after bias and penalties, where `ahead` are tokens that have yet to be taken."""
        sampling = self._spec.sampling
        history = [*self._history, *ahead]
        if sampling.logit_bias:
            at = mx.array([token for token, _ in sampling.logit_bias])
            rows = rows.at[:, at].add(mx.array([bias for _, bias in sampling.logit_bias]))
        if sampling.repetition_penalty != 1.0:
            rows = make_repetition_penalty(sampling.repetition_penalty, WHOLE_HISTORY)(mx.array(history), rows)
        answer = history[self._spec.prompt_tokens :]
        if answer and sampling.presence_penalty:
            rows = make_presence_penalty(sampling.presence_penalty, WHOLE_HISTORY)(mx.array(answer), rows)
        if answer and sampling.frequency_penalty:
            rows = make_frequency_penalty(sampling.frequency_penalty, WHOLE_HISTORY)(mx.array(answer), rows)
        return rows

    def accept(self, token: int, raw: Any) -> Picked:
        """Take the drawn `token`; `raw` are the model's own logits [vocabulary], read where logprobs are asked for."""
        room = self._spec.max_tokens - self.generated
        stopped = token in self._eos and self._matcher is None
        if self._steering is not None:
            token = self._steering.choose(self._matcher, token, room)
        tokens = [token]
        if self._matcher is not None:
            legal = self._matcher.consume_token(token)
            if not legal or self._matcher.is_error():
                reason = self._matcher.get_error() or f"token {token} is not legal here"
                return Picked(finish="error", error=f"the grammar allows no way on: {reason}")
            tokens += self._followers()
            stopped = self._matcher.is_stopped() or self._is_enough(len(tokens) == room)
        finish: Finish = "stop" if stopped and len(tokens) <= room else "length" if len(tokens) >= room else ""
        tokens = tokens[:room]
        self._remember(tokens)
        return Picked(tuple(tokens), finish, "", self._logprobs(tokens, raw), drawn=1)

    def guess(self) -> tuple[int, ...]:
        """What may come next: legal, without an end, and such that a token is left to draw after it."""
        if self._lookup is None:
            return ()
        found = self._lookup.guess(min(DRAFTS_MAX, self._spec.max_tokens - self.generated - 1))
        end = next((at for at, token in enumerate(found) if token in self._eos), len(found))
        if self._matcher is not None and end:
            end = max(0, self._matcher.validate_tokens(list(found[:end])))
        return found[:end]

    def _followers(self) -> list[int]:
        if not self._spec.followers:
            return []
        followers = [int(token) for token in self._matcher.compute_ff_tokens()[:FOLLOWERS_MAX]]
        if followers:
            self._matcher.consume_tokens(followers)
            if self._steering is not None:
                self._steering.follow(followers)
        return followers

    def _is_enough(self, spent: bool) -> bool:
        """Whether the budget ends just where a demanded answer is complete, though it could go on."""
        return spent and self._spec.demanded and bool(self._matcher.is_accepting())

    def _logprobs(self, tokens: list[int], raw: Any) -> tuple[TokenLogprob, ...]:
        if self._spec.top_logprobs is None or not tokens:
            return ()
        logprobs = np.array(raw - mx.logsumexp(raw))
        count = min(self._spec.top_logprobs, logprobs.shape[-1])
        best = np.argsort(-logprobs, kind="stable")[:count] if count else ()
        top = tuple((int(i), _finite(logprobs[i])) for i in best)
        sampled = TokenLogprob(tokens[0], _finite(logprobs[tokens[0]]), top)
        return (sampled, *(TokenLogprob(token, 0.0) for token in tokens[1:]))


def _finite(value: Any) -> float:
    return max(float(value), -9999.0)


def pick_rows(
    samplers: Sequence[Sampler],
    logits: Any,
    meanwhile: Callable[[], None] = lambda: None,
    drafts: Sequence[tuple[int, ...]] = (),
) -> list[Picked]:
    """Sample after `logits` [rows, vocabulary] (any float type), lazily computed. Evaluates them, once.

    A sampler has one row, and one more for each of its `drafts`, after it. `meanwhile` is called while they are
    computed, unless there are drafts or every sampler takes its last token.
    """
    drafts = drafts or ((),) * len(samplers)
    mx.async_eval(logits)  # the masks are made while the forward pass still runs
    errors = [_tried(sampler.begin) for sampler in samplers]
    sound = [not error for error in errors]
    matchers = [sampler.matcher if ok else None for sampler, ok in zip(samplers, sound, strict=True)]
    legal = legal_tokens(matchers, logits.shape[-1], drafts)
    raw = logits.astype(mx.float32)
    places = [
        _Place(sampler, each[:at])
        for sampler, each in zip(samplers, drafts, strict=True)
        for at in range(len(each) + 1)
    ]
    moved = _moved(raw, places, [sampler for sampler, ok in zip(samplers, sound, strict=True) if ok])
    samplings = [place.sampler.sampling for place in places]
    tokens = drawn(masked(moved, legal), samplings, [place.position for place in places])
    mx.async_eval(tokens)
    if not any(drafts) and any(sampler.goes_on() for sampler in samplers):
        meanwhile()
    drew, at = tokens.tolist(), 0
    found = []
    for sampler, each, error in zip(samplers, drafts, errors, strict=True):
        rows = slice(at, at := at + len(each) + 1)
        if error:
            found.append(Picked(finish="error", error=error))
        else:
            found.append(_accepted(sampler, drew[rows], raw[rows], each))
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a token is drawn: after a sampler's history and so many of its drafts."""

    sampler: Sampler
    ahead: tuple[int, ...]

    @property
    def position(self) -> int:
        return self.sampler.position + len(self.ahead)


def _moved(raw: Any, places: Sequence[_Place], sound: Sequence[Sampler]) -> Any:
    """The rows after the bias and penalties of those samplers that could begin."""
    movers = {id(sampler) for sampler in sound if sampler.moves}
    if not movers:
        return raw
    rows = [raw[at : at + 1] for at in range(len(places))]
    return mx.concatenate(
        [
            place.sampler.moved(row, place.ahead) if id(place.sampler) in movers else row
            for place, row in zip(places, rows, strict=True)
        ]
    )


def _tried(begin: Callable[[], str]) -> str:
    try:
        return begin()
    except Exception as fault:
        log.error("a slot's grammar could not be begun", exc_info=fault)
        return f"the grammar could not be begun: {fault!r}"


def _accepted(sampler: Sampler, tokens: Sequence[int], raw: Any, drafts: tuple[int, ...]) -> Picked:
    """Take what was drawn, until it is not what was drafted: the rows after that are of another text."""
    found, at = Picked(), 0
    try:
        while True:
            each = sampler.accept(tokens[at], raw[at])
            found, begin, at = found.then(each), at, at + len(each.tokens)
            if each.finish:
                return found
            if drafts[begin:at] != each.tokens:
                return replace(found, drafts=sampler.guess())
    except Exception as fault:  # other rows go on: whatever it was, it is told to this slot's request
        log.error("a slot's token could not be taken", exc_info=fault)
        return Picked(finish="error", error=f"its token could not be taken: {fault!r}")
