"""Models that never want to end, a vocabulary to write in, and the grammars of what they are asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np
from llguidance import LLMatcher
from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Bpe
from transformers import PreTrainedTokenizerFast

from ringleader.shard.closing import Closer
from ringleader.shard.sampler import Sampler
from ringleader.tokenizer import Tokenizer
from ringleader.values import Json, Sampling, SlotSpec

CORPUS = [
    '<tool_call>\n{"name": "w", "arguments": {"city": "Oslo", "days": 3}}\n</tool_call> "}} "}] ]}} "]} "]}} }}\n',
    '"value": {"value": {"items": ["a", "b"], "kind": "short"}} true false null 1234567890 100 10 [[[[ ]]]] "", ""',
    "<function=f>\n<parameter=code>\nprint(text)\n</parameter>\n</function> <think> I think that </think> </parameter>",
    "Paris, London, Rome and Lima are cities; text, note, string and number. The weather in New York is fine.",
]


def _object(required: list[str], /, **properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
MANY = {f"k{n}": STRING for n in range(8)}
# Schemas, and the arguments in their shortest form.
SHORTEST: dict[str, tuple[Json, str]] = {
    "two values": (
        _object(["city", "days"], city=STRING, days={"type": "integer", "minimum": 1, "maximum": 9}),
        '{"city": "", "days": 1}',
    ),
    "nested objects": (
        _object(["a"], a=_object(["b"], b=_object(["c", "d"], c=STRING, d={"type": "number"}))),
        '{"a": {"b": {"c": "", "d": 1}}}',
    ),
    "least items": (
        _object(["l", "m"], l={"type": "array", "items": INTEGER, "minItems": 3}, m={"type": "array", "items": STRING}),
        '{"l": [1, 1, 1], "m": []}',
    ),
    "names to choose from": (_object(["k"], k={"enum": ["alphabetical order", "beta", "gammatical"]}), '{"k": "beta"}'),
    "a least length": (_object(["s"], s={"type": "string", "minLength": 20}), '{"s": "1234567890 1234567890"}'),
    "a pattern": (_object(["p"], p={"type": "string", "pattern": "^[A-Z]{3}-[0-9]{2}$"}), '{"p": "AAA-10"}'),
    "optional values": (_object(["n"], s=STRING, big=_object(list(MANY), **MANY), n=INTEGER), '{"n": 1}'),
    "alternatives": (
        _object(["v"], v={"anyOf": [_object(list(MANY), **MANY), {"type": "array", "minItems": 4}, STRING]}),
        '{"v": ""}',
    ),
    "an open object": ({"type": "object"}, "{}"),
}
TOKENS_MAX = 2000  # in one answer here; a longer one is a loop


@cache
def vocabulary() -> Tokenizer:
    """Byte-level BPE of about 700 tokens, with call and thinking markers as special tokens."""
    bpe = Bpe(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(CORPUS * 3, trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet))
    special = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>"]
    bpe.add_special_tokens([AddedToken(text, special=True) for text in special])
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<|im_start|>", eos_token="<|im_end|>")
    end = fast.eos_token_id
    assert isinstance(end, int)
    return Tokenizer(fast, vocab_size=bpe.get_vocab_size() + 12, eos_ids=(end,), chat_template=None)


@cache
def closer() -> Closer:
    return Closer(vocabulary().grammar_view, frozenset(vocabulary().eos_ids))


def marker(text: str) -> str:
    return f"<[{vocabulary().token_id(text)}]>"


def json_rule(schema: Json) -> str:
    tight = {"x-guidance": {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}}
    return f"%json {json.dumps({**schema, **tight})}"


def call_rule(schema: Json) -> str:
    head = json.dumps('\n{"name": "w", "arguments": ')
    return f'call: {marker("<tool_call>")} {head} args "}}\\n" {marker("</tool_call>")}\nargs: {json_rule(schema)}'


def a_call(schema: Json) -> str:
    """The grammar of just one call."""
    return f"start: call\n{call_rule(schema)}"


def matcher_of(grammar: str) -> Any:
    matcher = LLMatcher(vocabulary().grammar_view, LLMatcher.grammar_from_lark(grammar), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


# ---------------------------------------------------------------- models: logits of the place that they are asked at

Taste = Callable[[int], Any]


def _bytes() -> list[bytes]:
    return [vocabulary().token_bytes(token) for token in range(vocabulary().vocab_size)]


def _liking(likes: Callable[[bytes], bool]) -> Taste:
    """Prefers some tokens by far, in an order that changes with the place; ends of all kinds come last."""
    texts = _bytes()
    liked = np.array([30.0 * likes(text) for text in texts])
    ending = np.array(
        [60.0 * (bool(text) and (text.strip() in {b"<|im_end|>"} or text.startswith(b"</"))) for text in texts]
    )

    def logits(position: int) -> Any:
        noise = np.random.default_rng(position).standard_normal(len(texts))
        return mx.array((noise + liked - ending).astype(np.float32))

    return logits


@cache
def tastes() -> dict[str, Taste]:
    """Models by what they do for ever."""
    return {
        "letters": _liking(lambda text: text.isalpha()),
        "digits": _liking(lambda text: text.isdigit()),
        "nesting": _liking(lambda text: bool(text.strip()) and not text.strip().strip(b'[{("')),
        "further items": _liking(lambda text: b"," in text),
        "anything but an end": _liking(lambda text: not set(text) & set(b"\"'}]>)")),
        "noise": _liking(lambda text: False),
    }


def answer(
    grammar: str,
    max_tokens: int,
    taste: Taste,
    *,
    followers: bool = True,
    demanded: bool = True,
    steered: bool = True,
    think_close: tuple[int, ...] = (),
    think_reserve: int = 0,
    opening: tuple[int, ...] = (),
    temperature: float = 0.0,
) -> tuple[tuple[int, ...], str]:
    """What a sampler makes of a model with this taste: the tokens, and how it finished."""
    spec = SlotSpec(
        Sampling(seed=5, temperature=temperature),
        max_tokens,
        prompt_tokens=1 + len(opening),
        opening_tokens=len(opening),
        grammar=grammar,
        followers=followers,
        demanded=demanded,
        think_close=think_close,
        think_reserve=think_reserve,
    )
    eos = frozenset(vocabulary().eos_ids)
    sampler = Sampler(spec, _done(matcher_of(grammar)), eos, _done(closer()) if steered else None)
    sampler.extend_prompt((0, *opening))
    tokens: list[int] = []
    finish = ""
    while not finish:
        picked = sampler.pick(taste(len(tokens)))
        assert not picked.error, picked.error
        tokens += picked.tokens
        finish = picked.finish
        assert len(tokens) < TOKENS_MAX
    return tuple(tokens), finish


def text_of(tokens: tuple[int, ...]) -> str:
    return vocabulary().decode(tokens)


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future
