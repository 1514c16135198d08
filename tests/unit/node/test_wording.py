"""Every word comes back as it was; what is no word is none, and never an error."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.cluster import messages as m
from ringleader.cluster.plan import STAGES_MAX, Plan, Predicted, Stage
from ringleader.cluster.timing import Link
from ringleader.node.wording import from_bytes, to_bytes
from ringleader.values import Draft, LayerRange, ModelCosts
from tests.unit.cluster.words_of import assigned, beat, report

TEXTS = st.text(max_size=20)
COUNTS = st.integers(0, 2**63)
SECONDS = st.floats(0, 1e30, allow_nan=False)


def tuples(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=3).map(tuple)


TERMS = st.builds(m.Term, COUNTS, TEXTS)
LINKS = st.builds(Link, TEXTS, SECONDS, SECONDS)
PROFILES = st.builds(
    m.NodeProfile,
    *(TEXTS, TEXTS, TEXTS, TEXTS, COUNTS, COUNTS),
    control=tuples(TEXTS),
    bytes_per_s=SECONDS,
    links=tuples(LINKS),
    memory_held_bytes=COUNTS,
)
DRAFTS = st.none() | st.builds(Draft, TEXTS, COUNTS, COUNTS)
WISHES = st.builds(
    m.PlanWish,
    COUNTS,
    COUNTS,
    st.none() | COUNTS,
    tuples(st.tuples(TEXTS, COUNTS, COUNTS)),
    st.sampled_from(("latency", "throughput")),
    tuples(TEXTS),
    st.sampled_from((0, 8, 4)),
    DRAFTS,
)


@st.composite
def costs(draw: st.DrawFn) -> ModelCosts:
    layers = draw(st.integers(1, 4))
    sizes = st.tuples(*[COUNTS] * layers)
    active = draw(st.just(()) | sizes)
    return ModelCosts(
        draw(TEXTS),  # type: ignore[arg-type]  # any text is a model's name
        draw(TEXTS),
        draw(TEXTS),
        draw(sizes),
        draw(COUNTS),
        draw(COUNTS),
        draw(sizes),
        draw(COUNTS),
        draw(COUNTS),
        active,
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    widths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=STAGES_MAX))
    ends = [0, *accumulate(widths)]
    stages = tuple(
        Stage(draw(TEXTS), LayerRange(start, stop), draw(COUNTS), draw(COUNTS))  # type: ignore[arg-type]  # any text
        for start, stop in pairwise(ends)
    )
    predicted = st.builds(Predicted, SECONDS, SECONDS, COUNTS, tuples(SECONDS), tuples(SECONDS))
    return Plan(
        draw(TEXTS),  # type: ignore[arg-type]  # any text is a model's name
        draw(TEXTS),
        ends[-1],
        draw(st.integers(1, 2**40)),
        stages,
        draw(TEXTS),
        draw(COUNTS),
        draw(st.integers(1, 100)),
        draw(st.sampled_from((0, 8, 4))),
        draw(DRAFTS),
        draw(st.none() | predicted),
    )


ASSIGNMENTS = st.builds(m.Assignment, plans(), costs(), WISHES, st.booleans(), TEXTS, TERMS)
STATES = st.sampled_from(("loading", "ready", "stopping", "dead"))
REPORTS = st.builds(
    m.ShardReport, ASSIGNMENTS, COUNTS, COUNTS, STATES, SECONDS, TEXTS, COUNTS, COUNTS, TEXTS, st.booleans()
)
BEATS = st.builds(
    m.Beat,
    *(PROFILES, COUNTS, COUNTS, st.none() | TERMS, TERMS, tuples(TEXTS)),
    tuples(st.builds(m.Contact, TEXTS, tuples(TEXTS))),
    tuples(REPORTS),
    tuples(st.builds(m.RingWanted, costs(), WISHES, TEXTS)),
    st.booleans(),
)
STARTS = st.builds(m.StartOrder, TERMS, ASSIGNMENTS, COUNTS, COUNTS, st.none() | st.tuples(TEXTS, COUNTS))
STOPS = st.builds(m.StopOrder, TERMS, TEXTS, COUNTS)

JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None)
@given(st.one_of(BEATS, STARTS, STOPS))
def test_every_word_comes_back_as_it_was(word: m.Word) -> None:
    again = from_bytes(to_bytes(word))
    assert again == word
    assert type(again) is type(word)


@settings(max_examples=60, deadline=None)
@given(ASSIGNMENTS)
def test_a_plan_keeps_its_name_and_what_is_left_out_of_its_name(assignment: m.Assignment) -> None:
    word = from_bytes(to_bytes(m.StartOrder(assignment.term, assignment, 0, 1)))
    assert isinstance(word, m.StartOrder)
    plan = word.assignment.plan
    assert (plan.hash, plan.predicted, plan.why) == (
        assignment.plan.hash,
        assignment.plan.predicted,
        assignment.plan.why,
    )


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60) | JSONS.map(lambda value: json.dumps(value).encode()))
def test_garbage_is_no_word(data: bytes) -> None:
    assert from_bytes(data) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        b'{"beat":{},"stop":{}}',
        b'{"beat":null}',
        b'{"unknown":{}}',
        b'{"stop":{"term":{"number":1,"node":"a"},"plan":"p","index":' + b"9" * 5000 + b"}}",
        b'{"stop":{"term":{"number":1,"node":"\\ud800"},"plan":"p","index":1.5}}',
        b'{"stop":[1,2,3]}',
        to_bytes(m.StartOrder(m.NO_TERM, assigned("a"), 0, 1)).replace(
            b'"tokens_per_s":', b'"tokens_per_s":1e999,"x":'
        ),
        to_bytes(m.StartOrder(m.NO_TERM, assigned("a"), 0, 1)).replace(b'"tokens_per_s":', b'"tokens_per_s":NaN,"x":'),
        b'{"' + b"beat" * 100_000 + b'":1}',
    ],
    ids=lambda data: repr(data[:30]),
)
def test_near_misses_are_no_words(data: bytes) -> None:
    assert from_bytes(data) is None


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of everything inside a JSON value."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        found += places(each, (*path, key))
    return found


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    key, *rest = path
    changed = value.copy()
    changed[key] = replaced(value[key], tuple(rest), new) if rest else new
    return changed


WHOLE: list[m.Word] = [
    m.Beat(
        beat("a", "b").profile,
        *(1, 2, None, m.Term(1, beat("b").profile.node), (beat("b").profile.node,)),
        shards=(report(assigned("a", "b"), 1),),
    ),
    m.StartOrder(m.Term(3, beat("b").profile.node), assigned("a", "b"), 1, 1),
]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_word_with_a_wrong_part_is_a_word_or_none_and_never_an_error(data: st.DataObject) -> None:
    said = json.loads(to_bytes(data.draw(st.sampled_from(WHOLE))))
    changed = replaced(said, data.draw(st.sampled_from(places(said))), data.draw(JSONS))
    word = from_bytes(json.dumps(changed).encode())
    assert word is None or from_bytes(to_bytes(word)) == word


def test_a_part_that_this_version_does_not_know_is_passed_over() -> None:
    word = WHOLE[0]
    said = json.loads(to_bytes(word))
    said["beat"]["mood"] = "good"
    said["beat"]["profile"]["colour"] = ["grey"]
    assert from_bytes(json.dumps(said).encode()) == word
