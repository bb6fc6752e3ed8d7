"""Leximin and max-min on one pool under envy-freeness: the gap from the bottleneck condition (Proposition 4.14).

With ``u_j`` tasks per weight and ``v_jk = min_i d_ki / d_ji``, no user envies another if ``u_j >= v_jk u_k`` for all
j, k. User j is *bound by envy* of k if this is an equality; each user is bound by itself. Then j falls only if k does,
and k rises only if j does. The gap is

    max_k  allowed_k / z_k - 1,   allowed_k the least level that stops a user bound by envy of k,

where a full resource stops its users at the highest of their levels, each counted as that of the lowest user by whose
envy it is bound, below which it cannot be brought. Slack of the resource counts as in Bound 4.3. No multipliers are
needed: of n(n - 1) rows one matters for each user.

Floats: tasks that the method makes equal differ by roundings, so that rows with less slack than `TIGHT` count as
binding. A row that is missed enlarges the gap. Memory: the n^2 ratios are kept for few users, else computed in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fairopt.blocks.constraints import BLOCK, MANY, RunsOnBundles
from fairopt.blocks.shares import Share
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.tolerances import NOISE, ROUNDING
from fairopt.solve.form.program import Program

TIGHT = 1e-13  # relative: rows with less slack are binding; several roundings of 1e-16 are expected
MOST_KEPT = 4_000_000  # pairs of users that are kept, 64 MB; equal users are bound by all others
NEAR = 1e-6  # of a capacity: resources with more slack are not full; of the others slack counts in the gap


class EnvyRatios:
    """The ratios ``v_jk`` of one pool, in blocks of users j, kept in memory if there are few."""

    def __init__(self, demands: Float) -> None:
        self.demands, self.n = demands, len(demands)
        self.step = max(1, BLOCK // max(self.n, 1))
        self.runs = RunsOnBundles(demands, self.step)
        self.kept: list[Float] | None = None
        if self.n <= MANY:
            self.kept = [self._block(first).copy() for first in range(0, self.n, self.step)]

    def _block(self, first: int) -> Float:
        return self.runs.of(self.demands[first : first + self.step])

    def blocks(self) -> Iterator[tuple[slice, Float]]:
        """Users j, and the ratios of (j, k)."""
        for b, first in enumerate(range(0, self.n, self.step)):
            yield slice(first, min(first + self.step, self.n)), self.kept[b] if self.kept else self._block(first)

    def least_above(self, at: Float) -> Float:
        """``max_k v_jk at_k``: the least point without envy in which every k has at least ``at_k``."""
        return np.concatenate([(block * at).max(axis=1) for _, block in self.blocks()])

    def most_below(self, at: Float) -> Float:
        """``min_j at_j / v_jk``: the largest point without envy in which no j has more than ``at_j``."""
        out = np.full(self.n, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):  # a ratio of 0 is no bound; 0 / 0 is left out by fmin
            for part, block in self.blocks():
                bounds = np.isfinite(at[part])
                if bounds.any():
                    np.fmin(out, np.fmin.reduce(at[part][bounds, None] / block[bounds], axis=0), out=out)
        return out


Binding = tuple[Indices, Indices, Float]  # see `_binding_users`


@dataclass(frozen=True)
class EnvyProgram:
    """A program on one pool under envy-freeness; it keeps who is bound at the last point that was asked for.

    A gap and the rows that prove it ask for the same, and looks at all pairs are most of what either takes.
    """

    program: Program
    _last: tuple[Float, Binding] | None = field(default=None, init=False, repr=False, compare=False)

    @cached_property
    def ratios(self) -> EnvyRatios:
        """The coefficients of the rows."""
        return EnvyRatios(self.program.instance.per_server_demands[:, 0])

    def share(self) -> Share:
        """The share that is levelled."""
        (share,) = self.program.objective.share_blocks()
        return share

    def at(self, tasks: Float) -> Point:
        """Levels and bounds at tasks."""
        program = self.program
        with np.errstate(invalid="ignore"):
            return Point(
                tasks / program.instance.weights,
                tasks * self.share().coefficients(program.instance, True) / program.instance.weights,
                tasks <= program.low * (1 + NOISE),
                tasks >= program.high * (1 - NOISE),
            )


@dataclass(frozen=True)
class Point:
    """Tasks per weight, level and active bounds of each user."""

    tasks: Float
    level: Float
    at_low: Bool
    at_high: Bool


def envy_gap(envy: EnvyProgram, tasks: Float) -> float:
    """The relative distance of tasks from the condition."""
    program, at = envy.program, envy.at(tasks)
    if not (np.isfinite(at.level) & (at.level > 0)).all():  # a level of 0 compares with nothing
        return np.inf
    loads, usable = program.pairs.loads, program.usable
    _, stops, tops = _binding_users(envy, at, tasks)
    # who is at its limit stops those of whose envy it is bound, whatever their level
    allowed = np.where(at.at_high, 0.0, tops.min(axis=0))[stops]
    gap = float(np.max(np.maximum(allowed / at.level - 1.0, 0.0), initial=0.0))
    left, free = np.maximum(usable - loads @ tasks, 0.0), ~at.at_high[stops]
    by = tops.argmin(axis=0)[stops]  # the resource that stops each user below its limit
    for i in np.unique(by[free]):
        if left[i] > ROUNDING * usable[i]:
            stopped = np.unique(stops[free & (by == i)])
            gap = max(gap, float(left[i] / (loads[i, stopped] @ tasks[stopped])))
    return gap if gap == gap else np.inf


def binding_envy_rows(envy: EnvyProgram, tasks: Float) -> list[int]:
    """The indices of the rows by which `envy_gap` proves that tasks are fair."""
    n, (roots, stops, _) = len(tasks), _binding_users(envy, envy.at(tasks), tasks)
    all_rows = np.concatenate([np.arange(n) * n + roots, stops * n + np.arange(n)])
    return [int(row) for row in np.unique(all_rows) if row // n != row % n]


def _binding_users(envy: EnvyProgram, at: Point, tasks: Float) -> Binding:
    """For each user, one of whose envy it is bound, one bound by its envy, and the highest level on each nearly full
    resource.

    The levels, shape (n_resources, n_users), are those to which the resource's users can fall; infinite for users who
    do not need it.
    """
    if envy._last is not None and np.array_equal(envy._last[0], tasks):
        return envy._last[1]
    program, pairs = envy.program, BoundPairs(envy.ratios, at)
    loads, usable = program.pairs.loads, program.usable
    # j falls only if k does of whose envy j is bound: it counts as low as the lowest of these, or as 0 at a lower bound
    roots = lowest_binding(pairs)
    base = np.where(at.at_low, 0.0, at.level)[roots]
    near = usable - loads @ tasks <= NEAR * usable  # whether it is full counts in the gap, by its slack
    top = np.where(loads > 0, base, 0.0).max(axis=1)
    tops = np.where((loads > 0) & near[:, None], top[:, None], np.inf)
    found = roots, first_stopped(pairs, np.where(at.at_high, 0.0, tops.min(axis=0))), tops
    object.__setattr__(envy, "_last", (tasks, found))
    return found


def lowest_binding(pairs: BoundPairs) -> Indices:
    """Among the users of whose envy each user is bound, one at its lower bound, or the one at the lowest level."""
    base, out = np.where(pairs.at.at_low, 0.0, pairs.at.level), np.arange(pairs.ratios.n)
    for user, other in pairs:
        order = np.lexsort((other, base[other], user))
        user, other = user[order], other[order]
        lower = np.append(True, user[1:] != user[:-1]) & (base[other] < base[user])
        out[user[lower]] = other[lower]
    return out


def first_stopped(pairs: BoundPairs, stopped: Float) -> Indices:
    """Among the users bound by envy of each user, the one with the smallest ``stopped``."""
    best, out = stopped.copy(), np.arange(pairs.ratios.n)
    for user, other in pairs:
        order = np.lexsort((user, stopped[user], other))
        user, other = user[order], other[order]
        less = np.append(True, other[1:] != other[:-1]) & (stopped[user] < best[other])
        out[other[less]], best[other[less]] = user[less], stopped[user[less]]
    return out


class BoundPairs:
    """Users j bound by envy of k, and these, block by block of users j; kept after the first time if they are few."""

    def __init__(self, ratios: EnvyRatios, at: Point) -> None:
        self.ratios, self.at, self.kept = ratios, at, list[tuple[Indices, Indices]]()

    def __iter__(self) -> Iterator[tuple[Indices, Indices]]:
        if self.kept:
            yield from self.kept
            return
        found, left = list[tuple[Indices, Indices]](), MOST_KEPT
        for part, block in self.ratios.blocks():
            least = self.at.tasks[part] * (1 - TIGHT)
            user, other = np.divmod(np.flatnonzero(block * self.at.tasks >= least[:, None]), self.ratios.n)
            some = block[user, other] > 0
            pairs = user[some] + part.start, other[some]
            left -= len(pairs[0])
            if left >= 0:
                found.append(pairs)
            yield pairs
        if left >= 0:
            self.kept = found
