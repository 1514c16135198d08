"""Azure OpenAI: a deployment of a resource, by the v1 API, or by a dated api-version where one is set."""

from __future__ import annotations

import os

from ringleader.agent.backends.azure import azure_credential, v1_url
from ringleader.agent.backends.chat_completions import ChatCompletions
from ringleader.agent.backends.sdk import RETRIES_MAX
from ringleader.agent.backends.settings import address, needed


class AzureOpenAIBackend(ChatCompletions):
    """`model` is the deployment's name (AZURE_OPENAI_DEPLOYMENT), `url` the resource's (AZURE_OPENAI_ENDPOINT).

    The key is AZURE_OPENAI_API_KEY, or a Microsoft Entra token AZURE_OPENAI_AD_TOKEN. `api_version`
    (AZURE_OPENAI_API_VERSION, OPENAI_API_VERSION) takes the older address with the deployment in its path;
    without it the v1 API is used, which wants none.
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
        deployment = needed(model, "a deployment", "--model", "AZURE_OPENAI_DEPLOYMENT")
        endpoint = address(url, "", "AZURE_OPENAI_ENDPOINT")
        credential = azure_credential(api_key, token, ("AZURE_OPENAI_API_KEY",), "AZURE_OPENAI_AD_TOKEN")
        dated = api_version or os.environ.get("AZURE_OPENAI_API_VERSION") or os.environ.get("OPENAI_API_VERSION")
        if dated in ("v1", "preview"):
            dated = None
        super().__init__(
            "azure_openai",
            deployment,
            f"{endpoint.removesuffix('/openai')}/openai/deployments/{deployment}" if dated else v1_url(endpoint),
            credential.secret,
            key_header=credential.header,
            query={"api-version": dated} if dated else None,
            hint="The address is read from AZURE_OPENAI_ENDPOINT, the key from AZURE_OPENAI_API_KEY.",
            limit_field="max_completion_tokens",
            retries_max=retries_max,
        )
