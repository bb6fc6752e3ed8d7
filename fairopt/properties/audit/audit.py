"""The audit of a mechanism: a search for instances on which a property fails.

The property is measured on drawn or given instances, thousands of pools at a time or one cluster after the other. The
worst candidates are shrunk and verified by an independent computation; the first verified one ends the search.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.blocks.base import brief
from fairopt.blocks.objectives import Objective
from fairopt.blocks.shares import Share, require_share
from fairopt.errors import FairoptError, InvalidBlock, OutOfDomain, nearest
from fairopt.instance import Instance
from fairopt.policy import is_mechanism, label
from fairopt.properties.answers import checked, non_deterministic, solved_in_batches
from fairopt.properties.audit.findings import AuditReport, Fault, Finding, Unconfirmed, Witness
from fairopt.properties.audit.measure import Measurement, measure
from fairopt.properties.audit.random_instances import (
    FAMILIES,
    SHAPES,
    random_cluster,
    random_pools,
    with_guarantees,
    with_teams,
)
from fairopt.properties.audit.shrink import Shrinker, counterexample_of, smaller_cluster
from fairopt.properties.checks import check
from fairopt.properties.exact.cluster import MEASURED, ExactJudge
from fairopt.properties.exact.confirm import Counterexample, Verified, second_answer, verified
from fairopt.properties.misreports.best import Misreport, Tally, best_misreport, lying_instance, tasks_on
from fairopt.properties.misreports.teams import TeamLie, best_team_lie
from fairopt.properties.monotone import population_monotone, resource_monotone
from fairopt.properties.names import (
    BY_NAME,
    OF_ALLOCATIONS,
    OF_TEAMS,
    percent,
    property_name,
    require_whole,
    texts,
    zero_if_noise,
)
from fairopt.properties.teams import labels_read, reads_guarantees
from fairopt.properties.uncertainty import error_bound
from fairopt.properties.verdicts import Verdict
from fairopt.properties.within import decided_on_pools, judged
from fairopt.properties.work import work_by
from fairopt.runtime.clock import SHORTEST, Clock, Late, begin
from fairopt.runtime.lazy import later
from fairopt.runtime.progress import Listener, by_itself
from fairopt.solve.form.many_instances import Batch, is_one_pool

CONDITIONS = ("positive demands", "no completely dominant user")
USUAL = ("pareto", "sharing-incentive", "envy-free", "strategy-proof")
USUAL_OF_TEAMS = ("pareto", "team-sharing-incentive", "strategy-proof", "team-strategy-proof")

LEAST_MARGIN = 1e-5  # smaller ones are noise of the methods: up to 5e-7 on 2,000 pools at alpha 1
LEAST_PARETO = 1e-6  # of a given instance, as in `check`
# What follows from the kind of a mechanism does not depend on a clock, so that witnesses are the same on any machine.
# Solved in batches (microseconds an answer), or one by one (milliseconds):
ENOUGH, FEW_ENOUGH = 500, 32  # instances tried even if the first is a counterexample, for meaningful rates
CHUNK, SMALL_CHUNK = 256, 8  # instances between two checks of the clock
TRIES, FEW_TRIES = 60, 12  # false reports of each user on each instance
LARGEST_CHUNK = 2048
ATTEMPTS = 4  # candidates that are shrunk and verified before the search goes on
FIRST = 16  # a shape is dropped if the mechanism is undefined for all of its first pools, at least so many
SHOWN_FAULTS = 5
ON_SERVERS = 40  # false reports of each user on each drawn cluster
SMALL_FIRST = 8  # pools drawn one by one before a larger shape joins
SHRINKING = 10.0  # seconds for one candidate; strategy-proofness of FDS(1) took 4
TRIED_TWICE = ((2, 2), (3, 3), (5, 4))  # users and resources of pools on which two calls are compared
DIFFERS = "non-deterministic: two calls differ"
TWO_RATES = Instance([[1, 1]], [[1, 1], [1, 1]], rates=[[1, 2]])  # servers that differ for shares that read rates only


def audit(
    policy: Any,
    properties: str | Iterable[str] | None = None,
    instances: Iterable[Instance] | None = None,
    *,
    share: Share | None = None,
    positive: bool | None = None,
    conditions: str | Iterable[str] = (),
    weights: bool = False,
    limits: bool = False,
    servers: int = 1,
    max_examples: int = 2000,
    seed: int = 0,
    found: Callable[[Finding], None] | None = None,
    prove: bool = False,
    time_limit: float | None = None,
) -> AuditReport:
    """Search for instances on which properties of a mechanism fail; shrink and verify them.

    Small pools are drawn from families: small integers, integers with binding capacities, log-uniform numbers and near
    ties. A counterexample is reduced to few users and small integers, and recomputed by an independent method, before
    the property is called refuted. Users are in teams if the policy (`HDRF`, `OfTeam`) or a property reads them, and
    have guarantees if the policy compares what is above them (`Surplus`); such instances are solved one by one.

    Parameters
    ----------
    policy : Policy or other mechanism
        Anything with ``allocate(instance)``. A scheduler that another package brings has a method ``audit`` instead, as
        trees of queues are drawn for it.
    properties : iterable of str, optional
        Names or short forms. Default: ``pe``, ``si``, ``ef`` and ``sp``; of policies of teams ``pe``, ``team-si``,
        ``sp`` and ``team-sp``.
    instances : iterable of Instance, optional
        Instances on any number of servers instead of drawn ones; they are not shrunk. Instances that violate the
        conditions are skipped.
    share : Share, optional
        What users compare instead of tasks, as in `check`. Default: the first share of the policy's objective, where
        its coefficients differ between servers. Clusters are drawn with rates if it reads them. On one pool a user's
        tasks all count alike, so margins are those in tasks; pools on which a user has nothing of a given share are
        left out.
    positive : bool, optional
        Positive demands only, in instances and in reports. Default: where instances are drawn for ``pm`` and ``rm``,
        which papers state for positive demands; `Finding.searched` says so. False draws zero demands too.
    conditions : iterable of str
        Of ``"positive demands"`` and ``"no completely dominant user"`` (Jiang and Wu 2021, eq. 7, for the k of a
        k-dominant share, else 2).
    weights, limits : bool, default False
        Draw weights from 1 to 4, and task limits.
    servers : int, default 1
        Above 1, draw clusters of 2 servers up to this number, with placement constraints, instead of pools. They are
        solved one by one, hundreds of times slower than pools.
    max_examples : int, default 2000
        Largest number of instances per property.
    seed : int, default 0
        Seed of random instances and reports.
    found : callable, optional
        Called with each `Finding` as soon as it is known.
    prove : bool, default False
        Try to prove what is not refuted, as `fairopt.prove`, for 1 to 4 resources, 10 seconds each. Needs the extra
        ``prove``.
    time_limit : float, optional
        Seconds for the call, divided evenly among the properties. A search that ends early is marked `Finding.late`.

    Returns
    -------
    AuditReport
        A `Finding` for each property. Ctrl-C returns the findings so far.

    Raises
    ------
    InvalidBlock
        If a property or condition is unknown, another argument is invalid, or the mechanism has no ``allocate``.

    Examples
    --------
    >>> import fairopt as fo
    >>> report = fo.audit(fo.KDF(2), ["si", "pe"], positive=True, max_examples=200)
    >>> report["pe"].verdict
    'not refuted on 200 instances'
    >>> print(report["si"].witness)
    user 'user2' runs 0.1667 tasks, where its own slice would run 0.25: ... (verified: exact fractions)
    """
    if not is_mechanism(policy):
        fix = "give a policy, such as DRF(), or anything with .allocate(instance)"
        raise InvalidBlock(f"audit({brief(policy)}): {fix}")
    if hasattr(policy, "audit"):
        raise InvalidBlock(f"{label(policy)} has an audit of its own: call {policy!r}.audit()")
    usual = USUAL_OF_TEAMS if labels_read(policy) else USUAL
    names = list(dict.fromkeys(map(property_name, texts(properties, "properties", usual))))
    if not names:
        raise InvalidBlock("no properties to audit; give some such as ['pe', 'si', 'ef', 'sp']")
    if share is not None:
        require_share(share, "an audit")
    require_whole(max_examples, "max_examples")
    require_whole(servers, "servers")
    require_whole(seed, "seed", 0)
    known = _conditions(conditions, bool(positive))
    if isinstance(instances, Instance) or not isinstance(instances, Iterable | None):
        raise InvalidBlock(f"instances is {instances!r}; give a list of instances, as [cluster]")
    given = None if instances is None else list(instances)
    if given is not None and not given:
        raise InvalidBlock("instances is empty; give some, or leave it out to have instances drawn")
    for instance in given or ():
        if not isinstance(instance, Instance):
            raise InvalidBlock(f"instances hold {instance!r}; give fairopt.Instance objects")
    clock = begin(time_limit)
    with by_itself() as tell:
        draws = bool(weights), bool(limits), int(servers), int(max_examples), int(seed)
        setting = AuditSettings(policy, known, *draws, tell, SHRINKING, share=share)
        findings: list[Finding] = []
        random: tuple[Fault, ...] = ()
        stopped = False
        try:
            with contextlib.suppress(Late), clock.enforced():  # the searches report it
                random = setting.random_faults(given)
            for k, name in enumerate(names):
                part = None if clock.left is None else clock.left / (len(names) - k)
                here = setting.of_property(name) if positive is None and given is None else setting
                search = PropertySearch(here, name, random, seconds=part)
                search.run(given)
                findings.append(search.finding())
                if prove and search.witness is None and not search.interrupted and not clock.late:
                    proved = later("fairopt.properties.prove.prove:of_finding")(here, name)
                    findings[-1] = replace(findings[-1], proved=proved)
                if found is not None:
                    found(findings[-1])
                if search.interrupted:
                    break
        except KeyboardInterrupt:
            stopped = True
        return AuditReport(label(policy), policy, tuple(findings), known, setting.seed, stopped, share)


def _conditions(given: Any, positive: bool) -> tuple[str, ...]:
    names = texts(given, "conditions")
    for condition in names:
        if condition not in CONDITIONS:
            raise InvalidBlock(f"no condition {condition!r}; {nearest(str(condition), CONDITIONS)}")
    return tuple(c for c in CONDITIONS if c in names or (positive and c == "positive demands"))


# -- the search for one property ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class AuditSettings:
    """The arguments of an audit."""

    policy: Any
    conditions: tuple[str, ...]
    weights: bool
    limits: bool
    servers: int
    max_examples: int
    seed: int
    tell: Listener
    shrinking: float  # seconds for each candidate
    shapes: tuple[tuple[int, int], ...] = SHAPES  # users and resources of the pools that are drawn
    only: bool = False  # whether witnesses must have one of these shapes too
    share: Share | None = None  # what users compare
    by_default: bool = False  # whether demands are positive because the property is stated for such

    @property
    def positive(self) -> bool:
        """Whether demands are positive."""
        return "positive demands" in self.conditions

    def of_property(self, name: str) -> AuditSettings:
        """The same with positive demands, if the property is stated for such."""
        if self.positive or not BY_NAME[name].positive:
            return self
        return replace(self, conditions=("positive demands", *self.conditions), by_default=True)

    def accepts(self, pools: Batch) -> NDArray[np.bool_]:
        """Which pools satisfy the conditions."""
        fine = np.full(len(pools), not self.only or pools.demands.shape[1:] in self.shapes)
        if self.only and not self.weights:
            fine &= (pools.weights == pools.weights[:, :1]).all(axis=1)
        if self.positive:
            fine &= (pools.demands > 0).all(axis=(1, 2))
        if "no completely dominant user" in self.conditions:
            objective = getattr(self.policy, "objective", None)
            first = objective.share_blocks()[:1] if isinstance(objective, Objective) else ()
            fine &= ~_completely_dominant(pools, int(getattr(first[0], "k", 2)) if first else 2)
        return fine

    def accepts_pools(self, pools: Batch) -> NDArray[np.bool_]:
        """Which pools satisfy the conditions, and leave no user without the share by which users compare."""
        fine = self.accepts(pools)
        for b in np.flatnonzero(fine) if self.share is not None else ():
            fine[b] = self.has_share(pools.instance(int(b)))
        return fine

    def has_share(self, instance: Instance) -> bool:
        """Whether every user who takes part has some of the share that is given."""
        with contextlib.suppress(OutOfDomain):
            if self.share is not None:
                work_by(self.share, self.policy, instance)
            return True
        return False

    @cached_property
    def reads_rates(self) -> bool:
        """Whether the share by which users compare depends on rates."""
        with contextlib.suppress(FairoptError):
            return work_by(self.share, self.policy, TWO_RATES) is not None
        return False

    def accepts_instance(self, instance: Instance) -> bool:
        """Whether an instance satisfies the conditions, on each server if demands differ."""
        if instance.demands.ndim == 2:
            demands = instance.demands[None]
        else:
            demands = np.where(instance.eligible[:, :, None], instance.demands, 1.0).swapaxes(0, 1)
        room = np.broadcast_to(np.maximum(instance.total_capacities, 1e-300), (len(demands), instance.n_resources))
        pools = Batch.of(demands, room)
        return instance.n_users == 0 or bool(self.accepts(pools).all())

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Labels of users that the policy reads."""
        return labels_read(self.policy)

    def drawn(self, rng: np.random.Generator, labels: tuple[str, ...], k: int = 0) -> Instance:
        """A pool, or a cluster, whose users have these labels, and guarantees if the policy reads them.

        The first pools, by their number ``k``, are small, since shrinking takes long where instances are solved one by
        one.
        """
        options = {"positive": self.positive, "weights": self.weights, "limits": self.limits}
        if self.servers > 1:
            made = random_cluster(rng, self.servers, rates=self.reads_rates, **options)
        else:
            family = tuple(FAMILIES)[k % len(FAMILIES)]
            shape = self.shapes[rng.integers(min(1 + k // SMALL_FIRST, len(self.shapes)))]
            made = random_pools(rng, family, shape, 1, **options).instance(0)
        if labels:
            everyone = isinstance(getattr(self.policy, "objective", None), Objective)  # `OfTeam` needs a team of each
            made = with_teams(rng, made, labels, everyone=everyone, weights=self.weights)
        return with_guarantees(rng, made) if self.guarantees else made

    @cached_property
    def guarantees(self) -> bool:
        """Whether the policy compares what is above guarantees."""
        return reads_guarantees(self.policy)

    @cached_property
    def in_batches(self) -> bool:
        """Whether pools of the mechanism are solved together."""
        return solved_in_batches(self.policy)

    def random_faults(self, given: Sequence[Instance] | None) -> tuple[Fault, ...]:
        """Instances on which two calls of the mechanism differ."""
        some: Iterable[Instance]
        rng = np.random.default_rng(self.seed)
        if given is not None:
            some = filter(self.accepts_instance, given)
        elif self.labels or self.guarantees:
            some = (self.drawn(rng, self.labels, k) for k in range(0, SMALL_FIRST * len(self.shapes), SMALL_FIRST))
        else:
            drawn = (random_pools(rng, "binding integers", shape, 4, positive=True) for shape in TRIED_TWICE)
            some = (pools.instance(b) for pools in drawn for b in range(len(pools)))
        return tuple(Fault(DIFFERS, x) for x in some if non_deterministic(self.policy, x))


@dataclass
class PropertySearch:
    """The search for counterexamples to one property, and its results so far."""

    setting: AuditSettings
    name: str
    random: tuple[Fault, ...] = ()
    tried: int = 0
    skipped: int = 0
    faulty: int = 0  # instances without an answer; false reports may cause further faults
    n_faults: int = 0
    faults: list[Fault] = field(default_factory=list)
    hits: dict[str, Tally] = field(default_factory=dict)
    candidates: list[tuple[Measurement, int]] = field(default_factory=list)
    unproved: int = 0
    unconfirmed: list[Unconfirmed] = field(default_factory=list)
    witness: Witness | None = None
    interrupted: bool = False
    late: bool = False
    seconds: float | None = None  # time limit

    def __post_init__(self) -> None:
        self.clock = Clock(None if self.seconds is None else max(self.seconds, SHORTEST))
        self.rng, self.lies = np.random.default_rng(self.setting.seed).spawn(2)
        self.shapes: list[tuple[int, int]] = []
        self.where = ""

    def run(self, given: Sequence[Instance] | None) -> None:
        """Search the given instances, or drawn ones."""
        if self.random:
            self._fail(self.random)
            self.faulty = len(self.random)
            return
        s = self.setting
        options = "positive demands by default, " * s.by_default
        options += f"{'weights 1 to 4' if s.weights else 'equal weights'}, {'some' if s.limits else 'no'} task limits"
        try:
            with self.clock.enforced():
                if given is not None:
                    self.where = f"{len(given):,} given instance{'s' * (len(given) != 1)}"
                    self._look_at_all(given, len(given), small=False)
                elif s.servers > 1 or self.labels or s.guarantees or not decided_on_pools(self.name, s.policy):
                    kinds = f"clusters of 2 to {s.servers} servers" if s.servers > 1 else "pools"
                    more = f"{', teams' * bool(self.labels)}{', guarantees' * s.guarantees}"
                    self.where = f"drawn {kinds}, {options}{more}"
                    self._look_at_all(self._drawn_one_by_one(), s.max_examples, small=True)
                else:
                    self._look_at_pools()
                    self.where = f"one pool, {_range(self.shapes)}, {options}: {', '.join(FAMILIES)}"
        except (KeyboardInterrupt, Late) as end:
            self.interrupted, self.late = isinstance(end, KeyboardInterrupt), isinstance(end, Late)
            with contextlib.suppress(KeyboardInterrupt):  # a second one keeps the results so far
                if self.candidates and self.clock.seconds < self.looked_at:  # without shrinking: less than a second
                    self._verify(counterexample_of(self.name, *self.candidates[0]))

    def confirmed(self, case: Counterexample) -> Witness | None:
        """The witness of a given counterexample, shrunk if the search measures a violation on its instance."""
        s = self.setting
        measured = measure(s.policy, self.name, Batch.of_instance(case.instance), self.lies, s.positive, TRIES)
        if measured.margin[0] > LEAST_MARGIN:
            self.candidates.append((measured, 0))
            self._prove()
        if self.witness is None:
            self._verify(case)
        return self.witness

    def finding(self) -> Finding:
        """The results so far, as a finding."""
        return Finding(
            self.name,
            self.witness is not None,
            self.tried,
            self.skipped,
            self.witness,
            self.where,
            self.clock.seconds,
            self.hits,
            tuple(self.faults),
            self.n_faults,
            self.interrupted,
            self.unproved,
            tuple(self.unconfirmed),
            late=self.late,
            judged=judged(self.name, self.setting.policy),
        )

    # -- instances --------------------------------------------------------------------------------------------

    def _look_at_pools(self) -> None:
        """Search drawn pools until there is a witness, or all examples have been tried."""
        s, since = self.setting, 0
        by_shape: dict[tuple[int, int], tuple[int, int]] = {}
        for family, pools in self._drawn_pools():
            before, step = self.tried, CHUNK if s.in_batches else SMALL_CHUNK
            for first in range(0, len(pools), step):
                self._measure(family, pools[first : first + step])
                s.tell(f"{self.name}, instances", min(self.looked_at, s.max_examples), s.max_examples)
                if self.clock.late:
                    break
            shape = (pools.demands.shape[1], pools.demands.shape[2])
            seen, answered = by_shape.get(shape, (0, 0))
            by_shape[shape] = seen, answered = seen + len(pools), answered + self.tried - before
            if seen >= FIRST and not answered and shape in self.shapes and not self.faulty:
                self.shapes.remove(shape)  # as two resources for 3-DF
            since += 1
            self.late = self.clock.late and self.looked_at < s.max_examples
            done = self.looked_at >= s.max_examples or self.late
            enough = ENOUGH if s.in_batches else FEW_ENOUGH
            time_to_prove = self.clock.late or self.clock.seconds > (self.clock.time_limit or np.inf) / 2
            if self.candidates and (done or time_to_prove or (since >= len(FAMILIES) and self.tried >= enough)):
                since = 0
                self._prove()
            if self.witness is not None or done or since > 1000:
                break

    def _drawn_pools(self) -> Iterator[tuple[str, Batch]]:
        """Equally many pools of each family and shape."""
        s, options = self.setting, {"weights": self.setting.weights, "limits": self.setting.limits}
        size = int(np.clip(-(-s.max_examples // (len(s.shapes) * len(FAMILIES))), 1, LARGEST_CHUNK))
        self.shapes = list(s.shapes)
        while self.shapes:
            for shape in s.shapes:
                for family in FAMILIES if shape in self.shapes else ():
                    if shape not in self.shapes:
                        break
                    pools = random_pools(self.rng, family, shape, size, positive=s.positive, **options)
                    pools = pools[s.accepts_pools(pools)]
                    yield family, pools[: max(s.max_examples - self.looked_at, 1)]

    def _drawn_one_by_one(self) -> Iterator[Instance]:
        """Clusters, and instances with teams or guarantees."""
        s = self.setting
        for k in range(100 * s.max_examples):
            made = s.drawn(self.rng, self.labels, k)
            if s.accepts_instance(made):
                yield made

    def _look_at_all(self, instances: Any, number: int, small: bool) -> None:
        """Test instances one by one until one is a counterexample; drawn ones (``small``) are shrunk."""
        for instance in instances:
            if not small and not (self.setting.accepts_instance(instance) and self.setting.has_share(instance)):
                self.skipped += 1
            elif self._in_batches(instance) and instance.n_users:
                found = self._on_pool(instance)
                self._counted(found, 1, int(bool(found.faults)))
            else:
                self._look_at_servers(instance, small)
            self.setting.tell(f"{self.name}, instances", self.looked_at, number)
            self.late = self.clock.late and self.witness is None and self.looked_at < number
            if self.witness is not None or self.looked_at >= number or self.late:
                break

    # -- steps ------------------------------------------------------------------------------------------------

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of users that are drawn."""
        return self.setting.labels or (("team",) if self.name in OF_TEAMS else ())

    def _in_batches(self, instance: Instance) -> bool:
        """Whether an instance is measured, and its witness confirmed, as one pool."""
        return is_one_pool(instance) and decided_on_pools(self.name, self.setting.policy, instance)

    @property
    def looked_at(self) -> int:
        """Number of instances, with and without an answer."""
        return self.tried + self.skipped + self.faulty

    def _measure(self, family: str, pools: Batch) -> None:
        s, begun = self.setting, self.clock.seconds
        tries = TRIES if s.in_batches else FEW_TRIES
        measured = measure(s.policy, self.name, pools, self.lies, s.positive, tries)
        failing = np.flatnonzero(measured.margin > LEAST_MARGIN)
        outside = int(measured.outside.sum())
        wrong = {p.demands.tobytes() for p, _ in measured.faults}
        self._counted(measured, len(pools), sum(row.tobytes() in wrong for row in pools.demands) if wrong else 0)
        self._count(family, len(pools) - outside, len(failing), self.clock.seconds)
        for kind, tally in measured.tallies.items():
            self._count(f"lies: {kind}", tally.tried, tally.hits, begun + (tally.seconds or 0.0))
        if len(failing):
            order = failing[np.argsort(-np.minimum(measured.margin[failing], 1e6), kind="stable")]
            self.candidates += [(measured, int(b)) for b in order[:2]]

    def _counted(self, measured: Measurement, size: int, faulty: int) -> None:
        """Count measured pools, and keep their faults."""
        outside = int(measured.outside.sum())
        self.skipped += outside
        self.faulty += faulty
        self.tried += max(size - outside - faulty, 0)
        self._fail([Fault(f"{type(error).__name__}: {error}", at.instance(0)) for at, error in measured.faults])

    def _count(self, family: str, tried: int, hits: int, seconds: float) -> None:
        self.hits[family] = self.hits.get(family, Tally()).plus(tried, hits, seconds)

    def _fail(self, faults: Sequence[Fault]) -> None:
        self.n_faults += len(faults)
        self.faults += faults[: SHOWN_FAULTS - len(self.faults)]

    def _prove(self) -> None:
        """Shrink and verify the worst candidates, until one is confirmed."""
        s = self.setting
        s.tell(f"{self.name}: shrinking and verifying a witness", None, None)
        self.candidates.sort(key=lambda c: -min(float(c[0].margin[c[1]]), 1e6))
        for measured, b in self.candidates[:ATTEMPTS]:
            seconds = min(s.shrinking, self.clock.left or np.inf)
            shrinker = Shrinker(s.policy, self.name, s.positive, s.accepts_pools, s.seed, seconds, s.in_batches)
            self._record(*shrinker.smallest(measured, b))
            if self.witness is not None:
                break
        self.candidates.clear()

    def _on_pool(self, instance: Instance) -> Measurement:
        """Measure one pool, and verify a violation."""
        s = self.setting
        measured = measure(s.policy, self.name, Batch.of_instance(instance), self.lies, s.positive, 400)
        if measured.margin[0] > (LEAST_MARGIN if self.name != "pareto" else LEAST_PARETO):
            case = counterexample_of(self.name, measured, 0)  # then with the labels and server rows of the instance
            changed = case.changed
            if measured.leaver is not None:
                changed = instance.select_users([j for j in range(instance.n_users) if j != measured.leaver[0]])
            elif changed is not None:
                changed = instance.with_capacities(changed.capacities / instance.counts[:, None])
            self._verify(replace(case, instance=instance, changed=changed))
        return measured

    def _look_at_servers(self, instance: Instance, small: bool) -> None:
        s, budget = self.setting, ON_SERVERS if small else None
        found: Any = None

        def outcome(other: Instance) -> Any:
            return search_instance(s.policy, self.name, other, s.positive, s.seed, budget, s.share)

        def fails(other: Instance) -> bool:
            nonlocal found
            if s.accepts_instance(other) and isinstance(less := outcome(other), Witness):
                found = less
                return True
            return False

        begun = self.clock.seconds
        found = outcome(instance)
        outside, broken = isinstance(found, OutOfDomain), isinstance(found, Witness)
        self.skipped += outside
        if isinstance(found, Unconfirmed):
            self._leave(found)
        if fault := isinstance(found, Exception) and not outside:
            self.faulty += 1
            self._fail([Fault(f"{type(found).__name__}: {found}", instance)])
        answered = not outside and not fault
        self.tried += answered
        if small:
            self._count("clusters" if s.servers > 1 else "pools", int(answered), int(broken), begun)
        if broken and small:
            s.tell(f"{self.name}: shrinking a witness", None, None)
            least = smaller_cluster(instance, fails, min(s.shrinking, self.clock.left or np.inf))
            if self._in_batches(least):  # for which there is an independent computation
                self._on_pool(least)
                if self.witness is not None:
                    return
        self.witness = found if isinstance(found, Witness) else None

    def _verify(self, case: Counterexample) -> None:
        self._record(case, verified(self.setting.policy, case))

    def _record(self, case: Counterexample, proof: Verified) -> None:
        """Keep a counterexample as the witness if it is verified, else as unconfirmed or as a fault."""
        if proof.random:
            self._fail([Fault(DIFFERS, case.instance)])
            return
        user, policy = case.instance.users[case.user], self.setting.policy
        try:
            sentence = sentence_of(policy, case)
        except Exception as error:  # any exception of the mechanism
            why = f"could not be confirmed: {type(error).__name__}: {error}"
            self._leave(Unconfirmed(case.instance, f"user {user!r} seemed to be a witness", why))
            return
        if not proof.confirmed:
            left = "; no margin is left after errors are deducted"
            if sentence is not None:
                self._leave(Unconfirmed(case.instance, sentence, proof.how + left * (proof.margin > -np.inf)))
            return
        gain = proof.margin if case.lie is not None else None
        sentence = sentence or f"user {user!r} is a witness"
        changed = case.changed
        self.witness = Witness(case.instance, sentence, proof.margin, user, case.lie, gain, proof.how, changed)

    def _leave(self, seen: Unconfirmed) -> None:
        """Keep an instance on which the property seemed to fail, unverified."""
        self.unproved += 1
        self.unconfirmed += [seen][: SHOWN_FAULTS - len(self.unconfirmed)]


def _range(shapes: Sequence[tuple[int, int]]) -> str:
    if not shapes:
        return "no shape for which it is defined"
    users, resources = zip(*shapes, strict=True)
    return f"{min(users)} to {max(users)} users, {min(resources)} to {max(resources)} resources"


def _completely_dominant(pools: Batch, k: int) -> NDArray[np.bool_]:
    """Where a user exceeds another in all products of k - 1 of its k largest ratios: not eq. 7, Jiang and Wu 2021."""
    ratios = -np.sort(-pools.demands / pools.capacities[:, None], axis=2)[:, :, : max(k, 1)]
    if ratios.shape[2] == 1:
        return np.zeros(len(pools), dtype=bool)
    products = np.stack([np.delete(ratios, i, axis=2).prod(axis=2) for i in range(ratios.shape[2])], axis=2)
    above = np.all(products[:, :, None] > products[:, None], axis=3)
    return np.any(above, axis=(1, 2))


# -- one instance on any number of servers --------------------------------------------------------------------------


def sentence_of(policy: Any, case: Counterexample) -> str | None:
    """The violation in words, from the mechanism's own answers; None if they do not show it."""
    instance, user = case.instance, case.instance.users[case.user]
    answer = checked(policy, instance)
    truth = float(answer.tasks[case.user])
    if case.lie is not None:
        lied = checked(policy, lying_instance(instance, case.user, np.array(case.lie)))
        runs = tasks_on(lied.bundles[case.user], instance, case.user)
        return str(Misreport.on(instance, case.user, tuple(map(float, case.lie)), truth, runs))
    if case.changed is not None:
        after = checked(policy, case.changed)
        runs = float(after.tasks[case.changed.users.index(user)])
        gone = [u for u in instance.users if u not in case.changed.users]
        if gone:
            what = f"user {gone[0]!r} leaves"
        else:
            i = int(np.flatnonzero(case.changed.total_capacities != instance.total_capacities)[0])
            before, now = instance.total_capacities[i], case.changed.total_capacities[i]
            what = f"the capacity of {instance.resources[i]!r} grows from {before:.6g} to {now:.6g}"
        return f"when {what}, user {user!r} falls from {truth:.6g} to {zero_if_noise(runs, truth):.6g} tasks"
    verdict = check(answer, [case.property])[case.property]
    return None if verdict.holds else verdict.sentence


def search_instance(
    policy: Any,
    name: str,
    instance: Instance,
    positive: bool,
    seed: int,
    budget: int | None = None,
    share: Share | None = None,
) -> Witness | Unconfirmed | Exception | None:
    """A witness that a property fails on one instance on any number of servers; None if none is found.

    An exception of the mechanism is returned. There is a witness only if a second answer agrees, by another solver or
    by a second run, and the margin exceeds what the gaps leave open. ``positive``, ``seed``, ``budget`` and ``share``
    are those of `best_misreport`.
    """
    options: dict[str, Any] = {"positive": positive, "seed": seed, "budget": budget, "share": share}
    try:
        if name in OF_ALLOCATIONS:
            return _search_allocation(policy, name, instance, share)
        if name in ("strategy-proof", "strategy-proof-boosting"):
            boosting = name == "strategy-proof-boosting"
            lies = [
                best_misreport(policy, instance, j, boosting=boosting, **options)
                for j in np.flatnonzero(instance.task_limits > 0).tolist()
            ]
            best = max((lie for lie in lies if lie is not None), key=lambda lie: lie.gain, default=None)
            return witness_of(instance, best)
        if name == "team-strategy-proof":
            return witness_of(instance, best_team_lie(policy, instance, **options))
        search = population_monotone if name == "population-monotone" else resource_monotone
        verdict = search(policy, instance, share=share)
    except Exception as error:
        return error
    if verdict.holds:
        return None
    how = "before and after solved again, with proof"
    return Witness(instance, verdict.sentence, verdict.margin, None, None, None, how)


def witness_of(instance: Instance, lie: Misreport | TeamLie | None) -> Witness | None:
    """A profitable lie of a user or of a team as a witness; None for none."""
    how = "truth and lie solved again, with proof"
    if isinstance(lie, TeamLie):
        return Witness(instance, str(lie), lie.gain, lie.team, None, None, how, lie.reported)
    return None if lie is None else Witness(instance, str(lie), lie.gain, lie.user, lie.demands, lie.gain, how)


def _search_allocation(policy: Any, name: str, instance: Instance, share: Share | None) -> Witness | Unconfirmed | None:
    """Check a property of allocations on the answer, and confirm a violation on a second answer."""
    first = checked(policy, instance)
    verdict = check(first, [name], share=share)[name]
    if verdict.holds:
        return None
    try:
        margin, unsure, how = _confirm_margin(policy, name, first, verdict, share)
    except Exception as error:
        return Unconfirmed(instance, verdict.sentence, f"could not be confirmed: {type(error).__name__}: {error}")
    if margin <= unsure:
        reason = f"{how}; the margin is {percent(margin)}, and the gaps leave {percent(unsure)} open"
        return Unconfirmed(instance, verdict.sentence, reason)
    how += ", measured in fractions" * (name in MEASURED)
    return Witness(instance, verdict.sentence, margin, None, None, None, how)


def _confirm_margin(
    policy: Any, name: str, first: Allocation, verdict: Verdict, share: Share | None
) -> tuple[float, float, str]:
    """The smaller margin of two answers, what the gaps leave open of it, and how both were confirmed."""
    second, how, instance = None, "run again", first.instance
    if (other := second_answer(policy, first)) is not None:
        second, how = other
        again = check(second, [name], share=share)[name]
        if again.holds:
            how = how.replace("agree", "differ")
            if name == "pareto":  # that one of two optima is dominated is the finding
                second, how = None, f"its own answer, run again; {how}"
    if second is None:
        second = checked(policy, instance.replace())
        again = check(second, [name], share=share)[name]
    margin, work = min(verdict.margin, again.margin), work_by(share, policy, instance)
    for answer, checked_as in ((first, verdict), (second, again)) if name in MEASURED else ():
        exact = ExactJudge(answer, None if work is None else work.share)
        margin = min(margin, float(exact.margin(name, getattr(checked_as.details, "tasks_by_server", None))))
    # bounds the sum of all errors of tasks, hence that of any margin
    unsure = sum(float(error_bound(answer).sum()) for answer in (first, second)) * (1.0 + max(margin, 0.0))
    return margin, unsure, how
