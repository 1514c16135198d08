"""The ring of this machine, or of another one: any Ringleader node's own API."""

from __future__ import annotations

import os

from ringleader.agent.backends.chat_completions import ChatCompletions
from ringleader.agent.backends.sdk import RETRIES_MAX
from ringleader.agent.backends.settings import address
from ringleader.errors import UnknownModel

DEFAULT_URL = "http://127.0.0.1:52415"
NO_KEY = "none"  # a node without a key takes any


class RingBackend(ChatCompletions):
    """A node at `url` (RINGLEADER_URL, or this machine's). `model` "" takes the one that is loaded.

    The key is RINGLEADER_API_KEY, where the node wants one.
    """

    def __init__(
        self, model: str = "", *, url: str | None = None, api_key: str | None = None, retries_max: int = RETRIES_MAX
    ) -> None:
        base = address(url, DEFAULT_URL, "RINGLEADER_URL").removesuffix("/v1")
        super().__init__(
            "ring",
            model,
            f"{base}/v1",
            api_key or os.environ.get("RINGLEADER_API_KEY") or NO_KEY,
            hint="Start a node: ringleader node; another one's address goes into --url or RINGLEADER_URL, "
            "its key into RINGLEADER_API_KEY.",
            reasoning_field="reasoning_content",
            retries_max=retries_max,
        )

    async def _chosen_model(self) -> str:
        """The model; the loaded or only one, once, where none was named.

        Raises:
            UnknownModel: there is none, or several are stored and none is loaded.
        """
        if self._model:
            return self._model
        with self._faults():
            cards = [card.model_dump() for card in (await self._client.models.list()).data]
        loaded = [card["id"] for card in cards if card.get("loaded")]
        found = loaded or [card["id"] for card in cards]
        if not found:
            raise UnknownModel(f"{self._who} has no model. Get one: ringleader models pull")
        if len(found) > 1 and not loaded:
            raise UnknownModel(
                f"several models are stored and none is loaded; say --model, one of: {', '.join(found[:10])}"
            )
        self._model = found[0]
        return self._model
