"""The commands' way to a node: HTTP to its API, and errors that say what to do next."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from ringleader.errors import CallerFault, ModelLoading, NodeUnreachable, PeerFault, RingleaderError

DEFAULT_URL = "http://127.0.0.1:52415"
CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 30.0  # a node that holds nothing but numbers answers in milliseconds
SILENCE_TIMEOUT_S = 60.0  # a stream sends a keep-alive every 10 s
LINE_BYTES_MAX = 2**22

EXIT_FAILED, EXIT_USAGE, EXIT_NO_NODE, EXIT_INTERRUPTED = 1, 2, 3, 130


class NodeClient:
    """Speaks to the node at `url`; made by `connect`."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def fetch(self, path: str) -> Any:
        """The JSON that `path` gives.

        Raises:
            NodeUnreachable, PeerFault, CallerFault: as `post`.
        """
        async with self._sent("GET", path, None, aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S)) as response:
            return await _json(response)

    async def post(self, path: str, body: Any) -> Any:
        """The JSON that posting `body` gives, however long it takes: the node bounds the wait.

        Raises:
            NodeUnreachable: nobody answers, or the node went away meanwhile.
            CallerFault, PeerFault: the node said no, in its words; ModelLoading: it says so until it is loaded.
        """
        async with self._sent("POST", path, body, aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S)) as response:
            return await _json(response)

    async def stream(self, path: str, body: Any = None) -> AsyncGenerator[Any, None]:
        """The events that posting `body` gives, until `[DONE]`; without a body those that `path` has.

        Raises:
            NodeUnreachable, CallerFault, PeerFault: as `post`; also from an error in the stream.
        """
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S, sock_read=SILENCE_TIMEOUT_S)
        async with self._sent("GET" if body is None else "POST", path, body, timeout) as response:
            async for line in response.content:
                if not line.startswith(b"data: "):
                    continue
                data = line.removeprefix(b"data: ").strip()
                if data == b"[DONE]":
                    return
                event = _parsed(data, self._url)
                if "error" in event:
                    raise PeerFault(_message(event))
                yield event
        raise NodeUnreachable(f"the node at {self._url} went away in the middle of the answer")

    @asynccontextmanager
    async def _sent(
        self, method: str, path: str, body: Any, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            async with self._session.request(method, self._url + path, json=body, timeout=timeout) as response:
                if response.status >= 400:
                    raise _refusal(
                        response.status, await _json(response), self._url, response.headers.get("Retry-After")
                    )
                yield response
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise CallerFault(f"{self._url} is not an http:// address", param="--url") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise NodeUnreachable(
                f"the server at {self._url} proves itself by nobody whom this machine knows "
                f"({error.certificate_error}); of another cluster's node set SSL_CERT_FILE to what "
                "ringleader cluster authority prints there"
            ) from error
        except aiohttp.ClientConnectorError as error:
            raise NodeUnreachable(f"no node answers at {self._url}. Start one: ringleader node") from error
        except TimeoutError as error:
            raise NodeUnreachable(f"the node at {self._url} does not answer in time") from error
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
            raise NodeUnreachable(f"the node at {self._url} went away before it had answered") from error
        except aiohttp.ClientError as error:
            raise _stranger(self._url) from error


@asynccontextmanager
async def connect(url: str) -> AsyncIterator[NodeClient]:
    """A client of the node at `url`; `RINGLEADER_API_KEY` is sent where it is set."""
    key = os.environ.get("RINGLEADER_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    # A final stream line holds one event; a long call's arguments may make it longer than aiohttp's 64 KiB.
    connector = aiohttp.TCPConnector(ssl=_trusted()) if url.startswith("https:") else None
    async with aiohttp.ClientSession(connector=connector, headers=headers, read_bufsize=LINE_BYTES_MAX) as session:
        yield NodeClient(url.rstrip("/").removesuffix("/v1"), session)


def _trusted() -> ssl.SSLContext:
    """Whom to believe over https: whom the system believes, and the authority of this machine's cluster."""
    from ringleader.trust.credentials import AUTHORITY_FILE, state_directory

    context, authority = ssl.create_default_context(), state_directory() / AUTHORITY_FILE
    if authority.is_file():
        context.load_verify_locations(authority)
    return context


def exit_code(error: RingleaderError) -> int:
    """What the shell gets for `error`."""
    return EXIT_NO_NODE if isinstance(error, NodeUnreachable) else EXIT_FAILED


def run(main: Coroutine[Any, Any, int]) -> int:
    """Run the coroutine `main` to its exit code; says errors on stderr, and takes ^C for an answer."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # a terminal that has no blocks shows question marks, not a traceback
    try:
        return asyncio.run(main)
    except RingleaderError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_code(error)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains once more at exit
        return EXIT_FAILED


async def _json(response: aiohttp.ClientResponse) -> Any:
    return _parsed(await response.read(), f"{response.url} (HTTP {response.status})")


def _parsed(data: bytes, where: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise _stranger(where) from error


def _stranger(where: str) -> PeerFault:
    return PeerFault(f"what answers at {where} is no Ringleader node; see --url or RINGLEADER_URL")


def _message(body: Any) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    return str(error.get("message") if isinstance(error, dict) else error or body)[:2000]


def _code(body: Any) -> str | None:
    error = body.get("error") if isinstance(body, dict) else None
    return error.get("code") if isinstance(error, dict) else None


def _refusal(status: int, body: Any, url: str, retry_after: str | None) -> RingleaderError:
    if status == 401:
        return CallerFault(f"the node at {url} wants a key: set RINGLEADER_API_KEY")
    if status == 503 and _code(body) == ModelLoading.code:
        again_s = float(retry_after) if retry_after and retry_after.isdecimal() else None
        return ModelLoading(_message(body), retry_after_s=again_s)
    return CallerFault(_message(body)) if status < 500 else PeerFault(_message(body))
