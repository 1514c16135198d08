from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MeshMessage(_message.Message):
    __slots__ = ("hello", "word", "revocations")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    WORD_FIELD_NUMBER: _ClassVar[int]
    REVOCATIONS_FIELD_NUMBER: _ClassVar[int]
    hello: MeshHello
    word: bytes
    revocations: bytes
    def __init__(self, hello: _Optional[_Union[MeshHello, _Mapping]] = ..., word: _Optional[bytes] = ..., revocations: _Optional[bytes] = ...) -> None: ...

class MeshHello(_message.Message):
    __slots__ = ("version", "node", "revocations")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    REVOCATIONS_FIELD_NUMBER: _ClassVar[int]
    version: int
    node: str
    revocations: bytes
    def __init__(self, version: _Optional[int] = ..., node: _Optional[str] = ..., revocations: _Optional[bytes] = ...) -> None: ...

class MeshGreeting(_message.Message):
    __slots__ = ("version", "node", "refused", "revocations")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    REVOCATIONS_FIELD_NUMBER: _ClassVar[int]
    version: int
    node: str
    refused: str
    revocations: bytes
    def __init__(self, version: _Optional[int] = ..., node: _Optional[str] = ..., refused: _Optional[str] = ..., revocations: _Optional[bytes] = ...) -> None: ...

class RelayMessage(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: bytes
    def __init__(self, json: _Optional[bytes] = ...) -> None: ...
