"""Units of unknowns, rows and cones of a compiled cone program by equilibration, for a second try of a solver.

Solvers work on ``A xi + s = b`` and lose digits where entries of A differ by many powers of ten. Wanted are positive
diagonal R and C for which entries of ``R A C`` are about 1. Largest entries are brought near 1 by Ruiz's rounds (2001),
after geometric means where no cone forbids it. All rows of one cone have one unit, so that it stays a cone.

This only changes units: answers are brought back to those given, and judged there by the gate.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import sp

MIDDLES = 10  # rounds of geometric means
RUIZ = 10  # rounds; each takes the square root of how far the largest entries are from 1


class Equilibrated:
    """A cone program ``min x'Px / 2 + q'x, A x + s = b, s in K`` of CVXPY in other units, as Ruiz (2001) finds them.

    Linear rows, and columns outside curved cones, are first divided by the geometric mean of their largest and smallest
    entries, a few times: a row of 1e-5 with a slack of coefficient 1 has its largest entry near 1 from the start. Then
    each entry is divided by the square roots of the largest ones of its row and its column, again and again; the rows
    of a cone have one factor. CLARABEL and SCS do the latter, but stop by residuals in the units as given: beside right
    sides of 1e7 these may be 1e7 times what is left of other rows.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        a, dims = sp.coo_array(data["A"]), data["dims"]
        sizes = [1] * (dims.zero + dims.nonneg) + list(dims.soc) + [3] * (dims.exp + len(dims.p3d))
        cone = np.repeat(np.arange(len(sizes)), sizes)
        entries, straight = np.abs(a.data), dims.zero + dims.nonneg
        curved = np.zeros(a.shape[1], dtype=bool)
        curved[a.col[a.row >= straight]] = True
        some = np.flatnonzero((entries > 0) & (a.row < straight))
        kept = np.arange(len(sizes)) < straight, ~curved
        rows, columns = _middles(np.log(entries[some]), a.row[some], a.col[some], kept)
        for _ in range(RUIZ):  # square roots, since rows and columns are changed at once
            check()
            here = entries * rows[cone[a.row]] * columns[a.col]
            rows /= np.sqrt(_largest(cone[a.row], here, len(rows)))
            columns /= np.sqrt(_largest(a.col, here, len(columns)))
        self.rows, self.columns = rows[cone], columns
        b, q = self.rows * data["b"], columns * data["c"]
        # right sides and costs are brought to size 1 as well
        self.of_right, self.of_costs = (1.0 / (np.abs(v).max(initial=0.0) or 1.0) for v in (b, q))
        scaled = sp.diags_array(self.rows) @ sp.csc_array(data["A"]) @ sp.diags_array(columns)
        self.data = data | {"A": sp.csc_array(scaled), "b": self.of_right * b, "c": self.of_costs * q}
        if data.get("P") is not None:
            squares = sp.diags_array(columns) @ sp.csc_array(data["P"]) @ sp.diags_array(columns)
            self.data["P"] = sp.csc_array(squares * (self.of_costs / self.of_right))

    @staticmethod
    def takes(data: dict[str, Any]) -> bool:
        """Whether all cones are linear, second-order, exponential and power cones."""
        dims = data["dims"]
        return not (dims.psd or getattr(dims, "pnd", None))

    @classmethod
    def of_ecos(cls, data: dict[str, Any]) -> Equilibrated:
        """A program as CVXPY writes it for ECOS, with equations apart."""
        parts = [data[name] for name in ("A", "G") if data[name] is not None]
        rights = [data[name] for name in ("b", "h") if data[name] is not None]
        joined = data | {"A": sp.csc_array(sp.vstack(parts)), "b": np.concatenate(rights)}
        found, n = cls(joined), data["dims"].zero
        a, b = sp.csc_array(found.data["A"]), found.data["b"]
        for name, part in (("A", slice(n)), ("G", slice(n, None))):
            found.data[name] = None if data[name] is None else sp.csc_array(a[part])
        found.data |= {"b": None if data["b"] is None else b[:n], "h": None if data["h"] is None else b[n:]}
        return found

    def natural_of_ecos(self, found: dict[str, Any]) -> dict[str, Any]:
        """ECOS's solution in the units as given."""
        n = len(found["y"])
        duals = np.concatenate([found["y"], found["z"]]) * self.rows / self.of_costs
        costs = found["info"]["pcost"] / (self.of_costs * self.of_right)
        return found | {
            "x": found["x"] * self.columns / self.of_right,
            "y": duals[:n],
            "z": duals[n:],
            "info": found["info"] | {"pcost": costs},
        }

    def natural(self, found: Any) -> Any:
        """CLARABEL's solution in the units as given."""
        return SimpleNamespace(
            x=np.asarray(found.x) * self.columns / self.of_right,
            z=np.asarray(found.z) * self.rows / self.of_costs,
            status=found.status,
            obj_val=found.obj_val / (self.of_costs * self.of_right),
            solve_time=found.solve_time,
            iterations=found.iterations,
        )


def _middles(logs: Float, row: Any, column: Any, some: tuple[Any, Any]) -> tuple[Float, Float]:
    """Factors of some rows and columns that bring the geometric means of their largest and smallest entries near 1; of
    others 1.
    """
    of_rows, of_columns = np.zeros(len(some[0])), np.zeros(len(some[1]))
    for _ in range(MIDDLES):
        # rows, then columns, of logarithms: half of the sum of the largest and the smallest is taken off
        for factors, place, free in ((of_rows, row, some[0]), (of_columns, column, some[1])):
            now = logs + of_rows[row] + of_columns[column]
            most, least = np.full(len(factors), -np.inf), np.full(len(factors), np.inf)
            np.maximum.at(most, place, now)
            np.minimum.at(least, place, now)
            held = np.isfinite(most) & free
            factors[held] -= 0.5 * (most[held] + least[held])
    return np.exp(of_rows), np.exp(of_columns)


def _largest(place: NDArray[np.integer[Any]], entries: Float, n: int) -> Float:
    """The largest entry of each of n places; 1 where there is none."""
    out = np.zeros(n)
    np.maximum.at(out, place, entries)
    return np.where(out > 0, out, 1.0)
