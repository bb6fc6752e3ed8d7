"""Constants and rounding of users' expressions: what is left out, what is counted, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import fairopt as fo
from fairopt.blocks import InlineObjective
from fairopt.blocks.written_values import irregular, is_flat, rounding_of, without_constants

THREE = fo.Instance([[1], [2], [5]], [10])  # the largest smallest number of tasks is 1.25
EQUAL = [1.25, 1.25, 1.25]
LEAST = InlineObjective(lambda model: cp.min(model.tasks) + 1e15)


def sized(x: cp.Variable) -> dict[str, tuple[cp.Expression, float]]:
    """Expressions of three numbers, with the sums of the constants that they add."""
    return {
        "after": (cp.min(x) + 1e15, 1e15),
        "before": (7.0 - cp.norm(x - 1), 7.0),
        "multiple": (2 * (cp.min(x) + 3) / 4, 1.5),
        "vector": (cp.sum(cp.sqrt(x) + np.array([1.0, 2.0, 3.0])), 6.0),
        "stacked": (cp.sum(cp.hstack([cp.min(x), 5.0])), 5.0),
        "matrix": (np.ones(3) @ (np.diag([1.0, 2.0, 3.0]) @ (x - 1)), -6.0),
        "parameter": (cp.sum(x) + cp.Parameter(value=-2.0), -2.0),
        "inside": (cp.min(x + 3), 0.0),
        "none": (cp.sum(cp.log(x)), 0.0),
    }


@pytest.mark.parametrize("name", sized(cp.Variable(3)))
def test_an_expression_is_the_rest_and_the_constants_that_it_adds(name: str) -> None:
    x = cp.Variable(3, nonneg=True)
    expression, constant = sized(x)[name]
    rest, found = without_constants(expression)
    assert found == constant
    assert (rest is expression) == (constant == 0)
    x.value = np.array([1.0, 2.0, 4.0])
    assert rest.value + found == pytest.approx(expression.value, rel=1e-15)
    assert without_constants(rest) == (rest, 0.0)


@pytest.mark.parametrize("seed", range(20))
def test_the_rounding_of_sums_and_choices_is_within_its_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, shift, factor = rng.uniform(0, 3, 3), 10.0 ** rng.uniform(0, 16), float(rng.uniform(1e-3, 1e3))
    at = cp.Variable(3)
    at.value = x
    expression = factor * cp.min(cp.multiply([1.0, 3.0, 0.7], at) + shift) - cp.sum(cp.abs(at - shift)) / 3 + shift
    rates, by = [Fraction(r) for r in (1.0, 3.0, 0.7)], Fraction(shift)
    exact = [Fraction(value) for value in x.tolist()]
    right = Fraction(factor) * min(r * v + by for r, v in zip(rates, exact, strict=True))
    right += by - sum(abs(v - by) for v in exact) / 3
    error = abs(Fraction(float(expression.value)) - right)
    assert error <= rounding_of(expression) <= 1e-13 * (factor + 4) * shift + 1e-12


@pytest.mark.parametrize(
    ("function", "flat"),
    [
        (lambda x: -cp.sum(cp.maximum(0.1 * x, 1.2)), True),
        (lambda x: cp.sum(cp.minimum(x, 1.7)), True),
        (lambda x: cp.sum(cp.sqrt(cp.minimum(x, 1.7))) - cp.maximum(cp.max(0.1 * x), 1.2), True),
        (lambda x: np.array([1.0, 0.0]) @ cp.minimum(x, 4.0) + 0 * x[1], False),
        (lambda x: np.array([0.0, 1.0]) @ cp.minimum(x, 4.0), True),
        (lambda x: cp.min(x + 1e17), False),
        (lambda x: cp.minimum(1e17, 1e17 + x[0]), False),
        (lambda x: cp.minimum(1e17 + 1, 1e17 + x[0]), False),
        (lambda x: cp.min(x) - cp.maximum(1e16, x[0]), False),
        (lambda x: 1e15 * x[0] - 1e15 * x[0], False),
        (lambda x: -cp.norm(x - 1e17), False),
    ],
)
def test_an_expression_is_flat_where_0_is_a_supergradient_for_certain(
    function: Callable[[cp.Variable], cp.Expression], flat: bool
) -> None:
    x = cp.Variable(2)
    x.value = np.array([3.0, 5.0])
    assert is_flat(function(x)) == flat


def test_coefficients_that_cancel_have_rounding_also_at_zero() -> None:
    x = cp.Variable(2)
    x.value = np.zeros(2)
    cancelling, typical = 1e15 * x[0] + cp.min(x) - 1e15 * x[0], {x.id: irregular(np.ones(2))}
    assert rounding_of(cancelling) == 0 and rounding_of(cancelling, typical) > 1
    assert rounding_of(cp.sqrt(1 + cancelling - cp.min(x)), typical) > 1
    for plain in (cp.min(x) + 1e-3 * x[0] - 1e-3 * x[1], -cp.norm(x - cp.sum(x) / 2)):
        assert rounding_of(plain, typical) < 1e-14


@pytest.mark.parametrize("made", [lambda x: cp.multiply(sp.csr_matrix(np.eye(2)), cp.diag(x)), lambda x: sp.eye(2) @ x])
def test_sparse_numbers_in_objectives_are_read(made: Callable[[cp.Variable], cp.Expression]) -> None:
    x = cp.Variable(2)
    x.value = np.array([1.0, 2.0])
    assert 0 < rounding_of(cp.sum(made(x))) < 1e-13 and not is_flat(cp.sum(made(x)))
    assert without_constants(cp.sum(made(x) + 1))[1] == made(x).size


def test_sums_of_constants_beyond_floats_are_refused() -> None:
    with pytest.raises(fo.errors.InvalidBlock, match="sum to inf"):
        fo.Policy(lambda m: cp.min(m.tasks) + 1e308 + 1e308).allocate(THREE)


def test_what_cvxpy_cannot_judge_is_not_concave() -> None:
    differences = 1e12 * np.array([[1.0, -1, 0], [-1, 1, 0], [0, 0, 0]])
    with pytest.raises(fo.errors.NotConcave, match="CVXPY cannot tell"):
        fo.Policy(lambda m: -cp.quad_form(m.tasks, differences)).allocate(THREE)


@pytest.mark.parametrize(
    "function",
    [
        lambda m: cp.min(m.tasks) + 1e15,
        lambda m: 1e-3 * cp.min(m.tasks) + 1e13,
        lambda m: 1e15 - cp.norm(m.tasks - 1.25),
        lambda m: 2 * (cp.min(m.tasks) - 1e14) + 1e15,
    ],
)
def test_a_constant_of_an_objective_hides_nothing(function: Callable[[fo.Model], Any]) -> None:
    answer = fo.Policy(function).allocate(THREE)
    np.testing.assert_allclose(answer.tasks, EQUAL, rtol=1e-6)
    assert answer.objective == pytest.approx(function_at(function, EQUAL), rel=1e-15)


def function_at(function: Callable[[Any], Any], tasks: list[float]) -> float:
    class At:
        pass

    model: Any = At()
    model.tasks = cp.Constant(tasks)
    return float(function(model).value)


@pytest.mark.parametrize(
    "function",
    [
        lambda m: cp.min(m.tasks + 1e15),
        lambda m: cp.min(m.tasks + 1e17),
        lambda m: cp.min(m.tasks + 1e15 - 1e15),
        lambda m: cp.sum(cp.log(m.tasks + 1e12)),
        lambda m: -cp.norm(m.tasks - 1e15),
        lambda m: cp.min(m.tasks) - cp.maximum(1e16, m.tasks[0]),
        lambda m: cp.sum(cp.sqrt(m.tasks)) - cp.maximum(1e16, cp.sum(m.tasks)),
        lambda m: 1e-3 * cp.min(m.tasks) + cp.minimum(1e17, 1e17 + m.tasks[0]),
        lambda m: 1e16 * m.tasks[0] - 1e16 * m.tasks[0] + cp.min(m.tasks),
        lambda m: bounded_by(m, 1e-3 * m.tasks + 1e14),
    ],
)
def test_what_rounding_inside_an_objective_hides_is_refused_by_name(function: Callable[[fo.Model], Any]) -> None:
    with pytest.raises(fo.errors.NotCertified, match=r"rounding in the objective, with numbers such as 1e\+1\d, hides"):
        fo.Policy(function).allocate(THREE)


DROWNED = InlineObjective(lambda m: cp.min(m.tasks) - cp.maximum(1e16, m.tasks[0]))


@pytest.mark.parametrize("objective", [DROWNED + 1e-3 * fo.Total(fo.Tasks()), DROWNED.then(fo.Total(fo.Tasks()))])
def test_what_rounding_hides_in_sums_and_tiers_is_refused_by_name(objective: fo.Objective) -> None:
    with pytest.raises(fo.errors.NotCertified, match=r"with numbers such as 1e\+16, hides"):
        fo.Policy(objective).allocate(THREE)


def bounded_by(model: fo.Model, upper: cp.Expression) -> cp.Expression:
    """A variable of the objective's own, of one number."""
    value = model.variable(())
    model.require("upper", value <= upper)
    return value


@pytest.mark.parametrize("constant", [-5.0, 0.0, 1e3])
def test_a_constant_in_a_row_of_a_variable_changes_no_answer(constant: float) -> None:
    answer = fo.Policy(lambda m: bounded_by(m, 1e-3 * m.tasks + constant)).allocate(THREE)
    np.testing.assert_allclose(answer.tasks, EQUAL, rtol=1e-5)


@pytest.mark.parametrize(
    ("function", "tasks", "own"),
    [
        (lambda m: bounded_by(m, 1e-3 * m.tasks + 1e7), 0.1, 1e7 + 1e-4),
        (lambda m: bounded_by(m, 1e-3 * m.tasks + 1e7), 0.1, 1e7 + 1.25e-3),  # above what the row allows
        (lambda m: bounded_by(m, 1e-3 * m.tasks + 1e2), 0.1, 1e2 + 1e-4),
        (lambda m: 1e15 * m.tasks[0] - 1e15 * m.tasks[0] + cp.min(m.tasks), 0.5, None),
        (lambda m: cp.min(m.tasks) - cp.maximum(1e16, m.tasks[0]), 0.5, None),
    ],
)
def test_a_problem_whose_rounding_hides_more_tasks_is_not_certified(
    function: Callable[[fo.Model], Any], tasks: float, own: float | None
) -> None:
    policy = fo.Policy(function)
    problem = policy.problem(THREE)
    for variable in problem.variables():
        variable.value = np.full(variable.shape, tasks if variable.name() == "tasks" else own)
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(problem, THREE)


def test_a_flat_problem_that_is_read_is_certified() -> None:
    policy = fo.Policy(lambda m: -cp.sum(cp.maximum(0.1 * m.tasks, 1.2)))
    problem = policy.problem(THREE)
    problem.variables()[0].value = np.full(3, 0.5)
    assert policy.certify(problem, THREE).certificate.ok


def test_later_tiers_and_levels_leave_constants_out_too() -> None:
    for after in (fo.Total(fo.Tasks()), InlineObjective(lambda m: cp.sum(m.tasks) - 1e14)):
        answer = fo.Policy(LEAST.then(after)).allocate(THREE)
        np.testing.assert_allclose(answer.tasks, EQUAL, rtol=1e-6)
    bounded = fo.Policy(fo.Total(fo.Tasks()), [LEAST >= 1e15 + 1])
    np.testing.assert_allclose(bounded.allocate(THREE).tasks, [3, 1, 1], rtol=1e-7)
    with pytest.raises(fo.errors.Infeasible):
        fo.Policy(fo.Total(fo.Tasks()), [LEAST >= 1e15 + 2]).allocate(THREE)


def test_a_sum_with_a_known_term_leaves_the_constant_of_the_other_out() -> None:
    total = LEAST + 0.5 * fo.AlphaFair(1, fo.Tasks())
    plain = InlineObjective(lambda m: cp.min(m.tasks)) + 0.5 * fo.AlphaFair(1, fo.Tasks())
    found, right = (fo.Policy(one).allocate(THREE) for one in (total, plain))
    np.testing.assert_allclose(found.tasks, right.tasks, rtol=1e-6)
    assert found.objective == pytest.approx(1e15 + right.objective, rel=1e-15)


def test_a_problem_that_is_read_states_its_constant_and_is_judged_without_it() -> None:
    policy = fo.Policy(LEAST)
    problem = policy.problem(THREE)
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10)
    answer = policy.certify(problem, THREE)
    assert answer.objective == problem.value == pytest.approx(1e15 + 1.25, rel=1e-15)
    problem.variables()[0].value = np.array([1.0, 1.0, 1.0])
    for variable in problem.variables():
        if variable.name() == "tasks":
            variable.value = np.array([1.0, 1.0, 1.0])
    with pytest.raises(fo.errors.NotCertified):
        policy.certify(problem, THREE)


def test_an_objective_that_is_flat_above_some_tasks_is_proved_there() -> None:
    answer = fo.Policy(lambda m: cp.sum(cp.minimum(m.tasks, 1.7))).allocate(fo.Instance([[1]], [10]))
    assert answer.certificate.ok and answer.objective == pytest.approx(1.7, rel=1e-12)


@dataclass(frozen=True, repr=False)
class OfBundles(fo.Objective):
    added: float
    of_bundles = True

    def expression(self, model: Any) -> cp.Expression:
        return cp.sum(cp.log(cp.vec(model.bundles, order="F"))) + self.added


def test_bundles_leave_constants_out() -> None:
    pair = fo.Instance([[1, 1], [2, 1]], [10, 4])
    plain, added = (fo.Policy(OfBundles(c)).allocate(pair) for c in (0.0, 1e3))
    np.testing.assert_allclose(added.bundles, plain.bundles, rtol=1e-5)
    assert added.certificate.ok and added.objective == pytest.approx(1e3 + plain.objective, rel=1e-9)
