"""Rates of leximin: by water-filling on one pool, by the prices of its levels on several servers.

Water-filling raises a level z until ``sum_j d_ji b_j z = room_i`` for some resource i, with b = w / c tasks per unit of
level, or a limit is reached. It only adds, multiplies, divides and compares, so it can run on numbers ``a + a' t`` with
an infinitely small t > 0: equal levels are ordered by their rates. The result is the derivative from the right, at
kinks too; from the left with the change reversed.

On several servers a level has no closed form. There the rates are those of its prices, where both sides agree: a level
whose users separate has different ones (`level_rises`). What is compared in floats is relative: levels within 1e-9 are
one (`NOISE`), and of these the smallest rate comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fairopt.blocks.normal_form import Term
from fairopt.derivatives.level_prices import LevelPrices
from fairopt.derivatives.optimum import Change, Optimum, _NoDerivative
from fairopt.errors import OutOfDomain
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.tolerances import NOISE

SAME = 1e-6  # relative: equal prices, levels and tasks, at the tolerance of gaps


class PoolData(NamedTuple):
    """Data of a pool, or their rates: tasks per level b = w/c, (n,), demands (n, m), capacities (m,)."""

    speed: Float
    demands: Float
    capacities: Float


class Filled(NamedTuple):
    """Tasks, their rates, and what fixes each user: a resource, or -1 for the task limit; (n_users,) each."""

    tasks: Float
    rates: Float
    cause: Indices


@np.errstate(divide="ignore", invalid="ignore")
def fill(pool: PoolData, limits: Float, rate: PoolData | None = None) -> Filled:
    """Raise a common level until resources are full or limits are reached; along rates, if given."""
    b, d, room_of = pool
    n, m = d.shape
    db, dd, dc = rate or PoolData(np.zeros(n), np.zeros((n, m)), np.zeros(m))
    x, dx, cause = np.zeros(n), np.zeros(n), np.full(n, -1)
    rising = np.ones(n, dtype=bool)
    own_rate = np.where(np.isfinite(limits), -limits * db / b**2, 0.0)
    while rising.any():
        load = b[rising] @ d[rising]
        load_rate = db[rising] @ d[rising] + b[rising] @ dd[rising]
        # what those who have stopped leave, and its rate by the product rule
        room, room_rate = room_of - x @ d, dc - x @ dd - dx @ d
        level = np.where(load > 0, np.maximum(room, 0.0) / load, np.inf)
        levels = np.append(level, np.where(rising, limits / b, np.inf))
        rates = np.append(np.where(load > 0, (room_rate - level * load_rate) / load, 0.0), own_rate)
        # the next event: of those at the same level that with the smallest rate, as it comes first for small t
        near = np.flatnonzero(levels <= levels.min() * (1 + NOISE))
        first = near[rates[near] <= rates[near].min() + NOISE * np.abs(rates[near]).max()][0]
        z, dz = levels[first], rates[first]
        if first < m:
            stopped = rising & (d[:, first] > 0)
            x[stopped], dx[stopped], cause[stopped] = z * b[stopped], dz * b[stopped] + z * db[stopped], first
        else:
            stopped = np.arange(n) == first - m
            x[stopped] = limits[stopped]
        rising &= ~stopped
    return Filled(x, dx, cause)


class Pool:
    """Leximin on one pool; ``c`` (n_users,) are the coefficients of its share, ``tasks`` (n_users,) the answer."""

    def __init__(self, instance: Instance, c: Float, tasks: Float) -> None:
        self.limits = instance.task_limits
        self.flow = PoolData(instance.weights / c, instance.demands, instance.total_capacities)
        if not np.allclose(fill(self.flow, self.limits).tasks, tasks, rtol=1e-4, atol=1e-6 * float(tasks.max())):
            raise OutOfDomain(
                "max-min does not fix all tasks, and these are not those of leximin; allocate by Leximin instead"
            )

    def rates(self, change: Change) -> tuple[Float, Indices]:
        """Rates of tasks along a change, and what fixes each user."""
        speed = self.flow.speed * (change.log_w - change.log_c)
        filling = fill(self.flow, self.limits, PoolData(speed, change.demand, change.capacity.sum(axis=0)))
        return filling.rates, filling.cause

    def stays(self, instance: Instance, term: Term, c: Float, kept: Indices) -> Indices | None:
        """What fixes each user of another instance, if it is the same; otherwise None."""
        filling = fill(PoolData(instance.weights / c, instance.demands, instance.total_capacities), self.limits)
        return kept if (filling.cause == kept).all() else None


class OptimalLevels:
    """Leximin on several servers.

    A level rises by its prices times the added capacity. If a user's tasks per level grow by a fraction, that is as if
    this fraction of its load on each row were taken from the capacities.
    """

    def __init__(self, levels: Sequence[LevelPrices] | None, optimum: Optimum) -> None:
        if levels is None:
            raise OutOfDomain(
                "prices of the levels are not known on these servers: MaxMin does not fix all tasks (use Leximin), "
                "or there are too many full capacities"
            )
        instance, tasks = optimum.program.instance, optimum.point.tasks_by_server
        self.prices = np.zeros((instance.n_users, *instance.capacities.shape))
        self.z, self.kink = np.ones(instance.n_users), False
        at = {user: j for j, user in enumerate(instance.users)}
        for level in levels:
            self.kink |= not np.allclose(level.prices, level.prices_left, rtol=SAME, atol=SAME * level.level)
            mine = [at[user] for user in level.users]
            self.prices[mine], self.z[mine] = optimum.by_class(level.prices), level.level
        self.x = optimum.total
        self.used = tasks[:, :, None] * instance.demands[:, None, :]
        self.free = self.x < instance.task_limits * (1 - SAME)

    def rates(self, change: Change) -> tuple[Float, None]:
        """Rates of tasks along a change; ranges are not known."""
        if self.kink:
            raise _NoDerivative(
                "prices of more and of less capacity differ, and on several servers nothing else is known"
            )
        if change.demand.any():
            raise _NoDerivative("for leximin on several servers it depends on where tasks run, which is not unique")
        # more tasks per level take capacity like a smaller server would
        log_speed = np.where(self.free, change.log_w - change.log_c, 0.0)
        room = change.capacity - np.einsum("j,jsi->si", log_speed, self.used)
        rise = np.einsum("jsi,si->j", self.prices, room) / self.z
        return np.where(self.free, self.x * (rise + log_speed), 0.0), None
