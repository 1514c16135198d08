"""What each backend sends for each choice, to the letter, over real HTTP to stubs that refuse what providers do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ringleader.errors import ContractFault
from tests.unit.agent.backends.doors import DOORS, LIMITS, NAMES, at_stub, turn
from tests.unit.agent.backends.stub import CALLED, SAID

ASK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it so?"}]
SCHEMA = {"type": "object", "properties": {"claim": {"type": "string"}}, "required": ["claim"]}
VERIFY = {"type": "function", "function": {"name": "verify_fact", "description": "Checks.", "parameters": SCHEMA}}
NOW = {"type": "function", "function": {"name": "now", "description": "Time.", "parameters": {"type": "object"}}}
TOOLS = [VERIFY, NOW]
NAMED = {"type": "function", "function": {"name": "verify_fact"}}

CHOICES: dict[str, Any] = {"auto": "auto", "any": "any", "none": "none", "named": "verify_fact"}
IN_COMPLETIONS: dict[str, Any] = {"auto": "auto", "any": "required", "none": "none", "named": NAMED}
IN_MESSAGES: dict[str, Any] = {
    "auto": None,
    "any": {"type": "any"},
    "none": {"type": "none"},
    "named": {"type": "tool", "name": "verify_fact"},
}


def expected(backend: str, choice: str) -> Any:
    if backend != "anthropic":
        return {
            "model": "the-model",
            "messages": ASK,
            "tools": TOOLS,
            "tool_choice": IN_COMPLETIONS[choice],
            LIMITS.get(backend, "max_tokens"): 64,
        }
    tools = [
        {"name": "verify_fact", "description": "Checks.", "input_schema": SCHEMA},
        {"name": "now", "description": "Time.", "input_schema": {"type": "object"}},
    ]
    body = {"model": "the-model", "max_tokens": 64, "messages": ASK[1:], "system": "Be brief.", "tools": tools}
    spelled = IN_MESSAGES[choice]
    return body if spelled is None else body | {"tool_choice": spelled}


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("backend", NAMES)
async def test_the_body_is_the_expected_one(backend: str, choice: str, streamed: bool) -> None:
    async with at_stub(backend, SAID if choice == "none" else CALLED) as (door, stub):
        await turn(door, streamed, ASK, TOOLS, CHOICES[choice], max_tokens=64)
    (seen,) = stub.seen
    body = seen.body
    stream = body.pop("stream", False)
    options = body.pop("stream_options", None)
    assert body == expected(backend, choice)
    assert stream == streamed
    assert options == ({"include_usage": True} if streamed and backend != "anthropic" else None)
    path, header, secret = DOORS[backend]
    assert (seen.method, seen.path) == ("POST", path)
    assert seen.headers[header] == secret
    others = {"authorization", "api-key", "x-api-key"} - {header}
    assert not others & set(seen.headers), "the credential travels in one header only"


async def test_plain_auto_to_anthropic_is_byte_for_byte_the_request_without_a_choice() -> None:
    async with at_stub("anthropic", SAID) as (door, stub):
        await door.complete_chat(ASK, TOOLS)
        await door.complete_chat(ASK, TOOLS, "auto")
        await door.complete_chat(ASK, TOOLS, {"type": "auto"})
    first, second, third = (seen.raw for seen in stub.seen)
    assert first == second == third
    assert b"tool_choice" not in first


@pytest.mark.parametrize("backend", NAMES)
@pytest.mark.parametrize("choice", ["auto", "none"])
async def test_without_tools_neither_tools_nor_choice_are_sent(backend: str, choice: str) -> None:
    async with at_stub(backend, SAID) as (door, stub):
        await door.complete_chat(ASK, (), choice)
    assert not {"tools", "tool_choice"} & set(stub.seen[0].body)


@pytest.mark.parametrize("backend", NAMES)
async def test_a_choice_of_no_known_tool_is_refused_before_anything_is_sent(backend: str) -> None:
    async with at_stub(backend, SAID) as (door, stub):
        with pytest.raises(ContractFault, match="verify_fcat"):
            await door.complete_chat(ASK, TOOLS, "verify_fcat")
        with pytest.raises(ValueError, match="verify_fact"):
            await door.complete_chat(ASK, (), "verify_fact")
    assert stub.seen == []


@pytest.mark.parametrize("backend", NAMES)
async def test_allowed_tools_reach_every_provider_in_its_words(backend: str) -> None:
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}
    async with at_stub(backend, CALLED) as (door, stub):
        await door.complete_chat(ASK, TOOLS, allowed)
    body = stub.seen[0].body
    if backend == "anthropic":  # which knows no such choice: the others are not sent
        assert [tool["name"] for tool in body["tools"]] == ["verify_fact"]
        assert body["tool_choice"] == {"type": "any"}
    else:
        assert body["tools"] == TOOLS
        assert body["tool_choice"] == allowed


HISTORY = [
    *ASK,
    {
        "role": "assistant",
        "content": None,
        "reasoning": "look first",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "verify_fact", "arguments": '{"claim": "x"}'}},
            {"id": "b", "type": "function", "function": {"name": "now", "arguments": "{broken"}},
        ],
    },
    {"role": "tool", "tool_call_id": "a", "content": "supported"},
    {"role": "tool", "tool_call_id": "b", "content": "wrong arguments", "is_error": True},
    {"role": "assistant", "content": "It is."},
    {"role": "user", "content": "Sure?"},
]


@pytest.mark.parametrize("backend", NAMES)
async def test_a_history_with_calls_and_results_is_one_that_the_provider_takes(backend: str) -> None:
    async with at_stub(backend, SAID) as (door, stub):
        await door.complete_chat(HISTORY, TOOLS, temperature=0)
    body = stub.seen[0].body
    assert body["temperature"] == 0
    if backend == "anthropic":
        assert body["messages"][1:3] == [
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "a", "name": "verify_fact", "input": {"claim": "x"}},
                    {"type": "tool_use", "id": "b", "name": "now", "input": {"unreadable": "{broken"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "supported"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "wrong arguments", "is_error": True},
                ],
            },
        ]
    else:
        assert all("is_error" not in message and "reasoning" not in message for message in body["messages"])
        assert ("reasoning_content" in json.dumps(body)) == (backend == "ring")
