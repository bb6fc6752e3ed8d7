"""Sums over the users of each team."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation, part_of_capacity, units_of
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float


class TeamSums(NamedTuple):
    """What the members of each team under a label get together.

    ``weights`` are those of teams, ``units`` (n_teams, n_resources) their units, and ``dominant`` the largest
    fraction of a resource's total capacity among them.
    """

    names: tuple[str, ...]
    members: tuple[NDArray[np.intp], ...]
    weights: Float
    units: Float
    dominant: Float

    def done(self, allocation: Allocation, slack: float) -> NDArray[np.bool_]:
        """Whether all members of a team run all their tasks."""
        done = allocation.tasks >= allocation.instance.task_limits * (1 - slack)
        return np.array([done[rows].all() for rows in self.members], dtype=bool)


def team_sums(allocation: Allocation, by: str | None, alone: bool = False) -> TeamSums:
    """The sums under a label; with ``alone`` also of those without it, and without a label of each user.

    A user without the label counts in a team that stands beside those of the label: the one around it, if no member of
    that has the label, else its outermost team inside the label, else itself.

    Examples
    --------
    >>> import fairopt as fo
    >>> pool = fo.Instance([[1], [1], [1]], [6], users=["a", "b", "c"], teams={"team": ["v", "v", "n"]})
    >>> sums = fo.questions.team_sums(fo.DRF().allocate(pool), "team")
    >>> sums.names, sums.units[:, 0].tolist()
    (('v', 'n'), [4.0, 2.0])
    """
    instance, teams = allocation.instance, allocation.instance.teams.names
    if by is None:
        every = tuple(np.arange(instance.n_users)[:, None])
        return TeamSums(instance.users, every, instance.own_weights, units_of(allocation), allocation._dominant_shares)
    names = [name for name in instance.teams.labelling(by).names if name in teams]
    members = [teams[name] for name in names]
    weights = [instance.team_weights.get(name, 1.0) for name in names]
    if alone:
        order, beside = instance.teams.outermost_first, dict[str, list[int]]()
        level, of_user = order.index(by), instance.teams.labelling(by).of_user
        outside = [instance.teams[label] for label in order[:level][::-1]]
        inside = [instance.teams[label] for label in order[level + 1 :]]
        for j in np.flatnonzero(of_user < 0).tolist():
            around = next(filter(None, (of[j] for of in outside)), None)
            if around is None or (of_user[teams[around]] >= 0).any():
                around = next(filter(None, (of[j] for of in inside)), instance.users[j])
            beside.setdefault(around, []).append(j)
        names += beside
        members += [np.array(rows) for rows in beside.values()]
        own = dict(zip(instance.users, instance.own_weights.tolist(), strict=True))
        weights += [own.get(name, instance.team_weights.get(name, 1.0)) for name in beside]
    given = units_of(allocation)
    units = np.array([given[rows].sum(axis=0) for rows in members]).reshape(len(names), instance.n_resources)
    dominant = part_of_capacity(units, np.broadcast_to(instance.total_capacities, units.shape), 0.0).max(axis=1)
    return TeamSums(tuple(names), tuple(members), np.array(weights), units, dominant)


def guaranteed_units(instance: Instance) -> dict[str, dict[str, float]]:
    """What is guaranteed to each team in units: its own guarantee, and that of its users' tasks where it is more."""
    out = {team: dict(units) for team, units in instance.team_guarantees.items()}
    if instance.demands.ndim == 3 or not instance.guarantees.any():
        return out
    used = np.minimum(instance.guarantees, instance.task_limits)[:, None] * instance.demands
    for team, rows in instance.teams.names.items():
        for name, units in zip(instance.resources, used[rows].sum(axis=0).tolist(), strict=True):
            if units > out.get(team, {}).get(name, 0.0):
                out.setdefault(team, {})[name] = units
    return out


def teams_shown(instance: Instance) -> str | None:
    """The innermost label with a team of several users, whose teams are shown in plots; None if there is none."""
    shown = (by for by in instance.teams if instance.teams.labelling(by).mixed)
    return next(shown, None)
