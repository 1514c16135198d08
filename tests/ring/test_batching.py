"""Answers that run together are those that mlx-lm's whole model gives alone: whoever joins, leaves or is cancelled.

The ring is the real one (batcher, frames' values, engines of each shard) without processes: a hypothesis example is
a plan of what comes when, and hundreds of passes must take seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm.utils
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
from mlx_lm.models.cache import make_prompt_cache

from ringleader.shard.batcher import Batcher, Limits, Returned, Segments
from ringleader.shard.engine import Engine, PrefixMissing
from ringleader.shard.loader import load_slice
from ringleader.shard.prefixes import Orders
from ringleader.shard.riding import ride_of
from ringleader.shard.sampler import Picked
from ringleader.tokenizer import Tokenizer, load_tokenizer
from ringleader.values import LayerRange, Ride, Sampling, SlotSpec
from tests.ring.real_ring import RealRing, ended, until
from tests.ring.tiny_configs import LAYERS
from tests.ring.tiny_models import make_tiny_model

CUTS = {1: (LAYERS,), 2: (2, LAYERS - 2), 3: (1, 3, 2)}
MISSED = "missed"
PASSES_MAX = 3000  # of one example; a ring that does not come to an end is a fault
GRAMMARS = ("", 'start: /(ab|cd)+/ "the quick brown fox jumps" /[a-z]+/ " over the lazy dog"', "start: /[a-f ]+/")


@dataclass(frozen=True)
class Asked:
    """A request; `at` is the pass before which it comes, `cancel_after` the tokens after which it is cancelled."""

    prompt: tuple[int, ...]
    max_tokens: int
    grammar: str = ""
    at: int = 0
    cancel_after: int | None = None
    resumed: int = 0  # tokens of the answer that another ring had given before

    def spec(self, answer: tuple[int, ...] = ()) -> SlotSpec:
        return SlotSpec(
            Sampling(seed=0, temperature=0.0),
            max_tokens=self.max_tokens,
            prompt_tokens=len(self.prompt),
            grammar=self.grammar,
            resumed_tokens=len(answer),
        )


class Whole:
    """mlx-lm's own model, one sequence at a time, one token a pass; of ours there is the grammar's mask alone."""

    def __init__(self, directory: Path) -> None:
        self.model, _ = mlx_lm.utils.load_model(directory)
        self.tokenizer = load_tokenizer(directory)
        self.answer = cache(self._answer)

    def _answer(self, prompt: tuple[int, ...], max_tokens: int, grammar: str) -> tuple[int, ...]:
        caches = make_prompt_cache(self.model)
        matcher = LLMatcher(self.tokenizer.grammar_view, grammar, log_level=0) if grammar else None
        logits = self.model(mx.array([prompt]), cache=caches)[0, -1]
        tokens: list[int] = []
        while len(tokens) < max_tokens:
            if matcher is not None:
                if matcher.is_stopped():
                    break
                mask = allocate_token_bitmask(1, logits.shape[-1])
                fill_next_token_bitmask(matcher, mask, 0)
                legal = np.unpackbits(mask.view(np.uint8), bitorder="little")[: logits.shape[-1]]
                logits = mx.where(mx.array(legal.astype(np.bool_)), logits, -np.inf)
            tokens.append(int(mx.argmax(logits).item()))  # type: ignore[arg-type]  # one integer
            if matcher is None and tokens[-1] in self.tokenizer.eos_ids:
                break
            if matcher is not None:
                assert matcher.consume_token(tokens[-1])
            logits = self.model(mx.array([[tokens[-1]]]), cache=caches)[0, -1]
        return tuple(tokens)


@dataclass
class Ring:
    """A ring's shards in this process, with frames under way between them; the frames move when `step` is called."""

    engines: list[Engine]
    batcher: Batcher
    inboxes: list[deque[tuple[Segments, Orders, Any]]] = field(default_factory=list)
    answers: dict[str, list[int]] = field(default_factory=dict)
    ends: dict[str, str] = field(default_factory=dict)
    cached: dict[str, int] = field(default_factory=dict)  # tokens of prompts that were not computed
    widths: list[tuple[int, int]] = field(default_factory=list)  # (rows, tokens of the longest) of each pass
    errors: dict[str, str] = field(default_factory=dict)
    drafted: int = 0  # guesses of the request that had most of them

    def __post_init__(self) -> None:
        for engine in self.engines:
            engine.reset()
        self.inboxes = [deque() for _ in self.engines]

    def step(self, choose: int = 0) -> bool:
        """One thing happens: the head sends, or a shard computes its oldest frame. False when nothing can."""
        ready = [index for index, inbox in enumerate(self.inboxes) if inbox]
        if len(self.inboxes[0]) == 0 and (sent := self.batcher.next_pass()) is not None:
            self.widths.append((len(sent.turns), sent.width))
            self.inboxes[0].append((sent, self.batcher.take_orders(), None))
            ready = [0, *ready]
        if not ready:
            if orders := self.batcher.take_orders():
                for engine in self.engines:
                    engine.obey(orders)
            return False
        self._compute(ready[choose % len(ready)])
        return True

    def _compute(self, index: int) -> None:
        sent, orders, received = self.inboxes[index].popleft()
        engine = self.engines[index]
        engine.obey(orders)
        out = self._out(engine, sent, received)
        if isinstance(out, tuple):
            self._returned(sent, out)
        elif index + 1 < len(self.engines):
            self.inboxes[index + 1].append((sent, orders, out))
        else:
            self._came_back(sent, (Picked(),) * len(sent.turns), True)

    def _out(self, engine: Engine, sent: Segments, received: Any) -> Any:
        """What comes out of a shard; `MISSED` when it or one before it lacked the prefix."""
        if received is MISSED:
            engine.miss(sent)
            return MISSED
        try:
            out = engine.run(sent, received)
        except PrefixMissing:
            return MISSED
        engine.get_ahead()
        return out

    def _returned(self, sent: Segments, picked: tuple[Picked, ...]) -> None:
        self._came_back(sent, picked, False)

    def _came_back(self, sent: Segments, picked: tuple[Picked, ...], missed: bool) -> None:
        turns = zip(sent.turns, picked, strict=True)
        rows = [Returned(turn.slot, each.tokens, each.finish, each.drafts, missed) for turn, each in turns]
        for progress, each in zip(self.batcher.returned(rows), picked, strict=True):
            if progress is not None:
                self.answers[progress.request] += each.tokens
                self.cached[progress.request] = progress.cached
                self.drafted = max(self.drafted, progress.drafted)
                if each.finish:
                    self.ends[progress.request] = each.finish
                    self.errors[progress.request] = each.error


def limits(ride: Ride, shards: int, **changes: Any) -> Limits:
    return replace(Limits(chunk_tokens=32, flight_max=shards, ride=ride, machines=tuple(range(shards))), **changes)


def play(ring: Ring, whole: Whole, plan: list[Asked], choices: Callable[[], int] = lambda: 0) -> None:
    """Put the requests to the ring as planned, to the end, and compare every answer with the whole model's."""
    waiting = {f"r{number}": asked for number, asked in enumerate(plan)}
    cancelled: set[str] = set()
    for count in range(PASSES_MAX):
        for name, asked in waiting.items():
            if name not in ring.answers and asked.at <= count:
                before = whole.answer(asked.prompt, asked.max_tokens, asked.grammar)[:-1][: asked.resumed]
                ring.answers[name] = list(before)
                assert ring.batcher.submit(name, (*asked.prompt, *before), asked.spec(before))
            tokens = len(ring.answers.get(name, ()))
            if asked.cancel_after is not None and name not in cancelled and tokens > asked.cancel_after:
                cancelled.add(name)
                ring.batcher.cancel(name)
        if not ring.step(choices()) and all(name in ring.answers for name in waiting):
            break
    else:
        raise AssertionError("the ring did not come to an end")
    for name, asked in waiting.items():
        expected = whole.answer(asked.prompt, asked.max_tokens, asked.grammar)
        got = tuple(ring.answers[name])
        if name in cancelled:
            assert got == expected[: len(got)], f"{name} of {plan}"
        else:
            assert got == expected, f"{name} of {plan}: {ring.errors.get(name)}"
    assert [engine.slots for engine in ring.engines] == [0] * len(ring.engines), "slots are left behind"


@dataclass
class Model:
    directory: Path
    whole: Whole
    tokenizer: Tokenizer
    rings: dict[int, list[Engine]] = field(default_factory=dict)

    def ring(self, shards: int, ride: Ride | None = None, **changes: Any) -> Ring:
        engines = self.rings.setdefault(shards, self._engines(shards) if shards not in self.rings else [])
        state_tokens = max(engine.state_tokens for engine in engines)
        changes = {"state_tokens": state_tokens} | changes
        return Ring(engines, Batcher(limits(ride or engines[0].ride, shards, **changes)))

    def _engines(self, shards: int) -> list[Engine]:
        stops = np.cumsum(CUTS[shards])
        parts = [
            load_slice(self.directory, LayerRange(int(stop - size), int(stop)), LAYERS, lambda _: None)
            for size, stop in zip(CUTS[shards], stops, strict=True)
        ]
        rides = {ride_of(part) for part in parts}
        assert len(rides) == 1, "all shards of a family can the same"
        return [Engine(part, self.tokenizer if part.tail else None, ride=rides.copy().pop()) for part in parts]


@cache
def _made(family: str, directory: Path) -> Model:
    made = make_tiny_model(family, directory / family, tokenizer=True)
    return Model(made, Whole(made), load_tokenizer(made))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Model]:
    base = tmp_path_factory.mktemp("models")
    return lambda family: _made(family, base)


PROMPTS = st.lists(st.integers(4, 300), min_size=1, max_size=70).map(tuple)
ASKED = st.builds(
    Asked,
    prompt=PROMPTS,
    max_tokens=st.integers(1, 24),
    grammar=st.sampled_from(GRAMMARS),
    at=st.integers(0, 25),
    cancel_after=st.none() | st.none() | st.integers(0, 12),
    resumed=st.sampled_from([0, 0, 0, 5]),
)
MANY = settings(
    max_examples=12,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a plan is short anyway, and shrinking one takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("family", ["llama", "gemma3_text", "qwen3_next"])
@MANY
@given(plan=st.lists(ASKED, min_size=3, max_size=8), choices=st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_whoever_comes_and_goes_each_answer_is_that_of_the_whole_model(
    models: Callable[[str], Model], family: str, shards: int, plan: list[Asked], choices: list[int]
) -> None:
    model = models(family)
    # A resumed answer under a grammar goes on where a token was drawn, not forced: ask those without a grammar only.
    plan = [replace(asked, resumed=0) if asked.grammar else asked for asked in plan]
    turn = iter(choices * PASSES_MAX)
    play(model.ring(shards), model.whole, plan, lambda: next(turn))


def test_a_slot_that_fails_costs_the_others_nothing(models: Callable[[str], Model]) -> None:
    model = models("llama")
    ring = model.ring(2)
    fails = Asked((9, 9, 9), 30, grammar="start: /a/ & /b/")  # no text is both: nothing can be drawn
    plan = [Asked((5 + n, 9, 2, 300), 20, at=n) for n in range(4)]
    ring.answers["fails"] = []
    assert ring.batcher.submit("fails", fails.prompt, fails.spec())
    play(ring, model.whole, plan)
    assert ring.ends["fails"] == "error"
    assert {ring.ends[f"r{n}"] for n in range(4)} <= {"stop", "length"}


def test_a_resumed_answer_goes_on_in_company_as_it_went_alone(models: Callable[[str], Model]) -> None:
    model = models("llama")
    play(model.ring(2), model.whole, [Asked((5 + n, 9, 2, 300), 20, resumed=4 * n, at=3 * n) for n in range(4)])


@pytest.mark.ring
async def test_a_ring_of_processes_answers_many_as_the_whole_model_does(models: Callable[[str], Model]) -> None:
    model = models("llama")
    plan = [Asked((5 + n, *range(9, 12 + 7 * n)), 30 - n, GRAMMARS[n % 3], at=n % 4) for n in range(12)]
    async with RealRing(model.directory, (2, LAYERS - 2)) as ring:
        sent = []
        for asked in sorted(plan, key=lambda asked: asked.at):
            sent.append((asked, *ring.submit(asked.prompt, asked.spec())))
            await asyncio.sleep(0)
        asked, leaver, _ = sent.pop(5)
        ring.cancel(leaver)
        for asked, _, received in sent:
            assert tuple(await ended(received)) == model.whole.answer(asked.prompt, asked.max_tokens, asked.grammar)
        await until(lambda: _no_slots(ring))
        assert ring.breaks == []


async def _no_slots(ring: RealRing) -> bool:
    return await ring.slots() == [0, 0]


def test_answers_really_run_together(models: Callable[[str], Model]) -> None:
    model = models("llama")
    ring = model.ring(1)
    play(ring, model.whole, [Asked((5 + n, 9, 2, 300), 20) for n in range(6)])
    assert max(rows for rows, _ in ring.widths) == 6
    assert len(ring.widths) < 6 * 20 / 3, "a pass for six costs one pass"


def test_forced_followers_ride_several_tokens_to_a_pass_beside_rows_of_one(models: Callable[[str], Model]) -> None:
    model = models("llama")
    ring = model.ring(1)
    play(ring, model.whole, [Asked((5 + n, 9, 2), 40, GRAMMARS[n % 2]) for n in range(2)])
    assert any(rows == 2 and width > 1 for rows, width in ring.widths)
