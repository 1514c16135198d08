"""What is Python's own: lists that are no calls, the words and quotes of both languages, keys that are no names."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from llguidance import LLMatcher

from ringleader.language.dialects.pythonic import lfm2, olmo3, pythonic
from ringleader.language.prompt import compose, parser, voice
from ringleader.values import ContentFormat, CustomGrammar, Json, Tool
from tests.unit.language.builders import NOTE, NOW, collect, request
from tests.unit.language.dialects.families_pythonic import BARE, LFM2
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import tokenizer_with

TOKENIZER = tokenizer_with((), BARE)
DIALECT = pythonic(TOKENIZER)
VOICE = voice(TOKENIZER, 8192)
LINES = Tool("exec", kind="custom", grammar=CustomGrammar("lark", "start: /[a-z\\n]+/"))


def is_legal(answer: str, choice: Json = "auto", tools: tuple[Tool, ...] = (NOW, NOTE), **more: Json) -> bool:
    prompt = compose(VOICE, replace(request(choice, tools), **more))
    matcher = LLMatcher(TOKENIZER.grammar_view, prompt.grammar, log_level=0)
    ids = TOKENIZER.encode(answer)
    return bool(matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())


def tool(parameters: Json) -> Tool:
    return Tool("f", "", {"type": "object", "properties": parameters, "required": list(parameters)})


@pytest.mark.parametrize("text", ["[1] is a list", '["a", "b"]', "[link](https://x)", "See [now()]", "[now]", "[]"])
def test_text_in_brackets_is_text(text: str) -> None:
    assert is_legal(text)
    assert hear(DIALECT, TOKENIZER, text, (NOW,)).text == text
    assert is_legal(text, "none")


def test_text_cannot_begin_as_a_call_of_something_else() -> None:
    for choice in ("auto", "none"):
        assert not is_legal("[evil()]", choice)
        assert not is_legal("  [evil(x=1), now()]", choice)
    assert not is_legal("[now()]", "none")
    assert is_legal("\n[now(), now()]")
    assert not is_legal("[now()] and more")


def test_a_call_that_is_none_is_text() -> None:
    for answer in ("[evil()] is bad", "[now(", "[now(1)]"):
        assert hear(DIALECT, TOKENIZER, answer, (NOW,)).ended == []
    assert hear(DIALECT, TOKENIZER, "[evil()] is bad", (NOW,)).text == "[evil()] is bad"


def test_an_answer_of_a_form_may_be_a_list() -> None:
    schema: dict[str, Json] = {"type": "array", "items": {"type": "string"}}
    form = ContentFormat("json_schema", "n", schema)
    for answer in ('["now", "x"]', "[]", "[now()]"):
        assert is_legal(answer, content=form)
    wish = replace(request("auto", (NOW,)), content=form)
    reader = parser(VOICE, compose(VOICE, wish), wish)
    assert collect(reader.feed(TOKENIZER.encode('["now"]')) + reader.finish("stop")).text == '["now"]'


def test_a_raw_call_follows_the_bracket() -> None:
    wish = request("auto", (NOW, LINES))
    prompt = compose(VOICE, wish)
    ids = TOKENIZER.encode("[exec\nls\npwd")
    matcher = LLMatcher(TOKENIZER.grammar_view, prompt.grammar, log_level=0)
    assert matcher.try_consume_tokens(ids) == len(ids)
    reader = parser(VOICE, prompt, wish)
    found = collect(reader.feed(ids) + reader.finish("stop"))
    assert (found.calls, found.ended) == ([["exec", "ls\npwd"]], [0])
    assert is_legal("[now()]", tools=(NOW, LINES))
    assert is_legal("[x] or", tools=(NOW, LINES))


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "boolean"}, ["True", "false"], ["1", '"True"', "None"]),
        ({"type": ["integer", "null"]}, ["3", "None", "null"], ["3.5", "True"]),
        ({"enum": ["a", None, 1, ["x", True]]}, ['"a"', "'a'", "None", "1", '["x", True]'], ['"b"', "2"]),
        ({"const": "it's"}, ['"it\'s"'], ["'it's'", '"its"']),
        ({"type": "string", "maxLength": 2}, ["'ab'", '"é"', "'\\''"], ["'abc'", '"abc"']),
        ({"type": "string", "pattern": "^a+$"}, ['"aa"', "'aa'"], ["'ab'", '"b"']),
        ({"type": "string", "format": "date"}, ['"2024-01-02"'], ['"soon"', "'soon'"]),
        (
            {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2},
            ["[True]"],
            ["[]", "[True, True, True]"],
        ),
        ({"type": "array", "maxItems": 0}, ["[]"], ["[1]"]),
        ({"type": "object"}, ["{}", '{"a": True, \'b\': [None, {"c": 1.5}]}'], ["{a: 1}", "3"]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, ['{"a": 1}'], ['{"a": True}']),
        ({"anyOf": [{"type": "boolean"}, {"type": "string", "minLength": 1}]}, ["True", "'x'"], ["''", "3"]),
        ({"type": "integer", "minimum": 1, "maximum": 9}, ["5"], ["10"]),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, ["5"], ["1"]),
        ({"type": "array", "prefixItems": [{"type": "boolean"}], "items": False}, ["[true]"], ["[1]"]),
        ({}, ["1", "'x'", "[True, {}]"], ["x", "(1)"]),
    ],
)
def test_values_are_spelled_by_their_schema(schema: dict[str, Json], good: list[str], bad: list[str]) -> None:
    one = tool({"v": schema})
    for text in good:
        assert is_legal(f"[f(v={text})]", "required", (one,)), text
        ((_, arguments),) = hear(DIALECT, TOKENIZER, f"[f(v={text})]", (one,)).calls
        jsonschema.validate(json.loads(arguments), one.parameters)
    for text in bad:
        assert not is_legal(f"[f(v={text})]", "required", (one,)), text


def test_optional_arguments_may_be_left_out_wherever_they_stand() -> None:
    names = ["a", "b", "ab", "c"]
    properties = {name: {"type": "integer"} for name in names}
    one = Tool("f", "", {"type": "object", "properties": properties, "required": ["ab"]})
    for left_out in range(8):
        kept = [n for i, n in enumerate(["a", "b", "c"]) if left_out >> i & 1]
        written = ", ".join(f"{name}=1" for name in names if name == "ab" or name in kept)
        assert is_legal(f"[f({written})]", "required", (one,))
    for wrong in ("", "a=1", "ab=1, a=1", "ab=1, ", ", ab=1", "ab=1, ab=1", "ab=1,c=1"):
        assert not is_legal(f"[f({wrong})]", "required", (one,))


def test_a_recursive_schema_is_spelled_all_the_way_down() -> None:
    tree = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "next": {"$ref": "#/$defs/tree"}},
        "required": ["ok"],
    }
    one = Tool("f", "", {"type": "object", "properties": {"t": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}})
    assert is_legal('[f(t={"ok": True, "next": {"ok": False, "next": {"ok": True}}})]', "required", (one,))
    assert not is_legal('[f(t={"ok": True, "next": {"ok": 1}})]', "required", (one,))


def test_arguments_that_are_no_names_in_python_are_quoted() -> None:
    one = tool({"foo-bar": {"type": "integer"}, "a b": {"type": "integer"}, "x=": {"type": "integer"}})
    answer = '[f(foo-bar=1, "a b"=2, "x="=3)]'
    assert is_legal(answer, "required", (one,))
    ((_, arguments),) = hear(DIALECT, TOKENIZER, answer, (one,)).calls
    assert json.loads(arguments) == {"foo-bar": 1, "a b": 2, "x=": 3}


def test_lfm2_may_forget_brackets_or_separate_blocks() -> None:
    tokenizer = tokenizer_with(LFM2)
    for text in (
        "{0}[now(), now()]{1}",
        "{0}[now()]{1}\n{0}[now()]{1}",
        "{0} now(), now() {1}",
        "{0}[now(),\n now()] {1}",
    ):
        found = hear(lfm2(tokenizer), tokenizer, text.format(*LFM2), (NOW,))
        assert (found.calls, found.text) == ([["now", "{}"]] * 2, "")


def test_olmo_may_write_lines_of_its_own_around_its_calls() -> None:
    tokenizer = tokenizer_with()
    for inside in ("now()\nnow()", "\nnow()\nnow()\n", "\n\n now()\n\nnow() "):
        found = hear(olmo3(tokenizer), tokenizer, f"Ok.\n<function_calls>{inside}</function_calls>", (NOW,))
        assert (found.calls, found.text) == ([["now", "{}"]] * 2, "Ok.")
