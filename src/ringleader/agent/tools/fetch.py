"""Gets pages over HTTP, from named hosts only, and never from an address inside the house unless it is allowed.

Names are resolved once, the addresses are looked at, and the connection goes to those very addresses: a name that
resolves to something else a moment later changes nothing. Redirects are followed by hand, each checked like the first.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from ringleader.agent.contracts import ToolContract, ToolFault, ToolResult, tool
from ringleader.agent.threads import in_thread
from ringleader.agent.tools.page_text import page_text
from ringleader.errors import ContractFault

TIMEOUT_S = 20.0
BYTES_MAX = 1_000_000  # of a body; what a model reads of it is bounded again
CHARS_MAX = 24_000
REDIRECTS_MAX = 5
_MOVED = {301, 302, 303, 307, 308}
_TEXTS = ("text/", "application/json", "application/xml", "application/javascript", "application/yaml")
_PORTS = {"http": 80, "https": 443}


def fetch_tool(
    hosts: Iterable[str],
    *,
    tier: int = 1,
    private: bool = False,
    timeout_s: float = TIMEOUT_S,
    bytes_max: int = BYTES_MAX,
) -> ToolContract:
    """A tool that gets pages from `hosts`: names, `*.name` for all below a name, with `:port` for other than the usual.

    `private` allows addresses that are not of the public internet (loopback, the home's network).

    Raises:
        ContractFault: `hosts` is empty, or one of them is no host.
    """
    allowed = _Allowed([*hosts], private)

    @tool(tier=tier, effects=["read", "network"], timeout_s=timeout_s + 5, name="fetch")
    async def fetch(url: str) -> ToolResult:
        """Gets a web page or another text over HTTP. Only some hosts are allowed.

        Args:
            url: the address, with http:// or https://
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await _follow(url.strip(), allowed, bytes_max)
        except TimeoutError:
            raise ToolFault(f"{url} did not answer within {timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as failed:
            raise ToolFault(f"{url} could not be fetched: {failed}") from failed

    return fetch


async def _follow(url: str, allowed: _Allowed, bytes_max: int) -> ToolResult:
    connector = aiohttp.TCPConnector(resolver=_CheckedResolver(allowed), use_dns_cache=False)
    headers = {"User-Agent": "ringleader", "Accept": "text/html, text/*, application/json, */*;q=0.1"}
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers=headers) as web:
        at = URL(url)  # one reading of the address, for the check and for the request
        for _ in range(REDIRECTS_MAX + 1):
            allowed.check(at)
            async with web.get(at, allow_redirects=False) as response:
                target = response.headers.get("Location")
                if response.status not in _MOVED or not target:
                    return await _page(at, response, bytes_max)
                at = at.join(URL(target))
    raise ToolFault(f"more than {REDIRECTS_MAX} redirects, the last one to {at}")


async def _page(url: URL, response: aiohttp.ClientResponse, bytes_max: int) -> ToolResult:
    kind = response.content_type
    if not (kind.startswith(_TEXTS) or kind.endswith(("+json", "+xml"))):
        raise ToolFault(f"{url} is {kind}, which is no text")
    body = bytearray()
    async for piece in response.content.iter_chunked(65_536):
        body += piece
        if len(body) > bytes_max:
            break
    try:
        text = bytes(body[:bytes_max]).decode(response.charset or "utf-8", errors="replace")
    except LookupError:
        text = bytes(body[:bytes_max]).decode("utf-8", errors="replace")
    if kind in ("text/html", "application/xhtml+xml"):
        text = await in_thread(page_text, {"page": text})  # a large page takes too long for the loop
    cut = len(body) > bytes_max or len(text) > CHARS_MAX
    value = {"url": str(url), "status": response.status, "content_type": kind, "text": text[:CHARS_MAX], "cut": cut}
    more = "\n[there was more; it is left out]" if cut else ""
    return ToolResult(f"[{response.status} {kind} {url}]\n{text[:CHARS_MAX]}{more}", value)


class _Allowed:
    """What may be fetched."""

    def __init__(self, hosts: list[str], private: bool) -> None:
        if not hosts:
            raise ContractFault("fetch needs the hosts that it may get pages from")
        self._hosts = {_host(entry) for entry in hosts}
        self.private = private
        self._shown = ", ".join(sorted(hosts))

    def check(self, url: URL) -> None:
        """Raises ToolFault when the URL is of another scheme, has a password, or its host is not allowed."""
        if url.scheme not in _PORTS or not url.raw_host:
            raise ToolFault(f"{str(url)!r} is no address that begins with http:// or https://")
        if url.raw_user is not None or url.raw_password is not None:
            raise ToolFault("an address with a user name or a password is not fetched")
        host = url.raw_host.lower().rstrip(".")
        for name, only in self._hosts:
            named = host == name or (name.startswith("*.") and host.endswith(name[1:]))
            if named and url.port == (only or _PORTS[url.scheme]):
                self._check_literal(host)
                return
        raise ToolFault(f"{url.host_port_subcomponent} is not among the hosts that may be fetched: {self._shown}")

    def _check_literal(self, host: str) -> None:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return  # a name: the resolver looks at its addresses
        self.check_address(host)

    def check_address(self, address: str) -> None:
        """Raises ToolFault when the address is not public, and only public ones may be used."""
        if not self.private and not _public(address):
            raise ToolFault(f"{address} is not an address of the public internet, and only such are allowed")


def _host(entry: str) -> tuple[str, int | None]:
    """The host as it stands in requests (names of other scripts encoded), and its port, None for the usual ones."""
    wild = "*." if entry.startswith("*.") else ""
    try:
        read = URL(f"//{entry.removeprefix('*.').lower()}")
        host, port = read.raw_host, read.explicit_port
    except ValueError:
        host, port, read = None, None, URL()
    if (
        not host
        or any(c in host for c in "* %")
        or read.raw_path not in ("", "/")
        or read.raw_user is not None
        or read.raw_query_string
    ):
        raise ContractFault(f"{entry!r} is no host for fetch: write example.org, *.example.org or example.org:8080")
    return wild + host.rstrip("."), port


def _public(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in ipaddress.ip_network("64:ff9b::/96"):  # the way to IPv4 of networks that have none
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _public(str(inner))
        if address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast


class _CheckedResolver(AbstractResolver):
    """The system's resolver; an address that may not be used ends the request."""

    def __init__(self, allowed: _Allowed) -> None:
        self._allowed = allowed
        self._system = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._system.resolve(host, port, family)
        for each in found:
            self._allowed.check_address(each["host"])
        return found

    async def close(self) -> None:
        await self._system.close()
