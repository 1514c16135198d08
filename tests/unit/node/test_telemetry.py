from __future__ import annotations

from collections import namedtuple

import psutil
import pytest

from ringleader.node import telemetry
from ringleader.node.telemetry import RATE_WINDOW_S, RingMeter, Work


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_this_machine_has_a_chip_and_memory() -> None:
    assert telemetry.chip()
    assert 0 < telemetry.memory_free_bytes() <= telemetry.memory_total_bytes()


Sensor = namedtuple("Sensor", "label current high critical")


@pytest.mark.parametrize(
    ("sensors", "told"),
    [
        ({}, None),
        ({"coretemp": [Sensor("", 51.0, None, None), Sensor("", 63.5, None, None)]}, 63.5),
        ({"k10temp": [Sensor("", 55.0, None, None)], "nvme": [Sensor("", 80.0, None, None)]}, 55.0),
        ({"nvme": [Sensor("", 41.0, None, None)]}, 41.0),
        (
            {"acpitz": [Sensor("", 0.0, None, None), Sensor("", -128.0, None, None), Sensor("", 255.0, None, None)]},
            None,
        ),
    ],
)
def test_the_temperature_is_the_processors_hottest_and_none_where_none_is_told(
    sensors: dict[str, list[Sensor]], told: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "sensors_temperatures", lambda: sensors, raising=False)
    assert telemetry.temperature_c() == told


def test_a_system_without_sensors_tells_no_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(psutil, "sensors_temperatures", raising=False)
    assert telemetry.temperature_c() is None


def test_this_machine_is_reached_somewhere_and_at_loopback_only_where_it_listens_there() -> None:
    assert telemetry.addresses()
    assert telemetry.addresses("127.0.0.1") == ("127.0.0.1",)


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


def test_a_process_works_when_it_uses_its_processor() -> None:
    clock, used = Clock(), {7: 1.0}
    work = Work(clock, used.get)
    assert work.look([7])  # nobody knows yet
    clock.now += 1
    used[7] += 0.01
    assert not work.look([7])
    clock.now += 1
    used[7] += 0.3
    assert work.look([7])
    assert not work.look([])


def test_a_process_that_is_gone_does_not_work() -> None:
    clock = Clock()
    work = Work(clock, lambda pid: None)
    assert not work.look([7])


def test_the_rate_of_the_last_busy_time_is_kept() -> None:
    clock = Clock()
    meter = RingMeter(clock=clock)
    meter.count(5, 5)
    first = meter.last_tokens_per_s
    assert first is None
    clock.now += 1
    meter.count(5, 5)
    clock.now += 100 * RATE_WINDOW_S
    assert (meter.tokens_per_s, meter.last_tokens_per_s) == (0.0, 10.0)


def test_a_ring_s_meter_tells_how_much_of_the_prompts_was_kept() -> None:
    meter = RingMeter()
    meter.ended(100, 0)
    meter.ended(150, 96)
    assert (meter.requests, meter.prompt_tokens, meter.cached_tokens) == (2, 250, 96)
