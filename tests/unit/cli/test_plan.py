"""`ringleader plan` as a person and as a script see it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.cells import cell_len
from typer.testing import CliRunner

from ringleader.cli.plan import plan
from tests.api.scripted import ScriptedNode, served
from tests.unit.cluster.fleet_files import FOLDER
from tests.unit.models.builders import model_directory

FOUR = str(FOLDER / "four_studios.toml")
HOME = str(FOLDER / "home.toml")


def run(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(plan)
    return CliRunner().invoke(app, arguments)


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RINGLEADER_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


def test_the_page_shows_stages_prediction_reason_and_what_would_not_fit() -> None:
    done = run("--model", "kimi-k2-thinking", "--nodes", FOUR)
    assert done.exit_code == 0, done.output
    assert all(cell_len(line) <= 80 for line in done.stdout.splitlines())
    text = " ".join(done.stdout.split())
    for said in (
        "kimi-k2-thinking on 2 of 4 nodes · 8192 tokens of context · room for 2 such requests",
        "NODE LAYERS WEIGHTS KV ROOM STAGE TO NEXT",
        "large-1 0-30",
        "tokens/s for one stream",
        "need 2 nodes; split over large-1, large-2",
        "Left out: small-1, small-2 (would slow a stream from",
        "all 262144 tokens that the model can have would fit",
    ):
        assert said in text, said


def test_json_has_the_same_for_a_script() -> None:
    done = run("--model", "kimi-k2-thinking", "--nodes", FOUR, "--json", "--objective", "throughput")
    found = json.loads(done.stdout)
    assert found["objective"] == "throughput"
    assert found["stages"][0]["first_layer"] == 0
    assert found["stages"][-1]["last_layer"] == 60
    assert all(stage["weight_bytes"] + stage["kv_bytes"] <= stage["room_bytes"] for stage in found["stages"])
    predicted = found["predicted"]
    assert predicted["in_flight"] == len(found["stages"]) == 4
    whole_ms = sum(stage["stage_ms"] + stage["hop_ms"] for stage in found["stages"])
    assert predicted["tokens_per_s"] == pytest.approx(1000 / whole_ms, rel=0.01)
    assert found["unused"] == []


def test_what_does_not_fit_is_exit_1_with_the_context_that_would() -> None:
    done = run("--model", "llama-3.3-70b-4bit", "--nodes", HOME, "--context", "131072", "--streams", "16")
    assert done.exit_code == 1
    assert "does not fit: it needs" in done.stderr
    hint = done.stderr.split("--context ")[-1].split(".")[0]
    assert run("--model", "llama-3.3-70b-4bit", "--nodes", HOME, "--context", hint, "--streams", "16").exit_code == 0
    more = str(int(hint) + 1)
    again = run("--model", "llama-3.3-70b-4bit", "--nodes", HOME, "--context", more, "--streams", "16", "--json")
    assert again.exit_code == 1
    assert json.loads(again.stdout)["context_that_fits"] == int(hint)


def test_a_model_that_fits_in_no_way_is_said_so_without_a_hint() -> None:
    done = run("--model", "kimi-k2-thinking", "--nodes", HOME)
    assert done.exit_code == 1
    assert "--context" not in done.stderr


def test_nodes_can_be_left_out_and_layers_placed_by_hand() -> None:
    found = json.loads(run("--model", "llama-3.3-70b-4bit", "--nodes", HOME, "--exclude", "studio", "--json").stdout)
    assert [stage["name"] for stage in found["stages"]] == ["macbook"]
    assert "Excluded as asked: studio" in found["why"]
    by_hand = run("--model", "llama-3.3-70b-4bit", "--nodes", HOME, "--layers", "mini=0-39,studio=40-79", "--json")
    assert [(s["name"], s["last_layer"]) for s in json.loads(by_hand.stdout)["stages"]] == [
        ("mini", 39),
        ("studio", 79),
    ]
    shards = run("--model", "llama-3.3-70b-4bit", "--nodes", HOME, "--shards", "3", "--json")
    assert len(json.loads(shards.stdout)["stages"]) == 3


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--exclude", "nobody"], "no node is called 'nobody'; here are: studio, mini, macbook"),
        (["--layers", "mini"], "is not node=first-last"),
        (["--layers", "nobody=0-79"], "'nobody', which is not here"),
        (["--context", "0"], "context_tokens is 0"),
        (["--streams", "0"], "--streams is 0"),
        (["--shards", "9"], "ask for 1 to 8"),
    ],
)
def test_what_was_asked_wrongly_is_named(arguments: list[str], complaint: str) -> None:
    done = run("--model", "llama-3.3-70b-4bit", "--nodes", HOME, *arguments)
    assert done.exit_code == 1
    assert complaint in done.stderr
    assert done.stdout == ""


def test_a_wrong_fleet_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    assert "cannot be read" in run("--model", "m", "--nodes", str(file)).stderr
    file.write_text("[[node]")
    assert "is not TOML" in run("--model", "m", "--nodes", str(file)).stderr
    file.write_text('[[node]]\nname = "x"\nchip = "M9"\nmemory_gb = 8')
    assert "the chip 'M9' is not known" in run("--model", "m", "--nodes", str(file)).stderr


def test_a_stored_model_a_path_and_a_described_file_are_found(empty_home: Path, tmp_path: Path) -> None:
    stored = model_directory(empty_home / "models" / "mlx-community--some-model")
    for name, called in (("mlx-community/some-model", "mlx-community/some-model"), (str(stored), stored.name)):
        done = run("--model", name, "--nodes", HOME, "--json", "--context", "64")
        assert done.exit_code == 0, done.stderr
        assert json.loads(done.stdout)["model"] in (called, "mlx-community/some-model")
    file = tmp_path / "mine.toml"
    file.write_text(
        "layers = 4\nhidden = 64\nvocabulary = 1000\nheads = 4\nkv_heads = 2\nhead_width = 16\nfeed_forward = 128\n"
        "bits_per_weight = 16\ncontext = 4096"
    )
    assert json.loads(run("--model", str(file), "--nodes", HOME, "--json").stdout)["model"] == "mine"


def test_an_unknown_model_is_answered_with_the_ways_to_name_one() -> None:
    done = run("--model", "no-such-model", "--nodes", HOME)
    assert done.exit_code == 1
    assert "To plan without it: hf:org/name, a .toml file, or one of deepseek-v3-4bit" in done.stderr


async def test_without_a_fleet_the_nodes_of_the_running_cluster_are_planned_for() -> None:
    node = ScriptedNode()
    gib = 2**30
    node.picture = {
        "nodes": [
            {
                "id": "n1",
                "name": "studio",
                "chip": "Apple M3 Ultra",
                "memory_total_bytes": 96 * gib,
                "memory_free_bytes": 30 * gib,
                "state": "ok",
            },
            {
                "id": "n2",
                "name": "mini",
                "chip": "Apple M4 Pro",
                "memory_total_bytes": 64 * gib,
                "memory_free_bytes": 20 * gib,
                "state": "ok",
                "bytes_per_s": 2e11,
                "links": [{"to": "n1", "latency_s": 0.001, "bytes_per_s": 1e9}],
            },
            {"id": "n3", "name": "gone", "chip": "M4", "memory_free_bytes": 500 * gib, "state": "lost"},
        ]
    }
    async with served(node) as server:
        done = await asyncio.to_thread(run, "--model", "llama-3.3-70b-4bit", "--json", "--url", server.url)
    found = json.loads(done.stdout)
    assert sorted(stage["name"] for stage in found["stages"]) == ["mini", "studio"]
    assert found["stages"][-1]["hop_ms"] == pytest.approx(1.0)


def test_without_a_fleet_and_without_a_node_it_is_exit_3() -> None:
    done = run("--model", "llama-3.3-70b-4bit", "--url", "http://127.0.0.1:9")
    assert done.exit_code == 3
    assert "no node answers" in done.stderr
