"""Reads text files under one directory, and nothing outside of it, whatever links and names say.

Every part of a path is opened by itself, relative to the directory before it, and links are followed by hand: there is
no moment between a check and its use in which somebody could swap a part for a link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ringleader.agent.contracts import ToolContract, ToolFault, ToolResult, tool
from ringleader.errors import ContractFault

LINKS_MAX = 16  # of one path; loops end here
PARTS_MAX = 64
SCANNED_BYTES_MAX = 64_000_000  # how far into a file a line is looked for
ENTRIES_MAX = 500  # of a directory that is listed
BYTES_MAX = 30_000  # of one answer; a little less than what a result may hold. A longer line comes in pieces
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # not blocking: a pipe's name would wait for ever


def read_file_tool(root: Path, *, tier: int = 1, hidden: bool = False, bytes_max: int = BYTES_MAX) -> ToolContract:
    """A tool that reads text files under `root`. `hidden` lets it see names that begin with a dot (often secrets).

    Raises:
        ContractFault: `root` is not a directory.
    """
    top, spelled = root.resolve(), root.absolute()
    if not top.is_dir():
        raise ContractFault(f"read_file needs a directory, and {root} is none")

    @tool(tier=tier, effects=["read"], timeout_s=20, name="read_file")
    def read_file(
        path: str,
        first_line: Annotated[int, Field(ge=1)] = 1,
        lines: Annotated[int, Field(ge=1, le=5_000)] = 1_000,
    ) -> ToolResult:
        """Reads a text file, or lists a directory, of the one directory that may be read.

        Args:
            path: the file's path inside the directory; . lists the directory itself
            first_line: where to begin, counting from 1
            lines: how many lines at most
        """
        inside = path.removeprefix(f"{spelled}/")  # the root's own name may go through links
        with _open_beneath(top, inside, hidden) as handle:
            if stat.S_ISDIR(os.fstat(handle).st_mode):
                return _listing(handle, hidden)
            return _extract(handle, path, first_line, lines, bytes_max)

    return read_file


@contextmanager
def _open_beneath(top: Path, path: str, hidden: bool) -> Iterator[int]:
    """The file or directory at `path`, open for reading."""
    opened = [os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        _walk(opened, top, path, hidden)
        yield opened[-1]
    finally:
        for handle in opened:
            os.close(handle)


def _walk(opened: list[int], top: Path, path: str, hidden: bool) -> None:
    """Opens part after part; `opened` holds the way from the root, which `..` goes back."""
    parts = deque(_parts(top, path, path))
    links = 0
    while parts:
        part = parts.popleft()
        if part == "..":
            if len(opened) == 1:
                raise ToolFault(f"{path} is outside of the directory that may be read")
            os.close(opened.pop())
            continue
        if part.startswith(".") and not hidden:
            raise ToolFault(f"{path}: hidden files may not be read")
        try:
            opened.append(os.open(part, _FLAGS, dir_fd=opened[-1]))
        except OSError as refused:
            target = _link(part, opened[-1]) if refused.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR) else None
            links += 1
            if target is None or links > LINKS_MAX:
                raise ToolFault(f"{path} cannot be opened: {os.strerror(refused.errno or 0)}") from refused
            if target.startswith("/"):
                while len(opened) > 1:
                    os.close(opened.pop())
            parts.extendleft(reversed(_parts(top, target, path)))


def _parts(top: Path, text: str, path: str) -> list[str]:
    """The parts of a path or a link's target, relative to the root where it is absolute."""
    if "\0" in text:
        raise ToolFault("a path has no NUL characters")
    if text.startswith("/"):
        try:
            text = str(Path(os.path.normpath(text)).relative_to(top))
        except ValueError:
            raise ToolFault(f"{path} is outside of the directory that may be read") from None
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if len(parts) > PARTS_MAX:
        raise ToolFault(f"a path has at most {PARTS_MAX} parts")
    return parts


def _link(part: str, directory: int) -> str | None:
    with contextlib.suppress(OSError):
        return os.readlink(part, dir_fd=directory)
    return None


def _listing(handle: int, hidden: bool) -> ToolResult:
    names = []
    with os.scandir(handle) as entries:
        for entry in entries:
            if hidden or not entry.name.startswith("."):
                names.append(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else ""))
    names.sort()
    more = [f"... and {len(names) - ENTRIES_MAX} more"] if len(names) > ENTRIES_MAX else []
    shown = names[:ENTRIES_MAX] + more
    return ToolResult("\n".join(shown) or "[an empty directory]", {"entries": names[:ENTRIES_MAX]})


def _extract(handle: int, path: str, first_line: int, lines: int, bytes_max: int) -> ToolResult:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise ToolFault(f"{path} is no file: it is a device, a pipe or a socket")
    kept: list[bytes] = []
    size = scanned = number = 0
    with os.fdopen(os.dup(handle), "rb") as file:
        while True:
            line = file.readline(bytes_max + 1)
            scanned += len(line)
            if b"\0" in line:
                raise ToolFault(f"{path} is not a text file")
            if not line:
                if first_line > max(number, 1):
                    raise ToolFault(f"{path} has {number} lines, and none at {first_line}")
                return _told(kept, first_line, None)
            number += 1
            if number < first_line:
                if scanned > SCANNED_BYTES_MAX:
                    raise ToolFault(f"line {first_line} is beyond the first {SCANNED_BYTES_MAX:,} bytes of {path}")
                continue
            if kept and (size + len(line) > bytes_max or len(kept) == lines):
                return _told(kept, first_line, number)
            kept.append(line[:bytes_max])
            size += len(line)


def _told(kept: list[bytes], first_line: int, next_line: int | None) -> ToolResult:
    """The text itself for the model, since code in JSON is hard to read; `next_line` None is the end of the file."""
    text = b"".join(kept).decode("utf-8", errors="replace")
    value = {"text": text, "first_line": first_line, "lines": len(kept), "next_line": next_line}
    more = f"\n[there is more from line {next_line} on]" if next_line else ""
    return ToolResult((text or "[an empty file]") + more, value)
