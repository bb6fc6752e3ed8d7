"""Water-filling of one resource by use over a base, as schedulers that serve the lowest ratio first."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence


def filled(
    bases: Sequence[float], most: Sequence[float], amount: float, asks: Sequence[tuple[int, float]] = ()
) -> list[float]:
    """What rows get of an amount in ever smaller steps, each for the row with the least use over its base.

    A base of 0 counts as used in full by any use: such rows are served when others are at 1, in their order, or if
    ``asks`` has their priorities and requests, those of the highest priority first, of these the one that waits for
    most.
    """
    given, order = [0.0] * len(bases), range(len(bases))
    based = [j for j in order if bases[j] > 0]
    spent = level(based, bases, [min(cap, base) for cap, base in zip(most, bases, strict=True)], amount, given)
    rest, without = amount - spent, [j for j in order if not bases[j]]
    for priority in sorted({asks[j][0] for j in without}, reverse=True) if asks else ():
        of = [j for j in without if asks[j][0] == priority]
        rest -= _largest(of, [asks[j][1] for j in of], most, max(rest, 0.0), given)
    rest = rest if asks else _in_turn(without, most, rest, given)
    level(based, bases, [cap - has for cap, has in zip(most, given, strict=True)], rest, given)
    return given


def _in_turn(rows: Sequence[int], most: Sequence[float], amount: float, given: list[float]) -> float:
    """Serve rows one after the other; what is left is returned."""
    for j in rows:
        given[j] = min(most[j], amount)
        amount -= given[j]
    return amount


def _largest(
    rows: Sequence[int], asks: Sequence[float], most: Sequence[float], amount: float, given: list[float]
) -> float:
    """Serve the row that waits for most, until all wait for the same; what was spent is returned."""
    more = amount + max([ask for ask in asks if math.isfinite(ask)], default=0.0)
    waits = [(ask if math.isfinite(ask) else more, most[j]) for j, ask in zip(rows, asks, strict=True)]

    def parts(mark: float) -> list[float]:
        return [min(cap, max(0.0, wait - mark)) for wait, cap in waits]

    marks = sorted({0.0, *(wait for wait, _ in waits), *(max(0.0, wait - cap) for wait, cap in waits)})
    k = bisect_left(marks, -amount, key=lambda mark: -sum(parts(mark)))
    mark = marks[k]
    if k:
        low, least, largest = marks[k - 1], sum(parts(mark)), sum(parts(marks[k - 1]))
        mark -= (mark - low) * (amount - least) / (largest - least)
    for j, part in zip(rows, parts(mark), strict=True):
        given[j] = part
    return sum(parts(mark))


def level(
    rows: Sequence[int], bases: Sequence[float], most: Sequence[float], amount: float, given: list[float]
) -> float:
    """Add to rows the same multiple of their bases, up to most; what was spent is returned."""
    left, whole = amount, math.fsum(bases[j] for j in rows)
    for j in sorted(rows, key=lambda j: most[j] / bases[j]):
        if left <= 0:
            break
        share = left if whole <= bases[j] else left * bases[j] / whole
        one = min(most[j], share)
        given[j] += one
        left -= one
        whole -= bases[j]
    return amount - max(left, 0.0)
