"""Units of objectives with variables of their own: what is proved to change, whatever multipliers a solver leaves."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest

from fairopt.proof import slopes
from fairopt.proof.slopes import slope_of

AT = np.array([1.0, 2.0])
POINTS = slopes.points_of


def unit_of(constant: float, peak: float = np.inf) -> float:
    """Of ``min(x, peak)``, the least of two numbers, as a variable in rows with a constant."""
    x, v = cp.Variable(2, nonneg=True), cp.Variable()
    rows = [v <= x + constant, v <= peak + constant] if peak < np.inf else [v <= x + constant]

    def restore() -> None:
        v.save_value(np.array(min(1.0, peak) + constant))

    return slope_of(v - constant, rows, x, AT, np.ones(2), restore).unit


@pytest.mark.parametrize("constant", [0.0, -3.0, 1e3, 1e6])
def test_the_unit_is_the_fall_to_half_of_the_tasks(constant: float) -> None:
    assert unit_of(constant) == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("peak", [0.75, 0.4])
def test_beside_more_tasks_than_count_the_unit_is_the_change_of_the_objective(peak: float) -> None:
    assert unit_of(0.0, peak) == pytest.approx(0.25 if peak == 0.75 else 0.4, rel=1e-6)


@pytest.mark.parametrize("factor", [-1e3, 0.0, 0.5, 2.0, 1e3, 1e15])
def test_wrong_multipliers_of_a_solver_make_no_larger_unit(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """At constants of 1e13 they were 1,000 times the value, which certified an answer that was worse by a sixth."""

    def spoilt(compiled: Any, data: Any) -> Any:
        z, y = POINTS(compiled, data) or (np.zeros(0), np.zeros(0))
        y[: len(AT)] *= factor
        return z, y

    monkeypatch.setattr(slopes, "points_of", spoilt)
    assert unit_of(2.0) <= 0.5 + 1e-6


def test_without_an_answer_of_a_solver_there_is_no_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slopes, "points_of", lambda *_: None)
    assert unit_of(0.0) == 0.0


def test_a_value_above_the_bound_by_what_rows_are_broken_is_no_slope() -> None:
    """Two tasks each of which counts up to 0.75: f is flat, and falls to half of them by 0.25."""
    x, v = cp.Variable(2, nonneg=True), cp.Variable(2)
    rows = [v <= x, v <= 0.75]

    def restore() -> None:
        v.save_value(np.array([0.75, 0.75]) + 1e-11)

    assert slope_of(cp.sum(v), rows, x, AT, np.ones(2), restore).unit == pytest.approx(0.25, rel=1e-6)


def test_values_of_a_solver_that_break_rows_make_no_larger_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside constants of 1e14 they were 1.7e15 above, and multipliers counted a hundredth of that."""

    def spoilt(compiled: Any, data: Any) -> Any:
        z, y = POINTS(compiled, data) or (np.zeros(0), np.zeros(0))
        y[len(AT) :] *= 0.01
        (own,) = (v for v in compiled.variables if v.ndim == 0)
        z[compiled.starts[own.id]] += 10.0
        return z, y

    monkeypatch.setattr(slopes, "points_of", spoilt)
    assert unit_of(2.0) <= 0.5 + 1e-6
