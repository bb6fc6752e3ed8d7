"""Problems in cone form: what CVXPY compiles, with known rows beside it, and what a solver leaves of them.

CVXPY takes 2 to 10 ms for a small problem, most of it in expressions. Rows that are known as a matrix need none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.runtime.lazy import cp, sp

Float = NDArray[np.float64]
Indices = NDArray[np.intp]
BESIDE = ("CLARABEL", "HIGHS")  # solvers whose data are ``min c'z, b - A z in cones``, equations first


class KnownRows(NamedTuple):
    """A constraint of a problem as rows ``table @ unknowns <= right``, or equations."""

    condition: cp.Constraint
    table: sp.csr_array
    right: Float
    equal: bool


@dataclass
class Known:
    """The constraints of a problem that are known as rows in its nonnegative unknowns."""

    unknowns: cp.Variable
    rows: Sequence[KnownRows]


@dataclass
class Compiled:
    """A problem compiled for a solver: its data, and what CVXPY compiled of it, with its reduction chain and inverse
    data.

    The known ``rows`` are ``own`` rows of the data, and ``new`` are the columns of the ``unknowns`` if CVXPY's part has
    none.
    """

    data: dict[str, Any]
    part: cp.Problem
    chain: Any
    inverse: Any
    unknowns: cp.Variable | None = None
    rows: Sequence[KnownRows] = ()
    own: slice | None = None
    new: slice | None = None

    @classmethod
    def of(
        cls, problem: cp.Problem, solver: str, options: dict[str, Any], keep: bool, known: Known | None = None
    ) -> Compiled:
        """What CVXPY makes of a problem, with ``keep`` for all values of its parameters."""
        beside = (
            () if known is None or keep or solver not in BESIDE or not problem.objective.variables() else known.rows
        )
        ids = {one.condition.id for one in beside}
        part = problem
        if beside:
            part = cp.Problem(problem.objective, [c for c in problem.constraints if c.id not in ids])
        data, chain, inverse = part.get_problem_data(solver, ignore_dpp=not keep, solver_opts=options)
        made = cls(data, part, chain, inverse)
        if beside and known is not None:
            made.add(known.unknowns, sorted(beside, key=lambda one: not one.equal), solver)
        return made

    def add(self, unknowns: cp.Variable, rows: Sequence[KnownRows], solver: str) -> None:
        """Put rows beside those of CVXPY, and the unknowns beside its variables if there are none."""
        self.data = data = dict(self.data)
        a, b, dims = sp.csr_array(data["A"]), np.asarray(data["b"], dtype=float), copy(data["dims"])
        columns, n = self.columns().get(unknowns.id), unknowns.size
        tables, rights = [one.table for one in rows], [one.right for one in rows]
        if columns is None:
            columns, at = np.arange(a.shape[1], a.shape[1] + n), a.shape[1]
            self.new = slice(at, at + n)
            a = sp.csr_array((a.data, a.indices, a.indptr), shape=(a.shape[0], at + n))
            data["c"] = np.concatenate([data["c"], np.zeros(n)])
            if data.get("P") is not None:
                data["P"] = sp.block_diag([data["P"], sp.csc_array((n, n))], format="csc")
            if solver == "HIGHS":
                for name, side, none in (("lower_bounds", 0.0, -np.inf), ("upper_bounds", np.inf, np.inf)):
                    held = np.full(at, none) if data.get(name) is None else data[name]
                    data[name] = np.concatenate([held, np.full(n, side)])
            else:
                tables, rights = [*tables, -sp.eye_array(n, format="csr")], [*rights, np.zeros(n)]
        own = sp.csr_array(sp.vstack(tables))
        own = sp.csr_array((own.data, own.indices + columns[0], own.indptr), shape=(own.shape[0], a.shape[1]))
        right = np.concatenate(rights)
        self.unknowns, self.rows, self.own = unknowns, rows, slice(dims.zero, dims.zero + len(right))
        first, rest = slice(dims.zero), slice(dims.zero, None)
        equations = sum(len(one.right) for one in rows if one.equal)
        dims.zero, dims.nonneg = dims.zero + equations, dims.nonneg + len(right) - equations
        data |= {
            "A": sp.csc_array(sp.vstack([a[first], own, a[rest]])),
            "b": np.concatenate([b[first], right, b[rest]]),
            "dims": dims,
        }

    def columns(self) -> dict[int, Indices]:
        """The columns of the problem's variables by their ids."""
        out, starts = dict[int, Indices](), self.data["param_prob"].var_id_to_col
        for variable in self.part.variables():
            names = {variable.id}  # CVXPY replaces variables that have a sign
            for reduction in self.chain.reductions:
                names.update(*(new for old, new in getattr(reduction, "var_id_map", {}).items() if old in names))
            start = next((starts[name] for name in names if name in starts), None)
            if start is not None:
                out[variable.id] = np.arange(start, start + variable.size)
        if self.new is not None and self.unknowns is not None:
            out[self.unknowns.id] = np.arange(self.new.start, self.new.stop)
        return out

    @property
    def offset(self) -> float | None:
        """The objective's constant; None if it is not known."""
        extra = getattr(self.inverse[-1], "inverse_data", self.inverse[-1])  # a dict, which CVXPY 1.9 wraps
        return float(extra["offset"]) if isinstance(extra, dict) and "offset" in extra else None

    def unpack(self, raw: Any) -> str:
        """Leave a solver's solution in the variables and dual values; the status."""
        if self.own is None:
            self.part.unpack_results(raw, self.chain, self.inverse)
            return str(self.part.status)
        of_highs = isinstance(raw, dict)
        found = raw["solution"] if of_highs else raw
        x, y = (
            (found.col_value, -np.asarray(found.row_dual)) if of_highs else (np.asarray(found.x), np.asarray(found.z))
        )
        x_of_part, y_of_part = _without(x, self.new), _without(y, self.own)
        if of_highs:
            raw = raw | {"solution": SimpleNamespace(col_value=x_of_part, row_dual=-y_of_part)}
            if "dual_ray" in raw:
                *words, ray = raw["dual_ray"]
                raw["dual_ray"] = (*words, _without(ray, self.own))
        else:
            rest = {name: getattr(raw, name) for name in ("status", "obj_val", "solve_time", "iterations")}
            raw = SimpleNamespace(x=x_of_part, z=y_of_part, **rest)
        self.part.unpack_results(raw, self.chain, self.inverse)
        solved = self.part.status in cp.settings.SOLUTION_PRESENT
        if self.new is not None and self.unknowns is not None:
            self.unknowns.save_value(np.asarray(x)[self.new] if solved else None)
        at = self.own.start
        for one in self.rows:
            end = at + len(one.right)
            one.condition.save_dual_value(y[at:end] if solved else None)
            at = end
        return str(self.part.status)


def _without(values: Any, some: slice | None) -> Float:
    """Numbers without some of them, if there are any."""
    found = np.asarray(values, dtype=float)
    return found if some is None or not len(found) else np.delete(found, some)


class Left:
    """What a solver leaves of a problem besides the values of its variables: how it was compiled, and a primal and a
    dual point in this form.

    All are None after a run in another process, and without such points.
    """

    problem: cp.Problem | None = None
    compiled: Compiled | None = None
    points: tuple[Float, Float] | None = None

    def is_of(self, expression: cp.Expression, constraints: Iterable[cp.Constraint]) -> bool:
        """Whether this expression was maximised under these constraints, and under no others."""
        if self.problem is None or self.points is None:
            return False
        same = self.problem.objective.args[0] is expression and isinstance(self.problem.objective, cp.Maximize)
        return same and [c.id for c in self.problem.constraints] == [c.id for c in constraints]

    def keep(self, problem: cp.Problem, solver: str, compiled: Compiled, raw: Any) -> None:
        """Keep what CLARABEL or HiGHS gave."""
        self.problem, self.compiled, self.points = problem, compiled, None
        if solver == "CLARABEL":
            points = raw.x, raw.z
        elif solver == "HIGHS":
            points = raw["solution"].col_value, -np.asarray(raw["solution"].row_dual)
        else:
            return
        primal, dual = (np.asarray(point, dtype=float) for point in points)
        if (len(dual), len(primal)) == compiled.data["A"].shape and np.isfinite([*primal, *dual]).all():
            self.points = primal, dual
