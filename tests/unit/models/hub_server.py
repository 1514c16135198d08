"""A small model hub on loopback, with the faults of real ones: cut connections, gates, mirrors that know little."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.unit.models.builders import sha256

COMMIT = "c" * 40


@dataclass
class FakeHub:
    """`cuts[file]` lists after how many bytes of an answer the connection breaks, one entry for each request."""

    repository: str
    files: dict[str, bytes]
    cuts: dict[str, list[int]] = field(default_factory=dict)
    sends: dict[str, bytes] = field(default_factory=dict)  # other bytes than those announced
    busy_answers: int = 0  # how many GETs are answered 503
    gated: bool = False
    ranges: bool = True
    names_only: bool = False
    gets: list[tuple[str, str | None]] = field(default_factory=list)  # (file, Range header)
    url: str = ""

    def gets_of(self, file: str) -> list[str | None]:
        """The Range headers of the requests for `file`, in order."""
        return [header for name, header in self.gets if name == file]


@contextmanager
def serving(hub: FakeHub) -> Iterator[FakeHub]:
    """Serve `hub` at `hub.url`."""
    handler = type("Bound", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each small answer takes 40 ms

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == f"/api/models/{self.hub.repository}/revision/main":
            self._answer(200, json.dumps(self._info()).encode(), {"Content-Type": "application/json"})
        elif found := re.fullmatch(rf"/{re.escape(self.hub.repository)}/resolve/{COMMIT}/(.+)", path):
            self._file(found[1])
        else:
            self._answer(401, b"", {"X-Error-Code": "RepoNotFound"})

    def _info(self) -> dict[str, Any]:
        siblings: list[dict[str, Any]] = []
        for name, data in self.hub.files.items():
            entry: dict[str, Any] = {"rfilename": name}
            if not self.hub.names_only:
                entry |= {"size": len(data), "blobId": sha256(data)[:40]}
                if name.endswith(".safetensors"):
                    entry["lfs"] = {"size": len(data), "sha256": sha256(data), "pointerSize": 130}
            siblings.append(entry)
        return {"id": self.hub.repository, "modelId": self.hub.repository, "sha": COMMIT, "siblings": siblings}

    def _file(self, name: str) -> None:
        if self.hub.gated:
            self._answer(401, b"", {"X-Error-Code": "GatedRepo"})
            return
        wanted = self.headers.get("Range")
        if self.command == "GET":
            self.hub.gets.append((name, wanted))
            if self.hub.busy_answers:
                self.hub.busy_answers -= 1
                self._answer(503, b"", {})
                return
        data = self.hub.sends.get(name, self.hub.files[name])
        headers = {"ETag": f'"{sha256(self.hub.files[name])}"', "X-Repo-Commit": COMMIT}
        if wanted and self.hub.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            self._answer(206, data[start:], headers, name)
        else:
            self._answer(200, data, headers, name)

    def _answer(self, status: int, body: bytes, headers: dict[str, str], name: str = "") -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        cuts = self.hub.cuts.get(name)
        if cuts:
            self.wfile.write(body[: cuts.pop(0)])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""
