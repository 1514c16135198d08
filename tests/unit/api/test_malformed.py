from __future__ import annotations

import logging

from aiohttp.http_exceptions import BadHttpMessage

from ringleader.api.malformed import AGAIN_S, OnceAMinute


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


def test_our_own_faults_are_logged_whole() -> None:
    fault = record(RuntimeError("a bug"))
    once = OnceAMinute()
    assert once.filter(fault)
    assert once.filter(fault)
    assert fault.exc_info
