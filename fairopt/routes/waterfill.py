"""Water-filling: exact leximin of any linear share on one pool (math.md section 4).

Raise a common level ``z = s_j / w_j``. When a resource is full, freeze the users who need it; a user at its limit
stays there; go on with the rest. Users with a lower bound start there and join when the level reaches it. At most
one event per resource.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class WaterFilling:
    """Result of `waterfill`.

    Attributes
    ----------
    tasks : ndarray of shape (n_users,)
        The leximin allocation.
    first_level : float
        The max-min level.
    prices : ndarray of shape (n_resources,)
        Derivative of the max-min level by the (relative) capacity of each resource; zero where limits decide it.
    """

    tasks: Float
    first_level: float
    prices: Float


def waterfill(ratios: Float, per_level: Float, low: Float, high: Float, usable: Float) -> WaterFilling | None:
    """Leximin on one pool.

    Parameters
    ----------
    ratios : ndarray of shape (n_users, n_resources)
        Share of each resource that one task takes.
    per_level : ndarray of shape (n_users,)
        Tasks that one unit of level is worth to each user, ``w_j / c_j``.
    low, high : ndarray of shape (n_users,)
        Fewest and most tasks of each user.
    usable : ndarray of shape (n_resources,)
        Fraction of each resource that may be used.

    Returns
    -------
    WaterFilling or None
        None if even the lower bounds do not fit.

    Notes
    -----
    The load of a resource is piecewise linear in the level, with a kink where a user meets a bound; kinks are sorted
    once, and each event reads the level off the cumulative sums of the users who are still rising.
    """
    n, m = ratios.shape
    tasks = np.array(low, dtype=float)
    if (low > high * (1 + 1e-12)).any() or (low @ ratios > usable * (1 + 1e-12)).any():
        return None
    rising = _Rising(ratios, per_level, low, high)
    level, first_level, prices = 0.0, np.inf, np.zeros(m)
    active = np.ones(n, dtype=bool)
    for event in range(m + 1):
        if not active.any():
            break
        room = usable - np.where(active, 0.0, tasks) @ ratios
        level, full, slope = rising.next_full(active, room, level)
        if event == 0:
            limit = float(rising.leaves.min())
            first_level = min(level, limit)
            if full is not None and level <= limit:
                prices[full] = 1.0 / slope
        if full is None:  # nothing fills up any more: everybody goes to its limit
            tasks[active] = high[active]
            break
        frozen = active & (ratios[:, full] > 0)
        tasks[frozen] = np.clip(per_level[frozen] * level, low[frozen], high[frozen])
        active &= ~frozen
    return WaterFilling(tasks, first_level, prices)


class _Rising:
    """Loads as functions of the common level."""

    def __init__(self, ratios: Float, per_level: Float, low: Float, high: Float) -> None:
        self.ratios, self.low, self.high = ratios, low, high
        self.rates = ratios * per_level[:, None]
        with np.errstate(over="ignore"):
            self.enters, self.leaves = low / per_level, high / per_level
        starts, stops = np.flatnonzero(self.enters > 0), np.flatnonzero(np.isfinite(self.leaves))
        user = np.concatenate([starts, stops])
        level = np.concatenate([self.enters[starts], self.leaves[stops]])
        sign = np.concatenate([np.ones(len(starts)), -np.ones(len(stops))])
        order = np.argsort(level, kind="stable")
        self.user, self.level, self.sign = user[order], level[order], sign[order]

    def next_full(self, active: NDArray[np.bool_], room: Float, level: float) -> tuple[float, int | None, float]:
        """Level at which the next resource is full, that resource (None: never), and the slope of its load there."""
        needed = np.any(self.rates[active] > 0, axis=0)
        guesses = np.where(needed, self._estimates(active, room), np.inf)
        best, full, slope = np.inf, None, 0.0
        for i in np.argsort(guesses, kind="stable"):
            if not needed[i] or not np.isfinite(guesses[i]) or guesses[i] > best * (1 + 1e-9):
                break
            at, rate = self._exact(int(i), active, float(room[i]), max(float(guesses[i]), level))
            if at < best:
                best, full, slope = at, int(i), rate
        return max(best, level), full, slope

    def _estimates(self, active: NDArray[np.bool_], room: Float) -> Float:
        """About where each resource is full, from cumulative sums over the sorted kinks."""
        start_rate = np.where(active & (self.enters <= 0), 1.0, 0.0) @ self.rates
        with np.errstate(divide="ignore", invalid="ignore"):
            if not len(self.user):
                return np.where(start_rate > 0, room / start_rate, np.inf)
        live = active[self.user]
        users, levels, signs = self.user[live], self.level[live], self.sign[live]
        room = room - np.where(active, self.low, 0.0) @ self.ratios
        gaps = np.diff(levels, prepend=0.0)
        out = np.full(len(room), np.inf)
        for i in range(len(room)):
            slopes = np.maximum(start_rate[i] + np.concatenate([[0.0], np.cumsum(self.rates[users, i] * signs)]), 0.0)
            loads = np.concatenate([[0.0], np.cumsum(slopes[:-1] * gaps)])
            # the last point where the load still fits: beyond a flat stretch, not before it
            k = int(np.searchsorted(loads, max(room[i], 0.0), side="right")) - 1
            if slopes[k] > 0:
                out[i] = (levels[k - 1] if k else 0.0) + (room[i] - loads[k]) / slopes[k]
        return out

    def _exact(self, i: int, active: NDArray[np.bool_], room: float, level: float) -> tuple[float, float]:
        """The level where resource i is full, without the cancellation of cumulative sums."""
        if not len(self.user):
            rate = float(np.where(active, self.rates[:, i], 0.0).sum())
            return room / rate, rate
        rate = 0.0
        for _ in range(30):  # Newton on a piecewise linear function, from beside the root: two or three steps
            at_limit, waiting = active & (self.leaves <= level), active & (self.enters >= level)
            rate = float(self.rates[active & ~at_limit & ~waiting, i].sum())
            held = self.ratios[at_limit, i] @ self.high[at_limit] + self.ratios[waiting, i] @ self.low[waiting]
            if rate <= 0:
                later = self.enters[waiting & (self.ratios[:, i] > 0)]
                if not len(later):
                    return np.inf, np.inf
                level = float(later.min())
                if room - held <= 1e-14 * (
                    abs(room) + held
                ):  # full, though nobody rises yet: full when the next one starts
                    return level, np.inf
                level = float(np.nextafter(level, np.inf))
                continue
            found = float((room - held) / rate)
            if abs(found - level) <= 1e-15 * abs(level):
                return found, rate
            level = found
        return level, rate
