from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringleader.net.advert import Advert, read_advert
from ringleader.values import NodeId

MAC = Advert(NodeId("n-12ab"), "Mac Studio", "7f3k", 52415, 52416, version=3)


def wire(advert: Advert) -> dict[bytes, bytes | None]:
    return {key.encode(): value.encode() for key, value in advert.to_txt().items()}


def test_what_is_written_is_read_back() -> None:
    assert read_advert(wire(MAC), MAC.control_port) == MAC
    alone = Advert(NodeId("n"), "", "", 1)
    assert read_advert(wire(alone), 1) == alone


def test_labels_are_readable_valid_and_differ_by_id() -> None:
    other = Advert(NodeId("n-12ac"), "Mac Studio", "7f3k", 52415)
    assert MAC.label().startswith("Mac-Studio-")
    assert MAC.label() != other.label()
    for name in ("", "***", "ü" * 500, "a.b._tcp.local.", "-" * 80):
        label = Advert(NodeId("x"), name, "", 1).label()
        assert len(label) <= 63 and "." not in label


def test_a_long_name_is_cut_between_characters() -> None:
    told = Advert(NodeId("x"), "ü" * 500, "", 1)
    read = read_advert(wire(told), 1)
    assert read is not None and read.name == "ü" * 32


@pytest.mark.parametrize(
    "changed",
    [{b"id": None}, {b"id": b""}, {b"id": b"a b"}, {b"id": b"x" * 65}, {b"id": "ü".encode()}, {b"id": b"\xff"},
     {b"name": b"\x1b[31m"}, {b"name": b"x" * 65}, {b"name": None}, {b"cluster": b"x\n"}, {b"v": b"-1"},
     {b"v": b"9" * 200}, {b"v": b""}, {b"v": "²".encode()}, {b"join": b"70000"}, {b"join": b"0"}],
)  # fmt: skip
def test_what_no_node_of_ours_would_write_is_ignored(changed: dict[bytes, bytes | None]) -> None:
    read = read_advert({**wire(MAC), **changed}, 52415)
    assert read is None


@pytest.mark.parametrize("port", [None, 0, -1, 65536])
def test_an_impossible_port_is_ignored(port: int | None) -> None:
    assert read_advert(wire(MAC), port) is None


def test_a_word_that_we_do_not_know_is_no_harm() -> None:
    assert read_advert({**wire(MAC), b"new": b"\xff" * 200}, 52415) == MAC


@given(
    st.dictionaries(st.sampled_from([b"id", b"name", b"cluster", b"v", b"join"]), st.none() | st.binary(max_size=80))
)
def test_reading_never_raises_and_what_is_read_can_be_written(txt: dict[bytes, bytes | None]) -> None:
    read = read_advert(txt, 7000)
    if read is not None:
        assert read_advert(wire(read), 7000) == read


def test_an_id_that_readers_would_refuse_cannot_be_advertised() -> None:
    with pytest.raises(ValueError, match="ASCII"):
        Advert(NodeId("a b"), "", "", 1)
    with pytest.raises(ValueError, match="port"):
        Advert(NodeId("a"), "", "", 0)
