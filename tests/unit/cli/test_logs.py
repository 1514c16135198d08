"""The log as JSON: one object a line, with the request that it is about."""

from __future__ import annotations

import json
import logging

from ringleader.api.ids import REQUEST
from ringleader.cli.logs import JsonLines


def line_of(error: Exception | None = None) -> dict[str, str]:
    info = None if error is None else (type(error), error, None)
    record = logging.LogRecord("ringleader.node", logging.WARNING, "x.py", 1, "node %s is\nlost", ("ü",), info)
    record.created = 0.0
    text = JsonLines().format(record)
    assert "\n" not in text
    found: dict[str, str] = json.loads(text)
    return found


def test_a_line_says_when_who_and_what() -> None:
    assert line_of() == {
        "at": "1970-01-01T00:00:00.000+00:00",
        "level": "warning",
        "logger": "ringleader.node",
        "message": "node ü is\nlost",
    }


def test_a_line_names_its_request_and_its_error() -> None:
    token = REQUEST.set("req_1")
    try:
        found = line_of(ValueError("broken"))
    finally:
        REQUEST.reset(token)
    assert found["request"] == "req_1"
    assert "ValueError: broken" in found["error"]
