"""Minimum-norm least-squares solutions of equations, found within the time limit of a call.

    min ||x||  among all x that minimise  ||A x - b||.

With b the residuals of a solver's dual point, x is the least change that removes them: multipliers stay near those
found, so that the bound does. Which way depends on the size: up to `DENSE` entries LAPACK's SVD; few or sparse
equations by A A', which squares the condition and is therefore one step of several (`minimum_norm`); else LSQR. LAPACK
does not look at the clock, and does not end on NaN, so that it is given neither large matrices nor these. A wrong
solution cannot falsify a bound, which is computed anew from the multipliers.

For a diet of 400 foods the steps took 0.02 s by sparse products and 1.4 s by LSQR, of a solve of 0.2 s. The order of
elimination matters most: for 20,000 flows of a transport problem a factorisation takes 0.1 s by minimum degree of the
symmetric matrix, and 167 s in SuperLU's default order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import sp, sparse_linalg

FEW = 150  # equations whose products with each other are factorised as a dense matrix
SOME, FULL = 1000, 0.1  # equations that are factorised so too if such a part of their entries is not 0
SYMMETRIC: dict[str, Any] = {
    "permc_spec": "MMD_AT_PLUS_A",
    "diag_pivot_thresh": 0.0,
    "options": {"SymmetricMode": True},
}
REFINED = 3  # solves with one factorisation, each of what the last one left: the shift and missing pivots leave 6e-2
SHIFT = 1e-13  # of the products, so that equations that depend on others have a solution
PRODUCTS = 2_000_000  # of entries in the same column: sparse products of more equations are not made
CROWDED = 60  # entries of a column that is kept beside the products, since it alone would fill them
STEPS = 300  # of LSQR for one step of several: for 20,000 columns it took 80,000, or 25 s, for no better bound
FILLS = 3.0  # products by entry of more than `SOME` equations that factors may fill up, tried by a few steps before
PROBE, QUICK = 60, 1e-3  # steps of LSQR, and what they may leave to be a step
LEFT = 0.1  # of the right-hand side: what a solution by products may leave
DENSE = 4_000_000  # entries of a matrix that is factorised; larger ones are solved iteratively


def least_squares(matrix: Any, right: Float) -> Float:
    """The minimum-norm least-squares solution of equations; NaN if a number is not finite, on which LAPACK does not
    end.
    """
    if not (np.isfinite(matrix.data).all() and np.isfinite(right).all()):
        return np.full(matrix.shape[1], np.nan)
    if np.prod(matrix.shape) <= DENSE:
        return np.asarray(np.linalg.lstsq(matrix.toarray(), right, rcond=1e-15)[0])
    return by_iteration(sp.csr_array(matrix), right)


def minimum_norm(matrix: sp.csr_array, right: Float) -> Float:
    """The minimum-norm solution, by products of equations with each other if these are few or sparse, else
    `by_iteration`.

    A combination of equations that solves them has the minimum norm. It is a step to be repeated: of dependent
    equations a part may be left.
    """
    shared = len(np.unique(matrix.indices)) < len(matrix.indices)
    solution = _by_few_steps(matrix, right) if shared else None
    if solution is None and shared:
        solution = _by_products(matrix, right)
    return by_iteration(matrix, right, limit=STEPS) if solution is None else solution


def _by_few_steps(matrix: sp.csr_array, right: Float) -> Float | None:
    """A few steps of LSQR where a factorisation of many equations may fill up; None elsewhere, and if they leave more
    than a part, as they do unless the equations are well conditioned.

    Of a ridge regression of 20, 200 and 2,000 variables the products take 0.001, 0.008 and 0.54 s; the steps 0.02 s of
    the last, which are repeated twice.
    """
    count = np.bincount(matrix.indices, minlength=matrix.shape[1])
    if matrix.shape[0] <= SOME or count.max() > CROWDED or float(count @ count) <= FILLS * matrix.nnz:
        return None
    scaled, size = _scaled(matrix)
    solution = by_iteration(scaled, right / size, limit=PROBE)
    return solution if np.abs(right - matrix @ solution).max() <= QUICK * np.abs(right).max() else None


def _scaled(matrix: sp.csr_array) -> tuple[sp.csr_array, Float]:
    """Equations divided by their sizes, and these."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    size = np.sqrt(np.bincount(row, matrix.data**2, matrix.shape[0]))
    size[size == 0] = 1.0
    return sp.csr_array((matrix.data / size[row], matrix.indices, matrix.indptr), shape=matrix.shape), size


def _by_products(matrix: sp.csr_array, right: Float) -> Float | None:
    """The combination of equations that solves them; None if it leaves more than a part, or takes too long to find."""
    scaled, size = _scaled(matrix)
    try:
        some = matrix.shape[0] <= FEW or (matrix.shape[0] <= SOME and matrix.nnz >= FULL * np.prod(matrix.shape))
        solve = _dense(scaled) if some else _by_sparse_products(scaled)
    except (np.linalg.LinAlgError, RuntimeError):  # singular
        return None
    if solve is None:
        return None
    best, rest, most = None, right, LEFT * np.abs(right).max(initial=0.0)
    solution = np.zeros(matrix.shape[1])
    for _ in range(REFINED):
        check()
        solution = solution + scaled.T @ solve(rest / size)
        rest = right - matrix @ solution
        left = np.abs(rest).max(initial=0.0)
        if not left <= most:  # also NaN
            break
        best, most = solution, left / 2
    return best


def _dense(matrix: sp.csr_array) -> Callable[[Float], Float]:
    """What solves products of a few equations."""
    full = matrix.toarray()
    products = full @ full.T + SHIFT * np.eye(len(full))
    return lambda right: np.asarray(np.linalg.solve(products, right))


def _by_sparse_products(matrix: sp.csr_array) -> Callable[[Float], Float] | None:
    """The same by sparse products, of which the crowded columns D are left out as unknowns u = D'w beside them,

    (S S' + shift) w + D u = right,   D' w - u = 0;

    None if products are too many. The matrix is quasi-definite, so that it can be factorised without pivots in any
    symmetric order (Vanderbei 1995). The default order of SuperLU, by columns, is three times as fast where there are a
    few crowded columns, which it puts last, and fills up without these.
    """
    count = np.bincount(matrix.indices, minlength=matrix.shape[1])
    crowded = count > CROWDED
    if float(count[~crowded] @ count[~crowded]) > PRODUCTS or count[crowded].sum() > PRODUCTS:
        return None
    columns, n = sp.csc_array(matrix), matrix.shape[0]
    rest, some = columns[:, np.flatnonzero(~crowded)], columns[:, np.flatnonzero(crowded)]
    products = rest @ rest.T + SHIFT * sp.eye_array(n)
    both = sp.block_array([[products, some], [some.T, -sp.eye_array(some.shape[1])]]) if crowded.any() else products
    factors = sparse_linalg.splu(sp.csc_array(both), **({} if 0 < some.shape[1] <= FEW else SYMMETRIC))
    return lambda right: np.asarray(factors.solve(np.append(right, np.zeros(some.shape[1])))[:n])


def by_iteration(matrix: sp.csr_array, right: Float, most: int = 2, limit: float = np.inf) -> Float:
    """The minimum-norm least-squares solution by LSQR (Paige and Saunders 1982), whose steps check the time.

    Columns without entries are left out, since their part of the solution is 0 and LSQR takes up to ``most`` steps per
    column: of 83,000 rows of a program few hold a variable that CVXPY added. Equations that share no column, as of such
    variables that share no row, are solved one by one.
    """
    out, some = np.zeros(matrix.shape[1]), np.unique(matrix.indices)
    if len(some) == len(matrix.indices):
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        size = np.bincount(row, matrix.data**2, matrix.shape[0])
        share = np.divide(right, size, out=np.zeros(len(right)), where=size > 0)
        out[matrix.indices] = matrix.data * share[row]
        return out
    part = sp.csr_array(matrix[:, some])

    def times(z: Float) -> Float:
        check()
        return np.asarray(part @ z)

    watched = sparse_linalg.LinearOperator(part.shape, matvec=times, rmatvec=part.T.__matmul__, dtype=float)
    steps = int(min(most * len(some), limit))
    out[some] = sparse_linalg.lsqr(watched, right, atol=1e-16, btol=1e-16, iter_lim=steps)[0]
    return out
