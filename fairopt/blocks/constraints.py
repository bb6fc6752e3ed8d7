"""Constraints: named convex conditions on the tasks, beside those of the instance, which always hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.base import Block, PerUser, as_given, parameter, per_user_parameter, resource_name
from fairopt.blocks.bundle_model import tasks_within
from fairopt.blocks.model import Model, Pairs, Point
from fairopt.blocks.rows import LEAST, Rows
from fairopt.blocks.shares import DominantShare, Share, best_server, require_share
from fairopt.errors import Infeasible, InvalidBlock
from fairopt.instance import Instance
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

Float = NDArray[np.float64]
Indices = NDArray[np.intp]

BLOCK = 262_144  # entries of rows made or looked at together
MANY = 4_000  # users of whom a table of pairs is held in memory


class Constraint(Block):
    """Base of all constraints: subclass as a frozen dataclass and write `constraints`, or `rows` of a linear one.

    Examples
    --------
    A constraint of your own, the first user's tasks at most twice the second's:

    >>> import fairopt as fo
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, repr=False)
    ... class AtMostTwice(fo.Constraint):
    ...     def constraints(self, model):
    ...         return {"at most twice": model.tasks[0] <= 2 * model.tasks[1]}
    >>> fo.Policy(fo.Total(), [AtMostTwice()]).allocate(fo.Instance([[1], [1]], [6])).certificate.ok
    True
    """

    instead: ClassVar[str] = "constraints are given in a list, as Policy(objective, [MinShare(0.1), MaxTasks(5)])"
    added: ClassVar[bool] = False  # True where a method adds it to those of a policy: never named in a conflict

    def __init_subclass__(cls, **given: Any) -> None:
        """Let what a class writes itself, rows or constraints, stand for what it inherits."""
        super().__init_subclass__(**given)
        if "constraints" in vars(cls):
            if "rows" in vars(cls):
                raise InvalidBlock(f"{cls.__name__} writes both rows and constraints, which might differ; write one")
            cls.rows = Constraint.rows  # type: ignore[method-assign]

    def rows(self, pairs: Pairs) -> dict[str, Rows] | None:
        """The conditions by name as data, if they are linear: then they are measured and charged without CVXPY.

        Parameters
        ----------
        pairs : Pairs
            The pairs of a user and a server it may run on, whose tasks are the unknowns. Offers ``share(block)`` and
            ``totals``, matrices that give shares and tasks by user, ``of(values)``, values by pair, ``weights`` and
            ``instance``.

        Returns
        -------
        dict of str to Rows, or None
            None, the default, if only `constraints` are written.

        Examples
        --------
        The first user's tasks at most twice the second's:

        >>> import fairopt as fo
        >>> from dataclasses import dataclass
        >>> from fairopt.blocks.rows import Rows
        >>> @dataclass(frozen=True, repr=False)
        ... class AtMostTwice(fo.Constraint):
        ...     def rows(self, pairs):
        ...         tasks = pairs.totals
        ...         return {"at most twice": Rows(tasks[[0]] - 2 * tasks[[1]])}
        >>> fo.Policy(fo.Total(), [AtMostTwice()]).allocate(fo.Instance([[1], [1]], [6])).certificate.ok
        True
        """
        return None

    def constraints(self, model: Model) -> dict[str, cp.Constraint]:
        """The conditions by name.

        Parameters
        ----------
        model : Model
            Offers ``share(block)``, ``tasks``, ``bundles``, ``loads``, ``weights`` and ``instance``.

        Returns
        -------
        dict of str to cvxpy.Constraint
        """
        rows = self.rows(model.pairs)
        return (
            self._curved(model) if rows is None else {k: some.condition(model) for k, some in rows.items() if len(some)}
        )

    def _curved(self, model: Model) -> dict[str, cp.Constraint]:
        """The conditions of a constraint without rows."""
        raise InvalidBlock(f"{type(self).__name__} has no constraints(model); write it, or rows(pairs)")

    def bounds(self, instance: Instance) -> tuple[Float, Float] | None:
        """Least and most tasks of each user, each of shape (n_users,), if the constraint is only that; else None."""
        return None

    def usable(self, instance: Instance) -> Float | None:
        """The usable fraction of each resource, shape (n_resources,), if the constraint is only that; else None."""
        return None

    def check(self, instance: Instance) -> None:
        """Raise where the constraint is not defined for the instance."""


class _Bound(Constraint):
    """A constraint that is a box on each user's number of tasks."""

    def _box(self, instance: Instance) -> tuple[Float, Float]:
        raise InvalidBlock(f"{type(self).__name__} has no _box(instance)")

    def bounds(self, instance: Instance) -> tuple[Float, Float] | None:
        return self._box(instance)

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        return _between(pairs.totals, *self._box(pairs.instance), counted=pairs.totals)

    def check(self, instance: Instance) -> None:
        self._box(instance)


def _between(values: sp.csr_array, low: Float, high: Float, counted: sp.csr_array) -> dict[str, Rows]:
    """Bounds of shape (n_users,) on values by user, which are 0 where there are none of the tasks ``counted``."""
    from_below, zero = np.flatnonzero(low >= LEAST), np.flatnonzero(high < LEAST)
    from_above = np.flatnonzero(np.isfinite(high) & (high >= LEAST))
    return {
        "at least": Rows(-values[from_below], -low[from_below]),
        "at most": Rows(values[from_above], high[from_above]),
        "none": Rows(counted[zero]),
    }


@dataclass(frozen=True, repr=False)
class MinTasks(_Bound):
    """Require a minimum number of tasks.

    Parameters
    ----------
    tasks : scalar, array-like of shape (n_users,) or dict by user
        Least tasks; users that a dict leaves out are not bounded.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> fo.Policy(fo.Total(fo.Tasks()), [fo.MinTasks({"batch": 2})]).allocate(cluster).tasks.round(6)
    array([ 2., 15.])
    """

    tasks: PerUser

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", per_user_parameter(self.tasks, "MinTasks"))

    def _box(self, instance: Instance) -> tuple[Float, Float]:
        low = instance.per_user(as_given(self.tasks), "MinTasks", default=0.0)
        return low, np.full(instance.n_users, np.inf)


@dataclass(frozen=True, repr=False)
class MaxTasks(_Bound):
    """Limit the number of tasks.

    Parameters
    ----------
    tasks : scalar, array-like of shape (n_users,) or dict by user
        Most tasks; users that a dict leaves out are not bounded.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
    >>> fo.Policy(fo.Leximin(), [fo.MaxTasks({"web": 10})]).allocate(cluster).tasks
    array([ 3., 10.])
    """

    tasks: PerUser

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", per_user_parameter(self.tasks, "MaxTasks"))

    def _box(self, instance: Instance) -> tuple[Float, Float]:
        return np.zeros(instance.n_users), instance.per_user(as_given(self.tasks), "MaxTasks", default=np.inf)


@dataclass(frozen=True, repr=False)
class _ShareBound(Constraint):
    """Common to `MinShare` and `MaxShare`: a box on tasks unless the share differs by server."""

    level: PerUser
    share: Share = field(default_factory=DominantShare)

    def __post_init__(self) -> None:
        require_share(self.share, self)
        object.__setattr__(self, "level", per_user_parameter(self.level, type(self).__name__))

    def _levels(self, instance: Instance, default: float) -> Float:
        return instance.per_user(as_given(self.level), type(self).__name__, default=default)

    def _always_zero(self, instance: Instance) -> NDArray[np.bool_]:
        """The users whose share is zero wherever they run, shape (n_users,)."""
        return best_server(self.share.coefficients(instance), instance) <= 0

    def check(self, instance: Instance) -> None:
        self.share.coefficients(instance)
        self._levels(instance, 0.0)


@dataclass(frozen=True, repr=False)
class MinShare(_ShareBound):
    """Require a minimum share.

    Parameters
    ----------
    level : scalar, array-like of shape (n_users,) or dict by user
        Least share (not divided by the weight); users that a dict leaves out are not bounded. More than 0 is
        `Infeasible` for a user whose share is always zero.
    share : Share, default DominantShare()
        The share that is bounded.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    >>> fo.Policy(fo.Total(fo.Tasks()), [fo.MinShare(0.2)]).allocate(cluster).shares.round(6)
    array([ 1., 20.])
    """

    def bounds(self, instance: Instance) -> tuple[Float, Float] | None:
        c, least = self.share.coefficients(instance), self.least(instance)
        if c.ndim == 2:
            return None
        out = np.divide(least, c, out=np.where(least > 0, np.inf, 0.0), where=c > 0)
        return out, np.full(instance.n_users, np.inf)

    def least(self, instance: Instance) -> Float:
        """The least share of each user, shape (n_users,)."""
        return self._levels(instance, 0.0)

    def check(self, instance: Instance) -> None:
        super().check(instance)
        least = self.least(instance)
        never = np.flatnonzero((least > 0) & self._always_zero(instance))
        if len(never):
            j = int(never[0])
            raise Infeasible(
                f"`{self}` asks for {least[j]:.4g} of user {instance.users[j]!r}, whose {self.share} is always "
                f"zero: {self.share.why_zero(instance, j)}",
                (f"`{self}`",),
            )

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        level = self.least(pairs.instance)
        return _between(pairs.share(self.share), level, np.full(len(level), np.inf), pairs.totals)


@dataclass(frozen=True, repr=False)
class MaxShare(_ShareBound):
    """Limit a share.

    Parameters
    ----------
    level : scalar, array-like of shape (n_users,) or dict by user
        Largest share (not divided by the weight); users that a dict leaves out are not bounded, nor are those whose
        share is always zero.
    share : Share, default DominantShare()
        The share that is bounded.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    >>> fo.Policy(fo.Total(fo.Tasks()), [fo.MaxShare(0.6)]).allocate(cluster).tasks.round(6)
    array([ 2., 15.])
    """

    def bounds(self, instance: Instance) -> tuple[Float, Float] | None:
        c, most = self.share.coefficients(instance), self.most(instance)
        if c.ndim == 2:
            return None
        return np.zeros(instance.n_users), np.divide(most, c, out=np.full(len(c), np.inf), where=c > 0)

    def most(self, instance: Instance) -> Float:
        """The largest share of each user, shape (n_users,); infinity for a user whose share is always zero."""
        return np.where(self._always_zero(instance), np.inf, self._levels(instance, np.inf))

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        most, values = self.most(pairs.instance), pairs.share(self.share)
        return _between(values, np.zeros(len(most)), most, values.sign())


@dataclass(frozen=True, repr=False)
class SharingIncentive(_Bound):
    """Require that every user runs at least the tasks of its own slice, ``w_j / sum w`` of every server.

    These are ``sum_s min_i (w_j / sum w) C_si / d_jsi`` over eligible servers, at most the task limit. Feasible where
    there are no other constraints. The property is of Ghodsi et al. (2011).

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
    """A constraint with so many linear rows that a program gets only those that some answer breaks, by their number."""

    def rows(self, pairs: Pairs, chosen: Indices | None = None) -> dict[str, Rows]:
        """The conditions of chosen rows, or of all."""
        raise InvalidBlock(f"{type(self).__name__} has no rows(pairs, chosen)")

    def broken(self, point: Point, least: Float, each: int = 1) -> tuple[Indices, Float]:
        """The most broken rows, ``each`` of every user, and by how much, relative to what they compare.

        At most 0 by a row that holds. ``least`` (n_users,) are numbers of tasks that count as the least compared.
        """
        raise InvalidBlock(f"{type(self).__name__} has no broken(point, least)")

    def implying(self, instance: Instance, most: int) -> Indices | None:
        """Rows that imply all others; None where these are not known, or are more than ``most``."""
        return None


@dataclass(frozen=True, repr=False)
class MadeRows(Constraint):
    """Some rows of a constraint, by number."""

    block: ManyRows
    made: tuple[int, ...]

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        return self.block.rows(pairs, np.array(self.made, dtype=np.intp))

    def __repr__(self) -> str:
        return repr(self.block)


@dataclass(frozen=True, repr=False)
class EnvyFree(ManyRows):
    """Require that no user could run more tasks on the bundle of another, relative to weights.

    ``x_j >= (w_j / w_k) sum_s E_js x_ks min_i {d_ksi / d_jsi}`` for all users j and k, where ``E_js`` is 1 if j may run
    on server s and else 0. A user at its task limit must not envy either: without that the constraint is not convex.
    The property is of Ghodsi et al. (2011). Of the n(n-1) rows those are solved with that answers break, and all are
    checked.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[2, 3], [2, 1]], [6, 4])
    >>> fo.Policy(fo.Total(fo.Tasks()), [fo.EnvyFree()]).allocate(cluster).tasks.round(6)
    array([0.666667, 2.      ])
    """

    def rows(self, pairs: Pairs, chosen: Indices | None = None) -> dict[str, Rows]:
        """Row ``j n + k`` says that user j does not envy user k; without those of pairs who never can."""
        instance, n = pairs.instance, pairs.instance.n_users
        chosen = np.flatnonzero(~np.eye(n, dtype=bool)) if chosen is None else chosen
        of = np.diff(pairs.first, append=len(pairs))[chosen % n]  # pairs of the user envied
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
        return {"no envy": Rows(theirs - pairs.totals[used // n])}

    def broken(self, point: Point, least: Float, each: int = 1) -> tuple[Indices, Float]:
        instance, n = point.instance, point.instance.n_users
        each = min(each, n)
        whom, by = np.zeros((n, each), dtype=np.intp), np.zeros((n, each))
        step = max(1, BLOCK // max(n, 1))
        for first in range(0, n if n > 1 else 0, step):
            users = np.arange(first, min(first + step, n))
            runs = tasks_on_bundles(instance, users, point.tasks_by_server)
            runs[users - first, users] = 0.0
            if each == 1:
                whom[users, 0] = runs.argmax(axis=1)
            else:
                whom[users] = np.argpartition(runs, n - each, axis=1)[:, n - each :]
            most = np.take_along_axis(runs, whom[users], axis=1)
            more, size = most - point.tasks[users, None], np.maximum(most, least[users, None])
            by[users] = np.divide(more, size, out=np.zeros(more.shape), where=size > 0)
        return (np.arange(n)[:, None] * n + whom).ravel(), by.ravel()

    def implying(self, instance: Instance, most: int) -> Indices | None:
        """If all may run everywhere, with the same demands, the row of users j and k is ``x_j >= v_jk x_k`` for total
        tasks. It follows from those of j and l and of l and k where one resource i is scarce in both:
        ``v_jl v_lk = d_li / d_ji d_ki / d_li = v_jk``. So those of the pairs are left where i is scarce and no user
        lies between them, in the order in which l is above j if ``d_li' / d_li >= d_ji' / d_ji`` for all resources i'.
        """
        n, found, total = instance.n_users, [np.zeros(0, dtype=np.intp)], 0
        alike = instance.n_servers == 1 or (instance.demands.ndim == 2 and instance._everywhere)
        if not alike or n > MANY:
            return None
        demands = instance.per_server_demands[:, 0]
        for i in range(instance.n_resources):
            users = np.flatnonzero(demands[:, i] > 0)
            if not len(users):
                continue
            with np.errstate(divide="ignore"):  # rounded, so that proportional demands are alike
                per_scarce = np.log(demands[users] / demands[users, i, None]).round(12)
            kinds, first, kind = np.unique(per_scarce, axis=0, return_index=True, return_inverse=True)
            order = np.argsort(kind.ravel(), kind="stable")  # users of one kind follow each other in a circle
            start = np.flatnonzero(np.diff(kind.ravel()[order], prepend=-1))
            after = np.roll(order, -1)
            after[np.append(start[1:], len(order)) - 1] = order[start]
            found.append((users[order] * n + users[after])[order != after])
            above = np.ones((len(kinds), len(kinds)), dtype=bool)
            for ratio in kinds.T:
                above &= ratio >= ratio[:, None]
            np.fill_diagonal(above, False)
            bits = np.packbits(above, axis=1)
            for j, ups in enumerate(map(np.flatnonzero, above)):
                if len(ups):
                    next_to_j = bits[j] & ~np.bitwise_or.reduce(bits[ups], axis=0)
                    found.append(users[first[j]] * n + users[first[np.flatnonzero(np.unpackbits(next_to_j))]])
                    total += len(found[-1])
            if total > most:
                return None
        return np.unique(np.concatenate(found))


def tasks_on_bundles(instance: Instance, users: Indices, held: Float) -> Float:
    """Tasks that some users would run on what each user holds, per weight, not cut at limits: (k, n_users).

    ``(w_j / w_k) sum_s E_js x_ks min_i {d_ksi / d_jsi}``, where ``held`` (n_users, n_servers) are tasks.
    """
    demands, eligible = instance.demands, instance.eligible[users].astype(float)
    if demands.ndim == 2:  # what a task of k is worth to j is the same everywhere
        runs = tasks_of_each(demands[users], demands) * (eligible @ held.T)
    else:
        runs = np.zeros((len(users), instance.n_users))
        for s in range(instance.n_servers):
            runs += eligible[:, s, None] * tasks_of_each(demands[users, s], demands[:, s]) * held[:, s]
    runs *= instance.weights[users, None] / instance.weights
    return runs


def tasks_of_each(demands: Float, bundles: Float) -> Float:
    """Tasks of each demand vector on each bundle; 0 for a user who needs nothing there (it is not eligible there)."""
    runs = tasks_within(bundles, demands[:, None])
    return np.where(np.isfinite(runs), runs, 0.0)


@dataclass(frozen=True, repr=False)
class EqualShares(Constraint):
    """Require the same share per weight of all users.

    Parameters
    ----------
    share : Share, default DominantShare()
        The share that is equal.

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
        return {"equal": Rows(z[1:] - z[:-1], equal=True, unit=pairs.level(self.share))}

    def check(self, instance: Instance) -> None:
        self.share.coefficients(instance, levelled=True)


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
