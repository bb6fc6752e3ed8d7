"""Ranges of variables that linear rows imply."""

from __future__ import annotations

import numpy as np

from fairopt.formulation.program import Float
from fairopt.runtime.lazy import sp

ROUNDS = 20  # of propagation
ROUNDING = 1e-12  # of the terms of a row


def implied_ranges(rows: sp.csr_array, right: Float, least: Float, most: Float) -> tuple[Float, Float]:
    """The ranges with bounds where ``rows @ v <= right`` implies one and there was none.

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
        more = (most == np.inf) & (above < np.inf), (least == -np.inf) & (below > -np.inf)
        if not (more[0].any() or more[1].any()):
            break
        most, least = np.where(more[0], above, most), np.where(more[1], below, least)
    return least, np.maximum(most, least)
