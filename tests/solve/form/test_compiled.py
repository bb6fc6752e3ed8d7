"""Rows beside what CVXPY compiles: the same answers and dual values as if CVXPY had compiled all."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from fairopt.solve.form import solvers
from fairopt.solve.form.compiled import Compiled, Known, KnownRows, Left

RNG = np.random.default_rng(58)
USES = RNG.uniform(0.1, 1.0, (3, 6))  # of resources by users
SAME = np.array([[1.0, -1.0, 0, 0, 0, 0]])


def problem(kind: str) -> tuple[cp.Problem, Known]:
    """A program in six unknowns, with two constraints that are known as rows, and two that are not."""
    x, t = cp.Variable(6, nonneg=True), cp.Variable(name="t")
    within, same = x @ USES.T <= np.ones(3), SAME @ x == 0
    rows = [
        KnownRows(within, sparse.csr_array(USES), np.ones(3), equal=False),
        KnownRows(same, sparse.csr_array(SAME), np.zeros(1), equal=True),
    ]
    own = {
        "linear": (cp.min(x), [x[2] + x[3] <= 0.3]),
        "curved": (cp.sum(cp.log(x)), [cp.norm(x) <= 0.7]),
        "square": (-cp.sum_squares(x - 0.2), [x[4] == x[5]]),
        "apart": (t, [t <= 3]),
        "infeasible": (cp.min(x), [x[0] >= 100]),
        "unbounded": (t, [t >= 3]),
    }
    objective, further = own[kind]
    return cp.Problem(cp.Maximize(objective), [within, *further, same]), Known(x, rows)


def found(kind: str, solver: str, beside: bool) -> tuple[Any, Left]:
    """The status, the value of the unknowns, of others and of the dual variables, of one of the programs."""
    made, known = problem(kind)
    left = Left()
    attempt = solvers.run(made, solver, known=known if beside else None, left=left)
    duals = [c.dual_value for c in made.constraints]
    return (attempt.status, made.objective.value, [v.value for v in made.variables()], duals), left


@pytest.mark.parametrize("solver", ["CLARABEL", "HIGHS"])
@pytest.mark.parametrize("kind", ["linear", "curved", "square", "apart"])
def test_known_rows_change_no_answer(kind: str, solver: str) -> None:
    if solver == "HIGHS" and kind in ("curved", "square"):
        pytest.skip("HiGHS takes linear programs only")
    (status, value, _, duals), left = found(kind, solver, beside=True)
    (plain_status, plain, _, plain_duals), _ = found(kind, solver, beside=False)
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
    (_, value, *_), left = found(kind, solver, beside=True)
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
    (own, _, values, _), _ = found(kind, solver, beside=True)
    (plain, *_), _ = found(kind, solver, beside=False)
    assert own == plain
    assert status in own
    assert all(value is None for value in values)


def test_columns_of_unknowns_that_cvxpy_does_not_see() -> None:
    made, known = problem("apart")
    compiled = Compiled.of(made, "CLARABEL", {}, keep=False, known=known)
    ours = compiled.columns()[known.unknowns.id]
    assert len(ours) == 6
    assert set(ours.tolist()).isdisjoint(compiled.columns()[made.objective.expr.id].tolist())
    assert compiled.data["A"].shape == (len(compiled.data["b"]), len(compiled.data["c"]))


def test_what_is_left_is_of_one_problem() -> None:
    """A dual point of other constraints bounds another optimum."""
    made, known = problem("linear")
    left = Left()
    solvers.run(made, "HIGHS", known=known, left=left)
    assert left.is_of(made.objective.expr, made.constraints)
    assert not left.is_of(made.objective.expr, made.constraints[1:])
    assert not left.is_of(made.objective.expr + 1, made.constraints)
    assert not Left().is_of(made.objective.expr, made.constraints)
