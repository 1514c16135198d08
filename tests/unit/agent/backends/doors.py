"""The six backends, each at a stub: how it is opened there, and what its requests look like."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ringleader.agent.backends.anthropic import AnthropicBackend
from ringleader.agent.backends.azure_foundry import AzureFoundryBackend
from ringleader.agent.backends.azure_openai import AzureOpenAIBackend
from ringleader.agent.backends.contracts import Backend, Whole
from ringleader.agent.backends.github_models import GitHubModelsBackend
from ringleader.agent.backends.openai import OpenAIBackend
from ringleader.agent.backends.ring import RingBackend
from tests.unit.agent.backends.stub import KEY, Stub, served

OPENERS: dict[str, Any] = {
    "ring": RingBackend,
    "openai": OpenAIBackend,
    "azure_openai": AzureOpenAIBackend,
    "azure_foundry": AzureFoundryBackend,
    "github_models": GitHubModelsBackend,
    "anthropic": AnthropicBackend,
}
# What each is sent to: path, and the header that carries the credential.
DOORS = {
    "ring": ("/v1/chat/completions", "authorization", f"Bearer {KEY}"),
    "openai": ("/v1/chat/completions", "authorization", f"Bearer {KEY}"),
    "azure_openai": ("/openai/v1/chat/completions", "api-key", KEY),
    "azure_foundry": ("/openai/v1/chat/completions", "api-key", KEY),
    "github_models": ("/inference/chat/completions", "authorization", f"Bearer {KEY}"),
    "anthropic": ("/v1/messages", "authorization", f"Bearer {KEY}"),  # as the SDK of today sends it
}
NAMES = list(OPENERS)
LIMITS = {"openai": "max_completion_tokens", "azure_openai": "max_completion_tokens"}


def opened(name: str, url: str, **options: Any) -> Backend:
    """The backend at the stub `url`; without retries unless the test wants them."""
    address = f"{url}/v1" if name == "openai" else url
    backend: Backend = OPENERS[name](
        **{"model": "the-model", "url": address, "api_key": KEY, "retries_max": 0} | options
    )
    return backend


@asynccontextmanager
async def at_stub(name: str, *script: Any, **options: Any) -> AsyncIterator[tuple[Backend, Stub]]:
    async with served(*script) as stub:
        backend = opened(name, stub.url, **options)
        try:
            yield backend, stub
        finally:
            await backend.close()


async def turn(backend: Backend, streamed: bool, *args: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
    """The completion, and the pieces where it was streamed."""
    if not streamed:
        return await backend.complete_chat(*args, **kwargs), []
    pieces = [piece async for piece in backend.stream_chat(*args, **kwargs)]
    assert isinstance(pieces[-1], Whole)
    return pieces[-1].completion, pieces[:-1]
