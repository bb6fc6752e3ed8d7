"""Cones and rows written as data: the same answers and dual values as if CVXPY had compiled all."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import fairopt as fo
from fairopt.blocks.table_rows import table_rows
from fairopt.solve.form import solvers
from fairopt.solve.form.compiled import Compiled, Left, Posed

RNG = np.random.default_rng(58)
ROOM = np.array([1.0, 0.75, 0.5])
USES = RNG.uniform(0.1, 1.0, (3, 6))  # of resources by users
SAME = np.array([[1.0, -1.0, 0, 0, 0, 0]])


def problem(kind: str, tables: bool) -> Posed:
    """A program in six unknowns, with two constraints that are rows, of tables or not, and two others."""
    x, t = cp.Variable(6, nonneg=True), cp.Variable(name="t")
    within, same = x @ USES.T <= ROOM, SAME @ x == 0
    if tables:
        within, same = table_rows(x, USES, ROOM), table_rows(x, sparse.csr_array(SAME), np.zeros(1), equal=True)
    own = {
        "linear": (cp.min(x), [x[2] + x[3] <= 0.3]),
        "curved": (cp.sum(cp.log(x)), [cp.norm(x) <= 0.7]),
        "square": (-cp.sum_squares(x - 0.2), [x[4] == x[5]]),
        "apart": (t, [t <= 3]),
        "infeasible": (cp.min(x), [x[0] >= 100]),
        "unbounded": (t, [t >= 3]),
    }
    objective, further = own[kind]
    return Posed(cp.Maximize(objective), [within, *further, same])


def found(kind: str, solver: str, tables: bool) -> tuple[Any, Left]:
    """The status, the value of the unknowns, of others and of the dual variables, of one of the programs."""
    made = problem(kind, tables)
    left = Left()
    attempt = solvers.run(made, solver, left=left)
    duals = [c.dual_value for c in made.constraints]
    return (attempt.status, made.objective.value, [v.value for v in made.variables()], duals), left


@pytest.mark.parametrize("solver", ["CLARABEL", "HIGHS"])
@pytest.mark.parametrize("kind", ["linear", "curved", "square", "apart"])
def test_known_rows_change_no_answer(kind: str, solver: str) -> None:
    if solver == "HIGHS" and kind in ("curved", "square"):
        pytest.skip("HiGHS takes linear programs only")
    (status, value, _, duals), left = found(kind, solver, tables=True)
    (plain_status, plain, _, plain_duals), _ = found(kind, solver, tables=False)
    assert status == plain_status == "optimal"
    assert value == pytest.approx(plain, rel=1e-7, abs=1e-8)
    assert left.points is not None
    if kind == "curved":  # whose dual values are unique
        for dual, same in zip(duals, plain_duals, strict=True):
            np.testing.assert_allclose(dual, same, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("solver", ["CLARABEL", "HIGHS"])
@pytest.mark.parametrize("kind", ["linear", "apart"])
def test_the_points_left_have_the_same_value(kind: str, solver: str) -> None:
    """Primal and dual value are equal, and the dual point cancels all variables but those with bounds."""
    (_, value, *_), left = found(kind, solver, tables=True)
    assert left.compiled is not None and left.points is not None
    data, (x, y) = left.compiled.data, left.points
    assert -float(data["c"] @ x) - left.compiled.offset == pytest.approx(value, abs=1e-7)
    assert float(data["b"] @ y) - left.compiled.offset == pytest.approx(value, abs=1e-7)
    reduced = data["c"] + data["A"].T @ y
    assert reduced.min() >= -1e-7
    assert np.abs(reduced @ x) <= 1e-7


@pytest.mark.parametrize("solver", ["CLARABEL", "HIGHS"])
@pytest.mark.parametrize(("kind", "status"), [("infeasible", "infeasible"), ("unbounded", "unbounded")])
def test_statuses_without_an_answer(kind: str, status: str, solver: str) -> None:
    (own, _, values, _), _ = found(kind, solver, tables=True)
    (plain, *_), _ = found(kind, solver, tables=False)
    assert own == plain
    assert status in own
    assert all(value is None for value in values)


def test_columns_of_unknowns_of_tables_alone() -> None:
    made = problem("apart", tables=True)
    compiled, t = Compiled.of(made, "CLARABEL", {}), made.objective.expr
    (ours,) = (at for key, at in compiled.columns().items() if key != t.id)
    assert len(ours) == 6
    assert set(ours.tolist()).isdisjoint(compiled.columns()[t.id].tolist())
    assert compiled.data["A"].shape == (len(compiled.data["b"]), len(compiled.data["c"]))


CURVED = {
    "every cone": lambda x: [
        cp.SOC(x[:2] + 1, cp.vstack([x[2:4], x[4:]])),
        cp.SOC(x[:2] + 1, cp.vstack([x[2:4], x[4:]]).T, axis=1),
        cp.ExpCone(x[:2] - 3, np.ones(2), x[2:4]),
        cp.PowCone3D(x[:2], x[2:4], x[4:] - 0.1, [0.3, 0.6]),
        cp.sum(x**1.5) <= 2,
        cp.norm(x, 3) <= 1,
        x >= 0.01,
        x[0] == x[1] / 2,
    ],
    "bounds": lambda x: [x[0] + cp.Variable(bounds=[-0.25, 0.5]) + cp.Variable(nonpos=True) >= 0.1, cp.sum(x) <= 5],
    "matrices": lambda x: [cp.sum(cp.reshape(x, (2, 3), order="C"), axis=0) <= np.array([0.3, 0.5, 0.7])],
}


@pytest.mark.parametrize("kind", CURVED)
def test_data_and_dual_values_are_those_of_cvxpy(kind: str) -> None:
    """The same optimum, and for each constraint the same dual value, up to what solvers leave."""
    x = cp.Variable(6, nonneg=True)
    constraints = CURVED[kind](x)
    objective = cp.Maximize(cp.sum(cp.log(x + 0.1)) + x[3])
    whole = cp.Problem(objective, constraints)
    assert "param_prob" not in Compiled.of(whole, "CLARABEL", {}).data  # not by CVXPY's chain
    whole.solve("CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    before = x.value, [np.hstack([np.ravel(v.value) for v in c.dual_variables]) for c in constraints]
    assert solvers.run(whole, "CLARABEL").status == "optimal"
    np.testing.assert_allclose(x.value, before[0], atol=1e-5)
    for c, dual in zip(constraints, before[1], strict=True):
        np.testing.assert_allclose(np.hstack([np.ravel(v.value) for v in c.dual_variables]), dual, atol=1e-4)


@pytest.mark.parametrize(
    ("solver", "other"),
    [
        ("CLARABEL", lambda: cp.Variable((2, 2), PSD=True)[0, 1]),
        ("CLARABEL", lambda: cp.lambda_max(cp.Variable((2, 2), symmetric=True))),
        ("CLARABEL", lambda: cp.Parameter(value=3.0) * cp.Variable()),
        ("HIGHS", lambda: cp.Variable(boolean=True)),
    ],
)
def test_other_kinds_go_through_cvxpy(solver: str, other: Any) -> None:
    made = cp.Problem(cp.Minimize(cp.Variable(name="t")), [cp.Variable() >= other()])
    assert "param_prob" in Compiled.of(made, solver, {}).data


def test_a_constraint_given_twice_is_charged_as_one() -> None:
    @dataclass(frozen=True)
    class Twice(fo.Constraint):
        def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
            near, even = cp.norm(model.tasks) <= 2, model.tasks[0] <= 3 * model.tasks[1]
            return {"near": near, "as near": near, "even": even, "as even": even}

    @dataclass(frozen=True, repr=False)
    class Own(fo.Objective):
        def expression(self, model: fo.Model) -> cp.Expression:
            return cp.sum(cp.log(1 + model.tasks))

    answer = fo.Policy(Own(), [Twice()]).allocate(fo.Instance([[1, 2], [2, 1]], [6, 6]))
    assert [t.solver for t in answer.certificate.tried] == ["CLARABEL"]
    assert answer.tasks == pytest.approx(np.sqrt([2, 2]), rel=1e-5)


def test_a_table_of_rows_is_a_constraint_of_cvxpy() -> None:
    """Solved by CVXPY, copied and pickled, it is the constraint with these coefficients."""
    x = cp.Variable(6, nonneg=True)
    rows = table_rows(x, USES, ROOM)
    assert rows.is_dcp()
    assert rows.shape == (3,)
    assert str(pickle.loads(pickle.dumps(rows)).args[1]) == str(rows.args[1])
    problem = cp.Problem(cp.Maximize(cp.min(x)), [rows])
    problem.solve("CLARABEL")
    assert x.value == pytest.approx(np.full(6, (ROOM / USES.sum(axis=1)).min()), rel=1e-6)
    assert rows.dual_value @ ROOM == pytest.approx(problem.value, rel=1e-6)
    assert rows.violation() == pytest.approx(0, abs=1e-6)
    assert str(table_rows(x, USES, -ROOM).written).count("<=") == 1


def test_what_is_left_is_of_one_problem() -> None:
    """A dual point of other constraints bounds another optimum."""
    made, left = problem("linear", tables=True), Left()
    solvers.run(made, "HIGHS", left=left)
    assert left.is_of(made.objective.expr, made.constraints)
    assert not left.is_of(made.objective.expr, made.constraints[1:])
    assert not left.is_of(made.objective.expr + 1, made.constraints)
    assert not Left().is_of(made.objective.expr, made.constraints)


@pytest.mark.parametrize(
    "expression",
    [
        lambda x: cp.sum(cp.sqrt(x)) - 0.1 * cp.sum_largest(x, 6),
        lambda x: cp.sum(cp.sqrt(x)) + 0.1 * cp.sum_smallest(x, 6),
        lambda x: cp.sum(cp.entr(x)) - cp.cvar(-x, 0.75),
    ],
)
@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
def test_a_second_compilation_does_not_read_values_that_the_first_solution_left(expression: Any, solver: str) -> None:
    """CVXPY's form of the largest entries fails at values of all six, and of one and a half."""
    x = cp.Variable(6, nonneg=True)
    posed = Posed(cp.Maximize(expression(x)), [x <= 1])
    first = Compiled.of(posed, solver, {})
    x.value = np.linspace(0.1, 0.6, 6)
    again = Compiled.of(posed, solver, {})
    np.testing.assert_array_equal(first.data["A"].toarray(), again.data["A"].toarray())
    np.testing.assert_array_equal(x.value, np.linspace(0.1, 0.6, 6))


def test_the_largest_of_all_entries_are_their_sum() -> None:
    x = cp.Variable(3, nonneg=True)
    compiled = Compiled.of(Posed(cp.Maximize(-cp.sum_largest(x, 3)), [x >= 1]), "CLARABEL", {})
    assert compiled.data["A"].shape[1] == 3 and compiled.data["c"].tolist() == [1.0, 1.0, 1.0]
