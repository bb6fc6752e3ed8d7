"""Linear programs in exact fractions, and what is made of them: leximin level by level, and ordered weights.

The simplex method on a tableau of integers (Edmonds), by Bland's rule. It need not be trusted: every optimum is proved
by its dual, in fractions of the numbers as given, before it is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple

import numpy as np

Number = Fraction | int | float
Row = Sequence[Number]
Rows = Sequence[tuple[Row, Number]]  # coefficients and right-hand side
Exact = Sequence[tuple[list[Fraction], Fraction]]


class NoPoint(Exception):
    """Nothing satisfies all rows."""


class NoEnd(Exception):
    """The objective grows without end."""


class Optimum(NamedTuple):
    """The largest value, where it is, and the multipliers that prove it: of ``at_most`` and of ``equal``, in order."""

    value: Fraction
    point: list[Fraction]
    prices: list[Fraction]


def maximise(worth: Row, at_most: Rows, equal: Rows = ()) -> Optimum:
    """The largest ``worth x`` over ``x >= 0`` with ``row x <= value`` and ``row x == value``."""
    rows = [([Fraction(v) for v in row], Fraction(value)) for row, value in (*at_most, *equal)]
    goal = [Fraction(v) for v in worth]
    found = _simplex(goal, rows, len(at_most))
    _prove(found, goal, rows, len(at_most))
    return found


def leximin(forms: Sequence[Row], at_most: Rows, equal: Rows = ()) -> list[Fraction]:
    """The values of linear forms, nowhere negative, at their leximin: unique, in order of the forms."""
    return leximin_point(forms, at_most, equal)[0]


def leximin_point(forms: Sequence[Row], at_most: Rows, equal: Rows = ()) -> tuple[list[Fraction], list[Fraction]]:
    """The values of `leximin`, and a point that has them.

    Each program raises the smallest of those that may still rise, given the levels of the others. A form whose row has
    a positive multiplier is as large as it can be at every optimum, so it stays there; every program has one.
    """
    k, zero = len(forms), Fraction(0)
    levels: list[Fraction | None] = [None] * k
    exact = [[Fraction(v) for v in form] for form in forms]
    held = [([*row, 0], value) for row, value in at_most]
    same = [([*row, 0], value) for row, value in equal]
    best = Optimum(zero, [zero], [])
    while any(level is None for level in levels):
        below = [  # the level below the forms that rise; the others where they are
            ([-v for v in form] + [Fraction(level is None)], zero if level is None else -level)
            for form, level in zip(exact, levels, strict=True)
        ]
        best = maximise([zero] * len(exact[0]) + [Fraction(1)], [*held, *below], same)
        for j, price in enumerate(best.prices[len(held) : len(held) + k]):
            if levels[j] is None and price > 0:
                levels[j] = best.value
    return [level for level in levels if level is not None], best.point[:-1]


def smallest(forms: Sequence[Row], at_most: Rows, equal: Rows = ()) -> Fraction:
    """The largest value of the smallest of linear forms that are nowhere negative."""
    below = [([*(-Fraction(v) for v in form), 1], 0) for form in forms]
    longer = [[([*row, 0], value) for row, value in rows] for rows in (at_most, equal)]
    return maximise([0] * len(forms[0]) + [1], [*longer[0], *below], longer[1]).value


def ordered(forms: Sequence[Row], weights: Row, at_most: Rows, equal: Rows = ()) -> Fraction:
    """The largest sum of the forms sorted from below, by weights that do not grow: the least over all permutations.

    Permutations are added one at a time, until the one that sorts the answer is among them.
    """
    exact = [[Fraction(v) for v in form] for form in forms]
    v = [*(Fraction(w) for w in weights), *[Fraction(0)] * len(forms)][: len(forms)]
    orders = [tuple(range(len(forms)))]
    longer = [[([*row, 0], value) for row, value in rows] for rows in (at_most, equal)]
    while True:
        below = [
            ([*(-sum(v[place] * exact[j][p] for place, j in enumerate(order)) for p in range(len(exact[0]))), 1], 0)
            for order in orders
        ]
        best = maximise([0] * len(exact[0]) + [1], [*longer[0], *below], longer[1])
        values = [dot(form, best.point[:-1]) for form in exact]
        order = tuple(sorted(range(len(forms)), key=lambda j: values[j]))
        if sum((v[place] * values[j] for place, j in enumerate(order)), Fraction(0)) == best.value:
            return best.value
        orders.append(order)


def dot(row: Iterable[Any], point: Iterable[Any]) -> Fraction:
    """The sum of products."""
    return sum((a * b for a, b in zip(row, point, strict=True) if a and b), Fraction(0))


def _prove(found: Optimum, goal: list[Fraction], rows: Exact, inequalities: int) -> None:
    """Primal and dual feasible, and of one value: then both are optimal, however they were found."""
    x, y = found.point, found.prices
    assert min(x, default=0) >= 0 and min(y[:inequalities], default=0) >= 0
    for k, (row, value) in enumerate(rows):
        left = dot(row, x)
        assert left <= value if k < inequalities else left == value
    for j, worth in enumerate(goal):
        assert dot((row[j] for row, _ in rows), y) >= worth
    assert dot(goal, x) == found.value == dot((value for _, value in rows), y)


def _simplex(goal: list[Fraction], rows: Exact, inequalities: int) -> Optimum:
    """Two phases on integers: entries are determinants, so each division by the last pivot leaves no rest."""
    n, m = len(goal), len(rows)
    table = np.zeros((m + 1, n + 2 * m + 1), dtype=object)  # unknowns, slacks, artificial ones, right-hand side
    scale, basis = [1] * m, [0] * m
    for k, (row, value) in enumerate(rows):
        unit = lcm(*(v.denominator for v in row), value.denominator)
        scale[k] = unit = -unit if value < 0 else unit
        table[k, :n] = [int(v * unit) for v in row]
        table[k, -1] = int(value * unit)
        if k < inequalities:
            table[k, n + k] = 1 if unit > 0 else -1
        table[k, n + m + k] = 1
        basis[k] = n + k if k < inequalities and unit > 0 else n + m + k
    unit = lcm(*(v.denominator for v in goal))
    worth = np.zeros(n + 2 * m + 1, dtype=object)
    worth[:n] = [int(v * unit) for v in goal]
    artificial = [k for k in range(m) if basis[k] >= n + m]
    last = 1
    if artificial:
        table[m] = -table[artificial].sum(axis=0)
        table[m, n + m : -1] = 0
        last = _climb(table, basis, n + m, last)
        if table[m, -1] != 0:
            raise NoPoint
        for k in range(m):  # an artificial one that is left at zero gives way, unless its row says nothing
            entries = np.flatnonzero(table[k, : n + m]) if basis[k] >= n + m else ()
            if len(entries):
                if table[k, entries[0]] < 0:
                    table[k] = -table[k]
                last = _pivot(table, basis, k, int(entries[0]), last)
    table[m] = -worth * last
    for k, b in enumerate(basis):
        table[m] += worth[b] * table[k]
    last = _climb(table, basis, n + m, last)
    point = [Fraction(0)] * (n + 2 * m)
    for k, b in enumerate(basis):
        point[b] = Fraction(table[k, -1], last)
    prices = [Fraction(table[m, n + m + k] * scale[k], last * unit) for k in range(m)]
    return Optimum(Fraction(table[m, -1], last * unit), point[:n], prices)


def _climb(table: Any, basis: list[int], columns: int, last: int) -> int:
    """Pivot until no column is worth entering: the first that is goes in, so that it ends."""
    while True:
        entering = next((j for j in range(columns) if table[-1, j] < 0), None)
        if entering is None:
            return last
        leaving = None
        for k in range(len(basis)):
            if table[k, entering] > 0:
                if leaving is not None:
                    ahead = table[k, -1] * table[leaving, entering] - table[leaving, -1] * table[k, entering]
                    if ahead > 0 or (ahead == 0 and basis[k] > basis[leaving]):
                        continue
                leaving = k
        if leaving is None:
            raise NoEnd
        last = _pivot(table, basis, leaving, entering, last)


def _pivot(table: Any, basis: list[int], row: int, column: int, last: int) -> int:
    """One step; returns the pivot, which is the common denominator of the table from now on."""
    pivot, kept = table[row, column], table[row].copy()
    outer = table[:, column, None] * kept
    table *= pivot
    table -= outer
    table //= last
    table[row] = kept
    basis[row] = column
    return int(pivot)
