"""What must hold for every answer of every door: its status, its error's shape, its stream's order."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any

from ringleader.api.unserved import UNSERVED
from tests.api.anthropic_rules import checked
from tests.api.anthropic_rules import read_events as read_blocks
from tests.api.fuzz_node import SECRET
from tests.api.fuzz_shots import Shot
from tests.api.response_rules import check_stream
from tests.conformance.chunk_rules import check as check_chunks

FAULTY = {400, 404, 429, 500, 503, 504, 529}  # what a node that fails may make of an answer
OPENAIS = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
OPENAI = {"message", "type", "param", "code"}


def check_answer(shot: Shot, status: int, headers: Mapping[str, str], text: str, *, faulty: bool) -> None:
    """Hold a whole answer to the rules of its door."""
    path = shot.path.partition("?")[0]
    assert SECRET not in text
    assert "Traceback" not in text
    assert status < 500 or (status in FAULTY and faulty) or (status == 501 and path in UNSERVED), (status, text)
    assert headers.get("x-request-id", "").startswith("req_")
    if shot.method == "HEAD" or (shot.method == "OPTIONS" and status < 300):
        assert text == ""
    elif status >= 400:
        anthropic = "anthropic-version" in {name.lower() for name in shot.headers}
        check_error(path, json.loads(text), anthropic=anthropic)
    elif headers["Content-Type"].startswith("text/event-stream"):
        zipped = shot.headers.get("Content-Encoding") == "gzip"
        STREAMS[path](json.loads(gzip.decompress(shot.raw) if zipped else shot.raw), text)
    elif headers["Content-Type"].startswith("application/x-ndjson"):
        check_lines(path, text)
    elif headers["Content-Type"].startswith("application/json"):
        assert isinstance(json.loads(text), dict)


def check_error(path: str, error: Any, *, anthropic: bool) -> None:
    """The error's body is that of the path's API."""
    if path.startswith("/api/"):
        assert set(error) == {"error"}
        assert isinstance(error["error"], str)
        assert error["error"]
    elif path.startswith("/v1/messages") or (anthropic and not path.startswith(OPENAIS)):
        assert set(error) == {"type", "error", "request_id"}
        assert error["type"] == "error"
        assert set(error["error"]) == {"type", "message"}
    else:
        assert set(error) == {"error"}
        assert set(error["error"]) == OPENAI
        assert error["error"]["message"]


def _data(text: str) -> list[str]:
    """The data of unnamed events; nothing else but comments stands in the stream."""
    assert text.endswith("\n\n")
    lines = [line for line in text.split("\n") if line and not line.startswith(":")]
    assert all(line.startswith("data: ") for line in lines)
    return [line.removeprefix("data: ") for line in lines]


def check_chat(asked: dict[str, Any], text: str) -> None:
    """A chat's chunks, to `[DONE]` or to an error."""
    lines = _data(text)
    if lines[-1] != "[DONE]":
        check_error("", json.loads(lines[-1]), anthropic=False)
        assert "[DONE]" not in lines
        return
    tools = asked.get("tools") or []
    if asked.get("functions") or any(tool.get("type") == "custom" for tool in tools):
        assert all(json.loads(line)["object"] == "chat.completion.chunk" for line in lines[:-1])
        return
    usage = (asked.get("stream_options") or {}).get("include_usage") is True
    check_chunks(lines, choices=asked.get("n") or 1, usage=usage)


def check_completion(asked: dict[str, Any], text: str) -> None:
    """A completion's chunks, to `[DONE]` or to an error."""
    lines = _data(text)
    if lines[-1] != "[DONE]":
        check_error("", json.loads(lines[-1]), anthropic=False)
        lines.append("[DONE]")
        lines.pop(-2)
    assert "[DONE]" not in lines[:-1]
    assert all(json.loads(line)["object"] == "text_completion" for line in lines[:-1])


def check_response(asked: dict[str, Any], text: str) -> None:
    """A response's events, to its end, good or bad."""
    check_stream(text)


def check_message(asked: dict[str, Any], text: str) -> None:
    """A message's events, to its end or to an error."""
    events = read_blocks(text)
    if events[-1]["type"] == "error":
        check_error("/v1/messages", events[-1], anthropic=True)
        assert all(event["type"] not in ("error", "message_stop") for event in events[:-1])
    else:
        checked(events)


def check_lines(path: str, text: str) -> None:
    """Ollama's lines: the last says that it is done, or what went wrong."""
    assert text.endswith("\n")
    *lines, last = (json.loads(line) for line in text.splitlines())
    if "error" in last:
        check_error(path, last, anthropic=False)
    elif path == "/api/pull":
        assert last == {"status": "success"}
    else:
        assert last["done"] is True
    for line in lines:
        assert "error" not in line
        assert "status" in line if path == "/api/pull" else line["done"] is False


STREAMS: Mapping[str, Callable[[dict[str, Any], str], None]] = {
    "/v1/chat/completions": check_chat,
    "/v1/completions": check_completion,
    "/v1/responses": check_response,
    "/v1/messages": check_message,
}
