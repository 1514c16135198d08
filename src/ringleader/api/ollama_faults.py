"""Errors as Ollama tells them: one text."""

from __future__ import annotations

from ringleader.api.fault_table import Fault
from ringleader.errors import CallerFault
from ringleader.values import Json

BUSY = 503  # Ollama's own status for a full queue


class OllamaForm:
    """`{"error": "..."}`, also as the last line of a stream."""

    def status(self, fault: Fault) -> int:
        """As the table has it, but for a full queue."""
        return BUSY if fault.kind == "busy" else fault.status

    def body(self, fault: Fault, request_id: str) -> Json:
        """The text names the field that is wrong."""
        named = not fault.param or fault.param.split(".")[-1] in fault.message
        return {"error": fault.message if named else f"{fault.param}: {fault.message}"}


def in_ollama_words(fault: CallerFault) -> CallerFault:
    """A fault found behind the door, for a client that wrote Ollama's fields."""
    return type(fault)(
        places_of_ollama(str(fault)), param=fault.param and places_of_ollama(fault.param), code=fault.code
    )


def places_of_ollama(text: str) -> str:
    """`text` with the place of the answer's form as a client of Ollama's API has written it."""
    return text.replace("response_format.json_schema.schema", "format").replace("response_format", "format")
