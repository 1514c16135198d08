"""GigaChat 3's call: one JSON object at the end of an answer, behind a token or as a turn of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringleader.language.dialects.dialect import BlockReader, CallRule, Dialect, Opens, marker
from ringleader.language.dialects.json_call import JsonBlock, object_rules
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json

TOKEN = "<|function_call|>"
TURN, END = "function call<|role_sep|>\n", "<|message_sep|>"


@dataclass(frozen=True, slots=True, kw_only=True)
class GigaChat(Dialect):
    """`{"name": "f", "arguments": {...}}`. There is no form for a second call."""

    def grammar(self, calls: Sequence[CallRule], least: int, most: int) -> str:
        rests = ["calls_rest", *(f"calls_rest_{n}" for n in range(1, len(self.opens)))]
        lines = [f"calls: {self.opens[0].marker.lark} calls_rest", *(f"{rest}: call" for rest in rests)]
        return "\n".join([*lines, object_rules("call", calls)])

    def reader(self, schemas: Mapping[str, Json]) -> BlockReader:
        return JsonBlock(None)


def gigachat(tokenizer: Tokenizer) -> GigaChat:
    """The dialect for this vocabulary. From 3.1 on a token opens the call; before, the model ends its turn (if that
    does not end its answer) and begins one of another role."""
    end, token = tokenizer.token_id(END), tokenizer.token_id(TOKEN)
    if TOKEN in (tokenizer.chat_template or "") or (token is not None and tokenizer.is_special(token)):
        return GigaChat(name="gigachat", opens=(Opens(marker(tokenizer, TOKEN)),))
    texts = [TURN] if end in tokenizer.eos_ids else [f"{END}\n\n{TURN}", TURN]
    return GigaChat(name="gigachat", opens=tuple(Opens(marker(tokenizer, text)) for text in texts))
