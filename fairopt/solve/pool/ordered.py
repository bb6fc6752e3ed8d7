"""Ordered weights on one pool or a few servers, by cutting planes in prices (Proposition 4.12; Kelley 1960).

The problem is ``max OW(z) = sum_k v_k z_(k)`` under ``sum_j a_ji z_j <= C_i`` and ``low <= z <= high``, where z_(k) is
the k-th smallest level and the weights v do not increase. The dual is

    min over p >= 0 of  sum_i C_i p_i + D(p),   D(p) = max_z OW(z) - sum_j k_j z_j,   k_j = sum_i a_ji p_i,

with k_j what a unit of level costs. D is the largest of linear functions of p, one for each best response; the cuts
found so far are a linear program in m + 1 unknowns. Users without limits need no D: any group of them costs at least
its smallest weights, and sorting costs finds the group that costs least. So one pass is a sort and a product of n by m,
and the answer is a mixture of few groups. As one linear program OW has a row for each k and user, n^2 in all.

On S servers prices are by server and resource, S m of them, and k_j is the cost on the user's cheapest server: a cut
also says who runs where, and the mixture splits users between servers.

Rounding: prices are moved into the dual feasible set before they bound anything, and the gate proves the answer by
these. With weights n..1 and demands over four decades of 4 (8) resources, 1,000, 10,000 and 100,000 users take .04, .1
and 1.1 s (.1, .3 and 3 s) of CPU in 24 to 41 (60 to 130) rounds, with limits .1, .3 and 3.5 s (.1, .8 and 13 s). On 4
servers of 3 resources 20,000 users take .7 s, and with limits 5.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.ranked import BoundedLevels, padded
from fairopt.certificate import Try
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import optimize
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import EPS, ROUNDING, TINY
from fairopt.solve import infeasible
from fairopt.solve.form.demands_at_prices import FEW, by_pair, cheapest_of, demands_of
from fairopt.solve.form.program import Program
from fairopt.solve.form.solvers import TIGHT
from fairopt.solve.settings import Proposals, Settings

USERS = 1_000  # for each server, from which the interior point takes longer
ROUNDS = 500  # 1 to 130 are usual
# Groups are searched for at this part of the way from the best prices to the program's: 198 rounds at 1 became 130.
OUTWARDS = 0.7
GAP = 1e-9  # relative gap at which to stop


def ordered_applies(program: Program, _: Settings) -> bool:
    """Whether the program is ordered weights with nothing but bounds on tasks, on servers nothing but limits.

    On servers others come first where they are faster: prices of max-min, and the interior point for fewer users or
    more servers. Max-min of 20,000 users on 16 servers takes .35 s so, and would take 3.5. The interior point takes .2,
    .25 and 3.3 s for 1,000, 3,000 and 20,000 users on 4 servers of 3 resources, where this takes .2, .25 and 1.2, and
    .7 s instead of 2.6 for 3,000 on 16.
    """
    return are_cuts_made(program) and (program.single or program.instance.n_users >= USERS * program.instance.n_servers)


def are_cuts_made(program: Program) -> bool:
    """Whether the method is for such programs, of however many users."""
    term, instance = program.term, program.instance
    if program.rest or not program.of_users or term.ranks is None or term.is_order:
        return False
    if program.single:
        return True
    plain = term.share.coefficients(instance).ndim == 1 and not (term.is_smallest or program.low.any())
    return plain and instance.n_servers <= FEW


def solve_ordered(program: Program, settings: Settings) -> Proposals:
    """Ordered weights with prices as evidence; raises `Infeasible` if the lower bounds do not fit."""
    begun = time.perf_counter()
    cuts = _CuttingPlanes(program)
    if cuts.lower_bounds_conflict:
        infeasible.explain(program)
    for k in range(ROUNDS):
        tell("prices of ordered weights, programs", k, ROUNDS)
        if not cuts.solve() or not cuts.add() or settings.clock.late:
            break
    attempt = Try("prices", f"solved ({k + 1} programs)", time.perf_counter() - begun)
    if cuts.levels is None:
        yield Proposal("prices", attempt=attempt)
        return
    evidence = Prices(program, Dual(cuts.best.T.ravel() * cuts.unit))
    yield Proposal("prices", program.pairs.of(cuts.parts / cuts.per_task[:, None]), evidence, attempt=attempt)


class _Cut(NamedTuple):
    """Levels, or the users of a group, and the server of each user."""

    column: Float | Bool
    server: Indices

    def is_same(self, other: _Cut) -> bool:
        return self.column.dtype == other.column.dtype and all(map(np.array_equal, self, other))


class _CuttingPlanes:
    """The linear program of the cuts so far, with levels near 1 and ordered weights of sum 1."""

    def __init__(self, program: Program) -> None:
        term, instance = program.term, program.instance
        c = term.share.coefficients(instance, levelled=True)
        level = float(program.point(np.zeros(len(program.pairs))).level(term.share))
        self.per_task = (c if c.ndim == 1 else c[:, 0]) / (instance.weights * level)
        v = term.factor * padded(term.ranks or (), instance.n_users)
        self.unit = level * float(v.sum())  # of values, and so of prices; HiGHS's tolerances are absolute
        self.v = v / v.sum()
        self.smallest = np.cumsum(self.v[::-1])
        # of a unit of level; tables of prices and loads are (n_resources, n_servers)
        per_level = 1.0 / self.per_task[:, None]
        self.demands = demands_of(instance.demands, program.whole_capacities, per_level, instance.eligible)
        self.usable = np.repeat(program.usable[:, None], instance.n_servers, axis=1)
        self.low, high = program.low * self.per_task, program.high * self.per_task
        # who needs a resource that is wholly reserved stays at 0, at prices that need not be infinite
        reserved = (program.usable <= 0) & (instance.per_server_demands > 0)
        high = np.where(reserved.any(axis=(1, 2)), 0.0, high)
        every = np.zeros(instance.n_users, dtype=np.intp)  # lower bounds are on one pool only
        self.lower_bounds_conflict = bool(
            (self.low > high).any() or (self._load(_Cut(self.low, every)) > self.usable * (1 + ROUNDING)).any()
        )
        self.free = np.flatnonzero(np.isinf(high))
        bounds = np.concatenate([self.low, high[np.isfinite(high)]])
        self.top = float(bounds.max(initial=0.0))  # above it only users without limits count (4.12, 3)
        self.high = np.where(np.isinf(high), self.top, high)
        self.bounded = BoundedLevels(self.v, self.low, self.high)
        # equal prices at which every group costs at least twice its weights: strictly inside 4.12, 3, as `_feasible`
        # needs
        ones = np.ones_like(self.usable)
        cost, server = self._costs(ones)
        cost, weights = np.cumsum(np.sort(cost[self.free])), self.smallest[: len(self.free)]
        inside = 2.0 * float((weights / cost).max(initial=0.0))
        self.inside, self.more = inside * ones, inside * cost - weights
        self.rows: list[Float] = []  # coefficients of the prices and of D(p)
        self.right: list[float] = []
        self.cuts: list[_Cut] = []  # of each row, of which the answer is a mixture
        self.levels: Float | None = None
        self.prices: Float = np.zeros_like(self.usable)
        self.best: Float = np.zeros_like(self.usable)
        self.bound = np.inf
        # first cuts, without which the program is unbounded below: D at the bounds, and the group of all
        self._add_levels(self.low, server)
        if self.top > 0:
            self._add_levels(self.high, server)
        if len(self.free):
            self._add_group(self.free, server)

    def _costs(self, prices: Float) -> tuple[Float, Indices]:
        """What a unit of level costs each user on its cheapest server, and that server."""
        found = [cheapest_of(self.demands.costs(prices, users)) for users in self.demands.chunks()]
        return np.concatenate([cost for cost, _ in found]), np.concatenate([server for _, server in found])

    def _parts(self, cut: _Cut) -> Float:
        """Levels by user and server."""
        out = by_pair(len(cut.column), self.usable.shape[1])
        out[:] = 0.0
        out[np.arange(len(out)), cut.server] = cut.column
        return out

    def _load(self, cut: _Cut) -> Float:
        """The load of levels, or of a level of 1 of each user of a group."""
        return self.demands.all_loads(self._parts(cut))

    def _add_levels(self, levels: Float, server: Indices) -> None:
        """``D(p) >= OW(levels) - k @ levels``."""
        self._add(_Cut(levels, np.where(levels > 0, server, 0)), 1.0, float(np.sort(levels) @ self.v))

    def _add_group(self, users: Indices, server: Indices) -> None:
        """A group of users without limits costs at least its smallest weights."""
        column = np.zeros(len(self.v), dtype=bool)
        column[users] = True
        self._add(_Cut(column, np.where(column, server, 0)), 0.0, float(self.smallest[len(users) - 1]))

    def _add(self, cut: _Cut, of_gain: float, right: float) -> None:
        """Add the row of levels, or of a group's users, unless it is there."""
        # if equal rows were new ones, the end would be seen by the gap alone: 1e-9 instead of 1e-13, at twice the CPU
        if not any(cut.is_same(one) for one in self.cuts):
            self.rows.append(np.append(self._load(cut), of_gain))
            self.right.append(right)
            self.cuts.append(cut)

    def solve(self) -> bool:
        """Solve for prices, and for levels as the mixture of the rows; whether an optimum was found."""
        rows, right = np.array(self.rows), np.array(self.right)
        # rows are divided by the size of their coefficients: those of a group of one user and of all differ by decades
        size = np.maximum(np.abs(rows[:, :-1]).max(axis=1, initial=0.0), np.where(rows[:, -1] > 0, 1.0, TINY))
        bounds = [(0.0, None)] * self.usable.size + [(None, None)]
        optimum: Any = optimize.linprog(  # type: ignore[call-overload]
            np.append(self.usable, 1.0),
            A_ub=-rows / size[:, None],
            b_ub=-right / size,
            bounds=bounds,
            method="highs",
            options=TIGHT["SCIPY"],
        )
        if optimum.x is None:
            return False
        self.prices = np.maximum(optimum.x[:-1], 0.0).reshape(self.usable.shape)
        # the multiplier of a cut is the part of its response in the answer
        mix = np.maximum(-optimum.ineqlin.marginals, 0.0) / size
        self.parts = np.sum([m * self._parts(one) for m, one in zip(mix, self.cuts, strict=True) if m > 0], axis=0)
        self.levels = self.parts.sum(axis=1)
        return True

    def add(self) -> bool:
        """Add the rows that prices violate; whether there are any and the gap is still open.

        Rows are searched for between the best prices and the program's first (Ben-Ameur and Neto 2007).
        """
        assert self.levels is not None
        rows, between = len(self.rows), self.best + OUTWARDS * (self.prices - self.best)
        for searched in (between, self.prices) if np.isfinite(self.bound) else (self.prices,):
            prices, groups, at = self._feasible(searched)
            gain = 0.0
            if self.top > 0:
                cost, server = self._costs(prices)
                levels = self.bounded.best(cost)
                gain = float(np.sort(levels) @ self.v - cost @ levels)
                self._add_levels(levels, server)
            for group in groups:
                self._add_group(group, at)
            bound = float((prices * self.usable).sum()) + gain
            if bound < self.bound:  # False for NaN
                self.bound, self.best = bound, prices
            # else the program's own prices decide whether it is optimal: without them 34 of 60 small pools had no proof
            if len(self.rows) > rows:
                break
        value = float(np.sort(self.levels) @ self.v)  # of a mixture that fits, so a lower bound
        return len(self.rows) > rows and not self.bound - value <= GAP * self.bound

    def _feasible(self, prices: Float) -> tuple[Float, list[Indices], Indices]:
        """Prices moved to `inside` until no group costs less than its weights, the groups that moved them most, and
        servers of all users.

        With A_k, B_k and G_k the cost of the k cheapest at both prices and the k smallest weights a part t is enough
        if ``(1 - t) A_k + t B_k >= G_k``, as the cost of the cheapest is concave in the prices. Why not multiples of
        the prices: the first programs price few resources, and who needs none of them costs nothing at any multiple.
        """
        cost, server = self._costs(prices)
        order = self.free[np.argsort(cost[self.free])]
        cost = np.cumsum(cost[order])
        short = self.smallest[: len(order)] - cost
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(short > 0, short / (short + self.more), 0.0)  # (G - A) / (B - A), ``more`` being B - G
        most = float(part.max(initial=0.0))
        groups = [order[: k + 1] for k in {int(part.argmax()), int(short.argmax())}] if most > EPS else []
        return prices + most * (self.inside - prices), groups, server
