"""What queues ask for of each flavor: workloads that find the first one full go on to the next one.

As workloads become ever smaller, each asks for all of its amount in its first flavor. What a division does not give
there it asks for in the second one, and so on; as others do so too, a flavor gives each less, never more, so that the
steps end at one point, whatever the order of queues. A queue with ``whenCanBorrow: TryNextFlavor`` first asks for what
it owns of each flavor, and then, from the first on, for more. Each resource is by itself, as in the division.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from fairopt_clusters.read.queues.tree import QueueTree, Workload
from fairopt_clusters.schedulers.base import Given
from fairopt_clusters.schedulers.cohorts import resource_of
from fairopt_clusters.schedulers.start import NEXT, WHEN_BORROW, parts_of

MOST_STEPS = 1000
_LEAST = 1e-12  # of an amount: less is rounding


@dataclass
class _Asking:
    """An amount of a queue, and what it asks for in each step: a cell, and at most so much there."""

    amount: float
    steps: list[tuple[str, float]]
    asks: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.asks = [0.0] * len(self.steps)


def with_work(
    tree: QueueTree, running: Sequence[Workload], waiting: Sequence[Workload], divide: Callable[[QueueTree], Given]
) -> QueueTree:
    """The tree whose queues hold what runs in them, and ask for what runs or waits."""
    used = {one.name: dict[str, float]() for one in tree.queues}
    for one in running:
        for cell, amount in one.uses.items():
            used[one.queue][cell] = used[one.queue].get(cell, 0.0) + amount
    tree = asking_in_order(tree, (*running, *waiting), divide)
    return replace(tree, queues=tuple(replace(one, used=used[one.name]) for one in tree.queues))


def asking_in_order(tree: QueueTree, work: Iterable[Workload], divide: Callable[[QueueTree], Given]) -> QueueTree:
    """The tree whose queues ask for what workloads in them use, or would use, of each flavor."""
    classes = dict[tuple[str, tuple[str, ...]], _Asking]()
    cells = {one.name: [*one.guarantee] for one in tree.queues}
    for one in work:
        queue, amounts = tree.by_name[one.queue], dict[tuple[str, ...], float]()
        for part in parts_of(one):
            for name in dict.fromkeys(map(resource_of, part.ways[0] if part.ways else ())):
                mine = [cell for way in part.ways for cell in way if resource_of(cell) == name]
                mine = [cell for cell in mine if cell in queue.guarantee]
                amount = next(way[cell] for way in part.ways for cell in way if resource_of(cell) == name)
                amounts[tuple(mine)] = amounts.get(tuple(mine), 0.0) + float(amount)
        for key, amount in amounts.items():
            own = [(cell, queue.guarantee[cell]) for cell in key] * (queue.notes.get(WHEN_BORROW) == NEXT)
            of = classes.setdefault((one.queue, key), _Asking(0.0, [*own, *((cell, float("inf")) for cell in key)]))
            of.amount += amount
    for _ in range(MOST_STEPS):
        asked = {name: dict.fromkeys(cells[name], 0.0) for name in cells}
        for (queue_of, _), of in classes.items():
            for (cell, _), amount in zip(of.steps, of.asks, strict=True):
                asked[queue_of][cell] += amount
        leaves = {one.name for one in tree.leaves}
        queues = [replace(one, request=asked[one.name]) if one.name in leaves else one for one in tree.queues]
        tree = replace(tree, queues=tuple(queues))
        given, moved = divide(tree), False
        for (queue_of, _), of in classes.items():
            left = of.amount
            for k, (cell, most) in enumerate(of.steps):
                wants = max(of.asks[k], min(left, most))
                moved |= wants > of.asks[k] + _LEAST * of.amount
                all_of_it = asked[queue_of][cell]
                of.asks[k] = wants
                left = max(0.0, left - (wants * min(1.0, given[queue_of][cell] / all_of_it) if all_of_it else wants))
        if not moved:
            break
    return tree
