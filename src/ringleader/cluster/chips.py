"""How fast Apple's chips read their memory: the figure that decodes tokens, for nodes that were not measured.

Figures are Apple's own, from the newsroom page of each chip and the tech-spec pages of the Macs that have it; the
page is named beside each row. Where a chip is sold with two memories, the plain name is the larger one.
"""

from __future__ import annotations

import re

GB_PER_S = 10**9

# chip -> GB/s; NEWS: apple.com/newsroom/YYYY/MM/..., SPECS: support.apple.com/en-us/NUMBER
BANDWIDTH: dict[str, float] = {
    "M1": 68.25,  # SPECS 111883 (MacBook Pro 13-inch, 2020): LPDDR4X-4266, 128 bits
    "M1 Pro": 200,  # NEWS 2021/10 introducing-m1-pro-and-m1-max
    "M1 Max": 400,  # the same page
    "M1 Ultra": 800,  # NEWS 2022/03 apple-unveils-m1-ultra
    "M2": 100,  # NEWS 2022/06 apple-unveils-m2
    "M2 Pro": 200,  # NEWS 2023/01 apple-unveils-m2-pro-and-m2-max
    "M2 Max": 400,  # the same page
    "M2 Ultra": 800,  # NEWS 2023/06 apple-introduces-m2-ultra
    "M3": 100,  # NEWS 2023/10 apple-unveils-m3-m3-pro-and-m3-max; SPECS 117735
    "M3 Pro": 150,  # SPECS 117736 (MacBook Pro 14-inch, Nov 2023)
    "M3 Max": 400,  # SPECS 117737 (MacBook Pro 16-inch, Nov 2023): with the 40-core GPU
    "M3 Max 30-core": 300,  # the same page: with the 30-core GPU
    "M3 Ultra": 819,  # SPECS 122211 (Mac Studio, 2025); NEWS 2025/03 apple-reveals-m3-ultra
    "M4": 120,  # NEWS 2024/10 apple-introduces-m4-pro-and-m4-max; SPECS 121555 (Mac mini, 2024)
    "M4 Pro": 273,  # the same pages
    "M4 Max": 546,  # SPECS 122211: with the 40-core GPU
    "M4 Max 32-core": 410,  # the same page: with the 32-core GPU
    "M5": 153,  # NEWS 2025/10 apple-unleashes-m5
}
# Apple has made no M4 Ultra: a fleet that names one must say bytes_per_s itself.

NAME = re.compile(r"\b(M\d+)(?: (Pro|Max|Ultra))?(?: (\d+-core))?\b")


def bandwidth(chip: str) -> float | None:
    """Bytes a second of a chip as macOS names it ("Apple M4 Max") or as fleets do ("M4 Max 32-core"); None: unknown."""
    found = NAME.search(chip)
    if found is None:
        return None
    full = " ".join(filter(None, found.groups()))
    known = BANDWIDTH.get(full) or BANDWIDTH.get(" ".join(filter(None, found.groups()[:2])))
    return known * GB_PER_S if known else None
