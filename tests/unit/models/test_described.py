"""Described models weigh what the real ones do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ringleader.errors import ModelFault
from ringleader.models.described import described_costs, described_names, read_described

DENSE = """
layers = 2
hidden = 64
vocabulary = 1000
heads = 4
kv_heads = 2
head_width = 16
feed_forward = 128
bits_per_weight = 16
context = 4096
"""


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [
        # Sizes of the repositories of mlx-community, embeddings counted once more where they are tied.
        ("llama-3.3-70b-4bit", 39.7),
        ("llama-3.1-405b-4bit", 228),
        ("qwen3-235b-a22b-4bit", 132),
        ("qwen3-235b-a22b-8bit", 250),
        ("deepseek-v3-4bit", 378),
        ("kimi-k2-4bit", 578),
        ("kimi-k2-thinking", 658),
    ],
)
def test_a_described_model_weighs_what_is_published(name: str, gigabytes: float) -> None:
    costs = described_costs(name)
    assert costs is not None
    assert costs.weight_bytes / 1e9 == pytest.approx(gigabytes, rel=0.005)


def test_every_described_model_can_be_planned_with() -> None:
    for name in described_names():
        costs = described_costs(name)
        assert costs is not None
        assert costs.model == name
        assert all(read <= held for read, held in zip(costs.active_bytes, costs.layer_bytes, strict=False))
    assert described_costs("no-such-model") is None


def test_a_file_describes_a_model_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(DENSE)
    costs = read_described(file)
    attention = 64 * 64 + 2 * 64 * 32 + 64 * 64
    assert costs.model == "mine"
    assert costs.layer_bytes == (2 * (attention + 3 * 64 * 128),) * 2
    assert costs.kv_bytes_per_token == (2 * 2 * 2 * 16,) * 2
    assert costs.head_bytes == costs.tail_bytes == 2 * 64 * 1000
    assert costs.active_bytes == ()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"layers": "0"}, "layers"),
        ({"layers": None}, "layers: Field required"),
        ({"color": '"red"'}, "color"),
        ({"kv_heads": None}, "kv_heads, or kv_rank"),
        ({"feed_forward": None}, "feed_forward is missing"),
        ({"experts": "8"}, "go together"),
        ({"experts": "8", "experts_per_token": "9", "expert_width": "8"}, "more than experts"),
        ({"bits_per_weight": "nan"}, "bits_per_weight"),
        ({"x": "]"}, "is not TOML"),
    ],
)
def test_what_is_wrong_with_a_description_is_named(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    lines = dict(line.split(" = ") for line in DENSE.strip().splitlines())
    lines |= change
    file = tmp_path / "mine.toml"
    file.write_text("\n".join(f"{key} = {value}" for key, value in lines.items() if value is not None))
    with pytest.raises(ModelFault, match=complaint):
        read_described(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFault, match=r"mine\.toml cannot be read"):
        read_described(tmp_path / "mine.toml")
