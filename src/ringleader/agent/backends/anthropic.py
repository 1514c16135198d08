"""Anthropic's Messages through its own SDK: Chat Completions' turns, tools and choice rewritten, and the answer back.

Plain auto sends no `tool_choice` at all, so that a default request is byte for byte what it is without the feature.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ringleader.agent.backends.contracts import Piece, Whole
from ringleader.agent.backends.faults import BackendFailed, BackendGarbled
from ringleader.agent.backends.sdk import RETRIES_MAX, TIMEOUT_S, as_text, plain, readable, sdk_faults
from ringleader.agent.backends.settings import address, needed
from ringleader.agent.choice import normalize_tool_choice
from ringleader.agent.extra import extra
from ringleader.values import Json

DEFAULT_URL = "https://api.anthropic.com"
MAX_TOKENS_DEFAULT = 4096  # Messages wants a bound; this one every model of theirs permits
FINISHES = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


class AnthropicBackend:
    """The key is ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN, the model ANTHROPIC_MODEL. The SDK knows how they are sent.

    `url` (ANTHROPIC_BASE_URL) may be anything that speaks Messages, also a ring.
    """

    def __init__(
        self,
        model: str = "",
        *,
        url: str | None = None,
        api_key: str | None = None,
        token: str | None = None,
        retries_max: int = RETRIES_MAX,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._model = needed(model, "a model", "--model", "ANTHROPIC_MODEL")
        self._url = address(url, DEFAULT_URL, "ANTHROPIC_BASE_URL").removesuffix("/v1")
        bearer = (
            None if api_key or os.environ.get("ANTHROPIC_API_KEY") else token or os.environ.get("ANTHROPIC_AUTH_TOKEN")
        )
        key = None if bearer else needed(api_key, "a key", None, "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
        with extra("anthropic"):
            import anthropic
        self._sdk = anthropic
        self._client = anthropic.AsyncAnthropic(
            api_key=key, auth_token=bearer, base_url=self._url, max_retries=retries_max, timeout=timeout_s
        )

    def __repr__(self) -> str:
        return f"<backend anthropic: {self._model} at {self._url}>"

    @property
    def name(self) -> str:
        return "anthropic"

    @property
    def model(self) -> str:
        return self._model

    @property
    def supports_tool_choice(self) -> bool:
        return True

    async def close(self) -> None:
        await self._client.close()

    async def complete_chat(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json] = (),
        tool_choice: Json = "auto",
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> dict[str, Json]:
        """As `Backend`."""
        body = messages_body(self._model, messages, tools, tool_choice, max_tokens, temperature)
        with self._faults():
            answer = plain(await self._client.messages.create(**body))
        if not isinstance(answer.get("content"), list):
            raise BackendGarbled(f"{self._who} gave an answer without content. {self._hint}")
        with readable(self._who, self._hint):
            return _completion(answer["content"], answer.get("stop_reason"), answer.get("usage"), answer.get("model"))

    async def stream_chat(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json] = (),
        tool_choice: Json = "auto",
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[Piece | Whole]:
        """As `Backend`."""
        body = messages_body(self._model, messages, tools, tool_choice, max_tokens, temperature)
        gathered = _Gathered()
        with self._faults():
            async with await self._client.messages.create(**body, stream=True) as stream:
                async for event in stream:
                    with readable(self._who, self._hint):
                        pieces = tuple(gathered.add(plain(event)))
                    for piece in pieces:
                        yield piece
        if not gathered.begun:
            raise BackendGarbled(f"{self._who} gave no stream of an answer. {self._hint}")
        if not gathered.finish:
            raise BackendFailed(f"{self._who} broke its answer off in the middle. Try again")
        with readable(self._who, self._hint):
            whole = gathered.completion()
        yield Whole(whole)

    @property
    def _who(self) -> str:
        return f"anthropic at {self._url}"

    @property
    def _hint(self) -> str:
        return "The key is read from ANTHROPIC_API_KEY, the address from ANTHROPIC_BASE_URL."

    def _faults(self) -> AbstractContextManager[None]:
        secret = self._client.api_key or self._client.auth_token or ""
        return sdk_faults(self._sdk, self._who, self._hint, secret)


def messages_body(
    model: str,
    messages: Sequence[Json],
    tools: Sequence[Json],
    tool_choice: Json,
    max_tokens: int | None,
    temperature: float | None,
) -> dict[str, Any]:
    """The request as Messages takes it.

    Raises:
        ContractFault: (a ValueError) the choice names no tool of `tools`.
    """
    choice = normalize_tool_choice(tool_choice, [tool["function"]["name"] for tool in tools])
    system = "\n\n".join(str(each["content"]) for each in messages if each["role"] in ("system", "developer"))
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": max_tokens or MAX_TOKENS_DEFAULT,
        "messages": _turns(messages),
    }
    if system:
        body["system"] = system
    if temperature is not None:  # the API has it, the SDK's signature has not: newer models refuse it
        body["extra_body"] = {"temperature": temperature}
    if tools:
        allowed, spelled = _choice(choice)
        body["tools"] = [
            _tool(each["function"]) for each in tools if not allowed or each["function"]["name"] in allowed
        ]
        if spelled is not None:
            body["tool_choice"] = spelled
    return body


def _choice(choice: Json) -> tuple[frozenset[str], dict[str, Json] | None]:
    """Which tools to send (none named: all), and the choice; Messages knows no lists of allowed tools."""
    if isinstance(choice, Mapping) and choice["type"] == "allowed_tools":
        listed = choice["allowed_tools"]
        names = frozenset(each["function"]["name"] for each in listed["tools"])
        return names, {"type": "any"} if listed["mode"] == "required" else None
    if isinstance(choice, Mapping):
        return frozenset(), {"type": "tool", "name": choice["function"]["name"]}
    return frozenset(), {"auto": None, "required": {"type": "any"}, "none": {"type": "none"}}[choice]


def _tool(function: Mapping[str, Json]) -> dict[str, Json]:
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    return {"name": function["name"], "description": function.get("description", ""), "input_schema": schema}


def _turns(messages: Sequence[Json]) -> list[dict[str, Json]]:
    """Results that answer one turn stand together in one turn of the user's, as Messages demands it."""
    turns: list[dict[str, Json]] = []
    results: list[Json] | None = None
    for message in messages:
        role = message["role"]
        if role in ("system", "developer"):
            continue
        if role == "tool":
            if results is None:
                turns.append({"role": "user", "content": (results := [])})
            results.append(_result(message))
            continue
        results = None
        content = _blocks(message) if message.get("tool_calls") else message.get("content") or ""
        turns.append({"role": role, "content": content})
    return turns


def _result(message: Mapping[str, Json]) -> dict[str, Json]:
    block = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message.get("content") or ""}
    return block | ({"is_error": True} if message.get("is_error") else {})


def _blocks(message: Mapping[str, Json]) -> list[Json]:
    text: list[Json] = [{"type": "text", "text": message["content"]}] if message.get("content") else []
    return text + [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": _object(call["function"]["arguments"]),
        }
        for call in message["tool_calls"]
    ]


def _object(arguments: str) -> dict[str, Json]:
    """Messages takes objects only; what another model wrote wrongly is shown as it was."""
    try:
        read = json.loads(arguments or "{}")
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"unreadable": arguments}


def _completion(blocks: Sequence[Json], stop: Json, usage: Json, model: Json) -> dict[str, Json]:
    texts = [block.get("text") or "" for block in blocks if block.get("type") == "text"]
    thoughts = [block.get("thinking") or "" for block in blocks if block.get("type") == "thinking"]
    calls = [
        {
            "id": block.get("id"),
            "type": "function",
            "function": {
                "name": block.get("name"),
                "arguments": json.dumps(block.get("input") or {}, ensure_ascii=False),
            },
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    return {
        "content": "".join(texts) or None,
        "reasoning": "".join(thoughts) or None,
        "tool_calls": calls,
        "finish_reason": FINISHES.get(str(stop), "stop"),
        "usage": _usage(usage),
        "model": model,
    }


def _usage(usage: Json) -> dict[str, int] | None:
    """Cached parts of the prompt are counted beside `input_tokens`, not in it."""
    if not isinstance(usage, Mapping):
        return None
    prompt = sum(
        usage.get(field) or 0 for field in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    )
    completion = usage.get("output_tokens") or 0
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


class _Gathered:
    """A stream's events, put together to blocks again."""

    def __init__(self) -> None:
        self.finish = ""
        self.begun = False
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, str] = {}
        self._usage: dict[str, Any] = {}
        self._model: Json = None

    def add(self, event: dict[str, Any]) -> Iterator[Piece]:
        """Takes an event in; gives what of it a person may read."""
        kind = event.get("type")
        self.begun = self.begun or kind in ("message_start", "content_block_start", "content_block_delta")
        if kind == "message_start":
            self._model = event["message"].get("model")
            self._usage |= _given(event["message"].get("usage"))
        elif kind == "content_block_start":
            self._blocks[event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            yield from self._delta(event["index"], event["delta"])
        elif kind == "message_delta":
            self.finish = event["delta"].get("stop_reason") or self.finish
            self._usage |= _given(event.get("usage"))

    def _delta(self, index: int, delta: dict[str, Any]) -> Iterator[Piece]:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        if text := delta.get("text"):
            block["text"] = (block.get("text") or "") + text
            yield Piece("text", as_text(text))
        elif thought := delta.get("thinking"):
            block["thinking"] = (block.get("thinking") or "") + thought
            yield Piece("reasoning", thought)
        elif part := delta.get("partial_json"):
            self._inputs[index] = self._inputs.get(index, "") + part

    def completion(self) -> dict[str, Json]:
        """The canonical dict; a call that was cut off keeps its arguments as they came."""
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        whole = _completion(blocks, self.finish, self._usage or None, self._model)
        written = [
            self._inputs.get(index) for index in sorted(self._blocks) if self._blocks[index]["type"] == "tool_use"
        ]
        for call, text in zip(whole["tool_calls"], written, strict=True):
            if text:
                call["function"]["arguments"] = text
        return whole


def _given(usage: Json) -> dict[str, Any]:
    return {field: value for field, value in (usage or {}).items() if value is not None}
