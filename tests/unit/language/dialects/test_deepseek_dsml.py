from __future__ import annotations

import pytest
from llguidance import LLMatcher

from ringleader.language.dialects.deepseek_dsml import deepseek_dsml
from ringleader.language.prompt import compose, voice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Tool
from tests.unit.language.builders import NOTE, NOW, request
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import CHATML, tokenizer_with

V4 = CHATML + "{# <｜DSML｜tool_calls> #}"
V32 = CHATML + "{# <｜DSML｜function_calls> #}"
OPTIONAL = Tool("maybe", "All may be left out.", {"type": "object", "properties": {"n": {"type": "integer"}}})


def opened(tokenizer: Tokenizer) -> str:
    return deepseek_dsml(tokenizer).opens[0].marker.text


def test_the_tag_around_calls_is_the_templates_and_else_the_vocabularys() -> None:
    assert opened(tokenizer_with(["｜DSML｜"], V4)) == "<｜DSML｜tool_calls>"
    assert opened(tokenizer_with(["｜DSML｜"], V32)) == "<｜DSML｜function_calls>"
    assert opened(tokenizer_with(["｜DSML｜"], None)) == "<｜DSML｜function_calls>"
    assert opened(tokenizer_with(["｜DSML｜", "<｜latest_reminder｜>"], None)) == "<｜DSML｜tool_calls>"


@pytest.mark.parametrize("special", [("｜DSML｜",), ()])
def test_the_attribute_says_what_is_text_whatever_the_schema_says(special: tuple[str, ...]) -> None:
    tokenizer = tokenizer_with(special, V4)
    answer = (
        'Well.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="note">\n'
        '<｜DSML｜parameter name="text" string="true">3</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="other" string="false">3</｜DSML｜parameter>\n'
        '</｜DSML｜invoke>\n<｜DSML｜invoke name="now">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>'
    )
    found = hear(deepseek_dsml(tokenizer), tokenizer, answer, (NOTE, NOW))
    assert found.text == "Well."
    assert (found.calls, found.ended) == ([["note", '{"text": "3", "other": 3}'], ["now", "{}"]], [0, 1])


def test_a_call_without_any_parameter_holds_an_empty_line_as_the_template_writes_it() -> None:
    tokenizer = tokenizer_with(["｜DSML｜"], V4)
    prompt = compose(voice(tokenizer, 8192), request("required", (NOW, OPTIONAL)))
    for name, body, right in [
        ("now", "\n", True),
        ("now", "", False),
        ("maybe", "\n", True),
        ("maybe", "", True),
        ("maybe", '<｜DSML｜parameter name="n" string="false">3</｜DSML｜parameter>\n', True),
    ]:
        answer = (
            f'\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="{name}">\n{body}</｜DSML｜invoke>\n</｜DSML｜tool_calls>'
        )
        ids = tokenizer.encode(answer)
        matcher = LLMatcher(tokenizer.grammar_view, prompt.grammar, log_level=0)
        assert (matcher.try_consume_tokens(ids) == len(ids)) == right, (name, body)


def test_the_history_that_is_written_as_text_is_read_as_the_same_call() -> None:
    tokenizer = tokenizer_with(["｜DSML｜"], V4)
    dialect = deepseek_dsml(tokenizer)
    written = dialect.history.write_call("note", {"text": "a\n<b>", "more": [1]}) + dialect.history.write_call(
        "now", {}
    )
    found = hear(dialect, tokenizer, written, (NOTE, NOW))
    assert (found.text, found.calls) == ("", [["note", '{"text": "a\\n<b>", "more": [1]}'], ["now", "{}"]])
