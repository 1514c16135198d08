"""Made-up tools, turns and backends for tests of the loop and of what drives it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from ringleader.agent.backends.contracts import Piece, Whole
from ringleader.agent.completions import Call, Completion, Tokens
from ringleader.agent.contracts import Registry, ToolFault, tool
from ringleader.agent.steps import Step


@tool(tier=0)
def look(where: str) -> str:
    """Looks somewhere."""
    return f"seen {where}"


@tool(tier=0)
def fail(why: str) -> str:
    """Fails."""
    raise ToolFault(f"could not: {why}")


@tool(tier=0, timeout_s=0.05)
async def hang() -> str:
    """Never comes back."""
    await asyncio.Event().wait()
    return ""


@tool(tier=1, effects=["write"])
def write(text: str) -> str:
    """Writes."""
    return f"wrote {text}"


@tool(tier=1, approval="once")
def ring_bell() -> str:
    """Rings a bell."""
    return "rung"


ALL = (look, fail, hang, write, ring_bell)
REGISTRY = Registry(ALL)


def step(choice: Any = "auto", *, tools: Sequence[str] | None = None, tier: int = 1, **fields: Any) -> Step:
    asked = None if tools is None else tuple(tools)
    return Step("do it", tier=tier, tools=asked, metadata={"tool_choice": choice}, **fields)


def said(text: str = "done", finish: Any = "stop") -> Completion:
    return Completion(text, (), finish, Tokens(10, 5))


def called(*calls: tuple[str, Any], tokens: Tokens | None = Tokens(10, 5), start: int = 0) -> Completion:
    """A turn of these calls, with ids c0, c1, ... from `start` on."""
    made = tuple(
        Call(f"c{n}", name, arguments if isinstance(arguments, str) else json.dumps(arguments))
        for n, (name, arguments) in enumerate(calls, start)
    )
    return Completion("", made, "tool_calls", tokens)


class Scripted:
    """A backend that plays turns, the last one for ever; an exception is raised, an event waited for."""

    def __init__(self, *turns: Any, supports_tool_choice: bool = True) -> None:
        self._turns = list(turns)
        self.asked: list[dict[str, Any]] = []
        self.supports_tool_choice = supports_tool_choice
        self.waiting = asyncio.Event()
        self.cancelled = False

    name = "scripted"
    model = "none"

    async def complete_chat(
        self, messages: Any, tools: Any = (), tool_choice: Any = "auto", **options: Any
    ) -> dict[str, Any]:
        self.asked.append({"messages": list(messages), "tools": list(tools), "tool_choice": tool_choice, **options})
        turn = self._turns.pop(0) if len(self._turns) > 1 else self._turns[0]
        if isinstance(turn, asyncio.Event):
            self.waiting.set()
            try:
                await turn.wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        if isinstance(turn, Exception):
            raise turn
        return turn.as_dict() if isinstance(turn, Completion) else turn

    async def stream_chat(self, *args: Any, **options: Any) -> AsyncGenerator[Piece | Whole]:
        whole = await self.complete_chat(*args, **options)
        for text in str(whole.get("content") or "").split(" "):
            yield Piece("text", text)
        yield Whole(whole)

    async def close(self) -> None:
        pass
