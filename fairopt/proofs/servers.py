"""Alpha-fairness and max-min on several servers: the bound by weak duality at prices per server and resource.

At any prices no allocation is worth more than what users would choose at their cheapest servers, and what capacities
cost: the bound of `lagrangian`, computed in chunks of users, without a matrix of all pairs.
"""

from __future__ import annotations

import numpy as np

from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.model import Point
from fairopt.blocks.powers import boxcox
from fairopt.formulation.demands_at_prices import demands_of
from fairopt.formulation.program import Float, Program


class LevelUnits:
    """A program of one share in units of level (share per weight, in multiples of about the max-min level): numbers
    near 1.

    ``unit`` is a level of 1, in shares per weight; ``per_level`` (n_users, 1) or (n_users, n_servers) are tasks per
    unit of level; ``limits`` and ``reach`` (n_users,) are levels at the task limits, and levels that no user can
    exceed.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        instance, objective = program.instance, program.objective
        (share,) = objective.share_blocks()
        c = share.coefficients(instance)
        self.unit = Point(instance, np.zeros((0, 0))).level(share)
        self.per_level = instance.weights[:, None] * (self.unit / (c if c.ndim == 2 else c[:, None]))
        self.eligible = instance.eligible
        closed = program.usable <= 0
        if closed.any():
            self.eligible = self.eligible & ~(instance.per_server_demands[:, :, closed] > 0).any(axis=2)
        self.demands = demands_of(instance.demands, program.whole_capacities, self.per_level, self.eligible)
        self.needed = self.demands.all_loads(self.eligible.astype(float)) > 0
        self.usable = np.where(self.needed, program.usable[:, None], 1.0)
        if c.ndim == 1:
            self.limits, self.reach = program.high / self.per_level[:, 0], program.most / self.per_level[:, 0]
        else:
            self.limits = np.full(instance.n_users, np.inf)
            self.reach = (instance.tasks_alone_within(program.usable) / self.per_level).sum(axis=1)


def repaired(units: LevelUnits, tasks: Float) -> Float:
    """Tasks (n_users, n_servers) scaled to within capacities and limits."""
    program = units.program
    load = (units.demands.all_loads(tasks / units.per_level) / units.usable).max(axis=0)
    room = np.where(load > 1 - 5e-14, (1 - 1e-13) / load, 1.0)  # below 1 by more than the rounding of sums
    tasks = tasks * np.where(units.eligible, room, 0.0)
    total = tasks.sum(axis=1)
    tasks *= np.where(total >= program.high, program.high * (1 - 1e-15) / total, 1.0)[:, None]
    return tasks


def judge_row_prices(units: LevelUnits, prices: Float, tasks: Float) -> tuple[float, Float]:
    """Gap, and prices of shape (n_resources, n_servers) per whole capacity in natural units of the objective."""
    prices = np.where(units.needed, np.maximum(prices, 0.0), 0.0)
    point = Point(units.program.instance, tasks)
    gap, natural = (_max_min_gap if units.program.alpha_fair is None else _fair_gap)(units, prices, point)
    return max(gap, 0.0) if np.isfinite(gap) else np.inf, natural


def _max_min_gap(units: LevelUnits, prices: Float, point: Point) -> tuple[float, Float]:
    """Gap of the smallest level, at most ``sum_si p_si u_si / sum_j min_s sum_i p_si g_jsi``.

    At a common level users pay in all at least its cost at their cheapest servers, and at most the value of the
    capacities.
    """
    objective = units.program.objective
    per_level = float(units.demands.cheapest(prices).sum())
    bound, limit = float((units.usable * prices).sum()) / per_level, float(units.limits.min())
    natural = prices * (units.unit / per_level) if bound < limit else np.zeros_like(prices)
    return objective.relative_gap(units.unit * min(bound, limit), objective.value(point), point), natural


def _fair_gap(units: LevelUnits, prices: Float, point: Point) -> tuple[float, Float]:
    """Gap by the Lagrangian dual function at prices p, with level z_j per user and k_j its smallest cost on any server.

    The bound is ``sum_j max_z (w_j u(z) - k_j z) + sum_si p_si u_si``, where ``u(z) = (z^(1-alpha) - 1) / (1-alpha)``,
    and ``z_j = (w_j / k_j)^(1/alpha)`` up to the user's reach.
    """
    objective, edge = units.program.objective, units.program.alpha_fair
    assert edge is not None
    alpha, weights = edge.alpha, point.weights / point.weights.sum()
    cheapest = units.demands.cheapest(prices)
    levels = np.minimum((weights / cheapest) ** (1.0 / alpha), units.reach)
    worth = float((weights * boxcox(levels, 1.0 - alpha)).sum()) - float(cheapest @ levels)
    majorant = edge.majorant(point)
    bound, value = worth + float((units.usable * prices).sum()), majorant.value(point)
    slope = majorant.unit
    if isinstance(objective, FairnessEfficiency):
        slope *= objective.of_alpha_fair(edge.value(point))[1]
    return 0.0 if bound <= value else edge.relative_gap(bound, value, point), prices * slope
