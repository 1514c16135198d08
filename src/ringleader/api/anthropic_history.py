"""Anthropic's system prompt and messages to the turns of a `ChatRequest`, and what a history must be.

A user turn carries results, then words: here each result is a turn of its own, before the words.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import takewhile

from ringleader.api.anthropic_wire import AnthropicMessageWire, BlockWire, DocumentWire, parse, wrong
from ringleader.api.body import json_type
from ringleader.errors import BadRequest
from ringleader.values import Message, ToolCall, shown

# Claude Code's first system block, for a proxy's books: it changes with each request, and no model should read it.
BILLING = "x-anthropic-billing-header:"
BETWEEN = "\n\n"  # between blocks of one turn: each is a paragraph of its own
ERROR = "Error: "
# What Anthropic's own models read as text or as nothing, and we cannot.
_UNREAD = {"image", "container_upload", "server_tool_use", "mcp_tool_use", "mcp_tool_result", "fallback"}


def read_history(system: list[BlockWire] | None, wires: list[AnthropicMessageWire]) -> tuple[Message, ...]:
    """The conversation so far.

    Raises:
        BadRequest: a block is of a kind that is not read here, or calls and results do not match.
    """
    if all(wire.role == "system" for wire in wires):
        raise wrong("messages", "at least one message that is not a system message is required.")
    messages = _system(system)
    index = 0
    open_calls: tuple[ToolCall, ...] = ()
    while index < len(wires):
        wire, path = wires[index], f"messages.{index}"
        if wire.role == "user":
            run = list(takewhile(lambda each: each.role == "user", wires[index:]))
            messages += _user_run(run, index, open_calls)
            open_calls, index = (), index + len(run)
            continue
        if wire.role == "assistant":
            _check_answered(open_calls, (), index)
            messages.append(_assistant(wire, path))
            open_calls = messages[-1].tool_calls
        else:
            messages += [Message("system", text) for text in (_joined(wire.content, f"{path}.content"),) if text]
        index += 1
    _check_answered(open_calls, (), len(wires))
    if wires[-1].role == "assistant":
        why = "the conversation must end with a user message: an answer that has begun is not gone on with"
        raise wrong("messages", f"{why}. Ask for a form with output_config.format, or leave the last message out.")
    return _systems_after_results(messages)


def _system(blocks: list[BlockWire] | None) -> list[Message]:
    kept = [block for block in blocks or [] if not (block.text or "").startswith(BILLING)]
    text = _joined(kept, "system")
    return [Message("system", text)] if text else []


def _systems_after_results(messages: list[Message]) -> tuple[Message, ...]:
    """A system turn between calls and their results waits until after them: they belong together."""
    placed: list[Message] = []
    waiting: list[Message] = []
    in_loop = False
    for message in messages:
        if message.role == "system" and in_loop:
            waiting.append(message)
            continue
        if message.role != "tool" and waiting:
            placed, waiting = [*placed, *waiting], []
        placed.append(message)
        in_loop = message.role == "tool" or bool(message.tool_calls)
    return (*placed, *waiting)


# ---------------------------------------------------------------- a user's turns, and an assistant's


def _user_run(run: Sequence[AnthropicMessageWire], first: int, open_calls: tuple[ToolCall, ...]) -> list[Message]:
    """Turns of the user in a row are one to the API, so all of them may hold results."""
    names = {call.id: call.name for call in open_calls}
    results: list[Message] = []
    words: list[Message] = []
    for offset, wire in enumerate(run):
        path = f"messages.{first + offset}.content"
        said: list[str] = []
        for n, block in enumerate(wire.content):
            if block.type == "tool_result":
                results.append(_result(block, f"{path}.{n}", names))
            else:
                _check_says(block, f"{path}.{n}")
                said.append(_text(block, f"{path}.{n}"))
        if not wire.content:
            raise wrong(path, "user messages must have non-empty content")
        if said:
            words.append(Message("user", BETWEEN.join(filter(None, said))))
    _check_answered(open_calls, tuple(result.tool_call_id for result in results), first)
    return [*results, *words]


def _check_says(block: BlockWire, path: str) -> None:
    """Refused as by Anthropic, but in what a user says only: an assistant's empty text beside its calls, and a tool's
    empty result, come in histories that clients keep (Claude Code's, when it goes on with an older one), and nothing
    is lost with them."""
    if block.type == "text" and block.text is not None and not block.text.strip():
        what = "contain non-whitespace text" if block.text else "be non-empty"
        raise wrong(f"{path}.text", f"text content blocks must {what}")


def _result(block: BlockWire, path: str, names: dict[str, str]) -> Message:
    if block.tool_use_id is None:
        raise wrong(f"{path}.tool_use_id", "Field required")
    name = names.pop(block.tool_use_id, None)
    if name is None:
        raise wrong(
            path,
            f"unexpected `tool_use_id` found in `tool_result` blocks: {block.tool_use_id[:64]}. Each `tool_result` "
            "block must have a corresponding `tool_use` block in the previous message.",
        )
    text = _joined(block.content or [], f"{path}.content")
    if block.is_error and not text.lstrip().lower().startswith(("error", "<tool_use_error>")):
        text = f"{ERROR}{text}"  # a model that is not told of a failure takes the call for done
    return Message("tool", text, tool_call_id=block.tool_use_id, name=name)


def _check_answered(calls: tuple[ToolCall, ...], answered: tuple[str | None, ...], index: int) -> None:
    left = [call.id for call in calls if call.id not in answered]
    if left:
        raise wrong(
            f"messages.{index - 1}",
            "`tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(each[:64] for each in left[:8])}. Each `tool_use` block must have a corresponding "
            "`tool_result` block in the next message.",
        )


def _assistant(wire: AnthropicMessageWire, path: str) -> Message:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    for n, block in enumerate(wire.content):
        where = f"{path}.content.{n}"
        if block.type == "tool_use":
            calls.append(_call(block, where, {call.id for call in calls}))
        elif block.type == "thinking":
            if block.thinking is None:
                raise wrong(f"{where}.thinking", "Field required")
            thoughts.append(block.thinking)
        elif block.type != "redacted_thinking":  # which nobody here can read
            texts.append(_text(block, where))
    return Message("assistant", "".join(texts), BETWEEN.join(filter(None, thoughts)) or None, tuple(calls))


def _call(block: BlockWire, path: str, known: set[str]) -> ToolCall:
    for field in ("id", "name", "input"):
        if getattr(block, field) is None:
            raise wrong(f"{path}.{field}", "Field required")
    assert block.id is not None
    assert block.name is not None
    if block.id in known:
        raise wrong(f"{path}.id", f"`tool_use` ids must be unique: {block.id[:64]} is there twice")
    return ToolCall(block.id, block.name, json.dumps(block.input, ensure_ascii=False))


# ---------------------------------------------------------------- blocks


def _joined(blocks: Sequence[BlockWire], path: str) -> str:
    texts = [_text(block, f"{path}.{n}") for n, block in enumerate(blocks)]
    return BETWEEN.join(filter(None, texts))


def _text(block: BlockWire, path: str) -> str:
    """What a block says."""
    match block.type:
        case "text":
            if block.text is None:
                raise wrong(f"{path}.text", "Field required")
            return block.text
        case "document":
            return _document(block, path)
        case "search_result":
            return _search_result(block, path)
        case "compaction":  # a summary of what came before
            return _joined(block.content or [], f"{path}.content")
        case "tool_reference":
            return f"Tool found: {block.tool_name or ''}"
        case _:
            raise _unread(block.type, path)


def _search_result(block: BlockWire, path: str) -> str:
    for field in ("source", "title", "content"):
        if getattr(block, field) is None:
            raise wrong(f"{path}.{field}", "Field required")
    if not isinstance(block.source, str):
        raise wrong(f"{path}.source", f"Input should be a string, but is {json_type(block.source)}")
    if not (text := _joined(block.content or [], f"{path}.content")):
        raise wrong(f"{path}.content", "at least one text block that is not empty is required")
    head = " ".join(filter(None, (block.title, f"({block.source})" if block.source else "")))
    return "\n".join(filter(None, (head, text)))


def _document(block: BlockWire, path: str) -> str:
    """A document that is text already; a PDF would have to be read by somebody."""
    source = block.source if isinstance(block.source, dict) else {}
    if source.get("type") == "content":
        parts = parse(DocumentWire, source, f"{path}.source").content
        return "\n".join(filter(None, (block.title, block.context, _joined(parts, f"{path}.source.content"))))
    if source.get("type") != "text" or not isinstance(source.get("data"), str):
        kind = shown(source["type"]) if "type" in source else "nothing"
        why = f"documents are read where their source is text, and this is {kind}. Send its text"
        raise BadRequest(f"{path}.source: {why}.", param=f"{path}.source", code="unsupported_value")
    return "\n".join(filter(None, (block.title, block.context, str(source["data"]))))


def _unread(kind: str, path: str) -> BadRequest:
    named = shown(kind)
    if kind == "image":
        why = "images are not supported: only text is read here. Describe the image, or leave it out."
    elif kind in _UNREAD or kind.endswith("_tool_result"):
        why = f"{named} blocks are not supported: they tell of tools that run on Anthropic's servers. Leave it out."
    elif kind in ("tool_use", "thinking", "redacted_thinking", "tool_result"):
        role = "user" if kind == "tool_result" else "assistant"
        why = f"{named} blocks stand in the content of {role} messages only."
    else:
        why = f"{named} is not a block that is known here. Use text, tool_use, tool_result or thinking."
    return BadRequest(f"{path}.type: {why}", param=f"{path}.type", code="unsupported_value")
