"""Why nothing was certified, and refusals of programs that no method solves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import tiers_of, varying_of
from fairopt.blocks.base import blocks_within, is_ours
from fairopt.blocks.teams import Surplus
from fairopt.errors import NotCertified, OutOfDomain
from fairopt.instance import Instance
from fairopt.proof import gate
from fairopt.proof.gate import JudgedPoint
from fairopt.runtime.clock import FIX, Clock, current
from fairopt.runtime.lazy import cp
from fairopt.solve.form.affine import affine_slopes
from fairopt.solve.form.bundle_program import BundleProgram, program_class
from fairopt.solve.form.compiled import values_kept
from fairopt.solve.form.program import Program
from fairopt.solve.form.rising import refuse_starved, who_rises
from fairopt.solve.infeasible import most_left
from fairopt.solve.numbers.leximin import refuse_other_methods
from fairopt.solve.settings import Settings
from fairopt.solve.table import exact_for
from fairopt.solve.unfit_guarantees import refuse_unfit

NOTHING = 1e-5  # of typical tasks: for squares bounded by 0 the bound is the square root of rounding


def no_method(program: Program, settings: Settings) -> OutOfDomain:
    """The error of a program that no method asked for solves."""
    if program.term.is_order and not program.of_users:
        refuse_other_methods(program)
    if settings.method in ("auto", "cone"):
        return OutOfDomain(f"no method solves {program.objective} on {program.given!r}")
    return OutOfDomain(
        f"{settings.method} is {exact_for(settings.method)}, under bounds on tasks and reserves only, but not for "
        f"{program.objective} on {program.given!r}; use method='auto'"
    )


def refuse_if_starved(program: Program, answer: JudgedPoint, settings: Settings) -> JudgedPoint:
    """The answer; `OutOfDomain` if the constraints leave a number of the objective nothing (`refuse_starved`)."""
    refuse_starved(program, answer.tasks if answer.ok else None)
    return answer


def raise_not_certified(allocation: Allocation, settings: Settings) -> NoReturn:
    """Raise `NotCertified` with the attempts and a fix."""
    certificate, policy = allocation.certificate, allocation.policy
    own = not all(map(is_ours, blocks_within((policy.objective, *policy.constraints))))
    tried = "; ".join(str(t) for t in certificate.tried) or certificate.method
    nothing = _left_nothing(policy, allocation.instance)
    clock = current()
    if nothing:
        fix = (
            f"lower guarantees, which leave nothing for user {nothing[0]!r}, whose share of 0 is below all levels, or "
            "compare Surplus(share), which such users leave"
        )
    elif settings.clock.late or any("time limit" in t.status + t.message for t in certificate.tried):
        fix = "give it more time_limit" + ("" if clock is None else f" than {clock.time_limit:g} s")
    elif (left := _most_left(policy, allocation.instance)) <= NOTHING:
        fix = (
            "leave a constraint out: the constraints allow all users together at most "
            f"{left:.1g} of their typical tasks"
        )
    elif own and (hidden := _hidden(allocation)):
        fix = hidden
    elif settings.solver:
        fix = "try another solver, or leave solver out to try several"
    else:
        fix = "see .best for the best found and .tried for each solver's result"
    fix = "; ".join([fix, *_in_other_words(allocation)]) if own and not nothing else fix
    raise NotCertified(
        f"no answer could be certified: gap {certificate.gap:.2g} (tolerance 1e-6), violation "
        f"{certificate.violation:.2g} (1e-9), constraints {certificate.block_violation:.2g} (1e-7). "
        f"Tried {tried}. Fix: {fix}",
        best=allocation,
        tried=certificate.tried,
    )


def _hidden(allocation: Allocation) -> str:
    """Which differences of an objective rounding hides at an answer, and what to do; empty if that is not why."""
    policy = allocation.policy
    for tier in tiers_of(policy.objective):
        program = program_class(tier)(allocation.instance, tier, policy.constraints)
        if tier.is_known or isinstance(program, BundleProgram) or program.empty:
            continue
        point = program.point(program.gather(allocation.tasks_by_server))
        if rounding := tier.hidden(point):
            model = program.natural.model
            parts = [varying_of(tier, model)[0], *model.required]
            numbers = [abs(constant.value).max() for part in parts for constant in part.constants()]
            return (
                f"rounding in the objective, with numbers such as {max(numbers, default=1.0):.2g}, hides differences "
                f"below {rounding:.1g}; leave constants inside its functions out, or choose other units"
            )
    return ""


def _in_other_words(allocation: Allocation) -> Iterator[str]:
    """How users' objectives could be written for which proofs are easier: a named notion, or ranges of variables."""
    policy, instance = allocation.policy, allocation.instance
    for tier in tiers_of(policy.objective):
        program = program_class(tier)(instance, tier, policy.constraints)
        if tier.is_known or isinstance(program, BundleProgram) or program.empty:
            continue
        model = program.natural.model
        form, _ = varying_of(tier, model)
        if (named := _named(form)) and (instance.weights == instance.weights[0]).all():
            yield f"{named} of the same share has the same optimum, and a shorter proof"
        own = model.own.held.values()
        open_ = [one.variable.name() for one in own if not all(np.isfinite(side).all() for side in one.given)]
        if open_:
            yield f"give the variables {', '.join(map(repr, open_[:3]))} lower and upper bounds (model.variable)"


def _named(form: cp.Expression) -> str:
    """The alpha-fair or max-min objective with the same optima as an expression of tasks; empty if none is known.

    ``(sum_j s_j^p)^(1/p)`` for p < 1 grows with ``sum_j s_j^(1 - alpha) / (1 - alpha)`` at alpha = 1 - p.
    """
    affine, sign = cp.atoms.affine, 1.0
    while form.args and isinstance(form, affine.affine_atom.AffAtom):
        *factors, inner = form.args
        if isinstance(form, affine.unary_operators.NegExpression):
            sign = -sign
        elif len(factors) == 1 and factors[0].is_constant() and factors[0].size == 1:
            sign *= float(factors[0].value)
        elif factors or not isinstance(form, affine.sum.Sum):
            return ""
        form = inner
    if len(form.args) != 1 or not _is_of_each(form.args[0]):
        return ""
    by_kind = {"min": "MaxMin", "log": "AlphaFair(1)", "GeoMean": "AlphaFair(1)"}
    kinds = {kind.__name__ for kind in type(form).__mro__}
    if kinds & {"Power", "Pnorm"}:
        p = float(getattr(form.p, "value", form.p))
        rises = sign > 0 if p > 0 or "Pnorm" in kinds else sign < 0
        return f"AlphaFair({1 - p:g})" if rises and p < 1 else ""
    equal = "GeoMean" not in kinds or len(set(form.w)) == 1
    return next((name for kind, name in by_kind.items() if kind in kinds and sign > 0 and equal), "")


def _is_of_each(argument: cp.Expression) -> bool:
    """Whether an expression is a multiple of the tasks of each user, and nothing else."""
    if not argument.is_affine() or len(argument.variables()) != 1:
        return False
    ((variable, slopes),) = affine_slopes(argument).items()
    with values_kept([variable]):
        variable.save_value(np.zeros(variable.shape))
        constant = np.any(argument.value)
    alone = np.bincount(slopes.indices, minlength=slopes.shape[1])
    return not constant and slopes.shape[0] == slopes.shape[1] == slopes.nnz and bool((alone == 1).all())


def _left_nothing(policy: Any, instance: Instance) -> list[str]:
    """The users that are levelled but can run no tasks beside guarantees; `Infeasible` if these do not fit together."""
    objective = tiers_of(policy.objective)[0]
    if program_class(objective) is BundleProgram:
        return []
    program = Program(instance, objective, policy.constraints)
    refuse_unfit(program)
    levelled = any(term.kind.levels_users and term.share and term.share._is_plain for term in objective.terms())
    if not instance.derived.has_guarantees or program.empty or not levelled:
        return []
    rises = who_rises(program, Surplus())
    stays = np.zeros(0) if rises is None else ~rises & (program.low == 0)
    return [program.instance.users[j] for j in np.flatnonzero(stays)]


def _most_left(policy: Any, instance: Instance) -> float:
    """A bound on the tasks that the constraints allow, relative to typical ones; infinite without constraints."""
    objective = tiers_of(policy.objective)[0]
    if not policy.constraints or program_class(objective) is BundleProgram:
        return np.inf
    program = Program(instance, objective, policy.constraints)
    return most_left(program) if program.rest else np.inf


def stopped(policy: Any, clock: Clock) -> NotCertified:
    """The error of a call that ran out of time, with the best answer found."""
    best = None
    if clock.program is not None:
        best = gate.unfinished(policy, clock.program, clock.found, clock.proposed, clock.begun)
    tried = () if best is None else best.certificate.tried
    return NotCertified(
        f"no answer was certified within {clock}. " + (f"Tried {'; '.join(map(str, tried))}. " if tried else "") + FIX,
        best=best,
        tried=tried,
    )
