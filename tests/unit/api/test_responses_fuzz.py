"""Whatever JSON comes to the doors of Responses and completions, they give a request or the caller's fault."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ringleader.api.body import parse_object
from ringleader.api.completions_read import read_completion
from ringleader.api.error_forms import OPENAI
from ringleader.api.fault_table import fault_of
from ringleader.api.responses_answer import ResponseEvents
from ringleader.api.responses_body import ResponseFrame
from ringleader.api.responses_read import read_response
from ringleader.api.sealed import seal
from ringleader.errors import CallerFault
from ringleader.values import ChatRequest, Finished, Usage
from tests.unit.api.test_door_fuzz import VALUES, mutate, places

GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'}
FORM = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
ACTION = {"type": "exec", "command": ["ls"], "env": {}}
RESPONSE: dict[str, Any] = {
    "model": "m",
    "instructions": "be kind",
    "input": [
        {"role": "developer", "content": "x"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": seal("t")},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "b", "name": "c", "input": "x"},
        {"type": "local_shell_call", "call_id": "d", "action": ACTION, "status": "completed"},
        {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "x"}]},
        {"type": "custom_tool_call_output", "call_id": "b", "output": "x"},
        {"type": "local_shell_call_output", "id": "d", "output": "x"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "x", "annotations": []}]},
    ],
    "tools": [
        {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False},
        {"type": "custom", "name": "c", "format": GRAMMAR},
        {"type": "local_shell"},
        {"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "function", "name": "g"}]},
    ],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
    "text": {"format": FORM, "verbosity": "low"},
    "reasoning": {"effort": "none", "summary": "auto"},
    "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
    "top_logprobs": 2,
    "metadata": {"a": "b"},
    "max_output_tokens": 5,
    "truncation": "auto",
    "stop": ["a"],
    "seed": 1,
}
COMPLETION: dict[str, Any] = {"model": "m", "prompt": ["a", [1, 2]], "n": 2, "logprobs": 1, "stop": "x", "seed": 3}


def check(body: dict[str, Any], read: Any) -> None:
    try:
        requests = read(parse_object(json.dumps(body).encode()))
    except CallerFault as error:
        fault = fault_of(error, "req_1")
        assert fault.status == 400
        json.dumps(OPENAI.body(fault, "req_1"), ensure_ascii=False).encode()
        return
    assert all(isinstance(request, ChatRequest) for request in requests)


def response(body: dict[str, Any]) -> list[ChatRequest]:
    """With what would be answered: it echoes the body."""
    asked = read_response(body)
    requests = [asked.request([], {})]
    events = ResponseEvents(ResponseFrame("resp_1", 1, "m", asked, lambda token: b"x"), lambda: 2.0)
    for event in [*events.begin(), *events.of(0, Finished("stop", Usage(1)))]:
        json.dumps(event, ensure_ascii=False).encode()
    json.dumps(asked.raw_items).encode()
    return requests


def completion(body: dict[str, Any]) -> tuple[ChatRequest, ...]:
    return read_completion(body).requests


def test_the_bodies_that_are_mutated_are_good_ones() -> None:
    assert response(RESPONSE)[0].messages[-1].content == "x"
    assert len(completion(COMPLETION)) == 4


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_mutated_body_is_read_or_is_the_callers_fault(data: st.DataObject) -> None:
    good, read = data.draw(st.sampled_from([(RESPONSE, response), (RESPONSE, response), (COMPLETION, completion)]))
    mutated = copy.deepcopy(good)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from([path for path in places(mutated) if path]))
        mutate(mutated, path, data.draw(st.sampled_from(["delete", "replace"])), data.draw(VALUES))
    check(mutated, read)
