"""A request's body to a JSON object: bounded in size, time and depth, always valid Unicode, always finite numbers."""

from __future__ import annotations

import asyncio
import json
import math
import re
from typing import NoReturn

from aiohttp import web

from ringleader.api.surrogates import mended
from ringleader.errors import BadRequest
from ringleader.values import Json

BODY_BYTES_MAX = (
    32 * 2**20
)  # about eight million tokens: more than any context, and what one host can parse in a second
BODY_TIMEOUT_S = 60.0
# Of one field. Past this, recursive readers and what is said between nodes would overflow. A schema may have 100.
DEPTH_MAX = 128
DEPTH_ADVICE = "Flatten it: a schema may have 100 levels, of which an object in an object takes two."

# What agents send of one thing: their longest sessions have some thousand messages.
ITEMS_MAX = {"messages": 10_000, "input": 10_000, "tools": 1024, "logit_bias": 1024, "metadata": 1024}

INT_DIGITS_MAX = 4300  # what Python reads; no schema or setting has a use for more
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


async def read_object(request: web.Request) -> dict[str, Json]:
    """The body of `request` as a JSON object.

    Raises:
        BadRequest: it is not one.
        web.HTTPException: it is too large (413) or too slow (408).
    """
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            raw = await request.read()
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(reason=f"the body did not arrive within {BODY_TIMEOUT_S:.0f} s") from error
    except web.RequestPayloadError as error:
        why = " ".join(str(error).rpartition("message:")[2].split())
        raise BadRequest(f"The request body could not be read: {why}.", code="invalid_body") from error
    return parse_object(raw)


def parse_object(raw: bytes) -> dict[str, Json]:
    """`raw` as a JSON object. A lone surrogate (half an emoji, cut by a careless client) becomes U+FFFD.

    Raises:
        BadRequest: not UTF-8, not JSON, not an object, NaN or infinite numbers, nested too deep, too many
            items, or a lone surrogate
            in what binds the answer.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unparsable(f"it is not UTF-8 at byte {error.start}") from error
    try:
        body = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_bounded)
    except RecursionError as error:
        raise _unparsable("it is nested too deep") from error
    except ValueError as error:
        raise _unparsable(str(error)) from error
    if not isinstance(body, dict):
        raise BadRequest(f"The request body must be a JSON object, but is {json_type(body)}.", code="invalid_type")
    for field, most in ITEMS_MAX.items():
        if isinstance(items := body.get(field), list | dict) and len(items) > most:
            raise BadRequest(f"Invalid '{field}': {len(items)} items, at most {most} are taken.", param=field)
    for field, value in body.items():
        if _deeper_than(value, DEPTH_MAX):
            named = field[:64].encode("utf-8", "replace").decode()
            message = f"Invalid '{named}': it nests deeper than {DEPTH_MAX} levels of JSON. {DEPTH_ADVICE}"
            raise BadRequest(message, param=named)
    return mended(body) if _SURROGATE.search(text) else body


def json_type(value: Json) -> str:
    """What JSON calls the type of `value`, with its article."""
    names = {
        str: "a string",
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        list: "an array",
        dict: "an object",
    }
    return names.get(type(value), "null")


def _unparsable(why: str) -> BadRequest:
    return BadRequest(f"We could not parse the JSON body of your request: {why}.", code="invalid_json")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _bounded(text: str) -> int:
    if len(text) > INT_DIGITS_MAX:
        raise ValueError(f"the integer {text[:32]}... has more than {INT_DIGITS_MAX} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:32]} is too large")
    return number


def _deeper_than(body: Json, levels: int) -> bool:
    """Level by level, not recursively: the point is to survive what a recursion would not."""
    level = [body] if isinstance(body, dict | list) else []
    for _ in range(levels):
        below: list[Json] = []
        for value in level:
            below.extend(value.values() if isinstance(value, dict) else value)
        level = [value for value in below if isinstance(value, dict | list)]
        if not level:
            return False
    return True
