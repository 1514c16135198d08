"""Pieces of lark for free text around markers.

In llguidance no regex matches a special token, so a marker that is one stays impossible inside text.
"""

from __future__ import annotations

from ringleader.language.dialects.dialect import Marker

ANYTHING = "(?s:.*)"


def literal(text: str) -> str:
    """`text` as a literal in a lark regex. `<` and `>` stay bare: escaped, they would mean word boundaries."""
    escaped = "".join("\\" + char if char in r"\.^$*+?()[]{}|/-" else char for char in text)
    return escaped.replace("\n", "\\n").replace("\r", "\\r")


def containing(text: str) -> str:
    """A regex of everything with `text` in it."""
    return f"/{ANYTHING}{literal(text)}{ANYTHING}/"


def until(rule: str, marker: Marker, limits: str = "", body: str = ANYTHING) -> tuple[str, list[str]]:
    """Lark for text that matches `body` up to the first `marker`, marker included, and the rules it needs.

    `limits` (` & ~/.../`, as many as there are) hold for the text, and for the marker where that is text.
    A marker of text alone ends the text at its first appearance even if `body` would go on past it.
    """
    if marker.lead is None:
        once = "" if body == ANYTHING else f" & ~/{ANYTHING}{literal(marker.text)}(?s:.+)/"
        return rule, [f"{rule}[lazy]: /{body}{literal(marker.text)}/{limits}{once}"]
    rest = Marker(marker.text, None, marker.pieces[1:]).lark if marker.lead else marker.lark
    rule = rule.upper()  # only so may a greedy lexeme have limits
    return f"{rule} {rest}", [f"{rule}: /{body}{literal(marker.lead)}/{limits}"]
