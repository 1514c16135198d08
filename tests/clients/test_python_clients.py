"""LangChain, pydantic-ai and instructor against a real ring: forced calls, their loops, and forms of pydantic's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.npm import ROOT
from tests.ring.cluster import Cluster
from tests.ring.conftest import smollm

__all__ = ["smollm"]
PYTHON = ROOT / "python" / "bin" / "python"
SCRIPT = Path(__file__).parent / "others.py"
DEADLINE_S = 150.0

pytestmark = [
    pytest.mark.ring,
    pytest.mark.skipif(not PYTHON.exists(), reason="needs Python's clients: tests/clients/install.sh"),
]


@pytest.fixture(scope="module")
def ring(smollm: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The API of a node with the embedded model in two shards."""
    with Cluster(tmp_path_factory.mktemp("python")) as cluster:
        cluster.start_master("a", "--model", str(smollm), "--shards", "2", "--context", "2048")
        cluster.wait_ready()
        yield cluster.api


def seen(case: str, url: str) -> Any:
    ended = subprocess.run(
        [str(PYTHON), str(SCRIPT), case, url, "smollm2-135m"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout)


@pytest.mark.parametrize("case", ["langchain", "pydantic_ai", "instructor"])
def test_an_answer_has_the_form_of_the_clients_model(ring: str, case: str) -> None:
    told = seen(case, ring)
    assert len(told["place"]["city"]) <= 20
    assert 1 <= told["place"]["days"] <= 9
    if case == "langchain":  # a forced call, streamed; its result was sent back
        assert len(told["ran"]) == 1
        assert told["tokens"] > 0
