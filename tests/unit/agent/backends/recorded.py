"""Answers in the full shape of each provider, with fields that nobody here reads: whole, and as a stream's bytes."""

from __future__ import annotations

import json
from typing import Any

CALL = {"id": "call_9rT", "type": "function", "function": {"name": "verify_fact", "arguments": '{"claim":"x"}'}}
DETAILS = {
    "prompt_tokens": 82,
    "completion_tokens": 17,
    "total_tokens": 99,
    "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
    "completion_tokens_details": {
        "reasoning_tokens": 0,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    },
}
SAFE = {word: {"filtered": False, "severity": "safe"} for word in ("hate", "self_harm", "sexual", "violence")}


def chat(message: Any, choice: Any = None, **fields: Any) -> Any:
    """A whole answer of Chat Completions around `message`."""
    whole = {"role": "assistant", "content": None, **message}
    entry = {"index": 0, "message": whole, "logprobs": None, "finish_reason": "tool_calls", **(choice or {})}
    return {"id": "chatcmpl-B", "object": "chat.completion", "created": 1764500000, "choices": [entry]} | fields


def sse(*events: Any, named: bool = False, done: bool = True) -> str:
    """A stream's bytes."""
    lines = [(f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join(lines) + ("data: [DONE]\n\n" if done else "")


def chunk(delta: Any, finish: Any = None, **fields: Any) -> Any:
    """A chunk of a stream."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {"id": "chatcmpl-B", "object": "chat.completion.chunk", "model": "gpt-x", "choices": [choice]} | fields


PARTS = (
    {"index": 0, "id": "call_9rT", "type": "function", "function": {"name": "verify_fact", "arguments": ""}},
    {"index": 0, "function": {"arguments": '{"cla'}},
    {"index": 0, "function": {"arguments": 'im":"x"}'}},
)
STREAM = (
    chunk({"role": "assistant", "content": None, "refusal": None}),
    *(chunk({"tool_calls": [part]}) for part in PARTS),
    chunk({}, "tool_calls"),
    {"id": "chatcmpl-B", "object": "chat.completion.chunk", "model": "gpt-x", "choices": [], "usage": DETAILS},
)
FILTERS = {"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": SAFE}]}

WHOLE: dict[str, Any] = {
    "ring": chat(
        {"tool_calls": [CALL], "reasoning_content": None},
        model="smollm2-135m",
        usage=DETAILS | {"ringleader": {"passes": 5, "forced_tokens": 12, "opening_tokens": 20}},
    ),
    "openai": chat(
        {"tool_calls": [CALL], "refusal": None, "annotations": []},
        model="gpt-x-2026-01-01",
        usage=DETAILS,
        service_tier="default",
        system_fingerprint="fp_1",
    ),
    "azure_openai": chat(
        {"tool_calls": [CALL], "refusal": None},
        {"content_filter_results": SAFE},
        model="gpt-x",
        usage=DETAILS,
        **FILTERS,
    ),
    "azure_foundry": chat(
        {"tool_calls": [CALL], "content": ""}, model="some-large", usage={**DETAILS, "queue_time": 0.1}
    ),
    "github_models": chat(
        {"tool_calls": [CALL], "annotations": []}, model="gpt-x", usage=DETAILS, system_fingerprint=None
    ),
    "anthropic": {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [
            {
                "type": "tool_use",
                "id": "call_9rT",
                "name": "verify_fact",
                "input": {"claim": "x"},
                "caller": {"type": "direct"},
            }
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            "input_tokens": 80,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 2,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 17,
            "service_tier": "standard",
        },
    },
}

_MESSAGE = WHOLE["anthropic"] | {"content": [], "stop_reason": None}
STREAMED: dict[str, str] = {
    "ring": ": keep-alive\n\n" + sse(*STREAM),
    "openai": sse(*(each | {"obfuscation": "aX3"} for each in STREAM)),
    "azure_openai": sse({"id": "", "object": "", "created": 0, "model": "", "choices": [], **FILTERS}, *STREAM),
    "azure_foundry": sse(*STREAM[:-2], STREAM[-2] | {"usage": DETAILS}),  # usage beside the last choice
    "github_models": sse(*STREAM),
    "anthropic": sse(
        {"type": "message_start", "message": _MESSAGE},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": WHOLE["anthropic"]["content"][0] | {"input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"cla'}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": 'im": "x"}'}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 17},
        },
        {"type": "message_stop"},
        named=True,
        done=False,
    ),
}
