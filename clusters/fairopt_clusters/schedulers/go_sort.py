"""Go's stable sort, step by step: with an order in which some pairs have none, the result depends on the steps."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import TypeVar

One = TypeVar("One")
BLOCK = 20


def stable_in_go(given: Iterable[One], before: Callable[[One, One], bool]) -> list[One]:
    """What ``sort.SliceStable`` of Go makes of a list: blocks of 20 by insertion, then merges in place (SymMerge)."""
    out = [*given]
    for start in range(0, len(out), BLOCK):
        for k in range(start + 1, min(start + BLOCK, len(out))):
            while k > start and before(out[k], out[k - 1]):
                out[k - 1], out[k] = out[k], out[k - 1]
                k -= 1
    size = BLOCK
    while size < len(out):
        for start in range(0, len(out) - size, 2 * size):
            _merge(out, start, start + size, min(start + 2 * size, len(out)), before)
        size *= 2
    return out


def _merge(out: list[One], first: int, middle: int, end: int, before: Callable[[One, One], bool]) -> None:
    """Merge two neighbouring sorted parts of a list."""
    if middle - first == 1:  # goes behind all that are before it
        one = out[first]
        place = bisect_left(range(middle, end), True, key=lambda k: not before(out[k], one)) + middle
        out[first:place] = [*out[middle:place], one]
    elif end - middle == 1:  # goes before all that it is before
        one = out[middle]
        place = bisect_left(range(first, middle), True, key=lambda k: before(one, out[k])) + first
        out[place:end] = [one, *out[place:middle]]
    else:
        centre = (first + end) // 2
        both = centre + middle
        low, high = (both - end, centre) if middle > centre else (first, middle)
        low += bisect_left(range(low, high), True, key=lambda k: before(out[both - 1 - k], out[k]))
        top = both - low
        if low < middle < top:
            out[low:top] = [*out[middle:top], *out[low:middle]]
        if first < low < centre:
            _merge(out, first, low, centre, before)
        if centre < top < end:
            _merge(out, centre, top, end, before)
