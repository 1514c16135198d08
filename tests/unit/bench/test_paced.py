"""What the ideal is, and that the paced measures run on a tiny ring."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringleader.bench.conditions import Conditions, parse_pins
from ringleader.bench.paced import ideal_prompt_s, ideal_rate, paced_concurrency
from ringleader.errors import BadRequest
from ringleader.shard.pace import Pace
from ringleader.shard.trace import merge
from tests.ring.tiny_models import make_tiny_model

PACE = Pace(0.02, 0.0005)


def test_ideals_are_those_of_stages_that_are_always_busy() -> None:
    assert ideal_rate(PACE, 8, 1) == pytest.approx(400)
    assert ideal_rate(PACE, 8, 2) == pytest.approx(200)  # four rows each 20 ms
    assert ideal_rate(PACE, 8, 4) == pytest.approx(100)
    assert ideal_rate(PACE, 1, 4) == pytest.approx(12.5)
    assert ideal_rate(Pace(0.02, 0.01), 8, 2) == pytest.approx(100), "where rows cost, more stages are faster"
    assert ideal_prompt_s(PACE, 2000, 2) == pytest.approx(1.02)


def test_shards_are_started_with_their_pace_their_processor_and_their_trace() -> None:
    command = Conditions(PACE, (0, 1), Path("/t.json")).program(3)
    assert command[1:4] == ("-m", "ringleader.bench.pinned", "1")
    assert command[-4:] == ("--pace", "pass_ms=20,prompt_token_ms=0.5", "--trace", "/t.json")
    assert Conditions(PACE).machines(3) == (0, 1, 2)
    assert Conditions().machines(3) == (), "their addresses tell"


def test_processors_that_are_not_there_are_refused() -> None:
    assert parse_pins("") == ()
    for text in ("a", "99999", "0,-1"):
        with pytest.raises(BadRequest, match="--pin"):
            parse_pins(text)


@pytest.mark.ring
async def test_a_tiny_ring_at_a_pace_is_measured_and_traced(tmp_path: Path) -> None:
    model = make_tiny_model("llama", tmp_path / "model", tokenizer=True)
    under = Conditions(Pace(0.005), trace=tmp_path / "trace.json")
    found = await paced_concurrency(model, under, 1, 12, (2,), lambda _: None)
    assert 0 < float(found.flat()["paced_two_of_ideal"]) < 1.2
    assert merge(tmp_path / "trace.json") > 2 * 12
