"""`ringleader models show` and `set`, on small model directories with real tokenizers; in this process, for speed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ringleader.cli.models import app
from tests.unit.language.test_read_back import FOREIGN, JSON_TAGS, template
from tests.unit.language.vocabulary import CHATML, save, tokenizer_with
from tests.unit.models.builders import model_directory


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def run(home: Path, *arguments: str) -> Done:
    found = CliRunner().invoke(app, list(arguments), env={"RINGLEADER_HOME": str(home)})
    return Done(found.exit_code, found.stdout, found.stderr)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A store with three models: one plain, one that writes calls as we read them, one that writes others."""
    for name, text in {"plain": CHATML, "tags": template(JSON_TAGS), "org--odd": template(FOREIGN)}.items():
        save(tokenizer_with(("<tool_call>",), text), model_directory(tmp_path / "models" / name))
    return tmp_path


def test_a_page_says_what_was_found_and_by_what(home: Path) -> None:
    done = run(home, "show", "plain")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "model      plain"
    assert lines[2] == "dialect    json_tags (the template knows no tools)"
    assert re.search(r"begins calls: <tool_call> \d+\n", done.stdout)  # a special token, by its id
    assert "inside calls: </tool_call> text" in done.stdout
    assert "thinks     no (" in done.stdout
    assert re.search(r"ends with  <\|im_end\|> \d+\n", done.stdout)
    assert "context    64 tokens" in done.stdout
    assert "override   none" in done.stdout
    assert max(len(line) for line in lines if str(home) not in line) <= 80


def test_a_dialect_that_does_not_read_the_templates_calls_is_a_warning_on_stderr(home: Path) -> None:
    good, bad = run(home, "show", "tags"), run(home, "show", "org/odd")
    assert "check      a call as the template writes it is read" in good.stdout
    assert good.stderr == ""
    assert "check      WARNING" in bad.stdout
    assert bad.stderr.startswith("warning: org/odd speaks json_tags (")
    assert bad.returncode == 0


def test_json_is_one_object_with_the_same_facts(home: Path) -> None:
    found = json.loads(run(home, "show", "tags", "--json").stdout)
    assert found["dialect"]["name"] == "json_tags"
    assert found["dialect"]["reads_template"] is True
    assert found["markers"][0]["role"] == "begins calls"
    assert isinstance(found["markers"][0]["token"], int)
    assert found["template"]["calls"] is True
    assert found["context"] == 64


def test_another_dialect_may_be_looked_at_without_being_set(home: Path) -> None:
    done = run(home, "show", "tags", "--dialect", "qwen_xml")
    assert "dialect    qwen_xml (set by name; detected: json_tags, the chat template has" in done.stdout
    assert "override   dialect qwen_xml" in done.stdout
    assert not (home / "models" / "tags" / "ringleader.json").exists()


def test_what_is_set_is_shown_until_it_is_left_to_detection_again(home: Path) -> None:
    done = run(home, "set", "tags", "--dialect", "mistral")
    file = home / "models" / "tags" / "ringleader.json"
    assert (done.returncode, done.stdout) == (0, f"{file}\n")
    assert json.loads(run(home, "show", "tags", "--json").stdout)["dialect"]["name"] == "mistral"
    assert json.loads(run(home, "show", "tags", "--dialect", "auto", "--json").stdout)["dialect"]["name"] == "json_tags"
    assert run(home, "set", "tags", "--dialect", "auto").returncode == 0
    assert not file.exists()


def test_an_unknown_dialect_is_an_error_that_lists_the_known_ones(home: Path) -> None:
    for command in ("show", "set"):
        done = run(home, command, "tags", "--dialect", "klingon")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("error: no dialect is named 'klingon'; there are harmony, mistral, ")
    assert not (home / "models" / "tags" / "ringleader.json").exists()


def test_settings_that_are_broken_are_an_error_that_names_the_file(home: Path) -> None:
    file = home / "models" / "tags" / "ringleader.json"
    file.write_text("{")
    assert str(file) in run(home, "show", "tags").stderr
