"""schemathesis reads /openapi.json and asks every door what it promises: nothing is a 5xx but what is never served."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from aiohttp import web
from hypothesis import HealthCheck, Phase, given, settings

from ringleader.api.app import ROUTES, ApiServer, make_app, serve
from ringleader.api.unserved import UNSERVED
from ringleader.node.response_store import SqliteResponses
from tests.api.fuzz_node import FuzzLibrary, FuzzNode, Letters, Script
from tests.api.scripted import HELLO

EXAMPLES = 4  # for each door
HANGS_S = 30.0
ENDLESS = "/v1/cluster/events"
SCRIPT = Script(HELLO)


def made(**more: Any) -> web.Application:
    """The whole API: every door is open."""
    node = FuzzNode(SCRIPT)
    return make_app(node, node, node, tokenizing=Letters(), library=FuzzLibrary(SCRIPT), **more)


OPERATIONS = [(each.method, re.sub(r":[^}]+}", "}", each.path)) for each in made()[ROUTES] if each.path != ENDLESS]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Serves in a thread, since schemathesis waits for its answers."""
    store = SqliteResponses(Path(tmp_path_factory.mktemp("kept")) / "responses.sqlite")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(HANGS_S)

    served = run(serve(made(responses=store), port=0, shutdown_s=0.05))
    yield served
    run(served.close())
    run(store.close())
    loop.call_soon_threadsafe(loop.stop)
    thread.join(HANGS_S)
    loop.close()


@pytest.fixture(scope="module")
def described(server: ApiServer) -> Any:
    """The document, as the server gives it."""
    return schemathesis.openapi.from_dict(requests.get(f"{server.url}/openapi.json", timeout=HANGS_S).json())


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_a_door_takes_what_the_document_promises(server: ApiServer, described: Any, method: str, path: str) -> None:
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(described[path][method].as_strategy())
    def ask(case: Any) -> None:
        answer = case.call(base_url=server.url, timeout=HANGS_S)
        allowed = answer.status_code < 500 or (answer.status_code == 501 and path in UNSERVED)
        assert allowed, (answer.status_code, answer.text, case.as_curl_command())

    ask()
