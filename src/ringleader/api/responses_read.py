"""A Responses body to a `ChatRequest`, and how its answer is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ringleader.api import responses_items as items
from ringleader.api.body import json_type
from ringleader.api.openai_read import INT32_MAX, read_sampling
from ringleader.api.openai_refused import Refused, read_effort, refuse
from ringleader.api.openai_tools import ToolsAsked
from ringleader.api.priority import priority_of
from ringleader.api.responses_history import Placed, read_items
from ringleader.api.responses_hosted import told_in_words
from ringleader.api.responses_tools import FlatTools, read_flat_tools
from ringleader.api.responses_wire import ResponsesWire, TextFormat
from ringleader.api.validation import parse
from ringleader.errors import BadRequest
from ringleader.values import ChatRequest, ContentFormat, Effort, Json, ModelId, shown

SEALED = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"
# What `include` may name. Those that tell of tools which do not exist here have nothing to add.
INCLUDABLE = (
    SEALED,
    LOGPROBS,
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
)
REFUSED: tuple[Refused, ...] = (
    Refused("background", (False,), "answers are made while the client waits; leave it out and stream the answer"),
    Refused("background_options", ({},), "answers are made while the client waits"),
    Refused("conversation", (), "use previous_response_id, or send the whole input"),
    Refused("prompt", (), "there are no stored prompts; send input and instructions"),
    Refused("context_management", ([],), "nothing is compacted here; send a shorter input, or truncation 'auto'"),
    Refused("moderation", ({},), "there is no moderation"),
    Refused("messages", (), "this API takes input; messages belong to /v1/chat/completions"),
    Refused("response_format", (), "this API takes text.format"),
    Refused("max_tokens", (), "this API takes max_output_tokens"),
    Refused("n", (1,), "a response has one answer; send the request again with another seed"),
)


@dataclass(frozen=True, slots=True)
class ResponseAsked:
    """What was asked. `new` are the request's own items, `wire` its fields as they are echoed.

    `request` is made when the stored items before them are known: `with_history`.
    """

    wire: ResponsesWire
    tools: FlatTools
    new: tuple[Placed, ...]
    raw_items: tuple[dict[str, Json], ...]  # the same, as they are stored
    include: frozenset[str] = field(default_factory=frozenset)
    effort: Effort | None = None

    @property
    def calls(self) -> ToolsAsked:
        """What may and must be called."""
        return self.tools.calls

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is told of the request before anything is known of its answer."""
        hosted = [(each.path, each.item.type) for each in self.new if isinstance(each.item, items.HostedItem)]
        return (*self.tools.warnings, told_in_words(hosted)) if hosted else self.tools.warnings

    @property
    def stored(self) -> bool:
        """Whether the response is to be found again."""
        return self.wire.store is not False

    @property
    def summarised(self) -> bool:
        """Whether reasoning is told as a summary."""
        reasoning = self.wire.reasoning
        return reasoning is not None and ((reasoning.summary or "none") != "none" or bool(reasoning.generate_summary))

    @property
    def has_shell(self) -> bool:
        """Whether the client's own shell is among the tools."""
        return any(isinstance(each, dict) and each.get("type") == "local_shell" for each in self.wire.tools or ())

    @property
    def references(self) -> list[str]:
        """Ids of stored items that the input names."""
        return [each.item.id for each in self.new if isinstance(each.item, items.ReferenceItem)]

    def request(self, before: Sequence[Placed], found: dict[str, Any]) -> ChatRequest:
        """The request with the items of earlier responses before its own. `found` are those that it references.

        Raises:
            BadRequest: the items do not make a conversation.
        """
        wire = self.wire
        own = [_resolved(each, found) for each in self.new]
        top = wire.top_logprobs or 0
        messages = read_items([*before, *own], wire.instructions, self.tools.shown_name)
        if not messages:
            message = "Invalid 'input': no item in it says anything to the model. "
            message += "Send at least one message: an item with 'role' and 'content'."
            raise BadRequest(message, param="input", code="empty_array")
        return ChatRequest(
            model=ModelId(wire.model),
            messages=messages,
            sampling=read_sampling(wire),
            tools=self.calls.tools,
            tool_choice=self.calls.choice,
            parallel_tool_calls=self.calls.parallel,
            max_tokens=None if wire.max_output_tokens is None else min(wire.max_output_tokens, INT32_MAX),
            stop=tuple(wire.stop or ()),
            top_logprobs=top if top or LOGPROBS in self.include else None,
            content=_content(wire.text.format if wire.text is not None else None),
            thinking=None if self.effort != "none" else False,
            effort=self.effort,
            priority=priority_of(wire.priority, wire.service_tier),
        )


def read_response(body: dict[str, Json]) -> ResponseAsked:
    """`body`, checked as far as it goes by itself.

    Raises:
        BadRequest: a field is wrong, contradicts another, or cannot be honoured.
    """
    refuse(body, REFUSED)
    wire = parse(ResponsesWire, body)
    effort = read_effort(wire.reasoning.effort if wire.reasoning is not None else None, "reasoning.effort")
    if body.get("stream_options") and wire.stream is not True:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise BadRequest(message, param="stream_options")
    raw = _raw_items(body["input"])
    new = tuple(Placed(items.parse_item(each, index), f"input[{index}]") for index, each in enumerate(raw))
    kept = tuple(
        items.kept(each, placed.item.type)
        for each, placed in zip(raw, new, strict=True)
        if not isinstance(placed.item, items.ReferenceItem)
    )
    return ResponseAsked(wire, read_flat_tools(wire), new, kept, _include(wire.include or []), effort)


def replayed(stored: Sequence[dict[str, Json]], path: str) -> list[Placed]:
    """Items that were stored before, and are known to be good. A call that was cut is none: nobody ran it."""
    whole = [each for each in stored if not (each["type"].endswith("_call") and each.get("status") == "incomplete")]
    return [Placed(items.parse_item(each, index), path) for index, each in enumerate(whole)]


def _raw_items(given: Json) -> list[dict[str, Json]]:
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    if not isinstance(given, list):
        expected = "expected a string or an array of objects"
        message = f"Invalid type for 'input': {expected}, but got {json_type(given)} instead."
        raise BadRequest(message, param="input", code="invalid_type")
    return given


def _resolved(placed: Placed, found: dict[str, Any]) -> Placed:
    if not isinstance(placed.item, items.ReferenceItem):
        return placed
    if placed.item.id not in found:
        message = f"Item with id {shown(placed.item.id)} not found. Items of responses with store false are not kept; "
        raise BadRequest(message + "send the item itself.", param=f"{placed.path}.id", code="item_not_found")
    return Placed(items.parse_item(found[placed.item.id], 0), placed.path)


def _include(given: list[str]) -> frozenset[str]:
    for index, each in enumerate(given):
        if each not in INCLUDABLE:
            known = ", ".join(repr(name) for name in INCLUDABLE)
            message = f"Invalid value: {shown(each)} for 'include[{index}]'. Supported values are: {known}."
            raise BadRequest(message, param=f"include[{index}]")
    return frozenset(given)


def _content(wire: TextFormat | None) -> ContentFormat | None:
    if wire is None or wire.type == "text":
        return None
    if wire.type == "json_object":
        return ContentFormat("json_object")
    if wire.name is None:
        message = "Missing required parameter: 'text.format.name'."
        raise BadRequest(message, param="text.format.name", code="missing_required_parameter")
    return ContentFormat("json_schema", wire.name, wire.schema_, wire.strict)
