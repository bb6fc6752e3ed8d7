"""Leximin on one pool in many digits, where the rounding of floats may decide levels.

In units of level, user j needs ``l_ji = w_j d_ji / c_j`` of resource i per unit of its level ``z_j = c_j x_j / w_j``.
Progressive filling (Bertsekas and Gallager 1992, ch. 6) raises one level t of all who rise. With ``fixed_i`` the loads
that do not change and ``slope_i`` the sum of ``l_ji`` of those who rise, the next event is the smallest of

    t = (usable_i - fixed_i) / slope_i,   a lower bound at which a user begins to rise,   a limit at which it stops.

Floats lose levels where loads differ by much: a user who needs 1e-12 of a resource rises by 1e12 times what rounding
leaves of it. With 100 digits that is 1e-88, and the answer is rounded once, at the end. Why not fractions: sums over
users of different denominators grow to the digits of all of them. The loop is one of Python, 0.05 s for 1,000 users of
4 resources. It is asked only where rounding decides levels in floats, and the gate judges its answer like any other
(Proposition 4.2 in docs/methods/pool.md).
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from fairopt.errors import OutOfDomain
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import check
from fairopt.solve.form.program import Program

DIGITS = 100  # significant
FULL = Decimal("1e-60")  # relative: what rounding leaves of a full resource, 1e-100 a step, and far below all data
WIDTH = Fraction(1, 10**DIGITS)  # of coefficients


def fill(program: Program) -> Float | None:
    """The tasks of leximin by water-filling, rounded once; None for a share without an exact formula.

    The level of all who rise is raised from event to event: a user leaves its lower bound, or reaches its limit, or a
    resource is full, where all who need it stop.
    """
    instance, share = program.instance.derived.of_floats(), program.term.share
    exact = instance.in_fractions
    try:
        c = [row[0].low for row in share.enclosed(instance, WIDTH)]
    except OutOfDomain:
        return None
    with localcontext(prec=DIGITS):
        zero, m = Decimal(0), instance.n_resources
        usable = [_decimal(u * Fraction(float(p))) for u, p in zip(exact.total_capacities, program.usable, strict=True)]
        size = [_decimal(v / w) for v, w in zip(c, exact.weights, strict=True)]  # the level of a task
        demands = [list(map(_decimal, row)) for row in exact.per_server_demands[:, 0]]
        load = [{i: d / v for i, d in enumerate(row) if d} for row, v in zip(demands, size, strict=True)]
        low = [_decimal(Fraction(float(x))) * v for x, v in zip(program.low, size, strict=True)]
        high = [v * _decimal(Fraction(float(x))) for x, v in zip(program.high, size, strict=True) if x < np.inf]
        limited = np.flatnonzero(program.high < np.inf).tolist()
        events = [(at, 0, j) for j, at in enumerate(low)] + [(at, 1, j) for at, j in zip(high, limited, strict=True)]
        events.sort(reverse=True)
        fixed, slope, level = [zero] * m, [zero] * m, zero
        rising, final = set[int](), dict[int, Decimal]()

        def add(j: int, at: Decimal, rate: int) -> None:
            for i, d in load[j].items():
                fixed[i] += d * at
                slope[i] += d * rate

        for j, at in enumerate(low):  # all hold their lower bounds before anybody rises
            add(j, at, 0)
        closed = set[int]()
        while len(final) < len(low):
            check()
            rest = {i: usable[i] - fixed[i] for i in range(m) if slope[i] > 0 and i not in closed}
            # before the next event: what a limit or a lower bound just filled stops its users at this level
            full = {i for i, left in rest.items() if left - slope[i] * level <= FULL * usable[i]}
            if not full:
                reach, first = min(((left / slope[i], i) for i, left in rest.items()), default=(Decimal("inf"), -1))
                if first < 0 or (events and events[-1][0] <= reach):
                    if not events:
                        return None
                    at, ends, j = events.pop()
                    level = max(level, at)
                    if j in final:
                        continue
                    if ends:
                        final[j] = at
                        rising.discard(j)
                        add(j, at, -1)
                    else:
                        rising.add(j)
                        add(j, -at, 1)
                    continue
                level, full = reach, {first}
            closed |= full
            for j in [j for j in range(len(low)) if j not in final and not full.isdisjoint(load[j])]:
                final[j] = level if j in rising else low[j]
                if j in rising:
                    rising.remove(j)
                    add(j, level, -1)
        return np.array([float(final[j] / size[j]) for j in range(len(low))])


def _decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)
