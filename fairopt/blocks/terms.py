"""Polynomials and conditions on them, in which blocks state their optimality conditions for `prove`, and their symbols.

A `Term` is built from symbols and numbers by ``+``, ``-``, ``*`` and integer powers, a `Condition` from comparisons by
``&``, ``|`` and ``~``. Both can be printed as SMT-LIB and evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any

from fairopt.blocks.base import brief
from fairopt.errors import InvalidBlock

LARGEST = 12  # absolute value and denominator of fractions as exponents

Value = Any  # fractions or floats


class _Expression:
    """An operator of SMT-LIB with its arguments, or a symbol's name or a number without any."""

    __slots__ = ("arguments", "of")

    def __init__(self, of: str | Fraction | bool, *arguments: _Expression) -> None:
        self.of, self.arguments = of, arguments

    @property
    def degree(self) -> int:
        """The degree as a polynomial; of a condition the highest degree of its terms."""
        if not self.arguments:
            return int(isinstance(self, Term) and isinstance(self.of, str))
        degrees = [part.degree for part in self.arguments]
        return sum(degrees) if self.of == "*" else max(degrees)

    def symbols(self) -> Iterator[str]:
        """The names of all symbols, with repetition."""
        left: list[_Expression] = [self]
        while left:
            one = left.pop()
            left += one.arguments
            if not one.arguments and isinstance(one.of, str):
                yield one.of

    def __str__(self) -> str:
        """SMT-LIB."""
        if self.arguments:
            return f"({self.of} {' '.join(map(str, self.arguments))})"
        if isinstance(self.of, bool):
            return str(self.of).lower()
        if isinstance(self.of, Fraction):
            top = f"{abs(self.of.numerator)}.0"
            size = top if self.of.denominator == 1 else f"(/ {top} {self.of.denominator}.0)"
            return size if self.of >= 0 else f"(- {size})"
        return self.of

    __repr__ = __str__
    __hash__ = object.__hash__


class Term(_Expression):
    """A polynomial with rational coefficients.

    Examples
    --------
    >>> from fairopt.blocks.terms import Term
    >>> x, y = Term("x"), Term("y")
    >>> x * x - 2 * y
    (- (* x x) (* 2.0 y))
    >>> (x * x - 2 * y).value({"x": 3, "y": 1})
    Fraction(7, 1)
    """

    __slots__ = ()

    def __add__(self, other: Number) -> Term:
        return _sum(self, number(other))

    def __radd__(self, other: Number) -> Term:
        return _sum(number(other), self)

    def __sub__(self, other: Number) -> Term:
        less = number(other)
        if isinstance(self.of, Fraction) and isinstance(less.of, Fraction):
            return number(self.of - less.of)
        return self if less.of == 0 else Term("-", self, less)

    def __rsub__(self, other: Number) -> Term:
        return number(other) - self

    def __mul__(self, other: Number) -> Term:
        return _product(self, number(other))

    def __rmul__(self, other: Number) -> Term:
        return _product(number(other), self)

    def __pow__(self, power: int) -> Term:
        return reduce(_product, [self] * power, number(1))

    def __lt__(self, other: Number) -> Condition:
        return Condition("<", self, number(other))

    def __le__(self, other: Number) -> Condition:
        return Condition("<=", self, number(other))

    def __gt__(self, other: Number) -> Condition:
        return Condition(">", self, number(other))

    def __ge__(self, other: Number) -> Condition:
        return Condition(">=", self, number(other))

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return Condition("=", self, number(other))

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return ~(self == other)

    __hash__ = object.__hash__

    def value(self, values: Mapping[str, Value]) -> Value:
        """The value at these values of the symbols."""
        if not self.arguments:
            return self.of if isinstance(self.of, Fraction) else Fraction(1) * values[str(self.of)]
        parts = [part.value(values) for part in self.arguments if isinstance(part, Term)]
        if self.of == "-":
            return parts[0] - parts[1]
        return reduce((lambda a, b: a + b) if self.of == "+" else (lambda a, b: a * b), parts)

    def size(self, sizes: Mapping[str, Value]) -> Value:
        """The sum of the absolute values of all summands, at these absolute values of the symbols."""
        if not self.arguments:
            return abs(self.of if isinstance(self.of, Fraction) else sizes[str(self.of)])
        parts = [part.size(sizes) for part in self.arguments if isinstance(part, Term)]
        return reduce((lambda a, b: a * b) if self.of == "*" else (lambda a, b: a + b), parts)


Number = Term | Fraction | int


class Condition(_Expression):
    """A statement about terms.

    Examples
    --------
    >>> from fairopt.blocks.terms import Term
    >>> x = Term("x")
    >>> (x > 1) | ~(x * x <= 4)
    (or (> x 1.0) (not (<= (* x x) 4.0)))
    >>> ((x > 1) | (x * x > 4)).holds({"x": -3})
    True
    """

    __slots__ = ()

    def __and__(self, other: Condition) -> Condition:
        return all_of([self, other])

    def __or__(self, other: Condition) -> Condition:
        return any_of([self, other])

    def __invert__(self) -> Condition:
        return Condition(not self.of) if isinstance(self.of, bool) else Condition("not", self)

    def __bool__(self) -> bool:
        raise InvalidBlock("a condition on symbols is neither true nor false; combine conditions by &, | and ~")

    def holds(
        self, values: Mapping[str, Value], within: float | Fraction = 0, sizes: Mapping[str, Value] | None = None
    ) -> bool:
        """Whether it holds at these values of the symbols.

        Comparisons may be violated by ``within`` relative to the sizes of their summands. ``sizes`` replaces the values
        of symbols in these sizes.
        """
        if isinstance(self.of, bool):
            return self.of
        parts = [part for part in self.arguments if isinstance(part, Condition)]
        if parts:
            if self.of == "not":
                return not parts[0].holds(values, -within, sizes)
            return (all if self.of == "and" else any)(part.holds(values, within, sizes) for part in parts)
        terms = [part for part in self.arguments if isinstance(part, Term)]
        left, right = (term.value(values) for term in terms)
        room = within * sum(term.size(sizes or values) for term in terms) if within else 0
        if self.of == "=":
            return bool(abs(left - right) <= abs(room))
        above = left - right if self.of in (">", ">=") else right - left
        return bool(above + room > 0 if self.of in ("<", ">") else above + room >= 0)


TRUE, FALSE = Condition(True), Condition(False)


def number(value: object) -> Term:
    """A number as a term; floats are refused, since solvers would take all their digits as exact."""
    if isinstance(value, Term):
        return value
    if isinstance(value, (int, Fraction)) and not isinstance(value, bool):
        return Term(Fraction(value))
    raise InvalidBlock(f"{value!r} in a condition; give whole numbers, fractions.Fraction or terms")


def simple_fraction(value: float) -> Fraction | None:
    """A number as a fraction of small integers, such as 3/2; None for other numbers."""
    near = Fraction(value).limit_denominator(LARGEST) if abs(value) <= LARGEST else None
    return near if near is not None and float(near) == value else None


def total(terms: Iterable[Number]) -> Term:
    """The sum of terms."""
    return reduce(_sum, map(number, terms), number(0))


def product(terms: Iterable[Number]) -> Term:
    """The product of terms."""
    return reduce(_product, map(number, terms), number(1))


def is_largest(term: Term, others: Iterable[Number]) -> Condition:
    """The condition that a term is the maximum of others."""
    values = list(others)
    return all_of([*(term >= value for value in values), any_of(term == value for value in values)])


def all_of(conditions: Iterable[Condition]) -> Condition:
    """The conjunction of conditions."""
    return _joined("and", conditions, False)


def any_of(conditions: Iterable[Condition]) -> Condition:
    """The disjunction of conditions."""
    return _joined("or", conditions, True)


def _joined(operator: str, conditions: Iterable[Condition], decides: bool) -> Condition:
    """Conditions joined into one, flat; ``decides`` is the truth value that decides alone."""
    flat: list[Condition] = []
    for condition in conditions:
        if condition.of is decides:
            return Condition(decides)
        if condition.of == operator:
            flat += [part for part in condition.arguments if isinstance(part, Condition)]
        elif condition.of is not (not decides):
            flat.append(condition)
    return Condition(not decides) if not flat else flat[0] if len(flat) == 1 else Condition(operator, *flat)


def _sum(one: Term, other: Term) -> Term:
    if isinstance(one.of, Fraction) and isinstance(other.of, Fraction):
        return number(one.of + other.of)
    return other if one.of == 0 else one if other.of == 0 else Term("+", *_flat("+", one), *_flat("+", other))


def _product(one: Term, other: Term) -> Term:
    if isinstance(one.of, Fraction) and isinstance(other.of, Fraction):
        return number(one.of * other.of)
    if one.of == 0 or other.of == 0:
        return number(0)
    return other if one.of == 1 else one if other.of == 1 else Term("*", *_flat("*", one), *_flat("*", other))


def _flat(operator: str, term: Term) -> tuple[_Expression, ...]:
    return term.arguments if term.of == operator else (term,)


class Symbols:
    """Symbols of one statement, and the conditions that they satisfy."""

    def __init__(self) -> None:
        self.known: list[Condition] = []
        self.roots: dict[str, tuple[Term, Term, int]] = {}  # by text: the symbol, its radicand and the degree

    def new(self, name: str, zero: bool = False) -> Term:
        """A symbol for a number above 0, or with ``zero`` at least 0."""
        symbol = Term(name)
        self.known.append(symbol >= 0 if zero else symbol > 0)
        return symbol

    def row(self, name: str, size: int, zero: bool = False) -> list[Term]:
        """Several such symbols, numbered."""
        return [self.new(f"{name}_{i + 1}", zero) for i in range(size)]

    def root(self, value: Number, power: int) -> Term:
        """The root of a nonnegative term; the same root has the same symbol."""
        of = number(value)
        if power == 1:
            return of
        key = f"{power} {of}"
        if key not in self.roots:
            root = self.new(f"root_{len(self.roots) + 1}", zero=True)
            self.known.append(root**power == of)
            self.roots[key] = root, of, power
        return self.roots[key][0]


@dataclass(frozen=True)
class ShareSymbols:
    """Symbols of one user, for `Share.conditions`.

    Attributes
    ----------
    ratios : sequence of Term
        Demand of one task over capacity, by resource; at least 0.
    coefficient : Term
        The share of one task: positive, or at least 0 in totals.
    """

    ratios: Sequence[Term]
    coefficient: Term
    _symbols: Symbols

    def root(self, value: Number, power: int) -> Term:
        """The root of a nonnegative term; ``power`` is an integer, 2 for the square root."""
        return self._symbols.root(value, power)


@dataclass(frozen=True, eq=False)
class UserSymbols:
    """One user of an outcome, for `Objective.conditions`. What it has is per weight: its tasks are ``tasks * weight``.

    Attributes
    ----------
    tasks, level : Term
        Tasks and share, per weight. The share is that of the field ``share`` of the objective, or tasks without one.
    bundle : sequence of Term
        Used fraction of each capacity, per weight.
    weight : Term
        The weight itself: 1 if weights are equal.
    limit : Term or None
        The task limit, per weight.
    ratios, coefficient : sequence of Term, Term
        Demand of one task over capacity, by resource, and the share of one task.
    """

    tasks: Term
    level: Term
    bundle: Sequence[Term]
    weight: Term
    limit: Term | None
    pattern: Sequence[Term]  # positive for the resources that the user needs
    ratios: Sequence[Term]
    coefficient: Term
    positive: bool

    def needs(self, resource: int) -> Condition:
        """That the user needs a resource."""
        return TRUE if self.positive else self.pattern[resource] > 0

    @property
    def at_limit(self) -> Condition:
        """That the user is at its task limit."""
        return FALSE if self.limit is None else self.tasks == self.limit

    @property
    def below_limit(self) -> Condition:
        """That the user is below its task limit."""
        return TRUE if self.limit is None else self.tasks < self.limit


@dataclass(eq=False)
class OutcomeSymbols:
    """A feasible outcome on one pool, for `Objective.conditions`.

    Attributes
    ----------
    users : sequence of UserSymbols
        The users; all of them for user-defined objectives.
    slack : sequence of Term
        The unused fraction of each capacity, at least 0.
    """

    users: Sequence[UserSymbols]
    slack: Sequence[Term]
    _symbols: Symbols
    _name: str = ""
    _prices: list[Term] = field(default_factory=list)

    def full(self, resource: int) -> Condition:
        """That a resource is used up."""
        return self.slack[resource] == 0

    @property
    def prices(self) -> Sequence[Term]:
        """Prices of whole capacities: at least 0, with complementary slackness."""
        if not self._prices:
            self._prices += self._symbols.row(f"price{self._name}", len(self.slack), zero=True)
            self._symbols.known += [any_of([p == 0, self.full(i)]) for i, p in enumerate(self._prices)]
        return self._prices

    def cost(self, user: UserSymbols) -> Term:
        """The cost of a user's bundle at the prices, per weight."""
        return total(p * y for p, y in zip(self.prices, user.bundle, strict=True))

    def task_price(self, user: UserSymbols) -> Term:
        """The cost of one task of a user at the prices."""
        return total(p * r for p, r in zip(self.prices, user.ratios, strict=True))

    def root(self, value: Number, power: int) -> Term:
        """The root of a nonnegative term; ``power`` is an integer, 2 for the square root."""
        return self._symbols.root(value, power)

    def stopped(self, user: UserSymbols) -> Condition:
        """That a user is at its limit, or needs a used-up resource of which no other user has a higher level."""
        others = [other for other in self.users if other is not user]

        def stops(i: int) -> Condition:
            lower = (any_of([~other.needs(i), other.level <= user.level]) for other in others)
            return all_of([self.full(i), user.needs(i), *lower])

        return any_of([user.at_limit, *map(stops, range(len(self.slack)))])


def conditions_of(block: Any, symbols: ShareSymbols | OutcomeSymbols) -> Condition | None:
    """The `conditions` of a share or an objective, None if it has none; `InvalidBlock`, with its name, if wrong."""
    name = f"{type(block).__name__}.conditions"
    try:
        stated = block.conditions(symbols)
    except InvalidBlock as error:
        raise InvalidBlock(f"{name}: {error}") from error
    if stated is None or isinstance(stated, Condition):
        return stated
    raise InvalidBlock(f"{name} returned {brief(stated)}; give comparisons of symbols, combined by &, | and ~")
