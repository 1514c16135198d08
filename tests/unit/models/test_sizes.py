"""Byte counts keep three digits and the right unit."""

from __future__ import annotations

import pytest

from ringleader.models.sizes import human_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (92_871_040, "92.9 MB"),
        (99_960_000, "100 MB"),
        (999_600_000, "1.0 GB"),
        (404_000_000_000, "404 GB"),
        (5_000_000_000_000, "5.0 TB"),
    ],
)
def test_a_count_reads_as_a_person_would_say_it(count: int, text: str) -> None:
    assert human_bytes(count) == text
