"""Decides what a small model beside the head computes ahead of the answers: what it believes comes next. Pure.

Laws: nothing waits for it. While a slot's segment is in the ring, its course goes on past what the segment carries, as
if all of that were right; when the segment is back and it was, what was believed is ready to ride. Else it begins
anew from what is true, and the next pass has no drafts.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from ringleader.shard.lookup import Chance
from ringleader.values import Sampling, SlotSpec

DEPTH_MAX = 8  # drafts that ride at once: so many are seldom all right, and each is a step of the small model
DEPTH_BEGIN = 4  # while nothing has been measured
CHUNK = 64  # tokens of a text that the model catches up on at once: a frame that comes meanwhile waits no longer
STEPS_BEGIN = 8  # that are made before one is held to what steps take: the first are slow
FADE = 0.9  # a pass counts this much of the next one, and a step of one that took longer
FADE_SLOW = 0.5  # a step counts this much of one that took less: others may have held it up
FORGIVING = 0.99  # for each pass without a step: so that a model which was too slow once is tried again, seldom


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the small model: of slot `slot` it keeps `keep` positions and takes `tokens` after them. `draws`
    says how a token is to be drawn after these; None wants none. What is held of `forgotten` slots goes first; there
    may be nothing else to do (slot 0)."""

    slot: int = 0
    keep: int = 0
    tokens: tuple[int, ...] = ()
    draws: Sampling | None = None
    forgotten: tuple[int, ...] = ()
    turning: int = 0  # how often the course had been wrong


@dataclass(slots=True)
class _Course:
    """One slot. `tokens` are its request's, known to be true, and grow where they stand; `believed` follow them."""

    tokens: list[int]
    sampling: Sampling
    tokens_max: int
    believed: list[int] = field(default_factory=list)
    fed: int = 0  # tokens, then believed ones, that the small model holds
    riding: int = 0  # of the believed ones, in the ring
    foreign: bool = False  # the segment in the ring carries drafts of another origin
    over: bool = False  # the answer ends after what is believed
    turning: int = 0
    chance: Chance = field(default_factory=Chance)

    def __len__(self) -> int:
        return len(self.tokens) + len(self.believed)

    def grew(self, count: int) -> None:
        """The last `count` tokens have come, and tell how much of what was believed is true."""
        begin = len(self.tokens) - count
        compared = min(count, len(self.believed))
        right = 0
        while right < compared and self.believed[right] == self.tokens[begin + right]:
            right += 1
        self.chance.saw(compared, right)
        self.riding, self.foreign = 0, False
        if right == count:
            del self.believed[:right]
        else:
            self.believed.clear()
            self.fed = min(self.fed, begin + right)
            self.over = False
            self.turning += 1


class Drafting:
    """All slots' courses. `ends` are the tokens that end an answer: none is believed to come. None: nobody carries the
    steps out, and nothing is believed."""

    def __init__(self, ends: frozenset[int] | None = None) -> None:
        self._ends = ends
        self._courses: OrderedDict[int, _Course] = OrderedDict()  # in order of turns: the next one first
        self._forgotten: list[int] = []
        self._step_s = 0.0  # that a step takes which draws
        self._steps = 0  # of them that were seen
        self._token_s = 0.0  # that a token takes which the ring draws, of one answer or of many together

    def begin(self, slot: int, tokens: list[int], spec: SlotSpec) -> None:
        """A slot begins with `tokens`, which grow from now on where they stand."""
        if self._ends is not None and spec.drafts:
            self._courses[slot] = _Course(tokens, spec.sampling, spec.prompt_tokens + spec.max_tokens)

    def end(self, slot: int) -> None:
        """The slot was given up."""
        if self._courses.pop(slot, None) is not None:
            self._forgotten.append(slot)

    def stop(self) -> None:
        """Steps can be carried out no more."""
        self._ends = None
        self._courses.clear()
        self._forgotten.clear()

    def flew(self, slot: int, drafts: tuple[int, ...]) -> None:
        """The slot's sampling segment is in the ring, and carries these drafts."""
        if (course := self._courses.get(slot)) is not None:
            course.foreign = tuple(course.believed[: len(drafts)]) != drafts
            course.riding = 0 if course.foreign else len(drafts)

    def grew(self, slot: int, count: int) -> None:
        """The slot's last `count` tokens have come."""
        if (course := self._courses.get(slot)) is not None:
            course.grew(count)

    def drafts(self, slot: int) -> tuple[int, ...]:
        """What may ride behind all that the slot is known to be."""
        course = self._courses.get(slot)
        if course is None:
            return ()
        room = course.tokens_max - len(course.tokens) - 1  # a token is left to draw after them
        return tuple(course.believed[: max(0, min(self._depth(course), room))])

    def chance(self, slot: int) -> float:
        """How likely the slot's next draft is right."""
        course = self._courses.get(slot)
        return 0.0 if course is None else course.chance.value

    def passed(self, seconds: float, rows: int) -> None:
        """A pass of `rows` answers took so long in all stages together."""
        if seconds > 0:
            each = seconds / rows
            self._token_s = FADE * (self._token_s or each) + (1 - FADE) * each
            self._step_s *= FORGIVING

    def next_step(self) -> Step | None:
        """What to compute next; None when nothing pays. Ask for another when this one was `stepped`."""
        forgotten, self._forgotten = tuple(self._forgotten), []
        for slot, course in self._courses.items():
            if (step := self._step(slot, course, forgotten)) is not None:
                self._courses.move_to_end(slot)
                return step
        return Step(forgotten=forgotten) if forgotten else None

    def _step(self, slot: int, course: _Course, forgotten: tuple[int, ...]) -> Step | None:
        depth = self._depth(course)
        behind = len(course) - course.fed
        if not depth or not behind:
            return None
        enough = len(course.believed) > course.riding + depth or len(course) + 1 >= course.tokens_max
        draws = behind <= CHUNK and not (enough or course.over or course.foreign)
        if not draws and course.fed >= len(course.tokens) - 1:
            return None  # all that is true is held, but for the last: that is drawn after
        first = course.fed
        path = (*course.tokens[first : first + CHUNK], *course.believed[max(0, first - len(course.tokens)) :])[:CHUNK]
        course.fed += len(path)
        return Step(slot, first, path, course.sampling if draws else None, forgotten, course.turning)

    def stepped(self, step: Step, token: int | None, seconds: float) -> None:
        """A step was carried out: what it drew, and how long it took."""
        if token is None:
            return
        if len(step.tokens) <= DEPTH_MAX:
            fade = FADE_SLOW if seconds < self._step_s else FADE
            self._step_s = fade * (self._step_s or seconds) + (1 - fade) * seconds
            self._steps += 1
        course = self._courses.get(step.slot)
        if course is None or course.turning != step.turning:
            return
        if self._ends is not None and token in self._ends:
            course.over = True
        else:
            course.believed.append(token)

    def _depth(self, course: _Course) -> int:
        """How many drafts pay: each must save more of the ring's time, by its chance, than its step takes."""
        if self._steps < STEPS_BEGIN or not self._token_s:
            return DEPTH_BEGIN
        chance, depth = course.chance.value, 0
        while depth < DEPTH_MAX and chance ** (depth + 2) * self._token_s >= self._step_s:
            depth += 1  # one more token must be right before any: the one that is drawn
        return depth
