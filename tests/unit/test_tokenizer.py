from __future__ import annotations

import json
from pathlib import Path

import pytest

from ringleader.errors import ModelFault
from ringleader.tokenizer import load_tokenizer
from tests.unit.language.vocabulary import tokenizer_with


def stored(directory: Path, special: list[str], **files: dict[str, object]) -> Path:
    tokenizer_with(special)._fast.save_pretrained(str(directory))
    for name in ("config", *files):
        (directory / f"{name}.json").write_text(json.dumps(files.get(name, {"vocab_size": 900})))
    return directory


def test_ends_of_a_turn_are_those_of_all_files_and_those_that_no_model_writes_inside_a_turn(tmp_path: Path) -> None:
    made = load_tokenizer(stored(tmp_path, ["<|call|>", "<|end|>"], generation_config={"eos_token_id": [3, 5]}))
    ends = [made.token_id("<|im_end|>"), made.token_id("<|call|>")]
    assert list(made.eos_ids) == [3, 5, *ends]
    assert made.token_id("<|end|>") not in made.eos_ids


def test_a_turn_ends_where_the_result_of_a_call_is_to_stand(tmp_path: Path) -> None:
    for token in ("<|tool_response>", "<start_function_response>"):
        made = load_tokenizer(stored(tmp_path, [token]))
        assert made.token_id(token) in made.eos_ids


def test_a_directory_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFault, match=r"config\.json is missing"):
        load_tokenizer(tmp_path)
