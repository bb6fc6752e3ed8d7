"""Leximin on several servers and under further constraints: the gap of every level by its prices (Bound 5.8).

On a convex set leximin is max-min fairness (Radunović and Le Boudec 2007): a user has more only if a user with no more
than it has less. At prices p the capacities are worth at least the cost of all levels at the users' cheapest servers.
So if all users keep their floors ``f_j = min(z_j, max(low_j, h))``, their levels up to the one h that p fixes,

    y_j  <=  f_j + slack / v_j,   slack = p'u - sum_j v_j f_j   (plus t_e slack_e of earlier levels e),

with v_j the cost of a unit of user j's level at its cheapest server and u the usable capacities.

Small possible rises do not imply that levels are near those of leximin: with demands that are traces, the last 1e-10 of
a level can be worth half of a later one. So two more quantities are measured. By complementary slackness users hold
nothing at a positive reduced cost (users above the level: at a positive cost); the part of a level held there counts as
a gap. Such pairs are closed for later levels: multiples of the earlier level's prices, and of its slack, are added to
later ones. And the part of each capacity that earlier users could take from later ones, by rising as far as is left
open, counts as displaced.

Floats: slack is a sum of nonnegative terms, since the difference of two equal values of 1 leaves 1e-16 where a later
user pays 1e-17. Terms below `EQUAL` of their capacity or cost are 0. What rounding hides even so may be all that a
later level has: `moved_by_rounding` follows it from level to level (Bound 5.18, docs/methods/servers.md), and where
that is too much, levels are solved in fractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from math import fsum
from typing import NamedTuple

import numpy as np

from fairopt.blocks.model import Point
from fairopt.proof.conic import CANCELLED, ConicConditions
from fairopt.proof.dual import Dual
from fairopt.proof.lagrangian import Multipliers
from fairopt.proof.proposal import MOVED
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import GAP_TOLERANCE, TERM_ROUNDING, TINY, VIOLATION_TOLERANCE
from fairopt.solve.form.program import Program

SLICE = GAP_TOLERANCE / VIOLATION_TOLERANCE  # a tolerated gap per tolerated part of a capacity: 1e-9 of it are 1e-6
ABOVE = 1e-9  # relative: users that far above a level are not at it
TIE = 1e-7  # relative: costs that near may be equal, since interior point methods leave 1e-8 between them
EQUAL = 1e-14  # relative: equal sums, and equal costs at polished prices
ONE_ROUNDING = 2.5e-16  # relative
FEW_ROUNDINGS = 100.0  # roundings of a sum: users who pay less are charged one rounding
GIVEN_LOWER = "levels above the first are the largest given the lower ones as returned"
ROUNDED = 1e-15  # relative: what rounding of demands, shares and sums may leave of a full capacity
COUNTED = 3000  # pairs times levels up to which rounding counts as a gap: beyond, no exact program can decide
DECIDED = 500  # pairs times levels up to which the worst case counts: exact programs then take up to 0.1 s
TRACE = 1e-7  # the part of a user's level on a pair that is neglected


class LevelCosts(NamedTuple):
    """A level's dual solution evaluated at the point.

    ``further`` says whether constraints besides capacities have costs. ``pair_cost`` (n_pairs,) is the cost of a unit
    of level, ``cost`` (n_users,) its minimum for each user, and ``reduced_cost`` (n_pairs,) the difference. ``closed``
    are pairs that earlier levels closed; ``multiples`` of their prices are added. ``floors`` (n_users,) cost the value
    of capacities less ``slack``, up to a ``rounding``; ``level`` is the level that is fixed. ``cost_size`` (n_pairs,)
    is the size of a cost's terms, which may cancel under further constraints.
    """

    solution: Dual
    further: bool
    pair_cost: Float
    cost: Float
    reduced_cost: Float
    closed: Bool
    slack: float
    rounding: float
    level: float
    floors: Float
    cost_size: Float
    multiples: Sequence[float]


def judge_levels(
    program: Program, duals: Sequence[Dual], further: ConicConditions | None, tasks: Float
) -> tuple[float, tuple[float, ...], str]:
    """The largest gap of any level of a `Leximin`, the gap of each level, and what these assume."""
    levels = LevelsAtPrices(program, further, tasks)
    gap, gaps = levels.judge(duals)
    assumed = [] if further is None or not further.assumed else [further.assumed]
    size, moved = len(program.pairs) * len(duals), 0.0
    if further is None or not further.curved:
        by_rounding = levels.moved_by_rounding(further is None and size <= DECIDED)
        if size <= COUNTED:
            gaps = tuple(np.maximum(gaps, by_rounding[:-1]).tolist())
            gap = float(np.nan_to_num(np.max([gap, *by_rounding]), nan=np.inf))
        else:
            moved = max(by_rounding)
        if further is not None:
            moved = max(levels.moved_by_rounding(True))
    # later levels change with the square root of a lower level's slack, or by jumps where ties are not decided
    if levels.given_lower.any() or levels.has_undecided_ties():
        assumed.append(GIVEN_LOWER)
    elif not moved <= GAP_TOLERANCE:
        assumed.append(f"{GIVEN_LOWER}, {moved_by(moved)}")
    return gap, gaps, "; ".join(assumed)


def moved_by(moved: float) -> str:
    """What a certificate says of levels that lower ones, within what they may be wrong by, may move by a part."""
    return f"{MOVED} by {moved:.0e} of their size"


def has_undecided_ties(program: Program, per_task: Float, tasks: Float, lower: Bool) -> bool:
    """Whether a user below others is at its limit, and the level of a task differs by rounding between servers.

    Floats do not tell which of them raises it, at the cost of users above it, unless its tasks need the same there.
    ``per_task`` and ``tasks`` are by pair, ``lower`` by user.
    """
    pairs, demands = program.pairs, program.instance.per_server_demands
    user, server = pairs.user, pairs.server
    full = lower & (pairs.sum(tasks) >= program.high * (1 - ABOVE))
    tied = full[user] & (per_task >= -pairs.min(-per_task)[user] * (1 - EQUAL)) & ~program.zero_pairs
    one, other = np.flatnonzero(tied)[:-1], np.flatnonzero(tied)[1:]
    alike = (demands[user[one], server[one]] == demands[user[other], server[other]]).all(axis=1)
    alike &= per_task[one] == per_task[other]
    return bool(((user[one] == user[other]) & ~alike).any())


def self_contained_duals(
    program: Program, duals: Sequence[Dual], further: ConicConditions | None, tasks: Float
) -> list[Dual]:
    """Dual solutions that need no earlier ones: multiples of the prices of earlier levels are added."""
    levels, out = LevelsAtPrices(program, further, tasks), list[Dual]()
    for solution in duals:
        check()
        c = levels.evaluate(solution)
        levels.keep(c)
        prices, dual = np.maximum(c.solution.prices, 0.0), c.solution.in_cone
        for times, earlier in zip(c.multiples, out, strict=True):
            prices = prices + times * earlier.prices
            if earlier.in_cone is not None and times > 0:
                dual = times * earlier.in_cone + (0.0 if dual is None else dual)
        out.append(replace(c.solution, prices=prices, in_cone=dual))
    return out


def largest_rise(program: Program, further: ConicConditions | None, tasks: Float, solution: Dual) -> float:
    """A bound on the relative rise of a level's users, by its prices alone; infinite if there is none."""
    levels = LevelsAtPrices(program, further, tasks)
    c = levels.evaluate(solution)
    costs = (np.maximum(c.cost, 0.0) * c.floors)[solution.fixed].sum()
    return float(c.slack / costs) if costs > 0 and c.slack == c.slack else np.inf


def further_charges(further: ConicConditions | None, solution: Dual) -> Multipliers | None:
    """The multipliers of further constraints in a level's dual solution; None if there are none."""
    if further is None or solution.in_cone is None or solution.sizes is None:
        return None
    return further.charges(solution.in_cone, solution.sizes, len(solution.prices))


def exact_sums(needs: sp.csc_array, tasks: Float) -> Float:
    """Loads of rows by tasks of pairs, each sum rounded once.

    One after another, 4,000 terms lost 1.4e-14 of a full row, above `EQUAL`, which the fifth level paid for with 1.5.
    """
    held = np.flatnonzero(tasks)
    by_row = needs[:, held].tocsr()
    terms = by_row.data * tasks[held][by_row.indices]
    return np.array([fsum(terms[i:j].tolist()) for i, j in pairwise(by_row.indptr.tolist())])


class LevelsAtPrices:
    """The levels of a leximin's users at tasks: shares per weight, in units of about the max-min level.

    ``per_task`` and ``pair_levels`` (n_pairs,) are the level of one task and of all tasks of a pair; ``values``
    (n_users,) are users' levels. ``judged`` are the levels judged so far, and ``closed`` (n_pairs,) the pairs that
    these close. ``fixed_at`` (n_users,) is the index in ``judged`` of the level that fixes a user, or -1, and
    ``to_level`` how far the user is below it. ``low`` and ``limits`` (n_users,) are levels at the bounds (limits are
    infinite if a task's level differs by server), ``most`` levels that no user can exceed. ``given_lower`` (n_users,)
    are users whose levels curved constraints bound only given the lower ones.
    """

    def __init__(self, program: Program, further: ConicConditions | None, tasks: Float) -> None:
        share, instance = program.term.share, program.instance
        assert program.term.is_order
        self.program, self.further, self.pairs, self.user = program, further, program.pairs, program.pairs.user
        c = share.coefficients(instance)
        self.by_server = c.ndim == 2
        per_user = instance.weights * Point(instance, np.zeros((0, 0))).level(share)
        self.per_task = self.pairs.of(c) / per_user[self.user]  # c_js / (w_j level)
        if not self.by_server:
            per = c / per_user
            self.low, self.most, self.limits = program.low * per, program.most * per, program.high * per
        else:
            # a share that differs by server has no level at a bound on tasks: most on the best, and within what fits
            # alone
            best = np.where(instance.eligible, c, 0.0).max(axis=1) / per_user
            alone = np.where(instance.eligible, c * instance.derived.tasks_alone_within(program.usable), 0.0).sum(
                axis=1
            )
            self.most = np.minimum(best * program.most, alone / per_user)
            self.low, self.limits = np.zeros(len(best)), np.full(len(best), np.inf)
        self.pair_levels = tasks * self.per_task
        self.values = self.pairs.sum(self.pair_levels)
        check()
        self.needs = self.pairs.loads_by_pair
        self.used = exact_sums(self.needs, tasks)
        self.judged: list[LevelCosts] = []
        self.closed = np.zeros(len(self.user), dtype=bool)
        self.fixed_at, self.to_level = np.full(len(self.low), -1), np.zeros(len(self.low))
        self.given_lower = np.zeros(len(self.low), dtype=bool)

    def keep(self, c: LevelCosts) -> None:
        """Add a level to those judged; later ones do not use the pairs that it closes."""
        self.judged.append(c)
        self.closed = self.closed | (c.reduced_cost > 0)

    def judge(self, duals: Sequence[Dual]) -> tuple[float, tuple[float, ...]]:
        """See `judge_levels`."""
        values = self.values
        excess = np.where(self.program.most > 0, np.minimum(self.limits, self.most) / values - 1.0, 0.0)
        excess = np.maximum(excess, 0.0)
        gaps, by_prices = list[float](), np.full(len(values), np.inf)
        for solution in duals:  # in the order in which users were fixed
            check()
            c = self.evaluate(solution)
            mine = c.solution.fixed
            slack = c.slack + np.where(c.cost * c.floors <= FEW_ROUNDINGS * c.rounding, c.rounding, 0.0)
            rise = np.maximum((c.floors + slack / c.cost) / values - 1.0, 0.0)
            proved = np.flatnonzero(self.at_proved_level(c, rise) & (rise > 0))
            rise[proved] = np.minimum(rise[proved], self.remaining_part(c, slack[proved], proved) * SLICE)
            lower, at_level = values < c.level * (1 - ABOVE), mine[values[mine] >= c.level * (1 - ABOVE)]
            # before this level's own bounds are known, by users below it, who have had theirs
            displaced = self.displaced(np.where(lower & ~self.given_lower, excess, 0.0))
            spent = (np.maximum(c.cost, 0.0) * c.floors)[at_level].sum()  # all could rise by slack / spent
            to_level = c.level / values - 1.0
            excess[mine] = np.minimum(excess, np.maximum(rise, to_level))[mine]
            by_prices[mine] = np.minimum(by_prices, rise)[mine]
            self.fixed_at[mine], self.to_level[mine] = len(self.judged), np.maximum(to_level, 0.0)[mine]
            beyond = np.maximum(values - c.floors, 0.0)  # users above the level should have no costs
            costly = np.where((c.cost * beyond > c.rounding) & (c.cost > self.cancelled_costs(c)), beyond, 0.0)
            closed = np.flatnonzero((c.reduced_cost > 0) & (self.pair_levels > 0))
            costly = np.maximum(costly, np.bincount(self.user[closed], self.pair_levels[closed], len(values)))
            at_reduced_cost = np.max(costly / values, initial=0.0, where=values > 0)
            further = self.displaced_further(c, excess, lower)
            gaps.append(float(np.max([*excess[mine], c.slack / spent, displaced, at_reduced_cost, further])))
            self.keep(c)
        on_worse = np.where(by_prices <= GAP_TOLERANCE, 0.0, self.held_on_worse_servers())
        gap = float(np.max([0.0, *gaps, *excess, *on_worse]))  # a NaN stays NaN
        return gap if np.isfinite(gap) else np.inf, tuple(gaps)

    def moved_by_rounding(self, worst_case: bool) -> list[float]:
        """How far rounding may move each level judged, relative to it, with what it leaves to later ones (Bound 5.18).

        Users of earlier levels may have taken, or left, what rounding hides, or what breaks rows within tolerances. A
        later level may fall by the part of the capacities that these could take from it, and rise by what they, or
        others at its own level, may fall, at its prices. If that is not to be the ``worst_case``, users of a level
        fall by what they lose themselves, not by the most that one of them loses, and rise on open pairs.

        Under further rows a user u of an earlier level moves by as much as that level, and level k by ``cost_u z_u /
        (cost_k z_k)`` times as much: beside coefficients of 1e9, the last digit of a level may be 5 times a later one.
        """
        pairs, user, z, n = self.pairs, self.user, self.values, len(self.values)
        needs, usable, left = self.all_rows()
        pair, row = np.repeat(np.arange(len(user)), np.diff(needs.indptr)), needs.indices
        tasks = self.pair_levels / self.per_task
        rounded = ROUNDED if worst_case else ONE_ROUNDING
        most_rise = np.divide(np.minimum(self.limits, self.most), z, out=np.ones(n), where=z > 0) - 1.0
        most_rise, fixed = np.maximum(most_rise, 0.0), np.zeros(n, dtype=bool)
        # of each user; of each capacity, by users of earlier levels; and the pairs that these have not closed
        fall, taken, is_open = np.zeros(n), np.zeros(len(usable)), np.ones(len(user), dtype=bool)
        out, of_limits = list[float](), [0.0]
        for c, is_level in self.steps(most_rise <= GAP_TOLERANCE, worst_case and self.further is None):
            check()
            mine, costs = c.solution.fixed, np.maximum(c.cost, 0.0)
            need, used = rounded * usable + taken - left, needs @ np.where(fixed[user], 0.0, tasks)
            over = np.maximum(self.passed_on(need, used == 0, len(out) + 1) if worst_case else need, 0.0)
            part = np.minimum(np.divide(over, used, out=np.zeros(len(used)), where=used > 0), 1.0)
            of_pair = np.zeros(len(user))
            np.maximum.at(of_pair, pair, part[row])
            lost = np.divide(pairs.sum(of_pair * self.pair_levels), z, out=np.zeros(n), where=z > 0)
            lowest = self.lowest_part(c.level, lost, ~fixed & (z > 0))
            fall[~fixed] = lowest
            spent = np.where(costs > 0, costs * c.floors, 0.0)
            # slack is below 0 where tasks break further rows; above 0 it lets users who cost nothing rise to their most
            money = TINY + abs(c.slack) + rounded * spent.sum()
            # as users fall, others at their level may have what they no longer pay; if not all at once, each by its own
            money += float((spent * (fall if worst_case else np.where(fixed, fall, lost))).sum())
            each = np.divide(1.0, costs * z, out=np.full(n, np.inf), where=costs * z > 0)
            rise = np.minimum(money * each, most_rise)
            of_rounding = np.minimum((money - max(c.slack, 0.0)) * each, most_rise)  # `judge` counts the slack
            moved = float(np.max(of_rounding[mine], initial=lowest))
            (out if is_level else of_limits).append(moved)
            if c.further:  # rows have no part of a capacity to compare with: what moves a level moves later ones
                fall[mine] = np.maximum(fall[mine], moved)
            fixed[mine] = True
            is_open &= ~(c.reduced_cost > 0)
            # what they could take of each capacity: one rises by all the money, or each by its own most
            # where a capacity that they fill alone has no more, they rise elsewhere
            theirs = np.zeros(n, dtype=bool)
            theirs[mine] = True
            some = np.flatnonzero(pairs.of(theirs) & (worst_case | is_open))
            of_some = needs[:, some]
            load = of_some.data / np.repeat(self.per_task[some], np.diff(of_some.indptr))  # of a unit of level
            whose = np.repeat(user[some], np.diff(of_some.indptr))
            best, most = np.zeros(len(usable)), np.zeros(len(usable))
            np.maximum.at(best, of_some.indices, load / costs[whose])
            np.add.at(most, of_some.indices, load * (rise * z)[whose])
            taken += np.minimum(money * best, most)
        return [*out, max(of_limits)]

    def steps(self, at_limit: Bool, one_by_one: bool) -> Iterator[tuple[LevelCosts, bool]]:
        """The levels judged, and as steps without costs the users ``at_limit`` that none of them fixes, by level.

        Of those between two levels each takes what it lacks from the next ones, which matters to the last digits only
        if they are taken ``one_by_one``.
        """
        for c in self.judged:
            at_limit[c.solution.fixed[self.values[c.solution.fixed] >= c.level * (1 - ABOVE)]] = False
        users = np.flatnonzero(at_limit)
        users = users[np.argsort(self.values[users], kind="stable")]
        values, p, n = self.values[users], np.zeros(len(self.user)), np.zeros(len(self.values))
        start = 0
        ends = [*np.searchsorted(values, [c.level for c in self.judged]).tolist(), len(users)]
        for k, end in enumerate(ends):
            for stop in range(start + 1, end + 1) if one_by_one else {start, end} - {start}:
                of_limits = Dual(np.zeros(len(self.used)), fixed=users[start:stop])
                yield LevelCosts(of_limits, False, p, n, p, p > 0, 0.0, 0.0, values[stop - 1], n, p, ()), False
                start = stop
            if k < len(self.judged):
                yield self.judged[k], True

    def passed_on(self, need: Float, alone: Bool, times: int) -> Float:
        """What is to be made room for on each row, below 0 where there is room, if earlier users run elsewhere where
        they exceed rows that they fill ``alone``, level by level (Proposition 15.4).

        A unit of a row takes of a row of another server what it takes of the user with most if each keeps its level.
        What several rows pass on adds up. Moves may lead back to a server, where they exceed another resource: without
        these, one of 300 chains of users had a later level 1e-4 too high.
        """
        m, resources = len(self.used), self.program.instance.n_resources
        out, alone = need.copy(), alone[:m]
        pair, row = np.repeat(np.arange(len(self.user)), np.diff(self.needs.indptr)), self.needs.indices
        load, ratio = np.zeros((len(self.values), m)), np.zeros((m, m))  # of a unit of level; of a unit of a row
        load[self.user[pair], row] = np.where(self.program.zero_pairs[pair], 0.0, self.needs.data / self.per_task[pair])
        by_row = sp.csr_array(self.needs)
        for r in np.flatnonzero(alone):
            there = by_row.indices[slice(*by_row.indptr[r : r + 2])]
            users, server = self.user[there[self.pair_levels[there] > 0]], r // resources * resources
            ratio[r] = np.max(load[users] / load[users, r, None], axis=0, initial=0.0)
            ratio[r, server : server + resources] = 0.0
        exceeds = passed = np.where(alone, np.maximum(out[:m], 0.0), 0.0)
        for _ in range(times):
            out[:m] = np.minimum(out[:m] + passed @ ratio, np.maximum(self.program.usable_rows, out[:m]))
            exceeds, before = np.where(alone, np.maximum(out[:m], 0.0), 0.0), exceeds
            passed = exceeds - before
        return out

    def all_rows(self) -> tuple[sp.csc_array, Float, Float]:
        """Loads of capacities and sizes of coefficients in further rows, by pair; how much there is, and what is left.

        A further row is in units of its right side or of the sum of its terms' sizes, whose rounding counts.
        """
        tasks, usable = self.pair_levels / self.per_task, self.program.usable_rows
        if self.further is None:
            return self.needs, usable, usable - self.used
        tables, sizes, left = [self.needs], [usable], [usable - self.used]
        for rows in (one.rows for one in self.program.rows.further):
            table = abs(rows.per_task)
            size = np.maximum(np.abs(rows.right), table @ tasks)
            per = np.divide(1.0, size, out=np.zeros(len(size)), where=size > 0)
            tables.append(sp.csc_array(sp.diags_array(per) @ table))
            sizes.append((size > 0).astype(float))
            under = (rows.right - rows.per_task @ tasks) * per
            left.append(-np.abs(under) if rows.equal else under)
        return sp.csc_array(sp.vstack(tables)), np.concatenate(sizes), np.concatenate(left)

    def lowest_part(self, level: float, lost: Float, later: Bool) -> float:
        """The part by which a level may fall if later users lose parts of theirs; who comes down to it falls alike."""
        lowest = 0.0
        while True:
            near = later & (self.values * (1 - lost) <= level * (1 - lowest))
            parts = 1 - (self.values * (1 - lost))[near] / np.minimum(self.values[near], level)
            if not np.max(parts, initial=0.0) > lowest:
                return lowest
            lowest = float(parts.max())

    @cached_property
    def most_per_task(self) -> Float:
        """The level of a task where it is highest for the user, shape (n_pairs,)."""
        return -self.pairs.min(np.where(self.program.zero_pairs, 0.0, -self.per_task))[self.user]

    def held_on_worse_servers(self) -> Float:
        """The part of each user's level where a task gives less of it than on another server, shape (n_users,).

        A user that only its task limit bounds has none at an optimum: the multiplier of the limit is its only cost.
        Moving the part may raise it by less than any tolerance, and take much from users above it.
        """
        if not self.by_server:
            return np.zeros(len(self.values))
        highest = self.values * (1 + ABOVE) >= self.values.max(initial=0.0)
        worse = self.per_task < self.most_per_task * (1 - np.where(highest, TIE, EQUAL))[self.user]
        held = self.pairs.sum(np.where(worse, self.pair_levels, 0.0))
        return np.divide(held, self.values, out=np.zeros(len(held)), where=self.values > 0)

    def has_undecided_ties(self) -> bool:
        """As `has_undecided_ties`, of the users' levels."""
        if not self.by_server:
            return False
        lower = (self.values > 0) & (self.values * (1 + ABOVE) < self.values.max(initial=0.0))
        return has_undecided_ties(self.program, self.per_task, self.pair_levels / self.per_task, lower)

    def cancelled_costs(self, c: LevelCosts) -> Float:
        """What rounding leaves of costs that cancel, such as those of users above a level under curved constraints."""
        if not (self.further and self.further.curved):
            return np.zeros(len(self.values))
        most = np.zeros(len(self.values))
        np.maximum.at(most, self.user, np.where(self.pair_levels > 0, c.cost_size, 0.0))
        return CANCELLED * most

    def displaced_further(self, c: LevelCosts, excess: Float, lower: Bool) -> float:
        """The part of its level that users of lower levels could take by rising by an excess, under constraints besides
        capacities, where `displaced` measures nothing.
        """
        earlier = lower & (c.cost > 0)
        if not c.further or not earlier.any():
            return 0.0
        mine = c.solution.fixed
        self.given_lower[mine] = self.further is not None and self.further.curved
        at_level = mine[self.values[mine] >= c.level * (1 - ABOVE)]
        cost = (c.cost * self.values * excess)[earlier].sum()
        return float(np.max(cost / (c.cost * self.values)[at_level], initial=0.0))

    def evaluate(self, solution: Dual, tie: float | None = None) -> LevelCosts:
        """The costs of users' levels at a level's dual solution, with the earlier ones that close pairs."""
        program, pairs, prices = self.program, self.pairs, np.maximum(solution.prices, 0.0)
        further = further_charges(self.further, solution)
        pair_cost = size = np.asarray(self.needs.T @ prices).ravel()
        if further is not None and further.size is not None:
            pair_cost, size = pair_cost + further.pair_cost, size + further.size
        value = float(prices @ program.usable_rows) + (0.0 if further is None else further.constant)
        terms = float(prices @ program.usable_rows) + (0.0 if further is None else further.constant_size)  # may cancel
        exact = False
        curved = self.further if self.further is not None and self.further.curved else None
        if curved and solution.in_cone is not None and solution.sizes is not None:
            given = solution.in_cone, solution.sizes, prices, pairs.loads, program.usable_rows
            pair_cost, value = curved.exact_charges(*given)
            exact, terms = True, 0.0  # each sum is rounded once
        pair_cost = np.where(program.zero_pairs, np.inf, pair_cost / self.per_task)
        closed = self.closed
        cost = pairs.min(np.where(closed, np.inf, pair_cost) if self.judged else pair_cost)
        if self.judged and np.isinf(cost).any():
            cost = np.where(np.isinf(cost), pairs.min(pair_cost), cost)  # or all pairs of a user are closed
        mine = self.values[solution.fixed]  # the highest level above a lower bound
        level = float(mine[mine > self.low[solution.fixed] * (1 + ABOVE)].max(initial=0.0))
        # at least the previous one: pairs are closed only while the floors of earlier levels are kept
        level = max(level, self.judged[-1].level if self.judged else 0.0)
        floors = np.minimum(self.values, np.maximum(self.low, level))
        # a level of 0 costs nothing, even at an infinite cost; a negative cost counts at the user's highest level
        paid = np.where(cost < 0, cost * self.most, np.where(floors > 0, cost * floors, 0.0))
        cheapest = pairs.of(np.maximum(cost, 0.0))
        cost_size = cheapest if further is None else np.maximum(cheapest, size / self.per_task)  # costs may cancel
        terms = max(terms, abs(value), float(np.abs(paid).sum()))
        if further is None:  # a sum of nonnegative terms, since a difference would be lost in rounding
            idle = program.usable_rows - self.used
            held = np.flatnonzero(self.pair_levels > 0)
            beyond = pair_cost[held] - cost[self.user[held]]
            slack = float(prices @ np.where(idle > EQUAL / 2 * program.usable_rows, idle, 0.0))
            slack += float(np.where(beyond > EQUAL / 2 * cost_size[held], beyond, 0.0) @ self.pair_levels[held])
            slack += float((np.where(self.values > 0, cost * self.values, 0.0) - paid).sum())
        else:  # points satisfy further constraints only up to a tolerance
            slack = float(value - paid.sum())
            if curved:  # large multiples of earlier levels may prove this one
                slack = max(slack, 0.0) + (2 * ONE_ROUNDING if exact else TERM_ROUNDING) * terms
            else:
                slack += TERM_ROUNDING * terms
                if np.isfinite(value) and slack <= EQUAL * abs(value):
                    slack = 0.0
        rounding = EQUAL * terms
        short = np.flatnonzero(closed)
        shortfall = cost[self.user[short]] - pair_cost[short]
        short, shortfall = short[shortfall > 0], shortfall[shortfall > 0]
        multiples = []
        for earlier in self.judged:  # until no closed pair is cheaper than the open ones
            reduced = earlier.reduced_cost[short]
            times = float(np.max(shortfall[reduced > 0] / reduced[reduced > 0], initial=0.0))
            multiples.append(times)
            slack = slack + (times * earlier.slack if times > 0 else 0.0)
            short, shortfall = short[~(reduced > 0)], shortfall[~(reduced > 0)]
        if tie is None:  # closed pairs matter only to users above the level; prices of curved constraints are inexact
            alone = not (self.values > floors * (1 + ABOVE)).any()
            tie = TIE if alone or curved else EQUAL
        more_costly = (pair_cost > cheapest + tie * cost_size) & ~closed & ~program.zero_pairs
        reduced_cost = np.where(more_costly, pair_cost - cheapest, 0.0)
        charged = further is not None and bool(np.any(further.pair_cost))
        return LevelCosts(
            solution,
            charged,
            pair_cost,
            cost,
            reduced_cost,
            closed,
            slack,
            rounding,
            level,
            floors,
            cost_size,
            multiples,
        )

    def at_proved_level(self, c: LevelCosts, rise: Float) -> Bool:
        """Users at the level of others whom the same prices provably fix: all of them need the same full resources."""
        mine, values = c.solution.fixed, self.values
        proved = mine[(rise[mine] <= GAP_TOLERANCE) & (values[mine] > self.low[mine] * (1 + ABOVE))]
        level = float(values[proved].max()) if len(proved) else np.nan  # NaN compares as false
        return np.abs(values - level) <= GAP_TOLERANCE * level

    def displaced(self, excess: Float) -> float:
        """The largest part of later users' load on a capacity that earlier users could take by rising by an excess.

        If that is above the tolerance, it is measured again within what they can pay for together.
        """
        if not excess.any():
            return 0.0
        rises = np.flatnonzero(self.pairs.of(excess > 0) & ~self.closed)
        rise = (excess * self.values)[self.user[rises]] / self.per_task[rises]
        left = np.maximum(self.program.usable_rows - self.used, 0.0)
        later = self.pairs.of(excess == 0) & (self.pair_levels > TRACE * self.pairs.of(self.values))
        used = self.needs @ np.where(later, self.pair_levels / self.per_task, 0.0)
        loads = self.needs[:, rises]
        loads.data *= np.repeat(rise, np.diff(loads.indptr))
        over = np.bincount(loads.indices, loads.data, len(left)) - left
        if self.further is None and len(rows := np.flatnonzero(over > GAP_TOLERANCE * used)):
            by_row = loads.tocsr()
            for row in rows.tolist():
                there = slice(*by_row.indptr[row : row + 2])
                users = self.user[rises[by_row.indices[there]]]
                over[row] = self.affordable(by_row.data[there], users, excess) - left[row]
        return float(np.max(np.maximum(over, 0.0) / used, initial=0.0, where=used > 0))

    def affordable(self, load: Float, users: Indices, excess: Float) -> float:
        """The most of a capacity that users can take within the slack of each level, as a knapsack.

        ``load`` is what each of the ``users`` takes by rising by its whole ``excess``. The users of a level together
        pay at most its slack at its prices. Those with most load per cost rise first. Rising up to the level itself is
        free.
        """
        load, users = load[load > 0], users[load > 0]
        free = np.minimum(self.to_level[users] / excess[users], 1.0)
        total = float((load * free).sum())
        load = load * (1.0 - free)
        by_level = self.fixed_at[users]
        total += float(load[by_level < 0].sum())
        for k in sorted({*by_level.tolist()} - {-1}):
            c, held = self.judged[k], by_level == k
            mine, most = users[held], load[held]
            pays = np.maximum(c.cost[mine], 0.0) * (excess[mine] * self.values[mine]) * (1.0 - free[held])
            order = np.argsort(pays / most)  # the greedy order of a fractional knapsack is optimal
            pays, most = pays[order], most[order]
            before = np.cumsum(pays) - pays  # what those in front have paid
            room = np.maximum(c.slack + c.rounding - before, 0.0)
            total += float((most * np.where(pays > room, room / pays, 1.0)).sum())
        return total

    def remaining_part(self, c: LevelCosts, slack: Float, users: Indices) -> Float:
        """The part of its slice of a needed capacity that each of some users could still get by a slack, (len(users),).

        If a user needs very little of a scarce resource, slack that is negligible for the capacity would raise it far.
        Then the part of the capacity counts, against the tolerance of capacities. Further constraints have no
        capacities to compare with.
        """
        usable, weights = self.program.usable_rows, self.program.instance.weights
        if c.further or not len(users):
            return np.full(len(users), np.inf)
        prices = c.solution.prices
        per_spare = np.where((prices > 0) & (usable > 0), 1.0 / (prices * usable), np.inf)
        some = np.zeros(len(weights), dtype=bool)
        some[users] = True
        pairs = np.flatnonzero(self.pairs.of(some))
        needs, first = self.needs[:, pairs], np.searchsorted(self.user[pairs], users)
        least = np.where(np.isinf(c.pair_cost[pairs]), 0.0, np.inf)
        np.minimum.at(least, np.repeat(np.arange(len(pairs)), np.diff(needs.indptr)), per_spare[needs.indices])
        most = np.maximum.reduceat(least, first)
        return np.where(np.isinf(most), np.inf, slack * most) * (weights.sum() / weights[users])
