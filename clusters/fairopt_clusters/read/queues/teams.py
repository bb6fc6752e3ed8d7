"""What queues mean for tasks: teams in levels, weights, what is owed, and limits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from fairopt.errors import InvalidInstance
from fairopt.io import Notes
from fairopt_clusters.read.amounts import matching
from fairopt_clusters.read.queues.tree import ALL, QueueTree
from fairopt_clusters.read.secured import Entitlement, Limit, Owed, Users, fitting, guarantees_of, members_of, note_part

QUEUE = "queue"  # the label of queues that are right above others; then queue2, queue3, ...
_SMALL = Fraction(1, 1000)  # of the smallest other weight, for a weight of 0


def labels_of(paths: Mapping[str, Sequence[str]], kind: str) -> dict[str, dict[str, str | None]]:
    """The labels of owners, given with what is above each, the nearest first: ``team``, then ``kind``, ``kind2``, ...

    A queue has one label everywhere: those at the top have the last. Tasks of a queue that is above others are in no
    ``team``, but members of it beside these others.
    """
    depth = max(map(len, paths.values()), default=0)
    inner = {name for path in paths.values() for name in path}
    labels: dict[str, dict[str, str | None]] = {"team": {}}
    outer = [kind, *(f"{kind}{level}" for level in range(2, depth + 1))][:depth]
    labels |= {label: {} for label in outer}
    for owner, path in paths.items():
        labels["team"][owner] = None if owner in inner else owner
        for k, name in enumerate([*reversed(path), *([owner] if owner in inner else [])]):
            labels[outer[-1 - k]][owner] = name
    return labels


def positive(weights: Mapping[str, float | Fraction], what: str, notes: Notes) -> dict[str, float]:
    """Weights with a small one in place of 0, and a note, ``what``, on these."""
    least = min((weight for weight in weights.values() if weight), default=1) * _SMALL
    notes.add(what, *(name for name, weight in weights.items() if not weight))
    return {name: float(weight or least) for name, weight in weights.items()}


def _weights(tree: QueueTree, owners: Collection[str], notes: Notes) -> dict[str, float]:
    """The weights of the owners of tasks, and of the queues above them."""
    known = tree.by_name
    names = sorted({name for owner in owners for name in (owner, *tree.above(owner)) if name in known})
    what = "{queue} with a weight of 0 {counts} with a thousandth of the smallest other weight"
    weights = positive({name: known[name].weight for name in names}, what, notes)
    apart = [name for name in names if len({*known[name].weights.values()}) > 1]
    what = "{queue} with different weights by resource {counts} with one, of GPUs if there are any"
    notes.add(what, *apart)
    return weights


def barred(tree: QueueTree, owner: str, requested: Collection[str]) -> str:
    """The resource of which an owner may use nothing though it requests it, ``""`` if there is none."""
    known = tree.by_name
    for name in (owner, *tree.above(owner)):
        for resource, amount in known[name].limit.items() if name in known else ():
            if amount <= 0 and (meant := matching(resource, requested)):
                return meant
    return ""


def owed_to(tree: QueueTree, owners: Collection[str], resources: Sequence[str], n_servers: int, notes: Notes) -> Owed:
    """What queues of owners are owed, and limits, on servers that are all alike to them."""
    known, anywhere = tree.by_name, np.ones(n_servers, dtype=np.bool_)
    everywhere = tuple(anywhere.tolist())
    paths = {owner: tree.above(owner) for owner in sorted(owners)}
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

    of_team: dict[str, list[Entitlement]] = {}  # of all, also of those that are owed nothing
    for owner in (name for name in paths if name not in inner):
        amounts = of(known[owner].guarantee) if owner in known else {}
        of_team[owner] = [Entitlement(name, amount, {owner: anywhere}) for name, amount in amounts.items()]
    of_outer: dict[str, tuple[list[str], list[Entitlement]]] = {}
    for name in sorted(below, key=lambda name: -len(tree.above(name))):
        inside = [owner for owner in below[name] if owner not in inner]
        amounts = of(known[name].guarantee)
        if amounts and inside:
            on = dict.fromkeys(inside, anywhere)
            of_outer[name] = inside, [Entitlement(one, amount, on) for one, amount in amounts.items()]
    limits = []
    for name in sorted({*paths, *below}):
        for one, amount in of(known[name].limit).items() if name in known else ():
            members = [name] if name in inner and name in paths else below.get(name, [name])
            if amount > 0:
                where = dict.fromkeys(members, everywhere)
                limits.append(Limit(f"{one} of queue {name}", one, amount, where))
    notes.add("{limit} on what queues use", *(one.name for one in limits))
    owing = [name for name in sorted({*of_team, *of_outer} & known.keys()) if any(known[name].guarantee.values())]
    notes.add("{queue} with guarantees, owed as far as their tasks can use them", *owing)
    return Owed(of_team, of_outer, limits)


def note_rest(tree: QueueTree, notes: Notes) -> None:
    """Say what its file says beyond teams, weights, guarantees and limits."""
    for text in tree.notes:
        notes.say(text)
    keys = dict.fromkeys(key for queue in tree.queues for key in queue.notes)
    for key in keys:
        mine = [f"{one.name}: {one.notes[key]}" for one in tree.queues if key in one.notes]
        notes.add("{queue} with {key}, which {is} not modelled", *mine, key=key)
    ranked = [f"{one.name}: {one.priority}" for one in tree.queues if one.priority is not None]
    if len({queue.priority for queue in tree.queues} - {None}) > 1:
        notes.add("the priorities of {queue} are not modelled", *ranked)


def arguments_of_tree(
    tree: QueueTree,
    owners: Collection[str],
    resources: Sequence[str],
    totals: Mapping[str, float],
    n_servers: int,
    notes: Notes,
) -> dict[str, Any]:
    """Labels, weights and what is owed: arguments of `fairopt_clusters.read.work.arguments_of_work`."""
    mine = tree.within(
        {name: totals[found] for name in _names(tree) if (found := matching(name, resources))} | {**totals}
    )
    missing = sorted({*owners} - mine.by_name.keys())
    what = "{owner} that {is} no queue of {scheduler} {counts} as one at the top"
    notes.add(what, *missing, scheduler=tree.scheduler)
    inner = {queue.parent for queue in mine.queues}
    what = "{queue} with tasks of its own and queues below: these tasks are members beside those queues"
    notes.add(what, *(owner for owner in owners if owner in inner))
    weights = _weights(mine, owners, notes)
    owed = owed_to(mine, owners, resources, n_servers, notes)
    note_rest(mine, notes)
    return dict(
        labels=labels_of({owner: mine.above(owner) for owner in sorted(owners)}, QUEUE),
        weights=weights,
        owed=replace(owed, weights=weights),
    )


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
    arguments = arguments_of_tree(tree, owners, names, totals, len(counts), notes)
    labels = {
        label: [None if team is None else of.get(team) for team in named] for label, of in arguments["labels"].items()
    }
    here, owed = {team for of in labels.values() for team in of}, arguments["owed"]
    demands, capacities = np.asarray(values["demands"], dtype=float), np.asarray(values["capacities"], dtype=float)
    if demands.ndim != 2:
        raise InvalidInstance("demands by server are not read with queues; give demands in users.csv")
    eligible = values.get("eligible")
    may = np.ones((len(demands), len(capacities)), dtype=np.bool_) if eligible is None else np.asarray(eligible)
    most = np.asarray(values.get("task_limits", np.full(len(demands), np.inf)), dtype=float)
    able = fitting(demands, capacities, may)
    work = Users(demands, most, able, members_of(labels.values()), names, capacities * counts[:, None])
    of_owed, part, _ = guarantees_of(owed, work, values["users"])
    note_part(part, notes)
    guarantees = {**_by_name(values, "guarantees"), **of_owed}
    limits = [
        {"name": one.name, "resource": one.resource, "amount": one.amount, "of": list(one.of)} for one in owed.limits
    ]
    weights = {**_by_name(values, "weights"), **{team: w for team, w in arguments["weights"].items() if team in here}}
    others = {key: of for key, of in values["teams"].items() if key != "team"}
    for name in others.keys() & labels.keys():
        raise InvalidInstance(
            f"the column {name!r} of users.csv is named as the label of queues above others; rename it"
        )
    all_labels = {**labels, **others}
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
