"""Every family that we serve, cut at uneven places, gives what mlx-lm's whole model gives: token for token."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm.utils
import numpy as np
import pytest
from mlx_lm.models.cache import make_prompt_cache

from ringleader.shard.families import SERVED
from ringleader.shard.loader import load_slice
from ringleader.shard.slice import Slice
from ringleader.values import LayerRange
from tests.ring.tiny_configs import FAMILIES, LAYERS
from tests.ring.tiny_models import make_tiny_model

PROMPT = (11, 7, 300, 45, 11, 7, 99, 203, 58)
CHUNKS = (PROMPT[:5], PROMPT[5:])
DECODE_STEPS = 6
FORCED = 3  # tokens of one step, as after a sampled token with two forced followers
CUTS = ((1, 5), (3, 1, 2), (1, 2, 1, 2))
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Reference:
    """What the whole model says: logits after the prompt and after each token, and the tokens it would pick."""

    logits: list[np.ndarray[Any, Any]]
    tokens: list[int]


def whole_model(directory: Path) -> Reference:
    """mlx-lm's own model, the whole prompt at once, then token by token: no chunk and no follower helps it."""
    model, _ = mlx_lm.utils.load_model(directory)
    caches = make_prompt_cache(model)
    logits = [last_row(model(mx.array([PROMPT]), cache=caches))]
    tokens = []
    for _ in range(DECODE_STEPS + FORCED + 1):
        tokens.append(int(logits[-1].argmax()))
        logits.append(last_row(model(mx.array([[tokens[-1]]]), cache=caches)))
    return Reference(logits, tokens)


def last_row(logits: Any) -> np.ndarray[Any, Any]:
    return np.array(logits[0, -1].astype(mx.float32))


class Ring:
    """Slices in a row, with one sequence's caches; `noise` is added to what the last one receives."""

    def __init__(self, directory: Path, sizes: tuple[int, ...], noise: float = 0.0) -> None:
        stops = np.cumsum(sizes)
        self.parts = [
            load_slice(directory, LayerRange(int(stop - size), int(stop)), int(stops[-1]), lambda _: None)
            for size, stop in zip(sizes, stops, strict=True)
        ]
        self.caches = [part.make_caches() for part in self.parts]
        self.noise = noise

    def step(self, tokens: tuple[int, ...]) -> np.ndarray[Any, Any]:
        out: Any = None
        for part, caches in zip(self.parts, self.caches, strict=True):
            out = part.forward(mx.array([tokens], dtype=mx.uint32), caches, self.travelled(part, out))
        return last_row(out)

    def travelled(self, part: Slice, activation: Any) -> Any:
        """The activation as it arrives: evaluated, so that no lazy graph reaches over the cut."""
        if activation is None:
            return None
        if self.noise and part.tail:
            activation = activation + self.noise * mx.random.normal(activation.shape, key=mx.random.key(1))
        mx.eval(activation)
        return mx.array(np.array(activation))


def assert_same(ring: Ring, reference: Reference) -> None:
    steps: list[tuple[int, ...]] = [(token,) for token in reference.tokens[:DECODE_STEPS]]
    steps += [tuple(reference.tokens[DECODE_STEPS : DECODE_STEPS + FORCED])]
    steps += [(reference.tokens[DECODE_STEPS + FORCED],)]
    expected = [*reference.logits[: DECODE_STEPS + 1], *reference.logits[DECODE_STEPS + FORCED :]]
    ring.step(CHUNKS[0])
    for number, (tokens, logits) in enumerate(zip([CHUNKS[1], *steps], expected, strict=True)):
        got = ring.step(tokens)
        assert np.abs(got - logits).max() < TOLERANCE, f"step {number} differs by {np.abs(got - logits).max()}"
        assert got.argmax() == logits.argmax(), f"step {number} picks another token"


def test_every_family_that_is_served_is_tested_here() -> None:
    assert set(FAMILIES) == SERVED


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_cut_into_shards_gives_what_the_whole_model_gives(family: str, tmp_path: Path) -> None:
    directory = make_tiny_model(family, tmp_path)
    reference = whole_model(directory)
    assert len(set(reference.tokens)) > 2, "a model that repeats one token proves little"
    for sizes in CUTS:
        assert sum(sizes) == LAYERS
        assert_same(Ring(directory, sizes), reference)
    scrambled = Ring(directory, CUTS[0], noise=1.0)
    scrambled.step(CHUNKS[0])
    assert np.abs(scrambled.step(CHUNKS[1]) - reference.logits[0]).max() > 100 * TOLERANCE, "it is no real split"
