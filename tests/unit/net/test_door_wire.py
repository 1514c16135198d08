from __future__ import annotations

import asyncio

import pytest

from ringleader.errors import NotTrusted
from ringleader.net.door_wire import DOOR_REQUEST_BYTES_MAX, read_message
from ringleader.v1 import join_pb2 as pb


def heard(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader


async def test_a_message_is_read_to_its_length_and_no_further() -> None:
    data = pb.Greeting(version=3, authority=b"pem").SerializeToString()
    reader = heard(len(data).to_bytes(4, "big") + data + b"rest")
    assert (await read_message(reader, pb.Greeting)).version == 3
    assert await reader.read() == b"rest"


async def test_a_message_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(NotTrusted, match="bytes, where"):
        await read_message(
            heard((DOOR_REQUEST_BYTES_MAX + 1).to_bytes(4, "big")), pb.DoorRequest, DOOR_REQUEST_BYTES_MAX
        )


async def test_a_message_that_is_none_or_cut_is_told_apart() -> None:
    with pytest.raises(NotTrusted, match="cannot be read"):
        await read_message(heard((3).to_bytes(4, "big") + b"\xff\xff\xff"), pb.DoorRequest)
    with pytest.raises(asyncio.IncompleteReadError):
        await read_message(heard((3).to_bytes(4, "big") + b"\xff"), pb.DoorRequest)
