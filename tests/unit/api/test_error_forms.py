"""Which API's clients are told of an error in which form: the path says so, and a header where paths are shared."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.scripted import ScriptedNode
from tests.unit.api.test_app import http


async def told(method: str, path: str, **headers: str) -> tuple[int, Any]:
    async with http(ScriptedNode()) as session:
        async with session.request(method, path, headers=headers, data=b"{") as response:
            assert response.headers["x-request-id"].startswith("req_")
            return response.status, await response.json()


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/responses", "/v1/completions", "/v1/nothing", "/nothing"]
)
async def test_openais_form_is_everybodys_unless_another_api_owns_the_path(path: str) -> None:
    status, body = await told("POST", path)
    assert status in (400, 404)
    assert set(body["error"]) == {"message", "type", "param", "code"}


async def test_anthropics_paths_and_its_header_have_anthropics_form() -> None:
    for path, headers in (("/v1/messages", {}), ("/v1/models/none", {"anthropic-version": "2023-06-01"})):
        _, body = await told("POST" if "messages" in path else "GET", path, **headers)
        assert body["type"] == "error"
        assert set(body["error"]) >= {"type", "message"}
        assert body["request_id"].startswith("req_")


async def test_ollamas_paths_have_ollamas_form() -> None:
    for path in ("/api/chat", "/api/nothing"):
        _, body = await told("POST", path)
        assert isinstance(body["error"], str)


async def test_a_wrong_method_is_told_as_any_other_error() -> None:
    status, body = await told("PUT", "/v1/responses")
    assert (status, body["error"]["code"]) == (405, "method_not_allowed")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/completions"])
async def test_openais_own_paths_have_openais_form_whatever_the_headers_say(path: str) -> None:
    _, body = await told("POST", path, **{"anthropic-version": "2023-06-01"})
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
