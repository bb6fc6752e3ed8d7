"""Extracts of Google's ClusterData 2019: the state of a Borg cell at some time."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance
from fairopt.io.arguments import Arguments
from fairopt.io.clusterdata.rows import ABSENT, AFTER, TraceColumn, batches
from fairopt.io.clusterdata.state import TraceState, state_at
from fairopt.io.notes import Notes, check_choice
from fairopt.io.text_files import about
from fairopt.io.work import TASKS, Work, arguments_of_work

__all__ = ["read_clusterdata"]

_EVENTS = {
    "SUBMIT": 0, "QUEUE": 1, "ENABLE": 2, "SCHEDULE": 3, "EVICT": 4, "FAIL": 5, "FINISH": 6, "KILL": 7, "LOST": 8,
    "UPDATE_PENDING": 9, "UPDATE_RUNNING": 10,
}  # fmt: skip
_OVER = tuple(_EVENTS[name] for name in ("EVICT", "FAIL", "FINISH", "KILL", "LOST"))
# Which of two events of one instance at one time came last: what was evicted or failed is submitted again, what has
# finished or was killed is not. Exports are in no order, so that the order of rows must make no difference.
_RANK = np.array([1, 2, 3, 4, 0, 0, 7, 7, 7, 5, 6])
_SERVER_EVENTS = {"EVENT_TYPE_UNKNOWN": 0, "ADD": 1, "REMOVE": 2, "UPDATE": 3}
_SERVER_RANK = np.array([-1, 2, 1, 3])  # a server that is removed and added at one time was restarted
_TIERS = ((99, "free"), (115, "best-effort batch"), (119, "mid"), (359, "production"), (2**63, "monitoring"))
_ALLOC_SET, _DEDICATED = 1, -1
_INSTANCES = (
    TraceColumn("time", "whole"), TraceColumn("type", "whole", names=_EVENTS), TraceColumn("collection_id", "whole"),
    TraceColumn("instance_index", "whole"), TraceColumn("resource_request.cpus", "amount"),
    TraceColumn("resource_request.memory", "amount"), TraceColumn("priority", "whole", required=False),
    TraceColumn("collection_type", "whole", required=False, names={"JOB": 0, "ALLOC_SET": 1}),
    TraceColumn("alloc_collection_id", "whole", required=False), TraceColumn("machine_id", "whole", required=False),
    TraceColumn("constraint", "filled", required=False),
)  # fmt: skip
_SERVERS = (
    TraceColumn("time", "whole"), TraceColumn("type", "whole", names=_SERVER_EVENTS),
    TraceColumn("machine_id", "whole"), TraceColumn("capacity.cpus", "amount"),
    TraceColumn("capacity.memory", "amount"), TraceColumn("platform_id", "text", required=False),
)  # fmt: skip
_COLLECTIONS = (TraceColumn("collection_id", "whole"), TraceColumn("user", "text"))
_OWNERS = ("collection", "user", "priority", "tier")
_INCOMPLETE = "{row} of {file} without time, type or identity did not count"
_Path = str | os.PathLike[str]


def read_clusterdata(
    instances: _Path, machines: _Path, collections: _Path | None = None, at: int | None = None,
    users: str = "collection", tasks: str = "mean", merge: bool = True,
) -> Arguments:  # fmt: skip
    """Read an extract of the trace; see `fairopt.datasets.clusterdata2019`."""
    check_choice("tasks", tasks, TASKS)
    check_choice("users", users, _OWNERS)
    if users == "user" and collections is None:
        raise InvalidInstance("users='user' needs the users of collections; give a file of CollectionEvent rows")
    if at is not None and (isinstance(at, bool) or not isinstance(at, (int, np.integer)) or not 0 <= at <= AFTER):
        raise InvalidInstance(f"at is {at!r}; give microseconds as a whole number >= 0, or None for the last time")
    notes = Notes()
    state, until = _instances(instances, at, notes)
    servers = _servers(machines, until, notes)
    state, owners = _owners(state, users, collections, notes)
    places = os.fspath(instances), os.fspath(machines)
    with about(*places):
        values = arguments_of_work(
            _work(state, owners), resources=["cpu", "memory"],
            capacities=np.column_stack([servers["cpu"], servers["memory"]]),
            servers=[str(k) for k in servers["machine_id"].tolist()], tasks=tasks,
            server_types=_types(servers["platform_id"].tolist()), notes=notes, word="instance",
        )  # fmt: skip
    return Arguments(values, places, merge)


def _instances(path: _Path, at: int | None, notes: Notes) -> tuple[TraceState, int]:
    """Instances that count at a time, and that time."""
    state = state_at(
        batches(path, _INSTANCES, "InstanceEvent"), ("collection_id", "instance_index"), _RANK,
        {"cpu": "resource_request.cpus", "memory": "resource_request.memory"}, at,
    )  # fmt: skip
    if not len(state):
        raise InvalidInstance(
            f"{os.fspath(path)} has no events {state.span(at)}; give another time, or another part of the trace"
        )
    until = int(state["time"].max()) if at is None else int(at)
    if at is None:
        notes.say(f"the state is that at {until} microseconds, the last time in {_base(path)}")
    notes.add(_INCOMPLETE, number=state.incomplete, file=_base(path))
    state = state.only(~np.isin(state["type"], _OVER))
    for gone, what in (
        (_unknown, "without any request"),
        (lambda s: (np.nan_to_num(s["cpu"]) == 0) & (np.nan_to_num(s["memory"]) == 0), "that requested nothing"),
        (lambda s: s["machine_id"] == _DEDICATED, "on dedicated servers"),
        (_inside, "inside alloc sets, whose reservations count,"),
    ):
        left_out = gone(state)
        state.note(left_out, "{instance} {what} {was} left out", notes, what=what)
        state = state.only(~left_out)
    state.note(state["constraint"], "{instance} with constraints may run everywhere here", notes)
    return _completed(state, "{instance} that {requests} {given} but no {missing} {counts} with 0 of it", notes), until


def _base(path: _Path) -> str:
    return os.path.basename(os.fspath(path))


def _unknown(state: TraceState) -> NDArray[np.bool_]:
    """Things that never had any amount."""
    return np.isnan(state["cpu"]) & np.isnan(state["memory"])


def _completed(state: TraceState, sentence: str, notes: Notes) -> TraceState:
    """Amounts that were never given as 0, where the other one was."""
    for missing, given in (("cpu", "memory"), ("memory", "cpu")):
        lacking = np.isnan(state[missing])
        state.note(lacking, sentence, notes, given=given, missing=missing)
        state = state.with_column(missing, np.where(lacking, 0.0, state[missing]))
    return state


def _inside(state: TraceState) -> NDArray[np.bool_]:
    """Tasks inside alloc sets that count themselves."""
    reserving = state["collection_type"] == _ALLOC_SET
    return ~reserving & np.isin(state["alloc_collection_id"], state["collection_id"][reserving])


def _servers(path: _Path, until: int, notes: Notes) -> TraceState:
    """The servers at a time."""
    state = state_at(
        batches(path, _SERVERS, "MachineEvent"), ("machine_id",), _SERVER_RANK,
        {"cpu": "capacity.cpus", "memory": "capacity.memory"}, until,
    )  # fmt: skip
    if not len(state):
        raise InvalidInstance(
            f"{os.fspath(path)} has no events {state.span(until)}; give another time, or the rows from time 0 on"
        )
    notes.add(_INCOMPLETE, number=state.incomplete, file=_base(path))
    state = state.only(state["type"] != _SERVER_EVENTS["REMOVE"])
    unknown = _unknown(state)
    state.note(unknown, "{server} without any capacity {was} left out", notes)
    state = state.only(~unknown)
    if not len(state):
        raise InvalidInstance(
            f"{os.fspath(path)} leaves no server at the time {until}; give the rows from time 0 on, with capacities"
        )
    return _completed(state, "{server} with {given} but no {missing} {counts} with 0 of it", notes)


def _types(platforms: list[str]) -> list[str] | None:
    """Platforms by the beginning of their hashes, if it tells them apart."""
    names = set(platforms)
    if names == {""}:
        return None
    short = {name[:6] for name in names}
    return [(name[:6] if len(short) == len(names) else name) or "unnamed platform" for name in platforms]


def _owners(state: TraceState, users: str, collections: _Path | None, notes: Notes) -> tuple[TraceState, list[str]]:
    """Instances whose owner is known, and these."""
    ids = state["collection_id"]
    if users == "collection":
        return state, [str(k) for k in ids.tolist()]
    if users == "user" and collections is not None:
        names = _users_of_collections(collections)
        owners = [names.get(k, "") for k in ids.tolist()]
        missing = f"of collections that {_base(collections)} gives no user"
    else:
        tiers = _tiers if users == "tier" else _priorities
        owners = tiers(state["priority"])
        missing = "without priority"
    known = np.array([owner != "" for owner in owners], dtype=bool)
    state.note(~known, "{instance} {what} {was} left out", notes, what=missing)
    return state.only(known), [owner for owner in owners if owner]


def _users_of_collections(path: _Path) -> dict[int, str]:
    names: dict[int, str] = {}
    for rows in batches(path, _COLLECTIONS, "CollectionEvent"):
        for k, name in zip(rows["collection_id"].tolist(), rows["user"].tolist(), strict=True):
            if name and name.isprintable():
                names[k] = min(name, names.get(k, name))  # rows are in no order
    return names


def _priorities(priorities: NDArray[np.int64]) -> list[str]:
    return ["" if k == ABSENT else f"priority {k}" for k in priorities.tolist()]


def _tiers(priorities: NDArray[np.int64]) -> list[str]:
    return ["" if k == ABSENT else next(name for top, name in _TIERS if k <= top) for k in priorities.tolist()]


def _work(state: TraceState, owners: list[str]) -> Iterator[Work]:
    """Equal instances of an owner together."""
    equal: dict[tuple[str, float, float], tuple[int, int]] = {}
    for row, key in enumerate(zip(owners, state["cpu"].tolist(), state["memory"].tolist(), strict=True)):
        number, first = equal.get(key, (0, row))
        equal[key] = (number + 1, first)
    ids, indices = state["collection_id"].tolist(), state["instance_index"].tolist()
    for (owner, cpu, memory), (number, first) in equal.items():
        yield Work(owner, (cpu, memory), None, number, f"{ids[first]}/{indices[first]}")
