"""Frames between protobuf and the shard's own values, each way in one place."""

from __future__ import annotations

from ringleader.shard.activations import Activation, FrameRefused
from ringleader.shard.batcher import Segments, Turn
from ringleader.shard.prefixes import BLOCK_TOKENS, NAME_BYTES, Drop, Keep, KeptOrder, Orders
from ringleader.shard.sampler import Picked
from ringleader.v1 import ring_pb2 as pb
from ringleader.wire import (
    CODING_FROM_WIRE,
    CODING_TO_WIRE,
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
    sent: Segments | None,
    orders: Orders,
    activation: Activation | None,
    stage_s: tuple[float, ...] = (),
    missed: bool = False,
) -> pb.Frame:
    """The frame that carries `sent` (None: orders alone) to the next shard; as good as none if it `missed` a prefix."""
    message = pb.Frame(plan=plan, epoch=epoch, step=step, released=orders.released, stage_us=_micros(stage_s))
    message.kept.extend(_kept_order(order) for order in orders.kept)
    message.missed = missed
    if sent is not None:
        message.batch = sent.batch
        message.segments.extend(_segment(turn) for turn in sent.turns)
    if activation is not None:
        message.tensor, message.dtype = activation.data, _TO_WIRE[activation.dtype]
        message.coding = CODING_TO_WIRE[activation.coding]
        message.shape.extend(activation.shape)
    return message


def _segment(turn: Turn) -> pb.Segment:
    return pb.Segment(
        slot=turn.slot,
        position=turn.position,
        count=len(turn.tokens),
        kind=pb.KIND_SAMPLE if turn.sample else pb.KIND_PROMPT,
        tokens=turn.tokens,
        drafts=turn.drafts,
        spec=None if turn.spec is None else spec_to_wire(turn.spec),
        begins_from=turn.begins_from,
    )


def _kept_order(order: KeptOrder) -> pb.KeptOrder:
    if isinstance(order, Drop):
        return pb.KeptOrder(drop=pb.Drop(names=order.names, states=order.states))
    keep = pb.Keep(slot=order.slot, parent=order.parent, start=order.start, stop=order.stop, state=order.state)
    keep.names.extend(order.names)
    return pb.KeptOrder(keep=keep)


def orders_of(message: pb.Frame) -> Orders:
    """What the frame orders before its segments. Raises FrameRefused when an order contradicts itself."""
    return Orders(tuple(message.released), tuple(_order(each) for each in message.kept))


def _order(message: pb.KeptOrder) -> KeptOrder:
    if message.HasField("drop"):
        return Drop(tuple(message.drop.names), tuple(message.drop.states))
    m = message.keep
    blocks = -(-(m.stop - m.start) // BLOCK_TOKENS)
    if m.start > m.stop or blocks != len(m.names) or not (m.names or (m.state and m.parent)):
        raise FrameRefused(f"{len(m.names)} blocks are to be kept at {m.start} to {m.stop} of slot {m.slot}")
    if any(len(name) != NAME_BYTES for name in m.names):
        raise FrameRefused(f"names of {NAME_BYTES} bytes are wanted for what is kept of slot {m.slot}")
    return Keep(m.slot, m.parent, m.start, m.stop, tuple(m.names), m.state)


def segments_of(message: pb.Frame) -> Segments | None:
    """The frame's segments, or None. Raises FrameRefused when they contradict themselves."""
    if not message.segments:
        return None
    if len(message.segments) > 1 and not message.batch:
        raise FrameRefused(f"{len(message.segments)} segments came in one frame that names no batch")
    return Segments(tuple(_turn(segment) for segment in message.segments), message.batch)


def _turn(segment: pb.Segment) -> Turn:
    if segment.count != len(segment.tokens) or not segment.count:
        raise FrameRefused(f"a segment of {segment.count} positions holds {len(segment.tokens)} tokens")
    if segment.drafts and (segment.drafts >= segment.count or segment.kind != pb.KIND_SAMPLE):
        raise FrameRefused(f"a segment of {segment.count} tokens cannot have {segment.drafts} drafts")
    return Turn(
        slot=segment.slot,
        position=segment.position,
        tokens=tuple(segment.tokens),
        sample=segment.kind == pb.KIND_SAMPLE,
        spec=spec_from_wire(segment.spec) if segment.HasField("spec") else None,
        drafts=segment.drafts,
        begins_from=segment.begins_from,
    )


def stage_seconds(message: pb.Frame) -> tuple[float, ...]:
    """What each stage so far took for this frame, head first."""
    return tuple(micros / 1e6 for micros in message.stage_us)


def _micros(stage_s: tuple[float, ...]) -> list[int]:
    return [min(2**32 - 1, round(seconds * 1e6)) for seconds in stage_s]


def activation_of(message: pb.Frame) -> Activation:
    """The frame's tensor. Raises FrameRefused when its type is not known."""
    if message.dtype not in _FROM_WIRE:
        raise FrameRefused(f"activation of unknown type {message.dtype}")
    if message.coding not in CODING_FROM_WIRE:
        raise FrameRefused(f"activation of unknown coding {message.coding}")
    coding = CODING_FROM_WIRE[message.coding]
    return Activation(message.tensor, _FROM_WIRE[message.dtype], tuple(message.shape), coding)


def sampled_frame(
    plan: bytes,
    epoch: int,
    step: int,
    sent: Segments,
    picked: tuple[Picked, ...],
    stage_s: tuple[float, ...],
    missed: bool = False,
) -> pb.Frame:
    """What the tail picked for the segments of `sent`, on its way to the head."""
    rows = [sampled(turn.slot, each) for turn, each in zip(sent.turns, picked, strict=True)]
    return pb.Frame(plan=plan, epoch=epoch, step=step, sampled=rows, stage_us=_micros(stage_s), missed=missed)


def sampled(slot: int, picked: Picked) -> pb.Sampled:
    return pb.Sampled(
        slot=slot,
        tokens=picked.tokens,
        finish=FINISH_TO_WIRE[picked.finish],
        error=picked.error,
        logprobs=[logprob_to_wire(each) for each in picked.logprobs],
        drawn=picked.drawn,
        drafts=picked.drafts,
    )


def missed_by(message: pb.Frame) -> tuple[int, ...]:
    """Slots of a returned frame for which a shard lacked the prefix."""
    return tuple(each.slot for each in message.sampled) if message.missed else ()


def picked_of(message: pb.Sampled) -> Picked:
    tokens = tuple(message.tokens)
    logprobs = logprobs_from_wire(tokens, message.logprobs)
    finish = FINISH_FROM_WIRE[message.finish]
    return Picked(tokens, finish, message.error, logprobs, message.drawn, tuple(message.drafts))
