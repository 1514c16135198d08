"""Models without sense: made-up logits that always want what a forced answer must not be.

A taste sees the ids that were written so far and gives logits [vocabulary], float32. It is a function of its
seed and of the ids' number alone, so an answer can be made again from the name of its case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ringleader.language.dialects.dialect import Dialect
from ringleader.tokenizer import Tokenizer

Logits = Callable[[Sequence[int]], Any]
Likes = Callable[[int, bytes], bool]

BIAS = 40.0  # above any noise: what is liked wins wherever the grammar allows it
NOISES = 4096  # numbers that each row of noise is a window of, beside its width
FORBIDDEN = "delete_everything"  # the name of no tool here


@dataclass(frozen=True)
class Taste:
    """One kind of model. `temperature` is what its requests should ask for."""

    name: str
    logits: Logits
    temperature: float = 0.0


KINDS = (
    "random",
    "end",
    "prose",
    "unknown tool",
    "whitespace",
    "digits",
    "nesting",
    "markers",
    "calls for ever",
    "thinks for ever",
)


def taste(kind: str, tokenizer: Tokenizer, dialect: Dialect, seed: int) -> Taste:
    """The taste of this kind in this vocabulary; `seed` decides between what is liked alike."""
    if kind == "random":
        return Taste(kind, noise(tokenizer, seed), temperature=1.0)
    if kind in {"unknown tool", "markers", "calls for ever"}:
        return Taste(kind, writing(tokenizer, _texts(kind, dialect), seed, hurries=kind == "calls for ever"))
    if kind == "thinks for ever":
        return Taste(kind, _thinking(tokenizer, dialect, seed))
    ends = frozenset(tokenizer.eos_ids)
    likes: dict[str, Likes] = {
        "end": lambda token, text: token in ends,
        "prose": lambda token, text: text.strip(b" .,").isalpha(),
        "whitespace": lambda token, text: bool(text) and not text.strip(),
        "digits": lambda token, text: text.isdigit(),
        "nesting": lambda token, text: bool(text.strip()) and not text.strip().strip(b'[{("'),
    }
    return Taste(kind, liking(tokenizer, kind, likes[kind], seed))


def noise(tokenizer: Tokenizer, seed: int) -> Logits:
    """Random weights: normal logits, other ones at each place."""
    width = tokenizer.vocab_size
    numbers = _numbers(width)

    def logits(written: Sequence[int]) -> Any:
        import mlx.core as mx

        at = (seed * 7919 + len(written) * 104_729) % NOISES
        return mx.array(numbers[at : at + width])

    return logits


def liking(tokenizer: Tokenizer, name: str, likes: Likes, seed: int) -> Logits:
    """Prefers some tokens to all others, in an order that changes with the place."""
    return _biased(tokenizer, seed, lambda written: _bias(tokenizer, name, likes))


def writing(tokenizer: Tokenizer, texts: Sequence[str], seed: int, *, hurries: bool = False) -> Logits:
    """Wants to write `texts` for ever, as special tokens and as ordinary ones: what continues one that has begun,
    or else the first token of one. `hurries`: and closes whatever stands between two of them as soon as it can."""
    spelled = [
        ids for text in texts for ids in (tokenizer.encode(text), [t for c in text for t in tokenizer.encode(c)])
    ]
    hurry = _bias(tokenizer, "closing", lambda _, text: bool(text.strip()) and not text.strip().strip(b"\"'}])>"))

    def bias(written: Sequence[int]) -> Any:
        row = hurry / 2 if hurries else np.zeros(tokenizer.vocab_size, dtype=np.float32)
        for n, ids in enumerate(spelled):
            row[ids[0]] += BIAS / 2 + (n + len(written) + seed) % len(spelled)
            for at in range(1, len(ids)):
                if tuple(written[-at:]) == tuple(ids[:at]):
                    row[ids[at]] += BIAS
        return row

    return _biased(tokenizer, seed, bias)


def scripted(tokenizer: Tokenizer, ids: Sequence[int]) -> Logits:
    """Wants exactly these ids, then an end."""

    def logits(written: Sequence[int]) -> Any:
        import mlx.core as mx

        row = np.zeros(tokenizer.vocab_size, dtype=np.float32)
        row[ids[len(written)] if len(written) < len(ids) else tokenizer.eos_ids[0]] = BIAS
        return mx.array(row)

    return logits


def _thinking(tokenizer: Tokenizer, dialect: Dialect, seed: int) -> Logits:
    """Begins to reason, where the family can, and goes on with prose."""
    opened = tokenizer.encode(dialect.thinking.open.text) if dialect.thinking is not None else []
    prose = _bias(tokenizer, "prose", lambda _, text: text.strip(b" .,").isalpha())

    def bias(written: Sequence[int]) -> Any:
        if len(written) >= len(opened):
            return prose
        row = np.zeros(tokenizer.vocab_size, dtype=np.float32)
        row[opened[len(written)]] = BIAS
        return row

    return _biased(tokenizer, seed, bias)


def _biased(tokenizer: Tokenizer, seed: int, bias: Callable[[Sequence[int]], Any]) -> Logits:
    import mlx.core as mx

    plain = noise(tokenizer, seed)
    return lambda written: plain(written) + mx.array(bias(written))


def _texts(kind: str, dialect: Dialect) -> list[str]:
    opens = [opens.marker.text for opens in dialect.opens]
    if kind == "unknown tool":
        return [FORBIDDEN]
    if kind == "calls for ever":
        return opens or ["<"]
    thinking = dialect.thinking
    around = [thinking.open, thinking.close] if thinking is not None else []
    return [*opens, *(marker.text for marker in [*dialect.markers, *around])] or ["<"]


@lru_cache(maxsize=8)
def _numbers(width: int) -> Any:
    return np.random.default_rng(5).normal(size=NOISES + width).astype(np.float32)


_BIASES: dict[tuple[Tokenizer, str], Any] = {}


def _bias(tokenizer: Tokenizer, name: str, likes: Likes) -> Any:
    key = (tokenizer, name)
    if key not in _BIASES:
        texts = [tokenizer.token_bytes(token) for token in range(tokenizer.vocab_size)]
        _BIASES[key] = np.array([BIAS * likes(n, text) for n, text in enumerate(texts)], dtype=np.float32)
    return _BIASES[key]
