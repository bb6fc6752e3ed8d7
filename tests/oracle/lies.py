"""Solvers that mislead: they do the work, and then leave something else behind under the same status."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.routes import solvers

Change = Callable[[NDArray[np.floating[Any]]], Any]
UNKNOWNS = ("tasks in units", "bundles and tasks in units")


def nothing(values: Any) -> Any:
    """No change."""
    return values


@contextmanager
def lying(point: Change = nothing, duals: Change = nothing, status: str | None = None) -> Iterator[None]:
    """Every solver's point and dual values are changed before fairopt sees them."""
    honest = solvers.run

    def run(problem: cp.Problem, solver: str, **options: Any) -> Any:
        attempt = honest(problem, solver, **options)
        for variable in problem.variables():
            if variable.name() in UNKNOWNS and variable.value is not None:
                variable.save_value(np.asarray(point(np.array(variable.value))))  # unchecked, as a solver's are
        for condition in problem.constraints:
            for dual in condition.dual_variables:
                if dual.value is not None:
                    dual.save_value(np.asarray(duals(np.array(dual.value, dtype=float))))
        return attempt if status is None else type(attempt)(solver, status, attempt.seconds)

    solvers.run = run
    try:
        yield
    finally:
        solvers.run = honest
