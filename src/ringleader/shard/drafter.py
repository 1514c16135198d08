"""The small model beside the head that makes drafts: carries out the steps that drafting.py decides.

Lives on a thread of its own, the one that loaded it (MLX arrays belong to their thread's streams). It draws as the tail
does, with the request's own seed and position: where both models think alike, they draw alike at any temperature.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from ringleader.errors import ModelUnsupported, RingleaderError
from ringleader.shard.drafting import Step
from ringleader.shard.drawing import drawn
from ringleader.shard.loader import load_whole
from ringleader.shard.slice import Slice, cache_arrays
from ringleader.shard.stepping import step_back, steps_back
from ringleader.tokenizer import Tokenizer, difference, load_tokenizer

WARM = Step(1, 0, (0, 0, 0), None)

log = logging.getLogger("ringleader.shard")


@dataclass(slots=True)
class _Held:
    caches: list[Any]
    length: int = 0


class Drafter:
    """Steps of a whole model. `width` is that of the logits which the ring draws from: no other token is drafted."""

    def __init__(self, part: Slice, width: int) -> None:
        self._part = part
        self._width = width
        self._slots: dict[int, _Held] = {}

    def step(self, step: Step) -> tuple[int | None, float]:
        """What the step drew, if it draws, and the seconds that it took."""
        begun = time.perf_counter()
        for slot in step.forgotten:
            self._slots.pop(slot, None)
        if step.forgotten and not self._slots:
            mx.clear_cache()
        token = self._taken(step) if step.tokens else None
        return token, time.perf_counter() - begun

    def _taken(self, step: Step) -> int | None:
        held = self._slots.get(step.slot)
        if held is None:
            held = self._slots[step.slot] = _Held(self._part.make_caches())
        assert step.keep <= held.length, "a step keeps what the model was given"
        step_back(held.caches, held.length - step.keep)
        logits = self._part.forward(mx.array([step.tokens], dtype=mx.uint32), held.caches)
        held.length = step.keep + len(step.tokens)
        if step.draws is None:
            mx.eval(cache_arrays(held.caches))
            return None
        rows = self._as_wide(logits[0, -1:].astype(mx.float32))
        return int(drawn(rows, [step.draws], [held.length])[0].item())

    def _as_wide(self, rows: Any) -> Any:
        """Padded vocabularies differ in width; a draw's noise is that of its width."""
        missing = self._width - rows.shape[-1]
        if missing > 0:
            return mx.pad(rows, [(0, 0), (0, missing)], constant_values=-mx.inf)
        return rows[:, : self._width]

    def reset(self) -> None:
        """Forget every slot."""
        self._slots.clear()


@dataclass(frozen=True, slots=True)
class DraftModel:
    """A drafter with its thread, and the tokens that it takes for an answer's end."""

    drafter: Drafter
    thread: ThreadPoolExecutor
    ends: frozenset[int]


def load_drafter(directory: Path, width: int, tokenizer: Tokenizer) -> Drafter:
    """Load the whole model in `directory` to draft for one with this tokenizer, whose logits are so wide; on the
    drafter's thread.

    Raises ModelUnsupported where it cannot draft, naming why, and ModelFault.
    """
    if unlike := difference(tokenizer, load_tokenizer(directory)):
        raise ModelUnsupported(f"{directory.name} cannot make drafts: its tokenizer is another one: {unlike}")
    part = load_whole(directory)
    if not steps_back(part):
        raise ModelUnsupported(f"{directory.name} cannot make drafts: its caches cannot step back")
    drafter = Drafter(part, width)
    drafter.step(WARM)
    drafter.reset()
    return drafter


def try_drafter(directory: Path, model: Path) -> DraftModel | None:
    """A draft model for the model in the directory `model`; None, with a warning, where there can be none: nothing but
    speed is lost."""
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="drafts")
    try:
        tokenizer = load_tokenizer(model)
        drafter = thread.submit(load_drafter, directory, tokenizer.vocab_size, tokenizer).result()
    except RingleaderError as error:
        log.warning("there are no drafts of a model: %s", error)
        thread.shutdown(wait=False)
        return None
    log.info("%s makes drafts", directory.name)
    return DraftModel(drafter, thread, frozenset(tokenizer.eos_ids))
