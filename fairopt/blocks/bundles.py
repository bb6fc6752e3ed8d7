"""Bundles as the decision: what each user holds of each resource on each server (MLF-DRS, H-FFMRA).

A bundle need not be a multiple of the demand vector, so what a user runs is the least that its bundle has room for.
The blocks here see one server: a row of q identical servers is q times one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.base import Block
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Model, Point
from fairopt.blocks.objectives import Objective
from fairopt.dominance import Dominance, sums_by_group
from fairopt.errors import InvalidBlock, OutOfDomain
from fairopt.instance import Instance

__all__ = ["AtMostRequested", "BundleBase", "FairShareBase", "GlobalAggregateResource", "Parts", "WeightedLog"]

Float = NDArray[np.floating[Any]]


class BundleBase(Block):
    """Base of all bases: subclass as a frozen dataclass and write `weights`.

    Examples
    --------
    A base that nobody has named yet, equal for whoever needs the resource at all:

    >>> import fairopt as fo
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, repr=False)
    ... class Alike(fo.BundleBase):
    ...     def weights(self, instance):
    ...         return (instance.per_server_demands > 0) * 1.0
    >>> fo.Policy(fo.WeightedLog(Alike())).allocate(fo.Instance([[1, 4], [3, 1]], [9, 18])).bundles[:, 0]
    array([[4.5, 9. ],
           [4.5, 9. ]])
    """

    @property
    def by_server(self) -> bool:
        """Whether the weights on a server depend on that server and the users alone.

        Then servers can be looked at in parts. A base of your own may say so (``by_server = True``) if that is true.
        """
        return False

    def weights(self, instance: Instance) -> Float:
        """How much each user counts for each resource on one server of each row.

        Parameters
        ----------
        instance : Instance
            Users who take part, and servers.

        Returns
        -------
        ndarray of shape (n_users, n_servers, n_resources)
            At least 0; zero where the user holds nothing. Values where a user is not eligible do not count.
        """
        raise InvalidBlock(f"{type(self).__name__} has no weights(instance); write it")


@dataclass(frozen=True, repr=False)
class FairShareBase(BundleBase):
    """The bases of MLF-DRS: at least the fair share of the dominant resource, at most it of the others.

    Algorithm 1 of Hamzeh et al. (2019). The fair share of a resource is the server's capacity over the number of users
    eligible there. A user's base is the larger of fair share and demand for its dominant resource on that server, and
    the smaller one for the others.

    Parameters
    ----------
    growth : {"proportional", "equal"}, default "proportional"
        How what the bases leave over is handed out: in proportion to the bases, or to the dominant and to the others in
        proportion to their bases together and equally inside each (as printed for RAM). Where bases exceed
        the capacity, in proportion either way.

    Examples
    --------
    Table I of Hamzeh et al. (2019): CPU and RAM of four users.

    >>> import fairopt as fo
    >>> table = fo.Instance([[3, 1], [5, 3], [1, 5], [2, 7]], [18, 36])
    >>> fo.FairShareBase().weights(table)[:, 0]
    array([[4.5, 1. ],
           [5. , 3. ],
           [1. , 9. ],
           [2. , 9. ]])
    """

    by_server = True
    growth: str = "proportional"

    def __post_init__(self) -> None:
        if self.growth not in ("proportional", "equal"):
            raise InvalidBlock(f"growth is {self.growth!r}; give 'proportional' or 'equal'")

    def weights(self, instance: Instance) -> Float:
        """The bases, with equal growth added where asked for.

        Raises
        ------
        OutOfDomain
            If entitlements differ: neither paper says what they mean.
        """
        refuse_unequal_weights(instance, self)
        eligible, groups = instance.eligible, instance.dominance
        everybody = np.full(instance.n_servers, instance.n_users)
        there = (everybody if instance.everywhere else eligible.sum(axis=0))[:, None]
        fair = np.divide(instance.capacities, there, out=np.zeros(instance.capacities.shape), where=there > 0)
        sign = groups.first - 0.5  # the larger of two numbers, or by minus signs the smaller: faster than a choice
        base = sign * instance.per_server_demands
        np.maximum(base, sign * fair, out=base)
        sign *= 4.0
        base *= sign
        if not instance.everywhere:
            base *= eligible[:, :, None]
        return base if self.growth == "proportional" else _grown(base, groups, instance.capacities)


def _grown(base: Float, groups: Dominance, capacities: Float) -> Float:
    """Bases that fill the capacities, each group's part of what is left split equally among those with a base."""
    left = np.maximum(capacities - base.sum(axis=0), 0.0)
    total = np.where(left > 0, base.sum(axis=0), 1.0)
    members = (base > 0).astype(float)
    per_member = [
        np.divide(left * held, total * count, out=np.zeros(left.shape), where=count > 0)
        for held, count in zip(*(sums_by_group(v, groups.first, groups.second) for v in (base, members)), strict=True)
    ]
    return base + members * (groups.first * per_member[0] + groups.second * per_member[1])


def refuse_unequal_weights(instance: Instance, block: object) -> None:
    """`OutOfDomain` where entitlements differ: they play no part in MLF-DRS and H-FFMRA.

    Parameters
    ----------
    instance : Instance
        With the weights.
    block : object
        Who asks, for the message.
    """
    w = instance.weights
    differs = np.flatnonzero(w != w[0]) if len(w) else np.zeros(0, dtype=int)
    if len(differs):
        a, b = instance.users[0], instance.users[int(differs[0])]
        raise OutOfDomain(
            f"{block!r} has no meaning for unequal weights (user {a!r} {w[0]:g}, user {b!r} {w[differs[0]]:g}); "
            "give .with_weights(1), on the command line --equal-weights"
        )


@dataclass(frozen=True, repr=False)
class WeightedLog(Objective):
    """``sum base_jsi log a_jsi`` of the bundles a: each resource is shared in proportion to the bases.

    A policy with this objective decides bundles; tasks are what they have room for. By itself it shares out each
    resource of each server alone, so units do not matter; beside other objectives, or under constraints on tasks, bases
    of different resources are weighed against each other as they are: give them numbers of the same size.

    Parameters
    ----------
    base : BundleBase
        A block with ``weights(instance)``, not an array: blocks hold parameters, never data.

    Examples
    --------
    >>> import fairopt as fo
    >>> a = fo.Policy(fo.WeightedLog(fo.FairShareBase())).allocate(fo.Instance([[1, 4], [3, 1]], [9, 18]))
    >>> a.bundles[:, 0].round(4)
    array([[ 1.6364, 16.2   ],
           [ 7.3636,  1.8   ]])
    """

    base: BundleBase = field(default_factory=FairShareBase)
    of_bundles: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(self.base, type) or not callable(getattr(self.base, "weights", None)):
            given = f"{self.base.__name__} without brackets" if isinstance(self.base, type) else repr(self.base)
            raise InvalidBlock(f"the base of WeightedLog is {given}; give a block such as FairShareBase()")

    def expression(self, model: Model) -> cp.Expression:
        """Natural units; q servers count q times."""
        user, server, resource, counts, w = self._positive(model.instance)
        units, scale = model.split_bundles(user, server, resource)
        return (counts * w) @ cp.log(units) + float((counts * w) @ np.log(scale / counts))

    def solver_form(self, model: Model) -> cp.Expression:
        """Logarithms of numbers near 1, by weights near 1."""
        user, server, resource, counts, w = self._positive(model.instance)
        units, _ = model.split_bundles(user, server, resource)
        mean = float((counts * w).mean()) if len(w) else 1.0
        return cp.sum(cp.multiply(counts * w / mean, cp.log(units)))

    def value(self, point: Point) -> float:
        """Natural units; minus infinity where somebody with a base holds nothing."""
        user, server, resource, counts, w = self._positive(point.instance)
        held = point.bundles[user, server, resource] / counts
        with np.errstate(divide="ignore"):
            return float((counts * w) @ np.log(held))

    def drop(self, point: Point) -> float:
        """By how much it falls when every bundle is halved, whatever the bundles."""
        user, _, _, counts, w = self._positive(point.instance)
        return float(np.log(2.0) * (counts * w).sum()) if len(user) else 1.0

    def _positive(self, instance: Instance) -> tuple[Any, Any, Any, Any, Any]:
        """Where bases are positive, how many servers that row stands for, and the bases."""
        base = self.bases(instance)
        user, server, resource = np.nonzero(base)
        return user, server, resource, instance.counts[server], base[user, server, resource]

    def bases(self, instance: Instance) -> Float:
        """The base's weights, checked, and zero where a user is not eligible: (n_users, n_servers, n_resources)."""
        try:
            base = np.asarray(self.base.weights(instance))
            base = base if base.dtype == np.float64 else base.astype(np.float64, casting="safe")
        except (TypeError, ValueError) as error:
            raise InvalidBlock(f"{self.base!r}.weights gave no array of numbers ({error})") from error
        if isinstance(self.base, FairShareBase):
            return base
        if base.shape != (instance.n_users, instance.n_servers, instance.n_resources):
            raise InvalidBlock(f"{self.base!r}.weights gave shape {base.shape}; give (users, servers, resources)")
        base = np.where(instance.eligible[:, :, None] & (instance.capacities > 0), base, 0.0)
        wrong = ~(np.isfinite(base) & (base >= 0))
        if wrong.any():
            j, s, i = np.argwhere(wrong)[0]
            raise InvalidBlock(
                f"{self.base!r}.weights gave user {instance.users[j]!r} {base[j, s, i]} of {instance.resources[i]!r} "
                f"on server {instance.servers[s]!r}; give finite numbers >= 0"
            )
        return base

    def check(self, instance: Instance) -> None:
        """That every base is a number."""
        self.bases(instance)


@dataclass(frozen=True)
class Parts:
    """What each group may hold on one server: units of shape (n_servers, n_resources), and how they grow with capacity.

    Attributes
    ----------
    dominant, others : ndarray of shape (n_servers, n_resources)
        Together the capacity, unless nobody wants any.
    dominant_slope, others_slope : ndarray of shape (n_servers, n_resources)
        Derivatives by the capacity.
    """

    dominant: Float
    others: Float
    dominant_slope: Float
    others_slope: Float


@dataclass(frozen=True, repr=False)
class GlobalAggregateResource(Constraint):
    """GAR constraints: dominant users of a resource together hold at most a common part of it, the others the rest.

    After Hamzeh et al. (2020). The part is phi = sigma_d / (sigma_d + sigma_nd), of all dominant and of all other
    demands. A group without demand passes its part to the other. Where one task of each user asks for more than the
    server has, no group gets more than it requested, and what it leaves goes to the other.

    It can stand beside any objective: without `WeightedLog` a bundle is tasks times demands.

    Parameters
    ----------
    units : {"share", "raw"}, default "share"
        Add up shares of the servers' capacities, or units as the paper does (then GB or MB make a difference).
    over : {"cluster", "server"}, default "cluster"
        Add up over all servers (H-FFMRA), or over each server alone (FFMRA).

    Examples
    --------
    >>> import fairopt as fo
    >>> example = fo.Instance([[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]])
    >>> fo.GlobalAggregateResource(units="raw").fraction(example) * 23
    array([16., 16.])
    """

    units: str = "share"
    over: str = "cluster"

    def __post_init__(self) -> None:
        if self.units not in ("share", "raw"):
            raise InvalidBlock(f"units are {self.units!r}; give 'share' or 'raw'")
        if self.over not in ("cluster", "server"):
            raise InvalidBlock(f"over is {self.over!r}; give 'cluster' or 'server'")

    def fraction(self, instance: Instance) -> Float:
        """phi by server, shape (n_servers,): the part of each resource for those who are dominant in it."""
        return self._fractions(instance)[0]

    def _fractions(self, instance: Instance) -> Float:
        """phi and 1 - phi by server, (2, n_servers), each from its own sum: one may be lost beside the other."""
        capacity = np.where(instance.capacities > 0, instance.capacities, np.inf) if self.units == "share" else 1.0
        groups = instance.dominance
        sums = np.stack([(groups.requests / capacity).sum(axis=1), (groups.others_requests / capacity).sum(axis=1)])
        if self.over == "cluster":
            sums = np.broadcast_to((sums @ instance.counts)[:, None], sums.shape)
        total = sums.sum(axis=0)
        nobody = np.stack([np.ones(len(total)), np.zeros(len(total))])
        return np.divide(sums, total, out=nobody, where=total > 0)

    def parts(self, instance: Instance) -> Parts:
        """What the two groups of each resource may hold on each server.

        Parameters
        ----------
        instance : Instance
            Users who take part, and servers.

        Returns
        -------
        Parts
        """
        c, asked, others = instance.capacities, instance.dominance.requests, instance.dominance.others_requests
        both = (asked > 0) & (others > 0)
        phi, rest = self._fractions(instance)[:, :, None]
        first = np.where(both, phi, asked > 0)  # by how much each part grows with the capacity
        second = np.where(both, rest, others > 0)
        short = both & instance.dominance.short(c)
        few, less = short & (asked < first * c), short & (others < second * c)  # one group asked for less than its part
        return Parts(
            np.where(few, asked, np.where(less, c - others, first * c)),
            np.where(less, others, np.where(few, c - asked, second * c)),
            np.where(few, 0.0, np.where(less, 1.0, first)),
            np.where(less, 0.0, np.where(few, 1.0, second)),
        )

    def constraints(self, model: Model) -> dict[str, cp.Constraint]:
        instance = model.instance
        parts, capacity = self.parts(instance), np.where(instance.capacities > 0, instance.capacities, np.inf)
        conditions = {}
        mine = instance.dominance.dominant
        for name, group, part in (("dominant", mine, parts.dominant), ("others", ~mine, parts.others)):
            rows = np.flatnonzero((part < instance.capacities).ravel() & (group & _wants(instance)).any(axis=0).ravel())
            if len(rows):
                conditions[name] = model.held_together(group)[rows] <= (part / capacity).ravel()[rows]
        return conditions


@dataclass(frozen=True, repr=False)
class AtMostRequested(Constraint):
    """Where requests exceed a server's capacity, no user holds more than it requested there.

    Definition 5 of Hamzeh et al. (2020). Requests are the demand rows: one task of each user who may run there.

    Examples
    --------
    >>> import fairopt as fo
    >>> short = fo.Instance([[4, 1], [6, 1]], [8, 10])
    >>> fo.Policy(fo.WeightedLog(), [fo.AtMostRequested()]).allocate(short).bundles[:, 0, 0].round(4)
    array([3.2, 4.8])
    """

    def short(self, instance: Instance) -> NDArray[np.bool_]:
        """Where one task of each user asks for more than there is: (n_servers, n_resources)."""
        return instance.dominance.short(instance.capacities)

    def constraints(self, model: Model) -> dict[str, cp.Constraint]:
        instance = model.instance
        user, server, resource = np.nonzero(self.short(instance) & _wants(instance) & model.can_hold)
        if not len(user):
            return {}
        request = instance.counts[server] * instance.per_server_demands[user, server, resource]
        units, scale = model.split_bundles(user, server, resource)
        return {"at most requested": cp.multiply(units, scale / request) <= 1}


def _wants(instance: Instance) -> NDArray[np.bool_]:
    """Who demands what where it may run."""
    return (instance.per_server_demands > 0) & instance.eligible[:, :, None]
