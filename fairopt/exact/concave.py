"""Concave programs with rational data between proven bounds: an interior-point method in high precision.

The program is to maximise ``g'x + sum_t f_t u(z_t) + c log M(z)`` with ``z = R x - b`` under ``A x <= h``, ``E x = e``
and ``0 <= x <= top``. Here u is a Box-Cox utility without its constant, and M a power mean of some of the z. With
multipliers p >= 0 of rows, y of equations, pi of numbers and s >= 0 of signs, an optimum satisfies

    g + R'pi - A'p - E'y + s = 0,   p_k (h - A x)_k = 0,   s_c x_c = 0,   log pi_t = log u'(z_t) + log f_t.

Steps are those of Mehrotra's predictor and corrector (Nocedal and Wright 2006, sec. 14.2). The last condition is
linearised in logarithms, as one Newton step on ``pi = z^-alpha`` covers only the part 1 / alpha of a far way. Each step
solves the quasidefinite system ``[[s/x, B'], [B, -k]]`` (`Factors`); a power mean, whose second derivatives are dense,
adds a matrix of rank one (`_WithMean`). Why not a solver in floats: its point is good to about 1e-9, and here intervals
of 1e-20 and less are asked for.

Nothing of it is trusted. At the end the point is rounded to fractions, in which its feasibility is checked; the
objective there, in balls of real numbers (`flint.arb`), is the lower bound. As a concave function lies below its
tangents, the value of any feasible y is at most that of x plus ``r'(y - x) + p'(h - A x)``, with prices p >= 0 and q of
the equations, where r is the gradient at x less ``A'p + E'q``. Each term is maximised over the range of its column. A
bad step can only widen the interval, or end in `NotCertified` (docs/exact.md, *Intervals for other optima*).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

from fairopt.errors import NotCertified, OutOfDomain
from fairopt.exact.linear import LinearProgram
from fairopt.exact.rationals import flint
from fairopt.runtime.clock import check

Arb = Any  # `flint.arb`, a ball of real numbers
Rational = Any  # `flint.fmpq`
Coefficients = Mapping[int, Any]  # by column; rational, or balls

MOST_STEPS = 100  # of one start: 12 are usual for a width of 1e-20
MOST_REPAIRS = 5  # moves onto violated rows, each of which may break others: with one, constraints of one point fail
STUCK = 1e-8  # the length of a step after which no other is tried
NEAR_0 = 1e-6  # of the gain: the smallest size of a value to which widths are relative
START = 0.01  # of a column's range, for those without tasks
SPREAD = 0.1  # of the largest part of a range among the columns of a curve, for those with less
SHORT = 0.1  # steps, after which the next one only balances; without, weights of seven decades and norms reach no width
BALANCED = 1e-4  # the least product of complementary numbers relative to their mean
# The largest logarithm of a slope over its price that steps may lead to, unless it was larger before. Without it
# weights of seven decades reach no width.
SLOPES = 10.0
TO_BOUNDARY = 0.995  # the longest part of the way to zero of any number in one step


class Curve(NamedTuple):
    """``factor * u(z)`` with ``z = coefficients x - base`` and ``u(z) = z^(1-alpha) / (1-alpha)``, log z at 1."""

    factor: Any
    alpha: Rational
    coefficients: Coefficients
    base: Any = 0


class LogMean(NamedTuple):
    """``factor * log(sum_t part_t z_t^power) / power`` of the z of some curves, whose own values do not count."""

    factor: Any
    power: Rational
    members: Sequence[int]
    parts: Sequence[Any]

    def powers(self, z: Sequence[Arb]) -> list[Arb]:
        """The summands at all numbers."""
        return [part * z[t] ** flint.arb(self.power) for t, part in zip(self.members, self.parts, strict=True)]


@dataclass
class ConcaveProgram:
    """The numbers of a program; rows are at most, or equal to, their right-hand sides."""

    top: list[Rational]
    rows: Sequence[tuple[Coefficients, Rational]]
    equations: Sequence[tuple[Coefficients, Rational]] = field(default_factory=list)
    linear: dict[int, Any] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    mean: LogMean | None = None
    constant: Any = 0

    def numbers(self, point: Sequence[Rational]) -> list[Any]:
        """The numbers z at a point."""
        return [dot(curve.coefficients, point) - curve.base for curve in self.curves]

    def value(self, point: Sequence[Rational]) -> Arb:
        """A ball with the objective at a point."""
        z = [flint.arb(v) for v in self.numbers(point)]
        total = self.constant + dot(self.linear, point)
        shared = {*self.mean.members} if self.mean else set()
        for t, curve in enumerate(self.curves):
            if t not in shared:
                total += curve.factor * utility(z[t], curve.alpha)
        if self.mean:
            total += self.mean.factor * flint.arb(sum(self.mean.powers(z))).log() / self.mean.power
        return flint.arb(total)

    def slopes(self, z: Sequence[Arb]) -> list[Arb]:
        """The derivatives of the objective by the numbers z."""
        out = [curve.factor * z[t] ** -flint.arb(curve.alpha) for t, curve in enumerate(self.curves)]
        if self.mean:
            powers = self.mean.powers(z)
            total = sum(powers)
            for t, of_power in zip(self.mean.members, powers, strict=True):
                out[t] = self.mean.factor * of_power / total / z[t]
        return out


class Enclosed(NamedTuple):
    """Proven bounds on the optimal value, as balls, and the feasible point with the lower one."""

    lower: Arb
    upper: Arb
    point: list[Rational]
    width: float


def relative_width(lower: Arb, upper: Arb, gain: Arb) -> float:
    """The distance of bounds relative to the larger, or to a millionth of ``gain``, what tasks add to it, if more.

    The latter only matters near a value of 0.
    """
    size = max(abs(lower), abs(upper), NEAR_0 * gain.abs_upper(), key=lambda ball: ball.mid())  # balls have no order
    length = (upper - lower).upper()
    return float((length / size).upper()) if length > 0 else 0.0


def utility(z: Arb, alpha: Rational) -> Arb:
    """``z^(1-alpha) / (1-alpha)``, the logarithm at alpha = 1."""
    return z.log() if alpha == 1 else z ** flint.arb(1 - alpha) / (1 - alpha)


def rational(x: Arb) -> Rational:
    """The midpoint of a ball as a fraction."""
    mantissa, exponent = x.mid().man_exp()
    return flint.fmpq(mantissa) * flint.fmpq(2) ** int(exponent)


def nearly(x: Any) -> Rational:
    """A number itself if it is a fraction, or the midpoint of a ball, as norms are."""
    return rational(x) if isinstance(x, flint.arb) else flint.fmpq(x)


def feasible(program: ConcaveProgram, x: list[Rational]) -> list[Rational] | None:
    """A feasible point, moved from x so far that equations and violated rows are tight; None if that does not help."""
    tight = list(program.equations)  # the rounded point misses each by a unit in the last bit
    for _ in range(MOST_REPAIRS):
        violated = [row for row in program.rows if not dot(row[0], x) <= row[1]]
        if any(not isinstance(v, flint.fmpq) for row, _ in violated for v in row.values()):
            return None  # balls, as in norms: no fraction makes them tight
        if not violated and all(dot(row, x) == right for row, right in tight[: len(program.equations)]):
            return x
        tight += violated
        moved = made_tight(program, x, tight)
        if moved is None:
            return None
        x = moved
    return None


def made_tight(
    program: ConcaveProgram, x: Sequence[Rational], rows: Sequence[tuple[Coefficients, Rational]]
) -> list[Rational] | None:
    """A point on rows, in which columns far from the ends of their ranges are moved; None if there is none near."""
    # rref takes pivots in this order, and only columns with a pivot move: those with most room come first
    order = sorted(range(len(x)), key=lambda c: -min(x[c] / program.top[c], 1 - x[c] / program.top[c]))
    used = {c for row, _ in rows for c in row}
    columns = [c for c in order if c in used]
    table = flint.fmpq_mat([[row.get(c, 0) for c in columns] + [right - dot(row, x)] for row, right in rows])
    reduced, rank = table.rref()
    out = list(x)
    for k in range(rank):
        pivot = next(c for c in range(len(columns) + 1) if reduced[k, c] != 0)
        if pivot == len(columns):
            return None
        out[columns[pivot]] += reduced[k, len(columns)]
    return out if all(0 <= v <= top for v, top in zip(out, program.top, strict=True)) else None


def dot(coefficients: Coefficients, x: Sequence[Any]) -> Any:
    """A row at a point."""
    return sum((v * x[c] for c, v in coefficients.items()), flint.fmpq(0))


def precision(width: float) -> int:
    """The bits in which intervals of a width are looked for."""
    # Steps divide numbers near the width by others near 1, and lose as many digits. 24 random programs of three users
    # took as many steps with twice the digits of the width, not four times.
    return 192 + math.ceil(-4 * math.log2(min(width, 0.5)))


def enclose(program: ConcaveProgram, start: Sequence[float], width: float, absolute: bool = False) -> Enclosed:
    """Bounds on the optimal value whose relative (or ``absolute``) distance is at most ``width``.

    The start is a point near the optimum. `NotCertified` if the width is not reached.
    """
    best: Enclosed | None = None
    numbers = [*program.linear.values(), *(v for row, right in program.rows for v in (*row.values(), right))]
    # rational throughout: the interval is one number
    if not program.curves and all(isinstance(v, flint.fmpq) for v in numbers):
        point = linear_optimum(program)
        value = program.value(point)
        return Enclosed(value.lower(), value.upper(), point, relative_width(value.lower(), value.upper(), flint.arb(0)))
    # An interior point method needs points inside. Rows without any are relaxed by 2^-(bits / 3), at a width of 1e-20
    # 1e-46; the bounds are those of the rows as given.
    little = flint.arb(2) ** (-flint.ctx.prec // 3)
    for relaxed in (flint.arb(0), little) if has_interior(program) else (little,):
        at, close = InteriorPoint(program, start, relaxed), 0.1 * width
        for done in range(MOST_STEPS):
            check("steps in high precision", done)
            if at.step() < STUCK:
                break
            if at.products > close:
                continue
            bounds = at.bounds(absolute)
            if bounds is not None and (best is None or bounds.width < best.width):
                best = bounds
            if best is not None and best.width <= width:
                return best
            close *= 0.01  # bounds in fractions take longer than a step
    if program.curves and not can_be_positive(program):
        raise OutOfDomain("in rational numbers somebody can have nothing, where the objective has no finite slope")
    reached = "found no feasible point" if best is None else f"reached a width of {best.width:.2g} only"
    raise NotCertified(f"exact bounds: steps in {flint.ctx.prec} bits {reached}; give a width larger than {width:g}")


def linear_optimum(program: ConcaveProgram) -> list[Rational]:
    """A point with the largest value of a linear objective."""
    linear = LinearProgram()
    for c in range(len(program.top)):
        linear.column(program.linear.get(c, flint.fmpq(0)))
    for row, right in program.rows:
        linear.row(row, right)
    for row, right in program.equations:
        linear.row(row, right, equal=True)
    return linear.solve().point


def has_interior(program: ConcaveProgram) -> bool:
    """Whether some point has room to all rows."""
    if not program.equations and all(right > 0 and all(v >= 0 for v in row.values()) for row, right in program.rows):
        return True
    return has_room(program, program.rows, [])


def can_be_positive(program: ConcaveProgram) -> bool:
    """Whether all numbers of curves can be positive together."""
    above = [({c: -v for c, v in of.coefficients.items()}, -of.base) for of in program.curves]
    return has_room(program, above, program.rows)


def has_room(
    program: ConcaveProgram,
    roomy: Sequence[tuple[Coefficients, Any]],
    others: Sequence[tuple[Coefficients, Any]],
) -> bool:
    """Whether some point that satisfies rows and all equations has room to other rows, by a linear program."""
    zero, one = flint.fmpq(0), flint.fmpq(1)
    largest = LinearProgram()
    for _ in program.top:
        largest.column(zero)
    room = largest.column(one)
    for rows, wanted in ((roomy, True), (others, False)):
        for row, right in rows:
            near = {c: nearly(v) for c, v in row.items()}
            size = max((abs(v) * program.top[c] for c, v in near.items()), default=one)
            largest.row({**near, room: size} if wanted else near, nearly(right))
    for row, right in program.equations:
        largest.row(row, right, equal=True)
    largest.row({room: one}, one)  # any room is enough, and the program has a maximum
    return bool(largest.solve().value > 0)


class InteriorPoint:
    """Iterates of the method: columns x, slacks w, numbers z, and their multipliers s, p, y and pi.

    Columns are in units of their range, and rows of their largest entry, so that all numbers start near 1.
    """

    def __init__(self, program: ConcaveProgram, start: Sequence[float], relaxed: Arb) -> None:
        arb = flint.arb
        self.program, self.n = program, len(program.top)
        self.unit = [arb(t) for t in program.top]
        rows = [self._scaled(row) for row in (*program.rows, *program.equations)]
        self.m, self.k = len(program.rows), len(program.equations)
        self.matrix = [row for row, _, _ in rows]
        self.right = [right for _, right, _ in rows]
        self.sizes = [size for _, _, size in rows]
        self.right[: self.m] = [right + relaxed for right in self.right[: self.m]]
        numbers = [
            {c: (arb(v) * self.unit[c]).mid() for c, v in curve.coefficients.items()} for curve in program.curves
        ]
        self.base = [arb(curve.base).mid() for curve in program.curves]
        self.alpha = [arb(curve.alpha).mid() for curve in program.curves]
        if program.mean:
            for t in program.mean.members:
                self.alpha[t] = 1 - arb(program.mean.power)
        self.linear = [arb(0)] * self.n
        for c, v in program.linear.items():
            self.linear[c] = (arb(v) * self.unit[c]).mid()
        # numbers as rows z - R x = -b, so that pi are multipliers like p and y
        self.matrix += [{c: -v for c, v in row.items()} for row in numbers]
        self.columns: list[list[tuple[int, Arb]]] = [[] for _ in range(self.n)]
        for k, row in enumerate(self.matrix):
            for c, v in row.items():
                self.columns[c].append((k, v))
        self._begin(start)
        self.factors = Factors(self.n, self.matrix, {self.n + self.m + k for k in range(self.k)})

    def _scaled(self, row: tuple[Coefficients, Rational]) -> tuple[dict[int, Arb], Arb, float]:
        """A row in units of columns, divided by its largest entry, and that."""
        values = {c: flint.arb(v) * self.unit[c] for c, v in row[0].items() if v != 0}
        size = max([abs(float(v)) for v in values.values()] or [1.0])
        return {c: (v / size).mid() for c, v in values.items()}, (flint.arb(row[1]) / size).mid(), size

    def _begin(self, start: Sequence[float]) -> None:
        arb, program = flint.arb, self.program
        # inside capacities by a tenth: the answer itself is at the boundary, from which steps would be short
        parts = [0.9 * v / float(t) for v, t in zip(start, program.top, strict=True)]
        least = [START] * self.n
        for curve in program.curves:  # whose number may be far below its range
            part = max((parts[c] for c in curve.coefficients), default=0.0)
            least = [min(v, SPREAD * part) if part > 0 and c in curve.coefficients else v for c, v in enumerate(least)]
        self.x = list(map(arb, map(max, parts, least)))
        load = self._rows_at(self.x)
        self.w = [max(h - v, arb(0.1)).mid() for h, v in zip(self.right[: self.m], load, strict=False)]
        self.z = []
        for t in range(len(program.curves)):
            above = -load[self.m + self.k + t] - self.base[t]
            size = max([abs(float(v)) for v in self.matrix[self.m + self.k + t].values()] or [1.0])
            self.z.append(max(above, arb(size) * START).mid())
        self.pi = [v.mid() for v in program.slopes(self.z)]
        # the objective is scaled so that what tasks are worth at the start is 1: widths and products are then relative
        worth = sum(map(operator.mul, self.pi, self.z), arb(0)) + sum(map(operator.mul, map(abs, self.linear), self.x))
        self.scale = (1 / worth).mid() if worth > 0 else arb(1)
        self.pi = [v * self.scale for v in self.pi]
        self.linear = [v * self.scale for v in self.linear]
        mu = arb(1.0) / (self.m + self.n)
        self.p = [(mu / v).mid() for v in self.w]  # all products equal: on the central path but for residuals
        self.s = [(mu / v).mid() for v in self.x]
        self.y = [arb(0)] * self.k

    def _rows_at(self, x: Sequence[Arb]) -> list[Arb]:
        return [sum((v * x[c] for c, v in row.items()), flint.arb(0)) for row in self.matrix]

    @property
    def products(self) -> float:
        """The sum of products of complementary numbers: what tasks are worth is about 1."""
        return float(self.mu) * (self.n + self.m)

    def bounds(self, absolute: bool = False) -> Enclosed | None:
        """The bounds at this point; None if it is not feasible."""
        program = self.program
        # steps know no upper bound of columns: at an optimum none is above its range, but for rounding
        near = [min(rational(v) * t, t) for v, t in zip(self.x, program.top, strict=True)]
        x = feasible(program, near)
        # If rows have no room inside, columns may have to be exactly 0: those whose multiplier is larger than they are.
        if x is None:
            x = feasible(program, [v if at > s else 0 * v for v, at, s in zip(near, self.x, self.s, strict=True)])
        if x is None or not all(z > 0 for z in program.numbers(x)):
            return None
        z = [flint.arb(v) for v in program.numbers(x)]
        slopes = program.slopes(z)
        value, net = program.value(x), [flint.arb(program.linear.get(c, 0)) for c in range(self.n)]
        gain = sum(map(operator.mul, slopes, z), flint.arb(0))
        gain += sum((abs(g) * top for g, top in zip(net, program.top, strict=True)), flint.arb(0))
        for curve, slope in zip(program.curves, slopes, strict=True):
            for c, v in curve.coefficients.items():
                net[c] += slope * v
        excess = flint.arb(0)
        # back to the units of the program; any prices give a bound, so that midpoints are as good as balls
        given = (*(max(p, flint.arb(0)) for p in self.p), *self.y)
        duals = [(q / (size * self.scale)).mid() for q, size in zip(given, self.sizes, strict=True)]
        for (row, right), q in zip((*program.rows, *program.equations), duals, strict=True):
            excess += q * (right - dot(row, x))
            for c, v in row.items():
                net[c] -= q * v
        for r, v, top in zip(net, x, program.top, strict=True):
            excess += (r * (top - v)).max(-r * v)  # whichever end of the column's range is better
        lower, upper = value.lower(), (value + excess).upper()
        width = float((upper - lower).upper()) if absolute else relative_width(lower, upper, gain)
        return Enclosed(lower, upper, x, width)

    @property
    def mu(self) -> Arb:
        """The mean product of complementary numbers."""
        pairs = [*zip(self.x, self.s, strict=True), *zip(self.w, self.p, strict=True)]
        return sum((a * b for a, b in pairs), flint.arb(0)) / len(pairs)

    def step(self) -> float:
        """One step; the largest part of a full one that keeps numbers positive."""
        arb = flint.arb
        m, k = self.m, self.k
        load = self._rows_at(self.x)
        q = [*self.p, *self.y, *self.pi]
        cost = [sum((v * q[r] for r, v in column), arb(0)) for column in self.columns]
        dual = [g - c + s for g, c, s in zip(self.linear, cost, self.s, strict=True)]
        primal = [
            *(v + w - h for v, w, h in zip(load[:m], self.w, self.right, strict=False)),
            *(v - h for v, h in zip(load[m : m + k], self.right[m:], strict=True)),
            *(v + z + b for v, z, b in zip(load[m + k :], self.z, self.base, strict=True)),
        ]
        off = self._off()
        # in place of 0 for equations, half of the digits below 1: those that depend on others stay solvable
        regular = arb(2) ** (-(flint.ctx.prec // 2))
        # what eliminating w and z leaves on the diagonal: d log z = -d log pi / alpha for numbers
        compliance = [
            *(w / p for w, p in zip(self.w, self.p, strict=True)),
            *([regular] * k),
            *(z / (a * pi) for z, a, pi in zip(self.z, self.alpha, self.pi, strict=True)),
        ]
        self.factors.factorise([s / x for s, x in zip(self.s, self.x, strict=True)], compliance)
        shared = _WithMean(self)

        def solve(targets_x: Sequence[Arb], targets_w: Sequence[Arb]) -> list[list[Arb]]:
            top = [t / x - s + d for t, x, s, d in zip(targets_x, self.x, self.s, dual, strict=True)]
            gone = [t / p - w for t, p, w in zip(targets_w, self.p, self.w, strict=True)]
            bottom = [
                *(-r - g for r, g in zip(primal[:m], gone, strict=True)),
                *(-r for r in primal[m : m + k]),
                *(o - r for o, r in zip(shared.shift(off), primal[m + k :], strict=True)),
            ]
            dx, dq = shared.solve(top, bottom)
            ds = [t / x - s - s / x * d for t, x, s, d in zip(targets_x, self.x, self.s, dx, strict=True)]
            dw = [g - w / p * d for g, p, w, d in zip(gone, self.p, self.w, dq, strict=False)]
            dz = [-r - dot(row, dx) for r, row in zip(primal[m + k :], self.matrix[m + k :], strict=True)]
            return [dx, ds, dw, dq[:m], dq[m : m + k], dq[m + k :], dz]

        mu = self.mu
        zero_x, zero_w = [arb(0)] * self.n, [arb(0)] * m
        # predictor: to products of 0; how much it leaves of them chooses sigma
        dx, ds, dw, dp, *_ = predictor = solve(zero_x, zero_w)
        length = arb(min(1.0, self._longest(predictor)))
        pairs = [*zip(self.x, dx, self.s, ds, strict=True), *zip(self.w, dw, self.p, dp, strict=True)]
        left = sum(((a + length * b) * (c + length * d) for a, b, c, d in pairs), arb(0)) / len(pairs)
        sigma = min(max((left / mu) ** 3, arb(2) ** -60), arb(1))  # Mehrotra's cube
        # corrector: the products of the predictor's own changes, which it left out
        second_x = [target - a * b for target, a, b in zip([sigma * mu] * self.n, dx, ds, strict=True)]
        second_w = [target - a * b for target, a, b in zip([sigma * mu] * m, dw, dp, strict=True)]
        before, step = self._numbers(), self._move(solve(second_x, second_w))
        if step < SHORT:  # the corrector points at a boundary: back, and only towards the centre
            for name, values in before.items():
                setattr(self, name, values)
            step = self._move(solve([mu / 2] * self.n, [mu / 2] * m))
        return step

    def _numbers(self) -> dict[str, list[Arb]]:
        return {name: getattr(self, name) for name in ("x", "s", "w", "p", "y", "pi", "z")}

    def _off(self) -> list[Arb]:
        """By how much conditions ``log pi = log u'(z)`` are violated."""
        slopes = self.program.slopes(self.z)
        return [(pi / (self.scale * slope)).log() for pi, slope in zip(self.pi, slopes, strict=True)]

    def _move(self, found: Sequence[Sequence[Arb]]) -> float:
        """Move along a direction, as far as products of complementary numbers and slopes stay balanced; how far."""
        before, length = self._numbers(), min(1.0, TO_BOUNDARY * self._longest(found))
        most = max([SLOPES, *map(abs, map(float, self._off()))])
        while True:
            for (name, values), by in zip(before.items(), found, strict=True):
                # midpoints: the radii of balls would grow with each step, and mean nothing
                setattr(self, name, [(a + length * b).mid() for a, b in zip(values, by, strict=True)])
            products = [*map(operator.mul, self.x, self.s), *map(operator.mul, self.w, self.p)]
            balanced = min(products) >= BALANCED * self.mu and all(abs(float(v)) <= most for v in self._off())
            if balanced or length < 1e-9:  # below `STUCK`, so that the caller ends
                return length
            length *= 0.7

    def _longest(self, found: Sequence[Sequence[Arb]]) -> float:
        dx, ds, dw, dp, _, dpi, dz = found
        longest = 1e9
        for at, by in ((self.x, dx), (self.s, ds), (self.w, dw), (self.p, dp), (self.pi, dpi), (self.z, dz)):
            for a, b in zip(at, by, strict=True):
                if b < 0:
                    longest = min(longest, float(a / -b))
        return longest


class _WithMean:
    """Solves with present factors, to which a power mean adds derivatives of rank one (Sherman and Morrison 1950)."""

    def __init__(self, point: InteriorPoint) -> None:
        self.point, self.mean = point, point.program.mean
        if self.mean is None:
            return
        powers, first = self.mean.powers(point.z), point.m + point.k
        total, arb = sum(powers), flint.arb
        self.parts = {t: of / total for t, of in zip(self.mean.members, powers, strict=True)}
        self.ratio = arb(self.mean.power) / point.alpha[self.mean.members[0]]
        self.left = [arb(0)] * (first + len(point.z))
        for t in self.mean.members:
            self.left[first + t] = self.ratio * point.z[t]
        self.right = {first + t: v / point.pi[t] for t, v in self.parts.items()}
        self.solved = point.factors.solve([arb(0)] * point.n, self.left)
        self.size = 1 + dot(self.right, self.solved[1])

    def shift(self, off: Sequence[Arb]) -> list[Arb]:
        """The change of z that conditions ``log pi = log u'(z) + off`` ask for if pi stays."""
        at = self.point
        out = [z * o / a for z, o, a in zip(at.z, off, at.alpha, strict=True)]
        if self.mean is not None:
            shared = self.ratio * dot(self.parts, off)
            for t in self.mean.members:
                out[t] = out[t] - at.z[t] * shared
        return out

    def solve(self, top: Sequence[Arb], bottom: Sequence[Arb]) -> tuple[list[Arb], list[Arb]]:
        """The solution for a right-hand side."""
        x, q = self.point.factors.solve(top, bottom)
        if self.mean is None:
            return x, q
        part = dot(self.right, q) / self.size
        return tuple(
            [a - part * b for a, b in zip(of, by, strict=True)] for of, by in zip((x, q), self.solved, strict=True)
        )  # type: ignore[return-value]


class Factors:
    """Factors ``L D L'`` of the quasidefinite matrix ``[[d, B'], [B, -k]]``, in an order that keeps them sparse.

    What is left in the end, where all entries are nonzero, is a dense matrix.

    The rows of ``last``, where k is tiny, come after all others, so that no pivot is tiny.
    """

    def __init__(self, n: int, rows: Sequence[Mapping[int, Arb]], last: set[int]) -> None:
        self.n, self.size = n, n + len(rows)
        near: list[set[int]] = [set() for _ in range(self.size)]
        for k, row in enumerate(rows):
            for c in row:
                near[c].add(n + k)
                near[n + k].add(c)
        self.rows = rows
        self.order: list[int] = []
        self.later: list[list[int]] = []  # of each eliminated, the neighbours that are left
        for of in (set(range(self.size)) - last, last):  # minimum degree: the fewest neighbours left come first
            buckets: dict[int, set[int]] = {}
            for v in of:
                buckets.setdefault(len(near[v]), set()).add(v)
            for _ in range(len(of)):
                degree = min(d for d, some in buckets.items() if some)
                v = min(buckets[degree])
                buckets[degree].discard(v)
                neighbours = near[v]
                self.order.append(v)
                self.later.append(sorted(neighbours))
                for u in neighbours:
                    if u in of:
                        buckets[len(near[u])].discard(u)
                    near[u] |= neighbours
                    near[u] -= {u, v}
                    if u in of:
                        buckets.setdefault(len(near[u]), set()).add(u)
        sizes = range(self.size - 1, -1, -1)  # from where all that is left is connected, a dense solver takes over
        self.sparse = next((at for at, left in enumerate(sizes) if len(self.later[at]) == left), self.size)

    def factorise(self, diagonal: Sequence[Arb], compliance: Sequence[Arb]) -> None:
        """Compute the factors for a diagonal d and k."""
        matrix: list[dict[int, Arb]] = [{} for _ in range(self.size)]
        for v, d in enumerate((*diagonal, *(-k for k in compliance))):
            matrix[v][v] = d
        place = {v: at for at, v in enumerate(self.order)}
        for k, row in enumerate(self.rows):
            for c, value in row.items():
                first, second = (c, self.n + k) if place[c] < place[self.n + k] else (self.n + k, c)
                matrix[first][second] = value
        self.lower: list[list[tuple[int, Arb]]] = []
        self.pivots: list[Arb] = []
        for v, later in zip(self.order[: self.sparse], self.later, strict=False):
            row = matrix[v]
            pivot = row[v]
            entries = [(u, row[u], row[u] / pivot) for u in later if u in row]
            for (a, of_a, _), (b, _, by_b) in combinations_with_replacement(entries, 2):
                first, second = (a, b) if place[a] <= place[b] else (b, a)
                now = matrix[first].get(second)
                matrix[first][second] = -(of_a * by_b) if now is None else now - of_a * by_b
            self.lower.append([(u, by) for u, _, by in entries])
            self.pivots.append(pivot)
        left = self.order[self.sparse :]
        upper = [[matrix[u].get(v, 0) for v in left[at:]] for at, u in enumerate(left)]
        self.kernel = flint.arb_mat(
            [[upper[min(a, b)][abs(a - b)] for b in range(len(left))] for a in range(len(left))] if left else []
        )

    def solve(self, top: Sequence[Arb], bottom: Sequence[Arb]) -> tuple[list[Arb], list[Arb]]:
        """The solution for a right-hand side."""
        x, left = [*top, *bottom], self.order[self.sparse :]
        steps = list(zip(self.order, self.lower, self.pivots, strict=False))
        for v, entries, _ in steps:
            for u, by in entries:
                x[u] = x[u] - by * x[v]
        if left:
            # approximate: a step needs no proof, and rigorous radii would grow with it
            solution = self.kernel.solve(flint.arb_mat([[x[v]] for v in left]), algorithm="approx", nonstop=True)
            for at, v in enumerate(left):
                x[v] = solution[at, 0]
        for v, entries, pivot in reversed(steps):
            x[v] = x[v] / pivot
            for u, by in entries:
                x[v] = x[v] - by * x[u]
        return x[: self.n], x[self.n :]
