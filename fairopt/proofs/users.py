"""Sums of one concave function per user on one pool: the bound by weak duality, at tangents.

A concave function lies below its tangent at any point. So with tangents at what users would run at prices p no
allocation is worth more than the tangents and what capacities cost allow, user by user over its range: the bound of
`lagrangian`. At the optimum the slope of a user's tangent is the price of a task, and nothing is lost. The derivatives
of blocks of the user's own that methods use are not trusted: tangents of such blocks are those of their CVXPY
expressions, if these are concave.
"""

from __future__ import annotations

import numpy as np

from fairopt.blocks.algebra import in_units, written
from fairopt.blocks.base import is_ours
from fairopt.blocks.majorant import Majorant
from fairopt.formulation.program import ConeModel, Float, Program
from fairopt.lazy import cp
from fairopt.proofs import conditions
from fairopt.proofs.cone_programs import Bounded
from fairopt.proofs.evidence import UserPrices
from fairopt.proofs.lagrangian import EPS, Lagrangian, Multipliers


def judge_user_prices(program: Program, evidence: UserPrices, near: Float, tasks: Float) -> Bounded:
    """Bound how much better than the tasks any others can be; ``near`` are tasks close to those wanted at prices."""
    objective, prices = program.objective, np.maximum(evidence.prices, 0.0)
    marginal = program.marginal
    short = conditions.bounds_violation(program, tasks)
    if marginal is None:
        return Bounded(np.inf, short, None)
    at = marginal.response(prices @ program.pairs.loads, program.low, program.most, near)
    touched = _tangent(program, np.where(at > 0, at, near))
    if touched is None:
        return Bounded(np.inf, short, prices)
    majorant, worth = touched
    charged = Multipliers(prices, -worth, size=np.abs(worth))
    point = program.point(tasks)
    value = objective.value(point)
    top = Lagrangian(program, majorant, charged, point)(1.0)
    gap = in_units(top - value, objective.unit(point), value) if np.isfinite(top) else np.inf
    return Bounded(gap, short, prices)


def _tangent(program: Program, at: Float) -> tuple[Majorant, Float] | None:
    """The tangent of the objective: a constant, rounded up, and slopes (n_users,); None where it has none."""
    cone: ConeModel | None = None
    value, size, worth = 0.0, 0.0, np.zeros(len(at))
    point = program.point(at)
    for factor, term in program.objective.terms():
        if factor == 0:
            continue
        if is_ours(term):
            marginal = term.by_user(program.instance)
            if marginal is None:
                return None
            slope, here = marginal.slope(at), term.value(point)
        else:
            cone = cone or ConeModel(program)
            expression = cp.sum(written(term, cone.model))
            alone = not cone.model.required and all(v.id == cone.unknowns.id for v in expression.variables())
            found = conditions.tangent(cone, expression, at) if alone and expression.is_concave() else None
            if found is None:
                return None
            slope, here = found[1], found[0].constant + float(found[1] @ at)
        value, worth = value + factor * here, worth + factor * slope
        size += factor * (abs(here) + float(np.abs(slope) @ at))
    if not np.isfinite(size):
        return None
    return Majorant(constant=value - float(worth @ at) + EPS * size), worth
