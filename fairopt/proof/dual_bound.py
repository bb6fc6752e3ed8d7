"""The gap by weak duality at given multipliers, with the factor on them that fits best.

With L(y) the Lagrangian bound (`fairopt.proof.lagrangian`, Bound 7.1 in docs/methods/cone.md) at multipliers y,

    max_x f(x)  <=  min_(t >= 0) L(t y).

Any multipliers give a bound, and so does any multiple t of them. A solver that maximised an increasing function of the
objective, such as the logarithm of a power mean, leaves multipliers in other units. The derivative of that function is
known to a few digits only, so t is fitted: to marginal utilities of users between their bounds, and then, as L is
convex in t, by a search. Any t is valid, so that a search that ends early costs digits and no proof.

At a value of 0 a relative gap says nothing. It is certified where the bound is rounding of what users could have alone,
or where rows with right-hand side 0 leave no tasks (Proposition 9.4). A bound that is small because other rows allow
very little is no proof: 1e-16 of what servers hold may be the optimum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fairopt.blocks.form import Form
from fairopt.blocks.model import Point
from fairopt.blocks.numbers import shares_at
from fairopt.blocks.objectives import Objective
from fairopt.blocks.shares import best_server
from fairopt.proof.lagrangian import Lagrangian, Multipliers
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import optimize
from fairopt.runtime.tolerances import GAP_TOLERANCE, ROUNDING
from fairopt.solve.form.program import Program

ENOUGH = 0.8 * GAP_TOLERANCE  # below it no better factor is searched for; the rest is for the rounding of readers
CLOSE = 1e-8  # of a method's prices: below it no other factor is tried
FAR = 0.1  # a gap after the first search that no second one closes
# Logarithms of factors on the best so far: how far, and to within what. Rarely needed: of 800 small programs of sums,
# ordered weights and teams, with limits or `EnvyFree`, by HiGHS, CLARABEL and SCS, the first factor proved all.
SEARCHES = ((0.5, 1e-3), (2e-3, 1e-10))


def lagrangian_at(program: Program, majorant: Form, multipliers: Multipliers, point: Point) -> Lagrangian:
    """The Lagrangian bound of an objective, of users' shares or of other numbers."""
    if all(form.of_users for form in (majorant, *(extra for extra, _ in multipliers.extra))):
        return Lagrangian(program, majorant, multipliers, point)
    from fairopt.proof.number_lagrangian import NumbersLagrangian

    return NumbersLagrangian(program, majorant, multipliers, point)


@dataclass(frozen=True)
class LagrangianBound:
    """A bound in the units of the majorant, the gap, the factor on the multipliers, and their Lagrangian."""

    value: float
    gap: float
    factor: float
    lagrangian: Lagrangian


@np.errstate(all="ignore")
def lagrangian_bound(
    program: Program,
    majorant: Form,
    objective: Objective,
    multipliers: Multipliers,
    tasks: Float,
    *,
    natural: bool = True,
    start: float | None = None,
    refine: bool = True,
    point: Point | None = None,
) -> LagrangianBound:
    """Bound the objective from above, and measure the gap at the tasks.

    A common factor is fitted, after ``start`` if given; none is needed if the multipliers are in ``natural`` units, and
    not those of an increasing transform. With ``refine`` a better factor is searched for unless the gap is small
    already, or stays large.
    """
    point = program.point(tasks) if point is None else point
    value = majorant.value(point)
    lagrangian = lagrangian_at(program, majorant, multipliers, point)
    best = LagrangianBound(np.inf, np.inf, 1.0, lagrangian)
    for factor in _factors(lagrangian, natural, start):
        top = lagrangian(factor)
        gap = _relative_gap(objective, top, value, point)
        if (gap, top) < (best.gap, best.value) or not np.isfinite(best.gap):  # the lower bound where gaps are equal
            best = LagrangianBound(top, gap, factor, lagrangian)
        if start and natural and best.gap <= CLOSE and not majorant.ranked:
            break
    for width, near in SEARCHES if refine and best.factor > 0 and np.isfinite(best.value) else ():
        if best.gap <= ENOUGH or (width < SEARCHES[0][0] and not best.gap <= FAR):
            break

        def at(t: float, about: float = best.factor) -> float:
            check("the proof")  # of a million users ranked, each takes a second
            return lagrangian(about * np.exp(t))

        nearest = optimize.minimize_scalar(
            at,
            bounds=(-width, width),
            method="bounded",
            options={"xatol": near},
        )
        gap = _relative_gap(objective, float(nearest.fun), value, point)
        if gap < best.gap:  # the search may end beside the best factor so far
            best = replace(best, value=float(nearest.fun), gap=gap, factor=float(best.factor * np.exp(nearest.x)))
    unproved = not best.gap <= GAP_TOLERANCE and objective.value(point) == value == 0.0
    if unproved and (_is_rounding(program, majorant, best.value) or _allows_nothing(program, majorant, multipliers)):
        return replace(best, value=0.0, gap=0.0)
    return replace(best, gap=max(float(best.gap), 0.0) if np.isfinite(best.gap) else np.inf)


def _factors(lagrangian: Lagrangian, natural: bool, start: float | None) -> Iterator[float]:
    """The factors to try before a search."""
    smallest = getattr(lagrangian, "of_smallest", None)
    if smallest is not None:
        yield smallest.factor
        return
    if natural and start:
        yield start
    fitted = lagrangian.fitted_factor()
    if fitted is not None:
        yield fitted
    if lagrangian.majorant.ranked:
        yield 0.0  # no resource is scarce: the smallest levels are at their limits
    if not natural and start:
        yield start
    elif not start and (natural or fitted is None):
        yield 1.0


def _is_rounding(program: Program, majorant: Form, top: float) -> bool:
    """Whether a bound on sorted numbers is rounding beside what each could be alone, so that they are 0."""
    if majorant.curves or majorant.constant or not majorant.ranked:
        return False
    alone = [best_server(r.c, program.instance) * program.most for r in majorant.ranked]
    sums = [a if r.numbers is None else r.numbers.above(a) for a, r in zip(alone, majorant.ranked, strict=True)]
    return top <= ROUNDING * sum(r.value(z) for r, z in zip(majorant.ranked, sums, strict=True))


def _allows_nothing(program: Program, majorant: Form, multipliers: Multipliers) -> bool:
    """Whether rows with right-hand side 0 prove that a majorant is at most its value at zero tasks, which is 0.

    Their multipliers prove ``forced @ x <= 0``, so tasks x are 0 where ``forced`` is positive, if it is nowhere
    negative. A bound that is small beside its rounding would prove nothing: the optimum may be as small.
    """
    pairs, curves = program.pairs, majorant.curves
    forced = np.broadcast_to(multipliers.forced, len(pairs))
    most = np.where(forced > 0, 0.0, program.most[pairs.user])
    if forced.min(initial=0.0) < 0 or not (curves or majorant.ranked):  # a tangent is part of the costs
        return False
    if any((pairs.of(curve.factor) * pairs.of(curve.c) * most).any() for curve in curves):
        return False
    return all(r.value(shares_at(r.c, program.point(most))) == 0 for r in majorant.ranked)


def _relative_gap(objective: Objective, top: float, value: float, point: Point) -> float:
    """The objective's own gap; 0 if the bound is reached, infinite if a number is NaN or infinite."""
    if not (np.isfinite(top) and np.isfinite(value)):
        return np.inf
    gap = 0.0 if top <= value else objective.relative_gap(top, value, point)
    return gap if np.isfinite(gap) else np.inf
