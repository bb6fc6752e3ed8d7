"""Sorting as linear constraints: Batcher's network of comparators, relaxed as in Proposition 3.7."""

from __future__ import annotations

import numpy as np

from fairopt.runtime.arrays import Indices
from fairopt.runtime.lazy import cp


def sorted_from_below(values: cp.Expression, required: list[cp.Constraint]) -> cp.Expression:
    """Variables of shape (n,) that equal the sorted values wherever a sum of them with decreasing weights is maximised.

    Each comparator of a and b adds ``low <= a, low <= b, low + high == a + b`` to ``required``.
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
    """The comparators of Batcher's odd-even merge sort of n values, in layers that touch each index at most once.

    Each layer is a pair: the indices that get the smaller values, and those that get the larger ones.

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
