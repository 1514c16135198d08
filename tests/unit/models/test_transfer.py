"""One file's way to disk with a scripted reader: too long, too short, broken ledgers, being stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ringleader.errors import ModelFault
from ringleader.models.transfer import LEDGER, TRIES, Cut, Ledger, RemoteFile, Tally, Transfer
from tests.unit.models.builders import sha256
from tests.unit.models.recorder import Recorder

DATA = bytes(range(200))
FILE = RemoteFile("model.safetensors", "url", len(DATA), sha256(DATA))


class Reader:
    """Sends the given answers one after the other, then DATA; each is (where it starts, its chunks)."""

    def __init__(self, *answers: tuple[int, list[bytes]] | Cut) -> None:
        self.answers, self.asked = list(answers), list[int]()

    @contextmanager
    def __call__(self, file: RemoteFile, start: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        self.asked.append(start)
        answer = self.answers.pop(0) if self.answers else (start, [DATA[start:]])
        if isinstance(answer, Cut):
            raise answer
        yield answer[0], iter(answer[1])


def transfer(tmp_path: Path, reader: Reader, recorder: Recorder | None = None) -> Transfer:
    return Transfer(tmp_path, Ledger(tmp_path), Tally(len(DATA), recorder or Recorder()), reader, 0.0)


def test_a_short_answer_is_followed_by_a_request_for_the_rest(tmp_path: Path) -> None:
    reader, recorder = Reader((0, [DATA[:50], DATA[50:70]])), Recorder()
    transfer(tmp_path, reader, recorder).run(FILE)
    assert (tmp_path / FILE.name).read_bytes() == DATA
    assert reader.asked == [0, 70]
    assert recorder.advances[-1] == (200, 200, "bytes")
    assert Ledger(tmp_path).has(FILE)


def test_an_answer_that_is_longer_than_announced_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFault, match="longer than the 200 bytes"):
        transfer(tmp_path, Reader((0, [DATA, b"more"]))).run(FILE)
    assert not (tmp_path / FILE.name).exists()


def test_only_tries_without_progress_count_against_the_limit(tmp_path: Path) -> None:
    drip = [(i, [DATA[i : i + 1]]) for i in range(TRIES * 3)]
    reader = Reader(*drip)
    transfer(tmp_path, reader).run(FILE)
    assert reader.asked == list(range(TRIES * 3 + 1))
    stubborn = Reader(*[Cut("no")] * TRIES)
    with pytest.raises(ModelFault, match=r"cut off at byte 0 of 200 \(no\)"):
        transfer(tmp_path, stubborn).run(RemoteFile("other.json", "url", 200, "x"))


def test_a_server_that_refuses_the_middle_is_asked_from_the_beginning(tmp_path: Path) -> None:
    reader = Reader((0, [DATA[:50]]), Cut("416", restart=True))
    transfer(tmp_path, reader).run(FILE)
    assert reader.asked == [0, 50, 0]
    assert (tmp_path / FILE.name).read_bytes() == DATA


def test_a_stopped_transfer_keeps_what_it_has(tmp_path: Path) -> None:
    reader = Reader((0, [DATA[:50]]))
    stopped = transfer(tmp_path, reader)
    stopped.stop()
    with pytest.raises(Cut):
        stopped.run(FILE)
    resumed = Reader()
    transfer(tmp_path, resumed).run(FILE)
    assert (tmp_path / FILE.name).read_bytes() == DATA


@pytest.mark.parametrize("text", ["{", "[]", '{"model.safetensors": 5}', "[" * 100_000])
def test_a_broken_ledger_vouches_for_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE.name).write_bytes(DATA)
    (tmp_path / LEDGER).write_text(text)
    assert not Ledger(tmp_path).has(FILE)
