"""The HTTP API as one aiohttp application, and a server for it.

The server cancels a handler when its client leaves: that is how a request stops that nobody waits for.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from aiohttp import web

from ringleader.api import malformed, unserved
from ringleader.api.aliases import AliasedAnswerer, AliasedLibrary, AliasedShelf, AliasedTokenizing, Aliases
from ringleader.api.anthropic_messages import Messages
from ringleader.api.auth import NO_KEYS, is_loopback, make_auth
from ringleader.api.body import BODY_BYTES_MAX
from ringleader.api.cluster import Cluster
from ringleader.api.completions import Completions
from ringleader.api.contracts import Answerer, ClusterView, Keys, ModelLibrary, ModelShelf, ResponseStore, Tokenizing
from ringleader.api.cors import allow, make_cors
from ringleader.api.events import Events
from ringleader.api.faults import faults_middleware
from ringleader.api.feed import Closers
from ringleader.api.metrics import Metered, Metrics, MetricsDoor, make_counting
from ringleader.api.models import Models
from ringleader.api.ollama_chat import OllamaChat
from ringleader.api.ollama_models import OllamaModels
from ringleader.api.openai_chat import ChatCompletions, NamedFinish
from ringleader.api.openapi import OpenApi
from ringleader.api.responses import Responses
from ringleader.api.routes import Route, add_routes
from ringleader.api.serving import Serving
from ringleader.api.tokens import Tokens
from ringleader.api.traces import Traced, Traces, make_tracing
from ringleader.errors import BadRequest

ROUTES = web.AppKey("routes", list[Route])
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 52415
KEEP_ALIVE_S = 10.0  # common proxies give up after 30 to 60 s of silence
IDLE_S = 75.0  # a connection on which no whole request comes for so long is closed
SHUTDOWN_S = 1.0  # for answers that are nearly done; then their handlers are cancelled (aiohttp takes it twice)


def make_app(
    answerer: Answerer,
    shelf: ModelShelf,
    view: ClusterView,
    *,
    tokenizing: Tokenizing | None = None,
    responses: ResponseStore | None = None,
    library: ModelLibrary | None = None,
    keys: Keys = NO_KEYS,
    origins: tuple[str, ...] = (),
    loopback_only: bool = True,
    keep_alive_s: float = KEEP_ALIVE_S,
    body_bytes_max: int = BODY_BYTES_MAX,
    named_finish_reason: NamedFinish = "tool_calls",
    aliases: tuple[tuple[str, str], ...] = (),
    traces: Traces | None = None,
) -> web.Application:
    """The application. It must be served with `handler_cancellation`, as `serve` does.

    Pages of `origins` may use it. `named_finish_reason` is what an answer that calls a tool by the client's own
    choice ends with; OpenAI's is "stop". `aliases` are patterns of names and the model that each stands for.
    With `traces`, every request leaves spans there.
    """
    if aliases:
        names = Aliases(aliases)
        answerer, shelf = AliasedAnswerer(answerer, names), AliasedShelf(shelf, names)
        tokenizing = None if tokenizing is None else AliasedTokenizing(tokenizing, names)
        library = None if library is None else AliasedLibrary(library, names)
    auth = make_auth(keys, loopback_only=loopback_only, origins=origins)
    metrics = Metrics()
    tracing = [] if traces is None else [make_tracing(traces)]
    answerer = Metered(answerer if traces is None else Traced(answerer), metrics)
    app = web.Application(
        middlewares=[*tracing, make_counting(metrics), faults_middleware, make_cors(origins), auth],
        client_max_size=body_bytes_max,
    )
    allow(app, origins)
    closers = Closers()

    async def wait_for_closers(app: web.Application) -> None:
        await closers.wait()

    app.on_cleanup.append(wait_for_closers)
    if traces is not None:
        app.on_cleanup.append(lambda _: traces.close())
    serving = Serving(answerer, closers, keep_alive_s=keep_alive_s)
    chat = ChatCompletions(serving, named_finish=named_finish_reason)
    events = Events(view, keep_alive_s=keep_alive_s)
    app.on_shutdown.append(events.close)
    messages = Messages(serving, tokenizing)
    routes = [
        *chat.routes(),
        *Completions(serving, tokenizing).routes(),
        *Responses(serving, responses).routes(),
        *([] if tokenizing is None else Tokens(tokenizing).routes()),
        *unserved.routes(),
        *messages.routes(),
        *OllamaChat(serving, library).routes(),
        *OllamaModels(library).routes(),
        *Models(shelf).routes(),
        *Cluster(view).routes(),
        *MetricsDoor(metrics, view).routes(),
        *events.routes(),
    ]
    routes += OpenApi(routes).routes()
    app[ROUTES] = routes
    add_routes(app, routes)
    return app


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A server that runs. `url` is where it listens, with the port that port 0 became."""

    url: str
    port: int
    runner: web.AppRunner

    async def close(self) -> None:
        """Stop listening, give open answers `shutdown_s`, then cancel them and wait until they are closed."""
        await self.runner.cleanup()


async def serve(
    app: web.Application,
    *,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    shutdown_s: float = SHUTDOWN_S,
    idle_s: float = IDLE_S,
    tls: ssl.SSLContext | None = None,
) -> ApiServer:
    """Serve `app` at host:port; port 0 takes a free one. With `tls` it is https.

    Raises:
        OSError: the address is taken or is not ours.
    """
    runner = malformed.Runner(
        app,
        handler_cancellation=True,
        access_log=None,
        logger=malformed.log,
        shutdown_timeout=shutdown_s,
        keepalive_timeout=idle_s,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
    except OSError:
        await runner.cleanup()
        raise
    bound = int(runner.addresses[0][1])
    name = f"[{host}]" if ":" in host else host
    return ApiServer(f"{'https' if tls else 'http'}://{name}:{bound}", bound, runner)


def check_exposure(host: str, keys: Keys) -> bool:
    """Whether `host` is loopback, for `make_app`'s `loopback_only`.

    Raises:
        BadRequest: it is not, and no key keeps strangers out.
    """
    if is_loopback(host):
        return True
    if not keys.asks:
        raise BadRequest(
            f"--api-host {host} is open to the network: make a key first, with ringleader keys create NAME "
            "(or give one with --api-key or RINGLEADER_API_KEY)",
            param="api_key",
        )
    return False
