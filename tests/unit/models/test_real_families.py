"""Costs of small real mlx-lm models against their own caches and parameters: what names promise must be true."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache

from ringleader.models.headers import read_costs
from ringleader.values import ModelId

BASE: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 128,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 512,
    "rope_theta": 1e4,
    "tie_word_embeddings": False,
    "head_dim": 16,
}
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 32, "norm_topk_prob": True}
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen3": {},
    "phi3": {},
    "deepseek_v3": {
        "q_lora_rank": None,
        "kv_lora_rank": 32,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16,
        "v_head_dim": 16,
        "n_routed_experts": 2,
        "n_shared_experts": 1,
        "num_experts_per_tok": 1,
        "moe_intermediate_size": 32,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
    },
    "qwen3_next": {
        **EXPERTS,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "decoder_sparse_step": 1,
        "shared_expert_intermediate_size": 32,
        "mlp_only_layers": [],
        "partial_rotary_factor": 0.5,
        "full_attention_interval": 2,
    },
    "lfm2": {
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_dim": 64,
        "block_ff_dim": 96,
        "block_multiple_of": 8,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": False,
        "full_attn_idxs": [1, 3],
    },
}
TOKENS = 256  # a step of mlx-lm's key-value cache


def cache_bytes(cache: list[Any]) -> list[int]:
    return [sum(part.nbytes for _, part in tree_flatten(each.state) if hasattr(part, "nbytes")) for each in cache]


@pytest.mark.parametrize("family", FAMILIES)
def test_costs_are_what_the_model_weighs_and_what_its_cache_grows_by(family: str, tmp_path: Path) -> None:
    config = {**BASE, **FAMILIES[family], "model_type": family}
    module = importlib.import_module(f"mlx_lm.models.{family}")
    model = module.Model(module.ModelArgs.from_dict(config))
    parameters = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(tmp_path / "model.safetensors"), parameters)
    (tmp_path / "config.json").write_text(json.dumps(config))
    costs = read_costs(tmp_path, ModelId(family))

    tied = "lm_head.weight" not in parameters
    embedding = parameters["model.embed_tokens.weight"].nbytes
    assert costs.weight_bytes == sum(each.nbytes for each in parameters.values()) + tied * embedding

    cache = make_prompt_cache(model)
    grown = []
    for _ in range(2):
        model(mx.zeros((1, TOKENS), mx.int32), cache)
        grown.append(cache_bytes(cache))
    assert costs.kv_bytes_per_token == tuple((after - before) / TOKENS for before, after in zip(*grown, strict=True))
