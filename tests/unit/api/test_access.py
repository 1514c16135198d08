"""Keys in every header that clients send them in, answers at once per key, and pages of other origins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import aiohttp
import pytest
from aiohttp import web

from ringleader.api.app import serve
from ringleader.api.auth import make_auth
from ringleader.api.contracts import Caller
from ringleader.api.cors import allow, check_origin, make_cors
from ringleader.api.faults import faults_middleware
from ringleader.errors import BadRequest

PAGE = "https://chat.example.org"


class Known:
    """Two keys: one allows a single answer at once."""

    asks = True

    def caller(self, key: str) -> Caller | None:
        return {"free": Caller("a"), "one": Caller("b", 1)}.get(key)


@asynccontextmanager
async def door(
    *, loopback_only: bool = True, hold: asyncio.Event | None = None
) -> AsyncIterator[aiohttp.ClientSession]:
    async def handle(request: web.Request) -> web.Response:
        if hold is not None:
            await hold.wait()
        return web.json_response({})

    auth = make_auth(Known(), loopback_only=loopback_only, origins=[PAGE])
    app = web.Application(middlewares=[faults_middleware, make_cors([PAGE]), auth])
    allow(app, [PAGE])
    app.router.add_post("/v1/x", handle)
    server = await serve(app, port=0, shutdown_s=0.05)
    try:
        async with aiohttp.ClientSession(server.url) as session:
            yield session
    finally:
        await server.close()


@pytest.mark.parametrize(
    "headers",
    [{"Authorization": "Bearer free"}, {"authorization": "bearer  free "}, {"x-api-key": "free"}, {"api-key": "free"}],
)
async def test_a_key_is_taken_from_every_header_that_clients_use(headers: dict[str, str]) -> None:
    async with door() as session, session.post("/v1/x", headers=headers) as response:
        assert response.status == 200


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic free"}, {"x-api-key": ""}, {"api-key": "no"}])
async def test_without_a_good_key_there_is_401(headers: dict[str, str]) -> None:
    async with door() as session, session.post("/v1/x", headers=headers) as response:
        assert response.status == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert (await response.json())["error"]["code"] == "invalid_api_key"


async def test_a_key_has_no_more_answers_at_once_than_it_allows() -> None:
    hold = asyncio.Event()
    async with door(hold=hold) as session:
        one = {"x-api-key": "one"}
        first = asyncio.create_task(session.post("/v1/x", headers=one))
        refused = None
        while refused is None or refused.status != 429:  # until the first one is inside
            refused = await asyncio.wait_for(_soon(session, one), 5)
        assert refused.headers["Retry-After"]
        assert "'b' has 1" in (await refused.json())["error"]["message"]
        other = asyncio.create_task(session.post("/v1/x", headers={"x-api-key": "free"}))
        hold.set()
        assert (await first).status == (await other).status == 200
        async with session.post("/v1/x", headers=one) as again:
            assert again.status == 200


async def _soon(session: aiohttp.ClientSession, headers: dict[str, str]) -> aiohttp.ClientResponse:
    """The answer, if one comes before the request would be held."""
    task = asyncio.create_task(session.post("/v1/x", headers=headers))
    done, _ = await asyncio.wait([task], timeout=1)
    assert done, "a second answer of the key was let in"
    return task.result()


async def test_a_page_of_a_named_origin_gets_its_preflight_and_its_answer() -> None:
    async with door() as session:
        ask = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-api-key"}
        async with session.options("/v1/x", headers=ask) as response:
            assert response.status == 204
            assert response.headers["Access-Control-Allow-Origin"] == PAGE
            assert response.headers["Access-Control-Allow-Headers"] == "x-api-key"
        async with session.post("/v1/x", headers={"Origin": PAGE, "x-api-key": "free"}) as response:
            assert response.status == 200
            assert response.headers["Access-Control-Allow-Origin"] == PAGE


@pytest.mark.parametrize("loopback_only", [True, False])
async def test_a_page_of_another_origin_is_told_nothing(loopback_only: bool) -> None:
    page = "https://evil.example"
    async with door(loopback_only=loopback_only) as session:
        ask = {"Origin": page, "Access-Control-Request-Method": "POST"}
        async with session.options("/v1/x", headers=ask) as response:
            assert response.status >= 400
            assert "Access-Control-Allow-Origin" not in response.headers
        async with session.post("/v1/x", headers={"Origin": page, "x-api-key": "free"}) as response:
            assert response.status == (403 if loopback_only else 200)
            assert "Access-Control-Allow-Origin" not in response.headers


@contextmanager
def refused(text: str) -> Iterator[None]:
    with pytest.raises(BadRequest, match="no origin"):
        yield


@pytest.mark.parametrize(
    "text", ["*", "chat.example.org", "https://a.example/", "https://a.example/x", "null", "ftp://a"]
)
def test_what_is_no_origin_is_refused_at_the_start(text: str) -> None:
    with refused(text):
        check_origin(text)


def test_origins_are_taken_as_browsers_send_them() -> None:
    assert check_origin("http://localhost:3000") == "http://localhost:3000"
