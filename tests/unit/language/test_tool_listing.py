from __future__ import annotations

import json
from typing import Any

import pytest

from ringleader.language.template import CHATML, render
from ringleader.language.tool_listing import Listing, listing
from ringleader.values import Tool
from tests.unit.language.builders import NOW, QUESTION

DEEP: dict[str, Any] = {
    "type": "object",
    "properties": {
        "place": {
            "type": "object",
            "description": "where to",
            "properties": {"zip": {"type": "string", "description": "five digits", "enum": ["x1", "x2"]}},
            "required": ["zip"],
        }
    },
    "required": ["place"],
}
REFERRED: dict[str, Any] = {
    "type": "object",
    "properties": {"place": {"$ref": "#/$defs/place"}},
    "$defs": {"place": {"type": "object", "properties": {"zip": {"type": "string"}}}},
}
CIRCLE: dict[str, Any] = {
    "type": "object",
    "properties": {"node": {"$ref": "#/$defs/node"}},
    "$defs": {
        "node": {"type": "object", "properties": {"label": {"type": "string"}, "next": {"$ref": "#/$defs/node"}}}
    },
}
TURNS = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
PARAMETERS = "tool.function.parameters.properties.items()"
WHOLE = "{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}" + TURNS
FLAT = (
    f"{{% for tool in tools or [] %}}{{{{ tool.function.name }}}}{{% for k, p in {PARAMETERS} %}} {{{{ k }}}}: "
    f"{{{{ p.description }}}}{{% endfor %}}{{% endfor %}}{TURNS}"
)
NO_DEFINITIONS = (
    f"{{% for tool in tools or [] %}}{{{{ tool.function.name }}}}{{% for k, p in {PARAMETERS} %}} {{{{ k }}}}: "
    f"{{{{ p | tojson }}}}{{% endfor %}}{{% endfor %}}{TURNS}"
)
BARE: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}


def listed(template: str, schema: Any, *, plain: bool = True) -> Listing:
    return listing(template, (Tool("find", "", schema),), ("", ""), plain_parameters=plain)


@pytest.mark.parametrize("schema", [None, BARE, DEEP, REFERRED, CIRCLE])
def test_a_template_that_shows_all_gets_the_schema_as_it_came(schema: Any) -> None:
    found = listed(WHOLE, schema)
    assert found.listed[0]["function"]["parameters"] == (schema or {"type": "object", "properties": {}})
    assert (found.unsaid, found.text) == ((), "")


def test_definitions_that_are_lost_are_written_out_in_their_place() -> None:
    found = listed(NO_DEFINITIONS, REFERRED)
    assert found.listed[0]["function"]["parameters"] == {
        "type": "object",
        "properties": {"place": REFERRED["$defs"]["place"]},
    }
    assert found.unsaid == ()


def test_a_circle_of_definitions_is_told_beside_the_list() -> None:
    assert listed(NO_DEFINITIONS, CIRCLE).unsaid == (("find", CIRCLE),)


def test_what_the_template_does_not_show_is_told_in_full() -> None:
    found = listed(FLAT, DEEP)
    assert found.unsaid == (("find", DEEP),)
    assert json.loads(found.text.splitlines()[1]) == {"name": "find", "parameters": DEEP}
    assert listed(FLAT, BARE).text == ""


def test_a_word_that_stands_elsewhere_by_chance_is_not_taken_for_shown() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {"user": {}, "find": {}}}}}
    assert listed(FLAT, schema).unsaid


def test_names_that_are_keywords_are_names_all_the_same() -> None:
    names = {name: {"type": "string"} for name in ("properties", "required", "enum", "description", "$defs", "default")}
    assert listed(WHOLE, {"type": "object", "properties": names, "required": [*names]}).unsaid == ()


def test_descriptions_are_filled_in_for_a_template_that_wants_them() -> None:
    found = listed(WHOLE, {"type": "object", "properties": {"a": {"type": "string"}, "b": True}}, plain=False)
    assert found.listed[0]["function"]["parameters"]["properties"] == {
        "a": {"description": "", "type": "string"},
        "b": True,
    }


def test_a_flood_of_references_ends_and_no_keyword_is_trusted() -> None:
    wide = {f"d{n}": {"type": "array", "items": [{"$ref": f"#/$defs/d{n + 1}"}] * 9} for n in range(12)}
    flood = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": wide}
    assert listed(NO_DEFINITIONS, flood).listed
    assert listed(WHOLE, {"type": "object", "properties": {"a": {"$ref": 3}, "b": {"enum": 4}}}).listed


def test_the_prompt_has_the_whole_schema_whatever_the_template_shows() -> None:
    tools = (NOW, Tool("find", "Finds.", DEEP))
    for template in (WHOLE, FLAT, CHATML):
        text = render(template, QUESTION, tools, bos_token="", eos_token="")
        for word in ("now", "find", "where to", "five digits", "x2"):
            assert word in text
    assert render(FLAT, QUESTION, tools, bos_token="", eos_token="").count("in full") == 1


def test_tools_that_the_template_cannot_read_are_described_instead() -> None:
    picky = WHOLE.replace("{{ tool | tojson }}", "{{ tool.function.parameters.properties.a.type }}{{ tool | tojson }}")
    text = render(
        picky, QUESTION, (Tool("find", "", BARE), Tool("odd", "", {"type": "object"})), bos_token="", eos_token=""
    )
    assert "odd" in text
    assert "You can call tools" in text
