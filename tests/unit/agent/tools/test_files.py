"""Files are read under their root and nowhere else, whatever paths and links say."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from ringleader.agent.contracts import ToolContract, ToolFault
from ringleader.agent.tools.files import read_file_tool
from ringleader.errors import ContractFault


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("the secret")
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / "a.txt").write_text("one\ntwo\nthree\n")
    (root / "inner" / "b.txt").write_text("inner")
    (root / ".env").write_text("KEY=1")
    return root


@pytest.fixture
def read(root: Path) -> ToolContract:
    return read_file_tool(root)


def open_handles() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


def text(tool: ToolContract, path: str, **more: int) -> str:
    result: str = tool(path, **more).text
    return result


def test_a_file_is_read_whole_or_by_lines(read: ToolContract) -> None:
    assert text(read, "a.txt") == "one\ntwo\nthree\n"
    assert text(read, "./inner/../a.txt", first_line=2, lines=1) == "two\n\n[there is more from line 3 on]"
    assert read("a.txt", first_line=3).value == {"text": "three\n", "first_line": 3, "lines": 1, "next_line": None}


async def test_the_model_gets_the_text_and_code_gets_json(read: ToolContract) -> None:
    result = await read.call('{"path": "inner/b.txt"}')
    assert result.text == "inner" and result.value["lines"] == 1


def test_a_directory_is_listed_without_what_is_hidden(read: ToolContract, root: Path) -> None:
    assert text(read, ".") == "a.txt\ninner/"
    assert text(read_file_tool(root, hidden=True), "") == ".env\na.txt\ninner/"


@pytest.mark.parametrize(
    "path", ["../secret", "inner/../../secret", "/etc/passwd", "..", "/", "inner/../../other/../secret"]
)
def test_paths_out_of_the_root_are_refused(read: ToolContract, path: str) -> None:
    with pytest.raises(ToolFault, match="outside of the directory"):
        read(path)


def test_an_absolute_path_inside_the_root_is_read(read: ToolContract, root: Path) -> None:
    assert text(read, str(root / "a.txt")).startswith("one")
    (root.parent / "alias").symlink_to(root)
    aliased = read_file_tool(root.parent / "alias")
    assert text(aliased, str(root.parent / "alias" / "a.txt")).startswith("one")
    with pytest.raises(ToolFault, match="outside of the directory"):
        aliased(f"{root.parent}/alias/../secret")


def test_links_inside_the_root_are_followed(read: ToolContract, root: Path) -> None:
    (root / "near").symlink_to("inner/b.txt")
    (root / "inner" / "up").symlink_to("../a.txt")
    (root / "far").symlink_to(root / "inner")
    assert text(read, "near") == "inner"
    assert text(read, "inner/up").startswith("one")
    assert text(read, "far/b.txt") == "inner"


def test_links_out_of_the_root_are_refused(read: ToolContract, root: Path) -> None:
    for name, target in [("up", "../secret"), ("abs", str(root.parent / "secret")), ("dir", ".."), ("chain", "up")]:
        (root / name).symlink_to(target)
        with pytest.raises(ToolFault, match="outside of the directory"):
            read(f"{name}/secret" if name == "dir" else name)


def test_links_to_hidden_names_and_in_circles_are_refused(read: ToolContract, root: Path) -> None:
    (root / "open").symlink_to(".env")
    (root / "x").symlink_to("y")
    (root / "y").symlink_to("x")
    with pytest.raises(ToolFault, match="hidden"):
        read("open")
    with pytest.raises(ToolFault, match="hidden"):
        read(".env")
    with pytest.raises(ToolFault, match="cannot be opened"):
        read("x")


def test_pipes_binaries_and_what_is_not_there_are_told(read: ToolContract, root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "binary").write_bytes(b"\x7fELF\0\0")
    for path, why in [
        ("pipe", "is no file"),
        ("binary", "not a text file"),
        ("gone", "No such file"),
        ("a.txt/b", "Not a directory"),
        ("a\0b", "NUL"),
        ("a/" * 100, "at most 64"),
    ]:
        with pytest.raises(ToolFault, match=why):
            read(path)


def test_long_files_come_in_pieces_that_join_to_the_whole(root: Path) -> None:
    whole = "".join(f"line {n} {'x' * (n % 90)}\n" for n in range(500)) + "y" * 3000
    (root / "long").write_text(whole)
    small = read_file_tool(root, bytes_max=1000)
    pieces, line = [], 1
    while line is not None:
        value = small("long", first_line=line).value
        assert len(value["text"]) <= 1001
        pieces.append(value["text"])
        line = value["next_line"]
    assert "".join(pieces)[: len(whole) - 3000] == whole[:-3000]


def test_lines_beyond_the_end_are_told_and_empty_files_are_empty(read: ToolContract, root: Path) -> None:
    with pytest.raises(ToolFault, match="has 3 lines, and none at 9"):
        read("a.txt", first_line=9)
    (root / "empty").touch()
    assert text(read, "empty") == "[an empty file]"


def test_no_handle_stays_open(read: ToolContract, root: Path) -> None:
    before = open_handles()
    for path in ("a.txt", "inner/b.txt", "../secret", "gone", "."):
        with contextlib.suppress(ToolFault):
            read(path)
    assert open_handles() == before


def test_a_root_that_is_none_is_refused(root: Path) -> None:
    with pytest.raises(ContractFault, match="needs a directory"):
        read_file_tool(root / "a.txt")
