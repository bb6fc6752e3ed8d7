"""Requests of tasks, checked against the servers: units, eligible servers, and the share of one task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from fairopt.blocks.base import ByUser
from fairopt.blocks.shares import Share
from fairopt.errors import InvalidBlock, InvalidInstance, nearest
from fairopt.instance import Instance
from fairopt.instance.labels import by_label
from fairopt.instance.validation import as_floats
from fairopt.runtime.arrays import Bool
from fairopt.solve.whole.servers import Request, Servers

_FLOATS = {float}
MOST_TASKS = 2.0**53  # of a job; above, floats cannot represent every whole number

# A key of the request, the request, and the share of one task: a number, or a list by server.
Asked: TypeAlias = tuple[Any, Request, float | list[float]]


class Requests:
    """Requests of tasks on the servers of an instance; the share of a task is that of its user alone."""

    def __init__(self, instance: Instance, servers: Servers, share: Share) -> None:
        self.instance, self.share, self._servers = instance, share, servers
        self._empty = Servers(instance.capacities)
        self._known: dict[Any, Asked] = {}
        self._places = {name: [row] for row, name in enumerate(instance.servers)}
        for row, kind in enumerate(instance.server_types or ()):
            if kind not in instance.servers:
                self._places.setdefault(kind, []).append(row)

    def of(self, user: str, demands: Any, eligible: Any) -> Asked:
        """The request of a task; `InvalidInstance` if it fits on no server."""
        instance = self.instance
        units = checked_demands(user, demands)
        if isinstance(units, dict):
            if unknown := set(units) - set(instance.resources):
                wrong = min(unknown)
                raise InvalidInstance(f"user {user!r} demands {wrong!r}; {nearest(wrong, instance.resources)}")
            units = tuple(units.get(name, 0.0) for name in instance.resources)
        if len(units) != instance.n_resources:
            fix = f"give {instance.n_resources} numbers, one by resource"
            raise InvalidInstance(f"demands of user {user!r} are {demands!r}; {fix}")
        allowed = None if eligible is None else self._allowed_rows(user, eligible)
        key = (units, None if allowed is None else allowed.tobytes(), None if self.share.by_row else user)
        if key not in self._known:
            request = self._servers.request(np.array(units), allowed)
            if not self._servers.would_fit_empty(request).any():
                raise InvalidInstance(self._too_large(user, request))
            per_user = [value for value in vars(self.share).values() if isinstance(value, ByUser)]
            users = list(dict.fromkeys([user, *(name for value in per_user for name in value)]))
            alone = Instance(  # with the users that the share names
                [units] * len(users),
                instance.capacities,
                users=users,
                resources=instance.resources,
                eligible=None if allowed is None else [allowed] * len(users),
                servers=instance.servers,
                server_types=instance.server_types,
            )
            c = self.share.coefficients(alone, levelled=True)[0]
            self._known[key] = key, request, c.tolist()
        return self._known[key]

    def check_gang(self, user: str, request: Request, tasks: float) -> None:
        """Raise `InvalidInstance` if so many tasks do not fit together on empty servers."""
        most = self._empty.most_of(request).sum()
        if tasks > most:
            raise InvalidInstance(
                f"a gang of user {user!r} has {tasks:,} tasks, and {int(most):,} fit on all servers together; make the "
                "gang or its tasks smaller, or leave gang out"
            )

    def check_parts(self, name: str, parts: list[tuple[Request, int]]) -> None:
        """Raise `InvalidInstance` if jobs that start together do not fit on empty servers."""
        if self._empty.take_parts(parts, "first-fit", keep=False) is None:
            raise InvalidInstance(
                f"the jobs that start together as {name!r} do not fit on the empty servers together; make them smaller"
            )

    def _allowed_rows(self, user: str, eligible: Any) -> Bool:
        """The servers that a mask, or a list of servers and types, allows."""
        n = self.instance.n_servers
        given = eligible if isinstance(eligible, np.ndarray) else np.array(checked_places(user, eligible))
        if given.dtype == bool:
            allowed = given.copy()
            if given.shape != (n,):
                raise InvalidInstance(f"eligible of user {user!r} has shape {given.shape}; give ({n},)")
        else:
            allowed = np.zeros(n, dtype=bool)
            for name in given.tolist():
                if name not in self._places:
                    raise InvalidInstance(f"eligible of user {user!r} names {name!r}; {nearest(name, self._places)}")
                allowed[self._places[name]] = True
        if not allowed.any():
            raise InvalidInstance(f"eligible of user {user!r} has no server; name at least one, or leave it out")
        return allowed

    def _too_large(self, user: str, request: Request) -> str:
        """The message about a task that fits on no server."""
        instance = self.instance
        rows = slice(None) if request.allowed is None else request.allowed
        most = instance.capacities[rows].max(axis=0)
        where = "no server has" if request.allowed is None else "no server where it may run has"
        for i, units in request.needs:
            if units > most[i]:
                what = f"needs {units:.12g} of {instance.resources[i]}, and {where} more than {most[i]:.12g}"
                return f"a task of user {user!r} {what}; make the task smaller, or the servers larger"
        needs = ", ".join(f"{units:.12g} of {instance.resources[i]}" for i, units in request.needs)
        return f"a task of user {user!r} needs {needs}, and {where} all of it; make the task smaller"


def checked_demands(user: str, given: Any) -> tuple[float, ...] | dict[str, float]:
    """Demands as a tuple, or as a dict by resource."""
    if type(given) is tuple and set(map(type, given)) == _FLOATS and min(given) >= 0 and 0 < sum(given) < math.inf:
        return given  # the usual case, quickly
    given = by_label(given)
    units = given
    if type(given) is not tuple or not all(type(one) is float for one in given):
        array = as_floats([*given.values()] if isinstance(given, Mapping) else given, f"demands of user {user!r}")
        if array.ndim != 1:
            raise InvalidInstance(f"demands of user {user!r} are {given!r}; give one number by resource")
        units = tuple(array.tolist())
    if not all(0 <= one < math.inf for one in units):
        raise InvalidInstance(f"demands of user {user!r} are {given!r}; give finite numbers >= 0")
    if not any(units):
        raise InvalidInstance(f"user {user!r} demands nothing; give at least one number > 0")
    return dict(zip(map(str, given), units, strict=True)) if isinstance(given, Mapping) else units


def checked_places(user: str, given: Any) -> tuple[str, ...] | tuple[bool, ...] | None:
    """Labels or a mask as a tuple."""
    if given is None:
        return None
    names = () if isinstance(given, str) or not isinstance(given, Iterable) else given
    names = names if type(names) is tuple else tuple(names.tolist() if isinstance(names, np.ndarray) else names)
    if not names or not (all(isinstance(x, str) for x in names) or all(isinstance(x, bool) for x in names)):
        fix = "give a list of labels of servers, or of True and False for each; None for all servers"
        raise InvalidInstance(f"eligible of user {user!r} is {given!r}; {fix}")
    return names


def individual_servers(capacities: Any, resources: Any, servers: Any, server_types: Any, pooled: bool) -> Instance:
    """An instance without users on individual servers, or with a pool for each type."""
    if isinstance(capacities, Instance):
        if not (resources is None and servers is None and server_types is None):
            raise InvalidInstance("the labels are those of the instance; leave resources, servers and server_types out")
        given = capacities.select_users([]) if capacities.n_users else capacities
    else:
        wide = capacities if isinstance(capacities, Mapping) else np.atleast_2d(np.asarray(capacities, dtype=object))[0]
        labels = dict(resources=resources, servers=servers, server_types=server_types)
        given = Instance(np.empty((0, len(wide))), capacities, **labels)
    alone = given.individual()
    if not pooled:
        return alone
    if alone.server_types is None:
        raise InvalidBlock("placement='pooled' makes a pool of each type of server; give server_types")
    names = list(dict.fromkeys(alone.server_types))
    kinds = np.array(alone.server_types)
    return Instance(
        np.empty((0, given.n_resources)),
        [alone.capacities[kinds == name].sum(axis=0) for name in names],
        resources=given.resources,
        servers=names,
        units=given.units,
    )
