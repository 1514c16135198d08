"""How the join door is spoken to: TLS by Python's ssl, then messages of join.proto, each after its length.

It is no gRPC service, because gRPC for Python can only demand client certificates of everybody or of nobody, and
cannot look at a server's certificate before it believes it.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from ringleader.errors import NotTrusted
from ringleader.trust.credentials import PROOF_FILE, Credentials, member_name

DOOR_MESSAGE_BYTES_MAX = 512 << 10  # a reply holds the list of revocations
DOOR_REQUEST_BYTES_MAX = 8 << 10
DOOR_DEADLINE_S = 10.0  # for a whole visit
LENGTH_BYTES = 4

Kind = TypeVar("Kind", bound=Message)


async def read_message(reader: asyncio.StreamReader, kind: type[Kind], bytes_max: int = DOOR_MESSAGE_BYTES_MAX) -> Kind:
    """The next message. Raises NotTrusted when it is too large or none, IncompleteReadError when nothing more comes."""
    size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    if size > bytes_max:
        raise NotTrusted(f"a message of {size} bytes, where {bytes_max} are allowed")
    message = kind()
    try:
        message.ParseFromString(await reader.readexactly(size))
    except DecodeError as error:
        raise NotTrusted("a message that cannot be read") from error
    return message


async def write_message(writer: asyncio.StreamWriter, message: Message) -> None:
    """Send a message. Raises ConnectionError when nobody takes it."""
    data = message.SerializeToString()
    writer.write(len(data).to_bytes(LENGTH_BYTES, "big") + data)
    await writer.drain()


def server_context(credentials: Credentials) -> ssl.SSLContext:
    """For the door: a visitor may come without a certificate; one that shows one must show the cluster's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(credentials.directory / PROOF_FILE)
    context.load_verify_locations(cadata=credentials.authority.decode("ascii"))
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def unverified_context() -> ssl.SSLContext:
    """For a first look at the authority's certificate: believes anybody, so nothing may be sent over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def pinned_context(authority: bytes, credentials: Credentials | None = None) -> ssl.SSLContext:
    """Believes only this authority's members; shows our own certificate where there is one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks certificate and name
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority.decode("ascii"))
    if credentials is not None:
        context.load_cert_chain(credentials.directory / PROOF_FILE)
    return context


def shown_names(writer: asyncio.StreamWriter) -> list[str] | None:
    """The DNS names in the certificate that the other end has shown and TLS has checked; None without one."""
    certificate = writer.get_extra_info("peercert")
    if not certificate:
        return None
    return [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]


def server_name(cluster: str) -> str:
    """What a visitor expects in the door's certificate: a member of the cluster."""
    return member_name(cluster)
