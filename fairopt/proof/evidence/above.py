"""Evidence of a surplus on one pool: that of the plain program above the base.

With all shares ``c_j (x_j - b_j)`` above one base b and y = x - b, the program in y has the usable capacities ``r_i -
sum_j g_ji b_j`` and bounds less b, and the same optimum (Proposition 4.15, docs/methods/pool.md). So methods for plain
programs solve it, and their evidence proves it: what is wrapped here is only the change of variables, of the point
there and of the gap back.

Floats: what is left of a capacity after the base is a difference, which is counted as 2e-15 over the part that is left.
More capacity by a factor of 1 + d raises no level by more, so that the largest such rounding (`Above.rounding`) is
added to the gap. Repair happens above the base; what it cuts below is a violation.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairopt.proof.dual import Dual
from fairopt.proof.entries import Named
from fairopt.proof.evidence.number_levels import NumberLevels
from fairopt.proof.number_level_bounds import ABOVE, NumberBounds, bottleneck_duals
from fairopt.proof.proposal import Evidence, Measured, Proposal
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import TINY
from fairopt.solve.form.above import Above
from fairopt.solve.form.program import Program

Proposals = Generator[Proposal, Any, None]


@dataclass(frozen=True)
class AboveBase(Evidence):
    """Evidence of the program ``above`` the base of a program."""

    program: Program
    above: Above
    found: Evidence

    @property
    def by_level(self) -> bool:
        return self.found.by_level

    def applies(self, program: Program) -> bool:
        return self.program is program and self.found.applies(self.above)

    def measured(self, program: Program, tasks: Float, bundles: Float | None) -> Measured:
        measured = self.found.measured(self.above, self.above.part(tasks), None)
        violation, beyond = None, 0.0
        if measured.load is not None and program.given.n_servers == 1:
            violation = max(measured.violation or 0.0, float((self.above.load + measured.load - 1.0).max()))
        whole = self.above.whole(measured.tasks, measured.tasks)
        if not program.unlimited:
            limited = np.isfinite(program.high)
            over = (whole - program.high)[limited] / np.maximum(program.high[limited], TINY)
            beyond = float(over.max(initial=0.0))
        # a method may give less than the base; the part above was cut at 0
        short = np.maximum(self.above.base - tasks, 0.0) / np.maximum(self.above.base, TINY)
        beyond = max(beyond, float(short.max(initial=0.0)))
        gap, of_bounds = measured.gap + self.above.rounding, max(measured.block_violation, beyond)
        return replace(measured, tasks=whole, gap=gap, block_violation=of_bounds, violation=violation)

    def entry(self, program: Program, tasks: Float, names: Named) -> dict[str, Any]:
        if program.term.is_smallest:
            duals = bottleneck_duals(program, tasks)
            if program.term.is_order:
                return NumberLevels(duals, np.zeros(0)).entry(program, tasks, names)
            bounds = NumberBounds(program)
            z, weights = bounds.at(tasks), bounds.numbers.weights
            levels = z / weights
            lowest = int(np.argmin(levels))  # max-min is fixed by what fixes the lowest level
            prices, paid = np.zeros(len(program.usable)), np.zeros(len(bounds.most))
            paid[lowest] = 1.0  # it is at its limit, or
            for dual in duals:
                if lowest in dual.fixed:
                    # who is at a lower bound above this level stays there for any weight, and has none
                    held = (z <= bounds.lowest * (1 + ABOVE)) & (levels > levels[lowest] * (1 + ABOVE))
                    prices, paid = dual.prices, np.where(held, 0.0, dual.of_numbers * weights)
            scale = 1.0 / paid.sum()
            return Dual(prices * scale * program.term.factor, mixtures=[paid * scale]).entry(program, names)
        entry = self.found.entry(self.above, self.above.part(tasks), names)
        if program.merge:  # the prices of one row, for each of the servers that it stands for
            entry["prices"] = np.asarray(entry["prices"])[program.unmerged.derived.server_classes].tolist()
        return entry


def lifted(program: Program, inner: Above, proposals: Proposals) -> Proposals:
    """Proposals above the base as proposals of the program."""
    answer: Any = None
    while True:
        try:
            proposal = proposals.send(answer)
        except StopIteration:
            return
        if proposal.evidence is not None and proposal.tasks is not None:
            evidence = AboveBase(program, inner, proposal.evidence)
            proposal = replace(proposal, tasks=inner.whole(proposal.tasks), evidence=evidence)
        answer = yield proposal
