"""Sums over the users of each team."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation, part_of_capacity, units_of
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float, Indices


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
    """The sums under a label; with ``alone`` of all `team_members`, and without a label of each user.

    Examples
    --------
    >>> import fairopt as fo
    >>> pool = fo.Instance([[1], [1], [1]], [6], users=["a", "b", "c"], teams={"team": ["v", "v", "n"]})
    >>> sums = fo.questions.team_sums(fo.DRF().allocate(pool), "team")
    >>> sums.names, sums.units[:, 0].tolist()
    (('v', 'n'), [4.0, 2.0])
    """
    instance = allocation.instance
    if by is None:
        every = tuple(np.arange(instance.n_users)[:, None])
        return TeamSums(instance.users, every, instance.own_weights, units_of(allocation), allocation._dominant_shares)
    found = team_members(instance, by, alone)
    names, members = [*found], [*found.values()]
    own = dict(zip(instance.users, instance.own_weights.tolist(), strict=True))
    teams, of_teams = instance.teams.names, instance.team_weights
    weights = [of_teams.get(name, 1.0) if name in teams else own[name] for name in names]
    given = units_of(allocation)
    units = np.array([given[rows].sum(axis=0) for rows in members]).reshape(len(names), instance.n_resources)
    dominant = part_of_capacity(units, np.broadcast_to(instance.total_capacities, units.shape), 0.0).max(axis=1)
    return TeamSums(tuple(names), tuple(members), np.array(weights), units, dominant)


def team_members(instance: Instance, by: str, alone: bool = True) -> dict[str, Indices]:
    """The teams under a label with their users; with ``alone`` also those that stand beside them.

    A user without the label counts in a team beside those of the label: the one around it, if no member of that has the
    label, else its outermost team inside the label, else itself.

    Parameters
    ----------
    instance : Instance
        With the label.
    by : str
        The label.
    alone : bool, default True
        Whether users without the label count.

    Returns
    -------
    dict of ndarray by name

    Examples
    --------
    >>> import fairopt as fo
    >>> pool = fo.Instance([[1], [1], [1]], [6], users=["a", "b", "c"], teams={"team": ["v", None, "v"]})
    >>> {name: rows.tolist() for name, rows in fo.questions.team_members(pool, "team").items()}
    {'v': [0, 2], 'b': [1]}
    """
    teams, beside = instance.teams.names, dict[str, list[int]]()
    out = {name: teams[name] for name in instance.teams.labelling(by).names if name in teams}
    order, of_user = instance.teams.outermost_first, instance.teams.labelling(by).of_user
    outside = [instance.teams[label] for label in order[: order.index(by)][::-1]]
    inside = [instance.teams[label] for label in order[order.index(by) + 1 :]]
    for j in np.flatnonzero(of_user < 0).tolist() if alone else ():
        around = next(filter(None, (of[j] for of in outside)), None)
        if around is None or (of_user[teams[around]] >= 0).any():
            around = next(filter(None, (of[j] for of in inside)), instance.users[j])
        beside.setdefault(around, []).append(j)
    return out | {name: np.array(rows) for name, rows in beside.items()}


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
