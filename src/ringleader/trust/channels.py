"""gRPC servers and channels, by mutual TLS with credentials, in the clear without. The only place that makes them."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio

from ringleader.errors import NotTrusted
from ringleader.trust.credentials import Credentials, member_name, node_name
from ringleader.trust.guard import HANDSHAKE_DEADLINE_S, Guard
from ringleader.trust.refusals import Refusals
from ringleader.trust.revocations import load_list
from ringleader.values import NodeId

CONNECTIONS_MAX = 256  # of one port: a full mesh of 32 nodes needs 62 at most
STREAMS_MAX = 256  # of one connection

Options = list[tuple[str, int]]


def open_channel(
    address: str, options: Options, credentials: Credentials | None, peer: NodeId | None = None
) -> grpc.aio.Channel:
    """A channel to `address`, where `peer` must answer, or any node of the cluster when `peer` is None.

    Whoever else answers there gets nothing. Raises NotTrusted when `peer` is revoked. Without credentials the channel
    is in the clear: loopback only.
    """
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=options)
    if peer is not None and peer in load_list(credentials).nodes:
        raise NotTrusted(f"node {peer} was revoked: it is not dialled")
    name = member_name(credentials.cluster) if peer is None else node_name(credentials.cluster, peer)
    tls = grpc.ssl_channel_credentials(credentials.authority, credentials.key, credentials.certificate)
    named: list[tuple[str, Any]] = [*options, ("grpc.ssl_target_name_override", name)]
    return grpc.aio.secure_channel(address, tls, options=named)


class GuardedServer:
    """A gRPC server that is not started yet: add services to `server`, then `listen`, then start it."""

    def __init__(self, options: Options, credentials: Credentials | None, refusals: Refusals | None = None) -> None:
        self._credentials = credentials
        self._guard = Guard(credentials, refusals) if credentials is not None else None
        limits = [
            ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_DEADLINE_S * 1000)),
            ("grpc.max_allowed_incoming_connections", CONNECTIONS_MAX),
            ("grpc.max_concurrent_streams", STREAMS_MAX),
            ("grpc.so_reuseport", 0),  # or a second node would share a port that is taken, unnoticed
        ]
        guards = [self._guard] if self._guard is not None else []
        self.server: grpc.aio.Server = grpc.aio.server(interceptors=guards, options=[*options, *limits])

    def listen(self, address: str) -> int:
        """Take host:port (port 0 takes a free one); the port. Raises RuntimeError when it is taken."""
        if self._credentials is None or self._guard is None:
            return int(self.server.add_insecure_port(address))
        c, guard, loop = self._credentials, self._guard, asyncio.get_running_loop()
        shown = grpc.ssl_server_certificate_configuration([(c.key, c.certificate)], root_certificates=c.authority)

        def began() -> Any:  # gRPC calls it at each handshake, on a thread of its own; None: certificates as before
            if not loop.is_closed():
                loop.call_soon_threadsafe(guard.handshake_began)
            return None

        tls = grpc.dynamic_ssl_server_credentials(shown, began, require_client_authentication=True)
        port = int(self.server.add_secure_port(address, tls))
        guard.address = f"{address.rpartition(':')[0]}:{port}"
        return port
