"""Errors to HTTP, OpenAI's shape: one table, and the middleware at the root of every handler.

Nothing that is not written for the caller leaves here: an unforeseen exception is logged and answered without its text.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from ringleader.api.ids import new_id
from ringleader.api.sse import STREAM
from ringleader.errors import (
    Busy,
    CallerFault,
    DeadlinePassed,
    ModelDoesNotFit,
    ModelFault,
    ModelUnsupported,
    OurFault,
    PeerFault,
    RingleaderError,
    UnknownModel,
)
from ringleader.values import Json

log = logging.getLogger(__name__)

REQUEST_ID = web.RequestKey("request_id", str)
RETRY_AFTER_S = 2  # about the time in which a full queue has moved on by one short answer
INTERNAL = "Ringleader hit an error of its own. The node's log has it under this request's id"


@dataclass(frozen=True, slots=True)
class Rule:
    """How one class of errors looks on the wire. `retry` tells OpenAI's SDKs whether trying again can help."""

    status: int
    type: str
    retry: bool = False
    hidden: bool = False


# First match wins, so a class stands before its parents.
TABLE: tuple[tuple[type[RingleaderError], Rule], ...] = (
    (UnknownModel, Rule(404, "invalid_request_error")),
    (CallerFault, Rule(400, "invalid_request_error")),
    (Busy, Rule(429, "rate_limit_error", retry=True)),
    (DeadlinePassed, Rule(504, "server_error")),
    (PeerFault, Rule(503, "server_error", retry=True)),
    (ModelDoesNotFit, Rule(503, "server_error")),
    (ModelUnsupported, Rule(400, "invalid_request_error")),
    (ModelFault, Rule(500, "server_error")),
    (OurFault, Rule(500, "server_error", hidden=True)),
    (RingleaderError, Rule(500, "server_error", hidden=True)),
)
FOREIGN = Rule(500, "server_error", hidden=True)


def rule_of(error: BaseException) -> Rule:
    """The table's line for `error`; exceptions that are not ours are our fault."""
    return next((rule for kind, rule in TABLE if isinstance(error, kind)), FOREIGN)


def error_body(message: str, type_: str, *, param: str | None = None, code: str | None = None) -> dict[str, Json]:
    """OpenAI's error body, all four keys always there."""
    return {"error": {"message": message, "type": type_, "param": param, "code": code}}


def body_of(error: BaseException, request_id: str) -> dict[str, Json]:
    """The body for `error`, with its text only where that was written for the caller."""
    rule = rule_of(error)
    if rule.hidden or not isinstance(error, RingleaderError):
        return error_body(f"{INTERNAL} ({request_id}).", rule.type, code="internal_error")
    param = error.param if isinstance(error, CallerFault) else None
    return error_body(str(error), rule.type, param=param, code=error.code)


def response_of(error: BaseException, request_id: str) -> web.Response:
    """The whole HTTP answer for `error`."""
    rule = rule_of(error)
    headers = {"x-should-retry": "true" if rule.retry else "false"}
    if isinstance(error, Busy):
        headers["Retry-After"] = str(RETRY_AFTER_S)
    return web.json_response(body_of(error, request_id), status=rule.status, headers=headers)


@web.middleware
async def faults_middleware(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Give each request an id, and whatever its handler raises a body in shape."""
    request[REQUEST_ID] = request_id = new_id("req_")
    try:
        response = await handler(request)
    except web.HTTPException as error:
        response = _http_fault(request, error)
    except RingleaderError as error:
        if rule_of(error).hidden:
            log.exception("request %s failed", request_id)
        return await _answer_fault(request, error)
    except Exception as error:  # the root of every handler: a bug costs one request and is logged
        log.exception("request %s failed", request_id)
        return await _answer_fault(request, error)
    if not response.prepared:
        response.headers["x-request-id"] = request_id
    return response


async def _answer_fault(request: web.Request, error: BaseException) -> web.StreamResponse:
    """An HTTP error, or the last event of a stream whose headers are out."""
    request_id = request[REQUEST_ID]
    if STREAM in request:
        stream = request[STREAM]
        await stream.fail(body_of(error, request_id))
        return stream.response
    response = response_of(error, request_id)
    response.headers["x-request-id"] = request_id
    return response


def _http_fault(request: web.Request, error: web.HTTPException) -> web.Response:
    """aiohttp's own refusals (no such path, wrong method, body too large, ...) in OpenAI's shape."""
    where = f"{request.method} {request.path}"
    message, code = f"{where}: {error.reason}.", None
    if error.status == 404:
        message = f"Unknown request URL: {where}. GET / says what is served here."
        code = "unknown_url"
    elif isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        message, code = f"Not allowed to {request.method} on {request.path} (allowed: {allowed}).", "method_not_allowed"
    elif isinstance(error, web.HTTPRequestEntityTooLarge):
        message, code = f"The request body is too large: {error.text}", "request_too_large"
    kept = {name: value for name, value in error.headers.items() if name.lower() in {"allow", "www-authenticate"}}
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    return web.json_response(error_body(message, kind, code=code), status=error.status, headers=kept)
