"""How the API reads text with the models of a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringleader.errors import BadRequest, UnknownModel
from ringleader.models.store import Store
from ringleader.node.shelf import Shelf
from ringleader.node.tokenizing import ShelfTokenizing
from ringleader.values import ChatRequest, Message, ModelId, Sampling
from tests.unit.language.vocabulary import CHATML, save, tokenizer_with
from tests.unit.models.builders import model_directory

TINY = ModelId("tiny")


@pytest.fixture
def tokenizing(tmp_path: Path) -> ShelfTokenizing:
    save(tokenizer_with((), CHATML), model_directory(tmp_path / "tiny"))
    return ShelfTokenizing(Shelf(Store(tmp_path), (), 1000))


async def test_what_is_encoded_reads_the_same_when_it_is_joined(tokenizing: ShelfTokenizing) -> None:
    ids = await tokenizing.encode(TINY, "hello ☀", framed=False)
    assert await tokenizing.join(TINY, ids) == "hello ☀"
    assert len(await tokenizing.decode(TINY, ids)) == len(ids)


async def test_a_prompt_has_the_template_around_the_messages(tokenizing: ShelfTokenizing) -> None:
    request = ChatRequest(TINY, (Message("user", "hi"),), Sampling(seed=1))
    text = await tokenizing.join(TINY, await tokenizing.prompt_ids(request))
    assert "<|im_start|>user\nhi<|im_end|>" in text


async def test_an_id_beyond_the_vocabulary_is_the_callers_error_and_named(tokenizing: ShelfTokenizing) -> None:
    for read in (tokenizing.join, tokenizing.decode):
        with pytest.raises(BadRequest) as caught:
            await read(TINY, (1, 10**6))
        assert caught.value.param == "tokens[1]"


async def test_an_unknown_model_is_told_as_everywhere(tokenizing: ShelfTokenizing) -> None:
    with pytest.raises(UnknownModel):
        await tokenizing.context_max(ModelId("who"))
