"""Slurm's rules as an idealised model: jobs by multifactor priority, with the usage of a tree of accounts, and EASY.

A waiting job has the priority

    w_fairshare F + w_age min(1, waited / max_age) + w_size Z + w_partition P + w_qos Q,

F being the factor of its user (`accounts`), Z the mean of its parts of all servers and of all cores (or one less these,
with ``favor_small``), P and Q the number of its partition and of its quality of service over the largest. At each event
jobs are ordered by the tier of their partition, then by priority, then by arrival, and start as under EASY: those that
a limit holds back are passed over, and the first of the others that does not fit is reserved the earliest moment when
it does.

Jobs in line are in arrays, so that an event costs one sort of them and one ranking of the users, and not a pass in
Python; where nothing in line fits, it costs neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from fairopt.blocks.base import brief
from fairopt.blocks.shares import Share
from fairopt.errors import InvalidBlock, InvalidInstance, nearest
from fairopt.instance import Instance
from fairopt.online.accounts import Account, Accounts
from fairopt.online.backfill import BackfillScheduler
from fairopt.online.requests import Requests
from fairopt.online.usage import DAY, checked_cost
from fairopt.online.waiting import WaitingJob
from fairopt.runtime.arrays import Float
from fairopt.solve.form.no_whole_task import SAME
from fairopt.solve.whole.greedy import to_36_bits
from fairopt.solve.whole.servers import Placement

FORMULAS = ("fair-tree", "classic")


@dataclass(frozen=True)
class Priority:
    """How jobs are ordered: the weights of factors, and what the usage of accounts is.

    Parameters
    ----------
    fairshare, age, size, partition, qos : float
        ``PriorityWeightFairshare``, ``PriorityWeightAge``, ``PriorityWeightJobSize``, ``PriorityWeightPartition`` and
        ``PriorityWeightQOS``. Default: the fair-share factor alone.
    max_age : float, default 7 days
        ``PriorityMaxAge``, in the unit of all times.
    half_life : float, optional
        ``PriorityDecayHalfLife``, 7 days by default; None remembers all usage.
    formula : {"fair-tree", "classic"}
        The fair-share factor.
    damping : float, default 1
        ``FairShareDampeningFactor`` of the classic formula.
    favor_small : bool, default False
        ``PriorityFavorSmall``.
    billing : dict of float by resource, or Share, optional
        ``TRESBillingWeights`` of partitions without their own. Default: cores or, where there are none, dominant
        shares.
    largest : bool, default False
        ``PriorityFlags=MAX_TRES``: of several resources the largest counts, not the sum.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.online.Priority(age=1000, fairshare=100000).half_life
    604800.0
    """

    fairshare: float = 1.0
    age: float = 0.0
    size: float = 0.0
    partition: float = 0.0
    qos: float = 0.0
    max_age: float = 7 * DAY
    half_life: float | None = 7 * DAY
    formula: str = "fair-tree"
    damping: float = 1.0
    favor_small: bool = False
    billing: Mapping[str, float] | Share | None = None
    largest: bool = False

    def __post_init__(self) -> None:
        if self.formula not in FORMULAS:
            raise InvalidBlock(f"Priority: formula is {self.formula!r}; {nearest(self.formula, FORMULAS)}")
        for one in fields(self):
            value, positive = getattr(self, one.name), one.name in ("max_age", "half_life", "damping")
            if one.type not in ("float", "float | None") or (value is None and one.name == "half_life"):
                continue
            number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not (number and math.isfinite(value) and value >= 0 and (value > 0 or not positive)):
                fix = "a finite number > 0" if positive else "a finite number >= 0"
                raise InvalidBlock(f"Priority: {one.name} is {value!r}; give {fix}")
        if not isinstance(self.billing, Share):
            checked_cost("Priority", self.billing)


@dataclass(frozen=True)
class Partition:
    """What a partition says of its jobs; where they may run is `Job.eligible`.

    Parameters
    ----------
    factor : float, default 1
        ``PriorityJobFactor``.
    tier : float, default 1
        ``PriorityTier``: jobs of a higher one come first.
    billing : dict of float by resource, optional
        ``TRESBillingWeights``.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.online.Partition(billing={"cpu": 1, "gpu": 16}).tier
    1.0
    """

    factor: float = 1.0
    tier: float = 1.0
    billing: Mapping[str, float] | None = None


@dataclass(frozen=True)
class RunningLimit:
    """What running jobs take together at most; a job beyond it waits, and others pass it.

    Parameters
    ----------
    of : str
        An account, with all below it, or a user; ``"qos=NAME"`` or ``"partition=NAME"`` for jobs with such a label; or
        "" for all jobs.
    most : dict of float by resource
        Units, as ``GrpTRES`` or ``MaxTRESPU``; ``"jobs"`` is a number of jobs, as ``GrpJobs`` or ``MaxJobsPU``.
    by_user : bool, default False
        Whether it counts for each user by itself.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.online.RunningLimit("qos=debug", {"jobs": 2}, by_user=True).most
    {'jobs': 2}
    """

    of: str
    most: Mapping[str, float]
    by_user: bool = False


@dataclass(frozen=True)
class SlurmRules:
    """What a folder of a cluster says of a replay by Slurm's rules.

    Parameters
    ----------
    accounts : sequence of Account
        The tree, with past usage.
    priority : Priority
        The weights.
    partitions : dict of Partition by name
        Their priorities and billing.
    qos : dict of float by name
        Priorities of qualities of service.
    limits : sequence of RunningLimit
        Of accounts and qualities of service.
    places : dict of tuple of str by partition
        Labels of the servers of each.
    notes : sequence of str
        What was assumed.

    Examples
    --------
    >>> import fairopt as fo
    >>> rules = fo.online.SlurmRules([fo.online.Account("bio", shares=3)])
    >>> fo.online.SlurmScheduler([8], rules)
    <SlurmScheduler: 0 users on 1 server, 0 tasks running, 0 waiting>
    """

    accounts: Sequence[Account] = ()
    priority: Priority = field(default_factory=Priority)
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    qos: Mapping[str, float] = field(default_factory=dict)
    limits: Sequence[RunningLimit] = ()
    places: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: Sequence[str] = ()


@runtime_checkable
class ByRules(Protocol):
    """A policy that takes what it does not say itself, such as what is billed, from the rules of the input.

    Commands call `by_rules` of such policies with what the input says of its scheduler (``rules`` of
    `fairopt.io.Reader`), and use what it returns.

    Examples
    --------
    >>> import fairopt as fo
    >>> class Billed(fo.policies.NotOfBlocks):
    ...     def by_rules(self, rules):
    ...         return self
    >>> issubclass(Billed, fo.online.ByRules)
    True
    """

    def by_rules(self, rules: SlurmRules) -> Self:
        """The policy under these rules.

        Parameters
        ----------
        rules : SlurmRules
            What the input says.

        Returns
        -------
        Self

        Examples
        --------
        >>> import fairopt as fo
        >>> class Largest:
        ...     largest = False
        ...     def by_rules(self, rules):
        ...         self.largest = rules.priority.largest
        ...         return self
        >>> Largest().by_rules(fo.online.SlurmRules()).largest
        False
        """


class SlurmScheduler(BackfillScheduler):
    """Slurm's multifactor priority and Fair Tree over a tree of accounts, with EASY backfilling, as an idealised model.

    Parameters
    ----------
    capacities, resources, servers, server_types, placement
        As in `Scheduler`.
    rules : SlurmRules, optional
        Accounts with shares and past usage, weights, partitions and limits. Default: users and teams with a share of 1.

    Notes
    -----
    A job's user is a leaf of the tree, its ``team`` the account above; users that are not in the tree join their team.
    ``labels`` may name a ``partition`` and a ``qos``. Every call needs the time ``at``, which never decreases.
    Decisions are made at events, usage is continuous, and one job is reserved; :doc:`/memory` lists what else differs
    from a real one.

    Examples
    --------
    Account *a* has three of four shares. At the fifth start both have used a minute for each share;
    *b* goes first, as its minute is longer ago and has decayed more:

    >>> import fairopt as fo
    >>> rules = fo.online.SlurmRules([fo.online.Account("a", shares=3), fo.online.Account("b")])
    >>> jobs = [fo.Job(f"{who}/u", [1], 60, tasks=9, team=who) for who in "ab"]
    >>> run = fo.simulate([1], jobs, scheduler=fo.online.SlurmScheduler([1], rules))
    >>> "".join("ab"[job] for job in run.task_job[:12])
    'abaabaaabaaa'
    """

    name = "Slurm"

    def __init__(
        self,
        capacities: ArrayLike | Mapping[str, Any] | Instance,
        rules: SlurmRules | None = None,
        *,
        resources: Sequence[str] | None = None,
        servers: Sequence[str] | None = None,
        server_types: Sequence[str] | None = None,
        placement: str | Placement = "first-fit",
    ) -> None:
        if not isinstance(rules, SlurmRules | None):
            raise InvalidBlock(f"rules is {brief(rules)}; give fo.online.SlurmRules(accounts, priority)")
        self.rules = rules or SlurmRules()
        labels = {"resources": resources, "servers": servers, "server_types": server_types}
        super().__init__(capacities, **labels, placement=placement)
        names = self.instance.resources
        for what, amounts in self._named_amounts():
            if unknown := [name for name in amounts or () if name not in (*names, "jobs" * what.startswith("limit"))]:
                raise InvalidInstance(f"the {what} names {unknown[0]!r}; {nearest(unknown[0], names)}")
        billing = self.rules.priority.billing
        if isinstance(billing, Share):
            self.requests = Requests(self.instance, self._servers, billing)

    def _named_amounts(self) -> Iterable[tuple[str, Any]]:
        """What names resources."""
        if not isinstance(self.rules.priority.billing, Share):
            yield "billing", self.rules.priority.billing
        yield from ((f"billing of partition {name}", one.billing) for name, one in self.rules.partitions.items())
        yield from ((f"limit of {one.of}", one.most) for one in self.rules.limits)

    def _prepare(self) -> None:
        super()._prepare()
        self._arrays |= {name: np.zeros(8) for name in ("tier", "fixed", "arrived")}
        self._arrays |= {name: np.zeros(8, dtype=int) for name in ("leaf", "group")}
        self._accounts = Accounts(self.rules.accounts, self.rules.priority.half_life)
        self._bill: dict[int, float] = {}  # of a task per time, by job
        self._leaf: dict[int, int] = {}  # by job
        self._sorted_at: tuple[float, int] = (math.nan, -1)  # the time, and the number of jobs by then
        self._factor: Float | None = None  # of users, at the time of the last call
        self._limits: dict[tuple[int, str], _Limit] = {}  # by number and user
        self._limits_of: dict[int, list[_Limit]] = {}  # by job
        self._groups: dict[tuple[Any, ...], int] = {}  # of jobs that limits hold back together
        self._examples: list[WaitingJob] = []  # a job of each group
        self._held = 0  # jobs at the end of the line that a limit holds back

    def submit(
        self,
        user: str,
        demands: ArrayLike | Mapping[str, float],
        tasks: int = 1,
        *,
        walltime: float,
        weight: float = 1.0,
        team: str | None = None,
        eligible: Sequence[str] | ArrayLike | None = None,
        gang: bool = False,
        together: str | None = None,
        labels: Mapping[str, str] | None = None,
        at: float,
    ) -> int:
        """Add a job; return its number. See `Scheduler.submit` and `Job`.

        ``weight`` is that of a user who is not in the tree.
        """
        self._advance(at)
        job, own = self._submit(user, demands, tasks, weight, eligible, gang, walltime, together)
        of = labels or {}
        self._factor = None if user not in self._accounts.index else self._factor
        leaf = self._leaf[job.number] = self._accounts.leaf(user, team, weight)
        self._bill[job.number] = self._billed(job, user, demands, eligible, of.get("partition", ""))
        self._limits_of[job.number] = [*self._limits_on(user, team, of)]
        if not own:
            self._join(job)
            return job.number
        partition = self._partition(of)
        self._add(
            number=job.number,
            kind=job.kind,
            size=job.size,
            walltime=job.walltime,
            parts=together is not None,
            tier=partition.tier,
            fixed=self._fixed(job, partition, of),
            arrived=self._time,
            leaf=leaf,
            group=self._group(job),
        )
        return job.number

    # -- what is known of a job when it arrives -----------------------------------------------------------------------

    def _partition(self, of: Mapping[str, str]) -> Partition:
        """The partition of a job: of several the one that comes first."""
        known = [
            self.rules.partitions[name] for name in of.get("partition", "").split(",") if name in self.rules.partitions
        ]
        return max(known, key=lambda one: (one.tier, one.factor), default=Partition())

    def _fixed(self, job: WaitingJob, partition: Partition, of: Mapping[str, str]) -> float:
        """The part of a job's priority that does not change."""
        weights, instance = self.rules.priority, self.instance
        size = job.size / instance.n_servers
        if "cpu" in instance.resources:
            i = instance.resource_index("cpu")
            cores = job.size * float(self._kinds.requests[job.kind].units[i])
            total = float(instance.total_capacities[i])
            size = (size + cores / total) / 2 if total else size
        size = min(1.0, size)
        best_partition = max((one.factor for one in self.rules.partitions.values()), default=0.0)
        best_qos, mine = max(self.rules.qos.values(), default=0.0), self.rules.qos.get(of.get("qos", ""), 0.0)
        known = any(name in self.rules.partitions for name in of.get("partition", "").split(","))
        fixed = weights.size * (1 - size if weights.favor_small else size)
        fixed += weights.partition * (partition.factor / best_partition if known and best_partition else 0.0)
        return fixed + weights.qos * (mine / best_qos if best_qos else 0.0)

    def _billed(self, job: WaitingJob, user: str, demands: Any, eligible: Any, partition: str) -> float:
        """What a task is billed for per time."""
        own, usual = self._partition({"partition": partition}).billing, self.rules.priority.billing
        if own is None and (isinstance(usual, Share) or (usual is None and "cpu" not in self.instance.resources)):
            share = self.requests.of(user, demands, eligible)[2]
            return max(share) if isinstance(share, list) else share
        weights: Any = own if own is not None else {"cpu": 1.0} if usual is None else usual
        units = self._kinds.requests[job.kind].units.tolist()
        parts = [float(weights.get(name, 0.0)) * units[i] for i, name in enumerate(self.instance.resources)]
        return max(parts) if self.rules.priority.largest else math.fsum(parts)

    def _limits_on(self, user: str, team: str | None, of: Mapping[str, str]) -> Iterable[_Limit]:
        """The limits that a job counts in."""
        above, name = {user, ""}, team or ""
        while name and name not in above:
            above.add(name)
            name = self._accounts.parent_of(name)
        above |= {f"{key}={value}" for key, text in of.items() for value in text.split(",")}
        for k, limit in enumerate(self.rules.limits):
            if limit.of in above:
                key = k, user if limit.by_user else ""
                if key not in self._limits:
                    most = [float(limit.most.get(one, math.inf)) for one in (*self.instance.resources, "jobs")]
                    self._limits[key] = _Limit(np.array(most))
                yield self._limits[key]

    def _group(self, job: WaitingJob) -> int:
        """The jobs that limits hold back at the same time: those with the same limits and the same needs."""
        limits = tuple(map(id, self._limits_of[job.number]))
        key = job.number if job.together is not None else (job.kind, job.size), limits
        if key not in self._groups:
            self._groups[key] = len(self._examples)
            self._examples.append(job)
        return self._groups[key]

    # -- order --------------------------------------------------------------------------------------------------------

    def _advance(self, at: float | None) -> None:
        before = self._time
        super()._advance(at)
        if self._time != before:
            self._accounts.advance(self._time)
            self._factor = None

    @property
    def factors(self) -> dict[str, float]:
        """The fair-share factor of each user that has submitted a job, at the time of the last call."""
        factor = self._factors()
        return {job.user: float(factor[self._leaf[job.number]]) for job in self._jobs}

    def _factors(self) -> Float:
        """The fair-share factors of all users."""
        if self._factor is None:
            accounts, priority = self._accounts, self.rules.priority
            classic = priority.formula == "classic"
            self._factor = accounts.classic(priority.damping) if classic else accounts.fair_tree()
        return self._factor

    def priorities(self) -> dict[int, float]:
        """The priority of each job in line, by number, at the time of the last call."""
        return dict(zip(self._of_line("number").tolist(), self._priorities().tolist(), strict=True))

    def _priorities(self) -> Float:
        weights, out = self.rules.priority, self._of_line("fixed").copy()
        if weights.fairshare:
            out += weights.fairshare * self._factors()[self._of_line("leaf")]
        if weights.age:
            out += weights.age * np.minimum((self._time - self._of_line("arrived")) / weights.max_age, 1.0)
        return out

    @property
    def _able(self) -> int:
        return self._waiting - self._held

    def _next(self) -> WaitingJob | None:
        if not (self._kinds.total[self._of_line("kind")] >= self._of_line("size")).any():
            return None  # in any order
        if self._sorted_at != (self._time, len(self._jobs)):
            self._sort()
        return super()._next()

    def _sort(self) -> None:
        """Put the line in order: at a new time, after an arrival, or after a start if there are limits."""
        self._sorted_at = self._time, len(self._jobs)
        number, held = self._of_line("number"), self._beyond_limits()
        order = np.lexsort((number, -to_36_bits(self._priorities()), -self._of_line("tier"), held))
        head = number[:1].copy()
        if (np.diff(order) != 1).any():
            for name, array in self._arrays.items():
                array[: self._waiting] = self._of_line(name)[order]
            self._passed = 0
        if (self._of_line("number")[:1] != head).any():
            self._later = None
        self._held = int(held.sum())
        self._passed = min(self._passed, self._able)

    def _beyond_limits(self) -> Any:
        """Which jobs in line would exceed a limit."""
        if not self._limits:
            return np.zeros(self._waiting, dtype=bool)
        held = [any(self._over(limit, job) for limit in self._limits_of[job.number]) for job in self._examples]
        return np.array(held)[self._of_line("group")]

    def _over(self, limit: _Limit, job: WaitingJob) -> bool:
        """Whether a job, with all that starts with it, would exceed a limit."""
        mine = [self._needs(one) for one in (job, *(job.parts or ())) if limit in self._limits_of[one.number]]
        return bool((limit.used + np.sum(mine, axis=0) > limit.most * (1 + SAME)).any())

    def _needs(self, job: WaitingJob) -> Float:
        """What a task or the gang of a job takes, and one job."""
        return np.append(job.size * self._kinds.requests[job.kind].units, 1.0)

    # -- events -------------------------------------------------------------------------------------------------------

    def _begun(self, job: WaitingJob, rows: list[int], number: int) -> None:
        super()._begun(job, rows, number)
        self._change(job, len(rows))
        for limit in self._limits_of[job.number]:
            limit.used = limit.used + self._needs(job)
        if self._limits:
            self._sorted_at = (math.nan, -1)

    def _ended(self, job: WaitingJob, row: int, number: int) -> None:
        super()._ended(job, row, number)
        self._change(job, -1)
        for limit in self._limits_of[job.number]:
            limit.used = limit.used - self._needs(job) / job.size  # a gang's tasks end one by one
        if self._limits:
            self._sorted_at = (math.nan, -1)

    def _change(self, job: WaitingJob, tasks: int) -> None:
        """Count tasks that start or end."""
        self._accounts.rate[self._leaf[job.number]] += tasks * self._bill[job.number]


class _Limit:
    """A limit, and what running jobs take of it: units by resource, and jobs."""

    __slots__ = ("most", "used")

    def __init__(self, most: Float) -> None:
        self.most, self.used = most, np.zeros(len(most))
