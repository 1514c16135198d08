"""Progress as a log and as a terminal get it."""

from __future__ import annotations

import io

from rich.console import Console

from ringleader.cli.progress import BarReporter, LineReporter, open_reporter


def test_a_log_gets_at_most_one_line_for_each_tenth() -> None:
    stream = io.StringIO()
    reporter = LineReporter(stream)
    reporter.stage("fetch m")
    for done in range(0, 100_001, 7):
        reporter.advance(done, 100_000, "bytes")
    reporter.done("100 kB, checked")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "  fetch m ..."
    assert [line.split()[2] for line in lines[1:-1]] == ["10", "20", "30", "40", "50", "60", "70", "80", "90"]
    assert "100 kB, checked" in lines[-1]


def test_progress_that_jumps_or_falls_back_prints_each_tenth_once() -> None:
    stream = io.StringIO()
    reporter = LineReporter(stream)
    reporter.stage("fetch m")
    for done in (0, 55, 20, 55, 30, 95, 100):
        reporter.advance(done, 100, "tensors")
    assert [line.split()[2] for line in stream.getvalue().splitlines()[1:]] == ["50", "90"]


def test_an_unknown_total_prints_nothing_and_does_not_divide_by_it() -> None:
    stream = io.StringIO()
    reporter = LineReporter(stream)
    reporter.stage("fetch m")
    reporter.advance(10, 0, "bytes")
    assert stream.getvalue() == "  fetch m ...\n"


def test_what_is_no_terminal_gets_lines_without_control_codes() -> None:
    stream = io.StringIO()
    reporter = open_reporter(stream)
    reporter.stage("a")
    reporter.advance(1, 1, "bytes")
    reporter.done("[b]")
    reporter.close()
    assert "\x1b" not in stream.getvalue()
    assert "[b]" in stream.getvalue()


def test_a_terminal_gets_a_bar_and_each_stage_stays_as_one_line() -> None:
    stream = io.StringIO()
    reporter = BarReporter(Console(file=stream, force_terminal=True, width=80, color_system=None))
    reporter.stage("fetch m")
    reporter.advance(50, 100, "bytes")
    reporter.done("100 B [checked]")
    reporter.stage("convert m")
    reporter.close()
    reporter.close()
    assert "100 B [checked]" in stream.getvalue()
    assert "━" in stream.getvalue()
