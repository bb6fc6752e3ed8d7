"""Ranges of variables that linear rows imply, and cones.

A point of a cone bounds its coordinates by one another: with ``b exp(a / b) <= c`` a logarithm is at most that of the
largest number that it is of, and an exponential at least that of the least. Such bounds on an affine expression are
linear rows again. For a row ``a'v <= b`` and ranges [l, m] of all variables

    a_k v_k  <=  b - sum_(i != k) min(a_i l_i, a_i m_i),

repeated until nothing changes by `STEP`. Bounds that fall for ever by halves are cut off at `ROUNDS`: any round's
ranges are valid. A linear program for each end would give the best ranges; they are needed only to charge what rounding
leaves of costs (Bound 7.3, docs/methods/cone.md), so that a factor of 2 does not matter. Floats: each bound is moved
out by `ROUNDING` of its row's terms, and infinite ends count by number and not as infinities, of which two would cancel
to NaN.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import sp

ROUNDS = 20  # of propagation: a chain of as many rows is followed
ROUNDING = 1e-12  # of the terms of a row: ranges are wider by this
CONES = 4  # rounds through all cones: a logarithm of a logarithm takes two
STEP = 0.1  # the least relative change for which another round is worth it: ranges charge what rounding leaves


class Entries(NamedTuple):
    """The entries other than 0 of a matrix of ``n`` rows."""

    row: Indices
    column: Indices
    factor: Float
    n: int

    @classmethod
    def of(cls, matrix: sp.csr_array) -> Entries:
        """Those of a matrix by rows."""
        some = matrix.data != 0
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return cls(row[some], matrix.indices[some], matrix.data[some], matrix.shape[0])

    def matrix(self, columns: int) -> sp.csr_array:
        """The matrix with so many columns."""
        return sp.csr_array((self.factor, (self.row, self.column)), shape=(self.n, columns))

    def part(self, rows: slice) -> Entries:
        """Those of some rows."""
        some = slice(*np.searchsorted(self.row, (rows.start, rows.stop)))
        return Entries(self.row[some] - rows.start, self.column[some], self.factor[some], rows.stop - rows.start)

    def with_below(self, other: Entries, sign: float) -> Entries:
        """The matrix with another, times a sign, below it."""
        row, column = np.append(self.row, other.row + self.n), np.append(self.column, other.column)
        return Entries(row, column, np.append(self.factor, sign * other.factor), self.n + other.n)


def implied_ranges(rows: Entries, right: Float, least: Float, most: Float) -> tuple[Float, Float]:
    """The ranges with the bounds that ``rows @ v <= right`` implies, where they are closer.

    The other variables of a row at their ends leave the most that one variable can be.
    """
    row, column, factor, n = rows
    size, up = len(least), factor > 0
    near, far = column + np.where(up, 0, size), column + np.where(up, size, 0)  # of the least term, and of the bound
    magnitude, absolute = np.abs(factor), np.abs(right)
    for _ in range(ROUNDS):
        part = factor * np.concatenate([least, most])[near]  # the least of each term
        open_ = ~np.isfinite(part)
        known = np.where(open_, 0.0, part)
        total, terms = np.bincount(row, known, n), np.bincount(row, np.abs(known), n)
        alone = np.bincount(row, open_, n)[row] == open_  # no other term is unbounded
        with np.errstate(over="ignore", invalid="ignore"):
            room = right[row] - (total[row] - known) + (ROUNDING * (absolute + terms))[row]
            bound = room / magnitude  # with the sign of the factor
            alone &= np.isfinite(bound)
            ends = np.full(2 * size, np.inf)
            np.minimum.at(ends, far[alone], bound[alone])
            below, above = -ends[:size], ends[size:]
            closer = (
                above < np.where(most < np.inf, most - STEP * np.abs(most), np.inf),
                below > np.where(least > -np.inf, least + STEP * np.abs(least), -np.inf),
            )
        lower, upper = np.where(closer[1], below, least), np.where(closer[0], above, most)
        # ranges that cross have no point and would grow without end, up to 1e15 from 1; those before hold all the same
        if not (closer[0].any() or closer[1].any()) or (lower > upper).any():
            break
        least, most = lower, upper
    return least, most


def ranges_within_cones(every: Entries, b: Float, dims: Any, least: Float, most: Float) -> tuple[Float, Float]:
    """The ranges with the bounds that ``b - a @ v`` in cones implies, by the entries of a matrix a.

    Rows and cones are in the order of CVXPY.
    """
    equal, linear = slice(0, dims.zero), slice(0, dims.zero + dims.nonneg)
    rows, right = every.part(linear).with_below(every.part(equal), -1.0), np.concatenate([b[linear], -b[equal]])
    more, of_more = _sums_of_rows(every, b, dims)
    rows, right = rows.with_below(more, 1.0), np.append(right, of_more)
    least, most = implied_ranges(rows, right, least, most)
    curved = slice(linear.stop, len(b))
    if curved.start == curved.stop:
        return least, most
    curves, constant = every.part(curved), b[curved]
    of_all, before = rows.with_below(curves, 1.0).with_below(curves, -1.0), None
    for _ in range(CONES):
        low, high = coordinates(*_expressions(curves, constant, least, most), dims)
        sides = np.concatenate([right, constant - low, high - constant])
        if before is not None and np.array_equal(sides, before):
            break
        least, most = implied_ranges(of_all, sides, least, most)
        before = sides
    return least, most


def _sums_of_rows(every: Entries, b: Float, dims: Any) -> tuple[Entries, Float]:
    """Sums of two rows that bound what neither does: of |x| <= t, as two rows, and of s_1 <= s_0 and -s_1 <= s_0 of a
    second-order cone, which for a product of x and y that is at least a square are x >= 0 and y >= 0.

    Inequalities whose coefficients differ by signs only have the same sum of absolute values at random weights.
    """
    zero, end, size = dims.zero, dims.zero + dims.nonneg, int(every.column.max(initial=-1)) + 1
    weights = np.random.default_rng(0).uniform(1.0, 2.0, size)
    total = np.bincount(every.row, np.abs(every.factor) * weights[every.column], every.n)[zero:end]
    order = zero + np.argsort(total, kind="stable")
    alike = np.flatnonzero(
        (np.diff(total[order - zero]) == 0) & (np.bincount(every.row, minlength=every.n)[order[1:]] > 1)
    )
    first = end + np.cumsum([0, *dims.soc])[: len(dims.soc)].astype(int)
    first = first[np.array(dims.soc, dtype=int) > 1]
    if not len(alike) and not len(first):
        return every.part(slice(0, 0)), np.zeros(0)
    rows = np.concatenate([order[alike], first, first])
    others = np.concatenate([order[alike + 1], first + 1, first + 1])
    signs = np.repeat([1.0, 1.0, -1.0], [len(alike), len(first), len(first)])
    n = np.arange(len(rows))
    pick = sp.csr_array(
        (np.append(np.ones(len(n)), signs), (np.append(n, n), np.append(rows, others))), (len(n), every.n)
    )
    matrix, right = every.matrix(size), pick @ b
    sums, sizes = sp.coo_array(pick @ matrix), sp.csr_array(abs(pick) @ abs(matrix))
    # a coefficient that is only the rounding of two says nothing: two rows of `EnvyFree` left 1e-16 x <= 0, hence x = 0
    noise = (sums.data != 0) & (np.abs(sums.data) <= ROUNDING * np.asarray(sizes[sums.row, sums.col]).ravel())
    right[sums.row[noise]] = np.inf
    return Entries.of(sp.csr_array(sums)), right


def _expressions(a: Entries, b: Float, least: Float, most: Float) -> tuple[Float, Float]:
    """The ranges of ``b - a @ v``."""
    ends = np.stack([a.factor * least[a.column], a.factor * most[a.column]])
    with np.errstate(invalid="ignore"):
        low, high = (np.bincount(a.row, -f(ends, axis=0), len(b)) + b for f in (np.max, np.min))
        size = np.bincount(a.row, np.abs(ends).max(axis=0, initial=0.0), len(b)) + np.abs(b)
    off = np.where(np.isfinite(size), ROUNDING * size, 0.0)
    return np.nan_to_num(low - off, nan=-np.inf, posinf=np.inf, neginf=-np.inf), np.nan_to_num(
        high + off, nan=np.inf, posinf=np.inf, neginf=-np.inf
    )


def coordinates(low: Float, high: Float, dims: Any) -> tuple[Float, Float]:
    """The ranges of coordinates of second-order, semidefinite, exponential and power cones, in order, given other
    ranges of them.
    """
    low, high = low.copy(), high.copy()
    at = int(sum(dims.soc))
    if at:  # |s_k| <= s_0
        sizes = np.array(dims.soc, dtype=np.intp)
        first = np.cumsum(sizes) - sizes
        rest = np.repeat(first, sizes)
        inside = np.flatnonzero(rest != np.arange(at))
        radius = high[rest[inside]]
        high[inside], low[inside] = np.minimum(high[inside], radius), np.maximum(low[inside], -radius)
        np.maximum.at(low, rest[inside], np.maximum(low[inside], -high[inside]))
        low[first] = np.maximum(low[first], 0.0)
    for n in dims.psd:  # |S_ij| <= sqrt(S_ii S_jj), and rows off the diagonal are S_ij times the root of 2
        column, row = np.tril_indices(n)  # by columns of the upper triangle
        off, diagonal = at + np.flatnonzero(row != column), at + np.flatnonzero(row == column)
        low[diagonal] = np.maximum(low[diagonal], 0.0)
        roots = np.sqrt(np.maximum(high[diagonal], 0.0))
        with np.errstate(invalid="ignore"):  # 0 times infinity
            size = np.sqrt(2.0) * (roots[row] * roots[column])[row != column] * (1.0 + ROUNDING)
        size = np.where(np.isnan(size), np.inf, size)
        low[off], high[off] = np.maximum(low[off], -size), np.minimum(high[off], size)
        at += n * (n + 1) // 2
    if dims.exp:  # s_1 exp(s_0 / s_1) <= s_2
        part = slice(at, at + 3 * dims.exp)
        (u, v, w), (top_u, top_v, top_w) = low[part].reshape(-1, 3).T, high[part].reshape(-1, 3).T
        v, w = np.maximum(v, 0.0), np.maximum(w, 0.0)
        with np.errstate(all="ignore"):
            # s_1 log(s_2 / s_1) is concave, with its maximum at s_2 / e; s_1 exp(s_0 / s_1) is convex, least at s_0
            best, worst = np.clip(top_w / math.e, v, top_v), np.clip(u, v, top_v)
            most = best * np.log(top_w / best)
            most += ROUNDING * (np.abs(most) + best)
            from_below = worst * np.exp(u / worst) * (1.0 - ROUNDING * (1.0 + np.abs(u / worst)))
        most, from_below = np.where(np.isnan(most), np.inf, most), np.where(from_below > 0, from_below, 0.0)
        high[part] = np.stack([np.minimum(top_u, most), top_v, top_w], axis=1).ravel()
        low[part] = np.stack([u, v, np.maximum(w, from_below)], axis=1).ravel()
        at = part.stop
    if dims.p3d:  # |s_2| <= s_0^a s_1^(1 - a)
        power, first = np.array(dims.p3d, dtype=float), at + 3 * np.arange(len(dims.p3d))
        low[first], low[first + 1] = np.maximum(low[first], 0.0), np.maximum(low[first + 1], 0.0)
        ends = np.maximum(high[first], 0.0), np.maximum(high[first + 1], 0.0)
        with np.errstate(invalid="ignore"):  # 0 times infinity
            size = ends[0] ** power * ends[1] ** (1.0 - power) * (1.0 + ROUNDING)
        size = np.where(np.isfinite(ends[0]) & np.isfinite(ends[1]), size, np.inf)
        low[first + 2], high[first + 2] = np.maximum(low[first + 2], -size), np.minimum(high[first + 2], size)
    return low, high
