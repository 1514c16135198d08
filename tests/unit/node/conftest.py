"""The small vocabulary of the language room's tests, and an entry of the shelf that speaks with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringleader.language.prompt import voice
from ringleader.node.shelf import Entry
from ringleader.tokenizer import Tokenizer
from ringleader.values import ModelId
from tests.unit.cluster.builders import model
from tests.unit.language.conftest import plain

__all__ = ["plain"]

CONTEXT = 1000


@pytest.fixture
def entry(plain: Tokenizer) -> Entry:
    return Entry(ModelId("tiny"), "tiny", Path("tiny"), model(), voice(plain, CONTEXT))
