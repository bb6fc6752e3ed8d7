"""The problem data: demands, capacities, weights, task limits and eligibility. Immutable, and validated once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.errors import InvalidInstance, nearest
from fairopt.instance import validation
from fairopt.instance.dominance import Dominance, dominance_of
from fairopt.instance.in_fractions import InFractions
from fairopt.instance.labels import AXES, by_label, joined, whole_name
from fairopt.instance.limits import Limit, implied, limits_of, limits_on, limits_on_classes, masks_of
from fairopt.instance.teams import Teams, innermost_first, split_weights
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.hostlists import hostlist, names_of
from fairopt.runtime.lazy import later
from fairopt.runtime.ranges import in_range

T = TypeVar("T")

PER_USER = ("demands", "task_limits", "eligible", "guarantees", "rates", "held")  # beside weights
FRACTIONAL = ("demands", "capacities", "weights", "task_limits", "guarantees", "rates")  # arguments that are numbers


class Instance:
    """Users' demands per task, servers' capacities, weights, task limits, and where users may run.

    Tasks are divisible: an allocation may give a user 2.5 of them, unless whole tasks are requested.

    Parameters
    ----------
    demands : array-like of shape (n_users, n_resources) or (n_users, n_servers, n_resources)
        Units of each resource per task, for each server if 3-D; every user needs a positive amount of some resource.
    capacities : array-like of shape (n_resources,) or (n_servers, n_resources), or dict by resource
        Units of each resource on each server; a single row is one pool.
    weights : scalar, array-like of shape (n_users,) or dict by user or team, optional
        Positive entitlements: policies compare shares per weight. Default 1, also for users missing in a dict. The
        weight of a team counts in `OfTeam` and `HDRF`; for policies that compare users it is divided among its members
        in proportion to their weights.
    task_limits : scalar, array-like of shape (n_users,) or dict by user, optional
        Upper bounds on tasks, at least 0. ``None``, infinity and users missing in a dict mean no limit.
    eligible : array-like of bool of shape (n_users, n_servers), or dict of server labels by user or team, optional
        Where users may run. Default: everywhere, also for users missing in a dict.
    counts : array-like of int of shape (n_servers,), optional
        Number of identical servers in each row. Default: 1.
    users, resources, servers : sequence of str, optional
        Unique labels. Default: ``user1``, ``resource1``, ``server1``, ...
    server_types : sequence of str of shape (n_servers,), optional
        The type of each server, such as its GPU model, for reports by type. It does not affect allocations.
    units : sequence of str of shape (n_resources,) or dict by resource, optional
        The unit of each resource, such as ``{"memory": "GiB"}``, for tables and axes. Nothing is converted.
    notes : sequence of str, optional
        What a reader of files left out or assumed. Equality and files ignore notes.
    teams : dict, optional
        Labels of users from the innermost out, as ``{"team": ["vision", "vision", "nlp"], "org": [...]}`` for teams
        within orgs: for each kind of label one label per user, None for none, or a dict by user. Dicts by user take
        names of teams too, and a user's own value wins; not so `task_limits` of a team of several users.
    innermost_first : sequence of str, optional
        The labels of `teams` from the innermost out, as ``["team", "org"]``: the weight of an org is divided among its
        teams. Default: a label whose teams lie within those of another comes before it, and where two labels divide
        users alike, the order in `teams` decides.
    guarantees : array-like of shape (n_users,) or dict by user or team, optional
        What users and teams get before anything else is shared: of a user tasks, of a team units of resources, as
        ``{"web": 10, "vision": {"gpu": 16}}``. Cut at what a user asks for (its task limit), and at what the tasks of
        a team can use within it: ``{"cpu": 64, "gpu": 0}`` is for tasks without GPUs.
    rates : array-like of shape (n_users, n_servers) or dict by user or team, optional
        How fast the tasks of a user run on each server, for `ThroughputShare`; a dict holds a number per server, or a
        dict by server label. Tasks then count time. Users are not eligible where their rate is 0.
    held : array-like of shape (n_users, n_servers) or (n_users,), or dict by user, optional
        Tasks that run now: by server row, or in all where the servers are not known. A dict holds a number in all, a
        number per server, or a dict by server label. For reports of what is held beside what is fair; no policy reads
        it.
    limits : sequence of dict, optional
        The most that users take together of a resource, on some servers or all of them, as ``{"name": "a100 of
        vision", "resource": "gpu", "amount": 8, "of": {"vision": ["a100-1"]}}``: by user or team the labels of the
        servers that count, None for all. Policies of blocks and `HDRF` keep them, as they do capacities. Where an
        amount is 0, those who need the resource are not eligible, and have a task limit of 0 if they can run nowhere;
        guarantees that this leaves too little for are `Infeasible`, as with any amount. ``reasons`` may say why what is
        beyond the limit is idle, as ``[("in nobody's quota", 12)]`` of all that there is beyond 12 units.

    Raises
    ------
    InvalidInstance
        If an argument is invalid; the message names the user, the resource, the value and the fix.

    Notes
    -----
    Float arrays are kept as read-only views, without copies; float32 stays float32. Numbers may be
    `fractions.Fraction`: they are rounded to floats, and exact answers use them as given. Users are not eligible on
    servers without a resource that they need.

    Data frames and series (pandas, Polars, pyarrow) are joined by label, never by position: ``demands`` by user and
    resource, ``capacities`` by resource or by server and resource, and so on. All must have the same labels, in any
    order, and the same as ``users``, ``resources`` and ``servers``, which default to those of ``demands``, then of
    ``capacities``. Arrays are in that order. A default index, which only counts rows, is not a label.

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

    Capacities by resource, as a dict or a pandas series:

    >>> fo.Instance([[2, 3]], {"memory": 6, "cpu": 4}, resources=["cpu", "memory"]).capacities
    array([[4., 6.]])
    """

    _checked = False
    _fractions: dict[str, dict[float, Fraction | None]] = {}  # noqa: RUF012  # replaced by the constructor

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
        teams: Mapping[str, Any] | None = None,
        innermost_first: Sequence[str] | None = None,
        guarantees: Any = None,
        rates: Any = None,
        held: Any = None,
        limits: Iterable[Any] | None = None,
    ) -> None:
        arguments = locals()
        values, known = joined(
            {name: arguments[name] for name in AXES}, {"user": users, "server": servers, "resource": resources}
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
        self.taken_from: tuple[Instance, NDArray[np.int64] | slice] | None = None
        self.merged_from: Instance | None = None  # before identical servers were merged
        # numbers that floats round, by argument and float, for exact answers
        self._fractions: dict[str, dict[float, Fraction | None]] = {
            name: fractions
            for name in FRACTIONAL
            if values[name] is not None and (fractions := validation.fractions_in(values[name], name))
        }
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
        self.teams: Teams = Teams.of(teams, names.users, innermost_first)
        of_users, of_teams = self.by_user_or_team(values["weights"], "weights")
        own: Float = validation.frozen(self.per_user(of_users, "weights", default=1.0))
        right = (own != 0) & in_range(own)
        validation.check_per_user(own, "weights", right, validation.POSITIVE, names.users)
        self.team_weights: dict[str, float] = validation.weights_of_teams(of_teams)
        self.own_weights = own  # before weights of teams are divided among their members
        self.weights: Float = validation.frozen(split_weights(own, self.team_weights, self.teams.names))
        self._refuse_teams(values["task_limits"], "task_limits", "kinds of tasks differ; limit each member")
        most = self.per_user(values["task_limits"], "task_limits", default=np.inf, unlimited=True)
        self.task_limits: Float = validation.frozen(most)
        right = in_range(most) | (most == np.inf)
        validation.check_per_user(most, "task_limits", right, "give 0 or more, or None", names.users)
        self.counts: NDArray[np.int64] = validation.frozen(validation.checked_counts(values["counts"], names.servers))
        validation.check_totals(self.total_capacities, names)
        of_users, of_teams = self.by_user_or_team(values["guarantees"], "guarantees")
        validation.refuse_units_of_users(of_users)
        floors = self.per_user(of_users, "guarantees", default=0.0)
        fix = "give a finite number of tasks >= 0"
        validation.check_per_user(floors, "guarantees", in_range(floors), fix, names.users)
        self.guarantees: Float = validation.frozen(floors)
        self.team_guarantees: dict[str, dict[str, float]] = validation.guarantees_of_teams(of_teams, names.resources)
        self.rates: Float | None = validation.checked_rates(values["rates"], names, self.teams.names)
        everyone = validation.by_member(values["eligible"], self.teams.names)
        allowed = validation.checked_eligibility(everyone, dem, caps, names, self.rates)
        self.eligible: Bool = validation.frozen(allowed)
        self.held: Float | None = self._held(values["held"])
        self.limits: tuple[Limit, ...] = ()
        self._given: dict[str, Any] = {}  # task limits and eligibility without what limits of 0 rule out
        if limits:
            self.limits = limits_of(limits, [*names.users, *self.teams.names], names.resources, names.servers)
            self._apply_limits_of_zero()
        self._checked = True

    def _apply_limits_of_zero(self) -> None:
        """Make users not eligible where limits of 0 leave them nothing, and limit those to 0 who can run nowhere."""
        members, allowed = {user: j for j, user in enumerate(self.users)} | dict(self.teams.names), self.eligible
        for limit in self.limits:
            if limit.amount == 0 and limit.closes:
                needs = self.per_server_demands[:, :, self.resource_index(limit.resource)] > 0
                allowed = allowed & ~(limit.counts(members, self.n_users, self.n_servers) & needs)
        if allowed is not self.eligible:
            self._given = {"eligible": self.eligible, "task_limits": self.task_limits}
            nowhere: Bool = ~np.asarray(allowed.any(axis=1))
            self.eligible = validation.frozen(np.where(nowhere[:, None], self.eligible, allowed))
            self.task_limits = validation.frozen(np.where(nowhere, 0.0, self.task_limits))

    def __setattr__(self, name: str, value: Any) -> None:
        if self._checked and not name.startswith("_"):
            raise AttributeError(f"an Instance is immutable; make a new one with .replace({name}=...)")
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._arguments(), self.taken_from, self.merged_from, self._fractions)

    # -- new instances ----------------------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Instance:
        """A new instance with some arguments of the constructor changed.

        Parameters
        ----------
        **changes
            Any arguments of `Instance`. Users missing in a dict keep their values, as in `with_weights`,
            `with_task_limits` and `with_eligible`, and so do resources that the new guarantee of a team does not name:
            None takes that of a resource away. Data frames and series are joined by label.

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
        before = {**arguments, "weights": self.own_weights, "guarantees": self.guarantees}
        of_teams: dict[str, Any] = {"weights": self.team_weights, "guarantees": self.team_guarantees}
        for name in ("weights", "task_limits", "eligible", "guarantees", "rates", "held"):
            if isinstance(changes.get(name), Mapping) and before[name] is not None:
                if name == "guarantees" and "resources" not in changes:
                    changes[name] = self._with_other_resources(changes[name])
                changes[name] = validation.Changes({**of_teams.get(name, {}), **changes[name]}, before[name])
        return Instance(**{**arguments, **changes}).derived.read_as(self._fractions)

    def _with_other_resources(self, guarantees: Mapping[Any, Any]) -> dict[Any, Any]:
        """New guarantees, with those of teams for the resources that they do not name."""
        out = dict(guarantees)
        for team, before in self.team_guarantees.items():
            if isinstance(units := out.get(team), Mapping):
                named = {whole_name(resource, self.resources) for resource in units}
                out[team] = {**{of: amount for of, amount in before.items() if of not in named}, **units}
        return out

    def _arguments(self) -> dict[str, Any]:
        kept = ("capacities", "counts", "server_types", "units", "notes", "limits", *PER_USER)
        given = {name: getattr(self, name) for name in kept} | self._given
        return given | dict(
            weights=self._with_teams(self.own_weights, self.team_weights),
            users=self.users if self.team_weights or self.team_guarantees or self.limits else self._users,
            resources=self._resources,
            servers=self._given_servers,
            teams=self.teams or None,
            innermost_first=None,
            guarantees=self._with_teams(self.guarantees, self.team_guarantees) if self.derived.has_guarantees else None,
        )

    def _with_teams(self, by_user: Float, by_team: Mapping[str, Any]) -> Any:
        """Values by user, as a dict with those by team if there are any."""
        return {**dict(zip(self.users, by_user.tolist(), strict=True)), **by_team} if by_team else by_user

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
        """The same cluster with other weights; users missing in a dict keep theirs.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.DRF().allocate(fo.Instance([[1], [1]], [4]).with_weights({"user2": 3})).tasks
        array([1., 3.])
        """
        return self.replace(weights=weights)

    def with_task_limits(self, task_limits: Any) -> Instance:
        """The same cluster with other task limits; users missing in a dict keep theirs.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.DRF().allocate(fo.Instance([[1], [1]], [4]).with_task_limits([1, None])).tasks
        array([1., 3.])
        """
        return self.replace(task_limits=task_limits)

    def full_demand(self, demands: Mapping[str, Mapping[str, float]] | None = None) -> Instance:
        """The same cluster as if everybody had more work than fits: what each gets then is its entitlement.

        Task limits are left out. Weights, guarantees, limits on what teams take together and eligibility stay, and so
        do kinds of tasks: within a team they share as they do now.

        Parameters
        ----------
        demands : dict by team of dict by resource, optional
            One task of each team that has no users now, such as ``{"audio": {"cpu": 12, "gpu": 2}}``. Each becomes a
            user of weight 1 who may run wherever there is what it needs, in a team of its name if users have labels
            (the innermost; under no other label). Without this such teams are not there.

        Returns
        -------
        Instance

        Raises
        ------
        InvalidInstance
            If a team of ``demands`` has users, or demands or rates differ by server.

        Examples
        --------
        >>> import fairopt as fo
        >>> pool = fo.Instance([[1], [1]], [12], task_limits=[2, 20], users=["vision", "nlp"], resources=["gpu"])
        >>> drf = fo.DRF()
        >>> drf.allocate(pool).tasks, drf.allocate(pool.full_demand()).tasks
        (array([ 2., 10.]), array([6., 6.]))
        >>> drf.allocate(pool.full_demand({"audio": {"gpu": 2}})).tasks
        array([4., 4., 2.])
        """
        made = self._with_idle(demands) if demands else self
        note = "full demand: task limits are left out, as if everybody had more work than fits"
        return made.replace(task_limits=None, notes=[*(one for one in made.notes if one != note), note])

    def _with_idle(self, demands: Mapping[str, Mapping[str, float]]) -> Instance:
        """The instance with a user for each team that has none."""
        if self.demands.ndim == 3 or self.rates is not None:
            what = "rates" if self.rates is not None else "demands"
            raise InvalidInstance(f"{what} differ by server, so those of other teams are not known; leave demands out")
        rows = np.zeros((len(demands), self.n_resources))
        for row, (team, task) in zip(rows, demands.items(), strict=True):
            if team in self.users or team in self.teams.names:
                raise InvalidInstance(f"demands name {team!r}, which has users; name teams that have none")
            for name, units in task.items():
                row[self.resource_index(whole_name(name, self.resources))] = units
        n, inner = len(rows), next(iter(self.teams), None)
        before = {**self._arguments(), "users": self.users, "demands": np.vstack([self.demands, rows])}
        labels = {by: [*self.teams[by], *(demands if by == inner else [None] * n)] for by in self.teams}
        floors = self._with_teams(self.guarantees, self.team_guarantees)
        more: dict[str, Any] = {
            "users": [*self.users, *demands],
            "teams": labels or None,
            "innermost_first": [*labels] or None,
            "weights": self._with_teams(self.own_weights, self.team_weights),
            "guarantees": floors,
            "eligible": np.vstack([before["eligible"], np.ones((n, self.n_servers), dtype=np.bool_)]),
            "task_limits": None,
        }
        for name in ("weights", "guarantees"):
            if not isinstance(more[name], dict):
                more[name] = np.append(more[name], np.full(n, float(name == "weights")))
        if self.held is not None:
            more["held"] = np.concatenate([self.held, np.zeros((n, *self.held.shape[1:]))])
        return Instance(**{**before, **more}).derived.read_as(self._fractions)

    def with_eligible(self, eligible: Any) -> Instance:
        """The same cluster with other placement constraints; users missing in a dict keep theirs.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1], [1]], [[4], [2]], servers=["large", "small"])
        >>> cluster.with_eligible({"user2": ["small"]}).eligible
        array([[ True,  True],
               [False,  True]])
        """
        return self.replace(eligible=eligible)

    def fit_guarantees(self, order: Iterable[str] | None = None) -> Instance:
        """The same cluster with the largest guarantees that fit together; itself if they all do.

        Linear programs find them, within capacities, placement, task limits and `limits`.

        Parameters
        ----------
        order : sequence of str, optional
            Users and teams, the first first: each keeps as much of its guarantee, and of those of its members, as those
            before it leave. Those that are not named come last, in proportion. Default: all in proportion.

            In proportion, all keep the same part, the largest that fits; those that are in no conflict keep more.

        Returns
        -------
        Instance
            Its last note says which guarantees were reduced, from what and to what.

        Raises
        ------
        InvalidBlock
            If the order names no user or team.

        Examples
        --------
        >>> import fairopt as fo
        >>> quotas = {"A": {"gpu": 8}, "B": {"gpu": 8}}
        >>> teams = {"team": ["A", "B"]}
        >>> cluster = fo.Instance([[1], [1]], [12], resources=["gpu"], teams=teams, guarantees=quotas)
        >>> cluster.fit_guarantees().team_guarantees
        {'A': {'gpu': 6.0}, 'B': {'gpu': 6.0}}
        >>> cluster.fit_guarantees(["A", "B"]).team_guarantees
        {'A': {'gpu': 8.0}, 'B': {'gpu': 4.0}}
        >>> cluster.fit_guarantees(["A", "B"]).notes
        ("guarantees that did not fit together were reduced in the order A, B: team 'B' from 8 to 4 gpu",)
        """
        return later("fairopt.solve.fitted_guarantees:fitted_guarantees")(self, order)

    def select_users(self, chosen: ArrayLike, users: Sequence[str] | None = None) -> Instance:
        """The instance with some of the users, on the same servers.

        Parameters
        ----------
        chosen : array-like of int or of bool
            Indices, of which some may occur twice, or a mask.
        users : sequence of str, optional
            New labels. Default: those that they have.

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
        made = self._of_users(rows, [self.users[j] for j in rows] if users is None else users)
        made.__dict__["teams"] = made.teams.in_order_of_users()
        return made

    def _of_users(self, rows: NDArray[np.int64], users: Sequence[str] | None) -> Instance:
        """The instance with the users of some rows, under these labels."""
        teams = self.teams.take(rows)
        kept = teams.names if self.team_weights or self.team_guarantees else {}
        if users is None and self.limits:  # which name users
            users = [self.users[j] for j in rows]
        given = self.derived.of_users(rows) | {name: array[rows] for name, array in self._given.items()}
        part = self.replace(**given, weights=self.own_weights[rows], users=users, teams=teams)
        part.derived.give_teams(
            {team: weight for team, weight in self.team_weights.items() if team in kept},
            {team: floor for team, floor in self.team_guarantees.items() if team in kept},
        )
        return part

    def pooled(self) -> Instance:
        """The same users on one pool with the total capacity of all servers.

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
            raise InvalidInstance(
                "demands differ by server, so one pool cannot have them; give demands of shape (n_users, n_resources)"
            )
        if self.rates is not None and np.ptp(np.where(self.eligible, self.rates, self.rates.max()), axis=1).any():
            raise InvalidInstance("rates differ by server, so one pool cannot have them; give rates=None first")
        if any(not all(where) for where in masks_of(self.limits)):
            raise InvalidInstance("limits are of some servers, so one pool cannot have them; give limits=() first")
        one = dict.fromkeys(("eligible", "counts", "servers", "server_types", "rates"))
        one["limits"] = tuple(replace(limit, of=tuple((who, None) for who, _ in limit.of)) for limit in self.limits)
        return self.replace(capacities=self.total_capacities, held=self.held_tasks, **one)

    def merged(self) -> Instance:
        """Identical servers as one row with a count: exact for divisible tasks, and done by every solve.

        Returns
        -------
        Instance
            Servers that differ only in type are merged too, with a type such as ``A10|T4``. A row of several servers is
            named after all of them, as ``a100-[01-09]``; `server_index` finds it by any of these names. Limits of some
            of the servers in a row are left out: these servers have no more than the limit, so that it cannot bind.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1, 2]], [[4, 4], [4, 4], [8, 2]]).merged().counts
        array([2, 1])
        """
        classes = self.derived.server_classes
        if classes[-1] == self.n_servers - 1:  # numbered as they appear: all differ
            return self
        n_classes = int(classes.max()) + 1
        first = np.unique(classes, return_index=True)[1]
        merged = self.replace(
            **self.derived.of_servers(first),
            counts=np.bincount(classes, weights=self.counts, minlength=n_classes).astype(np.int64),
            servers=None,
            server_types=None if self.server_types is None else validation.merged_types(self.server_types, classes),
            held=self.held if self.held is None or self.held.ndim == 1 else self.derived.sum_by_class(self.held),
            limits=limits_on_classes(self.limits, classes, first),
        )
        merged.__dict__.update(taken_from=self.taken_from, merged_from=self, weights=self.weights)
        return merged

    def individual(self) -> Instance:
        """Each server as its own row; whole tasks run on these.

        Servers of a row that lists its servers, as ``a100-[01-09]``, have these names, others ``name #1``, ``name #2``,
        ... Tasks held on a row are divided equally among its servers, unless `merged` made the row.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1]], [[4], [8], [9]], counts=[2, 1, 2], servers=["small", "large", "n[01-02]"])
        >>> cluster.individual().servers
        ('small #1', 'small #2', 'large', 'n01', 'n02')
        """
        if (self.counts == 1).all():
            return self
        row = np.repeat(np.arange(self.n_servers), self.counts)
        types = None if self.server_types is None else [self.server_types[s] for s in row]
        held = self.held if self.held is None or self.held.ndim == 1 else (self.held / self.counts)[:, row]
        names: Sequence[str]
        if self.merged_from is None:
            names = _names_of_each(self.servers, self.counts)
        else:  # by row, and within a row in the order before they were merged
            before = self.merged_from
            each = before.individual()
            order = np.argsort(
                before.derived.server_classes[np.repeat(np.arange(before.n_servers), before.counts)], kind="stable"
            )
            names = [each.servers[s] for s in order]
            types = None if each.server_types is None else [each.server_types[s] for s in order]
            held = each.held if each.held is None or each.held.ndim == 1 else each.held[:, order]
        made = self.replace(
            **self.derived.of_servers(row),
            counts=None,
            servers=names,
            server_types=types,
            held=held,
            limits=limits_on(self.limits, row),
        )
        made.__dict__.update(taken_from=self.taken_from, weights=self.weights)
        return made

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
        """Number of server rows, each of one or several identical servers (``counts``)."""
        return self.capacities.shape[0]

    @cached_property
    def users(self) -> tuple[str, ...]:
        """Labels of the users."""
        if self._users is None and self.taken_from is not None:
            parent, rows = self.taken_from
            return parent.users[rows] if isinstance(rows, slice) else tuple(parent.users[j] for j in rows)
        return tuple(self._labels.users)

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Labels of the resources."""
        return tuple(self._labels.resources)

    @property
    def resource_titles(self) -> tuple[str, ...]:
        """Labels of the resources with their units, such as ``memory (GiB)``, for tables and axes.

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
        """Labels of the servers; of a row of `merged` servers all of their names, as ``a100-[01-09]``."""
        if self._servers is None and self.merged_from is not None:
            names: list[list[str]] = [[] for _ in range(self.n_servers)]
            for name, row in zip(
                self.merged_from.servers, self.merged_from.derived.server_classes.tolist(), strict=True
            ):
                names[row].append(name)
            lists = tuple(map(hostlist, names))
            return lists if len({*lists}) == len(lists) else tuple(of_row[0] for of_row in names)
        return tuple(self._labels.servers)

    @property
    def _given_servers(self) -> tuple[str, ...] | None:
        """Labels of the servers, None for the default ones."""
        return self._servers if self.merged_from is None else self.servers

    @property
    def _labels(self) -> validation.Labels:
        """The labels as given, or the default ones."""
        return validation.Labels(
            self._users or validation.default_labels("user", self.n_users),
            self._resources or validation.default_labels("resource", self.n_resources),
            self._servers or validation.default_labels("server", self.n_servers),
        )

    @property
    def held_tasks(self) -> Float | None:
        """Tasks of each user that run now, shape (n_users,); None where they are not known.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1], [2]], [[4], [2]], held=[[2, 1], [1, 0]]).held_tasks
        array([3., 1.])
        """
        return self.held if self.held is None or self.held.ndim == 1 else validation.frozen(self.held.sum(axis=1))

    @property
    def held_units(self) -> Float | None:
        """Units of each resource that running tasks take, shape (n_users, n_resources); None if they are not known.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1, 2]], [8, 8], held=[3]).held_units
        array([[3., 6.]])
        """
        if self.held is None or self.held_tasks is None:
            return None
        if self.demands.ndim == 3:
            return validation.frozen((self.held[:, :, None] * self.demands).sum(axis=1))
        return validation.frozen(self.held_tasks[:, None] * self.demands)

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
        """Total units of each resource on all servers, shape (n_resources,)."""
        return validation.frozen(self.counts.astype(float) @ self.capacities)

    @cached_property
    def ratios(self) -> Float:
        """The fraction of each resource's total capacity that one task uses, in the shape of ``demands``."""
        total = self.total_capacities
        return validation.frozen(self.demands / np.where(total > 0, total, 1.0))

    @cached_property
    def dominant_shares(self) -> Float:
        """The largest of the `ratios` of each user, shape (n_users,) or (n_users, n_servers)."""
        ratios = self.ratios
        largest = ratios[..., 0].copy()
        for i in range(1, self.n_resources):  # a maximum along short rows is slow
            np.maximum(largest, ratios[..., i], out=largest)
        return validation.frozen(largest)

    @property
    def derived(self) -> Derived:
        """What methods read of an instance: classes of servers, levels, and where it was taken from.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1]], [[4], [4], [8]]).derived.server_classes
        array([0, 0, 1])
        """
        return Derived(self)

    @cached_property
    def dominance(self) -> Dominance:
        """Dominant users of each resource of each server, and the requests of these and of the other users."""
        return dominance_of(
            self.per_server_demands, self.capacities, None if self.derived.everywhere else self.eligible
        )

    @cached_property
    def in_fractions(self) -> InFractions:
        """The same numbers as `fractions.Fraction`, as exact answers read them.

        Examples
        --------
        >>> import fairopt as fo
        >>> print(*fo.Instance([[0.1, 2]], [3, 8]).in_fractions.ratios[0])
        1/30 1/4
        """
        return InFractions(self)

    @cached_property
    def tasks_alone(self) -> Float:
        """Tasks that each user could run alone on each server row, counts included, shape (n_users, n_servers).

        Zero where the user is not eligible; task limits are ignored.
        """
        return validation.frozen(self.derived.tasks_alone_within(np.ones(self.n_resources)))

    @property
    def own_slices(self) -> Float:
        """Tasks of each user on ``w_j / sum w`` of every eligible server, at most its limit, shape (n_users,).

        The sum of weights includes users that a solve leaves out.
        """
        return np.minimum(self.weights / self.derived.total_weight * self.tasks_alone.sum(axis=1), self.task_limits)

    # -- values by user ---------------------------------------------------------------------------------------

    def per_user(self, value: Any, name: str, default: float | None = None, unlimited: bool = False) -> Float:
        """A scalar, an array or a dict by user as an array of shape (n_users,).

        Parameters
        ----------
        value : scalar, array-like of shape (n_users,), dict by user, or None
            A labelled series counts as a dict.
        name : str
            Name of the value, for messages.
        default : float, optional
            Value for ``None`` and for users missing in a dict.
        unlimited : bool, default False
            Read ``None`` entries as infinity.

        Returns
        -------
        ndarray of shape (n_users,)

        Raises
        ------
        InvalidInstance
            If the length is wrong, a user is unknown, or an entry is not a number.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1], [1]], [4], users=["batch", "web"])
        >>> cluster.per_user({"web": 3}, "priority", default=1.0)
        array([1., 3.])
        """
        n, value = self.n_users, by_label(value)
        if (
            self.taken_from is not None
            and value is not None
            and (isinstance(value, Mapping) or np.shape(value) == (self.taken_from[0].n_users,))
        ):  # for the instance from which these users were selected
            parent, rows = self.taken_from
            return parent.per_user(value, name, default, unlimited)[rows]
        if isinstance(value, Mapping):
            value = self._by_only_member(value)
            unknown = [u for u in value if u not in self.derived.position]
            if unknown:
                self._refuse_teams(value, name, "a value for each user is needed; name its members")
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

    def by_user_or_team(self, value: Any, name: str) -> tuple[Any, dict[str, Any]]:
        """A value as one for `per_user`, and what it says of teams.

        Parameters
        ----------
        value : scalar, array-like of shape (n_users,), dict by user or team, or None
            A team of one user is that user.
        name : str
            Name of the value, for messages.

        Returns
        -------
        (value, dict)
            What is left for users, and the values of teams by their names.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1], [1]], [4], users=["a", "b"], teams={"team": ["t", "t"]})
        >>> cluster.by_user_or_team({"a": 2, "t": 3}, "priority")
        ({'a': 2}, {'t': 3})
        """
        value = by_label(value)
        if not isinstance(value, Mapping):
            return value, {}
        whole = self.derived.whole  # so that left-out users are known
        of_users, of_teams = whole.teams.split(value, whole.derived.position, name)
        if isinstance(value, validation.Changes):
            of_users = validation.Changes(of_users, value.before)
        return of_users, of_teams

    def _by_only_member(self, value: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """A dict by user in which the names of teams of one user are replaced by that user's; its own value wins."""
        other = [name for name in value if name not in self.derived.position]
        members = self.teams.names if other and self.teams else {}
        alone = {name: self.users[members[name][0]] for name in other if len(members.get(name, ())) == 1}
        if not alone:
            return value
        kept = {name: one for name, one in value.items() if name not in alone}
        made = {**{user: value[name] for name, user in alone.items()}, **kept}
        return validation.Changes(made, value.before) if isinstance(value, validation.Changes) else made

    def _held(self, given: Any) -> Float | None:
        """The tasks that run now, in one of the two shapes."""
        given = by_label(given)
        if given is None:
            return None
        if isinstance(given, Mapping):
            given = self._by_only_member(given)
            self._refuse_teams(given, "held", "a number for each user is needed; name its members")
        return validation.checked_held(given, self._labels, by_server=self.demands.ndim == 3)

    def _refuse_teams(self, value: Any, name: str, why: str) -> None:
        """Refuse a dict that names a team of several users."""
        if not isinstance(value, Mapping) or not self.teams:
            return
        members = self.teams.names
        for key in value:
            if key not in self.derived.position and len(members.get(key, ())) > 1:
                listed = ", ".join(repr(self.users[j]) for j in members[key][:5].tolist())
                raise InvalidInstance(f"{name} names the team {key!r}, of {listed}: {why}")

    def user_index(self, user: str | int) -> int:
        """Index of a user given by label, index or a team of it alone; `InvalidInstance` if there is none.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.Instance([[1], [1]], [4], users=["batch", "web"]).user_index("web")
        1
        """
        named = self._by_only_member({user: None}) if isinstance(user, str) else (user,)
        return validation.index_of(next(iter(named)), self.derived.position, self.n_users, "user")

    def resource_index(self, resource: str | int) -> int:
        """Index of a resource given by label or by index; `InvalidInstance` if there is none.

        The vendor's prefix of a label may be left out if only one resource fits.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1, 2]], [4, 8], resources=["cpu", "nvidia.com/gpu"])
        >>> cluster.resource_index("nvidia.com/gpu"), cluster.resource_index("gpu")
        (1, 1)
        """
        name = whole_name(resource, self.resources)
        return validation.index_of(name, {r: i for i, r in enumerate(self.resources)}, self.n_resources, "resource")

    def server_index(self, server: str | int) -> int:
        """Index of a server row given by label, index, or one of the names in its label, as of ``a100-[01-09]``.

        `InvalidInstance` if there is none.

        Examples
        --------
        >>> import fairopt as fo
        >>> pair = fo.Instance([[1]], [[4], [4]], servers=["n1", "n2"]).merged()
        >>> pair.servers, pair.server_index("n2")
        (('n[1-2]',), 0)
        """
        return validation.row_of(server, {label: s for s, label in enumerate(self.servers)}, part=True)

    # -- other forms ------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The instance as lists, numbers and strings, for `from_dict` and the JSON schema.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[1, 2]], [4, 8])
        >>> fo.Instance.from_dict(cluster.to_dict()) == cluster
        True
        """
        return {
            key: value.tolist() if isinstance(value, np.ndarray) else list(value) if isinstance(value, tuple) else value
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
    def from_frames(
        cls, users: Any, servers: Any, demands: Any = None, teams: Any = None, *, labels: Sequence[str] = ()
    ) -> Instance:
        """An instance from data frames of pandas, Polars, pyarrow or other libraries that narwhals supports.

        Parameters
        ----------
        users : data frame
            One row per user: ``user``, optionally ``weight`` (null or NaN: 1), ``task_limit`` (null or NaN: none),
            ``guarantee`` and ``held`` (in tasks, null or NaN: none), ``team`` (null: none) and ``servers`` (names as a
            list or joined by ``|``, null: everywhere). A column ``org [team]`` is the label ``org`` of users; every
            other column is a resource, in units per task. Names are text or integers. Named levels of a pandas index
            count as columns.
        servers : data frame
            One row per server: ``server``, optionally ``count`` and ``type``; every other column is a resource, in
            units per server. A column ``memory [GiB]`` is the resource ``memory`` in GiB, in both frames.
        demands : data frame, optional
            If demands differ by server: one row per user and eligible server, with ``user``, ``server`` and the
            resources, which ``users`` then does not have, and optionally ``rate`` and ``held``. With these instead of
            the resources it holds nothing else.
        teams : data frame, optional
            One row per team with a weight or a guarantee: ``team``, optionally ``weight`` (null or NaN: 1); every other
            column is a resource, in units that the team is guaranteed.
        labels : sequence of str, optional
            Columns of ``users`` that are labels, outermost first, such as ``["org", "team"]``.

        Returns
        -------
        Instance
            Demands are float32 if all resource columns are, else float64; likewise capacities.

        Raises
        ------
        InvalidInstance
            Names the frame, the row (counted from 0), the column, the value and the fix. Text is not converted.
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
        return later("fairopt.datasets:instance_of_frames")(users, servers, demands, teams, labels)

    def to_frames(self, backend: str = "pandas") -> tuple[Any, ...]:
        """The instance as data frames; `from_frames` restores it exactly.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default "pandas"
            The library.

        Returns
        -------
        tuple of data frames
            Users and servers, demands (or rates) if they differ by server, and teams with weights or guarantees; None
            for demands if there are only teams. Columns with defaults only, such as weights of 1, are omitted. A
            missing task limit is infinity; ``servers`` are lists of names, or None for everywhere.

        Raises
        ------
        InvalidInstance
            If a label cannot be a column, such as a resource called ``weight``.
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
        """Draw the demands, as in Fig. 2 of Joe-Wong et al. (2013); needs the extra ``plots``.

        Parameters
        ----------
        kind : {"demands", "region"}, default "demands"
            Demands as lines in the plane of two resources, or the tasks that two users can run together.
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. Default: a new figure.
        users, resources : (str, str), optional
            The two users of ``region``, and the two resources of ``demands``, if there are more.

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
        names = ("capacities", "counts", "own_weights", *PER_USER)
        others = ("server_types", "units", "teams", "team_weights", "team_guarantees", "limits")
        labels = ("users", "resources", "servers", *others)
        return (
            all(np.array_equal(getattr(self, a), getattr(other, a)) for a in names)
            and all(getattr(self, a) == getattr(other, a) for a in labels)
            and self.teams.outermost_first == other.teams.outermost_first
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
        has = {
            "weights": self.n_users and np.ptp(self.weights) > 0,
            "task limits": np.isfinite(self.task_limits).any(),
            "placement constraints": not self.eligible.all(),
            "guarantees": self.derived.has_guarantees,
            "limits": self.limits,
            "rates": self.rates is not None,
            "tasks held": self.held is not None,
        }
        parts += [what for what, some in has.items() if some]
        numbers = {by: len(self.teams.labelling(by).names) for by in self.teams}
        parts += [f"{number} {by}{'s' * (number != 1)}" for by, number in numbers.items()]
        return f"Instance({', '.join(parts)})"


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
    """Numbers that methods read of an instance, beside those that users read of it."""

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
    def whole(self) -> Instance:
        """The instance with all users, of whom `parts.taking_part` may have left out some."""
        instance = self.instance
        return instance if instance.taken_from is None else instance.taken_from[0]

    def given(self, name: str) -> Any:
        """Task limits, eligibility or others as they were given, without what limits of 0 rule out."""
        return self.instance._given.get(name, getattr(self.instance, name))

    @once
    def as_given(self) -> Instance:
        """The instance where limits of 0 rule nothing out, and are limits as others."""
        instance = self.instance
        if not instance._given:
            return instance
        return instance.replace(limits=[replace(limit, closes=False) for limit in instance.limits])

    @property
    def total_weight(self) -> float:
        """The sum of the weights of all users."""
        return float(self.whole.weights.sum())

    def tasks_alone_within(self, usable: Float, everywhere: bool = False) -> Float:
        """`tasks_alone` on fractions ``usable``, (n_resources,), of capacities; ``everywhere`` ignores eligibility."""
        instance = self.instance
        if not everywhere and "tasks_alone" in vars(instance) and (usable == 1).all():
            return instance.tasks_alone
        out = np.full((instance.n_users, instance.n_servers), np.inf)
        demands = instance.per_server_demands
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for i in range(instance.n_resources):  # ignores 0 / 0: no demand, no capacity
                np.fmin(out, usable[i] * instance.capacities[:, i] / np.abs(demands[:, :, i]), out=out)
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

    def of_users(self, rows: Any, **known: Any) -> dict[str, Any]:
        """The arrays by user, at some users, but for those known; weights apart, which teams may divide."""
        arrays = {name: getattr(self.instance, name) for name in PER_USER if name not in known}
        return {name: None if array is None else array[rows] for name, array in arrays.items()} | known

    def of_servers(self, rows: Any) -> dict[str, Any]:
        """The arrays by server that are the same for identical servers, at some server rows."""
        instance = self.instance
        return {
            "demands": instance.demands if instance.demands.ndim == 2 else instance.demands[:, rows],
            "capacities": instance.capacities[rows],
            "eligible": self.given("eligible")[:, rows],
            "rates": None if instance.rates is None else instance.rates[:, rows],
        }

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
        fractions = dict(instance._fractions)
        for name in ("demands", "capacities"):
            array = getattr(instance, name)
            if array.dtype == np.float32:
                short: dict[float, Fraction | None] = {float(x): Fraction(str(x)) for x in np.unique(array)}
                fractions[name] = short | fractions.get(name, {})
        return fractions

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


def _names_of_each(servers: Sequence[str], counts: NDArray[np.int64]) -> list[str]:
    """A different name for each server of the rows, from the lists of hosts that name rows where they do."""
    listed = [names_of(name) if count > 1 else None for name, count in zip(servers, counts.tolist(), strict=True)]
    numbered = [
        [name] if count == 1 else [f"{name} #{k + 1}" for k in range(count)]
        for name, count in zip(servers, counts.tolist(), strict=True)
    ]
    names = [
        name
        for found, others, count in zip(listed, numbered, counts.tolist(), strict=True)
        for name in (found if found is not None and len(found) == count else others)
    ]
    return names if len(set(names)) == len(names) else [name for others in numbered for name in others]


def _again(
    arguments: Mapping[str, Any],
    parent: Any,
    merged_from: Instance | None,
    fractions: Mapping[str, Mapping[float, Fraction | None]] = MappingProxyType({}),
) -> Instance:
    """Rebuild a copied or unpickled instance with read-only arrays."""
    made = Instance(**arguments).derived.read_as(fractions)
    made.__dict__.update(taken_from=parent, merged_from=merged_from)
    if parent is not None and made.team_weights:
        made.__dict__["weights"] = validation.frozen(parent[0].weights[parent[1]])
    return made


def entries_of(instance: Instance) -> dict[str, Any]:
    """The entries of `Instance.to_dict`, with arrays and tuples instead of lists."""
    eligible, most = map(instance.derived.given, ("eligible", "task_limits"))
    limits = most.astype(object)
    limits[np.isinf(most)] = None
    entries = {
        "users": instance.users,
        "resources": instance.resources,
        "servers": instance.servers,
        "server_types": instance.server_types,
        "units": instance.units,
        "demands": instance.demands,
        "capacities": instance.capacities,
        "weights": instance._with_teams(instance.own_weights, instance.team_weights),
        "task_limits": limits,
        "eligible": None if eligible.all() else eligible,
        "counts": instance.counts,
    }
    if instance.teams:
        entries["teams"] = {by: list(instance.teams[by]) for by in instance.teams}
    if len(instance.teams) > 1:
        entries["innermost_first"] = innermost_first(instance.teams)
    if instance.derived.has_guarantees:
        entries["guarantees"] = instance._with_teams(instance.guarantees, instance.team_guarantees)
    entries |= {name: array for name in ("rates", "held") if (array := getattr(instance, name)) is not None}
    if instance.limits:
        known = {*instance.users, *instance.teams.names}
        entries["limits"] = [one.entry(instance.servers, known) for one in instance.limits]
    return entries
