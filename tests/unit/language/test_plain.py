"""Text that is taken whole is what its characters, taken one by one, would have been."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.language.dialects.json_tags import json_tags
from ringleader.language.dialects.pythonic import pythonic
from ringleader.language.plain import begins, marked
from ringleader.language.stream import StreamParser
from ringleader.language.tool_choice import ToolChoice
from ringleader.tokenizer import Tokenizer
from ringleader.values import Delta

AUTO, NONE = ToolChoice("auto", ("now",), 0, 16), ToolChoice("none", (), 0, 0)
MARKUP = ["<", "<tool_", "<tool_call>", '{"name": "now", "arguments": {}}', "</tool_call>", "<think>", "</think>"]
PIECES = st.sampled_from([*MARKUP, "word", " ", "\n", "\n\n", "é", "[now()]", "[", "stop", "sto", "p.", " a", "."])


class OneByOne(StreamParser):
    """The same parser, which looks at each character."""

    def _is_plain(self, text: str) -> bool:
        return False


@given(
    pieces=st.lists(PIECES, max_size=12),
    stop=st.sampled_from([(), ("stop",), ("\n\n", "p.")]),
    choice=st.sampled_from([AUTO, NONE]),
    formed=st.booleans(),
    thinking=st.booleans(),
    dialect=st.sampled_from([json_tags, pythonic]),
)
@settings(max_examples=400, deadline=None)
def test_every_delta_is_the_same_either_way(
    tokenizer: Tokenizer,
    pieces: list[str],
    stop: tuple[str, ...],
    choice: ToolChoice,
    formed: bool,
    thinking: bool,
    dialect: object,
) -> None:
    ids = [token for piece in pieces for token in tokenizer.encode(piece)]

    def read(kind: type[StreamParser]) -> list[list[Delta]]:
        made = dialect(tokenizer)  # type: ignore[operator]  # a dialect's own maker
        parser = kind(made, tokenizer, choice, stop, thinking, formed=formed)
        return [*(parser.feed([token]) for token in ids), parser.finish("stop")]

    assert read(StreamParser) == read(OneByOne)


def test_what_begins_something_is_the_first_character_of_stop_strings_and_of_markers_in_plain_text(
    tokenizer: Tokenizer,
) -> None:
    tags = json_tags(tokenizer)
    written = {opens.marker.text[0] for opens in tags.opens if opens.marker.token is None}
    assert begins(("stop", "\n"), tags.opens) == {"s", "\n"} | written
    assert begins((), ()) == frozenset()


def test_a_token_that_is_a_marker_somewhere_is_known_as_one(tokenizer: Tokenizer) -> None:
    tags = json_tags(tokenizer)
    known = {opens.marker.token for opens in tags.opens} | {marker.token for marker in tags.markers}
    assert marked(tags, tags.opens, None) >= known - {None}
    assert marked(tags, (), None) <= marked(tags, tags.opens, None)
