"""Properties judged by a share that differs by server: against linear programs and definitions in fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.work import Work as Exact

import fairopt as fo
from fairopt.properties.pareto import dominating
from fairopt.properties.work import work_by
from fairopt.testing import allocation_of, allocations, instances

HOURS = fo.Instance([[1], [1]], [[1], [1]], task_limits=2, rates=[[1, 10], [1, 1.1]])
SHARE = fo.ThroughputShare()


@dataclass(frozen=True, repr=False)
class ByServer(fo.Share):
    """Work at given rates, whatever the servers are."""

    rates: tuple[tuple[float, ...], ...]

    def per_task(self, instance: fo.Instance) -> Any:
        return np.array(self.rates)


RAW = ByServer(((1.0, 10.0), (1.0, 1.1)))


@st.composite
def divided(draw: st.DrawFn) -> fo.Allocation:
    """Feasible tasks of users with rates by server."""
    options = dict.fromkeys(("weights", "limits", "placement", "by_server", "counts", "rates"), True)
    return draw(allocations(draw(instances((1, 4), (1, 2), (2, 3), **options))))


def judged(allocation: fo.Allocation, name: str) -> Any:
    return fo.check(allocation, name, share=SHARE)[name]


# -- against fractions --------------------------------------------------------------------------------------------


@given(divided())
def test_sharing_incentive_and_envy_agree_with_linear_programs_in_fractions(allocation: fo.Allocation) -> None:
    exact = Exact(allocation)
    part = exact.cluster.users
    shortfall = max((float(exact.short(j)) for j in part), default=-1.0)
    assert judged(allocation, "sharing-incentive").margin == pytest.approx(shortfall, abs=1e-9)
    if exact.n > 1:
        envy = max(float(exact.envy(j)) for j in range(exact.n))
        assert judged(allocation, "envy-free").margin == pytest.approx(envy, abs=1e-9)


@settings(max_examples=25)
@given(divided())
def test_pareto_efficiency_agrees_with_linear_programs_in_fractions(allocation: fo.Allocation) -> None:
    exact = Exact(allocation)
    largest = max((float(exact.gain(j)) for j in exact.cluster.users), default=0.0)
    verdict = judged(allocation, "pareto")
    assert verdict.margin == pytest.approx(largest, rel=1e-5, abs=2e-6) and verdict.holds == (largest <= 1e-6)
    if not verdict.holds:
        better = Exact(allocation_of(allocation.instance, verdict.witness.tasks_by_server))
        assert better.cluster.excess(verdict.witness.tasks_by_server) <= 1e-8
        assert all(
            after >= before * (1 - Fraction(1, 10**8)) for before, after in zip(exact.work, better.work, strict=True)
        )


@settings(max_examples=15)
@given(divided())
def test_leximin_of_throughput_is_efficient_by_throughput(allocation: fo.Allocation) -> None:
    answer = fo.Policy(fo.Leximin(SHARE)).allocate(allocation.instance)
    assert fo.check(answer, "pareto").ok and fo.check(answer, "pareto", share=SHARE).ok


# -- by hand ------------------------------------------------------------------------------------------------------


@pytest.mark.fast_methods
def test_hours_shared_equally_waste_work_that_one_user_does_ten_times_as_fast() -> None:
    equal = fo.Policy(fo.Leximin(fo.Tasks())).allocate(HOURS)
    np.testing.assert_allclose(equal.share(RAW), [5.5, 1.05])
    assert fo.check(equal, "pareto").ok
    verdict = fo.check(equal, "pareto", share=RAW)["pareto"]
    assert verdict.holds is False
    better = allocation_of(HOURS, verdict.witness.tasks_by_server)
    np.testing.assert_allclose(better.share(RAW), [10 * (1 - 0.05 / 1.1), 1.05], rtol=1e-9)
    assert verdict.margin == pytest.approx(10 * (1 - 0.05 / 1.1) / 5.5 - 1)
    assert (
        str(verdict)
        == "with no user losing any, user 'user1' could have a ByServer(((1, 10), (1, 1.1))) of 9.545 instead of 5.5"
    )
    assert fo.check(equal, "pareto", share=SHARE)["pareto"].margin == pytest.approx(verdict.margin)


def test_the_share_of_the_objective_is_the_default_where_it_differs_by_server() -> None:
    for objective in (fo.Leximin(RAW), fo.AlphaFair(1, RAW), fo.Leximin(SHARE)):
        answer = fo.Policy(objective).allocate(HOURS)
        report = fo.check(answer)
        assert report.about.endswith(f", by {objective.share!r}")
        assert [v.margin for v in report.values()] == [
            v.margin for v in fo.check(answer, share=objective.share).values()
        ]
    assert "by" not in fo.check(fo.DRF().allocate(HOURS)).about


def test_a_slice_and_a_bundle_are_worth_most_on_the_best_servers() -> None:
    fast = fo.Instance([[1], [1]], [[1], [1]], task_limits=[0.5, 2], rates=[[1, 10], [1, 1]])
    slow = allocation_of(fast, [[0.5, 0], [0.5, 1]])
    report = fo.check(slow, ["si", "ef"], share=ByServer(((1.0, 10.0), (1.0, 1.0))))
    assert str(report["si"]).startswith(
        "user 'user1' has a ByServer(((1, 10), (1, 1))) of 0.5, where its own slice would give 5"
    )
    assert report["si"].details.slices[0] == 5 and report["si"].margin == 0.9  # half an hour of the second server
    assert report["ef"].margin == 0.9 and report["ef"].details.would_run == 5


def test_users_compare_what_they_have_and_not_hours_where_tasks_are_worth_the_same_everywhere() -> None:
    answer = fo.DRF().allocate(fo.Instance([[2, 1], [1, 2]], [[4, 4], [8, 2]]))
    by_tasks, by_share = fo.check(answer), fo.check(answer, share=fo.KDominantShare(2))
    assert by_tasks.rows() == by_share.rows()


def test_identical_servers_that_a_share_tells_apart_are_not_merged() -> None:
    equal = allocation_of(HOURS.replace(rates=None), [[0.5, 0.5], [0.5, 0.5]])
    margin = fo.check(equal, "pareto", share=RAW)["pareto"].margin
    assert margin == pytest.approx(10 * (1 - 0.05 / 1.1) / 5.5 - 1)


@pytest.mark.fast_methods
def test_identical_servers_with_equal_rates_are_merged_and_spread_again() -> None:
    twice = fo.Instance([[1], [1]], [[1]] * 4, task_limits=4, rates=[[1, 10, 1, 10], [1, 1.1, 1, 1.1]])
    assert twice.merged().n_servers == 2
    found = fo.check(fo.Policy(fo.Leximin(fo.Tasks())).allocate(twice), "pareto", share=SHARE)["pareto"]
    assert found.margin == pytest.approx(10 * (1 - 0.05 / 1.1) / 5.5 - 1)
    assert found.witness.tasks_by_server.shape == (2, 4)


def test_a_user_of_a_limit_of_0_has_no_work_and_envies_nobody() -> None:
    idle = HOURS.replace(task_limits=[0, 2])
    report = fo.check(fo.Policy(fo.Leximin(SHARE)).allocate(idle))
    assert report.ok and "ThroughputShare" in report.about


def test_a_multiplier_of_a_time_budget_bounds_gains() -> None:
    # nothing is full, and user 1 has used its time on the slow server
    spare = fo.Instance([[1], [1]], [[4], [4]], task_limits=[1, 1], rates=[[1, 3], [1, 1]])
    found = dominating(allocation_of(spare, [[1, 0], [1, 0]]), 1e-6, work=work_by(SHARE, None, spare))
    assert found.gains.keys() == {"user1"} and found.margin == pytest.approx(2) and found.bound == pytest.approx(2)


@pytest.mark.parametrize("share", ["tasks", fo.Tasks, 3])
def test_what_is_no_share_is_refused(share: Any) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="share of a property"):
        fo.check(fo.DRF().allocate(HOURS), share=share)


def test_a_user_without_the_share_is_refused_with_its_name_and_the_fix() -> None:
    some = fo.Instance([[1, 1], [1, 0]], [4, 4], users=["a", "b"], resources=["cpu", "gpu"])
    with pytest.raises(fo.errors.OutOfDomain, match=r"'b' has a zero ResourceShare\('gpu'\).*choose another share"):
        fo.check(fo.DRF().allocate(some), share=fo.ResourceShare("gpu"))


def test_a_server_on_which_tasks_are_worth_nothing_is_no_way_to_gain() -> None:
    share = ByServer(((1.0, 0.0), (0.0, 0.0)))
    answer = fo.Policy(fo.Total(share)).allocate(HOURS)
    assert fo.check(answer, "pareto").ok
    worse = allocation_of(HOURS, [[0.25, 1], [0.75, 0]])
    found = fo.check(
        fo.Allocation(HOURS, fo.Policy(fo.Total(share)), worse.tasks_by_server, answer.certificate, 0.0), "pe"
    )
    assert found["pe"].margin == pytest.approx(3) and found["pe"].witness.gains == {"user1": pytest.approx(0.75)}


def test_members_of_teams_compare_the_share_that_their_teams_add_up() -> None:
    teams = {"team": ["x", "x", "y"]}
    rates = fo.Instance([[1]] * 3, [[1]] * 3, task_limits=1, rates=[[3, 1, 1], [3, 2, 1], [3, 2, 1]], teams=teams)
    answer = fo.Policy(fo.AlphaFair(2, fo.OfTeam(SHARE))).allocate(rates)
    report = fo.check(answer)
    assert report.about.endswith(", by ThroughputShare()") and report["pe"].holds
    with pytest.raises(fo.errors.InvalidBlock, match=r"give DominantShare\(\)"):
        fo.check(answer, share=fo.OfTeam())
