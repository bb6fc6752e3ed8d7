"""Small linear programs in units far apart: equilibrated second tries, and vertices in fractions."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.solve.cone import vertex
from fairopt.solve.form.program import ConeModel, Program
from fairopt.solve.settings import Settings


@dataclass(frozen=True)
class WithSlack(fo.Constraint):
    """Rows as equations with a slack each."""

    matrix: tuple[tuple[float, ...], ...]
    right: tuple[float, ...]

    def constraints(self, model: fo.Model) -> dict[str, cp.Constraint]:
        slack = cp.Variable(len(self.right))
        model.required.append(np.array(self.matrix) @ model.tasks + slack == np.array(self.right))
        return {"slack": slack >= 0}


@dataclass(frozen=True)
class Smallest(fo.Objective):
    """The smallest of tasks times rates, as a variable."""

    rates: tuple[float, ...]

    def expression(self, model: fo.Model) -> cp.Expression:
        least = cp.Variable()
        model.required.append(cp.multiply(self.rates, model.tasks) >= least)
        return least


def test_rows_of_units_far_apart_hold() -> None:
    instance = fo.Instance([[6], [5], [3], [2]], [1])
    rows = WithSlack(((2.06e-5, 1.37e-5, 0, 2.06e-5), (0, 2.72e8, 9.08e7, 0)), (4.05e-6, 2.51e8))
    found = fo.Policy(fo.Total(), [rows]).allocate(instance, solver="CLARABEL")
    dominant = np.array([6.0, 5, 3, 2])  # of one resource: any full use is best
    assert found.tasks @ dominant == pytest.approx(1, rel=1e-6)
    assert (np.array(rows.matrix) @ found.tasks <= np.array(rows.right) * (1 + 1e-7)).all()


def test_a_smallest_number_in_tiny_units_is_proved() -> None:
    """Of two users who share 18 and 11 of one resource, rates r and demands d: all r x are 29 / sum(d / r)."""
    rates, demands = np.array([5.55, 2.66e-8]), np.array([1.0, 5])
    instance = fo.Instance(demands[:, None], [[18], [11]])
    found = fo.Policy(Smallest(tuple(rates.tolist()))).allocate(instance, solver="ECOS")
    per_user = found.tasks_by_server.sum(axis=1)
    assert (rates * per_user).min() == pytest.approx(29 / (demands / rates).sum(), rel=1e-6)


def test_a_total_of_numbers_that_differ_by_1e20_is_proved() -> None:
    instance = fo.Instance([[8.52e19], [13100], [31700]], [[3.74e8], [4.47e-5], [8.8e-9]])
    found = fo.Policy(fo.Total(fo.Tasks())).allocate(instance, solver="HIGHS")
    assert found.certificate.tried[-1].status == vertex.IN_FRACTIONS
    assert found.tasks_by_server.sum() == pytest.approx((3.74e8 + 4.47e-5 + 8.8e-9) / 13100, rel=1e-9)


def left(objective: fo.Objective) -> str | None:
    """The status at a vertex of a program of one user of 2 of 6."""
    cone = ConeModel(Program(fo.Instance([[2]], [6]), objective, ()))
    form, _ = cone.maximand
    problem = cp.Problem(cp.Maximize(form), cone.all_constraints)
    found = vertex.at_vertex(problem, cone, "ECOS", Settings())
    return None if found is None else found.status


def test_only_small_linear_programs_have_vertices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert left(fo.Total()) == vertex.IN_FRACTIONS
    assert left(fo.AlphaFair(2)) is None
    monkeypatch.setattr(vertex, "LARGEST", 0)
    assert left(fo.Total()) is None
