"""Water-filling of one resource by use over a base, as schedulers that serve the lowest ratio first."""

from __future__ import annotations

import math
from collections.abc import Sequence


def filled(bases: Sequence[float], most: Sequence[float], amount: float) -> list[float]:
    """What rows get of an amount in ever smaller steps, each for the row with the least use over its base.

    A base of 0 counts as used in full by any use: such rows are served, in their order, when others are at 1.
    """
    given, order = [0.0] * len(bases), range(len(bases))
    based = [j for j in order if bases[j] > 0]
    spent = level(based, bases, [min(cap, base) for cap, base in zip(most, bases, strict=True)], amount, given)
    rest = _in_turn([j for j in order if not bases[j]], most, amount - spent, given)
    level(based, bases, [cap - has for cap, has in zip(most, given, strict=True)], rest, given)
    return given


def _in_turn(rows: Sequence[int], most: Sequence[float], amount: float, given: list[float]) -> float:
    """Serve rows one after the other; what is left is returned."""
    for j in rows:
        given[j] = min(most[j], amount)
        amount -= given[j]
    return amount


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
