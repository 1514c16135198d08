"""Errors in Anthropic's words."""

from __future__ import annotations

import pytest

from ringleader.api.anthropic_faults import AnthropicForm, in_anthropic_words
from ringleader.api.fault_table import fault_of
from ringleader.errors import (
    BadRequest,
    Busy,
    CallerFault,
    ContextTooLong,
    DeadlinePassed,
    ModelDoesNotFit,
    ModelUnsupported,
    OurFault,
    RingLost,
    UnknownModel,
)

FORM = AnthropicForm()


@pytest.mark.parametrize(
    ("error", "status", "type_"),
    [
        (BadRequest("x"), 400, "invalid_request_error"),
        (ContextTooLong("x"), 400, "invalid_request_error"),
        (UnknownModel("x"), 404, "not_found_error"),
        (Busy("x"), 429, "rate_limit_error"),
        (RingLost("x"), 529, "overloaded_error"),
        (DeadlinePassed("x"), 504, "timeout_error"),
        (ModelDoesNotFit("x"), 503, "api_error"),
        (ModelUnsupported("x"), 400, "invalid_request_error"),
        (OurFault("secret"), 500, "api_error"),
        (RuntimeError("secret"), 500, "api_error"),
    ],
)
def test_each_error_has_its_status_and_type(error: Exception, status: int, type_: str) -> None:
    fault = fault_of(error, "req_1")
    body = FORM.body(fault, "req_1")
    assert (FORM.status(fault), body["error"]["type"]) == (status, type_)
    assert (set(body), set(body["error"])) == ({"type", "error", "request_id"}, {"type", "message"})
    assert (body["type"], body["request_id"]) == ("error", "req_1")
    assert "secret" not in body["error"]["message"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            BadRequest("it is no object", param="tools[3].function.parameters"),
            "tools.3.input_schema: it is no object",
        ),
        (BadRequest("tools[3].function: x", param="tools[3].function"), "tools.3: x"),
        (BadRequest("bad", param="response_format.json_schema.schema"), "output_config.format.schema: bad"),
        (
            ContextTooLong(
                "This model's maximum context length is 2048 tokens. However, your messages resulted in 9000 tokens. "
                "Please reduce the length of the messages."
            ),
            "prompt is too long: 9000 tokens > 2048 maximum",
        ),
    ],
)
def test_faults_from_behind_the_door_name_anthropics_fields(fault: CallerFault, words: str) -> None:
    told = in_anthropic_words(fault)
    assert type(told) is type(fault)
    assert FORM.body(fault_of(told, "req_1"), "req_1")["error"]["message"] == words


def test_an_unknown_model_tells_what_to_do_about_it() -> None:
    told = str(in_anthropic_words(UnknownModel("The model 'claude-opus-4-8' does not exist here. Served: m.")))
    assert "Served: m." in told
    assert "ANTHROPIC_MODEL" in told
    assert "--alias" in told
