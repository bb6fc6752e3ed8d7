"""A small checker of certificates in VIPR's format, in fractions: linear programs, with derivations by ``lin`` only."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

Terms = dict[int, Fraction]
SIGNS = {"L": -1, "E": 0, "G": 1}


class Refused(Exception):
    """The certificate proves nothing."""


class Certificate(NamedTuple):
    """What a file claims and what it is about."""

    names: list[str]
    costs: Terms
    rows: list[tuple[str, int, Fraction, Terms]]
    value: Fraction


class Tokens:
    """The words of a file, read in turn."""

    def __init__(self, text: str) -> None:
        self.words = iter(text.split())

    def next(self) -> str:
        return next(self.words, "")

    def expect(self, *words: str) -> None:
        for word in words:
            if (found := self.next()) != word:
                raise Refused(f"{word} expected, {found!r} read")

    def count(self) -> int:
        return int(self.next())

    def terms(self) -> Terms:
        pairs = [(self.count(), Fraction(self.next())) for _ in range(self.count())]
        if len(dict(pairs)) < len(pairs):
            raise Refused("an index twice")
        return dict(pairs)


def checked(text: str) -> Certificate:
    """The claim of a certificate that proves it; `Refused` otherwise."""
    read = Tokens(text)
    read.expect("VER", "1.0", "VAR")
    names = [read.next() for _ in range(read.count())]
    read.expect("INT", "0", "OBJ", "max")
    costs = read.terms()
    read.expect("CON")
    count = read.count()
    bounds = read.count()
    rows = [(read.next(), SIGNS[read.next()], Fraction(read.next()), read.terms()) for _ in range(count)]
    if len(set(names)) < len(names) or len({row[0] for row in rows}) < len(rows):
        raise Refused("a name twice")
    if any(c >= len(names) for _, _, _, terms in rows for c in terms):
        raise Refused("a variable that is not there")
    if any(row[1:3] != (1, 0) or list(row[3].values()) != [1] for row in rows[:bounds]):
        raise Refused("a bound that is none")
    read.expect("RTP", "range")
    low, high = Fraction(read.next()), Fraction(read.next())
    read.expect("SOL", "1")
    read.next()
    point = read.terms()
    for name, sign, right, terms in rows:
        slack = sum((a * point.get(c, 0) for c, a in terms.items()), Fraction(0)) - right
        if slack * sign < 0 or (sign == 0 and slack):
            raise Refused(f"the point violates {name}")
    if sum((a * point.get(c, 0) for c, a in costs.items()), Fraction(0)) < low:
        raise Refused("the point does not reach the value")
    read.expect("DER", "1")
    read.next()
    read.expect("L")
    bound = Fraction(read.next())
    read.expect("OBJ", "{", "lin")
    left: Terms = {}
    right = Fraction(0)
    for k, factor in read.terms().items():
        _, sign, of_row, terms = rows[k]
        if factor * sign > 0:
            raise Refused("a multiplier of the wrong sign")
        right += factor * of_row
        for c, a in terms.items():
            left[c] = left.get(c, Fraction(0)) + factor * a
    read.expect("}", "-1", "")
    if {c: a for c, a in left.items() if a} != {c: a for c, a in costs.items() if a}:
        raise Refused("the rows do not add up to the objective")
    if right > bound or bound > high or low != high:
        raise Refused("the bound does not follow")
    return Certificate(names, costs, rows, high)
