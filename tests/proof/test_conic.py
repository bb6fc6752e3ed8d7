"""Bounds by conic duality: points of dual cones, and solvers in subprocesses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.proof import conic
from fairopt.proof.evidence import solved
from fairopt.proof.written_rows import is_as_asked
from fairopt.runtime.clock import Clock
from fairopt.solve.form import solvers
from fairopt.solve.form.compiled import Compiled, CompiledHere, Left, Posed, matrix_of, triangle
from fairopt.solve.form.program import ConeModel, Program

CONES: Any = SimpleNamespace(zero=1, nonneg=1, soc=[3], psd=[], exp=1, p3d=[0.25])


@np.errstate(over="ignore")
def is_dual(y: np.ndarray) -> bool:
    """Whether a point is in the dual of `CONES`, but for rounding."""
    _, sign, t, a, b, u, v, w, p, q, r = y.tolist()
    exponential = (u < 0 and w >= -u * np.exp(v / u - 1) * (1 - 1e-12)) or (u == 0 and v >= 0 and w >= 0)
    power = p >= 0 and q >= 0 and (p / 0.25) ** 0.25 * (q / 0.75) ** 0.75 >= abs(r) * (1 - 1e-12)
    return sign >= 0 and t >= np.hypot(a, b) * (1 - 1e-12) and exponential and power


@pytest.mark.parametrize("last", [[0.1, 0.3, 0.2], [0.25, 0.75, -1.0], [0.0, 0.5, 0.0]])
def test_a_point_of_the_dual_cone_stays_where_it_is(last: list[float]) -> None:
    y = np.array([-3.0, 0.5, 5.0, 3.0, 4.0, -1.0, 1.0, 1.0, *last])
    assert is_dual(y) and np.array_equal(conic.into_dual_cone(y, CONES), y)


def test_other_points_are_moved_into_the_dual_cone() -> None:
    for y in np.random.default_rng(0).normal(size=(200, 11)):
        moved = conic.into_dual_cone(y, CONES)
        assert is_dual(moved)
        assert moved[[0, 3, 4, 10]].tolist() == y[[0, 3, 4, 10]].tolist()


def test_a_solver_that_may_overrun_a_time_limit_runs_in_a_subprocess(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(z=np.ones(2), x=np.zeros(2))
    monkeypatch.setattr(conic.solvers, "may_overrun", lambda *_: True)
    monkeypatch.setattr(conic.solvers, "solve_elsewhere", lambda solver, until, *given: found)
    compiled = SimpleNamespace(data={}, entries=2, solve=None)
    x, z = Clock(60).run(lambda: conic.points_of(compiled))
    assert x is found.x and z is found.z


@pytest.mark.parametrize(
    ("excess", "assumed", "expected"),
    [(-0.5, "a range", (np.inf, "")), (-1e-9, "a range", (0.0, "a range")), (-0.5, "", (0.0, ""))],
)
def test_a_bound_below_what_is_judged_shows_that_its_assumption_fails(monkeypatch, excess, assumed, expected):
    """Such a bound certified AlphaFair(10) at shares of 1e-9: variables of CVXPY were 1e80 times what it assumed."""
    program = Program(fo.Instance([[1], [1]], [4]), fo.Policy(lambda m: cp.sum(cp.sqrt(m.tasks))).objective, ())
    cone = ConeModel(program)
    cp.Problem(cp.Maximize(cone.maximand[0]), cone.all_constraints).solve("CLARABEL")
    evidence, tasks = solved.Solved.of(cone), cone.tasks()
    at, none = float(cone.maximand[0].value), np.zeros(0)
    found = conic.ConicBound(at + excess, assumed, None, none, none.astype(int))
    monkeypatch.setattr(conic, "conic_bound", lambda *_: found)
    gap, why = solved._conic_gap(program, evidence, None, tasks, program.point(tasks))
    assert (gap, why) == (pytest.approx(expected[0], abs=1e-12), expected[1])  # the rounding of the value is charged


def test_a_problem_whose_point_exceeds_a_bound_under_an_assumption_is_not_certified():
    """AlphaFair(10) at 1e-13 tasks of both users, where the first could run half: a value of -1e116 instead of -114."""
    policy, instance = fo.Policy(fo.AlphaFair(10)), fo.Instance([[1], [1e13]], [1])
    problem = policy.problem(instance)
    for variable in problem.variables():
        variable.value = np.full(variable.shape, 0.999)
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(problem, instance)


@pytest.mark.parametrize("kind", ["linear", "logarithm", "norm", "power"])
def test_a_bound_that_is_enough_is_one_whatever_the_dual_point(kind: str) -> None:
    """A solver's point proves the optimum before it is balanced, and any other point a bound above it."""
    program = Program(fo.Instance([[2, 3], [2, 1], [1, 1]], [6, 4]), fo.Total(), ())
    model, rng = ConeModel(program), np.random.default_rng(3)
    x = model.unknowns
    form = {
        "linear": cp.sum(cp.minimum(x, 0.5 + x / 2)),
        "logarithm": cp.sum(cp.log(x + 0.1)),
        "norm": cp.sum(x) - cp.norm(x),
        "power": cp.sum(cp.power(x, 0.3, approx=False)),
    }[kind]
    problem = Posed(cp.Maximize(form), model.all_constraints)
    solvers.run(problem, "CLARABEL", left=model.left)
    assert model.left.points is not None
    best, top = float(form.value), program.most[program.pairs.user] / model.scale
    point, y = model.left.points
    for dual in [y, *(y * rng.uniform(0.5, 2, len(y)) + rng.normal(0, 0.1, len(y)) for _ in range(20))]:
        model.left.points = point, dual
        found = conic.conic_bound(problem, x, top, model.left, lambda _: True)
        assert found is not None
        assert found.assumed or found.value >= best - 1e-9
        assert dual is not y or (not found.assumed and found.value == pytest.approx(best, abs=1e-8))


def test_what_a_solver_left_of_unknowns_of_one_capacity_is_charged_at_the_capacity():
    """Of each user a price is 1e-3 short. Alone any could run all, which would be 1 more; together they run 1 task."""
    n, unknowns = 1000, cp.Variable(1000, nonneg=True)
    problem = Posed(cp.Maximize(cp.sum(unknowns)), [np.ones((1, n)) @ unknowns <= 1])
    left = Left()
    left.compiled = Compiled.of(problem, "CLARABEL", {"use_quad_obj": False})
    assert isinstance(left.compiled, CompiledHere)
    y = np.zeros(n + 1)
    y[left.compiled.rows[problem.constraints[0].id]] = 1 - 1e-3
    left.points = np.full(n, 1 / n), y
    found = conic.conic_bound(problem, unknowns, np.ones(n), left)
    assert found is not None
    assert 1 <= found.value <= 1 + 1e-9


# -- matrices


def test_rows_of_matrices_have_their_inner_products() -> None:
    rng = np.random.default_rng(0)
    a, b = (one + one.T for one in rng.normal(size=(2, 4, 4)))
    order, factors = triangle(4)
    rows = [np.bincount(order, factors * one.ravel(order="F")) for one in (a, b)]
    assert rows[0] @ rows[1] == pytest.approx(np.trace(a @ b))
    assert np.allclose(matrix_of(rows[0], 4), a)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_a_moved_matrix_is_semidefinite_beyond_rounding(n: int) -> None:
    rng, dims = np.random.default_rng(n), SimpleNamespace(zero=0, nonneg=0, soc=[], psd=[n], exp=0, p3d=[])
    for rank in {1, n // 2, n} - {0}:
        root = rng.normal(size=(n, rank))
        order, factors = triangle(n)
        for matrix in (root @ root.T, root @ root.T - 1e-9 * np.eye(n), rng.normal(size=(n, n))):
            rows = np.bincount(order, factors * ((matrix + matrix.T) / 2).ravel(order="F"))
            moved = conic.into_dual_cone(rows, dims)
            values = np.linalg.eigvalsh(matrix_of(moved, n))
            assert values[0] > 4 * n * np.finfo(float).eps * values[-1]
            assert np.array_equal(conic.into_dual_cone(moved, dims), moved)


def test_dual_values_of_matrix_constraints_are_those_of_cvxpy() -> None:
    x = cp.Variable(2)
    condition = cp.bmat([[x[0], 1.0], [1.0, x[1]]]) >> 0
    problem = cp.Problem(cp.Minimize(x[0] + 4 * x[1]), [condition])
    problem.solve(solver="CLARABEL")
    expected = np.array(condition.dual_value)
    compiled = CompiledHere.made(problem, "CLARABEL", {})
    assert compiled is not None and is_as_asked(compiled)
    compiled.unpack(compiled.solve(compiled.data, False, {}))
    assert np.allclose(condition.dual_value, expected, atol=1e-6) and np.allclose(
        expected, [[1, -2], [-2, 4]], atol=1e-5
    )


@pytest.mark.parametrize(
    "objective", [fo.Total(fo.Tasks()), fo.AlphaFair(1), fo.AlphaFair(3), fo.MaxMin(), fo.Leximin()]
)
@pytest.mark.parametrize("kind", ["eigenvalue", "matrix"])
def test_a_policy_with_a_bound_on_a_matrix_is_certified_as_with_bounds_on_its_diagonal(objective, kind) -> None:
    cluster = fo.Instance([[4, 1], [1, 3]], [20, 20])

    def below(model: Any) -> Any:
        matrix = cp.diag(model.tasks)
        return {"below": cp.lambda_max(matrix) <= 3 if kind == "eigenvalue" else matrix << 3 * np.eye(2)}

    answer = fo.Policy(objective, [below]).allocate(cluster)
    same = fo.Policy(objective, [fo.MaxTasks(3)]).allocate(cluster)
    assert answer.certificate.ok and answer.objective == pytest.approx(same.objective, rel=2e-6)


def test_a_problem_with_a_matrix_that_binds_is_certified() -> None:
    cluster = fo.Instance([[4, 1], [1, 3]], [20, 20])
    policy = fo.Policy(fo.AlphaFair(1), [lambda model: {"below": cp.lambda_max(cp.diag(model.tasks)) <= 3}])
    problem = policy.problem(cluster)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    assert policy.certify(problem, cluster).certificate.ok
