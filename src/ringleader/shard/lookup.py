"""Guesses what comes next of a sequence: what followed where its last tokens stood before. Pure.

A guess costs time and nothing else: the tail draws each token as it would have without, and keeps what agrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

DRAFTS_MAX = 32  # tokens guessed at once; a pass that is as wide costs more than one of a single token on any machine
SIZES = (6, 3, 2)  # tokens that must have stood there before, the most first; each costs some 130 bytes a token of
# text, which its KV cache outweighs by far
FADE = 0.9  # a pass with drafts counts this much of the next one
RECOVERY = 0.005  # of the way back to what is believed at first, for each pass without: so that it is tried again
BELIEF = (2.0, 1.0)  # drafts that were right and wrong, before any was seen


@dataclass(slots=True)
class _Text:
    """Tokens, and where each run of them was followed by something: the last such place."""

    tokens: list[int] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)  # from a run's hash: two runs of one hash cost a bad guess

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            for size in SIZES:
                if len(self.tokens) >= size:
                    self.places[_key(self.tokens, size)] = len(self.tokens)
            self.tokens.append(token)

    def after(self, place: int, most: int) -> tuple[int, ...]:
        """What followed; what follows at the text's own end is that again."""
        found = self.tokens[place : place + most]
        period = len(self.tokens) - place
        while len(found) < most:
            found.append(found[len(found) - period])
        return tuple(found)


@dataclass(slots=True)
class _Following:
    """A place in a text that goes on as the sequence does; `run` tokens before it are known to be the same."""

    text: _Text
    place: int
    run: int


class Lookup:
    """One sequence, prompt first. `prediction` is what may be expected of the answer, which begins after
    `prompt_tokens`."""

    def __init__(self, prompt_tokens: int, prediction: Sequence[int] = ()) -> None:
        self._prompt_tokens = prompt_tokens
        self._text = _Text()
        self._prediction = _Text()
        self._prediction.extend(prediction)
        self._following: _Following | None = None

    def extend(self, tokens: Sequence[int]) -> None:
        """The sequence goes on with these."""
        for token in tokens:
            if len(self._text.tokens) == self._prompt_tokens and self._prediction.tokens:
                self._following = _Following(self._prediction, 0, max(SIZES))
            self._text.extend((token,))
            self._follow(token)

    def _follow(self, token: int) -> None:
        at = self._following
        if at is not None and at.place < len(at.text.tokens) and at.text.tokens[at.place] == token:
            at.place, at.run = at.place + 1, at.run + 1
        else:
            self._following = None

    def guess(self, most: int) -> tuple[int, ...]:
        """Up to `most` tokens that may come next; none where nothing like the last ones stood before."""
        self._following = at = self._best()
        if at is None or most < 1:
            return ()
        if at.text is self._prediction:  # it ends where the answer is expected to end
            return tuple(at.text.tokens[at.place : at.place + most])
        return at.text.after(at.place, most)

    def _best(self) -> _Following | None:
        """Where the sequence may go on like: the place that agrees longest, and where it already follows sooner."""
        following = self._following
        if following is not None and following.place == len(following.text.tokens):
            following = None
        for size in SIZES:
            if following is not None and following.run >= size:
                return following
            if len(self._text.tokens) < size:
                continue
            key = _key(self._text.tokens, size)
            for text in (self._prediction, self._text):
                if (place := text.places.get(key)) is not None:
                    return _Following(text, place, size)
        return None


def _key(tokens: Sequence[int], size: int) -> int:
    return hash(tuple(tokens[-size:]))


@dataclass(slots=True)
class Chance:
    """How likely a slot's next draft is right, as far as its last ones tell."""

    right: float = BELIEF[0]
    wrong: float = BELIEF[1]

    @property
    def value(self) -> float:
        return self.right / (self.right + self.wrong)

    def saw(self, drafted: int, accepted: int) -> None:
        """A pass had so many drafts; after the first that is wrong nothing can be told of the others."""
        if drafted:
            self.right = FADE * self.right + accepted
            self.wrong = FADE * self.wrong + (accepted < drafted)
        else:
            self.right += RECOVERY * (BELIEF[0] - self.right)
            self.wrong += RECOVERY * (BELIEF[1] - self.wrong)
