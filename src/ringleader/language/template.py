"""Messages and tools to the text of a prompt, through the model's own chat template.

Pure: today's date is handed in. A model without a template gets ChatML.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from ringleader.errors import BadRequest
from ringleader.language.dialects.history import TAGGED, History
from ringleader.language.sandbox import TemplateFault, expand
from ringleader.language.traits import context
from ringleader.language.turns import shaped
from ringleader.values import Message, Tool

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def render(
    template: str | None,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    *,
    bos_token: str,
    eos_token: str,
    add_generation_prompt: bool = True,
    today: datetime.date | None = None,
    history: History = TAGGED,
    thinking: bool | None = None,
    effort: str | None = None,
) -> str:
    """The prompt's text, special tokens as their text. Every message and tool is in it, in the template's own
    way where it has one, else merged into a neighbour or written as text, in the way that `history` says.
    `thinking` and `effort` are handed to templates that know them.

    Raises:
        BadRequest: the template refuses the conversation in any shape, or fails on it.
    """
    source = CHATML if template is None else template
    special = (bos_token, eos_token)

    def written(*, list_tools: bool) -> str:
        turns, listed = shaped(source, messages, tools, special, history, list_tools=list_tools)
        given = context(
            source,
            turns,
            listed,
            special,
            prompted=add_generation_prompt,
            today=today,
            thinking=thinking,
            effort=effort,
        )
        return expand(source, given, today)

    try:
        return written(list_tools=True)
    except TemplateFault as error:
        refusal = error
    try:
        if tools:  # it may be only that it cannot read the schema of one of them
            return written(list_tools=False)
    except TemplateFault:
        pass  # the first reason is the one that says something
    raise BadRequest(
        f"the model's chat template refuses these messages: {str(refusal)[:500]}. "
        "Change the order or the roles of the messages.",
        param="messages",
    ) from refusal
