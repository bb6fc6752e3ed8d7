"""Minimum-norm least-squares solutions of equations, found within the time limit of a call.

    min ||x||  among all x that minimise  ||A x - b||.

With b the residuals of a solver's dual point, x is the least change that removes them: multipliers stay near those
found, so that the bound does. Which way depends on the size: up to `DENSE` entries LAPACK's SVD; few or sparse
equations by A A', which squares the condition and is therefore one step of several (`minimum_norm`); else LSQR. LAPACK
does not look at the clock, and does not end on NaN, so that it is given neither large matrices nor these. A wrong
solution cannot falsify a bound, which is computed anew from the multipliers.

For a diet of 400 foods the steps took 0.02 s by sparse products and 1.4 s by LSQR, of a solve of 0.2 s.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import sp, sparse_linalg

FEW = 150  # equations whose products with each other are factorised as a dense matrix
SHIFT = 1e-13  # of the products, so that equations that depend on others have a solution
PRODUCTS = 2_000_000  # of entries in the same column: sparse products of more equations are not made
CROWDED = 60  # entries of a column that is kept beside the products, since it alone would fill them
STEPS = 2000  # of LSQR for one step of several: for 20,000 columns it took 80,000, or 25 s, for no better bound
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
    solution = _by_products(matrix, right) if shared else None
    return by_iteration(matrix, right, limit=STEPS) if solution is None else solution


def _by_products(matrix: sp.csr_array, right: Float) -> Float | None:
    """The combination of equations that solves them; None if it leaves more than a part, or takes too long to find."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    size = np.sqrt(np.bincount(row, matrix.data**2, matrix.shape[0]))
    size[size == 0] = 1.0
    scaled = sp.csr_array((matrix.data / size[row], matrix.indices, matrix.indptr), shape=matrix.shape)
    combination: Any
    try:
        if matrix.shape[0] <= FEW:
            products = (scaled @ scaled.T).toarray() + SHIFT * np.eye(len(size))
            combination = np.linalg.solve(products, right / size)
        else:
            combination = _by_sparse_products(scaled, right / size)
    except (np.linalg.LinAlgError, RuntimeError):  # singular
        return None
    solution = None if combination is None else np.asarray(scaled.T @ combination)
    left = np.inf if solution is None else np.abs(matrix @ solution - right).max(initial=0.0)
    return solution if left <= LEFT * np.abs(right).max(initial=0.0) else None  # None also of NaN


def _by_sparse_products(matrix: sp.csr_array, right: Float) -> Float | None:
    """The same by sparse products, of which the few crowded columns D are left out as unknowns u = D'w beside them,

    (S S' + shift) w + D u = right,   D' w - u = 0;

    None if products are too many.
    """
    count = np.bincount(matrix.indices, minlength=matrix.shape[1])
    crowded = count > CROWDED
    if float(count[~crowded] @ count[~crowded]) > PRODUCTS or count[crowded].sum() > PRODUCTS or crowded.sum() > FEW:
        return None
    columns = sp.csc_array(matrix)
    rest, some = columns[:, np.flatnonzero(~crowded)], columns[:, np.flatnonzero(crowded)]
    products = rest @ rest.T + SHIFT * sp.eye_array(matrix.shape[0])
    both = sp.block_array([[products, some], [some.T, -sp.eye_array(some.shape[1])]]) if crowded.any() else products
    factors = sparse_linalg.splu(sp.csc_array(both))
    check()
    return np.asarray(factors.solve(np.append(right, np.zeros(int(crowded.sum()))))[: len(right)])


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
