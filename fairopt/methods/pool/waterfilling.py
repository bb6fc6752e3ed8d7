"""Water-filling: exact leximin of any linear share on one pool.

Raise a common level ``z = s_j / w_j``. When a resource is full, freeze the users who need it; a user at its limit stays
there; go on with the rest. Users with a lower bound start there and join when the level reaches it. At most one event
per resource.

`find_events` sees no user: it asks for loads at a level, and `WaterfillingUsers` answer with a few numbers per
resource, in memory (`WaterfillingPool`) or in shards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fairopt.formulation.pool_users import Chunk, Pool, bounds_fit

Float = NDArray[np.floating[Any]]

KINDS = 6  # resources up to which users are counted by what they need: 64 kinds then
FULL = 1e-14  # of a capacity: what sums over users may be off by


class Event(NamedTuple):
    """A resource is full at a level: its users rise no more."""

    resource: int
    level: float


class Start(NamedTuple):
    """Before any user rises.

    ``low`` is the load of the lower bounds and ``rates`` the load per level without any bound, by resource;
    ``kinds`` are the rates of users who need the same resources, shape (2^m, m), where there are no bounds and m is
    small; ``first_limit`` is the level at which the first user is at its limit; ``bounded`` says whether there are any
    bounds, ``crossed`` whether a lower one is above an upper one.
    """

    low: Float
    rates: Float
    kinds: Float | None
    first_limit: float
    bounded: bool
    crossed: bool

    @classmethod
    def of_all(cls, parts: Sequence[Start]) -> Start:
        """That of several groups of users together."""
        kinds = [p.kinds for p in parts if p.kinds is not None]
        return cls(
            np.sum([p.low for p in parts], axis=0), np.sum([p.rates for p in parts], axis=0),
            np.sum(kinds, axis=0) if len(kinds) == len(parts) else None, min(p.first_limit for p in parts),
            any(p.bounded for p in parts), any(p.crossed for p in parts),
        )  # fmt: skip


class Loads(NamedTuple):
    """What users take, by resource, when events have frozen some and the others stand at a level.

    ``up`` and ``down`` are the slopes of the load to the right and to the left, ``joins`` the next level at which
    a user starts to rise, ``rising`` how many are not frozen.
    """

    load: Float
    up: Float
    down: Float
    joins: float
    rising: int

    @classmethod
    def of_all(cls, parts: Sequence[Loads]) -> Loads:
        """Those of several groups of users together."""
        return cls(
            np.sum([p.load for p in parts], axis=0), np.sum([p.up for p in parts], axis=0),
            np.sum([p.down for p in parts], axis=0), min(p.joins for p in parts), sum(p.rising for p in parts),
        )  # fmt: skip


class WaterfillingUsers(Protocol):
    """Users who are asked for their loads at a level, in memory or in shards."""

    def start(self) -> Start:
        """Load of the lower bounds, and rates."""

    def guess(self) -> Sequence[float]:
        """About where the events will be."""

    def loads(self, events: Sequence[Event], level: float) -> Loads:
        """What they take after events and at a level."""


@dataclass(frozen=True)
class Filled:
    """What `find_events` found.

    Attributes
    ----------
    events : tuple of Event
        In order.
    prices : ndarray of shape (n_resources,)
        Derivative of the max-min level by the (relative) capacity of each resource; zero where limits decide it.
    """

    events: tuple[Event, ...]
    prices: Float


def find_events(users: WaterfillingUsers, usable: Float) -> Filled | None:
    """Leximin on one pool: the events, from which all tasks follow; None if even the lower bounds do not fit."""
    start = users.start()
    if not bounds_fit(start.low, start.crossed, usable):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = np.where(start.rates > 0, usable / start.rates, np.inf)
    guesses = users.guess() if start.bounded else ()
    asked = users if start.kinds is None else _UserKinds(start.kinds)
    prices = np.zeros(len(usable))
    level = 0.0
    events: list[Event] = []
    while len(events) <= len(usable):
        k = len(events)
        if k == 0 and not start.bounded:  # nothing bends: no question needed
            i = int(np.argmin(levels))
            found: _Full | None = _Full(i, float(levels[i]), float(start.rates[i]))
        else:
            trial = guesses[k] if k < len(guesses) else level or float(levels.min())
            found = _next_full(asked, events, usable, level, trial, start.bounded)
        if found is None:  # no user is left, or nothing fills up any more
            break
        level = max(found.level, level)
        if k == 0 and level <= start.first_limit:
            prices[found.resource] = 1.0 / found.slope
        events.append(Event(found.resource, level))
    return Filled(tuple(events), prices)


class _Full(NamedTuple):
    resource: int
    level: float
    slope: float


def _next_full(
    users: WaterfillingUsers | _UserKinds, events: Sequence[Event], usable: Float, level: float, trial: float,
    bounded: bool,
) -> _Full | None:  # fmt: skip
    """The next resource to be full, or None.

    The largest level at which all loads fit. They are piecewise linear in the level, and concave but for users who
    join: Newton's step is exact once no kink lies between, and a bracket that always shrinks keeps it from cycling.
    """
    below, above = level, np.inf  # all fits at the one, not at the other
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
                return _Full(i, found, slope) if np.isfinite(found) else None
            if np.isinf(found):  # no load grows from here on, until the next user starts
                if np.isinf(at.joins):
                    return None
                trial = at.joins
                continue
        if np.isfinite(above) and above - below <= 4e-16 * above:  # a jump of the slope, met to the last digit
            return _Full(i, below, slope)
        inside = below < found < above
        trial = found if inside else 0.5 * (below + above) if np.isfinite(above) else 2.0 * max(below, found)


class _UserKinds:
    """Users without bounds as one for each set of resources that is needed: their rates say it all."""

    def __init__(self, kinds: Float) -> None:
        self.kinds = kinds
        m = kinds.shape[1]
        self.needs = (np.arange(len(kinds))[:, None] >> np.arange(m)) & 1 > 0

    def loads(self, events: Sequence[Event], level: float) -> Loads:
        """What they take after events and at a level."""
        levels = np.full(len(self.kinds), level)
        rising: NDArray[np.bool_] = np.any(self.kinds, axis=1)
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

    def guess(self) -> Sequence[float]:
        """Where the events of a sample are."""
        sample = self.pool.sample()
        found = find_events(WaterfillingPool(sample), sample.usable) if sample else None
        return [e.level for e in found.events] if found else ()

    def loads(self, events: Sequence[Event], level: float) -> Loads:
        """What they take after events and at a level."""
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
        """Leave a chunk of users with their tasks; those who were never frozen go to their limits."""
        tasks = self.tasks[chunk.rows]
        tasks *= _levels(chunk, events, np.inf)[0]
        if self.pool.bounded:
            np.clip(tasks, chunk.of(self.pool.low), chunk.of(self.pool.high), out=tasks)


def _rates_by_kind(ratios: Float, per_level: Float, rates: Float) -> Float | None:
    """Rates of the users who need the same resources; resource i is bit i of the row's number."""
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
    out[-1] = np.maximum(rates - out.sum(axis=0), 0.0)  # users of all resources rise no more after the first event
    return out


def _levels(chunk: Chunk, events: Sequence[Event], level: float) -> tuple[Any, NDArray[np.bool_]]:
    """The level at which each user of a chunk stands, and which still rise: a user's first event counts."""
    levels: Any = level
    rising = np.ones(chunk.size, dtype=bool)
    for event in reversed(events):
        needs = chunk.ratios[event.resource] > 0
        if needs.all():
            levels, rising = event.level, np.zeros(chunk.size, dtype=bool)
        else:
            levels, rising = np.where(needs, event.level, levels), rising & ~needs
    return levels, rising
