"""Water-filling of many instances at once: leximin on one pool."""

from __future__ import annotations

import numpy as np

from fairopt.formulation.batch import BatchChunk
from fairopt.methods.arrays import Float


def leximin_of_chunk(chunk: BatchChunk) -> tuple[Float, None]:
    """Leximin of ``s_j / w_j``: tasks of shape (n_users, size), which need no evidence.

    All rising users are at a common height. Limits aside, the next resource would be full at some height; users whose
    limits are below stop there (so the true height can only be larger), and where there are none, the resource is full
    and its users stop. So each step stops at least one user, and n steps are enough.
    """
    rates, tops = chunk.rates, chunk.tops
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
    return chunk.tasks_at(levels), None
