"""Dual points of cone programs, made exact where a formula or the grid of floats allows.

A solver's dual point y leaves rounding on the variables that CVXPY added: r = c + A'y is 1e-16 instead of 0, and what
it costs over a range without end is infinite, or rests on an assumption. Two repairs move y by no more than rounding:

    w >= -u exp(v / u - 1), u < 0, of an exponential cone:  the best v is  u (1 + log(-w / u))    (`Curves.at`);
    c_k + sum_i a_ik y_i = 0 exactly, of a variable k without a range:  all terms multiples of one power of two
    (`cancelled`), where the a_ik are powers of two.

Of 72 answers of soft minima, sums of the smallest, entropies and norms 48 were certified without an assumption before
this and the ranges that cones imply (`ranges`), and 70 with both. The bound is computed from the moved point as from
any other (Bound 7.3, docs/methods/cone.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.proof.ranges import Entries
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import sp

LARGE = 1e-3  # of the largest term: such terms take rounding
MANY = 2.0**53  # rounding does not leave so many units in the last place of a term: they are as much as the term
LEAST = 1e-17  # of the first multiplier of a dual exponential cone, for the third, so that logarithms exist


@dataclass(frozen=True)
class Curves:
    """The curved dual cones of which some multipliers follow from the others at little or no cost.

    ``exponentials`` are the first rows of exponential cones whose second coordinate is a number, as of logarithms and
    exponentials. ``norms`` are second-order cones of which only the first coordinate has variables without a range.
    """

    exponentials: Indices
    norms: tuple[slice, ...]

    @classmethod
    def of(cls, a: Entries, b: Float, dims: Any, bounded: NDArray[np.bool_]) -> Curves:
        """Those of ``b - a @ v`` in cones, given which variables have both bounds."""
        used, open_ = np.zeros(a.n, dtype=bool), np.zeros(a.n, dtype=bool)
        used[a.row] = True
        open_[a.row[~bounded[a.column]]] = True
        ends = dims.zero + dims.nonneg + np.cumsum([0, *dims.soc]).astype(int)
        norms = tuple(slice(k, end) for k, end in pairwise(ends.tolist()) if open_[k] and not open_[k + 1 : end].any())
        first = ends[-1] + sum(n * (n + 1) // 2 for n in dims.psd) + 3 * np.arange(dims.exp)
        return cls(first[~used[first + 1] & (b[first + 1] >= 0)].astype(np.intp), norms)

    def at(self, y: Float) -> Float:
        """The point with the best second multipliers of exponential cones, and with norms within their bounds.

        ``w >= -u exp(v / u - 1)`` for u < 0 is ``v >= u (1 + log(-w / u))``, and the bound falls with v.
        """
        y, first = y.copy(), self.exponentials
        for cone in self.norms:
            rest = slice(cone.start + 1, cone.stop)
            norm = float(np.linalg.norm(y[rest]))
            if norm > max(y[cone.start], 0.0):
                y[rest] *= max(y[cone.start], 0.0) / norm
        u = np.minimum(y[first], 0.0)
        w = np.maximum(y[first + 2], -LEAST * u)
        logs = np.log(np.divide(w, -u, out=np.ones(len(u)), where=u < 0))
        y[first], y[first + 1], y[first + 2] = u, u * (1.0 + logs), w
        return y


def cancelled(y: Float, c: Float, transposed: sp.csr_array, free: NDArray[np.bool_], linear: slice) -> Float:
    """The point moved by rounding, so that ``c + transposed @ y`` is exactly 0 for ``free`` variables, if it can be.

    Multiples of one power of two add up exactly. Where coefficients are powers of two, the multipliers of inequalities
    take what is left. Columns without such are left out at once: 20,000 take 0.003 s, and one by one 0.2 s.
    """
    y, rows = y.copy(), transposed
    taken = np.zeros(len(y), dtype=bool)
    # factors that are no powers of two, and rows of curved cones, which rounding could leave
    unfit = (np.abs(np.frexp(rows.data)[0]) != 0.5) | (rows.indices >= linear.stop)
    count = np.concatenate([[0], np.cumsum(unfit)])
    fits = free & (np.diff(count[rows.indptr]) == 0) & (np.diff(rows.indptr) > 0)
    for k in np.flatnonzero(fits).tolist():
        part = slice(rows.indptr[k], rows.indptr[k + 1])
        at, factors = rows.indices[part], rows.data[part]
        if taken[at].any():
            continue
        terms = factors * y[at]  # exact, as factors are powers of two
        most = float(np.abs(terms).max())
        if not abs(c[k]) < 2 * most * len(at) < np.inf:  # the terms do not nearly cancel it
            continue
        grid = float(np.spacing(most))  # of the largest term; sums of fewer than 2^53 such units have no rounding
        terms = np.round(terms / grid) * grid
        large = (at >= linear.start) & (np.abs(terms) >= LARGE * most)
        if not (mine := np.flatnonzero(large)).size:
            continue
        amount = math.fsum([c[k], *terms.tolist()]) / grid
        if not abs(amount) < MANY:
            continue
        units = round(amount)  # an equal part to each, since others depend on them
        terms[mine] -= grid * (units // mine.size + (np.arange(mine.size) < units % mine.size))
        terms[mine[0]] -= math.fsum([c[k], *terms.tolist()])
        if (terms[mine] / factors[mine] >= 0).all():
            y[at], taken[at] = terms / factors, True
    return y
