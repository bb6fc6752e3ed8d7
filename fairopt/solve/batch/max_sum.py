"""The largest sum of shares of many instances at once, by the simplex method (Proposition 8.3).

Each instance is ``max sum_j c_j x_j`` under ``sum_j d_ji x_j <= C_i`` and ``0 <= x_j <= high_j``, with as many rows as
resources. All take one step at a time, each with a basis of its own; those that are done wait. A table of m + 1 rows
for each is less work than to set up a solver (on one program a tenth of HiGHS's), and a basis is feasible from the
start: all x at 0.

Rounding: columns and the largest coefficient are scaled to 1, so that `PIVOT` is relative. A table is never computed
afresh, so that errors of pivots add up; a vertex that they spoil has a gap, and the gate refuses it (Bound 8.4). Ties,
common for small integers, may cycle: after a number of pivots Bland's rule takes over, which cannot.
"""

from __future__ import annotations

import numpy as np

from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.solve.form.many_instances import BatchChunk

PIVOT = 1e-11  # smaller numbers of a table scaled to 1 are rounding; the gap includes their effect
PATIENCE = 3  # pivots per row and column before Bland's rule, which cannot cycle; 1 is the most seen
GIVE_UP = 30  # pivots per row and column


def max_sum_of_chunk(chunk: BatchChunk) -> tuple[Float, Float]:
    """Vertices with the largest sum of shares, (n_users, size), and prices per whole capacity, (n_resources, size)."""
    ratios = chunk.demands / chunk.capacities
    largest = ratios.max(axis=1)
    part = largest > 0
    # in units of what a user could run alone, so that columns are at most 1; the largest coefficient is 1
    unit = np.divide(1.0, largest, out=np.zeros(largest.shape), where=part)
    coefficients = chunk.per_task * unit
    best = np.maximum(coefficients.max(axis=0), np.finfo(float).tiny)
    columns, tops = ratios * unit[:, None], np.where(part, chunk.limits * largest, 0.0)
    values, prices = Simplex(columns, coefficients / best, tops).run()
    return chunk.fitted(np.where(values >= tops, chunk.limits, np.minimum(values * unit, chunk.limits))), prices * best


class Simplex:
    """Maximise ``coefficients @ y`` over ``columns.T @ y <= 1``, ``0 <= y <= tops``, for many small programs at once.

    Each program is a dictionary (Chvátal 1983): basic variables and the objective as linear functions of the nonbasic
    ones. Variables 0..n-1 are y, the rest the slacks. A variable at its upper bound is replaced by its distance from
    there (``flipped``), so that all nonbasic variables are 0.
    """

    def __init__(self, columns: Float, coefficients: Float, tops: Float) -> None:
        n, m, size = columns.shape
        self.n, self.m = n, m
        self.table = np.zeros((m + 1, n + 1, size))
        self.table[:m, :n] = columns.transpose(1, 0, 2)
        self.table[m, :n] = -coefficients
        self.table[:m, n] = 1.0
        self.nonbasic = np.arange(n)[:, None].repeat(size, axis=1)
        self.basis = np.arange(n, n + m)[:, None].repeat(size, axis=1)
        self.flipped = np.zeros((n + m, size), dtype=bool)
        self.tops = np.concatenate([tops, np.full((m, size), np.inf)])
        # in units of what a user could run alone; a limit beyond what capacities allow does not bind, and costs no
        # flips
        self.bounded = bool((tops < 1.0).any())

    def run(self) -> tuple[Float, Float]:
        """The variables y of shape (n, size) and the prices of shape (m, size); NaN after too many pivots."""
        n, m, size = self.n, self.m, self.table.shape[2]
        values, prices = np.full((n, size), np.nan), np.full((m, size), np.nan)
        here = np.arange(size)
        for k in range(GIVE_UP * (n + m)):
            bland = k >= PATIENCE * (n + m)
            costs = self.table[m, :n]
            entering, done = _choose(costs, self.nonbasic, -PIVOT, bland)
            if done.any():
                values[:, here[done]], prices[:, here[done]] = self._read(done)
                here = here[~done]
                if not len(here):
                    break
                self._keep(~done)
                entering = entering[~done]
            self._step(entering, bland)
        return values, prices

    def _step(self, entering: Indices, bland: bool) -> None:
        n, m = self.n, self.m
        # masks and products, as each instance has an index of its own
        enters = entering == np.arange(n + 1)[:, None]
        column = np.einsum("ijb,jb->ib", self.table, enters.astype(float))
        values = self.table[:m, n]
        ratio = np.divide(
            np.maximum(values, 0.0), column[:m], out=np.full(values.shape, np.inf), where=column[:m] > PIVOT
        )
        if self.bounded:  # a basic variable that rises may reach its upper bound first
            to_top = np.take_along_axis(self.tops, self.basis, axis=0) - values
            rises = (column[:m] < -PIVOT) & (to_top < np.inf)
            np.divide(np.maximum(to_top, 0.0), -column[:m], out=ratio, where=rises)
        least = ratio.min(axis=0)
        ties = ratio <= least
        leaving = np.where(ties, self.basis if bland else np.arange(m)[:, None], n + m).argmin(axis=0)
        leaves = leaving == np.arange(m + 1)[:, None]
        pivots = np.ones(len(entering), dtype=bool)
        if self.bounded:
            column, pivots = self._flip_bounds(entering, enters, leaves, column, least)
        self._pivot(enters & pivots, leaves & pivots, column, pivots)

    def _flip_bounds(
        self, entering: Indices, enters: Bool, leaves: Bool, column: Float, least: Float
    ) -> tuple[Float, Bool]:
        """Flip the entering variable if it reaches its own bound first, else a leaving one that is at its upper bound.

        Returns the entering column after that, and where a pivot follows: not where the entering variable was flipped.
        """
        n, m = self.n, self.m
        index = np.arange(len(entering))
        variable = self.nonbasic[entering, index]
        own = self.tops[variable, index]
        flips = own <= least  # no pivot: replaced by its distance from the bound, its column is negated
        self.table[:, n] -= np.where(flips, column * np.where(flips, own, 0.0), 0.0)
        np.negative(self.table, out=self.table, where=(enters & flips)[None])
        self.flipped[variable, index] ^= flips
        row = leaves[:m].argmax(axis=0)
        basic = self.basis[row, index]
        at_top = ~flips & (column[row, index] < 0)
        top = np.where(at_top, self.tops[basic, index], 0.0)
        negated = leaves & at_top
        np.negative(self.table, out=self.table, where=negated[:, None])
        self.table[:, n] += np.where(negated, top, 0.0)
        self.flipped[basic, index] ^= at_top
        return np.where(flips, 0.0, np.where(negated, -column, column)), ~flips

    def _pivot(self, enters: Bool, leaves: Bool, column: Float, pivots: Bool) -> None:
        """Swap the entering and the leaving variable of each program that pivots; elsewhere the column is 0."""
        n, m = self.n, self.m
        row = np.einsum("ijb,ib->jb", self.table, leaves.astype(float))
        pivot = np.where(pivots, np.einsum("jb,jb->b", row, enters.astype(float)), 1.0)
        row, by = row / pivot, column / pivot
        self.table -= np.where(leaves, 0.0, column)[:, None] * row[None]
        np.copyto(self.table, -by[:, None], where=enters[None])
        np.copyto(self.table, row[None], where=leaves[:, None])
        np.copyto(self.table, 1.0 / pivot, where=enters[None] & leaves[:, None])
        out = np.where(leaves[:m], self.basis, 0).sum(axis=0)
        into = np.where(enters[:n], self.nonbasic, 0).sum(axis=0)
        np.copyto(self.nonbasic, out, where=enters[:n])
        np.copyto(self.basis, into, where=leaves[:m])

    def _keep(self, which: Bool) -> None:
        self.table, self.tops, self.flipped = self.table[..., which], self.tops[:, which], self.flipped[:, which]
        self.nonbasic, self.basis = self.nonbasic[:, which], self.basis[:, which]

    def _read(self, which: Bool) -> tuple[Float, Float]:
        n, m = self.n, self.m
        table, basis, nonbasic = self.table[..., which], self.basis[:, which], self.nonbasic[:, which]
        variables = np.arange(n + m)[:, None, None]
        values = np.where(basis == variables[:n], table[:m, n], 0.0).sum(axis=1)
        values = np.where(self.flipped[:n, which], self.tops[:n, which] - values, values)
        prices = np.where(nonbasic == variables[n:], table[m, :n], 0.0).sum(axis=1)
        return np.maximum(values, 0.0), np.maximum(prices, 0.0)


def _choose(costs: Float, names: Indices, below: float, bland: bool) -> tuple[Indices, Bool]:
    """The entering column of each program (with the most negative cost, or by Bland's rule), and which have none."""
    eligible: Bool = costs < below
    keys = np.where(eligible, names if bland else costs, np.inf)
    return keys.argmin(axis=0), np.logical_not(eligible.any(axis=0))
