"""The general route: any blocks, through CVXPY, with any solver that can take them."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from fairopt.certificate import Try
from fairopt.formulation.program import ConeModel, Program
from fairopt.methods.cone import infeasible as conflict
from fairopt.methods.cone import solvers
from fairopt.methods.cone.unbounded import refuse_unbounded
from fairopt.progress import tell
from fairopt.proofs.evidence import Proposal, Solved
from fairopt.proofs.gate import Answer

Float = NDArray[np.floating[Any]]
Proposals = Generator[Proposal, Answer | None, None]  # each is judged at the gate, and the answer sent back


@dataclass(frozen=True)
class Settings:
    """How the caller wants it solved."""

    solver: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    deadline: float | None = None
    verbose: bool = False
    quick: bool = False  # only the first solver of the chain: something better follows
    general: Callable[[Program, Settings], Proposals] | None = None  # instead of `solve`: `Prepared` has a program
    start: Float | None = None  # a guess at prices, in natural units by server row given

    def left(self) -> float | None:
        """Seconds left, never negative."""
        return None if self.deadline is None else max(self.deadline - time.perf_counter(), 0.0)

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return self.deadline is not None and time.perf_counter() >= self.deadline

    def chain(self, linear: bool) -> list[str]:
        """The solver asked for alone, or the chain."""
        if self.solver:
            return [self.solver]
        return solvers.chain(linear)[: 1 if self.quick else None]


def solve(program: Program, settings: Settings) -> Proposals:
    """Maximise an objective that is a number (no order), by one solver after the other until one is certified.

    Parameters
    ----------
    program : Program
        What to solve.
    settings : Settings
        Solver, options, time.

    Yields
    ------
    Proposal
        Of each solver.

    Raises
    ------
    Infeasible, Unbounded, NotConcave, SolverUnavailable
    """
    linear: bool | None = None
    names = [(name, False) for name in settings.chain(True)]
    while names:
        name, looser = names.pop(0)
        if settings.late:
            yield out_of_time(name)
            return
        start = time.perf_counter()
        cone = ConeModel(program, name)
        form, _ = cone.maximand
        if linear is None and settings.solver is None:
            linear = form.is_pwl() and all(is_linear(c) for _, _, c in cone.rest)
            if not linear:
                names = [(name, False) for name in settings.chain(False)]
                continue
        problem = cp.Problem(cp.Maximize(form), cone.all_constraints)
        tell(f"cone program by {name}" + (", looser" if looser else ""))
        attempt = solvers.run(
            problem, name, options=settings.options, time_limit=settings.left(), verbose=settings.verbose,
            looser=looser,
        )  # fmt: skip
        if attempt.status.startswith("infeasible"):
            conflict.explain(program)  # raises Infeasible, unless a second look finds it feasible
        if "unbounded" in attempt.status:
            refuse_unbounded(program.objective, form, cone.all_constraints, cone.unknowns)
        attempt = replace(attempt, seconds=time.perf_counter() - start)
        found = attempt.status in solvers.SOLVED and has_values(cone)
        answer = yield Proposal(
            "cone", cone.tasks() if found else None, Solved(cone) if found else None, name,
            attempt,
        )  # fmt: skip
        if answer is not None and answer.ok:
            return
        if not looser and not settings.quick and solvers.has_second_try(name):
            names.insert(0, (name, True))


def out_of_time(solver: str, method: str = "cone") -> Proposal:
    """No point: the time was up before the solver was asked."""
    return Proposal(method, solver=solver, attempt=Try(solver, "not tried", 0.0, message="time limit reached"))


def has_values(cone: ConeModel) -> bool:
    """Whether a solver left numbers."""
    return cone.unknowns.value is not None and bool(np.isfinite(cone.unknowns.value).all())


def is_linear(condition: cp.Constraint) -> bool:
    """Whether a linear program can hold the condition."""
    ours = (cp.constraints.Inequality, cp.constraints.Equality, cp.constraints.NonNeg, cp.constraints.NonPos)
    return isinstance(condition, (*ours, cp.constraints.Zero)) and all(a.is_pwl() for a in condition.args)
