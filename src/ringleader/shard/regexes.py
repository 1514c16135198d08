"""Reads a regular expression into a small automaton over characters: what a string may still need, from anywhere in it.

It may take a class of characters too narrowly: whatever is made of it is put to the grammar before it is believed.
What it does not understand it says, with ValueError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Chars = tuple[tuple[int, int], ...]  # ranges of code points, both ends included, ascending

TOP = 0x10FFFF
STATES_MAX = 2000  # of one automaton; larger ones are counters of thousands
MOVES_MAX = 20_000  # of one automaton; long rows of optional parts have the square of their length
NESTED_MAX = 50  # groups within groups: a stranger's expression must not exhaust the stack
ANY: Chars = ((0, TOP),)
_LINE: Chars = ((0, 9), (11, TOP))
_DIGIT: Chars = ((48, 57),)
_WORD: Chars = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Chars = ((9, 13), (32, 32))
_LETTER: Chars = ((65, 90), (97, 122))
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_PROPERTIES = {"L": _LETTER, "Lu": ((65, 90),), "Ll": ((97, 122),), "N": _DIGIT, "Nd": _DIGIT, "Letter": _LETTER}
_CONTROLS = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11, "a": 7, "0": 0}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True, slots=True)
class Automaton:
    """`moves[state]` are the characters that may come next, and where they lead. State 0 is the begin."""

    moves: tuple[tuple[tuple[Chars, int], ...], ...]
    accepting: tuple[bool, ...]


def automaton(regex: str, *, whole: bool = True, ignore_case: bool = False) -> Automaton:
    """The strings that match `regex`: as a whole, or (not `whole`) anywhere in them unless it is anchored.

    Raises:
        ValueError: it is too large, or has something that is not understood here.
    """
    reader = _Reader(regex, ignore_case)
    tree = reader.alternatives()
    if reader.at < len(regex):
        raise ValueError(f"unbalanced at {reader.at}")
    built = _Builder()
    start = built.state()
    end = built.add(tree if whole else _found_anywhere(tree), start)
    return built.finished(start, end)


def of_length(least: int, most: int | None) -> Automaton:
    """All strings of `least` to `most` characters."""
    last = least if most is None else most
    if last >= STATES_MAX:
        raise ValueError(f"{last} characters are too many to count")
    moves: list[tuple[tuple[Chars, int], ...]] = [((ANY, n + 1),) for n in range(last)]
    moves.append(((ANY, last),) if most is None else ())
    return Automaton(tuple(moves), tuple(n >= least for n in range(last + 1)))


def both(one: Automaton, other: Automaton) -> Automaton:
    """The strings that both accept.

    Raises:
        ValueError: it would be too large.
    """
    numbers = {(0, 0): 0}
    pairs, made = [(0, 0)], 0
    moves: list[tuple[tuple[Chars, int], ...]] = []
    for left, right in pairs:  # grows while it is walked
        found: list[tuple[Chars, int]] = []
        for chars, to in one.moves[left]:
            for more, also in other.moves[right]:
                if shared := overlap(chars, more):
                    pair = (to, also)
                    if pair not in numbers:
                        numbers[pair] = len(pairs)
                        pairs.append(pair)
                    found.append((shared, numbers[pair]))
        moves.append(tuple(found))
        made += len(found)
        if len(pairs) > STATES_MAX or made > MOVES_MAX:
            raise ValueError("the parts of a string's form are too many together")
    return Automaton(tuple(moves), tuple(one.accepting[a] and other.accepting[b] for a, b in pairs))


def overlap(one: Chars, other: Chars) -> Chars:
    """The characters of both."""
    if one == ANY:
        return other
    if other == ANY or one == other:
        return one
    found = [(max(a, c), min(b, d)) for a, b in one for c, d in other if max(a, c) <= min(b, d)]
    return tuple(sorted(found))


def _without(chars: Chars) -> Chars:
    found: list[tuple[int, int]] = []
    at = 0
    for low, high in sorted(chars):
        if low > at:
            found.append((at, low - 1))
        at = max(at, high + 1)
    return tuple([*found, (at, TOP)] if at <= TOP else found)


# ---------------------------------------------------------------- the expression as a tree


@dataclass(frozen=True, slots=True)
class _One:
    chars: Chars


@dataclass(frozen=True, slots=True)
class _Edge:
    sign: str  # "^" or "$"


@dataclass(frozen=True, slots=True)
class _Times:
    part: _Tree
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class _Row:
    parts: tuple[_Tree, ...]


@dataclass(frozen=True, slots=True)
class _Either:
    ways: tuple[_Tree, ...]


_Tree = _One | _Edge | _Times | _Row | _Either
_ANYTHING = _Times(_One(ANY), 0, None)


def _found_anywhere(tree: _Tree) -> _Tree:
    """`tree` with any text around it, where no anchor stands at its edge."""
    if isinstance(tree, _Either):
        return _Either(tuple(_found_anywhere(way) for way in tree.ways))
    if isinstance(tree, _Row) and len(tree.parts) == 1 and isinstance(tree.parts[0], _Either):
        return _found_anywhere(tree.parts[0])
    parts = tree.parts if isinstance(tree, _Row) else (tree,)
    start = bool(parts) and parts[0] == _Edge("^")
    stop = bool(parts) and parts[-1] == _Edge("$")
    return _Row((*(() if start else (_ANYTHING,)), *parts, *(() if stop else (_ANYTHING,))))


class _Reader:
    """Recursive descent over the expression's text."""

    def __init__(self, text: str, ignore_case: bool) -> None:
        self.at = 0
        self._text = text
        self._ignore_case = ignore_case
        self._dot = _LINE
        self._depth = 0

    def alternatives(self) -> _Tree:
        ways = [self._row()]
        while self._takes("|"):
            ways.append(self._row())
        return ways[0] if len(ways) == 1 else _Either(tuple(ways))

    def _row(self) -> _Tree:
        parts: list[_Tree] = []
        while self.at < len(self._text) and self._text[self.at] not in "|)":
            parts.append(self._repeated(self._atom()))
        return _Row(tuple(parts))

    def _atom(self) -> _Tree:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return _One(self._folded(self._class()))
        if char == ".":
            return _One(self._dot)
        if char in "^$":
            return _Edge(char)
        if char == "\\":
            if self._text[self.at : self.at + 1] in ("A", "z", "Z"):
                return _Edge("^" if self._next() == "A" else "$")
            return _One(self._folded(self._escaped()))
        if char in "*+?":
            raise ValueError(f"nothing to repeat at {self.at}")
        return _One(self._folded(((ord(char), ord(char)),)))

    def _group(self) -> _Tree:
        kept = (self._dot, self._ignore_case)
        if self._takes("?"):
            if self._takes("P<") or (self._peeks("<") and self._text[self.at + 1 : self.at + 2] not in ("=", "!")):
                self.at = self._text.index(">", self.at) + 1
            elif self._flags() == ")":
                return _Row(())  # they hold for what follows in the group around
        self._depth += 1
        if self._depth > NESTED_MAX:
            raise ValueError(f"more than {NESTED_MAX} groups within each other")
        tree = self.alternatives()
        self._expect(")")
        self._depth -= 1
        self._dot, self._ignore_case = kept
        return tree

    def _flags(self) -> str:
        """Reads `s`, `i` and their like up to ":" or ")", which it gives."""
        off = False
        while (char := self._next()) not in ":)":
            if char == "-":
                off = True
            elif char == "s":
                self._dot = _LINE if off else ANY
            elif char == "i":
                self._ignore_case = not off
            elif char not in "um":
                raise ValueError(f"a group of an unknown kind at {self.at}")
        return char

    def _repeated(self, part: _Tree) -> _Tree:
        while self.at < len(self._text) and self._text[self.at] in "*+?{":
            char = self._next()
            if char == "{":
                least, most = self._counts()
            else:
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
            part = _Times(part, least, most)
            self._takes("?")  # lazy: the same strings
        return part

    def _counts(self) -> tuple[int, int | None]:
        stop = self._text.index("}", self.at)
        low, comma, high = self._text[self.at : stop].partition(",")
        self.at = stop + 1
        least = int(low or "0")
        most = (int(high) if high.strip() else None) if comma else least
        if max(least, most or 0) > STATES_MAX:
            raise ValueError(f"more than {STATES_MAX} times")
        return least, most

    def _class(self) -> Chars:
        negated = self._takes("^")
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self._peeks("]"):
            if self._peeks("&&") or self._peeks("[:") or (self._peeks("[") and not first):
                raise ValueError(f"a class within a class at {self.at}")
            low = self._member()
            if self._peeks("-") and self._text[self.at + 1 : self.at + 2] not in ("]", "") and _single(low):
                self._next()
                high = self._member()
                low = ((low[0][0], high[-1][1]),)
            ranges += low
            first = False
        self._expect("]")
        chars = tuple(sorted(ranges))
        return _without(chars) if negated else chars

    def _member(self) -> Chars:
        char = self._next()
        return self._escaped() if char == "\\" else ((ord(char), ord(char)),)

    def _escaped(self) -> Chars:
        char = self._next()
        if char.lower() in _CLASSES:
            chars = _CLASSES[char.lower()]
            return chars if char.islower() else _without(chars)
        if char in "pP":
            name = self._braced() if self._peeks("{") else self._next()
            if name not in _PROPERTIES:
                raise ValueError(f"a class of characters that is not known here: {name}")
            return _PROPERTIES[name] if char == "p" else _without(_PROPERTIES[name])
        if char in _HEX_DIGITS:
            digits = self._braced() if self._peeks("{") else self._many(_HEX_DIGITS[char])
            return ((int(digits, 16), int(digits, 16)),)
        code = _CONTROLS.get(char, ord(char))
        if char.isalnum() and char not in _CONTROLS:
            raise ValueError(f"an escape that is not known here: \\{char}")
        return ((code, code),)

    def _folded(self, chars: Chars) -> Chars:
        if not self._ignore_case:
            return chars
        lower = [(low + 32, high + 32) for low, high in overlap(chars, ((65, 90),))]
        upper = [(low - 32, high - 32) for low, high in overlap(chars, ((97, 122),))]
        return tuple(sorted({*chars, *lower, *upper}))

    def _braced(self) -> str:
        self._expect("{")
        stop = self._text.index("}", self.at)
        name, self.at = self._text[self.at : stop], stop + 1
        return name

    def _many(self, count: int) -> str:
        self.at += count
        return self._text[self.at - count : self.at]

    def _peeks(self, text: str) -> bool:
        return self._text.startswith(text, self.at)

    def _takes(self, text: str) -> bool:
        found = self._peeks(text)
        self.at += len(text) * found
        return found

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise ValueError(f"{text} is missing at {self.at}")

    def _next(self) -> str:
        if self.at >= len(self._text):
            raise ValueError("it ends too early")
        self.at += 1
        return self._text[self.at - 1]


def _single(chars: Chars) -> bool:
    return len(chars) == 1 and chars[0][0] == chars[0][1]


# ---------------------------------------------------------------- the automaton of a tree


class _Builder:
    """Thompson's construction; `finished` removes the empty moves."""

    def __init__(self) -> None:
        self._empty: list[list[int]] = []
        self._char: list[tuple[Chars, int] | None] = []
        self._added = 0  # parts; also empty ones take their time

    def state(self) -> int:
        if len(self._char) >= STATES_MAX:
            raise ValueError("the expression is too large")
        self._empty.append([])
        self._char.append(None)
        return len(self._char) - 1

    def add(self, tree: _Tree, start: int) -> int:
        """Builds `tree` from `start` on; its end."""
        self._added += 1
        if self._added > MOVES_MAX:
            raise ValueError("the expression is too large")
        if isinstance(tree, _One):
            end = self.state()
            self._char[self._fork(start)] = (tree.chars, end)
            return end
        if isinstance(tree, _Row):
            for part in tree.parts:
                start = self.add(part, start)
            return start
        if isinstance(tree, _Either):
            end = self.state()
            for way in tree.ways:
                self._empty[self.add(way, self._fork(start))].append(end)
            return end
        return self._repeat(tree, start) if isinstance(tree, _Times) else start

    def _repeat(self, tree: _Times, start: int) -> int:
        for _ in range(tree.least):
            start = self.add(tree.part, start)
        end = self.state()
        if tree.most is None:
            loop = self._fork(start)
            self._empty[self.add(tree.part, loop)].append(loop)
            self._empty[loop].append(end)
            return end
        self._empty[start].append(end)
        for _ in range(tree.most - tree.least):
            start = self.add(tree.part, start)
            self._empty[start].append(end)
        return end

    def _fork(self, start: int) -> int:
        fresh = self.state()
        self._empty[start].append(fresh)
        return fresh

    def finished(self, start: int, end: int) -> Automaton:
        numbers = {start: 0}
        order, made = [start], 0
        moves: list[tuple[tuple[Chars, int], ...]] = []
        accepting: list[bool] = []
        for state in order:  # grows while it is walked
            reached = self._closure(state)
            found: list[tuple[Chars, int]] = []
            for each in reached:
                if (move := self._char[each]) is not None:
                    chars, to = move
                    if to not in numbers:
                        numbers[to] = len(order)
                        order.append(to)
                    found.append((chars, numbers[to]))
            moves.append(tuple(found))
            accepting.append(end in reached)
            made += len(reached)
            if made > MOVES_MAX:
                raise ValueError("the expression has too many ways")
        return Automaton(tuple(moves), tuple(accepting))

    def _closure(self, state: int) -> Sequence[int]:
        reached, waiting = {state: None}, [state]
        while waiting:
            for to in self._empty[waiting.pop()]:
                if to not in reached:
                    reached[to] = None
                    waiting.append(to)
        return list(reached)
