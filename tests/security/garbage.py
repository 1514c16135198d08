"""What a port scan, and worse, sends to a port: bytes of every protocol but the right one, whole, half and slowly."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

H2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HUGE = 0xFFFFFF


def client_hello(name: str = "localhost") -> bytes:
    """The first words of a real TLS client."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with suppress(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


def h2_frame(size: int, kind: int, body: bytes = b"", stream: int = 0, flags: int = 0) -> bytes:
    """An HTTP/2 frame that claims `size` bytes and brings `body`."""
    return size.to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def h2_messes() -> list[bytes]:
    """Broken HTTP/2, to be sent in the clear or by a member over TLS."""
    settings = h2_frame(0, 4)
    return [
        H2_PREFACE,
        H2_PREFACE + h2_frame(HUGE, 0, bytes(70_000), stream=1),
        H2_PREFACE + settings + h2_frame(HUGE, 1, b"\xff" * 70_000, stream=1, flags=4),
        H2_PREFACE + settings * 3000,
        H2_PREFACE + settings + b"".join(h2_frame(8, 6, bytes(8)) for _ in range(3000)),
        H2_PREFACE + settings + b"".join(h2_frame(4, 3, bytes(4), stream=1) for _ in range(1000)),
        H2_PREFACE + settings + h2_frame(5, 1, b"\x82\x86\x84\xff\xff", stream=1, flags=5),
        H2_PREFACE + random.Random(5).randbytes(20_000),
    ]


def messes() -> list[bytes]:
    """One of each kind; the same every time."""
    chance = random.Random(7)
    hello = client_hello()
    changed = bytearray(hello)
    for _ in range(20):
        changed[chance.randrange(5, len(changed))] ^= 0xFF
    return [
        b"",
        b"\0",
        b"\r\n\r\n",
        *(chance.randbytes(size) for size in (1, 5, 64, 4096, 1 << 20)),
        b"\0" * 100_000,
        b"\xff" * 100_000,
        b"A" * 1_000_000,
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 300_000 + b"\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\n{",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
        b"GET " + b"/" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"\x16\x03\x01\xff\xff" + bytes(1000),
        hello[:1],
        hello[:5],
        hello[: len(hello) // 2],
        hello,
        hello + chance.randbytes(5000),
        hello * 20,
        bytes(changed),
        b"\x16\x03\x03\x00\x04\x0e\x00\x00\x00",
        b"\x15\x03\x03\x00\x02\x02\x28",
        *h2_messes(),
    ]


@asynccontextmanager
async def slow_visitors(port: int, count: int) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Connections that send a real beginning one byte at a time, for as long as the block lasts."""
    beginnings = (client_hello(), b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: y\r\n" * 1000)
    readers = []
    tasks = []

    async def drip(writer: asyncio.StreamWriter, data: bytes) -> None:
        try:
            for index in range(len(data)):
                writer.write(data[index : index + 1])
                await writer.drain()
                await asyncio.sleep(0.05)
        except OSError:
            return
        finally:
            writer.close()

    for number in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        readers.append(reader)
        tasks.append(asyncio.create_task(drip(writer, beginnings[number % 2])))
    try:
        yield readers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
