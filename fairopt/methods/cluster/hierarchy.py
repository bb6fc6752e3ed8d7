"""Hierarchical DRF on several servers or with floors: rows that stop users, found by linear programs over placements.

The tasks that can be placed are those within rows ``sum_j cost_j(p) x_j <= p C``, one for each prices p of resources on
servers, where ``cost_j`` is the smallest cost of a task on a server. Those of which there can be more that keep the
floors of teams are within such rows too, from whose costs and worth prices of the floors are taken. The tree is filled
under the rows known so far (`proofs.verify.Filling`). If the tasks at the end do not fit, the dual of that program is a
further row, and the tree is filled again; likewise if a user waited until a row stopped it and had no room before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairopt.allocation import feasibility
from fairopt.blocks.guarantees import team_floors
from fairopt.blocks.objectives import Total
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
MOST = 10  # rows per leaf: at most 1 was needed
LONGEST = 64  # steps between two tries to place the tasks

Row = list[tuple[int | str, int, float]]  # prices by server and resource, then by team and resource


class Filled(NamedTuple):
    """Tasks by user and server, (n_users, n_servers), and the entry of evidence for `verify.gap_of_filling`."""

    tasks: Float
    entry: dict[str, Any]


def floors(instance: Instance) -> dict[str, Any]:
    """Evidence for what teams are guaranteed: tasks that use so much, and prices by which none use more."""
    return {team: {str(i): use.entry for i, use in floor.uses.items()} for team, floor in team_floors(instance).items()}


def filling(forest: verify.Forest, more: Sequence[float], watch: bool = False) -> verify.Filling:
    """A filling in floats with ``more`` capacity of each resource, as a part of the total of which shares are taken."""
    made = verify.Filling(forest, float, watch=watch)
    made.used = [used - by for used, by in zip(made.used, [*more, *[0.0] * len(forest.rows)], strict=True)]
    return made


def fill(
    instance: Instance,
    cluster: verify.Cluster,
    policy: verify.Block,
    floors: Mapping[str, Any] | None,
    clock: Clock,
    more: Sequence[float] | None = None,
) -> Filled:
    """Fill the tree of a policy on several different servers or with ``floors``, as by the function of that name.

    Shares are fractions of the capacities of ``cluster``; the instance may have ``more`` of each resource, as fractions
    of these.
    """
    tree = verify.Tree.of(cluster, policy)
    forest, several = tree.forest(cluster, (), floors), instance.n_servers > 1
    programs = _Placements(instance, cluster, tree, forest, clock)
    rows = _Rows(programs)
    more = [0.0] * instance.n_resources if more is None else more
    start = np.array([float(x) for x in forest.starts])
    if (over := programs.place(start)[0]) > VIOLATION_TOLERANCE:
        refuse_unfit(Program(instance, Total(Tasks()), ()))
        raise Infeasible(f"guarantees do not fit: they need {over:.2%} more than the capacities; lower some")
    if several:
        _explore(forest, programs, rows, start, more)
    while True:
        check("filling the tree", len(rows.prices))
        made = filling(rows.of(forest), more, watch=several)
        over, row, table = programs.place(np.array(made.run()))
        if over > FITS and (over > NEARLY or row not in rows.prices):
            rows.add(row)
            continue
        placements, missing = [], None
        for before, waiting in made.waited:
            placement, missing = programs.room(np.array(before), np.array(waiting))
            if missing is not None:
                break
            placements.append(placement)
        if missing is None:
            listed = [[list(price) for price in row] for row in rows.prices]
            return Filled(table, {"rows": listed, "placements": placements})
        rows.add(missing)


def _explore(forest: verify.Forest, programs: _Placements, rows: _Rows, start: Float, more: Sequence[float]) -> None:
    """Find rows in the order in which they stop users, from the tasks at which they start.

    The filling goes on until tasks cannot be placed. Within the step in which that begins, the first row is found as by
    Newton's method; from there the tree is filled again, as what comes depends on the tasks reached only.
    """
    while True:
        check("filling the tree", len(rows.prices))
        made = filling(rows.of(forest)._replace(starts=start.tolist()), more)
        seen, wait = [start], 1
        for _ in made.steps():
            check()
            seen.append(np.array(made.now()))
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
            row, taken = rows.add(found[1])
            cost = np.array(row)
            here, rise = taken + float(cost @ start), float(cost @ (end - start))
            if rise <= 0 or not 1 - here < part * rise:
                break  # as full as rounding tells
            part = max((1 - here) / rise, 0.0)
        if len(rows.prices) == known:
            return
        start = start + part * (end - start)


class _Rows:
    """The rows known: prices, costs per task of each leaf, and what is taken at first."""

    def __init__(self, programs: _Placements) -> None:
        self.programs = programs
        self.prices: list[Row] = []
        self.costs: list[Any] = []
        self.taken: list[Any] = []

    def of(self, forest: verify.Forest) -> verify.Forest:
        """A forest with these rows."""
        return forest._replace(rows=self.costs, taken=self.taken)

    def add(self, row: Row) -> tuple[list[float], float]:
        """The costs of a new row, and what of it is taken at first."""
        if row in self.prices or len(self.prices) > MOST * len(self.programs.users):
            refuse_unfit(Program(self.programs.instance, Total(Tasks()), ()))
            raise NotCertified("linear programs did not find the rows that stop users. Fix: use instance.pooled()")
        costs, taken = self.programs.costs(row)
        self.prices.append(row)
        self.costs.append(costs)
        self.taken.append(taken)
        return costs, taken


class _Placements:
    """Linear programs over placements, in dominant shares of tasks by leaf and eligible server.

    ``users`` are the first of each leaf, whose demands and teams all of them have. While floors are not reached, leaves
    may have further tasks within their limits, by which they are.
    """

    def __init__(
        self, instance: Instance, cluster: verify.Cluster, tree: verify.Tree, forest: verify.Forest, clock: Clock
    ) -> None:
        self.instance, self.clock, self.parts = instance, clock, list(tree.parts)
        self.users = np.array([users[0] for users in tree.leaves])
        eligible = instance.eligible[self.users]
        self.user, self.server = np.nonzero(eligible)
        self.mu = instance.dominant_shares[self.users]
        self.room_of = instance.capacities * instance.counts[:, None]
        n, m, servers = len(self.users), instance.n_resources, instance.n_servers
        demands = instance.demands[self.users][self.user] / self.mu[self.user, None]
        loads = np.divide(demands, self.room_of[self.server], out=np.zeros_like(demands), where=demands > 0)
        pairs = np.arange(len(self.user))
        used, kind = np.nonzero(loads)
        self.floors = [(tree.names[k], i) for k, of in forest.floors.items() for i in of]
        self.floor = np.array([float(v) for of in forest.floors.values() for v in of.values()])
        teams = [np.isin(self.users, cluster.members[team]) for team, _ in self.floors]
        kinds = [i for _, i in self.floors]
        shares = np.array([[float(g) for g in row] for row in forest.ratios])[:, kinds]
        self.ratios = shares.T * np.reshape(teams, (-1, n)) / self.floor[:, None]
        held = (self.ratios / self.mu)[:, self.user]  # of each floor, by a share of each pair
        floored, holder = np.nonzero(held)
        excess = len(pairs)  # a last column: how far all capacities are exceeded
        capacity = np.flatnonzero(self.room_of.ravel() > 0)
        entries = (
            np.concatenate([loads[used, kind], np.ones(excess), held[floored, holder], -np.ones(len(capacity))]),
            (
                np.concatenate(
                    [self.server[used] * m + kind, servers * m + self.user, servers * m + n + floored, capacity]
                ),
                np.concatenate([pairs[used], pairs, holder, np.full(len(capacity), excess)]),
            ),
        )
        self.matrix = sp.csc_array(entries, shape=(servers * m + n + len(self.floors), excess + 1))
        self.most = instance.tasks_alone[self.users].sum(axis=1) * self.mu
        self.limits = np.array([np.inf if t is None else float(t) for t in forest.limits]) * self.mu
        self.basis: tuple[Int, Int] | None = None
        self.simplex = Simplex()

    def _run(self, costs: Float, top: float, low: Float, high: Float, near: float = 0.0) -> tuple[Float, Row]:
        """Columns and prices of a program in which leaves hold shares between two bounds; floors but for a part."""
        rows = self.room_of.size
        columns = np.full(len(costs), np.inf)
        columns[-1] = top
        floors = np.full(len(self.floors), -np.inf)
        if self._short(low):
            floors, high = np.full(len(self.floors), 1 - near), np.maximum(low, self.limits)
        bounds = (
            np.concatenate([np.full(rows, -np.inf), low, floors]),
            np.concatenate([np.ones(rows), high, np.full(len(floors), np.inf)]),
        )
        self.simplex.give(costs, (np.zeros(len(costs)), columns), bounds, self.matrix, self.basis, SIZE)
        if not self.simplex.run(self.clock, first=DUAL):
            raise NotCertified("a linear program over placements was not solved. Fix: use other units")
        self.basis = self.simplex.of_columns, self.simplex.of_rows
        duals = self.simplex.duals
        return self.simplex.values, self._row(np.maximum(-duals[:rows], 0.0), np.maximum(duals[rows + len(low) :], 0.0))

    def _short(self, held: Float) -> bool:
        """Whether some floor is not reached at shares of leaves."""
        return bool((self.ratios @ (held / self.mu) * (1 + float(verify.TIE)) < 1).any())

    def place(self, tasks: Float) -> tuple[float, Row, Float]:
        """By how much tasks of leaves exceed capacities at best, a row that shows it, and tasks by user and server."""
        held = tasks * self.mu
        costs = np.zeros(self.matrix.shape[1])
        costs[-1] = 1.0
        values, row = self._run(costs, np.inf, held, np.full(len(held), np.inf))
        runs = np.bincount(self.user, values[:-1], len(held))
        scale = np.divide(held, runs, out=np.zeros(len(held)), where=runs > 0) / self.mu
        of_leaf, table = np.zeros((len(held), self.room_of.shape[0])), np.zeros(self.instance.eligible.shape)
        of_leaf[self.user, self.server] = np.maximum(values[:-1], 0.0) * scale[self.user]
        users, leaves, parts = zip(*self.parts, strict=True)
        table[list(users)] = of_leaf[list(leaves)] * np.array(list(map(float, parts)))[:, None]
        over = feasibility(self.instance, table)
        return float(values[-1]), row, table if over < VIOLATION_TOLERANCE / 2 else table / (1.0 + over)

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
            values, row = self._run(costs, 0.0, held * (1 - NOISE / 2), held + more, NOISE / 2)
            runs = np.bincount(self.user, values[:-1], len(held))
            still = left[(runs - held)[left] < 20 * rounds * float(verify.ROOM) * self.most[left]]
            if len(still) == len(left):
                return [], row
            mean, left = mean + values, still
        values = np.maximum(mean / rounds, 0.0)[:-1]
        used = np.flatnonzero(values)
        user, server = self.user[used], self.server[used]
        tasks_of = values[used] / self.mu[user]
        listed = zip(self.users[user].tolist(), server.tolist(), tasks_of.tolist(), strict=True)
        return [[j, s, x] for j, s, x in listed], None

    def costs(self, row: Row) -> tuple[list[float], float]:
        """What a task of each leaf costs at prices, relative to the worth of all, and what floors are worth."""
        prices, earnings, floor = np.zeros(self.room_of.shape), np.zeros(len(self.users)), 0.0
        for where, i, p in row:
            if isinstance(where, str):
                k = self.floors.index((where, i))
                part = p * float(self.floor[k] * self.instance.total_capacities[i])
                earnings += part * self.ratios[k]
                floor += part
            else:
                prices[where, i] = p
        table = self.instance.demands[self.users] @ prices.T
        eligible = self.instance.eligible[self.users]
        least: Float = np.where(eligible, table, np.inf).min(axis=1)
        most = np.minimum(self.most, self.limits) / self.mu
        worth = float((prices * self.room_of).sum() + (np.maximum(earnings - least, 0.0) * most).sum())
        costs = np.where(least - earnings > float(verify.TIE) * earnings, least - earnings, 0.0) / worth
        return costs.tolist(), floor / worth

    def _row(self, prices: Float, floors: Float) -> Row:
        """Prices of whole capacities and floors as prices per unit, without noise."""
        least = NO_PRICE * max(prices.max(initial=0.0), floors.max(initial=0.0))
        kept, m = np.flatnonzero(prices > least), self.instance.n_resources
        per_unit = prices[kept] / self.room_of.ravel()[kept]
        row: Row = [(int(k) // m, int(k) % m, float(p)) for k, p in zip(kept, per_unit, strict=True)]
        units = self.floor * self.instance.total_capacities[[i for _, i in self.floors]]
        return row + [(*self.floors[k], float(floors[k] / units[k])) for k in np.flatnonzero(floors > least)]
