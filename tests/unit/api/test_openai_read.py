"""The door of Chat Completions: what is taken, what is refused, and how the refusal names the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import completion_create_params

from ringleader.api.openai_read import read_chat
from ringleader.api.openai_refused import REFUSED
from ringleader.api.openai_wire import ChatWire
from ringleader.errors import BadRequest
from ringleader.values import ContentFormat, Json, Message, Tool, ToolCall
from tests.api.scripted import MODEL, NOW, WEATHER, body

USER = {"role": "user", "content": "hi"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
TOOL = {"role": "tool", "tool_call_id": "call_1", "content": "12:00"}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
FUNCTION_CALLING = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
FUNCTION = {"role": "function", "name": "f", "content": "12:00"}


def refusal(fields: dict[str, Json]) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read_chat(fields)
    return caught.value


def messages(*turns: Json) -> dict[str, Json]:
    return {"model": MODEL, "messages": list(turns)}


def function(**fields: Json) -> dict[str, Json]:
    return {"type": "function", "function": fields}


def custom(**fields: Json) -> dict[str, Json]:
    return {"type": "custom", "custom": fields}


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"messages": [USER]}, "model", "missing_required_parameter"),
        ({"model": MODEL}, "messages", "missing_required_parameter"),
        ({"model": None, "messages": [USER]}, "model", "invalid_type"),
        ({"model": "", "messages": [USER]}, "model", "empty_string"),
        ({"model": MODEL, "messages": []}, "messages", "empty_array"),
        ({"model": MODEL, "messages": "hi"}, "messages", "invalid_type"),
        (body(max_tokens=0), "max_tokens", "integer_below_min_value"),
        (body(max_completion_tokens=-1), "max_completion_tokens", "integer_below_min_value"),
        (body(max_tokens=True), "max_tokens", "invalid_type"),
        (body(max_tokens="5"), "max_tokens", "invalid_type"),
        (body(max_tokens=1.5), "max_tokens", "invalid_type"),
        (body(temperature=2.01), "temperature", "decimal_above_max_value"),
        (body(temperature=-1), "temperature", "decimal_below_min_value"),
        (body(temperature=True), "temperature", "invalid_type"),
        (body(temperature=10**400), "temperature", "invalid_type"),
        (body(top_p=0), "top_p", "decimal_below_min_value"),
        (body(top_p=1.1), "top_p", "decimal_above_max_value"),
        (body(top_k=-2), "top_k", "integer_below_min_value"),
        (body(min_p=1.5), "min_p", "decimal_above_max_value"),
        (body(repetition_penalty=0), "repetition_penalty", "decimal_below_min_value"),
        (body(presence_penalty=2.5), "presence_penalty", "decimal_above_max_value"),
        (body(frequency_penalty=-2.5), "frequency_penalty", "decimal_below_min_value"),
        (body(logit_bias={"x": 1}), "logit_bias", "invalid_value"),
        (body(logit_bias={"-1": 1}), "logit_bias", "invalid_value"),
        (body(logit_bias={"٣": 1}), "logit_bias", "invalid_value"),
        (body(logit_bias={"9999999999": 1}), "logit_bias", "invalid_value"),
        (body(logit_bias={"1": 101}), "logit_bias.1", "decimal_above_max_value"),
        (body(seed=1.0), "seed", "invalid_type"),
        (body(stop=["a", "b", "c", "d", "e"]), "stop", "array_above_max_length"),
        (body(stop=5), "stop", "invalid_type"),
        (body(stop=[""]), "stop[0]", "empty_string"),
        (body(n=9), "n", "integer_above_max_value"),
        (body(n=0), "n", "integer_below_min_value"),
        (body(top_logprobs=2), "top_logprobs", "invalid_value"),
        (body(logprobs=False, top_logprobs=2), "top_logprobs", "invalid_value"),
        (body(logprobs=True, top_logprobs=21), "top_logprobs", "integer_above_max_value"),
        (body(logprobs=3), "logprobs", "invalid_type"),
        (body(stream="yes"), "stream", "invalid_type"),
        (body(stream_options={"include_usage": True}), "stream_options", "invalid_value"),
        (body(tools={}), "tools", "invalid_type"),
        (body(tools=[{"type": "function"}]), "tools[0].function", "missing_required_parameter"),
        (body(tools=[NOW, {"function": {"name": "f"}}]), "tools[1].type", "missing_required_parameter"),
        (body(tools=[function()]), "tools[0].function.name", "missing_required_parameter"),
        (body(tools=[function(name="a b")]), "tools[0].function.name", "invalid_value"),
        (body(tools=[function(name="a" * 65)]), "tools[0].function.name", "invalid_value"),
        (body(tools=[function(name="a\n")]), "tools[0].function.name", "invalid_value"),
        (body(tools=[function(name="f", parameters=[])]), "tools[0].function.parameters", "invalid_type"),
        (body(tools=[NOW, function(name="now", description="x")]), "tools[1].function.name", "duplicate_name"),
        (body(tools=[{"type": "custom"}]), "tools[0].custom", "missing_required_parameter"),
        (body(tools=[custom()]), "tools[0].custom.name", "missing_required_parameter"),
        (body(tools=[custom(name="a b")]), "tools[0].custom.name", "invalid_value"),
        (body(tools=[custom(name="f", format={"type": "x"})]), "tools[0].custom.format.type", "invalid_value"),
        (
            body(tools=[custom(name="f", format={"type": "grammar"})]),
            "tools[0].custom.format.grammar",
            "missing_required_parameter",
        ),
        (
            body(
                tools=[custom(name="f", format={"type": "grammar", "grammar": {"syntax": "gbnf", "definition": "x"}})]
            ),
            "tools[0].custom.format.grammar.syntax",
            "invalid_value",
        ),
        (body(tools=[NOW, custom(name="now")]), "tools[1].custom.name", "duplicate_name"),
        (body(functions=[{"name": "f"}], tools=[NOW]), "tools", "invalid_value"),
        (body(functions=[{"name": "f"}], tool_choice="auto"), "tool_choice", "invalid_value"),
        (body(functions=[{"name": "a b"}]), "functions[0].name", "invalid_value"),
        (body(functions=[{"name": "f"}, {"name": "f", "description": "x"}]), "functions[1].name", "duplicate_name"),
        (body(functions=[{"name": "f"}], function_call="required"), "function_call", "invalid_value"),
        (body(functions=[{"name": "f"}], function_call={"nam": "f"}), "function_call", "invalid_value"),
        (body(function_call="auto"), "function_call", "invalid_value"),
        (body(tools=[NOW], function_call={"name": "now"}), "function_call", "invalid_value"),
        (body(response_format="json"), "response_format", "invalid_type"),
        (body(response_format={}), "response_format.type", "missing_required_parameter"),
        (body(response_format={"type": "xml"}), "response_format.type", "invalid_value"),
        (
            body(response_format={"type": "json_schema"}),
            "response_format.json_schema",
            "missing_required_parameter",
        ),
        (
            body(response_format={"type": "json_schema", "json_schema": {"schema": {}}}),
            "response_format.json_schema.name",
            "missing_required_parameter",
        ),
        (
            body(response_format={"type": "json_schema", "json_schema": {"name": "a b"}}),
            "response_format.json_schema.name",
            "invalid_value",
        ),
        (
            body(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": "x"}}),
            "response_format.json_schema.schema",
            "invalid_type",
        ),
        (body(tools=[{"type": "web"}]), "tools[0].type", "invalid_value"),
        (body(parallel_tool_calls=1), "parallel_tool_calls", "invalid_type"),
        (messages({"content": "hi"}), "messages[0].role", "missing_required_parameter"),
        (messages(USER, {"role": "robot", "content": "hi"}), "messages[1].role", "invalid_value"),
        (messages({"role": "function", "name": "f", "content": "x"}), "messages[0].role", "invalid_value"),
        (messages(USER, FUNCTION_CALLING), "messages[1].role", "invalid_value"),
        (messages(USER, FUNCTION_CALLING, USER), "messages[2].role", "invalid_value"),
        (messages(USER, FUNCTION_CALLING, {**FUNCTION, "name": "g"}), "messages[2].name", "invalid_value"),
        (messages(USER, FUNCTION_CALLING, {**FUNCTION, "name": None}), "messages[2].name", None),
        (messages(USER, FUNCTION_CALLING, FUNCTION, FUNCTION), "messages[3].role", "invalid_value"),
        (messages({**FUNCTION_CALLING, "role": "user", "content": "x"}), "messages[0].function_call", None),
        (messages({**FUNCTION_CALLING, **CALLING}), "messages[0].function_call", "invalid_value"),
        (messages({"role": "user"}), "messages[0].content", "missing_required_parameter"),
        (messages({"role": "user", "content": 5}), "messages[0].content", "invalid_type"),
        (
            messages({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}),
            "messages[0].content[0].type",
            "unsupported_value",
        ),
        (
            messages({"role": "user", "content": [{"type": "text"}]}),
            "messages[0].content[0].text",
            "missing_required_parameter",
        ),
        (messages(USER, CALLING, {"role": "tool", "content": "x"}), "messages[2].tool_call_id", None),
        (messages(USER, TOOL), "messages[1].role", "invalid_value"),
        (messages(USER, CALLING, TOOL, TOOL), "messages[3].role", "invalid_value"),
        (messages(USER, CALLING, USER), "messages[2].role", "invalid_value"),
        (messages(USER, CALLING), "messages[1].role", "invalid_value"),
        (messages({**USER, "tool_calls": [CALL]}), "messages[0].tool_calls", "invalid_value"),
        (messages(USER, {**CALLING, "tool_calls": [{**CALL, "type": "custom"}]}), None, "missing_required_parameter"),
        (messages(USER, {"role": "assistant", "function_call": {}}), "messages[1].function_call.name", None),
    ],
)
def test_a_wrong_field_is_refused_by_its_path(fields: dict[str, Json], param: str | None, code: str | None) -> None:
    error = refusal(fields)
    assert param is None or error.param == param
    assert code is None or error.code == code
    assert error.param is not None
    assert error.param in str(error) or "tool" in str(error)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("audio", {"voice": "x"}),
        ("modalities", ["text", "audio"]),
        ("web_search_options", {}),
        ("best_of", 2),
        ("best_of", True),
        ("suffix", "x"),
        ("guided_json", {}),
        ("grammar", "root ::= x"),
        ("stop_token_ids", [1]),
        ("ignore_eos", True),
    ],
)
def test_a_field_that_would_change_the_answer_is_refused_by_name(field: str, value: Json) -> None:
    error = refusal(body(**{field: value}))
    assert error.param == field
    assert error.code in ("unsupported_parameter", "unsupported_value")
    assert f"'{field}'" in str(error)


def test_unknown_values_of_refused_fields_are_told_from_unsupported_ones() -> None:
    assert refusal(body(reasoning_effort="huge")).code == "invalid_value"


@pytest.mark.parametrize(
    ("fields", "thinking"),
    [
        ({}, None),
        ({"reasoning_effort": "minimal"}, None),
        ({"reasoning_effort": "medium"}, True),
        ({"reasoning_effort": "xhigh"}, True),
        ({"reasoning_effort": "none"}, False),
        ({"reasoning_effort": "minimal", "enable_thinking": False}, False),
        ({"enable_thinking": True}, True),
        ({"chat_template_kwargs": {"reasoning_effort": "none"}}, False),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"chat_template_kwargs": {"thinking": True}, "enable_thinking": True}, True),
        ({"chat_template_kwargs": {"enable_thinking": None}}, None),
    ],
)
def test_a_client_may_wish_for_thinking_or_against_it(fields: dict[str, Json], thinking: bool | None) -> None:
    assert read_chat(body(**fields)).request.thinking is thinking


@pytest.mark.parametrize(
    ("fields", "effort"),
    [
        ({}, None),
        ({"reasoning_effort": "low"}, "low"),
        ({"chat_template_kwargs": {"reasoning_effort": "high"}}, "high"),
        ({"reasoning_effort": "max", "enable_thinking": True}, "max"),
        ({"enable_thinking": False}, "none"),
        ({"enable_thinking": True}, None),
    ],
)
def test_a_client_may_say_how_much_the_model_is_to_think(fields: dict[str, Json], effort: str | None) -> None:
    assert read_chat(body(**fields)).request.effort == effort


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"reasoning_effort": "none", "enable_thinking": True}, "reasoning_effort"),
        ({"reasoning_effort": "high", "enable_thinking": False}, "reasoning_effort"),
        ({"reasoning_effort": "high", "chat_template_kwargs": {"reasoning_effort": "low"}}, "reasoning_effort"),
        ({"chat_template_kwargs": {"reasoning_effort": 3}}, "chat_template_kwargs.reasoning_effort"),
        ({"reasoning": {"effort": "high"}}, "reasoning"),
        ({"enable_thinking": "yes"}, "enable_thinking"),
        ({"chat_template_kwargs": {"enable_thinking": 1}}, "chat_template_kwargs.enable_thinking"),
        ({"chat_template_kwargs": {"reasoning_budget": 5}}, "chat_template_kwargs.reasoning_budget"),
        ({"chat_template_kwargs": [1]}, "chat_template_kwargs"),
    ],
)
def test_wishes_about_thinking_that_cannot_be_met_are_named(fields: dict[str, Json], param: str) -> None:
    assert refusal(body(**fields)).param == param


OPTIONAL = [name for name in ChatWire.model_fields if name not in ("model", "messages")]
OPTIONAL += [refused.field for refused in REFUSED]
HARMLESS: list[dict[str, Any]] = [
    {"metadata": {"a": "b"}, "user": "u", "store": True, "prompt_cache_key": "k", "verbosity": "low"},
    {"service_tier": "auto", "safety_identifier": "x", "cache_control": {"type": "ephemeral"}, "made_up": [1]},
    {"stream_options": {}},
    {"stream": True, "stream_options": {"include_obfuscation": True, "include_usage": None}},
    {"n": 1, "best_of": 1, "functions": [], "modalities": ["text"], "response_format": {"type": "text"}},
    {"tools": [], "tool_choice": "auto"},
    {"logprobs": False, "top_logprobs": 0},
    dict.fromkeys(OPTIONAL),
]


@pytest.mark.parametrize("fields", HARMLESS)
def test_fields_that_change_nothing_change_nothing(fields: dict[str, Json]) -> None:
    plain, asked = read_chat(body(seed=1)).request, read_chat(body(**{"seed": 1, **fields})).request
    if fields.get("seed", 1) is None:
        fields = {**fields, "seed": 1}
        asked = read_chat(body(**fields)).request
    if fields.get("tool_choice") == "auto":
        assert asked.tool_choice == "auto"
    else:
        assert asked == plain


def test_sampling_fields_arrive_and_their_offs_are_normal() -> None:
    fields = {"temperature": 0, "top_p": 0.5, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1}
    more = {"presence_penalty": 1, "frequency_penalty": -1, "logit_bias": {"0": -100, "17": 2.5}, "seed": -1}
    sampling = read_chat(body(**fields, **more)).request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0, 0.5, 5, 0.1)
    assert (sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty) == (1.1, 1, -1)
    assert sampling.logit_bias == ((0, -100.0), (17, 2.5))
    assert sampling.seed == 2**64 - 1
    assert read_chat(body(top_k=-1)).request.sampling.top_k == 0
    assert read_chat(body(seed=2**64 + 5)).request.sampling.seed == 5
    assert read_chat(body(top_k=10**30)).request.sampling.top_k == 2**31 - 1


def test_without_a_seed_one_is_drawn_for_each_request() -> None:
    seeds = {read_chat(body()).request.sampling.seed for _ in range(3)}
    assert len(seeds) == 3
    assert all(0 <= seed < 2**64 for seed in seeds)


def test_the_newer_name_of_the_token_limit_wins() -> None:
    assert read_chat(body(max_tokens=5, max_completion_tokens=6)).request.max_tokens == 6
    assert read_chat(body(max_tokens=5)).request.max_tokens == 5
    assert read_chat(body(max_tokens=10**30)).request.max_tokens == 2**31 - 1
    assert read_chat(body()).request.max_tokens is None


def test_stop_is_one_string_or_several() -> None:
    assert read_chat(body(stop="END")).request.stop == ("END",)
    assert read_chat(body(stop=["a", "b"])).request.stop == ("a", "b")
    assert read_chat(body(stop=[])).request.stop == ()


def test_logprobs_without_a_number_are_those_of_the_chosen_tokens() -> None:
    assert read_chat(body(logprobs=True)).request.top_logprobs == 0
    assert read_chat(body(logprobs=True, top_logprobs=3)).request.top_logprobs == 3


def test_tools_arrive_with_identical_twins_and_no_limit_on_their_number() -> None:
    request = read_chat(body(tools=[WEATHER, NOW, WEATHER], tool_choice={"any": 1}, parallel_tool_calls=False)).request
    weather = Tool("get_weather", "", WEATHER["function"]["parameters"])
    assert request.tools == (weather, Tool("now"), weather)
    assert request.tool_choice == {"any": 1}
    assert not request.parallel_tool_calls
    assert len(read_chat(body(tools=[function(name=f"f{i}") for i in range(400)])).request.tools) == 400


def test_a_history_of_calls_and_results_arrives() -> None:
    second = {**CALL, "id": "call_2"}
    request = read_chat(
        messages(
            {"role": "developer", "content": [{"type": "text", "text": "be "}, {"type": "text", "text": "kind"}]},
            USER,
            {"role": "assistant", "reasoning_content": "hm", "tool_calls": [CALL, second]},
            {**TOOL, "tool_call_id": "call_2", "content": [{"type": "text", "text": "two"}]},
            TOOL,
            {"role": "assistant", "content": "noon"},
        )
    ).request
    calls = (ToolCall("call_1", "now", "{}"), ToolCall("call_2", "now", "{}"))
    assert request.messages == (
        Message("system", "be kind"),
        Message("user", "hi"),
        Message("assistant", None, "hm", calls),
        Message("tool", "two", tool_call_id="call_2"),
        Message("tool", "12:00", tool_call_id="call_1"),
        Message("assistant", "noon"),
    )


@pytest.mark.parametrize("content", [None, "", "absent"])
def test_an_assistant_turn_needs_no_content(content: str | None) -> None:
    turn = {**CALLING, "content": content}
    if content == "absent":
        del turn["content"]
    assert not read_chat(messages(USER, turn, TOOL)).request.messages[1].content


def test_messages_of_errors_are_short_whatever_was_sent() -> None:
    for fields in (body(temperature="x" * 10**5), body(seed=[1] * 10**5), body(max_tokens=-(10**4000))):
        assert len(str(refusal(fields))) < 300
    assert len(str(refusal(messages({"role": "x" * 10**5, "content": ""})))) < 300
    assert json.dumps(str(refusal(body(logit_bias={"\x00" * 999: 1}))))


def test_each_choice_is_a_request_with_its_own_seed() -> None:
    assert read_chat(body()).choices == 1
    asked = read_chat(body(n=8, seed=-2))
    seeds = [request.sampling.seed for request in asked.requests()]
    assert seeds == [2**64 - 2, 2**64 - 1, 0, 1, 2, 3, 4, 5]
    assert asked.requests()[0] == asked.request


def test_formats_of_the_text_arrive() -> None:
    schema = {"type": "object"}
    described = {"name": "n", "description": "d", "schema": schema, "strict": False}
    for sent, read in (
        ({"type": "text"}, None),
        ({"type": "json_object"}, ContentFormat("json_object")),
        ({"type": "json_schema", "json_schema": {"name": "n"}}, ContentFormat("json_schema", "n", {})),
        ({"type": "json_schema", "json_schema": described}, ContentFormat("json_schema", "n", schema, False)),
    ):
        assert read_chat(body(response_format=sent)).request.content == read


def test_a_schema_that_is_null_is_refused_and_one_that_is_absent_is_not() -> None:
    described: dict[str, Any] = {"name": "n", "schema": None}
    error = refusal(body(response_format={"type": "json_schema", "json_schema": described}))
    assert (error.param, error.code) == ("response_format.json_schema.schema", "invalid_type")
    assert "expected an object, but got null instead" in str(error)


# Of OpenAI's own fields: taken, and without effect here. Each says who asks, what is kept, how it is billed or cached.
CHAT_ACCEPTED = {
    "metadata",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "safety_identifier",
    "store",
    "user",
    "verbosity",
}


def test_every_chat_field_of_openais_client_is_honoured_accepted_or_refused() -> None:
    theirs = {
        *completion_create_params.CompletionCreateParamsBase.__annotations__,
        *completion_create_params.CompletionCreateParamsStreaming.__annotations__,
    }
    judged = {*ChatWire.model_fields, *(each.field for each in REFUSED)}
    assert theirs - judged == CHAT_ACCEPTED


@pytest.mark.parametrize("field", sorted(CHAT_ACCEPTED))
def test_what_changes_nothing_is_let_through(field: str) -> None:
    before, after = read_chat(body(seed=1)), read_chat(body(seed=1, **{field: "x"}))
    assert after.request == before.request


@pytest.mark.parametrize(
    "content", ["def f(): pass", [{"type": "text", "text": "def f()"}, {"type": "text", "text": ": pass"}]]
)
def test_what_the_client_predicts_is_read_as_one_text(content: Any) -> None:
    read = read_chat(body(prediction={"type": "content", "content": content}))
    assert read.request.prediction == "def f(): pass"
    assert read_chat(body(prediction=None)).request.prediction == ""


@pytest.mark.parametrize(
    ("prediction", "param"),
    [
        ("text", "prediction"),
        ({"type": "content"}, "prediction.content"),
        ({"type": "tokens", "content": "x"}, "prediction.type"),
        ({"type": "content", "content": 7}, "prediction.content"),
        ({"type": "content", "content": [{"type": "image_url"}]}, "prediction.content[0].type"),
    ],
)
def test_a_prediction_that_is_no_text_is_refused_by_its_place(prediction: Any, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_chat(body(prediction=prediction))
    assert caught.value.param == param
