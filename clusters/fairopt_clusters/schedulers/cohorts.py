"""Nodes of Kueue's tree of cohorts and ClusterQueues: what they have, lend and use, and their dominant share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

from fairopt_clusters.read.queues.cohorts import QueueNode
from fairopt_clusters.read.queues.tree import QueueTree, Workload

Amounts = Mapping[str, float]


class DominantShare(NamedTuple):
    """The dominant resource share of a node, before its weight, in thousandths; the resource; what it borrows."""

    ratio: float
    weight: float
    resource: str = ""
    borrowed: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[bool, float]:
        """What shares are compared by: who borrows with a weight of 0 is above all others."""
        above = self.weight == 0 and self.ratio > 0
        return above, self.ratio if above else self.weighted

    @property
    def weighted(self) -> float:
        """The share by weight, as Kueue writes it to metrics."""
        if not self.ratio:
            return 0.0
        return self.ratio / self.weight if self.weight else math.inf

    @property
    def rounded(self) -> float:
        """The share by weight, rounded up; infinite for who borrows with a weight of 0."""
        return math.ceil(self.weighted) if math.isfinite(self.weighted) else math.inf

    def borrows_any(self, requested: Iterable[str]) -> bool:
        """Whether it borrows one of some resources."""
        return not {*self.borrowed}.isdisjoint(requested)


@dataclass(eq=False)
class Node(QueueNode[str]):
    """A cohort or a ClusterQueue; amounts are by resource, or by ``flavor:resource``."""

    weight: float = 1.0
    rules: Mapping[str, str] = field(default_factory=dict)  # on whom it may preempt
    used: dict[str, float] = field(default_factory=dict)

    @property
    def root(self) -> Node:
        """The node at the top."""
        return self.above(itself=True)[-1]

    @cached_property
    def height(self) -> int:
        """How many levels are below it."""
        return max((1 + child.height for child in self.children), default=0)

    def own(self, name: str) -> float:
        """Its own nominal quota."""
        return self.nominal.get(name, 0)

    def available(self, name: str) -> float:
        """What it could still use; negative where more is used than there is."""
        used, quota = self.used.get(name, 0), self.quota.get(name, 0)
        if self.parent is None:
            return quota - used
        local = self.local(name)
        there = self.parent.available(name)
        if name in self.borrowing:
            there = min(there, quota - local - max(0, used - local) + self.borrowing[name])
        return max(0, local - used) + there

    def fits(self, request: Amounts) -> bool:
        """Whether it could use so much more."""
        return not self.lacks(request)

    def lacks(self, request: Amounts) -> list[str]:
        """The resources of which it could not use so much more."""
        return [name for name, amount in request.items() if amount > max(0, self.available(name))]

    def add(self, amounts: Amounts, sign: int = 1) -> None:
        """Use amounts, here and above, or free them with a ``sign`` of -1."""
        for name, amount in amounts.items():
            node: Node | None = self
            change = sign * amount
            while node is not None and change:
                before = node.used.get(name, 0)
                node.used[name] = before + change
                local = node.local(name)
                change = max(0, node.used[name] - local) - max(0, before - local)
                node = node.parent

    def share(self, extra: Amounts | None = None) -> DominantShare:
        """Its dominant resource share, with ``extra`` use."""
        weight = self.weight
        if self.parent is None:
            return DominantShare(0.0, weight)
        over = {n: (extra or {}).get(n, 0) + self.used.get(n, 0) - quota for n, quota in self.quota.items()}
        over = {name: amount for name, amount in over.items() if amount > 0}
        lendable: dict[str, float] = {}
        for name in self.above()[-1].quota if over else ():
            one = resource_of(name)
            lendable[one] = lendable.get(one, 0.0) + self.parent.potential(name)
        borrowed: dict[str, float] = {}
        for name, amount in over.items():
            borrowed[resource_of(name)] = borrowed.get(resource_of(name), 0.0) + amount
        ratios = {
            one: amount * 1000.0 / lendable[one] for one, amount in borrowed.items() if lendable.get(one, 0.0) > 0
        }
        if not ratios:
            return DominantShare(0.0, weight, "", tuple(over))
        ratio, resource = min((-ratio, one) for one, ratio in ratios.items())
        return DominantShare(-ratio, weight, resource, tuple(over))


def resource_of(name: str) -> str:
    """The resource of ``flavor:resource``."""
    return name.rpartition(":")[2]


def exact(amounts: Amounts) -> dict[str, Any]:
    """Amounts as the decimals that they are written as, in fractions, so that sums of them are exact."""
    return {name: _exact(amount) for name, amount in amounts.items()}


def exactly(one: Workload) -> Workload:
    """A workload in exact amounts."""
    parts = tuple(part._replace(ways=tuple(map(exact, part.ways))) for part in one.parts)
    return one._replace(uses=exact(one.uses), parts=parts)


def _exact(amount: float) -> Any:
    """An amount as a whole number or a fraction, infinite if it is."""
    if math.isinf(amount):
        return amount
    return int(amount) if amount % 1 == 0 else Fraction(amount).limit_denominator(10**12)


def nodes_of(tree: QueueTree, number: Callable[[Amounts], dict[str, float]] = dict) -> dict[str, Node]:
    """The nodes of a tree, with what queues use, in its order; amounts as ``number`` has them, such as `exact`."""
    nodes = {
        one.name: Node(
            one.name,
            number(one.guarantee),
            number(one.lending),
            number(one.borrowing),
            weight=one.weight,
            rules=one.notes,
            is_queue=not tree.children[one.name],
        )
        for one in tree.queues
    }
    for queue in tree.queues:
        if queue.parent:
            nodes[queue.name].put_below(nodes[queue.parent])
    for queue in tree.queues:
        nodes[queue.name].add(number(queue.used))
    return nodes
