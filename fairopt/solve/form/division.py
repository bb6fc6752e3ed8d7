"""MLF-DRS, FFMRA and H-FFMRA (Hamzeh et al. 2019, MLF-DRS and FFMRA; 2021) in closed form.

``maximise sum_jsi base_jsi log a_jsi`` separates into one problem per server, resource and group of users that shares a
part P of the capacity: ``sum_j a_j <= P``. The optimum is ``a_j = t base_j`` with ``t = P / sum_j base_j``, or ``a_j =
min(request_j, t base_j)`` where requests are limits; the price of a unit is ``1 / t``. As a cone program it has an
exponential cone for each user, server and resource.

By weak duality bundles are worth at most ``sum_j base_j log a*_j - (sum_j a*_j - P) / t``, with a* the best responses
to the price, whatever the bundles (docs/methods/bundles.md): the bound depends on the prices only, so it applies to
bundles of any solver. The gap is relative to what halving a group's bundles loses, ``log 2 sum_j base_j``, as the value
itself may have any sign. Terms of the excess are computed as products of small differences, since values cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairopt.blocks.bundle_model import tasks_in_bundles
from fairopt.blocks.bundles import AtMostRequested, GlobalAggregateResource, Parts, WeightedLog
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.objectives import Objective
from fairopt.errors import OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.dominance import server_blocks, sums_by_group
from fairopt.instance.parts import server_window
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.tolerances import TINY

HUGE = 1e300  # the level t if all requests are granted
LOG_2 = float(np.log(2.0))


@dataclass
class DividedBundles:
    """Bundles (n_users, n_servers, n_resources) and the tasks in them, on one server of each row, with their bounds.

    ``value`` is the objective, ``prices`` (n_servers, n_resources) are its derivatives by the capacities, and ``value +
    excess`` bounds the value of all bundles. ``gap`` is the largest excess of a group of a resource of a server,
    relative to the loss from halving the bundles of that group. ``violation`` is the largest excess over a capacity,
    ``part_violation`` over a part or a request, as fractions of the capacity.
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
    """A policy that divides every resource of every server separately among the active users of an instance.

    ``parts`` are what dominant and other users may hold; None without groups. ``capped`` (n_servers, n_resources) marks
    where users get at most the request of one task.
    """

    instance: Instance
    objective: WeightedLog
    parts: Parts | None
    capped: Bool

    def answer(self, given: Float | None = None) -> DividedBundles:
        """The optimal bundles, or given ones scaled to parts and requests, with their gap at the optimal prices.

        `OutOfDomain` if a user with a positive base can hold nothing, so that the objective is minus infinity.
        """
        instance = self.instance
        n, servers, m = instance.n_users, instance.n_servers, instance.n_resources
        bundles = np.empty((n, servers, m)) if given is None else given
        out = DividedBundles(bundles, np.empty((n, servers)), np.empty((servers, m)))
        by_server = getattr(self.objective.base, "by_server", False)
        bases = None if by_server else self.objective.bases(instance)
        for rows in server_blocks(n, servers, m):  # a few servers at a time, so that beside bundles memory stays small
            window = server_window(instance, rows)
            base = self.objective.bases(window) if bases is None else bases[:, rows]
            _DividedServers(self, window, rows, base).measure(out, given is None)
        return out

    def parts_of_one(self) -> Float:
        """Positive bases, ordered by user, server and resource, divided by the sum over their group.

        As weights they have the same optimum, and solvers treat all groups alike.
        """
        base = self.objective.bases(self.instance)
        first = self.instance.dominance.first if self.parts is not None else np.ones(base.shape)
        mine, others = sums_by_group(base, first)
        total = first * mine + (1.0 - first) * others
        return np.asarray((base / np.where(total > 0, total, 1.0))[base > 0])


def division(instance: Instance, objective: Objective, constraints: Sequence[Constraint]) -> Division | None:
    """A policy as a `Division` if it has only `WeightedLog`, `GlobalAggregateResource` and `AtMostRequested`."""
    terms = list(dict.fromkeys(t for factor, t in objective.summands() if factor > 0))
    aggregates = list(dict.fromkeys(c for c in constraints if isinstance(c, GlobalAggregateResource)))
    requested = [c for c in constraints if isinstance(c, AtMostRequested)]
    known = {type(c) for c in constraints} <= {GlobalAggregateResource, AtMostRequested}
    if len(terms) != 1 or type(terms[0]) is not WeightedLog or not known or len(aggregates) > 1:
        return None
    parts = aggregates[0].parts(instance) if aggregates else None
    capped = requested[0].short(instance) if requested else np.zeros(instance.capacities.shape, dtype=bool)
    return Division(instance, terms[0], parts, capped)


class _DividedServers:
    """Levels t, optimal bundles and bounds on some servers of a division."""

    def __init__(self, whole: Division, window: Instance, rows: slice, base: Float) -> None:
        self.window, self.rows, self.base = window, rows, base
        self.capacity = window.capacities
        self.parts: tuple[Float, ...] = (self.capacity,)
        self.slopes: tuple[Float, ...] = (np.ones(self.capacity.shape),)
        self.first: Float | None = None  # 1 for users of the first group, 0 for the others
        if whole.parts is not None:
            self.first, self.second = window.dominance.first, window.dominance.second
            self.parts = whole.parts.dominant[rows], whole.parts.others[rows]
            self.slopes = whole.parts.dominant_slope[rows], whole.parts.others_slope[rows]
        self.bases = self.sums(base)
        pairs = zip(self.parts, self.bases, strict=True)
        self.levels = [np.divide(p, w, out=np.zeros(p.shape), where=w > 0) for p, w in pairs]
        self.best = self.by_user(self.levels) * base
        self.capped: Bool | None = whole.capped[rows] if whole.capped[rows].any() else None
        if self.capped is not None:
            self.limit_to_requests(self.capped)

    def sums(self, values: Float) -> tuple[Float, ...]:
        """Sums over users, by group."""
        return (values.sum(axis=0),) if self.first is None else sums_by_group(values, self.first, self.second)

    def by_user(self, by_group: Sequence[Float]) -> Float:
        """Values by group, (n_servers, n_resources) each, as values by user."""
        if self.first is None:
            return by_group[0]
        out = self.first * by_group[0]
        out += self.second * by_group[1]
        return out

    def limit_to_requests(self, capped: Bool) -> None:
        """Levels t with ``sum_j min(request_j, t base_j) = P``; `HUGE` if all requests are granted.

        Newton's method from below on a concave, piecewise linear function: exact once the set of users at their
        requests is constant.
        """
        # who is at its request stays there, as levels only rise: the set grows in at most n rounds
        demands, known = self.window.per_server_demands, 0
        over = (self.best > demands) & capped
        while (count := int(np.count_nonzero(over))) > known:
            known, full = count, over.astype(float)
            at_request, rising = full * demands, (1.0 - full) * self.base
            for level, part, granted, left in zip(
                self.levels, self.parts, self.sums(at_request), self.sums(rising), strict=True
            ):
                level[(left <= 0) & (granted > 0)] = HUGE  # nobody rises any more: the part has no price
                np.divide(part - granted, left, out=level, where=left > 0)
            self.best = self.by_user(self.levels) * rising
            over |= (self.best > demands) & capped
            self.best += at_request

    def within(self, held: Float) -> Float:
        """Bundles reduced to requests and parts, which a solver exceeds by its tolerance."""
        if self.capped is not None:
            held = np.where(self.capped, np.minimum(held, self.window.per_server_demands), held)
        pairs = zip(self.sums(held), self.parts, strict=True)
        down = [np.divide(p, total, out=np.ones(p.shape), where=total > p) for total, p in pairs]
        return np.asarray(held * self.by_user(down))

    def measure(self, out: DividedBundles, optimal: bool) -> None:
        """Write these servers' part of the answer; accumulate value, gap and violations."""
        rows = self.rows
        nothing = self.best.min(initial=1.0) <= 0  # by far the most often not, and then nothing else is looked for
        if nothing and len(starved := np.argwhere((self.best <= 0) & (self.base > 0))):
            j, s, i = starved[0]
            raise OutOfDomain(
                f"user {self.window.users[j]!r} has a base for {self.window.resources[i]!r} on server "
                f"{self.window.servers[s]!r}, but the constraints leave none of it; give the base 0"
            )
        held = self.best if optimal else self.within(out.bundles[:, rows])
        out.bundles[:, rows] = held
        out.tasks[:, rows] = tasks_in_bundles(self.window, held)
        # a price by group; of a unit of capacity, what the parts get of it times their prices
        prices = [np.divide(1.0, t, out=np.zeros(t.shape), where=t > 0) for t in self.levels]
        out.prices[rows] = sum(slope * price for slope, price in zip(self.slopes, prices, strict=True))
        totals = self.sums(held)
        excess = [(p - total) * price for p, total, price in zip(self.parts, totals, prices, strict=True)]
        if not optimal:  # bundles as given lose against the best response, whose own loss is 0
            excess = [e + away for e, away in zip(excess, self.sums(self.shortfall(held, prices)), strict=True)]
        with np.errstate(divide="ignore"):
            logs = np.log(np.where(self.base > 0, held, 1.0) if nothing else held)
        counts = self.window.counts.astype(float)
        out.excess += float(counts @ sum(e.sum(axis=1) for e in excess))
        gaps = [np.divide(e, w, out=np.zeros(e.shape), where=w > 0) for e, w in zip(excess, self.bases, strict=True)]
        out.gap = max(out.gap, *(float(np.max(np.where(np.isnan(g), np.inf, g), initial=0.0)) / LOG_2 for g in gaps))
        out.value += float(counts @ np.einsum("jsi,jsi->si", self.base, logs).sum(axis=1))
        room = np.where(self.capacity > 0, self.capacity, 1.0)
        over = np.max((sum(totals) - self.capacity) / room, initial=0.0)
        beyond = [np.max((total - p) / room, initial=0.0) for total, p in zip(totals, self.parts, strict=True)]
        out.violation = max(out.violation, float(over))
        out.part_violation = max(out.part_violation, *map(float, beyond))

    def shortfall(self, held: Float, prices: Sequence[Float]) -> Float:
        """An upper bound on how much less each bundle is worth than the best response a* to the prices.

        By weak duality bundles within a part P are worth at most ``sum base log a* - price (sum a* - P)``; ``log z <= z
        - 1`` avoids the logarithm and is tight near a*.
        """
        off = self.best - held
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = self.base / np.maximum(held, TINY) - self.by_user(prices)
            return np.where(off == 0, 0.0, off * slope)
