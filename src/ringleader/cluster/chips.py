"""How fast Apple's chips read their memory: the figure that decodes tokens, for nodes that were not measured.

Figures are Apple's own; the announcement or page that has each is named beside it. Where a chip is sold with two
memories, the plain name is the faster one, and the slower one is named with its GPU ("M4 Max 32-core").
"""

from __future__ import annotations

import re

GB_PER_S = 10**9

BANDWIDTH: dict[str, float] = {
    "M1": 68.25,  # Apple tells none at its announcement of November 2020: 128 bits of LPDDR4X-4266
    "M1 Pro": 200,  # "Introducing M1 Pro and M1 Max", October 2021
    "M1 Max": 400,  # the same
    "M1 Ultra": 800,  # "Apple unveils M1 Ultra", March 2022
    "M2": 100,  # "Apple unveils M2", June 2022
    "M2 Pro": 200,  # "Apple unveils M2 Pro and M2 Max", January 2023
    "M2 Max": 400,  # the same
    "M2 Ultra": 800,  # "Apple introduces M2 Ultra", June 2023
    "M3": 100,  # MacBook Pro (14-inch, Nov 2023), tech specs
    "M3 Pro": 150,  # the same
    "M3 Max": 400,  # the same: with the 40-core GPU
    "M3 Max 30-core": 300,  # the same: with the 30-core GPU
    "M3 Ultra": 819,  # Mac Studio (2025), tech specs
    "M4": 120,  # Mac mini (2024), tech specs: support.apple.com/121555
    "M4 Pro": 273,  # the same
    "M4 Max": 546,  # Mac Studio (2025), tech specs: with the 40-core GPU
    "M4 Max 32-core": 410,  # the same: with the 32-core GPU
    "M5": 153,  # "Apple unleashes M5", October 2025
    "M5 Pro": 307,  # the announcement of M5 Pro and M5 Max, March 2026
    "M5 Max": 614,  # the same: with the 40-core GPU
}
# There is no M4 Ultra: a fleet that names one must say itself how fast it is.

NAME = re.compile(r"\b(M\d+)(?: (Pro|Max|Ultra))?(?: (\d+-core))?\b")


def bandwidth(chip: str) -> float | None:
    """Bytes a second of a chip as macOS names it ("Apple M4 Max") or as fleets do ("M4 Max 32-core"); None: unknown."""
    found = NAME.search(chip)
    if found is None:
        return None
    full = " ".join(filter(None, found.groups()))
    known = BANDWIDTH.get(full) or BANDWIDTH.get(" ".join(filter(None, found.groups()[:2])))
    return known * GB_PER_S if known else None
