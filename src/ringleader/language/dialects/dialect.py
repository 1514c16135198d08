"""What every dialect provides: its markers, its grammar rules, and a reader of one block of calls.

A dialect knows how one model family writes tool calls and reasoning; it never sees the wire or the ring.
It is resolved against one vocabulary and never changes afterwards.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ringleader.language.dialects.history import TAGGED, History
from ringleader.language.tool_choice import ToolChoice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

# Where the prompt leaves the model: free to reason first, inside its reasoning, or with reasoning closed.
Reasoning = Literal["possible", "begun", "over"]


# ---------------------------------------------------------------- markup


@dataclass(frozen=True, slots=True)
class Marker:
    """A piece of markup. `token` is its id where the vocabulary has it as one special token, else None.

    The same text made of ordinary tokens is then not the marker: it is text that somebody wrote. `pieces`
    are ordinary text and ids of special tokens, in order: some families build markers out of both.
    """

    text: str
    token: int | None
    pieces: tuple[str | int, ...] = field(default=(), compare=False)

    @property
    def lark(self) -> str:
        """The marker in a grammar: by ids, or quoted."""
        pieces = self.pieces or (self.text if self.token is None else self.token,)
        return " ".join(f"<[{piece}]>" if isinstance(piece, int) else json.dumps(piece) for piece in pieces)

    @property
    def lead(self) -> str | None:
        """The text before the first special token in it; None for a marker of text alone."""
        if all(isinstance(piece, str) for piece in self.pieces):
            return None if self.token is None else ""
        return "" if isinstance(self.pieces[0], int) else self.pieces[0]


def marker(tokenizer: Tokenizer, text: str) -> Marker:
    """The marker `text` as this vocabulary has it."""
    token = tokenizer.token_id(text)
    if token is not None and tokenizer.is_special(token):
        return Marker(text, token, (token,))
    pieces: list[str | int] = []
    run: list[int] = []
    for id_ in tokenizer.encode(text):
        if tokenizer.is_special(id_):
            pieces += [*([tokenizer.decode(run)] if run else []), id_]
            run = []
        else:
            run.append(id_)
    if not pieces:
        return Marker(text, None, (text,))
    return Marker(text, None, (*pieces, *([tokenizer.decode(run)] if run else [])))


@dataclass(frozen=True, slots=True)
class Opens:
    """A marker that begins a block of calls. `first`: only where nothing but whitespace stands before it in
    its stretch of text. `kept`: its text is a part of what the reader reads. `then`: a regex of what makes a
    call of so common a text (`first` only); see `Dialect.heads`."""

    marker: Marker
    first: bool = False
    kept: bool = False
    then: str = ""


@dataclass(frozen=True, slots=True)
class Thinking:
    """The markers around reasoning. `expected`: the model may begin to reason by itself; `lead` is whitespace that
    it may write before `open` then. `declines`: it may write `close` alone, to say that it does not."""

    open: Marker
    close: Marker
    expected: bool
    lead: str = ""
    declines: bool = False


# ---------------------------------------------------------------- calls


@dataclass(frozen=True, slots=True)
class CallRule:
    """One tool as the grammar must let it be called. `text` is its closed schema as it follows `%json`;
    `schema` the same as an object, for forms that write each parameter by itself; `lenient` how to compile it."""

    name: str
    text: str
    schema: Mapping[str, Json]
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """A call has begun and its whole name is known."""

    name: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """More of the JSON text of its arguments; the pieces concatenate to one JSON object, `{}` for none."""

    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The call is whole."""


CallEvent = Started | Arguments | Ended
State = Literal["open", "done", "broken"]


class BlockReader(Protocol):
    """Reads one block, of one or several calls, after its opening marker.

    "broken" means that what came since the last whole call can never become a call. It is then text, and
    the last thing that was pushed belongs to it: a reader need not see the end of what is optional.
    """

    @property
    def state(self) -> State: ...

    def push(self, char: str) -> list[CallEvent]:
        """Take one character. Markers that are plain text come this way too: only the reader knows its strings."""

    def meet(self, marker: Marker) -> list[CallEvent]:
        """Take a marker of the dialect (`opens` included) that came as its own special token."""


@dataclass(frozen=True, slots=True)
class Called:
    """What follows is a call to this tool, for `reader` to read."""

    name: str
    reader: BlockReader


# "unframed": what came is no header at all, and so is text.
Part = Literal["header", "text", "reasoning", "unframed"] | Called


class Frames(Protocol):
    """Reads the markup of families that frame all that they write, text included. An answer begins in a header."""

    @property
    def markers(self) -> tuple[Marker, ...]:
        """Special tokens; each ends the part before it."""

    def push(self, char: str) -> Part | None:
        """Take a character of a header; says what follows, where that ends it."""

    def meet(self, marker: Marker) -> Part:
        """Take a marker; says what follows it."""


# ---------------------------------------------------------------- the dialect


@dataclass(frozen=True, slots=True)
class Shape:
    """What an answer must be beyond its calls. `content` follows `%json`: what visible text must be, once, where
    there is any. `raw`: custom tools whose call is a text of the client's own grammar, which `raw_rule` refers to."""

    content: str | None = None
    raw: tuple[str, ...] = ()


def raw_rule(index: int) -> str:
    """The lark reference to the grammar of the raw tool of this index."""
    return f"@raw_{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect(ABC):
    """One family's way to write calls and reasoning.

    `opens`: how a block begins; the grammar writes the first. `markers`: special tokens that mean something
    inside a block. `history`: calls and tools as text, where the chat template cannot show them. `around`: the
    special tokens before and after all visible text, for families that frame it; none, or two.
    """

    name: str
    opens: tuple[Opens, ...] = ()
    markers: tuple[Marker, ...] = ()
    thinking: Thinking | None = None
    history: History = TAGGED
    around: tuple[Marker, ...] = ()

    @abstractmethod
    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        """Lark rules: `calls` is all of `least` to `most` calls, markers included; `calls_rest` the same
        without the marker of `opens[0]`, `calls_rest_1` without that of `opens[1]`, and so on."""

    def heads(self, calls: Sequence[CallRule]) -> Mapping[str, str]:
        """For an opening with a `then`: each text that begins a call, and the lark rule of all that follows it."""
        return {}

    @abstractmethod
    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        """A fresh reader of one block. `schemas` are the tools' parameters by name, for forms without types."""

    def answer(self, calls: Sequence[CallRule], shape: Shape, choice: ToolChoice, reasoning: Reasoning) -> str | None:
        """The whole answer's lark grammar, for families that the general one (`language.grammar`) does not fit."""
        return None

    def frames(self, schemas: Mapping[str, Json]) -> Frames | None:
        """A fresh reader of the frames around everything, for families that have them."""
        return None


def several(item: str, separator: str, least: int, most: int) -> str:
    """Lark for `least` to `most` of rule `item` with text between them, the first being written already."""
    between = f"{json.dumps(separator)} " if separator else ""
    return f"({between}{item}){{{max(0, least - 1)},{most - 1}}}" if most > 1 else ""


def think_tags(tokenizer: Tokenizer, open_: str = "<think>", close: str = "</think>") -> Thinking:
    """The usual reasoning tags. Expected where the chat template speaks of either."""
    template = tokenizer.chat_template or ""
    return Thinking(marker(tokenizer, open_), marker(tokenizer, close), open_ in template or close in template)
