"""Locks, staging directories and the sweep: what is half-made never becomes a model."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ringleader.models import staging


def never() -> None:
    raise AssertionError("nobody should have to wait")


def test_a_lock_makes_a_second_holder_wait_until_the_first_is_done(tmp_path: Path) -> None:
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        with staging.locked(tmp_path, "m", waiting=waiting.set):
            order.append("second")

    thread = threading.Thread(target=second)
    with staging.locked(tmp_path, "m", waiting=never):
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_locks_of_different_names_do_not_meet(tmp_path: Path) -> None:
    with staging.locked(tmp_path, "a", waiting=never), staging.locked(tmp_path, "b", waiting=never):
        with staging.locked_now(tmp_path, "a") as free:
            assert not free


def test_the_sweep_takes_dead_leftovers_and_leaves_living_ones_and_downloads(tmp_path: Path) -> None:
    for name in (".partial-dead", ".partial-living", ".resume-org--name", "model"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    with staging.locked(tmp_path, "living", waiting=never):
        staging.sweep(tmp_path)
    left = {path.name for path in tmp_path.iterdir() if not path.name.startswith(".lock-")}
    assert left == {".partial-living", ".resume-org--name", "model"}


def test_the_sweep_unlinks_a_symbolic_link_and_spares_what_it_points_to(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (outside / "keep").touch()
    root.mkdir()
    (root / ".partial-x").symlink_to(outside)
    staging.sweep(root)
    assert (outside / "keep").exists()
    assert not (root / ".partial-x").is_symlink()


def test_a_stage_is_fresh_and_is_gone_afterwards_also_after_an_error(tmp_path: Path) -> None:
    (tmp_path / ".partial-m").mkdir()
    (tmp_path / ".partial-m" / "old").touch()
    with pytest.raises(KeyboardInterrupt), staging.partial(tmp_path, "m") as stage:
        assert list(stage.iterdir()) == []
        (stage / "new").touch()
        raise KeyboardInterrupt
    assert not (tmp_path / ".partial-m").exists()


def test_publishing_gives_the_whole_directory_its_name(tmp_path: Path) -> None:
    made = tmp_path / ".partial-m"
    made.mkdir()
    (made / "config.json").write_text("{}")
    staging.publish(made, tmp_path / "m")
    assert (tmp_path / "m" / "config.json").read_text() == "{}"
    assert not made.exists()


def test_only_an_empty_directory_is_forgotten(tmp_path: Path) -> None:
    staging.forget_if_empty(staging.resumable(tmp_path, "empty"))
    full = staging.resumable(tmp_path, "full")
    (full / "part").touch()
    staging.forget_if_empty(full)
    assert [path.name for path in tmp_path.iterdir()] == [".resume-full"]
