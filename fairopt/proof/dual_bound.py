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

from dataclasses import dataclass

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
    """A bound in the units of the majorant, the gap, and the factor on the multipliers."""

    value: float
    gap: float
    factor: float


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

    If the multipliers are not in ``natural`` units, because an increasing transform was solved, a common factor is
    fitted first, from ``start`` if given. With ``refine`` a better factor is searched for unless the gap is small
    already, or stays large.
    """
    point = program.point(tasks) if point is None else point
    value = majorant.value(point)
    lagrangian = lagrangian_at(program, majorant, multipliers, point)
    candidates = [1.0] if natural else [start] if start else []
    if majorant.ranked:
        candidates.append(0.0)  # no resource is scarce: the smallest levels are at their limits
    # also in natural units, where it hardly matters: medians of gaps are 2.0e-12 and 2.5e-12
    fitted = lagrangian.fitted_factor()
    if fitted is not None:
        candidates.append(fitted)
    if not candidates:
        candidates.append(1.0)
    best = LagrangianBound(np.inf, np.inf, 1.0)
    for factor in candidates:
        top = lagrangian(factor)
        gap = _relative_gap(objective, top, value, point)
        if (gap, top) < (best.gap, best.value) or not np.isfinite(best.gap):  # the lower bound where gaps are equal
            best = LagrangianBound(top, gap, factor)
    for width, near in SEARCHES if refine and best.factor > 0 else ():
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
            best = LagrangianBound(float(nearest.fun), gap, float(best.factor * np.exp(nearest.x)))
    unproved = not best.gap <= GAP_TOLERANCE and objective.value(point) == value == 0.0
    if unproved and (_is_rounding(program, majorant, best.value) or _allows_nothing(program, majorant, multipliers)):
        return LagrangianBound(0.0, 0.0, best.factor)
    return LagrangianBound(best.value, max(float(best.gap), 0.0) if np.isfinite(best.gap) else np.inf, best.factor)


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
