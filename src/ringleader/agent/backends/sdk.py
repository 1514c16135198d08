"""What the openai and anthropic SDKs have in common: their exceptions by name, and objects that nobody has checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ringleader.agent.backends.faults import (
    BackendFailed,
    BackendGarbled,
    detail_of,
    fault_in_stream,
    fault_of_connection,
    fault_of_status,
)

TIMEOUT_S = 600.0  # of one turn: a large model that is loaded first, and then thinks; the loop's own bound is nearer
SECRET_LENGTH_MIN = 8  # what is shorter is a word of somebody who wants no key, and may stand anywhere
RETRIES_MAX = 2  # the SDKs' own: connection, 408, 409, 429 and 5xx, waiting as Retry-After says


@contextmanager
def sdk_faults(sdk: Any, who: str, hint: str, secret: str) -> Iterator[None]:
    """Around a request by the module `sdk`: its exceptions come out as the faults of `faults`.

    `secret` is the credential: some servers repeat it when they say that it is wrong, and it is shown to nobody.
    """
    try:
        yield
    except sdk.APIStatusError as error:
        detail = _masked(detail_of(error.body, error.message), secret)
        if error.status_code < 400:  # it was said in the middle of a stream that had begun well
            raise fault_in_stream(detail, who) from error
        wait = error.response.headers.get("retry-after", "")
        raise fault_of_status(error.status_code, detail, who, hint, wait) from error
    except sdk.APITimeoutError as error:
        raise BackendFailed(f"{who} did not answer in time. Try again") from error
    except sdk.APIConnectionError as error:
        raise fault_of_connection(error, who, hint) from error
    except (sdk.APIResponseValidationError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BackendGarbled(f"what came from {who} is not JSON. {hint}") from error
    except sdk.APIError as error:  # an error in the middle of a stream
        raise fault_in_stream(_masked(detail_of(error.body, error.message), secret), who) from error
    except Exception as error:
        # In the middle of a stream the HTTP library's own come through; which library it is depends on the SDK's age.
        if type(error).__module__.partition(".")[0] not in ("httpx", "httpx2"):
            raise
        raise fault_of_connection(error, who, hint) from error


def _masked(words: str, secret: str) -> str:
    return words.replace(secret, "(the credential)") if len(secret) >= SECRET_LENGTH_MIN else words


@contextmanager
def readable(who: str, hint: str) -> Iterator[None]:
    """Around the reading of what came: a field of another type than the protocol's is the provider's fault.

    Raises:
        BackendGarbled: says so.
    """
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BackendGarbled(f"{who} gave an answer that cannot be read ({error}). {hint}") from error


def plain(answer: object) -> dict[str, Any]:
    """The SDKs build their objects without checking; as a dict every field can be looked at before it is believed.

    {} for what is no object at all (a web page, say).
    """
    dump = getattr(answer, "model_dump", None)
    found = dump(mode="json", warnings=False) if dump is not None else answer
    return found if isinstance(found, dict) else {}


def as_text(value: object) -> str:
    """Raises TypeError for what is no text, before anybody is shown it."""
    if not isinstance(value, str):
        raise TypeError(f"a text is {type(value).__name__}")
    return value
