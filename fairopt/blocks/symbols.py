"""What blocks see when they say what they are in `conditions`: symbols of one user, and of one outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fairopt.blocks.base import brief
from fairopt.blocks.terms import FALSE, TRUE, Condition, Number, Term, all_of, any_of, number, total
from fairopt.errors import InvalidBlock

__all__ = ["OutcomeSymbols", "ShareSymbols", "Symbols", "UserSymbols", "said_by"]


class Symbols:
    """Symbols of one statement, and what is known of them."""

    def __init__(self) -> None:
        self.known: list[Condition] = []
        self.roots: dict[str, tuple[Term, Term, int]] = {}  # by their text: the symbol, of what, and which root

    def new(self, name: str, zero: bool = False) -> Term:
        """A symbol for a number above 0, or that may be 0."""
        symbol = Term(name)
        self.known.append(symbol >= 0 if zero else symbol > 0)
        return symbol

    def row(self, name: str, size: int, zero: bool = False) -> list[Term]:
        """So many of these, by number."""
        return [self.new(f"{name}_{i + 1}", zero) for i in range(size)]

    def root(self, value: Number, power: int) -> Term:
        """The root of a term that is not negative: a new symbol, unless this root was asked for before."""
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
    """One user, for `Share.conditions`.

    Attributes
    ----------
    ratios : sequence of Term
        What one task needs of each resource, as a part of its capacity; at least 0.
    coefficient : Term
        The share of one task: larger than 0, and where users are not levelled, as in totals, 0 too.
    """

    ratios: Sequence[Term]
    coefficient: Term
    _symbols: Symbols

    def root(self, value: Number, power: int) -> Term:
        """The root of a term that is not negative; ``power`` is a whole number, 2 for the square root."""
        return self._symbols.root(value, power)


@dataclass(frozen=True, eq=False)
class UserSymbols:
    """One user of an outcome, for `Objective.conditions`; all numbers are by the user's weight.

    Attributes
    ----------
    tasks, level : Term
        Tasks and share, over the weight.
    bundle : sequence of Term
        What the tasks need of each resource, over the weight, as parts of the capacities.
    weight : Term
        The weight: 1 where weights are equal.
    limit : Term or None
        The task limit over the weight.
    ratios, coefficient : sequence of Term, Term
        What one task needs, and the share of one task.
    """

    tasks: Term
    level: Term
    bundle: Sequence[Term]
    weight: Term
    limit: Term | None
    pattern: Sequence[Term]  # positive where the user needs a resource
    ratios: Sequence[Term]
    coefficient: Term
    positive: bool

    def needs(self, resource: int) -> Condition:
        """That the user's tasks need a resource."""
        return TRUE if self.positive else self.pattern[resource] > 0

    @property
    def at_limit(self) -> Condition:
        """That the user runs as many tasks as it may."""
        return FALSE if self.limit is None else self.tasks == self.limit

    @property
    def below_limit(self) -> Condition:
        """That the user may run more tasks."""
        return TRUE if self.limit is None else self.tasks < self.limit


@dataclass(eq=False)
class OutcomeSymbols:
    """An outcome on one pool, for `Objective.conditions`. That it is feasible need not be said.

    Attributes
    ----------
    users : sequence of UserSymbols
        The users: all of them, for an objective of one's own.
    slack : sequence of Term
        The part of each capacity that is left, at least 0.
    """

    users: Sequence[UserSymbols]
    slack: Sequence[Term]
    _symbols: Symbols
    _name: str = ""
    _prices: list[Term] = field(default_factory=list)

    def full(self, resource: int) -> Condition:
        """That nothing is left of a resource."""
        return self.slack[resource] == 0

    @property
    def prices(self) -> Sequence[Term]:
        """Prices of whole capacities: at least 0, and 0 where something is left."""
        if not self._prices:
            self._prices += self._symbols.row(f"price{self._name}", len(self.slack), zero=True)
            self._symbols.known += [any_of([p == 0, self.full(i)]) for i, p in enumerate(self._prices)]
        return self._prices

    def cost(self, user: UserSymbols) -> Term:
        """What a user's bundle costs at the prices, over its weight."""
        return total(p * y for p, y in zip(self.prices, user.bundle, strict=True))

    def task_price(self, user: UserSymbols) -> Term:
        """What one task of a user costs at the prices."""
        return total(p * r for p, r in zip(self.prices, user.ratios, strict=True))

    def root(self, value: Number, power: int) -> Term:
        """The root of a term that is not negative; ``power`` is a whole number, 2 for the square root."""
        return self._symbols.root(value, power)

    def stopped(self, user: UserSymbols) -> Condition:
        """That a user is at its limit, or needs a full resource of which no user has a larger level."""
        others = [other for other in self.users if other is not user]

        def stops(i: int) -> Condition:
            lower = (any_of([~other.needs(i), other.level <= user.level]) for other in others)
            return all_of([self.full(i), user.needs(i), *lower])

        return any_of([user.at_limit, *map(stops, range(len(self.slack)))])


def said_by(block: Any, symbols: ShareSymbols | OutcomeSymbols) -> Condition | None:
    """What a share or an objective says in `conditions`, None if nothing; `InvalidBlock`, with its name, if wrong."""
    name = f"{type(block).__name__}.conditions"
    try:
        found = block.conditions(symbols)
    except InvalidBlock as error:
        raise InvalidBlock(f"{name}: {error}") from error
    if found is None or isinstance(found, Condition):
        return found
    raise InvalidBlock(f"{name} returned {brief(found)}; give comparisons of symbols, combined by &, | and ~")
