"""Norms of fractions, between fractions as near as one likes.

    (sum_i v_i^p)^(1/p)  =  t (sum_i (v_i / t)^p)^(1/p),   t = max_i v_i,   x^p = exp(p ln x),

of fractions v_i > 0 is irrational but for a few p. Exact answers and the checker need it between two fractions.
`decimal` rounds `ln` and `exp` correctly, to half a unit of the last digit, so that the next number below and above
enclose each; products round in the direction that keeps the end outside, which for a factor below 0 is the other one.
The checker has the same in code of its own. Relative to the largest entry no power exceeds 1; one far below it may
round to 0, which is a lower end. Digits are doubled until the interval is short enough: one round is usual, by `GUARD`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import NamedTuple

GUARD = 6  # digits beyond those that the width asks for, for roundings: 300 drawn norms took one round, with 1 too


class Between(NamedTuple):
    """An irrational number lies between two fractions."""

    low: Fraction
    high: Fraction


def norm(values: Sequence[Fraction], p: Fraction, width: Fraction) -> Fraction | Between:
    """The p-norm of positive fractions, with a relative width of at most ``width`` if it is not one of them."""
    top = max(values)
    if len(values) == 1:
        return top
    # the relative error of a power is p times that of a logarithm, of a root 1 / p times that of a sum
    digits = max(len(str(int(1 / width))), 1) + len(str(int(1 / p))) + len(str(len(values))) + GUARD
    while True:
        parts = [_power(v / top, p, digits) for v in values]
        low = _power(sum((part.low for part in parts), Fraction(0)), 1 / p, digits).low
        high = _power(sum((part.high for part in parts), Fraction(0)), 1 / p, digits).high
        if high - low <= width * low:
            return Between(top * low, top * high)
        digits *= 2


def _power(x: Fraction, p: Fraction, digits: int) -> Between:
    """``x^p`` of positive fractions; of numbers far below 1 the lower end is 0.

    Logarithms and exponentials of `decimal` are correctly rounded, so that their neighbours enclose them.
    """
    if x == 1:
        return Between(x, x)
    ends = []
    for rounding in (ROUND_FLOOR, ROUND_CEILING):
        to = Context(digits, rounding, MIN_EMIN, MAX_EMAX)
        near = to.next_minus if rounding == ROUND_FLOOR else to.next_plus
        logarithm = near(to.ln(_decimal(to, x)))
        ends.append(near(to.exp(to.multiply(logarithm, _decimal(_towards(to, logarithm < 0), p)))))
    # as a fraction 1e-4000 has 13,000 bits, and beside a sum of at least 1 it is nothing
    if ends[1].adjusted() < -2 * digits:
        return Between(Fraction(0), Fraction(1, 10 ** (2 * digits)))
    return Between(*(Fraction(*end.as_integer_ratio()) for end in ends))


def _towards(context: Context, opposite: bool) -> Context:
    """A context that rounds the other way if a factor is negative."""
    rounding = context.rounding
    if opposite:
        rounding = ROUND_CEILING if rounding == ROUND_FLOOR else ROUND_FLOOR
    return Context(context.prec, rounding, MIN_EMIN, MAX_EMAX)


def _decimal(context: Context, x: Fraction) -> Decimal:
    """A fraction rounded in the direction of a context."""
    return context.divide(Decimal(x.numerator), Decimal(x.denominator))
