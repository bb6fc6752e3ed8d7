"""Leximin of many instances at once, by water-filling (Proposition 8.1).

Each is the leximin of levels ``z_j = c_j x_j / w_j`` under ``sum_j rate_ji z_j <= 1`` and ``z_j <= top_j``. A step
raises the common level of the active users until a resource would be full if there were no limits. Users whose limit is
lower are fixed there; if there are none, the resource is full and fixes its users. So each step fixes a user, and at
most n steps solve all instances of a chunk; those that are done wait for the others. Newton's method in a bracket, as
on one large pool, would take another number of passes in each instance.

Rounding: slack is found afresh from all levels in each step, so that errors do not add up; the level never falls, and
the gate tests Proposition 4.1 on the tasks.
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
        common = np.maximum(common, full_at.min(axis=0))  # not below, where a full resource has a slack of rounding
        limited = active & (tops <= common)  # first: their load was overestimated, so the resource may have room
        full = (full_at <= common) & ~limited.any(axis=0)
        fixed = limited | (active & (needs & full).any(axis=1))
        levels[fixed] = np.minimum(tops, common)[fixed]
        active &= ~fixed
        if not active.any():
            break
    return chunk.tasks_at(levels), None
