from __future__ import annotations

from ringleader.language.dialects.json_tags import json_tags
from ringleader.tokenizer import Tokenizer


def expects(tokenizer: Tokenizer) -> bool:
    thinking = json_tags(tokenizer).thinking
    return thinking is not None and thinking.expected


def test_markers_are_tokens_only_where_the_vocabulary_has_them_whole(marked: Tokenizer, plain: Tokenizer) -> None:
    assert json_tags(marked).opens[0].marker.token == marked.token_id("<tool_call>")
    assert json_tags(plain).opens[0].marker.token is None
    assert json_tags(plain).opens[0].marker.lark == '"<tool_call>"'


def test_a_model_reasons_if_its_template_speaks_of_it(marked: Tokenizer, plain: Tokenizer, thinking: Tokenizer) -> None:
    assert expects(marked)
    assert expects(thinking)
    assert not expects(plain)
