"""Every pass of every shard on one time line, in Chrome's trace-event format, which Perfetto reads.

Each shard appends its own spans, a JSON object a line, to a part file; whoever started the shards merges the parts.
Times are of the machine's monotonic clock, which its processes share; those of another machine have another begin.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ringleader.shard.batcher import Segments

SLOTS_SHOWN_MAX = 8
PART_SUFFIX = ".part"


class Tracer:
    """One shard's part of the trace. A line is written whole and at once, so that a shard that is ended leaves all."""

    def __init__(self, file: Path, layers: str) -> None:
        """`file` is the whole trace's; the part lies beside it. Raises OSError."""
        self._out = part_file(file).open("a", encoding="utf-8", buffering=1)
        self._layers = layers
        self._ring, self._stage, self._stages = "", 0, 1

    def linked(self, ring: str, stage: int, stages: int) -> None:
        """From here on the shard is stage `stage` of this ring."""
        self._ring, self._stage, self._stages = ring, stage, stages
        self._write({"stage": stage, "name": f"stage {stage}: layers {self._layers}"})

    def passed(self, sent: Segments, step: int, begun: float, seconds: float, computed_s: float) -> None:
        """One frame's compute, begun at `begun` (time.perf_counter). `step` is the frame's, the same in all stages.
        `computed_s` of the seconds were computed, the rest is pace."""
        begun_us = round((begun + _MONOTONIC_OFFSET_S) * 1e6)
        args = {
            "step": step,
            "slots": [turn.slot for turn in sent.turns],
            "batch": sent.batch,
            "positions": [turn.position for turn in sent.turns],
            "tokens": sum(len(turn.tokens) for turn in sent.turns),
            "width": sent.width,
            "computed_us": round(computed_s * 1e6),
        }
        span = {"stage": self._stage, "ph": "X", "name": named(sent), "cat": kind(sent), "ts": begun_us}
        self._write({**span, "dur": max(1, round(seconds * 1e6)), "args": args})
        if self._stages > 1:
            flow = "s" if self._stage == 0 else "f" if self._stage == self._stages - 1 else "t"
            arrow = {"stage": self._stage, "ph": flow, "name": "frame", "cat": "frame", "id": step, "ts": begun_us}
            self._write({**arrow, "bp": "e"})

    def _write(self, line: dict[str, Any]) -> None:
        self._out.write(json.dumps({"ring": self._ring, **line}, separators=(",", ":")) + "\n")


# Spans are timed with perf_counter; where that is not the monotonic clock, its begin is another one.
_MONOTONIC_OFFSET_S = time.monotonic() - time.perf_counter()


def kind(sent: Segments) -> str:
    """What a frame is for: "prompt" where a row has several tokens or asks for none."""
    return "decode" if all(turn.sample and len(turn.tokens) == 1 for turn in sent.turns) else "prompt"


def named(sent: Segments) -> str:
    """As in "decode 3 4 7" (slots), "prompt 5: 128 tokens"."""
    slots = [str(turn.slot) for turn in sent.turns]
    shown = " ".join(slots[:SLOTS_SHOWN_MAX]) + (" ..." if len(slots) > SLOTS_SHOWN_MAX else "")
    if kind(sent) == "decode":
        return f"decode {shown}"
    return f"prompt {shown}: {sum(len(turn.tokens) for turn in sent.turns)} tokens"


def part_file(file: Path) -> Path:
    """This process's part of the trace."""
    return file.with_name(f"{file.name}.{os.getpid()}{PART_SUFFIX}")


def merge(file: Path) -> int:
    """Make one trace of the parts that lie beside `file`, remove them, and say how many passes it has.

    A part's last line may be cut short by the end of its shard: it is left out. Raises OSError.
    """
    parts = sorted(file.parent.glob(f"{file.name}.*{PART_SUFFIX}"))
    lines = [line for part in parts for line in map(_read, part.read_text(encoding="utf-8").splitlines()) if line]
    rings = list(dict.fromkeys(line["ring"] for line in lines))
    events = [_meta("process_name", rings.index(ring) + 1, 0, f"ring {ring}") for ring in rings]
    for line in lines:
        ring, stage = rings.index(line.pop("ring")) + 1, line.pop("stage")
        named_stage = "ph" not in line
        events.append(
            _meta("thread_name", ring, stage, line["name"]) if named_stage else {**line, "pid": ring, "tid": stage}
        )
    file.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), encoding="utf-8")
    for part in parts:
        part.unlink()
    return sum(event["ph"] == "X" for event in events)


def _read(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _meta(what: str, ring: int, stage: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": ring, "tid": stage, "args": {"name": name}}
