"""Whole tasks under a policy: by mixed-integer linear programs if possible, else the rounded divisible answer.

The tasks of each server are whole numbers under the policy's own constraints (Definition 14.8). The bound is that of
divisible tasks, which whole tasks cannot exceed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

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
from fairopt.solve.whole.integer import MAY_EXIST, MOST_ON_SERVER, IntegerSearch, checked_solver
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

    call = _Call(policy, instance, integral, settings)
    return clock.run(call.solved, call.so_far)


class _Call:
    """A call for whole tasks: the divisible answer, rounded, and what integer programs find beside it.

    What is ``rounded`` is the answer so far while the integer programs are written and solved, which may overrun a time
    limit.
    """

    def __init__(self, policy: Any, instance: Instance, integral: Any, settings: Settings) -> None:
        self.policy, self.instance, self.settings = policy, instance, settings
        self.exact = integral is True
        self.search: IntegerSearch | None = None
        self.rounded: Float | None = None

    def solved(self) -> Allocation:
        """The certified answer in whole tasks."""
        policy, instance = self.policy, self.instance
        first = number_of(tiers_of(policy.objective)[0])
        self.part = part = whole_instance(instance, first, policy.constraints)
        most = np.minimum(part.tasks_alone.sum(axis=1), part.task_limits)
        for j in np.flatnonzero(most > MAX_TASKS)[:1]:
            raise OutOfDomain(
                f"user {part.users[j]!r} could run {most[j]:.3g} whole tasks, more than {MAX_TASKS:g}; allow divisible "
                "tasks, or give it a task limit"
            )
        # a solver that is asked for solves the integer programs, or the divisible ones where these are not linear
        named = self.settings.solver is not None or bool(self.settings.options)
        self.search = self._search() if self.exact and named else None
        divisible = self.settings if self.search is None else replace(self.settings, solver=None, options={})
        self.judged = judged = solve_tiers(policy, part, divisible)
        if not judged[-1][1].ok or len(judged) < len(tiers_of(policy.objective)):
            raise_not_certified(gate.allocation(policy, judged, self.settings.clock.begun), divisible)
        program, answer = judged[-1][0], judged[-1][1]
        # without the kept values of earlier tiers
        self.own = own = Program(part, judged[0][0].objective, policy.constraints)
        self.key = partial(_sort_key, policy, own)
        tasks, of_one = own.gather(program.expand(answer.tasks)), program if len(judged) == 1 else own
        self.rounded = rounded(of_one, tasks, self.key, self.settings.clock)
        if self.exact and not named:
            self.search = self._search()
        if self.search is None:
            return self._made(self.rounded, "" if own.empty else f"rounded: {MAY_EXIST}")
        self.search.run()
        return self._best(self.search.found, self.search.note)

    def so_far(self) -> Allocation:
        """The best answer when the time is over."""
        if self.rounded is None:
            raise stopped(self.policy, self.settings.clock)
        found, note = (None, "") if self.search is None else (self.search.found, self.search.note)
        return self._best(found, note or f"the time limit was reached at {self.settings.clock.at}: {MAY_EXIST}")

    def _search(self) -> IntegerSearch | None:
        """The search by mixed-integer programs; None if one is not linear, or there are too many tasks or none."""
        if not (self.part.task_limits > 0).any():
            return None
        with np.errstate(all="ignore"):
            search = IntegerSearch(self.part, self.policy.objective, self.policy.constraints, self.settings)
            if not search.linear or search.model.top.max(initial=0.0) > MOST_ON_SERVER:
                return None
        checked_solver(self.settings.solver)
        return search

    def _best(self, found: Float | None, note: str) -> Allocation:
        """The search's answer with leftover capacity distributed, or if it was stopped the rounded answer if better.

        A ``note`` says that it was stopped.
        """
        title = "HiGHS" if self.search is None else self.search.title
        if found is not None and not note:
            whole = WholeTasks(self.own, found[self.own.active])
            whole.fill()
            if self.key(whole.placement())[0]:
                return self._made(whole.placement(), f"optimality in whole tasks rests on {title}")
            note = f"the answer of {title} violates a constraint: {MAY_EXIST}"
        assert self.rounded is not None
        if found is None or self.key(self.rounded) > self.key(found):
            return self._made(self.rounded, note + "; the answer is the divisible one, rounded")
        return self._made(found, note)

    def _made(self, placement: Any, unproved: str) -> Allocation:
        """The answer of a placement, if it is certified."""
        policy, instance, part, own = self.policy, self.instance, self.part, self.own
        answer, search = self.judged[-1][1], self.search
        known: dict[str, Any] = {"method": "empty" if own.empty else "rounding"}
        known |= {"solver": answer.solver, "tried": answer.tried}
        if search is not None:
            known = {"method": "integer", "solver": self.settings.solver or "HIGHS", "tried": search.tried}
        out = np.flatnonzero((part.task_limits <= 0) & (instance.task_limits > 0))
        if len(out):
            more = f" and {len(out) - 1} more" if len(out) > 1 else ""
            known["note"] = f"left out, as not one whole task fits: user {instance.users[out[0]]!r}{more}"
        begun = self.settings.clock.begun
        made = gate.whole(policy, instance, self.judged, placement, begun, unproved=unproved, **known)
        if not own.empty and np.isnan(self.key(placement)).any():
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
                f"the whole tasks found violate capacities or limits by {c.violation:.2g} (tolerance 1e-9), "
                f"constraints by {c.block_violation:.2g} (1e-7). Fix: "
                + (fix if search is None else "try another solver"),
                best=made,
                tried=c.tried,
            )
        return made


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
