"""Leximin and max-min on one pool where no user may envy another: water-filling with users who pull each other.

If users k have at least ``f_k`` tasks per weight, without envy user j has at least ``max_k v_jk f_k`` with
``v_jk = min_i d_ki / d_ji``, and this point is without envy, as ``v_jl v_lk <= v_jk``. So the least point at which all
rising users have a level t is known, it grows with t, and t rises until a resource is full. Then those users are
settled who cannot rise unless a user of a full resource does, or one who is at its limit.
"""

from __future__ import annotations

import numpy as np

from fairopt.blocks.constraints import EnvyFree
from fairopt.evidence.pool import EnvyBottlenecks
from fairopt.formulation.program import Program
from fairopt.methods.arrays import Bool, Float
from fairopt.methods.settings import Proposals, Settings
from fairopt.proofs.envy import EnvyProgram, EnvyRatios
from fairopt.proofs.proposal import Proposal
from fairopt.runtime.progress import tell

CLOSE = 1e-12  # relatively: rows and resources as near as this stop users
LARGEST = 20_000  # users: a stage looks at all pairs, which takes seconds


def envy_free_applies(program: Program) -> bool:
    """Whether water-filling with ratios is exact: leximin or max-min on one pool under envy-freeness and bounds."""
    if not program.single or not program.term.is_smallest or not program.rest:
        return False
    usable = bool((program.usable > 0).all()) and float(program.high.min(initial=np.inf)) > 0
    return usable and program.instance.n_users <= LARGEST and all(type(c) is EnvyFree for c in program.rest)


def solve_envy_free(program: Program, settings: Settings) -> Proposals:
    """Leximin or max-min without envy; nothing is proposed where the lower bounds do not fit."""
    envy = EnvyProgram(program)
    found = _fill(program, envy)
    if found is not None:
        tasks, prices = found
        yield Proposal("water-filling", tasks, EnvyBottlenecks(envy, prices))


def _fill(program: Program, envy: EnvyProgram) -> tuple[Float, Float] | None:
    """Tasks, and the derivatives of the lowest level; None if they were not found."""
    ratios, weights = envy.ratios, program.instance.weights
    c = envy.share().coefficients(program.instance, True)
    loads, usable = program.pairs.loads * weights, program.usable  # of a task per weight
    floor = ratios.least_above(program.low / weights) if program.low.any() else np.zeros(ratios.n)
    most = program.high / weights
    if np.isfinite(most).any():
        most = ratios.most_below(most)
    if (floor > most * (1 + CLOSE)).any() or (loads @ floor > usable * (1 + CLOSE)).any():
        return None
    floor, limits, rising = np.minimum(floor, most), most * c, np.ones(ratios.n, dtype=bool)
    prices: Float | None = None
    while rising.any():
        tell("levels without envy, users settled", ratios.n - int(rising.sum()), ratios.n)
        floor, slope = _risen(ratios, loads, usable, floor, np.where(rising, 1 / c, 0.0), limits)
        full = loads @ floor >= usable * (1 - CLOSE)
        if prices is None:  # of the resource that is full first, if a limit does not come before
            rates = np.where(full & ~(floor * c >= limits * (1 - CLOSE)).any(), loads @ slope, 0.0)
            held = rates > 0
            prices = np.divide(1.0, rates, out=np.zeros(len(usable)), where=held) / max(int(held.sum()), 1)
        needed = (loads[full] > 0).any(axis=0)
        stopped = rising & (
            (ratios.most_below(np.where(needed, floor, np.inf)) <= floor * (1 + CLOSE)) | (floor >= most * (1 - CLOSE))
        )
        if not stopped.any():
            return None
        rising &= ~stopped
    assert prices is not None
    return floor * weights, prices


def _risen(
    ratios: EnvyRatios, loads: Float, usable: Float, floor: Float, per_level: Float, limits: Float
) -> tuple[Float, Float]:
    """The least point above a floor at which users with ``per_level`` tasks at level 1 have the highest level that
    fits, or their limits; and by how much users rise with the level there.
    """
    rising = per_level > 0
    steps = np.unique(limits[rising & np.isfinite(limits)])

    def at(level: float) -> Float:
        return np.maximum(floor, ratios.least_above(per_level * np.minimum(level, np.where(rising, limits, 0.0))))

    low, high = 0, len(steps)  # the first limits that can be reached by all
    while low < high:
        middle = (low + high) // 2
        if (loads @ at(steps[middle]) <= usable).all():
            low = middle + 1
        else:
            high = middle
    base = at(steps[low - 1]) if low else floor
    more = rising & (limits > (steps[low - 1] if low else 0.0))
    if not more.any():
        return base, np.zeros(ratios.n)
    rate = ratios.least_above(np.where(more, per_level, 0.0))
    level = min(_highest(load, room, base, rate) for load, room in zip(loads, usable, strict=True))
    return np.maximum(base, rate * level), np.where(rate * level >= base, rate, 0.0)


def _highest(load: Float, room: float, base: Float, rate: Float) -> float:
    """The largest t with ``sum_j load_j max(base_j, rate_j t) <= room``."""
    moves: Bool = (load > 0) & (rate > 0)
    if not moves.any():
        return np.inf
    rest = room - float(load[~moves] @ base[~moves])
    load, base, rate = load[moves], base[moves], rate[moves]
    begins = base / rate
    order = np.argsort(begins)
    later = float(load @ base) - np.cumsum((load * base)[order])
    found = (rest - later) / np.cumsum((load * rate)[order])  # if the first so many users have begun to rise
    return float(found[np.argmax(found <= np.append(begins[order][1:], np.inf))])
