"""Hierarchical DRF on several servers or with floors: rows that stop users, found by linear programs over placements.

Tasks x can be placed on servers if and only if for all prices ``p >= 0`` of resources on server rows

    sum_j a_j(p) x_j <= sum_si p_si C_si,   a_j(p) = min_s sum_i p_si d_ji,

which linear duality gives (Proposition 17.4). Those of which there can be more that keep the floors of teams are within
such rows too, from whose costs and worth prices of the floors are taken. There are infinitely many rows; few matter (at
most one per leaf was needed). So the tree is filled under the rows known so far (`filling`). If the tasks at the end do
not fit, the dual of the program of least excess is a further row, and the tree is filled again; likewise if a user
waited until a row stopped it and had no room before. As tasks never fall, what fits at the end fits before: one program
a filling is enough, where one at each event would be as exact and take as many as there are events.

Rounding: HiGHS leaves 1e-10 of each row. Programs are passed a thousand times as large, as its tolerances are absolute;
excess below 1e-11 fits, and below 1e-7 if no row that is not there shows it. Prices below 1e-12 of the largest are
noise, which would stop users who need only a trace. `fairopt.proof.filling_states` confirms states, rows and placements
(docs/methods/hierarchy.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fairopt.allocation import feasibility
from fairopt.blocks.guarantees import TeamFloor, limited_units, team_floors
from fairopt.blocks.objectives import Total
from fairopt.blocks.shares import Tasks
from fairopt.errors import Infeasible, NotCertified
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.clock import Clock, check
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import NOISE, VIOLATION_TOLERANCE
from fairopt.solve.cluster.filling import TIE, Filling, Forest, Tree
from fairopt.solve.form.program import Program
from fairopt.solve.form.simplex import DUAL, Simplex
from fairopt.solve.unfit_guarantees import FIT, refuse_unfit

# Tasks that exceed capacities by less fit, as they do by less than the second if no new row shows it. Prices below the
# third, relative to the largest, are solver noise.
FITS, NEARLY, NO_PRICE = 1e-11, 1e-7, 1e-12
ROOM = 2e-6  # of the tasks that a user could run alone: room for more; proofs ask for a twentieth
SIZE = 1e3  # of a program's numbers, whose tolerances are absolute
NEARLY_WHOLE = 16 * float(np.finfo(float).eps)  # relative: what rounding alone tells from a whole number is one
MAX_ROWS_PER_LEAF = 10  # rows per leaf: at most 1 was needed

# prices by server and resource, then of limits of the instance (None and their index), then by team and resource
Terms = list[tuple[int | str | None, int, float]]


class Filled(NamedTuple):
    """Tasks by user and server, (n_users, n_servers), and the evidence for `fairopt.proof.filling_states`."""

    tasks: Float
    entry: dict[str, Any]


def fill(
    instance: Instance,
    policy: Any,
    clock: Clock,
    shares_of: Instance | None = None,
    more: Sequence[float] | None = None,
    found: Sequence[Terms] = (),
) -> Filled:
    """Fill the tree of `HDRF` on an instance in which identical servers are one row.

    Shares are of the capacities of ``shares_of``, of whose resources the instance may have ``more``, as fractions.
    Rows ``found`` on an instance that differs little hold here too, as every prices make one, and mostly suffice: with
    them a change takes one filling, where without them one of 600 servers in 20 rows took four.
    """
    known = instance if shares_of is None else shares_of
    floors, several = team_floors(known), known.n_servers > 1 or bool(known.limits)
    entry: dict[str, Any] = {"kind": "filling", "floors": _entry(floors)}
    tree = Tree.in_floats(known, policy)
    if not tree.leaves:
        return Filled(np.zeros(instance.eligible.shape), entry)
    units = {team: {i: float(floor.units[i]) for i in floor.uses if floor.units[i]} for team, floor in floors.items()}
    forest = tree.forest_in_floats(known, units)
    more = [0.0] * instance.n_resources if more is None else more
    if not several and not instance.team_guarantees:
        made = filling(forest, more)
        table = _on_one(instance, tree, made.run())
        return Filled(table, entry | {"states": tree.entries(made), "events": tree.events(made, known)})
    programs = _Placements(instance, known, tree, forest, clock)
    rows: list[Terms] = []
    for row in found:
        rows.append(row)
        forest = programs.within(row, forest)
    if (over := programs.place(np.array(forest.starts))[0]) > VIOLATION_TOLERANCE:
        refuse_unfit(Program(instance, Total(Tasks()), ()))
        raise Infeasible(f"guarantees do not fit: they need {over:.2%} more than the capacities; {FIT}")
    while True:
        check("filling the tree", len(rows))
        made = filling(forest, more, watch=several)  # from the start: a new row may stop users early on
        tasks = made.run()
        over, row, table = programs.place(np.array(tasks))
        placements, missing = [], row if over > FITS and (over > NEARLY or row not in rows) else None
        for before, waiting in made.waited if missing is None else ():
            placement, missing = programs.room(np.array(before), np.array(waiting))
            if missing is not None:
                break
            placements.append(placement)
        if missing is None:
            entry |= {"rows": [[list(price) for price in row] for row in rows], "placements": placements}
            entry |= {"states": tree.entries(made), "events": tree.events(made, known)}
            return Filled(table if several else _on_one(instance, tree, tasks), entry)
        if missing in rows or len(rows) > MAX_ROWS_PER_LEAF * len(tree.leaves):
            refuse_unfit(Program(instance, Total(Tasks()), ()))
            raise NotCertified("linear programs did not find the rows that stop users. Fix: use instance.pooled()")
        rows.append(missing)
        forest = programs.within(missing, forest)


def rows_of(entry: Mapping[str, Any]) -> list[Terms]:
    """The rows of a filling, from its evidence."""
    return [[(where, i, p) for where, i, p in row] for row in entry.get("rows") or ()]


def filling(forest: Forest, more: Sequence[float], watch: bool = False) -> Filling:
    """A filling in floats with ``more`` capacity of each resource, as a part of the total of which shares are taken."""
    made = Filling(forest, watch=watch)
    made.used = [used - by for used, by in zip(made.used, [*more, *[0.0] * len(forest.rows)], strict=True)]
    return made


def _entry(floors: Mapping[str, TeamFloor]) -> dict[str, Any]:
    """Evidence for what teams are guaranteed: tasks that use so much, and prices by which none use more."""
    return {team: {str(i): use.entry for i, use in floor.uses.items()} for team, floor in floors.items()}


def _on_one(pool: Instance, tree: Tree, tasks: Sequence[float]) -> Float:
    """The tasks of users on one pool, (n_users, 1), within capacities and limits in spite of rounding."""
    out = np.zeros(pool.n_users)
    for j, leaf, part in tree.parts:
        out[j] = tasks[leaf] * part
    whole = np.rint(out)
    out = np.where(np.abs(out - whole) <= NEARLY_WHOLE * whole, whole, out)
    used = out @ pool.ratios
    fitting: Float = np.minimum(out / max(float(used.max()), 1.0), pool.task_limits)
    return fitting[:, None]


class _Placements:
    """Linear programs over placements, in dominant shares of tasks by leaf and eligible server.

    ``users`` are the first of each leaf, whose demands and teams all of them have. While floors are not reached, leaves
    may have further tasks within their limits, by which they are.
    """

    def __init__(self, instance: Instance, shares_of: Instance, tree: Tree, forest: Forest, clock: Clock) -> None:
        self.instance, self.clock, self.parts = instance, clock, list(tree.parts)
        self.users = np.array([users[0] for users in tree.leaves])
        eligible = instance.eligible[self.users]
        self.user, self.server = np.nonzero(eligible)
        self.mu = instance.dominant_shares[self.users]
        self.room_of = instance.capacities * instance.counts[:, None]
        n, m, servers = len(self.users), instance.n_resources, instance.n_servers
        # per unit of dominant share: columns of one size, whatever the units of tasks
        demands = instance.demands[self.users][self.user] / self.mu[self.user, None]
        loads = np.divide(demands, self.room_of[self.server], out=np.zeros_like(demands), where=demands > 0)
        pairs = np.arange(len(self.user))
        used, kind = np.nonzero(loads)
        self.floors = [(tree.names[k], i) for k, of in forest.floors.items() for i in of]
        self.floor = np.array([v for of in forest.floors.values() for v in of.values()])
        teams = [np.isin(self.users, shares_of.teams.names[team]) for team, _ in self.floors]
        kinds = [i for _, i in self.floors]
        shares = np.array(forest.ratios)[:, kinds]
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
        floored_rows = sp.csc_array(entries, shape=(servers * m + n + len(self.floors), excess + 1))
        self.limited = np.zeros((len(instance.limits), len(pairs)))  # units of a limit that a task of a pair takes
        for k, units in enumerate(limited_units(instance)):
            self.limited[k] = units[self.users][self.user, self.server]
        self.amounts = np.array([limit.amount for limit in instance.limits])
        parts = self.limited / self.mu[self.user] / np.where(self.amounts > 0, self.amounts, 1.0)[:, None]
        self.matrix = sp.vstack(
            [floored_rows, sp.csc_array(np.hstack([parts, -np.ones((len(parts), 1))]))], format="csc"
        )
        self.most = instance.tasks_alone[self.users].sum(axis=1) * self.mu
        self.limits = np.array([np.inf if t is None else t for t in forest.limits]) * self.mu
        self.basis: tuple[Indices, Indices] | None = None
        self.simplex = Simplex()

    def _run(self, costs: Float, top: float, low: Float, high: Float, near: float = 0.0) -> tuple[Float, Terms]:
        """Columns and prices of a program in which leaves hold shares between two bounds; floors but for a part."""
        rows = self.room_of.size
        columns = np.full(len(costs), np.inf)
        columns[-1] = top
        floors = np.full(len(self.floors), -np.inf)
        if self._short(low):
            floors, high = np.full(len(self.floors), 1 - near), np.maximum(low, self.limits)
        limits = len(self.amounts)
        bounds = (
            np.concatenate([np.full(rows, -np.inf), low, floors, np.full(limits, -np.inf)]),
            np.concatenate([np.ones(rows), high, np.full(len(floors), np.inf), np.ones(limits)]),
        )
        self.simplex.give(costs, (np.zeros(len(costs)), columns), bounds, self.matrix, self.basis, SIZE)
        if not self.simplex.run(self.clock, first=DUAL):
            raise NotCertified("a linear program over placements was not solved. Fix: use other units")
        self.basis = self.simplex.of_columns, self.simplex.of_rows
        duals = self.simplex.duals
        at = rows + len(low)
        prices, earnings, charged = -duals[:rows], duals[at : at + len(floors)], -duals[at + len(floors) :]
        return self.simplex.values, self._row(*(np.maximum(of, 0.0) for of in (prices, earnings, charged)))

    def _short(self, held: Float) -> bool:
        """Whether some floor is not reached at shares of leaves."""
        return bool((self.ratios @ (held / self.mu) * (1 + TIE) < 1).any())

    def place(self, tasks: Float) -> tuple[float, Terms, Float]:
        """By how much tasks of leaves exceed capacities at best, a row that shows it, and tasks by user and server."""
        held = tasks * self.mu
        costs = np.zeros(self.matrix.shape[1])
        costs[-1] = 1.0  # the least excess over all capacities
        values, row = self._run(costs, np.inf, held, np.full(len(held), np.inf))
        # rows ask for at least so much, and to HiGHS's tolerance: each leaf is scaled to what it holds
        runs = np.bincount(self.user, values[:-1], len(held))
        scale = np.divide(held, runs, out=np.zeros(len(held)), where=runs > 0) / self.mu
        of_leaf, table = np.zeros((len(held), self.room_of.shape[0])), np.zeros(self.instance.eligible.shape)
        of_leaf[self.user, self.server] = np.maximum(values[:-1], 0.0) * scale[self.user]
        users, leaves, parts = zip(*self.parts, strict=True)
        table[list(users)] = of_leaf[list(leaves)] * np.array(list(map(float, parts)))[:, None]
        over = feasibility(self.instance, table)
        return float(values[-1]), row, table if over < VIOLATION_TOLERANCE / 2 else table / (1.0 + over)

    def room(self, tasks: Float, waiting: Indices) -> tuple[list[list[float]], Terms | None]:
        """A placement in which waiting leaves have more tasks; or a row that shows that some have no room."""
        held = tasks * self.mu
        mean, left, rounds = np.zeros(self.matrix.shape[1]), waiting, 0
        # each round gives room to some of those who wait, and the mean of the placements gives some to all
        while len(left):
            rounds += 1
            costs = np.zeros(self.matrix.shape[1])
            more = np.zeros(len(held))
            more[left] = 0.01 * self.most[left]  # so that no leaf takes all the room of a round
            wanted = np.isin(self.user, left)
            costs[:-1][wanted] = -1.0 / self.most[self.user[wanted]]
            # half of what proofs allow is left to the program, so that tasks on the edge of a capacity are not
            # infeasible
            values, row = self._run(costs, 0.0, held * (1 - NOISE / 2), held + more, NOISE / 2)
            runs = np.bincount(self.user, values[:-1], len(held))
            still = left[(runs - held)[left] < rounds * ROOM * self.most[left]]
            if len(still) == len(left):
                return [], row
            mean, left = mean + values, still
        values = np.maximum(mean / rounds, 0.0)[:-1]
        used = np.flatnonzero(values)
        user, server = self.user[used], self.server[used]
        tasks_of = values[used] / self.mu[user]
        listed = zip(self.users[user].tolist(), server.tolist(), tasks_of.tolist(), strict=True)
        return [[j, s, x] for j, s, x in listed], None

    def within(self, row: Terms, forest: Forest) -> Forest:
        """A forest that is within a further row."""
        costs, taken = self.costs(row)
        return forest._replace(rows=[*forest.rows, costs], taken=[*forest.taken, taken])

    def costs(self, row: Terms) -> tuple[list[float], float]:
        """What a task of each leaf costs at prices, relative to the worth of all, and what floors are worth."""
        prices, earnings, floor = np.zeros(self.room_of.shape), np.zeros(len(self.users)), 0.0
        charged, limited = np.zeros(len(self.user)), 0.0
        for where, i, p in row:
            if where is None:
                charged += p * self.limited[i]
                limited += p * float(self.amounts[i])
            elif isinstance(where, str):
                k = self.floors.index((where, i))
                part = p * float(self.floor[k] * self.instance.total_capacities[i])
                earnings += part * self.ratios[k]
                floor += part
            else:
                prices[where, i] = p
        table = self.instance.demands[self.users] @ prices.T
        table[self.user, self.server] += charged
        eligible = self.instance.eligible[self.users]
        least: Float = np.where(eligible, table, np.inf).min(axis=1)  # the row holds for every placement
        most = np.minimum(self.most, self.limits) / self.mu
        worth = float((prices * self.room_of).sum() + limited + (np.maximum(earnings - least, 0.0) * most).sum())
        costs = np.where(least - earnings > TIE * earnings, least - earnings, 0.0) / worth
        return costs.tolist(), floor / worth

    def _row(self, prices: Float, floors: Float, limits: Float) -> Terms:
        """Prices of whole capacities, floors and limits as prices per unit, without noise."""
        least = NO_PRICE * max(of.max(initial=0.0) for of in (prices, floors, limits))
        kept, m = np.flatnonzero(prices > least), self.instance.n_resources
        per_unit = prices[kept] / self.room_of.ravel()[kept]
        row: Terms = [(int(k) // m, int(k) % m, float(p)) for k, p in zip(kept, per_unit, strict=True)]
        limited = np.flatnonzero((limits > least) & (self.amounts > 0)).tolist()  # no pair is in a limit of 0
        row += [(None, k, float(limits[k] / self.amounts[k])) for k in limited]
        units = self.floor * self.instance.total_capacities[[i for _, i in self.floors]]
        return row + [(*self.floors[k], float(floors[k] / units[k])) for k in np.flatnonzero(floors > least)]
