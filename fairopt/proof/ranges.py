"""Ranges of variables that linear rows imply, and cones.

A point of a cone bounds its coordinates by one another: with ``b exp(a / b) <= c`` a logarithm is at most that of the
largest number that it is of, and an exponential at least that of the least. Such bounds on an affine expression are
linear rows again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import sp

ROUNDS = 20  # of propagation
ROUNDING = 1e-12  # of the terms of a row
CONES = 4  # rounds through all cones: a logarithm of a logarithm takes two
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


def ranges_within_cones(a: sp.csr_array, b: Float, dims: Any, least: Float, most: Float) -> tuple[Float, Float]:
    """The ranges with the bounds that ``b - a @ v`` in cones implies; rows and cones are in the order of CVXPY."""
    equal, linear = slice(0, dims.zero), slice(0, dims.zero + dims.nonneg)
    rows, right = sp.csr_array(sp.vstack([a[linear], -a[equal]])), np.concatenate([b[linear], -b[equal]])
    least, most = implied_ranges(rows, right, least, most)
    curved = slice(linear.stop, len(b))
    if curved.start == curved.stop:
        return least, most
    curves, constant = sp.csr_array(a[curved]), b[curved]
    of_all = sp.csr_array(sp.vstack([rows, curves, -curves]))
    for _ in range(CONES):
        low, high = coordinates(*_expressions(curves, constant, least, most), dims)
        closer = implied_ranges(of_all, np.concatenate([right, constant - low, high - constant]), least, most)
        if all(np.array_equal(now, then) for now, then in zip(closer, (least, most), strict=True)):
            break
        least, most = closer
    return least, most


def _expressions(a: sp.csr_array, b: Float, least: Float, most: Float) -> tuple[Float, Float]:
    """The ranges of ``b - a @ v``."""
    row = np.repeat(np.arange(a.shape[0]), np.diff(a.indptr))
    ends = np.stack([a.data * least[a.indices], a.data * most[a.indices]])
    ends = np.where(a.data == 0, 0.0, ends)
    with np.errstate(invalid="ignore"):
        low, high = (np.bincount(row, -f(ends, axis=0), len(b)) + b for f in (np.max, np.min))
        size = np.bincount(row, np.abs(ends).max(axis=0, initial=0.0), len(b)) + np.abs(b)
    off = np.where(np.isfinite(size), ROUNDING * size, 0.0)
    return np.nan_to_num(low - off, nan=-np.inf, posinf=np.inf, neginf=-np.inf), np.nan_to_num(
        high + off, nan=np.inf, posinf=np.inf, neginf=-np.inf
    )


def coordinates(low: Float, high: Float, dims: Any) -> tuple[Float, Float]:
    """The ranges of coordinates of second-order, exponential and power cones, in order, given other ranges of them."""
    low, high = low.copy(), high.copy()
    at = 0
    for size in dims.soc:  # |s_k| <= s_0
        part, rest = slice(at, at + size), slice(at + 1, at + size)
        high[rest], low[rest] = np.minimum(high[rest], high[at]), np.maximum(low[rest], -high[at])
        low[at] = max(low[at], np.max([*low[rest], *-high[rest]], initial=0.0))
        at = part.stop
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
    for power in dims.p3d:  # |s_2| <= s_0^a s_1^(1 - a)
        low[at : at + 2] = np.maximum(low[at : at + 2], 0.0)
        first, second = high[at : at + 2]
        if np.isfinite(first) and np.isfinite(second):
            size = float(max(first, 0.0) ** float(power) * max(second, 0.0) ** (1.0 - float(power))) * (1.0 + ROUNDING)
            low[at + 2], high[at + 2] = max(low[at + 2], -size), min(high[at + 2], size)
        at += 3
    return low, high
