"""Units of numbers in text: which spellings mean the same, and how they convert. Exact: no floating point."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Unit:
    """`dimension` is what must agree; `factor` brings a value to the dimension's base unit. "" is no unit at all."""

    dimension: str
    factor: int | Fraction = 1
    share: bool = False  # of something else, like percent: such a number says nothing of the bare one

    def per(self, other: Unit) -> Unit:
        """The rate that the two make: kilometres per hour."""
        factor = Fraction(self.factor) / other.factor
        return Unit(f"{self.dimension}/{other.dimension}", factor)


BARE = Unit("")
SCALES: dict[str, int] = {
    "hundred": 10**2,
    "thousand": 10**3,
    "lakh": 10**5,
    "lakhs": 10**5,
    "million": 10**6,
    "millions": 10**6,
    "mio": 10**6,
    "mn": 10**6,
    "mln": 10**6,
    "crore": 10**7,
    "crores": 10**7,
    "billion": 10**9,
    "billions": 10**9,
    "bn": 10**9,
    "bln": 10**9,
    "trillion": 10**12,
    "trillions": 10**12,
    "tn": 10**12,
}
# Read so only where they hang on the number: "5K", "$5m", "2.5B". "5 m" are metres, and "300 K" is a temperature.
CLOSE_SCALES: dict[str, int] = {"k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9}
MONEY_SCALES: dict[str, int] = CLOSE_SCALES | {"m": 10**6, "b": 10**9, "T": 10**12, "t": 10**12}
CURRENCIES: dict[str, str] = {
    "$": "USD",
    "US$": "USD",
    "€": "EUR",
    "£": "GBP",
    "¥": "JPY",
    "₹": "INR",
    "₩": "KRW",
    "₽": "RUB",
    "USD": "USD",
    "EUR": "EUR",
    "GBP": "GBP",
    "JPY": "JPY",
    "CHF": "CHF",
    "INR": "INR",
    "CNY": "CNY",
    "dollar": "USD",
    "dollars": "USD",
    "euro": "EUR",
    "euros": "EUR",
}
_SHARES: dict[str, tuple[str, ...]] = {
    "%": ("%", "percent", "per cent", "pct"),
    "percentage point": ("percentage point", "percentage points", "pp", "ppt"),
    "basis point": ("basis point", "basis points", "bp", "bps", "‱"),
    "‰": ("‰", "per mille", "per mil"),
    "ppm": ("ppm",),
}
# dimension -> (factor to the base unit, spellings). Symbols are told apart by case (mW, MW), words are not.
_TABLE: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "length": (
        ("1/1000000000", ("nm", "nanometre", "nanometer")),
        ("1/1000000", ("µm", "micrometre", "micrometer", "micron")),
        ("1/1000", ("mm", "millimetre", "millimeter")),
        ("1/100", ("cm", "centimetre", "centimeter")),
        ("1", ("m", "metre", "meter")),
        ("1000", ("km", "kilometre", "kilometer")),
        ("0.0254", ("inch", "inches")),
        ("0.3048", ("ft", "foot", "feet")),
        ("0.9144", ("yd", "yard")),
        ("1609.344", ("mi", "mile")),
    ),
    "mass": (
        ("1/1000000", ("mg", "milligram")),
        ("1/1000000000", ("µg", "microgram")),
        ("1/1000", ("g", "gram")),
        ("1", ("kg", "kilogram", "kilo")),
        ("1000", ("t", "tonne", "metric ton", "metric tons")),
        ("0.45359237", ("lb", "lbs", "pound")),
        ("0.028349523125", ("oz", "ounce")),
    ),
    "area": (
        ("1/10000", ("cm²", "cm2", "sq cm", "square centimetre", "square centimeter")),
        ("1", ("m²", "m2", "sq m", "square metre", "square meter")),
        ("10000", ("ha", "hectare")),
        ("1000000", ("km²", "km2", "sq km", "square kilometre", "square kilometer")),
        ("0.09290304", ("ft²", "ft2", "sq ft", "square foot", "square feet")),
        ("4046.8564224", ("acre",)),
        ("2589988.110336", ("sq mi", "square mile")),
    ),
    "volume": (
        ("1/1000", ("ml", "mL", "millilitre", "milliliter")),
        ("1", ("l", "L", "litre", "liter")),
        ("1000", ("m³", "m3", "cubic metre", "cubic meter")),
    ),
    "time": (
        ("1/1000000000", ("ns", "nanosecond")),
        ("1/1000000", ("µs", "us", "microsecond")),
        ("1/1000", ("ms", "millisecond")),
        ("1", ("s", "sec", "secs", "second")),
        ("60", ("min", "mins", "minute")),
        ("3600", ("h", "hr", "hrs", "hour")),
        ("86400", ("d", "day")),
        ("604800", ("week",)),
    ),
    "months": (("1", ("month",)), ("12", ("year", "yr", "yrs"))),
    "data": (
        ("1/8", ("bit",)),
        ("1", ("B", "byte")),
        ("1000", ("kB", "KB", "kilobyte")),
        ("1000000", ("MB", "megabyte")),
        ("1000000000", ("GB", "gigabyte")),
        ("1000000000000", ("TB", "terabyte")),
        ("1024", ("KiB", "kibibyte")),
        ("1048576", ("MiB", "mebibyte")),
        ("1073741824", ("GiB", "gibibyte")),
        ("1099511627776", ("TiB", "tebibyte")),
    ),
    # Rates: what "per" and "/" make of two units is called so, too.
    "data/time": (
        ("125", ("kbit/s", "kbps", "kb/s", "Kbps")),
        ("125000", ("Mbit/s", "Mbps", "Mb/s")),
        ("125000000", ("Gbit/s", "Gbps", "Gb/s")),
    ),
    "length/time": (("5/18", ("kph", "kmh")), ("0.44704", ("mph",))),
    "frequency": (("1", ("Hz", "hertz")), ("1000", ("kHz",)), ("1000000", ("MHz",)), ("1000000000", ("GHz",))),
    "power": (
        ("1/1000", ("mW", "milliwatt")),
        ("1", ("W", "watt")),
        ("1000", ("kW", "kilowatt")),
        ("1000000", ("MW", "megawatt")),
        ("1000000000", ("GW", "gigawatt")),
    ),
    "energy": (
        ("1", ("J", "joule")),
        ("1000", ("kJ", "kilojoule")),
        ("1000000", ("MJ", "megajoule")),
        ("3600", ("Wh",)),
        ("3600000", ("kWh",)),
        ("3600000000", ("MWh",)),
        ("4184", ("kcal",)),
    ),
    "voltage": (("1/1000", ("mV",)), ("1", ("V", "volt")), ("1000", ("kV",))),
    "current": (("1/1000", ("mA",)), ("1", ("A", "amp", "ampere"))),
    # Degrees have different zeros: they do not convert by a factor.
    "°C": (("1", ("°C", "℃", "degrees celsius", "celsius")),),
    "°F": (("1", ("°F", "℉", "degrees fahrenheit", "fahrenheit")),),
    "K": (("1", ("K", "kelvin")),),
    "angle": (("1", ("°", "degree")),),
}


def _spellings() -> dict[str, Unit]:
    known: dict[str, Unit] = {word: Unit(code) for word, code in CURRENCIES.items()}
    for dimension, words in _SHARES.items():
        known |= dict.fromkeys(words, Unit(dimension, share=True))
    for dimension, rows in _TABLE.items():
        for factor, words in rows:
            exact = Fraction(factor)
            unit = Unit(dimension, exact.numerator if exact.denominator == 1 else exact)
            known |= dict.fromkeys(words, unit)
            known |= {
                f"{word}s": unit for word in words if len(word) > 3 and word.isalpha() and f"{word}s" not in known
            }
    return known


_KNOWN = _spellings()


def unit_of(spelling: str) -> Unit | None:
    """The unit that a text spells, or None. "Metres" is "metres"; "mW" is not "MW"."""
    plain = spelling.replace("μ", "µ")  # the Greek letter for the sign, which looks the same
    exact = _KNOWN.get(plain)
    if exact is not None or len(plain) <= 3:
        return exact
    return _KNOWN.get(plain.lower())
