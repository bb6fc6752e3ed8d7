"""Leximin of many instances at once, by water-filling (Proposition 8.1).

Each step raises the common level of the active users until a resource is full or a user is at its limit, which fixes
those users; instances that are done wait for the others.
"""

from __future__ import annotations

import numpy as np

from fairopt.runtime.arrays import Float
from fairopt.solve.form.many_instances import BatchChunk


def leximin_of_chunk(chunk: BatchChunk) -> tuple[Float, None]:
    """Leximin of ``s_j / w_j``: tasks of shape (n_users, size), without evidence."""
    rates, tops = chunk.rates, chunk.tops
    levels, active = np.zeros(tops.shape), tops > 0
    common = np.zeros(tops.shape[1])  # the level of active users
    needs = rates > 0
    for _ in range(len(tops)):  # each step fixes a user
        slope = np.einsum("jib,jb->ib", rates, active.astype(float))
        slack = 1.0 - np.einsum("jib,jb->ib", rates, levels)
        full_at = np.divide(slack, slope, out=np.full(slack.shape, np.inf), where=slope > 0)
        common = np.maximum(common, full_at.min(axis=0))
        limited = active & (tops <= common)
        full = (full_at <= common) & ~limited.any(axis=0)
        fixed = limited | (active & (needs & full).any(axis=1))
        levels[fixed] = np.minimum(tops, common)[fixed]
        active &= ~fixed
        if not active.any():
            break
    return chunk.tasks_at(levels), None
