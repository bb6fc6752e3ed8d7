"""Tasks that are 0 or at least so many, by brute force: each set of users at 0, in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import fairopt as fo
from oracle.exact_lp import NoPoint, leximin, maximise, ordered, smallest
from oracle.whole import exact, largest_part, of_instance

RANKS = (4, 3, 2, 1)
OBJECTIVES: dict[str, fo.Objective] = {
    "total": fo.Total(fo.Tasks()),
    "max-min": fo.MaxMin(),
    "ordered": fo.OrderedWeighted(RANKS),
    "leximin": fo.Leximin(),
}


class Drawn(NamedTuple):
    """An instance, the least tasks other than 0, by user or by user and server, and one plain lower bound."""

    instance: fo.Instance
    least: Any
    bound: dict[str, float]

    @property
    def constraints(self) -> list[fo.Constraint]:
        """The constraints of a policy."""
        return [fo.MinTasks(self.least, or_zero=True)] + [fo.MinTasks(self.bound)] * bool(self.bound)


def draw(rng: np.random.Generator, pool: bool) -> Drawn:
    """A pool of 1 to 4 users, or two servers, perhaps alike, of 1 to 3.

    With zero demands, weights, limits, users alike and placement.
    """
    rows, by_server = 1 if pool else 2, not pool and rng.random() < 0.3
    n, m = int(rng.integers(1, 5 if pool else 3 if by_server else 4)), int(rng.integers(1, 3))
    shape = (n, rows, m) if not pool and rng.random() < 0.3 else (n, m)
    demands = rng.integers(0, 5, size=shape).astype(float)
    demands[..., 0] += ~demands.any(axis=-1)
    if n > 2 and rng.random() < 0.5:
        demands[1] = demands[0]
    eligible = rng.random((n, rows)) < 0.85
    eligible[np.arange(n), rng.integers(0, rows, size=n)] = True
    limits = np.where(rng.random(n) < 0.3, rng.integers(0, 9, size=n) / 2, np.inf)
    weights = rng.integers(1, 4, size=n) if rng.random() < 0.4 else None
    capacities = rng.integers(3, 14, size=(rows, m)).astype(float)
    if rng.random() < 0.2:
        capacities[:] = capacities[0]
    instance = fo.Instance(demands, capacities, task_limits=limits, weights=weights, eligible=eligible)
    least = rng.integers(0, 8, size=(n, rows) if by_server else n) / 2
    most = np.where(limits > 0, limits, np.inf)
    least = np.minimum(least, most[:, None] if by_server else most)
    j = int(rng.integers(n))
    bound = {instance.users[j]: float(rng.choice([0.5, 2, 4]))} if rng.random() < 0.2 and limits[j] > 0 else {}
    return Drawn(instance, least, bound)


def best(drawn: Drawn, kind: str) -> Any:
    """The optimum over all sets at 0; sorted levels for leximin; None if nothing is possible."""
    instance, least, bound = drawn
    demands, capacities, total = of_instance(instance)
    active = [j for j in range(instance.n_users) if instance.task_limits[j] > 0]
    columns = [(j, s) for j in active for s in range(instance.n_servers) if instance.eligible[j, s]]

    def row(worth: Any) -> list[Fraction]:
        return [Fraction(worth(j, s)) for j, s in columns]

    rows = [
        (row(lambda k, t: demands[k][t][i] if t == s else 0), capacities[s][i])  # noqa: B023
        for s in range(instance.n_servers)
        for i in range(instance.n_resources)
    ]
    for j in active:
        own = row(lambda k, _: k == j)  # noqa: B023
        if np.isfinite(instance.task_limits[j]):
            rows.append((own, exact(instance.task_limits[j])))
        if instance.users[j] in bound:
            rows.append(([-x for x in own], -exact(bound[instance.users[j]])))
    forms = [
        row(lambda k, t: largest_part(tuple(demands[k][t]), total) / exact(instance.weights[k]) * (k == j))  # noqa: B023
        for j in active
    ]
    if least.ndim == 1:
        gates = [(row(lambda k, _: k == j), exact(least[j])) for j in active if least[j]]  # noqa: B023
    else:
        gates = [(row(lambda k, t: (k, t) == pair), exact(least[pair])) for pair in columns if least[pair]]  # noqa: B023
    found = None
    for runs in product((False, True), repeat=len(gates)):
        more = [
            ([-x for x in one] if on else one, -v if on else Fraction(0))
            for (one, v), on in zip(gates, runs, strict=True)
        ]
        try:
            if kind == "total":
                value: Any = maximise(row(lambda *_: 1), rows + more).value
            elif kind == "max-min":
                value = smallest(forms, rows + more)
            elif kind == "ordered":
                value = ordered(forms, RANKS, rows + more)
            else:
                value = sorted(leximin(forms, rows + more))
        except NoPoint:
            continue
        found = value if found is None else max(found, value)
    return found
