"""Leximin on several servers and under further conditions, judged by the prices that hold each user at its level.

On a convex set leximin is max-min fairness: no user can have more unless a user with no more than that has less. At
prices p, capacities are worth no less than what all users hold costs at its cheapest. So if all keep what they have,
cut off at the level of the users that p holds (their floors), none of these can get above its floor more than what is
spare, worth of capacities less cost of floors, over the cost of a unit of its level.

That no user can rise by much does not say yet that levels are near those of leximin: with demands that are traces,
the last 1e-10 of a level can be worth half of a later one. So two things more are measured. At all optima of a level no
user holds anything where that costs more than where it is cheapest (users above the level: where it costs anything).
The part of a user's level that it does hold there counts as bought with what the level leaves; for later levels such
places are shut. And what earlier users could still rise by, at the prices of the later level, counts as taken from it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from fairopt.blocks.model import Point
from fairopt.blocks.objectives import Leximin
from fairopt.certificate import GAP_TOLERANCE, VIOLATION_TOLERANCE
from fairopt.proofs.evidence import Held, Holding
from fairopt.routes.program import Program

__all__ = ["InLevels", "judge"]

Float = NDArray[np.floating[Any]]

ABOVE = 1e-9  # relatively: who is so much above a level rose on from it
# Relatively: costs as near as this are equal. Simplex methods leave 1e-15 between the costs of what they use, interior
# point methods up to 1e-8.
TIE = 1e-7
EXACT = 1e-11  # spare, as a part of the worth of capacities, up to which prices are those of an optimum


class InLevels:
    """A leximin's users in levels: shares per weight, in units of about the max-min level.

    Attributes
    ----------
    per_task : ndarray of shape (n_pairs,)
        Level of a task of each pair.
    low, most, limits : ndarray of shape (n_users,)
        Levels at the lower bounds, that no user can exceed, and at the upper bounds (infinite where a task is worth
        different amounts on different servers: tasks are bounded there, and not levels).
    """

    def __init__(self, program: Program) -> None:
        objective, instance = program.objective, program.instance
        assert isinstance(objective, Leximin)
        c = objective.share.coefficients(instance)
        self.unit = Point(instance, np.zeros((0, 0))).level(objective.share)
        per_user = instance.weights * self.unit
        self.per_task = program.pairs.of(c) / per_user[program.pairs.user]
        if c.ndim == 1:
            per = c / per_user
            self.low, self.most, self.limits = program.low * per, program.most * per, program.high * per
        else:
            best = np.where(instance.eligible, c, 0.0).max(axis=1) / per_user
            alone = np.where(instance.eligible, c * instance.tasks_alone_within(program.usable), 0.0).sum(axis=1)
            self.most = np.minimum(best * program.most, alone / per_user)
            self.low, self.limits = np.zeros(len(best)), np.full(len(best), np.inf)


class _Charged(NamedTuple):
    """A holding at the point: what a unit of level costs by pair and user, what is spare, and the level it holds."""

    holding: Holding
    by_pair: Float
    cost: Float
    worth: float
    spare: float
    peak: float
    floors: Float

    def dearer(self, program: Program) -> NDArray[np.bool_]:
        """Pairs where a unit of level costs more than where it is cheapest."""
        cheapest = np.maximum(self.cost, 0.0)[program.pairs.user]
        return self.by_pair > cheapest * (1 + TIE)


def judge(program: Program, evidence: Held, tasks: Float) -> tuple[float, tuple[float, ...]]:
    """The largest gap of any level, and that of each.

    Parameters
    ----------
    program : Program
        With a `Leximin` objective.
    evidence : Held
        The prices that hold users.
    tasks : ndarray of shape (n_pairs,)
        The final point.

    Returns
    -------
    (float, tuple of float)
    """
    levels, pairs = InLevels(program), program.pairs
    held = tasks * levels.per_task
    values = pairs.sum(held)
    excess = np.where(levels.most > 0, np.minimum(levels.limits, levels.most) / values - 1.0, 0.0)
    excess = np.maximum(excess, 0.0)
    shut = np.asarray(pairs.loads.T @ (program.usable_rows <= 0).astype(float)).ravel() > 0
    gaps = []
    peaks = [_peak(levels, holding, values) for holding in evidence.holdings]
    for k in np.argsort(peaks, kind="stable"):
        c = _charge(program, levels, evidence.holdings[k], values, peaks[k], shut)
        mine = c.holding.users
        least = _room(program, c) * (GAP_TOLERANCE / VIOLATION_TOLERANCE)
        rise = np.maximum(np.minimum((c.floors + c.spare / c.cost) / values - 1.0, least), c.peak / values - 1.0)
        lower, paid = values < c.peak * (1 - ABOVE), np.maximum(c.cost, 0.0)
        taken = np.where(lower & (paid > 0) & (excess > 0), paid * values * excess, 0.0).sum()
        spent = (paid * c.floors)[mine].sum()
        excess[mine] = np.minimum(excess, np.maximum(rise, 0.0))[mine]
        dearer = c.dearer(program)
        bought = np.max(pairs.sum(np.where(dearer, held, 0.0)) / values, initial=0.0, where=values > 0)
        gaps.append(float(np.max([*excess[mine], (c.spare + taken) / spent, bought])))
        if c.spare <= EXACT * c.worth:
            shut |= dearer
    gap = float(np.max([0.0, *gaps, *excess]))  # a NaN stays one
    return gap if np.isfinite(gap) else np.inf, tuple(gaps)


def _peak(levels: InLevels, holding: Holding, values: Float) -> float:
    """The level that a holding holds: the highest of its users who do not stand at a lower bound."""
    mine = values[holding.users]
    return float(mine[mine > levels.low[holding.users] * (1 + ABOVE)].max(initial=0.0))


def _charge(
    program: Program, levels: InLevels, holding: Holding, values: Float, peak: float, shut: NDArray[np.bool_]
) -> _Charged:
    """What the prices of a holding charge users for their levels, where these may be."""
    pairs, prices = program.pairs, np.maximum(holding.prices, 0.0)
    by_pair = np.asarray(pairs.loads.T @ prices).ravel()
    if holding.pair_cost is not None:
        by_pair = by_pair + holding.pair_cost
    by_pair = np.where(shut, np.inf, by_pair / levels.per_task)
    cost = pairs.min(by_pair)
    floors = np.minimum(values, np.maximum(levels.low, peak))
    # who holds nothing pays nothing, whatever it costs; where a level earns something, the highest one bounds that
    paid = np.where(cost < 0, cost * levels.most, np.where(floors > 0, cost * floors, 0.0))
    worth = np.float64(prices @ program.usable_rows + holding.constant)
    return _Charged(holding, by_pair, cost, worth, max(worth - paid.sum(), np.float64(0.0)), peak, floors)


def _room(program: Program, c: _Charged) -> Float:
    """What part of its slice of a capacity that it needs each user could still get, wherever it may run.

    Where a user needs very little of what is scarce, spare that is nothing beside a capacity would take it far: then
    this is what counts, against the tolerance of capacities. Further conditions have no capacities to compare with.
    """
    pairs, usable, weights = program.pairs, program.usable_rows, program.instance.weights
    if c.holding.pair_cost is not None and c.holding.pair_cost.any():
        return np.full(len(weights), np.inf)
    prices = c.holding.prices
    part = np.where((prices > 0) & (usable > 0), c.spare / (prices * usable), np.inf)
    needs = sp.csc_array(pairs.loads)
    least = np.where(np.isinf(c.by_pair), 0.0, np.inf)
    np.minimum.at(least, np.repeat(np.arange(len(pairs)), np.diff(needs.indptr)), part[needs.indices])
    return -pairs.min(-least) * (weights.sum() / weights)
