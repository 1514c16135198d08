"""`ringleader demo`: two nodes on this machine, one model cut in two, one forced call; then nothing is left running."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Annotated, Any

import typer

from ringleader.cli.chat import COMPLETIONS, safe_text
from ringleader.cli.client import NodeClient, connect, run
from ringleader.cli.local_node import local_node
from ringleader.cli.progress import open_reporter
from ringleader.errors import RingleaderError, RingLost
from ringleader.models.catalogue import DEFAULT_MODEL
from ringleader.models.sizes import human_bytes
from ringleader.models.store import Store

QUESTION = "What is your name?"
TOOL = {
    "name": "get_weather",
    "description": "The weather forecast of a city.",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Name of the city"},
            "days": {"type": "integer", "minimum": 1, "maximum": 9},
        },
        "required": ["city", "days"],
        "additionalProperties": False,
    },
}
REQUEST: dict[str, Any] = {
    "messages": [{"role": "user", "content": QUESTION}],
    "tools": [{"type": "function", "function": TOOL}],
    "tool_choice": {"type": "function", "function": {"name": TOOL["name"]}},
    "temperature": 0,
    "max_tokens": 200,
    "stream": True,
    "stream_options": {"include_usage": True},
}
BAR_WIDTH = 30
RING_DEADLINE_S = 120.0


def demo(
    model: Annotated[str, typer.Option(help="The model to show.")] = DEFAULT_MODEL,
) -> None:
    """Start a ring of two shards here, force a tool call, show what it cost, leave nothing running."""
    raise typer.Exit(run(_demo(model)))


async def _demo(model: str) -> int:
    print("ringleader demo", flush=True)
    store = Store()
    reporter = open_reporter()
    try:
        await asyncio.to_thread(store.pull, model, reporter)
    finally:
        reporter.close()
    stored = next(each for each in store.list() if each.name == model)
    line("model", f"{model}   {stored.layers} layers, {stored.weights}, {human_bytes(stored.size_bytes)}")
    with tempfile.TemporaryDirectory(prefix="ringleader-demo-") as logs:
        async with AsyncExitStack() as stack:
            started = time.monotonic()
            master = await stack.enter_async_context(
                local_node("a", Path(logs), *("--nodes", "2", "--shards", "2", "--model", model))
            )
            await stack.enter_async_context(local_node("b", Path(logs), "--peer", master.control))
            node = await stack.enter_async_context(connect(master.api))
            ring = await _ring_ready(node)
            _show_ring(ring, time.monotonic() - started)
            await _ask(node, model)
    program = _program()
    line("next", f"{program} node --model {model}   start a node on this machine")
    line("", f'{program} chat "hello"   talk to it')
    return 0


def _program() -> str:
    """How a person calls this program from here: `make demo` runs it from a virtual environment that is not on PATH."""
    called = Path(sys.argv[0])
    if shutil.which("ringleader") == str(called.absolute()) or not called.is_file():
        return "ringleader"
    here = Path.cwd()
    return str(called.absolute().relative_to(here) if called.absolute().is_relative_to(here) else called)


def line(word: str, text: str) -> None:
    """One line of the demo: a word in the left column, then the text."""
    print(f"  {word:<7} {text}", flush=True)


async def _ring_ready(node: NodeClient) -> dict[str, Any]:
    """Wait until the ring serves. Raises RingLost with the cluster's own reason when it cannot."""
    deadline = time.monotonic() + RING_DEADLINE_S
    while time.monotonic() < deadline:
        rings = (await node.fetch("/v1/cluster"))["rings"]
        for ring in rings:
            if ring["state"] == "ready":
                return dict(ring)
            if ring["state"] in {"failed", "resting"}:
                raise RingLost(f"the ring did not come up: {ring['why']}")
        await asyncio.sleep(0.1)
    raise RingLost(f"the ring was not ready after {RING_DEADLINE_S:.0f} s")


def _show_ring(ring: dict[str, Any], took_s: float) -> None:
    layers = ring["stages"][-1]["last_layer"] + 1
    for number, stage in enumerate(ring["stages"]):
        first, last = stage["first_layer"], stage["last_layer"]
        left, right = round(first * BAR_WIDTH / layers), round((last + 1) * BAR_WIDTH / layers)
        bar = " " * left + "█" * (right - left)
        end = f"  ready in {took_s:.1f} s" if number == len(ring["stages"]) - 1 else ""
        line("" if number else "ring", f"node {stage['name']}   layers {first:>2}-{last:<2}  {bar}{end}")


async def _ask(node: NodeClient, model: str) -> None:
    line("ask", f'"{QUESTION}"   tool_choice = {TOOL["name"]}')
    started = time.monotonic()
    usage: dict[str, Any] = {}
    print(f"  {'call':<7} ", end="", flush=True)
    try:
        async with aclosing(node.stream(COMPLETIONS, {**REQUEST, "model": model})) as chunks:
            async for chunk in chunks:
                usage = chunk.get("usage") or usage
                for choice in chunk["choices"]:
                    _show_piece(choice["delta"])
    except RingleaderError:
        print(flush=True)
        raise
    print(flush=True)
    took_s = time.monotonic() - started
    ring, tokens = usage["ringleader"], usage["completion_tokens"]
    line(
        "paid",
        f"{tokens} tokens in {ring['passes']} passes round the ring ({ring['forced_tokens']} were forced)   "
        f"{took_s:.1f} s, {tokens / took_s:.1f} tok/s",
    )
    line("", f"{ring['opening_tokens']} more opened the call and went with the prompt")


def _show_piece(delta: dict[str, Any]) -> None:
    for call in delta.get("tool_calls") or []:
        function = call["function"]
        if function.get("name"):
            sys.stdout.write(f"{function['name']} ")
        sys.stdout.write(safe_text(function.get("arguments") or ""))
        sys.stdout.flush()
