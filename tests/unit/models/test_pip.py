"""What pip's output becomes, as one line that a person can act on."""

from __future__ import annotations

from ringleader.models.pip import REASON_CHARS_MAX, failure_reason


def test_without_a_network_the_reason_is_the_broken_connection() -> None:
    said = """
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<urllib3.HTTPConnection object \
at 0x7f>: Failed to establish a new connection: [Errno 111] Connection refused')': /simple/tiny/
ERROR: Could not find a version that satisfies the requirement tiny==1.0 (from versions: none)
ERROR: No matching distribution found for tiny==1.0
"""
    reason = failure_reason(said)
    assert reason.startswith("Failed to establish a new connection: [Errno 111] Connection refused; Could not find")
    assert "\n" not in reason


def test_a_traceback_is_shortened_to_its_last_line() -> None:
    said = "ERROR: Exception:\nTraceback (most recent call last):\n  File x\nPermissionError: [Errno 13] denied: 'x'\n"
    assert failure_reason(said) == "PermissionError: [Errno 13] denied: 'x'"


def test_silence_and_floods_still_give_one_short_line() -> None:
    assert failure_reason("") == "it said nothing"
    assert len(failure_reason("ERROR: " + "x" * 10_000)) == REASON_CHARS_MAX
