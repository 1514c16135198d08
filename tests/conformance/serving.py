"""The real API and the real desk over a ring that is made up: what a client sees, without processes or weights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai

from ringleader.api.app import ApiServer, make_app, serve
from ringleader.api.contracts import ModelCard
from ringleader.cluster.messages import Event, PlanWish, RequestArrived, RequestCancelled
from ringleader.errors import RingLost
from ringleader.language.prompt import Voice
from ringleader.net.ring import Tokens
from ringleader.node.answer import Desk
from ringleader.node.shelf import Entry
from ringleader.values import Answer, ChatRequest, Json, ModelId, RequestId, SlotSpec
from tests.conformance.adversary import tail
from tests.conformance.tastes import Logits, noise
from tests.unit.cluster.builders import model
from tests.unit.node.alone import ingress

MODEL = ModelId("tiny")
Mind = Callable[[SlotSpec], Logits]  # what the model is like that gets this request


@dataclass
class MadeUpNode:
    """Answerer, shelf and view in one: `desk` over a ring whose model has the `mind`."""

    voice: Voice
    mind: Mind
    specs: list[SlotSpec] = field(default_factory=list)
    prompts: list[tuple[int, ...]] = field(default_factory=list)
    running: dict[RequestId, asyncio.Task[None]] = field(default_factory=dict)
    cancelled: asyncio.Queue[RequestId] = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        self._entry = Entry(MODEL, "tiny", Path("tiny"), model(), self.voice)
        self.desk = Desk(self, self._tell, PlanWish(context_tokens=300))  # type: ignore[arg-type]  # a shelf of one
        self.ingress = ingress(self.desk)

    async def entry(self, name: ModelId) -> Entry:
        return self._entry

    def known(self, name: ModelId) -> Entry:
        return self._entry

    async def answer(self, request: ChatRequest) -> Answer:
        return await self.ingress.answer(request)

    def token_bytes(self, name: ModelId, token: int) -> bytes:
        return self.desk.token_bytes(name, token)

    async def cards(self) -> list[ModelCard]:
        return [ModelCard(MODEL, 1, loaded=True)]

    async def cluster(self) -> dict[str, Json]:
        return {"name": "home", "nodes": [], "rings": []}

    def health(self) -> dict[str, Json]:
        return {"status": "ok"}

    def _tell(self, event: Event) -> None:
        """The cluster: places every request at once, and stops what is cancelled."""
        if isinstance(event, RequestArrived):
            asyncio.get_running_loop().call_soon(self.desk.dispatch, event.request, self)
        elif isinstance(event, RequestCancelled) and event.request in self.running:
            self.running.pop(event.request).cancel()
            self.cancelled.put_nowait(event.request)

    whole = None  # no plan: there is memory for all

    def submit(self, request: RequestId, prompt: tuple[int, ...], spec: SlotSpec, priority: int = 0) -> None:
        """The ring's part: each pass is told as the head would."""
        self.specs.append(spec)
        self.prompts.append(prompt)
        self.running[request] = asyncio.create_task(self._generate(request, prompt, spec))

    async def _generate(self, request: RequestId, prompt: tuple[int, ...], spec: SlotSpec) -> None:
        logits = self.mind(spec)
        try:
            for passes, picked in enumerate(tail(self.voice.tokenizer, prompt, spec, logits), 1):
                await asyncio.sleep(0)  # others' passes come between
                news = Tokens(picked.tokens, picked.logprobs, picked.finish, picked.error, passes, len(prompt), 0)
                self.desk.tokens(request, news)
        except AssertionError as error:
            self.desk.fail(request, RingLost(str(error)))
        self.running.pop(request, None)


@asynccontextmanager
async def served(node: MadeUpNode) -> AsyncIterator[ApiServer]:
    """The API over `node` on a free loopback port; leaves no task behind."""
    server = await serve(make_app(node, node, node), port=0, shutdown_s=0.05)
    try:
        yield server
    finally:
        await server.close()
        for task in list(node.running.values()):
            task.cancel()
        await asyncio.gather(*node.running.values(), return_exceptions=True)


@asynccontextmanager
async def client_of(node: MadeUpNode) -> AsyncIterator[openai.AsyncOpenAI]:
    """OpenAI's SDK, talking to `node`."""
    async with served(node) as server:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0, timeout=30) as client:
            yield client


def random_mind(voice: Voice) -> Mind:
    """Random weights: what a request gets is a function of its seed."""
    return lambda spec: noise(voice.tokenizer, spec.sampling.seed)


def asked(**fields: Any) -> dict[str, Any]:
    """A request's body. Asks not to call."""
    words = "Reply with the single word OK. Do not call any tools."
    return {"model": MODEL, "messages": [{"role": "user", "content": words}], "max_tokens": 400, "seed": 1, **fields}


def function(name: str, parameters: Json = None, **more: Json) -> Json:
    """A tool as the wire has it."""
    described = {"name": name, **({} if parameters is None else {"parameters": parameters}), **more}
    return {"type": "function", "function": described}


def named(name: str) -> Json:
    """The choice of one function."""
    return {"type": "function", "function": {"name": name}}


def allowed(mode: str, *names: str) -> Json:
    """The choice among some functions."""
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named(name) for name in names]}}


WEATHER = function(
    "get_weather",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
            "unit": {"type": "string", "enum": ["c", "f"]},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    },
)
NOW = function("now", {"type": "object", "properties": {}})
NOTE = function("note", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
PING = function(
    "ping",
    {"type": "object", "properties": {"value": {"type": "string", "maxLength": 30}}, "required": ["value"]},
    description="Acknowledge. Call this with any value.",
)
SCHEMAS: dict[str, Json] = {
    tool["function"]["name"]: tool["function"]["parameters"] for tool in (WEATHER, NOW, NOTE, PING)
}
