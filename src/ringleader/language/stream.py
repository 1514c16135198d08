"""Token ids of an answer to deltas: text, reasoning, calls. One parser per answer; it shares nothing.

Works a character at a time, so that how the ids were grouped cannot change the result. Laws: every id is
named by at most one delta, in order, and a delta names all ids up to its own end; what is held back is
exactly what may yet become a marker, a stop string or swallowed whitespace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto

from ringleader.language.custom import Inputs
from ringleader.language.detokenizer import Detokenizer
from ringleader.language.dialects.dialect import (
    Arguments,
    BlockReader,
    Called,
    CallEvent,
    Dialect,
    Marker,
    Opens,
    Part,
    Started,
)
from ringleader.language.dialects.markup import overlap
from ringleader.language.drafts import Draft, Kind
from ringleader.language.plain import begins, marked
from ringleader.language.raw_call import RawBlock, RawInput, raw_input
from ringleader.language.tool_choice import ToolChoice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Delta, FinishReason, Json, TokenLogprob

STRAY = " \t\r\n}"  # what models write after a call without meaning
BETWEEN = "\n\n"  # between two stretches of text, or of reasoning, that the family frames apart


class Mode(Enum):
    """Where in an answer the parser stands."""

    TEXT = auto()
    REASONING = auto()
    BLOCK = auto()  # of calls: its reader has it
    HEADER = auto()  # markup before a part of the answer, in families that frame everything


class StreamParser:
    """See the module. `calls` counts calls that are complete, `taken` tokens; `stopped_by` is the stop string met.

    With `constrained` false (no grammar stands behind the ids) a call is held back until it is whole, so that
    a broken one can be given back as the text that it is. `custom` and `raw` name the custom tools, by how
    their calls are written (see `language.custom`). `formed` says that text has a form: no call follows it.
    `after` are ids that the answer goes on from in the midst of a text.
    """

    def __init__(
        self,
        dialect: Dialect,
        tokenizer: Tokenizer,
        choice: ToolChoice,
        stop: tuple[str, ...] = (),
        thinking_open: bool = False,
        *,
        constrained: bool = True,
        schemas: Mapping[str, Json] | None = None,
        custom: frozenset[str] = frozenset(),
        raw: frozenset[str] = frozenset(),
        formed: bool = False,
        after: Sequence[int] = (),
    ) -> None:
        self.calls = self.taken = 0
        self.stopped_by: str | None = None
        self._dialect = dialect
        self._schemas = schemas or {}
        self._inputs = Inputs(custom)
        self._raw_tools = raw
        self._formed = formed
        self._choice = choice
        forced = constrained and choice.mode == "required"  # then there is no text for stop strings to be in
        self._stop = () if forced else tuple(text for text in stop if text)
        self._constrained = constrained
        self._detokenizer = Detokenizer(tokenizer, after)
        self._eos = frozenset(tokenizer.eos_ids)
        self._frames = dialect.frames(self._schemas)
        self._framed = False  # a frame was met: a model that writes none writes text
        self._mode = Mode.REASONING if thinking_open else Mode.TEXT if self._frames is None else Mode.HEADER
        self._thinks = thinking_open or (dialect.thinking is not None and dialect.thinking.expected)
        self._opens = dialect.opens if choice.mode != "none" else ()
        self._begins = begins(self._stop, self._opens)
        self._marked = marked(dialect, self._opens, self._frames)
        self._held = ""  # text that is not certain yet
        self._swallow = thinking_open  # leading whitespace is markup's, not the text's
        self._fresh = not thinking_open  # nothing visible yet: reasoning may still begin
        self._first = True  # nothing of this stretch of text was emitted yet
        self._said: set[Kind] = set()
        self._begun = 0  # calls announced
        self._announced = False  # the call that is being read
        self._raw: list[str] = []  # of the block, since its last whole call; with what was swallowed before it
        self._whole = 0  # calls of the block that are whole
        self._reader: BlockReader | None = None
        self._pending: list[tuple[int, TokenLogprob | None]] = []
        self._drafts: list[Draft] = []
        self._kept: list[Draft] = []  # of an unconstrained call that is not whole yet

    @property
    def stopped(self) -> bool:
        """Whether a stop string was met."""
        return self.stopped_by is not None

    def open(self, ids: Sequence[int]) -> list[Delta]:
        """Take the opening. Its deltas name no ids: they belong to the prompt, not to the answer."""
        for token in ids:
            self._take(token, None)
            self._pending.clear()
        for draft in [*self._drafts, *self._kept]:
            draft.tokens.clear()
        return self._delivered()

    def feed(self, ids: Sequence[int], logprobs: Sequence[TokenLogprob] = ()) -> list[Delta]:
        """Take the answer's next ids, with their logprobs or without any; gives what became certain."""
        for n, token in enumerate(ids):
            if self.stopped:
                break
            self.taken += 1
            self._take(token, logprobs[n] if logprobs else None)
        return self._delivered()

    def finish(self, reason: FinishReason) -> list[Delta]:
        """The answer is over: gives what was held back. A call that was cut off gets no `CallEnded`."""
        if not self.stopped:
            self._push_all(self._detokenizer.flush())
        if self._mode is Mode.BLOCK:
            self._cut_off(reason)
        elif self._mode is Mode.REASONING:
            self._emit("reasoning", self._held.rstrip())
        elif self._holds_text() and not self._stops_before(len(self._held)):
            self._emit("text", self._held)
        self._held = ""
        return self._delivered()

    def _holds_text(self) -> bool:
        """Whether what is held at the end is text, not the begin of a forced call, or a header, that was cut."""
        if self._constrained:
            return self._mode is Mode.TEXT and self._choice.mode != "required"
        return self._mode is Mode.TEXT or not self._framed

    def finish_reason(self, base: FinishReason) -> FinishReason:
        """What to tell the client: calls turn "stop" into "tool_calls"; "length" always stays."""
        return "tool_calls" if base == "stop" and self.calls else base

    def _delivered(self) -> list[Delta]:
        drafts, self._drafts = self._drafts, []
        return self._inputs.of([draft.delta() for draft in drafts])

    # ------------------------------------------------------------ one id, one marker, one character

    def _take(self, token: int, logprob: TokenLogprob | None) -> None:
        marker = self._marker(token)
        if marker is None and token in self._eos:
            self._push_all(self._detokenizer.flush())
            self._pending.append((token, None))
            return
        if marker is None:
            self._pending.append((token, logprob))
            text = self._detokenizer.feed(token)
            self._push_all(text)
            if text and (self._mode is not Mode.TEXT or self._swallow):
                self._pending = [(id_, None) for id_, _ in self._pending]  # it was markup, not text
            return
        self._push_all(self._detokenizer.flush())
        self._detokenizer.feed(token)  # only so that the next id is decoded in its place
        self._detokenizer.flush()
        self._pending.append((token, None))
        if not self.stopped:
            self._met(marker)

    def _marker(self, token: int) -> Marker | None:
        """The marker that `token` is here and now. Elsewhere the same token is text."""
        if token not in self._marked:
            return None
        found: list[Marker] = [opens.marker for opens in self._opens]
        thinking = self._dialect.thinking
        if self._frames is not None:
            found += self._frames.markers
        if self._mode is Mode.BLOCK:
            found += self._dialect.markers
        if self._mode is Mode.TEXT or self._mode is Mode.REASONING:
            found += self._dialect.around
        if thinking is not None and self._mode is Mode.TEXT:
            found.append(thinking.open)
            if self._fresh and self._thinks:  # reasoning that was never opened: the model says that it does none
                found.append(thinking.close)
        if thinking is not None and self._mode is Mode.REASONING:
            found.append(thinking.close)
        return next((marker for marker in found if marker.token == token), None)

    def _met(self, marker: Marker) -> None:
        thinking = self._dialect.thinking
        opens = next((opens for opens in self._opens if opens.marker is marker), None)
        if self._frames is not None and marker in self._frames.markers and not self._is_inside(marker):
            self._turn_to(self._frames.meet(marker), marker)
        elif self._mode is Mode.BLOCK:
            self._meet_in_block(marker, opens)
        elif opens is not None:
            self._begin_block(opens)
        elif marker in self._dialect.around:
            self._step_over(begins=marker == self._dialect.around[0])
        elif thinking is not None and marker is thinking.open:
            self._begin_reasoning()
        else:
            self._end_reasoning()

    def _is_inside(self, marker: Marker) -> bool:
        """Whether a marker of frames is here markup inside a call."""
        reads_all = raw_input(self._reader) is not None
        return self._mode is Mode.BLOCK and marker in self._dialect.markers and not reads_all

    def _push_all(self, text: str) -> None:
        if text and self._is_plain(text):
            self._push_plain(text)
            return
        for char in text:
            if self.stopped:
                return
            self._push(char)

    def _is_plain(self, text: str) -> bool:
        """Whether none of what is held, nor of `text`, can be part of anything but text: most of an answer is so."""
        if self.stopped or self._swallow or self._mode is not Mode.TEXT or (self._first and self._opens):
            return False
        waits = self._fresh and self._thinks
        return not waits and self._begins.isdisjoint(text) and self._begins.isdisjoint(self._held)

    def _push_plain(self, text: str) -> None:
        """What `_push_text` comes to for such characters, at once."""
        held = self._held + text
        certain = held.rstrip() if self._opens else held
        if certain:
            self._fresh = self._first = False
            self._emit("text", certain)
        self._held = held[len(certain) :]

    def _push(self, char: str) -> None:
        if self._mode is Mode.TEXT:
            self._push_text(char)
        elif self._mode is Mode.REASONING:
            self._push_reasoning(char)
        elif self._mode is Mode.BLOCK:
            self._push_block(char)
        elif self._frames is not None:
            self._held += char
            part = self._frames.push(char)
            if part is not None:
                self._turn_to(part, None)

    def _step_over(self, *, begins: bool) -> None:
        """A marker around text is no text, and neither is whitespace outside of the two."""
        if self._mode is Mode.REASONING:  # the model forgot to close it
            self._end_reasoning()
        elif not self._stops_before(len(self._held)):
            self._emit("text", self._held.rstrip() if begins else self._held)
        self._held, self._swallow, self._first = "", not begins, True

    def _turn_to(self, part: Part, marker: Marker | None) -> None:
        """A frame ends what came before it and begins a part of another kind. No `marker`: a header ended by itself."""
        if part == "unframed":
            text = self._held
            self._to_text()
            self._push_all(text)
            return
        self._framed = True
        if marker is not None and self._mode is Mode.BLOCK and self._reader is not None:
            self._heard(self._reader.meet(marker))
            self._leave_block()
        elif self._mode is Mode.REASONING:
            self._emit("reasoning", self._held.rstrip())
        elif self._mode is Mode.TEXT and not self._stops_before(len(self._held)):
            self._emit("text", self._held)
        self._held, self._swallow, self._fresh, self._first = "", False, False, True
        if isinstance(part, Called):
            self._enter_block(RawInput() if part.name in self._raw_tools else part.reader)
            self._heard([Started(part.name)])
        elif part == "header":
            self._mode = Mode.HEADER
        else:
            self._mode = Mode.TEXT if part == "text" else Mode.REASONING
            if part in self._said:
                self._held = BETWEEN

    # ------------------------------------------------------------ text

    def _push_text(self, char: str) -> None:
        if self._swallow and char.isspace():
            return
        self._swallow = False
        self._held += char
        thinking = self._dialect.thinking
        opens = next((opens for opens in self._opens if self._is_met(opens)), None)
        if opens is not None:
            self._held = self._held.removesuffix(opens.marker.text)
            self._begin_block(opens)
        elif thinking is not None and self._watches(thinking.open) and self._held.strip() == thinking.open.text:
            self._begin_reasoning()
        else:
            certain = len(self._held) - max(map(self._begun_of, self._opens), default=0)
            if not self._leads(certain) and not self._stops_before(certain):
                self._release()

    def _leads(self, end: int) -> bool:
        """Whether all that is said up to `end` is white space, which some families write before a call."""
        return self._first and bool(self._opens) and not self._held[:end].strip()

    def _stops_before(self, end: int) -> bool:
        """Stop at a stop string that begins before `end`. One that begins later may be part of a call's marker."""
        found = [(at + len(text), at, text) for text in self._stop if 0 <= (at := self._held.find(text)) < end]
        if not found:
            return False
        _, at, self.stopped_by = min(found)
        self._emit("text", self._held[:at])
        self._held = ""
        return True

    def _is_met(self, opens: Opens) -> bool:
        """Whether the held text ends with this marker where the marker counts."""
        text = opens.marker.text
        if opens.marker.token is not None or not self._held.endswith(text):
            return False
        return not opens.first or (self._first and self._held.lstrip() == text)

    def _begun_of(self, opens: Opens) -> int:
        """How much of the held text's end may be the begin of this marker."""
        if opens.marker.token is not None:
            return 0
        if not opens.first:
            return overlap(self._held, opens.marker.text)
        return len(self._held) if self._first and opens.marker.text.startswith(self._held.lstrip()) else 0

    def _watches(self, thinks: Marker) -> bool:
        """Whether the begin of reasoning, as plain text, would mean something here."""
        return thinks.token is None and self._thinks and self._fresh

    def _release(self) -> None:
        """Emit the held text but for its end that may still be the begin of something."""
        waiting = [overlap(self._held, text) for text in self._stop] + [self._begun_of(opens) for opens in self._opens]
        thinking = self._dialect.thinking
        if thinking is not None and self._watches(thinking.open):
            waiting.append(overlap(self._held, thinking.open.text))
        certain = self._held[: len(self._held) - max(waiting, default=0)]
        if self._opens or (self._fresh and self._thinks):
            certain = certain.rstrip()
        if certain:
            self._fresh = self._first = False
            self._emit("text", certain)
            self._held = self._held[len(certain) :]

    # ------------------------------------------------------------ reasoning

    def _begin_reasoning(self) -> None:
        if self._fresh:
            self._held = ""
        self._emit("text", self._held)
        self._mode, self._held, self._swallow, self._fresh = Mode.REASONING, "", True, False

    def _push_reasoning(self, char: str) -> None:
        if self._swallow and char.isspace():
            return
        self._swallow = False
        self._held += char
        close = None if self._dialect.thinking is None else self._dialect.thinking.close
        framed = close is None or close.token is not None or self._frames is not None
        plain = "" if framed or close is None else close.text
        if plain and self._held.endswith(plain):
            self._held = self._held.removesuffix(plain)
            self._end_reasoning()
            return
        certain = self._held[: len(self._held) - overlap(self._held, plain)].rstrip()
        self._emit("reasoning", certain)
        self._held = self._held[len(certain) :]

    def _end_reasoning(self) -> None:
        self._emit("reasoning", self._held.rstrip())
        self._to_text()
        self._fresh = False

    def _to_text(self) -> None:
        """A stretch of text begins; the whitespace before it is markup's."""
        self._mode, self._held, self._swallow, self._first = Mode.TEXT, "", True, True

    # ------------------------------------------------------------ calls

    def _begin_block(self, opens: Opens) -> None:
        if self._mode is Mode.REASONING:  # by its own token: the model forgot to close its reasoning
            self._end_reasoning()
        text = self._held.rstrip()
        swallowed = self._held[len(text) :]
        self._emit("text", text)
        reader = self._dialect.reader(self._schemas)
        begin = opens.marker.text if opens.kept else ""
        self._enter_block(RawBlock(reader, self._raw_tools, begin) if self._raw_tools else reader)
        self._raw = [swallowed] if opens.kept else [swallowed, opens.marker.text]
        self._push_all(begin)

    def _enter_block(self, reader: BlockReader) -> None:
        self._mode, self._held, self._fresh = Mode.BLOCK, "", False
        self._announced, self._whole, self._raw, self._reader = False, 0, [], reader

    def _push_block(self, char: str) -> None:
        assert self._reader is not None
        self._raw.append(char)
        self._heard(self._reader.push(char))
        if self._mode is Mode.BLOCK and self._reader.state != "open":
            self._leave_block()

    def _meet_in_block(self, marker: Marker, opens: Opens | None) -> None:
        assert self._reader is not None
        events = self._reader.meet(marker)
        if self._reader.state == "broken" and opens is not None:  # the next block, without an end of this one
            self._leave_block()
            self._begin_block(opens)
            return
        self._raw.append(marker.text)
        self._heard(events)
        if self._mode is Mode.BLOCK and self._reader.state != "open":
            self._leave_block(marker)

    def _heard(self, events: Sequence[CallEvent]) -> None:
        for event in events:
            if isinstance(event, Started):
                if event.name not in self._choice.permitted:
                    self._give_back()
                    return
                self._emit("started", event.name, always=True)
                self._announced, self._begun = True, self._begun + 1
            elif isinstance(event, Arguments):
                self._emit("arguments", event.text)
            else:
                self._emit("ended", "", always=True)
                self._drafts += self._kept
                self._kept, self._raw, self._announced = [], [], False
                self.calls += 1
                self._whole += 1

    def _leave_block(self, marker: Marker | None = None) -> None:
        """The block is done, or what came since its last whole call is none of it and so is text.

        After a whole call `marker`, if it was that which did not fit, is dropped: it is markup of some kind.
        """
        reader, self._reader = self._reader, None
        if reader is not None and reader.state == "done":
            self._to_text()
        elif self._whole and not self._announced:
            rest = "".join(self._raw[:-1] if marker is not None else self._raw).lstrip(STRAY)
            self._to_text()
            self._push_all(rest)
        else:
            self._give_back()

    def _give_back(self) -> None:
        """What looked like a call is text. Where its begin was delivered already only the rest can be text."""
        if self._kept or not self._announced:
            if self._kept:
                self._begun -= 1
            ids = [token for draft in self._kept for token in draft.tokens]
            self._pending = [(token, None) for token in ids] + self._pending
            self._kept = []
            self._mode = Mode.TEXT
            self._emit("text", "".join(self._raw))
        self._mode, self._held, self._swallow, self._announced, self._first = Mode.TEXT, "", False, False, False

    def _cut_off(self, reason: FinishReason) -> None:
        raw = raw_input(self._reader)
        if raw is not None and reason == "stop":
            self._heard(raw.end())
            return
        if reason != "length" and (self._announced or not self._whole):
            self._give_back()
        self._drafts += self._kept
        self._kept = []

    # ------------------------------------------------------------ drafts

    def _emit(self, kind: Kind, text: str, *, always: bool = False) -> None:
        if not text and not always:
            return
        in_call = kind in {"started", "arguments", "ended"}
        drafts = self._kept if in_call and not self._constrained else self._drafts
        index = self._begun - (0 if kind == "started" else 1) if in_call else 0
        self._said.add(kind)
        if kind == "text" and self._formed:
            self._opens = ()
        last = drafts[-1] if drafts else None
        if last is not None and not always and (last.kind, last.index) == (kind, index):
            last.text += text
        else:
            last = Draft(kind, index, text)
            drafts.append(last)
        last.tokens += [token for token, _ in self._pending]
        if kind == "text":
            last.logprobs += [logprob for _, logprob in self._pending if logprob is not None]
        self._pending = []
