"""Requests that are no HTTP as it should be, which aiohttp refuses before any middleware: answered in an API's form
all the same, and logged with a line a minute instead of all that was sent, each time.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import ContentEncodingError, HttpProcessingError, InvalidURLError, LineTooLong

from ringleader.api.error_forms import ANTHROPIC_HEADER, Form, form_at
from ringleader.api.fault_table import Fault, fault_of
from ringleader.api.faults import fault_response, http_fault
from ringleader.api.ids import REQUEST_ID, id_headers, new_id

AGAIN_S = 60.0
LINE_BYTES_MAX = 8190  # as aiohttp reads lines
_TARGET = re.compile(rb"[A-Z]+ ([!-~]{1,200})")
_TOO_MANY = "Too many headers"  # aiohttp's words, for which it has no class


class OnceAMinute(logging.Filter):
    """Lets a malformed request's record through once a minute, without its content; others as they are."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._said_s = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        if not record.exc_info or not isinstance(record.exc_info[1], HttpProcessingError | web.RequestPayloadError):
            return True
        if self._now() - self._said_s < AGAIN_S:
            return False
        self._said_s = self._now()
        record.msg, record.args = "refused a request that is not HTTP as it should be (said once a minute)", ()
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.exc_info = record.exc_text = None
        return True


class Runner(web.AppRunner):
    """As aiohttp's, but that all of its answers have an API's form."""

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()

        async def handle(request: Any) -> web.StreamResponse:
            try:
                return await made.request_handler(request)
            except web.HTTPException as error:  # of no route, so that no middleware saw it
                request[REQUEST_ID] = new_id("req_")
                return _told(request, http_fault(request, error))

        return _Server(
            handle,
            request_factory=made.request_factory,
            handler_cancellation=made.handler_cancellation,
            loop=made._loop,
            **made._kwargs,
        )


class _Server(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(web.RequestHandler):
    """Keeps the beginning of what came last: all that is known of a request that cannot be read."""

    __slots__ = ("_head",)

    def data_received(self, data: bytes) -> None:
        self._head = data[: LINE_BYTES_MAX + 256]
        super().data_received(data)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what the parser refused, and the last resort for what no middleware caught."""
        super().handle_error(request, status, exc, message)  # it logs, and knows whether an answer has begun
        request[REQUEST_ID] = request_id = new_id("req_")
        if isinstance(exc, HttpProcessingError):
            form = form_at(path_in(self._head), headers_in(self._head))
            response = _told(request, fault_of_parser(exc, self._head), form)
        else:
            response = _told(request, fault_of(exc or TimeoutError(), request_id))
        response.force_close()
        return response


def _told(request: Any, fault: Fault, form: Form | None = None) -> web.Response:
    response = fault_response(request, fault, form or form_at(request.path, request.headers))
    response.headers.update(id_headers(request))
    return response


def path_in(head: bytes) -> str:
    """The path, or its beginning, in what may be the head of a request."""
    found = _TARGET.match(head)
    return found[1].decode() if found else "/"


def headers_in(head: bytes) -> dict[str, str]:
    """Of the headers in it, the one that says whose client it is."""
    return {ANTHROPIC_HEADER: ""} if f"\n{ANTHROPIC_HEADER}:".encode() in head.lower() else {}


def fault_of_parser(error: HttpProcessingError, head: bytes) -> Fault:
    """What is told of a request that aiohttp's parser refused; `head` is what it began with."""
    most = f"is longer than the {LINE_BYTES_MAX} bytes that are read"
    if isinstance(error, LineTooLong):
        if b"\n" not in head:
            message = f"The request's URL {most}. Send what is long in the body."
            return Fault("invalid", 414, message, code="url_too_long")
        return Fault("invalid", 431, f"A header of the request {most}.", code="header_too_long")
    if error.message.startswith(_TOO_MANY):
        return Fault("invalid", 431, "The request has more headers than are read.", code="too_many_headers")
    if isinstance(error, ContentEncodingError):
        message = "The body's Content-Encoding is not read here: send it as it is, or compressed with gzip or deflate."
        headers = {"Accept-Encoding": "gzip, deflate"}
        return Fault("invalid", 415, message, code="unsupported_encoding", headers=headers)
    why = error.message.split("\n")[0].rstrip(":. ")  # what follows quotes the client
    told = "its URL cannot be read" if isinstance(error, InvalidURLError) else why
    return Fault("invalid", 400, f"The request is not HTTP as it should be: {told}.", code="invalid_http")


log = logging.getLogger("ringleader.api.http")
log.addFilter(OnceAMinute())
