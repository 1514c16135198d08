"""Finds the quantities of a text, each with its sign, unit and place, and reads their values exactly.

Decided once: a comma before groups of three digits separates thousands ("1,234"; "12,34,567" as in India), any other is
decimal ("1,5"). A point is decimal ("1.234" is one and a bit), several are thousands' ("1.234.567"). Where both stand,
the last is decimal ("1.234,5" is "1,234.5"). Apostrophes and no-break spaces separate thousands; plain spaces never do.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ringleader.agent.tools.units import BARE, CLOSE_SCALES, CURRENCIES, MONEY_SCALES, SCALES, Unit, unit_of

DIGITS_MAX = 64  # of one number: no quantity has more, and arithmetic stays cheap
EXPONENT_MAX = 200  # with digits, scale words and units it stays inside a float

_GAPS = "\u00a0\u2007\u2009\u202f"  # spaces that hold a number together
# Every pattern here either eats each character once or is bounded, so that no text makes them slow.
_RUN = re.compile(rf"\d+(?:[-.,:/'{_GAPS}]\d+)*|(?<![\w.])\.\d+")
_EXPONENT = re.compile(r"[eE]([-+]?\d{1,4})(?![^\W_])|\s?[x×·*]\s?10(?:\^([-+]?\d{1,4})|([⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,4}))")
# "10^6", "10⁶", "2^10". A raised figure behind any other number may be a footnote's.
_POWER = re.compile(r"(?:\^|\*\*)([-+]?\d{1,4})(?!\w)|(?<=(?<![\w.,])10)([⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,4})")
_AND_PART = re.compile(r"\s?([¼½¾⅐-⅞])")  # "2½", "2 ½"
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_BEFORE = re.compile(r"(?:(?<![\w)])([-+]))?(US\$|[$€£¥₹₩₽]|(?<![^\W_])[A-Z]{3}\s?)?(?:(?<![\w)])([-+]))?\Z")
_BEFORE_CHARS = 8  # what sign and currency take at most, and a character to see what stands before them
_WORD = re.compile(r"(?:\s{1,2}|-|)([^\W\d_]{1,20}|[%‰‱°℃℉]|[$€£¥₹₩₽](?!\d))")
_SECOND_WORD = re.compile(r"\s{1,2}[^\W\d_]{1,20}|/[^\W\d_]{1,4}|[CF](?![^\W_])|\^?[23](?![\w.])")
_PER = re.compile(r"(\s?/\s?|\s{1,2}per\s{1,2})([^\W\d_]{1,20}(?:[23](?![\w.]))?)")
_GROUPS = re.compile(r"\d{1,3}(?:(.)\d{3})(?:\1\d{3})*|\d{1,2}(?:,\d\d)+,\d{3}")
_SAME = str.maketrans("−–‑‒—’٫٬％﹪٪", "-----'.,%%%")
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")

Exact = int | Fraction  # whole numbers stay int, which is many times faster


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit, at `start` to `end` of its text.

    `value` has scale words ("million") multiplied in, and is None for what is compared as it is written: dates, times,
    versions, fractions, and what is too long to be a quantity.
    """

    start: int
    end: int
    text: str
    value: Exact | None
    unit: Unit = BARE

    @property
    def base(self) -> Exact:
        """The value in the base unit of its dimension."""
        assert self.value is not None
        return self.value if self.unit.factor == 1 else self.value * self.unit.factor


def find_quantities(text: str) -> Iterator[Quantity]:
    """All quantities of `text` in order, in linear time. Digits that go on a word ("Q3", "H2O") are a name's."""
    plain = text.translate(_SAME)
    if not plain.isascii():
        plain = _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), plain)
    done = 0
    for run in _RUN.finditer(plain):
        if run.start() >= done:  # not the 10 of a power of ten
            for quantity in _of_run(text, plain, run.span(), done):
                done = quantity.end
                yield quantity


def _of_run(text: str, plain: str, run: tuple[int, int], done: int) -> Iterator[Quantity]:
    """One number, or the two of a range: "10-12 %" has percents on either side. What is before `done` is another's."""
    start, end = run
    first, sign, currency = _before(plain, start, done)
    if first == start and start and (plain[start - 1].isalpha() or plain[start - 1] == "_"):
        return
    part_of_one, number_end = _and_part(plain, end)
    factor, exponent_end = _exponent(plain, start, number_end)
    scale, unit, last = _after(plain, exponent_end, currency)
    parts = plain[start:end].split("-")
    if len(parts) != 2:
        parts = [plain[start:end]]
    at = start
    for number, part in enumerate(parts):
        begin = first if number == 0 else at
        stop = last if number == len(parts) - 1 else at + len(part)
        value = read_number(part)
        if value is None or factor is None:
            yield Quantity(begin, stop, plain[at : max(at + len(part), exponent_end if factor is None else 0)], None)
        else:
            if number == len(parts) - 1:
                value = (value + part_of_one) * factor
            yield Quantity(begin, stop, text[begin:stop], value * scale * (sign if number == 0 else 1), unit)
        at += len(part) + 1


def read_number(written: str) -> Exact | None:
    """The value of digits and separators, or None when they are no number (a version, a list, a time)."""
    if len(written) > DIGITS_MAX:
        return None
    if written.isdigit():
        return int(written)
    commas, points = written.count(","), written.count(".")
    if commas and points:
        decimal = max(",.", key=written.rfind)
    elif commas == 1 and (written.startswith("0") or not _GROUPS.fullmatch(written)):
        decimal = ","
    else:
        decimal = "." if points == 1 else ""
    whole, _, rest = written.rpartition(decimal) if decimal else (written, "", "")
    if whole and not whole.isdigit():
        groups = _GROUPS.fullmatch(whole)
        if groups is None or groups[1] == decimal:
            return None
        whole = "".join(filter(str.isdigit, whole))
    if rest and not rest.isdigit():
        return None
    return Fraction(int(whole + rest), 10 ** len(rest)) if rest else int(whole)


def _before(plain: str, start: int, done: int) -> tuple[int, int, str]:
    """Where the quantity begins, its sign (1 or -1) and its currency, "" for none."""
    begin = max(done, start - _BEFORE_CHARS)
    found = _BEFORE.search(plain, begin, start)
    outer, money, inner = found.groups() if found else (None, None, None)
    currency = CURRENCIES.get((money or "").strip(), "")
    if found is None or (money and not currency):
        return start, 1, ""
    return found.start(), -1 if "-" in (outer, inner) else 1, currency


def _and_part(plain: str, end: int) -> tuple[Exact, int]:
    """What a fraction of one character adds to the number before it, and where that ends."""
    found = _AND_PART.match(plain, end)
    return (Fraction(unicodedata.numeric(found[1])).limit_denominator(10), found.end()) if found else (0, end)


def _exponent(plain: str, start: int, end: int) -> tuple[Exact | None, int]:
    """What a power after the digits multiplies them by, and where it ends.

    None: beyond every quantity, or a power of other numbers than ten, which is compared as it is written.
    """
    power_of = _POWER.match(plain, end)
    if power_of is not None:
        ten = plain[start:end].rpartition("-")[2] == "10"
        power = int((power_of[1] or power_of[2]).translate(_SUPERSCRIPTS))
        small = ten and abs(power) <= EXPONENT_MAX
        return (Fraction(10) ** (power - 1) if small else None), power_of.end()
    found = _EXPONENT.match(plain, end)
    if found is None:
        return 1, end
    power = int(found[1] or found[2] or found[3].translate(_SUPERSCRIPTS))
    return (Fraction(10) ** power if abs(power) <= EXPONENT_MAX else None), found.end()


def _after(plain: str, end: int, currency: str) -> tuple[int, Unit, int]:
    """Scale, unit, and where they end."""
    scale = 1
    word = _WORD.match(plain, end)
    if word is not None:
        close = word.start(1) == end
        table = (MONEY_SCALES if currency else CLOSE_SCALES) if close else {}
        found = table.get(word[1]) or SCALES.get(word[1].lower())
        if found is not None:
            scale, end = found, word.end()
            word = _WORD.match(plain, end)
    if currency:
        return scale, Unit(currency), end
    if word is not None:
        second = _SECOND_WORD.match(plain, word.end())
        for stop in ((second.end(),) if second else ()) + (word.end(),):
            unit = unit_of(" ".join(plain[word.start(1) : stop].replace("^", "").split()))
            if unit is not None:
                return scale, *_rate(plain, word.start(1), stop, unit)
    return scale, BARE, end


def _rate(plain: str, start: int, end: int, unit: Unit) -> tuple[Unit, int]:
    """What a "per" or "/" makes of the unit that stands from `start` to `end`. Money and percents go without."""
    per = _PER.match(plain, end)
    if per is None or unit.share or unit.dimension in CURRENCIES.values():
        return unit, end
    other = unit_of(per[2])
    if other is not None:
        return unit.per(other), per.end()
    if "/" in per[1]:  # m/s²: whatever it is, it is no metres
        return Unit(plain[start : per.end()]), per.end()
    return unit, end  # "per person": a word like others
