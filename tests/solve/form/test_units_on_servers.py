"""Tasks in units near 1 on several servers fit capacities and limits to the last digit."""

from __future__ import annotations

import numpy as np
import pytest

import fairopt as fo
from fairopt.allocation import feasibility
from fairopt.solve.form.program import Program
from fairopt.solve.form.units_on_servers import LevelUnits, RowUnits


@pytest.mark.parametrize("objective", [fo.AlphaFair(1), fo.AlphaFair(1) + fo.Total()], ids=repr)
@pytest.mark.parametrize("times", [1.0, 1.0 + 1e-14, 1.5])
def test_fitted_tasks_exceed_nothing_and_lose_little(objective: fo.Objective, times: float) -> None:
    instance = fo.datasets.log_uniform(30, 3, n_servers=3, different_servers=True, limits=True, seed=1)
    program = Program(instance, objective, ())
    units = LevelUnits(program) if len(objective.terms()) == 1 else RowUnits(program, program.size[:, None])
    table = fo.Policy(objective).allocate(instance).tasks_by_server
    fitted = program.expand(units.fitted(times * table))
    assert feasibility(instance, fitted) == 0.0
    if times < 1.1:
        np.testing.assert_allclose(fitted, table, rtol=1e-12)


def test_prices_of_levels_are_those_of_natural_units() -> None:
    instance = fo.Instance([[1], [3]], [[2], [3]], weights=[1, 2])
    units = LevelUnits(Program(instance, 3 * fo.AlphaFair(2), ()))
    assert units.natural_prices(np.array([[1.0, 0.5]])).tolist() == [9.0, 4.5]  # the factor times the sum of weights
