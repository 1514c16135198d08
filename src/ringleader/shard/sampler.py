"""Picks the next tokens of one slot at the tail: bias, penalties, grammar mask, draw, forced followers.

The mask comes after everything that moves logits, so that no bias or penalty can bring back a token that
the grammar refuses. A draw is a function of (seed, position): nothing else may influence it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

import mlx.core as mx
import numpy as np
from mlx_lm.sample_utils import (
    apply_min_p,
    apply_top_k,
    apply_top_p,
    make_frequency_penalty,
    make_presence_penalty,
    make_repetition_penalty,
)

from ringleader.shard.closing import Closer
from ringleader.shard.steering import Steering
from ringleader.values import Finish, SlotSpec, TokenLogprob

FOLLOWERS_MAX = 512  # forced tokens returned with one sampled token; the rest comes with the next
WHOLE_HISTORY = 1 << 30


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
        self._mask: Any = None

    def extend_prompt(self, tokens: tuple[int, ...]) -> None:
        """Remember what is fed, in order: the prompt (penalties and the grammar's opening read it), then what an
        earlier ring had answered."""
        known = self._spec.prompt_tokens + self._spec.resumed_tokens
        self._history.extend(tokens[: max(0, known - len(self._history))])

    @property
    def generated(self) -> int:
        """Tokens returned so far, followers and end token included."""
        return max(0, len(self._history) - self._spec.prompt_tokens)

    def pick(self, logits: Any, meanwhile: Callable[[], None] = lambda: None) -> Picked:
        """Sample after `logits` [vocabulary] (any float type), lazily computed. Evaluates them.

        `meanwhile` is called while they are computed, unless this is the last token.
        """
        mx.async_eval(logits)  # the mask is made while the forward pass still runs
        if error := self._start_grammar():
            return Picked(finish="error", error=error)
        raw = logits.astype(mx.float32)
        drawn = self._draw(self._masked(self._moved(raw)))
        mx.async_eval(drawn)
        if self.generated + 1 < self._spec.max_tokens:
            meanwhile()
        return self._accept(int(cast("int", drawn.item())), raw)

    def _start_grammar(self) -> str:
        if self._pending is None:
            return ""
        self._matcher, self._pending = self._pending.result(timeout=60), None
        spec = self._spec
        opening = self._history[spec.prompt_tokens - spec.opening_tokens : spec.prompt_tokens]
        if self._matcher.is_error():
            return f"the grammar does not compile here: {self._matcher.get_error()}"
        if opening and not self._matcher.consume_tokens(opening):
            return "the opening does not begin the grammar"
        if self._closer is not None:
            self._steering = Steering(self._closer.result(timeout=60), spec, self._matcher)
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

    def _moved(self, logits: Any) -> Any:
        sampling = self._spec.sampling
        rows = logits[None]
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
        return rows[0]

    def _masked(self, logits: Any) -> Any:
        if self._matcher is None:
            return logits
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        if self._mask is None:
            self._mask = allocate_token_bitmask(1, logits.shape[-1])
        fill_next_token_bitmask(self._matcher, self._mask, 0)
        legal = np.unpackbits(self._mask.view(np.uint8), bitorder="little")[: logits.shape[-1]]
        return mx.where(mx.array(legal.astype(np.bool_)), logits, -math.inf)

    def _draw(self, logits: Any) -> Any:
        """The token's id, not yet computed."""
        sampling = self._spec.sampling
        if sampling.temperature == 0.0:
            return mx.argmax(logits)
        rows = (logits / sampling.temperature)[None]
        rows = rows - mx.logsumexp(rows, axis=-1, keepdims=True)
        if 0 < sampling.top_k < rows.shape[-1]:
            rows = apply_top_k(rows, sampling.top_k)
        if sampling.top_p < 1.0:
            rows = apply_top_p(rows, sampling.top_p)
        if sampling.min_p > 0.0:
            rows = apply_min_p(rows, sampling.min_p)
        return mx.random.categorical(rows, key=draw_key(sampling.seed, len(self._history)))

    def _accept(self, token: int, raw: Any) -> Picked:
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


def draw_key(seed: int, position: int) -> Any:
    """The random key of the draw at `position` (tokens before it): SplitMix64's step keeps neighbours apart."""
    return mx.random.key((seed + (position + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF)


def _finite(value: Any) -> float:
    return max(float(value), -9999.0)
