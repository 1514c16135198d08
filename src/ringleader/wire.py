"""What both ends of a ring's wire share: versions, limits, and values to protobuf and back, each in one place."""

from __future__ import annotations

from collections.abc import Iterable

from ringleader.v1 import ring_pb2 as pb
from ringleader.values import Coding, Fault, Finish, Ride, Sampling, SlotSpec, TokenLogprob

PROTOCOL_VERSION = 1
DIAL_DEADLINE_S = 10.0
EPOCH_KEY = "ringleader-epoch"  # of a master's stream to the head: the linking that it belongs to
RING_MESSAGE_BYTES_MAX = 8 << 20  # a frame of 4 MiB and what travels with it: ids, grammar text
CONTROL_MESSAGE_BYTES_MAX = 1 << 20  # words between nodes are small; a larger one is not ours
RELAY_MESSAGE_BYTES_MAX = 80 << 20  # a request as large as the API takes, on its way to the master

_KEEPALIVE = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # of gRPC's other pings; while one is under way none is sent to keep alive
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
]


def channel_options(message_bytes_max: int) -> list[tuple[str, int]]:
    """gRPC options for a channel or server with this message limit, both ways."""
    return [
        ("grpc.max_send_message_length", message_bytes_max),
        ("grpc.max_receive_message_length", message_bytes_max),
        *_KEEPALIVE,
    ]


FINISH_TO_WIRE: dict[Finish, pb.Finish] = {
    "": pb.FINISH_NONE,
    "stop": pb.FINISH_STOP,
    "length": pb.FINISH_LENGTH,
    "error": pb.FINISH_ERROR,
}
FINISH_FROM_WIRE: dict[int, Finish] = {value: name for name, value in FINISH_TO_WIRE.items()}
FAULT_FROM_WIRE: dict[int, Fault] = {pb.FAULT_OURS: "ours", pb.FAULT_BUSY: "busy", pb.FAULT_TOO_LONG: "too_long"}
RIDE_TO_WIRE: dict[Ride, pb.Ride] = {"alone": pb.RIDE_ALONE, "even": pb.RIDE_EVEN, "ragged": pb.RIDE_RAGGED}
CODING_TO_WIRE: dict[Coding, pb.Coding] = {"same": pb.CODING_SAME, "bf16": pb.CODING_BF16, "int8": pb.CODING_INT8}
CODING_FROM_WIRE: dict[int, Coding] = {value: name for name, value in CODING_TO_WIRE.items()}
RIDE_FROM_WIRE: dict[int, Ride] = {value: name for name, value in RIDE_TO_WIRE.items()}


def logprob_to_wire(value: TokenLogprob) -> pb.Logprob:
    return pb.Logprob(
        logprob=value.logprob,
        top=[pb.TopLogprob(token=token, logprob=logprob) for token, logprob in value.top],
    )


def logprobs_from_wire(tokens: tuple[int, ...], messages: Iterable[pb.Logprob]) -> tuple[TokenLogprob, ...]:
    """One value for each token; none at all where none were asked for."""
    return tuple(
        TokenLogprob(token, each.logprob, tuple((top.token, top.logprob) for top in each.top))
        for token, each in zip(tokens, messages, strict=False)
    )


def spec_to_wire(spec: SlotSpec) -> pb.SlotSpec:
    s = spec.sampling
    return pb.SlotSpec(
        seed=s.seed,
        temperature=s.temperature,
        top_p=s.top_p,
        top_k=s.top_k,
        min_p=s.min_p,
        repetition_penalty=s.repetition_penalty,
        presence_penalty=s.presence_penalty,
        frequency_penalty=s.frequency_penalty,
        logit_bias=[pb.LogitBias(token=token, bias=bias) for token, bias in s.logit_bias],
        max_tokens=spec.max_tokens,
        prompt_tokens=spec.prompt_tokens,
        opening_tokens=spec.opening_tokens,
        grammar=spec.grammar,
        top_logprobs=spec.top_logprobs,
        no_followers=not spec.followers,
        demanded=spec.demanded,
        think_close=spec.think_close,
        think_reserve=spec.think_reserve,
        resumed_tokens=spec.resumed_tokens,
        no_drafts=not spec.drafts,
        prediction=spec.prediction,
    )


def spec_from_wire(m: pb.SlotSpec) -> SlotSpec:
    sampling = Sampling(
        seed=m.seed,
        temperature=m.temperature,
        top_p=m.top_p,
        top_k=m.top_k,
        min_p=m.min_p,
        repetition_penalty=m.repetition_penalty,
        presence_penalty=m.presence_penalty,
        frequency_penalty=m.frequency_penalty,
        logit_bias=tuple((each.token, each.bias) for each in m.logit_bias),
    )
    return SlotSpec(
        sampling=sampling,
        max_tokens=m.max_tokens,
        prompt_tokens=m.prompt_tokens,
        opening_tokens=m.opening_tokens,
        grammar=m.grammar,
        top_logprobs=m.top_logprobs if m.HasField("top_logprobs") else None,
        followers=not m.no_followers,
        demanded=m.demanded,
        think_close=tuple(m.think_close),
        think_reserve=m.think_reserve,
        resumed_tokens=m.resumed_tokens,
        drafts=not m.no_drafts,
        prediction=tuple(m.prediction),
    )
