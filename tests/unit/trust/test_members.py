from __future__ import annotations

from pathlib import Path

import pytest

from ringleader.errors import NotTrusted
from ringleader.trust.members import Member, add_member, find_member, mark_revoked, read_members
from ringleader.values import NodeId

A, B, C = (NodeId(letter * 16) for letter in "abc")


def test_the_book_keeps_order_and_names_fit_to_print(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    add_member(directory, Member(B, "studio", 1.0, founder=True))
    add_member(directory, Member(A, "evil\x1b[2J" + "x" * 200, 2.0))
    first, second = read_members(directory)
    assert first == Member(B, "studio", 1.0, founder=True)
    assert "\x1b" not in second.name
    assert len(second.name) == 63


def test_an_id_that_is_in_the_book_is_not_taken_twice(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    add_member(directory, Member(A, "a", 1.0))
    with pytest.raises(NotTrusted, match=f"node {A} is known here already: run ringleader cluster leave"):
        add_member(directory, Member(A, "b", 2.0))
    assert [each.name for each in read_members(directory)] == ["a"]


def test_a_member_is_found_by_id_or_by_a_name_that_is_its_own(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    for node, name in ((A, "mini"), (B, "mini"), (C, "studio")):
        add_member(directory, Member(node, name, 1.0))
    assert find_member(directory, "studio").node == C
    assert find_member(directory, A).name == "mini"
    with pytest.raises(NotTrusted, match=f"several nodes are called mini: say the id, one of {A}, {B}"):
        find_member(directory, "mini")
    mark_revoked(directory, A)
    assert find_member(directory, "mini").node == B
    with pytest.raises(NotTrusted, match="no node 'nobody'"):
        find_member(directory, "nobody")
