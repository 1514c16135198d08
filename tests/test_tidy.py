"""The house rules, enforced: which room imports what, how long files and functions may grow, what is banned."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "ringleader"
GENERATED = SOURCE / "v1"
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

# Rooms that each room may import, beside the leaf modules that all may.
LEAVES = {"values", "errors", "config", "tokenizer", "wire", "__init__"}
ROOMS: dict[str, set[str]] = {
    "cluster": set(),
    "language": set(),
    "trust": set(),
    "shard": {"v1", "trust"},
    "models": set(),
    "net": {"cluster", "v1", "trust"},
    "api": {"language", "cluster"},
    "agent": {"language"},
    "node": {"api", "agent", "net", "trust", "shard", "models", "cluster", "language"},
    "bench": {"api", "node", "net", "trust", "shard", "models", "cluster", "language", "v1"},
    "cli": {"bench", "node", "api", "agent", "net", "trust", "shard", "models", "cluster", "language"},
    "v1": set(),
    "values": set(),
    "errors": set(),
    "config": set(),
    "tokenizer": set(),
    "wire": {"v1"},
    "__init__": set(),
    "__main__": {"cli"},
}

# Third-party packages that only some rooms may touch, and what the pure rooms may not touch at all.
ONLY_IN = {
    "mlx": {"shard", "bench"},
    "mlx_lm": {"shard", "bench"},
    "grpc": {"net", "shard", "trust"},
    "cryptography": {"trust"},
    "zeroconf": {"net"},
    "aiohttp.web": {"api"},
    "pydantic": {"api", "agent", "config", "models", "node"},
    "transformers": {"tokenizer"},
    "typer": {"cli"},
    "rich": {"cli"},
    "jinja2": {"language"},
    "openai": {"agent"},
    "anthropic": {"agent"},
    "mcp": {"agent"},
    "httpx2": {"agent"},
    "opentelemetry": {"api"},
}
PURE = {"cluster", "language"}
IMPURE = {"asyncio", "time", "random", "os", "socket", "logging", "subprocess", "threading", "pathlib", "secrets"}


def sources() -> list[Path]:
    return sorted(p for p in SOURCE.rglob("*.py") if GENERATED not in p.parents)


def tests_and_sources() -> list[Path]:
    return sources() + sorted((ROOT / "tests").rglob("*.py"))


def room(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return found


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_imports_only_the_rooms_below_it(path: Path) -> None:
    here = room(path)
    for name, line in imports(path):
        if name.startswith("ringleader."):
            there = name.split(".")[1]
            assert there in ROOMS, f"{path}:{line}: imports unknown room {there}"
            assert there == here or there in LEAVES or there in ROOMS[here], f"{path}:{line}: {here} imports {there}"


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_third_party_packages_stay_in_their_rooms(path: Path) -> None:
    here = room(path)
    for name, line in imports(path):
        for package, rooms in ONLY_IN.items():
            if name == package or name.startswith(package + "."):
                assert here in rooms, f"{path}:{line}: {here} imports {package}"


@pytest.mark.parametrize("path", [p for p in sources() if room(p) in PURE], ids=lambda p: str(p.relative_to(SOURCE)))
def test_pure_rooms_have_no_clock_no_chance_and_no_io(path: Path) -> None:
    for name, line in imports(path):
        assert name.split(".")[0] not in IMPURE, f"{path}:{line}: a pure room imports {name}"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in {"open", "print", "input"}, f"{path}:{node.lineno}: calls {node.func.id}"


@pytest.mark.parametrize("path", tests_and_sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_stay_short(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= FILE_LINES_MAX, f"{path} is longer than {FILE_LINES_MAX} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{path}:{node.lineno}: {node.name} has {length} lines"


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), f"{path} has no module docstring"


@pytest.mark.parametrize("path", tests_and_sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_no_leftovers(path: Path) -> None:
    if path == Path(__file__).resolve():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        assert not re.search(r"\b(TODO|FIXME|XXX)\b", line), f"{path}:{number}: a leftover"
        ignored = re.search(r"#\s*type:\s*ignore(\[[\w,-]+\])?(.*)$", line)
        if ignored:
            assert ignored[1] and ignored[2].strip(" #"), f"{path}:{number}: an ignore without code and reason"


def test_no_vague_file_names() -> None:
    for path in sources():
        assert path.stem not in {"utils", "helpers", "common", "misc", "manager"}, f"{path}: name the noun"


def test_nothing_of_the_workplace_is_committed() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    banned = re.compile(r"/work/|/root/|\bpypi\.org\b|files\.pythonhosted")
    for name in listed.stdout.split():
        path = ROOT / name
        if path == Path(__file__).resolve() or not path.is_file() or path.suffix in {".png", ".svg"}:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            assert not banned.search(line), f"{name}:{number}: {line.strip()[:80]}"
