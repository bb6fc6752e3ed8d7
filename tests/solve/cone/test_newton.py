"""Newton's method for users' objectives beyond the range of cone solvers, against exact methods and closed forms."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.runtime.clock import Clock
from fairopt.solve.cone import newton
from fairopt.solve.dispatch import best
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Settings

POOL = fo.Instance([[1, 2], [2, 1], [1, 1]], [100, 100])
SERVERS = fo.Instance([[1, 2], [2, 1], [1, 1]], [[100, 100], [30, 80]], eligible=[[1, 1], [1, 0], [0, 1]])


@dataclass(frozen=True, repr=False)
class Powers(fo.Objective):
    """Minus the sum of a power of the tasks: AlphaFair of one more, in units far from 1."""

    power: float

    def expression(self, model: fo.Model) -> cp.Expression:
        return -cp.sum(cp.power(model.tasks, -self.power))


@dataclass(frozen=True, repr=False)
class Kinked(fo.Objective):
    """An objective without a slope at its optimum."""

    def expression(self, model: fo.Model) -> cp.Expression:
        return -cp.max(cp.exp(-5 * model.tasks))


def climbed(objective: fo.Objective, instance: fo.Instance, *constraints: fo.Constraint) -> np.ndarray:
    """Tasks by user of the certified answer."""
    program = Program(instance, objective, constraints)
    assert newton.newton_applies(program)
    answer = best(program, newton.solve_by_newton(program, Settings()))
    assert answer.ok and answer.method == "newton"
    return program.pairs.sum(answer.tasks)


@pytest.mark.parametrize(
    "instance, power",
    [(POOL, 3), (POOL, 40), (SERVERS, 15), (POOL.with_task_limits([None, 7, None]), 3)],
)
def test_powers_of_tasks_are_those_of_alpha_fairness(instance: fo.Instance, power: float) -> None:
    right = fo.Policy(fo.AlphaFair(power + 1, fo.Tasks())).allocate(instance)
    np.testing.assert_allclose(climbed(Powers(power), instance), right.tasks, rtol=2e-4)


@pytest.mark.parametrize(
    "constraint",
    [fo.Reserve(0, 0.5), fo.MinTasks({"user3": 40}), fo.EqualShares(fo.Tasks()), fo.EnvyFree(), fo.MaxTasks(20)],
    ids=repr,
)
def test_conditions_of_a_policy_hold(constraint: fo.Constraint) -> None:
    right = fo.Policy(fo.AlphaFair(9, fo.Tasks()), [constraint]).allocate(POOL)
    np.testing.assert_allclose(climbed(Powers(8), POOL, constraint), right.tasks, rtol=2e-4)


def test_what_cone_solvers_cannot_prove_is_tried_by_newton() -> None:
    a = fo.Policy(Powers(40)).allocate(POOL)
    assert a.certificate.method == "newton"
    assert "programs)" in str(a.certificate.tried[-1])


def test_a_solver_that_is_asked_for_takes_the_steps_itself() -> None:
    found = fo.Policy(Powers(40)).allocate(POOL, solver="CLARABEL").certificate
    assert found.method == "newton"
    assert {attempt.solver for attempt in found.tried} == {"CLARABEL"}


@dataclass(frozen=True)
class Saturating(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model: fo.Model) -> cp.Expression:
        return -cp.sum(cp.exp(-cp.multiply(self.rates, model.tasks)))


def test_a_point_from_which_nothing_rises_beyond_noise_is_proposed() -> None:
    instance = fo.Instance([[0, 3], [3, 0]], [[5, 9], [93, 45]])  # each user has its own resource; slopes below 1e-190
    found = fo.Policy(Saturating((24.6, 24.9))).allocate(instance)
    assert found.certificate.method == "newton"
    assert found.tasks[0] == pytest.approx(18, rel=1e-9)


def test_an_objective_without_a_slope_ends_without_an_answer() -> None:
    program = Program(POOL, Kinked(), ())
    answer = best(program, newton.solve_by_newton(program, Settings()))
    assert not answer.ok


@pytest.mark.parametrize("objective", [fo.Total(), fo.OrderedWeighted([3, 2, 1])], ids=repr)
def test_objectives_that_are_bounded_in_closed_form_are_left_to_cones_unless_they_are_curves(
    objective: fo.Objective,
) -> None:
    assert not newton.newton_applies(Program(POOL, objective, ()))
    assert newton.newton_applies(Program(POOL, fo.AlphaFair(2), ()))


def test_the_clock_is_looked_at() -> None:
    program = Program(POOL, Powers(8), ())
    answer = best(program, newton.solve_by_newton(program, Settings(clock=Clock(1e-9))))
    assert not answer.ok and "(0 programs)" in answer.tried[0].status
