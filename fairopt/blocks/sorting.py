"""Sorting as linear conditions: Batcher's network of comparators, each relaxed to what a concave objective needs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairopt.runtime.lazy import cp

Indices = NDArray[np.int64]


def sorted_from_below(values: cp.Expression, required: list[cp.Constraint]) -> cp.Expression:
    """Variables of shape (n,) that equal affine values in growing order where falling weights on them are maximised.

    A comparator of a and b becomes ``low <= a, low <= b, low + high == a + b``, added to ``required``. All that
    satisfies this is at most as spread as the sorted values, so a sum with falling weights is at most the sorted one.
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
    """The comparators of Batcher's odd-even merge sort of n values, in layers that touch each place at most once.

    A layer holds the places that get the smaller values, and those that get the larger ones.

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
