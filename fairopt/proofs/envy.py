"""Leximin and max-min on one pool where no user may envy another: the bottleneck condition with users who are pulled.

With ``u_j`` tasks per weight and ``v_jk = min_i d_ki / d_ji``, no user envies another if ``u_j >= v_jk u_k`` for all.
User j is *pulled* by k where this is an equality (each user is pulled by itself): j cannot fall unless k does, and k
cannot rise unless j does. So a point is max-min fair if every user k pulls a user j (which may be k) who is at its
limit, or needs a full resource each user of which is pulled by one at its lower bound or at a level of at most that of
k (Proposition 4.14).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairopt.blocks.constraints import BLOCK, MANY, tasks_of_each
from fairopt.blocks.shares import Share
from fairopt.formulation.program import Float, Indices, Mask, Program

TIGHT = 1e-13  # relatively: a row that holds with no more to spare pulls
AT_BOUND = 1e-9  # relatively: users as near as this are at a bound
NEAR = 1e-6  # of a capacity: resources with more left are not full
ROUNDING = 1e-12  # of a capacity: the rounding of sums, and what is freed by rows that are not quite equalities


class Pulls:
    """The numbers ``v_jk`` of one pool, in blocks of users j; held in memory if these are not many."""

    def __init__(self, demands: Float) -> None:
        self.demands, self.n = demands, len(demands)
        self.step = max(1, BLOCK // max(self.n, 1))
        self.held: list[Float] | None = None
        if self.n <= MANY:
            self.held = [self._block(first) for first in range(0, self.n, self.step)]

    def _block(self, first: int) -> Float:
        return tasks_of_each(self.demands[first : first + self.step], self.demands)

    def blocks(self) -> Iterator[tuple[slice, Float]]:
        """Users j, and the numbers of (j, k)."""
        for b, first in enumerate(range(0, self.n, self.step)):
            yield slice(first, min(first + self.step, self.n)), self.held[b] if self.held else self._block(first)

    def up(self, at: Float) -> Float:
        """``max_k v_jk at_k``: the least of each user where every k has ``at_k``."""
        return np.concatenate([(block * at).max(axis=1) for _, block in self.blocks()])

    def room(self, at: Float) -> Float:
        """``min_j at_j / v_jk``: the most of each user k where no j has more than ``at_j``."""
        out = np.full(self.n, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            for part, block in self.blocks():
                np.fmin(out, np.fmin.reduce(at[part, None] / block, axis=0), out=out)
        return out


@dataclass(frozen=True)
class Pulling:
    """A program on one pool without envy, with the numbers by which users pull each other."""

    program: Program

    @cached_property
    def pulls(self) -> Pulls:
        """The numbers of the rows."""
        return Pulls(self.program.instance.per_server_demands[:, 0])

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
                tasks <= program.low * (1 + AT_BOUND),
                tasks >= program.high * (1 - AT_BOUND),
            )


@dataclass(frozen=True)
class Point:
    """Of each user: tasks per weight, the level, and whether it is at a bound."""

    tasks: Float
    level: Float
    at_low: Mask
    at_high: Mask


def pulled_gap(pulling: Pulling, tasks: Float) -> float:
    """How far tasks are from the condition, relatively."""
    program, at = pulling.program, pulling.at(tasks)
    if not (np.isfinite(at.level) & (at.level > 0)).all():
        return np.inf
    loads, usable = program.pairs.loads, program.usable
    _, stops, tops = _roots_and_stops(pulling, at, tasks)
    allowed = np.where(at.at_high, 0.0, tops.min(axis=0))[stops]
    gap = float(np.max(np.maximum(allowed / at.level - 1.0, 0.0), initial=0.0))
    left, free = np.maximum(usable - loads @ tasks, 0.0), ~at.at_high[stops]
    by = tops.argmin(axis=0)[stops]  # the resource that stops each user below its limit
    for i in np.unique(by[free]):
        if left[i] > ROUNDING * usable[i]:
            stopped = np.unique(stops[free & (by == i)])
            gap = max(gap, float(left[i] / (loads[i, stopped] @ tasks[stopped])))
    return gap if gap == gap else np.inf


def pulling_rows(pulling: Pulling, tasks: Float) -> list[int]:
    """The rows, by number, by which `pulled_gap` proves that tasks are fair."""
    n, (roots, stops, _) = len(tasks), _roots_and_stops(pulling, pulling.at(tasks), tasks)
    all_rows = np.concatenate([np.arange(n) * n + roots, stops * n + np.arange(n)])
    return [int(row) for row in np.unique(all_rows) if row // n != row % n]


def _roots_and_stops(pulling: Pulling, at: Point, tasks: Float) -> tuple[Indices, Indices, Float]:
    """By whom users are pulled, whom they pull, and the level to which each resource that is nearly full may lower its
    users, infinite for who does not need it: shape (n_resources, n_users).
    """
    program, pulls = pulling.program, pulling.pulls
    loads, usable = program.pairs.loads, program.usable
    roots = roots_of(pulls, at)
    base = np.where(at.at_low, 0.0, at.level)[roots]
    near = usable - loads @ tasks <= NEAR * usable
    top = np.where(loads > 0, base, 0.0).max(axis=1)
    tops = np.where((loads > 0) & near[:, None], top[:, None], np.inf)
    return roots, stops_of(pulls, at, np.where(at.at_high, 0.0, tops.min(axis=0))), tops


def roots_of(pulls: Pulls, at: Point) -> Indices:
    """Of the users who pull each user, one at its lower bound, or the one at the lowest level."""
    base, out = np.where(at.at_low, 0.0, at.level), np.arange(pulls.n)
    for part, block in pulls.blocks():
        tight = block * at.tasks >= at.tasks[part, None] * (1 - TIGHT)
        found = np.where(tight, base, np.inf).argmin(axis=1)
        out[part] = np.where(base[found] < base[part], found, out[part])
    return out


def stops_of(pulls: Pulls, at: Point, stopped: Float) -> Indices:
    """Of the users whom each user pulls, the one with the least ``stopped``."""
    best, out = stopped.copy(), np.arange(pulls.n)
    for part, block in pulls.blocks():
        tight = (block * at.tasks >= at.tasks[part, None] * (1 - TIGHT)) & (block > 0)
        found = np.where(tight, stopped[part, None], np.inf)
        row = found.argmin(axis=0)
        least = found[row, np.arange(pulls.n)]
        out, best = np.where(least < best, row + part.start, out), np.minimum(best, least)
    return out
