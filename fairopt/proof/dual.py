"""Multipliers of a program: one record from methods to the gate, to files and back.

All are in natural units of the objective, per unit of the right side of a row, so that nobody has to know which method
found them, or in which scale:

    max f(x)   under   A x <= usable (prices),   rows (multipliers),   g(x) >= level (multipliers of kept levels).

Ranked terms add mixtures, and curves of teams, or above a base, the levels at which tangents are taken. Any numbers
give a bound (Bound 7.1 in docs/methods/cone.md); bounds on users' tasks enter it by users' ranges, and need none.

Floats: powers of natural shares overflow at large alpha, so that multipliers of alpha-fairness may be for shares in
multiples of a stored ``unit``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fairopt.blocks.algebra import AtLeast
from fairopt.blocks.constraints import Constraint, MadeRows, ManyRows
from fairopt.blocks.form import Form
from fairopt.blocks.model import Point
from fairopt.blocks.normal_form import Term
from fairopt.proof.entries import Named, price_rows, priced
from fairopt.proof.lagrangian import Lagrangian, Multipliers
from fairopt.runtime.arrays import Float, Indices
from fairopt.solve.form.program import Program, unique
from fairopt.solve.form.program_rows import BlockRows


@dataclass(frozen=True)
class Dual:
    """Multipliers in natural units of the objective, for shares in multiples of ``unit``.

    ``prices`` (n_rows,) are by row of `Pairs.loads`, per whole capacity; ``rows`` are of constraints and of bounds on
    tasks; ``kept`` of levels of objectives. ``mixtures`` are of the objective's ranked terms, ``of_kept`` of those of
    each kept level, and ``at`` the levels of tangents.

    ``fixed`` are the users, or numbers, that the multipliers fix at a level of leximin; prices of numbers are then its
    only mixture. By a cone program ``in_cone`` is a point near the dual cone of further constraints, in place of rows,
    and ``sizes`` are those of the variables that CVXPY added to them (`ConicConditions`).
    """

    prices: Float
    rows: Sequence[tuple[BlockRows, Float]] = ()
    kept: Sequence[tuple[AtLeast, float]] = ()
    unit: float = 1.0
    mixtures: Sequence[Float] = ()
    of_kept: Sequence[Sequence[Float]] = ()
    at: Sequence[Float] = ()
    fixed: Indices = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    in_cone: Float | None = None
    sizes: Float | None = None

    @property
    def of_numbers(self) -> Float:
        """Prices of the numbers of a leximin, shape (n_numbers,), at least 0."""
        return np.maximum(self.mixtures[0], 0.0)

    def times(self, factor: float) -> Dual:
        """All multipliers times a factor."""
        rows = [(one, y * factor) for one, y in self.rows]
        kept = [(block, times * factor) for block, times in self.kept]
        return replace(self, prices=self.prices * factor, rows=rows, kept=kept)

    def charges(self, point: Point, factor: float = 1.0) -> Multipliers:
        """The multipliers times a factor as costs, with levels of objectives replaced by those of their majorants."""
        out = Multipliers(np.maximum(self.prices, 0.0) * factor, mixtures=self.mixtures)
        for one, y in self.rows:
            out.charge_rows(one.rows, y * factor)
        for block, times in self.kept:
            # t (g(x) - level) >= 0 with g at most its majorant; a level without one is left out, which is a price of 0
            majorant = majorant_of(block, point)
            if majorant is not None:
                out.extra += ((Form().plus(majorant, 1.0), times * factor),)
                out.constant -= times * factor * block.level
        return out

    def named(self, program: Program, unit: float) -> dict[str, Float]:
        """The multipliers of blocks by name, ``unit`` natural units each, without rows that methods add."""
        out, given = dict[str, Float](), {id(one.rows): y for one, y in self.rows}
        blocks = [c for c in program.rest if not (isinstance(c, (MadeRows, ManyRows)) or getattr(c, "added", False))]
        held: list[tuple[Constraint, str, Float]] = []
        for block in blocks:
            known = program.rows_of(block)
            for one in known or ():
                held.append((block, one.name, given.get(id(one.rows), np.zeros(len(one.rows)))))
            if known is None:
                held.append((block, "at least", np.array(sum(t for kept, t in self.kept if kept is block))))
        names = [name for _, name, _ in held]
        for block, name, values in held:
            out[unique(name if names.count(name) == 1 else f"{name} of `{block}`", out)] = values * unit
        return out

    def completed(self, program: Program, point: Point, lagrangian: Lagrangian, factor: float) -> Dual:
        """With the mixtures and levels of tangents of a bound at multiples of these multipliers."""
        mixtures, of_kept = lagrangian.mixtures(factor), list[list[Float]]()
        ranked = sum(map(_is_ranked, program.objective.terms()))
        own, mixtures = mixtures[:ranked], mixtures[ranked:]
        for block, times in self.kept:
            n = sum(map(_is_ranked, block.objective.terms())) if times else 0  # the bound leaves out what has no price
            of_kept.append(mixtures[:n])
            mixtures = mixtures[n:]
        at = [(term.share, self.unit) for term in program.objective.terms() if _has_levels(term)]
        at += [(term.share, 1.0) for block, _ in self.kept for term in block.objective.terms() if _has_levels(term)]
        levels = lagrangian.tangent_levels(factor)  # in units of shares per weight, or of the entry
        each = zip(levels, at, strict=True) if len(levels) == len(at) else ()
        return replace(
            self, mixtures=own, of_kept=of_kept, at=[z * (point.level(share) / of) for z, (share, of) in each]
        )

    def entry(self, program: Program, names: Named) -> dict[str, Any]:
        """As files have it."""
        held = {"kind": "prices", "unit": self.unit, **priced(program, self.prices), **self.of_blocks(program, names)}
        return held | ({"at": [z.tolist() for z in self.at]} if self.at else {})

    def of_blocks(self, program: Program, names: Named) -> dict[str, Any]:
        """The entry of all but prices. That the smallest number of teams keeps a level is a row for each."""
        mixtures, left, of_numbers = list(self.mixtures), list[tuple[AtLeast, float]](), list[list[Any]]()
        for (block, times), mixed in zip(self.kept, self.of_kept or [()] * len(self.kept), strict=True):
            term = block.objective.term
            if mixed and term.is_smallest and not term.share._is_plain:
                place, labels = names.place(program, block), term.share._names(program.instance)
                weights = term.share._numbers(program.instance, levelled=True).weights
                y = mixed[0] * (times * term.factor / (mixed[0].sum() or 1.0) / weights)
                of_numbers += [[place, labels[t], float(y[t])] for t in np.flatnonzero(y).tolist()]
            elif times:
                mixtures += mixed
                left.append((block, times))
        held = names.multipliers(program, self.rows, left)
        if of_numbers:
            held["rows"] = held.get("rows", []) + of_numbers
        return held | ({"mixtures": [u.tolist() for u in mixtures]} if mixtures else {})

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], names: Named) -> Dual:
        """What an entry holds for the gate, which finds tangents itself, and mixtures unless those held are better."""
        rows, kept = names.restored(program, held), names.kept(program, held)
        mixtures = [np.asarray(u, dtype=float) for u in held.get("mixtures", ())]
        mixtures = [u for u in mixtures if u.shape == program.instance.weights.shape and (u >= 0).all()]
        return cls(price_rows(program, held), rows, kept, float(held.get("unit", 1.0)), mixtures[:1])


def majorant_of(block: AtLeast, point: Point) -> Form | None:
    """The majorant by which a kept level enters bounds; None if there is none."""
    return block.objective.majorant(point) if block.objective.majorant_is_natural else None


def _is_ranked(term: Term) -> bool:
    """Whether a term sorts shares, so that a mixture bounds it."""
    return not (term.is_linear or term.is_curved)


def _has_levels(term: Term) -> bool:
    """Whether a term is a sum of curves of teams, or above a base, whose tangents are at levels of an entry."""
    return bool(term.is_curved and not term.share._is_plain)
