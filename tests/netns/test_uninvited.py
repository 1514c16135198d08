"""Who was not invited stays outside, whatever is on the same network: strangers, old tokens, the forgotten, garbage."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ringleader.config import CONTROL_PORT, JOIN_PORT
from tests.netns.cluster import Cluster, halves, say, until, wants
from tests.netns.process import NodeProcess
from tests.netns.world import World

pytestmark = pytest.mark.netns

TOLD_WITHIN_S = 20.0  # a node waits ten seconds for a stranger to prove itself after all
LOOK_S = 4.0  # discovery tells within a second; a dial and its refusal take less
FORGOTTEN_WITHIN_S = 6.0
SCAN_WITHIN_S = 90.0
LISTEN = "0A"  # in /proc/net/tcp

MakeWorld = Callable[..., World]


def refused(node: NodeProcess, within_s: float = 20.0) -> str:
    """The words of a node that was to join and ended instead."""
    assert node.process.wait(timeout=within_s) == 1, node.words()
    return node.words().strip().splitlines()[-1]


def test_a_cluster_of_the_same_name_on_the_same_network_is_another_cluster(make_world: MakeWorld) -> None:
    cluster = Cluster(make_world("abxy"))
    cluster.found("a")
    cluster.join("b", by="a")
    strangers = Cluster(cluster.world)
    strangers.found("x", "--peer", "10.77.0.1")  # it even knows where to knock
    strangers.join("y", by="x")
    strangers.together()
    assert cluster.view("a")["cluster"]["name"] == strangers.view("x")["cluster"]["name"]
    end = time.monotonic() + LOOK_S
    while time.monotonic() < end:
        assert (cluster.together(1.0), strangers.together(1.0)) == ("a", "x"), "nobody else is ever seen"
        time.sleep(0.2)
    words = cluster.nodes["a"].words
    until(lambda: "did not prove to be of this cluster" in words(), TOLD_WITHIN_S, words)
    stranger = strangers.nodes["x"].words
    until(lambda: "nobody of this cluster answers at 10.77.0.1" in stranger(), TOLD_WITHIN_S, stranger)
    assert "of another cluster, is on this network" in stranger(), "its owner may have meant to join it"
    say(f"the node that was knocked at says: {next(line for line in words().splitlines() if 'refused' in line)}")
    assert not cluster.events("a", "node_lost")


def test_tokens_that_are_old_used_or_another_clusters_are_refused_with_the_reason(make_world: MakeWorld) -> None:
    cluster = Cluster(make_world("abx"))
    cluster.found("a")
    short = cluster.invite("a", "--ttl", "1s")
    once = cluster.invite("a")
    cluster.start("b", {"b": ("--join", once)})
    cluster.together()
    tries = {"expired": short, "used": once, "damaged": f"{once[:-8]}aaaaaaaa"}
    said = {}
    for kind, token in tries.items():
        said[kind] = refused(cluster.world.launch_node("x", "--join", token, name=f"x-{kind}"))
        say(f"{kind}: {said[kind]}")
        assert said[kind].startswith("error: ")
    assert "expired" in said["expired"] or "over" in said["expired"]
    assert "used" in said["used"]
    assert cluster.together() == "a"
    assert "x" not in cluster.seen("a")


def test_a_forgotten_member_is_out_of_everybodys_sight_and_stays_out(make_world: MakeWorld) -> None:
    cluster = Cluster(make_world("abc"))
    cluster.found("a")
    cluster.join("bc", by="a")
    cluster.together()
    forgotten = time.monotonic()
    done = cluster.world.command("a", "cluster", "forget", "b")
    assert done.returncode == 0, done.stderr
    node = cluster.nodes.pop("b")
    until(
        lambda: all(cluster.seen(host) == {"a", "c"} for host in "ac"), FORGOTTEN_WITHIN_S, lambda: cluster.shown("ac")
    )
    say(f"out of everybody's sight {time.monotonic() - forgotten:.1f} s after cluster forget")
    cluster.nodes["b"] = node
    until(lambda: cluster.seen("b") == {"b"}, FORGOTTEN_WITHIN_S, lambda: cluster.shown("b"))
    until(lambda: "To come back: ringleader cluster leave" in node.words(), 10.0, node.words)
    say(f"it says: {telling(node)}")
    cluster.kill("b")
    cluster.start("b")
    node = cluster.nodes.pop("b")
    end = time.monotonic() + LOOK_S
    while time.monotonic() < end:
        assert cluster.seen("a") == cluster.seen("c") == {"a", "c"}, "nor when it comes back"
        time.sleep(0.2)
    assert "To come back" in telling(node)
    say(f"started again, it says: {telling(node)}")
    members = json.loads(cluster.world.command("a", "cluster", "nodes", "--json").stdout)["nodes"]
    assert [each["revoked"] for each in members if each["name"] == "b"] == [True]


def telling(node: NodeProcess) -> str:
    """The last that it said of not being let in."""
    return [line for line in node.words().splitlines() if "To come back" in line][-1]


def test_a_port_scan_of_every_port_leaves_a_node_serving(make_world: MakeWorld, model: Path, story: str) -> None:
    cluster = Cluster(make_world("abc"))
    founder = cluster.found("a", *wants(model, halves("a", "b")))
    cluster.join("b", by="a")
    cluster.together()
    cluster.ready("a")
    ports = listening(founder)
    assert {CONTROL_PORT, JOIN_PORT} < ports and len(ports) == 4, "control, join, API, and the shard's"
    stream = cluster.stream("b").began()
    began = time.monotonic()
    scan = cluster.world.start("a", sys.executable, "-m", "tests.netns.scan", *map(str, sorted(ports)), name="scan")
    assert scan.line(SCAN_WITHIN_S) == "done", scan.words()
    say(f"garbage of every kind on ports {sorted(ports)} for {time.monotonic() - began:.1f} s")
    assert stream.whole() == story
    assert cluster.stream("a").whole() == story
    assert cluster.together() == "a" and cluster.view("b")["term"] == 1, "no master was lost for it"
    cluster.join("c", by="a")
    assert cluster.together() == "a", "the door lets in who is invited"
    lines = founder.words().splitlines()
    say(f"it logged {len(lines)} lines")
    assert len(lines) < 60 and not any("Traceback" in line for line in lines), founder.words()


def listening(node: NodeProcess) -> set[int]:
    """The TCP ports of its host that somebody listens at: the node's own, and its shards'."""
    tables = [Path(f"/proc/{node.process.pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == LISTEN}
