"""The best sum of one concave function per user on one pool, by a primal-dual interior point (Proposition 4.10).

The problem is ``max sum_j f_j(x_j)`` under ``sum_j g_ji x_j <= r_i`` and ``low_j <= x_j <= high_j``, with ``g = d / C``
(``ratios``) and r (``usable``) as fractions of capacities. A point is optimal if and only if with prices p of
capacities, a and b of lower and upper bounds, and slacks s, all nonnegative,

    f_j'(x_j) = sum_i g_ji p_i - a_j + b_j,   s = r - g'x,   p_i s_i = a_j (x_j - low_j) = b_j (high_j - x_j) = 0.

With these products at mu > 0 instead, users are eliminated one by one, and a Newton step solves m equations in the
prices, so that it costs a product of n by m by m; mu falls to 0 by the predictor and corrector of Mehrotra (1992).
Water-filling in prices alone, as for one power (`alpha_fair`), needs best responses in closed form and fails where
functions are nearly linear, as responses then jump. The sum of shares may be fixed too, with a multiplier of either
sign.

Where the elasticity of f' is above .3, logarithms of both sides are linearised, which is exact for a power: from 1,000
times the optimum of ``f' = x^-2`` a plain step would be 5e8 optima long, and 9 of 100 small sums of two powers find no
prices. Resources that are full for the same users give a singular matrix, whose smallest singular values are cut.
Functions that are linear between kinks have no curvature to step by, and are left to linear programs. Derivatives of
users' own blocks may be wrong: the gate bounds the optimum by tangents (Bound 4.11), and errors of prices enter that
bound squared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fairopt.blocks.base import is_ours
from fairopt.blocks.marginal import CURVED, Marginal, PowerMarginal, among
from fairopt.certificate import Try
from fairopt.instance.parts import window
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import NOISE, ROUNDING, TINY
from fairopt.solve.form.pool_users import refuse_unfit_bounds
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Proposals, Settings

BACK = 0.995  # part of the way to the nearest bound that a step goes
STEPS = 80  # from equal prices; 10 to 25 are usual
WARM_STEPS = 30  # from known prices; 5 to 15 are usual
STALLED = 20  # steps that come no nearer: 11 is the most that an optimum took, and kinks take all
QUICK_STEPS = 15  # where another method is at hand; 5 to 8 are usual
DONE = 1e-12  # products and residuals at the end, relative to the marginal value of all tasks
NEARLY = 1e-9  # products and residuals that are accepted where rounding ends the steps
COLD, WARM = 0.1, 1e-3  # first products, relative to the marginal value of a user's tasks
SINGULAR = 1e-14  # smaller singular values are zero: prices of resources that are full for the same users
SAMPLE = 500  # users whose prices are a first guess
LEAST = 1e-6  # of an equal part: first tasks of users whose best response is none
EXCESS = 1e-11  # of a capacity: more than this and best responses do not fit
UNSOLD = 1e-9  # of all capacities at their prices: more than this and best responses leave too much
KINKS = 2.0 ** -np.arange(12)  # parts of the most that users can run, where derivatives are compared
HALVINGS, FITTING = 14, 4e-3  # of the logarithm of common prices, and that of the load over what there is


def solve_sum(program: Program, settings: Settings) -> Proposals:
    """A sum of one concave function per user, with prices; raises `Infeasible` if the lower bounds do not fit."""
    begun = time.perf_counter()
    assert program.marginal is not None
    if program.low.any():
        crossed = bool(np.any(program.low > program.high * (1 + ROUNDING)))
        refuse_unfit_bounds(program, program.pairs.loads @ program.low, crossed)
    with np.errstate(all="ignore"):  # NaN stops the steps
        problem = of_program(program, program.marginal)
        if has_kinks(problem):
            return
        point = solve_pool(problem, sample_of(program, problem))
        attempt = Try("prices", "no prices found" if point is None else "solved", time.perf_counter() - begun)
        if point is None:
            yield Proposal("prices", attempt=attempt)
            return
        # If the best responses to the prices fill what has a price, they are more precise for single users: at the
        # point itself idle users have a little. Gaps are larger, of 300 small sums at most 1e-11 instead of 2e-13.
        response = problem.response(point.prices, point.tasks)
        left, worth = problem.usable - problem.ratios @ response, float(point.prices @ problem.usable)
        fills = bool((left >= -EXCESS * problem.usable).all()) and float(point.prices @ left) <= UNSOLD * worth
    tasks = problem.whole(response if fills else point.tasks)
    yield Proposal("prices", tasks, Prices(program, Dual(point.prices)), attempt=attempt)


@dataclass(frozen=True)
class PoolProblem:
    """Users of a pool with a concave function each.

    ``ratios`` (n_rows, n_users) and ``usable`` (n_rows,) are of the resources, and last of the fixed sum if there is
    one (``has_sum``). ``low`` and ``high`` (n_users,) bound tasks, and no user can exceed ``most``. Users whose bounds
    leave no range are left out: ``fixed`` (n_all_users,) are their tasks, NaN for the others.
    """

    ratios: Float
    usable: Float
    low: Float
    high: Float
    most: Float
    marginal: Marginal
    has_sum: bool = False
    fixed: Float | None = None

    def whole(self, tasks: Float) -> Float:
        """Tasks of all users, given those of the users in the problem."""
        if self.fixed is None:
            return tasks
        out = self.fixed.copy()
        out[np.isnan(out)] = tasks
        return out

    def with_sum(self, row: Float, total: float) -> PoolProblem:
        """The problem with the equation ``row @ tasks = total`` of all users."""
        if self.fixed is not None:
            free = np.isnan(self.fixed)
            row, total = row[free], total - float(row[~free] @ self.fixed[~free])
        return replace(self, ratios=np.vstack([self.ratios, row]), usable=np.append(self.usable, total), has_sum=True)

    @property
    def n_resources(self) -> int:
        """Number of rows that are inequalities."""
        return len(self.usable) - self.has_sum

    def inside(self) -> Float:
        """Tasks strictly between all bounds: half of an equal part of what users could run alone."""
        span = np.maximum(np.minimum(self.high, self.most) - self.low, 0.0)
        return self.low + np.maximum(0.5 * span / len(span), TINY)

    def response(self, prices: Float, start: Float) -> Float:
        """Best responses to prices."""
        return self.marginal.response(prices @ self.ratios, self.low, np.minimum(self.high, self.most), start)


def of_program(program: Program, marginal: Marginal) -> PoolProblem:
    """The users of a program on one pool under bounds on tasks."""
    ratios, usable, low, high, most = program.pairs.loads, program.usable, program.low, program.high, program.most
    free = high > low * (1 + NOISE)
    if free.all():
        return PoolProblem(ratios, usable, low, high, most, marginal)
    fixed = np.where(free, np.nan, np.minimum(low, high))
    # a user between bounds that are equal but for noise has no point strictly between
    usable = np.maximum(usable - ratios[:, ~free] @ fixed[~free], TINY)
    return PoolProblem(
        np.ascontiguousarray(ratios[:, free]),
        usable,
        low[free],
        high[free],
        most[free],
        among(marginal, fixed),
        fixed=fixed,
    )


def has_kinks(problem: PoolProblem) -> bool:
    """Whether functions are linear between kinks, where Newton's steps end without an optimum."""
    if isinstance(problem.marginal, PowerMarginal):
        return False
    slopes, curvatures = zip(*(problem.marginal.both(part * problem.most) for part in KINKS), strict=True)
    return not np.any(curvatures) and bool((np.ptp(slopes, axis=0) > 0).any())


def sample_of(program: Program, problem: PoolProblem) -> PoolProblem | None:
    """About `SAMPLE` of the users, and as large a part of the capacities; None of few users."""
    n = len(problem.low)
    step = n // SAMPLE
    if step < 4 or problem.fixed is not None:
        return None
    some = slice(None, None, step)
    ours = all(is_ours(part) for _, part in program.objective.summands())
    if ours and not isinstance(problem.marginal, PowerMarginal):
        marginal = program.objective.by_user(window(program.instance, some))
        if marginal is None:
            return None
    else:  # derivatives of one's own may be of all users together
        others = np.ones(n)
        others[some] = np.nan
        marginal = among(problem.marginal, others)
    ratios = np.ascontiguousarray(problem.ratios[:, some])
    usable = problem.usable * (ratios.shape[1] / n)
    return PoolProblem(ratios, usable, problem.low[some], problem.high[some], problem.most[some], marginal)


def solve_pool(
    problem: PoolProblem, sample: PoolProblem | None = None, guesses: Sequence[Float] = (), quick: bool = False
) -> PoolInterior | None:
    """The optimum, from guesses at prices if there are any, else from the prices of a sample; None if not found.

    With ``quick`` only the first start is tried, for `QUICK_STEPS`.
    """
    if not len(problem.low):
        return None
    if quick:
        point, _ = next(_starts(problem, sample, guesses))
        return point if point.run(QUICK_STEPS) else None
    tried = []
    for point, steps in _starts(problem, sample, guesses):
        if point.run(steps):
            return point
        tried += [] if point.stalled else [point]
    return next((point for point in tried if point.run(STEPS)), None)


def _starts(
    problem: PoolProblem, sample: PoolProblem | None, guesses: Sequence[Float]
) -> Iterator[tuple[PoolInterior, int]]:
    """Points to start from, each with its number of steps."""
    inside, centre = problem.inside(), WARM
    if not guesses and sample is not None:
        of_sample = solve_pool(sample)
        guesses = () if of_sample is None else (of_sample.prices,)
    # without: of 100 small sums of two powers (alpha = 2 and 4), 34 found no prices from equal ones
    if not guesses and not problem.has_sum:
        guesses, centre = (_common_prices(problem),), COLD
    for prices in guesses:
        # not nearer to the lower bound: slacks have to be positive, and a tiny one takes many steps to grow
        tasks = np.maximum(problem.response(prices, inside), problem.low + LEAST * (inside - problem.low))
        yield PoolInterior(problem, prices, tasks, centre), WARM_STEPS
    yield PoolInterior(problem, _equal_prices(problem, inside), inside, COLD), STEPS


def _equal_prices(problem: PoolProblem, tasks: Float) -> Float:
    """Equal prices of usable capacities at which tasks cost their marginal value."""
    m = problem.n_resources
    per_usable = 1.0 / problem.usable[:m]
    prices = np.zeros(len(problem.usable))
    value = np.abs(problem.marginal.slope(tasks)) @ tasks
    prices[:m] = per_usable * (value / (per_usable @ (problem.ratios[:m] @ tasks)))
    return prices


def _common_prices(problem: PoolProblem) -> Float:
    """Equal prices of usable capacities at which best responses about fit."""
    inside = problem.inside()
    prices = _equal_prices(problem, inside)

    def over(logarithm: float) -> float:
        """The logarithm of the largest load, as a part of what there is, at a multiple of the prices."""
        load = problem.ratios @ problem.response(np.exp(logarithm) * prices, inside)
        return float(np.log((load / np.maximum(problem.usable, TINY)).max()))

    # that of powers without bounds is linear: two looks and the line through them suffice
    if not problem.low.any() and np.isinf(problem.high).all():
        at = over(0.0)
        further = over(at)
        on_line = at - further * at / (further - at or np.nan)
        if abs(over(on_line)) <= FITTING:
            return np.asarray(np.exp(on_line) * prices)
    # of logarithms; 14 halvings leave .004, near enough for a start
    low, high = -30.0, 30.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if over(middle) > 0 else (low, middle)
    return np.asarray(np.exp(middle) * prices)


class PoolInterior:
    """A point strictly inside all bounds, and Newton's steps towards the optimum.

    ``prices`` (n_rows,) are per whole capacity, and last of the fixed sum; ``slack`` is of capacities, ``above_low``
    and ``below_high`` (n_users,) of the bounds of ``tasks``, with multipliers ``a`` and ``b``.
    """

    stalled = False  # the last steps came no nearer

    def __init__(self, problem: PoolProblem, prices: Float, tasks: Float, centre: float) -> None:
        self.problem, m = problem, problem.n_resources
        low, high, usable, ratios = problem.low, problem.high, problem.usable, problem.ratios
        self.limited = np.isfinite(high)
        self.bounded = bool(self.limited.any())
        self.count = len(low) + m + int(self.limited.sum())
        self.prices = prices.copy()
        # strictly positive: a guess of 0 for a resource that is full here could not rise
        self.prices[:m] = np.maximum(prices[:m], 1e-8 * np.abs(prices[:m]).max(initial=0.0) + TINY)
        cost, slope = self.prices @ ratios, problem.marginal.slope(tasks)
        centre *= float(np.abs(slope) @ tasks) / len(tasks)
        # the multiplier of a bound that binds is far above the centre, and its slack far below: with the centre for
        # all, 3 of 200 small sums found no prices
        gain, loss = np.maximum(slope - cost, 0.0), np.maximum(cost - slope, 0.0)
        if self.bounded:
            span = np.where(self.limited, high - low, 1.0)
            below_high = np.clip(high - tasks, np.minimum(centre / gain, 0.1 * span), 0.9 * span)
            tasks = np.where(self.limited, high - below_high, tasks)
        # kept apart from ``tasks``: at a bound the difference of both has no digits left
        self.above_low = np.maximum(tasks - low, 1e-9 * tasks)
        self.tasks = low + self.above_low
        self.a = np.maximum(centre / self.above_low, loss)
        self.below_high = np.where(self.limited, high - self.tasks, 1.0)
        self.b = np.where(self.limited, np.maximum(centre / self.below_high, gain), 0.0)
        left = usable[:m] - ratios[:m] @ self.tasks
        # of a full resource, or one exceeded by the guess: as large as makes its product the centre
        self.slack = np.maximum(left, np.minimum(centre * len(tasks) / self.prices[:m], 0.1 * usable[:m]))

    @property
    def products(self) -> float:
        """The sum of all complementarity products."""
        out = float(self.a @ self.above_low) + float(self.prices[: self.problem.n_resources] @ self.slack)
        return out + float(self.b @ self.below_high) if self.bounded else out

    def run(self, steps: int) -> bool:
        """Step until products and residuals are small, and go to the best point; False if they are not small there."""
        best, least, since = (np.inf, self.tasks, self.prices), np.inf, 0
        for k in range(steps):
            tell(f"prices, step {k + 1}")
            before = self.tasks, self.prices  # `_step` measures the point before it, in the same pass
            size = self._step()
            best = min(best, (size, *before), key=lambda point: point[0])
            if size < 0.9 * least:
                least, since = size, k
            self.stalled = k - since >= STALLED
            if size <= DONE or not size < np.inf or (best[0] <= NEARLY and size > best[0]) or self.stalled:
                break
        if best[0] <= NEARLY:
            _, self.tasks, self.prices = best
        return best[0] <= NEARLY

    def _step(self) -> float:
        """Take a step, and return how far the point before was from the optimum; infinite where none can be taken."""
        problem, m, x, prices, slack = self.problem, self.problem.n_resources, self.tasks, self.prices, self.slack
        ratios, usable = problem.ratios, problem.usable
        slope, curvature = problem.marginal.both(x)
        cost = prices @ ratios
        cost -= self.a
        if self.bounded:
            cost += self.b
        primal = usable - ratios @ x
        primal[:m] -= slack
        dual = slope - cost
        unit, products = float(np.abs(slope) @ x) + float(np.abs(prices) @ usable), self.products
        if not unit > 0:  # underflow
            return np.inf
        size = max(products / unit, float(np.abs(dual) @ x) / unit, float(np.abs(primal / usable).max()))
        if size <= DONE or not size < np.inf:
            return size
        curvature = -curvature
        powers = (curvature * x > CURVED * slope) & (slope > 0) & (cost > 0)  # where logarithms are linearised
        part = np.where(powers, cost / slope, 1.0)
        dual = np.where(powers, -cost * np.log(part), dual)
        per_a, per_b = self.a / self.above_low, self.b / self.below_high
        stiffness = curvature * part + per_a  # D_j of Proposition 4.10
        if self.bounded:
            stiffness += per_b
        scaled = ratios / stiffness
        # sum_j g_j g_j' / D_j + diag(s / p), with a diagonal of 1, as prices may differ by many decades: without,
        # 2 of 100 small sums found no prices, and tasks of others were off by 1e-5
        matrix = scaled @ ratios.T
        matrix.flat[: m * (len(matrix) + 1) : len(matrix) + 1] += slack / prices[:m]
        scale = 1.0 / np.sqrt(matrix.diagonal())
        try:  # of few rows; the next step corrects its errors
            values, vectors = np.linalg.eigh(matrix * scale * scale[:, None])
        except np.linalg.LinAlgError:
            return np.inf
        sizes = np.abs(values)
        vectors *= scale[:, None]
        inverse = (vectors * np.where(sizes > SINGULAR * sizes.max(), 1.0 / values, 0.0)) @ vectors.T

        def move(to_a: Float | float, to_b: Float | float, to_slack: Float | float) -> _Move:
            """The Newton step towards these products."""
            da = to_a / self.above_low - self.a
            of_users, db = dual + da, None
            if self.bounded:
                db = np.where(self.limited, to_b / self.below_high - self.b, 0.0)
                of_users -= db
            ds = to_slack / prices[:m] - slack
            right = scaled @ of_users - primal
            right[:m] += ds
            dp = inverse @ right
            dx = (of_users - dp @ ratios) / stiffness
            da -= per_a * dx
            if db is not None:
                db += per_b * dx
            return _Move(dp, dx, ds - slack / prices[:m] * dp[:m], da, db)

        predictor = move(0.0, 0.0, 0.0)
        left = self._products_after(predictor, self._length(predictor))
        # Mehrotra's cube of what the predictor leaves. With 0 instead of 1e-6, 13 instead of 5 of 100 gaps were above
        # 1e-12
        centre = products / self.count * max((left / products) ** 3 if products > 0 else 0.0, 1e-6)
        to_b = 0.0 if predictor.b is None else centre + predictor.tasks * predictor.b
        step = move(centre - predictor.tasks * predictor.a, to_b, centre - predictor.slack * predictor.prices[:m])
        length = self._length(step)
        # a whole step ends on no bound, and keeps the equations that it has met
        length = 1.0 if length >= 1.0 else BACK * length
        self.tasks = x + length * step.tasks
        self.above_low += length * step.tasks
        self.a += length * step.a
        if step.b is not None:
            self.below_high -= np.where(self.limited, length * step.tasks, 0.0)
            self.b += length * step.b
        self.prices = prices + length * step.prices
        self.slack = slack + length * step.slack
        return size

    def _length(self, step: _Move) -> float:
        """The largest part of a step, at most 1, that keeps positive numbers nonnegative."""
        m = self.problem.n_resources
        parts = [
            step.tasks / self.above_low,
            step.a / self.a,
            step.slack / self.slack,
            step.prices[:m] / self.prices[:m],
        ]
        if step.b is not None:
            parts += [-(step.tasks / self.below_high)[self.limited], (step.b / self.b)[self.limited]]
        return 1.0 / max(1.0, -float(np.concatenate(parts).min()))

    def _products_after(self, step: _Move, length: float) -> float:
        """The sum of products after a part of a step."""
        m = self.problem.n_resources
        prices, slack = self.prices[:m] + length * step.prices[:m], self.slack + length * step.slack
        left = float(prices @ slack) + float((self.a + length * step.a) @ (self.above_low + length * step.tasks))
        if step.b is not None:
            below_high = self.below_high - np.where(self.limited, length * step.tasks, 0.0)
            left += float((self.b + length * step.b) @ below_high)
        return left


class _Move(NamedTuple):
    """Changes of prices, tasks, slack, and multipliers of bounds (``b`` is None where no user has a limit)."""

    prices: Float
    tasks: Float
    slack: Float
    a: Float
    b: Float | None
