"""Chat Completions' messages to the turns of a `ChatRequest`, and what a history must be.

Turns of the older functions interface become calls and results like any other; their ids are made here.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

from ringleader.api.openai_wire import MessageWire, PartWire, ToolCallWire
from ringleader.errors import BadRequest
from ringleader.values import Message, ToolCall, shown

_ROLES: dict[str, Literal["system", "user", "assistant", "tool"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}


def read_history(wires: list[MessageWire]) -> tuple[Message, ...]:
    """The conversation so far.

    Raises:
        BadRequest: a turn lacks what its role wants, or calls and results do not match.
    """
    messages = tuple(_message(wires, index) for index in range(len(wires)))
    _check_results(messages)
    return messages


def missing(path: str, why: str = "") -> BadRequest:
    """The error for a field that is not there."""
    return BadRequest(f"Missing required parameter: '{path}'{why}.", param=path, code="missing_required_parameter")


def _message(wires: list[MessageWire], index: int) -> Message:
    wire, path = wires[index], f"messages[{index}]"
    _check_fields(wire, path)
    calls = [_call(call, f"{path}.tool_calls[{n}]") for n, call in enumerate(wire.tool_calls or [])]
    if wire.function_call is not None:
        calls.append(ToolCall(_function_id(index), wire.function_call.name, wire.function_call.arguments or ""))
    answered = None
    if wire.role == "tool":
        answered = wire.tool_call_id
    elif wire.role == "function":
        answered = _answered_function(wires, index, path)
    return Message(
        role=_ROLES[wire.role],
        content=text_of(wire.content, f"{path}.content") if wire.content is not None else wire.refusal,
        reasoning=wire.reasoning_content if wire.reasoning_content is not None else wire.reasoning,
        tool_calls=tuple(calls),
        tool_call_id=answered,
        name=wire.name,
    )


def _check_fields(wire: MessageWire, path: str) -> None:
    if wire.audio is not None:
        raise BadRequest(
            f"'{path}.audio' is not supported: only text is.", param=f"{path}.audio", code="unsupported_value"
        )
    if wire.role in ("system", "developer", "user") and wire.content is None:
        raise missing(f"{path}.content", f" (a {_ROLES[wire.role]} message must say something)")
    if wire.role == "tool" and wire.tool_call_id is None:
        raise missing(f"{path}.tool_call_id")
    if wire.role == "function" and wire.name is None:
        raise missing(f"{path}.name", " (the function that this is the result of)")
    for field in ("tool_calls", "function_call"):
        if wire.role != "assistant" and getattr(wire, field):
            raise BadRequest(f"Invalid '{path}.{field}': only assistant messages make calls.", param=f"{path}.{field}")
    if wire.tool_calls and wire.function_call is not None:
        message = f"Invalid '{path}.function_call': a message has either 'tool_calls' or a 'function_call', not both."
        raise BadRequest(message, param=f"{path}.function_call")


def _function_id(index: int) -> str:
    """The id of the call in message `index`: nine letters and digits, which every chat template takes."""
    return f"fn{index:07d}"


def _answered_function(wires: list[MessageWire], index: int, path: str) -> str:
    called = wires[index - 1].function_call if index else None
    if called is None:
        message = "messages with role 'function' must follow the message with the 'function_call' that they answer"
        raise BadRequest(f"Invalid '{path}.role': {message}.", param=f"{path}.role")
    if called.name != wires[index].name:
        message = f"Invalid '{path}.name': the 'function_call' before it is one of {shown(called.name)}."
        raise BadRequest(message, param=f"{path}.name")
    return _function_id(index - 1)


def text_of(parts: list[PartWire], path: str) -> str:
    """The parts joined with nothing between, as chat templates join them. Raises BadRequest for any but text parts."""
    texts = []
    for index, part in enumerate(parts):
        where = f"{path}[{index}]"
        if part.type not in ("text", "refusal"):
            message = f"'{where}.type' {shown(part.type)} is not supported: only text parts are."
            raise BadRequest(message, param=f"{where}.type", code="unsupported_value")
        text = part.text if part.type == "text" else part.refusal
        if text is None:
            raise missing(f"{where}.{part.type}")
        texts.append(text)
    return "".join(texts)


def _call(wire: ToolCallWire, path: str) -> ToolCall:
    if wire.type == "custom":
        if wire.custom is None:
            raise missing(f"{path}.custom")
        return ToolCall(wire.id, wire.custom.name, wire.custom.input or "", "custom")
    if wire.function is None:
        raise missing(f"{path}.function")
    return ToolCall(wire.id, wire.function.name, wire.function.arguments or "")


def _check_results(messages: tuple[Message, ...]) -> None:
    """Each run of tool messages answers the calls of the assistant turn before it, all of them, in any order."""
    owed: Counter[str] = Counter()
    for index, message in enumerate(messages):
        path = f"messages[{index}].role"
        if message.role == "tool":
            assert message.tool_call_id is not None  # checked when the message was read
            if owed[message.tool_call_id] < 1:
                text = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
                named = f"{shown(message.tool_call_id)} is no open call of the assistant message before it"
                raise BadRequest(f"Invalid parameter: {text}; {named}.", param=path)
            owed[message.tool_call_id] -= 1
        else:
            _check_paid(owed, path)
            owed = Counter(call.id for call in message.tool_calls)
    _check_paid(owed, f"messages[{len(messages) - 1}].role")


def _check_paid(owed: Counter[str], path: str) -> None:
    unpaid = sorted(owed.elements())
    if unpaid:
        text = (
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"
        )
        listed = ", ".join(shown(call) for call in unpaid[:8])
        raise BadRequest(f"{text}. The following tool_call_ids did not have response messages: {listed}", param=path)
