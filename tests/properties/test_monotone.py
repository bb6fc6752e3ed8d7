"""Monotonicity: who loses when a user leaves or a capacity grows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

import fairopt as fo
from fairopt.properties import monotone
from fairopt.properties.audit.measure import measure
from fairopt.properties.monotone import population_monotone, resource_monotone
from fairopt.runtime.clock import Clock
from fairopt.solve.form.many_instances import Batch
from tests.oracle import fractions_waterfill as oracle
from tests.oracle.instances import pools

LEAVING = fo.Instance([[1, 1], [3, 1], [1, 3]], [7, 5], users=["a", "b", "c"])
GROWING = fo.Instance([[3, 1], [1, 3]], [4, 4], users=["a", "b"], resources=["bandwidth", "memory"])


def test_a_departure_that_hurts_under_nash_welfare():
    """The witness is recomputed here by the general method."""
    verdict = population_monotone(fo.FDS(1), LEAVING)
    assert not verdict.holds and verdict.name == "population-monotone"
    shown = verdict.details
    assert (shown.leaver, shown.loser) == ("c", "b")
    before = fo.FDS(1).allocate(LEAVING, method="cone").tasks[1]
    after = fo.FDS(1).allocate(LEAVING.select_users([0, 1]), method="cone").tasks[1]
    assert shown.before == pytest.approx(before, rel=1e-4) and shown.after == pytest.approx(after, rel=1e-4)
    assert verdict.margin == pytest.approx(1 - after / before, rel=1e-3)
    assert "when user 'c' leaves, user 'b'" in str(verdict)


@settings(max_examples=12, deadline=None)
@given(pools(max_users=4, max_resources=3).filter(lambda instance: (instance.demands > 0).all()))
def test_drf_is_population_monotone_on_positive_demands(instance):
    """Ghodsi et al. 2011: with weights and limits."""
    verdict = population_monotone(fo.DRF(), instance)
    assert verdict.holds and verdict.margin <= 1e-9


def test_drf_is_not_population_monotone_with_zeros():
    """Users who share a full resource with the leaver rise, and take another resource from those who do not."""
    demands, capacities = [[1, 0], [1, 0], [1, 1], [0, 1]], [1, 1]
    verdict = population_monotone(fo.DRF(), fo.Instance(demands, capacities))
    before = oracle.leximin(demands, capacities, [1] * 4)
    after = oracle.leximin(demands[1:], capacities, [1] * 3)
    assert (before[3], after[2]) == (Fraction(2, 3), Fraction(1, 2))
    assert not verdict.holds and verdict.details.loser == "user4"
    assert verdict.margin == pytest.approx(1 / 4) and verdict.details.after == pytest.approx(1 / 2)


def test_drf_is_not_resource_monotone():
    verdict = resource_monotone(fo.DRF(), GROWING)
    assert not verdict.holds and verdict.name == "resource-monotone"
    shown = verdict.details
    assert (shown.resource, shown.factor, shown.loser) == ("bandwidth", 4, "b")
    assert (shown.before, shown.after) == (pytest.approx(1), pytest.approx(2 / 3))
    assert verdict.margin == pytest.approx(1 / 3)
    assert str(verdict) == (
        "DRF: with 4 times as much 'bandwidth', user 'b' runs 0.666667 tasks instead of 1 (-33.333%)"
    )


@settings(max_examples=10, deadline=None)
@given(pools(max_users=4, max_resources=1))
def test_drf_is_resource_monotone_with_one_resource(instance):
    """More of the only resource raises the level of every user."""
    assert resource_monotone(fo.DRF(), instance, factors=(1.5, 3)).holds


def test_several_servers_name_the_one_that_grows():
    several = fo.Instance([[3, 1], [1, 3]], [[4, 4], [4, 4]], users=["a", "b"], servers=["left", "right"])
    verdict = resource_monotone(fo.DRF(), several, factors=(8,))
    assert not verdict.holds and verdict.details.server in ("left", "right")
    assert f"on server {verdict.details.server!r}" in str(verdict)
    assert population_monotone(fo.NaivePerServer(fo.DRF()), several).holds


def test_no_user_can_leave_where_there_is_one_or_none():
    for instance in (fo.Instance([[1, 1]], [2, 2]), fo.Instance(np.zeros((0, 2)), [2, 2])):
        verdict = population_monotone(fo.DRF(), instance)
        assert verdict.holds and verdict.details is None and "no user can leave" in str(verdict)
    none = resource_monotone(fo.DRF(), fo.Instance(np.zeros((0, 2)), [2, 2]))
    assert none.holds and none.details is None and "no capacity can grow" in str(none)


def test_a_user_with_a_limit_of_0_does_not_leave():
    verdict = population_monotone(fo.FDS(1), LEAVING.with_task_limits([None, None, 0]))
    assert verdict.holds and verdict.details.leaver in ("a", "b")


def test_a_loss_within_what_the_gaps_leave_open_is_none():
    class Shrinking:
        """1e-6 less for every user when another leaves."""

        def allocate(self, instance):
            factor = 1.0 if instance.n_users == 3 else 1 - 1e-6
            return (
                fo.DRF()
                .allocate(instance)
                .__class__(
                    instance, self, np.full((instance.n_users, 1), 0.5 * factor), fo.Certificate(0.0, 0.0, "own"), 0.0
                )
            )

    assert population_monotone(Shrinking(), LEAVING).holds
    assert not population_monotone(Shrinking(), LEAVING, tol=1e-7).holds


@pytest.mark.parametrize("factor", [1.0, 0.5, np.inf, np.nan])
def test_a_factor_that_does_not_grow_is_refused(factor):
    with pytest.raises(fo.errors.InvalidBlock, match="above 1"):
        resource_monotone(fo.DRF(), GROWING, factors=(2, factor))


def test_what_the_mechanism_raises_is_raised():
    with pytest.raises(fo.errors.OutOfDomain):
        population_monotone(fo.KDF(2), fo.Instance([[1, 0], [1, 1]], [2, 2]))
    with pytest.raises(fo.errors.OutOfDomain):
        resource_monotone(fo.KDF(2), fo.Instance([[1, 0], [1, 1]], [2, 2]))


@pytest.mark.fast_methods
@pytest.mark.parametrize("policy", [fo.DRF(), fo.FDS(1), fo.MLFDRS(), fo.MostTasks()], ids=lambda p: p.name)
def test_many_at_once_agree_with_one_at_a_time(policy):
    rng = np.random.default_rng(0)
    demands, capacities = rng.integers(1, 5, size=(12, 3, 2)), rng.integers(2, 10, size=(12, 2))
    batch = Batch.of(demands, capacities)
    gone = measure(policy, "population-monotone", batch, rng, True)
    grown = measure(policy, "resource-monotone", batch, rng, True)
    assert grown.room is not None and (grown.room >= capacities).all()
    for b in range(12):
        instance = fo.Instance(demands[b], capacities[b])
        left = population_monotone(policy, instance)
        if gone.margin[b] > 1e-4:
            assert left.margin == pytest.approx(gone.margin[b], rel=1e-4) and not left.holds
        else:
            assert left.holds
        if grown.margin[b] > 1e-4:
            factor = float((grown.room[b] / capacities[b]).max())
            assert resource_monotone(policy, instance, factors=[factor]).margin >= grown.margin[b] * (1 - 1e-4)
            asked = (instance, instance.with_capacities(grown.room[b]))
            before, after = (policy.allocate(x).tasks[grown.user[b]] for x in asked)
            assert grown.margin[b] == pytest.approx(1 - after / before, rel=1e-4)


@pytest.mark.parametrize("name", ["population-monotone", "resource-monotone"])
def test_pools_without_an_answer_have_no_margin(name):
    batch = Batch.of([[[1, 0], [1, 1], [2, 1]], [[1, 1], [2, 1], [1, 2]]], [4, 4])
    found = measure(fo.KDF(2), name, batch, np.random.default_rng(0), False)
    assert found.outside.tolist() == [True, False] and found.margin[0] == 0 and not found.faults


# -- when the time is short -----------------------------------------------------------------------------------


class LateAfter(Clock):
    """A mechanism's answers, after some of which the clock is late."""

    name = "DRF"

    def __init__(self, answers):
        super().__init__(60.0)
        self.answers, self.limits = answers, []
        self.end -= 60.0 * (answers == 0)

    def allocate(self, instance, time_limit=None):
        self.limits.append(time_limit)
        if len(self.limits) == self.answers:
            self.end -= 60.0
        return fo.DRF().allocate(instance)


@pytest.mark.parametrize(("search", "total"), [(population_monotone, 3), (resource_monotone, 6)])
def test_a_verdict_is_open_where_changes_are_left_when_the_time_is_over(search, total, monkeypatch):
    plenty = fo.Instance([[1], [2], [3]], [6])
    for answers in (0, 1, 2, total):
        clock = LateAfter(answers)
        monkeypatch.setattr(monotone, "Clock", lambda limit, clock=clock: clock)
        verdict = search(clock, plenty, time_limit=60)
        left = total - max(answers - 1, 0)
        assert verdict.holds is None and verdict.margin <= 0 and (verdict.details is None) == (answers < 2)
        assert str(verdict).endswith(f": {left} of {total} changes were left when the time limit of 60 s was over")
        assert all(0 < limit <= 60 for limit in clock.limits)
    monkeypatch.undo()
    assert search(fo.DRF(), plenty, time_limit=60).holds and search(fo.DRF(), plenty, time_limit=1e-9).holds is None


def test_a_loss_that_was_found_before_the_time_was_over_stands(monkeypatch):
    clock = LateAfter(7)
    monkeypatch.setattr(monotone, "Clock", lambda limit: clock)
    verdict = resource_monotone(clock, GROWING, time_limit=60)
    assert verdict.holds is False and (verdict.details.loser, verdict.details.factor) == ("b", 4)
    assert "user 'b' runs 0.666667 tasks instead of 1 (-33.333%), as far as was tried: 6 of 12 changes" in str(verdict)
