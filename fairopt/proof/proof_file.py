"""Files of proofs of cone programs, ``fairopt.proof/1``: the program, its ranges, a point, a dual point and claims.

The claims of a file concern its own program only: the value ``c'z + offset`` at its point, and the ranges that it
states or that rows with a single entry imply, which a checker finds in exact arithmetic. They are therefore computed
again here, rounded outward. Where the ranges of columns follow from cones or from the value of the answer, the
file states a ``radius``. The point has the user's values; variables that CVXPY adds have the best values given these.
"""

from __future__ import annotations

import hashlib
import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from fairopt.blocks.base import brief
from fairopt.proof.conic import ConeProgram, cone_of_row, exact_sums, outside_cones
from fairopt.proof.polish import cancelled
from fairopt.proof.stated import Stated
from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import sp
from fairopt.runtime.tolerances import EPS, GAP_TOLERANCE, TERM_ROUNDING
from fairopt.solve.form.compiled import CompiledHere

FORMAT = "fairopt.proof/1"
TYPICAL = 1000  # of the largest term of the objective in the unit of gaps, as in the checker
LEAST_SIZE = 1e-3  # of the largest number of a point: the least of a row's terms there
NOISE = GAP_TOLERANCE  # of the largest number of a point: by how much it may be beyond a limit
MORE = 1.01  # times what is measured is claimed
A_LITTLE = 1e-13  # and what rounding may hide of violations
ALONG_MIDDLE = 3.0  # times what one row of an exponential or power cone is short of, all three mend it together
ROUNDS = 20  # of ranges that follow from those of other columns: at most as many as the checker takes
WIDER = 1e-12  # of the terms of a row: what rounding may hide of such ranges
INSIDE = 4 * EPS  # relative: by how much dual points are moved into curved cones


def proof_file(
    stated: Stated,
    compiled: CompiledHere,
    program: ConeProgram,
    box: tuple[Float, Float],
    status: str,
    point: Float | None,
    dual: Float,
    name: str | None,
) -> dict[str, Any]:
    """The file's data. ``point`` is None for an infeasible program; ``dual`` is y, or a direction."""
    order = row_order(program.dims)
    limits = stated.ranges_of(compiled.columns(), len(program.c))
    at = None if point is None else _to_ends(point, *by_single_entries(program, *limits))
    y, radius = dual, None
    if status != "unbounded":
        costs = program.c if status == "optimal" else np.zeros(len(program.c))
        least, most = by_single_entries(program, *limits)
        program_there = replace(program, c=costs, least=least, most=most)
        y, needs = closed(program_there, dual)
        if needs.any():
            least, most = _by_several_rows(program, order, least, most)
            program_there = replace(program_there, least=least, most=most)
            y, needs = closed(program_there, dual)
        if needs.any():
            reach = np.maximum(np.abs(box[0]), np.abs(box[1]))
            radius = np.where(needs, reach if at is None else np.maximum(reach, np.abs(at)), np.inf)
        claims = _claims(program_there, status, limits, radius, y, at, stated)
    else:
        claims = _claims(program, status, limits, radius, y, at, stated)
    text = _text(stated)
    return {
        "format": FORMAT,
        "version": sys.modules["fairopt"].__version__,
        "source": {"name": name, "text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()},
        "sense": "maximize" if stated.maximised else "minimize",
        "program": of_program(program, order),
        "variables": _variables(stated, compiled),
        "constraints": _constraints(stated, compiled, program, order),
        "limits": {"least": or_null(limits[0]), "most": or_null(limits[1])},
        "radius": None if radius is None else or_null(radius),
        "point": None if at is None else at.tolist(),
        "dual": (y if status == "unbounded" else y[order]).tolist(),
        "claims": claims,
    }


def _to_ends(point: Float, least: Float, most: Float) -> Float:
    """The point with what is beyond limits by a solver's noise moved to them; what is beyond by more is claimed."""
    nearest = np.clip(point, least, most)
    return np.where(np.abs(nearest - point) <= NOISE * np.abs(point).max(initial=0.0), nearest, point)


def _text(stated: Stated) -> str:
    """The problem as text, with what CVXPY leaves out: limits of variables, and a digest of large matrices."""
    problem, given = stated.problem, stated.given
    lines = [f"{one.name()} = {brief(value)}" for one, value in given.items()]
    held = [(one, one.value) for one in problem.constants()] + [*given.items()]
    for variable, pair in stated.limits.items():
        if np.isfinite(pair).any():
            low, high = (str(one[0]) if (one == one[0]).all() else brief(one) for one in pair)
            lines.append(f"{stated.called[variable]} from {low} to {high}")
            held += [(variable, one) for one in pair if (one != one[0]).any()]
    if numbers := [value for one, value in held if one.size > 1]:
        digest = hashlib.sha256()
        for value in numbers:
            dense = np.asarray(value.todense() if hasattr(value, "todense") else value, dtype="<f8")
            digest.update(repr(dense.shape).encode() + dense.tobytes())
        lines.append(f"numbers whose SHA-256 is {digest.hexdigest()}")
    return "\nwith ".join([str(problem), *lines])


def row_order(dims: Any) -> Indices:
    """The rows in the order of the file, in which matrices come last."""
    start = dims.zero + dims.nonneg + int(sum(dims.soc))
    matrices = sum(n * (n + 1) // 2 for n in dims.psd)
    end = start + matrices + 3 * (dims.exp + len(dims.p3d))
    return np.concatenate([np.arange(start), np.arange(start + matrices, end), np.arange(start, start + matrices)])


def of_program(program: ConeProgram, order: Indices) -> dict[str, Any]:
    """A program with its rows in the order of files."""
    matrix, cost = sp.coo_array(program.transposed.T.tocsr()[order]), np.flatnonzero(program.c)
    return {
        "columns": len(program.c),
        "rows": len(program.b),
        "cost": {"column": cost.tolist(), "value": program.c[cost].tolist()},
        "offset": program.offset,
        "matrix": {"row": matrix.row.tolist(), "column": matrix.col.tolist(), "value": matrix.data.tolist()},
        "right": program.b[order].tolist(),
        "cones": _cones(program.dims),
    }


def _cones(dims: Any) -> dict[str, Any]:
    """The cones as the file has them."""
    return {
        "zero": int(dims.zero),
        "nonneg": int(dims.nonneg),
        "soc": [int(size) for size in dims.soc],
        "exp": int(dims.exp),
        "power": [float(a) for a in dims.p3d],
        "psd": [int(n) for n in dims.psd],
    }


def _variables(stated: Stated, compiled: CompiledHere) -> list[dict[str, Any]]:
    """The variables by their columns."""
    ours = {part.id for part, _ in stated.parts.values()}
    every = sorted(compiled.all_variables, key=lambda v: compiled.starts[v.id])
    return [
        {"name": v.name(), "shape": list(v.shape), "start": compiled.starts[v.id], "added": v.id not in ours}
        for v in every
    ]


def _constraints(stated: Stated, compiled: CompiledHere, program: ConeProgram, order: Indices) -> list[dict[str, Any]]:
    """The user's constraints and bounds of variables by their rows."""
    place, out = np.argsort(order), []
    for one in stated.posed.constraints:
        rows = compiled.rows[one.id]
        if rows.stop > rows.start:
            out.append({"name": stated.names[one.id], "start": int(place[rows.start]), "size": rows.stop - rows.start})
    if compiled.bounds is not None:
        bounds, of, columns = program.entries.part(compiled.bounds), np.zeros(len(program.c), int), compiled.columns()
        for k, (part, _) in enumerate(stated.parts.values()):
            of[columns[part.id]] = k
        names, of_row = list(stated.called.values()), of[bounds.column]
        for some in np.split(bounds.row, np.flatnonzero(np.diff(of_row)) + 1) if len(of_row) else ():
            start = int(place[compiled.bounds.start + some[0]])
            out.append({"name": f"bounds of {names[of_row[some[0]]]}", "start": start, "size": len(some)})
    return sorted(out, key=lambda one: int(one["start"]))


def or_null(numbers: Float) -> list[float | None]:
    """Numbers as JSON has them: infinite ones are null."""
    return [number if np.isfinite(number) else None for number in numbers.tolist()]


def closed(program: ConeProgram, dual: Float) -> tuple[Float, Bool]:
    """A dual point inside of curved cones that leaves as little as rounding allows, and the columns of which it leaves
    what no range covers.
    """
    y = _inside(dual, program.dims)
    if (needs := _needs_radius(program, y)).any():
        y = cancelled(y, program.c, program.transposed, needs, program.linear)
        needs = _needs_radius(program, y)
    return y, needs


def _inside(y: Float, dims: Any) -> Float:
    """A dual point moved into curved cones by a hair, so that exact arithmetic finds it there."""
    y, at = y.copy(), dims.zero + dims.nonneg
    for size in dims.soc:
        y[at] = max(y[at], float(np.linalg.norm(y[at + 1 : at + size])) * (1.0 + size * INSIDE))
        at += size
    at += sum(n * (n + 1) // 2 for n in dims.psd)  # which have a margin already
    for _ in range(dims.exp):
        u, v, w = y[at : at + 3]
        if u < 0:
            y[at + 2] = max(w, -u * np.exp(v / u - 1.0) * (1.0 + INSIDE * (4.0 + abs(v / u))))
        at += 3
    for a in dims.p3d:
        u, v, w = y[at : at + 3]
        most = (u / a) ** a * (v / (1.0 - a)) ** (1.0 - a) * (1.0 - 4 * INSIDE)
        y[at + 2] = np.clip(w, -most, most)
        at += 3
    return y


def _positive_rows(dims: Any) -> Bool:
    """The rows whose cone says that they are not negative."""
    at = dims.zero + dims.nonneg
    out = [np.arange(at) >= dims.zero]
    out += [np.arange(size) == 0 for size in dims.soc]
    for n in dims.psd:
        out.append(np.equal(*np.tril_indices(n)))
    out += [np.array([False, True, True])] * dims.exp + [np.array([True, True, False])] * len(dims.p3d)
    return np.concatenate(out) if out else np.zeros(0, dtype=bool)


def by_single_entries(program: ConeProgram, least: Float, most: Float) -> tuple[Float, Float]:
    """Ranges cut by rows with a single entry."""
    least, most, entries = least.copy(), most.copy(), program.entries
    equal = np.arange(entries.n) < program.dims.zero
    alone = (np.bincount(entries.row, minlength=entries.n) == 1) & (equal | _positive_rows(program.dims))
    some = alone[entries.row]
    row, column, factor = entries.row[some], entries.column[some], entries.factor[some]
    end, both = program.b[row] / factor, equal[row]
    np.minimum.at(most, column[(factor > 0) | both], end[(factor > 0) | both])
    np.maximum.at(least, column[(factor < 0) | both], end[(factor < 0) | both])
    return least, most


def _by_several_rows(program: ConeProgram, order: Indices, least: Float, most: Float) -> tuple[Float, Float]:
    """Ranges where there are none, by those of other columns of a row, as the checker finds them, a little wider.

    In its order, row after row, each end by the first row that implies it: `implied_ranges` takes the closest of all
    rows at once, which a checker that stops at the first does not have, and follows chains of 20 rows only.
    """
    entries, right = sp.csr_array(sp.csr_array(program.transposed.T)[order]), program.b[order].tolist()
    equal, signed = program.dims.zero, _positive_rows(program.dims)[order]
    low, high = least.tolist(), most.tolist()
    rows = list[tuple[float, list[tuple[int, float]]]]()
    for i in np.flatnonzero(signed | (np.arange(len(signed)) < equal)).tolist():
        part = slice(*entries.indptr[i : i + 2])
        row = [(k, a) for k, a in zip(entries.indices[part].tolist(), entries.data[part].tolist(), strict=True) if a]
        rows.append((right[i], row))
        if i < equal:
            rows.append((-right[i], [(k, -a) for k, a in row]))
    for _ in range(ROUNDS):
        check()
        changed = False
        for b, row in rows:
            ends = [low[k] if a > 0 else -high[k] for k, a in row]
            without = sum(end == -math.inf for end in ends)
            if without > 1:
                continue
            parts = [abs(a) * end for (_, a), end in zip(row, ends, strict=True)]
            for (k, a), end, part in zip(row, ends, parts, strict=True):
                if (high[k] < math.inf if a > 0 else low[k] > -math.inf) or (without and end > -math.inf):
                    continue
                others = [one for one in parts if one is not part]
                room = (b - math.fsum(others) + WIDER * (abs(b) + math.fsum(map(abs, others)))) / abs(a)
                if math.isfinite(room):
                    changed = True
                    (high if a > 0 else low)[k] = room if a > 0 else -room
        if not changed:
            break
    return np.array(low), np.array(high)


def _residual(program: ConeProgram, y: Float) -> Float:
    """``c + A'y``, rounded once."""
    columns = sp.csr_array(program.transposed)
    return exact_sums(sp.csr_array(sp.hstack([columns, sp.csr_array(program.c[:, None])])), np.append(y, 1.0))


def _needs_radius(program: ConeProgram, y: Float) -> Bool:
    """The columns of which a dual point leaves something that no range covers, or a checker may, which moves it inside
    of curved cones.
    """
    residual, curved = _residual(program, y), np.arange(len(y)) >= program.linear.stop
    moved = (program.sizes @ curved.astype(float)) > 0
    return np.asarray(
        (np.isinf(program.least) & ((residual > 0) | moved)) | (np.isinf(program.most) & ((residual < 0) | moved))
    )


def _claims(
    program: ConeProgram,
    status: str,
    limits: tuple[Float, Float],
    radius: Float | None,
    y: Float,
    point: Float | None,
    stated: Stated,
) -> dict[str, Any]:
    """What the file claims: nothing that a checker in exact arithmetic could not."""
    claims: dict[str, Any] = {"status": status, "value": None, "bound": None, "gap": None, "violation": None}
    if point is not None and status != "infeasible":
        claims["violation"] = MORE * violation_of(program, limits, point) + A_LITTLE
    if status != "optimal" or point is None:
        return claims
    sign = -1.0 if stated.maximised else 1.0
    residual, reach = _residual(program, y), np.full(len(point), np.inf) if radius is None else radius
    least, most = np.maximum(program.least, -reach), np.minimum(program.most, reach)
    charge = np.where(residual == 0, 0.0, residual * np.where(residual > 0, least, most))
    parts, offset = np.concatenate([-program.b * y, charge]), program.offset
    total, rounding = float(parts.sum()), TERM_ROUNDING * float(np.abs(parts).sum())
    low = total - rounding
    value = float(exact_sums(sp.csr_array(program.c[None]), point)[0])
    unit = max(abs(value), abs(low), float(np.abs(program.c * point).max(initial=0.0)) / TYPICAL)
    distance = max(abs(value - low), abs(value - total - rounding))  # a point that breaks rows may be below both
    gap = distance / unit if distance > 0 else 0.0
    bound = low + offset - TERM_ROUNDING * (abs(low) + abs(offset))
    return claims | {"value": sign * (value + offset), "bound": sign * bound, "gap": gap * MORE + EPS}


def violation_of(program: ConeProgram, limits: tuple[Float, Float], point: Float) -> float:
    """The largest violation of a cone or a limit: the least step along the middle of the cone that mends it, relative
    to the size of its rows.
    """
    entries, dims = program.entries, program.dims
    slack = program.b - program.transposed.T @ point
    size = np.bincount(entries.row, np.abs(entries.factor * point[entries.column]), entries.n) * (1.0 - TERM_ROUNDING)
    size = np.maximum(size, np.abs(program.b))
    np.maximum.at(size, entries.row, LEAST_SIZE * np.abs(entries.factor) * np.abs(point).max(initial=0.0))
    cones = cone_of_row(dims)
    of_cone = np.zeros(cones.max(initial=-1) + 1)
    np.maximum.at(of_cone, cones, size)
    step = outside_cones(slack, dims)
    step[len(step) - 3 * (dims.exp + len(dims.p3d)) :] *= ALONG_MIDDLE
    worst = float((step / np.where(of_cone[cones] > 0, of_cone[cones], 1.0)).max(initial=0.0))
    for limit, beyond in zip(limits, (limits[0] - point, point - limits[1]), strict=True):
        unit = np.maximum(np.abs(limit), np.maximum(np.abs(point), LEAST_SIZE * np.abs(point).max(initial=0.0)))
        some = np.isfinite(limit) & (beyond > 0)
        worst = max(worst, float((beyond[some] / unit[some]).max(initial=0.0)))
    return worst
