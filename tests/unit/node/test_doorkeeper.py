"""Who may use the API just now: keys that come and go under a node that runs."""

from __future__ import annotations

from pathlib import Path

from ringleader.api.contracts import Caller
from ringleader.node.doorkeeper import START_CALLER, Doorkeeper
from ringleader.trust import api_keys


def test_without_keys_nobody_is_asked_for_one(tmp_path: Path) -> None:
    door = Doorkeeper(tmp_path, None)
    assert not door.asks
    assert door.caller("") is None
    assert door.caller("anything") is None


def test_a_key_opens_from_its_making_to_its_revocation(tmp_path: Path) -> None:
    door = Doorkeeper(tmp_path, None)
    _, key = api_keys.create(tmp_path, "claude", 0, concurrent=3)
    assert door.asks
    assert door.caller(key) == Caller("claude", 3)
    assert door.caller(f"{key}x") is None
    api_keys.create(tmp_path, "other", 0)
    api_keys.revoke(tmp_path, "claude")
    assert door.asks
    assert door.caller(key) is None


def test_the_key_of_the_start_is_good_beside_others(tmp_path: Path) -> None:
    door = Doorkeeper(tmp_path, "first")
    _, key = api_keys.create(tmp_path, "second", 0)
    assert door.caller("first") == START_CALLER
    assert door.caller(key) == Caller("second")


def test_a_file_that_cannot_be_read_opens_nothing(tmp_path: Path) -> None:
    door = Doorkeeper(tmp_path, None)
    _, key = api_keys.create(tmp_path, "a", 0)
    assert door.caller(key) is not None
    (tmp_path / api_keys.KEYS_FILE).write_text("{")
    assert door.asks
    assert door.caller(key) is None
