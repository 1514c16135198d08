"""How an agent's run looks: turns, calls, results and tokens on stderr, what the model says on stdout, both at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TextIO

from ringleader.agent import events
from ringleader.agent.contracts import ToolContract
from ringleader.agent.outcome import Outcome
from ringleader.cli.chat import safe_text
from ringleader.values import Json

SHOWN_CHARS_MAX = 240  # of arguments and results: some lines; the whole is in --json and in the state


class AgentPage:
    """Shows events as they come, into a pipe as on a terminal. A `quiet` one gives the answer alone, at the end."""

    def __init__(self, out: TextIO, err: TextIO, *, quiet: bool = False) -> None:
        self._out, self._err, self._quiet = out, err, quiet
        self._open: TextIO | None = None  # where a line has begun and not ended
        self._thinking = False

    def show(self, event: events.Event) -> None:
        """One event."""
        if self._quiet and not needs_showing(event):
            return
        match event:
            case events.StepStarted():
                listed = ", ".join(event.tools) or "no tools"
                again = f" · goes on after turn {event.turn}" if event.turn else ""
                self._line("step", f"{event.step} · {event.role} · tier {event.tier} · {listed}{again}")
            case events.TurnStarted():
                self._line("turn", f"{event.turn} · {shown_choice(event.tool_choice)}")
            case events.TextCame():
                self._text(event.text)
            case events.ReasoningCame():
                self._thought(event.text)
            case events.TurnEnded():
                if event.tokens is not None:
                    by = f" · {event.model}" if event.model else ""
                    self._line("", f"{event.tokens.prompt} + {event.tokens.completion} tokens{by}")
            case events.CallStarted():
                self._line("call", shown_call(event.name, event.arguments))
            case events.CallEnded():
                word = "got" if event.failure is None else "failed"
                self._line(word, f"{event.name}: {shortened(event.text)}   {event.took_s:.1f} s")
            case events.ApprovalWanted():
                for call in event.calls:
                    self._line("asks", f"{shown_call(call.name, call.arguments)} needs a yes")
            case events.Warned():
                self._line("warning", event.text)
            case events.StepEnded():
                self._ended(event)

    def finish(self, outcome: Outcome | None) -> None:
        """After the last event."""
        self._end_line()
        if self._quiet and outcome is not None and outcome.text:
            self._write(outcome.text, self._out)
            self._end_line()

    def _ended(self, event: events.StepEnded) -> None:
        why = "rests: calls wait for a yes" if event.outcome is None else event.outcome.message
        if event.outcome is not None and event.outcome.kind == "cancelled":
            why = "stopped before its end"
        cost = f"{_counted(event.turns, 'turn')}, {_counted(event.calls, 'call')}"
        tokens = f"{event.tokens.prompt:,} + {event.tokens.completion:,} tokens"
        self._line("end", f"{why} · {cost} · {tokens} · {event.elapsed_s:.1f} s")

    def _text(self, text: str) -> None:
        if self._thinking:
            self._end_line()
        self._write(text, self._out)

    def _thought(self, text: str) -> None:
        if text and not self._thinking:
            self._end_line()
            self._write("  thinks  ", self._err)
            self._thinking = True
        self._write(text, self._err)

    def _write(self, text: str, to: TextIO) -> None:
        """Part of a line. A file gets the text as it is; a terminal is not to be driven by it."""
        if text:
            print(safe_text(text) if to.isatty() else text, end="", file=to, flush=True)
            self._open = None if text.endswith("\n") else to

    def _line(self, word: str, text: str) -> None:
        self._end_line()
        print(f"  {word:<7} {text}", file=self._err, flush=True)

    def _end_line(self) -> None:
        if self._open is not None:
            print(file=self._open, flush=True)
        self._open, self._thinking = None, False


def needs_showing(event: events.Event) -> bool:
    """Whether even somebody who wants the answer alone must hear of it."""
    if isinstance(event, events.StepEnded):
        return event.outcome is None or not event.outcome.ok
    return isinstance(event, events.Warned | events.ApprovalWanted)


def shown_choice(choice: Json) -> str:
    """A choice in words."""
    if isinstance(choice, Mapping) and choice.get("type") == "function":
        return f"{choice['function']['name']} is forced"
    if isinstance(choice, Mapping):
        listed = choice["allowed_tools"]
        names = ", ".join(each["function"]["name"] for each in listed["tools"])
        return f"{listed['mode']}, of {names} only"
    return {"required": "a call is forced", "none": "no calls"}.get(choice, str(choice))


def shown_call(name: str, arguments: str) -> str:
    """A call on one line."""
    return f"{name} {shortened(arguments)}"


def shortened(text: str) -> str:
    """Text of a model or a tool for a terminal: one line, harmless, not for ever."""
    line = " ".join(safe_text(text).split())
    return line if len(line) <= SHOWN_CHARS_MAX else f"{line[:SHOWN_CHARS_MAX]}… ({len(text):,} characters)"


def tools_page(tools: Sequence[ToolContract]) -> str:
    """A table of tools."""
    rows = [("TOOL", "TIER", "TOUCHES", "ASKS", "DOES")]
    for tool in tools:
        does = tool.description.strip().splitlines()[0]
        rows.append((tool.name, str(tool.tier), ", ".join(sorted(tool.effects)) or "nothing", tool.approval, does))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
