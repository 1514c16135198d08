"""A small, real byte-level BPE vocabulary, in three variants: markers as special tokens, as text, and reasoning."""

from __future__ import annotations

import pytest
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


def _tokenizer(special: list[str], template: str) -> Tokenizer:
    bpe = Bpe(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        CORPUS * 3, trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    )
    bpe.add_special_tokens([AddedToken(text, special=True) for text in ["<|im_start|>", "<|im_end|>", *special]])
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<|im_start|>", eos_token="<|im_end|>")
    end = fast.eos_token_id
    assert isinstance(end, int)
    return Tokenizer(fast, vocab_size=bpe.get_vocab_size() + 12, eos_ids=(end,), chat_template=template)


@pytest.fixture(scope="session")
def marked() -> Tokenizer:
    """The call markers and the thinking markers are special tokens; the template mentions thinking."""
    return _tokenizer(["<tool_call>", "</tool_call>", "<think>", "</think>"], MENTIONS_THINKING)


@pytest.fixture(scope="session")
def plain() -> Tokenizer:
    """No marker is a token of its own; the template knows neither tools nor thinking."""
    return _tokenizer([], CHATML)


@pytest.fixture(scope="session")
def thinking() -> Tokenizer:
    """As `marked`, with prompts that end inside the reasoning."""
    return _tokenizer(["<tool_call>", "</tool_call>", "<think>", "</think>"], THINKING)


@pytest.fixture(scope="session", params=["marked", "plain"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Each of the two kinds of vocabulary in turn."""
    found: Tokenizer = request.getfixturevalue(request.param)
    return found
