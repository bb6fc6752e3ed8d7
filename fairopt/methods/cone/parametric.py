"""`FairnessEfficiency` by a certified search along the sum of shares.

At a fixed sum of shares the measure grows with the evenness of the shares (a power mean of them), which is concave. Its
optimum, by prices under nothing but bounds on tasks, and else by a cone program, has multipliers that bound the
evenness at every other sum by a line. The measure along these lines bounds it from above (`fairopt.proofs.plane`). The
search solves the program at the sum where the bound is highest, until bound and best point agree. Outside the concave
region the measure may have several local optima (with two users and beta = 1/2 or -1, for example), which such a bound
cannot miss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fairopt.blocks.efficiency import FairnessEfficiency, PowerSpread, TotalIs
from fairopt.blocks.marginal import PowerMarginal
from fairopt.blocks.objectives import MaxMin, Objective, Total
from fairopt.certificate import Try
from fairopt.evidence.prices import UserPrices
from fairopt.evidence.solved import Solved
from fairopt.evidence.tangents import Tangents
from fairopt.formulation.program import ConeModel, Program
from fairopt.methods.arrays import Float
from fairopt.methods.cluster.alpha_fair import prices_on_servers
from fairopt.methods.cluster.fixed_sum import most_even
from fairopt.methods.cluster.sums import solve_sum_on_servers
from fairopt.methods.cone.solve import by_chain, solve_problem
from fairopt.methods.pool import interior
from fairopt.methods.settings import Proposals, Settings
from fairopt.proofs import conditions, gate, plane
from fairopt.proofs.gate import Answer
from fairopt.proofs.plane import Optimum
from fairopt.proofs.proposal import Proposal
from fairopt.proofs.servers import LevelUnits
from fairopt.runtime.lazy import cp
from fairopt.runtime.progress import tell
from fairopt.tolerances import GAP_TOLERANCE

PRICES = "prices"  # instead of a solver
MISSING = "no prices found"
HALVINGS = 8  # of the way to a mean, where the prices of the nearest one are too far off
FINE = 1e-9  # a gap that is asked for, as long as programs still reduce it: optima are flat
MOST = 60  # programs of a search; 10 to 30 are usual
STALLED = 12  # programs that hardly lower the gap, after which no other will
POLISH = 8  # programs that only make the tasks more exact
ROUNDING = 1e-13  # of the measure's logarithm
CLOSE = 1e-7  # of a mean: neighbours that leave it where it is
NARROW = 1e-6  # of the largest sum: sums that differ by less need no search
NEAR_END = 1e-7  # relative to the measure at an extreme sum: at the end itself solvers may find no feasible point

Solve = Callable[[Program], Answer]


def parametric_applies(program: Program) -> bool:
    """Whether the objective is a `FairnessEfficiency` that has not the optimum of one of the simpler objectives."""
    return program.term.measure is not None and program.term.alpha is None


def only_parametric(program: Program) -> bool:
    """Whether the objective is a `FairnessEfficiency` that is not concave."""
    return parametric_applies(program) and not program.term.kind.is_concave


def search_by_prices(program: Program, settings: Settings) -> bool:
    """Whether prices solve what the search asks: under bounds on tasks (on servers limits), and no solver asked for."""
    if settings.solver is not None or program.rest:
        return False
    if program.single:
        return bool((program.usable > 0).all())
    # lines charge no rents of limits, which shares that differ by server need
    free = not (np.isfinite(program.high).any() and conditions.bounds_are_charged(program))
    return free and prices_on_servers(program)


def search_sums(program: Program, settings: Settings, solve: Solve) -> Proposals:
    """Propose the best allocation along the sum of shares; ``solve`` solves another program by the method for it."""
    objective = program.term.measure

    def part(other: Objective) -> tuple[Program, Answer]:
        asked = Program(program.given, other, program.constraints)
        return asked, solve(asked)

    def largest_sum() -> tuple[Program, Answer]:  # only a bound: that prices leave ties open does not matter
        asked = Program(program.given, Total(objective.share), program.constraints)
        if settings.solver is None and prices_on_servers(asked) and asked.marginal is not None:
            answer = gate.judge(asked, next(solve_sum_on_servers(asked, settings)))
            if answer.ok:
                return asked, answer
        return asked, solve(asked)

    total, largest = largest_sum()
    ends: list[tuple[Program, Answer] | None] = [(total, largest), None]
    starts = [largest.tasks]
    if program.low.any() or conditions.violation_at(program, program.zero_point()[0]) > 0:
        ends[1] = part(PowerSpread(1.0, objective.share))
    for end in ends:
        if end is not None and not end[1].ok:
            yield Proposal("parametric", attempt=Try("sum of shares", "not certified", 0.0, gap=end[1].gap))
            return
    level, poorest = part(MaxMin(objective.share))
    if poorest.ok:
        starts += [poorest.tasks, _levelled(level, poorest.tasks, objective)]

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


def _proposal(answer: Answer) -> Proposal:
    """What an answer was judged by."""
    return Proposal(answer.method, answer.tasks, answer.evidence, answer.solver)


def _levelled(program: Program, tasks: Float, objective: FairnessEfficiency) -> Float:
    """Tasks cut down to equal shares per weight: the fairest point, where all constraints are upper bounds."""
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
        ends: Sequence[tuple[Program, Answer] | None],
        starts: Sequence[Float],
    ) -> None:
        self.program, self.solver, self.settings = program, solver, settings
        self.objective = program.term.measure
        self.cuts: list[tuple[Program, Float, Optimum]] = []
        self.lines: list[plane.Line] = []
        self.slopes: dict[float, float] = {}  # of the logarithm of the measure along the mean, where it was solved
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
        """Keep tasks by pair that are better, and feasible; first as many as fit, as the measure never falls then."""
        program = self.program
        rows, users = program.pairs.loads @ tasks / program.usable_rows, program.pairs.sum(tasks) / program.high
        most = float(np.nan_to_num([*rows, *users]).max())
        full = abs(most - 1.0) <= ROUNDING
        for candidate in (tasks,) if full or not most > 0 else (tasks / most, tasks):
            candidate = conditions.repair(program, candidate)
            value = plane.log_measure(self.objective, program.point(candidate))
            known = self.value > -np.inf  # without any emphasis all equal shares are worth the same but for rounding
            more = value - self.value > ROUNDING * max(1.0, abs(self.value)) if known else value > -np.inf
            if more and conditions.violation_at(program, candidate, self.model) <= GAP_TOLERANCE / 10:
                self.value, self.tasks = value, candidate

    def run(self) -> str:
        """Solve where the bound is highest, until it is reached or programs no longer lower it."""
        before, status, polished, stalled, solved = np.inf, "optimal", 0, 0, set[float]()
        if self.most - self.least <= NARROW * self.most:
            status = self.solve(None, np.inf)
        end = NEAR_END / max(1.0, *map(abs, self.objective.exponents))
        for _ in range(MOST):
            top, mean = self.ceiling().highest()
            gap, between = top - self.value, self.bracket() if polished < POLISH else None
            if between is not None:
                mean, polished = between, polished + 1
            else:
                if gap <= GAP_TOLERANCE and (gap <= FINE or gap > 0.7 * before):
                    break
                if gap > GAP_TOLERANCE:
                    mean = self.apart(mean)
                stalled = 0 if gap < 0.9 * before else stalled + 1
                if stalled == STALLED:
                    break
                before = min(gap, before)
            if self.settings.late:
                return "time limit reached"
            mean = float(np.clip(mean, self.least * (1 + end), self.most * (1 - end)))
            if mean in solved:  # the same program has the same answer
                break
            solved.add(mean)
            status = self.solve(mean, gap)
            if status != "optimal":
                break
        return status

    def ceiling(self, lines: Sequence[plane.Line] | None = None) -> plane.Ceiling:
        """The bound that lines prove, by default all so far."""
        lines = self.lines if lines is None else lines
        return plane.ceiling(self.objective, lines, self.value, self.most, self.least)

    def needed(self) -> tuple[tuple[Program, Float, Optimum], ...]:
        """The cuts that the bound needs: in turn the one that is lowest where the bound by those before is highest."""
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

    def apart(self, mean: float) -> float:
        """A mean at some distance from those that were solved: a steep line bounds hardly more than its own mean."""
        low = self.ceiling().low
        below = max((m for m in self.slopes if m <= mean), default=low)
        above = min((m for m in self.slopes if m > mean), default=self.most)
        return float(np.clip(mean, below + 0.1 * (above - below), above - 0.1 * (above - below)))

    def bracket(self) -> float | None:
        """A new mean between the best one's neighbours where the slope changes sign; None once one is close to it.

        The value is flat there, and gaps say little of where the best mean is. By the secant of the slopes, and where
        that keeps to one side by half of the slope on the other (the Illinois rule).
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
        before, last = list(self.slopes)[-2:]
        if last == low and before <= low:
            part = below / (below - 0.5 * above)
        elif last == high and before >= high:
            part = 0.5 * below / (0.5 * below - above)
        mean = low + (high - low) * part
        return None if mean in self.slopes else mean

    def solve(self, mean: float | None, gap: float) -> str:
        """The most even shares of one mean, or of all: a candidate, and a line."""
        fixed = () if mean is None else (TotalIs(mean * self.unit, self.objective.share),)
        asked = Program(self.program.given, self.objective.evenness, (*self.program.constraints, *fixed))
        asked.pairs = self.program.pairs  # the same instance
        tell(f"search along the sum of shares by {self.solver}, gap {gap:.1e}")
        found = self.optimum(asked, mean)
        if isinstance(found, str):
            return found
        tasks, solved = found
        tangent = plane.tangent_of(asked, solved, tasks)
        self.cuts.append((asked, tasks, solved))
        if tangent is not None:
            self.lines.append(line := tangent.line)
        if tangent is not None and mean is not None:
            first, second = self.objective.exponents
            self.slopes[mean] = first * line.slope / (line.at + line.slope * mean) + second / mean
        self.consider(tasks)
        return "optimal"

    def optimum(self, asked: Program, mean: float | None) -> tuple[Float, Optimum] | str:
        """Tasks and multipliers of the most even shares; the status if they are not found."""
        cone = ConeModel(asked, self.solver)
        problem = cp.Problem(cp.Maximize(cone.maximand[0]), cone.all_constraints)
        attempt, found = solve_problem(problem, cone.unknowns, self.solver, self.settings)
        return (cone.tasks(), Solved.of(cone)) if found else f"{attempt.status} {attempt.message}".strip()


class _PriceSearch(_Search):
    """The search by prices; it begins with the most even shares of any sum, where these are not zero."""

    def run(self) -> str:
        if self.objective.beta > 0:
            self.solve(None, np.inf)
        return super().run()


class _ServerSearch(_PriceSearch):
    """The search on several servers, each time from the same start."""

    def run(self) -> str:
        with np.errstate(all="ignore"):
            self.units = LevelUnits(self.program)
        self.weights = self.program.instance.weights / self.program.instance.weights.sum()
        return super().run()

    def solve(self, mean: float | None, gap: float) -> str:
        """At the mean, or nearer to one that was solved: close to an end prices may be too far apart for floats."""
        status = super().solve(mean, gap)
        for _ in range(HALVINGS):
            if status == "optimal" or mean is None or self.settings.late:
                break
            solved = np.array([*self.slopes] or [self.least])
            mean = 0.5 * (mean + float(solved[np.abs(solved - mean).argmin()]))
            status = super().solve(mean, gap)
        return status

    def optimum(self, asked: Program, mean: float | None) -> tuple[Float, Optimum] | str:
        with np.errstate(all="ignore"):  # NaN stops the steps
            found = most_even(self.units, self.weights, self.objective.beta, mean)
            if found is None:
                return MISSING
            tasks = np.where(self.units.eligible, found.parts * self.units.per_level, 0.0)
        pairs = asked.pairs
        evidence = UserPrices(asked, found.prices.T.ravel(), found.price * (mean or 0.0))
        return tasks[pairs.user, pairs.server], evidence


class _PoolSearch(_PriceSearch):
    """The search on one pool, each time from the prices of the nearest mean."""

    def run(self) -> str:
        majorant = self.objective.evenness.majorant(self.program.point(self.tasks))
        assert majorant is not None
        self.problem = interior.of_program(self.program, PowerMarginal(majorant.curves))
        self.row = self.objective.share.coefficients(self.program.instance) / self.unit  # shares count in the mean
        self.prices: dict[float, Float] = {}  # by mean, last of the mean
        return super().run()

    def optimum(self, asked: Program, mean: float | None) -> tuple[Float, Optimum] | str:
        with np.errstate(all="ignore"):  # NaN stops the steps
            if mean is None:
                found = interior.solve_pool(self.problem, interior.sample_of(asked, self.problem))
                if found is None:
                    return MISSING
                tasks = self.problem.whole(found.tasks)
                self.prices[float(self.row @ tasks)] = np.append(found.prices, 0.0)
                return tasks, UserPrices(asked, found.prices)
            at = mean
            for _ in range(HALVINGS):
                found = self.at_mean(at)
                if found is not None:
                    self.prices[at] = found.prices
                    if at == mean:
                        evidence = UserPrices(asked, found.prices[:-1], float(found.prices[-1]) * mean)
                        return self.problem.whole(found.tasks), evidence
                at = mean if found is not None else 0.5 * (at + self.nearest(at))
        return MISSING

    def nearest(self, mean: float) -> float:
        """The nearest mean that was solved; half of the smallest that matters if there is none."""
        return min(self.prices, key=lambda other: abs(other - mean), default=0.5 * self.least)

    def at_mean(self, mean: float) -> interior.PoolInterior | None:
        """The most even shares of a mean."""
        problem = self.problem.with_sum(self.row, mean)
        # where capacities do not matter all levels are the mean
        of_mean = np.sign(self.objective.beta) * np.float64(mean) ** -self.objective.beta
        free = 0.1 * abs(of_mean) * mean / self.problem.usable / len(self.problem.usable)
        guesses = [self.prices[self.nearest(mean)]] if self.prices else []
        return interior.solve_pool(problem, guesses=[*guesses, np.append(free, of_mean)])
