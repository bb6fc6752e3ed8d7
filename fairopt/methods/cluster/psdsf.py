"""PS-DSF: fair virtual shares on several servers, as an equilibrium of the servers (Khamse-Ashari et al. 2017).

A user's virtual share on a server is its tasks everywhere over the tasks that it could run on this server alone. Each
server fills its resources by water-filling on virtual shares per weight, where a user starts from its tasks elsewhere;
PS-DSF is an allocation that no server would change.

Filling the servers in turn finds it, but where two servers rank users almost alike, tasks drift from one to the other
in steps as small as the difference. So a long step is taken in between: while each user is held by the same full
resource, the conditions of the equilibrium are linear.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fairopt.blocks.model import in_range
from fairopt.instance import Instance
from fairopt.methods.arrays import Float, Int
from fairopt.proofs.psdsf import largest_gain, tasks_alone_on_one
from fairopt.runtime.lazy import sp
from fairopt.runtime.progress import tell

FLAT = 1e-13  # of the sum of all slopes: what rounding leaves of it when all users are at a limit
CLOSE = 1e-9  # gap at which to stop: a thousandth of the tolerance
NOWHERE, LIMIT = -1, -2  # what holds a user on a server where it runs nothing, and where it is at its limit

# Measured on random clusters of 50 x 10, 200 x 27 and 400 x 60 (users x servers), half with limits. Solving the step
# again without users who would fall below 0, up to DROPS times: 3 to 22 steps each; once only: 4 to 300 and more.
DROPS = 4
# A step is NEARER times as long after a success, and BACK times shorter after a failure: 44 sweeps on the average with
# 5 and 10, 48 with 3 and 4. Drift does not slow down, so a step may leave WORSE times the movement there was: with 1.0
# drift was always refused, with 4 the search ran in cycles.
NEARER, BACK, WORSE = 5.0, 10.0, 1.5
FIRST, NEAREST, FURTHEST = 0.1, 1e-8, 10.0
# Where the search runs in cycles, round k counts for SLOWER / (SLOWER + k); 5 and 20 found the same ones. With long
# steps of 1e-8 instead of PATIENT one more of 5,000 was not found.
SLOWER, PATIENT = 20, 1e-6
STEPS = 100  # 35 were the most on 400 users x 1,000 different servers


@np.errstate(all="ignore")  # numbers beyond the range of floats are judged by the certificate
def equilibrium(
    instance: Instance, deadline: float | None = None, keep: Callable[[Float], object] = lambda tasks: None
) -> Float:
    """Tasks by user and server at which no server would change anything, as near as could be found.

    They are within capacities and limits; `largest_gain` measures how near they are. All task limits must be above 0;
    the deadline is on the clock of `time.perf_counter`. ``keep`` gets the first tasks, and each that are nearer.
    """
    sweeps = _Sweeps(instance)
    nearest: Float = np.zeros(instance.eligible.shape)
    least = np.inf

    def done(tasks: Float) -> bool:
        """Keep the tasks if they are nearer than all before; whether to stop."""
        nonlocal nearest, least
        gain = largest_gain(instance, tasks).gain
        if gain < least:
            nearest, least = tasks, gain
            keep(nearest)
        return least <= CLOSE or (deadline is not None and time.perf_counter() > deadline)

    now, moved = sweeps.swept(sweeps.nothing, 5, deadline)
    keep(now.tasks * sweeps.unit)
    if deadline is not None and time.perf_counter() > deadline:
        return now.tasks * sweeps.unit
    further, still, near = now, moved, FIRST
    for k in range(STEPS):
        tell(f"servers in balance, step {k + 1}")
        if done(further.tasks * sweeps.unit):
            return nearest
        if still <= max(WORSE * moved, FLAT):
            now, moved, near = further, still, max(near / NEARER, NEAREST)
        else:
            now, moved = sweeps.swept(now, 3)
            near = min(near * BACK, FURTHEST)
        further, still = sweeps.swept(sweeps.stepped(now, near), 2)
    # in cycles (3 of 3,000 small clusters): ever smaller steps of all servers, and a long step from each
    tasks = now.tasks
    for k in range(STEPS):
        tell(f"servers in balance, small step {k + 1}")
        after, _ = sweeps.swept(_HeldTasks(tasks, now.held), 1)
        found, _ = sweeps.swept(sweeps.stepped(after, PATIENT), 2)
        found, _ = sweeps.swept(sweeps.stepped(found, PATIENT), 2)
        if done(found.tasks * sweeps.unit):
            break
        part = SLOWER / (SLOWER + k)
        tasks = part * after.tasks + (1.0 - part) * tasks
    return nearest


class _HeldTasks(NamedTuple):
    """Tasks, and what holds each user on each server (a resource, NOWHERE or LIMIT), both (n_users, n_servers)."""

    tasks: Float
    held: Int


class _Sweeps:
    """Servers that are filled in turn, and long steps in between.

    In units in which each capacity is 1, and a user could run 1 task alone on its best server row.
    """

    def __init__(self, instance: Instance) -> None:
        self.unit = instance.tasks_alone.max(axis=1)[:, None]
        capacity = instance.capacities * instance.counts[:, None]
        loads = instance.per_server_demands / np.where(capacity > 0, capacity, 1.0)
        self.loads = np.where(instance.eligible[:, :, None], loads * self.unit[:, :, None], 0.0)
        single = tasks_alone_on_one(instance)
        self.rise = single / single.max() * (in_range(instance.weights)[:, None] / self.unit)  # tasks per unit of level
        self.limits = instance.task_limits / self.unit[:, 0]
        # The order of servers may decide between several equilibria, so it does not depend on the order given: the most
        # useful ones come first. Numbers are sorted before they are added, so that the order of users has no effect.
        use = np.sort(instance.tasks_alone / self.unit, axis=0).sum(axis=0)
        self.nothing = _HeldTasks(np.zeros(single.shape), np.full(single.shape, NOWHERE))
        self.servers: list[tuple[int, Int, Float, Float]] = []
        for s in np.argsort(-use, kind="stable"):
            users = np.flatnonzero(instance.eligible[:, s])
            self.servers.append((int(s), users, self.loads[users, s], self.rise[users, s]))

    def swept(self, now: _HeldTasks, times: int, deadline: float | None = None) -> tuple[_HeldTasks, float]:
        """Tasks after some rounds of filling each server again, and the part of tasks that the last round moved.

        After the deadline they are those so far, which are within capacities if the tasks given are.
        """
        tasks, held = now.tasks.copy(), now.held.copy()
        moved = 0.0
        for _ in range(times):
            before, total = tasks.copy(), tasks.sum(axis=1)
            for s, users, loads, rise in self.servers:
                if deadline is not None and time.perf_counter() > deadline:
                    return _HeldTasks(tasks, held), np.inf
                low = np.maximum(total[users] - tasks[users, s], 0.0)
                filled = _fill_server(loads, rise, low, self.limits[users])
                tasks[users, s], held[users, s] = filled
                total[users] = low + filled.tasks
            moved = float(np.mean(np.abs(tasks - before).sum(axis=1) / np.where(total > 0, total, 1.0)))
        return _HeldTasks(tasks, held), moved

    def stepped(self, now: _HeldTasks, near: float) -> _HeldTasks:
        """A long step: solve for the levels of full resources while each user is held by the same ones.

        On each server where a user runs, its tasks everywhere are its level there (or its limit), and each resource
        that holds a user is full. That is singular where tasks could be swapped between servers, and nearly so where
        they drift; so each condition may be off by ``near`` times the change of the user's tasks there, which makes it
        an implicit step along the drift. A user who would fall below 0 on a server leaves it.
        """
        held = now.held
        for _ in range(DROPS):
            user, server = np.nonzero(held != NOWHERE)
            found = self._solved(now.tasks, held, user, server, near)
            if found is None:
                return now
            tasks = np.zeros(now.tasks.shape)
            tasks[user, server] = np.maximum(found, 0.0)
            if (found >= 0).all():
                break
            held = held.copy()
            held[user[found < 0], server[found < 0]] = NOWHERE
        return _HeldTasks(tasks, held)

    def _solved(self, tasks: Float, held: Int, user: Int, server: Int, near: float) -> Float | None:
        """Tasks by pair of user and server where it runs; None if the system is singular.

        For a user on k servers with targets u_p (a level times `rise`, or the limit) the conditions
        ``sum_q x_q + near (x_p - old_p) = u_p`` give ``x_p = old_p + (u_p - mean u) / near + (mean u - sum old) /
        (k + near)``; what is left to solve are the levels, one for each full resource.
        """
        n, servers, m = self.loads.shape
        pairs, by, old = np.arange(len(user)), held[user, server], tasks[user, server]
        rising = by >= 0
        full, level = np.unique((server * m + by)[rising], return_inverse=True)
        targets = sp.csr_matrix(
            (self.rise[user, server][rising], (pairs[rising], level)), shape=(len(pairs), len(full))
        )
        fixed = np.where(rising, 0.0, self.limits[user])
        mine = sp.csr_matrix((np.ones(len(pairs)), (pairs, user)), shape=(len(pairs), n))
        k = np.bincount(user, minlength=n)[user].astype(float)
        mean = sp.diags(1.0 / k) @ mine @ mine.T
        spread = (sp.identity(len(pairs)) - mean) * (1.0 / near) + sp.diags(1.0 / (k + near)) @ mean
        start = old - np.bincount(user, weights=old, minlength=n)[user] / (k + near) + spread @ fixed
        # every pair on the server of a full resource adds to its load
        of, resource = full // m, full % m
        there = sp.csr_matrix((np.ones(len(pairs)), (server, pairs)), shape=(servers, len(pairs)))[of].tocoo()
        load = self.loads[user[there.col], server[there.col], resource[there.row]]
        use = sp.csr_matrix((load, (there.row, there.col)), shape=there.shape)
        try:
            levels = np.linalg.solve((use @ spread @ targets).toarray(), 1.0 - use @ start)
        except np.linalg.LinAlgError:
            return None
        found = start + spread @ (targets @ levels)
        return found if np.isfinite(found).all() else None


def _fill_server(loads: Float, rise: Float, low: Float, high: Float) -> _HeldTasks:
    """Water-filling on one server, from users' tasks elsewhere (``low``) to their limits (``high``), all (n_users,).

    ``loads`` (n_users, n_resources) are the fractions of each resource that one task takes, ``rise`` (n_users,) is
    tasks per unit of level.
    """
    n, m = loads.shape
    tasks, held, room = np.zeros(n), np.full(n, NOWHERE), np.ones(m)
    left = np.flatnonzero(high > low)
    while len(left):
        start, top = low[left] / rise[left], high[left] / rise[left]
        level, full = _next_full(loads[left] * rise[left, None], start, top, room)
        at_limit = top <= level
        stop = at_limit if full < 0 else at_limit | (loads[left, full] > 0)
        who = left[stop]
        tasks[who] = np.where(at_limit[stop], high[who], np.maximum(level * rise[who], low[who])) - low[who]
        held[who] = np.where(tasks[who] <= 0, NOWHERE, np.where(at_limit[stop], LIMIT, full))
        room = np.maximum(room - tasks[who] @ loads[who], 0.0)
        left = left[~stop]
    # differences from far more tasks elsewhere are rounded: 1 task beside 1e10 was off by 8e-8
    return _HeldTasks(tasks / max(float((tasks @ loads).max(initial=0.0)), 1.0), held)


def _next_full(slopes: Float, start: Float, top: Float, room: Float) -> tuple[float, int]:
    """The level at which the first resource is full if users rise from start to top, and its index; or inf and -1."""
    limited = np.isfinite(top)
    at = np.concatenate([start, top[limited]])
    order = np.argsort(at)
    at = at[order]
    slope = np.cumsum(np.concatenate([slopes, -slopes[limited]])[order], axis=0)
    load = np.zeros(slope.shape)
    np.cumsum(slope[:-1] * np.diff(at)[:, None], axis=0, out=load[1:])
    flat = FLAT * slopes.sum(axis=0)
    level, full = np.inf, -1
    for i in range(len(room)):
        rises = slope[:, i] > flat[i]
        k = max(int(np.searchsorted(load[:, i], room[i], side="right")) - 1, 0)
        if not rises[k]:
            if k == len(at) - 1:
                continue  # all users are at a limit before it is full
            before = np.flatnonzero(rises[:k])
            if len(before):
                k = int(before[-1])
            elif not slope[k, i] > 0:  # users who rise by far less than others are first
                continue
        reach = float(at[k] + (room[i] - load[k, i]) / slope[k, i])
        if reach < level:
            level, full = reach, i
    return level, full
