"""What the two Azure backends share: the v1 endpoint of a resource, and its two kinds of credentials.

Sources: learn.microsoft.com, "Azure OpenAI API version lifecycle" and "Endpoints for Foundry Models". A key travels in
`api-key`, a Microsoft Entra token in `Authorization: Bearer`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ringleader.agent.backends.settings import needed


@dataclass(frozen=True, slots=True)
class AzureCredential:
    """`header` says how `secret` is sent."""

    header: str
    secret: str = field(repr=False)


def azure_credential(
    api_key: str | None, token: str | None, key_names: tuple[str, ...], token_name: str
) -> AzureCredential:
    """The key or the token that was given, or else the environment's: its token before its key, as Azure's SDK has it.

    Raises:
        BackendDenied: there is neither.
    """
    if api_key:
        return AzureCredential("api-key", api_key)
    if bearer := token or os.environ.get(token_name):
        return AzureCredential("Authorization", bearer)
    return AzureCredential("api-key", needed(None, "a key", None, *key_names, token_name))


def v1_url(endpoint: str) -> str:
    """`https://RESOURCE.openai.azure.com` (or its v1 address) as the base of the v1 API."""
    trimmed = endpoint.rstrip("/").removesuffix("/openai/v1").removesuffix("/openai")
    return f"{trimmed}/openai/v1"
