"""Sums of one concave function per user: the bound by weak duality, at tangents.

A concave function lies below its tangent at any point. So with tangents at what users would run at prices p no
allocation is worth more than the tangents and what capacities cost allow, user by user over its range: the bound of
`lagrangian`. On several servers a task costs what it costs where that is least. At the optimum the slope of a user's
tangent is the price of a task, and nothing is lost. The derivatives of blocks of the user's own that methods use are
not trusted: tangents of such blocks are those of their CVXPY expressions, if these are concave.
"""

from __future__ import annotations

import numpy as np

from fairopt.blocks.algebra import in_units
from fairopt.blocks.form import Form
from fairopt.formulation.program import ConeModel, Float, Program
from fairopt.proofs import conditions
from fairopt.proofs.bound import EPS, added, best_response
from fairopt.proofs.lagrangian import Lagrangian, Multipliers
from fairopt.proofs.servers import RowUnits
from fairopt.runtime.lazy import cp


def judge_user_prices(program: Program, prices: Float, near: Float, tasks: Float) -> tuple[float, Float | None]:
    """How much better than the tasks any others can be at most, by prices by row, and these prices.

    ``near`` are tasks close to those wanted at prices.
    """
    prices = np.maximum(prices, 0.0)
    marginal = program.marginal
    if marginal is None:
        return np.inf, None
    at = marginal.response(prices @ program.pairs.loads, program.low, program.most, near)
    touched = _tangent(program, np.where(at > 0, at, near))
    if touched is None:
        return np.inf, prices
    majorant, worth = touched
    charged = Multipliers(prices, -worth, size=np.abs(worth))
    return _gap(program, tasks, Lagrangian(program, majorant, charged, program.point(tasks))(1.0)), prices


def judge_row_prices(units: RowUnits, prices: Float, near: Float, tasks: Float) -> tuple[float, Float]:
    """The same on several servers, with ``near`` of shape (n_users, n_servers), in chunks of users."""
    program = units.program
    marginal, demands, per_level = program.marginal, units.demands, units.per_level
    prices = np.where(units.needed, np.maximum(prices, 0.0), 0.0)
    by_row = prices.T.ravel()
    held = near.sum(axis=1)
    assert marginal is not None
    at = marginal.response(demands.cheapest(prices) / per_level[:, 0], program.low, program.most, held)
    part = np.where(at > 0, at / held, 1.0)
    touched = _tangent(program, (near * part[:, None])[program.pairs.user, program.pairs.server])
    if touched is None:
        return np.inf, by_row
    majorant, worth = touched
    by_user = len(worth) == demands.n_users
    table = worth[:, None] if by_user else program.pairs.table(worth)
    net = np.empty(demands.n_users)
    for users in demands.chunks():
        cost = demands.costs(prices, users) / per_level[users]
        cost -= table[users] + EPS * (cost + np.abs(table[users]))  # rounded down
        net[users] = cost.min(axis=1)
    paid = (1.0 + EPS) * float((units.usable * prices).sum())
    top = added(best_response(net, [], program.low, program.most), majorant.constant + paid)
    return _gap(program, tasks, top), by_row


def _gap(program: Program, tasks: Float, top: float) -> float:
    """The gap that a bound leaves."""
    if not np.isfinite(top):
        return np.inf
    point = program.point(tasks)
    value = program.objective.value(point)
    return in_units(top - value, program.objective.unit(point), value)


def _tangent(program: Program, at: Float) -> tuple[Form, Float] | None:
    """The tangent of the objective at tasks by pair: a constant, rounded up, and slopes; None where it has none.

    Slopes are by pair, or by user where all blocks are ours.
    """
    cone: ConeModel | None = None
    point, pairs = program.point(at), program.pairs
    held = point.tasks
    value, size, worth = 0.0, 0.0, np.zeros(len(held))
    for term in program.objective.terms():
        factor, kind = term.factor, term.kind
        if kind.is_known:
            marginal = kind.marginal(term.share, program.instance)
            if marginal is None:
                return None
            slope, here = marginal.slope(held), kind.value(term.share, point)
            size += factor * (abs(here) + float(np.abs(slope) @ held))
        else:
            cone = cone or ConeModel(program)
            expression = cp.sum(kind.expression(term.share, cone.model))
            alone = not cone.model.required and all(v.id == cone.unknowns.id for v in expression.variables())
            found = conditions.tangent(cone, expression, at) if alone and expression.is_concave() else None
            if found is None:
                return None
            slope, here = found[1], found[0].constant + float(found[1] @ at)
            size += factor * (abs(here) + float(np.abs(slope) @ at))
        if len(slope) > len(worth):
            worth = worth[pairs.user]
        elif len(slope) < len(worth):
            slope = slope[pairs.user]
        value, worth = value + factor * here, worth + factor * slope
    if not np.isfinite(size):
        return None
    tangent = float(worth @ (held if len(worth) == len(held) else at))
    return Form(constant=value - tangent + EPS * size), worth
