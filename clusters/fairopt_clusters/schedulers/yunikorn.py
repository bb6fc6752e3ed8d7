"""YuniKorn's fair share of queues with guarantees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key
from itertools import groupby
from typing import ClassVar

from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers.base import Deployed, request_of, usable_of
from fairopt_clusters.schedulers.filling import by_level, by_use

Amounts = Mapping[str, float]


@dataclass(frozen=True)
class YuniKorn(Deployed):
    """What YuniKorn's order of queues gives: of each level the queue of the least fair share is served next.

    A fair share is the largest over resources of what is allocated over the guarantee, or without one over the maximum;
    a maximum that is not set is that of the queue above, at the top the cluster. The division is the limit as steps
    become ever smaller, for each resource by itself, in an empty cluster. Of equal shares the queue that waits for more
    is served. Queues do not lose what they have.

    Parameters
    ----------
    by_priority : bool, default True
        Whether queues of higher priority come first, as by default (``application.sort.priority``); otherwise priority
        decides between equal shares.

    Notes
    -----
    From ``pkg/common/resources/resources.go``, ``pkg/scheduler/objects/sorters.go`` and ``queue.go`` of
    apache/yunikorn-core at be3bb487.

    Examples
    --------
    >>> import fairopt_clusters as fc
    >>> from fairopt_clusters import Queue, QueueTree
    >>> queues = Queue("a", guarantee={"cpu": 6}), Queue("b", guarantee={"cpu": 2}), Queue("c")
    >>> fc.schedulers.YuniKorn().divide(QueueTree("YuniKorn", queues, {"cpu": 9}))["cpu"].round(3).tolist()
    [3.176, 1.059, 4.765]
    """

    by_priority: bool = True

    scheduler: ClassVar[str] = "YuniKorn"
    source: ClassVar[str] = "resources.go and sorters.go of yunikorn-core at be3bb487"

    def checked(self, tree: QueueTree) -> QueueTree:
        """As of others; guarantees that are all 0 are none, and so are maxima, as YuniKorn ignores these."""
        tree = super().checked(tree)
        queues = [
            replace(one, guarantee=_unless_zero(one.guarantee), limit=_unless_zero(one.limit)) for one in tree.queues
        ]
        return replace(tree, queues=tuple(queues))

    def order(self, tree: QueueTree) -> list[str]:
        """The queues at the top, the one that is served next first, by what they use now.

        Parameters
        ----------
        tree : QueueTree
            Queues with ``used``, and with a ``request`` where shares are equal.

        Returns
        -------
        list of str
            Names; equal ones in the order of the tree.

        Examples
        --------
        >>> import fairopt_clusters as fc
        >>> from fairopt_clusters import Queue, QueueTree
        >>> queues = Queue("a", used={"cpu": 2}), Queue("b", used={"cpu": 1})
        >>> fc.schedulers.YuniKorn().order(QueueTree("YuniKorn", queues, {"cpu": 4}))
        ['b', 'a']
        """
        tree = self.checked(tree)
        top, total = tree.children[""], tree.total()

        def key(queue: Queue) -> tuple[float, float]:
            share, priority = fair_share(queue.used, queue.guarantee, {**total, **queue.limit}), -_priority(queue)
            return (priority, share) if self.by_priority else (share, priority)

        keys = {queue.name: key(queue) for queue in top}

        def compared(one: Queue, other: Queue) -> int:
            """Below 0 if a queue is before another."""
            mine, its = keys[one.name], keys[other.name]
            if mine != its:
                return 1 if mine > its else -1
            return _waits_for_more(other, one) - _waits_for_more(one, other)

        return [queue.name for queue in sorted(top, key=cmp_to_key(compared))]

    def _divided(self, tree: QueueTree) -> dict[str, dict[str, float]]:
        usable, asked = usable_of(tree), request_of(tree)
        most = {(name, ""): there for name, there in tree.total().items()}

        def divide(name: str, above: str, below: Sequence[Queue], amount: float) -> list[float]:
            maximum, parts = most[name, above], dict[str, float]()
            for queues in self._groups(below):
                bases = [_base(queue, name, maximum) for queue in queues]
                caps = [usable[queue.name][name] for queue in queues]
                asks = [(_priority(queue), asked[queue.name][name]) for queue in queues]
                for queue, part in zip(queues, by_use(bases, caps, amount, asks), strict=True):
                    parts[queue.name] = part
                    amount -= part
                    most[name, queue.name] = queue.limit.get(name, maximum)
            return [parts[queue.name] for queue in below]

        return by_level(tree, tree.total(), divide)

    def _groups(self, below: Sequence[Queue]) -> list[list[Queue]]:
        """Queues by priority, of which each group is served before the next; else one group in that order."""
        queues = sorted(below, key=_priority, reverse=True)
        return [[*group] for _, group in groupby(queues, _priority)] if self.by_priority else [queues]


def fair_share(allocated: Amounts, guaranteed: Amounts, fair_max: Amounts) -> float:
    """The largest part of the guarantee in use, or of the maximum where there is none; 1 for use of what has neither.

    A guarantee or maximum that is given and not above 0 counts as used in full by any use.
    """
    share = 0.0
    for name, amount in allocated.items():
        base = guaranteed.get(name, fair_max.get(name))
        if amount < 0 or base is None:
            continue
        share = max(share, amount / base if base > 0 else float(amount > 0))
    return share


def _unless_zero(amounts: Amounts) -> Amounts:
    return amounts if any(amounts.values()) else {}


def _priority(queue: Queue) -> int:
    return queue.priority or 0


def _base(queue: Queue, resource: str, most: float) -> float:
    """What its use of a resource is compared with."""
    return queue.guarantee.get(resource, queue.limit.get(resource, most))


def _waits_for_more(one: Queue, other: Queue) -> bool:
    """Whether a queue waits for no less of any resource, and for more of one."""
    names = {**(one.request or {}), **(other.request or {}), **one.used, **other.used}
    more = [_pending(one, name) - _pending(other, name) for name in names]
    return any(amount > 0 for amount in more) and all(amount >= 0 for amount in more)


def _pending(queue: Queue, resource: str) -> float:
    """What it asks for and does not use."""
    return (queue.request or {}).get(resource, 0.0) - queue.used.get(resource, 0.0) if queue.request else 0.0
