from __future__ import annotations

import pytest

from ringleader.errors import ModelUnsupported
from ringleader.language.dialects.detect import detect
from ringleader.language.prompt import voice
from tests.unit.language.vocabulary import CHATML, tokenizer_with


def test_a_template_that_shows_no_form_gets_the_fallback_and_says_so() -> None:
    for template in (None, CHATML):
        found = detect(tokenizer_with([], template))
        assert found.dialect.name == "json_tags"
        assert "nothing points to a family" in found.how


def test_a_form_that_contains_anothers_marks_is_found_first() -> None:
    found = detect(tokenizer_with([], CHATML + "{# <tool_call> <function=f> <parameter=a> #}"))
    assert found.dialect.name == "qwen_xml"
    assert found.how == "the chat template has <function= and <parameter="


def test_a_dialect_may_be_set_by_name() -> None:
    spoken = voice(tokenizer_with([], CHATML), 100, "qwen_xml")
    assert (spoken.dialect.name, spoken.dialect_how) == ("qwen_xml", "it was set by name")
    with pytest.raises(ModelUnsupported, match=r"no dialect is named 'klingon'; there are .*json_tags"):
        detect(tokenizer_with([], CHATML), "klingon")


def test_reasoning_is_told_by_the_template() -> None:
    assert detect(tokenizer_with([], CHATML + "{# <think> #}")).thinking_how == (
        "<think>...</think>: the chat template speaks of it"
    )
    assert "none is expected" in detect(tokenizer_with([], CHATML)).thinking_how
