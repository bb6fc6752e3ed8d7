"""Linear programs in floats by HiGHS: SciPy's checks around it take two thirds of the time of a small one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Float = NDArray[np.floating[Any]]


class Found(NamedTuple):
    """An optimum: the point, and which columns are basic and which rows are not."""

    value: float
    point: Float
    basic: list[int]
    tight: list[int]


def minimise(
    cost: Float,
    table: Any,
    low: Float,
    high: Float,
    bounds: tuple[Float, Float],
    presolve: bool = True,
    **options: float,
) -> Found | None:
    """The least ``cost x`` where ``low <= table x <= high`` and x is within bounds; None if HiGHS finds no optimum."""
    highs, given, rows = highspy.Highs.__base__(), highspy.HighsLp(), sparse.csr_array(table)  # type: ignore[misc]
    chosen: dict[str, Any] = {"output_flag": False, "presolve": "on" if presolve else "off", **options}
    for name, value in chosen.items():
        highs.setOptionValue(name, value)
    given.num_row_, given.num_col_ = rows.shape
    given.col_cost_, (given.col_lower_, given.col_upper_) = cost, bounds
    given.row_lower_, given.row_upper_ = low, high
    given.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    given.a_matrix_.start_, given.a_matrix_.index_, given.a_matrix_.value_ = rows.indptr, rows.indices, rows.data
    highs.passModel(given)
    highs.run()
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    basis, basic = highs.getBasis(), highspy.HighsBasisStatus.kBasic
    columns = [j for j, status in enumerate(basis.col_status) if status == basic]
    tight = [k for k, status in enumerate(basis.row_status) if status != basic]
    return Found(highs.getInfo().objective_function_value, np.array(highs.getSolution().col_value), columns, tight)


def limits(bounds: Sequence[tuple[float | None, float | None]]) -> tuple[Float, Float]:
    """Bounds as two arrays; None is no bound."""
    low, high = zip(*bounds, strict=True) if bounds else ((), ())
    return (
        np.array([-np.inf if v is None else v for v in low], dtype=float),
        np.array([np.inf if v is None else v for v in high], dtype=float),
    )
