"""Small, real byte-level BPE vocabularies with the special tokens and the template that a test wants."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tokenizers import AddedToken, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Bpe
from transformers import PreTrainedTokenizerFast

from ringleader.tokenizer import Tokenizer

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
# Speaks of </think>, and begins the answer inside the model's reasoning, as some real ones do.
THINKING = CHATML.replace("assistant\\n' }}{% endif %}", "assistant\\n<think>\\n' }}{% endif %}")
MENTIONS_THINKING = CHATML + "{# </think> #}"

CORPUS = [
    'Hello there, how are you today? The weather in New York is fine. <tool_call> {"name": "get_weather"',
    '"arguments": {"city": "Oslo", "days": 3}} </tool_call> {"value": "x"} true false null 1234567890',
    "I think that the answer is yes. Paris, London, Rome and Lima are cities; text, note, string and number.",
    '{"city": "New York"} {"city": "New Delhi"} ": " ", " "New "name" "arguments" {"name": {"city":',
]


def tokenizer_with(
    special: Sequence[str] = (), template: str | None = CHATML, ends: Sequence[str] = ("<|im_end|>",)
) -> Tokenizer:
    """A vocabulary with these special tokens beside `<|im_start|>` and `<|im_end|>`; the `ends` end an answer."""
    return _made(tuple(special), template, tuple(ends))


@lru_cache(maxsize=32)
def _made(special: tuple[str, ...], template: str | None, ends: tuple[str, ...]) -> Tokenizer:
    bpe = Bpe.from_str(_trained())
    bpe.add_special_tokens(
        [AddedToken(text, special=True) for text in dict.fromkeys(["<|im_start|>", "<|im_end|>", *special])]
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<|im_start|>", eos_token="<|im_end|>")
    ids = tuple(bpe.token_to_id(text) for text in ends)
    return Tokenizer(fast, vocab_size=bpe.get_vocab_size() + 12, eos_ids=ids, chat_template=template)


@lru_cache(maxsize=1)
def _trained() -> str:
    bpe = Bpe(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        CORPUS * 3, trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    )
    return str(bpe.to_str())


def with_template(tokenizer: Tokenizer, template: str | None) -> Tokenizer:
    """The same vocabulary, of a model with another chat template."""
    return Tokenizer(
        tokenizer._fast, vocab_size=tokenizer.vocab_size, eos_ids=tokenizer.eos_ids, chat_template=template
    )


def save(tokenizer: Tokenizer, directory: Path) -> None:
    """The files of this vocabulary and template in a model's directory."""
    tokenizer._fast.save_pretrained(str(directory))
    if tokenizer.chat_template is not None:
        (directory / "chat_template.jinja").write_text(tokenizer.chat_template, encoding="utf-8")
