"""Small configurations of mlx-lm's model families: a common part, and what each family wants besides.

Only shapes are small: every kind of layer that a family mixes (sliding window, recurrence, experts) occurs.
"""

from __future__ import annotations

from typing import Any

VOCABULARY = 384  # the tiny tokenizer's ids, padded as real models pad them
LAYERS = 6
WINDOW = 5  # tokens of sliding windows: shorter than the prompts of these tests
EOS = 0

Config = dict[str, Any]

COMMON: Config = {
    "hidden_size": 64,
    "num_hidden_layers": LAYERS,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": VOCABULARY,
    "rms_norm_eps": 1e-5,
    "layer_norm_eps": 1e-5,
    "layer_norm_epsilon": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "eos_token_id": EOS,
}

_SLIDING_AND_FULL = ["sliding_attention", "sliding_attention", "full_attention"] * (LAYERS // 3)
_NO_ROPE_SCALING: Config = {"rope_scaling": None}
_EXPERTS: Config = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_ROUTED: Config = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
    "routed_scaling_factor": 1.0,
    "norm_topk_prob": True,
    "n_group": 1,
    "topk_group": 1,
}
_LATENT: Config = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
}
_GRANITE: Config = {
    "logits_scaling": 1.0,
    "attention_multiplier": 0.25,
    "embedding_multiplier": 2.0,
    "residual_multiplier": 0.5,
}
_MAMBA2: Config = {
    "num_heads": 4,
    "state_size": 16,
    "conv_kernel": 4,
    "n_groups": 1,
    "use_bias": False,
    "use_conv_bias": True,
    "time_step_limit": [0.001, 100.0],
    "time_step_rank": "auto",
    "head_dim": 32,
    "intermediate_size": 128,
}
_DELTA_NET: Config = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 3,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
}
_QWEN_EXPERTS: Config = {
    **_EXPERTS,
    "shared_expert_intermediate_size": 32,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
}
_LONGCAT: Config = {
    **_LATENT,
    "attention_method": "MLA",
    "zero_expert_type": "identity",
    "ffn_hidden_size": 64,
    "moe_topk": 2,
    "expert_ffn_hidden_size": 32,
    "n_routed_experts": 4,
    "zero_expert_num": 2,
    "num_layers": LAYERS,
    "routed_scaling_factor": 1.0,
    "mla_scale_q_lora": True,
    "mla_scale_kv_lora": True,
}
_LFM2: Config = {
    "norm_eps": 1e-5,
    "conv_bias": False,
    "conv_L_cache": 3,
    "block_dim": 64,
    "block_ff_dim": 64,
    "block_multiple_of": 16,
    "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": False,
    "full_attn_idxs": [2, 5],
}

_SPARSE: Config = {**_LATENT, **_ROUTED, "index_head_dim": 32, "index_n_heads": 4, "index_topk": 8}
_THETA: Config = {"rope_parameters": {"rope_theta": 10000.0}}
_MISTRAL_ROPE: Config = {
    "rope_parameters": {
        "type": "yarn",
        "rope_theta": 10000.0,
        "factor": 2.0,
        "original_max_position_embeddings": 2048,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "llama_4_scaling_beta": 0.1,
    }
}


def _text(family: str, **fields: Any) -> Config:
    """A config whose language model is nested."""
    return {"text_config": {**COMMON, **fields, "model_type": family}}


FAMILIES: dict[str, Config] = {
    "llama": {"tie_word_embeddings": True},
    "qwen2": {},
    "qwen3": {},
    "qwen3_moe": {**_QWEN_EXPERTS},
    "qwen3_5": _text("qwen3_5_text", **_DELTA_NET),
    "gemma2": {},
    "gemma3_text": {"sliding_window": WINDOW, "sliding_window_pattern": 3, "query_pre_attn_scalar": 16},
    "gpt_oss": {
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": WINDOW,
        "rope_theta": 150000,
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "original_max_position_embeddings": 4096,
            "truncate": False,
        },
        "layer_types": ["sliding_attention", "full_attention"] * (LAYERS // 2),
    },
    "deepseek_v3": {**_LATENT, **_ROUTED},
    "glm4_moe": {**_ROUTED, **_NO_ROPE_SCALING, "use_qk_norm": True, "partial_rotary_factor": 0.5},
    "mamba2": _MAMBA2,
    "nemotron_h": {
        "mamba_num_heads": 4,
        "mamba_head_dim": 16,
        "mamba_proj_bias": False,
        "ssm_state_size": 16,
        "conv_kernel": 4,
        "n_groups": 1,
        "use_bias": False,
        "use_conv_bias": True,
        "hybrid_override_pattern": ["M", "-", "*", "M", "*", "-"],
    },
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "phi3": {},
    # ---- beyond the twelve
    "Klear": {**_QWEN_EXPERTS, "n_shared_experts": 1},
    "afmoe": {
        **_EXPERTS,
        "num_shared_experts": 1,
        "num_dense_layers": 2,
        "sliding_window": WINDOW,
        "layer_types": _SLIDING_AND_FULL,
    },
    "apertus": {"post_norm": False, "qk_norm": True},
    "baichuan_m1": {"sliding_window": WINDOW, "sliding_window_layers": [1, 3], "conv_window": 2},
    "bailing_moe": {**_EXPERTS, "num_shared_experts": 1, "norm_topk_prob": True, "first_k_dense_replace": 1},
    "cohere": {"logit_scale": 1.0},
    "cohere2": {"logit_scale": 1.0, "sliding_window": WINDOW, "sliding_window_pattern": 3},
    "deepseek": {**_ROUTED},
    "deepseek_v2": {
        **_LATENT,
        **_ROUTED,
        "topk_method": "greedy",
        "rope_scaling": {
            "type": "yarn",
            "factor": 40,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 4096,
        },
    },
    "deepseek_v32": _SPARSE,
    "dots1": {**_ROUTED, "head_dim": 16},
    "ernie4_5": {"use_bias": False},
    "ernie4_5_moe": {
        "use_bias": False,
        "moe_num_experts": 4,
        "moe_k": 2,
        "moe_intermediate_size": 32,
        "moe_layer_start_index": 1,
    },
    "exaone": {"num_layers": LAYERS},
    "exaone_moe": {
        **_EXPERTS,
        "num_shared_experts": 1,
        "sliding_window": WINDOW,
        "layer_types": _SLIDING_AND_FULL,
        "is_moe_layer": [False] + [True] * (LAYERS - 1),
    },
    "gemma": {},
    "gemma3": _text("gemma3_text", sliding_window=WINDOW, sliding_window_pattern=3, query_pre_attn_scalar=16),
    "glm": {},
    "glm4": {"partial_rotary_factor": 0.5},
    "glm4_moe_lite": {**_LATENT, **_ROUTED},
    "gpt_bigcode": {"n_embd": 64, "n_layer": LAYERS, "n_inner": 64, "n_head": 4, "n_positions": 512},
    "gpt_neox": {"rotary_emb_base": 10000, "rotary_pct": 0.25},
    "granite": _GRANITE,
    "granitemoe": {**_GRANITE, "num_local_experts": 4, "num_experts_per_tok": 2},
    "granitemoehybrid": {
        **_GRANITE,
        "layer_types": ["mamba", "attention", "mamba", "mamba", "attention", "mamba"],
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "shared_intermediate_size": 64,
        "mamba_n_heads": 4,
        "mamba_d_head": 32,
        "mamba_proj_bias": False,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_n_groups": 1,
        "mamba_conv_bias": True,
    },
    "helium": {},
    "hunyuan_v1_dense": {
        "rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 1000.0},
    },
    "internlm2": {},
    "internlm3": {},
    "kimi_linear": {
        **_LATENT,
        "q_lora_rank": None,
        "num_experts": 4,
        "num_experts_per_token": 2,
        "num_shared_experts": 1,
        "moe_intermediate_size": 32,
        "first_k_dense_replace": 1,
        "model_max_length": 4096,
        "linear_attn_config": {
            "kda_layers": [1, 2, 4, 5],
            "full_attn_layers": [3, 6],
            "num_heads": 4,
            "head_dim": 16,
            "short_conv_kernel_size": 4,
        },
    },
    "laguna": {
        **_EXPERTS,
        "shared_expert_intermediate_size": 32,
        "sliding_window": WINDOW,
        "layer_types": _SLIDING_AND_FULL,
    },
    "lfm2": _LFM2,
    "lfm2_moe": {**_LFM2, **_EXPERTS, "num_dense_layers": 2, "use_expert_bias": True, "norm_topk_prob": True},
    "lille-130m": {"n_embd": 64, "n_head": 4, "n_kv_heads": 2, "n_layer": LAYERS, "block_size": 512},
    "llama4_text": {
        "intermediate_size_mlp": 64,
        "no_rope_layers": [1, 1, 1, 0, 1, 1],
        "use_qk_norm": True,
    },
    "longcat_flash": _LONGCAT,
    "longcat_flash_ngram": {**_LONGCAT, "ngram_vocab_size_ratio": 2, "emb_neighbor_num": 2, "emb_split_num": 2},
    "mimo": {},
    "mimo_v2_flash": {
        **_ROUTED,
        "hybrid_layer_pattern": [0, 1, 1, 0, 1, 1],
        "moe_layer_freq": [0, 1, 1, 1, 1, 1],
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "sliding_window_size": WINDOW,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "layernorm_epsilon": 1e-5,
        "swa_rope_theta": 10000.0,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 2,
        "v_head_dim": 16,
        "swa_head_dim": 16,
        "swa_v_head_dim": 16,
        "partial_rotary_factor": 0.5,
    },
    "minicpm": {"dim_model_base": 32, "scale_depth": 1.4, "scale_emb": 12.0},
    "minicpm3": {
        **_LATENT,
        "dim_model_base": 32,
        "scale_depth": 1.4,
        "scale_emb": 12.0,
        "rope_scaling": {
            "type": "longrope",
            "original_max_position_embeddings": 2048,
            "short_factor": [1.0] * 8,
            "long_factor": [1.0] * 8,
        },
    },
    "minimax": {
        "num_experts_per_tok": 2,
        "num_local_experts": 4,
        "shared_intermediate_size": 32,
        "rotary_dim": 8,
    },
    "mistral3": _text("llama"),
    "nemotron": {"hidden_act": "relu2", "norm_eps": 1e-5},
    "olmo2": {},
    "olmo3": {"sliding_window": WINDOW, "layer_types": _SLIDING_AND_FULL},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "phimoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2_moe": {**_QWEN_EXPERTS},
    "qwen3_5_moe": _text("qwen3_5_moe_text", **_DELTA_NET, **_QWEN_EXPERTS),
    "qwen3_next": {**_DELTA_NET, **_QWEN_EXPERTS},
    "seed_oss": {},
    "smollm3": {"no_rope_layer_interval": 3},
    "stablelm": {"use_qkv_bias": True, "partial_rotary_factor": 0.5},
    "starcoder2": {},
    "step3p5": {
        "num_attention_groups": 2,
        "sliding_window": WINDOW,
        "layer_types": _SLIDING_AND_FULL,
        "moe_num_experts": 4,
        "moe_top_k": 2,
        "moe_intermediate_size": 32,
        "share_expert_dim": 32,
        "moe_layers_enum": "2,3,4,5",
        "attention_other_setting": {"num_attention_heads": 4, "num_attention_groups": 2},
    },
    "telechat3": {},
    "youtu_llm": {**_LATENT},
    # ---- of these, the part that reads and writes text
    "kimi_k25": _text("deepseek_v3", **_LATENT, **_ROUTED),
    "kimi_vl": _text("deepseek_v3", **_LATENT, **_ROUTED),
    "lfm2-vl": _text("lfm2", **_LFM2),
    "llama4": _text(
        "llama4_text",
        attention_chunk_size=8,
        interleave_moe_layer_step=2,
        intermediate_size_mlp=64,
        num_experts_per_tok=1,
        num_local_experts=4,
        use_qk_norm=True,
        rope_scaling=None,
        attn_temperature_tuning=4,
    ),
    "pixtral": _text("llama"),
    "qwen2_vl": _text("qwen2"),
    "qwen2_5_vl": _text("qwen2"),
    "qwen3_vl": _text("qwen3_vl_text"),
    "qwen3_vl_moe": _text("qwen3_vl_moe_text", **_QWEN_EXPERTS),
    # ---- and more
    "bailing_moe_linear": {
        **_EXPERTS,
        "num_key_value_heads": 4,
        "num_shared_experts": 1,
        "norm_topk_prob": True,
        "first_k_dense_replace": 1,
        "layer_group_size": 3,
        "group_norm_size": 1,
    },
    "dbrx": {
        "d_model": 64,
        "n_layers": LAYERS,
        "n_heads": 4,
        "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0},
    },
    "falcon_h1": {
        "mamba_d_conv": 4,
        "mamba_d_head": 16,
        "mamba_d_ssm": 64,
        "mamba_d_state": 16,
        "mamba_expand": 2,
        "mamba_n_groups": 1,
        "mamba_n_heads": 4,
        "mamba_proj_bias": False,
        "mamba_conv_bias": True,
        "mamba_rms_norm": False,
        "mamba_norm_before_gate": True,
        "projectors_bias": False,
        "ssm_multipliers": [1.0] * 5,
        "mlp_multipliers": [1.0, 1.0],
        **dict.fromkeys(
            (
                "embedding_multiplier",
                "lm_head_multiplier",
                "key_multiplier",
                "attention_in_multiplier",
                "attention_out_multiplier",
                "ssm_in_multiplier",
                "ssm_out_multiplier",
            ),
            1.0,
        ),
    },
    "glm_moe_dsa": {**_SPARSE, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "moe_layer_freq": 1, **_THETA},
    "gpt2": {"n_embd": 64, "n_layer": LAYERS, "n_head": 4, "n_positions": 512, "n_ctx": 512},
    "jamba": {
        "attn_layer_offset": 1,
        "attn_layer_period": 3,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
        "mamba_d_conv": 4,
        "mamba_d_state": 16,
        "mamba_expand": 2,
        "mamba_dt_rank": 4,
        "mamba_proj_bias": False,
        "mamba_conv_bias": True,
        "num_experts": 4,
        "num_experts_per_tok": 2,
    },
    "mamba": {
        "state_size": 16,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_rank": 4,
        "intermediate_size": 128,
    },
    "mellum": {
        **_EXPERTS,
        "norm_topk_prob": True,
        "sliding_window": WINDOW,
        "layer_types": _SLIDING_AND_FULL,
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in _SLIDING_AND_FULL},
    },
    "ministral3": _MISTRAL_ROPE,
    "mistral4": {**_LATENT, **_ROUTED, **_MISTRAL_ROPE},
    "nanbeige": {},
    "nanochat": {"n_embd": 64, "n_layer": LAYERS, "n_head": 4},
    "phi": {"partial_rotary_factor": 0.5, "num_key_value_heads": 4},
    "plamo": {"n_shared_head": 2},
    "qwen": {"kv_channels": 16, "no_bias": True},
    "solar_open": {**_ROUTED, **_NO_ROPE_SCALING, "use_qk_norm": False, "partial_rotary_factor": 1.0},
}
for _alias, _family in (
    ("iquestcoder", "llama"),
    ("joyai_llm_flash", "deepseek_v3"),
    ("kimi_k2", "deepseek_v3"),
    ("minimax_m2", "minimax"),
    ("mistral", "llama"),
    ("xverse", "llama"),
):
    FAMILIES[_alias] = FAMILIES[_family]


def config_of(family: str, **changes: Any) -> Config:
    """The tiny config.json of `family`; `changes` go where the family reads them (its text_config, if it has one)."""
    config = {**COMMON, **FAMILIES[family], "model_type": family}
    if "text_config" in config:
        config["text_config"] = {**config["text_config"], **changes}
    else:
        config.update(changes)
    return config
