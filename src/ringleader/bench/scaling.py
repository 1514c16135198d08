"""The charts of scaling, made of what `bench concurrency` found: by streams, and by stages at a pace. Pure."""

from __future__ import annotations

import re

from ringleader.bench.plot import Chart
from ringleader.bench.report import Flat

STAGES = {"one": 1, "two": 2, "four": 4}


def charts(values: Flat) -> list[Chart]:
    """A chart for each kind of scaling that was measured."""
    streams: dict[str, dict[int, float]] = {}
    for key, value in values.items():
        if found := re.fullmatch(r"(mlx_lm|one_shard|two_shards)_(\d+)_tok_s", key):
            name = found[1] if found[1] == "mlx_lm" else found[1].replace("_", " ")
            streams.setdefault(name, {})[int(found[2])] = float(value)
    of_ideal = {
        stages: float(values[key]) for name, stages in STAGES.items() if (key := f"paced_{name}_of_ideal") in values
    }
    made = []
    if streams:
        made.append(Chart("Real compute, all on one machine", "streams at once", "tok/s", streams))
    if of_ideal:
        ideal = dict.fromkeys(of_ideal, 1.0)
        made.append(Chart("8 streams, stages at a pace", "stages", "of the ideal", {"found": of_ideal, "ideal": ideal}))
    return made
