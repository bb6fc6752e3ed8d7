"""Units of objectives with variables of their own: what is proved to change, whatever multipliers a solver leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.proof import slopes
from fairopt.proof.evidence import solved
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


@dataclass(frozen=True, repr=False)
class Weakest(fo.Objective):
    """The sum of numbers that are at most each share and the mean."""

    def expression(self, model: Any) -> cp.Expression:
        s = model.share(fo.DominantShare())
        v = model.variable(s.shape)
        model.require("at most each", v <= s)
        model.require("at most the mean", v <= cp.sum(s) / s.shape[0] + 1e3 - 1e3)
        return cp.sum(v) + 0.1 * cp.sum(cp.sqrt(v + 1e-3))


FLOORS = fo.SharingIncentive(), fo.MinTasks(0.5)


@pytest.mark.parametrize("floors", [(), FLOORS])
@pytest.mark.parametrize("seed", range(4))
def test_multipliers_at_hand_prove_at_least_a_part_of_the_unit_and_no_more(
    seed: int, floors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without solving, also where half of the tasks are too few: half of the slope, which is at most the fall to half
    of the tasks.
    """
    seen: list[tuple[float, float]] = []
    by_bound = solved.slope_by_bound

    def compared(bound: Any, excess: float, conditions: Any, unknowns: cp.Variable) -> Any:
        given = list(conditions)
        values = [(v, v.value) for v in {v for c, _ in given for v in c.variables()}]

        def restore() -> None:
            for one, value in values:
                one.save_value(value)

        found = by_bound(bound, excess, given, unknowns)
        form = model.maximand[0]
        at = np.asarray(unknowns.value)
        seen.append((found.unit, slope_of(form, [c for c, _ in given], unknowns, at, np.ones(len(at)), restore).unit))
        return found

    build = solved._conic_gap

    def keep(program: Any, evidence: Any, *rest: Any) -> Any:
        nonlocal model
        model = evidence.written.model
        return build(program, evidence, *rest)

    model: Any = None
    monkeypatch.setattr(solved, "slope_by_bound", compared)
    monkeypatch.setattr(solved, "_conic_gap", keep)
    demands = np.random.default_rng(seed).uniform(0.1, 1.0, (6, 2))
    answer = fo.Policy(Weakest(), floors).allocate(fo.Instance(demands, [3, 3]), solver="CLARABEL")
    assert answer.certificate.ok and seen
    for at_hand, exact in seen:
        assert 0.4 * exact <= at_hand <= exact * (1 + 1e-6)


def test_wrong_multipliers_of_a_bound_make_no_larger_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger multipliers of capacities raise the bound by as much as they promise."""
    units: list[float] = []
    by_bound = solved.slope_by_bound

    def spoilt(bound: Any, excess: float, *rest: Any) -> Any:
        raised = bound.program.b @ bound.y  # doubled multipliers bound by 2 b'y instead of b'y
        units.append(by_bound(bound._replace(y=2 * bound.y), excess + abs(raised), *rest).unit)
        return by_bound(bound, excess, *rest)

    monkeypatch.setattr(solved, "slope_by_bound", spoilt)
    demands = np.random.default_rng(1).uniform(0.1, 1.0, (6, 2))
    answer = fo.Policy(Weakest()).allocate(fo.Instance(demands, [3, 3]), solver="CLARABEL")
    assert units and max(units) <= answer.objective
