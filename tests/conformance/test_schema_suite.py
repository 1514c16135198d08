"""No answer that breaks its `response_format` is possible: the standard's own test suite, file by file."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import pytest

from tests.conformance import report
from tests.conformance.schema_suite import SUITE, ask, files

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
