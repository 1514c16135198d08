"""A model's card: all of its directory but the weights, so that a master can answer for a model that only others hold.

Cards are copied between members of the cluster, within bounds, and kept below <home>/cards/<digest of the model>.
Names and sizes are another node's word: each is checked before anything is written.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from ringleader.cluster.words import ShardReport
from ringleader.errors import ModelFault, RingleaderError
from ringleader.models.headers import INDEX, read_costs
from ringleader.values import Json, ModelCosts, ModelId, NodeId

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
ENDINGS = (".json", ".jinja", ".txt", ".model", ".tiktoken")
DIGEST = re.compile(r"[0-9a-f]{32}")
MODEL_CHARS_MAX = 256
FILES_MAX = 64
FILE_BYTES_MAX = 64 << 20  # the largest tokenizers have 35 MB
CARD_BYTES_MAX = 128 << 20
CHUNK_BYTES = 1 << 20  # a question's deadline is three seconds
CARDS_MAX = 16  # on disk, and served at once
MISSING_S = 5.0  # so long nobody is asked again for a model that nobody had
MISSING_MAX = 256
PARTIAL = ".partial-"
PARTIAL_S = 3600.0  # what is older was left behind
LISTING = ".card"  # a name that no file of a card can have

_COSTS = TypeAdapter(ModelCosts)


@dataclass(frozen=True, slots=True)
class Card:
    """`costs` and `reference` are those of the node that holds the weights."""

    directory: Path
    costs: ModelCosts
    reference: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a node says of a card that it has. `files`: name to size and checksum."""

    costs: ModelCosts
    reference: str
    files: Mapping[str, tuple[int, str]]


class Asker(Protocol):
    """As `net.relay.Relays`."""

    async def ask(self, node: NodeId, question: bytes) -> bytes | None:
        """Its answer, or None when none comes in time."""
        ...


# ---------------------------------------------------------------- the node that has the model


class CardDesk:
    """Shows this node's cards. `find` gives the directory of a model here, and how other nodes may call it."""

    def __init__(self, find: Callable[[ModelId], tuple[Path, str]]) -> None:
        self._find = find
        self._shown: dict[str, Path] = {}  # by digest

    async def answer(self, asked: Json) -> bytes | None:
        """None when the question is of something else; `null` when there is no such card or file here."""
        if not isinstance(asked, dict) or "card" not in asked:
            return None
        try:
            return await asyncio.to_thread(self._chunk if "file" in asked else self._listing, asked)
        except (RingleaderError, OSError, ValueError, KeyError, TypeError):
            return b"null"

    def _listing(self, asked: Mapping[str, Json]) -> bytes:
        model = ModelId(_text(asked["card"]))
        directory, reference = self._find(model)
        costs = read_costs(directory, model)
        self._shown.pop(costs.digest, None)
        self._shown[costs.digest] = directory
        while len(self._shown) > CARDS_MAX:
            del self._shown[next(iter(self._shown))]
        files = {file.name: (file.stat().st_size, _checksum(file)) for file in _files(directory)}
        listing = {"costs": _COSTS.dump_python(costs, mode="json"), "reference": reference, "files": files}
        return json.dumps(listing).encode()

    def _chunk(self, asked: Mapping[str, Json]) -> bytes:
        directory, name = self._shown[_text(asked["card"])], _text(asked["file"])
        if not _is_card_file(name):
            return b"null"
        with (directory / name).open("rb") as file:
            file.seek(int(asked["offset"]))
            return file.read(CHUNK_BYTES)


# ---------------------------------------------------------------- the node that needs it


class Cards:
    """Fetches cards. `reports` are the shards of all nodes that are heard, `nodes` their names, this one's included."""

    def __init__(
        self,
        me: NodeId,
        directory: Path,
        relays: Asker,
        reports: Callable[[], Sequence[tuple[NodeId, ShardReport]]],
        nodes: Callable[[], Mapping[NodeId, str]],
    ) -> None:
        self._me = me
        self._directory = directory
        self._relays = relays
        self._reports = reports
        self._nodes = nodes
        self._missing: dict[ModelId, float] = {}

    async def fetch(self, model: ModelId) -> Card | None:
        """The card of a model that others run or have; None when nobody does.

        Raises ModelFault when somebody does, but its files cannot be had.
        """
        if len(model) > MODEL_CHARS_MAX or self._missing.get(model, 0.0) > time.monotonic():
            return None
        running = self._running(model)
        listings = await self._listings(model, list(dict.fromkeys(node for node, _ in running)) or self._others())
        if running:
            assignment = running[0][1].assignment
            costs, reference = assignment.costs, assignment.reference or model
            listings = {node: each for node, each in listings.items() if each.costs.digest == costs.digest}
        elif listings:
            first = next(iter(listings.values()))
            costs, reference = first.costs, first.reference
            listings = {node: each for node, each in listings.items() if each.costs.digest == costs.digest}
        else:
            self._miss(model)
            return None
        return Card(await self._copy(model, costs.digest, listings), costs, reference)

    def _others(self) -> list[NodeId]:
        return [node for node in self._nodes() if node != self._me]

    def _running(self, model: ModelId) -> list[tuple[NodeId, ShardReport]]:
        """Of all plans of the model that one whose shards come first, the ready ones before."""
        others = self._others()
        of_model = [
            (node, report)
            for node, report in self._reports()
            if node in others and report.assignment.plan.model == model and report.state in ("ready", "loading")
        ]
        of_model.sort(key=lambda each: each[1].state != "ready")
        return [each for each in of_model if each[1].assignment.plan.digest == of_model[0][1].assignment.plan.digest]

    def _miss(self, model: ModelId) -> None:
        while len(self._missing) >= MISSING_MAX:
            del self._missing[next(iter(self._missing))]
        self._missing[model] = time.monotonic() + MISSING_S

    async def _listings(self, model: ModelId, nodes: Sequence[NodeId]) -> dict[NodeId, Listing]:
        question = json.dumps({"card": model}).encode()
        answers = await asyncio.gather(*(self._relays.ask(node, question) for node in nodes))
        read = {node: _read_listing(model, answer) for node, answer in zip(nodes, answers, strict=True)}
        return {node: listing for node, listing in read.items() if listing is not None}

    async def _copy(self, model: ModelId, digest: str, listings: Mapping[NodeId, Listing]) -> Path:
        """The directory of the card, from whichever node has it; as it was kept before, where it is the same."""
        target = self._directory / digest
        for node, listing in listings.items():
            said = json.dumps({name: list(listing.files[name]) for name in sorted(listing.files)})
            if await asyncio.to_thread(_kept, target, said):
                return target
            if await self._fetch_files(node, digest, listing, said):
                return target
        if DIGEST.fullmatch(digest) is not None and await asyncio.to_thread(_kept, target, None):
            return target
        names = self._nodes()
        where = ", ".join(names.get(node, node) for node in listings) or "other nodes"
        raise ModelFault(
            f"{model} is on {where} and not here, and its tokenizer cannot be copied from there; "
            f"fetch it here, too: ringleader models pull {model}"
        )

    async def _fetch_files(self, node: NodeId, digest: str, listing: Listing, said: str) -> bool:
        await asyncio.to_thread(_tidy, self._directory)
        partial = Path(await asyncio.to_thread(mkdtemp, prefix=PARTIAL, dir=self._directory))
        try:
            for name, (size, checksum) in listing.files.items():
                file = partial / name
                if not await self._fetch_file(node, digest, file, size):
                    return False
                if await asyncio.to_thread(_checksum, file) != checksum:
                    return False
            await asyncio.to_thread(_publish, partial, self._directory / digest, said)
            return True
        finally:
            await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)

    async def _fetch_file(self, node: NodeId, digest: str, file: Path, size: int) -> bool:
        with file.open("wb") as stream:
            for offset in range(0, size, CHUNK_BYTES):
                question = {"card": digest, "file": file.name, "offset": offset}
                chunk = await self._relays.ask(node, json.dumps(question).encode())
                if chunk is None or len(chunk) != min(CHUNK_BYTES, size - offset):
                    return False
                stream.write(chunk)
        return True


def _read_listing(model: ModelId, answer: bytes | None) -> Listing | None:
    """Another node's word, believed as far as its bounds go."""
    try:
        said: Any = json.loads(answer or b"null")
        if said is None:
            return None
        costs: ModelCosts = _COSTS.validate_python(said["costs"])
        files = {_text(name): (int(size), _text(checksum)) for name, (size, checksum) in said["files"].items()}
        reference = _text(said["reference"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError):
        return None
    sizes = [size for size, _ in files.values()]
    bounded = len(files) <= FILES_MAX and sum(sizes) <= CARD_BYTES_MAX and all(0 <= s <= FILE_BYTES_MAX for s in sizes)
    named = all(_is_card_file(name) for name in files) and "config.json" in files
    if not (bounded and named and DIGEST.fullmatch(costs.digest) and costs.model == model):
        return None
    return Listing(costs, reference, files)


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _is_card_file(name: str) -> bool:
    return bool(NAME.fullmatch(name)) and name.endswith(ENDINGS) and name != INDEX


def _files(directory: Path) -> list[Path]:
    """The card's files of a model's directory; those that are too large for one are left out."""
    found = sorted(file for file in directory.iterdir() if _is_card_file(file.name) and file.is_file())
    return [file for file in found if file.stat().st_size <= FILE_BYTES_MAX][:FILES_MAX]


def _checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _kept(target: Path, said: str | None) -> bool:
    """Whether the card is on disk, and is the one that was `said`."""
    try:
        kept = (target / LISTING).read_text(encoding="utf-8")
    except OSError:
        return False
    return said is None or kept == said


def _publish(partial: Path, target: Path, said: str) -> None:
    """In one step; what was there before is moved away first."""
    (partial / LISTING).write_text(said, encoding="utf-8")
    if target.exists():
        aside = Path(mkdtemp(prefix=PARTIAL, dir=target.parent))
        target.rename(aside / "old")
        shutil.rmtree(aside, ignore_errors=True)
    partial.rename(target)


def _tidy(directory: Path) -> None:
    """Make room, and remove what a copy that was cut short left."""
    directory.mkdir(parents=True, exist_ok=True)
    entries = [entry for entry in directory.iterdir() if entry.is_dir()]
    old = [e for e in entries if e.name.startswith(PARTIAL) and time.time() - e.stat().st_mtime > PARTIAL_S]
    cards = sorted((e for e in entries if DIGEST.fullmatch(e.name)), key=lambda e: e.stat().st_mtime, reverse=True)
    for entry in [*old, *cards[CARDS_MAX - 1 :]]:
        shutil.rmtree(entry, ignore_errors=True)
