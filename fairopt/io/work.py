"""Makes users from the tasks of owners: pods of namespaces, jobs of accounts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.io.notes import Notes, check_choice, counted

TASKS = ("mean", "shapes")
ROUNDING_FACTOR = 1 + 1e-9  # on capacities, when checking whether a task fits


@dataclass(frozen=True, eq=False)
class Work:
    """Equal tasks of one owner, with the units that one task takes by resource, not all zero.

    ``servers``, of shape (n_servers,), marks the eligible servers, whatever their capacities; None means all of them.
    One array for several works saves time. ``name`` is the name of one task, as an example for notes.
    """

    owner: str
    request: tuple[float, ...]
    servers: NDArray[np.bool_] | None = None
    count: float = 1.0
    name: str = ""


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
) -> dict[str, Any]:
    """The arguments of the `Instance` in which owners share servers by the requests of their tasks.

    ``tasks="mean"``: an owner's tasks that need the same set of resources and may run on the same servers make one
    user, whose demand is their mean request. ``"shapes"``: only tasks with equal requests do. Users come in the order
    of owners' names. An owner with one kind of tasks gives it its name, others make users ``ml #1``, ``ml #2``, ...
    in decreasing order of the dominant share of all tasks together. Each owner has weight 1, split among its users in
    proportion to these shares, so that owners count equally. A user's task limit is its number of tasks; notes call a
    task by ``word``.

    Notes count what is left out: tasks that fit on no server (not eligible anywhere, or needing a resource that no
    eligible server has) and resources without capacity. Tasks larger than any server stay, since tasks are divisible,
    and a note counts them. Another note counts owners whose requests are averaged. If no task is left, the error
    repeats the notes.

    Examples
    --------
    >>> made = arguments_of_work(
    ...     [Work("ml", (4, 1), count=2), Work("ml", (2, 0)), Work("web", (1, 0), count=8)],
    ...     resources=["cpu", "gpu"], capacities=[[16, 2], [16, 0]], servers=["s1", "s2"],
    ... )
    >>> made["users"]
    ['ml #1', 'ml #2', 'web']
    >>> sum(made["weights"]), made["task_limits"]
    (2.0, [2.0, 1.0, 8.0])
    """
    check_choice("tasks", tasks, TASKS)
    caps = np.asarray(capacities, dtype=np.float64).reshape(len(servers), len(resources))
    notes = Notes() if notes is None else notes
    fitting, unfit = _fitting(work, caps)
    left_out, number = [w.name for w in unfit], math.fsum(w.count for w in unfit)
    notes.add(f"{{{word}}} that fit on no server {{was}} left out", *left_out, number=number)
    if not fitting:
        raise notes.nothing_left(f"there are no {word}s to share servers among")
    _note_large_tasks(fitting, caps, resources, notes, word)
    total = caps.sum(axis=0)
    kinds = _kinds(fitting, total.tolist(), len(servers), tasks == "shapes", notes)
    several = sum(len(of_owner) > 1 for of_owner in kinds.values())
    notes.add(
        "{several} of {owners} {has} several kinds of {tasks}: each kind is a user, and the kinds share their owner's "
        "entitlement in proportion to their total requests",
        number=several,
        several=f"{several:,}",
        owners=counted(len(kinds), "owner"),
        tasks=f"{word}s",
    )
    kept = np.flatnonzero(total > 0).tolist()
    unavailable = [name for name, amount in zip(resources, total, strict=True) if not amount]
    listed = ", ".join(unavailable[:5]) + (", ..." if len(unavailable) > 5 else "")
    notes.add("{resource} that no server has {was} left out: {listed}", number=len(unavailable), listed=listed)
    mark = " #"
    while any(mark in owner for owner in kinds):  # names of users must differ from those of owners
        mark += "#"
    users, names, weights = [], [], []
    for owner, of_owner in kinds.items():
        owner_share = math.fsum(kind.total_share for kind in of_owner)
        users += of_owner
        names += [owner] if len(of_owner) == 1 else [f"{owner}{mark}{k}" for k in range(1, len(of_owner) + 1)]
        weights += [kind.total_share / owner_share for kind in of_owner]
    return dict(
        demands=np.array([kind.request for kind in users])[:, kept],
        capacities=caps[:, kept],
        weights=weights,
        task_limits=[kind.count for kind in users],
        eligible=np.array([kind.servers for kind in users]),
        users=names,
        resources=[resources[i] for i in kept],
        servers=servers,
        server_types=server_types,
        notes=notes.sentences(),
        units={resources[i]: units[resources[i]] for i in kept if resources[i] in units} if units else None,
    )


def _fitting(work: Iterable[Work], capacities: NDArray[np.float64]) -> tuple[list[Work], list[Work]]:
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


def _note_large_tasks(
    work: list[Work], capacities: NDArray[np.float64], resources: Sequence[str], notes: Notes, word: str
) -> None:
    """Note the tasks that are larger than any server where they may run, with an example."""
    by_place: dict[bytes | None, list[Work]] = {}
    for each in work:
        by_place.setdefault(None if each.servers is None else each.servers.tobytes(), []).append(each)
    for members in by_place.values():
        where = members[0].servers
        able = np.unique(capacities if where is None else capacities[where], axis=0) * ROUNDING_FACTOR
        requests = np.array([each.request for each in members], dtype=np.float64)
        large = np.arange(len(members))
        for server in able[np.argsort(-able.sum(axis=1))]:  # almost all tasks fit on the largest server
            large = large[(requests[large] > server).any(axis=1)]
        most = able.max(axis=0)
        for k in large.tolist():
            each, beyond = members[k], np.flatnonzero(requests[k] > most).tolist()
            described = [each.name, *(f"{each.request[i]:g} of {resources[i]}" for i in beyond[:1])]
            example = ": ".join(filter(None, described))
            sentence = f"{{{word}}} too large for any single server {{counts}}, since tasks are divisible"
            notes.add(sentence, example, number=each.count)


@dataclass(frozen=True, eq=False)
class _Kind:
    """A future user: request of a task, eligible servers, number of tasks and their total dominant share."""

    request: tuple[float, ...]
    servers: NDArray[np.bool_]
    count: float
    total_share: float


def _kinds(
    work: list[Work], total: list[float], n_servers: int, by_shape: bool, notes: Notes
) -> dict[str, list[_Kind]]:
    """Kinds of tasks by owner, owners in order of names, kinds in decreasing order of their total dominant share."""
    everywhere = np.ones(n_servers, dtype=np.bool_)
    groups: dict[tuple[str, tuple[float, ...], bytes], list[Work]] = {}
    for each in work:
        shape = tuple(map(float, each.request)) if by_shape else tuple(float(r > 0) for r in each.request)
        where = everywhere if each.servers is None else each.servers
        groups.setdefault((each.owner, shape, where.tobytes()), []).append(each)
    averaged: dict[str, int] = {}
    kinds: dict[str, list[_Kind]] = {owner: [] for owner in sorted({owner for owner, _, _ in groups})}
    for (owner, shape, _), members in groups.items():
        count = math.fsum(w.count for w in members)
        # fsum rounds once, so the order of tasks does not matter
        sums = (math.fsum(w.count * w.request[i] for w in members) for i in range(len(total)))
        request = shape if by_shape else tuple(amount / count for amount in sums)
        total_share = count * max(r / t for r, t in zip(request, total, strict=True) if r > 0)
        where = everywhere if members[0].servers is None else members[0].servers
        kinds[owner].append(_Kind(request, where, count, total_share))
        requests = 1 if by_shape else len({w.request for w in members})
        if requests > 1:
            averaged[owner] = averaged.get(owner, 0) + requests
    notes.add(
        "the different requests of {owner} are averaged; --tasks shapes (in Python tasks='shapes') keeps them separate",
        *(f"{owner}: {number:,} requests" for owner, number in averaged.items()),
    )
    for of_owner in kinds.values():
        of_owner.sort(key=lambda kind: (-kind.total_share, kind.request, kind.servers.tobytes()))
    return kinds
