"""A node that is master for itself: its desk as the API's answerer, with and without an ingress before it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from ringleader.node.answer import Closable, Desk, Opened
from ringleader.node.ingress import Ingress, Source
from ringleader.values import Answer, ChatRequest, Delta, NodeId


@dataclass
class Alone:
    """Always the master; `desk` answers."""

    desk: Source

    async def source(self) -> tuple[NodeId, Source]:
        return NodeId("me"), self.desk


def ingress(desk: Source) -> Ingress:
    """The API's answerer over one desk."""
    return Ingress(Alone(desk))


async def answer_once(desk: Desk, request: ChatRequest) -> Answer:
    """The desk's answer, which ends where its ring is lost."""
    opened = await desk.open(request)
    return Answer(opened.model, Closable(_deltas(opened), opened.parts.cancel), opened.warnings)


async def _deltas(opened: Opened) -> AsyncGenerator[Delta, None]:
    async for part in opened.parts:
        for delta in part.deltas:
            yield delta
