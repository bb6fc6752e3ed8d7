"""Problems in cone form: ``min c'z + d, A z + s = b, s in K``, and what a solver leaves of them.

z are the n variables of the problem and those that CVXPY adds, A is (m, n), and rows stand by cone: equations,
inequalities, second-order, exponential and power cones (`Cones`).

CVXPY's chain of reductions takes 2 to 5 ms for a small problem, half of it to keep parameters that may change. Here
CVXPY writes atoms in cones, and the affine arguments of all cones become one matrix (`affine`); rows of tables are put
beside it. The logarithms of 20 users on 3 resources take 0.7 ms this way and 2.4 ms by the chain. Problems of other
kinds go through the chain. That the data are those of the problem is tested where they prove something
(`fairopt.proof.written_rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.own import ranges
from fairopt.blocks.table_rows import TableRows
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import cp, sp
from fairopt.solve.form.affine import PER_ENTRY, affine_entries, backend, parameters
from fairopt.solve.form.aggregates import SAVED, with_aggregates
from fairopt.solve.form.highs import solve_data
from fairopt.solve.form.structured import STRUCTURED, by_free_entries, is_plain

# Factors of a geometric mean that is written in power cones. CVXPY's default is a tree of second-order cones, of the
# same mean, found in fractions: beside what the mean itself takes 0.04, 0.1 and 0.2 s for 10, 20 and 40 users, here
# 0.02.
FACTORS = 8
BY_CONES = ("CLARABEL", "HIGHS")  # solvers whose data are ``min c'z, b - A z in cones``, equations first


@dataclass
class Posed:
    """A problem of which CVXPY's object, which goes through all expressions, is made where CVXPY needs it."""

    objective: cp.Maximize | cp.Minimize
    constraints: Sequence[cp.Constraint]

    def variables(self) -> list[cp.Variable]:
        """The variables of the problem."""
        return list({v.id: v for part in (self.objective, *self.constraints) for v in part.variables()}.values())

    @cached_property
    def constants(self) -> list[cp.Constant]:
        """The constants of expressions, without tables of rows."""
        parts = (self.objective, *(c for c in self.constraints if not isinstance(c, TableRows)))
        return list({id(c): c for part in parts for c in part.constants()}.values())


def posed(problem: cp.Problem | Posed) -> Posed:
    """A problem without CVXPY's object."""
    return problem if isinstance(problem, Posed) else Posed(problem.objective, problem.constraints)


def whole(problem: cp.Problem | Posed) -> cp.Problem:
    """CVXPY's object of a problem."""
    return cp.Problem(problem.objective, list(problem.constraints)) if isinstance(problem, Posed) else problem


@contextmanager
def values_kept(variables: Iterable[cp.Variable]) -> Iterator[list[cp.Variable]]:
    """Restore the values of variables, which it gives, on exit."""
    before = [(variable, variable.value) for variable in variables]
    try:
        yield [variable for variable, _ in before]
    finally:
        for variable, value in before:
            variable.save_value(value)


@contextmanager
def without_values(variables: Iterable[cp.Variable]) -> Iterator[None]:
    """A block in which variables have no values, since CVXPY compiles in it.

    CVXPY's forms of atoms start their own variables at values that those of the problem have, as general nonlinear
    solvers need, and fail where these lie outside what they expect (`sum_largest` of all entries, or of 1.5). Cone
    solvers need none.
    """
    with values_kept(variables) as kept:
        for variable in kept:
            variable.save_value(None)
        yield


@dataclass(frozen=True)
class Cones:
    """The cones of rows, as CVXPY names them: equations, inequalities, second-order cones, those of semidefinite
    matrices, exponential and power cones, in this order.
    """

    zero: int
    nonneg: int
    soc: tuple[int, ...] = ()
    exp: int = 0
    p3d: tuple[float, ...] = ()
    psd: tuple[int, ...] = ()
    pnd: tuple[Any, ...] = ()


class Compiled:
    """A problem compiled for a solver by CVXPY's chain: its ``data``, the chain and its inverse data."""

    def __init__(self, problem: cp.Problem | Posed, solver: str, options: dict[str, Any]) -> None:
        self.problem = problem = whole(problem)
        with without_values(problem.variables()):
            compiled = problem.get_problem_data(solver, ignore_dpp=True, solver_opts=options)
        self.data, self.chain, self.inverse = compiled

    @staticmethod
    def of(problem: cp.Problem | Posed, solver: str, options: dict[str, Any]) -> Compiled:
        """A compiled problem."""
        return CompiledHere.made(problem, solver, options) or Compiled(problem, solver, options)

    @property
    def entries(self) -> int:
        """The number of entries of its matrices."""
        return int(self.data["A"].nnz + getattr(self.data.get("P"), "nnz", 0))

    def columns(self) -> dict[int, Indices]:
        """The columns of the problem's variables by their ids."""
        out, starts = dict[int, Indices](), self.data["param_prob"].var_id_to_col
        for variable in self.problem.variables():
            names = {variable.id}  # CVXPY replaces variables that have a sign
            for reduction in self.chain.reductions:
                names.update(*(new for old, new in getattr(reduction, "var_id_map", {}).items() if old in names))
            start = next((starts[name] for name in names if name in starts), None)
            if start is not None:
                out[variable.id] = np.arange(start, start + variable.size)
        return out

    @property
    def offset(self) -> float | None:
        """The objective's constant; None if it is not known."""
        extra = getattr(self.inverse[-1], "inverse_data", self.inverse[-1])  # a dict, which CVXPY 1.9 wraps
        return float(extra["offset"]) if isinstance(extra, dict) and "offset" in extra else None

    def solve(self, data: dict[str, Any], verbose: bool, options: dict[str, Any]) -> Any:
        """The solver's raw solution of these data, by default its own or these in other units."""
        return self.chain.solve_via_data(self.problem, data, warm_start=False, verbose=verbose, solver_opts=options)

    def unpack(self, raw: Any) -> str:
        """Leave a solver's solution in the variables and dual values; the status."""
        self.problem.unpack_results(raw, self.chain, self.inverse)
        return str(self.problem.status)


class _Part(NamedTuple):
    """One of CVXPY's constraints as rows of a program."""

    condition: cp.Constraint
    kind: int  # of its cones: 0 equations, 1 inequalities, 2 second-order, 3 of matrices, 4 exponential, 5 power cones
    arguments: Sequence[cp.Expression]  # affine
    order: Indices  # the place of each entry of the arguments, in column order, among the rows
    sign: float | Float = -1.0  # 1 where the arguments are at most 0, or 0; by entry, if not all alike

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.order.max(initial=-1)) + 1


class CompiledHere(Compiled):
    """A problem without parameters in rows that are written here, for CLARABEL or HiGHS.

    ``squares`` of the objective stay as ``x'Px / 2``. ``rows`` are the places of constraints and ``starts`` the first
    columns of variables, by their ids.
    """

    def __init__(self, problem: cp.Problem | Posed, solver: str, squares: bool) -> None:
        from cvxpy.reductions.solvers.defines import SOLVER_MAP_CONIC

        self.problem, self.solver, self.interface = problem, solver, SOLVER_MAP_CONIC[solver]
        self.squares, self.rows, self.starts = squares, dict[int, slice](), dict[int, int]()
        self.variables: list[cp.Variable] = []  # of the problem as it is given
        self.all_variables: Sequence[cp.Variable] = ()  # and those that CVXPY added
        self.cost: Any = None  # minimised
        self.conditions: Sequence[cp.Constraint] = ()  # whose arguments are the rows
        self.bounds: slice | None = None  # the rows that are bounds of variables
        self.aggregates: list[tuple[slice, int]] = []  # their equations, and their first columns, outer ones first

    @classmethod
    def made(
        cls, problem: cp.Problem | Posed, solver: str, options: dict[str, Any], saved: float = SAVED
    ) -> CompiledHere | None:
        """None if CVXPY's chain has to compile it, or to say why it cannot; `Late` if there is no time for it.

        A node that takes few numbers may become many entries: a mean that is repeated for each of n users has n * n.
        """
        if solver not in BY_CONES:
            return None
        (objective,) = problem.objective.args
        squares = solver == "CLARABEL" and bool(options.get("use_quad_obj", True))
        out = cls(problem, solver, squares and objective.has_quadratic_term() and not objective.is_affine())
        beside = [c for c in problem.constraints if isinstance(c, TableRows)]
        rest = [c for c in problem.constraints if not isinstance(c, TableRows)]
        part = cp.Problem(cp.Minimize(-objective if isinstance(problem.objective, cp.Maximize) else objective), rest)
        out.variables = list({v.id: v for v in (*(c.unknowns for c in beside), *part.variables())}.values())
        complex_ = any(constant.is_complex() for constant in posed(problem).constants)
        twice = len({c.id for c in problem.constraints}) < len(problem.constraints)  # rows are found by these
        if not out.variables or part.parameters() or not part.is_dcp() or complex_ or twice:
            return None
        if not all(map(is_plain, out.variables)):
            return None
        written, inverse = out.in_cones(part)
        written, ids = _of_plain_variables(_in_three_dimensions(written, inverse))
        written, again = with_aggregates(written, saved)
        parts = [_part(c, out.interface.SUPPORTED_CONSTRAINTS) for c in written.constraints]
        variables = list({v.id: v for v in (*out.variables, *written.variables())}.values())
        if not all(map(is_plain, variables)) or None in parts:
            return None
        out.all_variables, out.cost = variables, written.objective.args[0]
        out.conditions = [*beside, *written.constraints]
        out.write(out.cost, [one for one in parts if one is not None], variables, beside)
        for c in rest:
            at = ids.get(inverse.cons_id_map[c.id], inverse.cons_id_map[c.id])
            out.rows[c.id] = out.rows[again.get(at, at)]
        equations = written.constraints[len(again) :] if again else ()
        out.aggregates = [(out.rows[one.id], out.starts[one.args[0].id]) for one in equations]
        return out

    def in_cones(self, part: cp.Problem) -> Any:
        """A problem with its atoms written in the solver's cones, and CVXPY's inverse data."""
        from cvxpy.utilities.solver_context import SolverInfo

        cones, bounded = frozenset(self.interface.SUPPORTED_CONSTRAINTS), self.interface.BOUNDED_VARIABLES
        context = SolverInfo(solver=self.solver, supported_constraints=cones, supports_bounds=bounded)
        with without_values(part.variables()):
            return _to_cones()(quad_obj=self.squares, solver_context=context).apply(part)

    def write(
        self,
        objective: cp.Expression,
        parts: Sequence[_Part],
        variables: Sequence[cp.Variable],
        tables: Sequence[TableRows],
    ) -> None:
        """Make the data of a problem in cones, with rows of tables beside it."""
        *starts, n = np.cumsum([0, *(v.size for v in variables)]).tolist()
        self.starts = dict(zip((v.id for v in variables), starts, strict=True))
        least, most = (np.concatenate(sides) for sides in zip(*map(ranges, variables), strict=True))
        bounded = self.interface.BOUNDED_VARIABLES
        low, high = (np.flatnonzero(np.isfinite(side) & (not bounded)) for side in (least, most))
        sizes = [(1, -1, len(low) + len(high))]  # in CVXPY's order
        sizes += [(int(isinstance(one, cp.constraints.Inequality)), one.constr_id, one.size) for one in tables]
        sizes += [(one.kind, one.condition.id, one.size) for one in parts]
        m = 0
        for _, key, size in sorted(sizes, key=lambda one: one[0]):
            self.rows[key] = slice(m, m + size)
            m += size
        # the objective is the row behind all others, and constants are the column behind all others
        place = [np.array([m]), *(self.rows[one.condition.id].start + one.order for one in parts)]
        signs = np.concatenate([[1.0], *(np.broadcast_to(one.sign, len(one.order)) for one in parts)])
        arguments = [argument for one in parts for argument in one.arguments]
        row, column, value = affine_entries(
            [cp.Constant(0.0) if self.squares else objective, *arguments], self.starts, n
        )
        entries = [(np.concatenate(place)[row], column, signs[row] * value)]
        for one in tables:
            first = self.rows[one.constr_id].start
            row, column, value = _entries(one.table)
            entries.append((first + row, column + self.starts[one.unknowns.id], value))
            entries.append((np.arange(first, first + one.size), np.full(one.size, n), -one.right))
        self.bounds = self.rows.pop(-1)
        at = np.arange(self.bounds.start, self.bounds.stop)
        entries.append((at, np.concatenate([low, high]), np.repeat([-1.0, 1.0], [len(low), len(high)])))
        entries.append((at, np.full(len(at), n), np.concatenate([least[low], -most[high]])))
        check(needs=PER_ENTRY / 2 * sum(len(some) for some, *_ in entries))
        row, column, value = (np.concatenate(some) for some in zip(*entries, strict=True))
        check()
        inside, cost, right = (row < m) & (column < n), row == m, (row < m) & (column == n)
        a = sp.csc_array((value[inside], (row[inside], column[inside])), shape=(m, n))
        self.data = {"A": a, "b": -_sums(row[right], value[right], m), "dims": _cones(sizes, parts)}
        costs = _sums(column[cost], value[cost], n + 1)
        if self.squares:
            self.data["P"], costs = self.of_squares(objective, variables, n)
        self.data["c"], self._offset = costs[:-1], float(costs[-1])
        if bounded:
            self.data |= {"lower_bounds": least, "upper_bounds": most, "bool_vars_idx": [], "int_vars_idx": []}

    def for_clarabel(self) -> CompiledHere:
        """A linear program for HiGHS, with bounds of variables as rows behind the others."""
        from cvxpy.reductions.solvers.defines import SOLVER_MAP_CONIC

        out, data, (m, n) = copy(self), self.data, self.data["A"].shape
        least, most = data["lower_bounds"], data["upper_bounds"]
        low, high = np.flatnonzero(np.isfinite(least)), np.flatnonzero(np.isfinite(most))
        signs, column = np.repeat([-1.0, 1.0], [len(low), len(high)]), np.concatenate([low, high])
        bounds = sp.csc_array((signs, (np.arange(len(column)), column)), shape=(len(column), n))
        out.solver, out.interface = "CLARABEL", SOLVER_MAP_CONIC["CLARABEL"]
        out.bounds = slice(m, m + len(column))
        out.data = {
            "A": sp.csc_array(sp.vstack([data["A"], bounds])),
            "b": np.concatenate([data["b"], -least[low], most[high]]),
            "c": data["c"],
            "dims": replace(data["dims"], nonneg=data["dims"].nonneg + len(column)),
        }
        return out

    def of_squares(self, objective: cp.Expression, variables: Sequence[cp.Variable], n: int) -> tuple[Any, Float]:
        """The matrix of squares, and the costs with the constant behind them."""
        from cvxpy.utilities.coeff_extractor import CoeffExtractor

        shapes = {v.id: v.shape for v in variables}
        places = SimpleNamespace(
            x_length=n, var_offsets=self.starts, var_shapes=shapes, param_shapes={}, **parameters()
        )
        squares, costs = CoeffExtractor(places, backend([objective])).quad_form(objective.copy())
        return sp.csc_array(2 * sp.csc_array(squares).reshape((n, n), order="F")), costs.toarray().ravel()

    def columns(self) -> dict[int, Indices]:
        """The columns of the problem's variables by their ids."""
        return {v.id: np.arange(self.starts[v.id], self.starts[v.id] + v.size) for v in self.variables}

    @property
    def offset(self) -> float:
        """The objective's constant."""
        return self._offset

    def solve(self, data: dict[str, Any], verbose: bool, options: dict[str, Any]) -> Any:
        """The solver's raw solution of these data."""
        if not all(np.isfinite(part).all() for part in (data["A"].data, data["c"])) or np.isnan(data["b"]).any():
            raise ValueError("Problem data contains NaN or Inf.")
        if self.solver == "HIGHS":
            own = options | options.get("highs_options", {})
            own.pop("highs_options", None)
            return solve_data(data, verbose, own)
        return Clarabel(data["dims"], options, verbose).solve(data)

    def unpack(self, raw: Any) -> str:
        """Leave a solver's solution in the variables and dual values; the status."""
        settings, names = cp.settings, self.interface.STATUS_MAP
        if self.solver == "HIGHS":
            status, x = names.get(raw["model_status"], settings.UNKNOWN), raw["solution"].col_value
            y = -np.asarray(raw["dual_ray"][2] if "dual_ray" in raw else raw["solution"].row_dual)
        else:
            status, x, y = names.get(str(raw.status), settings.SOLVER_ERROR), raw.x, np.asarray(raw.z)
            if str(raw.status) == "InsufficientProgress":
                status = settings.OPTIMAL_INACCURATE
        if status not in (*settings.SOLUTION_PRESENT, *settings.INF_OR_UNB):
            raise cp.error.SolverError(f"Solver '{self.solver}' failed.")
        solved = status in settings.SOLUTION_PRESENT
        self.leave(np.asarray(x) if solved else None, y if solved or len(y) else None)
        return str(status)

    def leave(self, x: Float | None, y: Float | None) -> None:
        """Leave points of the cone form in the variables and dual values; None where there is no point."""
        for variable in self.variables:
            at = self.starts[variable.id]
            value = None if x is None else x[at : at + variable.size].reshape(variable.shape, order="F")
            variable.save_value(None if value is None else variable.project(value))
        for c in self.problem.constraints:
            some = None if y is None else y[self.rows[c.id]]
            if some is None:
                for dual in c.dual_variables:
                    dual.save_value(None)
            elif isinstance(c, (cp.constraints.SOC, cp.constraints.ExpCone)):
                c.save_dual_value(some)
            elif isinstance(c, cp.constraints.PSD):
                c.save_dual_value(matrix_of(some, c.shape[0]))
            else:
                c.save_dual_value(some.reshape(c.shape, order="F"))


class Clarabel:
    """CLARABEL's settings and cones, for programs that have these in common."""

    def __init__(self, dims: Any, options: Mapping[str, Any], verbose: bool = False) -> None:
        from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import dims_to_solver_cones
        from cvxpy.reductions.solvers.defines import SOLVER_MAP_CONIC

        self.cones = dims_to_solver_cones(dims)
        self.settings = SOLVER_MAP_CONIC["CLARABEL"].parse_solver_opts(verbose, dict(options))

    def solve(self, data: Mapping[str, Any]) -> SimpleNamespace:
        """The solution, with its lists, which are made anew each time, as arrays."""
        import clarabel

        n, squares = len(data["c"]), data.get("P")
        upper = sp.csc_array((n, n) if squares is None else sp.triu(squares))
        try:
            given = upper, data["c"], data["A"], data["b"], self.cones, self.settings
            solution = clarabel.DefaultSolver(*given).solve()
        except BaseException as error:  # a panic of its Rust code, as of eigenvalues that were not found
            if type(error).__module__ != "pyo3_runtime":
                raise
            raise RuntimeError(f"CLARABEL: {error}") from None
        names = ("status", "obj_val", "solve_time", "iterations")
        rest = {name: getattr(solution, name) for name in names}
        return SimpleNamespace(x=np.asarray(solution.x), z=np.asarray(solution.z), **rest)


@cache
def _to_cones() -> Any:
    """CVXPY's reduction to cones, which copies affine expressions node by node, without that."""
    from cvxpy.reductions.dcp2cone.dcp2cone import Dcp2Cone

    affine, atom, leaf = cp.atoms.affine.affine_atom.AffAtom, cp.atoms.atom.Atom, cp.expressions.leaf.Leaf

    class ToCones(Dcp2Cone):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.known: dict[int, tuple[Any, bool]] = {}  # with the expressions, whose ids others might get

        def canonicalize_tree(self, expr: Any, *rest: Any) -> Any:
            check()
            return (expr, []) if self.is_plain(expr) else super().canonicalize_tree(expr, *rest)

        def canonicalize_expr(self, expr: Any, args: Any, affine_above: bool) -> Any:
            if isinstance(expr, cp.sum_largest) and expr.axis is None and expr.k >= args[0].size:
                return cp.sum(args[0]), []  # CVXPY's form has a variable that is unbounded at its optima
            if type(expr).__name__ == "GeoMeanApprox" and len(expr.w) > FACTORS:
                return self.cone_canon_methods[type(expr).__base__](expr, args)
            return super().canonicalize_expr(expr, args, affine_above)

        def is_plain(self, expr: Any) -> bool:
            """Whether it is made of variables, constants and affine nodes that need no other form."""
            if id(expr) not in self.known:
                kind = type(expr)
                inner = issubclass(kind, (affine, cp.Constraint)) and kind not in self.cone_canon_methods
                plain = isinstance(expr, leaf) or (isinstance(expr, atom) and expr.is_constant())
                self.known[id(expr)] = expr, plain or (inner and all(map(self.is_plain, expr.args)))
            return self.known[id(expr)][1]

    return ToCones


def _in_three_dimensions(problem: cp.Problem, inverse: Any) -> cp.Problem:
    """A problem with power cones of three numbers in place of larger ones, and CVXPY's inverse data changed with it.

    With A_i = a_0 + ... + a_i and A_n = 1, ``w_0^a_0 ... w_n^a_n >= |z|`` and w >= 0 if and only if there are t with

        t_(i-1)^(A_(i-1) / A_i)  w_i^(a_i / A_i)  >=  |t_i|,   i = 1, ..., n,   t_0 = w_0,  t_n = z.
    """
    large, conditions = cp.constraints.PowConeND, list[cp.Constraint]()
    for one in problem.constraints:
        if not isinstance(one, large):
            conditions.append(one)
            continue
        (w, z), powers = one.args, np.asarray(one.alpha.value, dtype=float)
        if powers.ndim == 1:
            w, powers = cp.reshape(w, (w.size, 1), order="F"), powers[:, None]
        w, powers = (w.T, powers.T) if one.axis == 1 else (w, powers)
        if len(powers) < 2:  # CVXPY's own form, for which `made` gives None
            return problem
        between = cp.Variable((len(powers) - 2, powers.shape[1]))
        sums = np.cumsum(powers, axis=0)
        t = cp.vstack([w[:1], between]) if len(powers) > 2 else w[:1]
        following = cp.vstack([between, cp.reshape(z, (1, z.size), order="F")]) if len(powers) > 2 else z
        parts = [cp.vec(cp.reshape(part, sums[1:].shape, order="F"), order="F") for part in (t, w[1:], following)]
        conditions.append(cp.PowCone3D(*parts, np.ravel(sums[:-1] / sums[1:], order="F")))
        inverse.cons_id_map.update({k: conditions[-1].id for k, v in inverse.cons_id_map.items() if v == one.id})
    if all(one is other for one, other in zip(conditions, problem.constraints, strict=True)):
        return problem
    return cp.Problem(problem.objective, conditions)


def _of_plain_variables(problem: cp.Problem) -> tuple[cp.Problem, dict[int, int]]:
    """A problem with variables that are matrices of a kind by their free entries, and new ids of its constraints."""
    new, further = dict[int, Any](), list[cp.Constraint]()
    for variable in problem.variables():
        if any(variable.attributes[name] for name in STRUCTURED):
            *_, new[id(variable)], condition = by_free_entries(variable, *ranges(variable))
            further += [] if condition is None else [condition]
    if not new:
        return problem, {}
    constraints = [one.tree_copy(id_objects=new) for one in problem.constraints]
    ids = {old.id: one.id for old, one in zip(problem.constraints, constraints, strict=True)}
    return cp.Problem(problem.objective.tree_copy(id_objects=new), [*constraints, *further]), ids


def _entries(table: Any) -> tuple[Indices, Indices, Float]:
    """The rows, columns and values of a sparse or dense table."""
    if not hasattr(table, "tocsr"):
        row, column = np.nonzero(table)
        return row, column, table[row, column]
    by_row = table.tocsr()
    row = np.repeat(np.arange(by_row.shape[0]), np.diff(by_row.indptr))
    return row, by_row.indices.astype(np.intp), by_row.data


def _sums(place: Indices, values: Float, n: int) -> Float:
    """Sums by place."""
    return np.bincount(place, values, n).astype(float)  # of nothing they are whole numbers


def _part(condition: cp.Constraint, supported: Sequence[type]) -> _Part | None:
    """A constraint with affine arguments as rows; None if these are of other cones than a solver's."""
    kinds, arguments = cp.constraints, condition.args
    if isinstance(condition, (kinds.Equality, kinds.Inequality)):
        kind = int(isinstance(condition, kinds.Inequality))
        return _Part(condition, kind, [condition.expr], np.arange(condition.size), 1.0)
    if isinstance(condition, (kinds.Zero, kinds.NonNeg)):
        kind = int(isinstance(condition, kinds.NonNeg))
        return _Part(condition, kind, arguments, np.arange(condition.size), -1.0 if kind else 1.0)
    by_matrices = any(kind.__name__ in ("PSD", "SvecPSD") for kind in supported)
    if isinstance(condition, kinds.PSD) and len(condition.shape) == 2 and by_matrices:
        place, factors = triangle(condition.shape[0])
        return _Part(condition, 3, arguments, place, -factors)
    if type(condition) not in supported:
        return None
    first = np.arange(arguments[0].size)
    if isinstance(condition, kinds.SOC):
        each, entry = arguments[1].size // len(first), np.arange(arguments[1].size)
        inside, cone = divmod(entry, len(first)) if condition.axis == 1 else (entry % each, entry // each)
        order = [first * (each + 1), cone * (each + 1) + 1 + inside]
        return _Part(condition, 2, arguments, np.concatenate(order))
    if isinstance(condition, (kinds.ExpCone, kinds.PowCone3D)):
        kind = 4 if isinstance(condition, kinds.ExpCone) else 5
        return _Part(condition, kind, arguments, np.concatenate([3 * first, 3 * first + 1, 3 * first + 2]))
    return None


def _cones(sizes: Sequence[tuple[int, int, int]], parts: Sequence[_Part]) -> Cones:
    """The cones of rows, of which there are ``sizes`` by kind and constraint."""
    zero, nonneg = (sum(size for k, _, size in sizes if k == kind) for kind in (0, 1))
    soc, psd, exp, powers = ([one.condition for one in parts if one.kind == kind] for kind in (2, 3, 4, 5))
    return Cones(
        zero,
        nonneg,
        tuple(int(size) for c in soc for size in c.cone_sizes()),
        sum(int(c.num_cones()) for c in exp),
        tuple(float(a) for c in powers for a in np.ravel(c.alpha.value, order="F")),
        tuple(int(c.shape[0]) for c in psd),
    )


def triangle(n: int) -> tuple[Indices, Float]:
    """The rows of the entries of a matrix of n rows, in column order, as CLARABEL has them, and the entries' factors.

    The upper triangle by columns, with what lies off the diagonal, the mean of both entries, times the root of 2: inner
    products of such vectors are those of matrices.
    """
    column, row = divmod(np.arange(n * n), n)
    low, high = np.minimum(row, column), np.maximum(row, column)
    return high * (high + 1) // 2 + low, np.where(row == column, 1.0, np.sqrt(0.5))


def matrix_of(rows: Float, n: int) -> Float:
    """The symmetric matrix of such rows."""
    order, factors = triangle(n)
    return np.asarray((rows[order] * factors).reshape(n, n))


class Left:
    """What a solver leaves of a problem besides the values of its variables: how it was compiled, and a primal and a
    dual point in this form.

    Both are None after a run in another process, and the points where a solver gives none in this form.
    """

    compiled: Compiled | None = None
    points: tuple[Float, Float] | None = None

    def is_of(self, expression: cp.Expression, constraints: Iterable[cp.Constraint]) -> bool:
        """Whether this expression was maximised under these constraints, and under no others."""
        if self.compiled is None or self.points is None:
            return False
        problem = self.compiled.problem
        same = problem.objective.args[0] is expression and isinstance(problem.objective, cp.Maximize)
        return same and [c.id for c in problem.constraints] == [c.id for c in constraints]

    def keep(self, solver: str, compiled: Compiled, raw: Any) -> None:
        """Keep what CLARABEL or HiGHS gave."""
        self.compiled, self.points = compiled, None
        if solver == "CLARABEL":
            points = raw.x, raw.z
        elif solver == "HIGHS":
            points = raw["solution"].col_value, -np.asarray(raw["solution"].row_dual)
        else:
            return
        primal, dual = (np.asarray(point, dtype=float) for point in points)
        if (len(dual), len(primal)) == compiled.data["A"].shape and np.isfinite(np.append(primal, dual)).all():
            self.points = primal, dual
