"""Makes tiny models with random weights, of any family, as directories that mlx-lm and a whole node can load."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_map
from mlx_lm.utils import _get_classes

from tests.ring.tiny_configs import VOCABULARY, Config, config_of

TRAINING_TEXT = [
    "The quick brown fox jumps over the lazy dog, and the lazy dog thinks nothing of it.",
    '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3, "unit": "celsius"}}',
    "In the beginning there was a ring, and the tokens went round and round the ring.",
    "one two three four five six seven eight nine ten true false null 0123456789",
]
IM_START, IM_END = "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tiny_model(
    family: str,
    directory: Path,
    *,
    seed: int = 0,
    dtype: Any = mx.float32,
    bits: int = 0,
    tokenizer: bool = False,
    **changes: Any,
) -> Path:
    """Write a tiny model of `family` into `directory` and return it; the weights are a function of `seed`.

    `bits` packs them, in groups of 32. `changes` go into its config. With `tokenizer` it can be served: byte-level
    BPE, ChatML, no tools in its template.
    """
    config = config_of(family, **changes)
    directory.mkdir(parents=True, exist_ok=True)
    model_class, arguments_class = _get_classes(config)
    mx.random.seed(seed)
    model = model_class(arguments_class.from_dict(config))
    model.update(tree_map(lambda parameter: _random(parameter, dtype), model.parameters()))
    if bits:
        nn.quantize(model, group_size=32, bits=bits)
        config["quantization"] = {"group_size": 32, "bits": bits}
    weights = dict(tree_flatten(model.parameters()))
    mx.eval(weights)
    mx.save_safetensors(str(directory / "model.safetensors"), weights, metadata={"format": "mlx"})
    (directory / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    if tokenizer:
        write_tokenizer(directory, config)
    return directory


def _random(parameter: Any, dtype: Any) -> Any:
    """Noise in place of what training would give: layers outweigh the embedding, so that answers do not just echo."""
    if not mx.issubdtype(parameter.dtype, mx.floating):
        return parameter
    noise = mx.random.normal(parameter.shape)
    if parameter.ndim < 2:
        return (parameter + 0.1 * noise).astype(dtype)  # norms and biases stay near what they were
    if parameter.shape[0] == VOCABULARY:
        return (0.1 * noise).astype(dtype)
    width = parameter.shape[-1] if parameter.shape[-1] > 1 else parameter.shape[-2]  # the latter: a convolution
    return (1.5 * noise / math.sqrt(width)).astype(dtype)


def write_tokenizer(directory: Path, config: Config) -> None:
    """Put a small byte-level BPE tokenizer with ChatML's markers and template beside the weights."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    rust = Tokenizer(models.BPE())
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 16,
        special_tokens=["<|endoftext|>", IM_START, IM_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rust.train_from_iterator(TRAINING_TEXT, trainer)
    rust.save(str(directory / "tokenizer.json"))
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": IM_END,
        "pad_token": "<|endoftext|>",
        "model_max_length": config.get("max_position_embeddings", 4096),
        "chat_template": TEMPLATE,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(about, indent=1), encoding="utf-8")
