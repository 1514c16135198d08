"""`POST /v1/completions`: text that goes on from a prompt, with no chat template between."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from aiohttp import web

from ringleader.api.body import read_object
from ringleader.api.completions_answer import CompletionFrame, Continuations
from ringleader.api.completions_read import CompletionAsked, CompletionWire, read_completion
from ringleader.api.contracts import Tokenizing
from ringleader.api.ids import new_id
from ringleader.api.openai_chat import FINGERPRINT
from ringleader.api.routes import Route
from ringleader.api.serving import Serving, warning_headers
from ringleader.api.shapes import TextBody
from ringleader.api.sse import EventStream
from ringleader.errors import BadRequest


class Completions:
    """The handler. `tokenizing` is asked for the text of a prompt of ids that is to be echoed."""

    def __init__(self, serving: Serving, tokenizing: Tokenizing | None, clock: Callable[[], float] = time.time) -> None:
        self._serving = serving
        self._tokenizing = tokenizing
        self._clock = clock

    def routes(self) -> list[Route]:
        """Where it is served."""
        about = "Continue a prompt as it is, without a chat template (OpenAI's older API)."
        path, tag = "/v1/completions", "completions"
        return [Route("POST", path, self.handle, tag, about, body=CompletionWire, answer=TextBody, event=TextBody)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one request."""
        asked = read_completion(await read_object(request))
        async with self._serving.accepted(asked.requests) as (answer, feed):
            frame = CompletionFrame(
                id=new_id("cmpl-"),
                created=int(self._clock()),
                model=answer.model,
                fingerprint=FINGERPRINT,
                choices=asked.choices,
                echoed=await self._echoed(asked),
                logprobs=asked.logprobs,
                spell=partial(self._serving.answerer.token_bytes, answer.model),
            )
            told = Continuations(frame, include_usage=asked.include_usage)
            if asked.stream:
                stream = EventStream(request, warning_headers(answer.warnings))
                return await self._serving.stream(stream, feed, told)
            headers = await self._serving.whole(answer, feed, told)
            return web.json_response(told.body(), headers=headers)

    async def _echoed(self, asked: CompletionAsked) -> list[str]:
        if not asked.echo:
            return [""] * len(asked.prompts)
        texts = []
        for prompt in asked.prompts:
            if isinstance(prompt, str):
                texts.append(prompt)
            elif self._tokenizing is None:
                raise BadRequest("'echo' of a prompt of token ids is not supported here: send text.", param="echo")
            else:
                texts.append(await self._tokenizing.join(asked.requests[0].model, prompt))
        return texts
