"""Runs a plain function beside the event loop. Who gives up waits no longer; the thread ends by itself."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable, Mapping
from typing import Any


async def in_thread(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """A daemon thread for each call: the loop's own pool is waited for at the end, by a tool that hangs for ever."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: Exception | None) -> None:
        if done.done():  # given up meanwhile
            return
        if error is not None:
            # A future cannot carry StopIteration.
            done.set_exception(RuntimeError("StopIteration") if isinstance(error, StopIteration) else error)
        else:
            done.set_result(value)

    def work() -> None:
        value: Any = None
        failed: Exception | None = None
        try:
            value = function(**arguments)
        except Exception as error:  # noqa: BLE001 - the thread's root: whoever waits must hear of it
            failed = error
        except BaseException as left:  # noqa: BLE001 - sys.exit in a tool ends the tool, not the agent
            failed = RuntimeError(f"it ended with {left!r}")
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, value, failed)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="ringleader-tool", daemon=True).start()
    return await done
