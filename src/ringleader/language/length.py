"""Whether a prompt and its answer fit a model's context; the words that agents match on to compact."""

from __future__ import annotations

from ringleader.errors import ContextTooLong


def check_length(prompt: int, wanted: int | None, context: int, what: str = "messages") -> None:
    """See that `prompt` tokens leave room for `wanted`, or for one. `what` is the field that the prompt came from.

    Raises:
        ContextTooLong: they do not.
    """
    if prompt + (wanted or 1) <= context:
        return
    limit = f"This model's maximum context length is {context} tokens. However, "
    if wanted and prompt < context:
        said = f"you requested {prompt + wanted} tokens ({prompt} in the {what}, {wanted} in the completion)."
        advice = f"Please reduce the length of the {what} or completion."
    else:
        said, advice = f"your {what} resulted in {prompt} tokens.", f"Please reduce the length of the {what}."
    raise ContextTooLong(f"{limit}{said} {advice}", param=what)
