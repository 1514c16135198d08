from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from ringleader.config import NodeOptions, check_insecure, default_name, parse_layers
from ringleader.errors import BadRequest


@pytest.mark.parametrize("name", ["a", "mac-studio", "Node_1.local", "9", "x" * 63])
def test_names_of_letters_digits_dots_and_dashes_are_taken(name: str) -> None:
    assert NodeOptions(name).name == name


@pytest.mark.parametrize(
    ("options", "param"),
    [
        *(({"name": name}, "name") for name in ("", "-a", "a b", "a/b", "x" * 64, "ü", "a\n")),
        ({"insecure": True, "host": "192.168.1.4"}, "insecure"),
        ({"insecure": True, "join": "rl1-x"}, "join"),
        ({"idle_unload_s": -1.0}, "idle_unload"),
        ({"context": 15}, "context"),
        ({"draft_model": "small", "speculation": False}, "draft_model"),
        ({"api_tls": True, "api_cert": Path("api.pem")}, "api_cert"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        NodeOptions(**{"name": "a", **options})
    assert caught.value.param == param


def test_the_api_may_be_open_with_a_key_and_on_loopback_without() -> None:
    assert NodeOptions("a", api_host="0.0.0.0", api_key="secret").api_key == "secret"
    for host in ("127.0.0.1", "localhost", "::1"):
        assert NodeOptions("a", api_host=host).api_host == host


def test_layers_are_read_with_both_ends_included() -> None:
    assert parse_layers("a=0-14, b=15-29") == (("a", 0, 15), ("b", 15, 30))
    assert parse_layers("mac.local=7") == (("mac.local", 7, 8),)
    assert parse_layers("a=0-1,a=2-3") == (("a", 0, 2), ("a", 2, 4))
    assert parse_layers("") == parse_layers(" , ") == ()


@pytest.mark.parametrize("text", ["a", "a=", "=1-2", "a=1-", "a=-1", "a=1-2-3", "a=x", "a=5-3", "a=0-1;b=2"])
def test_layers_that_cannot_be_read_are_quoted(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_layers(text)
    assert caught.value.param == "layers"
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("Annas-Mac.local", "Annas-Mac"),
        ("büro", "b-ro"),
        ("-x-", "x"),
        ("", "node"),
        ("???", "node"),
        ("h" * 80, "h" * 63),
    ],
)
def test_the_host_s_name_is_made_fit(monkeypatch: pytest.MonkeyPatch, host: str, name: str) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    assert default_name() == name
    assert NodeOptions(default_name()).name == name


def test_insecure_is_for_loopback_only_and_says_so() -> None:
    assert "in the clear" in check_insecure("127.0.0.1", "::1", "[::1]", "localhost", "127.8.9.1")
    for host in ("0.0.0.0", "::", "192.168.1.5", "mac-studio.local", "127.0.0.1.example.org", ""):
        with pytest.raises(BadRequest, match="--insecure is for tests"):
            check_insecure("127.0.0.1", host)


def test_fewer_than_no_responses_cannot_be_kept() -> None:
    assert NodeOptions("a", keep_responses=0).keep_responses == 0
    with pytest.raises(BadRequest, match="--keep-responses"):
        NodeOptions("a", keep_responses=-1)
