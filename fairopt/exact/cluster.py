"""An instance in rational numbers, and what objectives compare: `ExactNumbers` of users or teams, or above a base.

Of a user or team t with tasks x the number is ``z_t = sum_js c_js x_js - base_t``. Coefficients c and bases are
intervals from ``below`` to ``above``: equal where a share is rational, at most 2^-bits wide where it is a root, which
exact answers refuse and `fairopt.exact.bounds` encloses. Numbers are those that the caller meant: the shortest decimal
of a float, or the Fraction given.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.roots import Between
from fairopt.blocks.shares import Share
from fairopt.blocks.teams import OfTeam, Surplus
from fairopt.errors import OutOfDomain
from fairopt.exact.rationals import Rational, as_rational, rational, total
from fairopt.instance import Instance
from fairopt.instance.in_fractions import as_fraction
from fairopt.instance.parts import taking_part

Table = list[list[Rational]]  # by user and server
Pair = tuple[int, int]  # a user and a server
Place = tuple[int, int]  # a server and a resource


class Row(NamedTuple):
    """``sum v x`` by pair is at most a bound, or ``equal`` to it."""

    of_pairs: Mapping[Pair, Rational]
    bound: Rational
    equal: bool = False


Rows = list[Row]


class Cluster:
    """An instance in rational numbers.

    ``active`` are the users who take part, and ``open`` the servers of each user. ``room`` (n_servers, n_resources) are
    the capacities of whole server rows, ``usable`` the usable part of each resource; ``low`` and ``high`` bound each
    user's total tasks (None: no limit). Irrational coefficients are enclosed within a relative ``width``; without one
    they are refused.
    """

    def __init__(self, instance: Instance, width: Fraction | None = None, as_floats: bool = False) -> None:
        exact, self.instance, self.width, self.as_floats = instance.in_fractions, instance, width, as_floats
        self.n, self.m, self.servers = instance.n_users, instance.n_resources, instance.n_servers
        self.users, self.resources = instance.users, instance.resources
        three = exact.demands if exact.demands.ndim == 3 else exact.demands[:, None, :]
        given = [[list(map(as_rational, row)) for row in of] for of in three]
        self.demands = [of if len(of) == self.servers else of * self.servers for of in given]
        self.counts = [int(q) for q in instance.counts]
        self.capacities = [list(map(as_rational, row)) for row in exact.capacities]
        self.room = [[c * q for c in row] for row, q in zip(self.capacities, self.counts, strict=True)]
        self.capacity = [total(row[i] for row in self.room) for i in range(self.m)]
        self.weights = list(map(as_rational, exact.weights))
        self.limits = [None if t == float("inf") else as_rational(t) for t in exact.task_limits]
        self.open = [[s for s in range(self.servers) if row[s]] for row in instance.eligible.tolist()]
        self.active = [j for j, limit in enumerate(self.limits) if limit != 0]
        self.low = self.within_limits(map(as_rational, exact.guarantees))
        self.guarantees = list(self.low)
        self.high = list(self.limits)
        self.usable = [rational(1)] * self.m
        self.zero, self.one = rational(0), rational(1)
        self.stays: dict[str, set[str]] = {}  # users and teams that cannot rise above the base of a surplus, by share
        self.floors: dict[str, dict[int, Rational]] = {}  # of teams, in units by resource
        self.worths: dict[tuple[str, str], Between] = {}  # of floors, by team and share
        self._coefficients: dict[Share, tuple[Table, Table]] = {}

    def empty(self) -> Table:
        """No tasks."""
        return [[self.zero] * self.servers for _ in range(self.n)]

    def within_limits(self, tasks: Any) -> list[Rational]:
        """Tasks by user, at most their limits."""
        pairs = zip(tasks, self.limits, strict=True)
        return [x if limit is None else min(x, limit) for x, limit in pairs]

    @cached_property
    def members(self) -> dict[str, list[int]]:
        """The users of each team."""
        return {name: of.tolist() for name, of in self.instance.teams.names.items()}

    def of_user(self, values: Any, name: str, default: Any) -> list[Rational | None]:
        """A parameter of a block by user; None for infinite numbers."""
        by_user = self.instance.in_fractions.per_user(values, name, default)
        return [None if v == float("inf") else as_rational(v) for v in by_user]

    def tasks_alone(self, j: int, s: int, usable: Sequence[Rational] | None = None) -> Rational | None:
        """Tasks that a user could run alone on a server row; None if it needs nothing there."""
        row, room = self.demands[j][s], self.room[s]
        if usable is None:
            return min((room[i] / d for i, d in enumerate(row) if d), default=None)
        return min((usable[i] * room[i] / d for i, d in enumerate(row) if d), default=None)

    def most(self, j: int) -> Rational | None:
        """An upper bound on a user's total tasks, its limit or what it could run alone; None without any."""
        alone = [self.tasks_alone(j, s, self.usable) for s in self.open[j]]
        ends = [self.high[j], None if None in alone else total(alone)]
        return min((end for end in ends if end is not None), default=None)

    @property
    def units(self) -> dict[Place, Rational]:
        """The usable units of each resource on each server row."""
        return {
            (s, i): c * part
            for s, row in enumerate(self.room)
            for i, (c, part) in enumerate(zip(row, self.usable, strict=True))
        }

    def load(self, tasks: Table, s: int, i: int) -> Rational:
        """The units of a resource that tasks use on a server row."""
        return total(self.demands[j][s][i] * tasks[j][s] for j in range(self.n) if tasks[j][s])

    # -- shares

    def between(self, share: Share) -> tuple[Table, Table]:
        """The share of one task by user and server, from below and from above; they differ where it is irrational."""
        if share not in self._coefficients:
            enclosed = share.enclosed(self.instance, self.width, self.as_floats)
            below = [[as_rational(c.low) for c in row] for row in enclosed]
            same = all(c.low == c.high for row in enclosed for c in row)
            self._coefficients[share] = (
                below,
                below if same else [[as_rational(c.high) for c in row] for row in enclosed],
            )
        return self._coefficients[share]

    def number(self, value: Any) -> Rational:
        """A finite parameter of a block."""
        return as_rational(as_fraction(value))

    def levelled(self, share: Share) -> list[Number]:
        """What a share compares, per weight; `OutOfDomain` where it is irrational."""
        return list(ExactNumbers(self, share).exactly(True).values())

    def is_irrational(self, share: Share) -> bool:
        """Whether a coefficient of a share is irrational."""
        below, above = self.between(share)
        return below is not above

    def coefficients(self, share: Share) -> Table:
        """The share of one task by user and server; `OutOfDomain` where it is irrational."""
        below, above = self.between(share)
        if below is not above:
            raise OutOfDomain(f"coefficients of {share} are irrational")
        return below

    def same_on_servers(self, share: Share) -> bool:
        """Whether each user's share of a task is the same on all of its servers."""
        c = self.between(share)[0]
        return all(len({c[j][s] for s in self.open[j]}) == 1 for j in self.active)


# -- what objectives compare ------------------------------------------------------------------------------------------


class Number(NamedTuple):
    """What an objective compares: ``sum c x - base`` per weight, of a user or a team."""

    row: dict[Pair, Rational]
    base: Rational

    def at(self, tasks: Table) -> Rational:
        """The number at tasks."""
        return total(v * tasks[j][s] for (j, s), v in self.row.items()) - self.base


class ExactNumbers:
    """The numbers of a share: ``z_t = sum_j c_j x_j - base_t`` of each user or team t, by label.

    ``below`` and ``above`` enclose c, ``base`` encloses the base; ``kept`` are the tasks of users that a base requires.
    """

    def __init__(self, cluster: Cluster, share: Share) -> None:
        surplus = share if isinstance(share, Surplus) else None
        team: Share = share if surplus is None else surplus.share
        self.cluster, self.share = cluster, share
        self.of_user = {j: str(cluster.users[j]) for j in cluster.active}
        self.weights = {t: cluster.weights[j] for j, t in self.of_user.items()}
        if isinstance(team, OfTeam):
            part = taking_part(cluster.instance, np.array(cluster.active, dtype=np.intp))
            names, of_user = team.labelling(part)
            given = {**cluster.instance.in_fractions.team_weights, **(team.weights or {})}
            self.of_user = {j: str(names[t]) for j, t in zip(cluster.active, of_user.tolist(), strict=True)}
            # in the checker's order: of labels, those of users who do not take part included
            every = dict.fromkeys(map(str, cluster.instance.teams[team.by]))
            present = {*self.of_user.values()}
            self.weights = {t: as_rational(as_fraction(given.get(t, 1))) for t in every if t in present}
        self.below, self.above = cluster.between(team._of_user)
        self.kept: dict[int, Rational] = {}
        if surplus is not None and surplus.base is None:
            self.kept = {j: cluster.guarantees[j] for j in cluster.active}
        elif surplus is not None:
            base = cluster.within_limits(cluster.of_user(surplus.base, "base of Surplus", 0))
            self.kept = {j: base[j] for j in cluster.active}
        self.base = {t: Between(cluster.zero, cluster.zero) for t in self.weights}
        for j, x in self.kept.items():
            low, high = (x * min(c[j][s] for s in cluster.open[j]) for c in (self.below, self.above))
            before = self.base[self.of_user[j]]
            self.base[self.of_user[j]] = Between(before.low + low, before.high + high)
        if surplus is not None and surplus.base is None and isinstance(team, OfTeam):
            for t in self.base.keys() & cluster.floors.keys():
                worth = cluster.worths[t, text(team.share)]
                self.base[t] = Between(*(max(ends) for ends in zip(self.base[t], worth, strict=True)))

    def from_below(self) -> dict[str, Number]:
        """The numbers with coefficients and bases from below, not per weight."""
        out = {t: Number({}, base.low) for t, base in self.base.items()}
        for j, t in self.of_user.items():
            out[t].row.update({(j, s): self.below[j][s] for s in self.cluster.open[j]})
        return out

    def exactly(self, levelled: bool) -> dict[str, Number]:
        """The numbers, per weight if they are ``levelled``; without those in `Cluster.stays`."""
        if self.below is not self.above:
            raise OutOfDomain(f"coefficients of {self.share._of_user} are irrational")
        out = self.from_below()
        if levelled:
            stay = self.cluster.stays.get(text(self.share), set()) if isinstance(self.share, Surplus) else set()
            out = {
                t: Number({pair: v / w for pair, v in one.row.items()}, one.base / w)
                for t, one in out.items()
                if t not in stay and (w := self.weights[t])
            }
        return out

    def bounded(self, levels: Mapping[str, Rational | None], most: bool) -> Rows:
        """Bounds on the numbers as rows, by label; None for no bound."""
        members: dict[str, list[int]] = {t: [] for t in self.weights}
        for j, t in self.of_user.items():
            members[t].append(j)
        return [
            self.bound(members[t], [t], levels[t], most)
            for t in self.weights
            if levels.get(t) is not None and (most or levels[t] != 0 or self.base[t].high > 0)
        ]

    def bound(self, users: Sequence[int], names: Sequence[str], level: Rational, most: bool) -> Row:
        """A bound on the sum of some numbers, of these users, as a row."""
        c, sign = self.below if most else self.above, 1 if most else -1
        base = total(self.base[t][1 if most else 0] for t in names)
        return Row({(j, s): sign * c[j][s] for j in users for s in self.cluster.open[j]}, sign * (level + base))


class _Decimals(ast.NodeTransformer):
    """Replaces floats in a parsed text by the fractions that they are read as."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, float):
            return node
        return ast.Name("{}/{}".format(*as_fraction(node.value).as_integer_ratio()))


def text(share: Share) -> str:
    """A share as the proof of an exact answer names it, with numbers as fractions."""
    try:
        return ast.unparse(_Decimals().visit(ast.parse(repr(share), mode="eval")))
    except SyntaxError:  # of a user's own
        return repr(share)
