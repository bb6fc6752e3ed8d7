"""The dual bound of a cone program: for objectives that only CVXPY knows.

CVXPY turns any problem into ``min c'z + d subject to A z + s = b, s in K``. By weak duality (Ben-Tal and Nemirovski
2001), for any y in the dual cone ``c'z >= r'z - b'y`` with ``r = c + A'y``. A solver's y is moved into the dual cone,
until r vanishes on the variables that CVXPY added; the rest of r is charged at the range of each variable. The ranges
of the tasks are proven. Those of CVXPY's variables are not: for the 1e-16 that rounding leaves on them, a range far
beyond their size at the answer is assumed, and the certificate states it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

from fairopt.formulation import solvers
from fairopt.formulation.program import Float
from fairopt.proofs.lagrangian import EPS

REACH = 100.0  # the assumed range of a variable of CVXPY's, in multiples of its size (at least 1) at the answer
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
    if "CLARABEL" not in solvers.installed():
        return None
    try:
        options = {"use_quad_obj": False}
        data, chain, inverse = problem.get_problem_data("CLARABEL", ignore_dpp=True, solver_opts=options)
    except cp.error.SolverError:
        return None
    dims = data["dims"]
    if data.get("P") is not None or dims.psd or getattr(dims, "pnd", None):
        return None
    y, z = _solve(data, dims)
    if y is None or z is None:
        return None
    c, a, b = np.asarray(data["c"]), sp.csr_array(data["A"]), np.asarray(data["b"])
    columns = data["param_prob"].var_id_to_col
    names = {unknowns.id}  # CVXPY replaces a variable with a sign by another one
    for reduction in chain.reductions:
        names.update(*(new for old, new in getattr(reduction, "var_id_map", {}).items() if old in names))
    start = next((columns[name] for name in names if name in columns), None)
    if start is None:
        return None
    ours = np.arange(start, start + unknowns.size)
    transposed = a.T.tocsr()
    others = np.setdiff1d(np.arange(len(c)), ours)
    on_others = transposed[others]
    y = _into_dual_cone(y, dims)
    for _ in range(20):
        residual = c[others] + on_others @ y
        if np.abs(residual).max(initial=0.0) <= 1e-15 * max(1.0, np.abs(c).max(initial=0.0)):
            break
        y = _into_dual_cone(y - lsqr(on_others, residual, atol=1e-16, btol=1e-16)[0], dims)
    residual = c + transposed @ y
    rounding = EPS * (np.abs(c) + abs(transposed) @ np.abs(y))
    low = -float(b @ y) - EPS * float(np.abs(b * y).sum())
    low += float(np.minimum((residual - rounding)[ours] * top, 0.0).sum())
    unknown = float(((np.abs(residual) + rounding) * REACH * np.maximum(1.0, np.abs(z)))[others].sum())
    held = getattr(inverse[-1], "inverse_data", inverse[-1])  # a dict, which CVXPY 1.9 wraps
    if not isinstance(held, dict) or "offset" not in held:  # without the objective's constant no bound
        return None
    return ConicBound(-(low - unknown + float(held["offset"])), unknown > 0)


def conic_excess(
    expression: cp.Expression, constraints: Sequence[cp.Constraint], unknowns: cp.Variable, top: Float, value: float
) -> tuple[float, str]:
    """Excess of the bound of `conic_bound` over a value of the expression, or infinity, and what it assumes."""
    found = conic_bound(cp.Problem(cp.Maximize(expression), list(constraints)), unknowns, top)
    if found is None or not np.isfinite(found.value - value):
        return np.inf, ""
    return found.value - value, ASSUMED if found.assumes else ""


def _solve(data: dict[str, Any], dims: Any) -> tuple[Float | None, Float | None]:
    """CLARABEL's dual and primal solution; None where these are not finite."""
    import clarabel
    from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import dims_to_solver_cones

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    size = len(data["c"])
    found = clarabel.DefaultSolver(
        sp.csc_array((size, size)), data["c"], data["A"], data["b"], dims_to_solver_cones(dims), settings
    ).solve()
    y, z = np.asarray(found.z), np.asarray(found.x)
    return (y, z) if np.isfinite(y).all() and np.isfinite(z).all() else (None, None)


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
