"""What a pass costs, and what follows: how many batches, how long a prompt's chunk, how wide a pass. Pure.

A stage's time is taken as a line: so many seconds to read its weights once, so many more for each token computed.
Every frame tells what each stage took; old passes count less and less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

MEMORY = 0.98  # a pass counts this much of the next one: about fifty passes are remembered
GAP_MAX = 2.5  # a pass with a prompt's chunk before it, in passes without: answers that run keep their rhythm
CHUNK_MIN = 8  # tokens; with fewer, reading the weights is all that a prompt does
CHUNK_BEGIN = 64  # tokens of the first chunk beside answers at most; each may be twice the one before: what is
# concluded from passes of nearly one size may be far off, and then must not stop the answers for seconds
ENDING_S = 0.15  # a prompt that can be ended so soon is: once in a prompt, nobody who reads minds so short a stop
CHUNKS = (64, 128, 256, 512)  # tokens a chunk where prompts have the ring to themselves
CHUNK_MEMORY = 0.5  # a chunk's time counts this much less with each later one of its length
PARTS_BEGIN = 16  # chunks of a prompt before anything is known of them: short ones fill the stages soon
MARGIN = 0.95  # another number of batches must be this much faster than the one to expect: moving rows costs copies
MOVING_MEMORY = 0.5  # what moving rows took counts this much of the next time
MOVING_FADE = 0.99  # for each pass without: so that drafts which were too dear are tried again seldom
FREE_ROWS = 16  # tokens that are computed in the time of one reading, while nothing has been measured


@dataclass(frozen=True, slots=True)
class Offer:
    """What a row has to give to a pass: tokens, and then drafts, each of which is right with the same `chance` if
    the one before was."""

    tokens: int
    drafts: int = 0
    chance: float = 0.0

    def worth(self, width: int) -> float:
        """Tokens that the answer is further after a pass so wide, to expect."""
        drafts = min(self.drafts, width - self.tokens)
        if drafts <= 0:
            return min(self.tokens, width)
        return self.tokens + sum(self.chance**at for at in range(1, drafts + 1))


@dataclass(slots=True)
class _Line:
    """One stage's line through its (tokens, seconds), by least squares with fading weights."""

    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    xx: float = 0.0
    xy: float = 0.0

    def saw(self, tokens: int, seconds: float) -> None:
        terms = (1.0, tokens, seconds, tokens * tokens, tokens * seconds)
        sums = (self.weight, self.x, self.y, self.xx, self.xy)
        self.weight, self.x, self.y, self.xx, self.xy = (
            MEMORY * total + term for total, term in zip(sums, terms, strict=True)
        )

    def read(self) -> tuple[float, float]:
        """Seconds for the weights and seconds a token; neither is negative."""
        mean_x, mean_y = self.x / self.weight, self.y / self.weight
        spread = self.xx / self.weight - mean_x * mean_x
        if spread <= 1e-6 * (1 + mean_x * mean_x):
            return mean_y, 0.0  # passes of one size tell nothing of others
        slope = max(0.0, (self.xy / self.weight - mean_x * mean_y) / spread)
        if mean_y < slope * mean_x:
            return 0.0, mean_y / mean_x
        return mean_y - slope * mean_x, slope


@dataclass(slots=True)
class Rhythm:
    """The stages of one ring; `machines` names the machine of each, equal numbers for the same one."""

    machines: tuple[int, ...] = (0,)
    _lines: list[_Line] = field(default_factory=list)
    _chunk: int = CHUNK_BEGIN // 2  # the last one beside answers
    _chunk_s: dict[int, float] = field(default_factory=dict)  # what chunks of these lengths took the busiest machine
    _moving_s: float = 0.0  # what it takes to move the rows of a batch that step back by different numbers

    def saw(self, tokens: int, stage_s: Sequence[float], moved: bool = False) -> None:
        """A pass over `tokens` positions (padding too) took so long in each stage; other lengths are passed over.
        `moved` says that rows had stepped back before it by different numbers."""
        if len(stage_s) != len(self.machines):
            return
        if moved:
            expected = sum(self._stage_s(tokens)) if self._lines else sum(stage_s)
            more = max(0.0, sum(stage_s) - expected)
            self._moving_s = MOVING_MEMORY * self._moving_s + (1 - MOVING_MEMORY) * more
            return
        self._moving_s *= MOVING_FADE
        self._lines = self._lines or [_Line() for _ in self.machines]
        for line, seconds in zip(self._lines, stage_s, strict=True):
            line.saw(tokens, seconds)
        if tokens in CHUNKS:
            took = self._busiest_s(stage_s)
            before = self._chunk_s.get(tokens, took)
            self._chunk_s[tokens] = CHUNK_MEMORY * before + (1 - CHUNK_MEMORY) * took

    def batches(self, rows: int) -> int:
        """Into how many batches to split `rows` answers that run.

        By default as many as there are machines, so that all compute at once. Stages that share a machine gain
        nothing from it and read their weights more often. A batch is back after a whole way round, and no machine does
        more than one thing at a time: so the time for all is max(way round, batches x the busiest machine's part).
        """
        expected = max(1, min(rows, len(set(self.machines))))
        if not self._lines or rows < 2:
            return expected
        best = min(range(1, min(rows, len(self.machines)) + 1), key=lambda count: (self._cycle(count, rows), count))
        return best if self._cycle(best, rows) < MARGIN * self._cycle(expected, rows) else expected

    def _cycle(self, count: int, rows: int) -> float:
        stages = self._stage_s(-(-rows // count))
        return max(sum(stages), count * self._busiest_s(stages))

    def _busiest_s(self, stage_s: Sequence[float]) -> float:
        """What the busiest machine does of a pass."""
        parts = dict.fromkeys(self.machines, 0.0)
        for machine, seconds in zip(self.machines, stage_s, strict=True):
            parts[machine] += seconds
        return max(parts.values())

    def _stage_s(self, tokens: int) -> list[float]:
        return [weights + tokens * each for weights, each in (line.read() for line in self._lines)]

    def chunk_tokens(self, running_rows: int, most: int, rest: int, waiting: int) -> int:
        """How many tokens of a prompt that has `rest` left to compute between two passes of answers that run, or where
        none runs, of `waiting` tokens of prompts; never more than `most`."""
        if not running_rows:
            return min(most, self._alone(waiting))
        lines = [line.read() for line in self._lines]
        fixed, each = sum(weights for weights, _ in lines), sum(token for _, token in lines)
        room = (GAP_MAX - 1) * (fixed + running_rows * each) - fixed
        wanted = int(room / each) if each > 0 else most
        self._chunk = max(CHUNK_MIN, min(wanted, 2 * self._chunk, most))
        ends = rest <= CHUNK_BEGIN and each > 0 and fixed + rest * each <= ENDING_S
        return min(max(rest, self._chunk) if ends else self._chunk, most)

    def _alone(self, waiting: int) -> int:
        """The length of chunks that is through the ring soonest: long ones leave later machines without work at first
        and earlier ones at last, short ones read the weights more often."""
        others = len(set(self.machines)) - 1
        if not others:
            return CHUNKS[-1]
        if not self._chunk_s:
            return max((chunk for chunk in CHUNKS if chunk * PARTS_BEGIN <= waiting), default=CHUNKS[0])

        def through_s(chunk: int) -> float:
            took = self._chunk_s[chunk] if chunk in self._chunk_s else self._busiest_s(self._stage_s(chunk))
            return (waiting / chunk + others) * took

        longest = 2 * max(self._chunk_s)  # lines read off shorter ones are not trusted further
        return min((chunk for chunk in CHUNKS if chunk <= longest), key=through_s)

    def width(self, offers: Sequence[Offer], most: int, ragged: bool) -> int:
        """How many tokens of each row a pass takes, where row i has `offers[i]` to give; at most `most` for all rows.

        The width with the most tokens a second, padding paid for. Rows that cannot be padded give the same number.
        """
        longest = max(offer.tokens + offer.drafts for offer in offers)
        limit = max(1, min(most // len(offers), longest if ragged else min(offer.tokens for offer in offers)))
        lines = [line.read() for line in self._lines]
        fixed, each = sum(weights for weights, _ in lines), sum(token for _, token in lines)
        moving = self._moving_s if len(offers) > 1 else 0.0
        if each <= 0:
            fixed, each, moving = float(FREE_ROWS), 1.0, moving * FREE_ROWS / fixed if fixed > 0 else 0.0

        def rate(width: int) -> float:
            drafts = any(offer.drafts and offer.tokens < width for offer in offers)
            return sum(offer.worth(width) for offer in offers) / (
                fixed + width * len(offers) * each + (moving if drafts else 0.0)
            )

        wished = (range(offer.tokens, offer.tokens + offer.drafts + 1) for offer in offers)
        widths = sorted({1, *(min(count, limit) for counts in wished for count in counts)})
        return max(widths, key=lambda width: (rate(width), width))
