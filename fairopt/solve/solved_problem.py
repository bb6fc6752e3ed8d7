"""Answers of problems that the user solved, with evidence for files if the prices of capacities prove them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fairopt.allocation import Allocation, ChangedByHand
from fairopt.blocks.shares import coefficients_cached
from fairopt.instance import Instance
from fairopt.proof import gate
from fairopt.proof.entries import Named
from fairopt.proof.evidence.solved import Solved
from fairopt.proof.proposal import Proposal
from fairopt.proof.read_problem import read_problem
from fairopt.runtime.lazy import cp
from fairopt.runtime.threads import one_thread
from fairopt.solve.form.program import Program


@one_thread()
@coefficients_cached()
def read(policy: Any, problem: cp.Problem, instance: Instance) -> Allocation:
    """See `Policy.certify`."""
    answer = read_problem(policy, problem, instance)
    prices, stated = answer.evidence_prices, answer.policy
    if prices is None or answer.given_bundles is not None or isinstance(stated, ChangedByHand):
        return answer
    program = Program(instance, stated.objective, stated.constraints)
    if program.empty or program.rest:  # multipliers of further conditions are unknown in the units of their rows
        return answer
    if program.merge:
        classes = program.unmerged.derived.server_classes
        prices = np.array([prices[classes == k].mean(axis=0) for k in range(program.instance.n_servers)])
    whole = np.maximum(prices, 0.0) * program.whole_capacities
    evidence = Solved.of_prices(program, whole.ravel(), answer.certificate.solver)
    proposed = Proposal("read", program.gather(answer.tasks_by_server), evidence)
    if not gate.judge(program, proposed).ok:
        return answer
    entry = gate.entry_of(
        program, evidence, program.gather(answer.tasks_by_server), Named(stated.constraints), stated.objective
    )
    return replace(answer, evidence=(entry,))
