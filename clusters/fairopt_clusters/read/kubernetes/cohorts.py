"""Trees of cohorts as numbers: what queues may use and are owed, of each resource of each flavor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairopt.errors import InvalidInstance
from fairopt.io import shown
from fairopt_clusters.read.kubernetes.kueue import ClusterQueue, Cohort, KueueObjects
from fairopt_clusters.read.queues.cohorts import QueueNode, Together

_Cell = tuple[str, str]  # a flavor and a resource


class Branch(QueueNode[_Cell]):
    """A queue or a cohort."""


class Cohorts(Together):
    """All queues and cohorts."""

    def __init__(self, found: KueueObjects, amount: Callable[..., float]) -> None:
        super().__init__()
        self.queues = {name: _branch(one, amount, is_queue=True) for name, one in found.cluster_queues.items()}
        self.cohorts = {name: _branch(one, amount) for name, one in found.cohorts.items()}
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
        return list(dict.fromkeys(cell for one in self.nodes() for cell in one.nominal))

    def nodes(self) -> Sequence[Branch]:
        """All queues and cohorts."""
        return [*self.queues.values(), *self.cohorts.values()]

    def above(self, queue: str) -> list[str]:
        """The cohorts above a queue, the nearest first."""
        return [one.name for one in self.queues[queue].above()] if queue in self.queues else []


def _branch(given: ClusterQueue | Cohort, amount: Callable[..., float], is_queue: bool = False) -> Branch:
    """An object with its quotas by flavor and resource."""
    nominal, lending, borrowing = dict[_Cell, float](), dict[_Cell, float](), dict[_Cell, float]()
    for flavor, one in given.quotas():
        limits = (lending, one.lendingLimit), (borrowing, given.borrowing(flavor, one))
        for amounts, quantity in ((nominal, one.nominalQuota), *limits):
            if quantity is not None:
                amounts[flavor, one.name] = amount(quantity, one.name)
    return Branch(given.name, nominal, lending, borrowing, is_queue=is_queue)
