"""The rule of Slurm's Fair Tree, for what runs and waits now."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from fairopt import Allocation, DominantShare, Instance, Leximin, Objective, OfTeam, Policy, ResourceShare
from fairopt.errors import InvalidBlock
from fairopt.policies import NotOfBlocks, require_instance
from fairopt.runtime import Indices

MAX = "max"  # of billing


@dataclass(frozen=True)
class FairTree(NotOfBlocks):
    """What Slurm's Fair Tree steers to: at each level of the tree of accounts, billed usage per fairshare is equal.

    Of two accounts with the same parent Slurm starts the jobs of the one with less usage per fairshare, and this from
    the root down (SchedMD, *Fair Tree Fairshare Algorithm*). Usage is what jobs are billed for over time, halved in
    each `PriorityDecayHalfLife`. Here time stands still: the answer is what the accounts would hold on average if the
    same jobs kept waiting, whatever they used before. It is leximin of teams' billed shares per weight, from the
    outermost label in, then of users'; only `fairopt simulate --usage` remembers usage.

    Parameters
    ----------
    billing : str, default "cpu"
        What a job is billed for: a resource, as ``cpu`` with Slurm's default ``TRESBillingWeights``; or ``"max"``, the
        dominant share, as with ``PriorityFlags=MAX_TRES`` and a weight of one over what there is for each resource.

    Notes
    -----
    Not modelled are past usage, sums in ``TRESBillingWeights``, and the other factors of a job's priority: age, size,
    partition, quality of service. An account in no team of an outer label is a team of its own there, and so is a user.

    Examples
    --------
    >>> import fairopt as fo, fairopt_clusters as fc
    >>> cluster = fo.Instance(
    ...     [[1, 1], [1, 0]], [12, 8], resources=["cpu", "gpu"], weights={"eng": 3},
    ...     teams={"team": ["vision", "bio"], "parent": ["eng", "sci"]},
    ... )
    >>> fc.policies.FairTree().allocate(cluster).tasks
    array([8., 4.])
    >>> fc.policies.FairTree("max").allocate(cluster.with_task_limits([None, 4])).tasks.round(6)
    array([8., 4.])
    """

    billing: str = "cpu"
    _keeps_limits = True

    def __post_init__(self) -> None:
        if not isinstance(self.billing, str) or not self.billing:
            raise InvalidBlock(f"FairTree: billing is {self.billing!r}; give the name of a resource, or 'max'")

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        return "Fair Tree" if self.billing == "cpu" else f"Fair Tree ({self.billing})"

    @property
    def by(self) -> tuple[str, ...]:
        """No labels of its own: those of the instance."""
        return ()

    def policy(self, instance: Instance) -> Policy:
        """The rule as a policy over the labels of an instance whose users have all of them."""
        share = DominantShare() if self.billing == MAX else ResourceShare(self.billing)
        # by the users of each team, so that teams of one team are no level
        levels: dict[tuple[int, ...], Objective] = {}
        for by in instance.teams.outermost_first:
            levels.setdefault(divided(instance.teams.labelling(by).of_user), Leximin(OfTeam(share, by=by)))
        levels.setdefault(tuple(range(instance.n_users)), Leximin(share))
        return Policy(reduce(Objective.then, levels.values()), name=self.name)

    def allocate(self, instance: Instance, *, time_limit: float | None = None, **options: Any) -> Allocation:
        """Solve and certify.

        Parameters
        ----------
        instance : Instance
            Users with labels, or without.
        time_limit : float, optional
            Seconds.
        **options
            As in `Policy.allocate`.

        Returns
        -------
        Allocation
            Of an instance in which all users have all labels.

        Raises
        ------
        InvalidInstance
            If there is no resource called as ``billing``.
        NotCertified
            If the answer could not be certified.

        Examples
        --------
        >>> import fairopt as fo, fairopt_clusters as fc
        >>> fc.policies.FairTree().allocate(fo.Instance([[2], [1]], [8], resources=["cpu"])).tasks
        array([2., 4.])
        """
        require_instance(instance)
        complete = with_all_labels(instance, instance.teams.outermost_first)
        return self.policy(complete).allocate(complete, time_limit=time_limit, **options)


def divided(of_user: Indices) -> tuple[int, ...]:
    """The first user of the team of each user."""
    _, first, back = np.unique(of_user, return_index=True, return_inverse=True)
    return tuple(first[back].tolist())


def with_all_labels(instance: Instance, by: tuple[str, ...]) -> Instance:
    """The instance in which each user has a label of each kind: what has none outside it is a team of its own."""
    teams, weights = {name: list(instance.teams[name]) for name in instance.teams}, dict[str, float]()
    own = dict(zip(instance.users, instance.own_weights.tolist(), strict=True))
    for j, user in enumerate(instance.users):
        inner, weight = user, own[user]
        for label in reversed(by):
            name = teams[label][j]
            if name is None:
                name = teams[label][j] = f"{inner} ({label})"
                weights[name] = weight
            inner, weight = name, instance.team_weights.get(name, weights.get(name, 1.0))
    return instance.replace(teams=teams, innermost_first=list(teams), weights=weights) if weights else instance
