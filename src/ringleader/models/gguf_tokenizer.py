"""The tokenizer that a GGUF file carries in its metadata, rebuilt as a Hugging Face tokenizer.

Byte-level BPE only, with the word splitting of the families that the catalogue holds; others are refused by
name, because a wrong split still gives fluent text and other ids.
"""

from __future__ import annotations

from collections.abc import Mapping

import tokenizers
from tokenizers import AddedToken, decoders, models
from tokenizers import pre_tokenizers as pre

from ringleader.errors import ModelFault, ModelUnsupported
from ringleader.values import Json

CONTROL, USER_DEFINED = 3, 4  # ggml's token types that are matched whole, before the text is split


def build_tokenizer(meta: Mapping[str, Json]) -> tokenizers.Tokenizer:
    """The tokenizer of `meta`.

    Raises:
        ModelUnsupported: not byte-level BPE, or split in a way that we do not know.
        ModelFault: vocabulary, types or merges are missing or do not fit each other.
    """
    kind = meta.get("tokenizer.ggml.model")
    if kind != "gpt2":
        raise ModelUnsupported(f"GGUF tokenizer model {kind!r} is not converted; only byte-level BPE ('gpt2') is")
    tokens, types, merges = (_listed(meta, key) for key in ("tokens", "token_type", "merges"))
    if len(types) != len(tokens):
        raise ModelFault(f"the GGUF file has {len(tokens)} tokens and {len(types)} token types")
    vocabulary = {token: i for i, token in enumerate(tokens)}
    built = tokenizers.Tokenizer(models.BPE(vocabulary, _pairs(merges, vocabulary)))
    built.pre_tokenizer = _splitter(meta.get("tokenizer.ggml.pre", "default"))
    built.decoder = decoders.ByteLevel()
    built.add_special_tokens(_added(tokens, types, CONTROL, special=True))
    built.add_tokens(_added(tokens, types, USER_DEFINED, special=False))
    return built


def tokenizer_config(meta: Mapping[str, Json], context: int) -> dict[str, Json]:
    """What belongs into tokenizer_config.json: special tokens by their text, and the chat template."""
    config: dict[str, Json] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": context,
        "chat_template": meta.get("tokenizer.chat_template"),
    }
    tokens = _listed(meta, "tokens")
    for role, key in (("eos", "eos"), ("bos", "bos"), ("pad", "padding"), ("unk", "unknown")):
        found = meta.get(f"tokenizer.ggml.{key}_token_id")
        if type(found) is int and 0 <= found < len(tokens):
            config[f"{role}_token"] = tokens[found]
    return {key: value for key, value in config.items() if value is not None}


def _pairs(merges: list[Json], vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    # Checked here because the library answers a bad merge with a bare Exception, which nobody can catch by name.
    pairs = []
    for merge in merges:
        left, _, right = str(merge).partition(" ")
        if left not in vocabulary or right not in vocabulary or left + right not in vocabulary:
            raise ModelFault(f"the GGUF file's merge {merge!r} does not fit its vocabulary")
        pairs.append((left, right))
    return pairs


def _splitter(variant: Json) -> pre.PreTokenizer:
    if variant == "smollm":
        return pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)])
    if variant in {"gpt-2", "default"}:
        return pre.ByteLevel(add_prefix_space=False)
    raise ModelUnsupported(f"GGUF pre-tokenizer {variant!r} is not converted; 'smollm' and 'gpt-2' are")


def _added(tokens: list[str], types: list[int], wanted: int, *, special: bool) -> list[AddedToken]:
    return [
        AddedToken(token, special=special, normalized=False)
        for token, kind in zip(tokens, types, strict=True)
        if kind == wanted
    ]


def _listed(meta: Mapping[str, Json], key: str) -> list[Json]:
    found = meta.get(f"tokenizer.ggml.{key}")
    if not isinstance(found, list) or not found:
        raise ModelFault(f"the GGUF file's tokenizer.ggml.{key} is missing or empty")
    return found
