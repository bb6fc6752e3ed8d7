"""Leximin and max-min under envy-freeness on one pool, by water-filling along least points (Proposition 4.13).

The problem is the leximin of ``z_j = c_j u_j`` with u tasks per weight, under capacities, bounds and, for all pairs,

    u_j >= v_jk u_k,   v_jk = min_i d_ki / d_ji   (over resources that j needs):

user j does not envy k. The least point above given levels h that is free of envy is ``u_j = max_k v_jk h_k``, since
products of v along chains are at most the v of their ends. So a common level of the free users rises along these points
until a resource is full, as in water-filling, with at most as many stages as resources and limits. As linear programs
the n (n - 1) rows would be in every program of every level.

Leximin of tasks takes 7 ms for 20 users, 4 ms for 100, 8 ms for 300 and 34 ms for 1,000. As cone programs it takes
0.05 s, is refused after 5 s, and takes 3 s and 0.9 s.

A user is fixed if somebody who needs a full resource would envy it any rise, or at its limit, which those of others may
lower. That compares floats: equal is what differs by at most 1e-12. If nobody were fixed the loop would not end, and
there is no answer then. The gate tests Proposition 4.14 at the answer by rows that are tight to 1e-13.
"""

from __future__ import annotations

import numpy as np

from fairopt.blocks.constraints import EnvyFree
from fairopt.proof.envy_levels import EnvyProgram, EnvyRatios
from fairopt.proof.evidence.pool import EnvyBottlenecks
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import ROUNDING
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Proposals, Settings

LARGEST = 20_000  # users: a stage looks at all pairs, which takes seconds


def envy_free_applies(program: Program) -> bool:
    """Whether the program is leximin or max-min on one pool under envy-freeness and bounds."""
    if not program.single or not program.term.is_smallest or not program.rest or not program.of_users:
        return False
    # a user held at 0 would hold all at 0 whom it would envy
    usable = bool((program.usable > 0).all()) and float(program.high.min(initial=np.inf)) > 0
    return usable and program.instance.n_users <= LARGEST and all(type(c) is EnvyFree for c in program.rest)


def solve_envy_free(program: Program, settings: Settings) -> Proposals:
    """Leximin or max-min without envy; no proposal where the lower bounds do not fit."""
    envy = EnvyProgram(program)
    filled = _fill(program, envy)
    if filled is not None:
        tasks, prices = filled
        yield Proposal("water-filling", tasks, EnvyBottlenecks(envy, prices))


def _fill(program: Program, envy: EnvyProgram) -> tuple[Float, Float] | None:
    """Tasks, and the derivatives of the lowest level by capacities; None if not found."""
    ratios, weights = envy.ratios, program.instance.weights
    c = envy.share().coefficients(program.instance, True)
    loads, usable = program.pairs.loads * weights, program.usable  # of a task per weight
    # lower bounds of some lift those who would envy them, and limits of some hold those whom they would envy
    point = ratios.least_above(program.low / weights) if program.low.any() else np.zeros(ratios.n)  # tasks per weight
    most = program.high / weights
    if np.isfinite(most).any():
        most = ratios.most_below(most)
    if (point > most * (1 + ROUNDING)).any() or (loads @ point > usable * (1 + ROUNDING)).any():
        return None
    point, limits, active = np.minimum(point, most), most * c, np.ones(ratios.n, dtype=bool)
    prices: Float | None = None
    while active.any():
        tell("levels without envy, users settled", ratios.n - int(active.sum()), ratios.n)
        point, slope = _raised(ratios, loads, usable, point, np.where(active, 1 / c, 0.0), limits)
        # the level was found from sums of loads in another order, so that the full resource is full to rounding only
        full = loads @ point >= usable * (1 - ROUNDING)
        if prices is None:  # of the resource that is full first, if no limit is reached before
            rates = np.where(full & ~(point * c >= limits * (1 - ROUNDING)).any(), loads @ slope, 0.0)
            priced = rates > 0
            prices = np.divide(1.0, rates, out=np.zeros(len(usable)), where=priced) / max(int(priced.sum()), 1)
        needed = (loads[full] > 0).any(axis=0)
        # those whom a user of a full resource would envy if they rose, and those at their limits
        fixed = active & (
            (ratios.most_below(np.where(needed, point, np.inf)) <= point * (1 + ROUNDING))
            | (point >= most * (1 - ROUNDING))
        )
        if not fixed.any():
            return None
        active &= ~fixed
    assert prices is not None
    return point * weights, prices


def _raised(
    ratios: EnvyRatios, loads: Float, usable: Float, point: Float, per_level: Float, limits: Float
) -> tuple[Float, Float]:
    """The least point above a given one at the highest level of active users that fits, and its slope by that level.

    Active users have ``per_level`` > 0 tasks at level 1.
    """
    active = per_level > 0
    # The load at a level is not linear where users reach limits, of which there may be n: halve to the last one that
    # fits
    steps = np.unique(limits[active & np.isfinite(limits)])

    def at(level: float) -> Float:
        return np.maximum(point, ratios.least_above(per_level * np.minimum(level, np.where(active, limits, 0.0))))

    low, high = 0, len(steps)  # how many limits fit
    while low < high:
        middle = (low + high) // 2
        if (loads @ at(steps[middle]) <= usable).all():
            low = middle + 1
        else:
            high = middle
    # from there no active user reaches a limit before a resource is full: `_highest` has the level in closed form
    base = at(steps[low - 1]) if low else point
    more = active & (limits > (steps[low - 1] if low else 0.0))
    if not more.any():
        return base, np.zeros(ratios.n)
    rate = ratios.least_above(np.where(more, per_level, 0.0))
    level = min(_highest(load, capacity, base, rate) for load, capacity in zip(loads, usable, strict=True))
    return np.maximum(base, rate * level), np.where(rate * level >= base, rate, 0.0)


def _highest(load: Float, capacity: float, base: Float, rate: Float) -> float:
    """The largest t with ``sum_j load_j max(base_j, rate_j t) <= capacity``."""
    moves: Bool = (load > 0) & (rate > 0)
    if not moves.any():
        return np.inf
    left = capacity - float(load[~moves] @ base[~moves])
    load, base, rate = load[moves], base[moves], rate[moves]
    starts = base / rate
    order = np.argsort(starts)
    # users rise from their base once t is above base / rate: sort these, and try each number k of risers
    at_base = float(load @ base) - np.cumsum((load * base)[order])
    levels = (left - at_base) / np.cumsum((load * rate)[order])  # if the first k users rise, for each k
    # the first k at which the next user does not rise yet
    return float(levels[np.argmax(levels <= np.append(starts[order][1:], np.inf))])
