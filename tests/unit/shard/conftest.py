"""MLX without its compiler, and a small real tokenizer: what the tests of the shard's parts stand on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ringleader.tokenizer import Tokenizer, load_tokenizer

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("MLX_DISABLE_COMPILE", "1")  # MLX on CPU compiles with a C++ compiler, for seconds


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Byte-level BPE of 384 ids with ChatML's markers."""
    from tests.ring.tiny_configs import config_of
    from tests.ring.tiny_models import write_tokenizer

    directory: Path = tmp_path_factory.mktemp("tokenizer")
    config = config_of("llama")
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_tokenizer(directory, config)
    return load_tokenizer(directory)
