from __future__ import annotations

import json

import pytest

from ringleader.language.dialects.qwen_xml import qwen_xml
from ringleader.language.grammar import build
from ringleader.language.tool_choice import normalise
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json, Tool
from tests.unit.language.builders import NOTE, NOW, WEATHER
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.test_grammar import accepts, lets
from tests.unit.language.vocabulary import CHATML, tokenizer_with

TOOLS = (NOTE, NOW, WEATHER)


@pytest.fixture(params=[True, False], ids=["tokens", "plain text"])
def qwen(request: pytest.FixtureRequest) -> Tokenizer:
    return tokenizer_with(["<tool_call>", "</tool_call>"] if request.param else [], CHATML)


def note(text: str) -> str:
    return f"<tool_call>\n<function=note>\n<parameter=text>\n{text}\n</parameter>\n</function>\n</tool_call>"


def test_code_may_contain_what_closes_a_parameter(qwen: Tokenizer) -> None:
    grammar = build(qwen_xml(qwen), TOOLS, normalise("required", TOOLS, True), qwen)
    assert grammar is not None
    for text in ["see </parameter> here\nand </function> too", "a\n</parameter> b", "\nx\n", "</parameter>\n"]:
        assert accepts(qwen, grammar, note(text)), text
        assert hear(qwen_xml(qwen), qwen, note(text), TOOLS).calls == [["note", json.dumps({"text": text})]]


@pytest.mark.parametrize("before", ["", "\n", "I will look.\n", "Well:\n\n"])
def test_a_call_whose_opening_tag_was_forgotten_is_a_call(qwen: Tokenizer, before: str) -> None:
    bare = before + note("x").removeprefix("<tool_call>\n")
    grammar = build(qwen_xml(qwen), TOOLS, normalise("auto", TOOLS, True), qwen)
    assert grammar is not None
    assert accepts(qwen, grammar, bare)
    assert not lets(qwen, grammar, before + "<function=evil>")
    found = hear(qwen_xml(qwen), qwen, bare, TOOLS)
    assert (found.text, found.calls, found.ended) == (before.strip(), [["note", '{"text": "x"}']], [0])


def test_a_function_named_in_the_middle_of_a_line_is_text(qwen: Tokenizer) -> None:
    grammar = build(qwen_xml(qwen), TOOLS, normalise("auto", TOOLS, True), qwen)
    assert grammar is not None
    text = "Write <function=evil> and it works."
    assert accepts(qwen, grammar, text)
    assert hear(qwen_xml(qwen), qwen, text, TOOLS).text == text


def test_several_functions_in_one_block_are_several_calls(qwen: Tokenizer) -> None:
    now = "<function=now>\n</function>\n"
    found = hear(qwen_xml(qwen), qwen, f"<tool_call>\n{now}{now}</tool_call>\nDone", TOOLS)
    assert (found.calls, found.ended, found.text) == ([["now", "{}"]] * 2, [0, 1], "Done")


def test_an_unknown_function_is_given_back_as_text(qwen: Tokenizer) -> None:
    evil = note("x").replace("note", "evil")
    found = hear(qwen_xml(qwen), qwen, evil, TOOLS, constrained=False)
    assert (found.text, found.calls) == (evil, [])


COMPOSED: Json = {
    "type": "object",
    "properties": {"kind": {"$ref": "#/$defs/kind"}},
    "required": ["kind"],
    "anyOf": [
        {"properties": {"name": {"type": "string"}}, "required": ["name"]},
        {"properties": {"id": {"type": "integer"}}, "required": ["id"]},
    ],
    "$defs": {"kind": {"enum": ["a", "b"]}},
}


def test_composed_parameters_are_told_apart(qwen: Tokenizer) -> None:
    tools = (Tool("find", "", COMPOSED),)
    grammar = build(qwen_xml(qwen), tools, normalise("required", tools, True), qwen)
    assert grammar is not None

    def call(**values: Json) -> str:
        lines = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
        return f"<tool_call>\n<function=find>\n{lines}</function>\n</tool_call>"

    assert accepts(qwen, grammar, call(kind="a", name="x"))
    assert accepts(qwen, grammar, call(kind="b", id=3))
    for wrong in (call(kind="c", name="x"), call(kind="a"), call(kind="a", id="x"), call(kind="a", name="x", id=3)):
        assert not accepts(qwen, grammar, wrong)
