"""`FairnessEfficiency` in its concave region, as a sequence of simpler programs along one parameter.

Solvers often fail on ``h = a log M_q + (l - a) log S``, where S is the sum and M_q the power mean of the shares (Jiang
and Wu 2021). Its optimum also maximises ``core + mu S`` for the one mu at which both have parallel gradients, where
``core`` is ``a log M_q`` for q < 0 and the plain sum of powers for 0 < q < 1. ``mu S`` grows with mu, so mu is found as
a root, and the certificate is computed from h itself. A relative error e in mu costs about e^2 in the gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import cvxpy as cp
import numpy as np
from scipy.optimize import brentq

from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.model import Model
from fairopt.certificate import Try
from fairopt.formulation.program import ConeModel, Program
from fairopt.methods.cone.solve import _SolverFailed, by_chain, solve_problem
from fairopt.methods.settings import Proposals, Settings
from fairopt.progress import tell
from fairopt.proofs.evidence import Proposal, Solved

NEAR = 1e-6  # error of log mu; the gap is about its square


def parametric_applies(program: Program) -> bool:
    """Whether the objective is a sum of two logarithms with one of the simpler forms."""
    objective = program.objective
    return isinstance(objective, FairnessEfficiency) and objective.beta != 1 and objective.alpha_fair() is None


def solve_fairness_efficiency(program: Program, settings: Settings) -> Proposals:
    """Find the weight mu at which the simpler form has the same optimum, by solvers in turn.

    Each solver proposes its answer at the weight nearest to the right one.
    """

    def propose(name: str) -> Iterator[Proposal]:
        search = _WeightSearch(program, name, settings)
        status = search.run()
        yield replace(search.nearest, attempt=Try(name, f"{status} ({search.solves} programs)", 0.0))

    return by_chain(settings, propose, "parametric", linear=False)


class _WeightSearch:
    def __init__(self, program: Program, solver: str, settings: Settings) -> None:
        objective = program.objective
        assert isinstance(objective, FairnessEfficiency)
        self.program, self.solver, self.settings, self.objective = program, solver, settings, objective
        self.nearest = Proposal("parametric")
        self.missed = np.inf  # error of log mu at the nearest proposal
        self.solves = 0

    def run(self) -> str:
        """Bracket the root of `_excess` in log mu, and find it; the status."""
        objective = self.objective
        middle = float(np.log(objective.emphasis - objective.threshold))
        try:
            low, high, step = middle, middle, 2.0
            at_low = at_high = self._excess(middle)
            while at_low > 0 and step < 1e3:
                low, step = low - step, 2 * step
                at_low = self._excess(low)
            while at_high < 0 and step < 1e3:
                high, step = high + step, 2 * step
                at_high = self._excess(high)
            brentq(self._excess, low, high, xtol=NEAR, rtol=1e-12, maxiter=60)
        except _SolverFailed as failure:
            return str(failure)
        return "optimal"

    def _excess(self, log_mu: float) -> float:
        """log of (mu S) over its value at the optimum of h; the unit of S cancels."""
        if self.settings.late:
            raise _SolverFailed("time limit reached")
        mu, objective = float(np.exp(log_mu)), self.objective
        model = ConeModel(self.program, self.solver)
        core, total = _forms(objective, model.model)
        problem = cp.Problem(cp.Maximize((core + mu * total) / max(1.0, mu)), model.all_constraints)
        self.solves += 1
        tell(f"search along a parameter by {self.solver}, program {self.solves}")
        attempt, found = solve_problem(problem, model.unknowns, self.solver, self.settings)
        if not found:
            raise _SolverFailed(f"{attempt.status} {attempt.message}".strip())
        if not (float(total.value) > 0 and np.isfinite(float(core.value))):
            raise _SolverFailed("no tasks at all")
        wanted = objective.emphasis - objective.threshold
        if objective.beta < 1:
            wanted *= (1 - objective.beta) * float(core.value) / objective.threshold
        excess = float(np.log(mu * float(total.value) / wanted))
        if abs(excess) < self.missed:
            self.missed = abs(excess)
            evidence = Solved(model, problem.objective.expr)
            self.nearest = Proposal("parametric", model.tasks(), evidence)
        return excess if abs(excess) > NEAR else 0.0


def _forms(objective: FairnessEfficiency, model: Model) -> tuple[cp.Expression, cp.Expression]:
    """``core`` in relative shares, and S in units of its value where all unknowns are one."""
    w, q = model.weights, 1 - objective.beta
    u, factor = model.split_share(objective.share)
    total = (w * factor / (w @ factor)) @ u
    if q < 0:
        logs = q * cp.log(u) + q * np.log(factor) + np.log(w)
        return objective.threshold / q * cp.log_sum_exp(logs), total
    return (w * factor**q) @ cp.power(u, q, approx=not model.exact_powers), total
