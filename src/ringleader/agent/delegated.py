"""A caller's own provider, which executes steps in place of a backend: AGENTIC_EK_PROVIDER=package.module:callable.

It is given the canonical request, a dict of `complete_chat`'s arguments, and gives the canonical dict of a completion
back. It may run whole loops of its own: calls in an answer whose `finish_reason` is "tool_calls" are for us to run, any
others are only told of.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from ringleader.agent.backends.contracts import Piece, Whole
from ringleader.agent.backends.faults import BackendFailed, BackendGarbled, shortened
from ringleader.agent.threads import in_thread
from ringleader.errors import BadRequest, RingleaderError
from ringleader.values import Json

VARIABLE = "AGENTIC_EK_PROVIDER"

Provider = Callable[[dict[str, Json]], Any]  # gives the canonical dict, or an awaitable of it

log = logging.getLogger(__name__)


class DelegatedBackend:
    """`provider` as a backend. Unless it declares `supports_tool_choice = True` it is told of no choice."""

    def __init__(self, provider: Provider, name: str) -> None:
        self._provider, self._name = provider, name
        self._supports = getattr(provider, "supports_tool_choice", False) is True

    def __repr__(self) -> str:
        return f"<provider {self._name}>"

    @property
    def name(self) -> str:
        return self._name

    @property
    def model(self) -> str:
        return ""

    @property
    def supports_tool_choice(self) -> bool:
        return self._supports

    async def close(self) -> None:
        """Nothing of it is ours."""

    async def complete_chat(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json] = (),
        tool_choice: Json = "auto",
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> dict[str, Json]:
        """As `Backend`; a plain function runs in a thread."""
        request: dict[str, Json] = {"messages": list(messages), "tools": list(tools)}
        if self._supports:
            request["tool_choice"] = tool_choice
        optional = {"max_tokens": max_tokens, "temperature": temperature}
        request |= {name: value for name, value in optional.items() if value is not None}
        answer = await self._provided(request)
        if not isinstance(answer, Mapping):
            kind = type(answer).__name__
            raise BackendGarbled(f"{VARIABLE}: {self._name} gave {kind}, not the dict of a completion")
        told = dict(answer)
        if told.get("finish_reason") != "tool_calls":
            told |= {"tool_calls": [], "calls_made": told.get("tool_calls") or []}
        return told

    async def stream_chat(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json] = (),
        tool_choice: Json = "auto",
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[Piece | Whole]:
        """The answer in one piece: a provider has no other."""
        whole = await self.complete_chat(messages, tools, tool_choice, max_tokens=max_tokens, temperature=temperature)
        if isinstance(whole.get("content"), str):
            yield Piece("text", whole["content"])
        yield Whole(whole)

    async def _provided(self, request: dict[str, Json]) -> Json:
        try:
            if inspect.iscoroutinefunction(self._provider) or inspect.iscoroutinefunction(
                getattr(self._provider, "__call__", None)  # noqa: B004 - an object's, to see whether it is a coroutine
            ):
                return await self._provider(request)
            answer = await in_thread(functools.partial(self._provider, request), {})
            return await answer if inspect.isawaitable(answer) else answer
        except RingleaderError:
            raise
        except (Exception, SystemExit) as error:  # sys.exit in it ends the turn, not the agent
            log.warning("%s: %s failed", VARIABLE, self._name, exc_info=error)
            raise BackendFailed(
                f"{VARIABLE}: {self._name} failed: {shortened(f'{type(error).__name__}: {error}')}"
            ) from error


def provider_of_environment() -> DelegatedBackend | None:
    """The provider that AGENTIC_EK_PROVIDER names; None where it is not set.

    Raises:
        BadRequest: it cannot be imported, or is nothing that can be called.
    """
    named = os.environ.get(VARIABLE, "").strip()
    return DelegatedBackend(load_provider(named), named) if named else None


def load_provider(named: str) -> Provider:
    """What stands at `package.module:callable`; a class is made an object of, without arguments.

    Raises:
        BadRequest: as `provider_of_environment`.
    """
    module_name, colon, path = named.partition(":")
    if not colon or not module_name or not path:
        raise BadRequest(f"{VARIABLE} is {named!r}; write package.module:callable", param=VARIABLE)
    try:
        found: Any = importlib.import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name)
        provider = found() if inspect.isclass(found) else found
    except (Exception, SystemExit) as error:  # foreign code, that may do anything when it is imported
        what = str(error) if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: {error}"
        message = f"{VARIABLE} is {named!r}, which cannot be imported: {shortened(what)}"
        raise BadRequest(message, param=VARIABLE) from error
    if not callable(provider):
        raise BadRequest(
            f"{VARIABLE} is {named!r}, which is {type(provider).__name__} and cannot be called", param=VARIABLE
        )
    return provider  # type: ignore[no-any-return]  # callable() says no more
