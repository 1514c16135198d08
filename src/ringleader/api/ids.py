"""Names for answers, calls and requests: unguessable, so that no two conversations ever share one."""

from __future__ import annotations

import secrets
import string
from contextvars import ContextVar

from aiohttp import web

ALPHABET = string.ascii_letters + string.digits  # some chat templates take nothing else in a call's id
LENGTH = 24

REQUEST_ID = web.RequestKey("request_id", str)
# The request that the running task serves, for whatever is logged on its way.
REQUEST: ContextVar[str] = ContextVar("ringleader_request", default="")


def id_headers(request: web.Request) -> dict[str, str]:
    """The request's id, under the names by which OpenAI's and Anthropic's SDKs look for it."""
    return {"x-request-id": request[REQUEST_ID], "request-id": request[REQUEST_ID]}


def new_id(prefix: str) -> str:
    """`prefix` and 24 random letters and digits."""
    return prefix + "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
