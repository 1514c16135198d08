from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from ringleader.bench.keeping import Circumstances, keep
from ringleader.bench.plot import draw
from ringleader.bench.report import Flat
from ringleader.bench.scaling import charts
from ringleader.bench.targets import TARGETS, judged, overview

WHERE = Circumstances("2026-01-02 03:04", "M3 Ultra, 28 cores, 256 GB", "Darwin arm64", "abc1234", (0.1, 0.2), {})


def test_a_run_is_kept_with_its_circumstances_and_shows_on_the_page(tmp_path: Path) -> None:
    file = keep(tmp_path, "prefill", {"paced_two_of_ideal": 0.93, "ring_tok_s": 120.0}, WHERE)
    kept = json.loads(file.read_text())
    assert (kept["commit"], kept["machine"], kept["values"]["ring_tok_s"]) == ("abc1234", WHERE.machine, 120.0)
    keep(tmp_path, "prefill", {"paced_two_of_ideal": 0.5}, Circumstances("2026-01-03 03:04", *_rest()))
    page = (tmp_path / "results.md").read_text()
    row = next(line for line in page.splitlines() if "[paced_two_of_ideal]" in line)
    assert [cell.strip() for cell in row.split("|")][2:5] == ["at least 0.88", "0.93", "**0.5**"]
    assert "load 0.1 to 0.2" in page and WHERE.machine in page


def _rest() -> tuple[str, str, str, tuple[float, float], dict[str, str]]:
    return WHERE.machine, WHERE.system, WHERE.commit, WHERE.load, {}


def test_every_target_has_its_line_in_the_overview_measured_or_not() -> None:
    lines = overview({"api": {"tokens_per_s": 9000.0}, "lookup": {"speedup": 1.2}})
    assert len(lines) == len(TARGETS)
    verdicts = {line.title.split(":")[0]: line.kept for line in lines}
    assert (verdicts["api"], verdicts["lookup"], verdicts["cache"]) == (True, False, None)
    assert [line.kept for line in judged("forced-call", {"passes_per_token": 0.55, "speedup": 1.59})] == [True, False]


def test_scaling_is_drawn_by_streams_and_by_stages() -> None:
    values: Flat = {"one_shard_1_tok_s": 20.0, "one_shard_8_tok_s": 90.0, "mlx_lm_8_tok_s": 80.0}
    found = charts({**values, "paced_two_of_ideal": 0.95, "paced_four_of_ideal": 0.93})
    assert [set(chart.lines) for chart in found] == [{"one shard", "mlx_lm"}, {"found", "ideal"}]
    assert found[0].lines["one shard"] == {1: 20.0, 8: 90.0}
    drawn = ElementTree.fromstring(draw(found))
    assert len(drawn.findall(".//{*}polyline")) == 4
    assert charts({}) == []
