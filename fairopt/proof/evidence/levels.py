"""Evidence of leximin by programs: a dual solution for each level (`fairopt.proof.level_bounds`).

For each level k prices p_k of capacities, a point y_k of the dual cone of further constraints, and the users that these
fix, in the order in which they were fixed (Bound 5.8, docs/methods/servers.md; under constraints Proposition 7.7). In
files each level stands alone: the multiples of earlier levels' prices that close pairs are added to it
(`self_contained_duals`), as the checker bounds levels one by one.

Under curved constraints, and where a tier keeps what earlier ones reached, a solver's multipliers prove little by
tangents at the tasks; small programs then get others, by linear programs (`supporting`). The gate has a closer bound by
the cone form, so that both are written: the entry for the checker, the solver's numbers as ``loaded`` for the gate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairopt.blocks.base import is_ours
from fairopt.proof import feasibility as conditions
from fairopt.proof.conic import ConicConditions, further_conditions
from fairopt.proof.dual import Dual
from fairopt.proof.entries import Named, price_rows, priced
from fairopt.proof.evidence.supporting import is_small, supporting_levels
from fairopt.proof.evidence.written import Written
from fairopt.proof.level_bounds import judge_levels, self_contained_duals
from fairopt.proof.proposal import Evidence, Measured, Reader, as_indices, as_list, as_numbers
from fairopt.runtime.arrays import Float
from fairopt.solve.form.program import ConeModel, Program


@dataclass(frozen=True)
class LevelDuals(Evidence):
    """Dual solutions, by level, that fix every user below its limit.

    ``written`` is the cone program if there are constraints besides bounds, and ``further`` are these constraints;
    ``prices`` (n_rows,) are the derivatives of the max-min level by each row.
    """

    holdings: Sequence[Dual]
    written: Written | None = None
    prices: Float | None = None
    further: ConicConditions | None = None

    kind = "levels"

    @property
    def by_level(self) -> bool:
        return True

    def applies(self, program: Program) -> bool:
        of_program = not program.rest if self.written is None else self.written.program is program
        return program.term.is_order and of_program

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        # who has only what rounding leaves has nothing, or would be a level of its own that no prices fix
        tasks = conditions.without_rounding(program, conditions.repair(program, tasks))
        gap, gaps, assumed = judge_levels(program, self.holdings, self.further, tasks)
        cone, variables, of_blocks = None, dict[str, Float](), None
        if self.written is not None and not conditions.all_known(program):
            cone, variables, of_blocks = self.written.settled(tasks)
        of_blocks = conditions.violation_at(program, tasks, cone) if of_blocks is None else of_blocks
        prices = None if self.prices is None else program.term.factor * self.prices
        return Measured(tasks, gap, of_blocks, prices, assumed, gaps or (gap,), variables=variables or None)

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        further, levels = self.further, []
        own = [block for block in program.rest if not is_ours(block)]
        if curved := [block for block in own if program.rows_of(block) is None]:
            return {"why": f"levels under {curved[0]}, which is not linear rows"} | self.numbers()
        for one in self_contained_duals(program, self.holdings, further, tasks):
            # multipliers of rows that only CVXPY knows have no name, and are left out: the level is then proved by less
            entry = {"users": one.fixed.tolist(), **priced(program, one.prices)}
            if further is not None and one.in_cone is not None:
                entry |= names.multipliers(program, further.multipliers(one.in_cone))
            levels.append(entry)
        later = any(getattr(block, "added", False) for block in program.constraints)  # keeps what earlier tiers reach
        if (later or (further is not None and further.curved)) and is_small(program):
            with suppress(ValueError):  # none are found: the solver's stay
                levels = _supported(program, tasks, names)
        held = {"kind": self.kind, "levels": levels} | ({} if self.prices is None else priced(program, self.prices))
        # the gate has no bound by the multipliers of curves; policies of several tiers are solved again when loaded
        closer = further is not None and not _is_linear(further) and not later
        return held | {"loaded": self.numbers()} if closer or own else held

    def numbers(self) -> dict[str, Any]:
        """The dual solutions as the solver left them."""
        names = {"users": "fixed", "prices": "prices", "dual": "in_cone", "sizes": "sizes"}
        holdings = [{name: as_list(getattr(h, of)) for name, of in names.items()} for h in self.holdings]
        held = {"kind": "level duals", "holdings": holdings, "prices": as_list(self.prices)}
        return held if self.written is None else held | self.written.numbers()

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        rows, n = len(program.usable_rows), program.instance.n_users
        # without multipliers of further constraints, which no model is then built for
        free = all(h["dual"] is None for h in held["holdings"]) and not program.rest
        further = None if free else further_conditions(ConeModel(program, read.solver))
        shapes = {"dual": (0,), "sizes": (0,)}
        if further is not None:
            shapes = {"dual": further.right.shape, "sizes": further.on_others.shape[1:]}
        holdings = []
        for h in held["holdings"]:
            dual, sizes = (None if h[name] is None else as_numbers(h[name], shape) for name, shape in shapes.items())
            prices, users = as_numbers(h["prices"], (rows,)), as_indices(h["users"], n)
            holdings.append(Dual(prices, fixed=users, in_cone=dual, sizes=sizes))
        written = None if free else Written.restored(program, read.solver, held)
        return cls(holdings, written, as_numbers(held["prices"], (rows,)), further)

    @classmethod
    def of_entry(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        """By the prices and multipliers of an entry, if all constraints are linear rows."""
        n, written, further, holdings = program.instance.n_users, None, None, list[Dual]()
        if program.rest or any("rows" in level for level in held["levels"]):
            written = Written.restored(program, read.solver, {})
            further = further_conditions(ConeModel(program, read.solver))
        if further is not None and not _is_linear(further):
            raise ValueError("levels under constraints that are not linear rows")
        for level in held["levels"]:
            dual, sizes = None, None
            if further is not None:
                given = {(one.block, one.name): y for one, y in read.names.restored(program, level)}
                dual, sizes = np.zeros(further.right.shape), np.zeros(0)
                for one, at in further.rows:
                    y = given.get((one.block, one.name))
                    dual[at] = 0.0 if y is None else y * one.rows.units(further.scale)  # as rows are scaled there
            users = as_indices(level["users"], n)
            holdings.append(Dual(price_rows(program, level), fixed=users, in_cone=dual, sizes=sizes))
        return cls(holdings, written, price_rows(program, held) if "prices" in held else None, further)


def _supported(program: Program, tasks: Float, names: Named) -> list[dict[str, Any]]:
    """Levels of an entry by multipliers that support the tasks."""
    out = []
    for users, supported, costs in supporting_levels(program, tasks):
        level = {"users": users.tolist(), **priced(program, supported.dual.prices)}
        out.append(level | supported.dual.of_blocks(program, names) | {"costs": costs.tolist()})
    return out


def _is_linear(further: ConicConditions) -> bool:
    """Whether all constraints are known linear rows, so that their multipliers are all of a dual solution."""
    known = sum(len(one.rows) for one, _ in further.rows) == len(further.right)
    return known and not further.curved and not further.on_others.shape[1]
