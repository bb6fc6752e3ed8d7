"""Prices of few capacities for many users, by Newton's method on what users hold at them.

Each user's best response to prices has a closed form (`LevelUnits.along_hull`). With many users the sum of responses
is nearly smooth in prices, though each user jumps from server to server. A sample of users gives first prices,
differences of all users' responses the derivatives, and a few of Broyden's steps (1965) prices at which capacities are
met but for a few users. Responses at several prices around these are averaged so that capacities are met. The average
keeps every user's limit, and loses of second order only in the distance of the prices.

It need not succeed: where many users tie, what is held jumps. The gate measures what comes out, and the interior point
takes over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fairopt.formulation.demands_at_prices import by_pair, demands_of
from fairopt.methods.arrays import Bool, Float
from fairopt.methods.cluster.interior_point import Interior
from fairopt.methods.cluster.worths import Powers
from fairopt.proofs.servers import LevelUnits
from fairopt.runtime.lazy import optimize

MANY, FEW = 5_000, 12  # users from which on, and capacities up to which it is quicker than the interior point
SAMPLE, ROUGH, ENOUGH = 500, 1e-3, 30  # users whose optimum gives the first prices, its tolerance, and steps
UNPRICED = 1e-4  # of what all capacities earn: those that earn less are not full
DIFFERENCE = 0.02  # of a price, for derivatives
FARTHEST = 0.3  # step of a logarithm of a price
STEPS = 12
CLOSE, AROUND = 1e-5, 4e-5  # of a capacity: where steps end, and how far around it responses are averaged
USERS, MORE = 3.0, 10.0  # the same in users, of whom each jumps
ROUNDS = 3  # of averages
MET = 1e-9  # of a capacity


class Held(NamedTuple):
    """What users hold: parts of level by user and server, at prices and a level (1 where users share none)."""

    parts: Float
    prices: Float
    level: float


def solve_by_responses(units: LevelUnits, weights: Float | None, alpha: float) -> tuple[Float, Float] | None:
    """Parts of level by user and server, and prices, of alpha-fairness, or of max-min for no ``weights``.

    None where users are few or capacities many, where no user has a limit on tasks that are worth different levels on
    different servers, and where the steps do not succeed.
    """
    if units.limit_use is None or units.demands.n_users < MANY or units.usable.size > FEW:
        return None
    first = _of_sample(units, weights, alpha)
    if first is None or not first[0].any():
        return None
    priced, x = first
    k = int(priced.sum())
    scale = float(x[:k].sum())  # of prices, which is free where users share a level

    def at(x: Float) -> tuple[Held, Float]:
        """Responses, and by how much they exceed each capacity that has a price."""
        prices = np.zeros(priced.shape)
        prices[priced], level = np.exp(x[:k]), 1.0 if weights is not None else float(np.exp(x[k]))
        parts = responses(units, prices, level, weights, alpha)
        over = units.demands.all_loads(parts)[priced] / units.usable[priced] - 1.0
        return Held(parts, prices, level), over if weights is not None else np.append(over, x[:k].sum() - scale)

    return _averaged(at, *_near(at, x, units.demands.n_users), k, units.demands.n_users)


At = Callable[[Float], tuple[Held, Float]]


def _near(at: At, x: Float, n_users: int) -> tuple[Float, Float, Float]:
    """Numbers at which capacities are met but for few users, the excess there, and derivatives."""
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
        step *= min(1.0, FARTHEST / max(float(abs(step).max()), 1e-300))
        x = x + step
        after = at(x)[1]
        if abs(over).max() > MORE / n_users:  # else single users say nothing of others
            slopes += np.outer(after - over - slopes @ step, step) / (step @ step)
        over = after
        worse += 1
        if abs(over).max() < abs(least).max():
            best, least, worse = x, over, 0
    return best, least, slopes


def _averaged(at: At, x: Float, over: Float, slopes: Float, k: int, n_users: int) -> tuple[Float, Float] | None:
    """An average of responses around x that meets all k capacities, and the same average of prices.

    Responses at the corners of a simplex around what is aimed at; where they do not surround it, once more by what they
    say of where it is.
    """
    size = max(AROUND, MORE / n_users, 2.0 * float(abs(over).max()))
    found: list[tuple[Held, Float]] = []
    for _ in range(ROUNDS):
        corners = size * np.vstack([np.eye(k), -np.ones(k)])
        places = []
        for corner in corners:
            aim = np.zeros(len(x))
            aim[:k] = corner
            places.append(x + _solved(slopes, aim - over))
            if not np.isfinite(places[-1]).all():
                return None
            found.append(at(places[-1]))
        system = np.vstack([np.array([excess[:k] / size for _, excess in found]).T, np.ones(len(found))])
        factors, missed = optimize.nnls(system, np.append(np.zeros(k), 1.0))
        if missed * size <= MET:
            parts, prices = np.zeros_like(found[0][0].parts), np.zeros_like(found[0][0].prices)
            for factor, (held, _) in zip(factors / factors.sum(), found, strict=True):
                if factor > 0:
                    parts += factor * held.parts
                    prices += factor * held.prices
            return parts, prices
        last = system[:, -k - 1 :]  # these alone, in any proportions
        x, over = _solved(last, np.append(np.zeros(k), 1.0)) @ np.array(places), np.zeros(len(x))
        size *= 2.0
    return None


def _solved(slopes: Float, right: Float) -> Float:
    """The step that changes excesses so; NaN where there is none."""
    try:
        return np.asarray(np.linalg.solve(slopes, right), dtype=float)
    except np.linalg.LinAlgError:
        return np.full(len(right), np.nan)


def responses(units: LevelUnits, prices: Float, level: float, weights: Float | None, alpha: float) -> Float:
    """What users hold at prices on the one or two servers where they end, to whom levels are worth ``weights`` or who
    want the ``level``; of shape (n_users, n_servers).
    """
    demands, takes = units.demands, units.limit_use
    assert takes is not None
    out = by_pair(demands.n_users, demands.n_servers)
    for users in demands.chunks():
        found = units.along_hull(prices, level, users, weights, alpha)
        wanted = level if weights is None else (weights[users] / found.marginal) ** (1.0 / alpha)
        wanted = np.minimum(wanted, units.reach[users])
        first = np.zeros_like(wanted)
        row = np.flatnonzero(found.previous != found.server)
        less, more = takes[users][row, found.server[row]], takes[users][row, found.previous[row]]
        first[row] = np.clip((1.0 - less * wanted[row]) / (more - less), 0.0, wanted[row])
        for s in range(demands.n_servers):
            out[users, s] = np.where(found.server == s, wanted - first, np.where(found.previous == s, first, 0.0))
    return out


def _of_sample(units: LevelUnits, weights: Float | None, alpha: float) -> tuple[Bool, Float] | None:
    """Capacities that have a price, and logarithms of these prices and of the level that users share, by a sample."""
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
    for _ in range(ENOUGH):
        if point.done(ROUGH, np.inf):
            break
        if not point.step():
            return None
    earned = point.prices * units.usable
    priced = units.needed & (earned > UNPRICED * earned.sum())
    found = np.log(point.prices[priced])
    return priced, found if weights is not None else np.append(found, np.log(point.levels))
