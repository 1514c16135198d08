"""A visit to the join door: to join with a token, and what a member asks of the founder afterwards.

Before anything is sent, the door has proved to be of the cluster that the token's fingerprint, or our own
authority's certificate, names.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import ssl
from contextlib import suppress
from pathlib import Path

from ringleader.errors import NodeUnreachable, NotTrusted
from ringleader.net.door_wire import (
    DOOR_DEADLINE_S,
    pinned_context,
    read_message,
    server_name,
    unverified_context,
    write_message,
)
from ringleader.trust.authority import certificate_request, fingerprint, key_to_pem, new_key
from ringleader.trust.cluster import is_alone, renew, replace_membership
from ringleader.trust.credentials import Credentials, load, new_id, node_id
from ringleader.trust.invitations import NONCE_BYTES, Invitation, read_token, same_cluster
from ringleader.trust.members import Member, printable
from ringleader.trust.revocations import accept
from ringleader.v1 import join_pb2 as pb
from ringleader.values import NodeId
from ringleader.wire import PROTOCOL_VERSION

CONNECT_DEADLINE_S = 3.0  # for each address of a token


async def join(token: str, directory: Path, name: str) -> Credentials:
    """Join the cluster that invited us; the membership is on the disk when this returns. A member stays one.

    Raises BadRequest when the token is none; NodeUnreachable when the founder does not answer; NotTrusted when who
    answers is not the founder, when it refuses, or when this machine belongs to another cluster with other members.
    """
    invitation = read_token(token)
    membership = load(directory)
    if membership is not None and same_cluster(membership, invitation):
        return membership
    if membership is not None and not is_alone(directory):  # a cluster of one, made by a mere start, is given up
        raise NotTrusted(
            f"this machine belongs to the cluster {membership.name!r} ({membership.cluster}) already: "
            "run ringleader cluster leave first"
        )
    address, authority = await _authority_of(invitation)
    key, node = new_key(), node_id(directory) if membership is None else new_id()
    request = pb.Join(
        node=node,
        name=name,
        secret=invitation.secret,
        nonce=secrets.token_bytes(NONCE_BYTES),
        csr=certificate_request(node, key),
    )
    context = pinned_context(authority)
    reply = await _ask(address, context, invitation.cluster, pb.DoorRequest(version=PROTOCOL_VERSION, join=request))
    credentials = Credentials(
        node=node,
        cluster=invitation.cluster,
        name=printable(reply.name),
        authority=authority,
        certificate=reply.certificate,
        key=key_to_pem(key),
        directory=directory,
        door=(address, *(each for each in invitation.addresses if each != address)),
        peers=tuple(reply.peers),
    )
    replace_membership(credentials)
    accept(credentials, reply.revocations)
    return credentials


async def rotate(credentials: Credentials) -> Credentials:
    """A new key and certificate for this member, from the founder. Raises NodeUnreachable, NotTrusted."""
    key = new_key()
    request = pb.Renew(csr=certificate_request(credentials.node, key))
    reply = await _ask_founder(credentials, pb.DoorRequest(version=PROTOCOL_VERSION, renew=request))
    return renew(credentials, reply.certificate, key_to_pem(key))


async def list_members(credentials: Credentials) -> tuple[Member, ...]:
    """The founder's book of members. Raises NodeUnreachable, NotTrusted."""
    reply = await _ask_founder(credentials, pb.DoorRequest(version=PROTOCOL_VERSION, list=pb.ListMembers()))
    return tuple(Member(NodeId(m.node), printable(m.name), m.since, m.revoked, m.founder) for m in reply.members)


async def say_goodbye(credentials: Credentials) -> None:
    """Tell the founder that this member leaves, so that it is revoked. Raises NodeUnreachable, NotTrusted."""
    await _ask_founder(credentials, pb.DoorRequest(version=PROTOCOL_VERSION, leave=pb.Leave()))


async def _authority_of(invitation: Invitation) -> tuple[str, bytes]:
    """The first address where the inviting cluster's authority is shown, and that certificate; nothing is sent."""
    failures = []
    for address in invitation.addresses:
        try:
            async with asyncio.timeout(CONNECT_DEADLINE_S):
                greeting = await _look(address)
            if not hmac.compare_digest(fingerprint(greeting.authority), invitation.fingerprint):
                raise NotTrusted("another cluster answers there")
        except (NotTrusted, NodeUnreachable, TimeoutError) as error:
            failures.append((error, f"{address}: {error or 'no answer'}"))
            continue
        _check_version(greeting)
        return address, greeting.authority
    said = "; ".join(text for _, text in failures)
    if any(isinstance(error, NotTrusted) for error, _ in failures):
        raise NotTrusted(f"the node that invited us was not found, nothing was sent ({said})")
    raise NodeUnreachable(f"the node that invited us does not answer: is it running? ({said})")


async def _look(address: str) -> pb.Greeting:
    reader, writer = await _connect(address, unverified_context(), None)
    try:
        return await read_message(reader, pb.Greeting)
    except (OSError, asyncio.IncompleteReadError) as error:
        raise NodeUnreachable("it does not speak as a join door does") from error
    finally:
        await _hang_up(writer)


async def _ask_founder(credentials: Credentials, request: pb.DoorRequest) -> pb.DoorReply:
    """Ask at each known address of the door until one answers."""
    if not credentials.door:
        raise NotTrusted("this node made the cluster itself")
    context = pinned_context(credentials.authority, credentials)
    unanswered = []
    for address in credentials.door:
        try:
            return await _ask(address, context, credentials.cluster, request)
        except NodeUnreachable as error:
            unanswered.append(str(error))
    raise NodeUnreachable("the node that made the cluster does not answer: " + "; ".join(unanswered))


async def _ask(address: str, context: ssl.SSLContext, cluster: str, request: pb.DoorRequest) -> pb.DoorReply:
    try:
        async with asyncio.timeout(DOOR_DEADLINE_S):
            reader, writer = await _connect(address, context, server_name(cluster))
            try:
                _check_version(await read_message(reader, pb.Greeting))
                await write_message(writer, request)
                reply = await read_message(reader, pb.DoorReply)
            finally:
                await _hang_up(writer)
    except TimeoutError as error:
        raise NodeUnreachable(f"{address} did not answer within {DOOR_DEADLINE_S:.0f} s") from error
    except (OSError, asyncio.IncompleteReadError) as error:
        raise NodeUnreachable(f"{address} closed the connection") from error
    if reply.refused:
        raise NotTrusted(_printable_reason(reply.refused))
    return reply


async def _connect(
    address: str, context: ssl.SSLContext, name: str | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    try:
        return await asyncio.open_connection(
            host.strip("[]"), int(port), ssl=context, server_hostname=name or "unverified"
        )
    except ssl.SSLCertVerificationError as error:
        raise NotTrusted(f"{address} is not a node of this cluster ({error.verify_message})") from error
    except ssl.SSLError as error:
        raise NodeUnreachable(f"{address} does not speak TLS as a join door does ({error.reason})") from error
    except OSError as error:
        raise NodeUnreachable(f"{address}: {error.strerror or error}") from error


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(1.0):
            await writer.wait_closed()


def _check_version(greeting: pb.Greeting) -> None:
    if greeting.version != PROTOCOL_VERSION:
        raise NotTrusted(
            f"the cluster speaks protocol {greeting.version}, this node {PROTOCOL_VERSION}: update the older one"
        )


def _printable_reason(text: str) -> str:
    """A refusal's reason, fit for a terminal."""
    return "".join(c for c in text if c.isprintable())[:500]
