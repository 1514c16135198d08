"""OpenAI itself, or whatever speaks like it at OPENAI_BASE_URL."""

from __future__ import annotations

from ringleader.agent.backends.chat_completions import ChatCompletions
from ringleader.agent.backends.sdk import RETRIES_MAX
from ringleader.agent.backends.settings import address, needed

DEFAULT_URL = "https://api.openai.com/v1"


class OpenAIBackend(ChatCompletions):
    """The key is OPENAI_API_KEY, the model OPENAI_MODEL, where they are not given."""

    def __init__(
        self,
        model: str = "",
        *,
        url: str | None = None,
        api_key: str | None = None,
        retries_max: int = RETRIES_MAX,
    ) -> None:
        super().__init__(
            "openai",
            needed(model, "a model", "--model", "OPENAI_MODEL"),
            address(url, DEFAULT_URL, "OPENAI_BASE_URL"),
            needed(api_key, "a key", None, "OPENAI_API_KEY"),
            hint="The key is read from OPENAI_API_KEY, the address from OPENAI_BASE_URL.",
            limit_field="max_completion_tokens",  # max_tokens is refused by the models that reason
            account=True,
            retries_max=retries_max,
        )
