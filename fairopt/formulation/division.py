"""MLF-DRS, FFMRA and H-FFMRA in closed form: each resource of each server shared in proportion, group by group.

``maximise sum base log a`` falls apart into one problem per server, resource and group: a part P to share. Its best
is ``a = t base`` with ``t = P / sum base``, or ``a = min(request, t base)`` where requests are a limit, and ``1 / t``
is the price of a unit. The proof needs prices only, so it judges bundles from any solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.bundle_model import tasks_in_bundles
from fairopt.blocks.bundles import AtMostRequested, GlobalAggregateResource, Parts, WeightedLog
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.objectives import Objective
from fairopt.dominance import server_blocks, sums_by_group
from fairopt.errors import OutOfDomain
from fairopt.instance import Instance

__all__ = ["DividedBundles", "Division", "division"]

Float = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]
HUGE = 1e300  # a level at which everybody gets its request
LOG_2 = float(np.log(2.0))


@dataclass
class DividedBundles:
    """Bundles of one server of each row, the tasks in them, and what the proof says.

    Attributes
    ----------
    bundles : ndarray of shape (n_users, n_servers, n_resources)
    tasks : ndarray of shape (n_users, n_servers)
        On one server of each row; task limits play no part.
    prices : ndarray of shape (n_servers, n_resources)
        Derivative of the objective by each capacity.
    excess : float
        A proven bound on how much more the objective can be.
    gap : float
        The largest such bound of any group of any resource of any server, as a part of what halving its bundles would
        cost: of each by itself, so that resources in small numbers count as much as others.
    value : float
        The objective.
    violation, part_violation : float
        Largest excess over a capacity, and over a part or a request, as fractions of the capacity.
    """

    bundles: Float
    tasks: Float
    prices: Float
    excess: float = 0.0
    gap: float = 0.0
    value: float = 0.0
    violation: float = 0.0
    part_violation: float = 0.0


@dataclass(frozen=True)
class Division:
    """A policy that shares out every resource of every server by itself.

    Attributes
    ----------
    instance : Instance
        Users who take part, and servers.
    objective : WeightedLog
        With the base.
    parts : Parts or None
        What dominant and other users may hold; None where there are no groups.
    capped : ndarray of bool of shape (n_servers, n_resources)
        Where nobody gets more than one task's request.
    """

    instance: Instance
    objective: WeightedLog
    parts: Parts | None
    capped: Mask

    def answer(self, given: Float | None = None) -> DividedBundles:
        """The optimal bundles, or others judged by the optimal prices: those on one server of each row.

        They are judged as they are but for being brought within parts and requests. `OutOfDomain` if a user with a base
        may hold nothing: the objective is minus infinity throughout.
        """
        instance = self.instance
        n, servers, m = instance.n_users, instance.n_servers, instance.n_resources
        bundles = np.empty((n, servers, m)) if given is None else given
        out = DividedBundles(bundles, np.empty((n, servers)), np.empty((servers, m)))
        by_server = getattr(self.objective.base, "by_server", False)
        bases = None if by_server else self.objective.bases(instance)
        for rows in server_blocks(n, servers, m):
            window = instance.server_window(rows)
            base = self.objective.bases(window) if bases is None else bases[:, rows]
            _DividedServers(self, window, rows, base).measure(out, given is None)
        return out

    def parts_of_one(self) -> Float:
        """Positive bases, in order of users, servers and resources, divided by the sum over their group.

        With them as weights the optimum is the same, and solvers see every group of every resource alike.
        """
        base = self.objective.bases(self.instance)
        first = self.instance.dominance.first if self.parts is not None else np.ones(base.shape)
        mine, others = sums_by_group(base, first)
        total = first * mine + (1.0 - first) * others
        return np.asarray((base / np.where(total > 0, total, 1.0))[base > 0])


def division(instance: Instance, objective: Objective, constraints: Sequence[Constraint]) -> Division | None:
    """What a policy shares out, if `WeightedLog`, `GlobalAggregateResource` and `AtMostRequested` are all of it."""
    terms = list(dict.fromkeys(t for factor, t in objective.terms() if factor > 0))
    aggregates = list(dict.fromkeys(c for c in constraints if isinstance(c, GlobalAggregateResource)))
    requested = [c for c in constraints if isinstance(c, AtMostRequested)]
    known = {type(c) for c in constraints} <= {GlobalAggregateResource, AtMostRequested}
    if len(terms) != 1 or type(terms[0]) is not WeightedLog or not known or len(aggregates) > 1:
        return None
    parts = aggregates[0].parts(instance) if aggregates else None
    capped = requested[0].short(instance) if requested else np.zeros(instance.capacities.shape, dtype=bool)
    return Division(instance, terms[0], parts, capped)


class _DividedServers:
    """Some servers of a division: levels, bundles and the proof, while their numbers are at hand."""

    def __init__(self, whole: Division, window: Instance, rows: slice, base: Float) -> None:
        self.window, self.rows, self.base = window, rows, base
        self.capacity = window.capacities
        self.parts: tuple[Float, ...] = (self.capacity,)
        self.slopes: tuple[Float, ...] = (np.ones(self.capacity.shape),)
        self.first: Float | None = None  # 1 for who is in the first group, 0 for the others
        if whole.parts is not None:
            self.first, self.second = window.dominance.first, window.dominance.second
            self.parts = whole.parts.dominant[rows], whole.parts.others[rows]
            self.slopes = whole.parts.dominant_slope[rows], whole.parts.others_slope[rows]
        self.bases = self.sums(base)
        self.levels = [np.divide(p, w, out=np.zeros(p.shape), where=w > 0)
                       for p, w in zip(self.parts, self.bases, strict=True)]  # fmt: skip
        self.best = self.by_user(self.levels) * base
        self.capped: Mask | None = whole.capped[rows] if whole.capped[rows].any() else None
        if self.capped is not None:
            self.rise_within(self.capped)

    def sums(self, values: Float) -> tuple[Float, ...]:
        """Totals over users, by group."""
        return (values.sum(axis=0),) if self.first is None else sums_by_group(values, self.first, self.second)

    def by_user(self, by_group: Sequence[Float]) -> Float:
        """Values by server and resource, each user's by its group."""
        if self.first is None:
            return by_group[0]
        out = self.first * by_group[0]
        out += self.second * by_group[1]
        return out

    def rise_within(self, capped: Mask) -> None:
        """Levels at which ``min(request, t base)`` adds up to each part; the largest number where all is granted.

        Newton's method on a concave, piecewise linear function of t: from below, and exact once the set of users at
        their requests stays.
        """
        demands, known = self.window.per_server_demands, 0
        over = (self.best > demands) & capped
        while (count := int(np.count_nonzero(over))) > known:
            known, full = count, over.astype(float)
            at_request, rising = full * demands, (1.0 - full) * self.base
            for level, part, granted, left in zip(
                self.levels, self.parts, self.sums(at_request), self.sums(rising), strict=True
            ):
                level[(left <= 0) & (granted > 0)] = HUGE
                np.divide(part - granted, left, out=level, where=left > 0)
            self.best = self.by_user(self.levels) * rising
            over |= (self.best > demands) & capped
            self.best += at_request

    def within(self, held: Float) -> Float:
        """Bundles brought within requests and parts, which a solver exceeds by its tolerance."""
        if self.capped is not None:
            held = np.where(self.capped, np.minimum(held, self.window.per_server_demands), held)
        down = [np.divide(p, total, out=np.ones(p.shape), where=total > p)
                for total, p in zip(self.sums(held), self.parts, strict=True)]  # fmt: skip
        return np.asarray(held * self.by_user(down))

    def measure(self, out: DividedBundles, optimal: bool) -> None:
        """Write this block's part of the answer, and add up what it says."""
        rows = self.rows
        nothing = self.best.min(initial=1.0) <= 0
        if nothing:
            self.refuse_nothing()
        held = self.best if optimal else self.within(out.bundles[:, rows])
        out.bundles[:, rows] = held
        out.tasks[:, rows] = tasks_in_bundles(self.window, held)
        worth = [_worth(t) for t in self.levels]
        out.prices[rows] = _added([slope * w for slope, w in zip(self.slopes, worth, strict=True)])
        totals = self.sums(held)
        excess = [(p - total) * w for p, total, w in zip(self.parts, totals, worth, strict=True)]
        if not optimal:
            excess = [e + away for e, away in zip(excess, self.sums(self.distance(held, worth)), strict=True)]
        with np.errstate(divide="ignore"):
            logs = np.log(np.where(self.base > 0, held, 1.0) if nothing else held)
        counts = self.window.counts.astype(float)
        out.excess += float(counts @ _added(excess).sum(axis=1))
        gaps = [np.divide(e, w, out=np.zeros(e.shape), where=w > 0) for e, w in zip(excess, self.bases, strict=True)]
        out.gap = max(out.gap, *(float(np.max(np.where(np.isnan(g), np.inf, g), initial=0.0)) / LOG_2 for g in gaps))
        out.value += float(counts @ np.einsum("jsi,jsi->si", self.base, logs).sum(axis=1))
        room = np.where(self.capacity > 0, self.capacity, 1.0)
        over = np.max((_added(totals) - self.capacity) / room, initial=0.0)
        beyond = [np.max((total - p) / room, initial=0.0) for total, p in zip(totals, self.parts, strict=True)]
        out.violation = max(out.violation, float(over))
        out.part_violation = max(out.part_violation, *map(float, beyond))

    def distance(self, held: Float, worth: Sequence[Float]) -> Float:
        """By how much bundles miss the best response to the prices, bounded through ``log z <= z - 1``.

        At any price no bundles within a part P are worth more than ``sum base log a* - price (sum a* - P)`` with the
        best response a*. Near it the bound costs nothing, and it needs no logarithm.
        """
        off = self.best - held
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = self.base / np.maximum(held, 1e-300) - self.by_user(worth)
            return np.where(off == 0, 0.0, off * slope)

    def refuse_nothing(self) -> None:
        """`OutOfDomain` where a base is positive and nothing may be held."""
        nothing = np.argwhere((self.best <= 0) & (self.base > 0))
        if len(nothing):
            j, s, i = nothing[0]
            raise OutOfDomain(
                f"user {self.window.users[j]!r} has a base for {self.window.resources[i]!r} on server "
                f"{self.window.servers[s]!r}, but the constraints leave it none of it; give it the base 0"
            )


def _worth(level: Float) -> Float:
    """The price of a unit at a level; nothing where nobody has a use for it."""
    return np.divide(1.0, level, out=np.zeros(level.shape), where=level > 0)


def _added(values: Sequence[Float]) -> Float:
    """The sum over groups."""
    return values[0] if len(values) == 1 else values[0] + values[1]
