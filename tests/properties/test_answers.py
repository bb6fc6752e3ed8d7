"""A mechanism on many pools: the same answers as one by one, and every fault where it is."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

import fairopt as fo
from fairopt.properties import answers as many
from fairopt.properties.answers import checked, non_deterministic, outcomes_of
from fairopt.properties.uncertainty import error_bound, left_open
from fairopt.solve.form.many_instances import Batch
from tests.oracle import bundles as oracle_bundles
from tests.oracle import fractions_waterfill as oracle

POLICIES = (
    fo.DRF(),
    fo.KDF(2),
    fo.FDS(0.5),
    fo.FDS(2),
    fo.GFJ(1),
    fo.PNormFairness(2, 2),
    fo.MostTasks(),
    fo.MLFDRS(),
    fo.MLFDRS("equal"),
    fo.FFMRA(),
    fo.HFFMRA(),
    fo.HFFMRA("raw"),
)


def pools(seed, size=24, n=3, m=3, least=0):
    rng = np.random.default_rng(seed)
    demands = rng.integers(least, 6, size=(size, n, m)).astype(float)
    demands[..., 0] += ~demands.any(axis=2)
    return rng, demands, rng.integers(1, 13, size=(size, m)).astype(float)


class Changed:
    """A mechanism of a user's own: DRF, with a changed answer."""

    name = "changed"

    def __init__(self, change):
        self.change = change

    def allocate(self, instance):
        return self.change(fo.DRF().allocate(instance))


def with_tasks(answer, tasks):
    return dataclasses.replace(answer, tasks_by_server=np.asarray(tasks, dtype=float))


@pytest.mark.fast_methods
@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
@pytest.mark.parametrize("entitled", [False, True])
def test_answers_are_those_of_one_by_one(policy, entitled):
    rng, demands, capacities = pools(1)
    weights = rng.integers(1, 3, size=demands.shape[:2]).astype(float) if entitled else None
    limits = np.where(rng.random(demands.shape[:2]) < 0.3, rng.integers(0, 8, size=demands.shape[:2]) / 2, np.inf)
    found = outcomes_of(policy, Batch.of(demands, capacities, weights, limits))
    assert not found.faults
    for b in range(len(demands)):
        one = fo.Instance(
            demands[b], capacities[b], weights=None if weights is None else weights[b], task_limits=limits[b]
        )
        if found.outside[b]:
            assert not found.ok[b] and np.isnan(found.tasks[b]).all()
            with pytest.raises(fo.errors.OutOfDomain):
                policy.allocate(one)
            continue
        answer = policy.allocate(one)
        assert found.ok[b]
        np.testing.assert_allclose(found.tasks[b], answer.tasks, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.received(demands)[b], answer.bundles[:, 0], rtol=1e-5, atol=1e-5)
    assert found.ok.any()


def test_tasks_of_drf_are_those_of_exact_fractions():
    _, demands, capacities = pools(2, least=0)
    found = outcomes_of(fo.DRF(), Batch.of(demands, capacities))
    for b in range(len(demands)):
        rows, room = demands[b].astype(int).tolist(), capacities[b].astype(int).tolist()
        exact = oracle.leximin(rows, room, oracle.dominant(rows, room))
        np.testing.assert_allclose(found.tasks[b], [float(x) for x in exact], rtol=1e-12)


def test_bundles_side_by_side_are_those_of_exact_fractions():
    _, demands, capacities = pools(3)
    found = outcomes_of(fo.MLFDRS(), Batch.of(demands, capacities))
    for b in range(len(demands)):
        rows = [[Fraction(int(v)) for v in row] for row in demands[b]]
        exact = oracle_bundles.mlf_drs(rows, [Fraction(int(c)) for c in capacities[b]])
        np.testing.assert_allclose(found.bundles[b], [[float(v) for v in row] for row in exact], rtol=1e-12)


def test_limits_cut_tasks_and_not_bundles():
    found = outcomes_of(fo.MLFDRS(), Batch.of([[[1, 1], [1, 1]]], [4, 4], task_limits=[1, np.inf]))
    np.testing.assert_allclose(found.tasks, [[1, 2]])
    np.testing.assert_allclose(found.bundles, [[[2, 2], [2, 2]]])


def test_only_undefined_instances_are_outside():
    found = outcomes_of(fo.KDF(2), Batch.of([[[1, 0], [1, 1]], [[1, 2], [1, 1]], [[0, 1], [0, 1]]], [4, 4]))
    assert found.outside.tolist() == [True, False, True]
    assert found.ok.tolist() == [False, True, False]
    assert not found.faults


def test_all_are_outside_where_k_exceeds_the_resources():
    found = outcomes_of(fo.KDF(3), Batch.of(np.ones((4, 2, 2)), [4, 4]))
    assert found.outside.all() and not found.ok.any()


def test_unequal_weights_are_outside_for_bundles_and_the_others_stand():
    found = outcomes_of(fo.MLFDRS(), Batch.of(np.ones((2, 2, 2)), [4, 4], weights=[[1, 2], [3, 3]]))
    assert found.outside.tolist() == [True, False]
    np.testing.assert_allclose(found.tasks[1], [2, 2])


def test_a_policy_with_an_allocate_of_its_own_is_asked_itself():
    class Favoured(fo.Policy):
        def allocate(self, instance, **options):
            return super().allocate(instance.with_weights([2.0, 1.0]), **options)

    favoured = Favoured(fo.DRF().objective, name="favoured")
    np.testing.assert_allclose(outcomes_of(favoured, Batch.of([[[1, 1], [1, 1]]], [3, 3])).tasks, [[2, 1]])


def test_a_share_of_ones_own_is_solved_one_by_one():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Mean(fo.Share):
        def per_task(self, instance):
            return instance.ratios.mean(axis=-1)

    found = outcomes_of(fo.Policy(fo.Leximin(Mean())), Batch.of([[[1, 0], [1, 1]]], [2, 2]))
    np.testing.assert_allclose(found.tasks, [[4 / 3, 2 / 3]])


def test_a_policy_with_constraints_is_solved_one_by_one():
    held = fo.Policy(fo.MostTasks().objective, [fo.MinTasks(1)], name="at least one")
    found = outcomes_of(held, Batch.of([[[2.0], [1.0]]], [6.0]))
    np.testing.assert_allclose(found.tasks, [[1, 4]], rtol=1e-6)


def test_what_raises_is_reported_by_instance_and_the_others_stand():
    class Fragile:
        def allocate(self, instance):
            if instance.demands[0, 0] > 2:
                raise ZeroDivisionError("no idea")
            return fo.DRF().allocate(instance)

    found = outcomes_of(Fragile(), Batch.of([[[1, 1], [1, 1]], [[3, 1], [1, 1]], [[2, 1], [1, 1]]], [4, 4]))
    assert [(b, type(error)) for b, error in found.faults] == [(1, ZeroDivisionError)]
    assert found.ok.tolist() == [True, False, True]
    assert np.isnan(found.tasks[1]).all() and not found.outside.any()


@pytest.mark.parametrize(
    ("change", "words", "error"),
    [
        (lambda a: with_tasks(a, a.tasks_by_server * np.nan), "give a finite number", fo.errors.NotCertified),
        (lambda a: with_tasks(a, a.tasks_by_server * 1.01), "tasks use 4.04 of 'resource1'", fo.errors.NotCertified),
        (lambda a: with_tasks(a, a.tasks_by_server * -1), "'user1' has -2.0 tasks", fo.errors.NotCertified),
        (lambda a: with_tasks(a, [[2.0]]), "give an Allocation with tasks of shape (2, 1)", fo.errors.InvalidBlock),
        (lambda a: a.tasks, "answered ndarray", fo.errors.InvalidBlock),
        (lambda a: None, "answered NoneType", fo.errors.InvalidBlock),
        (
            lambda a: dataclasses.replace(a, certificate=dataclasses.replace(a.certificate, gap=0.1)),
            "NOT certified",
            fo.errors.NotCertified,
        ),
        (
            lambda a: dataclasses.replace(a, given_bundles=np.full((2, 1, 2), 3.0)),
            "users hold 6 of",
            fo.errors.NotCertified,
        ),
    ],
)
def test_wrong_answers_are_faults(change, words, error):
    instance = fo.Instance([[1, 1], [1, 1]], [4, 4])
    with pytest.raises(error) as caught:
        checked(Changed(change), instance)
    assert words in str(caught.value)
    found = outcomes_of(Changed(change), Batch.of([instance.demands], [4, 4]))
    assert [type(e) for _, e in found.faults] == [error]
    assert not found.ok.any() and np.isnan(found.tasks).all()


def test_a_task_limit_exceeded_is_a_fault():
    def to_two(answer):
        return with_tasks(answer, [[2.0], [2.0]])

    found = outcomes_of(Changed(to_two), Batch.of([[[1, 1], [1, 1]]], [4, 4], task_limits=[1, np.inf]))
    assert "runs 2 tasks; its limit is 1" in str(found.faults[0][1])


def test_wasting_is_no_fault():
    wasting = Changed(lambda a: with_tasks(a, a.tasks_by_server * 0.99))
    found = outcomes_of(wasting, Batch.of([[[1, 1], [1, 1]]], [4, 4]))
    np.testing.assert_allclose(found.tasks, [[1.98, 1.98]])


def test_nothing_of_what_a_server_lacks_is_no_fault():
    found = outcomes_of(Changed(lambda a: a), Batch.of([[[1, 0], [1, 0]]], [4, 0]))
    assert found.faults == [] and found.tasks == pytest.approx(np.full((1, 2), 2.0))


def test_impossible_numbers_are_no_fault_of_the_mechanism():
    for mechanism in (fo.DRF(), fo.MLFDRS(), Changed(lambda a: a)):
        with pytest.raises(fo.errors.InvalidInstance):
            outcomes_of(mechanism, Batch.of([[[1.0, -1.0]]], [4, 4]))


def test_a_random_mechanism_is_found_out_and_others_are_not():
    rng = np.random.default_rng(0)
    random = Changed(lambda a: with_tasks(a, a.tasks_by_server * rng.uniform(0.5, 1.0)))
    _, demands, capacities = pools(4, size=5)
    drawn = Batch.of(demands, capacities)
    for instance in map(drawn.instance, range(5)):
        assert non_deterministic(random, instance)
        assert not any(non_deterministic(policy, instance) for policy in POLICIES)


def test_a_mechanism_that_fails_every_other_time_differs():
    calls = []

    class Moody:
        def allocate(self, instance):
            calls.append(1)
            if len(calls) > 1:
                raise ValueError("enough")
            return fo.DRF().allocate(instance)

    assert non_deterministic(Moody(), fo.Instance(np.ones((2, 2)), [4, 4]))
    assert not non_deterministic(Moody(), fo.Instance(np.ones((2, 2)), [4, 4]))  # it raises in both calls


def test_bundles_that_differ_are_enough_to_differ():
    held = iter([1.0, 2.0])

    def give(answer):
        return dataclasses.replace(
            answer, given_bundles=np.full((1, 1, 2), next(held)), tasks_by_server=np.ones((1, 1))
        )

    assert non_deterministic(Changed(give), fo.Instance([[1.0, 1.0]], [4, 4]))


@pytest.mark.parametrize("shape", [(0, 2, 2), (3, 0, 2)])
def test_nothing_to_do_is_done(shape):
    for policy in (fo.DRF(), fo.MLFDRS()):
        found = outcomes_of(policy, Batch.of(np.ones(shape), [4, 4]))
        assert found.tasks.shape == shape[:2] and not found.faults


def test_capacities_over_twelve_decades():
    demands = np.array([[[1e-6, 1e6], [2e-6, 1e6]]])
    for policy in (fo.DRF(), fo.MLFDRS(), fo.FDS(2)):
        found = outcomes_of(policy, Batch.of(demands, [1e-6, 1e6]))
        assert found.ok.all()
        np.testing.assert_allclose(
            found.tasks[0], policy.allocate(fo.Instance(demands[0], [1e-6, 1e6])).tasks, rtol=1e-6
        )


@pytest.mark.fast_methods
def test_more_pools_than_stand_side_by_side(monkeypatch):
    _, demands, capacities = pools(5, size=11)
    whole = outcomes_of(fo.FFMRA(), Batch.of(demands, capacities))
    monkeypatch.setattr(many, "SIDE_BY_SIDE", 3)
    np.testing.assert_array_equal(outcomes_of(fo.FFMRA(), Batch.of(demands, capacities)).bundles, whole.bundles)


def test_doubt_grows_with_the_gap():
    answer = fo.DRF().allocate(fo.Instance([[1, 1], [1, 1]], [4, 4]))
    loose = dataclasses.replace(answer, certificate=dataclasses.replace(answer.certificate, gap=1e-6))
    assert (error_bound(answer) < 1e-6).all() and (error_bound(loose) > 1e-3).all()


def test_the_tasks_of_those_who_count_for_little_are_doubted_most():
    pool = fo.Instance([[5.0], [4.0]], [8.0], weights=[1000, 1])
    answer = fo.FDS(1).allocate(pool, solver="CLARABEL")
    right = np.array([8 / 5 * 1000, 8 / 4]) / 1001
    off = np.abs(answer.tasks / right - 1)
    large, small = error_bound(answer)
    assert small == pytest.approx(np.sqrt(1000) * large, rel=1e-3) and (off <= [large, small]).all()
    assert (error_bound(fo.FDS(5).allocate(fo.Instance([[1, 4], [4, 1]], [4, 9]), solver="CLARABEL")) > 0).all()


@pytest.mark.parametrize("alpha", [0, 0.5, 1, 2, 5])
def test_a_gain_that_the_gap_leaves_open_makes_the_power_mean_larger_by_about_the_gap(alpha):
    weights = np.array([1.0, 3.0, 0.2])
    pool = fo.Instance([[1, 4], [3, 1], [2, 2]], [9, 18], weights=weights)
    policy = fo.Policy(fo.AlphaFair(alpha, fo.Tasks()) if alpha else fo.Total(fo.Tasks()))
    tasks = np.array([0.7, 2.0, 0.01])
    gap = 1e-9
    answer = fo.Allocation(pool, policy, tasks[:, None], fo.Certificate(gap, 0.0, "by hand"), 0.0)

    def mean(x):
        z = x / weights
        if alpha == 1:
            return np.exp(weights @ np.log(z) / weights.sum())
        return (weights @ z ** (1 - alpha) / weights.sum()) ** (1 / (1 - alpha))

    part, parts = left_open(answer)
    assert part == 2 * gap
    for user, more in enumerate(parts):
        with_it = tasks.copy()
        with_it[user] *= 1 + more
        assert np.log(mean(with_it) / mean(tasks)) == pytest.approx(2 * gap, rel=1e-4)


def test_no_gap_above_the_tolerance_of_certified_answers_leaves_anything_open():
    answer = fo.DRF().allocate(fo.Instance([[1], [1]], [10]))
    for gap, part in ((0.0, 0.0), (np.nan, 0.0), (1e-7, 2e-7), (1.0, 2e-6), (np.inf, 2e-6)):
        loose = dataclasses.replace(answer, certificate=fo.Certificate(gap, 0.0, "by hand"))
        assert left_open(loose)[0] == part and (left_open(loose)[1] == 0).all()


class Elsewhere:
    """Answers for users of other weights than those it is asked about."""

    def allocate(self, instance):
        return fo.DRF().allocate(instance.with_weights([2.0] + [1.0] * (instance.n_users - 1)))


def test_an_answer_is_measured_on_the_instance_that_was_asked_about():
    for pool in (fo.Instance([[1, 2]] * 3, [8, 16.5]), fo.Instance([[1, 2]] * 3, [[4, 8], [4, 8.5]])):
        answer = many.checked(Elsewhere(), pool)
        assert answer.instance is pool and answer.tasks[0] > answer.tasks[1] * 1.9
