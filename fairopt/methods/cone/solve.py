"""The general method: any blocks, through CVXPY, with any solver that can take them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import cvxpy as cp

from fairopt.formulation import solvers
from fairopt.formulation.program import ConeModel, Program
from fairopt.methods import infeasible
from fairopt.methods.cone.chain import by_chain, linear_only, solve_problem
from fairopt.methods.settings import Proposals, Settings
from fairopt.progress import tell
from fairopt.proofs.evidence import Proposal, Solved


def solve_number(program: Program, settings: Settings) -> Proposals:
    """Maximise an objective that is a number (not an order), by one solver after the other until one is certified."""

    def propose(name: str) -> Iterator[Proposal]:
        for looser in (False, True)[: 1 + solvers.has_second_try(name)]:
            if looser and settings.late:
                return
            cone = ConeModel(program, name)
            form, _ = cone.maximand
            if linear_only(settings, name) and not (form.is_pwl() and solvers.all_linear(c for _, _, c in cone.rest)):
                return
            tell(f"cone program by {name}" + (", looser" if looser else ""))
            attempt, found = solve_problem(
                cp.Problem(cp.Maximize(form), cone.all_constraints), cone.unknowns, name, settings,
                explain=partial(infeasible.explain, program), objective=program.objective, looser=looser,
            )  # fmt: skip
            if found:
                yield Proposal("cone", cone.tasks(), Solved(cone), attempt=attempt)
            else:
                yield Proposal("cone", attempt=attempt)

    return by_chain(settings, propose)
