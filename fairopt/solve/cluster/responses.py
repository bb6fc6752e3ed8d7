"""Prices of few capacities for many users whose shares differ by server, by best responses (Proposition 5.13).

With ``x(p)`` the best responses of all users to prices p, and g(p) their excess over capacities, prices are sought at
which g = 0 where p > 0. With many users g is nearly smooth in p, as single users who jump from one server to another
count little: Broyden's method in logarithms of prices, from differences at the prices of a sample, comes within about
three users of it. Best responses cannot do better, since a user who is indifferent between servers has all or nothing.
So responses at the corners of a small simplex of excesses around 0 are averaged: limits are convex, and the average
fills each priced capacity to 1e-9. Its gap is of the size of the simplex times the change of prices over it.

The interior point needs five numbers per user and server and n equations; this takes a pass of users per response.
Where many users tie, g has jumps as large as they are together, no simplex contains 0, and the interior point takes
over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fairopt.proof.server_bounds import LevelUnits
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.lazy import optimize
from fairopt.runtime.tolerances import TINY
from fairopt.solve.cluster.interior_point import Interior
from fairopt.solve.cluster.utilities import Powers
from fairopt.solve.form.demands_at_prices import by_pair, demands_of

MANY, FEW = 5_000, 12  # from so many users, and up to so many capacities, it is faster than the interior point
SAMPLE, ROUGH, SAMPLE_STEPS = 500, 1e-3, 30  # users for first prices, with the tolerance and steps of their optimum
UNPRICED = 1e-4  # part of all earnings below which a capacity is not full
DIFFERENCE = 0.02  # of logarithms of prices, for derivatives: smaller ones see single users jump
FARTHEST = 0.3  # largest step of a logarithm of a price
STEPS = 12  # of Broyden's method; two without progress end it
CLOSE, AROUND = 1e-5, 4e-5  # of a capacity: the excess at the end, and the size of the simplex of averages
USERS, MORE = 3.0, 10.0  # the same in users, as single ones jump between servers
ROUNDS = 3  # of averages
MET = 1e-9  # of a capacity: excess of an average


class Responses(NamedTuple):
    """Best responses: parts of level by user and server, at prices and a common level (1 without one)."""

    parts: Float
    prices: Float
    level: float


def solve_by_responses(units: LevelUnits, weights: Float | None, alpha: float) -> tuple[Float, Float] | None:
    """Parts of level by user and server, and prices, of alpha-fairness, or of max-min without ``weights``.

    None if users are few, capacities many or limits are on levels, and if the steps fail.
    """
    if units.limit_use is None or units.demands.n_users < MANY or units.usable.size > FEW:
        return None
    first = _of_sample(units, weights, alpha)
    if first is None or not first[0].any():
        return None
    priced, x = first
    k = int(priced.sum())
    scale = float(x[:k].sum())  # of prices, which a common level leaves free

    def at(x: Float) -> tuple[Responses, Float]:
        """Responses, and the excess over each capacity that has a price."""
        prices = np.zeros(priced.shape)
        prices[priced], level = np.exp(x[:k]), 1.0 if weights is not None else float(np.exp(x[k]))
        parts = responses(units, prices, level, weights, alpha)
        over = units.demands.all_loads(parts)[priced] / units.usable[priced] - 1.0
        return Responses(parts, prices, level), over if weights is not None else np.append(over, x[:k].sum() - scale)

    return _averaged(at, *_near(at, x, units.demands.n_users), k, units.demands.n_users)


At = Callable[[Float], tuple[Responses, Float]]


def _near(at: At, x: Float, n_users: int) -> tuple[Float, Float, Float]:
    """Logarithms at which capacities are nearly met, the excess there, and its derivatives."""
    over = at(x)[1]
    slopes = np.empty((len(x), len(x)))
    for i in range(len(x)):
        there = x.copy()
        there[i] += DIFFERENCE
        slopes[:, i] = (at(there)[1] - over) / DIFFERENCE
    best, least, worse = x, over, 0
    for _ in range(STEPS):
        if abs(least).max() <= max(CLOSE, USERS / n_users) or worse > 1:
            break
        step = _solved(slopes, -over)
        step *= min(1.0, FARTHEST / max(float(abs(step).max()), TINY))
        x = x + step
        after = at(x)[1]
        if abs(over).max() > MORE / n_users:  # else single users who jump decide it, and derivatives mean nothing
            slopes += np.outer(after - over - slopes @ step, step) / (step @ step)
        over = after
        worse += 1
        if abs(over).max() < abs(least).max():
            best, least, worse = x, over, 0
    return best, least, slopes


def _averaged(at: At, x: Float, over: Float, slopes: Float, k: int, n_users: int) -> tuple[Float, Float] | None:
    """An average of responses around x that meets all k capacities, and the same average of prices.

    The responses are those at the corners of a simplex of excesses. If it does not contain zero excess, it is moved
    and doubled.
    """
    size = max(AROUND, MORE / n_users, 2.0 * float(abs(over).max()))
    evaluated: list[tuple[Responses, Float]] = []
    for _ in range(ROUNDS):
        corners = size * np.vstack([np.eye(k), -np.ones(k)])
        places = []
        for corner in corners:
            aim = np.zeros(len(x))
            aim[:k] = corner
            places.append(x + _solved(slopes, aim - over))
            if not np.isfinite(places[-1]).all():
                return None
            evaluated.append(at(places[-1]))
        system = np.vstack([np.array([excess[:k] / size for _, excess in evaluated]).T, np.ones(len(evaluated))])
        # weights of the corners, of all rounds so far, at which the excess is 0: nonnegative and of sum 1
        factors, missed = optimize.nnls(system, np.append(np.zeros(k), 1.0))
        if missed * size <= MET:
            parts, prices = np.zeros_like(evaluated[0][0].parts), np.zeros_like(evaluated[0][0].prices)
            for factor, (response, _) in zip(factors / factors.sum(), evaluated, strict=True):
                if factor > 0:
                    parts += factor * response.parts
                    prices += factor * response.prices
            return parts, prices
        # the linear map of the last corners, where 0 excess should be
        last = system[:, -k - 1 :]
        x, over = _solved(last, np.append(np.zeros(k), 1.0)) @ np.array(places), np.zeros(len(x))
        size *= 2.0
    return None


def _solved(slopes: Float, right: Float) -> Float:
    """The solution of a linear system, NaN if it is singular."""
    try:
        return np.asarray(np.linalg.solve(slopes, right), dtype=float)
    except np.linalg.LinAlgError:
        return np.full(len(right), np.nan)


def responses(units: LevelUnits, prices: Float, level: float, weights: Float | None, alpha: float) -> Float:
    """Best responses to prices of users with ``weights``, or at the common ``level``, (n_users, n_servers)."""
    demands, limit_use = units.demands, units.limit_use
    assert limit_use is not None
    out = by_pair(demands.n_users, demands.n_servers)
    for users in demands.chunks():
        hull = units.along_hull(prices, level, users, weights, alpha)
        wanted = level if weights is None else (weights[users] / hull.marginal) ** (1.0 / alpha)
        wanted = np.minimum(wanted, units.reach[users])
        first = np.zeros_like(wanted)
        # whose limit binds between two servers of the hull: a mix of both that takes all of the limit
        row = np.flatnonzero(hull.previous != hull.server)
        less, more = limit_use[users][row, hull.server[row]], limit_use[users][row, hull.previous[row]]
        first[row] = np.clip((1.0 - less * wanted[row]) / (more - less), 0.0, wanted[row])
        for s in range(demands.n_servers):
            out[users, s] = np.where(hull.server == s, wanted - first, np.where(hull.previous == s, first, 0.0))
    return out


def _of_sample(units: LevelUnits, weights: Float | None, alpha: float) -> tuple[Bool, Float] | None:
    """Capacities that have a price, and logarithms of these prices and of the common level, from a sample."""
    program, n = units.program, units.demands.n_users
    assert units.limit_use is not None
    some = np.sort(np.random.default_rng(0).choice(n, SAMPLE, replace=False))
    demands = demands_of(
        program.instance.demands[some],
        program.whole_capacities * (SAMPLE / n),
        units.per_level[some],
        units.eligible[some],
    )
    groups, limits = np.ones(1), units.limits[some].min(keepdims=True)
    if weights is not None:
        groups, limits = weights[some] / weights[some].sum(), units.limits[some]
    point = Interior(demands, units.usable, Powers(groups, alpha), limits, units.limit_use[some])
    for _ in range(SAMPLE_STEPS):
        if point.done(ROUGH, np.inf):
            break
        if not point.step():
            return None
    earned = point.prices * units.usable
    priced = units.needed & (earned > UNPRICED * earned.sum())
    log_prices = np.log(point.prices[priced])
    return priced, log_prices if weights is not None else np.append(log_prices, np.log(point.levels))
