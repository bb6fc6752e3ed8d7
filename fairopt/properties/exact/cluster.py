"""Margins of one allocation on any number of servers in fractions, without any code of the checks.

Users compare tasks, or a share. Floats count as the fractions that they are. Constraints of the policy that are rows
are measured in fractions too; the gate has measured the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.model import Pairs
from fairopt.blocks.shares import Share, Tasks
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.policy import Policy
from fairopt.properties.exact.pool import tasks_within
from fairopt.runtime.arrays import Float

Vector = list[Fraction]
Table = list[Vector]

MEASURED = ("pareto", "sharing-incentive", "sharing-incentive-within", "envy-free")
ZERO, ONE = Fraction(0), Fraction(1)
WIDTH = Fraction(1, 10**30)  # relative, of irrational shares
LOSS = Fraction(1, 10**9)  # of what another user has: more is no rounding of a dominating allocation
LITTLE = Fraction(1, 10**9)  # of its own slice: a user who has less counts as having nothing


@dataclass(frozen=True, eq=False)
class ExactJudge:
    """Margins of an allocation by what users compare: a share, or tasks for None."""

    answer: Allocation
    share: Share | None

    def margin(self, name: str, other: Float | None = None) -> Fraction:
        """The largest margin of one of the properties ``MEASURED``, positive where it fails.

        That of Pareto efficiency is the gain in another allocation, which is said to dominate this one; -1 without one.
        Another allocation on the own slices is what these offer within constraints.
        """
        users = self.users
        if name == "pareto":
            return -ONE if other is None else self.gain(other)
        if name == "sharing-incentive-within" and other is not None:
            return self.short_of(other)
        if name.startswith("sharing-incentive"):
            return max((self.relative(j, self.slices[j]) for j in users), default=-ONE)
        if name != "envy-free":
            raise ValueError(f"{name} is not measured in fractions")
        pairs = ((j, self.on_bundle(j, k)) for j in users for k in range(self.instance.n_users) if k != j)
        return max((self.relative(j, most) for j, most in pairs), default=-ONE)

    def gain(self, better: Float) -> Fraction:
        """The largest relative gain in another allocation, scaled to fit; -1 if another user has less, or a constraint
        of the policy that is linear is broken.
        """
        given = self.instance
        tasks = table_of(better)
        uses = [
            sum((x[s] * d[s][i] for x, d in zip(tasks, self.demands, strict=True)), ZERO) / self.room[s][i]
            for s in range(given.n_servers)
            for i in range(given.n_resources)
            if self.room[s][i]
        ]
        uses += [sum(x, ZERO) / limit for x, limit in zip(tasks, self.limits, strict=True) if limit]
        fits = max([ONE, *uses])
        after = [sum(map(Fraction.__mul__, x, c), ZERO) / fits for x, c in zip(tasks, self.worth, strict=True)]
        if any(now < had * (1 - LOSS) for now, had in zip(after, self.has, strict=True)):
            return -ONE
        if not self.keeps([[v / fits for v in x] for x in tasks]):
            return -ONE
        of = {j: self.has[j] if self.has[j] > LITTLE * self.slices[j] else self.slices[j] for j in self.users}
        return max(((after[j] - self.has[j]) / of[j] for j in of if of[j]), default=ZERO)

    def short_of(self, split: Float) -> Fraction:
        """The largest margin to tasks on the own slices, scaled to fit; -1 if a linear constraint is broken."""
        tasks, total, uses = table_of(split), sum(self.weights, ZERO), [ONE]
        for j, row in enumerate(tasks):
            for s, alone in self.alone[j].items():
                if row[s]:
                    uses.append(row[s] * total / (self.weights[j] * alone))
            if limit := self.limits[j]:
                uses.append(sum(row, ZERO) / limit)
        fits = max(uses)
        if not self.keeps([[v / fits for v in row] for row in tasks]):
            return -ONE
        there = [sum(map(Fraction.__mul__, x, c), ZERO) / fits for x, c in zip(tasks, self.worth, strict=True)]
        return max((self.relative(j, there[j]) for j in self.users), default=-ONE)

    def keeps(self, tasks: Table) -> bool:
        """Whether tasks keep the linear constraints of the policy, up to a part of the terms of each row."""
        pairs = Pairs(self.instance)
        x = [tasks[j][s] for j, s in zip(pairs.user.tolist(), pairs.server.tolist(), strict=True)]
        policy = self.answer.policy
        of_tasks = isinstance(policy, Policy) and not policy.objective.of_bundles
        for constraint in policy.constraints if of_tasks else ():
            for rows in (constraint.rows(pairs) or {}).values():
                table = rows.per_task
                for k, right in enumerate(map(Fraction, rows.right.tolist())):
                    entries = slice(table.indptr[k], table.indptr[k + 1])
                    row = zip(table.indices[entries].tolist(), table.data[entries].tolist(), strict=True)
                    terms = [Fraction(a) * x[p] for p, a in row]
                    over, size = sum(terms, -right), sum(map(abs, terms), abs(right))
                    if (abs(over) if rows.equal else over) > LOSS * size:
                        return False
        return True

    def relative(self, j: int, most: Fraction) -> Fraction:
        """How much more ``most`` is than what a user has."""
        unit = max(self.slices[j], self.has[j])
        return (most - self.has[j]) / unit if unit else -ONE

    def on_bundle(self, j: int, k: int) -> Fraction:
        """The most that a user would have on the bundle of another, at its own weight."""
        scale = self.weights[j] / self.weights[k]
        return self.most(j, {s: scale * tasks_within(self.held(k, s), self.demands[j][s]) for s in self.open[j]})

    def held(self, k: int, s: int) -> Vector:
        """What a user holds on a server."""
        if self.answer.given_bundles is not None:
            return [Fraction(float(v)) for v in self.answer.given_bundles[k, s]]
        return [self.tasks[k][s] * d for d in self.demands[k][s]]

    def most(self, j: int, fits: dict[int, Fraction]) -> Fraction:
        """The most that a user has of tasks that fit on each server: the best ones first, up to its limit."""
        left, total = self.limits[j], ZERO
        for s in sorted(fits, key=lambda s: -self.worth[j][s]):
            runs = fits[s] if left is None else min(fits[s], left)
            left = None if left is None else left - runs
            total += runs * self.worth[j][s]
        return total

    # -- the instance in fractions ------------------------------------------------------------------------------------

    @property
    def instance(self) -> Instance:
        """The instance of the answer."""
        return self.answer.instance

    @cached_property
    def users(self) -> list[int]:
        """Those who take part."""
        return [j for j, limit in enumerate(self.limits) if limit != 0]

    @cached_property
    def limits(self) -> list[Fraction | None]:
        """Task limits; None for no limit."""
        return [None if np.isinf(t) else Fraction(t) for t in self.instance.task_limits.tolist()]

    @cached_property
    def weights(self) -> Vector:
        """Weights."""
        return [Fraction(w) for w in self.instance.weights.tolist()]

    @cached_property
    def demands(self) -> list[Table]:
        """Demands by user, server and resource."""
        return [table_of(rows) for rows in self.instance.per_server_demands]

    @cached_property
    def room(self) -> Table:
        """Capacities of server rows, counts included."""
        counts = self.instance.counts.tolist()
        return [[q * c for c in row] for row, q in zip(table_of(self.instance.capacities), counts, strict=True)]

    @cached_property
    def open(self) -> list[list[int]]:
        """Servers where each user may run."""
        return [np.flatnonzero(row).tolist() for row in self.instance.eligible]

    @cached_property
    def tasks(self) -> Table:
        """Tasks by user and server."""
        return table_of(np.asarray(self.answer.tasks_by_server))

    @cached_property
    def alone(self) -> list[dict[int, Fraction]]:
        """Tasks that each user could run alone on its servers."""
        return [
            {s: tasks_within(self.room[s], self.demands[j][s]) for s in servers} for j, servers in enumerate(self.open)
        ]

    @cached_property
    def slices(self) -> Vector:
        """What each user would have on its own slice."""
        total = sum(self.weights, ZERO)
        return [self.most(j, {s: w / total * t for s, t in self.alone[j].items()}) for j, w in enumerate(self.weights)]

    @cached_property
    def has(self) -> Vector:
        """What each user has."""
        return [sum(map(Fraction.__mul__, x, c), ZERO) for x, c in zip(self.tasks, self.worth, strict=True)]

    @cached_property
    def worth(self) -> Table:
        """What a task of each user counts on each server; 0 where it may not run."""
        instance, share, servers = self.instance, self.share or Tasks(), range(self.instance.n_servers)
        worth = [[ZERO] * instance.n_servers for _ in self.weights]
        part = taking_part(instance, np.array(self.users, dtype=np.intp)).derived.of_floats()
        if share.states_exactly:
            coefficients = [[low for low, _ in row] for row in share.enclosed(part, WIDTH)]
        else:
            c = share.coefficients(part)
            coefficients = table_of(np.broadcast_to(c if c.ndim == 2 else c[:, None], part.eligible.shape))
        for j, row in zip(self.users, coefficients, strict=True):
            worth[j] = [row[s] if s in self.open[j] else ZERO for s in servers]
        return worth


def table_of(floats: Float) -> Table:
    """A table of floats as fractions."""
    return [[Fraction(v) for v in row] for row in floats.tolist()]
