from __future__ import annotations

import json

import pytest
from llguidance import LLMatcher

from ringleader.language.dialects.dialect import marker
from ringleader.language.dialects.typed_values import ValueReader, value_rules
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

STRING: Json = {"type": "string"}
NULLABLE: Json = {"anyOf": [{"type": "string"}, {"type": "null"}]}
ROOT: Json = {"$defs": {"text": STRING, "tree": {"type": "object", "properties": {"kids": {"$ref": "#/$defs/list"}}}}}
ROOT["$defs"]["list"] = {"type": "array", "items": {"$ref": "#/$defs/tree"}}


def read(text: str, schema: Json) -> Json:
    for pieces in (list(text), [text], ["", text, ""]):
        reader = ValueReader(schema, ROOT)
        written = "".join(reader.push(piece) for piece in pieces)
        end = reader.end()
        assert end is not None
        value = json.loads(written + end)
    return value


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("3", STRING, "3"),
        ('{"a":1}', STRING, '{"a":1}'),
        ("null", STRING, "null"),
        ("", STRING, ""),
        ('a "b"\n\\', {"$ref": "#/$defs/text"}, 'a "b"\n\\'),
        ("12", NULLABLE, "12"),
        ("null", NULLABLE, None),
        ("nul", NULLABLE, "nul"),
        ("None", NULLABLE, "None"),
        ("12", {"type": ["string", "integer"]}, 12),
        ("12a", {"type": ["string", "integer"]}, "12a"),
        ("1", {"enum": ["1", 2]}, "1"),
        ("2", {"enum": ["1", 2]}, 2),
        ("7", {"type": "integer"}, 7),
        ("3.0", {"type": "integer"}, 3),
        ("2.50", {"type": "number"}, 2.5),
        ("abc", {"type": "integer"}, "abc"),
        ("True", {"type": "boolean"}, True),
        ("yes", {"type": "boolean"}, "yes"),
        ("None", {"type": ["integer", "null"]}, None),
        ("{'a': 1, 'b': [True, None]}", {"type": "object"}, {"a": 1, "b": [True, None]}),
        ('["a", "b"]', {"type": "array"}, ["a", "b"]),
        ("['a']", {"type": "array"}, ["a"]),
        ('{"a": &lt;}', {"type": "string"}, '{"a": &lt;}'),
        ("5", None, 5),
        ("five", None, "five"),
        ('[1, {"a": null}]', None, [1, {"a": None}]),
        ("[1, x]", None, "[1, x]"),
    ],
)
def test_text_becomes_a_value_by_its_schema_and_not_by_guess(text: str, schema: Json, value: Json) -> None:
    found = read(text, schema)
    assert found == value
    assert type(found) is type(value)


def test_strings_and_lists_stream() -> None:
    for schema, text in [(STRING, "abc"), (NULLABLE, "nabc"), ({"type": "array"}, '["a", "b"]')]:
        reader = ValueReader(schema, ROOT)
        pieces = [reader.push(char) for char in text]
        assert len([piece for piece in pieces if piece]) >= len(text) - 2
        assert all(pieces[2:])


def test_a_list_that_turns_out_to_be_no_json_is_broken() -> None:
    reader = ValueReader({"type": "array"}, ROOT)
    reader.push('["a", oops]')
    assert reader.end() is None


CASES: list[tuple[Json, list[str], list[str]]] = [
    (STRING, ["", "a\nb", "null", "3", "<end> x"], []),
    ({"type": "string", "maxLength": 3}, ["", "äöü"], ["abcd"]),
    ({"type": "string", "minLength": 2}, ["ab"], ["a"]),
    ({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}, ["abc"], ["abcd", "A", ""]),
    ({"type": "string", "pattern": "b/c"}, ["ab/cd"], ["ab"]),
    ({"type": "string", "pattern": "^a$|^b$"}, ["a", "b"], ["ab", "xa", "c"]),
    ({"type": "string", "pattern": "^a|b$"}, ["ax", "xb"], ["xa", "bx"]),
    ({"type": "string", "pattern": "x[|]y|(1|2)"}, ["ux|yv", "1z"], ["x", "z"]),
    ({"type": "string", "format": "date"}, ["2024-02-29"], ["2023-02-29", "text", ""]),
    ({"type": "string", "format": "uri", "maxLength": 12}, ["http://a/b?c"], ["http://a/b?cd", "a/b"]),
    ({"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}]}, ["ab", "bxa"], ["a", "b"]),
    ({"pattern": "a", "anyOf": [{"type": "string", "pattern": "b"}, {"type": "null"}]}, ["ab"], ["b", "a"]),
    ({"enum": ["a.c", "x|y"]}, ["a.c", "x|y"], ["abc", "x"]),
    ({"enum": ["auto", False, 3]}, ["auto", "false", "3"], ["true", "4", "other"]),
    (NULLABLE, ["null", "nullx", "x"], []),
    ({"anyOf": [{"type": "string", "maxLength": 2}, {"type": "null"}]}, ["null", "ab"], ["nulx"]),
    ({"type": ["string", "integer"], "maximum": 9}, ["9", "x9"], ["10", "9x"]),
    ({"type": ["string", "boolean"]}, ["true", "truer"], []),
    ({"type": "integer", "minimum": 3}, ["3"], ["2", "x", "3.0"]),
    ({"$ref": "#/$defs/tree"}, ['{"kids": [{}]}', "{}"], ['{"kids": [3]}']),
    ({"anyOf": [STRING, {"$ref": "#/$defs/tree"}]}, ['{"kids": []}', "text"], ["{x}"]),
]


@pytest.mark.parametrize("end", ["\n<end>\n", "</end>", "<|im_end|>", "</<|im_start|>x>"])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_grammar_of_a_value_allows_what_its_schema_allows(plain: Tokenizer, case: int, end: str) -> None:
    schema, right, wrong = CASES[case]
    stop = marker(plain, end)
    if stop.token in plain.eos_ids:
        stop = marker(plain, "<|im_start|>")
    grammar = "\n".join(["start: v", *value_rules("v", schema, ROOT, stop)])
    for text in [*right, *wrong]:
        matcher = LLMatcher(plain.grammar_view, str(LLMatcher.grammar_from_lark(grammar)), log_level=0)
        ids = plain.encode(text + stop.text)
        legal = matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()
        assert legal == (text in right), (text, matcher.get_error())
