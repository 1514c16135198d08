from __future__ import annotations

import time

import pytest

from ringleader.errors import BadRequest
from ringleader.shard.pace import Pace, parse_pace


def test_a_pass_takes_the_reading_of_the_weights_or_its_tokens_whichever_is_more() -> None:
    pace = parse_pace("pass_ms=20, prompt_token_ms=0.5")
    assert [pace.seconds(tokens) for tokens in (1, 8, 40, 128)] == pytest.approx([0.02, 0.02, 0.02, 0.064])
    assert parse_pace("pass_ms=3").seconds(1000) == pytest.approx(0.003)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "none of pass_ms"),
        ("prompt_token_ms=1", "must say pass_ms"),
        ("pass_ms=fast", "no number"),
        ("pass_ms=-1", "0 to 10000"),
        ("pass_ms=nan", "0 to 10000"),
        ("pass_ms=1,pass_ms=2", "once each"),
        ("pass_s=1", "none of pass_ms"),
    ],
)
def test_what_is_no_pace_is_refused_and_says_how_one_is_written(text: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        parse_pace(text)


def test_it_sleeps_up_to_the_time_and_not_beyond_what_was_computed() -> None:
    begun = time.perf_counter()
    Pace(0.03).wait(begun, 1)
    assert time.perf_counter() - begun >= 0.03
    late = time.perf_counter()
    Pace(0.03).wait(late - 1.0, 1)
    assert time.perf_counter() - late < 0.03, "the computing took longer than the pace: nothing is added"
