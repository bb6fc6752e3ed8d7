"""The largest sum of shares on one pool, a linear program in m prices (Propositions 4.7 and 4.8).

With ranges v_j above lower bounds and what is left r of capacities, the problem ``max sum_j c_j x_j, sum_j g_ji x_j <=
r_i, 0 <= x_j <= v_j`` has the dual

    min over p >= 0 of  sum_i r_i p_i + sum_j v_j max(c_j - pi_j, 0),   pi_j = sum_i g_ji p_i.

At optimal prices users with ``pi_j < c_j`` have all of v_j, those with ``pi_j > c_j`` nothing, and at most m are
between. Users are many and prices few, so that a solver that holds all columns (HiGHS) is left out: passes over the
users give the aggregate response to prices and the users with reduced cost near 0. These alone can change the answer.

Newton's method on aggregate responses, whose slopes follow from the users near 0, goes on until these users can make up
for the residual loads. Then the restricted program of columns seen and users kept gives the next prices and a feasible
answer (Dantzig and Wolfe 1960). First prices come from a sample of every sixteenth user. 2 to 5 rounds are usual.

Rounding: the restricted program is solved in shares of the total and parts of the right sides, as the tolerances of
solvers are absolute; our own `Simplex` is believed only if its duals prove the vertex to 1e-13. Full steps may
oscillate between two prices, so that half steps follow those that improve no bound. The gate computes the bound of the
prices over all users (Bound 4.9).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from fairopt.certificate import Try
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.pool import PoolPrices
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import optimize
from fairopt.runtime.tolerances import ROUNDING, TINY
from fairopt.solve.batch.max_sum import Simplex
from fairopt.solve.form.pool_users import Chunk, Pool, cost, refuse_unfit_bounds
from fairopt.solve.form.program import Program
from fairopt.solve.form.solvers import TIGHT
from fairopt.solve.settings import Proposals, Settings

GAP = 1e-13  # relative gap at which to stop, also in a restricted program: what sums over users round to
FEW = 1_000  # kept users of one round
MAX_KEPT_USERS = 3_000  # kept users of a restricted program, with those of earlier rounds
ROUNDS = 100  # 2 to 5 are usual


def solve_max_sum(program: Program, settings: Settings) -> Proposals:
    """The largest total with prices as evidence; raises `Infeasible` if the lower bounds do not fit."""
    assert program.pool_share is not None
    begun = time.perf_counter()
    pool = Pool(program, program.pool_share)
    least, crossed = pool.least()
    refuse_unfit_bounds(program, least, crossed)
    users = MaxSumPool(pool, least)
    mix = find_mix(users)
    if mix is None:
        yield Proposal("linear", attempt=Try("linear", "no prices found", time.perf_counter() - begun))
        return
    tasks = np.empty(pool.n)
    pool.each(partial(users.settle, mix=mix, tasks=tasks))
    evidence = PoolPrices(pool, Dual(program.term.factor * mix.prices))
    yield Proposal("linear", tasks, evidence, attempt=Try("linear", "solved", time.perf_counter() - begun))


class UserColumns(NamedTuple):
    """Kept users: index, ratios (m x k), coefficient of the share, range of tasks, and ``|pi / c - 1|``."""

    users: Indices
    ratios: Float
    coefficient: Float
    range: Float
    distance: Float

    @classmethod
    def of_all(cls, parts: Sequence[UserColumns]) -> UserColumns:
        """The users of several groups."""
        if len(parts) == 1:
            return parts[0]
        fields: Any = zip(*parts, strict=True)
        return cls(*(np.concatenate(field, axis=-1) for field in fields))

    def take(self, chosen: Any) -> UserColumns:
        """Some of the users, by index or mask."""
        fields: Any = self
        return UserColumns(*(field[..., chosen] for field in fields))

    def nearest(self) -> UserColumns:
        """The users with reduced cost nearest to 0, at most `FEW`."""
        if len(self.users) <= FEW:
            return self
        return self.take(np.sort(np.argpartition(self.distance, FEW)[:FEW]))


class Response(NamedTuple):
    """The aggregate response to prices beyond lower bounds, and the users with reduced cost near 0."""

    load: Float
    total: float
    near: UserColumns

    @classmethod
    def of_all(cls, parts: Sequence[Response]) -> Response:
        """Sums over several groups of users, whose indices are disjoint."""
        near = UserColumns.of_all([p.near for p in parts]).nearest()
        return cls(reduce(np.add, (p.load for p in parts)), float(np.sum([p.total for p in parts])), near)


class Mix(NamedTuple):
    """Tasks beyond the lower bounds: a mix of responses to several prices, and tasks of kept users.

    ``prices`` (m,) are optimal, per whole capacity. ``past`` (k, m) are the prices of the mix and ``weights`` (k,) its
    weights, which sum to at most 1. The ``kept`` users, ascending, have ``tasks``. ``total`` is the sum of shares
    beyond the lower bounds.
    """

    prices: Float
    past: Float
    weights: Float
    kept: UserColumns
    tasks: Float
    total: float

    @property
    def distances(self) -> Float:
        """The smallest distances of kept users from a reduced cost of 0, ascending; at most `FEW`."""
        return np.sort(np.abs(1.0 - cost(self.kept.ratios, self.prices) / self.kept.coefficient))[:FEW]


def find_mix(users: MaxSumPool, rough: bool = False) -> Mix | None:
    """The mix with the largest total; None where a linear program failed.

    A ``rough`` mix is that of the first restricted program: its prices are a first guess for more users.
    """
    model = _RestrictedProgram(users)
    sample = users.sample()
    if sample is None:
        return model.solved(users.all_columns())
    mix = find_mix(sample, rough=True)
    if mix is None:
        return None
    prices, closest, distances = mix.prices, mix.prices, mix.distances
    quantile = min(FEW * sample.n // users.n, len(distances) - 1)
    within = 2.0 * float(distances[quantile]) if len(distances) else 1.0
    full = True
    for left in reversed(range(ROUNDS)):
        # users who tie exactly have a distance of rounding, and all of them count as near
        within = max(within, ROUNDING)
        response = users.respond(prices, within)
        better = model.add(prices, response)
        if better:
            closest = prices
        near = response.near
        many = len(near.users) >= FEW
        reach = max(float(near.distance.max()), ROUNDING) if many else within  # R of Proposition 4.8
        # wide enough for about `FEW` users in the next round, if they are spread evenly
        within = reach * min(FEW / max(len(near.users), 1), 4.0)
        if better and left:
            step = _newton_step(users.usable, model.right - response.load, prices, near, reach)
            # beyond the reach, the users near 0 do not say what the step does: go on. Within it they can make up for it
            if np.max(cost(near.ratios, np.abs(step)) / near.coefficient, initial=0.0) > reach:
                prices = prices + step
                continue
        mix = model.solved(near)
        if mix is None:
            return None
        if model.bound - mix.total <= GAP * model.bound:
            break
        if rough or _largest_change(prices, mix.prices) <= reach / (1.0 + reach):
            return mix
        full = better or not full  # full steps alone may oscillate, half steps alone do not reach a vertex
        prices = mix.prices if full else 0.5 * (closest + mix.prices)
    return mix._replace(prices=closest)


def _largest_change(old: Float, new: Float) -> float:
    """The largest relative change of a price, which bounds that of the price of any task."""
    rises = np.divide(np.abs(new - old), old, out=np.full(len(old), np.inf), where=old > 0)
    return float(np.max(rises, initial=0.0, where=old != new))


def _newton_step(usable: Float, residual: Float, prices: Float, near: UserColumns, reach: float) -> Float:
    """Newton's step to nonnegative prices at which responses fill the capacities.

    ``residual`` is what they leave. The slope of responses is that of the users within ``reach``.
    """
    on = usable > 0
    # in parts of usable capacities, whose prices are of one size; as if the ranges of users within the reach were
    # spread evenly
    ratios, step = near.ratios[on] / usable[on][:, None], np.zeros(len(prices))
    hessian = (ratios * (near.range / (2.0 * reach * near.coefficient))) @ ratios.T
    # resources of equal needs, or that nobody near needs: a ridge for the Cholesky factor
    hessian[np.diag_indices(len(hessian))] += 1e-9 * np.trace(hessian) + TINY
    try:  # min (q - spent)' H (q - spent) / 2 + (q - spent)' residual over q >= 0, by least squares of the factor
        lower = np.linalg.cholesky(hessian)
        spent = (prices * usable)[on]
        best, _ = optimize.nnls(lower.T, np.linalg.solve(lower, hessian @ spent - residual[on] / usable[on]))
    except (np.linalg.LinAlgError, RuntimeError, ValueError):
        return step
    step[on] = (best - spent) / usable[on]
    return step


class _RestrictedProgram:
    """The restricted program of Proposition 4.8.

    Its unknowns are shares relative to the total, and its rows fractions of the right sides, so that the absolute
    tolerances of solvers are relative errors.
    """

    def __init__(self, users: MaxSumPool) -> None:
        self.right = np.maximum(users.usable - users.least, 0.0)
        # A resource that lower bounds fill stays a row; its right side is then rounding, by which nothing can be
        # divided: 70 of 200 pools whose lower bounds fill one to 1e-7 or less were not certified with that as unit.
        self.unit = np.maximum(self.right, 1e-9 * users.usable)
        self.past: list[tuple[Float, Float, float]] = []  # prices, with load and total of the response
        self.bound = np.inf
        self.kept: UserColumns | None = None

    def add(self, prices: Float, response: Response) -> bool:
        """Add the response to prices; whether it improves the upper bound."""
        self.past.append((prices, response.load, response.total))
        bound = response.total + float(prices @ (self.right - response.load))
        better, self.bound = bound < self.bound, min(bound, self.bound)
        return better

    def solved(self, near: UserColumns) -> Mix | None:
        """The best mix, with more users kept; None where the solver failed."""
        self.kept = kept = near if self.kept is None else _newest_columns(near, self.kept)
        few, m = kept.range.size, len(self.unit)
        scale = self.bound if self.past else self._lower_bound(kept)
        if scale == 0:  # all ranges are empty
            return Mix(np.zeros(m), np.zeros((0, m)), np.zeros(0), kept, np.zeros(few), 0.0)
        others = [self._without_kept(kept, *response) for response in self.past]
        # units in a whole column: at prices near 0 a response is worth many times the optimum
        size = np.array([max(total / scale, 1.0) for _, total in others])
        values = np.concatenate([np.ones(few), [total / scale for _, total in others] / size])
        rows = self.unit > 0
        loads = np.reshape([load for load, _ in others], (-1, m)).T / size
        load = np.concatenate([kept.ratios * (scale / kept.coefficient), loads], axis=1)
        top = np.concatenate([kept.coefficient * kept.range / scale, size])
        mixed = np.concatenate([np.zeros(few), 1.0 / size])
        matrix = np.concatenate([load[rows] / self.unit[rows, None], mixed[None]])
        right = np.concatenate([self.right[rows] / self.unit[rows], [1.0]])
        vertex = _vertex(values, matrix, right, top)
        if vertex is None:
            return None
        x, duals = vertex
        prices = np.zeros(m)
        prices[rows] = duals[:-1] * (scale / self.unit[rows])
        parts = x / top  # exactly 1 at the upper bound, so that users there have all of their range to the last digit
        tasks, weights = kept.range * parts[:few], parts[few:]
        past = np.array([prices for prices, _, _ in self.past]).reshape(-1, m)
        total = float(values @ x) * scale
        return Mix(prices, past[weights > 0], weights[weights > 0], kept, tasks, total)

    def _without_kept(self, kept: UserColumns, prices: Float, load: Float, total: float) -> tuple[Float, float]:
        """Load and total of a response without the kept users."""
        tasks = np.where(kept.coefficient > cost(kept.ratios, prices), kept.range, 0.0)
        # what is left is 0 but for rounding where all who responded are kept
        return np.maximum(load - kept.ratios @ tasks, 0.0), max(total - float(kept.coefficient @ tasks), 0.0)

    def _lower_bound(self, kept: UserColumns) -> float:
        """A total that kept users can have: all the same part of their ranges, or one of them its whole range."""
        rows, load, most = self.unit > 0, kept.ratios @ kept.range, kept.coefficient * kept.range
        part = float((self.unit[rows] / load[rows]).min(initial=1.0))
        return max(part * float(most.sum()), float(most.max(initial=0.0)))


def _vertex(values: Float, matrix: Float, right: Float, top: Float) -> tuple[Float, Float] | None:
    """The x with the largest ``values @ x``, ``matrix @ x <= right`` and ``0 <= x <= top``, and the duals of the rows.

    For so few rows `Simplex` takes a tenth of HiGHS's set-up time. HiGHS is used if it fails or a right side is 0.
    """
    if (right > 0).all():
        rows = matrix / right[:, None]
        unit = 1.0 / rows.max(axis=0)
        scaled = values * unit
        most = float(scaled.max())
        found, prices = Simplex((rows * unit).T[:, :, None], (scaled / most)[:, None], (top / unit)[:, None]).run()
        x, duals = found[:, 0] * unit, prices[:, 0] * most / right
        x = np.where(x >= top * (1.0 - 1e-14), top, x)  # ``unit`` and its inverse lost a digit or two
        bound = duals @ right + np.maximum(values - duals @ matrix, 0.0) @ top
        # False for NaN. Taken without this proof, 5 of 200 pools with tight lower bounds were not certified.
        if bound - values @ x <= GAP * bound:
            return x, duals
    solved: Any = optimize.linprog(  # type: ignore[call-overload]
        -values,
        matrix,
        right,
        method="highs-ds",
        options=TIGHT["SCIPY"],
        bounds=np.column_stack([np.zeros(len(top)), top]),
    )
    return None if solved.x is None else (solved.x, np.maximum(-solved.ineqlin.marginals, 0.0))


def _newest_columns(near: UserColumns, before: UserColumns) -> UserColumns:
    """The new kept users, and as many of those before as fit, ascending."""
    both = UserColumns.of_all([near, before])
    _, first = np.unique(both.users, return_index=True)
    return both.take(first[first < len(near.users) + MAX_KEPT_USERS - FEW])


class MaxSumPool:
    """The users of a pool in memory."""

    def __init__(self, pool: Pool, least: Float | None = None) -> None:
        self.pool, self.n, self.usable = pool, pool.n, pool.usable
        self.least = pool.least()[0] if least is None else least

    def sample(self) -> MaxSumPool | None:
        """Every sixteenth user, with the same part of the capacities; None if all users can be kept."""
        pool = self.pool
        return MaxSumPool(Pool(pool.program, pool.share, pool.every * 16)) if pool.n > 2 * FEW else None

    def all_columns(self) -> UserColumns:
        """All users as kept ones; called only where there is no sample."""

        def look(chunk: Chunk) -> UserColumns:
            c, span = chunk.coefficients, chunk.room
            chosen = np.flatnonzero((span > 0) & (c > 0))  # the others keep their lower bounds
            return _columns(chunk, c, span, chosen, np.zeros(len(chosen)))

        return UserColumns.of_all(self.pool.each(look))

    def respond(self, prices: Float, within: float) -> Response:
        """The response to prices, and at most `FEW` users whose distance is ``within`` a number."""

        def look(chunk: Chunk) -> Response:
            c, span, reduced = chunk.coefficients, chunk.room, cost(chunk.ratios, prices)
            tasks = np.where(c > reduced, span, 0.0)
            # in place: a pass takes one chunk of memory
            np.abs(np.subtract(reduced, c, out=reduced), out=reduced)
            close = np.flatnonzero((reduced <= within * c) & (span > 0) & (c > 0))
            near = _columns(chunk, c, span, close, reduced[close] / c[close]).nearest()
            return Response(chunk.ratios @ tasks, float(c @ tasks), near)

        return Response.of_all(self.pool.each(look))

    def settle(self, chunk: Chunk, mix: Mix, tasks: Float) -> None:
        """Write the tasks of a chunk of users."""
        rows, c, part = chunk.rows, chunk.coefficients, np.zeros(chunk.size)
        for prices, weight in zip(mix.past, mix.weights, strict=True):
            part += weight * (c > cost(chunk.ratios, prices))  # summed as in `respond`, so that ties go the same way
        x = np.multiply(part, chunk.room, out=tasks[rows])
        first, last = mix.kept.users.searchsorted([rows.start, rows.stop])
        x[mix.kept.users[first:last] - rows.start] = mix.tasks[first:last]
        x += chunk.of(self.pool.low)
        np.minimum(x, chunk.of(self.pool.high), out=x)


def _columns(chunk: Chunk, c: Float, span: Float, chosen: Indices, distance: Float) -> UserColumns:
    return UserColumns(chosen + chunk.rows.start, chunk.ratios[:, chosen], c[chosen], span[chosen], distance)
