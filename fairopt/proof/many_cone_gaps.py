"""The gaps of user-defined objectives on many instances of one shape, by one dual point for each (Bound 8.6).

The instances are ``max f(s)`` over ``s_k = c_k x, R x <= 1, 0 <= x <= X`` (`fairopt.solve.form.repeated`), f in cones
``min c'z + d, b - A z in K`` with z = (s, t). That these data are those of f is tested (`is_as_asked`). Their numbers
are substituted here, from the demands, capacities and coefficients as given, for u = x / X in [0, 1]; a solver's own
data are not read. All instances together are one program of blocks, so that the repair and the bound of a cone program
(Bound 7.3) hold for each: U_b is the part of block b.

The unit of a gap is that of `Objective.unit`, bounded from below without further values of f. With prices p of
capacities and charges q of ranges [0, 1], weak duality leaves ``f(v x) <= U - (1 - v) S`` with S = sum p + sum q:

    f(x) - f(x / 2) >= S / 2 - e,     (f(x) - f((1 - h) x)) / h >= S - e / h,     e = U - f(x) + rounding.

The unit is not below the smaller, so that a gap is up to twice that of one instance alone. What is assumed, or not
proved, has an infinite gap, and is solved again by itself.

Why blocks: the steps of a repair are tens of calls of NumPy, 1 ms for one instance of 20 users and 3 for 64. Floats:
values of f and their rounding are those of `many_values`; ranges of t hold for all instances of a chunk together, since
they charge what rounding leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairopt.blocks.model import Point
from fairopt.blocks.written_values import irregular
from fairopt.instance import Instance
from fairopt.proof.conic import ConeProgram
from fairopt.proof.many_values import values_and_errors, values_at
from fairopt.proof.ranges import Entries, ranges_within_cones
from fairopt.proof.written_rows import is_as_asked
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import GAP_TOLERANCE, NOISE, TERM_ROUNDING
from fairopt.solve.form.compiled import Cones
from fairopt.solve.form.repeated import OwnChunk, Repeated

STEP = 1e-4  # of `drop_towards_zero`
PLAINLY = GAP_TOLERANCE / 20  # of S: a gap of at most twice this is not made smaller


class Duals(NamedTuple):
    """Multipliers in units of the objective: of the rows of `Repeated`, (n_rows, size), of capacities, (n_resources,
    size), and of limits, (n_users, size), which bounds do not need.
    """

    rows: Float
    prices: Float
    limits: Float

    def of(self, k: int) -> Duals:
        """Those of one instance."""
        return Duals(*(part[:, k] for part in self))


def judge_cones(
    repeated: Repeated, chunk: OwnChunk, tasks: Float, duals: Duals, first: Instance
) -> tuple[Float, Float]:
    """Gap and violation of each instance at tasks (n_users, size); a gap is infinite if nothing is proved.

    On the ``first`` of the instances the block's own method is evaluated too.
    """
    violation = chunk.violation(tasks)
    with np.errstate(all="ignore"):  # a NaN proves nothing
        if not (is_as_asked(repeated.compiled) and _is_of(repeated, chunk, first)):
            return np.full(violation.shape, np.inf), violation
        gap = _gaps(repeated, chunk, tasks, duals)
    return np.where(gap == gap, gap, np.inf), violation


def _is_of(repeated: Repeated, chunk: OwnChunk, first: Instance) -> bool:
    """Whether the objective's own value on the first instance is that of the form, at irregular tasks."""
    tasks = irregular(chunk.most[:, 0] / len(chunk.most)) / 2
    held = {v.id: (c[:, 0] * tasks)[None] for v, c in zip(repeated.variables, chunk.coefficients, strict=True)}
    ours = float(values_at(repeated.form, held, 1)[0]) + repeated.constant
    try:
        own = repeated.objective.value(Point(first, tasks[:, None]))
    except Exception:  # of a user's code, which is asked again one by one
        return False
    return own == ours or abs(own - ours) <= NOISE * max(abs(own), abs(ours))


def _gaps(repeated: Repeated, chunk: OwnChunk, tasks: Float, duals: Duals) -> Float:
    """The gaps; NaN where a number is missing."""
    size = tasks.shape[1]
    factor = np.maximum(duals.prices, 0.0).sum(axis=0)  # about the unit, so that blocks are of one size
    blocks = _Blocks(repeated, chunk, np.where((factor > 0) & (factor < np.inf), factor, 1.0))
    held = _shares(repeated, chunk, tasks)
    typical = _shares(repeated, chunk, chunk.most / len(tasks))
    unlike = {key: np.stack([irregular(one) for one in values]) for key, values in typical.items()}
    value, error = values_and_errors(repeated.form, held, unlike, size)
    bound, slope, open_ = blocks.bound(duals, value / blocks.factor)
    half = values_at(repeated.form, _shares(repeated, chunk, tasks / 2), size)
    excess, rounding = (bound - value / blocks.factor), 2.0 * error / blocks.factor
    short = np.maximum(excess, 0.0) + rounding
    unit = np.minimum(slope / 2 - short, slope - short / STEP)
    # a value beyond the bound would show that the expression is not that of the instance
    proved = (unit > 0) & np.isfinite(half) & ~open_ & (excess >= -GAP_TOLERANCE * unit)
    return np.where(proved, short / unit, np.inf)


def _shares(repeated: Repeated, chunk: OwnChunk, tasks: Float) -> dict[int, Float]:
    """The shares that tasks are, (size, n_users), by the ids of variables."""
    return {v.id: (c * tasks).T for v, c in zip(repeated.variables, chunk.coefficients, strict=True)}


class _Blocks:
    """The programs of a chunk as one, in columns (u, t) by instance and rows by cone; costs in multiples of factors."""

    def __init__(self, repeated: Repeated, chunk: OwnChunk, factor: Float) -> None:
        data, rows, others = repeated.compiled.data, repeated.rows, repeated.others
        n, m, size = chunk.demands.shape
        self.factor, self.size, self.n, self.columns = factor, size, n, n + len(others)
        self.place, self.of_capacity, dims = _places(repeated.dims, m, size)
        top = chunk.most
        # what a unit of u is of each column: of shares by user, of others itself
        user, scale = np.zeros(len(data["c"]), dtype=np.intp), np.ones((len(data["c"]), size))
        for columns, c in zip(repeated.columns, chunk.coefficients, strict=True):
            user[columns], scale[columns] = np.arange(n), c * top
        user[others] = n + np.arange(len(others))
        a = sp.coo_array(sp.csr_array(data["A"])[rows])
        start = self.columns * np.arange(size)
        entries = [
            (self.place[:, a.row].T, user[a.col][:, None] + start, a.data[:, None] * scale[a.col]),
            (
                np.broadcast_to(self.of_capacity.T, (n, m, size)),
                np.broadcast_to(np.arange(n)[:, None, None] + start, (n, m, size)),
                chunk.ratios * top[:, None],
            ),
        ]
        row, column, value = (np.concatenate([np.ravel(some[k]) for some in entries]) for k in range(3))
        shape = size * self.columns, size * (len(rows) + m)
        transposed = sp.csr_array(sp.coo_array((value, (column, row)), shape=shape))
        c, b = np.zeros((self.columns, size)), np.ones(shape[1])
        np.add.at(c, user, np.asarray(data["c"])[:, None] * scale / factor)
        b[self.place] = np.asarray(data["b"])[rows]
        least, most = self.ranges(repeated, scale)
        self.offset = repeated.compiled.offset / factor
        self.program = ConeProgram(c.T.ravel(), b, transposed, dims, 0.0, least, most)

    def ranges(self, repeated: Repeated, scale: Float) -> tuple[Float, Float]:
        """The ranges of columns: of u in [0, 1], and of others what shares of any instance of the chunk imply."""
        data, others = repeated.compiled.data, repeated.others
        least, most = np.full(len(data["c"]), -np.inf), np.full(len(data["c"]), np.inf)
        least[repeated.columns], most[repeated.columns] = 0.0, scale.max(axis=1)[repeated.columns]
        rows = Entries.of(sp.csr_array(data["A"]))
        least, most = ranges_within_cones(rows, np.asarray(data["b"]), data["dims"], least, most)
        ends = (np.append(np.full(self.n, end), side[others]) for end, side in ((0.0, least), (1.0, most)))
        low, high = (np.tile(side, self.size) for side in ends)
        return low, high

    def bound(self, duals: Duals, value: Float) -> tuple[Float, Float, Bool]:
        """Upper bounds on the optima, what of them vanishes with the tasks (S), and what has no proven range.

        As of one program only variables without a range to charge what is left at are balanced, and all of them where
        that leaves a gap to the value.
        """
        program, y = self.program, np.zeros(len(self.program.b))
        y[self.place] = (duals.rows / self.factor).T
        y[self.of_capacity] = (np.maximum(duals.prices, 0.0) / self.factor).T
        y = np.nan_to_num(y)
        others = np.broadcast_to(np.arange(self.columns) >= self.n, (self.size, self.columns)).ravel()
        first = self._bound(program.repaired(y, others & ~program.bounded, others))
        left = first[2] | (first[0] - value > PLAINLY * first[1])
        if not left.any():
            return first
        second = self._bound(program.repaired(y, others, others))
        better = left & (first[2] | (~second[2] & (second[0] < first[0])))
        total, slope, open_ = (np.where(better, two, one) for one, two in zip(first, second, strict=True))
        return total, slope, open_

    def _bound(self, y: Float) -> tuple[Float, Float, Bool]:
        """The same by a point of the dual cone."""
        program, nothing = self.program, np.zeros(len(self.program.c))
        found = program.charges(y, nothing, nothing)
        residual, charge = (part.reshape(self.size, self.columns) for part in found[:2])
        open_: Bool = np.logical_or.reduce(found[2].reshape(self.size, self.columns), axis=1)
        of_rows = program.b * y
        every = np.concatenate([of_rows[self.place], of_rows[self.of_capacity]], axis=1)
        total = every.sum(axis=1) - charge.sum(axis=1)
        total += TERM_ROUNDING * (np.abs(every).sum(axis=1) + np.abs(charge).sum(axis=1)) - self.offset
        of_limits = np.maximum(-residual[:, : self.n], 0.0).sum(axis=1)
        slope = (y[self.of_capacity].sum(axis=1) + of_limits) * (1.0 - NOISE)
        return total, slope, open_


def _places(dims: Cones, m: int, size: int) -> tuple[Indices, Indices, Cones]:
    """The rows of blocks among those of all, which stand by cone, (size, n_rows), those of m capacities, (size, m),
    which follow other inequalities, and the cones of all.
    """
    parts = [dims.zero, dims.nonneg, m, sum(dims.soc), sum(n * (n + 1) // 2 for n in dims.psd), 3 * dims.exp]
    parts.append(3 * len(dims.p3d))
    starts = np.cumsum([0, *(size * part for part in parts[:-1])])
    found = [start + np.arange(size * part).reshape(size, part) for start, part in zip(starts, parts, strict=True)]
    of_capacity = found.pop(2)
    together = Cones(
        size * dims.zero,
        size * (dims.nonneg + m),
        dims.soc * size,
        size * dims.exp,
        dims.p3d * size,
        dims.psd * size,
    )
    return np.concatenate(found, axis=1), of_capacity, together
