"""Reads raw calls of custom tools: their input is all that comes, to the end of the answer or of its frame."""

from __future__ import annotations

from ringleader.language.dialects.dialect import Arguments, BlockReader, CallEvent, Ended, Marker, Started, State


class RawInput:
    """A `BlockReader` of an input whose tool is known. A marker ends it; so does the answer's own end."""

    def __init__(self) -> None:
        self.state: State = "open"

    def push(self, char: str) -> list[CallEvent]:
        return [Arguments(char)]

    def meet(self, marker: Marker) -> list[CallEvent]:
        return self.end()

    def end(self) -> list[CallEvent]:
        """The answer is over."""
        self.state = "done"
        return [Ended()]


class RawBlock:
    """A `BlockReader` of a name of `names`, a new line and a raw input; any other block is `inner`'s to read.

    `begin` is the text of the opening marker where that comes to the reader too.
    """

    def __init__(self, inner: BlockReader, names: frozenset[str], begin: str = "") -> None:
        self._reader: BlockReader = inner
        self._heads = {f"{begin}{name}\n": name for name in names}
        self._held = ""  # what may yet be a name
        self._decided = False

    @property
    def state(self) -> State:
        return self._reader.state

    @property
    def raw(self) -> RawInput | None:
        """The reader of the raw input, once it is one."""
        return self._reader if isinstance(self._reader, RawInput) else None

    def push(self, char: str) -> list[CallEvent]:
        if self._decided:
            return self._reader.push(char)
        self._held += char
        if (name := self._heads.get(self._held)) is not None:
            self._held, self._decided, self._reader = "", True, RawInput()
            return [Started(name)]
        return [] if any(head.startswith(self._held) for head in self._heads) else self._release()

    def meet(self, marker: Marker) -> list[CallEvent]:
        return [*self._release(), *self._reader.meet(marker)]

    def _release(self) -> list[CallEvent]:
        held, self._held, self._decided = self._held, "", True
        return [event for char in held for event in self._reader.push(char)]


def raw_input(reader: BlockReader | None) -> RawInput | None:
    """The raw input that `reader` is in the middle of, if it is."""
    if isinstance(reader, RawBlock):
        return reader.raw
    return reader if isinstance(reader, RawInput) else None
