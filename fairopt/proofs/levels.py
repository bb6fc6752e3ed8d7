"""Leximin on several servers and under further conditions: the gap of every level, by the prices that hold its users.

On a convex set leximin is max-min fairness (Radunović and Le Boudec 2007): no user can have more unless a user with no
more than that has less. At prices p, capacities are worth at least what all users hold costs at its cheapest servers.
So if all users keep their floors, what they have up to the level of the users that p holds, then none of these can rise
above its floor by more than ``spare / cost``: what is spare is the worth of the capacities less the cost of the floors,
and the cost is that of a unit of the user's level.

A small possible rise of each user does not imply yet that levels are near those of leximin: with demands that are
traces, the last 1e-10 of a level can be worth half of a later one. So two more quantities are measured. At all optima
of a level no user holds anything where that costs more than where it is cheapest (users above the level: where it costs
anything). The part of a user's level that it does hold there counts as bought with what the level leaves. For later
levels such places are closed: prices of the earlier level are added to the later ones as often as needed, and with them
what the earlier level left to spare. And the part of each capacity that earlier users would take from later ones, if
they rose by what they could still rise by wherever they may run, counts as taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fairopt.blocks.model import Point
from fairopt.formulation.program import Float, Indices, Mask, Program
from fairopt.proofs.bound import EPS
from fairopt.proofs.conic import ASSUMED, CANCELLED, ConicConditions
from fairopt.proofs.lagrangian import Multipliers
from fairopt.runtime.lazy import sp
from fairopt.tolerances import GAP_TOLERANCE, VIOLATION_TOLERANCE

SLICE = GAP_TOLERANCE / VIOLATION_TOLERANCE  # a tolerated gap per tolerated part of a capacity
ABOVE = 1e-9  # relatively: users so much above a level rose beyond it
TIE = 1e-7  # relatively: costs as near as this may be equal, since interior point methods leave 1e-8 between them
ROUNDING = 1e-14  # relatively: sums as near as this are equal, and costs at prices that were polished
ONCE = 2.5e-16  # relatively: what rounding once leaves
FAINT = 100.0  # roundings of a sum: who pays no more is charged with it
GIVEN_LOWER = "levels above the first are the largest given the lower ones as returned"
TRACE = 1e-7  # the part of its level that a user may hold somewhere and that is neglected


@dataclass(frozen=True)
class Holding:
    """Prices that hold some ``users`` (indices) of a leximin at their level.

    ``prices`` (n_rows,) are by row of `Pairs.loads`, per whole capacity; ``dual`` is a point near the dual cone of the
    further conditions, and ``sizes`` those of the variables that CVXPY added to them (`ConicConditions`).
    """

    users: Indices
    prices: Float
    dual: Float | None = None
    sizes: Float | None = None


class Charged(NamedTuple):
    """A holding at the point.

    ``further`` says whether conditions other than capacities charge anything. ``by_pair`` (n_pairs,) is the cost of a
    unit of level, and ``cost`` (n_users,) the smallest for each user; ``over`` is by how much pairs cost more than
    that, and ``shut`` are pairs closed by earlier levels, multiples of whose prices are ``added`` for that. ``floors``
    (n_users,) cost all but ``spare`` of the capacities' worth, up to a ``rounding``, and ``peak`` is the level that is
    held. ``noise`` (n_pairs,) is what ties are relative to: the terms of a cost, which may cancel under further
    conditions.
    """

    holding: Holding
    further: bool
    by_pair: Float
    cost: Float
    over: Float
    shut: Mask
    spare: float
    rounding: float
    peak: float
    floors: Float
    noise: Float
    added: Sequence[float]


def judge_levels(
    program: Program, holdings: Sequence[Holding], further: ConicConditions | None, tasks: Float
) -> tuple[float, tuple[float, ...], str]:
    """The largest gap of any level of a `Leximin`, the gap of each level, and what these assume."""
    levels = Levels(program, further, tasks)
    gap, gaps = levels.judge(holdings)
    assumed = [ASSUMED] if further is not None and further.on_others.shape[1] else []
    if levels.given_lower.any():  # they hang on lower ones by the square root of a slack
        assumed.append(GIVEN_LOWER)
    return gap, gaps, "; ".join(assumed)


def combined_holdings(
    program: Program, holdings: Sequence[Holding], further: ConicConditions | None, tasks: Float
) -> list[Holding]:
    """Holdings whose prices hold users by themselves: with those of earlier levels that close places added."""
    levels, out = Levels(program, further, tasks), list[Holding]()
    levels.judge(holdings)
    for c in levels.before:
        prices, dual = np.maximum(c.holding.prices, 0.0), c.holding.dual
        for times, earlier in zip(c.added, out, strict=True):
            prices = prices + times * earlier.prices
            if earlier.dual is not None and times > 0:
                dual = times * earlier.dual + (0.0 if dual is None else dual)
        out.append(replace(c.holding, prices=prices, dual=dual))
    return out


def largest_rise(program: Program, further: ConicConditions | None, tasks: Float, holding: Holding) -> float:
    """By how much the users of a holding could rise at most, relatively, by its prices alone; infinite for none."""
    levels = Levels(program, further, tasks)
    c = levels.charge(holding)
    costs = (np.maximum(c.cost, 0.0) * c.floors)[holding.users].sum()
    return float(c.spare / costs) if costs > 0 and c.spare == c.spare else np.inf


def further_charges(further: ConicConditions | None, holding: Holding) -> Multipliers | None:
    """The charges of further conditions at the multipliers of a holding; None where there are none."""
    if further is None or holding.dual is None or holding.sizes is None:
        return None
    return further.charges(holding.dual, holding.sizes, len(holding.prices))


class Levels:
    """A leximin's users at tasks, in levels: shares per weight, in units of about the max-min level.

    ``per_task`` and ``held`` (n_pairs,) are the level of a task of each pair, and of all its tasks; ``values``
    (n_users,) are users' levels. ``held_by`` (n_users,) is the place in ``before`` of what holds a user, or -1, and
    ``to_peak`` by how much the user is below the peak there. ``low``, ``most`` and ``limits`` (n_users,) are levels at
    the lower bounds, levels that no user can exceed, and levels at the upper bounds (infinite where a task is worth
    different amounts on different servers: tasks are bounded there, and not levels). ``before`` are the levels judged
    so far. ``given_lower`` (n_users,) are users whose levels curved conditions bound given lower ones as they are.
    """

    def __init__(self, program: Program, further: ConicConditions | None, tasks: Float) -> None:
        share, instance = program.term.share, program.instance
        assert program.term.is_order
        self.program, self.further, self.pairs, self.user = program, further, program.pairs, program.pairs.user
        c = share.coefficients(instance)
        per_user = instance.weights * Point(instance, np.zeros((0, 0))).level(share)
        self.per_task = self.pairs.of(c) / per_user[self.user]
        if c.ndim == 1:
            per = c / per_user
            self.low, self.most, self.limits = program.low * per, program.most * per, program.high * per
        else:
            best = np.where(instance.eligible, c, 0.0).max(axis=1) / per_user
            alone = np.where(instance.eligible, c * instance._tasks_alone_within(program.usable), 0.0).sum(axis=1)
            self.most = np.minimum(best * program.most, alone / per_user)
            self.low, self.limits = np.zeros(len(best)), np.full(len(best), np.inf)
        self.held = tasks * self.per_task
        self.values = self.pairs.sum(self.held)
        self.used = self.pairs.loads @ tasks
        self.needs = sp.csc_array(self.pairs.loads)
        self.before: list[Charged] = []
        self.held_by, self.to_peak = np.full(len(self.low), -1), np.zeros(len(self.low))
        self.given_lower = np.zeros(len(self.low), dtype=bool)

    def judge(self, holdings: Sequence[Holding]) -> tuple[float, tuple[float, ...]]:
        """See `judge_levels`."""
        values = self.values
        excess = np.where(self.program.most > 0, np.minimum(self.limits, self.most) / values - 1.0, 0.0)
        excess = np.maximum(excess, 0.0)
        gaps: list[float] = []
        for holding in holdings:  # in the order in which users were held
            c = self.charge(holding)
            mine = c.holding.users
            spare = c.spare + np.where(c.cost * c.floors <= FAINT * c.rounding, c.rounding, 0.0)
            rise = np.maximum((c.floors + spare / c.cost) / values - 1.0, 0.0)
            rise = np.where(self.beside(c, rise), np.minimum(rise, self.room(c, spare) * SLICE), rise)
            lower, at_peak = values < c.peak * (1 - ABOVE), mine[values[mine] >= c.peak * (1 - ABOVE)]
            taken = self.taken(np.where(lower & ~self.given_lower, excess, 0.0))
            spent = (np.maximum(c.cost, 0.0) * c.floors)[at_peak].sum()
            to_peak = c.peak / values - 1.0
            excess[mine] = np.minimum(excess, np.maximum(rise, to_peak))[mine]
            self.held_by[mine], self.to_peak[mine] = len(self.before), np.maximum(to_peak, 0.0)[mine]
            beyond = np.maximum(values - c.floors, 0.0)  # users above the level hold nothing that costs anything
            dear = np.where((c.cost * beyond > c.rounding) & (c.cost > self.cancelled(c)), beyond, 0.0)
            dear = np.maximum(dear, self.pairs.sum(np.where(c.over > 0, self.held, 0.0)))
            bought = np.max(dear / values, initial=0.0, where=values > 0)
            gaps.append(float(np.max([*excess[mine], c.spare / spent, taken, bought, self.moved(c, excess, lower)])))
            self.before.append(c)
        gap = float(np.max([0.0, *gaps, *excess]))  # a NaN stays NaN
        return gap if np.isfinite(gap) else np.inf, tuple(gaps)

    def cancelled(self, c: Charged) -> Float:
        """What rounding leaves of costs that cancel, as those of users above a level under curved conditions."""
        if not (self.further and self.further.curved):
            return np.zeros(len(self.values))
        most = np.zeros(len(self.values))
        np.maximum.at(most, self.user, np.where(self.held > 0, c.noise, 0.0))
        return CANCELLED * most

    def moved(self, c: Charged, excess: Float, lower: Mask) -> float:
        """The part of its level that users of lower levels would take by rising by an excess, under conditions besides
        capacities, where `taken` measures nothing.
        """
        earlier = lower & (c.cost > 0)
        if not c.further or not earlier.any():
            return 0.0
        mine = c.holding.users
        self.given_lower[mine] = self.further is not None and self.further.curved
        at_peak = mine[self.values[mine] >= c.peak * (1 - ABOVE)]
        worth = (c.cost * self.values * excess)[earlier].sum()
        return float(np.max(worth / (c.cost * self.values)[at_peak], initial=0.0))

    def charge(self, holding: Holding, tie: float | None = None) -> Charged:
        """The costs of users' levels at the prices of a holding, and at those of earlier ones that close places."""
        program, pairs, prices = self.program, self.pairs, np.maximum(holding.prices, 0.0)
        further = further_charges(self.further, holding)
        by_pair = size = np.asarray(pairs.loads.T @ prices).ravel()
        if further is not None and further.size is not None:
            by_pair, size = by_pair + further.pair_cost, size + further.size
        worth = float(prices @ program.usable_rows) + (0.0 if further is None else further.constant)
        terms = float(prices @ program.usable_rows) + (0.0 if further is None else further.constant_size)  # may cancel
        exact = False
        if self.further is not None and self.further.curved and holding.dual is not None and holding.sizes is not None:
            given = holding.dual, holding.sizes, prices, pairs.loads, program.usable_rows
            by_pair, worth = self.further.exact_charges(*given)
            exact, terms = True, 0.0  # each sum is rounded once
        by_pair = np.where(program.closed_pairs, np.inf, by_pair / self.per_task)
        shut = np.zeros(len(by_pair), dtype=bool)
        for earlier in self.before:
            shut |= earlier.over > 0
        cost = pairs.min(np.where(shut, np.inf, by_pair))
        cost = np.where(np.isinf(cost), pairs.min(by_pair), cost)  # users for whom all places are closed are charged
        mine = self.values[holding.users]  # the level held: the highest one above a lower bound
        peak = float(mine[mine > self.low[holding.users] * (1 + ABOVE)].max(initial=0.0))
        # no lower than an earlier one: what earlier levels closed is closed only while their floors are kept
        peak = max(peak, self.before[-1].peak if self.before else 0.0)
        floors = np.minimum(self.values, np.maximum(self.low, peak))
        # users who hold nothing pay nothing at any cost; where a level earns something, the highest level bounds that
        paid = np.where(cost < 0, cost * self.most, np.where(floors > 0, cost * floors, 0.0))
        cheapest = np.maximum(cost, 0.0)[self.user]
        noise = cheapest if further is None else np.maximum(cheapest, size / self.per_task)  # costs may cancel
        terms = max(terms, abs(worth), float(np.abs(paid).sum()))
        if further is None:  # a sum of terms that are not negative: a difference loses what is below its rounding
            idle = program.usable_rows - self.used
            beyond = np.where(self.held > 0, by_pair - cost[self.user], 0.0)
            spare = float(prices @ np.where(idle > ROUNDING / 2 * program.usable_rows, idle, 0.0))
            spare += float(np.where(beyond > ROUNDING / 2 * noise, beyond, 0.0) @ self.held)
            spare += float((np.where(self.values > 0, cost * self.values, 0.0) - paid).sum())
        else:  # points meet further conditions up to a tolerance only
            spare = float(worth - paid.sum())
            if self.further is not None and self.further.curved:  # large multiples of earlier levels may prove this one
                spare = max(spare, 0.0) + (2 * ONCE if exact else EPS) * terms
            else:
                spare += EPS * terms
                if np.isfinite(worth) and spare <= ROUNDING * abs(worth):
                    spare = 0.0
        rounding = ROUNDING * terms
        missing = np.where(shut, np.maximum(cost[self.user] - by_pair, 0.0), 0.0)
        added = []
        for earlier in self.before:  # added until what an earlier level closed is no cheaper than the rest
            times = np.max(missing / earlier.over, initial=0.0, where=(missing > 0) & (earlier.over > 0))
            added.append(float(times))
            spare = spare + (times * earlier.spare if times > 0 else 0.0)
            missing = np.where(earlier.over > 0, 0.0, missing)
        if tie is None:  # what is closed matters to users above the level alone; prices of curved conditions are near
            alone = not (self.values > floors * (1 + ABOVE)).any()
            tie = TIE if alone or (self.further and self.further.curved) else ROUNDING
        dearer = (by_pair > cheapest + tie * noise) & ~shut & ~program.closed_pairs
        over = np.where(dearer, by_pair - cheapest, 0.0)
        charged = further is not None and bool(further.pair_cost.any())
        return Charged(holding, charged, by_pair, cost, over, shut, spare, rounding, peak, floors, noise, added)

    def beside(self, c: Charged, rise: Float) -> Mask:
        """Users at the level of others whom the same prices provably hold: all of them need the same full resources."""
        mine, values = c.holding.users, self.values
        firm = mine[(rise[mine] <= GAP_TOLERANCE) & (values[mine] > self.low[mine] * (1 + ABOVE))]
        level = float(values[firm].max()) if len(firm) else np.nan  # then the comparison is false for all
        return np.abs(values - level) <= GAP_TOLERANCE * level

    def taken(self, excess: Float) -> float:
        """The largest part of later users' use of a capacity that earlier users would take by rising by an excess.

        Where that is too much, it is measured again within what they can pay for together.
        """
        if not excess.any():
            return 0.0
        program, loads = self.program, self.pairs.loads
        open_to = np.ones(len(self.held), dtype=bool)
        for c in self.before:
            open_to &= ~(c.over > 0)
        rise = np.where(open_to, (excess * self.values)[self.user] / self.per_task, 0.0)
        left = np.maximum(program.usable_rows - loads @ (self.held / self.per_task), 0.0)
        later = (excess == 0)[self.user] & (self.held > TRACE * self.values[self.user])
        used = loads @ np.where(later, self.held / self.per_task, 0.0)
        over = loads @ rise - left
        if self.further is None:
            for row in np.flatnonzero(over > GAP_TOLERANCE * used).tolist():
                over[row] = self.payable(row, excess, rise) - left[row]
        return float(np.max(np.maximum(over, 0.0) / used, initial=0.0, where=used > 0))

    def payable(self, row: int, excess: Float, rise: Float) -> float:
        """The most of a capacity that users who rise by up to an excess take, within what is spare of each level.

        All that a level holds together can pay no more than is spare, at its prices, beyond what they have. So those
        rise who take most for what they pay. What a user lacks of the peak is free.
        """
        needs = sp.csr_array(self.pairs.loads)
        there = slice(*needs.indptr[row : row + 2])
        pairs = needs.indices[there]
        load, users = needs.data[there] * rise[pairs], self.user[pairs]
        load, users = load[load > 0], users[load > 0]
        free = np.minimum(self.to_peak[users] / excess[users], 1.0)
        taken = float((load * free).sum())
        load = load * (1.0 - free)
        by_level = self.held_by[users]
        taken += float(load[by_level < 0].sum())
        for k in np.unique(by_level[by_level >= 0]).tolist():
            c, held = self.before[k], by_level == k
            mine, most = users[held], load[held]
            pays = np.maximum(c.cost[mine], 0.0) * (excess[mine] * self.values[mine]) * (1.0 - free[held])
            order = np.argsort(pays / most)
            pays, most = pays[order], most[order]
            before = np.cumsum(pays) - pays
            room = np.maximum(c.spare + c.rounding - before, 0.0)
            taken += float((most * np.where(pays > room, room / pays, 1.0)).sum())
        return taken

    def room(self, c: Charged, spare: Float) -> Float:
        """The part of its slice of a capacity that it needs which each user could still get anywhere, shape (n_users,).

        Where a user needs very little of a scarce resource, a rest that is negligible beside a capacity would raise it
        far: then the part of the capacity counts, against the tolerance of capacities. Further conditions have no
        capacities to compare with.
        """
        usable, weights = self.program.usable_rows, self.program.instance.weights
        if c.further:
            return np.full(len(weights), np.inf)
        prices = c.holding.prices
        per_spare = np.where((prices > 0) & (usable > 0), 1.0 / (prices * usable), np.inf)
        needs = self.needs
        least = np.where(np.isinf(c.by_pair), 0.0, np.inf)
        np.minimum.at(least, np.repeat(np.arange(len(self.pairs)), np.diff(needs.indptr)), per_spare[needs.indices])
        most = -self.pairs.min(-least)
        return np.where(np.isinf(most), np.inf, spare * most) * (weights.sum() / weights)
