"""A mixed load over HTTP, drawn from a seed: streams and not, tools, forms, long prompts, callers that leave."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp

Json = Any

TEXT = "the old clock on the harbour wall had stopped again and nobody but the woman with the brass key cared"
TOOL = {
    "type": "function",
    "function": {
        "name": "set_clock",
        "parameters": {
            "type": "object",
            "properties": {
                "hour": {"type": "integer", "minimum": 0, "maximum": 23},
                "tower": {"enum": ["north", "south"]},
            },
            "required": ["hour", "tower"],
            "additionalProperties": False,
        },
    },
}
FORM = {"type": "json_schema", "json_schema": {"name": "time", "schema": TOOL["function"]["parameters"]}}  # type: ignore[index]  # it is JSON
REFUSED = {429, 503}  # a node may be full or loading: it says when to come again
ANSWER_DEADLINE_S = 240.0


class Wrong(Exception):
    """An answer that no caller should get."""


@dataclass(slots=True)
class Load:
    """Callers that ask one thing after another until told to stop. `counts` says what came."""

    api: str
    model: str
    seed: int
    long_words: int
    max_tokens: int = 40
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    async def call(self, session: aiohttp.ClientSession, number: int, stop: asyncio.Event) -> None:
        """One caller's life."""
        chance = random.Random(self.seed * 1000 + number)
        while not stop.is_set():
            body, kind = self._drawn(chance)
            try:
                async with asyncio.timeout(ANSWER_DEADLINE_S):
                    await self._ask(session, chance, body, kind)
            except (Wrong, TimeoutError, aiohttp.ClientError, ValueError, KeyError) as error:
                self.wrong.append(f"{kind}: {error!r} of {json.dumps(body)[:300]}")
            await asyncio.sleep(chance.uniform(0, 0.2))

    def _drawn(self, chance: random.Random) -> tuple[Json, str]:
        words = chance.choices(TEXT.split(), k=chance.choice((4, 12, 40, self.long_words)))
        body: Json = {
            "model": self.model,
            "messages": [{"role": "user", "content": " ".join(words)}],
            "max_tokens": chance.randint(2, self.max_tokens),
            "temperature": chance.choice((0, 0.8)),
            "seed": chance.randrange(1 << 30),
            "stream": chance.random() < 0.6,
        }
        kind = chance.choice(("text", "text", "auto", "forced", "form", "several", "leave", "leave", "wrong"))
        if kind in ("auto", "forced"):
            body |= {"tools": [TOOL], "tool_choice": "required" if kind == "forced" else "auto", "max_tokens": 60}
        elif kind == "form":
            body |= {"response_format": FORM, "max_tokens": 60}
        elif kind == "several":
            body |= {"n": 2}
        elif kind == "leave":
            body |= {"max_tokens": 400, "stream": True}
        elif kind == "wrong":
            body |= chance.choice(({"temperature": 9}, {"messages": []}, {"model": "no such model"}, {"n": 0}))
        return body, kind

    async def _ask(self, session: aiohttp.ClientSession, chance: random.Random, body: Json, kind: str) -> None:
        if kind == "leave":
            await self._leave(session, chance, body)
            return
        async with session.post(f"{self.api}/v1/chat/completions", json=body) as answer:
            if answer.status in REFUSED:
                self.counts["refused"] += 1
                return
            if kind == "wrong":
                if answer.status not in (400, 404):
                    raise Wrong(f"status {answer.status} for what is wrong")
                self.counts["wrong on purpose"] += 1
                return
            if answer.status != 200:
                raise Wrong(f"status {answer.status}: {(await answer.text())[:300]}")
            messages = _streamed(await answer.text()) if body["stream"] else _whole(await answer.json())
        if len(messages) != body.get("n", 1):
            raise Wrong(f"{len(messages)} choices")
        for message in messages.values():
            _check(message, kind)
        self.counts[kind] += 1

    async def _leave(self, session: aiohttp.ClientSession, chance: random.Random, body: Json) -> None:
        """Hang up: at once, while it waits, or in the middle of the answer."""
        try:
            async with asyncio.timeout(chance.choice((0.01, 0.1, 0.5, 2.0))):
                async with session.post(f"{self.api}/v1/chat/completions", json=body) as answer:
                    async for _ in answer.content:
                        if chance.random() < 0.1:
                            break
                    answer.close()
        except TimeoutError:
            pass
        self.counts["left"] += 1


def _whole(body: Json) -> dict[int, Json]:
    return {
        choice["index"]: {"finish": choice["finish_reason"], **_parts(choice["message"])} for choice in body["choices"]
    }


def _parts(message: Json) -> Json:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return {"content": message.get("content") or "", "calls": [(call["name"], call["arguments"]) for call in calls]}


def _streamed(text: str) -> dict[int, Json]:
    """The messages that a client puts together. Raises Wrong when the stream has no good end."""
    events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    if not events or events[-1] != "[DONE]":
        raise Wrong(f"a stream that ends with {events[-1:]}")
    found: dict[int, Json] = {}
    for event in events[:-1]:
        for choice in json.loads(event)["choices"]:
            message = found.setdefault(choice["index"], {"content": "", "calls": [], "finish": None})
            message["content"] += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls") or ():
                function = call["function"]
                if "name" in function:
                    message["calls"].append((function["name"], ""))
                name, arguments = message["calls"][call["index"]]
                message["calls"][call["index"]] = (name, arguments + function.get("arguments", ""))
            message["finish"] = choice["finish_reason"] or message["finish"]
    return found


def _check(message: Json, kind: str) -> None:
    if message["finish"] not in ("stop", "length", "tool_calls"):
        raise Wrong(f"finish_reason {message['finish']}")
    if kind == "forced" and [name for name, _ in message["calls"]] == []:
        raise Wrong(f"no call where one was demanded: {message}")
    for name, arguments in message["calls"] if message["finish"] == "tool_calls" else ():
        given = json.loads(arguments)
        if name != "set_clock" or not 0 <= given["hour"] <= 23:
            raise Wrong(f"a call that the schema forbids: {name} {arguments}")
    if kind == "form":
        json.loads(message["content"])
