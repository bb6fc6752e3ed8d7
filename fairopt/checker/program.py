"""Cone programs in exact arithmetic: what a dual point proves of the optimum, and how far a point is from feasible.

    minimise c'z + offset  subject to  A z + s = b, s in K, least <= z <= most

For y in the dual cone and r = c + A'y every feasible z has, as s'y >= 0,

    c'z = r'z - y'A z = r'z - b'y + s'y >= -b'y + sum_k min over the range of z_k of r_k z_k.

The same with c = 0 proves that no z is feasible if the right side is positive (Farkas). A direction d with c'd < 0 and
-A d in K proves that the objective has no bound along it (Proposition 15.9 in docs/methods/evidence.md).

Floats are integers over a power of two. All numbers of a program are brought to one such denominator, so that sums of
products are sums of integers: exact, without common divisors, in .3 microseconds a term. Numbers that differ by 1e600
make integers of 4,000 bits, which is slow and right.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .cones import Cone, Exponential, Power, SecondOrder, Semidefinite
from .instance import check_keys
from .numbers import Fraction, dyadic, exact_sum
from .outcome import Clock, Fault, short

EXTRA = 64  # bits that a dual point has beyond those of its numbers, for moves into the dual cone
TYPICAL = 1000  # a row's size is at least its largest coefficient times the largest |z_k|, over this; a gap's unit too
MOST = 1.7976931348623157e308  # the largest float
PART = 10**6  # a row whose part is smaller than this does not take part in a proof that no point is feasible
ROUNDING = 10**10  # and a column of whose terms less than this part is left cancels
PASSES = 40  # over half-spaces, in which ranges spread: chains of further variables are as long
KEYS = ("columns", "rows", "cost", "offset", "matrix", "right", "cones")
CONES = ("zero", "nonneg", "soc", "exp", "power", "psd")


Ends = dict[int, tuple[Optional[Fraction], Optional[Fraction]]]  # of columns: the least and the most, by what rows say


class Range(NamedTuple):
    """What a file says of each column: limits that are part of the problem, and a radius beyond which nothing is
    claimed; None where there is none.
    """

    least: list[float | None]
    most: list[float | None]
    radius: list[float | None]


class Bound(NamedTuple):
    """A lower bound of c'z, the columns whose radius it needs, and r of the columns that are left to others."""

    value: Fraction
    within: list[int]
    left: list[Fraction]


class Program:
    """A cone program; numbers are integers over ``2 ** bits``."""

    def __init__(self, data: Mapping[str, Any], limits: Mapping[str, Any], radius: Any, clock: Clock) -> None:
        """Read a program; `Fault` unless it is one."""
        require(data, KEYS, "program")
        require(data["cost"], ("column", "value"), "program.cost")
        require(data["matrix"], ("row", "column", "value"), "program.matrix")
        require(limits, ("least", "most"), "limits")
        self.clock = clock
        self.columns, self.rows = count(data["columns"], "program.columns"), count(data["rows"], "program.rows")
        right = floats(data["right"], "program.right", self.rows)
        self.range = Range(
            floats_or_none(limits["least"], "limits.least", self.columns),
            floats_or_none(limits["most"], "limits.most", self.columns),
            [None] * self.columns if radius is None else floats_or_none(radius, "radius", self.columns),
        )
        if any(r is not None and r < 0 for r in self.range.radius):
            raise Fault("radius has a negative number")
        value = floats(data["cost"]["value"], "program.cost.value")
        column = places(data["cost"]["column"], "program.cost.column", len(value), self.columns)
        values = floats(data["matrix"]["value"], "program.matrix.value")
        self.row = places(data["matrix"]["row"], "program.matrix.row", len(values), self.rows)
        self.column = places(data["matrix"]["column"], "program.matrix.column", len(values), self.columns)
        (offset,) = floats([data["offset"]], "program.offset", 1)
        self.bits = bits_of(right, value, values, [offset])
        self.offset = Fraction(integers([offset], self.bits)[0], 1 << self.bits)
        self.right, self.matrix = integers(right, self.bits), integers(values, self.bits)
        self.cost = [0] * self.columns
        for k, c in zip(column, integers(value, self.bits)):
            self.cost[k] += c
        self._merge()
        self._read_cones(data["cones"])

    def _merge(self) -> None:
        """Add up entries of the same row and column: apart they could make a row's terms large."""
        keys = [i * self.columns + j for i, j in zip(self.row, self.column)]
        if len(set(keys)) < len(keys):
            merged = dict.fromkeys(keys, 0)
            for key, a in zip(keys, self.matrix):
                merged[key] += a
            self.row = [key // self.columns for key in merged]
            self.column = [key % self.columns for key in merged]
            self.matrix = list(merged.values())

    def _read_cones(self, data: Any) -> None:
        require(data, CONES, "program.cones")
        self.zero = count(data["zero"], "program.cones.zero")
        self.linear = self.zero + count(data["nonneg"], "program.cones.nonneg")
        sizes, orders = listed(data["soc"], "program.cones.soc"), listed(data["psd"], "program.cones.psd")
        exponentials = count(data["exp"], "program.cones.exp")
        exponents = floats(data["power"], "program.cones.power")
        if any(not 0 < a < 1 for a in exponents):
            raise Fault("program.cones.power has an exponent that is not between 0 and 1")
        if any(count(one, "a size in program.cones") == 0 for one in sizes + orders):
            raise Fault("program.cones has a cone without rows")
        # before any of them is made: a count of 1e12 is one number in a file
        held = self.linear + sum(sizes) + 3 * (exponentials + len(exponents)) + sum(k * (k + 1) // 2 for k in orders)
        if held != self.rows:
            raise Fault(f"the cones have {held:,} rows, and the program {self.rows:,}")
        cones: list[Cone] = [SecondOrder(size) for size in sizes]
        cones += [Exponential()] * exponentials
        cones += [Power(a) for a in exponents]
        cones += [Semidefinite(k, self.clock.check) for k in orders]
        self.curved, start = list[tuple[int, Cone]](), self.linear
        for cone in cones:
            self.curved.append((start, cone))
            start += cone.rows

    # -- the bound ----------------------------------------------------------------------------------------------------

    def into_dual_cone(self, values: Sequence[float]) -> tuple[list[int], int]:
        """A dual point moved into the dual cone, and the bits of its denominator."""
        bits = bits_of(values) + EXTRA
        y = integers(values, bits)
        y[self.zero : self.linear] = [max(x, 0) for x in y[self.zero : self.linear]]
        for start, cone in self.curved:
            self.clock.check()
            y[start : start + cone.rows] = cone.into_dual(y[start : start + cone.rows])
        return y, bits

    def bound(self, values: Sequence[float], with_cost: bool, tasks: Sequence[Fraction] = ()) -> Bound | int:
        """A lower bound of c'z, or of 0 without the cost, over all feasible z.

        If the first columns lie between 0 and ``tasks``, their r_k are left to others, and ranges that follow from
        theirs come before radii.
        If there is none, a column of which r_k is not 0 and that has no range on the side that matters.
        """
        (y, bits), apart = self.into_dual_cone(values), len(tasks)
        r = [c << bits for c in self.cost] if with_cost else [0] * self.columns
        for i, j, a in zip(self.row, self.column, self.matrix):
            r[j] += a * y[i]
        self.clock.check()
        total = -sum(b * x for b, x in zip(self.right, y))
        charged = [k for k, x in enumerate(r) if x and k >= apart]
        implied: Mapping[int, Any] = self._implied() if charged else {}
        within = list[int]()
        found = [self._end(k, r[k], implied, apart > 0) for k in charged]
        if any(end is None or of_radius for end, of_radius in found):
            implied = self._propagated(implied, tasks)
        ends, unit = list[tuple[int, Fraction]](), 1
        for k in charged:
            end, is_radius = self._end(k, r[k], implied, apart > 0)
            if end is None:
                return k
            if is_radius:
                within.append(k)
            ends.append((r[k], end))
            if not end.d & (end.d - 1):  # a power of two; what rows imply is rounded down below
                unit = max(unit, end.d)
        total = total * unit + sum(x * end.n * unit // end.d for x, end in ends)
        left = [Fraction(x, 1 << (self.bits + bits)) for x in r[:apart]]
        return Bound(Fraction(total, unit << (self.bits + bits)), within, left)

    def _end(self, k: int, cost: int, implied: Mapping[int, Any], radius_last: bool) -> tuple[Fraction | None, bool]:
        """The end of the range of column k at which ``cost`` times it is least, and whether that is its radius."""
        sign = 1 if cost > 0 else -1
        stated, radius = (self.range.least if sign > 0 else self.range.most)[k], self.range.radius[k]
        end: Fraction | None = implied.get(k, (None, None))[sign < 0]
        if stated is not None and (end is None or end * sign < stated * sign):
            end = Fraction(stated)
        if radius is None or (end is not None and (radius_last or not end * sign < -radius)):
            return end, False
        return Fraction(-radius * sign), True

    def _signed(self) -> list[bool]:
        """The rows whose s_i is 0, or at least 0 in the cone."""
        signed = [i < self.linear for i in range(self.rows)]
        for start, cone in self.curved:
            for i in cone.signed:
                signed[start + i] = True
        return signed

    def _implied(self) -> Ends:
        """The limits of columns by rows with one entry whose s_i is 0, or at least 0 in the cone: b_i - a z_k >= 0."""
        entries = [0] * self.rows
        for i in self.row:
            entries[i] += 1
        signed = self._signed()
        out = dict[int, tuple[Any, Any]]()
        for i, k, a in zip(self.row, self.column, self.matrix):
            if entries[i] == 1 and signed[i] and a:
                end, (low, high) = Fraction(self.right[i]) / a, out.get(k, (None, None))
                if (a > 0 or i < self.zero) and (high is None or end < high):
                    high = end
                if (a < 0 or i < self.zero) and (low is None or end > low):
                    low = end
                out[k] = low, high
        return out

    def _propagated(self, implied: Mapping[int, Any], tasks: Sequence[Fraction]) -> Mapping[int, Any]:
        """The ends of ranges that rows and cones imply of those of the first columns, of 0 to ``tasks``.

        Each half-space ``b - a'z >= 0`` around a cone bounds a column by the ends of the others.
        """
        low, high = dict[int, Fraction](), dict[int, Fraction]()
        for ends, which in ((low, 0), (high, 1)):
            stated = (self.range.least, self.range.most)[which]
            ends |= {k: end for k, pair in implied.items() if (end := pair[which]) is not None}
            ends |= {k: Fraction(end) for k, end in enumerate(stated) if end is not None and k not in ends}
            ends |= {k: most * which for k, most in enumerate(tasks)}
        halves = list(self._halves())
        for _ in range(PASSES):
            before = len(low) + len(high)
            for right, pairs in halves:
                self.clock.check()
                unknown = [k for k, a in pairs if k not in (low if a.n > 0 else high)]
                if len(unknown) > 1:
                    continue
                room = right - exact_sum(a * (low if a.n > 0 else high)[k] for k, a in pairs if k not in unknown)
                for k, a in pairs:
                    if (unknown and k != unknown[0]) or k in (high if a.n > 0 else low):
                        continue
                    end = (room if unknown else room + a * (low if a.n > 0 else high)[k]) / a
                    if a.n > 0:
                        high[k] = dyadic(end)
                    else:
                        low[k] = -dyadic(-end)
            if len(low) + len(high) == before:
                break
        return {k: (low.get(k), high.get(k)) for k in low.keys() | high.keys()}

    def _halves(self) -> Iterator[tuple[Fraction, list[tuple[int, Fraction]]]]:
        """The half-spaces around the cones: right-hand sides, and coefficients by column."""
        by_row: list[list[tuple[int, int]]] = [[] for _ in range(self.rows)]
        for i, j, a in zip(self.row, self.column, self.matrix):
            by_row[i].append((j, a))
        unit = 1 << self.bits
        for i in range(self.linear):
            for sign in (1, -1) if i < self.zero else (1,):
                yield Fraction(sign * self.right[i], unit), [(j, Fraction(sign * a, unit)) for j, a in by_row[i] if a]
        for start, cone in self.curved:
            for half in cone.halves():
                total = dict[int, Fraction]()
                for i, factor in half.items():
                    for j, a in by_row[start + i]:
                        total[j] = total.get(j, Fraction(0)) + factor * Fraction(a, unit)
                right = exact_sum(factor * Fraction(self.right[start + i], unit) for i, factor in half.items())
                yield right, [(j, a) for j, a in total.items() if a.n]

    def carrying(self, values: Sequence[float]) -> set[int]:
        """The rows that carry a proof that no point is feasible: those with more than a millionth of the largest
        multiplier, of ``-b'y``, or of the terms of a column of such rows.

        Of a column that does not cancel a range is used, which any row of it may imply, by ranges of its other columns.
        """
        y, _ = self.into_dual_cone(values)
        terms, total, left = list[int](), [0] * self.columns, [0] * self.columns
        for i, j, a in zip(self.row, self.column, self.matrix):
            terms.append(abs(a * y[i]))
            total[j] += terms[-1]
            left[j] += a * y[i]
        cones, places = list(range(self.rows)), list(zip(self.row, self.column))
        for start, cone in self.curved:
            cones[start : start + cone.rows] = [start] * cone.rows
        ranged = {j for j, x in enumerate(left) if abs(x) * ROUNDING > total[j]}
        matters = [x * PART > total[j] for x, j in zip(terms, self.column)]
        sides, most = [abs(b * x) for b, x in zip(self.right, y)], max(map(abs, y), default=0)
        proved = -sum(b * x for b, x in zip(self.right, y))  # rows that only touch cancel in the right side
        whole = proved if proved > 0 else sum(sides)
        out = {i for i, x in enumerate(y) if abs(x) * PART > most or sides[i] * PART > whole}
        while True:
            self.clock.check()
            kept = {cones[i] for i in out}
            columns = {j for (i, j), some in zip(places, matters) if cones[i] in kept and (some or j in ranged)}
            through = {i for i, j in places if j in columns and j in ranged}
            ranged |= {j for i, j in places if i in through}
            more = {i for (i, j), some in zip(places, matters) if j in columns and (some or j in ranged)}
            more |= {i for i in range(self.rows) if cones[i] in kept}
            if more == out:
                return out
            out = more

    # -- points and directions ----------------------------------------------------------------------------------------

    def value(self, values: Sequence[float]) -> tuple[Fraction, Fraction]:
        """``c'z + offset`` at a point, and what the unit of gaps is at least: the size of ``c'z``, or a part of that of
        its largest term.
        """
        bits = bits_of(values)
        terms = [c * x for c, x in zip(self.cost, integers(values, bits))]
        value, least = (
            Fraction(x, d << (self.bits + bits))
            for x, d in ((sum(terms), 1), (max(map(abs, terms), default=0), TYPICAL))
        )
        return value + self.offset, max(abs(value), least)

    def broken(self, values: Sequence[float], violation: Fraction, apart: int = 0) -> tuple[str, int] | None:
        """The first row, cone or column (by its place) that a point breaks by more than a ``violation`` of its size.

        The sizes of the first ``apart`` columns, in other units, say nothing of rows without them.
        """
        bits = bits_of(values)
        z = integers(values, bits)
        largest = max(map(abs, z[apart:]), default=0)
        s, size, coefficient = [b << bits for b in self.right], [0] * self.rows, [0] * self.rows
        for i, j, a in zip(self.row, self.column, self.matrix):
            term = a * z[j]
            s[i] -= term
            size[i] += abs(term)
            coefficient[i] = max(coefficient[i], abs(a) * (j >= apart))
        size = [max(one, abs(b) << bits, a * largest // TYPICAL) for one, b, a in zip(size, self.right, coefficient)]
        n, d = violation.as_integer_ratio()
        for i, x in enumerate(s[: self.linear]):
            if (x < 0 or (x and i < self.zero)) and abs(x) * d > n * size[i]:
                return "row", i
        for start, cone in self.curved:
            self.clock.check()
            part = slice(start, start + cone.rows)
            if not cone.inside(cone.raised([x * d for x in s[part]], n * max(size[part]))):
                return "cone", start
        for k, x in enumerate(z):
            for sign, end in ((1, self.range.least[k]), (-1, self.range.most[k])):
                if end is None:
                    continue
                limit, point = Fraction(end), Fraction(x, 1 << bits)
                excess = sign * (limit - point)
                if excess > 0 and excess > violation * max(abs(limit), abs(point), Fraction(largest, TYPICAL << bits)):
                    return "column", k
        return None

    def endless(self, values: Sequence[float]) -> str:
        """Why a direction does not prove that the objective has no bound along it; empty if it does."""
        bits = bits_of(values)
        z = integers(values, bits)
        if sum(c * x for c, x in zip(self.cost, z)) >= 0:
            return "the objective does not improve along the direction"
        for k, x in enumerate(z):
            if (x < 0 and self.range.least[k] is not None) or (x > 0 and self.range.most[k] is not None):
                return "the direction leaves the limits of a column"
        s = [0] * self.rows
        for i, j, a in zip(self.row, self.column, self.matrix):
            s[i] -= a * z[j]
        if any(s[: self.zero]) or min(s[self.zero : self.linear], default=0) < 0:
            return "the direction leaves a row"
        if not all(cone.inside(s[start : start + cone.rows]) for start, cone in self.curved):
            return "the direction leaves a cone"
        return ""


class Names:
    """Names of rows or columns, each for a range that begins at its start."""

    def __init__(self, what: str, entries: Any, keys: tuple[str, ...], most: int) -> None:
        """Check that the ranges are in order, within ``most``, and do not overlap."""
        self.what, self.starts, self.names = what, list[int](), list[str]()
        end, self.ends = 0, list[int]()
        for k, entry in enumerate(listed(entries, what)):
            place = f"{what}[{k}]"
            require(entry, keys, place)
            if not isinstance(entry["name"], str):
                raise Fault(f"{place}.name is {short(repr(entry['name']), 40)}, not a text")
            if "shape" in keys and not (isinstance(entry["shape"], list) and isinstance(entry["added"], bool)):
                raise Fault(f"{place} has a shape that is no list, or an 'added' that is no truth value")
            start = count(entry["start"], f"{place}.start")
            last = start + count(entry["size"], f"{place}.size") if "size" in keys else start
            if start < end or last > most:
                raise Fault(f"{place} is out of order, overlaps another, or ends beyond {most:,}")
            end = last
            self.starts.append(start)
            self.ends.append(last if "size" in keys else most)
            self.names.append(short(entry["name"], 60))

    def range_of(self, place: int) -> int | None:
        """The range of a place, if it has one."""
        k = bisect_right(self.starts, place) - 1
        return None if k < 0 or place >= self.ends[k] else k

    def of(self, place: int, what: str) -> str:
        """The name of a place, and its place after the start; ``what`` and the place where it has none."""
        k = self.range_of(place)
        return f"{what} {place}" if k is None else f"{self.names[k]}[{place - self.starts[k]}]"


def require(data: Any, keys: Sequence[str], what: str) -> None:
    """Refuse what is not a dict with exactly these keys."""
    if not isinstance(data, dict):
        raise Fault(f"{what} is {short(repr(data), 40)}, not an object with {', '.join(keys)}")
    if missing := [key for key in keys if key not in data]:
        raise Fault(f"{what} has no {missing[0]!r}")
    check_keys(data, keys, what)


def listed(values: Any, what: str) -> list[Any]:
    """A list."""
    if not isinstance(values, list):
        raise Fault(f"{what} is {short(repr(values), 40)}, not a list")
    return values


def count(value: Any, what: str) -> int:
    """A whole number from 0."""
    if type(value) is not int or value < 0:
        raise Fault(f"{what} is {short(repr(value), 40)}, not a whole number from 0")
    return value


def floats(values: Any, what: str, size: int | None = None) -> list[float]:
    """A list of finite floats, of a given size."""
    if len(listed(values, what)) != (len(values) if size is None else size):
        raise Fault(f"{what} has {len(values):,} numbers, and should have {size:,}")
    try:
        if {float, int}.issuperset(map(type, values)) and all(map(math.isfinite, values)):
            return list(map(float, values))
    except OverflowError:  # an integer beyond floats
        pass
    k = next(k for k, x in enumerate(values) if type(x) not in (float, int) or not abs(x) <= MOST)
    raise Fault(f"{what}[{k}] is {short(repr(values[k]), 40)}, not a finite number")


def floats_or_none(values: Any, what: str, size: int) -> list[float | None]:
    """A list of finite floats and nulls."""
    held = floats([0.0 if x is None else x for x in listed(values, what)], what, size)
    return [None if x is None else y for x, y in zip(values, held)]


def places(values: Any, what: str, size: int, below: int) -> list[int]:
    """A list of positions below a number."""
    if len(listed(values, what)) != size:
        raise Fault(f"{what} has {len(values):,} positions, and should have {size:,}")
    if not {int}.issuperset(map(type, values)) or (values and not 0 <= min(values) <= max(values) < below):
        wrong = next(x for x in values if type(x) is not int or not 0 <= x < below)
        raise Fault(f"{what} has {short(repr(wrong), 40)}, not a position from 0 to {below - 1}")
    return values


def bits_of(*lists: Sequence[float]) -> int:
    """The least bits such that all numbers are integers over ``2 ** bits``."""
    return max((x.as_integer_ratio()[1].bit_length() for values in lists for x in values), default=1) - 1


def integers(values: Sequence[float], bits: int) -> list[int]:
    """Floats times ``2 ** bits``, which makes them integers."""
    return [n << (bits + 1 - d.bit_length()) for n, d in map(float.as_integer_ratio, values)]
