"""A whole answer without a model or a network: the real prompt, the real tail's sampler, the real parser.

Only the logits are made up (see `tastes.py`). Imports MLX when the first answer is asked for, not before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ringleader.language.prompt import Prompt, Voice, compose, parser
from ringleader.node.answer import specified
from ringleader.tokenizer import Tokenizer
from ringleader.values import ChatRequest, Delta, Finish, FinishReason, ReasoningDelta, SlotSpec, Usage
from tests.conformance.tastes import Logits

PICKS_MAX = 20_000


def generate(
    voice: Voice, request: ChatRequest, logits: Logits, max_tokens: int, prompt: Prompt | None = None
) -> tuple[list[Delta], FinishReason, Usage]:
    """The answer to `request`: its deltas without the last, its finish reason and usage, as `node.answer` makes them.

    `prompt` is what `compose` made of the same request before, where that is known.
    """
    prompt = prompt or compose(voice, request)
    reader = parser(voice, prompt, request)
    usage = Usage(prompt_tokens=len(prompt.ids), opening_tokens=len(prompt.opening))
    deltas = reader.open(prompt.opening)
    finish: Finish = ""
    spec = specified(voice, replace(request, max_tokens=max_tokens), prompt)
    for passes, picked in enumerate(tail(voice.tokenizer, prompt.ids, spec, logits), 1):
        fresh = reader.feed(picked.tokens, picked.logprobs)
        deltas += fresh
        reasoned = sum(len(delta.tokens) for delta in fresh if isinstance(delta, ReasoningDelta))
        usage = replace(
            usage,
            completion_tokens=usage.completion_tokens + len(picked.tokens),
            reasoning_tokens=usage.reasoning_tokens + reasoned,
            forced_tokens=usage.forced_tokens + len(picked.tokens) - 1,
            passes=passes,
        )
        finish = "stop" if reader.stopped else picked.finish
        if reader.stopped:
            break
    assert finish in ("stop", "length")
    deltas += reader.finish(finish)
    return deltas, reader.finish_reason(finish), usage


def tail(tokenizer: Tokenizer, prompt: Sequence[int], spec: SlotSpec, logits: Logits) -> Iterator[Any]:
    """What the tail picks (`shard.sampler.Picked`), to the end of the answer."""
    from ringleader.shard.sampler import Sampler

    grammar = ready(_matcher(tokenizer, spec.grammar)) if spec.grammar else None
    closer = ready(_closer(tokenizer)) if spec.grammar else None
    sampler = Sampler(spec, grammar, frozenset(tokenizer.eos_ids), closer)
    sampler.extend_prompt(tuple(prompt))
    written: list[int] = []
    for _ in range(PICKS_MAX):
        picked = sampler.pick(logits(written))
        assert picked.finish != "error", f"{picked.error}; after {tokenizer.decode(written)!r}"
        written += picked.tokens
        yield picked
        if picked.finish:
            return
    raise AssertionError(f"no end after {PICKS_MAX} picks")


def ready(value: Any) -> Future[Any]:
    """A future that is done."""
    future: Future[Any] = Future()
    future.set_result(value)
    return future


@lru_cache(maxsize=64)
def _compiled(tokenizer: Tokenizer, grammar: str) -> Any:
    from llguidance import LLMatcher

    matcher = LLMatcher(tokenizer.grammar_view, grammar, log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


def _matcher(tokenizer: Tokenizer, grammar: str) -> Any:
    return _compiled(tokenizer, grammar).deep_copy()


@lru_cache(maxsize=64)
def _closer(tokenizer: Tokenizer) -> Any:
    from ringleader.shard.closing import Closer

    return Closer(tokenizer.grammar_view, frozenset(tokenizer.eos_ids))
