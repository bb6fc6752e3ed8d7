"""Objectives in rational numbers: sums of shares, and sorted shares with weights by rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

from fairopt.blocks.algebra import Objective
from fairopt.blocks.base import is_ours
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, OrderedWeighted, Total
from fairopt.blocks.shares import Share
from fairopt.blocks.teams import Surplus
from fairopt.errors import OutOfDomain
from fairopt.exact.cluster import Cluster, Number, Numbers, Pair, Table
from fairopt.exact.rationals import Rational, as_rational, rational, total
from fairopt.instance.in_fractions import as_fraction

BOUNDS = "without exact=True, answer.exact_bounds() encloses its optimal value"
LEVELLED = (MaxMin, OrderedWeighted, Leximin, AlphaFair)


def terms_of(objective: Objective) -> list[tuple[Rational, Objective]]:
    """The objectives of a sum, with their factors."""
    return [(as_rational(as_fraction(factor)), term) for factor, term in objective.summands()]


def share_of(term: Objective) -> Share:
    """The share of a term; `OutOfDomain` for users' own objectives and those of bundles."""
    share = getattr(term, "share", None)
    if not is_ours(term) or not isinstance(share, Share):
        raise OutOfDomain(f"{term} is none of fairopt's own objectives of tasks")
    return share


def is_linear(objective: Objective) -> bool:
    """Whether an objective is a sum of shares."""
    return all(_is_total(term) for _, term in objective.summands())


def _is_total(term: Objective) -> bool:
    return (
        isinstance(term, Total)
        or (isinstance(term, AlphaFair) and term.alpha == 0)
        or (isinstance(term, FairnessEfficiency) and term.beta == 1)
    )


def is_surplus(term: Objective) -> bool:
    """Whether a term compares what is above a base."""
    return isinstance(term, LEVELLED) and not _is_total(term) and isinstance(term.share, Surplus)


def smallest(objective: Objective) -> tuple[Rational, Share] | None:
    """The factor and the share of an objective of the smallest share per weight alone; None for others."""
    held = [(factor, term) for factor, term in terms_of(objective) if factor]
    if len(held) != 1 or not isinstance(term := held[0][1], (MaxMin, OrderedWeighted)):
        return None
    first, *others = _weights(term)
    return (held[0][0] * first, term.share) if first and not any(others) else None


def _weights(term: MaxMin | OrderedWeighted | Leximin) -> list[Rational]:
    given = term.weights if isinstance(term, OrderedWeighted) else (1,)
    return [as_rational(as_fraction(w)) for w in given]


def rank_weights(term: MaxMin | OrderedWeighted | Leximin, count: int) -> list[Rational]:
    """The weights of a term by rank, of so many ranks."""
    return (_weights(term) + [rational(0)] * count)[:count]


class Ranked(NamedTuple):
    """``factor`` times sorted numbers weighted by the decreasing v, the largest weight on the smallest number."""

    factor: Rational
    v: list[Rational]
    numbers: dict[str, Number]


class Goal:
    """A piecewise linear concave function of the tasks: ``linear`` by pair, ``constant``, and ranked terms."""

    def __init__(self) -> None:
        self.constant = rational(0)
        self.linear: dict[Pair, Rational] = {}
        self.ranked: list[Ranked] = []

    @classmethod
    def of(cls, cluster: Cluster, objective: Objective) -> Self:
        """An objective; `OutOfDomain` for those with irrational optima."""
        goal = cls()
        for factor, term in terms_of(objective):
            if not factor:
                continue
            if isinstance(term, (MaxMin, OrderedWeighted)):
                compared = Numbers(cluster, term.share).exactly(True)
                if compared:
                    goal.ranked.append(Ranked(factor, rank_weights(term, len(compared)), compared))
            elif _is_total(term):
                for one in Numbers(cluster, share_of(term)).exactly(False).values():
                    goal.constant -= factor * one.base
                    for pair, v in one.row.items():
                        goal.linear[pair] = goal.linear.get(pair, goal.constant * 0) + factor * v
            else:
                raise OutOfDomain(f"the optimum of {term} is not rational")
        return goal

    def at(self, tasks: Table) -> Rational:
        """The value at tasks."""
        value = self.constant + total(v * tasks[j][s] for (j, s), v in self.linear.items())
        for term in self.ranked:
            ordered = sorted(one.at(tasks) for one in term.numbers.values())
            value += term.factor * total(v * z for v, z in zip(term.v, ordered, strict=True))
        return value


def why_irrational(objective: Objective) -> Iterator[str]:
    """Why terms of an objective have no rational optimum in general."""
    for _, term in objective.summands():
        if isinstance(term, AlphaFair) and term.alpha != 0:
            curves = "logarithms" if term.alpha == 1 else "powers"
            yield f"{term} is a sum of {curves}, whose optimum is not rational in general; {BOUNDS}"
        elif isinstance(term, FairnessEfficiency) and term.beta != 1:
            yield f"{term} has powers and logarithms, whose optimum is not rational in general; {BOUNDS}"
