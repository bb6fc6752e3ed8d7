"""The constraints of a policy in judgements of its answers.

Pareto efficiency is judged within them: a gain counts only if the policy may choose it. So is
``sharing-incentive-within``: a user's own slice counts as far as the policy could choose it. The other properties
compare a user with what it would run elsewhere, on its own slice or on what another holds, where constraints say
nothing; they keep their definitions, and sentences say what the constraints bind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import expression_of, tiers_of
from fairopt.blocks.base import ByUser
from fairopt.blocks.constraints import Constraint, MinShare
from fairopt.blocks.model import Model, Pairs, Point
from fairopt.blocks.objectives import Objective, Total
from fairopt.blocks.rows import Rows
from fairopt.blocks.shares import Share
from fairopt.errors import Infeasible, NotCertified
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.policy import Policy
from fairopt.properties.names import OF_TEAMS
from fairopt.properties.units import quotient
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp, sp

WITHIN = ("pareto", "team-pareto", "sharing-incentive-within")
SLICE = "the policy's constraints bind the allocation, not the slice"
ASIDE = {
    "sharing-incentive": f"{SLICE}, which is judged alone; sharing-incentive-within binds both",
    "team-sharing-incentive": SLICE,
    "bottleneck": "the policy's constraints bind the allocation, not what a user is entitled to",
}
BUNDLE = "the policy's constraints bind the allocation, not what a user would run on the bundle of another"
LIES = "the policy's constraints bind the answers to both reports; a user counts the true tasks that these let it run"
PROBE = Instance([[2, 1], [1, 2]], [6, 6])  # on which an objective shows whether it requires something
SLACK = 1e-10  # of what a user has: as much less is rounding, and leaves programs an inside
OF_LIES = ("strategy-proof", "strategy-proof-boosting", "team-strategy-proof")
OF_ANSWERS = ("population-monotone", "resource-monotone")  # of which all answers keep the constraints


def constraints_of(policy: Any, instance: Instance) -> tuple[Constraint, ...]:
    """The constraints of a policy on tasks, and what user-defined objectives require on the instance.

    Empty for policies of bundles, whose constraints are on bundles, and for other mechanisms.
    """
    if not isinstance(policy, Policy) or policy.objective.of_bundles:
        return ()
    parts = [part for tier in tiers_of(policy.objective) for _, part in tier.summands() if part._by_expression]
    return (*policy.constraints, *(_Required(part) for part in parts if _requires(part, instance)))


def _requires(objective: Objective, instance: Instance) -> bool:
    """Whether an expression comes with conditions on its variables."""
    some = taking_part(instance, np.flatnonzero(instance.task_limits > 0))
    point = Point(some, some.tasks_alone)
    try:
        expression_of(objective, point)
    except Exception:  # of the user's function, which the policy's answer shows
        return False
    return bool(point.required)


def judged(name: str, policy: Any, instance: Instance = PROBE) -> str:
    """How a property is judged of a policy with constraints, in words; empty without constraints."""
    bounds = ["the policy's constraints"] if constraints_of(policy, instance) else []
    bounds += ["the limits of the instance"] if instance.limits else []
    if name in WITHIN and bounds:
        return f"within {' and '.join(bounds)}"
    if not (isinstance(policy, Policy) and policy.constraints) or name in OF_ANSWERS:
        return ""
    return LIES if name in OF_LIES else ASIDE.get(name, BUNDLE)


def decided_on_pools(name: str, policy: Any, instance: Instance = PROBE) -> bool:
    """Whether a property is measured on many pools at once, and confirmed by definition: not within constraints."""
    return name not in OF_TEAMS and not (name in WITHIN and constraints_of(policy, instance))


def most_gains(
    allocation: Allocation, share: Share, runs: Float, factors: Float, time_limit: float | None
) -> tuple[Allocation, Float]:
    """The answer that maximises ``factors @ gains`` in ``share`` over all that the policy may choose while nobody has
    less than ``runs``, and a bound on the gain of each user.

    The program is a policy itself, so that the gate proves its answer, and bounds follow from its gap.
    """
    instance = allocation.instance
    floors = runs * (1.0 - SLACK)
    total = Total(Counted(share, ByUser(dict(zip(instance.users, factors.tolist(), strict=True)))))
    program = Policy(total, [*constraints_of(allocation.policy, instance), MinShare(tuple(floors.tolist()), share)])
    answer = program.allocate(instance, time_limit=time_limit)
    most = answer.objective * np.exp(answer.certificate.gap)
    others = factors @ floors - factors * floors
    bounds = quotient(most - others, factors, np.inf) - runs
    return answer, np.maximum(bounds, 0.0)


def most_on_slices(
    allocation: Allocation, share: Share, user: str, time_limit: float | None
) -> tuple[float, float, Float] | None:
    """The most of ``share`` that a user has where all users run on their own slices and the policy's constraints hold;
    a bound on it, and the tasks by server. None if no tasks on the slices satisfy the constraints.
    """
    instance = allocation.instance
    total = Total(Counted(share, ByUser({user: 1.0})))
    program = Policy(total, [*constraints_of(allocation.policy, instance), _OnSlices()])
    try:
        answer = program.allocate(instance, time_limit=time_limit)
    except Infeasible:
        return None
    except NotCertified:  # what the user has there stays open
        return 0.0, np.inf, np.zeros(instance.eligible.shape)
    most = max(float(answer.objective), 0.0)
    bound = most * float(np.exp(answer.certificate.gap)) if np.isfinite(answer.certificate.gap) else np.inf
    return most, bound, np.asarray(answer.tasks_by_server)


@dataclass(frozen=True, repr=False)
class _OnSlices(Constraint):
    """Every user runs on its own slice of each server."""

    def rows(self, pairs: Pairs) -> dict[str, Rows]:
        instance = pairs.instance
        own = instance.tasks_alone * (instance.weights / instance.derived.total_weight)[:, None]
        return {"slices": Rows(sp.eye_array(len(pairs), format="csr"), own[pairs.user, pairs.server])}


@dataclass(frozen=True, repr=False)
class Counted(Share):
    """A share times a number of each user."""

    share: Share
    factors: ByUser

    def per_task(self, instance: Instance) -> Float:
        """See `Share.per_task`."""
        c = self.share.coefficients(instance)
        factors = instance.per_user(self.factors, "factors", default=0.0)
        return c * (factors if c.ndim == 1 else factors[:, None])


@dataclass(frozen=True, repr=False)
class _Required(Constraint):
    """What an objective of one's own requires of its variables, and so of tasks."""

    objective: Objective

    def constraints(self, model: Model) -> dict[str, cp.Constraint]:
        expression_of(self.objective, model)
        return {}
