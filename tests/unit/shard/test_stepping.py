"""Which models' caches can be taken back, and that nothing is left of what was taken back."""

from __future__ import annotations

import copy
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from ringleader.shard.loader import load_slice
from ringleader.shard.stepping import step_back, steps_back
from ringleader.values import LayerRange
from tests.ring.tiny_configs import LAYERS
from tests.ring.tiny_models import make_tiny_model


@pytest.mark.parametrize(
    ("family", "possible"),
    [
        ("llama", True),
        ("qwen3", True),
        ("deepseek_v32", True),  # lists of caches
        ("gpt_oss", False),  # windows
        ("gemma3_text", False),
        ("mamba2", False),  # states
        ("qwen3_next", False),
        ("kimi_linear", False),
    ],
)
def test_caches_with_an_entry_a_position_step_back_in_every_shard_and_others_in_none(
    tmp_path: Path, family: str, possible: bool
) -> None:
    directory = make_tiny_model(family, tmp_path)
    for layers in (LayerRange(0, 2), LayerRange(2, LAYERS)):
        assert steps_back(load_slice(directory, layers, LAYERS, lambda _: None)) is possible


@pytest.mark.parametrize("family", ["llama", "deepseek_v32"])
def test_what_is_taken_back_leaves_no_trace(tmp_path: Path, family: str) -> None:
    part = load_slice(make_tiny_model(family, tmp_path), LayerRange(0, LAYERS), LAYERS, lambda _: None)

    def step(caches: list[object], tokens: list[int]) -> np.ndarray:  # type: ignore[type-arg]  # of floats
        return np.array(part.forward(mx.array([tokens], dtype=mx.uint32), caches))

    caches = part.make_caches()
    step(caches, list(range(5, 260)))  # a wrong step makes the cache grow
    other = copy.deepcopy(caches)
    for wrong in ([7, 7, 7], [9]):
        step(caches, wrong)
        step_back(caches, len(wrong))
    for tokens in ([3], [4, 4]):
        assert np.array_equal(step(caches, tokens), step(other, tokens))
