"""The audit of a mechanism: a search for instances that break what is claimed of it, and proof before it is said."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.objectives import Objective
from fairopt.errors import InvalidBlock, nearest
from fairopt.instance import Instance
from fairopt.policy import label
from fairopt.properties.exact import Case, Verified, verified
from fairopt.properties.findings import AuditReport, Fault, Finding, Witness
from fairopt.properties.given import on_servers, one_pool, sentence_of
from fairopt.properties.many import differing
from fairopt.properties.names import property_name
from fairopt.properties.search import FAMILIES, SHAPES, Measured, Pools, drawn, measured
from fairopt.properties.shrink import Shrinker, case_of

__all__ = ["CONDITIONS", "audit"]

NOTICED = 1e-5  # relative: margins below are noise of the routes (of 2,000 pools at alpha 1, up to 5e-7)
ENOUGH = 500  # instances that are tried even when the first breaks the property, so that rates mean something
CHUNK = 0.25  # seconds between two looks at the clock
LARGEST_CHUNK = 2048
ATTEMPTS = 4  # candidates that are shrunk and verified before the search goes on
FIRST = 16  # pools of each family in a shape that is new
SHOWN_FAULTS = 5
TRIES, FEW_TRIES = 60, 12  # lies of each user on each instance; few where an instance then takes so many seconds:
SLOW = 0.02
SHRINKING = 10.0  # seconds for one candidate; FDS(1) at strategy-proofness took 4
CONDITIONS = ("positive demands", "no completely dominant user", "boosting only")
USUAL = ("pareto", "sharing-incentive", "envy-free", "strategy-proof")


def audit(
    mechanism: Any,
    properties: str | Iterable[str] = USUAL,
    instances: Iterable[Instance] | None = None,
    *,
    positive: bool = False,
    conditions: str | Iterable[str] = (),
    weights: bool = False,
    limits: bool = False,
    max_examples: int = 2000,
    seed: int = 0,
    seconds: float | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> AuditReport:
    """Search for instances on which a mechanism breaks a property, shrink what is found, and verify it.

    Small pools are drawn from families (small integers, some resources scarce at one point, log space, near ties) and
    measured thousands at a time, where the mechanism allows. What fails is reduced to few users and small integers, and
    computed again by other means (see `fairopt.properties.exact`) before it is called refuted.

    Parameters
    ----------
    mechanism : Policy or other mechanism
        Anything with ``allocate(instance)``.
    properties : iterable of str
        Names or short forms, as ``["pe", "si", "ef", "sp"]``, which are audited by default.
    instances : iterable of Instance, optional
        Look at these, on any number of servers, instead of drawn ones; witnesses among them are not shrunk.
    positive : bool, default False
        Positive demands only, in instances and in reports.
    conditions : iterable of str
        Of ``"positive demands"``, ``"no completely dominant user"`` (000 eq. 7, for the k of a k-dominant share, else
        2) and ``"boosting only"`` (lies of at least the truth).
    weights, limits : bool, default False
        Let drawn instances have weights from 1 to 4, and task limits.
    max_examples : int, default 2000
        Instances per property; fewer where it is refuted before.
    seed : int, default 0
        Where chance comes from.
    seconds : float, optional
        Stop looking at a property after so long.
    progress : callable, optional
        Called with the property, the number of instances done and ``max_examples``, now and then.

    Returns
    -------
    AuditReport
        With a `Finding` for each property. Ctrl-C returns what is known by then, marked as interrupted.

    Raises
    ------
    InvalidBlock
        If a property or condition is unknown, ``max_examples`` is below 1, or the mechanism has no ``allocate``.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.properties.audit import audit
    >>> report = audit(fo.KDF(2), ["si", "pe"], positive=True, max_examples=200)
    >>> report["pe"].verdict
    'not refuted on 200 instances'
    >>> print(report["si"].witness)
    user 'user2' runs 0.3333 tasks, where its own slice would run 0.5: ... (verified: exact fractions)
    """
    if isinstance(mechanism, type) or not callable(getattr(mechanism, "allocate", None)):
        raise InvalidBlock(f"audit({mechanism!r}): give a policy, such as DRF(), or anything with .allocate(instance)")
    names = list(dict.fromkeys(map(property_name, [properties] if isinstance(properties, str) else properties)))
    if not names:
        raise InvalidBlock("no properties to audit; give some such as ['pe', 'si', 'ef', 'sp']")
    if isinstance(max_examples, bool) or not isinstance(max_examples, (int, np.integer)) or max_examples < 1:
        raise InvalidBlock(f"max_examples is {max_examples!r}; give a whole number of instances, 1 or more")
    if seconds is not None and not seconds > 0:
        raise InvalidBlock(f"seconds is {seconds!r}; give a number > 0, or None")
    known = _conditions(conditions, positive)
    if "boosting only" in known:
        names = list(dict.fromkeys("strategy-proof-boosting" if n == "strategy-proof" else n for n in names))
    given = None if instances is None else list(instances)
    for instance in given or ():
        if not isinstance(instance, Instance):
            raise InvalidBlock(f"instances hold {instance!r}; give fairopt.Instance objects")
    setting = _Setting(
        mechanism, known, weights, limits, int(max_examples), seed, seconds, progress or (lambda *_: None)
    )
    findings: list[Finding] = []
    try:
        random = setting.random_faults() if given is None else ()
    except KeyboardInterrupt:
        return AuditReport(label(mechanism), mechanism, (), known, seed)
    for name in names:
        search = _Search(setting, name)
        if random:
            search.faults, search.n_faults = list(random), len(random)
        elif given is None:
            search.run(search.drawn_pools())
        else:
            search.run_given(given)
        findings.append(search.finding())
        if search.interrupted:
            break
    return AuditReport(label(mechanism), mechanism, tuple(findings), known, seed)


@dataclass(frozen=True)
class _Setting:
    """What was asked for."""

    mechanism: Any
    conditions: tuple[str, ...]
    weights: bool
    limits: bool
    max_examples: int
    seed: int
    seconds: float | None
    progress: Callable[[str, int, int], None]

    @property
    def positive(self) -> bool:
        return "positive demands" in self.conditions

    def accepts(self, pools: Pools) -> NDArray[np.bool_]:
        """Which pools fulfil the conditions."""
        fine = np.ones(len(pools), dtype=bool)
        if self.positive:
            fine &= (pools.demands > 0).all(axis=(1, 2))
        if "no completely dominant user" in self.conditions:
            objective = getattr(self.mechanism, "objective", None)
            first = objective.share_blocks()[:1] if isinstance(objective, Objective) else ()
            fine &= ~_completely_dominant(pools, int(getattr(first[0], "k", 2)) if first else 2)
        return fine

    def random_faults(self) -> tuple[Fault, ...]:
        """Instances on which the mechanism answers otherwise when asked again."""
        rng = np.random.default_rng(self.seed)
        faults: list[Fault] = []
        for shape in ((2, 2), (3, 3)):
            pools = drawn(rng, "binding integers", shape, 4, positive=True)
            places = differing(self.mechanism, pools.demands, pools.capacities)
            faults += [Fault("it answers otherwise when asked again", pools.instance(int(b))) for b in places]
        return tuple(faults[:SHOWN_FAULTS])


@dataclass
class _Search:
    """What is known about one property so far."""

    setting: _Setting
    name: str
    tried: int = 0
    skipped: int = 0
    faulty: int = 0  # instances without an answer; there may be more faults, where lies are told
    n_faults: int = 0
    faults: list[Fault] = field(default_factory=list)
    hits: dict[str, tuple[int, int, float | None]] = field(default_factory=dict)
    candidates: list[tuple[Measured, int]] = field(default_factory=list)
    unproved: int = 0
    witness: Witness | None = None
    interrupted: bool = False
    each: float = 1e-4  # seconds per instance, as measured

    def __post_init__(self) -> None:
        self.start = time.perf_counter()
        self.rng = np.random.default_rng(self.setting.seed)
        self.where = ", ".join(FAMILIES)

    @property
    def looked_at(self) -> int:
        """Instances, with and without an answer."""
        return self.tried + self.skipped + self.faulty

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.start

    def drawn_pools(self) -> Iterator[tuple[str, Pools]]:
        """Families in turn, in shapes that grow, as many at a time as the mechanism's speed suggests.

        A shape begins with a few, and is left where the mechanism is not defined for any of them: 3-DF asks for three
        resources, and no number of pools of two would say anything about it.
        """
        s, options = self.setting, {"weights": self.setting.weights, "limits": self.setting.limits}
        known: set[tuple[int, int]] = set()
        left = list(SHAPES)
        while left:
            for shape in list(left):
                for family in FAMILIES if shape in left else ():
                    size = min(int(np.clip(CHUNK / self.each, 4, LARGEST_CHUNK)), s.max_examples)
                    pools = drawn(
                        self.rng, family, shape, size if shape in known else min(size, FIRST),
                        positive=s.positive, **options,
                    )  # fmt: skip
                    pools = pools[s.accepts(pools)]
                    before = self.skipped
                    yield family, pools
                    if shape not in known and len(pools) and self.skipped - before == len(pools):
                        left = [other for other in left if other != shape]
                        break
                known.add(shape)

    def run(self, batches: Iterator[tuple[str, Pools]]) -> None:
        """Search until there is a witness, or everything that was asked for has been tried."""
        s, since = self.setting, 0
        try:
            for family, pools in batches:
                left = s.max_examples - self.looked_at
                if len(pools):
                    self._measure(family, pools[: max(left, 1)])
                since += 1
                s.progress(self.name, min(self.tried, s.max_examples), s.max_examples)
                done = self.looked_at >= s.max_examples
                late = s.seconds is not None and self.elapsed > s.seconds
                if self.candidates and (done or late or (since >= len(FAMILIES) and self.tried >= self._enough)):
                    since = 0
                    self._prove()
                if self.witness is not None or done or late or since > 1000:
                    break
        except KeyboardInterrupt:
            self.interrupted = True
            if self.candidates and self._each_answer < SLOW:  # as it is, in milliseconds: there is no time to shrink it
                self._verify(case_of(self.name, *self.candidates[0]))

    def run_given(self, instances: list[Instance]) -> None:
        """Look at somebody's own instances, each as it is."""
        self.where = f"{len(instances):,} given instances"
        try:
            for k, instance in enumerate(instances):
                self._look_at(instance)
                self.setting.progress(self.name, k + 1, len(instances))
                if self.witness is not None:
                    break
        except KeyboardInterrupt:
            self.interrupted = True

    def finding(self) -> Finding:
        """What is known, as a finding."""
        extra = f"; {self.unproved} could not be verified" if self.unproved else ""
        return Finding(
            self.name, self.witness is not None, self.tried, self.skipped, self.witness, self.where + extra,
            self.elapsed, self.hits, tuple(self.faults), self.n_faults, self.interrupted,
        )  # fmt: skip

    # -- steps ------------------------------------------------------------------------------------------------

    @property
    def _enough(self) -> int:
        """Instances to try before looking closer: fewer of a slow mechanism."""
        return int(min(ENOUGH, max(2.0 / self.each, 16)))

    def _measure(self, family: str, pools: Pools) -> None:
        s, begun = self.setting, time.perf_counter()
        before = self.elapsed
        tries = TRIES if self.each < SLOW else FEW_TRIES
        found = measured(s.mechanism, self.name, pools, self.rng, s.positive, tries)
        self.each = (time.perf_counter() - begun) / len(pools)
        failing = np.flatnonzero(found.margin > NOTICED)
        outside = int(found.outside.sum())
        wrong = {p.demands.tobytes() for p, _ in found.faults}
        faulty = sum(row.tobytes() in wrong for row in pools.demands) if wrong else 0
        self.skipped += outside
        self.tried += len(pools) - outside - faulty
        self.faulty += faulty
        self.n_faults += len(found.faults)
        for at, error in found.faults[: SHOWN_FAULTS - len(self.faults)]:
            self.faults.append(Fault(f"{type(error).__name__}: {error}", at.instance(0)))
        self._count(family, len(pools) - outside, len(failing), self.elapsed if len(failing) else None)
        for kind, tally in found.tallies.items():
            first = None if tally.first is None else before + tally.first
            self._count(f"lies: {kind}", tally.tried, tally.hits, first)
        if len(failing):
            order = failing[np.argsort(-np.minimum(found.margin[failing], 1e6), kind="stable")]
            self.candidates += [(found, int(b)) for b in order[:2]]

    def _count(self, family: str, tried: int, hits: int, seconds: float | None) -> None:
        t, h, first = self.hits.get(family, (0, 0, None))
        self.hits[family] = (t + tried, h + hits, seconds if first is None else first)

    @property
    def _each_answer(self) -> float:
        """Seconds that one answer takes, of the many that lies ask for."""
        return self.each / (TRIES if self.name.startswith("strategy-proof") else 1)

    def _prove(self) -> None:
        """Shrink and verify the candidates that fail worst, until one is believed."""
        s = self.setting
        self.candidates.sort(key=lambda c: -min(float(c[0].margin[c[1]]), 1e6))
        for found, b in self.candidates[:ATTEMPTS]:
            shrinker = Shrinker(
                s.mechanism, self.name, s.positive, s.accepts, s.seed, SHRINKING, self._each_answer
            )  # fmt: skip
            case, proof = shrinker.smallest(found, b)
            if proof.believed:
                self.witness = _witness(s.mechanism, case, proof)
                break
            self.unproved += 1
        self.candidates.clear()

    def _look_at(self, instance: Instance) -> None:
        s = self.setting
        if not one_pool(instance):
            outcome = on_servers(s.mechanism, self.name, instance, s.positive, s.seed)
            self.skipped += outcome.outside
            self.tried += outcome.answered
            if outcome.fault is not None:
                self.n_faults += 1
                self.faults.append(Fault(outcome.fault, instance))
            self.witness = outcome.witness
            return
        pools = Pools.of(instance)
        found = measured(s.mechanism, self.name, pools, self.rng, s.positive, 400)
        self.skipped += int(found.outside.sum())
        self.tried += int(not found.outside[0] and not found.faults)
        self.n_faults += len(found.faults)
        self.faults += [Fault(f"{type(e).__name__}: {e}", at.instance(0)) for at, e in found.faults[:SHOWN_FAULTS]]
        if found.margin[0] <= NOTICED:
            return
        self._verify(_labelled(case_of(self.name, found, 0), found, instance))

    def _verify(self, case: Case) -> None:
        proof = verified(self.setting.mechanism, case)
        if proof.believed:
            self.witness = _witness(self.setting.mechanism, case, proof)
        else:
            self.unproved += 1


def _labelled(case: Case, found: Measured, instance: Instance) -> Case:
    """The case in the user's own words."""
    changed = case.changed
    if found.leaver is not None:
        changed = instance.select_users([j for j in range(instance.n_users) if j != found.leaver[0]])
    elif changed is not None:
        changed = instance.with_capacities(changed.capacities / instance.counts[:, None])
    return replace(case, instance=instance, changed=changed)


def _witness(mechanism: Any, case: Case, proof: Verified) -> Witness:
    gain = proof.margin if case.lie is not None else None
    return Witness(
        case.instance, sentence_of(mechanism, case), proof.margin, case.instance.users[case.user], case.lie, gain,
        proof.how, case.changed,
    )  # fmt: skip


def _conditions(given: str | Iterable[str], positive: bool) -> tuple[str, ...]:
    asked = [given] if isinstance(given, str) else list(given)
    for condition in asked:
        if condition not in CONDITIONS:
            raise InvalidBlock(f"no condition {condition!r}; {nearest(condition, CONDITIONS)}")
    return tuple(c for c in CONDITIONS if c in asked or (positive and c == "positive demands"))


def _completely_dominant(pools: Pools, k: int) -> NDArray[np.bool_]:
    """Where some user is above another in every product of k - 1 of its k largest ratios (000 eq. 7 does not hold)."""
    ratios = -np.sort(-pools.demands / pools.capacities[:, None], axis=2)[:, :, : max(k, 1)]
    if ratios.shape[2] == 1:
        return np.zeros(len(pools), dtype=bool)
    products = np.stack([np.delete(ratios, i, axis=2).prod(axis=2) for i in range(ratios.shape[2])], axis=2)
    above = np.all(products[:, :, None] > products[:, None], axis=3)
    return np.any(above, axis=(1, 2))
