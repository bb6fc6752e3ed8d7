"""PS-DSF: a notion for several servers that is not a single optimisation problem."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from fairopt.allocation import Allocation
from fairopt.errors import NotCertified
from fairopt.instance import Instance
from fairopt.instance.parts import taking_part
from fairopt.policies.mechanism import Mechanism
from fairopt.proof import gate
from fairopt.proof.server_rises import largest_gain
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import Clock, check
from fairopt.solve.cluster.psdsf import equilibrium


@dataclass(frozen=True)
class PSDSF(Mechanism):
    """Per-Server Dominant-Share Fairness (Khamse-Ashari et al. 2017).

    User j's virtual share on server s is ``v_js = x_j / gamma_js``, where ``x_j`` are its tasks on all servers and
    ``gamma_js = min_i C_si / d_jsi`` those that it could run alone on s. An allocation is PS-DSF if no ``x_js`` can
    increase without decreasing some ``x_ks`` with ``v_ks / w_k <= v_js / w_j``. On one pool it is `DRF`.

    Such allocations need not be unique, mainly with task limits. Gains are relative to all tasks of a user, so a server
    that is tiny relative to the others may stay idle within the tolerance. The objective is the smallest virtual share
    per weight, and the gap is the largest fraction of its tasks that a user could gain on a server without taking from
    users at its level or below. There are no prices. The search converged on all of 16,000 random small clusters, and
    on all but 5 of 11,700 with demands over twelve decades.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[1, 2], [2, 1]], [[6, 6], [4, 2]])
    >>> fo.PSDSF().allocate(cluster).tasks_by_server.round(3)
    array([[2.667, 0.   ],
           [0.667, 2.   ]])
    """

    _name = "PS-DSF"

    def _solved(self, instance: Instance, clock: Clock) -> Allocation:
        part = instance.task_limits > 0
        some = instance if part.all() else taking_part(instance, part)
        nearest = deque[Float](maxlen=1)  # tasks by users who take part and classes of servers

        def spread() -> Float:
            tasks = np.zeros(instance.eligible.shape)
            if nearest:
                tasks[part] = some.derived.spread(nearest[0])
            return tasks

        def work() -> Allocation:
            if part.any():
                check("bringing servers into balance")
                nearest.append(equilibrium(some.merged(), clock, nearest.append))
            return self._judged(instance, spread(), clock)

        def late() -> Allocation:  # only feasibility is quick to measure
            clock.refuse(gate.of_equilibrium(self, instance, spread(), clock.begun, gap=np.inf) if nearest else None)

        return clock.run(work, late)

    def _judged(self, instance: Instance, tasks: Float, clock: Clock) -> Allocation:
        """The certified allocation of these tasks; `NotCertified` if they are no equilibrium."""
        check("the proof")
        allocation = gate.of_equilibrium(self, instance, tasks, clock.begun)
        certificate = allocation.certificate
        if not certificate.ok:
            gain, j, s = largest_gain(instance, tasks)
            fix = "see .best for the best found" if clock.time_limit is None else "give it more time_limit"
            raise NotCertified(
                f"no PS-DSF allocation was found: user {instance.users[j]!r} could still rise by {gain:.2g} of what it "
                f"has on server {instance.servers[s]!r} (tolerance 1e-6), violation {certificate.violation:.2g} "
                f"(1e-9). Fix: {fix}",
                best=allocation,
            )
        return allocation
