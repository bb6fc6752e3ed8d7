"""Problems in cone form: ``min c'z + d, A z + s = b, s in K``, and what a solver leaves of them.

CVXPY's chain of reductions takes 5 ms for a small problem, half of it to keep parameters that may change later. Here
CVXPY writes atoms in cones, and the affine arguments of all cones as one matrix; rows of tables are put beside it.
Problems of other kinds go through CVXPY's chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.own import ranges
from fairopt.blocks.table_rows import TableRows
from fairopt.runtime.lazy import cp, sp

Float = NDArray[np.float64]
Indices = NDArray[np.intp]
BY_CONES = ("CLARABEL", "HIGHS")  # solvers whose data are ``min c'z, b - A z in cones``, equations first
SIGNS = ("nonneg", "nonpos", "pos", "neg", "bounds")  # attributes of variables that are bounds


@dataclass
class Posed:
    """A problem of which CVXPY's object, which goes through all expressions, is made where CVXPY needs it."""

    objective: cp.Maximize | cp.Minimize
    constraints: Sequence[cp.Constraint]

    def variables(self) -> list[cp.Variable]:
        """The variables of the problem."""
        return list({v.id: v for part in (self.objective, *self.constraints) for v in part.variables()}.values())


def whole(problem: cp.Problem | Posed) -> cp.Problem:
    """CVXPY's object of a problem."""
    return cp.Problem(problem.objective, list(problem.constraints)) if isinstance(problem, Posed) else problem


@dataclass(frozen=True)
class Cones:
    """The cones of rows, in order, as CVXPY names them: equations, inequalities, second-order, exponential and power
    cones.
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

    def __init__(self, problem: cp.Problem | Posed, solver: str, options: dict[str, Any], keep: bool) -> None:
        self.problem = problem = whole(problem)
        self.data, self.chain, self.inverse = problem.get_problem_data(solver, ignore_dpp=not keep, solver_opts=options)

    @staticmethod
    def of(problem: cp.Problem | Posed, solver: str, options: dict[str, Any], keep: bool = False) -> Compiled:
        """A compiled problem; with ``keep`` for all values of its parameters."""
        squares = solver == "CLARABEL" and options.get("use_quad_obj", True) and _has_squares(problem.objective.args[0])
        written = None if keep or solver not in BY_CONES else _Written.made(problem, solver, bool(squares))
        return written or Compiled(problem, solver, options, keep)

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
    kind: int  # of its cones: 0 equations, 1 inequalities, 2 second-order, 3 exponential, 4 power cones
    arguments: Sequence[cp.Expression]  # affine
    order: Indices  # the place of each entry of the arguments, in column order, among the rows
    upper: bool = False  # whether the arguments are at most 0, or 0


class _Written(Compiled):
    """A problem without parameters in rows that are written here, for CLARABEL or HiGHS."""

    def __init__(self, problem: cp.Problem | Posed, solver: str, squares: bool) -> None:
        from cvxpy.reductions.solvers.defines import SOLVER_MAP_CONIC

        self.problem, self.solver, self.interface = problem, solver, SOLVER_MAP_CONIC[solver]
        self.squares = squares  # whether those of the objective stay as ``x'Px / 2``
        self.rows = dict[int, slice]()  # of constraints, by their ids
        self.starts = dict[int, int]()  # the first columns of variables, by their ids
        self.variables: list[cp.Variable] = []  # of the problem as it is given

    @classmethod
    def made(cls, problem: cp.Problem | Posed, solver: str, squares: bool) -> _Written | None:
        """None if CVXPY's chain has to compile it, or to say why it cannot."""
        found, (objective,) = cls(problem, solver, squares), problem.objective.args
        beside = [c for c in problem.constraints if isinstance(c, TableRows)]
        rest = [c for c in problem.constraints if not isinstance(c, TableRows)]
        part = cp.Problem(cp.Minimize(-objective if isinstance(problem.objective, cp.Maximize) else objective), rest)
        found.variables = list({v.id: v for v in (*(c.unknowns for c in beside), *part.variables())}.values())
        if not found.variables or part.parameters() or not part.is_dcp() or any(map(_is_complex, part.constants())):
            return None
        written, inverse = found.in_cones(part)
        parts = [_part(c) for c in written.constraints]
        variables = list({v.id: v for v in (*found.variables, *written.variables())}.values())
        if not all(map(_is_plain, variables)) or not all(map(found.takes, parts)):
            return None
        found.write(written, [one for one in parts if one is not None], variables, beside)
        found.rows |= {c.id: found.rows[inverse.cons_id_map[c.id]] for c in rest}
        return found

    def in_cones(self, part: cp.Problem) -> Any:
        """A problem with its atoms written in the solver's cones, and CVXPY's inverse data."""
        from cvxpy.reductions.dcp2cone.dcp2cone import Dcp2Cone
        from cvxpy.utilities.solver_context import SolverInfo

        cones, bounded = frozenset(self.interface.SUPPORTED_CONSTRAINTS), self.interface.BOUNDED_VARIABLES
        context = SolverInfo(solver=self.solver, supported_constraints=cones, supports_bounds=bounded)
        return Dcp2Cone(quad_obj=self.squares, solver_context=context).apply(part)

    def takes(self, part: _Part | None) -> bool:
        """Whether the solver takes the cones of a constraint."""
        return part is not None and (part.kind <= 1 or type(part.condition) in self.interface.SUPPORTED_CONSTRAINTS)

    def write(
        self,
        written: cp.Problem,
        parts: Sequence[_Part],
        variables: Sequence[cp.Variable],
        beside: Sequence[TableRows],
    ) -> None:
        """Make the data of a problem in cones, with rows of tables beside it."""
        ends = np.cumsum([0, *(v.size for v in variables)]).tolist()
        self.starts, n = dict(zip((v.id for v in variables), ends, strict=False)), ends[-1]
        least, most = (np.concatenate(sides) for sides in zip(*map(ranges, variables), strict=True))
        low, high = np.flatnonzero(least > -np.inf), np.flatnonzero(most < np.inf)
        if self.interface.BOUNDED_VARIABLES:
            low = high = low[:0]
        bounds = len(low) + len(high)
        straight = [[(one.condition.id, len(one.order)) for one in parts if one.kind == kind] for kind in (0, 1)]
        kinds = cp.constraints.Equality, cp.constraints.Inequality
        ours = [[(one.constr_id, one.size) for one in beside if isinstance(one, kind)] for kind in kinds]
        curved = sorted((one for one in parts if one.kind > 1), key=lambda one: one.kind)
        sizes = [*straight[0], *ours[0], *ours[1], *straight[1], (-1, bounds)]
        linear, at = sum(size for _, size in sizes), 0
        for key, size in (*sizes, *((one.condition.id, len(one.order)) for one in curved)):
            self.rows[key] = slice(at, at + size)
            at += size
        (objective,) = written.objective.args
        costs, of_cvxpy, right = self.of_cvxpy(objective, parts, n, at)
        entries, squares = [of_cvxpy], None
        if self.squares:
            squares, costs = self.of_squares(objective, variables, n)
        for one in beside:
            place, table = self.rows[one.constr_id], sp.coo_array(one.table)
            row, column = (some.astype(np.intp) for some in table.coords)
            entries.append((row + place.start, column + self.starts[one.unknowns.id], table.data))
            right[place] = one.right
        place = self.rows.pop(-1)
        if bounds:
            signs = np.repeat([-1.0, 1.0], [len(low), len(high)])
            entries.append((np.arange(place.start, place.stop), np.concatenate([low, high]), signs))
            right[place] = np.concatenate([-least[low], most[high]])
        row, column, value = (np.concatenate(some) for some in zip(*entries, strict=True))
        zero = sum(size for _, size in (*straight[0], *ours[0]))
        by_kind = [[one.condition for one in curved if one.kind == kind] for kind in (2, 3, 4)]
        self.data = {
            "c": costs[:-1],
            "A": sp.csc_array((value, (row, column)), shape=(at, n)),
            "b": right,
            "dims": Cones(
                zero,
                linear - zero,
                tuple(int(size) for c in by_kind[0] for size in c.cone_sizes()),
                sum(int(c.num_cones()) for c in by_kind[1]),
                tuple(float(a) for c in by_kind[2] for a in np.ravel(c.alpha.value, order="F")),
            ),
        }
        self._offset = float(costs[-1])
        if squares is not None:
            self.data["P"] = squares
        if self.interface.BOUNDED_VARIABLES:
            self.data |= {"lower_bounds": least, "upper_bounds": most, "bool_vars_idx": [], "int_vars_idx": []}

    def of_cvxpy(
        self, objective: cp.Expression, parts: Sequence[_Part], n: int, n_rows: int
    ) -> tuple[Float, tuple[Indices, Indices, Float], Float]:
        """The costs with the constant behind them, the entries of the matrix in CVXPY's rows, and their right sides."""
        first = [] if self.squares else [objective]
        place = [np.full(len(first), n_rows), *(self.rows[one.condition.id].start + one.order for one in parts)]
        signs = np.array([1.0, *(1.0 if one.upper else -1.0 for one in parts)])
        expressions = [*first, *(argument for one in parts for argument in one.arguments)]
        row, column, value = affine_entries(expressions, self.starts, n)
        value = np.repeat(signs, [len(one) for one in place])[row] * value
        row = np.concatenate(place)[row]
        of_costs, constant = row == n_rows, column == n
        right, kept = constant & ~of_costs, ~(of_costs | constant)
        return (
            _sums(column[of_costs], value[of_costs], n + 1),
            (row[kept], column[kept], value[kept]),
            _sums(row[right], -value[right], n_rows),
        )

    def of_squares(self, objective: cp.Expression, variables: Sequence[cp.Variable], n: int) -> tuple[Any, Float]:
        """The matrix of squares, and the costs with the constant behind them."""
        from cvxpy.utilities.coeff_extractor import CoeffExtractor

        shapes = {v.id: v.shape for v in variables}
        places = SimpleNamespace(
            x_length=n, var_shapes=shapes, var_offsets=self.starts, param_shapes={}, **_constants()
        )
        squares, costs = CoeffExtractor(places, _backend([objective])).quad_form(objective.copy())
        return sp.csc_array(2 * sp.csc_array(squares).reshape((n, n), order="F")), costs.toarray().ravel()

    def columns(self) -> dict[int, Indices]:
        return {v.id: np.arange(self.starts[v.id], self.starts[v.id] + v.size) for v in self.variables}

    @property
    def offset(self) -> float:
        return self._offset

    def solve(self, data: dict[str, Any], verbose: bool, options: dict[str, Any]) -> Any:
        if not all(np.isfinite(part).all() for part in (data["A"].data, data["c"])) or np.isnan(data["b"]).any():
            raise ValueError("Problem data contains NaN or Inf.")
        return self.interface.solve_via_data(data, False, verbose, options)

    def unpack(self, raw: Any) -> str:
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
        for variable in self.variables:
            at = self.starts[variable.id]
            value = np.asarray(x)[at : at + variable.size].reshape(variable.shape, order="F") if solved else None
            variable.save_value(None if value is None else variable.project(value))
        for c in self.problem.constraints:
            some = y[self.rows[c.id]] if solved or len(y) else None
            if some is None:
                for dual in c.dual_variables:
                    dual.save_value(None)
            elif isinstance(c, (cp.constraints.SOC, cp.constraints.ExpCone)):
                c.save_dual_value(some)
            else:
                c.save_dual_value(some.reshape(c.shape, order="F"))
        return str(status)


def affine_entries(
    expressions: Sequence[cp.Expression], starts: Mapping[int, int], n: int
) -> tuple[Indices, Indices, Float]:
    """Affine expressions as rows, columns and entries of a matrix whose last column, the n-th, are constants.

    ``starts`` are the first columns of variables, by their ids.
    """
    from cvxpy.cvxcore.python.canonInterface import get_problem_matrix

    if not expressions:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp), np.zeros(0)
    total, forms = sum(one.size for one in expressions), [one.canonical_form[0] for one in expressions]
    constants = _constants()
    sizes, places = constants["param_to_size"], constants["param_id_map"]
    tensor = sp.coo_array(get_problem_matrix(forms, n, starts, sizes, places, total, _backend(expressions)))
    column, row = np.divmod(tensor.row, total)
    return row, column, tensor.data


def affine_slopes(expression: cp.Expression) -> dict[cp.Variable, sp.csr_array]:
    """The gradient of an affine expression without parameters by each of its variables, (n_variable, n_rows).

    CVXPY's `grad` takes a product of matrices for each node.
    """
    variables = expression.variables()
    ends = np.cumsum([0, *(v.size for v in variables)]).tolist()
    row, column, value = affine_entries(
        [expression], {v.id: at for v, at in zip(variables, ends, strict=False)}, ends[-1]
    )
    found = {}
    for variable, at in zip(variables, ends, strict=False):
        some = (column >= at) & (column < at + variable.size)
        shape = (variable.size, expression.size)
        found[variable] = sp.csr_array((value[some], (column[some] - at, row[some])), shape=shape)
    return found


def _sums(place: Indices, values: Float, n: int) -> Float:
    """Sums by place."""
    return np.bincount(place, values, n).astype(float)  # of nothing they are whole numbers


def _constants() -> dict[str, dict[int, int]]:
    """The sizes and places of parameters, of which CVXPY makes constants the last, where there are no others."""
    from cvxpy.lin_ops.lin_op import CONSTANT_ID

    return {"param_to_size": {CONSTANT_ID: 1}, "param_id_map": {CONSTANT_ID: 0}}


def _backend(expressions: Sequence[cp.Expression]) -> str | None:
    """What of CVXPY makes matrices of expressions: its usual code, or that for what this lacks."""
    usual = all(one._all_support_cpp() and one._max_ndim() <= 2 for one in expressions)
    return None if usual else str(cp.settings.SCIPY_CANON_BACKEND)


def _part(condition: cp.Constraint) -> _Part | None:
    """A constraint with affine arguments as rows; None if these are of no known kind."""
    kinds = cp.constraints
    if isinstance(condition, (kinds.Equality, kinds.Inequality)):
        kind = int(isinstance(condition, kinds.Inequality))
        return _Part(condition, kind, [condition.expr], np.arange(condition.size), upper=True)
    if isinstance(condition, (kinds.Zero, kinds.NonNeg)):
        kind = int(isinstance(condition, kinds.NonNeg))
        return _Part(condition, kind, condition.args, np.arange(condition.size), upper=kind == 0)
    if isinstance(condition, kinds.SOC):
        first, other = condition.args
        entry, n = np.arange(other.size), first.size
        each = other.size // n
        inside, cone = divmod(entry, n) if condition.axis == 1 else (entry % each, entry // each)
        order = [np.arange(n) * (each + 1), cone * (each + 1) + 1 + inside]
        return _Part(condition, 2, condition.args, np.concatenate(order))
    if isinstance(condition, (kinds.ExpCone, kinds.PowCone3D)):
        first = 3 * np.arange(condition.args[0].size)
        kind = 3 if isinstance(condition, kinds.ExpCone) else 4
        return _Part(condition, kind, condition.args, np.concatenate([first, first + 1, first + 2]))
    return None


def _has_squares(objective: cp.Expression) -> bool:
    """Whether an objective is a sum of squares and linear terms, or has such a part."""
    return bool(objective.has_quadratic_term() and not objective.is_affine())


def _is_complex(leaf: cp.Expression) -> bool:
    """Whether a constant is complex."""
    return bool(leaf.is_complex())


def _is_plain(variable: cp.Variable) -> bool:
    """Whether a variable has no attributes besides bounds, which are numbers."""
    others = [value for name, value in variable.attributes.items() if name not in SIGNS]
    bounds = variable.attributes["bounds"] or ()
    return not any(others) and not any(isinstance(side, cp.Expression) or sp.issparse(side) for side in bounds)


class Left:
    """What a solver leaves of a problem besides the values of its variables: how it was compiled, and a primal and a
    dual point in this form.

    All are None after a run in another process, and without such points.
    """

    problem: cp.Problem | Posed | None = None
    compiled: Compiled | None = None
    points: tuple[Float, Float] | None = None

    def is_of(self, expression: cp.Expression, constraints: Iterable[cp.Constraint]) -> bool:
        """Whether this expression was maximised under these constraints, and under no others."""
        if self.problem is None or self.points is None:
            return False
        same = self.problem.objective.args[0] is expression and isinstance(self.problem.objective, cp.Maximize)
        return same and [c.id for c in self.problem.constraints] == [c.id for c in constraints]

    def keep(self, problem: cp.Problem | Posed, solver: str, compiled: Compiled, raw: Any) -> None:
        """Keep what CLARABEL or HiGHS gave."""
        self.problem, self.compiled, self.points = problem, compiled, None
        if solver == "CLARABEL":
            points = raw.x, raw.z
        elif solver == "HIGHS":
            points = raw["solution"].col_value, -np.asarray(raw["solution"].row_dual)
        else:
            return
        primal, dual = (np.asarray(point, dtype=float) for point in points)
        if (len(dual), len(primal)) == compiled.data["A"].shape and np.isfinite(np.append(primal, dual)).all():
            self.points = primal, dual
