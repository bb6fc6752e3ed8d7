"""One solver after the other: proposals until one is certified, and what solvers say of programs of our own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

import cvxpy as cp
import numpy as np

from fairopt.blocks.objectives import Objective
from fairopt.certificate import Try
from fairopt.formulation import solvers
from fairopt.methods.cone.unbounded import refuse_unbounded
from fairopt.methods.settings import Proposals, Settings
from fairopt.proofs.evidence import Proposal


class _SolverFailed(Exception):
    """A solver gave no usable answer to one of several programs."""


def chain_of(settings: Settings, linear: bool) -> list[str]:
    """The solver asked for alone, or the chain, with those that take linear programs only or without."""
    return [settings.solver] if settings.solver else solvers.chain(linear)


def linear_only(settings: Settings, solver: str) -> bool:
    """Whether a solver is in the chain for linear programs only, and not asked for by name."""
    return settings.solver is None and solver not in solvers.CONE_CHAIN


def by_chain(
    settings: Settings, propose: Callable[[str], Iterable[Proposal]], method: str = "cone", linear: bool = True
) -> Proposals:
    """What solvers propose in turn, with the seconds that each took, until one is certified or the time is up.

    ``propose`` gives the proposals of one solver, each with its attempt; none if the program is not for it.
    """
    for name in chain_of(settings, linear):
        if settings.late:
            attempt = Try(name, "not tried", 0.0, message="time limit reached")
            yield Proposal(method, solver=name, attempt=attempt)
            return
        begun = time.perf_counter()
        for proposal in propose(name):
            assert proposal.attempt is not None
            attempt = replace(proposal.attempt, seconds=time.perf_counter() - begun)
            answer = yield replace(proposal, solver=name, attempt=attempt)
            if answer is not None and answer.ok:
                return
            begun = time.perf_counter()


def solve_problem(
    problem: cp.Problem, unknowns: cp.Variable, solver: str, settings: Settings, *,
    explain: Callable[[], None] | None = None, objective: Objective | None = None, looser: bool = False,
    keep: bool = False,
) -> tuple[Try, bool]:  # fmt: skip
    """Solve within the time left: the attempt, and whether it left numbers in the unknowns.

    Infeasible and unbounded are answers. ``explain`` raises `Infeasible` unless the conditions can hold after all; with
    an ``objective``, which the message names, `Unbounded` is raised where it is seen to grow without end.
    """
    attempt = solvers.run(
        problem, solver, options=settings.options, time_limit=settings.left(), verbose=settings.verbose, looser=looser,
        keep=keep,
    )  # fmt: skip
    if explain is not None and attempt.status.startswith("infeasible"):
        explain()
    if objective is not None and "unbounded" in attempt.status:
        refuse_unbounded(objective, problem.objective.expr, problem.constraints, unknowns)
    values = unknowns.value
    return attempt, attempt.status in solvers.SOLVED and values is not None and bool(np.isfinite(values).all())
