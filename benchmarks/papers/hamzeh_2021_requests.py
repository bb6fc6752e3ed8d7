"""Random servers and rounds of random requests, after the experiments of Hamzeh et al. (2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import InvalidInstance
from fairopt.instance import Instance
from fairopt.instances.random import LARGEST, require

__all__ = ["RequestRounds"]

Float = NDArray[np.float64]
DemandPath = float | tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class RequestRounds:
    """Fixed servers, and users with new random requests in every round.

    A request is the demand of one task, in fair shares (a server's capacity divided by the number of users). For the
    dominant resource it is ``load`` times a factor of the user times noise; for every other resource a fraction of
    that. Loads and capacities may drift over the rounds, so that late requests exceed the fair share and capacity runs
    short.

    Attributes
    ----------
    n_users, n_servers : int, default 4 and 90
        Numbers of users and servers.
    n_rounds : int, default 1000
        Rounds over which ``load`` and ``provisioned`` drift.
    mean_capacities : tuple of float, default (1000.0, 2000.0)
        Mean units of each resource per server; totals are exactly ``n_servers`` times this.
    resources : tuple of str, default ("CPU", "RAM")
        Labels of the resources.
    spread : float, default 4.0
        Ratio of the largest to the smallest capacity, drawn uniformly for each resource; 1 makes all equal.
    n_classes : int, optional
        Number of different servers, as rows with nearly equal counts. Default: all differ.
    by_server : bool, default True
        Whether requests are drawn for each server row, in fair shares of that server. Otherwise they are the same on
        all servers, in fair shares of the mean server; dominant resources then still differ by server.
    dominant : tuple of float, optional
        Probability that a request is dominant in each resource. Default: equal.
    load : float, or path for all resources, or one of them for each, default 0.6
        Mean request of a dominant resource, in fair shares. A path is a tuple of pairs (when, value) with when from 0
        (first round) to 1 (last round), interpolated linearly.
    user_spread : float between 0 and 1, default 0.3
        Factors of users are evenly spaced from ``1 - user_spread`` to ``1 + user_spread``, the same in all rounds.
    noise : float between 0 and 1, default 0.2
        Factor of each request, drawn uniformly from ``1 - noise`` to ``1 + noise``.
    other : tuple of float, default (0.2, 1.0)
        Range of the ratio of other requests to the dominant one (in fair shares), drawn uniformly. By default dominant
        groups get 0.625 of each server; Fig. 7 of Hamzeh et al. shows 0.59 to 0.64.
    provisioned : float, or path for all resources, or one of them for each, default 1.0
        Available fraction of the capacity. Requests do not change, so a scarce resource is dominant more often.
    seed : int, default 0
        Seed; rounds do not depend on the order of calls.

    Raises
    ------
    InvalidInstance
        If a parameter is out of its range.

    Notes
    -----
    Hamzeh et al. (2021, section VI) have two resources, CPU and RAM; server configurations "arbitrarily selected"; no
    placement constraints; in each iteration tasks "dominated either on CPU or memory"; 4 users on 90 servers, 200 on
    2,000 with totals of 2e6 CPU and 4e6 RAM, and 400 on 3,000. From iteration 800 on the dominant requests of some
    users exceed the fair share, and from 700 on RAM is short because "no more resources are provisioned". They do not
    state the distributions, the capacities of 90 and 3,000 servers, whether requests differ by server (in their Fig. 1
    they do), the size of requests and of the shortage; these are parameters here.

    Examples
    --------
    >>> rounds = RequestRounds(n_users=200, n_servers=2000, seed=1)
    >>> cluster = rounds.instance(7)
    >>> cluster, cluster.total_capacities.round(3)
    (Instance(200 users x 2 resources on 2000 servers), array([2000000., 4000000.]))
    """

    n_users: int = 4
    n_servers: int = 90
    n_rounds: int = 1000
    mean_capacities: tuple[float, ...] = (1000.0, 2000.0)
    resources: tuple[str, ...] = ("CPU", "RAM")
    spread: float = 4.0
    n_classes: int | None = None
    by_server: bool = True
    dominant: tuple[float, ...] | None = None
    load: DemandPath | tuple[DemandPath, ...] = 0.6
    user_spread: float = 0.3
    noise: float = 0.2
    other: tuple[float, float] = (0.2, 1.0)
    provisioned: DemandPath | tuple[DemandPath, ...] = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        require(self.n_users, "n_users", 1, whole=True)
        require(self.n_servers, "n_servers", 1, whole=True)
        require(self.n_rounds, "n_rounds", 1, whole=True)
        require(self.spread, "spread", 1, 1e12)
        if self.n_classes is not None:
            require(self.n_classes, "n_classes", 1, self.n_servers, whole=True)
        require(self.user_spread, "user_spread", 0, 1)
        require(self.noise, "noise", 0, 1)
        require(self.seed, "seed", 0, whole=True)
        m = len(self.mean_capacities)
        if m == 0 or len(self.resources) != m:
            raise InvalidInstance(f"{m} mean_capacities for {len(self.resources)} resources; give one or more of each")
        for c in self.mean_capacities:
            require(c, "mean_capacities", 1 / LARGEST, LARGEST)
        if len(self.other) != 2 or not 0 <= self.other[0] <= self.other[1] <= 1:
            raise InvalidInstance(f"other is {self.other}; give two numbers between 0 and 1, the smaller first")
        if self.dominant is not None and (len(self.dominant) != m or min(self.dominant) < 0 or not sum(self.dominant)):
            raise InvalidInstance(f"dominant is {self.dominant}; give {m} numbers >= 0, not all 0")
        if self.user_spread == 1 or self.noise == 1:
            raise InvalidInstance("user_spread or noise of 1 allows requests of 0; give less than 1")
        _ = self._loads, self._parts  # validates the paths

    @cached_property
    def _loads(self) -> tuple[tuple[Float, Float], ...]:
        return _paths(self.load, len(self.mean_capacities), "load")

    @cached_property
    def _parts(self) -> tuple[tuple[Float, Float], ...]:
        return _paths(self.provisioned, len(self.mean_capacities), "provisioned")

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of servers in each row, shape (n_rows,)."""
        rows = self.n_servers if self.n_classes is None else self.n_classes
        return self.n_servers // rows + (np.arange(rows) < self.n_servers % rows).astype(np.int64)

    @cached_property
    def capacities(self) -> Float:
        """Capacities of each server row without drift, shape (n_rows, n_resources)."""
        rng = np.random.default_rng(np.random.SeedSequence((self.seed, 0)))
        parts = rng.uniform(1.0, self.spread, (len(self.counts), len(self.resources)))
        return parts * (self.n_servers * np.array(self.mean_capacities) / (self.counts @ parts))

    def instance(self, number: int) -> Instance:
        """The instance of one round.

        Parameters
        ----------
        number : int
            From 0 to ``n_rounds - 1``.

        Returns
        -------
        Instance

        Raises
        ------
        InvalidInstance
            If there is no such round.

        Examples
        --------
        >>> RequestRounds(n_classes=3).instance(0)
        Instance(4 users x 2 resources on 90 servers in 3 rows)
        """
        require(number, "round", 0, self.n_rounds - 1, whole=True)
        rng = np.random.default_rng(np.random.SeedSequence((self.seed, 1, number)))
        m, rows = len(self.resources), len(self.counts)
        shape = (self.n_users, rows if self.by_server else 1)
        factor = np.linspace(1 - self.user_spread, 1 + self.user_spread, self.n_users) if self.n_users > 1 else [1.0]
        heavy = np.asarray(factor)[:, None] * rng.uniform(1 - self.noise, 1 + self.noise, shape)
        odds = np.cumsum(self.dominant if self.dominant is not None else np.ones(m))
        kind = np.minimum(np.searchsorted(odds, rng.uniform(0.0, odds[-1], shape), side="right"), m - 1)
        when = number / max(self.n_rounds - 1, 1)
        loads, parts = (_at(path, when) for path in (self._loads, self._parts))
        demands = rng.uniform(*self.other, (*shape, m))
        demands[kind[..., None] == np.arange(m)] = 1.0
        demands *= (heavy * loads[kind])[..., None]
        fair = (self.capacities if self.by_server else np.array(self.mean_capacities)) / self.n_users
        demands *= fair
        return Instance(
            demands if self.by_server else demands[:, 0],
            self.capacities * parts,
            counts=self.counts,
            resources=self.resources,
        )


def _paths(given: Any, m: int, name: str) -> tuple[tuple[Float, Float], ...]:
    """One path for each resource, as knots and values."""
    if isinstance(given, Sequence) and not (given and all(_is_knot(k) for k in given)):
        if len(given) != m:
            raise InvalidInstance(f"{name} has {len(given)} paths for {m} resources; give one each, or one for all")
        each = list(given)
    else:
        each = [given] * m
    return tuple(_path(path, name) for path in each)


def _is_knot(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) == 2 and not any(isinstance(v, Sequence) for v in value)


def _path(given: Any, name: str) -> tuple[Float, Float]:
    knots = given if isinstance(given, Sequence) else ((0.0, given),)
    if not knots or not all(_is_knot(k) for k in knots):
        raise InvalidInstance(f"{name} is {given!r}; give a number or pairs (when, value)")
    for when, value in knots:
        require(when, f"{name} (when)", 0, 1)
        require(value, f"{name} (value)", 1e-9, 1e9)
    times = np.array([k[0] for k in knots])
    if (np.diff(times) < 0).any():
        raise InvalidInstance(f"{name} is {given!r}; put its pairs in the order of time")
    return times, np.array([k[1] for k in knots])


def _at(paths: tuple[tuple[Float, Float], ...], when: float) -> Float:
    return np.array([np.interp(when, times, values) for times, values in paths])
