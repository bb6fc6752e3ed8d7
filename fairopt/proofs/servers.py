"""Alpha-fairness and max-min on several servers, judged at prices per server and resource.

At any prices no allocation is worth more than what users would choose at their cheapest servers: the bound of
`lagrangian`, evaluated in chunks of users, without a matrix of all pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import boxcox

from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.model import Point
from fairopt.formulation.demands_at_prices import demands_of
from fairopt.formulation.program import Program
from fairopt.proofs.evidence import RowPrices

__all__ = ["LevelUnits", "judge_row_prices", "repaired"]

Float = NDArray[np.floating[Any]]


class LevelUnits:
    """A program in units of level (share per weight, as a multiple of about the max-min level): numbers near 1.

    Parameters
    ----------
    program : Program
        With one objective of one share.

    Attributes
    ----------
    unit : float
        A level of 1, in shares per weight.
    per_level : ndarray of shape (n_users, 1) or (n_users, n_servers)
        Tasks per unit of level.
    limits, reach : ndarray of shape (n_users,)
        Levels at the task limits, and that no user can exceed.
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
        capacities = instance.capacities * instance.counts[:, None]
        self.demands = demands_of(instance.demands, capacities, self.per_level, self.eligible)
        self.needed = self.demands.all_loads(self.eligible.astype(float)) > 0
        self.usable = np.where(self.needed, program.usable[:, None], 1.0)
        if c.ndim == 1:
            self.limits, self.reach = program.high / self.per_level[:, 0], program.most / self.per_level[:, 0]
        else:
            self.limits = np.full(instance.n_users, np.inf)
            self.reach = (instance.tasks_alone_within(program.usable) / self.per_level).sum(axis=1)


def repaired(units: LevelUnits, tasks: Float) -> Float:
    """Tasks by user and server within capacities and limits."""
    program = units.program
    load = (units.demands.all_loads(tasks / units.per_level) / units.usable).max(axis=0)
    room = np.where(load > 1 - 5e-14, (1 - 1e-13) / load, 1.0)  # below one by more than sums are rounded
    tasks = tasks * np.where(units.eligible, room, 0.0)
    total = tasks.sum(axis=1)
    tasks *= np.where(total >= program.high, program.high * (1 - 1e-15) / total, 1.0)[:, None]
    return tasks


def judge_row_prices(evidence: RowPrices, tasks: Float) -> tuple[float, Float]:
    """Gap, and prices of shape (n_resources, n_servers) per whole capacity in natural units of the objective."""
    units = evidence.units
    prices = np.where(units.needed, np.maximum(evidence.prices, 0.0), 0.0)
    point = Point(units.program.instance, tasks)
    gap, natural = (_max_min_gap if units.program.alpha_fair is None else _fair_gap)(units, prices, point)
    return max(gap, 0.0) if np.isfinite(gap) else np.inf, natural


def _max_min_gap(units: LevelUnits, prices: Float, point: Point) -> tuple[float, Float]:
    """At a common level users pay in all what it costs, and capacities bring in no less."""
    objective = units.program.objective
    per_level = float(units.demands.cheapest(prices).sum())
    bound, limit = float((units.usable * prices).sum()) / per_level, float(units.limits.min())
    natural = prices * (units.unit / per_level) if bound < limit else np.zeros_like(prices)
    return objective.relative_gap(units.unit * min(bound, limit), objective.value(point), point), natural


def _fair_gap(units: LevelUnits, prices: Float, point: Point) -> tuple[float, Float]:
    """Weak duality: every user picks its best level at its cheapest server's cost."""
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
