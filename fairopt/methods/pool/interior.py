"""The best sum of one concave function per user on one pool, by a primal-dual interior point (Mehrotra 1992).

Unknowns are the tasks x of each user and a price per resource; at the optimum ``u_j'(x_j) = q_j - a_j + b_j``, where
``q_j = g_j . p`` is the price of a task and ``a_j``, ``b_j`` are the prices of its lower and upper bound, and every
product of a price with what is left is zero. Newton's steps are taken on all of these together while the products fall
to zero: users are eliminated one by one, which leaves a system in the prices alone. So users whose functions are
linear, and who take anything at one price, need no treatment of their own: their tasks come with the prices. A sum of
shares may be fixed as well, at a price of either sign.

Marginal values move by decades, so Newton's step is taken on their logarithms where these are more nearly linear, which
is exact for a power. The first prices are those of a sample; of few users, equal prices for whole capacities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairopt.blocks.marginal import CURVED, Marginal, PowerMarginal, among
from fairopt.formulation.program import Program
from fairopt.methods.arrays import Float
from fairopt.runtime.progress import tell

BACK = 0.995  # part of the way to the nearest bound that a step goes
STEPS = 80  # from cold; 10 to 25 are usual
WARM_STEPS = 30  # from known prices; 5 to 15 are usual
QUICK_STEPS = 15  # where another method is at hand; 5 to 8 are usual
DONE = 1e-12  # products and residuals, of what all tasks are worth
COLD, WARM = 0.1, 1e-3  # first products, of what the tasks of a user are worth
NEARLY = 1e-9  # products and residuals where rounding ends the steps
REDUNDANT = 1e-14  # smaller singular values are zero: resources full for the same users have no unique prices
SAMPLE = 500  # users whose prices are a first guess
NARROW = 1e-9  # a narrower range of tasks is none, as the point is strictly inside
TINY = 1e-300  # no capacity is smaller
LEAST = 1e-6  # of an equal part: tasks to start from that are zero at the first prices
HALVINGS = 14  # of the logarithm of common prices


@dataclass(frozen=True)
class PoolProblem:
    """Users of a pool with a concave function each.

    ``ratios`` (n_rows, n_users) and ``usable`` (n_rows,) are of the resources, and last of the fixed sum, if there is
    one (``fixed``). ``low`` and ``high`` (n_users,) bound tasks, ``high`` may be infinite, and ``most`` are tasks that
    no user can exceed. Users whose bounds leave no range are left out: ``held`` (n_all_users,) are their tasks, NaN for
    the others.
    """

    ratios: Float
    usable: Float
    low: Float
    high: Float
    most: Float
    marginal: Marginal
    fixed: bool = False
    held: Float | None = None

    def whole(self, tasks: Float) -> Float:
        """Tasks of all users, those who are held too."""
        if self.held is None:
            return tasks
        out = self.held.copy()
        out[np.isnan(out)] = tasks
        return out

    def with_sum(self, row: Float, total: float) -> PoolProblem:
        """The problem with a fixed sum of multiples of all users' tasks."""
        if self.held is not None:
            free = np.isnan(self.held)
            row, total = row[free], total - float(row[~free] @ self.held[~free])
        return replace(self, ratios=np.vstack([self.ratios, row]), usable=np.append(self.usable, total), fixed=True)

    @property
    def n_free(self) -> int:
        """Number of resources: rows that need not be full."""
        return len(self.usable) - self.fixed

    def inside(self) -> Float:
        """Tasks strictly between all bounds: half of an equal part of what users could run alone."""
        room = np.maximum(np.minimum(self.high, self.most) - self.low, 0.0)
        return self.low + np.maximum(0.5 * room / len(room), 1e-300)

    def response(self, prices: Float, start: Float) -> Float:
        """About what users would run at prices."""
        return self.marginal.response(prices @ self.ratios, self.low, np.minimum(self.high, self.most), start)


def of_program(program: Program, marginal: Marginal) -> PoolProblem:
    """The users of a program on one pool under bounds on tasks."""
    ratios, usable, low, high, most = program.pairs.loads, program.usable, program.low, program.high, program.most
    free = high > low * (1 + NARROW)
    if free.all():
        return PoolProblem(ratios, usable, low, high, most, marginal)
    held = np.where(free, np.nan, np.minimum(low, high))
    usable = np.maximum(usable - ratios[:, ~free] @ held[~free], TINY)
    return PoolProblem(
        np.ascontiguousarray(ratios[:, free]),
        usable,
        low[free],
        high[free],
        most[free],
        among(marginal, held),
        held=held,
    )


def sample_of(program: Program, problem: PoolProblem) -> PoolProblem | None:
    """About `SAMPLE` of the users, and as large a part of the capacities; None of few users."""
    n = len(problem.low)
    step = n // SAMPLE
    if step < 4 or problem.held is not None:
        return None
    some = slice(None, None, step)
    if isinstance(problem.marginal, PowerMarginal):
        marginal: Marginal | None = problem.marginal.take(some)
    else:
        marginal = program.objective.by_user(program.instance._window(some))
    if marginal is None:
        return None
    ratios = np.ascontiguousarray(problem.ratios[:, some])
    usable = problem.usable * (ratios.shape[1] / n)
    return PoolProblem(ratios, usable, problem.low[some], problem.high[some], problem.most[some], marginal)


def solve_pool(
    problem: PoolProblem, sample: PoolProblem | None = None, guesses: Sequence[Float] = (), quick: bool = False
) -> PoolInterior | None:
    """The optimum, from guesses at the prices, if any, else from those of a sample; None if no start leads there.

    With ``quick`` from the first start only, if that takes few steps.
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
        tried.append(point)
    return next((point for point in tried if point.run(STEPS)), None)


def _starts(
    problem: PoolProblem, sample: PoolProblem | None, guesses: Sequence[Float]
) -> Iterator[tuple[PoolInterior, int]]:
    """Points to start from, and for how many steps."""
    inside, centre = problem.inside(), WARM
    if not guesses and sample is not None:
        found = solve_pool(sample)
        guesses = () if found is None else (found.prices,)
    if not guesses and not problem.fixed:
        guesses, centre = (_common_prices(problem),), COLD
    for prices in guesses:
        tasks = np.maximum(problem.response(prices, inside), problem.low + LEAST * (inside - problem.low))
        yield PoolInterior(problem, prices, tasks, centre), WARM_STEPS
    yield PoolInterior(problem, _earned(problem, inside), inside, COLD), STEPS


def _earned(problem: PoolProblem, tasks: Float) -> Float:
    """Equal prices of what is usable, at which tasks cost what they are worth."""
    m = problem.n_free
    per_price = 1.0 / problem.usable[:m]
    prices = np.zeros(len(problem.usable))
    worth = np.abs(problem.marginal.slope(tasks)) @ tasks
    prices[:m] = per_price * (worth / (per_price @ (problem.ratios[:m] @ tasks)))
    return prices


def _common_prices(problem: PoolProblem) -> Float:
    """Equal prices of what is usable at which nothing is overfull, about."""
    inside = problem.inside()
    prices = _earned(problem, inside)
    low, high = -30.0, 30.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        load = problem.ratios @ problem.response(np.exp(middle) * prices, inside)
        low, high = (middle, high) if (load > problem.usable).any() else (low, middle)
    return np.asarray(np.exp(middle) * prices)


class PoolInterior:
    """A point strictly inside all bounds, and Newton's steps towards the optimum.

    ``prices`` (n_rows,) are per whole capacity, and last of the fixed sum; ``slack`` is what is left of capacities;
    ``below`` and ``above`` (n_users,) are how far ``tasks`` are from their bounds, and ``a`` and ``b`` the prices of
    these.
    """

    def __init__(self, problem: PoolProblem, prices: Float, tasks: Float, centre: float) -> None:
        self.problem, m = problem, problem.n_free
        low, high, usable, ratios = problem.low, problem.high, problem.usable, problem.ratios
        self.limited = np.isfinite(high)
        self.bounded = bool(self.limited.any())
        self.count = len(low) + m + int(self.limited.sum())
        self.prices = prices.copy()
        self.prices[:m] = np.maximum(prices[:m], 1e-8 * np.abs(prices[:m]).max(initial=0.0) + 1e-300)
        cost, slope = self.prices @ ratios, problem.marginal.slope(tasks)
        centre *= float(np.abs(slope) @ tasks) / len(tasks)
        # where a bound holds a user back, its price is far above the other numbers, and the room to it far below
        rents, rises = np.maximum(slope - cost, 0.0), np.maximum(cost - slope, 0.0)
        if self.bounded:
            span = np.where(self.limited, high - low, 1.0)
            room = np.clip(high - tasks, np.minimum(centre / rents, 0.1 * span), 0.9 * span)
            tasks = np.where(self.limited, high - room, tasks)
        self.below = np.maximum(tasks - low, 1e-9 * tasks)
        self.tasks = low + self.below
        self.a = np.maximum(centre / self.below, rises)
        self.above = np.where(self.limited, high - self.tasks, 1.0)
        self.b = np.where(self.limited, np.maximum(centre / self.above, rents), 0.0)
        left = usable[:m] - ratios[:m] @ self.tasks
        self.slack = np.maximum(left, np.minimum(centre * len(tasks) / self.prices[:m], 0.1 * usable[:m]))

    @property
    def products(self) -> float:
        """The sum of all products that are zero at the optimum."""
        out = float(self.a @ self.below) + float(self.prices[: self.problem.n_free] @ self.slack)
        return out + float(self.b @ self.above) if self.bounded else out

    def run(self, steps: int) -> bool:
        """Step until products and residuals are small; whether they are, and if so, at the best point."""
        best = np.inf, self.tasks, self.prices
        for k in range(steps):
            tell(f"prices, step {k + 1}")
            before = self.tasks, self.prices
            size = self._step()
            best = min(best, (size, *before), key=lambda point: point[0])
            if size <= DONE or not size < np.inf or (best[0] <= NEARLY and size > best[0]):
                break
        if best[0] <= NEARLY:
            _, self.tasks, self.prices = best
        return best[0] <= NEARLY

    def _step(self) -> float:
        """Take a step, and return how far the point before was from the optimum; infinite where none can be taken."""
        problem, m, x, prices, slack = self.problem, self.problem.n_free, self.tasks, self.prices, self.slack
        ratios, usable = problem.ratios, problem.usable
        slope, curvature = problem.marginal.both(x)
        wanted = prices @ ratios
        wanted -= self.a
        if self.bounded:
            wanted += self.b
        missing = usable - ratios @ x
        missing[:m] -= slack
        off = slope - wanted
        unit, products = float(np.abs(slope) @ x) + float(np.abs(prices) @ usable), self.products
        if not unit > 0:  # underflow
            return np.inf
        size = max(products / unit, float(np.abs(off) @ x) / unit, float(np.abs(missing / usable).max()))
        if size <= DONE or not size < np.inf:
            return size
        curvature = -curvature
        powers = (curvature * x > CURVED * slope) & (slope > 0) & (wanted > 0)
        part = np.where(powers, wanted / slope, 1.0)
        off = np.where(powers, -wanted * np.log(part), off)
        per_a, per_b = self.a / self.below, self.b / self.above
        stiff = curvature * part + per_a
        if self.bounded:
            stiff += per_b
        weighed = ratios / stiff
        matrix = weighed @ ratios.T
        matrix[np.arange(m), np.arange(m)] += slack / prices[:m]
        scale = 1.0 / np.sqrt(np.diag(matrix))
        try:  # of few rows; its errors are the next step's
            inverse = np.linalg.pinv(matrix * scale * scale[:, None], REDUNDANT, hermitian=True)
        except np.linalg.LinAlgError:
            return np.inf
        inverse = inverse * scale * scale[:, None]

        def move(to_a: Float | float, to_b: Float | float, to_slack: Float | float) -> _Move:
            """The step that brings products to these numbers, but for products of changes."""
            da = to_a / self.below - self.a
            right, db = off + da, None
            if self.bounded:
                db = np.where(self.limited, to_b / self.above - self.b, 0.0)
                right -= db
            ds = to_slack / prices[:m] - slack
            side = weighed @ right - missing
            side[:m] += ds
            dp = inverse @ side
            dx = (right - dp @ ratios) / stiff
            da -= per_a * dx
            if db is not None:
                db += per_b * dx
            return _Move(dp, dx, ds - slack / prices[:m] * dp[:m], da, db)

        aim = move(0.0, 0.0, 0.0)
        left = self._after(aim, self._reach(aim))
        centre = products / self.count * max((left / products) ** 3 if products > 0 else 0.0, 1e-6)
        to_b = 0.0 if aim.b is None else centre + aim.tasks * aim.b
        step = move(centre - aim.tasks * aim.a, to_b, centre - aim.slack * aim.prices[:m])
        far = self._reach(step)
        far = 1.0 if far >= 1.0 else BACK * far
        self.tasks = x + far * step.tasks
        self.below += far * step.tasks
        self.a += far * step.a
        if step.b is not None:
            self.above -= np.where(self.limited, far * step.tasks, 0.0)
            self.b += far * step.b
        self.prices = prices + far * step.prices
        self.slack = slack + far * step.slack
        return size

    def _reach(self, step: _Move) -> float:
        """How much of a step, at most all, leaves everything that is positive at least zero."""
        m = self.problem.n_free
        worst = [
            1.0,
            *(
                float((-change / at).max(initial=0.0))
                for change, at in (
                    (step.tasks, self.below),
                    (step.a, self.a),
                    (step.slack, self.slack),
                    (step.prices[:m], self.prices[:m]),
                )
            ),
        ]
        if step.b is not None:
            held = self.limited
            worst.append(float((step.tasks / self.above).max(initial=0.0, where=held)))
            worst.append(float((-step.b / self.b).max(initial=0.0, where=held)))
        return 1.0 / max(worst)

    def _after(self, step: _Move, far: float) -> float:
        """The sum of products after part of a step."""
        m = self.problem.n_free
        prices, slack = self.prices[:m] + far * step.prices[:m], self.slack + far * step.slack
        left = float(prices @ slack) + float((self.a + far * step.a) @ (self.below + far * step.tasks))
        if step.b is not None:
            above = self.above - np.where(self.limited, far * step.tasks, 0.0)
            left += float((self.b + far * step.b) @ above)
        return left


@dataclass(frozen=True)
class _Move:
    """A step: changes of prices, tasks, slack, and prices of bounds (``b`` is None where no user has a limit)."""

    prices: Float
    tasks: Float
    slack: Float
    a: Float
    b: Float | None
