"""Values as error messages show them."""

from __future__ import annotations

import pytest

from ringleader.values import Json, shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ({"a": [None, False]}, '{"a": [null, false]}'),
        (1.5, "1.5"),
        ("it's ü", "'it's ü'"),
        ("a\0\n", r"'a\u0000\n'"),
        (10**99, "an integer of hundreds of digits"),
        ("x" * 999, "'" + "x" * 60 + "..."),
        (["x" * 999], '["' + "x" * 59 + "..."),
    ],
)
def test_a_value_is_shown_as_json_and_short(value: Json, text: str) -> None:
    assert shown(value) == text
