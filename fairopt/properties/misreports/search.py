"""The search for the best misreport: families of reports tried in batches, then a climb from the best."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.blocks.bundle_model import tasks_within
from fairopt.errors import InvalidInstance, OutOfDomain
from fairopt.formulation.batch import Batch
from fairopt.instance import Instance
from fairopt.progress import Listener, tell
from fairopt.properties.answers import checked, outcomes_of
from fairopt.properties.misreports.families import climbs, legal, reports

__all__ = ["FLOOR", "NOISE", "MisreportSearch", "Tally", "search_on_pools", "search_on_servers", "true_tasks"]

Float = NDArray[np.floating[Any]]
Bool = NDArray[np.bool_]

# Relative gains below are noise: prices in step are right to 1.6e-6 of the tasks (against the method for one pool, on
# 700 pools of 3 x 3 at each of alpha = 0.1 to 20), water-filling and closed forms to 1e-14.
NOISE = 1e-5
FLOOR = 1e-7  # gains below this part of what the user could run alone are noise too: it truthfully runs next to nothing
ROWS = 2**17  # instances solved together: 10 MB of demands for 3 x 3
LONGEST, SHORTEST = 0.5, 0.005  # steps of the climb, of logarithms: in ROUNDS or more from one to the other
ROUNDS = 6


@dataclass
class Tally:
    """Results of one family of reports."""

    tried: int = 0  # reports, over all users
    hits: int = 0  # users to whom one of them pays; for the climb, users to whom it pays more than all tried before
    seconds: float = 0.0
    first: float | None = None  # seconds from the start of the search to the end of the first batch with a hit


def true_tasks(received: ArrayLike, demands: ArrayLike, limit: ArrayLike = np.inf) -> Float:
    """Tasks that a bundle runs by the true demands, over the last axis, up to a limit."""
    held, need = np.asarray(received, dtype=float), np.asarray(demands, dtype=float)
    return np.asarray(np.minimum(tasks_within(held, need), limit))


# Tries reports (n_rows, M), each of a case (n_rows,): true tasks of the liar, NaN where there is no answer, and faults.
TryReports = Callable[[Float, NDArray[np.int64]], tuple[Float, list[tuple[int, Exception]]]]


@dataclass
class MisreportSearch:
    """The best lie so far of each case (one user of one instance); see `families`."""

    attempt: TryReports
    truth: Float
    room: Float
    truthful: Float
    alone: Float  # tasks that the liar could run with all capacities
    servers: int = 1
    faults: list[tuple[int, Float, Exception]] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)
    kept: list[tuple[float, Float, str]] = field(default_factory=list)  # of a single case: all that were best so far

    def __post_init__(self) -> None:
        self.gain = np.zeros(len(self.truth))
        self.best, self.family = self.truth.copy(), np.full(len(self.truth), "", dtype="<U16")

    def run(
        self, families: tuple[str, ...], tries: int, boosting: bool, positive: bool, rng: np.random.Generator,
        tell: Listener = tell,
    ) -> None:  # fmt: skip
        """All families, each with an equal part of three quarters of the tries, then the climb."""
        each = max(tries * 3 // 4 // max(len(families), 1), 1)
        left = max(tries - each * len(families), 1)
        rounds = max(ROUNDS, left // (4 * self.truth.shape[1]))
        per_round = max(left // rounds, 1)
        begun = time.perf_counter()
        climbed = np.zeros(len(self.truth), dtype=bool)

        def batch(name: str, most: int, make: Callable[[slice], Float]) -> None:
            tally, start = self.tallies.setdefault(name, Tally()), time.perf_counter()
            step = max(ROWS // most, 1)
            for first in range(0, len(self.truth), step):
                tell(f"lies: {name}, users", first, len(self.truth))
                where = slice(first, first + step)
                truth, room = self.truth[where], self.room[where]
                told, lies = legal(make(where), truth, room, boosting, positive, self.servers)
                pays, better = self.judge(name, where, told, lies)
                tally.hits += int((better & ~climbed[where] if name == "climb" else pays).sum())
                climbed[where] |= better & (name == "climb")
                if tally.hits and tally.first is None:
                    tally.first = time.perf_counter() - begun
            tally.seconds += time.perf_counter() - start

        def members(name: str) -> Callable[[slice], Float]:
            return lambda w: reports(name, self.truth[w], self.room[w], rng, each, self.servers)

        def around(length: float) -> Callable[[slice], Float]:
            return lambda w: climbs(self.best[w], length, rng, per_round)

        for name in families:
            batch(name, each, members(name))
        for length in np.geomspace(LONGEST, SHORTEST, rounds):
            batch("climb", per_round, around(float(length)))

    def judge(self, name: str, where: slice, told: Float, lies: Bool) -> tuple[Bool, Bool]:
        """Try the reports (n_cases, K, M) that are lies for the cases of a slice, and keep those that pay most.

        Returns masks of the cases in which one of them pays, and in which it pays more than any before.
        """
        case, k = np.nonzero(lies)
        self.tallies[name].tried += len(case)
        if not len(case):
            return np.zeros(len(told), dtype=bool), np.zeros(len(told), dtype=bool)
        tasks, faults = self.attempt(told[case, k], where.start + case)
        self.faults += [(int(where.start + case[r]), told[case[r], k[r]], error) for r, error in faults]
        lying = np.full(lies.shape, -np.inf)
        lying[case, k] = np.where(np.isnan(tasks), -np.inf, tasks)
        truthful, rows = self.truthful[where], np.arange(len(told))
        at = lying.argmax(axis=1)
        most, chosen = lying[rows, at], told[rows, at]
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(truthful > 0, most / truthful - 1.0, np.where(most > 0, np.inf, 0.0))
        pays = most - truthful > np.maximum(NOISE * truthful, FLOOR * self.alone[where])
        better = pays & (gain > self.gain[where])
        place = where.start + np.flatnonzero(better)
        self.gain[place], self.best[place], self.family[place] = gain[better], chosen[better], name
        if len(self.truth) == 1 and better.any():
            self.kept.append((float(gain[0]), chosen[0], name))
        return pays, better

    def promising(self) -> list[tuple[Float, str]]:
        """Lies of a single case that seem to pay, the best first."""
        return [(told, name) for _, told, name in sorted(self.kept, key=lambda k: -k[0])]


def search_on_pools(mechanism: Any, pools: Batch, user: NDArray[np.int64], truthful: Float) -> MisreportSearch:
    """A search whose reports are tried in batches: a pool and the lying user for each case."""
    rows = np.arange(len(pools))
    truth, limit = pools.demands[rows, user], pools.limits[rows, user]

    def attempt(told: Float, case: NDArray[np.int64]) -> tuple[Float, list[tuple[int, Exception]]]:
        rows, who = np.arange(len(case)), user[case]
        lied = pools[case]  # copies
        lied.demands[rows, who] = told
        found = outcomes_of(mechanism, lied)
        tasks = true_tasks(found.received(lied.demands)[rows, who], truth[case], limit[case])
        return np.where(found.ok, tasks, np.nan), found.faults

    return MisreportSearch(attempt, truth, pools.capacities, truthful, true_tasks(pools.capacities, truth, limit))


def search_on_servers(mechanism: Any, instance: Instance, j: int, truthful: float) -> MisreportSearch:
    """A search whose reports are tried one by one, each on the instance as it is."""
    by_server = instance.demands.ndim == 3
    room = instance.capacities if by_server else instance.total_capacities

    def attempt(told: Float, case: NDArray[np.int64]) -> tuple[Float, list[tuple[int, Exception]]]:
        tasks, faults = np.full(len(told), np.nan), []
        for k, row in enumerate(told):
            try:
                lied = lying_instance(instance, j, row.reshape(instance.demands.shape[1:]))
            except InvalidInstance:  # as with nowhere to run: not a legal report
                continue
            try:
                tasks[k] = tasks_on(checked(mechanism, lied).bundles[j], instance, j)
            except OutOfDomain:
                continue
            except Exception as error:  # any exception of a mechanism is a fault to report
                faults.append((k, error))
        return tasks, faults

    return MisreportSearch(
        attempt, instance.demands[j].reshape(1, -1).astype(float), np.asarray(room, dtype=float).reshape(1, -1),
        np.array([truthful]), np.array([tasks_of_everything(instance, j)]), instance.n_servers if by_server else 1,
    )  # fmt: skip


def lying_instance(instance: Instance, j: int, told: Float) -> Instance:
    """The instance when one user reports other demands."""
    demands = np.array(instance.demands)
    demands[j] = told
    return instance.with_demands(demands)


def tasks_on(held: Float, instance: Instance, j: int) -> float:
    """Tasks that a user truly runs with what it holds on each server row, (n_servers, n_resources)."""
    where = instance.eligible[j]
    runs = true_tasks(held[where], instance.per_server_demands[j][where]).sum()
    return float(np.minimum(runs, instance.task_limits[j]))


def tasks_of_everything(instance: Instance, j: int) -> float:
    """Tasks that a user could run with all capacities."""
    return tasks_on(instance.capacities * instance.counts[:, None], instance, j)
