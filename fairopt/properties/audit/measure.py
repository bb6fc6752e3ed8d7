"""Every property of a mechanism, measured on thousands of pools at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.properties.audit.answers import Outcomes
from fairopt.properties.audit.pools import Pools, within
from fairopt.properties.dominance import ROUNDING
from fairopt.properties.misreports.best import Tally, best_lies
from fairopt.properties.units import TRACE

__all__ = ["Measured", "measured", "violations"]

Float = NDArray[np.floating[Any]]
Bool = NDArray[np.bool_]
Rng = np.random.Generator

NEARLY_FULL = 1e-4  # relative: bottlenecks may be less than full by what numerical routes leave


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
        Relative: tasks that one user could have beside everybody's, of its tasks (of its slice, if it has none); what
        part of its slice a user lacks; how much more it could run on another's bundle, of its slice (or its tasks, if
        more); what part of its entitlement it lacks on every full resource.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # of users with a limit of 0, who lose nothing
        by_user = _BY_USER[name](pools, found)
    by_user = np.where(found.ok[:, None], np.nan_to_num(by_user, nan=0.0), 0.0)
    user = by_user.argmax(axis=1)
    return by_user[np.arange(len(pools)), user], user


def _unused(pools: Pools, found: Outcomes) -> Float:
    left = np.maximum(pools.capacities - np.einsum("bjm,bj->bm", pools.demands, found.tasks), 0.0)
    left = np.where(left <= ROUNDING * pools.capacities, 0.0, left)
    slices = _slices(pools)
    runs = np.where(found.tasks > TRACE * slices, found.tasks, slices)
    return np.minimum(within(left[:, None], pools.demands), pools.limits - found.tasks) / runs


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
