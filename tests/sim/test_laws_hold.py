from __future__ import annotations

from collections import Counter

import pytest

from tests.sim.world import World

SEEDS = 300
PER_TEST = 50


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_the_laws_hold_in_every_world_and_the_queue_drains(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        World(seed).run()


def test_the_worlds_are_rough_enough_to_mean_something() -> None:
    ends: Counter[str] = Counter()
    for seed in range(40):
        world = World(seed)
        world.run()
        ends.update(type(error).__name__ for error in world.failed.values())
        ends["finished"] += len(world.finished)
    for kind in ("finished", "RingLost", "DeadlinePassed", "ModelDoesNotFit", "BadRequest"):
        assert ends[kind] >= 5, ends
