"""The bound of `FairnessEfficiency` outside its concave region, by tangents along the sum of shares (Proposition 7.8).

Let m be the mean and M the power mean of exponent ``q = 1 - beta`` of the shares per weight, weighted and in units of
the max-min level. Up to a constant the logarithm of the measure (Joe-Wong et al. 2013) is ``first * log M + second *
log m``, with ``first`` of the sign of beta. M is concave if q < 1 and convex if q > 1, and homogeneous of degree 1, so
it lies on one side of its gradient at any shares. Weak duality bounds that linear function by a line ``at + slope * m``
over all allocations of mean m. M is also at most m (at least, if q > 1). So no measure exceeds

    max_(m_0 <= m <= m_1)  min_k  first * log(at_k + slope_k m) + second * log m,

whose maximum is at a crossing of lines, an end, or a stationary point, all in closed form. The function of m need not
be concave, and no single tangent bounds it: hence lines, each from one concave program, and a maximum over all means
instead of a local search.

Floats: a line is raised by the rounding of its terms. The gradient is taken where the Lagrangian is largest and not at
the tasks, as errors of a solver's multipliers then enter by their squares: 90% of 200 small instances have a gap of at
most 2.0e-9 so, and of 2.6e-9 otherwise. Powers of levels near 0 overflow: levels are cut at `LEAST` of the largest, and
sums of powers taken as logarithms.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.algebra import AtLeast
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.efficiency import FairnessEfficiency, TotalIs
from fairopt.blocks.form import Form
from fairopt.blocks.model import Point
from fairopt.blocks.numbers import shares_at
from fairopt.proof.entries import Named
from fairopt.proof.lagrangian import Lagrangian
from fairopt.proof.proposal import Evidence
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import GAP_TOLERANCE, ROUNDING, TERM_ROUNDING, TINY
from fairopt.solve.form.program import Program

LEAST = 1e-100  # of the largest level: gradients are taken at levels above this, so that powers of levels are finite


class Line(NamedTuple):
    """``M <= at + slope * mean`` (or >= where q > 1)."""

    at: float
    slope: float


EVEN = Line(0.0, 1.0)  # the mean inequality


class Tangent(NamedTuple):
    """A line with its proof by weak duality: the levels at which the gradient of M is taken, in any unit, and the
    factor on the dual values of the optimum.

    ``prices`` (n_rows,) are by row of `Pairs.loads`, per whole capacity, in the units of the shares per weight.
    """

    line: Line
    levels: Float
    prices: Float
    per_dual: float


class Extreme(NamedTuple):
    """An extreme sum of shares and its gap."""

    value: float
    gap: float


class LineLagrangian(NamedTuple):
    """The Lagrangian of the powers at an optimum's multipliers, the multiplier of the fixed sum, and factors on all of
    them.

    If the multipliers are ``in_units`` of the powers, no other factors are worth trying.
    """

    lagrangian: Lagrangian
    of_sum: float
    factors: Sequence[float | None]
    in_units: bool


class PlaneOptimum(Evidence):
    """Evidence of the most even shares, at a fixed sum or at any, which also proves a line."""

    @abstractmethod
    def is_of_cut(self, cut: Program) -> bool:
        """Whether it is evidence of the program with a fixed sum, with the multipliers of the constraints there."""

    @abstractmethod
    def line_lagrangian(self, program: Program, tasks: Float, powers: Form, unit: float) -> LineLagrangian:
        """The Lagrangian at its multipliers, given the powers with shares in multiples of ``unit``."""

    def multipliers(self, names: Named, scale: float) -> dict[str, Any]:
        """Multipliers for `verify` times a scale, of its rows and kept levels; none under bounds."""
        return {}


@dataclass(frozen=True, eq=False)
class Cut:
    """An optimum of the evenness at a fixed sum, or at any: its program, tasks by pair, and evidence."""

    program: Program
    tasks: Float
    optimum: PlaneOptimum

    @cached_property
    def tangent(self) -> Tangent | None:
        """`tangent_of` these, computed once for the search, the gate and the file: a third of a search's time."""
        return tangent_of(self.program, self.optimum, self.tasks)


def mean_of(objective: FairnessEfficiency, point: Point) -> float:
    """The weighted mean of the shares per weight, in units of the max-min level."""
    return float(point.share(objective.share).sum() / (point.weights.sum() * point.level(objective.share)))


def log_measure(objective: FairnessEfficiency, point: Point) -> float:
    """The logarithm of the measure up to a constant: ``first * log M + second * log m``."""
    first, second = objective.exponents
    w = point.weights / point.weights.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = point.share(objective.share) / (point.weights * point.level(objective.share))
        value = first * log_mean(levels, w, 1 - objective.beta) + second * np.log(levels @ w)
    return float(value) if value == value else -np.inf


def log_mean(levels: Float, w: Float, q: float) -> float:
    """The logarithm of the power mean of exponent q; NaN or minus infinity if a level of zero decides it."""
    powers = q * np.log(levels) + np.log(w)
    top = powers.max()  # so that the largest exponential is 1
    return float((top + np.log(np.exp(powers - top).sum())) / q)


@np.errstate(all="ignore")
def tangent_of(program: Program, evidence: PlaneOptimum, tasks: Float) -> Tangent | None:
    """The line that an optimum's multipliers prove, at a fixed sum of shares or at any; None if there is none."""
    point, share = program.point(tasks), program.term.share
    total = fixed_sum(program)
    majorant = program.objective.majorant(point)
    assert majorant is not None
    (term,) = majorant.curves
    sign = -1.0 if (term.factor < 0).any() else 1.0
    q, w = 1.0 - term.alpha, np.abs(term.factor)
    levels = shares_at(term.c, point)
    unit = np.exp(log_mean(np.maximum(levels, LEAST * levels.max()), w, q))  # so that powers do not overflow
    term = replace(term, c=term.c / unit)
    powers = Form(curves=(term,))
    optimum = evidence.line_lagrangian(program, tasks, powers, unit)
    lagrangian = optimum.lagrangian
    multipliers = lagrangian.multipliers
    best = None
    for factor in (*optimum.factors, 0.0):
        if factor is None or (factor == 0.0 and best is not None and optimum.in_units):
            continue
        # the gradient of M at the maximiser of the Lagrangian, where errors of multipliers enter by their square only
        at = levels / unit if multipliers.extra else lagrangian.levels(factor)
        at = np.maximum(at, LEAST * at.max())
        mean_at = log_mean(at, w, q)
        # dM/dz_j = w_j (z_j / M)^(q - 1), of homogeneity 0: levels in any unit
        gradient = term.factor * np.exp((q - 1.0) * (np.log(at) - mean_at))
        # Box-Cox of exponent 1 is z - 1, hence the constant
        linear = Form(curves=(replace(term, factor=gradient, alpha=0.0),), constant=float(gradient.sum()))
        factor *= np.exp((1.0 - q) * mean_at)
        top = Lagrangian(program, linear, multipliers, point)(factor)
        if top == top and (best is None or top < best[0]):
            best = top, factor, at, TERM_ROUNDING * float(np.abs(gradient).sum())
    if best is None:
        return None
    top, factor, at, slack = best
    rise = factor * optimum.of_sum  # the derivative of the bound by the right-hand side of the sum
    slack += TERM_ROUNDING * (abs(top) + 2 * abs(rise))
    mean = 1.0 if total is None else total / (point.weights.sum() * point.level(share) * unit)
    line = Line(sign * unit * (top - rise + slack), sign * rise / mean)
    per_dual = factor * unit * point.level(share)
    return Tangent(line, at, multipliers.prices * per_dual, per_dual) if np.isfinite(line).all() else None


@dataclass(frozen=True)
class Ceiling:
    """The smallest of the bounds of all lines, over means from ``low`` to ``high``."""

    objective: FairnessEfficiency
    lines: Sequence[Line]
    low: float
    high: float

    @np.errstate(all="ignore")
    def highest(self) -> tuple[float, float]:
        """The maximum of the ceiling, and the mean at which it is."""
        first, second = self.objective.exponents
        at, rise = np.array([EVEN, *self.lines]).T
        crossings = -(at[:, None] - at) / (rise[:, None] - rise)  # NaN and infinite of parallel lines: left out below
        turns = -second * at / (rise * (first + second))  # where first * rise / (at + rise m) + second / m = 0
        tried = np.concatenate([[self.low, self.high], crossings.ravel(), turns])
        tried = np.unique(np.clip(tried[np.isfinite(tried)], self.low, self.high))
        means = at[:, None] + np.outer(rise, tried)
        best = means.min(axis=0) if first > 0 else means.max(axis=0)
        none = -np.inf  # no allocation has such a mean
        top = np.where(best > 0, first * np.log(np.where(best > 0, best, 1.0)), none) + second * np.log(tried)
        k = int(np.argmax(top))
        return float(top[k]), float(tried[k])


def ceiling(
    objective: FairnessEfficiency, lines: Sequence[Line], value: float, largest: float, smallest: float = 0.0
) -> Ceiling:
    """The ceiling over the possible means at which the mean inequality allows more than a value."""
    low = smallest
    if value > -np.inf:
        if objective.emphasis > 0:
            low = max(low, float(np.exp(min(value / objective.emphasis, np.log(largest)))))
        elif value >= -TERM_ROUNDING:  # without emphasis, equal shares are the most even: no other mean is better
            low = largest
    return Ceiling(objective, lines, min(max(low, TINY), largest), largest)


def fixed_sum(program: Program) -> float | None:
    """The sum of shares that a program requires, if any."""
    return next((block.level for block in program.constraints if isinstance(block, TotalIs)), None)


def gap_of(program: Program, lines: Sequence[Line], tasks: Float, largest: Extreme, smallest: Extreme | None) -> float:
    """The gap of the logarithm of the measure at tasks by pair, from lines and the extreme sums of shares."""
    measure, point = program.term.measure, program.point(tasks)
    value = log_measure(measure, point)
    low, high = extremes(program, point, largest, smallest)
    if not np.isfinite(high) or not low <= high:
        return np.inf
    top, _ = ceiling(measure, lines, value, high, low).highest()
    # of logarithms of sums near 1, times the exponents; near beta = 0 the first of these is large
    rounding = 4 * TERM_ROUNDING * (1 / abs(measure.beta) + abs(measure.exponents[1]))
    return max(top - value, 0.0) + rounding if np.isfinite(value) and top == top else np.inf


def extremes(program: Program, point: Point, largest: Extreme, smallest: Extreme | None) -> tuple[float, float]:
    """Proven bounds on the means that can be optimal, in units of the max-min level."""
    unit = point.weights.sum() * point.level(program.term.share)
    # an extreme sum that is not certified bounds nothing
    high = largest.value / (1.0 - largest.gap) / unit if largest.gap <= GAP_TOLERANCE else np.inf
    low = 0.0
    if smallest is not None and smallest.gap <= GAP_TOLERANCE:
        low = max((1.0 - smallest.value) * (1.0 - smallest.gap), 0.0)
    # With little emphasis the measure hardly depends on the mean, and near 0 no line is below the best measure: without
    # this bound emphases of 1e-2 under `EqualShares` are refused.
    if all(_lets_grow(program, block) for block in program.rest):
        low = max(low, _of_full_use(program) / unit)  # the measure does not fall while all shares grow by one factor
    return low, high


def _lets_grow(program: Program, block: Constraint) -> bool:
    """Whether a satisfied constraint stays satisfied as all tasks grow by one factor, until a row is at its limit."""
    rows = program.rows_of(block)
    if rows is None:
        return isinstance(block, AtLeast) and block.objective.is_known
    return not any(one.rows.equal and one.rows.right.any() for one in rows)


def _of_full_use(program: Program) -> float:
    """A lower bound on the sum of shares where a capacity is full, a row tight, or a user at its limit."""
    pairs, c = program.pairs, program.term.share.coefficients(program.instance)
    share = pairs.of(c)
    full = [(pairs.loads, program.usable_rows), *((one.rows.per_task, one.rows.right) for one in program.rows.further)]
    least = float((pairs.min(share) * program.high).min())
    for table, limits in full:
        loads = sp.coo_array(table)
        some = (loads.data > 0) & (limits[loads.row] > 0)
        least = min(least, float((share[loads.col] / loads.data * limits[loads.row])[some].min(initial=np.inf)))
    return least * (1 - ROUNDING)  # a row counts as full where floats cannot tell
