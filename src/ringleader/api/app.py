"""The HTTP API as one aiohttp application, and a server for it.

The server cancels a handler when its client leaves: that is how a request stops that nobody waits for.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from ringleader.api import malformed
from ringleader.api.auth import is_loopback, make_auth
from ringleader.api.body import BODY_BYTES_MAX
from ringleader.api.cluster import Cluster
from ringleader.api.contracts import Answerer, ClusterView, ModelShelf, Tokenizing
from ringleader.api.events import Events
from ringleader.api.faults import faults_middleware
from ringleader.api.feed import Closers
from ringleader.api.models import Models
from ringleader.api.openai_chat import ChatCompletions, NamedFinish
from ringleader.api.routes import add_routes
from ringleader.api.serving import Serving
from ringleader.errors import BadRequest

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 52415
KEEP_ALIVE_S = 10.0  # common proxies give up after 30 to 60 s of silence
SHUTDOWN_S = 1.0  # for answers that are nearly done; then their handlers are cancelled (aiohttp takes it twice)


def make_app(
    answerer: Answerer,
    shelf: ModelShelf,
    view: ClusterView,
    *,
    tokenizing: Tokenizing | None = None,
    api_key: str | None = None,
    loopback_only: bool = True,
    keep_alive_s: float = KEEP_ALIVE_S,
    body_bytes_max: int = BODY_BYTES_MAX,
    named_finish_reason: NamedFinish = "tool_calls",
) -> web.Application:
    """The application. It must be served with `handler_cancellation`, as `serve` does.

    `named_finish_reason` is what an answer that calls a tool by the client's own choice ends with; OpenAI's is "stop".
    """
    middlewares = [faults_middleware, make_auth(api_key=api_key, loopback_only=loopback_only)]
    app = web.Application(middlewares=middlewares, client_max_size=body_bytes_max)
    closers = Closers()

    async def wait_for_closers(app: web.Application) -> None:
        await closers.wait()

    app.on_cleanup.append(wait_for_closers)
    serving = Serving(answerer, closers, keep_alive_s=keep_alive_s)
    chat = ChatCompletions(serving, named_finish=named_finish_reason)
    events = Events(view, keep_alive_s=keep_alive_s)
    app.on_shutdown.append(events.close)
    routes = [*chat.routes(), *Models(shelf).routes(), *Cluster(view).routes(), *events.routes()]
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
    app: web.Application, *, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT, shutdown_s: float = SHUTDOWN_S
) -> ApiServer:
    """Serve `app` at host:port; port 0 takes a free one.

    Raises:
        OSError: the address is taken or is not ours.
    """
    runner = web.AppRunner(
        app, handler_cancellation=True, access_log=None, logger=malformed.log, shutdown_timeout=shutdown_s
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError:
        await runner.cleanup()
        raise
    bound = int(runner.addresses[0][1])
    name = f"[{host}]" if ":" in host else host
    return ApiServer(f"http://{name}:{bound}", bound, runner)


def check_exposure(host: str, api_key: str | None) -> bool:
    """Whether `host` is loopback, for `make_app`'s `loopback_only`.

    Raises:
        BadRequest: it is not, and no key keeps strangers out.
    """
    if is_loopback(host):
        return True
    if api_key is None:
        raise BadRequest(f"{host} is not loopback: set an API key to serve the API there.", param="api_key")
    return False
