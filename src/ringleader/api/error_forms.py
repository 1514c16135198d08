"""Each API's own body and status for what a caller is told. Which API a request is of, its path or a header says.

A new API is one `Form` and one line in `FORMS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from aiohttp import web

from ringleader.api.anthropic_faults import AnthropicForm
from ringleader.api.fault_table import Fault, Kind
from ringleader.api.ollama_faults import OllamaForm
from ringleader.values import Json


class Form(Protocol):
    """How one API writes errors."""

    def status(self, fault: Fault) -> int:
        """The HTTP status."""
        ...

    def body(self, fault: Fault, request_id: str) -> Json:
        """The body; also the last event of a stream, where that API's streams end so."""
        ...


_OPENAI_TYPES: Mapping[Kind, str] = {
    "busy": "rate_limit_error",
    "unavailable": "server_error",
    "timeout": "server_error",
    "unserved": "server_error",
    "internal": "server_error",
}


class OpenAIForm:
    """OpenAI's: all four keys always there."""

    def status(self, fault: Fault) -> int:
        """As the table has it."""
        return fault.status

    def body(self, fault: Fault, request_id: str) -> Json:
        """`{"error": {...}}`."""
        type_ = _OPENAI_TYPES.get(fault.kind, "invalid_request_error")
        return {"error": {"message": fault.message, "type": type_, "param": fault.param, "code": fault.code}}


OPENAI = OpenAIForm()
ANTHROPIC = AnthropicForm()
OLLAMA = OllamaForm()
ANTHROPIC_HEADER = "anthropic-version"  # its clients send it always; with `/v1/models` nothing else tells them apart
# The first whose path begins the request's; for any other the header decides.
FORMS: tuple[tuple[str, Form], ...] = (
    ("/v1/messages", ANTHROPIC),
    ("/api/", OLLAMA),
    ("/v1/chat/", OPENAI),
    ("/v1/completions", OPENAI),
    ("/v1/responses", OPENAI),
)


def form_of(request: web.Request) -> Form:
    """The form of the API that `request` speaks."""
    return form_at(request.path, request.headers)


def form_at(path: str, headers: Mapping[str, str]) -> Form:
    """The form of the API that is served at `path`; of several, what the `headers` say."""
    other = ANTHROPIC if ANTHROPIC_HEADER in headers else OPENAI
    return next((form for prefix, form in FORMS if path.startswith(prefix)), other)
