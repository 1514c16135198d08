"""Invitations: what a token says, and the founder's list of those that are open.

A token holds a secret; the list holds only its hash, until when it is good and for how many nodes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ringleader.errors import BadRequest, NotTrusted
from ringleader.trust.authority import fingerprint, load_authority
from ringleader.trust.credentials import ID_BYTES, Credentials, load
from ringleader.trust.private_files import locked, read_json, write_json

INVITATIONS_FILE = "invitations.json"
PREFIX = "rl1-"
SECRET_BYTES = 16
FINGERPRINT_BYTES = 32
CHECK_BYTES = 3  # of a token: tells a mistyped or cut one from a wrong one
ADDRESSES_MAX = 6
TTL_DEFAULT_S = 600.0
TTL_MAX_S = 7 * 86_400.0
USES_MAX = 100
OPEN_MAX = 1000  # invitations in the list, past ones among them
KEPT_S = 86_400.0  # how long a past one is kept, to say why it is refused
TOKEN_CHARACTERS_MAX = 2000
NONCE_BYTES = 16
HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NAME_OFFSET = 64  # in a token, before a host's name
FOREIGN = "the invitation is of another version of ringleader: update the older of the two"


@dataclass(frozen=True, slots=True)
class Invitation:
    """A token's content. `addresses` (host:port) are where the join door may be reached, likeliest first."""

    addresses: tuple[str, ...]
    cluster: str
    fingerprint: bytes
    secret: bytes = field(repr=False)

    def __str__(self) -> str:
        """The token."""
        body = bytes.fromhex(self.cluster) + self.fingerprint + self.secret
        for host, port in map(_split, self.addresses):
            body += _packed(host) + port.to_bytes(2, "big")
        checked = hashlib.sha256(body).digest()[:CHECK_BYTES] + body
        return PREFIX + base64.b32encode(checked).decode().rstrip("=").lower()


def read_token(token: str) -> Invitation:
    """The invitation in a token. Raises BadRequest when it is none, or not whole."""
    text = "".join(token.split()).lower()
    if not text.startswith(PREFIX) or len(text) > TOKEN_CHARACTERS_MAX:
        raise BadRequest(f"this is no invitation: one begins with {PREFIX} (ringleader cluster invite prints it)")
    text = text.removeprefix(PREFIX).upper()
    try:
        checked = base64.b32decode(text + "=" * (-len(text) % 8))
    except (binascii.Error, ValueError) as error:
        raise BadRequest("the invitation has letters that none has: copy it again, whole") from error
    check, body = checked[:CHECK_BYTES], checked[CHECK_BYTES:]
    if hashlib.sha256(body).digest()[:CHECK_BYTES] != check:
        raise BadRequest("the invitation is not whole: copy it again, from its first letter to its last")
    cluster, body = body[:ID_BYTES], body[ID_BYTES:]
    mark, body = body[:FINGERPRINT_BYTES], body[FINGERPRINT_BYTES:]
    secret, body = body[:SECRET_BYTES], body[SECRET_BYTES:]
    addresses = _unpacked(body)
    if len(secret) != SECRET_BYTES or not 0 < len(addresses) <= ADDRESSES_MAX:
        raise BadRequest(FOREIGN)
    return Invitation(addresses, cluster.hex(), mark, secret)


def invite(directory: Path, addresses: tuple[str, ...], ttl_s: float, uses: int, now: float) -> Invitation:
    """Open an invitation on the founder. `now` is Unix time; `addresses` are host:port of its join door.

    Raises NotTrusted on another node than the founder, BadRequest for a ttl or a number of uses out of bounds.
    """
    if not 0 < ttl_s <= TTL_MAX_S:
        raise BadRequest(f"--ttl must be at most {TTL_MAX_S / 86_400:.0f} days", param="ttl")
    if not 1 <= uses <= USES_MAX:
        raise BadRequest(f"--uses must be 1 to {USES_MAX}", param="uses")
    if not addresses:
        raise BadRequest("no address is known at which other machines reach this one: say --address host:port")
    load_authority(directory)  # only who holds the key may invite
    credentials = load(directory)
    assert credentials is not None
    secret = secrets.token_bytes(SECRET_BYTES)
    with locked(directory):
        listed = _read(directory, now)
        if len(listed) >= OPEN_MAX:
            raise NotTrusted("too many invitations are open; ringleader cluster rotate ends them all")
        listed[_hashed(secret)] = {"until": now + ttl_s, "uses": uses, "nonces": []}
        _write(directory, listed)
    return Invitation(addresses[:ADDRESSES_MAX], credentials.cluster, fingerprint(credentials.authority), secret)


def redeem(directory: Path, secret: bytes, nonce: bytes, now: float) -> None:
    """Take one use of an invitation; what is taken is taken, across processes and whatever happens next.

    Raises NotTrusted when it is unknown, past, used up, or when the nonce was seen before.
    """
    if len(nonce) != NONCE_BYTES:
        raise NotTrusted("the request has no proper nonce")
    with locked(directory):
        listed = _read(directory, now)
        found = listed.get(_hashed(secret))
        if found is None:
            raise NotTrusted("this invitation is not known here, or was withdrawn: ask for a new one")
        if nonce.hex() in found["nonces"]:
            raise NotTrusted("this very request was made before")
        if now >= found["until"]:
            raise NotTrusted("this invitation has expired: ask for a new one (ringleader cluster invite)")
        if len(found["nonces"]) >= found["uses"]:
            raise NotTrusted("this invitation was used already: ask for a new one (ringleader cluster invite)")
        found["nonces"].append(nonce.hex())
        _write(directory, listed)


def withdraw_all(directory: Path, now: float) -> int:
    """End every invitation; how many were still good."""
    with locked(directory):
        listed = _read(directory, now)
        _write(directory, {})
    return sum(now < each["until"] and len(each["nonces"]) < each["uses"] for each in listed.values())


def same_cluster(credentials: Credentials, invitation: Invitation) -> bool:
    """Whether the invitation is to the cluster that these credentials are of."""
    return (credentials.cluster, fingerprint(credentials.authority)) == (invitation.cluster, invitation.fingerprint)


def parse_ttl(text: str) -> float:
    """`90s`, `10m`, `2h`, `1d` in seconds. Raises BadRequest."""
    found = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if found is None:
        raise BadRequest(f"--ttl {text!r}: write a number and s, m, h or d, as in 10m", param="ttl")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[found[2]]


def check_address(address: str) -> None:
    """Raises BadRequest unless the address is host:port."""
    _split(address)


def _hashed(secret: bytes) -> str:
    """The secret is 128 random bits: a plain hash of it cannot be turned round."""
    return hashlib.sha256(secret).hexdigest()


def _read(directory: Path, now: float) -> dict[str, Any]:
    listed = read_json(directory / INVITATIONS_FILE) or {}
    try:
        return {key: each for key, each in listed.items() if now < float(each["until"]) + KEPT_S}
    except (KeyError, TypeError, ValueError) as error:
        raise NotTrusted(f"{directory / INVITATIONS_FILE} is damaged: delete it and invite anew") from error


def _write(directory: Path, listed: dict[str, Any]) -> None:
    write_json(directory / INVITATIONS_FILE, listed)


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise BadRequest(f"{address!r} is no address: write host:port", param="address")
    return host.strip("[]"), int(port)


def _packed(host: str) -> bytes:
    """One byte that says what follows: 4 or 16 bytes of address, or a name with NAME_OFFSET added to its length."""
    try:
        address = ipaddress.ip_address(host).packed
    except ValueError:
        if not HOST_NAME.fullmatch(host):
            raise BadRequest(f"{host!r} is no host name or address", param="address") from None
        return bytes([NAME_OFFSET + len(host)]) + host.encode("ascii")
    return bytes([len(address)]) + address


def _unpacked(body: bytes) -> tuple[str, ...]:
    addresses = []
    while body:
        size = body[0] if body[0] < NAME_OFFSET else body[0] - NAME_OFFSET
        host, port, rest = body[1 : 1 + size], body[1 + size : 3 + size], body[3 + size :]
        try:
            text = host.decode("ascii") if body[0] > NAME_OFFSET else str(ipaddress.ip_address(host))
        except ValueError as error:
            raise BadRequest(FOREIGN) from error
        if len(port) != 2:
            raise BadRequest(FOREIGN)
        port_number = int.from_bytes(port, "big")
        addresses.append(f"[{text}]:{port_number}" if ":" in text else f"{text}:{port_number}")
        body = rest
    return tuple(addresses)
