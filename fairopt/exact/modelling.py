"""The tiers of a policy as linear programs in rationals, and the evidence that `fairopt.proofs.rational` checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairopt.exact.flint import flint
from fairopt.exact.linear import LinearProgram, Optimum
from fairopt.proofs import rational
from fairopt.runtime.clock import Clock
from fairopt.runtime.progress import tell

__all__ = ["Feasible", "as_rational", "floors", "leximin", "optimum"]

Rational = Any  # `flint.fmpq`
Slopes = Mapping[rational.Pair, rational.Fraction]
Entry = dict[str, Any]  # evidence as a file holds it
# Is told of each program solved: the program, its optimum, the rows of ranked numbers, a constant beside the value.
Record = Callable[["Feasible", Optimum, Mapping[str, int], rational.Fraction], None]


def as_rational(value: rational.Fraction) -> Rational:
    """A fraction of `rational` as a number of python-flint."""
    return flint.fmpq(value.n, value.d)


def as_fraction(value: Rational) -> rational.Fraction:
    """A number of python-flint as a fraction of `rational`."""
    return rational.Fraction(int(value.p), int(value.q))


class Feasible:
    """The feasible tasks of a cluster as a linear program, to which objectives are added.

    Columns are first the (user, server) pairs, in the order of ``pairs``.
    """

    def __init__(self, cluster: rational.Cluster, rows: rational.Rows) -> None:
        self.cluster, self.program = cluster, LinearProgram()
        fmpq = flint.fmpq
        self.zero, self.one = fmpq(0), fmpq(1)
        self.pairs = {(j, s): self.program.column(self.zero) for j in cluster.active for s in cluster.open[j]}
        self.prices: dict[int, tuple[int, int]] = {}  # of capacities, by row
        self.rows: dict[int, int] = {}  # of `rows`, by row
        self.kept: list[int] = []
        self.mixtures: list[dict[str, list[int]]] = []  # the rows of each number, by ranked term
        users: dict[int, list[int]] = {}
        for j, s in self.pairs:
            users.setdefault(s, []).append(j)
        for (s, i), usable in cluster.usable_units().items():
            load = {self.pairs[j, s]: as_rational(d) for j in users.get(s, ()) if (d := cluster.demands[j][s][i])}
            if load:
                self.prices[self.program.row(load, as_rational(usable))] = s, i
        for j in cluster.active:
            every = [self.pairs[j, s] for s in cluster.open[j]]
            if (high := cluster.high[j]) is not None:
                self.program.row(dict.fromkeys(every, self.one), as_rational(high))
            if cluster.low[j]:
                self.program.row(dict.fromkeys(every, -self.one), -as_rational(cluster.low[j]))
        for k, (of_pairs, bound, equal) in enumerate(rows):
            self.rows[self.at_most(of_pairs, bound, equal)] = k

    def entries(self, of_pairs: Slopes) -> dict[int, Rational]:
        """A linear function of tasks, by column."""
        return {self.pairs[pair]: as_rational(v) for pair, v in of_pairs.items() if pair in self.pairs}

    def at_most(self, of_pairs: Slopes, bound: rational.Fraction, equal: bool = False) -> int:
        """A row of the program."""
        return self.program.row(self.entries(of_pairs), as_rational(bound), equal)

    def tasks(self, found: Optimum) -> rational.Table:
        """The tasks of an optimum, by user and server."""
        cluster = self.cluster
        out = [[rational.ZERO] * cluster.servers for _ in range(cluster.n)]
        for (j, s), column in self.pairs.items():
            out[j][s] = as_fraction(found.point[column])
        return out

    def evidence(self, found: Optimum) -> Entry:
        """The multipliers of capacities and rows."""
        y = found.multipliers
        entry: Entry = {
            "prices": [[s, i, str(y[k])] for k, (s, i) in self.prices.items() if y[k]],
            "rows": [[row, str(y[k])] for k, row in self.rows.items() if y[k]],
            "kept": [str(y[k]) for k in self.kept],
            "mixtures": [
                {t: str(total) for t, of in rows.items() if (total := sum((y[k] for k in of), self.zero))}
                for rows in self.mixtures
            ],
        }
        return {key: value for key, value in entry.items() if value}

    def ranked(self, term: rational.ExactRanked) -> dict[int, Rational]:
        """Variables whose largest linear function is a ranked term, by their coefficients.

        The sum of the k smallest numbers z is the largest ``k r - sum_t max(r - z_t, 0)`` (Ogryczak and Sliwinski).
        """
        program, names, v = self.program, list(term.numbers), [*term.v, rational.ZERO]
        value: dict[int, Rational] = {}
        rows: dict[str, list[int]] = {t: [] for t in names}
        steps = [k for k in range(1, len(names) + 1) if v[k - 1] != v[k]]
        for k in steps:
            factor = as_rational(term.factor * (v[k - 1] - v[k]))
            smallest = program.column(self.zero, free=True)
            value[smallest] = factor * k
            for t in names:
                one = term.numbers[t]
                entries = {column: -c for column, c in self.entries(one.row).items()} | {smallest: self.one}
                if k > 1:
                    below = program.column(self.zero)
                    value[below] = -factor
                    entries[below] = -self.one
                rows[t].append(program.row(entries, -as_rational(one.base)))
        self.mixtures.append(rows)
        return value

    def keep(self, kept: Iterable[rational.KeptGoal]) -> None:
        """Rows that keep goals at their levels or above."""
        for other, level in kept:
            row = {column: -c for column, c in self.entries(other.linear).items()}
            for term in other.ranked:
                for column, c in self.ranked(term).items():
                    row[column] = row.get(column, self.zero) - c
            self.kept.append(self.program.row(row, as_rational(other.constant - level)))


def optimum(
    cluster: rational.Cluster, tier: rational.ExactTier, clock: Clock | None = None, record: Record | None = None
) -> tuple[rational.Table, Entry]:
    """Tasks that maximise a goal, and their evidence."""
    tell("exact basis")
    model, goal = Feasible(cluster, tier.rows), tier.goal
    program = model.program
    for column, c in model.entries(goal.linear).items():
        program.costs[column] = c
    for term in goal.ranked:
        for column, c in model.ranked(term).items():
            program.costs[column] += c
    model.keep(tier.kept)
    found = program.solve(clock=clock)
    if record is not None:
        record(model, found, {}, goal.constant)
    return model.tasks(found), model.evidence(found)


def leximin(
    cluster: rational.Cluster,
    numbers: Mapping[str, rational.Number],
    rows: rational.Rows,
    kept: Iterable[rational.KeptGoal] = (),
    clock: Clock | None = None,
    until: Rational | None = None,
    record: Record | None = None,
) -> tuple[rational.Table, list[Entry], set[str]]:
    """Tasks at the leximin of numbers, the evidence of each level, and the numbers that have one.

    Each program raises the smallest number of those that may still rise; a number with a positive multiplier is at its
    level in every optimum, and stays there. With ``until`` levels above it are not looked for.
    """
    model = Feasible(cluster, rows)
    model.keep(kept)
    program = model.program
    level = program.column(model.one, free=True)
    of: dict[str, int] = {}
    for t, one in numbers.items():
        entries = {column: -c for column, c in model.entries(one.row).items()} | {level: model.one}
        of[t] = program.row(entries, -as_rational(one.base))
    levels: list[Entry] = []
    rising, found = set(numbers), None
    while rising:
        tell("exact levels", len(numbers) - len(rising), len(numbers))
        found = program.solve(clock=clock)
        at, y = found.point[level], found.multipliers
        if until is not None and at > until:
            break
        if record is not None:
            record(model, found, of, rational.ZERO)
        new = {t for t in rising if y[of[t]]}
        levels.append({"of_numbers": {t: str(y[k]) for t, k in of.items() if y[k]}} | model.evidence(found))
        for t in new:
            program.columns[level].pop(of[t])
            program.right[of[t]] -= at
        rising -= new
    tasks = [[rational.ZERO] * cluster.servers for _ in range(cluster.n)] if found is None else model.tasks(found)
    return tasks, levels, {*numbers} - rising


def floors(cluster: rational.Cluster, shares: Iterable[rational.Block], clock: Clock | None = None) -> dict[str, Entry]:
    """What proves the floors of teams: for each resource its best use, and for each share the least that holds it."""
    out: dict[str, Entry] = {}
    for team, named in cluster.team_guarantees.items():
        within, proofs = list(cluster.capacity), dict[str, Any]()
        for what, units in named.items():
            i = cluster.resource(what)
            within[i] = min(within[i], rational.number(units, "guarantees", 0))
        for what in named:
            i = cluster.resource(what)
            if within[i]:
                proofs[str(i)] = _use(cluster, team, within, i, None, clock)
        floor = rational.floors_of(cluster, team, rational.exact_floors({team: proofs})[team])
        for share in shares:
            if floor:
                name, c = share.text, rational.exact_coefficients(cluster, share)
                proofs[name] = _use(cluster, team, cluster.capacity, None, (floor, c), clock)
        out[team] = proofs
    cluster.floor_proofs = rational.exact_floors(out)
    return out


def _use(
    cluster: rational.Cluster,
    team: str,
    within: list[rational.Fraction],
    most: int | None,
    least: tuple[dict[int, rational.Fraction], rational.Table] | None,
    clock: Clock | None,
) -> Entry:
    """The tasks of a team that use most of a resource, or that hold a floor with the least share; and prices."""
    program, active = LinearProgram(), {*cluster.active}
    members = [j for j in cluster.members[team] if j in active]
    pairs: dict[tuple[int, int], int] = {}
    for j in members:
        for s in cluster.open[j]:
            gain = cluster.demands[j][s][most] if most is not None else -least[1][j][s] if least else rational.ZERO
            pairs[j, s] = program.column(as_rational(gain))
    prices: dict[int, int] = {}
    floor = least[0] if least else {}
    for i, room in enumerate(within):
        if least and i not in floor:
            continue
        load = {column: as_rational(d) for (j, s), column in pairs.items() if (d := cluster.demands[j][s][i])}
        if least:
            prices[program.row({k: -d for k, d in load.items()}, -as_rational(floor[i]))] = i
        else:
            prices[program.row(load, as_rational(room))] = i
    one = flint.fmpq(1)
    for j in members:
        if (limit := cluster.limits[j]) is not None:
            program.row({pairs[j, s]: one for s in cluster.open[j]}, as_rational(limit))
    found = program.solve(clock=clock)
    by_resource = ["0"] * cluster.m
    for k, i in prices.items():
        by_resource[i] = str(found.multipliers[k])
    tasks = [[j, s, str(found.point[k])] for (j, s), k in pairs.items() if found.point[k]]
    return {"tasks": tasks, "prices": by_resource}
