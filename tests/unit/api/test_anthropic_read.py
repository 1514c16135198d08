"""Anthropic's Messages bodies to requests, and what is refused, by the words of its API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ringleader.api.anthropic_history import BILLING
from ringleader.api.anthropic_read import BUDGET, MessagesAsked, read_count, read_messages
from ringleader.api.anthropic_tools import KNOWN
from ringleader.errors import BadRequest
from ringleader.language.tool_choice import normalise
from ringleader.values import ChatRequest, ContentFormat, Json, Message, Tool, ToolCall
from tests.api.scripted import MODEL

WEATHER: Json = {
    "name": "get_weather",
    "description": "Weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
NOW: Json = {"name": "now", "input_schema": {"type": "object"}}
USE: Json = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {"a": "ü"}}
RESULT: Json = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "12:00"}
SEARCH: Json = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
FOUND: Json = {"type": "search_result", "source": "a.md", "title": "A", "content": [{"type": "text", "text": "b"}]}
IMAGE: Json = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}


def body(*messages: Json, **fields: Json) -> dict[str, Json]:
    return {"model": MODEL, "max_tokens": 5, "messages": list(messages) or [user("hi")], **fields}


def user(*content: Json) -> Json:
    return {"role": "user", "content": content[0] if content and isinstance(content[0], str) else list(content)}


def assistant(*content: Json) -> Json:
    return {**user(*content), "role": "assistant"}


def asked(*messages: Json, **fields: Json) -> MessagesAsked:
    return read_messages(body(*messages, **fields))


def request(*messages: Json, **fields: Json) -> ChatRequest:
    return asked(*messages, **fields).request


def refused(raw: dict[str, Json]) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read_messages(raw)
    return caught.value


def text(words: str) -> Json:
    return {"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}


# ---------------------------------------------------------------- what is read


def test_a_plain_request_is_read_with_its_settings() -> None:
    made = request(temperature=0.5, top_p=0.9, top_k=3, stop_sequences=["a", "b"], seed=-1, metadata={"user_id": "x"})
    assert made.messages == (Message("user", "hi"),)
    assert (made.max_tokens, made.stop, made.tool_choice, made.content) == (5, ("a", "b"), None, None)
    assert (made.sampling.temperature, made.sampling.top_p, made.sampling.top_k) == (0.5, 0.9, 3)
    assert made.sampling.seed == 2**64 - 1


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("be kind", ["be kind"]),
        ([text("be"), text("kind")], ["be\n\nkind"]),
        ([text(f"{BILLING} cc=1;"), text("be kind")], ["be kind"]),
        ([], []),
        ("", []),
        (None, []),
    ],
)
def test_the_system_prompt_is_read_in_every_shape(system: Json, said: list[str]) -> None:
    found = [message.content for message in request(system=system).messages if message.role == "system"]
    assert found == said


def test_calls_and_results_become_turns_of_their_own_before_the_users_words() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "abc"}
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    two = {**USE, "id": "toolu_2", "name": "f", "input": {}}
    second = {**RESULT, "tool_use_id": "toolu_2", "content": [text("a"), text("b")], "is_error": True}
    found = request(
        user("hi"),
        assistant(thinking, redacted, text("So: "), USE, text("and"), two),
        user(text("first"), second, RESULT, text("last")),
    ).messages
    assert found[1:] == (
        Message(
            "assistant",
            "So: and",
            "hm",
            (ToolCall("toolu_1", "now", '{"a": "ü"}'), ToolCall("toolu_2", "f", "{}")),
        ),
        Message("tool", "Error: a\n\nb", tool_call_id="toolu_2", name="f"),
        Message("tool", "12:00", tool_call_id="toolu_1", name="now"),
        Message("user", "first\n\nlast"),
    )


def test_a_failed_result_that_says_so_itself_is_left_as_it_is() -> None:
    for words, told in (("error: no", "error: no"), ("no", "Error: no"), ("", "Error: ")):
        result = {**RESULT, "content": words, "is_error": True}
        assert request(user("hi"), assistant(USE), user(result)).messages[-1].content == told


def test_results_may_come_in_several_turns_of_the_user_and_without_content() -> None:
    two = {**USE, "id": "toolu_2"}
    empty = {"type": "tool_result", "tool_use_id": "toolu_2"}
    found = request(user("hi"), assistant(USE, two), user(empty), user(RESULT)).messages
    assert [(message.role, message.content) for message in found[2:]] == [("tool", ""), ("tool", "12:00")]


def test_a_system_turn_among_the_messages_stays_but_not_between_calls_and_results() -> None:
    late = {"role": "system", "content": "be brief"}
    assert [each.role for each in request(user("hi"), late).messages] == ["user", "system"]
    found = request(user("hi"), assistant(USE), late, user(RESULT)).messages
    assert [each.role for each in found] == ["user", "assistant", "tool", "system"]


def test_an_empty_text_beside_a_call_and_an_empty_result_are_read_as_nothing() -> None:
    empty = text("")
    found = request(user("hi"), assistant(empty, USE), user({**RESULT, "content": [empty]}), system=[empty]).messages
    assert [(each.role, each.content) for each in found] == [("user", "hi"), ("assistant", ""), ("tool", "")]


def test_documents_of_text_and_search_results_are_read_as_text() -> None:
    document = {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "D"}}
    found = {"type": "search_result", "title": "S", "source": "http://x", "content": [text("C")]}
    assert request(user(document, found)).messages[0].content == "T\nD\n\nS (http://x)\nC"
    blocks = {"type": "document", "source": {"type": "content", "content": [text("A"), text("B")]}}
    assert request(user(blocks)).messages[0].content == "A\n\nB"


def test_a_summary_of_what_came_before_is_read_as_text() -> None:
    found = request(user("a"), assistant({"type": "compaction", "content": "so far"}), user("b")).messages
    assert found[1].content == "so far"


def test_tools_are_read_and_repeated_ones_are_one() -> None:
    made = request(tools=[WEATHER, NOW, NOW], tool_choice={"type": "auto"})
    assert made.tools == (
        Tool("get_weather", "Weather.", WEATHER["input_schema"]),
        Tool("now", "", {"type": "object"}),
    )


@pytest.mark.parametrize("kind", sorted(KNOWN))
def test_tools_that_the_client_runs_have_a_schema_that_is_known(kind: str) -> None:
    (tool,) = request(tools=[{"type": kind, "name": "it"}]).tools
    assert tool.description
    assert "command" in (tool.parameters or {})["properties"]


@pytest.mark.parametrize(
    ("choice", "least", "most", "permitted"),
    [
        ({"type": "auto"}, 0, 16, 2),
        ({"type": "auto", "disable_parallel_tool_use": True}, 0, 1, 2),
        ({"type": "any"}, 1, 16, 2),
        ({"type": "any", "disable_parallel_tool_use": True}, 1, 1, 2),
        ({"type": "tool", "name": "now"}, 1, 1, 1),
        ({"type": "none"}, 0, 0, 0),
        (None, 0, 16, 2),
    ],
)
def test_each_tool_choice_means_what_the_api_says(choice: Json, least: int, most: int, permitted: int) -> None:
    made = request(tools=[WEATHER, NOW], tool_choice=choice)
    found = normalise(made.tool_choice, made.tools, made.parallel_tool_calls)
    assert (found.least, found.most, len(found.permitted)) == (least, most, permitted)


def test_empty_tools_with_auto_are_no_tools() -> None:
    made = request(tools=[], tool_choice={"type": "auto"})
    assert normalise(made.tool_choice, made.tools, made.parallel_tool_calls).mode == "none"


def test_structured_output_is_read_in_both_spellings() -> None:
    form = {"type": "json_schema", "schema": {"type": "object"}}
    wanted = ContentFormat("json_schema", "output_format", {"type": "object"})
    assert request(output_config={"format": form, "effort": "high"}).content == wanted
    assert request(output_format=form).content == wanted
    assert request(output_config={"effort": None, "format": None}).content is None


def test_the_effort_that_an_answer_is_worth_goes_with_the_request() -> None:
    assert request(output_config={"effort": "xhigh"}).effort == "xhigh"
    assert request().effort is None


@pytest.mark.parametrize(
    ("thinking", "shown"),
    [
        (None, "hidden"),
        ({"type": "disabled"}, "hidden"),
        ({"type": "adaptive"}, "shown"),
        ({"type": "enabled", "budget_tokens": 2000}, "shown"),
        ({"type": "adaptive", "display": "omitted"}, "omitted"),
    ],
)
def test_thinking_is_shown_to_who_asks_for_it(thinking: Json, shown: str) -> None:
    made = asked(thinking=thinking, max_tokens=4000)
    assert made.thinking == shown
    assert made.request.thinking == (shown != "hidden")
    assert made.warnings == ((BUDGET,) if thinking and thinking["type"] == "enabled" else ())


def test_fields_that_change_nothing_are_let_through() -> None:
    fields: dict[str, Json] = {
        "service_tier": "auto",
        "speed": "fast",
        "inference_geo": "eu",
        "cache_control": {"type": "ephemeral"},
        "mcp_servers": [],
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    }
    made = asked(**fields)
    assert made.edits
    assert not asked().edits


def test_a_count_needs_no_max_tokens() -> None:
    raw = body(tools=[NOW], system="x")
    del raw["max_tokens"]
    made, _ = read_count(raw)
    assert (made.max_tokens, len(made.messages), len(made.tools)) == (None, 2, 1)


def test_what_anthropics_servers_run_is_not_shown_beside_tools_that_can_be_called() -> None:
    computer = {"type": "computer_20250124", "name": "computer", "display_width_px": 1, "display_height_px": 1}
    found = asked(tools=[SEARCH, NOW, computer], tool_choice={"type": "any"})
    assert [tool.name for tool in found.request.tools] == ["now"]
    assert found.places == (1,)
    told = "tools.0 'web_search_20250305', tools.2 'computer_20250124'"
    assert found.warnings == (f"not shown to the model, for nothing here can run them: {told}",)
    assert read_count(body(tools=[SEARCH, NOW]))[1] == (1,)


# ---------------------------------------------------------------- what is refused

REFUSALS: list[tuple[dict[str, Json], str]] = [
    ({"model": MODEL, "messages": [user("hi")]}, "max_tokens: Field required"),
    ({"model": MODEL, "max_tokens": 5}, "messages: Field required"),
    (body() | {"messages": []}, "messages: List should have at least 1 item"),
    (body(max_tokens=0), "max_tokens: Input should be greater than or equal to 1"),
    (body(max_tokens="5"), "max_tokens: Input should be an integer, but is a string"),
    (body(temperature=3), "temperature: Input should be less than or equal to 2"),
    (body({"role": "tool", "content": "x"}), "messages.0.role: Input should be 'user', 'assistant' or 'system'"),
    (body(user({"type": "text"})), "messages.0.content.0.text: Field required"),
    (body(user("hi", IMAGE) | {"content": [text("a"), IMAGE]}), "messages.0.content.1.type: images are not supported"),
    (
        body(user("hi"), assistant(USE), user({**RESULT, "content": [IMAGE]})),
        "messages.2.content.0.content.0.type: images are not supported",
    ),
    (
        body(user({"type": "document", "source": {"type": "base64", "data": "x"}})),
        "messages.0.content.0.source: documents are read where their source is text",
    ),
    (body(user({"type": "web_search_tool_result"})), "messages.0.content.0.type: 'web_search_tool_result' blocks"),
    (body(user({"type": "x"})), "messages.0.content.0.type: 'x' is not a block"),
    (body(user(USE)), "messages.0.content.0.type: 'tool_use' blocks stand in the content of assistant"),
    (body(user("a"), assistant(RESULT), user("b")), "messages.1.content.0.type: 'tool_result' blocks stand in"),
    (body(user(RESULT)), "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1"),
    (
        body(user("a"), assistant(USE), user(RESULT, RESULT)),
        "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1",
    ),
    (
        body(user("a"), assistant(USE), user("b")),
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1",
    ),
    (body(user("a"), assistant(USE)), "messages.1: `tool_use` ids were found without `tool_result` blocks"),
    (body(user("a"), assistant(USE, USE), user(RESULT)), "messages.1.content.1.id: `tool_use` ids must be unique"),
    (body(user("a"), assistant({"type": "tool_use", "id": "x"})), "messages.1.content.0.name: Field required"),
    (body(user("a"), assistant("{")), "messages: the conversation must end with a user message"),
    (body(tools=[{"name": "a b", "input_schema": {}}]), "tools.0.name: String should match pattern"),
    (body(tools=[{"type": "mcp_toolset", "mcp_server_name": "x"}]), "tools.0.type: 'mcp_toolset' is not supported"),
    (body(tools=[{"input_schema": {}}]), "tools.0.name: Field required"),
    (
        body(user({"type": "web_fetch_tool_result", "content": {"type": "web_fetch_result"}})),
        "messages.0.content.0.type: 'web_fetch_tool_result' blocks are not supported",
    ),
    (
        body(user({"type": "document", "source": {"type": "content", "content": [IMAGE]}})),
        "messages.0.content.0.source.content.0.type: images are not supported",
    ),
    (
        body(user({"type": "document", "source": {"type": "content"}})),
        "messages.0.content.0.source.content: Field required",
    ),
    (body(tools=[{"name": "f"}]), "tools.0.input_schema: Field required"),
    (body(tools=[NOW, {**NOW, "description": "other"}]), "tools: Tool names must be unique"),
    (body(tools=[SEARCH]), "tools.0.type: 'web_search_20250305' is not"),
    (body(tools=[{"type": "bash_2099", "name": "bash"}, NOW]), "tools.0.type: 'bash_2099' is not supported: it is no"),
    (
        body(tools=[SEARCH, NOW], tool_choice={"type": "tool", "name": "web_search"}),
        "tool_choice.tool.name: 'web_search' (web_search_20250305) cannot be called",
    ),
    (body(tool_choice={"type": "required"}), "tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'"),
    (body(tools=[NOW], tool_choice={"type": "tool"}), "tool_choice.tool.name: Field required"),
    (body(thinking={"type": "on"}), "thinking.type: Input should be 'enabled', 'adaptive', 'between_tools'"),
    (body(mcp_servers=[{"url": "x"}]), "mcp_servers: this field is not supported"),
    (body(user("")), "messages.0.content.0.text: text content blocks must be non-empty"),
    (body(user(text("a"), text("\n "))), "messages.0.content.1.text: text content blocks must contain non-whitespace"),
    (body(user()), "messages.0.content: user messages must have non-empty content"),
    (
        body({"role": "system", "content": "a"}, {"role": "system", "content": "b"}),
        "messages: at least one message that is not a system message is required",
    ),
    (body(user("a"), assistant({"type": "thinking"}), user("b")), "messages.1.content.0.thinking: Field required"),
    (body(user({"type": "search_result"})), "messages.0.content.0.source: Field required"),
    (body(user({**FOUND, "title": None})), "messages.0.content.0.title: Field required"),
    (body(user({**FOUND, "source": {}})), "messages.0.content.0.source: Input should be a string, but is an object"),
    (body(user({**FOUND, "content": []})), "messages.0.content.0.content: at least one text block"),
    (body(metadata=5), "metadata: Input should be an object, but is an integer"),
    (body(metadata={"user_id": 5}), "metadata.user_id: Input should be a string, but is an integer"),
    (body(stop_sequences=[""]), "stop_sequences.0: String should have at least 1 character"),
    (body(output_config={"format": {"type": "json_schema"}}), "output_config.format.schema: Field required"),
]


@pytest.mark.parametrize(("raw", "words"), REFUSALS, ids=[words[:40] for _, words in REFUSALS])
def test_what_is_wrong_is_named_by_its_place(raw: dict[str, Json], words: str) -> None:
    fault = refused(raw)
    assert str(fault).startswith(words)
    assert fault.param
    assert words.startswith(fault.param)


def test_a_request_as_claude_code_sends_it_is_read() -> None:
    made: dict[str, Any] = body(
        user(text("<system-reminder>\nx\n</system-reminder>\n\n"), text("say hello")),
        {"role": "system", "content": "Available agent types: ..."},
        model="claude-opus-4-8",
        max_tokens=64000,
        system=[text(f"{BILLING} cc_version=2"), text("You are an agent."), text("\nMore.")],
        tools=[
            {**WEATHER, "eager_input_streaming": True, "cache_control": {"type": "ephemeral"}},
            {**NOW, "defer_loading": True, "input_examples": [{}]},
        ],
        metadata={"user_id": json.dumps({"device_id": "x"})},
        thinking={"type": "adaptive"},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        output_config={"effort": "high"},
        stream=True,
    )
    found = read_messages(made)
    assert found.stream
    assert [message.role for message in found.request.messages] == ["system", "user", "system"]
