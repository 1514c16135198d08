"""GitHub Models: models of many makers with a GitHub token, also on an organisation's account.

Source: docs.github.com, "REST API endpoints for models inference". GitHub announced this service's end for 30 July
2026; whatever answers in its shape can be named as `url`.
"""

from __future__ import annotations

import os

from ringleader.agent.backends.chat_completions import ChatCompletions
from ringleader.agent.backends.sdk import RETRIES_MAX
from ringleader.agent.backends.settings import address, needed

DEFAULT_HOST = "https://models.github.ai"
API_VERSION = "2022-11-28"


class GitHubModelsBackend(ChatCompletions):
    """`model` is PUBLISHER/NAME (GITHUB_MODELS_MODEL); the token is GITHUB_TOKEN or GH_TOKEN, with `models: read`.

    `organization` (GITHUB_MODELS_ORG) is who pays. `url` (GITHUB_MODELS_URL) is the host, without a path.
    """

    def __init__(
        self,
        model: str = "",
        *,
        url: str | None = None,
        api_key: str | None = None,
        organization: str | None = None,
        retries_max: int = RETRIES_MAX,
    ) -> None:
        host = address(url, DEFAULT_HOST, "GITHUB_MODELS_URL").removesuffix("/inference")
        payer = organization or os.environ.get("GITHUB_MODELS_ORG")
        super().__init__(
            "github_models",
            needed(model, "a model", "--model", "GITHUB_MODELS_MODEL"),
            f"{host}/orgs/{payer}/inference" if payer else f"{host}/inference",
            needed(api_key, "a token", None, "GITHUB_TOKEN", "GH_TOKEN"),
            headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": API_VERSION},
            hint="The token is read from GITHUB_TOKEN and needs the permission models: read. GitHub has announced the "
            "end of this service for 30 July 2026.",
            retries_max=retries_max,
        )
