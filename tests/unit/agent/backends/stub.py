"""Providers on loopback that speak their protocols over real HTTP: they check requests, and answer from a script."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = Any

SAID: Json = {"content": "Oslo is cold."}
CALLED: Json = {
    "reasoning_content": "look first",
    "tool_calls": [
        {"id": "call_a", "type": "function", "function": {"name": "verify_fact", "arguments": '{"claim": "x"}'}},
        {"id": "call_b", "type": "function", "function": {"name": "now", "arguments": "{}"}},
    ],
}
KEY = "sk-a-secret-of-the-tests"


@dataclass
class Refusal:
    """An answer that is an error, or none at all: `body` is sent as it is."""

    status: int
    body: str = '{"error": {"message": "no", "code": "because"}}'
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Seen:
    """One request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Json:
        return json.loads(self.raw)


class Stub:
    """Answers each request with the next of `script` (the last one again and again), in the protocol of its path."""

    def __init__(self, script: Sequence[Json]) -> None:
        self.script = list(script)
        self.seen: list[Seen] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(request.method, request.path, dict(request.query), headers, raw))
        if request.path.endswith("/v1/models"):
            return web.json_response(
                {"object": "list", "data": [{"id": "the-loaded", "object": "model", "loaded": True}]}
            )
        body = json.loads(raw)
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(said, Refusal):
            kinds = {"{": "application/json", "<": "text/html"}
            kind = kinds.get(said.body[:1], "text/event-stream")
            return web.Response(status=said.status, text=said.body, headers=said.headers, content_type=kind)
        wrong = messages_complaint(body) if request.path.endswith("/v1/messages") else completions_complaint(body)
        if wrong:
            return web.json_response({"error": {"message": wrong, "type": "invalid_request_error"}}, status=400)
        make = (
            (messages_stream if body.get("stream") else messages_whole)
            if request.path.endswith("/v1/messages")
            else (completions_stream if body.get("stream") else completions_whole)
        )
        if not body.get("stream"):
            return web.json_response(make(said))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in make(said):
            if event == "CUT":
                assert request.transport is not None
                request.transport.close()
                return response
            name = f"event: {event['type']}\n" if "type" in event else ""
            await response.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        if make is completions_stream:
            await response.write(b"data: [DONE]\n\n")
        return response


@asynccontextmanager
async def served(*script: Json) -> AsyncIterator[Stub]:
    """A stub on a free loopback port."""
    stub = Stub(script)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stub.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield stub
    finally:
        await runner.cleanup()


# ---------------------------------------------------------------- Chat Completions

FINISH = {True: "tool_calls", False: "stop"}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}


def completions_complaint(body: Json) -> str:
    """What a provider of Chat Completions would refuse."""
    choice, tools = body.get("tool_choice"), body.get("tools")
    if choice is not None and not tools:
        return "tool_choice is only allowed when tools are specified"
    if isinstance(choice, str) and choice not in ("auto", "none", "required"):
        return f"Invalid value: {choice!r}"
    if (
        isinstance(choice, dict)
        and "function" in choice
        and choice["function"]["name"] not in [tool["function"]["name"] for tool in tools]
    ):
        return f"Tool choice {choice} not found in tools"
    open_calls: list[str] = []
    for message in body["messages"]:
        strangers = set(message) - {"role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content"}
        if strangers:
            return f"Unknown parameter: messages[].{strangers}"
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return "a tool message answers no call"
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return f"calls without results: {open_calls}"
        open_calls += [call["id"] for call in message.get("tool_calls") or []]
    return f"calls without results: {open_calls}" if open_calls else ""


def completions_whole(said: Json) -> Json:
    finish = said.get("finish_reason") or FINISH[bool(said.get("tool_calls"))]
    message = {
        "role": "assistant",
        "content": None,
        **{k: v for k, v in said.items() if k not in ("finish_reason", "usage")},
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "the-model-that-answered",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": said.get("usage", USAGE),
    }


def completions_stream(said: Json) -> list[Json]:
    """Text in halves, arguments in pieces of five characters, usage in a chunk of its own; "CUT" breaks it off."""
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    for name in ("reasoning_content", "content"):
        if text := said.get(name):
            deltas += [{name: text[: len(text) // 2]}, {name: text[len(text) // 2 :]}]
    for index, call in enumerate(said.get("tool_calls") or []):
        head = {"index": index, "id": call["id"], "type": "function"}
        deltas.append({"tool_calls": [head | {"function": {"name": call["function"]["name"], "arguments": ""}}]})
        text = call["function"]["arguments"]
        pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces]
    frame = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "the-model-that-answered",
    }
    chunks: list[Json] = [frame | {"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    if said.get("cut"):
        return [*chunks, "CUT"]
    finish = said.get("finish_reason") or FINISH[bool(said.get("tool_calls"))]
    chunks.append(frame | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return [*chunks, frame | {"choices": [], "usage": USAGE}]


# ---------------------------------------------------------------- Messages


def messages_complaint(body: Json) -> str:
    """What Anthropic would refuse."""
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: Field required"
    if any(message["role"] not in ("user", "assistant") for message in body["messages"]):
        return 'messages: Unexpected role. The Messages API accepts "user" and "assistant"'
    choice, names = body.get("tool_choice"), [tool["name"] for tool in body.get("tools", [])]
    if choice is not None and not names:
        return "tool_choice may only be specified while providing tools"
    if choice is not None and (choice["type"] not in ("auto", "any", "none", "tool")):
        return f"tool_choice: Input tag {choice['type']!r} does not match"
    if choice is not None and choice["type"] == "tool" and choice["name"] not in names:
        return f"Tool {choice['name']!r} not found in provided tools"
    open_calls: list[str] = []
    for message in body["messages"]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if set(answered) != set(open_calls):
            return f"tool_use ids were found without tool_result blocks immediately after: {open_calls}"
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return ""


def _blocks(said: Json) -> list[Json]:
    thinking = [{"type": "thinking", "thinking": t, "signature": "s"} for t in [said.get("reasoning_content")] if t]
    text = [{"type": "text", "text": t} for t in [said.get("content")] if t]
    return (
        thinking
        + text
        + [
            {
                "type": "tool_use",
                "id": call["id"],
                "name": call["function"]["name"],
                "input": json.loads(call["function"]["arguments"]),
            }
            for call in said.get("tool_calls") or []
        ]
    )


def _stop(said: Json) -> str:
    own = {"length": "max_tokens", None: "tool_use" if said.get("tool_calls") else "end_turn"}
    return own.get(said.get("finish_reason"), said.get("finish_reason"))


def messages_whole(said: Json) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "the-model-that-answered",
        "content": _blocks(said),
        "stop_reason": _stop(said),
        "stop_sequence": None,
        "usage": {
            "input_tokens": 8,
            "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 0,
            "output_tokens": 7,
        },
    }


def messages_stream(said: Json) -> list[Json]:
    whole = messages_whole(said) | {"content": [], "stop_reason": None}
    whole["usage"] = whole["usage"] | {"output_tokens": 1}
    events: list[Json] = [{"type": "message_start", "message": whole}]
    for index, block in enumerate(_blocks(said)):
        kind = block["type"]
        empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}[kind]
        events.append({"type": "content_block_start", "index": index, "content_block": block | empty})
        word = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}[kind]
        name = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}[kind]
        text = json.dumps(block["input"]) if kind == "tool_use" else block[word]
        events += [
            {"type": "content_block_delta", "index": index, "delta": {"type": name, word: text[at : at + 5]}}
            for at in range(0, len(text), 5)
        ]
        events.append({"type": "content_block_stop", "index": index})
    if said.get("cut"):
        return [*events, "CUT"]
    ending = {"stop_reason": _stop(said), "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
    ]
