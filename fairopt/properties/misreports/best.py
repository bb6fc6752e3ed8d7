"""The search for the most profitable misreport: families of reports in batches, then a climb from the best."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.blocks.bundle_model import tasks_within
from fairopt.blocks.shares import Share
from fairopt.errors import FairoptError, InvalidInstance, OutOfDomain
from fairopt.instance import Instance
from fairopt.properties.answers import checked, outcomes_of
from fairopt.properties.misreports.families import FAMILIES, climbs, legal, reports
from fairopt.properties.names import given_labels, labelled, require_whole, when_late, zero_if_noise
from fairopt.properties.uncertainty import error_bound
from fairopt.properties.work import Work, work_by
from fairopt.runtime.arrays import Bool, Float, Ints, Rng
from fairopt.runtime.clock import SHORTEST as SHORTEST_LIMIT
from fairopt.runtime.clock import Clock, Late
from fairopt.runtime.progress import Listener, by_itself
from fairopt.solve.form.many_instances import Batch, is_one_pool
from fairopt.solve.form.program import require_instance

LEAST_GAIN = 1e-5  # relative: smaller ones are noise; batched prices were off by 1.6e-6 of the tasks on 3 x 3 pools
FLOOR = 1e-7  # of the tasks that the user could run alone: smaller gains are noise
ROWS = 2**17  # instances solved together: 10 MB of demands for 3 x 3
LONGEST, SHORTEST = 0.5, 0.005  # first and last step of the climb, in logarithms
ROUNDS = 6  # of the climb, at least
MOMENT = 0.05  # seconds: batches that take less are doubled until the next check of the clock
AGAIN = 2.0  # reserve for solving truth and lie again, over the seconds of the truth


@dataclass(frozen=True)
class Misreport:
    """A misreport of a user, and its gain.

    Attributes
    ----------
    user : str
        The user who lies.
    demands : tuple
        The demands reported, by resource; or a tuple of these by server.
    gain : float
        True tasks under the lie over those under the truth, less 1; infinite where the truth gives none.
    truthful, lying : float
        True tasks, or work, under the truth and under the lie.
    family : str
        The family of reports; see `fairopt.properties.misreports.families`.
    resources, servers : tuple of str
        Labels that are not default ones.
    share : str
        The share that ``truthful`` and ``lying`` are of; empty for tasks.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 3], [3, 1]], [2, 4], users=["a", "b"], resources=["cpu", "memory"])
    >>> print(fo.properties.best_misreport(fo.FDS(1), cluster, "b"))
    user 'b' reports (cpu 2, memory 3) and runs 0.444444 tasks instead of 0.333333 (+33.333%)
    """

    user: str
    demands: tuple[Any, ...]
    gain: float
    truthful: float
    lying: float
    family: str
    resources: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    share: str = ""

    @classmethod
    def on(
        cls,
        instance: Instance,
        user: int,
        demands: tuple[Any, ...],
        truthful: float,
        lying: float,
        family: str = "",
        work: Work | None = None,
        *,
        gain: float | None = None,
    ) -> Misreport:
        """A lie with the labels of an instance; unless its gain is given, it is that of ``lying`` over ``truthful``."""
        names = (given_labels(instance.resources, "resource"), given_labels(instance.servers, "server"))
        share = "" if work is None else repr(work.share)
        if gain is None:
            gain = lying / truthful - 1.0 if truthful > 0 else np.inf
        return cls(instance.users[user], demands, gain, truthful, lying, family, *names, share)

    def __str__(self) -> str:
        def row(numbers: tuple[float, ...]) -> str:
            return labelled([f"{d:.6g}" for d in numbers], self.resources)

        by_server = bool(self.demands) and isinstance(self.demands[0], tuple)
        reported = labelled([f"({row(r)})" for r in self.demands], self.servers) if by_server else row(self.demands)
        truthful = zero_if_noise(self.truthful, self.lying)
        by = f"+{self.gain:.3%}" if truthful else "from none"
        has = f"has a {self.share} of {self.lying:.6g}" if self.share else f"runs {self.lying:.6g} tasks"
        return f"user {self.user!r} reports ({reported}) and {has} instead of {truthful:.6g} ({by})"


class Tally(NamedTuple):
    """Results of one family of instances or of reports.

    A hit is a violation, unverified; of reports a user for whom one pays, or for whom the climb pays more than all
    reports before.
    """

    tried: int = 0
    hits: int = 0
    seconds: float | None = None  # until the end of the first batch with a hit

    def plus(self, tried: int, hits: int, seconds: float | None) -> Tally:
        """The tally with another batch."""
        return Tally(self.tried + tried, self.hits + hits, seconds if hits and not self.hits else self.seconds)


@dataclass(frozen=True, eq=False)
class Lies:
    """The best lie found for each user of many pools, unverified; arrays by instance and user."""

    gain: Float  # relative; 0 where no lie pays, NaN where the truth has no answer
    demands: Float  # reported; the truth where no lie pays, (n_instances, n_users, n_resources)
    family: NDArray[np.str_]  # empty where no lie pays
    truthful: Float  # tasks under the truth
    outside: Bool  # where the mechanism is not defined, (n_instances,)
    tallies: dict[str, Tally]  # by family
    faults: tuple[tuple[int, Float, Exception], ...]  # instances on which the mechanism failed, with reported demands


def best_misreport(
    policy: Any,
    instance: Instance,
    user: str | int,
    *,
    boosting: bool = False,
    positive: bool = False,
    share: Share | None = None,
    seed: int = 0,
    budget: int | None = None,
    time_limit: float | None = None,
) -> Misreport | None:
    """Search for the demands by whose misreport a user gains most.

    The user receives the answer to the reported demands and runs the tasks that its true demands allow. The search
    tries scaled rows, small integers, ratios near co-dominance, single numbers, zeros and random rows, then climbs from
    the best. Task limits, weights, rates and eligibility are reported truthfully.

    Parameters
    ----------
    policy : Policy or other mechanism
        Anything with ``allocate(instance)``.
    instance : Instance
        The truth.
    user : str or int
        The user who lies, by label or index.
    boosting : bool, default False
        Only reports of at least the true demands.
    positive : bool, default False
        Only reports that are positive wherever the truth is.
    share : Share, optional
        What the user compares instead of tasks, as in `check`.
    seed : int, default 0
        Seed of random reports.
    budget : int, optional
        Approximate number of reports: by default 3,000 on one pool and 300 on several servers.
    time_limit : float, optional
        Seconds. If it ends the search before a profitable lie was found, a `RuntimeWarning` gives the number of reports
        tried.

    Returns
    -------
    Misreport or None
        The most profitable lie, if truth and lie, solved again, show a gain above 1e-5 and above what their gaps leave
        open.

    Raises
    ------
    InvalidInstance
        If there is no such user.
    InvalidBlock
        If the budget is not a whole number of at least 1.
    OutOfDomain
        If the mechanism is not defined for the truth. Other exceptions for the truth are raised too; reports on which
        the mechanism fails are left out.
    NotCertified
        If the time limit was over before the truth was solved.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 3], [3, 1]], [2, 4], users=["a", "b"])
    >>> lie = fo.properties.best_misreport(fo.FDS(1), cluster, "b")
    >>> print(lie)
    user 'b' reports (2, 3) and runs 0.444444 tasks instead of 0.333333 (+33.333%)
    >>> fo.properties.best_misreport(fo.DRF(), cluster, "b") is None
    True
    """
    require_instance(instance)
    j = instance.user_index(user)
    one_pool = is_one_pool(instance)
    tries = budget if budget is not None else 3000 if one_pool else 300
    require_whole(tries, "budget")
    clock = Clock(time_limit)
    work = work_by(share, policy, instance)
    truthful = tasks_on(clock.run(lambda: checked(policy, instance)).bundles[j], instance, j, work)
    left = None if clock.left is None else max(clock.left - AGAIN * clock.seconds, SHORTEST_LIMIT)
    if one_pool:
        search = search_on_pools(policy, Batch.of_instance(instance), np.array([j]), np.array([truthful]))
    else:
        search = search_on_servers(policy, instance, j, truthful, work)
    search.clock = Clock(left)
    with by_itself() as tell:
        search.run(FAMILIES, tries, boosting, positive, np.random.default_rng(seed), tell)
        for _, reported, family in sorted(search.kept, key=lambda kept: -kept[0]):
            tell(f"a lie of {instance.users[j]!r} is solved again", None, None)
            demands = reported.reshape(instance.demands.shape[1:])
            try:
                with clock.enforced():
                    lie = verified_misreport(policy, instance, j, demands, family, share)
            except Late:
                if not clock.late:  # the limit of the search that calls this one
                    raise
                search.late = True
                break
            if lie is not None:
                return lie
    if search.late:
        tried = sum(tally.tried for tally in search.tallies.values())
        warnings.warn(
            f"no lie of {instance.users[j]!r} was found that pays, of {tried:,} report{'s' * (tried != 1)} tried "
            f"{when_late(clock)}; the search had about {tries:,} to try",
            RuntimeWarning,
            stacklevel=2,
        )
    return None


def verified_misreport(
    policy: Any,
    instance: Instance,
    user: str | int,
    demands: ArrayLike,
    family: str = "",
    share: Share | None = None,
) -> Misreport | None:
    """Solve truth and lie again; the misreport, or None if its gain is within noise or the gaps."""
    require_instance(instance)
    j, work = instance.user_index(user), work_by(share, policy, instance)
    reported = np.asarray(demands, dtype=float)
    try:
        truth, lie = checked(policy, instance), checked(policy, lying_instance(instance, j, reported))
    except FairoptError:
        return None
    truthful, lying = (tasks_on(answer.bundles[j], instance, j, work) for answer in (truth, lie))
    unsure = error_bound(truth)[j] * truthful + error_bound(lie)[j] * lying
    if lying - truthful <= max(LEAST_GAIN * truthful, FLOOR * tasks_alone(instance, j, work), unsure):
        return None
    rows = tuple(tuple(row) if isinstance(row, list) else row for row in reported.tolist())
    return Misreport.on(instance, j, rows, truthful, lying, family, work)


def best_lies(
    policy: Any,
    pools: Batch,
    *,
    boosting: bool = False,
    positive: bool = False,
    tries: int = 400,
    families: tuple[str, ...] = FAMILIES,
    seed: int = 0,
) -> Lies:
    """Search for the most profitable lie of each user of many pools at once; options as in `best_misreport`.

    Of about ``tries`` reports per user three quarters are from the families, the others from the climb.
    """
    need, limits = pools.demands, pools.limits
    truth = outcomes_of(policy, pools)
    truthful = np.where(truth.ok[:, None], true_tasks(truth.received(need), need, limits), np.nan)
    b, user = np.nonzero(truth.ok[:, None] & (limits > 0))
    search = search_on_pools(policy, pools[b], user, truthful[b, user])
    with by_itself() as tell:
        search.run(families, tries, boosting, positive, np.random.default_rng(seed), tell)
    gain = np.where(np.isnan(truthful), np.nan, 0.0)
    reported, family_of = need.copy(), np.full(limits.shape, "", dtype="<U16")
    gain[b, user], reported[b, user], family_of[b, user] = search.gain, search.best, search.family
    faults = [(k, need[k], error) for k, error in truth.faults]
    for case, report, error in search.faults:
        stated = need[b[case]].copy()
        stated[user[case]] = report
        faults.append((int(b[case]), stated, error))
    return Lies(gain, reported, family_of, truthful, truth.outside, search.tallies, tuple(faults))


# -- the search -----------------------------------------------------------------------------------------------------


def true_tasks(received: ArrayLike, demands: ArrayLike, limit: ArrayLike = np.inf) -> Float:
    """Tasks that fit on a bundle by the true demands, over the last axis, up to a limit."""
    held, need = np.asarray(received, dtype=float), np.asarray(demands, dtype=float)
    return np.asarray(np.minimum(tasks_within(held, need), limit))


# From reports (n_rows, M) and their cases (n_rows,) to true tasks, NaN without an answer, and faults.
TryReports = Callable[[Float, Ints], tuple[Float, list[tuple[int, Exception]]]]


@dataclass
class MisreportSearch:
    """The best lie so far of each case; see `families`."""

    attempt: TryReports
    truth: Float
    room: Float
    truthful: Float
    alone: Float  # tasks that the liar could run alone
    servers: int = 1
    faults: list[tuple[int, Float, Exception]] = field(default_factory=list)
    tallies: dict[str, Tally] = field(default_factory=dict)
    kept: list[tuple[float, Float, str]] = field(default_factory=list)  # of a single case: all best ones so far
    clock: Clock = field(default_factory=lambda: Clock(None))
    late: bool = False  # whether the clock ended the search

    def __post_init__(self) -> None:
        self.gain = np.zeros(len(self.truth))
        self.best, self.family = self.truth.copy(), np.full(len(self.truth), "", dtype="<U16")

    def run(
        self,
        families: tuple[str, ...],
        tries: int,
        boosting: bool,
        positive: bool,
        rng: Rng,
        tell: Listener,
    ) -> None:
        """Try all families, with three quarters of the tries, then climb."""
        each = max(tries * 3 // 4 // max(len(families), 1), 1)
        left = max(tries - each * len(families), 1)
        rounds = max(ROUNDS, left // (4 * self.truth.shape[1]))
        per_round = max(left // rounds, 1)
        begun = time.perf_counter()
        climbed = np.zeros(len(self.truth), dtype=bool)

        def batch(makers: dict[str, Callable[[slice], Float]], most: int) -> None:
            step = max(ROWS // (most * len(makers)), 1)
            for first in range(0, len(self.truth), step):
                if self.late:
                    return
                tell(f"lies: {'climb' if 'climb' in makers else 'families'}, users", first, len(self.truth))
                where = slice(first, first + step)
                truth, room = self.truth[where], self.room[where]
                made = {
                    name: legal(make(where), truth, room, boosting, positive, self.servers)
                    for name, make in makers.items()
                }
                for name, (tried, pays, better) in self.judge(where, made).items():
                    hits = int((better & ~climbed[where] if name == "climb" else pays).sum())
                    climbed[where] |= better & (name == "climb")
                    tally = self.tallies.get(name, Tally())
                    self.tallies[name] = tally.plus(tried, hits, time.perf_counter() - begun)

        def members(name: str) -> Callable[[slice], Float]:
            return lambda w: reports(name, self.truth[w], self.room[w], rng, each, self.servers)

        def around(length: float) -> Callable[[slice], Float]:
            return lambda w: climbs(self.best[w], length, rng, per_round)

        if families:
            batch({name: members(name) for name in families}, each)
        for length in np.geomspace(LONGEST, SHORTEST, rounds):
            batch({"climb": around(float(length))}, per_round)

    def judge(self, where: slice, made: dict[str, tuple[Float, Bool]]) -> dict[str, tuple[int, Bool, Bool]]:
        """Try the false reports (n_cases, K, M) of all families together, and keep the best.

        Returns by family the number tried, and masks of the cases in which one pays, and pays more than any before.
        """
        all_reports = np.concatenate([reported for reported, _ in made.values()], axis=1)
        lies = np.concatenate([are for _, are in made.values()], axis=1)
        case, k = np.nonzero(lies)
        lying = np.full(lies.shape, -np.inf)
        if len(case):
            tasks, faults, tried = self._attempt(all_reports[case, k], where.start + case)
            lies[case[tried:], k[tried:]] = False
            self.faults += [(int(where.start + case[r]), all_reports[case[r], k[r]], error) for r, error in faults]
            lying[case, k] = np.where(np.isnan(tasks), -np.inf, tasks)
        truthful, rows, found, first = self.truthful[where], np.arange(len(all_reports)), {}, 0
        for name, (reported, are) in made.items():
            columns, first = slice(first, first + are.shape[1]), first + are.shape[1]
            own = lying[:, columns]
            at = own.argmax(axis=1)
            most, chosen = own[rows, at], reported[rows, at]
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = np.where(truthful > 0, most / truthful - 1.0, np.where(most > 0, np.inf, 0.0))
            pays = most - truthful > np.maximum(LEAST_GAIN * truthful, FLOOR * self.alone[where])
            better = pays & (gain > self.gain[where])
            place = where.start + np.flatnonzero(better)
            self.gain[place], self.best[place], self.family[place] = gain[better], chosen[better], name
            if len(self.truth) == 1 and better.any():
                self.kept.append((float(gain[0]), chosen[0], name))
            found[name] = int(lies[:, columns].sum()), pays, better
        return found

    def _attempt(self, reported: Float, case: Ints) -> tuple[Float, list[tuple[int, Exception]], int]:
        """Try reports, with a time limit in short batches; also the number tried."""
        if self.clock.time_limit is None:
            return *self.attempt(reported, case), len(reported)
        tasks, faults, first, step = np.full(len(reported), np.nan), [], 0, 1
        with self.clock.enforced(), contextlib.suppress(Late):
            while first < len(reported) and not self.clock.late:
                begun = self.clock.seconds
                part = slice(first, first + step)
                tasks[part], wrong = self.attempt(reported[part], case[part])
                faults += [(first + row, error) for row, error in wrong]
                first = min(first + step, len(reported))
                step = 2 * step if self.clock.seconds - begun < MOMENT else step
        self.late = first < len(reported)
        return tasks, faults, first


def search_on_pools(policy: Any, pools: Batch, user: Ints, truthful: Float) -> MisreportSearch:
    """A search that tries reports in batches: a pool and the lying user for each case."""
    rows = np.arange(len(pools))
    truth, limit = pools.demands[rows, user], pools.limits[rows, user]

    def attempt(reported: Float, case: Ints) -> tuple[Float, list[tuple[int, Exception]]]:
        rows, who = np.arange(len(case)), user[case]
        lied = pools[case]  # copies
        lied.demands[rows, who] = reported
        outcomes = outcomes_of(policy, lied)
        tasks = true_tasks(outcomes.received(lied.demands)[rows, who], truth[case], limit[case])
        return np.where(outcomes.ok, tasks, np.nan), outcomes.faults

    return MisreportSearch(attempt, truth, pools.capacities, truthful, true_tasks(pools.capacities, truth, limit))


def search_on_servers(
    policy: Any, instance: Instance, j: int, truthful: float, work: Work | None = None
) -> MisreportSearch:
    """A search that tries reports one by one on the given instance."""
    by_server = instance.demands.ndim == 3
    room = instance.capacities if by_server else instance.total_capacities

    def attempt(reported: Float, case: Ints) -> tuple[Float, list[tuple[int, Exception]]]:
        tasks, faults = np.full(len(reported), np.nan), []
        for k, row in enumerate(reported):
            try:
                lied = lying_instance(instance, j, row.reshape(instance.demands.shape[1:]))
            except InvalidInstance:  # as if no server could run it: not a legal report
                continue
            try:
                tasks[k] = tasks_on(checked(policy, lied).bundles[j], instance, j, work)
            except OutOfDomain:
                continue
            except Exception as error:
                faults.append((k, error))
        return tasks, faults

    return MisreportSearch(
        attempt,
        instance.demands[j].reshape(1, -1).astype(float),
        np.asarray(room, dtype=float).reshape(1, -1),
        np.array([truthful]),
        np.array([tasks_alone(instance, j, work)]),
        instance.n_servers if by_server else 1,
    )


def lying_instance(instance: Instance, j: int, reported: Float) -> Instance:
    """The instance with other demands of one user."""
    demands = np.array(instance.demands)
    demands[j] = reported
    return instance.with_demands(demands)


def tasks_on(held: Float, instance: Instance, j: int, work: Work | None = None) -> float:
    """Tasks that a user truly runs on a bundle (n_servers, n_resources), or the most work."""
    if work is not None:
        return work.on_bundle(held, j)
    where = instance.eligible[j]
    runs = true_tasks(held[where], instance.per_server_demands[j][where]).sum()
    return float(np.minimum(runs, instance.task_limits[j]))


def tasks_alone(instance: Instance, j: int, work: Work | None = None) -> float:
    """Tasks, or work, that a user could do alone, up to its limit."""
    return tasks_on(instance.capacities * instance.counts[:, None], instance, j, work)
