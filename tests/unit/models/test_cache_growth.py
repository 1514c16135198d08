"""Bytes of cache for one more token, for attention, latent attention and recurrences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringleader.errors import ModelFault
from ringleader.models.cache_growth import kv_bytes_per_token
from ringleader.models.config import ModelConfig

ATTENTION = {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight", "mlp.up_proj.weight"}
MAMBA = {"mixer.in_proj.weight", "mixer.A_log", "mixer.conv1d.weight", "mixer.dt_bias"}
DELTA = {"linear_attn.in_proj_qkvz.weight", "linear_attn.A_log", "linear_attn.conv1d.weight", "mlp.up_proj.weight"}
BASE = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2}


def growth(layers: list[set[str]], element_bytes: int = 2, **config: Any) -> tuple[int, ...]:
    whole = {"model_type": "x"} | config
    read = ModelConfig(Path("config.json"), json.dumps(whole).encode(), whole)
    return kv_bytes_per_token(read, dict(enumerate(layers)), element_bytes)


def test_keys_and_values_of_every_kv_head_at_the_activations_size() -> None:
    assert growth([ATTENTION, ATTENTION], **BASE) == (2 * 2 * 8 * 2,) * 2
    assert growth([ATTENTION], 4, **BASE) == (2 * 2 * 8 * 4,)


def test_a_declared_head_width_wins_over_the_division() -> None:
    assert growth([ATTENTION], **BASE, head_dim=128) == (2 * 2 * 128 * 2,)


def test_without_kv_heads_every_head_counts_and_multi_query_has_one() -> None:
    config = {"n_embd": 64, "n_head": 8}
    assert growth([{"attn.c_attn.weight"}], **config) == (2 * 8 * 8 * 2,)
    assert growth([{"attn.c_attn.weight"}], **config, multi_query=True) == (2 * 1 * 8 * 2,)


def test_heads_may_differ_from_layer_to_layer() -> None:
    assert growth([ATTENTION, ATTENTION], **BASE | {"num_key_value_heads": [2, 4]}) == (64, 128)


def test_latent_attention_keeps_one_latent_and_one_rotary_key() -> None:
    layer = {"self_attn.kv_a_proj_with_mqa.weight", "self_attn.kv_b_proj.weight"}
    assert growth([layer], **BASE, kv_lora_rank=512, qk_rope_head_dim=64) == ((512 + 64) * 2,)


@pytest.mark.parametrize("recurrent", [MAMBA, DELTA, {"conv.conv.weight", "conv.in_proj.weight"}])
def test_a_recurrent_layer_grows_by_nothing(recurrent: set[str]) -> None:
    assert growth([recurrent, ATTENTION], **BASE) == (0, 64)


def test_a_model_of_recurrences_alone_grows_by_nothing_and_needs_no_heads() -> None:
    assert growth([MAMBA, MAMBA], hidden_size=64) == (0, 0)


def test_a_layer_without_attention_in_a_model_that_has_some_grows_by_nothing() -> None:
    assert growth([{"mixer.up_proj.weight"}, {"mixer.k_proj.weight"}], **BASE) == (0, 64)


def test_keys_that_feed_a_recurrence_are_not_kept() -> None:
    delta = {"self_attn.k_proj.weight", "self_attn.v_proj.weight", "self_attn.A_log", "self_attn.dt_bias"}
    assert growth([delta, ATTENTION], **BASE) == (0, 64)


def test_attention_beside_a_recurrence_in_one_layer_is_kept() -> None:
    assert growth([ATTENTION | {"mamba.A_log", "mamba.conv1d.weight"}], **BASE) == (64,)


def test_declared_layer_types_win_over_names() -> None:
    assert growth([ATTENTION, ATTENTION], **BASE, layer_types=["linear_attention", "full_attention"]) == (0, 64)


def test_a_sliding_window_counts_as_full() -> None:
    assert growth([ATTENTION], **BASE, layer_types=["sliding_attention"], sliding_window=128) == (64,)


def test_an_unknown_layer_is_taken_for_attention() -> None:
    assert growth([{"mystery.weight"}], **BASE) == (64,)


def test_a_config_without_heads_is_a_fault() -> None:
    with pytest.raises(ModelFault, match="heads"):
        growth([ATTENTION], hidden_size=64)
