"""Token ids of an answer to deltas: text, reasoning, calls. One parser per answer; it shares nothing.

Works a character at a time, so that how the ids were grouped cannot change the result. Laws: every id is
named by at most one delta, in order, and a delta names all ids up to its own end; what is held back is
exactly what may yet become a marker, a stop string or swallowed whitespace.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from ringleader.language.detokenizer import Detokenizer
from ringleader.language.dialects.dialect import Dialect, Marker
from ringleader.language.drafts import Draft, Kind
from ringleader.language.tool_choice import ToolChoice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Delta, FinishReason, TokenLogprob

STRAY = " \t\r\n}"  # what models write between a call's JSON and its closing marker


class Mode(Enum):
    """Where in an answer the parser stands."""

    TEXT = auto()
    REASONING = auto()
    CALL = auto()
    AFTER_CALL = auto()  # its JSON is whole, its closing marker is still to come


class StreamParser:
    """See the module. `calls` counts the calls that are complete; `stopped` says that a stop string was met.

    With `constrained` false (no grammar stands behind the ids) a call is held back until it is whole, so that
    a broken one can be given back as the text that it is.
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
    ) -> None:
        self.calls = 0
        self.stopped = False
        self._dialect = dialect
        self._choice = choice
        self._stop = tuple(text for text in stop if text)
        self._constrained = constrained
        self._detokenizer = Detokenizer(tokenizer)
        self._eos = frozenset(tokenizer.eos_ids)
        self._mode = Mode.REASONING if thinking_open else Mode.TEXT
        self._thinks = thinking_open or dialect.thinks
        self._held = ""  # text that is not certain yet
        self._swallow = thinking_open  # leading whitespace is markup's, not the text's
        self._fresh = not thinking_open  # nothing visible yet: reasoning may still begin
        self._begun = 0  # calls announced
        self._announced = False
        self._raw: list[str] = []  # the call being read, with what was swallowed before it
        self._reader = dialect.reader()
        self._pending: list[tuple[int, TokenLogprob | None]] = []
        self._drafts: list[Draft] = []
        self._kept: list[Draft] = []  # of an unconstrained call that is not whole yet

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
            self._take(token, logprobs[n] if logprobs else None)
        return self._delivered()

    def finish(self, reason: FinishReason) -> list[Delta]:
        """The answer is over: gives what was held back. A call that was cut off gets no `CallEnded`."""
        if not self.stopped:
            self._push_all(self._detokenizer.flush())
        if self._mode is Mode.CALL:
            self._cut_off(reason)
        elif self._mode is Mode.REASONING:
            self._emit("reasoning", self._held.rstrip())
        elif self._mode is Mode.TEXT and not self._stops_before(len(self._held)):
            self._emit("text", self._held)
        self._held = ""
        return self._delivered()

    def finish_reason(self, base: FinishReason) -> FinishReason:
        """What to tell the client: calls turn "stop" into "tool_calls"; "length" always stays."""
        return "tool_calls" if base == "stop" and self.calls else base

    def _delivered(self) -> list[Delta]:
        drafts, self._drafts = self._drafts, []
        return [draft.delta() for draft in drafts]

    # ------------------------------------------------------------ one id, one marker, one character

    def _take(self, token: int, logprob: TokenLogprob | None) -> None:
        if token in self._eos:
            self._push_all(self._detokenizer.flush())
            self._pending.append((token, None))
            return
        marker = self._marker(token)
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
        dialect = self._dialect
        if token == dialect.think_open.token and self._mode is Mode.TEXT:
            return dialect.think_open
        if token == dialect.think_close.token and self._mode is Mode.REASONING:
            return dialect.think_close
        if token == dialect.call_open.token and self._choice.mode != "none":
            return dialect.call_open
        if token == dialect.call_close.token and self._mode in {Mode.CALL, Mode.AFTER_CALL}:
            return dialect.call_close
        return None

    def _met(self, marker: Marker) -> None:
        if marker is self._dialect.think_open:
            self._begin_reasoning()
        elif marker is self._dialect.think_close:
            self._end_reasoning()
        elif marker is self._dialect.call_close:
            self._close_call()
        else:
            self._begin_call()

    def _push_all(self, text: str) -> None:
        for char in text:
            if self.stopped:
                return
            self._push(char)

    def _push(self, char: str) -> None:
        if self._mode is Mode.TEXT:
            self._push_text(char)
        elif self._mode is Mode.REASONING:
            self._push_reasoning(char)
        elif self._mode is Mode.CALL:
            self._push_call(char)
        else:
            self._push_after_call(char)

    # ------------------------------------------------------------ text

    def _push_text(self, char: str) -> None:
        if self._swallow and char.isspace():
            return
        self._swallow = False
        self._held += char
        dialect = self._dialect
        if self._watches(dialect.call_open) and self._held.endswith(dialect.call_open.text):
            self._held = self._held.removesuffix(dialect.call_open.text)
            self._begin_call()
        elif self._watches(dialect.think_open) and self._held.strip() == dialect.think_open.text:
            self._begin_reasoning()
        else:
            begun = _overlap(self._held, dialect.call_open.text) if self._watches(dialect.call_open) else 0
            if not self._stops_before(len(self._held) - begun):
                self._release()

    def _stops_before(self, end: int) -> bool:
        """Stop at a stop string that begins before `end`. One that begins later may be part of a call's marker."""
        found = [(at + len(text), at) for text in self._stop if 0 <= (at := self._held.find(text)) < end]
        if not found:
            return False
        self._emit("text", self._held[: min(found)[1]])
        self._held, self.stopped = "", True
        return True

    def _watches(self, marker: Marker) -> bool:
        """Whether `marker`, as plain text, would mean something here."""
        if marker.token is not None:
            return False
        if marker is self._dialect.call_open:
            return self._choice.mode != "none"
        return self._thinks and self._fresh

    def _release(self) -> None:
        """Emit the held text but for its end that may still be the begin of something."""
        dialect = self._dialect
        awaited = [*self._stop, *(m.text for m in (dialect.call_open, dialect.think_open) if self._watches(m))]
        certain = self._held[: len(self._held) - max((_overlap(self._held, text) for text in awaited), default=0)]
        if self._choice.mode != "none" or (self._fresh and self._thinks):
            certain = certain.rstrip()
        if certain:
            self._fresh = False
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
        close = self._dialect.think_close
        if close.token is None and self._held.endswith(close.text):
            self._held = self._held.removesuffix(close.text)
            self._end_reasoning()
            return
        waiting = _overlap(self._held, close.text) if close.token is None else 0
        certain = self._held[: len(self._held) - waiting].rstrip()
        self._emit("reasoning", certain)
        self._held = self._held[len(certain) :]

    def _end_reasoning(self) -> None:
        self._emit("reasoning", self._held.rstrip())
        self._mode, self._held, self._swallow, self._fresh = Mode.TEXT, "", True, False

    # ------------------------------------------------------------ calls

    def _begin_call(self) -> None:
        if self._mode is Mode.CALL:
            self._give_back()
        elif self._mode is Mode.REASONING:  # by its own token: the model forgot to close its reasoning
            self._end_reasoning()
        elif self._mode is Mode.AFTER_CALL:
            self._held = ""
        text = self._held.rstrip()
        self._raw = [self._held[len(text) :], self._dialect.call_open.text]
        self._emit("text", text)
        self._mode, self._held, self._fresh, self._announced = Mode.CALL, "", False, False
        self._reader = self._dialect.reader()

    def _push_call(self, char: str) -> None:
        reader = self._reader
        self._raw.append(char)
        piece = reader.push(char)
        if not self._announced and reader.name is not None:
            if reader.name not in self._choice.permitted:
                self._give_back()
                return
            self._emit("started", reader.name, always=True)
            self._announced, self._begun = True, self._begun + 1
        if reader.broken:
            self._give_back()
            return
        self._emit("arguments", piece)
        if reader.done:
            self._emit("ended", "", always=True)
            self._drafts += self._kept
            self._kept = []
            self.calls += 1
            self._mode = Mode.AFTER_CALL

    def _push_after_call(self, char: str) -> None:
        close = self._dialect.call_close
        self._held += char
        rest = self._held.lstrip(STRAY)
        if not rest or (close.token is None and close.text.startswith(rest)):
            if rest == close.text:
                self._close_call()
            return
        text, self._held = rest, ""  # no closing marker: the model goes on with text, or with its next call
        self._mode, self._swallow = Mode.TEXT, True
        self._push_all(text)

    def _close_call(self) -> None:
        if self._mode is Mode.CALL:  # closed before its JSON was whole
            self._raw.append(self._dialect.call_close.text)
            self._give_back()
            return
        self._mode, self._held, self._swallow = Mode.TEXT, "", True

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
        self._mode, self._held, self._swallow, self._announced = Mode.TEXT, "", False, False
        self._reader = self._dialect.reader()

    def _cut_off(self, reason: FinishReason) -> None:
        if reason != "length":
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


def _overlap(text: str, awaited: str) -> int:
    """The length of the longest end of `text` that `awaited` begins with, short of the whole."""
    for length in range(min(len(awaited) - 1, len(text)), 0, -1):
        if awaited[length - 1] == text[-1] and text.endswith(awaited[:length]):
            return length
    return 0
