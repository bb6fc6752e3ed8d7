"""Rational numbers, and intervals around logarithms and powers.

`Fraction` is exact, and sums are rounded outwards to `BITS` bits where exact ones grow with the number of users: each
sum of n fractions of different denominators would have n times the digits. ``ln`` and ``exp`` lie between two decimals
of 50 digits, as `decimal` rounds both correctly, and so does ``x^p = exp(p ln x)``: with ``low <= p ln x <= high`` each
end of an interval is rounded once more by one unit in the 50th digit, down for `DOWN` and up for `UP` (Proposition 15.2
in docs/methods/evidence.md).

Why not floats with an error bound: powers of levels leave their range at alpha = 50, and a gap is a small difference of
large sums. Why not `fractions.Fraction`: it reduces after each operation, which takes five times as long. A float is a
fraction; exact answers read it as the shortest decimal that prints it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from itertools import chain
from typing import Any, NamedTuple

from .outcome import CannotCheck, Fault, short


class Fraction:
    """A fraction n / d with d > 0, reduced only where sums would grow: five times as fast as `fractions.Fraction`."""

    __slots__ = ("d", "n")

    def __init__(self, n: Any = 0, d: int = 1) -> None:
        self.n: int = n
        self.d: int = d
        if type(n) is not int:
            self.n, self.d = n.as_integer_ratio()

    def as_integer_ratio(self) -> tuple[int, int]:
        """Reduce to lowest terms; the numerator and the denominator."""
        common = math.gcd(self.n, self.d)
        if common > 1:
            self.n, self.d = self.n // common, self.d // common
        return self.n, self.d

    def __repr__(self) -> str:
        return "{}/{}".format(*self.as_integer_ratio())

    def __hash__(self) -> int:
        return hash(self.as_integer_ratio())

    def __float__(self) -> float:
        try:
            return self.n / self.d
        except OverflowError:  # infinite, like products of floats
            return math.inf if self.n > 0 else -math.inf

    def __ceil__(self) -> int:
        return -(-self.n // self.d)

    def __floor__(self) -> int:
        return self.n // self.d

    def __bool__(self) -> bool:
        return self.n != 0

    def __neg__(self) -> Fraction:
        return Fraction(-self.n, self.d)

    def __abs__(self) -> Fraction:
        return Fraction(abs(self.n), self.d)

    def __add__(self, other: Any) -> Fraction:
        if type(other) is not Fraction:
            other = Fraction(other)
        d, e = self.d, other.d  # most numbers of a file have one denominator, or powers of 2, and need no gcd
        if d == e:
            return Fraction(self.n + other.n, d)
        if d > e and not d % e:
            return Fraction(self.n + other.n * (d // e), d)
        if d < e and not e % d:
            return Fraction(self.n * (e // d) + other.n, e)
        (n, d), (m, e) = self.as_integer_ratio(), other.as_integer_ratio()
        common = math.gcd(d, e)
        return Fraction(n * (e // common) + m * (d // common), d // common * e)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Fraction:
        return self + -other

    def __rsub__(self, other: Any) -> Fraction:
        return -self + other

    def __mul__(self, other: Any) -> Fraction:
        if type(other) is not Fraction:
            other = Fraction(other)
        return Fraction(self.n * other.n, self.d * other.d)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Fraction:
        if type(other) is not Fraction:
            other = Fraction(other)
        if not other.n:
            raise ZeroDivisionError("division by 0")
        # numbers of a file have one denominator: of their ratios short ones are made
        n, d = (self.n, other.n) if self.d == other.d else (self.n * other.d, self.d * other.n)
        return Fraction(n, d) if d > 0 else Fraction(-n, -d)

    def __rtruediv__(self, other: Any) -> Fraction:
        return Fraction(other) / self

    def __eq__(self, other: object) -> bool:
        if type(other) is not Fraction:
            if not isinstance(other, (int, float)) or not math.isfinite(other):
                return False
            other = Fraction(other)
        return self.n * other.d == other.n * self.d

    def __lt__(self, other: Any) -> bool:
        if type(other) is not Fraction:
            other = Fraction(other)
        return self.n < other.n if self.d == other.d else self.n * other.d < other.n * self.d

    def __gt__(self, other: Any) -> bool:
        return (other if type(other) is Fraction else Fraction(other)) < self

    def __le__(self, other: Any) -> bool:
        return not self > other

    def __ge__(self, other: Any) -> bool:
        return not self < other


GAP, VIOLATION, BLOCK_VIOLATION = Fraction(1, 10**6), Fraction(1, 10**9), Fraction(1, 10**7)  # those of certificates
CLOSE = Fraction(1, 10**10)  # relative: shares this close have tangents that differ by the square of this
ROUNDING = Fraction(1, 10**12)  # relative: float rounding in a level or a full resource
BITS = 200  # of a rounded sum: 60 digits, of which sums of 1e6 users lose 6
HUGE, LEAST_FLOAT = Fraction(10**300), Fraction(1, 1 << 1022)  # where floats are about to overflow and underflow
UNIT = 1 << 80  # the common denominator of most numbers in files
ZERO, ONE = Fraction(0), Fraction(1)
Table = list[list[Fraction]]  # by user and server
Place = tuple[int, int]  # a server and a resource
Pair = tuple[int, int]  # a user and a server
Rows = list["LinearRow"]


class RowName(NamedTuple):
    """What identifies a row in evidence: the ``place`` of its constraint, and whom it is ``of``.

    The place is a position in the policy, ``"guarantees"`` of teams, ``"limits"`` of users, or ``"tier k"`` for what
    later tiers keep of tier k. A row is for a user, a team, a pair of these, or nobody in particular. Multipliers in
    files are per ``unit`` of the row's bound.
    """

    place: int | str
    of: str | tuple[str, ...] = ""
    unit: Fraction = Fraction(1)


class Tolerances(NamedTuple):
    """The largest gap that counts as none, of a program its largest violation too, and the largest distance of value
    and bound whatever the gap is.
    """

    tol: Fraction
    atol: Fraction

    @classmethod
    def of(cls, tol: float, atol: float) -> Tolerances:
        """Those of numbers as they are written: 1e-6 is a millionth."""
        for name, number, least in (("tol", tol, "above 0"), ("atol", atol, "from 0")):
            if not isinstance(number, (int, float)) or not 0 <= number < math.inf or (name == "tol" and not number):
                raise ValueError(f"{name} is {number!r}, and must be a number {least}")
        return cls(*(Fraction(Decimal(repr(float(number)))) for number in (tol, atol)))


class LinearRow(NamedTuple):
    """``sum of per_task x <= bound``, or ``==``; coefficients are by user and server."""

    per_task: dict[Pair, Fraction]
    bound: Fraction
    equal: bool
    name: RowName


DOWN, UP = (Context(prec=50, rounding=r, Emax=MAX_EMAX, Emin=MIN_EMIN) for r in (ROUND_FLOOR, ROUND_CEILING))
SMALLEST, LARGEST = Decimal("1e-400"), Decimal("1e4000")
LEAST, MOST, FAR_FROM_0, NEAR_0 = map(Decimal, ("1e-300", "1e300", "0.01", "1e-10"))  # of `_log`
LONG = 900  # powers of 2 by which products differ from 1 before their logarithm is taken: within floats
HALF, LOG_ERROR = Decimal("0.5"), Decimal("1e-48")


class Between(NamedTuple):
    """A closed interval that contains a number."""

    low: Fraction
    high: Fraction

    def times(self, other: Fraction) -> Between:
        """The interval times a number."""
        return Between(*sorted((self.low * other, self.high * other)))

    def inverse(self) -> Between:
        """One over a positive number."""
        return Between(1 / self.high, 1 / self.low)

    def plus(self, other: Fraction) -> Between:
        """The interval plus a number."""
        return Between(self.low + other, self.high + other)


def together(*rows: Any) -> Iterator[Any]:
    """Tuples of the values of rows of one length, as by `zip`; `ValueError` if lengths differ."""
    lists = [row if hasattr(row, "__len__") else [*row] for row in rows]
    if len({*map(len, lists)}) > 1:
        raise ValueError(f"lists have lengths {', '.join(str(len(row)) for row in lists)}, which should be equal")
    return zip(*lists)


def exact_sum(values: Iterable[Fraction]) -> Fraction:
    """The sum without rounding."""
    n, d = 0, 1
    for value in values:
        if value.d != d:
            value = Fraction(n, d) + value
            n, d = value.n, value.d
        else:
            n += value.n
    return Fraction(n, d)


def sum_of_products(pairs: Iterable[tuple[Fraction, Fraction]]) -> Fraction:
    """The sum of the products of pairs without rounding; those of the same two denominators are added as integers."""
    n, d, of_first, of_second = 0, 1, 1, 1
    for a, b in pairs:
        if a.d != of_first or b.d != of_second:
            so_far = Fraction(n, d) + a * b
            n, d, of_first, of_second = so_far.n, so_far.d, a.d, b.d
            if d != of_first * of_second:  # the next product is added in full too
                of_first = of_second = 0
        else:
            n += a.n * b.n
    return Fraction(n, d)


def up(x: Fraction) -> Fraction:
    """x rounded up to a numerator of about `BITS` bits."""
    if x.d.bit_length() <= 2 * BITS:
        return x
    scale = 1 << max(BITS - x.n.bit_length() + x.d.bit_length(), 0)
    return Fraction(-((-x.n * scale) // x.d), scale)


def down(x: Fraction) -> Fraction:
    """x rounded down to a numerator of about `BITS` bits."""
    return x if x.d.bit_length() <= 2 * BITS else -up(-x)  # at twice the bits: rounding pays only for long numbers


def dyadic(x: Fraction, bits: int = BITS) -> Fraction:
    """x rounded up to a power-of-2 denominator, so that long sums keep a common denominator."""
    scale = 1 << bits + max(x.d.bit_length() - x.n.bit_length(), 0)
    return Fraction(-((-x.n * scale) // x.d), scale)


def outward(low: Decimal, high: Decimal) -> Between:
    """Two decimals as fractions, moved outwards where they are tiny: 1e-4000 has 13,000 bits as a fraction."""
    if max(abs(low), abs(high)) > LARGEST:
        raise Fault("a power is too large to be written as a fraction")
    if low and abs(low) < SMALLEST:
        low = -SMALLEST if low < 0 else Decimal(0)
    if high and abs(high) < SMALLEST:
        high = SMALLEST if high > 0 else Decimal(0)
    return Between(Fraction(low), Fraction(high))


def _decimals(x: Fraction) -> tuple[Decimal, Decimal]:
    n, d = map(Decimal, x.as_integer_ratio())
    return DOWN.divide(n, d), UP.divide(n, d)


def _log(x: Fraction) -> tuple[Decimal, Decimal]:
    """Bounds on ln x: near a float y it is ``y + ln(1 + r)`` with ``1 + r = x / e^y``.

    ``ln(1 + r)`` is within ``r^4`` of ``r - r^2 / 2 + r^3 / 3`` for |r| <= 1/2. For r below 1e-10 that is 1e-40, and
    takes a half to a third of the time of two calls of `Decimal.ln`, which are taken near 1 and beyond floats.
    """
    low, high = _decimals(x)
    y = Decimal(math.log(low)) if low > LEAST and high < MOST else Decimal(0)
    if y.copy_abs() > FAR_FROM_0:
        inverse = DOWN.exp(y.copy_negate())  # an operator would round to fewer digits
        # e^y rounded once, so that one unit in the last digit on either side contains it
        r = DOWN.subtract(DOWN.multiply(low, DOWN.next_minus(inverse)), 1)
        s = UP.subtract(UP.multiply(high, UP.next_plus(inverse)), 1)
        if max(r.copy_abs(), s.copy_abs()) < NEAR_0:
            return DOWN.add(y, DOWN.subtract(*_log_of_more(r))), UP.add(y, UP.add(*_log_of_more(s)))
    return DOWN.next_minus(DOWN.ln(low)), UP.next_plus(UP.ln(high))


def _log_of_more(r: Decimal) -> tuple[Decimal, Decimal]:
    """An approximation of ``ln(1 + r)`` for small r, and a bound on its error, rounding to 50 digits included."""
    square = UP.multiply(r, r)
    about = DOWN.add(r, DOWN.multiply(square, DOWN.subtract(DOWN.divide(r, 3), HALF)))
    return about, UP.add(UP.multiply(square, square), UP.multiply(r.copy_abs(), LOG_ERROR))


def log(x: Fraction) -> Between:
    """The logarithm of a positive number."""
    return outward(*_log(x))


def power(x: Fraction, p: Fraction) -> Between:
    """x to the power of p, for x > 0."""
    n, d = p.as_integer_ratio()
    if d == 1 and abs(n) <= 4:  # exact, and without decimals
        exact = Fraction(x.n**n, x.d**n) if n >= 0 else Fraction(x.d**-n, x.n**-n)
        return Between(down(exact), up(exact))
    if x.n == x.d:
        return Between(ONE, ONE)
    ends = [(a, b) for a in _decimals(p) for b in _log(x)]
    low, high = min(DOWN.multiply(a, b) for a, b in ends), max(UP.multiply(a, b) for a, b in ends)
    return outward(max(DOWN.next_minus(DOWN.exp(low)), Decimal(0)), UP.next_plus(UP.exp(high)))


def sum_of_boxcox(pairs: Iterable[tuple[Fraction, Fraction]], alpha: Fraction) -> Fraction:
    """A lower bound on ``sum f (z^(1-alpha) - 1) / (1-alpha)`` of pairs of f > 0 and z; on ``f ln z`` at alpha = 1."""
    q, weight, terms = 1 - alpha, list[Fraction](), list[Fraction]()
    if not q:
        return sum_of_logs(pairs)
    for f, z in pairs:
        weight.append(f)
        if q.n < 0:
            terms.append(dyadic(f * power(z, q).high))
        elif z:
            terms.append(-dyadic(-f * power(z, q).low))
    return (exact_sum(terms) - exact_sum(weight)) / q


def sum_of_logs(pairs: Iterable[tuple[Fraction, Fraction]]) -> Fraction:
    """A lower bound on ``sum f ln z`` of pairs of f > 0 and z > 0; those with one f are multiplied before."""
    products, terms = dict[Fraction, Fraction](), list[Fraction]()
    for f, z in pairs:
        product = -dyadic(-products.get(f, ONE) * z)  # rounded down; one logarithm for all users of one weight
        if abs(product.n.bit_length() - product.d.bit_length()) > LONG:  # before it leaves the fast range of `_log`
            terms.append(-dyadic(-f * log(product).low))
            product = ONE
        products[f] = product
    return exact_sum([*terms, *(-dyadic(-f * log(product).low) for f, product in products.items())])


def intercept(z: Fraction, alpha: Fraction, slope: Between) -> Fraction:
    """An upper bound on ``u(z) - u'(z) z`` of Box-Cox's u, where ``slope`` is ``u'(z) = z^-alpha``."""
    if alpha == 1:
        return log(z).high - slope.low * z
    return (alpha * z * (slope.high if alpha < 1 else slope.low) - 1) / (1 - alpha)


def number(value: Any, what: str, least: int | None = None) -> Fraction:
    """A finite number of the file as a fraction; no smaller than ``least``."""
    finite = isinstance(value, (int, float, Fraction)) and not isinstance(value, bool) and math.isfinite(value)
    if not finite:
        raise Fault(f"{what} is {short(repr(value))}, not a finite number")
    if least is not None and value < least:
        raise Fault(f"{what} is {value!r}, below {least}")
    if isinstance(value, Fraction):
        return value
    n, d = value.as_integer_ratio()
    return Fraction(n, d) if UNIT % d else Fraction(n * (UNIT // d), UNIT)


def numbers(values: Any, what: str, *shape: int) -> Any:
    """Nested lists of the given shape, as fractions."""
    if not shape:
        return number(values, what)
    if not isinstance(values, list) or len(values) != shape[0]:
        raise Fault(f"{what}: a list of {shape[0]} is missing")
    if len(shape) == 1 and (found := of_floats(values)) is not None:
        return found
    if len(shape) == 2 and shape[1] and all(isinstance(row, list) and len(row) == shape[1] for row in values):
        found = of_floats([*chain.from_iterable(values)])
        if found is not None:
            return [found[k : k + shape[1]] for k in range(0, len(found), shape[1])]
    return [numbers(v, f"{what}[{k}]", *shape[1:]) for k, v in enumerate(values)]


def of_floats(values: list[Any]) -> list[Fraction] | None:
    """Finite floats as fractions, in a third of the time of `number`; None if some value is another."""
    if not {float}.issuperset(map(type, values)) or not all(map(math.isfinite, values)):
        return None
    if values and values.count(values[0]) == len(values):  # such as weights: one fraction
        return [number(values[0], "")] * len(values)
    unit = float(UNIT)
    scaled = [value * unit for value in values]  # exact, as denominators are powers of 2, or infinite
    return [Fraction(int(n), UNIT) if n.is_integer() else Fraction(value) for n, value in zip(scaled, values)]


FLOAT32 = 3.4e38  # the largest


def in_decimals(value: float) -> Fraction:
    """A float as the shortest decimal that prints it: 0.1 is 1/10."""
    n, d = Decimal(repr(value)).as_integer_ratio()
    return Fraction(n, d)


def in_fractions(values: Any, given: Mapping[str, str]) -> Any:
    """Nested lists and dicts with floats as fractions: those that are ``given``, by repr, else by `in_decimals`."""
    if isinstance(values, list):
        return [in_fractions(value, given) for value in values]
    if isinstance(values, dict):
        return {key: in_fractions(value, given) for key, value in values.items()}
    if not isinstance(values, float) or not math.isfinite(values):
        return values
    return fraction(given[repr(values)]) if repr(values) in given else in_decimals(values)


MOST_DIGITS = 100_000  # of a numerator or a denominator: reading takes 0.4 s, and 35 s of a million


def fraction(text: Any) -> Fraction:
    """A fraction written as ``5/11``."""
    n, slash, d = text.partition("/") if isinstance(text, str) else ("", "", "")
    digits = n.removeprefix("-")
    if len(digits) > MOST_DIGITS or len(d) > MOST_DIGITS:
        raise Fault(f"{short(repr(text[:100]))} has more than {MOST_DIGITS:,} digits, which takes too long to check")
    if (
        not (digits + d).isascii()
        or not digits.isdecimal()
        or bool(slash) != d.isdecimal()
        or (slash and not d.strip("0"))
    ):
        raise Fault(f"{short(repr(text))} is not a fraction such as '5/11'")
    return Fraction(-_whole(digits) if n != digits else _whole(digits), _whole(d or "1"))


def position(value: Any) -> int:
    """A position in a list, from 0: no truth value, and not from the end."""
    if type(value) is not int or value < 0:
        raise Fault(f"{short(repr(value))} is no position")
    return value


def _whole(digits: str) -> int:
    """An integer of any number of digits; Python's own reading has a limit."""
    return int(Decimal(digits))


def written(value: Any) -> str:
    """A fraction as text such as ``5/11``, of any number of digits."""
    n, d = value.as_integer_ratio()
    return f"{Decimal(n)}" + (f"/{Decimal(d)}" if d != 1 else "")


LOG_2 = Fraction(6931, 10**4)  # rounded down


def rational(low: Fraction, high: Fraction, what: str) -> Fraction:
    """A number that is known exactly; `CannotCheck` for others, which are enclosed only."""
    if low != high:
        raise CannotCheck(f"{what} is not rational")
    return low


def in_common(values: Iterable[Fraction]) -> list[Fraction]:
    """Fractions with one denominator, so that sums of their products stay fast."""
    reduced = [value.as_integer_ratio() for value in values]
    d = math.lcm(1, *(q for _, q in reduced))
    return [Fraction(n * (d // q), d) for n, q in reduced]


def exact_text(value: Fraction) -> str:
    """A fraction as ``5/11``, or its float if it is long."""
    n, d = value.as_integer_ratio()
    return str(n) if d == 1 else f"{n}/{d}" if d < 10**12 else f"{float(value):.12g}"


def rounds_to(value: Fraction, rounded: float) -> bool:
    """Whether a float of 64 or 32 bits is a fraction's nearest."""
    near = float(value)
    return near == rounded or (abs(near) < FLOAT32 and struct.unpack("f", struct.pack("f", near))[0] == rounded)


def exp(x: Fraction) -> Fraction:
    """The exponential; arguments are clipped beyond the range of floats."""
    return Fraction(DOWN.exp(_decimals(max(min(x, Fraction(800)), Fraction(-800)))[0]))


def approximate_log(x: Fraction) -> float:
    """The logarithm of a positive number to float precision; the number may be outside the range of floats."""
    near = float(x)
    return math.log(near) if 1e-300 < near < 1e300 else math.log(x.n) - math.log(x.d)


def at_least(gap: Fraction) -> float:
    """The smallest float that is at least a gap."""
    return next(f for f in (float(gap), math.nextafter(float(gap), math.inf)) if math.isinf(f) or Fraction(f) >= gap)
