"""What one more token costs each layer's cache, from the config and the names of the layer's tensors.

Where it is in doubt it says more, never less: a plan that reserves too much is slower to fill, one that
reserves too little dies. So sliding-window layers count as full, and an unknown layer as attention.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from ringleader.errors import ModelFault
from ringleader.models.config import HEAD_WIDTH, HEADS, HIDDEN, KV_HEADS, ModelConfig

# Projections that make keys: the layer keeps them for every token.
KEYS = re.compile(
    r"\b(k_proj|kv_proj|qkv_proj|qkv|c_attn|query_key_value|Wqkv|W_pack|wk|wkv|wqkv|att_proj|kv_a_proj_with_mqa"
    r"|kv_a_proj|wkv_a|key_proj)\b"
)
# Parameters of recurrences: a state of fixed size instead (mamba, gated delta nets, RG-LRU, rwkv, short convolutions).
RECURRENT = re.compile(r"\b(A_log|dt_bias|conv1d|conv_1d|rg_lru|linear_attn|r_proj|x_r|(?:q|k|v)_conv1?d?|conv)\b")
RECURRENT_TYPES = {"linear_attention", "mamba", "mamba2", "conv", "recurrent", "rwkv", "kda", "M"}


def kv_bytes_per_token(
    config: ModelConfig, tensors_by_layer: Mapping[int, Set[str]], element_bytes: int
) -> tuple[int, ...]:
    """Bytes for each layer 0, 1, ...; `tensors_by_layer` has each layer's tensor names without their prefix.

    `element_bytes` is the size of one activation. Multi-head latent attention keeps one latent and one rotary
    key; a layer that only has a recurrent state, or no attention at all, keeps nothing that grows.
    """
    growing = _layers_that_grow(config, tensors_by_layer)
    return tuple(
        _values_per_token(config, layer) * element_bytes if layer in growing else 0
        for layer in sorted(tensors_by_layer)
    )


def _layers_that_grow(config: ModelConfig, tensors_by_layer: Mapping[int, Set[str]]) -> set[int]:
    kinds = config.value("layer_types") or config.value("layers_block_type")
    keyed = {layer for layer, names in tensors_by_layer.items() if any(KEYS.search(name) for name in names)}
    growing = set()
    for layer, names in tensors_by_layer.items():
        declared = kinds[layer] if isinstance(kinds, list) and layer < len(kinds) else None
        if isinstance(declared, str) and declared in RECURRENT_TYPES:
            continue
        if layer in keyed:
            if not _keys_feed_a_recurrence(names):
                growing.add(layer)
        elif not keyed and not any(RECURRENT.search(name) for name in names):
            growing.add(layer)  # no projection known by name anywhere: take it for attention
    return growing


def _keys_feed_a_recurrence(names: Set[str]) -> bool:
    """Some recurrences project keys too; they are known by a decay beside those keys, in the same module."""
    modules = {name[: found.start()] for name in names if (found := KEYS.search(name))}
    return all(
        any(f"{module}{mark}" in names for mark in ("A_log", "dt_bias", "x_r", "r_proj.weight")) for module in modules
    )


def _values_per_token(config: ModelConfig, layer: int) -> int:
    latent = config.whole(("kv_lora_rank",))
    if latent is not None:
        return latent + (config.whole(("qk_rope_head_dim",)) or 0)
    heads = config.whole_of_layer(KV_HEADS, layer)
    if heads is None:
        heads = 1 if config.value("multi_query") is True else config.whole_of_layer(HEADS, layer)
    width = config.whole_of_layer(HEAD_WIDTH, layer)
    if width is None:
        query_heads = config.whole_of_layer(HEADS, layer)
        width = config.required(HIDDEN) // query_heads if query_heads else None
    if heads is None or width is None:
        raise ModelFault(f"{config.file} tells neither heads nor their width, so the size of the cache is unknown")
    return 2 * heads * width
