"""The dual bound of a cone program, for objectives that only CVXPY knows (Bound 7.3).

CVXPY turns any problem into ``min c'z + d subject to A z + s = b, s in K``, with z of n variables and b of m rows. By
weak duality (Ben-Tal and Nemirovski 2001), for any y in the dual cone K* and ranges l <= z <= u,

    c'z  =  r'z - b'y + y's  >=  sum_k min(r_k l_k, r_k u_k) - b'y,      r = c + A'y    (n,).

A solver's y is moved into the dual cone until r vanishes on the variables that CVXPY added; the rest of r is charged at
the range of each variable. Tasks have proven ranges. For the 1e-16 that rounding leaves on CVXPY's variables a range
far beyond their size at the answer is assumed, and the certificate says so. The solver's own dual objective would be
shorter, but it takes r for 0 and y for a point of K*.

Floats: r is charged at the worse end of what its rounding allows (`bound`): a bad y weakens the bound and cannot
falsify it. Of 24 programs of soft minima, logarithms, entropies, norms and other atoms 1 has an assumption; 4 have one
without sums that are exactly 0 (`exact_sums`, or `cancelled`), and 14 without the sign that r is given where only one
end of a range is known (`_aim`). Proof: Bound 7.3, docs/methods/cone.md.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.base import brief
from fairopt.blocks.own import ranges
from fairopt.proof.feasibility import charged_conditions, excess_of
from fairopt.proof.lagrangian import Multipliers, charged_at
from fairopt.proof.least_squares import least_squares, minimum_norm
from fairopt.proof.polish import Curves, cancelled
from fairopt.proof.ranges import Entries, ranges_within_cones
from fairopt.proof.written_rows import in_rows, is_as_asked
from fairopt.runtime import subprocesses
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import check, current
from fairopt.runtime.lazy import cp, sp
from fairopt.runtime.tolerances import EPS, GAP_TOLERANCE, TERM_ROUNDING
from fairopt.solve.form import solvers
from fairopt.solve.form.compiled import Compiled, Cones, Left, Posed, matrix_of, triangle
from fairopt.solve.form.program import ConeModel
from fairopt.solve.form.program_rows import BlockRows

SOLVED = 1e-12  # the tolerance of another solve
REACH = 100.0  # the assumed range of a variable that CVXPY added, in multiples of its size (at least 1) at the answer
CANCELLED = 1e-11  # of the largest terms: rounding leaves less
FLOOR = 1e-14  # of the largest coordinate of a dual point: the least unit of a step
ENOUGH = GAP_TOLERANCE / 1000  # a gap for which a dual point need not be balanced
HALVED = 0.5  # of what a dual point leaves: a step that leaves more is the last
ROOTS = 25  # rows of matrices whose steps are made by square roots: as a matrix these have 100,000 entries
NEWTON = 10  # steps onto the boundaries of cones
EIGEN_ROUNDING = 16.0  # of an eigenvalue in units of n EPS of the largest: 200 random matrices of 3 to 200 rows had 0.1
NEAR = 1e-3  # of a point: a solver's noise in the distance from the boundary of its cone
RESHAPED = ("symmetric", "diag", "PSD", "NSD", "hermitian", "complex", "imag", "sparsity")  # other columns in CVXPY


class ConicBound(NamedTuple):
    """A bound on the optimum, what it assumes, if anything, and the program, the dual point and the columns of unknowns
    that it is of.
    """

    value: float
    assumed: str
    program: ConeProgram
    y: Float
    ours: Indices


def assumption(names: Sequence[str]) -> str:
    """What charges of variables without a proven range assume; some of these are named."""
    which = f" ({', '.join(map(brief, names))})" if names else ""
    return f"variables without a proven range{which} stay within {REACH:g} times their size at the answer"


def cannot_hold(conditions: Sequence[cp.Constraint]) -> bool:
    """Whether it is proved that no point satisfies the conditions.

    Proved is a bound above 0 on the minimum of 0, by a dual ray that the solver leaves (Farkas' lemma). Variables
    without a range are charged at multiples of the largest number in the conditions, as there is no answer to say how
    large they are: a solver has called rows infeasible that a variable of -1e11 satisfies.
    """
    some = [one for one in conditions if one.variables()]
    if not all(one.value() for one in conditions if not one.variables()):
        return True
    bound = conic_bound(Posed(cp.Minimize(0), some), None, np.zeros(0)) if some else None
    return bound is not None and bound.value < 0


def conic_bound(
    problem: cp.Problem | Posed,
    unknowns: cp.Variable | None,
    top: Float,
    left: Left | None = None,
    enough: Callable[[ConicBound], bool] | None = None,
) -> ConicBound | None:
    """An upper bound on the maximum of a concave expression; None for cones other than those below.

    The dual point that a solver ``left`` is only a starting point. Without one the problem is solved once more in
    CLARABEL's cone form (linear, second-order, semidefinite, exponential and power cones). ``top``, flat in column
    order, are proven upper bounds on the nonnegative ``unknowns``, if there are any. A point that a solver left is
    moved no further than into the dual cone if that bound is ``enough``.
    """
    form = cone_form(problem, unknowns, None if left is None else left.compiled)
    if form is None:
        return None
    compiled, columns = form
    ours = np.zeros(0, dtype=np.intp) if unknowns is None else columns[unknowns.id]
    points = points_of(compiled) if left is None or left.points is None else left.points
    if points is None or compiled.offset is None:
        return None
    least, most = ranges_by_column(problem, columns, compiled.data["A"].shape[1])
    least[ours], most[ours] = 0.0, top
    program, (z, y) = ConeProgram.of(compiled, least, most), points
    if not program.c.any():  # a ray, of any length, and no answer to take sizes from
        y, z = y / (np.abs(y).max(initial=0.0) or 1.0), np.full(len(z), np.abs(program.b).max(initial=0.0))
    others = np.ones(len(z), dtype=bool)
    others[ours] = False
    reach = REACH * np.maximum(1.0, np.abs(z))

    def bound(some: NDArray[np.bool_]) -> ConicBound:
        found = program.bound(program.repaired(y, some, others), -reach, reach)
        assumed = assumption(_named(problem, columns, found.open)) if found.open.any() else ""
        return ConicBound(-found.low, assumed, program, found.y, ours)

    # balancing costs least squares and moves y: at first only for variables without a range to charge r at
    if left is not None and enough is not None:
        first = bound(others & ~program.bounded)
        if not first.assumed and enough(first):
            return first
    return bound(others)


class DualBound(NamedTuple):
    """A lower bound on the minimum of a cone program, by a dual point y.

    ``open`` are the columns that are charged at an assumed range. A bound of points ``below`` a value is one of all if
    it is not larger than this value.
    """

    low: float
    open: Bool
    y: Float
    below: float = math.inf


@dataclass(frozen=True)
class ConeProgram:
    """``min c'z + offset subject to b - A z in K`` and ``least <= z <= most``, as its dual sees it.

    ``given`` are ranges that a solver has beside the rows, which have no multipliers, and ``alone`` those that hold
    without the rows.
    """

    c: Float
    b: Float
    transposed: sp.csr_array
    dims: Any
    offset: float
    least: Float
    most: Float
    given: tuple[Float | None, Float | None] = (None, None)
    alone: tuple[Float, Float] | None = None

    @classmethod
    def of(cls, compiled: Compiled, least: Float, most: Float) -> ConeProgram:
        """The program of a compiled problem, with the ranges that rows and cones imply of these."""
        return cls.of_data(compiled.data, compiled.offset or 0.0, least, most)

    @classmethod
    def of_data(cls, data: Mapping[str, Any], offset: float, least: Float, most: Float) -> ConeProgram:
        """The same of data."""
        b = np.asarray(data["b"])
        alone = least, most
        least, most = ranges_within_cones(Entries.of(sp.csr_array(data["A"])), b, data["dims"], least, most)
        given = data.get("lower_bounds"), data.get("upper_bounds")
        return cls(np.asarray(data["c"]), b, _transposed(data["A"]), data["dims"], offset, least, most, given, alone)

    def without(self, rows: Bool) -> ConeProgram:
        """The program with ranges that hold where some rows do not."""
        assert self.alone is not None
        every = self.entries
        kept = ~rows[every.row]
        some = Entries(every.row[kept], every.column[kept], every.factor[kept], every.n)
        least, most = ranges_within_cones(some, self.b, self.dims, *self.alone)
        return replace(self, least=least, most=most)

    def below(self, value: float) -> ConeProgram:
        """The program with the ranges that its points have at which the objective is at most a value."""
        zero, matrix = self.dims.zero, sp.csr_array(self.transposed.T)
        rows = sp.csr_array(sp.vstack([matrix[:zero], sp.csr_array(self.c[None]), matrix[zero:]]))
        b = np.concatenate([self.b[:zero], [value - self.offset], self.b[zero:]])
        dims = self.dims
        dims = Cones(zero, dims.nonneg + 1, tuple(dims.soc), dims.exp, tuple(dims.p3d), tuple(dims.psd))
        least, most = ranges_within_cones(Entries.of(rows), b, dims, self.least, self.most)
        return replace(self, least=least, most=most)

    @cached_property
    def entries(self) -> Entries:
        """The entries of the rows."""
        return Entries.of(sp.csr_array(self.transposed.T))

    @cached_property
    def sizes(self) -> sp.csr_array:
        """The absolute values of the coefficients of each column."""
        return abs(self.transposed)

    @cached_property
    def bounded(self) -> Bool:
        """The columns with proven ends on both sides."""
        return np.isfinite(self.least) & np.isfinite(self.most)

    @cached_property
    def free(self) -> Bool:
        """The columns without any."""
        return np.isinf(self.least) & np.isinf(self.most)

    @cached_property
    def curves(self) -> Curves:
        """The curved dual cones of which some multipliers follow from the others."""
        return Curves.of(self.entries, self.b, self.dims, self.bounded)

    def bound(self, y: Float, low: Float, high: Float) -> DualBound:
        """The bound by a point of the dual cone; what has no proven range is charged between ``low`` and ``high``."""
        _, charge, open_ = self.charges(y, low, high)
        value = -float(self.b @ y) - TERM_ROUNDING * float(np.abs(self.b * y).sum()) + float(charge.sum())
        return DualBound(value + self.offset, open_, y)

    def charges(self, y: Float, low: Float, high: Float) -> tuple[Float, Float, Bool]:
        """The residual r of each column, the least that it costs, and which columns have no proven range for it."""
        c = self.c
        residual = c + self.transposed @ y
        rounding = TERM_ROUNDING * (np.abs(c) + self.sizes @ np.abs(y))
        # exactly 0 costs nothing over any range; a usual sum that gives 0 may have rounded to it, and only such
        some = np.flatnonzero(self.free & (np.abs(residual) <= rounding))
        if len(some):
            both = sp.csr_array(sp.hstack([sp.csr_array(self.transposed[some]), sp.csr_array(c[some, None])]))
            exact = some[exact_sums(both, np.append(y, 1.0)) == 0.0]
            residual[exact] = rounding[exact] = 0.0
        ends = residual - rounding, residual + rounding
        charge = charged_at(*ends, self.least, self.most)
        open_ = ~np.isfinite(charge)  # not where the sign of r leaves the known end of an open range
        charge = np.where(open_, charged_at(*ends, np.maximum(low, self.least), np.minimum(high, self.most)), charge)
        return residual, charge, open_

    def repaired(self, y: Float, some: Bool, others: Bool, unit: Float | None = None) -> Float:
        """A point of the dual cone near y at which ``c + A'y`` vanishes on some columns, up to rounding.

        Rows without ``others`` take what is left of the rest where that costs less than their ranges (`_covered`).
        """
        c, transposed, sizes, linear = self.c, self.transposed, self.sizes, self.linear
        at = into_dual_cone(self.curves.at(y), self.dims)
        if some.any():
            aim = _aim(self.given, c, transposed, sizes @ np.abs(y), self.least, self.most, y)
            at = _balanced(y, (c - aim)[some], transposed[some], self.dims, self.curves, unit)
        # the last step that moves multipliers of free variables: `_covered` raises rows that have none of these
        at = cancelled(at, c, transposed, self.free, linear)
        costs = c + transposed @ at - TERM_ROUNDING * (np.abs(c) + sizes @ np.abs(at))
        return _covered(at, costs, self.entries.part(linear), self.b[linear], others, self.most, linear)

    @property
    def linear(self) -> slice:
        """The rows that are inequalities."""
        return slice(self.dims.zero, self.dims.zero + self.dims.nonneg)


def _transposed(matrix: Any) -> sp.csr_array:
    """The transpose of a matrix by columns, with its arrays."""
    return sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape[::-1])


def _covered(
    y: Float, costs: Float, rows: Entries, right: Float, others: Bool, most: Float, inequalities: slice
) -> Float:
    """The dual point with larger multipliers of rows such as capacities where these cost less than ranges of unknowns.

    What a solver left of 1,575 users' unknowns, 7e-13 each, was 1.5e-6 of the objective at the ranges that each has
    alone; but these share one capacity.
    """
    fits = np.bincount(rows.row, others[rows.column] | (rows.factor < 0), rows.n) == 0
    some = fits[rows.row] & (rows.factor > 0) & (right[rows.row] >= 0) & (costs[rows.column] < 0)
    row, column, entry = rows.row[some], rows.column[some], rows.factor[some]
    order = np.lexsort((right[row] / entry, column))
    closest = order[np.unique(column[order], return_index=True)[1]]  # the row that holds each unknown most
    row, column, entry = row[closest], column[closest], entry[closest]
    short = -costs[column]
    rise = np.zeros(rows.n)
    np.maximum.at(rise, row, short / entry)
    by_ranges = np.bincount(row, short * most[column], rows.n)
    y = y.copy()
    y[inequalities] += np.where(rise * right < by_ranges, rise, 0.0)
    return y


def reach_of_variables(cone: ConeModel) -> dict[str, float]:
    """The largest absolute value of each variable of blocks that bounds and linear rows imply, in natural units.

    Without any bound it is that at the last solve.
    """
    problem = Posed(cp.Minimize(0), cone.all_constraints)
    form = cone_form(problem, cone.unknowns)
    if form is None:
        return {}
    data, columns = form[0].data, form[1]
    least, most = ranges_by_column(problem, columns, data["A"].shape[1])
    least[columns[cone.unknowns.id]] = 0.0
    most[columns[cone.unknowns.id]] = cone.program.most[cone.program.pairs.user] / cone.scale
    least, most = ranges_within_cones(
        Entries.of(sp.csr_array(data["A"])), np.asarray(data["b"]), data["dims"], least, most
    )
    out = dict[str, float]()
    for key, own in cone.model.own.held.items():
        at = columns.get(own.variable.id)
        reach = np.inf if at is None else float(np.abs([least[at], most[at]]).max(initial=0.0))
        bounds = np.abs(ranges(own.variable))
        if reach == np.inf and own.variable.value is not None and not bounds[np.isfinite(bounds)].any():
            reach = float(np.abs(own.variable.value).max(initial=0.0))
        if 0 < reach < np.inf:
            out[key] = reach * own.unit
    return out


def _named(problem: cp.Problem | Posed, columns: Mapping[int, Indices], some: NDArray[np.bool_]) -> list[str]:
    """The names of variables that blocks named, of which some columns are chosen."""
    held = [v for v in problem.variables() if v.id in columns and some[columns[v.id]].any()]
    return [v.name() for v in held if not is_unnamed(v)]


def is_unnamed(variable: cp.Variable) -> bool:
    """Whether CVXPY named a variable."""
    return bool(variable.name() == f"{cp.settings.VAR_PREFIX}{variable.id}")


def ranges_by_column(problem: cp.Problem | Posed, columns: Mapping[int, Indices], size: int) -> tuple[Float, Float]:
    """The ranges of variables by column, from their attributes."""
    least, most = np.full(size, -np.inf), np.full(size, np.inf)
    for variable in problem.variables():
        if variable.id in columns and not any(variable.attributes[name] for name in RESHAPED):
            least[columns[variable.id]], most[columns[variable.id]] = ranges(variable)
    return least, most


def _aim(
    given: tuple[Float | None, Float | None],
    c: Float,
    transposed: sp.csr_array,
    size: Float,
    least: Float,
    most: Float,
    y: Float,
) -> Float:
    """What to leave of variables: where only one side has a bound, beyond rounding, so that this bound suffices.

    Bounds that CVXPY gives as such to a solver have no multipliers, and take what these leave.
    """
    some = 8 * TERM_ROUNDING * np.maximum(np.abs(c) + size, 1.0)
    aim = np.where(np.isfinite(least) == np.isfinite(most), 0.0, np.where(np.isfinite(least), some, -some))
    low, high = given
    if low is not None or high is not None:
        left = c + transposed @ y
        taken = np.zeros(len(c), dtype=bool) if low is None else np.isfinite(low) & np.isfinite(least) & (left > aim)
        if high is not None:
            taken |= np.isfinite(high) & np.isfinite(most) & (left < aim)
        aim = np.where(taken, left, aim)
    return aim


def cone_form(
    problem: cp.Problem | Posed, unknowns: cp.Variable | None, compiled: Compiled | None = None
) -> tuple[Compiled, dict[int, Indices]] | None:
    """A problem in CLARABEL's cone form, or as it was compiled, and the columns of its variables by id.

    None if CVXPY cannot compile it, it lacks the unknowns, or it has other cones than those of `Cones`.
    """
    compiled = compiled or _compiled(problem)
    if compiled is None or compiled.data.get("P") is not None:  # with squares r depends on the point
        return None
    dims, columns = compiled.data["dims"], compiled.columns()
    if getattr(dims, "pnd", None) or not (unknowns is None or unknowns.id in columns):
        return None
    return (compiled, columns) if is_as_asked(compiled) else None


def _compiled(problem: cp.Problem | Posed) -> Compiled | None:
    """A problem compiled for CLARABEL; None if CVXPY cannot."""
    if "CLARABEL" not in solvers.installed():
        return None
    try:
        options = {"use_quad_obj": False}
        with warnings.catch_warnings():  # about how CVXPY compiles, as in `solvers.run`
            warnings.simplefilter("ignore")
            return Compiled.of(problem, "CLARABEL", options)
    except cp.error.SolverError:
        return None


def _balanced(
    y: Float,
    c: Float,
    on_others: sp.csr_array,
    dims: Any,
    curves: Curves | None = None,
    unit: Float | None = None,
) -> Float:
    """A point of the dual cone near y at which ``c + on_others @ y`` vanishes up to rounding, or the best found.

    Steps are least squares in units of y itself: equal steps of all coordinates would move the small ones of
    exponential cones by multiples of themselves, on which exp(v / u) depends. They go along the boundaries of cones
    (`_along`): of others a move into the cone undoes a part, and 20 gained 10 times where 2 are as good as rounding
    allows.
    """

    def moved(y: Float) -> Float:
        return into_dual_cone(y if curves is None else curves.at(y), dims)

    best, least, y, step = y, np.inf, moved(y), None
    roots, absolute = unit is not None, abs(on_others)
    for _ in range(20 if len(c) else 0):
        residual = c + on_others @ y
        size = max(1.0, np.abs(c).max(initial=0.0)) if c.any() else np.abs(y).max(initial=0.0)
        left = np.abs(residual).max(initial=0.0)
        if not left < least:  # also NaN
            break
        is_slow = left > HALVED * least
        best, least = y, left
        enough = 1e-15 * size
        if step is not None:  # as much as bounds charge for rounding, also that of long sums
            terms = np.abs(c) + absolute @ np.abs(y)
            enough = TERM_ROUNDING * max(2 * size, float(terms.max()))
        if is_slow or left <= enough:
            break
        check("the proof by CLARABEL (its dual point)")
        if step is not None or unit is None:
            unit = np.abs(y) + FLOOR * np.abs(y).max(initial=0.0)
        with np.errstate(all="ignore"):
            along = _along(y, unit, dims, roots)
        step = minimum_norm(sp.csr_array(on_others @ along), residual)
        y = moved(y - along @ step)
    return best if least < np.inf else y


def _along(y: Float, unit: Float, dims: Any, roots: bool) -> sp.csr_array:
    """Steps of a dual point by those of its coordinates in units: on the boundary of a second-order, exponential or
    power cone along the tangent, where one coordinate has no step of its own but follows from the others.

    u = |v|;  w = -u exp(v / u - 1), u < 0;  |w| = (u / a)^a (v / (1 - a))^(1 - a).

    With ``roots`` those of a semidefinite matrix Z of at most `ROOTS` rows are ``Z^(1/2) S Z^(1/2)``, and small S leave
    it semidefinite. Near the optimum, where others do, least squares of these take 50 times as long.
    """
    sizes, start = np.array(dims.soc, dtype=np.intp), dims.zero + dims.nonneg
    first = start + np.cumsum(sizes) - sizes
    head = np.repeat(first, sizes)
    row = start + np.arange(len(head))
    row, head = row[row != head], head[row != head]
    norm = np.sqrt(np.bincount(head - start, y[row] ** 2, len(row) + len(sizes)))[first - start]
    slopes = y[row] / np.repeat(norm, sizes - 1)
    on = np.zeros(len(y), dtype=bool)
    on[first] = (norm > 0) & (y[first] - norm <= NEAR * y[first])
    rows, heads, every = [row[on[head]]], [head[on[head]]], [slopes[on[head]]]
    start += int(sizes.sum())
    for n in dims.psd:
        part = np.arange(start, start + n * (n + 1) // 2)
        start += len(part)
        if roots and n <= ROOTS and y[part].any() and np.isfinite(y[part]).all():
            values, vectors = np.linalg.eigh(matrix_of(y[part], n))
            root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
            order, factors = triangle(n)
            entries = sp.csr_array((factors, (np.arange(n * n), order)), shape=(n * n, len(part)))
            scale = unit[part].max() / np.abs(y[part]).max()
            on[part] = True
            rows, heads = [*rows, np.tile(part, len(part))], [*heads, np.repeat(part, len(part))]
            every.append((scale * (entries.T @ np.kron(root, root) @ entries)).ravel() / np.tile(unit[part], len(part)))
    for count, powers in ((dims.exp, None), (len(dims.p3d), np.array(dims.p3d, dtype=float))):
        u, v, w = y[start : start + 3 * count].reshape(-1, 3).T
        if powers is None:
            e = np.exp(np.minimum(v / u, 700.0) - 1.0)
            most, of_u, of_v = -u * e, -e * (1.0 - v / u), -e
            near = (u < 0) & (w - most <= NEAR * np.maximum(w, -u))
        else:
            most = (u / powers) ** powers * (v / (1.0 - powers)) ** (1.0 - powers)
            of_u, of_v = powers * w / u, (1.0 - powers) * w / v
            near = (u > 0) & (v > 0) & (most - np.abs(w) <= NEAR * np.maximum(u, v))
        near &= np.isfinite(of_u) & np.isfinite(of_v)
        at = start + 3 * np.flatnonzero(near)
        on[at + 2] = True
        rows, heads = [*rows, at, at + 1], [*heads, at + 2, at + 2]
        every += [of_u[near], of_v[near]]
        start += 3 * count
    row, head, own = np.concatenate(rows), np.concatenate(heads), np.flatnonzero(~on)
    value = np.append(unit[own], np.concatenate(every) * unit[row])
    return sp.csr_array((value, (np.append(own, head), np.append(own, row))), shape=(len(y), len(y)))


def conic_excess(
    expression: cp.Expression, constraints: Sequence[cp.Constraint], unknowns: cp.Variable, top: Float, value: float
) -> tuple[float, str]:
    """The excess of a `conic_bound` by a second solve over a value, or infinity, and what it assumes."""
    found = _finite_bound(expression, constraints, unknowns, top)
    return (np.inf, "") if found is None else (found.value - value, found.assumed)


def conic_gap(
    expression: cp.Expression,
    constraints: Sequence[cp.Constraint],
    unknowns: cp.Variable,
    top: Float,
    value: float,
    measured: Callable[[float, ConicBound], float],
    left: Left | None = None,
) -> tuple[float, str]:
    """The gap that ``measured`` makes of the excess of a `conic_bound` over a value, and what it assumes.

    No smaller excess is searched for than is `ENOUGH`. A bound under an assumption which the point itself exceeds shows
    that the assumption does not hold: no gap is known.
    """
    found = _finite_bound(
        expression, constraints, unknowns, top, left, lambda bound: measured(bound.value - value, bound) <= ENOUGH
    )
    if found is None or not np.isfinite(excess := found.value - value):
        return np.inf, ""
    if found.assumed and excess < 0 and not measured(-excess, found) <= GAP_TOLERANCE:
        return np.inf, ""
    return measured(excess, found), found.assumed


def _finite_bound(
    expression: cp.Expression,
    constraints: Sequence[cp.Constraint],
    unknowns: cp.Variable,
    top: Float,
    left: Left | None = None,
    enough: Callable[[ConicBound], bool] | None = None,
) -> ConicBound | None:
    """The `conic_bound` of an expression, by a second solve or by what a solver ``left`` of this program."""
    if left is not None and not left.is_of(expression, constraints):
        return None
    check("the proof by CLARABEL (a second solve)" if left is None else "the proof by a dual point")
    found = conic_bound(Posed(cp.Maximize(expression), constraints), unknowns, top, left, enough)
    return found if found is not None and np.isfinite(found.value) else None


@dataclass(frozen=True)
class ConicConditions:
    """Constraints as ``on_ours @ z + on_others @ v + s = right, s in K``: z the unknowns, v variables that CVXPY added.

    At any y of the dual cone at which v cancels, z costs ``on_ours' y``, and no feasible point costs more than ``right
    @ y``. ``scale`` (n_unknowns,) are tasks per unknown; ``further`` are variables of blocks, with their columns among
    v; ``rows`` are known linear rows, with their places. ``reach`` are bounds on the absolute values of v, infinite if
    there is none.
    """

    on_ours: sp.csr_array
    on_others: sp.csr_array
    right: Float
    dims: Cones
    scale: Float
    further: Sequence[tuple[cp.Variable, Indices]]
    rows: Sequence[tuple[BlockRows, slice]]
    reach: Float

    @property
    def assumed(self) -> str:
        """What charges assume, if anything."""
        open_ = ~np.isfinite(self.reach)
        names = [v.name() for v, columns in self.further if open_[columns].any() and not is_unnamed(v)]
        return assumption(names) if open_.any() else ""

    def _reach(self, sizes: Float) -> Float:
        """The largest absolute values of the variables, proved or assumed."""
        return np.where(np.isfinite(self.reach), self.reach, REACH * np.maximum(1.0, sizes))

    @cached_property
    def variable(self) -> cp.Variable:
        """The variables that CVXPY added, for use in programs."""
        return cp.Variable(max(self.on_others.shape[1], 1))

    @cached_property
    def cone_of_row(self) -> Indices:
        """The cone of each row; each equation and inequality is a cone."""
        return cone_of_row(self.dims)

    @property
    def curved(self) -> bool:
        """Whether there are cones besides linear ones."""
        return bool(self.dims.soc or self.dims.psd or self.dims.exp or self.dims.p3d)

    def conditions(self, unknowns: cp.Variable) -> list[cp.Constraint]:
        """The constraints on unknowns and `variable`, whose dual values are `dual`."""
        s = self.right - self.on_ours @ unknowns
        if self.on_others.shape[1]:
            s = s - self.on_others @ self.variable
        dims, out = self.dims, []
        at = dims.zero + dims.nonneg
        out += [-s[: dims.zero] == 0] if dims.zero else []
        out += [s[dims.zero : at] >= 0] if dims.nonneg else []
        for size in dims.soc:
            out.append(cp.SOC(s[at], s[at + 1 : at + size]))
            at += size
        for n in dims.psd:
            order, factors = triangle(n)
            entries = sp.csr_array((factors, (np.arange(n * n), order)), shape=(n * n, n * (n + 1) // 2))
            part = s[at : at + n * (n + 1) // 2]
            out.append(cp.constraints.PSD(cp.reshape(entries @ part, (n, n), order="F")))
            at += n * (n + 1) // 2
        for _ in range(dims.exp):
            out.append(cp.ExpCone(s[at], s[at + 1], s[at + 2]))
            at += 3
        for power in dims.p3d:
            out.append(cp.PowCone3D(s[at], s[at + 1], s[at + 2], float(power)))
            at += 3
        return out

    def dual(self, conditions: Sequence[cp.Constraint]) -> Float:
        """The dual values of `conditions` after a solve, in the order of rows; zeros if a solver left none."""
        by_condition = [
            in_rows(c, [np.zeros(v.shape) if v.value is None else np.asarray(v.value) for v in c.dual_variables])
            for c in conditions
        ]
        return np.nan_to_num(np.concatenate([*by_condition, np.zeros(0)]).astype(float))

    def sizes(self) -> Float:
        """The absolute values of the variables that CVXPY added, at the last solve; also sets the values of blocks'
        variables.
        """
        if not self.on_others.shape[1]:
            return np.zeros(0)
        at = np.asarray(self.variable.value, dtype=float)
        self.save(at)
        return np.abs(at)

    def save(self, values: Float) -> None:
        """Set the values of blocks' variables among those that CVXPY added."""
        for variable, columns in self.further:
            variable.save_value(values[columns].reshape(variable.shape, order="F"))

    def charges(self, y: Float, sizes: Float, n_rows: int) -> Multipliers:
        """The multipliers of the constraints at a point near y.

        What rounding leaves on v is charged at its reach, by default `REACH` times the sizes, at least 1; a point that
        leaves more proves nothing.
        """
        none = np.zeros(self.on_others.shape[1])
        to_others, to_ours = self.on_others.T.tocsr(), self.on_ours.T.tocsr()
        y = _balanced(y, none, to_others, self.dims)
        terms = abs(to_others) @ np.abs(y)
        left = np.abs(to_others @ y) + TERM_ROUNDING * terms
        rest = float((left * self._reach(sizes)).sum())
        constant, whole = float(self.right @ y) + rest, float(np.abs(self.right) @ np.abs(y)) + rest
        if (left > CANCELLED * terms.max(initial=0.0)).any():
            constant = np.inf
        size = (abs(to_ours) @ np.abs(y)) / self.scale
        return Multipliers(np.zeros(n_rows), (to_ours @ y) / self.scale, constant, size=size, constant_size=whole)

    def exact_charges(
        self, y: Float, sizes: Float, prices: Float, loads: sp.csr_array, usable: Float
    ) -> tuple[Float, float]:
        """As `charges`, together with capacities at ``prices``, with each sum rounded once: the costs of pairs and the
        right-hand side.

        Under curved constraints large multiples of a lower level's multipliers prove a later level, and terms cancel.
        """
        to_others = sp.csr_array(self.on_others.T)
        y = _balanced(y, np.zeros(self.on_others.shape[1]), to_others, self.dims)
        at, rows, coefficients = self._alone
        y[rows] = (coefficients * y[rows] - exact_sums(to_others[at], y)) / coefficients
        y = into_dual_cone(y, self.dims)
        both = np.concatenate([prices, y])
        per_task = sp.csr_array(sp.diags_array(1.0 / self.scale) @ self.on_ours.T)
        costs = exact_sums(sp.csr_array(sp.hstack([sp.csr_array(loads).T, per_task])), both)
        left = np.abs(exact_sums(to_others, y))
        if (left > CANCELLED * (abs(to_others) @ np.abs(y)).max(initial=0.0)).any():
            return costs, np.inf
        of_sizes = float((left * self._reach(sizes)).sum())
        constant = sp.csr_array(np.concatenate([usable, self.right])[None, :])
        return costs, float(exact_sums(constant, both)[0]) + of_sizes

    @cached_property
    def _alone(self) -> tuple[Indices, Indices, Float]:
        """Variables that CVXPY added which are alone in some row, these rows, and the coefficients there.

        The multipliers of these rows make them cancel up to rounding. Linear rows are preferred; the first row of a
        second-order cone is excluded, since it follows from the others.
        """
        dims, columns = self.dims, sp.csc_array(self.on_others)
        alone = np.diff(self.on_others.indptr) == 1
        alone[dims.zero + dims.nonneg + np.cumsum([0, *dims.soc])[: len(dims.soc)].astype(int)] = False
        places = []
        for k in range(columns.shape[1]):
            part = slice(*columns.indptr[k : k + 2])
            place = np.flatnonzero(alone[columns.indices[part]])
            if len(place):
                places.append((k, columns.indices[part][place[0]], columns.data[part][place[0]]))
        at, rows, coefficients = np.array(places).reshape(-1, 3).T
        return at.astype(np.intp), rows.astype(np.intp), coefficients

    def charging_nothing(self, y: Float, costs: Float, free: Indices) -> Float:
        """A point near y at which the tasks of ``free`` pairs, which cost ``costs`` by capacities, have a total cost of
        0.

        At the optimum of a level, users above it have zero costs, and dual points are on the boundaries of their cones.
        A solver's point misses both by first-order noise; here Newton's method removes it, so that the bound is off by
        second-order noise. Returns y itself if it finds no such point.
        """
        rows = sp.csr_array(sp.vstack([self.on_others.T, self.on_ours.T.tocsr()[free]]))
        aim = np.concatenate([np.zeros(self.on_others.shape[1]), costs * self.scale[free]])
        with_aim = sp.csr_array(sp.hstack([rows, sp.csr_array(aim[:, None])]))
        best, least, cones = y, CANCELLED, self.cone_of_row
        for _ in range(NEWTON):
            y = into_dual_cone(y, self.dims)
            near = boundaries(y, self.dims)
            left = np.concatenate([exact_sums(with_aim, np.append(y, 1.0)), [boundary.inside for boundary in near]])
            terms = np.concatenate([np.abs(aim), abs(rows) @ np.abs(y)]).max(initial=0.0)
            error = np.abs(left).max(initial=0.0)
            if error <= least * terms:
                best, least = y, error / max(terms, 1e-300)
            elif least < CANCELLED:  # as near as rounding allows
                break
            size = np.zeros(cones.max(initial=-1) + 1)  # of a cone's point: multipliers of 0 stay 0
            np.maximum.at(size, cones, np.abs(y))
            system = sp.vstack([rows, by_row(near, len(y))]) @ sp.diags_array(size[cones])
            y = y - size[cones] * least_squares(system, left)
            if not np.isfinite(y).all():
                break
        return best

    def multipliers(self, y: Float) -> list[tuple[BlockRows, Float]]:
        """The multipliers of the known linear rows in natural units, at a point y."""
        return [(one, one.rows.valid(y[at] / one.rows.units(self.scale))) for one, at in self.rows]

    def slopes(self, y: Float) -> tuple[sp.csr_array, sp.csr_array]:
        """The cost by cone per task of each pair and per unit of v: (n_pairs, n_cones) and (n_v, n_cones)."""
        cones = self.cone_of_row
        by_cone = sp.csr_array((y, (np.arange(len(y)), cones)), shape=(len(y), cones.max(initial=-1) + 1))
        per_task = sp.diags_array(1.0 / self.scale) @ (self.on_ours.T @ by_cone)
        return sp.csr_array(per_task), sp.csr_array(self.on_others.T @ by_cone)


def further_conditions(cone: ConeModel) -> ConicConditions | None:
    """The constraints of a model besides capacities and bounds on levels, in cone form; known linear rows stay as they
    are.

    None without such constraints.
    """
    conditions = [condition for _, condition in charged_conditions(cone)]
    conditions[len(cone.rest) : len(cone.rest)] = cone.required
    known = [cone.known.get(condition.id) for condition in conditions]
    compiled = _compiled_conditions(cone, [c for c, one in zip(conditions, known, strict=True) if one is None])
    if compiled is None or not conditions:
        return None
    on_ours, on_others, right, dims, further, reach = compiled
    first, at = known.index(None) if None in known else len(known), dims.zero + dims.nonneg
    of_cvxpy = [(on_ours[cut], on_others[cut], right[cut], None) for cut in map(slice, (0, dims.zero), (dims.zero, at))]
    pieces: list[list[tuple[sp.csr_array, sp.csr_array, Float, BlockRows | None]]] = [[], []]  # equations, inequalities
    for k, one in enumerate([*known[:first], None, *known[first:]]):
        if one is not None:
            scaled, sides = one.rows.in_units(cone.scale)
            none = sp.csr_array((len(sides), on_others.shape[1]))
            pieces[not one.rows.equal].append((scaled, none, sides, one))
        elif k == first:
            for own, piece in zip(pieces, of_cvxpy, strict=True):
                own.append(piece)
    every = [*pieces[0], *pieces[1], (on_ours[at:], on_others[at:], right[at:], None)]
    ends = np.cumsum([len(piece[2]) for piece in every])
    equations, inequalities = (sum(len(piece[2]) for piece in own) for own in pieces)
    return ConicConditions(
        sp.csr_array(sp.vstack([piece[0] for piece in every])),
        sp.csr_array(sp.vstack([piece[1] for piece in every])),
        np.concatenate([piece[2] for piece in every]),
        replace(dims, zero=equations, nonneg=inequalities),
        cone.scale,
        further,
        [(one, slice(end - len(one.rows), end)) for (*_, one), end in zip(every, ends.tolist(), strict=True) if one],
        reach,
    )


def _compiled_conditions(
    cone: ConeModel, conditions: Sequence[cp.Constraint]
) -> tuple[sp.csr_array, sp.csr_array, Float, Cones, Sequence[tuple[cp.Variable, Indices]], Float] | None:
    """Constraints as CVXPY compiles them: the fields of `ConicConditions`; None if it cannot."""
    if not conditions:
        return sp.csr_array((0, cone.unknowns.size)), sp.csr_array((0, 0)), np.zeros(0), Cones(0, 0), (), np.zeros(0)
    problem = Posed(cp.Minimize(0), conditions)
    form = cone_form(problem, cone.unknowns)
    if form is None:
        return None
    data, columns = form[0].data, form[1]
    ours, a, right = columns[cone.unknowns.id], sp.csr_array(data["A"]), np.asarray(data["b"], dtype=float)
    others, cones, row = np.setdiff1d(np.arange(a.shape[1]), ours), data["dims"], np.arange(len(right))
    linear = (row >= cones.zero) & (row < cones.zero + cones.nonneg)
    # rows x >= 0 are dropped: the range of x from 0 says the same
    sign = linear & (right == 0) & (np.diff(a.indptr) == 1) & (a[:, ours].sum(axis=1) < 0)  # x >= 0
    a, right = a[~sign], right[~sign]
    curved = tuple(cones.soc), cones.exp, tuple(cones.p3d), tuple(cones.psd)
    dims = Cones(cones.zero, cones.nonneg - int(sign.sum()), *curved)
    own = [v for v in problem.variables() if v.id in columns and v.id != cone.unknowns.id]
    further = [(v, np.searchsorted(others, columns[v.id])) for v in own]
    least, most = ranges_by_column(problem, columns, a.shape[1])
    least[ours], most[ours] = 0.0, cone.program.most[cone.program.pairs.user] / cone.scale
    least, most = ranges_within_cones(Entries.of(a), right, dims, least, most)
    reach = np.maximum(np.abs(least), np.abs(most))[others]
    return sp.csr_array(a[:, ours]), sp.csr_array(a[:, others]), right, dims, further, reach


def points_of(
    compiled: Compiled, data: dict[str, Any] | None = None, tol: float = SOLVED
) -> tuple[Float, Float] | None:
    """CLARABEL's primal and dual point, perhaps of other data; None if they are not finite or time ran out."""
    options, clock, solve = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tol), current(), compiled.solve
    if clock is not None:
        options["time_limit"] = max(clock.hard - time.perf_counter(), 1e-3)
        if solvers.may_overrun("CLARABEL", compiled.entries):
            solve = partial(solvers.solve_elsewhere, "CLARABEL", clock.hard)
    try:
        solution = solve(compiled.data if data is None else data, False, options)
    except (subprocesses._Stopped, subprocesses._CannotSend, RuntimeError, ValueError):
        return None
    primal, dual = np.asarray(solution.x), np.asarray(solution.z)
    return (primal, dual) if np.isfinite(np.append(primal, dual)).all() else None


def outside_cones(s: Float, dims: Any) -> Float:
    """By how much each row of a point is outside its cone, or the cone of the row; 0 in it."""
    at = dims.zero + dims.nonneg
    out = np.concatenate([np.abs(s[: dims.zero]), np.maximum(-s[dims.zero : at], 0.0), np.zeros(len(s) - at)])
    sizes = rows_of_cones(dims)
    kinds = [cp.SOC] * len(dims.soc) + [cp.constraints.PSD] * len(dims.psd) + [cp.ExpCone] * dims.exp
    cones = iter([*dims.soc, *dims.psd, *[0] * dims.exp, *dims.p3d])
    for size, kind, number in zip(sizes, kinds + [cp.PowCone3D] * len(dims.p3d), cones, strict=True):
        part = s[at : at + size]
        if kind is cp.SOC:
            condition = cp.SOC(cp.Constant(part[0]), cp.Constant(part[1:]))
        elif kind is cp.constraints.PSD:
            condition = cp.constraints.PSD(cp.Constant(matrix_of(part, number)))
        else:
            condition = kind(*map(cp.Constant, part), *([number] if kind is cp.PowCone3D else []))
        out[at : at + size] = np.max(excess_of(condition))
        at += size
    return out


def exact_sums(matrix: sp.csr_array, at: Float) -> Float:
    """The product of a matrix and a vector, each entry rounded once.

    Products of floats are sums of two floats (Dekker 1971), and `math.fsum` adds exactly.
    """
    left, right = matrix.data, at[matrix.indices]
    product = left * right
    # what the product rounded off; above 1e300 halves overflow, and the product alone counts
    (a, b), (c, d) = _halves(left), _halves(right)
    rest = ((a * c - product) + a * d + b * c) + b * d
    terms = np.stack([product, np.where(np.isfinite(rest), rest, 0.0)], axis=1).ravel()
    ends = (2 * matrix.indptr).tolist()
    if not np.isfinite(product).all():
        return np.asarray(matrix @ at)
    return np.array([math.fsum(terms[i:j].tolist()) for i, j in pairwise(ends)])


def _halves(x: Float) -> tuple[Float, Float]:
    """Floats as sums of two floats with half the digits."""
    upper = 134217729.0 * x  # 2^27 + 1: halves of 26 digits, whose products are exact
    upper = upper - (upper - x)
    return upper, x - upper


class Boundary(NamedTuple):
    """A curved dual cone whose boundary a point is near: its rows, the distance from the boundary, and that distance's
    gradient and (optionally) Hessian.
    """

    rows: slice
    inside: float
    gradient: Float
    hessian: Float | None


def boundaries(y: Float, dims: Any, hessians: bool = False) -> list[Boundary]:
    """The boundaries of curved dual cones that a point is near.

    Near is within `NEAR` of the point's size. If a primal point is at its cone's apex, the dual point may be anywhere
    in the cone.
    """
    at, near = dims.zero + dims.nonneg, list[Boundary]()
    for size in dims.soc:
        norm = float(np.linalg.norm(y[at + 1 : at + size]))
        if norm > 0:  # u >= |v|
            direction = y[at + 1 : at + size] / norm
            gradient, hessian = np.concatenate([[1.0], -direction]), None
            if hessians:
                hessian = np.zeros((size, size))
                hessian[1:, 1:] = (np.outer(direction, direction) - np.eye(size - 1)) / norm
            near.append(Boundary(slice(at, at + size), float(y[at]) - norm, gradient, hessian))
        at += size
    at += _rows_of_matrices(dims)
    for _ in range(dims.exp):
        u, v, w = y[at : at + 3].tolist()
        if u < 0:  # w >= -u exp(v / u - 1)
            e, direction = np.exp(v / u - 1.0), np.array([-v / u, 1.0, 0.0])
            gradient, hessian = np.array([e * (1.0 - v / u), e, 1.0]), e / u * np.outer(direction, direction)
            near.append(Boundary(slice(at, at + 3), w + u * e, gradient, hessian))
        at += 3
    for power in dims.p3d:
        a, (u, v, w) = float(power), y[at : at + 3].tolist()
        b = 1.0 - a
        if u > 0 and v > 0:  # (u / a)^a (v / b)^b >= |w|
            most = (u / a) ** a * (v / b) ** b
            gradient = np.array([a * most / u, b * most / v, -np.sign(w)])
            direction = np.array([1.0 / u, -1.0 / v, 0.0])
            hessian = -a * b * most * np.outer(direction, direction)
            near.append(Boundary(slice(at, at + 3), most - abs(w), gradient, hessian))
        at += 3
    return [f for f in near if np.isfinite(f.gradient).all() and f.inside <= NEAR * np.abs(y[f.rows]).max()]


def by_row(boundaries: Sequence[Boundary], size: int) -> sp.csr_array:
    """The gradients of boundaries as the rows of a matrix."""
    gradients = sp.lil_array((len(boundaries), size))
    for row, boundary in enumerate(boundaries):
        gradients[row, boundary.rows] = boundary.gradient
    return sp.csr_array(gradients)


def rows_of_cones(dims: Any) -> list[int]:
    """The numbers of rows of curved cones."""
    return [*dims.soc, *(n * (n + 1) // 2 for n in dims.psd), *[3] * (dims.exp + len(dims.p3d))]


def cone_of_row(dims: Any) -> Indices:
    """The cone of each row; each equation and each inequality is one."""
    sizes = [1] * (dims.zero + dims.nonneg) + rows_of_cones(dims)
    return np.repeat(np.arange(len(sizes)), sizes)


def _rows_of_matrices(dims: Any) -> int:
    """The number of rows of semidefinite cones."""
    return sum(n * (n + 1) // 2 for n in dims.psd)


def _semidefinite(rows: Float, n: int) -> Float:
    """The nearest rows of a semidefinite matrix, whose least eigenvalue exceeds the rounding of the decomposition.

    Eigenvalues are found to a small multiple of n times the rounding of the largest (Golub and Van Loan 2013, section
    8.1), and the product that makes the matrix again errs by as much.
    """
    moved = matrix_of(rows, n)
    if not np.isfinite(moved).all():
        return rows
    some = np.flatnonzero(moved.any(axis=0))  # rows of zeros stay
    part = np.ix_(some, some)
    values, vectors = np.linalg.eigh(moved[part])
    margin = EIGEN_ROUNDING * n * EPS * np.abs(values).max(initial=0.0)
    if values.min(initial=np.inf) >= margin / 2:
        return rows
    moved[part] = (vectors * np.maximum(values, margin)) @ vectors.T
    order, factors = triangle(n)
    return np.bincount(order, factors * moved.ravel(order="F")).astype(float)


def into_dual_cone(y: Float, dims: Any) -> Float:
    """A point of the dual cone near y: one coordinate per cone is moved as far as needed."""
    y = y.copy()
    at = dims.zero
    y[at : at + dims.nonneg] = np.maximum(y[at : at + dims.nonneg], 0.0)
    at += dims.nonneg
    for size in dims.soc:  # u >= |v|: u is raised
        y[at] = max(y[at], float(np.linalg.norm(y[at + 1 : at + size])))
        at += size
    for n in dims.psd:
        part = slice(at, at + n * (n + 1) // 2)
        y[part], at = _semidefinite(y[part], n), part.stop
    if dims.exp:
        # dual exponential cone: u < 0 and w >= -u exp(v/u - 1), or u = 0 and v, w >= 0
        block = y[at : at + 3 * dims.exp].reshape(-1, 3)
        u = np.minimum(block[:, 0], 0.0)
        v = np.where(u == 0, np.maximum(block[:, 1], 0.0), block[:, 1])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            least = np.where(u < 0, -u * np.exp(np.where(u < 0, v / np.where(u < 0, u, -1.0), 0.0) - 1.0), 0.0)
        y[at : at + 3 * dims.exp] = np.stack([u, v, np.maximum(block[:, 2], least)], axis=1).ravel()
        at += 3 * dims.exp
    for power in dims.p3d:
        # dual power cone: (u/a)^a (v/(1-a))^(1-a) >= |w|
        a = float(power)
        u, v, w = np.maximum(y[at], 0.0), np.maximum(y[at + 1], 0.0), abs(y[at + 2])
        have = (u / a) ** a * (v / (1 - a)) ** (1 - a)
        if have < w:  # u and v grow alike, as the mean is homogeneous in both
            grow = w / have if have > 0 else 1.0
            y[at], y[at + 1] = (u * grow, v * grow) if have > 0 else (a * w, (1 - a) * w)
        else:
            y[at], y[at + 1] = u, v
        at += 3
    return y
