"""Witnesses computed again: against the methods, against brute force, and where there is more than one optimum."""

from dataclasses import replace
from fractions import Fraction as F  # noqa: N817

import numpy as np
import pytest
from hypothesis import given, settings
from oracle.bundles import hffmra, mlf_drs
from oracle.fractions_waterfill import dominant
from oracle.fractions_waterfill import leximin as slow_leximin
from oracle.instances import pools

import fairopt as fo
from fairopt.instance.parts import taking_part
from fairopt.properties.exact.confirm import Counterexample, coefficients_of, recomputed, verified
from fairopt.properties.exact.pool import ExactAnswer, ExactPool, leximin, max_sum

EXACT = [
    fo.DRF(),
    fo.KDF(2, short="positive"),
    fo.TSF(),
    fo.GFJ(beta=1, lam=1),
    fo.Policy(fo.Leximin(fo.PNormShare(1))),
]
NUMERIC = [fo.FDS(0.5), fo.FDS(1), fo.FDS(5), fo.GFJ(2), fo.PNormFairness(1.5, 2)]
NUMERIC += [pytest.param(fo.BottleneckFairness(), marks=pytest.mark.fast_methods)]  # its check asks for six digits


@given(pools())
@settings(max_examples=20)
def test_leximin_in_fractions_is_that_of_the_oracle(instance: fo.Instance) -> None:
    pool = ExactPool.of(instance)
    if 0 in pool.limits:
        return
    worth = dominant(pool.demands, pool.capacities)
    right = slow_leximin(pool.demands, pool.capacities, worth, pool.weights, pool.limits)
    assert leximin(pool, worth) == right


def test_shares_of_users_who_stay_count_the_weights_of_those_who_left() -> None:
    whole = fo.Instance([[1, 2], [2, 1], [1, 1]], [8, 8], weights=[1, 2, 3])
    part, share = taking_part(whole, [0, 1]), fo.ThroughputShare()
    exact, error, _ = coefficients_of(share, part)
    assert error == 0 and [float(c) for c in exact] == pytest.approx(share.coefficients(part), rel=1e-15)


def test_a_bundle_on_which_a_user_runs_nothing_is_held_all_the_same() -> None:
    answer = ExactAnswer([F(0), F(2)], [[F(1), F(0)], [F(4), F(2)]], [F(0), F(1)])
    assert [answer.held(0), answer.held(1)] == [[1, 0], [2, 1]]


@pytest.mark.parametrize("policy", EXACT, ids=lambda p: p.name or repr(p))
@given(pools(max_users=4, max_resources=3))
@settings(max_examples=8)
def test_exact_answers_are_those_of_the_methods(policy: fo.Policy, instance: fo.Instance) -> None:
    if instance.n_resources < 2 or not instance.task_limits.any():  # 2-DF is not defined; no user takes part
        return
    again = recomputed(policy, instance)
    value = [float(sum(a.tasks)) for a in again.answers]
    tasks = policy.allocate(instance).tasks
    assert not any(again.answers[0].error) and "exact fractions" in again.how
    if len(value) == 1:
        np.testing.assert_allclose([float(x) for x in again.answers[0].tasks], tasks, atol=1e-7, rtol=1e-7)
    else:  # all corners are as good
        assert np.ptp(value) == 0 and value[0] == pytest.approx(tasks.sum())


@pytest.mark.parametrize("policy", NUMERIC, ids=lambda p: p.name)
@given(pools(max_users=4, max_resources=3))
@settings(max_examples=7)
def test_alpha_fair_answers_are_those_of_the_methods(policy: fo.Policy, instance: fo.Instance) -> None:
    again = recomputed(policy, instance)
    alone = np.minimum(instance.tasks_alone[:, 0], instance.task_limits)
    differ = np.abs([float(x) for x in again.answers[0].tasks] - policy.allocate(instance).tasks)
    assert (differ <= 1e-5 * alone).all()


def test_alpha_fair_to_thirty_digits_where_the_answer_is_known() -> None:
    found = recomputed(fo.FDS(2), fo.Instance([[1, 4], [3, 1]], [9, 18]))
    assert found.how == "optimality conditions to 30 digits"
    assert abs((found.answers[0].tasks[0] / 9 + 1) ** 2 - 2) < F(1, 10**29)


@pytest.mark.parametrize("policy", [fo.MLFDRS(), fo.FFMRA(), fo.HFFMRA()], ids=lambda p: p.name)
@pytest.mark.parametrize(
    ("demands", "room"),
    [([[0.3, 0.1], [1, 0.05]], [3, 1]), ([[0.1, 0.2, 0], [0.2, 0.1, 0.1]], [0.3, 0.9, 1])],
    ids=["dominant", "scarce"],
)
def test_what_ties_but_for_the_rounding_of_its_numbers_ties_in_fractions(
    policy: fo.Policy, demands: list[list[float]], room: list[float]
) -> None:
    instance = fo.Instance(demands, room)
    again = np.array(recomputed(policy, instance).answers[0].bundles, dtype=float)
    np.testing.assert_allclose(again, policy.allocate(instance).bundles[:, 0], rtol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_bundles_in_fractions_are_those_of_the_oracle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    demands, room = rng.integers(0, 6, size=(3, 3)), rng.integers(1, 9, size=3)
    demands[np.arange(3), rng.integers(0, 3, size=3)] += 1
    instance = fo.Instance(demands, room)
    for growth in ("proportional", "equal"):
        again = recomputed(fo.MLFDRS(growth), instance)
        assert again.answers[0].bundles == mlf_drs(demands.tolist(), room.tolist(), growth)
    for units in ("share", "raw"):
        right = hffmra(demands[:, None].tolist(), [room.tolist()], units)
        assert recomputed(fo.HFFMRA(units), instance).answers[0].bundles == [rows[0] for rows in right]
        assert recomputed(fo.FFMRA(units), instance).answers[0].bundles == [rows[0] for rows in right]


def test_all_optimal_corners_are_found() -> None:
    pool = ExactPool.of(fo.Instance([[1, 1], [1, 1], [2, 1]], [4, 4]))
    assert sorted(max_sum(pool, [F(1)] * 3)) == [[0, 4, 0], [4, 0, 0]]


def test_a_witness_must_hold_at_every_optimum() -> None:
    tied = fo.Instance([[1], [1]], [1])  # any split has the most tasks
    assert not any(verified(fo.MostTasks(), Counterexample("sharing-incentive", tied, j)).confirmed for j in (0, 1))
    apart = fo.Instance([[1], [2]], [1])
    assert verified(fo.MostTasks(), Counterexample("sharing-incentive", apart, 1)).margin == 1.0


LIE = Counterexample("strategy-proof", fo.Instance([[1, 1], [1, 1]], [1, 1]), 0, (0.5, 0.5))


def test_a_lie_is_verified_exactly() -> None:
    proof = verified(fo.KDF(2), LIE)
    assert proof.margin == pytest.approx(1 / 3, abs=1e-15) and proof.how == "exact fractions"


@pytest.mark.parametrize("policy", [fo.DRF(), fo.FDS(1), fo.NashWelfare()], ids=lambda p: p.name)
def test_a_lie_that_does_not_pay_is_not_believed(policy: fo.Policy) -> None:
    assert not verified(policy, LIE).confirmed


def test_lies_from_nothing_gain_without_end() -> None:
    case = Counterexample("strategy-proof", fo.Instance([[1], [2]], [1]), 1, (0.5,))
    assert verified(fo.MostTasks(), case).margin == np.inf


def test_another_mechanism_is_run_again_and_measured() -> None:
    class Wasteful:
        name = "wasteful"

        def allocate(self, instance: fo.Instance) -> fo.Allocation:
            answer = fo.DRF().allocate(instance)
            return replace(answer, tasks_by_server=answer.tasks_by_server * 0.99)

    proof = verified(Wasteful(), Counterexample("pareto", fo.Instance([[1]], [1]), 0))
    assert proof.margin == pytest.approx(1 / 99, abs=1e-5) and "run again" in proof.how


def test_a_random_mechanism_is_never_believed() -> None:
    class Random:
        name = "random"
        rng = np.random.default_rng(0)

        def allocate(self, instance: fo.Instance) -> fo.Allocation:
            answer = fo.DRF().allocate(instance)
            return replace(answer, tasks_by_server=answer.tasks_by_server * self.rng.random())

    proof = verified(Random(), Counterexample("pareto", fo.Instance([[1]], [1]), 0))
    assert not proof.confirmed and "two calls differ" in proof.how


def test_policies_without_a_closed_way_are_held_against_a_second_method() -> None:
    policy = fo.Policy(fo.AlphaFair(1, fo.KDominantShare(2)) + 0.1 * fo.Total(fo.Tasks()))
    found = recomputed(policy, fo.Instance([[1, 2], [2, 1]], [3, 3]))
    assert "two methods" in found.how and all(e > 0 for e in found.answers[0].error)


def test_what_one_solver_leaves_of_a_flat_optimum_is_no_envy() -> None:
    """The optimum is (2/9, 1/3, 1/3), where no user envies another; CLARABEL stops 5e-6 beside it, certified."""
    pool, policy = fo.Instance([[3, 6], [5, 4], [6, 4]], [7, 4]), fo.FDS(beta=2, lam=-0.6)
    first = policy.allocate(pool, solver="CLARABEL")
    again = recomputed(policy, pool)
    assert first.certificate.solver not in again.how.split("(")[1].split(", ")[1:]
    assert min(again.answers[0].error) >= 2 * np.sqrt(3 * first.certificate.gap) * 0.2  # it runs 0.222 tasks
    assert not any(verified(policy, Counterexample("envy-free", pool, user)).confirmed for user in range(3))


def test_envy_of_different_users_at_different_optima_is_no_envy_at_all_of_them() -> None:
    """Most tasks, whichever user runs them; each corner leaves envy, the middle none of the first user's."""
    pool = fo.Instance([[2, 2], [1, 1], [1, 1]], [2, 2], weights=[1, 1, 1])
    corners = recomputed(fo.MostTasks(), pool).answers
    assert len(corners) == 2 and all(c.tasks[0] == 0 for c in corners)
    assert not verified(fo.MostTasks(), Counterexample("envy-free", pool, 1)).confirmed  # envies at one corner only
    assert not verified(fo.MostTasks(), Counterexample("envy-free", pool, 0)).confirmed  # one of two others, by corner
    alone = fo.Instance([[2, 2], [1, 1]], [2, 2])
    assert verified(fo.MostTasks(), Counterexample("envy-free", alone, 0)).confirmed


def test_several_servers_are_refused() -> None:
    with pytest.raises(fo.errors.OutOfDomain, match="one pool"):
        recomputed(fo.DRF(), fo.Instance([[1]], [[1], [2]]))
