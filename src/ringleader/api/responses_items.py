"""The items of a Responses conversation as they stand on the wire, and as they are kept: each with an id of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue

from ringleader.api.ids import new_id
from ringleader.api.responses_hosted import ITEMS, done_elsewhere
from ringleader.api.validation import Wire, parse
from ringleader.errors import BadRequest
from ringleader.values import Json, shown

Id = Annotated[str, Field(min_length=1)]


def _as_input(content: Any) -> Any:
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


class PartItem(Wire):
    """One part of a message, or of a tool's output. Texts only: `text`, or of a refusal `refusal`."""

    type: str
    text: str | None = None
    refusal: str | None = None


Parts = Annotated[list[PartItem], BeforeValidator(_as_input, json_schema_input_type=str | list[PartItem])]


class MessageItem(Wire):
    """What somebody said."""

    type: Literal["message"] = "message"
    id: str | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: Parts


class FunctionCallItem(Wire):
    """A call of a function, as it came in an answer."""

    type: Literal["function_call"]
    id: str | None = None
    call_id: Id
    name: Id
    namespace: str | None = None
    arguments: str


class FunctionOutputItem(Wire):
    """What the function gave."""

    type: Literal["function_call_output"]
    id: str | None = None
    call_id: Id
    output: Parts


class CustomCallItem(Wire):
    """A call of a custom tool."""

    type: Literal["custom_tool_call"]
    id: str | None = None
    call_id: Id
    name: Id
    namespace: str | None = None
    input: str


class CustomOutputItem(Wire):
    """What the custom tool gave."""

    type: Literal["custom_tool_call_output"]
    id: str | None = None
    call_id: Id
    output: Parts


class ShellAction(Wire):
    """A command that the client runs on its own machine."""

    type: Literal["exec"] = "exec"
    command: list[str]
    env: dict[str, str] | None = None
    timeout_ms: int | None = None
    user: str | None = None
    working_directory: str | None = None


class ShellCallItem(Wire):
    """A call of the client's shell."""

    type: Literal["local_shell_call"]
    id: str | None = None
    call_id: Id
    action: ShellAction


class ShellOutputItem(Wire):
    """What the shell gave. Some clients name the call by `call_id`, OpenAI's own type by `id`."""

    type: Literal["local_shell_call_output"]
    id: str | None = None
    call_id: str | None = None
    output: Parts


class SummaryItem(Wire):
    """A piece of a reasoning item."""

    type: str
    text: str


class ReasoningItem(Wire):
    """What the model thought before: read from `content`, else from `encrypted_content`, else from `summary`."""

    type: Literal["reasoning"]
    id: str | None = None
    summary: list[SummaryItem] | None = None
    content: list[SummaryItem] | None = None
    encrypted_content: str | None = None


class ReferenceItem(Wire):
    """An item that this node has stored."""

    type: Literal["item_reference"] = "item_reference"
    id: Id


class HostedItem(Wire):
    """What a tool did that OpenAI's servers run: the model is told of it in words."""

    model_config = ConfigDict(extra="allow")

    type: Annotated[str, Field(pattern=f"^({'|'.join(ITEMS)})$")]
    id: str | None = None

    @property
    def words(self) -> str:
        """What was done; "" where there is nothing to tell."""
        return done_elsewhere(self.type, self.model_extra or {})


Item = (
    MessageItem
    | FunctionCallItem
    | FunctionOutputItem
    | CustomCallItem
    | CustomOutputItem
    | ShellCallItem
    | ShellOutputItem
    | ReasoningItem
    | ReferenceItem
    | HostedItem
)
KINDS: Mapping[str, type[Wire]] = {
    "message": MessageItem,
    "function_call": FunctionCallItem,
    "function_call_output": FunctionOutputItem,
    "custom_tool_call": CustomCallItem,
    "custom_tool_call_output": CustomOutputItem,
    "local_shell_call": ShellCallItem,
    "local_shell_call_output": ShellOutputItem,
    "reasoning": ReasoningItem,
    "item_reference": ReferenceItem,
}
_PREFIXES = {
    "message": "msg_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctco_",
    "local_shell_call": "lsh_",
    "local_shell_call_output": "lsho_",
    "reasoning": "rs_",
}


def parse_item(raw: JsonValue, index: int) -> Any:
    """Entry `index` of `input` as one of `Item`.

    Raises:
        BadRequest: it is of an unknown type, or a field of it is wrong.
    """
    at = ("input", index)
    if not isinstance(raw, dict):
        return parse(MessageItem, raw, at)
    kind = raw.get("type")
    if kind is None:
        kind = "message" if "role" in raw else "item_reference" if set(raw) == {"id"} else None
    if isinstance(kind, str) and kind in ITEMS:
        return parse(HostedItem, raw, at)
    if not isinstance(kind, str) or kind not in KINDS:
        raise _unknown(kind, f"input[{index}].type")
    return parse(KINDS[kind], {**raw, "type": kind}, at)


def _unknown(kind: Json, path: str) -> BadRequest:
    known = ", ".join(repr(each) for each in KINDS)
    if kind is None:
        message = f"Missing required parameter: '{path}'. It is one of {known}."
        return BadRequest(message, param=path, code="missing_required_parameter")
    message = f"Invalid value: {shown(kind)} for '{path}'. Supported values are: {known}. "
    return BadRequest(message + "Leave other items out, or write what they said into a message.", param=path)


def text_of(parts: Sequence[PartItem], path: str) -> str:
    """The parts' texts joined with nothing between.

    Raises:
        BadRequest: a part is no text (an image, a file, ...).
    """
    texts = []
    for index, part in enumerate(parts):
        where = f"{path}[{index}]"
        if part.type not in ("input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal"):
            message = f"'{where}.type' {shown(part.type)} is not supported: only text parts are."
            raise BadRequest(message, param=f"{where}.type", code="unsupported_value")
        field = "refusal" if part.type == "refusal" else "text"
        text = part.refusal if field == "refusal" else part.text
        if text is None:
            message = f"Missing required parameter: '{where}.{field}'."
            raise BadRequest(message, param=f"{where}.{field}", code="missing_required_parameter")
        texts.append(text)
    return "".join(texts)


def kept(raw: Mapping[str, Json], kind: str) -> dict[str, Json]:
    """An item as it is stored and listed: with its type, an id, and parts instead of bare text."""
    prefix = _PREFIXES.get(kind, "item_")
    item = {"id": raw.get("id") or new_id(prefix), **raw, "type": kind}
    item["id"] = item["id"] or new_id(prefix)
    if kind in _PREFIXES:
        item.setdefault("status", "completed")
    if kind == "message" and isinstance(item["content"], str):
        part = "output_text" if item["role"] == "assistant" else "input_text"
        extra: dict[str, Json] = {"annotations": []} if part == "output_text" else {}
        item["content"] = [{"type": part, "text": item["content"], **extra}]
    if kind == "reasoning":
        item.setdefault("summary", [])
    return item
