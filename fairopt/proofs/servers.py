"""Alpha-fairness and max-min on several servers: the bound by weak duality at prices per server and resource.

At any prices no allocation is worth more than what users would choose at their cheapest servers, and what capacities
cost: the bound of `lagrangian`, computed in chunks of users, without a matrix of all pairs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.form import ratio_gap
from fairopt.blocks.model import Point
from fairopt.formulation.demands_at_prices import cheapest_of, demands_of
from fairopt.formulation.program import Float, Indices, Program
from fairopt.proofs.bound import EPS, fair_gap

ROUNDING = 1e-12  # of a limit
NEAR = 1e-6  # of a lower bound: users who hold no more than that above it do not give way
ROUNDS = 3  # of Newton's method on the bound on max-min, which is piecewise linear where users have limits of their own
MORE = 100  # the same where they have lower bounds, and a round is one sum


class RowUnits:
    """A program of several servers in multiples of what users about run, by the server rows that may be used.

    ``per_level`` (n_users, 1) or (n_users, n_servers) are tasks per unit of level, ``limits``, ``reach`` and ``floors``
    (n_users,) levels at the task limits, levels that no user can exceed, and those at the lower bounds. Where a task is
    worth different levels on different servers, ``takes`` (n_users, n_servers) is the part of the user's limit that a
    unit of level takes, 0 for users without a limit; else None.
    """

    def __init__(self, program: Program, per_level: Float) -> None:
        self.program, self.per_level = program, per_level
        self.takes: Float | None = None
        instance = program.instance
        self.eligible = instance.eligible
        closed = program.usable <= 0
        if closed.any():
            self.eligible = self.eligible & ~(instance.per_server_demands[:, :, closed] > 0).any(axis=2)
        self.demands = demands_of(instance.demands, program.whole_capacities, self.per_level, self.eligible)
        self.needed = self.demands.all_loads(self.eligible.astype(float)) > 0
        self.usable = np.where(self.needed, program.usable[:, None], 1.0)
        self.limits, self.reach = program.high / self.per_level[:, 0], program.most / self.per_level[:, 0]
        self.floors = program.low / self.per_level[:, 0]


class LevelUnits(RowUnits):
    """A program of one share in units of level (share per weight, in multiples of about the max-min level): numbers
    near 1.

    ``unit`` is a level of 1, in shares per weight; ``limits`` are on the best server. Where shares differ by server
    ``floors`` are 0: bounds on the objective hold without them.
    """

    def __init__(self, program: Program) -> None:
        instance = program.instance
        share = program.term.share
        c = share.coefficients(instance)
        self.unit = Point(instance, np.zeros((0, 0))).level(share)
        c = np.where(instance.eligible, c, 1.0) if c.ndim == 2 else c[:, None]
        super().__init__(program, instance.weights[:, None] * self.unit / c)
        if c.shape[1] > 1:
            self.floors = np.zeros(len(c))
            self.limits = np.where(self.eligible, program.high[:, None] / self.per_level, 0.0).max(axis=1)
            alone = (instance._tasks_alone_within(program.usable) / self.per_level).sum(axis=1)
            self.reach = np.minimum(alone, self.limits)
            if np.isfinite(program.high).any():
                self.takes = np.where(self.eligible, self.per_level, 0.0) / program.high[:, None]

    def walk(
        self, prices: Float, target: float, users: slice, weights: Float | None = None, alpha: float = 1.0
    ) -> Walk:
        """Where users of a chunk go at prices: along the lower hull of cost by ``takes``, to servers that are dearer
        and take less, until their limit is enough for the ``target``, or with ``weights`` for ``(w / worth)^(1 /
        alpha)``.
        """
        costs = self.demands.costs(prices, users)
        worth, held = cheapest_of(costs)
        before = held.copy()
        if self.takes is None:
            return Walk(worth, costs, held, before)
        least, takes, eligible = worth.copy(), self.takes[users], self.eligible[users]
        w = None if weights is None else weights[users]
        at: Any = slice(None)
        for _ in range(self.demands.n_servers):
            here = held[at]
            taken = np.choose(here, takes.T) if isinstance(at, slice) else takes[at, here]
            wanted = target if w is None else (w[at] / worth[at]) ** (1.0 / alpha)
            goes = np.flatnonzero(wanted * taken > 1.0 + ROUNDING)
            if not len(goes):
                break
            at, here, taken = goes if isinstance(at, slice) else at[goes], here[goes], taken[goes]
            cost, others = costs[at, here][:, None], takes[at]
            fewer = others - taken[:, None]
            turns = np.divide(
                cost * others - costs[at] * taken[:, None],
                fewer,
                out=np.full_like(fewer, np.inf),
                where=(fewer < 0) & eligible[at],
            )
            turn, there = cheapest_of(turns)
            enough = np.inf if w is None else w[at] * taken**alpha  # where the limit is enough on this server
            nearest = np.minimum(turn, enough)
            worth[at] = np.where(nearest < np.inf, nearest, worth[at])  # else it takes least here, and is too much
            on = turn < enough
            at = at[on]
            before[at], held[at] = here[on], there[on]
        return Walk(np.maximum(worth, least), costs, held, before)  # a limit never lowers a worth; rounding might

    def worths(
        self, prices: Float, target: float, weights: Float | None = None, alpha: float = 1.0
    ) -> tuple[Float, Float]:
        """What a unit of level is worth to each user at prices, and the rent of its limit, each of shape (n_users,).

        A user for whom it is worth h pays a rent of ``max_s (h - cost_s)+ / takes_s``: with it no server is cheaper
        than h. Any h gives a bound, and that of `walk` the best.
        """
        if self.takes is None:
            return self.demands.cheapest(prices), np.zeros(self.demands.n_users)
        worths, rents = np.empty(self.demands.n_users), np.zeros(self.demands.n_users)
        for users in self.demands.chunks():
            found, takes = self.walk(prices, target, users, weights, alpha), self.takes[users]
            worths[users] = found.worth
            for s in range(self.demands.n_servers):
                rent = np.maximum(found.worth - found.costs[:, s], 0.0) / np.where(takes[:, s] > 0, takes[:, s], np.inf)
                np.maximum(rents[users], rent, out=rents[users])
        return worths, rents


class Walk(NamedTuple):
    """What a level is worth to users, costs by server, the server where a user ends, and the last one it came from.

    On both together it holds a level that is more than the limit allows there, and less than here.
    """

    worth: Float
    costs: Float
    held: Indices
    before: Indices


def of_level(program: Program) -> bool:
    """Whether prices are of levels of one share: for alpha-fairness and the smallest share per weight."""
    return program.term.is_curved or (program.term.is_smallest and not program.term.is_order)


def units_of(program: Program) -> RowUnits:
    """The units of a program: of level, or of tasks where an objective is not of one share."""
    return LevelUnits(program) if of_level(program) else RowUnits(program, program.size[:, None])


def repaired(units: RowUnits, tasks: Float) -> Float:
    """Tasks (n_users, n_servers) scaled to within capacities and limits, and raised to lower bounds if possible."""
    program, tasks = units.program, np.maximum(tasks, 0.0)
    load = (units.demands.all_loads(tasks / units.per_level) / units.usable).max(axis=0)
    room = np.where(load > 1 - 5e-14, (1 - 1e-13) / load, 1.0)  # below 1 by more than the rounding of sums
    tasks = tasks * np.where(units.eligible, room, 0.0)
    total = tasks.sum(axis=1)
    tasks *= np.where(total >= program.high, program.high * (1 - 1e-15) / total, 1.0)[:, None]
    return _lifted(units, tasks) if units.floors.any() else tasks


def _lifted(units: RowUnits, tasks: Float) -> Float:
    """Tasks of users below their lower bounds raised to these, where users above theirs leave or can make room."""
    program, total = units.program, tasks.sum(axis=1)
    short = np.flatnonzero(total < program.low)
    if not len(short):
        return tasks
    above = (total > program.low * (1 + NEAR))[:, None]

    def kept(tasks: Float) -> Float:
        """What is left of capacities to users who are above their bounds."""
        held: Float = units.demands.all_loads(np.where(above, 0.0, tasks / units.per_level))
        return units.usable * (1 - 5e-14) - held

    room = np.maximum(kept(tasks), 0.0).T * program.whole_capacities
    demands = program.instance.per_server_demands[short]
    fits = np.divide(room, demands, out=np.full(demands.shape, np.inf), where=demands > 0).min(axis=2)
    fits *= units.eligible[short]
    raised = tasks.copy()
    raised[short] += fits * ((program.low[short] * (1 + 1e-15) - total[short]) / fits.sum(axis=1))[:, None]
    may, left = units.demands.all_loads(np.where(above, tasks / units.per_level, 0.0)), kept(raised)
    part = np.where(left >= 0, np.where(may > left, left / may, 1.0), -1.0).min(axis=0)
    if not (part[raised[short].sum(axis=0) > 0] >= 0).all():  # they do not fit
        return tasks
    return np.where(above, tasks * np.clip(part, 0.0, 1.0), raised)


def judge_row_prices(units: LevelUnits, prices: Float, tasks: Float) -> tuple[float, Float]:
    """Gap, and prices of shape (n_resources, n_servers) per whole capacity in natural units of the objective."""
    prices = np.where(units.needed, np.maximum(prices, 0.0), 0.0)
    point = Point(units.program.instance, tasks)
    gap, natural = (_fair_gap if units.program.term.is_curved else _max_min_gap)(units, prices, point)
    return max(gap, 0.0) if np.isfinite(gap) else np.inf, natural


def _max_min_gap(units: LevelUnits, prices: Float, point: Point) -> tuple[float, Float]:
    """Gap of the smallest level, at most ``(sum_si p_si u_si + sum_j rent_j) / sum_j worth_j`` by `LevelUnits.worths`.

    At a common level users pay in all at least what it is worth, and at most the value of capacities and limits.
    Without limits of their own it is worth what it costs on their cheapest servers.
    """
    term, limit = units.program.term, float(units.limits.min())
    value = term.kind.value(term.share, point)
    bound, worths = best_worths(units, prices, value)
    natural = prices * (term.factor * units.unit / worths.sum()) if bound < limit else np.zeros_like(prices)
    return ratio_gap(units.unit * min(bound, limit), value), natural


def best_worths(units: LevelUnits, prices: Float, value: float) -> tuple[float, Float]:
    """The least bound on the smallest level in units, near a value of it, and what a level is worth to users there."""
    if units.floors.any():
        return _above_floors(units, prices)
    best: tuple[float, Float] = np.inf, np.ones(units.demands.n_users)
    target = value / units.unit
    for _ in range(1 if units.takes is None else ROUNDS):
        worths, rents = units.worths(prices, target)
        target = float(((units.usable * prices).sum() + rents.sum()) / worths.sum())  # NaN where all is free
        if target < best[0]:
            best = target, worths
    return best


def _above_floors(units: LevelUnits, prices: Float) -> tuple[float, Float]:
    """The same with lower bounds l_j: the level Z with ``sum_j worth_j max(Z, l_j) = sum_si p_si u_si``.

    A level is worth nothing to users who must have more in any case, and pay for that much. By Newton's method from
    above: the left side is convex in Z, and any set of such users gives a bound.
    """
    worths, paid, floors = units.demands.cheapest(prices), float((units.usable * prices).sum()), units.floors
    best, counts = (np.inf, np.ones(len(floors))), worths
    for _ in range(MORE):
        given = float((worths - counts) @ floors)
        rest = np.maximum(paid - given + EPS * (paid + given), 0.0)  # rounded up
        target = float(rest / counts.sum())  # NaN where all is free
        if not target < best[0]:
            break
        best, counts = (target, counts), np.where(floors > target, 0.0, worths)
    return best


def _fair_gap(units: LevelUnits, prices: Float, point: Point) -> tuple[float, Float]:
    """Gap by the Lagrangian dual function at prices p, with level z_j per user, h_j and rent_j by `LevelUnits.worths`.

    The bound is ``sum_j (max_z (w_j u(z) - h_j z) + rent_j) + sum_si p_si u_si``, where ``u(z) = (z^(1-alpha) - 1) /
    (1-alpha)``, and ``z_j = (w_j / h_j)^(1/alpha)`` between the user's lower bound and its reach. Without limits of
    their own h_j is the smallest cost of j on any server.
    """
    term, kind = units.program.term, units.program.term.kind.simplest
    alpha, weights = term.alpha, point.weights / point.weights.sum()
    assert alpha is not None
    worths, rents = units.worths(prices, np.inf, weights, alpha)
    majorant = kind.majorant(term.share, point)
    assert majorant is not None
    with np.errstate(divide="ignore"):
        log_price = np.log(worths / weights)
        log_paid = np.log(float((units.usable * prices).sum()) + float(rents.sum()))
    levels = point.share(term.share) / (point.weights * units.unit)
    gap = float(fair_gap(weights, levels, log_price, alpha, units.floors, units.reach, log_paid))
    slope = majorant.unit * term.natural(kind.value(term.share, point), float(point.weights.sum()))[1]
    return gap, prices * slope
