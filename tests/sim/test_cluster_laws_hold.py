from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.sim.cluster import Cluster
from tests.sim.run_seeds import run_all

SEEDS = int(os.environ.get("SIM_SEEDS", "2000"))


@pytest.mark.timeout(1200)  # half a minute on two free cores; a machine that is shared may need much longer
def test_the_laws_hold_in_every_cluster_and_the_queue_drains() -> None:
    failures = list(run_all(SEEDS))
    if failures:
        pytest.fail(f"{len(failures)} of {SEEDS} seeds broke a law; the first:\n{failures[0]}", pytrace=False)


def test_the_clusters_are_rough_enough_to_mean_something() -> None:
    told: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    renamed = resumed = 0
    for seed in range(60):
        cluster = Cluster(seed)
        cluster.run()
        told += cluster.told
        renamed += cluster.renamed
        ends.update(job.end for job in cluster.clients.jobs)
        resumed += sum(job.end == "finished" and job.resumed for job in cluster.clients.jobs)
    for kind in ("stepped_down", "ring_adopted", "plan_dropped", "ring_broke", "woke", "shard_stray", "node_lost"):
        assert told[kind] >= 5, (kind, told)
    assert told["master_elected"] > 60
    assert ends["finished"] >= 150, ends
    assert min(ends["failed"], ends["cancelled"], ends["deadline"]) >= 3, ends
    assert resumed >= 5, "answers went on at another ring or master"
    assert renamed >= 3, "shards were taken over by the next plan"
