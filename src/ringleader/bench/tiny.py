"""A tiny model with random weights and the vocabulary of a real one: its compute is far below any pace.

Its answers mean nothing; protocol, caches, sampling and grammars are those of any model.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from ringleader.models.safetensors import TensorSpec, write_safetensors

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD, INNER = 4, 64, 1, 1, 32, 128
CONTEXT = 8192
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja")


@contextmanager
def tiny_model(real: Path) -> Iterator[Path]:
    """A directory with the tiny model for the length of the block; its tokenizer is that of the model in `real`."""
    with TemporaryDirectory(prefix="ringleader-bench-") as directory:
        yield make_tiny(Path(directory), real)


def make_tiny(directory: Path, real: Path) -> Path:
    """Write the tiny model into `directory`. Raises OSError, ValueError when `real` is no model directory."""
    about = json.loads((real / "config.json").read_text(encoding="utf-8"))
    text = about.get("text_config") or about
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": CONTEXT,
        "vocab_size": int(text["vocab_size"]),
        "tie_word_embeddings": True,
        "eos_token_id": about.get("eos_token_id", text.get("eos_token_id")),
    }
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name in TOKENIZER_FILES:
        if (real / name).exists():
            shutil.copyfile(real / name, directory / name)
    shapes = _shapes(int(text["vocab_size"]))
    specs = {name: TensorSpec("F32", shape) for name, shape in shapes.items()}
    write_safetensors(directory / "model.safetensors", specs, _weights(shapes))
    return directory


def _shapes(vocabulary: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, HIDDEN)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        shapes |= {
            f"{at}.self_attn.q_proj.weight": (HEADS * HEAD, HIDDEN),
            f"{at}.self_attn.k_proj.weight": (KV_HEADS * HEAD, HIDDEN),
            f"{at}.self_attn.v_proj.weight": (KV_HEADS * HEAD, HIDDEN),
            f"{at}.self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD),
            f"{at}.mlp.gate_proj.weight": (INNER, HIDDEN),
            f"{at}.mlp.up_proj.weight": (INNER, HIDDEN),
            f"{at}.mlp.down_proj.weight": (HIDDEN, INNER),
            f"{at}.input_layernorm.weight": (HIDDEN,),
            f"{at}.post_attention_layernorm.weight": (HIDDEN,),
        }
    return shapes | {"model.norm.weight": (HIDDEN,)}


def _weights(shapes: dict[str, tuple[int, ...]]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    chance = np.random.default_rng(0)
    for name, shape in shapes.items():
        if len(shape) == 1:
            yield name, np.ones(shape, np.float32)
        else:
            yield name, (chance.standard_normal(shape) * 1.5 / math.sqrt(shape[-1])).astype(np.float32)
