"""`ringleader models` as a person and as a script see it: streams, exit codes, one-line errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.unit.models.builders import LLAMA_CONFIG, model_directory, safetensors_bytes
from tests.unit.models.builders import llama_tensors as tensors
from tests.unit.models.hub_server import FakeHub, serving

PROGRAM = "from ringleader.cli.models import app; app(prog_name='ringleader models')"


def run(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, "RINGLEADER_HOME": str(home), "COLUMNS": "80", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_table_fits_eighty_columns_and_names_the_model_that_can_be_pulled(tmp_path: Path) -> None:
    model_directory(tmp_path / "models" / "mlx-community--some-model")
    done = run(tmp_path, "list")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["NAME", "FAMILY", "LAYERS", "SIZE", "WEIGHTS", "STATE"]
    assert lines[1].split()[:3] == ["mlx-community/some-model", "llama", "2"]
    assert lines[2].split()[0] == "smollm2-135m"
    assert lines[2].endswith("not pulled")
    assert max(len(line) for line in lines) <= 80


def test_json_is_one_array_that_a_script_can_read(tmp_path: Path) -> None:
    directory = model_directory(tmp_path / "models" / "org--name")
    models = json.loads(run(tmp_path, "list", "--json").stdout)
    found = next(model for model in models if model["name"] == "org/name")
    assert (found["state"], found["layers"], found["weights"], found["path"]) == ("ready", 2, "fp16", str(directory))


def test_path_prints_the_directory_alone(tmp_path: Path) -> None:
    directory = model_directory(tmp_path / "models" / "org--name")
    done = run(tmp_path, "path", "org/name")
    assert (done.stdout, done.stderr, done.returncode) == (f"{directory}\n", "", 0)


def test_an_error_is_one_line_on_stderr_with_exit_code_one(tmp_path: Path) -> None:
    done = run(tmp_path, "path", "smollm")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [done.stderr.strip()]
    assert done.stderr.startswith("error: no model 'smollm'; did you mean smollm2-135m?")


def test_a_wrong_command_line_is_exit_code_two(tmp_path: Path) -> None:
    assert run(tmp_path, "frobnicate").returncode == 2
    assert run(tmp_path, "pull", "smollm2-135m", "--weights", "huge").returncode == 2


def test_a_pull_from_the_hub_of_hf_endpoint_prints_the_path_and_its_progress_apart(tmp_path: Path) -> None:
    files = {"config.json": json.dumps(LLAMA_CONFIG).encode(), "model.safetensors": safetensors_bytes(tensors())}
    with serving(FakeHub("org/name", files)) as hub:
        done = run(tmp_path, "pull", "hf:org/name", HF_ENDPOINT=hub.url)
        missing = run(tmp_path, "pull", "hf:org/typo", HF_ENDPOINT=hub.url)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'models' / 'org--name'}\n"
    assert "fetch org/name" in done.stderr
    assert missing.returncode == 1
    assert "has no model 'org/typo'" in missing.stderr
    states = {model["name"]: model["state"] for model in json.loads(run(tmp_path, "list", "--json").stdout)}
    assert states == {"org/name": "ready", "smollm2-135m": "not pulled"}


def test_remove_deletes_and_says_what_was_freed(tmp_path: Path) -> None:
    directory = model_directory(tmp_path / "models" / "org--name")
    done = run(tmp_path, "remove", "org/name")
    assert (done.returncode, done.stdout) == (0, "")
    assert "freed" in done.stderr
    assert not directory.exists()


def test_an_endpoint_that_is_no_address_is_one_line_too(tmp_path: Path) -> None:
    for endpoint in ("http://[bad", "nonsense"):
        done = run(tmp_path, "pull", "org/name", HF_ENDPOINT=endpoint)
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith("error: "), done.stderr
        assert "Traceback" not in done.stderr
