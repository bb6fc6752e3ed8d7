"""Rows written wrongly for a solver are told from those that were asked for, and nothing is certified by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.table_rows import table_rows
from fairopt.errors import NotCertified
from fairopt.proof.written_rows import is_as_asked
from fairopt.solve.form import compiled
from fairopt.solve.form.compiled import Compiled, Posed

USES = np.random.default_rng(58).uniform(0.1, 1.0, (3, 6))


def posed() -> Posed:
    """A program with rows of every cone that CLARABEL has, some of them of tables, and bounds."""
    x, t = cp.Variable(6, nonneg=True), cp.Variable(bounds=[-0.25, 0.5])
    own = [
        cp.SOC(x[:2] + 1, cp.vstack([x[2:4], x[4:]])),
        cp.SOC(x[:3] + 1, cp.vstack([x[3:], x[3:] / 2]).T, axis=1),
        cp.SOC(x[0] + 1, x[1:] * 2),
        cp.ExpCone(x[:2] - 3, np.ones(2), x[2:4]),
        cp.PowCone3D(x[:2], x[2:4], x[4:] - 0.1, [0.3, 0.6]),
        cp.sum(x**1.5) <= 2,
        x[0] == x[1] / 2,
        x[0] + t >= 0.1,
    ]
    same = table_rows(x, np.array([[1.0, -1.0, 0, 0, 0, 0]]), np.zeros(1), equal=True)
    return Posed(cp.Maximize(cp.sum(cp.log(x + 0.1)) + x[3] + 7), [table_rows(x, USES, np.full(3, 0.75)), *own, same])


def linear() -> Posed:
    """A linear program, whose bounds HiGHS takes as such."""
    x = cp.Variable(6, nonneg=True)
    return Posed(cp.Maximize(cp.min(x) + 3), [table_rows(x, USES, np.full(3, 0.75)), x[2] + x[3] <= 0.3])


@pytest.mark.parametrize(("made", "solver"), [(posed, "CLARABEL"), (linear, "CLARABEL"), (linear, "HIGHS")])
def test_every_number_counts(made: Callable[[], Posed], solver: str) -> None:
    """The data are as asked; each single entry, right side and cost that is off by a thousandth is seen."""
    one = Compiled.of(made(), solver, {"use_quad_obj": False})
    a, b, c = (one.data[key] for key in "Abc")
    assert isinstance(one, compiled.CompiledHere) and is_as_asked(one)
    for key, numbers in (("A", a), ("b", b), ("c", c)):
        for k in range(len(getattr(numbers, "data", numbers)) if key == "A" else len(numbers)):
            spoilt = numbers.copy()
            (spoilt.data if key == "A" else spoilt)[k] += 0.001
            one.data[key] = spoilt
            assert not is_as_asked(one), (key, k)
        one.data[key] = numbers
    assert is_as_asked(one)


def test_values_of_variables_stay() -> None:
    made = posed()
    for variable in made.variables():
        variable.value = np.full(variable.shape, 0.125)
    assert is_as_asked(Compiled.of(made, "CLARABEL", {"use_quad_obj": False}))
    assert all((variable.value == 0.125).all() for variable in made.variables())


def test_what_cvxpy_compiled_is_as_asked() -> None:
    x = cp.Variable((2, 2), PSD=True)
    assert is_as_asked(Compiled.of(cp.Problem(cp.Minimize(x[0, 0]), [x[0, 1] >= 1]), "CLARABEL", {}))


def test_an_answer_to_other_rows_is_not_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right sides cut to whole numbers leave less than there is; the answer and its dual point agree, and are wrong."""
    instance = fo.Instance([[1, 3], [2, 1], [1, 1]], [7.5, 9.5])
    policy = fo.Policy(lambda m: cp.sum(cp.sqrt(m.tasks)), [lambda m: cp.norm(m.tasks) <= 2.5])
    right = policy.allocate(instance)
    assert right.certificate.gap <= 1e-6
    plain: Any = compiled._sums

    def cut(place: Any, values: Any, n: int) -> Any:
        return np.trunc(plain(place, values, n))

    monkeypatch.setattr(compiled, "_sums", cut)
    with pytest.raises(NotCertified):
        policy.allocate(instance, solver="CLARABEL")


def test_squares_for_which_there_is_no_bound_of_cones_raise_no_error() -> None:
    """`conic_gap` gives none; 3 - (x - 1)^2 - (y - 2)^2 has its optimum inside."""
    instance = fo.Instance([[1.0], [1.0]], [10.0])
    policy = fo.Policy(lambda m: 3 - cp.sum_squares(m.tasks - np.array([1.0, 2.0])), [lambda m: cp.max(m.tasks) <= 5])
    found = policy.allocate(instance, solver="CLARABEL")
    assert found.certificate.ok
    np.testing.assert_allclose(found.tasks, [1.0, 2.0], atol=1e-3)
