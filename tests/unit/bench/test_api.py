from __future__ import annotations

from pathlib import Path

import pytest

from ringleader.bench.api import STREAMS, measure_api
from ringleader.bench.api_client import Stream
from tests.ring.tiny_models import make_tiny_model


@pytest.mark.ring
async def test_every_stream_comes_whole_and_is_counted(tmp_path: Path) -> None:
    model = make_tiny_model("llama", tmp_path, tokenizer=True)
    found = await measure_api(model, tokens=8, rounds=1, profile=tmp_path / "profile", say=lambda _: None)
    assert found.flat()["streams"] == STREAMS
    assert 0 < float(found.flat()["tokens_per_s"]) <= float(found.flat()["tokens_per_core_s"]) * 1.2
    assert (tmp_path / "profile").stat().st_size > 0


def test_events_and_the_end_are_counted_however_they_are_cut() -> None:
    said = b'HTTP/1.1 200 OK\r\n\r\n1f\r\ndata: {"a": 1}\n\n\r\n1f\r\ndata: {"b": 2}\n\n\r\ne\r\ndata: [DONE]\n\n\r\n'
    for size in (1, 3, 7, 20, len(said)):
        stream = Stream(None)  # type: ignore[arg-type]  # nothing is read from it
        ends = [stream.take(said[at : at + size]) for at in range(0, len(said), size)]
        assert (stream.events, stream.received, any(ends)) == (3, len(said), True), size
