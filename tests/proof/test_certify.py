"""Certificates of CVXPY problems: known optima, spoilt answers, infeasible and unbounded problems, and their files."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import exact_lp

import fairopt as fo
from fairopt.errors import InvalidProblem
from fairopt.proof.stated import Stated
from fairopt.runtime.clock import Late
from fairopt.solve.form.compiled import CompiledHere

RNG = np.random.default_rng(11)
ROWS, RIGHT = RNG.normal(size=(12, 4)), RNG.normal(size=12)
MATRIX = RNG.normal(size=(4, 4))
MATRIX = MATRIX + MATRIX.T
LARGEST = float(np.linalg.eigvalsh(MATRIX)[-1])


def variable(*shape: int, **attributes: Any) -> cp.Variable:
    return cp.Variable(shape, name="x", **attributes)


def minimised(expression: Any, *constraints: Any) -> cp.Problem:
    return cp.Problem(cp.Minimize(expression), list(constraints))


def maximised(expression: Any, *constraints: Any) -> cp.Problem:
    return cp.Problem(cp.Maximize(expression), list(constraints))


def with_parameter() -> cp.Problem:
    price, x = cp.Parameter(name="price", value=2.0), variable()
    return minimised(price * x, x >= price)


def of(make: Callable[[Any], cp.Problem], *shape: int, **attributes: Any) -> Callable[[], cp.Problem]:
    """A problem of a variable."""
    return lambda: make(variable(*shape, **attributes))


KNOWN: dict[str, tuple[Callable[[], cp.Problem], float]] = {
    "linear": (of(lambda x: maximised(3 * x[0] + 2 * x[1], x[0] + x[1] <= 4, x[0] + 3 * x[1] <= 6, x >= 0), 2), 12.0),
    "equations": (of(lambda x: minimised(x[0] - x[1], x == [1, 3]), 2), -2.0),
    "quadratic": (of(lambda x: minimised(cp.sum_squares(x - [1, 2]), cp.sum(x) == 1), 2), 2.0),
    "norm": (of(lambda x: minimised(cp.norm(x), cp.sum(x) == 4), 4), 2.0),
    "least squares": (
        of(lambda x: minimised(cp.sum_squares(ROWS @ x - RIGHT)), 4),
        float(np.linalg.lstsq(ROWS, RIGHT)[1][0]),
    ),
    "lasso of one column": (of(lambda x: minimised(0.5 * cp.square(x - 3) + cp.abs(x))), 2.5),
    "logistic": (of(lambda x: minimised(cp.logistic(x) + cp.logistic(-x))), 2 * np.log(2)),
    "entropy": (of(lambda x: maximised(cp.sum(cp.entr(x)), cp.sum(x) == 1), 5), np.log(5)),
    "logarithms": (of(lambda x: maximised(cp.sum(cp.log(x)), cp.sum(x) <= 1), 4), -4 * np.log(4)),
    "geometric mean": (of(lambda x: maximised(cp.geo_mean(x), x[0] + 2 * x[1] <= 4), 2), np.sqrt(2)),
    "power": (of(lambda x: maximised(cp.sum(cp.power(x, 0.25, approx=False)), cp.sum(x) <= 32), 2), 4.0),
    "portfolio": (of(lambda x: maximised(x[0] - cp.quad_form(x, np.eye(2)) / 2, cp.sum(x) == 1, x >= 0), 2), 0.5),
    "largest eigenvalue": (of(lambda x: minimised(x, x * np.eye(4) - MATRIX >> 0)), LARGEST),
    "matrix": (of(lambda x: maximised(cp.trace(MATRIX @ x), cp.trace(x) == 1), 4, 4, PSD=True), LARGEST),
    "negative matrix": (of(lambda x: minimised(cp.trace(MATRIX @ x), cp.trace(x) == -1), 4, 4, NSD=True), -LARGEST),
    "nuclear norm": (
        of(lambda x: minimised(cp.norm(x - MATRIX, "nuc")), 4, 4, symmetric=True),
        0.0,
    ),
    "symmetric": (of(lambda x: maximised(x[0, 1], x[1, 0] <= 3), 2, 2, symmetric=True), 3.0),
    "diagonal": (of(lambda x: maximised(cp.sum(x), cp.diag(x) <= 2), 3, 3, diag=True), 6.0),
    "sparse": (of(lambda x: maximised(cp.sum(x), x <= 2), 3, 3, sparsity=[(0, 1), (2, 2)]), 4.0),
    "signs and bounds": (of(lambda x: minimised(cp.sum(x), x[0, 0] >= 1), 2, 3, bounds=[-1, 2]), -4.0),
    "nonnegative": (of(lambda x: minimised(2 * x + 1, x >= 0.5), nonneg=True), 2.0),
    "parameter": (with_parameter, 4.0),
    "no objective": (of(lambda x: minimised(0, x >= 1), 2), 0.0),
    "no constraints": (of(lambda x: minimised(cp.square(x - 1) + 5)), 5.0),
    "no variables": (lambda: minimised(3), 3.0),
    "whole numbers": (of(lambda x: maximised([3, 4, 5] @ x, [2, 3, 4] @ x <= 5), 3, boolean=True), 7.0),
    "a large constant": (of(lambda x: minimised(cp.square(x) + 1e6, x >= 1)), 1e6 + 1),
}


def solved(name: str) -> tuple[cp.Problem, float]:
    make, optimum = KNOWN[name]
    problem = make()
    problem.solve(solver="HIGHS" if name == "whole numbers" else "CLARABEL")
    return problem, optimum


@pytest.mark.parametrize("name", KNOWN)
def test_an_optimum_is_certified_by_a_bound_on_its_right_side(name: str) -> None:
    problem, optimum = solved(name)
    proof = fo.certify(problem)
    unit = max(abs(optimum), 1.0)
    sign = -1.0 if proof.maximised else 1.0
    assert proof.ok or optimum == 0.0, str(proof)
    assert sign * (proof.bound - optimum) <= 1e-9 * unit
    assert proof.bound == pytest.approx(optimum, rel=1e-6, abs=1e-6)
    assert proof.value == pytest.approx(optimum, rel=1e-5, abs=1e-5)
    assert proof.violation <= 1e-6 and not proof.infeasible and not proof.unbounded


def plain(one: cp.Variable) -> np.ndarray:
    return np.array(one._value.toarray() if hasattr(one._value, "toarray") else one._value)


@pytest.mark.parametrize("name", KNOWN)
def test_certifying_changes_nothing_of_the_problem(name: str) -> None:
    problem, _ = solved(name)
    held = [*problem.variables(), *(dual for one in problem.constraints for dual in one.dual_variables)]
    before = [plain(one) for one in held]
    first, again = fo.certify(problem), fo.certify(problem)
    assert all(np.array_equal(plain(one), value) for one, value in zip(held, before, strict=True))
    assert (first.bound, first.gap, first.ok) == (again.bound, again.gap, again.ok)


@pytest.mark.parametrize(
    "name", ["linear", "equations", "largest eigenvalue", "parameter", "signs and bounds", "matrix"]
)
def test_the_users_own_dual_values_suffice_where_there_are_no_other_rows(name: str) -> None:
    assert not fo.certify(solved(name)[0]).solved_again


@pytest.mark.parametrize("name", ["quadratic", "norm", "logistic", "power", "portfolio", "least squares"])
def test_multipliers_of_rows_that_cvxpy_adds_follow_from_the_users_values(name: str) -> None:
    proof = fo.certify(solved(name)[0])
    assert proof.ok and not proof.solved_again


def test_at_kinks_the_multipliers_of_both_sides_are_found() -> None:
    x = variable(4)
    problem = minimised(cp.sum_squares(ROWS @ x - RIGHT) + 6 * cp.norm1(x))
    problem.solve(solver="CLARABEL")
    assert (np.abs(x.value) < 1e-4).any()
    proof = fo.certify(problem)
    assert proof.ok and not proof.solved_again


def test_without_dual_values_another_solve_is_taken() -> None:
    problem, _ = solved("norm")
    problem.constraints[0].dual_variables[0].save_value(None)
    assert fo.certify(problem).solved_again


def test_dual_values_of_cones_are_read_in_the_order_of_rows() -> None:
    x, t = variable(6), cp.Variable(2, name="t")
    rows = [cp.SOC(t, cp.reshape(ROWS[:6, :1] + cp.reshape(x, (6, 1), order="F"), (3, 2), order="F")), x[:3] == 2]
    rows += [cp.ExpCone(x[3:4], cp.Constant([1.0]), cp.Variable(1, name="w")), x[3] >= 1]
    rows += [cp.PowCone3D(t[:1], t[1:], x[4:5], [0.3]), x[4] >= 1, cp.bmat([[t[0], x[5]], [x[5], 1]]) >> 0, x[5] >= 2]
    problem = minimised(cp.sum(t) + rows[2].args[2][0], *rows)
    problem.solve(solver="CLARABEL")
    proof = fo.certify(problem)
    assert proof.ok and not proof.solved_again, str(proof)


def test_a_row_that_is_stated_twice_is_one() -> None:
    x = variable()
    row = x >= 1
    problem = minimised(x, row, row)
    problem.solve(solver="CLARABEL")
    assert fo.certify(problem).ok


# -- what is not optimal, or not feasible


FLAT = ("no variables", "no objective", "logistic", "diagonal", "sparse")  # or values that cannot be moved like this


@pytest.mark.parametrize("name", [name for name in KNOWN if name not in FLAT])
@pytest.mark.parametrize("size", [1e-3, 1.0])
def test_an_answer_that_is_moved_away_is_not_certified(name: str, size: float) -> None:
    problem, optimum = solved(name)
    for one in problem.variables():
        one.save_value(np.asarray(one.value) + size * (1.0 + np.abs(one.value)))
    proof = fo.certify(problem)
    assert not proof.ok
    assert proof.bound == pytest.approx(optimum, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("factor", [-1.0, 0.0, 1e-3, 1e6, np.nan])
@pytest.mark.parametrize("name", KNOWN)
def test_no_dual_values_make_a_bound_on_the_wrong_side(name: str, factor: float) -> None:
    problem, optimum = solved(name)
    for condition in problem.constraints:
        for dual in condition.dual_variables:
            if dual.value is not None:
                dual.save_value(np.asarray(dual.value) * factor)
    proof = fo.certify(problem)
    assert (-1 if proof.maximised else 1) * (proof.bound - optimum) <= 1e-9 * max(abs(optimum), 1.0)
    assert proof.ok or optimum == 0.0


numbers = st.integers(-4, 4)


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[int], list[list[int]], list[int]]:
    """The objective, rows and right sides of bounded linear programs with 0 feasible."""
    n, m = draw(st.integers(1, 4)), draw(st.integers(0, 4))
    rows = [draw(st.lists(numbers, min_size=n, max_size=n)) for _ in range(m)]
    right = draw(st.lists(st.integers(0, 9), min_size=m, max_size=m))
    return draw(st.lists(numbers, min_size=n, max_size=n)), [*rows, [1] * n], [*right, 10]


@given(programs(), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_bounds_are_above_the_optimum_in_fractions_whatever_is_left_in_the_problem(program: Any, seed: int) -> None:
    worth, rows, right = program
    optimum = exact_lp.maximise(worth, list(zip(rows, right, strict=True))).value
    x = variable(len(worth), nonneg=True)
    row = np.array(rows) @ x <= np.array(right)
    problem = maximised(np.array(worth) @ x, row)
    rng = np.random.default_rng(seed)
    x.value = rng.uniform(0, 3, len(worth)) * rng.choice([0.0, 1.0])
    if rng.integers(2):
        row.dual_variables[0].save_value(rng.normal(size=len(right)))
    proof = fo.certify(problem)
    assert Fraction(proof.bound) >= optimum and not proof.infeasible and not proof.unbounded
    value = sum(Fraction(w) * Fraction(v) for w, v in zip(worth, x.value.tolist(), strict=True))
    assert not proof.ok or abs(value - optimum) <= max(abs(optimum), abs(value)) * Fraction(2, 10**6)


def test_a_loose_solver_is_refused_and_its_gap_shown() -> None:
    x = variable(4)
    problem = minimised(cp.sum_squares(ROWS @ x - RIGHT) + cp.norm1(x))
    problem.solve(solver="SCS", eps_abs=1e-2, eps_rel=1e-2, max_iters=10)
    proof = fo.certify(problem)
    assert not proof.ok and proof.gap > 1e-6 and f"gap {proof.gap:.1e}" in str(proof)
    assert str(proof).startswith("NOT certified") and "SCS said" in str(proof)


def test_an_answer_that_breaks_rows_is_better_than_the_bound_and_this_is_said() -> None:
    problem, _ = solved("linear")
    problem.variables()[0].value = [4.0 + 1e-5, 0.0]
    proof = fo.certify(problem)
    assert not proof.ok and proof.value > proof.bound and proof.gap == pytest.approx(2.5e-6, rel=0.01)
    assert proof.violation == pytest.approx(2.5e-6, rel=0.01) and "one-sided" in str(proof)
    assert proof.violations[0][0].startswith("constraints[0] (x[0] + x[1] <= 4.0)")


def test_violations_have_the_labels_of_constraints() -> None:
    x = variable(2)
    problem = minimised(cp.sum(x), (cp.sum(x) >= 1).set_label("demand"), x[0] >= 0)
    x.value = [0.0, 0.5]
    proof = fo.certify(problem)
    assert dict(proof.violations) == {"demand": pytest.approx(0.5)}


def test_constraints_and_variables_of_one_name_are_told_apart() -> None:
    x, y = (cp.Variable(name="x", nonneg=True) for _ in range(2))
    problem = minimised(x + y, (x >= 2).set_label("floor"), (y >= 1).set_label("floor"))
    x.save_value(np.array(-1.0))
    y.save_value(np.array(-0.5))
    found = dict(fo.certify(problem).violations)
    bounds = {"bounds of x, variables()[0]", "bounds of x, variables()[1]"}
    assert set(found) == {"floor", "floor, constraints[1]"} | bounds
    assert found["floor"] == pytest.approx(1.5) and found["floor, constraints[1]"] == pytest.approx(1.5)


@pytest.mark.parametrize("label", ["bounds of x", "free entries of x", "x is integer"])
def test_a_label_that_is_a_name_of_another_check_does_not_hide_a_broken_row(label: str) -> None:
    x = variable(2, 2, symmetric=True, integer=True)
    problem = minimised(0 * x[0, 0], (x >= 1).set_label(label))
    x.value = np.zeros((2, 2))
    proof = fo.certify(problem)
    assert not proof.ok and dict(proof.violations) == {f"{label}, constraints[0]": pytest.approx(1.0)}


def test_a_variable_named_as_another_one_is_called_does_not_hide_a_broken_bound() -> None:
    three = [cp.Variable(name=name) for name in ("x", "x", "x, variables()[1]")]
    problem = minimised(0 * sum(three))
    for one, value in zip(three, (0.0, -5.0, 0.0), strict=True):
        one.value = value
    proof = fo.certify(problem, limits=dict.fromkeys(three, (0.0, 10.0)))
    assert not proof.ok and [by for _, by in proof.violations] == [0.5]


def test_limits_that_leave_a_variable_no_number_are_refused_in_words() -> None:
    x = variable(nonneg=True)
    for pair in ((-2.0, -1.0), (np.inf, np.inf), (-np.inf, -np.inf)):
        with pytest.raises(InvalidProblem, match="limits of 'x' leave no number"):
            fo.certify(minimised(x), limits={x: pair})


def test_a_file_has_the_parameters_and_limits_that_were_certified(tmp_path: Path) -> None:
    price, x = cp.Parameter(name="price", value=2.0), variable(bounds=[0, 5])
    problem = minimised(price * x, x >= price)
    x.value = 2.0
    proof = fo.certify(problem, limits={x: (-1.0, 3.0)})
    price.value, x.value = 4.0, 4.0
    path = proof.save(tmp_path / "proof.json")
    text = json.loads(path.read_text())["source"]["text"]
    assert fo.verify(path).ok and "with price = 2" in text and "with x from 0.0 to 3.0" in text


def test_bounds_of_variables_take_part_in_proofs_with_the_weight_that_adds_up(tmp_path: Path) -> None:
    x, y = variable(bounds=[0, 5]), cp.Variable(name="y")
    proof = fo.certify(minimised(x, (x + y >= 10).set_label("demand"), (y <= 1).set_label("cap")))
    assert proof.infeasible and dict(proof.weights) == pytest.approx({"demand": 1, "cap": 1, "bounds of x": 1})
    assert "bounds of x, demand, cap take part" in str(fo.verify(proof.save(tmp_path / "proof.json")))
    none = fo.certify(minimised(variable(nonneg=True, bounds=[-2, -1])))
    assert none.infeasible and fo.verify(none.save(tmp_path / "none.json")).ok


def test_rows_that_only_touch_are_not_said_to_exclude_each_other() -> None:
    x = variable()
    rows = (-(2.0**-28) * x >= 3 * 2.0**-28, 2.0**17 * x >= -3 * 2.0**17, -2 * x == 4, -2 * x >= 8)
    proof = fo.certify(minimised(0.0, *rows))
    named = {int(name[len("constraints[")]) for name, _ in proof.weights}
    assert proof.infeasible and ({0, 2} <= named or {1, 3} <= named or {2, 3} <= named)


def test_rows_that_take_part_without_a_name_are_said(tmp_path: Path) -> None:
    proof = fo.certify(minimised(x := variable(nonneg=True), (cp.exp(x) <= 0.5).set_label("small")))
    assert proof.infeasible
    statement = str(fo.verify(proof.save(tmp_path / "proof.json")))
    assert "bounds of x, small take part, beside rows without a name" in statement


def test_a_label_that_is_a_place_does_not_take_the_place_of_another_row() -> None:
    x = variable()
    rows = [(x >= 1).set_label("constraints[1]"), x >= 1, (x <= 0).set_label("constraints[1], constraints[0]")]
    names = {name for name in Stated.of(minimised(x, *rows), None).names.values()}
    assert len(names) == 3
    proof = fo.certify(minimised(x, (x >= 1).set_label("bounds of x"), x <= 0))
    assert proof.infeasible and {name.split(" (")[0] for name, _ in proof.weights} == {
        "bounds of x, constraints[0]",
        "constraints[1]",
    }


@pytest.mark.parametrize(
    ("attributes", "value", "name"),
    [
        ({"nonneg": True}, [[-1.0, 1.0], [1.0, 1.0]], "bounds of x"),
        ({"bounds": [0, 1]}, [[2.0, 1.0], [1.0, 1.0]], "bounds of x"),
        ({"symmetric": True}, [[1.0, 2.0], [1.0, 1.0]], "free entries of x"),
        ({"diag": True}, [[1.0, 1.0], [0.0, 1.0]], "free entries of x"),
        ({"PSD": True}, [[1.0, 2.0], [2.0, 1.0]], "x is PSD"),
        ({"NSD": True}, [[-1.0, 2.0], [2.0, -1.0]], "x is NSD"),
        ({"integer": True}, [[1.0, 2.5], [2.0, 1.0]], "x is integer"),
        ({"boolean": True}, [[1.0, 0.5], [0.0, 1.0]], "x is boolean"),
    ],
)
def test_attributes_of_variables_are_constraints(attributes: Any, value: Any, name: str) -> None:
    x = variable(2, 2, **attributes)
    problem = minimised(cp.sum(x), x >= -9, x <= 9)
    x.save_value(np.array(value))
    proof = fo.certify(problem)
    assert name in dict(proof.violations) and proof.violation >= 0.1 and not proof.ok


@pytest.mark.parametrize(
    ("condition", "off"),
    [
        (lambda x: cp.SOC(x[0], x[1:]), lambda v: np.hypot(v[1], v[2]) - v[0]),
        (lambda x: cp.ExpCone(x[0], x[1], x[2]), lambda v: v[1] * np.exp(v[0] / v[1]) - v[2]),
        (lambda x: cp.PowCone3D(x[0], x[1], x[2], 0.5), lambda v: abs(v[2]) - np.sqrt(v[0] * v[1])),
        (
            lambda x: cp.bmat([[x[0], x[2]], [x[2], x[1]]]) >> 0,
            lambda v: -np.linalg.eigvalsh([[v[0], v[2]], [v[2], v[1]]])[0],
        ),
    ],
    ids=["second-order", "exponential", "power", "matrix"],
)
def test_cones_are_measured_without_a_solver(condition: Any, off: Any) -> None:
    x = variable(3)
    problem = minimised(0, condition(x), x <= 9, x >= -9)
    for value in ([1.0, 2.0, 3.0], [1.0, 1.5, 2.0]):
        x.value = value
        beyond = max(float(off(value)), 0.0)
        violation = fo.certify(problem).violation
        assert (violation > 0) == (beyond > 1e-12) and violation <= beyond + 1e-12


# -- ranges


def test_a_regression_speaks_of_a_radius_and_limits_make_its_bound_absolute() -> None:
    problem, _ = solved("least squares")
    proof = fo.certify(problem)
    assert proof.ok and proof.assumed == "'x' within 1000 times the size at the answer (at least 1)"
    assert "among points with 'x' within 1000 times" in str(proof)
    absolute = fo.certify(problem, limits={problem.variables()[0]: (-100, 100)})
    assert absolute.ok and absolute.assumed == ""


def test_values_at_most_that_of_the_answer_give_ranges() -> None:
    x = variable(4)
    problem = minimised(cp.sum_squares(ROWS @ x - RIGHT) + cp.norm1(x))
    problem.solve(solver="CLARABEL")
    proof = fo.certify(problem)
    assert proof.ok and proof.assumed == ""


def test_limits_are_constraints() -> None:
    problem, _ = solved("linear")
    x = problem.variables()[0]
    proof = fo.certify(problem, limits={x: ([0, 0], [2, 1])})
    assert not proof.ok and proof.bound == pytest.approx(8.0) and "bounds of x" in dict(proof.violations)


def test_a_bound_of_the_relaxation_says_so() -> None:
    x = variable(3, integer=True)
    problem = maximised(cp.sum(x), 2 * x <= 3, x >= 0)
    problem.solve(solver="HIGHS")
    proof = fo.certify(problem)
    assert not proof.ok and proof.relaxed and proof.bound == pytest.approx(4.5) and proof.violation == 0
    assert "relaxation" in str(proof)


@pytest.mark.parametrize("kind", ["boolean", "integer"])
def test_one_whole_number_is_a_variable_too(kind: str) -> None:
    x = variable(**{kind: True})
    problem = maximised(x, x <= 1)
    x.value = 1.0
    proof = fo.certify(problem)
    assert proof.ok and proof.relaxed
    x.save_value(np.array(0.5))
    assert dict(fo.certify(problem).violations)[f"x is {kind}"] == 0.5


# -- no answer


@pytest.mark.parametrize("status", ["left", "none"])
def test_rows_that_cannot_hold_together_are_named_with_weights(status: str) -> None:
    x = variable(3)
    problem = minimised(cp.sum(x), (x >= 1).set_label("floor"), cp.sum(x) <= 2, x[0] <= 50)
    if status == "left":
        problem.solve(solver="CLARABEL")
    proof = fo.certify(problem)
    assert proof.ok and proof.infeasible and not proof.assumed and proof.bound == np.inf
    (first, one), (second, other) = sorted(proof.weights, reverse=True)
    assert first == "floor" and second.startswith("constraints[1]") and [one, other] == pytest.approx([1.0, 1.0])
    assert proof.solved_again == (status == "none") and str(proof).startswith("proved infeasible")


def test_a_ball_and_a_plane_cannot_meet() -> None:
    x = variable(3)
    proof = fo.certify(maximised(x[0], cp.norm(x) <= 1, cp.sum(x) >= 2))
    assert proof.infeasible and len(proof.weights) == 2 and proof.bound == -np.inf


@pytest.mark.parametrize("size", [1e-12, 1e-8, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("cost", [0.0, 1.0])
def test_rows_with_small_multipliers_are_named_if_they_carry_the_proof(
    size: float, cost: float, tmp_path: Path
) -> None:
    x, y = variable(), cp.Variable(name="y")
    problem = minimised(cost * x, (x >= 1).set_label("floor"), (size * x <= 0).set_label("cap"), y >= x - 5)
    proof = fo.certify(problem)
    assert proof.infeasible and {name for name, _ in proof.weights} == {"floor", "cap"}
    weights = dict(proof.weights)
    assert weights["floor"] == pytest.approx(size * weights["cap"])
    assert "floor, cap take part" in str(fo.verify(proof.save(tmp_path / "proof.json")))


def test_constraints_that_are_named_contradict_each_other_alone(tmp_path: Path) -> None:
    proved = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = variable(3)
        sizes = 10.0 ** rng.integers(-8, 3, size=6)
        rows = [size * (rng.normal(size=3) @ x) <= size * rng.normal() for size in sizes]
        rows += [cp.norm(x - rng.normal(size=3)) <= 0.2, cp.sum(cp.exp(x)) <= 2.0]
        proof = fo.certify(minimised(x[0], *rows))
        if proof.infeasible:
            proved += 1
            named = [name.split()[0] for name, _ in proof.weights]
            some = [row for k, row in enumerate(rows) if f"constraints[{k}]" in named]
            assert len(some) == len(named) and fo.certify(minimised(0, *some)).infeasible, seed
            assert fo.verify(proof.save(tmp_path / "proof.json")).ok, seed
    assert proved >= 6


def test_bounds_that_are_not_needed_are_not_named() -> None:
    x = variable(2, nonneg=True)
    proof = fo.certify(minimised(x[0], x[0] >= 2, x[0] <= 1))
    assert {name.split()[0] for name, _ in proof.weights} == {"constraints[0]", "constraints[1]"}


@pytest.mark.parametrize("attributes", [{"NSD": True}, {"symmetric": True}])
def test_a_diagonal_that_no_negative_matrix_has_is_infeasible(attributes: Any) -> None:
    x = variable(3, 3, **attributes)
    assert fo.certify(minimised(0, x << 0, x[0, 0] >= 1, x[1, 1] <= 5)).infeasible


def test_limits_can_make_a_problem_infeasible() -> None:
    problem, _ = solved("equations")
    x = problem.variables()[0]
    proof = fo.certify(problem, limits={x: (-9, 2)})
    assert proof.infeasible or not proof.ok


@pytest.mark.parametrize("above", [1e-6, -1e-6])
def test_rows_that_nearly_contradict_are_told_apart(above: float) -> None:
    x = variable()
    proof = fo.certify(minimised(x, x >= 1 + above, x <= 1, x >= -9))
    assert proof.infeasible == (above > 0)


@pytest.mark.parametrize("size", [1e4, 1e5, 1e6])
@pytest.mark.parametrize("cost", [1e-3, 1.0])
def test_a_large_objective_makes_no_rows_infeasible_and_hides_none_that_are(
    size: float, cost: float, tmp_path: Path
) -> None:
    x = variable(2)
    objective = cost * cp.sum_squares(x + 1)
    assert not fo.certify(minimised(objective, x >= size, x <= 2 * size)).infeasible
    proof = fo.certify(minimised(objective, x >= size, cp.sum(x) <= size))
    assert proof.infeasible and "CVXPY" not in proof.assumed and len(proof.weights) == 2
    assert fo.verify(proof.save(tmp_path / "proof.json")).ok


def test_a_domain_of_the_objective_can_be_what_no_row_fits() -> None:
    x = variable()
    assert fo.certify(minimised(-cp.sqrt(x), x <= -1)).infeasible


def test_rows_that_only_large_values_satisfy_are_not_infeasible() -> None:
    x = variable(2)
    for solve in (False, True):
        problem = minimised(x[1], 1e-9 * x[0] >= 1, x[1] >= 1)
        if solve:
            problem.solve(solver="CLARABEL")
        proof = fo.certify(problem)
        assert not proof.infeasible and proof.bound == pytest.approx(1.0)


def test_a_ray_proves_that_there_is_no_optimum() -> None:
    x = variable(3)
    problem = minimised(x[2] - 2 * x[1], x[0] >= 1, x[1] == x[2], cp.norm(x[:1]) <= 4)
    proof = fo.certify(problem)
    assert proof.ok and proof.unbounded and proof.bound == -np.inf and str(proof).startswith("proved unbounded")
    assert x.value is None


def test_a_direction_of_whole_numbers_is_said_to_be_of_the_relaxation(tmp_path: Path) -> None:
    z, w = cp.Variable(integer=True, name="z"), cp.Variable(name="w")
    whole = "along a direction of the relaxation, in which integer variables may have any value"
    proof = fo.certify(minimised(z, z <= 4.5))  # the solver's feasible point is not whole
    assert proof.unbounded and proof.relaxed and whole in str(proof)
    assert fo.verify(proof.save(tmp_path / "proof.json")).ok
    assert whole not in str(fo.certify(minimised(w, w <= 4.5)))
    none = fo.certify(minimised(z - w, z >= 0.5, z <= 0.8))  # no whole number is feasible
    assert not none.unbounded


def test_files_follow_chains_of_ranges_as_far_as_the_checker(tmp_path: Path) -> None:
    x = variable(60)
    rows = [x[0] <= 1, x[0] >= 0, x[1:] <= x[:-1] + 0.1, x[1:] >= x[:-1] - 0.1]
    problem = minimised(0.3 * x[59] + cp.sum(0.1 * x), *rows)
    problem.solve(solver="CLARABEL")
    proof = fo.certify(problem)
    assert proof.ok and fo.verify(proof.save(tmp_path / "proof.json")).ok


def test_an_optimum_that_is_far_away_is_none_at_infinity() -> None:
    x = variable(2)
    proof = fo.certify(maximised(x[0], x[1] + 1e-10 * x[0] <= 1, x[1] >= 0))
    assert not proof.unbounded


@pytest.mark.parametrize("kind", ["equations", "limits", "second-order", "exponential", "matrix"])
def test_directions_in_all_cones(kind: str) -> None:
    x = variable(3)
    rows = {
        "equations": [0.1 * x[0] + 0.7 * x[1] == 0.3, x[2] >= x[1]],
        "limits": [x >= 0, x[1] <= 3],
        "second-order": [cp.norm(x[1:]) <= x[0] + 1],
        "exponential": [cp.log(x[0]) >= x[1], x[2] == 1],
        "matrix": [cp.bmat([[x[0], x[1]], [x[1], x[2]]]) >> 0],
    }
    assert fo.certify(maximised(x[0] - 0.3 * x[1], *rows[kind])).unbounded


def test_an_infeasible_problem_is_not_unbounded() -> None:
    x = variable(2)
    proof = fo.certify(minimised(x[0], x[1] >= 1, x[1] <= 0))
    assert proof.infeasible and not proof.unbounded


# -- input


def test_what_cannot_be_certified_says_why() -> None:
    x = variable()
    with pytest.raises(fo.errors.InvalidProblem, match="the parameter 'p' has no value"):
        fo.certify(minimised(cp.Parameter(name="p") * x))
    with pytest.raises(fo.errors.NotConcave, match="not convex by CVXPY's rules"):
        fo.certify(minimised(cp.sqrt(x)))
    with pytest.raises(fo.errors.NotConcave, match="it is quasiconvex"):
        fo.certify(minimised(cp.ceil(x)))
    with pytest.raises(fo.errors.InvalidProblem, match="the variable 'z' is complex"):
        fo.certify(minimised(cp.abs(cp.Variable(name="z", complex=True))))
    with pytest.raises(fo.errors.InvalidProblem, match=r"give a cvxpy\.Problem"):
        fo.certify(fo.DRF())  # type: ignore[arg-type]
    for name, value in (("radius", 0), ("tol", np.inf)):
        with pytest.raises(fo.errors.InvalidProblem, match=f"{name} is"):
            fo.certify(minimised(x), **{name: value})
    for limits, said in (({variable(): (0, 1)}, "no variable"), ({x: 3}, "not a pair"), ({x: (2, 1)}, "above")):
        with pytest.raises(fo.errors.InvalidProblem, match=said):
            fo.certify(minimised(x), limits=limits)  # type: ignore[arg-type]


def test_a_problem_without_values_gets_its_bound_only() -> None:
    x = variable()
    proof = fo.certify(minimised(x, x >= 2))
    assert not proof.ok and proof.value is None and proof.bound == pytest.approx(2.0) and "no value" in str(proof)


def test_rows_that_were_compiled_wrongly_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = solved("linear")
    write = CompiledHere.write

    def wrong(self: CompiledHere, *given: Any) -> None:
        write(self, *given)
        self.data["b"] = self.data["b"] * 1.001

    monkeypatch.setattr(CompiledHere, "write", wrong)
    with pytest.raises(fo.errors.NotCertified, match="differ from the problem"):
        fo.certify(problem)


def test_a_time_limit_ends_the_proof() -> None:
    x = variable(400)
    problem = minimised(cp.sum_squares(np.random.default_rng(0).normal(size=(900, 400)) @ x - 1) + cp.norm1(x))
    x.value = np.zeros(400)
    with pytest.raises(fo.errors.NotCertified, match="time limit"):
        fo.certify(problem, time_limit=1e-3)


def test_at_a_time_limit_the_best_bound_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = solved("linear")
    problem.variables()[0].value = [1.0, 1.0]

    def late(*_: Any) -> None:
        raise Late

    monkeypatch.setattr("fairopt.proof.certify.points_of", late)
    with pytest.raises(fo.errors.NotCertified, match="So far: NOT certified: gap") as error:
        fo.certify(problem, time_limit=100)
    best: Any = error.value.best
    assert best.bound == pytest.approx(12.0) and not best.ok


def test_a_time_limit_that_is_none_is_refused_by_name() -> None:
    for seconds in (0, -1.0, "soon"):
        with pytest.raises(fo.errors.InvalidProblem, match="time_limit is"):
            fo.certify(minimised(variable()), time_limit=seconds)  # type: ignore[arg-type]


# -- optima of 0, and what to do next


def test_an_optimum_of_0_without_terms_is_certified_by_its_distance() -> None:
    x = variable(2)
    problem = minimised(cp.norm1(x))
    x.value = [1e-9, 0.0]
    proof = fo.certify(problem)
    assert not proof.ok and proof.gap == pytest.approx(1.0) and "give it as atol" in proof.next_step
    proof = fo.certify(problem, atol=1e-8)
    assert proof.ok and proof.distance == pytest.approx(1e-9) and "within an atol of 1.0e-08" in str(proof)
    with pytest.raises(InvalidProblem, match="atol is -1"):
        fo.certify(problem, atol=-1)


def test_files_take_tolerances_from_whoever_verifies_them(tmp_path: Path) -> None:
    x = variable(2)
    problem = minimised(cp.norm1(x - [1, 2]))
    x.value = [1 + 1e-8, 2.0]
    assert not fo.certify(problem, atol=0).ok
    path = fo.certify(problem, atol=1e-7).save(tmp_path / "proof.json")
    assert not fo.verify(path).ok and not fo.verify(path, atol=1e-9).ok and fo.verify(path, atol=1e-7).ok
    with pytest.raises(ValueError, match="tol is 0"):
        fo.verify(path, tol=0)


def test_by_default_a_part_of_the_terms_counts_as_0() -> None:
    x = variable()
    problem = minimised(cp.square(x - 3), x <= 9)
    x.value = 3 + 1e-6
    proof = fo.certify(problem)
    assert proof.ok and proof.gap > 1e-6 and proof.distance <= proof.atol == pytest.approx(1e-12 * 15, rel=0.5)
    assert not fo.certify(problem, atol=0).ok


def test_large_constants_inside_of_an_objective_hide_no_error() -> None:
    """Ten jobs that are due a minute apart, in seconds since 1970, and take 100 each."""
    due, start = 1.7e9 + 60.0 * np.arange(10), cp.Variable(10)
    problem = minimised(cp.norm1(start - due), start[1:] >= start[:-1] + 100)
    problem.solve(solver="CLARABEL")
    best = due[4] + 100.0 * (np.arange(10) - 4)
    assert np.abs(best - due).sum() == 1000.0
    start.value = best + np.array([*[0.0] * 9, 10.0])
    proof = fo.certify(problem)
    assert not proof.ok and proof.distance == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_no_distance_counts_as_0_where_the_objective_has_no_value(value: float) -> None:
    x = variable()
    problem = maximised(cp.log(x), x <= 1)
    x.value = value
    proof = fo.certify(problem)
    assert not proof.ok and proof.atol == 0 and "domain" in proof.next_step


def test_terms_that_cancel_are_the_unit_of_certificate_and_file_alike(tmp_path: Path) -> None:
    x, y = variable(), cp.Variable(name="y")
    problem = minimised(1e6 * x - 1e6 * y, x >= y, x >= 1, y <= 2)
    x.value, y.value = 1.0, 1.0 - 2e-10
    proof = fo.certify(problem)
    assert proof.gap == pytest.approx(2e-4 / 1e3, rel=1e-2) and proof.ok
    found = fo.verify(proof.save(tmp_path / "proof.json"))
    assert found.ok and found.gap == pytest.approx(proof.gap, rel=0.05)
    assert not fo.verify(tmp_path / "proof.json", tol=1e-8).ok


def test_a_refusal_says_what_to_do_next() -> None:
    problem, _ = solved("linear")
    assert fo.certify(problem).next_step == ""
    x = problem.variables()[0]
    x.value = [1.0, 1.0]
    assert "tighter tolerance" in fo.certify(problem).next_step
    x.value = [4.5, 0.0]
    proof = fo.certify(problem)
    assert "breaks constraints[0]" in proof.next_step and str(proof).endswith(proof.next_step)
    fresh = variable()
    assert "solve the problem first" in fo.certify(minimised(fresh, fresh >= 2)).next_step
    whole = variable(3, integer=True)
    problem = maximised(cp.sum(whole), 2 * whole <= 3, whole >= 0)
    problem.solve(solver="HIGHS")
    assert "whole numbers" in fo.certify(problem).next_step


def test_numbers_that_look_alike_are_shown_with_their_distance() -> None:
    x = variable()
    problem = minimised(cp.square(x - 3) + 1e12, x <= 100)
    x.value = 3.01
    assert "apart" in str(fo.certify(problem))


# -- cones of more than three numbers


@pytest.mark.parametrize("axis", [0, 1])
def test_power_cones_of_many_numbers_are_made_of_those_of_three(axis: int) -> None:
    powers = np.array([[0.2, 0.5], [0.3, 0.25], [0.5, 0.25]])
    w, z = variable(3, 2) if axis == 0 else variable(2, 3), cp.Variable(2, name="z")
    given = powers if axis == 0 else powers.T
    problem = maximised(cp.sum(z), cp.PowConeND(w, z, given, axis=axis), cp.sum(w, axis=axis) <= 1)
    problem.solve(solver="CLARABEL")
    optimum = np.prod(powers**powers, axis=0).sum()  # at w = powers
    proof = fo.certify(problem)
    assert proof.ok and proof.bound == pytest.approx(optimum, rel=1e-6) and proof.bound >= optimum * (1 - 1e-9)
    z.value = z.value * 1.01
    assert dict(fo.certify(problem).violations)[next(iter(dict(fo.certify(problem).violations)))] > 1e-3


def test_exact_geometric_means_of_many_numbers_are_certified() -> None:
    x = variable(5)
    problem = maximised(cp.geo_mean(x, approx=False), cp.sum(x) <= 5)
    problem.solve(solver="CLARABEL")
    assert fo.certify(problem).bound == pytest.approx(1.0)


# -- files


@pytest.mark.parametrize("name", KNOWN)
def test_a_file_states_the_program_and_claims_no_more_than_the_point_shows(name: str, tmp_path: Path) -> None:
    problem, optimum = solved(name)
    proof = fo.certify(problem)
    data = json.loads(proof.save(tmp_path / "proof.json", "here").read_text())
    assert data["source"]["name"] == "here" and ("with price = 2" in data["source"]["text"]) == (name == "parameter")
    program, claims, z = data["program"], data["claims"], np.array(data["point"])
    cones, rows, columns = program["cones"], program["rows"], program["columns"]
    triangles = sum(n * (n + 1) // 2 for n in cones["psd"])
    assert (
        rows
        == cones["zero"] + cones["nonneg"] + sum(cones["soc"]) + 3 * (cones["exp"] + len(cones["power"])) + triangles
    )
    assert len(z) == columns == len(data["limits"]["least"]) and len(data["dual"]) == len(program["right"]) == rows
    sign = -1 if data["sense"] == "maximize" else 1
    cost = np.zeros(columns)
    cost[program["cost"]["column"]] = program["cost"]["value"]
    assert sign * (cost @ z + program["offset"]) == pytest.approx(claims["value"], rel=1e-9, abs=1e-12)
    assert sign * (claims["bound"] - optimum) <= 1e-9 * max(abs(optimum), 1.0)
    assert claims["value"] == pytest.approx(proof.value, rel=1e-5, abs=1e-5)
    slack = np.array(program["right"])
    np.subtract.at(
        slack, program["matrix"]["row"], np.array(program["matrix"]["value"]) * z[program["matrix"]["column"]]
    )
    off = claims["violation"] * max(np.abs(program["right"]).max(initial=0.0), np.abs(z).max(), 1.0) * 20
    linear = slack[cones["zero"] : cones["zero"] + cones["nonneg"]]
    assert (np.abs(slack[: cones["zero"]]) <= off).all() and (linear >= -off).all()
    assert [v["name"] for v in data["variables"] if not v["added"]]


def test_files_of_proofs_that_there_is_no_answer(tmp_path: Path) -> None:
    x = variable(2)
    none = json.loads(fo.certify(minimised(x[0], x[0] >= 2, x[0] <= 1)).save(tmp_path / "none.json").read_text())
    assert none["claims"]["status"] == "infeasible" and none["point"] is None
    rows = [x[0] == 3 * x[1], x[0] >= 1]
    data = json.loads(fo.certify(maximised(x[0], *rows)).save(tmp_path / "ray.json").read_text())
    d = np.array(data["dual"])
    assert data["claims"]["status"] == "unbounded" and d[0] == 3 * d[1] > 0


def test_nothing_is_saved_without_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairopt.proof.certify.points_of", lambda *_: None)
    with pytest.raises(fo.errors.NotCertified, match="nothing to save"):
        fo.certify(minimised(variable(), cp.Variable(name="y") >= 0)).save(tmp_path / "none.json")


def test_variables_that_are_matrices_of_a_kind_keep_their_values() -> None:
    x = variable(3, 3, symmetric=True)
    stated = Stated.of(minimised(cp.sum(x), x >= 1), None)
    part, kept = stated.parts[x]
    value = np.arange(9.0).reshape(3, 3)
    value = value + value.T
    stated.save({part.id: np.arange(6)}, value.ravel(order="F")[kept])
    assert np.array_equal(x.value, value)


@pytest.mark.parametrize("bounds", [None, [0, 1]])
def test_a_limit_is_measured_by_its_own_size(bounds: Any) -> None:
    x, y = cp.Variable(name="x", bounds=bounds), cp.Variable(name="y")
    limit = [x <= 1] if bounds is None else []
    problem = minimised(1e6 * y - x, y >= 1, x + 1e6 * y <= 3e6, *limit)
    x.save_value(np.array(1.5))
    y.save_value(np.array(1.0))
    proof = fo.certify(problem)
    assert not proof.ok and proof.violation == pytest.approx(1 / 3)


@pytest.mark.parametrize("cost", [1e-8, 1e-12])
def test_no_bound_is_above_a_feasible_value_among_the_points_it_speaks_of(cost: float) -> None:
    x = variable()
    problem = minimised(cost * cp.square(x) - x)
    x.value = 0.5 / cost
    proof = fo.certify(problem)
    assert proof.value is not None and proof.bound <= proof.value


def test_a_feasible_point_of_a_constant_objective_is_optimal_whatever_the_dual_values() -> None:
    x = variable(2)
    problem = minimised(0, x >= 1, cp.norm(x) <= 3)
    x.value = [1.5, 2.0]
    assert fo.certify(problem).ok
    x.value = [0.5, 2.0]
    assert not fo.certify(problem).ok


def test_a_constant_under_rows_of_constants_is_optimal() -> None:
    assert fo.certify(cp.Problem(cp.Minimize(3.0), [cp.Constant(-1) <= 0])).ok


def test_a_row_of_constants_alone_contradicts_itself() -> None:
    x = variable()
    proof = fo.certify(minimised(x, x >= 1, cp.Constant(1) <= 0))
    assert proof.infeasible and [name for name, _ in proof.weights] == ["constraints[1] (1.0 <= 0.0)"]


def test_without_rows_the_costs_are_a_direction() -> None:
    x = variable(2)
    assert fo.certify(minimised(x[0] - x[1])).unbounded


def test_a_direction_that_keeps_rows_up_to_rounding_says_so() -> None:
    x, y = variable(), cp.Variable(name="y")
    far = maximised(x, x <= y, y <= (1 - 2.0**-51) * x + 1, x >= 0)  # the optimum is 2^51
    free = maximised(x, x <= y, y <= x + 1, x >= 0)
    for problem, exact in ((far, False), (free, True)):
        proof = fo.certify(problem)
        assert not proof.unbounded or (proof.assumed == "") == exact
        assert "assuming" in str(proof) or exact or not proof.unbounded
    assert fo.certify(free).unbounded


def test_a_gap_that_a_constant_hides_is_shown_by_the_file_too(tmp_path: Path) -> None:
    x = variable()
    problem = minimised(cp.square(x - 3) + 1e9, x <= 100)
    x.value = 3.5
    proof = fo.certify(problem)
    assert not proof.ok and not fo.verify(proof.save(tmp_path / "proof.json")).ok


def test_ranges_that_follow_from_several_rows_need_no_radius(tmp_path: Path) -> None:
    x = variable(4)
    problem = maximised(np.array([0.3, 0.7, 0.1, 0.9]) @ x + cp.geo_mean(x[:2]), cp.sum(x) <= 1, x >= 0)
    problem.solve(solver="CLARABEL")
    assert "within a radius" not in str(fo.verify(fo.certify(problem).save(tmp_path / "proof.json")))


def test_the_digest_of_a_file_tells_large_matrices_apart(tmp_path: Path) -> None:
    digests = set()
    for changed in (0.0, 1e-9):
        rows, x = np.arange(10_000.0).reshape(100, 100), variable(100)
        rows[50, 50] += changed
        problem = minimised(0, rows @ x <= 1)
        x.value = np.zeros(100)
        digests.add(fo.verify(fo.certify(problem).save(tmp_path / "proof.json")).digest)
    assert len(digests) == 2


def test_a_point_that_breaks_rows_by_a_solvers_noise_has_a_file_that_is_proved(tmp_path: Path) -> None:
    x = variable(3)
    problem = minimised(cp.log_sum_exp(ROWS[:, :3] @ x), cp.abs(x) <= 1, x[0] + x[1] >= 0)
    problem.solve(solver="CLARABEL")
    x.value = x.value * (1 + 2e-9)
    assert fo.verify(fo.certify(problem).save(tmp_path / "proof.json")).ok


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_numbers_that_are_none_are_refused_by_place(number: float) -> None:
    x = variable()
    with pytest.raises(InvalidProblem, match=r"constraints\[1\] has a number that is NaN or infinite"):
        fo.certify(minimised(x, x >= 1, x <= number))


def test_a_point_outside_of_a_domain_has_no_file(tmp_path: Path) -> None:
    x = variable()
    problem = minimised(-x, x <= cp.sqrt(x))
    x.value = -1.0
    with pytest.raises(fo.errors.NotCertified, match="there is nothing to save"):
        fo.certify(problem).save(tmp_path / "proof.json")


def test_a_point_below_the_bound_by_rounding_has_a_file_that_is_proved(tmp_path: Path) -> None:
    x = variable(2)
    problem = minimised(cp.sum_squares(x), x[0] + x[1] == 1)
    x.value = [0.5 - 2e-14, 0.5 - 3e-14]
    assert fo.verify(fo.certify(problem).save(tmp_path / "proof.json")).ok


def test_a_panic_of_the_solver_is_a_solve_without_points(monkeypatch: pytest.MonkeyPatch) -> None:
    panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})

    class Panics:
        def __init__(self, *_: Any) -> None: ...

        def solve(self) -> None:
            raise panic("Eigval error")

    monkeypatch.setattr("clarabel.DefaultSolver", Panics)
    x = variable(2)
    proof = fo.certify(minimised(cp.norm(x), x >= 1))
    assert not proof.ok and proof.bound == -np.inf
