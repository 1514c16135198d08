"""A process that behaves like a shard, or misbehaves: the name of its model directory says how."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def ready(listen: str) -> None:
    say(progress=0.5)
    say(ready={"address": f"{listen.rpartition(':')[0]}:1", "memory_bytes": 42, "pid": os.getpid()})
    sys.stdin.read()  # the leash


def main() -> int:
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    match Path(options["--directory"]).name:
        case "ready":
            ready(options["--listen"])
        case "echo":
            say(failed=json.dumps(options))
            return 3
        case "mute-fault":
            return 3
        case "crash":
            print("first words\nlast words", file=sys.stderr, flush=True)
            return 1
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "slow":
            say(progress=0.25)
            time.sleep(0.5)
            ready(options["--listen"])
        case "silent":
            time.sleep(60)
        case "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            ready(options["--listen"])
        case "chatty":
            print("no JSON\n[1]\n" + "x" * 3_000_000, flush=True)
            print("y" * 3_000_000, file=sys.stderr, flush=True)
            ready(options["--listen"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
