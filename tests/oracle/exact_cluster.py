"""An instance written out in exact fractions: what fits, what shares are worth, and how far an answer is from fitting.

Taken from plain numbers, floats as the fractions they are, so that it shares no code with fairopt.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .exact_lp import dot

Worth = Sequence[Sequence[Any]]  # what a task of each user is worth on each server


class Cluster:
    """Tasks by pair of user and server under capacities, task limits and eligibility, as `fairopt.Instance` takes them.

    ``pairs`` are those that may run, in the order of users, and ``rows`` what holds of their tasks: coefficients and
    the most that they may add up to. A resource that a server lacks keeps users who need it away. ``users`` are those
    who take part, whose limit is not 0: objectives are about them alone.
    """

    def __init__(
        self,
        demands: Any,
        capacities: Any,
        weights: Any = None,
        task_limits: Any = None,
        eligible: Any = None,
        counts: Any = None,
        rates: Any = None,
        **_: Any,
    ) -> None:
        room, needs = np.atleast_2d(np.asarray(capacities)), np.asarray(demands)
        self.n, (self.servers, self.resources) = len(needs), room.shape
        users, servers, resources = range(self.n), range(self.servers), range(self.resources)
        self.demands = [
            [[Fraction(d) for d in (needs[j, s] if needs.ndim == 3 else needs[j]).tolist()] for s in servers]
            for j in users
        ]
        self.one = [[Fraction(c) for c in row] for row in room.tolist()]
        self.counts = [int(q) for q in (counts if counts is not None else [1] * self.servers)]
        self.weights = [Fraction(w) for w in (weights if weights is not None else [1] * self.n)]
        self.limits = [
            None if t is None or t == float("inf") else Fraction(t) for t in (task_limits or [None] * self.n)
        ]
        self.rates = [[Fraction(1 if rates is None else rates[j][s]) for s in servers] for j in users]
        self.total = [sum(self.counts[s] * self.one[s][i] for s in servers) for i in resources]
        self.users = [j for j in users if self.limits[j] != 0]
        self.pairs = [
            (j, s)
            for j, s in product(self.users, servers)
            if (eligible is None or eligible[j][s])
            and self.rates[j][s]
            and all(c > 0 for c, d in zip(self.one[s], self.demands[j][s], strict=True) if d)
        ]
        self.rows = [
            ([self.demands[j][s][i] if s == t else Fraction(0) for j, s in self.pairs], self.counts[t] * self.one[t][i])
            for t, i in product(servers, resources)
        ]
        for j, limit in enumerate(self.limits):
            if limit:
                self.rows.append(([Fraction(k == j) for k, _ in self.pairs], limit))

    def tasks(self) -> Worth:
        """A task is a task."""
        return [[Fraction(1)] * self.servers for _ in range(self.n)]

    def dominant(self, k: int = 1) -> Worth:
        """The product of the k largest positive shares of all capacity that a task takes."""
        return [[reduce(mul, sorted(filter(None, row), reverse=True)[:k]) for row in rows] for rows in self._ratios()]

    def summed(self) -> Worth:
        """The sum of the shares of all capacity that a task takes."""
        return [[sum(row, Fraction(0)) for row in rows] for rows in self._ratios()]

    def alone(self) -> Worth:
        """One over what the user could run with all servers to itself, wherever it may run."""
        out = []
        for rows in self.demands:
            runs = [
                q * min(c / d for c, d in zip(one, row, strict=True) if d)
                for one, row, q in zip(self.one, rows, self.counts, strict=True)
            ]
            out.append([1 / sum(runs, Fraction(0))] * self.servers)
        return out

    def throughput(self) -> Worth:
        """Work at the user's rates over that of an equal slice: by weight, of every server, all alike up to the limit.

        Times weight over mean weight, so that shares per weight compare how many times its slice each user has.
        """
        total, out = sum(self.weights), []
        for j in range(self.n):
            part = self.weights[j] / total
            hours = {
                s: part * self.counts[s] * min(c / d for c, d in zip(self.one[s], self.demands[j][s], strict=True) if d)
                for k, s in self.pairs
                if k == j
            }
            limit, used = self.limits[j], sum(hours.values())
            kept = limit / used if limit and used > limit else Fraction(1)
            work = sum(self.rates[j][s] * h * kept for s, h in hours.items())
            out.append([r * part * self.n / work if work else r for r in self.rates[j]])  # a user with a limit of 0
        return out

    def _ratios(self) -> list[list[list[Fraction]]]:
        return [[[d / c for d, c in zip(row, self.total, strict=True) if d] for row in rows] for rows in self.demands]

    def forms(self, worth: Worth, per_weight: bool = True) -> list[list[Fraction]]:
        """The share of each user who takes part, per weight or not, as coefficients by pair."""
        weights = self.weights if per_weight else [Fraction(1)] * self.n
        return [
            [Fraction(worth[j][s]) / weights[j] if k == j else Fraction(0) for k, s in self.pairs] for j in self.users
        ]

    def at(self, tasks_by_server: NDArray[np.floating[Any]]) -> list[Fraction]:
        """An answer by pair."""
        return [Fraction(float(tasks_by_server[j, s])) for j, s in self.pairs]

    def excess(self, tasks_by_server: NDArray[np.floating[Any]]) -> float:
        """By how much an answer breaks a capacity, a limit or a sign, relative to it; infinite for a wrong place."""
        table = np.array(tasks_by_server, dtype=float)
        at = self.at(table)
        table[tuple(zip(*self.pairs, strict=True))] = 0.0
        if table.any() or min(at) < 0:
            return float("inf")
        over = [dot(row, at) / value - 1 if value else float("inf") for row, value in self.rows if dot(row, at) > 0]
        return float(max([*over, 0]))

    def reach(self) -> list[Fraction]:
        """The most tasks that each pair could run by itself."""
        return [min(value / row[p] for row, value in self.rows if row[p]) for p in range(len(self.pairs))]
