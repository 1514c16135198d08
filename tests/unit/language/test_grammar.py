from __future__ import annotations

import json
import time

import pytest
from llguidance import LLMatcher

from ringleader.errors import BadRequest
from ringleader.language.dialects.dialect import Reasoning
from ringleader.language.dialects.json_tags import json_tags
from ringleader.language.grammar import Grammar, build
from ringleader.language.tool_choice import normalise
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json, Tool
from tests.unit.language.builders import NOTE, NOW, WEATHER

OSLO = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}}\n</tool_call>'
TIME = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
TOOLS = (WEATHER, NOW, NOTE)


def grammar(
    tokenizer: Tokenizer,
    choice: Json,
    tools: tuple[Tool, ...] = TOOLS,
    parallel: bool = True,
    reasoning: Reasoning = "possible",
) -> Grammar:
    made = build(json_tags(tokenizer), tools, normalise(choice, tools, parallel), tokenizer, reasoning=reasoning)
    assert made is not None
    return made


def accepts(tokenizer: Tokenizer, made: Grammar, text: str | list[int]) -> bool:
    """Whether `text`, and then the end, is an answer that the grammar lets through."""
    matcher = LLMatcher(tokenizer.grammar_view, made.text, log_level=0)
    ids = tokenizer.encode(text) if isinstance(text, str) else text
    return bool(matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())


def lets(tokenizer: Tokenizer, made: Grammar, text: str) -> bool:
    """Whether an answer may begin with `text`."""
    matcher = LLMatcher(tokenizer.grammar_view, made.text, log_level=0)
    ids = tokenizer.encode(text)
    return bool(matcher.try_consume_tokens(ids) == len(ids))


def spelled(tokenizer: Tokenizer, text: str) -> list[int]:
    """`text` as ordinary tokens, a character each: the way to write a marker that is not the marker."""
    return [token for char in text for token in tokenizer.encode(char)]


def test_a_request_without_tools_has_no_grammar(tokenizer: Tokenizer) -> None:
    assert build(json_tags(tokenizer), (), normalise(None, (), True), tokenizer) is None


def test_required_wants_calls_and_nothing_else(tokenizer: Tokenizer) -> None:
    made = grammar(tokenizer, "required")
    assert accepts(tokenizer, made, OSLO)
    assert accepts(tokenizer, made, f"{OSLO}\n{TIME}\n{OSLO}")
    for wrong in ["", "OK", f"Sure. {OSLO}", f"{OSLO}\nDone.", f"{OSLO}\n\n", OSLO[:-1], " " + OSLO]:
        assert not accepts(tokenizer, made, wrong), wrong


def test_calls_are_bounded(tokenizer: Tokenizer) -> None:
    made = grammar(tokenizer, "required")
    assert accepts(tokenizer, made, "\n".join([TIME] * 16))
    assert not lets(tokenizer, made, "\n".join([TIME] * 16) + "\n<")


@pytest.mark.parametrize("choice", ["required", "auto"])
def test_what_separates_calls_demands_no_further_one(tokenizer: Tokenizer, choice: str) -> None:
    made = grammar(tokenizer, choice)
    assert accepts(tokenizer, made, f"{TIME}\n")
    assert accepts(tokenizer, made, f"{TIME}\n{TIME}\n")
    assert not lets(tokenizer, grammar(tokenizer, choice, parallel=False), f"{TIME}\n")


def test_without_parallel_calls_only_the_end_follows_a_call(tokenizer: Tokenizer) -> None:
    for choice in ("required", "auto"):
        made = grammar(tokenizer, choice, parallel=False)
        assert accepts(tokenizer, made, TIME)
        assert not lets(tokenizer, made, f"{TIME}\n")


def test_a_named_tool_is_called_exactly_once(tokenizer: Tokenizer) -> None:
    made = grammar(tokenizer, {"type": "function", "function": {"name": "now"}})
    assert accepts(tokenizer, made, TIME)
    assert not lets(tokenizer, made, OSLO)
    assert not lets(tokenizer, made, f"{TIME}\n")


def test_auto_may_talk_and_call_and_stop_at_any_point(tokenizer: Tokenizer) -> None:
    made = grammar(tokenizer, "auto")
    for answer in ["", "Hello", "3 < 4 and <tool", "Let me see.\n" + OSLO, OSLO, f"{OSLO}\n{TIME}", "two\nlines\n"]:
        assert accepts(tokenizer, made, answer), answer
    for wrong in [OSLO + "\nmore", "<tool_call> is a tag", OSLO.replace("get_weather", "evil"), OSLO[:-1]]:
        assert not accepts(tokenizer, made, wrong), wrong


def test_allowed_tools_restrict_the_calls_of_auto(tokenizer: Tokenizer) -> None:
    made = grammar(tokenizer, {"type": "allowed_tools", "mode": "auto", "tools": [{"name": "now"}]})
    assert accepts(tokenizer, made, "Hm. " + TIME)
    assert not lets(tokenizer, made, OSLO)


def test_none_makes_the_marker_impossible(tokenizer: Tokenizer) -> None:
    made = grammar(tokenizer, "none")
    assert accepts(tokenizer, made, "Use the tag <tool or </tool_call, and {} as ever.\n")
    assert not lets(tokenizer, made, "So: <tool_call>")


def test_a_marker_spelled_in_ordinary_tokens_is_text_where_the_marker_is_a_token(marked: Tokenizer) -> None:
    for choice in ("none", "auto"):
        assert accepts(marked, grammar(marked, choice), spelled(marked, "<tool_call> is a tag"))


def test_markers_inside_a_string_are_text(tokenizer: Tokenizer) -> None:
    made = grammar(tokenizer, "note")
    head = '<tool_call>\n{"name": "note", "arguments": {"text": "'
    ids = (
        tokenizer.encode(head) + spelled(tokenizer, "</tool_call> <tool_call>") + tokenizer.encode('"}}\n</tool_call>')
    )
    assert accepts(tokenizer, made, ids)


def test_an_answer_may_begin_with_reasoning_where_the_model_reasons(marked: Tokenizer) -> None:
    for choice in ("auto", "none"):
        made = grammar(marked, choice)
        assert accepts(marked, made, "<think>\nhm\n</think>\n\nYes.")
        assert not lets(marked, made, "<think>\nhm <tool_call>")
        assert not lets(marked, made, "Yes. <think>")
    assert accepts(marked, grammar(marked, "auto"), "<think>\nhm\n</think>\n\n" + OSLO)


def test_a_forced_call_may_be_thought_about_first_and_nothing_else(tokenizer: Tokenizer, marked: Tokenizer) -> None:
    made = grammar(marked, "required")
    assert accepts(marked, made, "<think>\nhm\n</think>\n\n" + OSLO)
    assert accepts(marked, made, OSLO)
    for wrong in ["<think>hm</think>\n\nYes", "<think>hm</think>" + "\n" * 5, "<think><tool_call>"]:
        assert not lets(marked, made, wrong), wrong
    begun = grammar(tokenizer, "required", reasoning="begun")
    assert accepts(tokenizer, begun, "hm 3 < 4\n</think>\n\n" + OSLO)
    for wrong in ["hm", "hm</think>\n", "hm</think>Yes"]:
        assert not accepts(tokenizer, begun, wrong), wrong
    over = grammar(marked, "required", reasoning="over")
    assert accepts(marked, over, OSLO)
    assert not lets(marked, over, "<think>")


def test_reasoning_that_the_prompt_began_may_end_and_be_followed_by_an_answer(tokenizer: Tokenizer) -> None:
    made = grammar(tokenizer, "auto", reasoning="begun")
    for answer in ["I see.\n</think>\n\nYes.", "hm</think>" + OSLO, "cut off"]:
        assert accepts(tokenizer, made, answer), answer
    assert not lets(tokenizer, made, "hm</think> a <tool_call> x")


def test_values_have_no_free_whitespace_and_the_declared_order(tokenizer: Tokenizer) -> None:
    made = grammar(tokenizer, "get_weather")
    for wrong in [OSLO.replace(", ", ",\n"), OSLO.replace(": ", ":"), OSLO.replace('{"city"', '{ "city"')]:
        assert not lets(tokenizer, made, wrong), wrong
    assert not lets(tokenizer, made, OSLO.replace('"city": "Oslo", "days": 3', '"days": 3, "city": "Oslo"'))
    assert not lets(tokenizer, made, OSLO.replace("3}", "12}"))
    assert not lets(tokenizer, made, OSLO.replace("3}", '3, "extra": 1}'))


def test_names_that_begin_with_each_other_are_told_apart(tokenizer: Tokenizer) -> None:
    tools = (Tool("get"), Tool("get_all"), Tool("9-get_" + "x" * 58))
    made = grammar(tokenizer, "required", tools)
    for tool in tools:
        assert accepts(tokenizer, made, TIME.replace("now", tool.name)), tool.name


def test_properties_may_be_named_like_the_wrapper_itself(tokenizer: Tokenizer) -> None:
    names = ["name", "arguments", "_name", "type", "$ref", "function"]
    tool = Tool("now", "", {"type": "object", "properties": {n: {"type": "integer"} for n in names}, "required": names})
    arguments = json.dumps(dict.fromkeys(names, 1))
    assert accepts(tokenizer, grammar(tokenizer, "now", (tool,)), TIME.replace("{}", arguments))


def test_references_point_into_the_tools_own_schema(tokenizer: Tokenizer) -> None:
    tree = {
        "type": "object",
        "properties": {"value": {"$ref": "#/definitions/v"}, "child": {"$ref": "#"}},
        "definitions": {"v": {"type": "integer"}},
    }
    made = grammar(tokenizer, "now", (Tool("now", "", tree),))
    assert accepts(tokenizer, made, TIME.replace("{}", '{"value": 1, "child": {"value": 2}}'))


# ---------------------------------------------------------------- schemas that cannot be enforced

PARTLY = {"type": "object", "properties": {"x": {"type": "string", "not": {"const": "a"}}}}


@pytest.mark.parametrize("choice", ["required", "bad", "auto"])
def test_a_strict_tool_that_cannot_be_enforced_is_refused_wherever_it_may_be_called(
    tokenizer: Tokenizer, choice: str
) -> None:
    tools = (NOW, Tool("bad", "", PARTLY, strict=True))
    with pytest.raises(BadRequest) as caught:
        grammar(tokenizer, choice, tools)
    assert caught.value.param == "tools[1].function.parameters"
    assert caught.value.code == "invalid_function_parameters"
    assert "function 'bad': the keyword 'not' cannot be enforced. Take that out" in str(caught.value)
    for spared in ("none", "now"):
        grammar(tokenizer, spared, tools)


@pytest.mark.parametrize("choice", ["auto", "required", "bad"])
@pytest.mark.parametrize("strict", [None, False])
def test_any_other_tool_is_enforced_as_far_as_it_can_be_with_a_warning_and_a_check(
    tokenizer: Tokenizer, choice: str, strict: bool | None
) -> None:
    made = grammar(tokenizer, choice, (NOW, Tool("bad", "", PARTLY, strict)))
    (warning,) = made.warnings
    assert warning.startswith("tools[1].function.parameters is not wholly enforced, each call of 'bad' is checked")
    assert "'not'" in warning
    assert made.checks["bad"].schema == PARTLY
    assert set(made.checks) == {"bad"}
    call = TIME.replace("now", "bad")
    assert accepts(tokenizer, made, call.replace("{}", '{"x": "b"}'))
    assert not lets(tokenizer, made, call.replace("{}", '{"x": 1'))


GREEDY = {"type": "object", "properties": {"x": {"type": "string", "pattern": "(.{0,2000}a.{0,2000}){2000}"}}}


@pytest.mark.parametrize("strict", [None, True])
def test_a_pattern_that_outgrows_the_engine_is_refused_at_the_door_by_its_place(
    tokenizer: Tokenizer, strict: bool | None
) -> None:
    tools = (NOW, Tool("bad", "", GREEDY, strict))
    for choice in ("auto", "bad"):
        with pytest.raises(BadRequest, match=r"a\.\{0,2000\}\)\{2000\}.* outgrows .* Make it simpler") as caught:
            grammar(tokenizer, choice, tools)
        assert (caught.value.param, caught.value.code) == ("tools[1].function.parameters", "grammar_too_complex")
    grammar(tokenizer, "now", tools)


def test_the_places_of_patterns_are_known_for_those_that_outgrow_it_later(tokenizer: Tokenizer) -> None:
    coded = Tool("coded", "", {"type": "object", "properties": {"x": {"type": "string", "pattern": "^[a-z]{3}$"}}})
    assert grammar(tokenizer, "auto", (NOW, coded)).patterned == ("tools[1].function.parameters",)
    assert grammar(tokenizer, "now", (NOW, coded)).patterned == ()


def test_a_tool_that_may_not_be_called_is_not_judged(tokenizer: Tokenizer) -> None:
    tools = (NOW, Tool("bad", "", {"type": "object", "properties": {"x": {"pattern": "("}}}))
    assert accepts(tokenizer, grammar(tokenizer, "now", tools), TIME)
    assert accepts(tokenizer, grammar(tokenizer, "none", tools), "Hello")


def _object(part: Json, **more: Json) -> Json:
    return {"type": "object", "properties": {"x": part}, "required": ["x"], **more}


HOSTILE: dict[str, Json] = {
    "unclosed group": _object({"type": "string", "pattern": "("}),
    "look-ahead": _object({"type": "object", "patternProperties": {"(?=a)": {}}}),
    "reference to nowhere": _object({"$ref": "#/$defs/no"}),
    "remote reference": _object({"$ref": "http://localhost/schema"}),
    "reference to itself": {"$ref": "#"},
    "endless definitions": _object({"$ref": "#/$defs/a"}, **{"$defs": {"a": _object({"$ref": "#/$defs/a"})}}),
    "minimum over maximum": _object({"type": "integer", "minimum": 9, "maximum": 1}),
    "empty enum": _object({"enum": []}),
    "unknown type": _object({"type": "strin"}),
    "type of a wrong type": _object({"type": {}}),
    "properties of a wrong type": {"type": "object", "properties": []},
    "required of a wrong type": {"type": "object", "properties": {"x": {}}, "required": "x"},
    "no object": {"type": "string"},
    "number out of range": _object({"type": "integer", "minimum": 10**400}),
    "not a number": _object({"type": "number", "minimum": float("nan")}),
    "half a surrogate pair": _object({"const": "\ud800"}),
    "explosive composition": _object(
        {"allOf": [{"anyOf": [{"type": "string", "pattern": f"a{i}{j}"} for j in range(6)]} for i in range(8)]}
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("choice", ["required", "auto"])
def test_a_hostile_schema_is_refused_quickly(plain: Tokenizer, name: str, choice: str) -> None:
    begun = time.perf_counter()
    with pytest.raises(BadRequest) as caught:
        grammar(plain, choice, (NOW, Tool("bad", "", HOSTILE[name])))
    assert time.perf_counter() - begun < 2
    assert caught.value.param == "tools[1].function.parameters"


@pytest.mark.parametrize("pattern", ["^(a+)+$", "[a-z]{1,100000}", "^((a{1,100}){1,100}){1,100}$", "^(.*a.{30})$"])
def test_a_pattern_that_ruins_others_is_enforced_or_refused_but_never_hangs(plain: Tokenizer, pattern: str) -> None:
    begun = time.perf_counter()
    try:
        made = grammar(plain, "now", (Tool("now", "", _object({"type": "string", "pattern": pattern})),))
        lets(plain, made, TIME.replace("{}", '{"x": "' + "a" * 40))
    except BadRequest:
        pass
    assert time.perf_counter() - begun < 2


def test_many_tools_compile(plain: Tokenizer) -> None:
    tools = tuple(Tool(f"tool_{n}", "", WEATHER.parameters) for n in range(400))
    made = grammar(plain, "required", tools)
    assert accepts(plain, made, OSLO.replace("get_weather", "tool_399"))
