"""Trees of cohorts as numbers: what queues may use and are owed, of each resource of each flavor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import NamedTuple

from fairopt.errors import InvalidInstance
from fairopt.io import shown
from fairopt_clusters.read.kubernetes.kueue import ClusterQueue, Cohort, KueueObjects
from fairopt_clusters.read.queues.cohorts import QueueNode

MOST_LENDERS = 10  # children of a cohort that may use less than they do not lend, of which all combinations are rows
MOST_AHEAD = 6  # of which all combinations are rows that hold however much they use
_Cell = tuple[str, str]  # a flavor and a resource


class Sum(NamedTuple):
    """Queues that use at most an amount together."""

    queues: tuple[str, ...]
    amount: float


@dataclass(eq=False)
class Branch(QueueNode[_Cell]):
    """A queue or a cohort."""

    is_queue: bool = False


class Cohorts:
    """All queues and cohorts."""

    def __init__(self, found: KueueObjects, amount: Callable[..., float]) -> None:
        self.queues = {name: _branch(one, amount, is_queue=True) for name, one in found.cluster_queues.items()}
        self.cohorts = {name: _branch(one, amount) for name, one in found.cohorts.items()}
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
            branch.put_below(self.cohorts.setdefault(cohort, Branch(cohort)))

    @property
    def cells(self) -> list[_Cell]:
        """The flavors and resources that have quotas."""
        every = [*self.queues.values(), *self.cohorts.values()]
        return list(dict.fromkeys(cell for one in every for cell in one.nominal))

    def above(self, queue: str) -> list[str]:
        """The cohorts above a queue, the nearest first."""
        return [one.name for one in self.queues[queue].above()] if queue in self.queues else []

    def sums(self, cell: _Cell, most: Mapping[str, float]) -> Iterator[tuple[Branch, Sum]]:
        """What queues may use of a cell together; ``most`` is what each can use, and those not named use nothing.

        The sums do not depend on how much a queue that uses some can use, so that they hold for more tasks and servers
        too. Where queues lend parts of their quotas there may be too many of these (`now`): then on what they use now.
        """
        always = {name: inf for name, amount in most.items() if amount}
        for branch in (*self.queues.values(), *self.cohorts.values()):
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

    def _lenders(self, branch: Branch, cell: _Cell, most: Mapping[str, float]) -> int:
        """How many below a branch may use less than they do not lend."""
        if branch.is_queue:
            return 0
        below = [one for one in branch.children if not one.is_queue or most.get(one.name)]
        return sum((one.local(cell) > 0) + self._lenders(one, cell, most) for one in below)

    def uses(self, branch: Branch, cell: _Cell, most: Mapping[str, float]) -> list[Sum]:
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


def _branch(given: ClusterQueue | Cohort, amount: Callable[..., float], is_queue: bool = False) -> Branch:
    """An object with its quotas by flavor and resource."""
    nominal, lending, borrowing = dict[_Cell, float](), dict[_Cell, float](), dict[_Cell, float]()
    for flavor, one in given.quotas():
        limits = (lending, one.lendingLimit), (borrowing, given.borrowing(flavor, one))
        for amounts, quantity in ((nominal, one.nominalQuota), *limits):
            if quantity is not None:
                amounts[flavor, one.name] = amount(quantity, one.name)
    return Branch(given.name, nominal, lending, borrowing, is_queue=is_queue)
