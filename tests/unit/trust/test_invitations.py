from __future__ import annotations

import itertools
import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ringleader.errors import BadRequest, NotTrusted
from ringleader.trust.authority import fingerprint
from ringleader.trust.credentials import Credentials
from ringleader.trust.invitations import (
    INVITATIONS_FILE,
    KEPT_S,
    Invitation,
    invite,
    parse_ttl,
    read_token,
    redeem,
    same_cluster,
    withdraw_all,
)
from tests.security.clusters import make_cluster

DOOR = ("192.168.1.20:52417", "[fd00::1]:52417", "mac-studio.local:1", "abcd:65535")
nonces = itertools.count()


def nonce() -> bytes:
    return next(nonces).to_bytes(16, "big")


@pytest.fixture
def founder(tmp_path: Path) -> Credentials:
    return make_cluster(tmp_path).founder


def test_a_token_says_all_that_is_needed_and_fits_on_two_lines(founder: Credentials) -> None:
    opened = invite(founder.directory, DOOR, 600, 1, now=0)
    token = str(opened)
    assert read_token(token) == opened
    assert read_token(f" {token[:50].upper()}\n  {token[50:]} ") == opened
    assert opened.addresses == DOOR
    assert opened.fingerprint == fingerprint(founder.authority)
    assert same_cluster(founder, opened)
    assert len(str(Invitation(DOOR[:1], opened.cluster, opened.fingerprint, opened.secret))) < 120
    assert opened.secret.hex() not in repr(opened)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda t: t[:-1],
        lambda t: t[:40],
        lambda t: t[:30] + ("a" if t[30] != "a" else "b") + t[31:],
        lambda t: t + "aaaaaaaa",
        lambda t: t[:20] + "!" + t[21:],
        lambda t: t.removeprefix("rl1-"),
        lambda t: "rl2-" + t[4:],
        lambda t: "rl1-",
        lambda t: "",
        lambda t: t * 100,
        lambda t: "rl1-\N{LATIN SMALL LETTER SHARP S}",
    ],
)
def test_a_token_that_is_mistyped_or_cut_is_told_from_a_wrong_one(founder: Credentials, spoil: object) -> None:
    token = str(invite(founder.directory, DOOR, 600, 1, now=0))
    with pytest.raises(BadRequest, match="invitation"):
        read_token(spoil(token))  # type: ignore[operator]  # a lambda


def test_any_bytes_behind_a_right_checksum_are_refused_or_read(founder: Credentials) -> None:
    import base64
    import hashlib

    for size in range(120):
        body = secrets.token_bytes(size)
        text = base64.b32encode(hashlib.sha256(body).digest()[:3] + body).decode().rstrip("=").lower()
        with_addresses = None
        try:
            with_addresses = read_token(f"rl1-{text}")
        except BadRequest:
            continue
        assert with_addresses.addresses


def test_only_the_hash_of_the_secret_is_kept(founder: Credentials) -> None:
    opened = invite(founder.directory, DOOR, 600, 1, now=0)
    kept = (founder.directory / INVITATIONS_FILE).read_bytes()
    assert opened.secret not in kept
    assert opened.secret.hex().encode() not in kept


def test_an_invitation_is_good_for_so_many_uses_and_so_long(founder: Credentials) -> None:
    d = founder.directory
    twice = invite(d, DOOR, 600, 2, now=1000)
    redeem(d, twice.secret, nonce(), now=1001)
    redeem(d, twice.secret, nonce(), now=1599)
    with pytest.raises(NotTrusted, match="used already"):
        redeem(d, twice.secret, nonce(), now=1599)
    late = invite(d, DOOR, 600, 2, now=1000)
    with pytest.raises(NotTrusted, match="expired"):
        redeem(d, late.secret, nonce(), now=1600)
    with pytest.raises(NotTrusted, match="not known"):
        redeem(d, late.secret, nonce(), now=1600 + KEPT_S)
    with pytest.raises(NotTrusted, match="not known"):
        redeem(d, secrets.token_bytes(16), nonce(), now=1000)


def test_a_request_that_is_made_twice_is_refused_though_uses_are_left(founder: Credentials) -> None:
    opened = invite(founder.directory, DOOR, 600, 5, now=0)
    same = nonce()
    redeem(founder.directory, opened.secret, same, now=1)
    with pytest.raises(NotTrusted, match="made before"):
        redeem(founder.directory, opened.secret, same, now=1)
    with pytest.raises(NotTrusted, match="nonce"):
        redeem(founder.directory, opened.secret, b"", now=1)


def test_of_many_who_use_one_invitation_at_once_one_gets_in(founder: Credentials) -> None:
    opened = invite(founder.directory, DOOR, 600, 1, now=0)

    def attempt(number: int) -> bool:
        try:
            redeem(founder.directory, opened.secret, number.to_bytes(16, "big"), now=1)
        except NotTrusted:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(attempt, range(16))) == 1


def test_withdrawn_invitations_are_worth_nothing(founder: Credentials) -> None:
    opened = invite(founder.directory, DOOR, 600, 1, now=0)
    invite(founder.directory, DOOR, 10, 1, now=0)
    assert withdraw_all(founder.directory, now=20) == 1
    with pytest.raises(NotTrusted, match="withdrawn"):
        redeem(founder.directory, opened.secret, nonce(), now=21)


def test_only_the_founder_invites_and_only_within_bounds(tmp_path: Path) -> None:
    cluster = make_cluster(tmp_path)
    with pytest.raises(NotTrusted, match="only the node that made the cluster"):
        invite(cluster.member("b").directory, DOOR, 600, 1, now=0)
    for ttl_s, uses, door in ((0, 1, DOOR), (1e9, 1, DOOR), (60, 0, DOOR), (60, 1000, DOOR), (60, 1, ())):
        with pytest.raises(BadRequest):
            invite(cluster.founder.directory, door, ttl_s, uses, now=0)
    for address in ("nowhere", "host:0", "host:99999", ":1", "bad host:1"):
        with pytest.raises(BadRequest):
            str(invite(cluster.founder.directory, (address,), 60, 1, now=0))


def test_lifetimes_are_written_with_a_unit() -> None:
    assert [parse_ttl(text) for text in ("90s", "10m", "2h", "1d")] == [90, 600, 7200, 86_400]
    for text in ("", "10", "m", "1.5h", "-1m"):
        with pytest.raises(BadRequest, match="--ttl"):
            parse_ttl(text)
