"""A failing program's last words are kept, however much it said before."""

from __future__ import annotations

import subprocess
import sys

from ringleader.agent.tools.error_tail import KEPT_BYTES, ErrorTail


async def test_the_last_words_are_told_and_the_first_forgotten() -> None:
    tail = ErrorTail("talker")
    program = "import sys; sys.stderr.write('first ' + 'x' * 500_000 + ' last'); sys.exit(1)"
    subprocess.run([sys.executable, "-c", program], stderr=tail.file, check=False)  # noqa: ASYNC221 - short, and alone
    told = await tail.told()
    assert told.startswith("; it said last: xxx") and told.endswith(" last") and len(told) <= KEPT_BYTES + 20


async def test_a_program_that_said_nothing_adds_nothing() -> None:
    assert await ErrorTail("silent").told() == ""
