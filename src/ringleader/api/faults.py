"""The middleware at the root of every handler: an id for each request, and its API's error body for what is raised.

An unforeseen exception is logged under the request's id and answered without its text.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from ringleader.api.error_forms import Form, form_of
from ringleader.api.fault_table import Fault, Kind, fault_of, rule_of
from ringleader.api.ids import REQUEST, REQUEST_ID, id_headers, new_id
from ringleader.api.sse import STREAM
from ringleader.errors import RingleaderError

log = logging.getLogger(__name__)


@web.middleware
async def faults_middleware(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Give each request an id, and whatever its handler raises a body in shape."""
    request[REQUEST_ID] = request_id = new_id("req_")
    REQUEST.set(request_id)
    since = time.monotonic()
    try:
        response = await handler(request)
    except web.HTTPException as error:
        response = fault_response(request, http_fault(request, error))
    except RingleaderError as error:
        if rule_of(error).hidden:
            log.exception("request %s failed", request_id)
        response = await _answer_fault(request, error)
    except Exception as error:  # the root of every handler: a bug costs one request and is logged
        log.exception("request %s failed", request_id)
        response = await _answer_fault(request, error)
    if not response.prepared:
        response.headers.update(id_headers(request))
    took_s = time.monotonic() - since
    log.debug("request %s: %s %s: %d in %.3f s", request_id, request.method, request.path, response.status, took_s)
    return response


def fault_response(request: web.Request, fault: Fault, form: Form | None = None) -> web.Response:
    """The whole HTTP answer for `fault`, in `form`, or as the API of the request has it."""
    form = form or form_of(request)
    # What tells OpenAI's and Anthropic's SDKs whether trying again can help.
    headers = {"x-should-retry": "true" if fault.retry else "false", **fault.headers}
    return web.json_response(form.body(fault, request[REQUEST_ID]), status=form.status(fault), headers=headers)


async def _answer_fault(request: web.Request, error: BaseException) -> web.StreamResponse:
    """An HTTP error, or the last event of a stream whose headers are out."""
    fault = fault_of(error, request[REQUEST_ID])
    if fault.status >= 500:
        log.warning("request %s: %s %s: %s", request[REQUEST_ID], request.method, request.path, fault.message)
    if STREAM in request:
        stream = request[STREAM]
        await stream.fail(fault, request[REQUEST_ID])
        return stream.response
    return fault_response(request, fault)


def http_fault(request: web.Request, error: web.HTTPException) -> Fault:
    """aiohttp's own refusals: no such path, wrong method, body too large, ..."""
    where = f"{request.method} {request.path}"
    kept = {name: value for name, value in error.headers.items() if name.lower() in {"allow", "www-authenticate"}}
    if error.status == 404:
        message = f"Unknown request URL: {where}. GET / says what is served here."
        return Fault("not_found", 404, message, code="unknown_url", headers=kept)
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        message = f"Not allowed to {request.method} on {request.path} (allowed: {allowed})."
        return Fault("invalid", error.status, message, code="method_not_allowed", headers=kept)
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        message = f"The request body is too large: {error.text}"
        return Fault("too_large", error.status, message, code="request_too_large", headers=kept)
    if error.status == 408:
        return Fault("invalid", 408, f"{where}: {error.reason}.", headers=kept, retry=True)
    kind: Kind = "internal" if error.status >= 500 else "invalid"
    return Fault(kind, error.status, f"{where}: {error.reason}.", headers=kept)
