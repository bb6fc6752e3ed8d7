"""Division level by level, and water-filling of one resource among the queues of a level."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from fairopt.datasets import Queue, QueueTree

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


def by_use(bases: Sequence[float], most: Sequence[float], amount: float) -> list[float]:
    """What rows get of an amount in ever smaller steps, each for the row with the least use over its base.

    A base of 0 counts as used in full by any use: such rows are served, in their order, when others are at 1.
    """
    parts = by_weight(bases, [min(cap, base) for cap, base in zip(most, bases, strict=True)], amount)
    left = max(amount - math.fsum(parts), 0.0)
    for j, base in enumerate(bases):
        if not base:
            parts[j] = min(most[j], left)
            left -= parts[j]
    rest = by_weight(bases, [cap - part for cap, part in zip(most, parts, strict=True)], left)
    return [part + more for part, more in zip(parts, rest, strict=True)]


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
