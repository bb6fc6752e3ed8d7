"""The derivatives of leximin levels by capacities, from both sides (Proposition 10.4).

Leximin is piecewise linear in the capacities. With slightly more of one capacity levels keep their order, and the users
of a level separate by a leximin of their rates, given the rates of users at lower levels. The smallest rate is the
value of a linear program, by duality

    min over optimal (p, mu) of the level of   p @ e - sum over lower k of mu_k rate_k,

for a change e of the capacities. Users with a positive multiplier have this rate, and the others continue without them.
Usually a level's multipliers are unique, and the rates of its users are one linear formula for all capacities and both
sides.

Why not solve again with more capacity: each capacity and side would be a whole leximin, and a difference sees no kink
nearer than its step. Why level by level from below: a higher level loses what lower ones gain, so that its price may be
negative.

In floats two things are decided: which users are at one level (`_Rates._keys`, by the largest level on each full row,
within ``tie``), and which multipliers are positive (`POSITIVE`). Both are wrong at points that are not exact enough;
the optimality conditions then fail (`MultiplierSet.consistent`), and coarser ties are tried by the caller.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairopt.derivatives.multipliers import Conditions, MultiplierSet, Ties, flat, is_sparse, times_columns
from fairopt.derivatives.optimum import OptimalityConditions, Optimum, _NoDerivative
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import csgraph, sp
from fairopt.runtime.tolerances import SUM_ROUNDING

MOST_LEVELS = 1000  # that capacities decide: each has a system of its own
MOST_PROGRAMS = 5000  # if multipliers are not unique: 300 took 10 s with 300 full capacities
CANCELS = 1e-8  # of terms: the rates of linear programs are accurate to 1e-10
POSITIVE = 1e-7  # of the prices in a multiplier: larger ones are not zero


class LevelDerivative(NamedTuple):
    """A level, its users, and its derivatives by row of loads, or None if no capacity changes it."""

    level: float
    users: Indices
    right: Float | None
    left: Float | None


def level_derivatives(optimum: Optimum, first: bool = False) -> list[LevelDerivative] | None:
    """Levels of a max-min or leximin from the lowest up; only the ``first``, for which a max-min answer is enough.

    None if the point does not satisfy the optimality conditions.
    """
    return _Rates(optimum, first).run()


class _Rates:
    """Users' rates, in the order of levels.

    ``rises`` (n_users, 2 d) are by full capacity, first with more of it, then with less; with less of ``blocked`` ones
    (2 d,) nothing is feasible. ``rays`` are prices of decided levels by full row, multiples of which higher ones may
    add. ``cannot_run`` and ``at_lower_bound`` (n_users,) are users who can run no tasks, and users kept by a lower
    bound above the resources that fix their level. ``tops`` (d,) are the highest levels on each full row of users above
    lower bounds.
    """

    def __init__(self, optimum: Optimum, first: bool) -> None:
        self.optimum, self.first = optimum, first
        share = optimum.objective.share_blocks()[0]
        # users without tasks are at level 0, whatever a solver left them
        self.rate, self.z = optimum.rates(share), np.where(optimum.runs, optimum.relative_shares(share), 0.0)
        self.others = optimum.binding.charges.shape[0] > 0
        if not optimum.binding.known or (not first and not optimum.binding.straight):
            raise _NoDerivative
        d = len(optimum.full)
        self.rises = np.zeros((len(self.z), 2 * d))
        self.blocked = np.zeros(2 * d, dtype=bool)
        self.programs = 0
        self.rays: list[Float] = []
        self.cannot_run = np.bincount(optimum.user, minlength=len(self.z)) == 0
        self.at_lower_bound = optimum.low & ~optimum.high & ~self.cannot_run
        if not optimum.program.single and (~optimum.runs & ~self.cannot_run).any():
            raise _NoDerivative
        self.needs = self._needs()
        self.tops = self._tops()
        self.key = self._keys()

    def _needs(self) -> Any:
        """Which users need which full row, shape (d, n_users)."""
        optimum, n = self.optimum, len(self.z)
        loads = optimum.loads[optimum.full]
        if optimum.program.single:  # at most one pair per user
            needs = np.zeros((len(loads), n), dtype=bool)
            needs[:, optimum.user] = loads > 0
            return needs
        pairs = np.arange(len(optimum.user))
        return (loads @ sp.csr_array((np.ones(len(pairs)), (pairs, optimum.user)), shape=(len(pairs), n))) > 0

    def _tops(self) -> Float:
        """The highest level on each full row of users above lower bounds; minus infinity without any."""
        optimum = self.optimum
        lowerable = optimum.used & ~optimum.low[optimum.user]
        level = np.where(lowerable, self.z[optimum.user], 0.0)
        if not len(optimum.full):
            return np.zeros(0)
        top = flat(times_columns(optimum.loads[optimum.full] > 0, level).max(axis=1))
        return np.where(top > 0, top, -np.inf)

    def _keys(self) -> Float:
        """Levels of users, equal for all users whom one row fixes."""
        tie = self.optimum.tie
        if self.others:
            levels = np.unique(self.z)
        else:
            levels = np.unique([*self.tops[np.isfinite(self.tops)], *self.z[self.at_lower_bound], self.z.min()])
        last = np.append(np.diff(levels) > tie * levels[1:], True)  # the highest of those within a tie
        levels = levels[last]
        at = np.searchsorted(levels, self.z)
        above, below = levels[np.minimum(at, len(levels) - 1)], levels[np.maximum(at - 1, 0)]
        # a user is at the level of a row, or of a limit of its own if it is twice the tie away
        near = np.where(np.abs(above - self.z) <= np.abs(self.z - below), above, below)
        separate = np.abs(near - self.z) > 2 * tie * near
        if not self.others:
            highest = levels[np.minimum(np.searchsorted(levels, self.tops), len(levels) - 1)]
            self.tops = np.where(np.isfinite(self.tops), highest, self.tops)
        key = np.where(separate, self.z, near)
        own = np.unique(self.z[separate])  # of limits only, equal up to rounding
        if len(own):
            first = own[np.diff(own, prepend=-np.inf) > SUM_ROUNDING * own]
            key[separate] = first[np.searchsorted(first, self.z[separate], side="right") - 1]
        return key

    def run(self) -> list[LevelDerivative] | None:
        """See `level_derivatives`."""
        key = self.key
        if self.first:
            chosen = key.min(keepdims=True)
        elif self.others:
            chosen = np.unique(key)
        else:
            chosen = np.unique([*self.tops[np.isfinite(self.tops)], *key[self.at_lower_bound]])
        if len(chosen) > MOST_LEVELS:
            raise _NoDerivative
        self._find_blocked()
        decided: dict[float, tuple[Float, Float]] = {}
        for level in chosen:
            rates = self._level(float(level))
            if rates is None:
                return None
            decided[float(level)] = rates
        others = ~np.isin(key, list(decided))  # must be at a bound, or unable to run tasks
        if not self.first and not (self.optimum.high | self.optimum.low | self.cannot_run)[others].all():
            return None
        return self._all_levels(decided)

    def _find_blocked(self) -> None:
        """Capacities that lower bounds need entirely: at some prices all users who pay are at their bounds."""
        optimum, d = self.optimum, len(self.optimum.full)
        columns = np.arange(d) if self.others else np.flatnonzero(~np.isfinite(self.tops))
        if not len(columns) or not self.at_lower_bound.any():
            return
        system = OptimalityConditions(optimum, np.zeros(len(optimum.user)))
        conditions, units = system.conditions(optimum.full[columns], np.ones(len(columns)), 1.0)
        optimal = MultiplierSet(conditions)
        for k, column in enumerate(columns):
            goal = np.zeros(len(units))
            goal[k] = -1.0  # the largest price: infinite if lower bounds alone need the capacity
            least = optimal.least(goal)
            self.blocked[d + column] = least is not None and np.isneginf(least[0])

    def _all_levels(self, decided: dict[float, tuple[Float, Float]]) -> list[LevelDerivative]:
        """All levels, with the derivatives of the decided ones."""
        optimum, d = self.optimum, len(self.optimum.full)
        levels = np.sort(list(decided)) if self.first else np.unique(self.key)
        order = np.argsort(self.key, kind="stable")
        starts, ends = (np.searchsorted(self.key[order], levels, side=side) for side in ("left", "right"))
        blocked = self.blocked[d:]
        out = []
        for level, start, end in zip(levels.tolist(), starts, ends, strict=True):
            users = np.sort(order[start:end])
            sides: list[Float | None] = [None, None]
            if level in decided or blocked.any():
                right, left = decided.get(level, (np.zeros(d), np.zeros(d)))
                for k, values in enumerate((right, np.where(blocked, np.inf, left))):
                    side = np.zeros(len(optimum.program.usable_rows))
                    side[optimum.full] = values
                    sides[k] = side
            out.append(LevelDerivative(float(self.z[users].min()), users, *sides))
        return out

    # -- one level -------------------------------------------------------------------------------------------------

    def _level(self, level: float) -> tuple[Float, Float] | None:
        """The derivatives of a level by full row, from the right and from the left; None if conditions fail."""
        optimum, d = self.optimum, len(self.optimum.full)
        here, before = self.key == level, self.key < level
        # users at a lower bound above the level can still move to other servers
        part = here | before | (optimum.low & (not optimum.program.single))
        open_to = np.arange(d) if self.others else np.flatnonzero(self.tops <= level)
        fixed = np.zeros(len(here), dtype=bool)
        for columns, users in self._independent_groups(open_to, part):
            if (here & users).any():
                component = self._component(columns, level, here & users, before & users, users)
                if component is None:
                    return None
                fixed |= component
        remaining = here & ~fixed
        limited = remaining & (optimum.high | self.cannot_run)
        if not (self.first or (limited == remaining).all()) or not (fixed | limited).any():
            return None
        # the level is the smallest share, so that the slowest of its users decides; who is at a limit stands still
        moving = self.rises[fixed | limited]
        lost = np.isneginf(moving).any(axis=0)
        self.blocked |= lost
        self.rises[:, lost] = 0.0  # nothing is feasible there, and infinite rates would spoil later levels
        return moving[:, :d].min(axis=0), -moving[:, d:].min(axis=0)

    def _independent_groups(self, columns: Indices, part: Bool) -> list[tuple[Indices, Bool]]:
        """Capacities in groups that no user connects, and the users of each."""
        if self.others:
            return [(columns, np.ones(len(part), dtype=bool))]
        if not len(columns):
            return []
        needs: Any = times_columns(self.needs[columns], part.astype(float)) > 0
        if len(columns) == 1:
            return [(columns, np.asarray(needs.sum(axis=0)).ravel() > 0)]
        together = needs.astype(float) @ needs.astype(float).T  # resources with a user in common
        groups = _components(together)
        return [(columns[g], np.asarray(needs[g].sum(axis=0)).ravel() > 0) for g in groups]

    def _component(self, columns: Indices, level: float, here: Bool, before: Bool, users: Bool) -> Bool | None:
        """Determine the rates of the users of a level whom a group of capacities fixes, and return these users."""
        optimum, d = self.optimum, len(self.optimum.full)
        rows = optimum.full[columns]
        system = OptimalityConditions(optimum, np.zeros(len(optimum.user)))
        system.own, system.ranked_value = here | before, level
        system.rate = np.where(system.own[optimum.user], self.rate, 1.0)
        system.separate_bounds()
        whole = level or float(self.z.max()) or 1.0  # multipliers are in units of the level per whole capacity
        conditions, units = system.conditions(rows, whole / optimum.program.usable_rows[rows], whole, ~users)
        now = np.flatnonzero(here & (conditions.main[: len(here)] >= 0))
        fixed = np.zeros(len(here), dtype=bool)
        if not len(now):
            return fixed
        # lower users take their rates at the level's own multipliers of them
        earlier = np.flatnonzero(before & self.rises.any(axis=1) & (conditions.main[: len(here)] >= 0))
        goals: Float = np.zeros((len(units), 2 * d))
        k = np.arange(len(columns))
        goals[k, columns], goals[k, d + columns] = units[k], np.where(self.blocked[d + columns], 0.0, -units[k])
        goals = _minus(goals, conditions.rows_of(conditions.main[earlier]), self.rises[earlier])
        # prices of lower levels may be added to those of this one: they change no rate, but leave them undetermined
        rays = [ray[columns] / units for ray in self.rays if len(units) == len(columns) and ray[columns].any()]
        optimal = self._optimal_multipliers(conditions, now, np.array(rays) if rays else None)
        if optimal.unique and not optimal.theta.any():  # no capacity fixes these users
            return fixed
        fixed[now] = True
        if optimal.unique:
            if not optimal.consistent:
                return None if not self.first else np.zeros(len(here), dtype=bool)
            self.rises[now] = optimal.theta @ goals
            ray = np.zeros(d)
            ray[columns] = (optimal.theta * units)[: len(columns)]
            if len(units) == len(columns):
                self.rays.append(ray)
            return fixed
        if not self._pays(conditions, optimal, now):
            return fixed
        for column in np.flatnonzero(goals.any(axis=0)):
            rates = self._split_level(conditions, optimal, now, goals[:, column])
            if rates is None:
                return None if not self.first else np.zeros(len(here), dtype=bool)
            self.rises[now, column] = rates
        return fixed

    def _optimal_multipliers(self, conditions: Conditions, users: Indices, rays: Float | None = None) -> MultiplierSet:
        return MultiplierSet(conditions, [Ties(users, np.append(1.0, np.zeros(len(users) - 1)))], rays=rays)

    def _pays(self, conditions: Conditions, optimal: MultiplierSet, users: Indices) -> bool:
        """Whether any of these users pays at some prices; otherwise only their limits fix them."""
        if not conditions.high[users].all():
            return True
        own = conditions.rows_of(conditions.main[users]).sum(axis=1)
        optimum = optimal.least(-own)
        return optimum is None or optimum[0] < -POSITIVE * float(np.abs(own).max(initial=0.0))

    def _split_level(self, conditions: Conditions, optimal: MultiplierSet, users: Indices, goal: Float) -> Float | None:
        """Rates of the users of a level; those fixed first have the smallest."""
        rates: Any = np.zeros(len(users))
        low, high = conditions.low[users], conditions.high[users]
        open_to = ~(low & high)
        while open_to.any():
            if not open_to.all():
                optimal = self._optimal_multipliers(conditions, users[open_to])
            before = optimal.programs
            optimum = optimal.least(goal)
            self.programs += optimal.programs - before
            if self.programs > MOST_PROGRAMS:
                raise _NoDerivative
            if optimum is None:
                return None
            rise, theta = optimum
            if self.first or np.isneginf(rise):
                rates[open_to] = rise
                return rates
            main = conditions.main[users]
            own = conditions.own_multipliers(theta)[main]
            fixed = open_to & (own > POSITIVE * conditions.size[main])
            if own[open_to & ~low].sum() < 1 - 1e-6:  # multipliers sum to 1: limits have the other weight
                fixed |= open_to & high
            if not fixed.any():
                return None
            # at a lower bound no user falls, at a limit none rises
            rates[fixed] = np.where(low, max(rise, 0.0), np.where(high, min(rise, 0.0), rise))[fixed]
            goal = _minus(goal, conditions.rows_of(main[fixed]), rates[fixed])
            open_to &= ~fixed
        return rates


def _components(together: Any) -> list[Indices]:
    """Rows that a symmetric matrix connects, directly or through others."""
    label: Any
    before: Any = None
    if is_sparse(together):
        label = csgraph.connected_components(together, directed=False)[1]
    else:
        label = np.arange(len(together))
        while before is None or (label != before).any():
            before, label = label, np.where(together > 0, label, label[:, None]).min(axis=1)
    return [np.flatnonzero(label == first) for first in np.unique(label)]


def _minus(goals: Float, rows: Float, rises: Float) -> Float:
    """The value of prices less the users' payments for their own rates, with zeros where terms cancel."""
    out = goals - rows @ rises
    terms = np.abs(goals) + np.abs(rows) @ np.abs(rises)
    return np.where(np.abs(out) > CANCELS * terms, out, 0.0)
