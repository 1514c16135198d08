"""Arithmetic for models: a parser of our own, so that an expression can compute and do nothing else.

Exact fractions as long as the operations allow it; every size is bounded before it is computed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from ringleader.agent.contracts import ToolFault, tool

EXPRESSION_CHARS_MAX = 1_000
DEPTH_MAX = 50  # of brackets, signs and powers; Python's own stack ends at some hundreds
BITS_MAX = 4_096  # of any numerator or denominator: over a thousand digits
FACTORIAL_MAX = 400  # has less than BITS_MAX
ROUND_DIGITS_MAX = 100

Value = Fraction | float


@dataclass(frozen=True, slots=True)
class Calculation:
    """`exact` False: `result` is the nearest floating-point number."""

    result: int | float
    exact: bool


@tool(tier=0, timeout_s=10)
def calculator(expression: str) -> Calculation:
    """Computes an arithmetic expression.

    It knows + - * / // % ^, brackets, pi, e, tau, and abs, ceil, floor, round, sqrt, exp, ln, log, log2, log10, sin,
    cos, tan, asin, acos, atan, degrees, radians, factorial, gcd, min, max, sum and mean. % is the remainder.

    Args:
        expression: for example (3 + 4.5) * 2^10 or round(sqrt(2), 3)
    """
    if len(expression) > EXPRESSION_CHARS_MAX:
        raise ToolFault(f"the expression is longer than {EXPRESSION_CHARS_MAX} characters; compute it in parts")
    try:
        value = _Parser(expression).read()
        return _told(_bounded(value))
    except ZeroDivisionError:
        raise ToolFault("the expression divides by zero") from None
    except OverflowError:
        raise ToolFault("a number in the expression is too large") from None
    except ValueError as domain:  # math's functions, outside of where they are defined
        raise ToolFault(f"the expression has no real value: {domain}") from domain


def _told(value: Value) -> Calculation:
    if isinstance(value, float):
        return Calculation(value, exact=False)
    if value.denominator == 1:
        return Calculation(value.numerator, exact=True)
    near = float(value)
    return Calculation(near, exact=Fraction(repr(near)) == value)


_TOKEN = re.compile(
    r"\s*(?:(\d+(?:\.\d*)?(?:[eE][-+]?\d{1,3})?|\.\d+(?:[eE][-+]?\d{1,3})?)|([^\W\d]\w*)|(\*\*|//|[-+*/%^(),!]))"
)
_SAME = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "π": "pi", "√": "sqrt "})
_NAMES: dict[str, Value] = {"pi": math.pi, "e": math.e, "tau": math.tau}


class _Parser:
    """Reads and computes at once. Grammar: sum of products of signed powers of atoms; a power binds to its right."""

    def __init__(self, expression: str) -> None:
        self._text = expression.translate(_SAME).rstrip()
        self._at = 0
        self._depth = 0
        self._kind, self._token = "", ""
        self._next()

    def read(self) -> Value:
        value = self._sum()
        if self._kind != "end":
            raise self._unexpected()
        return value

    def _next(self) -> None:
        if self._at == len(self._text):
            self._kind, self._token = "end", ""
            return
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            rest = self._text[self._at :].strip()[:20]
            raise ToolFault(f"the expression has {rest!r} where a number, a name or an operator should be")
        self._at = found.end()
        kind = found.lastindex or 0
        self._kind, self._token = ("", "number", "name", "sign")[kind], found[kind]

    def _take(self, *tokens: str) -> str:
        """The token, when it is one of these; else ""."""
        token = self._token
        if self._kind == "sign" and token in tokens:
            self._next()
            return token
        return ""

    def _unexpected(self) -> ToolFault:
        if self._token == ",":
            return ToolFault("the expression has ',' where it should not be; numbers have no thousands separators here")
        return ToolFault(
            f"the expression {f'has {self._token!r} where it should not be' if self._token else 'ends early'}"
        )

    def _sum(self) -> Value:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ToolFault(f"the expression nests more than {DEPTH_MAX} levels; compute it in parts")
        value = self._product()
        while sign := self._take("+", "-"):
            other = self._product()
            value = _bounded(value + other if sign == "+" else value - other)
        self._depth -= 1
        return value

    def _product(self) -> Value:
        value = self._signed()
        while sign := self._take("*", "/", "//", "%"):
            value = _bounded(_PRODUCTS[sign](value, self._signed()))
        return value

    def _signed(self) -> Value:
        negative = False
        while sign := self._take("-", "+"):
            negative ^= sign == "-"
        value = self._power()
        return -value if negative else value

    def _power(self) -> Value:
        base = self._atom()
        while self._take("!"):
            base = _factorial(base)
        if self._take("^", "**"):
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise ToolFault(f"the expression nests more than {DEPTH_MAX} levels; compute it in parts")
            base = _power(base, self._signed())
            self._depth -= 1
        return base

    def _atom(self) -> Value:
        kind, token = self._kind, self._token
        if kind == "number":
            self._next()
            return _bounded(Fraction(token))
        if kind == "name":
            self._next()
            return self._named(token.lower())
        if self._take("("):
            value = self._sum()
            if not self._take(")"):
                raise self._unexpected()
            return value
        raise self._unexpected()

    def _named(self, name: str) -> Value:
        if name in _NAMES:
            return _NAMES[name]
        if name not in _FUNCTIONS:
            known = ", ".join([*_NAMES, *sorted(_FUNCTIONS)])
            raise ToolFault(f"the expression names {name[:40]!r}, which is not known. Known are {known}")
        least, most, function = _FUNCTIONS[name]
        if not self._take("("):
            raise ToolFault(f"{name} must be followed by its arguments in brackets")
        given = [self._sum()]
        while self._take(","):
            given.append(self._sum())
        if not self._take(")"):
            raise self._unexpected()
        if not least <= len(given) <= most:
            raise ToolFault(
                f"{name} takes {least} {'argument' if most == 1 else 'arguments or more'}, not {len(given)}"
            )
        return _bounded(function(*given))


def _bounded(value: Value) -> Value:
    """Raises OverflowError when the value is too large to go on with."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise OverflowError
    elif max(abs(value.numerator), value.denominator).bit_length() > BITS_MAX:
        raise OverflowError
    return value


def _power(base: Value, exponent: Value) -> Value:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        times = exponent.numerator
        size = max(abs(base.numerator), base.denominator).bit_length() - 1  # 0 for 0, 1 and -1
        if abs(times) * size > BITS_MAX:
            raise OverflowError
        return _bounded(base**times)
    if base == 0 and exponent < 0:
        raise ZeroDivisionError
    return math.pow(base, exponent)


def _factorial(value: Value) -> Value:
    if not isinstance(value, Fraction) or value.denominator != 1 or value < 0:
        raise ToolFault("factorial is of whole numbers from 0 on")
    if value > FACTORIAL_MAX:
        raise OverflowError
    return Fraction(math.factorial(int(value)))


def _sqrt(value: Value) -> Value:
    """Exact where both parts are squares."""
    if isinstance(value, Fraction) and value >= 0:
        roots = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
        if roots * roots == value:
            return roots
    return math.sqrt(value)


def _round(value: Value, digits: Value = Fraction(0)) -> Value:
    """Halves go to the even neighbour, as in Python."""
    if digits != int(digits) or not -ROUND_DIGITS_MAX <= digits <= ROUND_DIGITS_MAX:
        raise ToolFault(f"round takes a whole number of digits up to {ROUND_DIGITS_MAX}")
    rounded: Value = round(value, int(digits))  # type: ignore[assignment]  # the stubs lose the union
    return rounded


def _log(value: Value, base: Value = Fraction(10)) -> float:
    return math.log(value, base) if base != 10 else math.log10(value)


def _gcd(*values: Value) -> Value:
    if any(value != int(value) for value in values):
        raise ToolFault("gcd is of whole numbers")
    return Fraction(math.gcd(*(int(value) for value in values)))


def _sum(*values: Value) -> Value:
    total: Value = Fraction(0)
    for value in values:
        total = _bounded(total + value)
    return total


_PRODUCTS: dict[str, Callable[[Value, Value], Value]] = {
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: Fraction(a // b),
    "%": lambda a, b: a % b,
}
_MANY = 200  # arguments; the expression's length ends them before
_FUNCTIONS: dict[str, tuple[int, int, Callable[..., Value]]] = {
    "abs": (1, 1, abs),
    "ceil": (1, 1, lambda x: Fraction(math.ceil(x))),
    "floor": (1, 1, lambda x: Fraction(math.floor(x))),
    "round": (1, 2, _round),
    "sqrt": (1, 1, _sqrt),
    "exp": (1, 1, math.exp),
    "ln": (1, 1, math.log),
    "log": (1, 2, _log),
    "log2": (1, 1, math.log2),
    "log10": (1, 1, math.log10),
    "sin": (1, 1, math.sin),
    "cos": (1, 1, math.cos),
    "tan": (1, 1, math.tan),
    "asin": (1, 1, math.asin),
    "acos": (1, 1, math.acos),
    "atan": (1, 1, math.atan),
    "degrees": (1, 1, math.degrees),
    "radians": (1, 1, math.radians),
    "factorial": (1, 1, _factorial),
    "gcd": (1, _MANY, _gcd),
    "min": (1, _MANY, min),
    "max": (1, _MANY, max),
    "sum": (1, _MANY, _sum),
    "mean": (1, _MANY, lambda *xs: _sum(*xs) / len(xs)),
}
