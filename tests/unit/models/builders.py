"""Small real files to read: GGUF models, safetensors, wheels. Written apart from the code that reads them."""

from __future__ import annotations

import hashlib
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import pre_tokenizers

from ringleader.models.catalogue import CatalogueEntry

HIDDEN, HEADS, KV_HEADS, FEED_FORWARD, LAYERS = 128, 4, 2, 192, 2
F32, F16, Q4_0, Q4_1, Q8_0 = 0, 1, 2, 3, 8


# ---------------------------------------------------------------- GGUF


def q4_1(rows: int, columns: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random blocks: (bytes by row, the numbers that they mean)."""
    q = random.integers(0, 16, (rows, columns // 32, 32), dtype=np.uint8)
    d = random.uniform(0.01, 0.1, (rows, columns // 32, 1)).astype("<f2")
    m = random.uniform(-0.8, 0.0, (rows, columns // 32, 1)).astype("<f2")
    raw = np.concatenate([d.view(np.uint8), m.view(np.uint8), q[..., :16] | (q[..., 16:] << 4)], axis=-1)
    return raw.reshape(rows, -1), (q * d.astype(np.float32) + m.astype(np.float32)).reshape(rows, columns)


def q4_0(rows: int, columns: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """As `q4_1`, without a minimum: numbers are (q - 8) * d."""
    q = random.integers(0, 16, (rows, columns // 32, 32), dtype=np.uint8)
    d = random.uniform(0.01, 0.1, (rows, columns // 32, 1)).astype("<f2")
    raw = np.concatenate([d.view(np.uint8), q[..., :16] | (q[..., 16:] << 4)], axis=-1)
    return raw.reshape(rows, -1), ((q.astype(np.float32) - 8) * d.astype(np.float32)).reshape(rows, columns)


def q8_0(rows: int, columns: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """As `q4_1`, with signed bytes."""
    q = random.integers(-128, 128, (rows, columns // 32, 32)).astype(np.int8)
    d = random.uniform(0.001, 0.01, (rows, columns // 32, 1)).astype("<f2")
    raw = np.concatenate([d.view(np.uint8), q.view(np.uint8)], axis=-1)
    return raw.reshape(rows, -1), (q * d.astype(np.float32)).reshape(rows, columns)


def interleave(rows: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to the rows of q and k when it writes a llama model."""
    return rows.reshape(heads, 2, len(rows) // heads // 2, -1).swapaxes(1, 2).reshape(len(rows), -1)


def gguf_bytes(metadata: dict[str, Any], tensors: list[tuple[str, tuple[int, ...], int, bytes]]) -> bytes:
    """A version 3 file; shapes are row-major here and reversed in the file."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        out += _text(key) + _value(value)
    data = b""
    for name, shape, kind, raw in tensors:
        data += b"\0" * (-len(data) % 32)
        out += _text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        out += struct.pack("<IQ", kind, len(data))
        data += raw
    return out + b"\0" * (-len(out) % 32) + data


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(_text(each) for each in value)
    return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)


def tiny_metadata() -> dict[str, Any]:
    """Of a llama model whose vocabulary is the bytes, one merge and two markers."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = ["<|endoftext|>", "<|im_end|>", *letters, "he"]
    return {
        "general.architecture": "llama",
        "llama.block_count": LAYERS,
        "llama.context_length": 512,
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": FEED_FORWARD,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3] + [1] * (len(tokens) - 2),
        "tokenizer.ggml.merges": ["h e"],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.chat_template": "{{ messages[0].content }}",
    }


def tiny_gguf(seed: int = 0) -> tuple[bytes, dict[str, np.ndarray]]:
    """A whole model file, and each of its matrices in the order that mlx-lm wants, by mlx-lm's name."""
    random = np.random.default_rng(seed)
    metadata = tiny_metadata()
    tensors: list[tuple[str, tuple[int, ...], int, bytes]] = []
    truth: dict[str, np.ndarray] = {}

    def matrix(name: str, path: str, rows: int, columns: int, heads: int = 0, *, kind: int = Q4_1) -> None:
        raw, numbers = (q8_0 if kind == Q8_0 else q4_1)(rows, columns, random)
        tensors.append((name, (rows, columns), kind, (interleave(raw, heads) if heads else raw).tobytes()))
        truth[path] = numbers

    def norm(name: str, path: str) -> None:
        numbers = random.uniform(0.5, 1.5, HIDDEN).astype("<f4")
        tensors.append((name, (HIDDEN,), F32, numbers.tobytes()))
        truth[path] = numbers

    width = HIDDEN // HEADS
    matrix("token_embd.weight", "model.embed_tokens", len(metadata["tokenizer.ggml.tokens"]), HIDDEN, kind=Q8_0)
    for i in range(LAYERS):
        here, there = f"blk.{i}", f"model.layers.{i}"
        norm(f"{here}.attn_norm.weight", f"{there}.input_layernorm")
        norm(f"{here}.ffn_norm.weight", f"{there}.post_attention_layernorm")
        matrix(f"{here}.attn_q.weight", f"{there}.self_attn.q_proj", HIDDEN, HIDDEN, HEADS)
        matrix(f"{here}.attn_k.weight", f"{there}.self_attn.k_proj", KV_HEADS * width, HIDDEN, KV_HEADS)
        matrix(f"{here}.attn_v.weight", f"{there}.self_attn.v_proj", KV_HEADS * width, HIDDEN)
        matrix(f"{here}.attn_output.weight", f"{there}.self_attn.o_proj", HIDDEN, HIDDEN)
        matrix(f"{here}.ffn_gate.weight", f"{there}.mlp.gate_proj", FEED_FORWARD, HIDDEN)
        matrix(f"{here}.ffn_up.weight", f"{there}.mlp.up_proj", FEED_FORWARD, HIDDEN)
        matrix(f"{here}.ffn_down.weight", f"{there}.mlp.down_proj", HIDDEN, FEED_FORWARD)
    norm("output_norm.weight", "model.norm")
    return gguf_bytes(metadata, tensors), truth


# ---------------------------------------------------------------- wheels


def tiny_wheel(folder: Path, *, name: str = "tiny", gguf: bytes | None = None) -> CatalogueEntry:
    """Put the wheel of a model package into `folder`, which pip then finds with PIP_FIND_LINKS.

    The same bytes whenever it is called: a process that writes it anew must not change what the catalogue pinned.
    """
    gguf = tiny_gguf()[0] if gguf is None else gguf
    wheel = folder / f"{name}_package-1.0-py3-none-any.whl"
    info = f"{name}_package-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(zipfile.ZipInfo(f"{name}_package/model.gguf"), gguf)
        archive.writestr(
            zipfile.ZipInfo(f"{info}/METADATA"), f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 1.0\n"
        )
        archive.writestr(
            zipfile.ZipInfo(f"{info}/WHEEL"), "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(zipfile.ZipInfo(f"{info}/RECORD"), "")
    return CatalogueEntry(
        name=name,
        title="Tiny",
        licence="none",
        family="llama",
        layers=LAYERS,
        package=f"{name}-package",
        version="1.0",
        wheel={"name": wheel.name, "size_bytes": wheel.stat().st_size, "sha256": sha256(wheel.read_bytes())},
        gguf={"name": f"{name}_package/model.gguf", "size_bytes": len(gguf), "sha256": sha256(gguf)},
    )


def sha256(data: bytes) -> str:
    """Hexadecimal."""
    return hashlib.sha256(data).hexdigest()


# ---------------------------------------------------------------- model directories


def safetensors_bytes(tensors: dict[str, tuple[str, tuple[int, ...]]]) -> bytes:
    """A file of zeros, from dtype and shape by name."""
    header: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        size = int(np.prod(shape)) * {"F32": 4, "U32": 4, "F16": 2, "BF16": 2, "U8": 1}[dtype]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * end


def llama_tensors(layers: int = 2, hidden: int = 8, vocabulary: int = 10) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Names and shapes of a small fp16 model with its own output head."""
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {"model.embed_tokens.weight": ("F16", (vocabulary, hidden))}
    for i in range(layers):
        tensors[f"model.layers.{i}.self_attn.q_proj.weight"] = ("F16", (hidden, hidden))
        tensors[f"model.layers.{i}.self_attn.k_proj.weight"] = ("F16", (hidden // 2, hidden))
        tensors[f"model.layers.{i}.self_attn.v_proj.weight"] = ("F16", (hidden // 2, hidden))
        tensors[f"model.layers.{i}.mlp.up_proj.weight"] = ("F16", (hidden * (i + 1), hidden))
    tensors["model.norm.weight"] = ("F16", (hidden,))
    tensors["lm_head.weight"] = ("F16", (vocabulary, hidden))
    return tensors


LLAMA_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}


def model_directory(
    directory: Path, config: dict[str, Any] | None = None, **files: dict[str, tuple[str, tuple[int, ...]]]
) -> Path:
    """A directory with config.json and one weight file for each keyword ("model", "model_2", ...)."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(LLAMA_CONFIG if config is None else config))
    for name, tensors in (files or {"model": llama_tensors()}).items():
        (directory / f"{name}.safetensors").write_bytes(safetensors_bytes(tensors))
    return directory
