"""A forced call arrives in every dialect, for every choice, whatever a model prefers to write instead.

FORCED_PART=1/2 takes every second dialect, 2/2 the others: for two processes.
"""

from __future__ import annotations

import os
import time

import pytest

from tests.conformance import report
from tests.conformance.matrix import A_DIALECT, Tally, cases, dialects, run

DIALECTS = dialects()
PART, PARTS = (int(number) for number in os.environ.get("FORCED_PART", "1/1").split("/"))
DEADLINE_S = 600 if A_DIALECT > 100 else 60


@pytest.mark.timeout(DEADLINE_S)
@pytest.mark.parametrize("dialect", sorted(DIALECTS)[PART - 1 :: PARTS])
def test_every_forced_answer_is_whole_and_valid_or_says_length(dialect: str) -> None:
    tally, begun = Tally(), time.perf_counter()
    for case in cases(DIALECTS[dialect], A_DIALECT):
        run(case, tally)
    assert tally.answers == A_DIALECT
    assert tally.complete > tally.cut
    row = (
        dialect,
        len(DIALECTS[dialect]),
        tally.answers,
        tally.complete,
        tally.cut,
        tally.calls,
        f"{tally.tokens / tally.answers:.0f}",
        f"{tally.passes / max(1, tally.tokens):.2f}",
        f"{time.perf_counter() - begun:.1f} s",
    )
    report.add(f"forced_{PART}_of_{PARTS}", report.FORCED, row)
