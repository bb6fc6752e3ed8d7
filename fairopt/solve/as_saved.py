"""Certificates of solvers' answers by the numbers that files hold, not by those that a solver left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import FairoptError
from fairopt.proof import gate
from fairopt.proof.gate import JudgedPoint, Tiers
from fairopt.proof.proposal import Proposal
from fairopt.solve.form.program import Program

AS_LEFT = ("duals", "level duals", "rows")  # entries that are what was judged


@np.errstate(all="ignore")  # prices near the largest float prove nothing
def judged_as_saved(policy: Any, tiers: Tiers, answer: Allocation, begun: float) -> Allocation:
    """The answer with the gaps that its entries of evidence prove, as readers of its file will find them.

    As it is where the entries prove less than the tolerance: the gate then knows a tighter bound than their readers.
    """
    if len(answer.evidence) < len(tiers):  # of bundles, which prove themselves
        return answer
    judged = [
        (program, _by_entry(policy, program, found, entry))
        for (program, found), entry in zip(tiers, answer.evidence, strict=True)
    ]
    if all(again is found for (_, again), (_, found) in zip(judged, tiers, strict=True)):
        return answer
    made = gate.allocation(policy, judged, begun, kept=answer.evidence)
    return made if made.certificate.ok else answer


def _by_entry(policy: Any, program: Program, found: JudgedPoint, entry: Mapping[str, Any] | None) -> JudgedPoint:
    """A tier's answer, judged by its entry; as it was found where that proves nothing or is what was judged."""
    if found.evidence is None or not entry or entry.get("loaded", entry).get("kind", "duals") in AS_LEFT:
        return found
    from fairopt.proof.evidence.kinds import restored

    try:
        read = restored(program, entry, found.solver, policy.constraints)
        again = gate.judge(program, Proposal(found.method, found.tasks, read))
    except (FairoptError, LookupError, TypeError, ValueError):
        return found
    judged = {name: getattr(again, name) for name in ("gap", "gaps", "assumed", "prices")}
    return replace(found, evidence=read, **judged) if again.ok else found
