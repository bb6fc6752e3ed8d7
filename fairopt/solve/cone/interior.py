"""A sum of curves after other tiers, by a primal-dual interior point in dense matrices.

The program is to maximise ``sum_t f_t u(z_t)`` with ``z = R x - base`` over tasks x (and the auxiliary t and d of kept
levels), under ``A x <= right`` or ``==`` and x >= 0. With slacks s, multipliers y of rows and a of signs, steps aim at

    A x + s = right,   -grad + A'y - a = 0,   s_k y_k = x_j a_j = mu,   mu -> 0

by a predictor and a corrector (Mehrotra 1992). Eliminating s and a leaves, in steps relative to the unknowns, the
symmetric matrix ``[[H + a/x, A'], [A, -s/y]]``, with one row per constraint.

Why not a cone solver: what earlier tiers leave is thin, about 1e-7 of a share, and a user who has nothing else differs
from others by as much; solvers stop at about 1e-8 of the largest number. Here slacks and multipliers have digits of
their own, however small: ``A'(y/s)A`` would lose a slack of 1e-16 beside others of 1, and rows of their own keep it.

In floats three things count. With steps in absolute units 80 of 96 draws with alpha up to 50 had no answer, with
relative ones 14; sums of powers in place of the logarithm of their mean left 26. The matrix is nearly singular at the
end, so that each solution is refined twice (without, 19), and steps end where rounding does (`NEARLY`) at the best
point so far. Nobody trusts it: the multipliers prove the answer by Bound 7.1, and the gate computes the gap
(docs/methods/cone.md, *Curves after other tiers*). Of 997 drawn tiers it answers 197, as fast as CLARABEL does without
it, and 2 of them nobody else.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.algebra import AtLeast
from fairopt.blocks.form import Curve, Form, Sorted
from fairopt.blocks.ranked import padded
from fairopt.certificate import Try
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.prices import Prices, natural_units
from fairopt.proof.proposal import Proposal
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.progress import tell
from fairopt.solve.form.program import Program
from fairopt.solve.form.program_rows import BlockRows
from fairopt.solve.settings import Proposals, Settings

LARGEST = 400  # unknowns and rows, whose dense matrix each step inverts
INSIDE = 3e-8  # part of the way from the answer of the tier before to an even allocation: inside all that tier keeps
STEPS = 150  # 15 to 60 are usual
DONE = 1e-13  # products and residuals at the end, relative to the terms of their sums
NEARLY = 1e-6  # what is accepted where rounding ends the steps: the tolerance of gaps
BACK = 0.99  # part of the way to the nearest bound that a step goes
LEAST_ROOM = 1e-11  # of a row's terms: first slack of a row that is full
FIRST = 0.1  # products, of the marginal value of all tasks
SHORT = 0.1  # part of a step to products of 0 below which the next step aims at half of the mean
GENTLE = 4.0  # alpha up to which there is one start
NEAR = 0.01  # part of the way back from an optimum that is the start for another objective
TURN = 2.0  # by which numbers may change in a step, relative to their size over alpha


def interior_applies(program: Program) -> bool:
    """Whether the objective is a small sum of curves after other tiers, and all that is kept is piecewise linear."""
    if program.before is None or len(program.pairs) > LARGEST or program.many_rows:
        return False
    size = len(program.pairs) + len(program.capacity_rows) + sum(len(one.rows) for one in program.rows.further)
    alike = program.objective.majorant_is_natural or program.term.is_curved  # at all tasks
    form = program.objective.majorant(program.point(program.size[program.pairs.user])) if alike else None
    if form is None or not form.is_curved:
        return False
    for block in program.rest:
        if program.rows_of(block) is None:
            above = _above_level(program, block)
            if above is None:
                return False
            size += sum(2 * len(_steps(term, program.instance.n_users)) * len(term.c) for term in above.ranked)
    return size <= LARGEST


def _above_level(program: Program, block: object) -> Form | None:
    """An objective less the level that it keeps, as linear and ranked terms; None if it is something else."""
    if not isinstance(block, AtLeast) or not block.objective.majorant_is_natural:
        return None
    majorant = block.objective.majorant(program.point(program.size[program.pairs.user]))
    if majorant is None or any(curve.alpha for curve in majorant.curves):
        return None
    return Form(constant=-block.level).plus(majorant, 1.0)


def _steps(term: Sorted, count: int) -> NDArray[np.intp]:
    """Ranks after which the weights of a term of so many numbers fall."""
    return np.flatnonzero(np.diff(padded(term.v, count)) < 0)


def solve_by_interior(program: Program, settings: Settings) -> Proposals:
    """One proposal, with prices and multipliers."""
    begun = time.perf_counter()
    with np.errstate(all="ignore"):  # NaN ends the steps
        answer = _Thin(program).solved()
    attempt = Try("prices", "no prices found" if answer is None else "solved", time.perf_counter() - begun)
    yield Proposal("prices", attempt=attempt) if answer is None else Proposal("prices", *answer, attempt=attempt)


class _Rows(NamedTuple):
    """Rows of tasks and auxiliary unknowns, at most ``right`` or equal to it, and what their multipliers are of."""

    table: Float
    right: Float
    equal: bool = False
    of: BlockRows | AtLeast | str = ""


class _Thin:
    """The program in unknowns: tasks, and of kept levels auxiliary t and d.

    A sum of the k smallest z is the largest ``k t - sum d`` with ``d >= t - z`` and ``d >= 0``.
    """

    def __init__(self, program: Program) -> None:
        self.program, pairs = program, program.pairs
        low, high, totals = program.low, program.high, pairs.totals.toarray()
        even = 0.5 * program.most / (len(low) * np.maximum(totals.sum(axis=1), 1.0))
        assert program.before is not None
        self.start = (1 - INSIDE) * program.before + INSIDE * even[pairs.user]
        self.signed = np.ones(len(pairs), dtype=bool)  # the unknowns that are at least 0
        rows = program.capacity_rows
        self.rows = [_Rows(_dense(pairs.loads[rows]), program.usable_rows[rows], of="capacities")]
        for one in program.rows.further:
            self.rows.append(_Rows(_dense(one.rows.per_task), one.rows.right, one.rows.equal, one))
        for block in program.rest:
            if isinstance(block, AtLeast) and program.rows_of(block) is None:
                self._add_level(block)
        self.rows.append(_Rows(-totals[low > 0], -low[low > 0]))
        self.rows.append(_Rows(totals[np.isfinite(high)], high[np.isfinite(high)]))

    def _add_level(self, block: AtLeast) -> None:
        """Add the row of a kept level, its auxiliary unknowns, and their rows."""
        form, p = _above_level(self.program, block), len(self.program.pairs)
        assert form is not None
        value, constant = np.zeros(len(self.start)), form.constant
        for curve in form.curves:
            table, base = self._numbers(curve)
            value[:p] += curve.factor @ table
            constant += float(curve.values(-base).sum())
        for term in form.ranked:
            table, base = self._numbers(term)
            n, v = len(base), term.factor * padded(term.v, len(base))
            value[:p] += v[-1] * table.sum(axis=0)
            constant -= v[-1] * float(base.sum())
            for k in _steps(term, n):
                t, z = len(self.start), table @ self.start[:p] - base
                at = float(np.sort(z)[k])
                # d strictly above t - z, but by less than INSIDE: the level that d lowers is kept to about that
                room = np.maximum(at - z, 0.0) + 1e-2 * INSIDE * np.abs(z).max()
                self.start = np.concatenate([self.start, [at], room])
                self.signed = np.append(self.signed, np.arange(n + 1) > 0)
                value = np.append(value, (v[k] - v[k + 1]) * np.append(k + 1.0, -np.ones(n)))
                rows = np.zeros((n, len(self.start)))
                rows[:, :p], rows[:, t], rows[:, t + 1 :] = -table, 1.0, -np.eye(n)
                self.rows.append(_Rows(rows, -base))
        self.rows.append(_Rows(-value[None], np.array([constant]), of=block))

    def _numbers(self, term: Curve | Sorted) -> tuple[Float, Float]:
        """The matrix and the base of a term's numbers ``table @ tasks - base``."""
        pairs, c = self.program.pairs, self.program.pairs.of(term.c)
        if term.numbers is None:
            return pairs.by_user(c).toarray(), np.zeros(self.program.instance.n_users)
        base = term.numbers.base
        return pairs.by_number(c, term.numbers).toarray(), np.zeros(len(term.numbers)) if base is None else base

    def solved(self) -> tuple[Float, Prices] | None:
        """The optimal tasks, with prices and multipliers; None if the steps end elsewhere."""
        program, p, n = self.program, len(self.program.pairs), len(self.start)
        table = np.vstack([np.pad(one.table, ((0, 0), (0, n - one.table.shape[1]))) for one in self.rows])
        majorant = program.objective.majorant(program.point(program.size[program.pairs.user]))
        assert majorant is not None
        numbers, curves = [self._numbers(curve) for curve in majorant.curves], majorant.curves
        free = np.ones(n, dtype=bool)
        free[:p] = ~program.zero_pairs
        objective = _Curves(
            np.pad(np.vstack([of for of, _ in numbers]), ((0, 0), (0, n - p)))[:, free],
            np.concatenate([base for _, base in numbers]),
            np.concatenate([curve.factor for curve in curves]),
            np.concatenate([np.full(len(curve.factor), curve.alpha) for curve in curves]),
        )
        right = np.concatenate([one.right for one in self.rows])
        equal = np.repeat([one.equal for one in self.rows], [len(one.right) for one in self.rows])
        size = 1.0 if objective.in_logs else -float(objective.slopes(self.start[free])[0] @ self.start[free])
        objective = replace(objective, factor=objective.factor / size)  # slopes near 1
        point, alpha = None, GENTLE
        # Each optimum is a start for the next, at twice the alpha: from the first start alone 4 more of 158 draws, with
        # alpha up to 50, had no answer.
        while point is None or alpha < 2 * objective.alpha.max():
            gentler = replace(objective, alpha=np.minimum(objective.alpha, alpha))
            point = _Point(gentler, table[:, free], right, equal, self.signed[free], self.start[free], point)
            if not point.run():
                return None
            alpha *= 2
        tasks = np.zeros(n)
        tasks[free] = point.x
        y = point.y * (size * objective.unit(point.x))
        prices, rows, kept = np.zeros(len(program.usable_rows)), [], []
        for one, part in zip(self.rows, np.split(y, np.cumsum([len(one.right) for one in self.rows])), strict=False):
            if isinstance(one.of, BlockRows):
                rows.append((one.of, part))
            elif isinstance(one.of, AtLeast):
                kept.append((one.of, float(part[0])))
            elif one.of:
                prices[program.capacity_rows] = part
        # of the majorant, in whose units the objective was maximised
        at, term = program.point(tasks[:p]), program.term
        unit, majorant = at.level(term.share) if term.is_curved else 1.0, program.objective.majorant(at)
        assert majorant is not None
        dual = Dual(prices, rows, kept, unit)
        return tasks[:p], Prices(program, dual.times(natural_units(program, majorant, at, unit)))


def _dense(table: Any) -> Float:
    """A matrix, sparse or not, as an array."""
    return np.asarray(table.toarray() if hasattr(table, "toarray") else table, dtype=float)


@dataclass(frozen=True)
class _Curves:
    """A sum of powers of numbers ``table @ x - base``, or of one alpha the logarithm of their power mean.

    The logarithm has slopes of one size at any level; those of powers with alpha = 20 vary by 1e140.
    """

    table: Float
    base: Float
    factor: Float
    alpha: Float

    @property
    def in_logs(self) -> bool:
        """Whether it is the logarithm."""
        return bool((self.alpha == self.alpha[0]).all())

    def unit(self, x: Float) -> float:
        """The change of the sum per change of the logarithm."""
        z = self.table @ x - self.base
        return float(self.factor @ z ** (1.0 - self.alpha)) if self.in_logs else 1.0

    def slopes(self, x: Float) -> tuple[Float, Float]:
        """Minus the gradient, and minus the matrix of second derivatives."""
        z = self.table @ x - self.base
        parts = np.log(self.factor) + (1.0 - self.alpha) * np.log(z)
        parts = np.exp(parts - parts.max() * self.in_logs)  # a power mean does not change by a common factor
        parts /= parts.sum() if self.in_logs else 1.0
        slope = self.table.T @ (parts / z)
        curvature = (self.table.T * (self.alpha * parts / z**2)) @ self.table
        if self.in_logs:
            curvature += (1.0 - self.alpha[0]) * np.outer(slope, slope)
        return -slope, curvature

    def longest(self, x: Float, step: Float) -> float:
        """The largest part of a step that is near enough for second derivatives to tell the values."""
        turn = np.abs(self.table @ step) / (self.table @ x - self.base) * np.maximum(self.alpha, 1.0)
        return TURN / max(float(turn.max(initial=0.0)), TURN)


class _Point:
    """A point with positive slacks s of rows and multipliers y, and a of the unknowns that are at least 0."""

    def __init__(
        self,
        objective: _Curves,
        table: Float,
        right: Float,
        equal: Bool,
        signed: Bool,
        x: Float,
        near: _Point | None,
    ) -> None:
        if near is not None:
            x = NEAR * x + (1 - NEAR) * near.x
        self.objective, self.table, self.right = objective, table, right
        self.signed, self.equal = signed, equal
        self.span = np.where(signed & (x > 0), x, np.abs(x).max(initial=1e-9))  # about the size of unknowns
        self.x: Float = np.where(signed, np.maximum(x, 1e-9 * self.span), x)
        self.size = np.maximum(np.abs(table) @ self.span, np.abs(right))
        self.size = np.where(self.size > 0, self.size, 1.0)
        self.s = np.where(equal, 1.0, np.maximum(right - table @ self.x, LEAST_ROOM * self.size))
        first = FIRST * self.unit * (1.0 if near is None else NEAR**2)
        self.y = np.where(equal, 0.0, first / self.s)
        self.a = np.where(signed, first / self.x, 0.0)
        if near is not None:
            unit = self.unit / near.unit
            self.y, self.a = np.maximum(self.y, unit * near.y), np.maximum(self.a, unit * near.a)

    @property
    def unit(self) -> float:
        """The marginal value of all tasks."""
        return -float(self.objective.slopes(self.x)[0] @ self.x)

    def run(self) -> bool:
        """Step until products and residuals are small, and go to the best point; whether they are."""
        best, least = (self.x, self.y), np.inf
        for k in range(STEPS):
            tell(f"interior point, step {k + 1}")
            before = self.x, self.y
            size = self._step()
            done = not size < np.inf or size <= DONE or (least <= NEARLY and size > 0.5 * least)
            if size < least:
                best, least = before, size
            if done:
                break
        self.x, self.y = best
        return least <= NEARLY

    def _step(self) -> float:
        """Take a step, and return how far the point before was from the optimum; infinite where none can be taken."""
        x, s, y, a, table, signed, equal = self.x, self.s, self.y, self.a, self.table, self.signed, self.equal
        slope, curvature = self.objective.slopes(x)
        dual = slope + table.T @ y - a
        primal = np.where(equal, 0.0, s) + table @ x - self.right
        count = signed.sum() + (~equal).sum()
        # three parts of the gap at this point: products, stationarity, and violated rows at their multipliers
        mean = (float(s[~equal] @ y[~equal]) + float(a @ x)) / count
        broken = float(np.abs(y) @ np.abs(primal)) + self.unit * float((np.abs(primal) / self.size).max())
        size = max(mean * count, float(np.abs(dual) @ np.abs(x)), broken) / self.unit
        if size <= DONE or not size < np.inf:
            return size
        n, span = len(x), np.where(signed, x, self.span)  # steps are relative to the unknowns
        matrix = np.zeros((n + len(s), n + len(s)))
        matrix[:n, :n] = curvature * span * span[:, None]
        matrix[np.arange(n), np.arange(n)] += np.where(signed, a * x, 0.0)
        matrix[n:, :n] = table * span
        matrix[:n, n:] = matrix[n:, :n].T
        matrix[np.arange(n, n + len(s)), np.arange(n, n + len(s))] = np.where(equal, 0.0, -s / y)
        try:
            inverse = np.linalg.inv(matrix)
        except np.linalg.LinAlgError:
            return np.inf

        def move(to_s: Float | float, to_a: Float | float) -> tuple[Float, Float, Float, Float]:
            """The Newton step towards these products."""
            of_x = np.where(signed, to_a / x, 0.0) - slope - table.T @ y
            of_rows = -primal - np.where(equal, 0.0, to_s / y - s)
            both = np.concatenate([span * of_x, of_rows])
            solution = inverse @ both
            for _ in range(2):
                solution += inverse @ (both - matrix @ solution)
            dx, dy = span * solution[:n], solution[n:]
            ds = np.where(equal, 0.0, -primal - table @ dx)
            da = np.where(signed, (to_a - a * dx) / x - a, 0.0)
            return dx, ds, dy, da

        dx, ds, dy, da = move(0.0, 0.0)
        first, second = self._parts(dx, ds, dy, da)
        of_rows, of_bounds = (s + first * ds) * (y + second * dy), (x + first * dx) * (a + second * da)
        part = max(float(of_rows[~equal].sum() + of_bounds[signed].sum()) / (mean * count), 0.0)
        # first Mehrotra's step; where the corrector leads to a boundary, towards less ambitious products without it
        for sigma, corrected in ((min(part**3, 1.0), 1.0), (0.3, 0.0), (1.0, 0.0)):
            aim = sigma * mean
            mx, ms, my, ma = move(aim - corrected * ds * dy, aim - corrected * dx * da)
            length = min(*self._parts(mx, ms, my, ma), self.objective.longest(x, mx))
            if length > SHORT:
                break
        self.x, self.s = x + length * mx, np.where(equal, 1.0, s + length * ms)
        self.y, self.a = y + length * my, a + length * ma
        return size

    def _parts(self, dx: Float, ds: Float, dy: Float, da: Float) -> tuple[float, float]:
        """The largest parts of a step within the bounds, of unknowns and of multipliers."""
        signed, limited = self.signed, ~self.equal
        first = _part(self.x[signed], dx[signed], self.s[limited], ds[limited])
        return first, _part(self.y[limited], dy[limited], self.a[signed], da[signed])


def _part(*each: Float) -> float:
    """The part of steps that keeps numbers positive: the numbers and their steps, in turn."""
    value, step = np.concatenate(each[::2]), np.concatenate(each[1::2])
    return min(1.0, BACK * float(np.min(-value / step, where=step < 0, initial=np.inf)))
