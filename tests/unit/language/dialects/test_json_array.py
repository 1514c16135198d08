from __future__ import annotations

import pytest

from ringleader.language.dialects.detect import detect
from ringleader.language.dialects.json_array import granite, phi4_mini
from tests.unit.language.builders import NOTE, NOW
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import CHATML, tokenizer_with

TOOLS = (NOTE, NOW)
MARKS = ("<|tool_call|>", "<|/tool_call|>")
CALLS = '[{"name": "now", "arguments": {}}, {"arguments": {"text": "]"}, "name": "note"}]'
READ = [["now", "{}"], ["note", '{"text": "]"}']]


@pytest.mark.parametrize("special", [MARKS, ()])
def test_an_array_is_read_with_its_end_and_without(special: tuple[str, ...]) -> None:
    tokenizer = tokenizer_with(special)
    for dialect in (phi4_mini(tokenizer), granite(tokenizer)):
        for end in ("", "\n") if dialect.name == "granite" else ("<|/tool_call|>", "\n<|/tool_call|>"):
            found = hear(dialect, tokenizer, f"Well.\n<|tool_call|>{CALLS}{end}", TOOLS)
            assert (found.text, found.calls, found.ended) == ("Well.", READ, [0, 1])


def test_functools_is_a_call_only_with_its_bracket() -> None:
    tokenizer = tokenizer_with((), CHATML + "{# functools[ #}")
    dialect = phi4_mini(tokenizer)
    text = "Write import functools and @functools.cache."
    assert hear(dialect, tokenizer, text, TOOLS).text == text
    found = hear(dialect, tokenizer, f"{text}\nfunctools{CALLS}", TOOLS)
    assert (found.text, found.calls) == (text, READ)


def test_phis_tools_stand_where_its_template_would_put_them() -> None:
    tool = {"function": {"name": "now", "description": "The time.", "parameters": {"type": "object"}}}
    text = phi4_mini(tokenizer_with(MARKS)).history.describe([tool])
    assert text.endswith(
        '<|tool|>[{"name": "now", "description": "The time.", "parameters": {"type": "object"}}]<|/tool|>'
    )


def test_granite_four_and_later_speak_json_between_tags() -> None:
    assert detect(tokenizer_with((), CHATML + "{# <|start_of_role|> <tool_call> #}")).dialect.name == "json_tags"
    assert detect(tokenizer_with((), CHATML + "{# <|start_of_role|> <|tool_call|> #}")).dialect.name == "granite"
