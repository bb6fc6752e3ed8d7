"""The unit of gaps of an objective with variables of its own, from proven bounds.

``f(x) = max_v g(x, v)`` has variables v in rows. A solver finds v, its value and the multipliers s of ``x = at``, each
with noise relative to the constants of rows, which may be 1e13 where f changes by 1: such multipliers have been off by
1,000 times the value. Weak duality holds whatever they are: the dual bound U on ``g(x, v) - s (x - at)`` over x from 0
to ``at`` and all v gives, with x and s of the shape of the unknowns,

    value  <=  f(at)  <=  U,      f(x)  <=  U + s (x - at)   for 0 <= x <= at.

So only what is proved to change is a unit. Scaling v along with x, as for other objectives, would scale the constants
of rows and call that a change of f. Floats: poor multipliers make U large and the unit small, so that gaps come out too
large and never too small; what rows hide of the value itself is added to the gap (`Slope.hidden`). Proof: Bound 7.4,
docs/methods/cone.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.algebra import Slope
from fairopt.blocks.table_rows import TableRows
from fairopt.blocks.written_values import errors_of
from fairopt.proof.conic import REACH, ConeProgram, ConicBound, cone_form, points_of, ranges_by_column
from fairopt.proof.lagrangian import charged_at
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import cp, sp
from fairopt.runtime.tolerances import GAP_TOLERANCE, TERM_ROUNDING
from fairopt.solve.form.compiled import CompiledHere, Posed


def slope_of(
    form: cp.Expression,
    conditions: Iterable[cp.Constraint],
    unknowns: cp.Variable,
    at: Float,
    typical: Float,
    restore: Callable[[], None],
) -> Slope:
    """The `Slope` of ``f(x) = max_v g(x, v)`` at x, with variables v in ``conditions``; ``restore`` sets v again.

    The unit is that of `drop_towards_zero`: the fall to half of x, or the slope of a tangent that falls at least as
    much, or the fall to twice x. If this is nothing it is the change to half of x, or if that is proved to be nothing,
    to ``typical`` values, or to none. Each is less what is not proved; the unit is 0 if nothing is.
    """
    # conditions on x alone say nothing of f, and those that hold at x need not hold at 2 x
    some = [c for c in conditions if any(v.id != unknowns.id for v in c.variables())]
    written = cone_form(Posed(cp.Maximize(form), some), unknowns)
    if written is None or not isinstance(compiled := written[0], CompiledHere):
        return Slope(0.0, 0.0)
    fixed = _Fixed(compiled, written[1], unknowns)

    def tangent(where: Float, best: Callable[[], None] | None = None) -> _Tangent:
        """The tangent of f at a point, and the value there at variables that are ``best`` or the solver's."""
        found = fixed.tangent(np.ravel(where, order="F"))
        if found is None or form.value is None:
            return _Tangent(-np.inf, np.inf, 0.0, np.inf)
        if best is not None:  # the answer states its own v, not those of the solve above
            best()
            unknowns.save_value(np.array(where))
        hidden = sum(_hidden(one, one.dual_value) for one in some)
        return _Tangent(float(form.value), *found, hidden)

    with np.errstate(all="ignore"):
        here = tangent(at, restore)

        def change(there: _Tangent) -> float:
            """What is proved of the change of f to a point."""
            return max(here.least - there.most, there.least - here.most, 0.0)

        unit = 0.0
        if np.isfinite(here.most):
            # by the tangent f falls to half of x by s x / 2 - (U - f) at least, which is half of this slope; where a
            # solver breaks rows by 1e-11, U is below the value by as much, and a flat f had a slope of 1e-11
            to_half, slope = tangent(at / 2), here.slope - 2 * (here.most - here.least)
            half = max(change(to_half), slope / 2)  # rows may leave no values at half of x
            if slope < half:  # a peak near x has no slope there, but f falls beyond it
                slope = max(slope, change(tangent(2 * at)))
            unit = max(min(half, slope), 0.0) or half
            if unit == 0:
                unit = next(filter(None, (change(tangent(where)) for where in (typical, 0 * at))), 0.0)
                # a larger change elsewhere is no unit while f may still change to half of x by more than gaps may be
                most = max(here.most - to_half.least, to_half.most - here.least)
                unit *= most <= GAP_TOLERANCE * unit
        restore()
        unknowns.save_value(np.array(at))
    return Slope(unit, 2.0 * here.hidden) if unit > 0 else Slope(0.0, 0.0)


def slope_by_bound(
    bound: ConicBound, excess: float, conditions: Iterable[tuple[cp.Constraint, Any]], unknowns: cp.Variable
) -> Slope:
    """A smaller `Slope` than that of `slope_of`, by the multipliers y of a bound U on the whole program; 0 if none is
    proved.

    The variables have their values at the answer x, which the bound exceeds by an ``excess``; ``conditions`` are those
    of the program besides capacities, with dual values. Rows on x alone have slacks ``b - t A x`` at t x, so that

        f(t x)  <=  U - sum_r y_r (b - t A x)_r,     f(x) - f(x / 2)  >=  sum_r y_r (b - A x / 2)_r - excess

    and more by what y leaves of tasks. Conditions on x alone have to hold at t x, as ranges of v rest on them, but for
    rows of tables, such as lower bounds on tasks: where these fail, U is that of the wider ranges without them. Nothing
    is solved: `slope_of` doubled the time of notions of 20 users.
    """
    x, some, rest = np.asarray(unknowns.value, dtype=float), list[tuple[cp.Constraint, Any]](), list[cp.Constraint]()
    for condition, dual in conditions:
        if any(v.id != unknowns.id for v in condition.variables()):
            some.append((condition, dual))
        elif not isinstance(condition, TableRows):  # others may be rows of aggregates, which are no rows on x alone
            rest.append(condition)
    unknowns.save_value(x / 2)
    holds = not any(np.max(condition.violation(), initial=0.0) > 0 for condition in rest)
    unknowns.save_value(x)
    program, flat = bound.program, np.zeros(len(bound.program.c))
    flat[bound.ours] = np.ravel(x, order="F")
    rows, ours = program.entries, np.zeros(len(flat), dtype=bool)
    ours[bound.ours] = True
    alone = np.bincount(rows.row, ~ours[rows.column], rows.n) == 0
    load = np.bincount(rows.row, rows.factor * flat[rows.column], rows.n)
    size = np.abs(program.b) + np.bincount(rows.row, np.abs(rows.factor) * flat[rows.column], rows.n)
    half, zero, linear = program.b - load / 2, slice(program.dims.zero), program.linear
    holds &= not half[zero][alone[zero]].any()
    if bound.assumed or not holds:
        return Slope(0.0, 0.0)
    broken = alone & (half < 0)
    broken[: linear.start] = broken[linear.stop :] = False
    if broken.any():
        program = program.without(broken)
        wider = program.bound(bound.y, program.least, program.most)
        excess += -wider.low - bound.value  # infinite where a range is
    y = np.where(alone, bound.y, 0.0)[linear]
    # what y leaves of tasks was charged where that costs most, and costs less at t x: so limits that are no rows count
    left = (program.c + program.transposed @ bound.y)[bound.ours]
    noise = TERM_ROUNDING * (np.abs(program.c) + program.sizes @ np.abs(bound.y))[bound.ours]
    x, ranges = flat[bound.ours], (program.least[bound.ours], program.most[bound.ours])
    charged = charged_at(left - noise, left + noise, *ranges)
    hidden = sum(_hidden(condition, dual) for condition, dual in some)
    least = max(excess, 0.0) + hidden + TERM_ROUNDING * float(y @ size[linear])
    fall = float(y @ half[linear]) + float(((left - noise) * x / 2 - charged).sum())
    unit = min(fall - least, float(y @ load[linear]) - float((left + noise) @ x) - 2 * least)
    return Slope(unit, 2.0 * hidden) if unit > 0 else Slope(0.0, 0.0)


class _Fixed:
    """``f(w) = max_v g(w, v)`` as a cone program ``min c'z + d, b - A z in K``, in which equations fix the unknowns."""

    def __init__(self, compiled: CompiledHere, columns: Mapping[int, Indices], unknowns: cp.Variable) -> None:
        self.compiled, self.at = compiled, columns[unknowns.id]
        data, n = compiled.data, len(self.at)
        self.ranges = ranges_by_column(compiled.problem, columns, len(data["c"]))
        chosen = sp.csc_array((np.ones(n), (np.arange(n), self.at)), shape=(n, len(data["c"])))
        dims = replace(data["dims"], zero=data["dims"].zero + n)
        self.data = data | {"A": sp.csc_array(sp.vstack([chosen, data["A"]])), "dims": dims}

    def tangent(self, where: Float) -> tuple[float, float] | None:
        """``U`` and ``s x`` at unknowns x, with v and the multipliers of conditions left in these; None if not solved.

        The multipliers y of the other rows are a dual point of ``min c'z + d + s (x - where)`` over x from 0 to
        ``where``, which is compiled already.
        """
        compiled, n = self.compiled, len(where)
        points = points_of(compiled, self.data | {"b": np.concatenate([where, compiled.data["b"]])})
        if points is None:
            return None
        z, y, s = points[0], points[1][n:], points[1][:n]
        compiled.leave(z, y)
        least, most = (side.copy() for side in self.ranges)
        least[self.at], most[self.at] = 0.0, where
        program = ConeProgram.of(compiled, least, most)
        c = program.c.copy()
        c[self.at] += s
        program = replace(program, c=c, offset=program.offset - float(s @ where))
        others, reach = np.ones(len(z), dtype=bool), REACH * np.maximum(1.0, np.abs(z))
        others[self.at] = False
        bound = program.bound(program.repaired(y, others, others), -reach, reach)
        return -bound.low, float(s @ where)


class _Tangent(NamedTuple):
    """The value of f that is reached at x, ``most`` that it can be there, the slope s x of the tangent, and what
    violations and rounding of rows may have added to the value.
    """

    value: float
    most: float
    slope: float
    hidden: float

    @property
    def least(self) -> float:
        """What f is at least: the value, less what rows hide.

        Nothing is known if that is above what f can be: beside constants of 1e14 a solver broke rows by 1.7e15, of
        which multipliers that were as wrong counted 2e13.
        """
        least = self.value - self.hidden
        return least if least <= self.most else -np.inf


def _hidden(condition: cp.Constraint, dual: Any) -> float:
    """The violation and the rounding of a constraint at the values of its variables, times its multipliers."""
    kinds = cp.constraints
    if isinstance(condition, (kinds.Inequality, kinds.Equality, kinds.Zero)):
        size, parts = np.abs(dual), [condition.expr]
    else:  # a cone has a list of multipliers by argument, of other shapes than these: the largest stands for all
        duals = dual if isinstance(dual, list) else [dual]
        size, parts = max(float(np.max(np.abs(one), initial=0.0)) for one in duals), condition.args
    errors = sum(float(np.sum(size * np.broadcast_to(errors_of(one), one.shape))) for one in parts)
    return float(np.sum(size * condition.violation())) + errors
