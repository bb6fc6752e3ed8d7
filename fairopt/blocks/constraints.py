"""Constraints: named convex conditions on the tasks, in addition to those of the instance."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fairopt.blocks.base import (
    MOST,
    Block,
    PerUser,
    blocks_within,
    brief,
    is_function,
    is_ours,
    parameter,
    per_user_parameter,
    resource_name,
)
from fairopt.blocks.bundle_model import tasks_within
from fairopt.blocks.inline import Inline
from fairopt.blocks.model import Model, Pairs, Point
from fairopt.blocks.rows import LEAST, Rows
from fairopt.blocks.shares import DominantShare, Share, best_server, require_share
from fairopt.errors import Infeasible, InvalidBlock, InvalidInstance, NotConcave, OutOfDomain, nearest
from fairopt.instance import Instance
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import cp, sp

__all__ = [
    "Constraint",
    "EnvyFree",
    "EqualShares",
    "MaxShare",
    "MaxTasks",
    "MinShare",
    "MinTasks",
    "Reserve",
    "SharingIncentive",
]

ExactRow = tuple[Mapping[tuple[int, int], Any], Any, bool]

BLOCK = 131_072  # entries of rows evaluated together: with fewer the steps count, with more the cache
UNNAMED = "condition"  # the name of the only condition of a function that gives none
MANY = 4_000  # users up to which an n x n table is kept in memory
MANY_PAIRS = 160_000  # of users compared in fractions: some seconds


class Constraint(Block):
    """The base class of constraints: subclass as a frozen dataclass and write `constraints`, or `rows` if linear.

    Examples
    --------
    The first user's tasks are at most twice the second's:

    >>> import fairopt as fo
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, repr=False)
    ... class AtMostTwice(fo.Constraint):
    ...     def constraints(self, model):
    ...         return {"at most twice": model.tasks[0] <= 2 * model.tasks[1]}
    >>> fo.Policy(fo.Total(), [AtMostTwice()]).allocate(fo.Instance([[1], [1]], [6])).certificate.ok
    True
    """

    instead: ClassVar[str] = "give constraints in a list: Policy(objective, [MinShare(0.1), MaxTasks(5)])"
    added: ClassVar[bool] = False  # True if methods, not policies, add it: conflicts do not name it
    # A parameter, and 1 if the constraint relaxes as that grows, -1 as it shrinks.
    _relaxed_by: ClassVar[tuple[str, int] | None] = None
    _holds_at_zero: ClassVar[bool] = False  # whether no tasks at all meet it, so that it conflicts with no other such

    def __init_subclass__(cls, **given: Any) -> None:
        """Let rows or constraints defined by a class override what it inherits of the other."""
        super().__init_subclass__(**given)
        if "constraints" in vars(cls):
            if "rows" in vars(cls):
                raise InvalidBlock(f"{cls.__name__} defines both rows and constraints, which might differ; define one")
            cls.rows = Constraint.rows  # type: ignore[method-assign]

    def rows(self, pairs: Pairs) -> dict[str, Rows] | None:
        """The constraints by name as rows, if they are linear: they are then checked and bounded without CVXPY.

        Parameters
        ----------
        pairs : Pairs
            The (user, server) pairs whose tasks are the unknowns. Offers the matrices ``share(block)`` and ``totals``
            of shares and tasks by user, ``of(values)``, which gives values by pair, ``weights`` and ``instance``.

        Returns
        -------
        dict of str to Rows, or None
            None, the default, if the class defines `constraints`.

        Examples
        --------
        >>> import fairopt as fo
        >>> from fairopt.blocks.model import Pairs
        >>> rows = fo.MaxTasks({"user1": 2}).rows(Pairs(fo.Instance([[1], [1]], [6])))
        >>> rows["at most"].load([3, 5]), rows["at most"].right
        (array([3.]), array([2.]))
        """
        return None

    def constraints(self, model: Model) -> dict[str, cp.Constraint]:
        """The constraints by name.

        Parameters
        ----------
        model : Model
            Offers ``share(block)``, ``tasks``, ``bundles``, ``loads``, ``weights`` and ``instance``.

        Returns
        -------
        dict of str to cvxpy.Constraint
        """
        rows = self.rows(model.pairs)
        if rows is None:
            return self._curved(model)
        return {name: some.constraint(model) for name, some in rows.items() if len(some)}

    def _curved(self, model: Model) -> dict[str, cp.Constraint]:
        """The constraints by name of a block without rows."""
        raise InvalidBlock(f"{type(self).__name__} has no constraints(model); write it, or rows(pairs)")

    def _exact_rows(self, cluster: Any) -> Iterable[ExactRow] | None:
        """`rows` without rounding, for exact answers, in the order of the checker's; None, the default, if not stated.

        Used for fairopt's constraints only.

        Parameters
        ----------
        cluster : fairopt.exact.cluster.Cluster
            Offers ``active`` users, their ``open`` servers, ``weights``, ``demands`` by user and server,
            ``number(parameter)``, ``zero``, ``one``, and ``levelled(share)``, what a share compares, all in rationals.

        Returns
        -------
        iterable of tuple, or None
            Coefficients by (user, server), the bound on their sum, and whether the sum is equal to it.
        """
        return None

    def bounds(self, instance: Instance) -> tuple[Float, Float] | None:
        """Lower and upper bounds on tasks, each (n_users,), if they are equivalent to the constraint; else None."""
        return None

    def usable(self, instance: Instance) -> Float | None:
        """The usable fraction of each resource, (n_resources,), if that is equivalent to the constraint; else None."""
        return None

    def check(self, instance: Instance) -> None:
        """Raise if the constraint is not defined for the instance."""


@dataclass(frozen=True, repr=False)
class InlineConstraint(Inline, Constraint):
    """A constraint that is a function of the model; `Policy` and `Policy.with_constraints` make it of a function.

    Parameters
    ----------
    function : callable
        Takes a `Model` and returns a CVXPY constraint, a list of them, or a dict by name. Names are used in messages,
        such as that of `Infeasible`; without them conditions are numbered.

    Examples
    --------
    >>> import fairopt as fo
    >>> most = fo.MostTasks().with_constraints(lambda model: model.tasks[0] >= 2)
    >>> most.constraints
    (InlineConstraint(lambda model: model.tasks[0] >= 2),)
    >>> most.allocate(fo.Instance([[2], [1]], [6])).tasks.round(6)
    array([2., 2.])
    """

    function: Callable[[Model], Any]

    def constraints(self, model: Model) -> dict[str, cp.Constraint]:
        given = self.function(model)
        if isinstance(given, Mapping):
            return dict(given)
        if isinstance(given, cp.Constraint):
            return {UNNAMED: given}
        if isinstance(given, (list, tuple)):
            return {f"{UNNAMED} {k}": condition for k, condition in enumerate(given, start=1)}
        raise InvalidBlock(
            f"{self._called('constraints')} gave {brief(given)}; give a CVXPY constraint, such as model.tasks[0] <= 1, "
            "a list of constraints, or a dict of them by name"
        )


def constraints_of(given: object) -> tuple[Constraint, ...]:
    """Constraints given as one or several blocks or functions; `InvalidBlock` for anything else."""
    made = list[Constraint]()
    for one in given if isinstance(given, Iterable) and not isinstance(given, (str, Mapping)) else (given,):
        if is_function(one):
            one = InlineConstraint(one)
        if not isinstance(one, Constraint):
            raise InvalidBlock(
                f"{brief(one)} among the constraints is not a constraint; give blocks such as MinShare(0.1), or "
                "functions such as `lambda model: model.tasks[0] <= 1`"
            )
        made.append(one)
    return tuple(made)


def conditions_in_words(block: Block, names: Sequence[str], called: str = "") -> str:
    """A block in messages, as it is ``called``, with the names that a user gave to these of its conditions."""
    called = called or f"`{block}`"
    if all(map(is_ours, blocks_within(block))) or [*names] == [UNNAMED]:
        return called
    return f"{' and '.join(map(repr, names))} of {called}"


class TaskBound(Constraint):
    """A constraint that bounds each user's number of tasks."""

    def _box(self, instance: Instance) -> tuple[Float, Float]:
        raise InvalidBlock(f"{type(self).__name__} has no _box(instance)")

    def bounds(self, instance: Instance) -> tuple[Float, Float] | None:
        return self._box(instance)

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        return _between(pairs.totals, *self._box(pairs.instance), pairs.instance.users)

    def check(self, instance: Instance) -> None:
        self._box(instance)


def by_name(given: Any, name: str, labels: Sequence[str], default: float) -> Float:
    """A scalar, an array or a dict by label as an array, one number per label."""
    if isinstance(given, Mapping):
        for label in given:
            if label not in labels:
                raise InvalidInstance(f"{name} names an unknown team {label!r}; {nearest(label, labels)}")
        return np.array([given.get(label, default) for label in labels], dtype=float)
    array = np.asarray(given, dtype=float)
    if array.shape not in ((), (len(labels),)):
        raise InvalidInstance(f"{name} has shape {array.shape}; give a scalar, ({len(labels)},) or a dict by team")
    return np.array(np.broadcast_to(array, (len(labels),)))


def _between(values: sp.csr_array, low: Float, high: Float, labels: Sequence[str]) -> dict[str, Rows]:
    """Bounds of shape (n,) on values by user or team, which have these labels."""
    of = np.array(labels, dtype=object)
    from_below, zero = np.flatnonzero(low >= LEAST), np.flatnonzero(high < LEAST)
    from_above = np.flatnonzero(np.isfinite(high) & (high >= LEAST))
    return {
        "at least": Rows(-values[from_below], -low[from_below], labels=of[from_below]),
        "at most": Rows(values[from_above], high[from_above], labels=of[from_above]),
        "none": Rows(values[zero], labels=of[zero]),
    }


@dataclass(frozen=True, repr=False)
class MinTasks(TaskBound):
    """Require a minimum number of tasks, or that tasks are 0 or at least so many.

    Parameters
    ----------
    tasks : scalar, array-like of shape (n_users,) or dict by user
        Lower bounds; users missing in a dict have none. With ``or_zero`` also of shape (n_users, n_servers): bounds on
        the tasks of each user on each server.
    or_zero : bool, default False
        Whether 0 tasks are allowed too. Such tasks are semi-continuous: what is possible is not convex, so that
        `Policy.allocate` searches by branch and bound, and all else that takes constraints refuses it. The objective
        must be defined where users have 0 tasks: `Leximin`, `MaxMin`, `OrderedWeighted`, `Total`, or a sum of these.

    Notes
    -----
    Of users who are alike those listed first run tasks, and the certificate's note names them. To take turns, change
    the order of users. Levels are shares per weight, so that of users who differ in weight only the largest waits:
    to let a user run, add a plain ``MinTasks``. A gang of n tasks, which starts whole or not at all, is
    ``MinTasks(n, or_zero=True)`` with a task limit of n.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> fo.Policy(fo.Total(fo.Tasks()), [fo.MinTasks({"batch": 2})]).allocate(cluster).tasks.round(6)
    array([ 2., 15.])

    Three cars at a charger of 12 A, each of which takes 0 or at least 6 A:

    >>> charger = fo.Instance([[1], [1], [1]], [12], users=["ann", "bob", "cleo"], resources=["ampere"])
    >>> a = fo.Policy(fo.Leximin(), [fo.MinTasks(6, or_zero=True)]).allocate(charger)
    >>> a.tasks
    array([6., 6., 0.])
    >>> print(a.certificate.note)
    users 'ann', 'bob' and 'cleo' are alike, and 1 has 0 tasks: the last by order; change the order to take turns
    """

    _relaxed_by = "tasks", -1
    tasks: PerUser
    or_zero: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        given: Any = self.tasks
        rows = isinstance(given, (list, tuple, np.ndarray)) and any(np.ndim(row) for row in given)
        if not isinstance(self.or_zero, (bool, np.bool_)):
            raise InvalidBlock(f"or_zero of MinTasks is {brief(self.or_zero)}; give True or False")
        object.__setattr__(self, "or_zero", bool(self.or_zero))
        if self.or_zero and rows:  # by user and server
            try:
                table = np.array(given, dtype=float)
            except (TypeError, ValueError):
                fault = "MinTasks has rows of different lengths, or text; give a number for each server"
                raise InvalidBlock(fault) from None
            for j, s in np.argwhere(~((table >= 0) & (table <= MOST)))[:1].tolist():
                raise InvalidBlock(
                    f"MinTasks holds {table[j, s]} for user number {j + 1} on server number {s + 1}; give numbers from "
                    f"0 to {MOST:g}"
                )
            given = tuple(map(tuple, table.tolist()))
        else:
            given = per_user_parameter(given, "MinTasks")
        object.__setattr__(self, "tasks", given)

    def _box(self, instance: Instance) -> tuple[Float, Float]:
        if self.or_zero:
            raise NotConcave(
                f"{self} is not convex: tasks are 0 or at least so many; only Policy.allocate searches such tasks. "
                "Write MinTasks without or_zero, or leave users out by a task limit of 0"
            )
        low = instance.per_user(self.tasks, "MinTasks", default=0.0)
        return low, np.full(instance.n_users, np.inf)

    def _thresholds(self, instance: Instance) -> Float:
        """With ``or_zero`` the least tasks other than 0: by user (n_users,), or (n_users, n_servers), 0 for none."""
        if not (isinstance(self.tasks, tuple) and isinstance(self.tasks[0], tuple)):
            least = instance.per_user(self.tasks, "MinTasks", default=0.0)
        elif np.shape(self.tasks) == instance.eligible.shape:
            least = np.where(instance.eligible, np.array(self.tasks), 0.0)
        else:
            raise InvalidInstance(
                f"MinTasks has shape {np.shape(self.tasks)}; give a scalar, ({instance.n_users},), "
                f"{instance.eligible.shape} or a dict by user"
            )
        limits = instance.task_limits if least.ndim == 1 else instance.task_limits[:, None]
        above = np.argwhere((least > limits) & (limits > 0))
        if len(above):
            j = int(above[0][0])
            raise InvalidInstance(
                f"MinTasks is {least[tuple(above[0])]:g} for user {instance.users[j]!r}, above its task limit of "
                f"{instance.task_limits[j]:g}, so that it could only run 0; lower MinTasks or raise the limit"
            )
        return least


@dataclass(frozen=True, repr=False)
class FixedOnServers(Constraint):
    """Tasks on single servers that are none, or at least so many, as ``MinTasks(..., or_zero=True)`` is searched.

    ``least`` has the label of a user, the index of a server and the least number, 0 for none.
    """

    added = True
    least: tuple[tuple[str, int, float], ...]

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        position = {user: j for j, user in enumerate(pairs.instance.users)}
        user, server = (np.array([f(one) for one in self.least]) for f in (lambda r: position[r[0]], lambda r: r[1]))
        low = np.array([number for _, _, number in self.least])
        place = pairs.index(user, server)
        some = sp.csr_array((np.ones(len(low)), (np.arange(len(low)), place)), shape=(len(low), len(pairs)))
        labels = [f"{one[0]} on {pairs.instance.servers[one[1]]}" for one in self.least]
        return _between(some, low, np.where(low > 0, np.inf, 0.0), labels)


@dataclass(frozen=True, repr=False)
class MaxTasks(TaskBound):
    """Limit the number of tasks.

    Parameters
    ----------
    tasks : scalar, array-like of shape (n_users,) or dict by user
        Upper bounds; users missing in a dict have none.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> fo.Policy(fo.Leximin(), [fo.MaxTasks({"web": 10})]).allocate(cluster).tasks
    array([ 3., 10.])
    """

    _relaxed_by = "tasks", 1
    _holds_at_zero = True
    tasks: PerUser

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", per_user_parameter(self.tasks, "MaxTasks"))

    def _box(self, instance: Instance) -> tuple[Float, Float]:
        return np.zeros(instance.n_users), instance.per_user(self.tasks, "MaxTasks", default=np.inf)


@dataclass(frozen=True, repr=False)
class _ShareBound(Constraint):
    """Base of `MinShare` and `MaxShare`, which are bounds on tasks unless the share differs by server."""

    _from_above: ClassVar[bool]
    level: PerUser
    share: Share = field(default_factory=DominantShare)

    def __post_init__(self) -> None:
        require_share(self.share, self)
        object.__setattr__(self, "level", per_user_parameter(self.level, type(self).__name__))

    def _levels(self, instance: Instance, default: float) -> Float:
        """The bound of each number: of each user, or of each team of `OfTeam`."""
        given, name = self.level, type(self).__name__
        labels = None if self.share._is_plain else self.share._names(instance)
        if labels is not None and (self.share._counts_teams or len(labels) != instance.n_users):
            return by_name(given, name, labels, default)  # of teams, or of users who have not left a surplus
        return instance.per_user(instance.by_user_or_team(given, name)[0], name, default=default)

    def _of_teams(self, instance: Instance) -> list[tuple[str, Indices, float]]:
        """Bounds on the sum of the shares of a team: its name, its members, and the bound."""
        if self.share._counts_teams:
            return []
        of_teams = instance.by_user_or_team(self.level, type(self).__name__)[1]
        members = instance.teams.names if of_teams else {}
        return [(team, members[team], float(level)) for team, level in of_teams.items() if team in members]

    def _sides(self, bound: Float) -> tuple[Float, Float]:
        """The bound, and none on the other side."""
        return (np.zeros(len(bound)), bound) if self._from_above else (bound, np.full(len(bound), np.inf))

    def _bound(self, instance: Instance) -> Float:
        """The bound on the share of each user, or team."""
        raise InvalidBlock(f"{type(self).__name__} has no _bound(instance)")

    def bounds(self, instance: Instance) -> tuple[Float, Float] | None:
        if not self.share._is_plain or self._of_teams(instance):
            return None
        c, bound = self.share.coefficients(instance), self._bound(instance)
        if c.ndim == 2:
            return None
        return self._sides(np.divide(bound, c, out=np.where(bound > 0, np.inf, 0.0), where=c > 0))

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        numbers, share = self.share._numbers(pairs.instance), pairs.share(self.share)
        bound = self._bound(pairs.instance) if self._from_above else self._levels(pairs.instance, -np.inf)
        base = np.zeros(len(numbers)) if numbers.base is None else numbers.base
        rows = _between(share, *self._sides(bound + base), self.share._names(pairs.instance))
        if teams := self._of_teams(pairs.instance):
            levels = [level + base[members].sum() for _, members, level in teams]
            members = [np.isin(np.arange(pairs.instance.n_users), of) for _, of, _ in teams]
            sign = 1.0 if self._from_above else -1.0
            table, names = sign * (sp.csr_array(members, dtype=float) @ share), [name for name, _, _ in teams]
            rows["of teams"] = Rows(table, sign * np.array(levels), labels=names)
        return rows

    def _always_zero(self, instance: Instance) -> Bool:
        """The users or teams whose share is zero wherever they are eligible."""
        numbers = self.share._numbers(instance)
        return numbers.sums(best_server(numbers.per_task, instance)) <= 0

    def check(self, instance: Instance) -> None:
        self.share._numbers(instance)
        self._levels(instance, 0.0)


@dataclass(frozen=True, repr=False)
class MinShare(_ShareBound):
    """Require a minimum share.

    Parameters
    ----------
    level : scalar, array-like of shape (n_users,) or dict by user or team
        Lower bounds on shares (not per weight); users missing in a dict have none. That of a team is on the sum of its
        members' shares. Of `OfTeam` there is one number per team. A positive bound is `Infeasible` for a user whose
        share is always zero.
    share : Share, default DominantShare()
        The share that is bounded.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    >>> fo.Policy(fo.Total(fo.Tasks()), [fo.MinShare(0.2)]).allocate(cluster).shares.round(6)
    array([ 1., 20.])
    """

    _relaxed_by = "level", -1
    _from_above = False

    def least(self, instance: Instance) -> Float:
        """The lower bound on the share of each user, shape (n_users,), or of each team."""
        return self._levels(instance, 0.0)

    _bound = least

    def check(self, instance: Instance) -> None:
        super().check(instance)
        least = self.least(instance)
        never = np.flatnonzero((least > 0) & self._always_zero(instance))
        if len(never):
            j = int(never[0])
            kind = "team" if self.share._counts_teams else "user"
            raise Infeasible(
                f"`{self}` requires {least[j]:.4g} for {kind} {self.share._names(instance)[j]!r}, whose {self.share} "
                f"is always zero: {self.share.why_zero(instance, j)}",
                (f"`{self}`",),
            )


@dataclass(frozen=True, repr=False)
class MaxShare(_ShareBound):
    """Limit a share.

    Parameters
    ----------
    level : scalar, array-like of shape (n_users,) or dict by user or team
        Upper bounds on shares (not per weight); users missing in a dict, and those whose share is always zero, have
        none. That of a team is on the sum of its members' shares. Of `OfTeam` there is one number per team.
    share : Share, default DominantShare()
        The share that is bounded.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    >>> fo.Policy(fo.Total(fo.Tasks()), [fo.MaxShare(0.6)]).allocate(cluster).tasks.round(6)
    array([ 2., 15.])
    """

    _relaxed_by = "level", 1
    _holds_at_zero = True
    _from_above = True

    def most(self, instance: Instance) -> Float:
        """The upper bound on the share of each user, shape (n_users,), or team; infinite if it is always zero."""
        return np.where(self._always_zero(instance), np.inf, self._levels(instance, np.inf))

    _bound = most


@dataclass(frozen=True, repr=False)
class SharingIncentive(TaskBound):
    """Require that every user runs at least the tasks of its own slice, ``w_j / sum w`` of every server.

    These are ``sum_s min_i (w_j / sum w) C_si / d_jsi`` over eligible servers, at most the task limit. Feasible without
    other constraints. The property is due to Ghodsi et al. (2011).

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    >>> fo.Policy(fo.Total(fo.Tasks()), [fo.SharingIncentive()]).allocate(cluster).tasks.round(6)
    array([ 2.5, 12.5])
    """

    def _box(self, instance: Instance) -> tuple[Float, Float]:
        return instance.own_slices, np.full(instance.n_users, np.inf)


class ManyRows(Constraint):
    """A constraint with so many linear rows that violated rows are added lazily, by index."""

    def rows(self, pairs: Pairs, chosen: Indices | None = None) -> dict[str, Rows]:
        """The constraints of chosen rows, or of all."""
        raise InvalidBlock(f"{type(self).__name__} has no rows(pairs, chosen)")

    def broken(self, point: Point, least: Float, each: int = 1) -> tuple[Indices, Float]:
        """The ``each`` most violated rows of every user, and their violation relative to what they compare.

        It is at most 0 for rows that hold. Numbers of tasks compared count as at least ``least`` (n_users,).
        """
        raise InvalidBlock(f"{type(self).__name__} has no broken(point, least)")

    def implying(self, instance: Instance, most: int) -> Indices | None:
        """Rows that imply all others; None if unknown, or more than ``most``."""
        return None


@dataclass(frozen=True, repr=False)
class MadeRows(Constraint):
    """Some rows of a constraint, by index."""

    block: ManyRows
    made: tuple[int, ...]

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        return self.block.rows(pairs, np.array(self.made, dtype=np.intp))

    def __repr__(self) -> str:
        return repr(self.block)


@dataclass(frozen=True, repr=False)
class EnvyFree(ManyRows):
    """Require that no user could run more tasks on the bundle of another, relative to weights.

    ``x_j >= (w_j / w_k) sum_s E_js x_ks min_i {d_ksi / d_jsi}`` for all users j and k, where ``E_js`` is 1 if j is
    eligible on server s and else 0. It also holds for users at their task limit; otherwise it would not be convex. The
    property is due to Ghodsi et al. (2011). Of the n(n-1) rows violated ones are added lazily, and all are checked at
    the answer.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[2, 3], [2, 1]], [6, 4])
    >>> fo.Policy(fo.Total(fo.Tasks()), [fo.EnvyFree()]).allocate(cluster).tasks.round(6)
    array([0.666667, 2.      ])
    """

    _holds_at_zero = True

    def rows(self, pairs: Pairs, chosen: Indices | None = None) -> dict[str, Rows]:
        """Row ``j n + k`` states that user j does not envy user k; rows that always hold are left out."""
        instance = pairs.instance
        n = instance.n_users
        chosen = np.flatnonzero(~np.eye(n, dtype=bool)) if chosen is None else chosen
        of = np.diff(pairs.first, append=len(pairs))[chosen % n]  # number of pairs of user k
        row = np.repeat(np.arange(len(chosen)), of)
        column = pairs.first[chosen % n][row] + np.arange(len(row)) - np.repeat(np.cumsum(of) - of, of)
        values = np.zeros(len(row))
        for first in range(0, len(row), BLOCK):
            part = slice(first, first + BLOCK)
            j, k, s = chosen[row[part]] // n, pairs.user[column[part]], pairs.server[column[part]]
            runs = tasks_within(instance.per_server_demands[k, s], instance.per_server_demands[j, s])
            values[part] = np.where(instance.eligible[j, s], runs, 0.0) * (instance.weights[j] / instance.weights[k])
        some = values > 0
        kept, row = np.unique(row[some], return_inverse=True)
        used, column, values = chosen[kept], column[some], values[some]
        theirs = sp.csr_array((values, (row, column)), shape=(len(used), len(pairs)))
        labels = np.array(instance.users, dtype=object)[np.stack([used // n, used % n], axis=1)]
        return {"no envy": Rows(theirs - pairs.totals[used // n], labels=labels)}

    def _exact_rows(self, cluster: Any) -> Iterator[ExactRow]:
        if len(cluster.active) ** 2 > MANY_PAIRS:
            raise OutOfDomain(f"comparing {len(cluster.active):,} users for envy takes too long in fractions")
        for j, k in itertools.permutations(cluster.active, 2):
            theirs = {}
            for s in {*cluster.open[k]} & {*cluster.open[j]}:
                pairs = zip(cluster.demands[j][s], cluster.demands[k][s], strict=True)
                runs = min((b / a for a, b in pairs if a), default=cluster.zero)
                if runs > 0:
                    theirs[k, s] = runs * cluster.weights[j] / cluster.weights[k]
            if theirs:
                yield theirs | {(j, s): -cluster.one for s in cluster.open[j]}, cluster.zero, False

    def broken(self, point: Point, least: Float, each: int = 1) -> tuple[Indices, Float]:
        instance, n = point.instance, point.instance.n_users
        each = min(each, n)
        envied, violation = np.zeros((n, each), dtype=np.intp), np.zeros((n, each))
        step = max(1, BLOCK // max(n, 1))
        envy = EnvyOfUsers(instance, point.tasks_by_server, step)
        for first in range(0, n if n > 1 else 0, step):
            users = np.arange(first, min(first + step, n))
            runs = envy.of(users)
            runs[users - first, users] = 0.0
            if each == 1:
                envied[users, 0] = runs.argmax(axis=1)
            else:
                envied[users] = np.argpartition(runs, n - each, axis=1)[:, n - each :]
            most = np.take_along_axis(runs, envied[users], axis=1)
            more, size = most - point.tasks[users, None], np.maximum(most, least[users, None])
            violation[users] = np.divide(more, size, out=np.zeros(more.shape), where=size > 0)
        return (np.arange(n)[:, None] * n + envied).ravel(), violation.ravel()

    def implying(self, instance: Instance, most: int) -> Indices | None:
        """Proposition 7.13: where all users are eligible everywhere with the same demands, the row of j and k is
        ``x_j >= v_jk x_k`` in total tasks, and for each resource i that binds in it only neighbours in an order
        remain, in which l is above j if ``d_li' / d_li >= d_ji' / d_ji`` for all resources i'.
        """
        n, found, total = instance.n_users, [np.zeros(0, dtype=np.intp)], 0
        same = instance.n_servers == 1 or (instance.demands.ndim == 2 and instance.derived.everywhere)
        if not same or n > MANY:
            return None
        demands = instance.per_server_demands[:, 0]
        for i in range(instance.n_resources):
            users = np.flatnonzero(demands[:, i] > 0)
            if not len(users):
                continue
            with np.errstate(divide="ignore"):  # rounded, so that proportional demands are equal
                per_scarce = np.log(demands[users] / demands[users, i, None]).round(12)
            kinds, first, kind = np.unique(per_scarce, axis=0, return_index=True, return_inverse=True)
            order = np.argsort(kind.ravel(), kind="stable")  # users of one kind form a cycle
            start = np.flatnonzero(np.diff(kind.ravel()[order], prepend=-1))
            after = np.roll(order, -1)
            after[np.append(start[1:], len(order)) - 1] = order[start]
            found.append((users[order] * n + users[after])[order != after])
            above = np.ones((len(kinds), len(kinds)), dtype=bool)
            for ratio in kinds.T:
                above &= ratio >= ratio[:, None]
            np.fill_diagonal(above, False)
            # as integers of bits; rows of `unique` are sorted, so that the first above j, and not above others, is next
            bits = [int.from_bytes(row, "little") for row in np.packbits(above, axis=1, bitorder="little")]
            lower, upper = list[int](), list[int]()
            for j, ups in enumerate(bits):
                while ups:
                    upper.append(k := (ups & -ups).bit_length() - 1)
                    lower.append(j)
                    ups &= ~(bits[k] | 1 << k)
            found.append(users[first[lower]] * n + users[first[upper]])
            total += len(lower)
            if total > most:
                return None
        return np.unique(np.concatenate(found))


class RunsOnBundles:
    """Tasks of demand vectors on given bundles ``(n, m)``, at most ``most`` vectors at once.

    Arrays are used again: with new ones of half a megabyte, 1e8 pairs took 3 s for 0.4 s, in pages of the system.
    """

    def __init__(self, bundles: Float, most: int) -> None:
        self.bundles = np.ascontiguousarray(bundles.T)
        self.largest = float(bundles.max(initial=0.0))
        self.room = np.empty((2, most, len(bundles)))

    def of(self, demands: Float) -> Float:
        """Tasks ``(k, n)``, until it is called again; 0 if a user needs nothing there (it is then not eligible)."""
        runs, other = self.room[:, : len(demands)]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            np.divide(self.bundles[0], demands[:, :1], out=runs)  # infinite, or 0 / 0, where a task needs nothing
            for i in range(1, len(self.bundles)):
                np.fmin(runs, np.divide(self.bundles[i], demands[:, i : i + 1], out=other), out=runs)
            finite = np.isfinite(self.largest / demands.min(initial=np.inf))
        if not finite:
            runs[~np.isfinite(runs)] = 0.0
        return runs


class EnvyOfUsers:
    """Tasks of given users on the bundle of each user, per weight and ignoring limits, at most ``most`` at once.

    ``(w_j / w_k) sum_s E_js x_ks min_i {d_ksi / d_jsi}``, where ``held`` (n_users, n_servers) are tasks.
    """

    def __init__(self, instance: Instance, held: Float, most: int) -> None:
        self.instance, self.held, demands = instance, held, instance.demands
        by_server = [demands] if demands.ndim == 2 else [demands[:, s] for s in range(instance.n_servers)]
        self.on = [RunsOnBundles(bundles, most) for bundles in by_server]

    def of(self, users: Indices) -> Float:
        """Of some users, shape (k, n_users), until it is called again."""
        instance, held = self.instance, self.held
        demands, eligible = instance.demands[users], instance.eligible[users].astype(float)
        if demands.ndim == 2:  # the same ratios on all servers
            runs = self.on[0].of(demands)
            # users are many: on one pool without a table of the same numbers in each row
            runs *= held[:, 0] if instance.n_servers == 1 and eligible.all() else eligible @ held.T
        else:
            runs = np.zeros((len(users), instance.n_users))
            for s, on in enumerate(self.on):
                runs += eligible[:, s, None] * on.of(demands[:, s]) * held[:, s]
        if (instance.weights != instance.weights[0]).any():
            runs *= instance.weights[users, None] / instance.weights
        return runs


@dataclass(frozen=True, repr=False)
class EqualShares(Constraint):
    """Require the same share per weight of all users.

    Parameters
    ----------
    share : Share, default DominantShare()
        The share to equalise.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 4], [3, 1]], [9, 18])
    >>> fo.Policy(fo.Total(fo.Tasks()), [fo.EqualShares(fo.Tasks())]).allocate(cluster).tasks.round(6)
    array([2.25, 2.25])
    """

    share: Share = field(default_factory=DominantShare)

    def __post_init__(self) -> None:
        require_share(self.share, self)

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        z = pairs.relative_share(self.share)
        numbers = self.share._numbers(pairs.instance)
        right = 0.0 if numbers.base is None else np.diff(numbers.base / numbers.weights)
        names, unit = self.share._names(pairs.instance), pairs.level(self.share)
        return {"equal": Rows(z[1:] - z[:-1], right, equal=True, unit=unit, labels=names[1:])}

    def _exact_rows(self, cluster: Any) -> Iterator[ExactRow]:
        for a, b in itertools.pairwise(cluster.levelled(self.share)):
            yield b.row | {pair: -v for pair, v in a.row.items()}, b.base - a.base, True

    def check(self, instance: Instance) -> None:
        self.share._numbers(instance, levelled=True)


@dataclass(frozen=True, repr=False)
class Reserve(Constraint):
    """Leave a fraction of one resource free on every server.

    Parameters
    ----------
    resource : str or int
        Label or index.
    fraction : float
        The fraction of the capacity, from 0 to 1.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 1]], [8, 4], resources=["cpu", "memory"])
    >>> fo.Policy(fo.Leximin(), [fo.Reserve("memory", 0.25)]).allocate(cluster).tasks
    array([3.])
    """

    _relaxed_by = "fraction", -1
    _holds_at_zero = True
    resource: str | int
    fraction: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "resource", resource_name(self.resource))
        object.__setattr__(self, "fraction", parameter(self.fraction, "the fraction of Reserve", low=0.0, high=1.0))

    def usable(self, instance: Instance) -> Float:
        out = np.ones(instance.n_resources)
        out[instance.resource_index(self.resource)] = 1.0 - self.fraction
        return out

    def constraints(self, model: Model) -> dict[str, cp.Constraint]:
        i = model.instance.resource_index(self.resource)
        rows = np.arange(model.instance.n_servers) * model.instance.n_resources + i
        return {"left free": model.loads[rows] <= 1.0 - self.fraction}

    def check(self, instance: Instance) -> None:
        instance.resource_index(self.resource)
