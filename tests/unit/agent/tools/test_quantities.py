"""Quantities in text: which there are, what they are worth, where they stand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringleader.agent.tools.quantities import find_quantities, read_number


def read(text: str) -> list[tuple[str, Fraction | int | None, str]]:
    return [(each.text, each.value, each.unit.dimension) for each in find_quantities(text)]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1,234", 1234),
        ("1.234", Fraction("1.234")),
        ("1,234.5", Fraction("1234.5")),
        ("1.234,5", Fraction("1234.5")),
        ("1.234.567", 1234567),
        ("1,234,567.89", Fraction("1234567.89")),
        ("12,34,567", 1234567),
        ("1,5", Fraction("1.5")),
        ("0,123", Fraction("0.123")),
        ("1'234'567.5", Fraction("1234567.5")),
        ("1\u202f234,5", Fraction("1234.5")),
        (".5", Fraction("0.5")),
        ("007", 7),
        ("1,2,3", None),
        ("3.11.7", None),
        ("1,23.4", None),
        ("1.234.5", None),
        ("1.234,567,8", None),
        ("10:30", None),
        ("9" * 65, None),
    ],
)
def test_separators_are_read_as_documented(written: str, value: Fraction | int | None) -> None:
    assert read_number(written) == value


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("-5 °C", [("-5 °C", -5, "°C")]),
        ("−5%", [("−5%", -5, "%")]),
        ("5 per cent, 5 percent, ５％", [("5 per cent", 5, "%"), ("5 percent", 5, "%"), ("５％", 5, "%")]),
        ("up 5 percentage points", [("5 percentage points", 5, "percentage point")]),
        ("$5 million", [("$5 million", 5_000_000, "USD")]),
        ("-$5m and €-3", [("-$5m", -5_000_000, "USD"), ("€-3", -3, "EUR")]),
        ("5$6, 5 EUR 6", [("5", 5, ""), ("$6", 6, "USD"), ("5 EUR", 5, "EUR"), ("6", 6, "")]),
        ("EUR 5bn", [("EUR 5bn", 5 * 10**9, "EUR")]),
        ("5 million euros", [("5 million euros", 5_000_000, "EUR")]),
        ("5K users, 5 K", [("5K", 5000, ""), ("5 K", 5, "K")]),
        ("5 m, 5M", [("5 m", 5, "length"), ("5M", 5_000_000, "")]),
        ("5 mW or 5 MW", [("5 mW", 5, "power"), ("5 MW", 5, "power")]),
        ("a 30-day trial", [("30-day", 30, "time")]),
        ("120 km/h", [("120 km/h", 120, "length/time")]),
        ("5 m2 or 5 m²", [("5 m2", 5, "area"), ("5 m²", 5, "area")]),
        ("5 m 2 km", [("5 m", 5, "length"), ("2 km", 2, "length")]),
        ("9.8 m/s²", [("9.8 m/s²", Fraction("9.8"), "m/s²")]),
        ("5 kg per animal", [("5 kg", 5, "mass")]),
        ("7 kg/m3", [("7 kg/m3", 7, "mass/volume")]),
        ("$5 per hour, 5% per year", [("$5", 5, "USD"), ("5%", 5, "%")]),
        ("10-12 %", [("10", 10, "%"), ("12 %", 12, "%")]),
        ("2019–2020", [("2019", 2019, ""), ("2020", 2020, "")]),
        ("2024-05-01", [("2024-05-01", None, "")]),
        ("at 10:30, 1/2", [("10:30", None, ""), ("1/2", None, "")]),
        ("3×10⁸ m/s", [("3×10⁸ m/s", 3 * 10**8, "length/time")]),
        ("1.5e-3 kg", [("1.5e-3 kg", Fraction("0.0015"), "mass")]),
        ("1e999", [("1e999", None, "")]),
        ("10^6 m, 10⁶, 10**6", [("10^6 m", 10**6, "length"), ("10⁶", 10**6, ""), ("10**6", 10**6, "")]),
        ("10⁻³ or 5-10^2", [("10⁻³", Fraction("0.001"), ""), ("5", 5, ""), ("10^2", 100, "")]),
        ("2^10, 10^999", [("2^10", None, ""), ("10^999", None, "")]),
        ("in 1828² and 110⁶", [("1828", 1828, ""), ("110", 110, "")]),
        ("2½ cups, -2 ½ kg", [("2½", Fraction("2.5"), ""), ("-2 ½ kg", Fraction("-2.5"), "mass")]),
        ("1⅓ million", [("1⅓ million", Fraction(4_000_000, 3), "")]),
        ("5 m^2, 5 km^2", [("5 m^2", 5, "area"), ("5 km^2", 5, "area")]),
        ("٥٪, 5‱", [("٥٪", 5, "%"), ("5‱", 5, "basis point")]),
        ("3 lakh, 2 crore", [("3 lakh", 300_000, ""), ("2 crore", 20_000_000, "")]),
        ("Q3 of H2O", []),
        ("COVID-19", [("19", 19, "")]),
        ("see ...5", [("5", 5, "")]),
        ("١٢٣", [("١٢٣", 123, "")]),
        ("ends in 2019.", [("2019", 2019, "")]),
        ("1st", [("1", 1, "")]),
    ],
)
def test_quantities_are_found_with_sign_and_unit(
    text: str, found: list[tuple[str, Fraction | int | None, str]]
) -> None:
    assert read(text) == found


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("5 km", "5000 metres"),
        ("1 inch", "2.54 cm"),
        ("2 h", "120 min"),
        ("16µs", "16 μs"),
        ("36 km/h", "10 metres per second"),
        ("8 Mbit/s", "1 MB/s"),
        ("1 ha", "10,000 m²"),
        ("1 m³", "1000 litres"),
    ],
)
def test_units_of_one_dimension_are_worth_the_same(left: str, right: str) -> None:
    (a,), (b,) = find_quantities(left), find_quantities(right)
    assert a.base == b.base and a.unit.dimension == b.unit.dimension


@settings(deadline=None)
@given(st.text(st.one_of(st.characters(), st.sampled_from("0123456789.,-+$€%' eE^×kmKM\u202f"))))
def test_any_text_is_read_and_every_quantity_stands_where_it_says(text: str) -> None:
    last = 0
    for each in find_quantities(text):
        assert last <= each.start < each.end <= len(text)
        assert any(letter.isdigit() for letter in text[each.start : each.end])
        if each.value is not None:
            assert each.text == text[each.start : each.end]
            float(each.base)  # never too large for the comparison
        last = each.end


@settings(deadline=None)
@given(st.integers(-(10**15), 10**15), st.integers(0, 6))
def test_a_number_is_read_however_it_is_grouped(number: int, places: int) -> None:
    value = Fraction(number, 10**places)
    english = f"{number / 10**places:,.{places}f}" if abs(number) < 10**12 else f"{number:,}"
    value = value if abs(number) < 10**12 else Fraction(number)
    (found,) = find_quantities(f"about {english} of them")
    assert found.value == value
    swapped = english.translate(str.maketrans(",.", ".,"))
    if swapped.count(".") > 1 or ("." in swapped and "," in swapped):
        (found,) = find_quantities(f"about {swapped} of them")
        assert found.value == value
