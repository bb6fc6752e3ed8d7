"""`Infeasible` names constraints that conflict, all of them needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.instances import clusters

import fairopt as fo
from fairopt.blocks.algebra import AtLeast
from fairopt.solve import infeasible
from fairopt.solve.form import solvers
from fairopt.solve.form.program import Program
from fairopt.solve.infeasible import explain

POOL = fo.Instance([[1, 2], [2, 1]], [10, 10], users=["a", "b"], resources=["cpu", "memory"])


def conflict(policy: fo.Policy, instance: fo.Instance) -> fo.errors.Infeasible:
    with pytest.raises(fo.errors.Infeasible) as caught:
        policy.allocate(instance)
    return caught.value


def test_a_conflict_is_named_where_bounds_that_rows_imply_cross() -> None:
    demands = [[1, 0, 3, 5], [3, 3, 4, 2], [3, 4, 6, 4], [5, 2, 1, 6], [6, 4, 6, 1], [5, 1, 2, 4]]
    instance = fo.Instance(demands, [27, 14, 16, 16])
    most = fo.MaxShare({"user4": 0.063}, fo.KDominantShare(4))
    policy = fo.Policy(fo.Total(), [fo.EqualShares(fo.Tasks()), fo.MinTasks({"user3": 0.875}), most])
    error = conflict(policy, instance)
    assert "`EqualShares(Tasks())` and `MinTasks({'user3': 0.875})` cannot hold together" in str(error)
    assert "room for 0.8312 times" in str(error)  # 8/11 tasks each, as resource4 has 16 for 22


def holds(instance: fo.Instance, constraints: list[fo.Constraint]) -> bool:
    try:
        fo.Policy(fo.Total(fo.Tasks()), constraints).allocate(instance)
    except fo.errors.Infeasible:
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
    """An instance with unlimited room in all resources not named; the blocks below do not use capacities."""
    kept = np.array([f"the capacity of {r}" in names for r in instance.resources])
    free = np.where(instance.task_limits > 0, np.inf, 0.0)
    return instance.replace(
        capacities=np.where(kept, instance.capacities, 1e4 * instance.capacities),
        task_limits=instance.task_limits if "the task limits" in names else free,
    )


BLOCKS = [
    fo.MinShare(1.2, fo.Tasks()),
    fo.MaxShare(1.1, fo.Tasks()),
    fo.MinTasks(1.5),
    fo.MaxTasks(1),
    fo.EqualShares(fo.Tasks()),
    fo.EnvyFree(),
    fo.Total(fo.Tasks()) >= 6,
]


@given(clusters(max_users=3, max_servers=2), st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=4, unique_by=repr))
@settings(max_examples=5)
def test_dropping_any_one_that_is_named_makes_the_others_feasible(
    instance: fo.Instance, constraints: list[fo.Constraint]
) -> None:
    try:
        fo.Policy(fo.Total(fo.Tasks()), constraints).allocate(instance)
        return
    except fo.errors.Infeasible as error:
        names = set(error.conflict)
    assert not holds(only(instance, names), [c for c in constraints if f"`{c!r}`" in names])
    for one in names:
        rest = names - {one}
        assert holds(only(instance, rest), [c for c in constraints if f"`{c!r}`" in rest])


def largest_common_share(error: fo.errors.Infeasible) -> float:
    return float(str(error).split("largest common share is ")[1].split()[0])


@given(
    clusters(max_users=3, max_servers=2),
    st.sampled_from([0.9, 3, 30]),
    st.lists(
        st.sampled_from(
            [
                fo.MaxTasks(2),
                fo.MaxShare(0.3),
                fo.EqualShares(fo.Tasks()),
                fo.MinTasks(0.01),
                fo.EnvyFree(),
            ]
        ),
        max_size=2,
        unique_by=repr,
    ),
)
@settings(max_examples=5)
def test_the_largest_common_share_can_be_had_and_no_more(
    instance: fo.Instance, level: float, others: list[fo.Constraint]
) -> None:
    """Also where a condition that is not named bounds it more than those named."""
    if not holds(instance, others):
        return
    try:
        fo.Policy(fo.Total(fo.Tasks()), [*others, fo.MinShare(level)]).allocate(instance)
    except fo.errors.Infeasible as error:
        if f"`MinShare({level})`" in error.conflict and instance.demands.ndim == 2:
            found = largest_common_share(error)
            assert holds(instance, [*others, fo.MinShare(found * 0.999)])
            assert not holds(instance, [*others, fo.MinShare(found * 1.001)])


@pytest.mark.parametrize(
    ("objective", "level"),
    [(fo.AlphaFair(1), 0.6), (fo.Leximin(), 3), (fo.Total(), 30), (fo.AlphaFair(1), 1e6)],
    ids=repr,
)
def test_the_largest_common_share_is_measured_with_all_capacities_in_place(
    objective: fo.Objective, level: float
) -> None:
    """A share s of both users takes 200 s of the bandwidth twice: 1/2 is the most, for any capacity named."""
    cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    error = conflict(fo.Policy(objective, [fo.MinShare(level)]), cluster)
    assert largest_common_share(error) == 0.5


@pytest.mark.parametrize(
    "change, others, most",
    [
        ({"task_limits": [1, None]}, [], 0.2),  # a task of a takes a fifth of the memory
        ({}, [fo.MaxTasks({"a": 0.5})], 0.1),
        ({}, [fo.MaxTasks({"a": 0})], 0),
        ({}, [fo.Reserve(0, 0.7)], 0.2),  # s of both takes 15 s of 3 units of cpu
        ({}, [fo.EqualShares(fo.Tasks()), fo.MaxShare({"b": 0.25})], 0.25),
        ({}, [fo.MinTasks({"b": 4})], 0.4),  # which leaves 2 units of cpu to a
    ],
)
def test_the_largest_common_share_is_measured_with_all_else_in_place(
    change: dict[str, Any], others: list[fo.Constraint], most: float
) -> None:
    error = conflict(fo.Policy(fo.Total(), [fo.MinShare(30), *others]), POOL.replace(**change))
    assert largest_common_share(error) == pytest.approx(most, rel=1e-3)


# -- what routes add -------------------------------------------------------------------------------------------------


@contextmanager
def refusing(block: type[fo.Constraint], monkeypatch: pytest.MonkeyPatch, liars: Sequence[str]) -> Iterator[None]:
    """Solvers that report every program with a condition of such a block as infeasible."""
    written, honest = block.constraints, solvers.run

    def labelled(self: fo.Constraint, model: fo.Model) -> dict[str, cp.Constraint]:
        conditions = written(self, model)
        for condition in conditions.values():
            condition.set_label("refused")
        return conditions

    def run(problem: cp.Problem, solver: str, **options: Any) -> Any:
        attempt = honest(problem, solver, **options)
        lies = solver in liars and any(c.label == "refused" for c in problem.constraints)
        return type(attempt)(solver, "infeasible", 0.0) if lies else attempt

    with monkeypatch.context() as patch:
        patch.setattr(block, "constraints", labelled)
        patch.setattr(solvers, "run", run)
        yield


TIERS = [
    fo.Policy((fo.AlphaFair(0.5) + fo.Total(fo.ThroughputShare())).then(fo.Total(fo.Tasks()))),
    fo.Policy(fo.WeightedLog().then(fo.AlphaFair(1, fo.Tasks()))),
]
SERVERS = fo.Instance([[1, 2], [2, 1]], [[10, 10], [4, 9]], rates=[[1, 2], [1, 1]])


@pytest.mark.parametrize("policy", TIERS, ids=repr)
def test_what_an_earlier_tier_achieved_is_never_named(policy: fo.Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds fit, so a solver that denies it is wrong: the next one is tried, and in the end there is no answer."""
    honest = policy.allocate(SERVERS, method="cone").tasks
    with refusing(AtLeast, monkeypatch, solvers.chain(False)[:1]):
        a = policy.allocate(SERVERS, method="cone")
    assert "infeasible" in [attempt.status for attempt in a.certificate.tried]
    np.testing.assert_allclose(a.tasks, honest, rtol=1e-3)
    with refusing(AtLeast, monkeypatch, solvers.installed()), pytest.raises(fo.errors.NotCertified):
        policy.allocate(SERVERS, method="cone")


def test_what_is_topped_up_is_never_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fo.MinTasks, "bounds", lambda *_: None)  # so that it is a condition like any other
    with refusing(fo.MinTasks, monkeypatch, solvers.installed()):
        a = fo.Policy(fo.AlphaFair(4)).allocate(SERVERS, method="cone")
    np.testing.assert_allclose(a.shares, fo.Policy(fo.AlphaFair(4)).allocate(SERVERS).shares, rtol=1e-3)


def test_explaining_what_is_feasible_says_nothing() -> None:
    explain(Program(POOL, fo.Total(), [fo.MinShare(0.5)]))


def test_bounds_that_hold_only_just_are_no_conflict() -> None:
    instance = fo.Instance([[1], [1], [1]], [3])
    a = fo.Policy(fo.Total(), [fo.MinShare(1 / 3)]).allocate(instance)
    np.testing.assert_allclose(a.tasks, 1, rtol=1e-7)


def test_solvers_that_cannot_take_a_condition_are_passed_over_in_the_search_for_what_conflicts() -> None:
    """ECOS takes no power cones, and is asked after the others where these leave it open."""
    blocks = [fo.MinTasks({"user1": 0.125}), fo.EnvyFree(), fo.MinTasks((1, 1)), fo.AlphaFair(0.5) >= 1]
    policy = fo.Policy(fo.AlphaFair(1, fo.Tasks()), blocks)
    with pytest.raises(fo.errors.Infeasible, match="the capacity of resource1 and `MinTasks"):
        policy.allocate(fo.Instance([[6], [1]], [[1]]))


@pytest.mark.parametrize("objective", [fo.Total(fo.Tasks()), fo.Total()])
def test_where_conditions_hold_at_nothing_only_nothing_is_the_answer(objective: fo.Objective) -> None:
    instance = fo.Instance([[1], [2]], [1], weights=[1, 2])  # equal tasks, and none envies another: 2 x = x
    answer = fo.Policy(objective, [fo.EqualShares(fo.Tasks()), fo.EnvyFree()]).allocate(instance)
    assert answer.certificate.ok and answer.tasks.tolist() == [0, 0]


def test_a_lower_bound_far_above_what_weights_give_can_hold() -> None:
    """Unknowns in units of 1e-12 of what the bound asks for were infeasible to a solver."""
    instance = fo.Instance([[1], [1], [5]], [[6], [9]], weights=[1e12, 2, 1])
    answer = fo.Policy(fo.Total(), [fo.MinShare(0.03)]).allocate(instance)
    assert answer.objective == pytest.approx(1) and answer.shares.min() >= 0.03 * (1 - 1e-9)


# -- what can be had ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Two(fo.Constraint):
    least: float
    most: float = np.inf

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        s = model.share(fo.DominantShare())
        return {"first": s >= self.least} | ({"second": s[0] <= self.most} if self.most < 1 else {})


@dataclass(frozen=True, repr=False)
class Written(fo.Constraint):
    kind: str

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        x = model.tasks
        return {
            "apart": {"far": x[0] >= 2 * x[1] + 3, "near": cp.norm(x - cp.sum(x) / 2) <= 0.1},
            "differs": {"wanted": x >= np.array([2.0, 6.0])},
            "equal": {"same": x[0] == x[1] + 5},
            "fewest": {"few": cp.sum(x) <= 3, "many": cp.sum(x) >= 4},
        }[self.kind]


@pytest.mark.parametrize(
    "constraint, capacity, says",
    [
        (
            Two(0.6),
            2,
            "the capacity of cpu and 'first' of `Two(0.6)` cannot hold together; "
            "at most 0.5 can be had for 'first' of users 'a' and 'b'",
        ),
        (
            Two(0.4, 0.3),
            2,
            "'first' and 'second' of `Two(0.4, 0.3)` cannot hold together; "
            "at most 0.3 can be had for 'first' of user 'a'",
        ),
        (
            Written("apart"),
            4,
            "'far' and 'near' of `Written('apart')` cannot hold together; "
            "at most 0.1414 can be had for 'far' of users 'a' and 'b'",
        ),
        (Written("differs"), 4, "; there is room for 0.5 times what 'wanted' asks of users 'a' and 'b'"),
        (Written("equal"), 4, "the capacity of cpu and 'same' of `Written('equal')` cannot hold together"),
        (
            Written("fewest"),
            9,
            "'few' and 'many' of `Written('fewest')` cannot hold together; "
            "'few' of users 'a' and 'b' comes to at least 4",
        ),
        (fo.Total(fo.Tasks()) >= 8, 7, "; at most 7 can be had for `Total(Tasks())`"),
        (
            fo.MinTasks({"a": 4, "b": 4}),
            7,
            "; there is room for 0.875 times what `MinTasks({'a': 4.0, 'b': 4.0})` asks of users 'a' and 'b'",
        ),
        (fo.MinTasks(4), 7, "; the largest common number of tasks is 3.5"),
    ],
    ids=str,
)
def test_the_message_names_the_condition_its_users_and_what_can_be_had(
    constraint: fo.Constraint, capacity: float, says: str
) -> None:
    pool = fo.Instance([[1], [1]], [capacity], users=["a", "b"], resources=["cpu"])
    assert str(conflict(fo.Policy(fo.Total(), [constraint]), pool)).endswith(says)


def test_of_many_users_three_are_named() -> None:
    pool = fo.Instance([[1]] * 6, [5], users=list("abcdef"))
    error = conflict(fo.Policy(fo.Total(), [fo.MinTasks(dict.fromkeys("abcde", 2))]), pool)
    assert str(error).endswith("asks of users 'a', 'b', 'c' and 2 more")
    error = conflict(fo.Policy(fo.Total(), [fo.MinTasks(tuple(range(1, 7)))]), pool)
    assert str(error).endswith("asks of all users")


def test_conditions_that_an_objective_requires_are_named() -> None:
    def levelled(model: fo.Model) -> cp.Expression:
        level = model.variable(lower=0)
        model.require("level", model.tasks >= 3 + level)
        return level

    pool = fo.Instance([[1], [1]], [4], resources=["cpu"])
    error = conflict(fo.Policy(levelled), pool)
    assert error.conflict == ("the capacity of cpu", "`levelled`")
    assert str(error).startswith("the capacity of cpu and 'level' of `levelled` cannot hold together")
    never = lambda model: (model.require("never", cp.Constant(2) <= 1), cp.sum(model.tasks))[1]  # noqa: E731
    assert str(conflict(fo.Policy(never), pool)).startswith("'never' of `lambda model: ")


@pytest.mark.parametrize("weight", [1e10, 1e17])
def test_small_shares_beside_large_weights_are_no_conflict(weight: float) -> None:
    """Unknowns in units of what weights of 1 and 1e17 leave lost the row that gives the second user a hundredth."""
    instance = fo.Instance([[[1], [1]], [[1], [1]]], [[1], [2]], weights=[weight, 1])
    answer = fo.Policy(fo.Leximin(), [fo.MinShare(0.01)]).allocate(instance)
    np.testing.assert_allclose(answer.tasks, [2.97, 0.03], rtol=1e-6)


def drowned(model: fo.Model) -> cp.Expression:
    """A variable below -9e10 and less: CLARABEL and ECOS call its row infeasible."""
    value = model.variable(())
    model.require("value", value <= -10.5 * cp.sum(cp.logistic(-2 * model.tasks)) - cp.maximum(9e10, model.tasks[0]))
    return value


def test_what_a_solver_calls_infeasible_at_constants_of_1e10_may_be_feasible() -> None:
    with suppress(fo.errors.NotCertified):
        assert fo.Policy(drowned).allocate(fo.Instance([[1]], [21])).tasks == pytest.approx([15.6], abs=5.4)


def test_conflicts_are_proved_beside_rows_that_solvers_call_infeasible() -> None:
    x, v, level = cp.Variable(2, nonneg=True), cp.Variable(), cp.Variable()
    able = {
        "far": [v <= cp.sum(x) - cp.maximum(1e11, x[0])],
        "level": [level <= x, level >= -1e13],
        "norm": [cp.norm(x - 1e6) <= 2e6],
    }
    assert infeasible.irreducible(able) == []
    assert infeasible.irreducible({"most": [cp.norm(x) <= 1], "least": [x >= 0.2], **able}) == []
    never = {"most": [cp.norm(x) <= 1], "least": [x >= 1]}
    assert infeasible.irreducible({**never, "level": [level <= x, level >= -1e4]}) == ["most", "least"]
    assert infeasible.irreducible({**never, **able}) in ([], ["most", "least"])
    assert infeasible.irreducible({"never": [cp.Constant(2) <= 1]}) == ["never"]
    assert infeasible.irreducible({}) == []
