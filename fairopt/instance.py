"""The question: who needs what, who may run where, and what there is. Immutable, checked once, when made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.errors import InvalidInstance, nearest
from fairopt.exchange import Exchange
from fairopt.labels import joined
from fairopt.validation import (
    Changes,
    as_floats,
    check_numbers,
    check_per_user,
    check_somewhere_to_run,
    checked_counts,
    checked_eligibility,
    frozen,
    labels,
    merged_types,
    texts,
    types_of_servers,
    units_of_resources,
)

__all__ = ["Instance"]

Float = NDArray[np.floating[Any]]


class Instance(Exchange):
    """Users' demands per task, servers' capacities, entitlements, task limits, and who may run where.

    Parameters
    ----------
    demands : array-like of shape (n_users, n_resources) or (n_users, n_servers, n_resources)
        Units of each resource that one task takes; zeros allowed, not a whole row of zeros. The longer shape
        says what a task of each user takes on each server.
    capacities : array-like of shape (n_resources,) or (n_servers, n_resources), or dict by resource
        Units of each resource on each server; a single row is one pool.
    weights : scalar, array-like of shape (n_users,) or dict by user, optional
        Entitlements, positive. Default 1, also for users that a dict leaves out.
    task_limits : scalar, array-like of shape (n_users,) or dict by user, optional
        At most so many tasks; ``None`` or infinity for no limit, as for users that a dict leaves out. A limit of 0 is
        legal.
    eligible : array-like of bool of shape (n_users, n_servers), or dict of server labels by user, optional
        Who may run where. Default everywhere, also for users that a dict leaves out.
    counts : array-like of int of shape (n_servers,), optional
        A server row with count q stands for q identical servers. Default 1.
    users, resources, servers : sequence of str, optional
        Labels, unique. Default ``user1``, ``resource1``, ``server1``, ...
    server_types : sequence of str of shape (n_servers,), optional
        What kind of server each row is, as the model of its GPUs, for reports by type. Changes no allocation.
    units : sequence of str of shape (n_resources,) or dict by resource, optional
        What each resource is counted in, as ``{"memory": "GiB"}``, for tables and axes. Nothing is converted.
    notes : sequence of str, optional
        What a reader left out or assumed, in sentences. They are no part of the question: instances that differ in
        notes only are equal, and files do not keep them.

    Raises
    ------
    InvalidInstance
        If anything is wrong; the message names the user, the resource, the value and the fix.

    Notes
    -----
    Arrays of floats are kept as read-only views, not copied. A server that lacks a resource which a user
    needs counts as ineligible for that user.

    Data frames and series (of pandas, Polars, pyarrow) are joined by label, never by position: ``demands`` by user and
    resource, ``capacities`` by resource or by server and resource, and so on. Their labels must be the same in all, in
    any order, and the same as ``users``, ``resources`` and ``servers``; where these are not given, ``demands`` and
    then ``capacities`` say them. Arrays are in that order. An index that only counts rows is no label.

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

    A dict, or a series of pandas, says which capacity is whose:

    >>> fo.Instance([[2, 3]], {"memory": 6, "cpu": 4}, resources=["cpu", "memory"]).capacities
    array([[4., 6.]])
    """

    _checked = False

    def __init__(
        self,
        demands: ArrayLike,
        capacities: ArrayLike,
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
            dict(demands=demands, capacities=capacities, weights=weights, task_limits=task_limits, eligible=eligible,
                 counts=counts, server_types=server_types, units=units),
            dict(user=users, server=servers, resource=resources),
        )  # fmt: skip
        caps = as_floats(values["capacities"], "capacities")
        if caps.ndim == 1:
            caps = caps[None, :]
        if caps.ndim != 2 or caps.shape[0] == 0 or caps.shape[1] == 0:
            raise InvalidInstance(
                f"capacities have shape {np.shape(values['capacities'])}; give (n_resources,) for one pool "
                "or (n_servers, n_resources), with at least one of each"
            )
        n_servers, n_resources = caps.shape
        dem = as_floats(values["demands"], "demands")
        if dem.size == 0 and dem.ndim < 2:
            dem = dem.reshape(0, n_resources)
        if dem.ndim not in (2, 3) or dem.shape[-1] != n_resources or (dem.ndim == 3 and dem.shape[1] != n_servers):
            raise InvalidInstance(
                f"demands have shape {dem.shape}, but capacities name {n_servers} server(s) and {n_resources} "
                f"resource(s); give (n_users, {n_resources}) or (n_users, {n_servers}, {n_resources})"
            )
        n_users = dem.shape[0]
        self._parent: tuple[Instance, NDArray[np.int64] | slice] | None = None
        self._merged_from: Instance | None = None
        self._users = labels(known["user"], n_users, "user")
        self._resources = labels(known["resource"], n_resources, "resource")
        self._servers = labels(known["server"], n_servers, "server")
        self.demands: Float = dem
        self.capacities: Float = caps
        self.server_types: tuple[str, ...] | None = types_of_servers(self, values["server_types"])
        self.units: tuple[str, ...] | None = units_of_resources(self, values["units"])
        self.notes: tuple[str, ...] = texts(notes, "notes")
        check_numbers(self)
        self.weights: Float = frozen(self.per_user(values["weights"], "weights", default=1.0))
        check_per_user(self, self.weights, "weights", self.weights > 0, "give a positive finite number")
        limits = self.per_user(values["task_limits"], "task_limits", default=np.inf, unlimited=True)
        self.task_limits: Float = frozen(limits)
        check_per_user(self, self.task_limits, "task_limits", self.task_limits >= 0, "give 0 or more, or None", True)
        self.counts: NDArray[np.int64] = frozen(checked_counts(self, values["counts"]))
        self.eligible: NDArray[np.bool_] = frozen(checked_eligibility(self, values["eligible"]))
        check_somewhere_to_run(self)
        self._checked = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._checked and not name.startswith("_") and name not in type(self).__dict__:
            raise AttributeError(f"an Instance is immutable; make a new one with .replace({name}=...)")
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = self._arguments()
        return _again, (arguments, self._parent, self._merged_from)

    # -- new instances ----------------------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Instance:
        """A new instance with some arguments of the constructor changed.

        Parameters
        ----------
        **changes
            Any argument of `Instance`. Users that a dict by user leaves out keep what they have, and so they do in
            `with_weights`, `with_task_limits` and `with_eligible`; data frames and series are joined by label.

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
                changes[name] = Changes(changes[name], arguments[name])
        return Instance(**{**arguments, **changes})

    def _arguments(self) -> dict[str, Any]:
        return dict(
            demands=self.demands, capacities=self.capacities, weights=self.weights, task_limits=self.task_limits,
            eligible=self.eligible, counts=self.counts,
            users=self._users, resources=self._resources, servers=self._servers, server_types=self.server_types,
            units=self.units, notes=self.notes,
        )  # fmt: skip

    def with_demands(self, demands: ArrayLike) -> Instance:
        """The same cluster with other demands per task."""
        return self.replace(demands=demands)

    def with_capacities(self, capacities: ArrayLike) -> Instance:
        """The same users with other capacities."""
        return self.replace(capacities=capacities)

    def with_weights(self, weights: Any) -> Instance:
        """The same cluster with other entitlements; users that a dict leaves out keep theirs."""
        return self.replace(weights=weights)

    def with_task_limits(self, task_limits: Any) -> Instance:
        """The same cluster with other task limits; users that a dict leaves out keep theirs."""
        return self.replace(task_limits=task_limits)

    def with_eligible(self, eligible: Any) -> Instance:
        """The same cluster with other placement constraints; users that a dict leaves out keep theirs."""
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
        """
        try:
            rows = np.arange(self.n_users)[np.asarray(chosen)]
        except IndexError as error:
            raise InvalidInstance(f"select_users: {error}; give indices below {self.n_users}, or a mask") from error
        return self.replace(
            demands=self.demands[rows], weights=self.weights[rows], task_limits=self.task_limits[rows],
            eligible=self.eligible[rows], users=[self.users[j] for j in rows],
        )  # fmt: skip

    def taking_part(self, chosen: ArrayLike) -> Instance:
        """`select_users` for those who take part in a solve: the others still exist.

        Parameters
        ----------
        chosen : array-like of int or of bool
            Indices or a mask.

        Returns
        -------
        Instance
            Per-user values given for all users still fit, and entitlements are still relative to everybody's
            (`total_weight`).
        """
        rows = np.arange(self.n_users)[np.asarray(chosen)]
        part = self.replace(
            demands=self.demands[rows], weights=self.weights[rows], task_limits=self.task_limits[rows],
            eligible=self.eligible[rows], users=None,
        )  # fmt: skip
        part._parent = (self, rows)  # labels too come from there, when asked for
        return part

    def window(self, rows: slice, ratios: Float | None = None) -> Instance:
        """Users in a row, as views of this instance: nothing is copied and nothing checked again.

        Parameters
        ----------
        rows : slice
            Which users.
        ratios : ndarray of shape (n_rows, n_resources), optional
            Their ratios, where they are at hand.

        Returns
        -------
        Instance
            Per-user values given for all users still fit, as in `taking_part`.
        """
        part = object.__new__(Instance)
        part.__dict__.update(
            demands=self.demands[rows], capacities=self.capacities, weights=self.weights[rows],
            task_limits=self.task_limits[rows], counts=self.counts, eligible=self.eligible[rows],
            total_capacities=self.total_capacities, _users=None, _resources=self._resources, _servers=self._servers,
            server_types=self.server_types, units=self.units, notes=self.notes, _parent=(self, rows),
            _merged_from=None, _coefficients=None, _checked=True,
        )  # fmt: skip
        if ratios is not None:
            part.__dict__["ratios"] = ratios
        return part

    def server_window(self, rows: slice) -> Instance:
        """Some server rows by themselves, as views of this instance: nothing is copied and nothing checked again.

        Parameters
        ----------
        rows : slice
            Which server rows. Users who may run on none of them are still there.

        Returns
        -------
        Instance
        """
        part = object.__new__(Instance)
        demands = self.demands if self.demands.ndim == 2 else self.demands[:, rows]
        part.__dict__.update(
            self.__dict__, demands=demands, capacities=self.capacities[rows], counts=self.counts[rows],
            eligible=self.eligible[:, rows], _servers=self.servers[rows] if self._servers else None,
            server_types=None if self.server_types is None else self.server_types[rows], _merged_from=None,
        )  # fmt: skip
        if not self.everywhere:
            part.__dict__.pop("everywhere", None)
        names = "ratios", "dominant_shares", "total_capacities", "tasks_alone", "server_classes", "servers"
        for name in (*names, "_coefficients"):
            part.__dict__.pop(name, None)
        if "dominance" in part.__dict__:
            part.__dict__["dominance"] = self.dominance.on(rows)
        return part

    def pooled(self) -> Instance:
        """The same instance with the walls between servers taken away: one pool with all capacity.

        Returns
        -------
        Instance

        Raises
        ------
        InvalidInstance
            If demands differ by server, since a pool has no servers to differ.
        """
        if self.demands.ndim == 3:
            raise InvalidInstance("demands differ by server, so they have no meaning in a pool; give (n_users, m)")
        one = dict.fromkeys(("eligible", "counts", "servers", "server_types"))
        return self.replace(capacities=self.total_capacities, **one)

    def merged(self) -> Instance:
        """Identical servers as one row with a count: exact for divisible tasks, and done by default when solving.

        Returns
        -------
        Instance
            Servers that differ in type only share a row too, of a type as ``A10|T4``.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1, 2]], [[4, 4], [4, 4], [8, 2]]).merged().counts
        array([2, 1])
        """
        classes = self.server_classes
        n_classes = int(classes.max()) + 1
        if n_classes == self.n_servers:
            return self
        first = np.unique(classes, return_index=True)[1]
        labels = self.servers
        merged = self.replace(
            demands=self.demands[:, first] if self.demands.ndim == 3 else self.demands,
            capacities=self.capacities[first],
            eligible=self.eligible[:, first],
            counts=np.bincount(classes, weights=self.counts, minlength=n_classes).astype(np.int64),
            servers=[labels[s] for s in first],
            server_types=None if self.server_types is None else merged_types(self.server_types, classes),
        )
        merged._parent, merged._merged_from = self._parent, self
        return merged

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Instance):
            return NotImplemented
        names = ("demands", "capacities", "weights", "task_limits", "eligible", "counts")
        labels = ("users", "resources", "servers", "server_types", "units")
        return all(np.array_equal(getattr(self, a), getattr(other, a)) for a in names) and all(
            getattr(self, a) == getattr(other, a) for a in labels
        )

    __hash__ = None  # type: ignore[assignment]  # compared by content; too large to hash

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
