"""What follows from an instance's data: sizes, labels, ratios, who is dominant where, values by user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from fairopt.dominance import Dominance, dominance_of
from fairopt.errors import InvalidInstance, nearest
from fairopt.labels import by_label
from fairopt.validation import as_floats, frozen, index_of, left_out

__all__ = ["Derived"]

Float = NDArray[np.floating[Any]]


class Derived:
    """The part of `fairopt.Instance` that is computed from its data, when asked for."""

    demands: Float
    capacities: Float
    weights: Float
    task_limits: Float
    counts: NDArray[np.int64]
    eligible: NDArray[np.bool_]
    server_types: tuple[str, ...] | None
    units: tuple[str, ...] | None
    notes: tuple[str, ...]
    _users: tuple[str, ...] | None
    _resources: tuple[str, ...] | None
    _servers: tuple[str, ...] | None
    _parent: tuple[Any, NDArray[np.int64] | slice] | None
    _merged_from: Any

    # -- sizes and labels -------------------------------------------------------------------------------------

    @property
    def n_users(self) -> int:
        """Number of users."""
        return self.demands.shape[0]

    @property
    def n_resources(self) -> int:
        """Number of resources."""
        return self.capacities.shape[1]

    @property
    def n_servers(self) -> int:
        """Number of server rows (each may stand for several identical servers, see ``counts``)."""
        return self.capacities.shape[0]

    @cached_property
    def users(self) -> tuple[str, ...]:
        """Labels of the users."""
        if self._users is None and self._parent is not None:
            parent, rows = self._parent
            return parent.users[rows] if isinstance(rows, slice) else tuple(parent.users[j] for j in rows)
        return self._users or tuple(f"user{j + 1}" for j in range(self.n_users))

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Labels of the resources."""
        return self._resources or tuple(f"resource{i + 1}" for i in range(self.n_resources))

    @property
    def resource_titles(self) -> tuple[str, ...]:
        """Labels of the resources with their units, for tables and axes, as ``memory (GiB)``.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1, 2]], [8, 64], resources=["cpu", "memory"], units={"memory": "GiB"}).resource_titles
        ('cpu', 'memory (GiB)')
        """
        named = zip(self.resources, self.units or [""] * self.n_resources, strict=True)
        return tuple(f"{name} ({unit})" if unit else name for name, unit in named)

    @cached_property
    def servers(self) -> tuple[str, ...]:
        """Labels of the servers."""
        if self._servers:
            return self._servers
        return ("pool",) if self.n_servers == 1 else tuple(f"server{s + 1}" for s in range(self.n_servers))

    @property
    def merged_from(self) -> Any:
        """The instance whose identical servers were merged to make this one, or None."""
        return self._merged_from

    @property
    def chosen_from(self) -> tuple[Any, NDArray[np.int64] | slice] | None:
        """The instance on the same servers that these users were chosen from, and which they are; or None."""
        if self._parent is None or not np.array_equal(self._parent[0].capacities, self.capacities):
            return None
        return self._parent

    # -- derived numbers --------------------------------------------------------------------------------------

    @property
    def per_server_demands(self) -> Float:
        """Demands as a view of shape (n_users, n_servers, n_resources)."""
        if self.demands.ndim == 3:
            return self.demands
        shape = (self.n_users, self.n_servers, self.n_resources)
        return np.broadcast_to(self.demands[:, None, :], shape)

    @cached_property
    def total_capacities(self) -> Float:
        """Units of each resource on all servers together, counts included: shape (n_resources,)."""
        return frozen(self.counts.astype(float) @ self.capacities)

    @cached_property
    def ratios(self) -> Float:
        """``g``: the share of each resource's total capacity that one task takes, in the shape of ``demands``."""
        total = self.total_capacities
        return frozen(self.demands / np.where(total > 0, total, 1.0))

    @property
    def cheapest_ratios(self) -> Float:
        """Ratios of shape (n_users, n_resources): of each resource, on the eligible server that takes least of it."""
        if self.demands.ndim == 2:
            return self.ratios
        return np.where(self.eligible[:, :, None], self.ratios, np.inf).min(axis=1)

    def common_level(self, per_task: Float) -> float:
        """The level at which shares of these coefficients, all equal per weight, fill the first resource.

        Exact on one pool without limits; an estimate where demands or capacities differ by server.

        Parameters
        ----------
        per_task : ndarray of shape (n_users,)
            Share of one task of each user, positive.

        Returns
        -------
        float
        """
        if self.n_users == 0:
            return 1.0
        tasks = self.weights / per_task
        load = float((tasks @ self.cheapest_ratios).max())
        if not load > 0:  # nobody needs any one resource everywhere
            mu = self.dominant_shares
            best = np.where(self.eligible, mu, np.inf).min(axis=1) if mu.ndim == 2 else mu
            load = float(tasks @ best)
        return 1.0 / load if 0 < load < np.inf else 1.0

    @cached_property
    def dominant_shares(self) -> Float:
        """``mu``: the largest ratio of each user's task, shape (n_users,) or (n_users, n_servers)."""
        ratios = self.ratios
        largest = ratios[..., 0].copy()
        for i in range(1, self.n_resources):  # column by column: a row-wise max of a narrow array is slow
            np.maximum(largest, ratios[..., i], out=largest)
        return frozen(largest)

    @cached_property
    def everywhere(self) -> bool:
        """Whether everybody may run on every server row."""
        return bool(self.eligible.all())

    @cached_property
    def dominance(self) -> Dominance:
        """Which users are dominant in which resource on each server alone, and what they and the others ask for."""
        return dominance_of(self.per_server_demands, self.capacities, None if self.everywhere else self.eligible)

    @property
    def total_weight(self) -> float:
        """Sum of all entitlements, those of users left out by `taking_part` included."""
        return float((self if self._parent is None else self._parent[0]).weights.sum())

    @cached_property
    def tasks_alone(self) -> Float:
        """Tasks that each user could run on each server row if it had it alone, counts included: (n_users, n_servers).

        Zero where the user is not eligible; task limits play no part.
        """
        return frozen(self.tasks_alone_within(np.ones(self.n_resources)))

    def tasks_alone_within(self, usable: Float, everywhere: bool = False) -> Float:
        """`tasks_alone` where only a fraction of each resource may be used.

        Parameters
        ----------
        usable : ndarray of shape (n_resources,)
            From 0 to 1.
        everywhere : bool, default False
            Count servers where the user is not eligible too.

        Returns
        -------
        ndarray of shape (n_users, n_servers)
        """
        out = np.full((self.n_users, self.n_servers), np.inf)
        demands = self.per_server_demands
        for i in range(self.n_resources):
            d = demands[:, :, i]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                np.minimum(out, np.where(d > 0, usable[i] * self.capacities[:, i] / d, np.inf), out=out)
        counts = everywhere & np.isfinite(out) if everywhere else self.eligible
        return np.where(counts, out, 0.0) * self.counts

    @property
    def own_slices(self) -> Float:
        """Tasks of each user on its own slice, ``w_j / sum w`` of every server where it may run, cut at its limit.

        Weights are relative to everybody's (`total_weight`): shape (n_users,).
        """
        return np.minimum(self.weights / self.total_weight * self.tasks_alone.sum(axis=1), self.task_limits)

    @cached_property
    def server_classes(self) -> NDArray[np.int64]:
        """Class of each server: servers alike in capacities, eligibility and demands share one, shape (n_servers,)."""
        ordered = self.capacities[np.lexsort(self.capacities.T)]
        if not (ordered[1:] == ordered[:-1]).all(axis=1).any():  # all different, so nothing else needs a look
            return frozen(np.arange(self.n_servers))
        keys: dict[bytes, int] = {}
        capacities = [row.tobytes() for row in np.ascontiguousarray(self.capacities + 0.0)]
        alike = Counter(capacities)
        # when everybody may run everywhere (or on one row), the columns cannot differ
        same = len(alike) == self.n_servers or bool(self.eligible.all())
        columns = None if same else np.ascontiguousarray(self.eligible.T)
        classes = np.empty(self.n_servers, dtype=np.int64)
        for s, key in enumerate(capacities):
            if alike[key] > 1:  # users' columns are looked at only where capacities do not tell servers apart
                if columns is not None:
                    key += columns[s].tobytes()
                if self.demands.ndim == 3:
                    key += (self.demands[:, s, :] + 0.0).tobytes()
            classes[s] = keys.setdefault(key, len(keys))
        return frozen(classes)

    def spread(self, tasks_by_class: Float) -> Float:
        """Tasks on `merged` server rows spread equally over the identical servers they stand for.

        Parameters
        ----------
        tasks_by_class : ndarray of shape (n_users, n_classes)

        Returns
        -------
        ndarray of shape (n_users, n_servers)
        """
        classes = self.server_classes
        portion = self.counts / np.bincount(classes, weights=self.counts)[classes]
        return tasks_by_class[:, classes] * portion

    @cached_property
    def _coefficients(self) -> WeakKeyDictionary[Any, Float] | None:
        """What `per_task` of shares said here, as long as these are in use; None in windows, which are many."""
        return WeakKeyDictionary()

    # -- values by user ---------------------------------------------------------------------------------------

    def per_user(self, value: Any, name: str, default: float | None = None, unlimited: bool = False) -> Float:
        """Turn a scalar, an array or a dict by user into an array of shape (n_users,).

        Parameters
        ----------
        value : scalar, array-like of shape (n_users,), dict by user, or None
            Users that a dict leaves out get ``default``. A series with labels is a dict.
        name : str
            What it is, for messages.
        default : float, optional
            Value for ``None`` and for users left out of a dict.
        unlimited : bool, default False
            Read ``None`` entries as infinity.

        Returns
        -------
        ndarray of shape (n_users,)

        Raises
        ------
        InvalidInstance
            If it has the wrong length, an unknown user, or something that is no number.
        """
        n, value = self.n_users, by_label(value)
        if (
            self._parent is not None
            and value is not None
            and (isinstance(value, Mapping) or np.shape(value) == (self._parent[0].n_users,))
        ):  # written for the instance that these users were selected from
            parent, rows = self._parent
            return parent.per_user(value, name, default, unlimited)[rows]
        if isinstance(value, Mapping):
            unknown = [u for u in value if u not in self._position]
            if unknown:
                raise InvalidInstance(f"{name} names an unknown user {unknown[0]!r}; {nearest(unknown[0], self.users)}")
            missing = [u for u in self.users if u not in value]
            if missing and default is None:
                raise InvalidInstance(f"{name} has no value for user {missing[0]!r}; give one for every user")
            others = left_out(value, name, missing, (n,), default)
            value = [value.get(u, other) for u, other in zip(self.users, others, strict=True)]
        if value is None:
            if default is None:
                raise InvalidInstance(f"{name} is None; give a number, an array of {n} or a dict by user")
            return np.broadcast_to(np.float64(default), (n,))
        boxed = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype.kind == "O")
        if unlimited and boxed:
            value = [np.inf if v is None else v for v in value]
        array = as_floats(value, name)
        if array.ndim == 0:
            return np.broadcast_to(np.float64(array), (n,))
        if array.shape != (n,):
            raise InvalidInstance(f"{name} has shape {array.shape}; give a scalar, ({n},) or a dict by user")
        return array

    @cached_property
    def _position(self) -> dict[str, int]:
        return {u: j for j, u in enumerate(self.users)}

    def user_index(self, user: str | int) -> int:
        """Index of a user given by label or by index.

        Parameters
        ----------
        user : str or int
            Label or index.

        Returns
        -------
        int

        Raises
        ------
        InvalidInstance
            If there is no such user.
        """
        return index_of(user, self._position, self.n_users, "user")

    def resource_index(self, resource: str | int) -> int:
        """Index of a resource given by label or by index; `InvalidInstance` if there is none."""
        return index_of(resource, {r: i for i, r in enumerate(self.resources)}, self.n_resources, "resource")
