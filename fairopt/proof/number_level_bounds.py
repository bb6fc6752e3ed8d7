"""Leximin of teams, or of what is above a base: the gap of every level by its prices.

On a convex set leximin is max-min fairness (Radunović and Le Boudec 2007): a number ``z_t = sum_p c_p x_p - b_t`` rises
only if one that is no larger per weight falls. At prices of capacities, multipliers of further rows and prices pi_t >=
0 of the numbers, a task of pair p costs k_p, and every feasible x has

    ``sum_t pi_t z_t <= V := y'usable + y'right + sum_j max_x (max_p (pi_t c_p - k_p)) x - sum_t pi_t b_t``.

So if the others keep their floors, up to the level that is fixed, no number t rises above its own by more than ``(V -
sum_u pi_u floor_u) / pi_t``. Numbers whose users all run what they can at most need no level, nor do those that a
single row keeps where they are, such as the volume of a demand: ``a @ x <= b`` with a >= 0 implies ``z_t <= max_p (c_p
/ a_p) b - b_t`` if a_p > 0 wherever c_p > 0.

What the slack of earlier levels could have bought counts too, relative to what the numbers of the level pay: at most
the price of each earlier number times its possible rise, and for all numbers of one earlier level, whose slack only one
of them can have whole, at most the largest of these products. A number near zero is judged in units of the typical
level, or of the most that it can be if that is less. Where it exists above its base only through the 1e-7 that
constraints, such as those that keep earlier tiers, may be missed by, it may rise by as much.

If earlier numbers could, by their possible rises, take more than the tolerance of what later ones use of a capacity,
levels above the first are the largest given the lower ones as returned, and the certificate says that it assumes so,
and how large that part is. An earlier number keeps the pairs that only the prices of later levels make dear: it comes
first. The certificate also says so where floats do not tell on which server a user at its limit gains more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fairopt.proof.bound import rounded_up_sum
from fairopt.proof.dual import Dual
from fairopt.proof.lagrangian import Multipliers
from fairopt.proof.level_bounds import GIVEN_LOWER, SLICE, has_undecided_ties, moved_by
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import BLOCK_TOLERANCE, GAP_TOLERANCE, NOISE, ROUNDING, TERM_ROUNDING
from fairopt.solve.form.program import Program

COST_TIE = 1e-12  # relative: costs that differ by less may be equal, since solvers' prices are rounded
ABOVE = 1e-9  # relative: numbers that far above their lower bound are not at it


class Costs(NamedTuple):
    """What a task of each pair costs at prices, and what its number pays for it, shape (n_pairs,) each.

    ``reduced`` is their difference, rounded down, and ``size`` the sum of all terms in absolute value.
    """

    charged: Multipliers
    paid: Float
    size: Float
    reduced: Float


class ByRows(NamedTuple):
    """What single rows ``a @ x <= right``, a >= 0, imply that numbers are at most, shape (n_numbers,).

    ``place`` is the row among the further ones, -1 if none bounds the number, and ``multiplier`` the price of the
    number at which the row, at 1, is no less than what is paid. If ``alone``, rows say nothing else.
    """

    most: Float
    multiplier: Float
    place: Indices
    alone: bool


class NumberBounds:
    """Bounds on the numbers of a program's objective, which is a `Leximin`.

    ``lowest`` and ``most`` (n_numbers,) are what the bounds on tasks alone imply of each number.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.pairs = program, program.pairs
        self.numbers = numbers = program.term.share._numbers(program.instance, levelled=True)
        of_users = numbers.of_user is not None and program.single and numbers.per_task.ndim == 1
        self.c = numbers.per_task if of_users else self.pairs.of(numbers.per_task)  # without copies of a large pool's
        self.number = numbers.of_user if of_users else numbers.of_pairs(self.pairs.user)
        best, least = -self.pairs.min(-self.c), self.pairs.min(self.c)
        self.lowest, self.most = numbers.above(least * program.low), numbers.above(best * program.most)

    @cached_property
    def typical(self) -> Float:
        """The numbers at the estimated common level, shape (n_numbers,)."""
        return self.numbers.weights * self.program.point(np.zeros(len(self.pairs))).level(self.program.term.share)

    @cached_property
    def unit(self) -> Float:
        """What a number near zero is judged by: the typical level, or what it can be at most if that is less."""
        return np.where(self.most > 0, np.minimum(self.most, self.typical), self.typical)

    def units(self, z: Float) -> Float:
        """What numbers are judged by: themselves, or near zero the `unit`, and above a base what blocks may miss."""
        base = np.zeros(len(z)) if self.numbers.base is None else self.numbers.base
        missed = np.where(base > 0, BLOCK_TOLERANCE * (self.most + base), 0.0)
        near = np.maximum(NOISE * self.unit, missed)
        return np.where(z > near, z, np.maximum(self.unit, missed / GAP_TOLERANCE))

    def at(self, tasks: Float) -> Float:
        """The numbers at tasks by pair."""
        return self.numbers.above(self.pairs.sum(self.c * tasks))

    @cached_property
    def by_rows(self) -> ByRows:
        """What single further rows imply of numbers."""
        n, base = len(self.most), 0.0 if self.numbers.base is None else self.numbers.base
        most, multiplier, place = np.full(n, np.inf), np.zeros(n), np.full(n, -1)
        counted, alone, before = np.bincount(self.number, self.c > 0, n), True, 0
        for one in self.program.rows.further:
            table = one.rows.per_task.tocoo()
            table.sum_duplicates()
            row, pair, a = table.row.astype(np.int64), table.col, table.data
            negative = np.bincount(row, a < 0, len(one.rows)) > 0
            kept = (a > 0) & (self.c[pair] > 0) & ~negative[row]
            both, of = np.unique(row[kept] * n + self.number[pair[kept]], return_inverse=True)
            row_of, number = np.divmod(both, n)
            ratio, least, largest = self.c[pair[kept]] / a[kept], np.full(len(both), np.inf), np.zeros(len(both))
            np.maximum.at(largest, of, ratio)
            np.minimum.at(least, of, ratio)
            whole = np.bincount(of, minlength=len(both)) == counted[number]  # all that adds to the number is in the row
            bound = largest * np.maximum(one.rows.right[row_of], 0.0)
            np.minimum.at(most, number[whole], bound[whole])
            ends = whole & (bound <= most[number])
            multiplier[number[ends]], place[number[ends]] = 1 / largest[ends], before + row_of[ends]
            alone &= not one.rows.equal and len(both) == len(one.rows) == len(np.unique(row_of))
            alone &= bool(kept.sum() == np.count_nonzero(a) and whole.all() and (least == largest).all())
            before += len(one.rows)
        return ByRows(most - base, multiplier, place, alone)

    def charges(self, dual: Dual) -> Multipliers:
        """A level's multipliers of capacities and further rows."""
        charged = Multipliers(np.maximum(dual.prices, 0.0), np.zeros(len(self.pairs)))
        for one, values in dual.rows:
            if values.any():
                charged.charge_rows(one.rows, values)
        return charged

    def costs(self, dual: Dual) -> Costs:
        """Costs of tasks at a level's prices."""
        charged = self.charges(dual)
        cost, paid = self.program.rows.cost(charged.prices), dual.of_numbers[self.number] * self.c
        size = cost + paid
        if charged.size is not None:
            size = size + charged.size
        reduced = cost + charged.pair_cost - paid - TERM_ROUNDING * size
        return Costs(charged, paid, size, np.where(self.program.zero_pairs, np.inf, reduced))

    def at_reduced_cost(self, costs: Costs, tasks: Float) -> tuple[Float, Bool]:
        """What numbers hold where tasks cost more than is paid for them, shape (n_numbers,), and where they do.

        By complementary slackness it is nothing at an optimum of the level. What is held there may fix the level within
        rounding, and let later levels differ from those of the optimum.
        """
        program, pairs, (_, _, size, reduced) = self.program, self.pairs, costs
        full = (self.at(tasks) >= self.most * (1 - ABOVE))[self.number]  # a higher price would pay for all their users
        above_low = np.where(program.low > 0, np.maximum(pairs.sum(tasks) - program.low, 0.0), np.inf)
        beyond = pairs.sum(np.where((reduced > COST_TIE * size) & ~full, tasks, 0.0))
        reduced = reduced - pairs.min(reduced)[pairs.user]  # full, at its limit, or at a lower bound: the cheapest pair
        dear = reduced > COST_TIE * size
        elsewhere = pairs.sum(np.where(dear, tasks, 0.0))
        return self.numbers.sums(np.maximum(np.minimum(beyond, above_low), elsewhere) * -pairs.min(-self.c)), dear

    def held_on_worse_servers(self, tasks: Float) -> Float:
        """What numbers hold where a task counts less than on another server, below the highest, shape (n_numbers,).

        A number that only the most its users can run bounds has none at an optimum, however little it could rise.
        """
        best = -self.pairs.min(np.where(self.program.zero_pairs, 0.0, -self.c))[self.pairs.user]
        held = self.numbers.sums(self.pairs.sum(np.where(self.c < best * (1 - COST_TIE), self.c * tasks, 0.0)))
        levels = self.at(tasks) / self.numbers.weights
        return np.where(levels * (1 + ABOVE) < levels.max(initial=0.0), held, 0.0)

    def has_undecided_ties(self, tasks: Float) -> bool:
        """As `level_bounds.has_undecided_ties`, of the numbers' levels."""
        if self.program.single or not len(self.pairs):
            return False
        levels, lower = self.at(tasks) / self.numbers.weights, np.zeros(len(self.program.low), dtype=bool)
        of_pair = levels[self.number]
        lower[self.pairs.user] = (of_pair > 0) & (of_pair * (1 + ABOVE) < levels.max(initial=0.0))
        per_task = np.broadcast_to(self.c, of_pair.shape)
        return has_undecided_ties(self.program, per_task, tasks, lower) or self._almost_alike(lower)

    def _almost_alike(self, lower: Bool) -> bool:
        """Whether a user below others needs almost the same on two servers, so that costs do not say where it may run.

        Where a level leaves its users free to move between them, that can be worth all of a later level.
        """
        pairs, instance = self.pairs, self.program.instance
        total = instance.total_capacities
        mine = np.flatnonzero(lower[pairs.user] & (self.c > 0) & ~self.program.zero_pairs)
        needs = instance.per_server_demands[pairs.user[mine], pairs.server[mine]] / self.c[mine, None]
        order = np.lexsort((needs @ (1.0 / np.where(total > 0, total, np.inf)), pairs.user[mine]))
        needs, user = needs[order], pairs.user[mine][order]
        one, other = needs[:-1], needs[1:]
        near = (np.abs(one - other) <= COST_TIE * np.maximum(one, other)).all(axis=1) & (one != other).any(axis=1)
        return bool((near & (user[:-1] == user[1:])).any())

    def displaced(self, level_of: Indices, rise: Float, is_open: Bool, tasks: Float) -> float:
        """The largest part of what later numbers use of a capacity that earlier ones could take by their rises.

        ``level_of`` (n_numbers,) are ranks of levels; a number rises on one open pair. With demands that are traces,
        1e-11 of a level can be worth a tenth of a later one.
        """
        loads = sp.coo_array(self.program.rows.columns(np.arange(len(self.pairs))))
        row, pair, load = loads.row, loads.col, loads.data
        number, n = self.number[pair], len(rise)
        if not len(load):
            return 0.0
        place, of_pair = np.unique(row.astype(np.int64) * n + number, return_inverse=True)
        takes, used = np.zeros(len(place)), np.bincount(of_pair, load * tasks[pair], len(place))
        per = np.divide(load, self.c[pair], out=np.zeros(len(load)), where=is_open[pair] & (self.c[pair] > 0))
        np.maximum.at(takes, of_pair, per * rise[number])
        row, number = np.divmod(place, n)
        order = np.lexsort((level_of[number], row))
        row, level, takes, used = row[order], level_of[number[order]], takes[order], used[order]
        starts = np.flatnonzero(np.diff(np.append([-1], row) * n + np.append([-1], level)) != 0)
        takes, used = np.add.reduceat(takes, starts), np.add.reduceat(used, starts)
        row = row[starts]
        left = np.maximum(self.program.usable_rows - loads @ tasks, 0.0)
        by_earlier = np.cumsum(takes) - takes
        by_earlier -= by_earlier[np.searchsorted(row, row)]  # from the first level of each row
        later = np.cumsum(used[::-1])[::-1]
        later -= np.append(later, 0.0)[np.searchsorted(row, row, "right")]
        over = np.maximum(by_earlier - left[row], 0.0)
        return float(np.max(over / later, initial=0.0, where=later > 0))

    def scarcest(self, prices: Float) -> Float:
        """The value of the scarcest capacity that each number's users need wherever they run, shape (n_numbers,)."""
        value, of_pair = np.maximum(prices, 0.0) * self.program.usable_rows, np.zeros(len(self.pairs))
        if self.program.single:
            for worth, needs in zip(value.tolist(), self.program.instance.per_server_demands[:, 0].T, strict=True):
                of_pair = np.maximum(of_pair, np.where(needs > 0, worth, 0.0))
        else:
            needed = sp.coo_array(self.pairs.loads)
            np.maximum.at(of_pair, needed.col, value[needed.row])
        out = np.full(len(self.most), np.inf)
        np.minimum.at(out, self.number, np.where(self.c > 0, of_pair, np.inf))
        return out

    def value(self, dual: Dual, costs: Costs) -> float:
        """The bound V on the sum of the numbers at their prices, rounded up."""
        program, charged, gain = self.program, costs.charged, -self.pairs.min(costs.reduced)
        # of each user the largest total where a task gains, its lower bound where it costs
        parts = np.where(gain > 0, gain * program.most, np.where(program.low > 0, gain * program.low, 0.0))
        limit, constant = float(charged.prices @ program.usable_rows), charged.constant
        if self.numbers.base is not None:
            parts = np.concatenate([parts, -dual.of_numbers * self.numbers.base])
        rounding = TERM_ROUNDING * (limit + max(charged.constant_size, abs(constant)))
        return rounded_up_sum(parts, limit + constant + rounding)

    def highest_level(self, some: Indices, z: Float) -> float:
        """The highest level of numbers above what bounds imply; NaN, which compares as false, if there are none."""
        above = some[z[some] > self.lowest[some] * (1 + ABOVE)]
        return float((z / self.numbers.weights)[above].max()) if len(above) else np.nan


def bottleneck_duals(program: Program, tasks: Float) -> list[Dual]:
    """Dual solutions of a leximin of users on one pool whose levels are fixed by full resources."""
    bounds, loads = NumberBounds(program), program.pairs.loads
    per = np.divide(loads, bounds.c, out=np.zeros(loads.shape), where=bounds.c > 0)
    if bounds.numbers.of_user is not None:  # some users have left, whose share counts as zero
        per = per[:, bounds.c > 0]
    levels, base = bounds.at(tasks) / bounds.numbers.weights, bounds.numbers.base
    # of what is left of shares after their bases are subtracted
    rounding = 0.0 if base is None else ROUNDING * base / bounds.numbers.weights
    rising = levels * bounds.numbers.weights < bounds.most * (1 - ABOVE)
    held = (bounds.lowest > 0) & (levels * bounds.numbers.weights <= bounds.lowest * (1 + ABOVE))
    full = np.flatnonzero(program.usable - loads @ tasks <= NOISE * program.usable)
    # who is at a lower bound above the level of a resource leaves it to the others
    by_level = [(float(levels[rising & ~held & (per[i] > 0)].max(initial=-np.inf)), i) for i in full.tolist()]
    duals, settled = list[Dual](), np.zeros(len(levels), dtype=bool)
    for level, i in sorted(by_level):
        mine = (per[i] > 0) & rising & (levels >= level - ABOVE * abs(level) - rounding) & ~settled
        if mine.any():
            prices = (np.arange(len(program.usable)) == i).astype(float)
            duals.append(Dual(prices, mixtures=[per[i]], fixed=np.flatnonzero(mine)))
            settled |= mine
    return duals


@np.errstate(all="ignore")  # zero prices are expected
def judge_number_levels(program: Program, duals: Sequence[Dual], tasks: Float) -> tuple[float, tuple[float, ...], str]:
    """The largest gap of any level, the gap of each, and what these assume."""
    bounds = NumberBounds(program)
    z, w = bounds.at(tasks), bounds.numbers.weights
    unit = bounds.units(z)
    by_rows, base = bounds.by_rows.most, 0.0 if bounds.numbers.base is None else bounds.numbers.base
    most = np.minimum(bounds.most, by_rows + TERM_ROUNDING * (by_rows + 2 * base))
    excess = np.maximum(most - z, 0.0)
    level_of, by_slack, gaps = np.full(len(z), -1), np.zeros(len(z)), list[float]()
    levels, by_prices = np.zeros(max(len(duals), 1)), np.full(len(z), np.inf)
    is_open = np.ones(len(program.pairs), dtype=bool)
    for k, dual in enumerate(duals):  # in the order in which numbers were fixed
        mine, pi, costs = dual.fixed, dual.of_numbers, bounds.costs(dual)
        levels[k] = level = float((z / w)[mine].min(initial=np.inf))
        floors = np.minimum(z, np.maximum(level * w, bounds.lowest))
        terms = pi * floors
        slack = bounds.value(dual, costs) - float(terms.sum()) + TERM_ROUNDING * float(np.abs(terms).sum())
        rise = np.maximum(floors - z, 0.0) + max(slack, 0.0) / pi
        if (rise > GAP_TOLERANCE * unit)[mine].any() and not any(y.any() for _, y in dual.rows):
            # at the level of proved numbers, perhaps what a negligible part of a needed capacity would pay
            level_of_proved = bounds.highest_level(mine[rise[mine] <= GAP_TOLERANCE * unit[mine]], z)
            near = np.abs(z / w - level_of_proved) <= GAP_TOLERANCE * level_of_proved
            part = max(slack, 0.0) / bounds.scarcest(dual.prices)
            excused = np.maximum(floors - z, part * SLICE * (w.sum() / w) * unit)
            rise = np.where(near, np.minimum(rise, excused), rise)
        held, dear = bounds.at_reduced_cost(costs, tasks)
        at_reduced_cost = float(np.max(held / unit, initial=0.0))
        is_open &= ~dear | (level_of >= 0)[bounds.number]  # numbers of lower levels come first, and keep what is dear
        earlier = (level_of >= 0) | ((z / w < level) & (most > z))  # also those that no level has fixed yet
        earlier[mine] = False
        paid = float((pi * unit)[mine].sum())
        bought = np.zeros(k + 1)  # by the slack of each level; last, by what is not fixed yet
        np.maximum.at(bought, level_of[earlier], (pi * by_slack)[earlier])
        bought[-1] = np.inf
        each = np.bincount(level_of[earlier] % (k + 1), (pi * excess)[earlier], k + 1)
        displaced = float(np.minimum(each, bought).sum()) / paid if paid > 0 else np.inf
        excess[mine] = np.minimum(excess, rise)[mine]
        by_prices[mine] = np.minimum(by_prices, rise)[mine]
        level_of[mine], by_slack[mine] = k, max(slack, 0.0) / pi[mine]
        gaps.append(float(np.max([displaced, at_reduced_cost, *(excess / unit)[mine]])))
    on_worse = np.where(by_prices <= GAP_TOLERANCE * unit, 0.0, bounds.held_on_worse_servers(tasks))
    gap = float(np.max([0.0, *gaps, *((excess + on_worse) / unit)]))  # a NaN stays NaN
    order = np.unique(np.where(level_of < 0, z / w, levels[level_of]), return_inverse=True)[1]  # some are at their most
    moved = bounds.displaced(order, excess, is_open, tasks) if gap <= GAP_TOLERANCE else 0.0
    assumed = f"{GIVEN_LOWER}, {moved_by(moved)}" if moved > GAP_TOLERANCE else ""
    if bounds.has_undecided_ties(tasks):
        assumed = GIVEN_LOWER
    return gap if np.isfinite(gap) else np.inf, tuple(gaps), assumed
