"""Evidence of `FairnessEfficiency` by lines along the sum of shares (`fairopt.proof.plane_bound`).

Outside the concave region the measure has several local maxima, and no prices of its own. What has prices are concave
programs beside it: the most even shares at a fixed mean m, each of which proves ``M <= at + slope * m`` for all means,
and the largest and the smallest sum, which bound m (Proposition 7.8, docs/methods/cone.md). `Tangents` holds their
evidence as the search found it, `Lines` the same numbers from a file: levels at which gradients are taken, slopes, and
multipliers. Levels and slopes are free choices, any of which gives a line.

Floats: the gradient and ``slope * m`` cancel where shares are even; rounding is counted by both (`Lines._most`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairopt.blocks.efficiency import PowerSpread, TotalIs
from fairopt.blocks.form import Curve, Form
from fairopt.blocks.model import Point
from fairopt.blocks.objectives import Objective, Total
from fairopt.proof import feasibility as conditions
from fairopt.proof import plane_bound as plane
from fairopt.proof.entries import Named, priced
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.lagrangian import Lagrangian
from fairopt.proof.plane_bound import Cut
from fairopt.proof.proposal import Evidence, Measured, Proposal, Reader, as_numbers
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import TERM_ROUNDING
from fairopt.solve.form.program import Program


@dataclass(frozen=True)
class Tangents(Evidence):
    """Lines along the sum of shares.

    ``largest`` is evidence of the largest sum, ``smallest`` of the smallest unless that is zero. ``cuts`` are optima of
    the evenness at fixed sums: each of a program of the same blocks with `TotalIs`.
    """

    largest: tuple[Program, Proposal]
    smallest: tuple[Program, Proposal] | None
    cuts: Sequence[Cut]

    of_solver = True

    def applies(self, program: Program) -> bool:
        """Whether it is of the same instance and blocks: the extreme sums, and the evenness at fixed sums."""
        # each part is a program of its own: a cut of other constraints would prove a line of another feasible set
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
            cut.optimum.is_of_cut(cut.program)
            and cut.program.given is program.given
            and cut.program.objective == measure.evenness
            and cut.program.constraints[:n] == program.constraints
            and all(type(c) is TotalIs and c.share == measure.share for c in cut.program.constraints[n:])
            and len(cut.program.constraints) <= n + 1
            for cut in self.cuts
        )

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.repair(program, tasks)
        ends = [end and _extreme(*end) for end in (self.largest, self.smallest)]
        largest, smallest = (end and end[0] for end in ends)
        assert largest is not None
        lines = [cut.tangent.line for cut in self.cuts if cut.tangent is not None]
        gap = plane.gap_of(program, lines, tasks, largest, smallest)
        assumed = "; ".join(dict.fromkeys(end[1] for end in ends if end and end[1]))
        return Measured(tasks, gap, conditions.violation_at(program, tasks), assumed=assumed)

    def most_rise(self, program: Program, tasks: Float) -> Float:
        none = super().most_rise(program, tasks)
        return np.min([none, *(cut.optimum.most_rise(program, tasks) for cut in self.cuts)], axis=0)

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        lines = []
        for cut in self.cuts:
            tangent = cut.tangent
            if tangent is not None:
                own = {"levels": tangent.levels.tolist(), "slope": tangent.line.slope}
                multipliers = cut.optimum.multipliers(names, tangent.per_dual)
                lines.append(priced(cut.program, tangent.prices) | own | multipliers)
        entry: dict[str, Any] = {"kind": "lines", "lines": lines}
        for name, end in (("largest", self.largest), ("smallest", self.smallest)):
            if end is not None and end[1].tasks is not None and end[1].evidence is not None:
                held = end[1].evidence.entry(end[0], end[1].tasks, names)
                if "written" in held:
                    raise ValueError("lines have no multipliers of constraints that only CVXPY knows")
                entry[name] = {key: value for key, value in held.items() if key != "loaded"}
        return entry


@dataclass(frozen=True)
class Lines(Evidence):
    """Lines along the sum of shares: levels at which the gradient of M is taken, slopes, and prices that prove them.

    ``largest`` and ``smallest`` prove the largest and the smallest sum.
    """

    program: Program
    lines: Sequence[tuple[Float, float, Prices]]
    largest: Prices | None = None
    smallest: Prices | None = None

    kind = "lines"

    def applies(self, program: Program) -> bool:
        measure = program.term.measure
        return self.program is program and measure is not None and measure.beta != 1

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        tasks = conditions.repair(program, tasks)
        point, measure = program.point(tasks), program.term.measure
        unit, w = point.level(measure.share), point.weights / point.weights.sum()
        q, sign = 1 - measure.beta, 1.0 if measure.exponents[0] > 0 else -1.0  # for q > 1, -M is bounded from above
        lines = []
        with np.errstate(all="ignore"):
            for levels, slope, prices in self.lines:
                gradient = np.exp((q - 1) * (np.log(levels) - plane.log_mean(levels, w, q)))
                # sign * (M - slope m) <= top: M is below its gradient, above for q > 1
                top = self._most(prices, point, sign * w * (gradient - slope), w * (gradient + abs(slope)))
                if np.isfinite(top):
                    lines.append(plane.Line(sign * top / unit, slope))
            # without evidence of an end the mean is not bounded there, and at the upper end nothing is proved
            most = np.inf if self.largest is None else self._most(self.largest, point, point.weights, point.weights)
            least = -np.inf if self.smallest is None else -self._most(self.smallest, point, -w, w)
        largest = plane.Extreme(most, 0.0)
        # as `PowerSpread` of power 1 has it: 1 less the mean in units of the max-min level
        smallest = None if self.smallest is None else plane.Extreme(1.0 - least / unit, 0.0)
        gap = plane.gap_of(program, lines, tasks, largest, smallest) if np.isfinite(most) else np.inf
        return Measured(tasks, gap, conditions.violation_at(program, tasks))

    def _most(self, prices: Prices, point: Point, factor: Float, size: Float) -> float:
        """A bound on a weighted sum of shares per weight by prices; ``size`` are factors without cancellation."""
        c = self.program.term.measure.share.coefficients(point.instance)
        of_level = Form(curves=(Curve((c.T / point.weights).T, factor, 0.0),), constant=float(factor.sum()))
        top = Lagrangian(self.program, of_level, prices.dual.charges(point), point)(1.0)
        levels = np.where(point.instance.eligible, c if c.ndim == 2 else c[:, None], 0.0).max(axis=1)
        return top + TERM_ROUNDING * (abs(top) + float(size @ (levels / point.weights * self.program.most)))

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> Self:
        if program.term.measure is None:
            raise ValueError("lines for another objective")
        n = program.instance.n_users
        lines = [
            (as_numbers(line["levels"], (n,)), float(line["slope"]), Prices.restored(program, line, read))
            for line in held["lines"]
        ]
        ends = (Prices.restored(program, held[k], read) if held.get(k) else None for k in ("largest", "smallest"))
        return cls(program, lines, *ends)


def _extreme(program: Program, proposal: Proposal) -> tuple[plane.Extreme, str]:
    """An extreme sum of shares with its gap, and what that assumes."""
    evidence = proposal.evidence
    if evidence is None or proposal.tasks is None or not evidence.applies(program):
        return plane.Extreme(np.nan, np.inf), ""
    measured = evidence.measured(program, proposal.tasks, None)
    # judged here and not taken from the answer: evidence may be of any point
    value = program.objective.value(program.point(measured.tasks)) if measured.value is None else measured.value
    return plane.Extreme(value, max(measured.gap, 0.0)), measured.assumed
