"""A policy as a CVXPY problem: what it looks like, that it says the same, and what `read` accepts."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cvxpy as cp
import forked
import numpy as np
import pytest
from hypothesis import given, settings
from oracle.instances import cluster, clusters

import fairopt as fo
from fairopt.solve.form.problem import same_problem

CLUSTER = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
TWO = fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]])
POLICIES = [
    fo.DRF(),
    fo.KDF(2),
    fo.MostTasks(),
    fo.NashWelfare(),
    fo.FDS(0.5),
    fo.FDS(1),
    fo.FDS(2),
    fo.GFJ(0.5),
    fo.GFJ(2),
    fo.FDS(beta=2, lam=-1),
    fo.GFJ(beta=2, lam=-0.5),
    fo.FDS(beta=0.5, lam=2),
    fo.PNormFairness(2, 0.5),
    fo.TSF(),
    fo.Policy(fo.MaxMin(), [fo.EnvyFree()]),
    fo.Policy(fo.OrderedWeighted((2, 1)), [fo.SharingIncentive()]),
    fo.Policy(fo.AlphaFair(1) + 0.1 * fo.Total(fo.Tasks()), [fo.MinTasks(1), fo.Reserve(0, 0.1)]),
]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("instance", [CLUSTER, TWO], ids=["pool", "servers"])
def test_the_problem_has_the_same_optimum(policy: fo.Policy, instance: fo.Instance) -> None:
    problem = policy.problem(instance)
    assert problem.is_dcp()
    problem.solve(solver="CLARABEL")
    a, b = policy.allocate(instance), policy.certify(problem, instance)
    assert b.certificate.ok and b.certificate.method == "read"
    assert b.objective == pytest.approx(a.objective, rel=1e-5)
    assert b.certificate.gap <= 1e-6


@pytest.mark.parametrize(
    "copied",
    [
        lambda problem: pickle.loads(pickle.dumps(problem)),
        copy.deepcopy,
        lambda problem: cp.Problem(problem.objective, [c.copy() for c in problem.constraints]),
    ],
    ids=["pickled", "deep copy", "copied constraints"],
)
@pytest.mark.parametrize("instance", [CLUSTER, TWO], ids=["pool", "servers"])
def test_a_copy_of_the_problem_is_not_changed_by_hand(
    copied: Callable[[cp.Problem], cp.Problem], instance: fo.Instance
) -> None:
    policy = fo.Policy(fo.Total(fo.Tasks()), [fo.SharingIncentive(), fo.EqualShares()])
    problem = copied(policy.problem(instance))
    problem.solve(solver="HIGHS")
    assert policy.certify(problem, instance).policy is policy


@given(clusters())
@settings(max_examples=7)
def test_problems_of_any_cluster_have_the_same_optimum(instance: fo.Instance) -> None:
    for policy in (fo.MostTasks(), fo.Policy(fo.MaxMin(), [fo.MinShare(1e-3)])):
        problem = policy.problem(instance)
        problem.solve(solver="HIGHS")
        a, b = policy.allocate(instance), policy.certify(problem, instance)
        assert b.objective == pytest.approx(a.objective, rel=1e-6, abs=1e-9)


def test_the_variable_is_named_tasks_and_has_the_shape_of_the_answer() -> None:
    assert fo.DRF().problem(CLUSTER).var_dict["tasks"].shape == (2,)
    assert fo.DRF().problem(TWO).var_dict["tasks"].shape == (2, 2)
    repeated = fo.Instance([[1]], [[2], [2], [3]])
    assert fo.DRF().problem(repeated).var_dict["tasks"].shape == (1, 3)
    counted = fo.Instance([[1]], [[2], [3]], counts=[2, 1])
    problem = fo.MostTasks().problem(counted)
    assert problem.solve(solver="HIGHS") == pytest.approx(7)


def test_placement_limits_and_idle_users_hold_in_the_problem() -> None:
    instance = fo.Instance([[1], [1], [1]], [[2], [3]], eligible=[[1, 0], [1, 1], [0, 1]], task_limits=[0, 1, None])
    problem = fo.MostTasks().problem(instance)
    problem.solve(solver="HIGHS")
    x = problem.var_dict["tasks"].value
    np.testing.assert_allclose(x[~instance.eligible], 0, atol=1e-9)
    assert x[0].sum() == pytest.approx(0) and x[1].sum() <= 1 + 1e-9
    assert fo.MostTasks().certify(problem, instance).tasks.sum() == pytest.approx(4)


def test_the_problem_is_in_natural_units() -> None:
    assert fo.MostTasks().problem(CLUSTER).solve(solver="HIGHS") == pytest.approx(25)
    assert fo.FDS(2).problem(CLUSTER).solve(solver="CLARABEL") == pytest.approx(fo.FDS(2).allocate(CLUSTER).objective)
    labels = [c.label for c in fo.Policy(fo.Total(), [fo.MinTasks(1)]).problem(CLUSTER).constraints]
    assert "capacity" in labels and any("MinTasks(1)" in str(label) for label in labels)


def test_prices_of_the_problem_are_per_unit_of_capacity() -> None:
    problem = fo.MostTasks().problem(CLUSTER)
    problem.solve(solver="HIGHS")
    a = fo.MostTasks().certify(problem, CLUSTER)
    np.testing.assert_allclose(a.prices, [[1 / 8, 0, 0]], atol=1e-9)


# -- changed problems ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [fo.MostTasks(), fo.FDS(1), fo.GFJ(2), fo.Policy(fo.MaxMin())], ids=repr)
def test_an_added_constraint_is_certified(policy: fo.Policy) -> None:
    problem = policy.problem(CLUSTER)
    tasks = problem.var_dict["tasks"]
    changed = cp.Problem(problem.objective, [*problem.constraints, tasks[1] <= 2 * tasks[0]])
    changed.solve(solver="CLARABEL")
    a = policy.certify(changed, CLUSTER)
    assert a.tasks[1] <= 2 * a.tasks[0] * (1 + 1e-6)
    # 40 x + 8 y = 200 and y = 2 x, since all of these want more of user 2 than that
    np.testing.assert_allclose(a.tasks, [25 / 7, 50 / 7], rtol=1e-4)


@pytest.mark.parametrize(
    ("write", "right"),
    [
        (lambda x: cp.sum(cp.sqrt(x)), None),
        (lambda x: cp.sum(cp.log(x)), [2.5, 12.5]),
        (lambda x: 3 * x[0] + x[1], None),
        (lambda x: cp.min(x), None),
        (lambda x: -cp.sum_squares(x - 3), [3, 3]),
    ],
    ids=["roots", "logs", "linear", "smallest", "nearest"],
)
def test_a_replaced_objective_is_certified(write: object, right: list | None) -> None:
    problem = fo.MostTasks().problem(CLUSTER)
    tasks = problem.var_dict["tasks"]
    changed = cp.Problem(cp.Maximize(write(tasks)), problem.constraints)  # type: ignore[operator]
    changed.solve(solver="CLARABEL")
    a = fo.MostTasks().certify(changed, CLUSTER)
    assert a.objective == pytest.approx(changed.value, rel=1e-5, abs=1e-5)
    if right is not None:
        np.testing.assert_allclose(a.tasks, right, rtol=1e-3)


def test_a_minimised_objective_is_certified() -> None:
    problem = fo.MostTasks().problem(CLUSTER)
    tasks = problem.var_dict["tasks"]
    changed = cp.Problem(cp.Minimize(cp.sum_squares(tasks - 3)), problem.constraints)
    changed.solve(solver="CLARABEL")
    np.testing.assert_allclose(fo.MostTasks().certify(changed, CLUSTER).tasks, [3, 3], rtol=1e-3)
    tasks.value = np.array([2.0, 3.0])
    with pytest.raises(fo.errors.NotCertified):
        fo.MostTasks().certify(changed, CLUSTER)


@pytest.mark.parametrize("objective", [cp.Minimize, lambda cost: cp.Maximize(-cost)], ids=["minimised", "negative"])
def test_a_cost_above_the_least_is_refused(objective: Callable[[cp.Expression], cp.Minimize | cp.Maximize]) -> None:
    policy, instance = fo.MostTasks(), fo.Instance([[1], [1]], [10])
    problem = policy.problem(instance)
    tasks = problem.var_dict["tasks"]
    changed = cp.Problem(objective(cp.sum(tasks)), [*problem.constraints, cp.sum(tasks) >= 2])
    changed.solve(solver="CLARABEL")
    assert policy.certify(changed, instance).tasks.sum() == pytest.approx(2)
    tasks.value = np.array([1.5, 1.5])
    with pytest.raises(fo.errors.NotCertified, match=r"gap 6\.7e-01"):  # 3 - 2, relative to 3 - 1.5
        policy.certify(changed, instance)


def test_an_objective_whose_terms_cancel_is_not_measured_in_their_rounding() -> None:
    policy, instance = fo.MostTasks(), fo.Instance([[1], [1]], [10])
    problem = policy.problem(instance)
    tasks = problem.var_dict["tasks"]
    equal = tasks[1] <= tasks[0]
    changed = cp.Problem(cp.Maximize(tasks[1] - tasks[0]), [*problem.constraints, equal])
    equal.save_dual_value(np.array(1.0))
    tasks.value = np.array([3.0, 3.0 - 3e-10])  # the best is 0
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(changed, instance)


def test_an_unsolved_problem_is_refused() -> None:
    with pytest.raises(fo.errors.NotCertified, match="solve"):
        fo.FDS(1).certify(fo.FDS(1).problem(CLUSTER), CLUSTER)


def test_a_problem_of_something_else_is_refused() -> None:
    x = cp.Variable(2)
    other = cp.Problem(cp.Maximize(cp.sum(x)), [x <= 1])
    other.solve(solver="HIGHS")
    with pytest.raises(fo.errors.InvalidBlock, match="tasks"):
        fo.DRF().certify(other, CLUSTER)
    problem = fo.MostTasks().problem(CLUSTER)
    problem.solve(solver="HIGHS")
    with pytest.raises(fo.errors.InvalidBlock, match="shape"):
        fo.MostTasks().certify(problem, TWO)


MOVED = [fo.MostTasks(), fo.FDS(1), fo.GFJ(2), fo.FDS(0.5), fo.FDS(beta=2, lam=-1)]


@pytest.mark.parametrize("policy", MOVED, ids=repr)
@pytest.mark.parametrize("part", [0.0, 0.5, 0.999, 1.001, 2.0])
def test_an_answer_moved_by_hand_is_refused(policy: fo.Policy, part: float) -> None:
    problem = policy.problem(CLUSTER)
    problem.solve(solver="CLARABEL")
    right = policy.certify(problem, CLUSTER).tasks
    tasks = problem.var_dict["tasks"]
    tasks.value = np.maximum(np.array(tasks.value), 0) * np.array([part, 1.0])
    try:
        a = policy.certify(problem, CLUSTER)
    except fo.errors.NotCertified:
        return
    np.testing.assert_allclose(a.tasks, right, rtol=2e-3, atol=1e-5)


def test_an_answer_that_breaks_the_instance_is_not_passed_on() -> None:
    """The capacities were dropped: what is left is repaired, and then it is not optimal, or no proof is left."""
    problem = fo.MostTasks().problem(CLUSTER)
    tasks = problem.var_dict["tasks"]
    changed = cp.Problem(problem.objective, [tasks <= 100])
    changed.solve(solver="HIGHS")
    with pytest.raises(fo.errors.NotCertified):
        fo.MostTasks().certify(changed, CLUSTER)


def test_a_constraint_in_small_units_counts_relatively() -> None:
    """Capacities of 1e-9: an answer ten times what an added constraint allows is not an answer."""
    small = fo.Instance([[1], [1]], [1e-8])
    policy = fo.MostTasks()
    problem = policy.problem(small)
    tasks = problem.var_dict["tasks"]
    changed = cp.Problem(problem.objective, [*problem.constraints, tasks[0] <= 1e-10, tasks[1] <= 1e-10])
    changed.solve(solver="CLARABEL")
    tasks.value = np.array([5e-9, 5e-9])
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(changed, small)


def test_variables_of_ones_own_do_not_fool_the_proof() -> None:
    """t could be 6; duals that ignore t certify any t otherwise."""
    problem = fo.MostTasks().problem(CLUSTER)
    tasks, t = problem.var_dict["tasks"], cp.Variable()
    changed = cp.Problem(problem.objective, [*problem.constraints, tasks[1] <= t, t <= 6])
    changed.solve(solver="CLARABEL")
    np.testing.assert_allclose(fo.MostTasks().certify(changed, CLUSTER).tasks, [3.8, 6], rtol=1e-5)
    t.value = 3.0
    tasks.value = np.array([4.4, 3.0])
    with pytest.raises(fo.errors.NotCertified):
        fo.MostTasks().certify(changed, CLUSTER)


def test_an_objective_on_a_variable_of_ones_own_is_certified_or_refused() -> None:
    problem = fo.MostTasks().problem(CLUSTER)
    tasks, t = problem.var_dict["tasks"], cp.Variable()
    changed = cp.Problem(cp.Maximize(t + 1e-3 * cp.sum(tasks)), [*problem.constraints, t <= tasks[0], t <= tasks[1]])
    changed.solve(solver="CLARABEL")
    right = np.array(tasks.value)
    a = fo.MostTasks().certify(changed, CLUSTER)
    np.testing.assert_allclose(a.tasks, right, rtol=1e-3)
    t.value = 0.5 * t.value
    with pytest.raises(fo.errors.NotCertified):
        fo.MostTasks().certify(changed, CLUSTER)


@pytest.mark.parametrize(
    ("objective", "first"),
    [(fo.Leximin(), fo.MaxMin()), (fo.Total().then(fo.MaxMin()), fo.Total())],
    ids=["leximin", "tiers"],
)
def test_what_is_read_of_levels_is_named_by_the_first(objective: fo.Objective, first: fo.Objective) -> None:
    policy = fo.Policy(objective, [fo.MinTasks(1)], name="mine")
    problem = policy.problem(CLUSTER)
    problem.solve(solver="CLARABEL")
    answer = policy.certify(problem, CLUSTER)
    assert answer.policy == fo.Policy(first, [fo.MinTasks(1)])
    assert answer.policy.name == "first level of mine" and "first level of mine" in repr(answer)


def test_reading_leaves_the_problem_as_it_was() -> None:
    problem = fo.FDS(1).problem(CLUSTER)
    problem.solve(solver="CLARABEL")
    before = np.array(problem.var_dict["tasks"].value)
    fo.FDS(1).certify(problem, CLUSTER)
    assert (problem.var_dict["tasks"].value == before).all()


@pytest.mark.parametrize("seed", range(3))
def test_demands_by_server_read_back(seed: int) -> None:
    instance = cluster(np.random.default_rng(seed), 4, 3, 2, by_server=True)
    for policy in (fo.MostTasks(), fo.FDS(1)):
        problem = policy.problem(instance)
        problem.solve(solver="CLARABEL")
        a, b = policy.allocate(instance), policy.certify(problem, instance)
        assert b.objective == pytest.approx(a.objective, rel=1e-5, abs=1e-7)


def test_nobody_at_all() -> None:
    for instance in (fo.Instance([], [[1, 2]]), fo.Instance([[1, 2]], [3, 4], task_limits=0)):
        problem = fo.FDS(1).problem(instance)
        if instance.n_users:
            problem.solve(solver="CLARABEL")
            assert fo.FDS(1).certify(problem, instance).tasks.tolist() == [0]


LOOP = """
import warnings
from collections.abc import Callable
from dataclasses import dataclass
import cvxpy as cp, numpy as np, fairopt as fo

cp.utilities.debug_tools.MAX_NODES = 1_000  # as with ten times the users

@dataclass(frozen=True, repr=False)
class Roots(fo.Objective):
    def expression(self, model):
        return sum(cp.sqrt(model.tasks[j]) for j in range(model.tasks.size))

with warnings.catch_warnings(record=True) as caught:
    fo.Policy(Roots()).problem(fo.Instance(np.ones((340, 1)), [1.0]))
print(*(w.message for w in caught), sep="|")
"""


def test_a_loop_over_many_users_is_named_and_cvxpy_is_silent() -> None:
    said = forked.run("-c", LOOP).stdout.split("|")
    assert len(said) == 1 and said[0].startswith("Roots() makes ") and "vectors instead of a loop" in said[0]


# -- whose problem it is ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Levelled(fo.Objective):
    """An objective with a variable of its own."""

    def expression(self, model: fo.Model) -> cp.Expression:
        level = cp.Variable()
        model.required.append(model.tasks >= level)
        return level


SERVERS = fo.Instance([[1, 2], [3, 1]], [[9, 8], [4, 6]], task_limits=[None, 2])
WRITTEN = [
    fo.FDS(1),
    fo.DRF(),
    fo.MostTasks(),
    fo.HFFMRA("raw"),
    fo.GFJ(2),
    fo.Policy(Levelled()),
    fo.Policy(fo.OrderedWeighted((2, 1)) + fo.Total(), [fo.EnvyFree(), fo.MinShare(0.01), fo.Reserve(0, 0.1)]),
]


@pytest.mark.parametrize("instance", [CLUSTER, SERVERS], ids=["pool", "servers"])
@pytest.mark.parametrize("policy", WRITTEN, ids=repr)
def test_a_policy_writes_the_same_problem_twice_and_another_for_other_numbers(
    policy: fo.Policy, instance: fo.Instance
) -> None:
    problem = policy.problem(instance)
    assert same_problem(problem, policy.problem(instance.replace()))
    assert same_problem(cp.Problem(problem.objective, problem.constraints[::-1]), problem)
    assert not same_problem(problem, policy.problem(instance.with_capacities(1.1 * instance.capacities)))
    assert not same_problem(problem, policy.with_constraints(fo.MaxTasks(3)).problem(instance))
    assert not same_problem(cp.Problem(problem.objective, problem.constraints[1:]), problem)
    assert not same_problem(cp.Problem(cp.Minimize(-problem.objective.expr), problem.constraints), problem)
    assert not same_problem(cp.Problem(2 * problem.objective, problem.constraints), problem)


def test_the_answer_of_an_unchanged_problem_is_the_policys_whatever_solved_it() -> None:
    policy = fo.FDS(1)
    for solver in ("CLARABEL", "ECOS", "SCS"):
        problem = policy.problem(CLUSTER)
        problem.solve(solver=solver, **({"eps": 1e-9} if solver == "SCS" else {}))
        assert policy.certify(problem, CLUSTER).policy is policy
    rebuilt = cp.Problem(cp.Maximize(problem.objective.expr), problem.constraints)
    assert policy.certify(rebuilt, CLUSTER).policy is policy


def test_an_answer_of_a_problem_that_was_changed_says_so_in_name_tables_and_file(tmp_path: Path) -> None:
    pool, policy = fo.Instance([[1], [1]], [2]), fo.Policy(fo.AlphaFair(1))
    problem = policy.problem(pool)
    tasks = problem.var_dict["tasks"]
    changed = cp.Problem(cp.Maximize(cp.sum(cp.sqrt(tasks)) + tasks[0]), problem.constraints)
    changed.solve(solver="CLARABEL")
    answer = policy.certify(changed, pool)
    assert answer.certificate.ok and answer.tasks[0] > 1.8
    assert repr(answer.policy) == answer.policy.name == "Policy(AlphaFair(1)) as changed by hand"
    for shown in (repr(answer), answer._repr_html_(), repr(fo.check(answer))):
        assert "AlphaFair(1)) as changed by hand" in shown
    np.testing.assert_allclose(answer.shares, answer.tasks / 2)
    assert answer.prices is None
    with pytest.warns(UserWarning, match="its problem was changed by hand, .* can prove that the tasks fit, not that"):
        file = answer.save(tmp_path / "changed.json")
    loaded = fo.Allocation.load(file)
    assert str(loaded.policy) == answer.policy.name and not loaded.certificate.ok
    assert "changed by hand" in loaded.certificate.note
    assert not fo.verify(file).ok and "changed by hand" in fo.verify(file).statement


def test_a_parameter_of_another_value_and_another_instance_are_changes() -> None:
    @dataclass(frozen=True, repr=False)
    class AtMost(fo.Constraint):
        def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
            return {"at most": model.tasks <= cp.Parameter(value=3.0)}

    policy = fo.MostTasks().with_constraints(AtMost())
    problem = policy.problem(CLUSTER)
    problem.solve(solver="HIGHS")
    assert policy.certify(problem, CLUSTER).policy is policy
    (at_most,) = problem.parameters()
    at_most.value = 2.0
    problem.solve(solver="HIGHS")
    assert "changed by hand" in repr(policy.certify(problem, CLUSTER).policy)
    at_most.value = 3.0
    smaller = CLUSTER.with_capacities(CLUSTER.capacities[0] * 0.9)
    problem = policy.problem(smaller)
    problem.solve(solver="HIGHS")
    assert "changed by hand" in repr(policy.certify(problem, CLUSTER).policy)
