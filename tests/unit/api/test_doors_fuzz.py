"""Whatever JSON comes in at Anthropic's and Ollama's doors, they give a request or the caller's fault, nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ringleader.api.anthropic_read import read_count, read_messages
from ringleader.api.body import parse_object
from ringleader.api.error_forms import ANTHROPIC, OLLAMA, Form
from ringleader.api.fault_table import fault_of, rule_of
from ringleader.api.ollama_read import read_chat, read_generate
from ringleader.errors import CallerFault
from ringleader.values import Json
from tests.api.scripted import WEATHER
from tests.unit.api.test_anthropic_read import NOW, RESULT, USE, assistant, body, text, user
from tests.unit.api.test_door_fuzz import VALUES, mutate, places

THINKING = {"type": "thinking", "thinking": "hm", "signature": "x"}
MESSAGES = body(
    user(text("a"), {"type": "document", "title": "T", "source": {"type": "text", "data": "D"}}),
    assistant(THINKING, text("b"), USE),
    {"role": "system", "content": "c"},
    user({**RESULT, "is_error": True, "content": [text("d")]}, text("e")),
    system=[text("s")],
    tools=[NOW, {"type": "bash_20250124", "name": "bash"}],
    tool_choice={"type": "tool", "name": "now", "disable_parallel_tool_use": True},
    thinking={"type": "enabled", "budget_tokens": 1024, "display": "omitted"},
    output_config={"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    stop_sequences=["x"],
    temperature=0.5,
    top_k=3,
    stream=True,
)
CALLING = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]}
CHAT: dict[str, Json] = {
    "model": "m",
    "messages": [{"role": "user", "content": "a"}, CALLING, {"role": "tool", "tool_name": "f", "content": "x"}],
    "tools": [WEATHER],
    "format": {"type": "object"},
    "think": "low",
    "options": {"temperature": 0.1, "stop": ["a"], "num_predict": 3, "seed": 1, "top_k": 2, "mirostat": 0},
    "keep_alive": "5m",
}
GENERATE: dict[str, Json] = {"model": "m", "prompt": "a", "system": "b", "raw": False, "options": {"min_p": 0.5}}


@dataclass(frozen=True)
class Door:
    read: Callable[[dict[str, Json]], Any]
    valid: dict[str, Json]
    form: Form


DOORS = {
    "messages": Door(read_messages, MESSAGES, ANTHROPIC),
    "count": Door(read_count, MESSAGES, ANTHROPIC),
    "chat": Door(read_chat, CHAT, OLLAMA),
    "generate": Door(read_generate, GENERATE, OLLAMA),
}


@st.composite
def bodies(draw: st.DrawFn, valid: dict[str, Json]) -> dict[str, Json]:
    mutated = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([path for path in places(mutated) if path]))
        mutate(mutated, path, draw(st.sampled_from(["delete", "replace"])), draw(VALUES))
    return mutated


def check(door: Door, raw: bytes) -> None:
    try:
        asked = door.read(parse_object(raw))
    except CallerFault as error:
        assert rule_of(error).status == 400
        json.dumps(door.form.body(fault_of(error, "req_1"), "req_1"), ensure_ascii=False).encode()
        assert str(error)
    else:
        repr(asked).encode()


@pytest.mark.parametrize("name", DOORS)
def test_the_seed_of_the_mutations_is_valid(name: str) -> None:
    DOORS[name].read(parse_object(json.dumps(DOORS[name].valid).encode()))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data(), st.sampled_from(sorted(DOORS)))
def test_mutated_bodies_never_do_worse_than_400(data: st.DataObject, name: str) -> None:
    check(DOORS[name], json.dumps(data.draw(bodies(DOORS[name].valid))).encode())


@settings(max_examples=100, deadline=None)
@given(VALUES.map(lambda value: json.dumps(value).encode()), st.sampled_from(sorted(DOORS)))
def test_arbitrary_json_never_does_worse_than_400(raw: bytes, name: str) -> None:
    check(DOORS[name], raw)
