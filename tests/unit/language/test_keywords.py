from __future__ import annotations

import pytest

from ringleader.language.enforcement import Check, violation
from ringleader.language.keywords import has_tuples, normalised, with_pointers
from ringleader.language.recursion import endless
from ringleader.language.schema import closed_value, grammar_text, judge
from ringleader.values import Json

DRAFT_4 = "http://json-schema.org/draft-04/schema#"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"$schema": "foo"}, "its '$schema' is 'foo', which is no known draft. Leave it out, or write \"https://"),
        ({"$schema": None}, "its '$schema' is null"),
        ({"anyOf": []}, "its 'anyOf' is an empty list"),
        ({"items": {"oneOf": []}}, "its 'oneOf' is an empty list"),
        ({"properties": {"x": {"type": []}}}, "its 'type' is an empty list"),
        ({"minLength": -1}, "its 'minLength' is -1, but must be an integer that is not negative"),
        ({"maxItems": 2.5}, "its 'maxItems' is 2.5, but must be"),
        ({"minItems": True}, "its 'minItems' is true, but must be"),
        ({"$defs": {"a": {"exclusiveMinimum": True}}}, "its 'exclusiveMinimum' is true without a 'minimum'"),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "items": [{}]}, "write 'prefixItems'"),
        ({"items": [{}], "prefixItems": [{}]}, "write 'prefixItems'"),
    ],
)
def test_a_value_that_a_keyword_cannot_have_is_refused_by_the_keyword(schema: Json, said: str) -> None:
    with pytest.raises(ValueError, match="its '") as caught:
        normalised(schema)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({"minLength": 2.0, "maxItems": 3}, {"minLength": 2, "maxItems": 3}),
        ({"not": {"exclusiveMaximum": True, "maximum": 3}}, {"not": {"exclusiveMaximum": 3}}),
        ({"exclusiveMinimum": False, "minimum": 3}, {"minimum": 3}),
        ({"$schema": DRAFT_4, "exclusiveMinimum": False}, {"$schema": DRAFT_4, "exclusiveMinimum": False}),
        ({"$schema": "https://json-schema.org/draft-04/schema"}, {"$schema": DRAFT_4}),
        (
            {
                "properties": {"exclusiveMinimum": True, "minLength": {}},
                "enum": [{"minLength": 2.0}],
                "const": {"$ref": 1},
            },
            {
                "properties": {"exclusiveMinimum": True, "minLength": {}},
                "enum": [{"minLength": 2.0}],
                "const": {"$ref": 1},
            },
        ),
    ],
)
def test_keywords_come_in_one_spelling_and_names_and_data_stay(schema: Json, plain: Json) -> None:
    assert repr(normalised(schema)) == repr(plain)


@pytest.mark.parametrize("anchored", [{"$anchor": "q"}, {"$id": "#q"}])
def test_a_reference_to_an_anchor_is_a_pointer_to_its_place(anchored: Json) -> None:
    schema = {"properties": {"x": {"$ref": "#q"}, "y": {"$ref": "#z"}}, "$defs": {"a/b": {"items": [{}, anchored]}}}
    found = with_pointers(schema)
    assert found["properties"] == {"x": {"$ref": "#/$defs/a~1b/items/1"}, "y": {"$ref": "#z"}}
    assert with_pointers({"$ref": "#q"}) == {"$ref": "#q"}
    twice = {"$ref": "#q", "$defs": {"a": anchored, "b": anchored}}
    assert with_pointers(twice)["$ref"] == "#q", "the engine knows which"
    named = {"$ref": "#q", "$defs": {"a": anchored, "b": {"$id": "b"}}}
    assert with_pointers(named) is named


def test_a_schema_with_anchors_is_judged_by_what_they_mean() -> None:
    schema = {"$ref": "#q", "$defs": {"z": {"$anchor": "q", "type": "string"}}}
    assert judge(grammar_text(closed_value(normalised(schema)), lenient=False)).error is None
    assert endless(schema) is None, "a name is no path to the whole"
    circle = {"$ref": "#q", "$defs": {"z": {"$anchor": "q", "$ref": "#q"}}}
    said = judge(grammar_text(closed_value(normalised(circle)), lenient=False)).error
    assert said == "it recurs for ever: no finite value meets #/$defs/z."


def test_items_that_are_an_array_are_checked_as_what_they_were_called_later() -> None:
    schema = {"type": "array", "items": [{"type": "string"}], "uniqueItems": True}
    assert has_tuples(schema)
    assert not has_tuples({"$schema": "http://json-schema.org/draft-07/schema#", **schema})
    assert not has_tuples({"properties": {"items": {}}, "enum": [{"items": []}]})
    check = Check("it", "there", schema)
    assert violation(check, '["a", 1]') is None
    assert "$[0]" in (violation(check, "[1]") or "")
    assert "non-unique" in (violation(check, '["a", "a"]') or "")
