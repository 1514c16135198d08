"""Spans of several shards become one time line that Perfetto reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ringleader.shard.batcher import Segments, Turn
from ringleader.shard.trace import Tracer, kind, merge, named, part_file

DECODE = Segments((Turn(3, 9, (7,), True, None), Turn(4, 2, (8,), True, None)), batch=1)
PROMPT = Segments((Turn(5, 0, (1, 2, 3), False, None),))


def traced(file: Path, stage: int) -> None:
    tracer = Tracer(file, f"{2 * stage}-{2 * stage + 1}")
    tracer.linked("ring", stage, 2)
    tracer.passed(PROMPT, 1, 10.0 + stage, 0.5, 0.1)
    tracer.passed(DECODE, 2, 11.0 + stage, 0.25, 0.25)


def events(file: Path) -> list[Any]:
    return list(json.loads(file.read_text())["traceEvents"])


def test_every_pass_of_every_stage_is_a_span_in_its_stages_row(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    traced(file, 0)
    traced(file, 1)  # in the same process, so into the same part
    assert merge(file) == 4
    spans = [event for event in events(file) if event["ph"] == "X"]
    assert [(span["tid"], span["name"], span["dur"]) for span in spans] == [
        (0, "prompt 5: 3 tokens", 500_000),
        (0, "decode 3 4", 250_000),
        (1, "prompt 5: 3 tokens", 500_000),
        (1, "decode 3 4", 250_000),
    ]
    assert spans[1]["ts"] - spans[0]["ts"] == 1_000_000
    assert spans[0]["args"]["computed_us"] == 100_000
    rows = {event["tid"]: event["args"]["name"] for event in events(file) if event["name"] == "thread_name"}
    assert rows == {0: "stage 0: layers 0-1", 1: "stage 1: layers 2-3"}


def test_an_arrow_leads_from_each_frame_to_itself_in_the_next_stage(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    traced(file, 0)
    traced(file, 1)
    merge(file)
    arrows = [(event["ph"], event["tid"], event["id"]) for event in events(file) if event["name"] == "frame"]
    assert sorted(arrows) == [("f", 1, 1), ("f", 1, 2), ("s", 0, 1), ("s", 0, 2)]


def test_a_part_whose_last_line_was_cut_by_its_shards_end_loses_that_line_only(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    traced(file, 0)
    part = part_file(file)
    part.write_text(part.read_text() + '{"ring": "ring", "stage": 0, "ph"')
    assert merge(file) == 2
    assert list(tmp_path.iterdir()) == [file], "the parts are gone"


def test_what_feeds_a_prompt_is_not_called_decoding() -> None:
    assert (kind(PROMPT), kind(DECODE)) == ("prompt", "decode")
    many = Segments(tuple(Turn(slot, 1, (1,), True, None) for slot in range(20)), batch=2)
    assert named(many).endswith("7 ...")
