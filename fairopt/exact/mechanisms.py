"""Hierarchical DRF and policies that decide bundles in rational numbers.

The tree of `HDRF` is filled without tolerances. On servers that differ, tasks that cannot be placed exceed a row of
prices, which the dual of a linear program in rationals gives; the tree is filled again under it, as by
`fairopt.methods.cluster.hierarchy` in floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fairopt.errors import Infeasible, NotCertified
from fairopt.exact.linear import LinearProgram, Optimum
from fairopt.exact.modelling import as_fraction, as_rational
from fairopt.methods.cluster.filling import Filling, Forest, Leaf, Tree, vector_of
from fairopt.proofs import rational
from fairopt.runtime.clock import Clock, check

__all__ = ["bundled", "filled"]

MOST = 10  # rows per leaf

Entry = dict[str, Any]
Prices = dict[tuple[int | str, int], rational.Fraction]


class Placed(NamedTuple):
    """Tasks by leaf and server, whether they are all that were asked for, and prices of capacities."""

    tasks: list[dict[int, rational.Fraction]]
    value: rational.Fraction
    prices: Prices


def bundled(cluster: rational.Cluster, policy: rational.Block) -> tuple[rational.Table, Entry]:
    """The tasks that fit in the best bundles, and the evidence: the bundles."""
    bundles = rational.optimal_bundles(cluster, policy.given["objective"], policy.given.get("constraints", []))
    listed = [[[rational.written(a) for a in row] for row in of_user] for of_user in bundles]
    return rational.tasks_in(cluster, bundles), {"bundles": listed}


def filled(
    cluster: rational.Cluster, policy: rational.Block, clock: Clock | None = None
) -> tuple[rational.Table, Entry, rational.Fraction]:
    """The tasks of `HDRF`, the evidence, and the smallest dominant share per weight of the root's children."""
    if not cluster.active:
        return [[rational.ZERO] * cluster.servers for _ in range(cluster.n)], {"states": []}, rational.ZERO
    if cluster.team_guarantees:
        raise rational.CannotCheck("guarantees of teams are filled by tolerances")
    tree, one_pool = _tree(cluster, policy), rational.is_one_pool(cluster)
    rows: list[Prices] = []
    while True:
        check("filling the tree in fractions", len(rows))
        forest = _forest(cluster, tree, rows)
        filling = Filling(forest, rational.Fraction, not one_pool, rounded=False)
        found = filling.run()
        entry: Entry = {"states": tree.entries(filling, rational.written)}
        if one_pool:
            copies = sum(cluster.counts)
            table = [[x * q / copies for q in cluster.counts] for x in _by_user(cluster, tree, found)]
            return table, entry, _smallest(filling, forest)
        placed = _place(cluster, tree, found, [], clock)
        missing, placements = placed.prices if placed.value < 1 else None, []
        for before, waiting in filling.waited if missing is None else ():
            room = _place(cluster, tree, before, waiting, clock)
            if room.value <= 0:
                missing = room.prices
                break
            placements.append([[j, s, rational.written(x)] for j, s, x in _spread(tree, room.tasks)])
        if missing is None:
            more = {"rows": [_listed(row) for row in rows], "placements": placements}
            table = [[rational.ZERO] * cluster.servers for _ in range(cluster.n)]
            for j, s, x in _spread(tree, placed.tasks):
                table[j][s] = x
            return table, entry | {key: value for key, value in more.items() if value}, _smallest(filling, forest)
        if not rows and any(forest.starts):
            _refuse_unfit(cluster, tree, forest, clock)
        if missing in rows or len(rows) > MOST * len(found):
            raise NotCertified("linear programs did not find the rows that stop users. Fix: use instance.pooled()")
        rows.append(missing)


def _tree(cluster: rational.Cluster, policy: rational.Block) -> Tree:
    """The tree of a policy in fractions."""
    given = {name: rational.number(w, "weights") for name, w in (policy.given.get("weights") or {}).items()}
    columns = [cluster.teams[by] for by in policy.given.get("by", ["team"])]
    labels = {j: [column[j] for column in columns] for j in cluster.active}
    weights = {j: given.get(cluster.users[j], cluster.own_weights[j]) for j in cluster.active}

    def kind(j: int) -> Any:
        per_weight = (None if x is None else x / weights[j] for x in (cluster.limits[j], cluster.low[j]))
        return *cluster.demands[j][cluster.open[j][0]], *cluster.open[j], *per_weight

    def of_team(name: str) -> rational.Fraction:
        return given.get(name) or rational.number(cluster.team_weights.get(name, 1), "weights")

    return Tree.of(labels, of_team, weights, kind)


def _forest(cluster: rational.Cluster, tree: Tree, rows: Sequence[Prices]) -> Forest:
    """What the tree fills: all capacities, and rows of prices, of which a task costs at least its smallest cost."""
    firsts = [users[0] for users in tree.leaves]
    demands = [cluster.demands[j][cluster.open[j][0]] for j in firsts]
    limits = [[t for j in users if (t := cluster.limits[j]) is not None] for users in tree.leaves]
    costs = []
    for row in rows:
        on: dict[int | str, list[tuple[int, rational.Fraction]]] = {}
        for (s, i), p in row.items():
            on.setdefault(s, []).append((i, p))
        worth = rational.exact_sum(p * cluster.room[int(s)][i] for (s, i), p in row.items())
        costs.append(
            [
                min(rational.exact_sum(p * needs[i] for i, p in on.get(s, ())) for s in cluster.open[j]) / worth
                for j, needs in zip(firsts, demands, strict=True)
            ]
        )
    return Forest(
        tree.parents,
        tree.weights,
        tree.leaf_parents,
        tree.leaf_weights,
        [[d / c if c else rational.ZERO for d, c in zip(needs, cluster.capacity, strict=True)] for needs in demands],
        [rational.exact_sum(some) if some else None for some in limits],
        [rational.exact_sum(cluster.low[j] for j in users) for users in tree.leaves],
        costs,
        [rational.ZERO] * len(rows),
        {},
    )


def _refuse_unfit(cluster: rational.Cluster, tree: Tree, forest: Forest, clock: Clock | None) -> None:
    """Raise `Infeasible` if the tasks that are guaranteed do not fit."""
    if _place(cluster, tree, forest.starts, [], clock).value < 1:
        raise Infeasible("guarantees do not fit in rational numbers; lower some")


def _place(
    cluster: rational.Cluster,
    tree: Tree,
    tasks: Sequence[rational.Fraction],
    waiting: Sequence[int],
    clock: Clock | None,
) -> Placed:
    """Place the largest part, up to all, of tasks by leaf; or all, with as many more as possible of leaves that wait.

    The value is that part, or what is more as a part of the tasks that a leaf could run alone. The prices of capacities
    say as a row why a part is below 1, or nothing is more.
    """
    program, zero = LinearProgram(), as_rational(rational.ZERO)
    one = as_rational(rational.ONE)
    firsts = [users[0] for users in tree.leaves]
    pairs = {(leaf, s): program.column(zero) for leaf, j in enumerate(firsts) for s in cluster.open[j]}
    rise = program.column(one)
    loads: dict[tuple[int, int], dict[int, Any]] = {}
    for (leaf, s), column in pairs.items():
        for i, d in enumerate(cluster.demands[firsts[leaf]][s]):
            if d:
                loads.setdefault((s, i), {})[column] = as_rational(d)
    prices = {program.row(load, as_rational(cluster.room[s][i])): (s, i) for (s, i), load in loads.items()}
    for leaf, x in enumerate(tasks):
        runs = {pairs[leaf, s]: -one for s in cluster.open[firsts[leaf]]}
        if leaf in waiting:
            alone = rational.exact_sum(
                cluster.tasks_alone(firsts[leaf], s) or rational.ZERO for s in cluster.open[firsts[leaf]]
            )
            program.row({**runs, rise: as_rational(alone)}, -as_rational(x))
        elif waiting:
            program.row(runs, -as_rational(x))
        else:
            program.row({**runs, rise: as_rational(x)}, zero)
    program.row({rise: one}, one)
    found: Optimum = program.solve(clock=clock)
    out: list[dict[int, rational.Fraction]] = [{} for _ in tasks]
    for (leaf, s), column in pairs.items():
        if found.point[column]:
            out[leaf][s] = as_fraction(found.point[column])
    if not waiting:  # rows ask for at least so many tasks
        for leaf, x in enumerate(tasks):
            total = rational.exact_sum(out[leaf].values())
            out[leaf] = {s: v * x / total for s, v in out[leaf].items()} if total else {}
    row: Prices = {place: as_fraction(y) for k, place in prices.items() if (y := found.multipliers[k])}
    return Placed(out, as_fraction(found.point[rise]), row)


def _spread(tree: Tree, of_leaves: Sequence[dict[int, rational.Fraction]]) -> list[tuple[int, int, rational.Fraction]]:
    """Tasks by user and server from those of leaves."""
    return [(j, s, x * part) for j, leaf, part in tree.parts for s, x in of_leaves[leaf].items()]


def _by_user(cluster: rational.Cluster, tree: Tree, tasks: Sequence[rational.Fraction]) -> list[rational.Fraction]:
    """Tasks of each user from those of leaves."""
    out = [rational.ZERO] * cluster.n
    for j, leaf, part in tree.parts:
        out[j] = tasks[leaf] * part
    return out


def _smallest(filling: Filling, forest: Forest) -> rational.Fraction:
    """The smallest dominant share per weight of the root's children."""
    found: rational.Fraction = min(
        max(vector_of(child)) / (forest.leaf_weights if isinstance(child, Leaf) else forest.weights)[child.number]
        for child in filling.branches[0].children
    )
    return found


def _listed(row: Prices) -> list[list[Any]]:
    return [[s, i, rational.written(p)] for (s, i), p in row.items()]
