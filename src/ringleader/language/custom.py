"""Custom tools: tools that take one text. To a model they are functions of one string parameter, `input`.

A text with a Lark grammar cannot stand inside a JSON string: such a call is written raw, after the dialect's
opening marker, the tool's name and a new line, and goes on to the end of the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from llguidance import LLMatcher

from ringleader.errors import BadRequest
from ringleader.language.outgrowth import CODE, Outgrown
from ringleader.language.schema import DEAD_END, SCHEMA_CHARS_MAX, bytes_view, grammar_text, judge, sentence
from ringleader.values import ArgumentsDelta, CallStarted, CustomGrammar, Delta, Json, Message, Tool, ToolCall

INPUT = "input"
VERDICTS_MAX = 64  # agents send the same tools with every turn


def is_raw(tool: Tool) -> bool:
    """Whether calls of `tool` are written raw."""
    return tool.kind == "custom" and tool.grammar is not None and tool.grammar.syntax == "lark"


def as_function(tool: Tool, opens: str) -> Tool:
    """The function that stands for a custom tool, in the prompt and (unless it is raw) in the grammar.

    `opens` is the text that a raw call begins with ("": the family names the tool in its own way). A function
    stays as it is.
    """
    if tool.kind == "function":
        return tool
    told = [tool.description] if tool.description else []
    value: dict[str, Json] = {"type": "string"}
    if tool.grammar is None:
        told.append("Takes one text.")
    elif tool.grammar.syntax == "regex":
        told.append(f"Takes one text, which matches the regular expression {tool.grammar.definition}")
        value["pattern"] = f"^(?:{_without_anchors(tool.grammar.definition)})$"
    else:
        told.append(
            f"Takes one text, which follows this Lark grammar:\n{tool.grammar.definition}\n"
            + (f"To call it, write {opens}{tool.name}, then a new line, then" if opens else "To call it, write")
            + " the text just as it is, and nothing after it."
        )
    parameters = {"type": "object", "properties": {INPUT: value}, "required": [INPUT], "additionalProperties": False}
    return Tool(tool.name, "\n".join(told), parameters, strict=True, grammar=tool.grammar)


def check_custom(tools: Sequence[Tool]) -> None:
    """See that the grammars of custom tools are ones.

    Raises:
        BadRequest: one is not, or no text follows it; names its place.
    """
    for index, tool in enumerate(tools):
        if tool.kind == "custom" and tool.grammar is not None:
            reason, code = _fault(tool.grammar), None
            if reason == DEAD_END:
                reason, code = str(Outgrown(tool.grammar.definition, "")), CODE
            if reason is not None:
                message = f"Invalid {tool.grammar.syntax} grammar for custom tool '{tool.name}': {reason}"
                raise BadRequest(message, param=f"tools[{index}].custom.format.grammar.definition", code=code)


def as_functions_in(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The history with the custom calls as calls of those functions."""
    return tuple(
        replace(message, tool_calls=tuple(map(_as_function_call, message.tool_calls)))
        if any(call.kind == "custom" for call in message.tool_calls)
        else message
        for message in messages
    )


def _as_function_call(call: ToolCall) -> ToolCall:
    if call.kind == "function":
        return call
    return ToolCall(call.id, call.name, json.dumps({INPUT: call.arguments}, ensure_ascii=False))


class Inputs:
    """Turns the arguments of calls of custom tools, `{"input": "..."}`, into the input itself, as they come.

    `custom` names the tools whose calls are not raw. One for each answer.
    """

    def __init__(self, custom: frozenset[str]) -> None:
        self._custom = custom
        self._readers: dict[int, InputReader] = {}

    def of(self, deltas: Sequence[Delta]) -> list[Delta]:
        """The deltas as the client is to see them. A piece that makes no text yet still names its ids."""
        return [self._one(delta) for delta in deltas] if self._custom else list(deltas)

    def _one(self, delta: Delta) -> Delta:
        if isinstance(delta, CallStarted) and delta.name in self._custom:
            self._readers[delta.index] = InputReader()
        elif isinstance(delta, ArgumentsDelta) and (reader := self._readers.get(delta.index)) is not None:
            return replace(delta, text=reader.push(delta.text))
        return delta


_HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_HEAD_CHARS_MAX = 64
_ESCAPES: Mapping[str, str] = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}


class InputReader:
    """Decodes the string in `{"input": "..."}` a piece at a time, escapes and halves of characters held back.

    Text that is no such object (nothing constrained it) is given as it is.
    """

    def __init__(self) -> None:
        self._head = ""
        self._state = "head"
        self._escape = ""  # an escape, or two halves of one character, not yet whole

    def push(self, text: str) -> str:
        """Take the next piece; gives what of the input became certain."""
        return "".join(map(self._char, text))

    def _char(self, char: str) -> str:
        if self._state == "head":
            return self._begin(char)
        if self._state == "other":
            return char
        if self._state == "end":
            return ""
        if self._escape:
            return self._continue(char)
        if char == "\\":
            self._escape = char
            return ""
        if char == '"':
            self._state = "end"
            return ""
        return char

    def _begin(self, char: str) -> str:
        self._head += char
        if _HEAD.fullmatch(self._head):
            self._state = "string"
        elif len(self._head) > _HEAD_CHARS_MAX:
            self._state = "other"
            return self._head
        return ""

    def _continue(self, char: str) -> str:
        escape = self._escape + char
        if len(escape) == 2 and char != "u":
            self._escape = ""
            return _ESCAPES.get(char, escape)
        half = len(escape) == 6 and 0xD800 <= _code(escape) < 0xDC00
        if len(escape) < 6 or half or (6 < len(escape) < 12 and escape[6:8] == "\\u"[: len(escape) - 6]):
            self._escape = escape
            return ""
        self._escape = ""
        if len(escape) in {6, 12}:
            return _decoded(escape)
        # Half a character with no other half after it: what came instead is read anew.
        return "\ufffd" + "".join(map(self._char, escape[6:]))


def _code(escape: str) -> int:
    try:
        return int(escape[2:6], 16)
    except ValueError:
        return 0


def _decoded(escape: str) -> str:
    try:
        text = json.loads(f'"{escape}"')
    except ValueError:
        return escape
    return "".join("\ufffd" if 0xD800 <= ord(char) < 0xE000 else char for char in str(text))


# ---------------------------------------------------------------- grammars of clients

_QUOTED = re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"|/(?:\\.|[^/\\])+/')  # comments, strings and regexes


def _without_anchors(pattern: str) -> str:
    """The pattern of the whole text: `^` before it and `$` behind it say nothing more."""
    pattern = pattern.removeprefix("^")
    escapes = len(pattern) - 1 - len(pattern[:-1].rstrip("\\"))
    return pattern[:-1] if pattern.endswith("$") and escapes % 2 == 0 else pattern


@lru_cache(maxsize=VERDICTS_MAX)
def _fault(grammar: CustomGrammar) -> str | None:
    if len(grammar.definition) > SCHEMA_CHARS_MAX:
        return f"it has {len(grammar.definition)} characters; the limit is {SCHEMA_CHARS_MAX}."
    if grammar.syntax == "regex":
        parameters = as_function(Tool("f", kind="custom", grammar=grammar), "").parameters
        return judge(grammar_text(parameters or {}, lenient=False)).error
    if "<" in _QUOTED.sub("", grammar.definition):
        return "it names a special token; the input is text."
    text = json.dumps({"grammars": [{"lark_grammar": grammar.definition}]})
    failed, messages = LLMatcher.validate_grammar_with_warnings(text)
    if failed:
        return sentence(str(messages[0]))
    matcher = LLMatcher(bytes_view(), text, log_level=0)
    dead = not any(matcher.compute_bitmask()) or matcher.is_error()
    return "no text follows it." if dead and not matcher.is_accepting() else None
