"""Opens a backend by its name. Only the one that is asked for is imported."""

from __future__ import annotations

import difflib
import importlib

from ringleader.agent.backends.contracts import Backend
from ringleader.errors import BadRequest

BACKENDS = {
    "ring": "RingBackend",
    "openai": "OpenAIBackend",
    "azure_openai": "AzureOpenAIBackend",
    "azure_foundry": "AzureFoundryBackend",
    "github_models": "GitHubModelsBackend",
    "anthropic": "AnthropicBackend",
}


def open_backend(name: str, *, model: str | None = None, url: str | None = None) -> Backend:
    """The backend `name` (dashes may stand for underscores); what is not given comes from its environment.

    Raises:
        BadRequest: there is no such backend, or a setting of it is nowhere.
        BackendDenied: its credential is nowhere.
        ExtraMissing: its SDK is not installed.
    """
    known = name.replace("-", "_")
    if known not in BACKENDS:
        near = difflib.get_close_matches(known, BACKENDS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise BadRequest(f"no backend is named {name!r}; there are: {', '.join(BACKENDS)}.{hint}", param="--backend")
    module = importlib.import_module(f"ringleader.agent.backends.{known}")
    backend: Backend = getattr(module, BACKENDS[known])(model or "", url=url)
    return backend
