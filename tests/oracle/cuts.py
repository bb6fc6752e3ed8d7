"""Concave functions over convex sets, by tangents: bounds by linear programs in exact fractions.

A concave function is at most each of its tangents, so what is maximised under tangents bounds what is maximised under
the function, with or without room inside. Tangents are added where the last program ended, until it ends at a point
that is as good. What is near the optimum already, as an answer is, takes one or two programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import exact_lp

Float = NDArray[np.floating[Any]]
Rows = list[tuple[list[Fraction], Fraction]]


class Concave(NamedTuple):
    """A sum of concave functions of ``x >= 0``.

    ``value`` is the sum at a point, and ``tangents`` slopes ``(k, n)`` and constants ``(k,)`` of one tangent to each of
    the k functions, at the point or, where it has no slope there, near it.
    """

    value: Callable[[Float], float]
    tangents: Callable[[Float], tuple[Float, Float]]


class Held(NamedTuple):
    """A function that has to be at least ``level``; ``size`` is the unit in which it may miss that."""

    function: Concave
    level: float
    size: float


class Bracket(NamedTuple):
    """The best value of a point found beside the start, a bound on all of them, and the point."""

    low: float
    high: float
    point: Float | None


class Outer:
    """A polytope that holds the convex set: rows, and tangents so far, each function's in variables of its own."""

    def __init__(self, at_most: Rows, equal: Rows, held: Sequence[Held], top: Float, start: Float) -> None:
        self.at_most, self.equal, self.held, self.top = at_most, equal, held, top
        self.columns = len(top)
        self.rows: Rows = [(list(row), value) for row, value in at_most]
        self.at = [self.epigraph(h.function, start, h.level) for h in held]
        for (first, low), h in zip(self.at, held, strict=True):
            k = len(low)
            row = [Fraction(0)] * first + [Fraction(-1)] * k
            self.rows.append((row, sum(map(Fraction, low)) - Fraction(h.level)))
        self.cut(start)

    def epigraph(self, function: Concave, start: Float, least: float) -> tuple[int, list[float]]:
        """Variables for each part of a function, above what they are at least where the sum is at least ``least``."""
        slopes, constants = function.tangents(start)
        most = constants + np.maximum(slopes, 0.0) @ self.top
        room = float(most.sum()) - least
        first = self.columns
        self.columns += len(most)
        return first, [float(m - 1.01 * max(room, 0.0) - 1e-9 * (abs(m) + abs(least))) for m in most]

    def add(self, function: Concave, at: tuple[int, list[float]], point: Float) -> None:
        """Tangents at a point."""
        first, low = at
        for k, (slope, constant) in enumerate(zip(*function.tangents(point), strict=True)):
            if not np.isfinite([*slope, constant]).all():  # beyond the range of floats: bounds are only looser
                continue
            row = [-Fraction(float(v)) for v in slope] + [Fraction(0)] * (first + k - len(slope)) + [Fraction(1)]
            self.rows.append((row, Fraction(float(constant)) - Fraction(low[k])))

    def cut(self, point: Float) -> None:
        """Tangents to all conditions at a point."""
        for h, at in zip(self.held, self.at, strict=True):
            self.add(h.function, at, point)

    def padded(self) -> tuple[Rows, Rows]:
        """Rows and equations over all variables."""
        return tuple(  # type: ignore[return-value]
            [(row + [Fraction(0)] * (self.columns - len(row)), value) for row, value in rows]
            for rows in (self.rows, self.equal)
        )

    def keeps(self, point: Float) -> bool:
        """Whether a point holds all conditions, to 1e-12 of their sizes."""
        return all(h.function.value(point) >= h.level - 1e-12 * h.size for h in self.held)


def maximise(
    function: Concave,
    at_most: Rows,
    equal: Rows,
    held: Sequence[Held],
    top: Float,
    start: Float,
    close: float,
    tries: int = 20,
) -> Bracket:
    """The largest value of a function over ``x >= 0`` under rows and held functions, to within ``close``.

    ``top`` is the most of each variable, and ``start`` where the first tangents are: a feasible point. The bound holds
    for what is at least as good as ``start``.
    """
    outer = Outer(at_most, equal, held, top, start)
    worth = function.value(start)
    at = outer.epigraph(function, start, worth - close)
    first, low = at
    if not np.isfinite(low).all():  # beyond the range of floats nothing is said
        return Bracket(-np.inf, np.inf, None)
    best, point, centre = Bracket(-np.inf, np.inf, None), start, start
    for _ in range(tries):
        outer.add(function, at, point)
        if point is not start:  # deeper than where programs end, which are corners
            outer.add(function, at, (point + centre) / 2)
        goal = [Fraction(0)] * first + [Fraction(1)] * len(low)
        found = exact_lp.maximise(goal + [Fraction(0)] * (outer.columns - len(goal)), *outer.padded())
        high = float(found.value + sum(map(Fraction, low)))
        point = np.array(found.point[: len(top)], dtype=float)
        best = best._replace(high=high)
        for candidate in (point, (point + centre) / 2):
            value = function.value(candidate) if outer.keeps(candidate) else -np.inf
            if value > best.low:
                best = Bracket(value, high, candidate)
                centre = candidate if value > worth else centre
        if best.high <= max(best.low, worth) + close:
            break
        outer.cut(point)
    return best


def leximin(
    forms: Sequence[list[Fraction]],
    at_most: Rows,
    equal: Rows,
    held: Sequence[Held],
    top: Float,
    start: Float,
    reached: Callable[[list[Fraction]], bool],
    tries: int = 25,
) -> tuple[list[Fraction], bool]:
    """Levels of forms at their leximin over a polytope that holds the set, and whether a point of the set has them.

    Tangents are added until it has, or until the levels are ``reached`` by whom they are compared with.
    """
    outer = Outer(at_most, equal, held, top, start)
    for _ in range(tries):
        longer = [form + [Fraction(0)] * (outer.columns - len(form)) for form in forms]
        levels, where = exact_lp.leximin_point(longer, *outer.padded())
        point = np.array(where[: len(top)], dtype=float)
        if reached(levels) or outer.keeps(point):
            return levels, outer.keeps(point)
        outer.cut(point)
    return levels, False
