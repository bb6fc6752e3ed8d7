"""Units of unknowns by equilibration, for the rows that users write."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairopt.runtime.lazy import sp

ROUNDS = 20  # each takes the square root of how far the largest entries are from 1

Float = NDArray[np.float64]


def equilibrated(rows: sp.csr_array, column: NDArray[np.intp], size: Float) -> Float:
    """Units of unknowns, near ``size``, in which the rows compare about equal numbers.

    Ruiz (2001): the entries of the matrix are divided by the square roots of the largest of their row and of their
    column, until these are all about 1. ``column`` says which unknown a column belongs to. Unknowns without an entry
    keep their size, and the others their geometric mean.

    >>> import numpy as np
    >>> from scipy import sparse
    >>> twice = sparse.csr_array([[1.0, -2.0], [-2.0, 1.0]])
    >>> equilibrated(twice, np.array([0, 1]), np.array([0.1, 40.0])).round(9)
    array([2., 2.])
    """
    entries = np.abs(rows.data) * size[column[rows.indices]]
    some = (entries > 0) & np.isfinite(entries)
    if not some.any():
        return size
    log = np.log(entries[some])
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[some]
    unknown, n = column[rows.indices[some]], len(size)
    of_row, of_unknown = np.zeros(rows.shape[0]), np.zeros(n)
    for _ in range(ROUNDS):
        left = log + of_row[row] + of_unknown[unknown]
        most_of_row, most_of_unknown = np.full(len(of_row), -np.inf), np.full(n, -np.inf)
        np.maximum.at(most_of_row, row, left)
        np.maximum.at(most_of_unknown, unknown, left)
        of_row -= 0.5 * np.where(np.isfinite(most_of_row), most_of_row, 0.0)
        of_unknown -= 0.5 * np.where(np.isfinite(most_of_unknown), most_of_unknown, 0.0)
    held = np.isfinite(most_of_unknown)
    of_unknown[held] -= of_unknown[held].mean()
    return np.asarray(size * np.exp(of_unknown))
