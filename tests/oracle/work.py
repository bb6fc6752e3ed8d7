"""Allocations judged by throughput at users' rates, in fractions: slices, bundles and gains by linear programs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from . import exact_lp
from .exact_cluster import Cluster


class Work:
    """An allocation and what users' tasks are worth, in fractions."""

    def __init__(self, allocation: Any) -> None:
        given = allocation.instance.to_dict()
        self.cluster = Cluster(**{k: v for k, v in given.items() if k not in ("users", "servers", "resources")})
        self.worth, self.n, self.servers = self.cluster.throughput(), self.cluster.n, range(self.cluster.servers)
        self.tasks = [[Fraction(float(v)) for v in row] for row in allocation.tasks_by_server]
        self.work = [exact_lp.dot(*pair) for pair in zip(self.worth, self.tasks, strict=True)]
        self.slices = [self.most(j, self.held(None), self.cluster.weights[j]) for j in range(self.n)]

    def held(self, k: int | None) -> list[list[Fraction]]:
        """What a user holds on each server, or what all would share, per weight."""
        c, resources = self.cluster, range(self.cluster.resources)
        if k is None:
            return [[c.counts[s] * c.one[s][i] / sum(c.weights) for i in resources] for s in self.servers]
        return [[self.tasks[k][s] * c.demands[k][s][i] / c.weights[k] for i in resources] for s in self.servers]

    def most(self, j: int, held: list[list[Fraction]], weight: Fraction) -> Fraction:
        """The most work of a user on a bundle, by a linear program."""
        c, here = self.cluster, [s for k, s in self.cluster.pairs if k == j]
        rows = [
            ([c.demands[j][s][i] if s == t else Fraction(0) for s in here], weight * held[t][i])
            for t in here
            for i in range(c.resources)
        ]
        if c.limits[j] is not None:
            rows.append(([Fraction(1)] * len(here), c.limits[j]))
        return exact_lp.maximise([self.worth[j][s] for s in here], rows).value if here else Fraction(0)

    def short(self, j: int) -> Fraction:
        """How much more a user would do on its own slice."""
        return (self.slices[j] - self.work[j]) / max(self.slices[j], self.work[j])

    def envy(self, j: int) -> Fraction:
        """The envy of a user."""
        if self.cluster.limits[j] == 0:
            return Fraction(0)
        others = [self.most(j, self.held(k), self.cluster.weights[j]) for k in range(self.n) if k != j]
        return (max(others) - self.work[j]) / max(self.slices[j], self.work[j])

    def gain(self, j: int) -> Fraction:
        """The largest gain of a user while no other has less."""
        forms = dict(zip(self.cluster.users, self.cluster.forms(self.worth, per_weight=False), strict=True))
        kept = [([-v for v in form], -self.work[k]) for k, form in forms.items()]
        at = [self.tasks[k][s] for k, s in self.cluster.pairs]
        rows = [(row, max(value, exact_lp.dot(row, at))) for row, value in self.cluster.rows]  # tasks are rounded
        most = exact_lp.maximise(forms[j], [*rows, *kept]).value
        return (most - self.work[j]) / (self.work[j] if self.work[j] > self.slices[j] / 10**9 else self.slices[j])
