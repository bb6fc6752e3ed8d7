"""`Infeasible` names constraints that conflict, all of them needed."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.instances import clusters

import fairopt as fo
from fairopt.routes.conflict import explain
from fairopt.routes.program import Program

POOL = fo.Instance([[1, 2], [2, 1]], [10, 10], users=["a", "b"], resources=["cpu", "memory"])


def conflict(policy: fo.Policy, instance: fo.Instance) -> fo.Infeasible:
    with pytest.raises(fo.Infeasible) as caught:
        policy.allocate(instance)
    return caught.value


def holds(instance: fo.Instance, constraints: list[fo.Constraint]) -> bool:
    try:
        fo.Policy(fo.Total(fo.Tasks()), constraints).allocate(instance)
    except fo.Infeasible:
        return False
    return True


@pytest.mark.parametrize("objective", [fo.Leximin(), fo.Total(), fo.AlphaFair(2)], ids=repr)
def test_a_share_that_is_too_large_conflicts_with_a_capacity(objective: fo.Objective) -> None:
    """Both users at share s use 0.5 s + s of each resource: s = 2/3 is the most."""
    error = conflict(fo.Policy(objective, [fo.MinShare(0.8)]), POOL)
    assert error.conflict[-1] == "`MinShare(0.8)`"
    assert len(error.conflict) == 2 and error.conflict[0] in ("the capacity of cpu", "the capacity of memory")
    assert "the largest common share is 0.6667" in str(error)


def test_only_the_scarce_capacity_is_named() -> None:
    error = conflict(fo.Policy(fo.Leximin(), [fo.MinShare(0.6)]), POOL.with_capacities([10, 7]))
    # shares of memory 2/7 per task of a: 0.6 of both needs 2.1 * 2 + 3 * 1 = 7.2 of 7 units of memory
    assert error.conflict == ("the capacity of memory", "`MinShare(0.6)`")


def test_constraints_that_play_no_part_are_not_named() -> None:
    given = [fo.MaxShare(0.9), fo.MinShare(0.8), fo.MaxTasks(100), fo.MinTasks(0.1)]
    error = conflict(fo.Policy(fo.Total(), given), POOL)
    assert set(error.conflict) <= {"the capacity of memory", "the capacity of cpu", "`MinShare(0.8)`"}


def test_two_blocks_conflict_without_any_capacity() -> None:
    error = conflict(fo.Policy(fo.Total(), [fo.MinTasks({"a": 2}), fo.MaxTasks({"a": 1})]), POOL)
    assert set(error.conflict) == {f"`{fo.MinTasks({'a': 2})!r}`", f"`{fo.MaxTasks({'a': 1})!r}`"}


def test_task_limits_are_named() -> None:
    error = conflict(fo.Policy(fo.Total(), [fo.MinTasks({"a": 2})]), POOL.with_task_limits([1, None]))
    assert set(error.conflict) == {"the task limits", f"`{fo.MinTasks({'a': 2})!r}`"}
    error = conflict(fo.Policy(fo.Total(), [fo.MinTasks({"a": 2})]), POOL.with_task_limits([0, None]))
    assert set(error.conflict) == {"the task limits", f"`{fo.MinTasks({'a': 2})!r}`"}


def test_what_is_asked_of_others_does_not_matter_to_a_user_of_limit_zero() -> None:
    a = fo.Policy(fo.Total(fo.Tasks()), [fo.MinTasks({"b": 1})]).allocate(POOL.with_task_limits([0, None]))
    np.testing.assert_allclose(a.tasks, [0, 5], rtol=1e-7)


def test_an_objective_at_a_level_is_named() -> None:
    level = fo.Total(fo.Tasks()) >= 7
    error = conflict(fo.Policy(fo.Leximin(), [level]), POOL)
    assert f"`{level!r}`" in error.conflict
    assert {"the capacity of cpu", "the capacity of memory"} <= set(error.conflict)  # either alone allows ten


def test_a_nonlinear_level_is_named() -> None:
    level = fo.AlphaFair(1, fo.Tasks()) >= 4
    error = conflict(fo.Policy(fo.Total(), [level]), POOL)
    assert f"`{level!r}`" in error.conflict


def test_one_constraint_may_conflict_with_itself() -> None:
    @dataclass(frozen=True, repr=False)
    class Impossible(fo.Constraint):
        def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
            return {"more": model.tasks[0] >= 1, "less": model.tasks[0] <= 0.5}

    error = conflict(fo.Policy(fo.Total(), [Impossible(), fo.MaxShare(0.5)]), POOL)
    assert error.conflict == ("`Impossible()`",)
    assert "cannot hold" in str(error)


def test_sharing_incentive_conflicts_with_a_reserve() -> None:
    """Two alike users fill a pool with their slices: nothing may be held back."""
    error = conflict(fo.Policy(fo.Leximin(), [fo.SharingIncentive(), fo.Reserve(0, 0.2)]), fo.Instance([[1], [1]], [4]))
    assert set(error.conflict) == {"`SharingIncentive()`", "`Reserve(0, 0.2)`"}
    assert "0.8 times" in str(error)


def only(instance: fo.Instance, names: set[str]) -> fo.Instance:
    """Room without end in what is not named; the blocks below do not look at capacities."""
    kept = np.array([f"the capacity of {r}" in names for r in instance.resources])
    free = np.where(instance.task_limits > 0, np.inf, 0.0)
    return instance.replace(
        capacities=np.where(kept, instance.capacities, 1e4 * instance.capacities),
        task_limits=instance.task_limits if "the task limits" in names else free,
    )


BLOCKS = [
    fo.MinShare(1.2, fo.Tasks()), fo.MaxShare(1.1, fo.Tasks()), fo.MinTasks(1.5), fo.MaxTasks(1),
    fo.EqualShares(fo.Tasks()), fo.EnvyFree(), fo.Total(fo.Tasks()) >= 6,
]  # fmt: skip


@given(clusters(max_users=3, max_servers=2), st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=4, unique_by=repr))
@settings(max_examples=40)
def test_dropping_any_one_that_is_named_makes_the_others_feasible(
    instance: fo.Instance, constraints: list[fo.Constraint]
) -> None:
    try:
        fo.Policy(fo.Total(fo.Tasks()), constraints).allocate(instance)
        return
    except fo.Infeasible as error:
        names = set(error.conflict)
    assert not holds(only(instance, names), [c for c in constraints if f"`{c!r}`" in names])
    for one in names:
        rest = names - {one}
        assert holds(only(instance, rest), [c for c in constraints if f"`{c!r}`" in rest])


@given(clusters(max_users=3, max_servers=2))
@settings(max_examples=20)
def test_the_largest_common_share_can_be_had_and_no_more(instance: fo.Instance) -> None:
    try:
        fo.Policy(fo.Total(fo.Tasks()), [fo.MinShare(0.9)]).allocate(instance)
    except fo.Infeasible as error:
        text = str(error)
        if "largest common share is" not in text:
            return
        level = float(text.split("largest common share is ")[1].split()[0].rstrip(".;"))
        named = " ".join(error.conflict)
        if "task limits" in named or instance.n_resources > 1:
            return  # other constraints than those named may hold it lower
        assert holds(instance, [fo.MinShare(level * 0.999)])
        assert not holds(instance, [fo.MinShare(level * 1.001)])


def test_explaining_what_is_feasible_says_nothing() -> None:
    explain(Program(POOL, fo.Total(), [fo.MinShare(0.5)]))


def test_bounds_that_hold_only_just_are_no_conflict() -> None:
    instance = fo.Instance([[1], [1], [1]], [3])
    a = fo.Policy(fo.Total(), [fo.MinShare(1 / 3)]).allocate(instance)
    np.testing.assert_allclose(a.tasks, 1, rtol=1e-7)
