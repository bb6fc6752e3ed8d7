"""Small trees of queues that a scheduler accepts: drawn, and made smaller one step at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from fairopt_clusters.read.queues.tree import Queue, QueueTree, Workload
from fairopt_clusters.schedulers.base import Deployed
from fairopt_clusters.schedulers.kai import UNLIMITED

AMOUNTS = ("guarantee", "limit", "reserved", "lending", "borrowing")
READS = {  # the features of queues that each kind of scheduler reads, beside requests
    "KAI": "guarantee limit weight priority levels fractions",
    "Kueue": "guarantee lending borrowing weight levels",
    "YuniKorn": "guarantee limit priority levels",
    "Volcano proportion": "reserved limit weight",
    "Volcano capacity": "guarantee reserved limit levels",
    "Volcano hdrf": "weight levels tasks",
    "Slurm": "limit weight levels",
}
MOST_QUEUES, MOST_LEVELS = 5, 3
FRACTIONS = tuple(k / 20 for k in (2, 4, 5, 6, 8, 10, 12, 14, 15, 16, 18))  # tenths and quarters


class Case(NamedTuple):
    """What a trial looks at: queues, and what runs in them."""

    tree: QueueTree
    running: tuple[Workload, ...] = ()


class Breach(NamedTuple):
    """How a property fails: in words, with amounts and names, and by which part of the capacity."""

    sentence: str
    margin: float


def kind_of(scheduler: Deployed) -> str:
    """The name of a scheduler, and of its plugin if it has several."""
    return f"{scheduler.scheduler} {getattr(scheduler, 'plugin', '')}".strip()


def reads(scheduler: Deployed) -> set[str]:
    """The features of queues that it reads."""
    return {*READS.get(kind_of(scheduler), "weight").split()}


def drawn(rng: np.random.Generator, scheduler: Deployed, without: tuple[str, ...] = ()) -> Case:
    """A case of up to 5 queues on up to 3 levels, with small numbers."""
    while True:
        case = Case(_tree(rng, scheduler.scheduler, reads(scheduler) - {*without}))
        if legal(scheduler, case):
            return case


def features_of(tree: QueueTree) -> set[str]:
    """The features that queues have, of those that some trials leave out; quotas of Kueue's roots are its capacity."""
    owed = [one for one in tree.queues if any(one.guarantee.values()) or UNLIMITED in " ".join(one.notes)]
    features = {key for key in AMOUNTS if key != "guarantee" and any(getattr(one, key) for one in tree.queues)}
    features |= {"guarantee"} if any(one.parent or tree.scheduler != "Kueue" for one in owed) else set()
    return features | ({"priority"} if len({one.priority or 0 for one in tree.queues}) > 1 else set())


def _tree(rng: np.random.Generator, scheduler: str, has: set[str]) -> QueueTree:
    """Queues with some of the features, at random."""
    both = ("gpu", "cpu") if scheduler == "KAI" else ("cpu", "memory")
    names = both[: 1 + int(rng.random() < 0.2)]
    of_kueue = scheduler == "Kueue"
    parents = {"all": ""} if of_kueue else {}
    depth = {"": 0, "all": 1}
    used = {one for one in sorted(has) if rng.random() < (0.4 if len(has) > 3 else 0.7)}

    def number(most: int) -> float:
        if "fractions" in has and rng.random() < 0.4:
            return float(rng.choice(FRACTIONS))
        return float(rng.integers(most))

    for name in "abcde"[: rng.integers(1, MOST_QUEUES + 1)]:
        inside = [one for one in parents if depth[one] < MOST_LEVELS] if "levels" in used and rng.random() < 0.5 else []
        parents[name] = str(rng.choice(inside)) if inside else "all" * of_kueue
        depth[name] = depth[parents[name]] + 1
    queues = list[Queue]()
    for name, parent in parents.items():
        leaf = name not in parents.values()
        amounts: dict[str, Any] = {
            key: {one: number(5) for one in names if rng.random() < 0.6}
            for key in AMOUNTS
            if key in used and (name != "all" or key == "guarantee")
        }
        if of_kueue:
            amounts["guarantee"] = {one: number(5) if name == "all" or "guarantee" in used else 0.0 for one in names}
        if leaf and (rng.random() < 0.7 or "tasks" in has):
            amounts["request"] = {one: number(8) for one in names}
        if "weight" in used:
            amounts["weight"] = float(rng.integers(1, 7))
        if "priority" in used:
            amounts["priority"] = int(rng.integers(1, 4))
        queues.append(Queue(name, parent, **amounts))
    capacity = {} if of_kueue else {one: float(rng.integers(1, 9)) for one in names}
    return QueueTree(scheduler, tuple(queues), capacity)


def legal(scheduler: Deployed, case: Case) -> bool:
    """Whether a scheduler takes these queues, and there is something to divide."""
    tree, kind = case.tree, kind_of(scheduler)
    total = scheduler._with_capacity(tree).total()
    if {one.name for one in tree.queues if one.request is not None} - {one.name for one in tree.leaves}:
        return False
    if not tree.leaves or not total or not all(total.get(name) for name in _names(tree)):
        return False
    if "tasks" in reads(scheduler) and any(one.request is None for one in tree.leaves):
        return False
    owed = {name: sum(_owed(one, name) for one in tree.children[""]) for name in tree.capacity}
    if any(amount > tree.capacity[name] for name, amount in owed.items()):
        return False
    check = _in_kueue if kind == "Kueue" else _by_weight if kind == "Slurm" else _with_guarantees
    return all(check(kind, tree, queue) for queue in tree.queues)


def _in_kueue(_kind: str, tree: QueueTree, queue: Queue) -> bool:
    """Whether a queue has a quota of each resource, lends no more, and has limits and a parent only within a cohort."""
    lends = all(most <= queue.guarantee.get(name, 0.0) for name, most in queue.lending.items())
    named = {*queue.lending, *queue.borrowing, *_names(tree)} <= {*queue.guarantee}
    plain = queue.request is None and not queue.notes and bool(tree.children[queue.name])  # as cohorts are
    cohort = plain or bool(queue.parent)
    return lends and named and (bool(queue.parent) or not (queue.lending or queue.borrowing)) and cohort


def _by_weight(_kind: str, _tree: QueueTree, queue: Queue) -> bool:
    """Whether fairshares and limits are whole."""
    return all(float(value).is_integer() for value in (queue.weight, *queue.limit.values()))


def _with_guarantees(kind: str, tree: QueueTree, queue: Queue) -> bool:
    """Whether what is owed is within limits, and together within what the queue above is owed and may have."""
    if any(_owed(queue, name) > most for name, most in queue.limit.items()):
        return False
    if kind == "KAI":  # checks no more
        return True
    if kind == "YuniKorn" and 0 in (*queue.guarantee.values(), *queue.limit.values()):
        return False
    if kind.startswith("Volcano") and (queue.weight < 1 or queue.weight % 1 or 0 in queue.limit.values()):
        return False  # a capability of 0 is none
    if "capacity" in kind and any(part > queue.guarantee.get(name, 0.0) for name, part in queue.reserved.items()):
        return False
    below, unset = tree.children[queue.name], math.inf if kind == "YuniKorn" else 0.0
    for name in _names(tree) if below else ():
        most = queue.limit.get(name, math.inf)
        sums = {key: sum(getattr(one, key).get(name, 0.0) for one in below) for key in ("guarantee", "reserved")}
        if any(part > min(getattr(queue, key).get(name, unset), most) for key, part in sums.items()):
            return False
        if any(one.limit.get(name, 0.0) > most for one in below):
            return False
    return True


def _owed(queue: Queue, name: str) -> float:
    """What a queue is owed of a resource."""
    return max(queue.guarantee.get(name, 0.0), queue.reserved.get(name, 0.0))


def _names(tree: QueueTree) -> list[str]:
    """The resources that queues divide."""
    return [*dict.fromkeys([*tree.capacity, *(name for queue in tree.queues for name in queue.guarantee)])]


# -- smaller cases --------------------------------------------------------------------------------------------------


def shrunk(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The smallest case that still fails, of those one simplification after the other reaches."""
    while True:
        size = size_of(case)
        smaller = next((one for one in _smaller(case) if size_of(one) < size and fails(one)), None)
        if smaller is None:
            break
        case = smaller
    return next((one for one in (_renamed(case, True), _renamed(case)) if fails(one)), case)


def size_of(case: Case) -> tuple[float, ...]:
    """How much there is to read in a case: queues, levels, resources, features, and then numbers."""
    tree = case.tree
    maps = [of for queue in tree.queues for of in (*(getattr(queue, key) for key in AMOUNTS), queue.request or {})]
    numbers = [value for of in (*maps, tree.capacity, *(one.uses for one in case.running)) for value in of.values()]
    numbers += [queue.weight for queue in tree.queues]
    features = sum(len(of) for of in maps) + sum(queue.request is not None for queue in tree.queues)
    features += sum(len(queue.notes) for queue in tree.queues)
    features += sum((queue.weight != 1) + (queue.priority is not None) for queue in tree.queues)
    kinds = len({str(replace(queue, name="", parent="")) for queue in tree.queues})
    broken = sum(not float(value).is_integer() for value in numbers)
    priorities = sum(queue.priority or 0 for queue in tree.queues) + sum(one.priority for one in case.running)
    counts = len(tree.queues), tree.levels, len(_names(tree)), len(case.running), kinds, features, broken
    return (*map(float, counts), sum(numbers) + priorities, max(numbers, default=0.0))


def _renamed(case: Case, ordered: bool = False) -> Case:
    """The same queues by the first letters, or in an order by what they say."""
    tree, names = case.tree, {"": "", "all": "all"}
    queues = [*tree.queues]
    if ordered:
        queues.sort(key=lambda one: (len(tree.above(one.name)), str(replace(one, name="", parent=""))))
    for queue in queues:
        names.setdefault(queue.name, "abcdefgh"[len(names) - 2])
    changed = tuple(replace(one, name=names[one.name], parent=names[one.parent]) for one in queues)
    running = tuple(one._replace(queue=names[one.queue]) for one in case.running)
    return Case(replace(tree, queues=changed), running)


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with one thing less, or one number smaller."""
    tree, running = case
    for gone in tree.queues:
        left = [one for one in tree.queues if one is not gone and gone.name not in tree.above(one.name)]
        yield _made(tree, left, running)
        lifted = [replace(one, parent=gone.parent) if one.parent == gone.name else one for one in tree.queues]
        yield _made(tree, [one for one in lifted if one.name != gone.name], running)
    for name in _names(tree):
        if len(_names(tree)) > 1:
            yield _made(_without(tree, name), _without(tree, name).queues, running)
    for j in range(len(running)):
        yield Case(tree, running[:j] + running[j + 1 :])
    for queues in _changed_queues(tree):
        yield _made(tree, queues, running)
    for numbers in _changed(tree.capacity, drop=False):
        yield Case(replace(tree, capacity=numbers), running)
    for j, runs in enumerate(running):
        for priority in range(runs.priority):
            yield Case(tree, (*running[:j], runs._replace(priority=priority), *running[j + 1 :]))
        for uses in _changed(runs.uses):
            yield Case(tree, (*running[:j], runs._replace(uses=uses), *running[j + 1 :]))
    for numbers in _changed(tree.capacity, drop=False):  # with less of a queue, where neither alone will do
        for queues in _changed_queues(tree):
            yield _made(replace(tree, capacity=numbers), queues, running)


def _changed_queues(tree: QueueTree) -> Iterator[list[Queue]]:
    """The queues with one like another, or one thing less in a queue, or in all that have the same; smaller weights."""
    weights = sorted({queue.weight for queue in tree.queues})
    for less in product(*(range(1, int(weight) + 1) for weight in weights)):
        new = dict(zip(weights, map(float, less), strict=True))
        yield [replace(queue, weight=new[queue.weight]) for queue in tree.queues]
    for one in tree.queues:
        for other in tree.queues:
            alike = replace(one, name=other.name, parent=other.parent)
            yield [alike if queue is other else queue for queue in tree.queues]
        for key, value in _changes(one):
            changed: dict[str, Any] = {key: value}
            yield [replace(queue, **changed) if queue is one else queue for queue in tree.queues]
            same = [getattr(queue, key) == getattr(one, key) for queue in tree.queues]
            pairs = zip(tree.queues, same, strict=True)
            yield [replace(queue, **changed) if row else queue for queue, row in pairs]


def _changes(queue: Queue) -> Iterator[tuple[str, Any]]:
    """Fields of a queue, each with one thing less, or one number smaller."""
    if queue.request is not None:
        yield "request", None
    for key in (*AMOUNTS, "request"):
        yield from ((key, of) for of in _changed(getattr(queue, key) or {}, drop=key != "request"))
    yield from (("weight", float(weight)) for weight in range(1, int(queue.weight)))
    for note in queue.notes:
        yield "notes", {key: text for key, text in queue.notes.items() if key != note}
    if queue.priority is not None:
        yield from (("priority", priority or None) for priority in range(queue.priority))


def _changed(amounts: Any, drop: bool = True) -> Iterator[dict[str, float]]:
    """Amounts with one less, or smaller."""
    for name, value in amounts.items():
        if drop:
            yield {one: amount for one, amount in amounts.items() if one != name}
        for less in _less(value):
            yield {**amounts, name: less}


def _less(value: float) -> list[float]:
    """Simpler numbers than one: smaller whole ones, and for a fraction some larger whole ones and smaller fractions."""
    whole = [float(one) for one in range(int(value) + 1 + 2 * (value % 1 > 0)) if one != value]
    return whole + ([one for one in FRACTIONS if one < value] if value % 1 else [])


def _made(tree: QueueTree, queues: Any, running: tuple[Workload, ...]) -> Case:
    """The same cluster with other queues, and what runs in those that are still there."""
    new = replace(tree, queues=tuple(queues))
    return Case(new, tuple(one for one in running if one.queue in new.by_name))


def _without(tree: QueueTree, name: str) -> QueueTree:
    """The tree without a resource."""

    def rest(of: Any) -> Any:
        return None if of is None else {one: amount for one, amount in of.items() if one != name}

    changed: list[dict[str, Any]] = [
        {key: rest(getattr(one, key)) for key in (*AMOUNTS, "request")} for one in tree.queues
    ]
    queues = [replace(one, **change) for one, change in zip(tree.queues, changed, strict=True)]
    return replace(tree, queues=tuple(queues), capacity=rest(tree.capacity))
