"""Guarantees and limits of an instance as constraints, which every policy keeps; what guarantees of teams are worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.constraints import Constraint, TaskBound
from fairopt.blocks.model import Pairs
from fairopt.blocks.rows import Rows, largest
from fairopt.blocks.shares import kept
from fairopt.errors import OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.validation import distinct
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import sp

NEAR = 1e-9  # relative: a guarantee counts as met in full if the linear program's value is this close to it


@dataclass(frozen=True, repr=False)
class UserGuarantees(TaskBound):
    """The guarantees of users, at most their task limits."""

    def _box(self, instance: Instance) -> tuple[Float, Float]:
        return guaranteed_tasks(instance), np.broadcast_to(np.float64(np.inf), (instance.n_users,))

    def __repr__(self) -> str:
        return "the guarantees of users"


@dataclass(frozen=True, repr=False)
class TeamGuarantees(Constraint):
    """The guarantees of teams as floors on what each holds of each resource."""

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        instance = pairs.instance
        demands = instance.per_server_demands
        per_task, right, labels = [], [], list[tuple[str, str]]()
        for team, floor in team_floors(instance).items():
            mine = np.isin(pairs.user, floor.members)
            for i in np.flatnonzero(floor.units > 0):
                per_task.append(np.where(mine, -demands[pairs.user, pairs.server, i], 0.0))
                right.append(-floor.units[i])
                labels.append((team, instance.resources[i]))
        return {"guaranteed": Rows(sp.csr_array(np.array(per_task)), right, labels=labels)} if right else {}

    def __repr__(self) -> str:
        return "the guarantees of teams"


def guarantees_of(instance: Instance) -> tuple[Constraint, ...]:
    """The guarantees of an instance as constraints."""
    users = (UserGuarantees(),) if instance.guarantees.any() else ()
    return (*users, TeamGuarantees()) if instance.team_guarantees else users


def guaranteed_tasks(instance: Instance) -> Float:
    """The guarantees of users, at most their task limits, shape (n_users,)."""
    limits = instance.task_limits
    unlimited = distinct(limits).min(initial=np.inf) == np.inf
    return instance.guarantees if unlimited else np.minimum(instance.guarantees, limits)


def refuse_guarantees(instance: Instance, mechanism: str) -> None:
    """`OutOfDomain` if the instance has guarantees or limits, which a mechanism does not keep."""
    if instance.limits:
        raise OutOfDomain(
            f"{mechanism} does not keep limits, and {instance!r} has some; use a policy such as DRF, or leave them "
            "out: instance.replace(limits=())"
        )
    if instance.derived.has_guarantees:
        raise OutOfDomain(
            f"{mechanism} does not keep guarantees, and {instance!r} has some; use a policy such as DRF, or leave them "
            "out: instance.replace(guarantees=None)"
        )


class Use(NamedTuple):
    """The best use of a team's tasks: its ``value``, and what proves it.

    ``tasks`` are (user, server, tasks), and ``prices`` (n_resources,) those of resources in the dual program.
    """

    value: float
    tasks: list[tuple[int, int, float]]
    prices: Float

    @property
    def entry(self) -> dict[str, Any]:
        """The form that `verify` reads."""
        return {"tasks": [list(part) for part in self.tasks], "prices": self.prices.tolist()}


class TeamFloor(NamedTuple):
    """The members of a team, and the units of each resource that its guarantee secures, shape (n_resources,).

    ``uses`` prove how much of each resource that it names its tasks can use.
    """

    members: Indices
    units: Float
    uses: dict[int, Use]


def team_floors(instance: Instance) -> dict[str, TeamFloor]:
    """What each team is guaranteed of each resource, at most what its tasks can use of it.

    That is the most of the resource that tasks of the team can use together within the guarantee and, of resources
    that the guarantee does not name, within the total capacities. Limits do not count, not even those of 0:
    beside these, tasks in `TeamFloor.uses` are of all users, also of those whom a solve leaves out.
    """
    members, whole = instance.teams.names, instance.derived.whole
    of = whole if whole._given else instance

    def floor(team: str, units: Mapping[str, float]) -> TeamFloor:
        what = "floor", team, *units.items()
        made: TeamFloor = kept(of, of, what, lambda: _floor(of.derived.as_given, team, units))
        return made._replace(members=members[team])

    return {team: floor(team, units) for team, units in instance.team_guarantees.items() if team in members}


def _floor(instance: Instance, team: str, given: Mapping[str, float]) -> TeamFloor:
    members = instance.teams.names[team]
    within = instance.total_capacities.copy()
    named = [instance.resource_index(resource) for resource in given]
    within[named] = np.minimum(within[named], list(given.values()))
    units, uses = np.zeros(instance.n_resources), dict[int, Use]()
    for i in named:
        if within[i] > 0 and instance.per_server_demands[members, :, i][instance.eligible[members]].any():
            uses[i] = use = _best(instance, members, instance.per_server_demands[:, :, i], within)
            units[i] = within[i] if use.value >= within[i] * (1 - NEAR) else use.value
    return TeamFloor(members, units, uses)


def _best(instance: Instance, members: Indices, gain: Float, within: Float, floor: Float | None = None) -> Use:
    """The largest gain (n_users, n_servers) of members within limits and capacities or, if given, above a floor."""
    of, server = np.nonzero(instance.eligible[members])
    user, limits = members[of], instance.task_limits[members]
    demands, gains = instance.per_server_demands[user, server], gain[user, server]
    if len(of) == 1 and demands.any():
        return _of_one(int(user[0]), int(server[0]), demands[0], float(gains[0]), limits[0], within, floor)
    most = np.max(demands / np.where(within > 0, within, 1.0), axis=1, initial=0.0)
    units = Rows(demands.T, within) if floor is None else Rows(-demands.T, -floor)
    limited = np.flatnonzero(np.isfinite(limits))
    place = np.searchsorted(limited, of[pairs := np.flatnonzero(np.isfinite(limits[of]))])
    sums = sp.csr_array((np.ones(len(pairs)), (place, pairs)), shape=(len(limited), len(of)))
    totals = Rows(sums, limits[limited])
    best = largest(gains, [units, totals], 1.0 / np.where(most > 0, most, 1.0))
    if best is None:
        return Use(0.0, [], np.zeros(len(within)))
    tasks = np.maximum(best.at, 0.0)
    listed = zip(user.tolist(), server.tolist(), tasks.tolist(), strict=True)
    prices = np.maximum(best.multipliers[0], 0.0)
    return Use(float(gains @ tasks), [part for part in listed if part[2] > 0], prices)


def _of_one(
    user: int, server: int, demand: Float, gain: float, limit: float, within: Float, floor: Float | None
) -> Use:
    """The same of one user on one server: as many tasks as fit, or as the floor needs."""
    prices, needed = np.zeros(len(within)), np.flatnonzero(demand > 0)
    amounts = (within if floor is None else floor)[needed] / demand[needed]
    k = int(amounts.argmin() if floor is None else amounts.argmax())
    if floor is not None or amounts[k] <= limit:
        prices[needed[k]] = abs(gain) / demand[needed[k]]
    tasks = min(float(amounts[k]), float(limit))
    return Use(gain * tasks, [(user, server, tasks)] if tasks > 0 else [], prices)


def least_share(instance: Instance, floor: TeamFloor, per_task: Float) -> Use:
    """The least total share at which a team holds its floor; ``per_task`` (n_users,) or (n_users, n_servers)."""
    gain = -np.broadcast_to(per_task.reshape(instance.n_users, -1), instance.eligible.shape)
    best = _best(instance, floor.members, gain, instance.total_capacities, floor.units)
    return best._replace(value=-best.value)


@dataclass(frozen=True, repr=False)
class KeptLimits(Constraint):
    """The limits of an instance: ``sum of d_jsi x_js <= amount`` over the users and servers of each."""

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        instance, limits = pairs.instance, pairs.instance.limits
        parts = [*zip(*limited_pairs(instance), strict=True)]
        if not parts:
            return {}
        row = np.repeat(np.arange(len(limits)), [*map(len, parts[0])])
        user, server, units = map(np.concatenate, parts)
        runs = instance.eligible[user, server]
        count = np.bincount(row[runs], minlength=len(limits))
        kept = np.flatnonzero(count).tolist()
        if not kept:
            return {}
        starts, shape = np.append(0, np.cumsum(count[kept])), (len(kept), len(pairs))
        per_task = sp.csr_array((units[runs], pairs.index(user[runs], server[runs]), starts), shape=shape)
        some = [limits[k] for k in kept]
        return {"limited": Rows(per_task, [one.amount for one in some], labels=[one.name for one in some])}

    def __repr__(self) -> str:
        return "the limits of the instance"


def kept_limits(instance: Instance) -> tuple[KeptLimits, ...]:
    """The limits of an instance as constraints."""
    return (KeptLimits(),) if instance.limits else ()


def limited_units(instance: Instance) -> Iterator[Float]:
    """What a task takes of each limit, shape (n_users, n_servers) each."""
    for user, server, units in limited_pairs(instance):
        out = np.zeros((instance.n_users, instance.n_servers))
        out[user, server] = units
        yield out


def limited_pairs(instance: Instance) -> Iterator[tuple[Indices, Indices, Float]]:
    """The users and servers whose tasks take something of each limit, and what a task takes."""
    members = {user: j for j, user in enumerate(instance.users)} | dict(instance.teams.names)
    number = {name: instance.resource_index(name) for name in {limit.resource for limit in instance.limits}}
    for limit in instance.limits:
        users, counted = limit.counted(members, instance.n_servers)
        units = np.where(counted, instance.per_server_demands[users, :, number[limit.resource]], 0.0)
        place, server = np.nonzero(units)
        yield users[place], server, units[place, server]


def beyond_limits(instance: Instance, tasks: Float) -> float:
    """By how much tasks (n_users, n_servers) exceed a limit, relative to it."""
    over = 0.0
    for limit, (user, server, units) in zip(instance.limits, limited_pairs(instance), strict=True):
        used = float(units @ tasks[user, server])
        over = max(over, used / limit.amount - 1 if limit.amount else np.inf if used else 0.0)
    return over
