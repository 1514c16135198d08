from __future__ import annotations

import json

import pytest
from llguidance import LLMatcher

from ringleader.language.patterns import FORMATS, ecma, exactly
from ringleader.language.schema import bytes_view, closed_value, grammar_text, lark_of
from ringleader.values import Json


def matches(regex: str, text: str) -> bool:
    """Whether the engine, given `regex` as a terminal, takes the whole text."""
    lark = LLMatcher.grammar_from_lark("start: /" + regex.replace("/", "\\/") + "/")
    matcher = LLMatcher(bytes_view(), lark, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    written = list(text.encode())
    return bool(matcher.try_consume_tokens(written) == len(written) and matcher.is_accepting())


def writable(schema: Json, value: Json) -> bool:
    matcher = LLMatcher(bytes_view(), lark_of(grammar_text(closed_value(schema), lenient=False)), log_level=0)
    written = list(json.dumps(value, ensure_ascii=False).encode())
    return bool(matcher.try_consume_tokens(written) == len(written) and matcher.is_accepting())


@pytest.mark.parametrize(
    ("format_", "good", "bad"),
    [
        ("date", ["2024-02-29", "2000-02-29", "1999-12-31"], ["2023-02-29", "1900-02-29", "2021-04-31", "21-1-1", ""]),
        ("time", ["00:00:00Z", "23:59:59.123+05:30"], ["24:00:00Z", "23:59:60Z", "10:00:00", "10:00:00+24:00"]),
        ("date-time", ["2024-02-29T10:00:00Z"], ["2023-02-29T10:00:00Z", "2024-02-29", "2024-02-29 10:00:00Z"]),
        ("duration", ["P1Y2M3DT4H5M6S", "PT36H", "P4W", "P1M"], ["P", "PT", "P1D2H", "P1Y1D", "1D", "P1W2D"]),
        ("email", ["a.b+c@example.org", "a@b"], ["a@", "@b", "a b@c", ".a@b", "a..b@c", "a@-b"]),
        ("hostname", ["example.org", "a-b.c", "x" * 63], ["-a", "a-", "a..b", "x" * 64, "ä.de", ""]),
        ("ipv4", ["0.0.0.0", "255.249.199.9"], ["256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5"]),
        ("ipv6", ["::", "::1", "1::", "1:2:3:4:5:6:7:8", "1::8", "::ffff:1.2.3.4", "1:2:3:4:5:6:7::"], ["1", ":::"]),
        ("ipv6", ["1:2::5:6:7:8", "::2:3:4:5:6:7:8"], ["1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "1:2:3:4:5:6:7"]),
        ("uuid", ["2EB8AA08-aa98-11ea-B4Aa-73B441D16380"], ["2eb8aa08-aa98-11ea-b4aa-73b441d1638", "x"]),
        ("uri", ["http://a.b:80/c?d=e#f", "mailto:a@b.c", "urn:x:y"], ["//a.b", "a.b", "http://a b", "http://a/%g0"]),
    ],
)
def test_formats_are_whole_expressions(format_: str, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not matches(FORMATS[format_], text)] == []
    assert [text for text in bad if matches(FORMATS[format_], text)] == []


def test_dates_in_json_are_days_that_exist() -> None:
    for schema in ({"type": "string", "format": "date"}, {"format": "date"}):
        assert writable(schema, "2024-02-29")
        assert not writable(schema, "2023-02-29")
    assert exactly({"format": "date", "pattern": "^2"}) == {"pattern": "^2"}, "the client's own comes first"


@pytest.mark.parametrize("pattern", [r"^\S$", r"^[\S]$", r"^[x\S]$"])
def test_white_space_is_ecmas_wherever_it_stands(pattern: str) -> None:
    for space in " \t\n\u00a0\u2028\ufeff":
        assert not writable({"type": "string", "pattern": pattern}, space)
        assert writable({"type": "string", "pattern": pattern.replace("S", "s")}, space)
    assert writable({"type": "string", "pattern": pattern}, "é")
    assert ecma(r"\\s \\\s") == r"\\s \\" + ecma(r"\s"), "an escaped backslash is no escape"


def test_patterns_of_keys_are_ecmas_too() -> None:
    schema = {"type": "object", "patternProperties": {r"^\s$": {"type": "integer"}}, "additionalProperties": False}
    assert writable(schema, {"\ufeff": 1})


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^\cA[\cj]$", ["\x01\n"], ["A", "cA"]),
        (r"^[/?#[\]@]+$", ["/?#[]@"], ["a", "\\"]),
        (r"^[[]$", ["["], ["]"]),
        (r"^[\b]$", ["\b"], ["b", "\\"]),
        (r"^[a&&b]$", ["a", "b", "&"], ["a&", ""]),
        (r"^[+--]$", ["+", ",", "-"], ["."]),
        (r"^[--/]$", ["-", ".", "/"], ["0", ","]),
        (r"^[\w-.]$", ["a", "-", "."], ["/"]),
        (r"^[^^]$", ["a"], ["^"]),
        (r"^[[:a]$", ["[", ":", "a"], ["b"]),
        (r"^[^]$", ["a", "\n"], ["", "ab"]),
        (r"^(?:a[]|b)$", ["b"], ["a"]),
        (r"^\0$", ["\0"], ["0"]),
        (r"^{a}{2}$", ["{a}}"], ["{a}", "a"]),
        (r"^\ud83d\uDE00[\u{1F600}]$", ["😀😀"], ["😀"]),
        (r"^\[\\\{$", ["[\\{"], ["["]),
    ],
)
def test_what_only_ecma_reads_so_is_spelled_as_the_engine_reads_it(
    pattern: str, good: list[str], bad: list[str]
) -> None:
    schema = {"type": "string", "pattern": pattern}
    assert [text for text in good if not writable(schema, text)] == []
    assert [text for text in bad if writable(schema, text)] == []


@pytest.mark.parametrize("key", ["format", "pattern", "patternProperties"])
@pytest.mark.parametrize("given", [["date"], {}, None, True, 5])
def test_what_is_no_expression_is_left_as_it_is(key: str, given: Json) -> None:
    assert exactly({"type": "string", key: given}) in ({}, {key: given})
