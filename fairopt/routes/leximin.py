"""Leximin of any linear share under any constraints, as a sequence of programs (math.md section 4).

Each level maximises the common level z of the users still rising. Users who cannot rise are read off the dual values,
with a bound that proves it, and where that leaves doubt a second program confirms them all at once: never one solve
per user. Task limits cost no solve each: between two bottlenecks the sorted limits are bisected.

What has bounds only, and a share worth the same on every server, goes a faster way first: see `server_leximin`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.objectives import Leximin
from fairopt.certificate import Try
from fairopt.routes import certify, conflict, solvers
from fairopt.routes.chunks import Pool
from fairopt.routes.cone import Answer, Settings, is_linear, rank
from fairopt.routes.evidence import bottlenecks
from fairopt.routes.program import ConeModel, Program
from fairopt.telling import tell

Float = NDArray[np.floating[Any]]

FROZEN = 1e-7  # a user whose level provably cannot rise by more than this, relatively, is frozen
RISING = 1e-6  # a user this far above the level, relatively, has shown that it can rise


def solve(program: Program, settings: Settings) -> Answer:
    """Leximin through CVXPY, by the first solver whose answer can be certified.

    Parameters
    ----------
    program : Program
        With a `Leximin` objective.
    settings : Settings
        Solver, options, time.

    Returns
    -------
    Answer
        The best found; the caller looks at ``ok``.
    """
    tried: list[Try] = []
    best: Answer | None = None
    probe = ConeModel(program)
    linear = all(is_linear(c) for _, _, c in probe.rest)
    for name in settings.chain(linear):
        start = time.perf_counter()
        if settings.late:
            tried.append(Try(name, "not tried", 0.0, message="time limit reached"))
            break
        levels = _Levels(program, name, settings)
        answer, attempt = levels.run()
        tried.append(replace(attempt, seconds=time.perf_counter() - start))
        if answer is not None and (best is None or rank(answer) < rank(best)):
            best = replace(answer, solver=name)
        if best is not None and best.ok:
            break
    if best is None:
        best = Answer(np.zeros(len(program.pairs)), np.inf, 0.0, "cone", block_violation=np.inf)
    return replace(best, tried=tuple(tried))


class _Failed(Exception):
    """A solver gave no usable answer for a level."""


@dataclass
class _Level:
    """One level: who was rising, the floors of everybody else, and what the program said things are worth."""

    users: NDArray[np.bool_]
    multipliers: certify.Multipliers
    excess: float = 0.0


class _Levels:
    def __init__(self, program: Program, solver: str, settings: Settings) -> None:
        self.program, self.solver, self.settings = program, solver, settings
        self.cone = ConeModel(program, solver)
        objective = program.objective
        assert isinstance(objective, Leximin)
        instance = program.instance
        self.relative = self.cone.model.relative_share(objective.share)  # s / (w L)
        unit = instance.weights * self.cone.model.level(objective.share)
        c = objective.share.coefficients(instance)
        self.c = c / unit if c.ndim == 1 else c / unit[:, None]
        with np.errstate(over="ignore"):
            best = self.c if c.ndim == 1 else np.where(instance.eligible, self.c, 0.0).max(axis=1)
            self.cap = np.where(np.isfinite(program.high), best * program.high, np.inf)  # level at the limit
        self.by_server = c.ndim == 2
        if self.by_server:  # tasks and share are not proportional: a limit is one more condition
            self.cap = np.full(instance.n_users, np.inf)
        self.base = self.cone.all_constraints
        self.solves = 0

    @property
    def _on_one_pool(self) -> bool:
        """Whether the bottleneck condition proves the answer by itself."""
        return self.program.pairs.single and not self.cone.rest and not self.by_server

    def run(self) -> tuple[Answer | None, Try]:
        start = time.perf_counter()
        try:
            answer = self._fill()
        except _Failed as failure:
            return None, Try(self.solver, str(failure), time.perf_counter() - start)
        status = f"optimal ({self.solves} programs)"
        return answer, Try(self.solver, status, time.perf_counter() - start, answer.gap, answer.violation)

    # -- programs ---------------------------------------------------------------------------------------------

    def _solve(self, objective: cp.Expression, conditions: list[cp.Constraint]) -> None:
        if self.settings.late:
            raise _Failed("time limit reached")
        self.solves += 1
        problem = cp.Problem(cp.Maximize(objective), [*self.base, *conditions])
        attempt = solvers.run(
            problem, self.solver, options=self.settings.options,
            time_limit=self.settings.left(), verbose=self.settings.verbose,
        )  # fmt: skip
        if attempt.status.startswith("infeasible"):
            conflict.explain(self.program)
        if attempt.status not in solvers.SOLVED or self.cone.unknowns.value is None:
            raise _Failed(f"{attempt.status} at program {self.solves} {attempt.message}".strip())

    def _floors(self, floor: Float, users: NDArray[np.bool_]) -> list[cp.Constraint]:
        rows = np.flatnonzero(users & (floor > 0))
        return [cp.multiply(self.relative[rows], 1.0 / floor[rows]) >= 1] if len(rows) else []

    def _common_level(self, rising: NDArray[np.bool_], floor: Float) -> tuple[float, Float]:
        """Largest level of the rising users above the others' floors, and the dual values of the rising."""
        z = cp.Variable()
        rows = np.flatnonzero(rising)
        above = self.relative[rows] - z >= 0
        self._solve(z, [above, *self._floors(floor, ~rising)])
        theta = np.zeros(len(floor))
        theta[rows] = np.maximum(certify.dual_values(above), 0.0)
        return float(z.value), theta

    def _reaches(self, level: float, rising: NDArray[np.bool_], floor: Float, start: Float) -> bool:
        """Whether all rising users can stand at ``min(limit, level)``: a program that is always feasible."""
        target = np.minimum(self.cap, level)
        t = cp.Variable()
        rows = np.flatnonzero(rising)
        way = self.relative[rows] - cp.multiply(target[rows] - start[rows], t) >= start[rows]
        self._solve(t, [way, t <= 1, *self._floors(floor, ~rising)])
        return bool(float(t.value) >= 1 - 1e-9)

    # -- the filling ------------------------------------------------------------------------------------------

    def _fill(self) -> Answer:
        program = self.program
        n = program.instance.n_users
        rising = (self.cap > 0) & (program.most > 0)
        floor = np.zeros(n)  # levels of frozen users, in units of the max-min level
        record: list[_Level] = []
        prices: Float | None = None
        previous = 0.0
        while rising.any():
            tell(f"levels by {self.solver}, users settled", n - int(rising.sum()), n)
            level, theta = self._common_level(rising, floor)
            pinned = np.zeros(n, dtype=bool)
            if level >= self.cap[rising].min() * (1 - 1e-9):  # somebody's limit holds all the others back
                at_limit = self._limits_below_bottleneck(rising, floor, previous)
                if at_limit is None:  # nobody is rising any more: all at their limits
                    floor = np.where(rising, self.cap, floor)
                    break
                pinned = at_limit
                if pinned.any():
                    floor = np.where(rising & pinned, self.cap, floor)
                    rising &= ~pinned
                    level, theta = self._common_level(rising, floor)
            if not np.isfinite(level) or level <= 0:
                raise _Failed(f"level {level:.3g}")
            tasks = certify.repair(program, self.cone.tasks())
            multipliers = certify.relaxed_multipliers(self.cone, tasks, linear=True)
            current = _Level(rising.copy(), multipliers)
            if prices is None:
                first = not pinned.any()
                prices = self._level_prices(current, floor, tasks) if first else 0.0 * multipliers.prices
            top, share = self._bound(current, floor, tasks)
            stuck = rising & self._held_down(current, tasks, share, 1e-8)
            weak = stuck & ~self._held_down(current, tasks, share, 1e-5)  # by a price that may be noise
            if weak.any() and not self._on_one_pool:
                firm, current.excess = self._confirm(rising, weak, level, floor)
                stuck &= ~weak | firm
            if self.cone.rest or not stuck.any():
                with np.errstate(divide="ignore", invalid="ignore"):
                    can_rise = np.where(share > 0, (max(top / level, 1.0) - 1.0) / share, np.inf)
                stuck = rising & (stuck | (can_rise <= FROZEN))
                doubt = rising & ~stuck & (self._values() <= level * (1 + RISING))
                if doubt.any():
                    more, excess = self._confirm(rising, doubt, level, floor)
                    current.excess = max(current.excess, excess)
                    stuck |= more
            if not stuck.any():
                stuck = rising & (theta >= 0.5 * theta.max())  # the certificate will say what that cost
            floor = np.where(stuck, np.minimum(level, self.cap), floor)
            rising &= ~stuck
            record.append(current)
            previous = level
        return self._finish(floor, record, prices)

    def _limits_below_bottleneck(
        self, rising: NDArray[np.bool_], floor: Float, previous: float
    ) -> NDArray[np.bool_] | None:
        """Users who meet their limit before the next bottleneck, by bisection over the sorted limits."""
        limits = np.unique(self.cap[rising & np.isfinite(self.cap)])
        limits = limits[limits > 0]
        start = np.minimum(np.full(len(floor), previous), self.cap) * (1 - 1e-10)
        if not len(limits):
            return np.zeros(len(floor), dtype=bool)
        low, high = -1, len(limits)  # limits[low] is reached, limits[high] is not
        while high - low > 1:
            middle = (low + high) // 2 if low >= 0 or high < len(limits) else self._first_guess(limits, rising)
            if self._reaches(float(limits[middle]), rising, floor, start):
                low = middle
            else:
                high = middle
        if low < 0:
            return np.zeros(len(floor), dtype=bool)
        pinned = rising & (self.cap <= limits[low])
        return None if pinned.sum() == rising.sum() else pinned

    def _first_guess(self, limits: Float, rising: NDArray[np.bool_]) -> int:
        """Often everybody reaches its limit: ask that first when it is likely, else halve."""
        return len(limits) - 1 if np.isfinite(self.cap[rising]).all() else len(limits) // 2

    def _values(self) -> Float:
        return np.asarray(self.relative.value, dtype=float)

    def _confirm(
        self, rising: NDArray[np.bool_], doubt: NDArray[np.bool_], level: float, floor: Float
    ) -> tuple[NDArray[np.bool_], float]:
        """Which of the doubtful cannot rise: a program that raises them all as far as a small step at once."""
        step = 1e-3
        doubt = doubt.copy()
        while doubt.any():
            rows, others = np.flatnonzero(doubt), np.flatnonzero(rising & ~doubt)
            rise = cp.Variable(len(rows), nonneg=True)
            hold = [self.relative[others] / level >= 1 - 1e-10] if len(others) else []
            up = self.relative[rows] / level - step * rise >= 1 - 1e-10
            self._solve(cp.sum(rise) / len(rows), [up, rise <= 1, *hold, *self._floors(floor * (1 - 1e-10), ~rising)])
            rose = step * np.maximum(np.asarray(rise.value), 0.0)
            up_now = rose > RISING
            if not up_now.any():
                return doubt, float(rose.max(initial=0.0))
            doubt[rows[up_now]] = False
        return doubt, 0.0

    # -- evidence ---------------------------------------------------------------------------------------------

    def _costs(self, level: _Level) -> Float:
        """Cheapest cost of a unit of each user's relative share (of a task, for users without)."""
        pairs = self.program.pairs
        cost = np.asarray(pairs.loads.T @ level.multipliers.prices).ravel() + level.multipliers.pair_cost
        return pairs.min(cost / pairs.of(self.c))

    def _held_down(self, level: _Level, tasks: Float, share: Float, least: float) -> NDArray[np.bool_]:
        """Users who need something scarce wherever they may run: they cannot rise, however little of it they need.

        A capacity is scarce when its price, as a part of the level, is at least ``least`` and larger than its slack
        (their product is zero at an optimum). A level has at least one, so capacities bound the number of levels.
        """
        pairs, prices = self.program.pairs, level.multipliers.prices
        worth = prices * self.program.usable_rows
        slack = self.program.usable_rows - pairs.loads @ tasks
        scarce = (worth > least * worth.sum()) & (worth / max(worth.sum(), 1e-300) > slack)
        if level.multipliers.pair_cost.any():  # other conditions weigh in too: go by the sum of what all charge
            return share > 1e-6 * share.max(initial=0.0)
        needed = np.asarray(pairs.loads.T @ scarce.astype(float)).ravel()
        return pairs.min(needed) > 0

    def _bound(self, level: _Level, floor: Float, tasks: Float) -> tuple[float, Float]:
        """Proven bound on the common level of the rising users given the floors, and the weight of each in it."""
        program = self.program
        cost = self._costs(level)
        best = self.c if not self.by_server else np.where(program.instance.eligible, self.c, 0.0).max(axis=1)
        low, high = best * program.low if not self.by_server else np.zeros(len(cost)), best * program.most
        low = np.maximum(low, np.where(level.users, 0.0, floor))
        values = program.pairs.sum(tasks * program.pairs.of(self.c))
        poorest = level.users & (values <= values[level.users].min() * (1 + RISING))
        theta = np.where(poorest, np.maximum(cost, 0.0), 0.0)
        if theta.sum() <= 0:
            return np.inf, theta
        factor = 1.0 / theta.sum()
        left = cost - theta  # what a unit of share costs beyond its worth
        charge = -left * np.where(left < 0, high, low)
        back = float(level.multipliers.prices @ program.usable_rows) + level.multipliers.constant
        return float(factor * (back + charge.sum())), theta * factor

    def _level_prices(self, level: _Level, floor: Float, tasks: Float) -> Float:
        """Derivative of the max-min level by each capacity, in natural units of the level."""
        _, theta = self._bound(level, floor, tasks)
        cost = self._costs(level)
        held = theta > 0
        factor = float(theta[held].sum() / cost[held].sum()) if held.any() else 0.0
        objective = self.program.objective
        assert isinstance(objective, Leximin)
        return level.multipliers.prices * factor * self.cone.model.level(objective.share)

    def _finish(self, floor: Float, record: list[_Level], prices: Float | None) -> Answer:
        """Tasks at the floors found, and the certificate: a dual bound for each level, or the bottleneck condition."""
        program = self.program
        objective = program.objective
        assert isinstance(objective, Leximin)
        single = self._on_one_pool
        if single:
            with np.errstate(invalid="ignore"):
                tasks: Float = np.clip(floor / self.c, program.low, program.high)
        else:
            if not len(record):
                z = cp.Variable()
                self._solve(z, [z <= 1, *self._floors(floor * (1 - 1e-10), floor > 0)])
            tasks = self.cone.tasks()
            if not self.cone.rest:  # who floats above its level for want of anything to hold it is brought down to it
                held = program.pairs.sum(tasks * program.pairs.of(self.c))
                least = np.maximum(floor, 0.0 if self.by_server else self.c * program.low)
                with np.errstate(divide="ignore", invalid="ignore"):
                    tasks = tasks * np.where(held > least, least / held, 1.0)[program.pairs.user]
        tasks = certify.repair(program, tasks)
        violation = certify.measured_violation(program, tasks)
        blocks = certify.block_violation(self.cone, tasks)
        if single:
            gap = bottlenecks(Pool(program, objective.share), tasks).gap(program.usable)
            gaps: tuple[float, ...] = (gap,)
        else:
            values = program.pairs.sum(tasks * program.pairs.of(self.c))
            with np.errstate(divide="ignore", invalid="ignore"):
                short = np.max(np.where(floor > 0, 1.0 - values / floor, 0.0), initial=0.0)
            gaps = tuple(self._gap(level, values, tasks) for level in record) or (max(float(short), 0.0),)
            gap = float(np.max([*gaps, float(short)]))  # a NaN stays one
        if prices is None:
            prices = np.zeros(program.pairs.loads.shape[0])
        return Answer(
            tasks, gap if gap >= 0 else (0.0 if gap < 0 else np.inf), violation, "cone", prices, blocks, gaps=gaps
        )

    def _gap(self, level: _Level, values: Float, tasks: Float) -> float:
        top, _ = self._bound(level, values, tasks)
        achieved = float(values[level.users].min())
        return max(top / achieved - 1.0, level.excess, 0.0) if achieved > 0 else np.inf
