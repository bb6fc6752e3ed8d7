"""Queues in levels, as data: names, parents, weights, guarantees, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from fairopt.errors import InvalidInstance, nearest
from fairopt.io import shown

ALL = "*"  # as a resource of parts: each of them
DEEPEST = 100  # levels of queues


@dataclass(frozen=True)
class Queue:
    """A queue of another scheduler, or an account of Slurm.

    Attributes
    ----------
    name, parent : str
        Its name, different from all others of the tree, and that of the queue above, ``""`` at the top.
    weight : float
        Its weight among its siblings.
    guarantee, limit : mapping of str to float
        What it is owed, and the most that it may use, with all queues below it: by resource, in cores, GiB or pieces.
    guarantee_parts, limit_parts : mapping of str to float
        The same as parts of what the queue above has (of all, at the top); the resource ``"*"`` is each one.
    weights : mapping of str to float
        Weights by resource, where a scheduler has several.
    priority : int or None
        Its priority, None if it has none. Only `fairopt_clusters.schedulers` reads it.
    request, used : mapping of str to float
        What its tasks ask for in all, those that run included, and what it holds now. Without a request a queue is as
        its queues below; one without these asks for more than there is.
    past : mapping of str to float
        What it used in the past, as parts of the capacity (KAI).
    reserved : mapping of str to float
        What stays free for it alone (Volcano, where ``guarantee`` is what it deserves).
    lending, borrowing : mapping of str to float
        The most that others may use of its guarantee, and that it may use beyond it (Kueue).
    created : float
        When it was made; equal queues are served in this order, then by name (KAI).
    notes : mapping of str to str
        What else its file says, by the name that it has there, such as ``withinClusterQueue`` (Kueue).
    place : str
        Where it stands, for messages.

    Examples
    --------
    >>> from fairopt_clusters import Queue
    >>> Queue("vision", "research", weight=2, guarantee={"gpu": 8}).guarantee["gpu"]
    8
    """

    name: str
    parent: str = ""
    weight: float = 1.0
    guarantee: Mapping[str, float] = field(default_factory=dict)
    limit: Mapping[str, float] = field(default_factory=dict)
    guarantee_parts: Mapping[str, float] = field(default_factory=dict)
    limit_parts: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    priority: int | None = None
    request: Mapping[str, float] | None = None
    used: Mapping[str, float] = field(default_factory=dict)
    past: Mapping[str, float] = field(default_factory=dict)
    reserved: Mapping[str, float] = field(default_factory=dict)
    lending: Mapping[str, float] = field(default_factory=dict)
    borrowing: Mapping[str, float] = field(default_factory=dict)
    created: float = 0.0
    notes: Mapping[str, str] = field(default_factory=dict)
    place: str = field(default="", compare=False)


class Part(NamedTuple):
    """What equal pods use together of one group of resources: in each flavor that they may have, in order.

    A workload can do without ``spare`` of the pods.
    """

    ways: tuple[Mapping[str, float], ...]
    pods: int = 1
    spare: int = 0


class Workload(NamedTuple):
    """A workload: its queue, what it uses or asks for, its priority, when it was made, and its name.

    In a list of those that run the one admitted first stands first. One that waits and could have several flavors has
    ``parts``, of each of which it uses one flavor; ``uses`` then is what it would use in the first ones.
    """

    queue: str
    uses: Mapping[str, float]
    priority: int = 0
    created: float = 0.0
    name: str = ""
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class QueueTree:
    """The queues of another scheduler.

    Attributes
    ----------
    scheduler : str
        Its name, such as ``"KAI"``.
    queues : tuple of Queue
        In the order of the file, without the root.
    capacity : mapping of str to float
        What the root has, where its file says so.
    notes : tuple of str
        What the file says of all queues.
    parts_of_all : bool
        Whether parts are of the whole cluster, not of what the queue above has.

    Examples
    --------
    >>> from fairopt_clusters import Queue, QueueTree
    >>> tree = QueueTree("KAI", (Queue("ml"), Queue("nlp", "ml", guarantee={"gpu": 8}), Queue("vision", "ml", 2.0)))
    >>> tree.above("vision"), [queue.name for queue in tree.leaves]
    (['ml'], ['nlp', 'vision'])
    >>> QueueTree("KAI", (Queue("vision", "reserch"), Queue("research")))
    Traceback (most recent call last):
        ...
    fairopt.errors.InvalidInstance: the queue 'vision' has the parent "reserch", which is not there; did you mean ...
    """

    scheduler: str
    queues: tuple[Queue, ...]
    capacity: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    parts_of_all: bool = False

    def __post_init__(self) -> None:
        known: dict[str, Queue] = {}
        for queue in self.queues:
            other = known.setdefault(queue.name, queue)
            if other is not queue:
                where = f"; the other one is {other.place}" if other.place else ""
                raise InvalidInstance(f"{_at(queue)} is there twice{where}; keep one, or rename one")
        depth = {"": 0}  # of queues that have no circle above them
        for queue in self.queues:
            if queue.parent and queue.parent not in known:
                fix = nearest(queue.parent, known)
                raise InvalidInstance(f"{_at(queue)} has the parent {shown(queue.parent)}, which is not there; {fix}")
            path, name = dict[str, None](), queue.name
            while name in known and name not in depth:
                if name in path:
                    ring = [*path][[*path].index(name) :]
                    ring_shown = " -> ".join([*ring[:5], *["..."] * (len(ring) > 5), name])
                    raise InvalidInstance(f"{_at(queue)} is in a circle of parents, {ring_shown}; correct one of them")
                path[name] = None
                name = known[name].parent
            for one in reversed(path):
                depth[one] = depth.get(known[one].parent, 0) + 1
            if depth[queue.name] > DEEPEST:
                raise InvalidInstance(f"{_at(queue)} has {DEEPEST} queues above it; give at most {DEEPEST} levels")

    @cached_property
    def by_name(self) -> dict[str, Queue]:
        """The queues by name."""
        return {queue.name: queue for queue in self.queues}

    @cached_property
    def children(self) -> dict[str, list[Queue]]:
        """The queues below each one; those at the top are below ``""``."""
        below: dict[str, list[Queue]] = {"": [], **{queue.name: [] for queue in self.queues}}
        for queue in self.queues:
            below[queue.parent].append(queue)
        return below

    @property
    def leaves(self) -> list[Queue]:
        """The queues without queues below them."""
        inner = {queue.parent for queue in self.queues}
        return [queue for queue in self.queues if queue.name not in inner]

    def above(self, name: str) -> list[str]:
        """The queues above the one of a ``name``, the nearest first; none for a name that is not there.

        Examples
        --------
        >>> from fairopt_clusters import Queue, QueueTree
        >>> QueueTree("KAI", (Queue("a"), Queue("b", "a"), Queue("c", "b"))).above("c")
        ['b', 'a']
        """
        known, out = self.by_name, list[str]()
        while name in known and (name := known[name].parent):
            out.append(name)
        return out

    @property
    def levels(self) -> int:
        """How many levels it has."""
        return max((1 + len(self.above(queue.name)) for queue in self.queues), default=0)

    def named(self, given: str) -> str:
        """The name of the queue that is ``given``: the name itself, or the only one that ends in it after a dot.

        Examples
        --------
        >>> from fairopt_clusters import Queue, QueueTree
        >>> QueueTree("YuniKorn", (Queue("root.dev"), Queue("root.dev.a", "root.dev"))).named("a")
        'root.dev.a'
        """
        known = self.by_name
        if given in known:
            return given
        ends = [name for name in known if name.endswith(f".{given.removeprefix('root.')}")]
        return ends[0] if len(ends) == 1 else given

    def within(self, capacity: Mapping[str, float]) -> QueueTree:
        """The same tree of a cluster with some ``capacity`` by resource: parts become amounts.

        Examples
        --------
        >>> from fairopt_clusters import Queue, QueueTree
        >>> parts = {"guarantee_parts": {"*": 0.5}, "limit_parts": {"*": 0.8}}
        >>> tree = QueueTree("YARN", (Queue("ml", **parts), Queue("nlp", "ml", limit_parts={"*": 0.25})))
        >>> [(one.guarantee, one.limit) for one in tree.within({"cpu": 40}).queues]
        [({'cpu': 20.0}, {'cpu': 32.0}), ({}, {'cpu': 8.0})]
        """
        if not any(queue.guarantee_parts or queue.limit_parts for queue in self.queues):
            return self  # an audit asks this of each of thousands of trees
        known, every = self.by_name, {**self.capacity, **capacity}
        bases: dict[str, tuple[Mapping[str, float], Mapping[str, float]]] = {"": (every, every)}

        def amounts(queue: Queue) -> tuple[dict[str, float], dict[str, float]]:
            owed, most = bases[""] if self.parts_of_all else base(queue.parent)
            return {**_of_parts(queue.guarantee_parts, owed), **queue.guarantee}, {
                **_of_parts(queue.limit_parts, most),
                **queue.limit,
            }

        def base(name: str) -> tuple[Mapping[str, float], Mapping[str, float]]:
            if name not in bases:
                owed, most = amounts(known[name])
                bases[name] = owed, {**base(known[name].parent)[1], **most}
            return bases[name]

        made = {queue.name: amounts(queue) for queue in self.queues}
        queues = [
            replace(queue, guarantee=made[queue.name][0], limit=made[queue.name][1], guarantee_parts={}, limit_parts={})
            for queue in self.queues
        ]
        return replace(self, queues=tuple(queues))

    def total(self) -> dict[str, float]:
        """The capacity that queues share: what the root has, else the sum of the guarantees at the top.

        Examples
        --------
        >>> from fairopt_clusters import Queue, QueueTree
        >>> QueueTree("KAI", (Queue("a", guarantee={"gpu": 6}), Queue("b", guarantee={"gpu": 2}))).total()
        {'gpu': 8}
        """
        top = [queue for queue in self.queues if not queue.parent]
        names = dict.fromkeys(name for queue in top for name in queue.guarantee)
        sums = {name: sum(queue.guarantee.get(name, 0.0) for queue in top) for name in names}
        return {name: amount for name, amount in {**sums, **self.capacity}.items() if amount > 0}

    def described(self) -> str:
        """What there is, in words.

        Examples
        --------
        >>> from fairopt_clusters import Queue, QueueTree
        >>> QueueTree("KAI", (Queue("a"), Queue("b", "a"))).described()
        '2 queues of KAI in 2 levels'
        """
        n, levels = len(self.queues), self.levels
        what = f"{n:,} {'account' if self.scheduler == 'Slurm' else 'queue'}{'s' * (n != 1)} of {self.scheduler}"
        return what + (f" in {levels} levels" if levels > 1 else "")


def _at(queue: Queue) -> str:
    """A queue with its place, at the beginning of a message."""
    return f"{queue.place}: the queue {queue.name!r}" if queue.place else f"the queue {queue.name!r}"


def _of_parts(parts: Mapping[str, float], whole: Mapping[str, float]) -> dict[str, float]:
    """Parts of amounts as amounts."""
    every = {name: part for name in whole for one, part in parts.items() if one == ALL}
    every |= {name: part for name, part in parts.items() if name != ALL}
    return {name: part * whole[name] for name, part in every.items() if name in whole}
