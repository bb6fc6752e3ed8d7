"""What teams use and hold: whole tasks of an answer in units of resources, by team and individual server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt import Instance
from fairopt.instance import Labelling
from fairopt.runtime import Float
from fairopt_clusters.quotas.gpu_types import GpuTypes, gpu_types
from fairopt_clusters.quotas.quota import Quota, is_cpu, is_memory
from fairopt_clusters.quotas.team_quotas import described
from fairopt_clusters.quotas.whole_tasks import WholeAnswer

_SOLVED = 1e-6  # of all that there is: nearer the two programs of `idled`, solved to 1e-7, do not differ
_NONE = 1e-300  # in place of a capacity of 0, so that no task that needs some fits


@dataclass(frozen=True, eq=False)
class Counted:
    """A resource as quotas count it: one of the instance, or GPUs, which several may count.

    ``parts`` are the indices of those that are added up, ``requested`` of those by which tasks ask for it.
    """

    name: str
    unit: str
    parts: tuple[int, ...]
    requested: tuple[int, ...]
    gpus: GpuTypes | None = None

    def of(self, units: Float) -> Float:
        """Its amounts in units whose last axis is that of resources."""
        made: Float = units[..., list(self.parts)].sum(axis=-1)
        return made


@dataclass(frozen=True, eq=False)
class Teams:
    """The teams with quotas, under the label ``by``, and their whole tasks; ``every`` unless some were chosen."""

    whole: WholeAnswer
    by: str | None
    labelling: Labelling
    names: tuple[str, ...]
    resources: tuple[str, ...]
    every: bool = False

    @property
    def servers(self) -> Instance:
        """The instance with a row for each server."""
        return self.whole.servers

    @cached_property
    def members(self) -> list[NDArray[np.intp]]:
        """The users of each team."""
        index = {name: t for t, name in enumerate(self.labelling.names)}
        return [np.flatnonzero(self.labelling.of_user == index.get(name, -2)) for name in self.names]

    @cached_property
    def used(self) -> Float:
        """Units that whole tasks of each team use, shape (n_teams, n_servers, n_resources)."""
        return self._by_team(self.whole.placement)

    @cached_property
    def held(self) -> Float | None:
        """Units that running tasks take, by team, server and resource; None unless the servers are known."""
        held = self.servers.held
        return None if held is None or held.ndim == 1 else self._by_team(held)

    @cached_property
    def held_in_all(self) -> Float | None:
        """Units that running tasks of each team take, shape (n_teams, n_resources)."""
        units = self.servers.held_units
        if units is None:
            return None
        return np.array([units[rows].sum(axis=0) for rows in self.members]).reshape(len(self.names), units.shape[1])

    def _by_team(self, tasks: Float) -> Float:
        demands = self.servers.per_server_demands
        shape = (len(self.names), *demands.shape[1:])
        return np.array([np.einsum("js,jsi->si", tasks[rows], demands[rows]) for rows in self.members]).reshape(shape)

    @cached_property
    def fair(self) -> Float:
        """Units of the certified divisible answer, shape (n_teams, n_resources)."""
        answer = self.whole.answer
        each = np.einsum("js,jsi->ji", answer.tasks_by_server, answer.instance.per_server_demands)
        return np.array([each[rows].sum(axis=0) for rows in self.members]).reshape(len(self.names), each.shape[1])

    @cached_property
    def asked(self) -> Float:
        """Units of all tasks of each team, shape (n_teams, n_resources); infinite without task limits."""
        most = self.servers.per_server_demands.max(axis=1)
        limits = self.servers.task_limits[:, None]
        units = np.where(most > 0, most * np.where(most > 0, limits, 0.0), 0.0)
        return np.array([units[rows].sum(axis=0) for rows in self.members]).reshape(len(self.names), most.shape[1])

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types of individual servers, empty if they have none or one."""
        types = self.servers.server_types or ()
        return types if len(set(types)) > 1 else ()

    @cached_property
    def unit(self) -> dict[str, str]:
        """The unit of each resource, ``""`` for pieces."""
        servers = self.servers
        return dict(zip(servers.resources, servers.units or ("",) * servers.n_resources, strict=True))

    @cached_property
    def gpus(self) -> GpuTypes | None:
        """The types of GPUs; None without several types."""
        return gpu_types(self.servers)

    def counted(self, gpus: GpuTypes | None) -> list[Counted]:
        """The resources as quotas count them; with ``gpus`` all that count GPUs are one, the last."""
        index = {name: i for i, name in enumerate(self.servers.resources)}
        of_gpus = [i for name, i in index.items() if gpus is not None and name in gpus.resources]
        out = [Counted(name, self.unit[name], (i,), (i,)) for name, i in index.items() if i not in of_gpus]
        return out if gpus is None else [*out, Counted(gpus.resource, "", gpus.counted, tuple(of_gpus), gpus)]

    def chosen(self, gpus: GpuTypes | None) -> list[Counted]:
        """Those of the resources with quotas."""
        mine = {self.servers.resource_index(name) for name in self.resources}
        return [one for one in self.counted(gpus) if mine & {*one.requested}]

    def there(self, gpus: GpuTypes | None) -> dict[str, float]:
        """What there is of each resource."""
        return {one.name: float(one.of(self.servers.total_capacities)) for one in self.counted(gpus)}

    def is_plain(self, resource: str) -> bool:
        """Whether a resource is cpu, memory or storage, where smaller tasks can use any amount."""
        return self.is_required(resource) or is_memory(self.unit.get(resource, ""))

    def is_required(self, resource: str) -> bool:
        """Whether a resource is cpu or memory: a limit on these rejects tasks that do not request them."""
        return resource == "memory" or is_cpu(resource, self.unit.get(resource, ""))

    def wanted(self, team: int, resource: int, on: NDArray[np.bool_]) -> bool:
        """Whether some task of a team needs a resource and may run on some servers; on any if all count for others."""
        rows, on = self.members[team], _somewhere(on)
        rows = rows[self.servers.task_limits[rows] > 0]
        needs = self.servers.per_server_demands[rows][:, :, resource] > 0
        return bool((self.servers.eligible[rows] & on & needs).any())

    def waits(self, resource: int, on: NDArray[np.bool_]) -> bool:
        """Whether some task that needs a resource, and may run on some servers, has no place."""
        rows, on = np.flatnonzero(self.whole.placement.sum(axis=1) < self.servers.task_limits), _somewhere(on)
        needs = self.servers.per_server_demands[rows][:, :, resource] > 0
        return bool((self.servers.eligible[rows] & on & needs).any())

    def among(self, names: Sequence[str]) -> Teams:
        """The same with other names of teams, also of such as have no tasks."""
        return replace(self, names=tuple(names), every=False)

    @cached_property
    def above(self) -> dict[str, list[str]]:
        """The teams outside each team, the nearest first."""
        teams = self.servers.teams
        order = [*teams.outermost_first]
        outer = [] if self.by is None else [teams.labelling(one) for one in order[: order.index(self.by)]][::-1]
        return {
            name: [names[of_user[rows[0]]] for names, of_user in outer if of_user[rows[0]] >= 0]
            for name, rows in zip(self.names, self.members, strict=True)
            if len(rows)
        }

    @property
    def weights(self) -> dict[str, float]:
        """The weights of users and teams."""
        own = dict(zip(self.servers.users, self.servers.own_weights.tolist(), strict=True))
        return own | {**self.servers.team_weights}


def _somewhere(on: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Some servers; all if all of them count for other flavors."""
    return on if on.any() else np.ones_like(on)


def of_all(amount: float, total: float, resource: str, unit: str, flavor: str = "") -> str:
    """An amount of what there is, in words."""
    return f"{amount:,.6g} of {total:,.6g} {described(resource, flavor, unit)}"


def idled(teams: Teams, most: Mapping[tuple[str, str], float]) -> list[str]:
    """What tasks that wait could use of what limits leave idle now, by resource, in words.

    ``most`` are the limits by team and resource. Of each resource it is the most that tasks could use together without
    these limits, less the most with them. Tasks use all that they need: memory that waits for GPUs idles by no limit.
    """
    servers, out = teams.servers, list[str]()
    there, rows = servers.total_capacities, np.concatenate([*teams.members, np.empty(0, dtype=np.intp)])
    parts = servers.per_server_demands.max(axis=1)[rows] / np.maximum(there, _NONE)  # of all, by task
    largest = parts.max(axis=1, initial=0.0)
    can = (largest > 0) & (largest <= 1) & (servers.task_limits[rows] > 0)
    of_team = np.repeat(np.arange(len(teams.members)), [len(one) for one in teams.members])[can]
    units, bounds = parts[can] / largest[can, None], servers.task_limits[rows][can] * largest[can]  # dominant shares
    team, resource = ({name: k for k, name in enumerate(names)} for names in (teams.names, servers.resources))
    limits = [(team[t], resource[r], amount) for (t, r), amount in most.items() if t in team and r in resource]
    limited = np.vstack([units.T, *(np.where(of_team == t, units[:, i], 0.0) for t, i, _ in limits)])
    right = np.concatenate([np.ones(len(there)), [amount / max(there[i], _NONE) for _, i, amount in limits]])
    for i in np.flatnonzero((units > 0).any(axis=0)).tolist():
        free = _most(units[:, i], units.T, right[: len(there)], bounds)
        idle = free - _most(units[:, i], limited, right, bounds)
        if idle > _SOLVED:
            name, total = servers.resources[i], float(there[i])
            out.append(of_all(idle * total, total, name, teams.unit[name]))
    return out


def _most(gain: Float, rows: Float, right: Float, bounds: Float) -> float:
    """The most of a sum, of amounts from 0 to ``bounds`` within some rows."""
    from scipy.optimize import linprog

    solution: Any = linprog(-gain, rows, right, bounds=[(0, most) for most in bounds.tolist()], method="highs")
    return float(-solution.fun)  # 0 is within all rows, and what is there bounds the sum


def limits_in_all(rows: Sequence[Quota]) -> dict[tuple[str, str], float]:
    """What quotas allow, by team and resource, over all flavors."""
    out = dict[tuple[str, str], float]()
    for row in once(rows):
        out[row.team, row.resource] = out.get((row.team, row.resource), 0.0) + row.most
    return out


def once(rows: Sequence[Quota]) -> list[Quota]:
    """The quotas without those of flavors beside a total of theirs."""
    in_all = {(row.team, row.resource) for row in rows if not row.flavor}
    return [row for row in rows if not row.flavor or (row.team, row.resource) not in in_all]
