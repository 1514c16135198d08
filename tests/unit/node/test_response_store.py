"""The store of responses: bounded, private, and the same after a restart."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringleader.api.contracts import StoredResponse
from ringleader.errors import OurFault
from ringleader.node.response_store import SqliteResponses


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def response(name: str, previous: str | None = None, size: int = 1) -> StoredResponse:
    given: dict[str, Any] = {"id": f"in_{name}", "text": "x" * size}
    return StoredResponse(name, previous, 1, (given,), {"id": name, "output": [{"id": f"out_{name}"}]})


def modes(directory: Path) -> set[int]:
    return {stat.S_IMODE(file.stat().st_mode) for file in directory.iterdir()}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteResponses]:
    store = SqliteResponses(tmp_path / "r.sqlite", count_max=3, bytes_max=10_000, now=Clock())
    yield store
    await store.close()


async def test_what_is_kept_comes_back_after_a_restart(store: SqliteResponses, tmp_path: Path) -> None:
    await store.put(response("a"))
    await store.put(response("b", "a"))
    await store.close()
    again = SqliteResponses(tmp_path / "r.sqlite")
    assert await again.get("b") == response("b", "a")
    assert await again.chain("b") == [response("a"), response("b", "a")]
    assert await again.items(("in_a", "out_b", "who"), "") == {"in_a": response("a").input[0], "out_b": {"id": "out_b"}}
    await again.close()


async def test_what_was_longest_unused_is_forgotten_first(store: SqliteResponses) -> None:
    for name in ("a", "b", "c"):
        await store.put(response(name))
    await store.chain("a")  # is used
    await store.put(response("d"))
    assert [name for name in "abcd" if await store.get(name)] == ["a", "c", "d"]
    assert await store.items(("in_b",), "") == {}


async def test_bytes_are_bounded_too_and_one_that_is_too_large_leaves_at_once(store: SqliteResponses) -> None:
    await store.put(response("a", size=6000))
    await store.put(response("b", size=6000))
    assert [name for name in "ab" if await store.get(name)] == ["b"]
    await store.put(response("c", size=20_000))
    assert await store.get("c") is None


async def test_a_chain_that_has_lost_its_begin_shows_it(store: SqliteResponses) -> None:
    await store.put(response("a"))
    await store.put(response("b", "a"))
    assert await store.delete("a")
    assert not await store.delete("a")
    (left,) = await store.chain("b")
    assert left.previous == "a"
    assert await store.chain("a") == []


async def test_a_chain_that_bites_its_tail_ends(tmp_path: Path) -> None:
    store = SqliteResponses(tmp_path / "r.sqlite")
    await store.put(response("a", "a"))
    assert len(await store.chain("a")) < 100_000
    await store.close()


async def test_only_the_owner_reads_the_file(store: SqliteResponses, tmp_path: Path) -> None:
    await store.put(response("a"))
    assert modes(tmp_path) == {0o600}


async def test_a_file_that_is_no_database_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "r.sqlite").write_bytes(b"not a database" * 100)
    store = SqliteResponses(tmp_path / "r.sqlite")
    await store.put(response("a"))
    assert await store.get("a") == response("a")
    assert (tmp_path / "r.broken").read_bytes().startswith(b"not a database")
    await store.close()


async def test_a_place_that_cannot_be_written_is_our_fault_each_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = SqliteResponses(tmp_path / "file" / "r.sqlite")
    for _ in range(2):
        with pytest.raises(OurFault, match="cannot be used"):
            await store.put(response("a"))


async def test_many_at_once_do_not_disturb_each_other(store: SqliteResponses) -> None:
    await asyncio.gather(*(store.put(response(f"r{n}")) for n in range(20)))
    assert sum([await store.get(f"r{n}") is not None for n in range(20)]) == 3


async def test_items_are_shown_to_their_owner_and_to_nobody_else(store: SqliteResponses) -> None:
    await store.put(replace(response("a"), owner="ann"))
    assert await store.items(("in_a",), "bob") == {}
    assert list(await store.items(("in_a",), "ann")) == ["in_a"]
    kept = await store.get("a")
    assert kept is not None
    assert (kept.shown_to("ann"), kept.shown_to("bob"), kept.shown_to("")) == (True, False, False)
    assert response("b").shown_to("bob")


async def test_tables_of_another_version_are_begun_anew(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "r.sqlite") as old:
        old.execute("CREATE TABLE responses (id TEXT)")
    store = SqliteResponses(tmp_path / "r.sqlite")
    await store.put(response("a"))
    assert await store.get("a") == response("a")
    await store.close()
