"""Finds short legal endings of an answer by walking its grammar ahead, on copies of the matcher.

Knows neither model nor budget, and never changes the matcher that it is given. An ending that is not found
within the limit is unknown, which is not the same as impossible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

from ringleader.shard.ranking import QUOTES, Order, Way, rank_tokens
from ringleader.shard.spelling import Remainder, Speller

Ending = tuple[int, ...]

STEPS = 100  # masks looked at after a draw, where the first ways do not fit: up to 10 ms
THOROUGH_STEPS = 1000  # the same once at the begin of a tight request: 0.1 s, or 1 s where all masks are wide
TRIED_MAX = 3  # tokens of one kind that are tried at one place
FEW = 24  # so few legal tokens are names and signs: each may lead elsewhere, so each is tried
WIDE = 8  # a mask of more than 1/8 of the vocabulary: free text, whose end the mask does not show
SLACK = 64  # tokens beyond twice the limit: so long a first ending may still be shortened to fit
NONE = 1 << 30  # the length of no ending
PROBES = (b"a", b"Z", b"0", b"the", b"in", b" a", b".", b"-", b"<")  # where all of these stay legal, text goes on
PROBES_MIN = 3
ROUNDS = 3  # of an array's items without an end, say, after which its end is tried
MARKS_MAX = 64  # of a vocabulary with more special tokens than these, a mask is quicker than one look at each
CHUNKS = (256, 4096)  # how much of an order is looked at before the next larger piece


@dataclass(frozen=True, slots=True)
class _Turn:
    """A place of a walk where another way could have been taken: a copy, and what was walked before.

    `decides` where few tokens were legal: what is chosen there says what must be written, elsewhere only how.
    """

    matcher: Any
    before: Ending
    taken: int
    decides: bool


@dataclass(slots=True)
class _Search:
    """One search: the shortest ending so far, and where something else could be tried.

    What lies on the shortest ending's own way comes first, so that each improvement is built upon; decisions
    come before all else, the earliest first.
    """

    steps: int
    cap: int  # the longest ending worth walking to
    closers: Sequence[Ending]
    remainders: Sequence[Remainder]
    best: Ending | None = None
    own: list[_Turn] = field(default_factory=list)
    others: list[_Turn] = field(default_factory=list)
    walked: list[_Turn] = field(default_factory=list)  # of the walk that is under way

    def walk_ended(self, found: Ending | None, start: int) -> None:
        """The walk that began after `start` tokens led to `found`."""
        if found is None:
            self.others += self.walked
        else:
            self.best, self.cap = found, len(found) - 1
            self.own = [turn for turn in self.own if len(turn.before) <= start] + self.walked
        self.walked = []

    def next_turn(self) -> _Turn | None:
        """Where to try something else now, or None when the steps or the places are used up."""
        for decides in (True, False):
            for turns in (self.own, self.others):
                at = next((at for at, turn in enumerate(turns) if turn.decides is decides), None)
                if at is not None and self.steps > 0:
                    return turns.pop(at)
        return None


class Closer:
    """Endings in one vocabulary. Not thread-safe: it reuses one mask.

    An ending leads to a state that accepts; the end token is not part of it.
    """

    def __init__(self, view: Any, eos_ids: frozenset[int]) -> None:
        self._view = view
        self._eos = eos_ids
        self._ranking = rank_tokens(view, eos_ids)
        special = view.is_special_token
        texts = [b"" if special(token) else bytes(view.decode_bytes([token])) for token in range(view.vocab_size)]
        self._speller = Speller(view, texts)
        self._filled = 0  # masks made, ever
        self._marks = [int(token) for token in self._ranking.ways[0].wide[0]]
        self._probes = [tokens[0] for text in PROBES if len(tokens := self._tokens(text)) == 1]
        self._signs = [self._tokens(sign) for sign in (b")", b"]", b"}")]
        self._mask = allocate_token_bitmask(1, view.vocab_size)

    def tokens(self, text: str) -> Ending:
        """`text` as ordinary tokens."""
        return self._tokens(text.encode())

    def _tokens(self, text: bytes) -> Ending:
        return tuple(self._view.tokenize_bytes(text))

    def remainders(self, grammar: str) -> tuple[Remainder, ...]:
        """What may end the strings of `grammar` that have a form, those of the fewest tokens first."""
        return self._speller.remainders(grammar)

    def end_token(self, matcher: Any) -> int | None:
        """A legal end token, if there is one here."""
        return next((token for token in sorted(self._eos) if matcher.validate_tokens([token]) == 1), None)

    def rest_of(self, ending: Ending, taken: Ending) -> Ending | None:
        """What is left of `ending` after `taken`, which may be the same text in other tokens; None after other text."""
        if ending[: len(taken)] == taken:
            return ending[len(taken) :]
        size, at = len(self._view.decode_bytes(list(taken))), 0
        if self._view.decode_bytes(list(ending))[:size] != self._view.decode_bytes(list(taken)):
            return None
        for n, token in enumerate(ending):
            text = self._view.decode_bytes([token])
            if at + len(text) > size:  # this one was begun, or not even that
                return (token, *ending[n + 1 :]) if at == size else (*self._tokens(text[size - at :]), *ending[n + 1 :])
            at += len(text)
        return ()

    def closes(self, matcher: Any, ending: Ending) -> bool:
        """Whether `ending` is legal here, leads to where the answer may end, and goes where the grammar forces."""
        end = next(iter(self._eos), None)
        if end is None or matcher.validate_tokens([*ending, end]) <= len(ending):
            return False
        forced = self._forced(matcher)
        return tuple(forced) == ending[: len(forced)]

    def ending(
        self,
        matcher: Any,
        limit: int,
        closers: Sequence[Ending] = (),
        steps: int = STEPS,
        remainders: Sequence[Remainder] = (),
    ) -> Ending | None:
        """A short ending of at most `limit` tokens, the first one found; `steps` bounds the search (masks made).

        `closers` are what may end free text whose end no mask shows, `remainders` what strings of a certain form may
        still need.
        """
        search = _Search(steps, 2 * limit + SLACK, closers, remainders)
        for way in self._ranking.ways:
            if self._walk(matcher.deep_copy(), (), way, search) <= limit:
                return search.best
        while (turn := search.next_turn()) is not None:
            for token in self._other_ways(turn) if len(turn.before) < search.cap else ():
                copy, before = turn.matcher.deep_copy(), (*turn.before, token)
                if copy.consume_token(token) and self._walk(copy, before, self._ranking.ways[0], search) <= limit:
                    return search.best
        return None

    # ------------------------------------------------------------ one walk

    def _walk(self, matcher: Any, before: Ending, way: Way, search: _Search) -> int:
        """Walks `matcher` to where it accepts, always by the token that `way` puts first.

        Gives the length of the shortest ending that the search now knows.
        """
        out, last = list(before), -1
        places: dict[int, list[int]] = {}  # where each token was decided upon
        while not matcher.is_accepting() and search.steps > 0 and len(out) <= search.cap:
            step: Sequence[int] = self._forced(matcher)
            if step:
                if not matcher.consume_tokens(list(step)):
                    break
                out += step
            else:
                search.steps -= 1
                legal = self._fill(matcher)
                step = self._choose(matcher, legal, way, search, last)
                if not step:
                    break
                last = step[0] if len(step) == 1 else -1
                decides = legal <= FEW and not self._ranking.digits[step[0]]
                if decides and _goes_round(out, places.setdefault(step[0], [])):
                    self._fill(matcher)
                    step = next(((token,) for token in self._legal(way.narrow) if token != step[0]), step)
                search.walked.append(_Turn(matcher.deep_copy(), tuple(out), step[0], decides))
                if not self._take(matcher, step, out):
                    break
        ended = matcher.is_accepting() and not matcher.is_error() and len(out) <= search.cap
        search.walk_ended(tuple(out) if ended else None, len(before))
        return NONE if search.best is None else len(search.best)

    def _take(self, matcher: Any, step: Sequence[int], out: list[int]) -> bool:
        """Consumes `step` as far as the grammar does not force other tokens for its rest: those will be written."""
        for at, token in enumerate(step, 1):
            if not matcher.consume_token(token):
                return False
            out.append(token)
            if at < len(step) and (forced := self._forced(matcher)) and forced != list(step[at : at + len(forced)]):
                break
        return True

    def _forced(self, matcher: Any) -> list[int]:
        forced: list[int] = []
        for token in matcher.compute_ff_tokens():
            if token in self._eos:
                break
            forced.append(int(token))
        return forced

    def _choose(self, matcher: Any, legal: int, way: Way, search: _Search, last: int) -> Ending:
        """The next step; `last` is the token that was chosen just before, or -1."""
        if legal * WIDE < self._view.vocab_size:
            first = self._first_legal(way.narrow)
            if self._may_need_more(first, legal):
                kept = self._mask.copy()
                if rest := self._remainder(matcher, legal, search):
                    return rest
                self._mask[:] = kept
            if first is not None and (quote := self._opening(matcher, first) or self._closing(matcher, first)):
                return quote
            if first == last and self._ranking.endless[last]:  # a number that is long enough, or not yet
                first = next((token for token in self._legal(self._ranking.onward) if token != last), first)
            return () if first is None else (first,)
        marker, *quotes = (self._first_legal(order) for order in way.wide)
        if marker is not None:
            return (marker,)
        text = self._first_legal(self._ranking.long)
        onward = self._first_legal(way.narrow) if text is None else text
        ends = [*search.closers, *((token,) for token in quotes if token is not None)]
        if found := next((each for each in ends if self._narrows(matcher, each, legal)), None):
            return self._closing(matcher, found[0]) or found if len(found) == 1 else found
        return self._remainder(matcher, legal, search) or (() if onward is None else (onward,))

    def _opening(self, matcher: Any, first: int) -> Ending:
        """The quote alone where `first` is a quote with closing signs after it, and they would be a string's text."""
        text = bytes(self._view.decode_bytes([first])) if self._ranking.closing[first] else b""
        signs = text.lstrip()
        if len(signs) < 2 or signs[0] not in QUOTES or signs[0] == signs[1]:
            return ()
        quote = self._tokens(text[: len(text) - len(signs) + 1])
        is_text = all(matcher.validate_tokens([*quote, *sign]) == len(quote) + len(sign) for sign in self._signs)
        return quote if is_text and len(quote) == 1 else ()

    def _closing(self, matcher: Any, first: int) -> Ending:
        """What closes alone where `first` closes and goes on with a comma, though all around it may be closed too."""
        text = bytes(self._view.decode_bytes([first])) if self._ranking.closing[first] else b""
        end, comma, _ = text.partition(b",")
        tokens = self._tokens(end) if end and comma else ()
        if len(tokens) != 1 or not any(
            matcher.validate_tokens([*tokens, *sign]) == 1 + len(sign) for sign in self._signs
        ):
            return ()
        return tokens

    def _may_need_more(self, first: int | None, legal: int) -> bool:
        """Whether a string may stand here whose end is not the first thing to try. Few tokens are most often signs."""
        if first is None or legal == 1:
            return False
        return bool(self._ranking.text[first] if legal <= FEW else not self._ranking.closing[first])

    def _remainder(self, matcher: Any, legal: int, search: _Search) -> Ending:
        """What brings the string that the matcher stands in to its end, if it is one of a known form."""
        filled = self._filled
        found = next((each.tokens for each in search.remainders if self._narrows(matcher, each.proof, legal)), ())
        search.steps -= self._filled - filled
        return found

    def _narrows(self, matcher: Any, end: Ending, legal: int) -> bool:
        """Whether `end` really ends the free text here: after it, not everything is legal any more."""
        if not end or matcher.validate_tokens(list(end)) != len(end):
            return False
        after = matcher.deep_copy()
        if not after.consume_tokens(list(end)):
            return False
        if after.is_accepting() or self._forced(after):
            return True
        if self._goes_on(matcher, after):
            return False
        return self._fill(after) * 2 < legal or self._first_legal(self._ranking.ways[0].wide[0]) is not None

    def _goes_on(self, before: Any, after: Any) -> bool:
        """Whether it is plain without a mask (a thousand times the work) that the text goes on in `after` as before."""
        if len(self._marks) > MARKS_MAX:
            return False
        probes = [token for token in self._probes if before.validate_tokens([token])]
        if len(probes) < PROBES_MIN or not all(after.validate_tokens([token]) for token in probes):
            return False
        return not any(after.validate_tokens([token]) for token in self._marks)

    # ------------------------------------------------------------ masks

    def _fill(self, matcher: Any) -> int:
        """Computes the mask; the number of legal tokens."""
        self._filled += 1
        fill_next_token_bitmask(matcher, self._mask, 0)
        return int(np.bitwise_count(self._mask.view(np.uint32)).sum())

    def _first_legal(self, order: Order) -> int | None:
        return next(self._legal(order), None)

    def _legal(self, order: Order) -> Iterator[int]:
        """The legal tokens of the mask as it is now, in this order."""
        words, start = self._mask[0].view(np.uint32), 0
        for stop in (*CHUNKS, len(order)):
            part = order[start:stop]
            legal = (words[part >> 5] >> (part & 31).astype(np.uint32)) & 1
            yield from (int(token) for token in part[np.flatnonzero(legal)])
            start = stop

    def _other_ways(self, turn: _Turn) -> list[int]:
        legal = self._fill(turn.matcher)
        first = self._ranking.ways[0]
        if legal <= FEW:
            ways = list(self._legal(first.narrow))
        else:
            orders = (*first.wide, first.narrow, self._ranking.ways[2].narrow, self._ranking.long)
            ways = [token for order in orders for token, _ in zip(self._legal(order), range(TRIED_MAX), strict=False)]
        return [token for token in dict.fromkeys(ways) if token != turn.taken and token not in self._eos]


def _goes_round(out: Sequence[int], places: list[int]) -> bool:
    """Whether the same was written three times between decisions for one token; notes that it is decided upon again."""
    places.append(len(out))
    spans = [tuple(out[start:stop]) for start, stop in pairwise(places[-ROUNDS - 1 :])]
    return len(spans) == ROUNDS and len(set(spans)) == 1
