"""Hierarchical DRF on several servers: rows that stop users, found by linear programs over all placements.

The tasks that can be placed are those within rows ``sum_j cost_j(p) x_j <= p C``, one for each prices p of resources on
servers, where ``cost_j`` is the smallest cost of a task on a server. The tree is filled under the rows known so far
(`proofs.verify.Filling`). If the tasks at the end cannot be placed, the dual of that program is a further row, and the
tree is filled again; likewise if a user waited until a row stopped it and had no room before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fairopt.allocation import feasibility
from fairopt.blocks.largest import largest
from fairopt.blocks.objectives import Total
from fairopt.blocks.rows import Rows
from fairopt.blocks.shares import Tasks
from fairopt.errors import Infeasible, NotCertified
from fairopt.formulation.program import Program
from fairopt.instance import Instance
from fairopt.methods.arrays import Float, Int
from fairopt.methods.simplex import DUAL, Simplex
from fairopt.methods.unfit_guarantees import refuse_unfit
from fairopt.proofs import verify
from fairopt.runtime.clock import Clock, check
from fairopt.runtime.lazy import sp
from fairopt.tolerances import NOISE, VIOLATION_TOLERANCE

# Tasks that exceed capacities by less fit, as they do by less than the second if no new row shows it. Prices below the
# third, relative to the largest, are solver noise.
FITS, NEARLY, NO_PRICE = 1e-11, 1e-7, 1e-12
SIZE = 1e3  # of a program's numbers, whose tolerances are absolute
MOST = 10  # rows per user: at most 0.4 were needed
LONGEST = 64  # steps between two tries to place the tasks

Row = list[tuple[int, int, float]]


class Filled(NamedTuple):
    """Tasks by user and server, (n_users, n_servers), and the entry of evidence for `verify.gap_of_filling`."""

    tasks: Float
    entry: dict[str, Any]


def floors(cluster: verify.Cluster) -> dict[str, Any]:
    """Evidence for what teams are guaranteed: tasks that use so much, and prices by which none use more."""
    out: dict[str, Any] = {}
    for team, units in cluster.team_guarantees.items():
        members = [j for j in cluster.members[team] if j in cluster.active]
        named = {cluster.resource(name): float(v) for name, v in units.items()}
        room = np.array([min(named.get(k, np.inf), float(c)) for k, c in enumerate(cluster.capacity)])
        needs = np.array([[float(d) for d in cluster.demands[j][cluster.open[j][0]]] for j in members])
        needs = needs.reshape(len(members), cluster.m)
        limits = np.array([np.inf if (t := cluster.limits[j]) is None else float(t) for j in members])
        each = np.max(needs / np.where(room > 0, room, 1.0), axis=1, initial=0.0)  # part of what the team may use
        out[team] = {}
        for i in named if members else ():
            found = largest(needs[:, i], [Rows(needs.T, room)], 1.0 / each, high=limits)
            if found is None:
                raise NotCertified(f"what {team!r} can use of its guarantee was not found")
            tasks, prices = np.maximum(found.at, 0.0), np.maximum(found.multipliers[0], 0.0)
            listed = [[j, x] for j, x in zip(members, tasks.tolist(), strict=True) if x > 0]
            out[team][str(i)] = {"tasks": listed, "prices": prices.tolist()}
    return out


def fill(
    instance: Instance, cluster: verify.Cluster, policy: verify.Block, floors: Mapping[str, Any] | None, clock: Clock
) -> Filled:
    """Fill the tree of a policy on several different servers; ``floors`` are as by the function of that name."""
    tree, programs = verify.Tree.of(cluster, policy), _Placements(instance, cluster, clock)
    forest = tree.forest(cluster, (), floors)
    rows = _Rows(programs)
    _explore(forest, programs, rows)
    while True:
        check("filling the tree", len(rows.prices))
        filling = verify.Filling(forest._replace(rows=rows.costs), float, watch=True)
        over, row, table = programs.place(np.array(filling.run()))
        if over > FITS and (over > NEARLY or row not in rows.prices):
            rows.add(row)
            continue
        placements, missing = [], None
        for before, waiting in filling.waited:
            placement, missing = programs.room(np.array(before), np.array(waiting))
            if missing is not None:
                break
            placements.append(placement)
        if missing is None:
            listed = [[list(price) for price in row] for row in rows.prices]
            return Filled(table, {"rows": listed, "placements": placements})
        rows.add(missing)


def _explore(forest: verify.Forest, programs: _Placements, rows: _Rows) -> None:
    """Find rows in the order in which they stop users.

    The filling goes on until tasks cannot be placed. Within the step in which that begins, the first row is found as by
    Newton's method; from there the tree is filled again, as what comes depends on the tasks reached only.
    """
    start = np.array([float(x) for x in forest.starts])
    over = programs.place(start)[0]
    if over > VIOLATION_TOLERANCE:
        refuse_unfit(Program(programs.instance, Total(Tasks()), ()))
        raise Infeasible(f"guarantees do not fit: they need {over:.2%} more than the capacities; lower some")
    while True:
        check("filling the tree", len(rows.prices))
        filling = verify.Filling(forest._replace(starts=start.tolist(), rows=rows.costs), float)
        seen, wait = [start], 1
        for _ in filling.steps():
            check()
            seen.append(np.array(filling.now()))
            if len(seen) > wait and programs.place(seen[-1])[0] > FITS:
                break
            if len(seen) > wait:
                seen, wait = [seen[-1]], min(2 * wait, LONGEST)
        else:
            if programs.place(seen[-1])[0] <= FITS:
                return
        fits, over = 0, len(seen) - 1
        while over - fits > 1:
            middle = (fits + over) // 2
            fits, over = (fits, middle) if programs.place(seen[middle])[0] > FITS else (middle, over)
        start, end, part, known = seen[fits], seen[over], 1.0, len(rows.prices)
        while (found := programs.place(start + part * (end - start)))[0] > FITS and found[1] not in rows.prices:
            cost = np.array(rows.add(found[1]))
            here, rise = float(cost @ start), float(cost @ (end - start))
            if rise <= 0 or not 1 - here < part * rise:
                break  # as full as rounding tells
            part = max((1 - here) / rise, 0.0)
        if len(rows.prices) == known:
            return
        start = start + part * (end - start)


class _Rows:
    """The rows known: prices by server and resource, and costs per task of each leaf."""

    def __init__(self, programs: _Placements) -> None:
        self.programs = programs
        self.prices: list[Row] = []
        self.costs: list[Any] = []

    def add(self, row: Row) -> list[float]:
        """The costs of a new row."""
        if row in self.prices or len(self.prices) > MOST * len(self.programs.users):
            refuse_unfit(Program(self.programs.instance, Total(Tasks()), ()))
            raise NotCertified("linear programs did not find the rows that stop users. Fix: use instance.pooled()")
        self.prices.append(row)
        self.costs.append(self.programs.costs(row))
        return self.costs[-1]


class _Placements:
    """Linear programs over placements, in dominant shares of tasks by user and eligible server."""

    def __init__(self, instance: Instance, cluster: verify.Cluster, clock: Clock) -> None:
        self.instance, self.clock = instance, clock
        self.users = np.array(cluster.active)
        eligible = instance.eligible[self.users]
        self.user, self.server = np.nonzero(eligible)
        self.mu = instance.dominant_shares[self.users]
        self.room_of = instance.capacities * instance.counts[:, None]
        n, m, servers = len(self.users), instance.n_resources, instance.n_servers
        demands = instance.demands[self.users][self.user] / self.mu[self.user, None]
        loads = np.divide(demands, self.room_of[self.server], out=np.zeros_like(demands), where=demands > 0)
        pairs = np.arange(len(self.user))
        used, kind = np.nonzero(loads)
        excess = len(pairs)  # a last column: how far all capacities are exceeded
        capacity = np.flatnonzero(self.room_of.ravel() > 0)
        entries = (
            np.concatenate([loads[used, kind], np.ones(excess), -np.ones(len(capacity))]),
            (
                np.concatenate([self.server[used] * m + kind, servers * m + self.user, capacity]),
                np.concatenate([pairs[used], pairs, np.full(len(capacity), excess)]),
            ),
        )
        self.matrix = sp.csc_array(entries, shape=(servers * m + n, excess + 1))
        self.most = instance.tasks_alone[self.users].sum(axis=1) * self.mu
        self.limits = instance.task_limits[self.users] * self.mu
        self.basis: tuple[Int, Int] | None = None
        self.simplex = Simplex()

    def _run(self, costs: Float, top: float, low: Float, high: Float) -> tuple[Float, Float]:
        """Columns and prices of capacities of a program in which users hold shares between two bounds."""
        rows = self.room_of.size
        columns = np.full(len(costs), np.inf)
        columns[-1] = top
        bounds = np.concatenate([np.full(rows, -np.inf), low]), np.concatenate([np.ones(rows), high])
        self.simplex.give(costs, (np.zeros(len(costs)), columns), bounds, self.matrix, self.basis, SIZE)
        if not self.simplex.run(self.clock, first=DUAL):
            raise NotCertified("a linear program over placements was not solved. Fix: use other units")
        self.basis = self.simplex.of_columns, self.simplex.of_rows
        return self.simplex.values, np.maximum(-self.simplex.duals[:rows], 0.0)

    def place(self, tasks: Float) -> tuple[float, Row, Float]:
        """By how much tasks of leaves exceed capacities at best, a row that shows it, and tasks by user and server."""
        held = tasks * self.mu
        costs = np.zeros(self.matrix.shape[1])
        costs[-1] = 1.0
        values, prices = self._run(costs, np.inf, held, np.full(len(held), np.inf))
        runs = np.bincount(self.user, values[:-1], len(held))
        scale = np.divide(held, runs, out=np.zeros(len(held)), where=runs > 0) / self.mu
        table = np.zeros(self.instance.eligible.shape)
        table[self.users[self.user], self.server] = np.maximum(values[:-1], 0.0) * scale[self.user]
        over = feasibility(self.instance, table)
        return float(values[-1]), self._row(prices), table if over < VIOLATION_TOLERANCE / 2 else table / (1.0 + over)

    def room(self, tasks: Float, waiting: Int) -> tuple[list[list[float]], Row | None]:
        """A placement in which waiting leaves have more tasks; or a row that shows that some have no room."""
        held = tasks * self.mu
        mean, left, rounds = np.zeros(self.matrix.shape[1]), waiting, 0
        while len(left):
            rounds += 1
            costs = np.zeros(self.matrix.shape[1])
            more = np.zeros(len(held))
            more[left] = 0.01 * self.most[left]
            wanted = np.isin(self.user, left)
            costs[:-1][wanted] = -1.0 / self.most[self.user[wanted]]
            values, prices = self._run(costs, 0.0, held * (1 - NOISE / 2), held + more)
            runs = np.bincount(self.user, values[:-1], len(held))
            still = left[(runs - held)[left] < 20 * rounds * float(verify.ROOM) * self.most[left]]
            if len(still) == len(left):
                return [], self._row(prices)
            mean, left = mean + values, still
        values = np.maximum(mean / rounds, 0.0)[:-1]
        used = np.flatnonzero(values)
        user, server = self.user[used], self.server[used]
        tasks_of = values[used] / self.mu[user]
        listed = zip(self.users[user].tolist(), server.tolist(), tasks_of.tolist(), strict=True)
        return [[j, s, x] for j, s, x in listed], None

    def costs(self, row: Row) -> list[float]:
        """The smallest cost of a task of each leaf at prices, relative to the worth of all capacities."""
        prices = np.zeros(self.room_of.shape)
        for s, i, p in row:
            prices[s, i] = p
        table = self.instance.demands[self.users] @ prices.T
        eligible = self.instance.eligible[self.users]
        least: Float = np.where(eligible, table, np.inf).min(axis=1) / float((prices * self.room_of).sum())
        return least.tolist()

    def _row(self, prices: Float) -> Row:
        """Prices of whole capacities as prices per unit, by server and resource, without noise."""
        kept = np.flatnonzero(prices > NO_PRICE * prices.max(initial=0.0))
        m = self.instance.n_resources
        per_unit = prices[kept] / self.room_of.ravel()[kept]
        return [(int(k) // m, int(k) % m, float(p)) for k, p in zip(kept, per_unit, strict=True)]
