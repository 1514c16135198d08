"""A few sessions of the fuzz, always the same; `make fuzz` goes on for half an hour."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.api.fuzz import fuzz
from tests.api.fuzz_node import SECRET
from tests.api.fuzz_rules import check_answer
from tests.api.fuzz_shots import Shot

SESSIONS = 60
OPENAI_BODY: dict[str, Any] = {"error": {"message": "x", "type": "x", "param": None, "code": None}}


def test_no_door_hangs_or_fails_or_breaks_its_api_whatever_comes() -> None:
    with asyncio.Runner() as runner:
        fuzz(runner, SESSIONS)


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        ("/v1/chat/completions", 500, OPENAI_BODY),
        ("/v1/chat/completions", 501, OPENAI_BODY),
        ("/v1/messages", 400, OPENAI_BODY),
        ("/api/chat", 400, OPENAI_BODY),
        ("/v1/responses", 400, {"error": "x"}),
        ("/v1/responses", 400, {"error": {**OPENAI_BODY["error"], "message": f"x {SECRET}"}}),
    ],
)
def test_the_rules_bite(path: str, status: int, body: dict[str, Any]) -> None:
    good = {"x-request-id": "req_1", "Content-Type": "application/json"}
    with pytest.raises(AssertionError):
        check_answer(Shot("POST", path), status, good, json.dumps(body), faulty=False)
    check_answer(Shot("POST", "/v1/embeddings"), 501, good, json.dumps(OPENAI_BODY), faulty=False)
    with pytest.raises(AssertionError):
        check_answer(Shot("POST", "/v1/embeddings"), 501, {}, json.dumps(OPENAI_BODY), faulty=False)


def test_a_stream_without_its_end_breaks_the_rules() -> None:
    text = 'data: {"object":"chat.completion.chunk"}\n\n'
    headers = {"x-request-id": "req_1", "Content-Type": "text/event-stream; charset=utf-8"}
    with pytest.raises(AssertionError):
        check_answer(Shot("POST", "/v1/chat/completions", b"{}"), 200, headers, text, faulty=False)
