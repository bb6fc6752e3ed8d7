"""Water-filling: exact leximin of any linear share on one pool (progressive filling, Ghodsi et al. 2011).

Raise a common level ``z = s_j / w_j``. When a resource is full, freeze the users who need it; a user at its limit stays
there; go on with the rest. Users with a lower bound start there and rise with the others once the level reaches it.
There is at most one event per resource.

`find_events` works on `WaterfillingUsers`, who report their loads at a level: a few numbers per resource, from users in
memory (`WaterfillingPool`) or in shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from fairopt.formulation.pool_users import Chunk, Pool, bounds_fit
from fairopt.formulation.program import Indices
from fairopt.methods.arrays import Bool, Float

KINDS = 6  # up to so many resources, users are counted by the set of resources that they need: at most 64 sets
FULL = 1e-14  # of a capacity: rounding of sums over users
NEAR = 0.03  # of a level at which loads were added up: so near, differences from it lose no digits
TURN = 1e-15  # of a level: where a user turns, as a quotient of its tasks and as a product, is the same but for that
SMALL = 1e-3  # of a slope that was added up: below, differences from it have lost digits


class Event(NamedTuple):
    """A resource becomes full at a level: the users who need it rise no further."""

    resource: int
    level: float


class Start(NamedTuple):
    """Loads and rates before any user rises.

    By resource: ``low`` is the load of the lower bounds and ``rates`` the load per level without any bound.
    Where there are no bounds and m is small, ``kinds`` of shape (2^m, m) are the rates by the set of resources needed.
    ``first_limit`` is the level at which the first user is at its limit; ``bounded`` says whether there are any bounds,
    ``crossed`` whether a lower one is above an upper one.
    """

    low: Float
    rates: Float
    kinds: Float | None
    first_limit: float
    bounded: bool
    crossed: bool

    @classmethod
    def of_all(cls, parts: Sequence[Start]) -> Start:
        """Sums over several groups of users."""
        kinds = [p.kinds for p in parts if p.kinds is not None]
        return cls(
            np.sum([p.low for p in parts], axis=0),
            np.sum([p.rates for p in parts], axis=0),
            np.sum(kinds, axis=0) if len(kinds) == len(parts) else None,
            min(p.first_limit for p in parts),
            any(p.bounded for p in parts),
            any(p.crossed for p in parts),
        )


class Loads(NamedTuple):
    """Loads by resource, when events have frozen some users and the others stand at a level.

    ``up`` and ``down`` are the slopes of the load to the right and to the left, ``joins`` is the next level at which
    a user starts to rise, ``rising`` the number of users who are not frozen.
    """

    load: Float
    up: Float
    down: Float
    joins: float
    rising: int

    @classmethod
    def of_all(cls, parts: Sequence[Loads]) -> Loads:
        """Sums over several groups of users."""
        return cls(
            np.sum([p.load for p in parts], axis=0),
            np.sum([p.up for p in parts], axis=0),
            np.sum([p.down for p in parts], axis=0),
            min(p.joins for p in parts),
            sum(p.rising for p in parts),
        )


class WaterfillingUsers(Protocol):
    """Users who report their loads at a level, in memory or in shards."""

    def start(self) -> Start:
        """Load of the lower bounds, and rates."""

    def pool_of_sample(self) -> Pool | None:
        """Fewer users whose events are at about the same levels; None if there are few already."""

    def loads(self, events: Sequence[Event], level: float) -> Loads:
        """Loads after events, at a level."""


class Filled(NamedTuple):
    """Events in order, and the derivative of the max-min level by the (relative) capacity of each resource.

    The prices, of shape (n_resources,), are zero where limits decide the level.
    """

    events: tuple[Event, ...]
    prices: Float


def find_events(users: WaterfillingUsers, usable: Float) -> Filled | None:
    """Leximin on one pool: the events, from which all tasks follow; None if the lower bounds do not fit."""
    start = users.start()
    if not bounds_fit(start.low, start.crossed, usable):
        return None
    usable = np.maximum(usable, start.low)  # what lower bounds exceed by rounding is full, and not too much
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = np.where(start.rates > 0, usable / start.rates, np.inf)
    sample = users.pool_of_sample() if start.bounded else None
    sampled = find_events(WaterfillingPool(sample), sample.usable) if sample else None
    guesses = [event.level for event in sampled.events] if sampled else []
    asked = users if start.kinds is None else _UserKinds(start.kinds)
    prices = np.zeros(len(usable))
    level = 0.0
    events: list[Event] = []
    while len(events) <= len(usable):
        k = len(events)
        if k == 0 and not start.bounded:  # loads are proportional to the level
            i = int(np.argmin(levels))
            found: tuple[int, float, float] | None = i, float(levels[i]), float(start.rates[i])
        else:
            trial = guesses[k] if k < len(guesses) else level or float(levels.min())
            found = _next_full(asked, events, usable, level, trial, start.bounded)
        if found is None:
            break
        resource, reached, slope = found
        level = max(reached, level)
        if k == 0 and level <= start.first_limit and slope > 0:
            prices[resource] = 1.0 / slope
        events.append(Event(resource, level))
    return Filled(tuple(events), prices)


def _next_full(
    users: WaterfillingUsers | _UserKinds,
    events: Sequence[Event],
    usable: Float,
    level: float,
    trial: float,
    bounded: bool,
) -> tuple[int, float, float] | None:
    """The next resource to be full, its level and the slope of its load; None if no user or load rises any more.

    It is the largest level at which all loads fit. Loads are piecewise linear in the level, and concave but where users
    join: Newton's step is exact once no kink lies between, and a bracket that always shrinks prevents cycles.
    """
    below, above = level, np.inf  # all loads fit below, not above
    trial = max(trial, level) if bounded else level
    done = [event.resource for event in events]  # full: users who rise do not need them, and any excess is rounding
    while True:
        at = users.loads(events, trial)
        if at.rising == 0 or not np.isfinite(at.load).all():
            return None
        room = usable - at.load
        over = room < -FULL * usable
        over[done] = False
        if over.any():
            above = trial
            back = np.where(over & (at.down > 0), room / np.where(at.down > 0, at.down, 1.0), 0.0)
            i = int(np.argmin(back))
            found = trial + float(back[i])
            slope = float(at.down[i])
        else:
            below = trial
            steps = np.where(at.up > 0, np.maximum(room, 0.0) / np.where(at.up > 0, at.up, 1.0), np.inf)
            i = int(np.argmin(steps))
            found = trial + float(steps[i])
            slope = float(at.up[i])
            if not bounded or found - trial <= 4e-16 * trial:
                return (i, found, slope) if np.isfinite(found) else None
            if np.isinf(found):  # no load grows from here on, until the next user starts
                if np.isinf(at.joins):
                    return None
                trial = at.joins
                continue
        if np.isfinite(above) and above - below <= 4e-16 * above:  # at a jump of the slope
            return i, below, slope
        inside = below < found < above
        trial = found if inside else 0.5 * (below + above) if np.isfinite(above) else 2.0 * max(below, found)


class _UserKinds:
    """Users without bounds, as one for each set of resources needed; their loads follow from the rates of each set."""

    def __init__(self, kinds: Float) -> None:
        self.kinds = kinds
        m = kinds.shape[1]
        self.needs = (np.arange(len(kinds))[:, None] >> np.arange(m)) & 1 > 0

    def loads(self, events: Sequence[Event], level: float) -> Loads:
        """Loads after events, at a level."""
        levels = np.full(len(self.kinds), level)
        rising: Bool = np.any(self.kinds, axis=1)
        for event in reversed(events):
            needs = self.needs[:, event.resource]
            levels[needs], rising[needs] = event.level, False
        rates = rising @ self.kinds
        return Loads(levels @ self.kinds, rates, rates, np.inf, int(np.count_nonzero(rising)))


class WaterfillingPool:
    """The users of a pool in memory, as `WaterfillingUsers`; ``tasks`` are per level until `settle` is called.

    Users whom an event froze are not read again: ``fixed`` is their load, and ``rising`` the indices of the others
    (None for all). Loads at a further level are those ``seen`` at the last one, moved along their slopes, and corrected
    for the users who reached a bound between: of a million users few do.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.tasks = np.empty(pool.n)
        self.started = Start.of_all(pool.each(self._start))
        pool.require_level(self.started.rates)
        self._reset()

    def _reset(self) -> None:
        self.events: tuple[Event, ...] = ()
        self.fixed: Float = np.zeros(self.pool.m)
        self.rising: Indices | None = None
        self.seen: _Seen | None = None

    def start(self) -> Start:
        """Load of the lower bounds, and rates."""
        return self.started

    def _start(self, chunk: Chunk) -> Start:
        per_level = np.divide(chunk.of(self.pool.weights), chunk.coefficients, out=self.tasks[chunk.rows])
        rates = chunk.ratios @ per_level
        if not self.pool.bounded:
            kinds = _rates_by_kind(chunk.ratios, per_level, rates)
            return Start(np.zeros(len(rates)), rates, kinds, np.inf, False, False)
        low, high = chunk.of(self.pool.low), chunk.of(self.pool.high)
        least = np.zeros(len(rates)) if _is(low, 0.0) else chunk.ratios @ np.broadcast_to(low, chunk.size)
        crossed = bool(np.any(low > high * (1 + 1e-12)))
        return Start(least, rates, None, float(np.min(high / per_level)), True, crossed)

    def pool_of_sample(self) -> Pool | None:
        """A sample of the users."""
        return self.pool.sample()

    def loads(self, events: Sequence[Event], level: float) -> Loads:
        """Loads after events, at a level."""
        if self.events != tuple(events[: len(self.events)]):
            self._reset()
        for event in events[len(self.events) :]:
            self._freeze(event)
        n = self.pool.n if self.rising is None else len(self.rising)
        found = self._moved(level) if self.seen is not None and n else None
        if found is None:
            parts = self.pool.each(lambda chunk: self._loads(chunk, level), among=self.rising)
            found = _Slopes(*np.sum(parts, axis=0)) if parts else _Slopes(*np.zeros((3, self.pool.m)))
            self.seen = _Seen(level, found, level, found)
        return Loads(self.fixed + found.load, found.up, found.down, self._joins(level), n)

    def _freeze(self, event: Event) -> None:
        """Let the users who need a resource rise no further than its event."""
        kept = []

        def freeze(chunk: Chunk) -> Float:
            needs = chunk.needs(event.resource)
            rows = np.flatnonzero(~needs)
            kept.append(rows + chunk.rows.start if isinstance(chunk.rows, slice) else chunk.rows[rows])
            tasks = np.clip(self.tasks[chunk.rows] * event.level, chunk.of(self.pool.low), chunk.of(self.pool.high))
            return chunk.load(np.where(needs, tasks, 0.0))

        self.fixed = self.fixed + np.sum(self.pool.each(freeze, among=self.rising), axis=0)
        self.rising, self.seen = np.concatenate(kept) if kept else self.rising, None
        self.events += (event,)

    def _loads(self, chunk: Chunk, level: float) -> Float:
        """The loads of rising users at a level, and their slopes to the right and to the left, (3, n_resources)."""
        per_level = self.tasks[chunk.rows]
        if not self.pool.bounded:
            rates = chunk.load(per_level)
            return np.array([rates * level, rates, rates])
        return chunk.load(np.stack(_stand(per_level, chunk.of(self.pool.low), chunk.of(self.pool.high), level)))

    def _moved(self, level: float) -> _Slopes | None:
        """Loads at a level from those at the last; None where differences have added too much rounding."""
        assert self.seen is not None
        before, there, at, summed = self.seen
        if abs(level - at) > NEAR * at:
            return None
        slope = there.up if level > before else there.down
        load, up, down = np.sum(self.pool.each(lambda c: self._bent(c, before, level), among=self.rising), axis=0)
        found = _Slopes(there.load + slope * (level - before) + load, there.up + up, there.down + down)
        for new, old in ((found.up, summed.up), (found.down, summed.down)):
            if (new < SMALL * old).any():
                return None
        self.seen = _Seen(level, found, at, summed)
        return found

    def _bent(self, chunk: Chunk, before: float, level: float) -> Float:
        """What users add to loads and slopes by bounds between two levels, beyond their slopes, (3, n_resources)."""
        per_level, low, high = self.tasks[chunk.rows], chunk.of(self.pool.low), chunk.of(self.pool.high)
        first, last = min(before, level) * (1 - TURN), max(before, level) * (1 + TURN)
        bends = np.zeros(chunk.size, dtype=bool)
        for bound in (low, high):
            if not ((_is(bound, 0.0) and first > 0) or _is(bound, np.inf)):
                bends |= (bound >= per_level * first) & (bound <= per_level * last)
        some = np.flatnonzero(bends)
        if not len(some):
            return np.zeros((3, self.pool.m))
        part = per_level[some], _of(low, some), _of(high, some)
        tasks, up, down = _stand(*part, before)
        there = _stand(*part, level)
        slope = up if level > before else down
        return chunk.load(np.stack([there[0] - tasks - slope * (level - before), there[1] - up, there[2] - down]), some)

    def _joins(self, level: float) -> float:
        """The next level at which a user starts to rise."""
        if isinstance(self.pool.low, float) and self.pool.low == 0:
            return np.inf
        rows = slice(None) if self.rising is None else self.rising
        enters = _of(self.pool.low, rows) / self.tasks[rows]
        return float(np.min(enters, initial=np.inf, where=enters > level))

    def settle(self, chunk: Chunk, events: Sequence[Event]) -> None:
        """Write the tasks of a chunk of users; those who were never frozen go to their limits."""
        tasks = self.tasks[chunk.rows]
        tasks *= _levels(chunk, events)
        if self.pool.bounded:
            np.clip(tasks, chunk.of(self.pool.low), chunk.of(self.pool.high), out=tasks)


class _Slopes(NamedTuple):
    """Loads by resource, and their slopes to the right and to the left."""

    load: Float
    up: Float
    down: Float


class _Seen(NamedTuple):
    """The last level and what the rising users load there, and both when loads were last added up."""

    level: float
    there: _Slopes
    summed_at: float
    summed: _Slopes


def _stand(per_level: Float, low: Any, high: Any, level: float) -> tuple[Float, Float, Float]:
    """Tasks of users at a level, and their slopes to the right and to the left."""
    enters, leaves = low / per_level, high / per_level
    up = per_level * ((enters <= level) & (level < leaves))
    down = per_level * ((enters < level) & (level <= leaves))
    return np.clip(per_level * level, low, high), up, down


def _is(bound: Any, number: float) -> bool:
    """Whether all users have one bound, the number."""
    return isinstance(bound, float) and bound == number


def _of(bound: Any, some: Any) -> Any:
    return bound if isinstance(bound, float) else bound[some]


def _rates_by_kind(ratios: Float, per_level: Float, rates: Float) -> Float | None:
    """Rates by the set of resources needed; resource i is bit i of the row's number."""
    m = len(ratios)
    if m > KINDS:
        return None
    out = np.zeros((1 << m, m))
    if not ratios.min() > 0:
        kind = np.zeros(ratios.shape[1], dtype=np.uint8)
        for i in range(m):
            kind |= (ratios[i] > 0).view(np.uint8) << i
        rows = np.flatnonzero(kind != len(out) - 1)
        of_row, some = kind[rows], ratios[:, rows] * per_level[rows]
        for i in range(m):
            out[:, i] = np.bincount(of_row, weights=some[i], minlength=len(out))
    out[-1] = np.maximum(rates - out.sum(axis=0), 0.0)  # users of all resources are frozen by the first event
    return out


def _levels(chunk: Chunk, events: Sequence[Event]) -> Any:
    """The level of each user of a chunk: the first event on a resource it needs counts; infinite without any."""
    levels: Any = np.full(chunk.size, np.inf)
    left: Any = slice(None)  # who has not been frozen yet
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
