"""A draft model changes no token, whatever it believes: one that is the model itself saves passes, a stranger none.

The ring is the real one without processes, as in `test_batching.py`, and the draft model's steps come between its
frames.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ringleader.errors import ModelUnsupported
from ringleader.shard.drafter import Drafter, load_drafter, try_drafter
from ringleader.shard.drafting import Drafting as Plans
from ringleader.shard.loader import load_whole
from ringleader.tokenizer import load_tokenizer
from ringleader.values import Sampling, SlotSpec
from tests.ring.cluster import Cluster, ask
from tests.ring.real_ring import RealRing, ended, greedy
from tests.ring.test_batching import GRAMMARS, Model
from tests.ring.test_drafts import ASKED, Asked, Drafting, alone, made, play, same
from tests.ring.tiny_models import make_tiny_model

SAMPLINGS = (Sampling(seed=0, temperature=0.0), Sampling(seed=5, temperature=0.7))
STEPS_MAX = 400  # of a draft model between two frames


@dataclass
class Helped(Drafting):
    """A ring with a draft model, which makes up to `steps()` steps after each thing that happens."""

    drafter: Drafter | None = None
    steps: Callable[[], int] = lambda: STEPS_MAX

    def step(self, choose: int = 0) -> bool:
        happened = super().step(choose)
        for _ in range(self.steps()):
            if (step := self.batcher.drafting.next_step()) is None:
                break
            assert self.drafter is not None
            self.batcher.drafting.stepped(step, *self.drafter.step(step))
        return happened


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return made(tmp_path_factory.mktemp("drafts"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another random model with the same tokenizer."""
    return make_tiny_model("llama", tmp_path_factory.mktemp("stranger") / "stranger", seed=9, tokenizer=True)


@cache
def drafter_of(directory: Path, width: int) -> Drafter:
    return Drafter(load_whole(directory), width)


def helped(
    model: Model, shards: int, drafter: Drafter, steps: Callable[[], int] = lambda: STEPS_MAX, **changes: Any
) -> Helped:
    plain = model.ring(shards, **changes)
    for engine in plain.engines:
        engine.steps_back, engine.drafts = True, False  # what is looked up is another matter
    drafter.reset()
    plain.batcher.drafting = Plans(frozenset(model.tokenizer.eos_ids))
    return Helped(plain.engines, plain.batcher, guess=lambda coming: (), drafter=drafter, steps=steps)


def asked(seed: int, temperature: float, grammar: str = "", tokens: int = 40) -> Asked:
    prompt = tuple(range(20 + seed, 45 + seed))
    return Asked(prompt, SlotSpec(Sampling(seed=seed, temperature=temperature), tokens, len(prompt), grammar=grammar))


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("grammar", GRAMMARS[:2])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_model_that_drafts_for_itself_is_nearly_always_right(
    model: Model, shards: int, grammar: str, temperature: float
) -> None:
    each = asked(5, temperature, grammar)
    expected = alone(model, each)
    ring = helped(model, shards, drafter_of(model.directory, model.tokenizer.vocab_size))
    ring.expected = {5: expected}
    found = play(ring, [each])[5]
    assert same(found, expected)
    if not grammar:  # what it does not know of, it cannot draft
        assert ring.passes < 0.5 * len(expected.tokens), ring.widths


@pytest.mark.parametrize("temperature, part", [(0.0, 0.8), (0.8, 0.5)])
def test_a_stranger_is_seldom_right_and_changes_nothing(
    model: Model, stranger: Path, temperature: float, part: float
) -> None:
    """Where tokens are drawn it is right more often: both draw by the same noise."""
    each = asked(6, temperature)
    expected = alone(model, each)
    ring = helped(model, 2, drafter_of(stranger, model.tokenizer.vocab_size))
    ring.expected = {6: expected}
    assert same(play(ring, [each])[6], expected)
    assert ring.passes > part * len(expected.tokens)


def test_answers_that_share_passes_all_have_drafts(model: Model) -> None:
    plan = [asked(seed, 0.8 * (seed % 2)) for seed in range(4)]
    expected = {seed: alone(model, each) for seed, each in enumerate(plan)}
    ring = helped(model, 2, drafter_of(model.directory, model.tokenizer.vocab_size))
    ring.expected = expected
    found = play(ring, plan)
    assert all(same(found[seed], expected[seed]) for seed in expected)
    assert max(rows for rows, _ in ring.widths) > 1
    assert ring.passes < 0.8 * max(len(each.tokens) for each in expected.values()), ring.widths


def test_slots_that_are_given_up_come_back_with_drafts_as_before(model: Model) -> None:
    plan = [asked(seed, 0.8 * (seed % 2), tokens=60) for seed in range(4)]
    expected = {seed: alone(model, each) for seed, each in enumerate(plan)}
    drafter = drafter_of(model.directory, model.tokenizer.vocab_size)
    ring = helped(model, 2, drafter, kv_tokens_max=220, kv_ahead=8)
    ring.expected = expected
    found = play(ring, plan)
    assert all(same(found[seed], expected[seed]) for seed in expected)
    assert ring.batcher.preemptions > 0
    assert drafter._slots == {}, "nothing is held of slots that are gone"


def test_an_answer_that_begins_from_what_is_kept_has_drafts_too(model: Model) -> None:
    first = asked(0, 0.0, tokens=60)
    ring = helped(model, 2, drafter_of(model.directory, model.tokenizer.vocab_size))
    ring.expected[0] = alone(model, first)
    assert same(play(ring, [first])[0], ring.expected[0])
    prompt = (*first.prompt, *ring.expected[0].tokens, 7)
    later = Asked(prompt, SlotSpec(Sampling(seed=9, temperature=0.0), 60, len(prompt)))
    ring.expected[9] = alone(model, later)
    before = ring.passes
    assert same(play(ring, [first, later])[9], ring.expected[9])
    assert ring.cached["9"] > 0
    assert ring.passes - before < 0.6 * len(ring.expected[9].tokens)


@pytest.mark.parametrize("itself", [True, False])
@settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(plan=st.lists(ASKED, min_size=1, max_size=5), seed=st.integers(0, 1 << 30))
def test_no_draft_model_changes_an_answer_of_any_kind_however_far_behind_it_is(
    model: Model, stranger: Path, itself: bool, plan: list[Asked], seed: int
) -> None:
    plan = [
        replace(each, spec=replace(each.spec, sampling=replace(each.spec.sampling, seed=number)))
        for number, each in enumerate(plan)
    ]
    expected = {number: alone(model, each) for number, each in enumerate(plan)}
    rng = random.Random(seed)
    drafter = drafter_of(model.directory if itself else stranger, model.tokenizer.vocab_size)
    ring = helped(model, 2, drafter, lambda: rng.choice([0, 1, 3, 20]))
    ring.expected = expected
    found = play(ring, plan)
    for number, each in enumerate(plan):
        if each.cancel_after is None:
            assert same(found[number], expected[number]), f"request {number} of {plan}"
        elif number in found:
            assert found[number].tokens == expected[number].tokens[: len(found[number].tokens)]


def test_a_model_with_another_tokenizer_is_refused_with_what_differs(
    model: Model, stranger: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = _with_another_token(stranger, tmp_path / "foreign")
    with pytest.raises(ModelUnsupported, match=r"foreign cannot make drafts: .*id \d+ is .* in the one.* in the other"):
        load_drafter(foreign, model.tokenizer.vocab_size, model.tokenizer)
    assert try_drafter(foreign, model.directory) is None
    assert "there are no drafts of a model: foreign" in caplog.text


def test_a_model_that_cannot_step_back_is_refused(model: Model, tmp_path: Path) -> None:
    sliding = make_tiny_model("mamba", tmp_path / "recurrent", tokenizer=True)
    with pytest.raises(ModelUnsupported, match="recurrent cannot make drafts: its caches cannot step back"):
        load_drafter(sliding, model.tokenizer.vocab_size, model.tokenizer)


@pytest.mark.ring
async def test_a_real_model_drafts_for_itself_while_the_ring_is_busy(smollm: Path) -> None:
    prompt = tuple(load_tokenizer(smollm).encode("Once upon a time, there was a"))
    specs = [replace(greedy(prompt, 24), sampling=sampling) for sampling in SAMPLINGS]
    async with RealRing(smollm, (15, 15), draft_model=smollm, pace="pass_ms=250") as ring:
        for spec in specs:
            _, plain = ring.submit(prompt, replace(spec, drafts=False))
            expected = await ended(plain)
            _, drafted = ring.submit(prompt, spec)
            assert await ended(drafted) == expected
            assert plain.news[-1].passes == len(expected)
            assert drafted.news[-1].passes < 0.7 * len(expected)
            assert drafted.news[-1].accepted >= 0.5 * drafted.news[-1].drafted


@pytest.mark.ring
async def test_a_node_with_a_draft_model_answers_the_same_in_fewer_passes(smollm: Path, tmp_path: Path) -> None:
    served = ("--model", str(smollm), "--shards", "2")
    answers = {}
    for name, more in (("plain", ("--no-speculation",)), ("helped", ("--draft-model", str(smollm)))):
        (tmp_path / name).mkdir()
        with Cluster(tmp_path / name, RINGLEADER_PACE="pass_ms=300") as cluster:
            node = cluster.start_master("a", *served, *more)
            cluster.wait_ready()
            async with aiohttp.ClientSession() as session:
                status, answers[name] = await ask(session, cluster.api, max_tokens=20)
            assert status == 200, answers[name]
            assert ("makes drafts" in node.words()) == (name == "helped")
            assert cluster.view()["rings"][0]["draft_model"] == (str(smollm) if name == "helped" else None)
    plain, helped = answers["plain"], answers["helped"]
    assert helped["choices"][0]["message"] == plain["choices"][0]["message"]
    assert plain["usage"]["ringleader"]["passes"] >= 20
    assert helped["usage"]["ringleader"]["passes"] <= 14
    assert helped["usage"]["completion_tokens_details"]["accepted_prediction_tokens"] >= 6


@pytest.mark.ring
def test_a_node_refuses_a_draft_model_with_another_tokenizer_at_its_start(smollm: Path, stranger: Path) -> None:
    command = [sys.executable, "-m", "ringleader", "node", "--insecure", "--no-mdns", "--api-port", "0", "--port", "0"]
    command += ["--model", str(smollm), "--draft-model", str(stranger)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert "stranger cannot draft for" in ended.stderr
    assert "its tokenizer is another one: id " in " ".join(ended.stderr.split())


def _with_another_token(directory: Path, to: Path) -> Path:
    """The same model with another name of one token."""
    to.mkdir()
    for file in directory.iterdir():
        data = file.read_bytes()
        (to / file.name).write_bytes(
            data.replace(b"<|im_end|>", b"<|im_stop|>") if file.name.startswith("tokenizer") else data
        )
    return to
