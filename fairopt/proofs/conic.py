"""The dual bound of a cone program: for objectives that only CVXPY knows.

CVXPY turns any problem into ``min c'z + d subject to A z + s = b, s in K``. By weak duality (Ben-Tal and Nemirovski
2001), for any y in the dual cone ``c'z >= r'z - b'y`` with ``r = c + A'y``. A solver's y is moved into the dual cone,
until r vanishes on the variables that CVXPY added; the rest of r is charged at the range of each variable. The ranges
of the tasks are proven. Those of CVXPY's variables are not: for the 1e-16 that rounding leaves on them, a range far
beyond their size at the answer is assumed, and the certificate states it.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fairopt.formulation import solvers
from fairopt.formulation.program import ConeModel, Float, Indices
from fairopt.formulation.rows import BlockRows
from fairopt.proofs.bound import EPS
from fairopt.proofs.conditions import charged_conditions
from fairopt.proofs.lagrangian import Multipliers
from fairopt.runtime import subprocesses
from fairopt.runtime.clock import check, current
from fairopt.runtime.lazy import cp, sp, sparse_linalg

REACH = 100.0  # the assumed range of a variable of CVXPY's, in multiples of its size (at least 1) at the answer
CANCELLED = 1e-11  # of the largest terms: less than this is left by rounding
DENSE = 4_000_000  # entries of a matrix that is factorised rather than iterated with
NEWTON = 10  # steps onto the boundaries of cones
NEAR = 1e-3  # of a point: how far from the boundary of its cone it may be by a solver's noise
MATRICES = (
    "conditions on matrices, such as X >> 0 or a bound on lambda_max, cannot be proved where they bind; write them by "
    "linear terms, norms, logarithms or powers"
)
COMPILING = 1e-6  # seconds that CVXPY takes for each number of a problem, at the least
ASSUMED = f"variables without a proven range stay within {REACH:g} times their size at the answer"


class ConicBound(NamedTuple):
    """A bound on the optimum, and whether it holds only if CVXPY's variables stay within `REACH`."""

    value: float
    assumes: bool


def conic_bound(problem: cp.Problem, unknowns: cp.Variable, top: Float) -> ConicBound | None:
    """An upper bound on the maximum of a concave expression; None where there are cones other than the ones below.

    The problem is solved once more in CLARABEL's cone form (linear, second-order, exponential and power cones) for its
    dual, which is only a starting point. ``top``, flat in column order, are proven upper bounds on the ``unknowns``,
    which are non-negative.
    """
    form = _cone_form(problem, unknowns)
    if form is None:
        return None
    data, inverse, columns = form
    dims, ours = data["dims"], columns[unknowns.id]
    y, z = _solve(data, dims)
    if y is None or z is None:
        return None
    c, b = np.asarray(data["c"]), np.asarray(data["b"])
    transposed = sp.csr_array(data["A"]).T.tocsr()
    others = np.setdiff1d(np.arange(len(c)), ours)
    y = _balanced(y, c[others], transposed[others], dims)
    residual = c + transposed @ y
    rounding = EPS * (np.abs(c) + abs(transposed) @ np.abs(y))
    low = -float(b @ y) - EPS * float(np.abs(b * y).sum())
    low += float(np.minimum((residual - rounding)[ours] * top, 0.0).sum())
    unknown = float(((np.abs(residual) + rounding) * REACH * np.maximum(1.0, np.abs(z)))[others].sum())
    held = getattr(inverse[-1], "inverse_data", inverse[-1])  # a dict, which CVXPY 1.9 wraps
    if not isinstance(held, dict) or "offset" not in held:  # without the objective's constant no bound
        return None
    return ConicBound(-(low - unknown + float(held["offset"])), unknown > 0)


def _cone_form(problem: cp.Problem, unknowns: cp.Variable) -> tuple[dict[str, Any], Any, dict[int, Indices]] | None:
    """A problem in CLARABEL's cone form, what undoes it, and the columns of each of its variables, by id.

    None where CVXPY cannot, without the unknowns, and with cones other than linear, second-order, exponential and power
    cones.
    """
    compiled = _compiled(problem)
    if compiled is None:
        return None
    data, chain, inverse = compiled
    dims, columns = data["dims"], {}
    if data.get("P") is not None or dims.psd or getattr(dims, "pnd", None):
        return None
    starts = data["param_prob"].var_id_to_col
    for variable in problem.variables():
        names = {variable.id}  # CVXPY replaces a variable with a sign by another one
        for reduction in chain.reductions:
            names.update(*(new for old, new in getattr(reduction, "var_id_map", {}).items() if old in names))
        start = next((starts[name] for name in names if name in starts), None)
        if start is not None:
            columns[variable.id] = np.arange(start, start + variable.size)
    return (data, inverse, columns) if unknowns.id in columns else None


def _compiled(problem: cp.Problem) -> tuple[dict[str, Any], Any, Any] | None:
    """What CVXPY makes of a problem for CLARABEL, how, and what undoes it; None where it cannot."""
    if "CLARABEL" not in solvers.installed():
        return None
    try:
        options = {"use_quad_obj": False}
        with warnings.catch_warnings():  # of how CVXPY compiles, as `solvers.run` passes over
            warnings.simplefilter("ignore")
            data, chain, inverse = problem.get_problem_data("CLARABEL", ignore_dpp=True, solver_opts=options)
    except cp.error.SolverError:
        return None
    return data, chain, inverse


def has_matrices(problem: cp.Problem) -> bool:
    """Whether CVXPY makes cones of matrices of a problem, for which there are no bounds: `MATRICES` says what to do."""
    convex = problem if problem.is_dcp() else cp.Problem(cp.Minimize(0), problem.constraints)  # as a transform may be
    compiled = _compiled(convex)
    return compiled is not None and bool(compiled[0]["dims"].psd)


def _balanced(y: Float, c: Float, on_others: sp.csr_array, dims: Any) -> Float:
    """A point of the dual cone near y where ``c + on_others @ y`` vanishes but for rounding."""
    y = _into_dual_cone(y, dims)
    for _ in range(20 if len(c) else 0):
        residual = c + on_others @ y
        size = max(1.0, np.abs(c).max(initial=0.0)) if c.any() else np.abs(y).max(initial=0.0)
        if np.abs(residual).max(initial=0.0) <= 1e-15 * size:
            break
        y = _into_dual_cone(y - sparse_linalg.lsqr(on_others, residual, atol=1e-16, btol=1e-16)[0], dims)
    return y


def conic_excess(
    expression: cp.Expression, constraints: Sequence[cp.Constraint], unknowns: cp.Variable, top: Float, value: float
) -> tuple[float, str]:
    """Excess of the bound of `conic_bound` over a value of the expression, or infinity, and what it assumes."""
    problem, limit = cp.Problem(cp.Maximize(expression), list(constraints)), current()
    if limit is not None and time.perf_counter() + COMPILING * solvers.size(problem) > limit.hard:
        return np.inf, ""
    check("the proof by CLARABEL (a second solve)")
    found = conic_bound(problem, unknowns, top)
    if found is None or not np.isfinite(found.value - value):
        return np.inf, ""
    return found.value - value, ASSUMED if found.assumes else ""


@dataclass(frozen=True)
class Cones:
    """Numbers of equations and inequalities, sizes of second-order cones, number of exponential cones, and the powers
    of power cones, in the order of rows; as CVXPY names them.
    """

    zero: int
    nonneg: int
    soc: tuple[int, ...] = ()
    exp: int = 0
    p3d: tuple[float, ...] = ()


@dataclass(frozen=True)
class ConicConditions:
    """Conditions as ``on_ours @ z + on_others @ v + s = right, s in K``: z the unknowns, v variables that CVXPY added.

    Any y of the dual cone at which v cancels charges ``on_ours' y`` for the unknowns, and is worth ``right @ y``: no
    point that satisfies the conditions costs more. ``scale`` (n_unknowns,) are tasks per unknown; ``further`` are
    variables of the blocks' own, with their columns among v; ``rows`` are known linear rows, and where they stand.
    """

    on_ours: sp.csr_array
    on_others: sp.csr_array
    right: Float
    dims: Cones
    scale: Float
    further: Sequence[tuple[cp.Variable, Indices]]
    rows: Sequence[tuple[BlockRows, slice]]

    @cached_property
    def variable(self) -> cp.Variable:
        """The variables that CVXPY added, for use in programs."""
        return cp.Variable(max(self.on_others.shape[1], 1))

    @cached_property
    def cone_of_row(self) -> Indices:
        """The cone of each row: an equation or inequality by itself, or one of the others."""
        dims = self.dims
        sizes = [1] * (dims.zero + dims.nonneg) + list(dims.soc) + [3] * (dims.exp + len(dims.p3d))
        return np.repeat(np.arange(len(sizes)), sizes)

    @property
    def curved(self) -> bool:
        """Whether there are cones besides linear ones."""
        return bool(self.dims.soc or self.dims.exp or self.dims.p3d)

    def conditions(self, unknowns: cp.Variable) -> list[cp.Constraint]:
        """The conditions in unknowns and `variable`, whose dual values are `dual`."""
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
        for _ in range(dims.exp):
            out.append(cp.ExpCone(s[at], s[at + 1], s[at + 2]))
            at += 3
        for power in dims.p3d:
            out.append(cp.PowCone3D(s[at], s[at + 1], s[at + 2], float(power)))
            at += 3
        return out

    def dual(self, conditions: Sequence[cp.Constraint]) -> Float:
        """The dual values of `conditions` after a solve, in the order of rows; zeros where a solver left none."""
        duals = [v for c in conditions for v in c.dual_variables]
        values = [np.zeros(v.size) if v.value is None else np.ravel(v.value) for v in duals]
        return np.nan_to_num(np.concatenate([*values, np.zeros(0)]).astype(float))

    def sizes(self) -> Float:
        """The sizes of the variables that CVXPY added, at the last solve; those of blocks' own get their values."""
        if not self.on_others.shape[1]:
            return np.zeros(0)
        at = np.asarray(self.variable.value, dtype=float)
        self.save(at)
        return np.abs(at)

    def save(self, values: Float) -> None:
        """Give variables of the blocks' own their values among those that CVXPY added."""
        for variable, columns in self.further:
            variable.save_value(values[columns].reshape(variable.shape, order="F"))

    def charges(self, y: Float, sizes: Float, n_rows: int) -> Multipliers:
        """What the conditions charge at a point near y, per task, and what they are worth.

        What rounding leaves on v is charged at `REACH` times the sizes, at least 1; a point that leaves more proves
        nothing.
        """
        none = np.zeros(self.on_others.shape[1])
        to_others, to_ours = self.on_others.T.tocsr(), self.on_ours.T.tocsr()
        y = _balanced(y, none, to_others, self.dims)
        terms = abs(to_others) @ np.abs(y)
        left = np.abs(to_others @ y) + EPS * terms
        rest = float((left * REACH * np.maximum(1.0, sizes)).sum())
        worth, whole = float(self.right @ y) + rest, float(np.abs(self.right) @ np.abs(y)) + rest
        if (left > CANCELLED * terms.max(initial=0.0)).any():
            worth = np.inf
        size = (abs(to_ours) @ np.abs(y)) / self.scale
        return Multipliers(np.zeros(n_rows), (to_ours @ y) / self.scale, worth, size=size, constant_size=whole)

    def exact_charges(
        self, y: Float, sizes: Float, prices: Float, loads: sp.csr_array, usable: Float
    ) -> tuple[Float, float]:
        """The costs of pairs by capacities at ``prices`` and by conditions at a point near y, and what these are worth.

        As `charges`, with each sum rounded once: under curved conditions large multiples of a lower level's multipliers
        prove a later one, and terms cancel.
        """
        to_others = sp.csr_array(self.on_others.T)
        y = _balanced(y, np.zeros(self.on_others.shape[1]), to_others, self.dims)
        at, rows, coefficients = self._alone
        y[rows] = (coefficients * y[rows] - exact_sums(to_others[at], y)) / coefficients
        y = _into_dual_cone(y, self.dims)
        both = np.concatenate([prices, y])
        per_task = sp.csr_array(sp.diags_array(1.0 / self.scale) @ self.on_ours.T)
        costs = exact_sums(sp.csr_array(sp.hstack([sp.csr_array(loads).T, per_task])), both)
        left = np.abs(exact_sums(to_others, y))
        if (left > CANCELLED * (abs(to_others) @ np.abs(y)).max(initial=0.0)).any():
            return costs, np.inf
        of_sizes = float((left * REACH * np.maximum(1.0, sizes)).sum())
        worth = sp.csr_array(np.concatenate([usable, self.right])[None, :])
        return costs, float(exact_sums(worth, both)[0]) + of_sizes

    @cached_property
    def _alone(self) -> tuple[Indices, Indices, Float]:
        """Variables that CVXPY added with a row that has no other one, these rows, and the coefficients there.

        By the multipliers of these rows they cancel to rounding; linear rows first, and no first row of a second-order
        cone, which follows from the others.
        """
        dims, columns = self.dims, sp.csc_array(self.on_others)
        alone = np.diff(self.on_others.indptr) == 1
        alone[dims.zero + dims.nonneg + np.cumsum([0, *dims.soc])[: len(dims.soc)].astype(int)] = False
        found = []
        for k in range(columns.shape[1]):
            part = slice(*columns.indptr[k : k + 2])
            place = np.flatnonzero(alone[columns.indices[part]])
            if len(place):
                found.append((k, columns.indices[part][place[0]], columns.data[part][place[0]]))
        at, rows, coefficients = np.array(found).reshape(-1, 3).T
        return at.astype(np.intp), rows.astype(np.intp), coefficients

    def charging_nothing(self, y: Float, costs: Float, free: Indices) -> Float:
        """A point near y at which ``free`` pairs, whose tasks cost ``costs`` by capacities, cost nothing in all.

        At the optimum of a level, users above it cost nothing, and points are on the boundaries of their cones. A
        solver leaves noise of the first order of both; without it, the bound is off by noise of the second order.
        Newton's steps; y itself where these find no such point.
        """
        rows = sp.csr_array(sp.vstack([self.on_others.T, self.on_ours.T.tocsr()[free]]))
        aim = np.concatenate([np.zeros(self.on_others.shape[1]), costs * self.scale[free]])
        with_aim = sp.csr_array(sp.hstack([rows, sp.csr_array(aim[:, None])]))
        found, least, cones = y, CANCELLED, self.cone_of_row
        for _ in range(NEWTON):
            y = _into_dual_cone(y, self.dims)
            near = boundaries(y, self.dims)
            left = np.concatenate([exact_sums(with_aim, np.append(y, 1.0)), [boundary.inside for boundary in near]])
            terms = np.concatenate([np.abs(aim), abs(rows) @ np.abs(y)]).max(initial=0.0)
            error = np.abs(left).max(initial=0.0)
            if error <= least * terms:
                found, least = y, error / max(terms, 1e-300)
            elif least < CANCELLED:  # as near as rounding allows
                break
            size = np.zeros(cones.max(initial=-1) + 1)  # of a cone's point: what charges nothing stays so
            np.maximum.at(size, cones, np.abs(y))
            system = sp.vstack([rows, by_row(near, len(y))]) @ sp.diags_array(size[cones])
            y = y - size[cones] * least_squares(system, left)
            if not np.isfinite(y).all():
                break
        return found

    def multipliers(self, y: Float) -> list[tuple[BlockRows, Float]]:
        """The multipliers in natural units of the known linear rows, at a point y."""
        return [(one, one.rows.valid(y[at] / one.rows.units(self.scale))) for one, at in self.rows]

    def slopes(self, y: Float) -> tuple[sp.csr_array, sp.csr_array]:
        """What each cone charges per task of each pair and for each of v: (n_pairs, n_cones) and (n_v, n_cones)."""
        cones = self.cone_of_row
        by_cone = sp.csr_array((y, (np.arange(len(y)), cones)), shape=(len(y), cones.max(initial=-1) + 1))
        per_task = sp.diags_array(1.0 / self.scale) @ (self.on_ours.T @ by_cone)
        return sp.csr_array(per_task), sp.csr_array(self.on_others.T @ by_cone)


def further_conditions(cone: ConeModel) -> ConicConditions | None:
    """The conditions of a model besides capacities and bounds on levels, in cone form: linear rows as they are, others
    as CVXPY compiles them.

    None where there are none, or cones that `conic_bound` does not take.
    """
    conditions = [condition for _, condition in charged_conditions(cone)]
    conditions[len(cone.rest) : len(cone.rest)] = cone.required
    known = [cone.known.get(condition.id) for condition in conditions]
    compiled = _compiled_conditions(cone, [c for c, one in zip(conditions, known, strict=True) if one is None])
    if compiled is None or not conditions:
        return None
    on_ours, on_others, right, dims, further = compiled
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
        Cones(equations, inequalities, dims.soc, dims.exp, dims.p3d),
        cone.scale,
        further,
        [(one, slice(end - len(one.rows), end)) for (*_, one), end in zip(every, ends.tolist(), strict=True) if one],
    )


def _compiled_conditions(
    cone: ConeModel, conditions: Sequence[cp.Constraint]
) -> tuple[sp.csr_array, sp.csr_array, Float, Cones, Sequence[tuple[cp.Variable, Indices]]] | None:
    """Conditions as CVXPY compiles them: the fields of `ConicConditions`; None where it cannot."""
    if not conditions:
        return sp.csr_array((0, cone.unknowns.size)), sp.csr_array((0, 0)), np.zeros(0), Cones(0, 0), ()
    problem = cp.Problem(cp.Minimize(0), list(conditions))
    form = _cone_form(problem, cone.unknowns)
    if form is None:
        return None
    data, _, columns = form
    ours, a, right = columns[cone.unknowns.id], sp.csr_array(data["A"]), np.asarray(data["b"], dtype=float)
    others, held, row = np.setdiff1d(np.arange(a.shape[1]), ours), data["dims"], np.arange(len(right))
    linear = (row >= held.zero) & (row < held.zero + held.nonneg)
    sign = linear & (right == 0) & (np.diff(a.indptr) == 1) & (a[:, ours].sum(axis=1) < 0)  # tasks are not negative
    a, right = a[~sign], right[~sign]
    dims = Cones(held.zero, held.nonneg - int(sign.sum()), tuple(held.soc), held.exp, tuple(held.p3d))
    own = [v for v in problem.variables() if v.id in columns and v.id != cone.unknowns.id]
    further = [(v, np.searchsorted(others, columns[v.id])) for v in own]
    return sp.csr_array(a[:, ours]), sp.csr_array(a[:, others]), right, dims, further


def _solve(data: dict[str, Any], dims: Any) -> tuple[Float | None, Float | None]:
    """CLARABEL's dual and primal solution; None where these are not finite, or there was no time for them."""
    import clarabel
    from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import dims_to_solver_cones

    options = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-12)
    limit = current()
    if limit is not None:
        options["time_limit"] = max(limit.hard - time.perf_counter(), 1e-3)
    if limit is not None and solvers.may_overrun("CLARABEL", data["A"].nnz):
        arrays = {"a": data["A"], "b": data["b"], "c": data["c"], "cones": subprocesses.cones(dims), "options": options}
        try:
            y, z = subprocesses.solve("CLARABEL", limit.hard, **arrays)
        except (subprocesses._Stopped, subprocesses._CannotSend, RuntimeError):
            return None, None
    else:
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        for name, value in options.items():
            setattr(settings, name, value)
        size = len(data["c"])
        found = clarabel.DefaultSolver(
            sp.csc_array((size, size)), data["c"], data["A"], data["b"], dims_to_solver_cones(dims), settings
        ).solve()
        y, z = np.asarray(found.z), np.asarray(found.x)
    return (y, z) if np.isfinite(y).all() and np.isfinite(z).all() else (None, None)


def least_squares(matrix: Any, right: Float) -> Float:
    """The smallest solution of equations with the least squares left; NaN where a number is not finite.

    LAPACK's search does not end on an infinite right side.
    """
    if not (np.isfinite(matrix.data).all() and np.isfinite(right).all()):
        return np.full(matrix.shape[1], np.nan)
    if np.prod(matrix.shape) <= DENSE:
        return np.asarray(np.linalg.lstsq(matrix.toarray(), right, rcond=1e-15)[0])
    return np.asarray(sparse_linalg.lsqr(sp.csr_array(matrix), right, atol=1e-16, btol=1e-16)[0])


def exact_sums(matrix: sp.csr_array, at: Float) -> Float:
    """The product of a matrix and a vector, each entry rounded once.

    Products of floats are sums of two floats (Dekker 1971), and `math.fsum` adds up exactly.
    """
    left, right = matrix.data, at[matrix.indices]
    product = left * right
    (a, b), (c, d) = _halves(left), _halves(right)
    rest = ((a * c - product) + a * d + b * c) + b * d
    terms = np.stack([product, np.where(np.isfinite(rest), rest, 0.0)], axis=1).ravel()
    ends = (2 * matrix.indptr).tolist()
    if not np.isfinite(product).all():
        return np.asarray(matrix @ at)
    return np.array([math.fsum(terms[i:j].tolist()) for i, j in pairwise(ends)])


def _halves(x: Float) -> tuple[Float, Float]:
    """Floats as sums of two of half the digits."""
    upper = 134217729.0 * x
    upper = upper - (upper - x)
    return upper, x - upper


class Boundary(NamedTuple):
    """A curved dual cone whose boundary a point is near: its rows, how far inside the point is, and the derivatives of
    that, the second ones where they are asked for.
    """

    rows: slice
    inside: float
    slope: Float
    bend: Float | None


def boundaries(y: Float, dims: Any, bends: bool = False) -> list[Boundary]:
    """The boundaries of curved dual cones that a point is near.

    Near is what is nearer than `NEAR` of the point's size: where a primal point is at its cone's apex, the dual one is
    anywhere in the cone.
    """
    at, found = dims.zero + dims.nonneg, list[Boundary]()
    for size in dims.soc:
        norm = float(np.linalg.norm(y[at + 1 : at + size]))
        if norm > 0:
            way = y[at + 1 : at + size] / norm
            slope, bend = np.concatenate([[1.0], -way]), None
            if bends:
                bend = np.zeros((size, size))
                bend[1:, 1:] = (np.outer(way, way) - np.eye(size - 1)) / norm
            found.append(Boundary(slice(at, at + size), float(y[at]) - norm, slope, bend))
        at += size
    for _ in range(dims.exp):
        u, v, w = y[at : at + 3].tolist()
        if u < 0:  # w >= -u exp(v / u - 1)
            e, way = np.exp(v / u - 1.0), np.array([-v / u, 1.0, 0.0])
            slope, bend = np.array([e * (1.0 - v / u), e, 1.0]), e / u * np.outer(way, way)
            found.append(Boundary(slice(at, at + 3), w + u * e, slope, bend))
        at += 3
    for power in dims.p3d:
        a, (u, v, w) = float(power), y[at : at + 3].tolist()
        b = 1.0 - a
        if u > 0 and v > 0:  # (u / a)^a (v / b)^b >= |w|
            most = (u / a) ** a * (v / b) ** b
            slope = np.array([a * most / u, b * most / v, -np.sign(w)])
            way = np.array([1.0 / u, -1.0 / v, 0.0])
            bend = -a * b * most * np.outer(way, way)
            found.append(Boundary(slice(at, at + 3), most - abs(w), slope, bend))
        at += 3
    return [f for f in found if np.isfinite(f.slope).all() and f.inside <= NEAR * np.abs(y[f.rows]).max()]


def by_row(boundaries: Sequence[Boundary], size: int) -> sp.csr_array:
    """The slopes of boundaries, as the rows of a matrix."""
    slopes = sp.lil_array((len(boundaries), size))
    for row, boundary in enumerate(boundaries):
        slopes[row, boundary.rows] = boundary.slope
    return sp.csr_array(slopes)


def _into_dual_cone(y: Float, dims: Any) -> Float:
    """A point of the dual cone near y: one coordinate of each cone is moved as far as needed."""
    y = y.copy()
    at = dims.zero
    y[at : at + dims.nonneg] = np.maximum(y[at : at + dims.nonneg], 0.0)
    at += dims.nonneg
    for size in dims.soc:
        y[at] = max(y[at], float(np.linalg.norm(y[at + 1 : at + size])))
        at += size
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
        if have < w:
            grow = w / have if have > 0 else 1.0
            y[at], y[at + 1] = (u * grow, v * grow) if have > 0 else (a * w, (1 - a) * w)
        else:
            y[at], y[at + 1] = u, v
        at += 3
    return y
