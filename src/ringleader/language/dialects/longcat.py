"""LongCat's calls: GLM's tags under its own names, or (LongCat-Flash-Chat) JSON in tags, as the template shows."""

from __future__ import annotations

from ringleader.language.dialects.dialect import Opens, marker, think_tags
from ringleader.language.dialects.glm import Glm, tagged
from ringleader.language.dialects.json_tags import JsonTags
from ringleader.tokenizer import Tokenizer

PREFIX = "longcat_"


def longcat(tokenizer: Tokenizer) -> Glm | JsonTags:
    """The dialect for this vocabulary."""
    if f"<{PREFIX}arg_key>" in (tokenizer.chat_template or ""):
        return tagged("longcat", tokenizer, PREFIX)
    close = marker(tokenizer, f"</{PREFIX}tool_call>")
    return JsonTags(
        name="longcat",
        opens=(Opens(marker(tokenizer, f"<{PREFIX}tool_call>")),),
        markers=(close,),
        close=close,
        between="",
        thinking=think_tags(tokenizer, f"<{PREFIX}think>", f"</{PREFIX}think>"),
    )
