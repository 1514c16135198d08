from __future__ import annotations

import pytest

from ringleader.node import telemetry
from ringleader.node.telemetry import RATE_WINDOW_S, RingMeter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_this_machine_has_a_chip_and_memory() -> None:
    assert telemetry.chip()
    assert 0 < telemetry.memory_free_bytes() <= telemetry.memory_total_bytes()


def test_a_new_meter_has_no_rate_and_no_ratio() -> None:
    meter = RingMeter()
    assert meter.tokens_per_s == 0.0
    assert meter.passes_per_token is None


def test_the_rate_is_over_the_window_and_fades_when_nothing_comes() -> None:
    clock = Clock()
    meter = RingMeter(clock=clock)
    for _ in range(5):
        meter.count(4, 1)
        clock.now += 1.0
    assert meter.tokens_per_s == pytest.approx(20 / 5)
    clock.now += RATE_WINDOW_S - 2.5
    assert meter.tokens_per_s == pytest.approx(8 / 9.5), "the first three seconds are past the window"
    clock.now += RATE_WINDOW_S
    assert meter.tokens_per_s == 0.0
    assert (meter.tokens, meter.passes, meter.passes_per_token) == (20, 5, 0.25)


def test_one_early_token_is_no_enormous_rate() -> None:
    clock = Clock()
    meter = RingMeter(clock=clock)
    meter.count(1, 1)
    clock.now += 0.001
    assert meter.tokens_per_s == pytest.approx(2.0)
