"""The violation of each property on thousands of pools at once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairopt.properties.answers import Outcomes, outcomes_of
from fairopt.properties.margins import Margins, margins_of
from fairopt.properties.misreports.best import Tally, best_lies
from fairopt.properties.units import first_largest
from fairopt.runtime.arrays import Bool, Float, Ints, Rng
from fairopt.solve.form.many_instances import Batch


def violations(margins: Margins, pools: Batch, outcomes: Outcomes) -> tuple[Float, Ints]:
    """The largest margin of a property of allocations on each pool (0 without an answer) and its user, (n_pools,)."""
    with np.errstate(divide="ignore", invalid="ignore"):  # of users with a limit of 0
        by_user = margins.of_many(pools, outcomes)
    by_user = np.where(outcomes.ok[:, None], np.nan_to_num(by_user, nan=0.0), 0.0)
    user = first_largest(by_user)
    return by_user[np.arange(len(pools)), user], user


@dataclass(frozen=True, eq=False)
class Measurement:
    """The violation of a property on each pool, and the change that causes it."""

    pools: Batch
    margin: Float  # relative, positive where a user loses (or gains by a misreport), (n_pools,)
    user: Ints  # that user, (n_pools,)
    outside: Bool  # where the mechanism is not defined, (n_pools,)
    faults: tuple[tuple[Batch, Exception], ...] = ()  # single pools on which it failed
    lies: Float | None = None  # that user's report, (n_pools, n_resources)
    leaver: Ints | None = None  # the user who leaves, for population monotonicity, (n_pools,)
    room: Float | None = None  # the larger capacities, for resource monotonicity, (n_pools, n_resources)
    tallies: dict[str, Tally] = field(default_factory=dict)  # by family of reports


def measure(mechanism: Any, name: str, pools: Batch, rng: Rng, positive: bool, tries: int = 60) -> Measurement:
    """Measure a property of a mechanism on many pools.

    Misreports (``tries`` of each user, with ``positive`` of positive demands only) and growth are drawn by ``rng``.
    """
    if name.startswith("strategy-proof"):
        return _measure_lies(mechanism, pools, rng, positive, "boosting" in name, tries)
    truth = outcomes_of(mechanism, pools)
    faults = tuple((pools[b : b + 1], error) for b, error in truth.faults)
    if (margins := margins_of(name)) is not None:
        margin, user = violations(margins, pools, truth)
        return Measurement(pools, margin, user, truth.outside, faults)
    return _measure_losses(mechanism, pools, truth, faults, rng if name == "resource-monotone" else None)


def _measure_lies(mechanism: Any, pools: Batch, rng: Rng, positive: bool, boosting: bool, tries: int) -> Measurement:
    """The most profitable misreport of any user on each pool."""
    seed = int(rng.integers(2**32))
    best = best_lies(mechanism, pools, boosting=boosting, positive=positive, tries=tries, seed=seed)
    gain = np.nan_to_num(best.gain, nan=0.0, posinf=np.inf)
    rows, user = np.arange(len(pools)), gain.argmax(axis=1)
    faults = tuple((replace(pools[b : b + 1], demands=stated[None]), error) for b, stated, error in best.faults)
    lies = best.demands[rows, user]
    return Measurement(pools, gain[rows, user], user, best.outside, faults, lies, tallies=best.tallies)


def _measure_losses(mechanism: Any, pools: Batch, truth: Outcomes, faults: Any, grows: Rng | None) -> Measurement:
    """The largest relative loss of a user on each pool when another leaves, or when a capacity ``grows``."""
    size, n, m = pools.demands.shape
    margin, user = np.zeros(size), np.zeros(size, dtype=np.int64)
    leaver, room = np.zeros(size, dtype=np.int64), pools.capacities.copy()
    changes = range(m) if grows is not None else range(n) if n > 1 else ()
    for k in changes:
        changed = pools.without_user(k) if grows is None else _grown(pools, k, grows)
        after = outcomes_of(mechanism, changed)
        faults += tuple((changed[b : b + 1], error) for b, error in after.faults)
        before = np.delete(truth.tasks, k, axis=1) if grows is None else truth.tasks
        loss = np.where(before > 0, 1.0 - after.tasks / np.where(before > 0, before, 1.0), 0.0)
        loss = np.where((truth.ok & after.ok)[:, None], np.nan_to_num(loss, nan=0.0), 0.0)
        who = loss.argmax(axis=1)
        most = loss[np.arange(size), who]
        more = most > margin
        margin[more], leaver[more], room[more] = most[more], k, changed.capacities[more]
        user[more] = (who + (who >= k) if grows is None else who)[more]
    if grows is None:
        return Measurement(pools, margin, user, truth.outside, faults, leaver=leaver)
    return Measurement(pools, margin, user, truth.outside, faults, room=room)


def _grown(pools: Batch, i: int, rng: Rng) -> Batch:
    """The pools with more of one resource; integer capacities stay integers."""
    whole = (pools.capacities == np.round(pools.capacities)).all(axis=1)
    grown = pools.capacities.copy()
    more = grown[:, i] * rng.choice([1.1, 1.5, 2.0, 4.0], size=len(pools))
    grown[:, i] = np.where(whole, np.ceil(more), more)
    return replace(pools, capacities=grown)
