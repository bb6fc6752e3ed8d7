"""How often a call writes what only CVXPY can evaluate: once, for the solver and for points."""

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.model import Point
from fairopt.solve.form.program import ConeModel, Program

POOL = fo.Instance([[2, 3], [2, 1], [1, 4]], [6, 4], task_limits=[3, 1, 0])


def test_an_objective_and_a_constraint_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written, made, init = [], [], ConeModel.__init__

    def objective(model):
        written.append("objective")
        return cp.sum(cp.log(1 + model.tasks))

    def constraint(model):
        written.append("constraint")
        return model.tasks[0] <= 2 * model.tasks[1]

    monkeypatch.setattr(ConeModel, "__init__", lambda cone, *given: (made.append(cone), init(cone, *given))[1])
    answer = fo.Policy(objective, [constraint]).allocate(POOL)
    assert answer.certificate.ok and len(answer.certificate.tried) == 1
    assert len(made) == 1
    assert written.count("objective") == 1  # in units for the solver, of which points are multiples
    assert answer.objective == pytest.approx(np.log(1 + answer.tasks).sum())
    assert written.count("constraint") == 1


def test_a_block_that_asks_for_the_solver_is_written_for_each() -> None:
    asked = []

    def objective(model):
        asked.append(getattr(model, "solver", None))
        return cp.sum(cp.log(1 + model.tasks))

    assert fo.Policy(objective).allocate(POOL).certificate.solver == "CLARABEL"
    assert {"HIGHS", "CLARABEL"} <= set(asked)


@pytest.mark.parametrize("function", [lambda m: cp.sum(cp.entr(m.tasks)), lambda m: cp.geo_mean(1 + m.tasks)])
def test_a_kept_expression_has_the_values_of_a_new_one(function) -> None:
    objective = fo.blocks.InlineObjective(function)
    program = Program(POOL, objective, ())
    for tasks in ([0.5, 1.0], [0.0, 0.3], [1.1, 0.2]):
        point = program.point(np.array(tasks))
        assert objective.value(point) == pytest.approx(objective.value(Point(point.instance, point.tasks_by_server)))
        assert objective.value(point.scaled(0.5)) == pytest.approx(function(point.scaled(0.5)).value)
