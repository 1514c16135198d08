"""A model whose files only one node has: any master answers for it, runs it there, and takes it over there."""

from __future__ import annotations

import signal
from pathlib import Path

import aiohttp
import pytest

from ringleader.trust.credentials import node_id
from tests.ring.cluster import READY_DEADLINE_S, Cluster, ask, wait_until

pytestmark = pytest.mark.ring

MEASURED_WITHIN_S = 40.0  # a look a second, in which the other node must not be measuring too


@pytest.fixture
def homes(tmp_path: Path, smollm: Path) -> tuple[str, str]:
    """One with the model, one without any."""
    full, empty = tmp_path / "full", tmp_path / "empty"
    (full / "models").mkdir(parents=True)
    (full / "models" / smollm.name).symlink_to(smollm)
    empty.mkdir()
    return str(full), str(empty)


async def test_masters_without_the_files_serve_a_model_where_they_are_and_take_it_over_as_it_runs(
    tmp_path: Path, homes: tuple[str, str]
) -> None:
    full, empty = homes
    # Of two nodes that look for a master the one of the higher id leads: here, the one without the files.
    holder, heir = sorted(("one", "two"), key=lambda name: node_id(tmp_path / f"{name}.state"))
    with Cluster(tmp_path) as cluster:
        cluster.start_master("first", "--home", empty, "--context", "512")
        cluster.start_follower(holder, "--home", full)
        cluster.start_follower(heir, "--home", empty, "--context", "512")
        wait_until(lambda: len(cluster.view()["nodes"]) == 3, READY_DEADLINE_S, lambda: str(cluster.view()))
        async with aiohttp.ClientSession() as session:
            status, before = await ask(session, cluster.nodes[heir].api, max_tokens=8)
            assert status == 200, before
            (stage,) = cluster.stages()
            assert stage["node"] == cluster.nodes[holder].id

            def measured() -> bool:
                here = cluster.nodes[heir].id
                return all(node["id"] == here or node["links"] for node in cluster.view()["nodes"])

            wait_until(measured, MEASURED_WITHIN_S, lambda: str(cluster.view()["nodes"]))
            cluster.nodes["first"].send(signal.SIGKILL)
            leads = cluster.nodes[heir].id
            wait_until(lambda: cluster.view(heir)["master"] == leads, READY_DEADLINE_S, lambda: str(cluster.view(heir)))
            status, after = await ask(session, cluster.nodes[heir].api, max_tokens=8)
            assert status == 200, after
            assert after["choices"][0]["message"] == before["choices"][0]["message"]
            assert [each["pid"] for each in cluster.view(heir)["rings"][0]["stages"]] == [stage["pid"]]
            async with session.get(f"{cluster.nodes[heir].api}/v1/models") as answer:
                assert [model["id"] for model in (await answer.json())["data"]] == ["smollm2-135m"]
            status, refused = await ask(session, cluster.nodes[heir].api, model="nobody-s")
            assert (status, refused["error"]["code"]) == (404, "model_not_found")
