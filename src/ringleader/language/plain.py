"""Which characters and tokens of an answer may be more than text: all others need not be looked at one by one."""

from __future__ import annotations

from collections.abc import Sequence

from ringleader.language.dialects.dialect import Dialect, Frames, Opens


def begins(stop: Sequence[str], opens: Sequence[Opens]) -> frozenset[str]:
    """The first characters of whatever may end a stretch of text by what is written in it."""
    written = [opening.marker.text for opening in opens if opening.marker.token is None]
    return frozenset(text[0] for text in (*stop, *written) if text)


def marked(dialect: Dialect, opens: Sequence[Opens], frames: Frames | None) -> frozenset[int]:
    """Every token that is a marker somewhere in an answer."""
    found = [*(opening.marker for opening in opens), *dialect.markers, *dialect.around]
    found += () if frames is None else frames.markers
    found += () if dialect.thinking is None else (dialect.thinking.open, dialect.thinking.close)
    return frozenset(marker.token for marker in found if marker.token is not None)
