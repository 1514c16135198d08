"""The items of a conversation to the turns of a `ChatRequest`, and what their order must be.

Items are finer than turns: what a model thought, said and called between two turns of others is one turn here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ringleader.api import responses_items as items
from ringleader.api.sealed import unseal
from ringleader.errors import BadRequest
from ringleader.values import Message, ToolCall, shown

SHELL = "local_shell"
BETWEEN = "\n\n"  # between two messages of one turn


@dataclass(frozen=True, slots=True)
class Placed:
    """An item and where the client wrote it: its path, or that of what it came from."""

    item: Any
    path: str


Naming = Callable[[str, str | None], str]


def read_items(
    placed: Sequence[Placed], instructions: str | None = None, naming: Naming = lambda name, _: name
) -> tuple[Message, ...]:
    """The conversation, `instructions` first. `naming` makes the name that the model knows a tool by, of the tool's own
    name and its namespace.

    Raises:
        BadRequest: a part is no text, reasoning cannot be read, or calls and outputs do not match.
    """
    turns = _Turns(naming)
    if instructions:
        turns.messages.append(Message("system", instructions))
    for each in placed:
        turns.add(each.item, each.path)
    return turns.closed()


@dataclass(slots=True)
class _Turns:
    """The turns so far. `owed` are calls without an output. A turn ends when all its calls have theirs, so that
    `results` follow it; what others say meanwhile is `held`. `done` is what tools did elsewhere before it spoke."""

    naming: Naming
    messages: list[Message] = field(default_factory=list)
    owed: dict[str, str] = field(default_factory=dict)  # call id -> the kind of its output
    cut: dict[str, str] = field(default_factory=dict)  # call id -> where its arguments are, which are no object
    results: list[Message] = field(default_factory=list)
    held: list[Message] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)

    def add(self, item: Any, path: str) -> None:
        match item:
            case items.MessageItem(role="assistant"):
                self._said(items.text_of(item.content, f"{path}.content"))
            case items.MessageItem():
                self._other(item, path)
            case items.ReasoningItem():
                self._thought(item, path)
            case items.HostedItem():
                if item.words:
                    (self.texts or self.done).append(item.words)
            case items.FunctionCallItem():
                if not _is_object(item.arguments):
                    self.cut[item.call_id] = f"{path}.arguments"
                call = ToolCall(item.call_id, self.naming(item.name, item.namespace), item.arguments)
                self._called(call, "function_call_output", path)
            case items.CustomCallItem():
                call = ToolCall(item.call_id, self.naming(item.name, item.namespace), item.input, "custom")
                self._called(call, "custom_tool_call_output", path)
            case items.ShellCallItem():
                action = item.action.model_dump(exclude_none=True, exclude={"type"})
                call = ToolCall(item.call_id, SHELL, json.dumps(action, ensure_ascii=False))
                self._called(call, "local_shell_call_output", path)
            case items.ShellOutputItem():
                self._gave(item.call_id or item.id or "", item, path)
            case _:
                self._gave(item.call_id, item, path)

    def _said(self, text: str) -> None:
        if self.texts and not self.calls and not self.owed:
            self._close()
        self.texts.append(text)

    def _thought(self, item: items.ReasoningItem, path: str) -> None:
        text = _reasoning(item, path)
        if (self.texts or self.calls) and not self.owed:
            self._close()
        if text:
            self.reasoning.append(text)

    def _called(self, call: ToolCall, wants: str, path: str) -> None:
        if call.id in self.owed:
            message = f"Invalid '{path}.call_id': another call of this turn has the id {shown(call.id)} too."
            raise BadRequest(message, param=f"{path}.call_id", code="duplicate_call_id")
        self.calls.append(call)
        self.owed[call.id] = wants

    def _gave(self, call_id: str, item: Any, path: str) -> None:
        if call_id not in self.owed:
            kind = "custom tool" if item.type.startswith("custom") else "function"
            message = f"No tool call found for {kind} call output with call_id {shown(call_id)}. "
            advice = "Send the call before its output, or name the response that made it in previous_response_id."
            raise BadRequest(message + advice, param=f"{path}.call_id")
        if item.type != self.owed[call_id]:
            message = f"Invalid '{path}.type': the output of the call {shown(call_id)} is a {self.owed[call_id]!r}."
            raise BadRequest(message, param=f"{path}.type")
        del self.owed[call_id]
        self.results.append(Message("tool", items.text_of(item.output, f"{path}.output"), tool_call_id=call_id))
        if not self.owed:
            self._close()
            self.messages += [*self.results, *self.held]
            self.results, self.held = [], []

    def _other(self, item: items.MessageItem, path: str) -> None:
        role = "user" if item.role == "user" else "system"
        message = Message(role, items.text_of(item.content, f"{path}.content"))  # type: ignore[arg-type] # one of two
        if self.owed:
            self.held.append(message)
        else:
            self._close()
            self.messages.append(message)

    def _close(self) -> None:
        """End the model's turn, if one is open."""
        if self.reasoning or self.done or self.texts or self.calls:
            text, thought = BETWEEN.join([*self.done, *self.texts]), BETWEEN.join(self.reasoning)
            turn = Message("assistant", text or None, reasoning=thought or None, tool_calls=tuple(self.calls))
            self.messages.append(turn)
        self.reasoning, self.done, self.texts, self.calls = [], [], [], []

    def closed(self) -> tuple[Message, ...]:
        """All turns, once everything was added."""
        if self.owed:
            listed = ", ".join(list(self.owed)[:8])
            kind = "custom tool" if next(iter(self.owed.values())).startswith("custom") else "function"
            message = f"No tool output found for {kind} call {listed}. Send what each call gave, in an item of its own."
            cut = ", ".join([f"'{self.cut[each]}'" for each in self.owed if each in self.cut][:8])
            hint = f" {cut} is not the JSON of an object: leave a call out that was cut off." if cut else ""
            raise BadRequest(message + hint, param="input")
        self._close()
        return tuple(self.messages)


def _is_object(arguments: str) -> bool:
    """Whether they can be a call's arguments; a call without any has them so too."""
    try:
        return not arguments.strip() or isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _reasoning(item: items.ReasoningItem, path: str) -> str:
    if item.content:
        return "".join(piece.text for piece in item.content)
    if item.encrypted_content:
        text = unseal(item.encrypted_content)
        if text is not None:
            return text
        if not item.summary:
            message = (
                f"Invalid '{path}.encrypted_content': it was not made here and cannot be read. Leave this item out."
            )
            raise BadRequest(message, param=f"{path}.encrypted_content", code="invalid_encrypted_content")
    return BETWEEN.join(piece.text for piece in item.summary or ())
