"""An interval with rational ends around an optimal value, and how it is printed.

With ``size`` the larger end and ``length`` the distance of both, ``ceil(log10 size - log10 length) + 1`` significant
digits tell the ends apart. They are rounded outwards, the lower end down and the upper end up, so that the printed
interval contains the value too: rounded to nearest, an interval of 1e-20 around sqrt(2) could exclude it in its last
digit. Logarithms are of numerator and denominator apart, as widths of 1e-300 and less are beyond floats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from fairopt.exact.rationals import written

LONGEST = 60  # characters of a fraction that is printed


@dataclass(frozen=True, repr=False)
class ExactBounds:
    """An interval that contains the optimal value, and tasks that reach its lower end.

    Attributes
    ----------
    lower, upper : Fraction
        The largest value of the objective that feasible tasks have lies between them.
    tasks : tuple of tuple of Fraction
        Feasible tasks by user and server with a value of at least ``lower``; if the policy decides bundles, those that
        fit in the optimal bundles.
    width : float
        The length of the interval relative to the value, as in `Allocation.exact_bounds`.
    of : str
        What is enclosed: ``"the objective"``, or the first level or tier of it.
    reading : str
        How the numbers of the instance and the policy were read.

    Examples
    --------
    >>> import fairopt as fo
    >>> a = fo.FDS(2).allocate(fo.Instance([[1, 4], [3, 1]], [9, 18]))
    >>> found = a.exact_bounds(width=1e-30)
    >>> found.width <= 1e-30, float(found.lower)
    (True, -2.914213562373095)
    """

    lower: Fraction
    upper: Fraction
    tasks: tuple[tuple[Fraction, ...], ...]
    width: float
    of: str
    reading: str

    def __str__(self) -> str:
        """Both ends with as many digits as tell them apart, rounded outwards; the number itself if they are equal."""
        if self.lower == self.upper:
            text = written(self.lower)
            return text if len(text) <= LONGEST else f"{float(self.lower)!r} (a fraction of {len(text) - 1:,} digits)"
        size, length = max(abs(self.lower), abs(self.upper)), self.upper - self.lower
        digits = max(math.ceil(_log10(size) - _log10(length)), 1) + 1
        ends = ((self.lower, ROUND_FLOOR), (self.upper, ROUND_CEILING))
        return " to ".join(str(_decimal(end, digits, rounding)) for end, rounding in ends)

    def __repr__(self) -> str:
        return f"ExactBounds({self}, of {self.of})"


def _log10(x: Fraction) -> float:
    """The logarithm of a positive fraction, which may be beyond floats."""
    return math.log10(x.numerator) - math.log10(x.denominator)


def _decimal(x: Fraction, digits: int, rounding: str) -> Decimal:
    """A fraction with so many significant digits."""
    return Context(prec=digits, rounding=rounding).divide(Decimal(x.numerator), Decimal(x.denominator))
