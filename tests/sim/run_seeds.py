"""Runs many seeds of the simulated cluster, on every core: `python -m tests.sim.run_seeds 100000 [first seed]`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.sim.cluster import Cluster
from tests.sim.laws import LawBroken

CHUNK = 50
FAILURES_MAX = 5  # seeds that are shown; after so many the rest is not run


def run_chunk(first: int, last: int) -> list[str]:
    """The failures of seeds `first` to `last - 1`: seed, law and trace of each."""
    failures: list[str] = []
    for seed in range(first, last):
        try:
            Cluster(seed).run()
        except LawBroken as broken:
            failures.append(str(broken))
    return failures


def run_all(seeds: int, first: int = 0, progress: Callable[[int], None] = lambda done: None) -> Iterator[str]:
    """The failures of so many seeds, as they are found. `progress(done)` after each chunk."""
    stop = first + seeds
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        chunks = [pool.submit(run_chunk, at, min(at + CHUNK, stop)) for at in range(first, stop, CHUNK)]
        found = 0
        for done, chunk in enumerate(as_completed(chunks), 1):
            failures = chunk.result()
            found += len(failures)
            yield from failures
            progress(min(done * CHUNK, seeds))
            if found >= FAILURES_MAX:
                pool.shutdown(wait=False, cancel_futures=True)
                return


def main() -> int:
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began = time.monotonic()
    shown = began

    def progress(done: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown >= 5.0 or done == seeds:
            shown = now
            print(f"{done} of {seeds} seeds, {done / (now - began):.0f} a second", flush=True)

    failures = 0
    for failure in run_all(seeds, first, progress):
        failures += 1
        print(failure, flush=True)
    print("every law held" if not failures else f"{failures} seeds broke a law; one alone: Cluster(SEED).run()")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
