"""Errors as Anthropic's API tells them, and places in a request as its clients wrote them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ringleader.api.fault_table import Fault, Kind
from ringleader.errors import CallerFault, ContextTooLong, UnknownModel
from ringleader.values import Json

_TYPES: Mapping[Kind, str] = {
    "invalid": "invalid_request_error",
    "unauthorized": "authentication_error",
    "forbidden": "permission_error",
    "not_found": "not_found_error",
    "too_large": "request_too_large",
    "busy": "rate_limit_error",
    "timeout": "timeout_error",
}
# The SDKs' tool runners ask for conversations that the server keeps; told so, they send the whole conversation instead.
NO_THREAD = "thread_unsupported_request"
OVERLOADED = 529  # Anthropic's own status for "later, perhaps": its clients know to wait
_FUNCTION = re.compile(r"\btools\[(\d+)\]\.function(\.parameters)?")
_TOO_LONG = re.compile(r"context length is (\d+) tokens\..* resulted in (\d+) tokens")
_NO_STRICT = ", or set 'strict' to false: it is then checked, not enforced"


class AnthropicForm:
    """`{"type": "error", ...}`, with the request's id. The message begins with the field that is wrong."""

    def status(self, fault: Fault) -> int:
        """As the table has it, but for what may go well a little later."""
        return OVERLOADED if _is_overload(fault) else fault.status

    def body(self, fault: Fault, request_id: str) -> Json:
        """The body, and the event of a stream."""
        type_ = "overloaded_error" if _is_overload(fault) else _TYPES.get(fault.kind, "api_error")
        message = fault.message
        if fault.param and not message.startswith(fault.param):
            message = f"{fault.param}: {message}"
        error: dict[str, Json] = {"type": type_, "message": message}
        if fault.code == NO_THREAD:
            error["details"] = {"error_code": NO_THREAD, "unsupported": [fault.param]}
        return {"type": "error", "error": error, "request_id": request_id}


def _is_overload(fault: Fault) -> bool:
    return fault.kind == "unavailable" and fault.retry


def in_anthropic_words(fault: CallerFault, places: Sequence[int] = ()) -> CallerFault:
    """A fault found behind the door, for a client that wrote Anthropic's fields. `places` are the tools' indices."""
    message = places_of_anthropic(str(fault), places)
    if isinstance(fault, ContextTooLong):  # agents match on these words, and compact
        found = _TOO_LONG.search(message)
        told = f"prompt is too long: {found[2]} tokens > {found[1]} maximum" if found else message
        return ContextTooLong(told, code=fault.code)
    if isinstance(fault, UnknownModel):
        hint = "Set the client's model to one of these (for Claude Code: ANTHROPIC_MODEL), or start the node with "
        return UnknownModel(f"{message} {hint}--alias 'claude-*=NAME'.", param="model", code=fault.code)
    return type(fault)(message, param=fault.param and places_of_anthropic(fault.param, places), code=fault.code)


def places_of_anthropic(text: str, places: Sequence[int] = ()) -> str:
    """`text` with the places of tools and of the answer's form as a client of Anthropic's API has written them."""

    def place(found: re.Match[str]) -> str:
        index = int(found[1])
        return f"tools.{places[index] if index < len(places) else index}" + (".input_schema" if found[2] else "")

    text = _FUNCTION.sub(place, text)
    text = text.replace("response_format.json_schema.schema", "output_config.format.schema")
    return text.replace("response_format", "output_config.format").replace(_NO_STRICT, "")
