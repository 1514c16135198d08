from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ringleader.bench.child import open_child
from ringleader.errors import PeerFault

ECHO = "import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)\n"


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in which children find their modules."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


async def test_a_child_answers_and_ends_with_the_block(modules: Path) -> None:
    (modules / "echo_child.py").write_text(ECHO)
    async with open_child("echo_child") as child:
        assert await child.ask(number=7) == {"number": 7}
    with pytest.raises(PeerFault, match="echo_child ended"):
        await child.hear()


async def test_a_child_that_dies_is_told_with_its_last_words(modules: Path) -> None:
    (modules / "broken_child.py").write_text("raise SystemExit('no such weights')\n")
    async with open_child("broken_child") as child:
        with pytest.raises(PeerFault, match="no such weights"):
            await child.hear()


def test_the_process_that_measures_never_imports_mlx() -> None:
    modules = "ringleader.bench.decode, ringleader.bench.hop, ringleader.bench.forced_call, ringleader.cli.bench"
    program = f"import sys, {modules}; sys.exit(sorted(name for name in sys.modules if name.startswith('mlx')) or 0)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
