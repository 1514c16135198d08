from __future__ import annotations

import asyncio
import json
import logging

import pytest
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from ringleader.api.malformed import AGAIN_S, OnceAMinute
from tests.api.scripted import ScriptedNode, served

CHAT, MESSAGES, OLLAMA = "/v1/chat/completions", "/v1/messages", "/api/chat"
HOST = "Host: localhost\r\n"
ANTHROPICS = "Anthropic-Version: 2023-06-01\r\n"


def record(error: Exception) -> logging.LogRecord:
    info = (type(error), error, None)
    return logging.LogRecord("http", logging.ERROR, "", 0, "Error handling request from %s", ("1.2.3.4",), info)


def test_a_malformed_request_is_logged_once_a_minute_and_never_with_its_content() -> None:
    now_s = 0.0
    once = OnceAMinute(lambda: now_s)
    first = record(BadHttpMessage("A" * 1_000_000))
    assert once.filter(first)
    assert "A" not in logging.Formatter().format(first)
    assert first.levelname == "WARNING"
    assert not once.filter(record(BadHttpMessage("A")))
    now_s = AGAIN_S
    assert once.filter(record(BadHttpMessage("A")))


def test_a_body_that_is_not_as_its_headers_say_is_no_fault_of_ours() -> None:
    first = record(web.RequestPayloadError("Can not decode"))
    assert OnceAMinute().filter(first)
    assert first.levelname == "WARNING"


def test_our_own_faults_are_logged_whole() -> None:
    fault = record(RuntimeError("a bug"))
    once = OnceAMinute()
    assert once.filter(fault)
    assert once.filter(fault)
    assert fault.exc_info


@pytest.mark.parametrize(
    ("head", "status", "words"),
    [
        (f"GET {CHAT}?{'x' * 20_000} HTTP/1.1\r\n{HOST}", 414, "The request's URL is longer than"),
        (f"GET {MESSAGES}{'x' * 20_000} HTTP/1.1\r\n{HOST}", 414, "The request's URL is longer than"),
        (f"GET {OLLAMA} HTTP/1.1\r\n{HOST}X: {'x' * 20_000}\r\n", 431, "A header of the request is longer"),
        (f"GET {CHAT} HTTP/1.1\r\n{HOST}{''.join(f'X-{n}: x' for n in range(9))}\0\r\n", 400, "Invalid header value"),
        (f"GET {MESSAGES} HTTP/1.1\r\n{HOST}" + "X: x\r\n" * 500, 431, "more headers than are read"),
        (f"POST {CHAT} HTTP/1.1\r\n{HOST}Content-Encoding: br\r\nContent-Length: 2\r\n", 415, "gzip or deflate"),
        (f"POST /tokenize HTTP/1.1\r\n{HOST}{ANTHROPICS}Content-Encoding: br\r\nContent-Length: 2\r\n", 415, "deflate"),
        (f"POST {OLLAMA} HTTP/1.1\r\n{HOST}Content-Encoding: g\1\r\nContent-Length: 2\r\n", 400, "header value"),
        (f"POST {MESSAGES} HTTP/1.1\r\n{HOST}Content-Length: x\r\n", 400, "Invalid character in Content-Length."),
        (f"GET http://[::1 HTTP/1.1\r\n{HOST}", 400, "its URL cannot be read"),
        (
            f"POST /nowhere HTTP/1.1\r\n{HOST}Expect: x\r\nContent-Length: 0\r\nConnection: close\r\n",
            417,
            "Expectation",
        ),
    ],
)
async def test_what_is_no_http_is_refused_in_the_form_of_its_api(head: str, status: int, words: str) -> None:
    async with served(ScriptedNode()) as server, asyncio.timeout(10):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(f"{head}\r\n".encode())
        answer, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
    assert int(answer.split()[1]) == status
    assert "x-request-id: req_" in answer
    told = json.loads(body)
    if MESSAGES in head or ANTHROPICS in head:
        assert (told["type"], told["request_id"][:4]) == ("error", "req_")
    message = told["error"] if OLLAMA in head else told["error"]["message"]
    assert words in message
    assert "xxx" not in message
