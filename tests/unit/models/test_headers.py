"""What models weigh: exact sums by layer, the ends, and faults that name the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ringleader.errors import ModelFault
from ringleader.models.config import CONTEXT_UNKNOWN
from ringleader.models.headers import INDEX, read_costs
from ringleader.values import ModelCosts, ModelId
from tests.unit.models.builders import LLAMA_CONFIG, llama_tensors, model_directory


def costs(directory: Path) -> ModelCosts:
    return read_costs(directory, ModelId("m"))


def test_each_layer_and_each_end_is_the_exact_sum_of_its_tensors(tmp_path: Path) -> None:
    found = costs(model_directory(tmp_path))
    attention = 2 * (8 * 8 + 4 * 8 + 4 * 8)
    assert found.layer_bytes == (attention + 2 * 64, attention + 2 * 128)
    assert found.head_bytes == 2 * 80
    assert found.tail_bytes == 2 * (8 + 80)
    assert (found.family, found.hidden_size, found.context_max, found.layers) == ("llama", 8, 64, 2)


def test_a_tied_embedding_counts_at_both_ends(tmp_path: Path) -> None:
    tensors = llama_tensors()
    del tensors["lm_head.weight"]
    found = costs(model_directory(tmp_path, model=tensors))
    assert (found.head_bytes, found.tail_bytes) == (160, 16 + 160)


def test_a_stored_head_that_the_config_calls_tied_is_not_counted(tmp_path: Path) -> None:
    tensors = llama_tensors() | {"lm_head.weight": ("F16", (1000, 8))}
    found = costs(model_directory(tmp_path, LLAMA_CONFIG | {"tie_word_embeddings": True}, model=tensors))
    assert found.tail_bytes == 16 + 160


@pytest.mark.parametrize(
    ("layer", "embedding", "norm", "head"),
    [
        ("model.layers.", "model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"),
        ("backbone.layers.", "backbone.embeddings.weight", "backbone.norm_f.weight", "lm_head.weight"),
        ("transformer.h.", "transformer.wte.weight", "transformer.ln_f.weight", "lm_head.weight"),
        (
            "model.language_model.layers.",
            "model.language_model.embed_tokens.weight",
            "model.language_model.norm.weight",
            "lm_head.weight",
        ),
        (
            "language_model.model.layers.",
            "language_model.model.embed_tokens.weight",
            "language_model.model.norm.weight",
            "language_model.lm_head.weight",
        ),
        ("model.layers.", "model.tok_embeddings.weight", "model.norm.weight", "output.weight"),
        ("gpt_neox.layers.", "gpt_neox.embed_in.weight", "gpt_neox.final_layer_norm.weight", "embed_out.weight"),
    ],
)
def test_the_ways_of_naming_tensors_all_measure_the_same(
    tmp_path: Path, layer: str, embedding: str, norm: str, head: str
) -> None:
    names = {"model.embed_tokens.weight": embedding, "model.norm.weight": norm, "lm_head.weight": head}
    renamed = {names.get(name, name.replace("model.layers.", layer)): shape for name, shape in llama_tensors().items()}
    plain = costs(model_directory(tmp_path / "plain"))
    found = costs(model_directory(tmp_path / "named", model=renamed))
    assert (found.layer_bytes, found.head_bytes, found.tail_bytes, found.kv_bytes_per_token) == (
        plain.layer_bytes,
        plain.head_bytes,
        plain.tail_bytes,
        plain.kv_bytes_per_token,
    )


def test_tensors_spread_over_files_are_added_up(tmp_path: Path) -> None:
    tensors = llama_tensors()
    parts = [dict(list(tensors.items())[:4]), dict(list(tensors.items())[4:])]
    spread = model_directory(tmp_path / "two", **{"model-00001-of-00002": parts[0], "model-00002-of-00002": parts[1]})
    whole = costs(model_directory(tmp_path / "one"))
    found = costs(spread)
    assert (found.layer_bytes, found.weight_bytes) == (whole.layer_bytes, whole.weight_bytes)
    assert found.digest != whole.digest


def test_vision_and_draft_tensors_weigh_nothing(tmp_path: Path) -> None:
    extra = {
        "vision_tower.encoder.layers.0.mlp.weight": ("F16", (64, 64)),
        "model.visual.blocks.7.attn.qkv.weight": ("F16", (64, 64)),
        "mtp.layers.0.mlp.weight": ("F16", (64, 64)),
        "model.layers.2.mlp.weight": ("F16", (64, 64)),  # past the config's two layers: a draft head
    }
    plain = costs(model_directory(tmp_path / "plain"))
    found = costs(model_directory(tmp_path / "more", model=llama_tensors() | extra))
    assert (found.layer_bytes, found.weight_bytes) == (plain.layer_bytes, plain.weight_bytes)


def test_a_tensor_of_unknown_use_is_held_by_both_ends(tmp_path: Path) -> None:
    plain = costs(model_directory(tmp_path / "plain"))
    found = costs(model_directory(tmp_path / "odd", model=llama_tensors() | {"model.gate.weight": ("F16", (10,))}))
    assert (found.head_bytes - plain.head_bytes, found.tail_bytes - plain.tail_bytes) == (20, 20)


def test_a_nested_text_config_is_read(tmp_path: Path) -> None:
    nested = {key: value for key, value in LLAMA_CONFIG.items() if key != "model_type"}
    config = {"model_type": "mistral3", "text_config": nested | {"model_type": "mistral"}, "hidden_size": 999}
    found = costs(model_directory(tmp_path, config))
    assert (found.family, found.hidden_size, found.context_max) == ("mistral3", 8, 64)


def test_the_digest_changes_with_the_config_and_with_a_header_only(tmp_path: Path) -> None:
    first = costs(model_directory(tmp_path / "a")).digest
    assert len(first) == 32
    assert costs(model_directory(tmp_path / "b")).digest == first
    assert costs(model_directory(tmp_path / "c", LLAMA_CONFIG | {"rope_theta": 5.0})).digest != first
    wider = llama_tensors() | {"lm_head.weight": ("F16", (11, 8))}
    assert costs(model_directory(tmp_path / "d", model=wider)).digest != first


def test_a_model_without_a_declared_context_gets_the_tokenizers_or_a_careful_one(tmp_path: Path) -> None:
    config = {key: value for key, value in LLAMA_CONFIG.items() if key != "max_position_embeddings"}
    directory = model_directory(tmp_path, config)
    assert costs(directory).context_max == CONTEXT_UNKNOWN
    (directory / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 777}))
    assert costs(directory).context_max == 777


def test_a_file_that_the_index_lists_and_that_is_missing_is_named(tmp_path: Path) -> None:
    directory = model_directory(tmp_path)
    table = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (directory / INDEX).write_text(json.dumps(table))
    with pytest.raises(ModelFault, match=r"model-00002-of-00002\.safetensors is missing"):
        costs(directory)


def test_a_missing_layer_is_named(tmp_path: Path) -> None:
    tensors = {name: shape for name, shape in llama_tensors(3).items() if "layers.1." not in name}
    with pytest.raises(ModelFault, match="layer 1 of 3"):
        costs(model_directory(tmp_path, LLAMA_CONFIG | {"num_hidden_layers": 3}, model=tensors))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", "{"),
        ("config.json", "[" * 100_000),
        ("config.json", "[]"),
        ("config.json", "{}"),
        ("config.json", json.dumps(LLAMA_CONFIG | {"num_hidden_layers": 10**30})),
        ("config.json", json.dumps(LLAMA_CONFIG | {"num_hidden_layers": 10**9})),
        ("config.json", json.dumps(LLAMA_CONFIG | {"hidden_size": "8"})),
        ("config.json", json.dumps(LLAMA_CONFIG | {"num_key_value_heads": -1})),
        ("config.json", json.dumps(LLAMA_CONFIG | {"text_config": {"num_hidden_layers": 0.5}})),
        (INDEX, "nonsense"),
        (INDEX, "[" * 100_000),
        (INDEX, '{"weight_map": {"a": 1}}'),
        ("model.safetensors", "short"),
    ],
)
def test_a_broken_file_is_a_fault_that_names_it(tmp_path: Path, file: str, content: str) -> None:
    directory = model_directory(tmp_path)
    (directory / file).write_text(content)
    with pytest.raises(ModelFault, match=file.replace(".", r"\.")):
        costs(directory)


def test_a_directory_without_weights_says_so(tmp_path: Path) -> None:
    directory = model_directory(tmp_path)
    (directory / "model.safetensors").unlink()
    with pytest.raises(ModelFault, match="holds no model"):
        costs(directory)


def expert_tensors(names: list[str]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Layer 0 dense, layer 1 with four experts of 100 bytes each and a shared one of 60."""
    stacked = {f"model.layers.1.mlp.{name}.weight": ("F16", (200 // len(names),)) for name in names}
    shared = {"model.layers.1.mlp.shared_experts.up_proj.weight": ("F16", (30,))}
    return {**llama_tensors(), **stacked, **shared}


EXPERTS_CONFIG = {**LLAMA_CONFIG, "n_routed_experts": 4, "num_experts_per_tok": 1}


@pytest.mark.parametrize(
    "names",
    [["switch_mlp.up_proj"], ["switch_mlp.up_proj", "switch_mlp.gate_proj"], [f"experts.{e}.w1" for e in range(4)]],
)
def test_of_routed_experts_a_token_reads_its_share_and_of_all_else_everything(tmp_path: Path, names: list[str]) -> None:
    found = costs(model_directory(tmp_path, EXPERTS_CONFIG, model=expert_tensors(names)))
    dense, sparse = found.layer_bytes
    assert found.active_bytes == (dense, sparse - 400 + 100)


@pytest.mark.parametrize("config", [LLAMA_CONFIG, {**EXPERTS_CONFIG, "num_experts_per_tok": 4}])
def test_without_experts_or_with_all_of_them_read_nothing_is_said_of_it(tmp_path: Path, config: dict[str, Any]) -> None:
    assert costs(model_directory(tmp_path, config, model=expert_tensors(["switch_mlp.up_proj"]))).active_bytes == ()
