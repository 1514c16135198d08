from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NodeReport(_message.Message):
    __slots__ = ("hello", "status", "shard_ready", "shard_failed", "shard_progress")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SHARD_READY_FIELD_NUMBER: _ClassVar[int]
    SHARD_FAILED_FIELD_NUMBER: _ClassVar[int]
    SHARD_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    hello: NodeHello
    status: NodeStatus
    shard_ready: ShardReady
    shard_failed: ShardFailed
    shard_progress: ShardProgress
    def __init__(self, hello: _Optional[_Union[NodeHello, _Mapping]] = ..., status: _Optional[_Union[NodeStatus, _Mapping]] = ..., shard_ready: _Optional[_Union[ShardReady, _Mapping]] = ..., shard_failed: _Optional[_Union[ShardFailed, _Mapping]] = ..., shard_progress: _Optional[_Union[ShardProgress, _Mapping]] = ...) -> None: ...

class NodeHello(_message.Message):
    __slots__ = ("version", "node", "name", "host", "chip", "memory_total_bytes", "memory_free_bytes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    CHIP_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    version: int
    node: str
    name: str
    host: str
    chip: str
    memory_total_bytes: int
    memory_free_bytes: int
    def __init__(self, version: _Optional[int] = ..., node: _Optional[str] = ..., name: _Optional[str] = ..., host: _Optional[str] = ..., chip: _Optional[str] = ..., memory_total_bytes: _Optional[int] = ..., memory_free_bytes: _Optional[int] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("memory_free_bytes",)
    MEMORY_FREE_BYTES_FIELD_NUMBER: _ClassVar[int]
    memory_free_bytes: int
    def __init__(self, memory_free_bytes: _Optional[int] = ...) -> None: ...

class ShardReady(_message.Message):
    __slots__ = ("plan", "index", "address", "memory_bytes", "pid")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    plan: str
    index: int
    address: str
    memory_bytes: int
    pid: int
    def __init__(self, plan: _Optional[str] = ..., index: _Optional[int] = ..., address: _Optional[str] = ..., memory_bytes: _Optional[int] = ..., pid: _Optional[int] = ...) -> None: ...

class ShardFailed(_message.Message):
    __slots__ = ("plan", "index", "reason", "permanent")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PERMANENT_FIELD_NUMBER: _ClassVar[int]
    plan: str
    index: int
    reason: str
    permanent: bool
    def __init__(self, plan: _Optional[str] = ..., index: _Optional[int] = ..., reason: _Optional[str] = ..., permanent: _Optional[bool] = ...) -> None: ...

class ShardProgress(_message.Message):
    __slots__ = ("plan", "index", "fraction")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    plan: str
    index: int
    fraction: float
    def __init__(self, plan: _Optional[str] = ..., index: _Optional[int] = ..., fraction: _Optional[float] = ...) -> None: ...

class NodeOrder(_message.Message):
    __slots__ = ("welcome", "start_shard", "stop_shard")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    START_SHARD_FIELD_NUMBER: _ClassVar[int]
    STOP_SHARD_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    start_shard: StartShard
    stop_shard: StopShard
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., start_shard: _Optional[_Union[StartShard, _Mapping]] = ..., stop_shard: _Optional[_Union[StopShard, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("version", "master", "refused")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    version: int
    master: str
    refused: str
    def __init__(self, version: _Optional[int] = ..., master: _Optional[str] = ..., refused: _Optional[str] = ...) -> None: ...

class StartShard(_message.Message):
    __slots__ = ("plan", "index", "model", "digest", "first_layer", "stop_layer", "layers", "kv_tokens")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FIRST_LAYER_FIELD_NUMBER: _ClassVar[int]
    STOP_LAYER_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    KV_TOKENS_FIELD_NUMBER: _ClassVar[int]
    plan: str
    index: int
    model: str
    digest: str
    first_layer: int
    stop_layer: int
    layers: int
    kv_tokens: int
    def __init__(self, plan: _Optional[str] = ..., index: _Optional[int] = ..., model: _Optional[str] = ..., digest: _Optional[str] = ..., first_layer: _Optional[int] = ..., stop_layer: _Optional[int] = ..., layers: _Optional[int] = ..., kv_tokens: _Optional[int] = ...) -> None: ...

class StopShard(_message.Message):
    __slots__ = ("plan", "index")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    plan: str
    index: int
    def __init__(self, plan: _Optional[str] = ..., index: _Optional[int] = ...) -> None: ...
