"""Who may use this node's API, and how it proves itself to them.

The key of the node's start is good, and those that `ringleader keys` keeps, as they are just now.
"""

from __future__ import annotations

import logging
import socket
import ssl
from pathlib import Path

from ringleader.api.contracts import Caller
from ringleader.config import NodeOptions
from ringleader.errors import NotTrusted
from ringleader.node import telemetry
from ringleader.trust.api_keys import KEYS_FILE, ApiKey, digest_of, read
from ringleader.trust.api_tls import cluster_context, file_context

START_CALLER = Caller("the node's own key")

log = logging.getLogger("ringleader.node")


class Doorkeeper:
    """Looks at the file with every request (one `stat`), so that a revoked key is good for nothing at once."""

    def __init__(self, directory: Path, start_key: str | None) -> None:
        self._directory = directory
        self._start_digest = None if start_key is None else digest_of(start_key)
        self._seen: tuple[int, int] | None = None  # the file's inode and time of change
        self._keys: dict[str, ApiKey] = {}
        self._damaged = False

    @property
    def asks(self) -> bool:
        """Whether a caller needs a key. A file that cannot be read keeps everybody out but the key of the start."""
        self._refresh()
        return self._start_digest is not None or bool(self._keys) or self._damaged

    def caller(self, key: str) -> Caller | None:
        """Whose key this is; None when it is nobody's."""
        self._refresh()
        digest = digest_of(key)
        if digest == self._start_digest:  # of digests: what a comparison's time tells of them helps nobody
            return START_CALLER
        found = self._keys.get(digest)
        return None if found is None else Caller(found.name, found.concurrent)

    def _refresh(self) -> None:
        try:
            status = (self._directory / KEYS_FILE).stat()
            seen = (status.st_ino, status.st_mtime_ns)
        except OSError:
            seen = None
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._keys, self._damaged = {each.digest: each for each in read(self._directory)}, False
        except NotTrusted as error:
            self._keys, self._damaged = {}, True
            log.error("API keys cannot be read, so none is good: %s", error)


def api_tls(options: NodeOptions, directory: Path) -> ssl.SSLContext | None:
    """What the API's https is made of; None for http.

    Raises BadRequest and NotTrusted, naming the option.
    """
    if options.api_cert is not None:
        return file_context(options.api_cert)
    if not options.api_tls:
        return None
    name = socket.gethostname()
    names = ["localhost", "127.0.0.1", "::1", name, f"{name.partition('.')[0]}.local"]
    host = options.api_host
    return cluster_context(directory, [*names, *telemetry.addresses("::" if host in ("0.0.0.0", "::") else host)])
