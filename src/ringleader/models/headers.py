"""What a model weighs, layer by layer, from safetensors headers and config.json alone; no weight is ever read.

Names decide: a layer's index stands in the tensor's name. Vision, audio and draft-head tensors are left out,
because mlx-lm's language models drop them on loading.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ringleader.errors import ModelFault
from ringleader.models.cache_growth import kv_bytes_per_token
from ringleader.models.config import CONTEXT, CONTEXT_UNKNOWN, HIDDEN, LAYERS, ModelConfig, read_config
from ringleader.models.safetensors import DTYPE_BITS, Header, TensorEntry, read_header
from ringleader.values import Json, ModelCosts, ModelId

INDEX = "model.safetensors.index.json"
INDEX_BYTES_MAX = 200_000_000
LAYERS_MAX = 10_000

LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d{1,5})\.")
NOT_LANGUAGE = re.compile(
    r"(?:^|\.)(?:vision\w*|visual|vit|audio\w*|multi_modal_projector|mm_projector|image_newline|sound\w*|mtp|eagle)(?:\.|$)"
)
HEAD = re.compile(
    r"(?:^|\.)(?:embed_tokens\w*|wte|wpe|word_embeddings|tok_embeddings|token_embeddings|embeddings?|embed_in)\."
)
POSITIONS = re.compile(r"(?:^|\.)(?:wpe|embed_tokens_per_layer)\.")  # embeddings that are no output matrix
TAIL = re.compile(r"(?:^|\.)(?:lm_head|embed_out|unembed_out|output|ff_out)(?:\.|$)|norm\w*(?:\.|$)|(?:^|\.)ln_f\.")
OUTPUT_HEAD = re.compile(r"(?:^|\.)(?:lm_head|embed_out|output|ff_out)(?:\.|$)")
FLOATS = ("F32", "F16", "BF16")
# Routed experts, stacked as mlx-lm keeps them or one by one; shared ones are read for every token.
EXPERTS = re.compile(r"(?:^|\.)(?:experts|switch_mlp|switch_glu)\.")
EXPERTS_HELD = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts", "num_moe_experts")
EXPERTS_READ = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_topk",
    "top_k_experts",
    "moe_k",
)


@dataclass(frozen=True, slots=True)
class _Sorted:
    layers: Mapping[int, Mapping[str, TensorEntry]]
    head: Mapping[str, TensorEntry]
    tail: Mapping[str, TensorEntry]


def read_costs(directory: Path, model: ModelId) -> ModelCosts:
    """Measure the model in `directory`; takes milliseconds, whatever its size.

    Bytes are exact sums of the tensors as stored. A tensor outside the layers that is neither embedding
    nor norm nor output head counts at both ends. Layers past the config's number (draft heads) are left out.

    Raises:
        ModelFault: a file is missing, truncated or not what its name says; names it.
    """
    config = read_config(directory)
    headers = read_headers(directory)
    sorted_ = _sort(config, {name: entry for header in headers.values() for name, entry in header.tensors.items()})
    cache_bytes = DTYPE_BITS[activation_dtype(sorted_.head)] // 8
    return ModelCosts(
        model=model,
        digest=_digest(config, headers),
        family=config.family,
        layer_bytes=tuple(_bytes(sorted_.layers[layer]) for layer in sorted(sorted_.layers)),
        head_bytes=_bytes(sorted_.head),
        tail_bytes=_bytes(sorted_.tail),
        kv_bytes_per_token=kv_bytes_per_token(
            config,
            {layer: _names_inside(names) for layer, names in sorted_.layers.items()},
            cache_bytes,
        ),
        hidden_size=config.required(HIDDEN),
        context_max=_context(directory, config),
        active_bytes=_active(config, sorted_.layers),
        cache_bytes=cache_bytes,
    )


def read_headers(directory: Path) -> dict[str, Header]:
    """The headers of all weight files (model*.safetensors, as mlx-lm loads them) by file name, sorted.

    Raises:
        ModelFault: there is none, one that the index lists is missing, or one is broken; names it.
    """
    listed = _indexed_files(directory)
    found = {file.name for file in directory.glob("model*.safetensors")}
    if missing := sorted(listed - found):
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise ModelFault(f"{directory / missing[0]} is missing{more}, though {INDEX} lists it; fetch the model again")
    if not found:
        raise ModelFault(f"{directory} holds no model*.safetensors: nothing to serve")
    return {name: read_header(directory / name) for name in sorted(found)}


def activation_dtype(embedding: Mapping[str, TensorEntry]) -> str:
    """The dtype that flows through the layers ("F16", ...): that of the embedding's numbers, packed or not."""
    for suffix in (".scales", ".weight", ""):
        for name, entry in embedding.items():
            if name.endswith(suffix) and entry.dtype in FLOATS:
                return entry.dtype
    return "BF16"  # scales of micro-scaled formats are no floats; such models compute in bfloat16


def _indexed_files(directory: Path) -> set[str]:
    file = directory / INDEX
    try:
        if not file.exists():
            return set()
        if file.stat().st_size > INDEX_BYTES_MAX:
            raise ModelFault(f"{file} is larger than {INDEX_BYTES_MAX} bytes: not an index")
        table = json.loads(file.read_bytes())
    except OSError as error:
        raise ModelFault(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFault(f"{file} is not JSON: {error}") from error
    names = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise ModelFault(f"{file} has no weight_map of tensor to file")
    return set(names.values())


def _sort(config: ModelConfig, tensors: Mapping[str, TensorEntry]) -> _Sorted:
    layers: dict[int, dict[str, TensorEntry]] = {}
    head: dict[str, TensorEntry] = {}
    tail: dict[str, TensorEntry] = {}
    for name, entry in tensors.items():
        if NOT_LANGUAGE.search(name):
            continue
        if found := LAYER.search(name):
            layers.setdefault(int(found[1]), {})[name] = entry
            continue
        at_head, at_tail = bool(HEAD.search(name)), bool(TAIL.search(name))
        if at_head or not at_tail:
            head[name] = entry
        if at_tail or not at_head:
            tail[name] = entry
    _tie(config, head, tail)
    return _Sorted(_counted(config, layers), head, tail)


def _tie(config: ModelConfig, head: Mapping[str, TensorEntry], tail: dict[str, TensorEntry]) -> None:
    """Give the tail the embedding where that is also its output matrix."""
    outputs = [name for name in tail if OUTPUT_HEAD.search(name)]
    if outputs and not config.tied:
        return
    for name in outputs:  # mlx-lm drops a stored head when the config says that it is tied
        del tail[name]
    tail.update({name: entry for name, entry in head.items() if HEAD.search(name) and not POSITIONS.search(name)})


def _counted(config: ModelConfig, layers: dict[int, dict[str, TensorEntry]]) -> Mapping[int, Mapping[str, TensorEntry]]:
    if not layers:
        raise ModelFault(f"{config.file.parent}: no tensor names a layer, so the model cannot be split")
    count = config.whole(LAYERS) or max(layers) + 1
    if count > LAYERS_MAX:
        raise ModelFault(f"{config.file}: {count} layers are more than {LAYERS_MAX}")
    if (missing := next((layer for layer in range(count) if layer not in layers), None)) is not None:
        raise ModelFault(f"{config.file.parent}: layer {missing} of {count} has no tensors; a weight file is missing")
    return {layer: layers[layer] for layer in range(count)}


def _names_inside(names: Mapping[str, TensorEntry]) -> set[str]:
    return {name[found.end() :] for name in names if (found := LAYER.search(name))}


def _bytes(tensors: Mapping[str, TensorEntry]) -> int:
    return sum(entry.bytes for entry in tensors.values())


def _active(config: ModelConfig, layers: Mapping[int, Mapping[str, TensorEntry]]) -> tuple[int, ...]:
    """What a token reads of each layer; () where every layer is read whole, or the config does not tell."""
    held, read = config.whole_of_layer(EXPERTS_HELD, 0), config.whole_of_layer(EXPERTS_READ, 0)
    if not held or not read or read >= held:
        return ()
    active = []
    for layer in sorted(layers):
        routed = _bytes({name: entry for name, entry in layers[layer].items() if EXPERTS.search(name)})
        active.append(_bytes(layers[layer]) - routed + -(-routed * read // held))
    return tuple(active)


def _digest(config: ModelConfig, headers: Mapping[str, Header]) -> str:
    digest = hashlib.blake2b(config.raw, digest_size=16)
    for name, header in headers.items():
        digest.update(f"\n{name} {len(header.raw)}\n".encode())
        digest.update(header.raw)
    return digest.hexdigest()


def _context(directory: Path, config: ModelConfig) -> int:
    declared = config.whole(CONTEXT)
    if declared is not None:
        return declared
    try:
        table: Json = json.loads((directory / "tokenizer_config.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return CONTEXT_UNKNOWN  # the tokenizer's own loading complains about a broken file
    length = table.get("model_max_length") if isinstance(table, dict) else None
    return length if type(length) is int and 0 < length < 10**8 else CONTEXT_UNKNOWN
