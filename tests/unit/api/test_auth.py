"""Which headers may come from a stranger's web page."""

from __future__ import annotations

import pytest

from ringleader.api.app import check_exposure
from ringleader.api.auth import FixedKeys, foreign_page
from ringleader.errors import BadRequest

HERE = "127.0.0.1:52415"


@pytest.mark.parametrize(
    "origin", [None, "http://localhost:3000", "http://127.0.0.1", "https://[::1]:8", "http://a.localhost"]
)
def test_programs_and_pages_of_this_machine_may(origin: str | None) -> None:
    assert foreign_page(origin, HERE) is None


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "", "http://localhost.evil.example", "http://127.0.0.1@evil.example", "http://["],
)
def test_pages_of_others_may_not(origin: str) -> None:
    assert foreign_page(origin, HERE) is not None


@pytest.mark.parametrize(
    "host", ["localhost", "[::1]:52415", "192.168.1.9", "host.docker.internal:52415", "LOCALHOST.:1"]
)
def test_hosts_that_no_stranger_can_point_here_may(host: str) -> None:
    assert foreign_page(None, host) is None


@pytest.mark.parametrize("host", ["evil.example:52415", "127.0.0.1.evil.example", "", "a@b"])
def test_a_rebound_name_may_not(host: str) -> None:
    assert foreign_page(None, host) is not None


def test_an_address_beyond_loopback_wants_a_key() -> None:
    assert check_exposure("127.0.0.1", FixedKeys())
    assert check_exposure("::1", FixedKeys())
    assert not check_exposure("0.0.0.0", FixedKeys("key"))
    with pytest.raises(BadRequest, match="ringleader keys create"):
        check_exposure("0.0.0.0", FixedKeys())
