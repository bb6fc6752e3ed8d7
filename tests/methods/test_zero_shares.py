"""Shares that are zero for some users: limits, floors and totals are defined there, against programs in fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle.exact_cluster import Cluster, Worth
from oracle.exact_lp import NoPoint, dot, leximin, maximise, smallest
from oracle.instances import cluster

import fairopt as fo

CLOSE = 2e-6  # of a value: twice the tolerated gap
GPU = fo.ResourceShare("gpu")
TRACE = fo.Instance(  # users of whom one needs no GPU
    [[4, 8, 1], [2, 4, 0], [1, 8, 2]], [64, 256, 8], users=["ml", "web", "lab"], resources=["cpu", "memory", "gpu"]
)


def instance_of(seed: int, kind: str) -> fo.Instance:
    """A random instance on which about half of the users need nothing of the last resource, in places or at all."""
    rng = np.random.default_rng(seed)
    servers = 1 if kind == "pool" else int(rng.integers(2, 4))
    drawn = cluster(rng, int(rng.integers(2, 5)), servers, 3, by_server=kind == "by server")
    demands = np.array(drawn.demands)
    demands[rng.random(demands.shape[:-1]) < 0.5, -1] = 0.0
    demands[..., 0] += ~demands.any(axis=-1)
    return drawn.replace(demands=demands)


def exactly(instance: fo.Instance) -> tuple[Cluster, Worth]:
    """The instance in fractions, and shares of the last resource."""
    limits = instance.task_limits.tolist()
    exact = Cluster(
        instance.demands, instance.capacities, instance.weights.tolist(), limits, instance.eligible, instance.counts
    )
    return exact, [[row[-1] / exact.total[-1] for row in rows] for rows in exact.demands]


def added(forms: list[list[Fraction]]) -> list[Fraction]:
    """The sum of linear forms."""
    return [sum(column, Fraction(0)) for column in zip(*forms, strict=True)]


def check(exact: Cluster, answer: fo.Allocation, forms: list[list[Fraction]], best: Fraction) -> None:
    """Feasible, certified, and of the best value."""
    assert answer.certificate.ok and exact.excess(answer.tasks_by_server) <= 1e-9
    assert_allclose(float(dot(added(forms), exact.at(answer.tasks_by_server))), float(best), rtol=CLOSE, atol=1e-12)


CASES = [(kind, seed) for kind in ("pool", "servers", "by server") for seed in range(12)]


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_totals_sums_and_levels_of_a_share_that_is_zero_for_some_are_exact(kind: str, seed: int) -> None:
    instance = instance_of(seed, kind)
    exact, worth = exactly(instance)
    share = fo.ResourceShare(2)
    forms = exact.forms(worth, per_weight=False)
    if not any(map(any, forms)):
        with pytest.raises(fo.OutOfDomain, match="zero for every user"):
            fo.Policy(fo.Total(share)).allocate(instance)
        return
    best = maximise(added(forms), exact.rows).value
    for objective in (fo.Total(share), fo.AlphaFair(0, share), fo.FairnessEfficiency(1, 2, share)):
        check(exact, fo.Policy(objective).allocate(instance), forms, best)

    tasks = exact.forms(exact.tasks(), per_weight=False)
    both = [[a + 2 * b for a, b in zip(x, y, strict=True)] for x, y in zip(forms, tasks, strict=True)]
    answer = fo.Policy(fo.Total(share) + 2 * fo.Total(fo.Tasks())).allocate(instance)
    check(exact, answer, both, maximise(added(both), exact.rows).value)

    level = float(best) * 0.7
    rows = [*exact.rows, ([-v for v in added(forms)], -Fraction(level))]
    answer = fo.Policy(fo.Total(fo.Tasks()), [fo.Total(share) >= level]).allocate(instance)
    check(exact, answer, tasks, maximise(added(tasks), rows).value)
    with pytest.raises(fo.Infeasible):
        fo.Policy(fo.Total(fo.Tasks()), [fo.Total(share) >= float(best) * 1.01]).allocate(instance)

    weights = instance.weights[exact.users]
    answer = fo.Policy(fo.Total(share).then(fo.MaxMin(fo.Tasks()))).allocate(instance)
    per_weight = exact.forms(exact.tasks())
    highest = smallest(per_weight, [*exact.rows, ([-v for v in added(forms)], -best)])
    check(exact, answer, forms, best)
    assert_allclose(float(min(answer.tasks[exact.users] / weights)), float(highest), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_limits_and_floors_on_a_share_that_is_zero_for_some_are_exact(kind: str, seed: int) -> None:
    instance = instance_of(seed + 100, kind)
    exact, worth = exactly(instance)
    share, rng = fo.ResourceShare(2), np.random.default_rng(seed)
    forms = exact.forms(worth, per_weight=False)
    high = rng.choice([0.0, 0.05, 0.2], size=instance.n_users)
    low = [float(0.3 * high[j]) if any(form) else 0.0 for j, form in zip(exact.users, forms, strict=True)]
    rows = [*exact.rows, *((form, Fraction(high[j])) for j, form in zip(exact.users, forms, strict=True))]
    rows += [([-v for v in form], -Fraction(least)) for form, least in zip(forms, low, strict=True)]
    blocks = [
        fo.MaxShare(dict(zip(instance.users, high.tolist(), strict=True)), share),
        fo.MinShare({instance.users[j]: least for j, least in zip(exact.users, low, strict=True)}, share),
    ]
    tasks, per_weight = exact.forms(exact.tasks(), per_weight=False), exact.forms(exact.tasks())
    try:
        best = maximise(added(tasks), rows)
    except NoPoint:
        with pytest.raises(fo.Infeasible):
            fo.Policy(fo.Total(fo.Tasks()), blocks).allocate(instance)
        return
    check(exact, fo.Policy(fo.Total(fo.Tasks()), blocks).allocate(instance), tasks, best.value)
    if kind == "by server" and not high.all():  # a limit of 0 on some servers only is beyond the proof of leximin
        return
    answer = fo.Policy(fo.Leximin(fo.Tasks()), blocks).allocate(instance)
    levels = [float(level) for level in leximin(per_weight, rows)]
    assert answer.certificate.ok
    assert_allclose(np.sort((answer.tasks / instance.weights)[exact.users]), np.sort(levels), rtol=1e-5, atol=1e-8)
