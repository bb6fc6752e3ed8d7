"""Sums of one concave function per user: the bound by weak duality, at tangents.

For any prices p >= 0, tasks y > 0 and supergradient d of ``f = sum_j f_j`` at y (Bound 4.11, docs/methods/pool.md)

    f(x)  <=  f(y) - d'y + p'r + sum_j max_(low_j <= t <= most_j) (d_j - pi_j) t.

A concave function lies below its tangents. y are the users' best responses to p and not the answer: there d_j = pi_j
for users between their bounds, so that this is the dual function itself, and errors of p enter by their squares. At the
answer they enter as they are: gaps of 200 small sums on servers were then up to 1e-6, and are 8e-9. On several servers
each user pays at its cheapest one, in chunks of users.

Derivatives that user-defined blocks return are not trusted: best responses may be computed with them, but tangents are
those of their CVXPY expressions, if these are concave and have no variables of their own. Floats: value and slopes of
the tangent cancel, ``f(y) - d'y``; its rounding is counted by the terms' sizes.
"""

from __future__ import annotations

import numpy as np

from fairopt.blocks.algebra import in_units
from fairopt.blocks.form import Form
from fairopt.blocks.written_values import without_constants
from fairopt.proof import feasibility as conditions
from fairopt.proof.bound import best_response, rounded_up_sum
from fairopt.proof.lagrangian import Lagrangian, Multipliers
from fairopt.proof.server_bounds import RowUnits
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp
from fairopt.runtime.tolerances import TERM_ROUNDING
from fairopt.solve.form.program import ConeModel, Program


def judge_user_prices(program: Program, prices: Float, near: Float, tasks: Float) -> tuple[float, Float | None]:
    """The gap of tasks by prices by row, and the prices; ``near`` are tasks close to the best responses."""
    prices = np.maximum(prices, 0.0)
    marginal = program.marginal
    if marginal is None:
        return np.inf, None
    at = marginal.response(prices @ program.pairs.loads, program.low, program.most, near)
    tangent = _tangent(program, np.where(at > 0, at, near))  # a power has no tangent at 0
    if tangent is None:
        return np.inf, prices
    majorant, slopes = tangent
    charged = Multipliers(prices, -slopes, size=np.abs(slopes))  # slopes are negative costs of pairs
    return _gap(program, tasks, Lagrangian(program, majorant, charged, program.point(tasks))(1.0)), prices


def judge_row_prices(units: RowUnits, prices: Float, near: Float, tasks: Float) -> tuple[float, Float]:
    """The same on several servers, with ``near`` of shape (n_users, n_servers), in chunks of users."""
    program = units.program
    marginal, demands, per_level = program.marginal, units.demands, units.per_level
    prices = np.where(units.needed, np.maximum(prices, 0.0), 0.0)
    by_row = prices.T.ravel()
    total = near.sum(axis=1)
    assert marginal is not None
    at = marginal.response(demands.cheapest(prices) / per_level[:, 0], program.low, program.most, total)
    part = np.where(at > 0, at / total, 1.0)  # a response has a total; it is divided among servers as the answer is
    tangent = _tangent(program, (near * part[:, None])[program.pairs.user, program.pairs.server])
    if tangent is None:
        return np.inf, by_row
    majorant, slopes = tangent
    by_user = len(slopes) == demands.n_users
    table = slopes[:, None] if by_user else program.pairs.table(slopes)
    net = np.empty(demands.n_users)  # cost less slope at the cheapest server, the only thing kept of a chunk
    for users in demands.chunks():
        cost = demands.costs(prices, users) / per_level[users]
        cost -= table[users] + TERM_ROUNDING * (cost + np.abs(table[users]))  # rounded down
        net[users] = cost.min(axis=1)
    limit = (1.0 + TERM_ROUNDING) * float((units.usable * prices).sum())  # p'r, of nonnegative terms
    top = rounded_up_sum(best_response(net, [], program.low, program.most), majorant.constant + limit)
    return _gap(program, tasks, top), by_row


def _gap(program: Program, tasks: Float, top: float) -> float:
    """The gap between a bound and the tasks."""
    if not np.isfinite(top):
        return np.inf
    point = program.point(tasks)
    return in_units(top - program.objective.value(point), *program.objective.units(point))


def _tangent(program: Program, at: Float) -> tuple[Form, Float] | None:
    """The tangent of the objective at tasks by pair: a constant, rounded up, and slopes; None if there is none.

    Slopes are by user if all blocks are fairopt's, otherwise by pair.
    """
    cone: ConeModel | None = None
    point, pairs = program.point(at), program.pairs
    tasks = point.tasks
    value, size, slopes = 0.0, 0.0, np.zeros(len(tasks))
    for term in program.objective.terms():
        factor, kind = term.factor, term.kind
        if kind.is_known:
            marginal = kind.marginal(term.share, program.instance)
            if marginal is None:
                return None
            slope, here = marginal.slope(tasks), kind.value(term.share, point)
            size += factor * (abs(here) + float(np.abs(slope) @ tasks))
        else:
            cone = cone or ConeModel(program)
            expression, _ = without_constants(cp.sum(kind.expression(term.share, cone.model)))
            alone = not cone.model.required and all(v.id == cone.unknowns.id for v in expression.variables())
            at_point = conditions.tangent(cone, expression, at) if alone and expression.is_concave() else None
            if at_point is None:
                return None
            slope, here = at_point[1], at_point[0].constant + float(at_point[1] @ at)
            size += factor * (abs(here) + float(np.abs(slope) @ at))
        # one slope per user while all blocks are ours: by pair there are as many times more as servers
        if len(slope) > len(slopes):
            slopes = slopes[pairs.user]
        elif len(slope) < len(slopes):
            slope = slope[pairs.user]
        value, slopes = value + factor * here, slopes + factor * slope
    if not np.isfinite(size):
        return None
    tangent = float(slopes @ (tasks if len(slopes) == len(tasks) else at))
    return Form(constant=value - tangent + TERM_ROUNDING * size), slopes
