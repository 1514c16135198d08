from __future__ import annotations

import json

from ringleader.language.dialects.json_tags import describe_tools, json_tags, write_call
from ringleader.tokenizer import Tokenizer


def test_markers_are_tokens_only_where_the_vocabulary_has_them_whole(marked: Tokenizer, plain: Tokenizer) -> None:
    assert json_tags(marked).call_open.token == marked.token_id("<tool_call>")
    assert json_tags(plain).call_open.token is None
    assert json_tags(plain).call_open.lark == '"<tool_call>"'


def test_a_model_reasons_if_its_template_speaks_of_it(marked: Tokenizer, plain: Tokenizer, thinking: Tokenizer) -> None:
    assert json_tags(marked).thinks
    assert json_tags(thinking).thinks
    assert not json_tags(plain).thinks


def test_the_description_holds_each_tool_as_it_is() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": 'ä\n"', "parameters": {"z": 1, "a": 2}}}
    assert json.dumps(tool, ensure_ascii=False) in describe_tools([tool])


def test_a_call_is_written_in_the_form_that_is_asked_for() -> None:
    assert write_call("f", {"a": "ä"}) == '<tool_call>\n{"name": "f", "arguments": {"a": "ä"}}\n</tool_call>'
    assert write_call("f", '{"a": ') == '<tool_call>\n{"name": "f", "arguments": {"a": }\n</tool_call>'
