from __future__ import annotations

from dataclasses import replace

from ringleader.cluster.nodes import LOST_NODES_MAX, LOST_SHOWN_S, NodeTable
from ringleader.values import NodeId
from tests.unit.cluster.builders import node

ME = replace(node("me"), memory_free_bytes=100)
OTHER = replace(node("other"), memory_free_bytes=50)


def free(table: NodeTable, promised: list[tuple[NodeId, int]]) -> dict[str, int]:
    return {profile.name: profile.memory_free_bytes for profile in table.plannable(promised)}


def test_what_was_promised_is_not_free_even_before_it_is_used() -> None:
    table = NodeTable(ME)
    table.join(OTHER)
    assert free(table, [(ME.node, 30), (ME.node, 30), (NodeId("unknown"), 5)]) == {"me": 40, "other": 50}


def test_a_loaded_shard_is_not_counted_twice() -> None:
    table = NodeTable(ME)
    table.report(ME.node, 75, replace(ME, memory_held_bytes=25))  # of the promised 30: the cache is still empty
    assert free(table, [(ME.node, 30)]) == {"me": 70}


def test_a_shard_that_is_told_to_stop_gives_its_memory_to_the_next_plan() -> None:
    table = NodeTable(ME)
    table.report(ME.node, 75, replace(ME, memory_held_bytes=25))
    assert free(table, []) == {"me": 100}


def test_the_master_stays_first_and_a_lost_node_keeps_its_name() -> None:
    table = NodeTable(ME)
    table.join(OTHER)
    table.join(ME)
    assert [profile.name for profile in table.profiles()] == ["me", "other"]
    table.lose(OTHER.node, "gone", 3.0)
    assert OTHER.node not in table
    assert table.name(OTHER.node) == "other"
    assert [lost.reason for lost in table.lost()] == ["gone"]
    table.join(OTHER)
    assert table.lost() == []


def test_lost_nodes_are_not_remembered_without_end() -> None:
    table = NodeTable(ME)
    for number in range(LOST_NODES_MAX + 5):
        profile = node(str(number))
        table.join(profile)
        table.lose(profile.node, "gone", 0.0)
    assert len(table.lost()) == LOST_NODES_MAX
    assert table.lost()[-1].profile.name == str(LOST_NODES_MAX + 4)


def test_a_lost_node_is_shown_for_some_minutes_only() -> None:
    table = NodeTable(ME)
    table.join(OTHER)
    table.lose(OTHER.node, "gone", 10.0)
    table.forget_lost(10.0 + LOST_SHOWN_S - 1)
    assert len(table.lost()) == 1
    table.forget_lost(10.0 + LOST_SHOWN_S)
    assert table.lost() == []


def test_the_later_of_two_nodes_of_one_name_is_shown_with_the_end_of_its_id() -> None:
    table = NodeTable(ME)
    table.join(replace(OTHER, name="me"))
    assert [profile.name for profile in table.profiles()] == ["me", "me~r-id"]
    table.report(OTHER.node, 40, replace(OTHER, name="me", chip="M9"))
    assert [(profile.name, profile.chip) for profile in table.profiles()][1] == ("me~r-id", "M9")
    assert len(table.called("me")) == 2
