"""Frames between protobuf and the shard's own values, each way in one place."""

from __future__ import annotations

from ringleader.shard.batcher import Turn
from ringleader.shard.engine import Activation, FrameRefused
from ringleader.shard.sampler import Picked
from ringleader.v1 import ring_pb2 as pb
from ringleader.wire import (
    FINISH_FROM_WIRE,
    FINISH_TO_WIRE,
    logprob_to_wire,
    logprobs_from_wire,
    spec_from_wire,
    spec_to_wire,
)

FRAME_BYTES_MAX = 4 << 20  # a prompt is cut so that no frame is larger

_TO_WIRE = {"f32": pb.DTYPE_F32, "f16": pb.DTYPE_F16, "bf16": pb.DTYPE_BF16}
_FROM_WIRE = {value: name for name, value in _TO_WIRE.items()}


def frame(
    plan: bytes,
    epoch: int,
    step: int,
    turn: Turn | None,
    released: tuple[int, ...],
    activation: Activation | None,
) -> pb.Frame:
    """The frame that carries `turn` (None: it only releases slots) to the next shard."""
    message = pb.Frame(plan=plan, epoch=epoch, step=step, released=released)
    if turn is not None:
        message.segments.append(
            pb.Segment(
                slot=turn.slot,
                position=turn.position,
                count=len(turn.tokens),
                kind=pb.KIND_SAMPLE if turn.sample else pb.KIND_PROMPT,
                tokens=turn.tokens,
                spec=None if turn.spec is None else spec_to_wire(turn.spec),
            )
        )
    if activation is not None:
        message.tensor, message.dtype = activation.data, _TO_WIRE[activation.dtype]
        message.shape.extend(activation.shape)
    return message


def turn_of(message: pb.Frame) -> Turn | None:
    """The frame's segment, or None. Raises FrameRefused when it contradicts itself."""
    if not message.segments:
        return None
    if len(message.segments) > 1:
        raise FrameRefused("this version takes one segment a frame")
    segment = message.segments[0]
    if segment.count != len(segment.tokens) or not segment.count:
        raise FrameRefused(f"a segment of {segment.count} positions holds {len(segment.tokens)} tokens")
    return Turn(
        slot=segment.slot,
        position=segment.position,
        tokens=tuple(segment.tokens),
        sample=segment.kind == pb.KIND_SAMPLE,
        spec=spec_from_wire(segment.spec) if segment.HasField("spec") else None,
    )


def activation_of(message: pb.Frame) -> Activation:
    """The frame's tensor. Raises FrameRefused when its type is not known."""
    if message.dtype not in _FROM_WIRE:
        raise FrameRefused(f"activation of unknown type {message.dtype}")
    return Activation(message.tensor, _FROM_WIRE[message.dtype], tuple(message.shape))


def sampled(slot: int, picked: Picked) -> pb.Sampled:
    return pb.Sampled(
        slot=slot,
        tokens=picked.tokens,
        finish=FINISH_TO_WIRE[picked.finish],
        error=picked.error,
        logprobs=[logprob_to_wire(each) for each in picked.logprobs],
    )


def picked_of(message: pb.Sampled) -> Picked:
    tokens = tuple(message.tokens)
    logprobs = logprobs_from_wire(tokens, message.logprobs)
    return Picked(tokens, FINISH_FROM_WIRE[message.finish], message.error, logprobs)
