"""Symbols of one user and of one outcome, for the method `conditions` of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fairopt.blocks.base import brief
from fairopt.blocks.terms import FALSE, TRUE, Condition, Number, Term, all_of, any_of, number, total
from fairopt.errors import InvalidBlock


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
        found = block.conditions(symbols)
    except InvalidBlock as error:
        raise InvalidBlock(f"{name}: {error}") from error
    if found is None or isinstance(found, Condition):
        return found
    raise InvalidBlock(f"{name} returned {brief(found)}; give comparisons of symbols, combined by &, | and ~")
