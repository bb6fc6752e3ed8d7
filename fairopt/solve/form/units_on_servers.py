"""The units of programs on several servers: tasks or levels near 1, for methods by prices.

A unit of user j's variable needs ``G_jsi = per_level_js d_jsi / C_si`` of each resource i of server s, in parts of a
capacity. Of one share the variable is the level, the share per weight in multiples of about the max-min level; of other
objectives it is tasks, in multiples of approximate ones. In these units prices, responses and slacks are near 1,
whatever units demands have: weights of 1e12 and demands of 1e41 are no different from others.
"""

from __future__ import annotations

import numpy as np

from fairopt.blocks.model import Point
from fairopt.runtime.arrays import Float
from fairopt.solve.form.demands_at_prices import demands_of
from fairopt.solve.form.program import Program


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

    def fitted(self, tasks: Float) -> Float:
        """Tasks (n_users, n_servers) by pair, scaled down to capacities and limits."""
        tasks, pairs = np.maximum(tasks, 0.0), self.program.pairs
        load = (self.demands.all_loads(tasks / self.per_level) / self.usable).max(axis=0)
        # below 1 by more than the rounding of sums, in any order of summation
        tasks = tasks * np.where(self.eligible, np.where(load > 1 - 5e-14, (1 - 1e-13) / load, 1.0), 0.0)
        high, total = self.program.high, tasks.sum(axis=1)
        tasks *= np.where(total >= high, high * (1 - 1e-15) / total, 1.0)[:, None]  # as a sum may round up
        return tasks[pairs.user, pairs.server]

    def natural_prices(self, prices: Float) -> Float:
        """Prices (n_resources, n_servers) by row of loads, 0 where nobody needs a resource."""
        return np.where(self.needed, np.maximum(prices, 0.0), 0.0).T.ravel()


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

    def natural_prices(self, prices: Float) -> Float:
        """Prices (n_resources, n_servers) of alpha-fairness in these units, by row of loads, for shares in multiples of
        ``unit``; those of max-min have no unit.
        """
        term = self.program.term
        scale = term.factor * self.program.instance.weights.sum() if term.is_curved else 1.0
        return super().natural_prices(prices) * scale
