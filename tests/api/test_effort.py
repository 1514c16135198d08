"""An effort that the model cannot have is told in the answer's header, at every door, streamed and not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.api.fuzz_node import FuzzLibrary, FuzzNode, Script
from tests.api.scripted import HELLO, MODEL, served

SAID = [{"role": "user", "content": "hi"}]
DOORS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "/v1/chat/completions": ({"messages": SAID}, {"reasoning_effort": "high"}),
    "/v1/responses": ({"input": "hi", "store": False}, {"reasoning": {"effort": "high"}}),
    "/v1/messages": (
        {"messages": SAID, "max_tokens": 9, "thinking": {"type": "adaptive"}},
        {"output_config": {"effort": "high"}},
    ),
    "/api/chat": ({"messages": SAID}, {"think": "high"}),
    "/api/generate": ({"prompt": "hi"}, {"think": "high"}),
}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """With a model that reasons, and whose template knows no levels."""
    script = Script(HELLO, "thinking")
    async with served(FuzzNode(script), library=FuzzLibrary(script)) as server:
        async with aiohttp.ClientSession(server.url) as session:
            yield session


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("path", DOORS)
async def test_an_effort_is_taken_and_a_level_that_does_not_exist_is_told(
    session: aiohttp.ClientSession, path: str, stream: bool
) -> None:
    asked, effort = DOORS[path]
    async with session.post(path, json={"model": MODEL, "stream": stream, **asked, **effort}) as response:
        assert response.status == 200, await response.text()
        assert "reasoning effort 'high': this model knows no levels" in response.headers["Warning"]
    async with session.post(path, json={"model": MODEL, "stream": stream, **asked}) as response:
        assert "Warning" not in response.headers
