"""What more of each resource brings, and one more server like each or of a new type: by derivatives, else by solving
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.derivatives.sensitivity import FAR, ZERO, Purchase, checked_costs, sensitivity
from fairopt.errors import FairoptError, OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.labels import whole_name
from fairopt.instance.validation import default_labels
from fairopt.policies.hierarchical import HDRF, filled_like
from fairopt.policy import accepted
from fairopt.questions.new_servers import NewServer, closed, with_limits_raised, with_new_server
from fairopt.questions.waiting import idle_by_limits
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import Clock
from fairopt.runtime.progress import by_itself
from fairopt.runtime.tolerances import ROUNDING, SAME_TASKS

BY_ANSWERS = "answers"
MAX_ROWS = 20  # rows of resources with a search for ranges, and classes of servers
STEP = 0.01  # of a row's capacity: the change from which a rate is computed
HOLDS = 0.01  # a rate holds while the gain differs from it by at most this fraction
GROWTH = 4.0  # from one change that is tried to the next
HALVINGS = 6  # of the last factor: ranges are found to 2 %
NO_GAIN = 1e-6  # of all tasks: certified answers may differ by it
SEARCH = 30.0  # seconds of the searches for ranges, without a time limit


@dataclass(frozen=True)
class ServerPurchase:
    """What one more server like those of a row, or of a new type (``servers`` is 0), brings by solving again.

    ``tasks`` and ``welfare`` are gains in the number of tasks and in the objective's value, ``lead_units`` more units
    in use of the resource that leads (None if none does). ``cost`` is its price or that of all its resources, and what
    is per cost is None without it. ``losers`` are users who lose tasks, and ``reason`` says why there is no answer.
    ``raised`` is the gain in what leads, or in tasks, with limits raised in proportion (`with_limits_raised`); None
    where no limit leaves anything idle.
    """

    server: str
    servers: int
    tasks: float
    welfare: float
    tasks_per_cost: float | None
    losers: tuple[str, ...]
    reason: str
    lead_units: float | None = None
    lead_per_cost: float | None = None
    cost: float | None = None
    raised: float | None = None

    @property
    def rate(self) -> float:
        """The order of purchases: tasks, or units of the resource that leads, per unit of cost if costs are known."""
        if self.lead_units is not None:
            return self.lead_units if self.lead_per_cost is None else self.lead_per_cost
        return self.tasks if self.tasks_per_cost is None else self.tasks_per_cost

    @property
    def order(self) -> tuple[float, float, float]:
        """The key by which servers are sorted, the best first: those with a cost before those without.

        Rates that only rounding tells apart, of answers certified to 1e-6, are equal.
        """
        rate = float(f"{self.rate:.6g}")
        return (np.inf, 0.0, 0.0) if self.reason else (float(self.cost is None), -rate, -self.tasks)


@dataclass(frozen=True, eq=False)
class Purchases:
    """What to buy next, by class of identical servers, the best first.

    ``resources`` leaves out those of which some is left over on every server; ``idle`` has their units left over in
    all. ``no_derivatives`` says why all rates are found by solving again; it is empty if not. ``servers`` are the
    largest classes, at most 20, and those of new types. ``late`` is whether ranges are unknown for lack of time.
    ``lead`` is the resource by whose units in use all are sorted, None where it is the number of tasks.
    """

    allocation: Allocation
    resources: tuple[Purchase, ...]
    idle: dict[str, float]
    servers: tuple[ServerPurchase, ...]
    no_derivatives: str
    late: bool
    lead: str | None = None


def purchases(
    allocation: Allocation,
    costs: Mapping[str, float] | None = None,
    clock: Clock | None = None,
    search: float = SEARCH,
    lead: str | None = None,
    new: Sequence[NewServer] = (),
    prices: Mapping[str, float] | None = None,
    asked: Float | None = None,
    **options: Any,
) -> Purchases:
    """What more of each resource brings under the policy of an allocation, up to where, and one more server.

    ``costs`` are by unit of a resource, and ``prices`` of whole servers by name. ``new`` are servers of other types;
    ``asked`` are the task limits before those of tasks too large for any server were set to 0.
    With ``lead``, a resource, all are sorted by how many of its units more are in use. ``options`` are those of
    ``allocate``. Where derivatives or their ranges
    are not known, the policy is solved again: a rate is that of 1 % more, and holds while the gain differs from it by
    at most 1 %. Without a time limit of the ``clock``, ranges are searched for at most ``search`` seconds.
    """
    clock = clock or Clock(None)
    lead = None if lead is None else whole_name(lead, allocation.instance.resources)
    again = _Again(allocation, options, clock, lead)
    idle = _idle(allocation)
    given = None if costs is None else checked_costs(costs, allocation.instance)
    try:
        rows, why = list(sensitivity(allocation, time_limit=clock.left).purchases(given, lead)), ""
    except OutOfDomain as error:
        rows, why = _without_rates(allocation, given), str(error)
    with by_itself() as tell:
        kept = [row for row in rows if row.resource not in idle]
        rated = []
        for k, row in enumerate(kept):
            tell("rates", k, len(kept))
            rated.append(again.rated(row, given) if row.reason else row)
        ranked = sorted(rated, key=lambda row: row.order)
        servers = _servers(again, given, prices or {}, new, asked, tell)
        end = clock if clock.time_limit is not None else Clock(search)
        late = False
        for k, row in enumerate(ranked[:MAX_ROWS]):
            tell("ranges", k, len(ranked[:MAX_ROWS]))
            if np.isnan(row.up_to) and not row.reason:
                if not end.late:
                    row = ranked[k] = replace(row, up_to=again.range(row, end), up_to_by=BY_ANSWERS)
                late |= end.late and bool(np.isnan(row.up_to))
    return Purchases(allocation, tuple(ranked), idle, servers, why, late, lead)


class _Again:
    """Answers with larger capacities."""

    def __init__(self, allocation: Allocation, options: Mapping[str, Any], clock: Clock, lead: str | None) -> None:
        self.allocation, self.options, self.clock = allocation, options, clock
        self.instance: Instance = allocation.instance
        self.base = float(allocation.tasks.sum())
        self.leading = None if lead is None else self.instance.resource_index(lead)
        self.used = self._in_use(allocation)
        self.limited = bool(idle_by_limits(allocation))

    def answer(self, instance: Instance) -> Allocation:
        """The certified answer of the same policy to another instance."""
        policy = self.allocation.policy
        if isinstance(policy, HDRF):
            return filled_like(self.allocation, instance, self.clock.left)
        answer: Allocation = policy.allocate(instance, **accepted(policy, **self.options, time_limit=self.clock.left))
        return answer

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
        gains = self._gains(more, STEP * size, None if costs is None else costs[row.resource])
        percent = {"tasks_per_percent": gains["tasks"] * size / 100, "lead_per_percent": None}
        if gains["lead_units"] is not None:
            percent["lead_per_percent"] = gains["lead_units"] * size / 100
        return replace(row, **gains, **percent, up_to=np.nan, reason="", rate_by=BY_ANSWERS)

    def with_server(self, row: ServerPurchase, instance: Instance) -> ServerPurchase:
        """A purchase with the gain from the answer to the instance that has the server."""
        if self.clock.late:
            return replace(row, reason="the time limit was over")
        try:
            more = self.answer(instance)
        except FairoptError as error:
            return replace(row, reason=str(error))
        gains = self._gains(more, 1.0, row.cost)
        if self.limited and not self.clock.late:
            raised = self._gains(self.answer(with_limits_raised(self.instance, instance)), 1.0, None)
            gains["raised"] = raised["tasks"] if self.leading is None else raised["lead_units"]
        return replace(row, **gains)

    def _gains(self, more: Allocation, size: float, cost: float | None) -> dict[str, Any]:
        """What an answer has more, per unit of what was bought."""
        lead = None if self.leading is None else _apart(self._in_use(more), self.used, NO_GAIN) / size
        tasks = _apart(float(more.tasks.sum()), self.base, NO_GAIN) / size
        return {
            "tasks": tasks,
            "welfare": _apart(more.objective, self.allocation.objective, ROUNDING) / size,
            "tasks_per_cost": None if cost is None else tasks / cost,
            "lead_units": lead,
            "lead_per_cost": None if lead is None or cost is None else lead / cost,
            "losers": self.losers(more),
        }

    def _in_use(self, answer: Allocation) -> float:
        """Units of the resource that leads in use by tasks; without one, 0."""
        return 0.0 if self.leading is None else float(answer.task_usage[:, self.leading].sum())

    def losers(self, more: Allocation) -> tuple[str, ...]:
        """The users who lose tasks."""
        lost = self.allocation.tasks - more.tasks
        some = lost > np.maximum(SAME_TASKS * STEP * self.allocation.tasks, NO_GAIN * self.base)
        return tuple(self.instance.users[j] for j in np.flatnonzero(some).tolist())

    def range(self, row: Purchase, end: Clock) -> float:
        """Units up to which the gain differs from the rate by at most 1 %; NaN if an answer or the time is missing."""
        size = self.size(row)
        rate, base = (row.tasks, self.base) if row.lead_units is None else (row.lead_units, self.used)

        def holds(units: float) -> bool:
            more = self.with_more(row, units)
            gain = (float(more.tasks.sum()) if row.lead_units is None else self._in_use(more)) - base
            return abs(gain - rate * units) <= HOLDS * abs(rate) * units + NO_GAIN * base

        try:
            if holds(FAR * size):
                return float(np.inf)
        except FairoptError:  # solvers may fail so far away: nearer changes decide
            pass
        good, bad = 0.0, STEP * size
        if row.rate_by == BY_ANSWERS:  # the rate is that of the first change
            good, bad = bad, GROWTH * bad
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


def _apart(now: float, before: float, least: float) -> float:
    """What is gained; 0 within rounding."""
    return 0.0 if abs(now - before) <= least * abs(before) else now - before


def _idle(allocation: Allocation) -> dict[str, float]:
    """The resources that are full on none of the servers that have them, with the units left over."""
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


def _servers(
    again: _Again,
    costs: Mapping[str, float] | None,
    prices: Mapping[str, float],
    new: Sequence[NewServer],
    asked: Float | None,
    tell: Any,
) -> tuple[ServerPurchase, ...]:
    """One more server like each, of the largest classes, and one of each new type."""
    instance, out = again.instance, list[ServerPurchase]()
    pool = instance.servers == tuple(default_labels("server", 1))  # which is no server
    order = np.argsort(-instance.counts, kind="stable")
    largest = [] if pool else order[~closed(instance)[order]][:MAX_ROWS].tolist()
    of_rows = {instance.server_index(name): price for name, price in prices.items()}
    for k, s in enumerate(largest):
        tell("servers", k, len(largest) + len(new))
        counts = np.array(instance.counts)
        counts[s] += 1
        cost = of_rows.get(s, _cost(instance, instance.capacities[s], costs))
        row = ServerPurchase(instance.servers[s], int(instance.counts[s]), np.nan, np.nan, None, (), "", cost=cost)
        out.append(again.with_server(row, instance.replace(counts=counts)))
    for k, one in enumerate(new):
        tell("servers", len(largest) + k, len(largest) + len(new))
        cost = _cost(instance, one.row(instance), costs) if one.cost is None else one.cost
        row = ServerPurchase(one.name, 0, np.nan, np.nan, None, (), "", cost=cost)
        try:
            made = with_new_server(instance, one, asked)
        except OutOfDomain as error:
            out.append(replace(row, reason=str(error)))
            continue
        nobody = "no task of those who may run there fits on it; name a server that it is like"
        runs = made.eligible[:, -1].any()
        out.append(again.with_server(row, made) if runs else replace(row, reason=nobody))
    return tuple(sorted(out, key=lambda row: row.order))


def _cost(instance: Instance, capacities: Float, costs: Mapping[str, float] | None) -> float | None:
    """The cost of a server, if those of all its resources are known."""
    has = dict(zip(instance.resources, capacities.tolist(), strict=True))
    if costs is None or any(units and name not in costs for name, units in has.items()):
        return None
    return sum(units * costs[name] for name, units in has.items() if units)
