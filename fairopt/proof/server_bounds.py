"""Alpha-fairness and max-min on several servers: the bound by weak duality at prices per server and resource.

With ``k_js = sum_i G_jsi p_si``, ``v_j = min_s k_js`` and P the worth of all capacities, every allocation has ``sum_j
w_j u(z_j) <= P + sum_j max_z (w_j u(z) - v_j z)``, and ``min_j z_j <= P / sum_j v_j``. Limits on users whose shares
differ by server add multipliers: with a_js the part of the limit that a unit of level uses on server s,

    nu_j = max_s (h_j - k_js)+ / a_js,    min_j z_j  <=  (P + sum_j nu_j) / sum_j h_j    for any h_j >= v_j,

and the tightest h_j is on the lower convex hull of the points (a_js, k_js) (Propositions 5.1, 5.11 and 5.16,
docs/methods/servers.md). A user walks along it to servers that cost more and use less of its limit, at most once
through all servers.

This is the bound of `lagrangian` with each user at its cheapest server, in chunks of users instead of a matrix of
pairs. Floats: levels are in units of about the max-min level, prices of max-min relative to the largest, whose size is
arbitrary, and those of alpha-fairness logarithms. Repair scales a server down to 1 - 1e-13 of it, more than what sums
over users differ by. Users whom that leaves below a lower bound are raised again, from what is free and from users
above theirs (`_lifted`); 200 small instances with lower bounds were certified without that too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairopt.blocks.form import ratio_gap
from fairopt.blocks.model import Point
from fairopt.proof.bound import fair_gap
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import ROUNDING, TERM_ROUNDING
from fairopt.solve.form.demands_at_prices import cheapest_of, demands_of
from fairopt.solve.form.program import Program

NEAR = 1e-6  # of a lower bound: users that near to it are not lowered
# On the piecewise linear bound of max-min under limits, from the value at the answer: the first proved 200 small
# instances with rates, as that value is near the optimum.
NEWTON_STEPS = 3
FLOOR_STEPS = 100  # on the same under lower bounds, where a step is one sum: 2 were too few for 5 of 200 instances


class RowUnits:
    """A program of several servers in multiples of users' approximate tasks, with the usable server rows.

    ``per_level`` (n_users, 1) or (n_users, n_servers) are tasks per unit of level. ``limits``, ``reach`` and ``floors``
    (n_users,) are levels at the task limits, upper bounds on levels, and levels at the lower bounds. If tasks' levels
    differ by server, ``limit_use`` (n_users, n_servers) is the part of the user's limit that a unit of level uses, 0
    without a limit; otherwise None.
    """

    def __init__(self, program: Program, per_level: Float) -> None:
        self.program, self.per_level = program, per_level
        self.limit_use: Float | None = None
        instance = program.instance
        self.eligible = instance.eligible
        closed = program.usable <= 0
        if closed.any():
            self.eligible = self.eligible & ~(instance.per_server_demands[:, :, closed] > 0).any(axis=2)
        self.demands = demands_of(instance.demands, program.whole_capacities, self.per_level, self.eligible)
        self.needed = self.demands.all_loads(self.eligible.astype(float)) > 0
        self.usable = np.where(self.needed, program.usable[:, None], 1.0)  # else 0 / 0 where nobody needs a resource
        self.limits, self.reach = program.high / self.per_level[:, 0], program.most / self.per_level[:, 0]
        self.floors = program.low / self.per_level[:, 0]


class LevelUnits(RowUnits):
    """A program of one share in levels: share per weight, in multiples of about the max-min level.

    ``unit`` is the level 1 in shares per weight; ``limits`` are those on the best server. If shares differ by server,
    ``floors`` are 0, since the bounds hold without them.
    """

    def __init__(self, program: Program) -> None:
        instance = program.instance
        share = program.term.share
        c = share.coefficients(instance)
        self.unit = Point(instance, np.zeros((0, 0))).level(share)
        c = np.where(instance.eligible, c, 1.0) if c.ndim == 2 else c[:, None]
        super().__init__(program, instance.weights[:, None] * self.unit / c)
        if c.shape[1] > 1:
            self.floors = np.zeros(len(c))
            self.limits = np.where(self.eligible, program.high[:, None] / self.per_level, 0.0).max(axis=1)
            alone = (instance.derived.tasks_alone_within(program.usable) / self.per_level).sum(axis=1)
            self.reach = np.minimum(alone, self.limits)
            if np.isfinite(program.high).any():
                self.limit_use = np.where(self.eligible, self.per_level, 0.0) / program.high[:, None]

    def along_hull(
        self, prices: Float, target: float, users: slice, weights: Float | None = None, alpha: float = 1.0
    ) -> tuple[Float, Float]:
        """Marginal utilities of level of a chunk's users at prices, and costs by server (Proposition 5.11).

        Servers lie on the lower convex hull of cost by ``limit_use``.

        Users move to servers that cost more and use less of their limit, until the limit is enough for the ``target``,
        or with ``weights`` for ``(w / marginal)^(1 / alpha)``.
        """
        costs = self.demands.costs(prices, users)
        marginal, server = cheapest_of(costs)
        if self.limit_use is None:
            return marginal, costs
        least, limit_use, eligible = marginal.copy(), self.limit_use[users], self.eligible[users]
        w = None if weights is None else weights[users]
        at: Any = slice(None)
        for _ in range(self.demands.n_servers):
            here = server[at]
            used = np.choose(here, limit_use.T) if isinstance(at, slice) else limit_use[at, here]
            # the level that the user would have at this marginal utility; what it uses of the limit there
            wanted = target if w is None else (w[at] / marginal[at]) ** (1.0 / alpha)
            moves = np.flatnonzero(wanted * used > 1.0 + ROUNDING)
            if not len(moves):
                break
            at, here, used = moves if isinstance(at, slice) else at[moves], here[moves], used[moves]
            cost, others = costs[at, here][:, None], limit_use[at]
            fewer = others - used[:, None]
            slopes = np.divide(
                cost * others - costs[at] * used[:, None],
                fewer,
                out=np.full_like(fewer, np.inf),
                where=(fewer < 0) & eligible[at],
            )
            # the level at which two servers cost the same; the lowest is the next edge of the hull
            slope, there = cheapest_of(slopes)
            enough = np.inf if w is None else w[at] * used**alpha  # where the limit is just enough on this server
            step = np.minimum(slope, enough)
            marginal[at] = np.where(step < np.inf, step, marginal[at])  # else no server uses less of the limit
            passed = slope < enough
            at = at[passed]
            server[at] = there[passed]
        # rounding might lower it below the cheapest server, where the bound does not hold
        return np.maximum(marginal, least), costs

    def marginal_utilities(
        self, prices: Float, target: float, weights: Float | None = None, alpha: float = 1.0
    ) -> tuple[Float, Float]:
        """Each user's marginal utility h of level and the multiplier of its limit at prices, both of shape (n_users,).

        The multiplier is ``max_s (h - cost_s)+ / limit_use_s``, at which no server costs less than h. Any h gives a
        bound, and that of `along_hull` the smallest.
        """
        if self.limit_use is None:
            return self.demands.cheapest(prices), np.zeros(self.demands.n_users)
        marginals, multipliers = np.empty(self.demands.n_users), np.zeros(self.demands.n_users)
        for users in self.demands.chunks():
            (marginal, costs), limit_use = self.along_hull(prices, target, users, weights, alpha), self.limit_use[users]
            marginals[users] = marginal
            for s in range(self.demands.n_servers):
                multiplier = np.maximum(marginal - costs[:, s], 0.0) / np.where(
                    limit_use[:, s] > 0, limit_use[:, s], np.inf
                )
                np.maximum(multipliers[users], multiplier, out=multipliers[users])
        return marginals, multipliers


def of_level(program: Program) -> bool:
    """Whether prices are of levels of one share: for alpha-fairness and the smallest share per weight."""
    return program.term.is_curved or (program.term.is_smallest and not program.term.is_order)


def units_of(program: Program) -> RowUnits:
    """The units of a program: levels, or tasks if the objective is not of one share."""
    return LevelUnits(program) if of_level(program) else RowUnits(program, program.size[:, None])


def repaired(units: RowUnits, tasks: Float) -> Float:
    """Tasks (n_users, n_servers) scaled to capacities and limits, and raised to lower bounds if possible."""
    program, tasks = units.program, np.maximum(tasks, 0.0)
    load = (units.demands.all_loads(tasks / units.per_level) / units.usable).max(axis=0)
    scale = np.where(load > 1 - 5e-14, (1 - 1e-13) / load, 1.0)  # below 1 by more than the rounding of sums
    tasks = tasks * np.where(units.eligible, scale, 0.0)
    total = tasks.sum(axis=1)
    tasks *= np.where(total >= program.high, program.high * (1 - 1e-15) / total, 1.0)[:, None]  # as a sum may round up
    return _lifted(units, tasks) if units.floors.any() else tasks


def _lifted(units: RowUnits, tasks: Float) -> Float:
    """Tasks raised to lower bounds, using free capacity and that of users above their own bounds."""
    program, total = units.program, tasks.sum(axis=1)
    short = np.flatnonzero(total < program.low)
    if not len(short):
        return tasks
    above = (total > program.low * (1 + NEAR))[:, None]

    def left_for_others(tasks: Float) -> Float:
        """The capacities left for users above their bounds."""
        load: Float = units.demands.all_loads(np.where(above, 0.0, tasks / units.per_level))
        return units.usable * (1 - 5e-14) - load

    # each short user gets the same part of all that it could run in what is left, which others of them may need too
    room = np.maximum(left_for_others(tasks), 0.0).T * program.whole_capacities
    demands = program.instance.per_server_demands[short]
    fits = np.divide(room, demands, out=np.full(demands.shape, np.inf), where=demands > 0).min(axis=2)
    fits *= units.eligible[short]
    raised = tasks.copy()
    raised[short] += fits * ((program.low[short] * (1 + 1e-15) - total[short]) / fits.sum(axis=1))[:, None]
    loads, left = units.demands.all_loads(np.where(above, tasks / units.per_level, 0.0)), left_for_others(raised)
    part = np.where(left >= 0, np.where(loads > left, left / loads, 1.0), -1.0).min(axis=0)
    if not (part[raised[short].sum(axis=0) > 0] >= 0).all():  # they do not fit
        return tasks
    return np.where(above, tasks * np.clip(part, 0.0, 1.0), raised)


def judge_row_prices(units: LevelUnits, prices: Float, tasks: Float) -> tuple[float, Float]:
    """Gap, and prices (n_resources, n_servers) per whole capacity in natural units of the objective."""
    prices = np.where(units.needed, np.maximum(prices, 0.0), 0.0)
    point = Point(units.program.instance, tasks)
    gap, natural = (_fair_gap if units.program.term.is_curved else _max_min_gap)(units, prices, point)
    return max(gap, 0.0) if np.isfinite(gap) else np.inf, natural


def _max_min_gap(units: LevelUnits, prices: Float, point: Point) -> tuple[float, Float]:
    """The gap of the smallest level, at most ``(sum_si p_si u_si + sum_j multiplier_j) / sum_j h_j`` (Proposition
    5.11).
    """
    term, limit = units.program.term, float(units.limits.min())
    value, prices = term.kind.value(term.share, point), prices / prices.max()  # costs of large prices would overflow
    bound, marginals = best_max_min_bound(units, prices, value)
    natural = prices * (term.factor * units.unit / marginals.sum()) if bound < limit else np.zeros_like(prices)
    return ratio_gap(units.unit * min(bound, limit), value), natural


def best_max_min_bound(units: LevelUnits, prices: Float, value: float) -> tuple[float, Float]:
    """The smallest bound on the smallest level in units, near ``value``, and users' marginal utilities there."""
    if units.floors.any():
        return _above_floors(units, prices)
    best: tuple[float, Float] = np.inf, np.ones(units.demands.n_users)
    target = value / units.unit
    for _ in range(1 if units.limit_use is None else NEWTON_STEPS):
        marginals, multipliers = units.marginal_utilities(prices, target)
        target = float(((units.usable * prices).sum() + multipliers.sum()) / marginals.sum())  # NaN at zero prices
        if target < best[0]:
            best = target, marginals
    return best


def _above_floors(units: LevelUnits, prices: Float) -> tuple[float, Float]:
    """The same with lower bounds l_j: the level Z with ``sum_j h_j max(Z, l_j) = sum_si p_si u_si``.

    Users whose lower bounds exceed Z have no marginal utility of it, and their cost is fixed. This is Newton's method
    from above: the left side is convex in Z, and any set of such users gives a bound.
    """
    marginals, limit, floors = units.demands.cheapest(prices), float((units.usable * prices).sum()), units.floors
    best, counts = (np.inf, np.ones(len(floors))), marginals
    for _ in range(FLOOR_STEPS):
        given = float((marginals - counts) @ floors)  # the cost of those fixed at their lower bounds
        rest = np.maximum(limit - given + TERM_ROUNDING * (limit + given), 0.0)  # rounded up
        target = float(rest / counts.sum())  # NaN at zero prices
        if not target < best[0]:
            break
        best, counts = (target, counts), np.where(floors > target, 0.0, marginals)
    return best


def _fair_gap(units: LevelUnits, prices: Float, point: Point) -> tuple[float, Float]:
    """The gap of alpha-fairness by the Lagrangian dual function at prices p (Proposition 5.11).

    The bound is ``sum_j (max_z (w_j u(z) - h_j z) + multiplier_j) + sum_si p_si u_si``, with ``u(z) = (z^(1-alpha) - 1)
    / (1-alpha)`` and the maximiser ``z_j = (w_j / h_j)^(1/alpha)`` between the user's lower bound and its reach.
    """
    term, kind = units.program.term, units.program.term.kind.simplest
    alpha, weights = term.alpha, point.weights / point.weights.sum()
    assert alpha is not None
    marginals, multipliers = units.marginal_utilities(prices, np.inf, weights, alpha)
    majorant = kind.majorant(term.share, point)  # for its unit only: prices of one are in natural units times it
    assert majorant is not None
    with np.errstate(divide="ignore"):
        log_price = np.log(marginals / weights)
        log_limit = np.log(float((units.usable * prices).sum()) + float(multipliers.sum()))
    levels = point.share(term.share) / (point.weights * units.unit)
    gap = float(fair_gap(weights, levels, log_price, alpha, units.floors, units.reach, log_limit))
    slope = majorant.unit * term.natural(kind.value(term.share, point), float(point.weights.sum()))[1]
    return gap, prices * slope
