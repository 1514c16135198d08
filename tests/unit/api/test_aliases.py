"""Other names for models."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from ringleader.api.aliases import AliasedTokenizing, Aliases, parse_aliases
from ringleader.errors import BadRequest
from ringleader.values import ModelId
from tests.api.scripted import MODEL, ScriptedNode, body, served
from tests.api.test_anthropic_sdk import Counting

PAIRS = (("claude-haiku-*", "small"), ("claude-*", MODEL), ("gpt-4o", MODEL))


def test_the_first_pattern_that_matches_counts_and_other_names_stay() -> None:
    aliases = Aliases(PAIRS)
    for asked, real in (("claude-haiku-4-5", "small"), ("claude-opus-4-8", MODEL), ("gpt-4o", MODEL), ("x", "x")):
        assert aliases.real(ModelId(asked)) == real
    assert aliases.listed == (("gpt-4o", MODEL),)


@pytest.mark.parametrize("text", ["claude", "=x", "a=", " = "])
def test_what_is_no_alias_is_named(text: str) -> None:
    with pytest.raises(BadRequest, match="--alias"):
        parse_aliases([text])
    assert parse_aliases(["claude-* = m", "a=org/b=c"]) == (("claude-*", "m"), ("a", "org/b=c"))


async def test_an_answer_by_another_name_tells_the_real_one_and_the_list_shows_both() -> None:
    node = ScriptedNode()
    async with served(node, aliases=PAIRS) as server, aiohttp.ClientSession(server.url) as session:
        async with session.post("/v1/chat/completions", json={**body(), "model": "claude-x"}) as response:
            assert (await response.json())["model"] == MODEL
        async with session.get("/v1/models") as response:
            listed = [model["id"] for model in (await response.json())["data"]]
        async with session.get("/v1/models/gpt-4o") as response:
            assert (await response.json())["id"] == "gpt-4o"
    assert node.requests[0].model == MODEL
    assert {MODEL, "gpt-4o"} <= set(listed)


async def test_tokens_are_counted_by_another_name() -> None:
    counting: Any = Counting()
    async with served(ScriptedNode(), aliases=PAIRS, tokenizing=counting) as server:
        async with aiohttp.ClientSession(server.url) as session:
            async with session.post("/v1/messages/count_tokens", json={**body(), "model": "claude-x"}) as response:
                assert (await response.json()) == {"input_tokens": 42}
    assert counting.requests[0].model == MODEL
    assert AliasedTokenizing(counting, Aliases(PAIRS))
