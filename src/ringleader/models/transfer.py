"""Moving one remote file to disk: continued where it stopped, checked when it is whole, counted as it grows.

Knows no hub and no HTTP; a reader is handed in. Several files move at once, each on its own thread.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from ringleader.errors import ModelFault, PeerFault
from ringleader.models.reporter import Reporter

TRIES = 5  # in a row without one new byte
PART = ".part-"
LEDGER = ".ringleader.json"


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file as the hub announces it. `etag` names its content; 64 hexadecimal digits are its SHA-256."""

    name: str
    url: str
    size: int
    etag: str


class Cut(PeerFault):
    """A transfer that stopped half way and may be tried again; `restart` when from its beginning."""

    def __init__(self, message: str, *, restart: bool = False) -> None:
        super().__init__(message)
        self.restart = restart


Read = Callable[[RemoteFile, int], AbstractContextManager[tuple[int, Iterator[bytes]]]]


class Ledger:
    """Which files of a directory are whole, and of which version. Kept in the directory, also when it is a model."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._lock = directory, threading.Lock()
        self._whole: dict[str, str] = {}
        try:
            table = json.loads((directory / LEDGER).read_bytes())
        except (OSError, ValueError, RecursionError):
            return  # none yet, or broken: then nothing counts as whole and all is fetched again
        if isinstance(table, dict):
            self._whole = {str(name): str(etag) for name, etag in table.items()}

    def has(self, file: RemoteFile) -> bool:
        """Whether `file` lies there whole, in this very version."""
        path = self._directory / file.name
        return self._whole.get(file.name) == file.etag and path.is_file() and path.stat().st_size == file.size

    def add(self, file: RemoteFile) -> None:
        """Note that `file` is whole."""
        with self._lock:
            self._whole[file.name] = file.etag
            draft = self._directory / f"{LEDGER}.new"
            draft.write_text(json.dumps(self._whole, indent=1), encoding="utf-8")
            draft.replace(self._directory / LEDGER)

    def tidy(self, files: list[RemoteFile]) -> None:
        """Delete what does not belong to `files`: leftovers of an older version."""
        kept = {file.name for file in files} | {LEDGER}
        for path in self._directory.rglob("*"):
            if path.is_file() and path.relative_to(self._directory).as_posix() not in kept:
                path.unlink()


class Tally:
    """Bytes on disk over all files, reported as one number."""

    def __init__(self, total: int, reporter: Reporter) -> None:
        self.total, self._reporter = total, reporter
        self._done, self._lock = 0, threading.Lock()

    def add(self, count: int) -> None:
        """`count` more bytes lie on disk (fewer, when negative)."""
        with self._lock:
            self._done += count
            self._reporter.advance(self._done, self.total, "bytes")


class Transfer:
    """Fetches files into a directory; `run` may be called from several threads, `stop` from any."""

    def __init__(self, into: Path, ledger: Ledger, tally: Tally, read: Read, pause_s: float) -> None:
        self._into, self._ledger, self._tally, self._read = into, ledger, tally, read
        self._pause_s, self._stopped = pause_s, threading.Event()

    def stop(self) -> None:
        """Let every `run` end soon; what they have fetched stays."""
        self._stopped.set()

    def run(self, file: RemoteFile) -> None:
        """Fetch `file` whole.

        Raises:
            ModelFault: cut off TRIES times in a row without progress, or its SHA-256 is wrong.
        """
        target = self._into / file.name
        # The version is in the name: a part of another version is never continued.
        part = target.with_name(f"{target.name}{PART}{hashlib.sha256(file.etag.encode()).hexdigest()[:12]}")
        part.parent.mkdir(exist_ok=True)
        part.touch()
        if part.stat().st_size > file.size:
            part.unlink()
            part.touch()
        self._tally.add(part.stat().st_size)
        fruitless = 0
        while (before := part.stat().st_size) < file.size:
            try:
                self._continue(file, part, before)
                cut = Cut("the server sent less than it announced")
            except Cut as error:
                cut = error
                if error.restart:
                    self._truncate(part, 0)
            after = part.stat().st_size
            if after >= file.size:
                break
            fruitless = 0 if after > before else fruitless + 1
            if fruitless >= TRIES:
                raise ModelFault(f"{file.name} was cut off at byte {after} of {file.size} ({cut}); pull again to go on")
            if self._stopped.wait(self._pause_s * 2**fruitless):
                raise Cut("stopped")
        self._check(file, part)
        part.replace(target)
        self._ledger.add(file)

    def _continue(self, file: RemoteFile, part: Path, before: int) -> None:
        with self._read(file, before) as (start, chunks):
            if start < before:
                self._truncate(part, start)
            with part.open("ab") as out:
                for chunk in chunks:
                    if self._stopped.is_set():
                        raise Cut("stopped")
                    room = file.size - out.tell()
                    out.write(chunk[:room])
                    self._tally.add(min(len(chunk), room))
                    if len(chunk) > room:
                        raise ModelFault(f"{file.name} is longer than the {file.size} bytes that the hub announced")

    def _truncate(self, part: Path, size: int) -> None:
        self._tally.add(size - part.stat().st_size)
        with part.open("r+b") as out:
            out.truncate(size)

    def _check(self, file: RemoteFile, part: Path) -> None:
        if not re.fullmatch(r"[0-9a-f]{64}", file.etag):
            return  # a small file that git keeps itself; its size is right
        with part.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != file.etag:
            part.unlink()
            raise ModelFault(f"{file.name} is corrupt: expected sha256 {file.etag}, found {found}; pull again")
