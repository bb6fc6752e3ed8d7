"""Envy by bounds, the tree and pairs: exactly what the comparison of all pairs finds, and in the time that there is."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from oracle.envy import envy_by_pairs

import fairopt as fo
from fairopt.properties import envy as module
from fairopt.properties.envy import LESS_ONE_OF_THEIRS, LESS_ONE_OWN, TASKS, envy

COUNTINGS = {"envy-free": TASKS, "ef1": LESS_ONE_OF_THEIRS, "ef1-own": LESS_ONE_OWN}


def by_hand(instance: fo.Instance, tasks: Any, bundles: Any = None) -> fo.Allocation:
    rows = np.asarray(tasks, dtype=float).reshape(instance.n_users, -1)
    return fo.Allocation(instance, None, rows, fo.Certificate(0.0, 0.0, "by hand"), 0.0, None, bundles)


def drawn(rng: np.random.Generator, servers: int) -> fo.Allocation:
    """Tasks and perhaps bundles of users with zeros, ties, duplicates, limits and weights, not allowed everywhere."""
    n, m = int(rng.integers(1, 13)), int(rng.integers(1, 5))
    integers = rng.random() < 0.5
    by_server, given = servers > 1 and rng.random() < 0.3, rng.random() < 0.3
    shape = (n, servers, m) if by_server else (n, m)
    demands = rng.integers(0, 4, shape) if integers else rng.uniform(1, 9, shape) * (rng.random(shape) < 0.8)
    demands[..., 0] += ~demands.any(axis=-1)
    tasks = rng.integers(0, 5, (n, servers)) if integers else rng.uniform(0, 5, (n, servers))
    weights, alike = rng.integers(1, 4, n) if integers else rng.uniform(0.5, 3, n), rng.random()
    if alike < 0.3:  # some users who are alike
        copied = rng.integers(0, n, n)
        demands, tasks, weights = demands[copied], tasks[copied], weights[copied]
    elif alike < 0.5 and not by_server:  # tasks that use the same of the first resource, as by DRF
        tasks = tasks.astype(float)
        tasks[demands[:, 0] > 0] = (3.0 / demands[demands[:, 0] > 0, 0])[:, None]
    eligible = rng.random((n, servers)) < 0.7
    eligible[np.arange(n), rng.integers(0, servers, n)] = True
    tasks = tasks * eligible
    limits = np.where(rng.random(n) < 0.3, np.maximum(tasks.sum(axis=1) * rng.choice([1, 1.5], n), 0.5), np.inf)
    room = np.full((servers, m), 1e3)
    instance = fo.Instance(demands, room, weights=weights, task_limits=limits, eligible=eligible)
    bundles = None
    if given:
        bundles = instance.per_server_demands * tasks[:, :, None] * rng.choice([1, 1, 1.25, 2], (n, servers, m))
        bundles = bundles[np.zeros(n, dtype=int)] if rng.random() < 0.2 else bundles
    return by_hand(instance, tasks, bundles)


@pytest.mark.parametrize("servers", [1, 1, 1, 3], ids=["pool", "few leaders", "no ties left to the tree", "servers"])
@pytest.mark.parametrize("name", list(COUNTINGS))
def test_the_search_finds_exactly_what_comparing_all_pairs_finds(
    request: pytest.FixtureRequest, name: str, servers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, counting = request.node.callspec.id, COUNTINGS[name]
    monkeypatch.setattr(module, "WHOLE", 0)
    if "few" in kind:
        monkeypatch.setattr(module, "LEADERS", 1)
    if "no ties" in kind:
        monkeypatch.setattr(module, "NEAREST", 2)
    rng, envious = np.random.default_rng(len(kind)), 0
    for _ in range(60):
        a = drawn(rng, servers)
        _, largest, whom = envy_by_pairs(a, name)
        found = envy(a, counting)
        above = largest > 1e-6
        np.testing.assert_array_equal(found.enviers(1e-6), np.flatnonzero(above))
        np.testing.assert_array_equal(found.largest[above], largest[above])
        np.testing.assert_array_equal(found.whom, np.where(above, whom, -1))
        assert (found.largest >= largest).all() and found.left == 0
        if above.any():
            j = int(np.where(above, largest, -np.inf).argmax())
            users = a.instance.users
            assert (found.envier, found.envied, found.runs) == (users[j], users[whom[j]], a.tasks[j])
            envious += 1
    assert 10 < envious < 60


def test_a_user_without_tasks_envies_the_bundle_on_which_it_would_run_most(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = fo.Instance([[0, 3, 0, 1], [2, 2, 1, 3], [2, 3, 0, 1], [1, 1, 3, 1]], [1e3] * 4)
    monkeypatch.setattr(module, "WHOLE", 0)
    monkeypatch.setattr(module, "NEAREST", 2)
    assert envy(by_hand(instance, [0, 0.75, 0.75, 0.5])).whom.tolist() == [2, -1, -1, -1]


def test_users_by_the_hundred_thousand_who_hold_the_same_of_a_resource_are_no_ties_to_go_through() -> None:
    n, rng = 100_000, np.random.default_rng(0)
    instance = fo.Instance(np.column_stack([np.ones(n), rng.uniform(0, 1, (n, 2))]), [n] * 3)
    tasks = np.where(np.arange(n) % 2, 0.5, 0.25)  # half of the users envy the others, each of many alike
    begun = time.process_time()
    found = envy(by_hand(instance, tasks))
    assert time.process_time() - begun < 10  # 0.5 s; all pairs would take minutes
    poor = np.flatnonzero(tasks < 0.5)
    assert (found.largest[found.enviers(1e-6)] > 0).all() and 0.99 * n / 2 < len(found.enviers(1e-6)) <= n / 2
    for j in rng.choice(poor, 5):
        runs = np.where(np.arange(n) == j, 0, (instance.demands * tasks[:, None] / instance.demands[j]).min(axis=1))
        assert found.largest[j] == (runs.max() - tasks[j]) / max(tasks[j], instance.own_slices[j])


@pytest.mark.parametrize("name", list(COUNTINGS))
def test_up_to_5000_users_all_pairs_are_compared(name: str) -> None:
    rng = np.random.default_rng(0)
    for trial in range(40):
        a = drawn(rng, 1 + 2 * (trial % 2))
        matrix, largest, whom = envy_by_pairs(a, name)
        found = envy(a, COUNTINGS[name])
        np.testing.assert_array_equal(found.matrix, matrix)
        np.testing.assert_array_equal(found.largest, largest)
        np.testing.assert_array_equal(found.whom, whom)
