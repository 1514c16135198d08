"""Files that only their owner may read: made so, refused when they are not, written whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ringleader.errors import NotTrusted

DIRECTORY_MODE, FILE_MODE = 0o700, 0o600
OPEN_TO_OTHERS = 0o077
FILE_BYTES_MAX = 1 << 20  # the largest is the list of members, some hundred bytes for each


def private_directory(path: Path) -> Path:
    """`path`, made with mode 0700 if it is not there. Raises NotTrusted when others may look into it."""
    try:
        path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        _check_owner_only(path, path.stat())
    except OSError as error:
        raise NotTrusted(f"the state directory {path} cannot be used: {error.strerror}") from error
    return path


def read_private(path: Path) -> bytes | None:
    """A file's bytes, None when there is none.

    Raises NotTrusted when others may read or write it, when it is no plain file, or larger than such files are.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)  # a pipe must not hold us up
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotTrusted(f"{path} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        _check_owner_only(path, found)
        if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_BYTES_MAX:
            raise NotTrusted(f"{path} is no plain file of at most {FILE_BYTES_MAX} bytes: it is not ours")
        return file.read(FILE_BYTES_MAX)


def write_private(path: Path, data: bytes) -> None:
    """Put `data` at `path` with mode 0600: all of it or, should the machine stop meanwhile, none of it."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # made with mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise NotTrusted(f"{path} cannot be written: {error.strerror}") from error


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in a private file, None when there is none. Raises NotTrusted as `read_private`."""
    data = read_private(path)
    if data is None:
        return None
    try:
        value = json.loads(data)
    except ValueError as error:
        raise NotTrusted(f"{path} is not JSON: restore it, or run: ringleader cluster leave") from error
    if not isinstance(value, dict):
        raise NotTrusted(f"{path} holds no object: restore it, or run: ringleader cluster leave")
    return value


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Put a JSON object into a private file."""
    write_private(path, json.dumps(value, indent=1).encode() + b"\n")


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Only one process at a time is inside, and only one thread: the node and the commands write the same files."""
    private_directory(directory)
    descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # what is done inside takes milliseconds
        yield
    finally:
        os.close(descriptor)


def _check_owner_only(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.getuid():
        raise NotTrusted(f"{path} belongs to another user (uid {found.st_uid}): keys must be this user's own")
    if found.st_mode & OPEN_TO_OTHERS:
        mode = DIRECTORY_MODE if stat.S_ISDIR(found.st_mode) else FILE_MODE
        raise NotTrusted(
            f"{path} is open to other users (mode {stat.S_IMODE(found.st_mode):04o}): run chmod {mode:o} {path}"
        )
