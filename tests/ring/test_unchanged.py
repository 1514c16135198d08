"""What tool_choice must leave alone: auto is absent, byte for byte; an answer without a call is the model's own."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import mlx.core as mx
import mlx_lm.utils
import pytest
import pytest_asyncio
from mlx_lm.generate import generate_step

from ringleader.language.prompt import Prompt, Voice, compose, voice
from ringleader.node.answer import specified
from ringleader.tokenizer import load_tokenizer
from ringleader.values import ChatRequest, Json, Message, ModelId, Sampling, Tool
from tests.ring.cluster import Cluster
from tests.ring.real_ring import RealRing, ended

pytestmark = [pytest.mark.ring, pytest.mark.asyncio(loop_scope="module")]

ANSWER_TOKENS = 32
SHARDS = (11, 19)
TOOLS = (
    Tool("bash", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}}),
    Tool("now", "The time now."),
)
PROMPTS = ("What is your name?", "Name three colours of the sky.", "2 + 2 = ?", "Schreibe einen Satz über das Meer.")
# What may differ between two answers to the same request: when it was made, its random ids, and what the second was
# spared by the first, which had the same prompt.
SPARED = rb'"(?:created|cached_tokens|passes|accepted_prediction_tokens|rejected_prediction_tokens)":\s?\d+'
OWN = re.compile(rb'"id":\s?"[^"]*"|' + SPARED)


def asked(prompt: str, **fields: Any) -> ChatRequest:
    plain = ChatRequest(ModelId("m"), (Message("user", prompt),), Sampling(seed=0, temperature=0.0), tools=TOOLS)
    return replace(plain, max_tokens=ANSWER_TOKENS, **fields)


# ---------------------------------------------------------------- the model's own words


@dataclass(frozen=True)
class Whole:
    """The whole model in this process, unconstrained and greedy."""

    model: Any
    ends: frozenset[int]

    def answer(self, prompt: tuple[int, ...]) -> list[int]:
        """Its tokens after `prompt`, the end token included."""
        tokens: list[int] = []
        for token, _ in generate_step(mx.array(prompt), self.model, max_tokens=ANSWER_TOKENS, prefill_step_size=512):
            tokens.append(int(token))
            if tokens[-1] in self.ends or len(tokens) == ANSWER_TOKENS:
                break
        return tokens


@pytest.fixture(scope="module")
def speaks(smollm: Path) -> Voice:
    return voice(load_tokenizer(smollm), 2048)


@pytest.fixture(scope="module")
def whole(smollm: Path, speaks: Voice) -> Whole:
    return Whole(mlx_lm.utils.load_model(smollm)[0], frozenset(speaks.tokenizer.eos_ids))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ring(smollm: Path) -> AsyncIterator[RealRing]:
    async with RealRing(smollm, SHARDS) as made:
        yield made


async def ids_of(ring: RealRing, speaks: Voice, request: ChatRequest) -> tuple[Prompt, list[int]]:
    prompt = compose(speaks, request)
    _, received = ring.submit(prompt.ids, specified(speaks, request, prompt))
    return prompt, await ended(received)


@pytest.mark.parametrize("choice", [None, "auto"])
@pytest.mark.parametrize("question", PROMPTS)
async def test_an_answer_under_auto_that_calls_nothing_is_token_for_token_the_models_own(
    ring: RealRing, whole: Whole, speaks: Voice, question: str, choice: str | None
) -> None:
    prompt, answer = await ids_of(ring, speaks, asked(question, tool_choice=choice))
    assert prompt.grammar, "a grammar stood beside it all the time"
    assert prompt.opening == ()
    own = whole.answer(prompt.ids)
    assert "<tool_call>" not in speaks.tokenizer.decode(own), "this model calls here by itself: take another prompt"
    assert list(zip(answer, own, strict=False)) == [(token, token) for token in own]
    assert len(answer) == len(own)


async def test_the_comparison_can_fail_a_forced_call_is_not_the_models_own(
    ring: RealRing, whole: Whole, speaks: Voice
) -> None:
    prompt, answer = await ids_of(ring, speaks, asked(PROMPTS[0], tool_choice="bash"))
    assert answer != whole.answer(prompt.ids)


@pytest.mark.parametrize("choice", [None, "auto", "none"])
async def test_without_tools_no_choice_changes_a_token(
    ring: RealRing, whole: Whole, speaks: Voice, choice: str | None
) -> None:
    prompt, answer = await ids_of(ring, speaks, asked(PROMPTS[1], tools=(), tool_choice=choice))
    assert prompt.grammar is None
    assert answer == whole.answer(prompt.ids)


# ---------------------------------------------------------------- what a client reads


@pytest.fixture(scope="module")
def api(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Cluster(tmp_path_factory.mktemp("unchanged")) as cluster:
        yield cluster.start_master("a", "--model", str(smollm), "--shards", "2").api


async def read(api: str, question: str, **fields: Json) -> tuple[bytes, list[tuple[str, str]]]:
    """The whole body but for what is its own (`OWN`), and the headers that may differ with the request."""
    messages = [{"role": "user", "content": question}]
    fields = {"messages": messages, "max_tokens": ANSWER_TOKENS, "seed": 7, "temperature": 0.7, **fields}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=120)) as session:
        async with session.post(f"{api}/v1/chat/completions", json={"model": "smollm2-135m", **fields}) as answer:
            assert answer.status == 200, await answer.text()
            headers = [(name, answer.headers.get(name, "")) for name in ("Content-Type", "Warning")]
            return OWN.sub(b"", await answer.read()), headers


def listed() -> Json:
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in TOOLS
    ]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("question", PROMPTS[:2])
async def test_an_absent_choice_is_auto_byte_for_byte(api: str, question: str, stream: bool) -> None:
    absent = await read(api, question, tools=listed(), stream=stream)
    assert absent == await read(api, question, tools=listed(), stream=stream, tool_choice="auto")
    assert absent == await read(api, question, tools=listed(), stream=stream, tool_choice=None)
    assert absent != await read(api, question, tools=listed(), stream=stream, tool_choice="required")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_without_tools_absent_auto_and_none_are_the_same_byte_for_byte(api: str, stream: bool) -> None:
    absent = await read(api, PROMPTS[0], stream=stream)
    assert b"tool_calls" not in absent[0]
    for choice in ("auto", "none", None):
        assert absent == await read(api, PROMPTS[0], stream=stream, tool_choice=choice), choice
    assert absent == await read(api, PROMPTS[0], stream=stream, tools=[], tool_choice="auto")
    assert absent != await read(api, PROMPTS[0], stream=stream, seed=8)


async def test_only_ids_and_the_time_are_left_out_of_the_comparison() -> None:
    body = json.dumps({"id": "chatcmpl-1", "created": 5, "model": "m", "content": "x"}).encode()
    assert OWN.sub(b"", body) == b'{, , "model": "m", "content": "x"}'
