"""`ringleader bench` as a person and as a script see it, on real processes and a tiny model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DEADLINE_S = 120


def bench(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ringleader", "bench", *arguments],
        env={**os.environ, "RINGLEADER_HOME": str(home), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.ring.tiny_models import make_tiny_model  # imports mlx: here, so that other tests start at once

    return make_tiny_model("llama", tmp_path_factory.mktemp("tiny"), tokenizer=True)


def test_a_model_that_is_not_here_is_named_in_one_line_and_nothing_goes_to_stdout(tmp_path: Path) -> None:
    for command in ("decode", "forced-call", "grammar"):
        done = bench(tmp_path, command, "--model", "no-such-model")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("error: ")
        assert "no-such-model" in done.stderr
        assert done.stderr.count("\n") == 1


def test_a_number_that_measures_nothing_is_refused(tmp_path: Path) -> None:
    done = bench(tmp_path, "decode", "--runs", "0")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.ring
def test_a_hop_is_timed_between_two_processes(tmp_path: Path) -> None:
    done = bench(tmp_path, "hop", "--hops", "200", "--json")
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert (measured["hops"], measured["frame_bytes"]) == (200, 8192)
    assert 5 < measured["hop_p50_us"] <= measured["hop_p99_us"]


@pytest.mark.ring
def test_decoding_is_compared_with_mlx_lm_and_between_rings(tmp_path: Path, tiny: Path) -> None:
    done = bench(tmp_path, "decode", "--model", str(tiny), "--tokens", "16", "--runs", "2", "--json")
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert measured["same_tokens"] is True
    assert measured["one_shard_vs_mlx_lm"] > 0
    assert measured["two_shards_vs_one"] > 0
    assert measured["decode_frame_bytes_limit"] == 64 * 4 + 200
    assert 64 * 4 < measured["decode_frame_bytes"] <= measured["decode_frame_bytes_limit"]


@pytest.mark.ring
def test_a_forced_call_is_answered_with_and_without_followers(tmp_path: Path, tiny: Path) -> None:
    done = bench(tmp_path, "forced-call", "--model", str(tiny), "--tokens", "48", "--runs", "1")
    assert done.returncode == 0, done.stderr
    titles = [line.strip() for line in done.stdout.splitlines()]
    assert titles[0].startswith("forced call: ")
    assert any(line.startswith("passes / output tokens") for line in titles)
    assert "round 1 of 1" in done.stderr


@pytest.mark.ring
def test_a_grammar_is_weighed_in_every_choice_and_on_a_ring(tmp_path: Path, tiny: Path) -> None:
    done = bench(tmp_path, "grammar", "--model", str(tiny), "--tokens", "16", "--runs", "1", "--json")
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert measured["dialect"] == "json_tags"
    assert measured["grammar_vs_free"] > 0
    assert all(measured[f"{choice}_mask_p50_us"] > 0 for choice in ("auto", "none", "required", "named"))
