"""A model's config.json, read with every value distrusted: the few numbers that a plan needs, under all their names.

Families name the same number differently and nest it in `text_config`; nothing here knows a family by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ringleader.errors import ModelFault
from ringleader.values import Json

CONFIG_BYTES_MAX = 50_000_000
WHOLE_MAX = 2**40
CONTEXT_UNKNOWN = 32_768  # for state-space models that declare no limit; longer contexts want an entry in config.json

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers")
HIDDEN = ("hidden_size", "n_embd", "d_model", "dim", "model_dim", "n_embed")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_head_kv",
    "n_kv_heads",
    "multi_query_group_num",
    "num_query_groups",
)
HEAD_WIDTH = ("head_dim", "kv_channels", "attention_head_dim", "head_size")
CONTEXT = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length", "n_ctx")


class ModelConfig:
    """`raw` are the file's bytes, for digests; the rest reads `text_config` first, the top level after it."""

    def __init__(self, file: Path, raw: bytes, top: Mapping[str, Json]) -> None:
        self.file, self.raw, self._top = file, raw, top
        nested: Mapping[str, Json] = next(
            (top[key] for key in ("text_config", "llm_config") if isinstance(top.get(key), dict)), {}
        )
        self._both: tuple[Mapping[str, Json], ...] = (nested, top)

    @property
    def family(self) -> str:
        """`model_type`, the top level's first: it is what picks mlx-lm's model file."""
        for source in reversed(self._both):
            if isinstance(found := source.get("model_type"), str) and found:
                return found
        raise ModelFault(f"{self.file} names no model_type; it is not a model that mlx-lm loads")

    @property
    def tied(self) -> bool:
        """Whether the config says that the output head is the embedding."""
        return self.value("tie_word_embeddings") is True

    def value(self, key: str) -> Json:
        """The raw value of `key`, or None."""
        return next((source[key] for source in self._both if source.get(key) is not None), None)

    def whole(self, keys: tuple[str, ...]) -> int | None:
        """The first of `keys` that is set, or None. Raises ModelFault when it is not a positive whole number."""
        for source in self._both:
            for key in keys:
                if (found := source.get(key)) is not None:
                    return self._checked(key, found)
        return None

    def whole_of_layer(self, keys: tuple[str, ...], layer: int) -> int | None:
        """As `whole`, for keys that may hold one number for each layer."""
        for source in self._both:
            for key in keys:
                found = source.get(key)
                if isinstance(found, list) and layer < len(found):
                    found = found[layer]
                    return 0 if found in (0, None) else self._checked(key, found)
                if found is not None:
                    return self._checked(key, found)
        return None

    def required(self, keys: tuple[str, ...]) -> int:
        """As `whole`, but a missing number is a ModelFault."""
        found = self.whole(keys)
        if found is None:
            raise ModelFault(f"{self.file} has none of {', '.join(keys)}")
        return found

    def _checked(self, key: str, found: Json) -> int:
        if type(found) is not int or not 0 < found <= WHOLE_MAX:
            raise ModelFault(f"{self.file}: {key} is {str(found)[:40]}, not a positive whole number")
        return found


def read_config(directory: Path) -> ModelConfig:
    """Read `directory`/config.json.

    Raises:
        ModelFault: it is missing, unreadable or not a JSON object.
    """
    file = directory / "config.json"
    try:
        if file.stat().st_size > CONFIG_BYTES_MAX:
            raise ModelFault(f"{file} is larger than {CONFIG_BYTES_MAX} bytes: not a model's config")
        raw = file.read_bytes()
        top = json.loads(raw)
    except FileNotFoundError as error:
        raise ModelFault(f"{file} is missing: {directory} is not a model directory") from error
    except OSError as error:
        raise ModelFault(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFault(f"{file} is not JSON: {error}") from error
    if not isinstance(top, dict):
        raise ModelFault(f"{file} is not a JSON object")
    return ModelConfig(file, raw, top)
