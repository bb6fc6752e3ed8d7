r"""Curved cones in integers: whether a point is inside, and moving a dual point into the dual cone.

    second-order   s_0 >= |(s_1, ..., s_n)|                    its own dual
    exponential    v exp(u / v) <= w, v > 0, and its limits    -u exp(v / u) <= e w, u < 0, and u = 0, v >= 0, w >= 0
                   v = 0, u <= 0, w >= 0
    power          u^a v^(1-a) >= |w|, u >= 0, v >= 0          (u / a)^a (v / (1-a))^(1-a) >= |w|, u >= 0, v >= 0
    semidefinite   S positive semidefinite, by columns of its  its own dual
                   upper triangle, off the diagonal times sqrt 2

A cone holds all positive multiples of its points. So a vector of integers stands for any numbers with a common
denominator, and no unit is passed. `inside` and `inside_dual` answer True only where that is proved, `into_dual` moves
outward. Squares and small powers are exact. Logarithms and powers lie between bounds of 50 digits (`numbers`); where
they decide nothing the answer is False. Semidefinite matrices are factorised with rounding that is counted:
Proposition 15.11 in docs/methods/evidence.md. Why not in fractions: an order of 60 takes seconds, one of
200 minutes, and sqrt 2 makes entries irrational all the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from operator import mul
from typing import Any

from .numbers import ONE, UP, Fraction, log, power

FEW = 64  # the largest denominator of an exponent for which powers are compared in integers
FAR = Decimal(2000)  # beyond e^2000 no dual point is moved, and below e^-2000 it is rounded up to that
DIGITS = 60  # of the second factorisation, which takes 40 ms for an order of 60, 1.2 s for 200, and 8 s for 400
MEAN = Fraction(7072, 10000)  # above sqrt 2 / 2, as entries off the diagonal are times sqrt 2
WIDE_ORDER = 200  # the largest order for which it is tried
WIDE = Context(prec=DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)
FLOAT_UNIT, WIDE_UNIT = 2.0**-53, Decimal(5).scaleb(-DIGITS)  # the relative error of one operation
FLOAT_TINY, WIDE_TINY = 2.0**-900, Decimal(0)  # more than underflow leaves


class Cone(ABC):
    """A cone of several rows."""

    def __init__(self, rows: int, axis: dict[int, int], signed: Sequence[int]) -> None:
        """``axis`` is a point inside, by row; at rows ``signed`` all points of the cone are at least 0."""
        self.rows, self.axis, self.signed = rows, axis, signed

    def raised(self, s: Sequence[int], by: int) -> list[int]:
        """A point moved along the axis."""
        return [x + by * self.axis.get(i, 0) for i, x in enumerate(s)]

    def halves(self) -> Iterator[dict[int, Fraction]]:
        """Sums of coordinates, by row, that are at least 0 at all points of the cone."""
        yield from ({i: ONE} for i in self.signed)

    @abstractmethod
    def inside(self, s: Sequence[int]) -> bool:
        """Whether a point is proved to be in the cone."""

    def inside_dual(self, y: Sequence[int]) -> bool:
        """Whether a point is proved to be in the dual cone; most cones are their own duals."""
        return self.inside(y)

    @abstractmethod
    def into_dual(self, y: list[int]) -> list[int]:
        """A point of the dual cone near ``y``; ``y`` itself if it is one."""


class SecondOrder(Cone):
    """``s_0 >= |(s_1, ..., s_n)|``."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows, {0: 1}, (0,))

    def halves(self) -> Iterator[dict[int, Fraction]]:
        """Also ``|s_i| <= s_0``."""
        yield from super().halves()
        yield from ({0: ONE, i: sign} for i in range(1, self.rows) for sign in (ONE, -ONE))

    def inside(self, s: Sequence[int]) -> bool:
        """By squares."""
        return s[0] >= 0 and s[0] * s[0] >= _square(s)

    def into_dual(self, y: list[int]) -> list[int]:
        """Raise the first coordinate to the norm, rounded up."""
        if self.inside(y):
            return y
        square = _square(y)
        return [math.isqrt(square - 1) + 1 if square else 0, *y[1:]]


class Exponential(Cone):
    """``v exp(u / v) <= w``."""

    def __init__(self) -> None:
        super().__init__(3, {0: -1, 1: 1, 2: 1}, (1, 2))

    def halves(self) -> Iterator[dict[int, Fraction]]:
        """Also ``u <= v ln (w / v) <= w - v``."""
        yield from super().halves()
        yield {0: -ONE, 1: -ONE, 2: ONE}

    def inside(self, s: Sequence[int]) -> bool:
        """``u / v <= ln (w / v)``."""
        u, v, w = s
        if v <= 0 or w <= 0:
            return v == 0 and u <= 0 and w >= 0
        low = _log_low(w, v)
        return u * low.d <= low.n * v

    def inside_dual(self, y: Sequence[int]) -> bool:
        """``v >= u (1 + ln (w / -u))``."""
        u, v, w = y
        if u >= 0 or w <= 0:
            return u == 0 and v >= 0 and w >= 0
        low = _log_low(w, -u)
        return v * low.d >= u * (low.d + low.n)

    def into_dual(self, y: list[int]) -> list[int]:
        """The nearest of up to three points: u raised to 0, v raised, w raised."""
        if self.inside_dual(y):
            return y
        u, v, w = y
        moved = [[0, max(v, 0), max(w, 0)]]
        if u < 0:
            if w > 0:
                low = _log_low(w, -u)
                moved.append([u, -(-u * (low.d + low.n) // low.d), w])
            exponent = UP.divide(Decimal(v - u), Decimal(u))
            if exponent < FAR:
                n, d = UP.next_plus(UP.exp(max(exponent, -FAR))).as_integer_ratio()
                moved.append([u, v, -(u * n // d)])
        return min(moved, key=lambda one: max(abs(a - b) for a, b in zip(one, y)))


class Power(Cone):
    """``u^a v^(1-a) >= |w|`` with the exponent a = p / q, 0 < a < 1."""

    def __init__(self, exponent: float) -> None:
        super().__init__(3, {0: 1, 1: 1}, (0, 1))
        self.p, self.q = exponent.as_integer_ratio()

    def halves(self) -> Iterator[dict[int, Fraction]]:
        """Also ``|w| <= u^a v^(1-a) <= a u + (1-a) v``."""
        yield from super().halves()
        yield from (
            {0: Fraction(self.p, self.q), 1: Fraction(self.q - self.p, self.q), 2: sign} for sign in (ONE, -ONE)
        )

    def inside(self, s: Sequence[int]) -> bool:
        """In integers where q is small; else by logarithms of u / |w| and v / |w|."""
        u, v, w = s[0], s[1], abs(s[2])
        if u < 0 or v < 0 or not w or not u or not v:
            return not w and u >= 0 and v >= 0
        p, q = self.p, self.q
        if min(u, v) >= w:
            return True
        if q <= FEW:
            return u**p * v ** (q - p) >= w**q
        return not (_log_low(u, w) * p + _log_low(v, w) * (q - p)) < 0

    def _as_primal(self, y: Sequence[int]) -> list[int]:
        """``(u / a, v / (1-a), w)`` times p (q - p): in the cone if and only if y is in the dual cone."""
        p, q = self.p, self.q
        return [y[0] * q * (q - p), y[1] * q * p, y[2] * p * (q - p)]

    def inside_dual(self, y: Sequence[int]) -> bool:
        """As `inside`, of another point."""
        return self.inside(self._as_primal(y))

    def into_dual(self, y: list[int]) -> list[int]:
        """Raise u and v to 0, and lower |w| to what they allow, rounded down."""
        y = [max(y[0], 0), max(y[1], 0), y[2]]
        if self.inside_dual(y):
            return y
        u, v, w = self._as_primal(y)
        if not u or not v:
            return [*y[:2], 0]
        a = Fraction(self.p, self.q)
        part = power(Fraction(u, abs(w)), a).low * power(Fraction(v, abs(w)), 1 - a).low
        size = abs(y[2]) * part.n // part.d
        return [*y[:2], size if y[2] > 0 else -size]


class Semidefinite(Cone):
    """Symmetric matrices, by columns of the upper triangle, entries off the diagonal times sqrt 2."""

    def __init__(self, order: int, check: Callable[[], None]) -> None:
        """``check`` is called between columns of a factorisation."""
        self.order, self.check, self.digits = order, check, (False, True)[: 2 if order <= WIDE_ORDER else 1]
        self.diagonal = [k * (k + 3) // 2 for k in range(order)]
        super().__init__(order * (order + 1) // 2, dict.fromkeys(self.diagonal, 1), self.diagonal)

    def halves(self) -> Iterator[dict[int, Fraction]]:
        """Also that an entry is at most the mean of those of its row and its column on the diagonal."""
        yield from super().halves()
        for k, end in enumerate(self.diagonal):
            for i, other in enumerate(self.diagonal[:k]):
                yield from ({other: MEAN, end: MEAN, end - k + i: sign} for sign in (ONE, -ONE))

    def inside(self, s: Sequence[int]) -> bool:
        """Whether Cholesky's factorisation succeeds, in floats or else in decimals, after its rounding is deducted."""
        rows = [list(s[k * (k + 1) // 2 : (k + 1) * (k + 2) // 2]) for k in range(self.order)]
        used = [k for k, row in enumerate(rows) if any(row) or any(other[k] for other in rows[k + 1 :])]
        if any(rows[k][k] <= 0 for k in used):
            return False
        rows = [[rows[k][j] for j in used[: i + 1]] for i, k in enumerate(used)]
        if len(rows) == 2:  # exactly: the entry off the diagonal is y / sqrt 2
            return 2 * rows[0][0] * rows[1][1] >= rows[1][0] ** 2
        scale = 1 << max((row[-1].bit_length() for row in rows), default=0)
        return not rows or any(self._factorised(rows, scale, wide) for wide in self.digits)

    def _factorised(self, rows: list[list[int]], scale: int, wide: bool) -> bool:
        """Whether the lower triangle, with the diagonal last in each row, is proved positive definite."""
        number: Any = Decimal if wide else _same
        with localcontext(WIDE):
            root, unit, tiny = (Decimal.sqrt, WIDE_UNIT, WIDE_TINY) if wide else (math.sqrt, FLOAT_UNIT, FLOAT_TINY)
            half: Any = root(number(1) / number(2))
            whole = number(scale)
            try:
                lower = [[half * (number(x) / whole) for x in row[:-1]] + [number(row[-1]) / whole] for row in rows]
            except OverflowError:  # an entry far beyond the diagonal
                return False
            sums = [sum(map(abs, row)) for row in lower]
            for row in lower:
                for j, x in enumerate(row[:-1]):
                    sums[j] += abs(x)
            trace = sum(row[-1] for row in lower)
            less = unit * (16 * max(sums) + 2 * (len(rows) + 8) * trace) + tiny
            factor: list[list[Any]] = []
            for row in lower:
                self.check()
                done: list[Any] = []
                for above, x in zip(factor, row):
                    done.append((x - sum(map(mul, above, done))) / above[-1])
                rest = row[-1] - less - sum(map(mul, done, done))
                if not rest > 0:
                    return False
                factor.append([*done, root(rest)])
        return True

    def into_dual(self, y: list[int]) -> list[int]:
        """Add to the diagonal what rounding leaves, times 4 until it is enough."""
        if self.inside(y):
            return y
        size = max(map(abs, y))
        by = (size >> 52 if self.digits[-1] else size * self.order >> 51) + 1
        while not self.inside(self.raised(y, by)):
            by *= 4
        return self.raised(y, by)


def _same(x: Any) -> Any:
    """Integers and floats as they are: the quotient of two integers is the nearest float."""
    return x


def _square(s: Sequence[int]) -> int:
    """The square of the norm of all but the first."""
    rest = s[1:]
    return sum(map(mul, rest, rest))


def _log_low(n: int, d: int) -> Fraction:
    """A lower bound on ``ln (n / d)`` of positive integers; exact where they are equal."""
    return log(Fraction(n, d)).low if n != d else Fraction(0)
