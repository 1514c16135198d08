"""Whatever JSON comes in, the door gives a request or the caller's fault, never anything else."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ringleader.api.body import parse_object
from ringleader.api.error_forms import OPENAI
from ringleader.api.fault_table import fault_of, rule_of
from ringleader.api.openai_read import read_chat
from ringleader.api.openai_refused import REFUSED
from ringleader.api.openai_wire import ChatWire
from ringleader.errors import CallerFault
from ringleader.values import ChatRequest
from tests.api.scripted import NOW, WEATHER, body

CALL = {"id": "c", "type": "function", "function": {"name": "now", "arguments": "{}"}}
GRAMMAR = {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "a"'}}
VALID = body(
    stream=True,
    stream_options={"include_usage": True},
    max_tokens=5,
    temperature=0.5,
    top_k=3,
    logit_bias={"1": 2},
    stop=["a"],
    seed=1,
    logprobs=True,
    top_logprobs=2,
    tools=[WEATHER, NOW, {"type": "custom", "custom": {"name": "c", "format": GRAMMAR}}],
    tool_choice="auto",
    response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}},
    n=2,
)
VALID["messages"] = [
    {"role": "system", "content": [{"type": "text", "text": "x"}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "y"},
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "function", "name": "f", "content": "y"},
    {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}]},
    {"role": "tool", "tool_call_id": "c", "content": "y"},
]
LEGACY = {**VALID, "tools": None, "tool_choice": None, "functions": [WEATHER["function"]], "function_call": "auto"}
NAMES = sorted({*ChatWire.model_fields, *(refused.field for refused in REFUSED), "role", "content", "type", "name"})
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**30, -(10**30), 2**63, 1e308, -0.0, 0.5])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None, exclude_categories=[]))
    | st.sampled_from(["user", "tool", "assistant", "function", "text", "custom", "\0", "\ud800"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(), inner, max_size=3),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All paths into a JSON value."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for step, inner in steps for found in places(inner, (*path, step)))]


def mutate(mutated: dict[str, Any], path: tuple[Any, ...], how: str, value: Any) -> None:
    target: Any = mutated
    for step in path[:-1]:
        target = target[step]
    if how == "delete":
        del target[path[-1]]
    else:
        target[path[-1]] = value


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    mutated = copy.deepcopy(draw(st.sampled_from([VALID, LEGACY])))
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            mutated[draw(st.sampled_from(NAMES))] = draw(VALUES)
        else:
            path = draw(st.sampled_from([path for path in places(mutated) if path]))
            mutate(mutated, path, draw(st.sampled_from(["delete", "replace"])), draw(VALUES))
    return mutated


def check(raw: bytes) -> None:
    try:
        asked = read_chat(parse_object(raw))
    except CallerFault as error:
        assert rule_of(error).status == 400
        json.dumps(OPENAI.body(fault_of(error, "req_1"), "req_1"), ensure_ascii=False).encode()
        assert str(error)
    else:
        assert isinstance(asked.request, ChatRequest)
        repr(asked.request).encode()


def test_the_seed_of_the_mutations_is_valid() -> None:
    for valid in (VALID, LEGACY):
        read_chat(parse_object(json.dumps(valid).encode()))


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(bodies())
def test_mutated_bodies_never_do_worse_than_400(mutated: dict[str, Any]) -> None:
    check(json.dumps(mutated).encode())


@settings(max_examples=200, deadline=None)
@given(st.binary() | st.text().map(str.encode) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_arbitrary_bytes_never_do_worse_than_400(raw: bytes) -> None:
    check(raw)
