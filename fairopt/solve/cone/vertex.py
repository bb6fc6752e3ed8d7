"""A vertex of a small linear program in fractions, where solvers' points leave a gap or break a row.

CVXPY writes ``min c @ x`` under ``a x <= b``, the first rows being equations; rows of one negative entry and right side
0 are signs of columns, and become ``x_j >= 0`` in `LinearProgram`. The basis of HiGHS, made exact by exact pivots, is
optimal in all rows; point and multipliers are rounded once and put back where CVXPY expects a solver's.

Units of what users write may differ by 1e8 and more within one program, and solvers stop at what is left of the largest
row: of three users whose demands are 8e19, 13100 and 31700 no solver's answer is certified. Why not always: fractions
of data with 16 digits grow, and a program of more than `LARGEST` entries would take seconds. The multiplier of a sign
is what the other rows leave of the cost (stationarity). The proof is the gate's, by Bound 7.3 in docs/methods/cone.md.
Of 8,620 drawn notions it answers 151, 90 of which no solver's point certifies.
"""

from __future__ import annotations

import time
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

from fairopt.certificate import Try
from fairopt.exact.linear import LinearProgram, _NoPoint, _Unlimited
from fairopt.exact.rationals import as_float, as_rational, rational, total
from fairopt.runtime.lazy import cp, sp
from fairopt.solve.form import solvers
from fairopt.solve.form.compiled import Compiled, Posed
from fairopt.solve.form.program import ConeModel
from fairopt.solve.settings import Settings

IN_FRACTIONS = "optimal, in fractions"  # a status
LARGEST = 2_000  # entries of a matrix


def at_vertex(problem: cp.Problem | Posed, cone: ConeModel, solver: str, settings: Settings) -> Try | None:
    """Leave the exact optimum of a linear program, rounded once, in its variables and dual values; the attempt.

    None if the program is not linear, or large.
    """
    begun, linear = time.perf_counter(), problem.objective.expr.is_pwl() and solvers.all_linear(problem.constraints)
    if not linear or solvers.size(problem) > 4 * LARGEST:  # before compiling
        return None
    try:
        # by CLARABEL's name, as that form has rows and cones and no bounds of columns
        compiled = Compiled.of(problem, "CLARABEL", {"use_quad_obj": False})
    except cp.error.SolverError:
        return None
    data = compiled.data
    a, dims = sp.csr_array(data["A"]), data["dims"]
    if a.nnz > LARGEST or data.get("P") is not None or dims.zero + dims.nonneg < a.shape[0]:
        return None
    numbers = *a.data, *data["b"], *data["c"]
    if not np.isfinite(numbers).all():
        return None
    try:
        x, y = _solved(a, data["b"], data["c"], dims.zero, settings)
    except (_NoPoint, _Unlimited, ArithmeticError):
        return Try(solver, "no vertex in fractions", time.perf_counter() - begun)
    raw = SimpleNamespace(x=x, z=y, status="Solved", obj_val=float(data["c"] @ x), solve_time=0.0, iterations=0)
    cone.left.keep("CLARABEL", compiled, raw)
    compiled.unpack(raw)
    return Try(solver, IN_FRACTIONS, time.perf_counter() - begun)


def _solved(a: sp.csr_array, b: Any, c: Any, equations: int, settings: Settings) -> tuple[Any, Any]:
    """The minimum of ``c @ x`` where ``a @ x`` is at most b, or equal in the first rows, and the multipliers of rows.

    Rows that give a variable its sign are columns' signs.
    """
    single = (np.diff(a.indptr) == 1) & (np.asarray(b) == 0) & (np.arange(len(b)) >= equations)
    sign = dict[int, int]()  # the row of a column's sign
    for k in np.flatnonzero(single).tolist():
        if a.data[a.indptr[k]] < 0:
            sign.setdefault(int(a.indices[a.indptr[k]]), k)
    program, rows = LinearProgram(), set(sign.values())
    for j, cost in enumerate(c.tolist()):
        program.column(as_rational(Fraction(-cost)), free=j not in sign)
    kept = [k for k in range(len(b)) if k not in rows]
    entries = [dict[int, Any]() for _ in range(len(b))]
    for k in range(len(b)):
        for at in range(a.indptr[k], a.indptr[k + 1]):
            j = int(a.indices[at])
            entries[k][j] = entries[k].get(j, rational(0)) + as_rational(Fraction(float(a.data[at])))
    for k in kept:
        program.row(entries[k], as_rational(Fraction(float(b[k]))), equal=k < equations)
    optimum = program.solve(clock=settings.clock)
    y = np.zeros(len(b))
    y[kept] = [as_float(value) for value in optimum.multipliers]
    by_row = dict(zip(kept, optimum.multipliers, strict=True))
    for j, k in sign.items():
        left = total(
            [as_rational(Fraction(float(c[j]))), *(entries[i][j] * by_row[i] for i in kept if j in entries[i])]
        )
        y[k] = as_float(left / -entries[k][j])  # in fractions: a difference that is exactly 0 stays so
    return np.array([as_float(value) for value in optimum.point]), y
