"""What is concluded from the times of passes: from lines that are known, so that the right answer is too."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringleader.shard.rhythm import CHUNK_MIN, GAP_MAX, Offer, Rhythm

COUNTS = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def offers(*counts: int) -> list[Offer]:
    return [Offer(count) for count in counts]


def measured(
    machines: tuple[int, ...], stages: list[tuple[float, float]], sizes: tuple[int, ...] = (1, 8, 64)
) -> Rhythm:
    """A rhythm that saw passes of some sizes; `stages` give each one's seconds for the weights and for a token."""
    rhythm = Rhythm(machines)
    for size in (1, 8, 64) * 5:
        rhythm.saw(size, [weights + size * token for weights, token in stages])
    return rhythm


def test_stages_on_machines_of_their_own_compute_at_once_and_on_one_machine_not() -> None:
    assert Rhythm((0, 1, 2)).batches(12) == 3, "before anything was measured"
    assert Rhythm((0, 0, 0)).batches(12) == 1
    readers = [(0.02, 0.0001)] * 3  # bound by reading weights, as decoding is
    assert measured((0, 1, 2), readers).batches(12) == 3
    assert measured((0, 0, 0), readers).batches(12) == 1
    assert measured((0, 0, 1), readers).batches(12) == 1, "the first machine would read its weights four times a round"


def test_no_more_batches_than_answers_and_one_for_one() -> None:
    for rows in (1, 2, 3):
        assert measured((0, 1, 2, 3), [(0.02, 0.001)] * 4).batches(rows) == rows
    assert Rhythm((0, 1)).batches(0) == 1


def test_a_stage_that_is_far_slower_than_the_others_is_not_made_to_read_its_weights_twice() -> None:
    slow_reader = [(0.1, 0.0001), (0.001, 0.0001)]
    assert measured((0, 1), slow_reader).batches(8) == 1, "the fast one idles anyway"
    slow_counter = [(0.001, 0.02), (0.001, 0.02)]
    assert measured((0, 1), slow_counter).batches(8) == 2


def settled(rhythm: Rhythm, rows: int) -> int:
    """The length of chunks after some of them."""
    return [rhythm.chunk_tokens(rows, 512, 512, 512) for _ in range(8)][-1]


@given(weights=st.floats(0.001, 0.1), token=st.floats(1e-5, 0.01), rows=st.integers(1, 16))
def test_a_chunk_leaves_running_answers_their_rhythm(weights: float, token: float, rows: int) -> None:
    chunk = settled(measured((0,), [(weights, token)]), rows)
    plain = weights + rows * token
    assert chunk in (CHUNK_MIN, 512) or plain + weights + chunk * token <= GAP_MAX * plain * 1.001
    assert chunk == 512 or plain + weights + (chunk + 1) * token > GAP_MAX * plain * 0.999, "and no shorter"


def test_a_prompt_that_can_be_ended_soon_is_not_cut() -> None:
    rhythm = measured((0,), [(0.04, 0.003)])
    assert settled(rhythm, 1) < 24, "of a long one, no more goes at once"
    assert rhythm.chunk_tokens(1, 512, 24, 900) == 24
    assert rhythm.chunk_tokens(1, 512, 60, 900) < 24, "it would take too long"
    assert rhythm.chunk_tokens(1, 10, 24, 900) == 10, "a frame holds no more"


def test_without_answers_a_chunk_is_as_long_as_a_frame_may_be() -> None:
    assert measured((0,), [(0.02, 0.001)]).chunk_tokens(0, 512, 4096, 4096) == 512
    assert measured((0,), [(0.02, 0.001)]).chunk_tokens(4, 3, 99, 99) == 3, "a frame of three tokens holds no eight"


def test_a_prompt_that_has_several_machines_to_itself_is_cut_so_that_all_compute_soon() -> None:
    rhythm = Rhythm((0, 1))

    def through(waiting: int) -> list[int]:
        """The chunks of the last of three prompts, on machines that read their weights while they compute."""
        for _ in range(3):
            chunks, left = list[int](), waiting
            while left:
                chunks.append(min(left, rhythm.chunk_tokens(0, 512, left, left)))
                rhythm.saw(chunks[-1], [max(0.02, chunks[-1] * 0.0005)] * 2)
                left -= chunks[-1]
        return chunks

    assert max(through(2000)) <= 128
    assert Rhythm((0, 1)).chunk_tokens(0, 512, 100_000, 100_000) == 512
    assert Rhythm((0, 0)).chunk_tokens(0, 512, 2000, 2000) == 512, "one machine gains nothing"


def test_chunks_are_long_where_reading_the_weights_is_what_costs() -> None:
    rhythm = Rhythm((0, 1))
    for chunk in (64, 128, 256, 512) * 2:
        rhythm.saw(chunk, [0.2 + chunk * 1e-5] * 2)
    assert rhythm.chunk_tokens(0, 512, 4000, 4000) == 512


def test_a_wrong_conclusion_does_not_stop_the_answers_at_once() -> None:
    one_size = Rhythm((0,))
    for _ in range(9):
        one_size.saw(4, [0.02])  # says nothing of what a token costs
    assert [one_size.chunk_tokens(4, 512, 4096, 4096) for _ in range(4)] == [64, 128, 256, 512]


@given(counts=COUNTS, ragged=st.booleans(), most=st.integers(12, 600))
def test_a_width_is_one_that_every_row_can_have(counts: list[int], ragged: bool, most: int) -> None:
    width = measured((0,), [(0.02, 0.001)]).width(offers(*counts), most, ragged)
    assert 1 <= width <= max(counts)
    assert width * len(counts) <= most
    assert ragged or width <= min(counts)


def test_padding_is_paid_for_only_where_it_saves_more_readings_than_it_costs() -> None:
    rhythm = measured((0,), [(0.016, 0.001)])
    assert rhythm.width(offers(9, 9, 9, 9), 512, ragged=True) == 9
    assert rhythm.width(offers(8, 1), 512, ragged=True) == 8
    assert rhythm.width(offers(8, *[1] * 7), 512, ragged=True) == 1
    assert rhythm.width(offers(8, 1), 512, ragged=False) == 1
    assert rhythm.width(offers(8, 5), 512, ragged=False) == 5


def test_drafts_ride_as_far_as_their_chance_is_worth_the_width() -> None:
    rhythm = measured((0,), [(0.016, 0.001)])
    widths = [rhythm.width([Offer(1, 32, chance)], 512, ragged=True) for chance in (0.01, 0.3, 0.7, 0.95)]
    assert widths[0] == 1, "what is nearly never right is not worth a column"
    assert widths == sorted(set(widths)), "the likelier, the wider"
    dear = measured((0,), [(0.002, 0.001)])
    assert dear.width([Offer(1, 32, 0.7)], 512, ragged=True) < widths[2], "columns that cost more are fewer"
    assert rhythm.width([Offer(1, 32, 0.95)], 4, ragged=True) == 4


def test_drafts_fill_columns_that_another_row_pays_for() -> None:
    rhythm = measured((0,), [(0.016, 0.001)])
    assert rhythm.width([Offer(9), Offer(9, 0)], 512, ragged=True) == 9
    assert rhythm.width([Offer(1, 8, 0.9)] + [Offer(1)] * 15, 512, ragged=True) < 4, "and sixteen rows pay dear"


def test_drafts_stay_away_from_batches_whose_rows_are_dear_to_move_and_are_tried_again_seldom() -> None:
    rhythm = measured((0,), [(0.016, 0.001)])
    rows = [Offer(1, 8, 0.8), Offer(1, 8, 0.8)]
    wide = rhythm.width(rows, 512, ragged=True)
    assert wide > 1
    for _ in range(8):
        rhythm.saw(18, [0.034 + 0.2], moved=True)
    assert rhythm.width(rows, 512, ragged=True) == 1
    assert rhythm.width(rows[:1], 512, ragged=True) > 1, "a row alone moves nothing"
    assert rhythm.width([Offer(9), Offer(9)], 512, ragged=True) == 9, "nor do tokens that are certain"
    for _ in range(400):
        rhythm.saw(2, [0.018])
    assert rhythm.width(rows, 512, ragged=True) > 1


def test_noise_and_a_past_that_was_different_are_outlived() -> None:
    rhythm, chance = Rhythm((0,)), random.Random(3)
    for _ in range(100):
        rhythm.saw(chance.choice((1, 4, 40)), [5.0])
    for _ in range(600):
        size = chance.choice((1, 4, 40))
        rhythm.saw(size, [(0.02 + size * 0.001) * chance.uniform(0.8, 1.2)])
    assert settled(rhythm, 4) == pytest.approx(settled(measured((0,), [(0.02, 0.001)]), 4), rel=0.3)


def test_times_of_another_number_of_stages_are_passed_over() -> None:
    rhythm = Rhythm((0, 1))
    rhythm.saw(4, [9.0])
    assert rhythm == Rhythm((0, 1))
