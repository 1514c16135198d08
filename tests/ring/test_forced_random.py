"""A forced call is a call that arrives, valid against its schema, even from a model whose weights are noise."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import aiohttp
import jsonschema
import pytest

from tests.ring.cluster import Cluster
from tests.ring.tiny_models import make_tiny_model

pytestmark = pytest.mark.ring

MODEL = "tiny"
SEEDS = 200
AT_ONCE = 8
DEADLINE_S = 120.0

Json = Any

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1, "maxLength": 12},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
    },
    "required": ["city", "unit", "days"],
    "additionalProperties": False,
}
ALARM = {
    "type": "object",
    "properties": {
        "hour": {"type": "integer", "minimum": 0, "maximum": 23},
        "days": {"type": "array", "items": {"enum": ["mon", "tue", "wed"]}, "maxItems": 3},
        "label": {"anyOf": [{"type": "string", "maxLength": 8}, {"type": "null"}]},
        "loud": {"type": "boolean"},
    },
    "required": ["hour", "days"],
    "additionalProperties": False,
}
NOTE = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def function(name: str, schema: Json) -> Json:
    return {"type": "function", "function": {"name": name, "description": "", "parameters": schema}}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One node with two shards of a random model."""
    directory = tmp_path_factory.mktemp("forced")
    model = make_tiny_model("qwen3", directory / MODEL, tokenizer=True, num_hidden_layers=2, hidden_size=32)
    with Cluster(directory, OPENBLAS_NUM_THREADS="1") as cluster:
        cluster.start_master("a", "--model", str(model), "--shards", "2", "--context", "2048")
        cluster.wait_ready()
        yield cluster.api


async def ask_all(api: str, bodies: list[Json]) -> list[Json]:
    """The first choice of each answer, a few requests at a time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def ask(session: aiohttp.ClientSession, body: Json) -> Json:
        async with gate, session.post(f"{api}/v1/chat/completions", json=body) as answer:
            read = await answer.json()
            assert answer.status == 200, f"seed {body['seed']}: {read}"
            return read["choices"][0]

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(DEADLINE_S)) as session:
        return list(await asyncio.gather(*(ask(session, body) for body in bodies)))


def forced(seed: int, tools: dict[str, Json], named: str | None, max_tokens: int) -> Json:
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [function(name, schema) for name, schema in tools.items()],
        "tool_choice": {"type": "function", "function": {"name": named}} if named else "required",
        "temperature": 1.0,
        "seed": seed,
        "max_tokens": max_tokens,
    }


def check_calls(choice: Json, tools: dict[str, Json], named: str | None) -> None:
    calls = choice["message"]["tool_calls"]
    assert calls
    for call in calls:
        assert call["type"] == "function"
        name = call["function"]["name"]
        assert name == named or (named is None and name in tools)
        jsonschema.validate(json.loads(call["function"]["arguments"]), tools[name])


async def test_every_forced_call_of_a_random_model_parses_and_validates(api: str) -> None:
    tools = {"get_weather": WEATHER, "set_alarm": ALARM}
    names = [None if seed % 2 else ("get_weather", "set_alarm")[seed // 2 % 2] for seed in range(SEEDS)]
    bodies = [forced(seed, tools, named, 600) for seed, named in enumerate(names)]
    choices = await ask_all(api, bodies)
    for seed, (choice, named) in enumerate(zip(choices, names, strict=True)):
        assert choice["finish_reason"] == "tool_calls", f"seed {seed}"
        check_calls(choice, tools, named)
    written = Counter(json.dumps(choice["message"]["tool_calls"][0]["function"]) for choice in choices)
    assert len(written) > SEEDS / 2, "temperature 1 gives many different calls"


async def test_a_call_without_bounds_is_brought_to_its_end_in_time_and_says_length_where_none_fits(api: str) -> None:
    tools = {"write_note": NOTE}
    in_time = [forced(seed, tools, (None, "write_note")[seed % 2], 60) for seed in range(20)]
    for seed, choice in enumerate(await ask_all(api, in_time)):
        assert choice["finish_reason"] == "tool_calls", f"seed {seed}"
        check_calls(choice, tools, "write_note")
    too_short = [forced(seed, tools, "write_note", 3) for seed in range(4)]
    assert {choice["finish_reason"] for choice in await ask_all(api, too_short)} == {"length"}
