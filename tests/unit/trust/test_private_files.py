from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ringleader.errors import NotTrusted
from ringleader.trust.private_files import (
    FILE_BYTES_MAX,
    locked,
    private_directory,
    read_json,
    read_private,
    write_json,
    write_private,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_directories_are_made_for_their_owner_only_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = private_directory(tmp_path / "home" / "cluster")
        write_private(made / "key", b"k")
    finally:
        os.umask(before)
    assert (mode(made), mode(made / "key")) == (0o700, 0o600)


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o620, 0o602, 0o644])
def test_a_file_that_others_can_open_is_refused_with_the_command_that_mends_it(tmp_path: Path, bits: int) -> None:
    write_private(tmp_path / "key", b"k")
    (tmp_path / "key").chmod(bits)
    with pytest.raises(NotTrusted, match=rf"mode {bits:04o}\): run chmod 600 .*key"):
        read_private(tmp_path / "key")


def test_a_directory_that_others_can_look_into_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster").chmod(0o755)
    with pytest.raises(NotTrusted, match="run chmod 700"):
        private_directory(tmp_path / "cluster")


def test_what_is_no_plain_file_of_a_sane_size_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    write_private(tmp_path / "large", bytes(FILE_BYTES_MAX + 1))
    write_private(tmp_path / "key", b"k")
    (tmp_path / "link").symlink_to(tmp_path / "key")
    for name in ("pipe", "large", "link"):
        with pytest.raises(NotTrusted, match=name):
            read_private(tmp_path / name)


def test_a_missing_file_is_none_and_json_comes_back_as_it_went(tmp_path: Path) -> None:
    assert read_private(tmp_path / "key") is None
    assert read_json(tmp_path / "book") is None
    write_json(tmp_path / "book", {"a": [1, "ä"]})
    assert read_json(tmp_path / "book") == {"a": [1, "ä"]}


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b"\xff"])
def test_a_damaged_file_is_named(tmp_path: Path, text: bytes) -> None:
    write_private(tmp_path / "book", text)
    with pytest.raises(NotTrusted, match="book"):
        read_json(tmp_path / "book")


def test_a_file_that_is_written_over_keeps_nothing_of_the_old_one_and_leaves_no_draft(tmp_path: Path) -> None:
    write_private(tmp_path / "key", b"a long old content")
    write_private(tmp_path / "key", b"new")
    assert read_private(tmp_path / "key") == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


COUNT_UP = """
import sys
from pathlib import Path
from ringleader.trust.private_files import locked, read_json, write_json
directory = Path(sys.argv[1])
for _ in range(25):
    with locked(directory):
        write_json(directory / "n", {"n": read_json(directory / "n")["n"] + 1})
"""


def test_the_lock_holds_between_processes_and_between_threads(tmp_path: Path) -> None:
    directory = private_directory(tmp_path / "cluster")
    write_json(directory / "n", {"n": 0})

    def count() -> None:
        for _ in range(25):
            with locked(directory):
                write_json(directory / "n", {"n": (read_json(directory / "n") or {})["n"] + 1})

    children = [subprocess.Popen([sys.executable, "-c", COUNT_UP, str(directory)]) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        for each in [threads.submit(count) for _ in range(2)]:
            each.result()
    assert [child.wait(30) for child in children] == [0, 0]
    assert read_json(directory / "n") == {"n": 100}
