"""Policies that decide bundles: the amount of each resource on each server that a user holds (MLF-DRS, H-FFMRA).

A bundle need not be a multiple of the demand vector; the user runs the tasks that fit in it. Bases and parts refer to
one server: a row of q identical servers has q times as much.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fairopt.blocks.base import Block, brief
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.model import Model, Point
from fairopt.blocks.objectives import Objective
from fairopt.errors import InvalidBlock, OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.dominance import Dominance, sums_by_group
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.lazy import cp

__all__ = ["AtMostRequested", "BundleBase", "FairShareBase", "GlobalAggregateResource", "Parts", "WeightedLog"]


class BundleBase(Block):
    """The base class of bundle bases: subclass as a frozen dataclass and write `weights`.

    Examples
    --------
    A user-defined base, equal for all users who demand the resource:

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

    instead: ClassVar[str] = "a bundle base is not a number; write WeightedLog(base)"

    @property
    def by_server(self) -> bool:
        """Whether the weights on a server depend only on that server and the users.

        Servers are then evaluated in blocks. Set ``by_server = True`` in your own class if this holds.
        """
        return False

    def weights(self, instance: Instance) -> Float:
        """The weight of each user for each resource, on one server of each row.

        Parameters
        ----------
        instance : Instance
            Users with a task limit above 0, and servers.

        Returns
        -------
        ndarray of shape (n_users, n_servers, n_resources)
            At least 0; a user with weight 0 holds nothing. Values on servers where a user is not eligible are ignored.
        """
        raise InvalidBlock(f"{type(self).__name__} has no weights(instance); write it")


@dataclass(frozen=True, repr=False)
class FairShareBase(BundleBase):
    """The bases of MLF-DRS (Hamzeh et al. 2019, Algorithm 1).

    The fair share of a resource is the server's capacity divided by the number of eligible users. A user's base is the
    maximum of fair share and demand for its dominant resource on that server, and the minimum for other resources.

    Parameters
    ----------
    growth : {"proportional", "equal"}, default "proportional"
        How the remainder is divided: in proportion to the bases; or between the dominant users of a resource and the
        others in proportion to the sums of their bases, and equally within each group (as the paper has it for RAM).
        Bases that exceed the capacity are scaled down in proportion in both cases.

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
        """The bases, including equal growth if chosen, shape (n_users, n_servers, n_resources).

        Raises
        ------
        OutOfDomain
            If users' weights differ: Hamzeh et al. do not define that case.
        """
        w = instance.weights
        differs = np.flatnonzero(w != w[:1])
        if len(differs):
            a, b = instance.users[0], instance.users[int(differs[0])]
            raise OutOfDomain(
                f"{self} is not defined for unequal weights (user {a!r} {w[0]:g}, user {b!r} {w[differs[0]]:g}); "
                "give .with_weights(1), on the command line --equal-weights"
            )
        eligible, groups = instance.eligible, instance.dominance
        all_users = np.full(instance.n_servers, instance.n_users)
        there = (all_users if instance.derived.everywhere else eligible.sum(axis=0))[:, None]
        fair = np.divide(instance.capacities, there, out=np.zeros(instance.capacities.shape), where=there > 0)
        sign = groups.first - 0.5  # maximum or, with negative signs, minimum; faster than np.where
        base = sign * instance.per_server_demands
        np.maximum(base, sign * fair, out=base)
        sign *= 4.0
        base *= sign
        if not instance.derived.everywhere:
            base *= eligible[:, :, None]
        return base if self.growth == "proportional" else _grown(base, groups, instance.capacities)


def _grown(base: Float, groups: Dominance, capacities: Float) -> Float:
    """Bases that fill the capacities: each group's part of the remainder is divided equally among users with a base."""
    left = np.maximum(capacities - base.sum(axis=0), 0.0)
    total = np.where(left > 0, base.sum(axis=0), 1.0)
    members = (base > 0).astype(float)
    per_member = [
        np.divide(left * held, total * count, out=np.zeros(left.shape), where=count > 0)
        for held, count in zip(*(sums_by_group(v, groups.first, groups.second) for v in (base, members)), strict=True)
    ]
    return base + members * (groups.first * per_member[0] + groups.second * per_member[1])


@dataclass(frozen=True, repr=False)
class WeightedLog(Objective):
    """The weighted sum of logarithms of bundles a, ``sum_jsi base_jsi log a_jsi``.

    Each resource of each server is divided in proportion to the bases, so units do not matter. Next to other
    objectives, or under constraints on tasks, bases of different resources are compared as they are: give them similar
    magnitudes. The policy decides bundles; users run the tasks that fit in them.

    Parameters
    ----------
    base : BundleBase, default FairShareBase()
        The weights, as a block and not as an array.

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
            given = f"{self.base.__name__} without brackets" if isinstance(self.base, type) else brief(self.base)
            raise InvalidBlock(f"the base of WeightedLog is {given}; give a block such as FairShareBase()")

    def expression(self, model: Model) -> cp.Expression:
        user, server, resource, counts, w = self._positive(model.instance)
        units, scale = model.split_bundles(user, server, resource)
        return (counts * w) @ cp.log(units) + float((counts * w) @ np.log(scale / counts))

    def solver_form(self, model: Model) -> cp.Expression:
        """Logarithms of numbers near 1, with weights near 1."""
        user, server, resource, counts, w = self._positive(model.instance)
        units, _ = model.split_bundles(user, server, resource)
        mean = float((counts * w).mean()) if len(w) else 1.0
        return cp.sum(cp.multiply(counts * w / mean, cp.log(units)))

    def value(self, point: Point) -> float:
        """In natural units; minus infinity if a user with a positive base holds nothing."""
        user, server, resource, counts, w = self._positive(point.instance)
        held = point.bundles[user, server, resource] / counts
        with np.errstate(divide="ignore"):
            return float((counts * w) @ np.log(held))

    def drop(self, point: Point) -> float:
        """The decrease when every bundle is halved, the same at all points."""
        user, _, _, counts, w = self._positive(point.instance)
        return float(np.log(2.0) * (counts * w).sum()) if len(user) else 1.0

    def _positive(self, instance: Instance) -> tuple[Any, Any, Any, Any, Any]:
        """The indices of positive bases, the server counts of their rows, and the bases."""
        base = self.bases(instance)
        user, server, resource = np.nonzero(base)
        return user, server, resource, instance.counts[server], base[user, server, resource]

    def bases(self, instance: Instance) -> Float:
        """The validated weights, zero where a user is not eligible: (n_users, n_servers, n_resources)."""
        try:
            base = np.asarray(self.base.weights(instance))
            base = base if base.dtype == np.float64 else base.astype(np.float64, casting="safe")
        except (TypeError, ValueError) as error:
            raise InvalidBlock(f"{self.base}.weights gave no array of numbers; give floats ({error})") from error
        if isinstance(self.base, FairShareBase):
            return base
        if base.shape != (instance.n_users, instance.n_servers, instance.n_resources):
            raise InvalidBlock(f"{self.base}.weights gave shape {base.shape}; give (users, servers, resources)")
        base = np.where(instance.eligible[:, :, None] & (instance.capacities > 0), base, 0.0)
        wrong = ~(np.isfinite(base) & (base >= 0))
        if wrong.any():
            j, s, i = np.argwhere(wrong)[0]
            raise InvalidBlock(
                f"{self.base}.weights gave user {instance.users[j]!r} {base[j, s, i]} of {instance.resources[i]!r} "
                f"on server {instance.servers[s]!r}; give finite numbers >= 0"
            )
        return base

    def check(self, instance: Instance) -> None:
        self.bases(instance)


@dataclass(frozen=True)
class Parts:
    """Units of one server that each group may hold, and their derivatives by capacity; all (n_servers, n_resources)."""

    dominant: Float
    others: Float
    dominant_slope: Float
    others_slope: Float


@dataclass(frozen=True, repr=False)
class GlobalAggregateResource(Constraint):
    """Limit the dominant users of each resource together to a common fraction of it, and the others to the rest.

    The constraints of global aggregate resources (GAR) of Hamzeh et al. (2021). The fraction is ``phi = sigma_d /
    (sigma_d + sigma_nd)``, from the sums of dominant and of other demands. If a group has no demand, the other gets its
    part. If one task of each user needs more than the server has, no group gets more than its request, and the other
    group gets the remainder. Without `WeightedLog` a bundle is tasks times demands.

    Parameters
    ----------
    units : {"share", "raw"}, default "share"
        Sum shares of the servers' capacities, or raw units as in the paper (the result then depends on the units).
    over : {"cluster", "server"}, default "cluster"
        Sum over all servers (H-FFMRA), or over each server separately (FFMRA).

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
        """phi by server, shape (n_servers,): the fraction of each resource for its dominant users."""
        return self._fractions(instance)[0]

    def _fractions(self, instance: Instance) -> Float:
        """phi and 1 - phi by server, (2, n_servers), from separate sums, so that neither loses digits."""
        capacity = np.where(instance.capacities > 0, instance.capacities, np.inf) if self.units == "share" else 1.0
        groups = instance.dominance
        sums = np.stack([(groups.requests / capacity).sum(axis=1), (groups.others_requests / capacity).sum(axis=1)])
        if self.over == "cluster":
            sums = np.broadcast_to((sums @ instance.counts)[:, None], sums.shape)
        total = sums.sum(axis=0)
        without_demand = np.stack([np.ones(len(total)), np.zeros(len(total))])
        return np.divide(sums, total, out=without_demand, where=total > 0)

    def parts(self, instance: Instance) -> Parts:
        """Units of each server that the two groups of each resource may hold."""
        c, dominant, others = instance.capacities, instance.dominance.requests, instance.dominance.others_requests
        both = (dominant > 0) & (others > 0)
        phi, rest = self._fractions(instance)[:, :, None]
        first = np.where(both, phi, dominant > 0)  # derivatives of the parts by the capacity
        second = np.where(both, rest, others > 0)
        short = both & instance.dominance.short(c)
        few, less = short & (dominant < first * c), short & (others < second * c)  # a group requests less than its part
        return Parts(
            np.where(few, dominant, np.where(less, c - others, first * c)),
            np.where(less, others, np.where(few, c - dominant, second * c)),
            np.where(few, 0.0, np.where(less, 1.0, first)),
            np.where(less, 0.0, np.where(few, 1.0, second)),
        )

    def constraints(self, model: Model) -> dict[str, cp.Constraint]:
        instance = model.instance
        parts, capacity = self.parts(instance), np.where(instance.capacities > 0, instance.capacities, np.inf)
        conditions = {}
        mine = instance.dominance.dominant
        for name, group, part in (("dominant", mine, parts.dominant), ("others", ~mine, parts.others)):
            rows = np.flatnonzero((part < instance.capacities).ravel() & (group & _needs(instance)).any(axis=0).ravel())
            if len(rows):
                conditions[name] = model.held_together(group)[rows] <= (part / capacity).ravel()[rows]
        return conditions


@dataclass(frozen=True, repr=False)
class AtMostRequested(Constraint):
    """Limit each user to its request of every resource of which the requests of all users exceed a server's capacity.

    Definition 5 of Hamzeh et al. (2021). The request of an eligible user is the demand of one task.

    Examples
    --------
    >>> import fairopt as fo
    >>> short = fo.Instance([[4, 1], [6, 1]], [8, 10])
    >>> fo.Policy(fo.WeightedLog(), [fo.AtMostRequested()]).allocate(short).bundles[:, 0, 0].round(4)
    array([3.2, 4.8])
    """

    def short(self, instance: Instance) -> Bool:
        """Whether the demands of one task of each user exceed a server's capacity, shape (n_servers, n_resources)."""
        return instance.dominance.short(instance.capacities)

    def constraints(self, model: Model) -> dict[str, cp.Constraint]:
        instance = model.instance
        user, server, resource = np.nonzero(self.short(instance) & _needs(instance) & model.can_hold)
        if not len(user):
            return {}
        request = instance.counts[server] * instance.per_server_demands[user, server, resource]
        units, scale = model.split_bundles(user, server, resource)
        return {"at most requested": cp.multiply(units, scale / request) <= 1}


def _needs(instance: Instance) -> Bool:
    """Which eligible users demand which resource, (n_users, n_servers, n_resources)."""
    return (instance.per_server_demands > 0) & instance.eligible[:, :, None]
