"""Certificates of solvers' answers by the numbers that files hold, not by those that a solver left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import FairoptError
from fairopt.proof import gate
from fairopt.proof.gate import Tiers
from fairopt.proof.proposal import Proposal

AS_LEFT = ("duals", "level duals", "rows")  # entries that are what was judged


@np.errstate(all="ignore")  # prices near the largest float prove nothing
def judged_as_saved(policy: Any, tiers: Tiers, answer: Allocation, begun: float) -> Allocation:
    """The answer with the gap that its entry of evidence proves, as `Allocation.load` will find it.

    As it is where the entry proves less than the tolerance: the gate then knows a tighter bound than its readers.
    """
    (program, found), *more = tiers
    entry = answer.evidence[0] if answer.evidence else None
    if more or not entry or entry.get("kind", "duals") in AS_LEFT:
        return answer
    from fairopt.proof.evidence.kinds import restored

    try:
        read = restored(program, entry, found.solver, policy.constraints)
        again = gate.judge(program, Proposal(found.method, program.gather(answer.tasks_by_server), read))
    except (FairoptError, LookupError, TypeError, ValueError):
        return answer
    if not again.ok:
        return answer
    judged = replace(found, gap=again.gap, gaps=again.gaps, assumed=again.assumed)
    return gate.allocation(policy, [(program, judged)], begun, kept=answer.evidence)
