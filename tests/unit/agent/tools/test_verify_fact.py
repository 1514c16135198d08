"""verify_fact: grounded claims are supported where they stand, others are not, whatever the text."""

from __future__ import annotations

import json
import random
import string
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.agent.contracts import build_tool_contracts
from ringleader.agent.tools.folding import fold
from ringleader.agent.tools.verify_fact import Finding, ToolFault, verify_fact

WORDS = st.lists(st.text("abcDEFßéÅı漢字 -'0123456789.,%", min_size=1), min_size=1, max_size=8)


def check(claim: str, evidence: str, mode: str = "substring", **more: Any) -> Finding:
    finding: Finding = verify_fact(claim, evidence, mode=mode, **more)
    assert finding.mode == mode and finding.why
    if finding.verdict == "unsupported":
        assert finding.span is None and not finding.more_spans
    else:
        assert finding.span is not None
        for span in (finding.span, *finding.more_spans):
            assert 0 <= span.start < span.end <= len(evidence)
            whole = evidence[span.start : span.end]
            assert span.text == (whole if len(whole) <= 500 else whole[:500] + "…")
    return finding


def test_every_tier_may_use_it_and_it_needs_claim_and_evidence() -> None:
    schemas, bound, choice = build_tool_contracts(0, ["verify_fact"], "verify_fact")
    assert bound == [verify_fact] and verify_fact.tier == 0 and not verify_fact.effects
    assert choice == {"type": "function", "function": {"name": "verify_fact"}}
    assert schemas[0]["function"]["parameters"]["required"] == ["claim", "evidence"]


async def test_a_call_answers_in_json_with_offsets_into_the_evidence() -> None:
    result = await verify_fact.call(json.dumps({"claim": "five APPLES", "evidence": "We ate Five\n apples."}))
    assert (
        result.value
        == json.loads(result.text)
        == {
            "verdict": "supported",
            "mode": "substring",
            "why": "the evidence holds the claim, case, spacing and typography aside",
            "span": {"start": 7, "end": 19, "text": "Five\n apples"},
            "more_spans": [],
        }
    )


@pytest.mark.parametrize("mode", ["substring", "exact", "numeric"])
@pytest.mark.parametrize("claim", ["", " \n", "\u200b"])
def test_an_empty_claim_is_never_supported(claim: str, mode: str) -> None:
    evidence = "anything" if mode == "exact" else f"any{claim}thing 5"
    assert check(claim, evidence, mode).verdict == "unsupported"


@settings(deadline=None)
@given(st.text(min_size=1), st.text(), st.text())
def test_exact_is_python_containment(claim: str, before: str, after: str) -> None:
    evidence = before + claim + after
    finding = check(claim, evidence, "exact")
    assert (finding.verdict == "supported") is bool(claim.strip())
    if finding.span:
        assert finding.span.start == evidence.find(claim)


@settings(deadline=None)
@given(st.text(min_size=1), st.text())
def test_exact_and_substring_support_nothing_that_is_not_there(claim: str, evidence: str) -> None:
    assert (check(claim, evidence, "exact").verdict == "supported") is (bool(claim.strip()) and claim in evidence)
    finding = check(claim, evidence)
    if finding.verdict == "supported":
        assert fold(claim).text in fold(evidence).text
    elif claim.isascii() and evidence.isascii():
        assert not fold(claim).text or fold(claim).text not in fold(evidence).text


@settings(deadline=None)
@given(WORDS, WORDS, WORDS, st.sampled_from([" ", "\n", "\t \u00a0"]))
def test_words_are_found_in_any_case_and_spacing(
    before: list[str], words: list[str], after: list[str], gap: str
) -> None:
    claim = " ".join(words)
    evidence = gap.join([*before, *(word.swapcase() if "ı" not in word else word for word in words), *after])
    assert check(claim, evidence).verdict == ("supported" if claim.strip() else "unsupported")


@settings(deadline=None)
@given(st.text(), st.text(), st.sampled_from(["substring", "exact", "numeric"]))
def test_the_same_question_has_the_same_answer(claim: str, evidence: str, mode: str) -> None:
    assert check(claim, evidence, mode) == check(claim, evidence, mode)


def test_a_match_inside_a_longer_word_or_number_says_so() -> None:
    assert "part of a longer word or number" in check("5 million", "15 million").why
    assert "part of a longer" not in check("5 million", "about 5 million.").why


def test_a_match_across_much_whitespace_is_told_in_short() -> None:
    finding = check("a b", "a" + " " * 10_000 + "b")
    assert finding.span and finding.span.end == 10_002 and len(finding.span.text) == 501


@pytest.mark.parametrize(
    ("claim", "evidence", "supported"),
    [
        ("revenue of 1,234.5", "Umsatz: 1.234,5", True),
        ("12%", "12 percent", True),
        ("12%", "12", False),
        ("12", "12%", False),
        ("12%", "0.12", False),
        ("10", "10^6 people", False),
        ("10", "10⁶ people", False),
        ("1,000,000", "10⁶ people", True),
        ("2", "2½ cups", False),
        ("5", "5٪", False),
        ("5 m", "5 m^2", False),
        ("5", "-5", False),
        ("-5", "−5", True),
        ("-5", "5", False),
        ("330 m", "0.33 km", True),
        ("330 m", "330", False),
        ("330", "330 m", True),
        ("330 m", "330 kg", False),
        ("$5 million", "USD 5,000,000", True),
        ("$5 million", "€5 million", False),
        ("20 °C", "20 °F", False),
        ("5 percentage points", "5%", False),
        ("2024-05-01", "2024-01-05", False),
        ("on 2024-05-01 it was 3.11.7", "3.11.7 came (2024-05-01)", True),
        ("from 3 to 5 kg", "5 kg, then 3", True),
        ("from 3 to 6 kg", "5 kg, then 3", False),
        ("three", "three", False),
        ("15", "150", False),
        ("1000 kg", "1 t", True),
    ],
)
def test_numbers_agree_in_value_sign_and_unit(claim: str, evidence: str, supported: bool) -> None:
    assert (check(claim, evidence, "numeric").verdict == "supported") is supported


def test_each_number_of_a_claim_has_its_span() -> None:
    evidence = "In 2019 it made 12% on $5m."
    finding = check("$5 million at 12% in 2019", evidence, "numeric")
    assert finding.span and [finding.span.text, *(s.text for s in finding.more_spans)] == ["$5m", "12%", "2019"]


def test_a_tolerance_is_in_the_claims_own_unit_and_its_bound_counts() -> None:
    assert check("5 km", "5.3 km", "numeric", tolerance=0.3).verdict == "supported"
    assert check("5 km", "5301 m", "numeric", tolerance=0.3).verdict == "unsupported"
    assert check("5000 m", "5.3 km", "numeric", tolerance=0.3).verdict == "unsupported"
    assert check("100", "101", "numeric", relative_tolerance=0.01).verdict == "supported"
    assert check("-100", "-102", "numeric", relative_tolerance=0.01).verdict == "unsupported"


def test_what_lacks_is_told_with_the_nearest_number() -> None:
    assert "nearest number of the kind is '101.5 m'" in check("100 m", "7 s, 101.5 m, 2 km", "numeric").why
    assert "'12', which is another unit or none" in check("12%", "12", "numeric").why
    assert "written so" in check("1/2", "0.5", "numeric").why
    assert "no number in digits" in check("five", "5", "numeric").why


@settings(deadline=None)
@given(
    st.lists(st.fractions(-(10**6), 10**6, max_denominator=1000).map(lambda f: round(f, 2)), min_size=1, max_size=5),
    st.sampled_from(["", " kg", "%", " km"]),
    st.integers(0, 100).map(lambda n: n / 10),
)
def test_numbers_are_supported_exactly_within_the_tolerance(numbers: list[Any], unit: str, tolerance: float) -> None:
    claimed, *others = (f"{float(number):.2f}{unit}" for number in numbers)
    near = any(abs(number - numbers[0]) <= round(tolerance * 10) * type(number)(1, 10) for number in numbers[1:])
    finding = check(claimed, " and ".join(others), "numeric", tolerance=tolerance)
    assert (finding.verdict == "supported") is near


def test_claims_of_too_many_numbers_and_texts_too_long_are_told() -> None:
    with pytest.raises(ToolFault, match="at most 64"):
        verify_fact(" ".join("1" * 65), "1", mode="numeric")
    with pytest.raises(ToolFault, match="10,000,000"):
        verify_fact("a", "a" * 10_000_001)


HOSTILE = {
    "prose": lambda n: "The quick brown fox, 12.5 kg, jumped 3 m. " * (n // 42),
    "digits": lambda n: "1 " * (n // 2),
    "one number": lambda n: "1" * n,
    "separators": lambda n: "1," * (n // 2),
    "marks": lambda n: "\u0301" * n,
    "accents": lambda n: "x\u0302" * (n // 2),
    "near misses": lambda n: "a" * n,
    "spaces": lambda n: " " * n,
    "signs": lambda n: "-$" * (n // 2),
    "joiners": lambda n: "a" + "\u200d" * n,
}


def steps(claim: str, evidence: str, mode: str) -> int:
    """How many events of Python's tracer a call takes: work without a clock, so that a busy machine changes nothing."""
    count = 0

    def trace(*_: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        verify_fact(claim, evidence, mode=mode)
    finally:
        sys.settrace(previous)
    return count


@pytest.mark.parametrize("mode", ["substring", "exact", "numeric"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_ten_times_the_evidence_is_ten_times_the_work(kind: str, mode: str) -> None:
    make = HOSTILE[kind]
    claim = {"accents": "x\u0302" * 200 + "x", "near misses": "a" * 300 + "b"}.get(kind, "13.5 kg and 7 s")
    small, large = (steps(claim, make(n), mode) for n in (2_000, 20_000))
    assert large <= 11 * small + 500


@pytest.mark.parametrize("mode", ["substring", "exact", "numeric"])
def test_a_megabyte_of_any_kind_is_read_in_one_go(mode: str) -> None:
    chance = random.Random(7)
    prose = "".join(chance.choices(string.printable, k=1_000_000))
    assert check(prose[-40:-1].strip() or "x", prose, mode).why


def test_a_megabyte_of_near_misses_is_read_in_one_go() -> None:
    assert check("x\u0302" * 2_000 + "x", "x\u0302" * 500_000).verdict == "unsupported"
    assert check("a" * 2_000 + "b", "a" * 1_000_000).verdict == "unsupported"
