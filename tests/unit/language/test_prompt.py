from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from ringleader.errors import BadRequest, ContextTooLong
from ringleader.language.prompt import check_history, compose, parser, voice
from ringleader.tokenizer import Tokenizer
from ringleader.values import ChatRequest, Delta, Json, Message, Tool, ToolCall
from tests.unit.language.builders import NOW, QUESTION, WEATHER, collect, request
from tests.unit.language.vocabulary import CHATML, with_template
from tests.unit.language.walking import walk

CONTEXT = 4096
ASKED = Message("assistant", None, tool_calls=(ToolCall("c1", "now", "{}"),))


def test_the_opening_is_the_end_of_the_ids(opener: Tokenizer) -> None:
    prompt = compose(voice(opener, CONTEXT), request("get_weather"))
    assert prompt.opening
    assert prompt.ids[-len(prompt.opening) :] == prompt.opening
    text = opener.decode(prompt.ids)
    assert '<|im_start|>assistant\n<tool_call>\n{"name": "get_weather", "arguments":' in text


def test_the_choice_changes_the_grammar_and_not_the_prompt(opener: Tokenizer) -> None:
    one_only = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"name": "now"}]}}
    prompts = [
        compose(voice(opener, CONTEXT), request(choice)) for choice in ("auto", "none", one_only, "required", "now")
    ]
    bodies = {prompt.ids[: len(prompt.ids) - len(prompt.opening)] for prompt in prompts}
    assert len(bodies) == 1
    assert len({prompt.grammar for prompt in prompts}) == 5


def test_a_plain_chat_has_neither_opening_nor_grammar(tokenizer: Tokenizer) -> None:
    prompt = compose(voice(tokenizer, CONTEXT), request(tools=()))
    assert (prompt.opening, prompt.grammar, prompt.thinking_open, prompt.warnings) == ((), None, False, ())


def test_a_prompt_that_ends_inside_reasoning_says_so(thinking: Tokenizer) -> None:
    prompt = compose(voice(thinking, CONTEXT), request("auto"))
    assert prompt.thinking_open
    asked = request("auto")
    deltas = parser(voice(thinking, CONTEXT), prompt, asked).feed(thinking.encode("hm</think>\n\nYes."))
    assert collect(deltas).reasoning == "hm"


def test_a_forced_call_leaves_the_model_its_reasoning(thinking: Tokenizer) -> None:
    asked = request("now")
    prompt = compose(voice(thinking, CONTEXT), asked)
    assert prompt.thinking_open
    assert prompt.opening == ()
    assert thinking.decode(prompt.ids).endswith("<think>\n")
    deltas = parser(voice(thinking, CONTEXT), prompt, asked).feed(
        thinking.encode('Hm.\n</think>\n\n<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>')
    )
    found = collect(deltas)
    assert (found.reasoning, found.calls, found.text) == ("Hm.", [["now", "{}"]], "")


def test_a_forced_call_opens_at_once_where_the_prompt_has_closed_the_reasoning(marked: Tokenizer) -> None:
    closing = CHATML.replace("assistant\\n' }}{% endif %}", "assistant\\n<think>\\n\\n</think>\\n\\n' }}{% endif %}")
    prompt = compose(voice(with_template(marked, closing), CONTEXT), request("now"))
    assert marked.decode(prompt.opening) == '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'


def test_reasoning_that_is_not_wanted_is_closed_before_it_begins(thinking: Tokenizer, marked: Tokenizer) -> None:
    asked = replace(request("now"), thinking=False)
    prompt = compose(voice(thinking, CONTEXT), asked)
    assert not prompt.thinking_open
    assert thinking.decode(prompt.ids).endswith(f"<think>\n\n</think>\n\n{thinking.decode(prompt.opening)}")
    assert thinking.decode(prompt.opening) == '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    for wanted in (None, True):
        assert compose(voice(thinking, CONTEXT), replace(asked, thinking=wanted)).thinking_open


@pytest.mark.parametrize("switch", ["enable_thinking", "thinking"])
def test_a_template_with_a_switch_for_reasoning_is_asked_by_it(marked: Tokenizer, switch: str) -> None:
    asked = "{% if SWITCH %}<think>{% else %}<think></think>{% endif %}".replace("SWITCH", switch)
    choice = f"{{% if {switch} is defined %}}{asked}{{% endif %}}"
    spoken = voice(with_template(marked, CHATML + choice), CONTEXT)
    ends = {True: "<think>", False: "<think></think>", None: "assistant\n"}
    for wanted, end in ends.items():
        prompt = compose(spoken, replace(request(tools=()), thinking=wanted))
        assert marked.decode(prompt.ids).endswith(end)
        assert prompt.thinking_open == (wanted is True)


def test_ids_and_opening_are_what_the_tokenizer_makes_of_the_text(tokenizer: Tokenizer) -> None:
    for choice in ("get_weather", "required", "now", "auto"):
        prompt = compose(voice(tokenizer, CONTEXT), request(choice))
        assert tokenizer.encode(tokenizer.decode(prompt.ids)) == list(prompt.ids)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("messages", "param", "said"),
    [
        ((), "messages", "is empty"),
        (
            (*QUESTION, Message("tool", "x", tool_call_id="c1")),
            "messages[1].role",
            "must be a response to a preceeding",
        ),
        ((Message("tool", "x", tool_call_id="c1"),), "messages[0].role", "must be a response"),
        (
            (*QUESTION, Message("assistant", "a"), Message("tool", "x", tool_call_id="c1")),
            "messages[2].role",
            "must be a",
        ),
        (
            (*QUESTION, ASKED, Message("tool", "x", tool_call_id="c2")),
            "messages[2].tool_call_id",
            "'c2' names none of the calls",
        ),
        ((*QUESTION, ASKED, Message("tool", "x")), "messages[2].tool_call_id", "None names none"),
        (
            (*QUESTION, ASKED, Message("user", "y"), Message("tool", "x", tool_call_id="c1")),
            "messages[3].role",
            "must be a",
        ),
    ],
)
def test_a_history_that_makes_no_sense_is_refused_by_its_message(
    plain: Tokenizer, messages: tuple[Message, ...], param: str, said: str
) -> None:
    with pytest.raises(BadRequest, match=said) as caught:
        compose(voice(plain, CONTEXT), request(messages=messages))
    assert caught.value.param == param


def test_results_in_any_order_and_calls_without_results_are_accepted() -> None:
    calls = Message("assistant", tool_calls=(ToolCall("a", "now", ""), ToolCall("b", "now", "{broken")))
    check_history((*QUESTION, calls, Message("tool", "", tool_call_id="b"), Message("tool", None, tool_call_id="a")))
    check_history((*QUESTION, calls, Message("user", "never mind")))


def test_a_prompt_longer_than_the_context_is_refused_with_the_numbers(plain: Tokenizer) -> None:
    length = len(compose(voice(plain, CONTEXT), request()).ids)
    with pytest.raises(ContextTooLong) as caught:
        compose(voice(plain, length), request())
    assert str(caught.value) == (
        f"This model's maximum context length is {length} tokens. However, your messages resulted in {length} tokens. "
        "Please reduce the length of the messages."
    )
    assert (caught.value.param, caught.value.code) == ("messages", "context_length_exceeded")
    assert compose(voice(plain, length + 1), request()).ids


def test_a_completion_that_does_not_fit_beside_the_prompt_is_refused_with_the_numbers(plain: Tokenizer) -> None:
    length = len(compose(voice(plain, CONTEXT), request()).ids)
    assert compose(voice(plain, length + 10), request(max_tokens=10)).ids
    with pytest.raises(ContextTooLong) as caught:
        compose(voice(plain, length + 10), request(max_tokens=11))
    assert f"you requested {length + 11} tokens ({length} in the messages, 11 in the completion)" in str(caught.value)


def test_the_opening_counts_as_prompt(plain: Tokenizer) -> None:
    prompt = compose(voice(plain, CONTEXT), request("get_weather"))
    with pytest.raises(ContextTooLong):
        compose(voice(plain, len(prompt.ids)), request("get_weather"))


def test_a_hostile_schema_is_refused_whatever_the_choice(plain: Tokenizer) -> None:
    deep: Json = {}
    for _ in range(2000):
        deep = {"type": "object", "properties": {"a": deep}}
    for choice in ("none", "auto", "now"):
        with pytest.raises(BadRequest, match="nests deeper"):
            compose(voice(plain, CONTEXT), request(choice, (NOW, Tool("bad", "", deep))))


def test_warnings_of_the_schemas_come_with_the_prompt(plain: Tokenizer) -> None:
    partly = Tool(
        "bad", "", {"type": "object", "properties": {"x": {"uniqueItems": True, "type": "array", "items": {}}}}
    )
    assert "tools[1].function.parameters" in compose(voice(plain, CONTEXT), request("auto", (NOW, partly))).warnings[0]


# ---------------------------------------------------------------- any model at all

BOUNDED = Tool(
    "plan",
    "Plan a trip.",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 8},
            "days": {"type": "integer", "minimum": 1, "maximum": 30},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
            "unit": {"anyOf": [{"enum": ["c", "f"]}, {"type": "null"}]},
            "place": {
                "type": "object",
                "properties": {"zip": {"type": "string", "pattern": "^[0-9]{4}$"}, "near": {"type": "boolean"}},
                "required": ["zip"],
            },
        },
        "required": ["city", "days", "place"],
    },
)


def answered(tokenizer: Tokenizer, asked: ChatRequest, seed: int) -> list[tuple[str, Json]]:
    spoken = voice(tokenizer, CONTEXT)
    prompt = compose(spoken, asked)
    answer = walk(tokenizer, prompt.grammar, seed, prompt.opening)
    reader = parser(spoken, prompt, asked)
    deltas: list[Delta] = reader.open(prompt.opening)
    deltas += reader.feed(answer) + reader.finish("stop")
    found = collect(deltas)
    assert found.text == ""
    assert found.ended == list(range(len(found.calls)))
    assert reader.finish_reason("stop") == "tool_calls"
    return [(name, json.loads(arguments)) for name, arguments in found.calls]


@pytest.mark.parametrize("seed", range(200))
def test_a_forced_call_arrives_and_validates_whatever_the_model_prefers(tokenizer: Tokenizer, seed: int) -> None:
    ((name, arguments),) = answered(tokenizer, request("plan", (NOW, BOUNDED)), seed)
    assert name == "plan"
    assert BOUNDED.parameters is not None
    jsonschema.validate(arguments, BOUNDED.parameters)
    assert set(arguments) <= set(BOUNDED.parameters["properties"])


@pytest.mark.parametrize("seed", range(30))
def test_required_brings_calls_to_the_tools_and_nothing_else(tokenizer: Tokenizer, seed: int) -> None:
    calls = answered(tokenizer, request("required", (NOW, BOUNDED, WEATHER)), seed)
    schemas = {tool.name: tool.parameters or {} for tool in (NOW, BOUNDED, WEATHER)}
    assert 1 <= len(calls) <= 16
    for name, arguments in calls:
        jsonschema.validate(arguments, schemas[name])


def test_a_parser_without_a_grammar_knows_that_nothing_is_sure(plain: Tokenizer) -> None:
    spoken = voice(plain, CONTEXT)
    prompt = replace(compose(spoken, request("auto")), grammar=None)
    reader = parser(spoken, prompt, request("auto"))
    broken = '<tool_call>\n{"name": "now", "arguments": {"a": oops}}\n</tool_call>'
    assert collect(reader.feed(plain.encode(broken)) + reader.finish("stop")).text == broken
