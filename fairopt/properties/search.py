"""Where an audit looks: seeded families of small pools, and every property measured on thousands of them at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.instance import Instance
from fairopt.properties.lies import Tally, best_lies
from fairopt.properties.many import Outcomes, outcomes

__all__ = ["FAMILIES", "Measured", "Pools", "drawn", "measured", "violations"]

Float = NDArray[np.floating[Any]]
Bool = NDArray[np.bool_]
Rng = np.random.Generator

LARGEST = 8  # of a number in the families of integers: witnesses that one can check by hand
SHAPES = ((2, 2), (3, 2), (2, 3), (3, 3), (4, 2), (4, 3), (2, 4), (5, 4))  # users and resources, as many of each
NEARLY_FULL = 1e-4  # relative: bottlenecks may be less than full by what numerical routes leave
FULL = 1e-7  # relative: a resource of which less than this is left over is full


@dataclass(frozen=True, eq=False)
class Pools:
    """Many pools of one shape.

    Attributes
    ----------
    demands : ndarray of shape (size, n_users, n_resources)
    capacities : ndarray of shape (size, n_resources)
    weights, limits : ndarray of shape (size, n_users)
    """

    demands: Float
    capacities: Float
    weights: Float
    limits: Float

    def __len__(self) -> int:
        return len(self.demands)

    def __getitem__(self, chosen: Any) -> Pools:
        """Some of them: indices, a mask or a slice."""
        return Pools(self.demands[chosen], self.capacities[chosen], self.weights[chosen], self.limits[chosen])

    @classmethod
    def of(cls, instance: Instance) -> Pools:
        """One instance on one pool."""
        demands = instance.per_server_demands[:, 0]
        parts = (demands, instance.total_capacities, instance.weights, instance.task_limits)
        return cls(*(np.array(part, dtype=float)[None] for part in parts))

    @classmethod
    def stacked(cls, parts: list[Pools]) -> Pools:
        """Several batches of one shape as one."""
        names = ("demands", "capacities", "weights", "limits")
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def instance(self, b: int) -> Instance:
        """One of them."""
        return Instance(
            self.demands[b], self.capacities[b], weights=self.weights[b], task_limits=self.limits[b]
        )  # fmt: skip

    def without(self, user: int) -> Pools:
        """The same pools when one user has left."""
        arrays = (np.delete(a, user, axis=1) for a in (self.demands, self.weights, self.limits))
        demands, weights, limits = arrays
        return Pools(demands, self.capacities, weights, limits)

    @property
    def alone(self) -> Float:
        """Tasks that each user could run with all of it, up to its limit: shape (size, n_users)."""
        return np.minimum(within(self.capacities[:, None], self.demands), self.limits)

    def run(self, mechanism: Any) -> Outcomes:
        """What a mechanism does on them."""
        plain = bool((self.weights == 1).all())
        unlimited = bool(np.isinf(self.limits).all())
        return outcomes(
            mechanism, self.demands, self.capacities, None if plain else self.weights,
            None if unlimited else self.limits,
        )  # fmt: skip


def within(bundle: Float, demands: Float) -> Float:
    """Tasks that bundles have room for, over the last axis."""
    shape = np.broadcast_shapes(bundle.shape, demands.shape)
    return np.divide(bundle, demands, out=np.full(shape, np.inf), where=demands > 0).min(axis=-1)


# -- families ---------------------------------------------------------------------------------------------------------


def _integers(rng: Rng, size: int, n: int, m: int, zeros: bool) -> Pools:
    """Demands and capacities are integers from 1 to 8."""
    demands = _some_zeros(rng, rng.integers(1, LARGEST + 1, size=(size, n, m)).astype(float), zeros)
    return _plain(demands, rng.integers(1, LARGEST + 1, size=(size, m)).astype(float))


def _binding(rng: Rng, size: int, n: int, m: int, zeros: bool) -> Pools:
    """Demands are integers, and one, two or all resources are full at one point of integers."""
    demands = _some_zeros(rng, rng.integers(1, LARGEST + 1, size=(size, n, m)).astype(float), zeros)
    return _plain(demands, _scarce(rng, demands, rng.integers(1, LARGEST + 1, size=(size, n)).astype(float), True))


def _logarithmic(rng: Rng, size: int, n: int, m: int, zeros: bool) -> Pools:
    """Demands are log-uniform over three decades, and some resources are full at a point near equal shares."""
    demands = _some_zeros(rng, 10.0 ** rng.uniform(-1.5, 1.5, size=(size, n, m)), zeros)
    point = rng.uniform(0.5, 2.0, size=(size, n)) / demands.max(axis=2)
    return _plain(demands, _scarce(rng, demands, point, False))


def _near_ties(rng: Rng, size: int, n: int, m: int, zeros: bool) -> Pools:
    """Users are all but equally dominant in two resources, of which both are scarce."""
    demands: Float = rng.uniform(0.2, 1.0, size=(size, n, m))
    demands[:, :, :2] = rng.uniform(0.8, 1.0, size=(size, n, min(m, 2)))
    demands = _some_zeros(rng, demands, zeros)
    return _plain(demands, np.maximum(demands.sum(axis=1) * rng.choice([1.0, 1.1, 2.0], size=(size, m)), 0.1))


FAMILIES: dict[str, Callable[[Rng, int, int, int, bool], Pools]] = {
    "integers": _integers,
    "binding integers": _binding,
    "log space": _logarithmic,
    "near ties": _near_ties,
}


def drawn(
    rng: Rng, family: str, shape: tuple[int, int], size: int, *, positive: bool = False, weights: bool = False,
    limits: bool = False,
) -> Pools:  # fmt: skip
    """Some pools of a family.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where chance comes from.
    family : str
        A name in `FAMILIES`.
    shape : tuple of int
        Users and resources.
    size : int
        How many.
    positive : bool, default False
        No zero demands; else about a third of the pools have some.
    weights, limits : bool, default False
        Entitlements from 1 to 4, and limits for some users, where they bind.

    Returns
    -------
    Pools

    Examples
    --------
    >>> import numpy as np
    >>> drawn(np.random.default_rng(0), "integers", (2, 2), 1, positive=True).demands
    array([[[7., 6.],
            [5., 3.]]])
    """
    n, m = shape
    pools = FAMILIES[family](rng, size, n, m, not positive)
    if weights:
        pools = replace(pools, weights=rng.integers(1, 5, size=(size, n)).astype(float))
    if limits:
        part = pools.alone * rng.choice([0.125, 0.25, 0.5, np.inf, np.inf], size=(size, n))
        if family in ("integers", "binding integers"):
            part = np.where(np.isfinite(part), np.maximum(np.round(part * 2) / 2, 0.5), np.inf)
        pools = replace(pools, limits=part)
    return pools


def _plain(demands: Float, capacities: Float) -> Pools:
    size, n, _ = demands.shape
    return Pools(demands, capacities, np.ones((size, n)), np.full((size, n), np.inf))


def _some_zeros(rng: Rng, demands: Float, zeros: bool) -> Float:
    """Zeros in a third of the pools, never a whole row of them."""
    if zeros:
        size, n, m = demands.shape
        gone = (rng.random(demands.shape) < 0.35) & (rng.random((size, 1, 1)) < 1 / 3)
        gone[np.arange(size)[:, None], np.arange(n), rng.integers(0, m, size=(size, n))] = False
        demands = np.where(gone, 0.0, demands)
    return demands


def _scarce(rng: Rng, demands: Float, point: Float, whole: bool) -> Float:
    """Capacities of which some, at least one, are just used up at these tasks."""
    size, _, m = demands.shape
    load = np.einsum("bjm,bj->bm", demands, point)
    slack = rng.uniform(1.2, 4.0, size=(size, m))
    binding = rng.random((size, m)) < rng.choice([0.2, 0.6, 1.0], size=(size, 1))
    binding[np.arange(size), rng.integers(0, m, size=size)] = True
    room = load * np.where(binding, 1.0, slack)
    return np.maximum(np.ceil(room - 1e-9) if whole else room, 1.0 if whole else 1e-3)


# -- properties -------------------------------------------------------------------------------------------------------


def violations(name: str, pools: Pools, found: Outcomes) -> tuple[Float, NDArray[np.int64]]:
    """How badly a property of allocations fails on each pool, and for whom (0 where there is no answer).

    Parameters
    ----------
    name : str
        ``pareto``, ``sharing-incentive``, ``envy-free`` or ``bottleneck``.
    pools : Pools
        The questions.
    found : Outcomes
        The answers.

    Returns
    -------
    tuple of ndarray of shape (size,)
        Relative: tasks that one user could have beside everybody's, of what it could run alone; what part of its
        slice a user lacks; how much more it could run on another's bundle, of its slice (or its
        tasks, if more); what part of its entitlement
        it lacks on every full resource.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # of users with a limit of 0, who lose nothing
        by_user = _BY_USER[name](pools, found)
    by_user = np.where(found.ok[:, None], np.nan_to_num(by_user, nan=0.0), 0.0)
    user = by_user.argmax(axis=1)
    return by_user[np.arange(len(pools)), user], user


def _unused(pools: Pools, found: Outcomes) -> Float:
    left = np.maximum(pools.capacities - np.einsum("bjm,bj->bm", pools.demands, found.tasks), 0.0)
    left = np.where(left <= FULL * pools.capacities, 0.0, left)
    return np.minimum(within(left[:, None], pools.demands), pools.limits - found.tasks) / pools.alone


def _slices(pools: Pools) -> Float:
    part = pools.weights / pools.weights.sum(axis=1, keepdims=True)
    return np.minimum(within(part[:, :, None] * pools.capacities[:, None], pools.demands), pools.limits)


def _below_slice(pools: Pools, found: Outcomes) -> Float:
    return 1.0 - found.tasks / _slices(pools)


def _envy(pools: Pools, found: Outcomes) -> Float:
    held = found.received(pools.demands)
    on_theirs = within(held[:, None], pools.demands[:, :, None])  # (size, envious, envied)
    on_theirs *= pools.weights[:, :, None] / pools.weights[:, None, :]
    wanted = np.minimum(on_theirs, pools.limits[:, :, None]).max(axis=2)
    return (wanted - found.tasks) / np.maximum(_slices(pools), found.tasks)


def _complaint(pools: Pools, found: Outcomes) -> Float:
    used = pools.demands * found.tasks[:, :, None] / pools.capacities[:, None]
    part = (pools.weights / pools.weights.sum(axis=1, keepdims=True))[:, :, None]
    full = used.sum(axis=1)[:, None] >= 1.0 - NEARLY_FULL
    lacking = 1.0 - np.where(full, used / part, 0.0).max(axis=2)
    at_limit = found.tasks >= pools.limits * (1 - 1e-9)
    return np.where(at_limit, 0.0, lacking)


_BY_USER: dict[str, Callable[[Pools, Outcomes], Float]] = {
    "pareto": _unused,
    "sharing-incentive": _below_slice,
    "envy-free": _envy,
    "bottleneck": _complaint,
}


@dataclass(frozen=True, eq=False)
class Measured:
    """How badly a property fails on each pool, and what shows it.

    Attributes
    ----------
    pools : Pools
        The questions.
    margin : ndarray of shape (size,)
        Relative, positive where somebody loses (or gains by a lie).
    user : ndarray of int of shape (size,)
        Who.
    lies : ndarray of shape (size, n_resources) or None
        What that user states.
    family : ndarray of str of shape (size,) or None
        Which family of lies found that.
    leaver : ndarray of int of shape (size,) or None
        Who leaves, for population monotonicity.
    room : ndarray of shape (size, n_resources) or None
        What the capacities grow to, for resource monotonicity.
    outside : ndarray of bool of shape (size,)
        Where the mechanism is not defined.
    faults : tuple of (Pools, Exception)
        Single pools where it failed.
    tallies : dict of str to Tally
        How each family of lies fared.
    """

    pools: Pools
    margin: Float
    user: NDArray[np.int64]
    outside: Bool
    faults: tuple[tuple[Pools, Exception], ...] = ()
    lies: Float | None = None
    family: NDArray[Any] | None = None
    leaver: NDArray[np.int64] | None = None
    room: Float | None = None
    tallies: dict[str, Tally] = field(default_factory=dict)


def measured(mechanism: Any, name: str, pools: Pools, rng: Rng, positive: bool, tries: int = 60) -> Measured:
    """Measure a property of a mechanism on many pools.

    Parameters
    ----------
    mechanism : Policy or other mechanism
        Anything with ``allocate(instance)``.
    name : str
        Any property, by its canonical name.
    pools : Pools
        Where.
    rng : numpy.random.Generator
        For lies, and for capacities that grow.
    positive : bool
        Whether users may state positive demands only.
    tries : int, default 60
        How many lies of each user are tried on each pool.

    Returns
    -------
    Measured

    Examples
    --------
    >>> import fairopt as fo
    >>> import numpy as np
    >>> pool = Pools.of(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
    >>> measured(fo.NoFairness(), "sharing-incentive", pool, np.random.default_rng(0), True).margin
    array([1.])
    """
    if name.startswith("strategy-proof"):
        return _lying(mechanism, pools, rng, positive, "boosting" in name, tries)
    truth = pools.run(mechanism)
    faults = tuple((pools[b : b + 1], error) for b, error in truth.faults)
    if name in _BY_USER:
        margin, user = violations(name, pools, truth)
        return Measured(pools, margin, user, truth.outside, faults)
    found = (
        _leaving(mechanism, pools, truth.tasks)
        if name == "population-monotone"
        else _growing(mechanism, pools, truth.tasks, rng)
    )
    margin = np.where(truth.ok, np.nan_to_num(found.margin, nan=0.0), 0.0)
    return replace(found, margin=margin, outside=truth.outside, faults=(*faults, *found.faults))


def _lying(mechanism: Any, pools: Pools, rng: Rng, positive: bool, boosting: bool, tries: int) -> Measured:
    """The best lie of anybody on each pool."""
    found = best_lies(
        mechanism, pools.demands, pools.capacities, pools.weights, pools.limits, boosting=boosting, positive=positive,
        tries=tries, seed=int(rng.integers(2**32)),
    )  # fmt: skip
    gain = np.nan_to_num(found.gain, nan=0.0, posinf=np.inf)
    rows, user = np.arange(len(pools)), gain.argmax(axis=1)
    faults = tuple((replace(pools[b : b + 1], demands=stated[None]), error) for b, stated, error in found.faults)
    return Measured(
        pools, gain[rows, user], user, found.outside, faults, found.demands[rows, user], found.family[rows, user],
        tallies=found.tallies,
    )  # fmt: skip


def _leaving(mechanism: Any, pools: Pools, truth: Float) -> Measured:
    size, n, _ = pools.demands.shape
    best, user, leaver = np.full(size, -np.inf), np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    faults: list[tuple[Pools, Exception]] = []
    for k in range(n) if n > 1 else ():
        fewer = pools.without(k)
        found = fewer.run(mechanism)
        faults += [(fewer[b : b + 1], error) for b, error in found.faults]
        loss, who = _losses(np.delete(truth, k, axis=1), found)
        better = loss > best
        best[better], user[better], leaver[better] = loss[better], (who + (who >= k))[better], k
    return Measured(pools, np.maximum(best, 0.0), user, np.zeros(size, bool), tuple(faults), leaver=leaver)


def _growing(mechanism: Any, pools: Pools, truth: Float, rng: Rng) -> Measured:
    size, _, m = pools.demands.shape
    whole = (pools.capacities == np.round(pools.capacities)).all(axis=1)
    best, user, room = np.full(size, -np.inf), np.zeros(size, dtype=np.int64), pools.capacities.copy()
    faults: list[tuple[Pools, Exception]] = []
    for i in range(m):
        grown = pools.capacities.copy()
        more = grown[:, i] * rng.choice([1.1, 1.5, 2.0, 4.0], size=size)
        grown[:, i] = np.where(whole, np.ceil(more), more)
        larger = replace(pools, capacities=grown)
        found = larger.run(mechanism)
        faults += [(larger[b : b + 1], error) for b, error in found.faults]
        loss, who = _losses(truth, found)
        better = loss > best
        best[better], user[better], room[better] = loss[better], who[better], grown[better]
    return Measured(pools, np.maximum(best, 0.0), user, np.zeros(size, bool), tuple(faults), room=room)


def _losses(before: Float, found: Outcomes) -> tuple[Float, NDArray[np.int64]]:
    """The largest part of its tasks that anybody loses, and who."""
    loss = np.where(before > 0, 1.0 - found.tasks / np.where(before > 0, before, 1.0), 0.0)
    loss = np.where(found.ok[:, None], np.nan_to_num(loss, nan=0.0), -np.inf)
    who = loss.argmax(axis=1)
    return loss[np.arange(len(loss)), who], who
