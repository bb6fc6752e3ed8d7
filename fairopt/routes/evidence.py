"""Certificates of answers on one pool, each in one pass over the data.

What is measured here is measured again from demands, shares and tasks; the only thing taken from whoever found the
answer is a hint (which resources to look at first, which prices to charge), and a bad hint gives a large gap, never a
wrong one. Parts of the users can be judged apart, and what was found about them put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.routes.chunks import Chunk, Pool

Float = NDArray[np.floating[Any]]


class Feasibility(NamedTuple):
    """Load of each resource as a fraction of its capacity, largest relative excess over a limit, and a NaN's trace."""

    load: Float
    beyond: float

    @classmethod
    def of(cls, chunk: Chunk, tasks: Float) -> Feasibility:
        """That of a chunk."""
        high, load = chunk.of(chunk.pool.high), chunk.ratios @ tasks
        beyond = max(-float(tasks.min()), 0.0)
        if not isinstance(high, float) or high < np.inf:
            over = tasks - high
            if over.max() > 0:
                beyond = max(beyond, float(np.max(over / np.where(over > 0, high, 1.0))))
        return cls(load, beyond)

    @classmethod
    def of_all(cls, parts: Sequence[Feasibility]) -> Feasibility:
        """That of all together."""
        return cls(np.sum([p.load for p in parts], axis=0), max(p.beyond for p in parts))

    @property
    def violation(self) -> float:
        """Largest relative excess over a capacity or limit; infinite where a number is none."""
        if not np.isfinite(self.load).all():
            return np.inf
        return max(float((self.load - 1.0).max(initial=0.0)), self.beyond)


class Bottlenecks(NamedTuple):
    """What the bottleneck condition needs, by resource.

    ``top`` is the largest level of a user of it who could give way; ``least`` the smallest level of those below their
    limit whose first resource in the order looked at it is; ``stray`` that of those with none; ``lowest`` that of all.
    """

    feasible: Feasibility
    top: Float
    least: Float
    stray: float
    lowest: float

    @classmethod
    def of_all(cls, parts: Sequence[Bottlenecks]) -> Bottlenecks:
        """Those of all together."""
        return cls(
            Feasibility.of_all([p.feasible for p in parts]), np.max([p.top for p in parts], axis=0),
            np.min([p.least for p in parts], axis=0), min(p.stray for p in parts), min(p.lowest for p in parts),
        )  # fmt: skip

    def gap(self, usable: Float) -> float:
        """How far the answer is from the condition of Bertsekas and Gallager, relatively (math.md section 4).

        Every user is at a bound, or uses a full resource on which nobody who could give way has a larger ``s / w``.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            slack = np.where(usable > 0, 1.0 - self.feasible.load / usable, 0.0)
            excess = np.maximum(self.top / self.least - 1.0, slack)
        asked = np.isfinite(self.least)
        worst = float(np.where(asked, np.nan_to_num(excess, nan=np.inf), 0.0).max(initial=0.0))
        return np.inf if np.isfinite(self.stray) else worst


def bottlenecks(pool: Pool, tasks: Float, order: Sequence[int] | None = None) -> Bottlenecks:
    """Look at every user's level and at who holds it down.

    Parameters
    ----------
    pool : Pool
        Users and share.
    tasks : ndarray of shape (n_users,)
        The answer to judge.
    order : sequence of int, optional
        Resources, in the order in which they became full. Default: full ones, the lowest top level first.

    Returns
    -------
    Bottlenecks
    """
    if order is None:
        first = bottlenecks(pool, tasks, range(pool.m))
        slack = pool.usable - first.feasible.load
        order = sorted(range(pool.m), key=lambda i: (bool(slack[i] > 1e-6 * pool.usable[i]), first.top[i]))

    def look(chunk: Chunk) -> Bottlenecks:
        x, low, high = tasks[chunk.rows], chunk.of(pool.low), chunk.of(pool.high)
        ratios = chunk.ratios
        level = x * chunk.coefficients / chunk.of(pool.weights)
        gives = level if isinstance(low, float) and low == 0 else np.where(x > low * (1 + 1e-9), level, 0.0)
        wants = level if isinstance(high, float) and high == np.inf else np.where(x < high * (1 - 1e-9), level, np.inf)
        top, least = np.zeros(pool.m), np.full(pool.m, np.inf)
        left: Any = None  # who has met no resource yet; None for everybody
        for i in order:
            uses = ratios[i] > 0
            everybody = bool(uses.all())
            top[i] = gives.max() if everybody else np.max(gives, initial=0.0, where=uses)
            if left is None:
                least[i] = wants.min() if everybody else np.min(wants, initial=np.inf, where=uses)
                left = ~uses
            elif left.any():
                least[i] = np.min(wants, initial=np.inf, where=uses & left)
                left &= ~uses
        stray = float(wants.min() if left is None else np.min(wants, initial=np.inf, where=left))
        return Bottlenecks(Feasibility.of(chunk, x), top, least, stray, float(level.min()))

    return Bottlenecks.of_all(pool.each(look))
