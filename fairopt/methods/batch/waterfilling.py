"""Water-filling of many instances at once: leximin on one pool."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.formulation.batch import BatchChunk

Float = NDArray[np.floating[Any]]


def leximin_of_chunk(chunk: BatchChunk) -> tuple[Float, None]:
    """Leximin of ``s_j / w_j``: tasks of shape (n_users, size), which need no evidence."""
    return chunk.tasks_at(_levels(chunk.rates, chunk.tops)), None


def _levels(rates: Float, tops: Float) -> Float:
    """The level ``s_j / w_j`` of each user, shape (n_users, size).

    All users who still rise stand at a common height. As if no user had a limit, the next resource would be full at
    some height; users who meet their limits below stop there (the true height can only be more), and where none does,
    the resource is full and its users stop. So each step stops a user at least, and n steps do.
    """
    levels, rising = np.zeros(tops.shape), tops > 0
    height = np.zeros(tops.shape[1])
    needs = rates > 0
    for _ in range(len(tops)):
        slope = np.einsum("jib,jb->ib", rates, rising.astype(float))
        room = 1.0 - np.einsum("jib,jb->ib", rates, levels)
        reach = np.divide(room, slope, out=np.full(room.shape, np.inf), where=slope > 0)
        height = np.maximum(height, reach.min(axis=0))
        limited = rising & (tops <= height)
        full = (reach <= height) & ~limited.any(axis=0)
        stopped = limited | (rising & (needs & full).any(axis=1))
        levels[stopped] = np.minimum(tops, height)[stopped]
        rising &= ~stopped
        if not rising.any():
            break
    return levels
