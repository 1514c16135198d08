"""Text that may hold halves of characters, of models, tools and people: JSON can spell them, no request carry them."""

from __future__ import annotations


def whole_text(text: str) -> str:
    """`text` with U+FFFD for each half of a character that stands alone, as in any decoder; two that fit are joined."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
