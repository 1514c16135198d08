"""Tries whether a model's cache can be kept in fewer bits. Whoever cannot is refused by name: never a wrong answer.

No list of families: what counts are the caches that the model asks for, and what comes out of a trial.
"""

from __future__ import annotations

from typing import Any

from mlx_lm.models.cache import ArraysCache

from ringleader.errors import ModelUnsupported
from ringleader.shard.quantised import GROUP, plain_kv
from ringleader.shard.riding import difference, step
from ringleader.shard.slice import Slice

PROMPT = (1, 5, 2, 7, 3, 4, 9, 6)
NEXT = (8, 2)
# Of the norm of what comes out, as the norm of the difference. A family that reads quantised keys as something else is
# beyond 1; 4 bits of random weights are worth a few tenths.
DIFFERENCE_MAX = 0.6


def keep_in_bits(part: Slice, bits: int) -> None:
    """Let the slice make caches of `bits` from now on. Recurrent states stay as they are. Runs some twenty tokens.

    Raises ModelUnsupported when the model has other caches than such of all tokens, or does not read quantised ones.
    """
    plain = part.make_caches()
    for cache in plain:
        if cache is not None and not plain_kv(cache) and not isinstance(cache, ArraysCache):
            raise _refused(bits, f"it has caches of another kind ({type(cache).__name__})")
    step(part, plain, (PROMPT,))
    expected = step(part, plain, (NEXT,))
    mine = [at for at, cache in enumerate(plain) if cache is not None and plain_kv(cache) and cache.keys is not None]
    for at in mine:
        for width in (plain[at].keys.shape[-1], plain[at].values.shape[-1]):
            if width % GROUP:
                raise _refused(bits, f"its heads are {width} wide, no multiple of {GROUP}")
    part.keep_in_bits(mine, bits)
    try:
        got = _tried(part)
    except Exception as fault:  # whatever a model file raises over such caches: the answer is no
        raise _refused(bits, f"its model file does not read them ({fault})") from fault
    if difference(got[0], expected[0]) > DIFFERENCE_MAX:
        raise _refused(bits, "its model file reads them wrongly")


def _tried(part: Slice) -> Any:
    caches = part.make_caches()
    step(part, caches, (PROMPT,))
    return step(part, caches, (NEXT,))


def _refused(bits: int, why: str) -> ModelUnsupported:
    return ModelUnsupported(
        f"--kv-bits {bits} cannot be had for this model: {why}. Leave it out, or use another model."
    )
