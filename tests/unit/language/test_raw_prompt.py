"""A prompt as it is, and an answer that is text whatever it says."""

from __future__ import annotations

import pytest

from ringleader.errors import BadRequest, ContextTooLong
from ringleader.language.prompt import compose, parser, voice
from ringleader.tokenizer import Tokenizer
from ringleader.values import ChatRequest, Delta, ModelId, Sampling, TextDelta
from tests.unit.language.builders import collect

CONTEXT = 64


def raw(prompt: str | tuple[int, ...], **fields: object) -> ChatRequest:
    return ChatRequest(ModelId("m"), (), Sampling(seed=1), raw=prompt, **fields)  # type: ignore[arg-type] # by name


def test_no_template_stands_around_the_prompt(marked: Tokenizer) -> None:
    prompt = compose(voice(marked, CONTEXT), raw("Once upon"))
    assert marked.decode(prompt.ids) == "Once upon"
    assert (prompt.grammar, prompt.opening, prompt.demanded) == (None, (), False)


def test_ids_are_taken_as_they_are(marked: Tokenizer) -> None:
    assert compose(voice(marked, CONTEXT), raw((5, 3, 5))).ids == (5, 3, 5)


def read(tokenizer: Tokenizer, answer: str, **fields: object) -> list[Delta]:
    request = raw("Once", **fields)
    spoken = voice(tokenizer, CONTEXT)
    reader = parser(spoken, compose(spoken, request), request)
    deltas = [delta for token in tokenizer.encode(answer) for delta in reader.feed([token])]
    return [*deltas, *reader.finish("stop")]


@pytest.mark.parametrize(
    "answer", ["  \n two", '<tool_call>\n{"name": "now"}\n</tool_call>', "<think>hm</think> x ", "☀"]
)
def test_markup_and_white_space_are_text_like_any_other(marked: Tokenizer, plain: Tokenizer, answer: str) -> None:
    for tokenizer in (marked, plain):
        deltas = read(tokenizer, answer)
        assert all(isinstance(delta, TextDelta) for delta in deltas)
        assert collect(deltas).text == answer


def test_stop_strings_end_it(marked: Tokenizer) -> None:
    assert collect(read(marked, "one two three", stop=(" tw",))).text == "one"


def test_what_is_no_prompt_is_refused(marked: Tokenizer) -> None:
    for prompt in ((10**7,), (-1,), ()):
        with pytest.raises(BadRequest) as caught:
            compose(voice(marked, CONTEXT), raw(prompt))
        assert caught.value.param == "prompt"
    with pytest.raises(ContextTooLong) as too_long:
        compose(voice(marked, CONTEXT), raw((5,) * CONTEXT))
    assert too_long.value.param == "prompt"
