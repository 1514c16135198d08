"""Pages are fetched from allowed hosts and addresses only, over real sockets on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from ringleader.agent.contracts import ToolContract, ToolFault
from ringleader.agent.tools.fetch import _Allowed, _public, fetch_tool
from ringleader.errors import ContractFault


async def answer(request: web.Request) -> web.StreamResponse:
    path = request.path
    if path == "/page":
        return web.Response(text="<title>T</title><p>Hello &amp; all</p>", content_type="text/html")
    if path == "/json":
        return web.json_response({"agent": request.headers["User-Agent"], "cookies": dict(request.cookies)})
    if path == "/latin":
        return web.Response(body="häuser".encode("latin-1"), headers={"Content-Type": "text/plain; charset=iso-8859-1"})
    if path == "/odd":
        return web.Response(body=b"x", headers={"Content-Type": "text/plain; charset=martian"})
    if path == "/missing":
        return web.Response(status=404, text="gone")
    if path == "/image":
        return web.Response(body=b"\x89PNG", content_type="image/png")
    if path == "/cookie":
        return web.Response(status=302, headers={"Location": "/json", "Set-Cookie": "a=b"})
    if path == "/loop":
        return web.Response(status=302, headers={"Location": "/loop"})
    if path == "/away":
        return web.Response(status=307, headers={"Location": request.query["to"]})
    if path == "/bomb":
        body = gzip.compress(b"a" * 20_000_000)
        return web.Response(body=body, headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"})
    if path == "/endless":
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        while request.transport is not None and not request.transport.is_closing():
            await response.write(b"word " * 10_000)
            await asyncio.sleep(0)
        return response
    await asyncio.sleep(600)
    return web.Response()


@pytest.fixture
async def port() -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    yield site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]  # asyncio's server has them
    await runner.cleanup()


def local(port: int, **more: Any) -> ToolContract:
    return fetch_tool([f"127.0.0.1:{port}", f"localhost:{port}"], private=True, **more)


async def get(tool: ToolContract, url: str) -> Any:
    return await tool.call(json.dumps({"url": url}))


async def test_a_page_is_told_as_text_with_where_it_came_from(port: int) -> None:
    result = await get(local(port), f"http://127.0.0.1:{port}/page")
    assert result.text == f"[200 text/html http://127.0.0.1:{port}/page]\nT\nHello & all"
    assert result.value["status"] == 200 and not result.value["cut"]


async def test_a_name_is_resolved_and_used(port: int) -> None:
    assert (await get(local(port), f"http://localhost:{port}/json")).value["status"] == 200


async def test_charsets_are_read_also_unknown_ones(port: int) -> None:
    assert "häuser" in (await get(local(port), f"http://127.0.0.1:{port}/latin")).text
    assert (await get(local(port), f"http://127.0.0.1:{port}/odd")).value["text"] == "x"


async def test_an_error_status_is_an_answer(port: int) -> None:
    result = await get(local(port), f"http://127.0.0.1:{port}/missing")
    assert result.failure is None and result.value["status"] == 404 and "gone" in result.text


async def test_what_is_no_text_is_refused(port: int) -> None:
    result = await get(local(port), f"http://127.0.0.1:{port}/image")
    assert result.failure == "failed" and "image/png, which is no text" in result.text


async def test_redirects_are_followed_without_cookies_and_not_for_ever(port: int) -> None:
    result = await get(local(port), f"http://127.0.0.1:{port}/cookie")
    assert result.value["url"].endswith("/json") and json.loads(result.value["text"])["cookies"] == {}
    assert "more than 5 redirects" in (await get(local(port), f"http://127.0.0.1:{port}/loop")).text


@pytest.mark.parametrize(
    "to", ["http://example.org/", "http://127.0.0.2/", "file:///etc/passwd", "//evil.test/x", "ftp://127.0.0.1/"]
)
async def test_redirects_out_of_the_allowed_hosts_are_not_followed(port: int, to: str) -> None:
    result = await get(local(port), f"http://127.0.0.1:{port}/away?to={to}")
    assert result.failure == "failed"
    assert "not among the hosts" in result.text or "no address that begins" in result.text


@pytest.mark.parametrize("path", ["bomb", "endless"])
async def test_bodies_are_cut_at_their_limit(port: int, path: str) -> None:
    result = await get(local(port, bytes_max=10_000), f"http://127.0.0.1:{port}/{path}")
    assert result.value["cut"] and len(result.value["text"]) == 10_000 and "there was more" in result.text


async def test_a_server_that_says_nothing_is_given_up(port: int) -> None:
    result = await get(local(port, timeout_s=0.2), f"http://127.0.0.1:{port}/silent")
    assert result.failure == "failed" and "did not answer within 0.2 s" in result.text


async def test_private_addresses_are_refused_by_name_and_by_number(port: int) -> None:
    closed = fetch_tool([f"127.0.0.1:{port}", f"localhost:{port}", f"2130706433:{port}"])
    for host in ("127.0.0.1", "localhost", "2130706433"):
        result = await get(closed, f"http://{host}:{port}/page")
        assert result.failure == "failed"
        assert "not an address of the public internet" in result.text or "not a canonical" in result.text


async def test_an_address_that_nobody_serves_is_told() -> None:
    result = await get(fetch_tool(["127.0.0.1:9"], private=True), "http://127.0.0.1:9/")
    assert result.failure == "failed" and "could not be fetched" in result.text


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("192.168.0.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%en0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::808:808", True),
        ("2002:7f00:1::", False),
        ("ff02::1", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert _public(address) is public


@pytest.mark.parametrize(
    ("hosts", "url", "allowed"),
    [
        (["example.org"], "https://example.org/a?b", True),
        (["example.org"], "https://EXAMPLE.org./", True),
        (["example.org"], "https://www.example.org/", False),
        (["example.org"], "https://example.org.evil.test/", False),
        (["example.org"], "https://example.org:8443/", False),
        (["example.org:8443"], "https://example.org:8443/", True),
        (["example.org:8443"], "https://example.org/", False),
        (["*.example.org"], "https://a.b.example.org/", True),
        (["*.example.org"], "https://example.org/", False),
        (["*.example.org"], "https://evilexample.org/", False),
        (["example.org"], "https://user@example.org/", False),
        (["example.org"], "https://example.org@evil.test/", False),
        (["example.org"], "https://evil.test\\@example.org/", False),
        (["example.org"], "ftp://example.org/", False),
        (["example.org"], "example.org", False),
        (["bücher.example"], "https://xn--bcher-kva.example/", True),
        (["BÜCHER.example"], "https://bücher.example/", True),
    ],
)
def test_which_urls_are_allowed(hosts: list[str], url: str, allowed: bool) -> None:
    try:
        _Allowed(hosts, private=False).check(URL(url))
    except (ToolFault, ValueError):
        assert not allowed
    else:
        assert allowed


@pytest.mark.parametrize(
    "entry",
    ["", "http://example.org", "example.org/path", "a b", "*", "*.*.org", "example.org:99999", "me@example.org"],
)
def test_entries_that_are_no_hosts_are_refused(entry: str) -> None:
    with pytest.raises(ContractFault, match="fetch"):
        fetch_tool([entry])


def test_without_hosts_there_is_no_tool() -> None:
    with pytest.raises(ContractFault, match="needs the hosts"):
        fetch_tool([])
