"""Equal shares with the most tasks: the paper's propositions against exact corners, and where they fail."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

import fairopt as fo
from fairopt.properties.exact.pool import ExactPool, max_sum
from fairopt.runtime.clock import Clock

SHARES = (fo.DominantShare(), fo.Tasks())


def paper(ram: float) -> fo.Instance:
    return fo.Instance([[1, 4], [3, 1]], [9, ram], resources=["cpu", "memory"])


@st.composite
def small(draw: st.DrawFn) -> fo.Instance:
    n, m = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    row = st.lists(st.integers(0, 4), min_size=m, max_size=m).filter(any)
    return fo.Instance([draw(row) for _ in range(n)], [draw(st.integers(2, 12)) for _ in range(m)])


@settings(max_examples=10, deadline=None)
@given(small(), st.sampled_from(SHARES))
def test_it_holds_where_some_most_efficient_point_has_equal_shares(instance: fo.Instance, share: fo.Share) -> None:
    found = fo.tradeoff.no_tradeoff(instance, share)
    pool = ExactPool.of(instance)
    corners = max_sum(pool, [Fraction(1)] * instance.n_users)
    assert corners is not None and found.exact
    c = [max(row) if isinstance(share, fo.DominantShare) else Fraction(1) for row in pool.ratios]
    level = 1 / max(sum(g[i] / x for g, x in zip(pool.ratios, c, strict=True)) for i in range(instance.n_resources))
    equal = [level / x for x in c]
    assert found.holds == (sum(equal) == sum(corners[0]))
    assert found.always == (corners == [equal])
    np.testing.assert_allclose(found.equal.tasks, [float(x) for x in equal], rtol=1e-6)
    np.testing.assert_allclose(found.shortfall, float(1 - sum(equal) / sum(corners[0])), atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(small(), st.sampled_from(SHARES))
def test_proposition_7_holds_where_the_tight_capacities_are_independent(instance: fo.Instance, share: fo.Share) -> None:
    found = fo.tradeoff.no_tradeoff(instance, share)
    rows = instance.demands.T[[instance.resource_index(r) for r in found.tight]]
    if found.square and np.linalg.matrix_rank(rows) == instance.n_users:
        assert found.condition == found.holds


@settings(max_examples=10, deadline=None)
@given(small())
def test_corollary_5_needs_no_premise_but_strictness(instance: fo.Instance) -> None:
    corners = max_sum(ExactPool.of(instance), [Fraction(1)] * instance.n_users)
    assert corners is not None
    for j, _ in fo.tradeoff.no_tradeoff(instance).idle:
        assert all(corner[instance.user_index(j)] == 0 for corner in corners)


def test_needing_as_much_of_one_resource_is_not_enough_for_corollary_5() -> None:
    found = fo.tradeoff.no_tradeoff(fo.Instance([[3, 2], [1, 2]], [10, 5]))  # memory binds, of which both need 2
    assert found.idle == () and found.always is False
    corners = max_sum(ExactPool.of(found.equal.instance), [Fraction(1)] * 2)
    assert corners is not None and any(corner[0] > 0 for corner in corners)


def test_proposition_7_fails_for_dependent_capacities() -> None:
    found = fo.tradeoff.no_tradeoff(fo.Instance([[2, 2], [1, 1]], [11, 11]))
    assert found.square and found.condition and not found.holds
    assert found.shortfall == pytest.approx(0.25)


def test_corollary_6_holds_for_some_most_efficient_allocation_only() -> None:
    alike = fo.tradeoff.no_tradeoff(fo.Instance([[2], [2]], [7]))
    assert alike.holds and alike.always is False
    assert "Other allocations, with unequal shares, run as many." in alike.reasons
    assert not fo.tradeoff.no_tradeoff(fo.Instance([[2], [3]], [7])).holds


def test_equal_slopes_of_users_do_not_make_equal_tasks_most_efficient() -> None:
    proportional = fo.Instance([[4, 4], [1, 1]], [11, 12])
    assert fo.tradeoff.heterogeneity(proportional).sigma_variance == 0
    found = fo.tradeoff.no_tradeoff(proportional, fo.Tasks())
    assert not found.holds and found.idle == (("user1", "user2"),)
    assert "user1 needs more of everything than user2, so user1 runs no tasks where most run." in found.reasons


def test_capacities_of_the_paper_where_there_is_no_tradeoff_are_found_numerically() -> None:
    def apart(ram: float, share: fo.Share) -> float:
        return float(np.diff(fo.tradeoff.no_tradeoff(paper(ram), share).sums[0])[0])

    dominant = brentq(apart, 5, 20, args=(fo.DominantShare(),), xtol=1e-10)
    tasks = brentq(apart, 5, 20, args=(fo.Tasks(),), xtol=1e-10)
    np.testing.assert_allclose([dominant, tasks], [6 * np.sqrt(3), 11.25], atol=1e-8)
    lost = minimize_scalar(lambda ram: fo.tradeoff.no_tradeoff(paper(ram)).shortfall, bracket=(9, 10.3, 12), tol=1e-9)
    assert lost.x == pytest.approx(6 * np.sqrt(3), abs=1e-6) and lost.fun < 1e-6
    alike = brentq(lambda ram: np.diff(paper(ram).dominant_shares)[0], 5, 20, xtol=1e-10)
    assert alike == pytest.approx(12, abs=1e-8)
    assert fo.tradeoff.no_tradeoff(paper(11.25), fo.Tasks()).always


def test_weights_limits_and_users_of_no_tasks() -> None:
    assert fo.tradeoff.no_tradeoff(fo.Instance([[1, 0], [0, 1]], [4, 8], weights=[1, 2]), fo.Tasks()).holds
    assert not fo.tradeoff.no_tradeoff(fo.Instance([[1, 0], [0, 1]], [4, 8]), fo.Tasks()).holds
    limited = fo.tradeoff.no_tradeoff(fo.Instance([[1], [2]], [9], task_limits=[3, None]), fo.Tasks())
    assert limited.exact and limited.holds and limited.idle == ()
    part = fo.tradeoff.no_tradeoff(fo.Instance([[1], [2]], [9], task_limits=[None, 0]))
    assert part.holds and part.always
    with pytest.raises(fo.errors.OutOfDomain, match="no users"):
        fo.tradeoff.no_tradeoff(fo.Instance([[1]], [9], task_limits=0))
    with pytest.raises(fo.errors.InvalidBlock, match="without brackets"):
        fo.tradeoff.no_tradeoff(paper(18), fo.Tasks)  # type: ignore[arg-type]


def test_several_servers_and_many_users_are_decided_by_certified_programs() -> None:
    servers = fo.tradeoff.no_tradeoff(fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]]))
    assert servers.holds and not servers.exact and servers.always is None and np.isnan(servers.sums).all()
    random = np.random.default_rng(0)
    many = fo.tradeoff.no_tradeoff(fo.Instance(random.uniform(1, 5, (30, 3)), [50, 50, 50]))
    assert not many.holds and not many.exact and many.always is False
    assert "more" in str(many)


def test_variances_of_slopes_are_sample_variances() -> None:
    found = fo.tradeoff.heterogeneity(fo.Instance([[1, 4], [3, 3]], [9, 18]))
    np.testing.assert_allclose([found.tau_variance, found.sigma_variance], [0.5, 4.5])
    np.testing.assert_allclose(found.tau, [1 / 3, 4 / 3])


def test_the_log_ratio_variance_depends_on_proportions_only() -> None:
    demands = np.random.default_rng(1).uniform(1, 5, (4, 3))
    one = fo.tradeoff.heterogeneity(fo.Instance(demands, [9, 9, 9])).log_ratio_variance
    other = demands * [[1000, 1, 0.1]] * np.array([[1], [7], [0.2], [3]])
    assert fo.tradeoff.heterogeneity(fo.Instance(other, [1, 5, 3])).log_ratio_variance == pytest.approx(one)
    logs = np.log(demands)
    pairs = [np.var(logs[:, i] - logs[:, k], ddof=1) for i in range(3) for k in range(i)]
    assert one == pytest.approx(sum(pairs) / 3)


def test_limits_that_stop_equal_shares_are_named() -> None:
    cluster = fo.Instance([[1, 4], [3, 1]], [9, 18], task_limits=[1, 2])
    found = fo.tradeoff.no_tradeoff(cluster)
    assert not found and bool(fo.tradeoff.no_tradeoff(cluster.with_task_limits([np.inf, 0])))
    assert found.reasons[1] == "Equal shares cannot grow beyond the task limit of user1."
    assert found.equal.tasks[0] == 1  # dominant shares of 2/9 and 1/3 a task: 1 and 2/3 tasks
    servers = fo.Instance([[1, 4], [3, 1]], [[5, 9], [4, 9]], task_limits=[1, 2])
    assert "task limit of user1" in str(fo.tradeoff.no_tradeoff(servers))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fo.tradeoff.no_tradeoff(fo.DRF()), "this is Policy, not an instance"),  # type: ignore[arg-type]
        (lambda: fo.tradeoff.no_tradeoff(paper(18), "tasks"), "the share of no_tradeoff is 'tasks'"),  # type: ignore[arg-type]
        (lambda: fo.tradeoff.heterogeneity(fo.DRF()), "this is Policy, not an instance"),  # type: ignore[arg-type]
        (lambda: fo.tradeoff.heterogeneity(paper(18), users="db"), "users are 'db'; give two names, as"),
        (lambda: fo.tradeoff.heterogeneity(paper(18), resources=["cpu"]), "resources are .'cpu'.; give two names"),
    ],
)
def test_wrong_arguments_are_told(call: Any, words: str) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=words):
        call()


def test_slopes_of_chosen_users_and_resources_and_of_none() -> None:
    three = fo.Instance([[1, 4, 0], [3, 3, 1], [1, 2, 1]], [9, 18, 4], resources=["cpu", "memory", "gpu"])
    found = fo.tradeoff.heterogeneity(three, users=("user3", "user2"), resources=("memory", "gpu"))
    np.testing.assert_allclose(found.sigma, [0, 1 / 3, 0.5])
    np.testing.assert_allclose(found.tau, [1 / 3, 2 / 3, 1])
    assert found.log_ratio_variance == np.inf
    single = fo.tradeoff.heterogeneity(fo.Instance([[2]], [4]))
    assert np.isnan([single.sigma_variance, single.tau_variance]).all() and single.log_ratio_variance == 0
    with pytest.raises(fo.errors.OutOfDomain, match="differ by server"):
        fo.tradeoff.heterogeneity(fo.Instance([[[1], [2]]], [[4], [4]]))
    with pytest.raises(fo.errors.InvalidInstance, match="gpus"):
        fo.tradeoff.heterogeneity(three, resources=("cpu", "gpus"))


def test_fractions_are_left_out_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(Clock):
        late = True  # of this call, not of those that it makes

    monkeypatch.setattr("fairopt.tradeoff.agreement.begin", Late)
    found = fo.tradeoff.no_tradeoff(fo.Instance([[1, 4], [3, 1]], [9, 18]), time_limit=60)
    assert not found.exact and not found.holds
    with pytest.raises(fo.errors.InvalidBlock, match="time_limit is 0"):
        fo.tradeoff.no_tradeoff(fo.Instance([[1, 4], [3, 1]], [9, 18]), time_limit=0)
