"""Keys of the API's callers: shown once, kept as hashes, gone at once when revoked."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringleader.errors import BadRequest, NotTrusted
from ringleader.trust import api_keys


def test_a_key_is_kept_as_a_hash_only(tmp_path: Path) -> None:
    made, key = api_keys.create(tmp_path, "codex", 5.0, concurrent=2)
    kept = (tmp_path / api_keys.KEYS_FILE).read_text()
    assert key not in kept
    assert key.rpartition("-")[2] not in kept
    assert api_keys.read(tmp_path) == (made,)
    assert (made.name, made.made, made.concurrent, made.digest) == ("codex", 5, 2, api_keys.digest_of(key))
    assert (tmp_path / api_keys.KEYS_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("by", ["name", "id"])
def test_a_key_is_revoked_by_name_or_id(tmp_path: Path, by: str) -> None:
    first, _ = api_keys.create(tmp_path, "a", 0)
    second, _ = api_keys.create(tmp_path, "b", 0)
    assert api_keys.revoke(tmp_path, getattr(first, by)) == first
    assert api_keys.read(tmp_path) == (second,)
    with pytest.raises(BadRequest, match="ringleader keys list"):
        api_keys.revoke(tmp_path, getattr(first, by))


@pytest.mark.parametrize("name", ["", "a b", "-a", "a\n", "x" * 64, "../a"])
def test_what_can_be_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadRequest, match="no name"):
        api_keys.create(tmp_path, name, 0)


def test_a_name_is_given_once_and_a_key_opens_something(tmp_path: Path) -> None:
    api_keys.create(tmp_path, "a", 0)
    with pytest.raises(BadRequest, match="revoke a"):
        api_keys.create(tmp_path, "a", 0)
    with pytest.raises(BadRequest, match="opens nothing"):
        api_keys.create(tmp_path, "b", 0, concurrent=0)


def test_the_most_keys_that_are_taken_still_fit_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = api_keys.ApiKey("0" * 8, "n" * 63, "f" * 64, 2**40, 2**40)
    with api_keys.locked(tmp_path):
        api_keys._write(tmp_path, (one,) * api_keys.KEYS_MAX)
    assert len(api_keys.read(tmp_path)) == api_keys.KEYS_MAX
    with pytest.raises(BadRequest, match="no more fit"):
        api_keys.create(tmp_path, "more", 0)


@pytest.mark.parametrize("text", ['{"keys": [{"id": "x"}]}', '{"keys": [1]}', "[]", "{"])
def test_a_damaged_file_is_said_to_be_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / api_keys.KEYS_FILE
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(NotTrusted, match=api_keys.KEYS_FILE):
        api_keys.read(tmp_path)
