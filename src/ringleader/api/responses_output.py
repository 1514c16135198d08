"""The items of one answer, each with the events of its own life: begun, more, done. Pure.

An item's `body` at its end is what the done event, the final response and the store all hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Protocol

from ringleader.api.ids import new_id
from ringleader.api.openai_answer import Spell, logprobs_body
from ringleader.api.sealed import seal
from ringleader.values import Json, TokenLogprob

Event = dict[str, Json]


class OutputItem(Protocol):
    """One item. Events lack their sequence number and output index, which the answer adds."""

    id: str

    def body(self, status: str) -> dict[str, Json]:
        """The item as it stands."""
        ...

    def begin(self) -> Iterator[Event]:
        """What follows the event that adds it."""
        ...

    def end(self, *, whole: bool) -> Iterator[Event]:
        """What comes before the event that it is done. `whole`: nothing of it is missing."""
        ...


class MessageOutput:
    """Visible text."""

    def __init__(self, spell: Spell) -> None:
        self.id = new_id("msg_")
        self._spell = spell
        self._text: list[str] = []
        self._logprobs: list[Json] = []

    def body(self, status: str) -> dict[str, Json]:
        """With its one part, once it has begun."""
        content = [] if status == "in_progress" else [self._part()]
        return {"id": self.id, "type": "message", "status": status, "content": content, "role": "assistant"}

    def begin(self) -> Iterator[Event]:
        """Its one part is added at once."""
        yield {"type": "response.content_part.added", **self._at(), "part": self._part()}

    def more(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> Iterator[Event]:
        """More of the text."""
        spelled = logprobs_body(logprobs, self._spell)["content"]
        self._text.append(text)
        self._logprobs += spelled
        yield {"type": "response.output_text.delta", **self._at(), "delta": text, "logprobs": spelled}

    def end(self, *, whole: bool) -> Iterator[Event]:
        """Text that was cut is done, too: its status tells."""
        text = "".join(self._text)
        yield {"type": "response.output_text.done", **self._at(), "text": text, "logprobs": self._logprobs}
        yield {"type": "response.content_part.done", **self._at(), "part": self._part()}

    def _at(self) -> dict[str, Json]:
        return {"item_id": self.id, "content_index": 0}

    def _part(self) -> dict[str, Json]:
        text = "".join(self._text)
        return {"type": "output_text", "annotations": [], "logprobs": list(self._logprobs), "text": text}


class ReasoningOutput:
    """Thinking, told as content or as a summary; `sealed` also in a form to be carried back unread."""

    def __init__(self, *, summarised: bool, sealed: bool) -> None:
        self.id = new_id("rs_")
        self._summarised = summarised
        self._sealed = sealed
        self._text: list[str] = []

    def body(self, status: str) -> dict[str, Json]:
        """Without its text while it is in progress."""
        text = "".join(self._text)
        told = [] if status == "in_progress" else [self._part(text)]
        item: dict[str, Json] = {"id": self.id, "type": "reasoning", "summary": told if self._summarised else []}
        if not self._summarised:
            item["content"] = told
        if self._sealed:
            item["encrypted_content"] = seal(text)
        return item if status == "completed" else {**item, "status": status}

    def begin(self) -> Iterator[Event]:
        """A part is added at once."""
        kind = "reasoning_summary_part" if self._summarised else "content_part"
        yield {"type": f"response.{kind}.added", **self._at(), "part": self._part("")}

    def more(self, text: str) -> Iterator[Event]:
        """More of it."""
        self._text.append(text)
        yield {"type": f"response.{self._kind()}.delta", **self._at(), "delta": text}

    def end(self, *, whole: bool) -> Iterator[Event]:
        """Reasoning that was cut is done, too: its status tells."""
        text = "".join(self._text)
        kind = "reasoning_summary_part" if self._summarised else "content_part"
        yield {"type": f"response.{self._kind()}.done", **self._at(), "text": text}
        yield {"type": f"response.{kind}.done", **self._at(), "part": self._part(text)}

    def _kind(self) -> str:
        return "reasoning_summary_text" if self._summarised else "reasoning_text"

    def _part(self, text: str) -> dict[str, Json]:
        return {"type": "summary_text" if self._summarised else "reasoning_text", "text": text}

    def _at(self) -> dict[str, Json]:
        return {"item_id": self.id, ("summary_index" if self._summarised else "content_index"): 0}


class CallOutput:
    """A call of a function, or of a custom tool, whose input is a text."""

    def __init__(self, name: str, *, custom: bool, namespace: str | None = None) -> None:
        self.id = new_id("ctc_" if custom else "fc_")
        self._name = name
        self._namespace = {} if namespace is None else {"namespace": namespace}
        self._call_id = new_id("call_")
        self._custom = custom
        self._pieces: list[str] = []

    def body(self, status: str) -> dict[str, Json]:
        """With what there is of its arguments."""
        text = "" if status == "in_progress" else "".join(self._pieces)
        kind, key = ("custom_tool_call", "input") if self._custom else ("function_call", "arguments")
        return {
            "id": self.id,
            "type": kind,
            "status": status,
            key: text,
            "call_id": self._call_id,
            "name": self._name,
            **self._namespace,
        }

    def begin(self) -> Iterator[Event]:
        """Nothing: its arguments have no part of their own."""
        return iter(())

    def more(self, text: str) -> Iterator[Event]:
        """More of its arguments."""
        self._pieces.append(text)
        yield {"type": f"response.{self._kind()}.delta", "item_id": self.id, "delta": text}

    def end(self, *, whole: bool) -> Iterator[Event]:
        """A call that was cut has no done arguments: a client would run it."""
        if not whole:
            return
        if not self._pieces and not self._custom:
            yield from self.more("{}")
        text = "".join(self._pieces)
        done: Event = {"type": f"response.{self._kind()}.done", "item_id": self.id}
        yield {**done, "input": text} if self._custom else {**done, "name": self._name, "arguments": text}

    def _kind(self) -> str:
        return "custom_tool_call_input" if self._custom else "function_call_arguments"


class ShellOutput:
    """A call of the client's shell: its action is told when it is whole."""

    def __init__(self) -> None:
        self.id = new_id("lsh_")
        self._call_id = new_id("call_")
        self._pieces: list[str] = []

    def body(self, status: str) -> dict[str, Json]:
        """With an empty command until the call is whole."""
        action: dict[str, Json] = {"type": "exec", "command": [], "env": {}}
        if status == "completed":
            action |= _object("".join(self._pieces))
        return {"id": self.id, "type": "local_shell_call", "status": status, "call_id": self._call_id, "action": action}

    def begin(self) -> Iterator[Event]:
        """Nothing."""
        return iter(())

    def more(self, text: str) -> Iterator[Event]:
        """Nothing is told of a command that is not whole."""
        self._pieces.append(text)
        return iter(())

    def end(self, *, whole: bool) -> Iterator[Event]:
        """Nothing beside the item itself."""
        return iter(())


def _object(text: str) -> dict[str, Json]:
    """What a call's arguments say; nothing where a model that nobody held to them wrote no object."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
