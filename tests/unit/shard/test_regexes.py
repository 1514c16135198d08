"""Expressions of schemas as automata: the same strings as Python's, and bounded whatever they are."""

from __future__ import annotations

import contextlib
import re
import time

import pytest

from ringleader.shard.regexes import Automaton, automaton, both, of_length

TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "aab",
    "abc",
    "AB",
    "a-1",
    "A1",
    "12",
    "1.2.3",
    "x@y.zz",
    "é",
    "a\nb",
    "]",
    "-",
    "\\",
    "foo.pdf",
]
WHOLE = [
    "a*b", "(a|b)+", "[a-c]{2,3}", "[^a]", "a?b?", "[]x-]", "(?:ab|a)c?", r"\d+(\.\d+){2}", r"[\w.]+@\w+\.[a-z]{2,}",
    "(?s:.*)", ".*", r"[^\n]*b", "(?i)ab", "(?i:a)b", r"\x61\u0062", "a{2}b", "a{1,}b", r"\-|\]", "(?P<n>a)b", "",
]  # fmt: skip
ANYWHERE = ["b", "^a", "b$", "^a|c$", r".*\.pdf$", "^(a|b)$", "(^a|b$)", r"^\S+$"]


def accepts(machine: Automaton, text: str) -> bool:
    states = {0}
    for char in text:
        states = {
            to for state in states for chars, to in machine.moves[state] if any(a <= ord(char) <= b for a, b in chars)
        }
    return any(machine.accepting[state] for state in states)


@pytest.mark.parametrize("regex", WHOLE)
def test_a_whole_expression_has_the_strings_that_python_gives_it(regex: str) -> None:
    machine = automaton(regex)
    for text in TEXTS:
        if text.isascii():
            assert accepts(machine, text) == bool(re.fullmatch(regex, text)), text


@pytest.mark.parametrize("regex", ANYWHERE)
def test_a_pattern_may_stand_anywhere_unless_it_is_anchored(regex: str) -> None:
    machine = automaton(regex, whole=False)
    for text in TEXTS:
        assert accepts(machine, text) == bool(re.search(regex, text)), text


def test_both_and_lengths_are_met_together() -> None:
    machine = both(automaton("[a-z]+-x*"), of_length(3, 5))
    assert [text for text in ("a-", "ab-", "ab-xx", "ab-xxx", "a1-") if accepts(machine, text)] == ["ab-", "ab-xx"]
    assert accepts(of_length(2, None), "a" * 40) and not accepts(of_length(2, None), "a")


@pytest.mark.parametrize(
    "regex",
    ["(?=a)b", r"\bword", "[a&&b]", "(a", "a)", "*a", r"\p{Greek}", "[a", "(" * 3000, "a{99999}", "((a{90}){90}){90}"],
)
def test_what_is_not_understood_is_said(regex: str) -> None:
    with pytest.raises(ValueError):
        automaton(regex)


@pytest.mark.parametrize("regex", ["(?:(?:){2000}){2000}", "(a?){1900}", "(a|b|c|d){400}", "((((a*)*)*)*)*"])
def test_no_expression_takes_long(regex: str) -> None:
    begun = time.perf_counter()
    with contextlib.suppress(ValueError):
        automaton(regex)
    assert time.perf_counter() - begun < 2
