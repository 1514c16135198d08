from __future__ import annotations

import pytest

from ringleader.language.dialects.json_array import JsonArray
from ringleader.language.dialects.mistral import MistralNamed, mistral
from tests.unit.language.builders import NOTE, NOW
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import CHATML, tokenizer_with

TOOLS = (NOTE, NOW)


@pytest.mark.parametrize(
    ("special", "mention", "form"),
    [
        (["[TOOL_CALLS]"], "[TOOL_CALLS] [", JsonArray),
        (["[TOOL_CALLS]", "[ARGS]"], "[TOOL_CALLS][", JsonArray),
        (["[TOOL_CALLS]", "[ARGS]"], "[TOOL_CALLS] [ARGS]", MistralNamed),
        (["[TOOL_CALLS]", "[ARGS]"], "", MistralNamed),
        (["[TOOL_CALLS]"], "", JsonArray),
    ],
)
def test_the_form_is_told_by_template_and_vocabulary(special: list[str], mention: str, form: type) -> None:
    assert isinstance(mistral(tokenizer_with(special, f"{CHATML}{{# {mention} #}}")), form)


@pytest.mark.parametrize(
    "written",
    [
        '[TOOL_CALLS][{"name": "now", "arguments": {}}, {"name": "note", "arguments": {"text": "]"}}]',
        '[TOOL_CALLS] [ {"name":"now","arguments":{},"id":"abcDEF123"} ,\n{"arguments":{"text": "]"},"name":"note"}]\n',
    ],
)
def test_arrays_of_calls_are_read_with_ids_and_without(written: str) -> None:
    tokenizer = tokenizer_with(["[TOOL_CALLS]"])
    found = hear(mistral(tokenizer), tokenizer, "Well. " + written, TOOLS)
    assert (found.text, found.calls, found.ended) == (
        "Well.",
        [["now", "{}"], ["note", '{"text": "]"}']],
        [0, 1],
    )


@pytest.mark.parametrize(
    "written",
    [
        '[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]note[ARGS]{"text": "]"}',
        '[TOOL_CALLS]now[CALL_ID]abcDEF123[ARGS]{}\n[TOOL_CALLS] note [ARGS] {"text": "]"}\n',
    ],
)
def test_named_calls_follow_each_other(written: str) -> None:
    for special in (["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"], []):
        tokenizer = tokenizer_with(special, CHATML + "{# [TOOL_CALLS][CALL_ID][ARGS] #}")
        found = hear(mistral(tokenizer), tokenizer, written, TOOLS)
        assert (found.calls, found.ended) == ([["now", "{}"], ["note", '{"text": "]"}']], [0, 1])
