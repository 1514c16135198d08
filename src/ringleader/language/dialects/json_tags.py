"""Hermes and Qwen style calls: JSON between <tool_call> tags. Also the fallback for models that know no tools."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import (
    BlockReader,
    CallRule,
    Dialect,
    Marker,
    Opens,
    marker,
    several,
    think_tags,
)
from ringleader.language.dialects.history import CALL_CLOSE, CALL_OPEN
from ringleader.language.dialects.json_call import JsonBlock, object_rules
from ringleader.language.dialects.shown_calls import NAME, two_calls
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonTags(Dialect):
    """`<tool_call>\\n{"name": "f", "arguments": {...}}\\n</tool_call>`, one block for each call."""

    close: Marker
    gap: str = "\n"  # between the tags and the JSON; some families write none
    between: str = "\n"  # between two blocks

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        more, gap = several("call", self.between, least, most), json.dumps(self.gap) if self.gap else ""
        return "\n".join(
            [
                f"calls: call {more}",
                f"calls_rest: call_rest {more}",
                f"call: {self.opens[0].marker.lark} call_rest",
                f"call_rest: {gap} call_json {gap} {self.close.lark}",
                object_rules("call_json", calls),
            ]
        )

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return JsonBlock(self.close)


def json_tags(tokenizer: Tokenizer) -> JsonTags:
    """The dialect for this vocabulary, with the whitespace that its chat template writes around calls; it reasons
    if the template speaks of a thinking tag."""
    close = marker(tokenizer, CALL_CLOSE)
    gap, between = _shown_gaps(tokenizer)
    return JsonTags(
        name="json_tags",
        opens=(Opens(marker(tokenizer, CALL_OPEN)),),
        markers=(close,),
        close=close,
        gap=gap,
        between=between,
        thinking=think_tags(tokenizer),
    )


def _shown_gaps(tokenizer: Tokenizer) -> tuple[str, str]:
    """Between tags and JSON, and between two blocks."""
    tags = (re.escape(CALL_OPEN), re.escape(CALL_CLOSE))
    shown = re.search(rf'{tags[0]}(\s*){{[^<]*"{NAME}"[^<]*}}(\s*){tags[1]}(\s*){tags[0]}', two_calls(tokenizer))
    if shown is None or shown[1] != shown[2]:
        return "\n", "\n"
    return shown[1], shown[3]
