"""Bottleneck fairness: the check, against fractions, and the mechanism that satisfies it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from oracle.instances import log_uniform, pools

import fairopt as fo
from fairopt.policies import bottleneck
from fairopt.policies.bottleneck import BottleneckFairness, BottleneckVerdict, bottleneck_fairness


def of(instance: fo.Instance, tasks: Any) -> fo.Allocation:
    certificate = fo.Certificate(0.0, 0.0, "by hand")
    return fo.Allocation(instance, None, np.array(tasks, dtype=float)[:, None], certificate, 0.0)


@pytest.mark.fast_methods
@given(pools())
def test_the_mechanism_satisfies_its_own_check(instance: fo.Instance) -> None:
    a = BottleneckFairness().allocate(instance)
    assert a.certificate.ok and bottleneck_fairness(a).holds


@given(pools())
def test_the_check_agrees_with_the_definition_in_fractions(instance: fo.Instance) -> None:
    """On DRF's exact tasks, rounded to what a float can hold: shares are compared with a margin."""
    a = fo.DRF().allocate(instance)
    tasks = [Fraction(float(x)) for x in a.tasks]
    d = [[Fraction(float(v)) for v in row] for row in instance.demands]
    room = [Fraction(float(c)) for c in instance.capacities[0]]
    margin = Fraction(1, 10**6)
    whole = sum(Fraction(float(w)) for w in instance.weights)
    full = [
        i for i, c in enumerate(room) if sum(x * row[i] for x, row in zip(tasks, d, strict=True)) >= c * (1 - margin)
    ]
    complaints = [
        instance.users[j]
        for j, x in enumerate(tasks)
        if float(x) < instance.task_limits[j] * (1 - 1e-6)
        and all(x * d[j][i] / room[i] < Fraction(float(instance.weights[j])) / whole * (1 - margin) for i in full)
    ]
    verdict = bottleneck_fairness(a)
    assert verdict.holds == (not complaints)
    assert verdict.witness is None if verdict.holds else verdict.witness in complaints


@pytest.mark.fast_methods
def test_drf_may_leave_a_justified_complaint() -> None:
    # both dominant shares are 0.6; b's is of the cpu, which is not full, and of the memory it has 2.4 / 6
    instance = fo.Instance([[0, 1], [1, 1]], [4, 6], users=["a", "b"], resources=["cpu", "memory"])
    verdict = bottleneck_fairness(fo.DRF().allocate(instance))
    assert (verdict.holds, verdict.witness, verdict.resource) == (False, "b", "memory")
    assert verdict.best_share == pytest.approx(0.4) and verdict.entitlement == 0.5
    assert str(verdict) == "user 'b' has 0.4 of 'memory', is entitled to 0.5 of one, and asks for more"
    np.testing.assert_allclose(BottleneckFairness().allocate(instance).tasks, [3, 3], rtol=1e-9)


def test_a_user_of_no_full_resource_complains() -> None:
    verdict = bottleneck_fairness(of(fo.Instance([[1, 0], [0, 1]], [2, 2]), [2, 1]))
    assert verdict == BottleneckVerdict(False, "user2", None, 0.0, 0.5)
    assert "uses no full resource" in str(verdict)


def test_at_its_limit_a_user_has_all_it_asked_for() -> None:
    instance = fo.Instance([[1, 0], [0, 1]], [2, 2], task_limits=[None, 1])
    verdict = bottleneck_fairness(of(instance, [2, 1]))
    assert verdict.holds and str(verdict) == "no user has a justified complaint"


def test_entitlements_are_weights_over_their_sum() -> None:
    shares = [1 / 4, 3 / 4]
    assert bottleneck_fairness(of(fo.Instance([[1], [1]], [1], weights=[1, 3]), shares)).holds
    verdict = bottleneck_fairness(of(fo.Instance([[1], [1]], [1], weights=[2, 3]), shares))
    assert (verdict.witness, verdict.entitlement) == ("user1", 2 / 5)


def test_the_check_fails_when_an_allocation_is_perturbed() -> None:
    instance = log_uniform(np.random.default_rng(0), 10, 3)
    a = BottleneckFairness().allocate(instance)
    assert not bottleneck_fairness(of(instance, a.tasks * 0.999)).holds
    moved = a.tasks.copy()
    moved[0] *= 0.01
    assert bottleneck_fairness(of(instance, moved)).witness is not None


@pytest.mark.parametrize("seed", range(5))
def test_it_holds_with_demands_over_four_decades_weights_and_limits(seed: int) -> None:
    instance = log_uniform(np.random.default_rng(seed), 60, 4, limits=0.4)
    assert bottleneck_fairness(BottleneckFairness().allocate(instance)).holds


@pytest.mark.fast_methods
def test_identical_servers_are_a_pool() -> None:
    instance = fo.Instance([[0, 1], [1, 1]], [[2, 3], [2, 3]])
    np.testing.assert_allclose(BottleneckFairness().allocate(instance).tasks, [3, 3], rtol=1e-9)
    a = BottleneckFairness().allocate(fo.Instance([[0, 1], [1, 1]], [[2, 3]], counts=[2]))
    np.testing.assert_allclose(a.tasks, [3, 3], rtol=1e-9)


def test_several_servers_are_refused_with_the_fix() -> None:
    instance = fo.Instance([[1, 1]], [[1, 1], [1, 2]])
    with pytest.raises(fo.errors.OutOfDomain, match=r"\.pooled\(\)"):
        BottleneckFairness().allocate(instance)
    with pytest.raises(fo.errors.OutOfDomain, match=r"\.pooled\(\)"):
        bottleneck_fairness(fo.DRF().allocate(instance))
    assert BottleneckFairness().allocate(instance.pooled()).certificate.ok


def test_the_mechanism_refuses_what_its_check_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bottleneck, "NashWelfare", fo.DRF)  # which leaves a complaint here
    instance = fo.Instance([[0, 1], [1, 1]], [4, 6])
    with pytest.raises(fo.errors.NotCertified, match=r"user 'user2' has 0\.4") as caught:
        BottleneckFairness().allocate(instance)
    np.testing.assert_allclose(caught.value.best.tasks, [3.6, 2.4])


@pytest.mark.fast_methods
def test_a_solver_and_its_options_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    class Watched:
        def allocate(self, instance: fo.Instance, **options: Any) -> fo.Allocation:
            asked.update(options)
            return fo.NashWelfare().allocate(instance)

    monkeypatch.setattr(bottleneck, "NashWelfare", Watched)
    options: dict[str, Any] = dict(method="cone", solver="SCS", solver_options={"a": 1}, time_limit=9.0, verbose=True)
    a = BottleneckFairness().allocate(fo.Instance([[0, 1], [1, 1]], [4, 6]), **options)
    assert asked == options and isinstance(a.policy, BottleneckFairness)


@pytest.mark.parametrize("n", [0, 2])
def test_nobody_to_serve_has_no_complaint(n: int) -> None:
    a = BottleneckFairness().allocate(fo.Instance(np.ones((n, 2)), [1, 1], task_limits=0))
    assert a.certificate.method == "empty" and bottleneck_fairness(a).holds


def test_it_can_be_pasted() -> None:
    assert eval(repr(BottleneckFairness()), {"BottleneckFairness": BottleneckFairness}) == BottleneckFairness()
