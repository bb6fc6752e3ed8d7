"""Solvers that mislead: they do the work, and then leave something else behind under the same status."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib import import_module
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fairopt.proof import conic
from fairopt.solve.cone.levels import BySimplex, LevelProblem, LevelSolution
from fairopt.solve.cone.vertex import IN_FRACTIONS
from fairopt.solve.form import solvers
from fairopt.solve.form.compiled import Compiled, Left, Posed, whole
from fairopt.solve.form.program import ConeModel

Change = Callable[[NDArray[np.floating[Any]]], Any]
cone_solve: Any = import_module("fairopt.solve.cone.solve")
Problem = cp.Problem | Posed
UNKNOWNS = ("tasks in units", "bundles and tasks in units")


def nothing(values: Any) -> Any:
    """No change."""
    return values


class Solved(NamedTuple):
    """What a solver left in a problem, in the order of its variables and conditions."""

    attempt: Any
    values: list[Any]
    duals: list[list[Any]]
    points: Any

    @classmethod
    def of(cls, problem: Problem, attempt: Any, left: Left) -> Solved:
        """What it left in this one."""
        duals = [[dual.value for dual in c.dual_variables] for c in problem.constraints]
        return cls(attempt, [v.value for v in problem.variables()], duals, left.points)

    def left_in(self, problem: Problem, solver: str, left: Left) -> Any:
        """Leave it in an equal problem."""
        if self.points is not None:
            left.compiled, left.points = Compiled.of(problem, solver, {}), deepcopy(self.points)
        duals = (dual for c in problem.constraints for dual in c.dual_variables)
        found = [*self.values, *(value for values in self.duals for value in values)]
        for variable, value in zip((*problem.variables(), *duals), deepcopy(found), strict=True):
            variable.save_value(value)
        return self.attempt


SOLVED: dict[Any, Solved] = {}  # by problem: each is lied about in many ways, and honestly solved once
BOUNDS: dict[Any, conic.ConicBound | None] = {}  # by problem: a bound of its own solve, whatever was left in it


def described(problem: Problem) -> tuple[Any, ...]:
    """The same for equal problems, whatever the names that CVXPY makes up, and different for others."""
    problem, names = whole(problem), dict[str, str]()
    words = re.sub(r"\b(var|param)\d+\b", lambda m: names.setdefault(m[0], f"{m[1]} {len(names)}"), str(problem))
    numbers = [c.value for c in (*problem.constants(), *problem.parameters())]
    numbers = [v.toarray() if sparse.issparse(v) else np.asarray(v) for v in numbers]
    leaves = [(v.shape, tuple(sorted((k, str(a)) for k, a in v.attributes.items()))) for v in problem.variables()]
    return words, tuple(leaves), *((v.shape, v.tobytes()) for v in numbers)


def honestly(
    problem: Problem,
    solver: str,
    run: Callable[..., Any],
    options: dict[str, Any],
    left: Left,
) -> Any:
    """Solve a problem, or leave in it what was found when an equal one was solved."""
    key = (solver, repr(sorted(options.items())), described(problem))
    if key in SOLVED:
        return SOLVED[key].left_in(problem, solver, left)
    attempt = run(problem, solver, left=left, **options)
    if attempt.status in solvers.SOLVED:
        SOLVED[key] = Solved.of(problem, attempt, left)
    return attempt


def bounded(
    problem: Problem, unknowns: cp.Variable, top: NDArray[np.floating[Any]], find: Callable[..., Any]
) -> conic.ConicBound | None:
    """The bound of a problem, or that of an equal one."""
    key = (described(problem), [v.id for v in problem.variables()].index(unknowns.id), top.tobytes())
    if key not in BOUNDS:
        BOUNDS[key] = find(problem, unknowns, top)
    return BOUNDS[key]


@contextmanager
def lying(point: Change = nothing, duals: Change = nothing, status: str | None = None) -> Iterator[None]:
    """Every solver's point and dual values are changed before fairopt sees them."""
    honest, find, steps, refined = solvers.run, conic.conic_bound, BySimplex._solve, cone_solve.at_vertex

    def stepped(programs: BySimplex, problem: LevelProblem) -> LevelSolution:
        found, unknowns = steps(programs, problem), programs.cone.unknowns
        unknowns.save_value(np.asarray(point(np.array(unknowns.value))))
        of_users, prices = np.asarray(duals(found.duals)), np.asarray(duals(found.prices))
        further = None if found.dual is None else np.asarray(duals(found.dual))
        return found._replace(duals=of_users, prices=prices, dual=further)

    def run(problem: Problem, solver: str, left: Left | None = None, **options: Any) -> Any:
        left = left or Left()
        attempt = honestly(problem, solver, honest, options, left)
        change(problem, left)
        return attempt if status is None else type(attempt)(solver, status, attempt.seconds)

    def vertex(problem: Problem, cone: ConeModel, *rest: Any) -> Any:
        attempt = refined(problem, cone, *rest)
        if attempt is not None and attempt.status == IN_FRACTIONS:
            change(problem, cone.left)
        return attempt

    def change(problem: Problem, left: Left) -> None:
        if left.points is not None:
            left.points = left.points[0], np.asarray(duals(left.points[1]))
        for variable in problem.variables():
            if variable.name() in UNKNOWNS and variable.value is not None:
                variable.save_value(np.asarray(point(np.array(variable.value))))  # unchecked, as a solver's are
        for condition in problem.constraints:
            for dual in condition.dual_variables:
                if dual.value is not None:
                    dual.save_value(np.asarray(duals(np.array(dual.value, dtype=float))))

    cone_solve.at_vertex = vertex
    solvers.run, BySimplex._solve = run, stepped  # type: ignore[method-assign]

    def bound(problem: Problem, unknowns: cp.Variable, top: Any, left: Left | None = None, *rest: Any) -> Any:
        return bounded(problem, unknowns, top, find) if left is None else find(problem, unknowns, top, left, *rest)

    conic.conic_bound = bound
    try:
        yield
    finally:
        solvers.run, conic.conic_bound, BySimplex._solve = honest, find, steps  # type: ignore[method-assign]
        cone_solve.at_vertex = refined
