"""The gap of leximin on small pools in fractions, where the rounding of floats may decide levels (Proposition 15.5).

Where users hold a part p of the resource that fixes them, errors of lower levels grow by 1 / p. Over several resources
these factors multiply: with 1e-6 of two in a row, floats moved the last level by 1e-5. Here a common level t rises
while, for each resource i that somebody left needs,

    sum_(k settled) a_ki U_k + sum_(j rising) a_ji kappa_j(t) <= 1,   kappa_j(t) = max(low_j, min(t, high_j)),

with upper bounds U on settled levels: kappa_j(t) then bounds the levels of all others from below. Where a resource
admits no more, its users are settled, at most at ``L_j + (1 - sum_k a_ki L_k) / a_ji`` by the lower bounds L of all.

Fractions would be exact, and their digits grow with each event. So levels and loads are integers in units of 2^-200,
rounded outwards, with an interval for each level; where these are too wide, as of users who need very little of a full
resource, with 2,000 bits. The share of a task may be a root: then both ends of `Share.enclosed` are used. `fairopt
verify` has the same mathematics in code of its own (Proposition 15.5, docs/methods/evidence.md).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from fairopt.errors import OutOfDomain
from fairopt.proof.pool_gaps import MAX_USERS
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import check
from fairopt.runtime.tolerances import GAP_TOLERANCE, ROUNDING
from fairopt.solve.form.program import Program

BITS = 200  # of levels below the largest, and twice as many of loads; the second try has ten times as many


def exact_gap(program: Program, tasks: Float) -> float | None:
    """The gap of tasks on one pool against bounds on their levels (`WaterFilling`), of max-min on the lowest only.

    None for a share without an exact formula, or if levels differ too much. The level of those whom the lower bounds of
    others leave nothing is 0.
    """
    if program.instance.n_users > MAX_USERS:
        return None
    exactly = [Fraction(x) for x in tasks.tolist()]
    smallest, gap = not program.term.is_order, None
    for bits in (BITS, 10 * BITS):  # bounds lose digits if users need very little of a full resource
        try:
            water = WaterFilling(program, exactly, bits)
        except (OutOfDomain, ArithmeticError):
            return None
        if water.nothing and (smallest or len(water.nothing) == len(exactly)):
            return 0.0
        water.fill()
        held = {j: (math.floor(a * exactly[j]), math.ceil(b * exactly[j])) for j, (a, b) in enumerate(water.sizes)}
        held = {j: ends for j, ends in held.items() if j not in water.nothing}
        # a level of less than a unit: relative distances need more bits
        if min(low for low, _ in held.values()) <= 0:
            if all(exactly[j] > 0 for j in held):  # levels differ by more than 2^bits
                continue
            return None
        if smallest:
            best = min(water.upper.values())
            gap = Fraction(max(best - min(low for low, _ in held.values()), 0), best)
        else:
            rise = max(((water.upper[j] - low) << bits) // low for j, (low, _) in held.items())
            fall = max(((high - water.lower[j]) << bits) // high for j, (_, high) in held.items())
            gap = Fraction(max(rise, fall, -1) + 1, 1 << bits)
        if gap <= GAP_TOLERANCE:
            break
    try:
        return None if gap is None else float(gap)
    except OverflowError:
        return math.inf


class WaterFilling:
    """Bounds on max-min fair levels on a pool, as two integers per user.

    Levels are multiples of ``2^-bits`` of a unit near the largest one, loads multiples of ``1 / full``. Each of these
    has a lower and an upper bound: ``sizes``, levels of one task; ``rates``, loads of a level of 1 by user and resource
    (exact from below if less than 1); ``low`` and ``high``, levels at bounds. ``lower`` and ``upper`` are the results.
    ``nothing`` are the users without tasks to whom the lower bounds of others leave nothing but rounding.
    """

    def __init__(self, program: Program, tasks: list[Fraction], bits: int) -> None:
        instance = program.instance.derived.of_floats()
        exact, users = instance.in_fractions, range(instance.n_users)
        per_task = [row[0] for row in program.term.share.enclosed(instance, Fraction(1, 1 << bits))]
        largest = max(tasks[j] * per_task[j].low / exact.weights[j] for j in users)
        shift = bits - largest.numerator.bit_length() + largest.denominator.bit_length()
        scale, self.full = Fraction(1 << shift) if shift > 0 else Fraction(1, 1 << -shift), 1 << 2 * bits
        usable = [c * Fraction(float(part)) for c, part in zip(exact.total_capacities, program.usable, strict=True)]
        room, needs = [c / self.full for c in usable], exact.per_server_demands[:, 0].tolist()
        least = [Fraction(float(x)) for x in program.low.tolist()]
        self.sizes, self.rates = list[tuple[Fraction, Fraction]](), list[dict[int, tuple[Any, int]]]()
        self.low, self.high = list[tuple[int, int]](), dict[int, tuple[int, int]]()
        for j in users:
            check()
            a, b = (end * scale / exact.weights[j] for end in per_task[j])
            if a <= 0:
                raise ArithmeticError("tasks of a user have a share of 0")
            self.sizes.append((a, b))
            self.low.append((math.floor(least[j] * a), math.ceil(least[j] * b)))
            most = program.high[j] if all(r for d, r in zip(needs[j], room, strict=True) if d) else 0.0
            if most < np.inf:
                self.high[j] = (
                    math.floor(Fraction(float(most)) * a),
                    max(math.ceil(Fraction(float(most)) * b), self.low[j][1]),
                )
            # a rate below one unit of 2^-400 would be 0 as an integer, and a resource that is needed as if it were not
            self.rates.append(
                {
                    i: (math.floor(d / (r * b)) or d / (r * b), math.ceil(d / (r * a)))
                    for i, (d, r) in enumerate(zip(needs[j], room, strict=True))
                    if d and r
                }
            )
        self.lower, self.upper = dict[int, int](), dict[int, int]()
        self.fixed, self.slope = [0] * len(room), [0] * len(room)  # at a level t loads are at most fixed + slope * t
        near = 1 - Fraction(ROUNDING)  # as in floats: what lower bounds leave may be the rounding of their own sum
        at_bounds = (sum((needs[j][i] * least[j] for j in users), Fraction(0)) for i in range(len(room)))
        taken = {i for i, load in enumerate(at_bounds) if load >= usable[i] * near}
        self.nothing = {j for j in users if not tasks[j] and any(needs[j][i] for i in taken)}

    def fill(self) -> None:
        """Raise a common level from 0, and fix the users who reach a full resource or their limit."""
        level, rising = 0, set[int]()
        starts = [(at, False, j) for j, (_, at) in enumerate(self.low)]
        events = sorted(starts + [(at, True, j) for j, (_, at) in self.high.items()], reverse=True)
        for low, _, j in starts:
            self.add(j, low, 0)
        closed = set[int]()
        while len(self.lower) < len(self.low):
            check()
            left = [(self.full - a - b * level, b) for a, b in zip(self.fixed, self.slope, strict=True)]
            # no further unit of level fits
            full = {i for i, (rest, b) in enumerate(left) if rest < max(b, 1)} - closed
            if full:
                self.settle(full, level, rising)
                closed |= full
                continue
            reach = min((level + rest // b for rest, b in left if b), default=None)
            if not events or (reach is not None and events[-1][0] > reach):
                level = reach or level
                continue
            at, stops, j = events.pop()
            level = max(level, at)  # a bound below the level was passed within a unit
            if j in self.lower:
                continue
            if stops:
                self.lower[j], self.upper[j] = self.high[j]
                rising.remove(j)
            else:
                rising.add(j)
            self.add(j, at if stops else -at, -1 if stops else 1)  # fixed + slope * level is the same before and after

    def add(self, j: int, level: int, times: int) -> None:
        """Add a user's load at a fixed level, and its rate ``times`` 1 or -1."""
        for i, (_, rate) in self.rates[j].items():
            self.fixed[i] += rate * level
            self.slope[i] += rate * times

    def settle(self, full: set[int], level: int, rising: set[int]) -> None:
        """Bound the levels of users who need a full resource by what its other users leave at least."""
        least, users = dict(self.lower), range(len(self.rates))
        for j in users:
            if j not in least:
                low, high = self.low[j][0], self.high.get(j)
                least[j] = max(low, level if high is None else min(level, high[0]))
        slack = dict.fromkeys(full, self.full)
        for j in users:
            for i in full.intersection(self.rates[j]):
                slack[i] -= math.floor(self.rates[j][i][0]) * least[j]
        for j in users:
            if j in self.lower or full.isdisjoint(self.rates[j]):
                continue
            rates = ((max(slack[i], 0), rate) for i, (rate, _) in self.rates[j].items() if i in full)
            most = (
                least[j]
                + 1
                + min(math.floor(r / rate) if isinstance(rate, Fraction) else r // rate for r, rate in rates)
            )
            self.lower[j], self.upper[j] = least[j], min(most, self.high[j][1]) if j in self.high else most
            rises = j in rising
            self.add(j, self.upper[j] - (0 if rises else self.low[j][1]), -1 if rises else 0)
            rising.discard(j)
