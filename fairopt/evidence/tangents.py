"""Evidence of `FairnessEfficiency` by lines along the sum of shares (`fairopt.proofs.plane`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairopt.blocks.efficiency import PowerSpread, TotalIs
from fairopt.blocks.objectives import Objective, Total
from fairopt.formulation.program import Float, Program
from fairopt.proofs import conditions, plane
from fairopt.proofs.entries import Imposed, priced
from fairopt.proofs.plane import Optimum, fixed_sum
from fairopt.proofs.proposal import Evidence, Measured, Proposal, Reader, as_list, as_numbers


@dataclass(frozen=True)
class Tangents(Evidence):
    """Lines along the sum of shares.

    ``largest`` is evidence of the largest sum, ``smallest`` of the smallest unless that is zero. ``cuts`` are optima of
    the evenness at fixed sums: each a program of the same blocks with `TotalIs`, tasks by pair, and its evidence.
    """

    largest: tuple[Program, Proposal]
    smallest: tuple[Program, Proposal] | None
    cuts: Sequence[tuple[Program, Float, Optimum]]

    kind = "tangents"

    def applies(self, program: Program) -> bool:
        """Whether it is of the same instance and blocks: the extreme sums, and the evenness at fixed sums."""
        measure = program.term.measure
        if measure is None or measure.beta == 1:
            return False
        ends: list[tuple[Program, Objective]] = [(self.largest[0], Total(measure.share))]
        if self.smallest is not None:
            ends.append((self.smallest[0], PowerSpread(1.0, measure.share)))
        n = len(program.constraints)
        return all(
            end.given is program.given and end.objective == of_sum and end.constraints == program.constraints
            for end, of_sum in ends
        ) and all(
            found.is_of_cut(cut)
            and cut.given is program.given
            and cut.objective == measure.evenness
            and cut.constraints[:n] == program.constraints
            and all(type(c) is TotalIs and c.share == measure.share for c in cut.constraints[n:])
            and len(cut.constraints) <= n + 1
            for cut, _, found in self.cuts
        )

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.repair(program, tasks)
        ends = [end and _extreme(*end) for end in (self.largest, self.smallest)]
        largest, smallest = (end and end[0] for end in ends)
        assert largest is not None
        lines = [tangent.line for cut, at, found in self.cuts if (tangent := plane.tangent_of(cut, found, at))]
        gap = plane.gap_of(program, lines, tasks, largest, smallest)
        assumed = "; ".join(dict.fromkeys(end[1] for end in ends if end and end[1]))
        return Measured(tasks, gap, conditions.violation_at(program, tasks), assumed=assumed)

    def most_rise(self, program: Program, tasks: Float) -> Float:
        none = super().most_rise(program, tasks)
        return np.min([none, *(found.most_rise(program, tasks) for _, _, found in self.cuts)], axis=0)

    def entry(self, program: Program, tasks: Float, rows: Imposed) -> dict[str, Any]:
        lines = []
        for cut, at, found in self.cuts:
            tangent = plane.tangent_of(cut, found, at)
            if tangent is not None:
                own = {"levels": tangent.levels.tolist(), "slope": tangent.line.slope}
                lines.append(priced(cut, tangent.prices) | own | found.multipliers(rows, tangent.per_dual))
        entry: dict[str, Any] = {"kind": "lines", "lines": lines}
        for name, end in (("largest", self.largest), ("smallest", self.smallest)):
            if end is not None and end[1].tasks is not None and end[1].evidence is not None:
                entry[name] = end[1].evidence.entry(end[0], end[1].tasks, rows)
        return entry

    def numbers(self) -> dict[str, Any]:
        sums = [end and end[1] for end in (self.largest, self.smallest)]
        ends = [end and {"tasks": as_list(end.tasks), "found": _numbers_of(end)} for end in sums]
        cuts = [{"sum": fixed_sum(cut), "tasks": as_list(at), "found": found.numbers()} for cut, at, found in self.cuts]
        return {"kind": self.kind, "ends": ends, "cuts": cuts}

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        """With new programs for the extreme sums, and for the fixed sums."""
        measure, pairs = program.term.measure, (len(program.pairs),)
        if measure is None:
            raise ValueError("tangents for another objective")

        def end(of: Objective, kept: Mapping[str, Any]) -> tuple[Program, Proposal]:
            extreme = Program(program.given, of, program.constraints)
            return extreme, Proposal("saved", as_numbers(kept["tasks"], pairs), read(extreme, kept["found"]))

        def cut(kept: Mapping[str, Any]) -> tuple[Program, Float, Optimum]:
            fixed = () if kept["sum"] is None else (TotalIs(float(kept["sum"]), measure.share),)
            fixed_program = Program(program.given, measure.evenness, (*program.constraints, *fixed))
            found = read(fixed_program, kept["found"])
            if not isinstance(found, Optimum):
                raise ValueError(f"{found.kind} of the most even shares")
            return fixed_program, as_numbers(kept["tasks"], pairs), found

        largest, smallest = held["ends"]
        least = None if smallest is None else end(PowerSpread(1.0, measure.share), smallest)
        return cls(end(Total(measure.share), largest), least, tuple(map(cut, held["cuts"])))


def _extreme(program: Program, proposal: Proposal) -> tuple[plane.Extreme, str]:
    """An extreme sum of shares with its gap, and what that assumes."""
    evidence = proposal.evidence
    if evidence is None or proposal.tasks is None or not evidence.applies(program):
        return plane.Extreme(np.nan, np.inf), ""
    found = evidence.measured(program, proposal.tasks, None)
    value = program.objective.value(program.point(found.tasks)) if found.value is None else found.value
    return plane.Extreme(value, max(found.gap, 0.0)), found.assumed


def _numbers_of(proposal: Proposal) -> dict[str, Any] | None:
    """The numbers of the evidence of an extreme sum."""
    return None if proposal.evidence is None else proposal.evidence.numbers()
