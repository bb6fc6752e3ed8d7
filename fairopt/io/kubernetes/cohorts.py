"""Trees of cohorts as numbers: what queues may use and are owed, of each resource of each flavor.

What a queue uses beyond what it does not lend (its nominal quota less its lending limit) counts against its cohort, and
likewise for a cohort and its parent. A cohort has its own nominal quotas and what those below lend to it; the one at
the top is not exceeded, and others exceed theirs by at most their borrowing limits. This is the arithmetic of Kueue
(`pkg/cache/scheduler/resource_node.go`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import inf
from typing import NamedTuple

from fairopt.errors import InvalidInstance
from fairopt.io.json_text import shown
from fairopt.io.kubernetes.kueue import ClusterQueue, Cohort, KueueObjects

MOST_LENDERS = 10  # children of a cohort that may use less than they do not lend, of which all combinations are rows
MOST_AHEAD = 6  # of which all combinations are rows that hold however much they use
_Cell = tuple[str, str]  # a flavor and a resource


class Quota(NamedTuple):
    """The numbers of one cell; None for no limit."""

    nominal: float
    borrowing: float | None
    lending: float | None


class Sum(NamedTuple):
    """Queues that use at most an amount together."""

    queues: tuple[str, ...]
    amount: float


@dataclass(eq=False)
class Branch:
    """A queue or a cohort: its quotas by flavor and resource, and what is below it."""

    name: str
    is_queue: bool
    quotas: Mapping[_Cell, Quota] = field(default_factory=dict)
    above: Branch | None = None
    below: list[Branch] = field(default_factory=list)

    def of_subtree(self, cell: _Cell) -> float:
        """Its quota, with what those below lend to it."""
        own = self.quotas[cell].nominal if cell in self.quotas else 0.0
        return own + sum(one.of_subtree(cell) - one.not_lent(cell) for one in self.below)

    def not_lent(self, cell: _Cell) -> float:
        """What it does not lend to the cohort above."""
        quota = self.quotas.get(cell)
        if quota is None or quota.lending is None or self.above is None:
            return 0.0
        return max(0.0, self.of_subtree(cell) - quota.lending)

    def at_most(self, cell: _Cell) -> float:
        """What it could use if nobody else used anything."""
        if self.above is None:
            return self.of_subtree(cell)
        most, quota = self.not_lent(cell) + self.above.at_most(cell), self.quotas.get(cell)
        if quota is not None and quota.borrowing is not None:
            most = min(most, self.of_subtree(cell) + quota.borrowing)
        return most

    def limit(self, cell: _Cell) -> float | None:
        """What it may use at most, whatever is free above it; None if nothing but that limits it."""
        quota = self.quotas.get(cell)
        if self.above is None:
            return self.of_subtree(cell)
        return None if quota is None or quota.borrowing is None else self.of_subtree(cell) + quota.borrowing


class Cohorts:
    """All queues and cohorts."""

    def __init__(self, found: KueueObjects, amount: Callable[..., float]) -> None:
        self.queues = {name: Branch(name, True, _quotas(one, amount)) for name, one in found.cluster_queues.items()}
        self.cohorts = {name: Branch(name, False, _quotas(one, amount)) for name, one in found.cohorts.items()}
        self.partly = set[str]()  # cohorts of which not all rows are made
        self.now = set[str]()  # cohorts of which rows are for what queues can use now
        above = {name: one.parent for name, one in found.cohorts.items()}
        for name, one in found.cluster_queues.items():
            self._put(self.queues[name], one.cohort)
        for name, parent in above.items():
            self._put(self.cohorts[name], parent)
            seen = [name]
            while parent in above:
                if parent in seen:
                    raise InvalidInstance(f"the cohort {shown(parent)} is above itself; correct its spec.parentName")
                seen.append(parent)
                parent = above[parent]

    def _put(self, branch: Branch, cohort: str) -> None:
        """Put a branch below a cohort, which need not be an object."""
        if cohort:
            branch.above = self.cohorts.setdefault(cohort, Branch(cohort, False))
            branch.above.below.append(branch)

    @property
    def cells(self) -> list[_Cell]:
        """The flavors and resources that have quotas."""
        every = [*self.queues.values(), *self.cohorts.values()]
        return list(dict.fromkeys(cell for one in every for cell in one.quotas))

    def above(self, queue: str) -> list[str]:
        """The cohorts above a queue, the nearest first."""
        out, one = list[str](), self.queues[queue].above if queue in self.queues else None
        while one is not None:
            out.append(one.name)
            one = one.above
        return out

    def sums(self, cell: _Cell, most: Mapping[str, float]) -> Iterator[tuple[Branch, Sum]]:
        """What queues may use of a cell together; ``most`` is what each can use, and those not named use nothing.

        The sums do not depend on how much a queue that uses some can use, so that they hold for more tasks and servers
        too. Where queues lend parts of their quotas there may be too many of these (`now`): then on what they use now.
        """
        always = {name: inf for name, amount in most.items() if amount}
        for branch in (*self.queues.values(), *self.cohorts.values()):
            limit = branch.limit(cell)
            if limit is None:
                continue
            ahead = self._lenders(branch, cell, always) <= MOST_AHEAD
            if not ahead:
                self.now.add(branch.name)
            can = always if ahead else most
            for one in self.uses(branch, cell, can):
                if sum(can[name] for name in one.queues) > limit + one.amount:
                    yield branch, Sum(one.queues, limit + one.amount)

    def _lenders(self, branch: Branch, cell: _Cell, most: Mapping[str, float]) -> int:
        """How many below a branch may use less than they do not lend."""
        if branch.is_queue:
            return 0
        below = [one for one in branch.below if not one.is_queue or most.get(one.name)]
        return sum((one.not_lent(cell) > 0) + self._lenders(one, cell, most) for one in below)

    def uses(self, branch: Branch, cell: _Cell, most: Mapping[str, float]) -> list[Sum]:
        """What counts against a branch, as the largest of sums over queues less constants (``amount``)."""
        if branch.is_queue:
            return [Sum((branch.name,), 0.0)] if most.get(branch.name) else []
        ways: list[list[Sum]] = []
        for child in branch.below:
            inner, kept = self.uses(child, cell, most), child.not_lent(cell)
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


def _quotas(given: ClusterQueue | Cohort, amount: Callable[..., float]) -> dict[_Cell, Quota]:
    """The quotas of an object by flavor and resource."""
    return {
        (flavor.name, one.name): Quota(
            amount(one.nominalQuota, one.name),
            *(
                None if limit is None else amount(limit, one.name)
                for limit in (given.borrowing(flavor.name, one), one.lendingLimit)
            ),
        )
        for group in given.groups
        for flavor in group.flavors
        for one in flavor.resources
    }
