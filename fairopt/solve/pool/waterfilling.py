"""Leximin of a linear share on one pool, by water-filling (Proposition 4.2; Ghodsi et al. 2011).

With levels ``z_j = c_j x_j / w_j`` and ``b_j = w_j / c_j`` tasks per unit of level, the problem is

    leximin z  under  sum_j d_ji x_j <= C_i,  low_j <= x_j <= high_j.

A common level h rises from 0; a user that is not fixed runs ``x_j(h) = min(high_j, max(low_j, h b_j))``. At the largest
h at which all loads fit, a resource is full and its users are fixed: an event. There are at most as many as resources.
An answer is leximin if and only if every user is at its limit or needs a full resource of which no user above its lower
bound has a higher level (Proposition 4.1; Bertsekas and Gallager 1992).

Loads are piecewise linear in h with a kink at each bound. To sort the kinks takes memory and time for all of them; here
Newton's method in a bracket finds each event in a few passes over the users, with one number per user beside the
demands. Loads at a near level are the last ones plus slopes, and only users who reach a bound between are read.

Rounding: whether a resource is full is decided up to 1e-14 of a capacity. A later level may rest on what rounding
leaves of an earlier one; where the gate refuses for that reason, the pool is filled again in fractions. The gate tests
Proposition 4.1 on the answer (Bound 4.3 of docs/methods/pool.md), so that an error here costs a refusal, and no wrong
certificate.

`find_events` works on `WaterfillingUsers`, who report their loads at a level: users in memory (`WaterfillingPool`) or
in shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple, Protocol

import numpy as np

from fairopt.blocks.shares import Share
from fairopt.errors import NotCertified
from fairopt.proof.evidence.pool import Bottlenecked
from fairopt.proof.pool_gaps import bottlenecks, rounding_decides
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import later
from fairopt.runtime.tolerances import ROUNDING
from fairopt.solve.form.pool_users import Chunk, Pool, bounds_fit
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Proposals, Settings

MOST_RESOURCES = 6  # for which rates are kept by set of resources: at most 64 sets
# Of a capacity: a load that exceeds it by less fits. On 400 pools whose bounds tie with levels or fill a resource but
# for rounding, 0 moved tasks by at most 2e-11 of themselves.
FULL = 1e-14
# Loads at another level follow from slopes within this relative distance of the level at which users were last added
# up. Errors add up with the number of moves; without the bound tasks of the same 400 pools moved by at most 4e-11.
NEAR = 0.03
# Relative rounding of the level at which a user reaches a bound. It is found as ``bound / b_j`` here and as ``h b_j``
# there: at 0 a user whose bound lay between both was not seen to rise, and its level became infinite.
KINK = 1e-15


def solve_waterfilling(program: Program, settings: Settings) -> Proposals:
    """Leximin or max-min with the order of bottlenecks as evidence; raises `Infeasible` if lower bounds do not fit."""
    assert program.pool_share is not None
    pool = Pool(program, program.pool_share)
    users = WaterfillingPool(pool)
    filled = find_events(users, pool.usable)
    if filled is None:
        later("fairopt.solve.infeasible:explain")(program)
        raise NotCertified("the lower bounds do not fit, though no conflict was found; loosen them a little")
    events, order = filled.events, [event.resource for event in filled.events]
    pool.each(lambda chunk: users.settle(chunk, events))
    evidence = Bottlenecked(pool, order, filled.prices)
    answer = yield Proposal("water-filling", users.tasks, evidence)
    if answer is None or answer.ok:
        return
    # fractions decide where floats cannot: of 300 pools whose lower bounds fill a resource to 1e-7 or less, 18 are
    # certified by them only
    if rounding_decides(program, bottlenecks(pool, answer.tasks, order)):
        tasks = later("fairopt.exact.pool:fill")(program)
        if tasks is not None:
            yield Proposal("water-filling", tasks, evidence)


def fill_leftover(program: Program, share: Share, tasks: Float) -> Float | None:
    """Tasks with the leftover of the given ones shared out by water-filling; None if those do not fit."""
    pool = Pool(program, share, low=tasks)
    users = WaterfillingPool(pool)
    filled = find_events(users, pool.usable)
    if filled is None:
        return None
    pool.each(lambda chunk: users.settle(chunk, filled.events))
    return users.tasks


class Event(NamedTuple):
    """A resource becomes full at a level, which fixes the users who need it."""

    resource: int
    level: float


class Start(NamedTuple):
    """What users report before any rises.

    ``low`` is the load of the lower bounds by resource, ``rates`` the load per level without bounds. If there are no
    bounds and m is small, ``by_set`` (2^m, m) are the rates by the set of resources needed. ``first_limit`` is the
    lowest level at a limit, ``bounded`` whether there are bounds, ``crossed`` whether a lower one exceeds an upper one.
    """

    low: Float
    rates: Float
    by_set: Float | None
    first_limit: float
    bounded: bool
    crossed: bool

    @classmethod
    def of_all(cls, parts: Sequence[Start]) -> Start:
        """Sums over several groups of users."""
        by_set = [p.by_set for p in parts if p.by_set is not None]
        return cls(
            reduce(np.add, (p.low for p in parts)),
            reduce(np.add, (p.rates for p in parts)),
            reduce(np.add, by_set) if len(by_set) == len(parts) else None,
            min(p.first_limit for p in parts),
            any(p.bounded for p in parts),
            any(p.crossed for p in parts),
        )


class Loads(NamedTuple):
    """Loads by resource with some users fixed by events and the others at a level.

    ``up`` and ``down`` are the slopes of the load to the right and to the left, ``next_start`` is the next level at
    which a user rises from its lower bound, ``active`` the number of users not fixed.
    """

    load: Float
    up: Float
    down: Float
    next_start: float
    active: int

    @classmethod
    def of_all(cls, parts: Sequence[Loads]) -> Loads:
        """Sums over several groups of users."""
        return cls(
            np.sum([p.load for p in parts], axis=0),
            np.sum([p.up for p in parts], axis=0),
            np.sum([p.down for p in parts], axis=0),
            min(p.next_start for p in parts),
            sum(p.active for p in parts),
        )


class WaterfillingUsers(Protocol):
    """Users who report their loads at a level, in memory or in shards."""

    def start(self) -> Start:
        """Load of the lower bounds, and rates."""

    def pool_of_sample(self) -> Pool | None:
        """A sample of the users, whose events are at about the same levels; None of few users."""

    def loads(self, events: Sequence[Event], level: float) -> Loads:
        """Loads after events, at a level."""


class Filled(NamedTuple):
    """Events in order, and the derivatives of the max-min level by relative capacities, 0 where limits decide it."""

    events: tuple[Event, ...]
    prices: Float


def find_events(users: WaterfillingUsers, usable: Float) -> Filled | None:
    """The events of leximin, from which all tasks follow; None if the lower bounds do not fit."""
    start = users.start()
    if not bounds_fit(start.low, start.crossed, usable):
        return None
    levels = np.divide(usable, start.rates, out=np.full(len(usable), np.inf), where=start.rates > 0)
    # a sample's events are at about the same levels, a few percent off: first guesses, which decide nothing
    sample = users.pool_of_sample() if start.bounded else None
    sampled = find_events(WaterfillingPool(sample), sample.usable) if sample else None
    guesses = [event.level for event in sampled.events] if sampled else []
    reporting = users if start.by_set is None else _UsersBySet(start.by_set)
    prices = np.zeros(len(usable))
    level = 0.0
    events: list[Event] = []
    # By the lower bounds: nobody rises who needs it, not even by what rounding leaves. Otherwise users share out these
    # last digits by level: of 300 such pools 28 had other tasks, by up to .5%, all within the tolerance of the gate.
    if start.bounded and (full := (start.rates > 0) & (usable - start.low <= ROUNDING * usable)).any():
        rates = reporting.loads([], 0.0).up
        events += [Event(int(i), 0.0) for i in np.flatnonzero(full)]
        first = np.flatnonzero(full & (rates > 0))[:1]
        prices[first] = 1.0 / rates[first]
    # a full resource has no user left, so that each has at most one event
    while len(events) <= len(usable):
        k = len(events)
        if k == 0 and not start.bounded:  # loads are proportional to the level
            i = int(np.argmin(levels))
            next_full: tuple[int, float, float] | None = i, float(levels[i]), float(start.rates[i])
        else:
            trial = guesses[k] if k < len(guesses) else level or float(levels.min())
            next_full = _next_full(reporting, events, usable, level, trial, start.bounded)
        if next_full is None:
            break
        resource, level, slope = next_full
        if k == 0 and level <= start.first_limit and slope > 0:  # else limits decide the max-min level in part
            prices[resource] = 1.0 / slope
        events.append(Event(resource, level))
    return Filled(tuple(events), prices)


def _next_full(
    users: WaterfillingUsers | _UsersBySet,
    events: Sequence[Event],
    usable: Float,
    level: float,
    trial: float,
    bounded: bool,
) -> tuple[int, float, float] | None:
    """The next resource to be full, its level and the slope of its load; None if no load rises any more.

    It is the largest level at which all loads fit, found by Newton's method in a bracket: loads are piecewise linear.
    """
    below, above = level, np.inf  # all loads fit below, not above
    trial = max(trial, level) if bounded else level
    done = [event.resource for event in events]  # full: active users do not need them, and any excess is rounding
    while True:
        at = users.loads(events, trial)
        if at.active == 0 or not np.isfinite(at.load).all():
            return None
        slack = usable - at.load
        over = slack < -FULL * usable
        over[done] = False
        if over.any():
            above = trial
            # too far: back along slopes to the left, by the resource that is to be left the most
            back = np.where(over & (at.down > 0), slack / np.where(at.down > 0, at.down, 1.0), 0.0)
            i = int(np.argmin(back))
            reached = trial + float(back[i])
            slope = float(at.down[i])
        else:
            below = trial
            # all fits: on along slopes to the right, to the resource that is full first; it is, unless a user starts
            steps = np.where(at.up > 0, np.maximum(slack, 0.0) / np.where(at.up > 0, at.up, 1.0), np.inf)
            i = int(np.argmin(steps))
            reached = trial + float(steps[i])
            slope = float(at.up[i])
            if not bounded or reached - trial <= 4e-16 * trial:  # two units in the last place: no level is between
                return (i, reached, slope) if np.isfinite(reached) else None
            if np.isinf(reached):  # no load grows until the next user starts
                if np.isinf(at.next_start):
                    return None
                trial = at.next_start
                continue
        if np.isfinite(above) and above - below <= 4e-16 * above:  # a jump of the slope, which no step crosses
            return i, below, slope
        # a step that leaves the bracket, as slopes change between, is replaced by a half, or by a double without an
        # upper end
        inside = below < reached < above
        trial = reached if inside else 0.5 * (below + above) if np.isfinite(above) else 2.0 * max(below, reached)


class _UsersBySet:
    """Users without bounds, as one for each set of resources needed."""

    def __init__(self, rates: Float) -> None:
        self.rates = rates
        m = rates.shape[1]
        self.needs = (np.arange(len(rates))[:, None] >> np.arange(m)) & 1 > 0

    def loads(self, events: Sequence[Event], level: float) -> Loads:
        """Loads after events, at a level."""
        levels = np.full(len(self.rates), level)
        active: Bool = np.any(self.rates, axis=1)
        for event in reversed(events):  # the first event of a set counts, and is written last
            needs = self.needs[:, event.resource]
            levels[needs], active[needs] = event.level, False
        rates = active @ self.rates
        return Loads(levels @ self.rates, rates, rates, np.inf, int(np.count_nonzero(active)))


class WaterfillingPool:
    """The users of a pool in memory, as `WaterfillingUsers`; ``tasks`` are per level until `settle` is called.

    Fixed users are not read again: ``fixed`` is their load, ``active`` are the indices of the others (None for all).
    Loads at another level follow from those of the ``last`` one by slopes, corrected for users who reach a bound
    between: few of a million do.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.tasks = np.empty(pool.n)
        self.started = Start.of_all(pool.each(self._start))
        self._reset()

    def _reset(self) -> None:
        self.events: tuple[Event, ...] = ()
        self.fixed: Float = np.zeros(self.pool.m)
        self.active: Indices | None = None
        self.last: _LastLoads | None = None

    def start(self) -> Start:
        """Load of the lower bounds, and rates."""
        return self.started

    def _start(self, chunk: Chunk) -> Start:
        # ``tasks`` holds b_j until `settle`, so that no second array by user is needed
        per_level = np.divide(chunk.of(self.pool.weights), chunk.coefficients, out=self.tasks[chunk.rows])
        rates = chunk.ratios @ per_level
        if not self.pool.bounded:
            by_set = _rates_by_set(chunk.ratios, per_level, rates)
            return Start(np.zeros(len(rates)), rates, by_set, np.inf, False, False)
        low, high = chunk.of(self.pool.low), chunk.of(self.pool.high)
        least = np.zeros(len(rates)) if _is(low, 0.0) else chunk.ratios @ np.broadcast_to(low, chunk.size)
        crossed = bool(np.any(low > high * (1 + ROUNDING)))
        return Start(least, rates, None, float(np.min(high / per_level)), True, crossed)

    def pool_of_sample(self) -> Pool | None:
        """A sample of the users."""
        return self.pool.sample()

    def loads(self, events: Sequence[Event], level: float) -> Loads:
        """Loads after events, at a level."""
        # fixed users are not read again, so that a new search starts from all users
        if self.events != tuple(events[: len(self.events)]):
            self._reset()
        for event in events[len(self.events) :]:
            self._fix(event)
        n = self.pool.n if self.active is None else len(self.active)
        now = self._updated(level) if self.last is not None and n else None
        if now is None:
            parts = self.pool.each(lambda chunk: self._loads(chunk, level), among=self.active)
            now = _Slopes(*np.sum(parts, axis=0)) if parts else _Slopes(*np.zeros((3, self.pool.m)))
            self.last = _LastLoads(level, now, level)
        return Loads(self.fixed + now.load, now.up, now.down, self._next_start(level), n)

    def _fix(self, event: Event) -> None:
        """Fix the users who need the resource of an event at its level."""
        kept = []

        def fix(chunk: Chunk) -> Float:
            needs = chunk.needs(event.resource)
            rows = np.flatnonzero(~needs)
            kept.append(rows + chunk.rows.start if isinstance(chunk.rows, slice) else chunk.rows[rows])
            tasks = np.clip(self.tasks[chunk.rows] * event.level, chunk.of(self.pool.low), chunk.of(self.pool.high))
            return chunk.load(np.where(needs, tasks, 0.0))

        self.fixed = self.fixed + np.sum(self.pool.each(fix, among=self.active), axis=0)
        self.active, self.last = np.concatenate(kept) if kept else self.active, None
        self.events += (event,)

    def _loads(self, chunk: Chunk, level: float) -> Float:
        """The loads of active users at a level, and their slopes to the right and to the left, (3, n_resources)."""
        per_level = self.tasks[chunk.rows]
        if not self.pool.bounded:
            rates = chunk.load(per_level)
            return np.array([rates * level, rates, rates])
        return chunk.load(np.stack(_tasks_at(per_level, chunk.of(self.pool.low), chunk.of(self.pool.high), level)))

    def _updated(self, level: float) -> _Slopes | None:
        """Loads at a level from those at the last one; None if that is not `NEAR`."""
        assert self.last is not None
        before, there, summed_at = self.last
        if abs(level - summed_at) > NEAR * summed_at:
            return None
        # exact for users who pass no bound on the way; `_kinks` corrects for the others
        slope = there.up if level > before else there.down
        load, up, down = np.sum(self.pool.each(lambda c: self._kinks(c, before, level), among=self.active), axis=0)
        slopes = _Slopes(there.load + slope * (level - before) + load, there.up + up, there.down + down)
        self.last = _LastLoads(level, slopes, summed_at)
        return slopes

    def _kinks(self, chunk: Chunk, before: float, level: float) -> Float:
        """The change of loads and slopes by users who reach a bound between two levels, (3, n_resources)."""
        per_level, low, high = self.tasks[chunk.rows], chunk.of(self.pool.low), chunk.of(self.pool.high)
        # wide enough that who passes a bound by one form of its level and not by the other is looked at
        first, last = min(before, level) * (1 - KINK), max(before, level) * (1 + KINK)
        between = np.zeros(chunk.size, dtype=bool)
        for bound in (low, high):
            if not ((_is(bound, 0.0) and first > 0) or _is(bound, np.inf)):
                between |= (bound >= per_level * first) & (bound <= per_level * last)
        some = np.flatnonzero(between)
        if not len(some):
            return np.zeros((3, self.pool.m))
        part = per_level[some], _of(low, some), _of(high, some)
        tasks, up, down = _tasks_at(*part, before)
        there = _tasks_at(*part, level)
        slope = up if level > before else down
        return chunk.load(np.stack([there[0] - tasks - slope * (level - before), there[1] - up, there[2] - down]), some)

    def _next_start(self, level: float) -> float:
        """The next level at which a user rises from its lower bound."""
        if _is(self.pool.low, 0.0):
            return np.inf
        rows = slice(None) if self.active is None else self.active
        starts = _of(self.pool.low, rows) / self.tasks[rows]
        return float(np.min(starts, initial=np.inf, where=starts > level))

    def settle(self, chunk: Chunk, events: Sequence[Event]) -> None:
        """Write the tasks of a chunk of users; those whom no event fixed go to their limits."""
        tasks = self.tasks[chunk.rows]
        tasks *= _levels(chunk, events)
        if self.pool.bounded:
            np.clip(tasks, chunk.of(self.pool.low), chunk.of(self.pool.high), out=tasks)


class _Slopes(NamedTuple):
    """Loads by resource, and their slopes to the right and to the left."""

    load: Float
    up: Float
    down: Float


class _LastLoads(NamedTuple):
    """The last level with its loads, and the level at which loads were last summed over all users."""

    level: float
    there: _Slopes
    summed_at: float


def _tasks_at(per_level: Float, low: Any, high: Any, level: float) -> tuple[Float, Float, Float]:
    """Tasks of users at a level, and their slopes to the right and to the left."""
    start, stop = low / per_level, high / per_level
    up = per_level * ((start <= level) & (level < stop))
    down = per_level * ((start < level) & (level <= stop))
    return np.clip(per_level * level, low, high), up, down


def _is(bound: Any, number: float) -> bool:
    """Whether the number is the bound of all users."""
    return isinstance(bound, float) and bound == number


def _of(bound: Any, some: Any) -> Any:
    return bound if isinstance(bound, float) else bound[some]


def _rates_by_set(ratios: Float, per_level: Float, rates: Float) -> Float | None:
    """Rates by the set of resources needed; resource i is bit i of the row's number."""
    m = len(ratios)
    if m > MOST_RESOURCES:
        return None
    out = np.zeros((1 << m, m))
    if not ratios.min() > 0:
        needed = np.zeros(ratios.shape[1], dtype=np.uint8)
        for i in range(m):
            needed |= (ratios[i] > 0).view(np.uint8) << i
        rows = np.flatnonzero(needed != len(out) - 1)
        of_row, some = needed[rows], ratios[:, rows] * per_level[rows]
        for i in range(m):
            out[:, i] = np.bincount(of_row, weights=some[i], minlength=len(out))
    # Those of all resources are what is left, since most users need all; rounding of it has no effect, as the first
    # event fixes them.
    out[-1] = np.maximum(rates - out.sum(axis=0), 0.0)
    return out


def _levels(chunk: Chunk, events: Sequence[Event]) -> Any:
    """The level of each user of a chunk: that of the first event of a resource it needs, infinite without one."""
    levels: Any = np.full(chunk.size, np.inf)
    left: Any = slice(None)  # who is not fixed yet
    for event in events:
        needs = chunk.ratios[event.resource][left] > 0
        if isinstance(left, slice):
            if needs.all():
                return event.level
            levels[needs], left = event.level, np.flatnonzero(~needs)
        else:
            levels[left[needs]], left = event.level, left[~needs]
        if not len(left):
            break
    return levels
