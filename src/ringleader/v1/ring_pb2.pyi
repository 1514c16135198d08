from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Ride(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RIDE_ALONE: _ClassVar[Ride]
    RIDE_EVEN: _ClassVar[Ride]
    RIDE_RAGGED: _ClassVar[Ride]

class DType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DTYPE_UNSPECIFIED: _ClassVar[DType]
    DTYPE_F32: _ClassVar[DType]
    DTYPE_F16: _ClassVar[DType]
    DTYPE_BF16: _ClassVar[DType]

class Coding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CODING_SAME: _ClassVar[Coding]
    CODING_BF16: _ClassVar[Coding]
    CODING_INT8: _ClassVar[Coding]

class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KIND_UNSPECIFIED: _ClassVar[Kind]
    KIND_PROMPT: _ClassVar[Kind]
    KIND_SAMPLE: _ClassVar[Kind]

class Finish(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_NONE: _ClassVar[Finish]
    FINISH_STOP: _ClassVar[Finish]
    FINISH_LENGTH: _ClassVar[Finish]
    FINISH_ERROR: _ClassVar[Finish]

class Fault(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FAULT_OURS: _ClassVar[Fault]
    FAULT_BUSY: _ClassVar[Fault]
    FAULT_TOO_LONG: _ClassVar[Fault]
RIDE_ALONE: Ride
RIDE_EVEN: Ride
RIDE_RAGGED: Ride
DTYPE_UNSPECIFIED: DType
DTYPE_F32: DType
DTYPE_F16: DType
DTYPE_BF16: DType
CODING_SAME: Coding
CODING_BF16: Coding
CODING_INT8: Coding
KIND_UNSPECIFIED: Kind
KIND_PROMPT: Kind
KIND_SAMPLE: Kind
FINISH_NONE: Finish
FINISH_STOP: Finish
FINISH_LENGTH: Finish
FINISH_ERROR: Finish
FAULT_OURS: Fault
FAULT_BUSY: Fault
FAULT_TOO_LONG: Fault

class HelloRequest(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class HelloReply(_message.Message):
    __slots__ = ("version", "plan", "first_layer", "stop_layer", "slots", "memory_bytes", "ride", "slot_tokens", "steps_back", "state_tokens")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    FIRST_LAYER_FIELD_NUMBER: _ClassVar[int]
    STOP_LAYER_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    RIDE_FIELD_NUMBER: _ClassVar[int]
    SLOT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STEPS_BACK_FIELD_NUMBER: _ClassVar[int]
    STATE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    version: int
    plan: bytes
    first_layer: int
    stop_layer: int
    slots: int
    memory_bytes: int
    ride: Ride
    slot_tokens: int
    steps_back: bool
    state_tokens: int
    def __init__(self, version: _Optional[int] = ..., plan: _Optional[bytes] = ..., first_layer: _Optional[int] = ..., stop_layer: _Optional[int] = ..., slots: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., ride: _Optional[_Union[Ride, str]] = ..., slot_tokens: _Optional[int] = ..., steps_back: _Optional[bool] = ..., state_tokens: _Optional[int] = ...) -> None: ...

class LinkRequest(_message.Message):
    __slots__ = ("plan", "epoch", "index", "shards", "next_address", "next_node", "term", "master", "share", "ride", "slot_tokens", "coding", "machines", "drafts", "no_prefixes", "state_tokens")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    NEXT_NODE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    RIDE_FIELD_NUMBER: _ClassVar[int]
    SLOT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CODING_FIELD_NUMBER: _ClassVar[int]
    MACHINES_FIELD_NUMBER: _ClassVar[int]
    DRAFTS_FIELD_NUMBER: _ClassVar[int]
    NO_PREFIXES_FIELD_NUMBER: _ClassVar[int]
    STATE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    plan: bytes
    epoch: int
    index: int
    shards: int
    next_address: str
    next_node: str
    term: int
    master: str
    share: Share
    ride: Ride
    slot_tokens: int
    coding: Coding
    machines: _containers.RepeatedScalarFieldContainer[int]
    drafts: bool
    no_prefixes: bool
    state_tokens: int
    def __init__(self, plan: _Optional[bytes] = ..., epoch: _Optional[int] = ..., index: _Optional[int] = ..., shards: _Optional[int] = ..., next_address: _Optional[str] = ..., next_node: _Optional[str] = ..., term: _Optional[int] = ..., master: _Optional[str] = ..., share: _Optional[_Union[Share, _Mapping]] = ..., ride: _Optional[_Union[Ride, str]] = ..., slot_tokens: _Optional[int] = ..., coding: _Optional[_Union[Coding, str]] = ..., machines: _Optional[_Iterable[int]] = ..., drafts: _Optional[bool] = ..., no_prefixes: _Optional[bool] = ..., state_tokens: _Optional[int] = ...) -> None: ...

class LinkReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Share(_message.Message):
    __slots__ = ("digest", "first_layer", "stop_layer", "layers", "kv_tokens", "kv_bits")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FIRST_LAYER_FIELD_NUMBER: _ClassVar[int]
    STOP_LAYER_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    KV_TOKENS_FIELD_NUMBER: _ClassVar[int]
    KV_BITS_FIELD_NUMBER: _ClassVar[int]
    digest: str
    first_layer: int
    stop_layer: int
    layers: int
    kv_tokens: int
    kv_bits: int
    def __init__(self, digest: _Optional[str] = ..., first_layer: _Optional[int] = ..., stop_layer: _Optional[int] = ..., layers: _Optional[int] = ..., kv_tokens: _Optional[int] = ..., kv_bits: _Optional[int] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("plan", "epoch", "step", "segments", "tensor", "dtype", "shape", "released", "sampled", "batch", "coding", "stage_us", "kept", "missed")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    CODING_FIELD_NUMBER: _ClassVar[int]
    STAGE_US_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    plan: bytes
    epoch: int
    step: int
    segments: _containers.RepeatedCompositeFieldContainer[Segment]
    tensor: bytes
    dtype: DType
    shape: _containers.RepeatedScalarFieldContainer[int]
    released: _containers.RepeatedScalarFieldContainer[int]
    sampled: _containers.RepeatedCompositeFieldContainer[Sampled]
    batch: int
    coding: Coding
    stage_us: _containers.RepeatedScalarFieldContainer[int]
    kept: _containers.RepeatedCompositeFieldContainer[KeptOrder]
    missed: bool
    def __init__(self, plan: _Optional[bytes] = ..., epoch: _Optional[int] = ..., step: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[Segment, _Mapping]]] = ..., tensor: _Optional[bytes] = ..., dtype: _Optional[_Union[DType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., released: _Optional[_Iterable[int]] = ..., sampled: _Optional[_Iterable[_Union[Sampled, _Mapping]]] = ..., batch: _Optional[int] = ..., coding: _Optional[_Union[Coding, str]] = ..., stage_us: _Optional[_Iterable[int]] = ..., kept: _Optional[_Iterable[_Union[KeptOrder, _Mapping]]] = ..., missed: _Optional[bool] = ...) -> None: ...

class KeptOrder(_message.Message):
    __slots__ = ("keep", "drop")
    KEEP_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    keep: Keep
    drop: Drop
    def __init__(self, keep: _Optional[_Union[Keep, _Mapping]] = ..., drop: _Optional[_Union[Drop, _Mapping]] = ...) -> None: ...

class Keep(_message.Message):
    __slots__ = ("slot", "parent", "start", "stop", "names", "state")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    slot: int
    parent: bytes
    start: int
    stop: int
    names: _containers.RepeatedScalarFieldContainer[bytes]
    state: bool
    def __init__(self, slot: _Optional[int] = ..., parent: _Optional[bytes] = ..., start: _Optional[int] = ..., stop: _Optional[int] = ..., names: _Optional[_Iterable[bytes]] = ..., state: _Optional[bool] = ...) -> None: ...

class Drop(_message.Message):
    __slots__ = ("names", "states")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[bytes]
    states: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, names: _Optional[_Iterable[bytes]] = ..., states: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Segment(_message.Message):
    __slots__ = ("slot", "position", "count", "kind", "spec", "tokens", "drafts", "begins_from")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    DRAFTS_FIELD_NUMBER: _ClassVar[int]
    BEGINS_FROM_FIELD_NUMBER: _ClassVar[int]
    slot: int
    position: int
    count: int
    kind: Kind
    spec: SlotSpec
    tokens: _containers.RepeatedScalarFieldContainer[int]
    drafts: int
    begins_from: bytes
    def __init__(self, slot: _Optional[int] = ..., position: _Optional[int] = ..., count: _Optional[int] = ..., kind: _Optional[_Union[Kind, str]] = ..., spec: _Optional[_Union[SlotSpec, _Mapping]] = ..., tokens: _Optional[_Iterable[int]] = ..., drafts: _Optional[int] = ..., begins_from: _Optional[bytes] = ...) -> None: ...

class LogitBias(_message.Message):
    __slots__ = ("token", "bias")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    BIAS_FIELD_NUMBER: _ClassVar[int]
    token: int
    bias: float
    def __init__(self, token: _Optional[int] = ..., bias: _Optional[float] = ...) -> None: ...

class SlotSpec(_message.Message):
    __slots__ = ("seed", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "max_tokens", "prompt_tokens", "opening_tokens", "grammar", "top_logprobs", "no_followers", "demanded", "think_close", "think_reserve", "resumed_tokens", "no_drafts", "prediction")
    SEED_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    LOGIT_BIAS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OPENING_TOKENS_FIELD_NUMBER: _ClassVar[int]
    GRAMMAR_FIELD_NUMBER: _ClassVar[int]
    TOP_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    NO_FOLLOWERS_FIELD_NUMBER: _ClassVar[int]
    DEMANDED_FIELD_NUMBER: _ClassVar[int]
    THINK_CLOSE_FIELD_NUMBER: _ClassVar[int]
    THINK_RESERVE_FIELD_NUMBER: _ClassVar[int]
    RESUMED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NO_DRAFTS_FIELD_NUMBER: _ClassVar[int]
    PREDICTION_FIELD_NUMBER: _ClassVar[int]
    seed: int
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: _containers.RepeatedCompositeFieldContainer[LogitBias]
    max_tokens: int
    prompt_tokens: int
    opening_tokens: int
    grammar: str
    top_logprobs: int
    no_followers: bool
    demanded: bool
    think_close: _containers.RepeatedScalarFieldContainer[int]
    think_reserve: int
    resumed_tokens: int
    no_drafts: bool
    prediction: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, seed: _Optional[int] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., repetition_penalty: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., logit_bias: _Optional[_Iterable[_Union[LogitBias, _Mapping]]] = ..., max_tokens: _Optional[int] = ..., prompt_tokens: _Optional[int] = ..., opening_tokens: _Optional[int] = ..., grammar: _Optional[str] = ..., top_logprobs: _Optional[int] = ..., no_followers: _Optional[bool] = ..., demanded: _Optional[bool] = ..., think_close: _Optional[_Iterable[int]] = ..., think_reserve: _Optional[int] = ..., resumed_tokens: _Optional[int] = ..., no_drafts: _Optional[bool] = ..., prediction: _Optional[_Iterable[int]] = ...) -> None: ...

class TopLogprob(_message.Message):
    __slots__ = ("token", "logprob")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    token: int
    logprob: float
    def __init__(self, token: _Optional[int] = ..., logprob: _Optional[float] = ...) -> None: ...

class Logprob(_message.Message):
    __slots__ = ("logprob", "top")
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    logprob: float
    top: _containers.RepeatedCompositeFieldContainer[TopLogprob]
    def __init__(self, logprob: _Optional[float] = ..., top: _Optional[_Iterable[_Union[TopLogprob, _Mapping]]] = ...) -> None: ...

class Sampled(_message.Message):
    __slots__ = ("slot", "tokens", "finish", "logprobs", "error", "drawn", "drafts")
    SLOT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DRAWN_FIELD_NUMBER: _ClassVar[int]
    DRAFTS_FIELD_NUMBER: _ClassVar[int]
    slot: int
    tokens: _containers.RepeatedScalarFieldContainer[int]
    finish: Finish
    logprobs: _containers.RepeatedCompositeFieldContainer[Logprob]
    error: str
    drawn: int
    drafts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, slot: _Optional[int] = ..., tokens: _Optional[_Iterable[int]] = ..., finish: _Optional[_Union[Finish, str]] = ..., logprobs: _Optional[_Iterable[_Union[Logprob, _Mapping]]] = ..., error: _Optional[str] = ..., drawn: _Optional[int] = ..., drafts: _Optional[_Iterable[int]] = ...) -> None: ...

class PassReport(_message.Message):
    __slots__ = ("step", "error")
    STEP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    step: int
    error: str
    def __init__(self, step: _Optional[int] = ..., error: _Optional[str] = ...) -> None: ...

class HeadOrder(_message.Message):
    __slots__ = ("submit", "cancel")
    SUBMIT_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    submit: Submit
    cancel: Cancel
    def __init__(self, submit: _Optional[_Union[Submit, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ...) -> None: ...

class Submit(_message.Message):
    __slots__ = ("request", "prompt", "spec", "priority")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    request: str
    prompt: _containers.RepeatedScalarFieldContainer[int]
    spec: SlotSpec
    priority: int
    def __init__(self, request: _Optional[str] = ..., prompt: _Optional[_Iterable[int]] = ..., spec: _Optional[_Union[SlotSpec, _Mapping]] = ..., priority: _Optional[int] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: str
    def __init__(self, request: _Optional[str] = ...) -> None: ...

class HeadReport(_message.Message):
    __slots__ = ("request", "tokens", "logprobs", "finish", "error", "passes", "prompt_done", "frame_bytes", "cached", "kept_tokens", "fault", "drawn", "drafted", "accepted", "shard_us")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PASSES_FIELD_NUMBER: _ClassVar[int]
    PROMPT_DONE_FIELD_NUMBER: _ClassVar[int]
    FRAME_BYTES_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    KEPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    FAULT_FIELD_NUMBER: _ClassVar[int]
    DRAWN_FIELD_NUMBER: _ClassVar[int]
    DRAFTED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    SHARD_US_FIELD_NUMBER: _ClassVar[int]
    request: str
    tokens: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedCompositeFieldContainer[Logprob]
    finish: Finish
    error: str
    passes: int
    prompt_done: int
    frame_bytes: int
    cached: int
    kept_tokens: int
    fault: Fault
    drawn: int
    drafted: int
    accepted: int
    shard_us: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, request: _Optional[str] = ..., tokens: _Optional[_Iterable[int]] = ..., logprobs: _Optional[_Iterable[_Union[Logprob, _Mapping]]] = ..., finish: _Optional[_Union[Finish, str]] = ..., error: _Optional[str] = ..., passes: _Optional[int] = ..., prompt_done: _Optional[int] = ..., frame_bytes: _Optional[int] = ..., cached: _Optional[int] = ..., kept_tokens: _Optional[int] = ..., fault: _Optional[_Union[Fault, str]] = ..., drawn: _Optional[int] = ..., drafted: _Optional[int] = ..., accepted: _Optional[int] = ..., shard_us: _Optional[_Iterable[int]] = ...) -> None: ...
