"""Stands before every gRPC service of a node or shard: lets a call through only from a member that is not revoked.

TLS has proved by then that the caller's certificate is the cluster's; who it is stands in the certificate's names.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import grpc.aio

from ringleader.errors import NotTrusted
from ringleader.trust.credentials import Credentials, node_of
from ringleader.trust.refusals import Refusals
from ringleader.trust.revocations import RevokedNodes
from ringleader.values import NodeId

HANDSHAKE_DEADLINE_S = 5.0  # of a connection that says nothing
COUNT_AFTER_S = 2 * HANDSHAKE_DEADLINE_S  # by then a connection has made a call or never will
CONNECTIONS_REMEMBERED = 1024
HANDSHAKES_COUNTED = 10_000

Context = grpc.aio.ServicerContext[Any, Any]
Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # a text: at run time it is no generic class


def caller(context: Context, cluster: str) -> NodeId | None:
    """The node whose certificate the caller of this RPC has shown; None when it is none of this cluster's."""
    names = context.auth_context().get("x509_subject_alternative_name", ())
    return node_of([name.decode("ascii", errors="replace") for name in names], cluster)


class Guard(grpc.aio.ServerInterceptor):
    """An interceptor for one server. Streams end, too, when their caller is revoked while they last."""

    def __init__(self, credentials: Credentials, refusals: Refusals | None = None) -> None:
        self._cluster = credentials.cluster
        self._revoked = RevokedNodes(credentials)
        self._refusals = refusals or Refusals()
        self._connections: OrderedDict[str, None] = OrderedDict()
        self._waiting: deque[float] = deque(maxlen=HANDSHAKES_COUNTED)  # connections that have made no call yet
        self.address = "this port"

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(details)
        if handler is None:  # no such method; gRPC answers that
            return handler
        return self._guarded(handler)

    def refusal(self, node: NodeId | None) -> str:
        """Why this caller is not let in; empty when it is."""
        if node is None:
            return "a caller whose certificate is not this cluster's"
        try:
            return f"node {node}: it was revoked" if node in self._revoked else ""
        except NotTrusted as error:
            return f"node {node}: who is revoked cannot be told ({error})"

    def handshake_began(self) -> None:
        """A connection came in. It must make a call soon; those that come to nothing are told of together."""
        if not self._waiting:
            asyncio.get_running_loop().call_later(COUNT_AFTER_S, self._count)
        self._waiting.append(time.monotonic())

    def _count(self) -> None:
        came_to_nothing, now = 0, time.monotonic()
        while self._waiting and now - self._waiting[0] >= COUNT_AFTER_S:
            self._waiting.popleft()
            came_to_nothing += 1
        if came_to_nothing:
            self._refusals.note(
                f"connections to {self.address} that did not prove to be of this cluster", came_to_nothing
            )
        if self._waiting:
            asyncio.get_running_loop().call_later(COUNT_AFTER_S, self._count)

    async def _admit(self, context: Context) -> NodeId:
        peer = context.peer()
        if peer not in self._connections:
            self._connections[peer] = None
            if self._waiting:
                self._waiting.popleft()  # perhaps another's place in the row; their number is right
            if len(self._connections) > CONNECTIONS_REMEMBERED:
                self._connections.popitem(last=False)
        node = caller(context, self._cluster)
        if (why := self.refusal(node)) or node is None:
            await self._refuse(context, why)
            raise NotTrusted(why)  # not reached: abort raises
        return node

    async def _refuse(self, context: Context, why: str) -> None:
        self._refusals.note(why)
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, f"refused: {why}")

    async def _until_revoked(self, node: NodeId, messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for message in messages:
            if self.refusal(node):
                return  # the answering side ends the call with the reason
            yield message

    def _guarded(self, handler: Handler) -> Handler:
        inner: Any = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream

        async def one(request: Any, context: Context) -> Any:
            node = await self._admit(context)
            answer = await inner(self._until_revoked(node, request) if handler.request_streaming else request, context)
            if why := self.refusal(node):
                await self._refuse(context, why)
            return answer

        async def many(request: Any, context: Context) -> AsyncIterator[Any]:
            node = await self._admit(context)
            given = self._until_revoked(node, request) if handler.request_streaming else request
            async for answer in inner(given, context):
                if why := self.refusal(node):
                    await self._refuse(context, why)
                yield answer
            if why := self.refusal(node):
                await self._refuse(context, why)

        wrap: Any = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }[handler.request_streaming, handler.response_streaming]
        guarded = many if handler.response_streaming else one
        wrapped: Handler = wrap(guarded, handler.request_deserializer, handler.response_serializer)
        return wrapped
