"""What a `Scheduler` remembers of past use: by what numbers it compares users."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import floor, log2
from typing import Any, ClassVar

import numpy as np

from fairopt.blocks.base import ByUser
from fairopt.blocks.shares import Share
from fairopt.errors import InvalidBlock, InvalidInstance, nearest
from fairopt.instance import Instance
from fairopt.online.memory import LEAST_PRIORITY, afs_penalty, decayed, kai_weight
from fairopt.runtime.arrays import Float
from fairopt.solve.whole.greedy import to_36_bits

DAY = 86_400.0


@dataclass(frozen=True)
class Usage:
    """What a `Scheduler` remembers of each user's past, per weight; the lowest is next.

    With a half-life it is the average of what users hold, in which the past decays. With a cost alone it is the cost of
    all tasks that they started, as tokens served; with neither it is what they hold now.

    Parameters
    ----------
    half_life : float, optional
        Use so long ago counts half. Then every call of the scheduler needs the time ``at``.
    lift : bool, default True
        Whether a user who begins to wait is lifted to the least of the users who wait (or, if none does, of the one who
        did so last), so that idle time earns nothing. Without it a user who was idle is served alone until it has
        caught up.
    cost : dict of float by resource, optional
        Cost of a unit of each resource, in place of the share; resources that are not named cost nothing.

    Examples
    --------
    One slot; A runs alone for 50 s, then B joins:

    >>> import fairopt as fo
    >>> jobs = [fo.Job("A", [1], 1, tasks=60), fo.Job("B", [1], 1, tasks=60, arrival=50)]
    >>> for lift in (True, False):
    ...     scheduler = fo.Scheduler([1], usage=fo.online.Usage(half_life=1000, lift=lift))
    ...     print("".join("AB"[job] for job in fo.simulate([1], jobs, scheduler=scheduler).task_job[50:56]))
    BABABA
    BBBBBB
    """

    half_life: float | None = None
    lift: bool = True
    cost: Mapping[str, float] | None = None

    _always: ClassVar[str | None] = None  # the option that is never None

    def __post_init__(self) -> None:
        name = type(self).__name__
        for key, (check, fix) in _CHECKS.items():
            value = getattr(self, key, None)
            if value is None and key != self._always:
                continue
            if not isinstance(value, (int, float, np.number)) or isinstance(value, bool) or not check(float(value)):
                raise InvalidBlock(f"{name}: {key} is {value!r}; give {fix}")
        if not isinstance(self.lift, bool):
            raise InvalidBlock(f"{name}: lift is {self.lift!r}; give True or False")
        if self.cost is None and self._always == "cost":
            raise InvalidBlock(f"{name}: cost is None; give a dict by resource, such as {{'gpu': 1}}")
        checked_cost(name, self.cost)
        if self.cost is not None:
            object.__setattr__(self, "cost", ByUser(self.cost))

    def _counted(self, share: Share, instance: Instance) -> Share:
        """What is counted of a task: the share, or the cost."""
        if self.cost is None:
            return share
        for resource in self.cost:
            if resource not in instance.resources:
                raise InvalidInstance(f"usage has a cost of {resource!r}; {nearest(resource, instance.resources)}")
        return _Cost(tuple(self.cost.get(name, 0.0) for name in instance.resources))

    def _remembered(self, user: Any, now: Any) -> float:
        """The number that is compared, before weights."""
        if self.half_life is None:
            return float(user.turn * user.weight)
        present: float = user.present
        elapsed = now - user.since
        if not elapsed or user.average == present:
            return float(user.average)
        return present + (user.average - present) * 2.0 ** (-elapsed / self.half_life)

    def _level(self, user: Any, now: Any, origin: Any) -> float:
        """What users are ordered by: times a factor that grows with time, it is constant while a user is idle."""
        half_life = self.half_life
        if half_life is None:
            return to_36_bits(float(user.turn))  # sums of thirds tie
        average: float = user.average
        if (since := user.since) != now and average != (present := user.present):
            average = present + (average - present) * 2.0 ** ((since - now) / half_life)  # as remembered, inlined
        if average <= 0:
            return -math.inf
        return floor(1e6 * (log2(average / user.weight) + (now - origin) / half_life) + 0.5)  # to 6 digits

    def _settle(self, user: Any, now: Any) -> None:
        """Bring a user up to now, before what it holds changes."""
        user.average, user.since = self._remembered(user, now), now

    def _started(self, user: Any, amount: float, now: Any) -> None:
        """Count what has just started."""

    def _raise_to(self, user: Any, other: Any, now: Any) -> None:
        """Lift a user who begins to wait to another."""
        if self.half_life is None:
            user.turn = max(user.turn, other.turn)
        else:
            least = self._remembered(other, now) / other.weight * user.weight
            user.average, user.since = max(self._remembered(user, now), least), now

    def _sample(self, users: Sequence[Any], now: Any, quanta: int) -> None:
        """Bring all users up to a sample; ``quanta`` times have passed since the last one."""


def checked_cost(name: str, cost: Any) -> None:
    """Raise `InvalidBlock` unless a cost is a dict of numbers by resource, or None."""
    if not isinstance(cost, Mapping | None):
        raise InvalidBlock(f"{name}: cost is {cost!r}; give a dict by resource, such as {{'gpu': 1}}")
    for resource, value in (cost or {}).items():
        if not isinstance(value, (int, float, np.number)) or not 0 <= value < math.inf:
            raise InvalidBlock(f"{name}: the cost of {resource!r} is {value!r}; give a finite number >= 0")


_CHECKS: dict[str, tuple[Callable[[float], bool], str]] = {
    "half_life": (lambda value: 0 < value < math.inf, "a finite time > 0"),
    "sampling": (lambda value: 0 < value < math.inf, "a finite time > 0"),
    "quantum": (lambda value: 0 < value < math.inf, "a finite cost > 0"),
    "k": (lambda value: 0 <= value < math.inf, "a finite number >= 0"),
    "alpha": (lambda value: 0 <= value <= 1, "a number from 0 to 1"),
}


@dataclass(frozen=True, repr=False)
class _Cost(Share):
    """The cost of one task."""

    costs: tuple[float, ...]
    by_row = True

    def per_task(self, instance: Instance) -> Float:
        return np.asarray(instance.demands @ np.array(self.costs))


@dataclass(frozen=True)
class VTC(Usage):
    """Virtual token counters (Sheng et al., OSDI 2024, Algorithm 2): the least weighted tokens served, with lift.

    Parameters
    ----------
    lift : bool, default True
        Without it, the paper's *least counter first*, a client who was idle catches up.
    cost : dict of float by resource, optional
        Weights of the tokens of a request; default 1 for ``input`` and 2 for ``output``, as in the paper. A request is
        charged when it starts, as in the paper's variant that knows the lengths.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.online.VTC(cost={"prefill": 1, "decode": 4})
    VTC(lift=True, cost={'decode': 4.0, 'prefill': 1.0})
    """

    cost: Mapping[str, float] | None = field(default_factory=lambda: {"input": 1.0, "output": 2.0})
    half_life: float | None = field(default=None, init=False, repr=False)

    _always = "cost"


@dataclass(frozen=True)
class DRR(VTC):
    """Deficit round robin (Shreedhar and Varghese 1996): in each round users are served up to a quantum per weight.

    A user whose cost exceeds the quantum of its round pays the rest in the next ones, as where the lengths of requests
    are unknown before they run. Within a round users alternate, where the original serves each in one go: so the cost
    per round is the same, and waits are shorter.

    Parameters
    ----------
    quantum : float, default 1000
        The cost that a weight of 1 is served in a round.
    lift : bool, default True
        Without it a client who was idle catches up with the rounds that it missed.
    cost : dict of float by resource, optional
        As of `VTC`.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.online.DRR(quantum=500)
    DRR(lift=True, cost={'input': 1.0, 'output': 2.0}, quantum=500)
    """

    quantum: float = 1000.0

    def _level(self, user: Any, now: Any, origin: Any) -> float:
        return float(floor(to_36_bits(float(user.turn) / self.quantum)))


@dataclass(frozen=True)
class _Sampled(Usage):
    """A usage of a deployed scheduler, which takes samples and does not lift."""

    half_life: float | None = 7 * DAY
    lift: bool = field(default=False, init=False, repr=False)
    sampling: float = 300.0

    _always: ClassVar[str | None] = "half_life"


@dataclass(frozen=True)
class _Held(_Sampled):
    """What is in use at samples counts for all of the time since the last one."""

    _least: ClassVar[float] = -math.inf

    def _remembered(self, user: Any, now: Any) -> float:
        return max(self._least, float(user.average))

    def _level(self, user: Any, now: Any, origin: Any) -> float:
        return self._remembered(user, now) / float(user.weight)

    def _settle(self, user: Any, now: Any) -> None:
        pass  # only samples count

    def _hold(self, user: Any, now: Any) -> None:
        """Count what is in use for all of the time since the last sample."""
        past, elapsed = self._remembered(user, now), float(now - user.since)
        user.average, user.since = decayed(past, user.present, elapsed, self.half_life or math.inf), now

    def _sample(self, users: Sequence[Any], now: Any, quanta: int) -> None:
        for user in users:
            self._hold(user, now)


@dataclass(frozen=True)
class Slurm(_Sampled):
    """Slurm's multifactor priority: the highest 2^(-U/S) of decayed usage U and shares S.

    Users without accounts are ordered by U / S under Fair Tree too, whose Level FS is S / U.

    Parameters
    ----------
    half_life, sampling : float
        ``PriorityDecayHalfLife``, 7 days, and ``PriorityCalcPeriod``, 5 minutes.
    cost : dict of float by resource, optional
        Billing weights. Default: the share of the scheduler.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.online.Slurm(cost={"cpu": 1, "gpu": 20})
    Slurm(half_life=604800.0, cost={'cpu': 1.0, 'gpu': 20.0}, sampling=300.0)
    """

    def _level(self, user: Any, now: Any, origin: Any) -> float:
        return float((user.allowance or 0.0) / user.weight)

    def _sample(self, users: Sequence[Any], now: Any, quanta: int) -> None:
        for user in users:
            user.allowance = self._remembered(user, now)


@dataclass(frozen=True)
class HTCondor(_Held):
    """HTCondor's effective user priority: the lowest decayed average of cores, at least 0.5, over the weight.

    A weight is the inverse of a priority factor. HTCondor divides the matches of a cycle in inverse proportion to
    priorities; here the lowest is next.

    Parameters
    ----------
    half_life, sampling : float
        ``PRIORITY_HALFLIFE``, 1 day, and the time between two negotiation cycles, 1 minute.
    cost : dict of float by resource, optional
        What counts as a core. Default: 1 for ``cpu``.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.online.HTCondor()
    HTCondor(half_life=86400.0, cost={'cpu': 1.0}, sampling=60.0)
    """

    half_life: float | None = DAY
    cost: Mapping[str, float] | None = field(default_factory=lambda: {"cpu": 1.0})
    sampling: float = 60.0

    _least = LEAST_PRIORITY


@dataclass(frozen=True)
class Kueue(_Held):
    """Kueue's admission fair sharing: the lowest average of what was in use at samples, plus a penalty by admission.

    Parameters
    ----------
    half_life, sampling : float
        ``usageHalfLifeTime``, 7 days, and ``usageSamplingInterval``, 5 minutes. An admission counts at once as much as
        running from one sample to the next.
    cost : dict of float by resource, optional
        ``resourceWeights``; resources that are not named have 1.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.online.Kueue(half_life=3600)
    Kueue(half_life=3600, cost=None, sampling=300.0)
    """

    def _counted(self, share: Share, instance: Instance) -> Share:
        cost = dict.fromkeys(instance.resources, 1.0) | dict(self.cost or {})
        return Usage(cost=cost)._counted(share, instance)

    def _started(self, user: Any, amount: float, now: Any) -> None:
        self._hold(user, now)
        user.average += afs_penalty(amount, self.sampling, self.half_life or math.inf)


@dataclass(frozen=True)
class KAI(_Sampled):
    """KAI's time-aware fairness: the lowest share over the weight max(0, w + k (w - u)), u being past use.

    KAI first divides resources by these weights; here the lowest is next. Past use is the decayed average of the share,
    not an average over a window.

    Parameters
    ----------
    half_life, sampling : float
        ``halfLifePeriod``, 7 days, and the time after which weights follow use, 1 minute.
    cost : dict of float by resource, optional
        In place of the share, as parts of the cluster.
    k : float, default 1
        ``kValue``; 0 remembers nothing.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.online.KAI(k=2)
    KAI(half_life=604800.0, cost=None, sampling=60.0, k=2)
    """

    sampling: float = 60.0
    k: float = 1.0

    def _level(self, user: Any, now: Any, origin: Any) -> float:
        weight = kai_weight(user.weight, 0.0, self.k) if user.allowance is None else user.allowance
        return float(user.present / weight) if weight else math.inf

    def _sample(self, users: Sequence[Any], now: Any, quanta: int) -> None:
        total = sum(user.weight for user in users if user.running or user.waiting)
        for user in users:  # weights times their total, which newcomers then need not know
            user.allowance = kai_weight(user.weight, self._remembered(user, now) * total, self.k)


@dataclass(frozen=True)
class Karma(_Held):
    """Karma (Vuppalapati et al., OSDI 2023): users below their guarantee first, then the one with most credits.

    A quantum brings each user its part of the public share as credits. What a user holds above its guarantee costs
    credits. Who has nothing waiting and holds less earns them as far as others borrow, the poorest first. Newcomers
    have the mean of all credits. The original gives slices anew each quantum.

    Parameters
    ----------
    cost : dict of float by resource, optional
        In place of the share, as parts of the cluster.
    sampling : float, default 60
        The quantum.
    alpha : float, default 0.5
        The public part of the cluster; weights divide the rest as guarantees.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.online.Karma(alpha=0.2)
    Karma(cost=None, sampling=60.0, alpha=0.2)
    """

    half_life: float | None = field(default=None, init=False, repr=False)
    sampling: float = 60.0
    alpha: float = 0.5

    _always = None

    def _level(self, user: Any, now: Any, origin: Any) -> float:
        below = not user.held if user.allowance is None else user.present < user.allowance
        return -math.inf if below else -float(user.average / user.weight)

    def _sample(self, users: Sequence[Any], now: Any, quanta: int) -> None:
        total = sum(user.weight for user in users)
        known = [user.average / user.weight for user in users if user.allowance is not None]
        mean, borrowed = sum(known) / len(known) if known else 0.0, 0.0
        offers = []
        for user in users:
            if user.allowance is None:
                user.average = mean * user.weight
            user.allowance = (1 - self.alpha) * user.weight / total
            above = user.present - user.allowance
            user.average += quanta * (self.alpha * user.weight / total - max(0.0, above))
            borrowed += quanta * max(0.0, above)
            if above < 0 and not user.waiting:
                offers.append((user, -quanta * above))
        _raise_poorest(offers, borrowed)


def _raise_poorest(offers: list[tuple[Any, float]], amount: float) -> None:
    """Raise the lowest credits per weight to a common level, each by at most what it offers."""
    corners = []
    for user, most in offers:
        start = user.average / user.weight
        corners += [(start, user.weight), (start + most / user.weight, -user.weight)]
    corners.sort()
    level, slope, left = -math.inf, 0.0, amount
    for at, change in corners:
        if slope > 0 and (at - level) * slope >= left:
            level += left / slope
            break
        left -= (at - level) * slope if slope > 0 else 0.0
        level, slope = at, slope + change
    for user, most in offers:
        user.average += min(max(0.0, level * user.weight - user.average), most)


_MEMBERS: tuple[type[Usage], ...] = (VTC, DRR, Karma, Slurm, HTCondor, Kueue, KAI)
NAMES = {"decayed": Usage, "fair-tree": Slurm, "classic": Slurm} | {kind.__name__.lower(): kind for kind in _MEMBERS}


def named_usage(text: str) -> Usage:
    """A usage from a short name with options and costs, as ``kai:k=2`` or ``vtc:input=1,output=2,lift=0``."""
    name, _, rest = text.strip().partition(":")
    kind = NAMES.get(name.lower())
    if kind is None:
        raise InvalidBlock(f"no usage {name!r}; {nearest(name.lower(), NAMES)}")
    options, cost = dict[str, Any](), dict[str, float]()
    known = {one.name for one in fields(kind) if one.init and one.name != "cost"}
    for word in filter(None, map(str.strip, rest.split(","))):
        key, _, value = word.partition("=")
        try:
            (options if key in known else cost)[key] = float(value)
        except ValueError:
            fix = f"write {name}:{key or 'half_life'}=2, say, with numbers"
            raise InvalidBlock(f"usage {text!r}: {word!r} is no option; {fix}") from None
    if options.get("lift") in (0, 1):
        options["lift"] = bool(options["lift"])
    if cost:
        options["cost"] = cost
    if kind is Usage and not options:
        raise InvalidBlock(f"usage {text!r} remembers nothing; write {name}:half_life=3600, say")
    return kind(**options)
