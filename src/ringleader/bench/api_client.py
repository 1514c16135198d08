"""Child process: reads many streams of the chat API at once with as little work as can be, one order a line.

{"host", "port", "model", "streams", "tokens"} is answered with what came: {"events", "bytes", "ended"}.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
from dataclasses import dataclass
from typing import Any

DEADLINE_S = 120.0
END = b"data: [DONE]"
EVENT = b"\ndata: "
BLOCK = 1 << 16


@dataclass(slots=True)
class Stream:
    """One connection. `tail` is the end of what came: an end mark may come in two pieces."""

    connection: socket.socket
    received: int = 0
    events: int = 0
    tail: bytes = b""
    ended: bool = False

    def take(self, block: bytes) -> bool:
        """Count; True at the end of the answer."""
        self.received += len(block)
        seen = self.tail + block
        self.events += seen.count(EVENT) - self.tail.count(EVENT)
        self.tail = seen[-len(END) :]
        self.ended = END in seen
        return self.ended


def read_streams(order: dict[str, Any]) -> dict[str, int]:
    """Ask for all answers, and read them to their ends. Raises OSError, TimeoutError."""
    body = json.dumps(
        {
            "model": order["model"],
            "messages": [{"role": "user", "content": "Tell me of the harbour."}],
            "max_tokens": order["tokens"],
            "stream": True,
        }
    )
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {order['host']}:{order['port']}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    waiting = selectors.DefaultSelector()
    for _ in range(order["streams"]):
        connection = socket.create_connection((order["host"], order["port"]), DEADLINE_S)
        connection.sendall((head + body).encode())
        waiting.register(connection, selectors.EVENT_READ, Stream(connection))
    done: list[Stream] = []
    while len(done) < order["streams"]:
        ready = waiting.select(DEADLINE_S)
        if not ready:
            raise TimeoutError(f"nothing came for {DEADLINE_S:.0f} s")
        for key, _ in ready:
            stream: Stream = key.data
            block = stream.connection.recv(BLOCK)
            if stream.take(block) or not block:
                waiting.unregister(stream.connection)
                stream.connection.close()
                done.append(stream)
    return {
        "events": sum(stream.events for stream in done),
        "bytes": sum(stream.received for stream in done),
        "ended": sum(stream.ended for stream in done),
    }


def main() -> None:
    """Answer orders until standard input closes."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(read_streams(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
