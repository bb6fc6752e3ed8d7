"""The rule of Slurm's Fair Tree, for what runs and waits now."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Self

import numpy as np

from fairopt import Allocation, DominantShare, Instance, Leximin, Objective, OfTeam, Policy, ResourceShare, Share
from fairopt.errors import InvalidBlock
from fairopt.online import ByRules, SlurmRules
from fairopt.policies import NotOfBlocks, require_instance
from fairopt.runtime import Float, Indices

MAX = "max"  # of billing


@dataclass(frozen=True, repr=False)
class Billed(Share):
    """What a user is billed for, by ``TRESBillingWeights``, over what the whole cluster would be.

    Of demands d and weights w it is the sum of w_i d_i, or the largest of them with ``largest``.

    Parameters
    ----------
    weights : dict of float by resource
        What a unit costs: a core, a GiB, a GPU. Kept as pairs, which ``dict(share.weights)`` takes.
    largest : bool, default False
        ``PriorityFlags=MAX_TRES``.

    Examples
    --------
    >>> import fairopt as fo, fairopt_clusters as fc
    >>> pool = fo.Instance([[2, 1], [4, 0]], [64, 8], resources=["cpu", "gpu"])
    >>> fc.policies.Billed({"cpu": 1, "gpu": 15}, largest=True).per_task(pool).round(4)
    array([0.125 , 0.0333])
    """

    weights: Mapping[str, float] | tuple[tuple[str, float], ...]
    largest: bool = False

    def __post_init__(self) -> None:
        given = {str(name): weight for name, weight in dict(self.weights).items()}
        for name, weight in given.items():
            if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < math.inf:
                raise InvalidBlock(f"Billed: the weight of {name!r} is {weight!r}; give a finite number >= 0")
        object.__setattr__(self, "weights", tuple(sorted(given.items())))

    def per_task(self, instance: Instance) -> Float:
        """What a task is billed, as a part of what all servers would be."""
        weights = dict(self.weights)
        costs = np.array([weights.get(name, 0.0) for name in instance.resources])
        billed, there = instance.demands * costs, instance.total_capacities * costs
        if not there.any():
            known = ", ".join(
                name for name, amount in zip(instance.resources, instance.total_capacities, strict=True) if amount
            )
            raise InvalidBlock(f"Billed: the weights {weights} bill nothing that the servers have: {known}")
        made: Float = billed.max(axis=-1) / there.max() if self.largest else billed.sum(axis=-1) / there.sum()
        return made


@dataclass(frozen=True)
class FairTree(NotOfBlocks, ByRules):
    """What Slurm's Fair Tree steers to: at each level of the tree of accounts, billed usage per fairshare is equal.

    Of two accounts with the same parent Slurm starts the jobs of the one with less usage per fairshare, and this from
    the root down (SchedMD, *Fair Tree Fairshare Algorithm*). Usage is what jobs are billed for over time, halved in
    each `PriorityDecayHalfLife`. Here time stands still: the answer is what the accounts would hold on average if the
    same jobs kept waiting, whatever they used before. It is leximin of teams' billed shares per weight, from the
    outermost label in, then of users'; only `fairopt simulate --usage` remembers usage.

    Parameters
    ----------
    billing : str or dict of float by resource, optional
        What a job is billed for: a resource; or ``"max"``, the dominant share, as with ``PriorityFlags=MAX_TRES`` and a
        weight of one over what there is for each resource; or ``TRESBillingWeights``. Default: cores; commands take
        the weights of ``slurm.conf`` in the folder.
    largest : bool, default False
        ``PriorityFlags=MAX_TRES``: of several weights the largest part is billed, not the sum.

    Notes
    -----
    Not modelled are past usage, and the other factors of a job's priority: age, size, partition, quality of service. An
    account in no team of an outer label is a team of its own there, and so is a user.

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

    billing: str | Mapping[str, float] | None = field(default=None, hash=False)  # a dict has no hash
    largest: bool = False
    _keeps_limits = True

    def __post_init__(self) -> None:
        if isinstance(self.billing, Mapping):
            object.__setattr__(self, "billing", dict(Billed(self.billing, self.largest).weights))
        elif self.largest:
            raise InvalidBlock(
                "FairTree: largest=True is for weights by resource; give these as billing, or 'max' alone"
            )
        elif self.billing is not None and not (isinstance(self.billing, str) and self.billing):
            fix = "give the name of a resource, 'max', or weights by resource"
            raise InvalidBlock(f"FairTree: billing is {self.billing!r}; {fix}")

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        what = self.billing if isinstance(self.billing, str) else "billed" if self.billing else "cpu"
        return "Fair Tree" if what == "cpu" else f"Fair Tree ({what})"

    @property
    def share(self) -> Share:
        """What accounts are compared by."""
        if isinstance(self.billing, Mapping):
            return Billed(self.billing, self.largest)
        return DominantShare() if self.billing == MAX else ResourceShare(self.billing or "cpu")

    def by_rules(self, rules: SlurmRules) -> Self:
        """The same with what a folder says of billing, unless this policy says it.

        Parameters
        ----------
        rules : fairopt.online.SlurmRules
            What a folder of Slurm says; of several partitions the largest weight of each resource counts.

        Returns
        -------
        FairTree

        Examples
        --------
        >>> import fairopt as fo, fairopt_clusters as fc
        >>> gpus = fo.online.Partition(billing={"cpu": 1, "gpu": 16})
        >>> fc.policies.FairTree().by_rules(fo.online.SlurmRules(partitions={"gpu": gpus}))
        FairTree(billing={'cpu': 1, 'gpu': 16}, largest=False)
        """
        weights = dict[str, float]()
        for one in rules.partitions.values():
            weights |= {name: max(n, weights.get(name, 0.0)) for name, n in (one.billing or {}).items()}
        return self if self.billing or not weights else type(self)(weights, rules.priority.largest)

    @property
    def by(self) -> tuple[str, ...]:
        """No labels of its own: those of the instance."""
        return ()

    def policy(self, instance: Instance) -> Policy:
        """The rule as a policy over the labels of an instance whose users have all of them."""
        share = self.share
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
