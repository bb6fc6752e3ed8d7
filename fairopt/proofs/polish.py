"""Dual points of cone programs, made exact where a formula or the grid of floats allows.

A solver's dual point leaves rounding on the variables that CVXPY added. Here exponential cones get the multiplier that
their others imply, and variables without any range get residuals of exactly zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.formulation.program import Float, Indices
from fairopt.runtime.lazy import sp

LEAST = (
    1e-17  # of the first multiplier of a dual exponential cone: the third is at least this, so that logarithms exist
)


def free_exponentials(a: sp.csr_array, b: Float, dims: Any) -> Indices:
    """The first rows of exponential cones whose second coordinate is a number, as of logarithms and exponentials."""
    start = dims.zero + dims.nonneg + sum(dims.soc)
    first = start + 3 * np.arange(dims.exp)
    used = np.bincount(np.repeat(np.arange(a.shape[0]), np.diff(a.indptr)), a.data != 0, a.shape[0])
    return np.asarray(first[(used[first + 1] == 0) & (b[first + 1] >= 0)], dtype=np.intp)


def on_boundary(y: Float, first: Indices) -> Float:
    """The point with the best second multipliers of these dual exponential cones (first rows), given the others.

    ``w >= -u exp(v / u - 1)`` for u < 0 is ``v >= u (1 + log(-w / u))``, and the bound falls with v.
    """
    y = y.copy()
    u, w = np.minimum(y[first], 0.0), np.maximum(y[first + 2], -LEAST * np.minimum(y[first], 0.0))
    inside = u < 0
    ratio = np.divide(w, -u, out=np.ones(len(u)), where=inside)
    y[first], y[first + 2] = u, w
    y[first + 1] = np.where(inside, u * (1.0 + np.log(np.maximum(ratio, LEAST))), 0.0)
    return y


def cancelled(y: Float, c: Float, transposed: sp.csr_array, free: NDArray[np.bool_], linear: slice) -> Float:
    """The point moved by rounding, so that ``c + transposed @ y`` is exactly 0 for ``free`` variables, if it can be.

    Multiples of one power of two add up exactly. Where coefficients are powers of two times one another, the multiplier
    of an inequality takes what is left.
    """
    y, rows = y.copy(), sp.csr_array(transposed)
    taken = np.zeros(len(y), dtype=bool)
    for k in np.flatnonzero(free).tolist():
        part = slice(rows.indptr[k], rows.indptr[k + 1])
        at, factors = rows.indices[part], rows.data[part]
        if not len(at) or (np.frexp(factors)[0] != np.sign(factors) * 0.5).any() or taken[at].any():
            continue
        terms = factors * y[at]
        grid = np.spacing(max(np.abs(terms).max(), abs(c[k])))
        terms = np.round(terms / grid) * grid
        mine = (at >= linear.start) & (at < linear.stop)
        if not mine.any():
            continue
        largest = int(np.where(mine, np.abs(terms), -1.0).argmax())
        terms[largest] = -(c[k] + np.delete(terms, largest).sum())
        if terms[largest] / factors[largest] < 0:
            continue
        y[at], taken[at] = terms / factors, True
    return y
