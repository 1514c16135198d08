"""Lone surrogates: replaced where they only say something, refused where they would bind the answer."""

from __future__ import annotations

import json

import pytest

from ringleader.api.body import parse_object
from ringleader.errors import BadRequest
from ringleader.values import Json

HALF = "\ud800"


def parsed(**body: Json) -> dict[str, Json]:
    return parse_object(json.dumps(body).encode())


def tool(**function: Json) -> list[Json]:
    return [{"type": "function", "function": {"name": "f", **function}}]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"tools": tool(parameters={"enum": ["a", HALF]})}, "tools[0].function.parameters.enum[1]"),
        ({"tools": tool(parameters={"required": [f"a{HALF}"]})}, "tools[0].function.parameters.required[0]"),
        ({"tools": tool(parameters={"properties": {HALF: {}}})}, "tools[0].function.parameters.properties"),
        (
            {"tools": tool(parameters={"properties": {"title": {"pattern": HALF}}})},
            "tools[0].function.parameters.properties.title.pattern",
        ),
        ({"tools": tool(parameters={"const": {"title": HALF}})}, "tools[0].function.parameters.const.title"),
        ({"tools": [{"custom": {"format": {"grammar": {"definition": HALF}}}}]}, "tools[0].custom.format.grammar.def"),
        ({"functions": [{"name": HALF}]}, "functions[0].name"),
        ({"response_format": {"json_schema": {"schema": {"const": HALF}}}}, "response_format.json_schema.schema.const"),
    ],
)
def test_what_would_bind_the_answer_is_refused_by_its_place(body: dict[str, Json], place: str) -> None:
    with pytest.raises(BadRequest, match="UTF-8 has none") as caught:
        parsed(**body)
    assert (caught.value.param or "").startswith(place)
    assert json.dumps(str(caught.value), ensure_ascii=False).encode()


def test_what_only_explains_is_replaced() -> None:
    schema = {"title": HALF, "properties": {"description": {"description": HALF, "default": {HALF: [HALF]}}}}
    found = parsed(tools=tool(description=HALF, parameters=schema), messages=[{"content": f"a{HALF}"}])
    assert json.dumps(found, ensure_ascii=False).encode()
    assert found["messages"] == [{"content": "a\ufffd"}]
    assert found["tools"][0]["function"]["parameters"]["title"] == "\ufffd"


def test_whole_characters_pass_wherever_they_stand() -> None:
    body = {"tools": tool(parameters={"enum": ["\U0001f600"]})}
    assert parsed(**body) == body
