"""The packages of the extra `ringleader[agent]`: imported where they are used, and told of clearly where they lack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ringleader.errors import ExtraMissing


@contextmanager
def extra(package: str) -> Iterator[None]:
    """Around the late import of `package`.

    Raises:
        ExtraMissing: it is not installed; says with which command it is. A package that `package` itself lacks is
            told as Python tells it, since installing the extra again would not help.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != package:
            raise
        message = f"the package {package!r} is not installed. Install it: pip install 'ringleader[agent]'"
        raise ExtraMissing(message) from missing
