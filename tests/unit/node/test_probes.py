from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from ringleader.node import probes
from ringleader.node.probes import BUSY, KEPT, PAYLOAD_BYTES, PING, PINGS, PONG, REFRESH_S, RETRY_S, SOON_S, Probes
from ringleader.values import NodeId

A, B = NodeId("a"), NodeId("b")


@dataclass
class Network:
    """Its own clock: each question takes its trip, and its bytes their time. `answers` None: it takes `lost_s`."""

    now: float = 1000.0
    trip_s: float = 0.001
    bytes_per_s: float = 1e8
    answer: Callable[[bytes], bytes | None] = lambda question: PONG
    lost_s: float = 0.0
    asked: list[tuple[NodeId, int]] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    async def ask(self, node: NodeId, question: bytes) -> bytes | None:
        self.asked.append((node, len(question)))
        await asyncio.sleep(0)
        answer = self.answer(question)
        self.now += self.lost_s if answer is None else self.trip_s + (len(question) - len(PING)) / self.bytes_per_s
        return answer


@dataclass
class Around:
    others: list[NodeId] = field(default_factory=lambda: [A])
    busy: bool = False
    same: list[float] = field(default_factory=list)


def made(
    network: Network, around: Around, chip: str = "Apple M4", memory: Callable[[], float | None] = lambda: 1e10
) -> Probes:
    return Probes(
        chip,
        network,
        lambda: around.others,
        lambda: around.busy,
        lambda: around.same,
        clock=network.clock,
        read_memory=memory,
    )


async def test_latency_is_half_a_small_round_trip_and_bandwidth_what_the_payload_needs_longer() -> None:
    network = Network()
    mine = made(network, Around())
    await mine.look()
    (link,) = mine.links
    assert (link.to, link.latency_s) == (A, 0.0005)
    assert link.bytes_per_s == pytest.approx(1e8, rel=0.01)
    assert network.asked == [(A, len(PING))] * PINGS + [(A, len(PING) + PAYLOAD_BYTES)]


async def test_nothing_is_measured_while_a_ring_of_this_node_is_busy() -> None:
    network, around = Network(), Around(busy=True)
    mine = made(network, around)
    await mine.look()
    assert network.asked == []
    assert mine.answer(PING) == BUSY
    around.busy = False
    await mine.look()
    assert len(mine.links) == 1


async def test_a_link_is_measured_a_few_times_and_then_seldom() -> None:
    network = Network()
    mine = made(network, Around())
    for measured in range(1, KEPT + 1):
        await mine.look()
        await mine.look()
        assert len(network.asked) == (PINGS + 1) * measured
        network.now += SOON_S
    await mine.look()
    assert len(network.asked) == (PINGS + 1) * KEPT
    network.now += REFRESH_S - SOON_S
    await mine.look()
    assert len(network.asked) == (PINGS + 1) * (KEPT + 1)


async def test_one_that_was_refused_is_tried_again_after_seconds() -> None:
    network = Network(answer=lambda question: BUSY)
    mine = made(network, Around())
    await mine.look()
    await mine.look()
    assert (len(network.asked), mine.links) == (1, ())
    network.now += RETRY_S
    await mine.look()
    assert len(network.asked) == 2


@pytest.mark.parametrize("answer", [b"", b'{"name": "a node of another version"}', None])
async def test_what_is_no_answer_to_a_probe_changes_nothing(answer: bytes | None) -> None:
    network = Network(answer=lambda question: answer)
    mine = made(network, Around())
    await mine.look()
    assert mine.links == ()


async def test_a_link_that_is_too_slow_for_the_payload_is_told_as_slow_and_a_broken_one_is_not() -> None:
    network = Network(answer=lambda question: PONG if len(question) == len(PING) else None)
    mine = made(network, Around())
    await mine.look()
    assert not mine.links
    network.now += RETRY_S
    network.lost_s = 3.0
    await mine.look()
    assert mine.links[0].bytes_per_s == pytest.approx(PAYLOAD_BYTES / 3, rel=0.01)


async def test_a_payload_that_was_as_fast_as_small_messages_makes_no_link_endless() -> None:
    network = Network(bytes_per_s=float("inf"))
    mine = made(network, Around())
    await mine.look()
    assert mine.links[0].bytes_per_s == pytest.approx(4 * PAYLOAD_BYTES / 0.001, rel=0.01)


async def test_the_best_of_the_last_measurements_counts_so_that_one_in_traffic_does_no_harm() -> None:
    network = Network()
    mine = made(network, Around())
    for trip_s in (0.001, *[0.004] * KEPT):
        network.trip_s = trip_s
        await mine.look()
        network.now += REFRESH_S
        if trip_s == 0.001 or len(network.asked) < (PINGS + 1) * KEPT:
            assert mine.links[0].latency_s == 0.0005
    assert mine.links[0].latency_s == 0.002


async def test_after_waking_everything_is_measured_anew() -> None:
    network = Network()
    mine = made(network, Around())
    await mine.look()
    mine.woke()
    assert not mine.links
    await mine.look()
    assert [link.to for link in mine.links] == [A]


async def test_links_go_to_the_nodes_that_are_heard_the_longest_unmeasured_first() -> None:
    network, around = Network(), Around([A, B])
    mine = made(network, around)
    await mine.look()
    await mine.look()
    assert [link.to for link in mine.links] == [A, B]
    around.others = [B]
    assert [link.to for link in mine.links] == [B]


async def test_two_nodes_do_not_measure_into_each_other() -> None:
    network = Network()
    mine = made(network, Around())
    network.answer = lambda question: PONG if mine.answer(PING) == BUSY else None
    await mine.look()
    assert len(mine.links) == 1
    assert mine.answer(PING) == PONG


def test_a_question_that_is_no_probe_is_somebody_elses() -> None:
    assert made(Network(), Around()).answer(b'"cluster"') is None


async def test_memory_is_read_where_no_table_knows_the_chip_and_alike_machines_count_as_equally_fast() -> None:
    network, around = Network(), Around([])
    speeds = iter((1e10, 8e9))
    mine = made(network, around, "AMD EPYC", lambda: next(speeds))
    assert mine.bytes_per_s == 0
    await mine.look()
    assert mine.bytes_per_s == 0.85e10
    network.now += REFRESH_S
    await mine.look()
    assert mine.bytes_per_s == 0.85e10
    around.same = [0.9e10, float("nan"), -1.0]
    assert mine.bytes_per_s == 0.9e10


async def test_apples_figure_stands_where_the_chip_is_known() -> None:
    mine = made(Network(), Around([]), "Apple M3 Ultra")
    await mine.look()
    assert mine.bytes_per_s == 0


async def test_a_machine_that_cannot_be_measured_tells_nothing() -> None:
    mine = made(Network(), Around([]), "AMD EPYC", lambda: None)
    await mine.look()
    assert mine.bytes_per_s == 0


def test_this_machines_memory_is_read_within_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "MEMORY_BYTES", 16 << 20)
    monkeypatch.setattr(probes, "memory_free_bytes", lambda: 1 << 40)
    found = probes.memory_bytes_per_s()
    assert found is not None
    assert 1e8 < found < 1e13
    monkeypatch.setattr(probes, "memory_free_bytes", lambda: 1 << 20)
    assert probes.memory_bytes_per_s() is None
