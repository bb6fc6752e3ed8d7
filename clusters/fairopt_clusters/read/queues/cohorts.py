"""Kueue's quotas in a tree of cohorts: what a node and those below it have, keep, and could use.

What a node uses beyond what it does not lend (its quota less its lending limit) counts against its cohort, and likewise
for a cohort and its parent. A cohort has its own nominal quotas and what those below lend to it; the one at the top is
not exceeded, and others exceed theirs by at most their borrowing limits (``pkg/cache/scheduler/resource_node.go``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Generic, Self, TypeVar

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
