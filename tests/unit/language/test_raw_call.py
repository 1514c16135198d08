from __future__ import annotations

from ringleader.language.dialects.dialect import Arguments, Marker, Started
from ringleader.language.dialects.json_call import JsonBlock
from ringleader.language.raw_call import RawBlock


def test_a_marker_after_the_name_does_not_bring_the_name_again_as_input() -> None:
    block = RawBlock(JsonBlock(None), frozenset({"patch"}))
    events = [event for char in "patch\nabc" for event in block.push(char)]
    events += block.meet(Marker("<x>", 7))
    assert events[0] == Started("patch")
    assert "".join(event.text for event in events if isinstance(event, Arguments)).startswith("abc")
    assert "patch" not in "".join(event.text for event in events if isinstance(event, Arguments))
