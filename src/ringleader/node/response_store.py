"""Responses kept in one SQLite file of the node's state directory, readable by its owner alone.

Bounded by count and bytes: what was longest unused is forgotten first, and following a response uses all before it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ringleader.api.contracts import StoredResponse
from ringleader.config import RESPONSES_KEPT
from ringleader.errors import OurFault
from ringleader.values import Json

T = TypeVar("T")

BYTES_MAX = 512 * 2**20  # of JSON
CHAIN_MAX = 10_000  # responses in one conversation
FILE = "responses.sqlite"
VERSION = 1  # of the tables below
_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses (
    id TEXT PRIMARY KEY, previous TEXT, created INTEGER NOT NULL, used REAL NOT NULL, bytes INTEGER NOT NULL,
    input TEXT NOT NULL, body TEXT NOT NULL, owner TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS by_use ON responses (used, created, bytes);  -- holds all that making room reads
CREATE TABLE IF NOT EXISTS items (id TEXT PRIMARY KEY, response TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_response ON items (response);
"""

log = logging.getLogger("ringleader.node")


class SqliteResponses:
    """As `api.contracts.ResponseStore`. Opened when first used; a file that is no database is put aside."""

    def __init__(
        self,
        file: Path,
        *,
        count_max: int = RESPONSES_KEPT,
        bytes_max: int = BYTES_MAX,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._file = file
        self._count_max, self._bytes_max = count_max, bytes_max
        self._now = now
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    async def put(self, response: StoredResponse) -> None:
        """Keep it, and forget what there is no room for."""
        await self._do(lambda db: self._put(db, response))

    async def get(self, response_id: str) -> StoredResponse | None:
        """One response."""
        return await self._do(lambda db: self._get(db, response_id))

    async def chain(self, response_id: str) -> list[StoredResponse]:
        """The oldest first."""
        return await self._do(lambda db: self._chain(db, response_id))

    async def delete(self, response_id: str) -> bool:
        """Forget it."""
        return await self._do(lambda db: _forget(db, response_id))

    async def items(self, ids: tuple[str, ...], caller: str) -> dict[str, dict[str, Json]]:
        """By their ids."""
        return await self._do(lambda db: self._items(db, ids, caller))

    async def close(self) -> None:
        """Write out what is left to write."""
        await asyncio.to_thread(self._close)

    # ------------------------------------------------------------ in a thread

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.to_thread(self._locked, work)

    def _locked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                with self._open() as db:
                    return work(db)
            except (sqlite3.Error, OSError) as error:
                raise OurFault(f"the store of responses in {self._file} cannot be used: {error}") from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._connection = _connect(self._file)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                aside = self._file.with_suffix(".broken")
                self._file.replace(aside)
                log.warning("%s is no database (%s): put aside as %s, begun anew", self._file, error, aside.name)
                self._connection = _connect(self._file)
        return self._connection

    def _close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _put(self, db: sqlite3.Connection, response: StoredResponse) -> None:
        given = json.dumps(response.input, ensure_ascii=False)
        body = json.dumps(response.body, ensure_ascii=False)
        size = len(given.encode()) + len(body.encode())
        row = (response.id, response.previous, response.created, self._now(), size, given, body, response.owner)
        db.execute("INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        ids = [(item["id"], response.id) for item in (*response.input, *response.body["output"])]
        db.executemany("INSERT OR REPLACE INTO items VALUES (?, ?)", ids)
        self._make_room(db)

    def _make_room(self, db: sqlite3.Connection) -> None:
        count, total = db.execute("SELECT COUNT(*), COALESCE(SUM(bytes), 0) FROM responses").fetchone()
        while count > self._count_max or total > self._bytes_max:
            oldest = "SELECT id, bytes FROM responses ORDER BY used, created LIMIT 1"
            response_id, size = db.execute(oldest).fetchone()
            _forget(db, response_id)
            count, total = count - 1, total - size

    def _get(self, db: sqlite3.Connection, response_id: str) -> StoredResponse | None:
        columns = "id, previous, created, input, body, owner"
        found = db.execute(f"SELECT {columns} FROM responses WHERE id = ?", (response_id,))
        row = found.fetchone()
        return None if row is None else _read(row)

    def _chain(self, db: sqlite3.Connection, response_id: str) -> list[StoredResponse]:
        chain: list[StoredResponse] = []
        wanted: str | None = response_id
        while wanted is not None and len(chain) < CHAIN_MAX:
            found = self._get(db, wanted)
            if found is None:
                break
            chain.append(found)
            wanted = found.previous
        now = self._now()
        db.executemany("UPDATE responses SET used = ? WHERE id = ?", [(now, each.id) for each in chain])
        return chain[::-1]

    def _items(self, db: sqlite3.Connection, ids: tuple[str, ...], caller: str) -> dict[str, dict[str, Json]]:
        found: dict[str, dict[str, Json]] = {}
        for item_id in ids:
            row = db.execute("SELECT response FROM items WHERE id = ?", (item_id,)).fetchone()
            response = None if row is None else self._get(db, row[0])
            if response is not None and response.shown_to(caller):
                here = {item["id"]: item for item in (*response.input, *response.body["output"])}
                found[item_id] = here[item_id]
        return found


def _connect(file: Path) -> sqlite3.Connection:
    """A new file is its owner's alone: it holds what people said."""
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    connection = sqlite3.connect(file, check_same_thread=False)
    connection.execute("PRAGMA auto_vacuum = FULL")  # before the first table: forgotten rows leave the disk, too
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if connection.execute("PRAGMA user_version").fetchone()[0] != VERSION:  # of another version: begun anew
        connection.executescript("DROP TABLE IF EXISTS responses; DROP TABLE IF EXISTS items;")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.executescript(_SCHEMA)
    return connection


def _forget(db: sqlite3.Connection, response_id: str) -> bool:
    db.execute("DELETE FROM items WHERE response = ?", (response_id,))
    return db.execute("DELETE FROM responses WHERE id = ?", (response_id,)).rowcount > 0


def _read(row: tuple[Any, ...]) -> StoredResponse:
    response_id, previous, created, given, body, owner = row
    return StoredResponse(response_id, previous, created, tuple(json.loads(given)), json.loads(body), owner)
