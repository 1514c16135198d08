"""What people ask of a model's weights: how many numbers, in how many bits, in how many bytes. From headers alone."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from ringleader.models.headers import read_headers
from ringleader.models.store import weights_of

PACKED_DTYPE, PACKED_BITS = "U32", 32
_BITS = re.compile(r"(\d+)-bit")


@dataclass(frozen=True, slots=True)
class Weighed:
    """`kind` says dtype and bits ("fp32", "4-bit, fp16"); `parameters` counts what is packed as what it was."""

    kind: str
    parameters: int
    size_bytes: int


def weigh(directory: Path) -> Weighed:
    """The weights in `directory`. Takes milliseconds. Raises ModelFault."""
    kind = weights_of(directory)
    found = _BITS.search(kind)
    in_one = PACKED_BITS / int(found[1]) if found else 1
    count, size = 0.0, 0
    for header in read_headers(directory).values():
        for name, entry in header.tensors.items():
            size += entry.bytes
            if not (found and name.endswith((".scales", ".biases"))):
                count += math.prod(entry.shape) * (in_one if entry.dtype == PACKED_DTYPE else 1)
    return Weighed(kind, round(count), size)
