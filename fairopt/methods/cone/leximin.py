"""Leximin of any linear share under any constraints, as a sequence of programs.

Each level maximises the common level z of the users still rising. The dual values show which users cannot rise, with a
bound that proves it; where doubt remains, a second program tests all doubtful users at once, so there is never one
solve per user. Task limits cost no solve each either: between two bottlenecks the sorted limits are bisected.

Under bounds only, a share with the same coefficients on every server is solved by `fairopt.methods.cluster.leximin`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fairopt.certificate import Try
from fairopt.evidence.levels import LevelDuals
from fairopt.evidence.pool import Bottlenecked
from fairopt.evidence.written import Written
from fairopt.formulation import solvers
from fairopt.formulation.pool_users import Pool
from fairopt.formulation.program import ConeModel, Program
from fairopt.methods.arrays import Bool, Float, Int
from fairopt.methods.clean_levels import raised_to_bounds, without_noise
from fairopt.methods.cone.levels import STEP, Asked, ByCvxpy, BySimplex, Found, LevelPrograms
from fairopt.methods.cone.single_point import levels_above, single_point
from fairopt.methods.cone.solve import _SolverFailed, by_chain, linear_only
from fairopt.methods.settings import Proposals, Settings
from fairopt.proofs.conditions import repair
from fairopt.proofs.conic import further_conditions
from fairopt.proofs.lagrangian import Multipliers
from fairopt.proofs.levels import LevelDual, further_charges
from fairopt.proofs.proposal import Evidence, Proposal
from fairopt.runtime.progress import tell

NOISE = 1e-9  # a price below this part of all, on a capacity with more than this left, is a solver's rounding
TIE = 1e-9  # relative difference of costs that is rounding
# What a level may be worth of those before it, both relatively: where a curved condition leaves later levels a single
# point, prices of earlier ones are unbounded, and solvers fail. A level is then overstated by about 1 / worth at most,
# and the earlier ones lose its square. With these CLARABEL certified all but one of 60 random pools under logarithms
# or after alpha-fair tiers. Where demands are traces, earlier levels can be worth more.
# `levels_above` is tried first.
TRIES = ((3e5, True), (3e5, False), (1e5, False), (np.inf, False))
RISING = 1e-6  # a user this far above the level, relatively, can rise


def solve_leximin(program: Program, settings: Settings) -> Proposals:
    """Leximin through CVXPY, by one solver after the other until one is certified."""

    def propose(name: str) -> Iterator[Proposal]:
        for worth, single in TRIES if solvers.has_second_try(name) else TRIES[:2]:
            levels = _LeximinPrograms(program, name, settings, worth, single)
            if linear_only(settings, name) and not solvers.all_linear(c for _, _, c in levels.cone.rest):
                return
            yield levels.proposal()
            if not levels.curved or settings.late:
                return

    return by_chain(settings, propose)


class _LeximinPrograms:
    """The programs of one solver, level after level."""

    def __init__(self, program: Program, solver: str, settings: Settings, worth: float, single: bool) -> None:
        self.program, self.solver, self.settings, self.single = program, solver, settings, single
        self.cone = ConeModel(program, solver)
        self.share = program.term.share
        self.level = self.cone.model.level(self.share)
        unit = program.instance.weights * self.level
        c = self.share.coefficients(program.instance)
        self.by_server = c.ndim == 2
        self.c = c / unit[:, None] if self.by_server else c / unit
        self.cap = np.full(len(unit), np.inf)  # each user's level at its limit
        if not self.by_server:  # else tasks and share are not proportional, and a limit is one more condition
            with np.errstate(over="ignore"):
                self.cap = np.where(np.isfinite(program.high), self.c * program.high, np.inf)
        self.further = further_conditions(self.cone)
        self.curved = self.further is not None and self.further.curved
        per_task = program.pairs.of(self.c)
        linear = not self.curved and (self.further is not None or not (self.cone.rest or self.cone.required))
        self.programs: LevelPrograms
        if settings.solver is None and solver == "HIGHS" and linear:
            self.programs = BySimplex(self.cone, self.further, per_task, settings)
        else:
            self.programs = ByCvxpy(self.cone, self.further, per_task, settings, solver, worth)
        self.shut = np.zeros(len(program.pairs), dtype=bool)  # pairs where users hold nothing at all optima so far
        self.dual: Float | None = None  # of the further conditions, after the last program
        self.sizes: Float | None = None

    @property
    def _on_one_pool(self) -> bool:
        """Whether the bottleneck condition proves the answer."""
        return self.program.pairs.single and not self.cone.rest and not self.by_server

    def proposal(self) -> Proposal:
        """Tasks and evidence by this solver, or the attempt that failed."""
        try:
            tasks, evidence = self._fill()
        except _SolverFailed as failure:
            return Proposal("cone", attempt=Try(self.solver, str(failure), 0.0))
        status = f"optimal ({self.programs.solves} programs)"
        return Proposal("cone", tasks, evidence, attempt=Try(self.solver, status, 0.0))

    def _common_level(self, rising: Bool, floor: Float) -> Found:
        """The largest level of the rising users while the others keep their floors."""
        return self.programs.solve(Asked(np.where(rising, 0.0, floor), rising.astype(float), ~rising))

    def _reaches(self, level: float, rising: Bool, floor: Float, start: Float) -> bool:
        """Whether all rising users can be at ``min(limit, level)`` together, by a program that is always feasible."""
        way = np.where(rising, np.minimum(self.cap, level) - start, 0.0)
        found = self.programs.solve(Asked(np.where(rising, start, floor), way, np.zeros_like(rising), 1.0))
        return found.level >= 1 - 1e-9

    def _fill(self) -> tuple[Float, Evidence]:
        program = self.program
        n = program.instance.n_users
        rising = (self.cap > 0) & (program.most > 0)
        floor = np.zeros(n)  # levels of frozen users, in units of the max-min level
        holdings: list[LevelDual] = []
        prices: Float | None = None
        previous, single = 0.0, False
        while rising.any():
            tell(f"levels by {self.solver}, users settled", n - int(rising.sum()), n)
            found = self._common_level(rising, floor)
            level = found.level
            pinned = np.zeros(n, dtype=bool)
            if level >= self.cap[rising].min() * (1 - 1e-9):  # a limit holds all rising users back
                at_limit = self._limits_below_bottleneck(rising, floor, previous)
                if at_limit is None:
                    floor = np.where(rising, self.cap, floor)
                    break
                pinned = at_limit
                if pinned.any():
                    floor = np.where(rising & pinned, self.cap, floor)
                    rising &= ~pinned
                    found = self._common_level(rising, floor)
                    level = found.level
            if not np.isfinite(level) or level <= 0:
                raise _SolverFailed(f"level {level:.3g} of all left, and only levels above zero can be proved")
            tasks = repair(program, self.cone.tasks())
            charged = self._charged(found, tasks, rising)
            cost = self._costs(charged)
            if prices is None:
                prices = self._level_prices(charged, cost, rising, tasks) if not pinned.any() else 0.0 * charged.prices
            priced = cost * (rising & self._poorest(rising, tasks))
            stuck = rising & self._held_down(charged, tasks, priced, 1e-8)
            weak = stuck & ~self._held_down(charged, tasks, priced, 1e-5)  # by a price that may be noise
            held = [self._holding(np.flatnonzero(stuck & ~weak), charged)]
            if weak.any() and self._on_one_pool:
                held[0] = replace(held[0], users=np.flatnonzero(stuck))
            elif weak.any():
                firm, why = self._confirm(rising, weak, level, floor)
                stuck &= ~weak | firm
                held.append(replace(why, users=np.flatnonzero(firm)))
            if self.cone.rest or not stuck.any():
                levels = self.programs.relative @ self.cone.unknowns.value
                doubt = rising & ~stuck & (levels <= level * (1 + RISING))
                if doubt.any():
                    more, why = self._confirm(rising, doubt, level, floor)
                    stuck |= more
                    held.append(replace(why, users=np.flatnonzero(more)))
            if not stuck.any():
                stuck = rising & (found.duals >= 0.5 * found.duals[rising].max())  # the certificate shows the loss
                held = [replace(held[0], users=np.flatnonzero(stuck))]
            floor = np.where(stuck, np.minimum(level, self.cap), floor)
            rising &= ~stuck
            held = [h for h in held if len(h.users)]
            holdings += held
            self._close(held, tasks)
            previous = level
            if self.curved and self.single and rising.any() and len(held) == 1:
                above, settled, values = self._above_single_point(holdings, rising)
                holdings += above
                floor = np.where(settled, np.minimum(values, self.cap), floor)
                rising &= ~settled
                single = not rising.any()
        return self._finish(floor, holdings, prices, single)

    def _above_single_point(self, holdings: list[LevelDual], rising: Bool) -> tuple[list[LevelDual], Bool, Float]:
        """What holds users above a level where a curved condition leaves a single point, who these are, and all levels.

        Limits hold some of them. Where it leaves more points, that is nobody; else the unknowns become those of the
        point, and the level's own holding is proved there.
        """
        program, cone, further = self.program, self.cone, self.further
        none = list[LevelDual](), np.zeros(len(rising), dtype=bool), np.zeros(len(rising))
        if further is None or holdings[-1].dual is None or not holdings[-1].dual.any():
            return none
        near = np.asarray(cone.unknowns.value, dtype=float)
        point = single_point(program, further, self.programs.relative, holdings[-1], near, rising, self.cap)
        if point is None:
            return none
        tasks = repair(program, point.unknowns * cone.scale)
        tasks = raised_to_bounds(program, further, [*holdings[:-1], point.holding], tasks)
        per_task = program.pairs.of(self.c)
        above = levels_above(program, further, per_task, point.holding, tasks, point.rising)
        if not above and point.rising.any():
            return none
        holdings[-1] = point.holding
        cone.unknowns.save_value(tasks / cone.scale)
        further.save(point.others)
        settled = rising & ~point.rising
        settled[[user for holding in above for user in holding.users]] = True
        return above, settled, program.pairs.sum(tasks * per_task)

    def _limits_below_bottleneck(self, rising: Bool, floor: Float, previous: float) -> Bool | None:
        """Users who meet their limit before the next bottleneck, by bisection over the limits; None if all do."""
        limits = np.unique(self.cap[rising & np.isfinite(self.cap)])
        start = np.minimum(previous, self.cap) * (1 - 1e-10)

        def fails(k: int) -> bool:
            return not self._reaches(float(limits[k]), rising, floor, start)

        n = len(limits)
        if np.isfinite(self.cap[rising]).all():  # often all users reach their limits
            if not fails(n - 1):
                return None
            n -= 1
        reached = bisect_left(range(n), True, key=fails)
        return rising & (self.cap <= limits[reached - 1]) if reached else np.zeros(len(floor), dtype=bool)

    def _confirm(self, rising: Bool, doubt: Bool, level: float, floor: Float) -> tuple[Bool, LevelDual]:
        """The doubtful users who cannot rise, and what holds them, by programs that raise all by a small step."""
        doubt, near = doubt.copy(), 1 - 1e-10
        while True:
            bases, rates = np.where(rising, 0.0, floor * near), rising.astype(float)
            found = self.programs.solve(Asked(bases, rates, ~rising, level * near, doubt))
            up_now = doubt & (STEP * found.rose > RISING)
            if not up_now.any():
                tasks = repair(self.program, self.cone.tasks())
                return doubt, self._holding(np.flatnonzero(doubt), self._charged(found, tasks, rising))
            doubt &= ~up_now
            if not doubt.any():
                return doubt, LevelDual(np.flatnonzero(doubt), np.zeros(len(self.program.usable_rows)))

    def _charged(self, found: Found, tasks: Float, rising: Bool) -> Multipliers:
        """Multipliers of the last program, without prices that are rounding."""
        program, pairs = self.program, self.program.pairs
        prices = found.prices
        worth = prices * program.usable_rows
        slack = program.usable_rows - pairs.loads @ tasks
        noise = (worth <= NOISE * worth.max(initial=0.0)) & (slack > NOISE)
        prices = np.where(noise, 0.0, prices)
        if self.further is None:
            return Multipliers(prices, np.zeros(len(pairs)))
        assert found.dual is not None
        self.dual, self.sizes = found.dual, self.further.sizes()
        out = self.further.charges(self.dual, self.sizes, len(prices))
        if self.curved:
            values = pairs.sum(tasks * pairs.of(self.c))
            above = rising & (values > values[rising].min() * (1 + RISING)) & (values < self.cap * (1 - RISING))
            free = np.flatnonzero(above[pairs.user] & (tasks * pairs.of(self.c) > RISING * values[pairs.user]))
            costs = np.asarray(pairs.loads.T @ prices).ravel()[free]
            self.dual = self.further.charging_nothing(self.dual, costs, free)
            out = self.further.charges(self.dual, self.sizes, len(prices))
        return replace(out, prices=prices)

    def _holding(self, users: Int, charged: Multipliers) -> LevelDual:
        """The prices and duals of the last program, as what holds the users given."""
        return LevelDual(users, charged.prices, self.dual, self.sizes)

    def _costs(self, charged: Multipliers) -> Float:
        """The least cost of a unit of each user's relative share."""
        pairs = self.program.pairs
        cost = np.asarray(pairs.loads.T @ charged.prices).ravel() + charged.pair_cost
        return np.maximum(pairs.min(np.where(self.shut, np.inf, cost / pairs.of(self.c))), 0.0)

    def _poorest(self, rising: Bool, tasks: Float) -> Bool:
        """The rising users at the lowest level."""
        values = self.program.pairs.sum(tasks * self.program.pairs.of(self.c))
        return rising & (values <= values[rising].min() * (1 + RISING))

    def _held_down(self, charged: Multipliers, tasks: Float, priced: Float, least: float) -> Bool:
        """Users who need something scarce wherever they may run: they cannot rise, however little of it they need.

        A capacity is scarce if its price, as a part of the level, is at least ``least`` and larger than its slack
        (their product is zero at an optimum). Each level has at least one, so capacities bound the number of levels.
        """
        pairs, prices = self.program.pairs, charged.prices
        worth = prices * self.program.usable_rows
        slack = self.program.usable_rows - pairs.loads @ tasks
        scarce = (worth > least * worth.sum()) & (worth / max(worth.sum(), 1e-300) > slack)
        if charged.pair_cost.any():  # other conditions have prices too: test the sum of all
            return priced > 1e-6 * priced.max(initial=0.0)
        needed = np.asarray(pairs.loads.T @ scarce.astype(float)).ravel()
        return pairs.min(np.where(self.shut, np.inf, needed)) > 0

    def _close(self, holdings: Sequence[LevelDual], tasks: Float) -> None:
        """Let users hold nothing where it costs more than the least, as at all optima.

        A pair that a solver left more than its tolerance has unreliable prices, and is not closed.
        """
        pairs = self.program.pairs
        if pairs.single:
            return
        part = tasks * pairs.of(self.c)
        unused = part <= RISING * pairs.sum(part)[pairs.user]
        for holding in holdings:
            cost = np.asarray(pairs.loads.T @ holding.prices).ravel()
            further = further_charges(self.further, holding)
            size = 0.0 * cost
            if further is not None and further.size is not None:
                cost, size = cost + further.pair_cost, cost + further.size
            by_pair = np.where(self.shut, np.inf, cost / pairs.of(self.c))
            cheapest = np.maximum(pairs.min(by_pair), 0.0)[pairs.user]
            noise = np.maximum(TIE * cheapest, NOISE * 100 * size / pairs.of(self.c))  # costs may cancel
            dearer = unused & ~self.shut & (by_pair > cheapest + noise)
            if dearer.any():
                self.programs.close(dearer)
                self.shut |= dearer

    def _level_prices(self, charged: Multipliers, cost: Float, rising: Bool, tasks: Float) -> Float:
        """Derivative of the max-min level by each capacity, in natural units of the level."""
        paid = float(cost[self._poorest(rising, tasks)].sum())
        return charged.prices * (self.level / paid if paid > 0 else 0.0)

    def _finish(
        self, floor: Float, holdings: list[LevelDual], prices: Float | None, single: bool
    ) -> tuple[Float, Evidence]:
        """Tasks at the floors found, and the evidence: what holds users at each, or on one pool the bottlenecks."""
        program = self.program
        if self._on_one_pool:
            with np.errstate(invalid="ignore"):
                tasks: Float = np.clip(floor / self.c, program.low, program.high)
            return tasks, Bottlenecked(Pool(program, self.share), prices=prices)
        if not len(holdings):
            none = np.zeros(len(floor))
            self.programs.solve(Asked(floor * (1 - 1e-10), none, none > 0, 1.0))
        tasks = self.cone.tasks()
        if not self.cone.rest:  # a user above its level, held there by nothing, is brought down to it
            held = program.pairs.sum(tasks * program.pairs.of(self.c))
            least = np.maximum(floor, 0.0 if self.by_server else self.c * program.low)
            with np.errstate(divide="ignore", invalid="ignore"):
                tasks = tasks * np.where(held > least, least / held, 1.0)[program.pairs.user]
        if prices is None:
            prices = np.zeros(program.pairs.loads.shape[0])
        if not self.curved:
            holdings = without_noise(program, self.further, holdings, repair(program, tasks))
        elif not single:
            tasks = raised_to_bounds(program, self.further, holdings[:-1], repair(program, tasks))
        further = None if self.further is None else replace(self.further, further=())  # without variables
        return tasks, LevelDuals(holdings, Written.of(self.cone), prices, further)
