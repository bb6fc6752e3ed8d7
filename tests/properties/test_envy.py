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
from fairopt.properties.units import first_largest
from fairopt.runtime.clock import Clock

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
    monkeypatch.setattr(module, "FEW", 0)
    if "few" in kind:
        monkeypatch.setattr(module, "LEADERS", 1)
    if "no ties" in kind:
        monkeypatch.setattr(module, "NEAREST", 2)
    rng, envious = np.random.default_rng(len(kind)), 0
    for _ in range(30):
        a = drawn(rng, servers)
        _, largest, whom = envy_by_pairs(a, name)
        found = envy(a, counting)
        above = largest > 1e-6
        np.testing.assert_array_equal(found.enviers(1e-6), np.flatnonzero(above))
        np.testing.assert_array_equal(found.largest[above], largest[above])
        np.testing.assert_array_equal(found.whom, np.where(above, whom, -1))
        assert (found.largest >= largest).all() and found.left == 0
        if above.any():
            j = int(first_largest(np.where(above, largest, -1.0)))
            users = a.instance.users
            assert (found.envier, found.envied, found.runs) == (users[j], users[whom[j]], a.tasks[j])
            envious += 1
    assert 10 < envious < 60


def test_users_with_servers_of_their_own_are_searched_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHOLE", 0)
    monkeypatch.setattr(module._Search, "run", lambda *_: pytest.fail("a search for one set of servers"))
    rng = np.random.default_rng(0)
    n, sets = 200, (np.arange(1, 201)[:, None] >> np.arange(8)) % 2 == 1
    demands, tasks = rng.integers(1, 5, (n, 3)), rng.integers(0, 3, (n, 8)) * sets
    a = by_hand(fo.Instance(demands, np.full((8, 3), 1e4), eligible=sets), tasks)
    _, largest, whom = envy_by_pairs(a, "envy-free")
    found, above = envy(a), largest > 1e-6
    np.testing.assert_array_equal(found.whom, np.where(above, whom, -1))
    np.testing.assert_array_equal(found.largest[above], largest[above])
    assert (found.largest >= largest).all() and 20 < above.sum() < n


def test_a_user_without_tasks_envies_the_bundle_on_which_it_would_run_most(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = fo.Instance([[0, 3, 0, 1], [2, 2, 1, 3], [2, 3, 0, 1], [1, 1, 3, 1]], [1e3] * 4)
    monkeypatch.setattr(module, "WHOLE", 0)
    monkeypatch.setattr(module, "FEW", 0)
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


def pool(n: int, seed: int = 0) -> fo.Instance:
    return fo.Instance(np.random.default_rng(seed).uniform(1, 10, (n, 3)), [n] * 3)


@pytest.mark.fast_methods
def test_a_million_users_are_checked_in_seconds_and_drf_of_them_is_efficient_and_free_of_envy() -> None:
    """Sums of a million terms one after the other took 4e-12 of a full resource for left over."""
    begun, report = time.process_time(), fo.check(fo.DRF().allocate(pool(10**6)))
    assert time.process_time() - begun < 5  # 0.9 s
    assert report["pe"].holds and report["pe"].margin == 0.0 and report["si"].holds
    assert report["ef"].holds and abs(report["ef"].margin) < 1e-13


@pytest.mark.fast_methods
@pytest.mark.parametrize(("policy", "pairs"), [(fo.DRF(), 0), (fo.FDS(1), 0), (fo.KDF(2), None), (fo.FDS(0.5), None)])
def test_bounds_settle_all_users_where_the_notion_is_envy_free_and_the_tree_the_others(
    policy: fo.Policy, pairs: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 20_000
    a, looked = policy.allocate(pool(n)), []
    query = module._Tree.query
    monkeypatch.setattr(module._Tree, "query", lambda tree, users: looked.append(users) or query(tree, users))
    verdict = fo.check(a, "ef")["ef"]
    assert bool(looked) == (pairs is None) and verdict.holds == (pairs == 0)
    if not verdict.holds:
        found = verdict.details
        j, k = a.instance.user_index(found.envier), a.instance.user_index(found.envied)
        held = a.instance.demands[[k]] * a.tasks[k] / a.instance.demands[[j]]
        assert found.would_run == pytest.approx(held.min(), rel=1e-15)
        assert verdict.margin == (found.would_run - a.tasks[j]) / max(a.tasks[j], a.instance.own_slices[j])


# -- when the time is short -----------------------------------------------------------------------------------


class SoonLate(Clock):
    """Late after some looks at it."""

    def __init__(self, looks: int) -> None:
        super().__init__(60.0)
        self.looks = looks

    @property
    def late(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def test_users_found_to_envy_before_the_time_is_over_stay_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHOLE", 0)
    monkeypatch.setattr(module, "FEW", 0)
    a = fo.KDF(2).allocate(pool(1000))
    complete, part = envy(a), envy(a, clock=SoonLate(1))
    assert 700 < part.left <= 1000 - 256 and part.pairs_left == part.left * 999
    known = part.whom >= 0
    assert 200 < known.sum() <= 256
    np.testing.assert_array_equal(part.largest[known], complete.largest[known])
    np.testing.assert_array_equal(part.whom[known], complete.whom[known])
    assert (part.largest >= complete.largest).all()  # of the users left an upper bound


def test_a_verdict_is_open_where_the_time_was_over_before_a_user_was_found_to_envy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WHOLE", 0)
    monkeypatch.setattr(module, "FEW", 0)
    a = fo.KDF(2).allocate(pool(1000))
    report = fo.check(a, ["si", "ef"], time_limit=1e-9)
    assert report["ef"].holds is None and report["ef"].margin <= 1e-6
    assert str(report["ef"]) == (
        "no user would run more tasks on what another holds, as far as is known: 996 users (up to 995,004 pairs) were "
        "not compared when the time limit of 1e-09 s was over"
    )
    assert report.holds is False and "  open envy-free          no user" in str(report)
    assert fo.check(a, "ef", time_limit=1e-9).holds is None and "envy-free: open" in repr(report)
    assert fo.check(fo.DRF().allocate(pool(1000)), "ef", time_limit=1e-9).holds  # bounds need no time


@pytest.mark.parametrize("name", ["ef", "ef1"])
def test_the_matrix_is_left_out_where_the_time_was_over(name: str) -> None:
    verdict = fo.check(fo.KDF(2).allocate(pool(10)), name, time_limit=1e-9)[name]
    assert verdict.holds is None and verdict.details.matrix is None and verdict.details.left == 10
    with pytest.raises(fo.errors.InvalidBlock, match="who envies whom most is in"):
        verdict.plot()


def test_what_can_be_gained_on_several_servers_is_open_where_the_time_was_over() -> None:
    a = fo.DRF().allocate(fo.Instance([[1, 2], [2, 1]], [[4, 2], [2, 9]]))
    less = by_hand(a.instance, a.tasks_by_server / 2)
    verdict = fo.check(less, "pe", time_limit=1e-9)["pe"]
    assert verdict.holds is None and "is not ruled out when the time limit of 1e-09 s was over" in str(verdict)
    assert verdict.details.bound > 0.5 and verdict.margin == 0.0
    assert fo.check(less, "pe")["pe"].holds is False


def test_where_nobody_envies_anyone_there_is_no_pair() -> None:
    found = envy(fo.DRF().allocate(fo.Instance([[1, 2]], [4, 4])))
    assert (found.envier, found.envied, found.would_run, found.runs, found.pairs()) == (None, None, 0, 0, [])
