from __future__ import annotations

import json

from ringleader.language.dialects.history import describe_tools, write_call


def test_the_description_holds_each_tool_as_it_is() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": 'ä\n"', "parameters": {"z": 1, "a": 2}}}
    assert json.dumps(tool, ensure_ascii=False) in describe_tools([tool])


def test_a_call_is_written_in_the_form_that_is_asked_for() -> None:
    assert write_call("f", {"a": "ä"}) == '<tool_call>\n{"name": "f", "arguments": {"a": "ä"}}\n</tool_call>'
    assert write_call("f", '{"a": ') == '<tool_call>\n{"name": "f", "arguments": {"a": }\n</tool_call>'
