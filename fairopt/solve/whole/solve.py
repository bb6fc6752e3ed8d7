"""Whole tasks under a policy: by mixed-integer linear programs if possible, else the rounded divisible answer.

The tasks of each server are whole numbers under the policy's own constraints (Definition 14.8). The bound is that of
divisible tasks, which whole tasks cannot exceed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import tiers_of
from fairopt.blocks.shares import coefficients_cached
from fairopt.errors import InvalidBlock, NotCertified, OutOfDomain
from fairopt.instance import Instance
from fairopt.proof import gate
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import begin
from fairopt.solve.dispatch import checked_settings, solve_tiers
from fairopt.solve.form.bundle_program import decides_bundles
from fairopt.solve.form.no_whole_task import number_of, whole_instance
from fairopt.solve.form.program import Program
from fairopt.solve.not_certified import raise_not_certified, stopped
from fairopt.solve.settings import Settings
from fairopt.solve.whole.integer import MOST_ON_SERVER, IntegerSearch, checked_solver
from fairopt.solve.whole.rounding import MAX_TASKS, WholeTasks, rounded

ROUNDED = "rounded"


@coefficients_cached()
def allocate_whole(
    policy: Any,
    instance: Any,
    integral: Any,
    *,
    method: str,
    solver: str | None,
    solver_options: Mapping[str, Any] | None,
    time_limit: float | None,
    verbose: bool,
) -> Allocation:
    """Allocate whole tasks; see ``integral`` of `Policy.allocate`."""
    clock = begin(time_limit)
    settings = checked_settings(instance, method, solver, solver_options, clock, verbose)
    if integral is not True and integral != ROUNDED:
        raise InvalidBlock(f"integral is {integral!r}; give True, 'rounded' or False")
    if decides_bundles(policy.objective):
        raise InvalidBlock(f"{policy.objective} decides bundles, not tasks; leave integral out")

    work = partial(_solved, policy, instance, integral, settings)

    def late() -> NoReturn:
        raise stopped(policy, clock)

    return clock.run(work, late)


def _solved(policy: Any, instance: Instance, integral: Any, settings: Settings) -> Allocation:
    """The certified answer in whole tasks."""
    begun = settings.clock.begun
    first = number_of(tiers_of(policy.objective)[0])
    part = whole_instance(instance, first, policy.constraints)
    most = np.minimum(part.tasks_alone.sum(axis=1), part.task_limits)
    for j in np.flatnonzero(most > MAX_TASKS)[:1]:
        raise OutOfDomain(
            f"user {part.users[j]!r} could run {most[j]:.3g} whole tasks, more than {MAX_TASKS:g}; allow divisible "
            "tasks, or give it a task limit"
        )
    search = None if integral == ROUNDED else _exact(policy, part, settings)
    divisible = settings if search is None else replace(settings, solver=None, options={})
    judged = solve_tiers(policy, part, divisible)
    if not judged[-1][1].ok or len(judged) < len(tiers_of(policy.objective)):
        raise_not_certified(gate.allocation(policy, judged, begun), divisible)
    program, answer = judged[-1][0], judged[-1][1]
    own = Program(part, judged[0][0].objective, policy.constraints)  # without the kept values of earlier tiers
    if search is None:
        tasks = own.gather(program.expand(answer.tasks))
        key = partial(_sort_key, policy, own)
        placement = rounded(program if len(judged) == 1 else own, tasks, key, settings.clock)
        unproved = "" if own.empty else "rounded: a better whole answer may exist"
        method = "empty" if own.empty else "rounding"
        known: dict[str, Any] = {"method": method, "solver": answer.solver, "tried": answer.tried}
    else:
        search.run()
        placement = _finished(policy, own, search, own.gather(program.expand(answer.tasks)))
        unproved = search.note or f"optimality in whole tasks rests on {search.title}"
        known = {"method": "integer", "solver": settings.solver or "HIGHS", "tried": search.tried}
    out = np.flatnonzero((part.task_limits <= 0) & (instance.task_limits > 0))
    if len(out):
        more = f" and {len(out) - 1} more" if len(out) > 1 else ""
        known["note"] = f"left out, as not one whole task fits: user {instance.users[out[0]]!r}{more}"
    made = gate.whole(policy, instance, judged, placement, begun, unproved=unproved, **known)
    if not own.empty and np.isnan(_sort_key(policy, own, placement)).any():
        raise NotCertified(
            f"the whole tasks found, near the divisible answer, are outside the domain of {policy.objective}. "
            "Fix: allow divisible tasks, or write the domain as constraints",
            best=made,
            tried=made.certificate.tried,
        )
    if not made.certificate.ok:
        c = made.certificate
        fix = "integral=True finds whole tasks that satisfy all constraints if these are linear"
        raise NotCertified(
            f"the whole tasks found violate capacities or limits by {c.violation:.2g} (tolerance 1e-9), constraints by "
            f"{c.block_violation:.2g} (1e-7). Fix: " + (fix if search is None else "try another solver"),
            best=made,
            tried=c.tried,
        )
    return made


def _exact(policy: Any, instance: Any, settings: Settings) -> IntegerSearch | None:
    """The search by mixed-integer programs; None if one is not linear, or there are too many tasks or none."""
    if not (instance.task_limits > 0).any():
        return None
    with np.errstate(all="ignore"):
        search = IntegerSearch(instance, policy.objective, policy.constraints, settings)
        if not search.linear or search.model.top.max(initial=0.0) > MOST_ON_SERVER:
            return None
    checked_solver(settings.solver)
    return search


def _finished(policy: Any, program: Program, search: IntegerSearch, divisible: Float) -> Float:
    """The search's answer with leftover capacity distributed, or if it was stopped the rounded answer if better."""
    found = search.found
    if found is not None and not search.note:
        whole = WholeTasks(program, found[program.active])
        whole.fill()
        if _sort_key(policy, program, whole.placement())[0]:
            return whole.placement()
        search.note = f"the answer of {search.title} violates a constraint: a better whole answer may exist"
    key = partial(_sort_key, policy, program)
    other = rounded(program, divisible, key, search.settings.clock)
    if found is None or key(other) > key(found):
        search.note += "; the answer is the divisible one, rounded"
        return other
    return found


def _sort_key(policy: Any, program: Program, placement: Float) -> list[float]:
    """A key that is larger for better whole tasks: feasibility first, then by tier the value or the sorted levels."""
    given = program.given
    point = program.point(program.gather(given.derived.by_row(placement)))
    fits = gate.whole(policy, given, [(program, gate.nothing(program))], placement, 0.0, method="").certificate.ok
    out: list[Any] = [fits]
    for tier in tiers_of(policy.objective):
        if tier.term.is_order:
            out += np.sort(point.share(tier.term.share) / point.weights_of(tier.term.share)).tolist()
        else:
            with np.errstate(all="ignore"):  # outside the domain of an objective
                out.append(tier.value(point))
    return [float(f"{v:.9g}") for v in out]
