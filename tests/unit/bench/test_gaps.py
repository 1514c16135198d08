from __future__ import annotations

from ringleader.bench.gaps import gaps
from ringleader.bench.load import rate
from ringleader.bench.ring import Run


def run(started: float, *at: float) -> Run:
    arrivals = tuple((seconds, 1) for seconds in at)
    return Run(tuple(range(len(at))), arrivals, passes=len(at), forced_tokens=0, frame_bytes=0, started_s=started)


def test_gaps_are_told_apart_by_when_the_other_request_came_and_was_answered() -> None:
    running = run(100.0, 1.0, 1.5, 2.0, 2.5, 4.0, 5.5, 6.0, 6.5)
    arrived = run(102.6, 3.0)  # came at 102.6, its first token at 105.6
    before, meanwhile = gaps(running, arrived)
    assert before == [0.5, 0.5], "the first gap, after the prompt, is left out"
    assert meanwhile == [1.5, 1.5, 0.5], "also those that the begin and the end of the prompt lie in"


def test_the_rate_is_that_of_the_time_in_which_all_are_answered() -> None:
    assert rate([run(0, 1.0, 2.0, 3.0), run(0, 1.5, 2.5, 3.5)]) == 2.0
