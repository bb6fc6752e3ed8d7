"""Kueue's quotas in a tree of cohorts: what a node and those below it have, keep, and could use.

What a node uses beyond what it does not lend (its quota less its lending limit) counts against its cohort, and likewise
for a cohort and its parent. A cohort has its own nominal quotas and what those below lend to it; the one at the top is
not exceeded, and others exceed theirs by at most their borrowing limits (``pkg/cache/scheduler/resource_node.go``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import inf
from typing import Any, Generic, NamedTuple, Self, TypeVar

MOST_LENDERS = 10  # children of a cohort that may use less than they do not lend, of which all combinations are rows
MOST_AHEAD = 6  # of which all combinations are rows that hold however much they use
Cell = TypeVar("Cell")


@dataclass(eq=False)
class QueueNode(Generic[Cell]):
    """A queue or a cohort: its quotas and limits by cell, which is a flavor and a resource, and its place."""

    name: str
    nominal: Mapping[Cell, float] = field(default_factory=dict)
    lending: Mapping[Cell, float] = field(default_factory=dict)
    borrowing: Mapping[Cell, float] = field(default_factory=dict)
    parent: Self | None = field(default=None, repr=False)
    children: list[Self] = field(default_factory=list, repr=False)
    is_queue: bool = False

    def put_below(self, parent: Self) -> None:
        """Give it its place, before quotas are asked for."""
        self.parent = parent
        parent.children.append(self)

    @cached_property
    def quota(self) -> dict[Cell, float]:
        """Its quotas, with what those below lend to it."""
        out = dict(self.nominal)
        for one in self.children:
            for cell, amount in one.quota.items():
                out[cell] = out.get(cell, 0) + amount - one.local(cell)
        return out

    def local(self, cell: Cell) -> float:
        """What it does not lend to the cohort above."""
        if cell not in self.lending or self.parent is None:
            return 0
        return max(0, self.quota.get(cell, 0) - self.lending[cell])

    def lends(self, cell: Cell) -> bool:
        """Whether some lending limit is in it or below it."""
        return cell in self.lending or any(one.lends(cell) for one in self.children)

    def limit(self, cell: Cell) -> float:
        """What it may use at most, whatever is free above it."""
        return self.quota.get(cell, 0) + (self.borrowing.get(cell, inf) if self.parent else 0)

    def potential(self, cell: Cell) -> float:
        """What it could use if nobody else used anything."""
        there = inf if self.parent is None else self.local(cell) + self.parent.potential(cell)
        return min(there, self.limit(cell))

    def above(self, itself: bool = False) -> list[Self]:
        """The nodes above it, the nearest first; or also ``itself``."""
        out, node = [self] if itself else [], self.parent
        while node is not None:
            out.append(node)
            node = node.parent
        return out


class Sum(NamedTuple):
    """Queues that use at most an amount together."""

    queues: tuple[str, ...]
    amount: float


class Together:
    """What queues of trees may use together, as sums of what they use."""

    def __init__(self, nodes: Iterable[QueueNode[Any]] = ()) -> None:
        self._nodes = [*nodes]
        self.partly = set[str]()  # cohorts of which not all rows are made
        self.now = set[str]()  # cohorts of which rows are for what queues can use now

    def nodes(self) -> Sequence[QueueNode[Any]]:
        """All queues and cohorts."""
        return self._nodes

    def sums(self, cell: Hashable, most: Mapping[str, float]) -> Iterator[tuple[QueueNode[Any], Sum]]:
        """What queues may use of a cell together; ``most`` is what each can use, and those not named use nothing.

        The sums do not depend on how much a queue that uses some can use, so that they hold for more tasks and servers
        too. Where queues lend parts of their quotas there may be too many of these (`now`): then on what they use now.
        """
        always = {name: inf for name, amount in most.items() if amount}
        for branch in self.nodes():
            limit = branch.limit(cell)
            if limit == inf:
                continue
            ahead = self._lenders(branch, cell, always) <= MOST_AHEAD
            if not ahead:
                self.now.add(branch.name)
            can = always if ahead else most
            for one in self.uses(branch, cell, can):
                if sum(can[name] for name in one.queues) > limit + one.amount:
                    yield branch, Sum(one.queues, limit + one.amount)

    def _lenders(self, branch: QueueNode[Any], cell: Hashable, most: Mapping[str, float]) -> int:
        """How many below a branch may use less than they do not lend."""
        if branch.is_queue:
            return 0
        below = [one for one in branch.children if not one.is_queue or most.get(one.name)]
        return sum((one.local(cell) > 0) + self._lenders(one, cell, most) for one in below)

    def uses(self, branch: QueueNode[Any], cell: Hashable, most: Mapping[str, float]) -> list[Sum]:
        """What counts against a branch, as the largest of sums over queues less constants (``amount``)."""
        if branch.is_queue:
            return [Sum((branch.name,), 0.0)] if most.get(branch.name) else []
        ways: list[list[Sum]] = []
        for child in branch.children:
            inner, kept = self.uses(child, cell, most), child.local(cell)
            beyond = [Sum(one.queues, one.amount + kept) for one in inner]
            beyond = [one for one in beyond if sum(most[name] for name in one.queues) > one.amount]
            if beyond:
                nothing = min(one.amount for one in beyond) > 0  # may count, as the child may use what it keeps
                ways.append([*beyond, Sum((), 0.0)] if nothing else beyond)
        if sum(len(of) > 1 for of in ways) > MOST_LENDERS:
            self.partly.add(branch.name)
            first = [of[0] for of in ways]
            some = [_together([*first[:k], of[-1], *first[k + 1 :]]) for k, of in enumerate(ways)]
            return [one for one in (_together(first), *some, *first) if one.queues]
        return [one for one in map(_together, product(*ways)) if one.queues]


def _together(parts: Iterable[Sum]) -> Sum:
    """The sum of sums."""
    given = list(parts)
    return Sum(tuple(name for one in given for name in one.queues), sum(one.amount for one in given))
