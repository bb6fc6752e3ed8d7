"""The general method: any blocks, through CVXPY, with solvers in turn until one is certified.

The problem is ``max f(x)`` over tasks x_js >= 0 under capacities, bounds and the conditions of blocks, with f concave:
CVXPY writes it in cones, and a solver returns a point with multipliers. These are the evidence: prices of capacities
and multipliers of rows where the objective separates by user (Bound 7.1), else the dual point of the cones (Bound 7.3).

Why several tries: no solver is good at everything. The simplex of HiGHS is exact at ties but takes linear programs
only, and long ones if there are many rows; CLARABEL takes all cones and stops at 1e-9 to 1e-11 of the largest number;
units of what users write may differ by more. So after a first failure variables of blocks are solved for in units of
their ranges, further tries of CLARABEL and ECOS are in equilibrated units, and a small linear program is solved in
fractions (`vertex`). A solver's word is never evidence: not that an answer is optimal (the gate), nor that there is
none (`infeasible.explain`), nor that the program is unbounded (`unbounded`), nor a nearly empty answer (`nothing`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fairopt.blocks.algebra import AtLeast
from fairopt.blocks.objectives import Objective
from fairopt.certificate import Try
from fairopt.errors import SolverUnavailable
from fairopt.proof.conic import reach_of_variables
from fairopt.proof.evidence.solved import Solved
from fairopt.proof.evidence.written import Written
from fairopt.proof.proposal import MOVED, Proposal
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import check
from fairopt.runtime.lazy import cp
from fairopt.runtime.progress import tell
from fairopt.solve import infeasible
from fairopt.solve.cone.nothing import nothing
from fairopt.solve.cone.unbounded import refuse_unbounded
from fairopt.solve.cone.vertex import IN_FRACTIONS, at_vertex
from fairopt.solve.form import solvers
from fairopt.solve.form.compiled import Compiled, Left, Posed
from fairopt.solve.form.program import ConeModel, Program
from fairopt.solve.settings import Proposals, Settings
from fairopt.solve.table import parametric_applies

INACCURATE = "optimal_inaccurate"  # CVXPY's status
# Of typical tasks: if an answer has no more for anybody, a linear program asks whether the constraints leave any. Of 55
# random programs that leave none, 26 answers of Clarabel were optimal and had up to 2e-11; 19 were inaccurate and had
# up to 5e-5; 10 had 2e-2 to 1.6, after which those of ECOS had up to 8e-5. A larger one costs a program now and then.
LITTLE = 1e-3
CANNOT_TAKE = "cannot take this kind of problem"


def solve_number(program: Program, settings: Settings, names: Sequence[str] | None = None) -> Proposals:
    """Maximise an objective that is not an order, by solvers in turn, by default the chain, until one is certified.

    If the first answer is not certified, variables of blocks are solved for in units of what they can be, and curved
    terms are written in units of its shares: ``AlphaFair(5) + Total(Tasks())`` of 39 users, whose estimated shares were
    off by 13, that is by 3e4 in fourth powers, had gaps of .07 after seven tries, and 5e-10 at the second so.
    """
    units, unsolved, refined, tried_nothing = dict[str, float](), list[ConeModel](), list[str](), list[str]()
    seen: Float | None = None

    def propose(name: str) -> Iterator[Proposal]:
        nonlocal seen
        evidence, inaccurate, answered = None, None, name == "HIGHS" or settings.solver is None
        if linear_only(settings, name) and has_curves(program):  # without writing a cone program
            return
        ready: tuple[ConeModel, Compiled | None] | None = None
        steps = [(name, again) for again in range(solvers.tries(name))]
        if name == "HIGHS" and not (settings.solver or settings.options):
            # only where the simplex is slow (`simplex_is_slow`), as told once the program is compiled
            steps.insert(0, ("CLARABEL", 0))
        for solver, again in steps:
            if again and settings.clock.late:
                return
            if ready is None:
                made = unsolved.pop() if unsolved else None
                ready = made if made is not None and made.serves(name) else ConeModel(program, name, units, seen), None
            (cone, compiled), ready = ready, None
            check()
            form, _ = cone.maximand
            if linear_only(settings, name) and not (form.is_pwl() and solvers.all_linear(c for _, _, c in cone.rest)):
                unsolved.append(cone)
                return
            problem = Posed(cp.Maximize(form), cone.all_constraints)
            if solver != name:
                linear = solvers.compiled_for_simplex(problem)
                if linear is None or not (solvers.simplex_is_slow(linear) and cone.serves(solver)):
                    ready = cone, linear
                    continue
                compiled = linear.for_clarabel()
            tell(f"cone program by {solver}" + (f", try {again + 1}" if again else ""))
            attempt, has_values = solve_problem(
                problem,
                cone.unknowns,
                solver,
                settings,
                explain=partial(infeasible.explain, program),
                objective=program.objective,
                again=again,
                left=cone.left,
                compiled=compiled,
            )
            answered |= has_values
            if has_values:
                evidence, seen = Solved.of(cone, keep=True), cone.tasks()
                proposal = Proposal("cone", seen, evidence, attempt=attempt)
                if attempt.status == INACCURATE and again + 1 < solvers.tries(solver):
                    inaccurate = proposal  # its proof by a second solve takes as long as the next try, which serves
                    yield replace(proposal, evidence=replace(evidence, more=False))
                else:
                    yield proposal
            else:
                evidence = None
                yield Proposal("cone", attempt=attempt)
            # an answer of nearly nothing has no certificate where slopes at 0 are infinite: ask once whether it is all
            if has_values and not tried_nothing and cone.unknowns.value.max(initial=0.0) <= LITTLE:
                tried_nothing.append(solver)
                # nor where they vanish, as near an optimum at 0 of a power above 1 no loss counts as none
                if not (program.objective.is_known or program.low.any()):
                    attempt_of_zero = replace(attempt, status=f"{attempt.status}, no tasks")
                    yield Proposal("cone", np.zeros(len(program.pairs)), evidence, attempt=attempt_of_zero)
                if (of_zero := nothing(program, settings)) is not None:
                    yield of_zero
            # before the next try, as ranges of variables are known only once their rows are written
            if cone.model.own.held and not units:
                units.update(reach_of_variables(cone))
            if attempt.status == CANNOT_TAKE:
                return
        # the last tasks may be best where a solver left variables of size 1e6 with noise of 1e-8
        if evidence is not None and cone.model.own.held and cone.best_values(tasks := cone.tasks()):
            better = replace(evidence, written=Written.of(cone, keep=True))
            yield Proposal("cone", tasks, better, attempt=replace(attempt, status=f"{attempt.status}, best variables"))
        if inaccurate is not None and not settings.clock.late:  # with its proof now, as later tries had none
            yield inaccurate
        if answered and not (refined or settings.options or settings.clock.late):
            refined.append(name)
            vertex = at_vertex(problem, cone, name, settings)
            if vertex is not None and vertex.status == IN_FRACTIONS:
                yield Proposal("cone", cone.tasks(), Solved.of(cone, keep=True), attempt=vertex)
            elif vertex is not None:
                yield Proposal("cone", attempt=vertex)

    return by_chain(settings, propose, names=names)


def solve_cone_program(program: Program, settings: Settings) -> Proposals:
    """`solve_number` without SCS, which comes after Newton's method.

    One proposal if a search along the sum of shares follows.
    """
    names = chain_of(settings, linear=True)
    proposals = solve_number(program, settings, [name for name in names if name != "SCS" or settings.solver])
    return _first(proposals) if parametric_applies(program) else proposals


def solve_by_scs(program: Program, settings: Settings) -> Proposals:
    """`solve_number` by the first-order method SCS alone."""
    return solve_number(program, settings, [name for name in chain_of(settings, linear=True) if name == "SCS"])


def _first(proposals: Proposals) -> Proposals:
    """The first proposal alone."""
    yield next(proposals)


class _SolverFailed(Exception):
    """A solver failed in one of several programs."""


def chain_of(settings: Settings, linear: bool) -> list[str]:
    """The given solver, or the chain, with solvers of linear programs if ``linear``."""
    return [settings.solver] if settings.solver else solvers.chain(linear)


def linear_only(settings: Settings, solver: str) -> bool:
    """Whether a solver of the chain takes linear programs only."""
    return settings.solver is None and solver not in solvers.CONE_CHAIN


def has_curves(program: Program) -> bool:
    """Whether known terms of the objective, or of one that a constraint bounds, are curved."""
    objectives = (program.objective, *(block.objective for block in program.rest if isinstance(block, AtLeast)))
    return any(term.is_curved for objective in objectives for term in objective.terms())


def by_chain(
    settings: Settings,
    propose: Callable[[str], Iterable[Proposal]],
    method: str = "cone",
    linear: bool = True,
    names: Sequence[str] | None = None,
) -> Proposals:
    """Proposals of solvers in turn, with the seconds of each, until one is certified, the time is up, or rounding hides
    too much.

    ``propose`` yields a solver's proposals with their attempts; none if it does not take the program.
    """
    for name in chain_of(settings, linear) if names is None else names:
        if settings.clock.late:
            attempt = Try(name, "not tried", 0.0, message="time limit reached")
            yield Proposal(method, solver=name, attempt=attempt)
            return
        begun = time.perf_counter()
        for proposal in propose(name):
            assert proposal.attempt is not None
            attempt = replace(proposal.attempt, seconds=time.perf_counter() - begun)
            answer = yield replace(proposal, solver=attempt.solver, attempt=attempt)
            # levels that the rounding of earlier ones moves too far are so for all solvers, which round more than HiGHS
            if answer is not None and (answer.ok or answer.hidden or MOVED in answer.assumed):
                return
            begun = time.perf_counter()


def solve_problem(
    problem: cp.Problem | Posed,
    unknowns: cp.Variable,
    solver: str,
    settings: Settings,
    *,
    explain: Callable[[], None] | None = None,
    objective: Objective | None = None,
    again: int = 0,
    left: Left | None = None,
    compiled: Compiled | None = None,
) -> tuple[Try, bool]:
    """Solve within the time left; return the attempt, and whether the unknowns have finite values.

    If the status is infeasible, ``explain`` raises `Infeasible` unless the conditions can hold. If it is unbounded and
    an ``objective`` is given, `Unbounded` is raised if the objective grows along a ray.
    """
    try:
        attempt = solvers.run(
            problem,
            solver,
            options=settings.options,
            time_limit=settings.clock.left,
            verbose=settings.verbose,
            again=again,
            left=left,
            compiled=compiled,
        )
    except SolverUnavailable:  # another solver of the chain may take it
        if settings.solver is not None:
            raise
        return Try(solver, CANNOT_TAKE, 0.0), False
    # tested, as solvers call feasible programs infeasible where numbers differ by many decades
    if explain is not None and attempt.status.startswith("infeasible"):
        explain()
    if objective is not None and "unbounded" in attempt.status:
        refuse_unbounded(objective, problem.objective.expr, problem.constraints, unknowns)
    values = unknowns.value
    return attempt, attempt.status in solvers.SOLVED and values is not None and bool(np.isfinite(values).all())
