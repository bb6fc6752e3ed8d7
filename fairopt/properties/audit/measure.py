"""Every property of a mechanism, measured on thousands of pools at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.bundle_model import tasks_within
from fairopt.formulation.batch import Batch
from fairopt.properties.answers import Outcomes, outcomes_of
from fairopt.properties.envy import at_own_weights
from fairopt.properties.misreports.best import Tally, best_lies
from fairopt.properties.pareto import ROUNDING
from fairopt.properties.units import TRACE

__all__ = ["Measurement", "measure", "violations"]

Float = NDArray[np.floating[Any]]
Bool = NDArray[np.bool_]
Rng = np.random.Generator

NEARLY_FULL = 1e-4  # relative: bottlenecks may be less than full by what numerical methods leave


# -- properties -------------------------------------------------------------------------------------------------------


def violations(name: str, pools: Batch, found: Outcomes) -> tuple[Float, NDArray[np.int64]]:
    """How badly a property of allocations fails on each pool, and for which user (0 where there is no answer).

    Margins are relative. ``pareto``: tasks that one user could have beside those of all users, of its tasks (of its
    slice, if it has none). ``sharing-incentive``: what part of its slice a user lacks. ``envy-free``: how much more it
    could run on another's bundle, of its slice (or its tasks, if more). ``bottleneck``: what part of its entitlement it
    lacks on every full resource.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # of users with a limit of 0, who lose nothing
        by_user = _BY_USER[name](pools, found)
    by_user = np.where(found.ok[:, None], np.nan_to_num(by_user, nan=0.0), 0.0)
    user = by_user.argmax(axis=1)
    return by_user[np.arange(len(pools)), user], user


def _pareto_margin(pools: Batch, found: Outcomes) -> Float:
    left = np.maximum(pools.capacities - np.einsum("bjm,bj->bm", pools.demands, found.tasks), 0.0)
    left = np.where(left <= ROUNDING * pools.capacities, 0.0, left)
    slices = _slices(pools)
    runs = np.where(found.tasks > TRACE * slices, found.tasks, slices)
    return np.minimum(tasks_within(left[:, None], pools.demands), pools.limits - found.tasks) / runs


def _slices(pools: Batch) -> Float:
    part = pools.weights / pools.weights.sum(axis=1, keepdims=True)
    return np.minimum(tasks_within(part[:, :, None] * pools.capacities[:, None], pools.demands), pools.limits)


def _sharing_margin(pools: Batch, found: Outcomes) -> Float:
    return 1.0 - found.tasks / _slices(pools)


def _envy_margin(pools: Batch, found: Outcomes) -> Float:
    held = found.received(pools.demands)
    on_theirs = tasks_within(held[:, None], pools.demands[:, :, None])  # (size, envious, envied)
    wanted = at_own_weights(on_theirs, pools.weights, pools.weights, pools.limits).max(axis=2)
    return (wanted - found.tasks) / np.maximum(_slices(pools), found.tasks)


def _bottleneck_margin(pools: Batch, found: Outcomes) -> Float:
    used = pools.demands * found.tasks[:, :, None] / pools.capacities[:, None]
    part = (pools.weights / pools.weights.sum(axis=1, keepdims=True))[:, :, None]
    full = used.sum(axis=1)[:, None] >= 1.0 - NEARLY_FULL
    lacking = 1.0 - np.where(full, used / part, 0.0).max(axis=2)
    at_limit = found.tasks >= pools.limits * (1 - 1e-9)
    return np.where(at_limit, 0.0, lacking)


_BY_USER: dict[str, Callable[[Batch, Outcomes], Float]] = {
    "pareto": _pareto_margin,
    "sharing-incentive": _sharing_margin,
    "envy-free": _envy_margin,
    "bottleneck": _bottleneck_margin,
}


@dataclass(frozen=True, eq=False)
class Measurement:
    """How badly a property fails on each pool, and what shows it.

    Attributes
    ----------
    pools : Batch
        The questions.
    margin : ndarray of shape (size,)
        Relative, positive where a user loses (or gains by a lie).
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
    faults : tuple of (Batch, Exception)
        Single pools where it failed.
    tallies : dict of str to Tally
        How each family of lies fared.
    """

    pools: Batch
    margin: Float
    user: NDArray[np.int64]
    outside: Bool
    faults: tuple[tuple[Batch, Exception], ...] = ()
    lies: Float | None = None
    family: NDArray[Any] | None = None
    leaver: NDArray[np.int64] | None = None
    room: Float | None = None
    tallies: dict[str, Tally] = field(default_factory=dict)


def measure(mechanism: Any, name: str, pools: Batch, rng: Rng, positive: bool, tries: int = 60) -> Measurement:
    """Measure a property of a mechanism on many pools.

    Lies and growing capacities are drawn by ``rng``; ``positive`` says whether users may state positive demands only,
    and ``tries`` how many lies of each user are tried on each pool.

    Examples
    --------
    >>> import fairopt as fo
    >>> import numpy as np
    >>> pool = Batch.of_instance(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
    >>> measure(fo.NoFairness(), "sharing-incentive", pool, np.random.default_rng(0), True).margin
    array([1.])
    """
    if name.startswith("strategy-proof"):
        return _measure_lies(mechanism, pools, rng, positive, "boosting" in name, tries)
    truth = outcomes_of(mechanism, pools)
    faults = tuple((pools[b : b + 1], error) for b, error in truth.faults)
    if name in _BY_USER:
        margin, user = violations(name, pools, truth)
        return Measurement(pools, margin, user, truth.outside, faults)
    found = (
        _measure_departures(mechanism, pools, truth.tasks)
        if name == "population-monotone"
        else _measure_growth(mechanism, pools, truth.tasks, rng)
    )
    margin = np.where(truth.ok, np.nan_to_num(found.margin, nan=0.0), 0.0)
    return replace(found, margin=margin, outside=truth.outside, faults=(*faults, *found.faults))


def _measure_lies(mechanism: Any, pools: Batch, rng: Rng, positive: bool, boosting: bool, tries: int) -> Measurement:
    """The best lie of any user on each pool."""
    found = best_lies(
        mechanism, pools, boosting=boosting, positive=positive, tries=tries, seed=int(rng.integers(2**32))
    )  # fmt: skip
    gain = np.nan_to_num(found.gain, nan=0.0, posinf=np.inf)
    rows, user = np.arange(len(pools)), gain.argmax(axis=1)
    faults = tuple((replace(pools[b : b + 1], demands=stated[None]), error) for b, stated, error in found.faults)
    return Measurement(
        pools, gain[rows, user], user, found.outside, faults, found.demands[rows, user], found.family[rows, user],
        tallies=found.tallies,
    )  # fmt: skip


def _measure_departures(mechanism: Any, pools: Batch, truth: Float) -> Measurement:
    size, n, _ = pools.demands.shape
    best, user, leaver = np.full(size, -np.inf), np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    faults: list[tuple[Batch, Exception]] = []
    for k in range(n) if n > 1 else ():
        fewer = pools.without_user(k)
        found = outcomes_of(mechanism, fewer)
        faults += [(fewer[b : b + 1], error) for b, error in found.faults]
        loss, who = _largest_losses(np.delete(truth, k, axis=1), found)
        better = loss > best
        best[better], user[better], leaver[better] = loss[better], (who + (who >= k))[better], k
    return Measurement(pools, np.maximum(best, 0.0), user, np.zeros(size, bool), tuple(faults), leaver=leaver)


def _measure_growth(mechanism: Any, pools: Batch, truth: Float, rng: Rng) -> Measurement:
    size, _, m = pools.demands.shape
    whole = (pools.capacities == np.round(pools.capacities)).all(axis=1)
    best, user, room = np.full(size, -np.inf), np.zeros(size, dtype=np.int64), pools.capacities.copy()
    faults: list[tuple[Batch, Exception]] = []
    for i in range(m):
        grown = pools.capacities.copy()
        more = grown[:, i] * rng.choice([1.1, 1.5, 2.0, 4.0], size=size)
        grown[:, i] = np.where(whole, np.ceil(more), more)
        larger = replace(pools, capacities=grown)
        found = outcomes_of(mechanism, larger)
        faults += [(larger[b : b + 1], error) for b, error in found.faults]
        loss, who = _largest_losses(truth, found)
        better = loss > best
        best[better], user[better], room[better] = loss[better], who[better], grown[better]
    return Measurement(pools, np.maximum(best, 0.0), user, np.zeros(size, bool), tuple(faults), room=room)


def _largest_losses(before: Float, found: Outcomes) -> tuple[Float, NDArray[np.int64]]:
    """The largest part of its tasks that a user loses on each pool, and which user."""
    loss = np.where(before > 0, 1.0 - found.tasks / np.where(before > 0, before, 1.0), 0.0)
    loss = np.where(found.ok[:, None], np.nan_to_num(loss, nan=0.0), -np.inf)
    who = loss.argmax(axis=1)
    return loss[np.arange(len(loss)), who], who
