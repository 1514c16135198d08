from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Greeting(_message.Message):
    __slots__ = ("version", "authority")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    AUTHORITY_FIELD_NUMBER: _ClassVar[int]
    version: int
    authority: bytes
    def __init__(self, version: _Optional[int] = ..., authority: _Optional[bytes] = ...) -> None: ...

class DoorRequest(_message.Message):
    __slots__ = ("version", "join", "renew", "leave", "list")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOIN_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    version: int
    join: Join
    renew: Renew
    leave: Leave
    list: ListMembers
    def __init__(self, version: _Optional[int] = ..., join: _Optional[_Union[Join, _Mapping]] = ..., renew: _Optional[_Union[Renew, _Mapping]] = ..., leave: _Optional[_Union[Leave, _Mapping]] = ..., list: _Optional[_Union[ListMembers, _Mapping]] = ...) -> None: ...

class Join(_message.Message):
    __slots__ = ("node", "name", "secret", "nonce", "csr")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    CSR_FIELD_NUMBER: _ClassVar[int]
    node: str
    name: str
    secret: bytes
    nonce: bytes
    csr: bytes
    def __init__(self, node: _Optional[str] = ..., name: _Optional[str] = ..., secret: _Optional[bytes] = ..., nonce: _Optional[bytes] = ..., csr: _Optional[bytes] = ...) -> None: ...

class Renew(_message.Message):
    __slots__ = ("csr",)
    CSR_FIELD_NUMBER: _ClassVar[int]
    csr: bytes
    def __init__(self, csr: _Optional[bytes] = ...) -> None: ...

class Leave(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListMembers(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DoorReply(_message.Message):
    __slots__ = ("refused", "certificate", "cluster", "name", "revocations", "peers", "members")
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REVOCATIONS_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    refused: str
    certificate: bytes
    cluster: str
    name: str
    revocations: bytes
    peers: _containers.RepeatedScalarFieldContainer[str]
    members: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, refused: _Optional[str] = ..., certificate: _Optional[bytes] = ..., cluster: _Optional[str] = ..., name: _Optional[str] = ..., revocations: _Optional[bytes] = ..., peers: _Optional[_Iterable[str]] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("node", "name", "since", "revoked", "founder")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    FOUNDER_FIELD_NUMBER: _ClassVar[int]
    node: str
    name: str
    since: float
    revoked: bool
    founder: bool
    def __init__(self, node: _Optional[str] = ..., name: _Optional[str] = ..., since: _Optional[float] = ..., revoked: _Optional[bool] = ..., founder: _Optional[bool] = ...) -> None: ...
