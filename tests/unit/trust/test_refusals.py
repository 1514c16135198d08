from __future__ import annotations

from ringleader.trust.refusals import AGAIN_S, CAUSES_MAX, Refusals


class Log:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.lines: list[str] = []
        self.refusals = Refusals(lambda: self.now_s, self.lines.append)


def test_a_cause_is_said_once_a_minute_with_how_often_it_came() -> None:
    log = Log()
    for _ in range(1000):
        log.refusals.note("a stranger")
    assert log.lines == ["refused a stranger"]
    log.now_s = AGAIN_S
    log.refusals.note("a stranger")
    assert log.lines[1:] == ["refused a stranger (1000 times)"]


def test_other_causes_are_said_too_but_not_without_end() -> None:
    log = Log()
    for number in range(10 * CAUSES_MAX):
        log.refusals.note(f"stranger {number}")
    assert len(log.lines) == CAUSES_MAX + 1
    assert log.lines[-1] == "refused many others"
    log.now_s = AGAIN_S
    log.refusals.note("a new one")
    assert log.lines[-1] == "refused a new one"
