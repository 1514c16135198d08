"""What others measured on Macs, with the sources: the facts that predictions are held to.

docs/benchmarks/predictions.md tells how each was chosen, and what was left out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ringleader.models.described import FILE, Shape
from ringleader.values import Json, ModelCosts, ModelId


@dataclass(frozen=True)
class Result:
    """`count` Macs of one chip, the layers split evenly; tokens a second of one stream."""

    label: str
    model: str
    chip: str
    count: int
    tokens_per_s: float
    source: str
    shape: Mapping[str, Json] = field(default_factory=dict)  # what differs from the described model
    hop_ms: float | None = None  # None: Thunderbolt 5 as fleets have it

    def costs(self) -> ModelCosts:
        table = tomllib.loads(FILE.read_text(encoding="utf-8"))[self.model]
        return Shape.model_validate({**table, **self.shape}).costs(ModelId(self.model))


GEERLING = "github.com/geerlingguy/beowulf-ai-cluster/issues/17"
GEERLING_BLOG = "jeffgeerling.com/blog/2025/15-tb-vram-on-mac-studio-rdma-over-thunderbolt-5"
EXO_DAY_2 = "blog.exolabs.net/day-2"
Q4_K_M = {"bits_per_weight": 4.82}

# The three constants of timing.py were fitted to these, one Mac each, and to nothing else.
FITTED = [
    Result("Llama 3.2 3B Q4_K_M", "llama-3.2-3b-4bit", "M3 Ultra", 1, 171.16, GEERLING, {"bits_per_weight": 5.0}),
    Result("Llama 3.3 70B Q4_K_M", "llama-3.3-70b-4bit", "M3 Ultra", 1, 14.41, GEERLING, Q4_K_M),
    Result("DeepSeek R1 671B Q4_K_M", "deepseek-v3-4bit", "M3 Ultra", 1, 20.21, GEERLING, Q4_K_M),
]

# Never fitted to; layers are split over the Macs, as a ring splits them.
HELD_OUT = [
    Result("Qwen3 235B, 8 bits, llama.cpp RPC", "qwen3-235b-a22b-8bit", "M3 Ultra", 4, 15.2, GEERLING_BLOG),
    Result(
        "Kimi K2.5, 4 bits, exo",
        "kimi-k2-thinking",
        "M3 Ultra",
        3,
        14.0,
        "github.com/inferencerlabs/inferencer-feedback/issues/103",
    ),
    Result(
        "Kimi K2 Thinking, native, mlx-lm",
        "kimi-k2-thinking",
        "M3 Ultra",
        2,
        15.0,
        "x.com/awnihannun/status/1986601104130646266",
    ),
    Result(
        "Kimi K2.7 Code, 3.6 bits, mlx-lm",
        "kimi-k2-thinking",
        "M3 Ultra",
        2,
        18.0,
        "huggingface.co/avlp12/Kimi-K2.7-Code-Alis-MLX-Dynamic-3.6bpw",
        {"bits_per_weight": 8.5, "expert_bits_per_weight": 3.6},
    ),
    Result("Qwen3 235B, 8 bits, exo", "qwen3-235b-a22b-8bit", "M3 Ultra", 1, 19.5, GEERLING_BLOG),
    Result("Qwen3 235B, 8 bits, llama.cpp", "qwen3-235b-a22b-8bit", "M3 Ultra", 1, 20.4, GEERLING_BLOG),
    Result("DeepSeek V3.1, 4 bits, exo", "deepseek-v3-4bit", "M3 Ultra", 1, 21.1, GEERLING_BLOG),
    Result(
        "Kimi K2.6, 3.3 bits, mlx-lm",
        "kimi-k2-thinking",
        "M3 Ultra",
        1,
        21.36,
        "huggingface.co/spicyneuron/Kimi-K2.6-MLX-3.3bit",
        {"bits_per_weight": 8.5, "expert_bits_per_weight": 3.25},
    ),
    Result(
        "Llama 3.1 70B, 16 bits, mlx-lm",
        "llama-3.3-70b-4bit",
        "M2 Ultra",
        1,
        4.7,
        "github.com/ml-explore/mlx-examples/pull/1069",
        {"bits_per_weight": 16},
    ),
]

# With a hop of 10 ms, which is what the 70B of the same page says of that engine in 2024.
SLOW_HOPS = [
    Result("DeepSeek V3, 4 bits, EXO 2024", "deepseek-v3-4bit", "M4 Pro", 8, 5.37, EXO_DAY_2, hop_ms=10),
    Result("Llama 3.1 405B, 4 bits, EXO 2024", "llama-3.1-405b-4bit", "M4 Pro", 8, 0.88, EXO_DAY_2, hop_ms=10),
]

# Known to be missed; the page says why.
MISSED = [
    Result(
        "Nemotron 70B, EXO 2024",
        "llama-3.3-70b-4bit",
        "M4 Pro",
        4,
        8.0,
        "x.com/alexocheema/status/1855238474917441972",
    ),
    Result(
        "DeepSeek R1, 8 bits, exo",
        "deepseek-v3-4bit",
        "M3 Ultra",
        2,
        11.0,
        "x.com/alexocheema/status/1899735281781411907",
        {"bits_per_weight": 8.5},
    ),
]
