"""The problem data: demands, capacities, weights, task limits and eligibility. Immutable, checked once, when made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt import validation
from fairopt.dominance import Dominance, dominance_of
from fairopt.errors import InvalidInstance, nearest
from fairopt.labels import by_label, joined
from fairopt.runtime.lazy import later

__all__ = ["Instance"]

Float = NDArray[np.float64]


class Instance:
    """Users' demands per task, servers' capacities, weights, task limits, and where users may run.

    Tasks are divisible: an allocation may give a user 2.5 of them, unless whole ones are asked for.

    Parameters
    ----------
    demands : array-like of shape (n_users, n_resources) or (n_users, n_servers, n_resources)
        Units of each resource that one task takes, in the longer shape on each server; at least one is positive.
    capacities : array-like of shape (n_resources,) or (n_servers, n_resources), or dict by resource
        Units of each resource on each server; a single row is one pool.
    weights : scalar, array-like of shape (n_users,) or dict by user, optional
        Entitlements, positive: policies compare shares per weight. Default 1, also for users that a dict leaves out.
    task_limits : scalar, array-like of shape (n_users,) or dict by user, optional
        Most tasks of each user, from 0; ``None`` or infinity for no limit, as for users that a dict leaves out.
    eligible : array-like of bool of shape (n_users, n_servers), or dict of server labels by user, optional
        Where users may run. Default everywhere, also for users that a dict leaves out.
    counts : array-like of int of shape (n_servers,), optional
        Number of identical servers that each server row stands for. Default 1.
    users, resources, servers : sequence of str, optional
        Labels, unique. Default ``user1``, ``resource1``, ``server1``, ...
    server_types : sequence of str of shape (n_servers,), optional
        The kind of each server, as the model of its GPUs, for reports by type. Changes no allocation.
    units : sequence of str of shape (n_resources,) or dict by resource, optional
        The unit of each resource, as ``{"memory": "GiB"}``, for tables and axes. Nothing is converted.
    notes : sequence of str, optional
        Sentences on what a reader left out or assumed. Equality and files ignore them.

    Raises
    ------
    InvalidInstance
        If anything is wrong; the message names the user, the resource, the value and the fix.

    Notes
    -----
    Arrays of floats are kept as read-only views, not copied: those of float32 stay so, though type hints say float64. A
    user is not eligible on a server that lacks a resource it needs.

    Data frames and series (of pandas, Polars, pyarrow) are joined by label, never by position: ``demands`` by user and
    resource, ``capacities`` by resource or by server and resource, and so on. Their labels must be the same in all, in
    any order, and the same as ``users``, ``resources`` and ``servers``, which default to those of ``demands`` and then
    of ``capacities``. Arrays are in that order. An index that only counts rows is not a label.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance(
    ...     demands=[[40, 8, 8], [8, 5, 1]], capacities=[200, 200, 200],
    ...     users=["batch", "web"], resources=["bandwidth", "memory", "cpu"],
    ... )
    >>> cluster
    Instance(2 users x 3 resources on 1 server)
    >>> cluster.dominant_shares
    array([0.2 , 0.04])

    Capacities by resource, as a dict or a series of pandas:

    >>> fo.Instance([[2, 3]], {"memory": 6, "cpu": 4}, resources=["cpu", "memory"]).capacities
    array([[4., 6.]])
    """

    _checked = False

    def __init__(
        self,
        demands: ArrayLike,
        capacities: ArrayLike | Mapping[str, Any],
        *,
        weights: Any = None,
        task_limits: Any = None,
        eligible: Any = None,
        counts: ArrayLike | None = None,
        users: Sequence[str] | None = None,
        resources: Sequence[str] | None = None,
        servers: Sequence[str] | None = None,
        server_types: Sequence[str] | None = None,
        units: Sequence[str] | Mapping[str, str] | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        values, known = joined(
            dict(
                demands=demands,
                capacities=capacities,
                weights=weights,
                task_limits=task_limits,
                eligible=eligible,
                counts=counts,
                server_types=server_types,
                units=units,
            ),
            dict(user=users, server=servers, resource=resources),
        )
        caps = validation.as_floats(values["capacities"], "capacities")
        if caps.ndim == 1:
            caps = caps[None, :]
        if caps.ndim != 2 or caps.shape[0] == 0 or caps.shape[1] == 0:
            raise InvalidInstance(
                f"capacities have shape {np.shape(values['capacities'])}; give (n_resources,) for one pool "
                "or (n_servers, n_resources), with at least one of each"
            )
        n_servers, n_resources = caps.shape
        dem = validation.as_floats(values["demands"], "demands")
        if dem.size == 0 and dem.ndim < 2:
            dem = dem.reshape(0, n_resources)
        if dem.ndim not in (2, 3) or dem.shape[-1] != n_resources or (dem.ndim == 3 and dem.shape[1] != n_servers):
            raise InvalidInstance(
                f"demands have shape {dem.shape}, but capacities name {n_servers} server(s) and {n_resources} "
                f"resource(s); give (n_users, {n_resources}) or (n_users, {n_servers}, {n_resources})"
            )
        n_users = dem.shape[0]
        self._parent: tuple[Instance, NDArray[np.int64] | slice] | None = None
        self._merged_from: Instance | None = None  # whose identical servers were merged
        self._users = validation.labels(known["user"], n_users, "user")
        self._resources = validation.labels(known["resource"], n_resources, "resource")
        self._servers = validation.labels(known["server"], n_servers, "server")
        self.demands: Float = dem
        self.capacities: Float = caps
        names = self._labels
        self.server_types: tuple[str, ...] | None = validation.types_of_servers(values["server_types"], names.servers)
        self.units: tuple[str, ...] | None = validation.units_of_resources(values["units"], names.resources)
        self.notes: tuple[str, ...] = validation.texts(notes, "notes")
        validation.check_numbers(dem, caps, names)
        self.weights: Float = validation.frozen(self.per_user(values["weights"], "weights", default=1.0))
        right = (self.weights > 0) & (self.weights < np.inf)
        validation.check_per_user(self.weights, "weights", right, "give a positive finite number", names.users)
        validation.check_spread(self.weights, names.users)
        limits = self.per_user(values["task_limits"], "task_limits", default=np.inf, unlimited=True)
        self.task_limits: Float = validation.frozen(limits)
        validation.check_per_user(limits, "task_limits", limits >= 0, "give 0 or more, or None", names.users)
        self.counts: NDArray[np.int64] = validation.frozen(validation.checked_counts(values["counts"], names.servers))
        allowed = validation.checked_eligibility(values["eligible"], dem, caps, names)
        self.eligible: NDArray[np.bool_] = validation.frozen(allowed)
        self._checked = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._checked and not name.startswith("_"):
            raise AttributeError(f"an Instance is immutable; make a new one with .replace({name}=...)")
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._arguments(), self._parent, self._merged_from)

    # -- new instances ----------------------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Instance:
        """A new instance with some arguments of the constructor changed.

        Parameters
        ----------
        **changes
            Any argument of `Instance`. Users that a dict leaves out keep their values, and so in `with_weights`,
            `with_task_limits` and `with_eligible`; data frames and series are joined by label.

        Returns
        -------
        Instance

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1, 2]], [4, 4]).replace(task_limits=1).task_limits
        array([1.])
        >>> fo.Instance([[1], [1]], [4], weights=[3, 3], users=["batch", "web"]).replace(weights={"web": 2}).weights
        array([3., 2.])
        """
        arguments = self._arguments()
        unknown = set(changes) - set(arguments)
        if unknown:
            raise InvalidInstance(f"an Instance has no {sorted(unknown)[0]!r}; {nearest(min(unknown), arguments)}")
        for name in ("weights", "task_limits", "eligible"):
            if isinstance(changes.get(name), Mapping):
                changes[name] = validation.Changes(changes[name], arguments[name])
        return Instance(**{**arguments, **changes})

    def _arguments(self) -> dict[str, Any]:
        return dict(
            demands=self.demands,
            capacities=self.capacities,
            weights=self.weights,
            task_limits=self.task_limits,
            eligible=self.eligible,
            counts=self.counts,
            users=self._users,
            resources=self._resources,
            servers=self._servers,
            server_types=self.server_types,
            units=self.units,
            notes=self.notes,
        )

    def with_demands(self, demands: ArrayLike) -> Instance:
        """The same cluster with other demands per task.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1, 2]], [4, 4]).with_demands([[2, 1]]).dominant_shares
        array([0.5])
        """
        return self.replace(demands=demands)

    def with_capacities(self, capacities: ArrayLike | Mapping[str, Any]) -> Instance:
        """The same users with other capacities.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.DRF().allocate(fo.Instance([[1, 2]], [4, 4]).with_capacities([8, 6])).tasks
        array([3.])
        """
        return self.replace(capacities=capacities)

    def with_weights(self, weights: Any) -> Instance:
        """The same cluster with other weights; users that a dict leaves out keep theirs.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.DRF().allocate(fo.Instance([[1], [1]], [4]).with_weights({"user2": 3})).tasks
        array([1., 3.])
        """
        return self.replace(weights=weights)

    def with_task_limits(self, task_limits: Any) -> Instance:
        """The same cluster with other task limits; users that a dict leaves out keep theirs.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.DRF().allocate(fo.Instance([[1], [1]], [4]).with_task_limits([1, None])).tasks
        array([1., 3.])
        """
        return self.replace(task_limits=task_limits)

    def with_eligible(self, eligible: Any) -> Instance:
        """The same cluster with other placement constraints; users that a dict leaves out keep theirs.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1], [1]], [[4], [2]], servers=["large", "small"])
        >>> cluster.with_eligible({"user2": ["small"]}).eligible
        array([[ True,  True],
               [False,  True]])
        """
        return self.replace(eligible=eligible)

    def select_users(self, chosen: ArrayLike) -> Instance:
        """The instance of some of the users only, on the same servers.

        Parameters
        ----------
        chosen : array-like of int or of bool
            Indices or a mask.

        Returns
        -------
        Instance

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1, 2], [2, 1], [1, 1]], [4, 4]).select_users([0, 2]).users
        ('user1', 'user3')
        """
        try:
            rows = np.arange(self.n_users)[np.asarray(chosen) if np.size(chosen) else slice(0)]
        except IndexError as error:
            raise InvalidInstance(f"select_users: {error}; give indices below {self.n_users}, or a mask") from error
        return self.replace(
            demands=self.demands[rows],
            weights=self.weights[rows],
            task_limits=self.task_limits[rows],
            eligible=self.eligible[rows],
            users=[self.users[j] for j in rows],
        )

    def _taking_part(self, chosen: ArrayLike) -> Instance:
        """`select_users` for a solve (indices or a mask): values given for all users and `_total_weight` stay."""
        rows = np.arange(self.n_users)[np.asarray(chosen)]
        part = self.replace(
            demands=self.demands[rows],
            weights=self.weights[rows],
            task_limits=self.task_limits[rows],
            eligible=self.eligible[rows],
            users=None,
        )
        part._parent = (self, rows)  # labels too come from there, when asked for
        return part

    def _window(self, rows: slice, ratios: Float | None = None, demands: Float | None = None) -> Instance:
        """`_taking_part` of a slice ``rows`` of users, not copied or checked; ``ratios``, ``demands`` where known."""
        part = object.__new__(Instance)
        part.__dict__.update(
            demands=self.demands[rows] if demands is None else demands,
            weights=self.weights[rows],
            task_limits=self.task_limits[rows],
            eligible=self.eligible[rows],
            capacities=self.capacities,
            counts=self.counts,
            total_capacities=self.total_capacities,
            _users=None,
            _resources=self._resources,
            _servers=self._servers,
            server_types=self.server_types,
            units=self.units,
            notes=self.notes,
            _parent=(self, rows),
            _merged_from=None,
            _checked=True,
        )
        if ratios is not None:
            part.__dict__["ratios"] = ratios
        return part

    def _with_rows(self, demands: Any) -> Instance:
        """The pool with other users, of whom only demands are known: rows of numbers, not copied or checked."""
        n, part = len(demands), self._window(slice(0))
        part.__dict__.update(
            demands=demands,
            weights=np.broadcast_to(1.0, n),
            task_limits=np.broadcast_to(np.inf, n),
            eligible=np.broadcast_to(np.True_, (n, 1)),
            _parent=None,
        )
        return part

    def _server_window(self, rows: slice) -> Instance:
        """The instance on a slice ``rows`` of the servers, not copied or checked; users who may run on none remain."""
        part = object.__new__(Instance)
        demands = self.demands if self.demands.ndim == 2 else self.demands[:, rows]
        part.__dict__.update(
            self.__dict__,
            demands=demands,
            capacities=self.capacities[rows],
            counts=self.counts[rows],
            eligible=self.eligible[:, rows],
            _servers=self.servers[rows] if self._servers else None,
            server_types=None if self.server_types is None else self.server_types[rows],
            _merged_from=None,
        )
        if not self._everywhere:
            part.__dict__.pop("_everywhere", None)
        for name in ("ratios", "dominant_shares", "total_capacities", "tasks_alone", "_server_classes", "servers"):
            part.__dict__.pop(name, None)
        if "dominance" in part.__dict__:
            part.__dict__["dominance"] = self.dominance.on(rows)
        return part

    def pooled(self) -> Instance:
        """The same users on one pool with the capacity of all servers.

        Returns
        -------
        Instance

        Raises
        ------
        InvalidInstance
            If demands differ by server.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1, 2]], [[4, 4], [8, 2]], counts=[10, 1]).pooled().capacities
        array([[48., 42.]])
        """
        if self.demands.ndim == 3:
            raise InvalidInstance("demands differ by server, so a pool does not define them; give (n_users, m)")
        one = dict.fromkeys(("eligible", "counts", "servers", "server_types"))
        return self.replace(capacities=self.total_capacities, **one)

    def merged(self) -> Instance:
        """Identical servers as one row with a count: exact for divisible tasks, and done when solving.

        Returns
        -------
        Instance
            Servers that differ only in type share a row too, of a type as ``A10|T4``.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1, 2]], [[4, 4], [4, 4], [8, 2]]).merged().counts
        array([2, 1])
        """
        classes = self._server_classes
        n_classes = int(classes.max()) + 1
        if n_classes == self.n_servers:
            return self
        first = np.unique(classes, return_index=True)[1]
        merged = self.replace(
            demands=self.demands[:, first] if self.demands.ndim == 3 else self.demands,
            capacities=self.capacities[first],
            eligible=self.eligible[:, first],
            counts=np.bincount(classes, weights=self.counts, minlength=n_classes).astype(np.int64),
            servers=[self.servers[s] for s in first],
            server_types=None if self.server_types is None else validation.merged_types(self.server_types, classes),
        )
        merged._parent, merged._merged_from = self._parent, self
        return merged

    def individual(self) -> Instance:
        """Every server as a row of its own, ``name #1``, ``name #2``, ...: what whole tasks have to fit on.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1]], [[4], [8]], counts=[2, 1], servers=["small", "large"]).individual().servers
        ('small #1', 'small #2', 'large')
        """
        if (self.counts == 1).all():
            return self
        row = np.repeat(np.arange(self.n_servers), self.counts)
        names = [
            name if count == 1 else f"{name} #{k + 1}"
            for name, count in zip(self.servers, self.counts.tolist(), strict=True)
            for k in range(count)
        ]
        made = self.replace(
            demands=self.demands[:, row] if self.demands.ndim == 3 else self.demands,
            capacities=self.capacities[row],
            eligible=self.eligible[:, row],
            counts=None,
            servers=names,
            server_types=None if self.server_types is None else [self.server_types[s] for s in row],
        )
        made._parent = self._parent
        return made

    def _by_row(self, individual: Float) -> Float:
        """Values of shape (n_users, number of servers) by individual server, added up: shape (n_users, n_servers)."""
        return np.add.reduceat(individual, np.cumsum(self.counts) - self.counts, axis=1)

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
        return tuple(self._labels.users)

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Labels of the resources."""
        return tuple(self._labels.resources)

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
        return tuple(self._labels.servers)

    @property
    def _labels(self) -> validation.Labels:
        """Labels as they were given, or by number."""
        return validation.Labels(
            self._users or validation.default_labels("user", self.n_users),
            self._resources or validation.default_labels("resource", self.n_resources),
            self._servers or validation.default_labels("server", self.n_servers),
        )

    @property
    def _chosen_from(self) -> tuple[Any, NDArray[np.int64] | slice] | None:
        """The instance on the same servers that these users were chosen from, and their indices; or None."""
        if self._parent is None or any(
            not np.array_equal(getattr(self._parent[0], name), getattr(self, name)) for name in ("capacities", "counts")
        ):
            return None
        return self._parent

    @property
    def _is_window(self) -> bool:
        """Whether it is a `_window` of another instance."""
        return self._parent is not None and isinstance(self._parent[1], slice)

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
        return validation.frozen(self.counts.astype(float) @ self.capacities)

    @cached_property
    def ratios(self) -> Float:
        """Fraction of each resource's total capacity that one task takes, in the shape of ``demands``."""
        total = self.total_capacities
        return validation.frozen(self.demands / np.where(total > 0, total, 1.0))

    @property
    def _cheapest_ratios(self) -> Float:
        """Smallest `ratios` over eligible servers, shape (n_users, n_resources)."""
        if self.demands.ndim == 2:
            return self.ratios
        return np.where(self.eligible[:, :, None], self.ratios, np.inf).min(axis=1)

    def _common_level(self, per_task: Float, weights: Float | None = None) -> float:
        """The level at which shares, equal per weight, fill a resource; ``per_task`` is of shape (n_users,).

        Users of a zero share take no part. Exact on one pool without limits; an estimate where demands or capacities
        differ by server. ``weights`` are others than the instance's. 0 or infinite beyond the range of floats.
        """
        if not (per_task > 0).any():
            return 1.0
        weights = self.weights if weights is None else weights
        with np.errstate(over="ignore"):  # an infinite load is a level of 0
            tasks = np.divide(weights, per_task, out=np.zeros(self.n_users), where=per_task > 0)
            load = float((tasks @ self._cheapest_ratios).max())
        if load == 0:  # no user needs any one resource everywhere
            mu = self.dominant_shares
            best = np.where(self.eligible, mu, np.inf).min(axis=1) if mu.ndim == 2 else mu
            load = float(tasks @ best)
        return 1.0 / load if load else np.inf

    @cached_property
    def dominant_shares(self) -> Float:
        """Largest of the `ratios` of each user's task, shape (n_users,) or (n_users, n_servers)."""
        ratios = self.ratios
        largest = ratios[..., 0].copy()
        for i in range(1, self.n_resources):  # column by column: a row-wise max of a narrow array is slow
            np.maximum(largest, ratios[..., i], out=largest)
        return validation.frozen(largest)

    @cached_property
    def _everywhere(self) -> bool:
        """Whether all users may run on every server row."""
        return bool(self.eligible.all())

    @cached_property
    def dominance(self) -> Dominance:
        """Dominant users of each resource of each server, and the requests of these and of the others."""
        return dominance_of(self.per_server_demands, self.capacities, None if self._everywhere else self.eligible)

    @property
    def _total_weight(self) -> float:
        """Sum of all weights, those of users left out by `taking_part` included."""
        return float((self if self._parent is None else self._parent[0]).weights.sum())

    @cached_property
    def tasks_alone(self) -> Float:
        """Tasks that each user could run alone on each server row, counts included, shape (n_users, n_servers).

        Zero where the user is not eligible; without regard to task limits.
        """
        return validation.frozen(self._tasks_alone_within(np.ones(self.n_resources)))

    def _tasks_alone_within(self, usable: Float, everywhere: bool = False) -> Float:
        """`tasks_alone` of fractions ``usable``, (n_resources,), of capacities; ``everywhere``: eligible or not."""
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
        """Tasks of each user on ``w_j / sum w`` of every server where it may run, at most its limit, shape (n_users,).

        Weights are relative to `total_weight`.
        """
        return np.minimum(self.weights / self._total_weight * self.tasks_alone.sum(axis=1), self.task_limits)

    @cached_property
    def _server_classes(self) -> NDArray[np.int64]:
        """Class of each server: servers alike in capacities, eligibility and demands share one, shape (n_servers,)."""
        ordered = self.capacities[np.lexsort(self.capacities.T)]
        if not (ordered[1:] == ordered[:-1]).all(axis=1).any():  # all different, so nothing else needs a look
            return validation.frozen(np.arange(self.n_servers))
        keys: dict[bytes, int] = {}
        capacities = [row.tobytes() for row in np.ascontiguousarray(self.capacities + 0.0)]
        alike = Counter(capacities)
        # where all users may run everywhere, the columns cannot differ
        same = len(alike) == self.n_servers or bool(self.eligible.all())
        columns = None if same else np.ascontiguousarray(self.eligible.T)
        classes = np.empty(self.n_servers, dtype=np.int64)
        for s, key in enumerate(capacities):
            if alike[key] > 1:  # columns of users only matter where capacities are equal
                if columns is not None:
                    key += columns[s].tobytes()
                if self.demands.ndim == 3:
                    key += (self.demands[:, s, :] + 0.0).tobytes()
            classes[s] = keys.setdefault(key, len(keys))
        return validation.frozen(classes)

    def _spread(self, tasks_by_class: Float) -> Float:
        """Spread tasks of `merged`, (n_users, n_classes, ...), over equal servers: shape (n_users, n_servers, ...)."""
        classes = self._server_classes
        portion = self.counts / np.bincount(classes, weights=self.counts)[classes]
        return tasks_by_class[:, classes] * portion.reshape(-1, *[1] * (tasks_by_class.ndim - 2))

    def _sum_by_class(self, by_row: Float) -> Float:
        """Sum values of (n_users, n_servers, ...) over identical servers, to (n_users, n_classes, ...)."""
        out = np.zeros((len(by_row), int(self._server_classes.max()) + 1, *by_row.shape[2:]))
        np.add.at(out.swapaxes(0, 1), self._server_classes, by_row.swapaxes(0, 1))
        return out

    # -- values by user ---------------------------------------------------------------------------------------

    def per_user(self, value: Any, name: str, default: float | None = None, unlimited: bool = False) -> Float:
        """Turn a scalar, an array or a dict by user into an array of shape (n_users,).

        Parameters
        ----------
        value : scalar, array-like of shape (n_users,), dict by user, or None
            A series with labels is a dict.
        name : str
            Name of the value, for messages.
        default : float, optional
            Value for ``None`` and for users that a dict leaves out.
        unlimited : bool, default False
            Read ``None`` entries as infinity.

        Returns
        -------
        ndarray of shape (n_users,)

        Raises
        ------
        InvalidInstance
            If the length is wrong, a user unknown, or an entry not a number.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1], [1]], [4], users=["batch", "web"])
        >>> cluster.per_user({"web": 3}, "priority", default=1.0)
        array([1., 3.])
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
            others = validation.left_out(value, name, missing, (n,), default)
            value = [value.get(u, other) for u, other in zip(self.users, others, strict=True)]
        if value is None:
            if default is None:
                raise InvalidInstance(f"{name} is None; give a number, an array of {n} or a dict by user")
            return np.broadcast_to(np.float64(default), (n,))
        boxed = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.dtype.kind == "O")
        if unlimited and boxed:
            value = [np.inf if v is None else v for v in value]
        array = validation.as_floats(value, name)
        if array.ndim == 0:
            return np.broadcast_to(np.float64(array), (n,))
        if array.shape != (n,):
            raise InvalidInstance(f"{name} has shape {array.shape}; give a scalar, ({n},) or a dict by user")
        return array

    @cached_property
    def _position(self) -> dict[str, int]:
        return {u: j for j, u in enumerate(self.users)}

    def user_index(self, user: str | int) -> int:
        """Index of a user given by label or by index; `InvalidInstance` if there is none.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1], [1]], [4], users=["batch", "web"]).user_index("web")
        1
        """
        return validation.index_of(user, self._position, self.n_users, "user")

    def resource_index(self, resource: str | int) -> int:
        """Index of a resource given by label or by index; `InvalidInstance` if there is none.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1, 2]], [4, 8], resources=["cpu", "memory"]).resource_index("memory")
        1
        """
        return validation.index_of(resource, {r: i for i, r in enumerate(self.resources)}, self.n_resources, "resource")

    # -- other forms ------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The instance as plain lists, numbers and strings, as `from_dict` and the JSON schema take it.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1, 2]], [4, 8])
        >>> fo.Instance.from_dict(cluster.to_dict()) == cluster
        True
        """
        return {
            key: value.tolist() if isinstance(value, np.ndarray) else None if value is None else list(value)
            for key, value in entries_of(self).items()
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """An instance from the dict of `to_dict`.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance.from_dict({"demands": [[1, 2]], "capacities": [4, 8], "users": ["web"]})
        Instance(1 user x 2 resources on 1 server)
        """
        try:
            return cls(**data)
        except TypeError as error:
            raise InvalidInstance(f"the dict is not an instance ({error}); give one that to_dict made") from error

    @classmethod
    def from_frames(cls, users: Any, servers: Any, demands: Any = None) -> Instance:
        """An instance from data frames of pandas, Polars, pyarrow or other libraries that narwhals reads.

        Parameters
        ----------
        users : data frame
            A row per user: ``user``, optionally ``weight`` (null or NaN: 1), ``task_limit`` (null or NaN: none) and
            ``servers`` (names as a list or joined by ``|``, null: everywhere); every other column is a resource, in
            units per task. Names are text or whole numbers. Named levels of an index of pandas count as columns.
        servers : data frame
            A row per server: ``server``, optionally ``count`` and ``type``; every other column is a resource, in units
            on each server. A column ``memory [GiB]`` is the resource ``memory`` in GiB, in both frames.
        demands : data frame, optional
            Where demands differ by server: a row for each user and server where it may run, with ``user``, ``server``
            and the resources, which ``users`` then does not have.

        Returns
        -------
        Instance
            Demands in single precision where all columns of resources are, else in double; so are capacities.

        Raises
        ------
        InvalidInstance
            Names the frame, the row (counted from 0), the column, the value and the fix. Text is not taken for numbers.
        MissingExtra
            If narwhals is not installed.

        Examples
        --------
        >>> import pandas as pd
        >>> import fairopt as fo
        >>> users = pd.DataFrame({"user": ["batch", "web"], "cpu": [4, 1], "memory [GiB]": [8.0, 2.5]})
        >>> servers = pd.DataFrame({"server": ["small", "large"], "count": [10, 2], "cpu": 16, "memory [GiB]": 64})
        >>> cluster = fo.Instance.from_frames(users, servers)
        >>> cluster
        Instance(2 users x 2 resources on 12 servers in 2 rows)
        >>> cluster.resource_titles
        ('cpu', 'memory (GiB)')
        """
        return later("fairopt.datasets:instance_of_frames")(users, servers, demands)

    def to_frames(self, backend: str = "pandas") -> tuple[Any, ...]:
        """The instance as data frames, which `from_frames` turns into an equal one, to the last bit.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default "pandas"
            The library.

        Returns
        -------
        tuple of data frames
            Users and servers, and demands if they differ by server. Columns of defaults only, as weights of 1, are left
            out; no task limit is infinity, ``servers`` are lists of names or None for everywhere. Single precision
            is kept.

        Raises
        ------
        InvalidInstance
            If a label cannot be in a table, as a resource called ``weight``.
        MissingExtra
            If the library is not installed.

        Examples
        --------
        >>> import fairopt as fo
        >>> users, servers = fo.Instance([[1, 2]], [4, 4], resources=["cpu", "memory"]).to_frames()
        >>> users
            user  cpu  memory
        0  user1  1.0     2.0
        """
        return later("fairopt.io.frames:to_frames")(self, backend)

    def plot(self, kind: str = "demands", *, ax: Any = None, users: Any = None, resources: Any = None) -> Any:
        """Draw how much users differ, as in Fig. 2 of Joe-Wong et al. (2013); needs the extra ``plots``.

        Parameters
        ----------
        kind : {"demands", "region"}, default "demands"
            Demands as lines in the plane of two resources, or the tasks that two users can run together.
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. Default: a new figure.
        users, resources : (str, str), optional
            The two users of ``region``, and the two resources of ``demands``, where there are more.

        Returns
        -------
        matplotlib.axes.Axes

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[40, 8], [8, 5]], [200, 200], resources=["cpu", "memory"])
        >>> axes = cluster.plot()
        >>> axes.figure.savefig("demands.png")  # doctest: +SKIP
        """
        return later("fairopt.plots:draw")(self, kind, ax, users, resources)

    # -- comparing and showing --------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instance):
            return NotImplemented
        names = ("demands", "capacities", "weights", "task_limits", "eligible", "counts")
        labels = ("users", "resources", "servers", "server_types", "units")
        return all(np.array_equal(getattr(self, a), getattr(other, a)) for a in names) and all(
            getattr(self, a) == getattr(other, a) for a in labels
        )

    __hash__ = None  # type: ignore[assignment]  # compared by content; too large to hash

    def _repr_html_(self) -> str | None:
        return later("fairopt.report.pages:instance_page")(self)

    def __repr__(self) -> str:
        total = int(self.counts.sum())
        classes = f" in {self.n_servers} rows" if total != self.n_servers else ""
        parts = [
            f"{self.n_users} user{'s' * (self.n_users != 1)} x {self.n_resources} "
            f"resource{'s' * (self.n_resources != 1)} on {total} server{'s' * (total != 1)}{classes}"
        ]
        if self.n_users and np.ptp(self.weights) > 0:
            parts.append("weights")
        if np.isfinite(self.task_limits).any():
            parts.append("task limits")
        if not self.eligible.all():
            parts.append("placement constraints")
        return f"Instance({', '.join(parts)})"


def _again(arguments: Mapping[str, Any], parent: Any, merged_from: Instance | None) -> Instance:
    """Rebuild a copied or unpickled instance, so that its arrays are read-only again."""
    made = Instance(**arguments)
    made._parent, made._merged_from = parent, merged_from
    return made


def entries_of(instance: Instance) -> dict[str, Any]:
    """The entries of `Instance.to_dict`, with arrays and tuples in place of lists."""
    limits = instance.task_limits.astype(object)
    limits[np.isinf(instance.task_limits)] = None
    return {
        "users": instance.users,
        "resources": instance.resources,
        "servers": instance.servers,
        "server_types": instance.server_types,
        "units": instance.units,
        "demands": instance.demands,
        "capacities": instance.capacities,
        "weights": instance.weights,
        "task_limits": limits,
        "eligible": None if instance.eligible.all() else instance.eligible,
        "counts": instance.counts,
    }
