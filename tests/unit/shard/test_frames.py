"""Everything that travels comes out as it went in, and a decode frame stays small."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringleader.shard.activations import Activation, FrameRefused
from ringleader.shard.batcher import Segments, Turn
from ringleader.shard.frames import activation_of, frame, picked_of, sampled, sampled_frame, segments_of, stage_seconds
from ringleader.shard.prefixes import NO_ORDERS, Orders
from ringleader.shard.sampler import Picked
from ringleader.v1 import ring_pb2 as pb
from ringleader.values import Sampling, SlotSpec, TokenLogprob

PLAN = bytes(range(16))
U32 = st.integers(0, 2**32 - 1)
F32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
TOKENS = st.lists(U32, min_size=1, max_size=6).map(tuple)

SAMPLINGS = st.builds(
    Sampling,
    seed=st.integers(0, 2**64 - 1),
    temperature=F32,
    top_p=F32,
    top_k=U32,
    min_p=F32,
    repetition_penalty=F32,
    presence_penalty=F32,
    frequency_penalty=F32,
    logit_bias=st.lists(st.tuples(U32, F32), max_size=3).map(tuple),
)
SPECS = st.builds(
    SlotSpec,
    sampling=SAMPLINGS,
    max_tokens=U32,
    prompt_tokens=U32,
    opening_tokens=U32,
    grammar=st.text(max_size=20),
    top_logprobs=st.none() | st.integers(0, 20),
    followers=st.booleans(),
    drafts=st.booleans(),
    prediction=TOKENS,
)
PLAIN = st.builds(Turn, slot=U32, position=U32, tokens=TOKENS, sample=st.booleans(), spec=st.none() | SPECS)
TURNS = st.builds(
    lambda turn, drafts: replace(turn, drafts=min(drafts, len(turn.tokens) - 1) * turn.sample), PLAIN, st.integers(0, 5)
)
LOGPROBS = st.builds(TokenLogprob, token=U32, logprob=F32, top=st.lists(st.tuples(U32, F32), max_size=3).map(tuple))


def travelled(message: pb.Frame) -> pb.Frame:
    return pb.Frame.FromString(message.SerializeToString())


PASSES = st.one_of(
    st.builds(lambda turn: Segments((turn,)), TURNS),
    st.builds(Segments, st.lists(TURNS, min_size=1, max_size=4).map(tuple), st.integers(1, 2**32 - 1)),
)


@given(sent=PASSES, epoch=U32, step=st.integers(1, 2**63), released=st.lists(U32, max_size=4).map(tuple))
def test_segments_come_out_as_they_went_in(sent: Segments, epoch: int, step: int, released: tuple[int, ...]) -> None:
    message = travelled(frame(PLAN, epoch, step, sent, Orders(released), None))
    assert segments_of(message) == sent
    assert (message.plan, message.epoch, message.step, tuple(message.released)) == (PLAN, epoch, step, released)


@given(stage_s=st.lists(st.floats(0, 4000), max_size=4).map(tuple))
def test_what_the_stages_took_comes_out_to_the_microsecond(stage_s: tuple[float, ...]) -> None:
    sent = Segments((Turn(1, 5, (7,), True, None),))
    for message in (
        frame(PLAN, 1, 1, sent, NO_ORDERS, None, stage_s),
        sampled_frame(PLAN, 1, 1, sent, (Picked((3,)),), stage_s),
    ):
        assert stage_seconds(travelled(message)) == pytest.approx(stage_s, abs=1e-6)


def test_what_was_picked_for_a_batch_names_each_of_its_slots() -> None:
    sent = Segments((Turn(4, 5, (7,), True, None), Turn(2, 9, (7, 8), False, None)), batch=3)
    message = travelled(sampled_frame(PLAN, 1, 1, sent, (Picked((3, 4)), Picked()), ()))
    assert [(each.slot, picked_of(each)) for each in message.sampled] == [(4, Picked((3, 4))), (2, Picked())]


@given(data=st.binary(max_size=64), dtype=st.sampled_from(["f32", "f16", "bf16"]), shape=st.tuples(U32, U32, U32))
def test_an_activation_comes_out_as_it_went_in(data: bytes, dtype: str, shape: tuple[int, int, int]) -> None:
    turn = Segments((Turn(1, 0, (1,), True, None),))
    activation = Activation(data, dtype, shape)
    assert activation_of(travelled(frame(PLAN, 1, 1, turn, NO_ORDERS, activation))) == activation


@st.composite
def picks(draw: st.DrawFn) -> Picked:
    logprobs = tuple(draw(st.lists(LOGPROBS, max_size=4)))
    tokens = tuple(value.token for value in logprobs) or draw(TOKENS)
    finish = draw(st.sampled_from(["", "stop", "length", "error"]))
    return Picked(tokens, finish, draw(st.text(max_size=10)), logprobs)  # type: ignore[arg-type]  # one of Finish


@given(picked=picks(), slot=U32)
def test_what_the_tail_picked_comes_out_as_it_went_in(picked: Picked, slot: int) -> None:
    message = pb.Sampled.FromString(sampled(slot, picked).SerializeToString())
    assert picked_of(message) == picked
    assert message.slot == slot


@pytest.mark.parametrize(("tokens", "sample"), [((3,), True), ((3, 4), False)])
def test_a_segment_of_nothing_but_drafts_or_one_that_does_not_sample_is_refused(
    tokens: tuple[int, ...], sample: bool
) -> None:
    sent = Segments((Turn(1, 5, tokens, sample, None, drafts=1),))
    with pytest.raises(FrameRefused, match="cannot have 1 drafts"):
        segments_of(travelled(frame(PLAN, 1, 1, sent, NO_ORDERS, None)))


def test_a_frame_that_only_releases_has_no_turn() -> None:
    message = travelled(frame(PLAN, 1, 1, None, Orders((3, 4)), None))
    assert segments_of(message) is None
    assert tuple(message.released) == (3, 4)


@pytest.mark.parametrize("position", [1, 1000, 2**31])
@pytest.mark.parametrize(("dtype", "size"), [("f32", 4), ("bf16", 2)])
@pytest.mark.parametrize("hidden", [64, 576, 7168])
def test_a_decode_frame_does_not_grow_with_the_context(position: int, dtype: str, size: int, hidden: int) -> None:
    turn = Segments((Turn(2**32 - 1, position, (2**32 - 1,), True, None),))
    activation = Activation(bytes(hidden * size), dtype, (1, 1, hidden))
    stage_s = (1.5,) * 4
    message = frame(PLAN, 2**32 - 1, 2**63, turn, Orders((2**32 - 1,)), activation, stage_s)
    assert message.ByteSize() <= hidden * size + 100
    assert message.ByteSize() <= 2 * hidden * size + 200, "the promise of the benchmarks"


def test_a_tensor_is_not_copied_into_another_form() -> None:
    row = struct.pack("<4f", 1.5, -2.0, 0.0, 3.25)
    message = frame(PLAN, 1, 1, Segments((Turn(1, 0, (1,), True, None),)), NO_ORDERS, Activation(row, "f32", (1, 1, 4)))
    assert message.tensor == row, "raw little-endian floats"


def test_a_segment_whose_count_is_not_its_tokens_is_refused() -> None:
    for count, tokens in ((2, [1]), (0, []), (0, [1])):
        message = pb.Frame(segments=[pb.Segment(slot=1, count=count, tokens=tokens)])
        with pytest.raises(FrameRefused, match="positions"):
            segments_of(message)


def test_two_segments_in_a_frame_without_a_batch_are_refused() -> None:
    segment = pb.Segment(slot=1, count=1, tokens=[1])
    with pytest.raises(FrameRefused, match="names no batch"):
        segments_of(pb.Frame(segments=[segment, segment]))


@pytest.mark.parametrize("dtype", [0, 17])
def test_an_activation_of_unknown_type_is_refused(dtype: int) -> None:
    with pytest.raises(FrameRefused, match="unknown type"):
        activation_of(pb.Frame(tensor=b"1234", dtype=dtype, shape=[1, 1, 1]))  # type: ignore[arg-type]  # as from a peer
