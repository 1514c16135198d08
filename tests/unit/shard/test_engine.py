"""What an engine takes, and that what it refuses changes nothing."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from ringleader.shard.activations import Activation, FrameRefused
from ringleader.shard.batcher import Segments, Turn
from ringleader.shard.engine import Engine
from ringleader.shard.loader import load_slice
from ringleader.shard.prefixes import Orders
from ringleader.shard.sampler import Picked
from ringleader.tokenizer import Tokenizer
from ringleader.values import LayerRange, Ride, Sampling, SlotSpec
from tests.ring.tiny_configs import LAYERS
from tests.ring.tiny_models import make_tiny_model

HIDDEN = 64
PROMPT = (5, 9, 2, 300)
SPEC = SlotSpec(Sampling(seed=0, temperature=0.0), max_tokens=20, prompt_tokens=len(PROMPT))
BEGIN = Turn(1, 0, PROMPT, True, SPEC)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model("llama", tmp_path_factory.mktemp("llama"))


def engine_of(
    directory: Path,
    start: int,
    stop: int,
    tokenizer: Tokenizer | None = None,
    slots_max: int = 4,
    ride: Ride = "ragged",
    steps_back: bool = True,
) -> Engine:
    part = load_slice(directory, LayerRange(start, stop), LAYERS, lambda _: None)
    return Engine(part, tokenizer, slots_max, ride, steps_back)


@pytest.fixture
def head(directory: Path) -> Engine:
    return engine_of(directory, 0, 2)


@pytest.fixture
def tail(directory: Path, tokenizer: Tokenizer) -> Engine:
    return engine_of(directory, 2, LAYERS, tokenizer)


def activation(rows: int, dtype: str = "f32") -> Activation:
    values = np.random.default_rng(rows).normal(size=(1, rows, HIDDEN)).astype(np.float32)
    return Activation(values.tobytes(), dtype, (1, rows, HIDDEN))


def sent_on(head: Engine, turn: Turn) -> Activation:
    out = head.run(Segments((turn,)), None)
    head.get_ahead()
    assert isinstance(out, Activation)
    return out


def picked(tail: Engine, turn: Turn, received: Activation) -> Picked:
    out = tail.run(Segments((turn,)), received)
    tail.get_ahead()
    assert isinstance(out, tuple)
    (found,) = out
    return found


def test_a_prompt_in_chunks_picks_what_the_prompt_at_once_picks(head: Engine, tail: Engine) -> None:
    whole = picked(tail, BEGIN, sent_on(head, BEGIN))
    first = Turn(2, 0, PROMPT[:3], False, SPEC)
    assert picked(tail, first, sent_on(head, first)) == Picked(), "a chunk picks nothing"
    rest = Turn(2, 3, PROMPT[3:], True, None)
    assert picked(tail, rest, sent_on(head, rest)) == whole
    assert whole.tokens


def test_slots_do_not_see_each_other(head: Engine, tail: Engine) -> None:
    alone = picked(tail, BEGIN, sent_on(head, BEGIN))
    other = replace(BEGIN, slot=2, tokens=(8, 8, 8, 8))
    picked(tail, other, sent_on(head, other))
    again = replace(BEGIN, slot=3)
    assert picked(tail, again, sent_on(head, again)) == alone
    assert head.slots == tail.slots == 3


@pytest.mark.parametrize("position", [0, 3, 5])
def test_a_segment_that_does_not_follow_its_slot_is_refused(head: Engine, tail: Engine, position: int) -> None:
    first = picked(tail, BEGIN, sent_on(head, BEGIN))
    with pytest.raises(FrameRefused, match="slot 1 is at 4"):
        tail.run(Segments((Turn(1, position, (7,), True, None),)), activation(1))
    right = Turn(1, 4, first.tokens, True, None)
    assert picked(tail, right, sent_on(head, right)).tokens, "the slot is where it was"


@pytest.mark.parametrize("turn", [Turn(9, 0, (7,), True, None), Turn(9, 3, (7,), True, SPEC)])
def test_a_slot_that_was_never_begun_is_refused(tail: Engine, turn: Turn) -> None:
    with pytest.raises(FrameRefused, match="slot 9 is not known"):
        tail.run(Segments((turn,)), activation(1))
    assert tail.slots == 0


@pytest.mark.parametrize(
    "wrong",
    [
        Activation(activation(4).data, "f32", (1, 5, HIDDEN)),
        Activation(activation(4).data, "f32", (1, 4, HIDDEN + 1)),
        Activation(activation(4).data, "f32", (4, HIDDEN)),
        Activation(activation(4).data, "f32", ()),
        Activation(activation(4).data[:-1], "f32", (1, 4, HIDDEN)),
        Activation(activation(4).data, "bf16", (1, 4, HIDDEN)),
        Activation(b"", "f16", (1, 4, HIDDEN)),
    ],
    ids=["rows", "width", "flat", "no shape", "short", "half type", "empty"],
)
def test_a_malformed_activation_is_refused_and_changes_nothing(head: Engine, tail: Engine, wrong: Activation) -> None:
    with pytest.raises(FrameRefused, match="activation of"):
        tail.run(Segments((BEGIN,)), wrong)
    assert tail.slots == 0, "no slot is begun by a frame that is refused"
    assert picked(tail, BEGIN, sent_on(head, BEGIN)).tokens
    following = Turn(1, 4, (7, 7, 7, 7), True, None)
    with pytest.raises(FrameRefused, match="activation of"):
        tail.run(Segments((following,)), wrong)
    assert picked(tail, following, sent_on(head, following)).tokens


def test_more_slots_than_there_is_room_for_are_refused(directory: Path) -> None:
    engine = engine_of(directory, 0, 2, slots_max=2)
    for slot in (1, 2):
        engine.run(Segments((replace(BEGIN, slot=slot),)), None)
    with pytest.raises(FrameRefused, match="no room for slot 3"):
        engine.run(Segments((replace(BEGIN, slot=3),)), None)
    engine.release((1,))
    assert isinstance(engine.run(Segments((replace(BEGIN, slot=3),)), None), Activation)


def test_released_slots_are_forgotten_and_unknown_ones_are_no_fault(head: Engine) -> None:
    head.run(Segments((BEGIN,)), None)
    head.run(Segments((replace(BEGIN, slot=2),)), None)
    head.release((1, 77))
    assert head.slots == 1
    head.reset()
    assert head.slots == 0


@pytest.mark.parametrize(("name", "dtype"), [("bf16", mx.bfloat16), ("f16", mx.float16)])
def test_half_precision_travels_bit_for_bit(directory: Path, tmp_path: Path, name: str, dtype: mx.Dtype) -> None:
    half = make_tiny_model("llama", tmp_path, dtype=dtype)
    engines = [engine_of(half, 0, 2), engine_of(half, 2, 4)]
    parts = [load_slice(half, layers, LAYERS, lambda _: None) for layers in (LayerRange(0, 2), LayerRange(2, 4))]
    sent: Activation | None = None
    expected: mx.array | None = None
    for engine, part in zip(engines, parts, strict=True):
        out = engine.run(Segments((BEGIN,)), sent)
        assert isinstance(out, Activation)
        expected = part.forward(mx.array([PROMPT], dtype=mx.uint32), part.make_caches(), expected)
        assert expected is not None and expected.dtype == dtype
        assert (out.dtype, out.shape, len(out.data)) == (name, (1, 4, HIDDEN), 4 * engine.row_bytes)
        assert out.data == np.array(expected.view(mx.uint16)).tobytes()
        sent = out
    assert engines[0].row_bytes == 2 * HIDDEN


def test_a_step_that_was_prepared_is_taken_or_undone_as_the_next_turn_wants(
    head: Engine, tail: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(slot: int) -> list[Picked]:
        turns = [BEGIN, Turn(1, 4, (7,), True, None), Turn(1, 5, (8, 9, 10), True, None), Turn(1, 8, (11,), True, None)]
        found = []
        for turn in turns:
            mine = replace(turn, slot=slot)
            found.append(picked(tail, mine, sent_on(head, mine)))
        return found

    prepared = answers(1)
    monkeypatch.setattr("ringleader.shard.engine.can_prepare", lambda caches: False)
    assert answers(2) == prepared


def test_alone_in_its_ring_a_shard_starts_the_next_step_when_nobody_is_about_to_join(
    directory: Path, tokenizer: Tokenizer
) -> None:
    whole = engine_of(directory, 0, LAYERS, tokenizer)
    turn, at = BEGIN, time.perf_counter()
    for joined in (False, True, False):
        out = whole.run(Segments((turn,), joined=joined), None)
        assert isinstance(out, tuple)
        assert whole.begun >= at, "what was computed ahead began when the run before had ended"
        at = time.perf_counter()
        whole.get_ahead()
        ended = time.perf_counter()
        position = turn.position + len(turn.tokens)
        turn = Turn(1, position, out[0].tokens, True, None)
        whole.run(Segments((turn,)), None)
        assert (whole.begun < ended) == (not joined)
        turn = Turn(1, position + 1, (7,), True, None)
        at = time.perf_counter()


def test_nothing_is_begun_for_a_slot_that_went_meanwhile(head: Engine) -> None:
    head.run(Segments((BEGIN,)), None)
    head.obey(Orders(released=(1,)))
    head.get_ahead()
    assert head.slots == 0


def test_a_frame_that_is_refused_does_not_use_up_what_was_prepared(head: Engine, tail: Engine) -> None:
    first = picked(tail, BEGIN, sent_on(head, BEGIN))
    following = Turn(1, 4, first.tokens, True, None)
    sent = sent_on(head, following)
    with pytest.raises(FrameRefused):
        tail.run(Segments((replace(following, position=9),)), sent)
    with pytest.raises(FrameRefused):
        tail.run(Segments((following,)), activation(2))
    once = picked(tail, following, sent)
    again = replace(BEGIN, slot=2)
    picked(tail, again, sent_on(head, again))
    assert picked(tail, replace(following, slot=2), sent) == once


# ---------------------------------------------------------------- batches


def through(head: Engine, tail: Engine, sent: Segments) -> tuple[Picked, ...]:
    activation = head.run(sent, None)
    assert isinstance(activation, Activation)
    out = tail.run(sent, activation)
    assert isinstance(out, tuple)
    return out


def begun(head: Engine, tail: Engine, *slots: int, spec: SlotSpec = SPEC) -> dict[int, Turn]:
    """These slots with different prompts; the turn of each that would come next."""
    turns = {}
    for slot in slots:
        tokens = (*PROMPT[:3], 40 + slot)
        (first,) = through(head, tail, Segments((Turn(slot, 0, tokens, True, spec),)))
        turns[slot] = Turn(slot, len(tokens), first.tokens, True, None)
    return turns


def test_rows_give_what_their_slots_give_alone_and_in_any_company(head: Engine, tail: Engine) -> None:
    turns = begun(head, tail, 1, 2, 3)
    together = through(head, tail, Segments(tuple(turns.values()), batch=1))
    head.reset()
    tail.reset()
    turns = begun(head, tail, 1, 2, 3)
    assert tuple(through(head, tail, Segments((turn,)))[0] for turn in turns.values()) == together


def test_a_slot_goes_from_alone_to_one_batch_to_another_and_back(head: Engine, tail: Engine) -> None:
    def answer(companies: list[tuple[int, tuple[int, ...]]]) -> list[int]:
        head.reset()
        tail.reset()
        turns = begun(head, tail, 1, 2, 3)
        tokens: list[int] = []
        for number, company in companies:
            sent = Segments(tuple(turns[slot] for slot in company), number)
            for slot, each in zip(company, through(head, tail, sent), strict=True):
                turns[slot] = Turn(slot, turns[slot].position + len(turns[slot].tokens), each.tokens, True, None)
                tokens += each.tokens if slot == 1 else ()
        return tokens  # what was built ahead for a company was undone when it changed

    alone = answer([(0, (1,))] * 6)
    assert answer([(0, (1,)), (1, (2, 1)), (1, (2, 1)), (2, (3, 1)), (0, (1,)), (2, (3, 1))]) == alone
    assert len(set(alone)) > 2


def test_a_row_that_does_not_sample_picks_nothing(head: Engine, tail: Engine) -> None:
    turns = begun(head, tail, 1, 2)
    sent = Segments((replace(turns[1], tokens=(7, 8), sample=False), turns[2]), batch=1)
    first, second = through(head, tail, sent)
    assert first == Picked()
    assert second.tokens


@pytest.mark.parametrize("broken", ["position", "unknown", "twice", "not last"])
def test_a_batch_that_does_not_follow_is_refused_and_changes_nothing(head: Engine, tail: Engine, broken: str) -> None:
    turns = begun(head, tail, 1, 2, 3)
    pair = Segments((turns[1], turns[2]), batch=1)
    wrong: dict[str, tuple[Turn, ...]] = {
        "position": (turns[1], replace(turns[2], position=9)),
        "unknown": (turns[1], replace(turns[2], slot=8)),
        "twice": (turns[1], turns[1]),
    }
    if broken == "not last":
        picks = through(head, tail, pair)
        pair = Segments(tuple(Turn(n, 5, each.tokens, True, None) for n, each in enumerate(picks, 1)), batch=1)
        wrong["not last"] = (turns[3], *pair.turns)
    sent = Segments(wrong[broken], batch=1)
    rows = len(sent.turns)
    with pytest.raises(FrameRefused):
        head.run(sent, None)
    with pytest.raises(FrameRefused):
        tail.run(sent, Activation(bytes(4 * HIDDEN * rows), "f32", (rows, 1, HIDDEN)))
    assert all(each.tokens for each in through(head, tail, pair))


@pytest.mark.parametrize(("ride", "tokens"), [("alone", (7,)), ("even", (7, 8))])
def test_rows_that_a_shard_cannot_compute_together_are_refused(
    directory: Path, ride: Ride, tokens: tuple[int, ...]
) -> None:
    engine = engine_of(directory, 0, 2, ride=ride)
    for slot in (1, 2):
        engine.run(Segments((replace(BEGIN, slot=slot),)), None)
    with pytest.raises(FrameRefused, match="cannot be computed together"):
        engine.run(Segments((Turn(1, 4, (7,), True, None), Turn(2, 4, tokens, True, None)), batch=1), None)


def test_a_released_row_leaves_and_the_last_one_takes_the_batch_with_it(head: Engine, tail: Engine) -> None:
    turns = begun(head, tail, 1, 2, 3)
    picks = through(head, tail, Segments(tuple(turns.values()), batch=1))
    for engine in (head, tail):
        engine.release((2,))
    rest = tuple(Turn(slot, 5, picks[slot - 1].tokens, True, None) for slot in (1, 3))
    assert all(each.tokens for each in through(head, tail, Segments(rest, batch=1)))
    for engine in (head, tail):
        engine.release((1, 3))
        assert engine.slots == 0
    turns = begun(head, tail, 4, 5)
    assert all(each.tokens for each in through(head, tail, Segments(tuple(turns.values()), batch=1)))


def test_what_one_row_s_grammar_cannot_do_costs_that_row_alone(head: Engine, tail: Engine) -> None:
    impossible = replace(SPEC, grammar="start: /a/ & /b/", prompt_tokens=4)
    free = begun(head, tail, 1, 2)
    alone = through(head, tail, Segments((free[1],)))
    head.reset()
    tail.reset()
    turns = begun(head, tail, 1, 2)
    begin = Turn(3, 0, PROMPT, False, impossible)
    through(head, tail, Segments((begin,)))
    third = Turn(3, 4, (9,), True, None)
    picks = through(head, tail, Segments((turns[1], turns[2], third), batch=1))
    assert picks[0] == alone[0]
    assert picks[1].tokens
    assert picks[2].finish == "error"


def test_drawn_tokens_do_not_depend_on_who_else_is_drawn_for(head: Engine, tail: Engine) -> None:
    warm = replace(SPEC, sampling=Sampling(seed=11, temperature=1.3, top_p=0.9, frequency_penalty=0.5))

    def second(company: tuple[int, ...]) -> Picked:
        head.reset()
        tail.reset()
        turns = begun(head, tail, 1, spec=warm) | begun(head, tail, 2, 3)
        sent = Segments(tuple(turns[slot] for slot in company), batch=len(company) - 1)
        return through(head, tail, sent)[company.index(1)]

    assert second((1,)) == second((1, 2)) == second((3, 2, 1))


# ---------------------------------------------------------------- drafts


def answer_with(head: Engine, tail: Engine, guesses: list[tuple[int, ...]]) -> list[int]:
    """Twelve tokens of slot 1, where these guesses ride by turns; each shard steps back from what was wrong."""
    head.reset()
    tail.reset()
    picks = picked(tail, BEGIN, sent_on(head, BEGIN))
    tokens, position, pending = [*picks.tokens], 4, picks.tokens
    while len(tokens) < 12:
        guess = guesses[len(tokens) % len(guesses)]
        turn = Turn(1, position, pending + guess, True, None, len(guess))
        picks = picked(tail, turn, sent_on(head, turn))
        accepted = picks.drawn - 1
        assert picks.tokens[:accepted] == guess[:accepted]
        position, pending = position + len(pending) + accepted, picks.tokens[accepted:]
        tokens += picks.tokens
    return tokens[:12]


def test_wrong_drafts_are_taken_back_and_change_nothing(head: Engine, tail: Engine) -> None:
    plain = answer_with(head, tail, [()])
    assert answer_with(head, tail, [(7, 7, 7), (), (8,)]) == plain


def test_right_drafts_are_taken_in_one_pass(head: Engine, tail: Engine) -> None:
    plain = answer_with(head, tail, [()])
    head.reset()
    tail.reset()
    first = picked(tail, BEGIN, sent_on(head, BEGIN))
    turn = Turn(1, 4, (*first.tokens, *plain[1:6]), True, None, 5)
    found = picked(tail, turn, sent_on(head, turn))
    assert (found.tokens, found.drawn) == (tuple(plain[1:7]), 6)


@pytest.mark.parametrize("position", [3, 4, 8, 9])
def test_no_segment_begins_further_back_than_the_drafts_of_the_last_one(head: Engine, position: int) -> None:
    head.run(Segments((BEGIN,)), None)
    head.run(Segments((Turn(1, 4, (7, 8, 9), True, None, 2),)), None)
    with pytest.raises(FrameRefused, match="slot 1 is at 7"):
        head.run(Segments((Turn(1, position, (5,), True, None),)), None)
    assert isinstance(head.run(Segments((Turn(1, 5, (5,), True, None),)), None), Activation)


def test_a_shard_that_cannot_step_back_refuses_drafts(directory: Path) -> None:
    engine = engine_of(directory, 0, 2, steps_back=False)
    engine.run(Segments((BEGIN,)), None)
    with pytest.raises(FrameRefused, match="cannot step back"):
        engine.run(Segments((Turn(1, 4, (7, 8), True, None, 1),)), None)
    assert isinstance(engine.run(Segments((Turn(1, 4, (7,), True, None),)), None), Activation)
