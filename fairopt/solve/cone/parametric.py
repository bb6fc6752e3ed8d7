"""`FairnessEfficiency` by a certified search along the sum of shares (Proposition 7.8).

The objective is ``h = b_1 log M + b_2 log m`` with the power mean M and the mean m of levels. It is not concave in
general, but at a fixed m it depends on M alone, a concave power mean (convex, and to be small, if beta < 0):

    max M(z)   subject to   mean(z) = m   and the policy's constraints.

Multipliers of its optimum give a line ``M <= at + slope m`` for all feasible tasks, and lines bound h at every m
(`fairopt.proof.plane_bound`). The next program is solved where the bound is highest, so that no local optimum is
missed: 10 to 30 programs. Why not a grid of means: it proves nothing between its points. Why not the best known point's
neighbourhood alone: that is the local optimum.

In floats the ends of the range are the difficulty: at the largest mean only one point is feasible, where solvers fail
and prices leave the range of floats. So means stay `NEAR_END` away, prices approach an end by halves (`HALVINGS`), and
lines that are steep there bound little besides their own mean (`away_from_solved`). The optimum is flat: when the gap
is closed a few more programs at the zero of the slopes make the tasks accurate (`POLISH`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from fairopt.blocks.efficiency import FairnessEfficiency, PowerSpread, TotalIs
from fairopt.blocks.marginal import PowerMarginal
from fairopt.blocks.objectives import MaxMin, Objective, Total
from fairopt.certificate import Try
from fairopt.proof import feasibility as conditions
from fairopt.proof import gate
from fairopt.proof import plane_bound as plane
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.evidence.solved import Solved
from fairopt.proof.evidence.tangents import Tangents
from fairopt.proof.gate import JudgedPoint
from fairopt.proof.plane_bound import Cut, PlaneOptimum
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import GAP_TOLERANCE, SUM_ROUNDING
from fairopt.solve.cluster.alpha_fair import prices_on_servers, solve_sum_on_servers
from fairopt.solve.cluster.fixed_sum import most_even
from fairopt.solve.cone.solve import by_chain, solve_problem
from fairopt.solve.dispatch import ask
from fairopt.solve.form.compiled import Posed
from fairopt.solve.form.program import ConeModel, Program
from fairopt.solve.form.units_on_servers import LevelUnits
from fairopt.solve.pool import interior
from fairopt.solve.settings import Proposals, Settings, of_other_programs

PRICES = "prices"  # in place of a solver's name
MISSING = "no prices found"
HALVINGS = 8  # of the distance to a mean whose nearest prices are too far away
FINE = 1e-9  # the gap at which the search stops, or earlier if programs hardly reduce it: tasks err by its root
MAX_PROGRAMS = 60  # programs of a search; 10 to 30 are usual
STALLED = 12  # programs that hardly lower the gap, after which the search stops
POLISH = 8  # programs that only make the tasks more accurate: without, those of 60 draws were up to 1e-4 off
CLOSE = 1e-7  # of a mean: distance from solved means at which it is not solved again
NARROW = 1e-6  # of the largest sum: if the sums differ by less there is no search
NEAR_END = 1e-7  # relative to the measure at an extreme sum, at which solvers may find no feasible point


def search_by_prices(program: Program, settings: Settings) -> bool:
    """Whether prices solve the search's programs: bounds only (limits on servers), and no solver is given."""
    if settings.solver is not None or program.rest:
        return False
    if program.single:
        return bool((program.usable > 0).all())
    # lines have no multipliers of limits, which shares that differ by server need
    free = not (np.isfinite(program.high).any() and conditions.bounds_are_charged(program))
    return free and prices_on_servers(program)


def solve_parametric(program: Program, settings: Settings) -> Proposals:
    """The best allocation along the sum of shares."""
    settings = of_other_programs(settings)
    solve = partial(ask, settings=settings)
    objective = program.term.measure

    def solved(other: Objective) -> tuple[Program, JudgedPoint]:
        """Another objective's answer under the same constraints."""
        subprogram = Program(program.given, other, program.constraints)
        return subprogram, solve(subprogram)

    def largest_sum() -> tuple[Program, JudgedPoint]:
        """The largest sum, by prices if possible: it is only a bound, so ties need not be resolved."""
        subprogram = Program(program.given, Total(objective.share), program.constraints)
        if settings.solver is None and prices_on_servers(subprogram) and subprogram.marginal is not None:
            answer = gate.judge(subprogram, next(solve_sum_on_servers(subprogram, settings)))
            if answer.ok:
                return subprogram, answer
        return subprogram, solve(subprogram)

    total, largest = largest_sum()
    ends: list[tuple[Program, JudgedPoint] | None] = [(total, largest), None]
    starts = [largest.tasks]
    # without lower bounds the smallest sum is 0, which needs no program
    if program.low.any() or conditions.violation_at(program, program.zero_point()[0]) > 0:
        ends[1] = solved(PowerSpread(1.0, objective.share))
    for end in ends:
        if end is not None and not end[1].ok:
            yield Proposal("parametric", attempt=Try("sum of shares", "not certified", 0.0, gap=end[1].gap))
            return
    max_min, answer_of_max_min = solved(MaxMin(objective.share))
    if answer_of_max_min.ok:
        starts += [answer_of_max_min.tasks, _equal_shares(max_min, answer_of_max_min.tasks, objective)]

    def propose(name: str) -> Iterator[Proposal]:
        kind = _Search if name != PRICES else _PoolSearch if program.single else _ServerSearch
        search = kind(program, name, settings, ends, starts)
        status = search.run()
        attempt = Try(name, f"{status} ({len(search.cuts)} programs)", 0.0)
        largest, smallest = (end and (end[0], _proposal(end[1])) for end in ends)
        assert largest is not None
        evidence = Tangents(largest, smallest, search.needed())
        yield Proposal("parametric", search.tasks, evidence, attempt=attempt)

    if search_by_prices(program, settings):
        answer = yield next(propose(PRICES))
        if answer is not None and answer.ok:
            return
    yield from by_chain(settings, propose, "parametric", linear=False)


def _proposal(answer: JudgedPoint) -> Proposal:
    """The proposal that an answer judged."""
    return Proposal(answer.method, answer.tasks, answer.evidence, answer.solver)


def _equal_shares(program: Program, tasks: Float, objective: FairnessEfficiency) -> Float:
    """Tasks reduced to equal shares per weight, the fairest point if all constraints are upper bounds."""
    point = program.point(tasks)
    levels = point.share(objective.share) / point.weights
    return tasks * (levels.min() / np.where(levels > 0, levels, 1.0))[program.pairs.user]


class _Search:
    """The best point and the lines so far, by one solver."""

    def __init__(
        self,
        program: Program,
        solver: str,
        settings: Settings,
        ends: Sequence[tuple[Program, JudgedPoint] | None],
        starts: Sequence[Float],
    ) -> None:
        self.program, self.solver, self.settings = program, solver, settings
        self.objective = program.term.measure
        self.cuts: list[Cut] = []
        self.lines: list[plane.Line] = []
        self.slopes: dict[float, float] = {}  # of the measure's logarithm, by mean
        self.model = ConeModel(program) if program.rest else None  # of the policy's conditions
        self.value, self.tasks = -np.inf, starts[0]
        for tasks in starts:
            self.consider(tasks)
        point = program.point(starts[0])
        self.unit = point.weights.sum() * point.level(self.objective.share)
        largest, smallest = (end and plane.Extreme(end[1].value, end[1].gap) for end in ends)
        assert largest is not None
        self.least, self.most = plane.extremes(program, point, largest, smallest)

    def consider(self, tasks: Float) -> None:
        """Keep feasible tasks if they are better, first scaled up to capacity, where the measure does not fall."""
        program = self.program
        rows, users = program.pairs.loads @ tasks / program.usable_rows, program.pairs.sum(tasks) / program.high
        most = float(np.nan_to_num([*rows, *users]).max())
        full = abs(most - 1.0) <= SUM_ROUNDING
        for candidate in (tasks,) if full or not most > 0 else (tasks / most, tasks):
            candidate = conditions.repair(program, candidate)
            value = plane.log_measure(self.objective, program.point(candidate))
            finite = self.value > -np.inf
            better = value - self.value > SUM_ROUNDING * max(1.0, abs(self.value)) if finite else value > -np.inf
            if better and conditions.violation_at(program, candidate, self.model) <= GAP_TOLERANCE / 10:
                self.value, self.tasks = value, candidate

    def run(self) -> str:
        """Solve at the mean where the bound is highest, until the gap is closed or no longer falls."""
        before, status, polished, stalled, solved = np.inf, "optimal", 0, 0, set[float]()
        if self.most - self.least <= NARROW * self.most:
            status = self.solve(None, np.inf)
        # the measure moves by its exponents times the mean
        end = NEAR_END / max(1.0, *map(abs, self.objective.exponents))
        for _ in range(MAX_PROGRAMS):
            top, mean = self.ceiling().highest()
            gap, between = top - self.value, self.bracket() if polished < POLISH else None
            if between is not None:
                mean, polished = between, polished + 1
            else:
                # certified, and a further program hardly reduces the gap
                if gap <= GAP_TOLERANCE and (gap <= FINE or gap > 0.7 * before):
                    break
                if gap > GAP_TOLERANCE:
                    mean = self.away_from_solved(mean)
                stalled = 0 if gap < 0.9 * before else stalled + 1
                if stalled == STALLED:
                    break
                before = min(gap, before)
            if self.settings.clock.late:
                return "time limit reached"
            mean = float(np.clip(mean, self.least * (1 + end), self.most * (1 - end)))
            if mean in solved:  # the same program again: SCS took 2 s for each of 52
                break
            solved.add(mean)
            status = self.solve(mean, gap)
            if status != "optimal":
                break
        return status

    def ceiling(self, lines: Sequence[plane.Line] | None = None) -> plane.Ceiling:
        """The bound by lines, by default all so far."""
        lines = self.lines if lines is None else lines
        return plane.ceiling(self.objective, lines, self.value, self.most, self.least)

    def needed(self) -> tuple[Cut, ...]:
        """The cuts that the bound needs, chosen greedily: the lowest where the bound by those before is highest."""
        if len(self.lines) < len(self.cuts):
            return tuple(self.cuts)
        top, _ = self.ceiling().highest()
        kept: list[int] = []
        while len(kept) < len(self.cuts):
            most, mean = self.ceiling([self.lines[k] for k in kept]).highest()
            if most <= top + FINE / 10:
                break
            sign = np.sign(self.objective.beta)
            left = [k for k in range(len(self.cuts)) if k not in kept]
            kept.append(min(left, key=lambda k: sign * (self.lines[k].at + self.lines[k].slope * mean)))
        return tuple(self.cuts[k] for k in kept)

    def away_from_solved(self, mean: float) -> float:
        """A mean at some distance from the solved ones, as a steep line bounds little besides its own mean."""
        low = self.ceiling().low
        below = max((m for m in self.slopes if m <= mean), default=low)
        above = min((m for m in self.slopes if m > mean), default=self.most)
        return float(np.clip(mean, below + 0.1 * (above - below), above - 0.1 * (above - below)))

    def bracket(self) -> float | None:
        """The next mean between the best one's neighbours, at the zero of the slopes' secant (Illinois rule).

        None if there is no change of sign, or a neighbour is close enough.
        """
        best = plane.mean_of(self.objective, self.program.point(self.tasks))
        rising = [m for m, slope in self.slopes.items() if slope > 0 and m <= best * (1 + CLOSE)]
        falling = [m for m, slope in self.slopes.items() if slope < 0 and m >= best * (1 - CLOSE)]
        if not rising or not falling:
            return None
        low, high = max(rising), min(falling)
        below, above = self.slopes[low], self.slopes[high]
        part = below / (below - above)
        if min(part, 1.0 - part) * (high - low) <= CLOSE * best:
            return None
        # Illinois: an end that stayed twice counts half, else the secant approaches from one side only
        before, last = list(self.slopes)[-2:]
        if last == low and before <= low:
            part = below / (below - 0.5 * above)
        elif last == high and before >= high:
            part = 0.5 * below / (0.5 * below - above)
        mean = low + (high - low) * part
        return None if mean in self.slopes else mean

    def solve(self, mean: float | None, gap: float) -> str:
        """Find the most even shares at a mean, or at any: a candidate and a line."""
        fixed = () if mean is None else (TotalIs(mean * self.unit, self.objective.share),)
        subprogram = Program(self.program.given, self.objective.evenness, (*self.program.constraints, *fixed))
        subprogram.pairs = self.program.pairs  # the same instance
        tell(f"search along the sum of shares by {self.solver}, gap {gap:.1e}")
        optimum = self.optimum(subprogram, mean)
        if isinstance(optimum, str):
            return optimum
        tasks, solved = optimum
        self.cuts.append(cut := Cut(subprogram, tasks, solved))
        tangent = cut.tangent
        if tangent is not None:
            self.lines.append(line := tangent.line)
        if tangent is not None and mean is not None:
            first, second = self.objective.exponents
            self.slopes[mean] = first * line.slope / (line.at + line.slope * mean) + second / mean
        self.consider(tasks)
        return "optimal"

    def optimum(self, subprogram: Program, mean: float | None) -> tuple[Float, PlaneOptimum] | str:
        """Tasks and multipliers of the most even shares, or the status of the failure."""
        cone = ConeModel(subprogram, self.solver)
        problem = Posed(cp.Maximize(cone.maximand[0]), cone.all_constraints)
        attempt, solved = solve_problem(problem, cone.unknowns, self.solver, self.settings)
        return (cone.tasks(), Solved.of(cone)) if solved else f"{attempt.status} {attempt.message}".strip()


def _of_prices(program: Program, prices: Float, of_sum: float = 0.0) -> Prices:
    """Prices of capacities as evidence, and the multiplier of a fixed sum of shares times that sum."""
    rows = [one for block in program.rest if isinstance(block, TotalIs) for one in program.rows_of(block) or ()]
    return Prices(program, Dual(prices, [(one, of_sum / one.rows.right) for one in rows]))


class _PriceSearch(_Search):
    """The search by prices, which starts with the most even shares at any sum, if these are not zero."""

    def run(self) -> str:
        if self.objective.beta > 0:
            self.solve(None, np.inf)
        return super().run()


class _ServerSearch(_PriceSearch):
    """The search on several servers."""

    def run(self) -> str:
        with np.errstate(all="ignore"):
            self.units = LevelUnits(self.program)
        self.weights = self.program.instance.weights / self.program.instance.weights.sum()
        return super().run()

    def solve(self, mean: float | None, gap: float) -> str:
        """Solve at the mean, or nearer to a solved one: near an end prices may exceed the range of floats."""
        status = super().solve(mean, gap)
        for _ in range(HALVINGS):
            if status == "optimal" or mean is None or self.settings.clock.late:
                break
            solved = np.array([*self.slopes] or [self.least])
            mean = 0.5 * (mean + float(solved[np.abs(solved - mean).argmin()]))
            status = super().solve(mean, gap)
        return status

    def optimum(self, subprogram: Program, mean: float | None) -> tuple[Float, PlaneOptimum] | str:
        with np.errstate(all="ignore"):  # NaN ends the steps
            most_equal = most_even(self.units, self.weights, self.objective.beta, mean)
            if most_equal is None:
                return MISSING
            tasks = np.where(self.units.eligible, most_equal.parts * self.units.per_level, 0.0)
        pairs = subprogram.pairs
        evidence = _of_prices(subprogram, most_equal.prices.T.ravel(), most_equal.price * (mean or 0.0))
        return tasks[pairs.user, pairs.server], evidence


class _PoolSearch(_PriceSearch):
    """The search on one pool, each program from the prices of the nearest mean."""

    def run(self) -> str:
        majorant = self.objective.evenness.majorant(self.program.point(self.tasks))
        assert majorant is not None
        self.problem = interior.of_program(self.program, PowerMarginal(majorant.curves))
        self.row = self.objective.share.coefficients(self.program.instance) / self.unit  # of tasks in the mean
        self.prices: dict[float, Float] = {}  # by mean; the last is that of the mean
        return super().run()

    def optimum(self, subprogram: Program, mean: float | None) -> tuple[Float, PlaneOptimum] | str:
        with np.errstate(all="ignore"):  # NaN ends the steps
            if mean is None:
                optimum = interior.solve_pool(self.problem, interior.sample_of(subprogram, self.problem))
                if optimum is None:
                    return MISSING
                tasks = self.problem.whole(optimum.tasks)
                self.prices[float(self.row @ tasks)] = np.append(optimum.prices, 0.0)
                return tasks, _of_prices(subprogram, optimum.prices)
            at = mean
            for _ in range(HALVINGS):
                optimum = self.at_mean(at)
                if optimum is not None:
                    self.prices[at] = optimum.prices
                    if at == mean:
                        evidence = _of_prices(subprogram, optimum.prices[:-1], float(optimum.prices[-1]) * mean)
                        return self.problem.whole(optimum.tasks), evidence
                at = mean if optimum is not None else 0.5 * (at + self.nearest(at))  # nearer prices as a start
        return MISSING

    def nearest(self, mean: float) -> float:
        """The nearest solved mean, or half of the smallest possible one if there is none."""
        return min(self.prices, key=lambda other: abs(other - mean), default=0.5 * self.least)

    def at_mean(self, mean: float) -> interior.PoolInterior | None:
        """The most even shares at a mean."""
        problem = self.problem.with_sum(self.row, mean)
        # if no capacity binds all levels are the mean
        of_mean = np.sign(self.objective.beta) * np.float64(mean) ** -self.objective.beta
        free = 0.1 * abs(of_mean) * mean / self.problem.usable / len(self.problem.usable)
        guesses = [self.prices[self.nearest(mean)]] if self.prices else []
        return interior.solve_pool(problem, guesses=[*guesses, np.append(free, of_mean)])
