"""From a tiny GGUF file to a model directory: every matrix in its place, its rows in mlx-lm's order."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from ringleader.errors import ModelFault, ModelUnsupported
from ringleader.models.convert import Weights, convert, default_weights, restore_rows
from ringleader.models.headers import read_costs
from ringleader.values import ModelId
from tests.unit.models.builders import F32, LAYERS, gguf_bytes, interleave, tiny_gguf, tiny_metadata
from tests.unit.models.recorder import Recorder


def converted(tmp_path: Path, weights: Weights, data: bytes | None = None) -> tuple[Path, Recorder]:
    (tmp_path / "model.gguf").write_bytes(tiny_gguf()[0] if data is None else data)
    out = tmp_path / weights
    out.mkdir()
    recorder = Recorder()
    convert(tmp_path / "model.gguf", out, weights, recorder)
    return out, recorder


def scores(queries: np.ndarray, keys: np.ndarray, *, neighbours: bool) -> np.ndarray:
    """Attention scores of one head at positions 3 and 11 after rotary embedding, in either layout."""

    def rotated(vector: np.ndarray, position: int) -> np.ndarray:
        half = len(vector) // 2
        angle = position / 10000.0 ** (np.arange(half) / half)
        first, second = (vector[0::2], vector[1::2]) if neighbours else (vector[:half], vector[half:])
        return np.concatenate(
            [first * np.cos(angle) - second * np.sin(angle), first * np.sin(angle) + second * np.cos(angle)]
        )

    return np.array([rotated(q, 11) @ rotated(k, 3) for q, k in zip(queries, keys, strict=True)])


def test_restored_rows_attend_as_the_stored_ones_do_in_llama_cpp() -> None:
    random = np.random.default_rng(4)
    heads, width, columns = 3, 8, 16
    stored_q, stored_k = random.normal(size=(2, heads * width, columns))
    x = random.normal(size=columns)

    def by_head(matrix: np.ndarray) -> np.ndarray:
        return (matrix @ x).reshape(heads, width)

    there = scores(by_head(stored_q), by_head(stored_k), neighbours=True)
    here = scores(by_head(restore_rows(stored_q, heads)), by_head(restore_rows(stored_k, heads)), neighbours=False)
    forgotten = scores(by_head(stored_q), by_head(stored_k), neighbours=False)
    np.testing.assert_allclose(here, there)
    assert not np.allclose(forgotten, there)


def test_restoring_undoes_the_interleaving_and_is_not_its_own_inverse() -> None:
    rows = np.arange(4 * 16, dtype=np.uint8).reshape(64, 1)
    np.testing.assert_array_equal(restore_rows(interleave(rows, 4), 4), rows)
    assert not np.array_equal(interleave(interleave(rows, 4), 4), rows)


def test_rows_that_do_not_divide_into_heads_are_a_fault() -> None:
    with pytest.raises(ModelFault, match="10 rows"):
        restore_rows(np.zeros((10, 4), np.uint8), 3)


def test_dense_matrices_are_those_that_were_encoded(tmp_path: Path) -> None:
    truth = tiny_gguf()[1]
    out, _ = converted(tmp_path, "dense")
    stored = load_file(out / "model.safetensors")
    assert stored.keys() == {f"{path}.weight" for path in truth}
    for path, numbers in truth.items():
        assert stored[f"{path}.weight"].dtype == np.float32
        np.testing.assert_allclose(stored[f"{path}.weight"], numbers, rtol=1e-6, atol=1e-7, err_msg=path)


def test_packed_matrices_are_the_same_numbers_to_mlx(tmp_path: Path) -> None:
    truth = tiny_gguf()[1]
    out, _ = converted(tmp_path, "packed")
    stored = mx.load(str(out / "model.safetensors"))
    table = json.loads((out / "config.json").read_text())["quantization"]
    for path, numbers in truth.items():
        weight = stored[f"{path}.weight"]
        if f"{path}.scales" in stored:
            setting = table.get(path, table)
            scales, biases = (stored[f"{path}.{part}"].astype(mx.float32) for part in ("scales", "biases"))
            weight = mx.dequantize(weight, scales, biases, group_size=setting["group_size"], bits=setting["bits"])
        else:
            assert weight.dtype == mx.float16
        np.testing.assert_allclose(np.array(weight), numbers, rtol=1e-3, atol=1e-5, err_msg=path)


def test_mixed_bits_stand_in_the_config_tensor_by_tensor(tmp_path: Path) -> None:
    out, _ = converted(tmp_path, "packed")
    table = json.loads((out / "config.json").read_text())["quantization"]
    eight = {"group_size": 32, "bits": 8, "mode": "affine"}
    assert table == {"group_size": 32, "bits": 4, "mode": "affine", "model.embed_tokens": eight}


def test_the_config_tells_what_the_file_told(tmp_path: Path) -> None:
    out, _ = converted(tmp_path, "dense")
    config = json.loads((out / "config.json").read_text())
    assert "quantization" not in config
    assert (config["num_hidden_layers"], config["num_key_value_heads"], config["head_dim"]) == (LAYERS, 2, 32)
    assert config["tie_word_embeddings"] is True
    assert config["rms_norm_eps"] == 1e-5
    assert config["eos_token_id"] == 1
    assert read_costs(out, ModelId("tiny")).layers == LAYERS


def test_the_tokenizer_keeps_markers_whole_and_digits_apart(tmp_path: Path) -> None:
    out, _ = converted(tmp_path, "dense")
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    assert tokenizer.encode("<|im_end|>").ids == [1]
    assert tokenizer.encode("he 12").tokens == ["he", "Ġ", "1", "2"]
    assert tokenizer.decode(tokenizer.encode("héllo, 12!").ids) == "héllo, 12!"
    settings = json.loads((out / "tokenizer_config.json").read_text())
    assert (settings["eos_token"], settings["model_max_length"]) == ("<|im_end|>", 512)


def test_progress_counts_every_tensor(tmp_path: Path) -> None:
    count = len(tiny_gguf()[1])
    _, recorder = converted(tmp_path, "dense")
    assert recorder.advances == [(done, count, "tensors") for done in range(count + 1)]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"general.architecture": "mamba"}, "'mamba'"),
        ({"tokenizer.ggml.model": "llama"}, "'llama'"),
        ({"tokenizer.ggml.pre": "tekken"}, "'tekken'"),
        ({"tokenizer.ggml.merges": ["h zz"]}, "'h zz'"),
        ({"llama.block_count": 0}, "llama.block_count"),
        ({"llama.context_length": "long"}, "llama.context_length"),
    ],
)
def test_a_file_that_we_cannot_convert_is_refused_by_what_is_wrong(
    tmp_path: Path, change: dict[str, object], named: str
) -> None:
    embedding = ("token_embd.weight", (4, 32), F32, b"\0" * 512)
    with pytest.raises((ModelFault, ModelUnsupported), match=named):
        converted(tmp_path, "dense", gguf_bytes(tiny_metadata() | change, [embedding]))


def test_a_tensor_without_a_place_is_refused_by_name(tmp_path: Path) -> None:
    tensors = [("token_embd.weight", (4, 32), F32, b"\0" * 512), ("blk.0.ssm_in.weight", (1, 32), F32, b"\0" * 128)]
    with pytest.raises(ModelUnsupported, match=r"blk\.0\.ssm_in"):
        converted(tmp_path, "dense", gguf_bytes(tiny_metadata(), tensors))


def test_each_platform_gets_what_it_runs_fastest() -> None:
    assert (default_weights("darwin"), default_weights("linux")) == ("packed", "dense")
