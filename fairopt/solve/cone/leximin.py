"""Leximin of any linear share under any constraints, as a sequence of programs.

With levels ``s_j = R_j x`` of users, in units of the max-min level, each program is

    max z   subject to   s_j >= z for free users,   s_j >= floor_j for fixed ones,   and the policy's constraints.

A free user with a positive multiplier is at z in every optimum, and is fixed there (Danna et al. 2012). If none is
sure, a second program tests all users in doubt at once (Proposition 7.6), and limits are bisected between two
bottlenecks (7.7). On one pool bottlenecks prove the answer; elsewhere the multipliers of each level do, by Bound 5.8.

Why not one program per user and level, which needs no multipliers: n^2 programs. Why multipliers are not simply
compared with 0: a solver leaves noise in them, and one user fixed too early spoils all later levels; one left free by
mistake costs a program. So a price counts from 1e-8 of all, is taken as it is from 1e-5, and is tested between.

Under linear constraints rounding of a level moves later ones by as much as coefficients say; refined bases of HiGHS
keep it at 1e-16 (`levels.BySimplex`). Under a curved constraint a slack d of a level moves later ones by its root, and
the optimum of a level is often a single point, where later programs have no interior: `single_point` solves that level
by Newton's method, and where this fails earlier levels may lose a little, at a penalty (`PENALTIES`). See *Leximin
under general constraints* in docs/methods/cone.md. Under bounds only, a share with the same coefficients on every
server is solved by `fairopt.solve.cluster.leximin`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fairopt.certificate import Try
from fairopt.proof.conic import further_conditions
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.levels import LevelDuals
from fairopt.proof.evidence.pool import Bottlenecked
from fairopt.proof.evidence.written import Written
from fairopt.proof.feasibility import repair
from fairopt.proof.lagrangian import Multipliers
from fairopt.proof.level_bounds import further_charges
from fairopt.proof.proposal import Evidence, Proposal
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import NOISE, TINY
from fairopt.solve.clean_levels import raised_to_bounds, without_noise
from fairopt.solve.cone.levels import STEP, ByCvxpy, BySimplex, LevelProblem, LevelPrograms, LevelSolution
from fairopt.solve.cone.solve import _SolverFailed, by_chain, linear_only
from fairopt.solve.form import solvers
from fairopt.solve.form.pool_users import Pool
from fairopt.solve.form.program import ConeModel, Program
from fairopt.solve.settings import Proposals, Settings

# The penalty on relative losses of earlier levels, and whether single points are looked for. If a curved condition
# leaves later levels a single point, prices of earlier ones are unbounded and solvers fail. With a penalty a level is
# too high by at most about 1 / penalty, and earlier ones lose its square. With these CLARABEL certified all but one of
# 60 random pools under logarithms or after alpha-fair tiers. Without single points none was certified under a
# spread of shares that binds.
PENALTIES = ((3e5, True), (3e5, False), (1e5, False), (np.inf, False))
RISING = 1e-6  # a user this far above the level, relatively, can rise


def solve_leximin(program: Program, settings: Settings) -> Proposals:
    """Leximin by solvers in turn until one is certified."""

    def propose(name: str) -> Iterator[Proposal]:
        for penalty, single in PENALTIES if solvers.tries(name) > 1 else PENALTIES[:2]:
            levels = _LeximinPrograms(program, name, settings, penalty, single)
            if linear_only(settings, name) and not solvers.all_linear(c for _, _, c in levels.cone.rest):
                return
            yield levels.proposal()
            if not levels.curved or settings.clock.late:
                return

    return by_chain(settings, propose)


class _LeximinPrograms:
    """The programs of one solver, level after level."""

    def __init__(self, program: Program, solver: str, settings: Settings, penalty: float, single: bool) -> None:
        self.program, self.solver, self.settings, self.single = program, solver, settings, single
        self.cone = ConeModel(program, solver)
        self.share = program.term.share
        self.level = self.cone.model.level(self.share)
        unit = program.instance.weights * self.level
        c = self.share.coefficients(program.instance, levelled=True)
        self.by_server = c.ndim == 2
        self.c = c / unit[:, None] if self.by_server else c / unit
        self.cap = np.full(len(unit), np.inf)  # each user's level at its limit
        if not self.by_server:  # else shares are not proportional to tasks, and a limit is a further condition
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
            self.programs = ByCvxpy(self.cone, self.further, per_task, settings, solver, penalty)
        self.excluded = np.zeros(len(program.pairs), dtype=bool)  # pairs that are zero at all optima so far
        self.dual: Float | None = None  # of the further conditions in the last program
        self.sizes: Float | None = None

    @property
    def _on_one_pool(self) -> bool:
        """Whether the bottleneck condition proves the answer."""
        free = all(self.program.rows_of(block) == [] for block in self.program.rest)
        return free and self.program.pairs.single and not self.by_server

    def proposal(self) -> Proposal:
        """Tasks and evidence by this solver, or the failed attempt."""
        try:
            tasks, evidence = self._fill()
        except _SolverFailed as failure:
            return Proposal("cone", attempt=Try(self.solver, str(failure), 0.0))
        status = f"optimal ({self.programs.solves} programs)"
        return Proposal("cone", tasks, evidence, attempt=Try(self.solver, status, 0.0))

    def _common_level(self, free: Bool, floor: Float) -> LevelSolution:
        """The largest level of the free users while the others keep their floors."""
        return self.programs.solve(LevelProblem(np.where(free, 0.0, floor), free.astype(float), ~free))

    def _reaches(self, level: float, free: Bool, floor: Float, start: Float) -> bool:
        """Whether all free users can be at ``min(limit, level)`` together, by a program that is always feasible."""
        rates = np.where(free, np.minimum(self.cap, level) - start, 0.0)
        solution = self.programs.solve(LevelProblem(np.where(free, start, floor), rates, np.zeros_like(free), 1.0))
        return solution.level >= 1 - 1e-9  # but for the solver's tolerance

    def _fill(self) -> tuple[Float, Evidence]:
        """Solve level after level."""
        program = self.program
        n = program.instance.n_users
        free = (self.cap > 0) & (program.most > 0)
        floor = np.zeros(n)  # levels of fixed users, in units of the max-min level
        holdings: list[Dual] = []
        prices: Float | None = None
        previous, single = 0.0, False
        while free.any():
            tell(f"levels by {self.solver}, users settled", n - int(free.sum()), n)
            bottleneck = self._common_level(free, floor)
            level = bottleneck.level
            at_limit = np.zeros(n, dtype=bool)
            # limits are no rows, as then most levels would be of limits: a limit is binding if the level is at it
            if level >= self.cap[free].min() * (1 - 1e-9):
                limited = self._limits_below_bottleneck(free, floor, previous)
                if limited is None:
                    floor = np.where(free, self.cap, floor)
                    break
                at_limit = limited
                if at_limit.any():
                    floor = np.where(free & at_limit, self.cap, floor)
                    free &= ~at_limit
                    bottleneck = self._common_level(free, floor)
                    level = bottleneck.level
            if not np.isfinite(level) or level <= 0:
                raise _SolverFailed(f"the common level is {level:.3g}, and only levels above zero can be proved")
            tasks = repair(program, self.cone.tasks())
            multipliers = self._multipliers(bottleneck, tasks, free)
            cost = self._costs(multipliers)
            if prices is None:
                prices = 0.0 * multipliers.prices
                if not at_limit.any():
                    prices = self._level_prices(multipliers, cost, free, tasks)
            priced = cost * (free & self._at_lowest_level(free, tasks))
            fixed = free & self._bound(multipliers, tasks, priced, 1e-8)
            weak = fixed & ~self._bound(multipliers, tasks, priced, 1e-5)  # by a price that may be noise: tested below
            new = [self._holding(np.flatnonzero(fixed & ~weak), multipliers)]
            if weak.any() and self._on_one_pool:
                new[0] = replace(new[0], fixed=np.flatnonzero(fixed))
            elif weak.any():
                confirmed, holding = self._cannot_rise(free, weak, level, floor)
                fixed &= ~weak | confirmed
                new.append(replace(holding, fixed=np.flatnonzero(confirmed)))
            if self.cone.rest or not fixed.any():
                levels = self.programs.relative @ self.cone.unknowns.value
                doubt = free & ~fixed & (levels <= level * (1 + RISING))
                if doubt.any():
                    confirmed, holding = self._cannot_rise(free, doubt, level, floor)
                    fixed |= confirmed
                    new.append(replace(holding, fixed=np.flatnonzero(confirmed)))
            if not fixed.any():  # a solver's multipliers contradict its point
                fixed = free & (bottleneck.duals >= 0.5 * bottleneck.duals[free].max())  # the gate measures the loss
                new = [replace(new[0], fixed=np.flatnonzero(fixed))]
            floor = np.where(fixed, np.minimum(level, self.cap), floor)
            free &= ~fixed
            new = [h for h in new if len(h.fixed)]
            holdings += new
            self._exclude(new, tasks)
            previous = level
            if self.curved and self.single and free.any() and len(new) == 1:
                above, fixed, values = self._above_single_point(holdings, free)
                holdings += above
                floor = np.where(fixed, np.minimum(values, self.cap), floor)
                free &= ~fixed
                single = not free.any()
        return self._finish(floor, holdings, prices, single)

    def _above_single_point(self, holdings: list[Dual], free: Bool) -> tuple[list[Dual], Bool, Float]:
        """Holdings above a level at which a curved condition leaves a single point, the users fixed, and all levels.

        If the point is single, it replaces the unknowns, and its multipliers those of the level; else nobody is fixed.
        """
        from fairopt.solve.cone.single_point import Optimality, levels_above

        program, cone, further = self.program, self.cone, self.further
        none = list[Dual](), np.zeros(len(free), dtype=bool), np.zeros(len(free))
        if further is None or holdings[-1].in_cone is None or not holdings[-1].in_cone.any():
            return none
        near = np.asarray(cone.unknowns.value, dtype=float)
        point = Optimality(program, further, self.programs.relative, holdings[-1], near, free, self.cap).solved()
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
        fixed = free & ~point.rising
        fixed[[user for holding in above for user in holding.fixed]] = True
        return above, fixed, program.pairs.sum(tasks * per_task)

    def _limits_below_bottleneck(self, free: Bool, floor: Float, previous: float) -> Bool | None:
        """Users whose limits are below the next bottleneck, by bisection; None if all are."""
        limits = np.unique(self.cap[free & np.isfinite(self.cap)])
        start = np.minimum(previous, self.cap) * (1 - 1e-10)  # so that rounding leaves it feasible

        def fails(k: int) -> bool:
            return not self._reaches(float(limits[k]), free, floor, start)

        n = len(limits)
        if np.isfinite(self.cap[free]).all():  # often all users reach their limits
            if not fails(n - 1):
                return None
            n -= 1
        reached = bisect_left(range(n), True, key=fails)
        return free & (self.cap <= limits[reached - 1]) if reached else np.zeros(len(floor), dtype=bool)

    def _cannot_rise(self, free: Bool, doubt: Bool, level: float, floor: Float) -> tuple[Bool, Dual]:
        """The users in doubt who cannot rise, and their holding (Proposition 7.6)."""
        doubt, near = doubt.copy(), 1 - 1e-10
        while True:
            bases, rates = np.where(free, 0.0, floor * near), free.astype(float)
            solution = self.programs.solve(LevelProblem(bases, rates, ~free, level * near, doubt))
            rising = doubt & (STEP * solution.rises > RISING)
            if not rising.any():
                tasks = repair(self.program, self.cone.tasks())
                return doubt, self._holding(np.flatnonzero(doubt), self._multipliers(solution, tasks, free))
            doubt &= ~rising
            if not doubt.any():
                return doubt, Dual(np.zeros(len(self.program.usable_rows)), fixed=np.flatnonzero(doubt))

    def _multipliers(self, found: LevelSolution, tasks: Float, free: Bool) -> Multipliers:
        """Multipliers of the last program, without those that are noise."""
        program, pairs = self.program, self.program.pairs
        prices = found.prices
        value = prices * program.usable_rows
        slack = program.usable_rows - pairs.loads @ tasks
        noise = (value <= NOISE * value.max(initial=0.0)) & (slack > NOISE)  # complementary slackness says 0
        prices = np.where(noise, 0.0, prices)
        if self.further is None:
            return Multipliers(prices, np.zeros(len(pairs)))
        assert found.dual is not None
        self.dual, self.sizes = found.dual, self.further.sizes()
        out = self.further.charges(self.dual, self.sizes, len(prices))
        if self.curved:
            values = pairs.sum(tasks * pairs.of(self.c))
            above = free & (values > values[free].min() * (1 + RISING)) & (values < self.cap * (1 - RISING))
            of_above = np.flatnonzero(above[pairs.user] & (tasks * pairs.of(self.c) > RISING * values[pairs.user]))
            costs = np.asarray(pairs.loads.T @ prices).ravel()[of_above]
            self.dual = self.further.charging_nothing(self.dual, costs, of_above)
            out = self.further.charges(self.dual, self.sizes, len(prices))
        return replace(out, prices=prices)

    def _holding(self, users: Indices, multipliers: Multipliers) -> Dual:
        """The holding of users by the last program's multipliers."""
        return Dual(multipliers.prices, fixed=users, in_cone=self.dual, sizes=self.sizes)

    def _costs(self, multipliers: Multipliers) -> Float:
        """The least cost of a unit of each user's relative share."""
        pairs = self.program.pairs
        cost = np.asarray(pairs.loads.T @ multipliers.prices).ravel() + multipliers.pair_cost
        return np.maximum(pairs.min(np.where(self.excluded, np.inf, cost / pairs.of(self.c))), 0.0)

    def _at_lowest_level(self, free: Bool, tasks: Float) -> Bool:
        """The free users at the lowest level."""
        values = self.program.pairs.sum(tasks * self.program.pairs.of(self.c))
        return free & (values <= values[free].min() * (1 + RISING))

    def _bound(self, multipliers: Multipliers, tasks: Float, priced: Float, least: float) -> Bool:
        """Users who need a scarce capacity wherever they may run, however little of it: they cannot rise.

        A capacity is scarce if its price, relative to the level, is at least ``least`` and above its slack
        (complementary slackness). Each level has at least one, so there are no more levels than capacities.
        """
        pairs, prices = self.program.pairs, multipliers.prices
        value = prices * self.program.usable_rows
        slack = self.program.usable_rows - pairs.loads @ tasks
        scarce = (value > least * value.sum()) & (value / max(value.sum(), TINY) > slack)
        if np.any(multipliers.pair_cost):  # other conditions have multipliers too
            return priced > 1e-6 * priced.max(initial=0.0)
        needed = np.asarray(pairs.loads.T @ scarce.astype(float)).ravel()
        return pairs.min(np.where(self.excluded, np.inf, needed)) > 0

    def _exclude(self, holdings: Sequence[Dual], tasks: Float) -> None:
        """Fix pairs of positive reduced cost at zero, as they are at all optima.

        A pair to which a solver gave more than its tolerance has unreliable prices, and stays.
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
            by_pair = np.where(self.excluded, np.inf, cost / pairs.of(self.c))
            cheapest = np.maximum(pairs.min(by_pair), 0.0)[pairs.user]
            noise = np.maximum(NOISE * cheapest, NOISE * 100 * size / pairs.of(self.c))  # costs may cancel
            costlier = unused & ~self.excluded & (by_pair > cheapest + noise)
            if costlier.any():
                self.programs.exclude(costlier)
                self.excluded |= costlier

    def _level_prices(self, multipliers: Multipliers, cost: Float, free: Bool, tasks: Float) -> Float:
        """Derivative of the max-min level by each capacity, in natural units of the level."""
        paid = float(cost[self._at_lowest_level(free, tasks)].sum())
        return multipliers.prices * (self.level / paid if paid > 0 else 0.0)

    def _finish(self, floor: Float, holdings: list[Dual], prices: Float | None, single: bool) -> tuple[Float, Evidence]:
        """Tasks at the floors, with holdings as evidence, or bottlenecks on one pool."""
        program = self.program
        if self._on_one_pool:
            with np.errstate(invalid="ignore"):
                tasks: Float = np.clip(floor / self.c, program.low, program.high)
            return tasks, Bottlenecked(Pool(program, self.share), prices=prices)
        if not len(holdings):
            none = np.zeros(len(floor))
            self.programs.solve(LevelProblem(floor * (1 - 1e-10), none, none > 0, 1.0))
        tasks = self.cone.tasks()
        if not self.cone.rest:  # users above their levels are lowered to them
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
