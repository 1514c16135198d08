from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that nodes and shards run on. (asyncio's own also loses exit codes of processes on Python 3.11.)"""
    return {"uvloop": uvloop.new_event_loop}
