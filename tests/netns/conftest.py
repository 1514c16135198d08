from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.netns.world import World, why_not


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skips where no namespaces can be made."""
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture
def make_world(namespaces: None, tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Worlds that end with the test: `make_world("abc", ipv4=False)`."""
    with ExitStack() as stack:
        yield lambda hosts, **options: stack.enter_context(World(hosts, tmp_path, **options))
