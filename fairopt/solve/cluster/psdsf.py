"""PS-DSF, an equilibrium of servers that water-fill virtual shares (Proposition 5.9; Khamse-Ashari et al. 2017).

With ``gamma_js`` tasks that user j could run alone on a server of row s, its virtual share there is ``x_j / gamma_js``,
of all its tasks x_j. Wanted are tasks x_js of which none can rise without lowering another user's that has at most the
same virtual share per weight on s. It is no optimum of one objective, so that there is neither a dual nor a program; a
search proposes tasks, and the largest rise that is left, computed from the data, is the gap.

Filling the servers in turn finds an equilibrium, but if two servers rank users almost equally, tasks drift from one to
the other in small steps. So sweeps alternate with long steps, which solve the equilibrium conditions for the current
bottlenecks: these conditions are linear, one level for each resource that is full on a server. They are singular where
tasks could be swapped without effect, hence a regularisation that pulls to the tasks of now. Where the search cycles (3
of 3,000 small clusters), damped sweeps follow.

Rounding: tasks on a server are differences from those elsewhere, and are rounded as these are; so each filling ends by
scaling to capacities. The search ends at a gain of 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fairopt.instance import Instance
from fairopt.proof.server_rises import largest_gain, tasks_alone_on_one
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.clock import Clock
from fairopt.runtime.lazy import sp
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import NOISE, SUM_ROUNDING

NO_TASKS, LIMIT = -1, -2  # instead of a bottleneck, for a user without tasks on a server, and for one at its limit

# Measured on random clusters of 50 x 10, 200 x 27 and 400 x 60 (users x servers), half with limits. Solving the step
# again without users of negative tasks, up to DROPS times, took 3 to 22 steps; once only, 4 to 300 and more.
DROPS = 4
# The regularisation of a step is divided by SHRINK after a success and multiplied by GROW after a failure: 44 sweeps on
# average with 5 and 10, 48 with 3 and 4. As drift does not slow down, a step may leave WORSE times the movement before:
# with 1.0 drift was always refused, with 4 the search cycled.
SHRINK, GROW, WORSE = 5.0, 10.0, 1.5
FIRST, SMALLEST, LARGEST = 0.1, 1e-8, 10.0
# If the search cycles, round k has the weight SLOWER / (SLOWER + k); 5 and 20 found the same equilibria. With 1e-8
# instead of PATIENT one more of 5,000 was not found.
SLOWER, PATIENT = 20, 1e-6
STEPS = 100  # at most 35 were needed on 400 users x 1,000 different servers


@np.errstate(all="ignore")  # the certificate judges numbers beyond the range of floats
def equilibrium(
    instance: Instance, clock: Clock | None = None, keep: Callable[[Float], object] = lambda tasks: None
) -> Float:
    """The tasks by user and server of the smallest `largest_gain` that was found, within capacities and limits.

    All task limits must be positive. ``keep`` is called with the first tasks and with all better ones.
    """
    clock = Clock(None) if clock is None else clock
    sweeps = _Sweeps(instance, clock)
    nearest: Float = np.zeros(instance.eligible.shape)
    least = np.inf

    def done(tasks: Float) -> bool:
        """Keep the tasks if they are the best, and return whether to stop."""
        nonlocal nearest, least
        gain = largest_gain(instance, tasks).gain
        if gain < least:
            nearest, least = tasks, gain
            keep(nearest)
        return least <= NOISE or clock.late

    now, moved = sweeps.swept(sweeps.nothing, 5)
    keep(now.tasks * sweeps.unit)
    if clock.late:
        return now.tasks * sweeps.unit
    further, still, epsilon = now, moved, FIRST
    for k in range(STEPS):
        tell(f"servers in balance, step {k + 1}")
        if done(further.tasks * sweeps.unit):
            return nearest
        # the step led to where sweeps move little more than before: go on from there
        if still <= max(WORSE * moved, SUM_ROUNDING):
            now, moved, epsilon = further, still, max(epsilon / SHRINK, SMALLEST)
        else:
            now, moved = sweeps.swept(now, 3)
            epsilon = min(epsilon * GROW, LARGEST)
        further, still = sweeps.swept(sweeps.stepped(now, epsilon), 2)
    # the search cycles (3 of 3,000 small clusters): damped sweeps, and a long step from each
    tasks = now.tasks
    for k in range(STEPS):
        tell(f"servers in balance, small step {k + 1}")
        after, _ = sweeps.swept(_Tasks(tasks, now.bottlenecks), 1)
        found, _ = sweeps.swept(sweeps.stepped(after, PATIENT), 2)
        found, _ = sweeps.swept(sweeps.stepped(found, PATIENT), 2)
        if done(found.tasks * sweeps.unit):
            break
        part = SLOWER / (SLOWER + k)
        tasks = part * after.tasks + (1.0 - part) * tasks
    return nearest


class _Tasks(NamedTuple):
    """Tasks, and each user's bottleneck on each server (a resource, NO_TASKS or LIMIT), both (n_users, n_servers)."""

    tasks: Float
    bottlenecks: Indices


class _Sweeps:
    """Sweeps over servers, and long steps, in units of capacities and of tasks alone on a user's best row."""

    def __init__(self, instance: Instance, clock: Clock) -> None:
        self.clock = clock
        self.unit = instance.tasks_alone.max(axis=1)[:, None]
        capacity = instance.capacities * instance.counts[:, None]
        loads = instance.per_server_demands / np.where(capacity > 0, capacity, 1.0)
        self.loads = np.where(instance.eligible[:, :, None], loads * self.unit[:, :, None], 0.0)
        single = tasks_alone_on_one(instance)
        self.rise = single / single.max() * (instance.weights[:, None] / self.unit)  # tasks per unit of level
        self.limits = instance.task_limits / self.unit[:, 0]
        # The order of servers may decide between several equilibria, so it does not depend on the order given, nor on
        # that of users: numbers are sorted before they are added.
        use = np.sort(instance.tasks_alone / self.unit, axis=0).sum(axis=0)
        self.nothing = _Tasks(np.zeros(single.shape), np.full(single.shape, NO_TASKS))
        self.servers: list[tuple[int, Indices, Float, Float]] = []
        for s in np.argsort(-use, kind="stable"):
            users = np.flatnonzero(instance.eligible[:, s])
            self.servers.append((int(s), users, self.loads[users, s], self.rise[users, s]))

    def swept(self, now: _Tasks, times: int) -> tuple[_Tasks, float]:
        """Tasks after some sweeps, and the part of tasks that the last sweep moved; infinity when the time is up."""
        tasks, bottlenecks = now.tasks.copy(), now.bottlenecks.copy()
        moved = 0.0
        for _ in range(times):
            before, total = tasks.copy(), tasks.sum(axis=1)
            for s, users, loads, rise in self.servers:
                if self.clock.late:
                    return _Tasks(tasks, bottlenecks), np.inf
                low = np.maximum(total[users] - tasks[users, s], 0.0)
                filled = _fill_server(loads, rise, low, self.limits[users])
                tasks[users, s], bottlenecks[users, s] = filled
                total[users] = low + filled.tasks
            # the mean over users of the part that moved, so that large users do not hide small ones
            moved = float(np.mean(np.abs(tasks - before).sum(axis=1) / np.where(total > 0, total, 1.0)))
        return _Tasks(tasks, bottlenecks), moved

    def stepped(self, now: _Tasks, epsilon: float) -> _Tasks:
        """A long step: the tasks at which the current bottlenecks are full and give their users the same levels.

        As the system is singular where tasks could be swapped between servers, and nearly so where they drift, each
        condition may be violated by ``epsilon`` times the change of the user's tasks there: an implicit step along the
        drift. Users of negative tasks on a server leave it.
        """
        bottlenecks = now.bottlenecks
        for _ in range(DROPS):
            user, server = np.nonzero(bottlenecks != NO_TASKS)
            solved = self._solved(now.tasks, bottlenecks, user, server, epsilon)
            if solved is None:
                return now
            tasks = np.zeros(now.tasks.shape)
            tasks[user, server] = np.maximum(solved, 0.0)
            if (solved >= 0).all():
                break
            bottlenecks = bottlenecks.copy()
            bottlenecks[user[solved < 0], server[solved < 0]] = NO_TASKS
        return _Tasks(tasks, bottlenecks)

    def _solved(
        self, tasks: Float, bottlenecks: Indices, user: Indices, server: Indices, epsilon: float
    ) -> Float | None:
        """Tasks by pair of user and server where it runs; None if the system is singular.

        For a user on k servers with targets u_p (a level times ``rise``, or the limit) the conditions ``sum_q x_q +
        epsilon (x_p - old_p) = u_p`` give ``x_p = old_p + (u_p - mean u) / epsilon + (mean u - sum old) / (k +
        epsilon)``. This leaves one equation for the level of each bottleneck.
        """
        n, servers, m = self.loads.shape
        pairs, by, old = np.arange(len(user)), bottlenecks[user, server], tasks[user, server]
        rising = by >= 0
        full, level = np.unique((server * m + by)[rising], return_inverse=True)
        targets = sp.csr_matrix(
            (self.rise[user, server][rising], (pairs[rising], level)), shape=(len(pairs), len(full))
        )
        fixed = np.where(rising, 0.0, self.limits[user])
        mine = sp.csr_matrix((np.ones(len(pairs)), (pairs, user)), shape=(len(pairs), n))
        k = np.bincount(user, minlength=n)[user].astype(float)
        mean = sp.diags(1.0 / k) @ mine @ mine.T
        spread = (sp.identity(len(pairs)) - mean) * (1.0 / epsilon) + sp.diags(1.0 / (k + epsilon)) @ mean
        start = old - np.bincount(user, weights=old, minlength=n)[user] / (k + epsilon) + spread @ fixed
        # every pair on the server of a full resource adds to its load
        of, resource = full // m, full % m
        there = sp.csr_matrix((np.ones(len(pairs)), (server, pairs)), shape=(servers, len(pairs)))[of].tocoo()
        load = self.loads[user[there.col], server[there.col], resource[there.row]]
        use = sp.csr_matrix((load, (there.row, there.col)), shape=there.shape)
        try:
            levels = np.linalg.solve((use @ spread @ targets).toarray(), 1.0 - use @ start)
        except np.linalg.LinAlgError:
            return None
        moved = start + spread @ (targets @ levels)
        return moved if np.isfinite(moved).all() else None


def _fill_server(loads: Float, rise: Float, low: Float, high: Float) -> _Tasks:
    """Water-filling on one server, from users' tasks elsewhere (``low``) to their limits (``high``), all (n_users,).

    ``loads`` (n_users, n_resources) are fractions of capacities per task, ``rise`` (n_users,) tasks per unit of level.
    """
    n, m = loads.shape
    tasks, bottlenecks, slack = np.zeros(n), np.full(n, NO_TASKS), np.ones(m)
    left = np.flatnonzero(high > low)
    while len(left):
        # levels at which users start to rise, as their tasks elsewhere count too, and at which they are at their limits
        start, top = low[left] / rise[left], high[left] / rise[left]
        level, full = _next_full(loads[left] * rise[left, None], start, top, slack)
        at_limit = top <= level
        stop = at_limit if full < 0 else at_limit | (loads[left, full] > 0)
        fixed = left[stop]
        tasks[fixed] = np.where(at_limit[stop], high[fixed], np.maximum(level * rise[fixed], low[fixed])) - low[fixed]
        bottlenecks[fixed] = np.where(tasks[fixed] <= 0, NO_TASKS, np.where(at_limit[stop], LIMIT, full))
        slack = np.maximum(slack - tasks[fixed] @ loads[fixed], 0.0)
        left = left[~stop]
    # differences from far more tasks elsewhere are rounded: 1 task beside 1e10 was off by 8e-8
    return _Tasks(tasks / max(float((tasks @ loads).max(initial=0.0)), 1.0), bottlenecks)


def _next_full(slopes: Float, start: Float, top: Float, slack: Float) -> tuple[float, int]:
    """The level at which the first resource is full if users rise from start to top, and its index; or inf and -1."""
    limited = np.isfinite(top)
    at = np.concatenate([start, top[limited]])
    order = np.argsort(at)
    at = at[order]
    slope = np.cumsum(np.concatenate([slopes, -slopes[limited]])[order], axis=0)
    load = np.zeros(slope.shape)
    np.cumsum(slope[:-1] * np.diff(at)[:, None], axis=0, out=load[1:])
    flat = SUM_ROUNDING * slopes.sum(axis=0)  # smaller slopes are rounding: all users are at a limit
    level, full = np.inf, -1
    for i in range(len(slack)):
        # the piece on which the load reaches what is left; if it is flat, the last one before it that rises
        rises = slope[:, i] > flat[i]
        k = max(int(np.searchsorted(load[:, i], slack[i], side="right")) - 1, 0)
        if not rises[k]:
            if k == len(at) - 1:
                continue  # all users are at a limit before it is full
            before = np.flatnonzero(rises[:k])
            if len(before):
                k = int(before[-1])
            elif not slope[k, i] > 0:  # else users of far smaller slopes are first
                continue
        reach = float(at[k] + (slack[i] - load[k, i]) / slope[k, i])
        if reach < level:
            level, full = reach, i
    return level, full
