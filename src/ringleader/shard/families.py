"""Which model families can be cut into shards, by name, and why the others cannot.

A family is a `model_type` that mlx-lm loads. Each SERVED one is cut and compared with the whole model, token
for token, in tests/ring/test_families.py; a name in neither table is refused too: a wrong answer is worse than none.
"""

from __future__ import annotations

from ringleader.errors import ModelUnsupported

SERVED = frozenset(
    [
        "afmoe",
        "apertus",
        "baichuan_m1",
        "bailing_moe",
        "cohere",
        "cohere2",
        "deepseek",
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v32",
        "dots1",
        "ernie4_5",
        "ernie4_5_moe",
        "exaone",
        "exaone_moe",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma3_text",
        "glm",
        "glm4",
        "glm4_moe",
        "glm4_moe_lite",
        "gpt_bigcode",
        "gpt_neox",
        "gpt_oss",
        "granite",
        "granitemoe",
        "granitemoehybrid",
        "helium",
        "hunyuan_v1_dense",
        "internlm2",
        "internlm3",
        "iquestcoder",
        "joyai_llm_flash",
        "kimi_k2",
        "kimi_linear",
        "laguna",
        "lfm2",
        "lfm2_moe",
        "lille-130m",
        "llama",
        "llama4_text",
        "longcat_flash",
        "longcat_flash_ngram",
        "mamba2",
        "mimo",
        "mimo_v2_flash",
        "minicpm",
        "minicpm3",
        "minimax",
        "minimax_m2",
        "mistral",
        "mistral3",
        "mixtral",
        "nemotron",
        "nemotron_h",
        "olmo2",
        "olmo3",
        "olmoe",
        "phi3",
        "phimoe",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_moe",
        "qwen3_next",
        "seed_oss",
        "smollm3",
        "stablelm",
        "starcoder2",
        "step3p5",
        "telechat3",
        "xverse",
        "youtu_llm",
        "Klear",
    ]
)

REFUSED = {
    "exaone4": "its layers read attributes of other layers",
    "iquestloopcoder": "its layers read attributes of other layers",
    "recurrent_gemma": "its layers read attributes of other layers",
    "rwkv7": "its layers hand values of the first layer to all later ones",
    "hunyuan": "its layers share key/value state across the cut",
    "gemma3n": "its layers share key/value state across the cut",
    "gemma4": "its layers share key/value state across the cut",
    "gemma4_text": "its layers share key/value state across the cut",
    "bitnet": "its kernels exist for Metal only",
}


def check_family(family: str) -> None:
    """Raise ModelUnsupported unless `family` (config.json's model_type) can be cut into shards."""
    if family in REFUSED:
        raise ModelUnsupported(f"model family {family!r} cannot be cut into shards: {REFUSED[family]}")
    if family not in SERVED:
        raise ModelUnsupported(
            f"model family {family!r} is not known to give right answers when it is cut into shards, so it is refused"
        )
