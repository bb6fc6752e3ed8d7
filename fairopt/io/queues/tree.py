"""Queues in levels, and what they mean for tasks: teams, weights, guarantees and limits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.json_text import shown
from fairopt.io.notes import Notes
from fairopt.io.quotas.quota import matching
from fairopt.io.secured import Limit, Mask, Owed, Quota, Users, secured, without_rounding

ALL = "*"  # as a resource of parts: each of them
ROUNDING_FACTOR = 1 + 1e-9  # on capacities, when checking whether a task fits
_SMALL = 1e-3  # of the smallest other weight, for a weight of 0


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
        Its priority, None if it has none. No policy reads it.
    notes : mapping of str to str
        What else its file says, by the name that it has there.
    place : str
        Where it stands, for messages.

    Examples
    --------
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
    notes: Mapping[str, str] = field(default_factory=dict)
    place: str = field(default="", compare=False)


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
        ended = set[str]()  # queues that have no circle above them
        for queue in self.queues:
            if queue.parent and queue.parent not in known:
                fix = nearest(queue.parent, known)
                raise InvalidInstance(f"{_at(queue)} has the parent {shown(queue.parent)}, which is not there; {fix}")
            path, one = {queue.name: None}, queue
            while one.parent and one.parent not in ended:
                if one.parent in path:
                    ring = [*path][[*path].index(one.parent) :]
                    ring_shown = " -> ".join([*ring[:5], *["..."] * (len(ring) > 5), one.parent])
                    raise InvalidInstance(f"{_at(queue)} is in a circle of parents, {ring_shown}; correct one of them")
                path[one.parent] = None
                one = known.get(one.parent) or Queue(one.parent)  # whose parent is checked in its turn
            ended |= path.keys()

    @cached_property
    def by_name(self) -> dict[str, Queue]:
        """The queues by name."""
        return {queue.name: queue for queue in self.queues}

    @property
    def leaves(self) -> list[Queue]:
        """The queues without queues below them."""
        inner = {queue.parent for queue in self.queues}
        return [queue for queue in self.queues if queue.name not in inner]

    def above(self, name: str) -> list[str]:
        """The queues above one, the nearest first; none for a name that is not there."""
        known, out = self.by_name, list[str]()
        while name in known and (name := known[name].parent):
            out.append(name)
        return out

    @property
    def levels(self) -> int:
        """How many levels it has."""
        return max((1 + len(self.above(queue.name)) for queue in self.queues), default=0)

    def named(self, given: str) -> str:
        """The name of the queue that is meant: the name itself, or the only one that ends in it after a dot."""
        known = self.by_name
        if given in known:
            return given
        ends = [name for name in known if name.endswith(f".{given.removeprefix('root.')}")]
        return ends[0] if len(ends) == 1 else given

    def within(self, capacity: Mapping[str, float]) -> QueueTree:
        """The same tree of a cluster with some capacity: parts become amounts.

        Examples
        --------
        >>> parts = {"guarantee_parts": {"*": 0.5}, "limit_parts": {"*": 0.8}}
        >>> tree = QueueTree("YARN", (Queue("ml", **parts), Queue("nlp", "ml", limit_parts={"*": 0.25})))
        >>> [(one.guarantee, one.limit) for one in tree.within({"cpu": 40}).queues]
        [({'cpu': 20.0}, {'cpu': 32.0}), ({}, {'cpu': 8.0})]
        """
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
        """The capacity that queues share: what the root has, else the sum of the guarantees at the top."""
        top = [queue for queue in self.queues if not queue.parent]
        names = dict.fromkeys(name for queue in top for name in queue.guarantee)
        sums = {name: sum(queue.guarantee.get(name, 0.0) for queue in top) for name in names}
        return {name: amount for name, amount in {**sums, **self.capacity}.items() if amount > 0}

    def described(self) -> str:
        """What there is, in words."""
        n, levels = len(self.queues), self.levels
        what = f"{n:,} {'account' if self.scheduler == 'Slurm' else 'queue'}{'s' * (n != 1)} of {self.scheduler}"
        return what + (f" in {levels} levels" if levels > 1 else "")

    # -- for tasks ----------------------------------------------------------------------------------------------

    def labels(self, owners: Collection[str]) -> dict[str, dict[str, str | None]]:
        """The labels of owners of tasks, see `labels_of`."""
        return labels_of({owner: self.above(owner) for owner in sorted(owners)})

    def team_weights(self, owners: Collection[str], notes: Notes) -> dict[str, float]:
        """The weights of the owners of tasks, and of the queues above them."""
        known = self.by_name
        names = {name for owner in owners for name in (owner, *self.above(owner)) if name in known}
        given = {name: known[name].weight for name in sorted(names)}
        least = min((weight for weight in given.values() if weight), default=1.0) * _SMALL
        what = "{queue} with a weight of 0 {counts} with a thousandth of the smallest other weight"
        notes.add(what, *(name for name, weight in given.items() if not weight))
        apart = [name for name in given if len({*known[name].weights.values()}) > 1]
        what = "{queue} with different weights by resource {counts} with one, of GPUs if there are any"
        notes.add(what, *apart)
        return {name: weight or least for name, weight in given.items()}

    def barred(self, owner: str, requested: Collection[str]) -> str:
        """The resource of which an owner may use nothing though it requests it, ``""`` if there is none."""
        known = self.by_name
        for name in (owner, *self.above(owner)):
            for resource, amount in known[name].limit.items() if name in known else ():
                if amount <= 0 and (meant := matching(resource, requested)):
                    return meant
        return ""

    def owed(self, owners: Collection[str], resources: Sequence[str], n_servers: int, notes: Notes) -> Owed:
        """What queues of owners are owed, and limits, on servers that are all alike to them."""
        known, anywhere = self.by_name, np.ones(n_servers, dtype=np.bool_)
        everywhere = tuple(anywhere.tolist())
        paths = {owner: self.above(owner) for owner in sorted(owners)}
        inner = {name for path in paths.values() for name in path}
        below: dict[str, list[str]] = {name: [] for path in paths.values() for name in path}
        for owner, path in paths.items():
            for name in path:
                below[name].append(owner)
            if owner in inner:
                below[owner].append(owner)

        def of(amounts: Mapping[str, float]) -> dict[str, float]:
            found = {name: matching(name, resources) for name in amounts}
            return {meant: amounts[name] for name, meant in found.items() if meant}

        of_team = {
            owner: [Quota(name, amount, {owner: anywhere}) for name, amount in of(known[owner].guarantee).items()]
            for owner in paths
            if owner in known and known[owner].guarantee and owner not in inner
        }
        of_outer: dict[str, tuple[list[str], list[Quota]]] = {}
        for name in sorted(below, key=lambda name: -len(self.above(name))):
            inside = [owner for owner in below[name] if owner not in inner]
            amounts = of(known[name].guarantee)
            if amounts and inside:
                on = dict.fromkeys(inside, anywhere)
                of_outer[name] = inside, [Quota(one, amount, on) for one, amount in amounts.items()]
        limits = []
        for name in sorted({*paths, *below}):
            for one, amount in of(known[name].limit).items() if name in known else ():
                members = [name] if name in inner and name in paths else below.get(name, [name])
                if amount > 0:
                    where = dict.fromkeys(members, everywhere)
                    limits.append(Limit(f"{one} of queue {name}", one, amount, where))
        notes.add("{limit} on what queues use", *(one.name for one in limits))
        owing = [name for name in (*of_team, *of_outer) if any(known[name].guarantee.values())]
        notes.add("{queue} with guarantees, owed as far as their tasks can use them", *owing)
        return Owed(of_team, of_outer, limits)

    def note_rest(self, notes: Notes) -> None:
        """Say what its file says beyond teams, weights, guarantees and limits."""
        for text in self.notes:
            notes.say(text)
        keys = dict.fromkeys(key for queue in self.queues for key in queue.notes)
        for key in keys:
            mine = [f"{one.name}: {one.notes[key]}" for one in self.queues if key in one.notes]
            notes.add("{queue} with {key}, which {is} not modelled", *mine, key=key)
        ranked = [f"{one.name}: {one.priority}" for one in self.queues if one.priority is not None]
        if len({queue.priority for queue in self.queues} - {None}) > 1:
            notes.add("the priorities of {queue} are not modelled", *ranked)


def labels_of(paths: Mapping[str, Sequence[str]]) -> dict[str, dict[str, str | None]]:
    """The labels of owners, given with what is above each, the nearest first: ``team``, ``parent1``, ``parent2``, ...

    A queue has one label everywhere: those at the top have the last. Tasks of a queue that is above others are in no
    ``team``, but members of it beside these others.
    """
    depth = max(map(len, paths.values()), default=0)
    inner = {name for path in paths.values() for name in path}
    labels: dict[str, dict[str, str | None]] = {"team": {}}
    labels |= {f"parent{k}": {} for k in range(1, depth + 1)}
    for owner, path in paths.items():
        labels["team"][owner] = None if owner in inner else owner
        for k, name in enumerate([*reversed(path), *([owner] if owner in inner else [])]):
            labels[f"parent{depth - k}"][owner] = name
    return labels


def _at(queue: Queue) -> str:
    """A queue with its place, at the beginning of a message."""
    return f"{queue.place}: the queue {queue.name!r}" if queue.place else f"the queue {queue.name!r}"


def _of_parts(parts: Mapping[str, float], whole: Mapping[str, float]) -> dict[str, float]:
    """Parts of amounts as amounts."""
    every = {name: part for name in whole for one, part in parts.items() if one == ALL}
    every |= {name: part for name, part in parts.items() if name != ALL}
    return {name: part * whole[name] for name, part in every.items() if name in whole}


def arguments_of_tree(
    tree: QueueTree,
    owners: Collection[str],
    resources: Sequence[str],
    totals: Mapping[str, float],
    n_servers: int,
    notes: Notes,
) -> dict[str, Any]:
    """Labels, weights and what is owed: arguments of `fairopt.io.work.arguments_of_work`."""
    mine = tree.within(
        {name: totals[found] for name in _names(tree) if (found := matching(name, resources))} | {**totals}
    )
    missing = sorted({*owners} - mine.by_name.keys())
    what = "{owner} that {is} no queue of {scheduler} {counts} as one at the top"
    notes.add(what, *missing, scheduler=tree.scheduler)
    inner = {queue.parent for queue in mine.queues}
    what = "{queue} with tasks of its own and queues below: these tasks are members beside those queues"
    notes.add(what, *(owner for owner in owners if owner in inner))
    weights = mine.team_weights(owners, notes)
    owed = mine.owed(owners, resources, n_servers, notes)
    mine.note_rest(notes)
    return dict(labels=mine.labels(owners), weights=weights, owed=replace(owed, weights=weights))


def with_queues(values: dict[str, Any], tree: QueueTree) -> dict[str, Any]:
    """The arguments of an instance whose users' ``team`` names queues, with what the queues say of them."""
    teams = values["teams"].get("team")
    if teams is None:
        raise InvalidInstance("no user has a team; add the column team, with the names of queues, to users.csv")
    notes, names = Notes(), values["resources"]
    named = [None if team is None else tree.named(team) for team in teams]
    owners = {team for team in named if team is not None}
    counts = np.asarray(values.get("counts", 1.0)) * np.ones(len(values["capacities"]))
    totals = dict(zip(names, (np.asarray(values["capacities"]).T @ counts).tolist(), strict=True))
    found = arguments_of_tree(tree, owners, names, totals, len(counts), notes)
    labels = {
        label: [None if team is None else of.get(team) for team in named] for label, of in found["labels"].items()
    }
    here, owed = {team for of in labels.values() for team in of}, found["owed"]
    members: dict[str, list[int]] = {}
    for of in labels.values():
        for j, team in enumerate(of):
            if team is not None:
                members.setdefault(team, []).append(j)
    demands, capacities = np.asarray(values["demands"], dtype=float), np.asarray(values["capacities"], dtype=float)
    if demands.ndim != 2:
        raise InvalidInstance("demands by server are not read with queues; give demands in users.csv")
    able: Mask = np.asarray((demands[:, None] <= capacities * ROUNDING_FACTOR).all(axis=2))
    if values.get("eligible") is not None:
        able &= np.asarray(values["eligible"], dtype=np.bool_)
    most = np.asarray(values.get("task_limits", np.full(len(demands), np.inf)), dtype=float)
    tasks, outer, _ = secured(owed, Users(demands, most, able, members, names, capacities * counts[:, None]))
    of_users = {user: without_rounding(x) for user, x in zip(values["users"], tasks.tolist(), strict=True) if x > 0}
    guarantees = {**_by_name(values, "guarantees"), **of_users, **outer}
    limits = [
        {"name": one.name, "resource": one.resource, "amount": one.amount, "of": list(one.of)} for one in owed.limits
    ]
    weights = {**_by_name(values, "weights"), **{team: w for team, w in found["weights"].items() if team in here}}
    all_labels = {**labels, **{key: of for key, of in values["teams"].items() if key != "team"}}
    return values | {
        "teams": all_labels,
        "innermost_first": list(all_labels),
        "weights": weights,
        "guarantees": guarantees or None,
        "limits": limits or None,
        "notes": [*values["notes"], *notes.sentences()],
    }


def _by_name(values: Mapping[str, Any], argument: str) -> dict[str, Any]:
    """An argument by user, given by name or in the order of users."""
    given = values.get(argument)
    if given is None or isinstance(given, Mapping):
        return dict(given or {})
    return dict(zip(values["users"], np.asarray(given).tolist(), strict=True))


def _names(tree: QueueTree) -> Iterable[str]:
    """The resources that a tree names."""
    parts = ("guarantee", "limit", "guarantee_parts", "limit_parts")
    return dict.fromkeys(name for one in tree.queues for part in parts for name in getattr(one, part) if name != ALL)
