"""Pages are read as their text, in linear time, however broken."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.agent.tools.page_text import page_text


def test_a_page_is_read_as_its_reader_sees_it() -> None:
    page = """<!DOCTYPE html><html><head><title>The &amp; House</title><style>p { color: red }</style>
    <script>if (a < b) { "</p>" }</script></head><body><!-- <p>not</p> --><h1>Hello</h1><p>One
    <b>bold</b> word &lt;here&gt;<br>and 1 < 2</p><table><tr><td>a<td>b</tr></table></body></html>"""
    assert page_text(page) == "The & House\nHello\nOne bold word <here>\nand 1 < 2\na b"


@pytest.mark.parametrize("broken", ["<p", "a<!--", "<script>x", "<", "</", "a<b>c<", "<style>y</style"])
def test_broken_markup_is_read_as_far_as_it_goes(broken: str) -> None:
    assert page_text(broken) in {"", "a", "<", "</", "ac<"}


@settings(deadline=None)
@given(st.text(st.sampled_from('<>!-/ap&;sript \n"=')))
def test_any_text_is_read(text: str) -> None:
    assert "\n\n" not in page_text(text)


@pytest.mark.parametrize(
    "piece", ["<", "<!--", "<a", "</", "<script", "<script>", "&", "<!", "<a>", "<style></style", "a\n"]
)
def test_ten_times_the_page_is_ten_times_the_work(piece: str) -> None:
    def steps(page: str) -> int:
        count = 0

        def trace(*_: Any) -> Any:
            nonlocal count
            count += 1
            return trace

        previous = sys.gettrace()
        sys.settrace(trace)
        try:
            page_text(page)
        finally:
            sys.settrace(previous)
        return count

    assert steps(piece * 3_000) <= 11 * steps(piece * 300) + 200
    page_text(piece * 300_000)  # what is not seen in steps would be seen in minutes
