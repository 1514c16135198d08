"""Tokenizing over HTTP, in vLLM's shapes; and what is never served, said so."""

from __future__ import annotations

from typing import Any

import pytest

from ringleader.api.unserved import UNSERVED
from ringleader.errors import BadRequest
from ringleader.values import ChatRequest, ModelId
from tests.api.scripted import MODEL, ScriptedNode
from tests.unit.api.test_app import http


class Letters:
    """A model whose tokens are characters; a framed text begins with 0."""

    async def prompt_ids(self, request: ChatRequest) -> tuple[int, ...]:
        return tuple(ord(char) for message in request.messages for char in message.content or "")

    async def encode(self, model: ModelId, text: str, *, framed: bool) -> tuple[int, ...]:
        return ((0,) if framed else ()) + tuple(map(ord, text))

    async def decode(self, model: ModelId, tokens: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(map(chr, tokens))

    async def join(self, model: ModelId, tokens: tuple[int, ...]) -> str:
        if not all(0 <= token <= 1000 for token in tokens):
            raise BadRequest("no such token", param="tokens[0]")
        return "".join(map(chr, tokens))

    async def context_max(self, model: ModelId) -> int:
        return 99


async def said(path: str, **fields: Any) -> tuple[int, Any]:
    async with http(ScriptedNode(), tokenizing=Letters()) as session:
        async with session.post(path, json={"model": MODEL, **fields}) as response:
            return response.status, await response.json()


async def test_a_text_becomes_ids_and_ids_a_text() -> None:
    _, told = await said("/tokenize", prompt="ab", return_token_strs=True)
    assert told == {"count": 3, "max_model_len": 99, "tokens": [0, 97, 98], "token_strs": ["\0", "a", "b"]}
    _, bare = await said("/tokenize", prompt="ab", add_special_tokens=False)
    assert (bare["tokens"], bare["token_strs"]) == ([97, 98], None)
    assert await said("/detokenize", tokens=[97, 98]) == (200, {"prompt": "ab"})


async def test_a_conversation_becomes_the_ids_of_its_prompt() -> None:
    messages = [{"role": "user", "content": "ab"}]
    assert (await said("/tokenize", messages=messages))[1]["tokens"] == [97, 98]
    counted = {"object": "response.input_tokens", "input_tokens": 3}
    assert await said("/v1/responses/input_tokens", input="abc") == (200, counted)


@pytest.mark.parametrize(
    ("path", "fields", "param"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "messages": []}, "prompt"),
        ("/tokenize", {"messages": [{"role": "x"}]}, "messages[0].role"),
        ("/tokenize", {"messages": [{"role": "user", "content": "a"}], "chat_template": "x"}, "chat_template"),
        ("/detokenize", {"tokens": "a"}, "tokens"),
        ("/detokenize", {"tokens": [2000]}, "tokens[0]"),
        ("/v1/responses/input_tokens", {"input": 1}, "input"),
        ("/v1/responses/input_tokens", {"input": "a", "previous_response_id": "r"}, "previous_response_id"),
    ],
)
async def test_what_is_wrong_is_named(path: str, fields: Any, param: str) -> None:
    status, told = await said(path, **fields)
    assert (status, told["error"]["param"]) == (400, param)


@pytest.mark.parametrize("path", UNSERVED)
async def test_what_is_never_served_is_said_so(path: str) -> None:
    status, told = await said(path, input="x")
    assert status == 501
    assert UNSERVED[path] in str(told["error"])
