"""The value, the levels and the violation of tasks that were found elsewhere, without a proof."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.algebra import tiers_of
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.proof.feasibility import violation_at
from fairopt.proof.gate import of_nothing
from fairopt.runtime.arrays import Float
from fairopt.solve.form.program import Program


def measured(policy: Any, instance: Instance, tasks_by_server: Float) -> Allocation:
    """Tasks as an allocation whose certificate has the violations, and an infinite gap.

    Of mechanisms without an objective the value is NaN. Policies that decide bundles are refused.
    """
    value, of_blocks = np.nan, 0.0
    if hasattr(policy, "objective"):
        (first, *_) = tiers_of(policy.objective)
        program = Program(instance, first, policy.constraints)
        if not program.decides_tasks:
            raise InvalidBlock(f"{policy} decides bundles, which tasks do not show; give an allocation")
        tasks = program.gather(np.where(instance.eligible, tasks_by_server, 0.0))
        with np.errstate(all="ignore"):
            value = 0.0 if program.empty else float(program.objective.stated(program.point(tasks)))
            of_blocks = violation_at(program, tasks)
    return of_nothing(instance, tasks_by_server, policy, method="measured", value=value, block_violation=of_blocks)


def levels_of(allocation: Allocation) -> Float:
    """Shares per weight, of users or of teams, that the first tier of an answer's objective compares."""
    instance, part = allocation.instance, allocation._taking_part
    if not len(part):
        return np.zeros(0)
    (share, *_) = tiers_of(allocation.policy.objective)[0].share_blocks()
    if share._is_plain:
        return np.asarray(allocation.share(share)[part] / instance.weights[part])
    some = taking_part(instance, part)
    values = dict(zip(share._names(instance), allocation.share(share), strict=True))
    weights = share._numbers(some, levelled=True).weights
    return np.array([values[name] / weight for name, weight in zip(share._names(some), weights, strict=True)])
