"""`truncation: auto`: a conversation that does not fit the context loses what is oldest of it. Pure."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from ringleader.values import ChatRequest, Message

DROPPED_AT_ONCE = 8  # one in so many of what is left: some forty tries take any conversation to its last turn


def shorter(request: ChatRequest) -> ChatRequest | None:
    """The request without its oldest turns; None when nothing is left that may go.

    What the system says stays, and the user's last message, and the last turn. A result goes with its call.
    """
    system = tuple(message for message in request.messages if message.role == "system")
    turns = _turns([message for message in request.messages if message.role != "system"])
    asking = [n for n, turn in enumerate(turns) if turn[0].role == "user"]
    pinned = {len(turns) - 1, *asking[-1:]}
    loose = [n for n in range(len(turns)) if n not in pinned]
    if not loose:
        return None
    dropped = set(loose[: max(1, len(loose) // DROPPED_AT_ONCE)])
    kept = [turn for n, turn in enumerate(turns) if n not in dropped]
    return replace(request, messages=(*system, *(message for turn in kept for message in turn)))


def _turns(messages: list[Message]) -> list[list[Message]]:
    """Cut before each message that is not a result."""
    cuts = sorted({0, len(messages), *(n for n, message in enumerate(messages) if message.role != "tool")})
    return [messages[start:stop] for start, stop in pairwise(cuts)]
