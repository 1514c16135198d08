"""How a model appears in the store: made aside under a lock, flushed, then renamed. Half a model is never one.

Laws: only the holder of a name's lock touches its staging directories; the kernel drops the lock of a killed
process; a `.partial-` directory whose lock is free is rubbish; a `.resume-` directory is a download to go on with.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK, PARTIAL, RESUME = ".lock-", ".partial-", ".resume-"


@contextmanager
def locked(root: Path, name: str, *, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of `name`; calls `waiting` once if another process or thread has it.

    The wait has no deadline: the other one is downloading, and its death frees the lock.
    The lock file stays for ever, since removing it would let two holders lock two different files.
    """
    with (root / f"{LOCK}{name}").open("ab") as lock:
        if not _try(lock.fileno()):
            waiting()
            fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
        yield


@contextmanager
def locked_now(root: Path, name: str) -> Iterator[bool]:
    """Hold the lock of `name` if it is free; yields whether it was."""
    with (root / f"{LOCK}{name}").open("ab") as lock:
        yield _try(lock.fileno())


@contextmanager
def partial(root: Path, name: str) -> Iterator[Path]:
    """A fresh directory for the holder of `name`'s lock; removed at the end, whatever happened."""
    made = root / f"{PARTIAL}{name}"
    remove_tree(made)
    made.mkdir()
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def resumable(root: Path, name: str) -> Path:
    """The directory in which the download of `name` goes on where it stopped; made if there is none."""
    made = root / f"{RESUME}{name}"
    made.mkdir(exist_ok=True)
    return made


def forget_if_empty(directory: Path) -> None:
    """Delete `directory` if nothing is in it."""
    if not any(directory.iterdir()):
        directory.rmdir()


def publish(made: Path, target: Path) -> None:
    """Flush `made` and give it its name. After a power cut there is the whole model or none."""
    for file in made.rglob("*"):
        if file.is_file():
            _flush(file)
    _flush(made)
    made.rename(target)
    _flush(target.parent)


def discard(root: Path, name: str) -> None:
    """Delete the model `name` so that it is gone at once, although deleting its files takes a while."""
    grave = root / f"{PARTIAL}{name}"
    remove_tree(grave)
    (root / name).rename(grave)
    shutil.rmtree(grave)


def sweep(root: Path) -> None:
    """Delete what killed processes left half-made; what a living one works on is locked and stays."""
    for leftover in sorted(root.glob(f"{PARTIAL}*")):
        with locked_now(root, leftover.name.removeprefix(PARTIAL)) as free:
            if free:
                remove_tree(leftover)


def remove_tree(directory: Path) -> None:
    """Delete `directory` if it is there; a symbolic link is unlinked, not followed."""
    if directory.is_symlink():
        directory.unlink()
    elif directory.exists():
        shutil.rmtree(directory)


def _try(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
