"""Holds a detected dialect against the chat template itself: is a call read as the template writes it?

A wrong guess shows here whatever the evidence was. Not a reason to refuse a model: its calls are enforced by
our grammar in any case.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import takewhile

from ringleader.errors import BadRequest
from ringleader.language.dialects.dialect import Dialect
from ringleader.language.stream import StreamParser
from ringleader.language.template import render
from ringleader.language.tool_choice import ToolChoice, normalise
from ringleader.language.traits import PROBE_DAY, probe
from ringleader.tokenizer import Tokenizer
from ringleader.values import ArgumentsDelta, CallEnded, CallStarted, Json, Message, Tool, ToolCall

ARGUMENTS: Json = {"city": "New York", "days": 3}
TOOL = Tool(
    "get_weather",
    "The weather.",
    {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
)
QUESTION = Message("user", "How is the weather?")
PROMPT_ENDS = ("\n", ">", "]", "assistant")  # of what stands before an answer
CALL_ID = "call00000"  # in a shape that all templates take


def reads_back(tokenizer: Tokenizer, dialect: Dialect) -> bool | None:
    """Whether `dialect` reads a call as this model's template writes it; None where the template writes none."""
    template = tokenizer.chat_template
    if template is None or not probe(template, tokenizer.bos_token, tokenizer.eos_token).calls:
        return None
    choice = normalise("auto", (TOOL,), True)
    return any(
        _read(tokenizer, dialect, choice, prompt, answer) for prompt, answer in _written(tokenizer, template, dialect)
    )


def _written(tokenizer: Tokenizer, template: str, dialect: Dialect) -> Iterator[tuple[str, str]]:
    """The prompt and the answer in the text of a history. Where one ends and the other begins is not marked in
    it, so there are several ways to part them, likelier ones first."""
    question = _rendered(tokenizer, template, dialect, (QUESTION,), prompted=True)
    call = ToolCall(CALL_ID, TOOL.name, json.dumps(ARGUMENTS))
    answer = Message("assistant", tool_calls=(call,))
    result = Message("tool", "rain", tool_call_id=CALL_ID)
    for history in ((QUESTION, answer), (QUESTION, answer, result)):
        whole = _rendered(tokenizer, template, dialect, history, prompted=False)
        if question is None or whole is None:
            continue
        least = whole.find(QUESTION.content or "")
        same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(question, whole, strict=False))))
        for end in dict.fromkeys((same, *(whole.rfind(mark, 0, same) + len(mark) for mark in PROMPT_ENDS))):
            if end > least:
                yield whole[:end], whole[end:]


def _rendered(
    tokenizer: Tokenizer, template: str, dialect: Dialect, messages: tuple[Message, ...], *, prompted: bool
) -> str | None:
    try:
        return render(
            template,
            messages,
            (TOOL,),
            bos_token=tokenizer.bos_token,
            eos_token=tokenizer.eos_token,
            add_generation_prompt=prompted,
            today=PROBE_DAY,
            history=dialect.history,
        )
    except BadRequest:
        return None


def _read(tokenizer: Tokenizer, dialect: Dialect, choice: ToolChoice, prompt: str, answer: str) -> bool:
    thinking = dialect.thinking
    begun = thinking is not None and prompt.rstrip().endswith(thinking.open.text.rstrip())
    reader = StreamParser(
        dialect, tokenizer, choice, (), begun, constrained=False, schemas={TOOL.name: TOOL.parameters or {}}
    )
    deltas = [*reader.feed(tokenizer.encode(answer)), *reader.finish("stop")]
    names = [delta.name for delta in deltas if isinstance(delta, CallStarted)]
    text = "".join(delta.text for delta in deltas if isinstance(delta, ArgumentsDelta))
    whole = any(isinstance(delta, CallEnded) for delta in deltas)
    return whole and names == [TOOL.name] and json.loads(text) == ARGUMENTS
