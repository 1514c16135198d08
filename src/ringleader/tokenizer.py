"""A model's tokenizer as the master and the tail shard must both see it: same ids, same ends, same grammar view.

Leaf module: imports no room. Loading reads files and takes a second; do it off the event loop.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from ringleader.errors import ModelFault, ModelUnsupported

# End a model's turn after a call or an answer whatever the configuration says: no family writes them inside one,
# and converted models often list only one of them. A model that is not stopped there calls itself.
TURN_ENDS = (
    "<|return|>",
    "<|call|>",
    "<|end_of_msg|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|tool_response>",
    "<start_function_response>",
)

CHARS_KEPT_MAX = 65_536  # lengths of tokens; some megabytes


class Tokenizer:
    """Wraps a fast (Rust) tokenizer. Thread-safe for reading.

    `vocab_size` is the width of the model's logits (it may be padded past the tokenizer's own size);
    `eos_ids` are all ids that end a turn, from generation_config.json, config.json and the tokenizer.
    """

    def __init__(self, fast: Any, *, vocab_size: int, eos_ids: tuple[int, ...], chat_template: str | None) -> None:
        self._fast = fast
        self._rust = fast.backend_tokenizer
        self.vocab_size = vocab_size
        self.eos_ids = eos_ids
        self.chat_template = chat_template
        self._chars: dict[tuple[int, ...], int] = {}

    def with_template(self, chat_template: str) -> Tokenizer:
        """The same vocabulary with another chat template."""
        return Tokenizer(self._fast, vocab_size=self.vocab_size, eos_ids=self.eos_ids, chat_template=chat_template)

    @property
    def bos_token(self) -> str:
        """The text of the begin-of-sequence token, or "" where the model has none. Templates ask for it."""
        return self._fast.bos_token or ""

    @property
    def eos_token(self) -> str:
        """The text of the tokenizer's own end token, or "". Templates ask for it."""
        return self._fast.eos_token or ""

    def encode(self, text: str) -> list[int]:
        """Ids of `text` with nothing added; the text of a special token becomes that token."""
        return list(self._rust.encode(text, add_special_tokens=False).ids)

    def encode_framed(self, text: str) -> list[int]:
        """Ids of `text` as of a document of its own: with what the tokenizer adds around one, often a BOS token."""
        return list(self._rust.encode(text, add_special_tokens=True).ids)

    def decode(self, ids: list[int] | tuple[int, ...]) -> str:
        """Text of `ids`, special tokens included as their text; broken UTF-8 as U+FFFD."""
        return str(self._rust.decode(list(ids), skip_special_tokens=False))

    def chars_alone(self, ids: tuple[int, ...]) -> int:
        """How many characters `decode` gives for these few ids. Remembered: an answer asks it at each of its tokens."""
        found = self._chars.get(ids)
        if found is None:
            if len(self._chars) >= CHARS_KEPT_MAX:
                self._chars.clear()
            found = self._chars[ids] = len(self.decode(ids))
        return found

    def token_bytes(self, token: int) -> bytes:
        """The bytes that `token` stands for, perhaps only a part of a character; b"" for an id past the vocabulary."""
        return bytes(self.grammar_view.decode_bytes([token])) if 0 <= token < self.vocab_size else b""

    def token_id(self, text: str) -> int | None:
        """The id whose token is exactly `text` (as in the vocabulary), or None."""
        found = self._rust.token_to_id(text)
        return None if found is None else int(found)

    def is_special(self, token: int) -> bool:
        """Whether `token` is an added token that is matched whole (a marker), not ordinary text."""
        return token in self._added

    @cached_property
    def _added(self) -> frozenset[int]:
        return frozenset(self._rust.get_added_tokens_decoder())

    def decoder(self) -> Any:
        """A fresh incremental decoder: `.step(tokenizer.rust, id)` gives text or None while bytes are missing."""
        from tokenizers.decoders import DecodeStream

        return DecodeStream(skip_special_tokens=False)

    @property
    def rust(self) -> Any:
        """The underlying `tokenizers.Tokenizer`, which `decoder().step` wants."""
        return self._rust

    @cached_property
    def grammar_view(self) -> Any:
        """The `llguidance.LLTokenizer` of this vocabulary; takes 0.1 to 2 s to build, once.

        Raises ModelUnsupported when llguidance cannot read the vocabulary.
        """
        import llguidance.hf

        try:
            return llguidance.hf.from_tokenizer(self._fast, n_vocab=self.vocab_size, eos_token=list(self.eos_ids))
        except (ValueError, TypeError, KeyError, RuntimeError) as error:
            raise ModelUnsupported(f"no grammar can be made from this model's tokenizer: {error}") from error


def load_tokenizer(directory: Path) -> Tokenizer:
    """Read the tokenizer of a model directory.

    Raises:
        ModelFault: a file is missing or unreadable.
        ModelUnsupported: the tokenizer has no fast form.
    """
    config = _json(directory / "config.json")
    try:
        from transformers import AutoTokenizer

        fast = AutoTokenizer.from_pretrained(str(directory), local_files_only=True, trust_remote_code=False)
    except Exception as error:  # both libraries raise bare Exceptions on files that they dislike
        raise ModelFault(f"the tokenizer in {directory} cannot be read: {error}") from error
    if not getattr(fast, "is_fast", False):
        raise ModelUnsupported(
            f"the tokenizer in {directory} ({type(fast).__name__}) has no fast form (tokenizer.json)"
        )
    text = config.get("text_config") or config
    width = int(text.get("vocab_size") or config.get("vocab_size") or len(fast))
    return Tokenizer(
        fast,
        vocab_size=width,
        eos_ids=_eos_ids(directory, config, fast),
        chat_template=_template(directory, fast),
    )


def difference(one: Tokenizer, other: Tokenizer) -> str:
    """What differs between the vocabularies of two tokenizers, in a few words; "" where every id is the same token."""
    tokens, others = one.rust.get_vocab(with_added_tokens=True), other.rust.get_vocab(with_added_tokens=True)
    if tokens == others:
        return ""
    by_id = {token: text for text, token in tokens.items()}
    by_other = {token: text for text, token in others.items()}
    first = next(token for token in sorted({*by_id, *by_other}) if by_id.get(token) != by_other.get(token))
    here, there = (repr(names[first]) if first in names else "no token" for names in (by_id, by_other))
    return f"id {first} is {here} in the one, with {len(tokens)} tokens, and {there} in the other, with {len(others)}"


def _eos_ids(directory: Path, config: dict[str, Any], fast: Any) -> tuple[int, ...]:
    generation = directory / "generation_config.json"
    sources = [_json(generation) if generation.exists() else {}, config, config.get("text_config") or {}]
    ids: list[int] = []
    for found in [*(source.get("eos_token_id") for source in sources), fast.eos_token_id]:
        ids.extend(found if isinstance(found, list) else [] if found is None else [found])
    if not ids:
        raise ModelFault(f"{directory} names no end-of-sequence token; set eos_token_id in its config.json")
    added = {str(token): id_ for id_, token in fast.added_tokens_decoder.items()}
    return tuple(dict.fromkeys([*ids, *(added[text] for text in TURN_ENDS if text in added)]))


def _template(directory: Path, fast: Any) -> str | None:
    found = fast.chat_template
    if isinstance(found, dict):  # several named templates: the one for tools is a superset
        found = found.get("tool_use") or found.get("default")
    if found is None and (file := directory / "chat_template.jinja").exists():
        found = file.read_text(encoding="utf-8")
    return None if found is None else str(found)


def _json(file: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelFault(f"{file} is missing: not a model directory") from error
    except (OSError, ValueError) as error:
        raise ModelFault(f"{file} cannot be read: {error}") from error
    if not isinstance(loaded, dict):
        raise ModelFault(f"{file} is not a JSON object")
    return loaded
