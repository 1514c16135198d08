"""Loads one layer range of an mlx-lm model directory: reads the headers of all files, the weights of its range only.

MLX loads lazily: a weight's bytes are read when it is evaluated. What lies outside the range never is.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm.utils

from ringleader.errors import ModelFault, ModelUnsupported
from ringleader.shard.families import check_family
from ringleader.shard.slice import Slice, cache_arrays, find_layers
from ringleader.values import LayerRange

Progress = Callable[[float], None]  # fraction of the range's layers that are in memory, 0 to 1


def load_slice(directory: Path, layers: LayerRange, layer_count: int, progress: Progress) -> Slice:
    """Load layers `layers` of the model in `directory` and run one token through them.

    Raises:
        ModelUnsupported: the family cannot be cut, or the file format is foreign.
        ModelFault: files are missing or broken, or the model has not `layer_count` layers.
    """
    part = Slice(_lazy(directory), layers)
    if part.layer_count != layer_count:
        raise ModelFault(f"the plan says {layer_count} layers, the model in {directory} has {part.layer_count}")
    for done, layer in enumerate(part.kept):
        progress(done / (len(part.kept) + 1))
        mx.eval(layer.parameters())
    _warm(part)
    mx.clear_cache()
    progress(1.0)
    return part


def load_whole(directory: Path) -> Slice:
    """Load all of a model. Raises as `load_slice`."""
    model = _lazy(directory)
    part = Slice(model, LayerRange(0, len(find_layers(model))))
    mx.eval([layer.parameters() for layer in part.kept])
    _warm(part)
    return part


def _lazy(directory: Path) -> Any:
    check_family(_family(directory))
    try:
        model, _config = mlx_lm.utils.load_model(directory, lazy=True)
    except FileNotFoundError as error:
        raise ModelFault(f"{directory} holds no weights (model*.safetensors)") from error
    except (ValueError, KeyError, RuntimeError, TypeError) as error:
        raise ModelFault(f"the model in {directory} cannot be loaded: {error}") from error
    return model


def _warm(part: Slice) -> None:
    """One token through the range: brings in embedding or output head, and finds what cannot be cut."""
    caches = part.make_caches()
    token = mx.zeros((1, 1), dtype=mx.uint32)
    received = None if part.head else mx.zeros((1, 1, part.hidden_size), dtype=part.activation_dtype)
    out = part.forward(token, caches, received)
    if not isinstance(out, mx.array):
        raise ModelUnsupported("the layer range gave no activation; this family cannot be cut")
    mx.eval(out, cache_arrays(caches))


def _family(directory: Path) -> str:
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        return str(config["model_type"])
    except FileNotFoundError as error:
        raise ModelFault(f"{directory} is not a model directory: it has no config.json") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFault(f"{directory / 'config.json'} names no model_type") from error
