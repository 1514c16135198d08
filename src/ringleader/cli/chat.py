"""`ringleader chat "..."`: one question, the answer on stdout as it comes, what it cost on stderr."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from ringleader.cli.client import DEFAULT_URL, EXIT_USAGE, NodeClient, connect, run
from ringleader.errors import BadRequest, CallerFault, ModelLoading, UnknownModel

COMPLETIONS = "/v1/chat/completions"
LOOK_EVERY_S = 3.0  # while a model is loaded


def chat(
    question: Annotated[str, typer.Argument(help='What to ask; "-" reads it from stdin.')],
    model: Annotated[str | None, typer.Option(help="A model's id; default: the one that is loaded.")] = None,
    tools: Annotated[Path | None, typer.Option(help="A JSON file: a list of tools, or of bare functions.")] = None,
    force: Annotated[str | None, typer.Option(help="The name of the tool that must be called.")] = None,
    url: Annotated[str, typer.Option(envvar="RINGLEADER_URL", help="A node's API.")] = DEFAULT_URL,
    temperature: Annotated[float | None, typer.Option(help="0 always takes the likeliest token.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Where to stop at the latest.")] = None,
    no_stream: Annotated[bool, typer.Option("--no-stream", help="Wait for the whole answer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole answer as the API's object.")] = False,
) -> None:
    """Ask a model something."""
    try:
        body = request_body(
            question=sys.stdin.read() if question == "-" else question,
            tools=read_tools(tools) if tools is not None else [],
            force=force,
            temperature=temperature,
            max_tokens=max_tokens,
        )
    except CallerFault as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_USAGE) from None
    raise typer.Exit(run(_ask(url, model, body, stream=not (no_stream or as_json), as_json=as_json)))


def request_body(
    *, question: str, tools: list[Any], force: str | None, temperature: float | None, max_tokens: int | None
) -> dict[str, Any]:
    """The request, but for its model.

    Raises:
        BadRequest: nothing is asked, or a tool is forced where there are none.
    """
    if not question.strip():
        raise BadRequest("nothing is asked: the question is empty")
    if force is not None and not tools:
        raise BadRequest(f"--force {force} needs --tools FILE with a tool of that name")
    optional = {
        "tools": tools or None,
        "tool_choice": {"type": "function", "function": {"name": force}} if force else None,
        "temperature": temperature,
        "max_tokens": max_tokens,
    }
    given = {name: value for name, value in optional.items() if value is not None}
    return {"messages": [{"role": "user", "content": question}], **given}


def read_tools(file: Path) -> list[dict[str, Any]]:
    """The tools in `file`: wire tools or bare function objects, in a list or a single one.

    Raises:
        BadRequest: the file cannot be read, or holds something else.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"--tools {file} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"--tools {file} is not JSON: {error}") from error
    tools = []
    for index, entry in enumerate(found if isinstance(found, list) else [found]):
        function = entry.get("function", entry) if isinstance(entry, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise BadRequest(f'--tools {file}: entry {index} is no tool; one looks like {{"name": "now"}}')
        tools.append(entry if "function" in entry else {"type": "function", "function": entry})
    return tools


async def _ask(url: str, model: str | None, body: dict[str, Any], *, stream: bool, as_json: bool) -> int:
    started_s = time.monotonic()
    async with connect(url) as node:
        body["model"] = model or await _default_model(node)
        printer = AnswerPrinter(sys.stdout, sys.stderr)
        if stream:
            await _when_loaded(lambda: _stream(node, body, printer))
        else:
            answer = await _when_loaded(lambda: node.post(COMPLETIONS, body))
            if as_json:
                print(json.dumps(answer, indent=2, ensure_ascii=False))
                return 0
            printer.whole(answer)
    printer.cost(time.monotonic() - started_s)
    return 0


async def _stream(node: NodeClient, body: dict[str, Any], printer: AnswerPrinter) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    async with aclosing(node.stream(COMPLETIONS, {**body, **options})) as events:
        try:
            async for chunk in events:
                printer.chunk(chunk)
        finally:
            printer.end_line()  # or an error would stand on the answer's last line


async def _when_loaded(ask: Callable[[], Awaitable[Any]]) -> Any:
    """What `ask` gives once the model is loaded; says how far it is meanwhile. Interrupting ends it."""
    said = ""
    while True:
        try:
            return await ask()
        except ModelLoading as loading:
            if str(loading) != said:
                said = str(loading)
                print(f"({said.partition(' Send the request again')[0]})", file=sys.stderr)
            await asyncio.sleep(min(LOOK_EVERY_S, loading.retry_after_s or LOOK_EVERY_S))


async def _default_model(node: NodeClient) -> str:
    cards = (await node.fetch("/v1/models")).get("data") or []
    loaded = [card for card in cards if card.get("loaded")]
    if len(choice := loaded or cards) == 1 or loaded:
        return str(choice[0]["id"])
    if not cards:
        raise UnknownModel("the node has no model. Get one: ringleader models pull")
    listed = ", ".join(str(card["id"]) for card in cards[:10])
    raise UnknownModel(f"several models are stored and none is loaded; say --model, one of: {listed}")


class AnswerPrinter:
    """Writes text and calls to `out` as they come, thinking and figures to `err`."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out, self._err = out, err
        self._line_open: TextIO | None = None
        self._call: int | None = None
        self._usage: dict[str, Any] | None = None
        self._finish: str | None = None

    def chunk(self, chunk: dict[str, Any]) -> None:
        """One chunk of a stream."""
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or []:
            self._finish = choice.get("finish_reason") or self._finish
            self._piece(choice.get("delta") or {})

    def whole(self, answer: dict[str, Any]) -> None:
        """A whole answer, printed like a stream."""
        choice = answer["choices"][0]
        calls = [{**call, "index": index} for index, call in enumerate(choice["message"].get("tool_calls") or [])]
        self._piece({**choice["message"], "tool_calls": calls})
        self._usage, self._finish = answer.get("usage"), choice.get("finish_reason")

    def cost(self, elapsed_s: float) -> None:
        """The last line: tokens, passes, forced tokens, speed."""
        self.end_line()
        if self._finish == "length":
            print("(cut short: the token limit was reached)", file=self._err)
        if self._usage is None:
            return
        ring = self._usage.get("ringleader") or {}
        tokens = self._usage.get("completion_tokens", 0)
        guessed = (self._usage.get("completion_tokens_details") or {}).get("accepted_prediction_tokens")
        free = f"{ring.get('forced_tokens', '?')} were forced" + (f", {guessed} guessed" if guessed else "")
        figures = f"{tokens} tokens in {ring.get('passes', '?')} passes ({free})"
        speed = f"{tokens / elapsed_s:.1f} tok/s" if elapsed_s > 0 else "- tok/s"
        print(f"{figures} · {elapsed_s:.1f} s · {speed}", file=self._err)

    def end_line(self) -> None:
        """Close the line that is being written, if one is."""
        if self._line_open is not None:
            print(file=self._line_open, flush=True)
            self._line_open = None

    def _piece(self, delta: dict[str, Any]) -> None:
        if reasoning := delta.get("reasoning_content"):
            self._write(self._err, reasoning)
        if text := delta.get("content"):
            self._write(self._out, text)
        for call in delta.get("tool_calls") or []:
            if call["index"] != self._call:
                self.end_line()
                self._call = call["index"]
                self._write(self._out, f"{call['function']['name']} ")
            self._write(self._out, call["function"].get("arguments") or "")

    def _write(self, to: TextIO, text: str) -> None:
        if self._line_open not in (None, to):
            self.end_line()
        if text:
            print(safe_text(text) if to.isatty() else text, end="", file=to, flush=True)
            self._line_open = to


def safe_text(text: str) -> str:
    """`text` without the control characters by which a model could drive the terminal."""
    return "".join(char for char in text if char in "\n\t" or not (ord(char) < 32 or 127 <= ord(char) < 160))
