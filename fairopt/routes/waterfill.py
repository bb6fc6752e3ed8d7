"""Water-filling: exact leximin of any linear share on one pool (math.md section 4).

Raise a common level ``z = s_j / w_j``. When a resource is full, freeze the users who need it; a user at its limit stays
there; go on with the rest. Users with a lower bound start there and join when the level reaches it. At most one event
per resource.

`fill` finds the events and never sees a user: it asks for loads at a level, and whoever holds the users (`Filling`
here, shards elsewhere) answers with a few numbers per resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fairopt.routes.chunks import Chunk, Pool

Float = NDArray[np.floating[Any]]

FULL = 1e-14  # of a capacity: what sums over users may be off by


class Event(NamedTuple):
    """A resource is full at a level: who needs it rises no more."""

    resource: int
    level: float


class Start(NamedTuple):
    """Before anybody rises.

    ``low`` is the load of the lower bounds and ``rates`` the load per level without any bound, by resource;
    ``first_limit`` is the level at which the first user is at its limit; ``bounded`` says whether there are any bounds,
    ``crossed`` whether somebody's are the wrong way round.
    """

    low: Float
    rates: Float
    first_limit: float
    bounded: bool
    crossed: bool

    @classmethod
    def of_all(cls, parts: Sequence[Start]) -> Start:
        """That of several groups of users together."""
        return cls(
            np.sum([p.low for p in parts], axis=0), np.sum([p.rates for p in parts], axis=0),
            min(p.first_limit for p in parts), any(p.bounded for p in parts), any(p.crossed for p in parts),
        )  # fmt: skip


class Loads(NamedTuple):
    """What the users who still rise take at a level, by resource.

    ``frozen`` is what those take whom the event that came with the question froze; ``up`` and ``down`` are the slopes
    of the load to the right and to the left, ``joins`` the next level at which somebody starts to rise, ``rising`` how
    many are not frozen.
    """

    frozen: Float
    load: Float
    up: Float
    down: Float
    joins: float
    rising: int

    @classmethod
    def of_all(cls, parts: Sequence[Loads], m: int) -> Loads:
        """Those of several groups of users together."""
        if not parts:
            return cls(np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(m), np.inf, 0)
        return cls(
            np.sum([p.frozen for p in parts], axis=0), np.sum([p.load for p in parts], axis=0),
            np.sum([p.up for p in parts], axis=0), np.sum([p.down for p in parts], axis=0),
            min(p.joins for p in parts), sum(p.rising for p in parts),
        )  # fmt: skip


class Users(Protocol):
    """Whoever holds the users."""

    def start(self) -> Start:
        """Load of the lower bounds, and rates."""

    def guess(self) -> Sequence[float]:
        """About where the events will be."""

    def loads(self, event: Event | None, level: float) -> Loads:
        """Freeze the users of an event, and say what the others take at a level."""

    def finish(self) -> None:
        """Everybody who still rises goes to its limit."""


@dataclass(frozen=True)
class Filled:
    """What `fill` found.

    Attributes
    ----------
    first_level : float
        The max-min level.
    events : tuple of Event
        In order.
    prices : ndarray of shape (n_resources,)
        Derivative of the max-min level by the (relative) capacity of each resource; zero where limits decide it.
    """

    first_level: float
    events: tuple[Event, ...]
    prices: Float


def fill(users: Users, usable: Float) -> Filled | None:
    """Leximin on one pool; the users are left with their tasks.

    Parameters
    ----------
    users : Users
        Who shares it.
    usable : ndarray of shape (n_resources,)
        Fraction of each resource that may be used.

    Returns
    -------
    Filled or None
        None if even the lower bounds do not fit.
    """
    start = users.start()
    if start.crossed or (start.low > usable * (1 + 1e-12)).any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        levels = np.where(start.rates > 0, usable / start.rates, np.inf)
    guesses = users.guess() if start.bounded else ()
    held = np.zeros(len(usable))  # what frozen users take
    prices = np.zeros(len(usable))
    first_level, level = start.first_limit, 0.0
    events: list[Event] = []
    while True:
        k = len(events)
        if k == 0 and not start.bounded:  # nothing bends: no question needed
            i = int(np.argmin(levels))
            found: _Full | None = _Full(i, float(levels[i]), float(start.rates[i]))
        else:
            trial = guesses[k] if k < len(guesses) else level or float(levels.min())
            event = events[-1] if events else None
            found = _next_full(users, event, usable, held, level, trial, start.bounded)
        if found is None:  # nobody is left, or nothing fills up any more
            users.finish()
            return Filled(first_level, tuple(events), prices)
        level = max(found.level, level)
        if k == 0:
            first_level = min(level, start.first_limit)
            if level <= start.first_limit:
                prices[found.resource] = 1.0 / found.slope
        events.append(Event(found.resource, level))


class _Full(NamedTuple):
    resource: int
    level: float
    slope: float


def _next_full(
    users: Users, event: Event | None, usable: Float, held: Float, level: float, trial: float, bounded: bool
) -> _Full | None:
    """The next resource to be full, or None; what the event froze is added to ``held``.

    The largest level at which all loads fit. They are piecewise linear in the level, and concave but for users who
    join: Newton's step is exact once no kink lies between, and a bracket that always shrinks keeps it from cycling.
    """
    below, above = level, np.inf  # all fits at the one, not at the other
    trial = max(trial, level) if bounded else level
    while True:
        at = users.loads(event, trial)
        held += at.frozen
        event = None
        if at.rising == 0:
            return None
        room = usable - held - at.load
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
            if np.isinf(found):  # nobody's load grows from here on, until the next one starts
                if np.isinf(at.joins):
                    return None
                trial = at.joins
                continue
        if np.isfinite(above) and above - below <= 4e-16 * above:  # a jump of the slope, met to the last digit
            return _Full(i, below, slope)
        inside = below < found < above
        trial = found if inside else 0.5 * (below + above) if np.isfinite(above) else 2.0 * max(below, found)


class Filling:
    """The users of a pool, in memory.

    Parameters
    ----------
    pool : Pool
        Who they are.

    Attributes
    ----------
    tasks : ndarray of shape (n_users,)
        Tasks per level of who still rises, and the tasks of who does not.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.tasks = np.empty(pool.n)
        self.alive: dict[int, NDArray[np.int64] | slice] = {}

    def start(self) -> Start:
        """Coefficients of the shares become tasks per level."""
        parts = self.pool.each(self._start)
        self.alive = dict.fromkeys(range(len(parts)), slice(None))
        return Start.of_all(parts)

    def _start(self, chunk: Chunk) -> Start:
        per_level = np.divide(chunk.of(self.pool.weights), chunk.coefficients, out=self.tasks[chunk.rows])
        rates = chunk.ratios @ per_level
        if not self.pool.bounded:
            return Start(np.zeros(len(rates)), rates, np.inf, False, False)
        low, high = chunk.of(self.pool.low), chunk.of(self.pool.high)
        return Start(
            chunk.ratios @ np.broadcast_to(low, chunk.size), rates, float(np.min(high / per_level)), True,
            bool(np.any(low > high * (1 + 1e-12))),
        )  # fmt: skip

    def guess(self) -> Sequence[float]:
        """Where the events of a sample are."""
        sample = self.pool.sample()
        found = fill(Filling(sample), sample.usable) if sample else None
        return [e.level for e in found.events] if found else ()

    def loads(self, event: Event | None, level: float) -> Loads:
        """Freeze the users of an event, and say what the others take at a level."""
        parts = self.pool.each(lambda chunk: self._loads(chunk, event, level), list(self.alive))
        for index, (_, rows) in zip(list(self.alive), parts, strict=True):
            if isinstance(rows, slice) or len(rows):
                self.alive[index] = rows
            else:
                del self.alive[index]
        return Loads.of_all([loads for loads, _ in parts], self.pool.m)

    def _loads(self, chunk: Chunk, event: Event | None, level: float) -> tuple[Loads, NDArray[np.int64] | slice]:
        rows, tasks = self.alive[chunk.index], self.tasks[chunk.rows]
        ratios, frozen = chunk.ratios, np.zeros(self.pool.m)
        if not isinstance(rows, slice):
            ratios = ratios[:, rows]
        if event is not None:
            needs = ratios[event.resource] > 0
            if needs.all():
                tasks[rows] = self._at(chunk, rows, tasks[rows], event.level)
                return Loads.of_all([], self.pool.m)._replace(frozen=ratios @ tasks[rows]), np.empty(0, dtype=np.int64)
            those = np.arange(chunk.size)[rows]
            gone = those[needs]
            tasks[gone] = self._at(chunk, gone, tasks[gone], event.level)
            frozen = ratios[:, needs] @ tasks[gone]
            rows, ratios = those[~needs], ratios[:, ~needs]
        per_level = tasks[rows]
        count = len(per_level)
        at = self._at(chunk, rows, per_level, level)
        if not self.pool.bounded:
            rates = ratios @ per_level
            return Loads(frozen, ratios @ at, rates, rates, np.inf, count), rows
        enters, leaves = (
            self._of(chunk, self.pool.low, rows) / per_level,
            self._of(chunk, self.pool.high, rows) / per_level,
        )
        up = ratios @ (per_level * ((enters <= level) & (level < leaves)))
        down = ratios @ (per_level * ((enters < level) & (level <= leaves)))
        joins = float(np.min(enters, initial=np.inf, where=enters > level))
        return Loads(frozen, ratios @ at, up, down, joins, count), rows

    def _of(self, chunk: Chunk, by_user: Float | float, rows: NDArray[np.int64] | slice) -> Any:
        return by_user if isinstance(by_user, float) else by_user[chunk.rows][rows]

    def _at(self, chunk: Chunk, rows: NDArray[np.int64] | slice, per_level: Float, level: float) -> Float:
        """Tasks at a level."""
        tasks = per_level * level
        if not self.pool.bounded:
            return tasks
        return np.clip(tasks, self._of(chunk, self.pool.low, rows), self._of(chunk, self.pool.high, rows))

    def finish(self) -> None:
        """Everybody who still rises goes to its limit."""
        step = self.pool.step
        for index, rows in self.alive.items():
            part = slice(index * step, (index + 1) * step)
            high = self.pool.high
            self.tasks[part][rows] = high if isinstance(high, float) else high[part][rows]
