"""What the arithmetic of schedulers has in common: checks of a tree, a tree of an instance, the tasks it pays for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairopt import Allocation, Instance
from fairopt.errors import InvalidInstance, OutOfDomain
from fairopt.policies import NotOfBlocks, refuse_whole, require_instance, unproved
from fairopt.runtime import Float, later, pandas
from fairopt_clusters.read.queues.tree import Queue, QueueTree

if TYPE_CHECKING:
    import pandas as pd

    from fairopt.properties import Finding
    from fairopt_clusters.schedulers.search import TrialReport

Amounts = Mapping[str, float]
Given = Mapping[str, Mapping[str, float]]  # by queue and resource
_AMOUNTS = ("guarantee", "limit", "weights", "request", "used", "past", "reserved", "lending", "borrowing")


class Deployed(NotOfBlocks, ABC):
    """The arithmetic of a scheduler that is in use."""

    scheduler: ClassVar[str]
    source: ClassVar[str]

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        return f"{self.scheduler} as deployed"

    def divide(self, tree: QueueTree) -> pd.DataFrame:
        """What each queue is given of each resource.

        Parameters
        ----------
        tree : QueueTree
            Queues of this scheduler, with its capacity. A queue without a request asks for more than there is.

        Returns
        -------
        pandas.DataFrame
            Queues in the order of the tree, by resource.

        Raises
        ------
        InvalidInstance
            If the tree is of another scheduler, has no capacity, or a number in it is negative.

        Examples
        --------
        >>> import fairopt_clusters as fc
        >>> from fairopt_clusters import Queue, QueueTree
        >>> tree = QueueTree("KAI", (Queue("a", weight=3), Queue("b")), capacity={"gpu": 8})
        >>> fc.schedulers.KAI().divide(tree)["gpu"].to_dict()
        {'a': 6.0, 'b': 2.0}
        """
        tree = self.checked(tree)
        given = self._divided(tree)
        rows = {queue.name: given[queue.name] for queue in tree.queues}
        table = pandas().DataFrame.from_dict(rows, orient="index", columns=resources_of(tree), dtype=float)
        return table.rename_axis(index="queue", columns="resource")

    def allocate(
        self, instance: Instance, *, time_limit: float | None = None, integral: object = False, **options: Any
    ) -> Allocation:
        """The tasks that the division pays for.

        Each team is a queue, in the levels of the labels; without labels each user is one. In a queue users are
        served in their order, while what it was given and what is left of the capacity last.

        Parameters
        ----------
        instance : Instance
            Users, on one server.
        time_limit : float, optional
            Not needed.
        integral : bool, default False
            Only False.
        **options
            Of solvers, which are not used.

        Returns
        -------
        Allocation
            Its certificate shows feasibility only: the gap is infinite, since there is no objective.

        Raises
        ------
        OutOfDomain
            If there are several servers, or whole tasks are requested.

        Examples
        --------
        >>> import fairopt as fo, fairopt_clusters as fc
        >>> halves = fo.Instance([[0.6], [0.6]], [1], resources=["gpu"], task_limits=[1, 1])
        >>> answer = fc.schedulers.KAI().allocate(halves)
        >>> answer.tasks, answer.certificate.ok, answer.certificate.violation
        (array([1., 0.]), False, 0.0)
        """
        require_instance(instance)
        refuse_whole(self.name, integral)
        if instance.n_servers > 1:
            raise OutOfDomain(
                f"{self.name} divides one pool, and there are {instance.n_servers} servers; use .pooled()"
            )
        tree, queue_of = self._tree_of(instance)
        given = self._divided(self.checked(tree))
        tasks = _paid(instance, queue_of, given)
        note = f"what {self.scheduler} divides by {self.source}; it has no objective, so only feasibility is shown"
        return unproved(instance, tasks[:, None], self, method="as deployed", note=note)

    def audit(
        self,
        properties: str | Iterable[str] | None = None,
        trees: Iterable[QueueTree] | None = None,
        *,
        max_examples: int = 2000,
        seed: int = 0,
        found: Callable[[Finding], None] | None = None,
        time_limit: float | None = None,
    ) -> TrialReport:
        """Search for small trees of queues on which properties of the division fail; reduce and confirm them.

        Parameters
        ----------
        properties : str or iterable of str, optional
            Default: all that are asked of this scheduler.
        trees : iterable of QueueTree, optional
            Trees instead of drawn ones; they are not reduced.
        max_examples : int, default 2000
            Largest number of trees per property.
        seed : int, default 0
            Seed of random trees.
        found : callable, optional
            Called with each `Finding` as soon as it is known.
        time_limit : float, optional
            Seconds for the call, divided evenly among the properties.

        Returns
        -------
        TrialReport
            A `Finding` for each property; its witness has a ``tree``. Ctrl-C returns the findings so far.

        Raises
        ------
        InvalidBlock
            If a property is unknown or not asked of this scheduler, or another argument is invalid.

        Examples
        --------
        >>> import fairopt_clusters as fc
        >>> print(fc.schedulers.KAI().audit("split-proof")["split-proof"].witness)
        queue 'b' gets 1 gpu, and 2 as two halves of it; 3 gpu; 'a'; 'b' (verified: ...)
        """
        return later("fairopt_clusters.schedulers.search:audit_scheduler")(
            self, properties, trees, max_examples=max_examples, seed=seed, found=found, time_limit=time_limit
        )

    @abstractmethod
    def _divided(self, tree: QueueTree) -> dict[str, dict[str, float]]:
        """What each queue is given, by resource."""

    def checked(self, tree: QueueTree) -> QueueTree:
        """The tree in amounts, or the error that says why it is none of this scheduler."""
        if not isinstance(tree, QueueTree):
            raise InvalidInstance(
                f"{self.name}: tree is a {type(tree).__name__}; give a QueueTree, such as from queues()"
            )
        if tree.scheduler != self.scheduler:
            raise InvalidInstance(f"{self.name}: the queues are of {tree.scheduler}; give queues of {self.scheduler}")
        for queue in tree.queues:
            where = f"{queue.place}: " if queue.place else ""
            if not 0 <= queue.weight < math.inf:
                raise InvalidInstance(f"{where}the weight of {queue.name!r} is {queue.weight:g}; give a number >= 0")
            for key in _AMOUNTS:
                for resource, amount in (getattr(queue, key) or {}).items():
                    if not amount >= 0:
                        words = f"the {key} of {queue.name!r} is {amount:g} {resource}; give a number >= 0"
                        raise InvalidInstance(f"{where}{words}")
        tree = self._with_capacity(tree)
        if not tree.total():
            fix = "give --capacity cpu=64, or QueueTree(..., capacity={...})"
            raise InvalidInstance(f"{self.name}: there is no capacity to divide; {fix}")
        return tree.within({})

    def as_owed(self, tree: QueueTree) -> QueueTree:
        """A checked tree whose guarantees and limits say what is owed, for another notion."""
        return tree

    def sums(self, tree: QueueTree, name: str, most: Mapping[str, float]) -> Iterable[tuple[Sequence[str], float]]:
        """What queues of a checked tree may use together of a resource, where each can use at most so much."""
        for one in self.as_owed(tree).queues:
            if tree.children[one.name] and math.isfinite(one.limit.get(name, math.inf)):
                yield (one.name,), one.limit[name]

    def _with_capacity(self, tree: QueueTree) -> QueueTree:
        """The tree with what it divides."""
        return tree

    def _queue(self, name: str, parent: str, weight: float, owed: Amounts, limit: Amounts, request: Amounts) -> Queue:
        """A queue of this scheduler."""
        return Queue(name, parent, weight, owed, limit, request=request)

    def _tree_of(self, instance: Instance) -> tuple[QueueTree, list[str]]:
        """Teams in levels as a tree, and the queue of each user."""
        labels = instance.teams.outermost_first or ()
        capacity = dict(zip(instance.resources, instance.total_capacities.tolist(), strict=True))
        paths = [
            tuple(name for by in labels if (name := instance.teams[by][j]) is not None) for j in range(instance.n_users)
        ]
        paths = [path or (user,) for path, user in zip(paths, instance.users, strict=True)]
        own = dict(zip(instance.users, instance.own_weights.tolist(), strict=True))
        weights = {**own, **instance.team_weights}
        most = np.where(np.isfinite(instance.task_limits), instance.task_limits, 0.0)
        demands = _demands(instance)
        own_floors = (demands * instance.guarantees[:, None]).tolist()
        owed = {
            user: {name: amount for name, amount in zip(instance.resources, row, strict=True) if amount}
            for user, row in zip(instance.users, own_floors, strict=True)
        }
        owed |= instance.team_guarantees
        limits = dict[str, dict[str, float]]()
        for limit in instance.limits:
            if len(limit.of) == 1:
                of = limits.setdefault(limit.of[0][0], {})
                of[limit.resource] = min(limit.amount, of.get(limit.resource, math.inf))
        asks = demands * most[:, None]
        asks[~np.isfinite(instance.task_limits)[:, None] & (demands > 0)] = math.inf
        parents, totals = dict[str, str](), dict[str, Float]()
        for path, ask in zip(paths, asks, strict=True):
            for above, name in zip(("", *path), path, strict=False):
                parents.setdefault(name, above)
                totals[name] = totals.get(name, 0.0) + ask
        queues = [
            self._queue(
                name,
                above,
                weights.get(name, 1.0),
                owed.get(name, {}),
                limits.get(name, {}),
                dict(zip(instance.resources, totals[name].tolist(), strict=True)),
            )
            for name, above in parents.items()
        ]
        return QueueTree(self.scheduler, tuple(queues), capacity), [path[-1] for path in paths]


def resources_of(tree: QueueTree) -> list[str]:
    """The resources that there are, in the order of the capacity."""
    return [*tree.total()]


def request_of(tree: QueueTree) -> dict[str, dict[str, float]]:
    """What each queue asks for: its request, else that of the queues below it, else more than there is."""
    names, asked = resources_of(tree), dict[str, dict[str, float]]()
    for queue in deepest_first(tree):
        below = [asked[child.name] for child in tree.children[queue.name]]
        if queue.request is not None:
            asked[queue.name] = {name: queue.request.get(name, 0.0) for name in names}
        else:
            asked[queue.name] = {name: sum(one[name] for one in below) if below else math.inf for name in names}
    return asked


def usable_of(tree: QueueTree) -> dict[str, dict[str, float]]:
    """What each queue can use: what it asks for within its limit, or what the queues below it can use together."""
    names, asked, usable = resources_of(tree), request_of(tree), dict[str, dict[str, float]]()
    for queue in deepest_first(tree):
        below = [usable[child.name] for child in tree.children[queue.name]]
        asks = {name: sum(one[name] for one in below) for name in names} if below else asked[queue.name]
        usable[queue.name] = {name: min(asks[name], queue.limit.get(name, math.inf)) for name in names}
    return usable


def deepest_first(tree: QueueTree) -> list[Queue]:
    """The queues, each after all queues below it."""
    out, waiting = list[Queue](), [*tree.children[""]]
    while waiting:
        out.append(waiting.pop())
        waiting += tree.children[out[-1].name]
    return out[::-1]


def _demands(instance: Instance) -> Float:
    """Demands by user and resource, of the only server."""
    return np.asarray(instance.demands if instance.demands.ndim == 2 else instance.demands[:, 0], dtype=float)


def _paid(instance: Instance, queue_of: list[str], given: Given) -> Float:
    """Tasks of each user, in their order, while the division and the capacity last."""
    demands, capacity_left = _demands(instance), np.array(instance.total_capacities, dtype=float)
    left = {name: np.array([given[name][one] for one in instance.resources]) for name in dict.fromkeys(queue_of)}
    tasks = np.zeros(instance.n_users)
    for j, name in enumerate(queue_of):
        needs = demands[j] > 0
        if not instance.eligible[j].any() or not needs.any():
            continue
        there = np.minimum(left[name], capacity_left)[needs] / demands[j, needs]
        tasks[j] = max(min(float(there.min()), float(instance.task_limits[j])), 0.0)
        left[name] -= tasks[j] * demands[j]
        capacity_left -= tasks[j] * demands[j]
    return tasks
