"""What more of each resource brings, and one more server like each: by derivatives, else by solving again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.allocation import Allocation
from fairopt.derivatives.analysis import FAR, ZERO
from fairopt.derivatives.sensitivity import Purchase, checked_costs, sensitivity
from fairopt.errors import FairoptError, OutOfDomain
from fairopt.instance import Instance
from fairopt.policy import accepted
from fairopt.runtime.clock import Clock
from fairopt.runtime.progress import by_itself
from fairopt.tolerances import ROUNDING, SAME_TASKS
from fairopt.validation import default_labels

__all__ = ["BY_ANSWERS", "Purchases", "ServerPurchase", "purchases"]

Float = NDArray[np.float64]

BY_ANSWERS = "answers"
MOST = 20  # rows of resources with a search for ranges, and classes of servers
STEP = 0.01  # of a row's capacity: the change from which a rate is computed
HOLDS = 0.01  # a rate holds while the gain differs from it by at most this fraction
GROWTH = 4.0  # from one change that is tried to the next
HALVINGS = 6  # of the last factor: ranges are found to 2 %
NO_GAIN = 1e-6  # of all tasks: certified answers may differ by it
SEARCH = 30.0  # seconds of the searches for ranges, without a time limit


@dataclass(frozen=True)
class ServerPurchase:
    """What one more server like those of a row brings, by solving again.

    ``tasks`` and ``welfare`` are gains in the number of tasks and in the objective's value, ``tasks_per_cost`` is None
    without the costs of all its resources, ``losers`` are users who lose tasks, and ``reason`` says why there is no
    answer.
    """

    server: str
    servers: int
    tasks: float
    welfare: float
    tasks_per_cost: float | None
    losers: tuple[str, ...]
    reason: str

    @property
    def rate(self) -> float:
        """The order of purchases: tasks per unit of cost, or tasks."""
        return self.tasks if self.tasks_per_cost is None else self.tasks_per_cost


@dataclass(frozen=True, eq=False)
class Purchases:
    """What to buy next, by class of identical servers, the best first.

    ``resources`` leaves out those of which some is left over on every server; ``idle`` has their units left over in
    all. ``no_derivatives`` says why all rates are found by solving again; it is empty if not. ``servers`` are the
    largest classes, at most 20. ``late`` is whether ranges are unknown for lack of time.
    """

    allocation: Allocation
    resources: tuple[Purchase, ...]
    idle: dict[str, float]
    servers: tuple[ServerPurchase, ...]
    no_derivatives: str
    late: bool


def purchases(
    allocation: Allocation,
    costs: Mapping[str, float] | None = None,
    clock: Clock | None = None,
    search: float = SEARCH,
    **options: Any,
) -> Purchases:
    """What more of each resource brings under the policy of an allocation, up to where, and one more server.

    ``costs`` are by unit of a resource, and ``options`` are those of ``allocate``. Where derivatives or their ranges
    are not known, the policy is solved again: a rate is that of 1 % more, and holds while the gain differs from it by
    at most 1 %. Without a time limit of the ``clock``, ranges are searched for at most ``search`` seconds.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[4, 1], [1, 1]], [[40, 6], [10, 3]], counts=[2, 1], resources=["cpu", "gpu"])
    >>> found = purchases(fo.DRF().allocate(cluster))
    >>> [(p.name, round(p.tasks, 3)) for p in found.resources], round(found.idle["cpu"], 3)
    ([('gpu on server1', 1.0), ('gpu on server2', 1.0)], 52.5)
    >>> [(p.server, round(p.tasks, 3)) for p in found.servers]
    [('server1', 6.0), ('server2', 3.0)]
    """
    clock = clock or Clock(None)
    again = _Again(allocation, options, clock)
    idle = _idle(allocation)
    given = None if costs is None else checked_costs(costs, allocation.instance)
    try:
        rows, why = list(sensitivity(allocation, time_limit=clock.left).purchases(given)), ""
    except OutOfDomain as error:
        rows, why = _without_rates(allocation, given), str(error)
    with by_itself() as tell:
        kept = [row for row in rows if row.resource not in idle]
        rated = []
        for k, row in enumerate(kept):
            tell("rates", k, len(kept))
            rated.append(again.rated(row, given) if row.reason else row)
        ranked = sorted(rated, key=lambda row: np.inf if row.reason else -row.rate)
        servers = _servers(again, given, tell)
        end = clock if clock.time_limit is not None else Clock(search)
        late = False
        for k, row in enumerate(ranked[:MOST]):
            tell("ranges", k, len(ranked[:MOST]))
            if np.isnan(row.up_to) and not row.reason:
                if not end.late:
                    row = ranked[k] = replace(row, up_to=again.range(row, end), up_to_by=BY_ANSWERS)
                late |= end.late and bool(np.isnan(row.up_to))
    return Purchases(allocation, tuple(ranked), idle, servers, why, late)


class _Again:
    """Answers with larger capacities."""

    def __init__(self, allocation: Allocation, options: Mapping[str, Any], clock: Clock) -> None:
        self.allocation, self.options, self.clock = allocation, options, clock
        self.instance: Instance = allocation.instance
        self.base = float(allocation.tasks.sum())

    def answer(self, instance: Instance) -> Allocation:
        """The certified answer of the same policy to another instance."""
        policy = self.allocation.policy
        found: Allocation = policy.allocate(instance, **accepted(policy, **self.options, time_limit=self.clock.left))
        return found

    def place(self, row: Purchase) -> tuple[int, int]:
        """The server row and the resource of a purchase."""
        return self.instance.servers.index(row.server), self.instance.resource_index(row.resource)

    def with_more(self, row: Purchase, units: float) -> Allocation:
        """The answer with more units, spread over the servers of a row."""
        s, i = self.place(row)
        capacities = np.array(self.instance.capacities, dtype=float)
        capacities[s, i] += units / self.instance.counts[s]
        return self.answer(self.instance.replace(capacities=capacities))

    def size(self, row: Purchase) -> float:
        """The capacity of all servers of a row."""
        s, i = self.place(row)
        return float(self.instance.capacities[s, i] * self.instance.counts[s])

    def rated(self, row: Purchase, costs: Mapping[str, float] | None) -> Purchase:
        """A purchase with the rate of 1 % more."""
        size = self.size(row)
        if not size > 0 or self.clock.late:
            return row
        try:
            more = self.with_more(row, STEP * size)
        except FairoptError as error:
            return replace(row, reason=f"1 % more has no certified answer ({error})")
        gain = self.gain(more)
        return replace(
            row,
            tasks=gain / (STEP * size),
            welfare=self.welfare(more) / (STEP * size),
            tasks_per_percent=gain / (100 * STEP),
            tasks_per_cost=None if costs is None else gain / (STEP * size) / costs[row.resource],
            up_to=np.nan,
            losers=self.losers(more),
            reason="",
            rate_by=BY_ANSWERS,
        )

    def gain(self, more: Allocation) -> float:
        """Additional tasks of all users."""
        gain = float(more.tasks.sum()) - self.base
        return 0.0 if abs(gain) <= NO_GAIN * self.base else gain

    def welfare(self, more: Allocation) -> float:
        """The gain in the objective's value."""
        gain = more.objective - self.allocation.objective
        return 0.0 if abs(gain) <= ROUNDING * abs(self.allocation.objective) else gain

    def losers(self, more: Allocation) -> tuple[str, ...]:
        """The users who lose tasks."""
        lost = self.allocation.tasks - more.tasks
        some = lost > np.maximum(SAME_TASKS * STEP * self.allocation.tasks, NO_GAIN * self.base)
        return tuple(self.instance.users[j] for j in np.flatnonzero(some).tolist())

    def range(self, row: Purchase, end: Clock) -> float:
        """Units up to which the gain differs from the rate by at most 1 %; NaN if an answer or the time is missing."""
        size = self.size(row)

        def holds(units: float) -> bool:
            gain = float(self.with_more(row, units).tasks.sum()) - self.base
            return abs(gain - row.tasks * units) <= HOLDS * abs(row.tasks) * units + NO_GAIN * self.base

        try:
            if holds(FAR * size):
                return float(np.inf)
        except FairoptError:  # solvers may fail so far away: nearer changes decide
            pass
        good, bad = 0.0, STEP * size
        try:
            while bad < FAR * size and holds(bad):
                good, bad = bad, GROWTH * bad
                if end.late:
                    return float(np.nan)
            for _ in range(HALVINGS):
                if end.late:
                    return float(np.nan)
                middle = float(np.sqrt(good * bad)) if good else bad / 2
                good, bad = (middle, bad) if holds(middle) else (good, middle)
        except FairoptError:  # of a change that is only tried: the range stays unknown
            return float(np.nan)
        return good


def _idle(allocation: Allocation) -> dict[str, float]:
    """The resources of which some is left over on every server that has them, with the units left over."""
    instance = allocation.instance
    capacity = instance.capacities * instance.counts[:, None]
    usable = np.ones(instance.n_resources)
    for block in getattr(allocation.policy, "constraints", ()):
        part = block.usable(instance)
        usable = usable if part is None else np.minimum(usable, part)
    left = capacity * usable - allocation.usage
    full = (capacity > 0) & (left <= SAME_TASKS * capacity)
    return {
        name: float(np.maximum(left[:, i], 0.0).sum())
        for i, name in enumerate(instance.resources)
        if not full[:, i].any() and capacity[:, i].any()
    }


def _without_rates(allocation: Allocation, costs: Mapping[str, float] | None) -> list[Purchase]:
    """A row for each resource of each server row, without a rate."""
    instance, none = allocation.instance, float("nan")
    units = instance.units or ("",) * instance.n_resources
    out = []
    for s, i in np.ndindex(instance.capacities.shape):
        name = instance.resources[i]
        if costs is None or name in costs:
            what = name + (f" on {instance.servers[s]}" if instance.n_servers > 1 else "")
            why = "no derivative is known" if instance.capacities[s, i] else f"the server has none of it: {ZERO}"
            per_cost = None if costs is None else none
            left, unit = float(allocation.leftover[s, i]), units[i] or "unit"
            row = Purchase(what, instance.servers[s], name, unit, left, none, none, none, per_cost, none, (), why)
            out.append(row)
    return out


def _servers(again: _Again, costs: Mapping[str, float] | None, tell: Any) -> tuple[ServerPurchase, ...]:
    """One more server like each, of the largest classes; with costs, of those whose resources all have one."""
    instance, out = again.instance, list[ServerPurchase]()
    if instance.servers == tuple(default_labels("server", 1)):  # a pool, which is no server
        return ()
    largest = np.argsort(-instance.counts, kind="stable")[:MOST].tolist()
    for k, s in enumerate(largest):
        tell("servers", k, len(largest))
        counts = np.array(instance.counts)
        counts[s] += 1
        cost = _cost(instance, s, costs)
        server, number, per_cost = instance.servers[s], int(instance.counts[s]), None if cost is None else float("nan")
        if again.clock.late:
            out.append(ServerPurchase(server, number, np.nan, np.nan, per_cost, (), "the time limit was over"))
            continue
        try:
            more = again.answer(instance.replace(counts=counts))
        except FairoptError as error:
            out.append(ServerPurchase(server, number, np.nan, np.nan, per_cost, (), str(error)))
            continue
        gain, welfare = again.gain(more), again.welfare(more)
        per_cost = None if cost is None else gain / cost
        out.append(ServerPurchase(server, number, gain, welfare, per_cost, again.losers(more), ""))
    return tuple(sorted(out, key=lambda row: np.inf if row.reason else -row.rate))


def _cost(instance: Instance, s: int, costs: Mapping[str, float] | None) -> float | None:
    """The cost of a server, if those of all its resources are known."""
    has = dict(zip(instance.resources, instance.capacities[s].tolist(), strict=True))
    if costs is None or any(units and name not in costs for name, units in has.items()):
        return None
    return sum(units * costs[name] for name, units in has.items() if units)
