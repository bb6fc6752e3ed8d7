"""Units of unknowns by equilibration, for the rows that users write."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairopt.runtime.clock import check
from fairopt.runtime.lazy import sp

ROUNDS = 50  # at most
EVEN = 0.01  # relative: sums that are nearer to their aims are left as they are

Float = NDArray[np.float64]


def equilibrated(rows: sp.csr_array, column: NDArray[np.intp], size: Float) -> Float:
    """Units of unknowns, near ``size``, in which the terms of rows are about equal.

    Rows and columns of absolute values are divided in turn by what they sum to (Sinkhorn and Knopp 1967; Knight, Ruiz
    and Ucar 2014, whose scaling solvers apply too). A row aims at 1, and a column at its part of that if all terms of a
    row were equal, so that there is exactly one scaling. ``column`` says which unknown a column belongs to. Unknowns
    without an entry keep their size, and the others their geometric mean.

    >>> import numpy as np
    >>> from scipy import sparse
    >>> twice = sparse.csr_array([[1.0, -2.0], [-2.0, 1.0]])
    >>> equilibrated(twice, np.array([0, 1]), np.array([0.1, 40.0])).round(1)
    array([2., 2.])
    """
    entries = np.abs(rows.data) * size[column[rows.indices]]
    some = (entries > 0) & np.isfinite(entries)
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[some]
    unknown, n, m, entries = column[rows.indices[some]], len(size), rows.shape[0], entries[some]
    aim = np.bincount(unknown, 1.0 / np.bincount(row, minlength=m)[row], n)
    held, factor = aim > 0, np.ones(n)
    for _ in range(ROUNDS):
        check()
        terms = entries * factor[unknown]
        terms /= np.bincount(row, terms, m)[row]
        change = aim[held] / np.bincount(unknown, terms, n)[held]
        factor[held] *= change
        if np.abs(np.log(change)).max(initial=0.0) <= EVEN:
            break
    factor[held] /= np.exp(np.log(factor[held]).mean()) if held.any() else 1.0
    return size * factor if np.isfinite(factor).all() and (factor > 0).all() else size
