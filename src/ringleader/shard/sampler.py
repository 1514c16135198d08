"""Picks the next tokens of slots at the tail: bias, penalties, grammar mask, draw, forced followers.

The mask comes after everything that moves logits, so that no bias or penalty can bring back a token that
the grammar refuses. What one slot's sampler cannot do costs that slot alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
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
from ringleader.shard.steering import Steering
from ringleader.values import Finish, Sampling, SlotSpec, TokenLogprob

FOLLOWERS_MAX = 512  # forced tokens returned with one sampled token; the rest comes with the next
WHOLE_HISTORY = 1 << 30
GRAMMAR_DEADLINE_S = 60.0  # it is compiled while the prompt is computed, in a second at most

log = logging.getLogger("ringleader.shard")


@dataclass(frozen=True, slots=True)
class Picked:
    """One sampled token and its forced followers, in order; `logprobs` empty or one for each."""

    tokens: tuple[int, ...] = ()
    finish: Finish = ""
    error: str = ""
    logprobs: tuple[TokenLogprob, ...] = field(default=())


class Sampler:
    """Samples for one slot. `matcher` resolves to a `llguidance.LLMatcher`, or None without grammar.

    Without a `closer`, an answer that meets the end of its budget is cut wherever it stands.
    """

    def __init__(
        self,
        spec: SlotSpec,
        matcher: Future[Any] | None,
        eos_ids: frozenset[int],
        closer: Future[Closer] | None = None,
    ) -> None:
        self._spec = spec
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
        self._history.extend(tokens[: max(0, known - len(self._history))])

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

    def moved(self, rows: Any) -> Any:
        """Logits [1, vocabulary] after bias and penalties."""
        sampling = self._spec.sampling
        if sampling.logit_bias:
            at = mx.array([token for token, _ in sampling.logit_bias])
            rows = rows.at[:, at].add(mx.array([bias for _, bias in sampling.logit_bias]))
        if sampling.repetition_penalty != 1.0:
            rows = make_repetition_penalty(sampling.repetition_penalty, WHOLE_HISTORY)(mx.array(self._history), rows)
        answer = self._history[self._spec.prompt_tokens :]
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
        self._history.extend(tokens)
        return Picked(tuple(tokens), finish, "", self._logprobs(tokens, raw))

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


def pick_rows(samplers: Sequence[Sampler], logits: Any, meanwhile: Callable[[], None] = lambda: None) -> list[Picked]:
    """Sample for each row of `logits` [rows, vocabulary] (any float type), lazily computed. Evaluates them, once.

    `meanwhile` is called while they are computed, unless every row takes its last token.
    """
    mx.async_eval(logits)  # the masks are made while the forward pass still runs
    errors = [_tried(sampler.begin) for sampler in samplers]
    sound = [not error for error in errors]
    matchers = [sampler.matcher if ok else None for sampler, ok in zip(samplers, sound, strict=True)]
    legal = legal_tokens(matchers, logits.shape[-1])
    raw = rows = logits.astype(mx.float32)
    if any(ok and sampler.moves for sampler, ok in zip(samplers, sound, strict=True)):
        each = [raw[at : at + 1] for at in range(len(samplers))]
        rows = mx.concatenate([s.moved(row) if s.moves else row for s, row in zip(samplers, each, strict=True)])
    tokens = drawn(masked(rows, legal), [s.sampling for s in samplers], [s.position for s in samplers])
    mx.async_eval(tokens)
    if any(sampler.goes_on() for sampler in samplers):
        meanwhile()
    found = []
    for at, (sampler, token, error) in enumerate(zip(samplers, tokens.tolist(), errors, strict=True)):
        found.append(Picked(finish="error", error=error) if error else _accepted(sampler, token, raw[at]))
    return found


def _tried(begin: Callable[[], str]) -> str:
    try:
        return begin()
    except Exception as fault:
        log.error("a slot's grammar could not be begun", exc_info=fault)
        return f"the grammar could not be begun: {fault!r}"


def _accepted(sampler: Sampler, token: int, raw: Any) -> Picked:
    try:
        return sampler.accept(token, raw)
    except Exception as fault:  # other rows go on: whatever it was, it is told to this slot's request
        log.error("a slot's token could not be taken", exc_info=fault)
        return Picked(finish="error", error=f"its token could not be taken: {fault!r}")
