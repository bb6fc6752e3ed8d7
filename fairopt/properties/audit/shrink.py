"""Shrinking of counterexamples to few users and small numbers.

A pool is shrunk within a time limit: small integers are drawn shape by shape. Pools and clusters are rounded, and
reduced by one user, server, resource or number at a time, pools many at once. Each smaller pool is verified.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import FairoptError, InvalidInstance
from fairopt.instance import Instance
from fairopt.properties.answers import outcomes_of
from fairopt.properties.audit.measure import Measurement, measure
from fairopt.properties.audit.random_instances import LARGEST, random_pools
from fairopt.properties.exact.confirm import Counterexample, Verified, verified
from fairopt.properties.misreports.best import true_tasks
from fairopt.properties.misreports.families import legal
from fairopt.runtime.clock import Clock, Late
from fairopt.solve.form.many_instances import Batch

SMALL_SHAPES = ((1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3))
READABLE = 0.01  # preferred margin of a witness
SIMPLE = (*(float(v) for v in range(LARGEST + 1)), 0.5)  # preferred numbers of misreports
PROOFS = 8  # candidates verified at a time: with ties, not all optima need violate the property
MANY, SOME = 1000, 4  # pools tried at a time: solved in batches, or one by one
REPORTS, FEW_REPORTS = 40_000, 200  # simple misreports tried


def counterexample_of(name: str, measured: Measurement, b: int) -> Counterexample:
    """One of the measured pools as a counterexample."""
    instance, changed = measured.pools.instance(b), None
    if measured.leaver is not None:
        changed = instance.select_users([j for j in range(instance.n_users) if j != measured.leaver[b]])
    if measured.room is not None:
        changed = instance.with_capacities(measured.room[b])
    lie = None if measured.lies is None else tuple(measured.lies[b].tolist())
    return Counterexample(name, instance, int(measured.user[b]), lie, changed)


def size_of(pools: Batch, b: int = 0) -> tuple[Any, ...]:
    """A sort key of pools: integers first, then few users, resources, weights and limits, then small numbers."""
    limits = pools.limits[b][np.isfinite(pools.limits[b])]
    numbers = np.concatenate([pools.demands[b].ravel(), pools.capacities[b], pools.weights[b], limits])
    whole = bool((numbers == np.round(numbers)).all())
    return (
        not whole,
        pools.demands.shape[1],
        pools.demands.shape[2],
        bool((pools.weights[b] != 1).any()),
        len(limits),
        float(numbers.max()),
        float(numbers.sum()),
        tuple(pools.demands[b].ravel()),
        tuple(pools.capacities[b]),
    )


@dataclass
class Shrinker:
    """The search for small pools on which a property of a mechanism fails.

    ``accepts`` returns a mask of allowed pools, ``seconds`` is the time limit, and ``in_batches`` says
    whether pools are solved together.
    """

    mechanism: Any
    name: str
    positive: bool
    accepts: Any
    seed: int
    seconds: float
    in_batches: bool

    def __post_init__(self) -> None:
        self.clock = Clock(self.seconds)
        self.best: tuple[Counterexample, Verified] | None = None  # the smallest verified so far
        self.tries = 60 if self.in_batches else 12

    def smallest(self, measured: Measurement, b: int) -> tuple[Counterexample, Verified]:
        """The smallest counterexample found from a measured pool, with its verification.

        If no smaller pool fails it is the pool itself, which may not be confirmed. `Late` is raised if the time is over
        before any is verified.
        """
        try:
            return self._smallest(measured, b)
        except Late:
            if self.best is None:
                raise
            return self.best

    def _smallest(self, measured: Measurement, b: int) -> tuple[Counterexample, Verified]:
        self.least = min(READABLE, float(measured.margin[b]) / 2)
        pool = measured.pools[b : b + 1]
        for made in (self._drawn(pool), pool):
            reduced = self._reduced(made)
            proof = None if reduced is None else self._proved(reduced)
            if proof is not None:
                return self._simplest_lie(*proof)
        start = counterexample_of(self.name, measured, b)
        return start, verified(self.mechanism, start)

    # -- steps ------------------------------------------------------------------------------------------------

    def _measure(self, pools: Batch) -> Measurement:
        return measure(self.mechanism, self.name, pools, np.random.default_rng(self.seed), self.positive, self.tries)

    def _failing(self, pools: Batch) -> tuple[Measurement, NDArray[np.int64]]:
        """The measurement of pools, and the indices of those that are allowed and fail."""
        measured = self._measure(pools)
        return measured, np.flatnonzero((measured.margin >= self.least) & self.accepts(pools))

    def _drawn(self, pool: Batch) -> Batch | None:
        """A drawn pool of small integers on which the property fails, of the smallest shape."""
        rng = np.random.default_rng(self.seed)
        weights, limits = bool((pool.weights != 1).any()), bool(np.isfinite(pool.limits).any())
        number = 150 if self.name.startswith("strategy-proof") else 500
        number = number if self.in_batches else 8
        for options in ({}, {"weights": weights, "limits": limits}) if weights or limits else ({},):
            for shape in SMALL_SHAPES:
                if self.clock.late or shape > (pool.n_users, np.inf):
                    break
                pools = random_pools(rng, "integers", shape, number, positive=self.positive, **options)
                pools = pools[self.accepts(pools)]
                if len(pools) and (proved := self._first_proved(pools)) is not None:
                    return proved
        return None

    def _reduced(self, pools: Batch | None) -> Batch | None:
        """The pool reduced step by step while the property fails; None if it does not fail on the pool."""
        if pools is None or self._first_proved(pools) is None:
            return None
        while not self.clock.late:
            now = size_of(pools)
            steps = (self._first_proved(moves, now) for moves in self._moves(pools))
            smaller = next((step for step in steps if step is not None), None)
            if smaller is None:
                break
            pools = smaller
        return pools

    def _first_proved(self, pools: Batch, below: tuple[Any, ...] | None = None) -> Batch | None:
        """The smallest pool with a verified violation, among ``PROOFS`` candidates."""
        measured, failing = self._failing(pools)
        sizes = {int(b): size_of(pools, int(b)) for b in failing}
        for b in sorted((b for b in sizes if below is None or sizes[b] < below), key=lambda b: sizes[b])[:PROOFS]:
            case = counterexample_of(self.name, measured, b)
            proof = verified(self.mechanism, case)
            if proof.confirmed:
                self._keep(case, proof)
                return pools[b : b + 1]
        return None

    def _keep(self, case: Counterexample, proof: Verified) -> None:
        sizes = [size_of(Batch.of_instance(one[0].instance)) for one in ((case, proof), self.best) if one is not None]
        if len(sizes) == 1 or sizes[0] < sizes[1]:
            self.best = case, proof

    def _moves(self, pools: Batch) -> Iterator[Batch]:
        """Pools that are one step smaller, in batches of one shape."""
        step, smaller = MANY if self.in_batches else SOME, _one_step_smaller(pools.instance(0), zeros=not self.positive)
        for _, alike in itertools.groupby(smaller, lambda one: one.demands.shape):
            while not self.clock.late and (some := [*map(Batch.of_instance, itertools.islice(alike, step))]):
                numbers = [(one.demands, one.capacities, one.weights, one.limits) for one in some]
                yield Batch(*map(np.concatenate, zip(*numbers, strict=True)))

    def _proved(self, pools: Batch) -> tuple[Counterexample, Verified] | None:
        """The verified counterexample on one pool, or None."""
        measured, failing = self._failing(pools)
        if not len(failing):
            return None
        case = counterexample_of(self.name, measured, int(failing[0]))
        proof = verified(self.mechanism, case)
        if not proof.confirmed:
            return None
        self._keep(case, proof)
        return case, proof

    def _simplest_lie(self, case: Counterexample, proof: Verified) -> tuple[Counterexample, Verified]:
        """The same pool with a misreport of small numbers, if one gains at least a quarter as much."""
        most = REPORTS if self.in_batches else FEW_REPORTS
        if case.lie is None or len(SIMPLE) ** case.instance.n_resources > most:
            return case, proof
        start = Batch.of_instance(case.instance)
        true = start.demands[:, case.user]
        grid = np.array(list(itertools.product(SIMPLE, repeat=case.instance.n_resources)))
        reports, lies = legal(grid[None], true, start.capacities, "boosting" in self.name, self.positive)
        reports = reports[0][lies[0] & (reports[0] == grid).all(axis=1)]
        if not len(reports):
            return case, proof
        many = start[np.zeros(len(reports), dtype=int)]
        demands = many.demands.copy()
        demands[:, case.user] = reports
        try:
            outcomes = outcomes_of(self.mechanism, replace(many, demands=demands))
            truth = outcomes_of(self.mechanism, start).tasks[0, case.user]
        except FairoptError:
            return case, proof
        limit = start.limits[0, case.user]
        runs = np.where(outcomes.ok, true_tasks(outcomes.received(demands)[:, case.user], true, limit), 0.0)
        floor = max(truth, 1e-9) * (1 + max(self.least, min(proof.margin, 1e6) / 4))
        for lie in sorted(reports[runs >= floor].tolist(), key=lambda lie: (max(lie), sum(lie), lie))[:5]:
            simple = replace(case, lie=tuple(lie))
            again = verified(self.mechanism, simple)
            if again.confirmed:
                return simple, again
        return case, proof


# -- clusters -------------------------------------------------------------------------------------------------


def smaller_cluster(instance: Instance, fails: Callable[[Instance], bool], seconds: float) -> Instance:
    """The smallest cluster found on which ``fails`` still holds."""
    clock = Clock(seconds)
    again = True
    while again:
        again = False
        for smaller in _one_step_smaller(instance):
            if clock.late:
                return instance
            try:
                again = fails(smaller)
            except Late:
                return instance
            if again:
                instance = smaller
                break
    return instance


def _one_step_smaller(instance: Instance, zeros: bool = False) -> Iterator[Instance]:
    """Instances that are one step smaller, larger steps first; with demands of 0 if ``zeros`` are."""
    demands, capacities, eligible, rates = instance.demands, instance.capacities, instance.eligible, instance.rates
    if (demands % 1 > 0).any() or (capacities % 1 > 0).any():
        largest = np.maximum(demands.max(axis=tuple(range(demands.ndim - 1))), capacities.max(axis=0))
        for top in (4, LARGEST, 16, 100, 1000, 10_000):
            needs, room = (np.ceil(np.round(part / largest * top, 6)) for part in (demands, capacities))
            yield from _if_valid(instance, demands=needs, capacities=room)
    for kept in _all_but_one(instance.n_users):
        yield from _if_valid(instance.select_users(kept))
    for kept in _all_but_one(instance.n_servers):
        speeds = None if rates is None else rates[:, kept]
        yield from _if_valid(instance, capacities=capacities[kept], eligible=eligible[:, kept], rates=speeds)
    for kept in _all_but_one(instance.n_resources):
        yield from _if_valid(instance, demands=demands[:, kept], capacities=capacities[:, kept])
    for by in instance.teams:
        yield from _if_valid(instance, teams={other: instance.teams[other] for other in instance.teams if other != by})
    plain = {
        "eligible": eligible.all(),
        "task_limits": np.isinf(instance.task_limits).all(),
        "weights": (instance.own_weights == 1).all() and not instance.team_weights,
        "rates": rates is None,
        "guarantees": not instance.derived.has_guarantees,
    }
    for name in (name for name, already in plain.items() if not already):
        yield from _if_valid(instance, **{name: None})
    for by, names in instance.teams.items():
        for j in (j for j, name in enumerate(names) if name is not None):
            yield from _if_valid(instance, teams={**instance.teams, by: (*names[:j], None, *names[j + 1 :])})
    if ((4 * instance.guarantees) % 1 > 0).any():
        yield from _if_valid(instance, guarantees=np.floor(4 * instance.guarantees) / 4)
    numbered = {"demands": demands, "capacities": capacities} | ({} if rates is None else {"rates": rates})
    if not instance.team_weights:
        numbered["weights"] = instance.own_weights
    for name, numbers in numbered.items():
        least = 0.0 if zeros and name == "demands" else 1.0
        for at in map(tuple, np.argwhere(numbers > least)):
            lower = (least, 1.0, numbers[at] // 2, numbers[at] - 1)
            for less in dict.fromkeys(v for v in lower if least <= v < numbers[at]):
                changed = numbers.copy()
                changed[at] = less
                yield from _if_valid(instance, **{name: changed})


def _all_but_one(size: int) -> Iterator[NDArray[np.int64]]:
    """All indices but one, for each one; nothing if there is only one."""
    yield from (np.delete(np.arange(size), k) for k in range(size) if size > 1)


def _if_valid(instance: Instance, **changes: Any) -> Iterator[Instance]:
    """The instance with changes and default labels, without weights and guarantees of teams that it leaves out."""
    names = ("demands", "capacities", "eligible", "task_limits", "rates")
    given = {name: getattr(instance, name) for name in names} | {"teams": dict(instance.teams)} | changes
    left = {name for labels in given["teams"].values() for name in labels}
    users = [f"user{j + 1}" for j in range(instance.n_users)]
    of_teams: dict[str, tuple[Any, dict[str, Any]]] = {
        "weights": (instance.own_weights, instance.team_weights),
        "guarantees": (instance.guarantees, instance.team_guarantees),
    }
    for name, (by_user, by_team) in of_teams.items():
        kept = {team: value for team, value in by_team.items() if team in left}
        given.setdefault(name, dict(zip(users, by_user.tolist(), strict=True)) | kept)
    with contextlib.suppress(InvalidInstance):
        yield Instance(**given)
