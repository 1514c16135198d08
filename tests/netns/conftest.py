from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.netns.cluster import MODEL, Cluster
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


@pytest.fixture(scope="session")
def model(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that every host finds at the same path and loads at once."""
    from tests.ring.tiny_models import make_tiny_model  # MLX, which is not wanted where these tests are skipped

    return make_tiny_model("qwen3", tmp_path_factory.mktemp("models") / MODEL, tokenizer=True)


@pytest.fixture(scope="session")
def story(model: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The long answer of `Cluster.stream` without any loss, from one node with the whole model."""
    with World("z", tmp_path_factory.mktemp("story")) as world:
        alone = Cluster(world)
        alone.found("z", "--model", str(model))
        return alone.stream("z").whole()
