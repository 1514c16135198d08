"""The real OpenAI SDK's legacy completions against the real server over a scripted node."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from ringleader.values import Delta, Finished, TextDelta, TokenLogprob
from tests.api.scripted import HELLO, MODEL, USAGE, ScriptedNode
from tests.api.test_openai_sdk import sdk

SCORED: tuple[Delta, ...] = (
    TextDelta("Hi", logprobs=(TokenLogprob(1, -0.5, ((1, -0.5), (3, -1.0))),)),
    TextDelta("é", logprobs=(TokenLogprob(3, 0.0),)),
    Finished("length", USAGE),
)


async def test_a_prompt_goes_in_as_it_is_and_text_comes_back() -> None:
    node = ScriptedNode()
    async with sdk(node) as client:
        answer = await client.completions.create(model=MODEL, prompt="Once", seed=5, stop=["x"], temperature=0)
    (asked,) = node.requests
    assert (asked.raw, asked.messages, asked.max_tokens, asked.stop) == ("Once", (), 16, ("x",))
    assert (answer.object, answer.choices[0].text, answer.choices[0].finish_reason) == (
        "text_completion",
        "Hello ☀",
        "stop",
    )
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (11, 18)


async def test_a_stream_gives_the_same_text_and_its_usage_last() -> None:
    async with sdk(ScriptedNode()) as client:
        options: Any = {"stream": True, "stream_options": {"include_usage": True}, "echo": True}
        chunks = [chunk async for chunk in await client.completions.create(model=MODEL, prompt="So: ", **options)]
    assert "".join(choice.text for chunk in chunks for choice in chunk.choices) == "So: Hello ☀"
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices] == [None, None, "stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None


async def test_several_prompts_are_continued_several_times_each_in_their_order() -> None:
    node = ScriptedNode(HELLO, HELLO, HELLO, HELLO)
    async with sdk(node) as client:
        answer = await client.completions.create(model=MODEL, prompt=["a", "b"], n=2, echo=True, seed=1, max_tokens=3)
    assert [choice.text for choice in answer.choices] == ["aHello ☀", "aHello ☀", "bHello ☀", "bHello ☀"]
    assert sorted((request.raw, request.sampling.seed) for request in node.requests) == [
        ("a", 1),
        ("a", 2),
        ("b", 1),
        ("b", 2),
    ]
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (22, 28)


async def test_ids_may_be_a_prompt() -> None:
    node = ScriptedNode(HELLO, HELLO, HELLO)
    async with sdk(node) as client:
        await client.completions.create(model=MODEL, prompt=[1, 2])
        await client.completions.create(model=MODEL, prompt=[[3], [4, 5]])
    assert [request.raw for request in node.requests] == [(1, 2), (3,), (4, 5)]


async def test_logprobs_have_the_older_shape() -> None:
    async with sdk(ScriptedNode(SCORED)) as client:
        choice = (await client.completions.create(model=MODEL, prompt="x", logprobs=2)).choices[0]
    assert choice.logprobs is not None
    assert choice.logprobs.tokens == ["Hi", "é"]
    assert choice.logprobs.token_logprobs == [-0.5, 0.0]
    assert choice.logprobs.top_logprobs == [{"Hi": -0.5, "é": -1.0}, {}]
    assert choice.logprobs.text_offset == [0, 2]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 3}, "best_of"),
        ({"n": 9}, "n"),
        ({"prompt": ["a"] * 5, "n": 2}, "prompt"),
        ({"echo": True, "logprobs": 1}, "echo"),
        ({"logprobs": -1}, "logprobs"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"extra_body": {"messages": [{}]}}, "messages"),
        ({"extra_body": {"tools": [{}]}}, "tools"),
        ({"extra_body": {"response_format": {"type": "json_object"}}}, "response_format"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(fields: Any, param: str) -> None:
    async with sdk(ScriptedNode()) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            await client.completions.create(**{"model": MODEL, "prompt": "x", **fields})
    assert caught.value.param is not None
    assert caught.value.param.startswith(param)
