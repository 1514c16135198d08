"""No answer that breaks its `response_format` is possible: the standard's own test suite, file by file."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import pytest

from tests.conformance import argument_suite, report
from tests.conformance.matrix import FULL, dialects
from tests.conformance.schema_suite import SUITE, ask, files
from tests.unit.language.dialects.family import Family

HEAD = (
    "file",
    "strict",
    "schemas",
    "refused (400)",
    "valid",
    "accepted",
    "refused as objects are closed",
    "invalid",
    "refused",
    "told of",
)
ARGUMENTS_HEAD = ("family", "schemas", "refused (400)", "values written", "values that are valid")
SAMPLE = ("json_tags", "qwen_xml", "glm", "pythonic", "gemma4")
FAMILIES = [families[0] for name, families in sorted(dialects().items()) if FULL or name in SAMPLE]
MISSING = "the JSON Schema Test Suite is not here: run tests/conformance/fetch_data.sh"


@pytest.mark.skipif(not SUITE.is_dir(), reason=MISSING)
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "not strict"])
@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SUITE).with_suffix("")))
def test_nothing_invalid_is_accepted(path: Path, strict: bool) -> None:
    tally, wrong = ask(path, strict=strict)
    report.add("schemas", HEAD, (path.relative_to(SUITE).with_suffix(""), strict, *astuple(tally)))
    assert wrong == []
    assert tally.invalid == tally.invalid_refused + tally.invalid_told
    assert not (strict and tally.invalid_told), "what is enforced is not told of"


@pytest.mark.skipif(not SUITE.is_dir(), reason=MISSING)
def test_the_suite_is_whole() -> None:
    names = {path.stem for path in files()}
    assert {"allOf", "anyOf", "enum", "items", "not", "pattern", "properties", "required", "uniqueItems"} <= names
    assert len(names) > 60


@pytest.mark.skipif(not SUITE.is_dir(), reason=MISSING)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.label)
def test_no_argument_of_a_forced_call_breaks_its_schema_in_the_familys_own_form(family: Family) -> None:
    tally, wrong = argument_suite.Tally(), []
    for path in files():
        if path.parent == SUITE:
            wrong += argument_suite.ask(family, path, tally)
    report.add("arguments", ARGUMENTS_HEAD, (family.label, *astuple(tally)))
    assert wrong == []
    assert tally.schemas > 150
    assert tally.written > tally.valid / 4, "the test has something to see"
