"""Evidence of prices: sums of one concave function per user, several servers, and ordered weights.

All are prices p >= 0 by row, per whole capacity, which bound the optimum by ``p'r + sum_j (the largest gain of j at its
cheapest row)``. What differs is the gain, and so the units in which a method finds p:

    UserPrices       sums of one function per user on a pool    tangents at best responses   (Bound 4.11)
    RowPrices        the same on several servers                in chunks of users           (Proposition 5.14)
    LevelPrices      alpha-fairness, max-min on servers         in levels, rates too         (5.1, 5.11, 5.16)
    CapacityPrices   ordered weights                            mixtures                     (4.12, Bound 7.2)
    Prices           any objective with a majorant              rows, kept levels too        (Bound 7.1)

In files all are one kind, in natural units; `read_prices` picks the class with the fastest bound for the program.
Prices of alpha-fairness are for shares in multiples of a stored ``unit``, as powers of natural ones overflow at large
alpha.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairopt.blocks.algebra import AtLeast
from fairopt.blocks.constraints import Constraint, MadeRows, ManyRows
from fairopt.blocks.efficiency import TotalIs
from fairopt.blocks.form import Form
from fairopt.blocks.model import Point
from fairopt.proof import feasibility as conditions
from fairopt.proof import server_bounds as servers
from fairopt.proof import user_bounds as users
from fairopt.proof.dual_bound import LagrangianBound, lagrangian_bound
from fairopt.proof.entries import Named, price_entry, price_rows
from fairopt.proof.evidence.pool import FairPrices, TotalPrices
from fairopt.proof.lagrangian import Lagrangian, Multipliers
from fairopt.proof.plane_bound import LineLagrangian, PlaneOptimum, fixed_sum
from fairopt.proof.proposal import Evidence, Measured, Reader
from fairopt.proof.server_bounds import LevelUnits, RowUnits, best_max_min_bound
from fairopt.proof.user_bounds import judge_user_prices
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import GAP_TOLERANCE
from fairopt.solve.form.program import Program, unique
from fairopt.solve.form.program_rows import BlockRows

STEP = 1e-5  # relative, of finite differences along a ray: prices reported to users, no part of the bound


@dataclass(frozen=True)
class UserPrices(PlaneOptimum):
    """Prices by row of `Pairs.loads`, per whole capacity, in natural units of the objective.

    ``of_sum`` is the price of the sum of shares if that is fixed (`TotalIs`), of either sign. On several servers they
    prove only the most even shares of a fixed sum (`Tangents`).
    """

    program: Program
    prices: Float
    of_sum: float = 0.0

    kind = "prices"

    def applies(self, program: Program) -> bool:
        return self.program is program and program.single and not program.rest

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        near, tasks = tasks, conditions.repair(program, tasks)  # responses are searched from the point as proposed
        gap, prices = judge_user_prices(program, self.prices, near, tasks)
        return Measured(tasks, gap, conditions.bounds_violation(program, tasks), prices)

    def most_rise(self, program: Program, tasks: Float) -> Float:
        if self.program.pairs is not program.pairs:  # of another program: nothing is known
            return super().most_rise(program, tasks)
        return conditions.rise_at_prices(program, self.prices, tasks)

    def is_of_cut(self, cut: Program) -> bool:
        return self.program is cut and all(type(block) is TotalIs for block in cut.rest)

    def line_lagrangian(self, program: Program, tasks: Float, powers: Form, unit: float) -> LineLagrangian:
        multipliers = Multipliers(np.maximum(self.prices, 0.0), np.zeros(len(program.pairs)))
        total = fixed_sum(program)
        if total is not None:
            c = program.pairs.of(program.term.share.coefficients(program.instance))
            multipliers.pair_cost = (self.of_sum / total) * c  # the row sum c x / total == 1, at its price
            multipliers.constant, multipliers.constant_size = self.of_sum, abs(self.of_sum)
        (term,) = powers.curves
        lagrangian = Lagrangian(program, powers, multipliers, program.point(tasks))
        return LineLagrangian(lagrangian, self.of_sum, [float(unit ** (term.alpha - 1.0))], in_units=True)

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        return price_entry(program, self.prices)

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        return cls(program, natural_prices(program, held))


@dataclass(frozen=True)
class RowPrices(Evidence):
    """Prices (n_resources, n_servers) per whole capacity of a sum over users, in its natural units."""

    units: RowUnits
    prices: Float

    kind = "prices"

    @classmethod
    def of(cls, units: RowUnits, prices: Float) -> RowPrices:
        """Prices in units of level if those are the units."""
        return LevelPrices(units, prices) if isinstance(units, LevelUnits) else cls(units, prices)

    def applies(self, program: Program) -> bool:
        return self.units.program is program and not program.rest and program.marginal is not None

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        near, pairs = program.pairs.table(tasks), program.pairs
        table = servers.repaired(self.units, near)
        tasks = table[pairs.user, pairs.server]
        gap, prices = self._judged(near, table)
        return Measured(tasks, gap, conditions.bounds_violation(program, tasks), prices)

    def _judged(self, near: Float, table: Float) -> tuple[float, Float]:
        """Gap and prices by row, with tasks (n_users, n_servers) before and after the repair."""
        pairs = self.units.program.pairs
        return users.judge_row_prices(self.units, self.prices, near, table[pairs.user, pairs.server])

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        return price_entry(program, self.prices.T.ravel())

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        return cls(RowUnits(program, program.size[:, None]), _by_resource(program, natural_prices(program, held)))


@dataclass(frozen=True)
class LevelPrices(RowPrices):
    """Prices (n_resources, n_servers) per whole capacity of alpha-fairness or max-min, in units of level."""

    units: LevelUnits

    def applies(self, program: Program) -> bool:
        return self.units.program is program and not program.rest and servers.of_level(program)

    def _judged(self, near: Float, table: Float) -> tuple[float, Float]:
        gap, prices = servers.judge_row_prices(self.units, self.prices, table)
        return gap, prices.T.ravel()

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        """For max-min the mixture is the users' marginal utilities, or the user with the lowest limit."""
        units, factor = self.units, program.term.factor
        prices = np.where(units.needed, np.maximum(self.prices, 0.0), 0.0)
        if program.term.is_curved:
            factor *= program.instance.weights.sum()
            return price_entry(program, prices.T.ravel() * factor, unit=units.unit)
        prices /= prices.max()  # as in the bound: their size is arbitrary, and costs of large ones overflow
        bound, marginals = best_max_min_bound(units, prices, program.objective.value(program.point(tasks)) / factor)
        level = float(marginals.sum())
        # the user with the lowest limit bounds the smallest level at no prices
        if not bound < units.limits.min():
            prices, marginals, level = np.zeros_like(prices), (units.limits == units.limits.min()).astype(float), 1.0
        return price_entry(program, prices.T.ravel() * (factor * units.unit / level), mixtures=[marginals / level])

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        units, prices = LevelUnits(program), price_rows(program, held)
        if program.term.is_curved and (alpha := program.term.alpha) is not None:  # in units of this level
            factor = program.term.factor * program.instance.weights.sum()
            prices = prices * ((float(held.get("unit", 1.0)) / units.unit) ** (1.0 - alpha) / factor)
        return cls(units, _by_resource(program, prices))


@dataclass(frozen=True)
class CapacityPrices(Evidence):
    """Prices by row of loads, per whole capacity, in natural units of ordered weights."""

    program: Program
    prices: Float

    kind = "prices"

    def applies(self, program: Program) -> bool:
        term = program.term
        return self.program is program and not program.rest and term.ranks is not None and not term.is_order

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.repair(program, tasks)
        lagrangian, bound = self.bound(tasks)
        prices = lagrangian.multipliers.prices * (bound.factor * lagrangian.majorant.unit)
        return Measured(tasks, bound.gap, conditions.bounds_violation(program, tasks), prices)

    def bound(self, tasks: Float) -> tuple[Lagrangian, LagrangianBound]:
        """The Lagrangian at the prices, and its bound."""
        program, point = self.program, self.program.point(tasks)
        majorant = program.objective.majorant(point)
        assert majorant is not None
        charged = Multipliers(np.maximum(self.prices, 0.0) / majorant.unit, np.zeros(len(program.pairs)))
        bound = lagrangian_bound(program, majorant, program.objective, charged, tasks)
        return Lagrangian(program, majorant, charged, point), bound

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        at, bound = self.bound(tasks)
        prices = at.multipliers.prices * bound.factor * at.majorant.unit
        return price_entry(program, prices, mixtures=at.with_mixtures(bound.factor)[1])

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        return cls(program, natural_prices(program, held))


@dataclass(frozen=True)
class Prices(Evidence):
    """Prices by row of loads, per whole capacity, multipliers of rows and of ``kept`` levels of objectives.

    They are in natural units of the objective for shares in multiples of ``unit``.
    """

    program: Program
    prices: Float
    rows: Sequence[tuple[BlockRows, Float]] = ()
    kept: Sequence[tuple[AtLeast, float]] = ()
    unit: float = 1.0

    kind = "prices"

    def applies(self, program: Program) -> bool:
        return self.program is program and not program.term.is_order

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.repair(program, tasks)
        objective, point = program.objective, program.point(tasks)
        majorant, violation = objective.majorant(point), conditions.violation_at(program, tasks)
        if majorant is None:
            return Measured(tasks, np.inf, violation)
        charged = self.multipliers(point).times(1.0 / natural_units(program, majorant, point, self.unit))
        bound = lagrangian_bound(program, majorant, objective, charged, tasks)
        scale = bound.factor * majorant.unit
        # prices of a transform, times the objective's slope by it along the ray through the tasks
        if not objective.majorant_is_natural:
            low, high = point.scaled(1 - STEP), point.scaled(1 + STEP)
            run = majorant.unit * (majorant.value(high) - majorant.value(low))
            scale *= (objective.value(high) - objective.value(low)) / run if run else 0.0
        named = self.named(scale / natural_units(program, majorant, point, self.unit))
        prices = charged.prices * scale
        return Measured(tasks, bound.gap, violation, prices, multipliers=named if bound.gap <= GAP_TOLERANCE else {})

    def multipliers(self, point: Point) -> Multipliers:
        """The multipliers, with levels of objectives replaced by those of their majorants."""
        out = Multipliers(np.maximum(self.prices, 0.0), np.zeros(len(self.program.pairs)))
        for one, y in self.rows:
            out.charge_rows(one.rows, y)
        for block, times in self.kept:
            # t (g(x) - level) >= 0 with g at most its majorant; a level without one is left out, which is a price of 0
            majorant = block.objective.majorant(point) if block.objective.majorant_is_natural else None
            if majorant is not None:
                out.extra += ((Form().plus(majorant, 1.0), times),)
                out.constant -= times * block.level
        return out

    def named(self, unit: float) -> dict[str, Float]:
        """The multipliers of blocks by name, ``unit`` natural units each, without rows that methods add."""
        out, given = dict[str, Float](), {id(one.rows): y for one, y in self.rows}
        blocks = [
            c for c in self.program.rest if not (isinstance(c, (MadeRows, ManyRows)) or getattr(c, "added", False))
        ]
        held: list[tuple[Constraint, str, Float]] = []
        for block in blocks:
            known = self.program.rows_of(block)
            for one in known or ():
                held.append((block, one.name, given.get(id(one.rows), np.zeros(len(one.rows)))))
            if known is None:
                held.append((block, "at least", np.array(sum(t for kept, t in self.kept if kept is block))))
        names = [name for _, name, _ in held]
        for block, name, values in held:
            out[unique(name if names.count(name) == 1 else f"{name} of `{block}`", out)] = values * unit
        return out

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        rows, kept = read.names.restored(program, held), read.names.kept(program, held)
        return cls(program, price_rows(program, held), rows, kept, float(held.get("unit", 1.0)))


def natural_units(program: Program, majorant: Form, point: Point, unit: float) -> float:
    """What entries have per unit of a majorant, for shares in multiples of ``unit``."""
    term, out = program.term, majorant.unit
    if term.is_curved and term.alpha is not None:
        weight, level = float(point.weights_of(term.share).sum()), point.level(term.share)
        out = term.factor * weight * (level / unit) ** (1.0 - term.alpha)
    return float(out * point.level(term.share) if term.kind.in_levels else out)


def natural_prices(program: Program, held: Mapping[str, Any]) -> Float:
    """The prices of an entry by row of loads, per whole capacity, in natural units of the objective."""
    prices, unit = price_rows(program, held), float(held.get("unit", 1.0))
    alpha = program.term.alpha
    if unit == 1.0:
        return prices
    if alpha is None:
        raise ValueError("a unit of shares for an objective that is no sum of one power")
    return prices * unit ** (1.0 - alpha)


def _by_resource(program: Program, by_row: Float) -> Float:
    """Prices (n_resources, n_servers) from those by row of loads."""
    return np.ascontiguousarray(by_row.reshape(program.instance.n_servers, -1).T)


def read_prices(program: Program, held: Mapping[str, Any], read: Reader) -> Evidence:
    """An entry of prices as the evidence with the fastest bound for the program."""
    kind, term, prices = Prices, program.term, price_rows(program, held)
    # the general bound takes all that an entry has; without prices others would divide by their sum
    if held.get("rows") or held.get("kept") or program.rest or not prices.any():
        return Prices.restored(program, held, read)
    kinds: list[type[Evidence]] = []
    if program.pool_share is not None:
        kinds = [FairPrices] if term.is_curved else [TotalPrices] if term.is_linear else []
    elif not program.single and program.of_users and servers.of_level(program):
        kinds = [LevelPrices]
    elif program.marginal is not None:
        kinds = [UserPrices if program.single else RowPrices]
    elif term.ranks is not None and not term.is_order:
        kinds = [CapacityPrices]
    return (kinds[0] if kinds else kind).restored(program, held, read)
