from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ringleader.errors import MasterMoved, NodeUnreachable
from ringleader.net.relay import Relays
from tests.security.clusters import make_cluster
from tests.unit.net.stations import HEARD_WITHIN_S, Station


@pytest.mark.parametrize("secure", [False, True], ids=["clear", "tls"])
async def test_a_taken_port_is_told_with_what_to_do(secure: bool, tmp_path: Path) -> None:
    credentials = make_cluster(tmp_path).founder if secure else None
    first, second = Station("a", credentials), Station("b", credentials)
    await first.open()
    with pytest.raises(NodeUnreachable, match="--port"):
        await second.open(int(first.address.rpartition(":")[2]))
    await second.close()
    await first.close()


async def test_closing_ends_calls_that_are_under_way_and_frees_the_port() -> None:
    a, b = await Station("a").open(), await Station("b").open()
    await a.meet(b)
    answers = Relays(a.mesh.channel).call(b.node, b"for ever")
    await anext(answers)
    async with asyncio.timeout(HEARD_WITHIN_S):
        await b.close()
        with pytest.raises(MasterMoved):
            async for _ in answers:
                pass
        await b.hung_up.wait()
    again = await Station("c").open(int(b.address.rpartition(":")[2]))
    await again.close()
    await a.close()


async def test_a_stranger_is_heard_by_neither_service(tmp_path: Path) -> None:
    ours = Station("a", make_cluster(tmp_path / "ours").founder)
    stranger = Station("b", make_cluster(tmp_path / "theirs").founder)
    await ours.open()
    await stranger.open()
    stranger.mesh.dial([ours.address])
    stranger.mesh.dial([ours.address], ours.node)
    await asyncio.sleep(0.5)
    assert stranger.ups.empty()
    assert len(ours.words) == 0
    assert stranger.mesh.channel(ours.node) is None
    await stranger.close()
    await ours.close()
