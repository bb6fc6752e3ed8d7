"""Trees of cohorts as numbers: what queues may use and are owed, of each resource of each flavor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fairopt.errors import InvalidInstance
from fairopt.io import shown
from fairopt_clusters.read.kubernetes.kueue import KueueObjects
from fairopt_clusters.read.queues.cohorts import QueueNode, Together

_Cell = tuple[str, str]  # a flavor and a resource


class Branch(QueueNode[_Cell]):
    """A queue or a cohort."""


class Cohorts(Together):
    """All queues and cohorts, with the borrowing limits of their owners, or those ``in_force``."""

    def __init__(self, found: KueueObjects, amount: Callable[..., float], in_force: bool = False) -> None:
        super().__init__()
        of_queues, of_cohorts = found.cluster_queues.items(), found.cohorts.items()
        self.queues = {name: Branch(name, *one.amounts(amount, in_force), is_queue=True) for name, one in of_queues}
        self.cohorts = {name: Branch(name, *one.amounts(amount, in_force)) for name, one in of_cohorts}
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
