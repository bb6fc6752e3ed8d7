"""`Unbounded` is raised where growth without bound is seen, and never for a solver's report alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from oracle.lies import lying
from scipy.optimize import linprog

import fairopt as fo
from fairopt.solve.cone.unbounded import refuse_unbounded
from fairopt.solve.form.program import ConeModel, Program, objective_form

THREE = fo.Instance([[1, 2], [2, 1], [1, 1]], [100, 100])
Written = tuple[cp.Expression, list[cp.Constraint]]


@dataclass(frozen=True, repr=False)
class With(fo.Objective):
    """Tasks plus a function of own variables under own conditions."""

    write: Callable[[fo.Model, cp.Variable], Written]
    options: tuple[tuple[str, Any], ...] = ()

    def expression(self, model: fo.Model) -> cp.Expression:
        more, conditions = self.write(model, cp.Variable(2, **dict(self.options)))
        model.required += conditions
        return cp.sum(model.tasks) + more


def look(objective: fo.Objective) -> None:
    """What a method does when a solver calls the program unbounded."""
    program = Program(THREE, objective, ())
    cone = ConeModel(program)
    form, *_ = objective_form(objective, cone.model, cone.unknowns)
    refuse_unbounded(objective, form, cone.all_constraints, cone.unknowns)


GROWS: dict[str, fo.Objective] = {
    "a variable": With(lambda m, v: (v[0], [])),
    "minus a variable": With(lambda m, v: (-v[0], [])),
    "of one sign": With(lambda m, v: (v[0], []), (("nonneg", True),)),
    "two that go together": With(lambda m, v: (v[0] - v[1], [v[1] >= v[0] / 2, v[1] - v[0] <= m.tasks[0]])),
    "an equation": With(lambda m, v: (v[0], [v[0] == v[1] + m.tasks[0]])),
    "one bounded, one not": With(lambda m, v: (cp.sum(v), [v[0] <= 7])),
    "slower from a thousand on": With(lambda m, v: (cp.minimum(10 * v[0], v[0] + 9000), [])),
    "a smooth minimum": With(lambda m, v: (-cp.log_sum_exp(-v), [])),
    "under a cone": With(lambda m, v: (v[0], [cp.norm(v[1]) <= m.tasks[0]])),
}
BOUNDED: dict[str, fo.Objective] = {
    "no variable of its own": With(lambda m, v: (cp.sum(cp.sqrt(m.tasks)), [])),
    "far away": With(lambda m, v: (v[0], [v[0] <= 1e12])),
    "by tasks": With(lambda m, v: (v[0], [v[0] <= 1e9 * m.tasks[0]])),
    "by its sign": With(lambda m, v: (v[0], []), (("nonpos", True),)),
    "by its range": With(lambda m, v: (v[0], []), (("bounds", [0, 1e11]),)),
    "by a small row beside large ones": With(
        lambda m, v: (1e-3 * v[0], [cp.hstack([1e6 * v[1], 1e-6 * v[0]]) <= cp.hstack([v[1] + 1, 1])])
    ),
    "nearly along a line": With(lambda m, v: (v[0] - v[1], [1e4 * (v[0] - v[1]) <= 1])),
    "by a small curvature": With(lambda m, v: (v[0] - 1e-15 * cp.square(v[0]), [])),
    "by a ball": With(lambda m, v: (v[0], [cp.norm(v) <= 1e10])),
    "growing to a limit": With(lambda m, v: (-cp.exp(-1e-3 * v[0]), [])),
}


@pytest.mark.parametrize("objective", GROWS.values(), ids=GROWS)
def test_growth_without_end_is_seen(objective: fo.Objective) -> None:
    with pytest.raises(fo.errors.Unbounded, match=r"With.* grows without bound in variables of its own; bound them"):
        look(objective)


@pytest.mark.parametrize("objective", BOUNDED.values(), ids=BOUNDED)
def test_what_is_bounded_is_not_called_unbounded(objective: fo.Objective) -> None:
    look(objective)


@dataclass(frozen=True, repr=False)
class Random(fo.Objective):
    """Whole numbers: a sum of own variables under rows that tasks shift."""

    seed: int

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(self.seed)
        size, rows = rng.integers(1, 4), rng.integers(1, 6)
        matrix = rng.integers(-3, 4, (rows, size)) * (rng.random((rows, size)) < 0.7)
        return matrix, rng.integers(0, 10, rows), rng.integers(-2, 3, size)

    def expression(self, model: fo.Model) -> cp.Expression:
        matrix, room, worth = self.data()
        own = cp.Variable(len(worth))
        model.required.append(matrix @ own <= room + model.tasks[0])
        return cp.sum(model.tasks) + worth @ own


@pytest.mark.parametrize("seed", range(20))
def test_growth_is_seen_exactly_where_a_direction_of_it_exists(seed: int) -> None:
    """SciPy finds a direction along which all rows hold and the objective grows, if there is one."""
    objective = Random(seed)
    matrix, room, worth = objective.data()
    found = linprog(-worth, A_ub=matrix, b_ub=0 * room, bounds=(-1, 1))
    if -found.fun > 1e-9:
        with pytest.raises(fo.errors.Unbounded):
            look(objective)
    else:
        look(objective)


@dataclass(frozen=True, repr=False)
class Saturating(fo.Objective):
    rate: float

    def expression(self, model: fo.Model) -> cp.Expression:
        return -cp.sum(cp.exp(-self.rate * model.tasks))


def saturated(rate: float) -> list[float]:
    """Users 1 and 2 load both resources by 3 together, user 3 by 2: slopes of 3 to 2, and 3 x + y = 100."""
    third = 25 + 3 / 4 * float(np.log(1.5)) / rate
    return [(100 - third) / 3, (100 - third) / 3, third]


@pytest.mark.parametrize("rate", [0.1, 1.5, 5])
def test_an_objective_of_tasks_alone_is_never_unbounded(rate: float) -> None:
    """Its slope at 20 tasks is 1e-43 at a rate of 5: in units of that, solvers call it unbounded."""
    np.testing.assert_allclose(fo.Policy(Saturating(rate)).allocate(THREE).tasks, saturated(rate), rtol=1e-5)


@pytest.mark.parametrize("solver", ["CLARABEL", "ECOS", "SCS"])
@pytest.mark.parametrize("rate", [1.5, 5])
def test_no_solver_makes_an_objective_of_tasks_alone_unbounded(rate: float, solver: str) -> None:
    if solver not in cp.installed_solvers():
        pytest.skip(f"{solver} is not installed")
    try:
        a = fo.Policy(Saturating(rate)).allocate(THREE, solver=solver)
    except fo.errors.NotCertified:
        return
    np.testing.assert_allclose(a.tasks, saturated(rate), rtol=1e-5)


@pytest.mark.parametrize("objective", [Saturating(0.1), fo.WeightedLog() + Saturating(0.1)], ids=["tasks", "bundles"])
def test_solvers_that_call_everything_unbounded_are_no_evidence(objective: fo.Objective) -> None:
    with lying(status="unbounded"), pytest.raises(fo.errors.NotCertified, match="unbounded"):
        fo.Policy(objective).allocate(THREE)


def test_bundles_that_come_with_endless_growth_are_unbounded() -> None:
    with pytest.raises(fo.errors.Unbounded, match="With"):
        fo.Policy(fo.WeightedLog() + GROWS["two that go together"]).allocate(THREE)
