"""Rings of real shard processes give, token for token, what mlx-lm's own generation gives on the whole model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import grpc.aio
import mlx.core as mx
import mlx_lm.utils
import pytest
import pytest_asyncio
from mlx_lm.generate import generate_step

from ringleader.shard.activations import Activation
from ringleader.shard.batcher import Segments, Turn
from ringleader.shard.frames import frame
from ringleader.shard.prefixes import Orders
from ringleader.tokenizer import Tokenizer, load_tokenizer
from ringleader.v1 import ring_pb2 as pb
from ringleader.v1 import ring_pb2_grpc as rpc
from ringleader.values import RequestId
from tests.ring.real_ring import RealRing, ended, greedy, until
from tests.ring.tiny_models import make_tiny_model

pytestmark = [pytest.mark.ring, pytest.mark.asyncio(loop_scope="module")]

ANSWER_TOKENS = 24
QUESTION = "<|im_start|>user\nName three colours of the sky, and say why.<|im_end|>\n<|im_start|>assistant\n"
OTHERS = (
    "<|im_start|>user\nWrite one line about the sea.<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nCount from one to twenty in words.<|im_end|>\n<|im_start|>assistant\n",
)
SKY = {
    "type": "object",
    "properties": {"sky_colour_in_the_morning": {"enum": ["red", "blue"]}},
    "required": ["sky_colour_in_the_morning"],
    "additionalProperties": False,
}
TINY_PROMPT = tuple(range(20, 60))

Whole = Callable[[tuple[int, ...], int], list[int]]


def whole_model(directory: Path) -> Whole:
    """mlx-lm's greedy generation on the whole model, in this process."""
    model, _ = mlx_lm.utils.load_model(directory)

    @cache
    def generate(prompt: tuple[int, ...], count: int) -> list[int]:
        steps = generate_step(mx.array(prompt), model, max_tokens=count, prefill_step_size=512)
        return [int(token) for token, _ in islice(steps, count)]

    return generate


@pytest.fixture(scope="module")
def whole(smollm: Path) -> Whole:
    return whole_model(smollm)


@pytest.fixture(scope="module")
def tokenizer(smollm: Path) -> Tokenizer:
    return load_tokenizer(smollm)


@pytest.fixture(scope="module")
def question(tokenizer: Tokenizer) -> tuple[int, ...]:
    return tuple(tokenizer.encode(QUESTION))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def halves(smollm: Path) -> AsyncIterator[RealRing]:
    """The embedded model in two equal shards, shared by the tests that need a ring that runs."""
    async with RealRing(smollm, (15, 15)) as ring:
        yield ring


@pytest.mark.parametrize("sizes", [(1, 29), (7, 11, 12), (3, 9, 8, 10)], ids=str)
async def test_a_ring_gives_what_the_whole_model_gives(
    smollm: Path, whole: Whole, question: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    async with RealRing(smollm, sizes) as ring:
        assert await ring.answer(question, ANSWER_TOKENS) == whole(question, ANSWER_TOKENS)


async def test_two_halves_give_what_the_whole_model_gives(
    halves: RealRing, whole: Whole, question: tuple[int, ...]
) -> None:
    assert await halves.answer(question, ANSWER_TOKENS) == whole(question, ANSWER_TOKENS)


@pytest.mark.parametrize("family", ["qwen3_moe", "gemma3_text"])
async def test_a_tiny_family_over_three_processes_gives_what_the_whole_model_gives(family: str, tmp_path: Path) -> None:
    directory = make_tiny_model(family, tmp_path, tokenizer=True)
    async with RealRing(directory, (1, 3, 2)) as ring:
        assert await ring.answer(TINY_PROMPT, ANSWER_TOKENS) == whole_model(directory)(TINY_PROMPT, ANSWER_TOKENS)


@pytest.mark.parametrize("sizes", [(8,), (1,) * 8], ids=["one shard", "eight shards"])
async def test_a_ring_may_have_one_shard_or_eight(sizes: tuple[int, ...], tmp_path: Path) -> None:
    directory = make_tiny_model("qwen3", tmp_path, tokenizer=True, num_hidden_layers=8)
    async with RealRing(directory, sizes) as ring:
        assert await ring.answer(TINY_PROMPT, ANSWER_TOKENS) == whole_model(directory)(TINY_PROMPT, ANSWER_TOKENS)
        assert [reply.stop_layer - reply.first_layer for reply in await ring.hellos()] == list(sizes)


async def test_a_long_prompt_crosses_the_ring_in_chunks(halves: RealRing, whole: Whole, tokenizer: Tokenizer) -> None:
    story = tokenizer.encode("".join(f"On day {day} the keeper lit lamp {day * 7 % 11}. " for day in range(1, 400)))
    prompt = tuple(story[:1500])  # attention over more is slow on a CPU
    assert len(prompt) == 1500
    _, received = halves.submit(prompt, greedy(prompt, 8))
    assert await ended(received) == whole(prompt, 8)
    assert [each.prompt_done for each in received.news if not each.tokens] == list(range(512, 1500, 512))


async def test_requests_in_flight_together_take_turns_and_each_gets_its_own_answer(
    halves: RealRing, whole: Whole, tokenizer: Tokenizer
) -> None:
    prompts = [tuple(tokenizer.encode(text)) for text in (QUESTION, *OTHERS)]
    halves.log.clear()
    sent = [halves.submit(prompt, greedy(prompt, ANSWER_TOKENS)) for prompt in prompts]
    answers = await asyncio.gather(*(ended(received) for _, received in sent))
    for prompt, answer in zip(prompts, answers, strict=True):
        assert answer == whole(prompt, ANSWER_TOKENS)[: len(answer)]
        assert len(answer) == ANSWER_TOKENS or answer[-1] in tokenizer.eos_ids
    log = list(halves.log)
    all_live = log[max(log.index(name) for name, _ in sent) : min(_last(log, name) for name, _ in sent)]
    assert len(all_live) > ANSWER_TOKENS
    for at in range(len(all_live) - 2 * len(sent)):
        assert len(set(all_live[at : at + 2 * len(sent)])) == len(sent), "a request waited while others had two turns"


def _last(log: list[RequestId], name: RequestId) -> int:
    return len(log) - 1 - log[::-1].index(name)


async def test_a_cancelled_request_frees_its_slot_everywhere_and_the_next_answer_is_right(
    halves: RealRing, whole: Whole, question: tuple[int, ...]
) -> None:
    prompt = (*question, *question)
    request, received = halves.submit(prompt, greedy(prompt, 2000))
    async with asyncio.timeout(60):
        await received.first.wait()
    assert await halves.slots() == [1, 1]
    halves.cancel(request)
    await until(lambda: _no_slots(halves))
    assert not received.ended.is_set()
    assert await halves.answer(question, ANSWER_TOKENS) == whole(question, ANSWER_TOKENS)


async def _no_slots(ring: RealRing) -> bool:
    return await ring.slots() == [0, 0]


async def test_forced_followers_change_the_number_of_passes_and_nothing_else(
    halves: RealRing, question: tuple[int, ...]
) -> None:
    grammar = f"start: %json {json.dumps({'x-guidance': {'whitespace_flexible': False}, **SKY})}"
    spec = replace(greedy(question, 60), grammar=grammar)
    _, together = halves.submit(question, spec)
    answer = await ended(together)  # beside another's single tokens they might ride one a pass
    _, alone = halves.submit(question, replace(spec, followers=False))
    assert answer == await ended(alone)
    assert together.news[-1].passes < alone.news[-1].passes / 2


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [("plan", "another plan"), ("epoch", "belongs to epoch"), ("step", "came after")],
)
async def test_a_frame_that_does_not_belong_is_refused_and_changes_nothing(
    halves: RealRing, whole: Whole, question: tuple[int, ...], wrong: str, complaint: str
) -> None:
    _, received = halves.submit(question, greedy(question, ANSWER_TOKENS))
    async with asyncio.timeout(60):
        await received.first.wait()
    for address in halves.addresses:
        report = await _report_of(address, _stray(halves, question, wrong))
        assert complaint in report.error
    assert await halves.slots() == [1, 1]
    assert await ended(received) == whole(question, ANSWER_TOKENS)
    assert halves.breaks == []


def _stray(ring: RealRing, tokens: tuple[int, ...], wrong: str) -> pb.Frame:
    """A frame that would begin a slot, were one of its marks not wrong."""
    turn = Turn(slot=999, position=0, tokens=tokens, sample=True, spec=greedy(tokens, 1))
    activation = Activation(bytes(4 * 576 * len(tokens)), "f32", (1, len(tokens), 576))
    return frame(
        plan=bytes(16) if wrong == "plan" else bytes.fromhex(ring.plan),
        epoch=ring.epoch + 1 if wrong == "epoch" else ring.epoch,
        step=1_000_000,  # far ahead; plan and epoch are looked at first
        sent=Segments((turn,)),
        orders=Orders((1, 2, 3)),
        activation=activation,
    )


async def _report_of(address: str, message: pb.Frame) -> pb.PassReport:
    async with grpc.aio.insecure_channel(address) as channel:
        call = rpc.RingStub(channel).Pass(timeout=30)
        await call.write(message)
        report: pb.PassReport = await call.read()
        call.cancel()
        return report
