"""Evidence of cone programs: a solver's dual values, or else a dual point of the cone form.

A solver maximised an expression phi, the objective f in multiples of a factor or an increasing transform of it, and
left y of capacities and constraints. With G a majorant of f and rate = dG / dphi along the ray through the tasks, t y
with t near rate are multipliers of G (Bound 7.1, docs/methods/cone.md). Tried in this order, each if the one before
leaves a gap (`judge_solved`):

    1. the cone form's dual, if a point of it is at hand and f has no majorant        (Bound 7.3)
    2. the majorant at t y, with t searched (`dual_bound`), or the tangent of f       (Bounds 7.1, 7.4)
    3. the cone form's dual at the point that the solver left, then at one of a second solve.

A bound by a majorant needs no assumption and a few passes; the cone form is tight for any f, and may have to assume how
far variables go that CVXPY added. Proofs without assumptions come first (`Proved.missing`).

A solver's objective value and bound are not used: expressions are evaluated at the point that is judged. Floats: dual
values are per row in the solver's scale, and are brought to natural units once (`Solved.dual`); those below `IDLE` of
the largest of a block are dropped from files. The rate is a difference quotient over `STEP`, good for 1e-5, and only a
start for t. In files small programs get multipliers that support the tasks where the solver's prove less
(`supporting`): within a quarter of the tolerance, as the checker rounds outwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from fairopt.blocks.algebra import AtLeast, Objective, Slope, in_units
from fairopt.blocks.base import is_ours
from fairopt.blocks.constraints import Constraint, MadeRows, ManyRows
from fairopt.blocks.efficiency import FairnessEfficiency, TotalIs
from fairopt.blocks.form import Curve, Form
from fairopt.blocks.model import Point
from fairopt.blocks.rows import Rows
from fairopt.proof import feasibility as conditions
from fairopt.proof.as_written import OwnProgram
from fairopt.proof.conic import ConicBound, conic_gap
from fairopt.proof.dual import Dual, majorant_of
from fairopt.proof.dual_bound import LagrangianBound, lagrangian_bound
from fairopt.proof.entries import Named
from fairopt.proof.evidence.prices import STEP, natural_slope, supported
from fairopt.proof.evidence.written import Written
from fairopt.proof.feasibility import dual_values
from fairopt.proof.lagrangian import Lagrangian, LinearRows, Multipliers
from fairopt.proof.plane_bound import LEAST, LineLagrangian, PlaneOptimum, log_mean
from fairopt.proof.proposal import Measured, Reader, as_numbers
from fairopt.proof.slopes import slope_by_bound
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import cp, sp
from fairopt.runtime.tolerances import GAP_TOLERANCE
from fairopt.solve.form.compiled import CompiledHere, Left, values_kept
from fairopt.solve.form.program import ConeModel, Program, is_affine, unique
from fairopt.solve.form.program_rows import BlockRows

PLAINLY = GAP_TOLERANCE / 10  # a gap after which nothing closer is looked for
IDLE = 1e-13  # of the largest price of a row: smaller ones are noise of interior points, on each of n(n - 1) rows


class ConditionDual(NamedTuple):
    """The dual values of a constraint of a cone program: of a block's, or of bounds on tasks.

    ``rows`` are the constraint as linear rows, None if only CVXPY knows it; ``name`` is the block's name for it.
    """

    block: Constraint | Objective | None
    rows: BlockRows | None
    values: Float
    name: str = ""

    def multipliers(self, scale: Float) -> Float:
        """Multipliers of the rows in natural units, if unknowns are ``scale`` tasks each."""
        assert self.rows is not None
        return self.rows.rows.valid(self.values / self.rows.rows.units(scale))


@dataclass(frozen=True)
class Solved(PlaneOptimum):
    """The dual values that a solver left of a cone program, per unit of the expression that was maximised.

    That expression is the objective in multiples of ``factor`` natural units, or an increasing transform of it
    (``factor`` is None). The objective's majorant changes at the optimum by ``rate`` per unit of the transform (NaN if
    unknown, None if not computed). Or the expression ``stands_in``: it has the same optimum as the objective and no
    other relation to it. ``unit`` is the factor if it is not that of `ConeModel.maximand`. If dual values leave a gap,
    the cone form is solved once ``more``. ``left`` is a dual point of the form that was solved, if there is one.
    ``capacity`` are prices of capacities, per whole capacity, by row of
    `Program.capacity_rows`, and ``duals`` those of the other constraints.
    """

    written: Written
    capacity: Float
    duals: Sequence[ConditionDual]
    factor: float | None
    rate: float | None = None
    stands_in: bool = False
    unit: float | None = None
    more: bool = True
    left: Left | None = None

    kind = "duals"
    of_solver = True

    @property
    def program(self) -> Program:
        """The program that was solved."""
        return self.written.program

    @classmethod
    def of(
        cls, cone: ConeModel, stands_in: cp.Expression | None = None, unit: float | None = None, keep: bool = False
    ) -> Self:
        """What a solver left in a cone program, with an objective in another unit or an expression that stands in for
        it; see `Written.of` for ``keep``.
        """
        factor, rate = (cone.maximand[1] if unit is None and stands_in is None else unit), None
        if factor is None:  # now, as variables of blocks have their values only until the next solve
            tasks = cone.tasks()
            point = cone.program.point(tasks)
            majorant = cone.program.objective.majorant(point)
            form = cone.maximand[0] if stands_in is None else stands_in
            rate = None if majorant is None else slope(majorant, form, point, cone, tasks) or np.nan
        capacity, duals = dual_values(cone.capacity), _duals_of(cone)
        # a dual point of another objective proves nothing of this one
        left = cone.left if keep and stands_in is None and unit is None and cone.left.points is not None else None
        return cls(Written.of(cone, keep), capacity, duals, factor, rate, stands_in is not None, unit, left=left)

    @classmethod
    def of_prices(cls, program: Program, prices: Float, solver: str | None) -> Self:
        """Prices of capacities only, by row of `Pairs.loads`, per whole capacity in natural units of the objective."""
        cone = ConeModel(program, solver)
        factor = cone.maximand[1]
        none = [one._replace(values=np.zeros(one.values.shape)) for one in _duals_of(cone)]
        return cls(Written.of(cone), prices[program.capacity_rows] / (factor or 1.0), none, factor)

    @cached_property
    def maximand(self) -> tuple[cp.Expression, float | None]:
        """The expression that was maximised (unless another stood in for it), and natural units per unit of it, None
        for a transform.
        """
        if self.unit is None or self.stands_in:
            return self.written.model.maximand
        return self.written.model.natural / self.unit, self.unit

    def with_duals(self) -> Iterable[tuple[cp.Constraint, Any]]:
        """The constraints of the cone program besides capacities, with their dual values."""
        return zip(_conditions(self.written.model)[1:], (one.values for one in self.duals), strict=True)

    def applies(self, program: Program) -> bool:
        return self.program is program and not program.term.is_order

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        return judge_solved(program, self, conditions.repair(program, tasks))

    def multipliers_at(self, tasks: Float) -> Multipliers:
        """The dual values as multipliers of linear rows and of concave functions.

        Nonlinear constraints are linearised at the tasks: the tangent of a convex constraint only relaxes it. Levels of
        objectives are replaced by their majorants, which are closer. Rows with variables of blocks are left out if one
        of these has no bound on the side where it has a cost.
        """
        out, rows = self.charges_at(tasks)
        joint = self.charged_jointly(rows, tasks)  # all together or none: a variable's costs cancel across rows
        if rows and np.isfinite(joint.constant):
            out.plus(joint)
        return out

    @property
    def allows_nothing(self) -> bool:
        """Whether the dual values prove that no tasks are possible: by rows with right-hand side 0 they cost."""
        none = np.zeros(len(self.program.pairs))
        self.written.settled(none)
        return bool(np.min(self.multipliers_at(none).forced, initial=1.0) > 0)

    def charged_jointly(
        self,
        rows: Sequence[tuple[LinearRows, Float]],
        tasks: Float,
        slopes: Mapping[cp.Variable, Float] | None = None,
    ) -> Multipliers:
        """The multipliers of rows with variables of blocks, less the objective's slopes by these."""
        joint = Multipliers(np.zeros(len(self.program.usable_rows)), np.zeros(len(self.program.pairs)))
        joint.charge_jointly(rows, tasks / self.scale, self.scale, self.top, slopes)
        return joint

    def charges_at(self, tasks: Float) -> tuple[Multipliers, list[tuple[LinearRows, Float]]]:
        """The multipliers of rows in tasks only, and the rows with variables of blocks, with their dual values."""
        program = self.program
        point, scale = program.point(tasks), self.scale
        out, joined = self.dual(1.0, named=False).charges(point), list[tuple[LinearRows, Float]]()
        for k in self.charged_duals:
            check()
            block, rows, values, _ = self.duals[k]
            if rows is not None or (isinstance(block, AtLeast) and majorant_of(block, point) is not None):
                continue
            cone = self.written.model  # from here on only CVXPY knows the constraint: its tangent at the tasks
            others = [own.variable for own in cone.model.own.held.values()]
            with values_kept([cone.unknowns]):
                cone.unknowns.save_value(tasks / scale)
                linear = conditions.linear_rows(_conditions(cone)[1 + k], cone.unknowns, others)
            if linear is not None and linear.others:
                joined.append((linear, values))
            elif linear is not None:
                out.charge(linear, values, tasks / scale, scale)
        return out, joined

    def natural_multipliers(self, unit: float) -> dict[str, Float]:
        """The multipliers of blocks' inequalities and equations by name, if a dual value is ``unit`` natural units.

        Without rows that are made when an answer breaks them.
        """
        out, held = dict[str, Float](), list[tuple[ConditionDual, Float]]()
        for k, one in enumerate(self.duals):
            if one.block is None or isinstance(one.block, MadeRows) or getattr(one.block, "added", False):
                continue
            if one.rows is not None:
                held.append((one, one.multipliers(self.scale)))
                continue
            # of cones a dual value is a vector with no sign that users would know
            condition = _conditions(self.written.model)[1 + k]
            if (
                isinstance(condition, (cp.constraints.Inequality, cp.constraints.Equality))
                and condition.id not in self.written.model.rewritten
            ):
                sign = np.maximum(one.values, 0.0) if isinstance(condition, cp.constraints.Inequality) else one.values
                held.append((one, sign.reshape(condition.shape, order="F") / getattr(condition, "unit", 1.0)))
        names = [one.name for one, _ in held]
        for one, values in held:
            key = one.name if names.count(one.name) == 1 else f"{one.name} of `{one.block}`"
            out[unique(key, out)] = values * unit
        return out

    @property
    def prices(self) -> Float:
        """The prices of capacities by row of `Pairs.loads`, at least 0."""
        prices = np.zeros(len(self.program.usable_rows))  # rows that nobody needs are not solved
        prices[self.program.capacity_rows] = np.maximum(self.capacity, 0.0)
        return prices

    @property
    def scale(self) -> Float:
        """Tasks per unknown, by pair."""
        return self.program.units[self.program.pairs.user]

    @property
    def top(self) -> Float:
        """Proven upper bounds on unknowns."""
        return self.program.most[self.program.pairs.user] / self.scale

    @property
    def charged_duals(self) -> list[int]:
        """The indices of constraints with multipliers: those of blocks, and bounds that are not bounds on shares."""
        of_blocks = [k for k, one in enumerate(self.duals) if one.block is not None]
        # others enter by the users' ranges, exactly and without multipliers
        if conditions.bounds_are_charged(self.program):
            of_blocks += [k for k, one in enumerate(self.duals) if one.block is None]
        return of_blocks

    def rate_at(self, majorant: Form, tasks: Float) -> float | None:
        """The change of a majorant per unit of the expression that was maximised; None if unknown."""
        if self.factor is not None:
            return self.factor / majorant.unit
        if self.rate is not None:
            return None if np.isnan(self.rate) else self.rate
        return slope(majorant, self.maximand[0], self.program.point(tasks), self.written.model, tasks)

    def is_of_cut(self, cut: Program) -> bool:
        return self.program is cut

    def line_lagrangian(self, program: Program, tasks: Float, powers: Form, unit: float) -> LineLagrangian:
        point, (term,) = program.point(tasks), powers.curves
        majorant = program.objective.majorant(point)
        assert majorant is not None
        lagrangian = Lagrangian(program, powers, self.multipliers_at(tasks), point)
        of_sum = sum(float(one.values[0]) for one in self.duals if isinstance(one.block, TotalIs))
        rate = self.rate_at(majorant, tasks)
        factors = None if rate is None else float(rate * unit ** (term.alpha - 1.0)), lagrangian.fitted_factor()
        return LineLagrangian(lagrangian, of_sum, factors, in_units=False)

    def of_charged_rows(self, program: Program) -> tuple[Program, Solved, tuple[tuple[int, ...], ...]] | None:
        if self.stands_in:
            return None
        # a row without a price is in no bound: the program without it has the same one, and smaller files
        kept: dict[ManyRows, tuple[int, ...]] = dict.fromkeys(program.many_rows, ())
        left: dict[ManyRows, Float] = {}
        for block, _, values, _ in self.duals:
            if isinstance(block, MadeRows):
                if len(values) != len(block.made):
                    return None
                some = values > IDLE * values.max(initial=0.0)  # none if all are 0: the rows do not bind
                kept[block.block], left[block.block] = tuple(np.array(block.made)[some].tolist()), values[some]
        fewer, duals = program.with_rows(kept), list[ConditionDual]()
        made = {block.block: block for block in fewer.rest if isinstance(block, MadeRows)}
        for one in self.duals:
            if not isinstance(one.block, MadeRows):
                duals.append(one)
            elif one.block.block in made:
                block = made[one.block.block]
                duals += [
                    ConditionDual(block, rows, left[block.block], rows.name) for rows in fewer.rows_of(block) or ()
                ]
        return (
            fewer,
            replace(self, written=replace(self.written, program=fewer), duals=duals, left=None),
            tuple(kept.values()),
        )

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        """Dual values in natural units of the objective; for alpha-fairness alone, of shares in a unit.

        What only CVXPY can evaluate of a user's blocks stands beside them as a cone program (`as_written`), and the
        solver's own numbers as ``loaded``, for readers with the code of these blocks.
        """
        natural, known = self._is_natural(), program.objective.is_known
        scaled = lagrangian_of(program, self, tasks) if known else None
        try:
            if known:
                held = self._natural_entry(program, tasks, names, scaled)
            else:
                held = self._entry_of_own(program, tasks, names)
            if natural and scaled is not None and "lines" not in held:
                held = supported(program, tasks, names, held, scaled.lagrangian, scaled.gap)
        except ValueError as error:
            return {"why": str(error)} | ({} if natural else self.numbers())
        return held if natural else held | {"loaded": self.numbers()}

    def _is_natural(self) -> bool:
        """Whether prices, multipliers of named rows and of levels of objectives are all of it."""
        program = self.program
        return program.objective.is_known and all(
            is_ours(block)
            and (
                isinstance(block, ManyRows)
                or program.rows_of(block) is not None
                or (isinstance(block, AtLeast) and block.objective.is_known and block.objective.majorant_is_natural)
            )
            for block in program.rest
        )

    def _entry_of_own(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        """Prices and multipliers beside the cone form of an objective that only CVXPY knows."""
        if self.factor is None or self.stands_in:
            raise ValueError(f"{program.objective} was maximised in a form of other units")
        held = replace(self.dual(self.factor), kept=()).entry(program, names)
        return held | self._as_written(program, tasks, names, self.factor)

    def _as_written(self, program: Program, tasks: Float, names: Named, scale: float) -> dict[str, Any]:
        """The cone form of what is charged neither by the name of a row nor as a level; empty if there is none.

        A dual value is ``scale`` natural units.
        """
        own = not program.objective.is_known
        left = [k for k, one in enumerate(self.duals) if one.block is not None and k not in self._named]
        if not own:
            left = [k for k in left if self._kept(k) is None]
        if not (own or left):
            return {}
        cone, compiled = self.written.model, None if self.left is None else self.left.compiled
        of_model = self.left is not None and self.left.is_of(self.maximand[0], cone.all_constraints)
        if self.left is None or not of_model or not isinstance(compiled, CompiledHere) or self.left.points is None:
            if own and not left:  # a tangent is written instead (`as_written.in_full`)
                return {}
            raise ValueError("the solver left no dual point of the program in cone form")
        if program.instance.n_servers < program.given.n_servers:
            raise ValueError("identical servers were merged")
        kept = [(self.duals[k], _conditions(cone)[1 + k]) for k in left]
        dropped = [one for k, one in enumerate(_conditions(cone)) if k - 1 not in left]
        return {
            "written": OwnProgram(
                compiled.data,
                compiled.offset,
                self.left.points,
                compiled.columns()[cone.unknowns.id],
                cone.scale,
                (program.active[program.pairs.user], program.pairs.server),
                program.most[program.pairs.user],
                tasks,
                tuple(compiled.rows[one.id] for one in dropped),
                tuple((place_of(names, program, one.block), one.name, compiled.rows[c.id]) for one, c in kept),
                tuple(compiled.aggregates),
                scale,
                self.factor if own else None,
                cone.constant,
            )
        }

    @cached_property
    def _named(self) -> set[int]:
        """The dual values of linear rows: of those that are given as such, and of users' affine conditions."""
        given = {k for k, one in enumerate(self.duals) if one.rows is not None}
        if all(one.rows is not None or one.block is None or is_ours(one.block) for one in self.duals):
            return given
        cone, own, curved = self.written.model, dict[int, list[int]](), set[int]()
        for k, (one, condition) in enumerate(zip(self.duals, _conditions(cone)[1:], strict=True)):
            block = one.block
            if k in given or not isinstance(block, Constraint) or is_ours(block):
                continue
            own.setdefault(id(block), []).append(k)
            if condition.id in cone.rewritten or not is_affine(condition, cone.unknowns):
                curved.add(id(block))
        return given.union(*(places for block, places in own.items() if block not in curved))

    def _kept(self, k: int) -> AtLeast | None:
        """The level of an objective with a majorant that a dual value is of."""
        block = self.duals[k].block
        if not isinstance(block, AtLeast) or not block.objective.is_known:
            return None
        return block if block.objective.majorant_is_natural else None

    def _natural_entry(self, program: Program, tasks: Float, names: Named, scaled: Scaled | None) -> dict[str, Any]:
        """Prices and multipliers, or a line; `ValueError` if the objective has no bound by these."""
        if scaled is None:
            raise ValueError(f"{program.objective} has no bound by prices")
        point, term, unit = program.point(tasks), program.term, 1.0
        scale = scaled.factor * scaled.lagrangian.majorant.unit
        if term.is_curved:
            weight = float(point.weights_of(term.share).sum())
            scale, unit = term.factor * scaled.factor * weight, point.level(term.share)
        if term.kind.in_levels:
            scale *= point.level(term.share)
        line: dict[str, Any] = {}
        if term.measure is not None and term.alpha is None:
            line = _touching(program, term.measure, scaled, tasks)
            # prices of h times M / b_1 are those of M: d h = b_1 dM / M at a fixed mean
            scale *= line.pop("size") / (term.factor * term.measure.exponents[0])
        dual = replace(self.dual(scale * scaled.per_dual), unit=unit)
        written = self._as_written(program, tasks, names, scale * scaled.per_dual)
        if written and line:
            raise ValueError("lines have no multipliers of constraints that only CVXPY knows")
        held = dual.completed(program, point, scaled.lagrangian, scaled.factor).entry(program, names)
        return {"kind": "lines", "lines": [held | line]} if line else held | written

    def dual(self, scale: float, named: bool = True) -> Dual:
        """The multipliers of capacities, rows, and levels of objectives, if a dual value is ``scale`` natural units.

        Beside them those of users' affine conditions, which are ``named`` in files and have no rows here.
        """
        of_rows, kept = list[tuple[BlockRows, Float]](), list[tuple[AtLeast, float]]()
        for k in self.charged_duals:
            one, level = self.duals[k], self._kept(k)
            if one.rows is not None:
                of_rows.append((one.rows, one.multipliers(self.scale) * scale))
            elif level is not None:  # solved relative to the level
                kept.append((level, max(float(one.values.sum()) * scale, 0.0) / (abs(level.level) or 1.0)))
            elif named and isinstance(one.block, Constraint) and k in self._named:
                numberless = Rows(sp.csr_array((len(one.values), len(self.program.pairs))))  # only their names are read
                of_rows.append((BlockRows(one.block, one.name, numberless), one.values * scale))
        return Dual(self.prices * scale, of_rows, kept)

    def multipliers(self, names: Named, scale: float) -> dict[str, Any]:
        return self.dual(scale).of_blocks(self.program, names)

    def numbers(self) -> dict[str, Any]:
        """The dual values as the solver left them."""
        duals = [self.capacity.tolist(), *(one.values.tolist() for one in self.duals)]
        held = {"kind": self.kind, "duals": duals, "stands_in": self.stands_in, "unit": self.unit}
        return held | self.written.numbers()

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        cone = Written.restored(program, read.solver, held).model
        conditions, (capacity, *duals) = _conditions(cone), held["duals"]
        if len(conditions) != len(held["duals"]):
            raise ValueError(f"{len(held['duals'])} dual values for {len(conditions)} conditions")
        given = [
            one._replace(values=as_numbers(values, one.values.shape))
            for one, values in zip(_duals_of(cone), duals, strict=True)
        ]
        unit, stands_in = held.get("unit"), bool(held["stands_in"])
        if unit is not None and not 0 < float(unit) < np.inf:
            raise ValueError(f"the unit is {unit!r}, not a number > 0")
        factor = float(unit) if unit is not None else None if stands_in else cone.maximand[1]
        prices = as_numbers(capacity, program.capacity_rows.shape)
        unit = None if unit is None else float(unit)
        written = Written.restored(program, read.solver, held)
        return cls(written, prices, given, factor, stands_in=stands_in, unit=unit)


def place_of(names: Named, program: Program, block: Constraint | Objective | None) -> int | str:
    """The place of a block's conditions in a program as written."""
    place = names.place(program, block) if isinstance(block, Constraint) else None
    return "objective" if place is None else place


def _conditions(cone: ConeModel) -> list[cp.Constraint]:
    """The constraints whose dual values are evidence: capacities, bounds on tasks, and blocks."""
    return [cone.capacity, *cone.box, *(condition for _, _, condition in cone.rest), *_of_objective(cone)]


def _of_objective(cone: ConeModel) -> list[cp.Constraint]:
    """The constraints that a user-defined objective requires."""
    if cone.program.objective.is_known:
        return []
    _ = cone.maximand
    return cone.required


def _duals_of(cone: ConeModel) -> list[ConditionDual]:
    """The dual values of constraints besides capacities; zeros if a solver left none."""
    # in the order of `_conditions`, by which files hold them
    every: list[tuple[Constraint | Objective | None, str, cp.Constraint]] = [(None, "", c) for c in cone.box]
    every += cone.rest
    every += [(cone.program.objective, c.label or "required", c) for c in _of_objective(cone)]
    return [ConditionDual(block, cone.known.get(c.id), dual_values(c), name) for block, name, c in every]


def judge_solved(program: Program, evidence: Solved, tasks: Float) -> Measured:
    """Bound the gap of the tasks.

    If the objective has a majorant, `lagrangian_bound` at the solver's dual values applies; otherwise the tangent at
    the tasks. If that leaves a gap, the dual of the cone form may be tighter.
    """
    objective, cone, variables, blocks = program.objective, None, dict[str, Float](), None
    known: dict[str, Float] | None = variables
    if not conditions.all_known(program):
        cone, variables, blocks = evidence.written.settled(tasks)
        known = variables if variables or not cone.model.own.held else None
    point = program.point(tasks, variables=variables)
    blocks = conditions.violation_at(program, tasks, cone) if blocks is None else blocks
    proof, left, fit = Proved(), evidence.left, None
    # at no tasks relative gaps say nothing, and infinite slopes no tangent
    if not tasks.any() and np.isfinite(objective.value(point)) and evidence.allows_nothing:
        return Measured(tasks, 0.0, blocks, evidence.prices, variables=known)
    prices, scale = evidence.prices * (evidence.factor or 1.0), evidence.factor or 1.0
    by_cone = left is not None and evidence.factor is not None and objective.majorant(point) is None
    if by_cone:
        proof = _conic_gap(program, evidence, None, tasks, point, left)
    # the cone form spares the tangent if it leaves little
    if not (by_cone and proof.plainly and proof.gap <= PLAINLY):
        fit = _fit(program, evidence, tasks, point)
        if fit is None:
            gap, prices, scale = _tangent_gap(program, evidence, tasks, point)
        else:
            gap, prices, scale = _of_fit(evidence, fit, objective, point)
        proof = min(proof, Proved(gap), key=Proved.missing)
        if left is not None and not (by_cone or fit is None or proof.plainly):
            proof = min(proof, _conic_gap(program, evidence, fit.majorant, tasks, point, left), key=Proved.missing)
    multipliers = evidence.natural_multipliers(scale) if proof.plainly else {}  # of what is not proved, none are shown
    if not proof.gap <= GAP_TOLERANCE and evidence.more and not evidence.stands_in:
        again = _conic_gap(program, evidence, None if fit is None else fit.majorant, tasks, point)
        proof = min(proof, again, key=Proved.missing)
    return Measured(tasks, proof.gap, blocks, prices, proof.assumed, variables=known, multipliers=multipliers)


def _of_fit(evidence: Solved, fit: _Fit, objective: Objective, point: Point) -> tuple[float, Float, float]:
    """The gap and prices by a `lagrangian_bound`, and natural units per dual value."""
    scale = fit.found.factor * natural_slope(objective, fit.majorant, point)
    return fit.found.gap, fit.multipliers.prices * scale, scale * (evidence.factor or 1.0)


class Proved(NamedTuple):
    """A gap, and what its proof assumes, if anything."""

    gap: float = np.inf
    assumed: str = ""

    @property
    def plainly(self) -> bool:
        """Whether it is small without assumptions."""
        return self.gap <= GAP_TOLERANCE and not self.assumed

    def missing(self) -> tuple[bool, bool, float]:
        """A sort key: small gaps first, without assumptions before others."""
        return not self.gap <= GAP_TOLERANCE, bool(self.assumed), self.gap


def _conic_gap(
    program: Program,
    evidence: Solved,
    majorant: Form | None,
    tasks: Float,
    point: Point,
    left: Left | None = None,
) -> Proved:
    """The gap by the dual of the cone form, at the point that a solver left or else from a second solve."""
    cone, objective, (form, factor) = evidence.written.model, program.objective, evidence.maximand
    alone = all(v.id == cone.unknowns.id for v in form.variables())
    # what a unit of the form is in the units of the gap; without that an excess of the form says nothing
    if majorant is None:
        per_form = factor  # None for a transform, whose excess has no natural units
    elif not alone:
        per_form = None
    else:
        per_form = slope(majorant, form, point, cone, tasks) if factor is None else factor / majorant.unit
    if not per_form:
        return Proved()
    cone.unknowns.save_value(tasks / cone.scale)
    at = conditions.number(form)
    if not alone:  # without values of variables, the best ones
        at = np.nan if factor is None else objective.value(point) / factor
    top = program.most[program.pairs.user] / cone.scale
    value = None if majorant is None else majorant.value(point)  # concave in the form: its slope bounds the excess

    def gap(excess: float, bound: ConicBound) -> float:
        if value is not None:
            return max(objective.relative_gap(value + per_form * excess, value, point), 0.0)
        if not alone and point.written is not None:  # the unit by the multipliers at hand, where that is enough
            slope = slope_by_bound(bound, excess, evidence.with_duals(), cone.unknowns)
            if slope.unit > 0:
                point.written.set_slope(objective, point, Slope(slope.unit * per_form, slope.hidden * per_form))
                small = in_units(excess * per_form, *objective.units(point))
                if small <= PLAINLY:
                    return small
                point.written.set_slope(objective, point, None)
        return in_units(excess * per_form, *objective.units(point))

    return Proved(*conic_gap(form, cone.all_constraints, cone.unknowns, top, at, gap, left))


class _Fit(NamedTuple):
    """The `lagrangian_bound` of a solved program, its majorant, the multipliers in units of it, and the change of the
    majorant per unit of the expression that was solved (None if unknown).
    """

    majorant: Form
    multipliers: Multipliers
    per_form: float | None
    found: LagrangianBound


def _fit(program: Program, evidence: Solved, tasks: Float, point: Point) -> _Fit | None:
    """The bound of an objective that has a majorant in the units that were solved; None for others.

    The last one is kept, as the entry in files needs it again.
    """
    last = vars(evidence).get("last")  # of a frozen dataclass: it is a cache, and no part of what is compared
    if last is not None and last[0] is program and np.array_equal(last[1], tasks):
        return last[2]
    objective, factor = program.objective, evidence.factor
    natural = factor is not None
    majorant = objective.majorant(point)
    if majorant is None or (natural and not objective.majorant_is_natural):
        return None
    multipliers = evidence.multipliers_at(tasks).times(1.0 if factor is None else factor)
    per_form = evidence.rate_at(majorant, tasks)
    start = None if natural else per_form
    bound = lagrangian_bound(
        program, majorant, objective, multipliers, tasks, natural=natural, start=start, point=point
    )
    fit = _Fit(majorant, multipliers, per_form, bound)
    vars(evidence)["last"] = program, tasks, fit
    return fit


class Scaled(NamedTuple):
    """A Lagrangian with the factor of its smallest bound, units of its multipliers per unit of dual values, and the
    gap.
    """

    lagrangian: Lagrangian
    factor: float
    per_dual: float
    gap: float


def lagrangian_of(program: Program, evidence: Solved, tasks: Float) -> Scaled | None:
    """The Lagrangian by which `judge_solved` bounds an objective with a majorant; None for others."""
    fit, factor = _fit(program, evidence, tasks, program.point(tasks)), evidence.factor
    if fit is None:
        return None
    closest = fit.found.factor
    if not fit.found.gap <= GAP_TOLERANCE:  # nothing is proved
        closest = (fit.per_form if factor is None else 1.0) or closest
    return Scaled(fit.found.lagrangian, closest, factor or 1.0, fit.found.gap)


def _touching(program: Program, measure: FairnessEfficiency, scaled: Scaled, tasks: Float) -> dict[str, Any]:
    """The line tangent to the power mean M (``size``) at an optimum of a concave measure.

    Its levels maximise the users' parts of the Lagrangian, where errors of prices enter by their square only.
    """
    point, pairs, (first, second) = program.point(tasks), program.pairs, measure.exponents
    c, w = measure.share.coefficients(program.instance), point.weights / point.weights.sum()
    levels = point.share(measure.share) / point.weights
    if not levels.any():
        raise ValueError("nobody runs anything, where evenness is not defined")
    size = float(np.exp(log_mean(levels, w, 1 - measure.beta)))
    slope = -second * size / (first * float(levels @ w))  # of M along which h = b_1 log M + b_2 log m does not change
    relative = (c.T / (point.weights * size)).T
    charged = scaled.lagrangian.multipliers.times(scaled.factor / first)
    charged.pair_cost = charged.pair_cost + slope * w[pairs.user] * (
        pairs.of(relative) if c.ndim == 2 else relative[pairs.user]
    )
    if not charged.extra:
        powers = Form(curves=(Curve(relative, w, measure.beta),))
        best = Lagrangian(program, powers, charged, point).levels(1.0)
        levels = size * np.maximum(best, LEAST * best.max())  # positive, as the checker takes their powers
    return {"levels": levels.tolist(), "slope": slope, "size": size}


def slope(majorant: Form, form: cp.Expression, point: Point, cone: ConeModel, tasks: Float) -> float | None:
    """The derivative of the majorant by the transform that was solved, along the ray through the tasks."""
    if any(v.id != cone.unknowns.id for v in form.variables()):
        return None  # the values of other variables along the ray are unknown
    ends = []
    with values_kept([cone.unknowns]):
        for factor in (1 - STEP, 1 + STEP):
            cone.unknowns.save_value(tasks / cone.scale * factor)
            ends.append((majorant.value(point.scaled(factor)), conditions.number(form)))
    rise, run = ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]
    return rise / run if np.isfinite(rise) and run > 0 and rise > 0 else None  # both grow along the ray, or it is noise


def _tangent_gap(program: Program, evidence: Solved, tasks: Float, point: Point) -> tuple[float, Float, float]:
    """Gap and prices by the tangent of the objective at the tasks and the variables of blocks, and natural units per
    dual value, for objectives without a majorant.
    """
    cone, objective, (form, factor) = evidence.written.model, program.objective, evidence.maximand
    out, rows = evidence.charges_at(tasks)
    of_form = factor is not None and not evidence.stands_in
    natural = form * factor if of_form else cone.natural
    tangent = conditions.tangent(cone, natural, tasks)
    scale = 1.0 if factor is None else factor
    cone.unknowns.save_value(tasks / cone.scale)
    if tangent is None:
        return np.inf, out.prices * scale, scale
    majorant, slopes, of_others = tangent
    if factor is None:  # prices of a transform, times the objective's slope by it, along the ray
        own = conditions.tangent(cone, form, tasks)
        scale = float(slopes @ tasks) / float(own[1] @ tasks) if own is not None and own[1] @ tasks else 1.0
    charged = out.times(scale)
    joint = evidence.charged_jointly([(one, scale * values) for one, values in rows], tasks, of_others)
    # an infinite constant must stay if the objective has slopes by variables: without their rows nothing bounds them
    if np.isfinite(joint.constant) or of_others:
        charged.plus(joint)
    charged.size = np.abs(slopes) + (np.abs(charged.pair_cost) if charged.size is None else charged.size)
    charged.pair_cost = charged.pair_cost - slopes
    value = objective.value(point)
    bound = lagrangian_bound(program, majorant, objective, charged, tasks, natural=True, refine=False, point=point)
    return plain_gap(program, point, bound.value - value), charged.prices, scale


def plain_gap(program: Program, point: Point, excess: float) -> float:
    """An excess in units of the objective."""
    return in_units(excess, *program.objective.units(point))
