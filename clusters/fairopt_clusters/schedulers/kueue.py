"""Kueue's dominant resource share of queues and cohorts, and what its fair sharing gives them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from fairopt import Instance
from fairopt.errors import InvalidBlock, InvalidInstance, OutOfDomain, nearest
from fairopt.runtime import pandas
from fairopt_clusters.read.queues.cohorts import Together
from fairopt_clusters.read.queues.tree import Queue, QueueTree, Workload
from fairopt_clusters.schedulers import classical
from fairopt_clusters.schedulers.base import Deployed, deepest_first, request_of, resources_of
from fairopt_clusters.schedulers.cohorts import Amounts, Node, exact, exactly, nodes_of
from fairopt_clusters.schedulers.filling import by_weight
from fairopt_clusters.schedulers.preemption import STRATEGIES, victims
from fairopt_clusters.schedulers.replay import Cycle, Replay, admissions
from fairopt_clusters.schedulers.smallest import by_rules
from fairopt_clusters.schedulers.start import NO_FIT, Start, WouldStart, missing, start

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Kueue(Deployed):
    """What Kueue's fair sharing gives ClusterQueues in trees of cohorts.

    The share of a node is what it uses above its quota, summed over flavors, over all that the cohort above it could
    use, by resource; the largest of these in thousandths, over its weight. Resources are named ``gpu`` or, with a
    flavor, ``spot:gpu``. `guarantee` of a queue or cohort is its nominal quota, and `lending` and `borrowing` are its
    limits. A queue uses only what its guarantee names, with 0 if it owns nothing of it.

    The division is the limit as workloads become ever smaller, with reclaim within cohorts, for each resource by
    itself: each node has first its quota, and what others leave is shared by weight; a node of weight 0 gets what all
    others leave.

    Parameters
    ----------
    strategies : sequence of str
        Rules of preemption: Kueue's default is both, ``LessThanOrEqualToFinalShare`` first. None are Kueue without fair
        sharing, which divides nothing: what is free goes to who comes first, and priorities say who is preempted.
    below_threshold : bool
        Whether a queue with a note ``borrowWithinCohort`` of ``LowerPriority`` preempts workloads below its priority
        whatever the shares are, as in Kueue before 87e9a0a6.

    Notes
    -----
    From ``pkg/cache/scheduler/fair_sharing.go`` and ``resource_node.go``, and in ``pkg/scheduler`` from ``preemption``,
    ``flavorassigner`` and ``fair_sharing_iterator.go``, of kubernetes-sigs/kueue at ff69552e.

    Examples
    --------
    >>> import fairopt_clusters as fc
    >>> from fairopt_clusters import Queue, QueueTree
    >>> mine = Queue("mine", "all", guarantee={"cpu": 2, "gpu": 5}, used={"cpu": 3, "gpu": 7})
    >>> lender = Queue("lender", "all", guarantee={"cpu": 8, "gpu": 5})
    >>> fc.schedulers.Kueue().shares(QueueTree("Kueue", (Queue("all"), mine, lender)))["share"].to_dict()
    {'all': 0.0, 'mine': 200.0, 'lender': 0.0}
    """

    strategies: Sequence[str] = STRATEGIES
    below_threshold: bool = False

    scheduler: ClassVar[str] = "Kueue"
    source: ClassVar[str] = "fair_sharing.go and resource_node.go of Kueue at ff69552e"

    def __post_init__(self) -> None:
        rules = tuple(self.strategies)
        if rules not in (STRATEGIES, STRATEGIES[:1], STRATEGIES[1:], ()):
            fix = f"give {list(STRATEGIES)}, one of the two, or none without fair sharing"
            raise InvalidBlock(f"Kueue: strategies is {self.strategies!r}; {fix}")
        object.__setattr__(self, "strategies", rules)

    def shares(self, tree: QueueTree, extra: Amounts | None = None) -> pd.DataFrame:
        """The dominant resource share of each queue and cohort.

        Parameters
        ----------
        tree : QueueTree
            Queues with ``used``.
        extra : dict of float by resource, optional
            What each of them would use more.

        Returns
        -------
        pandas.DataFrame
            By queue: ``share``, in thousandths rounded up, infinite if it borrows with a weight of 0; ``weighted``, not
            rounded; ``resource``; ``borrows``.

        Examples
        --------
        >>> import fairopt_clusters as fc
        >>> from fairopt_clusters import Queue, QueueTree
        >>> queues = Queue("a", "all", 2, {"gpu": 0}, used={"gpu": 3}), Queue("b", "all", 1, {"gpu": 4})
        >>> table = fc.schedulers.Kueue().shares(QueueTree("Kueue", (Queue("all"), *queues)))
        >>> table["share"].tolist(), table["resource"].tolist()
        ([0.0, 375.0, 0.0], ['', 'gpu', ''])
        """
        nodes = nodes_of(self.checked(tree))
        of = {name: node.share(extra) for name, node in nodes.items()}
        rows = [(one.rounded, one.weighted, one.resource, bool(one.borrowed)) for one in of.values()]
        columns = ["share", "weighted", "resource", "borrows"]
        table = pandas().DataFrame(rows, columns=columns).astype({"share": float, "weighted": float})
        return table.set_index(pandas().Index(list(of), name="queue"))

    def victims(
        self,
        tree: QueueTree,
        queue: str,
        request: Amounts,
        workloads: Iterable[Workload | tuple[str, Amounts]],
        priority: int = 0,
        created: float = 0.0,
    ) -> list[int]:
        """Whom a workload that does not fit preempts.

        The notes of a queue say whom it may preempt, as in Kueue: ``reclaimWithinCohort``, here ``Any`` without a
        note, and ``withinClusterQueue``, here ``Never``.

        Parameters
        ----------
        tree : QueueTree
            Queues and cohorts; what runs is in ``workloads``, and not in ``used``.
        queue : str
            Where the workload waits.
        request : dict of float by resource
            What it asks for.
        workloads : iterable of (queue, amounts), (queue, amounts, priority) or (queue, amounts, priority, created)
            What runs, the one admitted first at first.
        priority, created : float
            Of the workload that waits.

        Returns
        -------
        list of int
            Places in ``workloads``, in the order of preemption, without those that can stay at the end; empty if the
            workload fits, or does not fit after all that is allowed.

        Examples
        --------
        >>> import fairopt_clusters as fc
        >>> from fairopt_clusters import Queue, QueueTree
        >>> queues = Queue("a", "all", guarantee={"gpu": 4}), Queue("b", "all", guarantee={"gpu": 4})
        >>> running = [("b", {"gpu": 3}), ("b", {"gpu": 3}), ("b", {"gpu": 2})]
        >>> fc.schedulers.Kueue().victims(QueueTree("Kueue", (Queue("all"), *queues)), "a", {"gpu": 4}, running)
        [2, 1]
        """
        nodes, runs = self._running(tree, queue, workloads)
        return [*self._start(nodes, Workload(queue, exact(request), priority, created), runs).victims]

    def preemptions(
        self,
        tree: QueueTree,
        waiting: Iterable[Workload | tuple[str, Amounts]],
        running: Iterable[Workload | tuple[str, Amounts]],
    ) -> pd.DataFrame:
        """Whom each waiting workload would preempt if it came next, beside the fewest that would do.

        Of equally small sets it is the one of the lowest priorities, then the one that frees the least.

        Parameters
        ----------
        tree : QueueTree
            Queues and cohorts.
        waiting, running : iterable of (queue, amounts) or longer, as for `victims`
            The fifth entry is a name; without it workloads are numbered from 1.

        Returns
        -------
        pandas.DataFrame
            By workload: ``queue``, ``fits``, ``flavors``, how many levels of cohorts it ``borrows`` from, and tuples of
            names. ``victims``; ``fewest``, which can go one after the other, each as a rule of shares allows when its
            turn comes, found by trying all sets by size, None if that takes more than 20,000 steps, or without shares.

        Examples
        --------
        >>> import fairopt_clusters as fc
        >>> from fairopt_clusters import Queue, QueueTree
        >>> own = {"withinClusterQueue": "LowerPriority"}
        >>> queues = [Queue(name, "all", guarantee={"cpu": 10}, notes=own) for name in "ab"]
        >>> tree, running = QueueTree("Kueue", (Queue("all"), *queues)), [("a", {"cpu": 6}), ("b", {"cpu": 13})]
        >>> table = fc.schedulers.Kueue().preemptions(tree, [("a", {"cpu": 8}, 10)], running)
        >>> table[["victims", "fewest"]].values.tolist()
        [[('2',), ('2', '1')]]
        """
        nodes, runs = self._running(tree, "", running)
        names, rows = [one.name or str(k) for k, one in enumerate(runs, 1)], list[tuple[object, ...]]()
        for k, one in enumerate((self._workload(nodes, one) for one in waiting), 1):
            how = self._start(nodes, one, runs)
            sets: list[Sequence[int] | None] = [how.victims, None]
            if how.now or how.need.kind == NO_FIT:
                sets[1] = ()
            elif self.strategies:
                with suppress(OutOfDomain):
                    sets[1] = by_rules(nodes, one._replace(uses=how.uses), runs, how.needed, self.strategies)
            named = (None if of is None else tuple(names[j] for j in of) for of in sets)
            starts = how.now or bool(how.victims)
            flavors = dict.fromkeys(cell.rpartition(":")[0] for cell in how.uses if starts and ":" in cell)
            rows.append((one.name or str(k), one.queue, how.now, tuple(flavors), how.need.level * starts, *named))
        columns = ["workload", "queue", "fits", "flavors", "borrows", "victims", "fewest"]
        return pandas().DataFrame(rows, columns=columns).set_index("workload")

    def would_start(
        self,
        tree: QueueTree,
        workload: Workload | tuple[str, Amounts],
        running: Iterable[Workload | tuple[str, Amounts]],
    ) -> WouldStart:
        """Whether a workload would start if it came next, in which flavors, by borrowing or preempting whom.

        Parameters
        ----------
        tree : QueueTree
            Queues and cohorts.
        workload : (queue, amounts) or longer, as for `victims`
            One that waits.
        running : iterable of the same
            What runs.

        Returns
        -------
        WouldStart
            ``starts`` is ``now``, ``preempting``, ``waits`` or ``never``; ``words`` say the same, or what is missing.

        Examples
        --------
        >>> import fairopt_clusters as fc
        >>> from fairopt_clusters import Queue, QueueTree
        >>> tree = QueueTree("Kueue", (Queue("all"), *(Queue(name, "all", guarantee={"gpu": 4}) for name in "ab")))
        >>> for gpus in (5, 7, 9):
        ...     print(fc.schedulers.Kueue().would_start(tree, ("a", {"gpu": gpus}), [("b", {"gpu": 2})]).words)
        would start now, borrowing 1 gpu
        would wait: asks for 7 gpu, of which 6 are free and a may have 8; by its rules a preempts nobody
        can never start: asks for 9 gpu, of which 6 are free and a may have 8
        """
        nodes, runs = self._running(tree, "", running)
        one = self._workload(nodes, workload)
        how, node = self._start(nodes, one, runs), nodes[one.queue]
        names = tuple(runs[j].name or str(j + 1) for j in how.victims)
        if not (how.now or names):
            ever, words = missing(node, one)
            words += [f"by its rules {node.name} preempts nobody"] * ever
            return WouldStart("waits" if ever else "never", missing=tuple(words))
        for j in how.victims:
            nodes[runs[j].queue].add(runs[j].uses, -1)
        over = {cell: amount + node.used.get(cell, 0) - node.own(cell) for cell, amount in how.uses.items()}
        lent = {cell: float(min(how.uses[cell], amount)) for cell, amount in over.items() if amount > 0}
        uses = {cell: float(amount) for cell, amount in how.uses.items()}
        return WouldStart("preempting" if names else "now", uses, lent, names, how.fewer)

    def circle(
        self,
        tree: QueueTree,
        workloads: Iterable[Workload | tuple[str, Amounts]],
        running: Iterable[Workload | tuple[str, Amounts]] = (),
    ) -> list[Cycle]:
        """Cycles of scheduling that come again for ever, since workloads preempt each other in a circle.

        Workloads arrive one by one, each when nothing changes any more, and none ever finishes. What is preempted is
        gone, and waits again, before the next cycle.

        Parameters
        ----------
        tree : QueueTree
            Queues and cohorts.
        workloads : iterable of (queue, amounts) or longer, as for `victims`
            In the order in which they arrive.
        running : iterable of the same
            What runs before.

        Returns
        -------
        list of Cycle
            ``admitted``, places in ``[*running, *workloads]``, and ``preempted``, pairs of such places: who, for whom.
            Empty if all settles, or nothing comes again in 1,000 cycles.

        Examples
        --------
        >>> import fairopt_clusters as fc
        >>> from fairopt_clusters import Queue, QueueTree
        >>> own = {"withinClusterQueue": "LowerPriority"}
        >>> queues = [Queue(name, "all", guarantee={"cpu": 10}, notes=own) for name in "ab"]
        >>> arrivals = [("a", {"cpu": 6}), ("b", {"cpu": 13}), ("a", {"cpu": 8}, 10)]
        >>> for cycle in fc.schedulers.Kueue().circle(QueueTree("Kueue", (Queue("all"), *queues)), arrivals):
        ...     print(cycle)
        Cycle(admitted=(1,), preempted=())
        Cycle(admitted=(), preempted=((1, 2),))
        """
        nodes, runs = self._running(tree, "", running)
        every = [*runs, *(self._workload(nodes, one) for one in workloads)]
        replay = Replay(nodes, every, range(len(runs)), partial(self._start, nodes), self._order)
        rings = (replay.settle(j) for j in range(len(runs), len(every)))
        return next(filter(None, rings), [])

    def _start(self, nodes: Mapping[str, Node], incoming: Workload, runs: Sequence[Workload]) -> Start:
        """How a workload could start beside those that run."""

        def gone(one: Workload, running: Sequence[Workload], needed: Collection[str]) -> list[int]:
            if not self.strategies:
                return classical.victims(nodes, one, running, needed)
            return victims(nodes, one, running, needed, self.strategies, self.below_threshold)

        return start(nodes, incoming, runs, gone, bool(self.strategies))

    def _order(self, nodes: Mapping[str, Node], waiting: Mapping[str, tuple[Workload, Start]]) -> Iterator[str]:
        """Queues in the order in which a workload of each is considered."""
        if self.strategies:
            return admissions(nodes, {name: one for name, (one, _) in waiting.items()})
        by_age = {name: (how.need.level, -one.priority, one.created) for name, (one, how) in waiting.items()}
        return iter(sorted(waiting, key=by_age.__getitem__))

    def admitted(self, tree: QueueTree, waiting: Mapping[str, Amounts]) -> list[str]:
        """In what order one waiting workload of each queue is considered, if each that fits is admitted.

        At each cohort those come first that do not borrow what they ask for, then those of the least share with their
        workload; equal ones in the order of the tree.

        Parameters
        ----------
        tree : QueueTree
            Queues with ``used``.
        waiting : dict of amounts by queue
            The workload that is next in each queue.

        Returns
        -------
        list of str
            Names of queues, tree of cohorts by tree of cohorts.

        Examples
        --------
        >>> import fairopt_clusters as fc
        >>> from fairopt_clusters import Queue, QueueTree
        >>> queues = [Queue(name, "all", 1, {"cpu": 0}, used={"cpu": use}) for name, use in (("a", 2), ("b", 1))]
        >>> tree = QueueTree("Kueue", (Queue("all", guarantee={"cpu": 8}), *queues))
        >>> fc.schedulers.Kueue().admitted(tree, {"a": {"cpu": 1}, "b": {"cpu": 1}})
        ['b', 'a']
        """
        nodes, out = nodes_of(self.checked(tree), exact), list[str]()
        left = {name: self._workload(nodes, (name, request)) for name, request in waiting.items()}
        for name in admissions(nodes, left):
            out.append(name)
            if nodes[name].fits(left[name].uses):
                nodes[name].add(left[name].uses)
        return out

    def _running(
        self, tree: QueueTree, queue: str, workloads: Iterable[Workload | tuple[str, Amounts]]
    ) -> tuple[dict[str, Node], list[Workload]]:
        """Nodes that use what runs."""
        nodes = nodes_of(self.checked(tree), exact)
        if queue:
            self._known(nodes, queue)
        runs = [self._workload(nodes, one) for one in workloads]
        for one in runs:
            nodes[one.queue].add(one.uses)
        return nodes, runs

    def _workload(self, nodes: Mapping[str, Node], workload: Workload | tuple[str, Amounts]) -> Workload:
        """A workload of a queue that there is, in exact amounts."""
        one = Workload(*workload)
        self._known(nodes, one.queue)
        return exactly(one)

    @staticmethod
    def _known(nodes: Mapping[str, Node], name: str) -> None:
        """Raise if there is no such queue, or it is a cohort."""
        if name not in nodes:
            raise InvalidInstance(f"there is no queue {name!r}; {nearest(name, nodes)}")
        if nodes[name].children:
            raise InvalidInstance(f"{name!r} is a cohort, which has no workloads; name a queue below it")

    def _queue(self, name: str, parent: str, weight: float, owed: Amounts, limit: Amounts, request: Amounts) -> Queue:
        borrowing = {one: max(0.0, amount - owed.get(one, 0.0)) for one, amount in limit.items()}
        return Queue(
            name, parent, weight, {**dict.fromkeys(request, 0.0), **owed}, request=request, borrowing=borrowing
        )

    def as_owed(self, tree: QueueTree) -> QueueTree:
        """Quotas of subtrees as guarantees, with borrowing limits as limits, and with what those below keep and use."""
        nodes, kept, queues = nodes_of(tree), dict[str, dict[str, float]](), list[Queue]()
        wants = {name: self._wanted(tree, nodes, name) for name in resources_of(tree)}
        for one in deepest_first(tree):
            node = nodes[one.name]
            kept[one.name] = {
                cell: sum(min(of.local(cell), wants[cell][of.name]) + kept[of.name][cell] for of in node.children)
                for cell in wants
            }
            owed = {cell: amount + kept[one.name].get(cell, 0) for cell, amount in node.quota.items()}
            limited = node.quota if node.parent is None or node.borrowing else ()
            most = {cell: node.limit(cell) + kept[one.name].get(cell, 0) for cell in limited}
            queues.append(replace(one, guarantee=owed, limit=most))
        by_name = {one.name: one for one in queues}
        return replace(tree, queues=tuple(by_name[one.name] for one in tree.queues))

    def sums(self, tree: QueueTree, name: str, most: Mapping[str, float]) -> Iterable[tuple[Sequence[str], float]]:
        """What queues may use together, where lending limits bind what others take of a quota, not its queue."""
        nodes = nodes_of(tree).values()
        return [(one.queues, one.amount) for node, one in Together(nodes).sums(name, most) if not node.is_queue]

    @staticmethod
    def _wanted(tree: QueueTree, nodes: Mapping[str, Node], name: str) -> dict[str, float]:
        """What each node asks of its quota and of those above, as far as it may use it."""
        asked, wants = request_of(tree), dict[str, float]()
        for one in deepest_first(tree):
            node = nodes[one.name]
            passed = (max(0.0, wants[child.name] - child.local(name)) for child in node.children)
            asks = asked[one.name][name] if name in node.quota else 0.0
            wants[one.name] = min(sum(passed) if node.children else asks, node.limit(name))
        return wants

    def _with_capacity(self, tree: QueueTree) -> QueueTree:
        names = dict.fromkeys(name for queue in tree.queues for name in queue.guarantee)
        return replace(tree, capacity={n: sum(one.guarantee.get(n, 0.0) for one in tree.queues) for n in names})

    def _tree_of(self, instance: Instance) -> tuple[QueueTree, list[str]]:
        tree, queue_of = super()._tree_of(instance)
        name = "cohort"
        while name in tree.by_name:
            name += "'"
        left = {
            one: max(0.0, amount - sum(top.guarantee.get(one, 0.0) for top in tree.children[""]))
            for one, amount in tree.capacity.items()
        }
        root = Queue(name, guarantee=left)
        return replace(tree, queues=(root, *(replace(one, parent=one.parent or name) for one in tree.queues))), queue_of

    def _divided(self, tree: QueueTree) -> dict[str, dict[str, float]]:
        if not self.strategies:
            raise OutOfDomain(f"{self.name} without fair sharing divides nothing: what is free goes to who comes first")
        nodes = nodes_of(tree)
        given: dict[str, dict[str, float]] = {name: {} for name in nodes}
        lowest_first = [nodes[queue.name] for queue in deepest_first(tree)]
        for name in resources_of(tree):
            wants = self._wanted(tree, nodes, name)
            for node in lowest_first[::-1]:
                if node.parent is None:
                    given[node.name][name] = wants[node.name]
                parts = _shared(node.children, name, wants, given[node.name][name])
                for child, part in zip(node.children, parts, strict=True):
                    given[child.name][name] = part
            for node in lowest_first:
                if node.children:
                    given[node.name][name] = sum(given[child.name][name] for child in node.children)
        return given


def _shared(below: Sequence[Node], name: str, wants: Mapping[str, float], amount: float) -> list[float]:
    """What nodes get of the amount of their cohort: first their quota, then by weight, a weight of 0 at last."""
    parts = [min(wants[node.name], node.quota.get(name, 0.0)) for node in below]
    left = amount - sum(max(0.0, part - node.local(name)) for node, part in zip(below, parts, strict=True))
    most = [wants[node.name] - part for node, part in zip(below, parts, strict=True)]
    more = by_weight([node.weight for node in below], most, left)
    return [part + one for part, one in zip(parts, more, strict=True)]
