from __future__ import annotations

import pytest

from ringleader.language.dialects.deepseek import deepseek_v3, deepseek_v31
from ringleader.language.dialects.detect import detect
from ringleader.tokenizer import Tokenizer
from tests.unit.language.builders import NOTE, NOW
from tests.unit.language.dialects.families_deepseek import MARKS
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import CHATML, tokenizer_with

TOOLS = (NOTE, NOW)
FENCED = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>\n"
    '<｜tool▁call▁begin｜>function<｜tool▁sep｜>note\n```json\n{"text": "a\\nb"}\n```<｜tool▁call▁end｜>'
    "<｜tool▁calls▁end｜>"
)
CALLS = [["now", "{}"], ["note", '{"text": "a\\nb"}']]


def tokenizers() -> list[Tokenizer]:
    return [tokenizer_with(MARKS), tokenizer_with(())]


@pytest.mark.parametrize("tokenizer", tokenizers(), ids=["tokens", "plain text"])
@pytest.mark.parametrize(
    "written",
    [
        FENCED,
        FENCED.replace("}\n```", "}\n\n``` \n").replace("json\n{", "json\n\n {"),
        FENCED.replace("\n```<｜tool▁call▁end｜>", "<｜tool▁call▁end｜>"),
        "Well.\n" + FENCED + "\n",
    ],
    ids=["exact", "loose", "no end of a fence", "after text"],
)
def test_fenced_calls_are_read_in_any_spacing(tokenizer: Tokenizer, written: str) -> None:
    found = hear(deepseek_v3(tokenizer), tokenizer, written, TOOLS)
    assert (found.calls, found.ended) == (CALLS, [0, 1])
    assert found.text in ("", "Well.")


def test_the_history_that_is_written_as_text_is_read_as_the_same_calls() -> None:
    for make in (deepseek_v3, deepseek_v31):
        tokenizer = tokenizer_with(MARKS)
        dialect = make(tokenizer)
        written = "\n".join([dialect.history.write_call("now", {}), dialect.history.write_call("note", {"text": "ä"})])
        found = hear(dialect, tokenizer, written, TOOLS)
        assert (found.text, found.calls) == ("", [["now", "{}"], ["note", '{"text": "ä"}']])


def test_the_tools_are_described_with_their_schemas_and_the_form_of_a_call() -> None:
    tool = {"function": {"name": "now", "description": "The time.", "parameters": {"type": "object"}}}
    text = deepseek_v31(tokenizer_with(MARKS)).history.describe([tool])
    for part in ("now", "The time.", '{"type": "object"}', "NAME<｜tool▁sep｜>ARGUMENTS<｜tool▁call▁end｜>"):
        assert part in text


def test_a_vocabulary_speaks_for_itself_where_the_template_says_nothing() -> None:
    assert detect(tokenizer_with(MARKS, CHATML)).dialect.name == "deepseek_v31"
    assert detect(tokenizer_with((*MARKS, "｜DSML｜"), CHATML)).dialect.name == "deepseek_dsml"
    assert detect(tokenizer_with(MARKS, CHATML + "{# <tool_call> #}")).dialect.name == "json_tags"
