"""Minimum-norm least-squares solutions of equations, found within the time limit of a call."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import sp, sparse_linalg

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


def by_iteration(matrix: sp.csr_array, right: Float, most: int = 2) -> Float:
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
    out[some] = sparse_linalg.lsqr(watched, right, atol=1e-16, btol=1e-16, iter_lim=most * len(some))[0]
    return out
