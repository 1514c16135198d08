"""From a GGUF file to a model directory that mlx-lm loads: names, row order, config, tokenizer, weights.

Only the llama architecture is read (what the catalogue needs); others are refused by name. Never imports mlx.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ringleader.errors import ModelFault, ModelUnsupported
from ringleader.models.blocks import GROUP, KINDS, dense, packed
from ringleader.models.gguf import Gguf, GgufTensor, read_gguf
from ringleader.models.gguf_tokenizer import build_tokenizer, tokenizer_config
from ringleader.models.reporter import Reporter
from ringleader.models.safetensors import NUMPY_DTYPES, TensorSpec, write_safetensors
from ringleader.values import Json

_Element = TypeVar("_Element", bound=np.generic)
Weights = Literal["dense", "packed"]
"""`dense`: everything as float32. `packed`: quantised as in the file, all other numbers as float16."""

FLOAT = {"dense": "F32", "packed": "F16"}
ARCHITECTURE = "llama"

BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def default_weights(platform: str = sys.platform) -> Weights:
    """What this machine runs fastest: Metal likes packed half precision, a CPU's matrix library dense float32."""
    return "packed" if platform == "darwin" else "dense"


def convert(gguf: Path, out: Path, weights: Weights, reporter: Reporter) -> None:
    """Write the model of `gguf` into the existing directory `out`, every file flushed to the disk.

    Raises:
        ModelFault, ModelUnsupported: the file is broken, or of an architecture or kind that is not read.
        OSError: the disk is full or not writable.
    """
    source = read_gguf(gguf)
    config = _config(source)
    tensors = {_path(tensor.name): tensor for tensor in source.tensors}
    specs: dict[str, TensorSpec] = {}
    for path, tensor in tensors.items():
        specs |= _specs(path, tensor, weights)
    write_safetensors(out / "model.safetensors", specs, _produce(tensors, config, weights, reporter.advance))
    if weights == "packed":
        config |= _quantization(tensors)
    _write_json(out / "config.json", config)
    _write(out / "tokenizer.json", build_tokenizer(source.metadata).to_str())
    _write_json(out / "tokenizer_config.json", tokenizer_config(source.metadata, config["max_position_embeddings"]))


def restore_rows(rows: npt.NDArray[_Element], heads: int) -> npt.NDArray[_Element]:
    """Undo the row order that llama.cpp gives to q and k of this architecture.

    It stores each head's rows interleaved (0, d/2, 1, d/2+1, ...) because its rotary embedding turns
    neighbours; mlx-lm turns row i with row i + d/2. Whole rows move, so weight, scale and bias of a
    quantised matrix stay together. A model with the wrong order still writes grammatical text.
    """
    count, width = rows.shape
    if count % (2 * heads):
        raise ModelFault(f"{count} rows of q or k do not divide into {heads} heads of even size")
    return rows.reshape(heads, count // heads // 2, 2, width).swapaxes(1, 2).reshape(count, width)


# ---------------------------------------------------------------- weights


def _path(name: str) -> str:
    stem, _, suffix = name.rpartition(".")
    parts = stem.split(".")
    if suffix == "weight" and stem in TOP_NAMES:
        return TOP_NAMES[stem]
    if suffix == "weight" and len(parts) == 3 and parts[0] == "blk" and parts[1].isdigit() and parts[2] in BLOCK_NAMES:
        return f"model.layers.{int(parts[1])}.{BLOCK_NAMES[parts[2]]}"
    raise ModelUnsupported(f"tensor {name!r} has no place in the {ARCHITECTURE} architecture as we convert it")


def _specs(path: str, tensor: GgufTensor, weights: Weights) -> dict[str, TensorSpec]:
    bits = KINDS[tensor.kind].bits
    if weights == "dense" or not bits:
        return {f"{path}.weight": TensorSpec(FLOAT[weights], tensor.shape)}
    *rows, columns = tensor.shape
    groups = TensorSpec("F16", (*rows, columns // GROUP))
    words = TensorSpec("U32", (*rows, columns * bits // 32))
    return {f"{path}.weight": words, f"{path}.scales": groups, f"{path}.biases": groups}


def _produce(
    tensors: dict[str, GgufTensor], config: dict[str, Json], weights: Weights, advance: Callable[..., None]
) -> Iterator[tuple[str, np.ndarray]]:
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for done, (path, tensor) in enumerate(tensors.items()):
        advance(done, len(tensors), "tensors")
        rows = tensor.data
        if (count := heads.get(path.rpartition(".")[2])) is not None:
            rows = restore_rows(rows, count)
        if weights == "dense" or not KINDS[tensor.kind].bits:
            yield f"{path}.weight", dense(tensor.kind, rows).reshape(tensor.shape).astype(NUMPY_DTYPES[FLOAT[weights]])
        else:
            matrix = packed(tensor.kind, rows)
            yield f"{path}.weight", matrix.weight
            yield f"{path}.scales", matrix.scales
            yield f"{path}.biases", matrix.biases
    advance(len(tensors), len(tensors), "tensors")


def _quantization(tensors: dict[str, GgufTensor]) -> dict[str, Json]:
    """The commonest setting at the top, an entry for each tensor that differs: how mlx-lm reads mixed bits."""
    bits = {path: KINDS[tensor.kind].bits for path, tensor in tensors.items() if KINDS[tensor.kind].bits}
    if not bits:
        return {}
    listed = list(bits.values())
    common = max(sorted(set(listed)), key=listed.count)
    table: dict[str, Json] = _affine(common)
    table |= {path: _affine(found) for path, found in bits.items() if found != common}
    return {"quantization": table, "quantization_config": table}


def _affine(bits: int) -> dict[str, Json]:
    return {"group_size": GROUP, "bits": bits, "mode": "affine"}


# ---------------------------------------------------------------- config and files


def _config(source: Gguf) -> dict[str, Json]:
    meta = source.metadata
    architecture = meta.get("general.architecture")
    if architecture != ARCHITECTURE:
        raise ModelUnsupported(f"GGUF architecture {architecture!r} is not converted; only {ARCHITECTURE!r} is")
    names = {tensor.name: tensor for tensor in source.tensors}
    if "token_embd.weight" not in names:
        raise ModelFault("the GGUF file holds no token_embd.weight")
    heads = _whole(meta, "llama.attention.head_count")
    hidden = _whole(meta, "llama.embedding_length")
    eos = _whole(meta, "tokenizer.ggml.eos_token_id", least=0)
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": _whole(meta, "llama.block_count"),
        "intermediate_size": _whole(meta, "llama.feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": _whole(meta, "llama.attention.head_count_kv", heads),
        "head_dim": _whole(meta, "llama.attention.key_length", hidden // heads),
        "rms_norm_eps": _shortest(meta.get("llama.attention.layer_norm_rms_epsilon", 1e-5)),
        "rope_theta": _shortest(meta.get("llama.rope.freq_base", 10000.0)),
        "max_position_embeddings": _whole(meta, "llama.context_length"),
        "vocab_size": names["token_embd.weight"].shape[0],
        # llama.cpp leaves the output matrix out when it is the embedding.
        "tie_word_embeddings": "output.weight" not in names,
        "eos_token_id": eos,
        "bos_token_id": _whole(meta, "tokenizer.ggml.bos_token_id", eos, least=0),
        "hidden_act": "silu",
    }


def _whole(meta: Json, key: str, otherwise: int | None = None, *, least: int = 1) -> int:
    found = meta.get(key, otherwise)
    if type(found) is not int or found < least:
        raise ModelFault(f"the GGUF file's {key} is {found!r}, not a whole number of at least {least}")
    return found


def _shortest(single: float) -> float:
    """The shortest decimal that is the same float32: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(single)))


def _write_json(file: Path, value: Json) -> None:
    _write(file, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def _write(file: Path, text: str) -> None:
    with file.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
