"""Sorting as linear conditions: Batcher's network of comparators, each relaxed to what a concave objective needs."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]


def sorted_from_below(values: cp.Expression, required: list[cp.Constraint]) -> cp.Expression:
    """Variables that are at best the values in growing order, when larger weights are on the first ones.

    A comparator of a and b becomes ``low <= a, low <= b, low + high == a + b``: whatever satisfies that is at most as
    spread as the sorted values, so a sum with falling weights is at most the sorted one, and reaches it.

    Parameters
    ----------
    values : cvxpy.Expression of shape (n,)
        Affine.
    required : list of cvxpy.Constraint
        Where the conditions are added.

    Returns
    -------
    cvxpy.Expression of shape (n,)
    """
    n = values.shape[0]
    for low, high in layers(n):
        rest = np.setdiff1d(np.arange(n), np.concatenate([low, high]))
        after = cp.Variable(n)
        required += [after[low] <= values[low], after[low] <= values[high]]
        required.append(after[low] + after[high] == values[low] + values[high])
        if len(rest):
            required.append(after[rest] == values[rest])
        values = after
    return values


def layers(n: int) -> list[tuple[Indices, Indices]]:
    """The comparators of Batcher's odd-even merge sort, in layers that touch each place at most once.

    Parameters
    ----------
    n : int
        How many values.

    Returns
    -------
    list of (ndarray, ndarray)
        Places that get the smaller and the larger value.

    Examples
    --------
    >>> [(low.tolist(), high.tolist()) for low, high in layers(3)]
    [([0], [1]), ([0], [2]), ([1], [2])]
    """
    out = []
    block = 1
    while block < n:
        step = block
        while step >= 1:
            start = np.arange(step % block, n - step, 2 * step)
            low = (start[:, None] + np.arange(step)).ravel()
            low = low[low + step < n]
            low = low[low // (2 * block) == (low + step) // (2 * block)]
            if len(low):
                out.append((low, low + step))
            step //= 2
        block *= 2
    return out
