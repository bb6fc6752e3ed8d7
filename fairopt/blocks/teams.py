"""Shares of several users together, and what users or teams have above a base."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from fairopt.blocks.algebra import Objective
from fairopt.blocks.base import Block, PerUser, brief, per_user_parameter
from fairopt.blocks.constraints import TaskBound
from fairopt.blocks.guarantees import guaranteed_tasks, least_share, team_floors
from fairopt.blocks.numbers import Numbers
from fairopt.blocks.shares import DominantShare, Share, best_server, kept, require_share
from fairopt.errors import InvalidBlock, InvalidInstance, OutOfDomain, nearest
from fairopt.instance import Instance
from fairopt.instance.teams import Labelling
from fairopt.instance.validation import POSITIVE
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.ranges import fix_or_unit, in_range

__all__ = ["OfTeam", "Surplus"]

INSIDE = ("fair", "any")  # what splits a team's total among its members


class _Composed(Share):
    """A base of `OfTeam` and `Surplus`, whose numbers are not one coefficient times the tasks of each user."""

    _is_plain: ClassVar[bool] = False
    share: Share

    def coefficients(self, instance: Instance, levelled: bool = False) -> Float:
        raise InvalidBlock(
            f"{self} is not a number of tasks times a coefficient by user, which is needed here; give {self.share}, or "
            "use it in an objective, MinShare or MaxShare"
        )

    @property
    def _of_user(self) -> Share:
        return self.share._of_user

    def why_zero(self, instance: Instance, user: int) -> str:
        return self.share.why_zero(instance, user)


@dataclass(frozen=True, repr=False)
class OfTeam(_Composed):
    """The share of a team: the sum of the shares of its members, one number per team.

    Parameters
    ----------
    share : Share, default DominantShare()
        The share that is summed.
    by : str, default "team"
        The kind of label, a key of `Instance.teams`. Every user needs a label.
    weights : dict of str to float, optional
        Weights of teams, which replace those of the instance; 1 for teams in neither.
    inside : {"fair", "any"}, default "fair"
        What decides the split of a team's total among its members where the objective leaves it open: the leximin of
        the members' shares, or nothing, which is faster, and right where members are ways of doing the same, such as
        the paths of a demand.

    Raises
    ------
    InvalidInstance
        If users have no such label, or a user has None.

    Examples
    --------
    Two teams of equal weight, of which one has two kinds of tasks:

    >>> import fairopt as fo
    >>> cluster = fo.Instance(
    ...     demands=[[1, 0], [0, 1], [1, 1]], capacities=[10, 10],
    ...     teams={"team": ["vision", "vision", "nlp"]},
    ... )
    >>> answer = fo.Policy(fo.Leximin(fo.OfTeam())).allocate(cluster)
    >>> answer.share(fo.OfTeam()).round(4)
    array([0.6667, 0.6667])
    """

    share: Share = field(default_factory=DominantShare)
    by: str = "team"
    weights: Mapping[str, float] | None = None
    inside: str = "fair"

    def __post_init__(self) -> None:
        require_share(self.share, self)
        if self.inside not in INSIDE:
            raise InvalidBlock(f"inside of OfTeam is {brief(self.inside)}; give 'fair' or 'any'")
        if isinstance(self.share, _Composed):
            raise InvalidBlock(f"OfTeam({self.share}): give a share of users, such as DominantShare()")
        if not isinstance(self.by, str):
            raise InvalidBlock(f"by of OfTeam is {brief(self.by)}; give a kind of label, such as 'team'")
        if self.weights is not None:
            if not isinstance(self.weights, Mapping):
                raise InvalidBlock(f"weights of OfTeam are {brief(self.weights)}; give a dict by team")
            weights: Any = per_user_parameter(self.weights, "weights of OfTeam")
            object.__setattr__(self, "weights", weights)
            for team, weight in weights.items():
                if weight == 0 or not in_range(weight):
                    fix = fix_or_unit(weight, POSITIVE, "weights")
                    raise InvalidBlock(f"OfTeam: the weight of {team!r} is {weight:g}; {fix}")

    @property
    def _counts_teams(self) -> bool:
        return True

    def labelling(self, instance: Instance) -> Labelling:
        """The teams that have users, and the team of each user."""
        names, of_user = instance.teams.labelling(self.by)
        if len(of_user) and of_user.min() < 0:
            j = int(np.argmin(of_user))
            raise InvalidInstance(
                f"user {instance.users[j]!r} has no {self.by}, which {self} needs; give it one, such as its own name"
            )
        present = np.bincount(of_user, minlength=len(names)) > 0
        if present.all():
            return Labelling(names, of_user)
        place = np.cumsum(present) - 1
        return Labelling(tuple(name for name, some in zip(names, present, strict=True) if some), place[of_user])

    def _names(self, instance: Instance) -> Sequence[str]:
        return self.labelling(instance).names

    def _numbers(self, instance: Instance, levelled: bool = False) -> Numbers:
        names, of_user = self.labelling(instance)
        given = {} if self.weights is None else dict(self.weights)
        for name in given:
            if name not in instance.teams.labelling(self.by).names:
                raise InvalidInstance(f"weights of {self} name an unknown {self.by} {name!r}; {nearest(name, names)}")
        weights = np.array([given.get(name, instance.team_weights.get(name, 1.0)) for name in names], dtype=float)
        c = self.share.coefficients(instance)
        if levelled:
            _refuse_without_share(self, instance, Labelling(names, of_user), c)
        return Numbers(c, weights, of_user)


def _refuse_without_share(share: OfTeam, instance: Instance, teams: Labelling, c: Float) -> None:
    """`OutOfDomain` for a team of which no member has a positive share."""
    best = np.zeros(len(teams.names))
    np.maximum.at(best, teams.of_user, best_server(c, instance))
    if len(best) and not best.min() > 0:
        name = teams.names[int(np.argmin(best))]
        raise OutOfDomain(f"{share.by} {name!r} has a zero {share}: give it a member with a positive {share.share}")


@dataclass(frozen=True, repr=False)
class Surplus(_Composed):
    """What users or teams have above a base, ``s - s(base)``, for objectives; the base is kept.

    Parameters
    ----------
    share : Share, default DominantShare()
        The share; of users, or `OfTeam`, of which the base is what its guarantee is worth: the least share at which
        the team holds it, or what the guarantees of its members are worth if that is more.
    base : scalar, array-like of shape (n_users,) or dict by user, optional
        The base in tasks. Default: the guarantees of the instance.

    Examples
    --------
    Eight GPUs, of which each of two users is guaranteed two, and weights 1 and 3 for the rest:

    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1], [1]], [8], weights=[1, 3], guarantees=[2, 2], task_limits=6)
    >>> fo.Policy(fo.Leximin(fo.Surplus())).allocate(cluster).tasks
    array([3., 5.])
    """

    share: Share = field(default_factory=DominantShare)
    base: PerUser | None = None

    def __post_init__(self) -> None:
        require_share(self.share, self)
        if isinstance(self.share, Surplus):
            raise InvalidBlock(f"Surplus({self.share}): give a share, or OfTeam(share)")
        if self.base is not None:
            object.__setattr__(self, "base", per_user_parameter(self.base, "base of Surplus"))

    @property
    def _counts_teams(self) -> bool:
        return self.share._counts_teams

    def tasks(self, instance: Instance) -> Float:
        """The base in tasks, at most the task limits, shape (n_users,)."""
        if self.base is None:
            return guaranteed_tasks(instance)
        base = instance.per_user(self.base, "base of Surplus", default=0.0)
        return np.minimum(base, instance.task_limits)

    def _names(self, instance: Instance) -> Sequence[str]:
        return self.share._names(instance)

    def _numbers(self, instance: Instance, levelled: bool = False) -> Numbers:
        def floors(inner: Numbers) -> dict[str, float]:
            found = team_floors(instance).items()
            return {team: least_share(instance, floor, inner.per_task).value for team, floor in found if team in names}

        inner, tasks = self.share._numbers(instance, levelled), self.tasks(instance)
        c = inner.per_task
        if c.ndim == 2:  # the least that so many tasks are worth
            c = np.where(instance.eligible, c, np.inf).min(axis=1)
        base = inner.sums(c * tasks)
        if isinstance(self.share, OfTeam) and self.base is None:
            names = self.share._names(instance)
            for team, least in kept(self.share, instance, "floors", lambda: floors(inner)).items():
                if team in names:
                    t = names.index(team)
                    base[t] = max(base[t], least)
        return Numbers(inner.per_task, inner.weights, inner.of_user, base)


@dataclass(frozen=True, repr=False)
class Rising(Surplus):
    """The surplus of those users or teams that can rise above their base; the others leave the objective.

    ``out`` are the names of the teams that leave, or a mask of the users of the instance as given, as bytes.
    """

    out: tuple[str, ...] | bytes = ()

    def _rises(self, instance: Instance) -> Bool:
        if isinstance(self.out, bytes):
            out = np.frombuffer(self.out, dtype=bool).astype(float)
            return instance.per_user(out, "users that leave an objective") == 0
        return np.array([name not in self.out for name in self.share._names(instance)], dtype=bool)

    def _names(self, instance: Instance) -> Sequence[str]:
        rises = self._rises(instance)
        return [name for name, some in zip(super()._names(instance), rises, strict=True) if some]

    def _numbers(self, instance: Instance, levelled: bool = False) -> Numbers:
        return super()._numbers(instance, levelled).among(self._rises(instance))

    def __repr__(self) -> str:
        return repr(Surplus(self.share, self.base))


def with_shares(block: Any, change: Callable[[Share], Share]) -> Any:
    """An objective with other shares in place of its own."""
    if isinstance(block, Share):
        return change(block)
    if isinstance(block, tuple):
        return tuple(with_shares(part, change) for part in block)
    names = getattr(block, "__dataclass_fields__", {}) if isinstance(block, Block) else {}
    held = {name: getattr(block, name) for name, one in names.items() if one.init}
    changed = {name: with_shares(value, change) for name, value in held.items()}
    new = {name: value for name, value in changed.items() if value != held[name]}
    return replace(block, **new) if new else block


@dataclass(frozen=True, repr=False)
class KeptBase(TaskBound):
    """The base of a surplus as a lower bound on tasks."""

    surplus: Surplus

    def _box(self, instance: Instance) -> tuple[Float, Float]:
        return self.surplus.tasks(instance), np.full(instance.n_users, np.inf)

    def __repr__(self) -> str:
        return f"the base of {self.surplus!r}"


def kept_bases(objective: Objective) -> tuple[KeptBase, ...]:
    """The bases of an objective's surpluses, as constraints, other than the guarantees."""
    surpluses = [share for share in objective.share_blocks() if isinstance(share, Surplus) and share.base is not None]
    return tuple(KeptBase(Surplus(share.share, share.base)) for share in dict.fromkeys(surpluses))
