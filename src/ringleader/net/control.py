"""The control port: where other nodes speak to this one, and hand it requests. Whoever is no member is not heard."""

from __future__ import annotations

from ringleader.errors import NodeUnreachable
from ringleader.net.addresses import join
from ringleader.net.mesh import Mesh
from ringleader.net.relay import RelayService
from ringleader.trust.channels import GuardedServer
from ringleader.trust.credentials import Credentials
from ringleader.trust.refusals import Refusals
from ringleader.v1 import control_pb2_grpc as rpc
from ringleader.wire import RELAY_MESSAGE_BYTES_MAX, channel_options

GRACE_S = 0.2


class ControlPort:
    """Serves the mesh and the relay of one node."""

    def __init__(self, mesh: Mesh, relay: RelayService, credentials: Credentials | None, refusals: Refusals) -> None:
        self._guarded = GuardedServer(channel_options(RELAY_MESSAGE_BYTES_MAX), credentials, refusals)
        rpc.add_MeshServicer_to_server(mesh, self._guarded.server)
        rpc.add_RelayServicer_to_server(relay, self._guarded.server)

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port. Raises NodeUnreachable when the address is taken."""
        address = join(host, port)
        try:
            bound = self._guarded.listen(address)
        except RuntimeError as error:
            raise NodeUnreachable(
                f"the control port {address} is taken: does a node run here already? (--port)"
            ) from error
        await self._guarded.server.start()
        return bound

    async def close(self) -> None:
        """Stop listening; calls under way are ended."""
        await self._guarded.server.stop(GRACE_S)
