"""Rational numbers: python-flint's where it is installed, else Python's; and python-flint on first use, for balls.

Both kinds are reduced after each operation. python-flint's are up to twice as fast in whole answers (docs/exact.md);
they are not of type `Fraction` and do not multiply by one, so that constants are made by `rational`, and a number
leaves this room by `as_fraction`. Intervals of real numbers (`flint.arb`) have no counterpart in Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

from fairopt.errors import optional
from fairopt.runtime.display import with_all_digits

Rational = Any  # `flint.fmpq` or `fractions.Fraction`
DIGITS = 4_000  # of integers that Python reads by default: its limit is 4,300, against quadratic time


def required() -> Any:
    """python-flint; `MissingExtra` if it is not installed."""
    return optional("flint", "exact", "intervals for irrational optima", "python-flint")


class _Flint:
    """The module, imported when an attribute is first used."""

    @cached_property
    def _module(self) -> Any:
        return required()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        setattr(self, name, value)
        return value


flint: Any = _Flint()


@cache
def kind() -> type[Any]:
    """The type of rational numbers."""
    try:
        from flint import fmpq
    except ImportError:
        return Fraction
    number: type[Any] = fmpq
    return number


def rational(n: int, d: int = 1) -> Rational:
    """The number n / d."""
    return kind()(n, d)


def as_rational(value: Fraction) -> Rational:
    """A fraction of Python as a rational number."""
    return kind()(value.numerator, value.denominator)


def as_fraction(value: Rational) -> Fraction:
    """A rational number as a fraction of Python."""
    return value if isinstance(value, Fraction) else Fraction(*ratio(value))


def ratio(value: Rational) -> tuple[int, int]:
    """Numerator and denominator."""
    return value.as_integer_ratio() if isinstance(value, Fraction) else (int(value.p), int(value.q))


def total(values: Iterable[Rational]) -> Rational:
    """The sum, a rational number also of no values."""
    return sum(values, rational(0))


def as_float(value: Rational) -> float:
    """The nearest float, infinite beyond its range."""
    n, d = ratio(value)
    try:
        return n / d
    except OverflowError:
        return float("inf") if n > 0 else float("-inf")


def written(value: Any) -> str:
    """A number as text such as ``5/11``, of any number of digits."""
    return with_all_digits(as_fraction(value))


def brief(value: Any) -> str:
    """The same in messages, or its float if it is long."""
    n, d = ratio(value)
    return str(n) if d == 1 and abs(n) < 10**12 else f"{n}/{d}" if d < 10**12 else f"{as_float(value):.12g}"


def read(text: str) -> Rational:
    """A number from such text; `ValueError` for any other."""
    n, slash, d = text.partition("/")
    digits = n.removeprefix("-")
    if not (digits + d).isascii() or not digits.isdecimal() or bool(slash) != d.isdecimal():
        raise ValueError(f"{text[:60]!r} is not a fraction such as '5/11'")
    above, below = _whole(digits), _whole(d or "1")
    if not below:
        raise ValueError(f"{text[:60]!r} divides by 0")
    return rational(above if n == digits else -above, below)


def _whole(digits: str) -> int:
    """An integer of any number of digits, by halves: `int` of a `Decimal` takes up to 20 times as long."""
    if len(digits) <= DIGITS:
        return int(digits)
    half = len(digits) // 2
    return _whole(digits[:-half]) * 10**half + _whole(digits[-half:])
