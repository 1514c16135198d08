"""Every error that may cross a room, in one tree. Each API maps the tree to its own bodies in one table.

RingleaderError
├── CallerFault              the request is wrong; nothing was scheduled       HTTP 4xx
│   ├── BadRequest           a field is wrong: names it and says what to do    400
│   │   └── ContractFault    an agent's tools, or its choice of them, are wrong
│   ├── ExtraMissing         a package of an optional extra is not installed
│   ├── UnknownModel         no such model here                                404
│   ├── NotFound             no such thing is kept here                        404
│   ├── NoKey                no API key came, or one that is not good          401
│   ├── Forbidden            a web page that has no business here              403
│   └── ContextTooLong       prompt and answer do not fit the model            400
├── PeerFault                something that we depend on failed                5xx
│   ├── RingLost             a shard, its node or a link died under a request  503
│   ├── MasterMoved          another node is master now, or the master is gone 503
│   ├── NodeUnreachable      no node answers at an address                     503
│   ├── NotTrusted           a peer, a token or a key file is not as it must be 503
│   ├── ModelLoading         it is on its way into memory                     503
│   ├── DeadlinePassed       the request's own deadline came before its end    504
│   └── Busy                 a bounded queue is full                           429
├── ModelFault               model files are missing, broken or not supported  500
│   ├── ModelDoesNotFit      no plan fits the free memory; carries numbers     503
│   └── ModelUnsupported     a family that we cannot cut, or a foreign file    400
└── OurFault                 a bug of ours that we noticed                     500
"""

from __future__ import annotations


class RingleaderError(Exception):
    """Root. `str(error)` says what happened, to which request or node, and what to do next.

    `resumable`: the same request can go on elsewhere, and the node that its client is connected to sees to it.
    """

    code: str = "internal_error"
    resumable: bool = False


class CallerFault(RingleaderError):
    """The caller can mend it. `param` is the field's path as the caller wrote it, `code` a stable word."""

    code = "invalid_request"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        if code is not None:
            self.code = code


class BadRequest(CallerFault):
    """One field is wrong, or two contradict each other."""

    code = "invalid_value"


class ContractFault(BadRequest, ValueError):
    """A tool is declared wrongly, requested by a name that nobody has, or forced and not in the step's set."""

    code = "bad_contract"


class ExtraMissing(CallerFault, ImportError):
    """A package of an optional extra is not installed. The message holds the command that installs it."""

    code = "extra_missing"


class UnknownModel(CallerFault):
    """No model of that name is served or stored."""

    code = "model_not_found"


class NoKey(CallerFault):
    """The API wants a key, and none came or one that opens nothing."""

    code = "invalid_api_key"


class Forbidden(CallerFault):
    """The request may come from a page of the web that this API does not serve."""

    code = "forbidden_origin"


class NotFound(CallerFault):
    """What the caller named by its id was never kept here, or is forgotten."""

    code = "not_found"


class ContextTooLong(CallerFault):
    """The prompt leaves no room in the model's context. Agents match on the code to compact."""

    code = "context_length_exceeded"


class PeerFault(RingleaderError):
    """A process or machine that we depend on failed. `retry_after_s`: when the same request may go well, if known."""

    code = "peer_failed"

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RingLost(PeerFault):
    """A shard, its node or a link of the ring died while it served. Not resumable once a ring was given up."""

    code = "ring_lost"

    def __init__(self, message: str, *, resumable: bool = True) -> None:
        super().__init__(message)
        self.resumable = resumable


class MasterMoved(PeerFault):
    """The node that took the request is not master any more, or is gone; the next master can go on with it."""

    code = "master_moved"
    resumable = True


class NodeUnreachable(PeerFault):
    """No node answers at the address."""

    code = "node_unreachable"


class NotTrusted(PeerFault):
    """Somebody is not let in, or what this node would prove itself with is missing, open to others or foreign."""

    code = "not_trusted"


class ModelLoading(PeerFault):
    """The model is being loaded, and the request does not wait for it. Says how far it is."""

    code = "model_loading"


class DeadlinePassed(PeerFault):
    """The request's deadline came before its answer's end. Says how far the request had come."""

    code = "deadline_passed"


class Busy(PeerFault):
    """A bounded queue is full; try again later."""

    code = "busy"


class ModelFault(RingleaderError):
    """A model's files are missing, incomplete, corrupt or of a kind that we cannot serve."""

    code = "model_error"


class ModelDoesNotFit(ModelFault):
    """No split of the model fits the free memory of the nodes. The message holds the numbers."""

    code = "model_does_not_fit"


class ModelUnsupported(ModelFault):
    """The model's family or file format is not served; says which and why."""

    code = "model_unsupported"


class OurFault(RingleaderError):
    """A broken promise of our own code, noticed before it did harm."""
