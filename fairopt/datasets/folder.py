"""An instance as two tables, ``users.csv`` and ``servers.csv``."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fairopt.datasets.tables import Table, read_table
from fairopt.errors import InvalidInstance, nearest
from fairopt.instance import Instance

__all__ = ["read_tables", "write_tables"]

_ABOUT_USERS = ("user", "weight", "task_limit", "servers")
_ABOUT_SERVERS = ("server", "count", "type")
_LONGEST_CELL = 131_072  # the csv module reads no longer ones


def read_tables(users_path: str | os.PathLike[str], servers_path: str | os.PathLike[str]) -> Instance:
    """Read an instance from a table of users and a table of servers.

    Parameters
    ----------
    users_path : path-like
        Columns ``user``, optionally ``weight`` (empty: 1), ``task_limit`` (empty: none) and ``servers`` (names of
        servers joined by ``|``, empty: everywhere); every other column is a resource, in units per task.
    servers_path : path-like
        Columns ``server``, optionally ``count`` (empty: 1) and ``type``; every other column is a resource, in units on
        each server.

    Returns
    -------
    Instance
        Resources in the order of the servers' table.

    Raises
    ------
    InvalidInstance
        Names file, line, column, value and fix.
    """
    servers = read_table(servers_path, required=("server",))
    resources = [column for column in servers.columns if column not in _ABOUT_SERVERS]
    if not resources:
        raise InvalidInstance(f"{servers.path} has no resource columns; add one per resource, as cpu or memory")
    users = read_table(users_path, required=("user",))
    _check_same_resources(users, servers, resources)
    server_labels = servers.labels("server")
    if not server_labels:
        raise InvalidInstance(f"{servers.path} has a header only; add a line for at least one server")
    user_labels = users.labels("user")
    demands = _matrix(users, resources)
    for row in np.flatnonzero(~demands.any(axis=1)):
        users.refuse(
            int(row), "user", f"{user_labels[row]!r} demands nothing at all, so its tasks would be unlimited; "
            "give it a positive demand or remove the line"
        )  # fmt: skip
    weights = counts = limits = None
    if "weight" in users.columns:
        weights = users.numbers("weight", "give a number > 0, or leave it empty for 1", blank=1.0, positive=True)
    if "task_limit" in users.columns:
        fix = "give a number >= 0, or leave it empty for no limit"
        limits = users.numbers("task_limit", fix, blank=np.inf, infinite=True)
    if "count" in servers.columns:
        counts = servers.numbers("count", "give a whole number >= 1", blank=1.0, positive=True, whole=True)
    try:
        return Instance(
            demands, _matrix(servers, resources), weights=weights, task_limits=limits, counts=counts,
            eligible=_eligibility(users, servers.path, server_labels), users=user_labels, resources=resources,
            servers=server_labels, server_types=_types(servers),
        )  # fmt: skip
    except InvalidInstance as error:
        raise InvalidInstance(f"{users.path} and {servers.path}: {error}") from error


def _check_same_resources(users: Table, servers: Table, resources: list[str]) -> None:
    for name in resources:
        if name not in users.columns:
            raise InvalidInstance(
                f"{users.path}: there is no column {name!r}, which {servers.path} has as a resource; "
                "add it, with 0 for the users who do not need it"
            )
    known = [*resources, *_ABOUT_USERS]
    for name in users.columns:
        if name not in known:
            raise InvalidInstance(
                f"{users.path}: the column {name!r} is no resource of {servers.path}; {nearest(name, known)}"
            )


def _matrix(table: Table, resources: list[str]) -> NDArray[np.float64]:
    columns = [table.numbers(name, "give a finite number >= 0") for name in resources]
    return np.column_stack(columns)


def _types(servers: Table) -> list[str] | None:
    types = servers.columns.get("type")
    for row, name in enumerate(types or []):
        if not name:
            servers.refuse(row, "type", "the type is empty; give every server one, or remove the column")
    return types


def _eligibility(users: Table, servers_path: str, labels: list[str]) -> NDArray[np.bool_] | None:
    cells = users.columns.get("servers", [])
    if not any(cells):
        return None
    position = {name: s for s, name in enumerate(labels)}
    allowed = np.ones((len(users), len(labels)), dtype=bool)
    for row, cell in enumerate(cells):
        if not cell:
            continue
        allowed[row] = False
        for name in cell.split("|"):
            s = position.get(name.strip())
            if s is None:
                users.refuse(row, "servers", f"{servers_path} has no server {name.strip()!r}; {nearest(name, labels)}")
            allowed[row, s] = True
    return allowed


def write_tables(instance: Instance, folder: Path) -> None:
    """Write an instance as ``users.csv`` and ``servers.csv``, exact to the last bit.

    Parameters
    ----------
    instance : Instance
        Demands per server, and names that a CSV cell cannot hold, need JSON.
    folder : Path
        Made if it is not there; the two files in it are replaced.

    Raises
    ------
    InvalidInstance
        If the tables could not hold the instance.
    """
    if instance.demands.ndim == 3:
        raise InvalidInstance("demands differ by server, which users.csv has no columns for; write to a .json file")
    constrained = _constrained(instance)
    _check_names("resource", instance.resources, reserved={*_ABOUT_USERS, *_ABOUT_SERVERS})
    _check_names("user", instance.users)
    _check_names("server", instance.servers, separator="|" if constrained.any() else None)
    _check_names("server type", instance.server_types or ())

    user_columns: dict[str, Iterable[str]] = {"user": instance.users}
    if (instance.weights != 1).any():
        user_columns["weight"] = map(_exact, instance.weights.tolist())
    if np.isfinite(instance.task_limits).any():
        user_columns["task_limit"] = ("" if np.isinf(t) else _exact(t) for t in instance.task_limits.tolist())
    if constrained.any():
        user_columns["servers"] = [
            _joined(instance, j) if constrained[j] else "" for j in range(instance.n_users)
        ]  # fmt: skip
    server_columns: dict[str, Iterable[str]] = {"server": instance.servers}
    if (instance.counts != 1).any():
        server_columns["count"] = map(str, instance.counts.tolist())
    if instance.server_types is not None:
        server_columns["type"] = instance.server_types
    for i, name in enumerate(instance.resources):
        user_columns[name] = map(_exact, instance.demands[:, i].tolist())
        server_columns[name] = map(_exact, instance.capacities[:, i].tolist())
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "users.csv", user_columns)
    _write(folder / "servers.csv", server_columns)


def _constrained(instance: Instance) -> NDArray[np.bool_]:
    """Users who may not run on some server that has all they need: the others need no list of servers."""
    out = np.zeros(instance.n_users, dtype=bool)
    for s in range(instance.n_servers):
        lacks = instance.capacities[s] == 0
        out |= ~instance.eligible[:, s] & ~(instance.demands[:, lacks] > 0).any(axis=1)
    return out


def _joined(instance: Instance, j: int) -> str:
    cell = "|".join(instance.servers[s] for s in np.flatnonzero(instance.eligible[j]))
    if len(cell) > _LONGEST_CELL:
        raise InvalidInstance(
            f"the servers of user {instance.users[j]!r} take more than {_LONGEST_CELL} characters, too many for a CSV "
            "cell; merge identical servers with .merged(), or write to a .json file"
        )
    return cell


def _check_names(
    kind: str, names: Iterable[str], reserved: Iterable[str] = (), separator: str | None = None
) -> None:  # fmt: skip
    for name in names:
        if not name or name != name.strip() or min(name) < " " or len(name) > _LONGEST_CELL or not _encodable(name):
            problem = "is empty, very long, or holds blanks at its ends, control characters or lone surrogates"
        elif name in reserved:
            problem = "is the name of a column with another meaning"
        elif separator and separator in name:
            problem = f"holds {separator!r}, which separates names of servers"
        else:
            continue
        raise InvalidInstance(f"the {kind} {name[:60]!r} {problem}; rename it, or write to a .json file")


def _encodable(name: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in name)


def _exact(number: float) -> str:
    text = repr(number)
    return text.removesuffix(".0")


def _write(path: Path, columns: dict[str, Iterable[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
