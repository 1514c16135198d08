"""Azure AI Foundry: any deployed model of a resource, by its v1 API, or by the older `/models` endpoint."""

from __future__ import annotations

import os

from ringleader.agent.backends.azure import azure_credential, v1_url
from ringleader.agent.backends.chat_completions import ChatCompletions
from ringleader.agent.backends.sdk import RETRIES_MAX
from ringleader.agent.backends.settings import address, needed

MODELS_API_VERSION = "2024-05-01-preview"  # the last one of the Model Inference API


class AzureFoundryBackend(ChatCompletions):
    """`model` is the deployment's name (AZURE_AI_MODEL), `url` the resource's (AZURE_AI_ENDPOINT), such as
    `https://RESOURCE.services.ai.azure.com`; one that ends in `/models` speaks the Model Inference API, with
    `api_version` (AZURE_AI_API_VERSION).

    The key is AZURE_AI_API_KEY, or a Microsoft Entra token AZURE_AI_TOKEN.
    """

    def __init__(
        self,
        model: str = "",
        *,
        url: str | None = None,
        api_key: str | None = None,
        token: str | None = None,
        api_version: str | None = None,
        retries_max: int = RETRIES_MAX,
    ) -> None:
        endpoint = address(url, "", "AZURE_AI_ENDPOINT")
        older = endpoint.endswith("/models")
        credential = azure_credential(
            api_key, token, ("AZURE_AI_API_KEY", "AZURE_INFERENCE_CREDENTIAL"), "AZURE_AI_TOKEN"
        )
        version = api_version or os.environ.get("AZURE_AI_API_VERSION") or MODELS_API_VERSION
        super().__init__(
            "azure_foundry",
            needed(model, "a deployment", "--model", "AZURE_AI_MODEL"),
            endpoint if older else v1_url(endpoint),
            credential.secret,
            key_header=credential.header,
            query={"api-version": version} if older else None,
            hint="The address is read from AZURE_AI_ENDPOINT, the key from AZURE_AI_API_KEY.",
            retries_max=retries_max,
        )
