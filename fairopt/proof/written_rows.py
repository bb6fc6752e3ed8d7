"""Whether rows and costs that were written for a solver are those of the problem itself.

The bound of a cone program reads the data that its solver had. Were a row of these wrong, answer and bound would be
wrong alike: too small a right side makes 0 tasks the proven optimum. Therefore the expressions of CVXPY and the tables
of rows are evaluated at a point drawn at random, where affine functions that differ have the same value with
probability 0 (Schwartz 1980). With data ``b - A z in K`` and costs ``c'z + d``, z of all n variables, it is asked that

    | (b - A z)_r  -  slack_r(z) |  <=  SAME (abs(b) + abs(A) z)_r    for each row r,

and the same of the cost. Nothing of how rows were written is used: values are CVXPY's `value`. Comparing matrices
instead would need CVXPY's own, whose time writing rows here saves. Floats: a coefficient that is wrong by less than
1e-9 of its row's terms passes, which is below what certificates allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairopt.blocks.own import ranges
from fairopt.blocks.table_rows import TableRows
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp
from fairopt.solve.form.compiled import Compiled, CompiledHere

SAME = 1e-9  # of the terms of a row: rounding leaves less
SEED = 1980  # a fixed draw: the same problem gets the same verdict again


def is_as_asked(compiled: Compiled) -> bool:
    """Whether data are those of a problem; what CVXPY's own chain compiled is."""
    if not isinstance(compiled, CompiledHere):
        return True
    data = compiled.data
    a, b, c = data["A"], np.asarray(data["b"]), np.asarray(data["c"])
    # all of about one size, so that no term of a row hides in the rounding of the others; no feasible point is needed
    point = np.random.default_rng(SEED).uniform(0.5, 1.5, len(c))
    slack, size = b - a @ point, np.abs(b) + abs(a) @ np.abs(point)
    expected = np.full(len(b), np.nan)  # a row that no constraint claims stays NaN, and fails
    before = [variable.value for variable in compiled.all_variables]
    try:
        for variable in compiled.all_variables:
            at = compiled.starts[variable.id]
            variable.save_value(point[at : at + variable.size].reshape(variable.shape, order="F"))
        cost = np.asarray(compiled.cost.value).item()
        for condition in compiled.conditions:
            expected[compiled.rows[condition.id]] = _slack(condition)
    finally:
        for variable, value in zip(compiled.all_variables, before, strict=True):
            variable.save_value(value)
    equations = data["dims"].zero  # both signs of an equation are right
    slack[:equations], expected[:equations] = np.abs(slack[:equations]), np.abs(expected[:equations])
    if compiled.bounds is not None and compiled.bounds.stop > compiled.bounds.start:
        expected[compiled.bounds] = _slack_of_bounds(compiled.all_variables, point)
    given, terms = float(c @ point) + compiled.offset, float(np.abs(c) @ np.abs(point)) + abs(compiled.offset)
    return bool((np.abs(slack - expected) <= SAME * size).all()) and abs(given - cost) <= SAME * max(terms, abs(cost))


def _slack(condition: Any) -> Float:
    """What a constraint's arguments are in its cone, in the order of a solver's rows."""
    kinds = cp.constraints
    if isinstance(condition, TableRows):
        return np.asarray(condition.right - condition.table @ np.ravel(condition.unknowns.value, order="F"))
    if isinstance(condition, (kinds.Equality, kinds.Inequality)):
        return -np.ravel(condition.expr.value, order="F")
    values = [np.asarray(argument.value, dtype=float) for argument in condition.args]
    if isinstance(condition, kinds.SOC):  # cone by cone: a radius, then the column (or row) that is inside
        radius, inside = np.ravel(values[0]), np.atleast_2d(values[1].T if values[1].ndim == 1 else values[1])
        cones = inside if condition.axis == 1 else (inside.T if values[1].ndim == 2 else inside)
        return np.column_stack([radius, cones]).ravel()
    columns = [np.ravel(value, order="F") for value in values]
    return np.column_stack(columns).ravel() if len(columns) == 3 else columns[0]


def _slack_of_bounds(variables: Sequence[Any], point: Float) -> Float:
    """The distances from least and from greatest values, where there are any."""
    least, most = (np.concatenate(sides) for sides in zip(*map(ranges, variables), strict=True))
    distances = np.concatenate([point - least, most - point])
    return distances[np.isfinite(distances)]
