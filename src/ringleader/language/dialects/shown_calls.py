"""How a model's own chat template writes calls: what a dialect takes from it, such as the whitespace between tags."""

from __future__ import annotations

import json

from ringleader.errors import BadRequest
from ringleader.language.template import render
from ringleader.language.traits import PROBE_DAY
from ringleader.tokenizer import Tokenizer
from ringleader.values import Message, Tool, ToolCall

NAME, FIRST, SECOND = "nameprobe", "firstprobe", "secondprobe"


def two_calls(tokenizer: Tokenizer) -> str:
    """A conversation in which NAME is called twice at once, each time with the arguments FIRST and SECOND, whose
    values are their names. "" where the template refuses that; it need not show the calls."""
    keys = (FIRST, SECOND)
    arguments = json.dumps({key: key for key in keys})
    calls = tuple(ToolCall(f"call{n:05d}", NAME, arguments) for n in range(2))
    turns = [
        Message("user", "?"),
        Message("assistant", "", tool_calls=calls),
        *(Message("tool", "!", tool_call_id=call.id, name=NAME) for call in calls),
    ]
    tool = Tool(NAME, "", {"type": "object", "properties": {key: {"type": "string"} for key in keys}})
    try:
        return render(
            tokenizer.chat_template,
            turns,
            [tool],
            bos_token=tokenizer.bos_token,
            eos_token=tokenizer.eos_token,
            today=PROBE_DAY,
        )
    except BadRequest:
        return ""
