"""Hierarchical DRF in rational numbers (docs/methods/hierarchy.md).

The tree of `HDRF` is filled by the engine of floats (`Filling`) in fractions: what is reached together is equal, and
nothing is reached within a tolerance. On servers that differ, tasks x by leaf can be placed if and only if for all
prices

    sum_j a_j(p) x_j <= sum_si p_si C_si,   a_j(p) = min_s sum_i p_si d_ji   (Proposition 17.4).

The largest part of the tasks at the end that can be placed is a linear program in rationals. If it is below 1, its
duals are the prices of a row that these tasks exceed, and the tree is filled again under it, as by
`fairopt.solve.cluster.hierarchy` in floats. Each vertex of the dual can be a row once, so that this ends; a row that is
found twice would be an error, and ends it too. Numbers in fractions grow with the events. Floors and limits on what
users take together are filled by tolerances, and refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from fairopt.errors import Infeasible, NotCertified, OutOfDomain
from fairopt.exact.allocate import Solved
from fairopt.exact.cluster import Cluster, Table
from fairopt.exact.linear import ExactOptimum, LinearProgram
from fairopt.exact.modelling import Feasible
from fairopt.exact.rationals import Rational, as_rational, rational, total, written
from fairopt.instance import Instance
from fairopt.instance.in_fractions import as_fraction
from fairopt.runtime.clock import Clock, check
from fairopt.solve.cluster.filling import Filling, Forest, Leaf, Tree, vector_of
from fairopt.solve.unfit_guarantees import FIT

__all__ = ["filled", "is_filling", "solve"]

MAX_ROWS_PER_LEAF = 10  # as in floats, where at most 1 was needed

Entry = dict[str, Any]
Prices = dict[tuple[int | str, int], Rational]


class Placed(NamedTuple):
    """Tasks by leaf and server, whether they are all that were asked for, and prices of capacities."""

    tasks: list[dict[int, Rational]]
    value: Rational
    prices: Prices


class Stop(NamedTuple):
    """The number of an event at which a row is full, the tasks of all by then, and whom the row stops."""

    event: int
    tasks: list[Rational]
    who: list[int]


def solve(
    cluster: Cluster, policy: Any, clock: Clock | None = None, record: Callable[..., None] | None = None
) -> Solved:
    """The exact answer of `HDRF`; its value is the smallest dominant share per weight of the root's children.

    ``record`` is a `modelling.Record` with what the program is for in front. It is told of a program for each event at
    which a row is full: users who stop there run as much as they can while nobody runs fewer tasks than by then.
    """
    tasks, entry, least, stops = filled(cluster, policy, clock)
    if record is not None:
        for stop in stops:
            who = {*stop.who}
            within = Cluster(cluster.instance)
            within.low = stop.tasks
            # all tasks of those who stop there, which cannot grow together while nobody falls
            model = Feasible(within, [])
            for (j, _), column in model.pairs.items():
                model.program.costs[column] = model.one if j in who else model.zero
            what = f"event {stop.event}, the most tasks of those who stop there while nobody runs fewer than by then"
            record(what, model, model.program.solve(clock=clock), {}, cluster.zero)
    return tasks, {"proof": [entry]}, least, []


def is_filling(policy: Any, instance: Instance, tasks: Table) -> bool:
    """Whether users run the tasks of the filling."""
    table, *_ = filled(Cluster(instance), policy)
    return [total(row) for row in table] == [total(row) for row in tasks]


def filled(cluster: Cluster, policy: Any, clock: Clock | None = None) -> tuple[Table, Entry, Rational, list[Stop]]:
    """The tasks of `HDRF`, the evidence, the value, and whom full rows stop."""
    if not cluster.active:
        return cluster.empty(), {"states": []}, cluster.zero, []
    if cluster.instance.team_guarantees:
        raise OutOfDomain("guarantees of teams are filled by tolerances")
    if cluster.instance.limits:
        raise OutOfDomain("limits of an instance are filled by tolerances; leave them out: replace(limits=())")
    tree, one_pool = _tree(cluster, policy), _is_one_pool(cluster)
    rows: list[Prices] = []
    while True:
        check("filling the tree in fractions", len(rows))
        forest = _forest(cluster, tree, rows)
        filling = Filling(forest, rational, not one_pool, rounded=False)
        stops = _fill(cluster, tree, filling)
        tasks = filling.now()
        entry: Entry = {"states": tree.entries(filling, written)}
        if one_pool:  # capacities in total are all rows: each server has an equal part
            copies = sum(cluster.counts)
            table = [[x * q / copies for q in cluster.counts] for x in _by_user(cluster, tree, tasks)]
            return table, entry, _smallest(filling, forest), stops
        # the end first: tasks never fall, so that if they fit there they do at all events
        placed = _place(cluster, tree, tasks, [], clock)
        # a user that waited until a row stopped it has to have had room before (17.4), shown by a placement
        missing, placements = placed.prices if placed.value < 1 else None, []
        for before, waiting in filling.waited if missing is None else ():
            room = _place(cluster, tree, before, waiting, clock)
            if room.value <= 0:
                missing = room.prices
                break
            placements.append([[j, s, written(x)] for j, s, x in _spread(tree, room.tasks)])
        if missing is None:
            more = {"rows": [_listed(row) for row in rows], "placements": placements}
            table = cluster.empty()
            for j, s, x in _spread(tree, placed.tasks):
                table[j][s] = x
            entry |= {key: value for key, value in more.items() if value}
            return table, entry, _smallest(filling, forest), stops
        if not rows and any(forest.starts):  # the first row may be against the guarantees themselves
            _refuse_unfit(cluster, tree, forest, clock)
        if missing in rows or len(rows) > MAX_ROWS_PER_LEAF * len(tasks):
            raise NotCertified("linear programs did not find the rows that stop users. Fix: use instance.pooled()")
        rows.append(missing)


def _fill(cluster: Cluster, tree: Tree, filling: Filling) -> list[Stop]:
    """Fill to the end; whom full rows stop."""
    stops, seen = list[Stop](), 0
    for _ in filling.steps():
        check()
        leaves = [leaf for event in filling.events[seen:] if event.cause != "limit" for leaf in event.leaves]
        seen = len(filling.events)
        if leaves:
            # the last state so far at which something became full
            number = max(k for k, state in enumerate(filling.states, 1) if state.full)
            who = [j for leaf in leaves for j in tree.leaves[leaf]]
            stops.append(Stop(number, _by_user(cluster, tree, filling.now()), who))
    return stops


def _is_one_pool(cluster: Cluster) -> bool:
    """Whether all servers are equal and open to all users."""
    return all(row == cluster.capacities[0] for row in cluster.capacities[1:]) and all(
        len(cluster.open[j]) == cluster.servers for j in cluster.active
    )


def _tree(cluster: Cluster, policy: Any) -> Tree:
    """The tree of a policy in fractions."""
    exact = cluster.instance.in_fractions
    given = {name: as_rational(as_fraction(w)) for name, w in (policy.weights or {}).items()}
    columns = [cluster.instance.teams[by] for by in policy.by]
    teams = {name for column in columns for name in column}
    labels = {j: [column[j] for column in columns] for j in cluster.active}
    weights = {}
    for j in cluster.active:
        user, own = cluster.users[j], as_rational(exact.own_weights[j])
        weights[j] = own if user in teams else given.get(user, own)

    def kind(j: int) -> Any:
        per_weight = (None if x is None else x / weights[j] for x in (cluster.limits[j], cluster.low[j]))
        # who is equal in all of this has equal levels throughout (Proposition 17.6)
        return *cluster.demands[j][cluster.open[j][0]], *cluster.open[j], *per_weight

    def of_team(name: str) -> Rational:
        return given.get(name) or as_rational(exact.team_weights.get(name, Fraction(1)))

    return Tree.of(labels, of_team, weights, kind)


def _forest(cluster: Cluster, tree: Tree, rows: Sequence[Prices]) -> Forest:
    """What the tree fills: all capacities, and rows of prices, of which a task costs at least its smallest cost."""
    firsts = [users[0] for users in tree.leaves]
    demands = [cluster.demands[j][cluster.open[j][0]] for j in firsts]
    limits = [[t for j in users if (t := cluster.limits[j]) is not None] for users in tree.leaves]
    costs = []
    for row in rows:  # relative to the worth of all capacities: a row is full at 1, as a resource is
        on: dict[int | str, list[tuple[int, Rational]]] = {}
        for (s, i), p in row.items():
            on.setdefault(s, []).append((i, p))
        worth = total(p * cluster.room[int(s)][i] for (s, i), p in row.items())  # above 0
        costs.append(
            [
                min(total(p * needs[i] for i, p in on.get(s, ())) for s in cluster.open[j]) / worth
                for j, needs in zip(firsts, demands, strict=True)
            ]
        )
    return Forest(
        tree.parents,
        tree.weights,
        tree.leaf_parents,
        tree.leaf_weights,
        [[d / c if c else cluster.zero for d, c in zip(needs, cluster.capacity, strict=True)] for needs in demands],
        [total(some) if some else None for some in limits],
        [total(cluster.low[j] for j in users) for users in tree.leaves],
        costs,
        [cluster.zero] * len(rows),
        {},
    )


def _refuse_unfit(cluster: Cluster, tree: Tree, forest: Forest, clock: Clock | None) -> None:
    """Raise `Infeasible` if the tasks that are guaranteed do not fit."""
    if _place(cluster, tree, forest.starts, [], clock).value < 1:
        raise Infeasible(f"guarantees do not fit in rational numbers; {FIT}")


def _place(
    cluster: Cluster,
    tree: Tree,
    tasks: Sequence[Rational],
    waiting: Sequence[int],
    clock: Clock | None,
) -> Placed:
    """Place the largest part, up to all, of tasks by leaf; or all, with as many more as possible of leaves that wait.

    The value is that part, or what is more as a part of the tasks that a leaf could run alone. The prices of capacities
    say as a row why a part is below 1, or nothing is more.
    """
    program, zero = LinearProgram(), cluster.zero
    one = rational(1)
    firsts = [users[0] for users in tree.leaves]
    pairs = {(leaf, s): program.column(zero) for leaf, j in enumerate(firsts) for s in cluster.open[j]}
    rise = program.column(one)
    loads: dict[tuple[int, int], dict[int, Any]] = {}
    for (leaf, s), column in pairs.items():
        for i, d in enumerate(cluster.demands[firsts[leaf]][s]):
            if d:
                loads.setdefault((s, i), {})[column] = d
    prices = {program.row(load, cluster.room[s][i]): (s, i) for (s, i), load in loads.items()}
    for leaf, x in enumerate(tasks):
        runs = {pairs[leaf, s]: -one for s in cluster.open[firsts[leaf]]}
        if leaf in waiting:  # more by the same part of what each could run alone
            alone = total(cluster.tasks_alone(firsts[leaf], s) or cluster.zero for s in cluster.open[firsts[leaf]])
            program.row({**runs, rise: alone}, -x)
        elif waiting:
            program.row(runs, -x)
        else:
            program.row({**runs, rise: x}, zero)
    program.row({rise: one}, one)  # at most all, or for who waits at most what it could run alone
    optimum: ExactOptimum = program.solve(clock=clock)
    out: list[dict[int, Rational]] = [{} for _ in tasks]
    for (leaf, s), column in pairs.items():
        if optimum.point[column]:
            out[leaf][s] = optimum.point[column]
    if not waiting:  # rows ask for at least so many tasks, of which the optimum may have more
        for leaf, x in enumerate(tasks):
            placed = total(out[leaf].values())
            out[leaf] = {s: v * x / placed for s, v in out[leaf].items()} if placed else {}
    row: Prices = {place: y for k, place in prices.items() if (y := optimum.multipliers[k])}
    return Placed(out, optimum.point[rise], row)


def _spread(tree: Tree, of_leaves: Sequence[dict[int, Rational]]) -> list[tuple[int, int, Rational]]:
    """Tasks by user and server from those of leaves."""
    return [(j, s, x * part) for j, leaf, part in tree.parts for s, x in of_leaves[leaf].items()]


def _by_user(cluster: Cluster, tree: Tree, tasks: Sequence[Rational]) -> list[Rational]:
    """Tasks of each user from those of leaves."""
    out = [cluster.zero] * cluster.n
    for j, leaf, part in tree.parts:
        out[j] = tasks[leaf] * part
    return out


def _smallest(filling: Filling, forest: Forest) -> Rational:
    """The smallest dominant share per weight of the root's children."""
    least: Rational = min(
        max(vector_of(child)) / (forest.leaf_weights if isinstance(child, Leaf) else forest.weights)[child.number]
        for child in filling.branches[0].children
    )
    return least


def _listed(row: Prices) -> list[list[Any]]:
    return [[s, i, written(p)] for (s, i), p in row.items()]
