"""Makes teams and their users from the tasks of owners: pods of namespaces, jobs of accounts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fairopt.errors import InvalidInstance
from fairopt.io import About, Notes, check_choice, counted
from fairopt.runtime import Bool, Float, unit_shown, without_vendor
from fairopt_clusters.read.secured import ROUNDING_FACTOR, Owed, Users, fitting, guarantees_of, members_of, note_part

TASKS = ("auto", "mean", "shapes")
MOST_SHAPES = 6_000  # distinct requests of owners: as many take HDRF 11 s, and their means 0.2 s
_USUAL = ("cpu", "memory", "ephemeral-storage")  # a kind of task is named for what it needs beside these, if anything
_ANYWHERE = ("", "")
_LONGEST = 60  # characters of rules of placement in a name; longer ones, such as lists of hosts, are counted servers
_FEW = 3  # servers in a name; of more the number and the first


class NothingAsked(InvalidInstance):
    """An input without tasks to share servers among: no error where nothing is to be done then."""


def is_nothing_asked(error: BaseException | None) -> bool:
    """Whether an error, or the one that it names a file for, is `NothingAsked`."""
    return error is not None and (isinstance(error, NothingAsked) or is_nothing_asked(error.__cause__))


@dataclass(frozen=True, eq=False)
class Work:
    """Equal tasks of one owner, with the units that one task takes by resource, not all zero.

    ``servers``, of shape (n_servers,), marks the eligible servers, whatever their capacities; None means all of them.
    One array for several works saves time. ``name`` is the name of one task, as an example for notes. ``place`` are
    the rules of placement as text: those that restrict it, and all of them, which differ if the servers do. ``held``
    are the tasks that run now, by index of the server; ``count`` may be 0 beside them, if there may be no more. With
    ``more`` there may be any number of them. ``staying`` run on servers that start no others.
    """

    owner: str
    request: tuple[float, ...]
    servers: Bool | None = None
    count: float = 1.0
    name: str = ""
    place: tuple[str, str] = _ANYWHERE
    held: Mapping[int, float] = field(default_factory=dict)
    more: bool = False
    staying: float = 0.0


def arguments_of_work(
    work: Iterable[Work],
    *,
    resources: Sequence[str],
    capacities: ArrayLike,
    servers: Sequence[str],
    tasks: str = "mean",
    server_types: Sequence[str] | None = None,
    units: dict[str, str] | None = None,
    notes: Notes | None = None,
    word: str = "task",
    limiting: Collection[str] = (),
    labels: Mapping[str, Mapping[str, str | None]] | None = None,
    weights: Mapping[str, float] | None = None,
    owed: Owed | None = None,
    full_demand: bool = False,
    says_what_runs: bool = False,
) -> dict[str, Any]:
    """The arguments of the `Instance` in which owners share servers by the requests of their tasks.

    ``tasks="mean"``: an owner's tasks that need the same set of resources and may run on the same servers make one
    user, whose demand is their mean request. ``"shapes"``: only tasks with equal requests do, and so do tasks larger
    than any server where they may run, and those whose mean would be. ``"auto"``: shapes, if there are at most
    `MOST_SHAPES`, else means. Users come in the order of owners' names, then in decreasing order of the dominant share
    of all tasks together.

    Owners are the teams of their users: ``labels`` holds the name of the team by label and owner, by default the label
    ``team`` with the owner's name. ``weights`` are those of teams; an owner with several kinds of tasks has weight 1
    without one, so that owners count equally. What is ``owed`` to teams becomes guarantees of tasks, and limits. A
    user's task limit is its number of tasks, or with ``full_demand`` that of tasks which would fill the servers where
    they may run; notes call a task by ``word``. If the input ``says_what_runs`` and nothing does, users hold 0; else
    what they hold is not known then.

    A user is named for what its tasks are, so that its name does not depend on other tasks: ``ml/8 gpu`` for what they
    need beside cpu and memory, else ``web/4 cpu``; without the number if it differs between tasks; and with the rule
    that restricts them, as ``ml/8 gpu@accelerator=large``, if it bars servers that have what they need. Of
    ``"shapes"`` the whole request is given. Resources that are only ``limiting``, as ``gpu:a100`` beside ``gpu``, are
    not named. If two names are equal, they give all digits and all rules, or else the servers.

    Notes count what is left out: tasks that fit on no server (not eligible anywhere, or needing a resource that no
    eligible server has) and resources without capacity. Tasks larger than any server where they may run stay, and a
    note counts them. Another note counts owners whose requests are averaged. If no task is left, the error repeats the
    notes.

    Examples
    --------
    >>> made = arguments_of_work(
    ...     [Work("ml", (4, 1), count=2), Work("ml", (2, 0)), Work("web", (1, 0), count=8)],
    ...     resources=["cpu", "gpu"], capacities=[[16, 2], [16, 0]], servers=["s1", "s2"],
    ... )
    >>> made["users"], made["teams"]
    (['ml/1 gpu', 'ml/2 cpu', 'web/1 cpu'], {'team': ['ml', 'ml', 'web']})
    >>> made["weights"], made["task_limits"]
    ({'ml': 1.0}, [2.0, 1.0, 8.0])
    """
    check_choice("tasks", tasks, TASKS)
    caps = np.asarray(capacities, dtype=np.float64).reshape(len(servers), len(resources))
    notes = Notes() if notes is None else notes
    fit, unfit = _fitting(work, caps)
    left_out, number = [w.name for w in unfit], math.fsum(w.count for w in unfit)
    notes.add(f"{{{word}}} that fit on no server {{was}} left out", *left_out, number=number)
    if not any(w.count for w in fit):
        raise NothingAsked(str(notes.nothing_left(f"there are no {word}s to share servers among")))
    large = _large_tasks(fit, caps, resources, notes, word)
    by_shape = tasks == "shapes" or (tasks == "auto" and _number_of_shapes(fit) <= MOST_SHAPES)
    kept_apart = [by_shape or (tasks == "auto" and name not in _USUAL) for name in resources]
    kinds = _kinds(fit, large, caps, kept_apart, notes)
    total = caps.sum(axis=0)
    several = sum(len(of_owner) > 1 for of_owner in kinds.values())
    notes.add(
        About("{several} of {owners} {has} several kinds of {tasks}: each kind is a user, and the owner is their team"),
        number=several,
        several=f"{several:,}",
        owners=counted(len(kinds), "owner"),
        tasks=f"{word}s",
    )
    kept = np.flatnonzero(total > 0).tolist()
    unavailable = [name for name, amount in zip(resources, total, strict=True) if not amount]
    listed = ", ".join(unavailable[:5]) + (", ..." if len(unavailable) > 5 else "")
    notes.add("{resource} that no server has {was} left out: {listed}", number=len(unavailable), listed=listed)
    users, names, owners = list[_Kind](), list[str](), list[str]()
    for owner, of_owner in kinds.items():
        users += of_owner
        names += [
            f"{owner}/{name}"
            for name in _names(of_owner, resources, units or {}, servers, caps, tasks == "shapes", limiting)
        ]
        owners += [owner] * len(of_owner)
    if full_demand:
        users = [replace(kind, count=_filling(kind, caps)) for kind in users]
    named = {"team": {owner: owner for owner in kinds}} if labels is None else labels
    teams = {label: [team_of.get(owner) for owner in owners] for label, team_of in named.items()}
    present = {team for of_users in teams.values() for team in of_users}
    of_teams = {owner: 1.0 for owner, of_owner in kinds.items() if len(of_owner) > 1} | dict(weights or {})
    demands = np.array([kind.request for kind in users])
    limits = [kind.limit for kind in users]
    any_owed = owed is not None or any(kind.staying for kind in users)
    of_owed = _secured(owed or Owed(), teams, users, names, resources, caps, notes) if any_owed else {}
    return of_owed | dict(
        demands=demands[:, kept],
        capacities=caps[:, kept],
        weights={team: weight for team, weight in of_teams.items() if team in present},
        teams=teams,
        innermost_first=list(teams),
        task_limits=limits,
        eligible=np.array([kind.servers for kind in users]),
        users=names,
        resources=[resources[i] for i in kept],
        servers=servers,
        server_types=server_types,
        notes=notes.sentences(),
        units={resources[i]: units[resources[i]] for i in kept if resources[i] in units} if units else None,
        held=_held(users, len(servers)) if says_what_runs or any(kind.held for kind in users) else None,
    )


def _filling(kind: _Kind, capacities: Float) -> float:
    """The number of tasks, also parts of one, that would fill the servers where they may run."""
    needs = np.array(kind.request) > 0
    return float((capacities[kind.servers][:, needs] / np.array(kind.request)[needs]).min(axis=1).sum())


def _secured(
    owed: Owed,
    teams: Mapping[str, Sequence[str | None]],
    kinds: Sequence[_Kind],
    names: Sequence[str],
    resources: Sequence[str],
    capacities: Float,
    notes: Notes,
) -> dict[str, Any]:
    """Guarantees of users and outer teams, and limits on the resources that servers have."""
    members = members_of(teams.values())
    demands, limits = np.array([kind.request for kind in kinds]), np.array([kind.limit for kind in kinds])
    able = fitting(demands, capacities, [kind.servers for kind in kinds])
    users = Users(demands, limits, able, members, resources, capacities)
    found, part, more = guarantees_of(owed, users, names, np.array([kind.staying for kind in kinds]))
    note_part(part, notes)
    has = {name for name, amount in zip(resources, capacities.sum(axis=0), strict=True) if amount > 0}
    kept = [
        {"name": one.name, "resource": one.resource, "amount": one.amount, "of": of, "reasons": one.reasons}
        for one in (*owed.limits, *more)
        if one.resource in has and (of := {team: on for team, on in one.of.items() if team in members})
    ]
    return {"guarantees": found or None, "limits": kept or None}


def _held(kinds: Sequence[_Kind], n_servers: int) -> Float:
    """Tasks that run now, shape (n_kinds, n_servers)."""
    out = np.zeros((len(kinds), n_servers))
    for row, kind in zip(out, kinds, strict=True):
        for s, tasks in kind.held.items():
            row[s] = tasks
    return out


def _fitting(work: Iterable[Work], capacities: Float) -> tuple[list[Work], list[Work]]:
    """Split tasks into those that fit on some server and the others."""
    has = capacities > 0
    known: dict[tuple[bytes, bytes | None], bool] = {}
    parts: tuple[list[Work], list[Work]] = ([], [])
    for each in work:
        needs = np.array(each.request, dtype=np.float64) > 0
        key = (needs.tobytes(), None if each.servers is None else each.servers.tobytes())
        if key not in known:
            able = has[:, needs].all(axis=1)
            known[key] = bool((able if each.servers is None else able & each.servers).any())
        parts[not known[key]].append(each)
    return parts


def _number_of_shapes(work: list[Work]) -> int:
    """The distinct requests of owners, with where they may run."""
    return len({(w.owner, w.request, None if w.servers is None else w.servers.tobytes()) for w in work})


def _large_tasks(work: list[Work], capacities: Float, resources: Sequence[str], notes: Notes, word: str) -> set[int]:
    """The positions of tasks that are larger than any server where they may run, and a note with an example."""
    too_large = set[int]()
    by_place: dict[bytes | None, list[int]] = {}
    for k, each in enumerate(work):
        by_place.setdefault(None if each.servers is None else each.servers.tobytes(), []).append(k)
    for members in by_place.values():
        where = work[members[0]].servers
        able = np.unique(capacities if where is None else capacities[where], axis=0)
        most = able.max(axis=0) * ROUNDING_FACTOR
        requests = np.array([work[k].request for k in members], dtype=np.float64)
        for m in np.flatnonzero(_larger_than_all(requests, able)).tolist():
            each, beyond = work[members[m]], np.flatnonzero(requests[m] > most).tolist()
            described = [each.name, *(f"{each.request[i]:g} of {resources[i]}" for i in beyond[:1])]
            example = ": ".join(filter(None, described))
            notes.add(f"{{{word}}} {{is}} larger than any eligible server", example, number=each.count)
            too_large.add(members[m])
    return too_large


def _larger_than_all(requests: Float, servers: Float) -> Bool:
    """Which requests, shape (n, n_resources), exceed each of some servers (k, n_resources) in some resource."""
    left = np.arange(len(requests))
    for server in servers[np.argsort(-servers.sum(axis=1))]:  # almost all tasks fit on the largest server
        left = left[(requests[left] > server * ROUNDING_FACTOR).any(axis=1)]
    out = np.zeros(len(requests), dtype=np.bool_)
    out[left] = True
    return out


@dataclass(frozen=True, eq=False)
class _Kind:
    """A future user: request of a task, eligible servers, number of tasks and their total dominant share.

    ``same`` is the request where all tasks agree, None elsewhere; the others are as in `Work`.
    """

    request: tuple[float, ...]
    servers: Bool
    count: float
    total_share: float
    same: tuple[float | None, ...]
    place: tuple[str, str]
    held: Mapping[int, float]
    more: bool
    staying: float

    @property
    def limit(self) -> float:
        """The task limit."""
        return math.inf if self.more else self.count


def _kinds(
    work: list[Work], large: Collection[int], capacities: Float, kept_apart: list[bool], notes: Notes
) -> dict[str, list[_Kind]]:
    """Kinds of tasks by owner, owners in order of names, kinds in decreasing order of their total dominant share.

    Amounts that are ``kept_apart``, by resource, agree within a kind. Tasks at the positions ``large`` are only grouped
    with equal ones.
    """
    everywhere = np.ones(len(capacities), dtype=np.bool_)
    groups: dict[tuple[str, bool, tuple[float, ...], bytes], list[Work]] = {}
    for k, each in enumerate(work):
        exact = all(kept_apart) or k in large
        shape = tuple(
            float(r) if exact or apart else float(r > 0) for r, apart in zip(each.request, kept_apart, strict=True)
        )
        where = everywhere if each.servers is None else each.servers
        groups.setdefault((each.owner, exact, shape, where.tobytes()), []).append(each)
    total = capacities.sum(axis=0).tolist()
    averaged: dict[str, int] = {}
    kinds: dict[str, list[_Kind]] = {owner: [] for owner in sorted({owner for owner, *_ in groups})}
    for (owner, exact, _, _), members in groups.items():
        made = [_kind(members, total, everywhere, exact)]
        requests = len({w.request for w in members})
        if not exact and requests > 1:
            servers = capacities[made[0].servers]
            if _larger_than_all(np.array([made[0].request]), servers)[0]:
                alike: dict[tuple[float, ...], list[Work]] = {}
                for each in members:
                    alike.setdefault(each.request, []).append(each)
                made = [_kind(some, total, everywhere, True) for some in alike.values()]
            else:
                averaged[owner] = averaged.get(owner, 0) + requests
        kinds[owner] += made
    notes.add(
        "the different {what} of {owner} are averaged; --tasks shapes (in Python tasks='shapes') keeps them separate",
        *(f"{owner}: {number:,} requests" for owner, number in averaged.items()),
        what="amounts of cpu and memory" if any(kept_apart) else "requests",
    )
    running = [owner for owner in averaged if any(kind.held for kind in kinds[owner])]
    notes.add("of {owner} with averaged requests, what runs counts with these means too", *running)
    for of_owner in kinds.values():
        of_owner.sort(key=lambda kind: (-kind.total_share, kind.request, kind.servers.tobytes()))
    return kinds


def _kind(members: list[Work], total: list[float], everywhere: Bool, exact: bool) -> _Kind:
    """Tasks as one kind with their mean request, which is that of each if ``exact``."""
    count = math.fsum(w.count for w in members)
    # fsum rounds once, so the order of tasks does not matter
    sums = (math.fsum(w.count * w.request[i] for w in members) for i in range(len(total)))
    request = tuple(map(float, members[0].request)) if exact or not count else tuple(amount / count for amount in sums)
    total_share = count * max(r / t for r, t in zip(request, total, strict=True) if r > 0)
    where = everywhere if members[0].servers is None else members[0].servers
    different = [len({w.request[i] for w in members}) for i in range(len(total))]
    same = tuple(members[0].request[i] if number == 1 else None for i, number in enumerate(different))
    held = Counter[int]()
    for w in members:
        held.update(w.held)
    more, staying = any(w.more for w in members), math.fsum(w.staying for w in members)
    return _Kind(request, where, count, total_share, same, min(w.place for w in members), held, more, staying)


def _names(
    kinds: Sequence[_Kind],
    resources: Sequence[str],
    units: Mapping[str, str],
    servers: Sequence[str],
    capacities: Float,
    whole: bool,
    limiting: Collection[str],
) -> list[str]:
    """A name for each kind of tasks of an owner, with the ``whole`` request or what is special in it.

    What only limits is not named beside what it limits, whose name it begins with.
    """
    short = without_vendor(resources)

    def text(i: int, amount: float | None, digits: int) -> str:
        unit = unit_shown(units.get(resources[i], ""))
        return " ".join(filter(None, ("" if amount is None else f"{amount:.{digits}g} {unit}".strip(), short[i])))

    def named(kind: _Kind, digits: int, place: str, whole: bool) -> str:
        needed = [i for i, amount in enumerate(kind.request) if amount > 0]
        bases = Counter(resources[i].partition(":")[0] for i in needed)
        needed = [i for i in needed if resources[i] not in limiting or bases[resources[i].partition(":")[0]] == 1]
        special = [i for i in needed if resources[i] not in _USUAL]
        usual = [i for i in needed if i not in special]
        shown = special + usual if whole else special or usual[:1]
        name = " ".join(text(i, kind.same[i], digits) for i in shown)
        if not whole:
            more = [resources[i] for i in usual if i not in shown and resources[i] not in _USUAL[:2]]
            less = [name for name in _USUAL[:2] if name in resources and kind.request[resources.index(name)] == 0]
            name += "".join(f" {word} {' '.join(of)}" for word, of in (("with", more), ("without", less)) if of)
        return f"{name}@{place}" if place else name

    def bars(kind: _Kind) -> bool:
        able = (capacities[:, np.array(kind.request) > 0] > 0).all(axis=1)
        return bool((able & ~kind.servers).any())

    def first(kind: _Kind, whole: bool) -> str:
        return named(kind, 4, shown(kind.place[0], kind) if bars(kind) else "", whole)

    def shown(place: str, kind: _Kind) -> str:
        return place if len(place) <= _LONGEST else counted_servers(kind)

    def listed_servers(kind: _Kind) -> str:
        return "|".join(itertools.compress(servers, kind.servers))

    def counted_servers(kind: _Kind) -> str:
        mine = [*itertools.compress(servers, kind.servers)]
        return "|".join(mine) if len(mine) <= _FEW else f"{len(mine)} servers from {mine[0]}"

    here = Counter((first(kind, whole), kind.servers.tobytes()) for kind in kinds)  # only the request tells these apart
    wholes = [whole or here[first(kind, whole), kind.servers.tobytes()] > 1 for kind in kinds]
    names = [first(kind, all_of_it) for kind, all_of_it in zip(kinds, wholes, strict=True)]
    for place in (lambda kind: shown(kind.place[1], kind), counted_servers, listed_servers):
        times = Counter(names)
        names = [
            name if times[name] == 1 else named(kind, 17, place(kind), all_of_it)
            for name, kind, all_of_it in zip(names, kinds, wholes, strict=True)
        ]
    return names
