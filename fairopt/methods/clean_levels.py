"""What solvers leave of the levels of leximin, taken out of prices and of tasks before they are judged.

Interior point methods leave 1e-8 between costs that are equal, and 1e-8 of a level. Later levels can depend on either
(`fairopt.proofs.levels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairopt.formulation.program import Program
from fairopt.methods.arrays import Bool, Float
from fairopt.proofs.conic import ConicConditions
from fairopt.proofs.levels import ABOVE, ROUNDING, TIE, TRACE, LevelCosts, LevelDual, Levels
from fairopt.runtime.lazy import sp, sparse_linalg

LEFT = 1e-8  # relatively: what a solver may leave of a level
DENSE = 4_000_000  # entries of a matrix that is factorised rather than iterated with


def raised_to_bounds(
    program: Program, further: ConicConditions | None, holdings: Sequence[LevelDual], tasks: Float
) -> Float:
    """Tasks with levels raised to their bounds by what a solver left of them, at the cost of users of later levels.

    Under curved conditions later levels move by the square root of that, and their prices are worth its multiples.
    """
    pairs, later = program.pairs, np.ones(program.instance.n_users, dtype=bool)
    needs = sp.csc_array(pairs.loads)
    of_pair = np.repeat(np.arange(len(pairs)), np.diff(needs.indptr))
    levels = Levels(program, further, tasks)
    for holding in holdings:
        c, values = levels.evaluate(holding, TIE), levels.values
        levels.judged.append(c)
        later[holding.users] = False
        mine = holding.users[np.abs(values[holding.users] - c.level) <= LEFT * c.level]
        costs = np.maximum(c.cost[mine], 0.0)
        bound = max(c.level, float((c.slack + (costs * c.floors[mine]).sum()) / costs.sum())) if costs.any() else 0.0
        if not bound <= c.level * (1 + LEFT):
            continue
        rise = np.ones(len(later))
        rise[mine] = np.minimum(bound, levels.limits[mine]) / values[mine]
        tasks, paying = tasks * rise[pairs.user], later[pairs.user]
        load = pairs.loads @ np.where(paying, tasks, 0.0)
        over = np.maximum(pairs.loads @ tasks - program.usable_rows, 0.0)
        part, most = np.divide(over, load, out=np.zeros(len(load)), where=load > 0), np.zeros(len(pairs))
        np.maximum.at(most, of_pair, part[needs.indices])
        tasks = np.where(paying, tasks * np.maximum(1.0 - most, 0.0), tasks)
        levels.pair_levels = tasks * levels.per_task
        levels.used = pairs.loads @ tasks
        levels.values = pairs.sum(levels.pair_levels)
    return tasks


@np.errstate(all="ignore")  # as where levels are judged
def without_noise(
    program: Program, further: ConicConditions | None, holdings: Sequence[LevelDual], tasks: Float
) -> list[LevelDual]:
    """Holdings whose costs are equal to rounding where later levels depend on whether they are."""
    levels = Levels(program, further, tasks)
    for holding in holdings:
        c = levels.evaluate(holding, TIE)
        if _hangs_on_noise(levels, c):
            c = levels.evaluate(_polished(levels, c))
        levels.judged.append(c)
    return [c.solution for c in levels.judged]


def _above(levels: Levels, c: LevelCosts) -> Bool:
    """Users above the level of a holding, and above their lower bounds."""
    return levels.values > c.floors * (1 + ABOVE)


def _cheaply_held(levels: Levels, c: LevelCosts) -> Bool:
    """Pairs where users hold a part of their level at about the smallest cost."""
    return (levels.pair_levels > TRACE * levels.values[levels.user]) & ~c.closed & (c.reduced_cost == 0)


def _hangs_on_noise(levels: Levels, c: LevelCosts) -> bool:
    """Whether there are later levels, and a solver's noise could decide what they can have.

    That is where users hold something at nearly the cost of where it is cheapest, or users of later levels at a
    cost that is not zero.
    """
    above, there = _above(levels, c), _cheaply_held(levels, c) & np.isfinite(c.pair_cost)
    nearly = there & (c.pair_cost - np.maximum(c.cost, 0.0)[levels.user] > ROUNDING * c.cost_size)
    paid = c.pair_cost > (ROUNDING * c.cost_size if c.further else 0.0)
    return bool(above.any() and (nearly.any() or (there & above[levels.user] & paid).any()))


def _polished(levels: Levels, c: LevelCosts) -> LevelDual:
    """A holding with nearby prices, at which costs are equal wherever a user holds something near its cheapest.

    They are zero where users of later levels hold something. Costs that differ by a solver's noise so become equal
    to rounding; costs that differ by more cannot, or other places become cheaper. Later levels depend on this
    distinction.
    """
    holding, further = c.solution, levels.further
    charges, by_unit = np.maximum(holding.prices, 0.0), sp.csr_array(levels.pairs.loads.T)
    there = _cheaply_held(levels, c)
    used = np.unique(by_unit[np.flatnonzero(there & _above(levels, c)[levels.user])].indices)
    worth = charges[used] * levels.program.usable_rows[used]  # other conditions may leave costs that cancel
    charges[used[worth <= (TIE * float(np.abs(c.cost) @ c.floors) if c.further else np.inf)]] = 0.0
    to_others = sp.csr_array((0, len(charges)))
    if further is not None and holding.dual is not None:
        slopes, on_others = further.slopes(holding.dual)
        to_others = sp.csr_array(sp.hstack([sp.csr_array((on_others.shape[0], len(charges))), on_others]))
        charging = np.bincount(further.cone_of_row, holding.dual != 0, slopes.shape[1]) > 0
        charges = np.concatenate([charges, charging])  # multiples of what each cone charges
        by_unit = sp.csr_array(sp.hstack([by_unit, slopes]))
    some = np.flatnonzero(charges)
    free = there & (c.pair_cost <= TIE * c.cost_size) if c.further else np.zeros(len(there), dtype=bool)  # cost nothing
    tied = np.flatnonzero(there & (c.cost > 0)[levels.user] & ~free)
    tied = tied[np.lexsort((-levels.pair_levels[tied], levels.user[tied]))]
    first = np.diff(levels.user[tied], prepend=-1) != 0  # where each user holds most
    home = np.maximum.accumulate(np.where(first, np.arange(len(tied)), 0))
    pay = sp.csr_array(by_unit[tied][:, some] / (levels.per_task * c.cost[levels.user])[tied, None])
    nothing = sp.csr_array(by_unit[free][:, some] / (levels.per_task * c.cost_size)[free, None])
    whole = np.maximum(np.asarray(abs(to_others).sum(axis=1)).ravel(), 1e-300)
    cancel = sp.csr_array(sp.diags_array(1.0 / whole) @ to_others[:, some])
    away = sp.csr_array(sp.vstack([(pay - pay[home])[~first], nothing, cancel]) * charges[some])
    if not np.isfinite(away.data).all():  # prices beyond the range of floats cannot be polished
        return holding
    if np.prod(away.shape) <= DENSE:
        change: Float = np.linalg.lstsq(away.toarray(), away.sum(axis=1))[0]
    else:
        change = sparse_linalg.lsqr(away, away.sum(axis=1), atol=1e-16, btol=1e-16, iter_lim=20 * away.shape[1])[0]
    charges[some] *= 1.0 - change
    rows = len(holding.prices)
    if further is None or holding.dual is None:
        return replace(holding, prices=charges)
    return replace(holding, prices=charges[:rows], dual=holding.dual * charges[rows:][further.cone_of_row])
