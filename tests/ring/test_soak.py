"""The soak's short form: after a mixed load slots, tasks, threads, files and memory are as they were."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.ring.cluster import Cluster
from tests.ring.tiny_models import make_tiny_model
from tests.soak.run_soak import Reading, left_behind, soak

SECONDS = 20.0
REST = Reading((0, 0), tasks=20, threads=50, files=80, node_mb=200.0, shards_mb=(400.0, 500.0))


@pytest.mark.ring
async def test_nothing_is_left_behind_by_callers_of_all_kinds(tmp_path: Path) -> None:
    model = make_tiny_model("llama", tmp_path / "tiny", tokenizer=True)
    lines: list[str] = []
    with Cluster(tmp_path) as cluster:
        cluster.start_master("a", "--model", str(model), "--shards", "2", "--context", "2048")
        cluster.wait_ready()
        assert await soak(cluster, "tiny", SECONDS, lines.append, 60) == [], "\n".join(
            [*lines, cluster.nodes["a"].words()]
        )


def test_what_is_left_behind_is_named() -> None:
    assert left_behind(REST, REST) == []
    assert "slots that nobody uses: (1, 0)" in left_behind(REST, replace(REST, slots=(1, 0)))
    assert left_behind(REST, replace(REST, tasks=40)) == ["tasks: 20 before, 40 after"]
    assert left_behind(REST, replace(REST, shards_mb=(400.0, 900.0))) == [
        "memory of shard 1: 500 MB before, 900 MB after"
    ]
