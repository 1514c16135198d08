"""What a draft model is told to compute, and what is made of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ringleader.shard.drafting import CHUNK, DEPTH_BEGIN, DEPTH_MAX, STEPS_BEGIN, Drafting, Step
from ringleader.values import Sampling, SlotSpec

END = 7
SAMPLING = Sampling(seed=3, temperature=0.5)


def spec(prompt_tokens: int, max_tokens: int = 1000, drafts: bool = True) -> SlotSpec:
    return SlotSpec(SAMPLING, max_tokens, prompt_tokens, drafts=drafts)


def counted(at: int) -> int:
    return 100 + at


@dataclass
class Model:
    """Believes that the text counts on, and holds the drafting to what a model can: nothing is kept that it lacks."""

    drafting: Drafting = field(default_factory=lambda: Drafting(frozenset([END])))
    held: dict[int, list[int]] = field(default_factory=dict)
    seconds: float = 0.0
    steps: int = 0

    def step(self) -> Step | None:
        step = self.drafting.next_step()
        if step is not None:
            self.steps += 1
            for slot in step.forgotten:
                self.held.pop(slot, None)
            held = self.held.setdefault(step.slot, [])
            assert step.keep <= len(held), "nothing is kept that was not given"
            assert step.tokens or step.forgotten, "a step has something to do"
            del held[step.keep :]
            held += step.tokens
            drew = counted(len(held)) if step.draws is not None else None
            self.drafting.stepped(step, drew, self.seconds)
        return step

    def work(self) -> None:
        """Until there is nothing to do."""
        while self.step() is not None:
            assert self.steps < 1000, "it comes to an end"


def text(length: int) -> list[int]:
    return [counted(at) for at in range(length)]


def grow(model: Model, slot: int, tokens: list[int], more: list[int]) -> None:
    tokens += more
    model.drafting.grew(slot, len(more))


def test_what_was_believed_while_the_segment_was_in_the_ring_rides_in_the_next_one() -> None:
    model, tokens = Model(), text(5)
    model.drafting.begin(1, tokens, spec(5))
    model.drafting.flew(1, ())
    model.work()
    grow(model, 1, tokens, [counted(5)])
    drafts = model.drafting.drafts(1)
    assert drafts == tuple(counted(at) for at in range(6, 6 + DEPTH_BEGIN))
    model.drafting.flew(1, drafts)
    model.work()
    grow(model, 1, tokens, [counted(at) for at in range(6, 7 + DEPTH_BEGIN)])
    assert model.drafting.drafts(1)[:2] == (counted(7 + DEPTH_BEGIN), counted(8 + DEPTH_BEGIN))
    assert model.held[1] == text(len(model.held[1])), "nothing was computed twice or left out"


def test_another_token_than_the_believed_one_leaves_no_drafts_and_the_model_goes_on_from_what_is_true() -> None:
    model, tokens = Model(), text(5)
    model.drafting.begin(1, tokens, spec(5))
    model.work()
    grow(model, 1, tokens, [1])
    assert model.drafting.drafts(1) == ()
    step = model.step()
    assert step is not None and (step.keep, step.tokens) == (5, (1,))
    assert step.draws == SAMPLING


def test_a_step_that_was_under_way_when_the_text_took_another_turn_says_nothing() -> None:
    drafting, tokens = Drafting(frozenset()), text(3)
    drafting.begin(1, tokens, spec(3))
    step = drafting.next_step()
    assert step is not None
    tokens.append(1)
    drafting.grew(1, 1)
    drafting.stepped(step, counted(3), 0.0)
    again = drafting.next_step()
    assert again is not None and (again.keep, again.tokens) == (3, (1,))


def test_tokens_that_came_while_it_fell_behind_are_caught_up_with_in_chunks() -> None:
    model, tokens = Model(), text(2 * CHUNK + 5)
    model.drafting.begin(1, tokens, spec(len(tokens)))
    first, second, third = model.step(), model.step(), model.step()
    assert first is not None and second is not None and third is not None
    assert [len(step.tokens) for step in (first, second, third)] == [CHUNK, CHUNK, 5]
    assert first.draws is None and second.draws is None and third.draws is not None


def test_nothing_is_drawn_past_drafts_of_another_origin_but_the_text_is_kept_up_with() -> None:
    model, tokens = Model(), text(5)
    model.drafting.begin(1, tokens, spec(5))
    model.drafting.flew(1, (1, 2))
    model.work()
    assert model.held[1] == text(5)[: len(model.held[1])], "what may not come is not computed"
    assert model.drafting.drafts(1) == ()
    grow(model, 1, tokens, [1, 2, 3])
    model.drafting.flew(1, ())
    model.work()
    assert model.held[1][:8] == [*text(5), 1, 2, 3]


def test_no_end_is_believed_and_nothing_after_it() -> None:
    drafting, tokens = Drafting(frozenset([END])), text(3)
    drafting.begin(1, tokens, spec(3))
    step = drafting.next_step()
    assert step is not None
    drafting.stepped(step, END, 0.0)
    assert drafting.drafts(1) == () and drafting.next_step() is None


def test_drafts_leave_a_token_of_the_budget_to_draw() -> None:
    model, tokens = Model(), text(5)
    model.drafting.begin(1, tokens, spec(5, max_tokens=3))
    model.work()
    grow(model, 1, tokens, [counted(5)])
    assert model.drafting.drafts(1) == (counted(6),)


def test_a_request_that_wants_no_drafts_has_none_and_costs_nothing() -> None:
    drafting = Drafting(frozenset())
    drafting.begin(1, text(3), spec(3, drafts=False))
    assert drafting.next_step() is None and drafting.drafts(1) == ()


def test_without_a_model_nothing_is_believed_or_remembered() -> None:
    drafting = Drafting()
    drafting.begin(1, text(3), spec(3))
    drafting.end(1)
    assert drafting.next_step() is None


def test_what_is_held_of_a_slot_that_was_given_up_is_let_go_even_when_nobody_else_drafts() -> None:
    model = Model()
    model.drafting.begin(1, text(3), spec(3))
    model.work()
    model.drafting.end(1)
    model.work()
    assert 1 not in model.held


def test_slots_take_turns() -> None:
    drafting = Drafting(frozenset())
    for slot in (1, 2, 3):
        drafting.begin(slot, text(3), spec(3))
    turns = []
    for _ in range(6):
        step = drafting.next_step()
        assert step is not None
        drafting.stepped(step, 50, 0.0)
        turns.append(step.slot)
    assert turns == [1, 2, 3, 1, 2, 3]


def run(model: Model, passes: int, right: bool, pass_s: float, rows: int = 1) -> int:
    """Steps in so many passes of one token each, all believed or none."""
    tokens = text(5)
    model.drafting.begin(1, tokens, spec(5, max_tokens=100_000))
    before = model.steps
    for _ in range(passes):
        drafts = model.drafting.drafts(1)
        model.drafting.flew(1, drafts)
        for _ in range(4):
            model.step()
        model.drafting.passed(pass_s, rows)
        grow(model, 1, tokens, [counted(len(tokens)) if right else 1])
    return model.steps - before


def test_a_model_that_is_never_right_is_asked_seldom() -> None:
    assert run(Model(seconds=0.01), 400, False, 0.1) < 0.2 * 400


def test_a_model_that_is_right_drafts_as_many_as_pay() -> None:
    quick, slow = Model(seconds=0.001), Model(seconds=0.05)
    run(quick, 50, True, 0.1)
    run(slow, 50, True, 0.1)
    assert len(quick.drafting.drafts(1)) >= 2
    assert quick.drafting.chance(1) > 0.8
    assert run(Model(seconds=0.2), 300, True, 0.1) < 0.3 * 300, "a step that takes longer than a pass does not pay"


def test_first_steps_that_are_slow_do_not_count_for_ever() -> None:
    model = Model(seconds=1.0)
    tokens = text(5)
    model.drafting.begin(1, tokens, spec(5))
    for _ in range(STEPS_BEGIN // 2):
        model.step()
        model.drafting.passed(0.1, 1)
        model.drafting.flew(1, ())
        grow(model, 1, tokens, [counted(len(tokens))])
    model.seconds = 0.001
    for _ in range(STEPS_BEGIN):
        model.step()
        model.drafting.passed(0.1, 1)
        model.drafting.flew(1, ())
        grow(model, 1, tokens, [counted(len(tokens))])
    model.work()
    grow(model, 1, tokens, [counted(len(tokens))])
    assert model.drafting.drafts(1)


def test_in_a_large_batch_a_draft_saves_less_of_a_pass() -> None:
    assert run(Model(seconds=0.01), 300, True, 0.1, rows=50) < run(Model(seconds=0.01), 300, True, 0.1)


def test_there_is_an_end_to_how_far_the_model_goes_ahead() -> None:
    model, tokens = Model(seconds=1e-9), text(5)
    model.drafting.begin(1, tokens, spec(5))
    model.drafting.passed(1.0, 1)
    model.work()
    assert model.steps <= DEPTH_MAX + 2
