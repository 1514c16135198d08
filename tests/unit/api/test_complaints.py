"""What a client is told of a wrong field: where it wrote it, and what may stand there; nothing of our models."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from ringleader.api.anthropic_read import read_count, read_messages
from ringleader.api.anthropic_wire import CountWire, MessagesWire
from ringleader.api.completions_read import CompletionWire, read_completion
from ringleader.api.error_forms import ANTHROPIC, OLLAMA, OPENAI, Form
from ringleader.api.fault_table import fault_of
from ringleader.api.ollama_read import read_chat as read_ollama_chat
from ringleader.api.ollama_read import read_generate
from ringleader.api.ollama_wire import GenerateWire, OllamaChatWire, PullWire
from ringleader.api.openai_read import read_chat
from ringleader.api.openai_wire import ChatWire
from ringleader.api.responses_read import read_response
from ringleader.api.responses_wire import ResponsesWire
from ringleader.api.tokens import DetokenizeWire, TokenizeWire
from ringleader.api.validation import Wire, parse
from ringleader.errors import CallerFault
from tests.api.scripted import body as chat_body
from tests.unit.api.test_anthropic_read import body as anthropic_body
from tests.unit.api.test_anthropic_read import user
from tests.unit.api.test_door_fuzz import VALID, mutate, places
from tests.unit.api.test_doors_fuzz import CHAT, GENERATE, MESSAGES
from tests.unit.api.test_responses_fuzz import COMPLETION, RESPONSE

Read = Callable[[dict[str, Any]], Any]
PROMPTS = "a string, an array of integers, an array of strings or an array of arrays of integers"
IDS_OR_TEXT = "an integer, a string or an array of integers"
TEXT_OR_PARTS = "a string or an array of objects"
USER = {"role": "user", "content": "hi"}


def completion(prompt: Any) -> dict[str, Any]:
    return {"model": "m", "prompt": prompt}


def ollama(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [USER], **fields}


def parts(content: Any) -> dict[str, Any]:
    return chat_body(messages=[{"role": "user", "content": content}])


@pytest.mark.parametrize(
    ("read", "raw", "told"),
    [
        # A union at the top, with branches inside of a branch.
        (read_completion, completion(None), f"Invalid type for 'prompt': expected {PROMPTS}, but got null instead."),
        (read_completion, completion(5), f"Invalid type for 'prompt': expected {PROMPTS}, but got an integer instead."),
        (read_completion, completion({}), f"Invalid type for 'prompt': expected {PROMPTS}, but got an object instead."),
        (read_completion, completion([]), "Invalid 'prompt': array too short. Expected at least 1."),
        (
            read_completion,
            completion([{}]),
            f"Invalid type for 'prompt[0]': expected {IDS_OR_TEXT}, but got an object instead.",
        ),
        (
            read_completion,
            completion([{"str": []}]),
            f"Invalid type for 'prompt[0]': expected {IDS_OR_TEXT}, but got an object instead.",
        ),
        (read_completion, completion([[]]), "Invalid 'prompt[0]': array too short. Expected at least 1."),
        (
            read_completion,
            completion([[1, "x"]]),
            "Invalid type for 'prompt[0][1]': expected an integer, but got a string instead.",
        ),
        (
            read_completion,
            completion([1, "x"]),
            "Invalid type for 'prompt[1]': expected an integer, but got a string instead.",
        ),
        # Fields that are read from more than their model says.
        (
            read_completion,
            {**completion("x"), "stop": 5},
            "Invalid type for 'stop': expected a string or an array of up to 4 strings, but got an integer instead.",
        ),
        (read_completion, {**completion("x"), "stop": ""}, "Invalid 'stop': string too short. Expected at least 1."),
        (
            read_chat,
            parts(True),
            f"Invalid type for 'messages[0].content': expected {TEXT_OR_PARTS}, but got a boolean instead.",
        ),
        (read_chat, parts([{}]), "Missing required parameter: 'messages[0].content[0].type'."),
        (
            read_chat,
            parts(["x"]),
            "Invalid type for 'messages[0].content[0]': expected an object, but got a string instead.",
        ),
        (
            read_chat,
            chat_body(logit_bias={"messages": None}),
            "Invalid type for 'logit_bias.messages': expected a number, but got null instead.",
        ),
        (
            read_chat,
            chat_body(prediction={"type": "content", "content": {}}),
            f"Invalid type for 'prediction.content': expected {TEXT_OR_PARTS}, but got an object instead.",
        ),
        # Values, as JSON has them.
        (
            read_chat,
            chat_body(tools=[{"type": True}]),
            "Invalid value: true for 'tools[0].type'. Supported values are: 'function' or 'custom'.",
        ),
        (
            read_chat,
            chat_body(n=0),
            "Invalid 'n': expected a value >= 1, but got 0 instead.",
        ),
        # The same in Anthropic's words.
        (
            read_messages,
            anthropic_body(user()) | {"messages": [{"role": "user", "content": 5}]},
            "messages.0.content: Input should be a string or an array of objects, but is an integer",
        ),
        (
            read_messages,
            anthropic_body(system=5),
            "system: Input should be a string or an array of objects, but is an integer",
        ),
        (read_messages, anthropic_body("x"), "messages.0: Input should be an object, but is a string"),
        (
            read_messages,
            anthropic_body({"role": "user", "content": {"text": "one block, not in an array"}}),
            "messages.0.content.type: Field required",
        ),
        (
            read_messages,
            anthropic_body({"role": "user", "content": {"type": 5}}),
            "messages.0.content.type: Input should be a string, but is an integer",
        ),
        (read_messages, anthropic_body(thinking="on"), "thinking: Input should be an object, but is a string"),
        (
            read_messages,
            anthropic_body(user({"type": "document", "source": {"type": "content", "content": 5}})),
            f"messages.0.content.0.source.content: Input should be {TEXT_OR_PARTS}, but is an integer",
        ),
        # And in Ollama's.
        (read_ollama_chat, ollama(format=5), "Invalid 'format': expected 'json' or a JSON schema, but got 5 instead."),
        (
            read_ollama_chat,
            ollama(think="very"),
            "Invalid 'think': expected true, false or one of low, medium, high, max, but got 'very' instead.",
        ),
        (
            read_ollama_chat,
            ollama(options={"stop": [None]}),
            "Invalid type for 'options.stop[0]': expected a string, but got null instead.",
        ),
    ],
)
def test_a_field_is_named_with_all_that_may_stand_there(read: Read, raw: dict[str, Any], told: str) -> None:
    with pytest.raises(CallerFault) as caught:
        read(raw)
    assert str(caught.value) == told
    assert caught.value.param
    assert caught.value.param in told


# ---------------------------------------------------------------- all doors, all places


def reads(wire: type[Wire]) -> Read:
    return lambda raw: parse(wire, raw)


NAMED: dict[str, Any] = {"model": "m", "name": "m", "stream": True, "verbose": True}
TEXT: dict[str, Any] = {"model": "m", "prompt": "x", "messages": [USER], "tools": []}
DOORS: dict[str, tuple[Read, type[Wire], dict[str, Any], Form]] = {
    "chat": (read_chat, ChatWire, VALID, OPENAI),
    "completions": (read_completion, CompletionWire, COMPLETION, OPENAI),
    "responses": (read_response, ResponsesWire, RESPONSE, OPENAI),
    "tokenize": (reads(TokenizeWire), TokenizeWire, TEXT, OPENAI),
    "detokenize": (reads(DetokenizeWire), DetokenizeWire, {"model": "m", "tokens": [1]}, OPENAI),
    "messages": (read_messages, MessagesWire, MESSAGES, ANTHROPIC),
    "count": (read_count, CountWire, MESSAGES, ANTHROPIC),
    "ollama chat": (read_ollama_chat, OllamaChatWire, CHAT, OLLAMA),
    "ollama generate": (read_generate, GenerateWire, GENERATE, OLLAMA),
    "ollama pull": (reads(PullWire), PullWire, NAMED, OLLAMA),
}
WRONG: tuple[Any, ...] = (None, -1, True, {}, [], "x", "", [None], {"x": None}, [[]])
PYTHON = re.compile(
    r"\b(None|True|False)\b|Value error|valid (list|dictionary|string)|\.(str|int|list)\b|list\[|\.\[|\w\("
)


def classes(wire: type[Wire] = Wire) -> Iterator[str]:
    for each in wire.__subclasses__():
        yield each.__name__
        yield from classes(each)


CLASSES = re.compile(rf"\b({'|'.join(sorted(set(classes())))})\b")


def wrongs(wire: type[Wire], valid: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The valid body with each wrong value at each of its places, and in each field that it leaves out."""
    there = [path for path in places(valid) if path]
    for path in there:
        made = copy.deepcopy(valid)
        mutate(made, path, "delete", None)
        yield made
    for path in (*there, *((name,) for name in wire.model_fields if name not in valid)):
        for value in WRONG:
            made = copy.deepcopy(valid)
            mutate(made, path, "replace", value)
            yield made


@pytest.mark.parametrize("door", DOORS)
def test_no_door_tells_of_python_or_of_our_models(door: str) -> None:
    read, wire, valid, form = DOORS[door]
    refused = 0
    for raw in wrongs(wire, valid):
        try:
            read(raw)
        except CallerFault as error:
            refused += 1
            fault = fault_of(error, "req_1")
            told = form.body(fault, "req_1")["error"]
            text = told if isinstance(told, str) else told["message"]
            assert not PYTHON.search(text), text
            assert not CLASSES.search(text), text
            assert fault.param, text
            assert not PYTHON.search(fault.param), fault.param
    assert refused > len(WRONG)


@pytest.mark.parametrize(
    ("wire", "raw"),
    [
        (DetokenizeWire, {"tokens": ["x", "x"]}),
        (CompletionWire, {"prompt": [1, "x", "x"]}),
        (MessagesWire, {"max_tokens": 1, "messages": [{"role": "user", "content": ["x", "x"]}]}),
        (MessagesWire, {"max_tokens": 1, "messages": ["x", "x"]}),
    ],
)
def test_of_an_array_only_the_first_wrong_entry_is_looked_at(wire: type[Wire], raw: dict[str, Any]) -> None:
    """A body has room for millions."""
    with pytest.raises(ValidationError) as caught:
        wire.model_validate({"model": "m", **raw})
    places = [error["loc"] for error in caught.value.errors() if error["loc"][-1] != "str"]
    assert len(places) == 1
