from __future__ import annotations

import pytest

from ringleader.language.prompt import voice
from tests.unit.language.builders import NOTE, NOW
from tests.unit.language.dialects.families_longcat import FAMILIES, SHOWN, TAGS
from tests.unit.language.dialects.family import Family
from tests.unit.language.dialects.hearing import hear
from tests.unit.language.vocabulary import CHATML, tokenizer_with


@pytest.mark.parametrize("special", [TAGS, ()])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.label)
def test_each_form_is_read_whether_its_tags_are_tokens_or_text(family: Family, special: tuple[str, ...]) -> None:
    tokenizer = tokenizer_with(special, family.template)
    text = "So:\n" + family.write([("note", {"text": "a\n"}), ("now", {})])
    found = hear(voice(tokenizer, 8192).dialect, tokenizer, text, (NOTE, NOW))
    assert (found.text, found.calls) == ("So:", [["note", '{"text": "a\\n"}'], ["now", "{}"]])


def test_reasoning_has_its_own_tags() -> None:
    thinking = voice(tokenizer_with(TAGS, CHATML + SHOWN), 8192).dialect.thinking
    assert thinking is not None
    assert (thinking.open.text, thinking.expected) == ("<longcat_think>", False)
