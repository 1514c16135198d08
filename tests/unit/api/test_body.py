"""Bytes to a JSON object: everything that is none is the caller's fault."""

from __future__ import annotations

import json

import pytest

from ringleader.api.body import ITEMS_MAX, parse_object
from ringleader.errors import BadRequest


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"nope",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b"[" * 100_000,
        '{"a": 1}'.encode("utf-16"),
    ],
)
def test_what_is_not_json_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest, match="could not parse the JSON body") as caught:
        parse_object(raw)
    assert caught.value.code == "invalid_json"


@pytest.mark.parametrize("field", ["tools", "a" * 999, "\\ud800"])
def test_a_field_that_nests_too_deep_is_named_with_what_is_borne(field: str) -> None:
    deep = "[" * 129 + "]" * 129
    with pytest.raises(BadRequest, match=r"nests deeper than 128 levels .* a schema may have 100") as caught:
        parse_object(f'{{"a": 1, "{field}": {deep}}}'.encode())
    param = caught.value.param or ""
    assert param == ("?" if "ud800" in field else field[:64])
    parse_object(f'{{"a": {deep[1:-1]}}}'.encode())


@pytest.mark.parametrize("field", ["messages", "input", "tools"])
def test_more_items_than_any_client_has_are_refused_by_number(field: str) -> None:
    most = ITEMS_MAX[field]
    parse_object(json.dumps({field: [0] * most}).encode())
    with pytest.raises(BadRequest, match=f"{most + 1} items, at most {most}") as caught:
        parse_object(json.dumps({field: [0] * (most + 1)}).encode())
    assert caught.value.param == field
    with pytest.raises(BadRequest, match=f"{most + 1} items, at most {most}"):
        parse_object(json.dumps({field: {str(n): 0 for n in range(most + 1)}}).encode())


def test_an_integer_of_many_digits_is_refused_in_our_own_words() -> None:
    with pytest.raises(BadRequest, match=r"the integer -9{31}\.\.\. has more than 4300 digits\.$"):
        parse_object(b'{"a": -' + b"9" * 5000 + b"}")
    assert parse_object(b'{"a": ' + b"9" * 4300 + b"}") == {"a": int("9" * 4300)}


@pytest.mark.parametrize("raw", [b"[]", b"null", b'"x"', b"5", b"true"])
def test_what_is_not_an_object_is_refused(raw: bytes) -> None:
    with pytest.raises(BadRequest, match="must be a JSON object"):
        parse_object(raw)


def test_a_byte_order_mark_nul_and_whole_emoji_pass() -> None:
    assert parse_object(b'\xef\xbb\xbf{"a": "\\u0000\\ud83d\\ude00\xc3\xa9"}') == {"a": "\0😀é"}


@pytest.mark.parametrize(
    ("escaped", "text"),
    [
        (r"\ud83d", "\ufffd"),
        (r"\ude00x", "\ufffdx"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        (r"\\ud83d", r"\ud83d"),
        (r"\\\uD83D", "\\\ufffd"),
        (r"\ud83d\n", "\ufffd\n"),
        (r"\ud83d\u0041", "\ufffdA"),
    ],
)
def test_half_an_emoji_becomes_the_replacement_character_and_nothing_else_does(escaped: str, text: str) -> None:
    parsed = parse_object(f'{{"a": "{escaped}"}}'.encode())
    assert parsed == {"a": text}
    assert json.dumps(parsed, ensure_ascii=False).encode()
