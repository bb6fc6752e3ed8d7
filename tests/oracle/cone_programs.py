"""Cone programs whose optimum is known exactly, as files of `fairopt.proof/1`, and what is false in such a file.

`drawn` chooses a point, a slack s in each cone and a dual point y with s'y = 0, in small integers, and computes the
right side and the cost from them; so both points are optimal and no number is rounded. `false` says what is wrong in
the claims of any file, in fractions and by Clarabel, and shares no code with fairopt.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp

Data = dict[str, Any]
Pair = tuple[list[float], list[float]]  # a slack and a dual point, orthogonal to each other

KINDS = ("zero", "nonneg", "soc", "exp", "power", "psd")
TRIPLES = ([5, 3, 4], [13, -5, 12], [3, 1, 2, 2], [7, 2, -3, 6], [1, 1])
INSIDE = [[2, 1], [3, 1, -1], [1, 0, 0, 0]]  # of second-order cones
EXPONENTS = (0.5, 0.25, 0.75, 0.125, 1 / 3)
TOLERANCE = 1e-6  # of a solver's optimum
SOLVABLE = 1e12  # of numbers beyond this the solver says what is not so
ROUNDING = 1e-12  # of a violation in floats


def drawn(rng: np.random.Generator, status: str = "optimal", kinds: tuple[str, ...] = ()) -> Data:
    """A file whose claims are true, with cones of some kinds.

    Without these one to four are drawn: with more rows hardly another point is feasible, and all bounds are true.
    """
    kinds = kinds or tuple(rng.choice(KINDS, int(rng.integers(1, 5)), replace=False))
    blocks = _blocks(rng, kinds)
    s, y = (np.array([x for _, _, pair in blocks for x in pair[k]], dtype=float) for k in (0, 1))
    m, n = len(s), int(rng.integers(2, 7))
    a = np.where(rng.random((m, n)) < 0.6, rng.integers(-3, 4, (m, n)), 0).astype(float)
    z = rng.integers(-4, 5, n).astype(float)
    least, most, radius = ([None] * n for _ in range(3))
    offset = float(rng.integers(-3, 4))
    claims: Data = dict.fromkeys(("value", "bound", "gap"))
    if status == "unbounded":
        d = rng.integers(-2, 3, n).astype(float)
        d[0] = 1.0
        a[:, 0] = -_recession(blocks) - a[:, 1:] @ d[1:]
        c = rng.integers(-3, 4, n).astype(float)
        c[0] = -1.0 - c[1:] @ d[1:]
        least = [float(min(z[k], 0) - 1) if d[k] >= 0 and rng.random() < 0.3 else None for k in range(n)]
        b, dual = a @ z + s, d
        claims["violation"] = 0.0
    else:
        r = np.zeros(n)
        for k in range(n):
            kind = rng.choice(["free", "least", "most", "radius", "row"])
            if kind == "free":
                continue
            r[k] = float(rng.integers(1, 4)) * (-1 if kind == "most" or (kind == "radius" and z[k] > 0) else 1)
            if kind == "least":
                least[k], most[k] = z[k], (z[k] + 2.0 if rng.random() < 0.5 else None)
            elif kind == "most":
                most[k] = z[k]
            elif kind == "row" and "nonneg" in {kind for kind, _, _ in blocks}:  # z_k at its limit by a row of its own
                at = sum(len(pair[0]) for name, _, pair in blocks if name == "zero")
                row = np.zeros((1, n))
                row[0, k] = -1.0
                a, s, y = (np.insert(whole, at, part, axis=0) for whole, part in ((a, row), (s, 0.0), (y, 0.0)))
                blocks.insert(sum(name == "zero" for name, _, _ in blocks), ("nonneg", None, ([0.0], [0.0])))
            elif kind == "radius" and z[k]:
                radius[k] = abs(z[k])
            else:
                r[k] = 0.0
        c, b, dual = r - a.T @ y, a @ z + s, y
        if status == "infeasible":
            r, at = a.T @ y, next((i for i in range(len(y)) if abs(y[i]) in (1.0, 2.0, 4.0)), None)
            if at is None:
                return drawn(rng, status, kinds)
            reach = np.array([_least(r[k], z[k]) for k in range(n)])
            least, most = ([float(x) for x in ends] for ends in (z - 1, z + 2))
            radius = [None] * n
            b[at] -= (b @ y - reach.sum() + float(rng.integers(1, 3))) / y[at]
            c = rng.integers(-3, 4, n).astype(float)
        else:
            value = float(c @ z + offset)
            claims |= {"value": value, "bound": value, "gap": 0.0}
        claims["violation"] = 0.0 if status == "optimal" else None
    sense = "minimize" if status != "optimal" or rng.random() < 0.5 else "maximize"
    if sense == "maximize":
        claims |= {key: -claims[key] for key in ("value", "bound")}
    return written(
        a, b, c, offset, blocks, least, most, radius, None if status == "infeasible" else z, dual, sense, claims, status
    )


def written(a, b, c, offset, blocks, least, most, radius, point, dual, sense, claims, status) -> Data:  # type: ignore[no-untyped-def]
    """The file of a program with dense data."""
    row, column = np.nonzero(a)
    used = np.flatnonzero(c)
    of = {name: [extra for kind, extra, _ in blocks if kind == name] for name in ("soc", "power", "psd")}
    number = {name: sum(kind == name for kind, _, _ in blocks) for name in ("zero", "nonneg", "exp")}
    text = f"{sense} {len(c)} columns"
    return {
        "format": "fairopt.proof/1",
        "version": "0.4",
        "source": {"name": None, "text": text, "sha256": hashlib.sha256(text.encode()).hexdigest()},
        "sense": sense,
        "program": {
            "columns": len(c),
            "rows": len(b),
            "cost": {"column": used.tolist(), "value": c[used].tolist()},
            "offset": offset,
            "matrix": {"row": row.tolist(), "column": column.tolist(), "value": a[row, column].tolist()},
            "right": b.tolist(),
            "cones": {**number, **of},
        },
        "variables": [{"name": "x", "shape": [len(c)], "start": 0, "added": False}],
        "constraints": [{"name": "all", "start": 0, "size": len(b)}],
        "limits": {"least": least, "most": most},
        "radius": radius if any(x is not None for x in radius) else None,
        "point": None if point is None else point.tolist(),
        "dual": dual.tolist(),
        "claims": {"status": status, **claims},
    }


def _least(r: float, z: float) -> float:
    """The least of r x for x from z - 1 to z + 2."""
    return min(r * (z - 1), r * (z + 2))


def _blocks(rng: np.random.Generator, kinds: tuple[str, ...]) -> list[tuple[str, Any, Pair]]:
    """Cones in the order of a file, each with a size or an exponent and a pair of a slack and a dual point."""
    out: list[tuple[str, Any, Pair]] = []
    for kind in KINDS:
        for _ in range(int(rng.integers(1, 4)) if kind in kinds else 0):
            out.append((kind, *_pair(rng, kind)))
    return out


def _pair(rng: np.random.Generator, kind: str) -> tuple[Any, Pair]:
    """A cone of a kind, with a pair: both on the boundary, or one of them at 0."""
    f, g = (float(x) for x in rng.integers(1, 4, 2))
    if kind == "zero":
        return None, ([0.0], [float(rng.integers(-3, 4))])
    if kind == "nonneg":
        return None, _one(rng, ([0.0], [f]), ([f], [0.0]), ([0.0], [0.0]))
    if kind == "soc":
        if rng.random() < 0.5:
            s = _one(rng, *TRIPLES)
            return len(s), ([f * x for x in s], [g * s[0], *(-g * x for x in s[1:])])
        s = [f * x for x in _one(rng, *INSIDE)]
        return len(s), _one(rng, (s, [0.0] * len(s)), ([0.0] * len(s), s))
    if kind == "exp":
        nothing = [0.0, 0.0, 0.0]
        return None, _one(
            rng,
            ([0.0, f, f], [-g, -g, g]),
            ([f, f, 3 * f], nothing),
            (nothing, [-g, 0.0, g]),
            ([-f, 0.0, g], [0.0, f, 0.0]),
        )
    if kind == "power":
        a = _one(rng, *EXPONENTS)
        boundary = ([f, f, -f], [4 * g * a, 4 * g * (1 - a), 4 * g])
        inside = ([2 * f, f, f], [0.0, 0.0, 0.0])
        return a, _one(rng, boundary, inside, inside[::-1]) if a != 1 / 3 else inside
    order = int(rng.integers(1, 4))
    if order == 2 and rng.random() < 0.5:  # of (1, sqrt 2) and (sqrt 2, -1)
        return 2, ([f, 2 * f, 2 * f], [2 * g, -2 * g, g])
    s, y = np.zeros((2, order * (order + 1) // 2))
    for k in range(order):
        (s if rng.random() < 0.5 else y)[k * (k + 3) // 2] = f
    return order, (s.tolist(), y.tolist())


def _one(rng: np.random.Generator, *values: Any) -> Any:
    return values[rng.integers(len(values))]


def _recession(blocks: list[tuple[str, Any, Pair]]) -> np.ndarray:
    """A point of the cones."""
    return np.array([x for _, _, pair in blocks for x in pair[0]], dtype=float)


# -- what is false ----------------------------------------------------------------------------------------------------


class Reference:
    """A file as matrices, read without the checker."""

    def __init__(self, data: Data) -> None:
        program = data["program"]
        n, m = program["columns"], program["rows"]
        of = program["matrix"]
        self.data, self.n, self.m = data, n, m
        terms: dict[tuple[int, int], list[float]] = {}
        for i, j, x in zip(of["row"], of["column"], of["value"], strict=True):
            terms.setdefault((i, j), []).append(float(x))
        entries = [math.fsum(values) for values in terms.values()]  # those that cancel leave no rounding
        self.a = sp.csc_matrix((entries, ([i for i, _ in terms], [j for _, j in terms])), (m, n))
        self.b, self.c = np.array(program["right"], float), np.zeros(n)
        np.add.at(self.c, program["cost"]["column"], np.array(program["cost"]["value"], float))
        self.cones, self.offset = program["cones"], float(program["offset"])
        self.sign = 1 if data["sense"] == "minimize" else -1
        self.least, self.most = (
            [None if x is None else float(x) for x in data["limits"][key]] for key in ("least", "most")
        )
        self.radius = data["radius"] or [None] * n

    def parts(self) -> list[tuple[str, int, int, Any]]:
        """Each cone's kind, first row, number of rows, and size or exponent."""
        out, at = [], 0
        for kind in ("zero", "nonneg"):
            if self.cones[kind]:
                out.append((kind, at, self.cones[kind], None))
                at += self.cones[kind]
        sizes = [("soc", k, k) for k in self.cones["soc"]] + [("exp", 3, None)] * self.cones["exp"]
        sizes += [("power", 3, a) for a in self.cones["power"]]
        for kind, rows, extra in sizes + [("psd", k * (k + 1) // 2, k) for k in self.cones["psd"]]:
            out.append((kind, at, rows, extra))
            at += rows
        return out

    def solved(self) -> tuple[str, float]:
        """Clarabel's status and value of c'z + offset, with limits and radii as rows."""
        kinds = {"zero": clarabel.ZeroConeT, "nonneg": clarabel.NonnegativeConeT, "soc": clarabel.SecondOrderConeT}
        kinds |= {"power": clarabel.PowerConeT, "psd": clarabel.PSDTriangleConeT}
        cones = []
        for kind, _, rows, extra in self.parts():
            if kind == "exp":
                cones.append(clarabel.ExponentialConeT())
            else:
                cones.append(kinds[kind](rows if extra is None else extra))
        rows, right = [], []
        for k in range(self.n):
            for sign, limit in ((-1.0, self.least[k]), (1.0, self.most[k])):
                for end in (limit, None if self.radius[k] is None else sign * self.radius[k]):
                    if end is not None:
                        rows.append((sign, k))
                        right.append(sign * end)
        extra = sp.csc_matrix(([s for s, _ in rows], (range(len(rows)), [k for _, k in rows])), (len(rows), self.n))
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_iter = False, 200
        a, b = sp.vstack([self.a, extra], format="csc"), np.append(self.b, right)
        if rows:
            cones.append(clarabel.NonnegativeConeT(len(rows)))
        found = clarabel.DefaultSolver(sp.csc_matrix((self.n, self.n)), self.c, a, b, cones, settings).solve()
        return str(found.status), float(found.obj_val) + self.offset

    def bound(self, y: np.ndarray) -> float:
        """What a dual point would prove of c'z + offset if it were in the dual cone, with limits on both sides."""
        r, least, most = self.c + self.a.T @ y, np.array(self.least, float), np.array(self.most, float)
        return float(self.offset - self.b @ y + np.minimum(r * least, r * most).sum())

    def violation(self) -> tuple[float, float]:
        """The violation of the point in floats: relative to the largest term of each row, and to that times the number
        of terms.

        A row that is broken by d of its largest term holds if that one number is changed by d. The checker counts by
        the sum of all terms, as if each number were changed. A sum is at most its largest term times their number, so
        that more than the second is more than any such measure allows.
        """
        z = np.array(self.data["point"], float)
        s, dense = self.b - self.a @ z, abs(self.a).toarray()
        terms, largest = dense * np.abs(z), np.abs(z).max(initial=0.0)
        size = np.maximum(np.abs(self.b), terms.max(axis=1, initial=0.0))
        size = np.maximum(size, 1e-3 * dense.max(axis=1, initial=0.0) * largest)
        count = np.maximum((terms > 0).sum(axis=1), 1)
        worst = np.zeros(2)
        for kind, at, rows, extra in self.parts():
            part, unit, number = s[at : at + rows], size[at : at + rows], count[at : at + rows]
            if kind in ("zero", "nonneg"):
                excess = np.abs(part) if kind == "zero" else np.maximum(-part, 0)
            else:
                excess, unit, number = np.array([_excess(kind, part, extra)]), np.array([unit.max()]), number.max()
            worst = np.maximum(worst, [_ratio(excess, unit), _ratio(excess, unit * number)])
        for k in range(self.n):
            for sign, end in ((1, self.least[k]), (-1, self.most[k])):
                if end is not None:
                    unit = max(abs(end), abs(z[k]), 1e-3 * largest)
                    worst = np.maximum(worst, _ratio(np.array([max(sign * (end - z[k]), 0)]), np.array([unit])))
        return float(worst[0]), float(worst[1])


def _ratio(excess: np.ndarray, unit: np.ndarray) -> float:
    """The largest excess over its unit."""
    return float(np.divide(excess, unit, out=np.where(excess > 0, np.inf, 0.0), where=unit > 0).max(initial=0.0))


def _excess(kind: str, s: np.ndarray, extra: Any) -> float:
    """The least d with s + d e in a cone."""
    if kind == "soc":
        return max(float(np.linalg.norm(s[1:]) - s[0]), 0.0)
    if kind == "psd":
        matrix = np.zeros((extra, extra))
        for j in range(extra):
            for i in range(j + 1):
                x = s[j * (j + 1) // 2 + i]
                matrix[i, j] = matrix[j, i] = x if i == j else x / math.sqrt(2)
        return max(-float(np.linalg.eigvalsh(matrix)[0]), 0.0)

    def inside(d: float) -> bool:
        if kind == "power":
            u, v, w = s[0] + d, s[1] + d, abs(s[2])
            return (
                u >= 0
                and v >= 0
                and (w == 0 or (u > 0 < v and extra * math.log(u / w) + (1 - extra) * math.log(v / w) >= 0))
            )
        u, v, w = s[0] - d, s[1] + d, s[2] + d
        return (v == 0 and u <= 0 and w >= 0) or (v > 0 and w > 0 and u <= v * (math.log(w) - math.log(v)))

    if inside(0.0):
        return 0.0
    low, high = 0.0, 1e-300
    while not inside(high):
        low, high = high, high * 1e3
    for _ in range(200):
        middle = math.sqrt(low * high) if low else high / 2
        low, high = (low, middle) if inside(middle) else (middle, high)
    return high


def _is_more(violation: float, claimed: float) -> bool:
    """Whether a violation is more than is claimed, rounding apart."""
    return violation > claimed * (1 + 1e-6) + ROUNDING


def differs(data: Data) -> float:
    """The violation of a point that is more than is claimed by the largest terms of rows, though not by their number;
    else 0.
    """
    if data["point"] is None:
        return 0.0
    (by_largest, by_number), claimed = Reference(data).violation(), data["claims"]["violation"]
    return by_largest if _is_more(by_largest, claimed) and not _is_more(by_number, claimed) else 0.0


def _leaves(data: Any) -> Iterator[Any]:
    """All values in lists and objects."""
    for x in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from _leaves(x) if isinstance(x, (dict, list)) else (x,)


def false(data: Data) -> str | None:
    """What is false in the claims of a file that the checker proves; None if a solver does not know."""
    parts = ("program", "limits", "radius", "point", "dual")
    if odd := [
        x
        for part in parts
        for x in _leaves(data[part])
        if isinstance(x, bool) or not isinstance(x, (int, float, type(None)))
    ]:
        return f"{odd[0]!r} is no number"
    file, claims = Reference(data), data["claims"]
    if data["point"] is not None and _is_more(file.violation()[1], claims["violation"]):
        return f"violation {file.violation()[0]}"
    if max(np.abs(file.a.data).max(initial=0.0), np.abs(file.b).max(initial=0.0), np.abs(file.c).max()) > SOLVABLE:
        return None
    status, best = file.solved()
    if claims["status"] == "infeasible":
        if status == "Solved":
            return f"feasible, with {best}"
        return "" if status == "PrimalInfeasible" else None
    if claims["status"] == "unbounded":
        return f"bounded by {best}" if status == "Solved" else ("" if status == "DualInfeasible" else None)
    exact = sum((Fraction(c) * Fraction(x) for c, x in zip(file.c, data["point"], strict=True)), Fraction(file.offset))
    terms = [abs(float(c) * x) for c, x in zip(file.c, data["point"], strict=True)]
    unit = max([abs(float(exact - Fraction(file.offset))), *terms])
    if abs(claims["value"] * file.sign - float(exact)) > 2e-9 * max(unit, abs(file.offset)):
        return f"value {float(exact)}"
    if status == "DualInfeasible":
        return "unbounded"
    if status not in ("Solved", "PrimalInfeasible"):
        return None
    allowed = TOLERANCE * max(unit, abs(best), 1.0)
    if status == "Solved" and claims["bound"] * file.sign > best + allowed:
        return f"bound {best}"
    if status == "Solved" and abs(float(exact) - best) > claims["gap"] * unit + 1e-6 * unit + allowed:
        return f"gap {best}"
    return ""
