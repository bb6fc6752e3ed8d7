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
from fairopt.methods.arrays import Bool, Float

KINDS = 6  # up to so many resources, users are counted by the set of resources that they need: at most 64 sets
FULL = 1e-14  # of a capacity: rounding of sums over users


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
            np.sum([p.low for p in parts], axis=0), np.sum([p.rates for p in parts], axis=0),
            np.sum(kinds, axis=0) if len(kinds) == len(parts) else None, min(p.first_limit for p in parts),
            any(p.bounded for p in parts), any(p.crossed for p in parts),
        )  # fmt: skip


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
            np.sum([p.load for p in parts], axis=0), np.sum([p.up for p in parts], axis=0),
            np.sum([p.down for p in parts], axis=0), min(p.joins for p in parts), sum(p.rising for p in parts),
        )  # fmt: skip


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
        if k == 0 and level <= start.first_limit:
            prices[resource] = 1.0 / slope
        events.append(Event(resource, level))
    return Filled(tuple(events), prices)


def _next_full(
    users: WaterfillingUsers | _UserKinds, events: Sequence[Event], usable: Float, level: float, trial: float,
    bounded: bool,
) -> tuple[int, float, float] | None:  # fmt: skip
    """The next resource to be full, its level and the slope of its load; None if no user or load rises any more.

    It is the largest level at which all loads fit. Loads are piecewise linear in the level, and concave but where users
    join: Newton's step is exact once no kink lies between, and a bracket that always shrinks prevents cycles.
    """
    below, above = level, np.inf  # all loads fit below, not above
    trial = max(trial, level) if bounded else level
    while True:
        at = users.loads(events, trial)
        if at.rising == 0:
            return None
        room = usable - at.load
        over = room < -FULL * usable
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
    """The users of a pool in memory, as `WaterfillingUsers`; ``tasks`` are per level until `settle` is called."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.tasks = np.empty(pool.n)
        self.started = Start.of_all(pool.each(self._start))

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
        least = chunk.ratios @ np.broadcast_to(low, chunk.size)
        crossed = bool(np.any(low > high * (1 + 1e-12)))
        return Start(least, rates, None, float(np.min(high / per_level)), True, crossed)

    def pool_of_sample(self) -> Pool | None:
        """A sample of the users."""
        return self.pool.sample()

    def loads(self, events: Sequence[Event], level: float) -> Loads:
        """Loads after events, at a level."""
        return Loads.of_all(self.pool.each(lambda chunk: self._loads(chunk, events, level)))

    def _loads(self, chunk: Chunk, events: Sequence[Event], level: float) -> Loads:
        per_level, ratios = self.tasks[chunk.rows], chunk.ratios
        levels, rising = _levels(chunk, events, level)
        tasks = per_level * levels
        if not self.pool.bounded:
            rates = ratios @ np.where(rising, per_level, 0.0)
            return Loads(ratios @ tasks, rates, rates, np.inf, int(np.count_nonzero(rising)))
        low, high = chunk.of(self.pool.low), chunk.of(self.pool.high)
        enters, leaves = low / per_level, high / per_level
        up = ratios @ (per_level * (rising & (enters <= level) & (level < leaves)))
        down = ratios @ (per_level * (rising & (enters < level) & (level <= leaves)))
        joins = float(np.where(rising & (enters > level), enters, np.inf).min())
        return Loads(ratios @ np.clip(tasks, low, high), up, down, joins, int(np.count_nonzero(rising)))

    def settle(self, chunk: Chunk, events: Sequence[Event]) -> None:
        """Write the tasks of a chunk of users; those who were never frozen go to their limits."""
        tasks = self.tasks[chunk.rows]
        tasks *= _levels(chunk, events, np.inf)[0]
        if self.pool.bounded:
            np.clip(tasks, chunk.of(self.pool.low), chunk.of(self.pool.high), out=tasks)


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


def _levels(chunk: Chunk, events: Sequence[Event], level: float) -> tuple[Any, Bool]:
    """The level of each user of a chunk, and whether it still rises: the first event on a resource it needs counts."""
    levels: Any = level
    rising = np.ones(chunk.size, dtype=bool)
    for event in reversed(events):
        needs = chunk.ratios[event.resource] > 0
        if needs.all():
            levels, rising = event.level, np.zeros(chunk.size, dtype=bool)
        else:
            levels, rising = np.where(needs, event.level, levels), rising & ~needs
    return levels, rising
