"""A Responses body to a request: each field honoured, let through, or refused by its name."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import response_create_params

from ringleader.api.responses_hosted import HOSTED, ITEMS
from ringleader.api.responses_read import INCLUDABLE, REFUSED, read_response
from ringleader.api.responses_tools import in_responses_words
from ringleader.api.responses_wire import ResponsesWire
from ringleader.errors import BadRequest, CallerFault, ContextTooLong
from ringleader.values import ChatRequest, ContentFormat, CustomGrammar

NOW: Any = {"type": "function", "name": "now"}
# Taken and without effect here: who asks, how long OpenAI keeps caches, how the answer is billed.
ACCEPTED = {"prompt_cache_options", "service_tier", "user", "access_programs", "moderation_policy", "image"}


def asked(**fields: Any) -> ChatRequest:
    return read_response({"model": "m", "input": "hi", **fields}).request([], {})


def refused(**fields: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        asked(**fields)
    return caught.value


def test_every_field_of_openais_client_is_honoured_accepted_or_refused() -> None:
    theirs = {
        *response_create_params.ResponseCreateParamsNonStreaming.__annotations__,
        *response_create_params.ResponseCreateParamsBase.__annotations__,
    }
    ours = {*ResponsesWire.model_fields, *ACCEPTED, *(each.field for each in REFUSED)}
    assert theirs - ours == set()


@pytest.mark.parametrize("each", REFUSED, ids=lambda each: each.field)
def test_what_cannot_be_honoured_is_refused_by_name_and_null_asks_for_nothing(each: Any) -> None:
    fault = refused(**{each.field: {"x": 1}})
    assert (fault.param, fault.code) == (each.field, "unsupported_parameter")
    asked(**dict.fromkeys([each.field]))
    for neutral in each.neutral:
        asked(**{each.field: neutral})


def test_what_changes_nothing_is_let_through() -> None:
    asked(service_tier="auto", user="u", prompt_cache_key="k", safety_identifier="s", metadata={"a": "b"}, foo=1)
    asked(text={"verbosity": "low"}, max_tool_calls=3, include=list(INCLUDABLE), truncation="disabled")


@pytest.mark.parametrize("kind", [*HOSTED, "web_search_2025_08_26", "web_search_preview_2025_03_11"])
def test_a_hosted_tool_is_not_shown_and_told_of_and_as_a_choice_it_is_refused(kind: str) -> None:
    read = read_response({"model": "m", "input": "hi", "tools": [{"type": kind, "name": kind, "x": {}}, NOW]})
    assert [tool.name for tool in read.calls.tools] == ["now"]
    assert read.tools.warnings == (f"not shown to the model, for nothing here can run them: tools[0] '{kind}'",)
    assert read.tools.places == ("tools[1]",)
    fault = refused(tools=[{"type": kind}, NOW], tool_choice={"type": kind})
    assert (fault.param, fault.code) == ("tool_choice", "unsupported_tool")
    assert kind in str(fault)


WEB: Any = {"type": "web_search"}


@pytest.mark.parametrize(
    "choice",
    [
        "required",
        {"type": "function", "name": "now"},
        {"type": "allowed_tools", "mode": "required", "tools": [WEB]},
    ],
)
def test_where_nothing_but_hosted_tools_is_there_a_demanded_call_is_refused(choice: Any) -> None:
    fault = refused(tools=[WEB, {"type": "mcp", "server_label": "x"}], tool_choice=choice)
    assert (fault.param, fault.code) == ("tool_choice", "unsupported_tool")
    assert "'web_search'" in str(fault)
    assert asked(tools=[WEB], tool_choice="auto").tools == ()


@pytest.mark.parametrize("kind", ITEMS)
def test_what_a_hosted_tool_did_is_taken_in_a_history_and_told_of(kind: str) -> None:
    items = [{"role": "user", "content": "hi"}, {"type": kind, "action": {"type": "wait"}, "foo": [1]}]
    read = read_response({"model": "m", "input": items})
    assert read.request([], {}).messages[0].content == "hi"
    told = f"read as words, without pictures, for they tell of tools that nothing here can run: input[1] '{kind}'"
    assert read.warnings == (told,)
    many = read_response({"model": "m", "input": items[:1] + items[1:] * 10})
    assert many.warnings[0].endswith(f"input[8] '{kind}' and 2 more")
    assert items[1].items() <= many.raw_items[-1].items()


def test_of_what_is_allowed_the_hosted_tools_are_left_out() -> None:
    def choice(mode: str, *tools: Any) -> Any:
        return asked(
            tools=[WEB, NOW], tool_choice={"type": "allowed_tools", "mode": mode, "tools": [*tools]}
        ).tool_choice

    assert choice("required", WEB, NOW)["tools"] == [NOW]
    assert choice("auto", WEB) == "none"
    assert choice("auto")["tools"] == []  # is refused where it is read


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": 5}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"type": "reasoning"}]}, "input"),
        ({"input": ["x"]}, "input[0]"),
        ({"input": [{"type": "compaction", "encrypted_content": "x"}]}, "input[0].type"),
        ({"input": [{"type": "web_search_call", "id": 5}]}, "input[0].id"),
        ({"input": [{"content": "x"}]}, "input[0].type"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0].content[0].type",
        ),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[0].call_id"),
        ({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}]}, "input[0].encrypted_content"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools[0].name"),
        ({"tools": [{"type": "custom", "name": "f", "format": {"type": "grammar"}}]}, "tools[0].format.syntax"),
        ({"tools": [{"type": "x"}]}, "tools[0].type"),
        ({"tools": [NOW, {**NOW, "description": "other"}]}, "tools[1].name"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
        ({"text": {"format": {"type": "json_schema", "name": "n", "schema": None}}}, "text.format.schema"),
        ({"include": ["x"]}, "include[0]"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"truncation": "x"}, "truncation"),
        ({"reasoning": {"effort": "x"}}, "reasoning.effort"),
        ({"stream_options": {"include_obfuscation": True}}, "stream_options"),
    ],
)
def test_what_is_wrong_is_named_by_its_place(fields: dict[str, Any], param: str) -> None:
    assert refused(**fields).param == param


@pytest.mark.parametrize(
    ("effort", "thinking"), [(None, None), ("none", False), ("minimal", None), ("high", None), ("xhigh", None)]
)
def test_an_effort_goes_with_the_request(effort: str | None, thinking: bool | None) -> None:
    made = asked(reasoning={"effort": effort})
    assert (made.effort, made.thinking) == (effort, thinking)


def test_tools_and_formats_are_read_as_chat_completions_reads_its_own() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": 'start: "a"'}
    request = asked(
        tools=[
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True},
            {"type": "custom", "name": "c", "format": grammar},
            {"type": "local_shell"},
        ],
        tool_choice={"type": "local_shell"},
        parallel_tool_calls=False,
        text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}},
    )
    function, custom, shell = request.tools
    assert (function.name, function.description, function.strict) == ("f", "d", True)
    assert custom.grammar == CustomGrammar("lark", 'start: "a"')
    assert (shell.name, shell.kind, request.tool_choice) == (
        "local_shell",
        "function",
        {"type": "function", "name": "local_shell"},
    )
    assert not request.parallel_tool_calls
    assert request.content == ContentFormat("json_schema", "n", {"type": "object"}, True)


def test_a_fault_found_later_speaks_of_this_apis_fields() -> None:
    def told(fault: CallerFault) -> tuple[str, str | None]:
        mended = in_responses_words(fault)
        return str(mended), mended.param

    assert told(BadRequest("bad tools[0].function.parameters", param="tools[0].function.parameters")) == (
        "bad tools[0].parameters",
        "tools[0].parameters",
    )
    path = "response_format.json_schema.schema"
    assert told(BadRequest(f"Invalid '{path}'", param=path)) == ("Invalid 'text.format.schema'", "text.format.schema")
    assert told(BadRequest("'messages' is empty", param="messages[0].role"))[1] == "input"
    assert isinstance(in_responses_words(ContextTooLong("x", param="messages")), ContextTooLong)


@pytest.mark.parametrize(("fields", "priority"), [({}, 0), ({"service_tier": "flex"}, 1), ({"priority": -4}, -4)])
def test_a_tier_or_a_priority_says_who_goes_first(fields: dict[str, Any], priority: int) -> None:
    assert asked(**fields).priority == priority


SPAWN: Any = {"type": "function", "name": "spawn"}
AGENTS: Any = {
    "type": "namespace",
    "name": "agents",
    "description": "d",
    "tools": [SPAWN, {"type": "custom", "name": "now"}],
}


def test_tools_of_a_namespace_are_shown_by_their_own_names_where_these_are_free() -> None:
    choice = {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "custom", "name": "now", "namespace": "agents"}],
    }
    read = read_response({"model": "m", "input": "hi", "tools": [NOW, AGENTS], "tool_choice": choice})
    assert [tool.name for tool in read.calls.tools] == ["now", "spawn", "agents__now"]
    assert read.tools.places == ("tools[0]", "tools[1].tools[0]", "tools[1].tools[1]")
    assert read.calls.custom == {"agents__now"}
    assert read.request([], {}).tool_choice["tools"][0]["name"] == "agents__now"


def test_a_call_of_a_namespaces_tool_is_known_again_in_the_history() -> None:
    call = {"type": "custom_tool_call", "call_id": "c", "name": "now", "namespace": "agents", "input": "x"}
    result = {"type": "custom_tool_call_output", "call_id": "c", "output": "y"}
    turns = asked(input=[call, result], tools=[NOW, AGENTS]).messages
    assert turns[0].tool_calls[0].name == "agents__now"


def test_what_is_wrong_in_a_namespace_is_named_by_its_place() -> None:
    def named(*tools: Any) -> str | None:
        return refused(tools=[NOW, {**AGENTS, "tools": list(tools)}]).param

    assert named({"type": "function", "name": "a b"}) == "tools[1].tools[0].name"
    assert named(SPAWN, {"type": "local_shell"}) == "tools[1].tools[1].type"
    assert named(SPAWN, AGENTS) == "tools[1].tools[1].type"
    assert named(WEB, {"type": "x"}) == "tools[1].tools[1].type"
    fault = BadRequest("Invalid 'tools[1].function.parameters'", param="tools[1].function.parameters")
    mended = in_responses_words(fault, ("tools[0]", "tools[1].tools[0]"))
    assert (str(mended), mended.param) == ("Invalid 'tools[1].tools[0].parameters'", "tools[1].tools[0].parameters")
