"""Ollama's bodies to requests, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ringleader.api.ollama_read import TEMPERATURE, TOP_K, TOP_P, Asked, read_chat, read_generate
from ringleader.errors import BadRequest
from ringleader.values import ChatRequest, ContentFormat, Json, Message, Tool, ToolCall
from tests.api.scripted import MODEL, WEATHER

USER: Json = {"role": "user", "content": "hi"}


def chat(*messages: Json, **fields: Json) -> dict[str, Json]:
    return {"model": MODEL, "messages": list(messages) or [USER], **fields}


def request(*messages: Json, **fields: Json) -> ChatRequest:
    made = read_chat(chat(*messages, **fields)).request
    assert made is not None
    return made


def calling(*calls: Json) -> Json:
    return {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": list(calls)}


def call(name: str, arguments: Json = None, **fields: Json) -> Json:
    return {"function": {"name": name, "arguments": arguments if arguments is not None else {}}, **fields}


def test_a_plain_request_has_ollamas_defaults_and_streams() -> None:
    asked = read_chat(chat())
    made = request()
    assert (asked.stream, asked.thinking, asked.model, asked.name) == (True, True, MODEL, MODEL)
    assert made.messages == (Message("user", "hi"),)
    assert (made.sampling.temperature, made.sampling.top_k, made.sampling.top_p) == (TEMPERATURE, TOP_K, TOP_P)
    assert (made.max_tokens, made.stop, made.content, made.thinking) == (None, (), None, None)


def test_a_name_may_have_the_tag_that_clients_add() -> None:
    asked = read_chat({**chat(), "model": f"{MODEL}:latest", "stream": False})
    assert (asked.model, asked.name, asked.stream) == (MODEL, f"{MODEL}:latest", False)


def test_options_become_settings() -> None:
    options = {
        "temperature": 0,
        "top_k": -1,
        "top_p": 0,
        "min_p": 0.1,
        "repeat_penalty": 1.1,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.25,
        "seed": 7,
        "num_predict": 9,
        "stop": "END",
        "num_ctx": 100,
        "num_gpu": 3,
        "mirostat": 0,
        "unheard_of": True,
    }
    made = request(options=options, keep_alive="5m")
    s = made.sampling
    assert (s.seed, s.temperature, s.top_k, s.top_p, s.min_p) == (7, 0, 0, 1.0, 0.1)
    assert (s.repetition_penalty, s.presence_penalty, s.frequency_penalty) == (1.1, 0.5, 0.25)
    assert (made.max_tokens, made.stop) == (9, ("END",))
    assert read_chat(chat(options=options)).context == 100


@pytest.mark.parametrize("count", [-1, -2, 0, None])
def test_no_number_of_tokens_means_no_limit(count: Json) -> None:
    assert request(options={"num_predict": count}).max_tokens is None


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("json", ContentFormat("json_object")),
        ({"type": "object"}, ContentFormat("json_schema", "format", {"type": "object"}, strict=False)),
        ("", None),
        (None, None),
        ({}, None),
    ],
)
def test_a_format_is_read(form: Json, content: ContentFormat | None) -> None:
    assert request(format=form).content == content


@pytest.mark.parametrize(
    ("think", "wanted", "effort", "shown"),
    [
        (None, None, None, True),
        (True, True, None, True),
        (False, False, "none", False),
        ("low", True, "low", True),
        ("max", True, "max", True),
    ],
)
def test_thinking_is_wished_for_or_against(think: Json, wanted: bool | None, effort: str | None, shown: bool) -> None:
    assert (request(think=think).thinking, request(think=think).effort) == (wanted, effort)
    assert read_chat(chat(think=think)).thinking is shown


def test_logprobs_are_asked_for_by_either_field() -> None:
    assert request().top_logprobs is None
    assert request(logprobs=True).top_logprobs == 0
    assert request(logprobs=True, top_logprobs=3).top_logprobs == 3


def test_tools_and_a_choice_are_read() -> None:
    made = request(tools=[WEATHER], tool_choice="required")
    assert made.tools == (Tool("get_weather", "", WEATHER["function"]["parameters"]),)
    assert made.tool_choice == "required"


def test_results_find_their_calls_by_id_by_name_and_by_order() -> None:
    found = request(
        USER,
        calling(call("a", {"x": "ü"}), call("b"), call("a", {"x": 2}), call("c", id="call_9")),
        {"role": "tool", "content": "of c", "tool_call_id": "call_9"},
        {"role": "tool", "content": "first a", "tool_name": "a"},
        {"role": "tool", "content": "second a", "name": "a"},
        {"role": "tool", "content": "the rest"},
    ).messages
    ids = [each.id for each in found[1].tool_calls]
    assert len(set(ids)) == 4
    assert found[1].reasoning == "hm"
    assert found[1].tool_calls[0] == ToolCall(ids[0], "a", '{"x": "ü"}')
    assert [(each.content, each.tool_call_id, each.name) for each in found[2:]] == [
        ("of c", "call_9", "c"),
        ("first a", ids[0], "a"),
        ("second a", ids[2], "a"),
        ("the rest", ids[1], "b"),
    ]
    assert all(len(id_) == 9 and id_.isalnum() for id_ in ids[:3])


def test_a_prompt_is_a_users_turn_or_what_it_is() -> None:
    made = read_generate({"model": MODEL, "prompt": "hi", "system": "be kind"}).request
    assert made is not None
    assert made.messages == (Message("system", "be kind"), Message("user", "hi"))
    bare = read_generate({"model": MODEL, "prompt": "Once", "raw": True}).request
    assert bare is not None
    assert (bare.messages, bare.raw) == ((), "Once")


@pytest.mark.parametrize(
    ("read", "raw", "load"),
    [
        (read_chat, {"model": MODEL}, True),
        (read_chat, {"model": MODEL, "messages": [], "keep_alive": 0}, False),
        (read_generate, {"model": MODEL, "keep_alive": -1}, True),
        (read_generate, {"model": MODEL, "prompt": "", "keep_alive": "0s"}, False),
    ],
)
def test_a_request_for_nothing_loads(
    read: Callable[[dict[str, Json]], Asked], raw: dict[str, Json], load: bool
) -> None:
    asked = read(raw)
    assert (asked.request, asked.load) == (None, load)


@pytest.mark.parametrize("keep_alive", [None, 5, -1, 0.5, "5m", "1h30m", "-1s", "1.5h", "300ms"])
def test_any_duration_is_let_through_unsaid(keep_alive: Json) -> None:
    assert read_chat(chat(keep_alive=keep_alive)).warnings == ()


@pytest.mark.parametrize("keep_alive", [0, 0.0, "0", "0s", "0m0s", "-0"])
def test_a_model_that_is_to_go_at_once_stays_and_a_warning_says_so(keep_alive: Json) -> None:
    (told,) = read_chat(chat(keep_alive=keep_alive)).warnings
    assert "the model stays loaded" in told


def test_options_of_a_machine_are_let_through_and_unknown_ones_are_told_of() -> None:
    known = read_chat(chat(options={"num_gpu": 99, "use_mmap": True, "num_thread": None, "repeat_last_n": -1}))
    assert known.warnings == ()
    (told,) = read_chat(chat(options={"zebra": 1, "num_gpu": 1, "x" * 99: 2})).warnings
    assert told == f"invalid option provided, and ignored: zebra, {'x' * 64}"


def test_arguments_in_the_history_may_be_the_text_of_an_object_or_none() -> None:
    asked = [call("a", '{"x": 1}'), call("a", ""), call("a")]
    results: list[Json] = [{"role": "tool", "content": "r"}] * 3
    found = request(USER, calling(*asked), *results).messages[1].tool_calls
    assert [each.arguments for each in found] == ['{"x": 1}', "{}", "{}"]


@pytest.mark.parametrize("arguments", ["zebra", "[1]", "[" * 9999, [1], 5])
def test_arguments_in_the_history_that_are_no_object_are_refused(arguments: Json) -> None:
    with pytest.raises(BadRequest) as caught:
        request(USER, calling(call("a", arguments)), {"role": "tool", "content": "r"})
    assert str(caught.value.param).endswith("function.arguments")


REFUSALS: list[tuple[Any, dict[str, Json], str]] = [
    (read_chat, {"messages": [USER]}, "model"),
    (read_chat, chat({"role": "robot", "content": ""}), "messages[0].role"),
    (read_chat, chat({**USER, "images": ["aGk="]}), "messages[0].images"),
    (read_chat, chat({**USER, "tool_calls": [call("a")]}), "messages[0].tool_calls"),
    (read_chat, chat(USER, {"role": "tool", "content": "x", "tool_name": "a"}), "messages[1]"),
    (read_chat, chat(USER, calling(call("a")), {"role": "tool", "content": "x", "tool_name": "b"}), "messages[2]"),
    (read_chat, chat(options={"temperature": "hot"}), "options.temperature"),
    (read_chat, chat(options={"mirostat": 2}), "options.mirostat"),
    (read_chat, chat(options={"num_gpu": "x"}), "options.num_gpu"),
    (read_chat, chat(options={"use_mmap": 1}), "options.use_mmap"),
    (read_chat, chat(keep_alive="zebra"), "keep_alive"),
    (read_chat, chat(keep_alive="5"), "keep_alive"),
    (read_chat, chat(keep_alive=True), "keep_alive"),
    (read_chat, chat(keep_alive={}), "keep_alive"),
    (read_chat, chat(format="xml"), "format"),
    (read_chat, chat(tools=[{"type": "function", "function": {"name": "a b"}}]), "tools[0].function.name"),
    (read_chat, chat(think="very"), "think"),
    (read_generate, {"model": MODEL, "prompt": "a", "suffix": "b"}, "suffix"),
    (read_generate, {"model": MODEL, "prompt": "a", "context": [1]}, "context"),
    (read_generate, {"model": MODEL, "prompt": "a", "images": ["aGk="]}, "images"),
    (read_generate, {"model": MODEL, "prompt": "a", "raw": True, "system": "b"}, "system"),
]


@pytest.mark.parametrize(("read", "raw", "param"), REFUSALS, ids=[param for *_, param in REFUSALS])
def test_what_is_wrong_is_named_by_its_place(read: Any, raw: dict[str, Json], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read(raw)
    assert caught.value.param == param
    assert param in str(caught.value)
