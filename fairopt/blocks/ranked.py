"""Ordered weights at given costs: the best levels within bounds, and the weights that prove them optimal.

For weights v_1 >= v_2 >= ... and levels sorted in increasing order

    OW(z) = sum_k v_k z_(k) = int_0^inf G(#{j : z_j > s}) ds,    G(k) the sum of the k smallest weights

(Choquet integral; Lovász 1983). So ``max OW(z) - cost @ z`` is an integral over thresholds s of the largest ``G(|U|) -
cost(U)``: the best set U consists of the users whose lower bound is above s and the cheapest of those whose upper bound
is (Proposition 4.12, docs/methods/pool.md). As ``G`` is convex, these sets shrink as s grows, so that thresholds, which
are the n lower and n upper bounds, are decided by bisection: log n rounds over all users, where the linear program
would have n^2 unknowns.

The weights theta that prove levels optimal are majorised by v: the k largest sum to no more than v's. Floats:
`majorised` moves wanted weights towards their mean until that holds, up to 1e-15 of their sum. A theta that misses what
was wanted weakens the bound; one that is not majorised would falsify it.
"""

from __future__ import annotations

import numpy as np

from fairopt.runtime.arrays import Bool, Float, Indices


def padded(v: tuple[float, ...], n: int) -> Float:
    """The weights of n users, padded with zeros."""
    out = np.zeros(n)
    out[: len(v)] = v[:n]
    return out


def best_levels(v: Float, cost: Float, low: Float, high: Float) -> Float:
    """Levels within bounds (finite, at least 0) that maximise ``OW(z) - cost @ z``; arrays of shape (n,)."""
    return BoundedLevels(v, low, high).best(cost)


class BoundedLevels:
    """Levels of given weights and bounds, for any costs: to sort the bounds takes a third of the time at one cost."""

    def __init__(self, v: Float, low: Float, high: Float) -> None:
        self.smallest = np.concatenate([[0.0], np.cumsum(v[::-1])])
        self.steps = np.unique(np.concatenate([[0.0], low, high]))
        self.least, self.most = np.searchsorted(self.steps, low), np.searchsorted(self.steps, np.maximum(low, high))

    def best(self, cost: Float) -> Float:
        """Levels that maximise ``OW(z) - cost @ z``, shape (n,)."""
        out = np.zeros(len(cost), dtype=np.intp)  # the step of each user's level
        who = np.argsort(cost, kind="stable")
        cost, least, most = cost[who], self.least[who], self.most[who]
        node = np.zeros(len(who), dtype=np.intp)  # by user, sorted; a node is an interval of steps with users above it
        first, last, above = np.zeros(1, dtype=np.intp), np.array([len(self.steps) - 1]), np.zeros(1, dtype=np.intp)
        while len(who):
            done = (first == last)[node]
            if done.any():
                out[who[done]] = first[node[done]]
                cost, (who, node, least, most) = cost[~done], (of[~done] for of in (who, node, least, most))
                if not len(who):
                    break
            middle = (first + last + 1) // 2  # who is above it goes to the upper half of its interval
            at = middle[node]
            forced = least >= at
            free = np.flatnonzero(~forced & (most >= at))
            base = above + np.bincount(node[forced], minlength=len(above))
            inside = forced
            inside[free] = _cheapest(self.smallest, cost[free], node[free], base)
            number = np.bincount(node[inside], minlength=len(above))
            first, last = np.stack([first, middle], axis=1).ravel(), np.stack([middle - 1, last], axis=1).ravel()
            above = np.stack([above + number, above], axis=1).ravel()
            node = 2 * node + inside
            # NumPy sorts integers of 16 bits in linear time
            order = np.argsort(node.astype(np.uint16) if len(above) <= 1 << 16 else node, kind="stable")
            cost, (who, node, least, most) = cost[order], (of[order] for of in (who, node, least, most))
            new = np.diff(node, prepend=-1) > 0
            kept, node = node[new], np.cumsum(new) - 1
            first, last, above = first[kept], last[kept], above[kept]
        return self.steps[out]


def _cheapest(smallest: Float, cost: Float, node: Indices, base: Indices) -> Bool:
    """The users of each node, in the order of their costs, whose weights together exceed their costs."""
    if not len(node):
        return np.zeros(0, dtype=bool)
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    place = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(node)))
    rank = np.arange(len(node)) - starts[place] + 1
    paid = np.cumsum(cost)
    paid -= (paid[starts] - cost[starts])[place]  # sums within each node
    # G(base + r) - G(base) - cost of the r cheapest, convex less concave: the best r is looked for among all
    gain = smallest[base[node] + rank] - smallest[base[node]] - paid
    most = np.maximum.reduceat(gain, starts)
    best = np.maximum.reduceat(np.where((gain == most[place]) & (gain > 0), rank, 0), starts)
    return rank <= best[place]


def mixture_at(v: Float, cost: Float, low: Float, high: Float, levels: Float) -> Float:
    """Weights majorised by v that match the costs at `best_levels`; shape (n,).

    Among users of one level, those at the lower bound may get less than their cost and those at the upper bound more.
    They are moved to one common number as far as the sum requires.
    """
    order = np.argsort(levels, kind="stable")
    out, sorted_levels = np.empty(len(v)), levels[order]
    starts = np.flatnonzero(np.diff(sorted_levels, prepend=-1.0))
    for a, b in zip(starts.tolist(), [*starts[1:].tolist(), len(v)], strict=True):
        if b - a == 1:
            out[order[a]] = v[a]
            continue
        users = order[a:b]
        out[users] = majorised(
            v[a:b],
            _levelled_to_sum(v[a:b].sum(), cost[users], levels[users] <= low[users], levels[users] >= high[users]),
        )
    return out


def _levelled_to_sum(total: float, cost: Float, at_low: Bool, at_high: Bool) -> Float:
    """Costs lowered (at the lower bound) or raised (at the upper bound) to one number that gives the sum ``total``."""
    steps = np.unique(cost)

    def at(number: float) -> Float:
        least = np.where(at_low, np.where(cost > number, number, cost), cost)
        return np.where(at_high & (at_low | (cost < number)), np.where(at_low, number, np.maximum(cost, number)), least)

    below, up = 0, len(steps)  # the sum grows with the number
    while below < up:
        middle = (below + up) // 2
        below, up = (middle + 1, up) if at(float(steps[middle])).sum() < total else (below, middle)
    left = float(steps[below - 1]) if below else 0.0
    base = at(left)
    moves = (at_low & at_high) | (at_low & (cost > left)) | (at_high & (cost <= left))
    if not moves.any():
        return base
    return np.where(moves, np.maximum(base + (total - base.sum()) / moves.sum(), 0.0), base)


def majorised(v: Float, wanted: Float) -> Float:
    """The wanted weights scaled to the sum of v, and mixed with their mean until v majorises them.

    Of arrays of several rows by row.
    """
    total, sums, n = v.sum(axis=-1, keepdims=True), wanted.sum(axis=-1, keepdims=True), v.shape[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = np.where((sums > 0) & (sums < np.inf), wanted * (total / sums), total / n)
        most = np.cumsum(v, axis=-1)[..., :-1]
        excess = np.cumsum(np.sort(theta, axis=-1)[..., ::-1], axis=-1)[..., :-1] - most
        room = most - np.arange(1, n) * (total / n)  # what mixing with the mean gains
        over = excess > 1e-15 * total  # rounding of the sums
        part = np.nan_to_num(np.where(over, excess / (excess + room), 0.0), nan=1.0)
    mix = np.minimum(part.max(axis=-1, keepdims=True, initial=0.0), 1.0)
    return np.asarray((1 - mix) * theta + mix * total / n)
