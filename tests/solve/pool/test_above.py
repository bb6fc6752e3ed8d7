"""A surplus on one pool, by the fast methods above the base."""

import json

import numpy as np
import pytest

import fairopt as fo
from fairopt.errors import Infeasible

KAI = fo.Instance([[1], [1]], [8], weights=[1, 3], guarantees=[2, 2], task_limits=6)
SLOTS = np.ones((4, 1))
MINIMA, WEIGHTS = [20, 0, 5, 15], [2, 1, 1, 0.5]


def test_over_quota_of_kai_is_divided_by_weight():
    assert fo.Policy(fo.Leximin(fo.Surplus())).allocate(KAI).tasks.tolist() == [3, 5]
    assert fo.Policy(fo.Leximin()).allocate(KAI).tasks.tolist() == [2, 6]


def test_minima_and_maxima_of_yarn():
    minima = fo.Instance(SLOTS, [45], weights=WEIGHTS, guarantees=MINIMA)
    maxima = fo.Instance(SLOTS, [45], weights=WEIGHTS, task_limits=[10, 11, 30, 20])
    np.testing.assert_allclose(fo.Policy(fo.Leximin(fo.Tasks())).allocate(minima).tasks, [20, 5, 5, 15], rtol=1e-14)
    np.testing.assert_allclose(fo.Policy(fo.Leximin(fo.Tasks())).allocate(maxima).tasks, [10, 11, 16, 8], rtol=1e-14)


def drawn(rng):
    n, m = rng.integers(2, 12), rng.integers(1, 4)
    demands = rng.lognormal(0, 1, (n, m)) * (rng.random((n, m)) < 0.7)
    demands[demands.sum(axis=1) == 0, 0] = 1
    capacities = rng.lognormal(3, 1, m)
    base = rng.random(n) * (rng.random(n) < 0.7)
    load = (base @ demands) / capacities
    base *= rng.choice([0.1, 0.5, 0.999999]) / max(load.max(), 1e-9)
    limits = np.where(rng.random(n) < 0.3, base + rng.lognormal(0, 1, n), np.inf)
    return demands, capacities, rng.lognormal(0, 1, n), base, limits


@pytest.mark.fast_methods
@pytest.mark.parametrize("alpha", [0, 1, 2, None])
def test_surplus_is_the_plain_answer_on_what_the_base_leaves(alpha):
    rng = np.random.default_rng(1)
    for _ in range(15):
        demands, capacities, weights, base, limits = drawn(rng)
        given = fo.Instance(demands, capacities, weights=weights, guarantees=base, task_limits=limits)
        c = fo.DominantShare().per_task(given)
        plain = weights / c if alpha is None else weights * c ** ((1 - alpha) / alpha) if alpha else weights
        left = fo.Instance(demands, capacities - base @ demands, weights=plain, task_limits=limits - base)
        if alpha == 0:
            surplus, tasks = fo.Total(fo.Surplus(fo.Tasks())), fo.Total(fo.Tasks())
        elif alpha is None:
            surplus, tasks = fo.Leximin(fo.Surplus()), fo.Leximin(fo.Tasks())
        else:
            surplus, tasks = fo.AlphaFair(alpha, fo.Surplus()), fo.AlphaFair(alpha, fo.Tasks())
        answer, other = fo.Policy(surplus).allocate(given), fo.Policy(tasks).allocate(left)
        assert answer.certificate.method == other.certificate.method != "cone"
        assert answer.certificate.violation <= 1e-12
        if alpha == 0:
            assert answer.tasks.sum() == pytest.approx(base.sum() + other.tasks.sum(), rel=1e-6)
        else:
            np.testing.assert_allclose(answer.tasks, base + other.tasks, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "value"), [(fo.Leximin, 1 / 8), (fo.MaxMin, 1 / 8), (lambda s: fo.AlphaFair(3, s), -32)]
)
def test_user_at_its_guarantee_leaves_the_objective(make, value):
    full = fo.Instance([[1, 0], [1, 0], [0, 1]], [8, 2], guarantees=[2, 3, 2], task_limits=[3, 3, 9])
    answer = fo.Policy(make(fo.Surplus())).allocate(full)
    np.testing.assert_allclose(answer.tasks, [3, 3, 2], rtol=1e-12)
    assert answer.objective == pytest.approx(value)


def test_nobody_can_rise():
    full = fo.Instance([[1], [1]], [4], guarantees=[1, 3])
    answer = fo.Policy(fo.AlphaFair(1, fo.Surplus())).allocate(full)
    np.testing.assert_allclose(answer.tasks, [1, 3], rtol=1e-12)


def test_other_lower_bounds_than_the_base_count():
    answer = fo.Policy(fo.Leximin(fo.Surplus(fo.Tasks(), base=[1, 2])), [fo.MinTasks({"user1": 6})]).allocate(
        fo.Instance([[1], [1]], [10])
    )
    np.testing.assert_allclose(answer.tasks, [6, 4], rtol=1e-12)


def test_lower_bounds_that_do_not_fit_are_infeasible():
    with pytest.raises(Infeasible):
        fo.Policy(fo.Leximin(fo.Surplus())).allocate(fo.Instance([[1], [1]], [4], guarantees=[3, 3]))


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize(
    "objective",
    [fo.AlphaFair(2, fo.Surplus()), fo.MaxMin(fo.Surplus()), fo.Leximin(fo.Surplus()), fo.Total(fo.Surplus())],
    ids=str,
)
def test_answers_on_identical_servers_are_read_and_verified(tmp_path, objective, servers):
    given = fo.Instance([[1, 2], [2, 1]], [[5, 5]] * servers, guarantees=[1, 0])
    file = fo.Policy(objective).allocate(given).save(tmp_path / "answer.json")
    assert fo.Allocation.load(file).certificate.ok
    assert fo.verify(file).ok


@pytest.mark.parametrize("objective", [fo.MaxMin(), fo.MaxMin(fo.Surplus())], ids=str)
def test_a_resource_that_is_named_twice_does_not_hide_its_slack(tmp_path, objective):
    given = fo.Instance(
        [[1, 3], [1, 0], [2, 3], [2, 3]], [13, 13], weights=[1, 1, 2, 1], task_limits=[None, None, None, 1]
    )
    file = fo.Policy(objective).allocate(given).save(tmp_path / "answer.json")
    held = json.loads(file.read_text())
    held["tasks_by_server"][3] = [0.99]
    held["objective"] *= 0.99
    (evidence,) = held["evidence"]
    evidence.get("found", evidence)["order"] = [0, 0]
    file.write_text(json.dumps(held))
    assert not fo.Allocation.load(file).certificate.ok


@pytest.mark.parametrize("make", [fo.Leximin, fo.MaxMin, lambda share: fo.AlphaFair(2, share)])
def test_tasks_below_the_base_in_a_file_are_not_proved(tmp_path, make):
    given = fo.Instance([[1, 2], [2, 1], [1, 1]], [9, 9], task_limits=[2, None, None], guarantees=[2, 0, 0])
    file = fo.Policy(make(fo.Surplus())).allocate(given).save(tmp_path / "answer.json")
    held = json.loads(file.read_text())
    held["tasks_by_server"][0] = [1.8]
    file.write_text(json.dumps(held))
    assert not fo.Allocation.load(file).certificate.ok
