"""Teams in properties: the labels that a policy reads, and teams' bundles compared with their slices of the servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairopt.allocation import Allocation, ChangedByHand, units_of
from fairopt.blocks.base import blocks_within
from fairopt.blocks.objectives import Objective
from fairopt.blocks.teams import OfTeam, Surplus
from fairopt.instance import Instance
from fairopt.properties.units import own_units, quotient
from fairopt.runtime.arrays import Float

Path = tuple[Any, ...]

AT_LIMIT = 1e-9  # relative: users this close to their limits ask for no more


@dataclass(frozen=True, eq=False)
class TeamSlices:
    """Dominant shares of the teams of a tree and of their users, and those on their slices of the servers."""

    names: tuple[str, ...]  # of teams, then of users
    holds: Float  # the dominant share of the sum
    slices: Float  # the largest of a member below its limit alone on the slice, within its limit; 0 if there is none

    @property
    def short(self) -> Float:
        """What each lacks of its slice, relative to it; negative where it holds more."""
        return quotient(self.slices - self.holds, own_units(self.slices, self.holds), -1.0)


def labels_read(policy: Any) -> tuple[str, ...]:
    """The labels of users that a policy or mechanism reads, the outermost first for a mechanism with ``by``.

    Examples
    --------
    >>> import fairopt as fo
    >>> labels_read(fo.HDRF(("org", "team"))), labels_read(fo.Policy(fo.MaxMin(fo.OfTeam()))), labels_read(fo.DRF())
    (('org', 'team'), ('team',), ())
    """
    by = getattr(policy, "by", None)
    if isinstance(by, tuple) and all(isinstance(label, str) for label in by):
        return by
    return tuple(dict.fromkeys(block.by for block in _blocks(policy) if isinstance(block, OfTeam)))


def reads_guarantees(policy: Any) -> bool:
    """Whether a policy compares what users or teams have above their guarantees."""
    return any(isinstance(block, Surplus) and block.base is None for block in _blocks(policy))


def team_slices(allocation: Allocation) -> TeamSlices:
    """What each team, and each user in its team, holds beside its slice.

    The tree is that of the labels which the policy reads, or of all labels; a slice is divided by weight among the
    teams and users directly in it.
    """
    instance, policy = allocation.instance, allocation.policy
    policy = policy.policy if isinstance(policy, ChangedByHand) else policy
    read = [by for by in labels_read(policy) if by in instance.teams] or instance.teams.outermost_first
    columns = [instance.teams.labelling(by) for by in read]
    of_teams, of_users = _weights(policy, instance)
    members: dict[Path, list[int]] = {}  # of users the path ends with their position
    weights: dict[Path, float] = {}
    for j in range(instance.n_users):
        path: Path = ()
        for names, of_user in columns:
            if of_user[j] >= 0:
                path = (*path, names[of_user[j]])
                members.setdefault(path, []).append(j)
                weights[path] = of_teams[names[of_user[j]]]
        members[*path, j], weights[*path, j] = [j], of_users[j]
    total: dict[Path, float] = {}
    for path, weight in weights.items():
        total[path[:-1]] = total.get(path[:-1], 0.0) + weight
    room = instance.total_capacities
    held = quotient(units_of(allocation), room)
    alone = np.einsum("js,jsi->ji", instance.tasks_alone, instance.per_server_demands)
    below = allocation.tasks < instance.task_limits * (1 - AT_LIMIT)
    most = np.where(below, quotient(alone, room).max(axis=1, initial=0.0), 0.0)
    within = quotient(instance.task_limits, instance.tasks_alone.sum(axis=1))  # of what each could run alone
    nodes, part = sorted(members, key=len), {(): 1.0}
    for path in nodes:
        part[path] = part[path[:-1]] * weights[path] / total[path[:-1]]
    labels = [instance.users[path[-1]] if isinstance(path[-1], int) else path[-1] for path in nodes]
    holds = [held[members[path]].sum(axis=0).max(initial=0.0) for path in nodes]
    slices = [(np.minimum(part[path], within) * most)[members[path]].max(initial=0.0) for path in nodes]
    return TeamSlices(tuple(labels), np.array(holds), np.array(slices))


def _weights(policy: Any, instance: Instance) -> tuple[dict[str, float], list[float]]:
    """Weights of teams by name and of users: those of the policy, else of the instance."""
    given: dict[str, float] = {}
    for block in (policy, *(block for block in _blocks(policy) if isinstance(block, OfTeam))):
        weights = getattr(block, "weights", None)
        given |= {} if weights is None else dict(weights)
    own = zip(instance.users, instance.own_weights.tolist(), strict=True)
    teams = {name: given.get(name, instance.team_weights.get(name, 1.0)) for name in instance.teams.names}
    return teams, [given.get(user, weight) for user, weight in own]


def _blocks(policy: Any) -> list[Any]:
    """All blocks of a policy, and those within them."""
    policy = getattr(policy, "policy", policy)  # of a mechanism that asks another policy
    objective = getattr(policy, "objective", None)
    if not isinstance(objective, Objective):
        return []
    return list(blocks_within((*objective.share_blocks(), *policy.constraints)))
