"""Ranges of variables that linear rows imply."""

from __future__ import annotations

import numpy as np

from fairopt.formulation.program import Float
from fairopt.runtime.lazy import sp

ROUNDS = 20  # of propagation
ROUNDING = 1e-12  # of the terms of a row
STEP = 0.1  # the least relative change for which another round is worth it


def implied_ranges(rows: sp.csr_array, right: Float, least: Float, most: Float) -> tuple[Float, Float]:
    """The ranges with the bounds that ``rows @ v <= right`` implies, where they are closer.

    The other variables of a row at their ends leave the most that one variable can be.
    """
    least, most, rows = least.copy(), most.copy(), sp.csr_array(rows)
    column, factor, row = rows.indices, rows.data, np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    some = factor != 0
    column, factor, row, n = column[some], factor[some], row[some], rows.shape[0]
    for _ in range(ROUNDS):
        part = factor * np.where(factor > 0, least[column], most[column])  # the least of each term
        open_ = ~np.isfinite(part)
        known = np.where(open_, 0.0, part)
        total, size = np.bincount(row, known, n), np.bincount(row, np.abs(known), n)
        alone = np.bincount(row, open_, n)[row] == open_  # no other term is unbounded
        room = right[row] - (total[row] - known) + ROUNDING * (np.abs(right[row]) + size[row])
        with np.errstate(over="ignore"):
            bound = room / factor
        alone &= np.isfinite(bound)
        above, below = np.full(len(least), np.inf), np.full(len(least), -np.inf)
        up, down = alone & (factor > 0), alone & (factor < 0)
        np.minimum.at(above, column[up], bound[up])
        np.maximum.at(below, column[down], bound[down])
        with np.errstate(invalid="ignore"):
            closer = (
                above < np.where(most < np.inf, most - STEP * np.abs(most), np.inf),
                below > np.where(least > -np.inf, least + STEP * np.abs(least), -np.inf),
            )
        if not (closer[0].any() or closer[1].any()):
            break
        most, least = np.where(closer[0], above, most), np.where(closer[1], below, least)
    return np.minimum(least, most), np.maximum(least, most)
