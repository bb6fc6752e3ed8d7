"""Policies and instances in fractions, and the proof of exact answers: what `fairopt.exact` computes with.

The policy is parsed from its text, and the instance's numbers become fractions. Shares, bounds and rows follow from
these. An exact answer is proved without tolerances, by weak duality at multipliers in fractions (`prove_exactly`): at
prices p of capacities and multipliers y of rows ``A x <= b``, the objective f of feasible tasks x is at most
``p'C + y'b + max f(x) - (p'D + y'A) x``.

The checker of saved files (`fairopt.checker`) shares no code with this module.

Numbers are fractions. Logarithms, powers and norms are enclosed between two fractions, since `decimal` rounds ``ln``
and ``exp`` correctly.
"""

from __future__ import annotations

import ast
import json
import math
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple


class Fraction:
    """A fraction n / d with d > 0, reduced only where sums would grow: five times as fast as `fractions.Fraction`."""

    __slots__ = ("d", "n")

    def __init__(self, n: Any = 0, d: int = 1) -> None:
        self.n: int
        self.d: int
        self.n, self.d = (n, d) if type(n) is int else n.as_integer_ratio()

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
        d, e = self.d, other.d
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
        sign = 1 if other.n > 0 else -1
        return Fraction(self.n * other.d * sign, self.d * other.n * sign)

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
BITS = 200
PAIRS, FLOAT_PAIRS = 160_000, 20_000_000  # pairs of users compared for envy in fractions and in floats: some seconds
COST_TIE = Fraction(1, 10**12)  # relative: costs so near may be equal, since a solver's prices are rounded
LEVEL_PAIRS = 1_000_000  # levels times pairs of users and servers: 15 seconds
SPREAD = 10**100  # largest ratio of weights of an instance
HUGE, LEAST_FLOAT = Fraction(10**300), Fraction(1, 1 << 1022)  # where floats are about to overflow and underflow
UNIT = 1 << 80  # the common denominator of most numbers in files
ZERO, ONE = Fraction(0), Fraction(1)

Table = list[list[Fraction]]  # by user and server
Place = tuple[int, int]  # a server and a resource
Pair = tuple[int, int]  # a user and a server
Row = tuple[dict[Pair, Fraction], Fraction, bool]  # coefficients by user and server, bound, is equality
Rows = list[Row]


class CannotCheck(Exception):
    """The file needs a proof that this module does not know."""


class Fault(Exception):
    """The file is wrong."""


class Late(Exception):
    """The time limit has passed."""


class Clock:
    """The time limit of a call, checked between steps; ``done`` lists what is proved so far."""

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is not None and not (isinstance(seconds, (int, float)) and seconds > 0):
            raise ValueError(f"time_limit is {seconds!r}, and must be seconds > 0, or None")
        self.end, self.done = math.inf if seconds is None else time.perf_counter() + seconds, list[str]()

    def check(self) -> None:
        """Raise `Late` after the time limit."""
        if time.perf_counter() > self.end:
            raise Late


# -- numbers ------------------------------------------------------------------------------------------------------

DOWN, UP = (Context(prec=50, rounding=r, Emax=MAX_EMAX, Emin=MIN_EMIN) for r in (ROUND_FLOOR, ROUND_CEILING))
SMALLEST, LARGEST = Decimal("1e-400"), Decimal("1e4000")
LEAST, MOST, FAR_FROM_0, NEAR_0 = map(Decimal, ("1e-300", "1e300", "0.01", "1e-10"))  # of `_log`
HALF, LOG_ERROR = Decimal("0.5"), Decimal("1e-48")


class Between(NamedTuple):
    """A closed interval that contains a number."""

    low: Fraction
    high: Fraction

    def times(self, other: Fraction) -> Between:
        """The interval times a number."""
        return Between(*sorted((self.low * other, self.high * other)))

    def plus(self, other: Fraction) -> Between:
        """The interval plus a number."""
        return Between(self.low + other, self.high + other)


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


def up(x: Fraction) -> Fraction:
    """x rounded up to a numerator of about `BITS` bits."""
    x = x if type(x) is Fraction else Fraction(x)
    if x.d.bit_length() <= 2 * BITS:
        return x
    scale = 1 << max(BITS - x.n.bit_length() + x.d.bit_length(), 0)
    return Fraction(-((-x.n * scale) // x.d), scale)


def down(x: Fraction) -> Fraction:
    """x rounded down to a numerator of about `BITS` bits."""
    return -up(-x)


def dyadic(x: Fraction) -> Fraction:
    """x rounded up to a power-of-2 denominator, so that long sums keep a common denominator."""
    scale = 1 << BITS + max(x.d.bit_length() - x.n.bit_length(), 0)
    return Fraction(-((-x.n * scale) // x.d), scale)


def outward(low: Decimal, high: Decimal) -> Between:
    """Two decimals as fractions, moved outwards where they are tiny."""
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

    ``ln(1 + r)`` is within ``r^4`` of ``r - r^2 / 2 + r^3 / 3`` for |r| <= 1/2: six times as fast as `Decimal.ln`.
    """
    low, high = _decimals(x)
    y = Decimal(math.log(low)) if low > LEAST and high < MOST else Decimal(0)
    if y.copy_abs() > FAR_FROM_0:
        inverse = DOWN.exp(y.copy_negate())  # an operator would round to fewer digits
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
    if p == 0 or x == 1:
        return Between(ONE, ONE)
    n, d = p.as_integer_ratio()
    if d == 1 and abs(n) <= 4:
        exact = math.prod([x if n > 0 else 1 / x] * abs(n), start=ONE)
        return Between(down(exact), up(exact))
    ends = [(a, b) for a in _decimals(p) for b in _log(x)]
    low, high = min(DOWN.multiply(a, b) for a, b in ends), max(UP.multiply(a, b) for a, b in ends)
    return outward(max(DOWN.next_minus(DOWN.exp(low)), Decimal(0)), UP.next_plus(UP.exp(high)))


def boxcox(z: Fraction, alpha: Fraction) -> Between:
    """``(z^(1-alpha) - 1) / (1-alpha)``, the logarithm at alpha = 1."""
    if alpha == 1:
        return log(z)
    return power(z, 1 - alpha).plus(Fraction(-1)).times(1 / (1 - alpha))


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
    if len(shape) == 1 and {float}.issuperset(map(type, values)) and all(map(math.isfinite, values)):
        return [number(v, what) for v in values]
    return [numbers(v, f"{what}[{k}]", *shape[1:]) for k, v in enumerate(values)]


DIGITS = 4_000  # of integers that Python reads and writes by default
FLOAT32 = 3.4e38  # the largest
NUMBERS = ("demands", "capacities", "weights", "task_limits", "guarantees", "rates")  # of an instance


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


def fraction(text: Any) -> Fraction:
    """A fraction written as ``5/11``."""
    n, slash, d = text.partition("/") if isinstance(text, str) else ("", "", "")
    digits = n.removeprefix("-")
    if (
        not (digits + d).isascii()
        or not digits.isdecimal()
        or bool(slash) != d.isdecimal()
        or (slash and not d.strip("0"))
    ):
        raise Fault(f"{short(repr(text))} is not a fraction such as '5/11'")
    return Fraction(-_whole(digits) if n != digits else _whole(digits), _whole(d or "1"))


def _whole(digits: str) -> int:
    """An integer of any number of digits; Python's own reading has a limit."""
    if len(digits) <= DIGITS:
        return int(digits)
    half = len(digits) // 2
    return _whole(digits[:-half]) * 10**half + _whole(digits[-half:])


def written(value: Any) -> str:
    """A fraction as text such as ``5/11``, of any number of digits."""
    n, d = value.as_integer_ratio()
    return "-" * (n < 0) + _digits(abs(n)) + (f"/{_digits(d)}" if d != 1 else "")


def _digits(n: int) -> str:
    if n.bit_length() <= 3 * DIGITS:
        return str(n)
    half = n.bit_length() * 3 // 20
    high, low = divmod(n, 10**half)
    return _digits(high) + _digits(low).zfill(half)


# -- the policy, from its text --------------------------------------------------------------------------------------

PARAMETERS: dict[str, tuple[str, ...]] = {
    "Policy": ("objective", "constraints", "name"),
    "Total": ("share",),
    "MaxMin": ("share",),
    "Leximin": ("share",),
    "AlphaFair": ("alpha", "share"),
    "OrderedWeighted": ("weights", "share"),
    "FairnessEfficiency": ("beta", "lam", "share"),
    "Tasks": (),
    "DominantShare": (),
    "StandAloneShare": (),
    "ThroughputShare": (),
    "PNormShare": ("p",),
    "ResourceShare": ("resource",),
    "KDominantShare": ("k", "rank_weights", "short"),
    "OfTeam": ("share", "by", "weights"),
    "Surplus": ("share", "base"),
    "MinTasks": ("tasks",),
    "MaxTasks": ("tasks",),
    "MinShare": ("level", "share"),
    "MaxShare": ("level", "share"),
    "SharingIncentive": (),
    "EnvyFree": (),
    "EqualShares": ("share",),
    "Reserve": ("resource", "fraction"),
    "WeightedLog": ("base",),
    "FairShareBase": ("growth",),
    "GlobalAggregateResource": ("units", "over"),
    "AtMostRequested": (),
    "HDRF": ("by", "weights"),
}
SHARES = (
    "Tasks",
    "DominantShare",
    "StandAloneShare",
    "ThroughputShare",
    "PNormShare",
    "ResourceShare",
    "KDominantShare",
)
COMPOSED = ("OfTeam", "Surplus")  # shares of several users, or above a base
OBJECTIVES = ("Total", "MaxMin", "Leximin", "AlphaFair", "OrderedWeighted", "FairnessEfficiency", "WeightedLog")


@dataclass(frozen=True)
class Block:
    """A parsed block; ``Sum``, ``Tiers`` and ``AtLeast`` stand for ``+``, ``then`` and ``>=``."""

    name: str
    given: Mapping[str, Any]
    text: str

    @property
    def share(self) -> Block:
        """The block's share; by default the dominant share."""
        return self.given.get("share") or Block("DominantShare", {}, "DominantShare()")

    @property
    def of_user(self) -> Block:
        """The share of a user: itself, or what `OfTeam` or `Surplus` is of."""
        return self.share.of_user if self.name in COMPOSED else self

    @property
    def terms(self) -> list[tuple[Fraction, Block]]:
        """The objective as factors and terms."""
        return self.given["terms"] if self.name == "Sum" else [(ONE, self)]


class _Decimals(ast.NodeTransformer):
    """Replaces floats in a parsed text by the shortest decimals that print them."""


def block(text: str, exactly: bool = False) -> Block:
    """Parse a policy or block; nothing is executed. If ``exactly``, floats are read by `in_decimals`."""
    try:
        tree = ast.parse(text, mode="eval")
        return _block((_Decimals().visit(tree) if exactly else tree).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CannotCheck(f"the policy is not one of fairopt's blocks ({error})") from error


def _block(node: ast.AST) -> Any:
    text = ast.unparse(node)
    match node:
        case ast.Constant(value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_block(operand)
        case ast.Tuple() | ast.List():
            return [_block(part) for part in node.elts]
        case ast.Dict():
            return {_block(k): _block(v) for k, v in zip(node.keys, node.values, strict=True)}  # type: ignore[arg-type]
        case ast.Call(func=ast.Name("float"), args=[ast.Constant(value)], keywords=[]):
            return float(value)  # type: ignore[arg-type]
        case ast.Call(
            func=ast.Name("Fraction"), args=[ast.Constant(int() as n), ast.Constant(int() as d)], keywords=[]
        ):
            if d <= 0:
                raise ValueError(f"{text} is not a fraction")
            return Fraction(n, d)
        case ast.BinOp(op=ast.Add()):
            return Block("Sum", {"terms": _block(node.left).terms + _block(node.right).terms}, text)
        case ast.BinOp(op=ast.Mult()):
            factor = number(_block(node.left), "a factor", 0)
            return Block("Sum", {"terms": [(factor * c, term) for c, term in _block(node.right).terms]}, text)
        case ast.Compare(ops=[ast.GtE()]):
            return Block("AtLeast", {"objective": _block(node.left), "level": _block(node.comparators[0])}, text)
        case ast.Call(func=ast.Attribute(value=before, attr="then"), args=[after]):
            first, second = _block(before), _block(after)
            tiers = first.given["tiers"] if first.name == "Tiers" else [first]
            return Block("Tiers", {"tiers": [*tiers, second]}, text)
        case ast.Call(func=ast.Name(name)):
            if name not in PARAMETERS:  # user-defined
                return Block(name, {}, text)
            given = dict(zip(PARAMETERS[name], map(_block, node.args), strict=False))
            words = [word.arg for word in node.keywords]
            once = len({*given, *words}) == len(node.args) + len(words)
            if not once or {*words} - {*PARAMETERS[name]}:
                raise CannotCheck(f"{text} has parameters that {name} does not take")
            return Block(name, given | {str(word.arg): _block(word.value) for word in node.keywords}, text)
    raise CannotCheck(f"{text} is not a block of fairopt")


# -- the instance -----------------------------------------------------------------------------------------------------


class Cluster:
    """The instance of a file, with its numbers as fractions.

    ``active`` are the users who take part, and ``open`` the servers of each user. ``room`` (n_servers, n_resources) are
    the capacities of whole server rows, ``usable`` the usable part of each resource. ``tasks`` are those of the file;
    ``low`` and ``high`` bound each user's total tasks (None: no limit).
    """

    def __init__(self, data: Mapping[str, Any], clock: Clock | None = None) -> None:
        instance, self.clock, self.tie = data["instance"], clock or Clock(), TIE
        self.users, self.resources = list(instance["users"]), list(instance["resources"])
        self.n, self.m, self.servers = len(self.users), len(self.resources), len(instance["servers"])
        n, m, servers = self.n, self.m, self.servers
        self.by_server = n > 0 and isinstance(instance["demands"][0][0], list)
        shape = (n, servers, m) if self.by_server else (n, m)
        given = numbers(instance["demands"], "demands", *shape)
        self.demands = given if self.by_server else [[row] * servers for row in given]
        self.capacities = numbers(instance["capacities"], "capacities", servers, m)
        self.counts = [math.ceil(number(q, "counts", 1)) for q in instance["counts"]]
        self.room = [[c * q for c in row] for row, q in zip(self.capacities, self.counts, strict=True)]
        self.teams = {str(by): list(labels) for by, labels in (instance.get("teams") or {}).items()}
        if any(len(labels) != n for labels in self.teams.values()):
            raise Fault("teams has not one label per user")
        self.own_weights, self.team_weights = self._with_teams(instance["weights"], "weights")
        self.guarantees, self.team_guarantees = self._with_teams(instance.get("guarantees") or [0] * n, "guarantees")
        self.weights = self._divided()
        self.limits = [None if t is None else number(t, "task_limits", 0) for t in instance["task_limits"]]
        rates = instance.get("rates")
        self.rates: Table | None = None if rates is None else numbers(rates, "rates", n, servers)
        self.tasks: Table = numbers(data["tasks_by_server"], "tasks_by_server", n, servers)
        self.tangents_at = self.tasks  # where tangents are taken
        rows = [row for of_user in given for row in of_user] if self.by_server else given
        needs = [d for row in rows for d in row]
        has = [c for row in self.capacities for c in row]
        speeds = [r for row in self.rates or () for r in row]
        for what, values in {"demands": needs, "weights": self.weights, "capacities": has, "rates": speeds}.items():
            if any(v < 0 for v in values):
                raise Fault(f"{what} hold a negative number")
        if len(self.limits) != n or any(w == 0 for w in self.weights) or self.counts != instance["counts"]:
            raise Fault("task_limits are missing, a weight is 0, or a count is not a whole number")
        if (n > 0 and max(self.weights) > SPREAD * min(self.weights)) or max(self.counts, default=1) > 1 << 53:
            raise Fault("a count exceeds 2^53, or weights differ by more than a factor of 1e100; no instance has these")
        if len({*map(str, self.users)}) < n or len({*self.resources}) < m or len({*instance["servers"]}) < servers:
            raise Fault("two users, two resources or two servers have the same label")
        allowed = [[True] * servers] * n if instance["eligible"] is None else instance["eligible"]
        if [len(row) for row in allowed] != [servers] * n or any(v not in (0, 1) for row in allowed for v in row):
            raise Fault("eligible is not true or false for each user on each server")
        lacks = [[i for i, c in enumerate(row) if not c] for row in self.capacities]
        self.open = [
            [s for s in range(servers) if allowed[j][s] and not any(self.demands[j][s][i] for i in lacks[s])]
            for j in range(n)
        ]
        for j, user in enumerate(self.users):
            self.clock.check()
            if not self.open[j] or not all(any(self.demands[j][s]) for s in self.open[j]):
                raise Fault(f"user {user!r} may run nowhere, or has no demands where it may")
        self.active = [j for j in range(n) if self.limits[j] != 0]
        least = zip(self.guarantees, self.limits, strict=True)
        self.low: list[Fraction] = [g if t is None else min(g, t) for g, t in least]
        self.high = list(self.limits)
        self.usable = [ONE] * m
        self.capacity = [sum(row[i] for row in self.room) for i in range(m)]
        self.given = data.get("given") or {}
        if any(text.partition("(")[0] in PARAMETERS for text in self.given):
            raise Fault("coefficients are given for a share of fairopt, which are computed instead")
        self._most_tasks: dict[int, Fraction] = {}  # cleared where a constraint is imposed
        self._coefficients: dict[str, tuple[Table, Table]] = {}
        self.given_earlier = False  # whether leximin levels are proved only given the earlier ones
        # objectives with lower levels, in the units of `Goal`, and the size to which each tolerance is relative
        self.kept_levels: list[tuple[Block, Fraction, Fraction]] = []
        self.floor_proofs = dict(data.get("floors") or {})
        self.floors: dict[str, dict[int, Fraction]] = {}  # of teams, by resource
        self.worths: dict[tuple[str, str], Between] = {}  # of floors, by team and share
        self.stays: dict[str, set[str]] = {}  # users and teams that cannot rise above the base of a surplus, by share
        self.binding = None if data.get("binding") is None else [self.pair(pair) for pair in data["binding"]]
        if self.binding is None and "proof" in data and not has_row_multipliers(data["proof"]):
            self.binding = []
        self.imposed, self.envied = set[str](), dict[tuple[int, int], Row]()  # constraints by name; rows of `EnvyFree`

    @property
    def members(self) -> dict[str, list[int]]:
        """The users of each team."""
        out: dict[str, list[int]] = {}
        for labels in self.teams.values():
            for j, name in enumerate(labels):
                if name is not None:
                    out.setdefault(str(name), []).append(j)
        return out

    def _with_teams(self, given: Any, what: str) -> tuple[list[Fraction], dict[str, Any]]:
        """Numbers by user, and what is given by team."""
        if not isinstance(given, dict):
            return numbers(given, what, self.n), {}
        by_team = {name: value for name, value in given.items() if name not in {*self.users}}
        if by_team.keys() - self.members.keys() or len(given) - len(by_team) != self.n:
            raise Fault(f"{what} name unknown users or teams, or not all users")
        return numbers([given[user] for user in self.users], what, self.n), by_team

    def _divided(self) -> list[Fraction]:
        """The weights of users, with those of teams divided in proportion to them, outer teams last."""
        out, members = list(self.own_weights), self.members
        for name in sorted(self.team_weights, key=lambda team: len(members[team])):
            weight = number(self.team_weights[name], "weights", 0)
            total = exact_sum(out[j] for j in members[name])
            for j in members[name]:
                out[j] = out[j] * weight / total
        return out

    def pair(self, named: Any) -> tuple[int, int]:
        """Two different users, by index."""
        j, k = named if isinstance(named, list) and len(named) == 2 else (-1, -1)
        if type(j) is not int or type(k) is not int or not (0 <= j < self.n and 0 <= k < self.n and j != k):
            raise Fault(f"binding: {named!r} is not a pair of users")
        return j, k

    @contextmanager
    def at(self, tasks: Table) -> Iterator[None]:
        """Evaluate at other tasks inside the context."""
        stored, self.tasks = self.tasks, tasks
        try:
            yield
        finally:
            self.tasks = stored

    def total(self, j: int) -> Fraction:
        """A user's tasks on all servers."""
        return exact_sum(self.tasks[j])

    def tasks_alone(self, j: int, s: int, usable: Sequence[Fraction] | None = None) -> Fraction | None:
        """Tasks that a user could run alone on a server row; None if it needs nothing there."""
        part = usable or [ONE] * self.m
        needs = [part[i] * self.room[s][i] / d for i, d in enumerate(self.demands[j][s]) if d > 0]
        return min(needs, default=None)

    def most_tasks(self, j: int) -> Fraction:
        """An upper bound on a user's total tasks."""
        if j not in self._most_tasks:
            self._most_tasks[j] = self._largest(j)
        return self._most_tasks[j]

    def _largest(self, j: int) -> Fraction:
        alone = [self.tasks_alone(j, s, self.usable) for s in self.open[j]]
        bounds = [self.high[j]] if any(a is None for a in alone) else [self.high[j], exact_sum(filter(None, alone))]
        most = min((b for b in bounds if b is not None), default=None)
        if most is None:
            raise Fault(f"user {self.users[j]!r} has no demands and no task limit")
        return up(most)

    def of_user(self, value: Any, what: str, most: bool) -> list[Fraction | None]:
        """A bound by user, given as a number, a list or a dict by label; None for an infinite upper bound or a missing
        label.
        """
        if not isinstance(value, dict):
            values = value if isinstance(value, list) else [value] * self.n
            value = dict(zip(self.users, values, strict=True))
        if value.keys() - {*self.users}:
            raise Fault(f"{what} names an unknown user")
        found = {user: None if most and v == math.inf else number(v, what, 0) for user, v in value.items()}
        return [found.get(user) for user in self.users]

    def resource(self, name: Any) -> int:
        """The index of a resource, given by label, by a label without the vendor's prefix, or by index."""
        if name in self.resources:
            return self.resources.index(name)
        found = [i for i, label in enumerate(self.resources) if label.rpartition("/")[2] == name]
        if len(found) == 1:
            return found[0]
        if type(name) is int and -self.m <= name < self.m:
            return name
        raise Fault(f"the policy names an unknown resource {name!r}")

    # -- shares

    def coefficients(self, share: Block) -> tuple[Table, Table]:
        """The share of one task by user and server, from below and from above; they differ for norms only."""
        if share.text not in self._coefficients:
            self._coefficients[share.text] = self._computed(share)
        return self._coefficients[share.text]

    def _computed(self, share: Block) -> tuple[Table, Table]:
        if share.text in self.given:
            c = self.given[share.text]
            wide = bool(c) and isinstance(c[0], list)
            c = numbers(c, share.text, self.n, self.servers) if wide else numbers(c, share.text, self.n)
            exact: Table = c if wide else [[v] * self.servers for v in c]
            if any(v < 0 for row in exact for v in row):
                raise Fault(f"{share.text} holds a negative number")
            return exact, exact
        if share.name not in PARAMETERS:
            raise CannotCheck(f"the coefficients of {share.text} are not in the file")
        if share.name in COMPOSED:
            raise CannotCheck(f"{share.text} is checked in Leximin and in sums of objectives only")
        rows = range(self.servers if self.by_server or share.name == "ThroughputShare" else 1)
        found = [[self._one(share, j, s) for s in rows] * (self.servers // len(rows)) for j in range(self.n)]
        below, above = ([[c[k] if isinstance(c, Between) else c for c in row] for row in found] for k in (0, 1))
        return below, above

    def _one(self, share: Block, j: int, s: int) -> Fraction | Between:
        """The share of one task of a user on a server."""
        if share.name == "Tasks" or (share.name == "PNormShare" and share.given["p"] == 0):
            return ONE
        if share.name == "StandAloneShare":
            return 1 / exact_sum(self.tasks_alone(j, t) or ZERO for t in range(self.servers))
        if share.name == "ThroughputShare":
            return self._throughput(j, s)
        ratios = [d / c if c else ZERO for d, c in zip(self.demands[j][s], self.capacity, strict=True)]
        if share.name == "ResourceShare":
            return ratios[self.resource(share.given["resource"])]
        if share.name == "DominantShare" or share.given.get("p") == math.inf:
            return max(ratios)
        ratios.sort(reverse=True)
        if share.name == "PNormShare":
            p = number(share.given["p"], "p", 0)
            parts = [power(r / ratios[0], p) for r in ratios if r > 0]
            low, high = (power(exact_sum(q[k] for q in parts), 1 / p)[k] for k in (0, 1))
            return Between(low, high).times(ratios[0])
        k, rank_weights = share.given["k"], share.given.get("rank_weights")
        short = share.given.get("short", "refuse")
        if type(k) is not int or not 1 <= k <= self.m or short not in ("refuse", "positive"):
            raise Fault(f"{share.text} is not defined for {self.m} resources")
        if short == "positive":
            ratios = [r if r > 0 else ONE for r in ratios]
        if isinstance(rank_weights, dict):
            if rank_weights.keys() - {*self.users}:
                raise Fault(f"{share.text} names an unknown user")
            rank_weights = rank_weights.get(self.users[j])
        elif isinstance(rank_weights, list) and isinstance(rank_weights[0], list):
            rank_weights = rank_weights[j] if len(rank_weights) == self.n else []
        ranks = [number(w, "a rank weight") for w in as_list([1] * k if rank_weights is None else rank_weights)]
        if len(ranks) < k or min(ranks) <= 0:
            raise Fault(f"{share.text} needs a positive weight for each rank")
        return math.prod(ratios[:k] + ranks[:k], start=ONE)

    def _throughput(self, j: int, s: int) -> Fraction:
        """The rate of a user on a server over its throughput on an equal part of all servers, cut at its limit."""
        rates = [ONE] * self.servers if self.rates is None else self.rates[j]
        alone = {t: self.tasks_alone(j, t) or ZERO for t in self.open[j]}
        limit, hours = self.limits[j], exact_sum(alone.values())
        cut = min(ONE, limit * exact_sum(self.weights) / (self.weights[j] * hours)) if limit else ONE
        return self.n * rates[s] / (cut * exact_sum(rates[t] * tasks for t, tasks in alone.items()))

    def same_on_servers(self, share: Block) -> bool:
        """Whether each user's share of a task is the same on all of its servers."""
        c, _ = self.coefficients(share)
        return all(len({c[j][s] for s in self.open[j]}) == 1 for j in self.active)

    def shares(self, c: Table) -> dict[int, Fraction]:
        """Shares of the active users at the current tasks."""
        return {j: exact_sum(c[j][s] * self.tasks[j][s] for s in self.open[j]) for j in self.active}

    def level_per_task(self, c: Table) -> dict[int, dict[int, Fraction]]:
        """The share per weight of one task by user and server, where it is positive."""
        return {j: {s: c[j][s] / self.weights[j] for s in self.open[j] if c[j][s] > 0} for j in self.active}

    # -- constraints

    def impose(self, condition: Block) -> Rows:
        """Apply a constraint: bounds and reserves update `low`, `high` and `usable`; others return rows."""
        name, given = condition.name, condition.given
        self.imposed.add(name)
        if name in ("MinTasks", "MaxTasks"):
            bounds = self.of_user(given["tasks"], condition.text, name == "MaxTasks")
            for j in self.active:
                self._bound_tasks(j, bounds[j], name == "MaxTasks")
        elif name == "SharingIncentive":
            whole = sum(self.weights)
            for j in self.active:
                entitled = self.weights[j] / whole * exact_sum(self.tasks_alone(j, s) or ZERO for s in self.open[j])
                limit = self.limits[j]
                self._bound_tasks(j, entitled if limit is None else min(entitled, limit), False)
        elif name == "Reserve":
            i, part = self.resource(given["resource"]), number(given["fraction"], condition.text, 0)
            self._most_tasks.clear()
            self.usable[i] = min(self.usable[i], number(1 - part, f"what {condition.text} leaves", 0))
        elif name in ("MinShare", "MaxShare"):
            return self._share_bounds(condition)
        elif name == "EqualShares":
            c, _ = self.coefficients(condition.share)
            per = {j: {(j, s): c[j][s] / self.weights[j] for s in self.open[j]} for j in self.active}
            pairs = zip(self.active, self.active[1:], strict=False)
            return [(per[b] | {pair: -v for pair, v in per[a].items()}, ZERO, True) for a, b in pairs]
        elif name == "EnvyFree":
            named = self.binding
            if named is None:
                self._check_pairs(len(self.active) ** 2, PAIRS)
                named = [(j, k) for j in self.active for k in self.active if j != k]
            found = {pair: row for pair in named if (row := self.envied.get(pair) or self.envy(*pair)) is not None}
            self.envied |= found
            return list(found.values())
        elif name == "AtLeast":
            return self._level(condition)
        else:
            raise CannotCheck(f"the constraint {condition.text} is user-defined, and its code is not in the file")
        return []

    def _bound_tasks(self, j: int, bound: Fraction | None, from_above: bool) -> None:
        self._most_tasks.pop(j, None)
        if bound is None:
            return
        if not from_above:
            self.low[j] = max(self.low[j], bound)
        elif self.high[j] is None or bound < self.high[j]:
            self.high[j] = bound

    def _share_bounds(self, condition: Block) -> Rows:
        """Bounds on shares: bounds on tasks if a task's share is the same on all servers, else rows.

        A bound that names a team is a row of the sum of its members' shares, after those of users.
        """
        level, name = condition.given["level"], condition.name
        if "OfTeam" not in (condition.share.name, condition.share.share.name) and isinstance(level, dict):
            of_teams = {t: v for t, v in level.items() if t not in {*self.users}}
            if of_teams:
                of_users = {**condition.given, "level": {t: v for t, v in level.items() if t not in of_teams}}
                sums = Numbers(self, condition.share).of_teams(of_teams, name == "MaxShare", condition.text)
                return self._share_bounds(Block(name, of_users, condition.text)) + sums
        if condition.share.name in COMPOSED:
            return Numbers(self, condition.share).bounded(level, name == "MaxShare", condition.text)
        most, rows, alike = name == "MaxShare", Rows(), self.same_on_servers(condition.share)
        levels = self.of_user(condition.given["level"], condition.text, most)
        c, sign = self.coefficients(condition.share)[0 if most else 1], 1 if most else -1
        for j in self.active:
            level, one = levels[j], c[j][self.open[j][0]]
            if level is None or (level == 0 and not most):
                continue
            if alike and one > 0:
                self._bound_tasks(j, level / one, most)
            elif alike and not most:
                raise Fault(f"{condition.text}: tasks of user {self.users[j]!r} have no such share")
            elif not alike and level == 0 and all(c[j][s] > 0 for s in self.open[j]):
                self._bound_tasks(j, ZERO, True)
            elif not alike:
                row = {(j, s): sign * c[j][s] / (level or 1) for s in self.open[j]}
                rows.append((row, Fraction(sign if level else 0), False))
        return rows

    def _level(self, condition: Block) -> Rows:
        """A lower level of an objective: a row if it is a sum of shares, bounds if it is the smallest share, else
        `kept_levels`.
        """
        objective, level = condition.given["objective"], number(condition.given["level"], "a level")
        factor, smallest = as_max_min(objective)
        if smallest.name == "MaxMin" and smallest.share.name in COMPOSED:
            compared = Numbers(self, smallest.share, levelled=True)
            each = {t: max(level / factor, ZERO) * w for t, w in compared.weights.items()}
            return compared.bounded(each, False, condition.text)
        if smallest.name == "MaxMin" and self.same_on_servers(smallest.share):
            of_users = [max(level / factor, ZERO) * w for w in self.weights]
            return self._share_bounds(Block("MinShare", {"level": of_users, "share": smallest.share}, condition.text))
        if not is_linear(objective):
            if any(term.name == "FairnessEfficiency" for _, term in objective.terms):
                raise CannotCheck(f"{condition.text} bounds an objective that is not an alpha-fair sum")
            self.kept_levels.append((objective, in_goal_units(self, objective, level), abs(level) or ONE))
            return []
        goal = Goal(self)
        goal.add(objective, ONE)
        row = {(j, s): -goal.slopes[j][s] for j in self.active for s in self.open[j]}
        return [(row, goal.constant.high - level, False)]

    def envy(self, j: int, k: int) -> Row | None:
        """The row ``(w_j / w_k) sum_s x_ks min_i d_ksi / d_jsi - x_j <= 0``; None if j can never envy k."""
        theirs = {}
        for s in {*self.open[k]} & {*self.open[j]} if self.limits[j] != 0 != self.limits[k] else ():
            mine, other = self.demands[j][s], self.demands[k][s]
            runs = min((b / a for a, b in zip(mine, other, strict=True) if a > 0), default=ZERO)
            if runs > 0:
                theirs[k, s] = runs * self.weights[j] / self.weights[k]
        return (theirs | {(j, s): Fraction(-1) for s in self.open[j]}, ZERO, False) if theirs else None

    def _check_pairs(self, pairs: int, most: int) -> None:
        if pairs > most:
            raise CannotCheck(
                f"checking envy among {len(self.active):,} users takes {pairs:,} comparisons; the limit is {most:,}"
            )

    def usable_units(self) -> dict[Place, Fraction]:
        """The usable units of each resource on each server row."""
        return {
            (s, i): r * part
            for s, row in enumerate(self.room)
            for i, (r, part) in enumerate(zip(row, self.usable, strict=True))
        }

    def load(self, s: int, i: int) -> Fraction:
        """The units of a resource that the tasks use on a server row."""
        return exact_sum(self.demands[j][s][i] * self.tasks[j][s] for j in range(self.n))


def has_row_multipliers(evidence: Any) -> bool:
    """Whether evidence has multipliers of rows."""
    if isinstance(evidence, dict):
        return bool(evidence.get("rows")) or any(map(has_row_multipliers, evidence.values()))
    return isinstance(evidence, list) and any(map(has_row_multipliers, evidence))


def row_excess(cluster: Cluster, row: Row) -> tuple[Fraction, Fraction]:
    """By how much the tasks violate a row, and the row's size."""
    of_pairs, bound, equal = row
    terms = [v * cluster.tasks[j][s] for (j, s), v in of_pairs.items()]
    excess, most = sum(terms, -bound), exact_sum(t for t in terms if t > 0)
    return max(excess, -excess if equal else ZERO, ZERO), max(abs(bound), most, most - sum(terms))


# -- which instance ---------------------------------------------------------------------------------------------------


def entries(instance: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The instance of `Instance.to_dict` in a canonical form: an entry per resource, server and user, sorted by label,
    and per team with a weight or a guarantee.

    A user's eligible servers are those that offer all it needs; rates are those on them. Demands that are equal on all
    of them appear once.
    """
    names, servers = instance["resources"], instance["servers"]
    in_order = sorted(range(len(servers)), key=servers.__getitem__)

    def plain(v: Any) -> Any:  # 1 and 1.0, 0.0 and -0.0 are one number
        return v if v is None or float(v) != v else float(v) + 0.0

    for name in sorted(names):
        yield f"resource {name!r}", {}
    for s in in_order:
        capacities = {
            f"capacity of {name!r}": plain(c) for name, c in zip(names, instance["capacities"][s], strict=True)
        }
        yield f"server {servers[s]!r}", {"count": plain(instance["counts"][s])} | capacities
    for j in sorted(range(len(instance["users"])), key=instance["users"].__getitem__):
        row = instance["demands"][j]
        by_server = row if row and isinstance(row[0], list) else [row] * len(servers)
        runs = [
            s
            for s in in_order
            if (instance["eligible"] is None or instance["eligible"][j][s])
            and all(c or not d for d, c in zip(by_server[s], instance["capacities"][s], strict=True))
        ]
        user = instance["users"][j]
        weights, guarantees = instance["weights"], instance.get("guarantees") or {}
        of_user = weights[user] if isinstance(weights, dict) else weights[j]
        fields = {"weight": plain(of_user), "task limit": plain(instance["task_limits"][j])}
        least = guarantees.get(user) if isinstance(guarantees, dict) else guarantees[j]
        fields |= {"guarantee": plain(least)} if least else {}
        fields |= {f"label {by!r}": of[j] for by, of in (instance.get("teams") or {}).items() if of[j] is not None}
        fields["servers"] = None if len(runs) == len(servers) else [servers[s] for s in runs]
        same = all(by_server[s] == by_server[runs[0]] for s in runs)
        for s in runs[:1] if same else runs:
            where = "" if same else f" on {servers[s]!r}"
            fields |= {f"demand of {name!r}{where}": plain(d) for name, d in zip(names, by_server[s], strict=True)}
        if instance.get("rates") is not None:
            fields |= {f"rate on {servers[s]!r}": plain(instance["rates"][j][s]) for s in runs}
        yield f"user {user!r}", fields
    given = [instance["weights"], instance.get("guarantees") or {}]
    by_team = [
        {k: v for k, v in of.items() if k not in {*instance["users"]}} if isinstance(of, dict) else {} for of in given
    ]
    for team in sorted({*by_team[0], *by_team[1]}):
        floors = by_team[1].get(team) or {}
        of_team = {f"guarantee of {name!r}": plain(v) for name, v in floors.items()}
        yield f"team {team!r}", of_team | ({"weight": plain(by_team[0][team])} if team in by_team[0] else {})


# -- numbers to maximise ----------------------------------------------------------------------------------------------


class Curve(NamedTuple):
    """``sum_j factor_j boxcox(c_j x_j)`` of one alpha, with the coefficients c from below and from above."""

    alpha: Fraction
    factor: dict[int, Fraction]
    below: Table
    above: Table


class OfUser(NamedTuple):
    """One user's part of a `Curve`; coefficients are by server."""

    alpha: Fraction
    factor: Fraction
    below: list[Fraction]
    above: list[Fraction]


class CurveOfNumbers(NamedTuple):
    """``sum_t factor_t boxcox(z_t / (w_t unit))`` of the numbers of teams, or above a base."""

    alpha: Fraction
    factor: dict[str, Fraction]
    of: Numbers
    unit: Fraction


class Ranked(NamedTuple):
    """``factor`` times the sorted shares weighted by the decreasing v: the largest weight on the smallest share.

    They are shares of users in units of ``below`` and ``above``, or numbers ``of`` teams in multiples of ``unit``.
    """

    factor: Fraction
    v: list[Fraction]
    below: Table
    above: Table
    of: Numbers | None = None
    unit: Fraction = ONE

    def levels(self, cluster: Cluster) -> list[Fraction]:
        """What is sorted, from below."""
        if self.of is None:
            return sorted(cluster.shares(self.below).values())
        return sorted(z / (self.of.weights[t] * self.unit) for t, z in self.of.values().items())


class Goal:
    """A concave function of the tasks: linear, curved and ranked terms, and a constant.

    ``slopes_below`` and ``slopes`` enclose the coefficients of the linear terms by user and server.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.constant = cluster, Between(ZERO, ZERO)
        self.curves, self.ranked, self.numbered = list[Curve](), list[Ranked](), list[CurveOfNumbers]()
        self.slopes_below, self.slopes = ([[ZERO] * cluster.servers for _ in range(cluster.n)] for _ in (0, 1))

    def add(self, objective: Block, times: Fraction, unit: Fraction = ONE) -> None:
        """Add a multiple of an objective, with shares in multiples of ``unit``."""
        cluster = self.cluster
        for factor, term in objective.terms:
            factor *= times
            if factor == 0:
                continue
            if term.name == "FairnessEfficiency" and len(objective.terms) == 1:
                term = as_alpha_fair(term)
            if term.name not in PARAMETERS:
                raise CannotCheck(f"the objective {term.text} is user-defined, and its code is not in the file")
            if term.name not in ("Total", "AlphaFair", "MaxMin", "OrderedWeighted"):
                raise CannotCheck(f"the objective {term.text} cannot be part of a sum")
            if term.share.name in COMPOSED:
                self._add_numbers(term, factor, unit)
                continue
            tables, sizes = cluster.coefficients(term.share), [w * unit for w in cluster.weights]
            below, above = ([[v / size for v in row] for row, size in zip(c, sizes, strict=True)] for c in tables)
            alpha = number(term.given["alpha"], "alpha", 0) if term.name == "AlphaFair" else ZERO
            if term.name in ("MaxMin", "OrderedWeighted"):
                self.ranked.append(Ranked(factor, rank_weights(term, len(cluster.active)), below, above))
            elif alpha == 0:
                for j in cluster.active:
                    for s in cluster.open[j]:
                        self.slopes_below[j][s] += factor / unit * tables[0][j][s]
                        self.slopes[j][s] += factor / unit * tables[1][j][s]
            else:
                self.curves.append(Curve(alpha, {j: factor * cluster.weights[j] for j in cluster.active}, below, above))

    def _add_numbers(self, term: Block, factor: Fraction, unit: Fraction) -> None:
        """Add a multiple of a term of numbers of teams, or above a base."""
        of = Numbers(self.cluster, term.share, is_levelled(term))
        alpha = number(term.given["alpha"], "alpha", 0) if term.name == "AlphaFair" else ZERO
        if term.name in ("MaxMin", "OrderedWeighted"):
            self.ranked.append(Ranked(factor, rank_weights(term, len(of.weights)), of.below, of.above, of, unit))
        elif alpha:
            self.numbered.append(CurveOfNumbers(alpha, {t: factor * w for t, w in of.weights.items()}, of, unit))
        else:
            of.add_slopes(self.slopes_below, dict.fromkeys(of.weights, factor / unit), of.below)
            of.add_slopes(self.slopes, dict.fromkeys(of.weights, factor / unit), of.above)
            low, high = (exact_sum(base[k] for base in of.base.values()) * factor / unit for k in (0, 1))
            self.constant = Between(self.constant.low - high, self.constant.high - low)

    def add_kept_levels(self, evidence: Evidence) -> None:
        """Add the kept levels at their multipliers."""
        for (other, level, _), times in zip(self.cluster.kept_levels, evidence.kept_multipliers, strict=True):
            self.add(other, times)
            self.constant = self.constant.plus(-times * level)

    def value(self, scale: Fraction = ONE) -> Fraction:
        """A lower bound on the value at the current tasks times ``scale``."""
        cluster = self.cluster
        total = self.constant.low + scale * sum(cluster.shares(self.slopes_below).values(), ZERO)
        for curve in self.curves:
            for j, z in cluster.shares(curve.below).items():
                if z <= 0 and curve.alpha >= 1:
                    raise Fault(f"user {cluster.users[j]!r} has no share, so the objective is minus infinity")
                utility = boxcox(z * scale, curve.alpha).low if z > 0 else -1 / (1 - curve.alpha)
                total = down(total + curve.factor[j] * utility)
        for of_numbers in self.numbered:
            for t, z in of_numbers.of.values().items():
                if z <= 0 and of_numbers.alpha >= 1:
                    raise Fault(f"{t!r} has no share, so the objective is minus infinity")
                level = z * scale / (of_numbers.of.weights[t] * of_numbers.unit)
                utility = boxcox(level, of_numbers.alpha).low if z > 0 else -1 / (1 - of_numbers.alpha)
                total = down(total + of_numbers.factor[t] * utility)
        for term in self.ranked:
            ordered = term.levels(cluster)
            total += scale * term.factor * exact_sum(v * z for v, z in zip(term.v, ordered, strict=True))
        return down(total)


def is_linear(objective: Block) -> bool:
    """Whether an objective is a sum of shares."""
    return all(t.name == "Total" or (t.name == "AlphaFair" and t.given["alpha"] == 0) for _, t in objective.terms)


def is_levelled(term: Block) -> bool:
    """Whether a one-term objective compares numbers with each other."""
    return term.name != "FairnessEfficiency" and not is_linear(term)


def as_list(value: Any) -> list[Any]:
    """A list, or a single value in a list."""
    return value if isinstance(value, list) else [value]


def as_max_min(objective: Block) -> tuple[Fraction, Block]:
    """An objective of the smallest share per weight as a factor and `MaxMin`; any other with the factor 1."""
    nonzero = [(factor, term) for factor, term in objective.terms if factor]
    if len(nonzero) == 1 and nonzero[0][1].name in ("MaxMin", "OrderedWeighted"):
        factor, term = nonzero[0]
        first, *others = (number(x, "a weight", 0) for x in as_list(term.given.get("weights", 1)))
        if first and not any(others):
            return factor * first, Block("MaxMin", {"share": term.share}, objective.text)
    return ONE, objective


def as_alpha_fair(term: Block) -> Block:
    """The alpha-fair objective, or the total, with the same optimum as a `FairnessEfficiency`."""
    beta, lam = number(term.given["beta"], "beta"), number(term.given["lam"], "lam")
    if beta == 1 and lam > 0:
        return Block("Total", {"share": term.share}, term.text)
    emphasis = lam if beta < 1 else -lam
    edge = abs(1 - beta) / (abs(beta) or 1)
    if beta <= 0 or beta == 1 or abs(emphasis - edge) > ROUNDING * edge:
        raise CannotCheck(f"{term.text} is not alpha-fair, so it is proved by lines and cannot be part of a sum")
    return Block("AlphaFair", {"alpha": term.given["beta"], "share": term.share}, term.text)


class Evidence:
    """Prices by server and resource, multipliers of rows and of kept levels, and mixtures of ranked terms.

    ``cost`` is the cost of a task by user and server, ``size`` the same of absolute terms, as these may cancel, and
    ``row_value`` the multipliers of rows times their right-hand sides. ``costs`` are those of a unit of each user's
    level, if given.
    """

    def __init__(self, cluster: Cluster, entry: Mapping[str, Any], rows: Rows, kept: int = 0) -> None:
        self.cluster, self.mixtures = cluster, entry.get("mixtures") or []
        prices = numbers(entry["prices"], "prices", cluster.servers, cluster.m)
        y = numbers(entry.get("rows") or [0] * len(rows), "rows", len(rows))
        self.prices: Table = [[max(p, ZERO) for p in row] for row in prices]
        self.rows = [t if t > 0 or equal else ZERO for t, (_, _, equal) in zip(y, rows, strict=True)]
        self.kept_multipliers = [max(t, ZERO) for t in numbers(entry.get("kept") or [0] * kept, "kept", kept)]
        self.levels = [[number(z, "at") for z in row] for row in entry.get("at") or ()]
        costs = entry.get("costs")
        self.costs = costs and dict(zip(cluster.active, numbers(costs, "costs", len(cluster.active)), strict=True))
        self.cost: Table = [[ZERO] * cluster.servers for _ in range(cluster.n)]
        for j in cluster.active:
            for s in cluster.open[j]:
                need = zip(self.prices[s], cluster.demands[j][s], strict=True)
                self.cost[j][s] = exact_sum(p * d for p, d in need if d)
        self.size: Table = [[*costs] for costs in self.cost]
        for times, (row, _, _) in zip(self.rows, rows, strict=True):
            cluster.clock.check()
            for (j, s), v in row.items():
                self.cost[j][s] += times * v
                self.size[j][s] += abs(times * v)
        self.row_value = exact_sum(times * bound for times, (_, bound, _) in zip(self.rows, rows, strict=True))

    def even_out(self, level_per_task: Mapping[int, Mapping[int, Fraction]]) -> None:
        """Scale the prices of servers so that levels which cost a user the same on several up to rounding do exactly.

        Otherwise its tasks on all but the cheapest are slack.
        """
        near: dict[int, dict[int, Fraction]] = {}  # factors of prices on one server relative to another
        for j, each in level_per_task.items():
            costs = {s: self.cost[j][s] / v for s, v in each.items()}
            least = min(costs.values())
            first, *others = (s for s, cost in costs.items() if cost <= least * (1 + ROUNDING))
            for s in others if least > 0 else ():
                near.setdefault(first, {}).setdefault(s, costs[first] / costs[s])
                near.setdefault(s, {}).setdefault(first, costs[s] / costs[first])
        factors = dict[int, Fraction]()
        for start in near:
            factors.setdefault(start, ONE)
            left = [start]
            while left:
                s = left.pop()
                for t, ratio in near[s].items():
                    if t not in factors:
                        factors[t] = dyadic(factors[s] * ratio)
                        left.append(t)
        for s, factor in factors.items():
            self.prices[s] = [p * factor for p in self.prices[s]]
            for row in self.cost:
                row[s] *= factor

    def right_hand_side(self, room: Mapping[Place, Fraction]) -> Fraction:
        """The dual objective's constant: right-hand sides of capacities and rows times their multipliers."""
        return self.row_value + exact_sum(p * r for (s, i), r in room.items() if (p := self.prices[s][i]))


def rank_weights(term: Block, count: int) -> list[Fraction]:
    """The weights of a term by rank, of so many ranks."""
    v = [number(x, "a weight", 0) for x in as_list(term.given.get("weights", 1))]
    if v != sorted(v, reverse=True) or not any(v):
        raise Fault(f"the weights of {term.text} increase, or are all 0")
    return (v + [ZERO] * count)[:count]


def mixture(cluster: Cluster, term: Ranked, given: Any) -> dict[Any, Fraction]:
    """Weights u >= 0 of what a ranked term sorts that bound it: scaled up until the k smallest sum to at least v's."""
    names: list[Any] = cluster.active if term.of is None else list(term.of.weights)
    u = [max(x, ZERO) for x in numbers(given, "mixtures", len(names))]
    mine = theirs = ZERO
    scale = ZERO
    for a, b in zip(sorted(u), sorted(term.v), strict=True):
        mine, theirs = mine + a, theirs + b
        if theirs > 0:
            if mine == 0:
                raise Fault("mixtures: the weights do not bound sorted shares")
            scale = max(scale, theirs / mine)
    return {j: up(x * scale * term.factor) for j, x in zip(names, u, strict=True)}


def bound(goal: Goal, evidence: Evidence, right_hand_side: Fraction) -> Fraction:
    """An upper bound on a goal over all feasible tasks, by weak duality."""
    cluster = goal.cluster
    if len(evidence.mixtures) != len(goal.ranked):
        raise Fault(f"mixtures: there are {len(evidence.mixtures)}, not {len(goal.ranked)}")
    slopes = [row[:] for row in goal.slopes]
    total = up(goal.constant.high + right_hand_side)
    for term, given in zip(goal.ranked, evidence.mixtures, strict=True):
        if term.of is not None:
            weights = term.of.weights
            prices = {t: u / (weights[t] * term.unit) for t, u in mixture(cluster, term, given).items()}
            total -= term.of.add_slopes(slopes, prices, term.of.above)
            continue
        for j, u in mixture(cluster, term, given).items():
            for s in cluster.open[j]:
                slopes[j][s] += u * term.above[j][s]
    levels = iter(evidence.levels)
    for curve in goal.numbered:
        total = up(total + tangents_of_numbers(cluster, curve, slopes, next(levels, ())))
    for j in cluster.active:
        cluster.clock.check()
        net = {s: slopes[j][s] - evidence.cost[j][s] for s in cluster.open[j]}
        total = up(total + best_of_user(goal, j, net))
    return total


def tangents_of_numbers(cluster: Cluster, curve: CurveOfNumbers, slopes: Table, levels: Sequence[Fraction]) -> Fraction:
    """Add the slopes of tangents of a curve of numbers at ``levels``, or at the tasks, and return their constant."""
    with cluster.at(cluster.tangents_at):
        at = curve.of.values()
    constant, prices = ZERO, dict[str, Fraction]()
    for k, (t, z) in enumerate(at.items()):
        size = curve.of.weights[t] * curve.unit
        level = levels[k] if len(levels) == len(at) and levels[k] > 0 else max(z, ZERO) / size or ONE
        slope = power(level, -curve.alpha)
        constant += curve.factor[t] * (boxcox(level, curve.alpha).high - slope.low * level)
        prices[t] = curve.factor[t] * slope.high / size
    return constant - curve.of.add_slopes(slopes, prices, curve.of.above)


def best_of_user(goal: Goal, j: int, net: Mapping[int, Fraction]) -> Fraction:
    """An upper bound on a user's curved terms plus linear terms of slopes ``net``, over its range of total tasks."""
    cluster = goal.cluster
    bounds = cluster.low[j], cluster.most_tasks(j)
    curves = [OfUser(c.alpha, c.factor[j], c.below[j], c.above[j]) for c in goal.curves if c.factor[j] > 0]
    if not curves:
        return best_at_ends(max(net.values()), *bounds)
    here = [exact_sum(c.below[s] * cluster.tangents_at[j][s] for s in net) for c in curves]
    there = stationary_point(curves, net, *bounds)
    if all(abs(a - b) <= b * CLOSE for a, b in zip(here, there, strict=True)):
        here = there
    return min(tangents(curves, z, net, *bounds) for z in ([here] if here is there else [here, there]) if min(z) > 0)


def best_at_ends(slope: Fraction, low: Fraction, most: Fraction) -> Fraction:
    """The maximum of a linear function over a range."""
    return slope * (most if slope > 0 else low)


def tangents(
    curves: list[OfUser], at: list[Fraction], net: Mapping[int, Fraction], low: Fraction, most: Fraction
) -> Fraction:
    """`best_of_user` by tangents at the shares ``at``, one per curved term: ``u(z) <= u(at) + u'(at) (z - at)``."""
    constant, slopes = ZERO, dict(net)
    for curve, z in zip(curves, at, strict=True):
        slope = power(z, -curve.alpha)
        constant += curve.factor * (boxcox(z, curve.alpha).high - slope.low * z)
        for s in slopes:
            slopes[s] += curve.factor * slope.high * curve.above[s]
    return up(constant + best_at_ends(max(slopes.values()), low, most))


def approximate_log(x: Fraction) -> float:
    """The logarithm of a positive number to float precision; the number may be outside the range of floats."""
    return math.log(x.n) - math.log(x.d)


def stationary_point(
    curves: list[OfUser], net: Mapping[int, Fraction], low: Fraction, most: Fraction
) -> list[Fraction]:
    """Approximate shares at a user's optimum on its cheapest server; any point gives a valid bound, this one a tight
    one.
    """
    first = curves[0].above
    s = min((s for s in net if first[s] > 0), key=lambda s: -net[s] / first[s])
    terms = [(float(alpha), approximate_log(f * c[s]), approximate_log(c[s])) for alpha, f, _, c in curves if c[s] > 0]
    left, right = approximate_log(most) - 690.0, approximate_log(most)
    price = approximate_log(-net[s]) if net[s] < 0 else -math.inf
    if net[s] < 0 and len(terms) == 1:
        ((alpha, f, c),) = terms
        left = right = max(min((f - price) / alpha - c, right), left)
    for _ in range(100 if net[s] < 0 and len(terms) > 1 else 0):
        middle = 0.5 * (left + right)
        logs = [f - alpha * (c + middle) - price for alpha, f, c in terms]
        left, right = (middle, right) if sum(math.exp(min(g, 50.0)) for g in logs) > 1 else (left, middle)
    at = Fraction(math.exp(min(right, 700.0))) * (1 + Fraction(1, 10**14))  # beyond the maximum
    tasks = min(max(at, low), most)
    return [c.above[s] * tasks for c in curves]


def relative_gap(objective: Block, goal: Goal, top: Fraction) -> Fraction:
    """The gap of certificates between an upper bound and the value at the tasks."""
    value = goal.value()
    curves: list[Curve | CurveOfNumbers] = [*goal.curves, *goal.numbered]
    if top <= value:  # where shares may be arbitrarily bad, by what rounding adds to capacities
        if not (len(objective.terms) == 1 and curves and curves[0].alpha >= 1):
            return ZERO
        top, value = value, top
    if len(objective.terms) == 1 and curves:  # the logarithm of two weighted power means
        (curve,) = curves
        weight, p = sum(curve.factor.values()), 1 - curve.alpha
        if p == 0:
            return (top - value) / weight
        over, under = 1 + p * top / weight, 1 + p * value / weight
        if over <= 0 or under <= 0:
            raise Fault("the prices give no finite bound")
        return (log(over).plus(-log(under).low).high if p > 0 else log(under).plus(-log(over).low).high) / abs(p)
    if len(objective.terms) == 1:
        return (top - value) / top
    step = Fraction(1, 10**4)  # the fall to half the tasks grows like 2^alpha
    fall = min(abs(value - goal.value(Fraction(1, 2))), abs(value - goal.value(1 - step)) / step)
    if fall == 0:
        raise Fault("the objective does not depend on the size of the tasks, so no gap is defined")
    return (top - value) / fall


# -- fairness and efficiency --------------------------------------------------------------------------------------


def power_mean(values: Mapping[Any, Fraction], weights: Mapping[Any, Fraction], q: Fraction) -> Between:
    """The power mean of exponent q of numbers >= 0, with weights that sum to one."""
    if q < 0 and not all(values.values()):
        return Between(ZERO, ZERO)
    unit = max(values.values()) if q > 0 else min(values.values())  # then no power is large
    if unit == 0:
        return Between(ZERO, ZERO)
    parts = [power(v / unit, q).times(weights[j]) for j, v in values.items() if v]
    ends = sorted(power(exact_sum(part[k] for part in parts), 1 / q)[k ^ (q < 0)] for k in (0, 1))
    return Between(*ends).times(unit)


class Plane:
    """`FairnessEfficiency`: ``first log M + second log m``, with the power mean M of exponent ``q = 1 - beta`` and the
    mean m.

    Lines ``M <= at + slope * m`` (``>=`` if q > 1) bound M over all feasible tasks. M lies below its gradient at any
    levels (above, if q > 1), and `bound` bounds that linear function for any slope. The line of slope 1 at 0 is the
    mean inequality. Between crossings one line is the tightest, and its function of m has at most one stationary point.
    So the maximum is at a crossing, a stationary point, or an end of the range of means (Proposition 15.8).
    """

    def __init__(self, cluster: Cluster, term: Block, rows: Rows) -> None:
        self.cluster, self.rows = cluster, rows
        beta, lam = number(term.given["beta"], "beta"), number(term.given["lam"], "lam")
        self.q = 1 - beta
        self.emphasis = lam if beta < 1 else -lam
        if self.q == 0 or beta == 0 or self.emphasis < 0:
            raise Fault(f"{term.text} has no optimum, or is a sum of shares")
        self.first = abs(self.q) / beta
        self.second = self.emphasis - self.first
        self.sign = 1 if beta > 0 else -1
        self.below, self.above = cluster.coefficients(term.share)
        self.total = exact_sum(cluster.weights[j] for j in cluster.active)
        self.parts = {j: cluster.weights[j] / self.total for j in cluster.active}

    def linear(self, factors: Mapping[int, Fraction], entry: Mapping[str, Any]) -> Fraction:
        """An upper bound on a weighted sum of shares, by prices."""
        check_keys(entry, LINE, "a line of the evidence")
        if entry.get("kind", "prices") != "prices" or entry.get("unit", 1) != 1 or entry.get("mixtures"):
            raise Fault("lines are proved by prices in natural units, without mixtures")
        goal = Goal(self.cluster)
        for j, factor in factors.items():
            for s in self.cluster.open[j]:
                goal.slopes[j][s] = max(factor * self.below[j][s], factor * self.above[j][s])
        evidence = Evidence(self.cluster, entry, self.rows, len(self.cluster.kept_levels))
        goal.add_kept_levels(evidence)
        return bound(goal, evidence, evidence.right_hand_side(self.cluster.usable_units()))

    def line(self, entry: Mapping[str, Any]) -> tuple[Fraction, Fraction]:
        """A line of the evidence, by the gradient of M at the given levels."""
        users, slope = self.cluster.active, number(entry["slope"], "slope")
        levels = dict(zip(users, numbers(entry["levels"], "levels", len(users)), strict=True))
        if min(levels.values()) <= 0:
            raise Fault("levels: a level is not positive, so there is no gradient")
        middle, factors = power_mean(levels, self.parts, self.q), {}
        for j in users:
            ends = [power(levels[j] / end, self.q - 1) for end in middle]
            gradient = max(e.high for e in ends) if self.sign > 0 else min(e.low for e in ends)
            factors[j] = self.sign * (gradient - slope) / self.total
        return self.sign * self.linear(factors, entry), slope

    def means(self, entry: Mapping[str, Any]) -> tuple[Fraction, Fraction]:
        """Bounds on the means of feasible tasks that can be optimal.

        The measure does not fall while all tasks grow by one factor. So the lower bound covers only tasks of which no
        larger multiple is feasible.
        """
        cluster, each = self.cluster, dict.fromkeys(self.cluster.active, ONE)
        best = {j: max(self.above[j][s] for s in cluster.open[j]) for j in each}
        high = up(exact_sum(best[j] * cluster.most_tasks(j) for j in each) / self.total)
        if entry.get("largest"):
            high = min(high, self.linear(each, entry["largest"]) / self.total)
        low = ZERO
        if entry.get("smallest"):
            low = max(low, -self.linear(dict.fromkeys(each, -1 / self.total), entry["smallest"]))
        per_task = {(j, s): self.below[j][s] for j in each for s in cluster.open[j]}
        full = [
            ({(j, s): d for j, s in per_task if s == t and (d := cluster.demands[j][s][i])}, room)
            for (t, i), room in cluster.usable_units().items()
        ]
        full += [
            ({pair: ONE for pair in per_task if pair[0] == j}, h) for j in each if (h := cluster.high[j]) is not None
        ]
        full += [(row, b) for row, b, equal in self.rows if b > 0 or (equal and b)]
        if all(not equal or not b for _, b, equal in self.rows):
            per_unit = (min((per_task[p] / v for p, v in row.items() if v > 0), default=None) for row, _ in full)
            reached = [rate * b for rate, (_, b) in zip(per_unit, full, strict=True) if rate is not None]
            low = max(low, min(reached, default=ZERO) / self.total)
        return low, high

    def log_measure(self) -> Fraction:
        """A lower bound on ``first log M + second log m`` at the file's tasks."""
        cluster = self.cluster
        tables = [cluster.shares(c) for c in (self.below, self.above)]
        levels = [{j: z / cluster.weights[j] for j, z in shares.items()} for shares in tables]
        middle = power_mean(levels[self.sign < 0], self.parts, self.q)[self.sign < 0]
        mean = exact_sum(tables[self.second < 0].values()) / self.total
        if middle <= 0:
            raise Fault("a user has no share, or all have none, where the objective needs one")
        return log(middle).times(self.first).low + log(mean).times(self.second).low

    def gap(self, entry: Mapping[str, Any]) -> Fraction:
        """The largest value that the lines allow, minus the logarithm of the measure."""
        lines = [(ZERO, ONE), *map(self.line, entry["lines"])]
        low, high = self.means(entry)
        if not low and not self.emphasis:
            raise Fault("the measure depends on ratios of shares only, and nothing bounds the shares from below")
        tried = {low, high}
        for at, slope in lines:
            tried |= {(at - a) / (b - slope) for a, b in lines if b != slope}
            tried |= {-self.second * at / (slope * self.emphasis)} if slope and self.emphasis else set()
        tops = []
        for mean in (m for m in tried if low <= m <= high and m > 0):
            of_lines = [at + slope * mean for at, slope in lines]
            middle = min(of_lines) if self.sign > 0 else max(of_lines)
            if middle > 0:  # otherwise no feasible tasks have this mean
                tops.append(log(middle).times(self.first).high + log(mean).times(self.second).high)
        if not tops:
            raise Fault("lines: they exclude all feasible tasks")
        return max(max(tops) - self.log_measure(), ZERO)


# -- leximin --------------------------------------------------------------------------------------------------------


def on_one_pool(cluster: Cluster, objective: Block) -> tuple[Table, Fraction]:
    """Coefficients on one pool, or on identical servers, and their largest relative error."""
    below, above = cluster.coefficients(objective.share)
    same = all(row == cluster.capacities[0] for row in cluster.capacities)
    if cluster.by_server or not same or any(len(cluster.open[j]) < cluster.servers for j in cluster.active):
        raise Fault("this evidence needs one pool, or identical servers that all users may use")
    if cluster.kept_levels or not cluster.same_on_servers(objective.share):
        raise Fault("this evidence needs shares that are the same on all servers, and no lower levels of objectives")
    return below, max((above[j][0] / below[j][0] - 1 for j in cluster.active if below[j][0]), default=ZERO)


def gap_by_bottlenecks(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of max-min fairness on one pool against recomputed levels (`WaterFilling`); of `MaxMin` the lowest level
    only. The level of those who are `left_nothing` is 0.
    """
    if rows:
        raise Fault("bottlenecks are no evidence under constraints other than bounds")
    on_one_pool(cluster, objective)
    below, above = cluster.coefficients(objective.share)
    gap, nothing = ZERO, left_nothing(cluster)
    if nothing and (objective.name == "MaxMin" or len(nothing) == len(cluster.active)):
        return gap
    for bits in (BITS, 10 * BITS):  # bounds lose digits if users need very little of a full resource
        water = WaterFilling(cluster, below, above, bits)
        water.fill()
        least, most = (
            {j: end(sizes[k] * cluster.total(j)) for j, sizes in water.sizes.items() if j not in nothing}
            for k, end in ((0, math.floor), (1, math.ceil))
        )
        if min(least.values()) <= 0:
            if all(cluster.total(j) > 0 for j in least) and bits == BITS:  # levels differ by more than 2^bits
                continue
            raise Fault("an active user has no share")
        if objective.name == "MaxMin":
            best = min(water.upper.values())
            gap = Fraction(max(best - min(least.values()), 0), best)
        else:
            rise = max(((water.upper[j] - z) << bits) // z for j, z in least.items())
            fall = max(((z - water.lower[j]) << bits) // z for j, z in most.items())
            gap = Fraction(max(rise, fall, -1) + 1, 1 << bits)
        if gap <= GAP:
            break
    return gap


def left_nothing(cluster: Cluster) -> set[int]:
    """The users of one pool without tasks to whom the lower bounds of others leave nothing but rounding."""
    full = {
        i
        for i in range(cluster.m)
        if exact_sum(cluster.demands[j][0][i] * cluster.low[j] for j in cluster.active)
        >= cluster.capacity[i] * cluster.usable[i] * (1 - ROUNDING)
    }
    return {j for j in cluster.active if not cluster.total(j) and any(cluster.demands[j][0][i] for i in full)}


class WaterFilling:
    """Bounds on max-min fair levels on a pool, as two integers per user (Proposition 15.5).

    Levels are multiples of ``2^-bits`` of a unit near the largest one, loads multiples of ``1 / full``. Each of these
    has a lower and an upper bound: ``sizes``, levels of one task; ``rates``, loads of a level of 1 by user and resource
    (exact from below if less than 1); ``low`` and ``high``, levels at bounds. ``lower`` and ``upper`` are the results.
    """

    def __init__(self, cluster: Cluster, below: Table, above: Table, bits: int) -> None:
        largest = max(cluster.total(j) * below[j][0] / cluster.weights[j] for j in cluster.active)
        shift = bits - largest.n.bit_length() + largest.d.bit_length()
        scale, self.full = Fraction(1 << shift) if shift > 0 else Fraction(1, 1 << -shift), 1 << 2 * bits
        room = [c * part / self.full for c, part in zip(cluster.capacity, cluster.usable, strict=True)]
        self.sizes, self.rates = dict[int, tuple[Fraction, Fraction]](), dict[int, dict[int, tuple[Any, int]]]()
        self.low, self.high = dict[int, tuple[int, int]](), dict[int, tuple[int, int]]()
        for j in cluster.active:
            cluster.clock.check()
            per, needs = scale / cluster.weights[j], cluster.demands[j][0]
            least, most = self.sizes[j] = below[j][0] * per, above[j][0] * per
            if least <= 0:
                raise Fault(f"tasks of user {cluster.users[j]!r} have a share of 0")
            high = cluster.high[j] if all(r for d, r in zip(needs, room, strict=True) if d) else ZERO
            self.low[j] = math.floor(cluster.low[j] * least), math.ceil(cluster.low[j] * most)
            if high is not None:
                self.high[j] = math.floor(high * least), max(math.ceil(high * most), self.low[j][1])
            self.rates[j] = {
                i: (math.floor(d / (r * most)) or d / (r * most), math.ceil(d / (r * least)))
                for i, (d, r) in enumerate(zip(needs, room, strict=True))
                if d and r
            }
        self.clock, self.lower, self.upper = cluster.clock, dict[int, int](), dict[int, int]()
        self.fixed, self.slope = [0] * cluster.m, [0] * cluster.m  # at a level t loads are at most fixed + slope * t

    def fill(self) -> None:
        """Raise a common level from 0, and fix the users who reach a full resource or their limit."""
        level, rising = 0, set[int]()
        starts, ends = (
            [(at, stops, j) for j, (_, at) in bounds.items()]
            for stops, bounds in ((False, self.low), (True, self.high))
        )
        events = sorted(starts + ends, reverse=True)
        for low, _, j in starts:
            self.add(j, low, 0)
        closed = set[int]()
        while len(self.lower) < len(self.low):
            self.clock.check()
            left = [(self.full - a - b * level, b) for a, b in zip(self.fixed, self.slope, strict=True)]
            full = {i for i, (rest, b) in enumerate(left) if rest < max(b, 1)} - closed
            if full:
                self.settle(full, level, rising)
                closed |= full
                continue
            reach = min((level + rest // b for rest, b in left if b), default=None)
            if not events or (reach is not None and events[-1][0] > reach):
                level = reach or level
                continue
            at, stops, j = events.pop()
            level = max(level, at)
            if j in self.lower:
                continue
            if stops:
                self.lower[j], self.upper[j] = self.high[j]
                rising.remove(j)
            else:
                rising.add(j)
            self.add(j, at if stops else -at, -1 if stops else 1)

    def add(self, j: int, level: int, times: int) -> None:
        """Add a user's load at a fixed level, and its rate ``times`` 1 or -1."""
        for i, (_, rate) in self.rates[j].items():
            self.fixed[i] += rate * level
            self.slope[i] += rate * times

    def settle(self, full: set[int], level: int, rising: set[int]) -> None:
        """Bound the levels of users who need a full resource by what its other users leave at least."""
        least = dict(self.lower)
        for j in self.rates.keys() - least.keys():
            low, high = self.low[j][0], self.high.get(j)
            least[j] = max(low, level if high is None else min(level, high[0]))
        slack = dict.fromkeys(full, self.full)
        for j, of_user in self.rates.items():
            for i in full.intersection(of_user):
                slack[i] -= math.floor(of_user[i][0]) * least[j]
        for j in [j for j, of_user in self.rates.items() if j not in self.lower and not full.isdisjoint(of_user)]:
            rates = ((max(slack[i], 0), rate) for i, (rate, _) in self.rates[j].items() if i in full)
            most = least[j] + 1 + min(r // rate if type(rate) is int else math.floor(r / rate) for r, rate in rates)
            self.lower[j], self.upper[j] = least[j], min(most, self.high[j][1]) if j in self.high else most
            rises = j in rising
            self.add(j, self.upper[j] - (0 if rises else self.low[j][1]), -1 if rises else 0)
            rising.discard(j)


def gap_by_envy(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of max-min fairness without envy on one pool, each level given the earlier ones.

    User j is bound by envy of k if its tasks are, up to a part e, the fewest without envy of k. If neither j, nor k,
    nor any user at a level of at most k's may fall, then j rises whenever k does. So k rises by no more than a user j
    bound by envy of k: up to j's limit, or by what a resource has left, plus what its users bound by such levels leave
    through their e, plus what its other users free by falling to k's level, relative to j's load.
    """
    users, resources, envy = cluster.active, range(cluster.m), cluster.envied
    if not {*map(id, rows)} <= {*map(id, envy.values())}:
        raise Fault("bottlenecks with envy are no evidence under constraints other than bounds and EnvyFree")
    c, norm = on_one_pool(cluster, objective)
    cluster.given_earlier |= objective.name == "Leximin"
    total = {j: cluster.total(j) for j in users}
    level = {j: s / cluster.weights[j] for j, s in cluster.shares(c).items()}
    if any(v <= 0 for v in level.values()):
        raise Fault("an active user has no share")
    room = [cluster.capacity[i] * cluster.usable[i] for i in resources]
    loads = {j: [d * total[j] for d in cluster.demands[j][0]] for j in users}
    used = [exact_sum(needs[i] for needs in loads.values()) for i in resources]
    over = max([ZERO, *(u / r - 1 for u, r in zip(used, room, strict=True) if u)])
    left = [r * (1 + over) - u for r, u in zip(room, used, strict=True)]
    # the lowest level by whose envy each user is bound (0: a lower bound), and the row's relative slack
    base = {j: (ZERO if total[j] <= cluster.low[j] * (1 + ROUNDING) else v, ROUNDING) for j, v in level.items()}
    root = {j: (v, ZERO if v else ROUNDING) for j, (v, _) in base.items()}
    bound_by: dict[int, list[tuple[int, Fraction]]] = {k: [(k, ZERO)] for k in users}  # users bound by envy of k
    for (j, k), (of_pairs, _, _) in envy.items():
        slack = total[j] / (of_pairs[k, 0] * total[k]) - 1
        if slack <= ROUNDING:
            bound_by[k].append((j, max(slack, ZERO)))
            root[j] = min(root[j], (base[k][0], max(slack, ZERO) + (ZERO if base[k][0] else ROUNDING)))
    top = [max((root[j][0] for j in users if loads[j][i]), default=ZERO) for i in resources]
    freed = [exact_sum(loads[j][i] * root[j][1] for j in users) for i in resources]  # at most, by the slack of rows
    worst = over
    for k in users:
        cluster.clock.check()
        rises = []
        for j, slack in bound_by[k]:
            high = cluster.high[j]
            if high is not None and total[j] >= high * (1 - ROUNDING):
                rises.append((1 + slack) * high * (1 + over) / total[j] - 1)
            rises += [
                (1 + slack) * (1 + (left[i] + freed[i] + used[i] * max(top[i] / level[k] - 1, 0)) / load) - 1
                for i, load in enumerate(loads[j])
                if load
            ]
        worst = max(worst, up(min(rises)))
    return worst + norm


def gap_by_levels(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of leximin by prices that bound each user's level, from the lowest level up (Proposition 15.4).

    ``lower`` and ``upper`` bound the levels z* at the optimum. Let E be the users of earlier levels and t a part of the
    lowest level of the others. Raise E to their upper bounds and scale the others down until all capacities hold. If
    the others keep t, then z* >= t for them: an optimum below t could move towards this point at the cost of users
    above t only. If B bounds the cost of all levels, a user's level is at most ``floor + (B - cost of all floors) / its
    cost``.

    If that point violates a constraint, or earlier users alone exceed a capacity, less is proved: each level is bounded
    given the earlier ones, including what their slack is worth at the prices (`Cluster.given_earlier`). This may double
    from level to level, so a second try starts from no slack by rounding (`Evidence.even_out`).
    """
    count, size = len(entry["levels"]), sum(len(cluster.open[j]) for j in cluster.active)
    if count * size > LEVEL_PAIRS:
        raise CannotCheck(
            f"{count:,} levels times {size:,} pairs of users and servers take too long in fractions; the limit is "
            f"{LEVEL_PAIRS:,}"
        )
    c, above = cluster.coefficients(objective.share)
    by_server = any(len({c[j][s] for s in cluster.open[j]}) > 1 for j in cluster.active if cluster.high[j] is not None)
    if by_server or any(len(one.get("rows") or ()) > len(rows) for one in entry["levels"]):
        rows = rows + limits_as_rows(cluster)  # a share that may rise without more tasks
    stored = {j: s / cluster.weights[j] for j, s in cluster.shares(c).items()}
    if any(v <= 0 for v in stored.values()):
        raise Fault("an active user has no share")
    users, room = cluster.active, cluster.usable_units()
    best = {j: max(c[j][s] for s in cluster.open[j]) / cluster.weights[j] for j in users}
    most = {j: up(best[j] * cluster.most_tasks(j)) for j in users}
    least = {j: min(cluster.low[j], cluster.total(j)) for j in users}
    constrained = bool(rows or cluster.kept_levels or any(least.values()))
    if constrained:
        most = {j: max(v, stored[j]) for j, v in most.items()}
        room = {place: max(r, cluster.load(*place)) for place, r in room.items()}
    broken = [row_excess(cluster, row)[0] for row in rows]
    below = [max(level - value_of(cluster, other), ZERO) for other, level, _ in cluster.kept_levels]
    level_per_task = cluster.level_per_task(c)
    steps: list[tuple[list[int], Evidence]] = []
    for k, one in enumerate(entry["levels"]):
        check_keys(one, LEVEL, f"level {k} of the evidence")
        steps.append(([users[u] for u in one["users"]], Evidence(cluster, one, rows, len(cluster.kept_levels))))
        if not one["users"]:
            raise Fault(f"level {k} of the evidence has no users")
    lowest = {j: least[j] * min(c[j][s] for s in cluster.open[j]) / cluster.weights[j] for j in users}
    pairs = [(j, s) for j in users for s in cluster.open[j]]
    norm = max((above[j][s] / c[j][s] - 1 for j, s in pairs if c[j][s]), default=ZERO)
    for exactly in (False, True):
        for _, prices in steps if exactly else ():
            prices.even_out(level_per_task)
        tasks = cluster.tasks if constrained else fitted(cluster, room, exactly)
        with cluster.at(tasks):
            z = {j: down(s / cluster.weights[j]) for j, s in cluster.shares(c).items()}
        if min(z.values()) <= 0:
            raise Fault("an active user runs all its tasks where there is no capacity")
        units = {  # of a level of 1
            (s, i): {j: dyadic(cluster.demands[j][s][i] * tasks[j][s] / z[j]) for j in users} for s, i in room
        }
        loads = {place: {j: dyadic(v * z[j]) for j, v in of_users.items()} for place, of_users in units.items()}
        order: list[tuple[list[int], Evidence | None]] = [([j], None) for j in users if most[j] <= z[j] * (1 + GAP)]
        order += steps
        lower, upper, given = dict.fromkeys(users, ZERO), dict(most), False
        proved: set[int] = set()
        for now, evidence in sorted(order, key=lambda step: min(z[j] for j in step[0])):
            cluster.clock.check()
            others = [j for j in users if j not in proved]
            if not others:
                break
            shrink, alone = scaled_down(room, z, upper, units, loads, proved)
            given |= alone
            if constrained and not given:
                factors = {j: max(upper[j] / z[j], ONE) if j in proved else 1 - shrink for j in users}
                given = not stays_feasible(cluster, rows, broken, below, factors)
            level = min(z[j] for j in others) * (ONE if given and constrained else 1 - shrink)
            floors = {j: max(lower[j] if j in proved else level, lowest[j]) for j in users}
            if evidence is not None:
                limit = evidence.right_hand_side(room) + exact_sum(
                    abs(y) * b for y, b in zip(evidence.rows, broken, strict=True)
                )
                limit += exact_sum(y * b for y, b in zip(evidence.kept_multipliers, below, strict=True))
                before = {j: upper[j] - z[j] for j in proved} if given else {}
                tighten_upper_bounds(cluster, level_per_task, evidence, floors, upper, now, limit, before)
            for j in now:
                lower[j] = max(lower[j], floors[j])
            proved.update(now)
        missing = [cluster.users[j] for j in users if j not in proved]
        if missing:
            raise Fault(f"no prices bound the level of user {missing[0]!r}")
        gap = norm + max(max(upper[j] / v - 1, 1 - lower[j] / v, ZERO) for j, v in stored.items())
        if gap <= GAP or constrained:
            break
    cluster.given_earlier |= given
    return gap


def fitted(cluster: Cluster, room: Mapping[Place, Fraction], exactly: bool) -> Table:
    """The tasks made exactly feasible: scaled to capacities, and cut to limits.

    If ``exactly``, servers that are full up to rounding are full afterwards.
    """
    factors = []
    for s in range(cluster.servers):
        part = min((room[s, i] / load for i in range(cluster.m) if (load := cluster.load(s, i))), default=ONE)
        factors.append(part if part <= 1 + ROUNDING else ONE)
    if not exactly:
        factors = [min(ONE, *factors)] * len(factors)
    out = []
    for row, high in zip(cluster.tasks, cluster.high, strict=True):
        fitting = [x * part if part != ONE else x for x, part in zip(row, factors, strict=True)]
        total = exact_sum(fitting)
        cut = ONE if high is None or total <= high else high / total
        out.append([-dyadic(-x * cut) for x in fitting] if exactly else [x * cut for x in fitting])
    return out


def stays_feasible(
    cluster: Cluster, rows: Rows, broken: Sequence[Fraction], below: Sequence[Fraction], factors: Mapping[int, Fraction]
) -> bool:
    """Whether scaling users' tasks violates no constraint by more than the file's tasks do."""
    stored = cluster.tasks
    with cluster.at([[x * factors.get(j, ONE) for x in row] for j, row in enumerate(stored)]):
        try:
            low = all(cluster.total(j) >= min(cluster.low[j], sum(stored[j])) for j in cluster.active)
            kept = all(value_of(cluster, k[0]) >= k[1] - b for k, b in zip(cluster.kept_levels, below, strict=True))
            return low and kept and all(row_excess(cluster, row)[0] <= b for row, b in zip(rows, broken, strict=True))
        except Fault:  # minus infinity
            return False


def scaled_down(
    room: Mapping[Place, Fraction],
    z: Mapping[int, Fraction],
    upper: Mapping[int, Fraction],
    units: Mapping[Place, Mapping[int, Fraction]],
    loads: Mapping[Place, Mapping[int, Fraction]],
    proved: set[int],
) -> tuple[Fraction, bool]:
    """By what part the other users shrink so that the ``proved`` ones fit at their upper bounds.

    Also whether these exceed a capacity that no other user needs.
    """
    shrink, alone = ZERO, False
    rise = {j: dyadic(upper[j] - z[j]) for j in proved if upper[j] > z[j]}
    for place, of_users in loads.items():
        more = exact_sum(v * units[place][j] for j, v in rise.items())
        left = room[place] - exact_sum(of_users.values()) if more else ZERO
        if more > left:
            others = exact_sum(v for j, v in of_users.items() if j not in proved)
            shrink, alone = max(shrink, (more - left) / others if others else ZERO), alone or not others
    return up(min(shrink, ONE)), alone


def tighten_upper_bounds(
    cluster: Cluster,
    level_per_task: Mapping[int, Mapping[int, Fraction]],
    prices: Evidence,
    floors: Mapping[int, Fraction],
    upper: dict[int, Fraction],
    users: Iterable[int],
    limit: Fraction,
    slack: Mapping[int, Fraction],
) -> None:
    """Lower the upper bounds of users by what prices leave above the floors, plus the ``slack`` of earlier users.

    ``limit`` is the right-hand side at the prices.
    """
    goal, costs = Goal(cluster), {}
    goal.add_kept_levels(prices)
    for j, each in level_per_task.items():
        costs[j] = prices.costs[j] if prices.costs else down(min(prices.cost[j][s] / v for s, v in each.items()))
        for s, v in each.items():
            goal.slopes[j][s] += costs[j] * v
    left = bound(goal, prices, limit)
    for j, cost in costs.items():
        if cost:
            left = up(left - cost * (floors[j] if cost > 0 else upper[j]))
        if cost > 0 and j in slack:
            left = up(left + cost * max(slack[j], ZERO))
    for j in users:
        if costs[j] > 0:
            upper[j] = min(upper[j], up(floors[j] + max(left, ZERO) / costs[j]))


# -- guarantees of teams ----------------------------------------------------------------------------------------------


class Use:
    """What tasks of a team use, as evidence gives them: ``tasks`` by user and server, and ``prices`` of resources.

    ``members`` have their limits. ``over`` is the factor by which tasks exceed a limit, and at least 1.
    """

    def __init__(self, cluster: Cluster, team: str, given: Mapping[str, Any]) -> None:
        check_keys(given, ("tasks", "prices"), f"the floor of {team!r}")
        self.cluster, active = cluster, {*cluster.active}
        self.members = {j: cluster.limits[j] for j in cluster.members[team] if j in active}
        self.tasks: dict[tuple[int, int], Fraction] = {}
        for j, s, x in given.get("tasks") or ():
            if j not in self.members or s not in cluster.open[j] or (j, s) in self.tasks:
                raise Fault(f"tasks of a floor of {team!r} are not of its members where they may run")
            self.tasks[j, s] = number(x, "tasks of a floor", 0)
        runs = dict.fromkeys(self.members, ZERO)
        for (j, _), x in self.tasks.items():
            runs[j] += x
        self.over = max([ONE, *(runs[j] / limit for j, limit in self.members.items() if limit is not None)])
        self.loads = [
            exact_sum(x * cluster.demands[j][s][i] for (j, s), x in self.tasks.items()) for i in range(cluster.m)
        ]
        prices = numbers(given.get("prices") or [0] * cluster.m, "prices of a floor", cluster.m)
        self.prices = [max(p, ZERO) for p in prices]

    def cost(self, j: int, s: int) -> Fraction:
        """What a task costs at the prices."""
        return exact_sum(p * d for p, d in zip(self.prices, self.cluster.demands[j][s], strict=True) if d)


def floors_of(cluster: Cluster, team: str, proofs: Mapping[str, Any]) -> dict[int, Fraction]:
    """What a team is guaranteed of each resource, in units; ``proofs`` by resource."""
    given = cluster.team_guarantees[team].items()
    named = {cluster.resource(what): v for what, units in given if (v := number(units, "guarantees", 0))}
    some = (i for i in sorted(named) if cluster.capacity[i])
    return {i: v for i in some if (v := floor_of(cluster, team, named, i, proofs.get(str(i)) or {}))}


def floor_of(cluster: Cluster, team: str, named: Mapping[int, Fraction], i: int, proof: Mapping[str, Any]) -> Fraction:
    """What a team is guaranteed of a resource: at most what its tasks within the guarantee can use of it.

    ``proof`` are tasks of its members that use so much, and prices of resources by which no tasks use more.
    """
    use = Use(cluster, team, proof)
    room = [min(named.get(k, c), c) for k, c in enumerate(cluster.capacity)]
    over = [load / c for load, c in zip(use.loads, room, strict=True) if load > c > 0]
    if any(load and not c for load, c in zip(use.loads, room, strict=True)):
        raise Fault(f"tasks of a floor of {team!r} use a resource of which it has none")
    floor = use.loads[i] / max([use.over, *over])
    top = exact_sum(p * c for p, c in zip(use.prices, room, strict=True))
    for j, limit in use.members.items():
        nets = {tuple(needs := cluster.demands[j][s]): max(needs[i] - use.cost(j, s), ZERO) for s in cluster.open[j]}
        most = exact_sum(net * min(room[k] / d for k, d in enumerate(needs) if d) for needs, net in nets.items())
        top += most if limit is None else min(most, max(nets.values()) * limit)
    if min(top, room[i]) > floor * (1 + cluster.tie) + room[i] * cluster.tie:
        raise Fault(f"the floor of {team!r} of {cluster.resources[i]!r} is not proved")
    return floor


def least_share(cluster: Cluster, team: str, floor: Mapping[int, Fraction], share: Block) -> Between:
    """The least total share at which a team holds its floor, between the bound of prices and the share of tasks."""
    use = Use(cluster, team, (cluster.floor_proofs.get(team) or {}).get(share.text) or {})
    below, above = cluster.coefficients(share)
    if not all(use.loads[i] for i in floor):
        raise Fault(f"tasks of a floor of {team!r} do not hold it")
    times = max([ONE, *(v / use.loads[i] for i, v in floor.items())])
    if times * use.over > 1 + cluster.tie:
        raise Fault(f"tasks of a floor of {team!r} do not hold it within limits")
    high = times * exact_sum(above[j][s] * x for (j, s), x in use.tasks.items())
    free = [j for j, limit in use.members.items() if limit is None]  # who must gain nothing at the prices
    for needs in (cluster.demands[j][s] for j in free for s in cluster.open[j] if not below[j][s]):
        use.prices = [ZERO if d else p for p, d in zip(use.prices, needs, strict=True)]
    costs = ((below[j][s], use.cost(j, s)) for j in free for s in cluster.open[j])
    part = min([ONE, *(c / cost for c, cost in costs if cost)])
    low = part * exact_sum(use.prices[i] * v for i, v in floor.items())
    for j, limit in use.members.items():
        net = max(part * use.cost(j, s) - below[j][s] for s in cluster.open[j])
        low -= max(net, ZERO) * (limit or ZERO)
    if high - low > high * cluster.tie:
        raise Fault(f"what the floor of {team!r} is worth in {share.text} is not proved")
    return Between(max(low, ZERO), high)


def guaranteed(cluster: Cluster) -> Rows:
    """The floors of teams as rows, first those of policies; `Cluster.floors` holds them from then on."""
    if cluster.team_guarantees and not cluster.floor_proofs:
        raise CannotCheck("its guarantees of teams were saved without evidence")
    rows = Rows()
    for team in cluster.team_guarantees:
        cluster.floors[team] = floor = floors_of(cluster, team, cluster.floor_proofs.get(team) or {})
        members = {*cluster.members[team]} & {*cluster.active}
        for i, v in floor.items():
            held = {(j, s): -d for j in sorted(members) for s in cluster.open[j] if (d := cluster.demands[j][s][i])}
            rows.append((held, -v, False))
    return rows


# -- teams, and what is above a base ----------------------------------------------------------------------------------


class Numbers:
    """What an objective compares: ``z_t = sum_j c_j x_j - base_t`` of a user or a team t, by label.

    ``below`` and ``above`` enclose c, ``base`` encloses the base; ``kept`` are the tasks of users that a base requires.
    If numbers are ``levelled``, those that cannot rise above their base are left out.
    """

    def __init__(self, cluster: Cluster, share: Block, levelled: bool = False) -> None:
        self.cluster, surplus = cluster, share if share.name == "Surplus" else None
        team = share.share if surplus else share
        self.of_user = {j: str(cluster.users[j]) for j in cluster.active}
        self.weights = {t: cluster.weights[j] for j, t in self.of_user.items()}
        if team.name == "OfTeam":
            labels = cluster.teams.get(team.given.get("by", "team")) or [None] * cluster.n
            if any(labels[j] is None for j in cluster.active):
                raise Fault(f"a user has no team of {team.text}")
            given = {**cluster.team_weights, **(team.given.get("weights") or {})}
            self.of_user = {j: str(labels[j]) for j in cluster.active}
            self.weights = {t: number(given.get(t, 1), "a weight", 0) for t in self.of_user.values()}
            if not all(self.weights.values()):
                raise Fault(f"a weight of {team.text} is 0")
        self.below, self.above = cluster.coefficients(team.of_user)
        self.kept: dict[int, Fraction] = {}
        if surplus and surplus.given.get("base") is None:
            self.kept = {j: cluster.guarantees[j] for j in cluster.active}
        elif surplus:
            base = cluster.of_user(surplus.given["base"], surplus.text, False)
            self.kept = {j: base[j] or ZERO for j in cluster.active}
        for j, x in self.kept.items():
            limit = cluster.limits[j]
            self.kept[j] = x if limit is None else min(x, limit)
        self.base = {t: Between(ZERO, ZERO) for t in self.weights}
        for j, x in self.kept.items():
            ends = (x * min(c[j][s] for s in cluster.open[j]) for c in (self.below, self.above))
            low, high = ends
            before = self.base[self.of_user[j]]
            self.base[self.of_user[j]] = Between(before.low + low, before.high + high)
        if surplus and team.name == "OfTeam" and surplus.given.get("base") is None:
            for t in self.base.keys() & cluster.floors.keys():
                if (t, team.text) not in cluster.worths:
                    cluster.worths[t, team.text] = least_share(cluster, t, cluster.floors[t], team.of_user)
                worth = cluster.worths[t, team.text]
                self.base[t] = Between(*(max(ends) for ends in zip(self.base[t], worth, strict=True)))
        if surplus and levelled:
            stay = cluster.stays.get(share.text, set())
            rises = {self.of_user[j] for j in self._with_room()} - stay
            self.of_user = {j: t for j, t in self.of_user.items() if t in rises}
            self.weights = {t: w for t, w in self.weights.items() if t in rises}
            self.base = {t: b for t, b in self.base.items() if t in rises}

    def _with_room(self) -> list[int]:
        """The users above whose base bounds on tasks, and on one pool what these leave of capacities, allow more."""
        cluster, more = self.cluster, 1 + VIOLATION
        low = {j: max(cluster.low[j], x) for j, x in self.kept.items()}
        full = set[int]()
        for (_, i), units in cluster.usable_units().items() if cluster.servers == 1 else ():
            if exact_sum(cluster.demands[j][0][i] * x for j, x in low.items()) >= units * (1 - VIOLATION):
                full.add(i)
        found = []
        for j, x in low.items():
            high, c = cluster.high[j], max(self.above[j][s] for s in cluster.open[j])
            blocked = (high is not None and high <= x * more) or any(cluster.demands[j][0][i] for i in full)
            if c > 0 and (x > self.kept[j] or not blocked):
                found.append(j)
        return found

    def values(self, above: bool = False) -> dict[str, Fraction]:
        """The numbers at the current tasks, from below or from ``above``."""
        shares = self.cluster.shares(self.above if above else self.below)
        return self.sums(shares, above)

    def sums(self, by_user: Mapping[int, Fraction], above: bool = False) -> dict[str, Fraction]:
        """Sums of values by user, less the base."""
        of_number: dict[str, list[Fraction]] = {t: [] for t in self.weights}
        for j, t in self.of_user.items():
            of_number[t].append(by_user[j])
        return {t: exact_sum(parts) - self.base[t][0 if above else 1] for t, parts in of_number.items()}

    def add_slopes(self, slopes: Table, prices: Mapping[str, Fraction], c: Table) -> Fraction:
        """Add what a task of each user is worth at prices of the numbers, and return what the base is worth at most."""
        for j, t in self.of_user.items():
            for s in self.cluster.open[j] if prices.get(t) else ():
                slopes[j][s] += prices[t] * c[j][s]
        return exact_sum(price * self.base[t].low for t, price in prices.items())

    def bounded(self, level: Any, most: bool, what: str) -> Rows:
        """Bounds on the numbers as rows; ``level`` is a number, a list, or a dict by label."""
        names = list(self.weights)
        if not isinstance(level, dict):
            level = dict(zip(names, level if isinstance(level, list) else [level] * len(names), strict=True))
        if level.keys() - {*self.cluster.users, *self.cluster.members}:
            raise Fault(f"{what} names an unknown user or team")
        members: dict[str, list[int]] = {t: [] for t in names}
        for j, t in self.of_user.items():
            members[t].append(j)
        return [
            self._bound(members[t], [t], level[t], most, what)
            for t in names
            if t in level and level[t] != math.inf and (most or level[t] != 0 or self.base[t].low > 0)
        ]

    def of_teams(self, level: Mapping[str, Any], most: bool, what: str) -> Rows:
        """Bounds on the sums of numbers of users, by the name of their team, as rows."""
        members, rows = self.cluster.members, Rows()
        if level.keys() - members.keys():
            raise Fault(f"{what} names an unknown user or team")
        for team, bound in level.items():
            mine = [j for j in members[team] if j in self.of_user]
            if bound != math.inf:
                rows.append(self._bound(mine, [self.of_user[j] for j in mine], bound, most, what))
        return rows

    def _bound(self, users: Iterable[int], names: Iterable[str], level: Any, most: bool, what: str) -> Row:
        """A bound on the sum of some numbers, of these users, as a row."""
        c, sign = self.below if most else self.above, 1 if most else -1
        base = exact_sum(self.base[t][1 if most else 0] for t in names)
        row = {(j, s): sign * c[j][s] for j in users for s in self.cluster.open[j]}
        return row, sign * (number(level, what, 0) + base), False


def is_surplus(term: Block) -> bool:
    """Whether a one-term objective compares what is above a base."""
    return term.share.name == "Surplus" and is_levelled(term)


def of_those_who_rise(cluster: Cluster, objective: Block) -> Block:
    """An objective of which nobody can rise above the base is the total of shares that nobody changes."""
    for _, term in objective.terms:
        if is_surplus(term) and not Numbers(cluster, term.share, levelled=True).weights:
            if len(objective.terms) > 1:
                raise CannotCheck(f"nobody can rise above the base of {term.share.text}")
            return Block("Total", {"share": term.share.share}, objective.text)
    return objective


def gap_by_number_levels(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of a leximin of numbers, by prices that bound them level by level.

    At prices of capacities and rows, and prices pi of numbers, ``sum_t pi_t z_t`` has a bound V. If the others keep
    their floors up to the level, a number rises by at most ``(V - sum_t pi_t floor_t) / pi_t``, and what earlier
    numbers could rise by counts at their prices. What a number holds at a positive reduced cost counts as well.
    """
    if cluster.kept_levels:
        raise CannotCheck("levels of numbers are proved under linear constraints only")
    compared = Numbers(cluster, objective.share, levelled=True)
    if len(entry["levels"]) * sum(len(cluster.open[j]) for j in cluster.active) > LEVEL_PAIRS:
        raise CannotCheck(f"{len(entry['levels']):,} levels take too long in fractions")
    z, w, users = compared.values(), compared.weights, cluster.active
    typical = sum((v for v in z.values() if v > 0), ZERO) / sum(w.values())
    best = {j: max(compared.above[j][s] for s in cluster.open[j]) * cluster.most_tasks(j) for j in users}
    least = {j: min(compared.below[j][s] for s in cluster.open[j]) * cluster.low[j] for j in users}
    most, lowest = compared.sums(best, above=True), compared.sums(least)
    could = {t: min(typical * w[t] or m, m) if m > 0 else typical * w[t] or ONE for t, m in most.items()}
    unit = {t: v if v > VIOLATION * could[t] else could[t] for t, v in z.items()}
    rise = {t: max(most[t] - v, ZERO) for t, v in z.items()}
    unproved = set(z)  # numbers that no prices bound
    room = {place: max(r, cluster.load(*place)) for place, r in cluster.usable_units().items()}
    broken = [row_excess(cluster, row)[0] for row in rows]
    settled, gap = set[str](), ZERO
    for k, one in enumerate(entry["levels"]):
        check_keys(one, NUMBER_LEVEL, f"level {k} of the evidence")
        cluster.clock.check()
        evidence, mine = Evidence(cluster, one, rows), list(dict.fromkeys(map(str, one["numbers"])))
        if not mine or not {*mine, *one["of_numbers"]} <= z.keys():
            raise Fault(f"level {k} of the evidence has no numbers, or unknown ones")
        pi = {t: max(number(v, "of_numbers"), ZERO) for t, v in one["of_numbers"].items()}
        top = evidence.right_hand_side(room) - exact_sum(p * compared.base[t].low for t, p in pi.items())
        top += exact_sum(abs(y) * b for y, b in zip(evidence.rows, broken, strict=True))
        for j in users:
            paid, c = pi.get(compared.of_user.get(j, ""), ZERO), compared.above[j]
            net = max(paid * c[s] - evidence.cost[j][s] for s in cluster.open[j])
            top = up(top + best_at_ends(net, cluster.low[j], cluster.most_tasks(j)))
        gap = max(
            gap, *(v / unit[t] for t, v in held_at_reduced_cost(cluster, compared, evidence, pi, z, most).items())
        )
        level = min(z[t] / w[t] for t in mine)
        floors = {t: min(z[t], max(level * w[t], lowest[t])) for t in pi}
        slack = max(top - exact_sum(p * floors[t] for t, p in pi.items()), ZERO)
        if any(not pi.get(t) for t in mine):
            raise Fault(f"level {k} of the evidence has no price of a number that it fixes")
        earlier = {t for t in pi if t in settled or (z[t] / w[t] < level and rise[t] > 0)} - {*mine}
        paid = exact_sum(pi[t] * unit[t] for t in mine)
        gap = max(gap, exact_sum(pi[t] * rise[t] for t in earlier) / paid)
        for t in mine:
            by_prices = up(max(floors[t] - z[t], ZERO) + slack / pi[t])
            rise[t] = min(rise[t], by_prices)
            if by_prices <= GAP * unit[t]:
                unproved.discard(t)
        settled.update(mine)
    highest = max(v / w[t] for t, v in z.items())
    for j, t in compared.of_user.items():  # at an optimum, numbers at their most have nothing on worse servers
        if t in unproved and z[t] / w[t] * (1 + ROUNDING) < highest:
            c = compared.above[j]
            tie = max(c[s] for s in cluster.open[j]) * (1 - COST_TIE)
            worse = (c[s] * cluster.tasks[j][s] for s in cluster.open[j] if c[s] < tie)
            rise[t] += exact_sum(worse)
    return max(gap, *(up(v / unit[t]) for t, v in rise.items()))


def held_at_reduced_cost(
    cluster: Cluster,
    compared: Numbers,
    evidence: Evidence,
    prices: Mapping[str, Fraction],
    z: Mapping[str, Fraction],
    most: Mapping[str, Fraction],
) -> dict[str, Fraction]:
    """What numbers hold where tasks cost more than is paid for them, beyond lower bounds: nothing at an optimum."""
    out = dict.fromkeys(z, ZERO)
    for j, t in compared.of_user.items():
        if t not in z:  # it has left the objective
            continue
        c, cost, tasks = compared.above[j], evidence.cost[j], cluster.tasks[j]
        paid = {s: prices.get(t, ZERO) * c[s] for s in cluster.open[j]}
        reduced = {s: cost[s] - p for s, p in paid.items()}
        least = min(reduced.values())
        costly, elsewhere = (
            exact_sum(tasks[s] for s, p in paid.items() if reduced[s] - of > COST_TIE * (evidence.size[j][s] + p))
            for of in (ZERO, least)
        )
        if z[t] >= most[t] * (1 - ROUNDING):  # a higher price would pay for all its users
            costly = ZERO
        if cluster.low[j] > 0:
            costly = min(costly, max(exact_sum(tasks[s] for s in paid) - cluster.low[j], ZERO))
        out[t] += max(costly, elsewhere) * max(c[s] for s in paid)
    return out


# -- bundles ----------------------------------------------------------------------------------------------------------


class Dominance:
    """The users on each server by dominant resource: the largest fraction of capacity per task, the first of ties.

    Numbers within `ROUNDING` of each other count as equal, unless they are taken ``exactly``.
    """

    def __init__(self, cluster: Cluster, exactly: bool = False) -> None:
        self.cluster, self.first = cluster, [dict[int, int]() for _ in range(cluster.servers)]
        self.exactly, self.near = exactly, ZERO if exactly else ROUNDING
        for j in cluster.active:
            for s in cluster.open[j]:
                needs = zip(cluster.demands[j][s], cluster.capacities[s], strict=True)
                parts = [d / c if c else ZERO for d, c in needs]
                self.first[s][j] = next(i for i, p in enumerate(parts) if p >= max(parts) * (1 - self.near))

    def split(self, s: int, i: int) -> list[list[int]]:
        """The users dominant in a resource, and the others."""
        return [[j for j, k in self.first[s].items() if (k == i) == mine] for mine in (True, False)]

    def requested(self, s: int, i: int) -> list[Fraction]:
        """The units that one task of each dominant user requests, and those of the others."""
        return [exact_sum(self.cluster.demands[j][s][i] for j in users) for users in self.split(s, i)]

    def short(self, s: int, i: int) -> bool:
        """Whether one task of each user requests more than a server has."""
        return sum(self.requested(s, i)) > self.cluster.capacities[s][i] * (1 + self.near)

    def fractions(self, aggregate: Block) -> list[list[Fraction]]:
        """By server and resource, the fraction of the dominant users and that of the others.

        Unless ``exactly``, sums are rounded up by less than 2^-100 of themselves, and fractions enlarged by as much.
        """
        cluster, sums = self.cluster, list[list[Fraction]]()
        more, up_if = (ONE, exactly) if self.exactly else (1 + Fraction(1, 2**100), up)
        raw = aggregate.given.get("units") == "raw"
        for s, q in enumerate(cluster.counts):
            sums.append([ZERO, ZERO])
            for i, c in enumerate(cluster.capacities[s]):
                size = 1 if raw or not c else c
                sums[s] = [x + up_if(q * a / size) for x, a in zip(sums[s], self.requested(s, i), strict=True)]
        if aggregate.given.get("over") != "server":
            sums = [[up_if(exact_sum(pair[k] for pair in sums)) for k in (0, 1)]] * cluster.servers
        return [[up_if(x / sum(pair) * more) for x in pair] if any(pair) else [ONE, ZERO] for pair in sums]

    def parts(self, s: int, i: int, fractions: Sequence[Fraction]) -> list[Fraction]:
        """The units of a server's resource for its dominant users, and for the others."""
        c, requested = self.cluster.capacities[s][i], self.requested(s, i)
        if not all(requested):
            return [c if a else ZERO for a in requested]
        if (
            self.short(s, i) and requested[0] < fractions[0] * c
        ):  # a group that requests less than its part leaves the rest
            return [requested[0], c - requested[0]]
        if self.short(s, i) and requested[1] < fractions[1] * c:
            return [c - requested[1], requested[1]]
        return [f * c for f in fractions]

    def bases(self, base: Block, s: int, i: int) -> dict[int, Fraction]:
        """The positive bases of users for a resource of a server."""
        cluster, here, c = self.cluster, self.first[s], self.cluster.capacities[s][i]
        if base.name != "FairShareBase":
            if base.text not in cluster.given:
                raise CannotCheck(f"the bases of {base.text} are not in the file")
            found = {j: number(cluster.given[base.text][j][s][i], base.text) for j in here if c}
            return {j: b for j, b in found.items() if b > 0}
        found = {j: (max if k == i else min)(c / len(here), cluster.demands[j][s][i]) for j, k in here.items()}
        found = {j: b for j, b in found.items() if b > 0}
        total = sum(found.values())
        if base.given.get("growth") == "equal" and 0 < total < c:
            for users in self.split(s, i):
                members = [j for j in users if j in found]
                more = (c - total) / total * sum(found[j] for j in members)
                found |= {j: found[j] + more / len(members) for j in members}
        return found


class Group(NamedTuple):
    """Users who share a part of a resource on one of the equal servers of a row, with their bases and requests.

    ``most`` are the requests of ``members`` if these are limits. ``base`` are those of members with one.
    """

    server: int
    resource: int
    copies: int
    part: Fraction
    members: list[int]
    base: dict[int, Fraction]
    most: dict[int, Fraction]

    @property
    def price(self) -> Fraction:
        """The p with ``sum min(most, base / p) = part``; 0 if all requests are granted."""
        left, weight = self.part, exact_sum(self.base.values())
        for j in sorted(
            self.base if self.most else (), key=lambda j: self.most[j] / self.base[j]
        ):  # as they are reached
            if self.most[j] * weight > left * self.base[j]:
                break
            left, weight = left - self.most[j], weight - self.base[j]
        return weight / left if weight else weight

    def best(self, price: Fraction) -> dict[int, Fraction]:
        """The best bundles of members with a base at a price."""
        if not price:
            return {j: self.most[j] for j in self.base}
        return {j: min(b / price, self.most.get(j, b / price)) for j, b in self.base.items()}


def require_division(objective: Block, conditions: Sequence[Block]) -> None:
    """`CannotCheck` unless a policy divides each resource by itself."""
    logs = {term.text: term.name for factor, term in objective.terms if factor}
    aggregates = {c.text for c in conditions if c.name == "GlobalAggregateResource"}
    if (
        list(logs.values()) != ["WeightedLog"]
        or any(factor < 0 for factor, _ in objective.terms)
        or len(aggregates) > 1
        or not {c.name for c in conditions} <= {"GlobalAggregateResource", "AtMostRequested"}
    ):
        raise CannotCheck("weighted logarithms with other objectives or constraints are a cone program over bundles")


def groups_of_bundles(
    cluster: Cluster, objective: Block, conditions: Sequence[Block], exactly: bool = False
) -> Iterator[Group]:
    """The groups into which weighted logarithms separate: by server, resource and dominance."""
    require_division(objective, conditions)
    aggregates = {c.text: c for c in conditions if c.name == "GlobalAggregateResource"}
    names, log = {c.name for c in conditions}, next(term for factor, term in objective.terms if factor)
    base = log.given.get("base") or Block("FairShareBase", {}, "FairShareBase()")
    if base.name == "FairShareBase" and len({cluster.weights[j] for j in cluster.active}) > 1:
        raise Fault(f"{base.text} is not defined for unequal weights")
    choices = {"units": ("share", "raw"), "over": ("cluster", "server"), "growth": ("proportional", "equal")}
    for one in (base, *aggregates.values()):
        if one.text not in cluster.given and any(v not in choices.get(k, ()) for k, v in one.given.items()):
            raise Fault(f"{one.text} has an unknown parameter or value; known are {choices}")
    users = Dominance(cluster, exactly)
    fractions = next((users.fractions(c) for c in aggregates.values()), None)
    for s, q in enumerate(cluster.counts):
        for i, c in enumerate(cluster.capacities[s]):
            cluster.clock.check()
            bases, capped = users.bases(base, s, i), "AtMostRequested" in names and users.short(s, i)
            groups = users.split(s, i) if fractions else [list(users.first[s])]
            for members, part in zip(groups, users.parts(s, i, fractions[s]) if fractions else [c], strict=True):
                most = {j: cluster.demands[j][s][i] for j in members if capped}
                yield Group(s, i, q, part, members, {j: bases[j] for j in members if j in bases}, most)


def optimal_bundles(cluster: Cluster, objective: Block, conditions: Sequence[Block]) -> list[Table]:
    """The best bundles by user, server row and resource, without rounding."""
    bundles = [[[ZERO] * cluster.m for _ in range(cluster.servers)] for _ in range(cluster.n)]
    for group in groups_of_bundles(cluster, objective, conditions, exactly=True):
        if group.base and group.part <= 0:
            raise Fault("a user with a base has nothing, so the objective is minus infinity")
        for j, held in group.best(group.price).items():
            bundles[j][group.server][group.resource] = group.copies * held
    return bundles


def fitting(bundle: Table, demands: Table) -> list[Fraction]:
    """The tasks of a user that fit in its bundle, by server."""
    needs = [[(a, d) for a, d in zip(*pair, strict=True) if d] for pair in zip(bundle, demands, strict=True)]
    return [min((a / d for a, d in pairs), default=ZERO) for pairs in needs]


def tasks_in(cluster: Cluster, bundles: list[Table]) -> Table:
    """The tasks that fit in bundles, by user and server; those above a limit are left out alike on all servers."""
    table = []
    for bundle, demands, limit in zip(bundles, cluster.demands, cluster.limits, strict=True):
        fit = fitting(bundle, demands)
        total = exact_sum(fit)
        table.append([x * limit / total for x in fit] if limit is not None and total > limit else fit)
    return table


# -- hierarchical DRF -------------------------------------------------------------------------------------------------

TIE = Fraction(1, 10**9)  # relative: levels and limits this close are reached together
SAME = Fraction(1, 10**12)  # relative: capacities this close are full together, shares of a team are both dominant
PLACES = 1024  # binary places of `Bounds`
STOPPED, WAITING, RISING, ALONE = range(4)


class Bounds:
    """A number between two others with `PLACES` binary places. Factors and divisors are not negative."""

    __slots__ = ("high", "low")

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    @classmethod
    def of(cls, x: Fraction) -> Bounds:
        """The closest bounds of a fraction."""
        return cls((x.n << PLACES) // x.d, -((-x.n << PLACES) // x.d))

    def __float__(self) -> float:
        return float(Fraction(self.low + self.high, 2 << PLACES))

    def __add__(self, other: Bounds) -> Bounds:
        return Bounds(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Bounds) -> Bounds:
        return Bounds(self.low - other.high, self.high - other.low)

    def __mul__(self, other: Bounds) -> Bounds:
        low = self.low * (other.low if self.low >= 0 else other.high)
        high = self.high * (other.high if self.high >= 0 else other.low)
        return Bounds(low >> PLACES, -(-high >> PLACES))

    def __truediv__(self, other: Bounds) -> Bounds:
        if other.low <= 0:
            raise CannotCheck(f"{PLACES} binary places do not tell a rate from 0")
        low = (self.low << PLACES) // (other.high if self.low >= 0 else other.low)
        return Bounds(low, -((-self.high << PLACES) // (other.low if self.high >= 0 else other.high)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bounds) and self.low + self.high == other.low + other.high

    def __lt__(self, other: Bounds) -> bool:
        return self.low + self.high < other.low + other.high

    def __gt__(self, other: Bounds) -> bool:
        return other < self

    def __le__(self, other: Bounds) -> bool:
        return not self > other

    def __ge__(self, other: Bounds) -> bool:
        return not self < other

    __hash__ = None  # type: ignore[assignment]


class Sums:
    """Vectors in numbered places, and their sum: a change costs the logarithm of their number."""

    def __init__(self, vectors: Sequence[Any], nothing: Any) -> None:
        self.nothing, self.size = nothing, 1 << max(len(vectors) - 1, 0).bit_length()
        self.tree = [nothing] * self.size + [*vectors] + [nothing] * (self.size - len(vectors))
        for k in range(self.size - 1, 0, -1):
            self._add(k)

    def _add(self, k: int) -> None:
        left, right, nothing = self.tree[2 * k], self.tree[2 * k + 1], self.nothing
        if left is nothing or right is nothing:
            self.tree[k] = right if left is nothing else left
        else:
            self.tree[k] = [a + b for a, b in zip(left, right, strict=True)]

    def put(self, place: int, vector: Any) -> None:
        """Replace the vector of a place."""
        k = place + self.size
        self.tree[k] = vector
        while k > 1:
            k >>= 1
            self._add(k)

    @property
    def total(self) -> Any:
        """The sum of all vectors."""
        return self.tree[1]


class Leaf:
    """A user in the tree. Its level is its dominant share per weight; ``per`` are tasks per level.

    ``tasks`` are those it had when the level of its ``parent`` was ``at``. A task adds ``ratios`` to shares, and
    ``uses`` to rows; ``rate`` is both while its level rises by 1.
    """

    __slots__ = (
        "at",
        "limit",
        "number",
        "parent",
        "per",
        "place",
        "rate",
        "ratios",
        "serial",
        "state",
        "tasks",
        "uses",
    )

    def __init__(self, number: int, parent: Branch, per: Any, ratios: Any, uses: Any, limit: Any, tasks: Any) -> None:
        self.number, self.parent, self.per, self.ratios, self.uses = number, parent, per, ratios, uses
        self.rate = [per * g for g in (*ratios, *uses)]
        self.limit, self.tasks, self.at, self.place = limit, tasks, tasks, len(parent.children)
        self.state, self.serial = STOPPED, 0
        parent.children.append(self)


class Branch:
    """A team, or the root, in the tree.

    ``level`` is the smallest level of its children that can rise, and ``vector`` its shares of resources. Where its
    children rise without moving their shares, ``alone`` counts how far, and ``level`` stands still.
    """

    def __init__(self, number: int, parent: Branch | None, weight: Any) -> None:
        self.number, self.parent, self.weight = number, parent, weight
        self.children: list[Leaf | Branch] = []
        self.state, self.serial, self.place = STOPPED, 0, 0
        self.open = self.tied = self.still = 0  # children that can rise, that rise, and that rise alone
        self.level: Any = None
        self.alone: Any = None
        self.at: Any = None  # the parent's level, or its `alone`, at which this branch was brought up to date
        self.speed: Any = None  # how far it moves while that moves by 1
        self.vector: list[Any] = []
        self.stopped: list[Any] = []  # the shares of children that cannot rise
        self.rate: list[Any] = []
        self.growth: Any = None  # of its share
        self.next: Any = None  # the level, or `alone`, of its next event
        self.cause: int | None = None  # the resource of an event of its own; None: an event of a child
        self.sums: Any = None
        self.alone_sums: Any = None
        self.queue: list[tuple[Any, int, Leaf | Branch]] = []
        self.alone_queue: list[tuple[Any, int, Leaf | Branch]] = []
        self.held: list[Any] = []  # what its leaves use, where it has floors
        if parent is not None:
            self.place = len(parent.children)
            parent.children.append(self)

    @property
    def clock(self) -> Any:
        """Its level, or how far children rose alone."""
        return self.alone if self.still else self.level


def vector_of(child: Leaf | Branch) -> list[Any]:
    """The shares of resources that a child holds."""
    return [g * child.tasks for g in child.ratios] if isinstance(child, Leaf) else child.vector


class Forest(NamedTuple):
    """A tree of users and what they fill, as fractions.

    Branch 0 is the root, and ``parents`` of branches come before them. ``ratios`` (n_leaves, n_resources) are shares of
    total capacity per task; each further row is a coefficient per task of each leaf, of which a part is ``taken`` at
    first, and is full at 1. ``floors`` are shares by branch and resource.
    """

    parents: Sequence[int]
    weights: Sequence[Fraction]
    leaf_parents: Sequence[int]
    leaf_weights: Sequence[Fraction]
    ratios: Sequence[Sequence[Fraction]]
    limits: Sequence[Fraction | None]
    starts: Sequence[Fraction]
    rows: Sequence[Sequence[Fraction]]
    taken: Sequence[Fraction]
    floors: Mapping[int, Mapping[int, Fraction]]


class Event(NamedTuple):
    """What happened: the root's level, the ``cause`` (``limit``, ``full``, ``placement``), the index of the leaf,
    resource or row, and leaves that stopped.
    """

    level: float
    cause: str
    of: int
    leaves: tuple[int, ...]


class Filling:
    """Hierarchical DRF in numbers of one type: floats, `Fraction` or `Bounds`.

    A branch's share is the largest in its vector, saturated resources left out: the sum of its children's vectors, with
    those of children that can still rise scaled to the smallest level among these. The children of that level rise
    together; those whose share stands still meanwhile rise first, until it moves. Everything between two events is
    linear, and each branch has a clock of its own, so that an event changes its ancestors only.

    ``waited`` lists leaves that stopped without rising in the step before, with the tasks of all when that step began;
    after the floors are filled only if it is to ``watch``. With a ``tie`` of 0 only equal numbers are reached together.
    """

    def __init__(
        self,
        forest: Forest,
        make: Callable[[Fraction], Any],
        clock: Clock | None = None,
        watch: bool = False,
        tie: Fraction | None = None,
    ) -> None:
        self.forest, self.clock, self.watch = forest, clock or Clock(), watch
        self.zero, self.one = make(ZERO), make(ONE)
        self.tie, self.same = make(TIE if tie is None else tie), make(SAME if tie is None else tie)
        self.m, self.serial, self.again = len(forest.ratios[0]), 0, False
        self.n_rows = self.m + len(forest.rows)
        self.branches: list[Branch] = []
        for k, parent in enumerate(forest.parents):
            above = self.branches[parent] if k else None
            self.branches.append(Branch(k, above, make(forest.weights[k])))
        self.leaves: list[Leaf] = []
        for j, given in enumerate(forest.ratios):
            per, ratios = make(forest.leaf_weights[j] / max(given)), [make(g) for g in given]
            uses = ratios + [make(row[j]) for row in forest.rows]
            limit, start = forest.limits[j], make(forest.starts[j])
            parent_of = self.branches[forest.leaf_parents[j]]
            self.leaves.append(Leaf(j, parent_of, per, ratios, uses, None if limit is None else make(limit), start))
        self.nothing = [self.zero] * (self.m + self.n_rows)
        self.full = [False] * self.n_rows
        self.used = [self.zero] * self.m + [make(part) for part in forest.taken]
        for leaf in self.leaves:
            if leaf.tasks > self.zero:
                self.use(leaf, leaf.tasks)
        self.ended = [False] * len(self.leaves)  # at their limit, or stopped by a row
        self.fresh = True  # whether vectors of leaves that stopped are to be added up afresh
        self.floors = {k: {i: make(v) for i, v in of.items()} for k, of in forest.floors.items()}
        self.events: list[Event] = []
        self.before: list[Any] = []  # tasks when the last step began that was not tiny
        self.waited: list[tuple[list[Any], list[int]]] = []
        self.sleeps = [False] * len(self.leaves)
        self.unmet: dict[tuple[int, int], tuple[Any, Any]] = {}  # by branch and resource: what is held, and the floor

    # -- filling

    def run(self) -> list[Any]:
        """The tasks of each leaf at the end."""
        for _ in self.steps():
            self.clock.check()
        return [leaf.tasks for leaf in self.leaves]

    def steps(self) -> Iterator[None]:
        """Fill from event to event."""
        self.restart()
        while True:
            yield
            root = self.branches[0]
            if not root.open:
                if not self.floors:
                    return
                self.unmet, self.floors = self.short(), {}
                self.restart()
                continue
            upto, row = root.next, None
            filling = [(r, rate) for r, rate in enumerate(root.rate[self.m :]) if not self.full[r] and rate > self.zero]
            for r, rate in filling:
                at = root.clock + self.positive(self.one - self.used[r]) / rate
                if upto is None or at < upto:
                    upto, row = at, r
            if (self.watch or self.floors) and not self.reaches(upto, root.clock):
                self.before = self.now()
            self.advance(root, upto)
            # rows that are full at the same time as an event inside: after it, nobody who uses them may rise
            if row is not None or any(self.reaches(self.one, self.used[r], self.same) for r, _ in filling):
                self.restart(row)
            else:
                self.happen(root)
                if self.again:
                    self.restart()

    def now(self) -> list[Any]:
        """The tasks of each leaf; branches stay as they are, since numbers grow when they are brought up to date."""
        out = [leaf.tasks for leaf in self.leaves]
        clocks = [(branch.level, branch.alone) for branch in self.branches]
        for branch, (level, alone) in zip(self.branches, clocks, strict=True):
            for child in branch.children:
                if child.state in (STOPPED, WAITING):
                    continue
                moved = self.positive((level if child.state == RISING else alone) - child.at)
                if isinstance(child, Leaf):
                    out[child.number] = child.tasks + moved * child.per
                elif child.still:
                    clocks[child.number] = child.level, child.alone + moved * child.speed
                else:
                    clocks[child.number] = child.level + moved * child.speed, child.alone
        return out

    def use(self, leaf: Leaf, more: Any) -> None:
        """Count further tasks of a leaf in the rows."""
        self.used = [u + a * more if a > self.zero else u for u, a in zip(self.used, leaf.uses, strict=True)]

    def positive(self, x: Any) -> Any:
        """A difference that is negative by rounding only."""
        return x if x > self.zero else self.zero

    def reaches(self, a: Any, b: Any, near: Any = None) -> bool:
        """Whether a is at most b, but for `TIE` or another relative distance."""
        most = b + b * (self.tie if near is None else near)
        if type(a) is Bounds:
            if a.low > most.high:
                return False
            if a.high > most.low:
                raise CannotCheck(f"{PLACES} binary places do not tell which of two events comes first")
            return True
        return bool(a <= most)

    def advance(self, branch: Branch, to: Any) -> None:
        """Move a branch to a value of its clock."""
        by = self.positive(to - branch.clock)
        if by > self.zero:
            rate, m = branch.rate, self.m
            branch.vector = [v + r * by if r > self.zero else v for v, r in zip(branch.vector, rate, strict=False)]
            if branch.held:
                branch.held = [v + r * by for v, r in zip(branch.held, rate[m : 2 * m], strict=True)]
            if branch.parent is None:
                self.used = [v + r * by for v, r in zip(self.used, rate[m:], strict=True)]
        if branch.still:
            branch.alone = to
        else:
            branch.level = to

    def update(self, child: Leaf | Branch, parent: Branch) -> None:
        """Bring a child up to date with its parent's clock."""
        if child.state == RISING and isinstance(child, Leaf):
            child.tasks = child.tasks + self.positive(parent.level - child.at) * child.per
            child.at = parent.level
        elif isinstance(child, Branch) and child.state in (RISING, ALONE):
            now = parent.level if child.state == RISING else parent.alone
            self.advance(child, child.clock + self.positive(now - child.at) * child.speed)
            child.at = now

    def catch_up(self) -> None:
        """Bring all branches and leaves up to date."""
        for branch in self.branches:
            for child in branch.children:
                self.update(child, branch)

    def share(self, branch: Branch) -> Any:
        """The largest share of a resource that is not saturated."""
        largest = self.zero
        for v, full in zip(branch.vector, self.full, strict=False):
            if not full and v > largest:
                largest = v
        return largest

    def refresh(self, branch: Branch) -> None:
        """How fast a branch rises, and its next event, after a change inside it."""
        m = self.m
        branch.rate = rate = branch.alone_sums.total if branch.still else branch.sums.total
        branch.next, branch.cause, clock = None, None, branch.clock
        due, queue = self.due(branch), branch.alone_queue if branch.still else branch.queue
        while queue and queue[0][1] != queue[0][2].serial:
            heappop(queue)
        if queue:
            branch.next = queue[0][0]
        if due:
            branch.next = clock
        if branch.parent is not None:
            share, growth = self.share(branch), self.zero
            near = share - share * self.same
            free = [i for i in range(m) if not self.full[i]]
            for i in free:
                if rate[i] > growth and branch.vector[i] >= near:
                    growth = rate[i]
            branch.growth = growth
            faster = growth + growth * self.same
            for i in free:
                if rate[i] > faster:
                    self.offer(branch, clock + self.positive(share - branch.vector[i]) / (rate[i] - growth), i)
        if self.floors:
            for i, floor in self.floors.get(branch.number, {}).items():
                if (branch.number, i) not in self.unmet:
                    continue
                if self.reaches(floor, branch.held[i]):
                    self.again = True
                elif rate[m + i] > self.zero:
                    self.offer(branch, clock + self.positive(floor - branch.held[i]) / rate[m + i], m + i)

    def offer(self, branch: Branch, at: Any, cause: int) -> None:
        """An event of the branch itself, which counts if it comes before those known: another resource, or a floor."""
        if branch.next is None or at < branch.next:
            branch.next, branch.cause = at, cause

    def happen(self, branch: Branch) -> bool:
        """Let the next event inside a branch happen, with those at the same level; whether its share jumped."""
        if branch.cause is not None:
            if branch.cause < self.m:  # as large as the others, whatever the rounding
                branch.vector[branch.cause] = max(branch.vector[branch.cause], self.share(branch))
            self.refresh(branch)
            return False
        jumped, due = False, self.due(branch)
        if not due:
            jumped = self.inside(heappop(branch.alone_queue)[2], branch)
        while due:
            _, _, child = heappop(branch.queue)
            if child.state == WAITING:
                self.join(child, branch)
            elif isinstance(child, Leaf):
                self.update(child, branch)
                more, child.tasks = self.positive(child.limit - child.tasks), child.limit
                if more > self.zero:
                    self.use(child, more)
                self.end(child)
                self.stop(child, branch)
            else:
                jumped = self.inside(child, branch) or jumped
            due = self.due(branch)
        if jumped or (branch.open and not branch.tied):
            self.rebuild(branch)
            return True
        if branch.open:
            self.refresh(branch)
        return False

    def due(self, branch: Branch) -> bool:
        """Whether an event is due at the level of a branch, which comes before any child rises alone."""
        queue = branch.queue
        while queue and queue[0][1] != queue[0][2].serial:
            heappop(queue)
        return bool(queue) and self.reaches(queue[0][0], branch.level)

    def inside(self, child: Any, branch: Branch) -> bool:
        """Let the next event inside a child happen; whether its share jumped."""
        self.update(child, branch)
        self.advance(child, child.next)
        jumped = self.happen(child)
        if not child.open:
            self.stop(child, branch)
        elif not jumped:
            self.attach(child, branch)
        return jumped

    def end(self, leaf: Leaf) -> None:
        """A leaf is at its limit."""
        self.ended[leaf.number] = True
        self.record("limit", leaf.number, (leaf.number,))

    def join(self, child: Leaf | Branch, branch: Branch) -> None:
        """A child that waited rises from now on."""
        branch.tied += 1
        if isinstance(child, Leaf):
            self.rise(child, branch)
            branch.sums.put(child.place, child.rate)
        else:
            self.attach(child, branch)

    def rise(self, leaf: Leaf, branch: Branch) -> None:
        """Let a leaf rise with its parent, up to its limit."""
        leaf.state, leaf.at = RISING, branch.level
        self.serial += 1
        leaf.serial = self.serial
        if leaf.limit is not None:
            at = branch.level + self.positive(leaf.limit - leaf.tasks) / leaf.per
            heappush(branch.queue, (at, leaf.serial, leaf))

    def attach(self, child: Branch, branch: Branch) -> None:
        """Let a branch rise with its parent, or alone while its share stands still."""
        was, alone = child.state, not child.growth > self.zero
        if was == ALONE and not alone:
            branch.alone_sums.put(child.place, self.nothing)
            branch.still -= 1
        elif was != ALONE and alone:
            branch.sums.put(child.place, self.nothing)
            branch.still += 1
        adds = max(child.rate[self.m : 2 * self.m]) if alone else child.growth
        child.speed, child.state = child.weight / adds, ALONE if alone else RISING
        sums, queue, child.at = (
            (branch.alone_sums, branch.alone_queue, branch.alone)
            if alone
            else (branch.sums, branch.queue, branch.level)
        )
        sums.put(child.place, [r * child.speed if r > self.zero else r for r in child.rate])
        self.serial += 1
        child.serial = self.serial
        if child.next is not None:
            at = child.at + self.positive(child.next - child.clock) / child.speed
            heappush(queue, (at, child.serial, child))

    def stop(self, child: Leaf | Branch, branch: Branch) -> None:
        """A child that rose cannot rise any more."""
        branch.stopped = [a + b for a, b in zip(branch.stopped, vector_of(child), strict=True)]
        sums = branch.alone_sums if child.state == ALONE else branch.sums
        sums.put(child.place, self.nothing)
        branch.still -= child.state == ALONE
        branch.open, branch.tied, child.state = branch.open - 1, branch.tied - 1, STOPPED
        self.serial += 1
        child.serial = self.serial

    # -- jumps

    def rebuild(self, branch: Branch) -> None:
        """Compare the children of a branch afresh, and put its vector together from theirs."""
        m, levels = self.m, []
        rising = [child for child in branch.children if child.state != STOPPED]
        for child in rising:
            self.update(child, branch)
            if isinstance(child, Leaf):
                levels.append(child.tasks / child.per)
            else:
                levels.append(self.share(child) / child.weight)
        branch.level, branch.alone = min(levels), self.zero
        branch.tied = branch.still = 0
        branch.queue, branch.alone_queue = [], []
        rates = [self.nothing] * len(branch.children)
        vector, joining = list(branch.stopped), list[Leaf | Branch]()
        for child, level in zip(rising, levels, strict=True):
            if self.reaches(level, branch.level):
                joining.append(child)
                child.state = WAITING
                parts = vector_of(child)
            else:
                if isinstance(child, Leaf):
                    rates[child.place] = child.rate[:m] + self.nothing[m:]
                else:
                    scale = self.one / level
                    rates[child.place] = [v * scale for v in child.vector] + self.nothing[m:]
                parts = [v * branch.level for v in rates[child.place][:m]]
                child.state = WAITING
                self.serial += 1
                child.serial = self.serial
                branch.queue.append((level, child.serial, child))
            vector = [a + b for a, b in zip(vector, parts, strict=True)]
        branch.vector = vector
        for child in joining:
            if isinstance(child, Leaf):
                rates[child.place] = child.rate
        heapify(branch.queue)
        branch.sums = Sums(rates, self.nothing)
        branch.alone_sums = Sums([self.nothing] * len(branch.children), self.nothing)
        for child in joining:
            branch.tied += 1
            if isinstance(child, Leaf):
                self.rise(child, branch)
            else:
                self.attach(child, branch)
        self.refresh(branch)

    def restart(self, row: int | None = None) -> None:
        """Compare all levels afresh, after a row is full or a floor is met."""
        self.catch_up()
        self.again = False
        for leaf in self.leaves:
            if not self.ended[leaf.number] and leaf.limit is not None and self.reaches(leaf.limit, leaf.tasks):
                self.end(leaf)
        for r in range(self.n_rows):
            if not self.full[r] and (r == row or self.reaches(self.one, self.used[r], self.same)):
                self.fill(r)
        self.sleep()
        may_rise = [not (over or sleeps) for over, sleeps in zip(self.ended, self.sleeps, strict=True)]
        for branch in reversed(self.branches):
            if self.fresh:
                branch.stopped = [self.zero] * self.m
            branch.open = 0
            for child in branch.children:
                can = child.open > 0 if isinstance(child, Branch) else may_rise[child.number]
                if not can and (self.fresh or child.state != STOPPED):
                    branch.stopped = [a + b for a, b in zip(branch.stopped, vector_of(child), strict=True)]
                child.state = WAITING if can else STOPPED
                branch.open += can
            if branch.open:
                self.rebuild(branch)
            else:
                branch.vector = branch.stopped
        self.fresh = bool(self.floors)  # then leaves that sleep wake up later

    def fill(self, row: int) -> None:
        """A row is full: users of it stop."""
        self.full[row] = True
        stopped = [leaf.number for leaf in self.leaves if not self.ended[leaf.number] and leaf.uses[row] > self.zero]
        for j in stopped:
            self.ended[j] = True
        which = ("full", row) if row < self.m else ("placement", row - self.m)
        self.record(*which, tuple(stopped))
        if self.before and (self.watch or self.floors):
            waited = [j for j in stopped if not (self.sleeps[j] or self.leaves[j].tasks > self.before[j])]
            if waited:
                self.waited.append((self.before, waited))

    def short(self) -> dict[tuple[int, int], tuple[Any, Any]]:
        """Floors that are not reached, by branch and resource, with what is held; of branches with floors."""
        for k in self.floors:
            self.branches[k].held = [self.zero] * self.m
        for leaf in self.leaves:
            above: Branch | None = leaf.parent
            while above is not None:
                if above.number in self.floors:
                    above.held = [a + g * leaf.tasks for a, g in zip(above.held, leaf.ratios, strict=True)]
                above = above.parent
        return {
            (k, i): (self.branches[k].held[i], floor)
            for k, of in self.floors.items()
            for i, floor in of.items()
            if not self.reaches(floor, self.branches[k].held[i])
        }

    def sleep(self) -> None:
        """While floors are filled, leaves sleep that use no resource of which a team of theirs is short."""
        self.sleeps = [False] * len(self.leaves)
        if not self.floors:
            return
        wanted = [set[int]() for _ in self.branches]
        self.unmet = self.short()
        for k, i in self.unmet:
            wanted[k].add(i)
        for branch in self.branches[1:]:
            wanted[branch.number] |= wanted[branch.parent.number]  # type: ignore[union-attr]
        for leaf in self.leaves:
            self.sleeps[leaf.number] = not any(leaf.ratios[i] > self.zero for i in wanted[leaf.parent.number])

    def record(self, cause: str, of: int, leaves: tuple[int, ...]) -> None:
        """Keep an event."""
        self.events.append(Event(float(self.branches[0].level or self.zero), cause, of, leaves))


class Tree(NamedTuple):
    """The tree of a policy on a cluster: the users of its leaves, its branches by name, and the forest's first fields.

    Users who are alike in one branch are one leaf: those with the same demands on the same servers, and the same limit
    and guarantee per weight. Their levels are equal throughout, so that each has its part of the leaf by weight.
    """

    leaves: list[list[int]]
    names: list[str]
    parents: list[int]
    weights: list[Fraction]
    leaf_parents: list[int]
    leaf_weights: list[Fraction]
    user_weights: dict[int, Fraction]

    @property
    def parts(self) -> Iterator[tuple[int, int, Fraction]]:
        """Each user with its leaf, and its part of that."""
        for leaf, users in enumerate(self.leaves):
            for j in users:
                yield j, leaf, self.user_weights[j] / self.leaf_weights[leaf]

    @classmethod
    def of(cls, cluster: Cluster, policy: Block) -> Tree:
        """The tree of `HDRF`: users by their labels, the outermost first."""
        by, given = policy.given.get("by", ["team"]), dict(policy.given.get("weights") or {})
        labels = [cluster.teams.get(name) for name in by]
        if None in labels:
            raise Fault(f"users have no label {by[labels.index(None)]!r}")
        places, kinds = {"": 0}, dict[Any, int]()
        tree = cls([], [""], [0], [ONE], [], [], {})
        for j in cluster.active:
            parent = 0
            for of_user in labels:
                name = of_user[j]  # type: ignore[index]
                if name is None:
                    continue
                if name not in places:
                    places[name] = len(tree.names)
                    tree.names.append(name)
                    tree.parents.append(parent)
                    tree.weights.append(number(given.get(name, cluster.team_weights.get(name, 1)), "weights", 0))
                if tree.parents[places[name]] != parent:
                    raise Fault(f"team {name!r} is in two teams")
                parent = places[name]
            user = cluster.users[j]
            own = cluster.own_weights[j] if user in places else given.get(user, cluster.own_weights[j])
            tree.user_weights[j] = weight = number(own, "weights", 0)
            if not weight:
                raise Fault("a weight of the policy is 0")
            per_weight = (None if x is None else x / weight for x in (cluster.limits[j], cluster.low[j]))
            bounds = [x if x is None or not cluster.tie else significant(x) for x in per_weight]
            kind = parent, *cluster.demands[j][cluster.open[j][0]], *cluster.open[j], *bounds
            leaf = kinds.setdefault(kind, len(kinds))
            if leaf == len(tree.leaves):
                tree.leaves.append([])
                tree.leaf_parents.append(parent)
                tree.leaf_weights.append(ZERO)
            tree.leaves[leaf].append(j)
            tree.leaf_weights[leaf] += weight
        if not all(tree.weights):
            raise Fault("a weight of the policy is 0")
        if given.keys() - places.keys() - {*cluster.users}:
            raise Fault("weights name an unknown team or user")
        return tree

    def forest(
        self,
        cluster: Cluster,
        rows: Sequence[Mapping[tuple[int | str, int], Fraction]],
        floors: Mapping[str, Any] | None = None,
    ) -> Forest:
        """What the tree fills: all capacities, and rows; ``floors`` proves floors.

        A row has prices p by server and resource, and q by team and resource. At p a task costs at least its smallest
        cost a on a server, all tasks together at most the worth of the capacities. At q a task earns b, and all tasks
        together at least what the floors are worth. So ``sum (a - b)^+ x`` is at most the difference of the worths, and
        ``(b - a) T`` of users who earn more than they cost. Coefficients that are rounding errors are left out.
        """
        ratios, costs, taken = [], list[list[Fraction]](), list[Fraction]()
        firsts = [users[0] for users in self.leaves]
        for j in firsts:
            demands = cluster.demands[j][cluster.open[j][0]]
            ratios.append([d / c if c else ZERO for d, c in zip(demands, cluster.capacity, strict=True)])
        tops = [[t for j in users if (t := cluster.limits[j]) is not None] for users in self.leaves]
        limits = [exact_sum(some) if some else None for some in tops]
        starts = [exact_sum(cluster.low[j] for j in users) for users in self.leaves]
        given = (self.parents, self.weights, self.leaf_parents, self.leaf_weights, ratios, limits, starts)
        kept = dict[int, dict[int, Fraction]]()
        for name in cluster.team_guarantees:
            if name not in self.names:
                if any(j in cluster.active for j in cluster.members[name]):
                    raise Fault(f"the guarantee of {name!r} is of no team of the policy")
                continue
            units = floors_of(cluster, name, (floors or {}).get(name) or {})
            kept[self.names.index(name)] = {i: floor / cluster.capacity[i] for i, floor in units.items()}
        for prices in rows:
            on: dict[int | str, list[tuple[int, Fraction]]] = {}
            for (where, i), p in prices.items():
                on.setdefault(where, []).append((i, p))
            costs.append([])
            floor = exact_sum(
                p * kept[self.names.index(where)][i] * cluster.capacity[i]
                for (where, i), p in prices.items()
                if isinstance(where, str)
            )
            worth = exact_sum(p * cluster.room[s][i] for (s, i), p in prices.items() if isinstance(s, int))
            earning = [(of, {*cluster.members[name]}) for name, of in on.items() if isinstance(name, str)]
            for j, limit in zip(firsts, limits, strict=True):
                needs = cluster.demands[j]
                cost = min(exact_sum(p * needs[s][i] for i, p in on.get(s, ())) for s in cluster.open[j])
                earns = exact_sum(p * needs[cluster.open[j][0]][i] for of, team in earning if j in team for i, p in of)
                costs[-1].append(cost - earns if cost - earns > TIE * earns else ZERO)
                if earns > cost:
                    alone = exact_sum(cluster.tasks_alone(j, s) or ZERO for s in cluster.open[j])
                    worth += (earns - cost) * (alone if limit is None else min(limit, alone))
            if not worth:
                raise Fault("a row of the evidence has no prices")
            costs[-1] = [cost / worth for cost in costs[-1]]
            taken.append(floor / worth)
        return Forest(*given, costs, taken, kept)


def significant(x: Fraction) -> tuple[int, int]:
    """The exponent and the first binary places of a number that is not negative, which leave out rounding."""
    exponent = x.n.bit_length() - x.d.bit_length()
    exponent -= x < power_of_2(exponent)
    return (exponent, math.floor(x / power_of_2(exponent - SIGNIFICANT) + Fraction(1, 2))) if x else (0, 0)


def power_of_2(exponent: int) -> Fraction:
    """A power of 2 with an integer exponent."""
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def exactly(x: Fraction) -> Fraction:
    """The number itself."""
    return x


SIGNIFICANT = 38  # binary places of limits and guarantees per weight that are compared: far below `TIE`


def is_one_pool(cluster: Cluster) -> bool:
    """Whether all servers are equal and open to all users."""
    return all(row == cluster.capacities[0] for row in cluster.capacities[1:]) and all(
        len(cluster.open[j]) == cluster.servers for j in cluster.active
    )


# -- exact answers ----------------------------------------------------------------------------------------------------


class Number(NamedTuple):
    """What an exact objective compares: ``sum c x - base`` per weight, of a user or a team."""

    row: dict[Pair, Fraction]
    base: Fraction

    def at(self, tasks: Table) -> Fraction:
        """The number at tasks."""
        return exact_sum(v * tasks[j][s] for (j, s), v in self.row.items()) - self.base


def rational(low: Fraction, high: Fraction, what: str) -> Fraction:
    """A number that is known exactly; `CannotCheck` for others, which are enclosed only."""
    if low != high:
        raise CannotCheck(f"{what} is not rational")
    return low


def exact_coefficients(cluster: Cluster, share: Block) -> Table:
    """The share of one task by user and server, where it is rational."""
    below, above = cluster.coefficients(share)
    for j in cluster.active:
        for s in cluster.open[j]:
            rational(below[j][s], above[j][s], f"{share.text} of user {cluster.users[j]!r}")
    return below


def exact_numbers(cluster: Cluster, share: Block, levelled: bool) -> dict[str, Number]:
    """The numbers of a share by label, per weight if they are ``levelled``; without those in `Cluster.stays`."""
    c, out = exact_coefficients(cluster, share.of_user), dict[str, Number]()
    if share.name not in COMPOSED:
        for j in cluster.active:
            w = cluster.weights[j] if levelled else ONE
            out[str(cluster.users[j])] = Number({(j, s): c[j][s] / w for s in cluster.open[j]}, ZERO)
        return out
    compared = Numbers(cluster, share)
    for t, weight in compared.weights.items():
        w, base = weight if levelled else ONE, rational(*compared.base[t], f"what {share.text} of {t!r} is above")
        out[t] = Number({}, base / w)
    for j, t in compared.of_user.items():
        w = compared.weights[t] if levelled else ONE
        out[t].row.update({(j, s): c[j][s] / w for s in cluster.open[j]})
    stay = cluster.stays.get(share.text, set()) if levelled and share.name == "Surplus" else set()
    return {t: one for t, one in out.items() if t not in stay}


class ExactRanked(NamedTuple):
    """``factor`` times sorted numbers weighted by the decreasing v, the largest weight on the smallest number."""

    factor: Fraction
    v: list[Fraction]
    numbers: dict[str, Number]


class ExactGoal:
    """A piecewise linear concave function of the tasks: ``linear`` by pair, ``constant``, and ranked terms."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.constant = cluster, ZERO
        self.linear: dict[Pair, Fraction] = {}
        self.ranked: list[ExactRanked] = []

    def add(self, objective: Block, times: Fraction) -> None:
        """Add a multiple of an objective; `CannotCheck` for objectives with irrational optima."""
        cluster = self.cluster
        for factor, term in objective.terms:
            factor = factor * times
            if not factor:
                continue
            if term.name == "FairnessEfficiency" and term.given["beta"] == 1 and len(objective.terms) == 1:
                term = as_alpha_fair(term)
            if term.name in ("MaxMin", "OrderedWeighted"):
                compared = exact_numbers(cluster, term.share, True)
                if compared:
                    self.ranked.append(ExactRanked(factor, rank_weights(term, len(compared)), compared))
            elif term.name == "Total" or (term.name == "AlphaFair" and term.given["alpha"] == 0):
                for one in exact_numbers(cluster, term.share, False).values():
                    self.constant -= factor * one.base
                    for pair, v in one.row.items():
                        self.linear[pair] = self.linear.get(pair, ZERO) + factor * v
            else:
                raise CannotCheck(f"the optimum of {term.text} is not rational")

    def at(self, tasks: Table) -> Fraction:
        """The value at tasks."""
        total = self.constant + exact_sum(v * tasks[j][s] for (j, s), v in self.linear.items())
        for term in self.ranked:
            ordered = sorted(one.at(tasks) for one in term.numbers.values())
            total += term.factor * exact_sum(v * z for v, z in zip(term.v, ordered, strict=True))
        return total


KeptGoal = tuple[ExactGoal, Fraction]  # a goal, and the level that it keeps
EXACT_PRICES = ("prices", "rows", "kept", "mixtures")


def in_common(values: Iterable[Fraction]) -> list[Fraction]:
    """Fractions with one denominator, so that sums of their products stay fast."""
    reduced = [value.as_integer_ratio() for value in values]
    d = math.lcm(1, *(q for _, q in reduced))
    return [Fraction(n * (d // q), d) for n, q in reduced]


class ExactProof:
    """Prices by server and resource, and multipliers of rows, as a file gives them: ``[[s, i, "5/11"], ...]``."""

    def __init__(self, cluster: Cluster, entry: Mapping[str, Any], rows: Rows) -> None:
        self.cluster, self.rows_given = cluster, rows
        prices = {(s, i): fraction(p) for s, i, p in entry.get("prices") or ()}
        multipliers = {k: fraction(y) for k, y in entry.get("rows") or ()}
        places = cluster.usable_units()
        if prices.keys() - places.keys() or multipliers.keys() - {*range(len(rows))}:
            raise Fault("prices or multipliers are of unknown places or rows")
        if any(p < 0 for p in prices.values()) or any(y < 0 and not rows[k][2] for k, y in multipliers.items()):
            raise Fault("a price or a multiplier is negative")
        common = iter(in_common([*prices.values(), *multipliers.values()]))
        self.prices = {place: next(common) for place in prices}
        self.multipliers = {k: next(common) for k in multipliers}

    def bound(self, slopes: Mapping[Pair, Fraction]) -> Fraction:
        """The largest value of a linear function over all feasible tasks, at most, by weak duality."""
        cluster, rows = self.cluster, self.rows_given
        total = exact_sum(p * cluster.usable_units()[place] for place, p in self.prices.items())
        total += exact_sum(y * rows[k][1] for k, y in self.multipliers.items())
        of_rows: dict[Pair, Fraction] = {}
        for k, y in self.multipliers.items():
            for pair, v in rows[k][0].items():
                of_rows[pair] = of_rows.get(pair, ZERO) + y * v
        at_server: dict[int, list[tuple[int, Fraction]]] = {}
        for (s, i), p in self.prices.items():
            at_server.setdefault(s, []).append((i, p))
        for j in cluster.active:
            cluster.clock.check()
            nets = []
            for s in cluster.open[j]:
                need = cluster.demands[j][s]
                cost = exact_sum(p * need[i] for i, p in at_server.get(s, ()) if need[i])
                nets.append(slopes.get((j, s), ZERO) - cost - of_rows.get((j, s), ZERO))
            net = max(nets)
            if net > 0:
                high = cluster.high[j]
                alone = [cluster.tasks_alone(j, s, cluster.usable) for s in cluster.open[j]]
                most = high if high is not None or None in alone else exact_sum(filter(None, alone))
                if most is None:
                    raise Fault(f"the prices give no bound for user {cluster.users[j]!r}")
                total += net * most
            elif net < 0:
                total += net * cluster.low[j]
        return total


def slopes_of(weights: Mapping[str, Fraction], compared: Mapping[str, Number]) -> tuple[dict[Pair, Fraction], Fraction]:
    """A weighted sum of numbers as slopes by pair, and the weighted sum of bases."""
    slopes: dict[Pair, Fraction] = {}
    for t, weight in weights.items():
        for pair, v in compared[t].row.items():
            slopes[pair] = slopes.get(pair, ZERO) + weight * v
    return slopes, exact_sum(weight * compared[t].base for t, weight in weights.items())


def weights_given(entry: Any, compared: Mapping[str, Number]) -> dict[str, Fraction]:
    """Weights of numbers as a file gives them, in a common denominator."""
    found = {str(t): fraction(v) for t, v in dict(entry).items()}
    if found.keys() - compared.keys() or any(v < 0 for v in found.values()):
        raise Fault("a weight is negative, or of an unknown user or team")
    return dict(zip(found, in_common(found.values()), strict=True))


def prove_levels(
    cluster: Cluster, compared: Mapping[str, Number], rows: Rows, kept: Sequence[KeptGoal], entries: Any
) -> dict[str, Fraction]:
    """The levels of numbers at every leximin optimum, by prices for each level from the lowest up.

    At prices of a level, ``sum_t pi_t z_t`` has a bound. Numbers of earlier levels are fixed, so the smallest of the
    others is at most what the bound leaves, per price. The tasks reach it; so does every optimum, in which all others
    with a price are at that level too.
    """
    fixed: dict[str, Fraction] = {}
    at = {t: one.at(cluster.tasks) for t, one in compared.items()}
    for k, entry in enumerate(entries):
        check_keys(entry, ("of_numbers", *EXACT_PRICES), f"level {k} of the exact proof")
        pi, others = weights_given(entry["of_numbers"], compared), compared.keys() - fixed.keys()
        new = {t: p for t, p in pi.items() if t in others and p}
        if not new:
            raise Fault(f"level {k} of the exact proof has no price of a number that it fixes")
        slopes, base = slopes_of(pi, compared)
        left = exact_bound(cluster, slopes, [], rows, kept, entry) - base
        left -= exact_sum(p * fixed[t] for t, p in pi.items() if t in fixed)
        level = min(at[t] for t in others)
        if left > level * exact_sum(new.values()):
            raise Fault(f"level {k} of the exact proof: the prices do not prove {exact_text(level)}")
        if any(at[t] != level for t in new):
            raise Fault(f"level {k} of the exact proof: not all numbers that it fixes are at it")
        fixed |= dict.fromkeys(new, level)
    return fixed


def prove_goal(cluster: Cluster, goal: ExactGoal, rows: Rows, kept: Sequence[KeptGoal], entry: Any) -> None:
    """Prove that the tasks maximise a goal, by prices, multipliers and mixtures of ranked terms."""
    top = exact_bound(cluster, goal.linear, goal.ranked, rows, kept, entry) + goal.constant
    value = goal.at(cluster.tasks)
    if top > value:
        raise Fault(f"the prices prove at most {exact_text(top)}, and the tasks reach {exact_text(value)}")


def exact_bound(
    cluster: Cluster,
    linear: Mapping[Pair, Fraction],
    ranked: Sequence[ExactRanked],
    rows: Rows,
    kept: Sequence[KeptGoal],
    entry: Any,
) -> Fraction:
    """The largest value of a linear function plus ranked terms, at most, where goals are ``kept`` above levels."""
    times = [fraction(y) for y in entry.get("kept") or ["0"] * len(kept)]
    if len(times) != len(kept) or any(y < 0 for y in times):
        raise Fault("multipliers of kept levels are missing or negative")
    slopes, constant, terms = dict(linear), ZERO, [(ONE, term) for term in ranked]
    for y, (other, level) in zip(times, kept, strict=True):
        constant += y * (other.constant - level)
        for pair, v in other.linear.items():
            slopes[pair] = slopes.get(pair, ZERO) + y * v
        terms += [(y, term) for term in other.ranked]
    mixtures = entry.get("mixtures") or [{}] * len(terms)
    if len(mixtures) != len(terms):
        raise Fault(f"mixtures: there are {len(mixtures)}, not {len(terms)}")
    for (y, term), given in zip(terms, mixtures, strict=True):
        weights = dict.fromkeys(term.numbers, ZERO) | weights_given(given, term.numbers)
        mine = theirs = ZERO
        for a, b in zip(sorted(weights.values()), sorted(term.v), strict=True):
            mine, theirs = mine + a, theirs + b * term.factor * y
            if mine < theirs:
                raise Fault("mixtures: the weights do not bound sorted numbers")
        some, base = slopes_of(weights, term.numbers)
        constant -= base
        for pair, v in some.items():
            slopes[pair] = slopes.get(pair, ZERO) + v
    return ExactProof(cluster, entry, rows).bound(slopes) + constant


def exact_text(value: Fraction) -> str:
    """A fraction as ``5/11``, or its float if it is long."""
    n, d = value.as_integer_ratio()
    return str(n) if d == 1 else f"{n}/{d}" if d < 10**12 else f"{float(value):.12g}"


def broken_exactly(cluster: Cluster, rows: Rows, kept: Sequence[KeptGoal] = ()) -> list[str]:
    """What tasks violate, without any tolerance."""
    tasks, faults = cluster.tasks, list[str]()
    for (s, i), usable in cluster.usable_units().items():
        if cluster.load(s, i) > usable:
            faults.append(f"{cluster.resources[i]!r} on server {s}: tasks exceed the capacity")
    for j, user in enumerate(cluster.users):
        total, high, limit = cluster.total(j), cluster.high[j], cluster.limits[j]
        if min(tasks[j], default=ZERO) < 0 or any(
            tasks[j][s] for s in range(cluster.servers) if s not in cluster.open[j]
        ):
            faults.append(f"user {user!r} has negative tasks, or tasks where it may not run")
        if (limit is not None and total > limit) or (high is not None and total > high) or total < cluster.low[j]:
            faults.append(f"user {user!r} runs {exact_text(total)} tasks, outside its bounds")
    for k, (of_pairs, bound, equal) in enumerate(rows):
        excess = exact_sum(v * tasks[j][s] for (j, s), v in of_pairs.items()) - bound
        if excess > 0 or (equal and excess):
            faults.append(f"row {k} of the policy's constraints is violated")
    return faults + ["a level is not kept" for goal, level in kept if goal.at(tasks) < level]


class ExactTier(NamedTuple):
    """A tier: the leximin of ``compared`` numbers, or else a goal, under rows and kept levels of other goals.

    Where nobody can rise above the base of a surplus the goal is a total that nobody changes, and the value 0.
    """

    rows: Rows
    kept: list[KeptGoal]
    compared: dict[str, Number] | None
    goal: ExactGoal
    of_nobody: bool = False

    def value(self, tasks: Table) -> Fraction:
        """The value of the goal at tasks, or the smallest number."""
        if self.of_nobody:
            return ZERO
        if self.compared is None:
            return self.goal.at(tasks)
        return min((one.at(tasks) for one in self.compared.values()), default=ZERO)


def exact_tiers(
    cluster: Cluster, policy: Block, settle: Callable[[int, Block, ExactTier], set[str]]
) -> Iterator[ExactTier]:
    """The tiers of a policy in rational numbers; each leaves its rows for the next, at `Cluster.tasks` by then.

    ``settle`` gives those numbers of a tier's surplus that cannot rise above their base.
    """
    rows, kept = guaranteed(cluster), list[KeptGoal]()
    for condition in policy.given.get("constraints", []):
        rows = rows + cluster.impose(condition)
    for objective, level, _ in cluster.kept_levels:  # of conditions such as OrderedWeighted(...) >= 1
        limited = ExactGoal(cluster)
        limited.add(objective, ONE)
        kept.append((limited, level))
    for k, objective in enumerate(tiers_of(policy.given["objective"])):
        for _, term in objective.terms:
            base = Numbers(cluster, term.share).kept if term.share.name in COMPOSED else {}
            for j, x in base.items():
                cluster.low[j] = max(cluster.low[j], x)
        for _, term in objective.terms:
            if is_surplus(term):
                compared = exact_numbers(cluster, term.share, True)
                stays = settle(k, term.share, ExactTier(rows, kept, compared, ExactGoal(cluster)))
                cluster.stays.setdefault(term.share.text, set()).update(stays)
        of_nobody = len(objective.terms) == 1 and is_surplus(term) and not exact_numbers(cluster, term.share, True)
        if of_nobody:
            objective = Block("Total", {"share": term.share.share}, objective.text)  # as in `of_those_who_rise`
        goal, numbered = ExactGoal(cluster), None
        _, first = as_max_min(objective)
        if first.name == "Leximin":
            numbered = exact_numbers(cluster, first.share, True)
        else:
            goal.add(objective, ONE)
        yield ExactTier(rows, kept, numbered, goal, of_nobody)
        if numbered is not None:
            rows = rows + [kept_row(one, one.at(cluster.tasks)) for one in numbered.values()]
        elif first.name == "MaxMin":
            numbered = exact_numbers(cluster, first.share, True)
            level = min((one.at(cluster.tasks) for one in numbered.values()), default=ZERO)
            rows = rows + [kept_row(one, level) for one in numbered.values()]
        elif not goal.ranked:
            rows = [*rows, kept_row(whole := Number(goal.linear, ZERO), whole.at(cluster.tasks))]
        else:
            kept = [*kept, (goal, goal.at(cluster.tasks))]


def at_base(cluster: Cluster, objective: Block) -> dict[str, dict[str, Number]]:
    """The numbers of each surplus that an objective ranks, if some of them are at their base."""
    shares = {term.share.text: term.share for _, term in objective.terms if is_surplus(term)}
    ranked = {text: exact_numbers(cluster, share, True) for text, share in shares.items()}
    return {text: of for text, of in ranked.items() if not all(one.at(cluster.tasks) for one in of.values())}


def prove_rise(cluster: Cluster, objective: Block, tier: ExactTier, given: Mapping[str, Any]) -> None:
    """Prove that the numbers of an objective that are at their base could rise, by tasks at which all are above it."""
    for text, compared in at_base(cluster, objective).items():
        who = min(t for t, one in compared.items() if not one.at(cluster.tasks))
        with cluster.at(table_of(cluster, given.get(text) or ())):
            above = all(one.at(cluster.tasks) > 0 for one in compared.values())
            if not above or broken_exactly(cluster, tier.rows, tier.kept):
                raise Fault(f"{text}: {who!r} is at its base, and nothing proves that it can rise")


def table_of(cluster: Cluster, tasks: Iterable[tuple[int, int, str]]) -> Table:
    """Tasks by user and server from a list of those that are not 0."""
    table = [[ZERO] * cluster.servers for _ in range(cluster.n)]
    for j, s, x in tasks:
        table[j][s] += fraction(x)
    return table


def kept_row(one: Number, level: Fraction) -> Row:
    """A row that keeps a number at a level or above it."""
    return {pair: -v for pair, v in one.row.items()}, -(level + one.base), False


def exact_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """The instance of a file and its tasks in fractions, and what proves floors.

    Nothing else of the answer in floats is used: neither `Cluster.binding`, which would leave out pairs of `EnvyFree`,
    nor coefficients that are given in floats.
    """
    given, floats = data["exact"], data["instance"]
    check_keys(given, ("read", "tasks", "proof", "floors"), "the exact part of the file")
    read = {key: dict(of) for key, of in (given.get("read") or {}).items()}
    for key, of in read.items():
        for printed, text in of.items():
            if not rounds_to(fraction(text), float(printed)):
                raise Fault(f"{key}: {printed} is read as {short(text)}, which rounds to another number")
    instance = {key: in_fractions(v, read.get(key, {})) if key in NUMBERS else v for key, v in floats.items()}
    tasks = [[fraction(x) for x in row] for row in given["tasks"]]
    return {"instance": instance, "tasks_by_server": tasks, "floors": exact_floors(given.get("floors") or {})}


def rounds_to(value: Fraction, rounded: float) -> bool:
    """Whether a float of 64 or 32 bits is a fraction's nearest."""
    near = float(value)
    return near == rounded or (abs(near) < FLOAT32 and struct.unpack("f", struct.pack("f", near))[0] == rounded)


def exact_floors(floors: Mapping[str, Any]) -> dict[str, Any]:
    """Proofs of the floors of teams with their texts as fractions."""
    return {
        team: {
            of: {
                "tasks": [[j, s, fraction(x)] for j, s, x in use.get("tasks") or ()],
                "prices": [fraction(p) for p in use["prices"]],
            }
            for of, use in proofs.items()
        }
        for team, proofs in floors.items()
    }


def proved_exactly(data: Mapping[str, Any], clock: Clock) -> tuple[Fraction, str, list[str]]:
    """The gap of an exact answer, which is 0, how its numbers are read, and what it violates."""
    if data.get("placement") is not None:
        raise Fault("an exact answer has no placement of whole tasks")
    cluster = Cluster(exact_data(data), clock)
    for j, row in enumerate(numbers(data["tasks_by_server"], "tasks_by_server", cluster.n, cluster.servers)):
        if any(float(x) != float(exact) for x, exact in zip(row, cluster.tasks[j], strict=True)):
            raise Fault(f"the tasks of user {cluster.users[j]!r} are not those of the exact answer, rounded")
    proof = data["exact"]["proof"]
    if data.get("bundles") is not None:
        shape = cluster.n, cluster.servers, cluster.m
        pairs = zip(numbers(data["bundles"], "bundles", *shape), proof[0]["bundles"], strict=True)
        if any(
            [list(map(float, row)) for row in of_user] != [[float(fraction(a)) for a in row] for row in exact]
            for of_user, exact in pairs
        ):
            raise Fault("the bundles are not those of the exact answer, rounded")
    policy = block(str(data["policy"]), exactly=True)
    faults, value = prove_exactly(cluster, policy, proof)
    stored = data.get("objective")
    if not faults and value is not None and stored is not None and stored != float(value):
        raise Fault(f"objective is {stored!r} in the file, but {float(value)!r} at its tasks")
    if not faults and decides_bundles(policy):
        check_objective(cluster, policy.given["objective"], data)
    read = "as the Fractions given, others " if data["exact"].get("read") else ""
    return ZERO, f", with numbers read {read}as the shortest decimals that print them", faults


def prove_exactly(cluster: Cluster, policy: Block, proof: Sequence[Any]) -> tuple[list[str], Fraction | None]:
    """Prove that the tasks of a cluster read by `exact_data` are optimal; what they violate, and the objective's value.

    `Fault` if they are not proved. Of several tiers, the value is that of the first; None for mechanisms and bundles.
    """
    cluster.tie, flat = ZERO, [x for row in cluster.tasks for x in row]
    if policy.name == "HDRF":
        return prove_filling_exactly(cluster, policy, proof[0] if proof else {}), None
    if decides_bundles(policy):
        return prove_bundles_exactly(cluster, policy, proof[0]["bundles"]), None
    common = in_common(flat)
    if common and common[0].d.bit_length() <= 2 * max(x.d.bit_length() for x in flat):  # sums need no common divisors
        cluster.tasks = [common[k : k + cluster.servers] for k in range(0, len(flat), cluster.servers)]

    def settle(k: int, share: Block, tier: ExactTier) -> set[str]:
        levels = (proof[k].get("at_base") or {}).get(share.text) or ()
        fixed = prove_levels(cluster, tier.compared or {}, tier.rows, tier.kept, levels)
        if any(fixed.values()):
            raise Fault(f"{share.text}: a number that leaves is above its base")
        return {*fixed}

    value, objectives = ZERO, tiers_of(policy.given["objective"])
    for k, tier in enumerate(exact_tiers(cluster, policy, settle)):
        check_keys(proof[k], ("at_base", "rising", "levels", *EXACT_PRICES), f"tier {k} of the exact proof")
        if faults := broken_exactly(cluster, tier.rows, tier.kept):
            return faults, None
        value = value if k else tier.value(cluster.tasks)
        if tier.compared is None:
            prove_goal(cluster, tier.goal, tier.rows, tier.kept, proof[k])
            prove_rise(cluster, objectives[k], tier, proof[k].get("rising") or {})
            continue
        proved = prove_levels(cluster, tier.compared, tier.rows, tier.kept, proof[k]["levels"])
        if left := tier.compared.keys() - proved.keys():
            raise Fault(f"nothing proves the level of {min(left)!r}")
    return [], value


def decides_bundles(policy: Block) -> bool:
    """Whether a policy maximises weighted logarithms of bundles."""
    objective = policy.given.get("objective")
    return isinstance(objective, Block) and any(term.name == "WeightedLog" for _, term in objective.terms)


def prove_bundles_exactly(cluster: Cluster, policy: Block, given: Any) -> list[str]:
    """Compare bundles and tasks with the best ones, computed again; `Fault` if they differ."""
    objective, conditions = policy.given["objective"], policy.given.get("constraints", [])
    if any(cluster.guarantees) or cluster.team_guarantees:
        raise CannotCheck("its instance has guarantees")
    best = optimal_bundles(cluster, objective, conditions)
    bundles = [[[fraction(a) for a in row] for row in of_user] for of_user in given]
    runs = tasks_in(cluster, best)
    for user, own, other, tasks, fit in zip(cluster.users, bundles, best, cluster.tasks, runs, strict=True):
        if own != other or tasks != fit:
            raise Fault(f"user {user!r} does not have the best bundle, or not the tasks that fit in it")
    return broken_exactly(cluster, [])


def fill_exactly(
    cluster: Cluster, policy: Block, rows: Sequence[Mapping[tuple[int | str, int], Fraction]]
) -> tuple[Tree, Forest, Filling, list[Fraction]]:
    """The tree of `HDRF` filled without tolerances under rows of prices, and the tasks of its leaves."""
    if cluster.team_guarantees:
        raise CannotCheck("guarantees of teams are filled by tolerances")
    tree = Tree.of(cluster, policy)
    forest = tree.forest(cluster, rows)
    filling = Filling(forest, exactly, cluster.clock, not is_one_pool(cluster), ZERO)
    return tree, forest, filling, filling.run()


def prove_filling_exactly(cluster: Cluster, policy: Block, entry: Mapping[str, Any]) -> list[str]:
    """Compare tasks with those of `HDRF`, filled again under the rows of the evidence; `Fault` if they differ.

    As the tasks fit, rows that bound all tasks that fit stop nobody too late; a user who waits when it is stopped is
    shown to have had room until then.
    """
    check_keys(entry, ("rows", "placements", "states"), "the exact proof")
    if not cluster.active:
        return broken_exactly(cluster, [])
    rows: list[dict[tuple[int | str, int], Fraction]] = []
    for row in entry.get("rows") or ():
        rows.append({(int(s), int(i)): fraction(p) for s, i, p in row})
        if any(p < 0 for p in rows[-1].values()):
            raise Fault("a price is negative")
    tree, _, filling, found = fill_exactly(cluster, policy, rows)
    for j, leaf, part in tree.parts:
        if cluster.total(j) != found[leaf] * part:
            raise Fault(
                f"user {cluster.users[j]!r} does not run the {exact_text(found[leaf] * part)} tasks of the filling"
            )
    placements = entry.get("placements") or ()
    for k, (tasks, waiting) in enumerate(filling.waited):
        if k >= len(placements) or not has_room_exactly(cluster, tree, tasks, waiting, placements[k]):
            user = cluster.users[tree.leaves[waiting[0]][0]]
            raise Fault(f"user {user!r} is stopped while it waits, but not shown to have had room before")
    return broken_exactly(cluster, [])


def has_room_exactly(
    cluster: Cluster, tree: Tree, tasks: Sequence[Fraction], waiting: Sequence[int], placement: Any
) -> bool:
    """Whether a placement fits in which leaves have their tasks and those that wait have more."""
    table = table_of(cluster, placement)
    if any(x < 0 or (x and s not in cluster.open[j]) for j, row in enumerate(table) for s, x in enumerate(row)):
        return False
    with cluster.at(table):
        fits = all(cluster.load(s, i) <= room for s, row in enumerate(cluster.room) for i, room in enumerate(row))
        runs = [exact_sum(map(cluster.total, users)) for users in tree.leaves]
    pairs = zip(runs, tasks, strict=True)
    return fits and all(x > least if k in waiting else x >= least for k, (x, least) in enumerate(pairs))


# -- files ------------------------------------------------------------------------------------------------------------


def in_goal_units(cluster: Cluster, objective: Block, level: Fraction) -> Fraction:
    """A level of an objective in the units of `Goal`, whose utilities differ by Box-Cox's constant."""
    for factor, term in objective.terms:
        alpha = number(term.given["alpha"], "alpha") if term.name == "AlphaFair" else ONE
        if alpha not in (0, 1):
            of = Numbers(cluster, term.share, levelled=True) if term.share.name in COMPOSED else None
            weights = of.weights.values() if of else (cluster.weights[j] for j in cluster.active)
            level -= factor * exact_sum(weights) / (1 - alpha)
    return level


def value_of(cluster: Cluster, objective: Block, scale: Fraction = ONE) -> Fraction:
    """A lower bound on the value of an objective at the current tasks times ``scale``."""
    goal = Goal(cluster)
    goal.add(objective, ONE)
    return goal.value(scale)


def objective_value(cluster: Cluster, term: Block, bundles: list[Table]) -> tuple[Fraction, Fraction]:
    """The value of a one-term objective, and its change per relative error in tasks and logarithms."""
    if term.name == "WeightedLog":
        users, base = Dominance(cluster), term.given.get("base") or Block("FairShareBase", {}, "FairShareBase()")
        logs = [
            (q * b, Fraction(approximate_log(bundles[j][s][i] / q)))
            for s, q in enumerate(cluster.counts)
            for i in range(cluster.m)
            for j, b in users.bases(base, s, i).items()
        ]
        return exact_sum(b * v for b, v in logs), exact_sum(b * (1 + abs(v)) for b, v in logs)
    if term.name == "FairnessEfficiency":
        return measure(cluster, term, cluster.shares(cluster.coefficients(term.share)[0]))
    compared = Numbers(cluster, term.share, is_levelled(term))
    shares, weights = compared.values(), compared.weights
    alpha = number(term.given["alpha"], "alpha", 0) if term.name == "AlphaFair" else ZERO
    if is_linear(term):
        value = exact_sum(shares.values())
        return value, value
    levels = {t: share / weights[t] for t, share in shares.items()}
    if alpha == 1:
        logs = [(weights[t], Fraction(approximate_log(z))) for t, z in levels.items()]
        return exact_sum(w * v for w, v in logs), exact_sum(w * (1 + abs(v)) for w, v in logs)
    if term.name == "AlphaFair":
        value = exp(log_of_powers(weights, levels, 1 - alpha)) / (1 - alpha) if any(levels.values()) else ZERO
        return value, abs(value) * (1 + abs(1 - alpha))
    v = [number(x, "a weight", 0) for x in as_list(term.given.get("weights", 1))]
    ordered = sorted(levels.values()) if len(v) > 1 else [min(levels.values())]
    value = exact_sum(x * z for x, z in zip(v, ordered, strict=False))
    return value, value


def measure(cluster: Cluster, term: Block, shares: Mapping[int, Fraction]) -> tuple[Fraction, Fraction]:
    """`objective_value` of ``sgn(1 - beta) (sum_j w_j (s_j / (w_j S))^(1 - beta))^(1 / beta) S^lam``."""
    beta, lam, total = number(term.given["beta"], "beta"), number(term.given["lam"], "lam"), exact_sum(shares.values())
    even = (
        log_of_powers(
            dict(enumerate(cluster.weights)), {j: s / (cluster.weights[j] * total) for j, s in shares.items()}, 1 - beta
        )
        / beta
    )
    efficient = lam * log(total).low
    value = exp(even + efficient) * (1 if beta <= 1 else -1)
    return value, abs(value) * (1 + abs(even) + abs(efficient))


def log_of_powers(weights: Mapping[Any, Fraction], levels: Mapping[Any, Fraction], q: Fraction) -> Fraction:
    """The logarithm of ``sum_j w_j z_j^q`` for levels z, with ``0^0 = 1``."""
    weight = exact_sum(weights[t] for t in levels)
    mean = power_mean(levels, {t: weights[t] / weight for t in levels}, q).low if q else ONE
    return log(weight).low + q * log(mean).low


def exp(x: Fraction) -> Fraction:
    """The exponential; arguments are clipped beyond the range of floats."""
    return Fraction(DOWN.exp(_decimals(max(min(x, Fraction(800)), Fraction(-800)))[0]))


def check_objective(cluster: Cluster, objective: Block, data: Mapping[str, Any]) -> None:
    """Refuse a stored objective that differs from the value at the tasks by more than rounding."""
    stored = data.get("objective")
    if stored is None:
        return
    if not isinstance(stored, (int, float)) or isinstance(stored, bool) or math.isnan(stored):
        raise Fault(f"objective is {short(repr(stored))}, not a number")
    value = size = ZERO
    bundles = data.get("bundles") and numbers(data["bundles"], "bundles", cluster.n, cluster.servers, cluster.m)
    of_nobody = not cluster.active or of_those_who_rise(cluster, objective) is not objective
    for factor, term in () if of_nobody else objective.terms:
        cluster.clock.check()
        if factor:
            part, unit = objective_value(cluster, term, bundles or [])
            value, size = value + factor * part, size + factor * unit
    overflows = math.isinf(stored) and abs(value) > HUGE and (value > 0) == (stored > 0)
    if not overflows and (math.isinf(stored) or abs(Fraction(stored) - value) > VIOLATION * size + LEAST_FLOAT):
        raise Fault(f"objective is {stored:.12g} in the file, but {float(value):.12g} at its tasks")


def gap_by_prices(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of a sum of objectives, by prices."""
    unit = number(entry.get("unit", 1), "unit")
    if unit <= 0 or (unit != 1 and len(objective.terms) > 1):
        raise Fault("unit is not positive, or is not 1 for a sum of objectives")
    alone, bounded = Goal(cluster), Goal(cluster)
    for goal in (alone, bounded):
        goal.add(objective, ONE, unit)
    evidence = Evidence(cluster, entry, rows, len(cluster.kept_levels))
    bounded.add_kept_levels(evidence)
    return relative_gap(objective, alone, bound(bounded, evidence, evidence.right_hand_side(cluster.usable_units())))


def gap_by_lines(cluster: Cluster, objective: Block, rows: Rows, entry: Mapping[str, Any]) -> Fraction:
    """The gap of `FairnessEfficiency` alone, by lines."""
    if len(objective.terms) > 1:
        raise Fault("lines are no evidence for a sum of objectives")
    return Plane(cluster, objective.terms[0][1], rows).gap(entry)


class Kind(NamedTuple):
    """A kind of evidence: the ``objectives`` it proves (alone, or with ``terms`` in sums), the constraint that it
    ``needs``, its ``keys``, and its gap.
    """

    objectives: tuple[str, ...]
    terms: bool
    needs: str
    keys: tuple[str, ...]
    gap: Callable[[Cluster, Block, Rows, Mapping[str, Any]], Fraction]


PRICES = ("prices", "rows", "kept", "mixtures")
LEVEL = ("users", *PRICES, "costs")
NUMBER_LEVEL = ("numbers", "of_numbers", "prices", "rows")
LINE = ("levels", "slope", "kind", "unit", *PRICES)
SUMS = ("Total", "AlphaFair", "MaxMin", "OrderedWeighted", "FairnessEfficiency")
KINDS = {
    "bottlenecks": Kind(("Leximin", "MaxMin"), False, "", (), gap_by_bottlenecks),
    "pulled": Kind(("Leximin", "MaxMin"), False, "EnvyFree", (), gap_by_envy),
    "levels": Kind(("Leximin", "MaxMin"), False, "", ("levels",), gap_by_levels),
    "number levels": Kind(("Leximin",), False, "", ("levels",), gap_by_number_levels),
    "prices": Kind(SUMS, True, "", ("unit", "at", *PRICES), gap_by_prices),
    "lines": Kind(("FairnessEfficiency",), True, "", ("lines", "largest", "smallest"), gap_by_lines),
}
# keys of a file, and of its instance
FILE = (
    "format",
    "policy",
    "objective",
    "certificate",
    "instance",
    "tasks_by_server",
    "prices",
    "bundles",
    "evidence",
    "placement",
    "variables",
    "multipliers",
    "given",
    "proof",
    "binding",
    "floors",
    "exact",
)
INSTANCE = (
    "users",
    "resources",
    "servers",
    "server_types",
    "units",
    "demands",
    "capacities",
    "weights",
    "task_limits",
    "eligible",
    "counts",
    "rates",
    "teams",
    "guarantees",
    "held",  # read by no policy
)
FORMATS = ("fairopt.allocation/3", "fairopt.allocation/2", "fairopt.allocation/1")


def check_keys(entry: Mapping[str, Any], keys: Iterable[str], what: str) -> None:
    """Refuse unknown keys."""
    more = entry.keys() - {*keys}
    if more:
        raise Fault(f"{what} has an unknown key {min(more)!r}")


def limits_as_rows(cluster: Cluster) -> Rows:
    """Task limits as rows, which prices need if a task's share differs by server."""
    return [
        ({(j, s): 1 / (high or ONE) for s in cluster.open[j]}, Fraction(bool(high)), False)
        for j in cluster.active
        if (high := cluster.high[j]) is not None
    ]


def short(text: str, most: int = 200) -> str:
    """A text without its middle if it is long."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def policy_of(data: Mapping[str, Any]) -> Block | None:
    """The policy of a file; None for mechanisms and unknown blocks. Unknown keys are refused."""
    text, given = str(data["policy"]), data.get("given") or {}
    check_keys(data, FILE, "the file")
    check_keys(data["instance"], INSTANCE, "the instance")
    try:
        policy = block(text)
    except CannotCheck:
        return None
    if isinstance(policy, Block) and policy.name == "HDRF":
        for k, entry in enumerate(data.get("proof") or []):
            check_keys(entry, ("kind", "rows", "placements", "floors", "states", "why"), f"entry {k} of the proof")
        return policy
    if not isinstance(policy, Block) or policy.name != "Policy":
        return None
    tiers = tiers_of(policy.given["objective"])
    for k, entry in enumerate(data.get("proof") or []):
        kind = KINDS.get(entry.get("kind", ""))
        earlier = ("tasks", "level") if k < len(tiers) - 1 and data.get("placement") is None else ()
        whole = ("divisible",) if data.get("placement") is not None else ()
        known = ("kind", "why", "at_base", *earlier, *whole, *(kind.keys if kind else ()))
        check_keys(entry, known, f"entry {k} of the proof")
    if data.get("binding") is not None and "EnvyFree" not in {c.name for c in policy.given.get("constraints", [])}:
        raise Fault("binding lists pairs of users, but the policy has no EnvyFree")
    foreign = [share for share in given if share not in text]
    if foreign:
        raise Fault(f"coefficients are given for {short(foreign[0])}, which the policy does not use")
    if data.get("bundles") is not None and data.get("placement") is not None:
        raise Fault("the file has both bundles and a placement of whole tasks")
    return policy


def tiers_of(objective: Block) -> list[Block]:
    """The tiers of an objective; the objective itself if it has none."""
    return objective.given["tiers"] if objective.name == "Tiers" else [objective]


def at_least(gap: Fraction) -> float:
    """The smallest float that is at least a gap."""
    return next(f for f in (float(gap), math.nextafter(float(gap), math.inf)) if math.isinf(f) or Fraction(f) >= gap)


def read(path: str | Path) -> dict[str, Any]:
    """A saved allocation as JSON, without repeated keys."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise Fault("a key occurs twice")
        return dict(pairs)

    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"), object_pairs_hook=once)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"no file {path}; give one that Allocation.save wrote") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise Fault("not JSON; load a Parquet file with Allocation.load and save it as .json") from error
    if not isinstance(data, dict) or data.get("format") not in FORMATS:
        raise Fault("not a file that Allocation.save wrote as JSON")
    return data
