"""Keeps one slot's answer such that what is left of its tokens always suffices for an ending that is known.

    known ending fits, draw's own ending fits   -> the draw stands
    known ending fits, draw's own does not      -> the known ending's next token instead
    no ending known that fits                   -> the draw stands; the answer will be cut

So a call is complete whenever an ending was known that fitted when it began. A replaced draw is a function of
the tokens before it and the budget, as a draw is of seed and position.
"""

from __future__ import annotations

from typing import Any

from ringleader.shard.closing import STEPS, THOROUGH_STEPS, Closer, Ending
from ringleader.shard.terminators import terminators
from ringleader.values import SlotSpec

STEERED_TOKENS = 1024  # before the budget's end: more than one token can add to what is still to be written
PLANNED_MAX = 8192  # longer endings are not looked for


class Steering:
    """One slot's. `matcher` stands at the begin of what is generated, its opening consumed."""

    def __init__(self, closer: Closer, spec: SlotSpec, matcher: Any) -> None:
        self._closer = closer
        self._demanded = spec.demanded
        self._think_close = spec.think_close
        self._closers = _closers(closer, spec)
        self._remainders = closer.remainders(spec.grammar)
        self._ending: Ending | None = None  # from the state before the next draw; None: not known
        self._steps = THOROUGH_STEPS  # of the first search
        self._retried = spec.max_tokens  # what is left of the budget when a search that found nothing is made again
        self._reserve = spec.think_reserve if spec.demanded else 0
        if self._demanded:
            self._plan(matcher, min(spec.max_tokens, PLANNED_MAX))
        planned = self._ending or ()
        self._reserve = max(0, min(self._reserve, spec.max_tokens - len(planned)))
        self._steered = STEERED_TOKENS + 2 * len(planned) + self._reserve

    def choose(self, matcher: Any, drawn: int, rest: int) -> int:
        """The token to take at this state: `drawn`, or what must be there instead.

        `rest` is what is left of the budget, the token that is now chosen included.
        """
        if rest > self._steered or (not self._demanded and matcher.is_accepting()):
            self._ending = None
            return drawn
        if self._ending is None:
            self._plan(matcher, rest)
        if self._ending is None:
            return drawn
        after = matcher.deep_copy()
        if not after.consume_token(drawn):
            return drawn  # the sampler says what is wrong
        if after.is_stopped():
            self._ending = ()
            return drawn
        following = self._following(after, drawn, rest - 1)
        if not self._fits(following, rest - 1) and (instead := self._instead(matcher, rest)) is not None:
            self._ending = self._after_instead(matcher, instead, drawn, rest - 1)
            return instead
        self._ending = following
        return drawn

    def _after_instead(self, matcher: Any, instead: int, drawn: int, rest: int) -> Ending:
        """The ending from the state after `instead`: the very one that would be known had it been drawn, so that an
        answer that is taken again (see sampler.py) goes the same way."""
        known = self._ending
        if not known:
            return ()
        if instead != drawn and not self._fits(known[1:], rest):
            after = matcher.deep_copy()
            after.consume_token(instead)
            found = self._following(after, instead, rest)
            if found is not None and self._fits(found, rest):
                return found
        return known[1:]

    def follow(self, tokens: list[int]) -> None:
        """These forced tokens were taken after the chosen one."""
        if self._ending is not None and tokens:
            self._ending = self._closer.rest_of(self._ending, tuple(tokens))
            if self._ending is None:
                self._steps = THOROUGH_STEPS  # what was known to fit must be found again

    def _plan(self, matcher: Any, rest: int) -> None:
        if rest > self._retried:
            return
        steps, self._steps = self._steps, STEPS
        self._ending = self._closer.ending(matcher, rest, self._closers, steps, self._remainders)
        if self._ending is None:
            self._retried = rest // 2

    def _following(self, after: Any, drawn: int, rest: int) -> Ending | None:
        """An ending from the state after `drawn`: the known one if it still is one and fits, or else a new one."""
        known = self._ending
        just = known is not None and self._need(known) >= rest  # the last draw hardly stood: this one will not
        steps = STEPS // 4 if just else STEPS
        if known and known[0] == drawn:
            if self._fits(known[1:], rest):
                return known[1:]
        elif known is not None and self._closer.closes(after, known):
            if self._fits(known, rest):
                return known
            steps = STEPS // 4  # a shorter one than that is unlikely
        return self._closer.ending(after, rest, self._closers, steps, self._remainders)

    def _instead(self, matcher: Any, rest: int) -> int | None:
        """The known ending's next token, where it may be forced upon the model."""
        ending = self._ending
        if ending is None or len(ending) > rest:
            return None
        if not self._demanded and self._is_thinking(ending):
            return None  # nobody asked for more than text: reasoning that is cut stays cut
        return ending[0] if ending else self._closer.end_token(matcher)

    def _fits(self, ending: Ending | None, rest: int) -> bool:
        return ending is not None and self._need(ending) <= rest

    def _need(self, ending: Ending) -> int:
        return len(ending) + (self._reserve if self._is_thinking(ending) else 0)

    def _is_thinking(self, ending: Ending) -> bool:
        """Reasoning is open just where every short ending must close it."""
        close = self._think_close
        return bool(close) and any(ending[at : at + len(close)] == close for at in range(len(ending)))


def _closers(closer: Closer, spec: SlotSpec) -> tuple[Ending, ...]:
    texts = tuple(closer.tokens(text) for text in terminators(spec.grammar))
    return (spec.think_close, *texts) if spec.think_close else texts
