"""The tiers of a policy as linear programs in rationals, and their multipliers, which prove an optimum.

With tasks x >= 0 by user and server, loads ``D x <= C``, bounds on totals and further rows, a tier maximises

* a linear function of x;
* a ranked term ``sum_k v_k z_(k)`` of numbers ``z = R x - b``: a sum of ``(v_k - v_(k+1))`` times the sum of the k
  smallest, which is the largest ``k r - sum_t max(r - z_t, 0)``;
* leximin of z: in turn the largest h with ``z_t >= h`` for all that are free. ExactNumbers whose row has a positive
  multiplier are at h in every optimum (complementary slackness), stay there, and the next program follows
  (Danna et al. 2012).

Why no second program that tests who can rise, as in floats (Proposition 7.6): a multiplier in rationals is positive or
zero, and no noise. At least one is positive in each program, as they sum to 1, so that there are at most as many
programs as numbers. Each starts from the basis that HiGHS finds for it anew; in 200 users on 20 servers a level takes
about 0.2 s (docs/exact.md, *Speed*). The proof from these multipliers is in `fairopt.exact.proof`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import inf
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.roots import Between
from fairopt.blocks.shares import Share
from fairopt.errors import OutOfDomain
from fairopt.exact.cluster import Cluster, ExactNumbers, Number, Pair, Row, Rows, Table, text
from fairopt.exact.linear import ExactOptimum, LinearProgram
from fairopt.exact.rationals import Rational, as_rational, rational, written
from fairopt.exact.tiers import KeptGoal, Ranked, Tier
from fairopt.runtime.clock import Clock
from fairopt.runtime.progress import tell
from fairopt.solve.form.program import Program

Slopes = Mapping[Pair, Rational]
Entry = dict[str, Any]  # multipliers as a file holds them
# Is told of each program solved: the program, its optimum, the rows of ranked numbers, a constant beside the value.
Record = Callable[["Feasible | OfTeam", ExactOptimum, Mapping[str, int], Rational], None]


class OfTeam(NamedTuple):
    """The program of what a team's tasks use: ``pairs`` are columns, and ``prices`` rows of resources."""

    program: LinearProgram
    pairs: dict[Pair, int]
    prices: dict[int, tuple[None, int]]
    rows: Mapping[int, int] = {}
    kept: Sequence[int] = ()
    mixtures: Sequence[dict[str, list[int]]] = ()


class Feasible:
    """The feasible tasks of a cluster as a linear program, to which objectives are added.

    Columns are first the (user, server) pairs, in the order of ``pairs``.
    """

    def __init__(self, cluster: Cluster, rows: Rows) -> None:
        self.cluster, self.program = cluster, LinearProgram()
        self.zero, self.one = rational(0), rational(1)
        self.pairs = {(j, s): self.program.column(self.zero) for j in cluster.active for s in cluster.open[j]}
        self.prices: dict[int, tuple[int, int]] = {}  # of capacities, by row
        self.rows: dict[int, int] = {}  # of `rows`, by row
        self.kept: list[int] = []
        self.mixtures: list[dict[str, list[int]]] = []  # the rows of each number, by ranked term
        users: dict[int, list[int]] = {}
        for j, s in self.pairs:
            users.setdefault(s, []).append(j)
        for (s, i), usable in cluster.units.items():
            load = {self.pairs[j, s]: d for j in users.get(s, ()) if (d := cluster.demands[j][s][i])}
            if load:
                self.prices[self.program.row(load, usable)] = s, i
        for j in cluster.active:
            every = [self.pairs[j, s] for s in cluster.open[j]]
            if (high := cluster.high[j]) is not None:
                self.program.row(dict.fromkeys(every, self.one), high)
            if cluster.low[j]:
                self.program.row(dict.fromkeys(every, -self.one), -cluster.low[j])
        for k, (of_pairs, bound, equal) in enumerate(rows):
            self.rows[self.program.row(self.entries(of_pairs), bound, equal)] = k

    def entries(self, of_pairs: Slopes) -> dict[int, Rational]:
        """A linear function of tasks, by column."""
        return {self.pairs[pair]: v for pair, v in of_pairs.items() if pair in self.pairs}

    def tasks(self, found: ExactOptimum) -> Table:
        """The tasks of an optimum, by user and server."""
        out = self.cluster.empty()
        for (j, s), column in self.pairs.items():
            out[j][s] = found.point[column]
        return out

    def evidence(self, found: ExactOptimum) -> Entry:
        """The multipliers of capacities and rows."""
        y = found.multipliers
        entry: Entry = {
            "prices": [[s, i, written(y[k])] for k, (s, i) in self.prices.items() if y[k]],
            "rows": [[row, written(y[k])] for k, row in self.rows.items() if y[k]],
            "kept": [written(y[k]) for k in self.kept],
            "mixtures": [
                {t: written(total) for t, of in rows.items() if (total := sum((y[k] for k in of), self.zero))}
                for rows in self.mixtures
            ],
        }
        return {key: value for key, value in entry.items() if value}

    def ranked(self, term: Ranked) -> dict[int, Rational]:
        """Variables whose largest linear function is a ranked term, by their coefficients.

        The sum of the k smallest numbers z is the largest ``k r - sum_t max(r - z_t, 0)`` (Ogryczak and Sliwinski).
        """
        program, names, v = self.program, list(term.numbers), [*term.v, self.zero]
        value: dict[int, Rational] = {}
        rows: dict[str, list[int]] = {t: [] for t in names}
        steps = [k for k in range(1, len(names) + 1) if v[k - 1] != v[k]]
        for k in steps:
            factor = term.factor * (v[k - 1] - v[k])
            smallest = program.column(self.zero, free=True)
            value[smallest] = factor * k
            for t in names:
                one = term.numbers[t]
                entries = {column: -c for column, c in self.entries(one.row).items()} | {smallest: self.one}
                if k > 1:  # of the smallest alone r <= z_t is enough
                    below = program.column(self.zero)
                    value[below] = -factor
                    entries[below] = -self.one
                rows[t].append(program.row(entries, -one.base))
        self.mixtures.append(rows)
        return value

    def keep(self, kept: Iterable[KeptGoal]) -> None:
        """Rows that keep goals at their levels or above."""
        for other, level in kept:
            row = {column: -c for column, c in self.entries(other.linear).items()}
            for term in other.ranked:
                for column, c in self.ranked(term).items():
                    row[column] = row.get(column, self.zero) - c
            self.kept.append(self.program.row(row, other.constant - level))


def optimum(
    cluster: Cluster, tier: Tier, clock: Clock | None = None, record: Record | None = None
) -> tuple[Table, Entry]:
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
    solved = program.solve(clock=clock)
    if record is not None:
        record(model, solved, {}, goal.constant)
    return model.tasks(solved), model.evidence(solved)


def leximin(
    cluster: Cluster,
    numbers: Mapping[str, Number],
    rows: Rows,
    kept: Iterable[KeptGoal] = (),
    clock: Clock | None = None,
    until: Rational | None = None,
    record: Record | None = None,
    most: float = inf,
) -> tuple[Table, list[Entry], set[str]]:
    """Tasks at the leximin of numbers, the evidence of each level, and the numbers that have one.

    Each program raises the smallest number of those that may still rise; a number with a positive multiplier is at its
    level in every optimum, and stays there. With ``until`` levels above it are not looked for. `OutOfDomain` if there
    are more than ``most`` levels.
    """
    model = Feasible(cluster, rows)
    model.keep(kept)
    program = model.program
    level = program.column(model.one, free=True)  # of a surplus it may be below 0
    of: dict[str, int] = {}
    for t, one in numbers.items():
        entries = {column: -c for column, c in model.entries(one.row).items()} | {level: model.one}
        of[t] = program.row(entries, -one.base)
    levels: list[Entry] = []
    rising, solved = set(numbers), None
    while rising:
        if len(levels) >= most:
            raise OutOfDomain(f"more than {most:.0f} levels")
        tell("exact levels", len(numbers) - len(rising), len(numbers))
        solved = program.solve(clock=clock)
        at, y = solved.point[level], solved.multipliers
        if record is not None:
            record(model, solved, of, rational(0))
        if until is not None and at > until:  # all that are left can be above it together
            break
        new = {t for t in rising if y[of[t]]}  # never empty: the multipliers of free numbers sum to 1
        levels.append({"of_numbers": {t: written(y[k]) for t, k in of.items() if y[k]}} | model.evidence(solved))
        for t in new:
            program.columns[level].pop(of[t])  # from now on z_t >= at, without h: its row keeps its place
            program.right[of[t]] -= at
        rising -= new
    return cluster.empty() if solved is None else model.tasks(solved), levels, {*numbers} - rising


def leximin_of(program: Program, clock: Clock | None = None, most: float = inf) -> tuple[Table, list[Entry]]:
    """Tasks by user and server at the leximin of a program of users under linear rows, and the evidence of each level.

    `OutOfDomain` for a share with irrational coefficients, and above ``most`` levels; `_NoPoint` if nothing satisfies
    the rows in fractions.
    """
    cluster = Cluster(program.instance.derived.of_floats(), as_floats=True)
    cluster.low = [as_rational(Fraction(x)) for x in program.low.tolist()]
    cluster.high = [None if x == np.inf else as_rational(Fraction(x)) for x in program.high.tolist()]
    cluster.usable = [as_rational(Fraction(x)) for x in program.usable.tolist()]
    rows = [
        Row({pair: as_rational(v) for pair, v in of_pairs.items()}, as_rational(right), equal)
        for of_pairs, right, equal in program.rows.further_in_fractions()
    ]
    numbers = ExactNumbers(cluster, program.term.share).exactly(True)
    tasks, levels, _ = leximin(cluster, numbers, rows, clock=clock, most=most)
    return tasks, levels


def floors(
    cluster: Cluster,
    shares: Iterable[Share],
    clock: Clock | None = None,
    record: Callable[..., None] | None = None,
) -> dict[str, Entry]:
    """Set the floors of teams and what they are worth in shares, the least share that holds them; and their proof.

    ``record`` is a `Record` with what the program is for in front, and ``of_answer=False``.
    """
    out, exact = dict[str, Entry](), cluster.instance.in_fractions
    # limits of 0 rule users out of an answer, and not out of what a team is guaranteed
    as_given = Cluster(cluster.instance.derived.as_given) if cluster.instance._given else cluster
    for team, named in exact.team_guarantees.items():
        given = {cluster.instance.resource_index(what): as_rational(units) for what, units in named.items()}
        within = [min(given.get(i, c), c) for i, c in enumerate(cluster.capacity)]
        proofs, floor = dict[str, Any](), dict[int, Rational]()
        for i in given:
            if within[i]:
                what = f"what team {team} can use of {cluster.instance.resources[i]} within its guarantee"
                note = record and partial(record, what, of_answer=False)
                proofs[str(i)], value = _use(as_given, team, within, i, None, clock, note)
                floor |= {i: value} if value else {}
        cluster.floors[team] = dict(sorted(floor.items()))
        for share in shares:
            if not floor:
                cluster.worths[team, text(share)] = Between(cluster.zero, cluster.zero)
                continue
            below, above = cluster.between(share)
            what = f"minus the least total of {text(share)} at which team {team} holds its guarantee"
            note = record and partial(record, what, of_answer=False)
            proofs[text(share)], low = _use(cluster, team, cluster.capacity, None, (floor, below), clock, note)
            high = low if below is above else _use(cluster, team, cluster.capacity, None, (floor, above), clock)[1]
            cluster.worths[team, text(share)] = Between(-low, -high)
        out[team] = proofs
    return out


def _use(
    cluster: Cluster,
    team: str,
    within: list[Rational],
    most: int | None,
    least: tuple[dict[int, Rational], Table] | None,
    clock: Clock | None,
    record: Record | None = None,
) -> tuple[Entry, Rational]:
    """The tasks of a team that use most of a resource, or hold a floor with the least share; prices, and the value.

    The value of the least share is negative.
    """
    program, active = LinearProgram(), {*cluster.active}
    members = [j for j in cluster.members[team] if j in active]
    pairs: dict[Pair, int] = {}
    for j in members:
        for s in cluster.open[j]:
            gain = cluster.demands[j][s][most] if most is not None else -least[1][j][s] if least else cluster.zero
            pairs[j, s] = program.column(gain)
    prices: dict[int, int] = {}
    floor = least[0] if least else {}
    for i, room in enumerate(within):
        if least and i not in floor:
            continue
        load = {column: d for (j, s), column in pairs.items() if (d := cluster.demands[j][s][i])}
        if least:
            prices[program.row({k: -d for k, d in load.items()}, -floor[i])] = i
        else:
            prices[program.row(load, room)] = i
    one = rational(1)
    for j in members:
        if (limit := cluster.limits[j]) is not None:
            program.row({pairs[j, s]: one for s in cluster.open[j]}, limit)
    solved = program.solve(clock=clock)
    if record is not None:
        record(OfTeam(program, pairs, {k: (None, i) for k, i in prices.items()}), solved, {}, cluster.zero)
    by_resource = ["0"] * cluster.m
    for k, i in prices.items():
        by_resource[i] = written(solved.multipliers[k])
    tasks = [[j, s, written(solved.point[k])] for (j, s), k in pairs.items() if solved.point[k]]
    return {"tasks": tasks, "prices": by_resource}, solved.value
