"""The spellings of calls with one piece of markup for each parameter, beyond the one that Qwen writes."""

from __future__ import annotations

import json

import pytest
from llguidance import LLMatcher

from ringleader.language.detokenizer import Detokenizer
from ringleader.language.dialects.dialect import Arguments, CallRule, Ended, Marker, Started, marker
from ringleader.language.dialects.typed_form import TypedForm, TypedReader
from ringleader.language.schema import closed, grammar_text
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json
from tests.unit.language.builders import NOW, WEATHER
from tests.unit.language.vocabulary import tokenizer_with

GLM = ["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"]
DSML = ["｜DSML｜"]
TOOLS = (WEATHER, NOW)
SCHEMAS = {tool.name: tool.parameters or {} for tool in TOOLS}


def glm(tokenizer: Tokenizer) -> TypedForm:
    def made(text: str) -> Marker:
        return marker(tokenizer, text)

    return TypedForm(
        call_begin=made(""),
        name_end=made("\n"),
        key_begin=made("<arg_key>"),
        key_end=made("</arg_key>\n<arg_value>"),
        value_end=made("</arg_value>\n"),
        call_end=made("</tool_call>"),
        close=made("</tool_call>"),
    )


def dsml(tokenizer: Tokenizer) -> TypedForm:
    def made(text: str) -> Marker:
        return marker(tokenizer, text)

    return TypedForm(
        call_begin=made('<｜DSML｜invoke name="'),
        name_end=made('">\n'),
        key_begin=made('<｜DSML｜parameter name="'),
        key_end=made('" string="true">'),
        key_end_json=made('" string="false">'),
        value_end=made("</｜DSML｜parameter>\n"),
        call_end=made("</｜DSML｜invoke>\n"),
        close=made("</｜DSML｜function_calls>"),
    )


GLM_CALL = (
    "get_weather\n<arg_key>city</arg_key>\n<arg_value>Oslo <3</arg_value>\n"
    "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"
)
DSML_CALL = (
    '<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Oslo <3</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
)


def cases() -> list[tuple[TypedForm, Tokenizer, str, str, str]]:
    found = []
    for special in (GLM, []):
        tokenizer = tokenizer_with(special)
        found.append((glm(tokenizer), tokenizer, GLM_CALL, "now\n</tool_call>", ""))
    for special in (DSML, []):
        tokenizer = tokenizer_with(special)
        form = dsml(tokenizer)
        empty = '<｜DSML｜invoke name="now">\n</｜DSML｜invoke>\n'
        found.append((form, tokenizer, DSML_CALL, empty, "</｜DSML｜function_calls>"))
    return found


def read(form: TypedForm, tokenizer: Tokenizer, text: str) -> tuple[str, list[tuple[str, Json]]]:
    reader = TypedReader(form, SCHEMAS)
    known = {token: marker(tokenizer, tokenizer.decode([token])) for token in tokenizer.encode("".join(GLM + DSML))}
    events = []
    detokenizer = Detokenizer(tokenizer)
    for token in tokenizer.encode(text):
        if tokenizer.is_special(token):
            events += reader.meet(known[token])
        else:
            for char in detokenizer.feed(token):
                events += reader.push(char)
    calls: list[tuple[str, str]] = []
    for event in events:
        if isinstance(event, Started):
            calls.append((event.name, ""))
        elif isinstance(event, Arguments):
            calls[-1] = (calls[-1][0], calls[-1][1] + event.text)
    assert len([event for event in events if isinstance(event, Ended)]) == len(calls)
    return reader.state, [(name, json.loads(arguments)) for name, arguments in calls]


@pytest.mark.parametrize("case", range(4))
def test_what_the_grammar_allows_is_what_the_reader_reads(case: int) -> None:
    form, tokenizer, call, empty, close = cases()[case]
    schemas = [(tool.name, closed(tool.parameters)) for tool in TOOLS]
    rules = [CallRule(name, grammar_text(schema, lenient=False), schema) for name, schema in schemas]
    grammar = str(LLMatcher.grammar_from_lark(f"start: one\n{form.rules('one', rules)}"))
    for text in (call, empty):
        matcher = LLMatcher(tokenizer.grammar_view, grammar, log_level=0)
        ids = tokenizer.encode(text)
        assert matcher.try_consume_tokens(ids) == len(ids), matcher.get_error()
        assert matcher.is_accepting()
    for wrong in (call.replace(">3<", ">x<"), call.replace("get_weather", "now")):
        matcher = LLMatcher(tokenizer.grammar_view, grammar, log_level=0)
        assert matcher.try_consume_tokens(tokenizer.encode(wrong)) < len(tokenizer.encode(wrong))
    assert read(form, tokenizer, call + close) == ("done", [("get_weather", {"city": "Oslo <3", "days": 3})])
    assert read(form, tokenizer, empty + close) == ("done", [("now", {})])
    if close:
        assert [name for name, _ in read(form, tokenizer, call + empty + close)[1]] == ["get_weather", "now"]


def test_whitespace_between_markup_of_special_tokens_is_the_models_affair() -> None:
    for form, tokenizer, call, _, close in cases()[::2]:
        loose = call.replace(">\n<", "> \n\n <").replace("\n</", "</") + "\n" + close
        assert read(form, tokenizer, loose)[1] == [("get_weather", {"city": "Oslo <3", "days": 3})]
