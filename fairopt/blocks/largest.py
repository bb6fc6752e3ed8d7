"""The largest value of a linear function of tasks under linear constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fairopt.blocks.rows import Rows
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import optimize, sp

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


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

    Examples
    --------
    >>> import numpy as np
    >>> from fairopt.blocks.rows import Rows
    >>> best = largest(np.array([1.0, 3.0]), [Rows([[2, 3], [2, 1]], [6, 4])], np.array([1.0, 2.0]))
    >>> best.at.round(9), best.multipliers[0].round(9)
    (array([0., 2.]), array([1., 0.]))
    """
    n = len(gain)
    unit = np.append(scale, np.ones(n - len(scale)))
    tables, sides = zip(*(one.in_units(unit) for one in rows), strict=True)
    table = sp.vstack([sp.csr_array((a.data, a.indices, a.indptr), shape=(a.shape[0], n)) for a in tables]).tocsr()
    right, equal = np.concatenate(sides), np.repeat([one.equal for one in rows], [len(one) for one in rows])
    most = np.abs(gain * unit).max(initial=0.0) or 1.0
    found: Any = optimize.linprog(  # type: ignore[call-overload]
        -gain * unit / most,
        A_ub=table[~equal],
        b_ub=right[~equal],
        A_eq=table[equal],
        b_eq=right[equal],
        bounds=np.column_stack([np.broadcast_to(bound, n) / unit for bound in (low, high)]),
        method="highs",
        options=TIGHT,
    )
    if found.x is None:
        return None
    multipliers = np.zeros(len(right))
    multipliers[~equal], multipliers[equal] = -found.ineqlin.marginals, -found.eqlin.marginals
    by_rows = np.split(multipliers * most, np.cumsum([len(one) for one in rows])[:-1])
    return Largest(found.x * unit, [of / one.units(unit) for of, one in zip(by_rows, rows, strict=True)])
