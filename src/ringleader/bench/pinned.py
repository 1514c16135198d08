"""Runs a program on one processor: `python -m ringleader.bench.pinned NUMBER COMMAND...`. Linux only.

The program is started after the tie is made, since libraries count the processors when they are loaded.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Tie this process down and become the program."""
    os.sched_setaffinity(0, {int(sys.argv[1])})
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
