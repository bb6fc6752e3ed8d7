"""Division level by level, and water-filling of one resource among the queues of a level."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from fairopt_clusters.read.queues.tree import Queue, QueueTree

Divide = Callable[[str, str, Sequence[Queue], float], Sequence[float]]


def by_level(tree: QueueTree, total: Mapping[str, float], divide: Divide) -> dict[str, dict[str, float]]:
    """What queues get if those below each divide what it got, one resource at a time.

    ``divide`` is called with the resource, the name of the queue above (empty at the top), the queues and the amount.
    """
    parts: dict[str, dict[str, float]] = {queue.name: {} for queue in tree.queues}
    for name, whole in total.items():
        waiting = [("", whole)]
        while waiting:
            above, amount = waiting.pop()
            below = tree.children[above]
            for queue, part in zip(below, divide(name, above, below, amount), strict=True):
                parts[queue.name][name] = part
                waiting += [(queue.name, part)] * bool(tree.children[queue.name])
    return parts


def by_use(
    bases: Sequence[float], most: Sequence[float], amount: float, asks: Sequence[tuple[int, float]] = ()
) -> list[float]:
    """What rows get of an amount in ever smaller steps, each for the row with the least use over its base.

    A base of 0 counts as used in full by any use: such rows are served when others are at 1, in their order, or if
    ``asks`` has their priorities and requests, those of the highest priority first, of these the one that waits for
    most.
    """
    parts = by_weight(bases, [min(cap, base) for cap, base in zip(most, bases, strict=True)], amount)
    left = max(amount - math.fsum(parts), 0.0)
    without = [j for j, base in enumerate(bases) if not base]
    priorities = sorted({asks[j][0] for j in without}, reverse=True) if asks else ()
    groups = [[j for j in without if asks[j][0] == one] for one in priorities] if asks else [[j] for j in without]
    for group in groups:
        waits = [asks[j][1] if asks else most[j] for j in group]
        for j, part in zip(group, _largest(waits, [most[j] for j in group], left), strict=True):
            parts[j] = part
        left = max(left - math.fsum(parts[j] for j in group), 0.0)
    rest = by_weight(bases, [cap - part for cap, part in zip(most, parts, strict=True)], left)
    return [part + more for part, more in zip(parts, rest, strict=True)]


def _largest(asks: Sequence[float], most: Sequence[float], amount: float) -> list[float]:
    """What rows get if the one that waits for most is served, until all wait for the same."""
    more = amount + max([ask for ask in asks if math.isfinite(ask)], default=0.0)
    waits = [(ask if math.isfinite(ask) else more, cap) for ask, cap in zip(asks, most, strict=True)]

    def parts(mark: float) -> list[float]:
        return [min(cap, max(0.0, wait - mark)) for wait, cap in waits]

    marks = sorted({0.0, *(wait for wait, _ in waits), *(max(0.0, wait - cap) for wait, cap in waits)})
    k = bisect_left(marks, -amount, key=lambda mark: -sum(parts(mark)))
    mark = marks[k]
    if k:
        low, least, largest = marks[k - 1], sum(parts(mark)), sum(parts(marks[k - 1]))
        mark -= (mark - low) * (amount - least) / (largest - least)
    return parts(mark)


def by_weight(weights: Sequence[float], most: Sequence[float], amount: float) -> list[float]:
    """The same multiple of its weight for each row, up to most; rows of weight 0 share what all others leave."""
    parts, left = [0.0] * len(weights), max(amount, 0.0)
    for weightless in (False, True):
        rows = [j for j, weight in enumerate(weights) if (not weight) == weightless]
        whole = float(len(rows)) if weightless else math.fsum(weights)
        for j in sorted(rows, key=lambda j: most[j] / (weights[j] or 1.0)):
            weight = weights[j] or 1.0
            parts[j] = min(most[j], left if whole <= weight else left * weight / whole)
            left = max(left - parts[j], 0.0)
            whole -= weight
    return parts
