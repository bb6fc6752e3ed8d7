"""Linear programs in exact fractions, and what is made of them: leximin level by level, and ordered weights.

The simplex method on a table of integers (Edmonds); of larger programs the basis at which HiGHS ends, if its point and
prices are right in fractions. Neither need be trusted: every optimum is proved by its dual, in fractions of the numbers
as given, before it is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from . import highs

LARGE = 400  # coefficients: below, HiGHS takes as long as the simplex method
STEPS = 50  # from the basis at which HiGHS ends
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
    found = _of_basis(goal, rows, len(at_most)) if len(rows) * len(goal) >= LARGE else None
    if found is not None and _proved(found, goal, rows, len(at_most)):
        return found
    found = _simplex(goal, rows, len(at_most))
    assert _proved(found, goal, rows, len(at_most))
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


def _whole(row: Sequence[Fraction]) -> tuple[list[int], int]:
    """Integers, and their common denominator: sums of their products need no greatest common divisors."""
    unit = lcm(*(v.denominator for v in row))
    return [v.numerator * (unit // v.denominator) for v in row], unit


def _rooms(rows: Exact, point: Sequence[Fraction]) -> list[int]:
    """What each row leaves at a point, in units of its own."""
    x, of_x = _whole(point)
    whole = [_whole([*row, value])[0] for row, value in rows]
    return [right * of_x - sum(a * b for a, b in zip(row, x, strict=True) if a and b) for *row, right in whole]


def _proved(found: Optimum, goal: list[Fraction], rows: Exact, inequalities: int) -> bool:
    """Primal and dual feasible, and of one value: then both are optimal, however they were found."""
    x, y = found.point, found.prices
    left = _rooms(rows, x)
    columns = [([row[j] for row, _ in rows], worth) for j, worth in enumerate(goal)]
    return (
        min([*x, *y[:inequalities], *left[:inequalities]], default=0) >= 0
        and not any(left[inequalities:])
        and max(_rooms(columns, y), default=0) <= 0
        and dot(goal, x) == found.value == dot((value for _, value in rows), y)
    )


def _of_basis(goal: list[Fraction], rows: Exact, inequalities: int) -> Optimum | None:
    """The point and the prices of the basis at which HiGHS ends, in fractions; None if it finds none.

    A table of 183 rows and 58 unknowns whose numbers are floats takes the simplex method on integers half a minute,
    the two systems of equations of its last basis 0.05 s.
    """
    matrix, values = np.array([row for row, _ in rows], dtype=float), np.array([v for _, v in rows], dtype=float)
    if not (np.isfinite(matrix).all() and np.isfinite(values).all()):
        return None
    low = np.where(np.arange(len(rows)) < inequalities, -np.inf, values)
    free = np.zeros(len(goal)), np.full(len(goal), np.inf)
    ends = highs.minimise(-np.array(goal, dtype=float), matrix, low, values, free, presolve=False)
    if ends is None or len(ends.basic) != len(ends.tight):
        return None
    columns, tight = ends.basic, ends.tight
    n, zero = len(goal), Fraction(0)
    for _ in range(STEPS):
        square = [[rows[k][0][j] for j in columns] for k in tight]
        across = [[row[i] for row in square] for i in range(len(columns))]
        at, worth = _solved(square, [rows[k][1] for k in tight]), _solved(across, [goal[j] for j in columns])
        if at is None or worth is None:
            return None
        x, y = dict(zip(columns, at, strict=True)), dict(zip(tight, worth, strict=True))
        point = [x.get(j, zero) for j in range(n)]
        left = point + _rooms(rows, point)
        broken = next((v for v in range(n + inequalities) if left[v] < 0), None)
        if broken is None:
            return Optimum(dot(goal, point), point, [y.get(k, zero) for k in range(len(rows))])
        # HiGHS forgives 1e-7. The row that is broken, or x_j >= 0, becomes an equation, at a price that grows from 0
        # until that of another one is 0, which then may be broken (a step of the dual simplex method).
        row = rows[broken - n][0] if broken >= n else [Fraction(-(j == broken)) for j in range(n)]
        fall = dict(zip(tight, _solved(across, [row[j] for j in columns]) or (), strict=True))
        ratios = [(y[k] / fall[k], n + k) for k in tight if k < inequalities and fall[k] > 0]
        for j in set(range(n)) - set(columns):
            of_rows = [rows[k][0][j] for k in tight]
            if (down := dot(of_rows, fall.values()) - row[j]) > 0:
                ratios.append(((dot(of_rows, y.values()) - goal[j]) / down, j))
        if not ratios:
            return None
        for v, comes in ((min(ratios)[1], False), (broken, True)):
            if v >= n:
                (tight.append if comes else tight.remove)(v - n)
            else:
                (columns.remove if comes else columns.append)(v)
    return None


def _solved(square: list[list[Fraction]], right: list[Fraction]) -> list[Fraction] | None:
    """The solution of a system of equations, by elimination without fractions (Bareiss); None if it has not one."""
    n = len(right)
    table = np.array([_whole([*row, v])[0] for row, v in zip(square, right, strict=True)], dtype=object)
    last = 1
    for k in range(n):
        there = np.flatnonzero(table[k:, k])
        if not len(there):
            return None
        table[[k, k + there[0]]] = table[[k + there[0], k]]
        pivot, kept = table[k, k], table[k, k:].copy()
        rest = table[k + 1 :, k:]
        table[k + 1 :, k:] = (rest * pivot - rest[:, :1] * kept) // last
        last = pivot
    found = [Fraction(0)] * n
    for k in range(n)[::-1]:
        *row, value = table[k, k:].tolist()
        found[k] = (value - dot(row[1:], found[k + 1 :])) / row[0]
    return found


def _simplex(goal: list[Fraction], rows: Exact, inequalities: int) -> Optimum:
    """Two phases on integers: entries are determinants, so each division by the last pivot leaves no rest.

    The table has a row for each variable of the basis and a column for each other one, so that it stays small where
    rows are many. Variables are unknowns, slacks and artificial ones, in this order.
    """
    n, m = len(goal), len(rows)
    turned = [k for k, (_, value) in enumerate(rows) if value < 0]
    surplus = [k for k in turned if k < inequalities]
    outside = [*range(n), *(n + k for k in surplus)]
    basis = [n + k if k < inequalities and value >= 0 else n + m + k for k, (_, value) in enumerate(rows)]
    table = np.zeros((m + 1, len(outside) + 1), dtype=object)  # the last column is the right-hand side
    scale = [1] * m
    for k, (row, value) in enumerate(rows):
        ints, scale[k] = _whole([*row, value])
        table[k, :n], table[k, -1] = ints[:-1], ints[-1]
    for k in turned:
        scale[k], table[k] = -scale[k], -table[k]
    table[surplus, range(n, n + len(surplus))] = -1
    last = 1
    artificial = [k for k in range(m) if basis[k] >= n + m]
    if artificial:
        table[m] = -table[artificial].sum(axis=0)
        last = _climb(table, basis, outside, n + m, last)
        if table[m, -1] != 0:
            raise NoPoint
        for k in range(m):  # an artificial one that is left at zero gives way, unless its row says nothing
            if basis[k] >= n + m:
                column = next((c for c, v in enumerate(outside) if v < n + m and table[k, c] != 0), None)
                if column is not None:
                    last = _pivot(table, basis, outside, k, column, last)
    ints, unit = _whole(goal)
    worth = dict(enumerate(ints))
    table[m] = [*(-worth.get(v, 0) * last for v in outside), 0]
    for k, b in enumerate(basis):
        if worth.get(b):
            table[m] += worth[b] * table[k]
    last = _climb(table, basis, outside, n + m, last)
    point = dict(zip(basis, (Fraction(v, last) for v in table[:m, -1]), strict=True))
    reduced = dict(zip(outside, (Fraction(v, last * unit) for v in table[m, :-1]), strict=True))
    # the price of a row is the reduced cost of its slack, or of its artificial variable, in the row's units
    prices = [
        reduced.get(n + k, Fraction(0)) * abs(scale[k])
        if k < inequalities
        else reduced.get(n + m + k, Fraction(0)) * scale[k]
        for k in range(m)
    ]
    return Optimum(Fraction(table[m, -1], last * unit), [point.get(j, Fraction(0)) for j in range(n)], prices)


def _climb(table: Any, basis: list[int], outside: list[int], free: int, last: int) -> int:
    """Pivot until no variable below ``free`` is worth entering: the one whose reduced cost is least goes in, or, where
    that may move nothing, the first (Bland), so that it ends.
    """
    stalled = False
    while True:
        entering = [c for c, v in enumerate(outside) if v < free and table[-1, c] < 0]
        if not entering:
            return last
        column = min(entering, key=(lambda c: outside[c]) if stalled else (lambda c: table[-1, c]))
        leaving = None
        for k in range(len(basis)):
            if table[k, column] > 0:
                if leaving is not None:
                    ahead = table[k, -1] * table[leaving, column] - table[leaving, -1] * table[k, column]
                    if ahead > 0 or (ahead == 0 and basis[k] > basis[leaving]):
                        continue
                leaving = k
        if leaving is None:
            raise NoEnd
        stalled = table[leaving, -1] == 0
        last = _pivot(table, basis, outside, leaving, column, last)


def _pivot(table: Any, basis: list[int], outside: list[int], row: int, column: int, last: int) -> int:
    """One step; returns the pivot, which is the common denominator of the table from now on."""
    sign = 1 if table[row, column] > 0 else -1  # an artificial variable at zero may leave by either
    kept, entering = table[row] * sign, table[:, column].copy()
    pivot, kept[column] = kept[column], last * sign
    table[:, column] = 0  # from now on the column is that of the variable that leaves
    table *= pivot
    table -= entering[:, None] * kept
    table //= last
    table[row] = kept
    basis[row], outside[column] = outside[column], basis[row]
    return int(pivot)
