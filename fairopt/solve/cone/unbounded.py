"""`Unbounded`, raised only if the objective grows along a ray in variables of its own (Proposition 7.10).

With variables v of the objective's own and tasks x, the objective f is unbounded if for some d all conditions hold at
``v + k d`` for every k >= 0, and ``f(x, v + k d)`` grows by at least a constant times k. Tasks and bundles are bounded
by capacities, so that d has none of them.

Solvers report bounded programs as unbounded if coefficients differ by many orders of magnitude, so each report is
tested. The objective's own variables are bounded by growing boxes; the difference of two answers is the direction along
which conditions and objective are evaluated. Why not the solver's own ray: CVXPY does not give it, and a false report
has none. Steps of 1e20 to 1e60 show a curvature that no step within the boxes does: ``-1e-12 v^2 + v`` still rises at
1e8. Entries of d that are noise are dropped in turn, as 1e-9 of them breaks a row at 1e60.

Of 8,620 random problems of the fuzzer solvers reported 35 as unbounded, and this found none to be. Without it
one that is would be `NotCertified`, after all solvers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.blocks.objectives import Objective
from fairopt.errors import Unbounded
from fairopt.proof.feasibility import relative_violation
from fairopt.proof.gradients import as_matrix, gradient_of
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp
from fairopt.runtime.tolerances import BLOCK_TOLERANCE
from fairopt.solve.form import solvers

Values = list[Float]  # one array for each variable

_BOXES = (1e2, 1e4, 1e6, 1e8)  # bounds of variables in turn: two that are solved give a direction
_NOISE = (0.0, 1e-9, 1e-6, 1e-3)  # relative sizes of entries of a direction that are dropped as noise, in turn
# So long that a small curvature shows in the slope: with steps of 1e2 to 1e6 four of the bounded programs of the tests
# were called unbounded.
_STEPS = 10.0 ** np.arange(20, 61, 10)
_FADES = 0.01  # a slope that falls by more over all steps may reach zero
# Relative to terms: a violation of 1e-10 cannot explain growth of 1e-3.
_EXACT, _SIGNIFICANT = 1e-10, 1e-3


def refuse_unbounded(
    objective: Objective, form: cp.Expression, conditions: Sequence[cp.Constraint], unknowns: cp.Variable
) -> None:
    """Raise `Unbounded` if the objective, which a solver reports as unbounded, grows along a ray.

    ``form`` is the expression maximised; ``unknowns`` are tasks and bundles, which capacities bound.
    """
    own = [v for v in cp.Problem(cp.Maximize(form), list(conditions)).variables() if v.id != unknowns.id]
    if not {v.id for v in own} & {v.id for v in form.variables()}:
        return
    before: Values | None = None
    fixed: list[cp.Constraint] = []  # the tasks: an unbounded direction does not depend on them
    for size in _BOXES:
        values = _within(form, [*conditions, *fixed], own, size)
        if values is None:
            continue
        if not fixed:
            fixed = [unknowns == np.array(unknowns.value)]
        if before is not None and _grows(form, conditions, own, before, values):
            raise Unbounded(f"{objective} grows without bound in variables of its own; bound them by lower or upper")
        before = values


def _within(
    form: cp.Expression, conditions: list[cp.Constraint], own: Sequence[cp.Variable], size: float
) -> Values | None:
    """Own variables at the optimum within a box; None if no solver finds it."""
    problem = cp.Problem(cp.Maximize(form), [*conditions, *(cp.abs(v) <= size for v in own)])
    for status in solvers.statuses(problem):
        if status in solvers.SOLVED:
            values = [np.array(v.value, dtype=float) for v in own]
            if all(np.isfinite(x).all() for x in values):
                return values
    return None


def _grows(
    form: cp.Expression, conditions: Sequence[cp.Constraint], own: Sequence[cp.Variable], start: Values, end: Values
) -> bool:
    """Whether all conditions hold and the objective grows steadily along the ray from one answer through another."""
    direction = [b - a for a, b in zip(start, end, strict=True)]
    length = max(float(np.abs(d).max(initial=0.0)) for d in direction)
    if not length > 0:
        return False
    _move(own, start)
    if not all(relative_violation(c) <= BLOCK_TOLERANCE for c in conditions):
        return False
    at_start = [_violation(c) for c in conditions]
    inside = {v.id for v in form.variables()}
    gradient = {v: gradient_of(form, v) for v in own if v.id in inside}
    if any(g is None for g in gradient.values()):
        return False
    for noise in _NOISE:
        ray = [np.where(np.abs(d) > noise * length, d / length, 0.0) for d in direction]
        reached: list[float] = []
        for step in _STEPS:
            _move(own, [at + step * d for at, d in zip(start, ray, strict=True)])
            holds = all(map(_allowed, own)) and all(map(_no_worse, conditions, at_start))
            if form.value is None or not holds:
                break
            reached.append(float(form.value))
        if len(reached) == len(_STEPS):
            slopes = np.diff(reached) / np.diff(_STEPS)
            least = _SIGNIFICANT * _terms(gradient, dict(zip(own, ray, strict=True)))
            if np.isfinite(slopes).all() and slopes.min() > least and slopes.min() >= (1 - _FADES) * slopes.max():
                return True
    return False


def _move(variables: Sequence[cp.Variable], values: Values) -> None:
    """Set the values of variables."""
    for variable, value in zip(variables, values, strict=True):
        variable.save_value(value)


def _allowed(variable: cp.Variable) -> bool:
    """Whether a variable's attributes, such as its sign, allow its value."""
    value = np.asarray(variable.value)
    return bool(np.allclose(variable.project(value), value, rtol=_EXACT, atol=0.0))


def _violation(condition: cp.Constraint) -> Float:
    """The violation of each row of a condition."""
    return np.atleast_1d(np.asarray(condition.violation(), dtype=float)).ravel(order="F")


def _no_worse(condition: cp.Constraint, before: Float) -> bool:
    """Whether no row of a condition is violated by more than before, up to rounding of its own terms."""
    more, size = _violation(condition) - before, np.zeros(before.size)
    if not more.max(initial=0.0) > 0:
        return not np.isnan(more).any()
    for argument in condition.args:
        if argument.value is None or argument.size not in (1, before.size):
            return False
        size = np.maximum(size, np.abs(np.ravel(argument.value, order="F")))
        if argument.is_affine():
            size = np.maximum(size, _terms(argument.grad, {v: v.value for v in argument.variables()}))
    return bool((more <= _EXACT * size).all())


def _terms(gradient: dict[cp.Variable, Any], direction: dict[cp.Variable, Any]) -> Any:
    """The change of each entry of an expression along a direction, without cancellation."""
    return sum(
        np.asarray(abs(as_matrix(gradient[v])).T @ np.abs(np.ravel(d, order="F")))
        for v, d in direction.items()
        if v in gradient
    )
