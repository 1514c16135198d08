"""The text of an HTML page: what a reader sees, without markup, scripts and styles.

One pass that never goes back: a page is written by strangers, and Python's own parser can be kept busy by some.
"""

from __future__ import annotations

import html
import re

_UNSEEN = {"script", "style", "noscript", "template", "svg", "textarea"}
_LINES = {
    *("p", "div", "br", "li", "ul", "ol", "tr", "table", "section", "article", "header", "footer", "pre", "hr", "main"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "dt", "dd", "figure", "form", "nav", "aside", "title", "body"),
}
_TAG = re.compile(r"</?([a-zA-Z][a-zA-Z0-9-]{0,40})")
_ENDS = {name: re.compile(f"</{name}", re.IGNORECASE) for name in _UNSEEN}


def page_text(page: str) -> str:
    """A line for each block, the title first as it stands in the page. Broken markup is read as far as it goes."""
    pieces: list[str] = []
    at = 0
    while (start := page.find("<", at)) >= 0:
        pieces.append(_unescaped(page[at:start]))
        at = _after_markup(page, start, pieces)
    pieces.append(_unescaped(page[at:]))
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)


def _after_markup(page: str, start: int, pieces: list[str]) -> int:
    """Where the text goes on after the markup at `start`; at the end of the page when it does not end."""
    if page.startswith("<!--", start):
        return _past(page, "-->", start + 4)
    if page.startswith(("<!", "<?"), start):
        return _past(page, ">", start)
    tag = _TAG.match(page, start)
    if tag is None:  # a sign, not a tag
        pieces.append("<")
        return start + 1
    name = tag[1].lower()
    end = _past(page, ">", start)
    if name in _UNSEEN and page[start + 1] != "/":
        close = _ENDS[name].search(page, end)
        return _past(page, ">", close.start()) if close else len(page)
    pieces.append("\n" if name in _LINES else " " if name in ("td", "th") else "")
    return end


def _past(page: str, ending: str, at: int) -> int:
    found = page.find(ending, at)
    return len(page) if found < 0 else found + len(ending)


def _unescaped(text: str) -> str:
    return html.unescape(text.replace("\n", " ").replace("\r", " "))
