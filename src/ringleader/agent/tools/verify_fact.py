"""Checks whether evidence holds a claim: by comparing text or numbers, never by asking a model.

The same claim and evidence always give the same verdict. No pattern comes from outside, and time is linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from ringleader.agent.contracts import ToolFault, tool
from ringleader.agent.tools.folding import fold
from ringleader.agent.tools.quantities import Exact, Quantity, find_quantities

Mode = Literal["substring", "exact", "numeric"]
EVIDENCE_CHARS_MAX = 10_000_000  # some seconds of work
CLAIM_NUMBERS_MAX = 64  # each is compared with every number of the evidence
SPAN_TEXT_CHARS_MAX = 500  # a match across much whitespace is not copied in full

Tolerance = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` (exclusive, in code points) of the evidence as it was given, and their text."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """`span` is what supports the claim; further numbers of a claim have theirs in `more_spans`, in its order."""

    verdict: Literal["supported", "unsupported"]
    mode: Mode
    why: str
    span: Span | None = None
    more_spans: list[Span] = field(default_factory=list)


@tool(tier=0)
def verify_fact(
    claim: str,
    evidence: str,
    mode: Mode = "substring",
    tolerance: Tolerance = 0.0,
    relative_tolerance: Tolerance = 0.0,
) -> Finding:
    """Checks whether the evidence states the claim. Use it before relying on a fact.

    It compares and does not interpret: quote the words or numbers that are to be checked.

    Args:
        claim: the words that must stand in the evidence, or in numeric mode a text with the numbers that must
        evidence: the text that is searched, word for word as it was given to you
        mode: substring ignores case, spacing and typography; exact ignores nothing; numeric compares numbers and units
        tolerance: numeric mode: how far a number may be off, in the claim's own unit
        relative_tolerance: numeric mode: how far a number may be off as a share of it; 0.01 is one percent
    """
    if len(evidence) > EVIDENCE_CHARS_MAX or len(claim) > EVIDENCE_CHARS_MAX:
        raise ToolFault(f"claim and evidence may have {EVIDENCE_CHARS_MAX:,} characters each; send the relevant part")
    if not claim.strip():
        return Finding("unsupported", mode, "the claim is empty")
    if mode == "exact":
        return _exact(claim, evidence)
    if mode == "substring":
        return _substring(claim, evidence)
    return _numeric(claim, evidence, _Tolerance(Fraction(str(tolerance)), Fraction(str(relative_tolerance))))


def _exact(claim: str, evidence: str) -> Finding:
    start = evidence.find(claim)
    if start < 0:
        return Finding("unsupported", "exact", "the evidence does not hold the claim character for character")
    span = _span(evidence, start, start + len(claim))
    return Finding("supported", "exact", "the evidence holds the claim character for character", span)


def _substring(claim: str, evidence: str) -> Finding:
    wanted = fold(claim)
    if not wanted.text:
        return Finding("unsupported", "substring", "the claim has no visible characters")
    found = fold(evidence).find(wanted)
    if found is None:
        why = "the evidence does not hold the claim, case, spacing and typography aside"
        return Finding("unsupported", "substring", why)
    span = _span(evidence, *found)
    alike = "" if span.text == claim else ", case, spacing and typography aside"
    return Finding("supported", "substring", f"the evidence holds the claim{alike}{_cut(evidence, *found)}", span)


def _cut(evidence: str, start: int, end: int) -> str:
    """A warning when the match is a part of a longer word or number: "5 million" in "15 million"."""
    for inner, outer in ((start, start - 1), (end - 1, end)):
        if 0 <= outer < len(evidence) and evidence[inner].isalnum() and evidence[outer].isalnum():
            return "; but as a part of a longer word or number"
    return ""


@dataclass(frozen=True, slots=True)
class _Tolerance:
    absolute: Fraction
    relative: Fraction

    def around(self, wanted: Quantity) -> Exact:
        """How far a value may be off, in the unit in which values are compared."""
        return max(self.absolute * wanted.unit.factor, self.relative * abs(Fraction(wanted.base)))


def _numeric(claim: str, evidence: str, tolerance: _Tolerance) -> Finding:
    wanted = list(find_quantities(claim))
    if not wanted:
        return Finding("unsupported", "numeric", "the claim holds no number in digits; use the substring mode")
    if len(wanted) > CLAIM_NUMBERS_MAX:
        raise ToolFault(f"the claim holds {len(wanted)} numbers; check at most {CLAIM_NUMBERS_MAX} at once")
    have = list(find_quantities(evidence))
    spans, reasons = [], []
    for each in wanted:
        match = _match(each, have, tolerance)
        if match is None:
            return Finding("unsupported", "numeric", _lacking(each, have))
        spans.append(_span(evidence, match.start, match.end))
        reasons.append(f"{each.text!r} is {match.text!r}")
    why = "; ".join(reasons[:8]) + (f"; and {len(reasons) - 8} more" if len(reasons) > 8 else "")
    return Finding("supported", "numeric", f"the evidence holds each number of the claim: {why}", spans[0], spans[1:])


def _match(wanted: Quantity, have: Iterable[Quantity], tolerance: _Tolerance) -> Quantity | None:
    """The first quantity of the evidence that agrees."""
    if wanted.value is None:
        return next((each for each in have if each.value is None and each.text == wanted.text), None)
    target, margin = wanted.base, tolerance.around(wanted)
    # Fractions are slow: a float, a little too generous, sorts out most.
    near, wide = float(target), float(margin) * 1.001 + abs(float(target)) * 1e-9
    for each, value in _comparable(wanted, have):
        if abs(float(value) - near) <= wide and -margin <= value - target <= margin:
            return each
    return None


def _comparable(wanted: Quantity, have: Iterable[Quantity]) -> Iterable[tuple[Quantity, Exact]]:
    """Quantities of the same dimension; to a number without a unit, every one that is no share of something."""
    for each in have:
        if each.value is None:
            continue
        if not wanted.unit.dimension and not each.unit.share:
            yield each, each.value
        elif wanted.unit.dimension == each.unit.dimension:
            yield each, each.base


def _lacking(wanted: Quantity, have: list[Quantity]) -> str:
    """Why there is no match, with the nearest thing that there is."""
    said = f"the evidence does not hold {wanted.text!r}"
    if wanted.value is None:
        return f"{said} written so"
    other = next((each for each in have if each.value == wanted.value), None)
    if other is not None:
        return f"{said}; it has {other.text!r}, which is another unit or none"
    target = float(wanted.base)
    nearest = min(_comparable(wanted, have), key=lambda pair: abs(float(pair[1]) - target), default=None)
    return f"{said}; the nearest number of the kind is {nearest[0].text!r}" if nearest else f"{said} or any of its kind"


def _span(evidence: str, start: int, end: int) -> Span:
    text = evidence[start:end]
    return Span(start, end, text if len(text) <= SPAN_TEXT_CHARS_MAX else text[:SPAN_TEXT_CHARS_MAX] + "…")
