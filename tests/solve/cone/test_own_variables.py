"""Answers of blocks with variables of their own: proofs, multipliers, units, tiers, whole tasks, and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.proof import feasibility as conditions
from fairopt.proof import gate
from fairopt.proof.evidence.solved import Solved
from fairopt.proof.proposal import Proposal
from fairopt.solve.cone.solve import solve_number
from fairopt.solve.form.program import ConeModel, Program
from fairopt.solve.settings import Settings

CLUSTER = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
SERVERS = fo.Instance([[2, 1], [1, 3], [1, 1]], [[12, 6], [6, 12]])
STEP = 1e-3


@dataclass(frozen=True, repr=False)
class Capped(fo.Constraint):
    """The second user's tasks under a variable that is at most ``most``, and a number of tasks of the first."""

    most: float = 5.0
    first: float | None = None

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        most = model.variable(name="most", lower=0, upper=20)
        model.require("cap", most <= self.most)
        fixed = {} if self.first is None else {"first": model.tasks[0] == self.first}
        return {"below": model.tasks[1] <= most} | fixed


@dataclass(frozen=True, repr=False)
class LeastTasks(fo.Objective):
    """The fewest tasks, as an epigraph without bounds."""

    def expression(self, model: fo.Model) -> cp.Expression:
        least = model.variable(name="least")
        model.require("least", model.tasks >= least)
        return least


@dataclass(frozen=True, repr=False)
class TwoStages(fo.Objective):
    """The logarithms of what runs in two scenarios, among the tasks that were admitted."""

    upper: float | None = None

    def expression(self, model: fo.Model) -> cp.Expression:
        instance, total = model.instance, []
        for k, left in enumerate(([1.0, 0.5], [0.5, 1.0])):
            most = None if self.upper is None else self.upper * instance.tasks_alone[:, 0]
            runs = model.variable(instance.n_users, name=f"runs {k}", lower=0, upper=most)
            model.require(f"admitted {k}", runs <= model.tasks)
            model.require(f"capacity {k}", (instance.demands / instance.total_capacities).T @ runs <= left)
            total.append(cp.sum(cp.log(runs)))
        return sum(total)


KNOWN = [
    fo.Total(fo.Tasks()),
    fo.AlphaFair(2),
    fo.AlphaFair(0.5),
    fo.AlphaFair(1) + fo.Total(),
    fo.FairnessEfficiency(0.5, 1),
]


@pytest.mark.parametrize("objective", KNOWN, ids=str)
def test_multipliers_are_what_the_objective_gains_as_a_condition_is_relaxed(objective: fo.Objective) -> None:
    def value(most: float, first: float) -> float:
        return fo.Policy(objective, [Capped(most, first)]).allocate(CLUSTER).objective

    a = fo.Policy(objective, [Capped(5.0, 1.0)]).allocate(CLUSTER)
    of_cap = (value(5 + STEP, 1.0) - value(5 - STEP, 1.0)) / (2 * STEP)
    of_first = (value(5.0, 1 + STEP) - value(5.0, 1 - STEP)) / (2 * STEP)
    assert a.multipliers["cap"] == pytest.approx(of_cap, rel=1e-4)
    assert a.multipliers["below"] == pytest.approx(of_cap, rel=1e-4)
    assert a.multipliers["first"] == pytest.approx(of_first, rel=1e-4)


def test_conditions_of_fairopts_blocks_have_multipliers_too() -> None:
    """Most tasks where the users' shares are equal: 2.5 and 12.5; a lower bound on the total is worth nothing."""
    a = fo.Policy(fo.Total(fo.Tasks()), [fo.EqualShares(), fo.Total(fo.Tasks()) >= 3]).allocate(CLUSTER)
    assert a.tasks.tolist() == pytest.approx([2.5, 12.5])
    assert a.multipliers["at least"] == pytest.approx(0, abs=1e-9) and len(a.multipliers) == 2


@pytest.mark.parametrize("objective", [*KNOWN, fo.Leximin(), fo.FairnessEfficiency(-1, 1)], ids=str)
def test_a_bounded_variable_leaves_no_assumption(objective: fo.Objective) -> None:
    a = fo.Policy(objective, [Capped()]).allocate(CLUSTER)
    assert a.certificate.assumed == "" and a.tasks[1] <= 5 * (1 + 1e-7)
    assert a.variables["most"] == pytest.approx(5, rel=1e-6)


def test_bounds_that_other_conditions_imply_are_as_good() -> None:
    a = fo.Policy(LeastTasks()).allocate(CLUSTER)
    assert a.certificate.assumed == "" and a.objective == pytest.approx(200 / 48, rel=1e-6)


def test_a_variable_without_any_bound_is_named_in_what_is_assumed() -> None:
    @dataclass(frozen=True, repr=False)
    class Smallest(fo.Objective):
        def expression(self, model: fo.Model) -> cp.Expression:
            t = 0.3 * model.variable(name="t")  # whose multipliers do not add up exactly in floats
            return t - cp.sum(cp.pos(t - model.tasks))

    a = fo.Policy(Smallest()).allocate(CLUSTER)
    assert a.objective == pytest.approx(200 / 48, rel=1e-6)
    assert a.certificate.assumed.startswith("variables without a proven range ('t') stay within 100 times")


@pytest.mark.parametrize(("scale", "upper"), [(1e6, None), (1.0, 1e8), (1e-6, None)])
def test_units_and_loose_bounds_do_not_matter(scale: float, upper: float | None) -> None:
    demands = np.array([[2, 1], [1, 3], [1, 1]])
    plain = fo.Policy(TwoStages(1.0)).allocate(fo.Instance(demands, [12, 12]))
    scaled = fo.Policy(TwoStages(upper)).allocate(fo.Instance(demands, np.array([12, 12]) * scale))
    assert scaled.objective == pytest.approx(plain.objective + 6 * np.log(scale), rel=1e-6)
    for name, runs in plain.variables.items():
        np.testing.assert_allclose(scaled.variables[name], runs * scale, rtol=1e-2)


def test_on_several_servers_too() -> None:
    a = fo.Policy(LeastTasks()).allocate(SERVERS)
    x = cp.Variable((3, 2), nonneg=True)
    fits = SERVERS.demands.T @ x <= SERVERS.capacities.T
    best = cp.Problem(cp.Maximize(cp.min(cp.sum(x, axis=1))), [fits]).solve(solver="HIGHS")
    assert a.objective == pytest.approx(best, rel=1e-6) and a.multipliers["least"].sum() == pytest.approx(1)


def test_policies_that_decide_bundles_take_variables(tmp_path: Path) -> None:
    policy = fo.HFFMRA("raw").with_constraints(Capped(1.0))
    a = policy.allocate(CLUSTER)
    assert a.certificate.ok and a.tasks.tolist() == pytest.approx([2.5, 1], rel=1e-6)
    assert a.variables["most"] == pytest.approx(1, rel=1e-6)
    assert fo.Allocation.load(a.save(tmp_path / "answer.json"), policy).certificate.ok


def test_frontiers_take_variables() -> None:
    found = fo.frontier(lambda most: fo.Policy(fo.Total(fo.Tasks()), [Capped(most)]), CLUSTER, {"most": [1.0, 2.0]})
    assert found["tasks"].tolist() == pytest.approx([5.8, 6.6])


def test_a_later_tier_keeps_what_the_variables_reached() -> None:
    a = fo.Policy(LeastTasks().then(fo.Total(fo.Tasks())), [Capped(9.0)]).allocate(CLUSTER)
    assert a.certificate.ok and a.tasks.tolist() == pytest.approx([200 / 48, 200 / 48], rel=1e-4)
    assert a.objective == pytest.approx(200 / 48, rel=1e-6)


def test_whole_tasks_leave_variables_divisible() -> None:
    a = fo.Policy(fo.Total(fo.Tasks()), [Capped(5.5)]).allocate(CLUSTER, integral=True)
    assert a.tasks.tolist() == [4, 5] and a.certificate.ok and a.variables["most"] >= 5


def test_a_problem_that_the_user_solves_has_the_variables_by_name() -> None:
    policy = fo.Policy(LeastTasks(), [Capped(3.0)])
    problem = policy.problem(CLUSTER)
    problem.solve(solver="HIGHS")
    a = policy.certify(problem, CLUSTER)
    assert a.policy == policy and a.variables["least"] == pytest.approx(3)
    assert {"most", "least", "tasks"} == set(problem.var_dict)


@pytest.mark.parametrize("policy", [fo.Policy(LeastTasks(), [Capped()]), fo.Policy(fo.Leximin(), [Capped()])], ids=str)
def test_files_hold_variables_and_multipliers(
    policy: fo.Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = policy.allocate(CLUSTER)
    path = a.save(tmp_path / "answer.json")
    levels = isinstance(policy.objective, fo.Leximin)
    assert ("user-defined" if levels else "Capped() as written in the file") in fo.verify(path).statement
    text = fo.Allocation.load(path)
    assert not text.certificate.ok and text.variables == a.variables
    monkeypatch.setattr("fairopt.solve.judged_again.solve_tiers", None)  # the evidence suffices
    loaded = fo.Allocation.load(path, policy)
    assert (
        loaded.certificate.ok and loaded.variables == a.variables and loaded.multipliers.keys() == a.multipliers.keys()
    )


def test_changed_values_in_a_file_prove_nothing_more(tmp_path: Path) -> None:
    policy = fo.Policy(LeastTasks(), [Capped()])
    path = policy.allocate(CLUSTER).save(tmp_path / "answer.json")
    data = json.loads(path.read_text())
    data["evidence"][0]["loaded"]["variables"]["least"] = data["variables"]["least"] = 9.0
    data["objective"] = 9.0
    path.write_text(json.dumps(data))
    assert not fo.verify(path).ok
    assert fo.Allocation.load(path, policy).objective == pytest.approx(200 / 48, rel=1e-6)


def proposed(policy: fo.Policy) -> tuple[Program, Proposal]:
    program = Program(CLUSTER, policy.objective, policy.constraints)
    return program, next(solve_number(program, Settings()))


@pytest.mark.parametrize("objective", [fo.Total(fo.Tasks()), LeastTasks()], ids=str)
def test_no_multipliers_prove_a_worse_point(objective: fo.Objective) -> None:
    """A tenth of the tasks is missing, so at least a twentieth of the optimum, whatever the dual values are."""
    rng = np.random.default_rng(0)
    program, honest = proposed(fo.Policy(objective, [Capped()]))
    assert isinstance(honest.evidence, Solved) and honest.tasks is not None
    for _ in range(8):
        noise: Callable[[Any], Any] = lambda v: v * rng.uniform(0, 2, v.shape) + rng.normal(0, 0.1, v.shape)  # noqa: E731
        duals = [one._replace(values=noise(one.values)) for one in honest.evidence.duals]
        lying = replace(honest.evidence, capacity=noise(honest.evidence.capacity), duals=duals)
        answer = gate.judge(program, replace(honest, tasks=0.9 * honest.tasks, evidence=lying))
        assert answer.gap >= 0.05


@pytest.mark.parametrize("least", [9.0, -9.0, np.nan])
def test_values_that_do_not_belong_to_the_tasks_are_replaced(least: float) -> None:
    program, honest = proposed(fo.Policy(LeastTasks(), [Capped()]))
    assert isinstance(honest.evidence, Solved)
    written = replace(honest.evidence.written, own=(), variables={"least": np.array(least), "most": np.array(5.0)})
    answer = gate.judge(program, replace(honest, evidence=replace(honest.evidence, written=written)))
    assert not answer.ok or answer.value == pytest.approx(200 / 48, rel=1e-6)


def test_a_value_beyond_its_bounds_is_a_violation_in_any_units() -> None:
    program, honest = proposed(fo.Policy(fo.Total(fo.Tasks()), [Capped(99.0)]))
    assert isinstance(honest.evidence, Solved) and honest.tasks is not None
    cone = ConeModel(program, units={"most": 1e-3})  # in which the bound of 20 is left out
    cone.model.own.save({"most": np.array(30.0)})
    assert conditions.block_violation(cone, honest.tasks) == pytest.approx(0.5)


def test_a_conflict_names_required_conditions() -> None:
    with pytest.raises(fo.errors.Infeasible, match=r"'below' and 'cap' of `Capped\(\)` and `MinTasks\(6\)` cannot"):
        fo.Policy(fo.Total(), [Capped(), fo.MinTasks(6)]).allocate(fo.Instance([[1], [1]], [99]))


def test_an_objective_without_a_bound_is_unbounded() -> None:
    @dataclass(frozen=True, repr=False)
    class Free(fo.Objective):
        def expression(self, model: fo.Model) -> cp.Expression:
            return cp.sum(model.tasks) + model.variable(lower=0)

    with pytest.raises(fo.errors.Unbounded, match=r"Free\(\) grows .* bound them by lower or upper"):
        fo.Policy(Free()).allocate(CLUSTER)


def test_prepared_policies_and_checks_take_variables() -> None:
    policy = fo.Policy(LeastTasks(), [Capped(3.0)])
    again = policy.prepare(CLUSTER).allocate(capacities=[100, 100, 100])
    assert again.objective == pytest.approx(100 / 48, rel=1e-6) and again.prices is None
    assert not fo.check(policy.allocate(CLUSTER), "pareto").ok


@dataclass(frozen=True, repr=False)
class Slowly(fo.Objective):
    """Grows without bound in two variables, along no ray at a constant rate."""

    def expression(self, model: fo.Model) -> cp.Expression:
        return cp.sum(cp.sqrt(model.variable(2, name="two"))) + cp.sum(cp.log(model.tasks))


def test_an_objective_that_grows_ever_more_slowly_is_refused_early_with_the_variables_to_bound() -> None:
    """No ray proves it unbounded: it took all solvers, and the error then failed on bounds of more than one entry."""
    with pytest.raises(fo.errors.NotCertified, match="give the variables 'two' lower and upper bounds") as error:
        fo.Policy(Slowly()).allocate(fo.Instance([[1, 2], [2, 1]], [4, 6]))
    assert "SCS" not in [t.solver for t in error.value.tried]
