"""What follows from an instance and is computed once: classes of servers, levels, what solves left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairopt.instance import validation
from fairopt.instance.in_fractions import InFractions
from fairopt.instance.limits import Limit, implied, masks_of
from fairopt.instance.teams import split_weights
from fairopt.runtime.arrays import Float

if TYPE_CHECKING:
    from fairopt.instance.data import Instance

T = TypeVar("T")


def once(compute: Callable[[Derived], T]) -> property:
    """A property that is computed once; the instance keeps it, as one that is kept here would keep the instance."""

    def of(derived: Derived) -> T:
        kept = derived.instance.__dict__.setdefault("_derived", {})
        if compute.__name__ not in kept:
            kept[compute.__name__] = compute(derived)
        value: T = kept[compute.__name__]
        return value

    return property(of, doc=compute.__doc__)


class Derived:
    """Numbers that methods read of an instance, beside those that users read of it.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1]], [[4], [4], [8]])
    >>> cluster.derived.server_classes, cluster.derived.everywhere
    (array([0, 0, 1]), True)
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    @property
    def has_guarantees(self) -> bool:
        """Whether any user or team has a guarantee."""
        instance = self.instance
        return bool(instance.guarantees.any()) or bool(instance.team_guarantees)

    @property
    def chosen_from(self) -> tuple[Any, NDArray[np.int64] | slice] | None:
        """The instance on the same servers from which these users were selected, and their indices; or None."""
        instance = self.instance
        if instance.taken_from is None or any(
            not np.array_equal(getattr(instance.taken_from[0], name), getattr(instance, name))
            for name in ("capacities", "counts")
        ):
            return None
        return instance.taken_from

    @property
    def is_window(self) -> bool:
        """Whether this is a `parts.window` of another instance."""
        instance = self.instance
        return instance.taken_from is not None and isinstance(instance.taken_from[1], slice)

    @property
    def cheapest_ratios(self) -> Float:
        """The smallest `ratios` over eligible servers, shape (n_users, n_resources)."""
        instance = self.instance
        if instance.demands.ndim == 2:
            return instance.ratios
        return np.where(instance.eligible[:, :, None], instance.ratios, np.inf).min(axis=1)

    def common_level(self, per_task: Float, weights: Float | None = None) -> float:
        """The level at which equal shares per weight use up a resource; ``per_task`` has shape (n_users,).

        Users of a zero share are ignored. Exact on one pool without limits, an estimate if demands or capacities differ
        by server. ``weights`` replace those of the instance. 0 or infinite on overflow.
        """
        instance = self.instance
        if not (per_task > 0).any():
            return 1.0
        weights = instance.weights if weights is None else weights
        with np.errstate(over="ignore"):  # an infinite load is a level of 0
            tasks = np.divide(weights, per_task, out=np.zeros(instance.n_users), where=per_task > 0)
            load = float((tasks @ self.cheapest_ratios).max())
        if load == 0:  # no user needs any one resource everywhere
            mu = instance.dominant_shares
            best = np.where(instance.eligible, mu, np.inf).min(axis=1) if mu.ndim == 2 else mu
            load = float(tasks @ best)
        return 1.0 / load if load else np.inf

    @once
    def everywhere(self) -> bool:
        """Whether all users are eligible on every server row."""
        return bool(self.instance.eligible.all())

    def of_floats(self) -> Instance:
        """The same instance, of which `in_fractions` reads each float as the fraction that it is: as solvers do."""
        instance = self.instance
        made = object.__new__(type(instance))
        made.__dict__.update(instance.__dict__, in_fractions=InFractions(instance, of_floats=True))
        return made

    @property
    def total_weight(self) -> float:
        """The sum of all weights, including users left out by `parts.taking_part`."""
        instance = self.instance
        return float((instance if instance.taken_from is None else instance.taken_from[0]).weights.sum())

    @property
    def number_of_all_users(self) -> int:
        """The number of users, including those left out by `parts.taking_part`."""
        instance = self.instance
        return (instance if instance.taken_from is None else instance.taken_from[0]).n_users

    def tasks_alone_within(self, usable: Float, everywhere: bool = False) -> Float:
        """`tasks_alone` on fractions ``usable``, (n_resources,), of capacities; ``everywhere`` ignores eligibility."""
        instance = self.instance
        out = np.full((instance.n_users, instance.n_servers), np.inf)
        demands = instance.per_server_demands
        for i in range(instance.n_resources):
            d = demands[:, :, i]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                np.minimum(out, np.where(d > 0, usable[i] * instance.capacities[:, i] / d, np.inf), out=out)
        counts = everywhere & np.isfinite(out) if everywhere else instance.eligible
        return np.where(counts, out, 0.0) * instance.counts

    @once
    def server_classes(self) -> NDArray[np.int64]:
        """The class of each server, shape (n_servers,): equal capacities, eligibility, demands and limits.

        Limits that capacities imply cannot bind, and do not count.
        """
        instance = self.instance
        room = instance.capacities * instance.counts[:, None]
        return self.classes_within(
            one for one in instance.limits if not implied(one, room[:, instance.resource_index(one.resource)])
        )

    def classes_within(self, limits: Iterable[Limit]) -> NDArray[np.int64]:
        """`server_classes`, told apart by some of the limits."""
        instance = self.instance
        ordered = instance.capacities[np.lexsort(instance.capacities.T)]
        if not (ordered[1:] == ordered[:-1]).all(axis=1).any():  # all capacities differ
            return validation.frozen(np.arange(instance.n_servers))
        keys: dict[bytes, int] = {}
        capacities = [row.tobytes() for row in np.ascontiguousarray(instance.capacities + 0.0)]
        number = Counter(capacities)
        same = len(number) == instance.n_servers or bool(
            instance.eligible.all()
        )  # columns of eligibility do not matter
        columns = None if same else np.ascontiguousarray(instance.eligible.T)
        classes, masks = np.empty(instance.n_servers, dtype=np.int64), masks_of(limits)
        for s, key in enumerate(capacities):
            if number[key] > 1:
                if columns is not None:
                    key += columns[s].tobytes()
                if instance.demands.ndim == 3:
                    key += (instance.demands[:, s, :] + 0.0).tobytes()
                if instance.rates is not None:
                    key += (instance.rates[:, s] + 0.0).tobytes()
                key += bytes(where[s] for where in masks)
            classes[s] = keys.setdefault(key, len(keys))
        return validation.frozen(classes)

    def spread(self, tasks_by_class: Float) -> Float:
        """Spread values of `merged`, (n_users, n_classes, ...), over identical servers: (n_users, n_servers, ...)."""
        instance = self.instance
        classes = self.server_classes
        portion = instance.counts / np.bincount(classes, weights=instance.counts)[classes]
        return tasks_by_class[:, classes] * portion.reshape(-1, *[1] * (tasks_by_class.ndim - 2))

    def sum_by_class(self, by_row: Float) -> Float:
        """Sum values of (n_users, n_servers, ...) over identical servers, to (n_users, n_classes, ...)."""
        out = np.zeros((len(by_row), int(self.server_classes.max()) + 1, *by_row.shape[2:]))
        np.add.at(out.swapaxes(0, 1), self.server_classes, by_row.swapaxes(0, 1))
        return out

    def by_row(self, individual: Float) -> Float:
        """Values by individual server, (n_users, number of servers), summed by row: shape (n_users, n_servers)."""
        instance = self.instance
        return np.add.reduceat(individual, np.cumsum(instance.counts) - instance.counts, axis=1)

    @once
    def position(self) -> dict[str, int]:
        """The index of each user, by label."""
        return {u: j for j, u in enumerate(self.instance.users)}

    def exact_numbers(self) -> dict[str, dict[float, Fraction | None]]:
        """What exact answers read floats as, by argument, where it is not the shortest decimal of a float of 64 bits.

        None for a float that is the rounding of several numbers that were given.
        """
        instance = self.instance
        found = dict(instance._fractions)
        for name in ("demands", "capacities"):
            array = getattr(instance, name)
            if array.dtype == np.float32:
                short: dict[float, Fraction | None] = {float(x): Fraction(str(x)) for x in np.unique(array)}
                found[name] = short | found.get(name, {})
        return found

    # -- completing new instances -----------------------------------------------------------------------------

    def read_as(self, fractions: Mapping[str, Mapping[float, Fraction | None]]) -> Instance:
        """The instance, just made, with floats of an earlier one read as the fractions that were given there."""
        instance = self.instance
        for name, found in fractions.items():
            instance._fractions[name] = {**found, **instance._fractions.get(name, {})}
        instance.__dict__.pop("in_fractions", None)
        return instance

    def give_teams(self, weights: dict[str, float], guarantees: dict[str, dict[str, float]]) -> None:
        """Complete an instance, just made, with valid weights and guarantees of teams."""
        of, divided = self.instance, self.instance.weights
        if weights:
            divided = validation.frozen(split_weights(of.own_weights, weights, of.teams.names))
        of.__dict__.update(team_weights=weights, team_guarantees=guarantees, weights=divided)

    def take_from(self, parent: Instance, rows: NDArray[np.int64] | slice) -> None:
        """Say of an instance, just made, that its users are rows of another, which knows their labels and values."""
        self.instance.__dict__["taken_from"] = (parent, rows)
