from __future__ import annotations

import pytest

from ringleader.language.dialects.minimax_m1 import minimax_m1
from tests.unit.language.builders import NOTE, NOW
from tests.unit.language.dialects.families_minimax import LINES
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import tokenizer_with

NOW_CALL = '{"name": "now", "arguments": {}}'


@pytest.mark.parametrize("special", [LINES, ()])
def test_lines_need_not_be_lines(special: tuple[str, ...]) -> None:
    tokenizer = tokenizer_with(special)
    text = f'<tool_calls>{NOW_CALL} {{"arguments": {{"text": "a"}}, "name": "note"}}</tool_calls>'
    found = hear(minimax_m1(tokenizer), tokenizer, text, (NOTE, NOW))
    assert (found.text, found.calls) == ("", [["now", "{}"], ["note", '{"text": "a"}']])


@pytest.mark.parametrize("special", [LINES, ()])
def test_what_is_no_call_after_a_call_is_text(special: tuple[str, ...]) -> None:
    tokenizer = tokenizer_with(special)
    text = f"<tool_calls>\n{NOW_CALL}\nDone."
    found = hear(minimax_m1(tokenizer), tokenizer, text, (NOTE, NOW))
    assert (found.text, found.calls) == ("Done.", [["now", "{}"]])
