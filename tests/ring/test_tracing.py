"""A node that was told to trace leaves one file of its shards' passes when it ends."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import aiohttp
import pytest

from tests.ring.cluster import END_DEADLINE_S, Cluster, ask
from tests.ring.tiny_models import make_tiny_model


def parts(folder: Path) -> list[Path]:
    return list(folder.glob("*.part"))


@pytest.mark.ring
async def test_a_node_writes_its_shards_passes_down_when_it_ends(tmp_path: Path) -> None:
    model = make_tiny_model("llama", tmp_path / "tiny", tokenizer=True)
    trace = tmp_path / "trace.json"
    with Cluster(tmp_path) as cluster:
        node = cluster.start_master("a", "--model", str(model), "--shards", "2", "--trace", str(trace))
        cluster.wait_ready()
        async with aiohttp.ClientSession() as session:
            status, body = await ask(session, cluster.api, model="tiny", max_tokens=6, logit_bias={})
        assert status == 200, body
        node.send(signal.SIGTERM)
        assert node.ended(END_DEADLINE_S) == 0, node.words()
    events = json.loads(trace.read_text())["traceEvents"]
    rows = {event["tid"] for event in events if event["ph"] == "X"}
    assert rows == {0, 1}
    assert {event["name"] for event in events if event["ph"] == "M"} == {"process_name", "thread_name"}
    assert parts(tmp_path) == []
