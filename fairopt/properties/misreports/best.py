"""The most profitable misreport of a user: families of reports tried in batches, then a climb from the best of them."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.blocks.bundle_model import tasks_within
from fairopt.errors import FairoptError, InvalidBlock, InvalidInstance, NotCertified, OutOfDomain, nearest
from fairopt.formulation.batch import Batch, is_one_pool
from fairopt.formulation.program import require_instance
from fairopt.instance import Instance
from fairopt.properties.answers import OutOfTime, answering_until, checked, outcomes_of
from fairopt.properties.misreports.families import FAMILIES, climbs, legal, reports
from fairopt.properties.names import given_labels, labelled, when_late, zero_if_noise
from fairopt.properties.uncertainty import error_bound
from fairopt.runtime.clock import SHORTEST as SHORTEST_LIMIT
from fairopt.runtime.clock import Clock
from fairopt.runtime.progress import Listener, by_itself

__all__ = [
    "FLOOR",
    "Lies",
    "Misreport",
    "Tally",
    "best_lies",
    "best_misreport",
    "lying_instance",
    "tasks_on",
    "true_tasks",
    "verified_misreport",
]

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

# Relative gains below are noise: prices in step are right to 1.6e-6 of the tasks (against the method for one pool, on
# 700 pools of 3 x 3 at each of alpha = 0.1 to 20), water-filling and closed forms to 1e-14.
NOISE = 1e-5
FLOOR = 1e-7  # gains below this part of what the user could run alone are noise too: it truthfully runs next to nothing
ROWS = 2**17  # instances solved together: 10 MB of demands for 3 x 3
LONGEST, SHORTEST = 0.5, 0.005  # steps of the climb, of logarithms: in ROUNDS or more from one to the other
ROUNDS = 6
MOMENT = 0.05  # seconds: reports that take less are doubled until the next look at the clock
AGAIN = 2.0  # times the seconds that the truth took are kept back to solve truth and lie again


@dataclass(frozen=True)
class Misreport:
    """A lie of a user, and what it gains by it.

    Attributes
    ----------
    user : str
        The user who lies.
    demands : tuple
        The demands that it reports, by resource; a tuple of those by server where demands differ by server.
    gain : float
        True tasks under the lie over those under the truth, less 1; infinite where the truth brings none.
    truthful, lying : float
        True tasks under either.
    family : str
        The search that found it; see `fairopt.properties.misreports.families`.
    resources, servers : tuple of str
        Labels for the sentence; without any, numbers are in the order of the instance.

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

    @classmethod
    def on(
        cls,
        instance: Instance,
        user: int,
        demands: tuple[Any, ...],
        *,
        gain: float,
        truthful: float,
        lying: float,
        family: str,
    ) -> Misreport:
        """A lie with the labels of an instance."""
        names = (given_labels(instance.resources, "resource"), given_labels(instance.servers, "server"))
        return cls(instance.users[user], demands, gain, truthful, lying, family, *names)

    def __str__(self) -> str:
        def row(numbers: tuple[float, ...]) -> str:
            return labelled([f"{d:.6g}" for d in numbers], self.resources)

        by_server = bool(self.demands) and isinstance(self.demands[0], tuple)
        told = labelled([f"({row(r)})" for r in self.demands], self.servers) if by_server else row(self.demands)
        truthful = zero_if_noise(self.truthful, self.lying)
        by = f"+{self.gain:.3%}" if truthful else "from none"
        return f"user {self.user!r} reports ({told}) and runs {self.lying:.6g} tasks instead of {truthful:.6g} ({by})"


@dataclass
class Tally:
    """Results of one family of reports."""

    tried: int = 0  # reports, over all users
    hits: int = 0  # users to whom one of them pays; for the climb, users to whom it pays more than all tried before
    first: float | None = None  # seconds from the start of the search to the end of the first batch with a hit


@dataclass(frozen=True, eq=False)
class Lies:
    """The best lie found for every user of many pools; all arrays by instance and user."""

    # Relative, as in `Misreport`; 0 where no lie pays, NaN where the truth has no answer. Not verified: a gain above
    # the noise has to be solved again before it is believed (`verified_misreport`).
    gain: Float
    demands: Float  # what each user reports: the truth where no lie pays, (n_instances, n_users, n_resources)
    family: NDArray[np.str_]  # the search that found it; empty where no lie pays
    truthful: Float  # true tasks under the truth
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
    seed: int = 0,
    budget: int | None = None,
    time_limit: float | None = None,
) -> Misreport | None:
    """Search for the lie that pays a user most: other demands than its own.

    The user receives what the mechanism gives for the reported demands and runs what its true demands allow. Reports
    are tried in this order: the whole row scaled; small whole numbers; one number near co-dominance; single numbers up
    and down; zeros made positive and back; random ones; then a climb from the best. Task limits, weights and
    eligibility are always reported as they are.

    Parameters
    ----------
    policy : Policy or other mechanism
        Anything with ``allocate(instance)``.
    instance : Instance
        The truth. On one pool reports are tried in batches, where the mechanism allows it; on several servers one by
        one, where demands by server change number by number and server by server as well.
    user : str or int
        The user who lies, by label or index.
    boosting : bool, default False
        Only reports of at least the true demands.
    positive : bool, default False
        Only reports that are positive wherever the truth is.
    seed : int, default 0
        For random reports.
    budget : int, optional
        About how many reports to try: by default 3,000 on one pool and 300 on several servers.
    time_limit : float, optional
        Seconds. Of what was tried by then the best lie counts; without one a `RuntimeWarning` says how many reports
        were tried. The time that it takes to solve truth and lie again is kept back.

    Returns
    -------
    Misreport or None
        None where no lie was found that pays more than the numerical noise. A lie counts if truth and lie, solved again
        one by one with certificates, show a gain above 1e-5 and above what their gaps leave open.

    Raises
    ------
    InvalidBlock
        If there is no such user, or a budget below 1.
    OutOfDomain
        If the mechanism is not defined for the truth. Any exception of the mechanism for the truth is raised; a lie for
        which it fails is left out.
    NotCertified
        If the time limit was over before the truth was solved.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.properties.misreports.best import best_misreport
    >>> cluster = fo.Instance([[1, 3], [3, 1]], [2, 4], users=["a", "b"])
    >>> lie = best_misreport(fo.FDS(1), cluster, "b")
    >>> print(lie)
    user 'b' reports (2, 3) and runs 0.444444 tasks instead of 0.333333 (+33.333%)
    >>> best_misreport(fo.DRF(), cluster, "b") is None
    True
    """
    require_instance(instance)
    j = _user_index(instance, user)
    one_pool = is_one_pool(instance)
    tries = budget if budget is not None else 3000 if one_pool else 300
    if isinstance(tries, bool) or not isinstance(tries, int) or tries < 1:
        raise InvalidBlock(f"budget is {budget!r}; give a whole number of reports to try, 1 or more")
    clock = Clock(time_limit)
    truthful = _truth(policy, instance, j, clock)
    left = None if clock.left is None else max(clock.left - AGAIN * clock.seconds, SHORTEST_LIMIT)
    if one_pool:
        search = search_on_pools(policy, Batch.of_instance(instance), np.array([j]), np.array([truthful]))
    else:
        search = search_on_servers(policy, instance, j, truthful)
    search.clock = Clock(left)
    with by_itself() as tell:
        search.run(FAMILIES, tries, boosting, positive, np.random.default_rng(seed), tell)
        for _, told, family in sorted(search.kept, key=lambda kept: -kept[0]):
            tell(f"a lie of {instance.users[j]!r} is solved again", None, None)
            demands = told.reshape(instance.demands.shape[1:])
            try:
                with _until(clock):
                    found = verified_misreport(policy, instance, j, demands, family)
            except OutOfTime:
                if not clock.late:  # it is another clock, of the search that asks
                    raise
                search.late = True
                break
            if found is not None:
                return found
    if search.late:
        tried = sum(tally.tried for tally in search.tallies.values())
        warnings.warn(
            f"no lie of {instance.users[j]!r} was found that pays, of {tried:,} report{'s' * (tried != 1)} tried "
            f"{when_late(clock)}; the search had about {tries:,} to try",
            RuntimeWarning,
            stacklevel=2,
        )
    return None


def _until(clock: Clock) -> contextlib.AbstractContextManager[None]:
    """Answers until the clock is late; without a limit, until that of the search that asks."""
    return answering_until(clock) if clock.time_limit is not None else contextlib.nullcontext()


def _truth(policy: Any, instance: Instance, j: int, clock: Clock) -> float:
    """Tasks of a user who reports its demands."""
    with _until(clock):
        try:
            answer = checked(policy, instance)
        except OutOfTime:
            if not clock.late:  # it is another clock, of the search that asks
                raise
            raise NotCertified(f"the truth was not solved {when_late(clock)}. Fix: give it more time_limit") from None
    return tasks_on(answer.bundles[j], instance, j)


def verified_misreport(
    policy: Any, instance: Instance, user: str | int, demands: ArrayLike, family: str = ""
) -> Misreport | None:
    """Solve truth and lie again, one by one: the lie, or None unless it gains beyond noise and both gaps."""
    require_instance(instance)
    j = _user_index(instance, user)
    told = np.asarray(demands, dtype=float)
    try:
        truth, lie = checked(policy, instance), checked(policy, lying_instance(instance, j, told))
    except FairoptError:
        return None
    truthful, lying = tasks_on(truth.bundles[j], instance, j), tasks_on(lie.bundles[j], instance, j)
    unsure = error_bound(truth)[j] * truthful + error_bound(lie)[j] * lying
    if lying - truthful <= max(NOISE * truthful, FLOOR * tasks_of_everything(instance, j), unsure):
        return None
    gain = lying / truthful - 1.0 if truthful > 0 else np.inf
    said: list[Any] = told.tolist()
    row = tuple(tuple(r) if isinstance(r, list) else r for r in said)
    return Misreport.on(instance, j, row, gain=float(gain), truthful=truthful, lying=lying, family=family)


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
    """Search for the lie that pays most, for every user of many pools at once; options as in `best_misreport`.

    Of about ``tries`` reports for each user, three quarters are made by the families in turn, and the others by the
    climb from the best of these.
    """
    need, limits = pools.demands, pools.limits
    truth = outcomes_of(policy, pools)
    truthful = np.where(truth.ok[:, None], true_tasks(truth.received(need), need, limits), np.nan)
    b, user = np.nonzero(truth.ok[:, None] & (limits > 0))
    search = search_on_pools(policy, pools[b], user, truthful[b, user])
    with by_itself() as tell:
        search.run(families, tries, boosting, positive, np.random.default_rng(seed), tell)
    gain = np.where(np.isnan(truthful), np.nan, 0.0)
    told, family_of = need.copy(), np.full(limits.shape, "", dtype="<U16")
    gain[b, user], told[b, user], family_of[b, user] = search.gain, search.best, search.family
    faults = [(k, need[k], error) for k, error in truth.faults]
    for case, report, error in search.faults:
        stated = need[b[case]].copy()
        stated[user[case]] = report
        faults.append((int(b[case]), stated, error))
    return Lies(gain, told, family_of, truthful, truth.outside, search.tallies, tuple(faults))


def _user_index(instance: Instance, user: str | int) -> int:
    """`Instance.user_index`, with another error, and True is not a user."""
    if not isinstance(user, bool):
        with contextlib.suppress(InvalidInstance):
            return instance.user_index(user)
    raise InvalidBlock(f"no user {user!r}; {nearest(user, instance.users)}")


# -- the search -----------------------------------------------------------------------------------------------------


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
        rng: np.random.Generator,
        tell: Listener,
    ) -> None:
        """All families, each with an equal part of three quarters of the tries, then the climb."""
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
                for name, (pays, better) in self.judge(where, made).items():
                    tally = self.tallies[name]
                    tally.hits += int((better & ~climbed[where] if name == "climb" else pays).sum())
                    climbed[where] |= better & (name == "climb")
                    if tally.hits and tally.first is None:
                        tally.first = time.perf_counter() - begun

        def members(name: str) -> Callable[[slice], Float]:
            return lambda w: reports(name, self.truth[w], self.room[w], rng, each, self.servers)

        def around(length: float) -> Callable[[slice], Float]:
            return lambda w: climbs(self.best[w], length, rng, per_round)

        if families:
            batch({name: members(name) for name in families}, each)
        for length in np.geomspace(LONGEST, SHORTEST, rounds):
            batch({"climb": around(float(length))}, per_round)

    def judge(self, where: slice, made: dict[str, tuple[Float, Bool]]) -> dict[str, tuple[Bool, Bool]]:
        """Try the reports (n_cases, K, M) of each family that are lies, at once, and keep those that pay most.

        Returns by family masks of the cases in which one of them pays, and in which it pays more than any before.
        """
        told = np.concatenate([reported for reported, _ in made.values()], axis=1)
        lies = np.concatenate([are for _, are in made.values()], axis=1)
        case, k = np.nonzero(lies)
        lying = np.full(lies.shape, -np.inf)
        if len(case):
            tasks, faults, tried = self._attempt(told[case, k], where.start + case)
            lies[case[tried:], k[tried:]] = False
            self.faults += [(int(where.start + case[r]), told[case[r], k[r]], error) for r, error in faults]
            lying[case, k] = np.where(np.isnan(tasks), -np.inf, tasks)
        truthful, rows, found, first = self.truthful[where], np.arange(len(told)), {}, 0
        for name, (reported, are) in made.items():
            columns, first = slice(first, first + are.shape[1]), first + are.shape[1]
            own = lying[:, columns]
            self.tallies.setdefault(name, Tally()).tried += int(lies[:, columns].sum())
            at = own.argmax(axis=1)
            most, chosen = own[rows, at], reported[rows, at]
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = np.where(truthful > 0, most / truthful - 1.0, np.where(most > 0, np.inf, 0.0))
            pays = most - truthful > np.maximum(NOISE * truthful, FLOOR * self.alone[where])
            better = pays & (gain > self.gain[where])
            place = where.start + np.flatnonzero(better)
            self.gain[place], self.best[place], self.family[place] = gain[better], chosen[better], name
            if len(self.truth) == 1 and better.any():
                self.kept.append((float(gain[0]), chosen[0], name))
            found[name] = pays, better
        return found

    def _attempt(self, told: Float, case: NDArray[np.int64]) -> tuple[Float, list[tuple[int, Exception]], int]:
        """Try reports, with a time limit in parts that take a moment each, and say how many were tried by then."""
        if self.clock.time_limit is None:
            return *self.attempt(told, case), len(told)
        tasks, faults, first, step = np.full(len(told), np.nan), [], 0, 1
        with answering_until(self.clock), contextlib.suppress(OutOfTime):
            while first < len(told) and not self.clock.late:
                begun = self.clock.seconds
                part = slice(first, first + step)
                tasks[part], wrong = self.attempt(told[part], case[part])
                faults += [(first + row, error) for row, error in wrong]
                first = min(first + step, len(told))
                step = 2 * step if self.clock.seconds - begun < MOMENT else step
        self.late = first < len(told)
        return tasks, faults, first


def search_on_pools(policy: Any, pools: Batch, user: NDArray[np.int64], truthful: Float) -> MisreportSearch:
    """A search whose reports are tried in batches: a pool and the lying user for each case."""
    rows = np.arange(len(pools))
    truth, limit = pools.demands[rows, user], pools.limits[rows, user]

    def attempt(told: Float, case: NDArray[np.int64]) -> tuple[Float, list[tuple[int, Exception]]]:
        rows, who = np.arange(len(case)), user[case]
        lied = pools[case]  # copies
        lied.demands[rows, who] = told
        found = outcomes_of(policy, lied)
        tasks = true_tasks(found.received(lied.demands)[rows, who], truth[case], limit[case])
        return np.where(found.ok, tasks, np.nan), found.faults

    return MisreportSearch(attempt, truth, pools.capacities, truthful, true_tasks(pools.capacities, truth, limit))


def search_on_servers(policy: Any, instance: Instance, j: int, truthful: float) -> MisreportSearch:
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
                tasks[k] = tasks_on(checked(policy, lied).bundles[j], instance, j)
            except OutOfDomain:
                continue
            except Exception as error:  # any exception of a mechanism is a fault to report
                faults.append((k, error))
        return tasks, faults

    return MisreportSearch(
        attempt,
        instance.demands[j].reshape(1, -1).astype(float),
        np.asarray(room, dtype=float).reshape(1, -1),
        np.array([truthful]),
        np.array([tasks_of_everything(instance, j)]),
        instance.n_servers if by_server else 1,
    )


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
