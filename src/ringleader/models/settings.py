"""What a person sets for one model: `ringleader.json` in the model's directory, beside the files that came with it.

It is no part of the model's digest: it changes how a model is spoken to, not its weights.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ringleader.errors import BadRequest, ModelFault
from ringleader.models.store import PATH_STARTS, Store
from ringleader.values import Json

SETTINGS = "ringleader.json"
SETTINGS_BYTES_MAX = 100_000
DIALECT = "dialect"


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """`dialect` names the one to use instead of the detected one; None leaves it to detection."""

    dialect: str | None = None


def read_settings(directory: Path) -> ModelSettings:
    """The settings of the model in `directory`; all at their defaults where it has none.

    Raises:
        ModelFault: the file is unreadable, no JSON object, or sets something that is not known; names it.
    """
    file = directory / SETTINGS
    found = _read(file)
    if unknown := sorted(set(found) - {DIALECT}):
        raise ModelFault(f"{file} sets {', '.join(unknown)}, which is not known; it may set '{DIALECT}'.")
    dialect = found.get(DIALECT)
    if dialect is not None and not (isinstance(dialect, str) and dialect):
        raise ModelFault(f"{file}: '{DIALECT}' is {str(dialect)[:40]!r}, not a name. Correct it, or delete the file.")
    return ModelSettings(dialect)


def set_dialect(store: Store, reference: str, dialect: str | None) -> Path:
    """Write the dialect of a model of the store, or of one given by its path; None deletes what was set.

    Returns the settings file. A reader sees the old file or the new one, never a part.

    Raises:
        UnknownModel, ModelFault: as `Store.resolve`; or the file cannot be written.
        BadRequest: the store's entry is a symbolic link, so that the files are somebody else's.
    """
    directory = store.resolve(reference)
    if directory.is_symlink() and not reference.startswith(PATH_STARTS):
        raise BadRequest(
            f"{directory} is a symbolic link, which we did not make; name the model by its path: {directory.resolve()}",
            param="model",
        )
    file = directory / SETTINGS
    try:
        if dialect is None:
            file.unlink(missing_ok=True)
        else:
            _write(file, json.dumps({DIALECT: dialect}, indent=2) + "\n")
    except OSError as error:
        raise ModelFault(f"cannot write {file}: {error.strerror or error}") from error
    return file


def _read(file: Path) -> dict[str, Json]:
    try:
        if file.stat().st_size > SETTINGS_BYTES_MAX:
            raise ModelFault(f"{file} is larger than {SETTINGS_BYTES_MAX} bytes: not our settings")
        found = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ModelFault(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ModelFault(f"{file} is not JSON: {error}. Correct it, or delete the file.") from error
    if not isinstance(found, dict):
        raise ModelFault(f"{file} is not a JSON object. Correct it, or delete the file.")
    return found


def _write(file: Path, text: str) -> None:
    """In one step: written aside, flushed, then renamed over what was there."""
    descriptor, aside = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(stream.fileno(), 0o644)  # nodes of another user read it too, as they do the model's files
            os.fsync(stream.fileno())
        Path(aside).replace(file)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
