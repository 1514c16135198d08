"""The small vocabularies of these tests: markers as special tokens, as text, and of models that reason."""

from __future__ import annotations

import pytest

from ringleader.tokenizer import Tokenizer
from tests.unit.language.vocabulary import CHATML, MENTIONS_THINKING, THINKING, tokenizer_with

TAGS = ["<tool_call>", "</tool_call>", "<think>", "</think>"]


@pytest.fixture(scope="session")
def marked() -> Tokenizer:
    """The call markers and the thinking markers are special tokens; the template mentions thinking."""
    return tokenizer_with(TAGS, MENTIONS_THINKING)


@pytest.fixture(scope="session")
def unthinking() -> Tokenizer:
    """As `marked`, of a model that does not reason."""
    return tokenizer_with(TAGS, CHATML)


@pytest.fixture(scope="session")
def plain() -> Tokenizer:
    """No marker is a token of its own; the template knows neither tools nor thinking."""
    return tokenizer_with([], CHATML)


@pytest.fixture(scope="session")
def thinking() -> Tokenizer:
    """As `marked`, with prompts that end inside the reasoning."""
    return tokenizer_with(TAGS, THINKING)


@pytest.fixture(scope="session", params=["marked", "plain"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Each of the two kinds of vocabulary in turn."""
    found: Tokenizer = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="session", params=["unthinking", "plain"])
def opener(request: pytest.FixtureRequest) -> Tokenizer:
    """The same two kinds, of models that do not reason: a forced call then opens at once."""
    found: Tokenizer = request.getfixturevalue(request.param)
    return found
