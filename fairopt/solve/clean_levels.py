"""Remove solvers' noise from the prices and tasks of leximin, because later levels can depend on it.

Interior point methods leave relative differences of 1e-8 between equal costs, and 1e-8 of a level. At a level's prices
p the pairs where user j runs should all cost v_j, and those of users above the level nothing (Proposition 5.5). With D
the differences as rows in relative changes y of the multipliers,

    min ||D (1 - y)||,   p <- p * (1 - y),

makes them equal to rounding: the least change, by least squares, and in parts, so that signs stay and small prices are
not lost beside large ones. A cost that is 1e-8 above another one closes its pair to later levels (Bound 5.8,
docs/methods/servers.md): prices with a noise of 1e-12 leave a gap above 0.1 at the right tasks, and 1e-12 after this.
Levels that a solver left 1e-8 below their bound are raised to it at the cost of users of later levels, which under
curved constraints move by the root of that.

The methods do this and not the gate, which takes prices as they are. Where nothing later depends on it, or a level's
costs do not differ, nothing is changed. It is needed rarely: 400 small leximins, half of them under a norm, were
certified without, and one of the tests' is not, beside a constraint that adds to `model.required`, by CLARABEL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fairopt.proof.conic import ConicConditions
from fairopt.proof.dual import Dual
from fairopt.proof.least_squares import DENSE, by_iteration
from fairopt.proof.level_bounds import ABOVE, EQUAL, TIE, TRACE, LevelCosts, LevelsAtPrices, exact_sums
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import TINY
from fairopt.solve.form.program import Program

LEFT = 1e-8  # relative slack of a level that a solver may leave; a larger one is a gap, and no noise


def raised_to_bounds(program: Program, further: ConicConditions | None, duals: Sequence[Dual], tasks: Float) -> Float:
    """Tasks with levels raised to their bounds by a solver's slack, at the cost of users of later levels.

    Under curved conditions later levels move by the square root of that slack.
    """
    pairs, later = program.pairs, np.ones(program.instance.n_users, dtype=bool)
    levels = LevelsAtPrices(program, further, tasks)
    needs = levels.needs
    of_pair = np.repeat(np.arange(len(pairs)), np.diff(needs.indptr))
    for level_dual in duals:
        c, values = levels.evaluate(level_dual, TIE), levels.values
        levels.keep(c)
        later[level_dual.fixed] = False
        mine = level_dual.fixed[np.abs(values[level_dual.fixed] - c.level) <= LEFT * c.level]
        costs = np.maximum(c.cost[mine], 0.0)
        bound = max(c.level, float((c.slack + (costs * c.floors[mine]).sum()) / costs.sum())) if costs.any() else 0.0
        if not bound <= c.level * (1 + LEFT):
            continue
        rise = np.ones(len(later))
        rise[mine] = np.minimum(bound, levels.limits[mine]) / values[mine]
        tasks, paying = tasks * rise[pairs.user], later[pairs.user]
        # who rises takes from users of later levels, each server's in proportion
        load = needs @ np.where(paying, tasks, 0.0)
        over = np.maximum(needs @ tasks - program.usable_rows, 0.0)
        part, most = np.divide(over, load, out=np.zeros(len(load)), where=load > 0), np.zeros(len(pairs))
        np.maximum.at(most, of_pair, part[needs.indices])
        tasks = np.where(paying, tasks * np.maximum(1.0 - most, 0.0), tasks)
        levels.pair_levels = tasks * levels.per_task
        levels.used = exact_sums(needs, tasks)
        levels.values = pairs.sum(levels.pair_levels)
    return tasks


@np.errstate(all="ignore")  # prices beyond the range of floats are left as they are
def without_noise(program: Program, further: ConicConditions | None, duals: Sequence[Dual], tasks: Float) -> list[Dual]:
    """Duals of levels in which costs that should be equal are equal to rounding, if later levels depend on it."""
    levels = LevelsAtPrices(program, further, tasks)
    for level_dual in duals:
        c = levels.evaluate(level_dual, TIE)
        if _depends_on_noise(levels, c):
            c = levels.evaluate(_polished(levels, c))
        levels.keep(c)
    return [c.solution for c in levels.judged]


def _above(levels: LevelsAtPrices, c: LevelCosts) -> Bool:
    """Users above this level and their lower bounds."""
    return levels.values > c.floors * (1 + ABOVE)


def _at_least_cost(levels: LevelsAtPrices, c: LevelCosts) -> Bool:
    """Pairs with part of a user's level at nearly that user's smallest cost."""
    return (levels.pair_levels > TRACE * levels.values[levels.user]) & ~c.closed & (c.reduced_cost == 0)


def _depends_on_noise(levels: LevelsAtPrices, c: LevelCosts) -> bool:
    """Whether there are later levels and a solver's noise could decide them.

    This is the case if a user has part of its level at nearly, but not exactly, its smallest cost, or if a user of a
    later level has some at a positive cost.
    """
    # without users above the level nobody takes what noise would close to them
    above, used = _above(levels, c), _at_least_cost(levels, c) & np.isfinite(c.pair_cost)
    nearly = used & (c.pair_cost - np.maximum(c.cost, 0.0)[levels.user] > EQUAL * c.cost_size)
    paid = c.pair_cost > (EQUAL * c.cost_size if c.further else 0.0)
    return bool(above.any() and (nearly.any() or (used & above[levels.user] & paid).any()))


def _polished(levels: LevelsAtPrices, c: LevelCosts) -> Dual:
    """The dual of a level at nearby prices, at which each user's costs are equal at all pairs near its cheapest.

    Costs of users of later levels become zero. Costs that differ by a solver's noise become equal to rounding; larger
    differences stay.
    """
    level_dual, further = c.solution, levels.further
    multipliers, by_unit = np.maximum(level_dual.prices, 0.0), sp.csr_array(levels.pairs.loads.T)
    used = _at_least_cost(levels, c)
    rows = np.unique(by_unit[np.flatnonzero(used & _above(levels, c)[levels.user])].indices)
    value = multipliers[rows] * levels.program.usable_rows[rows]  # costs may cancel under other conditions
    multipliers[rows[value <= (TIE * float(np.abs(c.cost) @ c.floors) if c.further else np.inf)]] = 0.0
    to_others = sp.csr_array((0, len(multipliers)))
    if further is not None and level_dual.in_cone is not None:
        slopes, on_others = further.slopes(level_dual.in_cone)
        to_others = sp.csr_array(sp.hstack([sp.csr_array((on_others.shape[0], len(multipliers))), on_others]))
        active = np.bincount(further.cone_of_row, level_dual.in_cone != 0, slopes.shape[1]) > 0
        multipliers = np.concatenate([multipliers, active])  # factors of each cone's multipliers
        by_unit = sp.csr_array(sp.hstack([by_unit, slopes]))
    some = np.flatnonzero(multipliers)  # a price of 0 stays 0: changes are in parts
    free = used & (c.pair_cost <= TIE * c.cost_size) if c.further else np.zeros(len(used), dtype=bool)  # of cost zero
    tied = np.flatnonzero(used & (c.cost > 0)[levels.user] & ~free)
    tied = tied[np.lexsort((-levels.pair_levels[tied], levels.user[tied]))]
    first = np.diff(levels.user[tied], prepend=-1) != 0  # the pair of each user's largest part
    first_of_user = np.maximum.accumulate(np.where(first, np.arange(len(tied)), 0))
    # rows of D: a pair's cost less that of its user's first pair, relative to the user's cost
    costs = sp.csr_array(by_unit[tied][:, some] / (levels.per_task * c.cost[levels.user])[tied, None])
    zero = sp.csr_array(by_unit[free][:, some] / (levels.per_task * c.cost_size)[free, None])
    total = np.maximum(np.asarray(abs(to_others).sum(axis=1)).ravel(), TINY)
    cancel = sp.csr_array(sp.diags_array(1.0 / total) @ to_others[:, some])
    error = sp.csr_array(sp.vstack([(costs - costs[first_of_user])[~first], zero, cancel]) * multipliers[some])
    if not np.isfinite(error.data).all():  # prices beyond the range of floats
        return level_dual
    if np.prod(error.shape) <= DENSE:
        change: Float = np.linalg.lstsq(error.toarray(), error.sum(axis=1))[0]
    else:
        change = by_iteration(error, np.asarray(error.sum(axis=1), dtype=float), 20)
    multipliers[some] *= 1.0 - change
    n_rows = len(level_dual.prices)
    if further is None or level_dual.in_cone is None:
        return replace(level_dual, prices=multipliers)
    return replace(
        level_dual, prices=multipliers[:n_rows], in_cone=level_dual.in_cone * multipliers[n_rows:][further.cone_of_row]
    )
