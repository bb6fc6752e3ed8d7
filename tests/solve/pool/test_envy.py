"""Leximin and max-min on one pool without envy, against cone programs and all rows by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fairopt as fo
from fairopt.proof import gate
from fairopt.proof.envy_levels import EnvyProgram
from fairopt.proof.evidence.pool import EnvyBottlenecks
from fairopt.proof.proposal import Proposal
from fairopt.solve.form.program import Program
from fairopt.solve.pool.envy import envy_free_applies

TASKS = fo.Tasks()


def drawn(seed: int) -> tuple[fo.Instance, list[fo.Constraint]]:
    """A pool with zeros, proportional demands, limits, weights and further bounds."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    demands = rng.integers(0, 4, (n, m)).astype(float) if seed % 2 else rng.uniform(0.1, 4, (n, m))
    demands[demands.sum(axis=1) == 0] = 1
    demands[-1] = demands[0] * rng.choice([1, 0.3, 2]) if seed % 3 == 0 else demands[-1]
    limits = np.where(rng.random(n) < 0.5, rng.uniform(0.05, 3, n), np.inf) if seed % 4 < 2 else None
    more: list[fo.Constraint] = [fo.MinTasks(0.01), fo.MaxShare(0.4), fo.Reserve(0, 0.2)]
    instance = fo.Instance(demands, rng.uniform(2, 20, m), weights=rng.uniform(0.3, 3, n), task_limits=limits)
    return instance, [fo.EnvyFree(), *more[seed % 5 : seed % 5 + 1]]


@pytest.mark.parametrize("seed", range(4))
def test_levels_are_those_of_cone_programs_and_no_worse_point_is_proved(seed: int, tmp_path: Path) -> None:
    instance, constraints = drawn(seed)
    policy = fo.Policy(fo.Leximin(TASKS), constraints)
    a = policy.allocate(instance, method="water-filling")
    np.testing.assert_allclose(a.tasks, policy.allocate(instance, method="cone").tasks, rtol=1e-6)
    program = Program(instance, policy.objective, tuple(constraints))
    tasks = program.gather(a.tasks_by_server)
    for wrong in (0.999 * tasks, tasks * (1 - 1e-4 * np.eye(len(tasks))[seed % len(tasks)])):
        assert not gate.judge(program, Proposal("wrong", wrong, EnvyBottlenecks(EnvyProgram(program)))).ok
    path = policy.allocate(instance).save(tmp_path / "a.json")
    assert fo.verify(path).ok
    data = json.loads(path.read_text())
    for k in range(len(tasks)):
        lower = {
            **data,
            "tasks_by_server": [
                [v * (1 - 1e-5 * (j == k)) for v in row] for j, row in enumerate(data["tasks_by_server"])
            ],
        }
        path.write_text(json.dumps(lower))
        assert not fo.verify(path).ok


def test_prices_are_derivatives_of_the_lowest_level() -> None:
    instance = fo.Instance([[2, 3], [2, 1], [1, 4]], [6, 4])
    policy = fo.Policy(fo.MaxMin(TASKS), [fo.EnvyFree()])
    a, step = policy.allocate(instance), 1e-4
    assert a.certificate.method == "water-filling"
    for i in range(2):
        more = np.array([6.0, 4.0]) + step * np.eye(2)[i]
        rise = (policy.allocate(fo.Instance(instance.demands, more)).objective - a.objective) / step
        assert a.prices[0, i] == pytest.approx(rise, abs=1e-6)


def test_it_is_for_levels_on_one_pool_under_envy_freeness_and_bounds() -> None:
    pool, servers = fo.Instance([[2, 3], [2, 1]], [6, 4]), fo.Instance([[2, 3], [2, 1]], [[6, 4], [3, 3]])
    envy_free, others = [fo.EnvyFree()], [fo.EnvyFree(), fo.EqualShares()]
    assert envy_free_applies(Program(pool, fo.Leximin(TASKS), envy_free))
    assert not envy_free_applies(Program(pool, fo.Leximin(TASKS), others))
    assert not envy_free_applies(Program(pool, fo.Total(), envy_free))
    assert not envy_free_applies(Program(servers, fo.Leximin(), envy_free))
    program = Program(pool, fo.Leximin(TASKS), others)
    assert not gate.judge(program, Proposal("other conditions", np.ones(2), EnvyBottlenecks(EnvyProgram(program)))).ok


def test_the_rows_that_imply_the_others_do() -> None:
    """By closure: the largest products along chains of rows are those of all rows."""
    for seed in range(40):
        instance, _ = drawn(seed)
        n, d = instance.n_users, instance.demands
        rows = fo.EnvyFree().implying(instance, 10**6)
        assert rows is not None and len(rows) <= n * (n - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = np.where(d[:, None] > 0, d[None] / d[:, None], np.inf).min(axis=2)
        np.fill_diagonal(worth, 1.0)
        known = np.eye(n)
        known.flat[rows] = worth.flat[rows]
        for _ in range(n):
            known = np.maximum(known, (known[:, :, None] * known).max(axis=1))
        np.testing.assert_allclose(known, worth, rtol=1e-9)
    assert fo.EnvyFree().implying(instance, 0) is None or len(rows) == 0


def test_sums_of_many_users_have_files_with_the_rows_that_bind(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    many = fo.Instance(rng.uniform(0.1, 4, (60, 2)), [60, 60])
    path = fo.Policy(fo.Total(), [fo.EnvyFree()]).allocate(many).save(tmp_path / "a.json")
    data = json.loads(path.read_text())
    (entry,) = data["evidence"]
    assert 0 < len(entry["rows"]) < 60 and fo.verify(path).ok
    for label in (["user1", "user1"], ["user1", "user61"], "user1"):
        path.write_text(json.dumps({**data, "evidence": [{**entry, "rows": [[0, label, 1.0]]}]}))
        assert not fo.verify(path).ok
    tasks = [row[:] for row in data["tasks_by_server"]]
    envious = many.users.index(entry["rows"][0][1][0])
    tasks[envious][0] *= 0.999
    path.write_text(json.dumps({**data, "evidence": [{**entry, "rows": []}], "tasks_by_server": tasks}))
    assert f"user {many.users[envious]!r} envies" in str(fo.verify(path))


def test_levels_under_envy_freeness_are_kept_by_a_later_tier_within_its_tolerance(tmp_path):
    # the first tier leaves one point, from which the second moves by 5e-8, where no row is binding to the last digit
    pool = fo.Instance([[1.1873, 0], [3.1016, 1.7437]], [10.525, 13.964], weights=[1.1645, 1.2316])
    tiers = fo.MaxMin(TASKS).then(fo.Total(TASKS))
    answer = fo.Policy(tiers, [fo.EnvyFree()]).allocate(pool)
    first = fo.Policy(fo.MaxMin(TASKS), [fo.EnvyFree()]).allocate(pool)
    np.testing.assert_allclose(answer.tasks, first.tasks, rtol=1e-6)
    assert answer.certificate.gap < 1e-6
    assert fo.verify(answer.save(tmp_path / "a.json")).ok
