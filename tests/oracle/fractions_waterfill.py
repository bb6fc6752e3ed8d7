"""Leximin on one pool in exact fractions, from the definition: slow, and obviously right.

At each stage the users who can still rise stand at ``min(high, max(low, z * per_level))`` for the largest common level
z that fits: it lies between the last level that fits, of those at which a user starts or stops to rise, and the next
one. Who could not get any more alone, at its limit or for want of a resource, stays where it is. The answer is checked
against the bottleneck condition, which is necessary and sufficient.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from fractions import Fraction

Number = Fraction | int | float
Row = list[Fraction]


def leximin(
    demands: Sequence[Sequence[Number]],
    capacities: Sequence[Number],
    per_task: Sequence[Number],
    weights: Sequence[Number] | None = None,
    limits: Sequence[Number | None] | None = None,
    floors: Sequence[Number] | None = None,
) -> Row | None:
    """Tasks of each user, exactly; None if the floors do not fit.

    ``per_task`` is the share that one task is worth (c_j), positive; ``limits`` are None for no limit.
    """
    n = len(demands)
    d = [[Fraction(v) for v in row] for row in demands]
    room = [Fraction(v) for v in capacities]
    worth = [Fraction(c) / Fraction(w) for c, w in zip(per_task, weights or [1] * n, strict=True)]
    low = [Fraction(v) for v in (floors or [0] * n)]
    high = [None if v is None or v == float("inf") else Fraction(v) for v in (limits or [None] * n)]
    if any(h is not None and v > h for v, h in zip(low, high, strict=True)) or not _fits(low, d, room):
        return None
    tasks, rising = list(low), set(range(n))
    while rising:
        tasks = _raise_together(tasks, rising, worth, low, high, d, room)
        full = [i for i in range(len(room)) if _load(tasks, d, i) >= room[i]]
        stuck = {j for j in rising if tasks[j] == high[j] or any(d[j][i] > 0 for i in full)}
        assert stuck, "a user always meets a limit or a full resource"
        rising -= stuck
    assert is_leximin(tasks, worth, low, high, d, room)
    return tasks


def dominant(demands: Sequence[Sequence[Number]], capacities: Sequence[Number], k: int = 1) -> Row:
    """The product of the k largest ratios of each user, exactly."""
    out = []
    for row in demands:
        ratios = sorted((Fraction(d) / Fraction(c) for d, c in zip(row, capacities, strict=True) if d), reverse=True)
        product = Fraction(1)
        for r in ratios[:k]:
            product *= r
        out.append(product)
    return out


def is_leximin(tasks: Row, worth: Row, low: Row, high: list[Fraction | None], d: list[Row], room: Row) -> bool:
    """The bottleneck condition: below its limit each user uses a full resource of which no user has more to give."""
    level = [t * c for t, c in zip(tasks, worth, strict=True)]
    full = [i for i in range(len(room)) if _load(tasks, d, i) == room[i]]

    def held(j: int) -> bool:
        users = ([k for k in range(len(tasks)) if d[k][i] > 0 and tasks[k] > low[k]] for i in full if d[j][i] > 0)
        return any(all(level[k] <= level[j] for k in those) for those in users)

    return _fits(tasks, d, room) and all(tasks[j] == high[j] or held(j) for j in range(len(tasks)))


def _raise_together(
    tasks: Row, rising: set[int], worth: Row, low: Row, high: list[Fraction | None], d: list[Row], room: Row
) -> Row:
    def at(z: Fraction) -> Row:
        out = list(tasks)
        for j in rising:
            wanted, top = max(z / worth[j], low[j]), high[j]
            out[j] = wanted if top is None else min(wanted, top)
        return out

    starts = {low[j] * worth[j] for j in rising} | {Fraction(0)}
    turns = sorted(starts | {top * worth[j] for j in rising if (top := high[j]) is not None})
    # loads never fall as z rises, and are straight from one turn to the next
    k = bisect(turns, False, key=lambda z: not _fits(at(z), d, room))
    a, b = turns[k - 1], turns[k] if k < len(turns) else turns[-1] + 1
    before, after = at(a), at(b)
    candidates = [a]
    for i in range(len(room)):
        start, end = _load(before, d, i), _load(after, d, i)
        if end > start:
            candidates.append(a + (room[i] - start) / (end - start) * (b - a))
    return at(max(z for z in candidates if _fits(at(z), d, room)))


def _load(tasks: Row, d: list[Row], i: int) -> Fraction:
    return sum((t * row[i] for t, row in zip(tasks, d, strict=True) if row[i]), Fraction(0))


def _fits(tasks: Row, d: list[Row], room: Row) -> bool:
    return all(_load(tasks, d, i) <= room[i] for i in range(len(room)))
