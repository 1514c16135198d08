"""The models on this machine: a directory of model directories, and the one way from a reference to files.

References: a short name ("smollm2-135m"), "org/name" or "hf:org/name", or a path that begins with / ./ ../ or ~.
Nothing outside the store's own directory is ever written or deleted.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from platformdirs import user_data_path

from ringleader.errors import BadRequest, ModelFault, RingleaderError, UnknownModel
from ringleader.models import staging
from ringleader.models.catalogue import CATALOGUE, CatalogueEntry
from ringleader.models.config import read_config
from ringleader.models.convert import Weights, default_weights
from ringleader.models.embedded import make_embedded
from ringleader.models.headers import activation_dtype, read_costs, read_headers
from ringleader.models.hub import fetch_repository
from ringleader.models.reporter import Reporter
from ringleader.values import ModelId, shown

State = Literal["ready", "broken", "interrupted", "not pulled"]

HOME_VARIABLE = "RINGLEADER_HOME"
HUB_PREFIX = "hf:"
SEPARATOR = "--"  # in directory names, for the slash; hubs forbid it in names
PATH_STARTS = ("/", "./", "../", "~")
# One part of a name: no leading dot or dash, no "--", no "..".
PART = r"(?!.*(?:--|\.\.))[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
NAME = re.compile(rf"(?:hf:)?(?P<organisation>{PART})/(?P<name>{PART})")
SHORT = re.compile(PART)
ADVICE_NAMES_MAX = 3


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model as `models list` shows it. `weights` says dtype and bits ("fp32", "4-bit, fp16").

    `layers` and `size_bytes` are 0 where they are not known; `note` says what is wrong or what to do.
    """

    name: str
    state: State
    family: str = ""
    layers: int = 0
    size_bytes: int = 0
    weights: str = ""
    path: Path | None = None
    note: str = ""


def default_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Where models lie: $RINGLEADER_HOME/models, or the place that the system gives to a program's data."""
    home = environ.get(HOME_VARIABLE)
    return (Path(home).expanduser() if home else user_data_path("ringleader")) / "models"


class Store:
    """The store below `root`, which need not exist yet. Safe to use from several processes at once."""

    def __init__(self, root: Path | None = None, *, catalogue: tuple[CatalogueEntry, ...] = CATALOGUE) -> None:
        self.root = (root or default_root()).absolute()
        self._catalogue = {entry.name: entry for entry in catalogue}

    def list(self) -> list[StoredModel]:
        """All models, broken and half-fetched ones included, and those of the catalogue that are not pulled."""
        entries = sorted(self.root.iterdir()) if self.root.is_dir() else []
        found = [self._describe(entry) for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
        names = {model.name for model in found}
        for entry in entries:
            name = _shown(entry.name.removeprefix(staging.RESUME))
            if entry.name.startswith(staging.RESUME) and name not in names:
                note = f"go on with: ringleader models pull {name}"
                found.append(StoredModel(name, "interrupted", size_bytes=_disk_bytes(entry), note=note))
        for known in self._catalogue.values():
            if known.name not in names:
                note = f"ringleader models pull {known.name}"
                found.append(StoredModel(known.name, "not pulled", known.family, known.layers, note=note))
        return sorted(found, key=lambda model: model.name)

    def resolve(self, reference: str) -> Path:
        """The directory of the model that `reference` names, absolute. Looks at this machine only.

        Raises:
            UnknownModel: it is not here; the message names what is near and how to pull it.
            ModelFault: the path that was given is not a model directory.
        """
        if reference.startswith(PATH_STARTS):
            directory = Path(reference).expanduser().absolute()
            if not (directory / "config.json").is_file():
                raise ModelFault(f"{directory} is not a model directory: it has no config.json")
            return directory
        directory = self.root / _directory_name(reference)
        if not (directory / "config.json").is_file():
            raise UnknownModel(self._advice(reference), param="model")
        return directory

    def model_id(self, reference: str) -> ModelId:
        """The name under which the model is served: short name, "org/name", or the last part of its path.

        Raises as `resolve` does.
        """
        directory = self.resolve(reference)
        return ModelId(_shown(directory.name) if directory.parent == self.root else directory.resolve().name)

    def pull(self, reference: str, reporter: Reporter, *, weights: Weights | None = None) -> Path:
        """Make sure that the model is here, fetching it if need be, and return its directory.

        `weights` is for catalogue models, which are converted here; None means what suits this machine.
        A second process that pulls the same model waits for the first and then finds it there.

        Raises:
            UnknownModel: neither a short name nor a repository that the hub has.
            BadRequest: `reference` is a path or can be no name, or `weights` was given for a model that comes as it is.
            ModelFault: network, disk, or corrupt files; the message names them and what to do next.
        """
        if reference.startswith(PATH_STARTS):
            raise BadRequest(f"{reference} is a path: it is served as it is, there is nothing to pull", param="model")
        if not NAME.fullmatch(reference) and not SHORT.fullmatch(reference):
            raise BadRequest(f"{_no_name(reference)} or hf:org/name", param="model")
        directory = _directory_name(reference)
        if SEPARATOR not in directory and directory not in self._catalogue:
            raise UnknownModel(self._advice(reference), param="model")
        if SEPARATOR in directory and weights is not None:
            raise BadRequest(f"{reference} is fetched as it is; weights can only be chosen for {_short_names()}")
        with self._disk_faults():
            self.root.mkdir(parents=True, exist_ok=True)
            staging.sweep(self.root)
            with staging.locked(
                self.root, directory, waiting=lambda: reporter.stage(f"wait for another pull of {reference}")
            ):
                target = self.root / directory
                if not target.exists():
                    self._make(directory, reporter, weights)
                elif weights is not None:
                    _require_weights(target, weights)
                return target

    def remove(self, name: str) -> int:
        """Delete the model `name`, or what an interrupted pull left of it; returns the bytes that were freed.

        Raises:
            UnknownModel: the store has no such model.
            BadRequest: `name` is a path, or the model is a symbolic link: only the store's own files are deleted.
            ModelFault: it is being pulled at this moment.
        """
        if name.startswith(PATH_STARTS):
            raise BadRequest(f"{name} is a path; only models of the store are removed, by name", param="model")
        directory = _directory_name(name)
        target, leftover = self.root / directory, self.root / f"{staging.RESUME}{directory}"
        if target.is_symlink():
            raise BadRequest(f"{target} is a symbolic link, which we did not make; delete it yourself", param="model")
        if not target.is_dir() and not leftover.is_dir():
            raise UnknownModel(self._advice(name, pull=False), param="model")
        with self._disk_faults(), staging.locked_now(self.root, directory) as free:
            if not free:
                raise ModelFault(f"{name} is being pulled by another process; stop it, then remove again")
            freed = sum(_disk_bytes(each) for each in (target, leftover) if each.is_dir())
            if target.is_dir():
                staging.discard(self.root, directory)
            staging.remove_tree(leftover)
        return freed

    # ------------------------------------------------------------ inside

    def _make(self, directory: str, reporter: Reporter, weights: Weights | None) -> None:
        entry = self._catalogue.get(directory)
        if entry is not None:
            with staging.partial(self.root, directory) as stage:
                made = make_embedded(entry, stage, weights or default_weights(), reporter)
                staging.publish(made, self.root / directory)
            return
        made = staging.resumable(self.root, directory)
        try:
            fetch_repository(_shown(directory), made, reporter)
            read_headers(made)
        finally:
            staging.forget_if_empty(made)  # a misspelt name leaves no trace; what was fetched is kept whatever failed
        staging.publish(made, self.root / directory)

    def _describe(self, directory: Path) -> StoredModel:
        name, size = _shown(directory.name), _disk_bytes(directory)
        try:
            costs = read_costs(directory, ModelId(name))
            weights = weights_of(directory)
        except RingleaderError as error:
            return StoredModel(name, "broken", size_bytes=size, path=directory, note=str(error))
        return StoredModel(name, "ready", costs.family, costs.layers, size, weights, directory)

    def _advice(self, reference: str, *, pull: bool = True) -> str:
        here = [model.name for model in self.list() if model.state == "ready"]
        known = [*here, *(self._catalogue if pull else ())]
        shown = reference.removeprefix(HUB_PREFIX)
        near = difflib.get_close_matches(shown, dict.fromkeys(known), ADVICE_NAMES_MAX, 0.5)
        if pull and (NAME.fullmatch(reference) or reference in self._catalogue):
            return f"{reference} is not on this machine; fetch it with: ringleader models pull {reference}"
        hint = f"did you mean {' or '.join(near)}?" if near else f"here are: {', '.join(here) or 'none'}."
        pullable = near[0] if near and near[0] not in here else "hf:org/name"
        after = f" Fetch one with: ringleader models pull {pullable}" if pull else " See: ringleader models list"
        return f"no model {reference!r}; {hint}{after}"

    @contextmanager
    def _disk_faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = error.filename or self.root
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise ModelFault(
                    f"the disk of {self.root} is full; make room, or set {HOME_VARIABLE} to a larger disk"
                ) from error
            raise ModelFault(
                f"cannot write {where}: {error.strerror or error}; check its permissions, or set {HOME_VARIABLE}"
            ) from error


def weights_of(directory: Path) -> str:
    """Dtype and bits of a model's weights ("fp32", "4-bit, fp16"). Raises ModelFault."""
    tensors = {name: entry for header in read_headers(directory).values() for name, entry in header.tensors.items()}
    floats = {"F32": "fp32", "F16": "fp16", "BF16": "bf16"}[activation_dtype(tensors)]
    table = read_config(directory).value("quantization")
    bits = table.get("bits") if isinstance(table, dict) else None
    return f"{bits}-bit, {floats}" if isinstance(bits, int) else floats


def _directory_name(reference: str) -> str:
    """The directory of a named model inside the store. Raises UnknownModel for what can be no name at all."""
    if found := NAME.fullmatch(reference):
        return f"{found['organisation']}{SEPARATOR}{found['name']}"
    if SHORT.fullmatch(reference):
        return reference
    raise UnknownModel(f"{_no_name(reference)}, hf:org/name, or a path that begins with / or ./", param="model")


def _no_name(reference: str) -> str:
    return f"{shown(reference)} is no model name; write a short name ({_short_names()}), org/name"


def _shown(directory_name: str) -> str:
    return directory_name.replace(SEPARATOR, "/", 1)


def _short_names() -> str:
    return ", ".join(entry.name for entry in CATALOGUE)


def _require_weights(directory: Path, weights: Weights) -> None:
    stored: Weights = "packed" if "bit" in weights_of(directory) else "dense"
    if stored != weights:
        raise ModelFault(
            f"{directory.name} is here with {stored} weights; for {weights} ones first: "
            f"ringleader models remove {directory.name}"
        )


def _disk_bytes(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
