"""The keys of the HTTP API's callers: made here, shown once, kept as hashes beside the node's own membership.

A key is random and long, so its SHA-256 is as good as any slower hash; whoever reads the file has no key.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

from ringleader.errors import BadRequest, NotTrusted
from ringleader.trust.private_files import locked, read_json, write_json

KEYS_FILE = "api-keys.json"
KEYS_MAX = 1000  # what fits into a private file, with room to spare
SECRET_BYTES = 24
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._-]{0,62}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is kept of one key. `made` in Unix seconds; `concurrent` answers at once at most, None for any number."""

    id: str
    name: str
    digest: str
    made: int
    concurrent: int | None = None


def create(directory: Path, name: str, now: float, concurrent: int | None = None) -> tuple[ApiKey, str]:
    """Make a key and keep its hash; the key itself is in the second value and nowhere else.

    Raises BadRequest for a name that is none or is taken, NotTrusted when the directory cannot be used.
    """
    if not NAME.fullmatch(name):
        raise BadRequest(f"{name!r} is no name for a key: up to 63 letters, digits, '@', '.', '_' and '-'")
    if concurrent is not None and concurrent < 1:
        raise BadRequest("a key that allows fewer than one answer at once opens nothing; revoke it instead")
    with locked(directory):
        kept = read(directory)
        if any(each.name == name for each in kept):
            raise BadRequest(f"a key {name!r} is there already; revoke it first: ringleader keys revoke {name}")
        if len(kept) >= KEYS_MAX:
            raise BadRequest(f"there are {len(kept)} keys, no more fit; revoke some: ringleader keys list")
        id = secrets.token_hex(4)
        key = f"rl-{id}-{secrets.token_urlsafe(SECRET_BYTES)}"
        made = ApiKey(id, name, digest_of(key), int(now), concurrent)
        _write(directory, (*kept, made))
    return made, key


def revoke(directory: Path, which: str) -> ApiKey:
    """Forget the key of this name or id. Raises BadRequest when there is none."""
    with locked(directory):
        kept = read(directory)
        found = next((each for each in kept if which in (each.name, each.id)), None)
        if found is None:
            raise BadRequest(f"there is no key {which!r}; those that are here: ringleader keys list")
        _write(directory, tuple(each for each in kept if each is not found))
    return found


def read(directory: Path) -> tuple[ApiKey, ...]:
    """All keys, oldest first. Raises NotTrusted when the file is damaged or open to others."""
    path = directory / KEYS_FILE
    try:
        return tuple(ApiKey(**each) for each in (read_json(path) or {}).get("keys", ()))
    except (TypeError, AttributeError) as error:
        raise NotTrusted(f"{path} is damaged ({error}): remove it and make new keys") from error


def digest_of(key: str) -> str:
    """What is kept of a key (hexadecimal)."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _write(directory: Path, keys: tuple[ApiKey, ...]) -> None:
    write_json(directory / KEYS_FILE, {"keys": [asdict(each) for each in keys]})
