"""Linear constraints as rows of coefficients by (user, server) pair, and the largest value under them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.base import brief
from fairopt.blocks.table_rows import table_rows
from fairopt.errors import InvalidBlock
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import cp, optimize, sp
from fairopt.runtime.tolerances import TERM_ROUNDING

if TYPE_CHECKING:
    from fairopt.blocks.model import Model

__all__ = ["Rows"]  # which users' constraints return

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
TYPICAL = 1e-3  # weight of terms at typical tasks in the scale of a violation
REAL = "biuf"  # kinds of NumPy dtypes
LEAST = float(np.finfo(float).tiny)  # the inverse of smaller numbers overflows


class _WrongRows(InvalidBlock):
    """Invalid arguments of `Rows`; `rows_of` adds the name of the block."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Constraints ``per_task @ x <= right``, or ``==``, on tasks x by (user, server) pair.

    Solver input, violations, dual costs and the entry in saved files follow from these numbers.

    Parameters
    ----------
    per_task : array-like or sparse array of shape (n_pairs,) or (n_rows, n_pairs)
        The coefficients, such as rows of ``pairs.share(block)`` and ``pairs.totals``.
    right : scalar or array-like of shape (n_rows,), default 0
        The right-hand sides.
    equal : bool, default False
        Whether the rows are equations.
    unit : scalar or array-like of shape (n_rows,), optional
        The scale of each row for solvers. Default: the right-hand side; if that is 0, the largest term at typical
        numbers of tasks.
    labels : sequence of length n_rows, optional
        What each row is about, which identifies it in saved files: a user, a team, or a pair of these.

    Examples
    --------
    >>> import fairopt as fo
    >>> from fairopt.blocks.model import Pairs
    >>> from fairopt.blocks.rows import Rows
    >>> pairs = Pairs(fo.Instance([[2, 3], [2, 1]], [6, 4]))
    >>> rows = Rows(pairs.share(fo.DominantShare()), [0.5, 0.75])
    >>> rows.load([0.5, 2]), rows.cost([1, 0]), rows.broken([0.5, 2]).round(3)
    (array([0.375     , 0.66666667]), array([0.75, 0.  ]), array([0., 0.]))
    """

    per_task: Any
    right: Any = 0.0
    equal: bool = False
    unit: Any = None
    labels: Sequence[Any] | NDArray[np.object_] | None = None

    def __post_init__(self) -> None:
        given: Any = self.per_task if hasattr(self.per_task, "tocsr") else _numbers(self.per_task, "per_task")
        if given.ndim not in (1, 2) or given.dtype.kind not in REAL:
            raise _WrongRows(
                f"per_task of Rows has shape {given.shape} and type {given.dtype}; give real numbers of shape "
                "(n_rows, n_pairs), or (n_pairs,) for one row"
            )
        table = sp.csr_array(given.reshape((1, -1)) if given.ndim == 1 else given)
        object.__setattr__(self, "per_task", table)
        for name in ("right", "unit"):
            if (value := getattr(self, name)) is None:
                continue
            numbers, n_rows = _numbers(value, name), table.shape[0]
            if numbers.shape not in ((), (1,), (n_rows,)):
                raise _WrongRows(
                    f"{name} of Rows has shape {numbers.shape}; give one number, or {(n_rows,)}, one a row"
                )
            object.__setattr__(self, name, np.broadcast_to(numbers, (n_rows,)))

    def __len__(self) -> int:
        return int(self.per_task.shape[0])

    @cached_property
    def _sizes(self) -> sp.csr_array:
        return abs(self.per_task)

    @cached_property
    def _above(self) -> sp.csr_array:
        """The positive coefficients."""
        return self.per_task.maximum(0.0)

    @cached_property
    def zero_pairs(self) -> Bool:
        """Pairs forced to zero: positive terms of a row without negative ones whose right side is 0."""
        least = self.per_task.min(axis=1).toarray().ravel() if self.per_task.shape[1] else np.zeros(len(self))
        rows = (self.right == 0) & (least >= 0)
        return np.asarray(self._above[rows].sum(axis=0) > 0)

    def load(self, tasks: Any) -> Float:
        """The left-hand sides at tasks by pair, shape (n_rows,)."""
        return np.asarray(self.per_task @ np.asarray(tasks, dtype=float))

    def cost(self, multipliers: Any) -> Float:
        """The dual cost of one task of each pair at these multipliers, shape (n_pairs,)."""
        return np.asarray(self.per_task.T @ np.asarray(multipliers, dtype=float))

    def cost_size(self, multipliers: Float) -> Float:
        """`cost` with absolute values of all terms, the scale of its rounding error."""
        return np.asarray(self._sizes.T @ np.abs(multipliers))

    def valid(self, multipliers: Float) -> Float:
        """The nearest multipliers that give a valid bound: nonnegative for inequalities."""
        return multipliers if self.equal else np.maximum(multipliers, 0.0)

    def of_pairs(self, place: Indices) -> Rows:
        """The rows in the tasks of some pairs, the others being zero."""
        return Rows(self.per_task[:, place], self.right, self.equal, self.unit, self.labels)

    def broken(self, tasks: Any, typical: Float | float = 0.0) -> Float:
        """The violation of each row at tasks by pair, relative to its largest part; 0 if the row holds.

        The parts are the sum of positive terms, the sum of negative terms, and the right-hand side; at ``typical``
        tasks terms count by a thousandth, since homogeneous rows hold ever better as all tasks shrink.
        """
        at, usual = np.asarray(tasks, dtype=float), np.broadcast_to(typical, self.per_task.shape[1])
        load, added = self.load(at), np.asarray(self._above @ at)
        terms = np.maximum(added, added - load)
        at_usual = np.asarray(self._above @ usual)
        size = np.maximum(terms, TYPICAL * np.maximum(at_usual, at_usual - self.load(usual)))
        size = np.maximum(size, np.abs(self.right))
        excess = np.abs(load - self.right) if self.equal else load - self.right
        excess = np.maximum(excess - TERM_ROUNDING * np.maximum(terms, np.abs(self.right)), 0.0)
        excess = np.where(np.isfinite(load), excess, np.inf)
        return np.divide(excess, size, out=excess.copy(), where=size > 0)

    def units(self, scale: Float) -> Float:
        """The scale of each row for solvers, where ``scale`` are typical numbers of tasks by pair."""
        if self.unit is not None:
            return np.asarray(self.unit)
        out = np.abs(self.right)
        if (out >= LEAST).all():
            return out
        largest = np.asarray(abs(self._times(scale)).max(axis=1).toarray()).ravel()
        for terms in (largest, np.ones(len(self))):
            out = np.where(out >= LEAST, out, terms)
        return np.asarray(out)

    def _times(self, per_pair: Float) -> sp.csr_array:
        """The coefficients times a number per pair."""
        table = self.per_task
        return sp.csr_array((table.data * per_pair[table.indices], table.indices, table.indptr), shape=table.shape)

    def in_units(self, scale: Float) -> tuple[sp.csr_array, Float]:
        """Coefficients and right-hand sides divided by `units`, for unknowns of ``scale`` tasks each."""
        unit, table = self.units(scale), self._times(scale)
        table.data *= np.repeat(1.0 / unit, np.diff(table.indptr))
        return table, self.right / unit

    def constraint(self, model: Model) -> cp.Constraint:
        """The rows in the unknowns of a model, divided by `units`."""
        return table_rows(model.unknowns, *self.in_units(model.scale), equal=self.equal)


def _numbers(value: Any, name: str) -> Float:
    """An array of floats; `_WrongRows` for text, complex numbers, and lists of different lengths."""
    try:
        given = np.asarray(value)
        if given.dtype.kind in REAL + "O":  # fractions are objects
            return np.asarray(given, dtype=float)
        fault = ""
    except (TypeError, ValueError) as error:
        fault = f" ({error})"
    raise _WrongRows(f"{name} of Rows is {brief(value)}{fault}; give an array of real numbers")


class Largest(NamedTuple):
    """An optimal point, and the multipliers of each of the `Rows`."""

    at: Float
    multipliers: list[Float]


def largest(
    gain: Float, rows: Sequence[Rows], scale: Float, low: Float | float = 0.0, high: Float | float = np.inf
) -> Largest | None:
    """Where ``gain @ x`` is largest at x within bounds and rows; None if HiGHS finds no optimum.

    ``x`` are tasks by pair, of which ``scale`` are typical numbers, and any further unknowns, near 1, for which rows of
    tasks alone need no columns. HiGHS has unknowns near 1, and rows in their units.
    """
    n = len(gain)
    unit = np.append(scale, np.ones(n - len(scale)))
    tables, sides = zip(*(one.in_units(unit) for one in rows), strict=True)
    table = sp.vstack([sp.csr_array((a.data, a.indices, a.indptr), shape=(a.shape[0], n)) for a in tables]).tocsr()
    right, equal = np.concatenate(sides), np.repeat([one.equal for one in rows], [len(one) for one in rows])
    most = np.abs(gain * unit).max(initial=0.0) or 1.0
    optimum: Any = optimize.linprog(  # type: ignore[call-overload]
        -gain * unit / most,
        A_ub=table[~equal],
        b_ub=right[~equal],
        A_eq=table[equal],
        b_eq=right[equal],
        bounds=np.column_stack([np.broadcast_to(bound, n) / unit for bound in (low, high)]),
        method="highs",
        options=TIGHT,
    )
    if optimum.x is None:
        return None
    multipliers = np.zeros(len(right))
    multipliers[~equal], multipliers[equal] = -optimum.ineqlin.marginals, -optimum.eqlin.marginals
    by_rows = np.split(multipliers * most, np.cumsum([len(one) for one in rows])[:-1])
    return Largest(optimum.x * unit, [of / one.units(unit) for of, one in zip(by_rows, rows, strict=True)])
