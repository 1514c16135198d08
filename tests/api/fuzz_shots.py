"""What the fuzz sends: good bodies of every door, broken in places, any headers, any path; and clients that leave."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from ringleader.api.unserved import UNSERVED
from tests.api.delta_strategies import answers
from tests.api.fuzz_node import BREAKS, VOICES, Break, Script
from tests.api.scripted import MODEL, body
from tests.unit.api.test_door_fuzz import LEGACY, VALID, VALUES, mutate, places
from tests.unit.api.test_doors_fuzz import CHAT, GENERATE, MESSAGES
from tests.unit.api.test_responses_fuzz import COMPLETION, RESPONSE

SILENT: st.SearchStrategy[Break] = st.just("silent")
STORED = "STORED"  # in a path or a body: the id of a response of this session; in a body null where there is none
SIMPLE: dict[str, Any] = {"model": MODEL, "input": "hi", "previous_response_id": STORED, "stream": True}
TEXT_CHAT = body(stream=True, logprobs=True, top_logprobs=2, n=2, reasoning_effort="high")
TOKENS: dict[str, Any] = {"model": MODEL, "tokens": [97, 98]}
NAMED: dict[str, Any] = {"model": MODEL, "stream": True}
DOORS: Mapping[str, tuple[dict[str, Any], ...]] = {
    "/v1/chat/completions": (VALID, LEGACY, TEXT_CHAT),
    "/v1/responses": (RESPONSE, SIMPLE),
    "/v1/responses/input_tokens": (RESPONSE,),
    "/v1/completions": (COMPLETION,),
    "/v1/messages": (MESSAGES,),
    "/v1/messages/count_tokens": (MESSAGES,),
    "/api/chat": (CHAT, {**CHAT, "think": None}),
    "/api/generate": (GENERATE, {**GENERATE, "raw": True, "system": None}),
    "/api/show": (NAMED,),
    "/api/pull": (NAMED,),
    "/tokenize": ({"model": MODEL, "prompt": "ab"}, body()),
    "/detokenize": (TOKENS,),
}
ASKED = (
    *("/v1/models", f"/v1/models/{MODEL}", f"/v1/responses/{STORED}", f"/v1/responses/{STORED}/input_items"),
    *("/v1/cluster", "/api/tags", "/api/ps", "/api/version", "/health", "/ready", "/metrics", "/openapi.json", "/"),
    *(f"/v1/responses/{STORED}/cancel", f"/v1/responses/{STORED}/input_items?limit=0&order=up&after=x", *UNSERVED),
)
METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH")
PRINTED = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
HEADERS: Mapping[str, st.SearchStrategy[str]] = {
    "Authorization": st.sampled_from(["Bearer key-1", "Bearer key-2", "Bearer", "Basic a2V5LTE6", "bearer  x"])
    | PRINTED,
    "x-api-key": st.sampled_from(["key-1", "wrong", ""]) | PRINTED,
    "anthropic-version": st.just("2023-06-01") | PRINTED,
    "anthropic-beta": PRINTED,
    "Content-Type": st.sampled_from(["application/json", "text/plain", "application/json; charset=latin-1", "x"]),
    "Content-Encoding": st.sampled_from(["gzip", "deflate", "x"]),
    "Origin": st.sampled_from(["http://localhost:3000", "https://example.com", "null", "http://["]),
    "Host": st.sampled_from(["localhost", "evil.example", "[::1]", "x:y:z"]),
    "Accept": PRINTED,
    "Expect": st.just("x"),
    "x-request-id": PRINTED,
    "Idempotency-Key": PRINTED,
}


@dataclass(frozen=True)
class Shot:
    """One request. `leaves` after so many bytes of the answer, or stays to its end."""

    method: str
    path: str
    raw: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    leaves: int | None = None


@dataclass(frozen=True)
class Session:
    """Requests to one server whose node plays one script."""

    script: Script
    shots: tuple[Shot, ...]
    keys: bool


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """Mostly whole answers; some refused, some broken or silent amid."""
    how: st.SearchStrategy[Break] = st.sampled_from(sorted(BREAKS))
    refuses = draw(how) if draw(st.integers(0, 9)) == 0 else None
    broken = draw(st.integers(0, 4)) == 0
    breaks = (draw(st.integers(0, 8)), draw(how | SILENT)) if broken else None
    return Script(draw(answers()), draw(st.sampled_from(sorted(VOICES))), refuses, breaks)


@st.composite
def posts(draw: st.DrawFn) -> tuple[str, bytes]:
    """A door and a body for it: good, broken in up to three places, or anything at all."""
    path = draw(st.sampled_from(sorted(DOORS)))
    if draw(st.integers(0, 19)) == 0:
        return path, draw(st.binary(max_size=64) | VALUES.map(lambda value: json.dumps(value).encode()))
    made = copy.deepcopy(draw(st.sampled_from(DOORS[path])))
    made |= {"model": MODEL} if draw(st.integers(0, 9)) else {}
    if "stream" not in made or draw(st.booleans()):
        made["stream"] = draw(st.booleans())
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2, 3]))):
        where = draw(st.sampled_from([place for place in places(made) if place] or [("model",)]))
        mutate(made, where, draw(st.sampled_from(["delete", "replace"])) if made else "replace", draw(VALUES))
    return path, json.dumps(made).encode()


@st.composite
def shots(draw: st.DrawFn) -> Shot:
    """Mostly posts to doors."""
    names = draw(st.lists(st.sampled_from(sorted(HEADERS)), max_size=3, unique=True)) if draw(st.booleans()) else []
    headers = {"Authorization": "Bearer key-1"} | {name: draw(HEADERS[name]) for name in names}
    leaves = draw(st.integers(0, 400)) if draw(st.integers(0, 5)) == 0 else None
    if draw(st.integers(0, 4)):
        path, raw = draw(posts())
        if headers.get("Content-Encoding") == "gzip" and draw(st.booleans()):
            raw = gzip.compress(raw)
        return Shot("POST", path, raw, headers, leaves)
    headers.pop("Content-Encoding", None)  # aiohttp answers a HEAD whose body is broken with a body
    path = draw(st.sampled_from([*ASKED, *DOORS]) | PRINTED.map(lambda text: f"/{text}"))
    return Shot(draw(st.sampled_from(METHODS)), path, draw(st.sampled_from([b"", b"{}", b"x"])), headers, leaves)


def sessions() -> st.SearchStrategy[Session]:
    """One to four requests, one after the other."""
    few = st.lists(shots(), min_size=1, max_size=4).map(tuple)
    return st.builds(Session, scripts(), few, st.booleans())
