"""The table from errors to HTTP, and OpenAI's form of it."""

from __future__ import annotations

import re

import pytest

import ringleader.errors
from ringleader.api.error_forms import OPENAI
from ringleader.api.fault_table import TABLE, fault_of, rule_of
from ringleader.errors import (
    BadRequest,
    Busy,
    ContextTooLong,
    ModelDoesNotFit,
    ModelFault,
    ModelUnsupported,
    NodeUnreachable,
    OurFault,
    RingleaderError,
    RingLost,
    UnknownModel,
)


@pytest.mark.parametrize(
    ("error", "status", "type_"),
    [
        (BadRequest("x"), 400, "invalid_request_error"),
        (ContextTooLong("x"), 400, "invalid_request_error"),
        (UnknownModel("x"), 404, "invalid_request_error"),
        (Busy("x"), 429, "rate_limit_error"),
        (RingLost("x"), 503, "server_error"),
        (NodeUnreachable("x"), 503, "server_error"),
        (ModelDoesNotFit("x"), 503, "server_error"),
        (ModelUnsupported("x"), 400, "invalid_request_error"),
        (ModelFault("x"), 500, "server_error"),
        (OurFault("x"), 500, "server_error"),
        (RuntimeError("x"), 500, "server_error"),
    ],
)
def test_each_error_has_its_status_and_type(error: Exception, status: int, type_: str) -> None:
    fault = fault_of(error, "req_1")
    assert (OPENAI.status(fault), OPENAI.body(fault, "req_1")["error"]["type"]) == (status, type_)


def test_no_class_stands_behind_its_parent() -> None:
    kinds = [kind for kind, _ in TABLE]
    for index, kind in enumerate(kinds):
        assert not any(issubclass(kind, earlier) for earlier in kinds[:index])


def test_every_error_of_the_tree_is_in_the_table() -> None:
    for kind in vars(ringleader.errors).values():
        if isinstance(kind, type) and issubclass(kind, RingleaderError):
            assert any(issubclass(kind, listed) for listed, _ in TABLE)


def test_the_table_answers_as_the_tree_in_errors_is_drawn() -> None:
    drawn = re.findall(r"── (\w+) .* (\d{3})$", ringleader.errors.__doc__ or "", re.MULTILINE)
    assert len(drawn) >= 10
    for name, status in drawn:
        kind = getattr(ringleader.errors, name)
        assert rule_of(kind("x")).status == int(status), name


def test_only_texts_for_callers_leave() -> None:
    told = OPENAI.body(fault_of(BadRequest("say less", param="n"), "req_1"), "req_1")["error"]
    assert told == {"message": "say less", "type": "invalid_request_error", "param": "n", "code": "invalid_value"}
    for error in (OurFault("secret"), RuntimeError("secret")):
        hidden = OPENAI.body(fault_of(error, "req_1"), "req_1")["error"]
        assert "secret" not in hidden["message"]
        assert "req_1" in hidden["message"]
        assert (hidden["param"], hidden["code"]) == (None, "internal_error")
