"""What CVXPY added to a problem, from the user's values and dual values: columns, and multipliers of rows.

Of a cone program with the user's columns x fixed at a point, and the user's rows U at known multipliers y_U, remains

    min (c_v + A_Uv' y_U)'v   subject to   b - A_x x - A_v v in K    for the columns v and the rows that CVXPY added.

It falls apart into one program for each atom, such as ``min t`` where ``(t, x)`` is in a second-order cone, and its
dual point is that of a subgradient of each atom at x. Together with y_U this is a dual point of the whole program where
x and y_U are optimal: what it leaves of the columns x is how far they are from that. Least squares then remove it
(`ConeProgram.repaired`). A solve of the program itself takes 3 to 30 times as long.

Floats: where x is at a kink up to a solver's noise, as 1e-9 for |x| at 0, the exact subgradient would be 1 or -1, and
could not be moved. Interior points that stop at `LOOSE` stay in the middle of those that are optimal up to that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairopt.proof.conic import ConeProgram, cone_of_row, points_of
from fairopt.runtime.arrays import Float, Indices
from fairopt.runtime.lazy import sp
from fairopt.solve.form.compiled import CompiledHere, Cones

LOOSE = 1e-8  # the tolerance of the solve
CURVED = 1e-3  # of the size of multipliers of curved cones: their unit


def completed(
    compiled: CompiledHere, program: ConeProgram, point: Float, dual: Float, tol: float = LOOSE, least: float = 0.0
) -> tuple[Float, Float | None]:
    """A point with the best values of the columns that are NaN, and a dual point with the multipliers of the rows that
    are NaN and have such columns.

    Rows with multipliers need not hold: a solver breaks them a little, and no point would satisfy them. Of inequalities
    these are at least a part, ``least``, of the largest, since a column that only rows with slack hold may have any
    value. Without a solution the columns are 0, and there is no dual point.
    """
    open_ = np.isnan(point)
    if not open_.any():
        return point, dual
    matrix, out, known = sp.csc_array(program.transposed.T), np.where(open_, 0.0, point), np.nan_to_num(dual)
    at, least = program.linear, least * max(np.abs(known).max(initial=0.0), np.abs(program.c).max(initial=0.0))
    known[at] = np.where(np.isnan(dual[at]), 0.0, np.maximum(known[at], least))
    costs, ours = program.c + program.transposed @ known, matrix[:, np.flatnonzero(open_)]
    some = (np.bincount(ours.indices, minlength=len(known)) > 0) & np.isnan(dual)
    cones = cone_of_row(program.dims)
    touched, unit = np.unique(cones[some]), np.abs(costs[open_]).max(initial=0.0) or 1.0  # solvers stop beside 1
    rows = np.flatnonzero(np.isin(cones, touched))
    data = compiled.data | {
        "A": sp.csc_array(sp.csr_array(ours)[rows]),
        "b": (program.b - matrix @ out)[rows],
        "c": costs[open_] / unit,
        "dims": part_of(program.dims, touched),
    }
    found = points_of(compiled, data, tol) if len(rows) else None
    if found is None:
        return out, None
    dual = dual.copy()
    out[open_], dual[rows] = found[0], unit * found[1]
    return out, dual


def units(program: ConeProgram, point: Float, dual: Float, spare: float) -> Float:
    """How far multipliers may move from a dual point, relative to each other.

    Rows that a point meets up to a solver's noise may move as far as the largest multiplier, if that costs at most
    ``spare`` in all: these are the kinks. Curved cones, which have to stay on their boundaries, move less.
    """
    at, size = program.linear, np.abs(dual)
    slack = np.maximum((program.b - program.transposed.T @ point)[at], 0.0)
    most, each = size.max(initial=0.0), spare / max(len(slack), 1)
    none = np.zeros(len(slack))
    out = CURVED * size
    out[: at.start] = size[: at.start]
    out[at] = np.maximum(size[at], np.where(slack * most > each, np.divide(each, slack, none, where=slack > 0), most))
    return out


def part_of(dims: Any, cones: Indices) -> Cones:
    """Some cones of a program."""
    ends = np.cumsum([dims.zero, dims.nonneg, len(dims.soc), len(dims.psd), dims.exp, len(dims.p3d)])
    parts = [
        cones[(cones >= end - n) & (cones < end)] - (end - n)
        for end, n in zip(ends, np.diff(ends, prepend=0), strict=True)
    ]
    zero, nonneg, soc, psd, exp, p3d = parts
    return Cones(
        len(zero),
        len(nonneg),
        tuple(dims.soc[k] for k in soc),
        len(exp),
        tuple(dims.p3d[k] for k in p3d),
        tuple(dims.psd[k] for k in psd),
    )
