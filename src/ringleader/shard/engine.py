"""Computes frames: owns the model slice, every slot's caches and, on the tail, every slot's sampler.

All methods run on one thread, the one that loaded the slice (MLX arrays belong to their thread's streams);
`service.py` sees to that. A frame that does not follow its slot's last position is refused and changes nothing.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np

from ringleader.shard.batcher import Turn
from ringleader.shard.closing import Closer
from ringleader.shard.prepared import Prepared, can_prepare
from ringleader.shard.sampler import Picked, Sampler
from ringleader.shard.slice import Slice, cache_arrays
from ringleader.tokenizer import Tokenizer
from ringleader.values import SlotSpec


class FrameRefused(Exception):
    """The frame does not belong here; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Activation:
    """A tensor as it travels: raw little-endian bytes of `dtype` ("f32", "f16", "bf16") in `shape`."""

    data: bytes
    dtype: str
    shape: tuple[int, ...]


@dataclass(slots=True)
class _Slot:
    caches: list[Any]
    sampler: Sampler | None
    steady: bool  # after a sampled token comes a step of one token, and it can be prepared
    position: int = 0
    prepared: Prepared | None = None


_DTYPES = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class Engine:
    """The compute of one shard. `tokenizer` is needed on the tail alone, for grammars."""

    def __init__(self, part: Slice, tokenizer: Tokenizer | None, slots_max: int = 64) -> None:
        self._part = part
        self._slots: dict[int, _Slot] = {}
        self._slots_max = slots_max
        self._tokenizer = tokenizer
        self._eos = frozenset(tokenizer.eos_ids if tokenizer else ())
        self._compiler = ThreadPoolExecutor(max_workers=1, thread_name_prefix="grammar")
        self._closer: Future[Closer] | None = None  # made with the first grammar

    @property
    def slots(self) -> int:
        return len(self._slots)

    @property
    def is_tail(self) -> bool:
        return self._part.tail

    @property
    def row_bytes(self) -> int:
        """Bytes of one token's activation on the wire."""
        return int(self._part.hidden_size) * int(self._part.activation_dtype.size)

    def memory_bytes(self) -> int:
        """What MLX holds in this process."""
        return int(mx.get_active_memory())

    def reset(self) -> None:
        """Forget every slot."""
        self._slots.clear()
        mx.clear_cache()

    def release(self, slots: tuple[int, ...]) -> None:
        """Forget these slots; unknown ones are none of our business."""
        for slot in slots:
            self._slots.pop(slot, None)
        if slots and not self._slots:
            mx.clear_cache()

    def run(self, turn: Turn, received: Activation | None) -> Activation | Picked:
        """Compute this shard's part of one segment. The tail's answer is what it picked (nothing for a chunk).

        Raises FrameRefused.
        """
        plain = None if received is None else self._checked(received, len(turn.tokens))  # before a slot is begun
        slot = self._slot(turn)
        dtype = None if received is None else _DTYPES[received.dtype]
        out = self._prepared_out(slot, turn, plain, dtype)
        if out is None:
            arrived = None if plain is None else _array(plain, dtype)
            out = self._part.forward(mx.array([turn.tokens], dtype=mx.uint32), slot.caches, arrived)
        slot.position += len(turn.tokens)
        if not self._part.tail:
            return self._pack(out)
        assert slot.sampler is not None
        slot.sampler.extend_prompt(turn.tokens)
        if turn.sample:
            return slot.sampler.pick(out[0, -1], lambda: self.prepare(turn.slot))
        mx.eval(cache_arrays(slot.caches))
        return Picked()

    def prepare(self, number: int) -> None:
        """Build a slot's next step ahead, if it will likely be one of one token. Call it while others compute."""
        slot = self._slots.get(number)
        if slot is not None and slot.steady and slot.prepared is None:
            slot.prepared = Prepared(self._part, slot.caches)

    def _prepared_out(self, slot: _Slot, turn: Turn, plain: Any, dtype: Any) -> Any:
        """The output of the step that was prepared, or None when there is none for this turn."""
        prepared, slot.prepared = slot.prepared, None
        if prepared is None:
            return None
        if len(turn.tokens) == 1 and (dtype is None or dtype == self._part.activation_dtype):
            return prepared.filled(turn.tokens[0], plain)
        prepared.undo()
        return None

    def _slot(self, turn: Turn) -> _Slot:
        slot = self._slots.get(turn.slot)
        if slot is None:
            if turn.spec is None or turn.position != 0:
                raise FrameRefused(f"slot {turn.slot} is not known here and its frame does not begin it")
            if len(self._slots) >= self._slots_max:
                raise FrameRefused(f"{self._slots_max} slots are in use, no room for slot {turn.slot}")
            sampler = self._sampler(turn.spec) if self._part.tail else None
            caches = self._part.make_caches()
            steady = can_prepare(caches) and not (turn.spec.grammar and turn.spec.followers)
            slot = self._slots[turn.slot] = _Slot(caches, sampler, steady)
        if slot.position != turn.position:
            raise FrameRefused(f"slot {turn.slot} is at {slot.position}, its frame at {turn.position}")
        return slot

    def _sampler(self, spec: SlotSpec) -> Sampler:
        pending: Future[Any] | None = None
        if spec.grammar:
            pending = self._compiler.submit(self._compile, spec.grammar)
            self._closer = self._closer or self._compiler.submit(self._make_closer)
        return Sampler(spec, pending, self._eos, self._closer)

    def _compile(self, grammar: str) -> Any:
        from llguidance import LLMatcher

        assert self._tokenizer is not None
        return LLMatcher(self._tokenizer.grammar_view, grammar, log_level=0)

    def _make_closer(self) -> Closer:
        assert self._tokenizer is not None
        return Closer(self._tokenizer.grammar_view, self._eos)

    def _checked(self, received: Activation, count: int) -> Any:
        """The activation as numpy sees it: 16-bit floats as integers."""
        if received.shape != (1, count, self._part.hidden_size):
            raise FrameRefused(f"activation of shape {received.shape}, expected (1, {count}, {self._part.hidden_size})")
        size = _DTYPES[received.dtype].size
        if len(received.data) != int(np.prod(received.shape)) * size:
            raise FrameRefused(f"activation of {len(received.data)} bytes does not fill its shape {received.shape}")
        plain = np.frombuffer(received.data, dtype=np.uint16 if size == 2 else np.float32)
        return plain.reshape(received.shape)

    def _pack(self, out: Any) -> Activation:
        if out.dtype not in _NAMES:
            out = out.astype(mx.float32)
        plain = out.view(mx.uint16) if out.dtype.size == 2 else out
        mx.eval(plain)
        return Activation(bytes(memoryview(plain)), _NAMES[out.dtype], tuple(out.shape))


def _array(plain: Any, dtype: Any) -> Any:
    array = mx.array(plain)
    return array.view(dtype) if dtype.size == 2 else array
