"""Chat Completions through the openai SDK: what five of the six backends share, and where each of them differs.

The choice goes out as it was normalised; without tools neither `tools` nor `tool_choice` is sent, since providers
refuse the one without the other.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ringleader.agent.backends.contracts import Piece, Whole
from ringleader.agent.backends.faults import BackendFailed, BackendGarbled
from ringleader.agent.backends.sdk import RETRIES_MAX, TIMEOUT_S, as_text, plain, readable, sdk_faults
from ringleader.agent.choice import normalize_tool_choice
from ringleader.agent.extra import extra
from ringleader.values import Json

if TYPE_CHECKING:
    import openai

OURS = {"reasoning", "is_error"}  # fields of the history that are not Chat Completions'


class ChatCompletions:
    """A provider that speaks Chat Completions, or nearly so; the backends are made of it.

    `credential` and `headers` are in no `repr`. `limit_field` is how the provider spells the bound on an answer's
    tokens; `reasoning_field` where it wants earlier reasoning back, "" for nowhere. `account`: it may know of
    OPENAI_ORG_ID and OPENAI_PROJECT_ID.
    """

    def __init__(
        self,
        name: str,
        model: str,
        base_url: str,
        credential: str,
        *,
        hint: str,
        key_header: str = "Authorization",
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        limit_field: str = "max_tokens",
        reasoning_field: str = "",
        account: bool = False,
        retries_max: int = RETRIES_MAX,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        with extra("openai"):
            import openai
        self._openai = openai
        self._name, self._model, self._url, self._hint = name, model, base_url.rstrip("/"), hint
        self._query, self._limit, self._reasoning = query, limit_field, reasoning_field
        own: dict[str, str | openai.Omit] = {}
        if not account:  # the SDK would send it, where the environment has one, to any address
            own |= {"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()}
        if key_header != "Authorization":
            own |= {"Authorization": openai.Omit(), key_header: credential}
        self._headers = own | dict(headers or {})
        self._client = openai.AsyncOpenAI(
            base_url=self._url, api_key=credential, max_retries=retries_max, timeout=timeout_s
        )

    def __repr__(self) -> str:
        return f"<backend {self._name}: {self._model or 'default model'} at {self._url}>"

    @property
    def name(self) -> str:
        return self._name

    @property
    def model(self) -> str:
        return self._model

    @property
    def supports_tool_choice(self) -> bool:
        return True

    async def close(self) -> None:
        await self._client.close()

    async def complete_chat(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json] = (),
        tool_choice: Json = "auto",
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> dict[str, Json]:
        """As `Backend`."""
        body = await self._body(messages, tools, tool_choice, max_tokens, temperature)
        with self._faults():
            answer = await self._client.chat.completions.create(**body, **self._options())
        with readable(self._who, self._hint):
            return self._whole(answer)

    async def stream_chat(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json] = (),
        tool_choice: Json = "auto",
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> AsyncGenerator[Piece | Whole]:
        """As `Backend`."""
        body = await self._body(messages, tools, tool_choice, max_tokens, temperature)
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        gathered = _Gathered()
        with self._faults():
            async with await self._client.chat.completions.create(**body, **self._options()) as stream:
                async for chunk in stream:
                    with readable(self._who, self._hint):
                        pieces = tuple(gathered.add(plain(chunk)))
                    for piece in pieces:
                        yield piece
        if not gathered.begun:
            raise BackendGarbled(f"{self._who} gave no stream of an answer. {self._hint}")
        if not gathered.finish:
            raise BackendFailed(f"{self._who} broke its answer off in the middle. Try again")
        yield Whole(gathered.completion())

    async def _body(
        self,
        messages: Sequence[Json],
        tools: Sequence[Json],
        tool_choice: Json,
        max_tokens: int | None,
        temperature: float | None,
    ) -> dict[str, Any]:
        choice = normalize_tool_choice(tool_choice, [tool["function"]["name"] for tool in tools])
        body: dict[str, Any] = {
            "model": await self._chosen_model(),
            "messages": [self._spelled(message) for message in messages],
        }
        if tools:
            body |= {"tools": list(tools), "tool_choice": choice}
        if max_tokens is not None:
            body[self._limit] = max_tokens
        if temperature is not None:
            body["temperature"] = temperature
        return body

    async def _chosen_model(self) -> str:
        return self._model

    def _spelled(self, message: Mapping[str, Json]) -> dict[str, Json]:
        """Most providers refuse a field that they do not know."""
        spelled = {field: value for field, value in message.items() if field not in OURS}
        if self._reasoning and message.get("reasoning"):
            spelled[self._reasoning] = message["reasoning"]
        return spelled

    def _options(self) -> dict[str, Any]:
        return {"extra_headers": self._headers} | ({"extra_query": self._query} if self._query else {})

    def _whole(self, answer: object) -> dict[str, Json]:
        found = plain(answer)
        choices = found.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0].get("message"), dict):
            raise BackendGarbled(f"{self._who} gave an answer without choices[0].message. {self._hint}")
        message = choices[0]["message"]
        return {
            "content": message.get("content") or message.get("refusal"),
            "reasoning": message.get("reasoning_content") or message.get("reasoning"),
            "tool_calls": message.get("tool_calls") or [],
            "finish_reason": choices[0].get("finish_reason"),
            "usage": found.get("usage"),
            "model": found.get("model"),
        }

    @property
    def _who(self) -> str:
        return f"{self._name} at {self._url}"

    def _faults(self) -> AbstractContextManager[None]:
        return sdk_faults(self._openai, self._who, self._hint, self._client.api_key)


class _Gathered:
    """A stream's chunks, put together again."""

    def __init__(self) -> None:
        self.finish = ""
        self.begun = False
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._usage: Json = None
        self._model = ""

    def add(self, chunk: dict[str, Any]) -> Iterator[Piece]:
        """Takes a chunk in; gives what of it a person may read."""
        self._usage = chunk.get("usage") or self._usage
        self._model = chunk.get("model") or self._model
        for choice in (chunk.get("choices") or [])[:1]:
            self.begun = True
            self.finish = choice.get("finish_reason") or self.finish
            delta = choice.get("delta") or {}
            if thought := delta.get("reasoning_content") or delta.get("reasoning"):
                self._reasoning.append(as_text(thought))
                yield Piece("reasoning", thought)
            if text := delta.get("content") or delta.get("refusal"):
                self._content.append(as_text(text))
                yield Piece("text", text)
            for part in delta.get("tool_calls") or []:
                self._part(part)

    def _part(self, part: dict[str, Any]) -> None:
        """Some servers leave the index out: an id or a name begins a call, and what has neither goes on with it."""
        function = part.get("function") or {}
        index = part.get("index")
        if index is None:
            index = max(self._calls, default=-1) + (1 if part.get("id") or function.get("name") else 0)
        call = self._calls.setdefault(index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        call["id"] = part.get("id") or call["id"]
        call["function"]["name"] += function.get("name") or ""
        arguments = function.get("arguments") or ""
        whole = isinstance(arguments, Mapping)  # servers that send calls whole may send the object itself
        call["function"]["arguments"] += json.dumps(arguments, ensure_ascii=False) if whole else arguments

    def completion(self) -> dict[str, Json]:
        """The canonical dict of what came."""
        return {
            "content": "".join(self._content) or None,
            "reasoning": "".join(self._reasoning) or None,
            "tool_calls": [self._calls[index] for index in sorted(self._calls)],
            "finish_reason": self.finish,
            "usage": self._usage,
            "model": self._model,
        }
