"""The division of queues by the KAI Scheduler."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from fairopt.blocks import ByUser
from fairopt.errors import InvalidBlock
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers.base import Deployed, request_of
from fairopt_clusters.schedulers.filling import by_level

UNLIMITED = "an unlimited quota of"  # a note of a queue


@dataclass(frozen=True)
class KAI(Deployed):
    """What KAI gives queues: what they deserve, then what is over by priority and weight in whole units.

    At each level, for each resource by itself, a queue first gets the least of what it deserves, asks for and may have;
    together these may exceed what there is. What is left goes to queues of the highest priority first, by weight: a
    queue that asks for no more than its part gets what it asks for, another one its part without the fraction, and this
    is repeated while somebody was satisfied. At last single units go to the largest fractions, then to the queue made
    first. The last step does not look at what a queue asks for.

    Parameters
    ----------
    k : float, default 0
        How much past use lowers the weight: a queue of a part w of the weights and u of past use has
        ``max(0, w + k (w - u))``.
    units : dict of float by resource, optional
        What is divided in whole: default a GPU, a thousandth of a core, a byte where memory is in GiB; others are in
        pieces.

    Notes
    -----
    From ``pkg/scheduler/plugins/proportion/resource_division/resource_division.go`` and ``proportion.go`` of KAI at
    d5bc503a; the arithmetic is the same at 72de64fc.

    Examples
    --------
    >>> import fairopt_clusters as fc
    >>> from fairopt_clusters import Queue, QueueTree
    >>> queues = tuple(Queue(name, weight=weight) for name, weight in (("a", 5), ("b", 3), ("c", 1)))
    >>> [fc.schedulers.KAI().divide(QueueTree("KAI", queues, {"gpu": gpus}))["gpu"].tolist() for gpus in (4, 5)]
    [[2.0, 1.0, 1.0], [3.0, 2.0, 0.0]]
    """

    k: float = 0.0
    units: Mapping[str, float] = field(default_factory=lambda: {"cpu": 1e-3, "memory": 2.0**-30})

    scheduler: ClassVar[str] = "KAI"
    source: ClassVar[str] = "resource_division.go of KAI at d5bc503a"

    def __post_init__(self) -> None:
        if not 0 <= self.k < math.inf:
            raise InvalidBlock(f"KAI: k is {self.k!r}; give a finite number >= 0")
        object.__setattr__(self, "units", ByUser(self.units))

    def _divided(self, tree: QueueTree) -> dict[str, dict[str, float]]:
        asked, units = request_of(tree), {name: self.units.get(name, 1.0) for name in tree.total()}

        def divide(name: str, _above: str, below: Sequence[Queue], amount: float) -> list[float]:
            rows = [Row.of(queue, name, asked[queue.name][name], units[name], amount) for queue in below]
            divide_one(rows, amount, self.k)
            return [row.given for row in rows]

        whole = by_level(tree, {name: there / units[name] for name, there in tree.total().items()}, divide)
        return {queue: {name: part * units[name] for name, part in of.items()} for queue, of in whole.items()}


@dataclass(eq=False)
class Row:
    """A queue and one resource, in units."""

    name: str
    deserved: float
    weight: float
    asks: float
    priority: int
    past: float
    created: float
    given: float = 0.0

    @classmethod
    def of(cls, queue: Queue, resource: str, request: float, unit: float, amount: float) -> Row:
        """A queue among those that share an amount."""
        deserved = queue.guarantee.get(resource, 0.0) / unit
        if f"{UNLIMITED} {resource}" in queue.notes or math.isinf(deserved):
            deserved = amount
        asks = min(request, queue.limit.get(resource, math.inf)) / unit
        weight = queue.weights.get(resource, 0.0) if queue.weights else queue.weight
        past = queue.past.get(resource, 0.0)
        return cls(queue.name, deserved, weight, asks, queue.priority or 0, past, queue.created)

    @property
    def open(self) -> bool:
        """Whether it asks for more."""
        return self.given < self.asks


def divide_one(rows: Sequence[Row], amount: float, k: float = 0.0) -> float:
    """Divide an amount: what is deserved, then what is over; what nobody took is returned."""
    for row in rows:
        deserved = min(row.deserved, row.asks)
        row.given += deserved
        amount -= deserved
    return divide_over(rows, amount, k) if amount > 0 else 0.0


def divide_over(rows: Sequence[Row], amount: float, k: float = 0.0) -> float:
    """Divide what is over quota, by priority and weight."""
    levels = [[row for row in rows if row.priority == level] for level in sorted({r.priority for r in rows})[::-1]]
    fractions: list[dict[str, tuple[float, Row]]] = []
    for level in levels:
        fractions.append({})
        amount = _by_weight(level, amount, k, fractions[-1])
    for fraction in fractions:
        order = sorted(fraction.values(), key=lambda one: (-one[0], one[1].created, one[1].name))
        for _, row in order:
            if amount <= 0:
                return amount
            one = min(1.0, amount)
            row.given += one
            amount -= one
    return amount


def _by_weight(rows: Sequence[Row], amount: float, k: float, fractions: dict[str, tuple[float, Row]]) -> float:
    """Rounds by weight in whole units, until nobody is satisfied; fractions that were not given are noted."""
    again = True
    while again and amount != 0:
        again, there = False, amount
        waiting = [row for row in rows if row.open]
        weights = sum(row.weight for row in waiting)
        if not weights:
            break
        parts = {row.name: max(0.0, row.weight / weights + k * (row.weight / weights - row.past)) for row in waiting}
        whole = sum(parts.values())
        if not whole:
            break
        for row in waiting:
            if amount == 0 or not row.weight:
                continue
            share, asks = there * (parts[row.name] / whole), row.asks - row.given
            if asks <= share:
                fractions.pop(row.name, None)
            elif share > math.floor(share):
                fractions[row.name] = (share - math.floor(share), row)
            given = asks if asks <= share else float(max(math.floor(share), 0))
            row.given += given
            amount -= given
            again = again or (given != 0 and asks < share)
    return amount
