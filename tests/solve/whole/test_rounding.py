"""Largest remainders: whole tasks that fit on individual servers, near the divisible ones, with a proven loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from oracle import whole
from oracle.instances import clusters

import fairopt as fo
from fairopt.runtime.clock import Clock
from fairopt.solve.form.program import Program
from fairopt.solve.whole import rounding

POLICIES = [fo.DRF(), fo.NashWelfare(), fo.FDS(0.5), fo.MostTasks(), fo.GFJ(beta=2, lam=-0.25)]


@given(clusters())
@settings(max_examples=8)
def test_rounded_tasks_fit_on_individual_servers_and_within_limits(instance: fo.Instance) -> None:
    for policy in (fo.DRF(), fo.NashWelfare(), fo.MostTasks()):
        a = policy.allocate(instance, integral="rounded")
        assert a.certificate.ok and a.certificate.whole and 0 <= a.certificate.gap <= 1
        assert whole.fits(a) and a.certificate.method in ("rounding", "empty")


@given(clusters())
@settings(max_examples=10)
def test_nothing_fits_any_more(instance: fo.Instance) -> None:
    a = fo.DRF().allocate(instance, integral="rounded")
    each = instance.individual()
    free = each.capacities - np.einsum("js,jsi->si", a.placement, each.per_server_demands)
    fits = (each.per_server_demands <= free[None] + 1e-9).all(axis=2) & each.eligible
    assert not fits[a.tasks + 1 <= instance.task_limits].any()


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_many_identical_servers_leave_no_user_without_its_tasks(policy: fo.Policy) -> None:
    """Equal parts of 4.16 tasks on each of 23 servers round down to none."""
    instance = fo.Instance([[1, 2], [2, 1]], [[2, 2]], counts=[23])
    divisible, a = policy.allocate(instance), policy.allocate(instance, integral="rounded")
    assert (a.tasks >= np.floor(divisible.tasks) - 8).all() and (a.tasks > 0).sum() == (divisible.tasks > 0.5).sum()
    spread = fo.Instance([[1, 2], [2, 1]], [[2, 2]] * 23)
    np.testing.assert_array_equal(policy.allocate(spread, integral="rounded").tasks, a.tasks)


def test_identical_servers_hold_the_same_mix() -> None:
    """Six servers of 3 tasks of either user: packed user by user, each would fill one resource of three servers."""
    instance = fo.Instance([[2, 1], [1, 2]], [[9, 9]], counts=[6])
    a = fo.DRF().allocate(instance, integral="rounded")
    assert a.placement is not None and (a.placement == 3).all() and a.certificate.gap <= 1e-6
    assert a.certificate.note == "" and str(a.certificate).startswith("certified whole: gap ")


def test_the_demo_is_packed_without_leaving_out_a_task_of_the_divisible_answer_rounded_down() -> None:
    divisible, a = fo.DRF().allocate(fo.datasets.demo()), fo.DRF().allocate(fo.datasets.demo(), integral="rounded")
    assert (a.tasks >= np.floor(divisible.tasks)).all()
    assert a.certificate.ok and a.certificate.gap < 0.05


@given(clusters())
@settings(max_examples=8)
def test_each_way_of_packing_fits_on_individual_servers_and_within_limits(instance: fo.Instance) -> None:
    """The best by a policy is chosen of these: here each is completed, those of HiGHS and of equal parts too."""
    program = Program(instance, fo.Total(fo.Tasks()), ())
    by_row = program.expand(program.gather(fo.DRF().allocate(instance).tasks_by_server))[program.active]
    down = np.floor(by_row.sum(axis=1) + 1e-6)
    each = instance.individual()
    for start in rounding._starts(program, by_row, down, Clock(None)):
        placed = rounding._completed(program, start, down, by_row.sum(axis=1) - down)
        assert (placed == np.rint(placed)).all() and (placed[program.active] >= start).all()
        assert fo.allocation.feasibility(each, placed) <= 1e-9


def test_what_is_left_goes_to_the_smallest_share_where_largest_remainders_give_a_lower_level() -> None:
    """Shares of 9.4 units are 1.57 tasks of 6 units and 4.7 of 2; by remainder the first user would stay at 6 units."""
    a = fo.DRF().allocate(fo.Instance([[6], [2], [2], [2], [2]], [47]), integral="rounded")
    np.testing.assert_array_equal(a.tasks, [2, 5, 4, 4, 4])


def test_the_loss_is_that_of_the_objective() -> None:
    instance = fo.Instance([[2, 3], [2, 1]], [6, 4])
    a = fo.NashWelfare().allocate(instance, integral="rounded")
    best = fo.NashWelfare().allocate(instance)
    mean = np.exp(np.log(best.shares).mean() - np.log(a.shares).mean())
    assert a.certificate.gap == pytest.approx(1 - 1 / mean, rel=1e-6)
    b = fo.MostTasks().allocate(instance, integral="rounded")
    assert b.certificate.gap == pytest.approx(1 - b.tasks.sum() / fo.MostTasks().allocate(instance).tasks.sum())


def test_a_user_without_a_task_loses_all_of_nash_welfare_and_nothing_of_the_total() -> None:
    instance = fo.Instance([[1, 0], [1, 1]], [1, 5])
    a, b = fo.NashWelfare().allocate(instance, integral="rounded"), fo.MostTasks().allocate(instance, integral=True)
    assert a.certificate.gap == 1.0 and a.certificate.ok and a.objective == -np.inf
    assert b.certificate.gap < 1e-6


def test_losses_of_leximin_are_told_by_level() -> None:
    instance = fo.Instance([[1], [1]], [4.5], weights=[1, 2])
    a = fo.DRF().allocate(instance, integral="rounded")
    np.testing.assert_array_equal(a.tasks, [1, 3])
    np.testing.assert_allclose(a.certificate.gaps, [1 / 3, 0.0], atol=1e-9)
    assert a.certificate.gap == max(a.certificate.gaps)


def test_bounds_hold_and_what_rounding_cannot_keep_is_refused_with_the_best_found() -> None:
    instance = fo.Instance([[1], [1]], [5], users=["a", "b"])
    a = fo.NashWelfare().allocate(instance, integral="rounded")
    assert sorted(a.tasks) == [2, 3]
    bounded = fo.Policy(fo.AlphaFair(1), [fo.MinTasks({"b": 2.2}), fo.MaxTasks({"b": 3.5})])
    np.testing.assert_array_equal(bounded.allocate(instance, integral="rounded").tasks, [2, 3])
    equal = fo.Policy(fo.AlphaFair(1), [fo.EqualShares()])
    with pytest.raises(fo.errors.NotCertified, match=r"constraints by 0\.33") as told:
        equal.allocate(instance, integral=True)
    assert told.value.best.certificate.whole and not told.value.best.certificate.ok


def test_many_small_tasks_are_placed_at_once() -> None:
    instance = fo.Instance([[1e-7], [1.0]], [[3.5], [2.0]], counts=[1, 2])
    a = fo.DRF().allocate(instance, integral="rounded")
    np.testing.assert_array_equal(a.tasks, [4.5e7, 3])
    assert a.certificate.ok and a.certificate.gap == pytest.approx(0.2)  # 3 tasks for 3.75


def test_demands_by_server_are_placed_where_they_hold() -> None:
    instance = fo.Instance([[[1, 1], [3, 3]], [[2, 2], [1, 1]]], [[3, 3], [3, 3]], counts=[2, 1])
    a = fo.NashWelfare().allocate(instance, integral="rounded")
    assert whole.fits(a) and (a.tasks > 0).all()


@dataclass(frozen=True)
class Beyond(fo.Objective):
    """The logarithm of tasks beyond a number of them."""

    least: float

    def expression(self, model: Any) -> cp.Expression:
        return cp.sum(cp.log(model.tasks - self.least))


def test_whole_tasks_outside_the_domain_of_an_objective_are_refused() -> None:
    with pytest.raises(fo.errors.NotCertified, match="are outside the domain of Beyond") as told:
        fo.Policy(Beyond(1.1)).allocate(fo.Instance([[1], [1]], [2.5]), integral=True)
    assert told.value.best is not None and np.isnan(told.value.best.objective)
    inside = fo.Policy(Beyond(0.9)).allocate(fo.Instance([[1], [1]], [2.5]), integral=True)
    assert inside.tasks.tolist() == [1, 1] and np.isfinite(inside.objective)
